//! Compressed blocks in memory: RocksDB's `CompressedSecondaryCache`.
//!
//! In: blocks. Out: the same blocks. Source of the rules: RocksDB
//! `cache/compressed_secondary_cache.h`.
//!
//! The store is a clock cache of compressed bytes, so a lookup takes no lock. A block is stored
//! when the cache above offers it while its key is remembered from an earlier offer. So a scan
//! stores nothing. Blocks of the roles in `do_not_compress_roles` are stored as they are: filters
//! are random bits.
//!
//! Compression costs more than a read from the page cache. So a block that is read again from its
//! table is stored in the table's compressed form, if that is alike ([`keeps_form`]). A block that
//! moves up keeps its copy here.
//!
//! Invariants
//!  1. While the cache above has a block too, its copy here is among the first to go: the copy of a
//!     lookup with `advise_erase`, and of `insert_stored`. The next offer counts as a use of the
//!     copy, or stores the block again.
//!  2. Everything stored is charged: bytes, the entry around them, the memory of recent keys.
//!  3. With capacity 0 nothing is compressed, looked up or remembered.

use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicUsize, Ordering};
use esker_base::{Buffer, Result, perf_add, perf_count};
use esker_cache::tier::{Admission, FoundIn, Lookup, Recent, Saved, SecondaryCache, TierHit};
use esker_cache::{Cache, CacheKey, CacheOptions, CachePriority, Evicted, Handle, Role};
use esker_format::compression::{CodecOptions, CompressionType, Compressor, Decompressor};
use std::sync::Arc;

/// Bytes of capacity for each remembered key.
const BYTES_PER_RECENT_KEY: usize = 1024;
/// The most idle compressors to keep: usually as many as work at the same time.
const MAX_IDLE_COMPRESSORS: usize = 8;

/// RocksDB's `CompressedSecondaryCacheOptions`.
#[derive(Clone, Debug)]
pub struct CompressedSecondaryCacheOptions {
    /// Capacity, metadata charge, strict limit. The type selects the table that holds the
    /// compressed blocks.
    pub cache: CacheOptions,
    /// The codec. Blocks that hardly shrink are stored as they are.
    pub compression_type: CompressionType,
    /// The codec's options.
    pub compression_opts: CodecOptions,
    /// Roles stored uncompressed.
    pub do_not_compress_roles: Vec<Role>,
    /// Accepted without effect: each block is stored whole, and charged by its bytes. RocksDB cuts
    /// blocks into chunks of sizes that its allocator has. Default false.
    pub enable_custom_split_merge: bool,
}

impl Default for CompressedSecondaryCacheOptions {
    fn default() -> CompressedSecondaryCacheOptions {
        CompressedSecondaryCacheOptions {
            cache: CacheOptions::default(),
            compression_type: CompressionType::Lz4,
            compression_opts: CodecOptions::default(),
            do_not_compress_roles: vec![Role::FilterBlock],
            enable_custom_split_merge: false,
        }
    }
}

impl CompressedSecondaryCacheOptions {
    /// The defaults, with this capacity in bytes.
    pub fn with_capacity(capacity: usize) -> CompressedSecondaryCacheOptions {
        CompressedSecondaryCacheOptions {
            cache: CacheOptions::with_capacity(capacity),
            ..CompressedSecondaryCacheOptions::default()
        }
    }
}

/// A block as it is stored.
struct Stored {
    codec: CompressionType,
    bytes: Box<[u8]>,
}

/// See the head of the file.
pub struct CompressedSecondaryCache {
    cache: Cache<Stored>,
    recent: Recent,
    capacity: AtomicUsize,
    options: CompressedSecondaryCacheOptions,
    idle: Mutex<Vec<Compressor>>,
    below: Option<Arc<dyn SecondaryCache>>,
}

impl std::fmt::Debug for CompressedSecondaryCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompressedSecondaryCache")
            .field("capacity", &self.capacity())
            .field("usage", &self.usage())
            .field("below", &self.below)
            .finish_non_exhaustive()
    }
}

impl CompressedSecondaryCache {
    /// An empty tier.
    /// # Errors
    /// Those of [`Cache::new`]; `NotSupported` if the codec cannot compress.
    pub fn new(options: &CompressedSecondaryCacheOptions) -> Result<CompressedSecondaryCache> {
        CompressedSecondaryCache::above(options, None)
    }

    /// An empty tier that passes evicted blocks to the tier `below`.
    /// # Errors
    /// Those of [`Cache::new`]; `NotSupported` if the codec cannot compress.
    pub fn above(
        options: &CompressedSecondaryCacheOptions,
        below: Option<Arc<dyn SecondaryCache>>,
    ) -> Result<CompressedSecondaryCache> {
        let compressor = Compressor::new(options.compression_type, &options.compression_opts)?;
        let capacity = options.cache.capacity;
        let recent = Recent::new(capacity / BYTES_PER_RECENT_KEY);
        let own = CacheOptions { capacity: own_capacity(capacity, &recent), ..options.cache.clone() };
        let cache = match below.clone() {
            None => Cache::new(&own)?,
            Some(below) => Cache::with_eviction_callback(
                &own,
                Box::new(move |evicted: Evicted<Stored>| {
                    let (key, role) = (*Handle::key(&evicted.value), Handle::role(&evicted.value));
                    let saved = Saved { role, codec: evicted.value.codec as u8, bytes: &evicted.value.bytes };
                    // This tier has admitted the block, so the tier below need not decide again.
                    below.insert(&key, saved, true);
                }),
            )?,
        };
        Ok(CompressedSecondaryCache {
            cache,
            recent,
            capacity: AtomicUsize::new(capacity),
            options: options.clone(),
            idle: Mutex::new(vec![compressor]),
            below,
        })
    }

    fn is_off(&self) -> bool {
        self.capacity() == 0
    }

    fn store(&self, key: &CacheKey, role: Role, stored: Stored, priority: CachePriority) -> Admission {
        let charge = size_of_val(&*stored.bytes) + size_of::<Stored>();
        match self.cache.insert(*key, stored, charge, priority, role) {
            Ok(inserted) if Handle::is_in_cache(&inserted.handle) => {
                perf_count!(compressed_sec_cache_insert_real_count);
                Admission::Stored
            }
            Ok(_) | Err(_) => Admission::Refused,
        }
    }

    /// Compresses a block, if that is worth it.
    fn compress(&self, saved: Saved<'_>) -> Stored {
        let plain = || Stored { codec: CompressionType::None, bytes: saved.bytes.into() };
        let is_exempt = self.options.do_not_compress_roles.contains(&saved.role);
        if is_exempt || self.options.compression_type == CompressionType::None {
            return plain();
        }
        let idle = self.idle.lock().pop();
        let compressor = idle.map_or_else(
            || Compressor::new(self.options.compression_type, &self.options.compression_opts),
            Ok,
        );
        // `new` has checked the codec, but there may be too little memory for a compressor.
        let Ok(mut compressor) = compressor else { return plain() };
        let mut out = Vec::with_capacity(saved.bytes.len());
        let stored = match compressor.compress(saved.bytes, &mut out) {
            Ok(true) => Stored { codec: compressor.kind(), bytes: out.into_boxed_slice() },
            Ok(false) | Err(_) => plain(),
        };
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE_COMPRESSORS {
            idle.push(compressor);
        }
        stored
    }

    /// Looks up the tier below. A block found there may move up here.
    fn look_below(&self, key: &CacheKey, advise_erase: bool, was_seen: bool) -> Lookup {
        let Some(below) = &self.below else { return Lookup::Missing { was_seen } };
        match below.lookup(key, advise_erase) {
            Lookup::Missing { was_seen: seen_below } => Lookup::Missing { was_seen: was_seen || seen_below },
            found => found,
        }
    }
}

/// Whether a tier that compresses with `own` stores blocks that a table has compressed with
/// `codec`: if the codecs are the same, or both are fast. A user who chose a denser or a faster
/// codec for the tier gets that one.
fn keeps_form(own: CompressionType, codec: CompressionType) -> bool {
    let is_fast =
        |codec| matches!(codec, CompressionType::Snappy | CompressionType::Lz4 | CompressionType::Lz4hc);
    codec != CompressionType::None && (codec == own || (is_fast(codec) && is_fast(own)))
}

/// The part of a capacity that is left for blocks.
fn own_capacity(capacity: usize, recent: &Recent) -> usize {
    capacity.saturating_sub(recent.memory_usage())
}

/// The original bytes of a block that was stored with this codec.
pub(super) fn restore(codec: u8, bytes: &[u8]) -> Result<Buffer> {
    match CompressionType::from_u8(codec)? {
        CompressionType::None => {
            let mut copy = Buffer::new(bytes.len());
            copy.copy_from_slice(bytes);
            Ok(copy)
        }
        codec => Decompressor::new(2).decompress_block(codec, bytes),
    }
}

impl SecondaryCache for CompressedSecondaryCache {
    fn name(&self) -> &'static str {
        "CompressedSecondaryCache"
    }

    fn insert(&self, key: &CacheKey, saved: Saved<'_>, is_forced: bool) -> Admission {
        if self.is_off() {
            return self
                .below
                .as_ref()
                .map_or(Admission::Refused, |below| below.insert(key, saved, is_forced));
        }
        if self.cache.lookup(key).is_some() {
            return Admission::Present;
        }
        if !self.recent.note(key) && !is_forced {
            perf_count!(compressed_sec_cache_insert_dummy_count);
            return Admission::Remembered;
        }
        let stored = match CompressionType::from_u8(saved.codec) {
            Ok(CompressionType::None) => {
                let stored = self.compress(saved);
                perf_add!(compressed_sec_cache_uncompressed_bytes, saved.bytes.len() as u64);
                perf_add!(compressed_sec_cache_compressed_bytes, stored.bytes.len() as u64);
                stored
            }
            Ok(codec) => Stored { codec, bytes: saved.bytes.into() },
            Err(_) => return Admission::Refused,
        };
        self.store(key, saved.role, stored, CachePriority::Low)
    }

    fn insert_stored(&self, key: &CacheKey, stored: Saved<'_>, is_forced: bool) -> Admission {
        let is_exempt = self.options.do_not_compress_roles.contains(&stored.role);
        let Ok(codec) = CompressionType::from_u8(stored.codec) else { return Admission::Refused };
        if self.is_off() || is_exempt || !keeps_form(self.options.compression_type, codec) {
            return Admission::Refused;
        }
        if !is_forced && !self.recent.knows(key) {
            return Admission::Refused;
        }
        if self.cache.contains(key) {
            return Admission::Present;
        }
        let form = Stored { codec, bytes: stored.bytes.into() };
        self.store(key, stored.role, form, CachePriority::Bottom)
    }

    fn lookup(&self, key: &CacheKey, advise_erase: bool) -> Lookup {
        if self.is_off() {
            return self.look_below(key, advise_erase, false);
        }
        let found = if advise_erase { self.cache.lookup_last(key) } else { self.cache.lookup(key) };
        let Some(stored) = found else {
            return self.look_below(key, advise_erase, self.recent.knows(key));
        };
        let Ok(bytes) = restore(stored.codec as u8, &stored.bytes) else {
            self.cache.erase(key);
            return Lookup::Missing { was_seen: true };
        };
        if advise_erase {
            self.recent.note(key);
        }
        Lookup::Ready(TierHit {
            role: Handle::role(&stored),
            bytes,
            is_kept: !advise_erase,
            found_in: FoundIn::Memory,
        })
    }

    fn contains(&self, key: &CacheKey) -> bool {
        self.cache.contains(key) || self.below.as_ref().is_some_and(|below| below.contains(key))
    }

    fn erase(&self, key: &CacheKey) {
        self.cache.erase(key);
        if let Some(below) = &self.below {
            below.erase(key);
        }
    }

    fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }

    fn set_capacity(&self, bytes: usize) {
        self.capacity.store(bytes, Ordering::Relaxed);
        self.cache.set_capacity(own_capacity(bytes, &self.recent));
        if bytes == 0 {
            self.cache.erase_unreferenced();
        }
    }

    fn usage(&self) -> usize {
        self.cache.usage() + self.recent.memory_usage()
    }

    fn settle(&self) {
        if let Some(below) = &self.below {
            below.settle();
        }
    }
}
