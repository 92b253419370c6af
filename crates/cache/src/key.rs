//! Keys of cached values.
//!
//! In: the identity of a file (two words that no other file has, such as a table's unique id), and
//! an offset in the file. Out: 16 bytes. The keys of a table's blocks are RocksDB's, so that both
//! engines find a block in a dump of a cache. Source: RocksDB `cache/cache_key.cc`, `util/math.h`.
//!
//! Invariants
//!  1. Two offsets of one file never give the same key; in a [`BaseCacheKey`], two that are at
//!     least 4 bytes apart, as those of blocks are. Files that share their first word (the files of
//!     one session) never share a key. Other files share keys by chance only: about one pair in
//!     2^64.

#[cfg(not(shuttle))]
use esker_base::sync::OnceLock;
#[cfg(not(shuttle))]
use esker_base::sync::process::atomic::{AtomicU64, Ordering};
#[cfg(not(shuttle))]
use std::hash::{BuildHasher, RandomState};

/// The key of a cached value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CacheKey([u64; 2]);

impl CacheKey {
    /// The key of the value at `offset` in the file with this identity.
    #[inline]
    pub const fn new(file_identity: (u64, u64), offset: u64) -> CacheKey {
        let (session, file) = file_identity;
        // The odd factor maps the files of a session to different words, even if their second words
        // differ in few bits.
        let word = session.wrapping_add(file.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        CacheKey([word, offset.wrapping_add(session ^ file.rotate_left(32))])
    }

    /// The key with these two words: the inverse of [`words`](Self::words).
    pub const fn from_words(words: [u64; 2]) -> CacheKey {
        CacheKey(words)
    }

    /// The two words.
    pub const fn words(self) -> [u64; 2] {
        self.0
    }

    /// The key as RocksDB's files have it: the words, little-endian.
    pub fn to_bytes(self) -> [u8; 16] {
        let [first, second] = self.0.map(u64::to_le_bytes);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&first);
        bytes[8..].copy_from_slice(&second);
        bytes
    }

    /// The inverse of [`to_bytes`](Self::to_bytes). `None` if these are not 16 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<CacheKey> {
        let (first, second) = bytes.split_first_chunk()?;
        let words = [u64::from_le_bytes(*first), u64::from_le_bytes(second.try_into().ok()?)];
        Some(CacheKey(words))
    }

    /// A 64-bit hash of the key.
    #[inline]
    pub(crate) fn hash(&self, seed: u64) -> u64 {
        let product = u128::from(self.0[0] ^ seed) * u128::from(self.0[1] ^ 0xA076_1D64_78BD_642F);
        product as u64 ^ (product >> 64) as u64
    }
}

/// The words that the keys of all blocks of a file are made of. RocksDB: `OffsetableCacheKey`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BaseCacheKey {
    common: u64,
    first: u64,
}

impl BaseCacheKey {
    /// The words for the file with this identity: a table's unique id, as in the MANIFEST.
    pub fn new((session, file): (u64, u64)) -> BaseCacheKey {
        // No file has the key of nothing, unless its identity is nothing.
        let session = if session == 0 { file } else { session };
        let (common, first) = (downward(session) ^ file.reverse_bits(), session.reverse_bits());
        if common == 0 {
            BaseCacheKey { common: first, first: common }
        } else {
            BaseCacheKey { common, first }
        }
    }

    /// The key of the block at `offset`. Blocks have at least 5 bytes with their trailers.
    #[inline]
    pub const fn block(self, offset: u64) -> CacheKey {
        CacheKey([self.common, self.first ^ (offset >> 2)])
    }

    /// The first word of the keys of all blocks. RocksDB: `CommonPrefixSlice`.
    pub const fn common(self) -> u64 {
        self.common
    }
}

/// The matrix with ones on and above the diagonal of its blocks, over bits: its own inverse.
/// RocksDB: `DownwardInvolution`.
fn downward(mut bits: u64) -> u64 {
    bits ^= bits >> 32;
    bits ^= (bits & 0xFFFF_0000_FFFF_0000) >> 16;
    bits ^= (bits & 0xFF00_FF00_FF00_FF00) >> 8;
    bits ^= (bits & 0xF0F0_F0F0_F0F0_F0F0) >> 4;
    bits ^= (bits & 0xCCCC_CCCC_CCCC_CCCC) >> 2;
    bits ^ ((bits & 0xAAAA_AAAA_AAAA_AAAA) >> 1)
}

/// Makes an identity for a file that has none. No other call in this process returns the same
/// identity. A call in another process returns it by chance only, so a tier on disk does not
/// confuse the files of two processes.
#[cfg(not(shuttle))]
pub fn process_unique_identity() -> (u64, u64) {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    static PROCESS: OnceLock<u64> = OnceLock::new();
    (*PROCESS.get_or_init(|| RandomState::new().hash_one("process")), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// [`process_unique_identity`] in a simulation: the same seed gives the same identities.
#[cfg(shuttle)]
pub fn process_unique_identity() -> (u64, u64) {
    (1, SIMULATED.replace(SIMULATED.get() + 1))
}

/// In a simulation: restarts the identities of this thread, so that a run does not depend on
/// earlier runs.
#[cfg(shuttle)]
pub fn begin_identities_anew() {
    SIMULATED.set(1);
}

#[cfg(shuttle)]
thread_local! {
    static SIMULATED: std::cell::Cell<u64> = const { std::cell::Cell::new(1) };
}

#[cfg(test)]
mod tests;
