//! Recently seen keys: a tier stores a value when it is offered for the second time.
//!
//! In: keys. Out: whether the table still knows the same key from before.
//!
//! The table has rows of four hashes of 32 bits. Other bits of a key's hash choose the row; a new
//! key replaces the oldest of its row. RocksDB inserts an entry without a value instead
//! (`cache/compressed_secondary_cache.cc`).
//!
//! Invariants
//!  1. A noted key is known until its row has seen three others. One new key in 2^30 counts as
//!     known by mistake.
//!  2. Nothing waits. Two threads that note keys of a row at once may lose one of them.

use crate::key::CacheKey;
use esker_base::sync::atomic::{AtomicU32, Ordering};

const WAYS: usize = 4;
const MIN_ROWS: usize = if cfg!(loom) { 1 } else { 1 << 8 };
const MAX_ROWS: usize = 1 << 22;

/// See the head of the file.
#[derive(Debug)]
pub struct Recent {
    /// Rows, each with its newest key first.
    rows: Box<[[AtomicU32; WAYS]]>,
}

impl Recent {
    /// Remembers about as many keys as this.
    pub fn new(keys: usize) -> Recent {
        let rows = (keys / WAYS).clamp(MIN_ROWS, MAX_ROWS).next_power_of_two();
        Recent { rows: (0..rows).map(|_| std::array::from_fn(|_| AtomicU32::new(0))).collect() }
    }

    /// The key's row and its value there; 0 means empty.
    fn row(&self, key: &CacheKey) -> (&[AtomicU32; WAYS], u32) {
        let hash = key.hash(0x5EC0_0DA2);
        let print = ((hash >> 32) as u32).max(1);
        (&self.rows[hash as usize & (self.rows.len() - 1)], print)
    }

    /// Notes a key. Whether it was known.
    pub fn note(&self, key: &CacheKey) -> bool {
        let (row, print) = self.row(key);
        let mut moved = print;
        for place in row {
            moved = place.swap(moved, Ordering::Relaxed);
            if moved == print {
                return true;
            }
        }
        false
    }

    /// Whether the key is known.
    pub fn knows(&self, key: &CacheKey) -> bool {
        let (row, print) = self.row(key);
        row.iter().any(|place| place.load(Ordering::Relaxed) == print)
    }

    /// Bytes of memory.
    pub fn memory_usage(&self) -> usize {
        size_of_val(&*self.rows)
    }
}
