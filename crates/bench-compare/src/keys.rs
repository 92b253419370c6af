//! Keys and values: the same ones in the same order for every engine.
//!
//! Invariant: keys and values depend on numbers and seeds only, not on time, addresses or the
//! engine.

/// Length of most keys, bytes: RocksDB's benchmark default.
pub(crate) const KEY_BYTES: usize = 16;
/// Length of most values, bytes.
pub(crate) const VALUE_BYTES: usize = 100;

/// A key of most workloads, as RocksDB's benchmark makes it: the number, big-endian, then '0'
/// characters.
pub(crate) type Key = [u8; KEY_BYTES];

/// The key of `number`. Keys sort in the order of their numbers.
pub(crate) fn key(number: u64) -> Key {
    let mut key = [b'0'; KEY_BYTES];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

/// A stream of random bytes; values are cut from it.
#[derive(Debug)]
pub(crate) struct RivalValues {
    bytes: Vec<u8>,
    at: usize,
}

/// Bytes of the stream. It is too long for an engine to find repetitions within a block.
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

/// A hash of the values that a workload has read. It does not depend on their order, and is
/// equal for engines with equal answers.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Digest(pub(crate) u64);

impl Digest {
    /// Adds a value by its length and its first eight bytes.
    #[inline]
    pub(crate) fn add(&mut self, value: &[u8]) {
        let head = value.first_chunk::<8>().map_or(0, |head| u64::from_le_bytes(*head));
        self.0 = self.0.wrapping_add(head ^ value.len() as u64);
    }
}
