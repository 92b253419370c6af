//! The history of statistics: `Db::get_stats_history`, in memory and in the hidden column family.

use esker::internals::env::{MemFs, MockClock};
use esker::stats::{Statistics, Ticker};
use esker::{Db, DbOptions, Env, ErrorKind, Options};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const FAMILY: &str = "___rocksdb_stats_history___";
const PERIOD: u64 = 60;
const KEYS: &str = "rocksdb.number.keys.written";

struct Machine {
    clock: Arc<MockClock>,
    options: Options,
}

impl Machine {
    fn new(persists: bool) -> Machine {
        let clock = Arc::new(MockClock::new(1_000_000_000));
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.env = Env::new(Arc::new(MemFs::new()), clock.clone());
        options.db.statistics = Some(Arc::new(Statistics::new()));
        options.db.stats_persist_period_sec = PERIOD as u32;
        options.db.stats_dump_period_sec = 0;
        options.db.persist_stats_to_disk = persists;
        Machine { clock, options }
    }

    fn open(&self) -> Db {
        Db::open(&self.options, "/db").unwrap()
    }

    /// Lets a period pass, and waits for the snapshot.
    fn pass(&self, db: &Db) -> u64 {
        self.clock.advance(Duration::from_secs(PERIOD));
        let now = self.options.db.env.clock.now_seconds();
        self.options.db.env.timer.read_clock_again();
        while db.get_stats_history(now, now + 1).unwrap().next().is_none() {
            std::thread::yield_now();
        }
        now
    }
}

/// Time and number of written keys of each snapshot.
fn keys_written(db: &Db, start: u64, end: u64) -> Vec<(u64, u64)> {
    let snapshots = db.get_stats_history(start, end).unwrap().map(Result::unwrap);
    snapshots.map(|(seconds, tickers)| (seconds, tickers[KEYS])).collect()
}

fn put(db: &Db, count: usize) {
    for i in 0..count {
        db.put(format!("key{i}"), "value").unwrap();
    }
}

#[test]
fn snapshots_have_the_counts_since_the_one_before() {
    let machine = Machine::new(false);
    let db = machine.open();
    put(&db, 3);
    let first = machine.pass(&db);
    put(&db, 2);
    let second = machine.pass(&db);
    let third = machine.pass(&db);
    assert_eq!((second, third), (first + PERIOD, first + 2 * PERIOD));
    assert_eq!(keys_written(&db, 0, u64::MAX), [(first, 3), (second, 2), (third, 0)]);
    assert_eq!(keys_written(&db, first, second), [(first, 3)], "the end is no part of the range");
    assert_eq!(keys_written(&db, first + 1, third), [(second, 2)]);
    let (_, tickers) = db.get_stats_history(0, u64::MAX).unwrap().next().unwrap().unwrap();
    assert_eq!(tickers.len(), Ticker::ALL.len());
    // An iterator over memory goes on with what is taken while it lives.
    let mut history = db.get_stats_history(third, u64::MAX).unwrap();
    assert_eq!(history.next().unwrap().unwrap().0, third);
    let fourth = machine.pass(&db);
    assert_eq!(history.next().unwrap().unwrap().0, fourth);
    assert!(history.next().is_none() && history.next().is_none());
    drop(history);
    db.close().unwrap();
    assert_eq!(db.get_stats_history(0, 1).unwrap_err().kind(), ErrorKind::ShutdownInProgress);
}

#[test]
fn memory_for_snapshots_is_limited() {
    let machine = Machine::new(false);
    let db = machine.open();
    let all: Vec<u64> = (0..4).map(|_| machine.pass(&db)).collect();
    assert_eq!(keys_written(&db, 0, u64::MAX).len(), 4);
    // RocksDB counts about 20 KiB a snapshot.
    db.set_db_options(&[("stats_history_buffer_size", "50000")]).unwrap();
    let last = machine.pass(&db);
    let kept: Vec<u64> = keys_written(&db, 0, u64::MAX).into_iter().map(|(seconds, _)| seconds).collect();
    assert_eq!(kept, [all[3], last]);
    db.set_db_options(&[("stats_persist_period_sec", "0")]).unwrap();
    machine.clock.advance(Duration::from_secs(10 * PERIOD));
    machine.options.db.env.timer.read_clock_again();
    assert_eq!(keys_written(&db, last + 1, u64::MAX), []);
}

#[test]
fn a_database_without_statistics_has_no_history() {
    let mut machine = Machine::new(false);
    machine.options.db.statistics = None;
    let db = machine.open();
    machine.clock.advance(Duration::from_secs(10 * PERIOD));
    assert!(db.get_stats_history(0, u64::MAX).unwrap().next().is_none());
}

/// Keys and values of the hidden family.
fn stored(db: &Db) -> BTreeMap<String, String> {
    let family = db.column_family(FAMILY).expect("the family is open");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut iter = db.iter_cf(&family).unwrap();
    iter.seek_to_first();
    let mut all = BTreeMap::new();
    while let Some((key, value)) = iter.item() {
        all.insert(text(key), text(value));
        iter.next();
    }
    all
}

#[test]
fn snapshots_on_disk_survive_in_a_family_that_no_open_names() {
    let mut machine = Machine::new(true);
    let db = machine.open();
    put(&db, 5);
    let first = machine.pass(&db);
    assert_eq!(db.column_family_names(), ["default"]);
    let listed = Db::list_column_families(&machine.options.db, "/db").unwrap();
    assert_eq!(listed, ["default", FAMILY]);
    let all = stored(&db);
    assert_eq!(all.len(), Ticker::ALL.len() + 2);
    assert_eq!(all[&format!("{first:010}#{KEYS}")], "5");
    assert_eq!(all["__persistent_stats_format_version__"], "1");
    assert_eq!(all["__persistent_stats_compatible_version__"], "1");
    db.close().unwrap();
    drop(db);

    // Without the option, the family is open and hidden, and nothing is added.
    machine.options.db.persist_stats_to_disk = false;
    let db = machine.open();
    assert_eq!(db.column_family_names(), ["default"]);
    assert_eq!(stored(&db), all);
    assert_eq!(keys_written(&db, 0, u64::MAX), [], "this history is in memory");
    let taken = db.create_column_family(FAMILY, &Default::default()).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::InvalidArgument, "{taken}");
    db.close().unwrap();
    drop(db);

    machine.options.db.persist_stats_to_disk = true;
    let db = machine.open();
    let second = machine.pass(&db);
    assert_eq!(keys_written(&db, 0, second), [(first, 5)]);
    assert_eq!(keys_written(&db, first, second + 1).len(), 2);
    assert_eq!(keys_written(&db, first + 1, second), []);
    db.close().unwrap();
    drop(db);

    // The newest state of a lost database has the family, too.
    let mut best_efforts = machine.options.clone();
    best_efforts.db.best_efforts_recovery = true;
    let db = Db::open(&best_efforts, "/db").unwrap();
    assert_eq!(keys_written(&db, 0, second), [(first, 5)]);
    drop(db);

    // A reader sees the history if its options request it.
    let reader = Db::open_for_read_only(&machine.options, "/db").unwrap();
    assert_eq!(keys_written(&reader, 0, second), [(first, 5)]);
    drop(reader);
    let options = DbOptions { persist_stats_to_disk: false, ..machine.options.db.clone() };
    let named = Db::open_cf(&options, "/db", ["default", FAMILY]).unwrap();
    assert_eq!(named.column_family_names(), ["default", FAMILY], "an open that names it shows it");
    let kept = named.options_cf(&named.column_family(FAMILY).unwrap());
    assert_eq!((kept.write_buffer_size, kept.target_file_size_base), (2 << 20, 2 << 20));
}

#[test]
fn a_family_of_an_unknown_version_is_replaced() {
    for (key, value, is_kept) in [
        ("__persistent_stats_format_version__", "2", true),
        ("__persistent_stats_compatible_version__", "7", true),
        ("__persistent_stats_format_version__", "x", false),
    ] {
        let machine = Machine::new(true);
        let db = machine.open();
        machine.pass(&db);
        let family = db.column_family(FAMILY).unwrap();
        db.put_cf(&family, key, value).unwrap();
        drop((family, db));
        let db = machine.open();
        let all = stored(&db);
        assert_eq!(all.len() > 2, is_kept, "{key} {value}: {all:?}");
        assert_eq!(all[key] == value, is_kept);
    }
    let machine = Machine::new(true);
    let db = machine.open();
    machine.pass(&db);
    let family = db.column_family(FAMILY).unwrap();
    db.put_cf(&family, "__persistent_stats_format_version__", "2").unwrap();
    db.put_cf(&family, "__persistent_stats_compatible_version__", "2").unwrap();
    drop((family, db));
    let db = machine.open();
    assert_eq!(stored(&db).len(), 2, "the family is new");
    machine.pass(&db);
    assert_eq!(keys_written(&db, 0, u64::MAX).len(), 1);
}

#[test]
fn a_value_that_is_no_number_is_corruption() {
    let machine = Machine::new(true);
    let db = machine.open();
    let first = machine.pass(&db);
    let family = db.column_family(FAMILY).unwrap();
    db.put_cf(&family, format!("{:010}#rocksdb.bytes.read", first + 1), "many").unwrap();
    let mut history = db.get_stats_history(0, u64::MAX).unwrap();
    assert_eq!(history.next().unwrap().unwrap().0, first);
    assert_eq!(history.next().unwrap().unwrap_err().kind(), ErrorKind::Corruption);
    assert!(history.next().is_none());
}
