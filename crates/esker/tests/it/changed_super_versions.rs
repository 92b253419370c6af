//! Iterators that change to a super version without their current key.

use esker::compaction_filter::{CompactionFilter, FilterDecision};
use esker::internals::env::mem::MemFs;
use esker::options::{BottommostLevelCompaction, CompactRangeOptions, CompactionStyle, CompressionType};
use esker::{Db, DbIterator, Env, Options, ReadOptions, ReadTier};
use std::sync::{Arc, Mutex, OnceLock};

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options
}

fn at(db: &Db, key: &str) -> DbIterator {
    let mut iter = db.iter().unwrap();
    iter.seek(key);
    assert_eq!(iter.key(), key.as_bytes());
    iter
}

/// The keys that an iterator shows from its next step on.
fn after_a_step(mut iter: DbIterator, forward: bool) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        if forward {
            iter.next()
        } else {
            iter.prev()
        }
        let Some((key, _)) = iter.item() else { break };
        found.push(String::from_utf8(key.to_vec()).unwrap());
    }
    iter.status().unwrap();
    found
}

#[test]
fn steps_from_a_key_that_fifo_has_dropped_lead_to_its_neighbours() {
    let mut options = options();
    options.cf.compaction_style = CompactionStyle::Fifo;
    options.cf.compression = CompressionType::None;
    options.cf.compaction_options_fifo.max_table_files_size = 30_000;
    options.cf.merge_operator = esker::builtin::merge_operator("stringappend");
    let db = Db::open(&options, "/db").unwrap();
    let large = "x".repeat(12_000);
    for key in ["b", "f"] {
        db.put(key, &large).unwrap();
    }
    db.flush().unwrap();
    for key in ["a", "c", "e"] {
        db.merge(key, "m").unwrap();
        db.merge(key, "n").unwrap();
    }
    db.put("d", "v").unwrap();
    db.flush().unwrap();
    let mut iters = ["b", "f", "f", "f"].map(|key| at(&db, key)).into_iter();
    db.put("g", &large).unwrap();
    db.flush().unwrap();
    db.wait_for_background_work().unwrap();
    assert_eq!(db.get("b").unwrap(), None);
    let mut next = |forward| after_a_step(iters.next().unwrap(), forward);
    assert_eq!(next(true), ["c", "d", "e"]);
    assert_eq!(next(false), ["e", "d", "c", "a"]);
    assert!(next(true).is_empty());
    assert_eq!(next(false), ["e", "d", "c", "a"]);
}

/// A filter that removes keys with an odd number. Its first call makes an iterator.
struct RemoveOdd {
    db: OnceLock<Arc<Db>>,
    made: Mutex<Option<DbIterator>>,
}

impl CompactionFilter for RemoveOdd {
    fn name(&self) -> &str {
        "RemoveOdd"
    }
    fn filter(&self, _level: usize, key: &[u8], _value: &[u8]) -> FilterDecision {
        if let (Some(db), made @ None) = (self.db.get(), &mut *self.made.lock().unwrap()) {
            *made = Some(at(db, "1"));
        }
        if key[0] % 2 == 1 { FilterDecision::Remove } else { FilterDecision::Keep }
    }
}

#[test]
fn a_step_from_a_key_that_a_filter_removes_meanwhile_passes_no_other_one() {
    let filter = Arc::new(RemoveOdd { db: OnceLock::new(), made: Mutex::new(None) });
    let mut options = options();
    options.cf.disable_auto_compactions = true;
    options.cf.compaction_filter = Some(filter.clone());
    let db = Arc::new(Db::open(&options, "/db").unwrap());
    for key in ["0", "1", "2", "3", "4"] {
        db.put(key, key).unwrap();
    }
    db.flush().unwrap();
    assert!(filter.db.set(db.clone()).is_ok());
    let force = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    db.compact_range_opt(&force, &db.default_column_family(), None, None).unwrap();
    assert_eq!(db.get("1").unwrap(), None);
    let iter = filter.made.lock().unwrap().take().unwrap();
    assert_eq!(after_a_step(iter, true), ["2", "4"]);
}

/// A newer super version may have dropped entries that they show, or have them in places that they
/// do not read.
#[test]
fn iterators_that_do_not_see_all_that_there_is_stay_at_their_super_version() {
    let read = [
        ReadOptions { read_tier: ReadTier::Memtable, ..ReadOptions::default() },
        ReadOptions { read_tier: ReadTier::BlockCache, ..ReadOptions::default() },
        ReadOptions { ignore_range_deletions: true, ..ReadOptions::default() },
    ];
    for read in read {
        let mut options = options();
        options.cf.table.no_block_cache = true;
        let db = Db::open(&options, "/db").unwrap();
        let family = db.default_column_family();
        let keys = ["a", "b", "c", "d"];
        keys.iter().for_each(|key| db.put(key, "value").unwrap());
        if read.ignore_range_deletions {
            db.delete_range("b", "d").unwrap();
        }
        let mut iter = db.iter_opt(read.clone(), &family).unwrap();
        iter.seek_to_first();
        let mut found = Vec::new();
        while iter.valid() {
            found.push(String::from_utf8(iter.key().to_vec()).unwrap());
            if found.len() == 1 {
                db.flush().unwrap();
                db.compact_range(None, None).unwrap();
            }
            iter.next();
        }
        iter.status().unwrap();
        assert_eq!(found, keys, "{read:?}");
        iter.seek_for_prev("c");
        assert_eq!(iter.key(), b"c");
    }
}
