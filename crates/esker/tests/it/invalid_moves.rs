//! A step of an invalid iterator leaves it invalid, for every kind of iterator and in every state.

use esker::internals::env::mem::MemFs;
use esker::txn::{BatchIterator, TransactionIterator};
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyId, Db, DbIterator, DbWithTtl, Env, MultiScanArgs, OpenMode,
    OptimisticTransactionDb, OptimisticTransactionOptions, Options, ReadOptions, ReadTier, SstFileIterator,
    SstFileReader, SstFileWriter, TransactionDb, TransactionDbOptions, TransactionOptions, TtlIterator,
    WriteBatchWithIndex, WriteOptions,
};
use std::sync::Arc;

const KEYS: usize = 40;

fn key(i: usize) -> Vec<u8> {
    format!("k{i:03}").into_bytes()
}

fn options() -> Options {
    let mut options = Options::default();
    options.cf.table.block_size = 256;
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.merge_operator = esker::builtin::merge_operator("stringappend");
    options.cf.disable_auto_compactions = true;
    options
}

/// A name, and the moves of an iterator.
type Way<'a> = (&'a str, &'a dyn Fn(&mut dyn Moves));
/// A name, and the moves of a database's iterator.
type DbWay<'a> = (&'a str, &'a dyn Fn(&mut DbIterator));

/// The moves that all iterators have.
trait Moves {
    fn valid(&self) -> bool;
    fn to_first(&mut self);
    fn to_last(&mut self);
    fn seek(&mut self, key: &[u8]);
    fn seek_for_prev(&mut self, key: &[u8]);
    fn next(&mut self);
    fn prev(&mut self);
    fn has_failed(&self) -> bool;
}

macro_rules! moves {
    ($($kind:ty, $iter:ident => $failed:expr;)+) => {$(
        impl Moves for $kind {
            fn valid(&self) -> bool {
                <$kind>::valid(self)
            }
            fn to_first(&mut self) {
                self.seek_to_first();
            }
            fn to_last(&mut self) {
                self.seek_to_last();
            }
            fn seek(&mut self, key: &[u8]) {
                <$kind>::seek(self, key);
            }
            fn seek_for_prev(&mut self, key: &[u8]) {
                <$kind>::seek_for_prev(self, key);
            }
            fn next(&mut self) {
                <$kind>::next(self);
            }
            fn prev(&mut self) {
                <$kind>::prev(self);
            }
            fn has_failed(&self) -> bool {
                let $iter = self;
                $failed
            }
        }
    )+};
}

moves! {
    DbIterator, iter => iter.status().is_err();
    TransactionIterator, iter => iter.status().is_err();
    TtlIterator, iter => iter.status().is_err();
    SstFileIterator, iter => iter.status().is_err();
    BatchIterator, _iter => false;
}

/// Makes all sequences of three steps from an invalid state.
fn check_steps(iter: &mut dyn Moves, what: &str) {
    assert!(!iter.valid(), "{what}");
    let had_failed = iter.has_failed();
    for steps in 0..8 {
        for step in 0..3 {
            if steps >> step & 1 == 0 {
                iter.next()
            } else {
                iter.prev()
            }
            assert!(!iter.valid(), "{what}: steps {steps:03b}, the one at {step}");
            assert_eq!(iter.has_failed(), had_failed, "{what}: a step changes no error");
        }
    }
}

/// Checks all invalid states, and that the iterator can be positioned afterwards.
fn check(iter: &mut dyn Moves, what: &str) {
    check_steps(iter, &format!("{what}, never positioned"));
    let ways: [Way<'_>; 7] = [
        ("behind the last", &|iter| {
            iter.to_last();
            iter.next();
        }),
        ("before the first", &|iter| {
            iter.to_first();
            iter.prev();
        }),
        ("behind the last, turned there", &|iter| {
            iter.to_last();
            iter.prev();
            iter.next();
            iter.next();
        }),
        ("walked through", &|iter| {
            iter.to_first();
            (0..=4 * KEYS).take_while(|_| iter.valid()).count();
            while iter.valid() {
                iter.next();
            }
        }),
        ("walked back through", &|iter| {
            iter.to_last();
            while iter.valid() {
                iter.prev();
            }
        }),
        ("sought behind all", &|iter| iter.seek(b"z")),
        ("sought before all", &|iter| iter.seek_for_prev(b"a")),
    ];
    for (way, go) in ways {
        go(iter);
        check_steps(iter, &format!("{what}, {way}"));
        iter.to_first();
        assert!(iter.valid(), "{what}, {way}: the iterator can be positioned again");
    }
}

/// Writes values, entities, operands and deletions into blob files, tables and memtables.
fn fill(db: &Db) {
    let family = db.default_column_family();
    for round in 0..3 {
        for i in 0..KEYS {
            match (i + round) % 7 {
                0 => db.delete(key(i)).unwrap(),
                1 => db.merge(key(i), b"operand").unwrap(),
                2 => {
                    let columns: [(&[u8], &[u8]); 2] = [(b"", b"default"), (b"column", b"value")];
                    db.put_entity(&WriteOptions::default(), &family, key(i), &columns).unwrap();
                }
                3 if round == 1 => db.delete_range(key(i), key(i + 2)).unwrap(),
                _ => db.put(key(i), [b'v'; 100]).unwrap(),
            }
        }
        if round < 2 {
            db.flush().unwrap();
        }
        if round == 0 {
            db.compact_range(None, None).unwrap();
        }
    }
}

#[test]
fn a_step_of_an_iterator_that_is_not_valid_leaves_it_so() {
    for blobs in [false, true] {
        let mut options = options();
        options.cf.enable_blob_files = blobs;
        let db = Db::open(&options, "/db").unwrap();
        let family = db.default_column_family();
        let iter = |options: ReadOptions| db.iter_opt(options, &family).unwrap();
        let mut of_nothing = iter(ReadOptions::new());
        for seek in [DbIterator::seek_to_first, DbIterator::seek_to_last] {
            check_steps(&mut of_nothing, "of an empty database");
            seek(&mut of_nothing);
        }
        fill(&db);
        let snapshot = db.snapshot();
        let (low, high) = (key(5), key(30));
        let plain = ReadOptions::new();
        let bounded =
            ReadOptions { iterate_lower_bound: Some(low), iterate_upper_bound: Some(high), ..plain.clone() };
        for (what, options) in [
            ("plain", plain.clone()),
            ("within bounds", bounded),
            ("that follows", ReadOptions { tailing: true, ..plain.clone() }),
            ("of a snapshot", ReadOptions::new().snapshot(&snapshot)),
            ("that pins", ReadOptions { pin_data: true, ..plain.clone() }),
            ("that ignores range deletions", ReadOptions { ignore_range_deletions: true, ..plain }),
        ] {
            check(&mut iter(options), what);
        }
    }
}

#[test]
fn a_step_from_nowhere_leads_nowhere_in_refreshed_iterators_and_over_newer_super_versions() {
    let db = Db::open(&options(), "/db").unwrap();
    fill(&db);
    let ways: [DbWay<'_>; 4] = [
        ("refreshed", &|iter| iter.refresh().unwrap()),
        ("refreshed at a snapshot", &|iter| iter.refresh_at(&db.snapshot()).unwrap()),
        ("over a flushed memtable", &|_| {
            db.put(key(1), b"again").unwrap();
            db.flush().unwrap();
        }),
        ("over compacted files", &|_| {
            db.put(key(1), b"again").unwrap();
            db.compact_range(None, None).unwrap();
        }),
    ];
    for (what, go) in ways {
        for positioned in 0..3 {
            let mut iter = db.iter().unwrap();
            match positioned {
                0 => {}
                1 => {
                    iter.seek_to_last();
                    iter.next();
                }
                _ => {
                    iter.seek_to_first();
                    iter.prev();
                }
            }
            go(&mut iter);
            check(&mut iter, what);
        }
    }
    // A refresh makes a positioned iterator invalid.
    let mut iter = db.iter().unwrap();
    iter.seek(key(10));
    assert!(iter.valid());
    iter.refresh().unwrap();
    check(&mut iter, "refreshed at a key");
}

#[test]
fn a_step_after_an_error_leaves_the_error() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    fill(&db);
    db.flush().unwrap();
    drop(db);
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    let most_one = ReadOptions { max_skippable_internal_keys: 1, ..ReadOptions::new() };
    let no_io = ReadOptions { read_tier: ReadTier::BlockCache, ..ReadOptions::new() };
    for (what, options) in [("no I/O", no_io), ("one skipped", most_one)] {
        let Ok(mut iter) = db.iter_opt(options, &family) else { continue };
        iter.seek_to_first();
        while iter.valid() {
            iter.next();
        }
        assert!(iter.status().is_err(), "{what}");
        check_steps(&mut iter, what);
    }
}

#[test]
fn a_step_from_nowhere_leads_nowhere_in_iterators_of_transactions_and_batches() {
    let write = WriteOptions::default();
    let db = TransactionDb::open(&options(), &TransactionDbOptions::default(), "/db").unwrap();
    fill(db.db());
    let begin = || db.begin_transaction_opt(&write, &TransactionOptions::default());
    let transaction = begin();
    transaction.put(key(3), b"own").unwrap();
    transaction.delete(key(KEYS - 1)).unwrap();
    let family = db.db().default_column_family();
    check(&mut transaction.iter_opt(&ReadOptions::new(), &family).unwrap(), "of a transaction");
    check(&mut begin().iter_opt(&ReadOptions::new(), &family).unwrap(), "of an empty transaction");

    let db = OptimisticTransactionDb::open(&options(), "/db").unwrap();
    fill(db.db());
    let transaction = db.begin_transaction_opt(&write, &OptimisticTransactionOptions::default());
    transaction.put(key(3), b"own").unwrap();
    let family = db.db().default_column_family();
    check(&mut transaction.iter_opt(&ReadOptions::new(), &family).unwrap(), "of an optimistic transaction");

    let mut batch = WriteBatchWithIndex::default();
    let none = batch.iter(ColumnFamilyId::DEFAULT);
    none.into_iter().for_each(|mut iter| check_steps(&mut iter, "of an empty batch"));
    batch.put_cf(ColumnFamilyId::DEFAULT, key(2), b"own").unwrap();
    batch.put_cf(ColumnFamilyId::DEFAULT, key(9), b"own").unwrap();
    check(&mut batch.iter(ColumnFamilyId::DEFAULT).unwrap(), "of a batch");
    let over = batch.iter_with_base(db.db(), &ReadOptions::new(), &family);
    check(&mut over.unwrap(), "of a batch over a database");
}

#[test]
fn a_step_from_nowhere_leads_nowhere_with_timestamps_and_in_tables() {
    let ts = |n: u64| n.to_le_bytes();
    let mut options = options();
    options.cf.comparator = esker::comparator::by_name("leveldb.BytewiseComparator.u64ts").unwrap();
    let db = Db::open(&options, "/db").unwrap();
    let (write, family) = (WriteOptions::default(), db.default_column_family());
    for i in 0..KEYS {
        db.put_with_ts(&write, &family, key(i), &ts(i as u64 % 4 + 1), b"value").unwrap();
        if i % 3 == 0 {
            db.delete_with_ts(&write, &family, key(i), &ts(9)).unwrap();
        }
        if i == KEYS / 2 {
            db.flush().unwrap();
        }
    }
    let at = |n| ReadOptions { timestamp: Some(ts(n).to_vec()), ..ReadOptions::new() };
    check(&mut db.iter_opt(at(20), &family).unwrap(), "at a timestamp");
    let versions = ReadOptions { iter_start_ts: Some(ts(0).to_vec()), ..at(20) };
    check(&mut db.iter_opt(versions, &family).unwrap(), "over versions");

    for comparator in ["leveldb.BytewiseComparator.u64ts", "leveldb.BytewiseComparator"] {
        options.cf.comparator = esker::comparator::by_name(comparator).unwrap();
        let mut writer = SstFileWriter::new(&options);
        writer.open("/table.sst").unwrap();
        let is_timed = comparator.ends_with("u64ts");
        for i in 0..KEYS {
            let key = if is_timed { [key(i), ts(3).to_vec()].concat() } else { key(i) };
            writer.put(key, b"value").unwrap();
        }
        writer.finish().unwrap();
        let table = SstFileReader::open(&options, "/table.sst").unwrap();
        let read = if is_timed { at(20) } else { ReadOptions::new() };
        check(&mut table.iter(&read).unwrap(), comparator);
    }
}

#[test]
fn a_step_from_nowhere_leads_nowhere_in_iterators_with_ttl_and_planned_ranges() {
    let options = options();
    let families = vec![ColumnFamilyDescriptor::new("default", options.cf.clone())];
    let db = DbWithTtl::open(&options.db, "/ttl", families, &[100], OpenMode::ReadWrite).unwrap();
    (0..KEYS).for_each(|i| db.put(key(i), "value").unwrap());
    let family = db.base_db().default_column_family();
    check(&mut db.iter_opt(ReadOptions::new(), &family).unwrap(), "with a time to live");

    let db = Db::open(&options, "/db").unwrap();
    fill(&db);
    let mut args = MultiScanArgs::default();
    args.insert(key(2), key(4));
    args.insert(key(20), key(22));
    let mut scans = db.new_multi_scan(ReadOptions::new(), &db.default_column_family(), &args).unwrap();
    while let Some(mut scan) = scans.next_scan() {
        while scan.next_item().unwrap().is_some() {}
        (0..3).for_each(|_| assert!(scan.next_item().unwrap().is_none() && !scan.valid()));
    }
}
