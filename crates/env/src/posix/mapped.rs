//! The mapped end of a log: an append is a copy, not a system call.
//!
//! In: appends, in order. Out: the same bytes in the page cache. There they survive the process, as
//! bytes of a `write` do.
//!
//! A `write` of 150 bytes takes longer than all other steps of an append. A store into a
//! shared mapping takes a few nanoseconds and ends in the same page. The risks and their remedies:
//!
//! * *The process dies during a copy.* The first `COMMIT_BYTES` of an append are stored last, by
//!   one instruction. Until then the file has zeros there, and no record begins with zeros.
//! * *The file has zeros behind its end.* They reach at most to the end of the block that is being
//!   filled. An append that crosses into the next block uses `write`, so the file ends behind it.
//!   Then the file grows by the rest of that block. So zeros never take the place of a record's
//!   next fragment.
//! * *The disk is full*, and a store would raise `SIGBUS`. Space is reserved and the pages are
//!   faulted in before any store. If either fails, the file goes back to `write`, which reports the
//!   error.
//! * *The file system moves reserved blocks* (copy on write), or has no mappings. Only file systems
//!   known to write in place are used.
//! * Not covered: another program truncates the file, or a page that was written back and evicted
//!   cannot be read again.
//!
//! Invariants
//!  1. Bytes are stored only below `end`, the file's length, in pages that are reserved and mapped.
//!  2. `end` is the end of the last `write`, or a multiple of `block`, at most one block behind the
//!     appended bytes.

use super::{failed_at, file};
use esker_base::sync::process::atomic::{Ordering, compiler_fence};
use esker_base::{Error, Result};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, retry_on_intr};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::path::Path;
use std::ptr::{self, NonNull};

/// Bytes that one instruction stores.
const COMMIT_BYTES: usize = 8;
/// Bytes that are mapped at a time. While mapped they count as memory of the process.
const WINDOW_BYTES: u64 = 256 << 10;
/// Bytes reserved at a time once the file has outgrown its owner's preallocation.
const RESERVE_BYTES: u64 = 1 << 20;
/// `statfs` types of file systems that keep reserved blocks in place: ext2 to ext4, XFS, tmpfs.
const IN_PLACE: [i64; 3] = [0xEF53, 0x5846_5342, 0x0102_1994];

/// The end of a file that is appended to by stores.
pub(super) struct MappedEnd {
    block: u64,
    window: Option<Window>,
    /// The length of the file.
    end: u64,
    /// The end of the reserved space.
    reserved: u64,
}

impl MappedEnd {
    /// Maps a file that ends at `end` and has space up to `reserved`. `None` if it cannot be
    /// mapped.
    pub(super) fn new(fd: &OwnedFd, block: u64, end: u64, reserved: u64) -> Option<MappedEnd> {
        let one_instruction = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
        let fits =
            block > 0 && block.is_multiple_of(rustix::param::page_size() as u64) && block <= WINDOW_BYTES / 2;
        let kind = rustix::fs::fstatfs(fd).ok()?.f_type;
        let in_place = IN_PLACE.iter().any(|known| i128::from(*known) == i128::from(kind));
        let usable = one_instruction && fits && in_place;
        usable.then_some(MappedEnd { block, window: None, end, reserved })
    }

    /// Stores the part of `data` that fits below the file's end. `at` is the end of the appended
    /// bytes. Returns the length stored. After a kill the file holds all of it or nothing.
    #[inline]
    pub(super) fn store(&mut self, at: u64, data: &[u8]) -> usize {
        let room = usize::try_from(self.end.saturating_sub(at)).unwrap_or(usize::MAX);
        let (here, _) = data.split_at(data.len().min(room));
        match (&mut self.window, here.split_first_chunk()) {
            (Some(window), Some((first, rest))) if at >= window.start => {
                window.store(at, first, rest);
                here.len()
            }
            _ => 0,
        }
    }

    /// Whether the file ends at or before `size`; it must then grow before more can be stored.
    #[inline]
    pub(super) fn is_full(&self, size: u64) -> bool {
        size >= self.end
    }

    /// Records that the file has space up to `reserved`.
    pub(super) fn reserved_up_to(&mut self, reserved: u64) {
        self.reserved = self.reserved.max(reserved);
    }

    /// Extends the file to the end of the block in which a write up to `size` ended.
    /// # Errors
    /// `IoError` if there is no space or no mapping. The file is unchanged, or longer by zeros.
    pub(super) fn grow(&mut self, fd: &OwnedFd, path: &Path, size: u64) -> Result<()> {
        let end = (size / self.block + 1) * self.block;
        let fail = |what: &'static str| move |e| failed_at(what, path, size, e);
        if end > self.reserved {
            let from = self.reserved.max(size);
            let bytes = file::reserve(fd, path, from, RESERVE_BYTES.max(end - from))?;
            if from + bytes < end {
                return Err(fail("fallocate")(Errno::NOSPC));
            }
            self.reserved = from + bytes;
        }
        if self.window.as_ref().is_none_or(|w| w.start > size || w.end() < end) {
            self.window = None;
            self.window = Some(Window::map(fd, size / self.block * self.block).map_err(fail("mmap"))?);
        }
        retry_on_intr(|| rustix::fs::ftruncate(fd, end)).map_err(fail("ftruncate"))?;
        let window = self.window.as_ref().ok_or_else(no_window)?;
        window.bring_in(size, end).map_err(fail("populate"))?;
        self.end = end;
        Ok(())
    }
}

#[cold]
fn no_window() -> Error {
    Error::io("a file is not mapped")
}

/// A mapped part of a file, of `WINDOW_BYTES`; the file may end within it.
struct Window {
    at: NonNull<u8>,
    start: u64,
}

// SAFETY: the mapping belongs to this value alone and may be used from any one thread at a time.
unsafe impl Send for Window {}

impl Window {
    fn map(fd: &OwnedFd, start: u64) -> rustix::io::Result<Window> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let at = unsafe {
            rustix::mm::mmap(ptr::null_mut(), WINDOW_BYTES as usize, protection, flags, fd, start)
        }?;
        let window = Window { at: NonNull::new(at.cast()).ok_or(Errno::NOMEM)?, start };
        // A fault would otherwise read ahead, though no page behind the file's end has any content.
        // SAFETY: pages of our own mapping; the advice changes no contents.
        unsafe { rustix::mm::madvise(window.at.as_ptr().cast(), WINDOW_BYTES as usize, Advice::Random) }?;
        Ok(window)
    }

    fn end(&self) -> u64 {
        self.start + WINDOW_BYTES
    }

    /// The address of the byte at this offset of the file.
    ///
    /// # Panics
    /// If `offset..offset + len` is not in the window.
    #[inline]
    fn place(&self, offset: u64, len: usize) -> NonNull<u8> {
        assert!(offset >= self.start && offset + len as u64 <= self.end(), "the bytes lie within the window");
        // SAFETY: the assertion above keeps the place inside one mapping.
        unsafe { self.at.add((offset - self.start) as usize) }
    }

    /// Makes the pages of `from..to`, a range of the file, present and writable.
    fn bring_in(&self, from: u64, to: u64) -> rustix::io::Result<()> {
        let from = from - from % rustix::param::page_size() as u64;
        let len = (to - from) as usize;
        let place = self.place(from, len);
        // SAFETY: pages of our own mapping; the advice changes no contents.
        unsafe { rustix::mm::madvise(place.as_ptr().cast(), len, Advice::LinuxPopulateWrite) }
    }

    /// Copies `rest` behind `first`, and then stores `first`.
    #[inline]
    fn store(&mut self, offset: u64, first: &[u8; COMMIT_BYTES], rest: &[u8]) {
        let place = self.place(offset, COMMIT_BYTES + rest.len());
        // SAFETY: `place` checked that this is within the window.
        let behind = unsafe { place.add(COMMIT_BYTES) };
        // SAFETY: `place` checked that the bytes lie in the window; its pages are mapped
        // (`MappedEnd`, invariant 1), and no reference to them exists.
        unsafe { ptr::copy_nonoverlapping(rest.as_ptr(), behind.as_ptr(), rest.len()) };
        // A kill comes between two instructions, so it is enough to keep their order.
        compiler_fence(Ordering::SeqCst);
        // SAFETY: `place` checked that the bytes lie in the window, and no reference to them
        // exists. Eight bytes at any address are one instruction on the machines that
        // `MappedEnd::new` admits.
        unsafe { place.cast::<[u8; COMMIT_BYTES]>().write_unaligned(*first) };
        compiler_fence(Ordering::SeqCst);
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and nothing refers to it any more.
        let unmapped = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), WINDOW_BYTES as usize) };
        debug_assert!(unmapped.is_ok(), "an own mapping can be unmapped");
    }
}

#[cfg(test)]
mod tests;
