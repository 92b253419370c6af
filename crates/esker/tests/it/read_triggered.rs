//! `read_triggered_compaction_threshold`: tables that gets search in vain are compacted.

use esker::internals::env::mem::MemFs;
use esker::observe::{CompactionJobInfo, CompactionReason, EventListener};
use esker::options::{BlockCache, CacheOptions, CompactionStyle};
use esker::{Db, Env, Options, builtin};
use std::sync::{Arc, Mutex};

/// Enough that some gets are sampled, and far fewer than a threshold of 1 a byte needs.
const GETS: usize = 12_000;

/// The reasons of compactions.
#[derive(Debug, Default)]
struct KeptReasons(Mutex<Vec<CompactionReason>>);

impl EventListener for KeptReasons {
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        self.0.lock().unwrap().push(info.compaction_reason);
    }
}

impl KeptReasons {
    fn take(&self) -> Vec<CompactionReason> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn scene(threshold: f64) -> (Options, Arc<KeptReasons>) {
    let mut options = Options::new().create_if_missing(true);
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.merge_operator = Some(builtin::string_append(","));
    options.cf.level0_file_num_compaction_trigger = 20;
    options.cf.read_triggered_compaction_threshold = threshold;
    let reasons = Arc::new(KeptReasons::default());
    options.db.listeners = vec![reasons.clone()];
    (options, reasons)
}

/// Keys in the last level, and above them a table that has a value of `new`, operands of `merged`,
/// a deletion of `deleted`, and nothing of `old`.
fn fill(db: &Db, reasons: &KeptReasons) {
    for key in ["deleted", "merged", "old"] {
        db.put(key, "1").unwrap();
    }
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    db.put("a", "1").unwrap();
    db.put("new", "1").unwrap();
    db.merge("merged", "2").unwrap();
    db.delete("deleted").unwrap();
    db.put("z", "1").unwrap();
    db.flush().unwrap();
    db.wait_for_background_work().unwrap();
    assert_eq!(level0(db), 1);
    reasons.take();
}

fn level0(db: &Db) -> u64 {
    db.property("rocksdb.num-files-at-level0").unwrap().parse().unwrap()
}

fn get_often(db: &Db, key: &str, expected: Option<&str>) {
    for _ in 0..GETS {
        assert_eq!(db.get(key).unwrap().as_deref(), expected.map(str::as_bytes));
    }
    db.wait_for_background_work().unwrap();
}

#[test]
fn tables_that_gets_search_in_vain_go_into_the_next_level() {
    for (key, value) in [("old", Some("1")), ("merged", Some("1,2")), ("deleted", None), ("missing", None)] {
        for has_rows in [false, true] {
            let (mut options, reasons) = scene(0.01);
            if has_rows {
                let cache = BlockCache::new(&CacheOptions::with_capacity(1 << 20)).unwrap();
                options.db.row_cache = Some(Arc::new(cache));
            }
            let db = Db::open(&options, "/db").unwrap();
            fill(&db, &reasons);
            get_often(&db, key, value);
            assert_eq!((level0(&db), reasons.take()), (0, vec![CompactionReason::ReadTriggered]), "{key}");
            assert_eq!(db.get(key).unwrap().as_deref(), value.map(str::as_bytes));
            // The last level has no level below it.
            get_often(&db, key, value);
            assert_eq!(reasons.take(), []);
        }
    }
}

#[test]
fn gets_that_find_values_and_a_threshold_of_0_start_no_compaction() {
    let (options, reasons) = scene(0.01);
    let db = Db::open(&options, "/db").unwrap();
    fill(&db, &reasons);
    get_often(&db, "new", Some("1"));
    assert_eq!((level0(&db), reasons.take()), (1, vec![]));
    drop(db);
    for threshold in [0.0, 1000.0] {
        let (options, reasons) = scene(threshold);
        let db = Db::open(&options, "/db").unwrap();
        fill(&db, &reasons);
        get_often(&db, "old", Some("1"));
        assert_eq!((level0(&db), reasons.take()), (1, vec![]), "{threshold}");
        // A threshold that is set later counts from then on.
        let family = db.default_column_family();
        db.set_options(&family, &[("read_triggered_compaction_threshold", "0.001")]).unwrap();
        get_often(&db, "old", Some("1"));
        assert_eq!(reasons.take(), [CompactionReason::ReadTriggered], "{threshold}");
    }
}

#[test]
fn universal_merges_such_a_table_and_fifo_leaves_it() {
    for (style, expected) in
        [(CompactionStyle::Universal, vec![CompactionReason::ReadTriggered]), (CompactionStyle::Fifo, vec![])]
    {
        let (mut options, reasons) = scene(0.01);
        options.cf.compaction_style = style;
        options.cf.compaction_options_fifo.max_table_files_size = 1 << 30;
        let db = Db::open(&options, "/db").unwrap();
        for key in ["a", "old"] {
            db.put(key, "1").unwrap();
            db.put("z", "1").unwrap();
            db.flush().unwrap();
        }
        db.put("b", "1").unwrap();
        db.put("z", "1").unwrap();
        db.flush().unwrap();
        db.wait_for_background_work().unwrap();
        reasons.take();
        get_often(&db, "old", Some("1"));
        assert_eq!(reasons.take(), expected, "{style:?}");
    }
}

#[test]
fn metadata_of_a_table_have_its_sampled_reads() {
    for (threshold, is_sampled) in [(0.0, false), (1000.0, true)] {
        let (options, reasons) = scene(threshold);
        let db = Db::open(&options, "/db").unwrap();
        fill(&db, &reasons);
        get_often(&db, "new", Some("1"));
        let mut files = db.live_files();
        files.sort_by_key(|file| file.level);
        let reads: Vec<u64> = files.iter().map(|file| file.num_reads_sampled).collect();
        let expected = GETS as u64;
        assert_eq!(reads.len(), 2);
        assert_eq!(reads[1], 0, "gets that end in level 0 look in no other table");
        assert_eq!(reads[0] > expected / 4 && reads[0] < expected * 4, is_sampled, "{reads:?}");
        assert!(reads[0].is_multiple_of(1024));
    }
}
