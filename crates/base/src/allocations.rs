//! A counting global allocator, for campaigns that compare the memory of operations.
//!
//! In: `#[global_allocator] static ALLOCATOR: CountingAllocator = CountingAllocator;` in a program.
//! Out: [`Allocations::now`], for all threads of the process together.
//!
//! Cost: four relaxed atomic operations an allocation. No library of this workspace installs it.
//!
//! Invariants
//!  1. Memory comes from and goes back to [`System`] with the layout that the caller gave.
//!  2. Without the allocator installed all numbers stay zero.

use crate::sync::process::atomic::{AtomicU64, Ordering};
use std::alloc::{GlobalAlloc, Layout, System};

static COUNT: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
static LIVE: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);

/// The system's allocator, counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountingAllocator;

/// Counts of the allocations by all threads of this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Allocations {
    /// Allocations and reallocations since the process began.
    pub count: u64,
    /// Bytes requested by these allocations.
    pub bytes: u64,
    /// Bytes allocated and not yet freed.
    pub live: u64,
    /// The most bytes that were allocated at once since [`Allocations::reset_peak`].
    pub peak: u64,
}

impl Allocations {
    /// The current counts. They may not match each other exactly while other threads allocate.
    pub fn now() -> Allocations {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Allocations { count: read(&COUNT), bytes: read(&BYTES), live: read(&LIVE), peak: read(&PEAK) }
    }

    /// Restarts the peak from the bytes allocated now.
    pub fn reset_peak() {
        PEAK.store(LIVE.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

fn allocated(bytes: usize) {
    let bytes = bytes as u64;
    COUNT.fetch_add(1, Ordering::Relaxed);
    BYTES.fetch_add(bytes, Ordering::Relaxed);
    let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(live, Ordering::Relaxed);
}

fn freed(bytes: usize) {
    LIVE.fetch_sub(bytes as u64, Ordering::Relaxed);
}

// SAFETY: every method passes its arguments to `System`, which is a correct allocator, and returns
// the result of `System`; the counters allocate nothing.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocated(layout.size());
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        allocated(layout.size());
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc_zeroed`, which is the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        freed(layout.size());
        allocated(size);
        // SAFETY: `block` came from `System` by invariant 1; the rest is the caller's contract.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        freed(layout.size());
        // SAFETY: `block` came from `System` by invariant 1 with this layout.
        unsafe { System.dealloc(block, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls the allocator by hand: the test program does not install it.
    #[test]
    fn blocks_are_counted_and_keep_their_bytes() {
        let layout = Layout::from_size_align(1000, 8).expect("a valid layout");
        let larger = Layout::from_size_align(5000, 8).expect("a valid layout");
        let before = Allocations::now();
        // SAFETY: the layout's size is not zero.
        let block = unsafe { CountingAllocator.alloc_zeroed(layout) };
        assert!(!block.is_null());
        // SAFETY: the block is 1000 bytes of zeros that nothing else refers to.
        unsafe { block.write_bytes(7, 1000) };
        // SAFETY: the block came from this allocator with this layout.
        let block = unsafe { CountingAllocator.realloc(block, layout, larger.size()) };
        assert!(!block.is_null());
        // SAFETY: reallocation keeps the first 1000 bytes, which were written.
        let last = unsafe { block.wrapping_add(999).read() };
        assert_eq!(last, 7);
        let with = Allocations::now();
        assert_eq!((with.count - before.count, with.bytes - before.bytes), (2, 6000));
        assert_eq!(with.live - before.live, 5000);
        assert!(with.peak >= with.live);
        // SAFETY: the block came from this allocator with this layout.
        unsafe { CountingAllocator.dealloc(block, larger) };
        assert_eq!(Allocations::now().live, before.live);
        Allocations::reset_peak();
        assert_eq!(Allocations::now().peak, before.live);
    }
}
