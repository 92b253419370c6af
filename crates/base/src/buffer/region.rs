//! Memory of the operating system, a huge page at a time.
//!
//! In: nothing. Out: regions, of which whole pages can be given back before they go as a whole.
//!
//! Invariant: a region begins at a multiple of its size, so that any address in it leads to its
//! beginning.

use crate::memory::{HUGE_PAGE_BYTES, prefer_huge_pages};
use std::ops::Range;
use std::ptr::NonNull;

/// Memory as large as a huge page, and aligned so, that holds zeros at first. It goes back when it
/// is dropped.
///
/// It comes from the operating system, not from the allocator: those keep what is given back, and
/// let none but the largest pieces begin where huge pages do.
#[derive(Debug)]
pub(super) struct Region(NonNull<u8>);

// SAFETY: it is the only claim to its memory.
unsafe impl Send for Region {}

impl Region {
    pub(super) const BYTES: usize = HUGE_PAGE_BYTES;

    /// Backed by a huge page if that `is_huge` and can be had. `None`: there is no memory.
    pub(super) fn new(is_huge: bool) -> Option<Region> {
        let region = Region(map_region()?);
        if is_huge {
            // SAFETY: it is this region's memory, all of it, and nobody else has it yet.
            prefer_huge_pages(unsafe {
                std::slice::from_raw_parts_mut(region.0.as_ptr().cast(), Region::BYTES)
            });
        }
        Some(region)
    }

    /// The address so many bytes behind its beginning.
    pub(super) fn at(&self, offset: usize) -> NonNull<u8> {
        assert!(offset < Region::BYTES, "{offset}");
        // SAFETY: that lies within.
        unsafe { self.0.add(offset) }
    }

    /// The region in which the address lies.
    /// # Safety
    /// There is one, it was forgotten, and is got back once. The address came from [`Region::at`].
    pub(super) unsafe fn from_within(address: NonNull<u8>) -> Region {
        Region(start_of(address))
    }

    /// Gives memory back to the operating system, as far as whole pages lie in `bytes` of the
    /// region in which the address lies. What it holds then is not known; it is initialized.
    /// # Safety
    /// There is such a region, and nobody uses these bytes of it. The address came from
    /// [`Region::at`].
    pub(super) unsafe fn give_back(address: NonNull<u8>, bytes: Range<usize>) {
        #[cfg(all(target_os = "linux", not(miri)))]
        {
            let page = page_bytes();
            let (from, to) = (bytes.start.next_multiple_of(page), bytes.end / page * page);
            if from < to {
                let start = start_of(address).as_ptr().wrapping_add(from);
                // SAFETY: whole pages of the region that nobody uses: they read zero from now on.
                // If it is refused nothing has changed.
                unsafe { libc::madvise(start.cast(), to - from, libc::MADV_DONTNEED) };
            }
        }
        #[cfg(not(all(target_os = "linux", not(miri))))]
        {
            let _: (NonNull<u8>, Range<usize>) = (address, bytes);
        }
    }
}

/// Where the region begins in which the address lies.
fn start_of(address: NonNull<u8>) -> NonNull<u8> {
    let back = address.as_ptr().addr() % Region::BYTES;
    // SAFETY: regions begin at multiples of their size, so that is not before this one.
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
    // Newer kernels align what is as large as a huge page by themselves.
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

/// Memory of zeros that is nobody else's.
#[cfg(all(target_os = "linux", not(miri)))]
fn map(bytes: usize) -> Option<NonNull<u8>> {
    let (read_write, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, wherever the kernel likes it, overlaps nothing.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, read_write, private, -1, 0) };
    if start == libc::MAP_FAILED { None } else { NonNull::new(start.cast()) }
}

/// REQUIRES: whole pages of what `map` gave, which nobody uses.
#[cfg(all(target_os = "linux", not(miri)))]
fn unmap(start: *mut u8, bytes: usize) {
    // SAFETY: they are the caller's to give back. It fails only for want of memory for the kernel's
    // books; then they stay.
    unsafe { libc::munmap(start.cast(), bytes) };
}

#[cfg(all(target_os = "linux", not(miri)))]
fn page_bytes() -> usize {
    // SAFETY: it reads a constant of the system.
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
        // SAFETY: `map_region` allocated it so.
        unsafe { std::alloc::dealloc(self.0.as_ptr(), REGION_LAYOUT) };
    }
}
