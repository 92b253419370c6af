//! The system refuses threads (`RLIMIT_NPROC`): callers do the work themselves, and threads start
//! once the system allows them.

use super::{directory, run_in_child, threads};
use esker::internals::env::fault::OpKind;
use esker::internals::env::{FaultFs, FaultRule, MemFs};
use esker::{Db, Env, Options};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Lets this process start threads, or not.
fn allow_threads(allow: bool) {
    let maximum = getrlimit(Resource::Nproc).maximum;
    let current = if allow { maximum } else { Some(1) };
    setrlimit(Resource::Nproc, Rlimit { current, maximum }).unwrap();
    assert_eq!(std::thread::Builder::new().spawn(|| {}).is_ok(), allow, "whether a thread can be started");
}

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.max_background_jobs = 8;
    options.db.max_subcompactions = 4;
    options.db.stats_dump_period_sec = 1;
    options.db.scrub_bytes_per_second = 1 << 20;
    options.cf.write_buffer_size = 64 << 10;
    options.cf.target_file_size_base = 16 << 10;
    options.cf.level0_file_num_compaction_trigger = 4;
    options
}

fn key(n: u32) -> String {
    format!("key{:06}", n * 7919 % 4000)
}

fn fill(db: &Db, round: u32) {
    let mut random = fastrand::Rng::with_seed(u64::from(round));
    for n in 0..4000 {
        let mut value = format!("{round}-{n}-").into_bytes();
        value.extend(std::iter::repeat_with(|| random.u8(..)).take(500));
        db.put(key(n), value).unwrap();
    }
}

fn check(db: &Db, round: u32) {
    for n in 0..4000 {
        let value = db.get(key(n)).unwrap().unwrap();
        assert!(value.starts_with(format!("{round}-{n}-").as_bytes()), "{}", key(n));
    }
}

#[test]
fn a_database_without_threads_works_and_has_them_later() {
    let Some(dir) = directory() else {
        return run_in_child("limits::threads::a_database_without_threads_works_and_has_them_later");
    };
    allow_threads(false);
    let db = Db::open(&options(), &dir).unwrap();
    fill(&db, 1);
    check(&db, 1);
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    db.wait_for_background_work().unwrap();
    check(&db, 1);
    db.close().unwrap();
    drop(db);

    // More than 32 tables are opened, for which helper threads would be started.
    let db = Db::open(&options(), &dir).unwrap();
    assert!(db.live_files().len() > 32, "{} tables", db.live_files().len());
    check(&db, 1);
    fill(&db, 2);
    let before = threads();
    allow_threads(true);
    fill(&db, 3);
    assert!(threads() > before, "the database starts threads by itself");
    check(&db, 3);
    db.wait_for_background_work().unwrap();
    db.close().unwrap();
}

#[test]
fn an_error_lifts_itself_when_threads_can_be_had_again() {
    let Some(_) = directory() else {
        return run_in_child("limits::threads::an_error_lifts_itself_when_threads_can_be_had_again");
    };
    allow_threads(false);
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let mut options = options();
    options.db.env = Env::with_fs(Arc::new(fs.clone()));
    let db = Db::open(&options, Path::new("/db")).unwrap();
    db.put("a", "1").unwrap();
    fs.add_rule(FaultRule::fail(&[OpKind::Create]).on_name(".sst").retryable(true).times(1));
    db.flush().unwrap_err();
    db.put("a", "2").unwrap_err();
    assert!(db.background_error().is_some(), "no thread lifts the error");
    allow_threads(true);
    let lifted = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        db.put("a", "3").is_ok()
    });
    assert!(lifted, "{:?}", db.background_error());
    assert_eq!(&*db.get("a").unwrap().unwrap(), b"3");
}
