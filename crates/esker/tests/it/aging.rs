//! Compactions that are due because time passes: `ttl` and `periodic_compaction_seconds` in each
//! style.

use esker::internals::env::MockClock;
use esker::internals::env::mem::MemFs;
use esker::observe::{CompactionJobInfo, CompactionReason, EventListener};
use esker::options::{CompactRangeOptions, CompactionStyle, Temperature, cf_options_from_string};
use esker::stats::{Statistics, Ticker};
use esker::{Db, Env, FileNumber, Options, Result};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const HOUR: u64 = 60 * 60;
/// A time at which databases are opened, in microseconds: not zero, which stands for "unknown".
const START: u64 = 1_000_000 * 1_000_000;

/// Sends the reason of each finished compaction.
struct Done(Mutex<Sender<CompactionReason>>);

impl EventListener for Done {
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        // The receiver may be gone when the database closes.
        self.0.lock().unwrap().send(info.compaction_reason).unwrap_or_default();
    }
}

struct Aging {
    clock: Arc<MockClock>,
    options: Options,
    done: Receiver<CompactionReason>,
}

impl Aging {
    fn new(style: CompactionStyle, ttl: u64, periodic: u64) -> Aging {
        let clock = Arc::new(MockClock::new(START));
        let (tell, done) = channel();
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.env = Env::new(Arc::new(MemFs::new()), clock.clone());
        options.db.listeners = vec![Arc::new(Done(Mutex::new(tell)))];
        options.cf.compaction_style = style;
        options.cf.ttl = ttl;
        options.cf.periodic_compaction_seconds = periodic;
        Aging { clock, options, done }
    }

    fn open(&self) -> Db {
        Db::open(&self.options, "/db").unwrap()
    }

    /// Advances the clock without writes.
    fn wait(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
        self.options.db.env.timer.read_clock_again();
    }

    /// The reason of the next compaction.
    fn next(&self) -> CompactionReason {
        self.done.recv_timeout(Duration::from_secs(600)).expect("a compaction comes")
    }
}

fn put_and_flush(db: &Db, tag: &str) {
    for i in 0..100 {
        db.put(format!("key{i:03}"), tag).unwrap();
    }
    db.flush().unwrap();
}

fn files(db: &Db) -> Vec<usize> {
    let mut counts = vec![0; 7];
    db.live_files().iter().for_each(|file| counts[file.level] += 1);
    counts
}

#[test]
fn old_data_goes_down_level_by_level_without_writes() {
    let aging = Aging::new(CompactionStyle::Level, 10 * HOUR, 0);
    let mut options = aging.options.clone();
    // Level 0 is compacted into level 1, not directly into the last level.
    options.cf.level_compaction_dynamic_level_bytes = false;
    options.cf.num_levels = 4;
    let db = Db::open(&options, "/db").unwrap();
    put_and_flush(&db, "older");
    let to_the_last = CompactRangeOptions { change_level: true, target_level: 3, ..Default::default() };
    db.compact_range_opt(&to_the_last, &db.default_column_family(), None, None).unwrap();
    put_and_flush(&db, "old");
    db.wait_for_background_work().unwrap();
    assert_eq!(files(&db)[..4], [1, 0, 0, 1]);
    while aging.done.try_recv().is_ok() {}
    aging.wait(9 * HOUR);
    db.wait_for_background_work().unwrap();
    assert_eq!(files(&db)[..4], [1, 0, 0, 1], "the file is not old yet");
    aging.wait(4 * HOUR);
    // The file moves through the empty levels, and is merged in the last one.
    assert_eq!([(); 3].map(|()| aging.next()), [CompactionReason::Ttl; 3]);
    db.wait_for_background_work().unwrap();
    assert_eq!(files(&db)[..4], [0, 0, 0, 1]);
    aging.wait(100 * HOUR);
    db.wait_for_background_work().unwrap();
    assert!(aging.done.try_recv().is_err(), "the last level has no deeper level");
    assert_eq!(db.get("key042").unwrap().as_deref(), Some(&b"old"[..]));
}

#[test]
fn files_are_rewritten_where_they_are_when_their_time_has_come() {
    let aging = Aging::new(CompactionStyle::Level, 0, 10 * HOUR);
    let db = aging.open();
    put_and_flush(&db, "old");
    db.compact_range(None, None).unwrap();
    while aging.done.try_recv().is_ok() {}
    let before = db.live_files();
    for round in 0..3 {
        aging.wait(13 * HOUR);
        assert_eq!(aging.next(), CompactionReason::PeriodicCompaction, "round {round}");
    }
    db.wait_for_background_work().unwrap();
    let after = db.live_files();
    assert_eq!((before.len(), after.len(), before[0].level), (1, 1, after[0].level));
    assert_ne!(before[0].file_number, after[0].file_number);
    assert_eq!(after[0].file_creation_time - before[0].file_creation_time, 39 * HOUR);
    assert_eq!(after[0].oldest_ancestor_time, before[0].oldest_ancestor_time);
}

#[test]
fn universal_merges_all_runs_when_the_oldest_is_due() {
    for (ttl, periodic) in [(10 * HOUR, 0), (0, 10 * HOUR), (10 * HOUR, 1000 * HOUR)] {
        let aging = Aging::new(CompactionStyle::Universal, ttl, periodic);
        let db = aging.open();
        put_and_flush(&db, "one");
        put_and_flush(&db, "two");
        assert_eq!(files(&db)[0], 2);
        aging.wait(13 * HOUR);
        assert_eq!(aging.next(), CompactionReason::PeriodicCompaction);
        db.wait_for_background_work().unwrap();
        assert_eq!(files(&db), [0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(db.get("key007").unwrap().as_deref(), Some(&b"two"[..]));
    }
}

#[test]
fn fifo_deletes_files_whose_time_is_over() {
    let aging = Aging::new(CompactionStyle::Fifo, 10 * HOUR, 0);
    let db = aging.open();
    put_and_flush(&db, "one");
    aging.clock.advance(Duration::from_secs(6 * HOUR));
    db.put("later", "two").unwrap();
    db.flush().unwrap();
    db.wait_for_background_work().unwrap();
    assert_eq!(files(&db)[0], 2);
    aging.wait(6 * HOUR);
    assert_eq!(aging.next(), CompactionReason::FifoTtl);
    db.wait_for_background_work().unwrap();
    assert_eq!(files(&db)[0], 1);
    assert_eq!((db.get("key001").unwrap(), db.get("later").unwrap().as_deref()), (None, Some(&b"two"[..])));
}

#[test]
fn fifo_gives_files_the_temperature_of_their_age() {
    let aging = Aging::new(CompactionStyle::Fifo, 0, 0);
    let mut options = aging.options.clone();
    options.cf.num_levels = 1;
    let text = "compaction_options_fifo={file_temperature_age_thresholds={{temperature=kWarm;age=3600}:{temperature=kCold;age=36000}}}";
    options.cf = cf_options_from_string(&options.cf, text).unwrap();
    let statistics = Arc::new(Statistics::new());
    options.db.statistics = Some(statistics.clone());
    let db = Db::open(&options, "/db").unwrap();
    let temperatures = |db: &Db| -> Vec<Temperature> {
        let mut files = db.live_files();
        files.sort_by_key(|f| f.file_number);
        files.iter().map(|f| f.temperature).collect()
    };
    use Temperature::{Cold, Unknown, Warm};
    put_and_flush(&db, "one");
    aging.wait(2 * HOUR);
    assert_eq!(aging.next(), CompactionReason::ChangeTemperature);
    db.wait_for_background_work().unwrap();
    assert_eq!(temperatures(&db), [Warm]);
    put_and_flush(&db, "two");
    let numbers: Vec<FileNumber> = db.live_files().iter().map(|f| f.file_number).collect();
    aging.wait(9 * HOUR);
    assert_eq!([(); 2].map(|()| aging.next()), [CompactionReason::ChangeTemperature; 2]);
    db.wait_for_background_work().unwrap();
    assert_eq!(temperatures(&db), [Cold, Warm]);
    assert_eq!(statistics.ticker_count(Ticker::FifoChangeTemperatureCompactions), 3);
    put_and_flush(&db, "three");
    assert_eq!(temperatures(&db), [Cold, Warm, Unknown]);
    drop(db);
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(temperatures(&db), [Cold, Warm, Unknown]);
    assert!(numbers.iter().all(|number| db.live_files().iter().any(|f| f.file_number == *number)));
    assert_eq!(db.get("key001").unwrap().as_deref(), Some(&b"three"[..]));
}

#[test]
fn ages_of_temperatures_are_refused_where_they_have_no_meaning() {
    let refused = |style, levels, ages: &str| -> Result<()> {
        let mut options = Options { db: Aging::new(style, 0, 0).options.db, ..Options::default() };
        options.cf.compaction_style = style;
        options.cf.num_levels = levels;
        let text = format!("compaction_options_fifo={{file_temperature_age_thresholds={ages}}}");
        options.cf = cf_options_from_string(&options.cf, &text)?;
        Db::open(&options, "/db").map(drop)
    };
    let (one, two) = ("{temperature=kCold;age=9}", "{{temperature=kWarm;age=9}:{temperature=kCold;age=8}}");
    for (style, levels, ages, why) in [
        (CompactionStyle::Level, 7, one, "only FIFO"),
        (CompactionStyle::Fifo, 2, one, "num_levels = 1"),
        (CompactionStyle::Fifo, 1, two, "must increase"),
        (CompactionStyle::Fifo, 1, "{{temperature=tepid;age=9}}", "tepid"),
        (CompactionStyle::Fifo, 1, "{{colour=red}}", "file_temperature_age_thresholds"),
    ] {
        let error = refused(style, levels, ages).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    refused(CompactionStyle::Fifo, 1, one).unwrap();
}

#[test]
fn fifo_keeps_a_merged_file_until_all_of_it_is_old() {
    let aging = Aging::new(CompactionStyle::Fifo, 10 * HOUR, 0);
    let mut options = aging.options.clone();
    options.cf.compaction_options_fifo.allow_compaction = true;
    options.cf.level0_file_num_compaction_trigger = 4;
    let db = Db::open(&options, "/db").unwrap();
    for hour in [0, 3, 6, 9] {
        db.put(format!("hour{hour}"), "value").unwrap();
        db.flush().unwrap();
        db.wait_for_background_work().unwrap();
        aging.clock.advance(Duration::from_secs(3 * HOUR));
    }
    assert_eq!(aging.next(), CompactionReason::FifoReduceNumFiles);
    assert_eq!(files(&db)[0], 1);
    // It is twelve hours after the first write, and three after the file's last: each flush checks
    // for old files.
    db.put("hour12", "value").unwrap();
    db.flush().unwrap();
    db.wait_for_background_work().unwrap();
    assert_eq!(db.get("hour9").unwrap().as_deref(), Some(&b"value"[..]), "the value is three hours old");
    assert_eq!(files(&db)[0], 2);
    aging.wait(8 * HOUR);
    assert_eq!(aging.next(), CompactionReason::FifoTtl);
    db.wait_for_background_work().unwrap();
    assert_eq!(db.get("hour9").unwrap(), None);
    assert_eq!(db.get("hour12").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn fifo_files_that_were_merged_by_hand_keep_no_others_from_growing_old() {
    let aging = Aging::new(CompactionStyle::Fifo, 10 * HOUR, 0);
    let db = aging.open();
    for key in ["one", "two", "three"] {
        db.put(key, "value").unwrap();
        db.flush().unwrap();
        aging.clock.advance(Duration::from_secs(HOUR));
    }
    aging.clock.advance(Duration::from_secs(5 * HOUR));
    let mut numbers: Vec<_> = db.live_files().iter().map(|live| live.file.file_number).collect();
    numbers.sort();
    let family = db.default_column_family();
    db.compact_files(&Default::default(), &family, &numbers[..2], 0).unwrap();
    assert_eq!(aging.next(), CompactionReason::ManualCompaction);
    aging.clock.advance(Duration::from_secs(5 * HOUR));
    // After thirteen hours, all three keys are older than ten hours, although their files are not.
    db.put("four", "value").unwrap();
    db.flush().unwrap();
    db.wait_for_background_work().unwrap();
    assert_eq!(files(&db)[0], 1);
    assert_eq!(db.get("three").unwrap(), None);
    assert_eq!(db.get("four").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn a_time_set_later_and_that_of_a_new_family_count_too() {
    let aging = Aging::new(CompactionStyle::Level, 0, 0);
    let db = aging.open();
    put_and_flush(&db, "one");
    aging.wait(1000 * HOUR);
    db.wait_for_background_work().unwrap();
    assert!(aging.done.try_recv().is_err(), "no compaction is ever due");
    let mut options = aging.options.cf.clone();
    options.periodic_compaction_seconds = 10 * HOUR;
    let family = db.create_column_family("aging", &options).unwrap();
    db.put_cf(&family, "key", "value").unwrap();
    db.flush_opt(&Default::default(), &[&family]).unwrap();
    aging.wait(13 * HOUR);
    assert_eq!(aging.next(), CompactionReason::PeriodicCompaction);
    db.wait_for_background_work().unwrap();
    while aging.done.try_recv().is_ok() {}
    // Once the option gives an age, the file is already old enough.
    db.set_options(&db.default_column_family(), &[("periodic_compaction_seconds", "3600")]).unwrap();
    assert_eq!(aging.next(), CompactionReason::PeriodicCompaction);
}

#[test]
fn off_peak_files_are_compacted_that_would_be_due_before_the_next_off_peak_time() {
    // Databases open at 13:46:40 UTC.
    let mut aging = Aging::new(CompactionStyle::Level, 0, 90 * HOUR);
    aging.options.db.daily_offpeak_time_utc = "12:00-14:30".to_owned();
    let db = aging.open();
    put_and_flush(&db, "one");
    db.wait_for_background_work().unwrap();
    let is_quiet = |hours| {
        aging.wait(hours * HOUR);
        db.wait_for_background_work().unwrap();
        aging.done.try_recv().is_err()
    };
    assert!(is_quiet(48), "the file will be due after the next off-peak time has begun");
    assert!(is_quiet(20), "it is not off-peak");
    assert!(is_quiet(2), "nor is it shortly before noon");
    aging.wait(2 * HOUR);
    assert_eq!(aging.next(), CompactionReason::PeriodicCompaction);
    assert!(is_quiet(0), "a new file is not due");
    // Without an off-peak time, the next compaction comes at its full age.
    db.set_db_options(&[("daily_offpeak_time_utc", "")]).unwrap();
    assert!(is_quiet(88), "the file is not old enough");
    let error = db.set_db_options(&[("daily_offpeak_time_utc", "25:00-26:00")]).unwrap_err();
    assert!(error.message().contains("daily_offpeak_time_utc"), "{error}");
    db.set_db_options(&[("max_compaction_trigger_wakeup_seconds", "60")]).unwrap();
    aging.wait(4 * HOUR);
    assert_eq!(aging.next(), CompactionReason::PeriodicCompaction);
}
