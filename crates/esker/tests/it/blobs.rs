//! Blob files as an option: the values that go into them, the values that garbage collection moves,
//! and the deletion of files.

use crate::compat::put_entity_with_a_blob;
use esker::compaction_filter::{CompactionFilter, FilterDecision};
use esker::internals::base::sync::epoch;
use esker::internals::env::mem::MemFs;
use esker::internals::env::{CrashChoices, CrashFs};
use esker::observe::{CompactionJobInfo, CompactionReason, EventListener};
use esker::options::{BottommostLevelCompaction, CompactionStyle, CompressionType, TargetVersion};
use esker::{ColumnFamilyDescriptor, CompactRangeOptions, Db, Env, Options, ReadOptions, repair_db};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const LARGE: usize = 500;

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.enable_blob_files = true;
    options.cf.min_blob_size = 100;
    options.cf.blob_compression_type = CompressionType::Lz4;
    options.cf.disable_auto_compactions = true;
    options
}

fn value(n: usize, round: usize) -> Vec<u8> {
    let bytes = if n.is_multiple_of(2) { LARGE } else { 20 };
    format!("{n} of round {round} ").into_bytes().into_iter().cycle().take(bytes).collect()
}

fn fill(db: &Db, round: usize, keys: impl Iterator<Item = usize>) {
    keys.for_each(|n| db.put(format!("key{n:04}"), value(n, round)).unwrap());
    db.flush().unwrap();
}

/// Checks all values. Round `round_of(n)` wrote key n last; `None`: the key is absent.
fn check(db: &Db, round_of: impl Fn(usize) -> Option<usize>) {
    let mut iter = db.iter().unwrap();
    iter.seek_to_first();
    for n in 0..100 {
        let expected = round_of(n).map(|round| value(n, round));
        assert_eq!(db.get(format!("key{n:04}")).unwrap(), expected, "key {n}");
        if let Some(expected) = expected {
            assert_eq!(iter.value(), expected, "key {n}");
            iter.next();
        }
    }
    assert!(!iter.valid());
    iter.status().unwrap();
}

fn rewrite(db: &Db) {
    let options = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    db.compact_range_opt(&options, &db.default_column_family(), None, None).unwrap();
    db.wait_for_background_work().unwrap();
}

fn blob_files(options: &Options, dir: &str) -> Vec<String> {
    let mut names = options.db.env.fs.children(Path::new(dir)).unwrap();
    names.retain(|name| name.ends_with(".blob"));
    names.sort();
    names
}

/// Waits until these files are deleted: threads of other tests may hold guards that keep the
/// versions with these files alive.
fn wait_for_the_end_of(names: &[String], options: &Options) {
    while blob_files(options, "/db").iter().any(|name| names.contains(name)) {
        epoch::collect();
        std::thread::yield_now();
    }
}

#[test]
fn large_values_go_into_blob_files_and_come_back() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    fill(&db, 1, 0..100);
    check(&db, |_| Some(1));
    let files = blob_files(&options, "/db");
    assert_eq!(files.len(), 1);
    let tables: u64 = db.live_files().iter().map(|f| f.file.size).sum();
    assert!(tables < 50 * 100, "{tables} bytes of tables, although large values are in blob files");
    db.create_checkpoint("/copy", 0).unwrap();
    // A rewrite of the tables leaves the values in place.
    rewrite(&db);
    assert_eq!(blob_files(&options, "/db"), files);
    db.close().unwrap();
    drop(db);
    for dir in ["/db", "/copy"] {
        let db = Db::open(&options, dir).unwrap();
        check(&db, |_| Some(1));
        db.close().unwrap();
    }
}

#[test]
fn blob_files_end_at_their_size_and_start_at_their_level() {
    let mut options = options();
    options.cf.blob_file_size = 2000;
    options.cf.blob_compression_type = CompressionType::None;
    options.cf.blob_file_starting_level = 1;
    let db = Db::open(&options, "/db").unwrap();
    fill(&db, 1, 0..100);
    assert!(blob_files(&options, "/db").is_empty(), "level 0 keeps its values");
    rewrite(&db);
    // 50 values of 500 bytes and 39 more, four to a file.
    assert_eq!(blob_files(&options, "/db").len(), 13);
    check(&db, |_| Some(1));
    db.close().unwrap();
}

#[test]
fn overwritten_values_are_garbage_and_blob_files_with_nothing_else_go() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    fill(&db, 1, 0..100);
    let first = blob_files(&options, "/db");
    fill(&db, 2, 0..100);
    assert_eq!(blob_files(&options, "/db").len(), 2);
    let mut iter = db.iter().unwrap();
    iter.seek_to_first();
    rewrite(&db);
    // The iterator still reads the old file.
    assert_eq!(blob_files(&options, "/db").len(), 2);
    check(&db, |_| Some(2));
    drop(iter);
    fill(&db, 3, 0..1);
    db.wait_for_background_work().unwrap();
    wait_for_the_end_of(&first, &options);
    db.close().unwrap();
    drop(db);
    let db = Db::open(&options, "/db").unwrap();
    check(&db, |n| Some(if n == 0 { 3 } else { 2 }));
    db.close().unwrap();
}

#[test]
fn garbage_collection_moves_values_out_of_the_oldest_files() {
    for back_into_tables in [false, true] {
        let mut options = options();
        let db = Db::open(&options, "/db").unwrap();
        for round in 1..5 {
            fill(&db, round, (0..100).filter(|n| n % 4 == 2 * (round % 2) || round == 1));
        }
        db.close().unwrap();
        drop(db);
        let before = blob_files(&options, "/db");
        assert_eq!(before.len(), 4);
        options.cf.enable_blob_garbage_collection = true;
        options.cf.blob_garbage_collection_age_cutoff = 1.0;
        options.cf.enable_blob_files = !back_into_tables;
        let db = Db::open(&options, "/db").unwrap();
        let newest = |n: usize| match n % 4 {
            0 => Some(4),
            2 => Some(3),
            _ => Some(1),
        };
        check(&db, newest);
        rewrite(&db);
        check(&db, newest);
        wait_for_the_end_of(&before, &options);
        assert_eq!(blob_files(&options, "/db").is_empty(), back_into_tables);
        db.close().unwrap();
    }
}

#[test]
fn enough_garbage_makes_tables_be_compacted() {
    let mut options = options();
    options.cf.disable_auto_compactions = false;
    options.cf.level0_file_num_compaction_trigger = 100;
    options.cf.enable_blob_garbage_collection = true;
    options.cf.blob_garbage_collection_age_cutoff = 0.5;
    options.cf.blob_garbage_collection_force_threshold = 0.4;
    let db = Db::open(&options, "/db").unwrap();
    fill(&db, 1, 0..100);
    rewrite(&db);
    let first = blob_files(&options, "/db");
    // Overwrites half of the large values; the compaction then counts their garbage.
    fill(&db, 2, (0..100).filter(|n| n % 4 == 0));
    db.compact_range(None, None).unwrap();
    db.wait_for_background_work().unwrap();
    fill(&db, 3, 1..2);
    db.wait_for_background_work().unwrap();
    wait_for_the_end_of(&first[..1], &options);
    check(&db, |n| {
        Some(if n == 1 {
            3
        } else if n % 4 == 0 {
            2
        } else {
            1
        })
    });
    db.close().unwrap();
}

#[test]
fn a_repair_keeps_the_blob_files_that_tables_name() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    fill(&db, 1, 0..100);
    fill(&db, 2, (0..100).filter(|n| n % 3 == 0));
    (0..10).for_each(|n| db.put(format!("key{n:04}"), value(n, 3)).unwrap());
    db.close().unwrap();
    drop(db);
    let fs = options.db.env.fs.clone();
    for name in fs.children(Path::new("/db")).unwrap() {
        if name.starts_with("MANIFEST") || name == "CURRENT" {
            fs.delete_file(&Path::new("/db").join(name)).unwrap();
        }
    }
    let default = ColumnFamilyDescriptor::new("default", options.cf.clone());
    repair_db(&options, "/db", &[default]).unwrap();
    let db = Db::open(&options, "/db").unwrap();
    let newest = |n: usize| {
        Some(if n < 10 {
            3
        } else if n.is_multiple_of(3) {
            2
        } else {
            1
        })
    };
    check(&db, newest);
    rewrite(&db);
    check(&db, newest);
    db.close().unwrap();
}

/// A crash leaves both inputs and outputs of a compaction, which without a MANIFEST cannot be
/// distinguished. Each value in a blob file then has two references, and counts as garbage twice.
#[test]
fn blob_files_that_two_tables_name_after_a_repair_stay_until_both_are_gone() {
    let options = options();
    let fs = options.db.env.fs.clone();
    let db = Db::open(&options, "/db").unwrap();
    fill(&db, 1, 0..100);
    db.disable_file_deletions();
    db.put("key0001", value(1, 2)).unwrap();
    rewrite(&db);
    fs.create_dir_if_missing(Path::new("/copy")).unwrap();
    for name in fs.children(Path::new("/db")).unwrap() {
        if name.ends_with(".sst") || name.ends_with(".blob") {
            fs.link_file(&Path::new("/db").join(&name), &Path::new("/copy").join(&name)).unwrap();
        }
    }
    db.close().unwrap();
    let default = ColumnFamilyDescriptor::new("default", options.cf.clone());
    let summary = repair_db(&options, "/copy", &[default]).unwrap();
    assert!(summary.tables_kept.len() > 1, "{summary:?}");
    let db = Db::open(&options, "/copy").unwrap();
    let newest = |n: usize| Some(if n == 1 { 2 } else { 1 });
    check(&db, newest);
    rewrite(&db);
    check(&db, newest);
    db.delete_range("key0000", "key0100").unwrap();
    rewrite(&db);
    check(&db, |_| None);
    db.close().unwrap();
}

/// Values are on the medium before the MANIFEST names their file.
#[test]
fn a_crash_loses_no_value_that_a_flush_has_taken() {
    let crash = Arc::new(CrashFs::new());
    let mut options = options();
    options.db.env = Env::with_fs(crash.clone());
    let db = Db::open(&options, "/db").unwrap();
    fill(&db, 1, 0..100);
    fill(&db, 2, (0..100).filter(|n| n % 2 == 0));
    rewrite(&db);
    let after = crash.crash_clone(&CrashChoices::lose_unsynced());
    db.close().unwrap();
    options.db.env = Env::with_fs(Arc::new(after));
    let db = Db::open(&options, "/db").unwrap();
    check(&db, |n| Some(if n.is_multiple_of(2) { 2 } else { 1 }));
    db.close().unwrap();
}

/// A filter that drops the keys from `m` to `n`.
struct Skips;

impl CompactionFilter for Skips {
    fn name(&self) -> &str {
        "skips"
    }
    fn filter(&self, _level: usize, key: &[u8], _value: &[u8]) -> FilterDecision {
        if key.starts_with(b"m") {
            FilterDecision::RemoveAndSkipUntil(b"n".to_vec())
        } else {
            FilterDecision::Keep
        }
    }
}

#[test]
fn values_that_a_filter_skips_are_garbage_too() {
    let mut options = options();
    options.cf.compaction_filter = Some(Arc::new(Skips));
    let db = Db::open(&options, "/db").unwrap();
    let large = "large".repeat(50);
    db.put("a", &large).unwrap();
    db.put("m00", &large).unwrap();
    db.flush().unwrap();
    (10..90).for_each(|n| db.put(format!("m{n}"), &large).unwrap());
    db.flush().unwrap();
    (90..99).for_each(|n| db.put(format!("m{n}"), &large).unwrap());
    db.put("z", &large).unwrap();
    db.flush().unwrap();
    rewrite(&db);
    // A file with live records, a file with none, and another with live ones.
    assert_eq!(db.property("rocksdb.num-blob-files").as_deref(), Some("2"));
    let family = db.default_column_family();
    let garbage = db.int_property_cf(&family, "rocksdb.live-blob-file-garbage-size").unwrap();
    let total = db.int_property_cf(&family, "rocksdb.live-blob-file-size").unwrap();
    assert!(garbage > total / 2, "{garbage} of {total}: one of two, nine of ten");
    assert_eq!(db.get("a").unwrap().as_deref(), Some(large.as_bytes()));
    assert_eq!(db.get("z").unwrap().as_deref(), Some(large.as_bytes()));
    assert_eq!(db.get("m50").unwrap(), None);
    db.close().unwrap();
}

/// Fails the test if compactions repeat without end.
#[derive(Default)]
struct ForcedGc(AtomicUsize);

impl EventListener for ForcedGc {
    fn on_compaction_begin(&self, info: &CompactionJobInfo) {
        if info.compaction_reason == CompactionReason::ForcedBlobGc {
            let before = self.0.fetch_add(1, Ordering::SeqCst);
            assert!(before < 10, "the same files are compacted again and again");
        }
    }
}

#[test]
fn columns_of_entities_leave_the_blob_files_that_are_to_go() {
    let mut options = options();
    // With an older target, compactions would put the columns in place.
    options.db.compatible_with = TargetVersion::V11;
    let db = Db::open(&options, "/db").unwrap();
    let large = put_entity_with_a_blob(&db);
    // FIFO deletes the table with the values, so only the entity is left.
    let sizes: Vec<u64> = db.live_files().iter().map(|f| f.file.size).collect();
    assert_eq!(sizes.len(), 2);
    db.close().unwrap();
    options.cf.disable_auto_compactions = false;
    let mut fifo = options.clone();
    fifo.cf.compaction_style = CompactionStyle::Fifo;
    fifo.cf.compaction_options_fifo.max_table_files_size = sizes.iter().sum::<u64>() - 1;
    let db = Db::open(&fifo, "/db").unwrap();
    db.put("z", "z").unwrap();
    db.flush().unwrap();
    db.wait_for_background_work().unwrap();
    assert_eq!(db.get("b").unwrap(), None);
    db.close().unwrap();

    let rounds = Arc::new(ForcedGc::default());
    options.cf.enable_blob_garbage_collection = true;
    options.cf.blob_garbage_collection_age_cutoff = 1.0;
    options.cf.blob_garbage_collection_force_threshold = 0.0;
    options.db.listeners = vec![rounds.clone()];
    let db = Db::open(&options, "/db").unwrap();
    db.wait_for_background_work().unwrap();
    assert_eq!(rounds.0.load(Ordering::SeqCst), 1);
    assert_eq!(db.property("rocksdb.num-blob-files").as_deref(), Some("0"));
    let read = db.get_entity(&ReadOptions::default(), &db.default_column_family(), "a").unwrap();
    let columns: Vec<_> = read.as_ref().unwrap().iter().collect();
    assert_eq!(columns, [(&b"far"[..], large.as_bytes()), (b"near", b"x")]);
    db.close().unwrap();
}
