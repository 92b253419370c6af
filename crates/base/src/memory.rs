//! Hints about memory, to the operating system and to the processor.

use std::mem::MaybeUninit;

/// Size and alignment of a huge page; a block for [`prefer_huge_pages`] is a multiple of it.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Requests huge pages for `block`, which must not be in use yet. Random access then misses the
/// address translation cache less often. Without huge pages nothing happens.
pub fn prefer_huge_pages(block: &mut [MaybeUninit<u8>]) {
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: the range is memory of the caller; the advice changes its pages, not its content.
    unsafe {
        // Kernels without huge pages refuse; nothing depends on it.
        libc::madvise(block.as_mut_ptr().cast(), block.len(), libc::MADV_HUGEPAGE);
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    {
        let _: &mut [MaybeUninit<u8>] = block;
    }
}

/// Bytes that the processor fetches at once.
pub const CACHE_LINE_BYTES: usize = 64;

/// Prefetches the cache lines of `bytes`, so that a read soon after does not wait. Has no other
/// effect.
#[inline]
pub fn prefetch(bytes: &[u8]) {
    fetch::<NEAR, false>(bytes);
}

/// [`prefetch`] from the last line to the first, for backward scans over adjacent blocks: the
/// hardware prefetcher then continues with the block before.
#[inline]
pub fn prefetch_back(bytes: &[u8]) {
    fetch::<NEAR, true>(bytes);
}

/// [`prefetch`] into the second-level cache, for bytes that are read later: it takes none of the
/// few fill buffers of the first-level cache.
#[inline]
pub fn prefetch_early(bytes: &[u8]) {
    fetch::<LATER, false>(bytes);
}

/// [`prefetch_early`] from the last line to the first, for backward scans.
#[inline]
pub fn prefetch_early_back(bytes: &[u8]) {
    fetch::<LATER, true>(bytes);
}

/// Prefetches into all caches.
const NEAR: i32 = 3;
/// Prefetches into all caches except the first level.
const LATER: i32 = 2;

#[inline]
fn fetch<const HINT: i32, const BACK: bool>(bytes: &[u8]) {
    let fetch_line = |_at: usize| {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a prefetch of any address affects only caches.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<HINT>(bytes.as_ptr().wrapping_add(_at).cast());
        }
    };
    let starts = (0..bytes.len()).step_by(CACHE_LINE_BYTES);
    if BACK { starts.rev().for_each(fetch_line) } else { starts.for_each(fetch_line) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefetching_changes_nothing() {
        for length in [0, 1, 63, 64, 65, 4099] {
            let bytes = vec![7; length];
            prefetch(&bytes);
            prefetch_back(&bytes);
            prefetch_early(&bytes);
            prefetch_early_back(&bytes);
            assert!(bytes.iter().all(|&byte| byte == 7));
        }
    }
}
