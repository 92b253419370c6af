//! Times of seeks, for the statistics and for the thread's `PerfContext`.

use super::DbIterator;
use esker_base::perf_add;
use esker_base::perf_context::{PerfLevel, perf_level};
use esker_base::stats::Histogram;

/// The start of a seek.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeekStart {
    /// Nanoseconds of the clock, if the statistics collect times.
    statistics: Option<u64>,
    /// Nanoseconds of the clock and of the thread's processor time, if its `PerfContext` has times.
    perf: Option<(u64, u64)>,
}

impl DbIterator {
    /// Begins the times of a seek. Reads no clock if no time is wanted.
    #[inline]
    pub(super) fn begin_seek(&self) -> SeekStart {
        let is_wanted = perf_level() >= PerfLevel::EnableTimeExceptForMutex;
        let perf = if is_wanted { Some(self.seek_clocks()) } else { None };
        SeekStart { statistics: self.db.engine.start_timing(), perf }
    }

    /// Ends the times of a seek.
    #[inline]
    pub(super) fn end_seek(&self, start: SeekStart) {
        self.db.engine.end_timing(Histogram::DbSeek, start.statistics);
        if let Some(before) = start.perf {
            self.add_seek(before);
        }
    }

    #[cold]
    fn seek_clocks(&self) -> (u64, u64) {
        let clock = &self.db.engine.env.clock;
        let with_cpu = perf_level() >= PerfLevel::EnableTimeAndCpuTimeExceptForMutex;
        (clock.monotonic_nanos(), if with_cpu { clock.thread_cpu_nanos() } else { 0 })
    }

    #[cold]
    fn add_seek(&self, before: (u64, u64)) {
        let now = self.seek_clocks();
        perf_add!(seek_internal_seek_time, now.0.saturating_sub(before.0));
        perf_add!(iter_seek_cpu_nanos, now.1.saturating_sub(before.1));
    }
}
