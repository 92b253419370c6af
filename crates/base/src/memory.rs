//! Hints about memory to the operating system.

use std::mem::MaybeUninit;

/// What huge pages are worth asking for: a block should have this size, or a multiple, and this alignment.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Asks for `block`, which is not in use yet, to be backed by huge pages: random access to it then misses the address
/// translation cache far less often. Changes nothing else; where it cannot be had, nothing happens.
pub fn prefer_huge_pages(block: &mut [MaybeUninit<u8>]) {
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: the range is memory of the caller; the advice changes how it is backed, not what it holds.
    unsafe {
        // Refused where the kernel has no huge pages; nothing depends on it.
        libc::madvise(block.as_mut_ptr().cast(), block.len(), libc::MADV_HUGEPAGE);
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    {
        let _: &mut [MaybeUninit<u8>] = block;
    }
}
