//! Simulated caches: accesses in, miss ratios out.

use super::MICROS_PER_SECOND;
use crate::failure::{CommandOutcome, Failure};
use esker::internals::base::hash::xxh3_128;
use esker::internals::cache::{
    Cache, CacheKey, CacheOptions, CachePriority, CacheType, MetadataChargePolicy, Role,
};
use esker::trace::{BlockAccess, TraceKind};
use std::fmt::Write;

const NAMES: &str = "lru, lru_priority, hyper_clock, and ghost_ before each";

/// All caches of a run.
pub(super) struct Simulation {
    caches: Vec<Simulated>,
    warmup_micros: u64,
    began_at: Option<u64>,
    is_warm: bool,
}

/// One cache, and its line of the configuration.
struct Simulated {
    name: String,
    shard_bits: i32,
    ghost_bytes: u64,
    bytes: u64,
    has_priorities: bool,
    cache: Cache<()>,
    /// The keys of recent accesses. A missed block enters `cache` only if its key is here.
    ghost: Option<Cache<()>>,
    accesses: u64,
    misses: u64,
}

impl Simulation {
    /// Makes the caches of a configuration: one for each size on each line. `file` is the name of
    /// the configuration in errors.
    /// # Errors
    /// The line that is no cache.
    pub(super) fn parse(
        text: &str,
        file: &str,
        ratio: u64,
        warmup_seconds: u64,
    ) -> CommandOutcome<Simulation> {
        let mut caches = Vec::new();
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            let wrong = |why: &str| Failure::new(format_args!("{file}, line {number} '{line}': {why}"));
            let parts: Vec<&str> = line.trim().split(',').map(str::trim).collect();
            let [name, shard_bits, ghost_bytes, sizes @ ..] = parts.as_slice() else {
                return Err(wrong("a cache is NAME,SHARD_BITS,GHOST_BYTES,BYTES[,BYTES…]"));
            };
            if sizes.is_empty() {
                return Err(wrong("it has no size"));
            }
            let shard_bits: i32 = shard_bits.parse().map_err(|_| wrong("SHARD_BITS is no number"))?;
            if !(0..20).contains(&shard_bits) {
                return Err(wrong("the number of shard bits must be at least 0 and below 20"));
            }
            let ghost_bytes =
                parse_bytes(ghost_bytes).ok_or_else(|| wrong("GHOST_BYTES is no number of bytes"))?;
            for size in sizes {
                let bytes = parse_bytes(size).filter(|bytes| *bytes > 0);
                let bytes = bytes.ok_or_else(|| wrong("a size must be a number of bytes above 0"))?;
                let made = Simulated::new(name, shard_bits, ghost_bytes, (bytes, ratio));
                let made = made.ok_or_else(|| wrong(&format!("the names of caches are {NAMES}")))?;
                caches.push(made.map_err(|e| wrong(&e.to_string()))?);
            }
        }
        let warmup_micros = warmup_seconds.saturating_mul(MICROS_PER_SECOND);
        Ok(Simulation { caches, warmup_micros, began_at: None, is_warm: false })
    }

    pub(super) fn access(&mut self, access: &BlockAccess<'_>) {
        let began_at = *self.began_at.get_or_insert(access.timestamp);
        if !self.is_warm && began_at.saturating_add(self.warmup_micros) <= access.timestamp {
            self.is_warm = true;
            self.caches.iter_mut().for_each(|cache| (cache.accesses, cache.misses) = (0, 0));
        }
        let hash = xxh3_128(access.block_key, 0);
        let key = CacheKey::from_words([(hash >> 64) as u64, hash as u64]);
        self.caches.iter_mut().for_each(|cache| cache.access(&key, access));
    }

    /// A header, and a line for each cache with its miss ratio in percent.
    pub(super) fn miss_ratios(&self) -> String {
        let mut text =
            "cache_name,num_shard_bits,ghost_capacity,capacity,miss_ratio,total_accesses\n".to_owned();
        for cache in &self.caches {
            let ratio = match cache.accesses {
                0 => -1.0,
                accesses => cache.misses as f64 * 100.0 / accesses as f64,
            };
            let Simulated { name, shard_bits, ghost_bytes, bytes, accesses, .. } = cache;
            writeln!(text, "{name},{shard_bits},{ghost_bytes},{bytes},{ratio:.4},{accesses}")
                .expect("a write to a string cannot fail");
        }
        text
    }
}

/// A number of bytes, which may end in K, M, G or T.
fn parse_bytes(text: &str) -> Option<u64> {
    let (digits, shift) = match text.char_indices().next_back()? {
        (at, 'K' | 'k') => (&text[..at], 10),
        (at, 'M' | 'm') => (&text[..at], 20),
        (at, 'G' | 'g') => (&text[..at], 30),
        (at, 'T' | 't') => (&text[..at], 40),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

impl Simulated {
    /// Makes a cache of the kind `name`, with `bytes / ratio` bytes. `None` for an unknown kind.
    fn new(
        name: &str,
        shard_bits: i32,
        ghost_bytes: u64,
        (bytes, ratio): (u64, u64),
    ) -> Option<esker::Result<Simulated>> {
        let plain = name.strip_prefix("ghost_").unwrap_or(name);
        let (cache_type, has_priorities) = match plain {
            "lru" => (CacheType::Lru, false),
            "lru_priority" => (CacheType::Lru, true),
            "hyper_clock" => (CacheType::AutoHyperClock, true),
            _ => return None,
        };
        let cache = |cache_type, bytes: u64, shard_bits| {
            let options = CacheOptions {
                cache_type,
                capacity: usize::try_from(bytes).unwrap_or(usize::MAX),
                num_shard_bits: shard_bits,
                high_pri_pool_ratio: if has_priorities { 0.5 } else { 0.0 },
                metadata_charge_policy: MetadataChargePolicy::DontChargeCacheMetadata,
                ..CacheOptions::default()
            };
            Cache::new(&options)
        };
        let ghost = (plain != name).then(|| cache(CacheType::Lru, ghost_bytes, 1)).transpose();
        let made = ghost.and_then(|ghost| {
            Ok(Simulated {
                name: name.to_owned(),
                shard_bits,
                ghost_bytes,
                bytes,
                has_priorities,
                cache: cache(cache_type, bytes / ratio, shard_bits)?,
                ghost,
                accesses: 0,
                misses: 0,
            })
        });
        Some(made)
    }

    fn access(&mut self, key: &CacheKey, access: &BlockAccess<'_>) {
        self.accesses += 1;
        let is_admitted =
            access.no_insert || self.ghost.as_ref().is_none_or(|ghost| admits(ghost, key, access));
        if self.cache.lookup(key).is_some() {
            return;
        }
        self.misses += 1;
        if access.no_insert || !is_admitted || access.block_size == 0 {
            return;
        }
        let is_index = [TraceKind::FilterBlock, TraceKind::IndexBlock, TraceKind::UncompressionDictBlock]
            .iter()
            .any(|kind| *kind as u8 == access.block_type);
        let priority = if self.has_priorities && is_index { CachePriority::High } else { CachePriority::Low };
        let bytes = usize::try_from(access.block_size).unwrap_or(usize::MAX);
        // A block larger than the cache is not kept.
        drop(self.cache.insert(*key, (), bytes, priority, Role::DataBlock));
    }
}

/// Whether a ghost cache knows the key. Records the key in the ghost cache.
fn admits(ghost: &Cache<()>, key: &CacheKey, access: &BlockAccess<'_>) -> bool {
    if ghost.lookup(key).is_some() {
        return true;
    }
    drop(ghost.insert(*key, (), access.block_key.len(), CachePriority::Low, Role::DataBlock));
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(key: &[u8]) -> BlockAccess<'_> {
        BlockAccess {
            timestamp: 5,
            block_type: TraceKind::DataBlock as u8,
            block_key: key,
            block_size: 100,
            cf_id: 0,
            cf_name: b"default",
            level: 1,
            sst_fd_number: 7,
            caller: 3,
            is_cache_hit: false,
            no_insert: false,
            get: None,
        }
    }

    #[test]
    fn miss_ratios_equal_those_counted_by_hand() {
        let config = "lru,0,0,250,1000\nghost_lru,0,1000,1000\nhyper_clock,0,0,1M\n";
        let mut simulation = Simulation::parse(config, "caches", 1, 0).unwrap();
        // Three blocks in turn: an LRU cache for two blocks always misses. A larger one misses
        // three times.
        for _ in 0..4 {
            [b"a", b"b", b"c"].iter().for_each(|key| simulation.access(&access(*key)));
        }
        let ratios = simulation.miss_ratios();
        let lines: Vec<&str> = ratios.lines().collect();
        assert_eq!(
            lines[1..],
            [
                "lru,0,0,250,100.0000,12",
                "lru,0,0,1000,25.0000,12",
                // The ghost cache lets a block in at its second miss.
                "ghost_lru,0,1000,1000,50.0000,12",
                "hyper_clock,0,0,1048576,25.0000,12",
            ]
        );
    }

    #[test]
    fn a_line_that_is_no_cache_is_named() {
        for line in ["lru", "lru,0,0", "lru,0,0,0", "lru,x,0,9", "fifo,0,0,9", "lru,0,0,9X", "lru,99,0,9"] {
            let told = Simulation::parse(&format!("lru,0,0,9\n{line}\n"), "caches", 1, 0).err();
            let Some(Failure::Told(told)) = told else { panic!("{line} was taken") };
            assert!(told.contains("caches, line 2"), "{told}");
        }
    }
}
