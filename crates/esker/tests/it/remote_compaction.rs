//! Compactions by workers of a compaction service. A right result is installed; after a wrong one
//! the database compacts the files itself.
#![allow(clippy::disallowed_methods, reason = "a worker that lies changes real files")]

use esker::internals::format::compaction_service::{CompactionServiceInput, CompactionServiceResult};
use esker::observe::{CompactionJobInfo, EventListener};
use esker::options::{
    CompactionService, CompactionServiceJobInfo, CompactionServiceJobStatus as Status,
    CompactionServiceOptionsOverride, CompactionServiceScheduleResponse, CompressionType,
    OpenAndCompactOptions,
};
use esker::stats::{Statistics, Ticker};
use esker::{
    CompactRangeOptions, Db, Error, ErrorKind, Options, ReadOptions, WaitForCompactOptions, builtin,
};
use esker_testkit::TempDir;
use esker_testkit::seed::for_each_seed;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A function that changes the result of a worker, as a faulty worker or service would.
type ResultFilter = Box<dyn Fn(&Path, esker::Result<Vec<u8>>) -> (Status, Vec<u8>) + Send + Sync>;

/// A service that runs each job on the thread that waits for it.
struct Calls {
    dir: PathBuf,
    twist: ResultFilter,
    schedules: Status,
    jobs: Mutex<BTreeMap<String, (PathBuf, Vec<u8>)>>,
    number: AtomicU64,
    cancelled: AtomicBool,
    installed: Mutex<Vec<(String, Status)>>,
    infos: Mutex<Vec<CompactionServiceJobInfo>>,
    refusals: Mutex<Vec<Error>>,
}

impl Calls {
    fn new(
        dir: &Path,
        twist: impl Fn(&Path, esker::Result<Vec<u8>>) -> (Status, Vec<u8>) + Send + Sync + 'static,
    ) -> Arc<Calls> {
        Calls::scheduling(dir, Status::Success, twist)
    }

    fn scheduling(
        dir: &Path,
        schedules: Status,
        twist: impl Fn(&Path, esker::Result<Vec<u8>>) -> (Status, Vec<u8>) + Send + Sync + 'static,
    ) -> Arc<Calls> {
        Arc::new(Calls {
            dir: dir.to_owned(),
            twist: Box::new(twist),
            schedules,
            jobs: Mutex::default(),
            number: AtomicU64::new(0),
            cancelled: AtomicBool::new(false),
            installed: Mutex::default(),
            infos: Mutex::default(),
            refusals: Mutex::default(),
        })
    }

    fn statuses(&self) -> Vec<Status> {
        self.installed.lock().unwrap().iter().map(|(_, status)| *status).collect()
    }
}

fn as_is(_: &Path, result: esker::Result<Vec<u8>>) -> (Status, Vec<u8>) {
    result.map_or((Status::UseLocal, Vec::new()), |bytes| (Status::Success, bytes))
}

impl CompactionService for Calls {
    fn name(&self) -> &str {
        "calls"
    }
    fn schedule(&self, info: &CompactionServiceJobInfo, input: &[u8]) -> CompactionServiceScheduleResponse {
        self.infos.lock().unwrap().push(info.clone());
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let id = format!("job-{number}");
        self.jobs.lock().unwrap().insert(id.clone(), (PathBuf::from(&info.db_name), input.to_vec()));
        CompactionServiceScheduleResponse { scheduled_job_id: id, status: self.schedules }
    }
    fn wait(&self, id: &str) -> (Status, Vec<u8>) {
        let (database, input) = self.jobs.lock().unwrap().remove(id).unwrap();
        let output = self.dir.join(id);
        let overrides = CompactionServiceOptionsOverride {
            merge_operator: builtin::merge_operator("stringappend"),
            ..CompactionServiceOptionsOverride::default()
        };
        let options = OpenAndCompactOptions::default();
        let result = Db::open_and_compact(&options, database, &output, &input, &overrides);
        if let Err(e) = &result {
            self.refusals.lock().unwrap().push(e.clone());
        }
        (self.twist)(&output, result)
    }
    fn cancel_awaiting_jobs(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
    fn on_installation(&self, id: &str, status: Status) {
        self.installed.lock().unwrap().push((id.to_owned(), status));
    }
}

fn options(service: &Arc<Calls>) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.compaction_service = Some(service.clone());
    options.db.statistics = Some(Arc::new(Statistics::new()));
    options.cf.disable_auto_compactions = true;
    options.cf.merge_operator = builtin::merge_operator("stringappend");
    options.cf.target_file_size_base = 8 << 10;
    options.cf.table.block_size = 512;
    options.cf.compression = CompressionType::None;
    options
}

fn contents(db: &Db) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut iter = db.iter_opt(ReadOptions::default(), &db.default_column_family()).unwrap();
    let mut found = Vec::new();
    iter.seek_to_first();
    while let Some((key, value)) = iter.item() {
        found.push((key.to_vec(), value.to_vec()));
        iter.next();
    }
    iter.status().unwrap();
    found
}

/// Four tables of level 0 that overlap.
fn fill(db: &Db) {
    for round in 0..4 {
        for n in (round..400).step_by(2) {
            db.put(format!("k{n:04}"), format!("v{round}-{n}-{}", "x".repeat(40))).unwrap();
        }
        db.delete(format!("k{:04}", 100 + round)).unwrap();
        db.flush().unwrap();
    }
}

/// For begins and ends of compactions, whether a worker takes part.
#[derive(Default)]
struct Remote(Mutex<Vec<bool>>);

impl EventListener for Remote {
    fn on_compaction_begin(&self, info: &CompactionJobInfo) {
        self.0.lock().unwrap().push(info.is_remote_compaction);
    }
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        self.0.lock().unwrap().push(info.is_remote_compaction);
    }
}

#[test]
fn listeners_learn_that_a_worker_takes_part() {
    let dir = TempDir::new("remote");
    let service = Calls::new(dir.path(), as_is);
    for has_service in [true, false] {
        let (mut options, remote) = (options(&service), Arc::new(Remote::default()));
        options.db.listeners = vec![remote.clone()];
        options.db.compaction_service = options.db.compaction_service.filter(|_| has_service);
        let db = Db::open(&options, dir.join(format!("db{has_service}"))).unwrap();
        fill(&db);
        db.compact_range(None, None).unwrap();
        assert_eq!(*remote.0.lock().unwrap(), [has_service; 2]);
    }
}

#[test]
fn a_worker_compacts_and_its_tables_are_taken_in() {
    let dir = TempDir::new("remote");
    let service = Calls::new(dir.path(), as_is);
    let options = options(&service);
    let db = Db::open(&options, dir.join("db")).unwrap();
    fill(&db);
    let before = contents(&db);
    db.compact_range(None, None).unwrap();
    assert_eq!(contents(&db), before);
    assert_eq!(service.statuses(), [Status::Success], "{:?}", service.refusals.lock().unwrap());
    assert!(db.live_files().len() > 1 && db.live_files().iter().all(|file| file.level == 6));
    let statistics = options.db.statistics.as_ref().unwrap();
    assert!(statistics.ticker_count(Ticker::RemoteCompactReadBytes) > 0);
    assert!(statistics.ticker_count(Ticker::RemoteCompactWriteBytes) > 0);
    let info = service.infos.lock().unwrap()[0].clone();
    assert_eq!((info.cf_name.as_str(), info.base_input_level, info.output_level), ("default", 0, 6));
    assert!(info.is_manual_compaction && info.is_full_compaction && info.bottommost_level);
    assert_eq!(info.db_id, db.db_identity());
    db.verify_checksum().unwrap();
    db.close().unwrap();
    assert!(service.cancelled.load(Ordering::Relaxed));
    drop(db);
    let db = Db::open(&options, dir.join("db")).unwrap();
    assert_eq!(contents(&db), before);
}

#[test]
fn histories_with_workers_are_those_without() {
    for_each_seed("remote", 4, |_, mut rng| {
        let dir = TempDir::new("remote");
        let service = Calls::new(dir.path(), as_is);
        let mut options = options(&service);
        options.db.max_subcompactions = 1 + rng.u32(..3);
        options.cf.level_compaction_dynamic_level_bytes = rng.bool();
        options.cf.disable_auto_compactions = false;
        options.cf.level0_file_num_compaction_trigger = 2;
        let db = Db::open(&options, dir.join("db")).unwrap();
        let mut local = options.clone();
        local.db.compaction_service = None;
        let twin = Db::open(&local, dir.join("twin")).unwrap();
        let mut snapshots = Vec::new();
        for turn in 0..1200 {
            let (key, end) = (format!("k{:03}", rng.u32(..300)), format!("k{:03}", rng.u32(..300)));
            let kind = rng.u32(..30);
            for db in [&db, &twin] {
                match kind {
                    0..4 => db.delete(&key),
                    4 => db.delete_range(key.clone().min(end.clone()), key.clone().max(end.clone())),
                    5..9 => db.merge(&key, format!("m{turn}")),
                    _ => db.put(&key, format!("v{turn}-{}", "y".repeat(30))),
                }
                .unwrap();
            }
            match rng.u32(..100) {
                0..4 => [&db, &twin].into_iter().for_each(|db| db.flush().unwrap()),
                4 => {
                    let options = CompactRangeOptions::default();
                    let family = db.default_column_family();
                    db.compact_range_opt(&options, &family, None, Some(key.as_bytes())).unwrap();
                }
                5 if snapshots.len() < 4 => snapshots.push((db.snapshot(), contents(&twin))),
                6 => drop(snapshots.pop()),
                _ => {}
            }
        }
        db.wait_for_background_work().unwrap();
        assert_eq!(contents(&db), contents(&twin));
        for (snapshot, expected) in &snapshots {
            let at = ReadOptions { snapshot: Some(snapshot.clone()), ..ReadOptions::default() };
            let mut iter = db.iter_opt(at, &db.default_column_family()).unwrap();
            let mut found = Vec::new();
            iter.seek_to_first();
            while let Some((key, value)) = iter.item() {
                found.push((key.to_vec(), value.to_vec()));
                iter.next();
            }
            assert_eq!(&found, expected);
        }
        let statuses = service.statuses();
        assert!(
            !statuses.is_empty() && statuses.iter().all(|status| *status == Status::Success),
            "{statuses:?}: {:?}",
            service.refusals.lock().unwrap()
        );
    });
}

type ResultFault = fn(&mut CompactionServiceResult, &Path);

/// Faulty results: the name of each fault, and the function that makes it.
const RESULT_FAULTS: &[(&str, ResultFault)] = &[
    ("a table is missing", |result, dir| {
        std::fs::remove_file(dir.join(&result.output_files[0].file_name)).unwrap()
    }),
    ("no tables", |result, _| result.output_files.clear()),
    ("one table less", |result, _| drop(result.output_files.pop())),
    ("one table less, and its entries", |result, _| {
        let gone = result.output_files.pop().unwrap();
        result.stats.num_output_records -= gone.table_properties["num_entries"].parse::<u64>().unwrap();
        result.stats.num_input_records -= 1;
    }),
    ("a table twice", |result, _| result.output_files.push(result.output_files[0].clone())),
    ("another order", |result, _| result.output_files.reverse()),
    ("a name with a path", |result, _| result.output_files[0].file_name = "../db/CURRENT".into()),
    ("the name of another file", |result, _| result.output_files[0].file_name = "LOG".into()),
    ("another directory", |result, _| result.output_path.push_str("-elsewhere")),
    ("another size", |result, _| result.output_files[0].file_size += 1),
    ("another unique id", |result, _| result.output_files[0].unique_id[0] ^= 1),
    ("bounds that are too narrow", |result, _| {
        result.output_files[0].largest_internal_key = result.output_files[0].smallest_internal_key.clone();
    }),
    ("bounds that are no keys", |result, _| result.output_files[0].smallest_internal_key = b"k".to_vec()),
    ("bounds beyond the inputs", |result, _| {
        result.output_files[0].smallest_internal_key[0] = b'a';
    }),
    ("sequence numbers that are too small", |result, _| {
        let file = &mut result.output_files[0];
        (file.smallest_seqno, file.largest_seqno) =
            (esker::SequenceNumber(900_000), esker::SequenceNumber(900_001));
    }),
    ("another level", |result, _| result.output_level = 3),
    ("a proximal level", |result, _| result.output_files[0].is_proximal_level_output = true),
    ("too few entries read", |result, _| result.stats.num_input_records -= 1),
    ("too many entries read", |result, _| result.stats.num_input_records += 1),
    ("no count of entries", |result, _| result.has_accurate_num_input_records = false),
    ("another count of entries written", |result, _| result.stats.num_output_records += 1),
    ("no epoch", |result, _| result.output_files[0].epoch_number = 0),
    ("a flipped bit", |result, dir| {
        let path = dir.join(&result.output_files[0].file_name);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[100] ^= 4;
        std::fs::write(&path, bytes).unwrap();
    }),
    ("a table that is cut", |result, dir| {
        let path = dir.join(&result.output_files[0].file_name);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 10]).unwrap();
        result.output_files[0].file_size -= 10;
    }),
];

#[test]
fn a_worker_that_lies_is_refused_and_the_compaction_is_done_here() {
    for (name, lie) in RESULT_FAULTS {
        let dir = TempDir::new("remote_lies");
        let service = Calls::new(dir.path(), move |output, result| {
            let mut result = CompactionServiceResult::parse(&result.unwrap()).unwrap();
            lie(&mut result, output);
            (Status::Success, result.to_bytes())
        });
        let options = options(&service);
        let db = Db::open(&options, dir.join("db")).unwrap();
        fill(&db);
        let before = contents(&db);
        db.compact_range(None, None).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(contents(&db), before, "{name}");
        assert_eq!(service.statuses(), [Status::UseLocal], "{name}");
        db.put("k", "goes on").unwrap();
        db.verify_checksum().unwrap();
        // No file of the refused result is left.
        let purged = WaitForCompactOptions { wait_for_purge: true, ..WaitForCompactOptions::default() };
        db.wait_for_compact(&purged).unwrap();
        let live: Vec<_> = db.live_files().iter().map(|file| file.file.file_number).collect();
        let tables = std::fs::read_dir(dir.join("db")).unwrap().filter(|entry| {
            entry.as_ref().unwrap().path().extension().is_some_and(|extension| extension == "sst")
        });
        assert_eq!(tables.count(), live.len(), "{name}");
        db.close().unwrap();
    }
}

#[test]
fn bytes_that_are_no_result_are_refused_and_the_compaction_is_done_here() {
    let cut = |bytes: Vec<u8>| bytes[..bytes.len() / 2].to_vec();
    let other_version = |mut bytes: Vec<u8>| {
        bytes[0] = 2;
        bytes
    };
    let twists: [fn(Vec<u8>) -> Vec<u8>; 4] = [|_| Vec::new(), |_| b"no result".to_vec(), cut, other_version];
    for twist in twists {
        let dir = TempDir::new("remote_bytes");
        let service = Calls::new(dir.path(), move |_, result| (Status::Success, twist(result.unwrap())));
        let db = Db::open(&options(&service), dir.join("db")).unwrap();
        fill(&db);
        let before = contents(&db);
        db.compact_range(None, None).unwrap();
        assert_eq!(contents(&db), before);
        assert_eq!(service.statuses(), [Status::UseLocal]);
    }
}

#[test]
fn a_service_that_fails_fails_the_compaction_and_loses_nothing() {
    let twist = |status: Status| move |_: &Path, _: esker::Result<Vec<u8>>| (status, Vec::new());
    let remote_error = |_: &Path, _: esker::Result<Vec<u8>>| {
        let status = Err(Error::io("the worker's disk is gone"));
        let result = CompactionServiceResult { status, ..CompactionServiceResult::default() };
        (Status::Failure, result.to_bytes())
    };
    let dir = TempDir::new("remote_fails");
    let at = |n: u32| dir.join(format!("out{n}"));
    let (ok, local) = (Status::Success, Status::UseLocal);
    for (n, (service, expected)) in (0..).zip([
        (
            Calls::scheduling(&at(0), Status::Failure, as_is),
            Some("failed to schedule a remote compaction job"),
        ),
        (
            Calls::scheduling(&at(1), Status::Aborted, as_is),
            Some("Scheduling a remote compaction job was aborted"),
        ),
        (Calls::scheduling(&at(2), local, as_is), None),
        (Calls::scheduling(&at(3), ok, twist(Status::Failure)), Some("no valid result is returned")),
        (
            Calls::scheduling(&at(4), ok, twist(Status::Aborted)),
            Some("Waiting a remote compaction job was aborted"),
        ),
        (Calls::scheduling(&at(5), ok, twist(local)), None),
        (Calls::scheduling(&at(6), ok, remote_error), Some("the worker's disk is gone")),
    ]) {
        std::fs::create_dir_all(at(n)).unwrap();
        let path = dir.join(format!("db{n}"));
        let db = Db::open(&options(&service), &path).unwrap();
        fill(&db);
        let before = contents(&db);
        let done = db.compact_range(None, None);
        match expected {
            None => done.unwrap(),
            Some(text) => {
                let error = done.unwrap_err().to_string();
                assert!(error.contains(text), "{error}");
            }
        }
        assert_eq!(contents(&db), before, "{n}");
        db.close().unwrap();
        drop(db);
        let mut options = options(&service);
        options.db.compaction_service = None;
        assert_eq!(contents(&Db::open(&options, &path).unwrap()), before, "{n}");
    }
}

/// Makes a job for a worker from the database in `dir`.
fn a_job(dir: &TempDir) -> Vec<u8> {
    let input = Arc::new(Mutex::new(Vec::new()));
    struct Keeps(Arc<Mutex<Vec<u8>>>);
    impl CompactionService for Keeps {
        fn name(&self) -> &str {
            "keeps"
        }
        fn schedule(&self, _: &CompactionServiceJobInfo, input: &[u8]) -> CompactionServiceScheduleResponse {
            input.clone_into(&mut self.0.lock().unwrap());
            CompactionServiceScheduleResponse::without_job(Status::Aborted)
        }
    }
    let service = Calls::new(dir.path(), as_is);
    let mut options = options(&service);
    options.db.compaction_service = Some(Arc::new(Keeps(input.clone())));
    let db = Db::open(&options, dir.join("db")).unwrap();
    fill(&db);
    assert_eq!(db.compact_range(None, None).unwrap_err().kind(), ErrorKind::Aborted);
    std::mem::take(&mut *input.lock().unwrap())
}

#[test]
fn a_worker_refuses_jobs_that_it_cannot_do() {
    let dir = TempDir::new("remote_jobs");
    let input = a_job(&dir);
    let run = |out: &str, input: &[u8]| {
        let (options, overrides) =
            (OpenAndCompactOptions::default(), CompactionServiceOptionsOverride::default());
        Db::open_and_compact(&options, dir.join("db"), dir.join(out), input, &overrides)
    };
    let job = CompactionServiceInput::parse(&input).unwrap();
    let changed = |change: &dyn Fn(&mut CompactionServiceInput)| {
        let mut job = job.clone();
        change(&mut job);
        run("out", &job.to_bytes()).map(drop).unwrap_err()
    };
    let tables = || {
        let names = std::fs::read_dir(dir.join("out")).into_iter().flatten();
        names.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|e| e == "sst")).count()
    };
    assert_eq!(run("out", b"").unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(run("out", b"\x02\0\0\0x=;").unwrap_err().kind(), ErrorKind::NotSupported);
    assert_eq!(changed(&|job| job.db_id = "another".into()).kind(), ErrorKind::InvalidArgument);
    assert_eq!(changed(&|job| job.cf_name = "users".into()).kind(), ErrorKind::InvalidArgument);
    assert_eq!(changed(&|job| job.input_files.push("009999.sst".into())).kind(), ErrorKind::InvalidArgument);
    assert_eq!(changed(&|job| job.input_files.push("../x.sst".into())).kind(), ErrorKind::InvalidArgument);
    assert_eq!(changed(&|job| job.input_files.clear()).kind(), ErrorKind::InvalidArgument);
    assert_eq!(changed(&|job| job.output_level = 70).kind(), ErrorKind::InvalidArgument);
    assert_eq!(
        changed(&|job| job.options_file_number = esker::FileNumber(99_999)).kind(),
        ErrorKind::IoError
    );
    assert_eq!(tables(), 0);

    let canceled = Arc::new(AtomicBool::new(true));
    let options = OpenAndCompactOptions::default().canceled(canceled);
    let overrides = CompactionServiceOptionsOverride::default();
    let error =
        Db::open_and_compact(&options, dir.join("db"), dir.join("out"), &input, &overrides).unwrap_err();
    assert_eq!(error.subcode(), esker::SubCode::ManualCompactionPaused);
    assert_eq!(tables(), 0);

    run("out", &input).unwrap();
    assert!(tables() > 0);
    // The output directory has the tables of the first job, so another job is refused.
    let error = run("out", &input).unwrap_err();
    assert!(error.to_string().contains("must have no tables"), "{error}");
    let again = OpenAndCompactOptions::default().allow_resumption(true);
    let before = tables();
    Db::open_and_compact(&again, dir.join("db"), dir.join("out"), &input, &overrides).unwrap();
    assert_eq!(tables(), before, "the other tables are deleted");
}
