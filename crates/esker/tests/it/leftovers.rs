//! Entries that no reader sees disappear: by `compact_range`, and automatically after all keys were
//! deleted.

use esker::builtin::string_append;
use esker::internals::env::mem::MemFs;
use esker::observe::{CompactionJobInfo, EventListener};
use esker::options::{BottommostLevelCompaction, CompactRangeOptions, CompactionStyle};
use esker::{Db, Env, Options, ReadOptions, Snapshot, SstFileWriter};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Fails the test if compactions repeat without end.
#[derive(Default)]
struct Compactions(AtomicUsize);

impl EventListener for Compactions {
    fn on_compaction_begin(&self, _: &CompactionJobInfo) {
        let before = self.0.fetch_add(1, Ordering::SeqCst);
        assert!(before < 5000, "compactions begin again and again");
    }
}

const STYLES: [CompactionStyle; 3] =
    [CompactionStyle::Level, CompactionStyle::Universal, CompactionStyle::None];
const WAYS: [BottommostLevelCompaction; 3] = [
    BottommostLevelCompaction::IfHaveCompactionFilter,
    BottommostLevelCompaction::Force,
    BottommostLevelCompaction::ForceOptimized,
];

fn options(style: CompactionStyle) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.listeners = vec![Arc::new(Compactions::default())];
    options.cf.compaction_style = style;
    options.cf.merge_operator = Some(string_append(","));
    // Only `compact_range` compacts here, so writers must not wait for a compaction.
    options.cf.level0_slowdown_writes_trigger = 10_000;
    options.cf.level0_stop_writes_trigger = 10_000;
    options
}

fn by_hand(style: CompactionStyle) -> Options {
    let mut options = options(style);
    options.cf.disable_auto_compactions = true;
    options
}

/// Entries of all tables, range tombstones included.
fn entries(db: &Db) -> u64 {
    let all = db.map_property("rocksdb.aggregated-table-properties").unwrap();
    all["num_entries"].parse().unwrap()
}

fn compact(db: &Db, bottommost_level_compaction: BottommostLevelCompaction) {
    let how = CompactRangeOptions { bottommost_level_compaction, ..Default::default() };
    db.compact_range_opt(&how, &db.default_column_family(), None, None).unwrap();
}

/// For each case and style: writes with `write`, releases its snapshots, compacts. `left` entries
/// must remain.
fn after_compact_range(left: u64, write: impl Fn(&Db) -> Vec<Snapshot>) {
    for (style, way) in STYLES.into_iter().flat_map(|style| WAYS.map(|way| (style, way))) {
        // Snapshots are released before the first compaction, or between it and the next one.
        for go_early in [true, false] {
            let db = Db::open(&by_hand(style), "/db").unwrap();
            let mut snapshots = write(&db);
            db.flush().unwrap();
            if go_early {
                snapshots.clear();
            }
            compact(&db, way);
            snapshots.clear();
            compact(&db, way);
            assert_eq!(entries(&db), left, "{style:?}, {way:?}, early: {go_early}\n{:?}", db.live_files());
            db.close().unwrap();
        }
    }
}

#[test]
fn compact_range_leaves_one_version_of_a_key_written_by_many_flushes() {
    after_compact_range(1, |db| {
        for n in 0..200 {
            db.put("key", n.to_string()).unwrap();
            db.flush().unwrap();
        }
        Vec::new()
    });
}

#[test]
fn compact_range_leaves_no_deletion_beside_what_it_deletes() {
    after_compact_range(0, |db| {
        db.put("key", "value").unwrap();
        db.flush().unwrap();
        db.delete("key").unwrap();
        Vec::new()
    });
    after_compact_range(0, |db| {
        db.put("key", "value").unwrap();
        db.flush().unwrap();
        db.single_delete("key").unwrap();
        Vec::new()
    });
    after_compact_range(0, |db| {
        db.put("key", "value").unwrap();
        db.flush().unwrap();
        db.delete_range("a", "z").unwrap();
        Vec::new()
    });
}

#[test]
fn compact_range_leaves_no_deletion_of_nothing() {
    after_compact_range(0, |db| {
        db.delete("key").unwrap();
        db.single_delete("other").unwrap();
        db.delete_range("a", "z").unwrap();
        Vec::new()
    });
}

#[test]
fn compact_range_leaves_nothing_that_only_past_snapshots_saw() {
    after_compact_range(1, |db| {
        let write = |n: u32| {
            db.put("key", n.to_string()).unwrap();
            db.snapshot()
        };
        (0..50).map(write).collect()
    });
    after_compact_range(0, |db| {
        db.put("key", "value").unwrap();
        db.put("once", "value").unwrap();
        let snapshot = db.snapshot();
        db.delete("key").unwrap();
        db.single_delete("once").unwrap();
        vec![snapshot]
    });
}

#[test]
fn compact_range_leaves_one_value_of_many_operands() {
    after_compact_range(1, |db| {
        let write = |n: u32| {
            db.merge("key", n.to_string()).unwrap();
            let snapshot = db.snapshot();
            if n.is_multiple_of(7) {
                db.flush().unwrap();
            }
            snapshot
        };
        (0..50).map(write).collect()
    });
    after_compact_range(1, |db| {
        for n in 0..20 {
            db.merge("key", n.to_string()).unwrap();
            db.flush().unwrap();
        }
        Vec::new()
    });
}

#[test]
fn compact_range_keeps_what_live_snapshots_see() {
    for (style, way) in STYLES.into_iter().flat_map(|style| WAYS.map(|way| (style, way))) {
        let db = Db::open(&by_hand(style), "/db").unwrap();
        let mut snapshots = Vec::new();
        for n in 0..30 {
            db.put("key", n.to_string()).unwrap();
            if n % 10 == 0 {
                snapshots.push((n, db.snapshot()));
            }
            db.flush().unwrap();
        }
        compact(&db, way);
        assert_eq!(entries(&db), 4, "{style:?} {way:?}: versions for three snapshots and the present state");
        for (n, snapshot) in &snapshots {
            let then = ReadOptions::new().snapshot(snapshot);
            let value = db.get_opt(&then, &db.default_column_family(), "key").unwrap();
            assert_eq!(value.as_deref(), Some(n.to_string().as_bytes()));
        }
    }
}

#[test]
fn compact_range_rewrites_no_file_with_one_value_a_key() {
    for style in STYLES {
        let db = Db::open(&by_hand(style), "/db").unwrap();
        for (n, key) in ["a", "b", "c"].into_iter().enumerate() {
            db.put(format!("{key}{n}"), "value").unwrap();
            db.flush().unwrap();
        }
        let numbers = |db: &Db| -> Vec<_> { db.live_files().iter().map(|f| f.file.file_number).collect() };
        compact(&db, BottommostLevelCompaction::IfHaveCompactionFilter);
        let before = numbers(&db);
        compact(&db, BottommostLevelCompaction::IfHaveCompactionFilter);
        assert_eq!(numbers(&db), before, "{style:?}");
        db.close().unwrap();
    }
}

fn table_and_blob_bytes(db: &Db) -> u64 {
    let number = |name: &str| db.int_property(&format!("rocksdb.{name}")).unwrap();
    number("live-sst-files-size") + number("live-blob-file-size")
}

/// Fills a database, deletes all keys by `delete`, and flushes. Automatic compactions must remove
/// all entries.
fn all_goes_by_itself(options: &Options, fill: impl Fn(&Db), delete: impl Fn(&Db)) {
    let db = Db::open(options, "/db").unwrap();
    fill(&db);
    db.flush().unwrap();
    db.wait_for_background_work().unwrap();
    let before = table_and_blob_bytes(&db);
    assert!(before > 0);
    delete(&db);
    db.flush().unwrap();
    db.wait_for_background_work().unwrap();
    let left = db.live_files();
    assert_eq!(table_and_blob_bytes(&db), 0, "{:?} of {before} bytes\n{left:?}", options.cf.compaction_style);
    db.close().unwrap();
}

fn fill(db: &Db) {
    for n in 0..2000 {
        db.put(format!("key{n:05}"), [b'v'; 100]).unwrap();
    }
}

fn delete_each(db: &Db) {
    (0..2000).for_each(|n| db.delete(format!("key{n:05}")).unwrap());
}

#[test]
fn tables_under_a_range_deletion_go_by_themselves() {
    for style in [CompactionStyle::Level, CompactionStyle::Universal] {
        let mut options = options(style);
        all_goes_by_itself(&options, fill, |db| db.delete_range("key", "kez").unwrap());
        // A small buffer gives many tables on several levels.
        options.cf.write_buffer_size = 64 << 10;
        options.cf.target_file_size_base = 16 << 10;
        options.cf.max_bytes_for_level_base = 32 << 10;
        all_goes_by_itself(&options, fill, |db| db.delete_range("key", "kez").unwrap());
    }
}

#[test]
fn tables_whose_keys_were_deleted_one_by_one_go_by_themselves() {
    for style in [CompactionStyle::Level, CompactionStyle::Universal] {
        all_goes_by_itself(&options(style), fill, delete_each);
    }
}

#[test]
fn blob_files_go_by_themselves_when_all_their_keys_were_deleted() {
    for style in [CompactionStyle::Level, CompactionStyle::Universal] {
        let mut options = options(style);
        options.cf.enable_blob_files = true;
        all_goes_by_itself(&options, fill, |db| db.delete_range("key", "kez").unwrap());
        all_goes_by_itself(&options, fill, delete_each);
    }
}

#[test]
fn removable_entries_go_when_the_database_is_opened_again() {
    for style in [CompactionStyle::Level, CompactionStyle::Universal] {
        for delete in [|db: &Db| db.delete_range("key", "kez").unwrap(), delete_each] {
            let (mut options, fs) = (by_hand(style), Arc::new(MemFs::new()));
            options.db.env = Env::with_fs(fs);
            let db = Db::open(&options, "/db").unwrap();
            fill(&db);
            db.flush().unwrap();
            delete(&db);
            db.flush().unwrap();
            db.close().unwrap();
            options.cf.disable_auto_compactions = false;
            let db = Db::open(&options, "/db").unwrap();
            db.wait_for_background_work().unwrap();
            assert_eq!(table_and_blob_bytes(&db), 0, "{style:?}\n{:?}", db.live_files());
            db.close().unwrap();
        }
    }
}

/// A small share of deletions starts no compaction, and started compactions come to an end.
#[test]
fn compactions_for_what_can_go_cost_no_more_than_they_free() {
    for style in [CompactionStyle::Level, CompactionStyle::Universal] {
        let mut options = options(style);
        options.cf.compression = esker::options::CompressionType::None;
        options.cf.level0_file_num_compaction_trigger = 1000;
        let db = Db::open(&options, "/db").unwrap();
        fill(&db);
        db.flush().unwrap();
        let compactions = |flushes: f64| {
            db.wait_for_background_work().unwrap();
            let stats = db.map_property("rocksdb.cfstats").unwrap();
            // Flushes count as compactions into level 0.
            stats["compaction.Sum.CompCount"].parse::<f64>().unwrap() - flushes
        };
        // Deletes a tenth of the keys, in many flushes.
        for n in 0..20 {
            (n * 10..n * 10 + 10).for_each(|n| db.delete(format!("key{n:05}")).unwrap());
            db.flush().unwrap();
        }
        assert_eq!(compactions(21.0), 0.0, "{style:?}");
        // Then deletes nearly all keys.
        (200..1900).for_each(|n| db.delete(format!("key{n:05}")).unwrap());
        db.flush().unwrap();
        let count = compactions(22.0);
        assert!((1.0..=4.0).contains(&count), "{style:?}: {count}");
        assert_eq!(entries(&db), 100, "{style:?}");
        db.close().unwrap();
    }
}

#[test]
fn a_snapshot_keeps_what_a_range_deletion_covers_until_it_goes() {
    for style in [CompactionStyle::Level, CompactionStyle::Universal] {
        let db = Db::open(&options(style), "/db").unwrap();
        fill(&db);
        db.flush().unwrap();
        let snapshot = db.snapshot();
        db.delete_range("key", "kez").unwrap();
        db.flush().unwrap();
        db.wait_for_background_work().unwrap();
        let then = ReadOptions::new().snapshot(&snapshot);
        let get = || db.get_opt(&then, &db.default_column_family(), "key01999").unwrap();
        assert_eq!(get().as_deref(), Some(&[b'v'; 100][..]));
        assert_eq!(db.get("key01999").unwrap(), None);
        drop(then);
        drop(snapshot);
        db.wait_for_background_work().unwrap();
        assert_eq!(table_and_blob_bytes(&db), 0, "{style:?}\n{:?}", db.live_files());
        db.close().unwrap();
    }
}

#[test]
fn tables_under_an_ingested_range_deletion_go_when_no_snapshot_sees_them() {
    for (style, deletes_range) in STYLES[..2].iter().flat_map(|style| [(*style, true), (*style, false)]) {
        let options = options(style);
        let db = Db::open(&options, "/db").unwrap();
        fill(&db);
        db.flush().unwrap();
        let mut table = SstFileWriter::new(&options);
        table.open("/deletions").unwrap();
        if deletes_range {
            table.delete_range("key", "kez").unwrap();
        } else {
            (0..2000).for_each(|n| table.delete(format!("key{n:05}")).unwrap());
        }
        table.finish().unwrap();
        let snapshot = db.snapshot();
        db.ingest_external_file(&["/deletions"]).unwrap();
        db.wait_for_background_work().unwrap();
        let then = ReadOptions::new().snapshot(&snapshot);
        assert!(db.get_opt(&then, &db.default_column_family(), "key01999").unwrap().is_some());
        drop((then, snapshot));
        db.wait_for_background_work().unwrap();
        assert_eq!(table_and_blob_bytes(&db), 0, "{style:?}, {deletes_range}\n{:?}", db.live_files());
        db.close().unwrap();
    }
}

#[test]
fn operands_become_one_value_when_the_last_snapshot_goes() {
    for style in [CompactionStyle::Level, CompactionStyle::Universal] {
        for flushes in [1, 3] {
            let db = Db::open(&options(style), "/db").unwrap();
            let mut snapshots = Vec::new();
            for n in 0..90 {
                db.merge("key", "operand").unwrap();
                snapshots.push(db.snapshot());
                if n % (90 / flushes) == 0 {
                    db.flush().unwrap();
                }
            }
            db.flush().unwrap();
            db.wait_for_background_work().unwrap();
            snapshots.clear();
            db.wait_for_background_work().unwrap();
            assert_eq!(entries(&db), 1, "{style:?}, {flushes} flushes\n{:?}", db.live_files());
            db.close().unwrap();
        }
    }
}

#[test]
fn deletions_in_memory_and_of_ranges_count_against_keys_in_files() {
    let mut options = by_hand(CompactionStyle::Level);
    options.cf.target_file_size_base = 16 << 10;
    let db = Db::open(&options, "/db").unwrap();
    let keys = || db.int_property("rocksdb.estimate-num-keys").unwrap();
    fill(&db);
    db.flush().unwrap();
    assert_eq!(keys(), 2000);
    // The deletions are in memory first, then in a file.
    (0..500).for_each(|n| db.delete(format!("key{n:05}")).unwrap());
    assert_eq!(keys(), 1500);
    db.flush().unwrap();
    assert_eq!(keys(), 1500);
    db.compact_range(None, None).unwrap();
    assert_eq!(keys(), 1500);
    // Most of the many files lie within the range.
    db.delete_range("key01000", "kez").unwrap();
    assert!((440..560).contains(&keys()), "{}", keys());
    db.flush().unwrap();
    assert!((440..560).contains(&keys()), "{}", keys());
    // Later writes must stay.
    (1500..1700).for_each(|n| db.put(format!("key{n:05}"), "again").unwrap());
    assert!((640..760).contains(&keys()), "{}", keys());
    db.flush().unwrap();
    assert!((640..760).contains(&keys()), "{}", keys());
    db.compact_range(None, None).unwrap();
    assert_eq!(keys(), 700);
}

/// Counts compactions that delete files unread.
#[derive(Default)]
struct Unread(AtomicUsize);

impl EventListener for Unread {
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        let (stats, files) = (&info.stats, info.input_files.len() as u64);
        if stats.num_filtered_input_files > 0 {
            assert_eq!((stats.num_input_files, stats.num_filtered_input_files), (0, files));
            assert!(stats.total_input_bytes == 0 && stats.total_skipped_input_bytes > 0);
            assert!(stats.num_filtered_input_files_at_output_level > 0, "the lowest of their levels");
            assert_eq!((info.output_files.len(), stats.num_input_records), (0, 0));
            self.0.fetch_add(usize::from(info.status.is_ok()), Ordering::Relaxed);
        } else if info.status.is_ok() {
            assert_eq!(stats.num_input_files, files);
        }
    }
}

type Keys = BTreeMap<String, String>;

fn ingest(db: &Db, options: &Options, model: &mut Keys, rng: &mut fastrand::Rng, step: usize) {
    let path = format!("/ingested{step}");
    let mut table = SstFileWriter::new(options);
    table.open(&path).unwrap();
    let from = rng.usize(..75);
    let (begin, end) = (format!("{from:02}"), format!("{:02}~", from + rng.usize(..20)));
    if rng.bool() {
        table.delete_range(&begin, &end).unwrap();
        model.retain(|key, _| *key < begin || *key >= end);
    }
    for n in from..from + rng.usize(1..5) {
        table.put(format!("{n:02}"), format!("ingested{step}")).unwrap();
        model.insert(format!("{n:02}"), format!("ingested{step}"));
    }
    table.finish().unwrap();
    db.ingest_external_file(&[&path]).unwrap();
}

/// Makes one step of a history in the database and in the model.
fn step(db: &Db, options: &Options, model: &mut Keys, rng: &mut fastrand::Rng, step: usize) {
    match rng.u8(..20) {
        0..=8 => {
            let from = rng.usize(..100);
            for n in from..(from + rng.usize(1..20)).min(100) {
                let value = format!("{step:-<50}");
                db.put(format!("{n:02}"), &value).unwrap();
                model.insert(format!("{n:02}"), value);
            }
        }
        9 | 10 => {
            let key = format!("{:02}", rng.usize(..100));
            db.delete(&key).unwrap();
            model.remove(&key);
        }
        11..=13 => {
            let (a, b) = (rng.usize(..100), rng.usize(..100));
            let (begin, end) = (format!("{:02}", a.min(b)), format!("{:02}", a.max(b)));
            db.delete_range(&begin, &end).unwrap();
            model.retain(|key, _| *key < begin || *key >= end);
        }
        14 | 15 => ingest(db, options, model, rng, step),
        16 => db.wait_for_background_work().unwrap(),
        _ => db.flush().unwrap(),
    }
}

fn contents(db: &Db, read: ReadOptions) -> Keys {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut iter = db.iter_opt(read, &db.default_column_family()).unwrap();
    iter.seek_to_first();
    let mut all = Keys::new();
    while iter.valid() {
        all.insert(text(iter.key()), text(iter.value()));
        iter.next();
    }
    iter.status().unwrap();
    all
}

#[test]
fn files_under_range_deletions_go_only_when_no_snapshot_sees_their_keys() {
    let unread = Arc::new(Unread::default());
    for seed in 0..40 {
        let mut options = options(STYLES[seed as usize % 2]);
        options.db.listeners.push(unread.clone());
        options.cf.enable_blob_files = seed % 5 == 4;
        options.cf.target_file_size_base = 1 << 10;
        options.cf.max_bytes_for_level_base = 4 << 10;
        options.cf.level0_file_num_compaction_trigger = 2 + seed as i32 % 4;
        let db = Db::open(&options, "/db").unwrap();
        let (mut rng, mut model) = (fastrand::Rng::with_seed(seed), Keys::new());
        let mut snapshots: Vec<(Snapshot, Keys)> = Vec::new();
        for n in 0..300 {
            step(&db, &options, &mut model, &mut rng, n);
            match rng.u8(..12) {
                0 | 1 => snapshots.push((db.snapshot(), model.clone())),
                2..=4 if !snapshots.is_empty() => {
                    let (snapshot, then) = snapshots.swap_remove(rng.usize(..snapshots.len()));
                    let read = ReadOptions::new().snapshot(&snapshot);
                    assert_eq!(contents(&db, read), then, "seed {seed}, step {n}");
                }
                5 => assert_eq!(contents(&db, ReadOptions::new()), model, "seed {seed}, step {n}"),
                _ => {}
            }
        }
        db.wait_for_background_work().unwrap();
        for (snapshot, then) in &snapshots {
            assert_eq!(contents(&db, ReadOptions::new().snapshot(snapshot)), *then, "seed {seed}");
        }
        assert_eq!(contents(&db, ReadOptions::new()), model, "seed {seed}");
        snapshots.clear();
        db.close().unwrap();
    }
    let count = unread.0.load(Ordering::Relaxed);
    assert!(count > 100, "files went unread {count} times");
}
