//! Scans that read more than the cache could keep for them.
//!
//! In: blocks that a scan passes, one after the other. Out: whether the next one shall go into the
//! cache.
//!
//! A cache that is full lets something go for each block that comes in. For a scan that goes on and
//! on that is in vain: its blocks push out others, and then each other, and when the next scan
//! comes none of them is there (the loop that is longer than the cache, which LRU and all that are
//! like it lose). So a scan that has read a quarter of the capacity from files, without leaving its
//! course, does not put more blocks into a full cache (PostgreSQL's bulk reads draw the line there
//! too, and go round in a ring of a few buffers behind it: `storage/buffer/README`). What is there
//! stays and is found by the next one. Each scan adds another quarter, so that tables that do fit
//! are in the cache after a few. And the scan goes through the same few blocks of memory, which are
//! in the processor's cache, instead of through all of the block cache's.
//!
//! Scans that go over a table at the same time read for each other: as long as there are two that
//! have gone far, each puts in what it reads.
//!
//! Invariants
//!  1. A block that does not go into the cache is charged to it for as long as somebody holds it.
//!  2. `Scans` counts those `LongScan`s that have come as far as [`SHARE`] says, and have not ended
//!     or left their course.

use crate::readahead::SEQUENTIAL_GAP;
use esker_base::iter::Passed;
use esker_base::sync::Arc;
use esker_base::sync::atomic::{AtomicUsize, Ordering};
use std::ops::Range;

/// What part of the cache's capacity one scan may put in.
const SHARE: usize = 4;
/// So much of the capacity may be free in a cache that counts as full: what others have just made
/// room for.
const FREE_SHARE: usize = 32;

/// Long scans of one table that are under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scans(Arc<AtomicUsize>);

/// How far the scan of one table has come.
#[derive(Debug, Default)]
pub(crate) struct LongScan {
    so_far: Passed,
    /// Where the block lies that it has passed last; `None`: whatever comes is next.
    last: Option<Range<u64>>,
    /// Where it is counted, if it is.
    counted_in: Option<Scans>,
}

impl LongScan {
    /// It has come past the block that lies there, in its table's file.
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

    /// It has read the block that it passed last from the file. Whether that shall not go into the
    /// cache, of which `capacity` and `usage` are given in bytes.
    pub(crate) fn goes_by(
        &mut self,
        bytes: u64,
        scans: &Scans,
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

    /// How far it has come.
    pub(crate) fn so_far(&self) -> Passed {
        self.so_far
    }

    /// It goes on from the end of another table, of which so much was passed.
    pub(crate) fn go_on(&mut self, so_far: Passed) {
        self.end();
        self.so_far = so_far;
        self.last = None;
    }

    /// It ends, or goes elsewhere.
    fn end(&mut self) {
        if let Some(scans) = self.counted_in.take() {
            scans.0.fetch_sub(1, Ordering::Relaxed);
        }
        self.so_far = Passed::default();
    }
}

impl Drop for LongScan {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests;
