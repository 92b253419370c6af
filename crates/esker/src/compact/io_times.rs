//! Times of the file operations of a subcompaction, for `report_bg_io_stats`.
//!
//! In: the work of one thread. Out: its nanoseconds in writes and syncs, from the thread's
//! `IoStatsContext`. While they are measured, the thread's level counts times.

use crate::merge::compaction_iter::CompactionIteratorStats;
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

    /// Ends, and sets the nanoseconds of writes, syncs and preparations.
    pub(super) fn end(self, stats: &mut CompactionIteratorStats) {
        let (now, before) = (IoStatsContext::current(), &self.before);
        stats.file_write_nanos = now.write_nanos.saturating_sub(before.write_nanos);
        stats.file_range_sync_nanos = now.range_sync_nanos.saturating_sub(before.range_sync_nanos);
        stats.file_fsync_nanos = now.fsync_nanos.saturating_sub(before.fsync_nanos);
        stats.file_prepare_write_nanos = now.prepare_write_nanos.saturating_sub(before.prepare_write_nanos);
    }
}

impl Drop for IoTimes {
    fn drop(&mut self) {
        set_perf_level(self.level);
    }
}
