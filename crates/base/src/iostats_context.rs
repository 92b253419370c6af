//! Bytes and times of one thread's file operations.
//!
//! In: [`iostats_add!`] and [`iostats_time!`] at files. Out: [`IoStatsContext::current`], for the
//! thread. Names are RocksDB's (`include/rocksdb/iostats_context.h`).
//!
//! Counts are kept, unless [`IoStatsContext::disable_iostats`] says no, at every level of
//! [`PerfLevel`](crate::perf_context::PerfLevel), as in RocksDB; times from
//! `EnableTimeExceptForMutex` on, processor times from `EnableTimeAndCpuTimeExceptForMutex` on.
//! Cost of a count: one addition to a thread-local number beside a call of the system. Cost of a
//! time that the level leaves out: one thread-local read and a comparison.
//!
//! [`iostats_add!`]: crate::iostats_add
//! [`iostats_time!`]: crate::iostats_time

use crate::thread_numbers::thread_numbers;
use std::cell::Cell;

thread_numbers! {
    /// A copy of a thread's numbers since its last reset.
    ///
    /// ```
    /// use esker_base::iostats_context::IoStatsContext;
    ///
    /// IoStatsContext::reset();
    /// // … read or write …
    /// let io = IoStatsContext::current();
    /// println!("{} bytes read, {} written", io.bytes_read, io.bytes_written);
    /// # assert_eq!(io.bytes_read, 0);
    /// ```
    #[non_exhaustive]
    IoStatsContext,
    LiveIoStats {
        is_off: Cell<bool> = Cell::new(false),
        pool: Cell<u8> = Cell::new(NO_POOL),
    },
    with_live_iostats,
    drop_nothing,
    bytes_read,
    bytes_written,
    open_nanos,
    allocate_nanos,
    write_nanos,
    read_nanos,
    range_sync_nanos,
    fsync_nanos,
    prepare_write_nanos,
    logger_nanos,
    cpu_write_nanos,
    cpu_read_nanos,
    hot_file_bytes_read,
    warm_file_bytes_read,
    cool_file_bytes_read,
    cold_file_bytes_read,
    ice_file_bytes_read,
    unknown_non_last_level_bytes_read,
    unknown_last_level_bytes_read,
    hot_file_read_count,
    warm_file_read_count,
    cool_file_read_count,
    cold_file_read_count,
    ice_file_read_count,
    unknown_non_last_level_read_count,
    unknown_last_level_read_count,
}

/// The pool of a thread of the user: RocksDB's `Env::Priority::TOTAL`.
const NO_POOL: u8 = 4;

const fn drop_nothing() {}

impl IoStatsContext {
    /// Counts no bytes of this thread from now on, or counts them again; times go on by the level.
    /// For work of a program that is not to appear in the numbers of a request.
    ///
    /// ```
    /// use esker_base::iostats_context::IoStatsContext;
    ///
    /// let former = IoStatsContext::disable_iostats(true);
    /// // … a read that nobody asked about …
    /// IoStatsContext::disable_iostats(former);
    /// ```
    /// Returns what was before.
    pub fn disable_iostats(disable: bool) -> bool {
        with_live_iostats(|live| live.is_off.replace(disable))
    }

    /// The pool of this thread, by RocksDB's `Env::Priority`: 0 for BOTTOM, 1 for LOW, 2 for HIGH,
    /// and 4 (`TOTAL`) for a thread of no pool.
    pub fn thread_pool_id() -> u64 {
        with_live_iostats(|live| u64::from(live.pool.get()))
    }
}

/// Notes the pool of this thread. For pools.
#[doc(hidden)]
pub fn set_thread_pool_id(pool: u8) {
    with_live_iostats(|live| live.pool.set(pool));
}

/// `iostats_add!(bytes_read, n)`: adds `n` (a `u64`) to a number of this thread.
#[macro_export]
macro_rules! iostats_add {
    ($field:ident, $amount:expr) => {
        $crate::iostats_context::with_live_iostats(|live| {
            if !live.is_off.get() {
                live.$field.set(live.$field.get().wrapping_add($amount));
            }
        })
    };
}

/// `iostats_time!(fsync_nanos, clock, { … })` runs the block, adds its nanoseconds by
/// `clock.monotonic_nanos()`, and returns its value. `iostats_time!(read_nanos, cpu_read_nanos,
/// clock, { … })` also adds its processor time by `clock.thread_cpu_nanos()`. It reads no clock
/// below the level of a time. After a `return` or `?` in the block nothing is added.
#[macro_export]
macro_rules! iostats_time {
    ($field:ident, $clock:expr, $body:expr) => {
        $crate::time_number!(
            $crate::iostats_context::with_live_iostats,
            monotonic_nanos,
            EnableTimeExceptForMutex,
            $field,
            $clock,
            $body
        )
    };
    ($field:ident, $cpu_field:ident, $clock:expr, $body:expr) => {
        $crate::time_number!(
            $crate::iostats_context::with_live_iostats,
            thread_cpu_nanos,
            EnableTimeAndCpuTimeExceptForMutex,
            $cpu_field,
            $clock,
            $crate::iostats_time!($field, $clock, $body)
        )
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf_context::{PerfLevel, set_perf_level};

    struct Ticking(Cell<u64>);

    impl Ticking {
        fn monotonic_nanos(&self) -> u64 {
            self.0.set(self.0.get() + 10);
            self.0.get()
        }

        fn thread_cpu_nanos(&self) -> u64 {
            self.0.set(self.0.get() + 1);
            self.0.get()
        }
    }

    #[test]
    fn counts_at_every_level_and_times_from_theirs_on() {
        let count = || {
            let clock = Ticking(Cell::new(0));
            set_perf_level(PerfLevel::Disable);
            iostats_add!(bytes_read, 3);
            assert_eq!(iostats_time!(read_nanos, cpu_read_nanos, clock, 7), 7);
            assert_eq!(clock.0.get(), 0, "the clock was not read");
            set_perf_level(PerfLevel::EnableTimeExceptForMutex);
            assert_eq!(iostats_time!(read_nanos, cpu_read_nanos, clock, 7), 7);
            let io = IoStatsContext::current();
            assert_eq!((io.bytes_read, io.read_nanos, io.cpu_read_nanos), (3, 10, 0));
            set_perf_level(PerfLevel::EnableTimeAndCpuTimeExceptForMutex);
            iostats_time!(read_nanos, cpu_read_nanos, clock, ());
            let io = IoStatsContext::current();
            assert_eq!((io.read_nanos, io.cpu_read_nanos), (20, 21));
            assert_eq!(io.to_string(), "bytes_read = 3, read_nanos = 20, cpu_read_nanos = 21");
            assert!(!IoStatsContext::disable_iostats(true));
            iostats_add!(bytes_read, 3);
            assert!(IoStatsContext::disable_iostats(false));
            iostats_add!(bytes_read, 1);
            assert_eq!(IoStatsContext::current().bytes_read, 4);
            assert_eq!(IoStatsContext::thread_pool_id(), 4);
            IoStatsContext::reset();
            assert_eq!(IoStatsContext::current(), IoStatsContext::default());
        };
        std::thread::scope(|scope| {
            scope.spawn(count);
        });
    }
}
