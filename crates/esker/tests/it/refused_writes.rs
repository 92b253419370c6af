//! Writes that memtables refuse: no WAL keeps them, later writes succeed, and the directory can be
//! opened.

use esker::internals::base::comparator::Comparator;
use esker::internals::env::{CrashChoices, CrashFs};
use esker::options::{CompressionType, WalRecoveryMode};
use esker::txn::WritePolicy;
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyHandle, Db, Env, Error, ErrorKind, OptimisticTransactionDb, Options,
    ReadOptions, Severity, SstFileWriter, TransactionDb, TransactionDbOptions, WriteBatch, WriteOptions,
};
use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicBool};

/// Most bytes of a key and a value together, as in the page on the format.
const MAX_ENTRY_BYTES: usize = u32::MAX as usize - 64;

/// Panics at every key that begins with "bad", also in a recovery, while `is_patient` is false.
#[derive(Default)]
struct Picky {
    is_patient: AtomicBool,
}

impl Comparator for Picky {
    fn name(&self) -> &str {
        "picky"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let is_bad = a.starts_with(b"bad") || b.starts_with(b"bad");
        assert!(!is_bad || self.is_patient.load(atomic::Ordering::SeqCst), "the comparator got a bad key");
        a.cmp(b)
    }
}

/// A disk, options for it, and the families "default" and "picky".
fn picky(comparator: Arc<Picky>) -> (CrashFs, Options, Vec<ColumnFamilyDescriptor>) {
    let disk = CrashFs::new();
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.create_missing_column_families = true;
    options.db.avoid_flush_during_shutdown = true;
    options.db.avoid_flush_during_recovery = true;
    options.db.wal_recovery_mode = WalRecoveryMode::AbsoluteConsistency;
    options.db.env = Env::with_fs(Arc::new(disk.clone()));
    let mut cf = options.cf.clone();
    cf.comparator = comparator;
    let families = [("default", options.cf.clone()), ("picky", cf)];
    let families = families.map(|(name, cf)| ColumnFamilyDescriptor::new(name, cf));
    (disk, options, families.into())
}

fn keys(db: &Db, family: &ColumnFamilyHandle) -> Vec<String> {
    let mut iter = db.iter_cf(family).unwrap();
    iter.seek_to_first();
    let mut keys = Vec::new();
    while iter.valid() {
        keys.push(String::from_utf8(iter.key().to_vec()).unwrap());
        iter.next();
    }
    iter.status().unwrap();
    keys
}

/// Puts "good", "bad" and "last" at once into the picky family, and "half" before them into the
/// other one.
fn put_bad(db: &Db, picky: &ColumnFamilyHandle, options: &WriteOptions) -> Error {
    let mut batch = WriteBatch::new();
    batch.put_cf(db.default_column_family().id(), b"half", [1; 40_000]).unwrap();
    for key in ["good", "bad", "last"] {
        batch.put_cf(picky.id(), key.as_bytes(), b"value").unwrap();
    }
    db.write_opt(options, &mut batch).unwrap_err()
}

/// Before `resume`, writes are refused: a part of the failed one is in memtables.
#[test]
fn writes_go_on_after_resume_without_a_write_that_a_memtable_refused() {
    for (recycled, unlogged, prefix) in [(0, false, "k"), (2, false, "k"), (0, true, "k"), (0, false, "")] {
        let (disk, mut options, families) = picky(Arc::default());
        options.db.recycle_log_file_num = recycled;
        let db = Db::open_cf(&options.db, "/db", families.clone()).unwrap();
        let family = db.column_family("picky").unwrap();
        let write_options = WriteOptions::default().disable_wal(unlogged);
        for i in 0..20 {
            db.put_opt(&write_options, &family, format!("{i}"), "value").unwrap();
        }
        db.put("kept", "value").unwrap();
        let mut batch = WriteBatch::new();
        let default = db.default_column_family().id();
        batch.put_cf(default, b"half", b"value").unwrap();
        batch.delete_cf(default, b"kept").unwrap();
        batch.delete_range_cf(default, prefix.as_bytes(), b"l").unwrap();
        batch.put_cf(family.id(), b"5", b"half").unwrap();
        batch.put_cf(family.id(), b"bad", b"value").unwrap();
        let snapshot = db.snapshot();
        let before = db.latest_sequence_number();
        let error = db.write_opt(&write_options, &mut batch).unwrap_err();
        assert_eq!(error.severity(), Severity::HardError, "{error}");
        assert!(db.put("later", "value").is_err() && db.flush().is_err());
        assert_eq!(db.latest_sequence_number(), before);
        let check = |db: &Db, what: &str| {
            let family = db.column_family("picky").unwrap();
            assert_eq!(db.get("half").unwrap(), None, "{what}");
            assert_eq!(db.get("kept").unwrap().unwrap(), b"value", "{what}");
            assert_eq!(db.get_cf(&family, "5").unwrap().unwrap(), b"value", "{what}");
            assert_eq!(keys(db, &family).len(), 20, "{what}");
        };
        check(&db, "before it resumes");
        db.resume().unwrap();
        assert!(db.background_error().is_none());
        check(&db, "after it has resumed");
        for key in ["later", "last"] {
            db.put(key, "value").unwrap();
        }
        check(&db, "after later writes");
        assert_eq!(keys(&db, &db.default_column_family()), ["kept", "last", "later"]);
        let at_snapshot = db.get_opt(&ReadOptions::default().snapshot(&snapshot), &family, "5").unwrap();
        assert_eq!(at_snapshot.unwrap(), b"value");
        let crashed = disk.crash_clone(&CrashChoices::process_kill());
        drop((family, snapshot));
        db.close().unwrap();
        drop(db);
        for disk in [disk, crashed] {
            options.db.env = Env::with_fs(Arc::new(disk));
            let db = Db::open_cf(&options.db, "/db", families.clone()).unwrap();
            check(&db, "after a reopen");
            assert_eq!(keys(&db, &db.default_column_family()), ["kept", "last", "later"]);
        }
    }
}

/// A transaction that starts after `resume` has no conflict with the write that failed.
#[test]
fn a_refused_write_is_no_conflict_after_resume() {
    let (_disk, options, families) = picky(Arc::default());
    let db = OptimisticTransactionDb::open_cf(&options.db, "/db", families).unwrap();
    let picky = db.db().column_family("picky").unwrap();
    db.db().put("half", "old").unwrap();
    put_bad(db.db(), &picky, &WriteOptions::default());
    db.db().resume().unwrap();
    let txn = db.begin_transaction();
    assert_eq!(txn.get_for_update("half").unwrap().unwrap(), b"old");
    txn.put("half", "new").unwrap();
    txn.commit().unwrap();
    assert_eq!(db.db().get("half").unwrap().unwrap(), b"new");
}

/// No memtable has an entry of the write, so no recovery is needed.
#[cfg(debug_assertions)]
#[test]
fn a_write_that_finds_no_memory_at_its_first_entry_stops_nothing() {
    use esker::internals::base::probe::Probes;
    for recycled in [0, 2] {
        let (disk, mut options, families) = picky(Arc::default());
        options.db.recycle_log_file_num = recycled;
        let db = Db::open_cf(&options.db, "/db", families.clone()).unwrap();
        db.put("before", "value").unwrap();
        let before = db.latest_sequence_number();
        let probes = Probes::new();
        probes.on_this_thread("arena:new_block", |value| *value.downcast_mut::<bool>().unwrap() = true);
        let error = db.put("large", vec![7; 1 << 20]).unwrap_err();
        assert!(error.message().contains("no memory") && error.is_retryable(), "{error}");
        drop(probes);
        assert_eq!((db.background_error().is_none(), db.latest_sequence_number()), (true, before));
        db.put("later", "value").unwrap();
        db.flush().unwrap();
        db.put("last", "value").unwrap();
        let crashed = disk.crash_clone(&CrashChoices::process_kill());
        db.close().unwrap();
        drop(db);
        for disk in [disk, crashed] {
            options.db.env = Env::with_fs(Arc::new(disk));
            let db = Db::open_cf(&options.db, "/db", families.clone()).unwrap();
            assert_eq!(keys(&db, &db.default_column_family()), ["before", "last", "later"]);
        }
    }
}

#[test]
fn no_wal_keeps_a_write_that_a_memtable_refused() {
    for (synced, recycled, manual, writers) in [
        (false, 0, false, 1),
        (true, 0, false, 1),
        (true, 2, false, 4),
        (false, 0, true, 1),
        (false, 2, false, 4),
    ] {
        let (disk, mut options, families) = picky(Arc::default());
        options.db.recycle_log_file_num = recycled;
        options.db.manual_wal_flush = manual;
        let db = Db::open_cf(&options.db, "/db", families.clone()).unwrap();
        let family = db.column_family("picky").unwrap();
        let write_options = WriteOptions::default().sync(synced);
        for round in 0..3 {
            for i in 0..50 {
                db.put_opt(&write_options, &family, format!("{round}-{i}"), "value").unwrap();
            }
            db.flush().unwrap();
        }
        db.put_opt(&write_options, &family, "a", "value").unwrap();
        let before = db.latest_sequence_number();
        std::thread::scope(|scope| {
            for _ in 0..writers {
                scope.spawn(|| {
                    let error = put_bad(&db, &family, &write_options);
                    assert!(error.to_string().contains("panicked"), "{error}");
                });
            }
        });
        assert_eq!(db.latest_sequence_number(), before, "no write of the group is visible");
        db.put("later", "value").unwrap_err();
        let what = format!("synced {synced}, recycled {recycled}, manual {manual}");
        let choices = if synced { CrashChoices::lose_unsynced() } else { CrashChoices::process_kill() };
        let crashed = disk.crash_clone(&choices);
        drop(family);
        db.close().unwrap();
        drop(db);
        let disks = if manual { vec![disk] } else { vec![disk, crashed] };
        for disk in disks {
            options.db.env = Env::with_fs(Arc::new(disk));
            let db = Db::open_cf(&options.db, "/db", families.clone());
            let db = db.unwrap_or_else(|e| panic!("{what}: {e}"));
            let family = db.column_family("picky").unwrap();
            assert_eq!(db.get("half").unwrap(), None, "{what}");
            let left = keys(&db, &family);
            assert_eq!((left.len(), left.last().unwrap().as_str()), (151, "a"), "{what}");
            db.put_cf(&family, "later", "value").unwrap();
        }
    }
}

/// Only the commit is refused: the section stays prepared, and the caller may roll it back.
#[test]
fn a_section_that_a_memtable_refused_is_in_no_wal() {
    let policies = [WritePolicy::WritePrepared, WritePolicy::WriteUnprepared, WritePolicy::WriteUnprepared];
    for (write_policy, spill_bytes) in policies.into_iter().zip([0, 0, 1]) {
        let comparator = Arc::<Picky>::default();
        let (_disk, options, families) = picky(comparator.clone());
        let txn_options = TransactionDbOptions {
            write_policy,
            default_write_batch_flush_threshold: spill_bytes,
            ..TransactionDbOptions::default()
        };
        let open = || TransactionDb::open_cf(&options.db, &txn_options, "/db", families.clone()).unwrap();
        let db = open();
        let family = db.db().column_family("picky").unwrap();
        db.db().put_cf(&family, "a", "value").unwrap();
        let txn = db.begin_transaction();
        txn.set_name(b"one").unwrap();
        txn.put("half", "value").unwrap();
        let put = txn.put_cf(&family, "bad", "value");
        put.and_then(|()| txn.prepare()).unwrap_err();
        comparator.is_patient.store(true, atomic::Ordering::SeqCst);
        drop((txn, family));
        db.db().close().unwrap();
        drop(db);
        for _ in 0..2 {
            let db = open();
            assert!(db.get_all_prepared_transactions().is_empty(), "{write_policy:?}");
            assert_eq!(db.db().get("half").unwrap(), None);
            assert_eq!(keys(db.db(), &db.db().column_family("picky").unwrap()), ["a"]);
            db.put("later", "value").unwrap();
            db.db().flush().unwrap();
            db.db().close().unwrap();
        }
    }
}

#[test]
fn a_commit_that_a_memtable_refused_leaves_its_section_prepared() {
    let comparator = Arc::<Picky>::default();
    let be_patient = |patient| comparator.is_patient.store(patient, atomic::Ordering::SeqCst);
    let (_disk, options, families) = picky(comparator.clone());
    let open = || {
        let txn_options = TransactionDbOptions::default();
        TransactionDb::open_cf(&options.db, &txn_options, "/db", families.clone())
    };
    let db = open().unwrap();
    let txn = db.begin_transaction();
    txn.set_name(b"one").unwrap();
    let picky = db.db().column_family("picky").unwrap();
    txn.put("half", "value").unwrap();
    txn.put_cf(&picky, "bad", "value").unwrap();
    txn.prepare().unwrap();
    db.db().put_cf(&picky, "a", "value").unwrap();
    txn.commit().unwrap_err();
    be_patient(true);
    drop((txn, picky));
    db.db().close().unwrap();
    drop(db);
    let db = open().unwrap();
    assert_eq!(db.db().get("half").unwrap(), None);
    let prepared = db.get_all_prepared_transactions();
    assert_eq!(prepared.len(), 1);
    prepared.into_iter().for_each(|txn| txn.rollback().unwrap());
    db.put("later", "value").unwrap();
}

/// The allocator refuses the memtable a block, at each block of a large batch in turn.
#[cfg(debug_assertions)]
#[test]
fn a_write_that_finds_no_memory_is_in_no_wal() {
    use esker::internals::base::probe::Probes;
    use std::sync::atomic::AtomicU64;
    let mut refusals = 0;
    for refused in 0..12 {
        let probes = Probes::new();
        let (disk, mut options, families) = picky(Arc::default());
        let db = Db::open_cf(&options.db, "/db", families.clone()).unwrap();
        db.put("before", "value").unwrap();
        let before = db.latest_sequence_number();
        let blocks = Arc::new(AtomicU64::new(0));
        let counter = blocks.clone();
        probes.on_this_thread("arena:new_block", move |value| {
            let is_refused = value.downcast_mut::<bool>().unwrap();
            *is_refused = counter.fetch_add(1, atomic::Ordering::SeqCst) == refused;
        });
        let mut batch = WriteBatch::new();
        for i in 0..50 {
            batch.put_cf(db.default_column_family().id(), format!("{i}").as_bytes(), [7; 20_000]).unwrap();
        }
        let result = db.write_opt(&WriteOptions::default().sync(true), &mut batch);
        drop(probes);
        let is_written = result.is_ok();
        if let Err(e) = result {
            refusals += 1;
            assert!(e.message().contains("no memory"), "{e}");
            assert_eq!(db.latest_sequence_number(), before);
        }
        let crashed = disk.crash_clone(&CrashChoices::lose_unsynced());
        db.close().unwrap();
        drop(db);
        for disk in [disk, crashed] {
            options.db.env = Env::with_fs(Arc::new(disk));
            let db = Db::open_cf(&options.db, "/db", families.clone()).unwrap();
            let found = keys(&db, &db.default_column_family()).len();
            assert_eq!(found, if is_written { 51 } else { 1 }, "block {refused}");
        }
    }
    assert!(refusals > 3, "{refusals}");
}

/// Zeroed pages that are not read take no memory.
#[test]
fn an_entry_beyond_the_limit_is_refused_before_anything_is_written() {
    let (_disk, options, families) = picky(Arc::default());
    let db = Db::open_cf(&options.db, "/db", families.clone()).unwrap();
    let long = vec![0; MAX_ENTRY_BYTES + 1];
    let default = db.default_column_family();
    let check = |result: esker::Result<()>, what: &str| {
        let error = result.expect_err(what);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{what}: {error}");
        assert!(error.message().contains("4294967231"), "{what}: {error}");
    };
    for bytes in [MAX_ENTRY_BYTES, MAX_ENTRY_BYTES + 1] {
        check(db.put("k", &long[..bytes]), "put");
    }
    check(db.put(&long, ""), "put of a key");
    check(db.delete(&long), "delete");
    check(db.single_delete(&long), "single_delete");
    let mut batch = WriteBatch::new();
    batch.put_cf(default.id(), b"first", b"value").unwrap();
    check(batch.merge_cf(default.id(), b"k", &long), "merge");
    check(batch.delete_range_cf(default.id(), b"k", &long), "delete_range");
    check(batch.put_serialized_entity(default.id(), b"k", &long), "put_entity");
    db.write(&mut batch).unwrap();
    let mut writer = SstFileWriter::new(&options);
    writer.open("/table.sst").unwrap();
    check(writer.put("k", &long), "SstFileWriter");
    db.put("last", "value").unwrap();
    db.close().unwrap();
    let db = Db::open_cf(&options.db, "/db", families).unwrap();
    assert_eq!(keys(&db, &db.default_column_family()), ["first", "last"]);
}

/// Whether the machine has this much memory to spare.
fn has_memory(gibibytes: u64) -> bool {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
    kibibytes.is_some_and(|kibibytes| kibibytes >= gibibytes << 20)
}

/// Needs 20 GiB of memory and 9 GiB of disk.
#[test]
#[ignore = "writes a value of 4 GiB; cargo xtask long durability runs it"]
fn the_longest_entry_goes_through_wal_memtable_and_table() {
    if !has_memory(20) {
        println!("skipped: less than 20 GiB of memory are available");
        return;
    }
    let dir = esker_testkit::TempDir::new("longest-entry");
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.avoid_flush_during_shutdown = true;
    options.db.avoid_flush_during_recovery = true;
    options.cf.compression = CompressionType::None;
    let value = vec![0; MAX_ENTRY_BYTES - 1];
    let check = |db: &Db| {
        assert_eq!(db.get("before").unwrap().unwrap(), b"value");
        let read = db.get("k").unwrap().unwrap();
        assert!(read.len() == value.len() && read.iter().all(|byte| *byte == 0));
    };
    let db = Db::open(&options, dir.path()).unwrap();
    db.put("before", "value").unwrap();
    db.put("k", &value).unwrap();
    check(&db);
    db.close().unwrap();
    drop(db);
    let db = Db::open(&options, dir.path()).unwrap();
    check(&db);
    db.flush().unwrap();
    check(&db);
    db.close().unwrap();
    drop(db);
    let db = Db::open(&options, dir.path()).unwrap();
    check(&db);
}
