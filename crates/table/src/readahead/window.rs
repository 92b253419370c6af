//! The readahead window of one reader: a range of the file in memory.
//!
//! With direct I/O it holds whole blocks of the medium in aligned memory, so that reads need no
//! copy. Bytes that the next window shares with this one are moved, not read again.
//!
//! Invariants
//!  1. `start` is a multiple of the file's block, and so is the end, unless the file ended there.
//!  2. `front` bytes of the buffer lie before the window's first byte, so that its address is
//!     aligned.

use esker_base::{Buffer, Result};
use esker_env::{Alignment, RandomAccessFile};
use std::ops::Range;

#[derive(Debug, Default)]
pub(super) struct Window {
    buffer: Buffer,
    front: usize,
    /// Offset in the file of the first byte.
    start: u64,
    length: usize,
}

impl Window {
    /// The bytes of the file from `offset` on, if all of them are here.
    #[inline]
    pub(super) fn get(&self, offset: u64, length: usize) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        let to = from.checked_add(length)?;
        if to > self.length { None } else { self.buffer.get(self.front + from..self.front + to) }
    }

    /// The bytes of the file that the window holds.
    pub(super) fn range(&self) -> Range<u64> {
        self.start..self.end()
    }

    fn end(&self) -> u64 {
        self.start + self.length as u64
    }

    /// Makes the window cover `wanted`, as far as the file goes, extended to whole blocks of the
    /// medium. Returns the number of bytes that were read.
    /// # Errors
    /// `IoError`; the window is empty then.
    pub(super) fn cover(&mut self, file: &dyn RandomAccessFile, wanted: Range<u64>) -> Result<u64> {
        let alignment = file.alignment().unwrap_or(Alignment::NONE);
        let (from, to) = (alignment.down(wanted.start), alignment.up(wanted.end));
        let (kept, missing) = self.split(from, to, alignment);
        let start = std::mem::replace(&mut self.start, from);
        self.make_room((to - from) as usize, &kept, start, alignment);
        let before = (missing.start - from) as usize;
        let at = self.front + before;
        let gap = &mut self.buffer[at..at + (missing.end - missing.start) as usize];
        self.length = 0;
        let read = file.read_at(missing.start, gap)?;
        let is_whole = read == gap.len();
        // Kept bytes behind a gap are dropped if the gap was not read in full: the file may have
        // been cut meanwhile.
        let behind = if is_whole && kept.start >= missing.end { kept.end - kept.start } else { 0 };
        self.length = before + read + behind as usize;
        Ok(read as u64)
    }

    /// Splits `from..to` in two: the part to keep, which the window holds and which touches an end
    /// of the range, and the part to read.
    fn split(&self, from: u64, to: u64, alignment: Alignment) -> (Range<u64>, Range<u64>) {
        let end = self.end();
        let ends_with_block = alignment.down(end) == end;
        if self.start <= from && from < end && end < to && ends_with_block {
            (from..end, end..to)
        } else if from < self.start && self.start < to && to <= end {
            (self.start..to, from..self.start)
        } else {
            (from..from, from..to)
        }
    }

    /// Makes room for `length` bytes from `self.start` on, and moves `kept` into place from the old
    /// window that began at `start`.
    fn make_room(&mut self, length: usize, kept: &Range<u64>, start: u64, alignment: Alignment) {
        let kept_bytes = (kept.end - kept.start) as usize;
        let source = if kept_bytes == 0 { 0 } else { self.front + (kept.start - start) as usize };
        let target = (kept.start - self.start) as usize;
        let needed = length + alignment.memory() - 1;
        if self.buffer.room() < needed {
            let larger = Buffer::at_most(needed, 2 * needed);
            let old = std::mem::replace(&mut self.buffer, larger);
            self.front = alignment.slack(&self.buffer);
            let to = self.front + target;
            self.buffer[to..to + kept_bytes].copy_from_slice(&old[source..source + kept_bytes]);
            return;
        }
        self.buffer.lengthen(needed);
        self.front = alignment.slack(&self.buffer);
        self.buffer.copy_within(source..source + kept_bytes, self.front + target);
    }
}

#[cfg(test)]
mod tests;
