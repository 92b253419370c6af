//! The queue of pre-scans: deleted runs to read in the background before a scan reaches them.
//!
//! In: the long runs of tables that flushes and compactions have installed, and deletions that
//! active memtables have sampled. Out: a queue of pre-scans; `pre_scan.rs` runs them.
//!
//! Invariants
//!  1. The queue holds at most `MOST_WAITING` pre-scans. Scans have to step through further runs.
//!  2. A run is queued only if another table has entries in its range: otherwise the span in the
//!     run's own table is enough to skip it.
//!  3. At most one pre-scan around sampled deletions waits for each family, with at most
//!     `MOST_KEYS` deletions.

use crate::version::Version;
use esker_base::ColumnFamilyId;
use esker_format::deleted_runs::LongDeletedRun;
use esker_memtable::SampledDeletions;
use std::collections::VecDeque;

/// Most waiting pre-scans of all families.
const MOST_WAITING: usize = 256;
/// Entries that a pre-scan may pass for each entry of its run: older versions and entries between
/// them.
const ENTRIES_EACH: u64 = 16;

/// Most sampled deletions of a family that wait. Further samples are dropped.
const MOST_KEYS: usize = 1024;

/// A pre-scan over a deleted run, or the rest of one.
#[derive(Debug)]
pub(crate) struct PreScan {
    pub(crate) family: ColumnFamilyId,
    /// The user key at which the pre-scan continues.
    pub(crate) from: Vec<u8>,
    /// If set, `from` and `last` do not count: the pre-scan reads around these deleted user keys,
    /// which are still to be done.
    pub(crate) around: Option<Vec<Vec<u8>>>,
    /// The last user key of the run.
    pub(crate) last: Vec<u8>,
    /// Entries that the pre-scan has passed, and (`most_entries`) the entries that it may pass in
    /// total.
    pub(crate) passed: u64,
    pub(crate) most_entries: u64,
    /// Around sampled deletions: deletions that the memtable took since the last pre-scan.
    pub(crate) deletions: u64,
    /// Microseconds that the pre-scan has taken.
    pub(crate) micros: u64,
    /// Visible keys that it has found, and (`most_there`) the number of them that ends it.
    pub(crate) keys_there: u64,
    pub(crate) most_there: u64,
}

/// Waiting pre-scans of all families, and the work of earlier ones. Part of the db state.
#[derive(Debug, Default)]
pub(crate) struct PreScanQueue {
    pub(super) waiting: VecDeque<PreScan>,
    /// Entries that all pre-scans so far have passed.
    pub(crate) pre_scanned_entries: u64,
    /// Whether a job that takes pre-scans is scheduled and has not ended.
    pub(crate) pre_scan_scheduled: bool,
}

impl PreScanQueue {
    /// Whether no pre-scan waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes the first waiting pre-scan.
    pub(crate) fn take_first(&mut self) -> Option<PreScan> {
        self.waiting.pop_front()
    }

    /// Puts the rest of a pre-scan back, in front of all others.
    pub(crate) fn put_back(&mut self, pre_scan: PreScan) {
        self.waiting.push_front(pre_scan);
    }

    /// Queues a pre-scan around deletions, or adds them to a waiting one.
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

    /// Queues pre-scans over those of `spans` that overlap another table. REQUIRES: the tables of
    /// `spans` are in `version`.
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
                    // A pre-scan that finds only visible keys costs as much as a scan and helps no
                    // other scan.
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
    // A run may continue from one table of a level into the next, but then each table has its own
    // span of the run.
    (0..version.num_levels()).map(in_level).sum()
}
