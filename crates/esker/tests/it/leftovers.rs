//! Nothing that no reader sees stays: after `compact_range`, and by itself after everything was deleted.

use esker::builtin::string_append;
use esker::internals::env::mem::MemFs;
use esker::observe::{CompactionJobInfo, EventListener};
use esker::options::{BottommostLevelCompaction, CompactRangeOptions, CompactionStyle};
use esker::{Db, Env, Options, ReadOptions, Snapshot};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Ends a database whose compactions do not end.
#[derive(Default)]
struct Compactions(AtomicUsize);

impl EventListener for Compactions {
    fn on_compaction_begin(&self, _: &CompactionJobInfo) {
        let before = self.0.fetch_add(1, Ordering::SeqCst);
        assert!(before < 5000, "compactions begin for ever");
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
    // Writers that wait for a compaction would wait for ever where only `compact_range` compacts.
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

/// Each case and style: writes with `write`, gives its snapshots back, compacts. How many entries are left, as the case says.
fn after_compact_range(left: u64, write: impl Fn(&Db) -> Vec<Snapshot>) {
    for (style, way) in STYLES.into_iter().flat_map(|style| WAYS.map(|way| (style, way))) {
        // Snapshots go before the first compaction, or between it and the next one.
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
        assert_eq!(entries(&db), 4, "{style:?} {way:?}: three snapshots and the present");
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
