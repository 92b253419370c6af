//! Long scans: scans that read more than the cache could keep for them.
//!
//! In: blocks that a scan passes, in order. Out: whether the next one goes into the cache.
//!
//! A full cache evicts one block for each block that comes in. A long scan gains nothing from that:
//! its blocks evict others and then each other, and the next scan finds none of them. (LRU and its
//! relatives lose a loop that is longer than the cache.) So a scan that has read a quarter of the
//! capacity from files, one block after the other, puts no more blocks into a full cache.
//! PostgreSQL's bulk reads have the same limit, and then use a ring of a few buffers
//! (`storage/buffer/README`). The cached blocks stay and the next scan finds them. Each scan adds
//! another quarter, so that tables that fit are cached after a few scans. The scan itself reuses a
//! few blocks of memory, which stay in the processor's cache.
//!
//! Scans that run over a table at the same time read for each other: while two of them are long,
//! each puts its blocks into the cache.
//!
//! Invariants
//!  1. A block that does not go into the cache is charged to it for as long as it is held.
//!  2. `LongScans` counts the `LongScan`s that have read as much as [`SHARE`] says, and have not
//!     ended or jumped.

use crate::readahead::SEQUENTIAL_GAP;
use esker_base::sync::Arc;
use esker_base::sync::atomic::{AtomicUsize, Ordering};
use esker_format::cursor::ScanProgress;
use std::ops::Range;

/// A scan may put one part in this many of the capacity into the cache.
const SHARE: usize = 4;
/// A cache with at most one part in this many free counts as full: an eviction has just made that
/// room.
const FREE_SHARE: usize = 32;

/// Long scans of one table that are under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct LongScans(Arc<AtomicUsize>);

/// The progress of a scan of one table.
#[derive(Debug, Default)]
pub(crate) struct LongScan {
    so_far: ScanProgress,
    /// The place of the block that it passed last; `None`: any block counts as next.
    last: Option<Range<u64>>,
    /// The set of scans that counts it, if one does.
    counted_in: Option<LongScans>,
}

impl LongScan {
    /// Records that the scan passed the block at this place of its table's file.
    #[inline]
    pub(crate) fn pass(&mut self, block: Range<u64>) {
        if let Some(last) = &self.last
            && block.start.wrapping_sub(last.end).min(last.start.wrapping_sub(block.end)) > SEQUENTIAL_GAP
        {
            self.end();
        }
        self.so_far.bytes += block.end - block.start;
        self.last = Some(block);
    }

    /// Records that the last block came from the file. Returns whether that block stays out of the
    /// cache, whose `capacity` and `usage` are in bytes.
    pub(crate) fn decide_bypass(
        &mut self,
        bytes: u64,
        scans: &LongScans,
        capacity: usize,
        usage: impl FnOnce() -> usize,
    ) -> bool {
        self.so_far.read_bytes += bytes;
        let share = (capacity / SHARE) as u64;
        if self.so_far.bytes <= share {
            return false;
        }
        if self.counted_in.is_none() {
            scans.0.fetch_add(1, Ordering::Relaxed);
            self.counted_in = Some(scans.clone());
        }
        self.so_far.read_bytes > share
            && scans.0.load(Ordering::Relaxed) == 1
            && usage().saturating_add(capacity / FREE_SHARE) >= capacity
    }

    /// The progress so far.
    pub(crate) fn so_far(&self) -> ScanProgress {
        self.so_far
    }

    /// Continues a scan that has passed `so_far` in other tables.
    pub(crate) fn continue_from(&mut self, so_far: ScanProgress) {
        self.end();
        self.so_far = so_far;
        self.last = None;
    }

    /// Ends the scan's progress: it is over, or it jumps.
    fn end(&mut self) {
        if let Some(scans) = self.counted_in.take() {
            scans.0.fetch_sub(1, Ordering::Relaxed);
        }
        self.so_far = ScanProgress::default();
    }
}

impl Drop for LongScan {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests;
