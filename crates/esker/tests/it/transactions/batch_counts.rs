//! Counts of indexed batches, entities of a batch alone, and merge chains that are collapsed.

use super::{open, options};
use esker::txn::BatchCfStat;
use esker::{ColumnFamilyId, Db, ErrorKind, ReadOptions, WideColumns, WriteBatchWithIndex};
use std::sync::Arc;

const FIRST: ColumnFamilyId = ColumnFamilyId::DEFAULT;
const OTHER: ColumnFamilyId = ColumnFamilyId(7);

fn batch(overwrite_key: bool) -> WriteBatchWithIndex {
    let mut batch = WriteBatchWithIndex::new(Arc::new(esker::comparator::BytewiseComparator), overwrite_key);
    batch.single_delete("a").unwrap();
    batch.put("a", "1").unwrap();
    batch.put("a", "2").unwrap();
    batch.put("b", "1").unwrap();
    batch.merge("b", "2").unwrap();
    batch.merge("b", "3").unwrap();
    batch.single_delete("c").unwrap();
    batch.put_cf(OTHER, "a", "1").unwrap();
    batch.put_log_data(b"a note").unwrap();
    batch.delete_range("x", "y").unwrap();
    batch
}

fn stat(entry_count: u32, overwritten_sd_count: u32) -> BatchCfStat {
    let mut stat = BatchCfStat::default();
    (stat.entry_count, stat.overwritten_sd_count) = (entry_count, overwritten_sd_count);
    stat
}

#[test]
fn a_batch_counts_its_entries_by_family_and_the_single_deletions_that_later_ops_hide() {
    let overwriting = batch(true);
    let stats = overwriting.cf_stats().unwrap();
    assert_eq!(stats.into_iter().collect::<Vec<_>>(), [(FIRST, stat(5, 1)), (OTHER, stat(1, 0))]);
    assert_eq!((overwriting.op_count(), overwriting.len()), (8, 9), "without the range deletion");
    let stats = batch(false).cf_stats().unwrap();
    assert_eq!(stats.into_iter().collect::<Vec<_>>(), [(FIRST, stat(7, 0)), (OTHER, stat(1, 0))]);
    assert!(WriteBatchWithIndex::default().cf_stats().unwrap().is_empty());

    let mut rolled_back = batch(true);
    rolled_back.set_save_point();
    rolled_back.put("c", "1").unwrap();
    assert_eq!(rolled_back.cf_stats().unwrap()[&FIRST], stat(5, 2));
    rolled_back.rollback_to_save_point().unwrap();
    assert_eq!((rolled_back.cf_stats().unwrap()[&FIRST], rolled_back.op_count()), (stat(5, 1), 8));
}

#[test]
fn an_iterator_over_a_batch_numbers_the_ops_of_a_key() {
    let facts = |batch: &WriteBatchWithIndex| {
        let mut iter = batch.iter(FIRST).unwrap();
        iter.seek_to_first();
        let mut facts = Vec::new();
        while let Some(entry) = iter.entry() {
            let key = String::from_utf8(entry.key.clone()).unwrap();
            facts.push((key, iter.update_count(), iter.has_overwritten_single_del()));
            iter.next();
        }
        assert_eq!((iter.update_count(), iter.has_overwritten_single_del()), (0, false), "not valid");
        facts
    };
    let of = |key: &str, count, hides| (key.to_owned(), count, hides);
    let overwriting =
        [of("a", 3, true), of("b", 3, false), of("b", 2, false), of("b", 1, false), of("c", 1, false)];
    assert_eq!(facts(&batch(true)), overwriting);
    let all = ["a", "a", "a", "b", "b", "b", "c"].map(|key| of(key, 1, false));
    assert_eq!(facts(&batch(false)), all);
}

#[test]
fn a_batch_alone_shows_entities_and_merges_into_their_default_column() {
    let db = Db::open(&options(), "/db").unwrap();
    let family = db.default_column_family();
    db.put("elsewhere", "0").unwrap();
    let mut batch = WriteBatchWithIndex::default();
    batch.put("plain", "1").unwrap();
    batch.put_entity("entity", &[(b"z", b"2"), (b"a", b"1")]).unwrap();
    batch.put_entity("merged", &[(b"", b"1"), (b"a", b"2")]).unwrap();
    batch.merge("merged", "3").unwrap();
    batch.put_entity("without default", &[(b"a", b"2")]).unwrap();
    batch.merge("without default", "3").unwrap();
    batch.delete("deleted").unwrap();
    batch.merge("deleted", "4").unwrap();
    batch.delete("gone").unwrap();
    batch.merge("elsewhere", "5").unwrap();
    let read = |key: &str| batch.get_entity_from_batch(&family, key.as_bytes());
    let columns = |key: &str| {
        let show = |entity: WideColumns| -> Vec<_> {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            entity.iter().map(|(name, value)| format!("{}={}", text(name), text(value))).collect()
        };
        read(key).unwrap().map(|entity| show(entity).join(" "))
    };
    assert_eq!(columns("plain").unwrap(), "=1");
    assert_eq!(columns("entity").unwrap(), "a=1 z=2");
    assert_eq!(columns("merged").unwrap(), "=1,3 a=2");
    assert_eq!(columns("deleted").unwrap(), "=4");
    assert_eq!((columns("gone"), columns("unknown")), (None, None));
    assert_eq!(read("elsewhere").unwrap_err().kind(), ErrorKind::MergeInProgress);

    // The database shows the same once the batch is written.
    let keys = ["plain", "entity", "merged", "without default", "deleted", "gone"];
    let alone: Vec<_> = keys.iter().map(|key| read(key).unwrap()).collect();
    db.write(&mut batch).unwrap();
    for (key, alone) in keys.iter().zip(alone) {
        assert_eq!(db.get_entity(&ReadOptions::default(), &family, key).unwrap(), alone, "{key}");
    }
}

#[test]
fn a_collapsed_key_has_one_value_in_place_of_its_operands() {
    let db = open();
    let (read, family) = (ReadOptions::default(), db.default_column_family());
    for operand in ["a", "b", "c"] {
        db.merge("k", operand).unwrap();
    }
    let operands = || db.db().get_merge_operands(&read, &family, "k", 10).unwrap().len();
    assert_eq!(operands(), 3);
    let txn = db.begin_transaction();
    txn.collapse_key(&read, &family, "k").unwrap();
    assert_eq!((txn.num_puts(), txn.num_keys()), (1, 1));
    txn.commit().unwrap();
    assert_eq!((operands(), db.get("k").unwrap().unwrap()), (1, b"a,b,c".to_vec()));
    let txn = db.begin_transaction();
    assert_eq!(txn.collapse_key(&read, &family, "none").unwrap_err().kind(), ErrorKind::NotFound);
}
