//! Compactions by workers in other processes: `esker compaction_worker`.

use crate::run::esker;
use esker::options::{
    CompactionService, CompactionServiceJobInfo, CompactionServiceJobStatus as Status,
    CompactionServiceScheduleResponse, CompressionType,
};
use esker::{Db, Options};
use esker_testkit::TempDir;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// The way in which the service ends a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Natural,
    /// Killed as soon as it has a table.
    Killed,
    /// Killed at once.
    KilledAtOnce,
}

/// A service with a process for each job.
struct Processes {
    dir: PathBuf,
    end: End,
    workers: Mutex<Vec<(String, Child)>>,
    installed: Mutex<Vec<Status>>,
}

impl Processes {
    fn new(dir: &Path, end: End) -> Arc<Processes> {
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
        while self.end == End::Killed && !has_table(&out) && worker.try_wait().expect("a child").is_none() {
            std::thread::yield_now();
        }
        if self.end != End::Natural {
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
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.compaction_service = Some(service.clone());
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
    let service = Processes::new(dir.path(), End::Natural);
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
    for end in [End::Killed, End::KilledAtOnce] {
        let dir = TempDir::new("killed_worker");
        let service = Processes::new(dir.path(), end);
        let db = Db::open(&options(&service), dir.join("db")).expect("opens");
        let before = fill(&db);
        db.compact_range(None, None).expect("compacted here");
        // It may have been quicker than the signal.
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
    let service = Processes::new(dir.path(), End::Natural);
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
