//! Collects the keys of a table and builds a filter of them.
//!
//! In: user keys without timestamps, and prefixes, in the table's order. Out: filter contents, byte
//! for byte those that RocksDB writes with `optimize_filters_for_memory = false`.
//!
//! Invariants
//!  1. As in RocksDB, a hash is dropped only if it equals the one before it: repetitions of a
//!     prefix are neighbours. Dropping affects only the size, but the size must be RocksDB's.

use super::custom::CustomFilterBitsBuilder;
use super::{Layout, fast_local_bloom, key_hash, legacy_bloom, legacy_key_hash, ribbon};
use esker_base::{Error, Result};

/// The kind of filter to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FilterKind {
    /// Format version 5 and later.
    FastLocalBloom {
        /// Thousandths of bits for each key.
        millibits_per_key: u32,
    },
    /// Format versions below 5.
    LegacyBloom {
        /// Bits for each key.
        bits_per_key: u32,
    },
    /// Format version 5 and later. If `FastLocalBloom` would be smaller, the builder writes that.
    Ribbon {
        /// Thousandths of bits per key that a Bloom filter of the same false positive rate has.
        millibits_per_key: u32,
    },
    /// By user code.
    Custom,
}

/// Hashes of one width, with the state to drop repetitions.
#[derive(Debug)]
struct Hashes<H> {
    entries: Vec<H>,
    /// The previous key's prefix.
    previous_prefix: Option<H>,
}

impl<H: Copy + PartialEq> Hashes<H> {
    fn new() -> Hashes<H> {
        Hashes { entries: Vec::new(), previous_prefix: None }
    }

    #[inline]
    fn add(&mut self, hash: H) {
        if self.entries.last() != Some(&hash) {
            self.entries.push(hash);
        }
    }

    #[inline]
    fn add_key_and_prefix(&mut self, key: H, prefix: H) {
        let last = self.entries.last().copied();
        let previous_prefix = self.previous_prefix.replace(prefix);
        // The prefix goes first, so that the last entry is always the previous key.
        if Some(prefix) != previous_prefix && prefix != key && Some(prefix) != last {
            self.entries.push(prefix);
        }
        if Some(key) != last && Some(key) != previous_prefix {
            self.entries.push(key);
        }
    }
}

#[derive(Debug)]
enum Collected {
    Wide(Hashes<u64>),
    Legacy(Hashes<u32>),
    Custom(Box<dyn CustomFilterBitsBuilder>),
}

/// Builds the filter of one table.
#[derive(Debug)]
pub struct FilterBitsBuilder {
    kind: FilterKind,
    /// RocksDB's `optimize_filters_for_memory`.
    fill_memory: bool,
    /// RocksDB's `detect_filter_construct_corruption`.
    checks: bool,
    /// The fault of a finished filter, such as a key that it lacks.
    fault: Option<Error>,
    collected: Collected,
}

impl FilterBitsBuilder {
    /// A builder without keys. For [`FilterKind::Custom`] call [`custom`](Self::custom): a builder
    /// of that kind made here writes no filter.
    pub fn new(kind: FilterKind) -> FilterBitsBuilder {
        let collected = match kind {
            FilterKind::LegacyBloom { .. } => Collected::Legacy(Hashes::new()),
            _ => Collected::Wide(Hashes::new()),
        };
        FilterBitsBuilder { kind, fill_memory: false, checks: false, fault: None, collected }
    }

    /// A builder by user code.
    pub fn custom(builder: Box<dyn CustomFilterBitsBuilder>) -> FilterBitsBuilder {
        let collected = Collected::Custom(builder);
        let kind = FilterKind::Custom;
        FilterBitsBuilder { kind, fill_memory: false, checks: false, fault: None, collected }
    }

    /// Sets whether each finished filter is asked for all its keys
    /// (`detect_filter_construct_corruption`): see [`Self::status`]. Off by default.
    #[must_use]
    pub fn check(mut self, on: bool) -> FilterBitsBuilder {
        self.checks = on;
        self
    }

    /// Whether all finished filters were found to be right.
    /// # Errors
    /// `Corruption`: a filter lacks a key that was added, by a fault of memory or processor · the
    /// error of a check by user code.
    pub fn status(&self) -> Result<()> {
        self.fault.clone().map_or(Ok(()), Err)
    }

    /// Sets whether Bloom filters use all the memory that the allocator gives them
    /// (`optimize_filters_for_memory`). Off by default.
    #[must_use]
    pub fn fill_memory(mut self, on: bool) -> FilterBitsBuilder {
        self.fill_memory = on;
        self
    }

    /// The kind of filter that it builds.
    pub fn kind(&self) -> FilterKind {
        self.kind
    }

    /// Adds a key or a prefix; for filters of one of the two only, and for keys without a prefix.
    #[inline]
    pub fn add_key(&mut self, key: &[u8]) {
        match &mut self.collected {
            Collected::Wide(hashes) => hashes.add(key_hash(key)),
            Collected::Legacy(hashes) => hashes.add(legacy_key_hash(key)),
            Collected::Custom(bits) => bits.add_key(key),
        }
    }

    /// Adds a key and its prefix.
    #[inline]
    pub fn add_key_and_prefix(&mut self, key: &[u8], prefix: &[u8]) {
        match &mut self.collected {
            Collected::Wide(hashes) => hashes.add_key_and_prefix(key_hash(key), key_hash(prefix)),
            Collected::Legacy(hashes) => {
                hashes.add_key_and_prefix(legacy_key_hash(key), legacy_key_hash(prefix));
            }
            Collected::Custom(bits) => bits.add_key_and_alt(key, prefix),
        }
    }

    /// Number of entries (the property `rocksdb.num.filter_entries`).
    pub fn num_entries(&self) -> usize {
        match &self.collected {
            Collected::Wide(hashes) => hashes.entries.len(),
            Collected::Legacy(hashes) => hashes.entries.len(),
            Collected::Custom(bits) => bits.estimate_entries_added(),
        }
    }

    /// Size of the filter if it were finished now, in bytes.
    pub fn estimated_bytes(&self) -> usize {
        let n = self.num_entries();
        match (self.kind, &self.collected) {
            _ if n == 0 => 0,
            (_, Collected::Custom(bits)) => bits.calculate_space(n),
            (FilterKind::Custom, _) => 0,
            (FilterKind::LegacyBloom { bits_per_key }, _) => legacy_bloom::filter_bytes(n, bits_per_key),
            (FilterKind::Ribbon { millibits_per_key }, Collected::Wide(hashes)) => {
                let first = hashes.entries.first().copied().unwrap_or(0);
                match ribbon::Sizing::choose(n, millibits_per_key, first) {
                    Some(sizing) => sizing.filter_bytes(),
                    None => fast_local_bloom::filter_bytes(n, millibits_per_key),
                }
            }
            (
                FilterKind::FastLocalBloom { millibits_per_key } | FilterKind::Ribbon { millibits_per_key },
                _,
            ) => fast_local_bloom::filter_bytes(n, millibits_per_key),
        }
    }

    /// Number of entries that fit into a filter of `bytes`, by RocksDB's estimate.
    pub fn approximate_num_entries(&self, bytes: usize) -> usize {
        if let Collected::Custom(bits) = &self.collected {
            return bits.approximate_num_entries(bytes);
        }
        match self.kind {
            FilterKind::Custom => bytes,
            FilterKind::FastLocalBloom { millibits_per_key } => {
                fast_local_bloom::entries_for(bytes, millibits_per_key)
            }
            FilterKind::LegacyBloom { bits_per_key } => legacy_bloom::entries_for(bytes, bits_per_key),
            FilterKind::Ribbon { millibits_per_key } => ribbon::entries_for(bytes, millibits_per_key),
        }
    }

    /// The filter; empty if nothing was added. Empties the builder.
    pub fn finish(&mut self) -> Vec<u8> {
        if let Collected::Custom(bits) = &mut self.collected {
            let contents = bits.finish();
            let checked = bits.maybe_post_verify(&contents);
            self.fault = self.fault.take().or(checked.err());
            return contents;
        }
        let contents = self.build();
        if self.checks && !self.has_all(&contents) {
            self.fault = Some(Error::corruption("Corrupted filter content"));
        }
        match &mut self.collected {
            Collected::Wide(hashes) => *hashes = Hashes::new(),
            Collected::Legacy(hashes) => *hashes = Hashes::new(),
            Collected::Custom(_) => {}
        }
        contents
    }

    /// Whether a filter with these contents has all hashes.
    fn has_all(&self, contents: &[u8]) -> bool {
        match (Layout::parse(contents), &self.collected) {
            (Layout::FastLocalBloom(l), Collected::Wide(h)) => {
                h.entries.iter().all(|hash| l.may_match(contents, *hash))
            }
            (Layout::Ribbon(l), Collected::Wide(h)) => {
                h.entries.iter().all(|hash| l.may_match(contents, *hash))
            }
            (Layout::LegacyBloom(l), Collected::Legacy(h)) => {
                h.entries.iter().all(|hash| l.may_match(contents, *hash))
            }
            (Layout::MatchesEverything, _) => true,
            _ => self.num_entries() == 0,
        }
    }

    fn build(&self) -> Vec<u8> {
        match (self.kind, &self.collected) {
            (FilterKind::FastLocalBloom { millibits_per_key }, Collected::Wide(hashes)) => {
                if self.fill_memory {
                    fast_local_bloom::build_filling_memory(&hashes.entries, millibits_per_key)
                } else {
                    fast_local_bloom::build(&hashes.entries, millibits_per_key)
                }
            }
            (FilterKind::Ribbon { millibits_per_key }, Collected::Wide(hashes)) => {
                build_ribbon_or_bloom(&hashes.entries, millibits_per_key)
            }
            (FilterKind::LegacyBloom { bits_per_key }, Collected::Legacy(hashes)) => {
                legacy_bloom::build(&hashes.entries, bits_per_key)
            }
            (FilterKind::Custom, _) => Vec::new(),
            (kind, _) => unreachable!("{kind:?} and its hashes are chosen together in `new`"),
        }
    }
}

fn build_ribbon_or_bloom(hashes: &[u64], millibits_per_key: u32) -> Vec<u8> {
    let Some(&first) = hashes.first() else { return Vec::new() };
    ribbon::Sizing::choose(hashes.len(), millibits_per_key, first)
        .and_then(|sizing| ribbon::build(hashes, sizing))
        .unwrap_or_else(|| fast_local_bloom::build(hashes, millibits_per_key))
}

#[cfg(test)]
mod tests;
