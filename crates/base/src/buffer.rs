//! Block buffers: memory for a block from its reading until its last user drops it.
//!
//! In: a length. Out: that many bytes. A dropped buffer of a region goes first to a small list of
//! the thread that dropped it.
//!
//! A general allocator grows a thread's heap by a system call for each block and faults in each
//! page anew. It does not compact memory when a cache is dropped. A first pass through a 32 MiB
//! cache made 7,300 calls of `mprotect` and 8,200 page faults. Here blocks lie in regions of one
//! huge page each (`arena.rs`). A thread also keeps the buffers that it dropped last: a full cache
//! evicts one block for each block it reads, mostly on the same thread.
//!
//! Invariants
//!  1. The first `length` bytes of a buffer are initialized; a buffer in a region is initialized to
//!     the end of its room.
//!  2. A thread keeps at most `MOST_SPARE` pieces of regions, of at most `MOST_SPARE_BYTES` in all.
//!     No cache is charged for them.
//!  3. A buffer is at most an eighth larger than requested, or as large as the caller allows, so
//!     that a cache's charges match its blocks. [`Buffer::memory_bytes`] reports all of it.
//!  4. Nothing here fails: without a region the memory comes from the allocator.

mod arena;
mod region;

use crate::bytes::StableBytes;
use crate::sync::fork::StaticMutex;
use crate::sync::process::atomic::{AtomicUsize, Ordering};
use crate::sync::thread_number;
use arena::{BufferArena, MOST_ROOM};
use region::Region;
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Pieces of regions that one thread keeps: as many as a small batch reads at once.
const MOST_SPARE: usize = 16;
/// Total bytes of the pieces that one thread keeps.
const MOST_SPARE_BYTES: usize = 128 << 10;
/// Smaller buffers come from the allocator, which is fast for them.
const LEAST: usize = 1 << 10;

/// Maximum number of arenas. All threads share one arena until the process has many regions.
const ARENAS: usize = 8;
/// The process uses about one arena for this many regions. Each arena may keep a nearly empty
/// region, so few regions get few arenas.
const REGIONS_AN_ARENA: usize = 16;
/// The first regions take memory page by page, so that processes with small caches stay small.
const REGIONS_OF_SMALL_PAGES: usize = 2;

/// AddressSanitizer, Miri and models take each buffer from the allocator, so that they can
/// distinguish buffers. This crate's own tests under Miri use regions.
const IS_PLAIN: bool = cfg!(any(esker_asan, loom, shuttle, all(miri, not(test))));

/// The arenas of the process and their number of regions.
struct Pool {
    arenas: [StaticMutex<BufferArena>; ARENAS],
    regions: AtomicUsize,
}

static POOL: Pool =
    Pool { arenas: [const { StaticMutex::new(BufferArena::new()) }; ARENAS], regions: AtomicUsize::new(0) };

thread_local! {
    static SPARE: RefCell<Vec<Piece>> = const { RefCell::new(Vec::new()) };
}

/// Memory of one buffer. Dropping it returns the memory to its arena or to the allocator.
#[derive(Debug)]
struct Piece {
    start: NonNull<u8>,
    /// Size of the memory, with [`IS_HEAP`] set if it comes from the allocator.
    room: usize,
}

/// A flag in `Piece::room`.
const IS_HEAP: usize = 1 << (usize::BITS - 1);

// SAFETY: a piece is the only claim to its memory.
unsafe impl Send for Piece {}
// SAFETY: a shared piece can only be read.
unsafe impl Sync for Piece {}

impl Piece {
    /// No memory.
    const NONE: Piece = Piece { start: NonNull::dangling(), room: IS_HEAP };

    fn room(&self) -> usize {
        self.room & !IS_HEAP
    }

    fn is_heap(&self) -> bool {
        self.room & IS_HEAP != 0
    }

    /// Takes the vector's memory; its length is lost.
    fn of_heap(bytes: Vec<u8>) -> Piece {
        let mut bytes = ManuallyDrop::new(bytes);
        match NonNull::new(bytes.as_mut_ptr()) {
            Some(start) => Piece { start, room: bytes.capacity() | IS_HEAP },
            None => Piece::NONE,
        }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if self.is_heap() {
            // SAFETY: start and room are pointer and capacity of a vector that was forgotten
            // (`of_heap`, `NONE`).
            drop(unsafe { Vec::from_raw_parts(self.start.as_ptr(), 0, self.room()) });
        } else {
            POOL.free(self.start);
        }
    }
}

impl Pool {
    /// The arena in which the calling thread allocates.
    fn own_arena(&self) -> usize {
        let wanted = self.regions.load(Ordering::Relaxed) / REGIONS_AN_ARENA;
        thread_number() & (wanted.next_power_of_two().min(ARENAS) - 1)
    }

    fn allocate(&self, length: usize) -> Option<Piece> {
        let number = self.own_arena();
        // In a forked child a thread that does not exist there may hold the arena's lock. The
        // caller then uses the allocator.
        let mut arena = self.arenas[number].lock()?;
        let found = arena.allocate(length).or_else(|| {
            let before = self.regions.fetch_add(1, Ordering::Relaxed);
            let region = Region::new(before >= REGIONS_OF_SMALL_PAGES);
            if region.is_none() {
                self.regions.fetch_sub(1, Ordering::Relaxed);
            }
            arena.add(region?, number as u32);
            arena.allocate(length)
        });
        found.map(|(start, room)| Piece { start, room })
    }

    fn free(&self, start: NonNull<u8>) {
        // SAFETY: `start` came from `allocate`, and its piece is being dropped.
        let number = unsafe { BufferArena::number_of(start) };
        let Some(mut arena) = self.arenas[number as usize].lock() else { return };
        // SAFETY: `start` came from `allocate` of the arena with this number, and its piece is
        // being dropped.
        let empty = unsafe { arena.free(start) };
        drop(arena);
        if !empty.is_empty() {
            self.regions.fetch_sub(empty.len(), Ordering::Relaxed);
        }
    }

    fn trim(&self) {
        for arena in &self.arenas {
            let empty = arena.lock().map(|mut arena| arena.trim()).unwrap_or_default();
            self.regions.fetch_sub(empty.len(), Ordering::Relaxed);
        }
    }
}

/// Returns unused memory of regions to the operating system; useful after a large cache was
/// dropped. Without this call each arena keeps unused memory: at most 4 MiB, or as much as is in
/// use if that is more.
pub fn trim() {
    POOL.trim();
}

/// Bytes of address space of all regions, used and not.
pub fn region_bytes() -> usize {
    POOL.regions.load(Ordering::Relaxed) * Region::BYTES
}

/// A buffer of bytes, owned by its holder.
pub struct Buffer {
    piece: ManuallyDrop<Piece>,
    length: usize,
}

impl Buffer {
    /// Buffers larger than this come from the allocator.
    pub const LARGE: usize = MOST_ROOM;

    /// A buffer of `length` bytes of arbitrary content.
    pub fn new(length: usize) -> Buffer {
        Buffer::at_most(length, length + length / 8)
    }

    /// A buffer of `length` bytes of arbitrary content. Reused memory has room for at most `most`
    /// bytes, new memory for at most an eighth more than `length`.
    pub fn at_most(length: usize, most: usize) -> Buffer {
        if IS_PLAIN || !(LEAST..=MOST_ROOM).contains(&length) {
            return Buffer::from(vec![0; length]);
        }
        let find = |spare: &RefCell<Vec<Piece>>| {
            let mut spare = spare.borrow_mut();
            let at = spare.iter().rposition(|piece| (length..=most).contains(&piece.room()))?;
            Some(spare.remove(at))
        };
        // A thread that is ending has no spare pieces.
        let piece = SPARE.try_with(find).ok().flatten().or_else(|| POOL.allocate(length));
        match piece {
            Some(piece) => Buffer { piece: ManuallyDrop::new(piece), length },
            None => Buffer::from(vec![0; length]),
        }
    }

    /// Bytes of memory that the buffer takes.
    #[inline]
    pub fn memory_bytes(&self) -> usize {
        let around = if self.piece.is_heap() { 0 } else { arena::AROUND_BYTES };
        self.piece.room() + around
    }

    /// Bytes that the buffer can hold without being moved.
    #[inline]
    pub fn room(&self) -> usize {
        self.piece.room()
    }

    /// Drops all but the first `length` bytes; the memory stays.
    #[inline]
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Extends the buffer to `length` bytes if it is shorter. New bytes have arbitrary content.
    /// # Panics
    /// If there is no room for them.
    pub fn lengthen(&mut self, length: usize) {
        assert!(length <= self.room(), "{length} bytes in room for {}", self.room());
        if length <= self.length {
            return;
        }
        if self.piece.is_heap() {
            let (start, count) = (self.piece.start.as_ptr().wrapping_add(self.length), length - self.length);
            // SAFETY: these bytes lie within the vector's capacity, which only this buffer refers
            // to.
            unsafe { start.write_bytes(0, count) };
        }
        self.length = length;
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: `self.piece` is not used again.
        let piece = unsafe { ManuallyDrop::take(&mut self.piece) };
        if piece.is_heap() || piece.room() > MOST_SPARE_BYTES {
            return;
        }
        // A piece that the list does not take is dropped.
        _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            let room = piece.room();
            while spare.len() >= MOST_SPARE
                || spare.iter().map(Piece::room).sum::<usize>() + room > MOST_SPARE_BYTES
            {
                // The oldest piece makes room.
                drop(spare.remove(0));
            }
            spare.push(piece);
        });
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Buffer {
        let length = bytes.len();
        Buffer { piece: ManuallyDrop::new(Piece::of_heap(bytes)), length }
    }
}

impl Deref for Buffer {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: only this buffer refers to the piece, and `length` bytes of it are initialized
        // (invariant 1).
        unsafe { std::slice::from_raw_parts(self.piece.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: only this buffer refers to the piece, `length` bytes of it are initialized
        // (invariant 1), and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.piece.start.as_ptr(), self.length) }
    }
}

impl AsRef<[u8]> for Buffer {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Default for Buffer {
    fn default() -> Buffer {
        Buffer { piece: ManuallyDrop::new(Piece::NONE), length: 0 }
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Buffer {
        let mut copy = Buffer::new(self.length);
        copy.copy_from_slice(self);
        copy
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer")
            .field("length", &self.length)
            .field("room", &self.room())
            .finish_non_exhaustive()
    }
}

// SAFETY: the memory stays in place when the buffer moves, and a shared buffer gives no mutable
// access.
unsafe impl StableBytes for Buffer {
    fn stable_bytes(&self) -> &[u8] {
        self
    }
}

#[cfg(test)]
mod tests;
