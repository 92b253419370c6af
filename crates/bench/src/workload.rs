//! The work of each thread of a benchmark.
//!
//! In: a [`Worker`] with an open database, random numbers and counts of its own. Out: counts, or
//! the first error. Source of the work: RocksDB's `db_bench` and its documentation.

mod background;
mod compute;
mod delete;
mod mixed;
mod multi_scan;
mod read;
mod scan;
mod write;

use crate::engine::BenchEngine;
use crate::flags::Flags;
use crate::keys::{KeyMaker, WriteOrder};
use crate::random::Random64;
use crate::report::Stats;
use crate::values::Values;
use esker::internals::base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use esker::internals::env::{Clock, IoKind, IoPriority, RateLimiter};
use esker::{Error, ReadOptions, WriteOptions};
use std::sync::OnceLock;

/// An error, and the operation that returned it.
pub(crate) struct Broken {
    pub(crate) doing: &'static str,
    pub(crate) error: Error,
}

pub(crate) type WorkloadOutcome<T = ()> = Result<T, Broken>;

/// Adds the operation to an error.
pub(crate) trait While<T> {
    fn doing(self, doing: &'static str) -> WorkloadOutcome<T>;
}

impl<T> While<T> for esker::Result<T> {
    #[inline]
    fn doing(self, doing: &'static str) -> WorkloadOutcome<T> {
        self.map_err(|error| Broken { doing, error })
    }
}

/// The sizes and options of one benchmark, computed from the flags.
#[derive(Clone, Debug)]
pub(crate) struct WorkloadPlan {
    /// Number of keys to write.
    pub(crate) num: u64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) deletes: u64,
    /// Number of operations, for benchmarks that read and write.
    pub(crate) readwrites: u64,
    pub(crate) merge_keys: u64,
    pub(crate) batch_size: u64,
    pub(crate) key_size: usize,
    pub(crate) value_size: usize,
    pub(crate) read_options: ReadOptions,
    pub(crate) write_options: WriteOptions,
}

/// A benchmark that threads run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Workload {
    Write(WriteOrder),
    ReadSequential,
    ReadReverse,
    ReadRandom,
    /// Like `ReadRandom`, among the first hundredth of the keys.
    ReadHot,
    MultiReadRandom,
    MultiScan,
    MultiScanRandom,
    NewIterator,
    SeekRandom,
    /// The first thread does background work. The other threads are measured.
    Behind(Background, Foreground),
    ReadRandomWriteRandom,
    UpdateRandom,
    MergeRandom,
    DeleteSequential,
    DeleteRandom,
    Compact,
    Checksum(compute::Checksum),
    Compress,
    Uncompress,
}

/// The work of the first thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Background {
    Write,
    Merge,
    Scan,
}

/// The work of the other threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Foreground {
    Read,
    MultiRead,
    Seek,
    NewIterator,
}

pub(crate) use compute::Checksum;
pub(crate) use multi_scan::range_keys;

/// The state that the threads of one benchmark share.
#[derive(Default)]
pub(crate) struct WorkloadShared {
    /// Number of threads.
    pub(crate) threads: usize,
    /// Number of finished threads.
    finished: AtomicUsize,
    /// Whether a thread has failed. All threads then stop.
    failed: AtomicBool,
    first_error: OnceLock<Broken>,
    write_limiter: Option<RateLimiter>,
    read_limiter: Option<RateLimiter>,
}

impl WorkloadShared {
    /// The state for `threads` threads, with limiters of their writes and reads.
    pub(crate) fn new(
        threads: usize,
        write: Option<RateLimiter>,
        read: Option<RateLimiter>,
    ) -> WorkloadShared {
        WorkloadShared { threads, write_limiter: write, read_limiter: read, ..WorkloadShared::default() }
    }

    /// The first error.
    pub(crate) fn into_error(self) -> Option<Broken> {
        self.first_error.into_inner()
    }

    /// Whether all threads except one have finished.
    fn others_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire) + 1 >= self.threads
    }
}

/// One thread of a benchmark.
pub(crate) struct Worker<'a, E> {
    pub(crate) engine: &'a E,
    pub(crate) flags: &'a Flags,
    pub(crate) plan: &'a WorkloadPlan,
    pub(crate) shared: &'a WorkloadShared,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) output: &'a crate::output::BenchOutput,
    /// The thread's number; the first thread has 0.
    pub(crate) index: usize,
    /// The seed of the run.
    pub(crate) seed: u64,
    pub(crate) random: Random64,
    pub(crate) keys: KeyMaker,
    pub(crate) stats: Stats<'a>,
}

impl<'a, E: BenchEngine> Worker<'a, E> {
    /// Does the work of this thread. An error stops the other threads, too.
    pub(crate) fn run(&mut self, workload: Workload) {
        let outcome = match workload {
            Workload::Write(order) => self.write(order),
            Workload::ReadSequential => self.read_in_order(false),
            Workload::ReadReverse => self.read_in_order(true),
            Workload::ReadRandom => self.read_random(self.key_count()),
            Workload::ReadHot => self.read_random(self.key_count().div_ceil(100)),
            Workload::MultiReadRandom => self.multi_read_random(),
            Workload::MultiScan => self.multi_scan(),
            Workload::MultiScanRandom => self.multi_scan_random(),
            Workload::NewIterator => self.new_iterator(),
            Workload::SeekRandom => self.seek_random(),
            Workload::Behind(background, _) if self.index == 0 => self.run_behind(background),
            Workload::Behind(_, Foreground::Read) => self.read_random(self.key_count()),
            Workload::Behind(_, Foreground::MultiRead) => self.multi_read_random(),
            Workload::Behind(_, Foreground::Seek) => self.seek_random(),
            Workload::Behind(_, Foreground::NewIterator) => self.new_iterator(),
            Workload::ReadRandomWriteRandom => self.read_random_write_random(),
            Workload::UpdateRandom => self.update_random(),
            Workload::MergeRandom => self.merge_random(),
            Workload::DeleteSequential => self.delete(true),
            Workload::DeleteRandom => self.delete(false),
            Workload::Compact => self.compact(),
            Workload::Checksum(kind) => self.checksum(kind),
            Workload::Compress => self.compress(),
            Workload::Uncompress => self.uncompress(),
        };
        if let Err(broken) = outcome {
            // Later errors are dropped: the first error ends the run.
            self.shared.first_error.set(broken).ok();
            self.shared.failed.store(true, Ordering::Release);
        }
        self.shared.finished.fetch_add(1, Ordering::Release);
    }

    fn compact(&mut self) -> WorkloadOutcome {
        let threads = u32::try_from(self.flags.subcompactions).unwrap_or(u32::MAX);
        self.engine.compact(true, threads).doing("compact")
    }

    /// The number of keys: `--num`.
    fn key_count(&self) -> u64 {
        non_negative(self.flags.num).max(1)
    }

    fn values(&self) -> Values {
        Values::new(self.flags, self.plan.value_size, self.seed.wrapping_add(self.index as u64))
    }

    /// Draws a random number and ignores it. RocksDB's tool draws this number to choose a database.
    /// Without this draw, the later keys would differ from that tool's keys.
    #[inline]
    fn skip_choice_of_database(&mut self) {
        self.random.next();
    }

    /// The budget of a loop of `operations` operations, or of `--duration` seconds.
    fn budget(&self, operations: u64) -> Budget<'a> {
        self.budget_within(operations, non_negative(self.flags.duration))
    }

    /// The budget of a loop: `seconds` seconds, or `operations` operations if `seconds` is 0.
    fn budget_within(&self, operations: u64, seconds: u64) -> Budget<'a> {
        let check_every = non_negative(self.flags.ops_between_duration_checks).max(1);
        Budget {
            done: 0,
            limit: if seconds > 0 { u64::MAX } else { operations },
            check_every,
            next_check: check_every,
            end_nanos: (seconds > 0).then(|| self.clock.monotonic_nanos() + seconds * 1_000_000_000),
            clock: self.clock,
            failed: &self.shared.failed,
        }
    }

    /// Waits until the limiter permits `operations` more reads.
    fn limit_reads(&mut self, operations: u64) {
        if let Some(limiter) = &self.shared.read_limiter {
            limiter.request(operations, IoPriority::High, IoKind::Read, self.clock, None);
        }
    }

    /// Waits until the limiter permits `bytes` more bytes of writes.
    #[inline]
    fn limit_writes(&mut self, bytes: u64) {
        if let Some(limiter) = &self.shared.write_limiter {
            limiter.request(bytes, IoPriority::High, IoKind::Write, self.clock, None);
            self.stats.reset_last_op_time();
        }
    }
}

/// A signed number as a count: negative numbers become 0.
pub(crate) fn non_negative(n: impl TryInto<u64>) -> u64 {
    n.try_into().unwrap_or(0)
}

/// The limit of a loop: a number of operations or a time.
pub(crate) struct Budget<'a> {
    done: u64,
    limit: u64,
    check_every: u64,
    next_check: u64,
    end_nanos: Option<u64>,
    clock: &'a dyn Clock,
    failed: &'a AtomicBool,
}

impl Budget<'_> {
    /// Counts `operations` more operations. Returns whether the loop may run them. Reads the clock
    /// only once in `check_every` operations.
    #[inline]
    pub(crate) fn take(&mut self, operations: u64) -> bool {
        self.done += operations.max(1);
        if self.done >= self.next_check && self.is_over() {
            return false;
        }
        self.done <= self.limit
    }

    #[cold]
    fn is_over(&mut self) -> bool {
        self.next_check = (self.done / self.check_every + 1) * self.check_every;
        self.failed.load(Ordering::Acquire)
            || self.end_nanos.is_some_and(|end| self.clock.monotonic_nanos() >= end)
    }
}
