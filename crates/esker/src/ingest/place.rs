//! Chooses the level of an ingested file; pure.
//!
//! In: a version, the running compactions, and the file's key range. Out: a level, and whether the
//! file overlaps anything in the database.
//!
//! The file goes as deep as it can: below every level with none of its range, above the first level
//! with some. There it is newer than everything it overlaps, whatever its sequence number.
//! Source: RocksDB `ExternalSstFileIngestionJob::AssignLevelAndSeqnoForIngestedFile`.

use crate::picker::RunningCompactions;
use crate::version::Version;

/// An answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct IngestPlace {
    pub(super) level: usize,
    /// Something older lies in the range: the file needs a sequence number above it.
    pub(super) overlaps: bool,
}

/// For user keys `[smallest, largest]`. `base_level`: level 0 is compacted to it; those between are
/// kept empty.
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
