//! Readahead: one large read instead of many small ones, for sequential readers in either
//! direction.
//!
//! Without an explicit size it starts after a few sequential blocks and doubles up to a limit, so
//! that short scans read little they do not need. If scans of the table are usually longer
//! ([`ScanLength`]), it starts with the first missing block. One read brings the scan's blocks,
//! each into memory of its own. Source of the numbers: RocksDB `file/file_prefetch_buffer.h`.

use crate::counts;
use crate::long_scan::LongScan;
use crate::options::BlockBasedTableOptions;
use esker_base::stats::{Histogram, Statistics};
use esker_base::sync::atomic::{AtomicU32, Ordering};
use esker_base::{Buffer, Result};
use esker_env::rate_limiter::{IoKind, IoPriority, RateLimiter};
use esker_env::{Clock, RandomAccessFile};
use esker_format::handle::BlockHandle;
use esker_format::trailer::TRAILER_BYTES;
use std::sync::Arc;

mod together;
mod window;
use together::Together;
use window::Window;

/// A block with up to this many bytes between it and the last one counts as the next: padding lies
/// between aligned blocks.
pub(crate) const SEQUENTIAL_GAP: u64 = 4096;

/// The usual number of blocks that scans of a table read before they seek again or end: short scans
/// get little readahead.
///
/// All cursors of a table update it without any ordering: it is a guess. It rises slowly and falls
/// fast, so that it fits most scans when their lengths differ.
#[derive(Debug, Default)]
pub(crate) struct ScanLength {
    /// Sixteenths of a block.
    usual: AtomicU32,
}

impl ScanLength {
    /// Longer scans count as this long.
    const MOST: u32 = 16;

    /// Blocks that a scan usually reads, rounded up; 0 before the first scan.
    #[inline]
    pub(crate) fn usual(&self) -> u32 {
        (self.usual.load(Ordering::Relaxed) + 11) / 16
    }

    /// Records the blocks of one scan.
    #[inline]
    pub(crate) fn note(&self, blocks: u32) {
        let (usual, now) = (self.usual.load(Ordering::Relaxed), 16 * blocks.min(ScanLength::MOST));
        let after =
            if now > usual { usual + (now - usual).div_ceil(8) } else { usual - (usual - now).div_ceil(2) };
        if after != usual {
            self.usual.store(after, Ordering::Relaxed);
        }
    }
}

/// The place of a block relative to the block read before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Course {
    Forward,
    Backward,
    Elsewhere,
}

/// A block that was read with readahead.
#[derive(Debug)]
pub(crate) enum ReadaheadState<'a> {
    /// The stored block with its trailer.
    Stored(&'a [u8]),
    /// The stored block with its trailer, in memory that the caller gets.
    Own(Buffer),
    /// No readahead: the caller reads the block alone.
    Alone,
    /// The block could not be read together with its neighbours. It may be readable alone; only its
    /// own error is reported.
    Failed,
}

/// A rate limiter for reads from a file.
#[derive(Clone, Debug)]
pub struct ReadPace {
    /// Decides when bytes may be read.
    pub limiter: Arc<RateLimiter>,
    /// Priority of its reads.
    pub priority: IoPriority,
    /// The clock for waits.
    pub clock: Arc<dyn Clock>,
    /// Counts the requests.
    pub statistics: Option<Arc<Statistics>>,
}

impl ReadPace {
    /// Waits until this many bytes may be read.
    pub fn wait_for(&self, bytes: u64) {
        self.limiter.request(bytes, self.priority, IoKind::Read, &*self.clock, self.statistics.as_deref());
    }
}

/// The readahead of one reader of one table.
#[derive(Debug)]
pub(crate) struct Readahead {
    pace: Option<ReadPace>,
    window: Window,
    explicit: usize,
    initial: usize,
    size: usize,
    most: usize,
    reads_before: u64,
    /// Number of blocks after the next one that the reader will probably need.
    expected: u32,
    together: Together,
    /// Sequential reads on this course.
    reads: u64,
    course: Course,
    /// The start of the last block; the next field is its end.
    last_start: u64,
    last_end: u64,
    /// Counts readahead and its use, from the first read on. A reader that finds its blocks in the
    /// cache takes no reference, which all threads would share.
    statistics: Option<Arc<Statistics>>,
    /// Progress of its reader.
    pub(crate) long: LongScan,
}

impl Readahead {
    /// `explicit` bytes from the first read on; 0: the size adapts, by the table's options.
    pub(crate) fn new(options: &BlockBasedTableOptions, explicit: usize) -> Readahead {
        let initial = options.initial_auto_readahead_size.min(options.max_auto_readahead_size);
        Readahead {
            pace: None,
            window: Window::default(),
            explicit,
            initial,
            size: initial,
            most: options.max_auto_readahead_size,
            reads_before: options.num_file_reads_for_auto_readahead,
            expected: 0,
            together: Together::default(),
            reads: 0,
            course: Course::Elsewhere,
            last_start: 0,
            last_end: u64::MAX,
            statistics: None,
            long: LongScan::default(),
        }
    }

    /// Counts bytes that one call has read for the next block and those behind it.
    fn count_read(&mut self, bytes: u64, statistics: Option<&Arc<Statistics>>) {
        if self.statistics.is_none() {
            self.statistics = statistics.cloned();
        }
        counts::prefetched(statistics, bytes);
    }

    /// Bytes that were read ahead and that the reader has not reached.
    fn unread(&self) -> u64 {
        let held = self.window.range();
        let ahead = match self.course {
            Course::Backward => held.start..self.last_start.min(held.end),
            Course::Forward | Course::Elsewhere => self.last_end.max(held.start)..held.end,
        };
        ahead.end.saturating_sub(ahead.start) + self.together.bytes()
    }

    /// Sets the pace of later reads.
    pub(crate) fn set_pace(&mut self, pace: Option<ReadPace>) {
        self.pace = pace;
    }

    /// The pace.
    pub(crate) fn pace(&self) -> Option<&ReadPace> {
        self.pace.as_ref()
    }

    /// Takes the pace out, for another reader.
    pub(crate) fn take_pace(&mut self) -> Option<ReadPace> {
        self.pace.take()
    }

    /// Waits until this many bytes may be read.
    fn wait_for(&self, bytes: u64) {
        if let Some(pace) = &self.pace {
            pace.wait_for(bytes);
        }
    }

    /// Announces that the reader goes forward and will probably need this many blocks after the
    /// next one.
    #[inline]
    pub(crate) fn expect(&mut self, blocks: u32) {
        self.expected = blocks;
    }

    /// Number of blocks after this missing one that would be read with it.
    #[inline]
    pub(crate) fn neighbours(&self, handle: BlockHandle) -> u32 {
        let is_adaptive = self.explicit == 0 && self.most > 0;
        let is_there = || {
            // The index may be damaged, so the size may be any number.
            let length = (handle.size as usize).saturating_add(TRAILER_BYTES);
            self.together.has(handle) || self.window.get(handle.offset, length).is_some()
        };
        if is_adaptive && self.expected > 0 && !is_there() { self.expected } else { 0 }
    }

    /// The list for the blocks to read together with `first`, which the reader needs next.
    pub(crate) fn plan(&mut self, first: BlockHandle) -> &mut Vec<BlockHandle> {
        self.together.plan(first)
    }

    /// Records that the reader got the block from elsewhere (the cache). Its neighbours count as
    /// next.
    pub(crate) fn skipped(&mut self, handle: BlockHandle) {
        self.long.pass(handle.offset..end_of(handle));
        if self.course_to(handle) != Course::Elsewhere {
            self.passed(handle);
        }
    }

    fn passed(&mut self, handle: BlockHandle) {
        (self.last_start, self.last_end) = (handle.offset, end_of(handle));
    }

    /// The stored block and its trailer, if readahead is worthwhile or has read it already. The
    /// handle lies within the file.
    /// # Errors
    /// The error of reading the block. Errors of later blocks are ignored.
    pub(crate) fn read(
        &mut self,
        file: &dyn RandomAccessFile,
        handle: BlockHandle,
        file_size: u64,
        statistics: Option<&Arc<Statistics>>,
    ) -> Result<ReadaheadState<'_>> {
        let course = self.course_to(handle);
        self.long.pass(handle.offset..end_of(handle));
        self.passed(handle);
        if let Some(stored) = self.together.take(handle) {
            counts::prefetch_used(self.statistics.as_ref(), stored.len() as u64);
            return Ok(ReadaheadState::Own(stored));
        }
        let length = handle.size as usize + TRAILER_BYTES;
        if self.window.get(handle.offset, length).is_none() {
            let expected = std::mem::take(&mut self.expected);
            let Some(ahead) = self.how_far(course, handle, expected) else {
                self.wait_for(length as u64);
                return Ok(ReadaheadState::Alone);
            };
            if expected > 0
                && course != Course::Backward
                && file.alignment().is_none()
                && self.pace.is_none()
                && let Some(stored) = self.together.read(file, handle, ahead)
            {
                self.count_read(stored.len() as u64 + self.together.bytes(), statistics);
                return Ok(ReadaheadState::Own(stored));
            }
            let (from, to) = match course {
                Course::Backward => (handle.offset.saturating_sub(ahead as u64), end_of(handle)),
                _ => (handle.offset, end_of(handle).saturating_add(ahead as u64).min(file_size)),
            };
            self.wait_for(to - from);
            match self.window.cover(file, from..to) {
                Ok(bytes) => self.count_read(bytes, statistics),
                Err(e) if from == handle.offset && to == end_of(handle) => return Err(e),
                Err(_) => {
                    (self.reads, self.size) = (1, self.initial);
                    return Ok(ReadaheadState::Failed);
                }
            }
        } else {
            counts::prefetch_used(self.statistics.as_ref(), length as u64);
        }
        Ok(self.window.get(handle.offset, length).map_or(ReadaheadState::Alone, ReadaheadState::Stored))
    }

    fn course_to(&self, handle: BlockHandle) -> Course {
        if handle.offset.wrapping_sub(self.last_end) <= SEQUENTIAL_GAP {
            Course::Forward
        } else if self.last_start.wrapping_sub(end_of(handle)) <= SEQUENTIAL_GAP {
            Course::Backward
        } else {
            Course::Elsewhere
        }
    }

    /// Number of bytes behind the block, or before it, to read with it; `None`: do not read ahead.
    fn how_far(&mut self, course: Course, handle: BlockHandle, expected: u32) -> Option<usize> {
        if self.explicit > 0 {
            return Some(self.explicit);
        }
        if self.most == 0 {
            return None;
        }
        let before = std::mem::replace(&mut self.course, course);
        if expected > 0 && course != Course::Backward {
            // Counts later reads from here. Blocks differ a little in size.
            self.reads = 1;
            self.size = self.initial;
            let bytes = u64::from(expected) * (handle.size + TRAILER_BYTES as u64) * 17 / 16;
            return Some(usize::try_from(bytes).map_or(self.most, |bytes| bytes.min(self.most)));
        }
        if course == Course::Elsewhere || (before != course && before != Course::Elsewhere) {
            self.reads = 1;
            self.size = self.initial;
        }
        if course == Course::Elsewhere {
            return None;
        }
        self.reads += 1;
        if self.reads <= self.reads_before {
            return None;
        }
        let size = self.size;
        self.size = (self.size * 2).min(self.most);
        Some(size)
    }
}

/// Counts the bytes that were read ahead in vain.
impl Drop for Readahead {
    fn drop(&mut self) {
        if let Some(statistics) = &self.statistics {
            statistics.record_in_histogram(Histogram::PrefetchedBytesDiscarded, self.unread());
        }
    }
}

fn end_of(handle: BlockHandle) -> u64 {
    handle.offset + handle.size + TRAILER_BYTES as u64
}
