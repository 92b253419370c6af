//! Keys of cached values.
//!
//! In: the identity of a file (two words that no other file has, such as a table's unique id), and
//! an offset in the file. Out: 16 bytes.
//!
//! Invariants
//!  1. Two offsets of one file never give the same key. Files that share their first word (the
//!     files of one session) never share a key. Other files share keys by chance only: about one
//!     pair in 2^64.

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

    /// A 64-bit hash of the key.
    #[inline]
    pub(crate) fn hash(&self, seed: u64) -> u64 {
        let product = u128::from(self.0[0] ^ seed) * u128::from(self.0[1] ^ 0xA076_1D64_78BD_642F);
        product as u64 ^ (product >> 64) as u64
    }
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
