//! Files that a compaction cannot improve are not compacted again and again.

use esker::internals::base::merge_operator::MergeOperator;
use esker::internals::env::mem::MemFs;
use esker::observe::{CompactionJobInfo, CompactionReason, EventListener};
use esker::{Db, Env, Options, WriteOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts compactions of entries that snapshots had kept; fails the test if they repeat without
/// end.
#[derive(Default)]
struct Rewrites(AtomicUsize);

impl EventListener for Rewrites {
    fn on_compaction_begin(&self, info: &CompactionJobInfo) {
        if info.compaction_reason == CompactionReason::BottommostFiles {
            let before = self.0.fetch_add(1, Ordering::SeqCst);
            assert!(before < 10, "the same files are compacted again and again");
        }
    }
}

struct Refuses;

impl MergeOperator for Refuses {
    fn name(&self) -> &str {
        "refuses"
    }
    fn full_merge(&self, _: &[u8], _: Option<&[u8]>, _: &[&[u8]]) -> Option<Vec<u8>> {
        None
    }
}

fn options() -> (Options, Arc<Rewrites>) {
    let rewrites = Arc::new(Rewrites::default());
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.listeners = vec![rewrites.clone()];
    (options, rewrites)
}

/// Compacts the entries of `write`, half of them under a snapshot. Returns the number of further
/// compactions after the snapshot's release.
fn rewrites(options: &Options, rewrites: &Rewrites, write: impl Fn(&Db, u64)) -> usize {
    let db = Db::open(options, "/db").unwrap();
    let before = rewrites.0.load(Ordering::SeqCst);
    (1..50).for_each(|n| write(&db, n));
    let snapshot = db.snapshot();
    (50..100).for_each(|n| write(&db, n));
    db.compact_range(None, None).unwrap();
    write(&db, 100);
    drop(snapshot);
    db.flush().unwrap();
    db.wait_for_background_work().unwrap();
    let after = rewrites.0.load(Ordering::SeqCst);
    db.close().unwrap();
    after - before
}

#[test]
fn entries_that_only_snapshots_kept_are_rewritten_once() {
    let (options, count) = options();
    let put = |db: &Db, n: u64| db.put(format!("key{:02}", n % 7), format!("value {n}")).unwrap();
    assert_eq!(rewrites(&options, &count, put), 1);
}

#[test]
fn operands_that_cannot_be_merged_are_left_where_they_are() {
    let (mut options, count) = options();
    options.cf.merge_operator = Some(Arc::new(Refuses));
    let merge = |db: &Db, n: u64| db.merge(format!("key{:02}", n % 7), format!("operand {n}")).unwrap();
    assert_eq!(rewrites(&options, &count, merge), 1);
}

#[test]
fn keys_with_timestamps_are_left_where_they_are_until_their_history_may_go() {
    let (mut options, count) = options();
    options.cf.comparator = esker::comparator::by_name("leveldb.BytewiseComparator.u64ts").unwrap();
    let put = |db: &Db, n: u64| {
        let (family, write) = (db.default_column_family(), WriteOptions::default());
        db.put_with_ts(&write, &family, format!("key{:02}", n % 7), &n.to_le_bytes(), "value").unwrap();
    };
    assert_eq!(rewrites(&options, &count, put), 0);
    let db = Db::open(&options, "/db").unwrap();
    db.increase_full_history_ts_low(&db.default_column_family(), &1000u64.to_le_bytes()).unwrap();
    db.close().unwrap();
    assert_eq!(rewrites(&options, &count, put), 1);
}
