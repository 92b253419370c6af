//! The hash index of a data block: from user keys to restart intervals, for point lookups.
//!
//! In: the user key of each entry and the restart before it. Out: the bytes between restarts and
//! footer.
//! Source: RocksDB `table/block_based/data_block_hash_index.{h,cc}`. Page: `docs/format/sst.md`.
//!
//! ```text
//! bucket u8 × n | n u16      bucket = hash of user key mod n: a restart, 254 collision, 255 no key
//! ```
//!
//! Invariants
//!  1. A block with more than 254 restarts, or larger than 64 KiB, has no hash index.
//!  2. If keys of different restarts share a bucket, the bucket is a collision.

use esker_base::hash::{BLOCK_HASH_INDEX_SEED, hash32};

const NO_ENTRY: u8 = 255;
const COLLISION: u8 = 254;
const MAX_RESTART: u8 = 253;
/// Larger blocks have no hash index.
pub(super) const MAX_BLOCK_BYTES: usize = 1 << 16;
/// RocksDB's ratio, used in place of an invalid one.
const DEFAULT_UTIL_RATIO: f64 = 0.75;

/// Collects the keys of one block. A builder serves one block after the other.
#[derive(Debug)]
pub(super) struct HashIndexBuilder {
    buckets_per_key: f64,
    /// A floating-point sum over the keys, as in RocksDB: its rounding decides the number of
    /// buckets.
    estimated_buckets: f64,
    entries: Vec<(u32, u8)>,
    fits: bool,
}

impl HashIndexBuilder {
    /// An empty index with `util_ratio` keys per bucket.
    pub(super) fn new(util_ratio: f64) -> HashIndexBuilder {
        let ratio = if util_ratio > 0.0 { util_ratio } else { DEFAULT_UTIL_RATIO };
        HashIndexBuilder {
            buckets_per_key: 1.0 / ratio,
            estimated_buckets: 0.0,
            entries: Vec::new(),
            fits: true,
        }
    }

    /// Adds an entry's user key, behind restart `restart`.
    pub(super) fn add(&mut self, user_key: &[u8], restart: usize) {
        match u8::try_from(restart) {
            Ok(restart) if restart <= MAX_RESTART => {
                self.entries.push((hash32(user_key, BLOCK_HASH_INDEX_SEED), restart));
                self.estimated_buckets += self.buckets_per_key;
            }
            _ => self.fits = false,
        }
    }

    /// Bytes that the index will take; 0 if the block has too many restarts for one.
    pub(super) fn size_estimate(&self) -> usize {
        if self.fits { usize::from(self.bucket_count()) + 2 } else { 0 }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a block of 64 KiB has fewer entries; the cast saturates"
    )]
    fn bucket_count(&self) -> u16 {
        self.estimated_buckets as u16 | 1
    }

    /// Appends the index to a block and returns true. Returns false if the block has too many
    /// restarts.
    pub(super) fn finish(&self, out: &mut Vec<u8>) -> bool {
        if !self.fits {
            return false;
        }
        let count = self.bucket_count();
        let mut buckets = vec![NO_ENTRY; usize::from(count)];
        for &(hash, restart) in &self.entries {
            let Some(bucket) = buckets.get_mut((hash % u32::from(count)) as usize) else { continue };
            *bucket = match *bucket {
                NO_ENTRY => restart,
                same if same == restart => restart,
                _ => COLLISION,
            };
        }
        out.extend_from_slice(&buckets);
        out.extend_from_slice(&count.to_le_bytes());
        true
    }

    /// Empties the builder for the next block.
    pub(super) fn reset(&mut self) {
        self.estimated_buckets = 0.0;
        self.entries.clear();
        self.fits = true;
    }
}
