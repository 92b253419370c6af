//! Filters, which tell whether a table can hold a key.
//!
//! In: the contents of a filter block. Out: for a key or prefix, whether the table may hold it.
//! [`FilterBitsBuilder`] writes filters. Bytes: `docs/format/filter.md`. Source: RocksDB
//! `table/block_based/filter_policy.cc`, `util/bloom_impl.h`, `util/ribbon_impl.h`.
//!
//! ```text
//! contents = bits | 5 bytes; the first of the five (m0) is the kind:
//!   0x00 matches everything          0x01-0x7F legacy Bloom
//!   0xFF FastLocalBloom              0xFE Standard128Ribbon
//!   anything else: from the future, matches everything
//! 5 bytes or fewer: no keys, matches nothing
//! ```
//!
//! Invariants
//!  1. A filter never denies a key that was added. A filter of unknown form matches everything, so
//!     parsing cannot fail.

pub mod builder;
pub mod custom;
pub mod fast_local_bloom;
pub mod legacy_bloom;
pub mod partitions;
pub mod policy;
pub mod ribbon;

use esker_base::memory::prefetch;
use esker_base::{hash, xxph3};
use std::fmt;
use std::sync::Arc;

pub use builder::{FilterBitsBuilder, FilterKind};
pub use custom::{
    CustomFilterBitsBuilder, CustomFilterBitsReader, CustomFilterPolicy, CustomFilterPolicyRef,
};
pub use partitions::{FilterPartition, PartitionedFilterBuilder};
pub use policy::{FilterBuildingContext, FilterPolicy};

/// Bytes of metadata at the end of a filter.
pub const METADATA_BYTES: usize = 5;

/// The hash of a key for filters of tables of format version 5 and later.
#[inline]
pub fn key_hash(key: &[u8]) -> u64 {
    xxph3::hash64(key)
}

/// The hash of a key for legacy Bloom filters.
#[inline]
pub fn legacy_key_hash(key: &[u8]) -> u32 {
    hash::hash32(key, hash::BLOOM_SEED)
}

/// A key and its hashes. The probe computes each hash once, for any number of filters.
#[derive(Clone, Copy, Debug)]
pub struct FilterProbe<'a> {
    key: &'a [u8],
    xxph3: Option<u64>,
    hash32: Option<u32>,
}

impl<'a> FilterProbe<'a> {
    /// Makes a probe of a user key (without timestamp) or of a prefix.
    #[inline]
    pub const fn new(key: &'a [u8]) -> FilterProbe<'a> {
        FilterProbe { key, xxph3: None, hash32: None }
    }

    /// The key.
    pub const fn key(&self) -> &'a [u8] {
        self.key
    }

    #[inline]
    fn xxph3(&mut self) -> u64 {
        *self.xxph3.get_or_insert_with(|| key_hash(self.key))
    }

    #[inline]
    fn hash32(&mut self) -> u32 {
        *self.hash32.get_or_insert_with(|| legacy_key_hash(self.key))
    }
}

/// The parsed metadata of a filter, consistent with the filter's length.
#[derive(Clone, Debug)]
enum Layout {
    MatchesNothing,
    MatchesEverything,
    FastLocalBloom(fast_local_bloom::FastLocalBloomLayout),
    LegacyBloom(legacy_bloom::LegacyBloomLayout),
    Ribbon(ribbon::RibbonLayout),
    Custom(Arc<dyn CustomFilterBitsReader>),
}

impl Layout {
    fn parse(contents: &[u8]) -> Layout {
        let Some((bits, metadata)) = contents.split_last_chunk::<METADATA_BYTES>() else {
            return Layout::MatchesNothing;
        };
        if bits.is_empty() {
            return Layout::MatchesNothing;
        }
        let parsed = match metadata[0] {
            0x01..=0x7F => {
                legacy_bloom::LegacyBloomLayout::parse(bits.len(), metadata).map(Layout::LegacyBloom)
            }
            0xFF => fast_local_bloom::FastLocalBloomLayout::parse(bits.len(), metadata)
                .map(Layout::FastLocalBloom),
            0xFE => ribbon::RibbonLayout::parse(bits.len(), metadata).map(Layout::Ribbon),
            _ => None,
        };
        parsed.unwrap_or(Layout::MatchesEverything)
    }
}

/// Tests keys against a filter. Owns or borrows the filter's bytes (`&[u8]`, `Vec<u8>`,
/// `PinnedBytes`, …).
#[derive(Clone)]
pub struct FilterReader<B = Vec<u8>> {
    contents: B,
    layout: Layout,
}

impl<B: AsRef<[u8]>> FilterReader<B> {
    /// Parses the contents of a filter block, without the block's trailer. A filter of unknown form
    /// matches everything. `contents` must give the same bytes each time.
    pub fn parse(contents: B) -> FilterReader<B> {
        let layout = Layout::parse(contents.as_ref());
        FilterReader { contents, layout }
    }

    /// As `parse`, for a filter that `policy` made. With a policy by user code, its reader answers.
    pub fn of_policy(contents: B, policy: &CustomFilterPolicyRef) -> FilterReader<B> {
        match policy.filter_bits_reader(contents.as_ref()) {
            Some(reader) => FilterReader { contents, layout: Layout::Custom(Arc::from(reader)) },
            None => FilterReader::parse(contents),
        }
    }

    /// Whether `key` may have been added. `key` is a prefix, or a user key without its timestamp.
    #[inline]
    pub fn may_match(&self, key: &[u8]) -> bool {
        self.may_match_probe(&mut FilterProbe::new(key))
    }

    /// Like [`may_match`](Self::may_match), for a key that is tested against several filters.
    #[inline]
    pub fn may_match_probe(&self, probe: &mut FilterProbe<'_>) -> bool {
        match &self.layout {
            Layout::FastLocalBloom(l) => l.may_match(self.contents.as_ref(), probe.xxph3()),
            Layout::Ribbon(l) => l.may_match(self.contents.as_ref(), probe.xxph3()),
            Layout::LegacyBloom(l) => l.may_match(self.contents.as_ref(), probe.hash32()),
            Layout::MatchesNothing => false,
            Layout::MatchesEverything => true,
            Layout::Custom(reader) => reader.may_match(self.contents.as_ref(), probe.key),
        }
    }

    /// Asks a reader by user code for many keys at once. `None`: the filter is a built-in one, to
    /// be asked key by key.
    pub fn may_match_many(&self, keys: &[&[u8]]) -> Option<Vec<bool>> {
        let Layout::Custom(reader) = &self.layout else { return None };
        let mut answers = vec![true; keys.len()];
        reader.may_match_many(self.contents.as_ref(), keys, &mut answers);
        Some(answers)
    }

    /// Whether a reader by user code answers.
    #[inline]
    pub fn is_custom(&self) -> bool {
        matches!(self.layout, Layout::Custom(_))
    }

    /// Prefetches the cache line that the probe will read. Only for `FastLocalBloom`, which has one
    /// line for each key.
    #[inline]
    pub fn prefetch(&self, probe: &mut FilterProbe<'_>) {
        if let Layout::FastLocalBloom(l) = &self.layout {
            prefetch(l.line(self.contents.as_ref(), probe.xxph3()));
        }
    }

    /// Whether the filter can exclude keys. If not, callers skip the filter.
    pub fn is_useful(&self) -> bool {
        !matches!(self.layout, Layout::MatchesEverything)
    }

    /// The filter's bytes.
    pub fn contents(&self) -> &[u8] {
        self.contents.as_ref()
    }

    /// The value that owns or borrows the bytes.
    pub fn source(&self) -> &B {
        &self.contents
    }
}

impl<B: AsRef<[u8]>> fmt::Debug for FilterReader<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterReader")
            .field("bytes", &self.contents.as_ref().len())
            .field("layout", &self.layout)
            .finish()
    }
}

#[cfg(test)]
mod tests;
