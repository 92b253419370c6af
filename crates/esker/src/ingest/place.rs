//! Chooses the level of an ingested file; pure.
//!
//! In: a version, the running compactions, and the file's key range. Out: a level, and whether the
//! file overlaps anything in the database. Files that keep their sequence numbers are placed in
//! [`Batches`].
//!
//! The file goes as deep as it can: to the last level above the first one that has keys of its
//! range. There it is newer than everything it overlaps, with any sequence number.
//! Source: RocksDB `ExternalSstFileIngestionJob::AssignLevelAndSeqnoForIngestedFile`.

use crate::picker::RunningCompactions;
use crate::version::Version;
use esker_format::key::InternalKeyComparator;

/// The chosen level, and what it implies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct IngestPlace {
    pub(super) level: usize,
    /// Whether the range has older entries: then the file needs a sequence number above theirs.
    pub(super) overlaps: bool,
}

/// The place of a file with user keys `[smallest, largest]`, above level `below`. Level 0 is
/// compacted to `base_level`; the levels between are kept empty. `replaces`: all that the file may
/// overlap goes away with its ingestion.
pub(super) fn place(
    version: &Version,
    running: &RunningCompactions,
    (base_level, below): (usize, usize),
    (smallest, largest): (&[u8], &[u8]),
    replaces: bool,
) -> IngestPlace {
    let mut level = 0;
    for candidate in 0..version.num_levels() {
        if candidate > 0 && candidate < base_level {
            continue;
        }
        if replaces {
            if candidate < below {
                level = candidate;
            }
            continue;
        }
        if version.overlaps(candidate, Some(smallest), Some(largest)) {
            return IngestPlace { level, overlaps: true };
        }
        // A running compaction's outputs count as present. The file may not go below them either:
        // the compaction may be dropping deletions because nothing lies below.
        if running.writes_into(candidate, smallest, largest, version.icmp()) {
            return IngestPlace { level, overlaps: true };
        }
        if candidate < below {
            level = candidate;
        }
    }
    IngestPlace { level, overlaps: false }
}

/// The user keys of a file.
#[derive(Clone, Debug)]
pub(super) struct FileKeys {
    pub(super) smallest: Vec<u8>,
    pub(super) largest: Vec<u8>,
    /// Whether `largest` is not in the file, because a range deletion ends there.
    pub(super) exclusive: bool,
}

impl FileKeys {
    /// Whether the span lies completely before the other one.
    pub(super) fn ends_before(&self, other: &FileKeys, icmp: &InternalKeyComparator) -> bool {
        let order = icmp.compare_user_keys(&self.largest, &other.smallest);
        order.is_lt() || order.is_eq() && self.exclusive
    }
}

/// The levels of one family's files that keep their sequence numbers.
///
/// Neighbours in the caller's order that do not overlap form a batch. The batch before it is older,
/// so a batch goes above all levels of that one.
pub(super) struct Batches {
    /// The levels from this one on belong to earlier batches.
    below: usize,
    /// The uppermost level of the present batch.
    uppermost: usize,
    /// The present batch, from its first key to its last.
    span: Option<FileKeys>,
}

impl Batches {
    /// No files yet, and `num_levels` levels; 0 allows level 0 only.
    pub(super) fn new(num_levels: usize) -> Batches {
        Batches { below: num_levels, uppermost: num_levels, span: None }
    }

    /// The next file may go above the returned level only; into level 0 in any case.
    pub(super) fn next(&mut self, icmp: &InternalKeyComparator, file: &FileKeys) -> usize {
        match &mut self.span {
            Some(batch) if !batch.ends_before(file, icmp) && !file.ends_before(batch, icmp) => {
                self.below = self.uppermost;
                self.span = Some(file.clone());
            }
            Some(batch) if batch.ends_before(file, icmp) => {
                batch.largest.clone_from(&file.largest);
                batch.exclusive = file.exclusive;
            }
            Some(batch) => batch.smallest.clone_from(&file.smallest),
            span => *span = Some(file.clone()),
        }
        self.below
    }

    /// The file that `next` was called for went into this level.
    pub(super) fn went_into(&mut self, level: usize) {
        self.uppermost = self.uppermost.min(level);
    }
}
