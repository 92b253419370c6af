//! Random operations of many threads on a real directory, in a process that may be killed at any
//! time.
//!
//! In: [`StressFlags`]. Out: a [`StressReport`], or the first wrong answer. The expected value of
//! each key is in a file outside of the database (`expected`), so that the next process can read
//! it, too. [`crash_test`] starts these processes and kills them.
//!
//! A run opens the database, compares all of it with the expected values, lets the threads work,
//! closes or only drops it, and begins again, `reopen` times. With injected faults, a failed write
//! may have happened or not: the run calls `resume()`, and accepts either value.
//!
//! Source of the idea and of the flags: RocksDB `db_stress_tool/`.

pub mod crash_test;
mod expected;
mod flags;
mod setup;
mod verify;
mod worker;

pub use flags::StressFlags;

use esker::Db;
use esker::internals::base::sync::Mutex;
use esker::internals::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use expected::Expected;
use setup::Setup;
use std::fmt;

/// Counts of a run.
#[derive(Debug, Default)]
pub struct StressReport {
    counts: [AtomicU64; StressKind::ALL.len()],
}

/// A kind of count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StressKind {
    Open,
    Verified,
    Read,
    Scan,
    Move,
    Write,
    Delete,
    DeleteRange,
    Snapshot,
    Ingestion,
    Checkpoint,
    Maintenance,
    ClearedFamily,
    Failed,
    Resumed,
    Audited,
}

impl StressKind {
    const ALL: [(StressKind, &str); 16] = [
        (StressKind::Open, "openings"),
        (StressKind::Verified, "keys verified"),
        (StressKind::Read, "reads"),
        (StressKind::Scan, "scans"),
        (StressKind::Move, "moves of iterators"),
        (StressKind::Write, "writes"),
        (StressKind::Delete, "deletions"),
        (StressKind::DeleteRange, "range deletions"),
        (StressKind::Snapshot, "snapshots"),
        (StressKind::Ingestion, "ingestions"),
        (StressKind::Checkpoint, "checkpoints"),
        (StressKind::Maintenance, "flushes, compactions, changes of options and the like"),
        (StressKind::ClearedFamily, "families made anew"),
        (StressKind::Failed, "failures by injected faults"),
        (StressKind::Resumed, "resumed"),
        (StressKind::Audited, "audits"),
    ];
}

impl StressReport {
    fn count(&self, kind: StressKind, n: u64) {
        self.counts[kind as usize].fetch_add(n, Ordering::Relaxed);
    }

    fn of(&self, kind: StressKind) -> u64 {
        self.counts[kind as usize].load(Ordering::Relaxed)
    }
}

impl fmt::Display for StressReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = StressKind::ALL.iter().filter(|(kind, _)| self.of(*kind) > 0);
        let counts: Vec<String> = counts.map(|(kind, name)| format!("{} {name}", self.of(*kind))).collect();
        write!(f, "db_stress: {}; every answer was right", counts.join(", "))
    }
}

/// State that all threads of a run share.
struct Run<'a> {
    flags: &'a StressFlags,
    setup: &'a Setup,
    expected: &'a Expected,
    report: &'a StressReport,
    /// Number of earlier openings.
    phase: u64,
    /// The first mistake.
    wrong: Mutex<Option<String>>,
    /// Ends the work of all threads: an answer was wrong, or the database must be opened again.
    stop: AtomicBool,
    /// Held by the thread that calls `resume()`.
    resuming: Mutex<()>,
}

impl<'a> Run<'a> {
    fn new(
        flags: &'a StressFlags,
        setup: &'a Setup,
        expected: &'a Expected,
        report: &'a StressReport,
        phase: u64,
    ) -> Run<'a> {
        Run {
            flags,
            setup,
            expected,
            report,
            phase,
            wrong: Mutex::default(),
            stop: AtomicBool::new(false),
            resuming: Mutex::default(),
        }
    }

    fn fail(&self, why: String) {
        self.wrong.lock().get_or_insert(why);
        self.stop.store(true, Ordering::SeqCst);
    }

    fn result(&self) -> Result<(), String> {
        match self.wrong.lock().take() {
            Some(why) => Err(why),
            None => Ok(()),
        }
    }
}

/// Carries out a run.
/// # Errors
/// The first mistake, with the flags that repeat the operations of all threads.
pub fn run(flags: &StressFlags) -> Result<StressReport, String> {
    let report = StressReport::default();
    run_into(flags, &report).map_err(|why| format!("db_stress: {why}\nseed {}; {flags:?}", flags.seed))?;
    Ok(report)
}

fn run_into(flags: &StressFlags, report: &StressReport) -> Result<(), String> {
    let setup = Setup::new(flags)?;
    if flags.destroy_db_initially {
        setup.destroy(flags)?;
    }
    let expected = Expected::open(&flags.expected_values_dir, flags.column_families, flags.max_key)?;
    let phases = u64::from(flags.reopen) + 1;
    for phase in 0..phases {
        let run = Run::new(flags, &setup, &expected, report, phase);
        let db = open(&run)?;
        verify::all(&run, &db, flags.seed ^ phase)?;
        verify::besides_answers(&run, &db)?;
        if flags.verification_only {
            return close(&db);
        }
        setup.begin_faults(flags, phase);
        worker::work(&run, &db, phase, flags.ops_per_thread / phases);
        setup.end_faults();
        run.result()?;
        // Half of the databases are dropped without a close: writes that are not in tables are in
        // WALs.
        if phase % 2 == 0 && !run.stop.load(Ordering::SeqCst) {
            close(&db)?;
        }
    }
    let run = Run::new(flags, &setup, &expected, report, phases);
    let db = open(&run)?;
    verify::all(&run, &db, flags.seed)?;
    verify::besides_answers(&run, &db)?;
    close(&db)
}

fn open(run: &Run<'_>) -> Result<Db, String> {
    run.report.count(StressKind::Open, 1);
    run.setup.open(run.flags, run.phase)
}

fn close(db: &Db) -> Result<(), String> {
    db.close().map_err(|e| format!("close: {e}"))
}
