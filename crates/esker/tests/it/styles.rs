//! Universal and FIFO compaction, and changes from one style to another.

use esker::internals::env::mem::MemFs;
use esker::options::{BottommostLevelCompaction, CompactRangeOptions, CompactionStyle, CompressionType};
use esker::{Db, Env, Options, WriteOptions};
use std::collections::BTreeMap;
use std::sync::Arc;

fn options(fs: &Arc<MemFs>, style: CompactionStyle) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(fs.clone());
    options.cf.compaction_style = style;
    options.cf.target_file_size_base = 16 << 10;
    options.cf.max_bytes_for_level_base = 64 << 10;
    options
}

/// Writes, overwrites and deletes, and flushes.
fn write_round(db: &Db, round: usize, model: &mut BTreeMap<String, String>) {
    for i in 0..150 {
        let key = format!("key{:05}", (i * 37 + round * 101) % 2000);
        if i % 10 == 9 {
            db.delete(&key).unwrap();
            model.remove(&key);
        } else {
            let value = format!("round {round} {}", "x".repeat(i));
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
    db.flush().unwrap();
    db.wait_for_background_work().unwrap();
}

fn contents(db: &Db) -> BTreeMap<String, String> {
    let mut iter = db.iter().unwrap();
    let mut all = BTreeMap::new();
    iter.seek_to_first();
    while iter.valid() {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        all.insert(text(iter.key()), text(iter.value()));
        iter.next();
    }
    iter.status().unwrap();
    all
}

fn files(db: &Db) -> Vec<u64> {
    let levels = db.map_property("rocksdb.levelstats").unwrap();
    (0..7).map(|l| levels[&format!("L{l}.num_files")].parse().unwrap()).collect()
}

#[test]
fn universal_keeps_the_number_of_sorted_runs_within_its_trigger() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open(&options(&fs, CompactionStyle::Universal), "/db").unwrap();
    let mut model = BTreeMap::new();
    for round in 0..40 {
        write_round(&db, round, &mut model);
        let files = files(&db);
        let runs = files[0] + files[1..].iter().filter(|n| **n > 0).count() as u64;
        assert!(runs <= 4, "round {round}: {files:?}");
    }
    assert_eq!(contents(&db), model);
    assert!(files(&db)[6] > 0, "{:?}", files(&db));
    db.compact_range(None, None).unwrap();
    let after = files(&db);
    assert_eq!(after[..6], [0; 6], "{after:?}");
    assert_eq!(contents(&db), model);
    let force = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    db.compact_range_opt(&force, &db.default_column_family(), None, None).unwrap();
    assert_eq!(contents(&db), model);
    db.close().unwrap();
    let db = Db::open(&options(&fs, CompactionStyle::Universal), "/db").unwrap();
    assert_eq!(contents(&db), model);
}

#[test]
fn universal_stops_writers_for_a_while_only_however_wide_its_merges_should_be() {
    let mut options = options(&Arc::new(MemFs::new()), CompactionStyle::Universal);
    options.cf.compression = CompressionType::None;
    options.cf.compaction_options_universal.min_merge_width = 20;
    options.cf.level0_slowdown_writes_trigger = 10;
    options.cf.level0_stop_writes_trigger = 10;
    let db = Db::open(&options, "/db").unwrap();
    let at_once = WriteOptions { no_slowdown: true, ..WriteOptions::default() };
    for round in 0..60 {
        let (key, value) = (format!("key{round}"), vec![b'v'; 20 << 10]);
        let written = db.put_opt(&at_once, &db.default_column_family(), &key, &value);
        assert!(written.is_ok(), "round {round}: {written:?}");
        db.flush().unwrap();
        // Everything that stops writers makes a compaction due.
        db.wait_for_background_work().unwrap();
    }
    assert_eq!(contents(&db).len(), 60);
    db.close().unwrap();
}

#[test]
fn universal_with_one_level_merges_within_it() {
    let fs = Arc::new(MemFs::new());
    let mut options = options(&fs, CompactionStyle::Universal);
    options.cf.num_levels = 1;
    let db = Db::open(&options, "/db").unwrap();
    let mut model = BTreeMap::new();
    for round in 0..20 {
        write_round(&db, round, &mut model);
    }
    assert_eq!(contents(&db), model);
    db.compact_range(None, None).unwrap();
    assert_eq!(db.property("rocksdb.num-files-at-level0").unwrap(), "1");
    assert_eq!(contents(&db), model);
}

#[test]
fn fifo_forgets_the_oldest_files() {
    let fs = Arc::new(MemFs::new());
    let mut options = options(&fs, CompactionStyle::Fifo);
    options.cf.compaction_options_fifo.max_table_files_size = 40 << 10;
    let db = Db::open(&options, "/db").unwrap();
    let mut model = BTreeMap::new();
    for round in 0..30 {
        write_round(&db, round, &mut model);
        let bytes: u64 = db.property("rocksdb.live-sst-files-size").unwrap().parse().unwrap();
        assert!(bytes <= 40 << 10, "round {round}: {bytes}");
    }
    let kept = contents(&db);
    assert!(!kept.is_empty() && kept.len() < model.len());
    // All entries of the newest file are present.
    for i in (0..150).filter(|i| i % 10 != 9) {
        let key = format!("key{:05}", (i * 37 + 29 * 101) % 2000);
        assert_eq!(kept.get(&key), model.get(&key), "{key}");
    }
}

#[test]
fn fifo_counts_blob_files_and_merges_towards_equal_files() {
    let mut most_files = Vec::new();
    for merges in [false, true] {
        let fs = Arc::new(MemFs::new());
        let mut options = options(&fs, CompactionStyle::Fifo);
        options.cf.enable_blob_files = true;
        options.cf.min_blob_size = 1_000;
        options.cf.compression = CompressionType::None;
        options.cf.level0_file_num_compaction_trigger = 4;
        options.cf.compaction_options_fifo.max_table_files_size = 1;
        let db = Db::open(&options, "/db").unwrap();
        let fifo = "{max_data_files_size=4M;use_kv_ratio_compaction=true;}";
        let allow = format!("{{allow_compaction={merges};}}");
        let family = db.default_column_family();
        for change in [fifo, &allow] {
            db.set_options(&family, &[("compaction_options_fifo", change)]).unwrap();
        }
        let mut files = 0;
        for round in 0..60 {
            (0..200).for_each(|i| db.put(format!("{round:02}-{i}"), [b'v'; 1_000]).unwrap());
            db.flush().unwrap();
            db.wait_for_background_work().unwrap();
            let bytes = ["rocksdb.live-sst-files-size", "rocksdb.live-blob-file-size"]
                .map(|name| db.property(name).unwrap().parse::<u64>().unwrap());
            assert!(bytes.iter().sum::<u64>() <= 4 << 20, "round {round}: {bytes:?}");
            files = files.max(db.live_files().len());
        }
        assert!(db.get("00-0").unwrap().is_none(), "the oldest files are deleted");
        assert!(db.get("59-9").unwrap().is_some());
        most_files.push(files);
    }
    let [alone, merged] = most_files[..] else { panic!("{most_files:?}") };
    assert!(merged < alone * 2 / 3, "{merged} files with merges, {alone} without");
}

#[test]
fn a_database_goes_from_style_to_style() {
    let fs = Arc::new(MemFs::new());
    let mut model = BTreeMap::new();
    let order = [
        CompactionStyle::Level,
        CompactionStyle::Universal,
        CompactionStyle::None,
        CompactionStyle::Level,
        CompactionStyle::Fifo,
        CompactionStyle::Universal,
        CompactionStyle::Level,
    ];
    for (i, style) in order.into_iter().enumerate() {
        let db = Db::open(&options(&fs, style), "/db").unwrap();
        assert_eq!(contents(&db), model, "{style:?} at {i}");
        for round in 0..8 {
            write_round(&db, i * 10 + round, &mut model);
        }
        assert_eq!(contents(&db), model, "{style:?} at {i}");
        db.close().unwrap();
    }
}
