//! Chooses the level of an ingested file; pure.
//!
//! In: a version, the running compactions, and the file's key range. Out: a level, and whether the
//! file overlaps anything in the database.
//!
//! The file goes as deep as it can: to the last level above the first one that has keys of its
//! range. There it is newer than everything it overlaps, with any sequence number.
//! Source: RocksDB `ExternalSstFileIngestionJob::AssignLevelAndSeqnoForIngestedFile`.

use crate::picker::RunningCompactions;
use crate::version::Version;

/// The chosen level, and what it implies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct IngestPlace {
    pub(super) level: usize,
    /// Whether the range has older entries: then the file needs a sequence number above theirs.
    pub(super) overlaps: bool,
}

/// The place of a file with user keys `[smallest, largest]`. Level 0 is compacted to `base_level`;
/// the levels between are kept empty.
pub(super) fn place(
    version: &Version,
    running: &RunningCompactions,
    base_level: usize,
    smallest: &[u8],
    largest: &[u8],
) -> IngestPlace {
    let mut level = 0;
    for candidate in 0..version.num_levels() {
        if candidate > 0 && candidate < base_level {
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
        level = candidate;
    }
    IngestPlace { level, overlaps: false }
}
