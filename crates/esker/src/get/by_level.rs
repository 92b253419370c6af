//! Counts by level of point reads, for threads that ask for them: RocksDB's
//! `user_key_return_count` and `get_from_table_nanos`.
//!
//! In: a read of one table. Out: the numbers of
//! [`PerfContext::level_to_perf_context`](esker_base::perf_context::PerfContext). The other numbers
//! by level come from the tables.

use esker_base::perf_context::{self, PerfLevel, count_at_level, counts_by_level, perf_level};
use esker_env::Clock;

/// Runs `read`, which reads tables of `level`, and counts its time.
#[inline]
pub(super) fn timed<R>(level: usize, clock: &dyn Clock, read: impl FnOnce() -> R) -> R {
    let begun = begin(clock);
    let out = read();
    if let Some(begun) = begun {
        add_nanos(level, perf_context::time_since(begun, || clock.monotonic_nanos()));
    }
    out
}

#[inline]
fn begin(clock: &dyn Clock) -> Option<u64> {
    counts_by_level()
        .then(|| (perf_level() >= PerfLevel::EnableTimeExceptForMutex).then(|| clock.monotonic_nanos()))?
}

#[cold]
fn add_nanos(level: usize, nanos: u64) {
    count_at_level(level as u32, |level| level.get_from_table_nanos += nanos);
}

/// Counts keys whose value was found at `level`.
#[cold]
pub(super) fn found(level: usize, keys: usize) {
    if keys > 0 {
        count_at_level(level as u32, |level| level.user_key_return_count += keys as u64);
    }
}
