//! The queue of pre-scans: runs of deleted keys to step through in the background, before a scan
//! comes to them.
//!
//! In: the long runs of tables that flushes and compactions have installed, and deletions that
//! active memtables have sampled. Out: a queue of pre-scans; `pre_scan.rs` makes them.
//!
//! Invariants
//!  1. The queue holds at most `MOST_WAITING` pre-scans: others are left to scans.
//!  2. A run is queued only if a table besides its own has entries there: otherwise its own span is
//!     enough to pass it.
//!  3. Of each family at most one pre-scan around sampled deletions waits, with at most `MOST_KEYS`
//!     of them.

use crate::version::Version;
use esker_base::ColumnFamilyId;
use esker_format::deleted_runs::LongDeletedRun;
use esker_memtable::SampledDeletions;
use std::collections::VecDeque;

/// Pre-scans that wait at most, of all families.
const MOST_WAITING: usize = 256;
/// Entries that a pre-scan may pass for each one of its run: older versions and what else lies
/// between.
const ENTRIES_EACH: u64 = 16;

/// Most sampled deletions of a family that wait: further ones are left to scans.
const MOST_KEYS: usize = 1024;

/// A pre-scan over a run of deleted keys, or what is left of one.
#[derive(Debug)]
pub(crate) struct PreScan {
    pub(crate) family: ColumnFamilyId,
    /// The user key it goes on from.
    pub(crate) from: Vec<u8>,
    /// Instead of that, deleted user keys around which it goes, those that are left.
    pub(crate) around: Option<Vec<Vec<u8>>>,
    /// The last user key of the run.
    pub(crate) last: Vec<u8>,
    /// Entries that it has passed, and that it may pass in all.
    pub(crate) passed: u64,
    pub(crate) most_entries: u64,
    /// Around sampled deletions: how many the memtable has had since the last pre-scan.
    pub(crate) deletions: u64,
    /// Microseconds that took.
    pub(crate) micros: u64,
    /// Keys that were there after all, and how many of them end it.
    pub(crate) keys_there: u64,
    pub(crate) most_there: u64,
}

/// Pre-scans that wait, of all families, and what came of those so far. In the db state.
#[derive(Debug, Default)]
pub(crate) struct PreScanQueue {
    pub(super) waiting: VecDeque<PreScan>,
    /// Entries that all pre-scans so far have passed.
    pub(crate) pre_scanned_entries: u64,
    /// A job that takes pre-scans is scheduled, and has not ended.
    pub(crate) pre_scan_scheduled: bool,
}

impl PreScanQueue {
    /// Whether none waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes the one that waits first.
    pub(crate) fn take_first(&mut self) -> Option<PreScan> {
        self.waiting.pop_front()
    }

    /// Puts what is left of a pre-scan back: it goes on first.
    pub(crate) fn put_back(&mut self, pre_scan: PreScan) {
        self.waiting.push_front(pre_scan);
    }

    /// Queues a pre-scan around deletions, or adds them to one that waits.
    pub(crate) fn add_around(&mut self, family: ColumnFamilyId, sampled: SampledDeletions) {
        let SampledDeletions { mut keys, most_entries: most, deletions: since } = sampled;
        let waiting =
            self.waiting.iter_mut().find(|pre_scan| pre_scan.family == family && pre_scan.around.is_some());
        if let Some(PreScan { around: Some(around), passed, most_entries, deletions, .. }) = waiting {
            keys.truncate(MOST_KEYS.saturating_sub(around.len()));
            around.extend(keys);
            *most_entries = (*most_entries).max(*passed + most);
            *deletions += since;
            return;
        }
        if self.waiting.len() < MOST_WAITING {
            self.waiting.push_back(PreScan {
                family,
                from: Vec::new(),
                around: Some(keys),
                last: Vec::new(),
                passed: 0,
                most_entries: most,
                deletions: since,
                micros: 0,
                keys_there: 0,
                most_there: 0,
            });
        }
    }

    /// Queues pre-scans over those of `spans` that lie over something. REQUIRES: the tables that
    /// have them are in `version`.
    pub(crate) fn add_over<'a>(
        &mut self,
        family: ColumnFamilyId,
        version: &Version,
        spans: impl IntoIterator<Item = &'a LongDeletedRun>,
    ) {
        for span in spans {
            if self.waiting.len() < MOST_WAITING && lies_over_another(version, span) {
                self.waiting.push_back(PreScan {
                    family,
                    from: span.first.clone(),
                    around: None,
                    last: span.last.clone(),
                    passed: 0,
                    most_entries: span.entries.saturating_mul(ENTRIES_EACH),
                    deletions: 0,
                    micros: 0,
                    keys_there: 0,
                    // A pre-scan that finds nothing but keys costs a scan of them and spares no
                    // other scan anything.
                    most_there: 1 + span.entries / 64,
                });
            }
        }
    }
}

/// Whether two tables or more touch the span.
fn lies_over_another(version: &Version, span: &LongDeletedRun) -> bool {
    tables_between(version, &span.first, &span.last) > 1
}

/// Number of tables that touch the user keys from `first` to `last`.
pub(crate) fn tables_between(version: &Version, first: &[u8], last: &[u8]) -> usize {
    let (first, last) = (Some(first), Some(last));
    let in_level = |level| match level {
        0 => version.overlapping(0, first, last).len(),
        _ => version.overlapping_range(level, first, last).len(),
    };
    // A run may go on from one table of a level to the next, but then each has its own span of it.
    (0..version.num_levels()).map(in_level).sum()
}
