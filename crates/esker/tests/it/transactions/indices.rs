//! Secondary indices: entries are those of the primary family, whatever transactions do.

use super::{open, options};
use esker::txn::{LockMode, SecondaryIndex, SecondaryIndexIterator, SimpleSecondaryIndex, WritePolicy};
use esker::{
    AttributeGroup, BatchOp, ColumnFamilyHandle, Error, ErrorKind, IsolationLevel, ReadOptions, Result,
    Transaction, TransactionDb, TransactionDbOptions, TransactionOptions, WriteBatch, WriteOptions,
};
use std::borrow::Cow;
use std::sync::{Arc, Mutex};

/// A database with indices over plain values and over the column `mail`, both in `secondary`.
struct Indexed {
    db: TransactionDb,
    indices: [Arc<SimpleSecondaryIndex>; 2],
    primary: ColumnFamilyHandle,
    secondary: ColumnFamilyHandle,
}

fn indexed() -> Indexed {
    let indices = [Arc::new(SimpleSecondaryIndex::new("")), Arc::new(SimpleSecondaryIndex::new("mail"))];
    let (db, primary, secondary) = open_with(indices.iter().map(|index| index.clone() as _).collect());
    Indexed { db, indices, primary, secondary }
}

fn open_with(
    indices: Vec<Arc<dyn SecondaryIndex>>,
) -> (TransactionDb, ColumnFamilyHandle, ColumnFamilyHandle) {
    let locks = TransactionDbOptions::default().transaction_lock_timeout(0).default_lock_timeout(0);
    let db = TransactionDb::open(&options(), &locks.secondary_indices(indices.clone()), "/db").unwrap();
    let primary = db.create_column_family("primary", &options().cf).unwrap();
    let secondary = db.create_column_family("secondary", &options().cf).unwrap();
    for index in &indices {
        index.set_primary_column_family(&primary).unwrap();
        index.set_secondary_column_family(&secondary).unwrap();
    }
    (db, primary, secondary)
}

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

fn rows(db: &TransactionDb, family: &ColumnFamilyHandle) -> Rows {
    db.db().range_cf(family, ..).map(|entry| entry.unwrap()).map(|(k, v)| (k, v.to_vec())).collect()
}

impl Indexed {
    /// The entries of what the primary family has.
    fn expected(&self) -> Rows {
        let mut rows = Vec::new();
        let mut iter = self.db.db().iter_cf(&self.primary).unwrap();
        iter.seek_to_first();
        while iter.valid() {
            for (name, value) in iter.columns() {
                if name.is_empty() || name == b"mail" {
                    rows.push(([&[value.len() as u8], value, iter.key()].concat(), Vec::new()));
                }
            }
            iter.next();
        }
        rows.sort();
        rows.dedup();
        rows
    }

    fn check(&self) {
        assert_eq!(rows(&self.db, &self.secondary), self.expected());
    }
}

/// The ops of a transaction, as text.
fn ops(txn: &Transaction) -> Vec<String> {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    txn.with_write_batch(|batch| {
        let op = |op| match op {
            BatchOp::Put { family, key, value } => format!("put {} {}={}", family.0, text(key), text(value)),
            BatchOp::PutEntity { family, key, .. } => format!("entity {} {}", family.0, text(key)),
            BatchOp::Delete { family, key } => format!("delete {} {}", family.0, text(key)),
            BatchOp::SingleDelete { family, key } => format!("single {} {}", family.0, text(key)),
            other => format!("{other:?}"),
        };
        batch.write_batch().iter().map(op).collect()
    })
}

/// The ops of the transaction below, as RocksDB 11.8.1 writes them.
const OPS_OF_ROCKSDB: [&str; 4] = [
    "0501026b310276310502050276316b31000802050276316b310501026b310276320502050276326b31001701",
    "026b321301030001046d61696c01046e616d6501646d6e05020401646b3200050204016d6b32000802040164",
    "6b32080204016d6b321701026b32100102046d61696c01046e616d65016d6e050204016d6b32000802050276",
    "326b310401026b31080204016d6b320801026b3201026b390176",
];

#[test]
fn ops_and_their_order_are_those_of_rocksdb() {
    let Indexed { db, primary, .. } = &indexed();
    let txn = db.begin_transaction();
    txn.put_cf(primary, "k1", "v1").unwrap();
    txn.put_cf(primary, "k1", "v2").unwrap();
    txn.put_entity(primary, "k2", &[(b"name", b"n"), (b"", b"d"), (b"mail", b"m")]).unwrap();
    txn.put_entity(primary, "k2", &[(b"mail", b"m"), (b"name", b"n")]).unwrap();
    txn.delete_cf(primary, "k1").unwrap();
    txn.delete_cf(primary, "none").unwrap();
    txn.single_delete_cf(primary, "k2").unwrap();
    txn.put("k9", "v").unwrap();
    let expected = [
        "put 1 k1=v1",
        r"put 2 \x02v1k1=",
        r"single 2 \x02v1k1",
        "put 1 k1=v2",
        r"put 2 \x02v2k1=",
        "entity 1 k2",
        r"put 2 \x01dk2=",
        r"put 2 \x01mk2=",
        r"single 2 \x01dk2",
        r"single 2 \x01mk2",
        "entity 1 k2",
        r"put 2 \x01mk2=",
        r"single 2 \x02v2k1",
        "delete 1 k1",
        r"single 2 \x01mk2",
        "single 1 k2",
        "put 0 k9=v",
    ];
    assert_eq!(ops(&txn), expected);
    let bytes: String = txn.with_write_batch(|batch| {
        batch.write_batch().data()[12..].iter().map(|byte| format!("{byte:02x}")).collect()
    });
    assert_eq!(bytes, OPS_OF_ROCKSDB.concat());
    let counts = (txn.num_keys(), txn.num_puts(), txn.num_put_entities(), txn.num_deletes());
    assert_eq!(counts, (8, 8, 2, 7));
}

#[test]
fn histories_of_transactions_leave_the_entries_of_the_values_in_force() {
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    let mut next = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 33) % below
    };
    let it = indexed();
    for round in 0..150 {
        let txn = it.db.begin_transaction();
        for _ in 0..next(8) {
            let (key, value) = (format!("k{}", next(6)), format!("v{}", next(4)));
            match next(12) {
                0..3 => txn.put_cf(&it.primary, &key, &value).unwrap(),
                3 => txn.put_untracked(&it.primary, &key, &value).unwrap(),
                4 => txn.put_entity(&it.primary, &key, &[(b"mail", value.as_bytes())]).unwrap(),
                5 => txn
                    .put_entity_untracked(&it.primary, &key, &[(b"", b"plain"), (b"mail", value.as_bytes())])
                    .unwrap(),
                6 => txn.delete_cf(&it.primary, &key).unwrap(),
                7 => txn.delete_untracked(&it.primary, &key).unwrap(),
                8 => txn.set_save_point(),
                9 => txn.disable_indexing(),
                10 => txn.enable_indexing(),
                _ => drop(txn.rollback_to_save_point()),
            }
        }
        match next(3) {
            0 => txn.rollback().unwrap(),
            1 => {
                txn.set_name(format!("{round}").as_bytes()).unwrap();
                txn.prepare().unwrap();
                txn.put_cf(&it.primary, "k0", "late").unwrap();
                txn.commit().unwrap();
            }
            _ => txn.commit().unwrap(),
        }
        if next(10) == 0 {
            it.db.db().flush_opt(&Default::default(), &[&it.primary, &it.secondary]).unwrap();
        }
        it.check();
    }
    assert!(!it.expected().is_empty());
}

#[test]
fn writes_outside_of_transactions_keep_entries_and_batches_do_not() {
    let it = indexed();
    let write = WriteOptions::new().sync(true);
    it.db.put_cf(&it.primary, "a", "1").unwrap();
    it.db.put_opt(&write, &it.primary, "b", "1").unwrap();
    it.db.put_cf(&it.primary, "a", "2").unwrap();
    it.check();
    it.db.delete_cf(&it.primary, "b").unwrap();
    it.db.delete_cf(&it.primary, "b").unwrap();
    it.check();
    assert_eq!(it.expected().len(), 1);
    let holder = it.db.begin_transaction();
    holder.get_for_update_opt(&ReadOptions::default(), &it.primary, "a", LockMode::Shared, true).unwrap();
    assert_eq!(it.db.put_cf(&it.primary, "a", "3").unwrap_err().kind(), ErrorKind::TimedOut);
    holder.rollback().unwrap();

    let mut batch = WriteBatch::new();
    batch.put_cf(&it.primary, "c", "1").unwrap();
    it.db.write(batch).unwrap();
    assert_eq!((it.expected().len(), rows(&it.db, &it.secondary).len()), (2, 1));
}

#[test]
fn merges_ranges_and_other_policies_are_refused_by_name() {
    let it = indexed();
    let txn = it.db.begin_transaction();
    let refused = |result: Result<()>| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported);
        error.to_string()
    };
    let merge = "Merge with secondary indices not yet supported";
    assert!(refused(txn.merge_cf(&it.primary, "a", "1")).contains(merge));
    let default = it.db.default_column_family();
    assert!(
        refused(txn.merge_cf(&default, "a", "1")).contains(merge),
        "RocksDB refuses them in all families"
    );
    let untracked = "MergeUntracked with secondary indices not yet supported";
    assert!(refused(txn.merge_untracked(&it.primary, "a", "1")).contains(untracked));
    assert!(refused(it.db.merge_cf(&it.primary, "a", "1")).contains(untracked));
    assert!(refused(txn.delete_range_cf(&it.primary, "a", "b")).contains("DeleteRange"));
    assert!(refused(it.db.delete_range_cf(&it.primary, "a", "b")).contains("DeleteRange"));
    txn.delete_range_cf(&default, "a", "b").unwrap();
    assert_eq!(txn.num_merges(), 0);

    for policy in [WritePolicy::WritePrepared, WritePolicy::WriteUnprepared] {
        let locks = TransactionDbOptions::default()
            .write_policy(policy)
            .secondary_indices(vec![Arc::new(SimpleSecondaryIndex::new(""))]);
        let error = TransactionDb::open(&options(), &locks, "/other").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported);
        assert!(error.to_string().contains("secondary_indices"), "{error}");
    }
}

/// An index by the last byte of a value. It stores values in lower case, and the value that came in
/// the entry. It refuses values that begin with an exclamation mark.
struct Picky {
    families: SimpleSecondaryIndex,
    seen: Mutex<Vec<(Vec<u8>, Vec<u8>)>>,
}

fn refuse(value: &[u8]) -> Result<()> {
    if value.starts_with(b"!") { Err(Error::aborted("refused")) } else { Ok(()) }
}

impl SecondaryIndex for Picky {
    fn set_primary_column_family(&self, family: &ColumnFamilyHandle) -> Result<()> {
        self.families.set_primary_column_family(family)
    }
    fn set_secondary_column_family(&self, family: &ColumnFamilyHandle) -> Result<()> {
        self.families.set_secondary_column_family(family)
    }
    fn primary_column_family(&self) -> Option<&ColumnFamilyHandle> {
        self.families.primary_column_family()
    }
    fn secondary_column_family(&self) -> Option<&ColumnFamilyHandle> {
        self.families.secondary_column_family()
    }
    fn primary_column_name(&self) -> &[u8] {
        b""
    }
    fn update_primary_column_value(&self, _: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(value.iter().any(u8::is_ascii_uppercase).then(|| value.to_ascii_lowercase()))
    }
    fn secondary_key_prefix<'a>(&self, _: &'a [u8], value: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        Ok(Cow::Borrowed(&value[value.len() - 1..]))
    }
    fn finalize_secondary_key_prefix<'a>(&self, prefix: Cow<'a, [u8]>) -> Result<Cow<'a, [u8]>> {
        refuse(&prefix)?;
        Ok(Cow::Owned([b"last ", &*prefix].concat()))
    }
    fn secondary_value<'a>(
        &self,
        _: &'a [u8],
        value: &'a [u8],
        previous: &'a [u8],
    ) -> Result<Option<Cow<'a, [u8]>>> {
        refuse(value)?;
        self.seen.lock().unwrap().push((value.to_vec(), previous.to_vec()));
        Ok(Some(Cow::Borrowed(previous)))
    }
}

fn picky() -> Arc<Picky> {
    Arc::new(Picky { families: SimpleSecondaryIndex::new(""), seen: Mutex::default() })
}

#[test]
fn an_index_may_change_the_value_and_give_the_entry_one() {
    let index = picky();
    let (db, primary, secondary) = open_with(vec![index.clone(), Arc::new(SimpleSecondaryIndex::new(""))]);
    db.put_cf(&primary, "k", "ABC").unwrap();
    assert_eq!(rows(&db, &primary), [(b"k".to_vec(), b"abc".to_vec())]);
    let entries = [(b"\x03abck".to_vec(), Vec::new()), (b"last ck".to_vec(), b"ABC".to_vec())];
    assert_eq!(rows(&db, &secondary), entries);
    assert_eq!(*index.seen.lock().unwrap(), [(b"abc".to_vec(), b"ABC".to_vec())]);
    db.delete_cf(&primary, "k").unwrap();
    assert!(rows(&db, &secondary).is_empty());
}

#[test]
fn an_error_of_an_index_undoes_the_op_in_each_state() {
    let (db, primary, secondary) = open_with(vec![Arc::new(SimpleSecondaryIndex::new("")), picky()]);
    db.put_cf(&primary, "old", "value").unwrap();
    let txn = db.begin_transaction();
    txn.put_cf(&primary, "first", "f").unwrap();
    for is_prepared in [false, true] {
        if is_prepared {
            txn.set_name(b"name").unwrap();
            txn.prepare().unwrap();
        }
        let before = (ops(&txn), txn.num_keys(), txn.num_puts());
        assert_eq!(txn.put_cf(&primary, "old", "!later").unwrap_err().kind(), ErrorKind::Aborted);
        assert_eq!(txn.put_cf(&primary, "old", "ends with !").unwrap_err().kind(), ErrorKind::Aborted);
        let groups = [
            AttributeGroup { column_family: &primary, columns: &[(b"", b"good")] },
            AttributeGroup { column_family: &primary, columns: &[(b"", b"!")] },
        ];
        txn.put_entity_attribute_groups("old", &groups).unwrap_err();
        txn.put_entity(&primary, "old", &[(b"", b"a"), (b"", b"b")]).unwrap_err();
        assert_eq!((ops(&txn), txn.num_keys(), txn.num_puts()), before);
        // Its lock is free again.
        db.put_cf(&primary, "old", "by another").unwrap();
    }
    txn.put_entity_attribute_groups(
        "group",
        &[AttributeGroup { column_family: &primary, columns: &[(b"", b"g")] }],
    )
    .unwrap();
    txn.commit().unwrap();
    assert_eq!(rows(&db, &primary).len(), 3);
    assert_eq!(rows(&db, &secondary).len(), 6);
    assert!(txn.put_cf(&primary, "old", "late").is_err(), "the transaction is over");
}

#[test]
fn the_entry_to_remove_is_that_of_the_latest_value() {
    let it = indexed();
    let snapshot = TransactionOptions::default().isolation(IsolationLevel::Snapshot);
    it.db.put_cf(&it.primary, "k", "first").unwrap();
    let txn = it.db.begin_transaction_opt(&WriteOptions::default(), &snapshot);
    it.db.put_cf(&it.primary, "k", "second").unwrap();
    assert_eq!(txn.put_cf(&it.primary, "k", "third").unwrap_err().kind(), ErrorKind::Busy);
    // As in RocksDB, entries are checked even if the key is not.
    let busy = txn.put_untracked(&it.primary, "k", "third").unwrap_err().to_string();
    assert!(busy.contains("secondk") && busy.contains("secondary"), "{busy}");
    assert!(ops(&txn).is_empty());
    txn.commit().unwrap();
    it.check();
}

#[test]
fn a_search_shows_the_keys_of_its_target_in_both_directions() {
    let it = indexed();
    let txn = it.db.begin_transaction();
    for (key, value) in [("a", "one"), ("b", "two"), ("c", "one"), ("d", "on"), ("e", "one")] {
        txn.put_cf(&it.primary, key, value).unwrap();
    }
    let own = txn.iter_opt(&ReadOptions::default(), &it.secondary).unwrap();
    let mut found = SecondaryIndexIterator::new(it.indices[0].clone(), own);
    found.seek("one");
    assert!(found.valid());
    assert_eq!((found.key(), found.value()), (&b"a"[..], &b""[..]));
    found.next();
    found.next();
    assert_eq!(found.key(), b"e");
    found.prev();
    assert_eq!(found.key(), b"c");
    found.next();
    found.next();
    assert!(!found.valid());
    found.next();
    found.status().unwrap();
    found.seek("none");
    assert!(!found.valid());
    txn.commit().unwrap();

    let index = picky();
    let (db, primary, secondary) = open_with(vec![index.clone()]);
    db.put_cf(&primary, "k", "abc").unwrap();
    let mut found = SecondaryIndexIterator::new(index, db.db().iter_cf(&secondary).unwrap());
    found.seek("c");
    assert_eq!((found.key(), found.value()), (&b"k"[..], &b"abc"[..]));
    found.prepare_value().unwrap();
    assert_eq!(found.columns(), [(&b""[..], &b"abc"[..])]);
    assert!(found.timestamp().is_empty());
    found.seek("!");
    assert!(!found.valid());
    assert_eq!(found.status().unwrap_err().kind(), ErrorKind::Aborted);
    found.seek("c");
    assert!(found.valid() && found.status().is_ok());
}

#[test]
fn families_without_an_index_are_written_as_before() {
    let it = indexed();
    let default = it.db.default_column_family();
    let txn = it.db.begin_transaction();
    txn.delete("absent").unwrap();
    txn.put_cf(&it.secondary, "own", "entry").unwrap();
    assert_eq!(ops(&txn), ["delete 0 absent", "put 2 own=entry"]);
    txn.commit().unwrap();
    assert_eq!(rows(&it.db, &default), []);
    let again = it.indices[0].set_primary_column_family(&default).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::InvalidArgument);
    let plain = open();
    plain.put("a", "1").unwrap();
    assert_eq!(rows(&plain, &plain.default_column_family()).len(), 1);
}

#[test]
fn collapsing_a_key_of_an_index_leaves_value_and_entries_as_they_are() {
    let it = indexed();
    it.db.put_cf(&it.primary, "a", "1").unwrap();
    let txn = it.db.begin_transaction();
    txn.put_entity(&it.primary, "b", &[(b"", b"2"), (b"mail", b"m")]).unwrap();
    txn.commit().unwrap();
    let (before, entries) = (it.expected(), rows(&it.db, &it.secondary));
    let txn = it.db.begin_transaction();
    for key in ["a", "b"] {
        txn.collapse_key(&ReadOptions::default(), &it.primary, key).unwrap();
    }
    txn.commit().unwrap();
    assert_eq!((it.expected(), rows(&it.db, &it.secondary)), (before, entries));
}
