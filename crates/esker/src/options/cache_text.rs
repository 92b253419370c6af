//! Caches from text: the values of `block_cache` and `secondary_cache`, and the URIs of the tools.
//!
//! In: `64M`, `capacity=64M;num_shard_bits=4`,
//! `{id=auto_hyper_clock_cache;capacity=1G;secondary_cache=…}`,
//! `compressed_secondary_cache://capacity=16M`, `file_secondary_cache://path=…;capacity=1G`. Out:
//! the cache.
//! Source: RocksDB `cache/cache.cc` (`Cache::CreateFromString`,
//! `SecondaryCache::CreateFromString`). Text without an id means an LRU cache, as in RocksDB. The
//! ids are RocksDB's names of cache types; the file tier is Esker's own.

use super::value::{OptionValue, object_name, split_map};
use esker_base::{Error, Result};
use esker_cache::tier::{AdmissionPolicy, SecondaryCache};
use esker_cache::{Cache, CacheOptions, CacheType, MetadataChargePolicy, Role, TieredCacheOptions};
use esker_env::{FileSystem, PosixFileSystem};
use esker_table::BlockCache;
use esker_table::tier::{
    CompressedSecondaryCache, CompressedSecondaryCacheOptions, FileSecondaryCache, FileSecondaryCacheOptions,
    block_cache_above, tiered_block_cache,
};
use std::sync::Arc;

const COMPRESSED: &str = "compressed_secondary_cache";
const FILE: &str = "file_secondary_cache";

/// A block cache from its text form; `nullptr`: none.
/// # Errors
/// `InvalidArgument`: names the unknown or wrong part · the error of opening a secondary cache.
pub fn block_cache_from_string(text: &str) -> Result<Option<Arc<BlockCache>>> {
    let text = without_braces(text);
    if object_name(text).starts_with("null") || text.is_empty() {
        return Ok(None);
    }
    let lru = CacheOptions { cache_type: CacheType::Lru, ..CacheOptions::default() };
    if !text.contains('=') {
        let options = CacheOptions { capacity: usize::parse(text)?, ..lru };
        return Cache::new(&options).map(Arc::new).map(Some);
    }
    let mut parts = Parts { cache: lru, ..Parts::default() };
    for (name, value) in split_map(text)? {
        parts.set(name, value).map_err(|e| e.at(name))?;
    }
    parts.make().map(Some)
}

/// A secondary cache from its URI, or the same as `{id=…;…}`.
/// # Errors
/// `InvalidArgument`: names the unknown or wrong part · the error of opening the cache.
pub fn secondary_cache_from_string(text: &str) -> Result<Arc<dyn SecondaryCache>> {
    let text = without_braces(text);
    let (kind, rest) = match text.split_once("://") {
        Some((kind, rest)) => (kind, rest),
        None => match split_map(text)?.iter().find(|(name, _)| *name == "id") {
            Some((_, id)) => (*id, text),
            None => return Err(Error::invalid_argument(format!("'{text}' names no secondary cache"))),
        },
    };
    let values = split_map(rest)?;
    let values = values.iter().filter(|(name, _)| *name != "id").copied();
    match kind {
        COMPRESSED => Ok(Arc::new(CompressedSecondaryCache::new(&compressed_options(values)?)?)),
        FILE => Ok(Arc::new(FileSecondaryCache::open(file_options(values)?)?)),
        other => {
            Err(Error::invalid_argument(format!("'{other}' is no secondary cache: {COMPRESSED}, {FILE}")))
        }
    }
}

/// The parts of a block cache's text.
#[derive(Default)]
struct Parts {
    cache: CacheOptions,
    id: Option<String>,
    estimated_entry_charge: usize,
    secondary: Option<Arc<dyn SecondaryCache>>,
    compressed: Option<CompressedSecondaryCacheOptions>,
    ratio: Option<f64>,
    policy: AdmissionPolicy,
}

impl Parts {
    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "id" => self.id = Some(value.trim().to_owned()),
            "estimated_entry_charge" => self.estimated_entry_charge = usize::parse(value)?,
            "secondary_cache" => self.secondary = Some(secondary_cache_from_string(value)?),
            "compressed_secondary_cache" => {
                let values = split_map(without_braces(value))?;
                self.compressed = Some(compressed_options(values)?);
            }
            "compressed_secondary_ratio" => self.ratio = Some(f64::parse(value)?),
            "adm_policy" => self.policy = AdmissionPolicy::parse(value.trim())?,
            _ => return set_cache_option(&mut self.cache, name, value),
        }
        Ok(())
    }

    fn make(mut self) -> Result<Arc<BlockCache>> {
        if let Some(id) = &self.id {
            self.cache.cache_type = CacheType::parse(id, self.estimated_entry_charge)?;
        }
        if let Some(ratio) = self.ratio {
            let division = TieredCacheOptions {
                total_capacity: self.cache.capacity,
                compressed_secondary_ratio: ratio,
                adm_policy: self.policy,
            };
            let compressed = self.compressed.unwrap_or_default();
            return tiered_block_cache(&self.cache, &compressed, &division, self.secondary);
        }
        let tier: Option<Arc<dyn SecondaryCache>> = match (self.compressed, self.secondary) {
            (None, below) => below,
            (Some(compressed), below) => Some(Arc::new(CompressedSecondaryCache::above(&compressed, below)?)),
        };
        match tier {
            Some(tier) => block_cache_above(&self.cache, tier),
            None => Cache::new(&self.cache).map(Arc::new),
        }
    }
}

fn without_braces(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(text).trim()
}

fn set_cache_option(options: &mut CacheOptions, name: &str, value: &str) -> Result<()> {
    match name {
        "capacity" => options.capacity = usize::parse(value)?,
        "num_shard_bits" => options.num_shard_bits = i32::parse(value)?,
        "strict_capacity_limit" => options.strict_capacity_limit = bool::parse(value)?,
        "high_pri_pool_ratio" => options.high_pri_pool_ratio = f64::parse(value)?,
        "low_pri_pool_ratio" => options.low_pri_pool_ratio = f64::parse(value)?,
        "eviction_effort_cap" => options.eviction_effort_cap = usize::parse(value)?,
        "estimates_misses" => options.estimates_misses = bool::parse(value)?,
        "metadata_charge_policy" => {
            options.metadata_charge_policy = match value.trim() {
                "kDontChargeCacheMetadata" => MetadataChargePolicy::DontChargeCacheMetadata,
                "kFullChargeCacheMetadata" => MetadataChargePolicy::FullChargeCacheMetadata,
                other => {
                    return Err(Error::invalid_argument(format!("'{other}' is no metadata_charge_policy")));
                }
            }
        }
        _ => return Err(Error::invalid_argument(format!("{name}: no such option of a cache"))),
    }
    Ok(())
}

fn compressed_options<'a>(
    values: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<CompressedSecondaryCacheOptions> {
    let mut options = CompressedSecondaryCacheOptions::default();
    for (name, value) in values {
        match name {
            "compression_type" => {
                options.compression_type = OptionValue::parse(value).map_err(|e: Error| e.at(name))?;
            }
            "compression_level" => {
                options.compression_opts.level = i32::parse(value).map_err(|e| e.at(name))?;
            }
            "enable_custom_split_merge" => {
                options.enable_custom_split_merge = bool::parse(value).map_err(|e| e.at(name))?;
            }
            // The version of a form that cuts blocks into chunks. Esker cuts no chunks.
            "compress_format_version" => {}
            "do_not_compress_roles" => options.do_not_compress_roles = roles(value)?,
            _ => set_cache_option(&mut options.cache, name, value).map_err(|e| e.at(name))?,
        }
    }
    Ok(options)
}

/// `FilterBlock:IndexBlock`, by RocksDB's names of roles.
fn roles(text: &str) -> Result<Vec<Role>> {
    let named = |name: &str| {
        Role::ALL.into_iter().find(|role| [role.camel_name(), role.hyphen_name()].contains(&name))
    };
    let names = text.split([':', ',']).map(str::trim).filter(|name| !name.is_empty());
    names
        .map(|name| {
            named(name)
                .ok_or_else(|| Error::invalid_argument(format!("'{name}' is no role of cache entries")))
        })
        .collect()
}

fn file_options<'a>(
    values: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<FileSecondaryCacheOptions> {
    let (mut path, mut capacity) = (None, None);
    for (name, value) in values {
        match name {
            "path" => path = Some(value.trim().into()),
            "capacity" => capacity = Some(usize::parse(value).map_err(|e| e.at(name))?),
            _ => return Err(Error::invalid_argument(format!("{name}: no such option of {FILE}"))),
        }
    }
    let (Some(path), Some(capacity)) = (path, capacity) else {
        return Err(Error::invalid_argument(format!("{FILE} needs a path and a capacity")));
    };
    let fs: Arc<dyn FileSystem> = Arc::new(PosixFileSystem::new());
    Ok(FileSecondaryCacheOptions { path, capacity, fs, info_log: None })
}

#[cfg(test)]
mod tests;
