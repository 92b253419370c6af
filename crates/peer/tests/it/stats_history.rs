//! The hidden family of the statistics' history: each engine opens it unasked, and goes on with the
//! history that the other has written.

use esker::stats::{Statistics, Ticker};
use esker::{Db, Options};
use esker_peer::{FamilySpec, PeerOp, RocksDb, WriteFlags, require};
use esker_testkit::TempDir;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const FAMILY: &str = "___rocksdb_stats_history___";
const KEYS: &str = "rocksdb.number.keys.written";
const PERSISTS: &str = "persist_stats_to_disk=true;stats_persist_period_sec=1;statistics=BasicStatistics;";
const PATIENCE: Duration = Duration::from_secs(60);

fn open(dir: &Path, persists: bool) -> Db {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.persist_stats_to_disk = persists;
    options.db.stats_persist_period_sec = 1;
    options.db.statistics = Some(Arc::new(Statistics::new()));
    Db::open(&options, dir).expect("Esker opens the directory")
}

/// Times of the snapshots that Esker reads, and the keys written in all of them.
fn history(db: &Db) -> (Vec<u64>, u64) {
    let all = db.get_stats_history(0, u64::MAX).expect("readable");
    let all: Vec<_> = all.map(|snapshot| snapshot.expect("a snapshot")).collect();
    let keys = all.iter().filter_map(|(_, tickers)| tickers.get(KEYS)).sum();
    (all.iter().map(|(seconds, _)| *seconds).collect(), keys)
}

/// The hidden family as RocksDB reads it: times of snapshots and names of tickers.
fn rocksdb_history(db: &RocksDb) -> (BTreeSet<u64>, BTreeSet<String>) {
    // RocksDB's thread writes the next part of the history meanwhile.
    let contents = db.contents(FAMILY, Some(&db.snapshot())).expect("RocksDB reads the family");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    let keys = contents.0.iter().map(|(key, _)| text(key)).collect::<Vec<_>>();
    let pairs: Vec<_> = keys.iter().filter_map(|key| key.split_once('#')).collect();
    assert_eq!(keys.len() - pairs.len(), 2, "two keys are versions: {keys:?}");
    let seconds = pairs.iter().map(|(seconds, _)| seconds.parse().expect("a number"));
    (seconds.collect(), pairs.iter().map(|(_, name)| (*name).to_owned()).collect())
}

fn wait(what: &str, mut is_done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_done() {
        assert!(start.elapsed() < PATIENCE, "{what} takes too long");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn each_engine_goes_on_with_the_history_of_the_other() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    let dir = TempDir::new("stats-history");
    let named = [FamilySpec::new("default", ""), FamilySpec::new(FAMILY, "")];
    let put = |db: &RocksDb, key: &str| {
        let op = PeerOp::Put { family: "default".into(), key: key.into(), value: b"v".to_vec() };
        db.write(&[op], WriteFlags::default()).expect("written");
    };
    let options = format!("create_if_missing=true;{PERSISTS}");
    let db = RocksDb::open(dir.path(), &options, &named).expect("opens");
    wait("RocksDB's history", || {
        put(&db, "by RocksDB");
        rocksdb_history(&db).0.len() >= 2
    });
    let (theirs, names) = rocksdb_history(&db);
    drop(db);

    // Esker opens it with and without the option, and reads what RocksDB wrote.
    let db = open(dir.path(), false);
    assert_eq!(db.column_family_names(), ["default"]);
    db.close().expect("closes");
    drop(db);
    let db = open(dir.path(), true);
    let (ours, keys) = history(&db);
    assert_eq!(ours.iter().copied().take(theirs.len()).collect::<BTreeSet<_>>(), theirs);
    assert!(keys > 0);
    let known = Ticker::ALL.iter().map(|ticker| ticker.name().to_owned()).collect();
    let unknown: Vec<_> = names.difference(&known).collect();
    assert!(unknown.is_empty(), "tickers of RocksDB that Esker does not have: {unknown:?}");
    wait("Esker's history", || {
        db.put("by Esker", "v").expect("written");
        history(&db).0.len() >= ours.len() + 2
    });
    let (both, _) = history(&db);
    db.flush().expect("flushes");
    db.close().expect("closes");
    drop(db);

    // RocksDB opens it unasked, keeps Esker's part and goes on.
    drop(RocksDb::open(dir.path(), "", &named[..1]).expect("opens without naming the family"));
    let db = RocksDb::open(dir.path(), PERSISTS, &named).expect("opens");
    let before: BTreeSet<u64> = both.iter().copied().collect();
    assert!(rocksdb_history(&db).0.is_superset(&before), "RocksDB keeps the family");
    wait("RocksDB's history", || rocksdb_history(&db).0.len() >= before.len() + 2);
    db.verify_checksum().expect("sound");
}
