//! The order of user keys.
//!
//! The MANIFEST and table properties store the comparator's name. The built-in comparators have
//! RocksDB's names. Source of the shortening rules: RocksDB `util/comparator.cc`, as stated in
//! `docs/format/index.md`.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// A total order of user keys. Its name is stored in the database and checked at each open.
pub trait Comparator: Send + Sync {
    /// The name, stored in every MANIFEST and table. A database opens only under the name with
    /// which it was written.
    fn name(&self) -> &str;
    /// Compares two keys. The order must be total, and must never change under this name.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering;
    /// Whether two keys are the same user key. Default: `compare` says equal.
    fn equal(&self, a: &[u8], b: &[u8]) -> bool {
        self.compare(a, b) == Ordering::Equal
    }
    /// May replace `start` by a key k that is not longer, with `start <= k < limit`. The default
    /// does nothing.
    fn find_shortest_separator(&self, _start: &mut Vec<u8>, _limit: &[u8]) {}
    /// May replace `key` by a key that is not longer and not smaller. The default does nothing.
    fn find_short_successor(&self, _key: &mut Vec<u8>) {}
    /// Number of bytes of the timestamp at the end of each user key. 0 if keys have none; at most
    /// `u16::MAX`.
    ///
    /// With timestamps, `compare` orders the versions of one key from the newest timestamp to the
    /// oldest.
    fn timestamp_size(&self) -> usize {
        0
    }
    /// The order of user keys without their timestamps, under the same name. `None` if keys have
    /// no timestamps.
    fn without_timestamp(&self) -> Option<ComparatorRef> {
        None
    }
    /// The order of timestamps: `Less` if `a` is older than `b`. RocksDB's `CompareTimestamp`.
    ///
    /// Must agree with `compare`. The default takes `a` and `b` as user keys that consist of a
    /// timestamp only, and compares them.
    fn compare_timestamp(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.compare(b, a)
    }
    /// The oldest possible timestamp. Default: all bytes 0 or all bytes 0xFF, whichever is older.
    fn min_timestamp(&self) -> Vec<u8> {
        let [zeros, ones] = [0, 0xFF].map(|byte| vec![byte; self.timestamp_size()]);
        if self.compare_timestamp(&zeros, &ones).is_le() { zeros } else { ones }
    }
    /// The newest possible timestamp. Default: all bytes 0 or all bytes 0xFF, whichever is newer.
    fn max_timestamp(&self) -> Vec<u8> {
        let [zeros, ones] = [0, 0xFF].map(|byte| vec![byte; self.timestamp_size()]);
        if self.compare_timestamp(&zeros, &ones).is_le() { ones } else { zeros }
    }
    /// The oldest timestamp newer than `timestamp`; `None` if there is none, or if the comparator
    /// cannot determine it.
    ///
    /// A flush that drops timestamps raises `full_history_ts_low` to the timestamp after the newest
    /// dropped one. If this method returns `None`, the flush takes the newest dropped timestamp
    /// itself.
    fn next_timestamp(&self, _timestamp: &[u8]) -> Option<Vec<u8>> {
        None
    }
    /// Tells whether the engine can compare keys without a call of `compare`. Comparators of users
    /// return `Custom`: the engine then calls `compare`.
    fn order(&self) -> KeyOrder {
        KeyOrder::Custom
    }
}

/// The orders of user keys that the engine knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyOrder {
    /// Unsigned bytes, ascending.
    Bytewise,
    /// Unsigned bytes, descending; a prefix sorts after its extensions.
    ReverseBytewise,
    /// An order that only the comparator can decide.
    Custom,
}

/// Returns up to 8 bytes of `key`, from `from` on, as a big-endian integer. Missing bytes are
/// zeros.
///
/// The code does not copy the bytes into an array first. The copy would consist of several small
/// stores, and a load that covers them all stalls the processor.
/// # Panics
/// If the key is shorter than `from`.
#[inline]
pub fn head(key: &[u8], from: usize) -> u64 {
    let rest = &key[from..];
    if let Some(chunk) = rest.first_chunk::<8>() {
        return u64::from_be_bytes(*chunk);
    }
    match key.last_chunk::<8>() {
        Some(chunk) => u64::from_be_bytes(*chunk).checked_shl(64 - 8 * rest.len() as u32).unwrap_or(0),
        None => rest.iter().zip((0..8).rev()).fold(0, |head, (byte, at)| head | u64::from(*byte) << (8 * at)),
    }
}

/// A shared comparator.
pub type ComparatorRef = Arc<dyn Comparator>;

impl fmt::Debug for dyn Comparator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Comparator({})", self.name())
    }
}

/// `leveldb.BytewiseComparator`: unsigned bytes, ascending. The default.
#[derive(Clone, Copy, Debug, Default)]
pub struct BytewiseComparator;

impl Comparator for BytewiseComparator {
    fn name(&self) -> &str {
        "leveldb.BytewiseComparator"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }
    fn equal(&self, a: &[u8], b: &[u8]) -> bool {
        a == b
    }
    fn find_shortest_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        shorten_bytewise(start, limit);
    }
    fn find_short_successor(&self, key: &mut Vec<u8>) {
        if let Some(i) = key.iter().position(|&b| b != 0xFF) {
            key[i] += 1;
            key.truncate(i + 1);
        }
    }
    fn order(&self) -> KeyOrder {
        KeyOrder::Bytewise
    }
}

/// Finds the first byte of `start` that can be incremented without reaching `limit`. Increments
/// that byte, and cuts `start` behind it.
fn shorten_bytewise(start: &mut Vec<u8>, limit: &[u8]) {
    let d = start.iter().zip(limit).take_while(|(a, b)| a == b).count();
    if d == start.len() || d == limit.len() || start[d] >= limit[d] {
        return;
    }
    if d + 1 < limit.len() || start[d] + 1 < limit[d] {
        start[d] += 1;
        start.truncate(d + 1);
    } else if let Some(i) = (d + 1..start.len()).find(|&i| start[i] != 0xFF) {
        start[i] += 1;
        start.truncate(i + 1);
    }
    debug_assert!(start.as_slice() < limit);
}

/// `rocksdb.ReverseBytewiseComparator`: unsigned bytes, descending; a prefix sorts after its
/// extensions.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReverseBytewiseComparator;

impl Comparator for ReverseBytewiseComparator {
    fn name(&self) -> &str {
        "rocksdb.ReverseBytewiseComparator"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
    fn equal(&self, a: &[u8], b: &[u8]) -> bool {
        a == b
    }
    fn order(&self) -> KeyOrder {
        KeyOrder::ReverseBytewise
    }
}

/// `leveldb.BytewiseComparator.u64ts`: keys ascending, then timestamps descending. The last 8 bytes
/// of a user key are its timestamp, a little-endian number.
#[derive(Clone, Copy, Debug, Default)]
pub struct BytewiseComparatorWithU64Ts;

impl Comparator for BytewiseComparatorWithU64Ts {
    fn name(&self) -> &str {
        "leveldb.BytewiseComparator.u64ts"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let (a_key, a_ts) = a.split_at(a.len().saturating_sub(8));
        let (b_key, b_ts) = b.split_at(b.len().saturating_sub(8));
        a_key.cmp(b_key).then_with(|| compare_u64_timestamps(b_ts, a_ts))
    }
    fn timestamp_size(&self) -> usize {
        8
    }
    fn compare_timestamp(&self, a: &[u8], b: &[u8]) -> Ordering {
        compare_u64_timestamps(a, b)
    }
    fn next_timestamp(&self, timestamp: &[u8]) -> Option<Vec<u8>> {
        next_u64_timestamp(timestamp)
    }
    fn without_timestamp(&self) -> Option<ComparatorRef> {
        Some(Arc::new(WithoutTimestamp {
            name: "leveldb.BytewiseComparator.u64ts",
            order: Arc::new(BytewiseComparator),
        }))
    }
}

/// `rocksdb.ReverseBytewiseComparator.u64ts`: keys descending, then timestamps descending. The last
/// 8 bytes of a user key are its timestamp, a little-endian number.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReverseBytewiseComparatorWithU64Ts;

impl Comparator for ReverseBytewiseComparatorWithU64Ts {
    fn name(&self) -> &str {
        "rocksdb.ReverseBytewiseComparator.u64ts"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let (a_key, a_ts) = a.split_at(a.len().saturating_sub(8));
        let (b_key, b_ts) = b.split_at(b.len().saturating_sub(8));
        b_key.cmp(a_key).then_with(|| compare_u64_timestamps(b_ts, a_ts))
    }
    fn timestamp_size(&self) -> usize {
        8
    }
    fn compare_timestamp(&self, a: &[u8], b: &[u8]) -> Ordering {
        compare_u64_timestamps(a, b)
    }
    fn next_timestamp(&self, timestamp: &[u8]) -> Option<Vec<u8>> {
        next_u64_timestamp(timestamp)
    }
    fn without_timestamp(&self) -> Option<ComparatorRef> {
        let order = Arc::new(ReverseBytewiseComparator);
        Some(Arc::new(WithoutTimestamp { name: "rocksdb.ReverseBytewiseComparator.u64ts", order }))
    }
}

/// Compares two little-endian integers of equal width.
fn compare_u64_timestamps(a: &[u8], b: &[u8]) -> Ordering {
    a.iter().rev().cmp(b.iter().rev())
}

fn next_u64_timestamp(timestamp: &[u8]) -> Option<Vec<u8>> {
    let number = u64::from_le_bytes(timestamp.try_into().ok()?);
    number.checked_add(1).map(|next| next.to_le_bytes().to_vec())
}

/// Orders keys without timestamps, under the name of the comparator with timestamps. Tables that
/// store no timestamps use this order.
struct WithoutTimestamp {
    name: &'static str,
    order: ComparatorRef,
}

impl Comparator for WithoutTimestamp {
    fn name(&self) -> &str {
        self.name
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.order.compare(a, b)
    }
    fn find_shortest_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        self.order.find_shortest_separator(start, limit);
    }
    fn find_short_successor(&self, key: &mut Vec<u8>) {
        self.order.find_short_successor(key);
    }
    fn order(&self) -> KeyOrder {
        self.order.order()
    }
}

/// The built-in comparator called `name`, if there is one.
pub fn by_name(name: &str) -> Option<ComparatorRef> {
    Some(match name {
        "leveldb.BytewiseComparator" | "rocksdb.BytewiseComparator" => Arc::new(BytewiseComparator),
        "rocksdb.ReverseBytewiseComparator" => Arc::new(ReverseBytewiseComparator),
        "leveldb.BytewiseComparator.u64ts" => Arc::new(BytewiseComparatorWithU64Ts),
        "rocksdb.ReverseBytewiseComparator.u64ts" => Arc::new(ReverseBytewiseComparatorWithU64Ts),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
