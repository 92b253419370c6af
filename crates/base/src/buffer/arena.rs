//! Pieces of any size, cut from regions and joined again.
//!
//! In: lengths, regions, pieces that are given back. Out: pieces; regions of which nothing is used.
//! Source: TLSF (Masmano, Ripoll, Crespo, Real, ECRTS '04), which is Knuth's boundary tags (TAOCP
//! 1, 2.5) with lists by size and a bit for each list that is not empty. Lists are finer here:
//! blocks of a table differ by a few bytes.
//!
//! ```text
//! region:  number of its arena | ... | head, piece | head, piece | ... | end
//! head:    units | units of the piece before | state         the last 16 bytes before a line of 64; pieces begin on lines
//! free:    next, previous in its list                        the first bytes of the piece
//! ```
//!
//! Invariants
//!  1. Heads lie behind each other without gap, from the first to the region's end: `units` leads
//!     to the next, `before` back.
//!  2. No two free pieces lie side by side. A free piece is in the list of its size, and in no
//!     other.
//!  3. A list's bit is set exactly if it is not empty.
//!  4. What is free and was not given back to the operating system is not more than what is handed
//!     out, or little.
//!  5. Who has the arena (its lock) may touch heads and free pieces; what is handed out is its
//!     owner's.

use super::region::Region;
use std::cell::Cell;
use std::ptr::NonNull;

/// Sizes are multiples of this, and pieces begin there.
const UNIT: usize = 64;
/// Where the first head lies, so that its piece begins on a line.
const FIRST_HEAD: usize = 2 * UNIT - HEAD_BYTES;
const HEAD_BYTES: usize = size_of::<Head>();
/// Of a region that is one piece.
const REGION_UNITS: u32 = ((Region::BYTES - FIRST_HEAD) / UNIT) as u32;

/// The most that a piece may be asked for.
pub(super) const MOST_ROOM: usize = 256 << 10;
/// Bytes that each piece takes beside its room.
pub(super) const AROUND_BYTES: usize = HEAD_BYTES;

/// Up to so many units (8 KiB) each size has its own list.
const EXACT: u32 = 128;
/// Above, so many lists for each doubling.
const FINE: u32 = EXACT / 2;
const LISTS: usize = (EXACT + FINE * 8) as usize;
const WORDS: usize = LISTS / 64;

/// So many units (4 MiB) may be idle for long.
const MOST_IDLE: usize = (4 << 20) / UNIT;

/// What stands before each piece.
#[repr(C)]
struct Head {
    /// From this head to the next one, or the end.
    units: Cell<u32>,
    /// Of the piece before; 0: this is the first.
    before: Cell<u32>,
    state: Cell<State>,
    _rest: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
enum State {
    Taken,
    Free,
    /// Free, and its whole pages were given back to the operating system.
    GivenBack,
}

/// What stands in each free piece.
#[repr(C)]
struct Links {
    next: Cell<Option<Place>>,
    previous: Cell<Option<Place>>,
}

/// What stands at the beginning of each region.
#[repr(C)]
struct RegionHead {
    arena: u32,
}

/// A head of a region that its arena has.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place(NonNull<u8>);

impl Place {
    fn first_of(region: &Region) -> Place {
        Place(region.at(FIRST_HEAD))
    }

    /// That of the piece that begins there.
    fn of_piece(start: NonNull<u8>) -> Place {
        Place(offset(start, -(HEAD_BYTES as isize)))
    }

    fn piece(self) -> NonNull<u8> {
        offset(self.0, HEAD_BYTES as isize)
    }

    fn head(&self) -> &Head {
        // SAFETY: places are of heads, which only who has the arena touches, and only through cells
        // (invariants 1 and 5).
        unsafe { self.0.cast().as_ref() }
    }

    /// REQUIRES: it is free, or about to be.
    fn links(&self) -> &Links {
        // SAFETY: a piece is at least a unit less a head long, begins on a line, and is nobody's
        // when it is free.
        unsafe { offset(self.0, HEAD_BYTES as isize).cast().as_ref() }
    }

    fn units(self) -> u32 {
        self.head().units.get()
    }

    fn is_free(self) -> bool {
        self.head().state.get() != State::Taken
    }

    /// How many units of it are free and not given back.
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

    fn next(self) -> Option<Place> {
        let bytes = self.units() as usize * UNIT;
        let is_last = self.offset() + bytes + UNIT > Region::BYTES;
        if is_last { None } else { Some(Place(offset(self.0, bytes as isize))) }
    }

    fn before(self) -> Option<Place> {
        match self.head().before.get() {
            0 => None,
            units => Some(Place(offset(self.0, -(units as isize * UNIT as isize)))),
        }
    }

    /// Makes it a head.
    fn write(self, units: u32, before: u32, state: State) {
        let head = Head { units: units.into(), before: before.into(), state: state.into(), _rest: 0 };
        // SAFETY: the place lies in a region of the arena, aligned, where no owner's bytes are.
        unsafe { self.0.cast().write(head) };
    }

    /// It is so long now.
    fn set_units(self, units: u32) {
        self.head().units.set(units);
        if let Some(next) = self.next() {
            next.head().before.set(units);
        }
    }
}

/// REQUIRES: the result lies in the same region.
fn offset(from: NonNull<u8>, bytes: isize) -> NonNull<u8> {
    // SAFETY: regions do not begin at 0, and what lies in them does not either.
    unsafe { NonNull::new_unchecked(from.as_ptr().wrapping_offset(bytes)) }
}

/// See the head of the file.
pub(super) struct Arena {
    lists: [Option<Place>; LISTS],
    filled: [u64; WORDS],
    /// Regions that are one free piece.
    whole: u32,
    /// Units that are handed out.
    taken: usize,
    /// Units that are free and were not given back to the operating system.
    idle: usize,
}

// SAFETY: regions are owned by the arena that has them, wherever it moves.
unsafe impl Send for Arena {}

/// The list of pieces of so many units.
fn list_of(units: u32) -> usize {
    if units < EXACT {
        return units as usize;
    }
    let shift = units.ilog2() - EXACT.ilog2() + 1;
    (EXACT + (shift - 1) * FINE + (units >> shift) - FINE) as usize
}

/// The first list of which each piece has so many units at least.
fn list_for(units: u32) -> usize {
    if units < EXACT {
        return units as usize;
    }
    let shift = units.ilog2() - EXACT.ilog2() + 1;
    list_of(units + (1 << shift) - 1)
}

impl Arena {
    pub(super) const fn new() -> Arena {
        Arena { lists: [None; LISTS], filled: [0; WORDS], whole: 0, taken: 0, idle: 0 }
    }

    /// The number that the arena had to which the region of this piece was added.
    /// # Safety
    /// The piece is handed out.
    pub(super) unsafe fn number_of(start: NonNull<u8>) -> u32 {
        let region = start.as_ptr().map_addr(|at| at - at % Region::BYTES).cast::<RegionHead>();
        // SAFETY: `add` wrote it before the first piece of the region was handed out, and nobody
        // has since.
        unsafe { (*region).arena }
    }

    /// Takes pieces from this region, too. The arena is called `number`.
    pub(super) fn add(&mut self, region: Region, number: u32) {
        // SAFETY: the region is new, nobody else has it, and it begins at a multiple of its size.
        unsafe { region.at(0).cast().write(RegionHead { arena: number }) };
        let place = Place::first_of(&region);
        place.write(REGION_UNITS, 0, State::GivenBack);
        self.link(place);
        std::mem::forget(region);
    }

    /// A piece with room for `length` bytes, which are initialized, and its room; `None`: there is
    /// none.
    pub(super) fn hand_out(&mut self, length: usize) -> Option<(NonNull<u8>, usize)> {
        debug_assert!(length <= MOST_ROOM, "{length} bytes");
        let units = ((length + HEAD_BYTES).div_ceil(UNIT) as u32).max(1);
        let place = self.find(list_for(units))?;
        self.unlink(place);
        let rest = place.units() - units;
        // Less is of little use to others; its owner is charged for it.
        let most = length + length / 8;
        if rest > 0 && place.units() as usize * UNIT - HEAD_BYTES > most {
            let state = place.head().state.get();
            place.head().units.set(units);
            let behind = Place(offset(place.0, (units as usize * UNIT) as isize));
            behind.write(rest, units, state);
            behind.set_units(rest);
            self.link(behind);
        }
        place.head().state.set(State::Taken);
        self.taken += place.units() as usize;
        Some((place.piece(), place.units() as usize * UNIT - HEAD_BYTES))
    }

    /// Takes a piece back, which is joined with its free neighbours. Regions that nobody needs
    /// then.
    /// # Safety
    /// This arena has handed it out, and it is nobody's any more.
    pub(super) unsafe fn take_back(&mut self, start: NonNull<u8>) -> Vec<Region> {
        let mut place = Place::of_piece(start);
        debug_assert!(!place.is_free(), "it is here already");
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
            // One stays, for who allocates and frees at the edge of a region.
            vec![self.remove(place)]
        } else {
            Vec::new()
        }
    }

    /// Gives the whole pages of all free pieces back to the operating system. The regions of which
    /// nothing is used.
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
                    // SAFETY: that is what lies between the links of a free piece and the next
                    // head.
                    unsafe { Region::give_back(place.0, from..to) };
                }
            }
        }
        regions
    }

    /// The region, which is one free piece.
    fn remove(&mut self, place: Place) -> Region {
        self.unlink(place);
        // SAFETY: `add` forgot it, and none of it is handed out or in a list.
        unsafe { Region::from_within(place.0) }
    }

    /// The first piece of a list that is not empty, from this one on.
    fn find(&self, from: usize) -> Option<Place> {
        let first = from / 64;
        let here = self.filled.get(first)? & (u64::MAX << (from % 64));
        let later = self.filled.iter().enumerate().skip(first + 1).map(|(word, &bits)| (word, bits));
        let (word, bits) = std::iter::once((first, here)).chain(later).find(|&(_, bits)| bits != 0)?;
        self.lists[word * 64 + bits.trailing_zeros() as usize]
    }

    fn link(&mut self, place: Place) {
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

    fn unlink(&mut self, place: Place) {
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
