//! Which keys were seen of late: what makes a tier store a value at the second time it is offered.
//!
//! In: keys. Out: whether the same key came before, as far as is remembered.
//!
//! A table of 32 bits of hash, each at the one place that the rest of the hash says; the next key of that place replaces
//! it. RocksDB inserts an entry without a value instead (`cache/compressed_secondary_cache.cc`).
//!
//! Invariants
//!  1. A key that was noted and not replaced since is known. Another is taken for it once in 2^32.
//!  2. Nothing waits. Of two threads that note a new key at once, at least one finds it new.

use crate::key::CacheKey;
use esker_base::sync::atomic::{AtomicU32, Ordering};

const MIN_PLACES: usize = if cfg!(loom) { 1 } else { 1 << 10 };
const MAX_PLACES: usize = 1 << 24;

/// See the head of the file.
#[derive(Debug)]
pub struct Recent {
    places: Box<[AtomicU32]>,
}

impl Recent {
    /// Remembers about as many keys as this.
    pub fn new(keys: usize) -> Recent {
        let places = keys.clamp(MIN_PLACES, MAX_PLACES).next_power_of_two();
        Recent { places: (0..places).map(|_| AtomicU32::new(0)).collect() }
    }

    /// Its place and what stands there for it; 0 stands for nothing.
    fn place(&self, key: &CacheKey) -> (&AtomicU32, u32) {
        let hash = key.hash(0x5EC0_0DA2);
        let print = ((hash >> 32) as u32).max(1);
        (&self.places[hash as usize & (self.places.len() - 1)], print)
    }

    /// Notes a key. Whether it was known.
    pub fn note(&self, key: &CacheKey) -> bool {
        let (place, print) = self.place(key);
        place.swap(print, Ordering::Relaxed) == print
    }

    /// Whether it is known.
    pub fn knows(&self, key: &CacheKey) -> bool {
        let (place, print) = self.place(key);
        place.load(Ordering::Relaxed) == print
    }

    /// Bytes of memory.
    pub fn memory_usage(&self) -> usize {
        self.places.len() * size_of::<u32>()
    }
}
