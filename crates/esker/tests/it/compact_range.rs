//! Effects of `compact_range` besides compacting: it excludes other compactions on request, and
//! moves files to the requested level.

use esker::compaction_filter::{CompactionFilter, FilterDecision};
use esker::internals::env::mem::MemFs;
use esker::observe::{CompactionJobInfo, CompactionReason, EventListener, FlushJobInfo};
use esker::options::{BottommostLevelCompaction, CompactRangeOptions, CompactionStyle};
use esker::{
    CompactionOptions, Db, Env, ErrorKind, FileNumber, FlushOptions, Options, WriteBatch, WriteOptions,
};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Options without automatic compactions, which would empty levels that are larger than needed.
fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.disable_auto_compactions = true;
    options
}

fn fill(db: &Db, round: usize) {
    for i in 0..500 {
        db.put(format!("key{i:04}"), format!("value{round}")).unwrap();
    }
}

fn files(db: &Db) -> Vec<u64> {
    let levels = db.map_property("rocksdb.levelstats").unwrap();
    (0..7).map(|l| levels[&format!("L{l}.num_files")].parse().unwrap()).collect()
}

fn to_level(target_level: i32) -> CompactRangeOptions {
    CompactRangeOptions { change_level: true, target_level, ..CompactRangeOptions::default() }
}

#[test]
fn change_level_moves_the_files_to_the_level_asked_for() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    fill(&db, 0);
    db.compact_range(None, None).unwrap();
    assert_eq!(files(&db), [0, 0, 0, 0, 0, 0, 1]);
    let default = db.default_column_family();
    let compact = |target| db.compact_range_opt(&to_level(target), &default, None, None);
    compact(3).unwrap();
    assert_eq!(files(&db), [0, 0, 0, 1, 0, 0, 0]);

    // Newer keys above bar the way up. The first compaction to level 0 takes them along, down to
    // level 5 afterwards.
    fill(&db, 1);
    db.flush().unwrap();
    let e = db.compact_range_opt(&to_level(9), &default, None, None).unwrap_err();
    assert!(e.to_string().contains("target_level 9"), "{e}");
    compact(0).unwrap();
    assert_eq!(files(&db), [1, 0, 0, 0, 0, 0, 0]);
    compact(5).unwrap();
    assert_eq!(db.get("key0007").unwrap().as_deref(), Some(&b"value1"[..]));
    db.close().unwrap();
    drop((default, db));

    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(db.get("key0499").unwrap().as_deref(), Some(&b"value1"[..]));
}

/// Removes all entries, once it is told to.
struct RemovesAll(AtomicBool);

impl CompactionFilter for RemovesAll {
    fn name(&self) -> &str {
        "RemovesAll"
    }
    fn filter(&self, _level: usize, _key: &[u8], _value: &[u8]) -> FilterDecision {
        if self.0.load(Ordering::Relaxed) { FilterDecision::Remove } else { FilterDecision::Keep }
    }
}

#[test]
fn a_filter_sees_the_entries_of_a_universal_run_that_is_alone_above_the_last_level() {
    let filter = Arc::new(RemovesAll(AtomicBool::new(false)));
    let mut options = options();
    options.cf.compaction_style = CompactionStyle::Universal;
    options.cf.compaction_filter = Some(filter.clone());
    let db = Db::open(&options, "/db").unwrap();
    fill(&db, 0);
    let family = db.default_column_family();
    db.compact_range_opt(&to_level(3), &family, None, None).unwrap();
    assert_eq!(files(&db), [0, 0, 0, 1, 0, 0, 0]);
    filter.0.store(true, Ordering::Relaxed);
    db.compact_range(None, None).unwrap();
    assert_eq!(files(&db), [0; 7]);
}

#[test]
fn files_do_not_move_past_others() {
    let db = Db::open(&options(), "/db").unwrap();
    let default = db.default_column_family();
    fill(&db, 0);
    db.compact_range_opt(&to_level(4), &default, None, None).unwrap();
    db.put("zebra", "alone").unwrap();
    db.compact_range(Some(b"zebra"), None).unwrap();
    let before = files(&db);
    assert_eq!(before, [0, 0, 0, 0, 1, 0, 1]);
    let e = db.compact_range_opt(&to_level(2), &default, Some(b"zebra"), None).unwrap_err();
    assert_eq!(e.kind(), esker::ErrorKind::NotSupported, "{e}");
    assert!(e.to_string().contains("level 4 is not empty"), "{e}");
    assert_eq!(files(&db), before);
    assert_eq!(db.get("zebra").unwrap().as_deref(), Some(&b"alone"[..]));
    assert_eq!(db.get("key0001").unwrap().as_deref(), Some(&b"value0"[..]));
}

/// The running jobs, and whether a manual one ever ran beside another.
#[derive(Default)]
struct Overlaps(Mutex<Jobs>);

#[derive(Default)]
struct Jobs {
    /// Job and whether it is a manual one.
    running: BTreeSet<(u64, bool)>,
    overlaps: Vec<String>,
}

impl EventListener for Overlaps {
    fn on_compaction_begin(&self, info: &CompactionJobInfo) {
        let mut jobs = self.0.lock().unwrap();
        let manual = info.compaction_reason == CompactionReason::ManualCompaction;
        if jobs.running.iter().any(|(_, other)| manual || *other) {
            let overlap = format!("job {} beside {:?}", info.job_id, jobs.running);
            jobs.overlaps.push(overlap);
        }
        jobs.running.insert((info.job_id, manual));
    }
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        self.0.lock().unwrap().running.retain(|(job, _)| *job != info.job_id);
    }
}

#[test]
fn an_exclusive_compaction_runs_alone() {
    let overlaps = Arc::new(Overlaps::default());
    let mut options = options();
    options.db.listeners = vec![overlaps.clone()];
    options.db.max_background_jobs = 8;
    options.cf.disable_auto_compactions = false;
    options.cf.write_buffer_size = 64 << 10;
    options.cf.target_file_size_base = 16 << 10;
    options.cf.max_bytes_for_level_base = 64 << 10;
    let db = Db::open(&options, "/db").unwrap();
    // Another family: its compactions do not conflict.
    let other = db.create_column_family("other", &options.cf).unwrap();
    fill(&db, 0);
    let exclusive = CompactRangeOptions {
        exclusive_manual_compaction: true,
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    let write_options = WriteOptions::default();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for i in 0..60_000 {
                let mut batch = WriteBatch::new();
                batch.put_cf(other.id(), format!("key{:04}", i % 2000).as_bytes(), [b'v'; 100]).unwrap();
                db.write_opt(&write_options, &mut batch).unwrap();
            }
        });
        while !writer.is_finished() {
            db.compact_range_opt(&exclusive, &db.default_column_family(), None, None).unwrap();
        }
    });
    db.wait_for_background_work().unwrap();
    let found = &overlaps.0.lock().unwrap().overlaps;
    assert!(found.is_empty(), "{found:?}");
    assert_eq!(db.get("key0000").unwrap().as_deref(), Some(&b"value0"[..]));
}

/// Tables of a level, newest first in level 0.
fn tables(db: &Db, level: usize) -> Vec<FileNumber> {
    let mut tables: Vec<_> = db.live_files().into_iter().filter(|f| f.level == level).collect();
    tables.sort_by_key(|f| std::cmp::Reverse(f.file.largest_seqno));
    tables.into_iter().map(|f| f.file.file_number).collect()
}

#[test]
fn compact_files_takes_along_what_is_older_and_nothing_else() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    let default = db.default_column_family();
    for round in 0..4 {
        fill(&db, round);
        db.flush().unwrap();
    }
    let compact =
        |files: &[FileNumber], level| db.compact_files(&CompactionOptions::default(), &default, files, level);
    let newest_first = tables(&db, 0);
    // The oldest file moves alone; the newer ones stay above it.
    let written = compact(&newest_first[3..], 3).unwrap();
    assert_eq!((files(&db), tables(&db, 3)), (vec![3, 0, 0, 1, 0, 0, 0], written.clone()));
    assert_eq!(db.get("key0007").unwrap().as_deref(), Some(&b"value3"[..]));
    let e = compact(&newest_first[3..], 3).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "the family is dropped: {e}");
    let e = compact(&written, 2).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "upwards: {e}");
    let e = compact(&written, 7).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "the level does not exist: {e}");
    // Two neighbours become one, in level 0.
    let written = compact(&newest_first[..2], 0).unwrap();
    assert_eq!((files(&db), written.len()), (vec![2, 0, 0, 1, 0, 0, 0], 1));
    // The newest file takes along all files that lie in its way.
    let small = CompactionOptions::default().output_file_size_limit(4096).max_subcompactions(2);
    let written = db.compact_files(&small, &default, &written, 4).unwrap();
    assert!(written.len() > 2, "{written:?}");
    assert_eq!(files(&db), [0, 0, 0, 0, written.len() as u64, 0, 0]);
    for i in 0..500 {
        assert_eq!(db.get(format!("key{i:04}")).unwrap().as_deref(), Some(&b"value3"[..]));
    }
}

#[test]
fn compact_files_with_an_output_limit_of_0_bytes_gives_each_key_a_table() {
    let db = Db::open(&options(), "/db").unwrap();
    let default = db.default_column_family();
    let keys = ["a", "b", "c", "d", "e"];
    keys.iter().for_each(|key| db.put(key, "of before").unwrap());
    let snapshot = db.snapshot();
    keys.iter().for_each(|key| db.put(key, "of now").unwrap());
    db.delete_range("b", "d").unwrap();
    db.flush().unwrap();
    let then = esker::ReadOptions::new().snapshot(&snapshot);
    let each = CompactionOptions { output_file_size_limit: 0, ..CompactionOptions::default() };
    for level in [3, 6] {
        let inputs: Vec<_> = db.live_files().iter().map(|f| f.file.file_number).collect();
        let written = db.compact_files(&each, &default, &inputs, level).unwrap();
        // The versions of a key stay together.
        assert_eq!((written.len(), tables(&db, level).len()), (keys.len(), keys.len()));
        for key in keys {
            assert_eq!(db.get_opt(&then, &default, key).unwrap().as_deref(), Some(&b"of before"[..]));
            let now = Some(&b"of now"[..]).filter(|_| !("b".."d").contains(&key));
            assert_eq!(db.get(key).unwrap().as_deref(), now, "{key}");
        }
    }
    db.verify_checksum().unwrap();
}

#[test]
fn compact_files_of_fifo_knows_level_0_only() {
    let mut options = options();
    options.cf.compaction_style = esker::options::CompactionStyle::Fifo;
    let db = Db::open(&options, "/db").unwrap();
    for round in 0..2 {
        fill(&db, round);
        db.flush().unwrap();
    }
    let default = db.default_column_family();
    let of = |level| db.compact_files(&CompactionOptions::default(), &default, &tables(&db, 0), level);
    assert_eq!(of(1).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(of(0).unwrap(), tables(&db, 0));
    assert_eq!(db.get("key0007").unwrap().as_deref(), Some(&b"value1"[..]));
}

#[test]
fn files_do_not_change_their_level_under_a_plan_that_waits() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    fill(&db, 0);
    db.compact_range(None, None).unwrap();
    let default = db.default_column_family();
    let inputs = tables(&db, 6);
    let rewrite = || db.compact_files(&CompactionOptions::default(), &default, &inputs, 6);
    db.pause_background_work();
    std::thread::scope(|scope| {
        let rewriting = scope.spawn(rewrite);
        // Waits until the job has taken its inputs.
        while !db.live_files()[0].file.being_compacted && !rewriting.is_finished() {
            std::thread::yield_now();
        }
        let moving = scope.spawn(|| db.compact_range_opt(&to_level(3), &default, None, None));
        // The move must wait. If it does not, these steps give it time to finish.
        for _ in 0..50 {
            if moving.is_finished() {
                break;
            }
            std::thread::yield_now();
        }
        db.continue_background_work().unwrap();
        assert_eq!(rewriting.join().unwrap().unwrap().len(), 1);
        moving.join().unwrap().unwrap();
    });
    assert_eq!(files(&db), [0, 0, 0, 1, 0, 0, 0]);
    assert!(db.background_error().is_none());
    assert_eq!(db.get("key0007").unwrap().as_deref(), Some(&b"value0"[..]));
}

/// Holds the first flush until the test lets it continue.
struct HoldsFlush(Mutex<Option<Receiver<()>>>);

impl EventListener for HoldsFlush {
    fn on_flush_begin(&self, _info: &FlushJobInfo) {
        if let Some(go_on) = self.0.lock().unwrap().take() {
            go_on.recv().unwrap();
        }
    }
}

#[test]
fn a_compaction_does_not_fill_the_memtables_unless_it_may_stop_writers() {
    for allow_write_stall in [false, true] {
        let (let_go, held) = channel();
        let mut options = options();
        options.cf.max_write_buffer_number = 2;
        options.db.listeners = vec![Arc::new(HoldsFlush(Mutex::new(Some(held))))];
        let db = Db::open(&options, "/db").unwrap();
        db.put("one", "value").unwrap();
        let no_wait = FlushOptions { wait: false, ..Default::default() };
        db.flush_opt(&no_wait, &[&db.default_column_family()]).unwrap();
        db.put("two", "value").unwrap();
        let (tell, done) = channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let how = CompactRangeOptions { allow_write_stall, ..Default::default() };
                let compacted = db.compact_range_opt(&how, &db.default_column_family(), None, None);
                tell.send(compacted).unwrap();
            });
            let early = done.recv_timeout(Duration::from_millis(300));
            let sealed = db.property("rocksdb.num-immutable-mem-table").unwrap();
            let_go.send(()).unwrap();
            assert!(early.is_err(), "the call waits for the flush");
            done.recv().unwrap().unwrap();
            assert!(allow_write_stall || sealed == "1", "{sealed} of 2 memtables are full");
        });
        assert_eq!(files(&db)[0], 0);
    }
}
