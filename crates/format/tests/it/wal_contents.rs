//! WALs that RocksDB left behind hold what the database should hold.

use crate::fixtures::{database, databases, files, read};
use esker_base::crc32c;
use esker_format::file_name::FileType;
use esker_format::log::{LogEvent, LogReader, LogWriter, SliceSource};
use esker_format::write_batch::{BatchOp, PrepareKind, WriteBatch, WriteBatchView};
use std::collections::BTreeMap;

/// All events of a WAL, each record as bytes.
fn events(number: u64, bytes: &[u8]) -> Vec<(LogEvent, Vec<u8>)> {
    let mut reader = LogReader::new(SliceSource(bytes), number);
    let mut found = Vec::new();
    loop {
        let mut record = Vec::new();
        let event = reader.next_record(&mut record).unwrap();
        found.push((event, record));
        if event == LogEvent::End {
            return found;
        }
    }
}

fn batches(db: &str, number: u64) -> Vec<WriteBatch> {
    let path = database(db).join(format!("{number:06}.log"));
    let events = events(number, &read(&path));
    events
        .into_iter()
        .filter(|(event, _)| matches!(event, LogEvent::Record { .. }))
        .map(|(_, record)| WriteBatch::from_bytes(record).unwrap())
        .collect()
}

#[test]
fn every_wal_of_rocksdb_is_read_without_damage() {
    for db in databases("v") {
        for (number, path) in files(&db, FileType::Wal) {
            let name = path.display();
            let mut offset = 0;
            for (event, record) in events(number, &read(&path)) {
                match event {
                    LogEvent::Record { offset: at } => {
                        assert!(at >= offset, "{name}");
                        offset = at;
                        let view = WriteBatchView::parse(&record).unwrap_or_else(|e| panic!("{name}: {e}"));
                        assert_eq!(view.iter().filter(BatchOp::is_counted).count(), view.count() as usize);
                    }
                    LogEvent::End | LogEvent::Predecessor(_) | LogEvent::TimestampSizes => {}
                    // The rest of the log that the file held before.
                    LogEvent::OldRecord { .. } | LogEvent::Truncated { .. } | LogEvent::Corrupt { .. }
                        if name.to_string().contains("wal_recycled") => {}
                    other => panic!("{name}: {other}"),
                }
            }
        }
    }
}

/// The final state of a WAL of puts, deletes and merges, compared with what RocksDB showed of the
/// database.
#[test]
fn compressed_wal_holds_the_values() {
    let mut found = BTreeMap::new();
    for batch in batches("v11_9_wal_zstd", 4) {
        for op in &batch {
            match op {
                BatchOp::Put { key, value, .. } => drop(found.insert(key.to_vec(), value.to_vec())),
                BatchOp::Delete { key, .. } => drop(found.remove(key)),
                BatchOp::LogData(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02X}")).collect::<String>();
    let mut expected = String::from("[cf 0 default]\n");
    for (key, value) in found {
        let value = if value.len() > 32 {
            format!("#{} {:08X}", value.len(), crc32c::value(&value))
        } else {
            format!("0x{}", hex(&value))
        };
        expected.push_str(&format!("0x{} : {value}\n", hex(&key)));
    }
    let golden = read(&database("v11_9_wal_zstd").with_file_name("expected.txt"));
    assert_eq!(expected, String::from_utf8(golden).unwrap());
}

#[test]
fn batches_come_out_in_the_same_bytes() {
    for (db, number) in [("v11_9_wal_unflushed", 4), ("v11_9_column_families", 4), ("v7_8_wal_recycled", 16)]
    {
        for original in batches(db, number) {
            let mut again = WriteBatch::new();
            again.set_sequence(original.sequence());
            for op in &original {
                match op {
                    BatchOp::Put { family, key, value } => again.put_cf(family, key, value),
                    BatchOp::Delete { family, key } => again.delete_cf(family, key),
                    BatchOp::SingleDelete { family, key } => again.single_delete_cf(family, key),
                    BatchOp::Merge { family, key, operand } => again.merge_cf(family, key, operand),
                    BatchOp::DeleteRange { family, begin, end } => again.delete_range_cf(family, begin, end),
                    BatchOp::PutEntity { family, key, entity } => {
                        again.put_serialized_entity(family, key, entity)
                    }
                    BatchOp::LogData(blob) => again.put_log_data(blob),
                    marker => again.put_marker(marker),
                }
                .unwrap();
            }
            assert_eq!(again.data(), original.data(), "{db}");
            assert_eq!(again.content(), original.content(), "{db}");
        }
    }
}

#[test]
fn records_come_out_in_the_same_bytes() {
    for (db, number) in [("v11_9_wal_unflushed", 4), ("v7_8_wal_empty_batch_tail", 4), ("v11_9_txn_2pc", 4)] {
        let bytes = read(&database(db).join(format!("{number:06}.log")));
        let mut writer = LogWriter::new(number, false);
        let mut again = Vec::new();
        for (event, record) in events(number, &bytes) {
            if matches!(event, LogEvent::Record { .. }) {
                writer.add_record(&record, &mut again);
            }
        }
        assert_eq!(again, bytes, "{db}");
    }
}

#[test]
fn recycled_wal_ends_where_the_older_log_begins() {
    for (number, path) in files(&database("v7_8_wal_recycled"), FileType::Wal) {
        let events = events(number, &read(&path));
        let records = events.iter().take_while(|(e, _)| matches!(e, LogEvent::Record { .. })).count();
        assert!(records > 0, "{}", path.display());
        assert!(!matches!(events[records].0, LogEvent::Record { .. }));
        assert!(
            events[records..].iter().all(|(e, _)| !matches!(e, LogEvent::Record { .. })),
            "a record of the older log was returned"
        );
    }
}

#[test]
fn transactions_are_told_apart() {
    let ops = |db: &str| -> Vec<(bool, Option<PrepareKind>)> {
        batches(db, 4)
            .iter()
            .flat_map(|b| b.iter().map(|op| (op.is_counted(), prepare_kind(op))).collect::<Vec<_>>())
            .collect()
    };
    assert!(ops("v11_9_txn_2pc").contains(&(false, Some(PrepareKind::Committed))));
    assert!(ops("v11_9_txn_writeprepared").contains(&(false, Some(PrepareKind::Persisted))));
}

fn prepare_kind(op: BatchOp<'_>) -> Option<PrepareKind> {
    match op {
        BatchOp::BeginPrepare(kind) => Some(kind),
        _ => None,
    }
}

#[test]
fn predecessors_are_reported() {
    let path = database("v11_9_wal_pred_info").join("000008.log");
    let events = events(8, &read(&path));
    let Some((LogEvent::Predecessor(info), _)) = events.first() else { panic!("{:?}", events.first()) };
    assert!(info.log_number.0 < 8 && info.size_bytes > 0 && info.last_sequence.0 > 0, "{info:?}");
}

#[test]
fn timestamp_sizes_are_reported() {
    let path = database("v11_9_udt_u64").join("000008.log");
    let bytes = read(&path);
    let mut reader = LogReader::new(SliceSource(&bytes), 8);
    let mut record = Vec::new();
    while reader.next_record(&mut record).unwrap() != LogEvent::End {}
    assert!(reader.timestamp_sizes().iter().all(|&(_, size)| size == 8));
    assert!(!reader.timestamp_sizes().is_empty());
}
