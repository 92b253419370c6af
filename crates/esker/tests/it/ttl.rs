//! Databases whose values have times, and are dropped when these are over.

use esker::internals::env::MockClock;
use esker::internals::env::mem::MemFs;
use esker::options::{BottommostLevelCompaction, CompactRangeOptions};
use esker::{
    ColumnFamilyDescriptor, DbWithTtl, Env, ErrorKind, OpenMode, Options, ReadOptions, WriteBatch,
    WriteOptions,
};
use std::sync::Arc;
use std::time::Duration;

/// After the day that TTL databases began.
const START: u64 = 1_700_000_000 * 1_000_000;

fn options(clock: &Arc<MockClock>) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.create_missing_column_families = true;
    options.db.env = Env::new(Arc::new(MemFs::new()), clock.clone());
    options.cf.merge_operator = esker::builtin::merge_operator("stringappend");
    options
}

fn open(options: &Options, ttls: [i32; 2]) -> DbWithTtl {
    let families =
        ["default", "other"].map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone())).to_vec();
    DbWithTtl::open(&options.db, "/db", families, &ttls, OpenMode::ReadWrite).unwrap()
}

fn compact(db: &DbWithTtl) {
    let force = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    for name in ["default", "other"] {
        let family = db.base_db().column_family(name).unwrap();
        db.base_db().compact_range_opt(&force, &family, None, None).unwrap();
    }
}

#[test]
fn values_are_dropped_by_compactions_when_their_time_is_over() {
    let clock = Arc::new(MockClock::new(START));
    let options = options(&clock);
    let mut db = open(&options, [100, 0]);
    let other = |db: &DbWithTtl| db.base_db().column_family("other").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(db.base_db().default_column_family().id(), b"early", b"1").unwrap();
    batch.put(other(&db).id(), b"early", b"for ever").unwrap();
    batch.merge(other(&db).id(), b"list", b"a").unwrap();
    db.write(&WriteOptions::default(), &batch).unwrap();
    clock.advance(Duration::from_secs(60));
    db.put("late", "2").unwrap();
    let mut batch = WriteBatch::new();
    batch.merge(other(&db).id(), b"list", b"b").unwrap();
    db.write(&WriteOptions::default(), &batch).unwrap();
    clock.advance(Duration::from_secs(41));
    // Nothing has been compacted: what is over is still shown.
    assert_eq!(db.get("early").unwrap().as_deref(), Some(&b"1"[..]));
    compact(&db);
    assert_eq!(db.get("early").unwrap(), None);
    assert_eq!(db.get("late").unwrap().as_deref(), Some(&b"2"[..]));
    let in_other = |db: &DbWithTtl, key| db.get_opt(&ReadOptions::default(), &other(db), key).unwrap();
    assert_eq!(in_other(&db, "early").as_deref(), Some(&b"for ever"[..]));
    assert_eq!(in_other(&db, "list").as_deref(), Some(&b"a,b"[..]));
    let mut iter = db.iter_opt(ReadOptions::default(), &other(&db)).unwrap();
    iter.seek_to_first();
    assert_eq!((iter.key(), iter.value().unwrap()), (&b"early"[..], &b"for ever"[..]));
    assert_eq!(u64::from(iter.ttl_timestamp().unwrap()), START / 1_000_000);
    iter.next();
    assert_eq!((iter.key(), iter.value().unwrap()), (&b"list"[..], &b"a,b"[..]));
    assert_eq!(u64::from(iter.ttl_timestamp().unwrap()), START / 1_000_000 + 60);
    iter.next();
    assert!(!iter.valid() && iter.status().is_ok());
    drop(iter);

    db.base_db().close().unwrap();
    drop(db);
    // The times are in the values: a reopening may give them another life.
    db = open(&options, [1000, 50]);
    compact(&db);
    assert_eq!(db.get("late").unwrap().as_deref(), Some(&b"2"[..]));
    assert_eq!(in_other(&db, "early"), None);
    db.set_ttl(&db.base_db().default_column_family(), 10);
    assert_eq!(db.ttl(&db.base_db().default_column_family()), Some(10));
    compact(&db);
    assert_eq!(db.get("late").unwrap(), None);
    let third = db.create_column_family_with_ttl("third", &options.cf, 5).unwrap();
    assert_eq!(db.ttl(&third), Some(5));
}

#[test]
fn values_without_times_are_corruption_and_what_has_no_place_for_one_is_refused() {
    let clock = Arc::new(MockClock::new(START));
    let options = options(&clock);
    let db = open(&options, [100, 0]);
    for (key, value) in [("short", &b"abc"[..]), ("old", b"a value\x01\0\0\0")] {
        db.base_db().put(key, value).unwrap();
        assert_eq!(db.get(key).unwrap_err().kind(), ErrorKind::Corruption);
        let found = db.multi_get(&ReadOptions::default(), &db.base_db().default_column_family(), &[key]);
        assert_eq!(found[0].as_ref().unwrap_err().kind(), ErrorKind::Corruption);
    }
    let mut batch = WriteBatch::new();
    batch.put_entity(db.base_db().default_column_family().id(), b"key", &[(b"a", b"1")]).unwrap();
    assert_eq!(db.write(&WriteOptions::default(), &batch).unwrap_err().kind(), ErrorKind::NotSupported);
    let families = vec![ColumnFamilyDescriptor::new("default", options.cf.clone())];
    let error = DbWithTtl::open(&options.db, "/other", families, &[], OpenMode::ReadWrite).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}
