//! Any bytes as a write batch: refused, or walked to the end, and written again as they were.

use esker_format::write_batch::{BatchOp, WriteBatch, WriteBatchView};

/// One input.
pub fn run(data: &[u8]) {
    let Ok(view) = WriteBatchView::parse(data) else { return };
    assert_eq!(view.iter().filter(BatchOp::is_counted).count(), view.count() as usize);
    let mut again = WriteBatch::new();
    again.set_sequence(view.sequence());
    for op in view.iter() {
        let added = match op {
            BatchOp::Put { family, key, value } => again.put_cf(family, key, value),
            BatchOp::Delete { family, key } => again.delete_cf(family, key),
            BatchOp::SingleDelete { family, key } => again.single_delete_cf(family, key),
            BatchOp::Merge { family, key, operand } => again.merge_cf(family, key, operand),
            BatchOp::DeleteRange { family, begin, end } => again.delete_range_cf(family, begin, end),
            BatchOp::PutEntity { family, key, entity } => again.put_serialized_entity(family, key, entity),
            BatchOp::LogData(blob) => again.put_log_data(blob),
            BatchOp::TimedPut { family, key, value } if value.write_unix_time() < u64::MAX => {
                again.timed_put_cf(family, key, value.value(), value.write_unix_time())
            }
            op @ BatchOp::TimedPut { .. } => again.push(op),
            // Read only.
            BatchOp::BlobIndex { .. } => return,
            marker => again.put_marker(marker),
        };
        added.unwrap();
    }
    assert_eq!(again.content(), view.content());
    assert!(again.data_size() <= data.len(), "Esker's encoding is the shortest");
    let back = WriteBatch::from_bytes(again.into_bytes()).unwrap();
    assert!(back.iter().eq(view.iter()));
}
