//! A long scan, while others write, keeps no files and no memory alive that the database itself
//! does not need.

use crate::obsolete_files::live_tables;
use esker::internals::env::mem::MemFs;
use esker::{Db, DbIterator, Env, Options, ReadOptions};
use std::sync::Arc;

const KEYS: u32 = 6000;

/// Number of times that a new super version replaces the current one.
const SUPER_VERSIONS: u32 = 60;

fn database() -> Db {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.write_buffer_size = 64 << 10;
    options.cf.target_file_size_base = 64 << 10;
    options.cf.max_bytes_for_level_base = 128 << 10;
    let db = Db::open(&options, "/db").unwrap();
    (0..KEYS).for_each(|i| db.put(key(i), "first").unwrap());
    db.compact_range(None, None).unwrap();
    db
}

fn key(i: u32) -> String {
    format!("key{i:06}")
}

/// Bytes of files, bytes of memtables, and versions that only readers hold.
fn held_by_readers(db: &Db) -> (u64, u64, u64) {
    let number = |name: &str| db.int_property(&format!("rocksdb.{name}")).unwrap();
    (
        number("total-sst-files-size") - number("live-sst-files-size"),
        number("size-all-mem-tables") - number("cur-size-all-mem-tables"),
        number("num-live-versions") - 1,
    )
}

/// Writes until there is a new super version.
fn change_super_version(db: &Db, round: u32) {
    let before = live_tables(db);
    for i in 0..200 {
        db.put(key((round * 7919 + i * 31) % KEYS), "later").unwrap();
    }
    db.flush().unwrap();
    db.wait_for_background_work().unwrap();
    assert_ne!(live_tables(db), before);
}

fn step(iter: &mut DbIterator, forward: bool, expected: u32) {
    assert_eq!((iter.key(), iter.value()), (key(expected).as_bytes(), &b"first"[..]));
    if forward { iter.next() } else { iter.prev() }
}

/// Scans all keys in parts, with a change of the super version between two parts. Calls `look`
/// after each part.
fn scan(options: ReadOptions, forward: bool, mut look: impl FnMut(&Db)) {
    let db = database();
    let mut iter = db.iter_opt(options, &db.default_column_family()).unwrap();
    if forward {
        iter.seek_to_first()
    } else {
        iter.seek_to_last()
    }
    for super_version in 0..SUPER_VERSIONS {
        change_super_version(&db, super_version);
        for row in 0..KEYS / SUPER_VERSIONS {
            let row = super_version * (KEYS / SUPER_VERSIONS) + row;
            step(&mut iter, forward, if forward { row } else { KEYS - 1 - row });
        }
        if iter.valid() {
            look(&db);
        }
    }
    assert!(!iter.valid());
    iter.status().unwrap();
}

/// Waits until readers hold nothing. Reads continue meanwhile: other tests of this process may hold
/// entries for a while.
fn wait_until_nothing_is_held(db: &Db) {
    for _ in 0..10_000 {
        (0..300).for_each(|i| drop(db.get(key(i)).unwrap()));
        if held_by_readers(db) == (0, 0, 0) {
            return;
        }
        std::thread::yield_now();
    }
    panic!("bytes of files, bytes of memtables, versions: {:?}", held_by_readers(db));
}

#[test]
fn a_scan_that_goes_on_for_long_holds_nothing_of_old_super_versions() {
    for forward in [true, false] {
        scan(ReadOptions::new(), forward, wait_until_nothing_is_held);
    }
}

#[test]
fn a_scan_that_stays_at_its_super_version_holds_what_it_needs() {
    let mut most = (0, 0, 0);
    let options = ReadOptions { pin_data: true, ..ReadOptions::new() };
    scan(options, true, |db| most = held_by_readers(db).max(most));
    assert!(most.0 > 0 && most.2 > 0, "the measurement of held objects found none: {most:?}");
}
