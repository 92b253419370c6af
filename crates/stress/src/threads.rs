//! Runs many writers and readers at once, beside flushes, compactions, and threads that make and
//! drop families.
//!
//! In: numbers of threads and seconds. Out: counts, or the first broken invariant. The machine
//! decides the order of threads, so a seed does not repeat a failure. To see a failure again, run
//! longer, or under a sanitizer.
//!
//! Writer `w` increments its number `n`. Each step is one batch: `w/a = n` and `w/log/<n mod 64> =
//! n` in the first family, `w/b = n` and `merge(w/c, 1)` in the second family. Some batches begin
//! with two more operations: a range deletion of the log, and `w/base = n`.
//!
//! With a write policy, each batch is a transaction, which is prepared, or spills before that. Some
//! transactions write other numbers before, and are rolled back.
//!
//! Invariants that readers check
//!  1. At each point in time `a`, `b` and `c` are equal, because batches are atomic across families
//!     and merges.
//!  2. In either direction, an iterator finds in the log exactly the numbers from `base` to `a`, or
//!     the last 64 of these.
//!  3. `a` never decreases, and is at least the newest acknowledged number of its writer.
//!  4. A snapshot or an iterator that is read again later shows the same.

mod check;
mod workers;

use check::check_writer;
use esker::builtin;
use esker::internals::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use esker::internals::base::sync::epoch;
use esker::internals::env::mem::MemFs;
use esker::internals::env::thread_pool;
use esker::txn::WritePolicy;
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyHandle, ColumnFamilyOptions, Db, DbOptions, Env, TransactionDb,
    TransactionDbOptions,
};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Least number of batches, and of checks, in a run. A run continues until it has reached both.
const LEAST: u64 = 200;
/// Least number of flushes, compactions and new families in a run, counted together.
const LEAST_MAINTENANCE: u64 = 10;

/// Parameters of a campaign.
#[derive(Clone, Debug)]
pub struct ThreadParameters {
    /// Seed of the choices of each thread.
    pub seed: u64,
    /// Threads that write.
    pub writers: usize,
    /// Threads that read.
    pub readers: usize,
    /// Least duration.
    pub time: Duration,
    /// Directory of the database; `None` means that the database is in memory.
    pub directory: Option<PathBuf>,
    /// The policy under which batches are transactions; `None`: they are none.
    pub policy: Option<WritePolicy>,
}

impl Default for ThreadParameters {
    fn default() -> ThreadParameters {
        ThreadParameters {
            seed: 1,
            writers: 8,
            readers: 8,
            time: Duration::from_secs(2),
            directory: None,
            policy: None,
        }
    }
}

/// Counts of a campaign.
#[derive(Clone, Debug, Default)]
pub struct ThreadReport {
    /// Batches written.
    pub batches: u64,
    /// Checks by readers.
    pub checks: u64,
    /// Flushes, compactions, families made and dropped.
    pub maintenance: u64,
    /// Duration in seconds.
    pub seconds: f64,
}

impl fmt::Display for ThreadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ThreadReport { batches, checks, maintenance, seconds } = self;
        write!(
            f,
            "threads: {batches} batches, {checks} checks, {maintenance} flushes, compactions and families, \
             0 broken invariants, {seconds:.1} s"
        )
    }
}

/// State that all threads share.
struct Shared {
    db: Db,
    /// The same database, if batches are transactions.
    transactions: Option<TransactionDb>,
    /// The family of `a` and the logs.
    first: ColumnFamilyHandle,
    /// The family of `b` and `c`.
    second: ColumnFamilyHandle,
    /// The newest acknowledged number of each writer.
    done: Vec<AtomicU64>,
    stop: AtomicBool,
    checks: AtomicU64,
    maintenance: AtomicU64,
}

impl Shared {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether a count is still below its bound, [`LEAST`] or [`LEAST_MAINTENANCE`].
    fn has_done_little(&self) -> bool {
        let batches: u64 = self.done.iter().map(|n| n.load(Ordering::Relaxed)).sum();
        let checks = self.checks.load(Ordering::Relaxed);
        batches < LEAST || checks < LEAST || self.maintenance.load(Ordering::Relaxed) < LEAST_MAINTENANCE
    }
}

type Outcome = Result<(), String>;

/// Runs the campaign.
/// # Errors
/// The first broken invariant or unexpected error.
#[expect(
    clippy::disallowed_methods,
    reason = "the clock and the patience of the campaign, not of the engine"
)]
pub fn run(parameters: &ThreadParameters) -> Result<ThreadReport, String> {
    let start = Instant::now();
    let env = match &parameters.directory {
        Some(_) => Env::default(),
        None => Env::with_fs(Arc::new(MemFs::new())),
    };
    let path = parameters.directory.clone().unwrap_or_else(|| PathBuf::from("/db"));
    let shared = Arc::new(open(&env, &path, parameters)?);
    let threads = start_threads(&shared, parameters)?;
    while (start.elapsed() < parameters.time || shared.has_done_little()) && !shared.stopped() {
        std::thread::sleep(Duration::from_millis(20));
    }
    shared.stop.store(true, Ordering::Relaxed);
    let mut outcome = Ok(());
    for (name, thread) in threads {
        let result = thread.join().unwrap_or_else(|_| Err("panicked; see above".to_owned()));
        outcome = outcome.and(result.map_err(|e| format!("{name}: {e}")));
    }
    outcome?;
    let report = ThreadReport {
        batches: shared.done.iter().map(|n| n.load(Ordering::Relaxed)).sum(),
        checks: shared.checks.load(Ordering::Relaxed),
        maintenance: shared.maintenance.load(Ordering::Relaxed),
        seconds: start.elapsed().as_secs_f64(),
    };
    check_all_done(&shared)?;
    let done: Vec<u64> = shared.done.iter().map(|n| n.load(Ordering::Relaxed)).collect();
    shared.db.close().map_err(|e| format!("close: {e}"))?;
    drop(shared);
    let reopened = open(&env, &path, parameters)?;
    for (there, done) in reopened.done.iter().zip(done) {
        there.store(done, Ordering::Relaxed);
    }
    check_all_done(&reopened).map_err(|e| format!("after the reopen: {e}"))?;
    drop(reopened);
    // Frees super versions, which stay alive until the epoch advances. Otherwise a leak detector
    // would report their blocks, because it cannot follow the tagged addresses in a block cache's
    // table.
    for _ in 0..100 {
        epoch::collect();
    }
    Ok(report)
}

fn open(env: &Env, path: &std::path::Path, parameters: &ThreadParameters) -> Result<Shared, String> {
    let db_options = DbOptions {
        create_if_missing: true,
        create_missing_column_families: true,
        max_background_jobs: 4,
        max_subcompactions: 2,
        max_total_wal_size: 4 << 20,
        stats_dump_period_sec: 0,
        env: env.clone(),
        ..DbOptions::default()
    };
    let mut family = ColumnFamilyOptions {
        merge_operator: Some(builtin::uint64_add()),
        write_buffer_size: 256 << 10,
        target_file_size_base: 64 << 10,
        max_bytes_for_level_base: 256 << 10,
        ..ColumnFamilyOptions::default()
    };
    family.table.filter_policy = Some(esker::internals::table::FilterPolicy::bloom(10.0));
    let descriptors =
        ["default", "second"].map(|name| ColumnFamilyDescriptor::new(name, family.clone())).to_vec();
    let transactions = parameters.policy.map(|policy| {
        let options =
            TransactionDbOptions::default().write_policy(policy).default_write_batch_flush_threshold(1);
        TransactionDb::open_cf(&db_options, &options, path, descriptors.clone())
    });
    let transactions = transactions.transpose().map_err(|e| format!("open: {e}"))?;
    let db = match &transactions {
        Some(transactions) => transactions.db().clone(),
        None => Db::open_cf(&db_options, path, descriptors).map_err(|e| format!("open: {e}"))?,
    };
    let family = |name| db.column_family(name).expect("the database was opened with this family");
    Ok(Shared {
        first: family("default"),
        second: family("second"),
        db,
        transactions,
        done: (0..parameters.writers).map(|_| AtomicU64::new(0)).collect(),
        stop: AtomicBool::new(false),
        checks: AtomicU64::new(0),
        maintenance: AtomicU64::new(0),
    })
}

type Started = (String, esker::internals::base::sync::thread::JoinHandle<Outcome>);

fn start_threads(shared: &Arc<Shared>, parameters: &ThreadParameters) -> Result<Vec<Started>, String> {
    let mut threads = Vec::new();
    let mut start = |name: String, work: fn(&Shared, usize, fastrand::Rng) -> Outcome, index: usize| {
        let rng = fastrand::Rng::with_seed(parameters.seed ^ ((threads.len() as u64) << 32));
        let shared = shared.clone();
        let thread = thread_pool::spawn(&name, move || {
            let outcome = work(&shared, index, rng);
            if outcome.is_err() {
                shared.stop.store(true, Ordering::Relaxed);
            }
            outcome
        });
        threads.push((name, thread.map_err(|e| e.to_string())?));
        Ok::<(), String>(())
    };
    for index in 0..parameters.writers {
        start(format!("writer-{index}"), workers::write, index)?;
    }
    for index in 0..parameters.readers {
        start(format!("reader-{index}"), workers::read, index)?;
    }
    start("maintenance".to_owned(), workers::maintain, 0)?;
    start("families".to_owned(), workers::make_families, 0)?;
    Ok(threads)
}

/// Checks that every writer's last batch is there and the invariants hold.
fn check_all_done(shared: &Shared) -> Outcome {
    for (writer, done) in shared.done.iter().enumerate() {
        let snapshot = shared.db.snapshot();
        let state = check_writer(shared, writer, &snapshot)?;
        let done = done.load(Ordering::Relaxed);
        if state.a != done {
            return Err(format!("writer {writer}: {done} batches were acknowledged, {} are there", state.a));
        }
    }
    Ok(())
}
