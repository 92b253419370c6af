//! Translates flags into a block cache, its lower tiers, and its charges.
//!
//! Source of the rules for combined flags: RocksDB `tools/db_bench_tool.cc` (`NewCache`).

use super::{bad, codec_named, number};
use crate::flags::Flags;
use esker::internals::cache::tier::{AdmissionPolicy, SecondaryCache};
use esker::internals::cache::{Cache, CacheOptions, CacheType, Role, TieredCacheOptions};
use esker::internals::table::BlockCache;
use esker::internals::table::tier::{
    CompressedSecondaryCache, CompressedSecondaryCacheOptions, block_cache_above, tiered_block_cache,
};
use esker::options::{
    CacheEntryRoleOptions, CacheUsageOptions, Decision, PrepopulateBlockCache, block_cache_from_string,
    secondary_cache_from_string,
};
use esker::{Error, Result};
use std::sync::Arc;

/// The cache that the flags describe; `None` for no cache.
/// # Errors
/// `InvalidArgument` naming the flag; errors from opening a secondary cache.
pub(super) fn block_cache(flags: &Flags) -> Result<Option<Arc<BlockCache>>> {
    if !flags.cache_uri.is_empty() {
        return block_cache_from_string(&flags.cache_uri).map_err(|e| e.at("--cache_uri"));
    }
    let options = primary(flags)?;
    let Ok(capacity @ 1..) = usize::try_from(flags.cache_size) else { return Ok(None) };
    let options = CacheOptions { capacity, ..options };
    let below = below(flags)?;
    let compressed = flags.use_compressed_secondary_cache.then(|| compressed(flags)).transpose()?;
    match (compressed, below) {
        (Some(compressed), below) if flags.use_tiered_cache => {
            tiered(flags, &options, &compressed, below).map(Some)
        }
        (Some(_), Some(_)) => Err(bad(
            "secondary_cache_uri",
            "not with --use_compressed_secondary_cache, unless --use_tiered_cache",
        )),
        (Some(compressed), None) => {
            let tier = Arc::new(CompressedSecondaryCache::new(&compressed)?);
            block_cache_above(&options, tier).map(Some)
        }
        (None, Some(below)) => block_cache_above(&options, below).map(Some),
        (None, None) => Cache::new(&options).map(Arc::new).map(Some),
    }
}

fn primary(flags: &Flags) -> Result<CacheOptions> {
    // As in RocksDB's tool, a fixed table expects blocks of `block_size`. A name without "fixed"
    // means the automatic table.
    let estimated_entry_charge = match flags.cache_type.as_str() {
        "fixed_hyper_clock_cache" => usize::try_from(flags.block_size).unwrap_or(0),
        _ => 0,
    };
    let cache_type = CacheType::parse(&flags.cache_type, estimated_entry_charge)
        .map_err(|e| bad("cache_type", e.message()))?;
    Ok(CacheOptions {
        cache_type,
        num_shard_bits: flags.cache_numshardbits,
        high_pri_pool_ratio: flags.cache_high_pri_pool_ratio,
        low_pri_pool_ratio: flags.cache_low_pri_pool_ratio,
        ..CacheOptions::default()
    })
}

fn below(flags: &Flags) -> Result<Option<Arc<dyn SecondaryCache>>> {
    let uri = &flags.secondary_cache_uri;
    let open = || secondary_cache_from_string(uri).map_err(|e| e.at("--secondary_cache_uri"));
    (!uri.is_empty()).then(open).transpose()
}

fn compressed(flags: &Flags) -> Result<CompressedSecondaryCacheOptions> {
    const CODEC: &str = "compressed_secondary_cache_compression_type";
    let capacity = number("compressed_secondary_cache_size", flags.compressed_secondary_cache_size)?;
    let mut options = CompressedSecondaryCacheOptions::with_capacity(capacity);
    options.cache.num_shard_bits = flags.compressed_secondary_cache_numshardbits;
    options.cache.high_pri_pool_ratio = flags.compressed_secondary_cache_high_pri_pool_ratio;
    options.cache.low_pri_pool_ratio = flags.compressed_secondary_cache_low_pri_pool_ratio;
    options.compression_type = codec_named(CODEC, &flags.compressed_secondary_cache_compression_type)?;
    options.compression_opts.level = flags.compressed_secondary_cache_compression_level;
    Ok(options)
}

fn tiered(
    flags: &Flags,
    options: &CacheOptions,
    compressed: &CompressedSecondaryCacheOptions,
    below: Option<Arc<dyn SecondaryCache>>,
) -> Result<Arc<BlockCache>> {
    let adm_policy = AdmissionPolicy::parse(&flags.tiered_adm_policy)
        .map_err(|e| bad("tiered_adm_policy", e.message()))?;
    let total_capacity = options.capacity.saturating_add(compressed.cache.capacity);
    let compressed_secondary_ratio = compressed.cache.capacity as f64 / total_capacity as f64;
    let division = TieredCacheOptions { total_capacity, compressed_secondary_ratio, adm_policy };
    tiered_block_cache(options, compressed, &division, below)
}

/// The kinds of memory that count against the cache's capacity.
pub(super) fn usage(flags: &Flags) -> CacheUsageOptions {
    let roles = [
        (Role::CompressionDictionaryBuildingBuffer, flags.charge_compression_dictionary_building_buffer),
        (Role::FilterConstruction, flags.charge_filter_construction),
        (Role::BlockBasedTableReader, flags.charge_table_reader),
        (Role::FileMetadata, flags.charge_file_metadata),
    ];
    // As in RocksDB's tool, a role without a charge is disabled, not left to its default.
    let decision = |is_charged| if is_charged { Decision::Enabled } else { Decision::Disabled };
    let options_overrides = roles
        .into_iter()
        .filter(|_| flags.cache_size > 0)
        .map(|(role, is_charged)| (role, CacheEntryRoleOptions { charged: decision(is_charged) }))
        .collect();
    CacheUsageOptions { options: CacheEntryRoleOptions::default(), options_overrides }
}

pub(super) fn prepopulate(flags: &Flags) -> Result<PrepopulateBlockCache> {
    Ok(match flags.prepopulate_block_cache {
        0 => PrepopulateBlockCache::Disable,
        1 => PrepopulateBlockCache::FlushOnly,
        2 => PrepopulateBlockCache::FlushAndCompaction,
        other => {
            let why = format_args!("{other} is not in 0..=2");
            return Err::<_, Error>(bad("prepopulate_block_cache", why));
        }
    })
}

#[cfg(test)]
mod tests;
