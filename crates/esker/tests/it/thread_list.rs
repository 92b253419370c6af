//! The list of threads (`Env::get_thread_list`), as a plug-in sees it from within an operation.

use esker::internals::env::MemFs;
use esker::merge_operator::MergeOperator;
use esker::observe::{CompactionJobInfo, EventListener, FlushJobInfo, TableFileCreationBriefInfo};
use esker::thread_status::{OperationType, StateType, ThreadStatus, ThreadType};
use esker::{Db, Env, Options, ReadOptions};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Takes the list whenever the engine calls it.
struct Spy {
    env: Env,
    seen: Mutex<Vec<ThreadStatus>>,
}

impl Spy {
    fn look(&self) {
        let busy = |status: &ThreadStatus| status.operation_type != OperationType::Unknown;
        self.seen.lock().unwrap().extend(self.env.get_thread_list().into_iter().filter(busy));
    }

    fn take(&self) -> Vec<ThreadStatus> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }

    /// Names of the operations and their stages, without repetitions.
    fn take_names(&self) -> Vec<(&'static str, &'static str)> {
        let seen = self.take();
        let mut names: Vec<_> =
            seen.iter().map(|s| (s.operation_type.name(), s.operation_stage.name())).collect();
        names.dedup();
        names
    }
}

impl MergeOperator for Spy {
    fn name(&self) -> &str {
        "spy"
    }
    fn full_merge(&self, _key: &[u8], _existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.look();
        Some(operands.concat())
    }
}

impl EventListener for Spy {
    fn on_flush_begin(&self, _info: &FlushJobInfo) {
        self.look();
    }
    fn on_compaction_begin(&self, _info: &CompactionJobInfo) {
        self.look();
    }
    fn on_table_file_creation_started(&self, _info: &TableFileCreationBriefInfo) {
        self.look();
    }
}

fn open(is_tracked: bool) -> (Db, Arc<Spy>) {
    let env = Env::with_fs(Arc::new(MemFs::new()));
    let spy = Arc::new(Spy { env: env.clone(), seen: Mutex::default() });
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.enable_thread_tracking = is_tracked;
    options.db.env = env;
    options.db.listeners = vec![spy.clone()];
    options.cf.merge_operator = Some(spy.clone());
    options.cf.disable_auto_compactions = true;
    (Db::open(&options, "/db").unwrap(), spy)
}

fn idle(db: &Db) -> bool {
    db.env().get_thread_list().iter().all(|status| status.operation_type == OperationType::Unknown)
}

#[test]
fn reads_are_shown_while_they_run() {
    let (db, spy) = open(true);
    db.merge("key", "a").unwrap();
    db.get("key").unwrap();
    let [status] = &spy.take()[..] else { panic!("the get is shown once") };
    assert_eq!((status.thread_type, status.operation_type), (ThreadType::User, OperationType::Get));
    assert_eq!((status.state_type.name(), StateType::MutexWait.name()), ("", "Mutex Wait"));
    assert_eq!((&status.db_name[..], &status.cf_name[..]), ("/db", "default"));
    assert!(status.properties().is_empty());
    let family = db.default_column_family();
    db.get_entity(&ReadOptions::default(), &family, "key").unwrap();
    assert_eq!(spy.take_names(), [("GetEntity", "")]);
    db.multi_get(&["key", "other"]);
    assert_eq!(spy.take_names(), [("MultiGet", "")]);
    let mut iter = db.iter().unwrap();
    iter.seek("k");
    assert_eq!(spy.take_names(), [("DBIterator", "")]);
    iter.seek_to_first();
    assert_eq!(spy.take_names(), [("DBIterator", "")]);
    assert!(idle(&db), "an iterator between its calls is no operation");
    db.verify_checksum().unwrap();
    assert!(idle(&db));
}

#[test]
fn flushes_and_compactions_are_shown_with_stages_and_properties() {
    let (db, spy) = open(true);
    for round in 0..2 {
        for i in 0..3000 {
            db.put(format!("key{i:05}"), format!("{round}").repeat(20)).unwrap();
        }
        db.merge("key00000", "x").unwrap();
        db.flush().unwrap();
    }
    let seen = spy.take();
    let flush = seen.iter().find(|s| s.operation_stage.name() == "FlushJob::WriteLevel0Table").unwrap();
    assert_eq!((flush.operation_type, flush.thread_type), (OperationType::Flush, ThreadType::HighPriority));
    assert_eq!((&flush.db_name[..], &flush.cf_name[..]), ("/db", "default"));
    let properties: BTreeMap<_, _> = flush.properties().into_iter().collect();
    assert!(properties["JobID"] > 0 && properties["BytesMemtables"] > 50_000, "{properties:?}");
    assert!(seen.iter().any(|s| s.operation_stage.name() == "FlushJob::Run"));

    db.compact_range(None, None).unwrap();
    let seen = spy.take();
    let stages: Vec<_> = seen.iter().map(|s| s.operation_stage.name()).collect();
    assert!(stages.contains(&"CompactionJob::Run"), "{stages:?}");
    let merging = |s: &&ThreadStatus| s.operation_stage.name() == "CompactionJob::ProcessKeyValueCompaction";
    let last = seen.iter().rfind(merging).unwrap();
    assert_eq!((last.operation_type, last.thread_type), (OperationType::Compaction, ThreadType::LowPriority));
    let properties: BTreeMap<_, _> = last.properties().into_iter().collect();
    assert_eq!((properties["BaseInputLevel"], properties["IsManual"], properties["IsDeletion"]), (0, 1, 0));
    assert!(properties["OutputLevel"] > 0 && properties["TotalInputBytes"] > 10_000, "{properties:?}");
    assert!(idle(&db));
    let types: Vec<_> = db.env().get_thread_list().iter().map(|s| s.thread_type.name()).collect();
    assert!(
        types.contains(&"High Pri") && types.contains(&"Low Pri") && !types.contains(&"User"),
        "{types:?}"
    );
}

#[test]
fn bytes_of_a_compaction_grow_while_it_runs() {
    /// Looks at each value of `marked`.
    struct Marked(Arc<Spy>);
    impl esker::compaction_filter::CompactionFilter for Marked {
        fn name(&self) -> &str {
            "marked"
        }
        fn filter(&self, _: usize, key: &[u8], _: &[u8]) -> esker::compaction_filter::FilterDecision {
            if key == b"key19999" {
                self.0.look();
            }
            esker::compaction_filter::FilterDecision::Keep
        }
    }
    let env = Env::with_fs(Arc::new(MemFs::new()));
    let spy = Arc::new(Spy { env: env.clone(), seen: Mutex::default() });
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.enable_thread_tracking = true;
    options.db.env = env;
    options.db.max_subcompactions = 3;
    options.cf.target_file_size_base = 100 << 10;
    options.cf.compaction_filter = Some(Arc::new(Marked(spy.clone())));
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, "/db").unwrap();
    for round in 0..2 {
        for i in 0..20_000 {
            db.put(format!("key{i:05}"), format!("{round}{i}").repeat(10)).unwrap();
        }
        db.flush().unwrap();
    }
    spy.take();
    db.compact_range(None, None).unwrap();
    let seen = spy.take();
    let [status] = &seen[..] else { panic!("{seen:?}") };
    let properties: BTreeMap<_, _> = status.properties().into_iter().collect();
    let (read, written) = (properties["BytesRead"], properties["BytesWritten"]);
    assert!(read > 0 && written > 0, "{properties:?}");
    assert!(read <= 2 * properties["TotalInputBytes"], "{properties:?}");
}

#[test]
fn without_the_option_no_operation_is_shown() {
    let (db, spy) = open(false);
    db.merge("key", "a").unwrap();
    db.get("key").unwrap();
    db.merge("key", "b").unwrap();
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    assert!(spy.take().is_empty());
}

#[test]
fn tracked_reads_of_a_closed_or_foreign_database_fail() {
    let (db, _spy) = open(true);
    let (other, _spy) = open(true);
    let foreign = other.default_column_family();
    assert!(db.get_cf(&foreign, "key").is_err());
    db.put("key", "a").unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"a"[..]));
    db.close().unwrap();
    assert!(db.get("key").is_err());
    assert!(db.iter().is_err());
}
