//! Regions: memory with the size and alignment of a huge page, on Linux from the operating system.
//!
//! On Linux whole pages of a region can return to the system before the region does.
//!
//! Invariant: a region begins at a multiple of its size, so any address in it gives its beginning.

use crate::memory::{HUGE_PAGE_BYTES, prefer_huge_pages};
use std::ops::Range;
use std::ptr::NonNull;

/// Memory with a huge page's size and alignment, zeroed at first. A drop frees it.
///
/// On Linux it comes from the operating system, elsewhere and under Miri from the allocator. An
/// allocator keeps freed memory and aligns only the largest pieces to huge pages.
#[derive(Debug)]
pub(super) struct Region(NonNull<u8>);

// SAFETY: the region is the only reference to its memory.
unsafe impl Send for Region {}

impl Region {
    pub(super) const BYTES: usize = HUGE_PAGE_BYTES;

    /// A new region. `is_huge` requests a huge page, if one is available. `None` if there is no
    /// memory.
    pub(super) fn new(is_huge: bool) -> Option<Region> {
        let region = Region(map_region()?);
        if is_huge {
            // SAFETY: the slice is all of this region's memory, and nothing else refers to it yet.
            prefer_huge_pages(unsafe {
                std::slice::from_raw_parts_mut(region.0.as_ptr().cast(), Region::BYTES)
            });
        }
        Some(region)
    }

    /// The address at this offset.
    pub(super) fn at(&self, offset: usize) -> NonNull<u8> {
        assert!(offset < Region::BYTES, "{offset}");
        // SAFETY: the offset lies within the region.
        unsafe { self.0.add(offset) }
    }

    /// The region that contains the address.
    /// # Safety
    /// `address` came from [`Region::at`] of a region that was forgotten. Each such region is
    /// recovered once.
    pub(super) unsafe fn from_within(address: NonNull<u8>) -> Region {
        Region(start_of(address))
    }

    /// Returns the whole pages within `bytes` of the address's region to the operating system.
    /// Afterwards their content is arbitrary, but initialized. Does nothing except on Linux.
    /// # Safety
    /// `address` came from [`Region::at`] of a live region, and nothing refers to these bytes of
    /// it.
    pub(super) unsafe fn return_to_system(address: NonNull<u8>, bytes: Range<usize>) {
        #[cfg(all(target_os = "linux", not(miri)))]
        {
            let page = page_bytes();
            let (from, to) = (bytes.start.next_multiple_of(page), bytes.end / page * page);
            if from < to {
                let start = start_of(address).as_ptr().wrapping_add(from);
                // SAFETY: the range is whole pages of the region that nothing refers to; they read
                // as zeros from now on. A refusal changes nothing.
                unsafe { libc::madvise(start.cast(), to - from, libc::MADV_DONTNEED) };
            }
        }
        #[cfg(not(all(target_os = "linux", not(miri))))]
        {
            let _: (NonNull<u8>, Range<usize>) = (address, bytes);
        }
    }
}

/// The start of the region that contains the address.
fn start_of(address: NonNull<u8>) -> NonNull<u8> {
    let back = address.as_ptr().addr() % Region::BYTES;
    // SAFETY: regions begin at multiples of their size, so the result is not before this region.
    unsafe { address.sub(back) }
}

#[cfg(all(target_os = "linux", not(miri)))]
impl Drop for Region {
    fn drop(&mut self) {
        unmap(self.0.as_ptr(), Region::BYTES);
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
fn map_region() -> Option<NonNull<u8>> {
    // Newer kernels align mappings of a huge page's size by themselves.
    let start = map(Region::BYTES)?;
    if start.as_ptr().addr().is_multiple_of(Region::BYTES) {
        return Some(start);
    }
    unmap(start.as_ptr(), Region::BYTES);
    let start = map(2 * Region::BYTES)?.as_ptr();
    let before = start.addr().next_multiple_of(Region::BYTES) - start.addr();
    let aligned = start.wrapping_add(before);
    if before > 0 {
        unmap(start, before);
    }
    unmap(aligned.wrapping_add(Region::BYTES), Region::BYTES - before);
    NonNull::new(aligned)
}

/// Maps new memory, zeroed.
#[cfg(all(target_os = "linux", not(miri)))]
fn map(bytes: usize) -> Option<NonNull<u8>> {
    let (read_write, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, read_write, private, -1, 0) };
    if start == libc::MAP_FAILED { None } else { NonNull::new(start.cast()) }
}

/// REQUIRES: the bytes are whole pages from `map`, and nothing refers to them.
#[cfg(all(target_os = "linux", not(miri)))]
fn unmap(start: *mut u8, bytes: usize) {
    // SAFETY: the caller owns these pages. The call fails only if the kernel lacks memory; then
    // they stay mapped.
    unsafe { libc::munmap(start.cast(), bytes) };
}

#[cfg(all(target_os = "linux", not(miri)))]
fn page_bytes() -> usize {
    // SAFETY: the call reads a constant of the system.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).ok().filter(|bytes| bytes.is_power_of_two()).unwrap_or(Region::BYTES)
}

#[cfg(not(all(target_os = "linux", not(miri))))]
const REGION_LAYOUT: std::alloc::Layout =
    match std::alloc::Layout::from_size_align(Region::BYTES, Region::BYTES) {
        Ok(layout) => layout,
        Err(_) => panic!("a power of two"),
    };

#[cfg(not(all(target_os = "linux", not(miri))))]
fn map_region() -> Option<NonNull<u8>> {
    // SAFETY: the layout is not empty.
    NonNull::new(unsafe { std::alloc::alloc_zeroed(REGION_LAYOUT) })
}

#[cfg(not(all(target_os = "linux", not(miri))))]
impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: `map_region` allocated it with this layout.
        unsafe { std::alloc::dealloc(self.0.as_ptr(), REGION_LAYOUT) };
    }
}
