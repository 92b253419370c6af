//! Writes encrypted files: collects content, seals it into frames, and appends the frames.
//!
//! In: appends, flushes and syncs. Out: frames at the end of the underlying file.
//!
//! To *seal* content means to encrypt it into a frame. The writer seals content when a page is
//! full, when a log gets the next append, or when the content must survive a crash. A sealed frame
//! never changes: later content goes into a frame behind it. So a torn write never destroys synced
//! bytes.
//!
//! Invariants
//!  1. `sealed` is the end of the last sealed frame. `unwritten` holds the sealed bytes that the
//!     underlying file does not have yet. If `cut_at` is set, the underlying file has bytes behind
//!     it that no longer count.
//!  2. Each open, and each truncation that removes content, draws a new salt. So no nonce repeats.
//!     After an error the writer writes the same sealed bytes again.
//!  3. After a flush of a file that is no log, the last frame has the end mark.
//!  4. Each append to a log of kind `Log` begins a frame. So a truncation to the end of an append
//!     neither cuts nor repeats content that stays, which may be synced.

use crate::file_key::{FileKey, fill_random};
use crate::reader::{FRONT, FramePlace, PAGE, next_frame};
use esker_base::{Error, Result, perf_time};
use esker_env::{Clock, SystemClock, WritableFile, WriteLifeTimeHint};
use esker_format::encryption::{EncryptedKind, FRAME_OVERHEAD, FrameHead, MOST_OFFSET, PADDING, PAGE_BYTES};
use std::path::PathBuf;

/// Number of sealed bytes from which on the writer appends them. It collects at most about twice as
/// many.
const MOST_UNWRITTEN: usize = 64 << 10;

/// Makes the header of a new file, and passes it on. `EncryptedFs::reload_keys` waits until the
/// call has ended.
pub(crate) type MakeHeader =
    Box<dyn Fn(EncryptedKind, &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> + Send>;
/// Given the file's kind and an offset in the content, returns the end of the last frame that ends
/// at or before the offset, and the content from there to the offset. A truncation to the offset
/// needs both.
pub(crate) type ContentBefore = Box<dyn Fn(EncryptedKind, u64) -> Result<(FramePlace, Vec<u8>)> + Send>;

/// The writer of an encrypted file.
pub(crate) struct EncryptedWritableFile {
    /// `None` after `close`.
    inner: Option<Box<dyn WritableFile>>,
    path: PathBuf,
    key: FileKey,
    kind: EncryptedKind,
    salt: [u8; 6],
    /// Makes the header. `None` once the header is written.
    header: Option<MakeHeader>,
    content_before: ContentBefore,
    sealed: FramePlace,
    pending: Vec<u8>,
    unwritten: Vec<u8>,
    /// Whether the file may end here: its last frame has the end mark, or the writer is new.
    is_ended: bool,
    /// Whether each append is sealed and written at once ([`WritableFile::append_in_place`]).
    in_place: bool,
    /// The size to which the underlying file must be cut before the next frame is written.
    cut_at: Option<u64>,
    /// Whether a truncation has set `cut_at`. Then flushes cut, too.
    is_truncated: bool,
    range_synced: u64,
}

/// The parts of a writer that the file system supplies.
pub(crate) struct WriterParts {
    pub(crate) inner: Box<dyn WritableFile>,
    pub(crate) path: PathBuf,
    pub(crate) key: FileKey,
    pub(crate) kind: EncryptedKind,
    pub(crate) header: Option<MakeHeader>,
    pub(crate) content_before: ContentBefore,
    pub(crate) end: FramePlace,
}

impl EncryptedWritableFile {
    /// Makes a writer that appends at the end given in `parts`.
    /// # Errors
    /// `IoError` if the system gives no random bytes.
    pub(crate) fn new(parts: WriterParts) -> Result<EncryptedWritableFile> {
        let WriterParts { inner, path, key, kind, header, content_before, end } = parts;
        let has_tail = header.is_none() && inner.file_size() > end.physical;
        let cut_at = has_tail.then_some(end.physical);
        let mut file = EncryptedWritableFile {
            inner: Some(inner),
            path,
            key,
            kind,
            salt: [0; 6],
            header,
            content_before,
            sealed: end,
            pending: Vec::new(),
            unwritten: Vec::new(),
            is_ended: true,
            in_place: false,
            cut_at,
            is_truncated: false,
            range_synced: 0,
        };
        fill_random(&mut file.salt)?;
        Ok(file)
    }

    fn inner(&mut self) -> Result<&mut Box<dyn WritableFile>> {
        self.inner.as_mut().ok_or_else(|| closed(&self.path))
    }

    /// Cuts the underlying file to `cut_at`, if set, and writes the header of a new file. Syncs the
    /// header of a log before its first frame, so a log without a header has no frames.
    fn begin(&mut self) -> Result<()> {
        if let Some(end) = self.cut_at {
            self.inner()?.truncate(end)?;
            (self.cut_at, self.is_truncated) = (None, false);
        }
        let Some(make) = self.header.take() else { return Ok(()) };
        let kind = self.kind;
        let written = make(kind, &mut |header| {
            let inner = self.inner()?;
            if inner.file_size() > 0 {
                inner.truncate(0)?;
            }
            inner.append(header)?;
            // A change of the master key finds the header in the file, not in a buffer.
            if kind == EncryptedKind::Whole { inner.flush() } else { inner.sync() }
        });
        if written.is_err() {
            self.header = Some(make);
        }
        written
    }

    /// The largest number of bytes of content for the next frame.
    fn room(&self) -> usize {
        let at = next_frame(self.sealed.physical);
        (PAGE - at % PAGE) as usize - FRAME_OVERHEAD
    }

    /// Seals `content`, or the pending content if `content` is `None`: at most `room()` bytes.
    /// REQUIRES: nothing is pending, or `content` is `None`.
    fn seal(&mut self, content: Option<&[u8]>, is_end: bool) -> Result<()> {
        let at = next_frame(self.sealed.physical);
        let content = content.unwrap_or(&self.pending);
        let offset = self.sealed.content;
        if offset > MOST_OFFSET {
            return Err(Error::not_supported(format!("{}: the file is too long", self.path.display())));
        }
        let padding = (at - self.sealed.physical) as usize;
        self.unwritten.resize(self.unwritten.len() + padding, PADDING);
        let head = FrameHead { is_end, len: content.len() as u16, offset, salt: self.salt };
        perf_time!(encrypt_data_nanos, SystemClock, self.key.seal(&head, content, &mut self.unwritten));
        let physical = at + head.frame_bytes() as u64;
        self.sealed = FramePlace { physical, content: offset + content.len() as u64 };
        self.pending.clear();
        self.is_ended = is_end;
        Ok(())
    }

    /// Takes content, and seals full pages.
    fn take(&mut self, content: &[u8]) -> Result<()> {
        let mut rest = content;
        while !rest.is_empty() {
            let room = self.room();
            let (now, later) = rest.split_at(rest.len().min(room - self.pending.len()));
            rest = later;
            if self.pending.is_empty() && now.len() == room {
                self.seal(Some(now), false)?;
            } else {
                self.pending.extend_from_slice(now);
                if self.pending.len() == room {
                    self.seal(None, false)?;
                }
            }
        }
        Ok(())
    }

    /// Appends the sealed bytes to the underlying file.
    fn write(&mut self) -> Result<()> {
        if self.unwritten.is_empty() && !self.is_truncated {
            return self.inner().map(|_| ());
        }
        self.begin()?;
        let unwritten = std::mem::take(&mut self.unwritten);
        let inner = self.inner.as_mut().ok_or_else(|| closed(&self.path))?;
        let before = inner.file_size();
        let result = inner.append(&unwritten);
        let gone = (inner.file_size() - before) as usize;
        self.unwritten = unwritten;
        self.unwritten.drain(..if result.is_ok() { self.unwritten.len() } else { gone });
        result
    }

    /// Seals and writes all content.
    fn write_all(&mut self) -> Result<()> {
        let needs_mark = self.kind == EncryptedKind::Whole && !self.is_ended;
        if !self.pending.is_empty() || needs_mark {
            self.seal(None, true)?;
        }
        self.write()
    }

    /// Estimates where the content at `offset` will lie in the underlying file. The content is not
    /// sealed yet.
    fn physical(&self, offset: u64) -> u64 {
        let ahead = offset.saturating_sub(self.sealed.content);
        self.sealed.physical + ahead + ahead / PAGE * FRAME_OVERHEAD as u64
    }
}

#[cold]
fn closed(path: &std::path::Path) -> Error {
    Error::io(format!("{}: the file is closed", path.display()))
}

impl WritableFile for EncryptedWritableFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.inner()?;
        if self.kind == EncryptedKind::Log && !self.pending.is_empty() {
            self.seal(None, false)?;
        }
        for part in data.chunks(MOST_UNWRITTEN) {
            self.take(part)?;
            if self.unwritten.len() >= MOST_UNWRITTEN {
                self.write()?;
            }
        }
        if self.in_place { self.write_all() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.write_all()?;
        self.inner()?.flush()
    }

    fn sync(&mut self) -> Result<()> {
        self.write_all()?;
        self.inner()?.sync()
    }

    fn fsync(&mut self) -> Result<()> {
        self.write_all()?;
        self.inner()?.fsync()
    }

    fn range_sync(&mut self, _offset: u64, _bytes: u64) -> Result<()> {
        self.write()?;
        let (from, to) = (self.range_synced, self.sealed.physical);
        self.range_synced = to;
        self.inner()?.range_sync(from, to.saturating_sub(from))
    }

    fn preallocate(&mut self, offset: u64, bytes: u64) -> Result<()> {
        let (from, to) = (self.physical(offset), self.physical(offset.saturating_add(bytes)));
        self.inner()?.preallocate(from, to - from)
    }

    fn set_write_life_time_hint(&mut self, hint: WriteLifeTimeHint) {
        if let Some(inner) = &mut self.inner {
            inner.set_write_life_time_hint(hint);
        }
    }

    fn append_in_place(&mut self, block: u64) -> Result<()> {
        if self.header.is_some() && self.kind == EncryptedKind::Whole {
            self.kind = EncryptedKind::Log;
        }
        if self.kind == EncryptedKind::Whole || !block.is_multiple_of(PAGE) {
            return Ok(());
        }
        self.write_all()?;
        self.begin()?;
        self.in_place = true;
        self.inner()?.append_in_place(block)
    }

    fn truncate(&mut self, size: u64) -> Result<()> {
        self.write_all()?;
        self.inner()?.flush()?;
        if size > self.sealed.content {
            self.in_place = false;
            let zeros = [0; PAGE_BYTES];
            while self.file_size() < size {
                let n = (size - self.file_size()).min(PAGE) as usize;
                self.append(&zeros[..n])?;
            }
            return self.flush();
        }
        let mut kept = Vec::new();
        if size < self.sealed.content {
            let (place, before) =
                if size == 0 { (FRONT, Vec::new()) } else { (self.content_before)(self.kind, size)? };
            let mut salt = [0; 6];
            fill_random(&mut salt)?;
            (self.sealed, self.salt, self.is_ended, kept) = (place, salt, false, before);
        }
        self.in_place = false;
        if self.header.is_none() {
            // If the cut fails, `file_size` is `size` all the same, and the next flush cuts.
            (self.cut_at, self.is_truncated) = (Some(self.sealed.physical), true);
            self.take(&kept)?;
        }
        self.flush()
    }

    fn close(&mut self) -> Result<()> {
        self.write_all()?;
        self.inner()?.close()?;
        self.inner = None;
        Ok(())
    }

    fn file_size(&self) -> u64 {
        self.sealed.content + self.pending.len() as u64
    }
}

impl Drop for EncryptedWritableFile {
    fn drop(&mut self) {
        if self.inner.is_some() {
            // A drop cannot report an error. A caller that needs the error calls `close`.
            match self.close() {
                Ok(()) | Err(_) => {}
            }
        }
    }
}
