//! Recovery from a background error.

use super::DbInner;
use super::purge::settle_for_long;
use crate::cf::FamilyState;
use crate::engine::{
    DbState, Engine, ErrorReason, UnderWay, contained, maybe_schedule, publish_super_version, queue_if_due,
};
use crate::files::check_space_limit;
use crate::observe::FlushReason;
use crate::write::WritePath;
use esker_base::sync::Arc;
use esker_base::sync::atomic::Ordering;
use esker_base::{Error, Result, SequenceNumber, Severity, SubCode};

impl DbInner {
    /// See `Db::resume`.
    /// # Errors
    /// Errors of `Db::resume`.
    pub(crate) fn resume(&self) -> Result<()> {
        let _under_way = UnderWay::begin(&self.engine)?;
        self.forget_quarantined();
        resume(&self.engine, &self.write_path)
    }

    fn forget_quarantined(&self) {
        let engine = &self.engine;
        let mut state = engine.state.lock();
        let forgets = |f: &mut FamilyState| f.running.forget_quarantined().then_some(f.cf.id);
        let again: Vec<_> = state.families.values_mut().filter_map(forgets).collect();
        for family in again {
            publish_super_version(engine, &mut state, family);
        }
        maybe_schedule(engine, &mut state);
        drop(state);
        engine.release_super_versions();
    }
}

/// Tries to lift the error in force. Waits while another thread tries.
/// # Errors
/// Errors of `Db::resume`.
pub(super) fn resume(engine: &Arc<Engine>, write_path: &WritePath) -> Result<()> {
    let mut state = engine.state.lock();
    // The failed job may still be cleaning up, and other jobs may have met the same error.
    while state.background_error.resuming || is_clearing_up(engine, &state) {
        engine.check_open()?;
        engine.wait_for_change(&mut state);
    }
    let Some(error) = state.background_error.current().cloned() else {
        drop(state);
        return engine.manifest.lock().settle();
    };
    let is_full = error.subcode() == SubCode::SpaceLimit && check_space_limit(&engine.options).is_err();
    if is_full || error.severity() > Severity::HardError {
        return Err(error);
    }
    esker_base::probe!("resume:begun");
    let wal_damaged = state.background_error.wal_damaged;
    let has_failed_entries = state.background_error.has_failed_entries;
    state.background_error.begin_recovery();
    state.background_error.resuming = true;
    drop(state);
    esker_base::info_log!(engine.info_log, Info, "Resuming after a background error");
    let flushed = if error.severity() == Severity::SoftError && !wal_damaged {
        // Only the failed work has stopped, and will be retried.
        engine.manifest.lock().settle()
    } else {
        // Threads that wait for the end of this recovery must not wait forever, even after a panic.
        contained("a recovery", Severity::FatalError, || {
            engine.manifest.lock().settle()?;
            write_path.recover_from_error(wal_damaged, FlushReason::ErrorRecovery)?;
            if has_failed_entries { pass_failed_numbers(engine) } else { Ok(()) }
        })
    };
    let mut state = engine.state.lock();
    state.background_error.resuming = false;
    let result = match flushed {
        Ok(()) => state.background_error.end_recovery(),
        Err(e) => {
            state.background_error.set(&e, ErrorReason::Flush);
            Err(e)
        }
    };
    if result.is_ok() {
        engine.allow_writes();
        // Writes may wait for a compaction of a family that is in no queue.
        let oldest_snapshot = engine.oldest_snapshot_at_release();
        let families: Vec<_> = state.families.keys().copied().collect();
        for family in families {
            queue_if_due(engine, &mut state, family, oldest_snapshot);
        }
    }
    maybe_schedule(engine, &mut state);
    engine.state_changed.notify_all();
    result
}

/// Publishes the sequence numbers of failed writes. Later readers find no entries under them: the
/// memtables that had such entries are flushed, without those entries.
/// # Errors
/// `TryAgain`: a read from before the flush has not ended within two seconds. It has one of those
/// memtables, and may not have chosen its sequence number yet.
fn pass_failed_numbers(engine: &Engine) -> Result<()> {
    if !settle_for_long(engine.env.clock.as_ref()) {
        let error = Error::try_again("reads that began before a failed write are still under way");
        return Err(error.with_retryable(true));
    }
    let allocated = engine.allocated_sequence.load(Ordering::Relaxed);
    engine.numbers.set_last_sequence(SequenceNumber(allocated));
    Ok(())
}

/// Whether a job is still running that began before the error in force, or met it.
fn is_clearing_up(engine: &Engine, state: &DbState) -> bool {
    let error = &state.background_error;
    let jobs = if error.stops_flushes() { engine.jobs_scheduled(state) } else { state.compactions_scheduled };
    jobs > 0 && error.stops_compactions()
}
