//! Wishes of a compaction's caller that differ from the options of the family.

use esker::compaction_filter::{CompactionFilter, FilterDecision};
use esker::internals::env::mem::MemFs;
use esker::observe::{CompactionJobInfo, EventListener, Temperature};
use esker::options::{
    BlobGarbageCollectionPolicy, BottommostLevelCompaction, CompressionType, SizeApproximationOptions,
};
use esker::{CompactRangeOptions, CompactionOptions, Db, Env, ErrorKind, FileNumber, Options};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.disable_auto_compactions = true;
    options
}

/// A database with four blob files, each with the values of two tables' keys.
fn blobs(collects: bool) -> Db {
    let mut options = options();
    options.cf.enable_blob_files = true;
    options.cf.enable_blob_garbage_collection = collects;
    options.cf.blob_garbage_collection_age_cutoff = 0.25;
    let db = Db::open(&options, "/db").unwrap();
    for file in 0..4 {
        for key in 0..4 {
            db.put(format!("{file}{key}"), vec![file; 1000]).unwrap();
        }
        db.flush().unwrap();
    }
    db
}

fn blob_files(db: &Db) -> BTreeSet<FileNumber> {
    let family = db.column_family_metadata(&db.default_column_family());
    family.blob_files.iter().map(|blob| blob.blob_file_number).collect()
}

#[test]
fn a_compaction_by_hand_collects_the_blob_files_that_its_caller_names() {
    use BlobGarbageCollectionPolicy::{Disable, Force, UseDefault};
    // Whether the family collects garbage, the policy, the cutoff, and the files that stay.
    let cases = [
        (false, UseDefault, 0.5, 4),
        (false, Force, -1.0, 3),
        (false, Force, 0.5, 2),
        (false, Force, 1.0, 0),
        (true, UseDefault, -1.0, 3),
        (true, UseDefault, 2.0, 3),
        (true, UseDefault, 0.5, 2),
        (true, Disable, 1.0, 4),
    ];
    for (collects, policy, cutoff, stay) in cases {
        let db = blobs(collects);
        let before = blob_files(&db);
        let how = CompactRangeOptions::default()
            .bottommost_level_compaction(BottommostLevelCompaction::Force)
            .blob_garbage_collection_policy(policy)
            .blob_garbage_collection_age_cutoff(cutoff);
        db.compact_range_opt(&how, &db.default_column_family(), None, None).unwrap();
        let left: Vec<_> = before.intersection(&blob_files(&db)).copied().collect();
        let newest: Vec<_> = before.iter().copied().skip(4 - stay).collect();
        assert_eq!(left, newest, "{collects} {policy:?} {cutoff}");
        for file in 0..4_u8 {
            assert_eq!(db.get(format!("{file}3")).unwrap().unwrap(), vec![file; 1000]);
        }
    }
}

fn tables(db: &Db) -> Vec<(FileNumber, usize, Temperature)> {
    db.live_files().iter().map(|file| (file.file_number, file.level, file.temperature)).collect()
}

#[test]
fn compacted_files_get_the_compression_and_temperature_of_the_call() {
    let mut options = options();
    options.cf.compression = CompressionType::None;
    options.cf.last_level_temperature = Temperature::Cold;
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    let compression = |db: &Db| {
        let all = db.properties_of_all_tables(&family).unwrap();
        all.into_values().map(|properties| properties.compression_name).collect::<Vec<_>>()
    };
    db.put("k", "v".repeat(10_000)).unwrap();
    db.flush().unwrap();
    let file = tables(&db)[0].0;
    let how = CompactionOptions::default()
        .compression(CompressionType::Lz4)
        .output_temperature_override(Temperature::Warm)
        .allow_trivial_move(true);
    let written = db.compact_files(&how, &family, &[file], 6).unwrap();
    assert_eq!(tables(&db), [(written[0], 6, Temperature::Warm)]);
    assert_eq!(compression(&db), ["LZ4"]);
    // Without wishes it is as the options say.
    let written = db.compact_files(&CompactionOptions::default(), &family, &written, 6).unwrap();
    assert_eq!(tables(&db), [(written[0], 6, Temperature::Cold)]);
    assert_eq!(compression(&db), ["NoCompression"]);
}

#[test]
fn compacted_files_move_if_the_call_allows_it_and_nothing_overlaps() {
    let db = Db::open(&options(), "/db").unwrap();
    let family = db.default_column_family();
    let moving = CompactionOptions::default().allow_trivial_move(true);
    let flushed = |keys: &[&str]| {
        keys.iter().for_each(|key| db.put(key, "v").unwrap());
        db.flush().unwrap();
        tables(&db).into_iter().find(|(_, level, _)| *level == 0).unwrap().0
    };
    let first = flushed(&["a", "c"]);
    assert_eq!(db.compact_files(&moving, &family, &[first], 4).unwrap(), [first]);
    let second = flushed(&["x", "z"]);
    assert_ne!(db.compact_files(&CompactionOptions::default(), &family, &[second], 4).unwrap(), [second]);
    // An overlap with the output level needs a rewrite.
    let third = flushed(&["b"]);
    let written = db.compact_files(&moving, &family, &[third], 4).unwrap();
    assert!(!written.contains(&third) && !written.contains(&first), "{written:?}");
    // So do two files of level 0, of which one is named.
    flushed(&["m", "n"]);
    let newer = flushed(&["m"]);
    let written = db.compact_files(&moving, &family, &[newer], 3).unwrap();
    assert!(!written.contains(&newer), "{written:?}");
    let keys: Vec<_> = db.range(..).map(|pair| pair.unwrap().0).collect();
    assert_eq!(keys.concat(), b"abcmnxz");
}

/// Removes all values.
struct RemoveAll;

impl CompactionFilter for RemoveAll {
    fn name(&self) -> &str {
        "RemoveAll"
    }
    fn filter(&self, _level: usize, _key: &[u8], _value: &[u8]) -> FilterDecision {
        FilterDecision::Remove
    }
}

#[test]
fn a_compaction_filter_sees_files_that_the_call_would_let_move() {
    let mut options = options();
    options.cf.compaction_filter = Some(Arc::new(RemoveAll));
    let db = Db::open(&options, "/db").unwrap();
    db.put("k", "v").unwrap();
    db.flush().unwrap();
    let how = CompactionOptions::default().allow_trivial_move(true);
    let written = db.compact_files(&how, &db.default_column_family(), &[tables(&db)[0].0], 6).unwrap();
    assert_eq!((written, db.get("k").unwrap(), tables(&db)), (Vec::new(), None, Vec::new()));
}

#[test]
fn a_compression_that_cannot_be_written_is_refused_and_harms_nothing() {
    let db = Db::open(&options(), "/db").unwrap();
    let family = db.default_column_family();
    db.put("k", "v").unwrap();
    db.flush().unwrap();
    let file = tables(&db)[0].0;
    let how = CompactionOptions::default().compression(CompressionType::Xpress);
    let refused = db.compact_files(&how, &family, &[file], 6).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    assert!(refused.message().contains("Xpress"), "{refused}");
    assert_eq!(db.int_property("rocksdb.background-errors"), Some(0));
    db.put("l", "v").unwrap();
    db.compact_files(&CompactionOptions::default(), &family, &[file], 6).unwrap();
}

#[test]
fn sizes_of_memtables_open_no_table() {
    let fs = Arc::new(MemFs::new());
    let mut options = options();
    options.db.env = Env::with_fs(fs.clone());
    let statistics = Arc::new(esker::stats::Statistics::new());
    options.db.statistics = Some(statistics.clone());
    options.db.max_open_files = 100;
    let db = Db::open(&options, "/db").unwrap();
    ["a", "m", "z"].iter().for_each(|key| db.put(key, "v").unwrap());
    db.flush().unwrap();
    db.close().unwrap();
    let db = Db::open(&options, "/db").unwrap();
    let opened = || statistics.ticker_count(esker::stats::Ticker::NoFileOpens);
    let before = opened();
    let family = db.default_column_family();
    let memtables = SizeApproximationOptions::default().include_memtables(true).include_files(false);
    let range: (&[u8], &[u8]) = (b"b", b"n");
    assert_eq!(db.approximate_sizes(&memtables, &family, &[range]).unwrap(), [0]);
    assert_eq!(opened(), before);
    assert!(db.approximate_sizes(&SizeApproximationOptions::default(), &family, &[range]).is_ok());
    assert!(opened() > before, "the size within a table needs the table");
}

#[test]
fn sizes_of_ranges_have_the_parts_that_are_asked_for() {
    let mut options = options();
    options.cf.compression = CompressionType::None;
    options.cf.enable_blob_files = true;
    options.cf.min_blob_size = 5000;
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    for key in 0..100 {
        db.put(format!("{key:02}"), "v".repeat(if key < 50 { 1000 } else { 10_000 })).unwrap();
    }
    let sizes = |options: SizeApproximationOptions, ranges: &[(&[u8], &[u8])]| {
        db.approximate_sizes(&options, &family, ranges).unwrap()
    };
    let all: (&[u8], &[u8]) = (b"", b"z");
    let plain = SizeApproximationOptions::default();
    let memtables = SizeApproximationOptions { include_memtables: true, include_files: false, ..plain };
    assert_eq!(sizes(plain, &[all]), [0]);
    let in_memory = sizes(memtables, &[all, (b"x", b"z")]);
    assert!(in_memory[0] > 500_000 && in_memory[1] == 0, "{in_memory:?}");
    db.flush().unwrap();
    assert_eq!(sizes(memtables, &[all]), [0]);
    let of_tables = db.live_files()[0].size;
    let of_blobs = db.column_family_metadata(&family).blob_file_size;
    let with_blobs = SizeApproximationOptions { include_blob_files: true, ..plain };
    assert_eq!(sizes(plain, &[all]), [of_tables]);
    assert!(sizes(with_blobs, &[all])[0].abs_diff(of_tables + of_blobs) < 2);
    assert_eq!(db.approximate_size(&family, all.0, all.1), of_tables);
    let half = sizes(plain, &[(b"", b"25")])[0];
    assert!(half > of_tables / 4 && half < of_tables * 3 / 4, "{half} of {of_tables}");
    // With a margin a table that the range cuts counts half, if those within it are large enough.
    for key in 100..300 {
        db.put(format!("a{key}"), "v".repeat(1000)).unwrap();
    }
    db.flush().unwrap();
    let whole = db.live_files().iter().map(|file| file.size).max().unwrap();
    let rough = SizeApproximationOptions { files_size_error_margin: 0.9, ..plain };
    assert_eq!(sizes(rough, &[(b"25", b"z")]), [whole + of_tables / 2]);
    assert_ne!(sizes(plain, &[(b"25", b"z")]), [whole + of_tables / 2]);
    let nothing = SizeApproximationOptions { include_files: false, ..plain };
    let refused = db.approximate_sizes(&nothing, &family, &[all]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
}

/// Counts compactions that were given to a service; here, those that were not moves.
#[derive(Default)]
struct Rewrites(AtomicUsize);

impl EventListener for Rewrites {
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        self.0.fetch_add(usize::from(info.stats.num_output_records > 0), Ordering::SeqCst);
    }
}

#[test]
fn a_move_by_hand_is_a_compaction_without_entries() {
    let mut options = options();
    let rewrites = Arc::new(Rewrites::default());
    options.db.listeners = vec![rewrites.clone()];
    let db = Db::open(&options, "/db").unwrap();
    db.put("k", "v").unwrap();
    db.flush().unwrap();
    let how = CompactionOptions::default().allow_trivial_move(true);
    let (family, file) = (db.default_column_family(), tables(&db)[0].0);
    let (moved, info) = db.compact_files_with_info(&how, &family, &[file], 5).unwrap();
    assert_eq!((moved, info.output_level), (vec![file], 5));
    assert_eq!(rewrites.0.load(Ordering::SeqCst), 0);
}
