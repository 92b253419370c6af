//! Remote compactions between engines: either's database takes the tables of the other's worker.

use esker::options::{
    CompactionService, CompactionServiceJobInfo, CompactionServiceJobStatus,
    CompactionServiceOptionsOverride, CompactionServiceScheduleResponse, OpenAndCompactOptions,
    TargetVersion,
};
use esker::{Db, Options, ReadOptions};
use esker_peer::{Contents, FamilySpec, PeerOp, RocksDb, WriteFlags, open_and_compact, require};
use esker_testkit::{TempDir, seed};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A service whose worker is RocksDB, called when the job is waited for.
struct ByRocksDb {
    dir: PathBuf,
    jobs: Mutex<Vec<(PathBuf, Vec<u8>)>>,
    installed: Mutex<Vec<CompactionServiceJobStatus>>,
    errors: Mutex<Vec<String>>,
}

impl CompactionService for ByRocksDb {
    fn name(&self) -> &str {
        "RocksDB"
    }
    fn schedule(&self, info: &CompactionServiceJobInfo, input: &[u8]) -> CompactionServiceScheduleResponse {
        let mut jobs = self.jobs.lock().expect("nothing panics under it");
        jobs.push((PathBuf::from(&info.db_name), input.to_vec()));
        CompactionServiceScheduleResponse::scheduled((jobs.len() - 1).to_string())
    }
    fn wait(&self, id: &str) -> (CompactionServiceJobStatus, Vec<u8>) {
        let (database, input) = self.jobs.lock().expect("nothing panics under it")
            [id.parse::<usize>().expect("a number")]
        .clone();
        match open_and_compact(&database, &self.dir.join(id), &input) {
            Ok(result) => (CompactionServiceJobStatus::Success, result),
            Err(error) => {
                self.errors.lock().expect("nothing panics under it").push(error);
                (CompactionServiceJobStatus::UseLocal, Vec::new())
            }
        }
    }
    fn on_installation(&self, _: &str, status: CompactionServiceJobStatus) {
        self.installed.lock().expect("nothing panics under it").push(status);
    }
}

fn esker_worker(dir: &Path, number: usize, database: &Path, job: &[u8]) -> Result<Vec<u8>, String> {
    let output = dir.join(format!("esker-{number}"));
    let (options, overrides) =
        (OpenAndCompactOptions::default(), CompactionServiceOptionsOverride::default());
    Db::open_and_compact(&options, database, output, job, &overrides).map_err(|e| e.to_string())
}

fn ops(rng: &mut fastrand::Rng, turn: usize) -> Vec<PeerOp> {
    let key = |rng: &mut fastrand::Rng| format!("k{:03}", rng.u32(..300)).into_bytes();
    let family = || "default".to_owned();
    let mut op = |n: u32| match rng.u32(..20) {
        0..3 => PeerOp::Delete { family: family(), key: key(rng) },
        3 => {
            let (a, b) = (key(rng), key(rng));
            PeerOp::DeleteRange { family: family(), begin: a.clone().min(b.clone()), end: a.max(b) }
        }
        _ => {
            let value = format!("v{turn}-{n}-{}", "x".repeat(30)).into_bytes();
            PeerOp::Put { family: family(), key: key(rng), value }
        }
    };
    (0..150).map(&mut op).collect()
}

#[test]
fn a_database_takes_the_tables_of_the_other_engines_worker() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    seed::for_each_seed("remote peers", 3, |round, mut rng| {
        let dir = TempDir::new("remote_peers");
        // Esker's database, RocksDB's worker.
        let service = Arc::new(ByRocksDb {
            dir: dir.path().to_owned(),
            jobs: Mutex::default(),
            installed: Mutex::default(),
            errors: Mutex::default(),
        });
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.compatible_with = TargetVersion::V11;
        options.db.compaction_service = Some(service.clone());
        options.cf.disable_auto_compactions = true;
        options.cf.target_file_size_base = 4 << 10;
        let here = Db::open(&options, dir.join("here")).expect("opens");

        // RocksDB's database, Esker's worker.
        let installed: Arc<Mutex<Vec<i32>>> = Arc::default();
        let errors: Arc<Mutex<Vec<String>>> = Arc::default();
        let worker = {
            let (dir, errors, number) = (dir.path().to_owned(), errors.clone(), Mutex::new(0));
            move |database: &Path, job: &[u8]| {
                let mut number = number.lock().expect("nothing panics under it");
                *number += 1;
                esker_worker(&dir, *number, database, job)
                    .inspect_err(|e| errors.lock().expect("nothing panics under it").push(e.clone()))
            }
        };
        let families =
            [FamilySpec::new("default", "disable_auto_compactions=true;target_file_size_base=4096")];
        let note = installed.clone();
        let there = RocksDb::open_with_service(
            &dir.join("there"),
            "create_if_missing=true",
            &families,
            Box::new(worker),
            move |status| note.lock().expect("nothing panics under it").push(status),
        )
        .expect("RocksDB 11.8.1 opens it");
        for turn in 0..4 {
            let ops = ops(&mut rng, turn);
            for op in &ops {
                match op {
                    PeerOp::Put { key, value, .. } => here.put(key, value),
                    PeerOp::Delete { key, .. } => here.delete(key),
                    PeerOp::DeleteRange { begin, end, .. } => here.delete_range(begin, end),
                    _ => unreachable!("made above"),
                }
                .expect("written");
            }
            there.write(&ops, WriteFlags::default()).expect("written");
            here.flush().expect("flushed");
            there.flush("default").expect("flushed");
            if turn % 2 == 1 {
                here.compact_range(None, None).expect("compacted");
                there.compact("default");
            }
            let expected = there.contents("default", None).expect("read");
            Contents::of(&here, &here.default_column_family(), &ReadOptions::default())
                .expect("read")
                .assert_same(&expected, &format!("round {round}, turn {turn}"));
        }
        assert!(
            errors.lock().expect("nothing panics under it").is_empty(),
            "{:?}",
            errors.lock().expect("nothing panics under it")
        );
        assert!(
            service.errors.lock().expect("nothing panics under it").is_empty(),
            "{:?}",
            service.errors.lock().expect("nothing panics under it")
        );
        let here_installed = service.installed.lock().expect("nothing panics under it").clone();
        assert!(!here_installed.is_empty());
        assert!(
            here_installed.iter().all(|s| *s == CompactionServiceJobStatus::Success),
            "{here_installed:?}"
        );
        let there_installed = installed.lock().expect("nothing panics under it").clone();
        assert!(!there_installed.is_empty());
        assert!(there_installed.iter().all(|status| *status == 0), "{there_installed:?}");
        there.verify_checksum().expect("RocksDB's database is whole");
        here.verify_checksum().expect("Esker's database is whole");
        here.close().expect("closes");
        drop(here);
        drop(there);
        // Each opens what it has become elsewhere.
        options.db.compaction_service = None;
        let there = Db::open(&options, dir.join("there")).expect("opens");
        let here = RocksDb::open(&dir.join("here"), "", &families).expect("RocksDB 11.8.1 opens it");
        let expected = here.contents("default", None).expect("read");
        Contents::of(&there, &there.default_column_family(), &ReadOptions::default())
            .expect("read")
            .assert_same(&expected, "afterwards");
    });
}
