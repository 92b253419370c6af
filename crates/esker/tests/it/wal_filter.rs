//! Filters of WAL records (`wal_filter`).

use esker::internals::env::mem::MemFs;
use esker::options::{WalFilter, WalFilterDecision, WalFilterRecord};
use esker::{
    BatchOp, ColumnFamilyId, Db, Env, ErrorKind, FileNumber, FlushOptions, OpenMode, Options, TransactionDb,
    TransactionDbOptions, WalRecoveryMode, WriteBatch,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

type Decide = dyn Fn(&WriteBatch) -> WalFilterDecision + Send + Sync;

/// A filter that decides by a function, and keeps its arguments.
struct ByFunction {
    decide: Box<Decide>,
    families: Mutex<Vec<(String, u32, u64)>>,
    records: Mutex<Vec<(u64, String, Vec<String>)>>,
}

impl WalFilter for ByFunction {
    fn name(&self) -> &str {
        "ByFunction"
    }

    fn column_family_log_number_map(
        &self,
        log_numbers: &BTreeMap<ColumnFamilyId, FileNumber>,
        ids: &BTreeMap<&str, ColumnFamilyId>,
    ) {
        let named = ids.iter().map(|(name, id)| ((*name).to_owned(), id.0, log_numbers[id].0));
        self.families.lock().unwrap().extend(named);
    }

    fn log_record_found(&self, record: &WalFilterRecord<'_>) -> WalFilterDecision {
        let name = record.log_file_name.to_str().unwrap().to_owned();
        self.records.lock().unwrap().push((record.log_number.0, name, keys(record.batch)));
        (self.decide)(record.batch)
    }
}

fn keys(batch: &WriteBatch) -> Vec<String> {
    let key = |op: BatchOp<'_>| match op {
        BatchOp::Put { key, .. } => Some(String::from_utf8_lossy(key).into_owned()),
        _ => None,
    };
    batch.iter().filter_map(key).collect()
}

fn filter(decide: impl Fn(&WriteBatch) -> WalFilterDecision + Send + Sync + 'static) -> Arc<ByFunction> {
    Arc::new(ByFunction { decide: Box::new(decide), families: Mutex::default(), records: Mutex::default() })
}

/// A decision about records with this key; others are replayed.
fn about(key: &'static str, decision: WalFilterDecision) -> Arc<ByFunction> {
    filter(move |batch| match keys(batch).iter().any(|k| k == key) {
        true => decision.clone(),
        false => WalFilterDecision::ContinueProcessing,
    })
}

fn options(fs: &Arc<MemFs>) -> Options {
    let mut options = Options::new().create_if_missing(true);
    options.db.env = Env::with_fs(fs.clone());
    options.db.avoid_flush_during_recovery = true;
    options.db.avoid_flush_during_shutdown = true;
    options
}

/// A database whose WALs hold the keys 0 to 5; a flush of another family begins the second WAL.
fn written(fs: &Arc<MemFs>) -> Options {
    let options = options(fs);
    let db = Db::open(&options, "/db").unwrap();
    let other = db.create_column_family("other", &options.cf).unwrap();
    (0..3).for_each(|i| db.put(i.to_string(), format!("value {i}")).unwrap());
    db.put_cf(&other, "elsewhere", "").unwrap();
    db.flush_opt(&FlushOptions::default(), &[&other]).unwrap();
    (3..6).for_each(|i| db.put(i.to_string(), format!("value {i}")).unwrap());
    options
}

fn open(options: &Options, filter: Option<Arc<ByFunction>>) -> esker::Result<Db> {
    let mut options = options.clone();
    options.db.wal_filter = filter.map(|filter| filter as Arc<dyn WalFilter>);
    let families = ["default", "other"].map(|name| (name, options.cf.clone()));
    Db::open_cf(&options.db, "/db", families)
}

fn found(db: &Db) -> String {
    (0..6).map(|i| i.to_string()).filter(|i| db.get(i).unwrap().is_some()).collect()
}

#[test]
fn a_filter_sees_the_families_and_every_record() {
    let fs = Arc::new(MemFs::new());
    let options = written(&fs);
    let sees = about("nothing", WalFilterDecision::IgnoreCurrentRecord);
    let db = open(&options, Some(sees.clone())).unwrap();
    assert_eq!(found(&db), "012345");
    let records = sees.records.lock().unwrap();
    let keys: Vec<&str> = records.iter().flat_map(|record| &record.2).map(String::as_str).collect();
    assert_eq!(keys, ["0", "1", "2", "elsewhere", "3", "4", "5"]);
    let (first, last) = (records[0].0, records[6].0);
    assert!(first < last);
    assert_eq!(Path::new(&records[6].1), Path::new("/db").join(format!("{last:06}.log")));
    let families = sees.families.lock().unwrap();
    assert_eq!(families[..], [("default".into(), 0, first), ("other".into(), 1, last)]);
}

#[test]
fn a_dropped_record_stays_away_without_the_filter_and_later_writes_go_on() {
    let fs = Arc::new(MemFs::new());
    let options = written(&fs);
    let before = open(&options, None).unwrap().latest_sequence_number();
    let drops = filter(|batch| match keys(batch)[..] == ["4"] || keys(batch)[..] == ["5"] {
        true => WalFilterDecision::IgnoreCurrentRecord,
        false => WalFilterDecision::ContinueProcessing,
    });
    let db = open(&options, Some(drops)).unwrap();
    assert_eq!(found(&db), "0123");
    assert_eq!(
        db.latest_sequence_number(),
        before,
        "the sequence number of a dropped record is not used again"
    );
    db.put("5", "anew").unwrap();
    drop(db);
    let db = open(&options, None).unwrap();
    assert_eq!(found(&db), "01235");
    assert_eq!(db.get("5").unwrap().unwrap(), b"anew");
}

#[test]
fn a_first_wal_whose_end_is_dropped_counts_as_whole() {
    let fs = Arc::new(MemFs::new());
    let options = written(&fs);
    for mode in [WalRecoveryMode::PointInTimeRecovery, WalRecoveryMode::AbsoluteConsistency] {
        let mut options = options.clone();
        options.db.wal_recovery_mode = mode;
        let last_of_first = about("elsewhere", WalFilterDecision::IgnoreCurrentRecord);
        assert_eq!(found(&open(&options, Some(last_of_first)).unwrap()), "012345", "{mode:?}");
    }
}

#[test]
fn a_replay_that_is_stopped_leaves_out_the_rest_for_good() {
    let fs = Arc::new(MemFs::new());
    let options = written(&fs);
    let stops = about("2", WalFilterDecision::StopReplay);
    let db = open(&options, Some(stops.clone())).unwrap();
    assert_eq!(found(&db), "01");
    assert_eq!(stops.records.lock().unwrap().len(), 3, "the second WAL is not read");
    db.put("2", "anew").unwrap();
    drop(db);
    assert_eq!(found(&open(&options, None).unwrap()), "012");
}

#[test]
fn a_changed_batch_takes_the_place_of_the_record() {
    let fs = Arc::new(MemFs::new());
    let options = written(&fs);
    let changes = filter(|batch| {
        let mut changed = WriteBatch::new();
        for key in keys(batch) {
            if key == "4" {
                changed.put("0", "changed").unwrap();
            }
        }
        match changed.is_empty() {
            true => WalFilterDecision::ContinueProcessing,
            false => WalFilterDecision::ChangeBatch(changed),
        }
    });
    let db = open(&options, Some(changes)).unwrap();
    assert_eq!(found(&db), "01235");
    assert_eq!(db.get("0").unwrap().unwrap(), b"changed", "newer than the first record");
}

#[test]
fn a_changed_batch_with_more_operations_fails_the_open_and_loses_nothing() {
    let fs = Arc::new(MemFs::new());
    let options = written(&fs);
    for mode in [WalRecoveryMode::SkipAnyCorruptedRecords, WalRecoveryMode::PointInTimeRecovery] {
        let mut larger = WriteBatch::new();
        larger.put("0", "").unwrap();
        larger.put("1", "").unwrap();
        let mut options = options.clone();
        options.db.wal_recovery_mode = mode;
        let error = open(&options, Some(about("3", WalFilterDecision::ChangeBatch(larger)))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported);
        assert!(error.message().contains("returned by Wal Filter ByFunction: 2 in place of 1"), "{error}");
    }
    assert_eq!(found(&open(&options, None).unwrap()), "012345");
}

#[test]
fn a_record_called_damaged_is_treated_as_the_recovery_mode_says() {
    use WalRecoveryMode as Mode;
    for (mode, left) in [
        (Mode::TolerateCorruptedTailRecords, None),
        (Mode::AbsoluteConsistency, None),
        (Mode::PointInTimeRecovery, Some("0123")),
        (Mode::SkipAnyCorruptedRecords, Some("01235")),
    ] {
        let fs = Arc::new(MemFs::new());
        let mut options = written(&fs);
        options.db.wal_recovery_mode = mode;
        match (open(&options, Some(about("4", WalFilterDecision::CorruptedRecord))), left) {
            (Ok(db), Some(left)) => assert_eq!(found(&db), left, "{mode:?}"),
            (Err(error), None) => {
                assert_eq!(error.kind(), ErrorKind::Corruption);
                assert!(error.message().contains("reported by Wal Filter ByFunction"), "{error}");
            }
            (opened, left) => panic!("{mode:?}: {opened:?} in place of {left:?}"),
        }
    }
}

#[test]
fn a_read_only_open_is_filtered_and_changes_nothing() {
    let fs = Arc::new(MemFs::new());
    let mut options = written(&fs);
    options.db.wal_filter = Some(about("5", WalFilterDecision::IgnoreCurrentRecord));
    let families = ["default"].map(|name| (name, options.cf.clone()));
    let db = Db::open_with(&options.db, "/db", families, OpenMode::ReadOnly).unwrap();
    assert_eq!(found(&db), "01234");
    drop(db);
    assert_eq!(found(&open(&options, None).unwrap()), "012345");
}

#[test]
fn a_prepare_that_is_dropped_takes_its_transaction_along() {
    let fs = Arc::new(MemFs::new());
    let mut options = options(&fs);
    let settings = TransactionDbOptions::default();
    let db = TransactionDb::open(&options, &settings, "/db").unwrap();
    db.db().put("0", "").unwrap();
    let transaction = db.begin_transaction();
    transaction.set_name(b"one").unwrap();
    transaction.put("prepared", "").unwrap();
    transaction.prepare().unwrap();
    transaction.commit().unwrap();
    drop(transaction);
    db.db().put("1", "").unwrap();
    let last = db.db().latest_sequence_number();
    drop(db);
    let drops = about("prepared", WalFilterDecision::IgnoreCurrentRecord);
    options.db.wal_filter = Some(drops);
    let db = TransactionDb::open(&options, &settings, "/db").unwrap();
    assert_eq!(found(db.db()), "01");
    assert_eq!(db.db().get("prepared").unwrap(), None);
    assert_eq!(db.db().latest_sequence_number(), last);
}
