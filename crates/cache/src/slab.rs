//! A slab: memory for small objects of one size, side by side.
//!
//! Out: slots, each for one owner. In: slots that their owners release.
//!
//! A general allocator puts a cache entry next to the block made with it, so each entry lies in its
//! own page of memory. A lookup reads little else and would mostly wait for the page table. Here
//! forty entries share a page, and neither making nor freeing one calls the allocator.
//!
//! Slots are numbered. Their memory is in segments that stay in place until the slab is dropped.
//! Each segment is as long as all before it. A slot that was never used is taken from the end; a
//! released slot comes from a stack (Treiber 1986). The stack's links lie beside the slots, so that
//! a pop may read a link while another thread fills the slot. There are `STACKS` stacks, so that
//! processors do not wait for each other. A thread pushes to its own stack and pops from another
//! only if its own is empty.
//!
//! ```text
//! free   pops 32 | number of the uppermost slot 32
//! ```
//!
//! Invariants
//!  1. A number is in at most one place: on a stack, with one owner, or never allocated.
//!  2. A pop that succeeds has read the right link: another pop in between would have changed
//!     `pops`. (Only 2^32 pops between one thread's load and its update could hide that.)
//!  3. Every use of a slot by an owner lies before the next owner's: a push releases, a pop
//!     acquires.
//!  4. Nothing here waits.

use crossbeam_utils::CachePadded;
use esker_base::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use esker_base::sync::thread_number;
use std::cell::UnsafeCell;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

/// Slots of the first segment.
const FIRST_BITS: u32 = if cfg!(loom) { 1 } else { 6 };
const FIRST: usize = 1 << FIRST_BITS;
/// Enough segments for every 32-bit number.
const SEGMENTS: usize = (u32::BITS - FIRST_BITS + 1) as usize;
/// The number of no slot.
const NONE: u32 = u32::MAX;
const POP: u64 = 1 << 32;
/// Number of stacks, a power of two.
const STACKS: usize = if cfg!(loom) { 2 } else { 8 };

/// Bytes of a slot beside its content.
pub(crate) const LINK_BYTES: usize = size_of::<AtomicU32>();

struct Segment<T> {
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    /// For each slot on a stack, the slot below it.
    links: Box<[AtomicU32]>,
}

/// See the head of the file.
pub(crate) struct Slab<T> {
    segments: [AtomicPtr<Segment<T>>; SEGMENTS],
    /// Slots that were allocated at least once.
    used: CachePadded<AtomicUsize>,
    free: [CachePadded<AtomicU64>; STACKS],
}

// SAFETY: each slot belongs to one owner at a time, on any thread (invariants 1 and 3).
unsafe impl<T: Send> Send for Slab<T> {}
// SAFETY: threads share only atomics; each slot belongs to one owner (invariants 1 and 3).
unsafe impl<T: Send> Sync for Slab<T> {}

/// The segment of a slot, and its place there.
#[inline]
fn locate(number: u32) -> (usize, usize) {
    let number = number as usize;
    let segment = usize::BITS - (number >> FIRST_BITS).leading_zeros();
    (segment as usize, number - (((FIRST << segment) >> 1) & !(FIRST - 1)))
}

#[inline]
fn own_stack() -> usize {
    // Models must not differ from run to run.
    if cfg!(loom) { 0 } else { thread_number() & (STACKS - 1) }
}

fn segment_len(segment: usize) -> usize {
    if segment == 0 { FIRST } else { FIRST << (segment - 1) }
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Slab<T> {
        Slab {
            segments: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            used: CachePadded::new(AtomicUsize::new(0)),
            free: std::array::from_fn(|_| CachePadded::new(AtomicU64::new(u64::from(NONE)))),
        }
    }

    /// An empty slot for the caller alone, and its number. `None`: all numbers are in use.
    pub(crate) fn take(&self) -> Option<(NonNull<T>, u32)> {
        self.take_by(own_stack())
    }

    /// Takes a slot for a thread whose stack is `own`.
    fn take_by(&self, own: usize) -> Option<(NonNull<T>, u32)> {
        let number = self.pop(own).or_else(|| self.next())?;
        let (segment, offset) = locate(number);
        let slot = self.segment(segment).slots[offset].get().cast::<T>();
        Some((NonNull::new(slot)?, number))
    }

    /// Frees a slot without content. No thread may read the slot after this call has begun.
    pub(crate) fn release(&self, number: u32) {
        self.release_by(own_stack(), number);
    }

    fn release_by(&self, own: usize, number: u32) {
        let link = self.link(number);
        let stack = &self.free[own];
        let mut free = stack.load(Ordering::Relaxed);
        loop {
            link.store(free as u32, Ordering::Relaxed);
            let after = (free & !u64::from(NONE)) | u64::from(number);
            match stack.compare_exchange_weak(free, after, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => free = now,
            }
        }
    }

    fn pop(&self, own: usize) -> Option<u32> {
        (0..STACKS).find_map(|i| self.pop_from(&self.free[(own + i) & (STACKS - 1)]))
    }

    fn pop_from(&self, stack: &AtomicU64) -> Option<u32> {
        let mut free = stack.load(Ordering::Acquire);
        loop {
            let number = free as u32;
            if number == NONE {
                return None;
            }
            let below = self.link(number).load(Ordering::Relaxed);
            let after = (free & !u64::from(NONE)).wrapping_add(POP) | u64::from(below);
            match stack.compare_exchange_weak(free, after, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return Some(number),
                Err(now) => free = now,
            }
        }
    }

    /// A slot that was never used.
    fn next(&self) -> Option<u32> {
        let number = self.used.fetch_add(1, Ordering::Relaxed);
        let number = u32::try_from(number).ok().filter(|&number| number != NONE)?;
        self.add_segment(locate(number).0);
        Some(number)
    }

    /// Adds a segment, unless another thread has added it.
    fn add_segment(&self, index: usize) {
        let place = &self.segments[index];
        if !place.load(Ordering::Acquire).is_null() {
            return;
        }
        let mine = Box::into_raw(Box::new(Segment::new(segment_len(index))));
        if place.compare_exchange(ptr::null_mut(), mine, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            // SAFETY: the segment came from a Box just now and was not published.
            drop(unsafe { Box::from_raw(mine) });
        }
    }

    #[inline]
    fn segment(&self, index: usize) -> &Segment<T> {
        // SAFETY: `next` made it before it allocated the first of its slots; it stays until the
        // slab is dropped.
        unsafe { &*self.segments[index].load(Ordering::Acquire) }
    }

    #[inline]
    fn link(&self, number: u32) -> &AtomicU32 {
        let (segment, offset) = locate(number);
        &self.segment(segment).links[offset]
    }
}

impl<T> Segment<T> {
    fn new(len: usize) -> Segment<T> {
        let slots = Box::<[UnsafeCell<MaybeUninit<T>>]>::new_uninit_slice(len);
        // SAFETY: a cell of possibly uninitialized memory needs no initialization.
        let slots = unsafe { slots.assume_init() };
        #[cfg(not(any(loom, shuttle)))]
        let links = {
            let zeroed = Box::<[AtomicU32]>::new_zeroed_slice(len);
            // SAFETY: zero bytes are valid atomics. Until a thread writes to them they take no
            // memory.
            unsafe { zeroed.assume_init() }
        };
        #[cfg(any(loom, shuttle))]
        let links = (0..len).map(|_| AtomicU32::new(0)).collect();
        Segment { slots, links }
    }
}

impl<T> Drop for Slab<T> {
    /// Does not drop the slots' contents: each owner of a slot keeps the slab alive, so no slot
    /// is owned now.
    fn drop(&mut self) {
        for place in &self.segments {
            let segment = place.load(Ordering::Acquire);
            if !segment.is_null() {
                // SAFETY: `add_segment` made it from a Box, and `&mut self` shows that no other
                // thread has the slab.
                drop(unsafe { Box::from_raw(segment) });
            }
        }
    }
}

impl<T> fmt::Debug for Slab<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slab").field("used", &self.used.load(Ordering::Relaxed)).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
