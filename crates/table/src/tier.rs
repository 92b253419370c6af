//! Tiers below a block cache: compressed blocks in memory, blocks in files.
//!
//! In: blocks that the cache evicts. Out: the same blocks, cheaper than from the table's file. The
//! contract and the link from the cache: `esker_cache::tier`. Here: `compressed` (memory), `file`
//! (local disk).
//!
//! A block is saved as its uncompressed contents and its role, and parsed again when it comes back.
//! The reader that looks it up has everything that parsing needs (the order of keys, the shape of
//! an index), so a tier keeps no table alive. Keys are made of a table's unique id, so a file's
//! blocks are found after a restart.

mod compressed;
mod file;

pub use compressed::{CompressedSecondaryCache, CompressedSecondaryCacheOptions};
pub use file::{FileSecondaryCache, FileSecondaryCacheOptions};

use crate::block_source::{BlockCache, CachedBlock};
use esker_base::Result;
use esker_cache::tier::{AdmissionPolicy, SecondaryCache};
use esker_cache::{Cache, CacheOptions, TieredCacheOptions};
use std::sync::Arc;

/// A block cache above `tier`, each with its own capacity.
/// # Errors
/// Those of [`Cache::new`].
pub fn block_cache_above(options: &CacheOptions, tier: Arc<dyn SecondaryCache>) -> Result<Arc<BlockCache>> {
    Cache::with_secondary(options, tier, CachedBlock::saved, AdmissionPolicy::default()).map(Arc::new)
}

/// A block cache and compressed blocks below it that share one capacity: RocksDB's
/// `NewTieredCache`. With `below`, blocks evicted from the compressed tier go there.
/// # Errors
/// Those of [`Cache::tiered`]; `InvalidArgument` if the policy is `ThreeQueue` without a tier
/// below.
pub fn tiered_block_cache(
    options: &CacheOptions,
    compressed: &CompressedSecondaryCacheOptions,
    division: &TieredCacheOptions,
    below: Option<Arc<dyn SecondaryCache>>,
) -> Result<Arc<BlockCache>> {
    if division.adm_policy == AdmissionPolicy::ThreeQueue && below.is_none() {
        return Err(esker_base::Error::invalid_argument(
            "three_queue needs a file below the compressed tier",
        ));
    }
    let mut compressed = compressed.clone();
    // The compressed part may grow to the whole capacity, so size its structures for that.
    compressed.cache.capacity = division.total_capacity;
    let tier = Arc::new(CompressedSecondaryCache::above(&compressed, below)?);
    Cache::tiered(options, tier, CachedBlock::saved, division).map(Arc::new)
}

#[cfg(test)]
mod tests;
