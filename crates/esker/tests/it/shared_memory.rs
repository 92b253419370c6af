//! Databases that share a write buffer manager, and the memtable that its policy flushes.

use esker::internals::env::mem::MemFs;
use esker::options::{WriteBufferFlushPolicy, WriteBufferManager};
use esker::{ColumnFamilyHandle, Db, Env, FlushOptions, Options};
use std::sync::Arc;

const BOUND: usize = 4 << 20;

fn open(manager: &Arc<WriteBufferManager>) -> Db {
    let mut options = Options::new().create_if_missing(true);
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.write_buffer_manager = Some(manager.clone());
    options.cf.disable_auto_compactions = true;
    Db::open(&options, "/db").unwrap()
}

/// Writes about `kib` KiB under keys that begin with `name`.
fn fill(db: &Db, family: &ColumnFamilyHandle, name: &str, kib: usize) {
    (0..kib).for_each(|i| db.put_cf(family, format!("{name}{i:06}"), vec![b'v'; 1000]).unwrap());
}

fn flushed(db: &Db, family: &ColumnFamilyHandle) -> bool {
    db.property_cf(family, "rocksdb.num-files-at-level0").unwrap() != "0"
}

/// Waits for a flush in the background. False if none ends within two minutes.
fn is_flushed_soon(db: &Db, family: &ColumnFamilyHandle) -> bool {
    let clock = &db.env().clock;
    (0..24_000).any(|_| {
        clock.sleep(std::time::Duration::from_millis(5));
        flushed(db, family)
    })
}

#[test]
fn one_database_flushes_its_oldest_or_its_largest_memtable() {
    for policy in [WriteBufferFlushPolicy::Oldest, WriteBufferFlushPolicy::Largest] {
        let manager = Arc::new(WriteBufferManager::new(BOUND, false));
        manager.set_flush_policy(policy);
        assert_eq!(manager.flush_policy(), policy);
        let db = open(&manager);
        let (oldest, cf) = (db.default_column_family(), Options::default().cf);
        fill(&db, &oldest, "old", 300);
        let large = db.create_column_family("large", &cf).unwrap();
        let writer = db.create_column_family("writer", &cf).unwrap();
        fill(&db, &large, "large", 2_000);
        while !flushed(&db, &oldest) && !flushed(&db, &large) && !flushed(&db, &writer) {
            assert!(manager.mutable_memtable_memory_usage() < 2 * BOUND);
            fill(&db, &writer, "writer", 10);
            // Flushes end before the next write checks the bound.
            db.wait_for_compact(&esker::WaitForCompactOptions::default()).unwrap();
        }
        assert_eq!(flushed(&db, &oldest), policy == WriteBufferFlushPolicy::Oldest, "{policy:?}");
        assert_eq!(flushed(&db, &large), policy == WriteBufferFlushPolicy::Largest, "{policy:?}");
        assert!(!flushed(&db, &writer));
    }
}

#[test]
fn the_database_with_the_largest_memtable_flushes_for_the_others() {
    for (policy, for_others) in
        [(WriteBufferFlushPolicy::LargestAcrossDbs, true), (WriteBufferFlushPolicy::Largest, false)]
    {
        let manager = Arc::new(WriteBufferManager::new(BOUND, false));
        manager.set_flush_policy(policy);
        let (idle, busy) = (open(&manager), open(&manager));
        let families = (idle.default_column_family(), busy.default_column_family());
        fill(&idle, &families.0, "idle", 2_500);
        // A write checks the bound before it writes, so the last write of the loop starts no flush.
        for i in 0.. {
            fill(&busy, &families.1, &format!("busy{i}-"), 1);
            if manager.should_flush() {
                break;
            }
        }
        fill(&busy, &families.1, "last", 1);
        let (db, family) = if for_others { (&idle, &families.0) } else { (&busy, &families.1) };
        assert!(is_flushed_soon(db, family));
        assert_eq!(flushed(&idle, &families.0), for_others, "{policy:?}");
        assert_eq!(flushed(&busy, &families.1), !for_others, "{policy:?}");
    }
}

#[test]
fn a_database_that_cannot_flush_is_not_waited_for() {
    let manager = Arc::new(WriteBufferManager::new(BOUND, false));
    manager.set_flush_policy(WriteBufferFlushPolicy::LargestAcrossDbs);
    let (closed, busy) = (open(&manager), open(&manager));
    let families = (closed.default_column_family(), busy.default_column_family());
    fill(&closed, &families.0, "closed", 2_500);
    let iter = closed.iter().unwrap();
    closed.close().unwrap();
    fill(&busy, &families.1, "busy", 6_000);
    assert!(is_flushed_soon(&busy, &families.1));
    drop(iter);
    // A manager outlives its databases.
    drop((families, closed, busy));
    let next = open(&manager);
    let family = next.default_column_family();
    fill(&next, &family, "next", 6_000);
    next.flush_opt(&FlushOptions::default(), &[&family]).unwrap();
}
