//! `esker verify`, `compat` and `info` beside the owner of a database. The owner writes, flushes
//! and compacts all the time, so it deletes tables, blob files, WALs and MANIFESTs that the tools
//! want.

use crate::run::esker;
use esker::{Db, Options};
use esker_testkit::TempDir;
use std::ops::Range;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

/// Number of runs of each tool.
const RUNS: usize = 20;
/// Longest time in which no run notices a deletion.
const PATIENCE: Duration = Duration::from_secs(120);
const KEYS: u64 = 5000;
/// Rounds of the owner between two pauses.
const BUSY_ROUNDS: u64 = 8;

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.max_manifest_file_size = 1;
    options.cf.target_file_size_base = 16 << 10;
    options.cf.level0_file_num_compaction_trigger = 2;
    options.cf.enable_blob_files = true;
    options.cf.min_blob_size = 400;
    options.cf.enable_blob_garbage_collection = true;
    options.cf.blob_garbage_collection_age_cutoff = 1.0;
    options
}

/// Writes these keys, a third of them to blob files.
fn write(db: &Db, keys: Range<u64>, random: &mut fastrand::Rng) {
    for key in keys {
        let length = if key.is_multiple_of(3) { 400 } else { 200 };
        let value: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(length).collect();
        db.put(key.to_be_bytes(), value).unwrap();
    }
    db.flush().unwrap();
}

/// Writes until the other end of `stop` goes. The pauses let a report of one point in time succeed,
/// however slow the machine is.
fn own(db: &Db, stop: &Receiver<()>) {
    let mut random = fastrand::Rng::with_seed(1);
    while stop.try_recv() != Err(TryRecvError::Disconnected) {
        let begin = Instant::now();
        for _ in 0..BUSY_ROUNDS {
            let first = random.u64(..KEYS);
            let keys = first..first + KEYS / 200;
            write(db, keys.clone(), &mut random);
            db.compact_range(Some(&keys.start.to_be_bytes()), Some(&keys.end.to_be_bytes())).unwrap();
        }
        sleep(begin.elapsed() / 3);
    }
}

#[test]
fn tools_beside_a_writing_owner_find_no_fault() {
    let temp = TempDir::new("tools-beside-owner");
    let path = temp.join("db");
    let db = Db::open(&options(), &path).unwrap();
    // A single table would be moved, not cut.
    (0..2).for_each(|seed| write(&db, 0..KEYS, &mut fastrand::Rng::with_seed(seed)));
    db.compact_range(None, None).unwrap();
    // The end goes also if an assertion fails.
    let (end, stop) = channel();
    let owner = spawn(move || own(&db, &stop));
    let dir = path.to_str().unwrap();
    let begin = Instant::now();
    let (mut runs, mut runs_with_deletions) = (0, 0);
    while runs < RUNS || (runs_with_deletions == 0 && begin.elapsed() < PATIENCE) {
        let verified = esker(&["verify", dir]);
        assert!(verified.code == Some(0) && !verified.out.contains("PROBLEM"), "run {runs}: {verified:?}");
        runs_with_deletions += usize::from(verified.out.contains("was deleted by the database's owner"));
        let report = esker(&["compat", dir]);
        assert!(report.code == Some(0) && report.out.starts_with("RocksDB "), "run {runs}: {report:?}");
        let described = esker(&["info", dir]);
        assert!(described.code == Some(0) && !described.out.contains("DAMAGE"), "run {runs}: {described:?}");
        runs += 1;
    }
    assert!(runs_with_deletions > 0, "the owner deletes files that a run wants");
    drop(end);
    owner.join().unwrap();
}
