use crate::write_batch::{BatchOp, WriteBatch};
use esker_base::{ColumnFamilyId, ErrorKind};

const FAMILIES: [ColumnFamilyId; 2] = [ColumnFamilyId(0), ColumnFamilyId(300)];

fn fill(batch: &mut WriteBatch) {
    for family in FAMILIES {
        batch.put_cf(family, b"put", b"value").unwrap();
        batch.delete_cf(family, b"deleted").unwrap();
        batch.put_log_data(b"said").unwrap();
        batch.single_delete_cf(family, b"once").unwrap();
        batch.merge_cf(family, b"merged", b"operand").unwrap();
        batch.delete_range_cf(family, b"a", b"b").unwrap();
        batch.put_entity_cf(family, b"entity", &[(b"a", b"1"), (b"b", b"2")]).unwrap();
        batch.push(BatchOp::BlobIndex { family, key: b"blob", index: b"index" }).unwrap();
        batch.timed_put_cf(family, b"timed", b"value", 17).unwrap();
        batch.push(BatchOp::Put { family, key: b"", value: b"" }).unwrap();
    }
}

fn protected() -> WriteBatch {
    let mut batch = WriteBatch::with_protection(8).unwrap();
    fill(&mut batch);
    batch
}

#[test]
fn an_untouched_batch_is_what_was_put_in_however_it_came_to_be() {
    let batch = protected();
    batch.verify_checksum().unwrap();
    let mut late = WriteBatch::new();
    fill(&mut late);
    assert!(late.verify_checksum().is_ok() && !late.is_protected());
    let mut appended = protected();
    appended.append(&late).unwrap();
    appended.append(&batch).unwrap();
    appended.verify_checksum().unwrap();
    late.protect(8).unwrap();
    late.verify_checksum().unwrap();
    assert_eq!(late.checksums, batch.checksums);

    let mut batch = batch;
    batch.set_save_point();
    fill(&mut batch);
    batch.rollback_to_save_point().unwrap();
    batch.verify_checksum().unwrap();
    assert_eq!(late.checksums, batch.checksums);
    batch.clear();
    fill(&mut batch);
    batch.verify_checksum().unwrap();
    assert_eq!(late.checksums, batch.checksums);
    batch.set_max_bytes(batch.data_size() + 20);
    batch.put_cf(FAMILIES[0], b"key", [0; 100]).unwrap_err();
    batch.verify_checksum().unwrap();
}

#[test]
fn every_flipped_bit_of_a_counted_op_is_found_but_of_write_times() {
    let untouched = protected();
    let mut is_free = vec![false; untouched.rep.len()];
    for at in 0..is_free.len() {
        let rest = &untouched.rep[at..];
        if rest.starts_with(b"said") {
            is_free[at - 2..at + 4].fill(true);
        } else if rest.starts_with(b"value\x11\0") {
            is_free[at + 5..at + 13].fill(true);
        }
    }
    assert_eq!(is_free.iter().filter(|free| **free).count(), 2 * (6 + 8));
    for at in (12..untouched.rep.len()).filter(|at| !is_free[*at]) {
        for bit in 0..8 {
            let mut batch = untouched.clone();
            batch.rep[at] ^= 1 << bit;
            let found = batch.verify_checksum().map_err(|e| e.kind());
            assert_eq!(found, Err(ErrorKind::Corruption), "byte {at}, bit {bit}");
        }
    }
}

#[test]
fn other_sizes_are_refused() {
    for bytes in [1, 2, 4, 7, 16] {
        assert_eq!(WriteBatch::with_protection(bytes).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let mut batch = protected();
    batch.protect(0).unwrap();
    assert!(!batch.is_protected());
    assert!(!WriteBatch::with_protection(0).unwrap().is_protected());
}
