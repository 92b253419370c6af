//! Followers: databases that keep up with a leader by themselves, over links of their own.
#![allow(clippy::disallowed_methods, reason = "a test that waits for a follower's next catch-up")]

use esker::builtin::string_append;
use esker::internals::env::fault::OpKind;
use esker::internals::env::mem::MemFs;
use esker::internals::env::{FaultFs, FaultRule, FileSystem};
use esker::options::{InfoLog, InfoLogLevel};
use esker::{Db, Env, ErrorKind, FlushOptions, Options, ReadOptions};
use esker_testkit::TempDir;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const LEADER: &str = "/leader";
const OWN: &str = "/follower";
const FAMILIES: [&str; 2] = ["default", "other"];

fn options(fs: &Arc<impl FileSystem + 'static>) -> Options {
    let mut options = Options::new().create_if_missing(true);
    options.db.create_missing_column_families = true;
    options.db.env = Env::with_fs(fs.clone());
    options.db.follower_refresh_catchup_period_ms = 1;
    options.db.follower_catchup_retry_wait_ms = 1;
    options.cf.merge_operator = Some(string_append(","));
    options.cf.disable_auto_compactions = true;
    options
}

/// A follower that catches up on request only.
fn on_request(fs: &Arc<impl FileSystem + 'static>) -> Options {
    let mut options = options(fs);
    options.db.follower_catchup_retry_count = 0;
    options
}

fn leader(fs: &Arc<MemFs>) -> Db {
    Db::open_cf(&options(fs).db, LEADER, FAMILIES.map(|name| (name, options(fs).cf))).unwrap()
}

fn follow(options: &Options) -> esker::Result<Db> {
    Db::open_cf_as_follower(&options.db, OWN, LEADER, FAMILIES.map(|name| (name, options.cf.clone())))
}

fn all(db: &Db) -> Vec<(Vec<u8>, Vec<u8>)> {
    let families = FAMILIES.iter().filter_map(|name| db.column_family(name));
    let pairs = families.map(|family| {
        let pairs = db.range_cf(&family, ..).map(|pair| pair.unwrap());
        pairs.map(|(key, value)| (key.to_vec(), value.to_vec())).collect::<Vec<_>>()
    });
    pairs.collect::<Vec<_>>().concat()
}

fn data_files(fs: &dyn FileSystem, dir: &str) -> Vec<String> {
    let mut names = fs.children(Path::new(dir)).unwrap();
    names.retain(|name| name.ends_with(".sst") || name.ends_with(".blob"));
    names.sort();
    names
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_follower_keeps_up_by_itself_with_a_leader_that_flushes_and_compacts() {
    let fs = Arc::new(MemFs::new());
    let mut leader_options = options(&fs);
    leader_options.cf.enable_blob_files = true;
    leader_options.cf.min_blob_size = 100;
    let families = FAMILIES.map(|name| (name, leader_options.cf.clone()));
    let leader = Db::open_cf(&leader_options.db, LEADER, families).unwrap();
    let follower = follow(&options(&fs)).unwrap();
    assert_eq!(follower.path(), Path::new(OWN));
    let mut rng = fastrand::Rng::with_seed(7);
    for round in 0..30 {
        for _ in 0..rng.usize(..20) {
            let family = leader.column_family(FAMILIES[rng.usize(..2)]).unwrap();
            let key = format!("{:02}", rng.u32(..40));
            match rng.u8(..6) {
                0 => leader.delete_cf(&family, key).unwrap(),
                1 => leader.merge_opt(&Default::default(), &family, key, round.to_string()).unwrap(),
                2 => leader.put_cf(&family, key, vec![b'b'; 200]).unwrap(),
                _ => leader.put_cf(&family, key, round.to_string()).unwrap(),
            }
        }
        let family = leader.column_family(FAMILIES[rng.usize(..2)]).unwrap();
        match rng.u8(..4) {
            0 => leader.compact_range_opt(&Default::default(), &family, None, None).unwrap(),
            1 | 2 => leader.flush_opt(&FlushOptions::default(), &[&family]).unwrap(),
            _ => {}
        }
        let expected = all(&leader);
        until("the leader's contents", || all(&follower) == expected);
        assert_eq!(follower.put("key", "").unwrap_err().kind(), ErrorKind::NotSupported);
    }
    leader.wait_for_background_work().unwrap();
    until("the links to the leader's present files, and no others", || {
        data_files(&*fs, OWN) == data_files(&*fs, LEADER)
    });
}

#[test]
fn files_that_the_leader_deletes_stay_readable_through_links() {
    let fs = Arc::new(MemFs::new());
    let leader = leader(&fs);
    for round in 0..3 {
        leader.put("key", round.to_string()).unwrap();
        leader.put(format!("key{round}"), "value").unwrap();
        leader.flush().unwrap();
    }
    let mut options = on_request(&fs);
    options.db.max_open_files = 1;
    let follower = follow(&options).unwrap();
    let before = all(&follower);
    let linked = data_files(&*fs, OWN);
    assert_eq!(linked.len(), 3);
    leader.put("key", "newer").unwrap();
    leader.compact_range(None, None).unwrap();
    until("the leader's inputs are deleted", || data_files(&*fs, LEADER).len() == 1);
    assert_eq!((all(&follower), data_files(&*fs, OWN)), (before.clone(), linked.clone()));
    // An iterator keeps its files; the others go.
    let mut iter = follower.iter_opt(ReadOptions::default(), &follower.default_column_family()).unwrap();
    iter.seek_to_first();
    follower.try_catch_up_with_primary().unwrap();
    assert_eq!(all(&follower), all(&leader));
    let mut found = Vec::new();
    while let Some((key, value)) = iter.item() {
        found.push((key.to_vec(), value.to_vec()));
        iter.next();
    }
    assert_eq!(found, before);
    drop(iter);
    follower.try_catch_up_with_primary().unwrap();
    until("old links go", || data_files(&*fs, OWN) == data_files(&*fs, LEADER));
}

#[test]
fn a_family_that_the_leader_drops_stays_readable_and_a_new_one_needs_another_opening() {
    let fs = Arc::new(MemFs::new());
    let leader = leader(&fs);
    let other = leader.column_family("other").unwrap();
    leader.put_cf(&other, "key", "value").unwrap();
    leader.flush_opt(&FlushOptions::default(), &[&other]).unwrap();
    let follower = follow(&options(&fs)).unwrap();
    let followed = follower.column_family("other").unwrap();
    leader.drop_column_family(&other).unwrap();
    drop(other);
    let new = leader.create_column_family("new", &options(&fs).cf).unwrap();
    leader.put_cf(&new, "key", "new").unwrap();
    leader.put("key", "default").unwrap();
    until("the follower has seen the drop", || follower.column_family("other").is_none());
    until("the table is deleted", || data_files(&*fs, LEADER).is_empty());
    assert_eq!(follower.get_cf(&followed, "key").unwrap().as_deref(), Some(&b"value"[..]));
    assert!(follower.column_family("new").is_none());
    drop((follower, followed));
    follow(&options(&fs)).unwrap_err();
    let families = ["default", "new"].map(|name| (name, options(&fs).cf));
    let again = Db::open_cf_as_follower(&options(&fs).db, OWN, LEADER, families).unwrap();
    let new = again.column_family("new").unwrap();
    assert_eq!(again.get_cf(&new, "key").unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!(data_files(&*fs, OWN), data_files(&*fs, LEADER));
}

/// Keeps the lines of a LOG.
#[derive(Debug, Default)]
struct KeptLines(Mutex<Vec<String>>);

impl KeptLines {
    fn count(&self, part: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|line| line.contains(part)).count()
    }
}

impl InfoLog for KeptLines {
    fn log(&self, _level: InfoLogLevel, args: std::fmt::Arguments<'_>) {
        self.0.lock().unwrap().push(args.to_string());
    }

    fn level(&self) -> InfoLogLevel {
        InfoLogLevel::Info
    }
}

#[test]
fn a_catch_up_that_fails_is_repeated_as_often_as_the_options_say() {
    let fs = Arc::new(MemFs::new());
    let leader = leader(&fs);
    let faults = Arc::new(FaultFs::new(fs.clone()));
    let mut options = options(&faults);
    options.db.follower_catchup_retry_count = 3;
    let lines = Arc::new(KeptLines::default());
    options.db.info_log = Some(lines.clone());
    let follower = follow(&options).unwrap();
    let is_of_leader = |path: &Path| path.starts_with(LEADER);
    faults.add_rule(FaultRule::fail(&[OpKind::Open, OpKind::Read]).on(is_of_leader).forever());
    leader.put("key", "value").unwrap();
    until("two periods without success", || lines.count("Catch up unsuccessful") >= 2);
    assert_eq!(follower.get("key").unwrap(), None);
    let (rounds, attempts) = (lines.count("Catch up unsuccessful"), lines.count("Could not catch up"));
    assert!((rounds * 3..=rounds * 3 + 4).contains(&attempts), "{attempts} attempts in {rounds} periods");
    faults.clear_rules();
    until("the follower goes on", || follower.get("key").unwrap().is_some());
    // A close ends the catch-ups.
    follower.close().unwrap();
    drop(follower);
    let ended = lines.count("Successful catch up");
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(lines.count("Successful catch up"), ended);
}

#[test]
fn a_follower_needs_a_directory_of_its_own() {
    let fs = Arc::new(MemFs::new());
    let db = leader(&fs);
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    let options = on_request(&fs);
    let before = fs.children(Path::new(LEADER)).unwrap();
    let refused = |own: &str| {
        let families = FAMILIES.map(|name| (name, options.cf.clone()));
        let error = Db::open_cf_as_follower(&options.db, own, LEADER, families).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{own}: {error}");
    };
    ["/leader", "/leader/own", "/"].into_iter().for_each(refused);
    drop(Db::open(&options, "/database").unwrap());
    refused("/database");
    fs.create_dir_if_missing(Path::new("/tables")).unwrap();
    fs.link_file(&Path::new(LEADER).join(&data_files(&*fs, LEADER)[0]), Path::new("/tables/000009.sst"))
        .unwrap();
    refused("/tables");
    assert_eq!(data_files(&*fs, "/tables"), ["000009.sst"]);
    let mut missing = options.clone();
    missing.db.create_if_missing = false;
    let error = follow(&missing).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let follower = follow(&options).unwrap();
    assert_eq!(follow(&options).unwrap_err().kind(), ErrorKind::IoError, "one follower has it");
    // The leader itself may have deleted a WAL meanwhile.
    let after = fs.children(Path::new(LEADER)).unwrap();
    assert!(after.iter().all(|name| before.contains(name)), "{after:?}, before {before:?}");
    drop(follower);

    // Another database in the leader's place has files of the same numbers.
    drop(db);
    esker::destroy_db(&options.db, LEADER).unwrap();
    let other = leader(&fs);
    other.put("key", "of another database").unwrap();
    other.flush().unwrap();
    let follower = follow(&options).unwrap();
    assert_eq!(follower.get("key").unwrap().as_deref(), Some(&b"of another database"[..]));
    follower.put("key", "").unwrap_err();
    drop(follower);
    // A database does not open among links.
    let own = fs.children(Path::new(OWN)).unwrap();
    Db::open(&options, OWN).unwrap_err();
    assert!(own.contains(&"LEADER".to_owned()) && own.contains(&"LOG".to_owned()), "{own:?}");
}

#[test]
fn a_closed_follower_leaves_its_directory_to_the_next_one() {
    let fs = Arc::new(MemFs::new());
    let leader = leader(&fs);
    leader.put("key", "1").unwrap();
    leader.flush().unwrap();
    let follower = follow(&on_request(&fs)).unwrap();
    let (family, snapshot) = (follower.default_column_family(), follower.snapshot());
    let iter = follower.iter().unwrap();
    follower.close().unwrap();
    let next = follow(&on_request(&fs)).unwrap();
    assert_eq!(all(&next), all(&leader));
    drop((family, snapshot, iter, follower));
    follow(&on_request(&fs)).unwrap_err();
}

#[test]
fn an_opening_that_began_again_leaves_no_links_to_files_of_before() {
    let fs = Arc::new(MemFs::new());
    let leader = Arc::new(leader(&fs));
    for round in 0..3 {
        leader.put("key", round.to_string()).unwrap();
        leader.flush().unwrap();
    }
    leader.put("key", "in the WAL").unwrap();
    let faults = Arc::new(FaultFs::new(fs.clone()));
    let is_wal = |path: &Path| path.extension().is_some_and(|end| end == "log");
    // The first attempt fails behind the tables; the leader replaces these before the second one.
    faults.add_rule(FaultRule::fail(&[OpKind::Open]).on(is_wal).error_kind(ErrorKind::Corruption));
    let (of_hook, in_hook, has_begun) = (leader.clone(), fs.clone(), Mutex::new(false));
    faults.on_op(move |op| {
        if op.kind == OpKind::Open
            && is_wal(&op.path)
            && !std::mem::replace(&mut *has_begun.lock().unwrap(), true)
        {
            assert_eq!(data_files(&*in_hook, OWN).len(), 3);
            of_hook.compact_range(None, None).unwrap();
            until("the inputs are deleted", || data_files(&*in_hook, LEADER).len() == 1);
        }
    });
    let follower = follow(&on_request(&faults)).unwrap();
    assert_eq!(faults.fault_count(), 1);
    assert_eq!(data_files(&*fs, OWN), data_files(&*fs, LEADER));
    assert_eq!(all(&follower), all(&leader));
}

#[test]
fn a_follower_of_a_leader_on_the_disk_links_and_keeps_a_log_of_its_own() {
    let dir = TempDir::new("follower");
    let leader = Db::open_default(dir.join("leader")).unwrap();
    for i in 0..500 {
        leader.put(format!("key{i:03}"), [b'v'; 100]).unwrap();
    }
    leader.flush().unwrap();
    let mut options = Options::new().create_if_missing(true);
    options.db.follower_refresh_catchup_period_ms = 1;
    let follower = Db::open_as_follower(&options, dir.join("own"), dir.join("leader")).unwrap();
    let of_leader = std::fs::read(dir.join("leader/LOG")).unwrap();
    assert_eq!(follower.range(..).count(), 500);
    leader.delete_range("key100", "key400").unwrap();
    leader.compact_range(None, None).unwrap();
    leader.wait_for_background_work().unwrap();
    until("the leader's contents", || follower.range(..).count() == 200);
    follower.close().unwrap();
    let log = std::fs::read_to_string(dir.join("own/LOG")).unwrap();
    assert!(log.contains("Opening the db in follower mode") && log.contains("Successful catch up"), "{log}");
    assert!(std::fs::read(dir.join("leader/LOG")).unwrap().starts_with(&of_leader));
}
