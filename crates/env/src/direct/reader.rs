//! Files that are read past the page cache.

use super::{AlignedBuffer, Alignment};
use crate::fs::{RandomAccessFile, SequentialFile};
use esker_base::Result;
use std::cell::Cell;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::path::Path;

/// Most bytes of one read through the thread's buffer: a multiple of every block size.
const PIECE_BYTES: usize = 1 << 20;
/// Most bytes of the buffer that a thread keeps between reads.
const KEPT_BYTES: usize = 256 << 10;
/// Bytes that a sequential file reads at a time, because the kernel has no readahead for it.
const STRETCH_BYTES: usize = 1 << 20;

thread_local! {
    /// The thread's buffer. Each use takes it out, because all threads of a simulated machine share
    /// one thread of the system.
    static SCRATCH: Cell<Option<AlignedBuffer>> = const { Cell::new(None) };
}

/// A source of whole blocks.
pub(crate) trait DirectSource: Send + Sync + fmt::Debug {
    fn alignment(&self) -> Alignment;
    /// Reads whole blocks into aligned memory. Returns fewer bytes only at the end of the file.
    fn read(&self, offset: u64, blocks: &mut [u8]) -> Result<usize>;
    fn size(&self) -> Result<u64>;
    fn path(&self) -> &Path;
    /// A descriptor for reads by the kernel that return the same bytes as `read`.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Calls `use_it` with `length` bytes of aligned memory with arbitrary content.
pub(super) fn with_scratch<T>(length: usize, alignment: Alignment, use_it: impl FnOnce(&mut [u8]) -> T) -> T {
    // A thread that is ending has no buffer.
    let kept = SCRATCH.try_with(Cell::take).ok().flatten();
    let mut buffer = kept
        .filter(|buffer| buffer.serves(length, alignment))
        .unwrap_or_else(|| AlignedBuffer::with_capacity(length, alignment));
    if buffer.len() < length {
        buffer.resize(length);
    }
    let result = use_it(&mut buffer.as_mut_slice()[..length]);
    if buffer.capacity() <= KEPT_BYTES {
        SCRATCH.try_with(|scratch| scratch.set(Some(buffer))).unwrap_or_default();
    }
    result
}

/// Reads at any offset.
#[derive(Debug)]
pub(crate) struct DirectRandomAccessFile<S>(S);

impl<S: DirectSource> DirectRandomAccessFile<S> {
    pub(crate) fn new(source: S) -> DirectRandomAccessFile<S> {
        DirectRandomAccessFile(source)
    }

    /// Reads `bytes` from `offset` on and passes them to `take` piece by piece, in order. Returns
    /// their number.
    fn read_widened(&self, offset: u64, bytes: usize, take: &mut dyn FnMut(&[u8])) -> Result<usize> {
        let alignment = self.0.alignment();
        let mut done = 0;
        while done < bytes {
            let at = offset + done as u64;
            let start = alignment.down(at);
            let skipped = (at - start) as usize;
            let wanted = (bytes - done).min(PIECE_BYTES - skipped);
            let length = (skipped + wanted).next_multiple_of(alignment.block());
            let found = with_scratch(length, alignment, |scratch| {
                let read = self.0.read(start, scratch)?;
                let found = read.saturating_sub(skipped).min(wanted);
                take(&scratch[skipped.min(read)..][..found]);
                Ok(found)
            })?;
            done += found;
            if found < wanted {
                break;
            }
        }
        Ok(done)
    }
}

impl<S: DirectSource> RandomAccessFile for DirectRandomAccessFile<S> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if self.0.alignment().fits(offset, buf) {
            return self.0.read(offset, buf);
        }
        let mut to = 0;
        self.read_widened(offset, buf.len(), &mut |piece| {
            buf[to..to + piece.len()].copy_from_slice(piece);
            to += piece.len();
        })
    }

    fn read_vectored_at(&self, offset: u64, bufs: &mut [&mut [u8]]) -> Result<usize> {
        if let [buf] = bufs {
            return self.read_at(offset, buf);
        }
        let wanted = bufs.iter().map(|buf| buf.len()).sum();
        let mut scatter = Scatter::new(bufs);
        self.read_widened(offset, wanted, &mut |piece| scatter.take(piece))
    }

    fn alignment(&self) -> Option<Alignment> {
        Some(self.0.alignment())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.descriptor()
    }

    fn size(&self) -> Result<u64> {
        self.0.size()
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Copies a stream of bytes into buffers, in their order.
pub(super) struct Scatter<'a, 'b> {
    bufs: &'a mut [&'b mut [u8]],
    at: usize,
    filled: usize,
}

impl<'a, 'b> Scatter<'a, 'b> {
    pub(super) fn new(bufs: &'a mut [&'b mut [u8]]) -> Scatter<'a, 'b> {
        Scatter { bufs, at: 0, filled: 0 }
    }

    /// Copies a piece.
    ///
    /// # Panics
    /// If the buffers have no room for the piece.
    pub(super) fn take(&mut self, mut piece: &[u8]) {
        while !piece.is_empty() {
            let buf = &mut self.bufs[self.at][self.filled..];
            let (now, later) = piece.split_at(piece.len().min(buf.len()));
            buf[..now.len()].copy_from_slice(now);
            self.filled += now.len();
            if self.filled == self.bufs[self.at].len() {
                (self.at, self.filled) = (self.at + 1, 0);
            }
            piece = later;
        }
    }
}

/// Reads from front to back, a stretch at a time.
#[derive(Debug)]
pub(crate) struct DirectSequentialFile<S> {
    source: S,
    offset: u64,
    /// Bytes of the file from `start` on; the first `filled` of them are valid.
    stretch: AlignedBuffer,
    start: u64,
    filled: usize,
}

impl<S: DirectSource> DirectSequentialFile<S> {
    pub(crate) fn new(source: S) -> DirectSequentialFile<S> {
        DirectSequentialFile { source, offset: 0, stretch: AlignedBuffer::default(), start: 0, filled: 0 }
    }

    /// The bytes that were read but not consumed.
    fn ready(&self) -> &[u8] {
        let from = self.offset.checked_sub(self.start).and_then(|from| usize::try_from(from).ok());
        from.and_then(|from| self.stretch.as_slice()[..self.filled].get(from..)).unwrap_or_default()
    }

    fn read_stretch(&mut self) -> Result<()> {
        let alignment = self.source.alignment();
        if self.stretch.capacity() == 0 {
            self.stretch = AlignedBuffer::with_capacity(STRETCH_BYTES, alignment);
            self.stretch.resize(STRETCH_BYTES);
        }
        (self.start, self.filled) = (alignment.down(self.offset), 0);
        self.filled = self.source.read(self.start, self.stretch.as_mut_slice())?;
        Ok(())
    }
}

impl<S: DirectSource> SequentialFile for DirectSequentialFile<S> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let (mut done, begin) = (0, self.offset);
        while done < buf.len() {
            if self.ready().is_empty() {
                let is_end = done > 0 && self.filled < self.stretch.len();
                if is_end {
                    break;
                }
                if let Err(error) = self.read_stretch() {
                    self.offset = begin;
                    return Err(error);
                }
            }
            let ready = self.ready();
            if ready.is_empty() {
                break;
            }
            let n = ready.len().min(buf.len() - done);
            buf[done..done + n].copy_from_slice(&ready[..n]);
            done += n;
            self.offset += n as u64;
        }
        Ok(done)
    }

    fn skip(&mut self, bytes: u64) -> Result<()> {
        self.offset = self.offset.saturating_add(bytes);
        Ok(())
    }
}
