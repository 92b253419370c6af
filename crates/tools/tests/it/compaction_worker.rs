//! Compactions by workers in other processes: `esker compaction_worker`.

use crate::run::esker;
use esker::internals::base::{SequenceNumber, ValueType};
use esker::internals::format::compaction_progress::CompactionProgress;
use esker::internals::format::key::{internal_key, seek_key};
use esker::internals::format::log::LogWriter;
use esker::internals::format::version_edit::FileMetaData;
use esker::options::{
    CompactionService, CompactionServiceJobInfo, CompactionServiceJobStatus as Status,
    CompactionServiceOptionsOverride, CompactionServiceScheduleResponse, CompressionType,
    OpenAndCompactOptions,
};
use esker::stats::{Statistics, Ticker};
use esker::{Db, Options};
use esker_testkit::TempDir;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// The way in which the service ends a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WorkerEnd {
    Natural,
    /// Killed as soon as it has a table.
    Killed,
    /// Killed at once.
    KilledAtOnce,
}

/// A service with a process for each job.
struct Processes {
    dir: PathBuf,
    end: WorkerEnd,
    workers: Mutex<Vec<(String, Child)>>,
    installed: Mutex<Vec<Status>>,
}

impl Processes {
    fn new(dir: &Path, end: WorkerEnd) -> Arc<Processes> {
        let dir = dir.to_owned();
        Arc::new(Processes { dir, end, workers: Mutex::default(), installed: Mutex::default() })
    }
}

fn has_table(dir: &Path) -> bool {
    let is_table = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.path().extension().is_some_and(|extension| extension == "sst"))
    };
    std::fs::read_dir(dir).into_iter().flatten().any(is_table)
}

impl CompactionService for Processes {
    fn name(&self) -> &str {
        "processes"
    }
    fn schedule(&self, info: &CompactionServiceJobInfo, input: &[u8]) -> CompactionServiceScheduleResponse {
        let id = format!("job-{}", info.job_id);
        let at = |kind: &str| self.dir.join(format!("{id}-{kind}"));
        std::fs::write(at("job"), input).expect("can be written");
        let worker = Command::new(env!("CARGO_BIN_EXE_esker"))
            .arg("compaction_worker")
            .args(["--db".as_ref(), Path::new(&info.db_name)])
            .args(["--job".as_ref(), at("job").as_path()])
            .args(["--output".as_ref(), at("out").as_path()])
            .args(["--result".as_ref(), at("result").as_path()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("the binary runs");
        self.workers.lock().expect("nothing panics under it").push((id.clone(), worker));
        CompactionServiceScheduleResponse::scheduled(id)
    }
    fn wait(&self, id: &str) -> (Status, Vec<u8>) {
        let mut workers = self.workers.lock().expect("nothing panics under it");
        let at = workers.iter().position(|(name, _)| name == id).expect("scheduled");
        let (_, mut worker) = workers.swap_remove(at);
        drop(workers);
        let out = self.dir.join(format!("{id}-out"));
        while self.end == WorkerEnd::Killed
            && !has_table(&out)
            && worker.try_wait().expect("a child").is_none()
        {
            std::thread::yield_now();
        }
        if self.end != WorkerEnd::Natural {
            worker.kill().expect("a child");
        }
        worker.wait().expect("a child");
        // Returns the result, if there is one, as a simple service does.
        let result = std::fs::read(self.dir.join(format!("{id}-result"))).unwrap_or_default();
        (Status::Success, result)
    }
    fn on_installation(&self, _: &str, status: Status) {
        self.installed.lock().expect("nothing panics under it").push(status);
    }
}

fn options(service: &Arc<Processes>) -> Options {
    options_with(service.clone())
}

fn options_with(service: Arc<dyn CompactionService>) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.compaction_service = Some(service);
    options.cf.compression = CompressionType::None;
    options.cf.target_file_size_base = 8 << 10;
    options.cf.disable_auto_compactions = true;
    options
}

fn fill(db: &Db) -> Vec<(Vec<u8>, Vec<u8>)> {
    for round in 0..4 {
        for n in (round..2000).step_by(2) {
            db.put(format!("k{n:04}"), format!("v{round}-{n}-{}", "x".repeat(40))).expect("written");
        }
        db.flush().expect("flushed");
    }
    contents(db)
}

fn contents(db: &Db) -> Vec<(Vec<u8>, Vec<u8>)> {
    let pair = |pair: esker::Result<(Vec<u8>, esker::PinnedBytes)>| {
        let (key, value) = pair.expect("read");
        (key, value.to_vec())
    };
    db.range(..).map(pair).collect()
}

#[test]
fn a_worker_in_another_process_compacts() {
    let dir = TempDir::new("worker");
    let service = Processes::new(dir.path(), WorkerEnd::Natural);
    let db = Db::open(&options(&service), dir.join("db")).expect("opens");
    let before = fill(&db);
    db.compact_range(None, None).expect("compacted");
    assert_eq!(*service.installed.lock().expect("nothing panics under it"), [Status::Success]);
    assert_eq!(contents(&db), before);
    assert!(db.live_files().iter().all(|file| file.level == 6));
    db.close().expect("closes");
    drop(db);
    assert!(esker(&["verify", dir.join("db").to_str().unwrap()]).ok().contains("OK"));
}

#[test]
fn a_killed_worker_loses_nothing() {
    for end in [WorkerEnd::Killed, WorkerEnd::KilledAtOnce] {
        let dir = TempDir::new("killed_worker");
        let service = Processes::new(dir.path(), end);
        let db = Db::open(&options(&service), dir.join("db")).expect("opens");
        let before = fill(&db);
        db.compact_range(None, None).expect("compacted here");
        // The worker may have been quicker than the signal, so either status is right.
        assert_eq!(service.installed.lock().expect("nothing panics under it").len(), 1, "{end:?}");
        assert_eq!(contents(&db), before, "{end:?}");
        db.close().expect("closes");
        drop(db);
        assert!(esker(&["verify", dir.join("db").to_str().unwrap()]).ok().contains("OK"), "{end:?}");
    }
}

#[test]
fn a_worker_says_why_it_does_nothing() {
    let dir = TempDir::new("worker_fails");
    let service = Processes::new(dir.path(), WorkerEnd::Natural);
    drop(Db::open(&options(&service), dir.join("db")).expect("opens"));
    let text = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    std::fs::write(dir.join("job"), b"no job").expect("written");
    let run = |job: &str, more: &[&str]| {
        let (db, job, out, result) = (text("db"), text(job), text("out"), text("result"));
        let all = ["compaction_worker", "--db", &db, "--job", &job, "--output", &out, "--result", &result];
        esker(&[&all, more].concat())
    };
    assert!(run("job", &[]).failed().contains("CompactionServiceInput"));
    assert!(run("none", &[]).failed().contains("none"));
    assert!(run("job", &["--merge-operator", "mine"]).failed().contains("no stock merge operator"));
    assert_eq!(run("job", &["--option", "x"]).code, Some(2));
    assert!(!dir.join("result").exists());
}

/// Harm to the directory of a killed worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Harm {
    None,
    /// A bit within the first record of the progress file is flipped.
    FlippedProgress,
    /// The progress file ends within a record.
    CutProgress,
    /// The progress file has no record.
    EmptyProgress,
    /// An output that the progress names is missing.
    MissingOutput,
    /// An output that the progress names is cut off.
    CutOutput,
    /// Another output has the name of one that the progress names.
    ForeignOutput,
    /// The directory is that of another job.
    OtherJob,
}

/// A service that kills the first worker of a job with SIGKILL, and starts a second one.
struct Resuming {
    dir: PathBuf,
    harm: Harm,
    job: Mutex<(PathBuf, Vec<u8>)>,
    installed: Mutex<Vec<Status>>,
    log: Mutex<String>,
}

fn named(dir: &Path, part: &str) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(dir).into_iter().flatten().map(|entry| entry.expect("read").path());
    let mut paths: Vec<_> = paths.filter(|path| path.to_string_lossy().contains(part)).collect();
    paths.sort();
    paths
}

impl Resuming {
    fn worker(&self, job: &Path) -> Child {
        let db = self.job.lock().expect("nothing panics under it").0.clone();
        Command::new(env!("CARGO_BIN_EXE_esker"))
            .args(["compaction_worker", "--allow_resumption", "--db"])
            .arg(db)
            .args(["--job".as_ref(), job, "--output".as_ref(), self.dir.join("out").as_path()])
            .args(["--result".as_ref(), self.dir.join("result").as_path()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("the binary runs")
    }

    /// Lets this process be the second worker, and looks at its statistics.
    fn resume_here(&self, out: &Path, input: &[u8]) {
        let statistics = Arc::new(Statistics::new());
        let overrides = CompactionServiceOptionsOverride {
            statistics: Some(statistics.clone()),
            ..CompactionServiceOptionsOverride::default()
        };
        let how = OpenAndCompactOptions::default().allow_resumption(true);
        let db = self.job.lock().expect("nothing panics under it").0.clone();
        let result = Db::open_and_compact(&how, db, out, input, &overrides).expect("compacted");
        std::fs::write(self.dir.join("result"), result).expect("written");
        assert!(statistics.ticker_count(Ticker::RemoteCompactResumedBytes) > 0);
    }

    fn harm(&self) {
        let out = self.dir.join("out");
        let (progress, tables) = (named(&out, "COMPACTION_PROGRESS-").remove(0), named(&out, ".sst"));
        let bytes = std::fs::read(&progress).expect("read");
        match self.harm {
            Harm::None | Harm::OtherJob => {}
            Harm::FlippedProgress => crate::run::flip(&progress, 40),
            Harm::CutProgress => std::fs::write(&progress, &bytes[..bytes.len() - 3]).expect("written"),
            Harm::EmptyProgress => std::fs::write(&progress, b"").expect("written"),
            Harm::MissingOutput => std::fs::remove_file(&tables[1]).expect("removed"),
            Harm::CutOutput => {
                let table = std::fs::read(&tables[1]).expect("read");
                std::fs::write(&tables[1], &table[..table.len() - 1]).expect("written");
            }
            Harm::ForeignOutput => std::fs::rename(&tables[0], &tables[1]).expect("renamed"),
        }
    }
}

impl CompactionService for Resuming {
    fn name(&self) -> &str {
        "resuming"
    }
    fn schedule(&self, info: &CompactionServiceJobInfo, input: &[u8]) -> CompactionServiceScheduleResponse {
        *self.job.lock().expect("nothing panics under it") = (PathBuf::from(&info.db_name), input.to_vec());
        CompactionServiceScheduleResponse::scheduled("job".to_owned())
    }
    fn wait(&self, _: &str) -> (Status, Vec<u8>) {
        let input = self.job.lock().expect("nothing panics under it").1.clone();
        let (job, other, out) = (self.dir.join("job"), self.dir.join("other"), self.dir.join("out"));
        std::fs::write(&job, &input).expect("written");
        // The same job with one more snapshot, so its bytes differ.
        let text = String::from_utf8_lossy(&input).replace("snapshots=;", "snapshots=1;");
        std::fs::write(&other, text).expect("written");
        let mut first = self.worker(if self.harm == Harm::OtherJob { &other } else { &job });
        while named(&out, ".sst").len() < 8 && first.try_wait().expect("a child").is_none() {
            std::thread::yield_now();
        }
        first.kill().expect("a child");
        first.wait().expect("a child");
        assert!(!self.dir.join("result").exists(), "the worker was quicker than the signal");
        self.harm();
        if self.harm == Harm::CutProgress {
            self.resume_here(&out, &input);
        } else {
            assert!(self.worker(&job).wait().expect("a child").success());
        }
        *self.log.lock().expect("nothing panics under it") =
            std::fs::read_to_string(out.join("LOG")).expect("read");
        (Status::Success, std::fs::read(self.dir.join("result")).expect("written"))
    }
    fn on_installation(&self, _: &str, status: Status) {
        self.installed.lock().expect("nothing panics under it").push(status);
    }
}

/// Compacts by two workers. The first is killed, then `harm` is done to its directory, and the
/// second starts there. Returns the second worker's LOG.
fn compact_after_a_kill(harm: Harm) -> String {
    let dir = TempDir::new("resumed_worker");
    let service = Arc::new(Resuming {
        dir: dir.path().to_owned(),
        harm,
        job: Mutex::default(),
        installed: Mutex::default(),
        log: Mutex::default(),
    });
    let mut options = options_with(service.clone());
    options.cf.target_file_size_base = 32 << 10;
    options.cf.write_buffer_size = 64 << 20;
    let db = Db::open(&options, dir.join("db")).expect("opens");
    for round in 0..2 {
        for n in 0..20_000 {
            db.put(format!("k{n:05}"), format!("v{round}-{n}-{}", "x".repeat(150))).expect("written");
        }
        db.delete_range("k00100", "k00200").expect("written");
        db.flush().expect("flushed");
    }
    let before = contents(&db);
    db.compact_range(None, None).expect("compacted");
    assert_eq!(*service.installed.lock().expect("nothing panics under it"), [Status::Success], "{harm:?}");
    assert!(contents(&db) == before, "{harm:?}");
    assert!(db.live_files().iter().all(|file| file.level == 6), "{harm:?}");
    db.close().expect("closes");
    drop(db);
    assert!(esker(&["verify", dir.join("db").to_str().unwrap()]).ok().contains("OK"), "{harm:?}");
    service.log.lock().expect("nothing panics under it").clone()
}

#[test]
fn another_worker_goes_on_where_a_killed_one_ended() {
    for harm in [Harm::None, Harm::CutProgress] {
        let log = compact_after_a_kill(harm);
        assert!(log.contains("Resuming the compaction after "), "{harm:?}: {log}");
    }
}

#[test]
fn recorded_progress_is_printed_in_the_form_of_rocksdbs_tool() {
    let dir = TempDir::new("progress-dump");
    let path = dir.join("COMPACTION_PROGRESS-1");
    let next_key = seek_key(b"k1", SequenceNumber::MAX);
    let mut progress = CompactionProgress { next_key, input_records: 9, ..CompactionProgress::default() };
    progress.output.output_records = 7;
    let key = internal_key(b"k0", SequenceNumber(1), ValueType::Value);
    let table = FileMetaData { smallest: key.clone(), largest: key, ..FileMetaData::default() };
    progress.output.files.push(table);
    let (mut log, mut bytes) = (LogWriter::new(0, false), Vec::new());
    log.add_record(&progress.encode(), &mut bytes);
    progress.next_key = vec![7];
    log.add_record(&progress.encode(), &mut bytes);
    std::fs::write(&path, &bytes).expect("written");
    let level = |records, files| {
        format!(
            "SubcompactionProgressPerLevel{{ num_processed_output_records={records}, \
             output_files_count={files}, last_persisted_output_files_count=0 }}"
        )
    };
    let record = |number, next| {
        format!(
            "Progress Record {number}:\nSubcompactionProgress{{ next_internal_key_to_compact={next}, \
             num_processed_input_records=9, output_level_progress={}, \
             proximal_output_level_progress={} }}\n",
            level(7, 1),
            level(0, 0)
        )
    };
    let head = format!("Compaction Progress File: {}\n{}\n", path.display(), "=".repeat(44));
    let first = record(0, "user_key(hex)=6B31, seq=kMaxSequenceNumber, type=kValueTypeForSeek");
    let second = record(1, "raw=07");
    let flag = format!("--path={}", path.display());
    let dump = || esker(&["ldb", "compaction_progress_dump", &flag]);
    assert_eq!(dump().ok(), format!("{head}{first}{second}\nTotal records: 2\n"));
    std::fs::write(&path, &bytes[..bytes.len() - 1]).expect("written");
    assert_eq!(dump().ok(), format!("{head}{first}\nTotal records: 1\n"), "a torn record is none");
    std::fs::write(&path, b"").expect("written");
    assert!(dump().ok().ends_with("No valid records found in the compaction progress file.\n"));
    std::fs::write(&path, &bytes).expect("written");
    crate::run::flip(&path, 10);
    assert!(dump().failed().contains("COMPACTION_PROGRESS-1"));
}

#[test]
fn damaged_or_foreign_progress_costs_work_and_no_data() {
    use Harm::{CutOutput, EmptyProgress, FlippedProgress, ForeignOutput, MissingOutput, OtherJob};
    for harm in [FlippedProgress, EmptyProgress, MissingOutput, CutOutput, ForeignOutput, OtherJob] {
        let log = compact_after_a_kill(harm);
        assert!(!log.contains("Resuming the compaction after "), "{harm:?}: {log}");
        assert_eq!(log.contains("begins anew"), harm != EmptyProgress, "{harm:?}: {log}");
    }
}

#[test]
fn two_commands_of_ldb_share_a_compaction() {
    let dir = TempDir::new("remote_primary");
    let text = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let mut options = Options::new().create_if_missing(true);
    options.cf.level0_file_num_compaction_trigger = 100;
    let db = Db::open(&options, dir.join("db")).expect("opens");
    let before = fill(&db);
    db.close().expect("closes");
    drop(db);
    let flags = [format!("--db={}", text("db")), format!("--job_dir={}", text("job"))];
    let mut worker = Command::new(env!("CARGO_BIN_EXE_esker"))
        .args(["ldb", &flags[0], "remote_compaction_worker", &flags[1]])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let primary = esker(&["ldb", &flags[0], "remote_compaction_primary", &flags[1]]);
    assert_eq!(primary.ok(), "remote_compaction_primary: OK\n");
    assert!(worker.wait().expect("a child").success());
    let done = std::io::read_to_string(worker.stdout.take().expect("piped")).expect("read");
    let size = std::fs::metadata(dir.join("job/result.bin")).expect("written").len();
    assert_eq!(done, format!("remote_compaction_worker: OK ({size} bytes result)\n"));
    assert!(dir.join("job/input.bin").exists());
    let loaded = esker::options::load_latest_options(dir.join("db")).expect("loads");
    assert!(!loaded.families[0].1.disable_auto_compactions, "as it was");
    let db = Db::open(&options, dir.join("db")).expect("opens");
    assert_eq!(contents(&db), before);
    assert!(db.live_files().iter().all(|file| file.level > 0));
    db.close().expect("closes");
    drop(db);
    // The worker of a job that nobody has written, and a primary without a worker.
    let alone = |command: &str| {
        let job = format!("--job_dir={}", text("other"));
        esker(&["ldb", &flags[0], command, &job, "--timeout=0"]).failed()
    };
    assert!(alone("remote_compaction_worker").contains("Timed out (0s) waiting for"));
    let db = Db::open(&options, dir.join("db")).expect("opens");
    db.put("k0001", "again").expect("written");
    db.close().expect("closes");
    drop(db);
    assert!(alone("remote_compaction_primary").contains("CompactRange: "));
    // Neither command takes files of an earlier job for those of this one.
    for (command, file) in [("primary", "job/input.bin"), ("worker", "job/result.bin")] {
        let refused = esker(&["ldb", &flags[0], &format!("remote_compaction_{command}"), &flags[1]]).failed();
        assert!(refused.contains(&format!("{} is of an earlier job", text(file))), "{refused}");
    }
    std::fs::remove_file(dir.join("job/input.bin")).expect("removed");
    let stale = esker(&["ldb", &flags[0], "remote_compaction_primary", &flags[1]]).failed();
    assert!(stale.contains(&format!("{} is of an earlier job", text("job/result.bin"))), "{stale}");
}
