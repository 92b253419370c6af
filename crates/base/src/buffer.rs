//! Bytes that caches keep: blocks on their way from files, and as long as anybody holds them.
//!
//! In: a length. Out: so many bytes, which go back when they are dropped, to the thread that drops
//! them first.
//!
//! General allocators grow what one thread has by a system call for each block, touch each page of
//! it for the first time, and put nobody's memory back in order when a cache goes: a first pass
//! through a cache of 32 MiB made 7,300 calls of `mprotect` and 8,200 page faults. Here blocks lie
//! in regions of a huge page each (`arena.rs`), and each thread keeps a few that it has just
//! dropped, since a cache that is smaller than what is read lets one block go for each that comes
//! in, mostly on the same thread.
//!
//! Invariants
//!  1. The first `length` bytes of a buffer are initialized; of one that lies in a region, all of
//!     its room is.
//!  2. A thread keeps at most `MOST_SPARE` pieces of regions, and at most `MOST_SPARE_BYTES` in
//!     them. Nobody is charged for them.
//!  3. What is handed out is at most an eighth larger than was asked for, or as large as was
//!     allowed, so that a cache's charges stay those of its blocks. All of it is told:
//!     [`Buffer::memory_bytes`].
//!  4. Nothing here fails: what no region can be had for comes from the allocator.

mod arena;
mod region;

use crate::bytes::StableBytes;
use crate::sync::fork::StaticMutex;
use crate::sync::process::atomic::{AtomicUsize, Ordering};
use crate::sync::thread_number;
use arena::{Arena, MOST_ROOM};
use region::Region;
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Pieces of regions that one thread keeps: what a small batch reads at once.
const MOST_SPARE: usize = 16;
/// Bytes of them.
const MOST_SPARE_BYTES: usize = 128 << 10;
/// Smaller ones the allocator gives and takes back quickly.
const LEAST: usize = 1 << 10;

/// Threads that allocate at once meet in one arena only as long as there is little in it.
const ARENAS: usize = 8;
/// For so many regions there is one arena: each may have a region of which little is used.
const REGIONS_AN_ARENA: usize = 16;
/// The first regions take memory page by page: processes that read little have none to spare.
const REGIONS_OF_SMALL_PAGES: usize = 2;

/// Sanitizers and models are to see each buffer by itself.
const IS_PLAIN: bool = cfg!(any(esker_asan, loom, shuttle, all(miri, not(test))));

/// The arenas of the process, and how many regions they have.
struct Pool {
    arenas: [StaticMutex<Arena>; ARENAS],
    regions: AtomicUsize,
}

static POOL: Pool =
    Pool { arenas: [const { StaticMutex::new(Arena::new()) }; ARENAS], regions: AtomicUsize::new(0) };

thread_local! {
    static SPARE: RefCell<Vec<Piece>> = const { RefCell::new(Vec::new()) };
}

/// Memory of one buffer. Dropped, it goes back to where it came from.
#[derive(Debug)]
struct Piece {
    start: NonNull<u8>,
    /// Bytes, and whether they are the allocator's.
    room: usize,
}

/// In `Piece::room`.
const IS_HEAP: usize = 1 << (usize::BITS - 1);

// SAFETY: a piece is the only claim to its memory.
unsafe impl Send for Piece {}
// SAFETY: a shared piece can only be looked at.
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

    /// Of the vector, whose length is lost.
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
            POOL.take_back(self.start);
        }
    }
}

impl Pool {
    /// The arena in which the calling thread allocates.
    fn own_arena(&self) -> usize {
        let wanted = self.regions.load(Ordering::Relaxed) / REGIONS_AN_ARENA;
        thread_number() & (wanted.next_power_of_two().min(ARENAS) - 1)
    }

    fn hand_out(&self, length: usize) -> Option<Piece> {
        let number = self.own_arena();
        // In a forked child an arena may be lost with the thread that had it; the allocator steps
        // in.
        let mut arena = self.arenas[number].lock()?;
        let found = arena.hand_out(length).or_else(|| {
            let before = self.regions.fetch_add(1, Ordering::Relaxed);
            let region = Region::new(before >= REGIONS_OF_SMALL_PAGES);
            if region.is_none() {
                self.regions.fetch_sub(1, Ordering::Relaxed);
            }
            arena.add(region?, number as u32);
            arena.hand_out(length)
        });
        found.map(|(start, room)| Piece { start, room })
    }

    fn take_back(&self, start: NonNull<u8>) {
        // SAFETY: `hand_out` gave it out, and its piece is being dropped.
        let number = unsafe { Arena::number_of(start) };
        let Some(mut arena) = self.arenas[number as usize].lock() else { return };
        // SAFETY: the same; it is the arena of that number.
        let empty = unsafe { arena.take_back(start) };
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

/// Gives memory of regions that nobody uses back to the operating system: for who has just let much
/// go. What is more than is in use goes by itself.
pub fn trim() {
    POOL.trim();
}

/// Bytes of address space of all regions, used and not.
pub fn region_bytes() -> usize {
    POOL.regions.load(Ordering::Relaxed) * Region::BYTES
}

/// Bytes of its own. See the head of the file.
pub struct Buffer {
    piece: ManuallyDrop<Piece>,
    length: usize,
}

impl Buffer {
    /// Larger ones come from the allocator.
    pub const LARGE: usize = MOST_ROOM;

    /// `length` bytes, whatever they are.
    pub fn new(length: usize) -> Buffer {
        Buffer::at_most(length, length + length / 8)
    }

    /// `length` bytes, whatever they are, in memory for at most `most`, or an eighth more than
    /// `length`.
    pub fn at_most(length: usize, most: usize) -> Buffer {
        if IS_PLAIN || !(LEAST..=MOST_ROOM).contains(&length) {
            return Buffer::from(vec![0; length]);
        }
        let find = |spare: &RefCell<Vec<Piece>>| {
            let mut spare = spare.borrow_mut();
            let at = spare.iter().rposition(|piece| (length..=most).contains(&piece.room()))?;
            Some(spare.remove(at))
        };
        // A thread that ends has none any more.
        let piece = SPARE.try_with(find).ok().flatten().or_else(|| POOL.hand_out(length));
        match piece {
            Some(piece) => Buffer { piece: ManuallyDrop::new(piece), length },
            None => Buffer::from(vec![0; length]),
        }
    }

    /// Bytes of memory that it takes.
    #[inline]
    pub fn memory_bytes(&self) -> usize {
        let around = if self.piece.is_heap() { 0 } else { arena::AROUND_BYTES };
        self.piece.room() + around
    }

    /// Bytes that it can have without moving.
    #[inline]
    pub fn room(&self) -> usize {
        self.piece.room()
    }

    /// Forgets all but the first `length` bytes; their memory stays.
    #[inline]
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Has `length` bytes, if that is more: the new ones are whatever they are.
    /// # Panics
    /// If there is no room for them.
    pub fn lengthen(&mut self, length: usize) {
        assert!(length <= self.room(), "{length} bytes in room for {}", self.room());
        if length <= self.length {
            return;
        }
        if self.piece.is_heap() {
            let (start, count) = (self.piece.start.as_ptr().wrapping_add(self.length), length - self.length);
            // SAFETY: these bytes lie within the vector's capacity, which nobody else has.
            unsafe { start.write_bytes(0, count) };
        }
        self.length = length;
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: it is never looked at again.
        let piece = unsafe { ManuallyDrop::take(&mut self.piece) };
        if piece.is_heap() || piece.room() > MOST_SPARE_BYTES {
            return;
        }
        // Who is refused drops it.
        _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            let room = piece.room();
            while spare.len() >= MOST_SPARE
                || spare.iter().map(Piece::room).sum::<usize>() + room > MOST_SPARE_BYTES
            {
                // What has lain there longest goes.
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
        // SAFETY: the piece is this buffer's alone, and so many bytes of it are initialized
        // (invariant 1).
        unsafe { std::slice::from_raw_parts(self.piece.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as `deref`, and nobody else looks at it now.
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

// SAFETY: its memory stays where it is when the buffer moves, and nobody reaches it mutably through
// a shared one.
unsafe impl StableBytes for Buffer {
    fn stable_bytes(&self) -> &[u8] {
        self
    }
}

#[cfg(test)]
mod tests;
