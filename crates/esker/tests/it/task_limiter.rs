//! `compaction_thread_limiter`: a limit on the compactions of several families and databases.

use esker::internals::env::mem::MemFs;
use esker::observe::{CompactionJobInfo, EventListener};
use esker::options::ConcurrentTaskLimiter;
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyHandle, CompactRangeOptions, Db, Env, ErrorKind, FlushOptions,
    Options, WaitForCompactOptions,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

const LIMITED: [&str; 2] = ["one", "two"];

fn options() -> Options {
    let mut options = Options::new().create_if_missing(true);
    options.db.create_missing_column_families = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.max_background_jobs = 8;
    options.cf.level0_file_num_compaction_trigger = 2;
    options
}

/// Opens a database with two families that share the limiter, and `default` without one.
fn open(options: &Options, dir: &str, limiter: &Arc<ConcurrentTaskLimiter>) -> Db {
    let limited = options.cf.clone().compaction_thread_limiter(Some(limiter.clone()));
    let mut families = vec![ColumnFamilyDescriptor::new("default", options.cf.clone())];
    families.extend(LIMITED.map(|name| ColumnFamilyDescriptor::new(name, limited.clone())));
    Db::open_cf(&options.db, dir, families).unwrap()
}

fn write_tables(db: &Db, family: &ColumnFamilyHandle, tables: usize) {
    for table in 0..tables {
        (0..20).for_each(|n| db.put_cf(family, format!("{n:03}"), format!("{table}")).unwrap());
        db.flush_opt(&FlushOptions::default().allow_write_stall(true), &[family]).unwrap();
    }
}

fn level0(db: &Db, family: &ColumnFamilyHandle) -> u64 {
    db.property_cf(family, "rocksdb.num-files-at-level0").unwrap().parse().unwrap()
}

fn wait_briefly(db: &Db) -> esker::Result<()> {
    db.wait_for_compact(&WaitForCompactOptions::default().timeout(Duration::from_millis(200)))
}

#[test]
fn no_compaction_begins_at_the_limit_0_and_all_begin_once_it_is_raised() {
    let limiter = Arc::new(ConcurrentTaskLimiter::new("none", 0));
    let db = open(&options(), "/db", &limiter);
    let families = LIMITED.map(|name| db.column_family(name).unwrap());
    families.iter().for_each(|family| write_tables(&db, family, 4));
    write_tables(&db, &db.default_column_family(), 4);
    assert_eq!(wait_briefly(&db).unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(families.each_ref().map(|family| level0(&db, family)), [4, 4]);
    // The other family is not limited.
    while level0(&db, &db.default_column_family()) >= 2 {
        std::thread::yield_now();
    }
    assert_eq!(db.property("rocksdb.compaction-pending").unwrap(), "1");
    // A caller's compaction does not wait.
    db.compact_range_opt(&CompactRangeOptions::default(), &families[0], None, None).unwrap();
    assert_eq!(families.each_ref().map(|family| level0(&db, family)), [0, 4]);
    limiter.set_max_outstanding_task(1);
    db.wait_for_background_work().unwrap();
    assert_eq!(level0(&db, &families[1]), 0);
    assert_eq!(limiter.outstanding_task(), 0);
    limiter.set_max_outstanding_task(0);
    write_tables(&db, &families[1], 4);
    limiter.reset_max_outstanding_task();
    db.wait_for_background_work().unwrap();
    assert_eq!(level0(&db, &families[1]), 0);
}

/// Counts the compactions of limited families that run at once.
#[derive(Default)]
struct Running {
    now: AtomicI32,
    most: AtomicI32,
    all: AtomicU32,
}

impl EventListener for Running {
    fn on_compaction_begin(&self, info: &CompactionJobInfo) {
        if LIMITED.contains(&info.cf_name.as_str()) {
            let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            self.all.fetch_add(1, Ordering::SeqCst);
            // Others may begin meanwhile.
            (0..500).for_each(|_| std::thread::yield_now());
        }
    }
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        if LIMITED.contains(&info.cf_name.as_str()) {
            self.now.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

#[test]
fn databases_that_share_a_limiter_keep_to_it_together() {
    for limit in [1, 2] {
        let limiter = Arc::new(ConcurrentTaskLimiter::new("shared", limit));
        let running = Arc::new(Running::default());
        let mut options = options();
        options.db.listeners.push(running.clone());
        let dbs = ["/a", "/b", "/c"].map(|dir| open(&options, dir, &limiter));
        std::thread::scope(|scope| {
            for db in &dbs {
                for name in LIMITED {
                    scope.spawn(move || write_tables(db, &db.column_family(name).unwrap(), 12));
                }
            }
        });
        dbs.iter().for_each(|db| db.wait_for_background_work().unwrap());
        assert!(running.most.load(Ordering::SeqCst) <= limit);
        assert!(running.all.load(Ordering::SeqCst) >= 6, "each family is compacted");
        assert_eq!(limiter.outstanding_task(), 0);
        for db in &dbs {
            assert!(LIMITED.iter().all(|name| level0(db, &db.column_family(name).unwrap()) < 2));
        }
    }
}

#[test]
fn families_that_wait_for_room_can_be_closed_dropped_and_switched_off() {
    let limiter = Arc::new(ConcurrentTaskLimiter::new("none", 0));
    let options = options();
    let db = open(&options, "/db", &limiter);
    let families = LIMITED.map(|name| db.column_family(name).unwrap());
    families.iter().for_each(|family| write_tables(&db, family, 3));
    db.drop_column_family(&families[0]).unwrap();
    wait_briefly(&db).unwrap_err();
    db.set_options(&families[1], &[("disable_auto_compactions", "true")]).unwrap();
    db.wait_for_background_work().unwrap();
    db.set_options(&families[1], &[("disable_auto_compactions", "false")]).unwrap();
    wait_briefly(&db).unwrap_err();
    db.close().unwrap();
    drop(db);
    // No database is there any more to be called.
    limiter.set_max_outstanding_task(3);
    let db = open(&options, "/db", &limiter);
    db.wait_for_background_work().unwrap();
    assert!(level0(&db, &db.column_family("two").unwrap()) < 2);
}
