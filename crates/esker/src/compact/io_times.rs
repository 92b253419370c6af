//! Times of the file operations of a subcompaction, for `report_bg_io_stats`.
//!
//! In: the work of one thread. Out: its nanoseconds in writes and syncs, from the thread's
//! `IoStatsContext`. While they are measured, the thread's level counts times.

use esker_base::iostats_context::IoStatsContext;
use esker_base::perf_context::{PerfLevel, perf_level, set_perf_level};

/// A measurement of the calling thread. Its drop restores the thread's level.
#[derive(Debug)]
pub(super) struct IoTimes {
    level: PerfLevel,
    before: IoStatsContext,
}

impl IoTimes {
    /// Begins.
    pub(super) fn begin() -> IoTimes {
        let level = perf_level();
        set_perf_level(level.max(PerfLevel::EnableTimeAndCpuTimeExceptForMutex));
        IoTimes { level, before: IoStatsContext::current() }
    }

    /// Ends, and returns the nanoseconds of writes and of syncs.
    pub(super) fn end(self) -> (u64, u64) {
        let now = IoStatsContext::current();
        let since = |now: u64, before: u64| now.saturating_sub(before);
        (since(now.write_nanos, self.before.write_nanos), since(now.fsync_nanos, self.before.fsync_nanos))
    }
}

impl Drop for IoTimes {
    fn drop(&mut self) {
        set_perf_level(self.level);
    }
}
