//! A Bloom filter over the keys of a memtable, over their prefixes, or over both.
//!
//! In: user keys, from any number of threads. Out: "certainly not there", or "maybe". A lookup with
//! the first answer skips the tree. Semantics: RocksDB's `memtable_prefix_bloom_size_ratio` and
//! `memtable_whole_key_filtering`.
//!
//! Invariants
//!  1. A key is in the filter before its entry is in the tree. So a reader that can see the entry
//!     finds the bits of its key.
//!  2. Bits are never cleared.
//!
//! All bits of a key lie in one cache line. The first key allocates the filter's memory, so an
//! empty memtable stays small.

use esker_base::prefix::SliceTransformRef;
use esker_base::sync::OnceLock;
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::xxph3;

/// Number of bits that a key sets.
const PROBES: u32 = 6;
/// 64-bit words in a cache line.
const LINE_WORDS: usize = 8;
const LINE_BYTES: usize = LINE_WORDS * 8;

/// The size of a memtable's filter, and the keys that it holds.
#[derive(Clone, Debug)]
pub struct MemTableFilterOptions {
    /// Size of the filter in bytes; at least one cache line.
    pub bytes: usize,
    /// Whether the filter holds whole keys. Lookups then ask for whole keys, otherwise for
    /// prefixes.
    pub whole_keys: bool,
    /// Gives the prefix of a key that comes without its timestamp. `None`: the filter holds no
    /// prefixes.
    pub prefix_extractor: Option<SliceTransformRef>,
}

#[derive(Debug)]
pub(crate) struct Filter {
    options: MemTableFilterOptions,
    lines: OnceLock<Box<[Line]>>,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Line([AtomicU64; LINE_WORDS]);

impl Filter {
    pub(crate) fn new(options: MemTableFilterOptions) -> Filter {
        Filter { options, lines: OnceLock::new() }
    }

    /// Bytes of memory in use: 0 before the first key.
    pub(crate) fn memory_usage(&self) -> usize {
        self.lines.get().map_or(0, |lines| size_of_val(&**lines))
    }

    /// Adds a key without its timestamp. The first key allocates the filter; `made` then gets the
    /// size in bytes.
    pub(crate) fn add(&self, user_key: &[u8], made: impl FnOnce(usize)) {
        let mut is_first = false;
        let lines = self.lines.get_or_init(|| {
            is_first = true;
            let count = (self.options.bytes / LINE_BYTES).max(1);
            (0..count).map(|_| Line::default()).collect()
        });
        if is_first {
            made(size_of_val(&**lines));
        }
        if let Some(prefix) = self.prefix(user_key) {
            set(lines, prefix);
        }
        if self.options.whole_keys {
            set(lines, user_key);
        }
    }

    /// Whether the memtable may have this key. `user_key` comes without its timestamp.
    pub(crate) fn may_hold(&self, user_key: &[u8]) -> bool {
        let Some(lines) = self.lines.get() else { return false };
        if self.options.whole_keys {
            return is_set(lines, user_key);
        }
        // The filter does not hold keys without a prefix, so it cannot exclude them.
        self.prefix(user_key).is_none_or(|prefix| is_set(lines, prefix))
    }

    fn prefix<'k>(&self, user_key: &'k [u8]) -> Option<&'k [u8]> {
        self.options.prefix_extractor.as_ref()?.transform(user_key)
    }
}

/// The bits of a key: for each, its word in the key's cache line, and a mask.
fn probes<'l>(lines: &'l [Line], bytes: &[u8]) -> impl Iterator<Item = (&'l AtomicU64, u64)> + use<'l> {
    let hash = xxph3::hash64(bytes);
    let line = ((hash >> 32) * lines.len() as u64) >> 32;
    let line = &lines[line as usize].0;
    let mut bits = hash as u32;
    (0..PROBES).map(move |_| {
        let bit = bits >> (32 - 9);
        bits = bits.wrapping_mul(0x9E37_79B9);
        (&line[(bit >> 6) as usize], 1 << (bit & 63))
    })
}

fn set(lines: &[Line], bytes: &[u8]) {
    for (word, mask) in probes(lines, bytes) {
        // A load that finds the bit set does not take the cache line away from other writers.
        if word.load(Ordering::Relaxed) & mask == 0 {
            word.fetch_or(mask, Ordering::Relaxed);
        }
    }
}

fn is_set(lines: &[Line], bytes: &[u8]) -> bool {
    probes(lines, bytes).all(|(word, mask)| word.load(Ordering::Relaxed) & mask != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::prefix;

    fn filter(bytes: usize, whole_keys: bool, prefix_extractor: Option<SliceTransformRef>) -> Filter {
        Filter::new(MemTableFilterOptions { bytes, whole_keys, prefix_extractor })
    }

    #[test]
    fn added_keys_are_found_and_few_others() {
        let filter = filter(10_000 * 10 / 8, true, None);
        assert!(!filter.may_hold(b"key"), "an empty filter has no key");
        assert_eq!(filter.memory_usage(), 0);
        let mut made = 0;
        (0..10_000u32).for_each(|i| filter.add(&i.to_be_bytes(), |bytes| made += bytes));
        assert_eq!((made, filter.memory_usage()), (12_480, 12_480));
        assert!((0..10_000u32).all(|i| filter.may_hold(&i.to_be_bytes())));
        let wrong = (10_000..20_000u32).filter(|i| filter.may_hold(&i.to_be_bytes())).count();
        assert!(wrong < 200, "{wrong} of 10,000 with 10 bits a key");
    }

    #[test]
    fn keys_without_a_prefix_may_always_be_there() {
        let filter = filter(1_000, false, Some(prefix::fixed(3)));
        filter.add(b"abcdef", |_| {});
        filter.add(b"x", |_| {});
        assert!(filter.may_hold(b"abcxyz") && filter.may_hold(b"ab") && filter.may_hold(b"x"));
        assert!(!filter.may_hold(b"xyzabc"));
    }
}
