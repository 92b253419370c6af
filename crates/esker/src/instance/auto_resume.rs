//! Automatic recovery from a transient background error: calls [`resume`] on a thread of its own.
//!
//! In: a recovery that was planned when an error came into force (`Engine::set_background_error`).
//! Out: the error is lifted, or the recovery has given up, and the error stays until the user calls
//! `resume`. Listeners are notified.
//!
//! | error | first attempt | then | attempts |
//! |---|---|---|---|
//! | of a flush or a write | at once | after each `bgerror_resume_retry_interval` | `max_bgerror_resume_count` |
//! | of a compaction (soft) | after the interval: the compaction is retried | the same | the same |
//! | a full disk | after five seconds | after five seconds each | while the disk is full |
//!
//! Source: RocksDB `db/error_handler.cc` (`RecoverFromRetryableBGIOError`). For a full disk
//! `file/sst_file_manager_impl.cc`, which checks the free space; this module tries instead.
//!
//! Invariants
//!  1. There is one recovery at a time, on one thread; the next one begins only after the end of
//!     the last.
//!  2. Waits use the condition variable of the state, so that a close ends them.
//!  3. If the system refuses the thread, the error stays, and `Engine::start_refused_threads`
//!     begins the recovery later.
//!  4. The thread holds the engine and not the database, so the drop of the last handle closes the
//!     database and waits for the thread.

use super::DbInner;
use super::resume::resume;
use crate::engine::{Engine, ErrorReason, may_pass};
use crate::write::WritePath;
use esker_base::stats::{Histogram, Ticker, record_in_histogram, record_tick};
use esker_base::sync::atomic::Ordering;
use esker_base::sync::thread::current;
use esker_base::sync::{Arc, Weak};
use esker_base::{Error, Result, Severity, SubCode};
use esker_env::thread_pool::spawn;
use std::time::Duration;

/// Pause between two attempts while the disk is full: RocksDB's number.
const FULL_DISK_INTERVAL: Duration = Duration::from_secs(5);

/// Enables automatic recovery from transient errors.
pub(crate) fn enable_auto_resume(db: &DbInner) {
    let (engine, path) = (Arc::downgrade(&db.engine), Arc::downgrade(&db.write_path));
    let begin = move |error| {
        if let Some(engine) = engine.upgrade() {
            begin(&engine, path.clone(), error);
        }
    };
    assert!(db.engine.recovery.begin.set(Box::new(begin)).is_ok(), "a database starts once");
}

/// Starts the thread. REQUIRES: a recovery is planned, and no other runs.
fn begin(engine: &Arc<Engine>, path: Weak<WritePath>, error: Error) {
    // The last recovery's thread has reported its end, so this wait is short.
    end_auto_resume(engine);
    let weak = Arc::downgrade(engine);
    let of_thread = error.clone();
    let run = move || {
        if let (Some(engine), Some(path)) = (weak.upgrade(), path.upgrade()) {
            run(&engine, &path, of_thread);
        }
    };
    match spawn("esker:resume", run) {
        Ok(thread) => *engine.recovery.thread.lock() = Some(thread),
        Err(e) => {
            esker_base::info_log!(
                engine.info_log,
                Warn,
                "No automatic recovery until threads can be had: {e}"
            );
            // Ends the plan before it stores the error. `start_refused_threads` on another thread
            // may take the error at once, and drops it if a recovery is still planned.
            say_ended(engine);
            *engine.recovery.refused.lock() = Some(error);
            engine.threads_refused.store(true, Ordering::Release);
        }
    }
}

/// Ends the planned recovery, and wakes callers that wait for its end.
fn say_ended(engine: &Engine) {
    engine.state.lock().background_error.recovery_ended();
    engine.state_changed.notify_all();
}

/// Waits for the thread, if there is one. REQUIRES: its recovery has ended, or the database is
/// closing. Called under no lock.
pub(super) fn end_auto_resume(engine: &Engine) {
    let thread = engine.recovery.thread.lock().take();
    // A listener on this thread may drop the last handle, and the thread must not wait for itself.
    if let Some(thread) = thread.filter(|thread| thread.thread().id() != current().id()) {
        thread.join().expect("a recovery does not panic");
    }
}

/// The thread's function. Listeners have been notified that the recovery from `error` begins.
fn run(engine: &Arc<Engine>, path: &WritePath, mut error: Error) {
    loop {
        esker_base::info_log!(engine.info_log, Info, "Recovering from a background error: {error}");
        let (attempts, end) = recover(engine, path, &error);
        record_in_histogram(
            &engine.options.statistics,
            Histogram::ErrorHandlerAutoresumeRetryCount,
            attempts,
        );
        if let Err(e) = &end {
            esker_base::info_log!(engine.info_log, Warn, "Recovery has ended after {attempts} attempts: {e}");
        }
        let has_failed = end.is_err();
        engine.report_recovery_end(error, end.err());
        if has_failed {
            break;
        }
        // If no recovery is planned, another thread may begin one from here on.
        let Some((next, reason)) = planned(engine) else { return };
        if !engine.may_recover(&next, reason) {
            break;
        }
        error = next;
    }
    say_ended(engine);
}

/// The error of the next recovery; `None` ends the planned recovery.
fn planned(engine: &Engine) -> Option<(Error, ErrorReason)> {
    let mut state = engine.state.lock();
    let error = state.background_error.passing().map(|(error, reason)| (error.clone(), reason));
    let error = error.filter(|_| !engine.is_shutting_down());
    if error.is_none() {
        state.background_error.recovery_ended();
    }
    error
}

/// Repeats attempts until the recovery succeeds or gives up. Returns the number of attempts.
/// # Errors
/// The last attempt's error, if the error in force is not transient or the database is closing ·
/// `Aborted` after too many attempts · `ShutdownInProgress`.
fn recover(engine: &Arc<Engine>, path: &WritePath, error: &Error) -> (u64, Result<()>) {
    let options = &engine.options;
    let most = u64::try_from(options.max_bgerror_resume_count).unwrap_or(0);
    let interval = Duration::from_micros(options.bgerror_resume_retry_interval);
    let (mut attempts, mut error) = (0, error.clone());
    loop {
        let is_full = lacks_space(&error);
        let pause = match () {
            () if is_full => FULL_DISK_INTERVAL,
            () if attempts == 0 && error.severity() >= Severity::HardError => Duration::ZERO,
            () => interval,
        };
        if let Err(e) = wait(engine, pause) {
            return (attempts, Err(e));
        }
        attempts += 1;
        record_tick(&options.statistics, Ticker::ErrorHandlerAutoresumeRetryTotalCount, 1);
        esker_base::probe!("auto_resume:attempt");
        let Err(failed) = resume(engine, path) else {
            record_tick(&options.statistics, Ticker::ErrorHandlerAutoresumeSuccessCount, 1);
            return (attempts, Ok(()));
        };
        let in_force = engine.state.lock().background_error.current().cloned();
        error = match in_force {
            // A call of `resume` has lifted the error.
            None => return (attempts, Ok(())),
            Some(error) if may_pass(&error) && !engine.is_shutting_down() => error,
            Some(_) => return (attempts, Err(failed)),
        };
        if attempts >= most && !lacks_space(&error) {
            return (attempts, Err(Error::aborted("Exceeded resume retry count")));
        }
    }
}

/// Whether space is lacking: only time or deletions can help.
fn lacks_space(error: &Error) -> bool {
    matches!(error.subcode(), SubCode::NoSpace | SubCode::SpaceLimit)
}

/// Waits for `pause`, or until the error is lifted.
/// # Errors
/// `ShutdownInProgress`.
fn wait(engine: &Engine, pause: Duration) -> Result<()> {
    let clock = engine.env.clock.as_ref();
    let end = clock.monotonic_nanos().saturating_add(u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX));
    let mut state = engine.state.lock();
    loop {
        engine.check_open()?;
        let left = end.saturating_sub(clock.monotonic_nanos());
        if left == 0 || state.background_error.current().is_none() {
            return Ok(());
        }
        let _timed_out = engine.state_changed.wait_timeout(&mut state, Duration::from_nanos(left));
    }
}
