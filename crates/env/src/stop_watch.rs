//! A stop watch: records how long a call takes in a histogram.
//!
//! In: statistics, a clock. Out: dropping the watch records the microseconds since it was made.
//! If times are not collected, the clock is not read. Source: RocksDB `util/stop_watch.h`.

use crate::clock::Clock;
use esker_base::stats::{Histogram, Statistics};

/// Runs until it is dropped.
pub struct StopWatch<'a> {
    running: Option<Running<'a>>,
}

struct Running<'a> {
    statistics: &'a Statistics,
    clock: &'a dyn Clock,
    histogram: Histogram,
    start_nanos: u64,
}

impl<'a> StopWatch<'a> {
    /// Starts, if these statistics collect times.
    #[inline]
    pub fn start(
        statistics: Option<&'a Statistics>,
        clock: &'a dyn Clock,
        histogram: Histogram,
    ) -> StopWatch<'a> {
        let wanted = statistics.filter(|statistics| statistics.collects_times());
        let running = wanted.map(|statistics| Running {
            statistics,
            clock,
            histogram,
            start_nanos: clock.monotonic_nanos(),
        });
        StopWatch { running }
    }
}

impl Drop for StopWatch<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(Running { statistics, clock, histogram, start_nanos }) = &self.running {
            let micros = clock.monotonic_nanos().saturating_sub(*start_nanos) / 1000;
            statistics.report_time_to_histogram(*histogram, micros);
        }
    }
}

impl std::fmt::Debug for StopWatch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StopWatch").field("is_running", &self.running.is_some()).finish_non_exhaustive()
    }
}
