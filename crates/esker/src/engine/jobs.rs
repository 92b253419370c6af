//! Starts the background jobs that should run now.
//!
//! In: the queues in [`DbState`]. Out: boxed jobs in the pools: flushes in HIGH, compactions in
//! LOW, purges in HIGH, pre-scans of deleted keys in LOW, one at a time. A job takes its work from
//! the queues when it runs, so that it sees the newest state.
//!
//! A job calls users' code: comparators, merge operators, filters, listeners. If user code panics,
//! the job's work fails with an error ([`contained`]) and the job ends like any other, so no thread
//! waits for it in vain.

use crate::engine::{DbState, Engine, FlushRequest};
use crate::observe::FlushReason;
use crate::options::DbOptions;
use crate::schedule::{Job, Scheduler};
use esker_base::stats::{Ticker, record_tick};
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_base::sync::{Arc, Mutex, OnceLock, Weak, epoch};
use esker_base::{ColumnFamilyId, Error, Result, Severity};
use esker_env::timer::Repeating;
use esker_memtable::Take;
use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

/// Gives jobs to the pools, as many as there are work and slots for.
pub(crate) fn maybe_schedule(engine: &Arc<Engine>, state: &mut DbState) {
    if engine.is_shutting_down() || state.is_paused() || state.background_error.stops_flushes() {
        return;
    }
    let Some(jobs) = engine.jobs.get() else { return };
    let limits = engine.job_limits();
    let flushes = flushes_that_may_begin(state);
    while state.flushes_scheduled < limits.flushes && state.flushes_unbegun < flushes {
        state.flushes_scheduled += 1;
        state.flushes_unbegun += 1;
        engine.scheduler.schedule(Job::Flush, run(engine, Job::Flush, jobs.flush));
    }
    if state.background_error.stops_compactions() {
        return;
    }
    let manual = state.manual_compactions.iter().filter(|m| m.plan.is_some()).count();
    let automatic = if state.exclusive_manual { 0 } else { state.compaction_queue.len() };
    let waiting = automatic + manual;
    while state.compactions_scheduled < limits.compactions && state.compactions_unbegun < waiting {
        state.compactions_scheduled += 1;
        state.compactions_unbegun += 1;
        engine.scheduler.schedule(Job::Compaction, run(engine, Job::Compaction, jobs.compact));
    }
    // Scheduled last: a pre-scan yields to waiting jobs.
    if !state.pre_scans.pre_scan_scheduled && !state.pre_scans.is_empty() {
        state.pre_scans.pre_scan_scheduled = true;
        engine.scheduler.schedule(Job::PreScan, run(engine, Job::PreScan, jobs.pre_scan));
    }
}

/// Number of flushes that may begin. While a WAL is damaged, only the recovery's flush of all
/// families may: another flush could make tables durable before those of a family whose writes the
/// WAL has lost.
fn flushes_that_may_begin(state: &DbState) -> usize {
    let recovers = |request: &&FlushRequest| request.reason == FlushReason::ErrorRecovery;
    let queue = state.flush_queue.iter();
    if state.background_error.wal_damaged {
        queue.take_while(recovers).count()
    } else {
        queue.filter(|request| !waits_for_flush(state, request)).count()
    }
}

/// Whether an atomic flush must wait: another flush has memtables of its families.
fn waits_for_flush(state: &DbState, request: &FlushRequest) -> bool {
    let is_flushing = |id| state.families.get(id).is_some_and(|family| family.flushing);
    request.forced_atomic && request.families.iter().any(is_flushing)
}

/// Takes the next flush that may begin.
pub(crate) fn take_flush(state: &mut DbState) -> Option<FlushRequest> {
    let next = state.flush_queue.iter().position(|request| !waits_for_flush(state, request))?;
    state.flush_queue.remove(next)
}

/// Runs purges of obsolete files. At most one purge is queued or runs, and a request during a run
/// is not lost.
///
/// Any thread may request it, under any lock, because dropping the last reference to a file does.
/// So a request takes only the pool's lock, and only a running purge keeps the engine alive.
pub(crate) struct Purger {
    job: OnceLock<PurgeJob>,
    /// Whether a purge was requested since the last one began.
    requested: AtomicBool,
    /// Whether a purge is queued or runs.
    active: AtomicBool,
    /// Looks for the end of reads that a purge has waited for in vain.
    reads: Mutex<Option<Repeating>>,
    shutting_down: Arc<AtomicBool>,
}

/// Time between two looks for the end of reads.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

struct PurgeJob {
    scheduler: Scheduler,
    engine: Weak<Engine>,
    run: fn(&Engine),
}

impl Purger {
    /// A purger that ignores requests until [`Purger::start`], and again after `shutting_down` is
    /// set.
    pub(crate) fn new(shutting_down: Arc<AtomicBool>) -> Purger {
        Purger {
            job: OnceLock::new(),
            requested: AtomicBool::new(false),
            active: AtomicBool::new(false),
            reads: Mutex::new(None),
            shutting_down,
        }
    }

    /// Lets requests call `run` in the pool from now on.
    pub(crate) fn start(engine: &Arc<Engine>, run: fn(&Engine)) {
        let job = PurgeJob { scheduler: engine.scheduler.clone(), engine: Arc::downgrade(engine), run };
        assert!(engine.purger.job.set(job).is_ok(), "a database starts once");
    }

    /// Queues a purge, unless one is queued and has not begun.
    pub(crate) fn request(&self) {
        let Some(job) = self.job.get() else { return };
        self.requested.store(true, Ordering::SeqCst);
        if self.shutting_down.load(Ordering::Acquire) || self.active.swap(true, Ordering::SeqCst) {
            return;
        }
        let (engine, run) = (job.engine.clone(), job.run);
        let work = move || {
            if let Some(engine) = engine.upgrade() {
                engine.purger.serve(&engine, run);
            }
            hand_over();
        };
        job.scheduler.schedule(Job::Purge, Box::new(work));
    }

    /// Requests a purge once the reads that are under way have ended. In an idle process nothing
    /// else would release what they hold. Costs a look at the epoch a second until then.
    pub(crate) fn request_after_reads(&self, engine: &Engine) {
        let Some(job) = self.job.get() else { return };
        let mut reads = self.reads.lock();
        if reads.is_some() || self.shutting_down.load(Ordering::Acquire) {
            return;
        }
        let engine_of_job = job.engine.clone();
        let look = move || {
            let Some(engine) = engine_of_job.upgrade() else { return };
            if epoch::settle(2, || {}) {
                engine.purger.stop_looking();
                engine.purger.request();
            }
        };
        *reads = Some(engine.env.timer.repeat(LOOK_PERIOD, look));
    }

    /// Ends the looks for the end of reads.
    pub(crate) fn stop_looking(&self) {
        // Dropped without the lock: the drop waits for a look, which takes it.
        let looks = self.reads.lock().take();
        drop(looks);
    }

    /// Runs purges until none is requested.
    fn serve(&self, engine: &Engine, run: fn(&Engine)) {
        while self.requested.swap(false, Ordering::SeqCst) && !engine.is_shutting_down() {
            run(engine);
        }
        let state = engine.state.lock();
        self.active.store(false, Ordering::SeqCst);
        engine.state_changed.notify_all();
        drop(state);
        // A request between the loop's end and the store found an active purge and did nothing.
        if self.requested.load(Ordering::SeqCst) {
            self.request();
        }
    }
}

fn run(engine: &Arc<Engine>, kind: Job, work: fn(&Arc<Engine>)) -> Box<dyn FnOnce() + Send> {
    let engine = engine.clone();
    Box::new(move || {
        let outcome = catch_unwind(AssertUnwindSafe(|| work(&engine)));
        end(&engine, kind);
        drop(engine);
        hand_over();
        // The report of the error panicked, too. The pool's owner gets the panic.
        outcome.unwrap_or_else(|panic| resume_unwind(panic));
    })
}

/// Ends a job: frees its slot, and wakes threads that wait for it.
fn end(engine: &Arc<Engine>, kind: Job) {
    // Done first: a thread that waits for the last job, such as a close, searches for obsolete
    // files next.
    engine.hand_over_super_versions();
    let mut state = engine.state.lock();
    match kind {
        Job::Flush => state.flushes_scheduled -= 1,
        Job::Compaction => state.compactions_scheduled -= 1,
        Job::PreScan => state.pre_scans.pre_scan_scheduled = false,
        Job::Purge | Job::CatchUp => unreachable!("they count themselves"),
    }
    engine.purger.request();
    maybe_schedule(engine, &mut state);
    let is_reported = matches!(kind, Job::Flush | Job::Compaction);
    let pressure = if is_reported { engine.begin_pressure(&mut state) } else { None };
    engine.state_changed.notify_all();
    drop(state);
    if let Some(pressure) = pressure {
        engine.report_pressure(&pressure);
    }
    engine.start_refused_threads();
    epoch::collect();
}

/// Runs `work`, and turns a panic in it into an error of at least this severity: `HardError` if the
/// state before the work still holds, `FatalError` if the state is unknown.
/// # Errors
/// The work's error · `Aborted` with the panic's message.
pub(crate) fn contained<T>(what: &str, severity: Severity, work: impl FnOnce() -> Result<T>) -> Result<T> {
    // A simulated machine ends a thread by unwinding it.
    if cfg!(any(loom, shuttle)) {
        return work();
    }
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let message = format!("{what} panicked: {}", said(&*panic));
        Err(Error::aborted(message).with_severity(severity))
    })
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("(no message)")
}

/// Passes retired values to the epoch: the thread may sleep for long, and their release must not
/// wait for its next job.
fn hand_over() {
    epoch::pin().flush();
}

impl Engine {
    /// Whether pre-scans must stop, because a caller waits until no job runs: to pause, or to
    /// resume after an error.
    pub(crate) fn is_without_pre_scans(&self) -> bool {
        let state = self.state.lock();
        state.is_paused() || state.background_error.stops_flushes()
    }

    /// Queues pre-scans around deletions that active memtables have sampled. Returns whether there
    /// were any.
    #[cold]
    pub(crate) fn queue_pre_scans_in_memory(self: &Arc<Self>, when: Take) -> bool {
        if !self.deletions_sampled.swap(false, Ordering::Relaxed) && when == Take::Due {
            return false;
        }
        let mut state = self.state.lock();
        let noted: Vec<_> = (state.families.iter())
            .filter_map(|(id, family)| {
                Some((*id, family.memtables.active.take_sampled_deletions(when)?, family))
            })
            .filter(|(.., family)| family.version.all_files().next().is_some())
            .map(|(id, noted, _)| (id, noted))
            .collect();
        let any = !noted.is_empty();
        noted.into_iter().for_each(|(id, noted)| state.pre_scans.add_around(id, noted));
        maybe_schedule(self, &mut state);
        any
    }

    /// Queues the families again that wait for room of their `compaction_thread_limiter`.
    pub(crate) fn queue_throttled(self: &Arc<Self>) {
        if !self.owner.is_here() {
            return;
        }
        let mut state = self.state.lock();
        while let Some(id) = state.throttled.pop_back() {
            state.compaction_queue.push_front(id);
        }
        maybe_schedule(self, &mut state);
    }

    /// Number of jobs that have not ended. It falls to 0 only under the db mutex, with a signal.
    pub(crate) fn jobs_scheduled(&self, state: &DbState) -> usize {
        let purge = usize::from(self.purger.active.load(Ordering::SeqCst));
        let pre_scan = usize::from(state.pre_scans.pre_scan_scheduled);
        state.flushes_scheduled + state.compactions_scheduled + pre_scan + purge
    }

    /// Most jobs of each kind that may run at once. Atomic flushes run one after the other: of two
    /// concurrent ones, one could become durable without the other.
    pub(crate) fn job_limits(&self) -> JobLimits {
        let mut limits = JobLimits::of(&self.db_options());
        if self.options.atomic_flush {
            limits.flushes = 1;
        }
        limits
    }
}

/// Most jobs of each kind that may run at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobLimits {
    pub(crate) flushes: usize,
    pub(crate) compactions: usize,
}

impl JobLimits {
    /// Divides `max_background_jobs` as RocksDB does: a quarter for flushes, the rest for
    /// compactions, at least one each. If either of the two older options is set, both are used
    /// instead.
    fn of(options: &DbOptions) -> JobLimits {
        let at_least_one = |n: i32| usize::try_from(n).unwrap_or(1).max(1);
        if options.max_background_flushes < 0 && options.max_background_compactions < 0 {
            let flushes = at_least_one(options.max_background_jobs / 4);
            JobLimits { flushes, compactions: at_least_one(options.max_background_jobs - flushes as i32) }
        } else {
            JobLimits {
                flushes: at_least_one(options.max_background_flushes),
                compactions: at_least_one(options.max_background_compactions),
            }
        }
    }
}

/// Queues a flush for each family with enough waiting memtables. Under `atomic_flush`, and after an
/// error, queues one flush for all families. After an error the WALs may lack unflushed entries of
/// a family, so no family may be flushed alone. `forced_atomic`: one flush for these families, and
/// for those in the queue's requests that have some of them.
pub(crate) fn queue_flushes(
    engine: &Engine,
    state: &mut DbState,
    families: &[ColumnFamilyId],
    reason: FlushReason,
    forced_atomic: bool,
) {
    let forced = !matches!(reason, FlushReason::WriteBufferFull | FlushReason::MemtableMaxRangeDeletions);
    let together = engine.options.atomic_flush || reason == FlushReason::ErrorRecovery || forced_atomic;
    let mut families = families.to_vec();
    if reason == FlushReason::ErrorRecovery {
        // One flush for the requested families and for all in the queue.
        state.flush_queue.clear();
        state.families.values_mut().for_each(|family| family.flush_queued = false);
        families = state.families.keys().copied().collect();
    } else if forced_atomic {
        take_over_requests(state, &mut families);
    }
    let mut due = Vec::new();
    for id in &families {
        let Some(family) = state.family_mut(*id) else { continue };
        let enough = family.memtables.not_flushing() >= family.options.memtables_to_merge();
        // An atomic flush also waits for memtables that another flush has: that one may fail.
        let is_part = family.memtables.not_flushing() > 0 || forced_atomic && family.flushing;
        if (enough || forced || engine.options.atomic_flush) && !family.flush_queued && is_part {
            family.flush_queued = true;
            due.push(*id);
        }
    }
    if together {
        if !due.is_empty() {
            state.flush_queue.push_back(FlushRequest { families: due, reason, forced_atomic });
            if engine.options.atomic_flush || forced_atomic {
                record_tick(&engine.options.statistics, atomic_flush_ticker(reason), 1);
            }
        }
    } else {
        let alone = |id| FlushRequest { families: vec![id], reason, forced_atomic };
        state.flush_queue.extend(due.into_iter().map(alone));
    }
}

/// Removes the requests that have some of `families` from the queue, and adds their other families.
fn take_over_requests(state: &mut DbState, families: &mut Vec<ColumnFamilyId>) {
    let (taken, left): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut state.flush_queue)
        .into_iter()
        .partition(|request| request.families.iter().any(|id| families.contains(id)));
    state.flush_queue = left;
    for id in taken.into_iter().flat_map(|request| request.families) {
        if let Some(family) = state.family_mut(id) {
            family.flush_queued = false;
        }
        if !families.contains(&id) {
            families.push(id);
        }
    }
}

/// The ticker of an atomic flush that was requested for this reason.
fn atomic_flush_ticker(reason: FlushReason) -> Ticker {
    match reason {
        FlushReason::WriteBufferFull => Ticker::AtomicFlushRequestReasonWriteBufferFull,
        FlushReason::WriteBufferManager => Ticker::AtomicFlushRequestReasonWriteBufferManager,
        FlushReason::MemtableMaxRangeDeletions => Ticker::AtomicFlushRequestReasonMemtableMaxRangeDeletions,
        _ => Ticker::AtomicFlushRequestReasonOther,
    }
}
