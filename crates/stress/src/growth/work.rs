//! The cost of an operation, counted without a clock.
//!
//! In: an action on a [`GrowthSubject`]. Out: [`Work`], one number for each [`Measure`].
//!
//! Invariants
//!  1. The counts cover all threads of the process; comparisons are those of the calling thread.
//!  2. Nothing else runs in the process: the campaign is a program of its own.

use super::callgrind;
use super::subject::{Act, GrowthSubject};
use esker::Result;
use esker::internals::base::allocations::Allocations;
use esker::perf_context::PerfContext;

/// A kind of work that is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Measure {
    /// Allocations, by all threads.
    Allocations,
    /// Bytes of these allocations.
    AllocatedBytes,
    /// The most bytes in use at once, beyond those in use before.
    PeakMemory,
    /// Operations on files and directories.
    FileOperations,
    /// Bytes read from and appended to files.
    FileBytes,
    /// Comparisons of user keys, entries passed over, and blocks read.
    Steps,
    /// Instructions of all threads; only under callgrind.
    Instructions,
}

impl Measure {
    pub(super) const ALL: [Measure; 7] = [
        Measure::Allocations,
        Measure::AllocatedBytes,
        Measure::PeakMemory,
        Measure::FileOperations,
        Measure::FileBytes,
        Measure::Steps,
        Measure::Instructions,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Measure::Allocations => "allocations",
            Measure::AllocatedBytes => "allocated bytes",
            Measure::PeakMemory => "peak memory",
            Measure::FileOperations => "file operations",
            Measure::FileBytes => "file bytes",
            Measure::Steps => "steps",
            Measure::Instructions => "instructions",
        }
    }

    /// Growth from the smallest size to the largest that means nothing: rounding up to blocks,
    /// lengths of numbers, full nodes of a tree.
    pub(super) fn floor(self) -> f64 {
        match self {
            Measure::Allocations => 60.0,
            Measure::AllocatedBytes => 60_000.0,
            Measure::PeakMemory => 60_000.0,
            Measure::FileOperations => 6.0,
            Measure::FileBytes => 6_000.0,
            Measure::Steps => 40.0,
            Measure::Instructions => 60_000.0,
        }
    }
}

/// One number for each measure, in the order of [`Measure::ALL`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work([u64; Measure::ALL.len()]);

impl Work {
    pub(super) fn of(&self, measure: Measure) -> u64 {
        self.0[measure as usize]
    }

    /// The lesser number of each measure.
    pub(super) fn least(&self, other: &Work) -> Work {
        Work(std::array::from_fn(|i| self.0[i].min(other.0[i])))
    }
}

/// Runs `act` and counts.
pub(super) fn measure(subject: &mut GrowthSubject, act: Act) -> Result<Work> {
    let (operations, bytes) = (subject.fs.op_count(), subject.fs.byte_count());
    PerfContext::reset();
    Allocations::reset_peak();
    let before = Allocations::now();
    callgrind::mark_begin();
    // The count includes the background work that the call causes.
    act(subject).and_then(|()| subject.settle())?;
    callgrind::mark_end();
    let after = Allocations::now();
    let steps = steps(&PerfContext::current());
    Ok(Work([
        after.count - before.count,
        after.bytes - before.bytes,
        after.peak.saturating_sub(before.live),
        subject.fs.op_count() - operations,
        subject.fs.byte_count() - bytes,
        steps,
        callgrind::last_count(),
    ]))
}

fn steps(context: &PerfContext) -> u64 {
    context.user_key_comparison_count
        + context.internal_key_skipped_count
        + context.internal_delete_skipped_count
        + context.internal_recent_skipped_count
        + context.internal_merge_count
        + context.block_read_count
        + context.block_cache_hit_count
}
