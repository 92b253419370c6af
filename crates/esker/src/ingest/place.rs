//! Where an ingested file goes: pure.
//!
//! In: a version, what is being compacted, and the file's key range. Out: a level, and whether
//! something in the database lies under it.
//!
//! The file goes as deep as it can: below every level that has none of its range, above the first
//! that has. There it is newer than all it overlaps, whatever sequence number that has.
//! Source: RocksDB `ExternalSstFileIngestionJob::AssignLevelAndSeqnoForIngestedFile`.

use crate::picker::RunningCompactions;
use crate::version::Version;

/// An answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
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
) -> Place {
    let mut level = 0;
    for candidate in 0..version.num_levels() {
        if candidate > 0 && candidate < base_level {
            continue;
        }
        if version.overlaps(candidate, Some(smallest), Some(largest)) {
            return Place { level, overlaps: true };
        }
        // What a compaction is about to write there is as good as there; below it nothing may go
        // either, as it may just be dropping deletions in the belief that nothing lies below.
        if running.writes_into(candidate, smallest, largest, version.icmp()) {
            return Place { level, overlaps: true };
        }
        level = candidate;
    }
    Place { level, overlaps: false }
}
