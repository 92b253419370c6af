//! The matrix: every mixture of options, written by each party, opened by each, read-only and
//! read-write, written to, closed or killed, opened by the next; and the chain: one database that
//! goes from hand to hand.
//!
//! In: a seed, and who is there. Out: how many turns were taken, or the first difference with what
//! led to it.
//!
//! | level | who |
//! |---|---|
//! | 7.8 | the libraries of 7.8.3, 10.4.2 and 11.8.1, Esker; in one of four also `ldb` 7.8.3 |
//! | 10.x | the libraries, Esker |
//! | 11.x | the library of 11.8.1, Esker |
//!
//! Invariants
//!  1. Contents are compared key by key with a model, forwards, backwards and by gets; `ldb` also
//!     checks consistency and, where nobody was killed, every table; the library of 11 checks every
//!     block.
//!  2. A seed takes the same turns wherever it runs.

use crate::api::{LIBRARY_7, default_library, library_10};
use crate::contents::Contents;
use crate::fixture::copy_files;
use crate::library::FamilySpec;
use crate::mixture::Mixture;
use crate::parties::Parties;
use crate::tools::Tools;
use crate::turn::{Engine, Finish, Found, Step, Turn};
use crate::world::{Kinds, Merge, Op, Order, World};
use esker::options::{TargetVersion, cf_options_from_string, print_options};
use esker::{ColumnFamilyOptions, DbOptions};
use esker_testkit::TempDir;
use std::cell::RefCell;
use std::path::{Path, PathBuf};

/// Who may have a turn.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Party {
    /// `ldb` 7.8.3, which makes and writes little, and checks what the library's C functions do not
    /// reach.
    Ldb,
    /// RocksDB 7.8.3.
    Library7(PathBuf),
    /// RocksDB 10.4.2.
    Library10(PathBuf),
    /// RocksDB 11.8.1.
    Library11(PathBuf),
    /// Esker.
    Esker,
}

impl Party {
    fn name(&self) -> &'static str {
        match self {
            Party::Ldb => "ldb 7.8.3",
            Party::Library7(_) => "7.8.3",
            Party::Library10(_) => "10.4.2",
            Party::Library11(_) => "11.8.1",
            Party::Esker => "Esker",
        }
    }
}

/// Who is there, and the program that has turns.
#[derive(Debug)]
pub struct Matrix {
    programs: RefCell<Parties>,
    tools: Tools,
    library_10: PathBuf,
    library_11: PathBuf,
}

/// What was done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Done {
    /// Databases that were made.
    pub databases: u64,
    /// Turns: a party opened a database, checked it, perhaps wrote, and closed it or was killed.
    pub turns: u64,
    /// Of them those that ended with a kill.
    pub kills: u64,
}

impl Done {
    /// Both together.
    pub fn add(&mut self, other: Done) {
        self.databases += other.databases;
        self.turns += other.turns;
        self.kills += other.kills;
    }
}

/// A database on its way, and what must be in it.
#[derive(Clone)]
struct Journey {
    world: World,
    level: TargetVersion,
    mixture: Mixture,
    was_killed: bool,
    log: Vec<String>,
}

impl Matrix {
    /// `program` is the binary `esker-party`.
    /// # Errors
    /// Which peer is missing.
    pub fn new(program: &Path) -> Result<Matrix, String> {
        let library_11 = default_library();
        if !library_11.exists() {
            return Err(format!("{} is not there", library_11.display()));
        }
        let (tools, library_10) = (Tools::find()?, library_10()?);
        Ok(Matrix { programs: RefCell::new(Parties::new(program)), tools, library_10, library_11 })
    }

    fn parties(&self, level: TargetVersion) -> Vec<Party> {
        let mut parties = vec![Party::Esker, Party::Library11(self.library_11.clone())];
        if level <= TargetVersion::V10 {
            parties.push(Party::Library10(self.library_10.clone()));
        }
        if level == TargetVersion::V7_8 {
            parties.push(Party::Library7(LIBRARY_7.into()));
        }
        parties
    }

    /// Most of what `ldb` does is starting.
    fn with_ldb(&self, level: TargetVersion, rng: &mut fastrand::Rng) -> Vec<Party> {
        let mut parties = self.parties(level);
        if level == TargetVersion::V7_8 && rng.u8(..4) == 0 {
            parties.push(Party::Ldb);
        }
        parties
    }

    /// One mixture: made by each party, opened by each in both ways, and opened by a next one.
    /// # Errors
    /// The first difference, with the seed, the options and the turns before it.
    pub fn mixture(&self, seed: u64) -> Result<Done, String> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let levels = [TargetVersion::V7_8, TargetVersion::V7_8, TargetVersion::V10, TargetVersion::V11];
        let level = levels[rng.usize(..levels.len())];
        let mixture = Mixture::random(&mut rng, level);
        let mut done = Done::default();
        let parties = self.with_ldb(level, &mut rng);
        for writer in &parties {
            let dir = TempDir::new("matrix");
            let mut made = Journey {
                world: world_of(writer),
                level,
                mixture: mixture.clone(),
                was_killed: false,
                log: vec![format!("seed {seed}, level {}: {mixture:?}", level.name())],
            };
            done.databases += 1;
            self.write(writer, dir.path(), &mut made, &mut rng, &mut done)?;
            for opener in &parties {
                let copy = TempDir::new("matrix-copy");
                copy_files(dir.path(), copy.path());
                let mut journey = made.clone();
                self.look(opener, copy.path(), &mut journey, &mut done)?;
                self.write(opener, copy.path(), &mut journey, &mut rng, &mut done)?;
                self.look(&parties[rng.usize(..parties.len())], copy.path(), &mut journey, &mut done)?;
            }
        }
        Ok(done)
    }

    /// One database that goes from hand to hand `turns` times, each party with options of its own.
    /// # Errors
    /// As [`Matrix::mixture`].
    pub fn chain(&self, seed: u64, turns: usize) -> Result<Done, String> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let level = TargetVersion::V7_8;
        let mut parties = self.parties(level);
        parties.push(Party::Ldb);
        let dir = TempDir::new("chain");
        let mixture = Mixture::random(&mut rng, level);
        let log = vec![format!("chain with seed {seed}")];
        let mut journey = Journey { world: World::varied(), level, mixture, was_killed: false, log };
        let mut done = Done { databases: 1, ..Done::default() };
        // The first makes families of all kinds, which `ldb` cannot.
        let mut last = self.parties(TargetVersion::V11)[rng.usize(..2)].clone();
        self.write(&last, dir.path(), &mut journey, &mut rng, &mut done)?;
        for _ in 0..turns {
            let others: Vec<&Party> = parties.iter().filter(|party| **party != last).collect();
            last = others[rng.usize(..others.len())].clone();
            journey.mixture = Mixture::random(&mut rng, level);
            self.write(&last, dir.path(), &mut journey, &mut rng, &mut done)?;
        }
        for party in &parties {
            self.look(party, dir.path(), &mut journey, &mut done)?;
        }
        Ok(done)
    }

    /// Opens for reading and compares.
    fn look(&self, party: &Party, dir: &Path, journey: &mut Journey, done: &mut Done) -> Result<(), String> {
        done.turns += 1;
        journey.log.push(format!("{} looks", party.name()));
        let expected = journey.expected();
        let looked = match party {
            Party::Ldb => self.looked_by_ldb(dir, journey),
            _ => self.turn(party, dir, journey, Vec::new(), true, Finish::Nothing, false).map(|f| f.before),
        };
        journey.compare(&looked.map_err(|e| journey.story(&e))?, &expected)
    }

    /// Opens for writing, compares, writes, compares; closes or is killed.
    fn write(
        &self,
        party: &Party,
        dir: &Path,
        journey: &mut Journey,
        rng: &mut fastrand::Rng,
        done: &mut Done,
    ) -> Result<(), String> {
        done.turns += 1;
        let killed = *party != Party::Ldb && rng.u8(..3) == 0;
        let finishes = [Finish::Nothing, Finish::Flush, Finish::Compact];
        let finish = finishes[rng.usize(..finishes.len())];
        let end = if killed { "killed" } else { "closed" };
        journey.log.push(format!("{} writes, {finish:?}, {end}", party.name()));
        let before = journey.expected();
        let steps = journey.steps(party, rng);
        let expected = journey.expected();
        if *party == Party::Ldb {
            let ops = steps.into_iter().flat_map(|step| match step {
                Step::Write(ops) | Step::Ingest(ops) => ops,
                Step::Flush => Vec::new(),
            });
            let ops: Vec<Op> = ops.collect();
            self.written_by_ldb(dir, journey, &ops, finish).map_err(|e| journey.story(&e))?;
            journey.was_killed = false;
            let after = self.looked_by_ldb(dir, journey).map_err(|e| journey.story(&e))?;
            return journey.compare(&after, &expected);
        }
        let found = self.turn(party, dir, journey, steps, false, finish, killed);
        let found = found.map_err(|e| journey.story(&e))?;
        done.kills += u64::from(killed);
        journey.was_killed |= killed;
        journey.compare(&found.before, &before)?;
        journey.compare(&found.after, &expected)
    }

    #[expect(clippy::too_many_arguments, reason = "each is a dimension of the matrix")]
    fn turn(
        &self,
        party: &Party,
        dir: &Path,
        journey: &Journey,
        steps: Vec<Step>,
        read_only: bool,
        finish: Finish,
        killed: bool,
    ) -> Result<Found, String> {
        let (engine, db_options) = match party {
            Party::Esker => (Engine::Esker(journey.level), &journey.mixture.esker_db),
            Party::Library7(path) | Party::Library10(path) | Party::Library11(path) => {
                (Engine::Library(path.clone()), &journey.mixture.rocksdb_db)
            }
            Party::Ldb => return Err("the tools are programs already".to_owned()),
        };
        let create =
            if read_only { "" } else { "create_if_missing=true;create_missing_column_families=true;" };
        let families = journey.world.specs(&journey.mixture.family);
        let turn = Turn {
            engine,
            dir: dir.to_owned(),
            read_only,
            db_options: format!("{create}{db_options}"),
            families,
            steps,
            finish,
            killed,
        };
        self.programs.borrow_mut().take_turn(&turn)
    }

    fn looked_by_ldb(&self, dir: &Path, journey: &Journey) -> Result<Vec<Contents>, String> {
        journey.replace_options(dir)?;
        self.tools.check_consistency(dir)?;
        // It reads the MANIFEST with one comparator.
        if journey.world.families.iter().all(|family| family.order == Order::Bytewise) {
            self.tools.check_file_checksums(dir)?;
        }
        if !journey.was_killed {
            self.tools.verify_tables(dir)?;
        }
        journey.world.families.iter().map(|f| self.tools.contents(dir, &f.name)).collect()
    }

    fn written_by_ldb(
        &self,
        dir: &Path,
        journey: &Journey,
        ops: &[Op],
        finish: Finish,
    ) -> Result<(), String> {
        if !dir.join("CURRENT").exists() {
            self.tools.ldb(dir, ["--create_if_missing", "put", "made", "by ldb"])?;
            self.tools.ldb(dir, ["delete", "made"])?;
            for family in &journey.world.families[1..] {
                self.tools.ldb(dir, ["create_column_family", &family.name])?;
            }
        }
        journey.replace_options(dir)?;
        self.tools.apply(dir, ops)?;
        match finish {
            Finish::Compact => self.tools.ldb(dir, ["compact"]).map(drop),
            // It knows no flush, but flushes what it finds in WALs when it opens for writing.
            _ => Ok(()),
        }
    }
}

/// What a party can make by itself: `ldb` makes families in one order only.
fn world_of(party: &Party) -> World {
    if *party == Party::Ldb {
        World::new(&[("second", Order::Bytewise, Merge::None)])
    } else {
        World::varied()
    }
}

impl Journey {
    fn expected(&self) -> Vec<Contents> {
        self.world.families.iter().map(|family| self.world.contents(family)).collect()
    }

    /// What the party is to write; the model has it afterwards.
    fn steps(&mut self, party: &Party, rng: &mut fastrand::Rng) -> Vec<Step> {
        if *party == Party::Ldb {
            let count = rng.usize(1..8);
            return vec![Step::Write(self.world.random_ops(rng, count, Kinds::LDB))];
        }
        let mut steps = Vec::new();
        for _ in 0..rng.usize(1..25) {
            let count = rng.usize(1..20);
            steps.push(match rng.u8(..16) {
                0 => Step::Ingest(self.world.ingest_ops(rng, count)),
                _ => Step::Write(self.world.random_ops(rng, count, Kinds::ALL)),
            });
            if rng.u8(..6) == 0 {
                steps.push(Step::Flush);
            }
        }
        steps
    }

    fn compare(&self, found: &[Contents], expected: &[Contents]) -> Result<(), String> {
        for ((family, found), expected) in self.world.families.iter().zip(found).zip(expected) {
            if let Some(difference) = found.difference(expected) {
                return Err(self.story(&format!("family '{}' {difference}", family.name)));
            }
        }
        if found.len() == expected.len() { Ok(()) } else { Err(self.story("families are missing")) }
    }

    fn story(&self, what: &str) -> String {
        format!("{what}\n  {}", self.log.join("\n  "))
    }

    /// `ldb` reads the newest OPTIONS file and refuses names that it does not know: as an
    /// administrator would, it is given one that says how the families are ordered and merged, and
    /// how tables are to be written.
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
        let specs = self.world.specs(&self.mixture.family);
        let families = specs.into_iter().map(family).collect::<Result<Vec<_>, _>>()?;
        let text = print_options(&DbOptions::default(), families.iter().map(|(name, o)| (name.as_str(), o)));
        std::fs::write(dir.join(format!("OPTIONS-{newest:06}")), text).map_err(|e| e.to_string())
    }
}
