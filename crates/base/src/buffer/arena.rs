//! An arena: cuts pieces of any size from regions and joins them again.
//!
//! In: lengths, regions, pieces to free. Out: pieces, and regions that became unused.
//! Source: TLSF (Masmano, Ripoll, Crespo, Real, ECRTS '04): Knuth's boundary tags (TAOCP 1, 2.5)
//! with lists by size and a bit for each list that is not empty. The lists are finer here, because
//! blocks of a table differ by a few bytes.
//!
//! ```text
//! region:  number of its arena | ... | head, piece | head, piece | ... | end
//! head:    units | units of the piece before | state        16 bytes that end at a multiple of 64;
//!                                                            the piece begins there
//! free:    next, previous in its list                        the first bytes of the piece
//! ```
//!
//! Invariants
//!  1. Heads cover a region from the first head to its end without a gap. `units` is the distance
//!     to the next head, `before` the distance to the head before.
//!  2. No two free pieces are neighbours. A free piece is in the list of its size, and in no other.
//!  3. A list's bit is set exactly if the list is not empty.
//!  4. Free memory that is not returned to the operating system is at most `MOST_IDLE`, or at most
//!     the memory in use.
//!  5. The holder of the arena's lock may read and write heads and free pieces. A piece allocated
//!     belongs to its owner.

use super::region::Region;
use std::cell::Cell;
use std::ptr::NonNull;

/// Sizes are multiples of this, and pieces begin there.
const UNIT: usize = 64;
/// Offset of the first head: its piece begins at a multiple of `UNIT`.
const FIRST_HEAD: usize = 2 * UNIT - HEAD_BYTES;
const HEAD_BYTES: usize = size_of::<Head>();
/// Units of a region that is one piece.
const REGION_UNITS: u32 = ((Region::BYTES - FIRST_HEAD) / UNIT) as u32;

/// The largest length that a piece may be requested for.
pub(super) const MOST_ROOM: usize = 256 << 10;
/// Bytes that a piece takes besides its room.
pub(super) const AROUND_BYTES: usize = HEAD_BYTES;

/// Each size up to this many units (8 KiB) has its own list.
const EXACT: u32 = 128;
/// Number of lists for each doubling of larger sizes.
const FINE: u32 = EXACT / 2;
const LISTS: usize = (EXACT + FINE * 8) as usize;
const WORDS: usize = LISTS / 64;

/// Number of units of 4 MiB that may stay idle.
const MOST_IDLE: usize = (4 << 20) / UNIT;

/// The head of a piece.
#[repr(C)]
struct Head {
    /// Units from this head to the next one, or to the end.
    units: Cell<u32>,
    /// Units of the piece before this one; 0 for the first piece of a region.
    before: Cell<u32>,
    state: Cell<State>,
    _rest: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
enum State {
    Taken,
    Free,
    /// Free, and its whole pages were returned to the operating system.
    GivenBack,
}

/// The links at the start of a free piece.
#[repr(C)]
struct Links {
    next: Cell<Option<PiecePosition>>,
    previous: Cell<Option<PiecePosition>>,
}

/// The first bytes of each region.
#[repr(C)]
struct RegionHead {
    arena: u32,
}

/// A head in a region of this arena.
#[derive(Clone, Copy, PartialEq, Eq)]
struct PiecePosition(NonNull<u8>);

impl PiecePosition {
    fn first_of(region: &Region) -> PiecePosition {
        PiecePosition(region.at(FIRST_HEAD))
    }

    /// The head of the piece that begins at `start`.
    fn of_piece(start: NonNull<u8>) -> PiecePosition {
        PiecePosition(offset(start, -(HEAD_BYTES as isize)))
    }

    fn piece(self) -> NonNull<u8> {
        offset(self.0, HEAD_BYTES as isize)
    }

    fn head(&self) -> &Head {
        // SAFETY: a place is that of a head. Only the holder of the arena touches heads, and only
        // through cells (invariants 1 and 5).
        unsafe { self.0.cast().as_ref() }
    }

    /// REQUIRES: the piece is free, or is about to be.
    fn links(&self) -> &Links {
        // SAFETY: a free piece has at least `UNIT - HEAD_BYTES` bytes, begins at a multiple of
        // `UNIT`, and only the arena refers to it.
        unsafe { offset(self.0, HEAD_BYTES as isize).cast().as_ref() }
    }

    fn units(self) -> u32 {
        self.head().units.get()
    }

    fn is_free(self) -> bool {
        self.head().state.get() != State::Taken
    }

    /// Number of its free units that are not returned to the operating system.
    fn idle_units(self) -> usize {
        if self.head().state.get() == State::Free { self.units() as usize } else { 0 }
    }

    /// Bytes from the beginning of its region.
    fn offset(self) -> usize {
        self.0.as_ptr().addr() % Region::BYTES
    }

    fn is_whole_region(self) -> bool {
        self.units() == REGION_UNITS
    }

    fn next(self) -> Option<PiecePosition> {
        let bytes = self.units() as usize * UNIT;
        let is_last = self.offset() + bytes + UNIT > Region::BYTES;
        if is_last { None } else { Some(PiecePosition(offset(self.0, bytes as isize))) }
    }

    fn before(self) -> Option<PiecePosition> {
        match self.head().before.get() {
            0 => None,
            units => Some(PiecePosition(offset(self.0, -(units as isize * UNIT as isize)))),
        }
    }

    /// Writes a head here.
    fn write(self, units: u32, before: u32, state: State) {
        let head = Head { units: units.into(), before: before.into(), state: state.into(), _rest: 0 };
        // SAFETY: the place is aligned and lies in a region of the arena, outside pieces that are
        // allocated.
        unsafe { self.0.cast().write(head) };
    }

    /// Sets the length of the piece, in its head and in the next one.
    fn set_units(self, units: u32) {
        self.head().units.set(units);
        if let Some(next) = self.next() {
            next.head().before.set(units);
        }
    }
}

/// REQUIRES: the result lies in the same region.
fn offset(from: NonNull<u8>, bytes: isize) -> NonNull<u8> {
    // SAFETY: the result lies in a region, and no region contains address 0.
    unsafe { NonNull::new_unchecked(from.as_ptr().wrapping_offset(bytes)) }
}

/// See the head of the file.
pub(super) struct BufferArena {
    lists: [Option<PiecePosition>; LISTS],
    filled: [u64; WORDS],
    /// Regions that are one free piece.
    whole: u32,
    /// Units in use.
    taken: usize,
    /// Free units that were not returned to the operating system.
    idle: usize,
}

// SAFETY: the arena owns its regions and moves with them to another thread.
unsafe impl Send for BufferArena {}

/// The list of pieces of this many units.
fn list_of(units: u32) -> usize {
    if units < EXACT {
        return units as usize;
    }
    let shift = units.ilog2() - EXACT.ilog2() + 1;
    (EXACT + (shift - 1) * FINE + (units >> shift) - FINE) as usize
}

/// The first list whose pieces all have at least this many units.
fn list_for(units: u32) -> usize {
    if units < EXACT {
        return units as usize;
    }
    let shift = units.ilog2() - EXACT.ilog2() + 1;
    list_of(units + (1 << shift) - 1)
}

impl BufferArena {
    pub(super) const fn new() -> BufferArena {
        BufferArena { lists: [None; LISTS], filled: [0; WORDS], whole: 0, taken: 0, idle: 0 }
    }

    /// The number of the arena that the piece's region was added to.
    /// # Safety The piece was allocated and not freed.
    pub(super) unsafe fn number_of(start: NonNull<u8>) -> u32 {
        let region = start.as_ptr().map_addr(|at| at - at % Region::BYTES).cast::<RegionHead>();
        // SAFETY: `add` wrote it before the first piece of the region was allocated, and nothing
        // writes it later.
        unsafe { (*region).arena }
    }

    /// Adds a region to cut pieces from. `number` is the number of this arena.
    pub(super) fn add(&mut self, region: Region, number: u32) {
        // SAFETY: the region is new, only this function refers to it, and it begins at a multiple
        // of its size.
        unsafe { region.at(0).cast().write(RegionHead { arena: number }) };
        let place = PiecePosition::first_of(&region);
        place.write(REGION_UNITS, 0, State::GivenBack);
        self.link(place);
        std::mem::forget(region);
    }

    /// A piece with room for `length` bytes, and the size of its room. All its bytes are
    /// initialized. `None` if no piece is large enough.
    pub(super) fn allocate(&mut self, length: usize) -> Option<(NonNull<u8>, usize)> {
        debug_assert!(length <= MOST_ROOM, "{length} bytes");
        let units = ((length + HEAD_BYTES).div_ceil(UNIT) as u32).max(1);
        let place = self.find(list_for(units))?;
        self.unlink(place);
        let rest = place.units() - units;
        // A rest of at most an eighth stays with the piece: it would be of little use to others.
        let most = length + length / 8;
        if rest > 0 && place.units() as usize * UNIT - HEAD_BYTES > most {
            let state = place.head().state.get();
            place.head().units.set(units);
            let behind = PiecePosition(offset(place.0, (units as usize * UNIT) as isize));
            behind.write(rest, units, state);
            behind.set_units(rest);
            self.link(behind);
        }
        place.head().state.set(State::Taken);
        self.taken += place.units() as usize;
        Some((place.piece(), place.units() as usize * UNIT - HEAD_BYTES))
    }

    /// Frees a piece and joins it with its free neighbours. Returns regions that became unused.
    /// # Safety
    /// This arena allocated the piece, and nothing refers to it any more.
    pub(super) unsafe fn free(&mut self, start: NonNull<u8>) -> Vec<Region> {
        let mut place = PiecePosition::of_piece(start);
        debug_assert!(!place.is_free(), "the piece is free already");
        let mut units = place.units();
        self.taken -= units as usize;
        if let Some(next) = place.next().filter(|next| next.is_free()) {
            self.unlink(next);
            units += next.units();
        }
        if let Some(before) = place.before().filter(|before| before.is_free()) {
            self.unlink(before);
            units += before.units();
            place = before;
        }
        place.set_units(units);
        place.head().state.set(State::Free);
        self.link(place);
        if self.idle > self.taken.max(MOST_IDLE) {
            self.trim()
        } else if place.is_whole_region() && self.whole > 1 {
            // One unused region stays, for callers that allocate and free at a region's edge.
            vec![self.remove(place)]
        } else {
            Vec::new()
        }
    }

    /// Returns the whole pages of all free pieces to the operating system. Returns unused regions.
    pub(super) fn trim(&mut self) -> Vec<Region> {
        let mut regions = Vec::new();
        for list in 0..LISTS {
            let mut at = self.lists[list];
            while let Some(place) = at {
                at = place.links().next.get();
                if place.is_whole_region() {
                    regions.push(self.remove(place));
                } else if place.head().state.replace(State::GivenBack) == State::Free {
                    self.idle -= place.units() as usize;
                    let from = place.offset() + HEAD_BYTES + size_of::<Links>();
                    let to = place.offset() + place.units() as usize * UNIT;
                    // SAFETY: the range lies between the links of a free piece and the next head.
                    unsafe { Region::return_to_system(place.0, from..to) };
                }
            }
        }
        regions
    }

    /// Removes a region that is one free piece.
    fn remove(&mut self, place: PiecePosition) -> Region {
        self.unlink(place);
        // SAFETY: `add` forgot the region, and none of it is allocated or in a list.
        unsafe { Region::from_within(place.0) }
    }

    /// The first piece of the first list from `from` on that is not empty.
    fn find(&self, from: usize) -> Option<PiecePosition> {
        let first = from / 64;
        let here = self.filled.get(first)? & (u64::MAX << (from % 64));
        let later = self.filled.iter().enumerate().skip(first + 1).map(|(word, &bits)| (word, bits));
        let (word, bits) = std::iter::once((first, here)).chain(later).find(|&(_, bits)| bits != 0)?;
        self.lists[word * 64 + bits.trailing_zeros() as usize]
    }

    fn link(&mut self, place: PiecePosition) {
        let list = list_of(place.units());
        let next = self.lists[list].replace(place);
        self.filled[list / 64] |= 1 << (list % 64);
        self.whole += u32::from(place.is_whole_region());
        self.idle += place.idle_units();
        let links = Links { next: next.into(), previous: None.into() };
        // SAFETY: the piece is free, aligned, and long enough (see `links`).
        unsafe { place.piece().cast().write(links) };
        if let Some(next) = next {
            next.links().previous.set(Some(place));
        }
    }

    fn unlink(&mut self, place: PiecePosition) {
        let list = list_of(place.units());
        let (next, previous) = (place.links().next.get(), place.links().previous.get());
        match previous {
            Some(previous) => previous.links().next.set(next),
            None => self.lists[list] = next,
        }
        if let Some(next) = next {
            next.links().previous.set(previous);
        }
        if self.lists[list].is_none() {
            self.filled[list / 64] &= !(1 << (list % 64));
        }
        self.whole -= u32::from(place.is_whole_region());
        self.idle -= place.idle_units();
    }
}

#[cfg(test)]
mod tests;
