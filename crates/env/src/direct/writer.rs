//! A writable file with direct I/O.
//!
//! Appends collect in aligned memory. A write covers whole blocks, as many as the buffer holds. The
//! last block of a file is seldom whole: `flush`, `sync` and `close` write it padded with zeros and
//! then cut the file to its length. The block stays in memory, and later appends write it again.
//! Source: RocksDB `file/writable_file_writer.cc` (semantics).
//!
//! Invariants
//!  1. `written` is a multiple of a block; the buffer holds the bytes that follow; their sum is
//!     `file_size()`, also after an error.
//!  2. The first `tail` bytes of the buffer, less than a block, are in the file too.
//!  3. Unless `is_padded`, the file ends with the appended bytes, without padding.
//!  4. After `sync` the medium has the file's length too, not only its bytes.

use super::{AlignedBuffer, Alignment};
use crate::fs::{WritableFile, WriteLifeTimeHint};
use esker_base::{Error, Result};
use std::path::{Path, PathBuf};

/// A destination of whole blocks.
pub(crate) trait DirectSink: Send {
    fn alignment(&self) -> Alignment;
    /// Writes at least one whole block from aligned memory. Returns the number of bytes written.
    fn write(&mut self, offset: u64, blocks: &[u8]) -> Result<usize>;
    /// Reads one block, or the part of it that the file has. Returns the number of bytes read.
    fn read(&mut self, offset: u64, block: &mut [u8]) -> Result<usize>;
    fn set_len(&mut self, size: u64) -> Result<()>;
    /// Waits until written bytes are on the medium; with `all`, also the file's length.
    fn sync(&mut self, all: bool) -> Result<()>;
    /// Reserves space. Returns whether it did.
    fn preallocate(&mut self, offset: u64, bytes: u64) -> Result<bool>;
    fn hint_life_time(&mut self, _hint: WriteLifeTimeHint) {}
}

pub(crate) struct DirectWritableFile<S: DirectSink> {
    /// `None` once the file is closed.
    sink: Option<S>,
    path: PathBuf,
    buffer: AlignedBuffer,
    written: u64,
    tail: usize,
    is_padded: bool,
    /// Whether the file's length was changed since the last `sync`.
    is_cut: bool,
    /// End of the reserved space.
    reserved_end: u64,
}

impl<S: DirectSink> DirectWritableFile<S> {
    /// An empty file that writes about `buffer_bytes` at a time.
    pub(crate) fn new(sink: S, path: &Path, buffer_bytes: usize) -> DirectWritableFile<S> {
        let alignment = sink.alignment();
        let capacity = buffer_bytes.max(1).next_multiple_of(alignment.block());
        DirectWritableFile {
            sink: Some(sink),
            path: path.to_owned(),
            buffer: AlignedBuffer::with_capacity(capacity, alignment),
            written: 0,
            tail: 0,
            is_padded: false,
            is_cut: false,
            reserved_end: 0,
        }
    }

    fn sink(&mut self) -> Result<&mut S> {
        self.sink.as_mut().ok_or_else(|| closed(&self.path))
    }

    /// Writes the whole blocks of the buffer. `with_tail` also writes the last block, padded with
    /// zeros.
    fn write_blocks(&mut self, with_tail: bool) -> Result<()> {
        let sink = self.sink.as_mut().ok_or_else(|| closed(&self.path))?;
        let block = sink.alignment().block();
        let bytes = self.buffer.len();
        let whole = bytes - bytes % block;
        let mut to = whole;
        if with_tail && bytes > self.tail {
            to = bytes.next_multiple_of(block);
        }
        self.buffer.resize(bytes.max(to));
        let mut done = 0;
        let mut result = Ok(());
        while done < to && result.is_ok() {
            let offset = self.written + done as u64;
            match sink.write(offset, &self.buffer.as_slice()[done..to]) {
                Ok(n) => done += n,
                Err(e) => result = Err(e),
            }
        }
        self.buffer.resize(bytes);
        let gone = done.min(whole);
        if gone > 0 {
            self.buffer.drop_front(gone);
            self.written += gone as u64;
            self.tail = 0;
        }
        if done > whole {
            self.tail = bytes - whole;
            self.is_padded = true;
        }
        result
    }

    /// Writes all appended bytes to the file, and cuts off the padding behind them.
    fn write_all(&mut self) -> Result<()> {
        self.write_blocks(true)?;
        if self.is_padded {
            let size = self.file_size();
            self.sink()?.set_len(size)?;
            (self.is_padded, self.is_cut) = (false, true);
        }
        Ok(())
    }

    fn write_to_medium(&mut self, all: bool) -> Result<()> {
        self.write_all()?;
        let all = all || self.is_cut;
        self.sink()?.sync(all)?;
        self.is_cut = false;
        Ok(())
    }
}

#[cold]
fn closed(path: &Path) -> Error {
    Error::io(format!("{}: the file is closed", path.display()))
}

impl<S: DirectSink> WritableFile for DirectWritableFile<S> {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.sink()?;
        let mut rest = data;
        while !rest.is_empty() {
            if self.buffer.len() == self.buffer.capacity() {
                self.write_blocks(false)?;
            }
            let room = self.buffer.capacity() - self.buffer.len();
            let (now, later) = rest.split_at(rest.len().min(room));
            self.buffer.extend(now);
            rest = later;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.write_all()
    }

    fn sync(&mut self) -> Result<()> {
        self.write_to_medium(false)
    }

    fn fsync(&mut self) -> Result<()> {
        self.write_to_medium(true)
    }

    fn set_write_life_time_hint(&mut self, hint: WriteLifeTimeHint) {
        if let Ok(sink) = self.sink() {
            sink.hint_life_time(hint);
        }
    }

    fn preallocate(&mut self, offset: u64, bytes: u64) -> Result<()> {
        let sink = self.sink()?;
        if bytes > 0 && sink.preallocate(offset, bytes)? {
            self.reserved_end = self.reserved_end.max(offset.saturating_add(bytes));
        }
        Ok(())
    }

    fn truncate(&mut self, size: u64) -> Result<()> {
        self.write_all()?;
        let sink = self.sink.as_mut().ok_or_else(|| closed(&self.path))?;
        let alignment = sink.alignment();
        let start = alignment.down(size);
        let tail = (size - start) as usize;
        // The block that contains the new end returns to the buffer: a later append writes it
        // again.
        let mut last = AlignedBuffer::with_capacity(alignment.block(), alignment);
        if tail > 0 {
            last.resize(alignment.block());
            let n = sink.read(start, last.as_mut_slice())?;
            last.resize(n.min(tail));
            last.resize(tail);
        }
        sink.set_len(size)?;
        (self.reserved_end, self.is_cut) = (0, true);
        (self.written, self.tail) = (start, tail);
        self.buffer.resize(0);
        self.buffer.extend(last.as_slice());
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.write_all()?;
        let size = self.file_size();
        if self.reserved_end > size {
            // Cutting to the appended length frees the blocks behind it.
            self.sink()?.set_len(size)?;
        }
        self.sink = None;
        Ok(())
    }

    fn file_size(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }
}

impl<S: DirectSink> Drop for DirectWritableFile<S> {
    fn drop(&mut self) {
        if self.sink.is_some() {
            // A drop cannot report an error: a caller that needs it calls `close`.
            match self.close() {
                Ok(()) | Err(_) => {}
            }
        }
    }
}
