//! The pressure of background jobs, for listeners.
//!
//! In: a flush or compaction job that has given its slot back. Out: a call to each listener. Source
//! of the numbers: RocksDB `DBImpl::CaptureBackgroundJobPressure`.
//!
//! The call counts as one under way ([`DbState::calls_under_way`]): a close waits for it.

use super::install::stall_inputs;
use super::{DbState, Engine};
use crate::cf::FamilyState;
use crate::observe::BackgroundJobPressure;

impl Engine {
    /// Begins a report of the pressure; `None` without listeners. The caller releases the lock of
    /// `state` and calls [`Engine::report_pressure`].
    pub(super) fn begin_pressure(&self, state: &mut DbState) -> Option<BackgroundJobPressure> {
        if self.listeners().is_empty() {
            return None;
        }
        state.calls_under_way += 1;
        let compaction_running = state.compactions_scheduled - state.compactions_unbegun;
        Some(BackgroundJobPressure {
            compaction_scheduled: state.compactions_scheduled,
            compaction_running,
            compaction_low_scheduled: state.compactions_scheduled,
            compaction_low_running: compaction_running,
            flush_scheduled: state.flushes_scheduled,
            flush_running: state.flushes_scheduled - state.flushes_unbegun,
            write_stall_proximity_pct: state.families.values().map(proximity).max().unwrap_or(0),
            compaction_speedup_active: self.stall.holds_low_pri_back(),
            ..BackgroundJobPressure::default()
        })
    }

    /// Notifies listeners, and ends the report.
    pub(super) fn report_pressure(&self, pressure: &BackgroundJobPressure) {
        self.outlive("on_background_job_pressure_changed", || {
            self.listeners().iter().for_each(|l| l.on_background_job_pressure_changed(pressure));
        });
        self.state.lock().calls_under_way -= 1;
        self.state_changed.notify_all();
    }
}

/// The distance of a family's writers from a stall, in percent.
fn proximity(family: &FamilyState) -> u64 {
    let (inputs, options) = (stall_inputs(family), &family.options);
    let files_limit = match options.level0_slowdown_writes_trigger {
        1.. => options.level0_slowdown(),
        _ => options.level0_stop(),
    };
    let bytes_limit = match options.soft_pending_compaction_bytes_limit {
        0 => options.hard_pending_compaction_bytes_limit,
        soft => soft,
    };
    let of = |part: u64, limit: u64| u128::from(part) * 100 / u128::from(limit.max(1));
    let files = of(inputs.level0_files as u64, files_limit as u64);
    let bytes = if bytes_limit == 0 { 0 } else { of(inputs.pending_compaction_bytes, bytes_limit) };
    u64::try_from(files.max(bytes)).unwrap_or(u64::MAX)
}
