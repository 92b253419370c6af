//! Recently seen keys: a tier stores a value when it is offered for the second time.
//!
//! In: keys. Out: whether the table has recorded the key before.
//!
//! The table has rows of four hashes of 32 bits. Other bits of a key's hash choose the row; a new
//! key replaces the oldest of its row. RocksDB inserts an entry without a value instead
//! (`cache/compressed_secondary_cache.cc`).
//!
//! Invariants
//!  1. A recorded key stays until its row has recorded four other keys. One new key in 2^30 is
//!     found by mistake.
//!  2. No call waits. If two threads record keys of one row at once, one key may be lost.

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
    /// Makes a table that records about `keys` keys.
    pub fn new(keys: usize) -> Recent {
        let rows = (keys / WAYS).clamp(MIN_ROWS, MAX_ROWS).next_power_of_two();
        Recent { rows: (0..rows).map(|_| std::array::from_fn(|_| AtomicU32::new(0))).collect() }
    }

    /// The key's row, and the 32 bits of the hash that the row stores for the key. These bits are
    /// never 0, because 0 marks an empty place.
    fn row(&self, key: &CacheKey) -> (&[AtomicU32; WAYS], u32) {
        let hash = key.hash(0x5EC0_0DA2);
        let print = ((hash >> 32) as u32).max(1);
        (&self.rows[hash as usize & (self.rows.len() - 1)], print)
    }

    /// Records a key. Returns whether it was recorded before.
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

    /// Whether the key is recorded.
    pub fn knows(&self, key: &CacheKey) -> bool {
        let (row, print) = self.row(key);
        row.iter().any(|place| place.load(Ordering::Relaxed) == print)
    }

    /// Bytes of memory.
    pub fn memory_usage(&self) -> usize {
        size_of_val(&*self.rows)
    }
}
