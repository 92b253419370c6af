//! Databases of very many families.

use esker::internals::base::probe::Probes;
use esker::internals::env::fault::{FaultFs, OpKind};
use esker::internals::env::mem::MemFs;
use esker::internals::memtable::MemoryBudget;
use esker::options::WriteBufferManager;
use esker::{ColumnFamilyDescriptor, ColumnFamilyOptions, Db, DbOptions, Env, WriteBatch, WriteOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Nanoseconds that this thread has run.
fn own_nanos() -> u64 {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    times.split_whitespace().next().unwrap().parse().unwrap()
}

/// What it costs to have so many families flushed together, apart from the flush itself.
fn nanos_of_switch(count: usize) -> u64 {
    let options = DbOptions {
        env: Env::with_fs(Arc::new(MemFs::new())),
        create_if_missing: true,
        create_missing_column_families: true,
        atomic_flush: true,
        ..DbOptions::default()
    };
    let cf = ColumnFamilyOptions { arena_block_size: 4096, ..ColumnFamilyOptions::default() };
    let names = std::iter::once("default".to_owned()).chain((1..count).map(|n| format!("f{n}")));
    let families = names.map(|name| ColumnFamilyDescriptor::new(name, cf.clone())).collect();
    let db = Db::open_cf(&options, "/db", families).unwrap();
    let mut batch = WriteBatch::new();
    for name in db.column_family_names() {
        batch.put(db.column_family(&name).unwrap().id(), b"key", b"value").unwrap();
    }
    db.write(&WriteOptions::default(), &mut batch).unwrap();
    let before = own_nanos();
    db.flush().unwrap();
    let nanos = own_nanos() - before;
    assert_eq!(db.live_files().len(), count);
    db.close().unwrap();
    nanos
}

#[test]
fn what_a_flush_of_all_families_costs_does_not_grow_with_their_square() {
    let (few, many) = (nanos_of_switch(150), nanos_of_switch(900));
    assert!(many < 15 * few, "150 families: {few} ns, 900: {many} ns");
}

fn names(count: usize) -> Vec<String> {
    std::iter::once("default".to_owned()).chain((1..count).map(|n| format!("f{n}"))).collect()
}

fn open(options: &DbOptions, names: &[String], cf: &ColumnFamilyOptions) -> Db {
    let families = names.iter().map(|name| ColumnFamilyDescriptor::new(name, cf.clone())).collect();
    Db::open_cf(options, "/db", families).unwrap()
}

fn new_options(fs: &FaultFs) -> DbOptions {
    DbOptions {
        env: Env::with_fs(Arc::new(fs.clone())),
        create_if_missing: true,
        create_missing_column_families: true,
        ..DbOptions::default()
    }
}

/// How many families replay walks over, on this thread, while the database is opened.
fn walked_while_opening(options: &DbOptions, names: &[String], cf: &ColumnFamilyOptions) -> u64 {
    let walked = Arc::new(AtomicU64::new(0));
    let (sum, thread) = (walked.clone(), std::thread::current().id());
    let probes = Probes::new();
    probes.on("recovery:families_walked", move |value| {
        if std::thread::current().id() == thread {
            sum.fetch_add(*value.downcast_ref::<u64>().unwrap(), Ordering::Relaxed);
        }
    });
    open(options, names, cf).close().unwrap();
    drop(probes);
    walked.load(Ordering::Relaxed)
}

#[test]
fn replay_looks_at_the_families_of_a_record_and_at_no_others() {
    let cf = ColumnFamilyOptions { write_buffer_size: 64 << 10, ..ColumnFamilyOptions::default() };
    let (families, records) = (200, 1000);
    let options = new_options(&FaultFs::new(Arc::new(MemFs::new())));
    let names = names(families);
    let db = open(&options, &names, &cf);
    let roomy = ColumnFamilyOptions { write_buffer_size: 64 << 20, ..cf.clone() };
    db.close().unwrap();
    let db = open(&options, &names, &roomy);
    for record in 0..records {
        db.put(format!("{record:05}"), [b'x'; 200]).unwrap();
    }
    db.close().unwrap();
    let walked = walked_while_opening(&options, &names, &cf);
    assert!(walked > 0, "the walks at the begin and the end of replay are counted");
    assert!(
        walked <= 8 * families as u64,
        "{records} records of one of {families} families: {walked} looked at"
    );
}

#[test]
fn opening_writes_a_table_for_each_family_and_syncs_the_directory_once_for_all() {
    let dir_syncs = |count: usize| {
        let fs = FaultFs::new(Arc::new(MemFs::new()));
        let (options, names) = (new_options(&fs), names(count));
        let db = open(&options, &names, &ColumnFamilyOptions::default());
        let mut batch = WriteBatch::new();
        for name in &names {
            batch.put(db.column_family(name).unwrap().id(), b"key", b"value").unwrap();
        }
        db.write(&WriteOptions::default(), &mut batch).unwrap();
        db.close().unwrap();
        let before = (fs.op_count_of(OpKind::DirSync), fs.op_count_of(OpKind::Sync));
        let db = open(&options, &names, &ColumnFamilyOptions::default());
        let after = (fs.op_count_of(OpKind::DirSync), fs.op_count_of(OpKind::Sync));
        assert_eq!(db.live_files().len(), count);
        for name in &names {
            let family = db.column_family(name).unwrap();
            assert_eq!(db.get_cf(&family, b"key").unwrap().as_deref(), Some(&b"value"[..]));
        }
        db.close().unwrap();
        (after.0 - before.0, after.1 - before.1 - count as u64)
    };
    assert_eq!(dir_syncs(3), dir_syncs(300));
}

#[test]
fn recovery_keeps_to_the_bound_of_the_write_buffer_manager() {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let (options, names) = (new_options(&fs), names(20));
    let cf = ColumnFamilyOptions::default();
    let db = open(&options, &names, &cf);
    let families: Vec<_> = names.iter().map(|name| db.column_family(name).unwrap()).collect();
    for record in 0..400 {
        for family in &families {
            db.put_cf(family, format!("{record:05}"), [b'x'; 1000]).unwrap();
        }
    }
    db.close().unwrap();
    // 8 MB in the WAL.
    let bound = 2 << 20;
    let manager = Arc::new(WriteBufferManager::new(bound, false));
    let most = Arc::new(AtomicU64::new(0));
    let (seen, watched) = (most.clone(), manager.clone());
    fs.on_op(move |_| {
        seen.fetch_max(watched.memory_usage() as u64, Ordering::Relaxed);
    });
    let bounded = DbOptions { write_buffer_manager: Some(manager), ..options.clone() };
    let db = open(&bounded, &names, &cf);
    fs.clear_hook();
    let most = most.load(Ordering::Relaxed);
    assert!(most <= 2 * bound as u64, "{most} bytes of memtables under a bound of {bound}");
    for (name, record) in names.iter().zip(0..) {
        let key = format!("{:05}", record * 7);
        let family = db.column_family(name).unwrap();
        assert_eq!(db.get_cf(&family, &key).unwrap().map(|v| v.len()), Some(1000));
    }
    db.close().unwrap();
}

#[test]
fn memory_that_another_database_holds_does_not_make_recovery_write_a_table_for_each_record() {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let (options, names) = (new_options(&fs), names(1));
    let cf = ColumnFamilyOptions::default();
    let db = open(&options, &names, &cf);
    for record in 0..300 {
        db.put(format!("{record:05}"), [b'x'; 100]).unwrap();
    }
    db.close().unwrap();
    let manager = Arc::new(WriteBufferManager::new(1 << 20, false));
    MemoryBudget::reserve(&*manager, 2 << 20); // somebody else's
    let shared = DbOptions { write_buffer_manager: Some(manager), ..options.clone() };
    let db = open(&shared, &names, &cf);
    assert_eq!(db.live_files().len(), 1);
    db.close().unwrap();
}
