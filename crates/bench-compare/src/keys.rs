//! Keys and values. Every engine gets the same keys and values in the same order.
//!
//! Invariant: keys and values depend on numbers and seeds only, never on the time, on addresses or
//! on the engine.

/// Length of most keys, bytes: RocksDB's benchmark default.
pub(crate) const KEY_BYTES: usize = 16;
/// Length of most values, bytes.
pub(crate) const VALUE_BYTES: usize = 100;

/// A key of most workloads, in the form of RocksDB's benchmark: the number, big-endian, then '0'
/// characters.
pub(crate) type Key = [u8; KEY_BYTES];

/// The key of `number`. Keys sort in the order of their numbers.
pub(crate) fn key(number: u64) -> Key {
    let mut key = [b'0'; KEY_BYTES];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

/// A stream of random bytes, from which values are cut.
#[derive(Debug)]
pub(crate) struct RivalValues {
    bytes: Vec<u8>,
    at: usize,
}

/// Bytes until the stream repeats itself. A block is much shorter, so no engine can compress
/// repetitions.
const STREAM_BYTES: usize = 1 << 20;

impl RivalValues {
    /// The stream of `seed`.
    pub(crate) fn new(seed: u64) -> RivalValues {
        let mut bytes = vec![0; STREAM_BYTES];
        fastrand::Rng::with_seed(seed).fill(&mut bytes);
        RivalValues { bytes, at: 0 }
    }

    /// The next `len` bytes.
    pub(crate) fn next(&mut self, len: usize) -> &[u8] {
        if self.at + len > self.bytes.len() {
            self.at = 0;
        }
        self.at += len;
        &self.bytes[self.at - len..self.at]
    }
}

/// A hash of the values that a workload has read. Engines that read the same values, in any order,
/// have the same hash.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Digest(pub(crate) u64);

impl Digest {
    /// Adds a value. Only the value's length and its first eight bytes count.
    #[inline]
    pub(crate) fn add(&mut self, value: &[u8]) {
        self.0 = self.0.wrapping_add(word(value));
    }

    /// Adds a pair. The same values under other keys give another hash.
    pub(crate) fn add_pair(&mut self, key: &[u8], value: &[u8]) {
        self.0 = self.0.wrapping_add(word(key).wrapping_mul(SPREAD) ^ word(value));
    }
}

/// An odd number with bits all over: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

#[inline]
fn word(bytes: &[u8]) -> u64 {
    let head = bytes.first_chunk::<8>().map_or(0, |head| u64::from_le_bytes(*head));
    head ^ bytes.len() as u64
}
