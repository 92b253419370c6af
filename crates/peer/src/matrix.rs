//! The matrix and the chain. A matrix test draws a mixture of options, and each peer process writes
//! a database with it. Each peer process then opens a copy read-only. It opens the copy again,
//! writes, and closes it or is killed. Then a random peer process reads the copy. In the chain one
//! database goes from process to process.
//!
//! In: a seed, and the peer processes. Out: counts of databases, steps and kills, or the first
//! difference with the steps that led to it.
//!
//! | level | peer processes of the matrix |
//! |---|---|
//! | 7.8 | the libraries of 7.8.3, 10.4.2 and 11.8.1, Esker; for one mixture in four `ldb` 7.8.3 |
//! | 10.x | the libraries of 10.4.2 and 11.8.1, Esker |
//! | 11.x | the library of 11.8.1, Esker |
//! | 11.10 | Esker |
//!
//! If the library of 11.12 exists, it takes part at every level. Level 11.10 is drawn only then.
//! The chain has the peer processes of level 7.8, always with `ldb`.
//!
//! Invariants
//!  1. Contents are compared key by key with a model: by scans in both directions and by gets, or
//!     by one scan of `ldb`. `ldb` also checks consistency; file checksums, if all families have
//!     bytewise order; and every table, unless a process was killed since `ldb` last wrote. Esker
//!     and the libraries of 11 check every block.
//!  2. A seed takes the same steps on every machine with the same libraries.

use crate::api::{LIBRARY_7, default_library, library_10, library_11_12};
use crate::contents::Contents;
use crate::fixture::copy_files;
use crate::library::FamilySpec;
use crate::mixture::Mixture;
use crate::model_ops::{FamilyMerge, FamilyOrder, Kinds, ModelOps, PeerOp};
use crate::peer_processes::PeerProcesses;
use crate::step::{PeerEngine, PeerStep, StepContents, StepFinish, WriteStep};
use crate::tools::Tools;
use esker::options::{TargetVersion, cf_options_from_string, print_options};
use esker::{ColumnFamilyOptions, DbOptions};
use esker_testkit::TempDir;
use std::cell::RefCell;
use std::path::{Path, PathBuf};

/// A peer process that takes steps.
#[derive(Clone, PartialEq, Eq, Debug)]
enum PeerProcess {
    /// `ldb` 7.8.3. It supports few operations, and checks parts that the library's C functions do
    /// not reach.
    Ldb,
    /// RocksDB 7.8.3.
    Library7(PathBuf),
    /// RocksDB 10.4.2.
    Library10(PathBuf),
    /// RocksDB 11.8.1.
    Library11(PathBuf),
    /// RocksDB 11.12.
    Library11_12(PathBuf),
    /// Esker.
    Esker,
}

impl PeerProcess {
    fn name(&self) -> &'static str {
        match self {
            PeerProcess::Ldb => "ldb 7.8.3",
            PeerProcess::Library7(_) => "7.8.3",
            PeerProcess::Library10(_) => "10.4.2",
            PeerProcess::Library11(_) => "11.8.1",
            PeerProcess::Library11_12(_) => "11.12",
            PeerProcess::Esker => "Esker",
        }
    }
}

/// The peer processes that were found, and the program that takes their steps.
#[derive(Debug)]
pub struct Matrix {
    programs: RefCell<PeerProcesses>,
    tools: Tools,
    library_10: PathBuf,
    library_11: PathBuf,
    /// Takes part if it is there.
    library_11_12: Option<PathBuf>,
}

/// Counts of a run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MatrixCounts {
    /// Databases that were made.
    pub databases: u64,
    /// Steps: a peer process opened a database, checked it, perhaps wrote, and closed it or was
    /// killed.
    pub steps: u64,
    /// Steps that ended with a kill.
    pub kills: u64,
}

impl MatrixCounts {
    /// Adds the counts of `other`.
    pub fn add(&mut self, other: MatrixCounts) {
        self.databases += other.databases;
        self.steps += other.steps;
        self.kills += other.kills;
    }
}

/// A database that goes from process to process, and its expected contents.
#[derive(Clone)]
struct Journey {
    model: ModelOps,
    level: TargetVersion,
    mixture: Mixture,
    was_killed: bool,
    log: Vec<String>,
}

impl Matrix {
    /// Finds the peer processes. `program` is the binary `esker-peer-process`.
    /// # Errors
    /// The peer that is missing.
    pub fn new(program: &Path) -> Result<Matrix, String> {
        let library_11 = default_library();
        if !library_11.exists() {
            return Err(format!("{} is not there", library_11.display()));
        }
        let (tools, library_10) = (Tools::find()?, library_10()?);
        let programs = RefCell::new(PeerProcesses::new(program));
        Ok(Matrix { programs, tools, library_10, library_11, library_11_12: library_11_12() })
    }

    fn peer_processes(&self, level: TargetVersion) -> Vec<PeerProcess> {
        let mut peer_processes = vec![PeerProcess::Esker];
        if level <= TargetVersion::V11 {
            peer_processes.push(PeerProcess::Library11(self.library_11.clone()));
        }
        peer_processes.extend(self.library_11_12.clone().map(PeerProcess::Library11_12));
        if level <= TargetVersion::V10 {
            peer_processes.push(PeerProcess::Library10(self.library_10.clone()));
        }
        if level == TargetVersion::V7_8 {
            peer_processes.push(PeerProcess::Library7(LIBRARY_7.into()));
        }
        peer_processes
    }

    /// The peer processes of a level. At level 7.8, one mixture in four includes `ldb`. It is slow,
    /// because each of its commands starts a process.
    fn with_ldb(&self, level: TargetVersion, rng: &mut fastrand::Rng) -> Vec<PeerProcess> {
        let mut peer_processes = self.peer_processes(level);
        if level == TargetVersion::V7_8 && rng.u8(..4) == 0 {
            peer_processes.push(PeerProcess::Ldb);
        }
        peer_processes
    }

    /// Tests one mixture. Each peer process makes a database. Each opens a copy of it read-only and
    /// then read-write. A random one then opens the copy read-only.
    /// # Errors
    /// The first difference, with the seed, the options and the steps before it.
    pub fn mixture(&self, seed: u64) -> Result<MatrixCounts, String> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut levels =
            vec![TargetVersion::V7_8, TargetVersion::V7_8, TargetVersion::V10, TargetVersion::V11];
        if self.library_11_12.is_some() {
            levels.push(TargetVersion::V11_10);
        }
        let level = levels[rng.usize(..levels.len())];
        let mixture = Mixture::random(&mut rng, level);
        let mut done = MatrixCounts::default();
        let peer_processes = self.with_ldb(level, &mut rng);
        for writer in &peer_processes {
            let dir = TempDir::new("matrix");
            let mut made = Journey {
                model: model_ops_of(writer),
                level,
                mixture: mixture.clone(),
                was_killed: false,
                log: vec![format!("seed {seed}, level {}: {mixture:?}", level.name())],
            };
            done.databases += 1;
            self.write(writer, dir.path(), &mut made, &mut rng, &mut done)?;
            for opener in &peer_processes {
                let copy = TempDir::new("matrix-copy");
                copy_files(dir.path(), copy.path());
                let mut journey = made.clone();
                self.look(opener, copy.path(), &mut journey, &mut done)?;
                self.write(opener, copy.path(), &mut journey, &mut rng, &mut done)?;
                self.look(
                    &peer_processes[rng.usize(..peer_processes.len())],
                    copy.path(),
                    &mut journey,
                    &mut done,
                )?;
            }
        }
        Ok(done)
    }

    /// Passes one database from process to process, for `steps` steps. Each step has a mixture of
    /// its own. At the end each peer process reads the database.
    /// # Errors
    /// The first difference, with the seed, the options and the steps before it.
    pub fn chain(&self, seed: u64, steps: usize) -> Result<MatrixCounts, String> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let level = TargetVersion::V7_8;
        let mut peer_processes = self.peer_processes(level);
        peer_processes.push(PeerProcess::Ldb);
        let dir = TempDir::new("chain");
        let mixture = Mixture::random(&mut rng, level);
        let log = vec![format!("chain with seed {seed}")];
        let mut journey = Journey { model: ModelOps::varied(), level, mixture, was_killed: false, log };
        let mut done = MatrixCounts { databases: 1, ..MatrixCounts::default() };
        // The first peer process makes families of all kinds, which `ldb` cannot make.
        let mut last = self.peer_processes(TargetVersion::V11)[rng.usize(..2)].clone();
        self.write(&last, dir.path(), &mut journey, &mut rng, &mut done)?;
        for _ in 0..steps {
            let others: Vec<&PeerProcess> =
                peer_processes.iter().filter(|peer_process| **peer_process != last).collect();
            last = others[rng.usize(..others.len())].clone();
            journey.mixture = Mixture::random(&mut rng, level);
            self.write(&last, dir.path(), &mut journey, &mut rng, &mut done)?;
        }
        for peer_process in &peer_processes {
            self.look(peer_process, dir.path(), &mut journey, &mut done)?;
        }
        Ok(done)
    }

    /// Opens for reading and compares.
    fn look(
        &self,
        peer_process: &PeerProcess,
        dir: &Path,
        journey: &mut Journey,
        done: &mut MatrixCounts,
    ) -> Result<(), String> {
        done.steps += 1;
        journey.log.push(format!("{} looks", peer_process.name()));
        let expected = journey.expected();
        let looked = match peer_process {
            PeerProcess::Ldb => self.looked_by_ldb(dir, journey),
            _ => self
                .step(peer_process, dir, journey, Vec::new(), true, StepFinish::Nothing, false)
                .map(|f| f.before),
        };
        journey.compare(&looked.map_err(|e| journey.story(&e))?, &expected)
    }

    /// Opens for writing, compares, writes, compares. The process then closes the database or is
    /// killed. With `ldb`, there is no comparison before the write.
    fn write(
        &self,
        peer_process: &PeerProcess,
        dir: &Path,
        journey: &mut Journey,
        rng: &mut fastrand::Rng,
        done: &mut MatrixCounts,
    ) -> Result<(), String> {
        done.steps += 1;
        let killed = *peer_process != PeerProcess::Ldb && rng.u8(..3) == 0;
        let finishes = [StepFinish::Nothing, StepFinish::Flush, StepFinish::Compact];
        let finish = finishes[rng.usize(..finishes.len())];
        let end = if killed { "killed" } else { "closed" };
        journey.log.push(format!("{} writes, {finish:?}, {end}", peer_process.name()));
        let before = journey.expected();
        let steps = journey.steps(peer_process, rng);
        let expected = journey.expected();
        if *peer_process == PeerProcess::Ldb {
            let ops = steps.into_iter().flat_map(|step| match step {
                WriteStep::Write(ops) | WriteStep::Ingest(ops) => ops,
                WriteStep::Flush => Vec::new(),
            });
            let ops: Vec<PeerOp> = ops.collect();
            self.written_by_ldb(dir, journey, &ops, finish).map_err(|e| journey.story(&e))?;
            journey.was_killed = false;
            let after = self.looked_by_ldb(dir, journey).map_err(|e| journey.story(&e))?;
            return journey.compare(&after, &expected);
        }
        let found = self.step(peer_process, dir, journey, steps, false, finish, killed);
        let found = found.map_err(|e| journey.story(&e))?;
        done.kills += u64::from(killed);
        journey.was_killed |= killed;
        journey.compare(&found.before, &before)?;
        journey.compare(&found.after, &expected)
    }

    #[expect(clippy::too_many_arguments, reason = "each is a dimension of the matrix")]
    fn step(
        &self,
        peer_process: &PeerProcess,
        dir: &Path,
        journey: &Journey,
        steps: Vec<WriteStep>,
        read_only: bool,
        finish: StepFinish,
        killed: bool,
    ) -> Result<StepContents, String> {
        let (engine, db_options) = match peer_process {
            PeerProcess::Esker => (PeerEngine::Esker(journey.level), &journey.mixture.esker_db),
            PeerProcess::Library7(path)
            | PeerProcess::Library10(path)
            | PeerProcess::Library11(path)
            | PeerProcess::Library11_12(path) => {
                (PeerEngine::Library(path.clone()), &journey.mixture.rocksdb_db)
            }
            PeerProcess::Ldb => return Err("the tools are programs already".to_owned()),
        };
        let create =
            if read_only { "" } else { "create_if_missing=true;create_missing_column_families=true;" };
        let families = journey.model.specs(&journey.mixture.family);
        let step = PeerStep {
            engine,
            dir: dir.to_owned(),
            read_only,
            db_options: format!("{create}{db_options}"),
            families,
            steps,
            finish,
            killed,
        };
        self.programs.borrow_mut().take_step(&step)
    }

    fn looked_by_ldb(&self, dir: &Path, journey: &Journey) -> Result<Vec<Contents>, String> {
        journey.replace_options(dir)?;
        self.tools.check_consistency(dir)?;
        // `ldb` reads the MANIFEST with one comparator.
        if journey.model.families.iter().all(|family| family.order == FamilyOrder::Bytewise) {
            self.tools.check_file_checksums(dir)?;
        }
        if !journey.was_killed {
            self.tools.verify_tables(dir)?;
        }
        journey.model.families.iter().map(|f| self.tools.contents(dir, &f.name)).collect()
    }

    fn written_by_ldb(
        &self,
        dir: &Path,
        journey: &Journey,
        ops: &[PeerOp],
        finish: StepFinish,
    ) -> Result<(), String> {
        if !dir.join("CURRENT").exists() {
            self.tools.ldb(dir, ["--create_if_missing", "put", "made", "by ldb"])?;
            self.tools.ldb(dir, ["delete", "made"])?;
            for family in &journey.model.families[1..] {
                self.tools.ldb(dir, ["create_column_family", &family.name])?;
            }
        }
        journey.replace_options(dir)?;
        self.tools.apply(dir, ops)?;
        match finish {
            StepFinish::Compact => self.tools.ldb(dir, ["compact"]).map(drop),
            // `ldb` has no flush; it flushes the contents of WALs when it opens for writing.
            _ => Ok(()),
        }
    }
}

/// A model of families that the peer process can make: `ldb` supports one order only.
fn model_ops_of(peer_process: &PeerProcess) -> ModelOps {
    if *peer_process == PeerProcess::Ldb {
        ModelOps::new(&[("second", FamilyOrder::Bytewise, FamilyMerge::None)])
    } else {
        ModelOps::varied()
    }
}

impl Journey {
    fn expected(&self) -> Vec<Contents> {
        self.model.families.iter().map(|family| self.model.contents(family)).collect()
    }

    /// The next writes of the peer process; the model applies them at once.
    fn steps(&mut self, peer_process: &PeerProcess, rng: &mut fastrand::Rng) -> Vec<WriteStep> {
        if *peer_process == PeerProcess::Ldb {
            let count = rng.usize(1..8);
            return vec![WriteStep::Write(self.model.random_ops(rng, count, Kinds::LDB))];
        }
        let mut steps = Vec::new();
        for _ in 0..rng.usize(1..25) {
            let count = rng.usize(1..20);
            steps.push(match rng.u8(..16) {
                0 => WriteStep::Ingest(self.model.ingest_ops(rng, count)),
                _ => WriteStep::Write(self.model.random_ops(rng, count, Kinds::ALL)),
            });
            if rng.u8(..6) == 0 {
                steps.push(WriteStep::Flush);
            }
        }
        steps
    }

    fn compare(&self, found: &[Contents], expected: &[Contents]) -> Result<(), String> {
        for ((family, found), expected) in self.model.families.iter().zip(found).zip(expected) {
            if let Some(difference) = found.difference(expected) {
                return Err(self.story(&format!("family '{}' {difference}", family.name)));
            }
        }
        if found.len() == expected.len() { Ok(()) } else { Err(self.story("families are missing")) }
    }

    fn story(&self, what: &str) -> String {
        format!("{what}\n  {}", self.log.join("\n  "))
    }

    /// Replaces all OPTIONS files with one for `ldb`, which refuses option names that it does not
    /// know. The new file has the model's families with the mixture's options. The options of the
    /// database are the defaults.
    fn replace_options(&self, dir: &Path) -> Result<(), String> {
        let mut newest = 5;
        for entry in std::fs::read_dir(dir).map_err(|e| e.to_string())? {
            let path = entry.map_err(|e| e.to_string())?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if let Some(number) = name.strip_prefix("OPTIONS-").and_then(|n| n.parse::<u64>().ok()) {
                newest = newest.max(number);
                std::fs::remove_file(path).map_err(|e| e.to_string())?;
            }
        }
        let family = |spec: FamilySpec| {
            let options = cf_options_from_string(&ColumnFamilyOptions::default(), &spec.options);
            options.map(|options| (spec.name, options)).map_err(|e| e.to_string())
        };
        let specs = self.model.specs(&self.mixture.family);
        let families = specs.into_iter().map(family).collect::<Result<Vec<_>, _>>()?;
        let text = print_options(&DbOptions::default(), families.iter().map(|(name, o)| (name.as_str(), o)));
        std::fs::write(dir.join(format!("OPTIONS-{newest:06}")), text).map_err(|e| e.to_string())
    }
}
