//! TTL databases: values have a time, and compactions drop expired ones.

use esker::compaction_filter::{CompactionFilter, FilterDecision};
use esker::internals::env::MockClock;
use esker::internals::env::mem::MemFs;
use esker::options::{BottommostLevelCompaction, CompactRangeOptions};
use esker::{ColumnFamilyDescriptor, DbWithTtl, Env, ErrorKind, OpenMode, Options, ReadOptions, WriteBatch};
use std::sync::Arc;
use std::time::Duration;

/// A time after the earliest timestamp of TTL databases.
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
    batch.put_cf(db.base_db().default_column_family().id(), b"early", b"1").unwrap();
    batch.put_cf(other(&db).id(), b"early", b"for ever").unwrap();
    batch.merge_cf(other(&db).id(), b"list", b"a").unwrap();
    db.write(&batch).unwrap();
    clock.advance(Duration::from_secs(60));
    db.put("late", "2").unwrap();
    let mut batch = WriteBatch::new();
    batch.merge_cf(other(&db).id(), b"list", b"b").unwrap();
    db.write(&batch).unwrap();
    clock.advance(Duration::from_secs(41));
    // Nothing has been compacted: expired values still show.
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
    // The times of writing are in the values, so a reopening may set another TTL.
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
    batch.put_entity_cf(db.base_db().default_column_family().id(), b"key", &[(b"a", b"1")]).unwrap();
    assert_eq!(db.write(&batch).unwrap_err().kind(), ErrorKind::NotSupported);
    let families = vec![ColumnFamilyDescriptor::new("default", options.cf.clone())];
    let error = DbWithTtl::open(&options.db, "/other", families, &[], OpenMode::ReadWrite).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn the_options_that_a_database_with_times_has_saved_open_it_again() {
    let clock = Arc::new(MockClock::new(START));
    let mut options = options(&clock);
    let merge = |db: &DbWithTtl, operand: &str| {
        let mut batch = WriteBatch::new();
        batch.merge_cf(db.base_db().default_column_family().id(), b"list", operand.as_bytes()).unwrap();
        db.write(&batch).unwrap();
    };
    let db = open(&options, [100, 0]);
    merge(&db, "a long operand");
    db.base_db().close().unwrap();
    drop(db);
    let fs = options.db.env.fs.clone();
    let loaded = esker::options::load_latest_options_from(fs.as_ref(), std::path::Path::new("/db")).unwrap();
    options.cf = loaded.families[0].1.clone();
    let db = open(&options, [100, 0]);
    merge(&db, "and another one");
    let value = || db.get("list").unwrap().map(|value| String::from_utf8(value).unwrap());
    assert_eq!(value().as_deref(), Some("a long operand,and another one"));
    // The new family has the TTL filter, too.
    clock.advance(Duration::from_secs(101));
    compact(&db);
    compact(&db);
    assert_eq!(value(), None);
}

#[test]
fn the_options_of_an_open_family_with_times_may_be_those_of_another_one() {
    let clock = Arc::new(MockClock::new(START));
    let mut options = options(&clock);
    options.cf.compaction_filter = Some(Arc::new(DropsEmpty));
    let db = open(&options, [100, 0]);
    let base = db.base_db();
    let of_first = base.options_cf(&base.default_column_family());
    let third = db.create_column_family_with_ttl("third", &of_first, 0).unwrap();
    let mut batch = WriteBatch::new();
    // The last four bytes of the value would be an early time.
    batch.put_cf(third.id(), b"key", b"value\x01\x01\x01\x01").unwrap();
    batch.put_cf(third.id(), b"empty", b"").unwrap();
    batch.merge_cf(third.id(), b"list", b"an operand").unwrap();
    batch.merge_cf(third.id(), b"list", b"another").unwrap();
    db.write(&batch).unwrap();
    clock.advance(Duration::from_secs(1000));
    let force = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    base.compact_range_opt(&force, &third, None, None).unwrap();
    let get = |key| {
        let value = db.get_opt(&ReadOptions::default(), &third, key).unwrap();
        value.map(|value| String::from_utf8(value).unwrap())
    };
    assert_eq!(get("key").as_deref(), Some("value\x01\x01\x01\x01"));
    assert_eq!(get("list").as_deref(), Some("an operand,another"));
    assert_eq!(get("empty"), None);
}

struct DropsEmpty;

impl CompactionFilter for DropsEmpty {
    fn name(&self) -> &str {
        "DropsEmpty"
    }
    fn filter(&self, _level: usize, _key: &[u8], value: &[u8]) -> FilterDecision {
        if value.is_empty() { FilterDecision::Remove } else { FilterDecision::Keep }
    }
}

#[test]
fn a_filter_that_is_set_in_the_options_of_an_open_family_with_times_is_asked() {
    let clock = Arc::new(MockClock::new(START));
    let db = open(&options(&clock), [0, 0]);
    let base = db.base_db();
    let mut of_first = base.options_cf(&base.default_column_family());
    of_first.compaction_filter = Some(Arc::new(DropsEmpty));
    let third = db.create_column_family_with_ttl("third", &of_first, 0).unwrap();
    let mut batch = WriteBatch::new();
    batch.put_cf(third.id(), b"empty", b"").unwrap();
    batch.put_cf(third.id(), b"key", b"value").unwrap();
    db.write(&batch).unwrap();
    let force = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    base.compact_range_opt(&force, &third, None, None).unwrap();
    assert_eq!(db.get_opt(&ReadOptions::default(), &third, "empty").unwrap(), None);
    assert!(db.get_opt(&ReadOptions::default(), &third, "key").unwrap().is_some());
}
