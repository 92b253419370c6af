//! Scans in both directions beside writers, at fixed points in time, while super versions change.
//! Each answer is compared with a model that knows every write by its sequence number.
//!
//! In: a seed, numbers of threads, seconds. Out: counts, or the first difference. A round is a
//! database in memory files with options of its own: those of the model campaign, and sometimes a
//! compaction filter. Most of its keys are deleted most of the time. Threads choose their own
//! points in time, so a seed repeats the options, not the history. In the simulated
//! machine (`sim-scans`) it repeats the history too.
//!
//! `writer` writes batches, deletes runs and ranges. `keeper` ingests files, flushes, compacts,
//! sets options. `scanner` takes points in time and moves cursors. `history` has all writes.
//!
//! Invariants
//!  1. A key's versions are in its history before a reader at their sequence number looks: scanners
//!     wait for writes that were running when they took their point in time.
//!  2. Each key that is deleted by single deletions belongs to one writer, which puts and deletes
//!     it in turn.
//!  3. Junk, which compaction filters may drop at any time, is skipped and never compared.

mod history;
mod keeper;
mod scanner;
mod writer;

use crate::crash::env_over;
use crate::model::families::ModelFamilySpec;
use crate::model::settings::ModelSettings;
use esker::compaction_filter::{CompactionFilter, FilterDecision};
use esker::internals::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use esker::internals::base::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, thread};
use esker::internals::env::mem::MemFs;
use esker::internals::env::thread_pool;
use esker::{ColumnFamilyHandle, Db};
use history::ScanHistory;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PATH: &str = "/db";
/// Prefix of the values that a compaction filter may drop.
const JUNK: &[u8] = b"junk";
/// One key in this many is junk.
const JUNK_EVERY: usize = 16;

/// Parameters of a campaign.
#[derive(Clone, Debug)]
pub struct ScanParameters {
    /// Seed of the first round; the next ones have the next numbers.
    pub seed: u64,
    /// Threads that write.
    pub writers: usize,
    /// Threads that scan.
    pub scanners: usize,
    /// Duration of all rounds together.
    pub time: Duration,
    /// Duration of a round.
    pub round: Duration,
    /// Print each round's numbers to standard error.
    pub verbose: bool,
}

impl Default for ScanParameters {
    fn default() -> ScanParameters {
        ScanParameters {
            seed: 1,
            writers: 2,
            scanners: 2,
            time: Duration::from_secs(2),
            round: Duration::from_secs(2),
            verbose: false,
        }
    }
}

/// Counts of a campaign.
#[derive(Clone, Debug, Default)]
pub struct ScanReport {
    /// Number of databases.
    pub rounds: u64,
    /// Operations written.
    pub writes: u64,
    /// Answers compared.
    pub comparisons: u64,
    /// Flushes, compactions, ingested files, changed options.
    pub maintenance: u64,
    /// Duration in seconds.
    pub seconds: f64,
}

impl fmt::Display for ScanReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ScanReport { rounds, writes, comparisons, maintenance, seconds } = self;
        write!(
            f,
            "scans: {rounds} rounds, {writes} writes, {maintenance} changes of super_versions, {comparisons} answers compared, \
             0 differences, {seconds:.1} s"
        )
    }
}

type Outcome = Result<(), String>;

/// The size of a round.
#[derive(Clone, Debug)]
pub(crate) struct ScanSize {
    /// Possible numbers of keys of a family.
    pub(crate) keys: [usize; 3],
    /// Batches of each writer.
    pub(crate) batches: u64,
    /// Changes of super versions.
    pub(crate) maintenance: u64,
    /// Turns of each scanner.
    pub(crate) scans: u64,
    /// The numbers of turns, per thousand, that begin with a new point in time and with a new
    /// cursor.
    pub(crate) new: (u16, u16),
}

impl ScanSize {
    /// The size of a round that runs until it is stopped.
    const ENDLESS: ScanSize = ScanSize {
        keys: [60, 300, 1000],
        batches: u64::MAX,
        maintenance: u64::MAX,
        scans: u64::MAX,
        new: (2, 12),
    };
}

/// State that the threads of a round share.
struct Round {
    db: Db,
    specs: Vec<ModelFamilySpec>,
    settings: ModelSettings,
    size: ScanSize,
    handles: Vec<ColumnFamilyHandle>,
    history: ScanHistory,
    /// One number for each writer, odd while it writes. The last one is the keeper's.
    busy: Vec<AtomicU64>,
    /// Writing threads hold this lock shared. A thread that must exclude writes takes it alone.
    gate: RwLock<()>,
    stop: AtomicBool,
    writes: AtomicU64,
    comparisons: AtomicU64,
    maintenance: AtomicU64,
}

impl Round {
    fn open(seed: u64, writers: usize, size: &ScanSize) -> Result<Round, String> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let keys = size.keys[rng.usize(..3)];
        let specs = ModelFamilySpec::all(&mut rng, 4, keys, &crate::model::ModelParameters::default());
        let env = env_over(MemFs::new());
        let mut settings = ModelSettings::random(&mut rng, &env, &specs);
        for options in &mut settings.families {
            if rng.bool() {
                options.compaction_filter = Some(Arc::new(DropJunk));
            }
            options.disable_auto_compactions &= rng.bool();
            options.deleted_run_block_min_entries = [1, 2, 3, 16][rng.usize(..4)];
            options.deleted_run_memory_min_keys = [1, 2, 8, 40][rng.usize(..4)];
            let dead = options.deleted_run_block_min_entries + options.deleted_run_memory_min_keys;
            options.pre_scan_min_entries = [0, 1, 4, 64][dead as usize % 4];
        }
        let db = Db::open_cf(&settings.db, PATH, settings.descriptors(&specs));
        let db = db.map_err(|e| format!("open: {e}"))?;
        let handle = |spec: &ModelFamilySpec| {
            db.column_family(spec.name).expect("the database was opened with all families")
        };
        Ok(Round {
            handles: specs.iter().map(handle).collect(),
            history: ScanHistory::new(&specs),
            db,
            specs,
            settings,
            size: size.clone(),
            busy: (0..=writers).map(|_| AtomicU64::new(0)).collect(),
            gate: RwLock::new(()),
            stop: AtomicBool::new(false),
            writes: AtomicU64::new(0),
            comparisons: AtomicU64::new(0),
            maintenance: AtomicU64::new(0),
        })
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Takes the gate shared, which excludes threads that take it alone.
    fn shared_gate(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read()
    }

    /// Takes the gate alone, which excludes all writes.
    fn whole_gate(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write()
    }

    /// Waits until all writes that were running at the call are in the history.
    fn wait_for_writes(&self) {
        for busy in &self.busy {
            let before = busy.load(Ordering::SeqCst);
            while before % 2 == 1 && busy.load(Ordering::SeqCst) == before {
                thread::yield_now();
            }
        }
    }
}

fn is_junk(index: usize) -> bool {
    index % JUNK_EVERY == 3
}

struct DropJunk;

impl CompactionFilter for DropJunk {
    fn name(&self) -> &str {
        "esker.stress.DropJunk"
    }
    fn filter(&self, _level: usize, _key: &[u8], value: &[u8]) -> FilterDecision {
        if value.starts_with(JUNK) { FilterDecision::Remove } else { FilterDecision::Keep }
    }
}

/// Runs the campaign.
/// # Errors
/// The first difference or unexpected error, with the seed of its round.
#[expect(clippy::disallowed_methods, reason = "the clock of the campaign, not of the engine")]
#[expect(clippy::print_stderr, reason = "progress of a command that takes minutes")]
pub fn run(parameters: &ScanParameters) -> Result<ScanReport, String> {
    let start = Instant::now();
    let mut report = ScanReport::default();
    while report.rounds == 0 || start.elapsed() < parameters.time {
        let seed = parameters.seed.wrapping_add(report.rounds);
        let left = parameters.time.saturating_sub(start.elapsed());
        let round = run_round(parameters, seed, parameters.round.min(left));
        let round = round.map_err(|e| format!("scans: seed {seed}: {e}"))?;
        report.rounds += 1;
        report.writes += round.writes;
        report.comparisons += round.comparisons;
        report.maintenance += round.maintenance;
        report.seconds = start.elapsed().as_secs_f64();
        if parameters.verbose {
            eprintln!("seed {seed}: {} of {}", round.comparisons, report);
        }
    }
    Ok(report)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the clock and the patience of the campaign, not of the engine"
)]
fn run_round(parameters: &ScanParameters, seed: u64, time: Duration) -> Result<ScanReport, String> {
    let start = Instant::now();
    let threads = Threads::begin(seed, parameters, &ScanSize::ENDLESS)?;
    // Every thread has had a turn, even if the machine was stopped for a while.
    let round = &threads.round;
    let is_idle = || [&round.writes, &round.comparisons].iter().any(|n| n.load(Ordering::Relaxed) == 0);
    while (start.elapsed() < time || is_idle()) && !round.stopped() {
        std::thread::sleep(Duration::from_millis(10));
    }
    round.stop.store(true, Ordering::Relaxed);
    let report = threads.finish()?;
    Ok(ScanReport { seconds: start.elapsed().as_secs_f64(), ..report })
}

/// Runs a round of this size, whose threads end by themselves.
/// # Errors
/// The first difference or unexpected error, with the seed of its round.
#[cfg(shuttle)]
pub(crate) fn run_sized(parameters: &ScanParameters, size: &ScanSize) -> Result<ScanReport, String> {
    Threads::begin(parameters.seed, parameters, size)?.finish()
}

/// The threads of a round.
struct Threads {
    round: Arc<Round>,
    threads: Vec<(String, thread::JoinHandle<Outcome>)>,
}

impl Threads {
    fn begin(seed: u64, parameters: &ScanParameters, size: &ScanSize) -> Result<Threads, String> {
        let round = Arc::new(Round::open(seed, parameters.writers, size)?);
        let mut threads = Threads { round, threads: Vec::new() };
        for index in 0..parameters.writers {
            threads.add(seed, format!("writer-{index}"), writer::write, index)?;
        }
        threads.add(seed, "keeper".to_owned(), keeper::keep, parameters.writers)?;
        for index in 0..parameters.scanners {
            threads.add(seed, format!("scanner-{index}"), scanner::scan, index)?;
        }
        Ok(threads)
    }

    fn add(
        &mut self,
        seed: u64,
        name: String,
        work: fn(&Round, usize, fastrand::Rng) -> Outcome,
        index: usize,
    ) -> Outcome {
        let rng = fastrand::Rng::with_seed(seed ^ ((self.threads.len() as u64 + 1) << 40));
        let round = self.round.clone();
        let thread = thread_pool::spawn(&name, move || {
            let outcome = work(&round, index, rng);
            if outcome.is_err() {
                round.stop.store(true, Ordering::Relaxed);
            }
            outcome
        });
        self.threads.push((name, thread.map_err(|e| e.to_string())?));
        Ok(())
    }

    /// Waits for all threads, and closes the database.
    fn finish(self) -> Result<ScanReport, String> {
        let mut outcome = Ok(());
        for (name, thread) in self.threads {
            let result = thread.join().unwrap_or_else(|_| Err("panicked; see above".to_owned()));
            outcome = outcome.and(result.map_err(|e| format!("{name}: {e}")));
        }
        outcome?;
        let round = &self.round;
        round.db.close().map_err(|e| format!("close: {e}"))?;
        let count = |n: &AtomicU64| n.load(Ordering::Relaxed);
        Ok(ScanReport {
            rounds: 1,
            writes: count(&round.writes),
            comparisons: count(&round.comparisons),
            maintenance: count(&round.maintenance),
            seconds: 0.0,
        })
    }
}

/// Lets other threads work. In a simulation the scheduler decides when they do.
#[expect(clippy::disallowed_methods, reason = "the patience of the campaign, not of the engine")]
fn rest(microseconds: u64) {
    if !cfg!(shuttle) {
        std::thread::sleep(Duration::from_micros(microseconds));
    }
}
