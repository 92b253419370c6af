//! Hints about memory, to the operating system and to the processor.

use std::mem::MaybeUninit;

/// What huge pages are worth asking for: a block should have this size, or a multiple, and this
/// alignment.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Asks for `block`, which is not in use yet, to be backed by huge pages: random access to it then
/// misses the address translation cache far less often. Changes nothing else; where it cannot be
/// had, nothing happens.
pub fn prefer_huge_pages(block: &mut [MaybeUninit<u8>]) {
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: the range is memory of the caller; the advice changes how it is backed, not what it
    // holds.
    unsafe {
        // Refused where the kernel has no huge pages; nothing depends on it.
        libc::madvise(block.as_mut_ptr().cast(), block.len(), libc::MADV_HUGEPAGE);
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    {
        let _: &mut [MaybeUninit<u8>] = block;
    }
}

/// How many bytes the processor fetches at once.
pub const CACHE_LINE_BYTES: usize = 64;

/// Has the processor fetch the cache lines of `bytes`, so that reading them soon does not wait.
/// Changes nothing else.
#[inline]
pub fn prefetch(bytes: &[u8]) {
    fetch::<NEAR, false>(bytes);
}

/// As [`prefetch`], the last line first: for who goes back over blocks that lie one behind the
/// other, as the processor, which sees where this leads, then goes on with the one before and not
/// with the one behind.
#[inline]
pub fn prefetch_back(bytes: &[u8]) {
    fetch::<NEAR, true>(bytes);
}

/// As [`prefetch`], for what is read after other things: into the second-level cache, so that it
/// takes none of the few places that lines have on their way into the first.
#[inline]
pub fn prefetch_early(bytes: &[u8]) {
    fetch::<LATER, false>(bytes);
}

/// [`prefetch_early`], the last line first, as [`prefetch_back`] does it.
#[inline]
pub fn prefetch_early_back(bytes: &[u8]) {
    fetch::<LATER, true>(bytes);
}

/// Into all caches.
const NEAR: i32 = 3;
/// Into all but the first.
const LATER: i32 = 2;

#[inline]
fn fetch<const HINT: i32, const BACK: bool>(bytes: &[u8]) {
    let fetch_line = |_at: usize| {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a prefetch of any address has no effect but on caches.
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
