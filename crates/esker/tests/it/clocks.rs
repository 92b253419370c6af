//! The wall clock is set forward and back while a database works.

use esker::internals::env::mem::MemFs;
use esker::internals::env::{Clock, FaultFs, MockClock, OpKind};
use esker::options::CompactionStyle;
use esker::{ColumnFamilyDescriptor, Db, DbWithTtl, Env, OpenMode, Options};
use std::sync::Arc;

const NOON: u64 = 1_795_000_000_000_000;
const HOUR: u64 = 3_600_000_000;

/// A file system whose every sync sets the clock one hour forward.
fn restless() -> Env {
    let (fs, clock) = (FaultFs::new(Arc::new(MemFs::new())), Arc::new(MockClock::new(NOON)));
    let env = Env::new(Arc::new(fs.clone()), clock.clone());
    fs.on_op(move |op| {
        if op.kind == OpKind::Sync {
            clock.set_micros(clock.now_micros() + HOUR);
        }
    });
    env
}

#[test]
fn setting_the_clock_is_no_work_of_flushes_and_compactions() {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = restless();
    options.cf.level0_file_num_compaction_trigger = 2;
    let db = Db::open(&options, "/db").unwrap();
    for round in 0..7 {
        for key in 0..100 {
            db.put(format!("{key}"), format!("{round}")).unwrap();
        }
        db.flush().unwrap();
        db.wait_for_background_work().unwrap();
    }
    let stats = db.map_property("rocksdb.cfstats").unwrap();
    let seconds: f64 = stats["compaction.Sum.CompSec"].parse().unwrap();
    assert!(seconds < 60.0, "{seconds} seconds");
    assert!(stats["compaction.Sum.CompCount"].parse::<f64>().unwrap() > 7.0);
    db.close().unwrap();
}

fn standing() -> (Arc<MockClock>, Options) {
    let clock = Arc::new(MockClock::new(NOON));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::new(Arc::new(MemFs::new()), clock.clone());
    (clock, options)
}

#[test]
fn fifo_deletes_a_file_from_the_future_when_its_time_is_over() {
    let (clock, mut options) = standing();
    options.cf.compaction_style = CompactionStyle::Fifo;
    options.cf.ttl = HOUR / 1_000_000;
    let db = Db::open(&options, "/db").unwrap();
    let flush_at = |micros: u64, key: &str| {
        clock.set_micros(micros);
        db.put(key, "value").unwrap();
        db.flush().unwrap();
        db.wait_for_background_work().unwrap();
        db.live_files().len()
    };
    assert_eq!(flush_at(NOON, "a"), 1);
    assert_eq!(flush_at(NOON - 2 * HOUR, "b"), 2);
    // "a" was written before "b", so it is expired, too.
    assert_eq!(flush_at(NOON - HOUR / 2, "c"), 1);
    assert_eq!(flush_at(NOON + 2 * HOUR, "d"), 1);
    db.close().unwrap();
}

#[test]
fn a_value_from_the_future_lives_until_its_time_is_over() {
    let (clock, options) = standing();
    let seconds = i32::try_from(HOUR / 1_000_000).unwrap();
    let families = vec![ColumnFamilyDescriptor::new("default", options.cf.clone())];
    let db = DbWithTtl::open(&options.db, "/db", families, &[seconds], OpenMode::ReadWrite).unwrap();
    db.put("key", "value").unwrap();
    let get_at = |micros: u64| {
        clock.set_micros(micros);
        db.base_db().flush().unwrap();
        db.base_db().compact_range(None, None).unwrap();
        db.get("key").unwrap().is_some()
    };
    assert!(get_at(NOON - HOUR) && get_at(NOON + HOUR / 2));
    assert!(!get_at(NOON + 2 * HOUR));
}
