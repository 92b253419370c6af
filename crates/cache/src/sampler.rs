//! Estimates the miss ratio of a cache of another size from a sample of the keys.
//!
//! In: looked-up keys and their charges. Out: for some sizes, the share of lookups that would miss.
//!
//! The sampler follows one key in 2^n, chosen by its hash. A lookup of a followed key adds up its
//! bytes and those of the followed keys that were looked up since its last lookup. That sum times
//! 2^n is the least capacity at which an LRU cache would still have the key (Mattson et al., 1970;
//! sampling by hash: Waldspurger et al., SHARDS, FAST '15). A key's first lookup misses in every
//! cache. A clock cache misses less often than an LRU cache on most loads, so the estimate is a
//! cautious one. The estimate predicts well how another size would change the miss ratio.
//!
//! Invariants
//!  1. A lookup of a key that is not followed costs a multiplication. A lookup of a followed key
//!     also tries a lock, and never waits for it.
//!  2. Memory: at most `SLOTS` keys, for any capacity.
//!  3. Each recorded lookup takes the next slot. Only a key's newest slot (`newest`) has bytes.
//!     `sums` is a Fenwick tree over the bytes of the slots.

use crate::key::CacheKey;
use esker_base::sync::Mutex;
use hashbrown::HashMap;

/// The cache sizes whose miss ratio is estimated, in eighths of the capacity.
const EIGHTHS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// The number of keys that remain at most when the slots are compacted.
const MAX_FOLLOWED: usize = 2048;
const SLOTS: usize = 2 * MAX_FOLLOWED;
/// At most one key in 2^this is followed, because a followed lookup costs about 200 ns.
const MIN_BITS: u32 = 6;
const MAX_BITS: u32 = 24;
/// Expected charge of an entry, in bytes.
const USUAL_CHARGE: usize = 4096;
/// When `Stack::lookups` reaches this number, all counts are halved, so older lookups count less.
const HALF_LIFE: u64 = 1 << 16;

/// Estimated misses of a cache of this size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MissEstimate {
    /// Size in bytes.
    pub capacity: usize,
    /// Share of lookups that would miss, 0 to 1.
    pub miss_ratio: f64,
}

/// See the head of the file.
pub(crate) struct Sampler {
    bits: u32,
    stack: Mutex<Stack>,
}

struct Stack {
    capacity: usize,
    /// Slot and charge of each followed key.
    newest: HashMap<CacheKey, (u32, u32)>,
    /// For each slot its key, if it is the key's newest slot.
    keys: Vec<Option<CacheKey>>,
    sums: Vec<u64>,
    next: usize,
    /// Lookups by the smallest size that would hit; the last counts those that miss in all sizes.
    histogram: [u64; EIGHTHS.len() + 1],
    lookups: u64,
}

impl Sampler {
    pub(crate) fn new(capacity: usize) -> Sampler {
        // The sampler follows about `MAX_FOLLOWED` entries of the largest size, or fewer.
        let most = capacity / USUAL_CHARGE * EIGHTHS[EIGHTHS.len() - 1] / 8;
        let bits = (most / MAX_FOLLOWED + 1).next_power_of_two().trailing_zeros();
        Sampler { bits: bits.clamp(MIN_BITS, MAX_BITS), stack: Mutex::new(Stack::new(capacity)) }
    }

    #[inline]
    pub(crate) fn follows(&self, key: &CacheKey) -> bool {
        let [first, second] = key.words();
        (first ^ second.rotate_left(32)).wrapping_mul(0x9FB2_1C65_1E98_DF25) >> (64 - self.bits) == 0
    }

    /// Records a lookup of a followed key, unless another thread holds the lock.
    #[cold]
    pub(crate) fn looked_up(&self, key: &CacheKey) {
        if let Some(mut stack) = self.stack.try_lock() {
            stack.looked_up(key, self.bits);
        }
    }

    /// Records the insertion of a followed key.
    #[cold]
    pub(crate) fn charged(&self, key: &CacheKey, charge: usize) {
        if let Some(mut stack) = self.stack.try_lock() {
            stack.charged(key, charge);
        }
    }

    /// Begins anew for another capacity.
    pub(crate) fn reset(&self, capacity: usize) {
        *self.stack.lock() = Stack::new(capacity);
    }

    pub(crate) fn estimates(&self) -> Vec<MissEstimate> {
        self.stack.lock().estimates()
    }
}

impl Stack {
    fn new(capacity: usize) -> Stack {
        Stack {
            capacity,
            newest: HashMap::new(),
            keys: Vec::new(),
            sums: Vec::new(),
            next: 0,
            histogram: [0; EIGHTHS.len() + 1],
            lookups: 0,
        }
    }

    fn add(&mut self, slot: usize, charge: i64) {
        let mut i = slot + 1;
        while i <= SLOTS {
            self.sums[i] = self.sums[i].wrapping_add_signed(charge);
            i += i & i.wrapping_neg();
        }
    }

    /// Bytes in the slots before this one.
    fn sum_before(&self, slot: usize) -> u64 {
        let (mut i, mut sum) = (slot, 0_u64);
        while i > 0 {
            sum = sum.wrapping_add(self.sums[i]);
            i -= i & i.wrapping_neg();
        }
        sum
    }

    fn looked_up(&mut self, key: &CacheKey, bits: u32) {
        if self.next == SLOTS || self.keys.is_empty() {
            self.compact();
        }
        let before = self.newest.get(key).copied();
        let at = match before {
            Some((slot, charge)) => {
                let since = self.sum_before(self.next) - self.sum_before(slot as usize);
                self.add(slot as usize, -i64::from(charge));
                self.keys[slot as usize] = None;
                let distance = since.saturating_mul(1 << bits);
                let fits = |eighths: &usize| distance <= (self.capacity / 8 * eighths) as u64;
                EIGHTHS.iter().position(fits).unwrap_or(EIGHTHS.len())
            }
            None => EIGHTHS.len(),
        };
        self.histogram[at] += 1;
        self.lookups += 1;
        if self.lookups == HALF_LIFE {
            self.histogram = self.histogram.map(|n| n / 2);
            self.lookups = self.histogram.iter().sum();
        }
        let charge = before.map_or(USUAL_CHARGE as u32, |(_, charge)| charge);
        self.newest.insert(*key, (self.next as u32, charge));
        self.keys[self.next] = Some(*key);
        self.add(self.next, i64::from(charge));
        self.next += 1;
    }

    fn charged(&mut self, key: &CacheKey, charge: usize) {
        let charge = u32::try_from(charge).unwrap_or(u32::MAX);
        if let Some((slot, old)) = self.newest.get_mut(key) {
            let (slot, change) = (*slot as usize, i64::from(charge) - i64::from(*old));
            *old = charge;
            self.add(slot, change);
        }
    }

    /// Moves the newest `MAX_FOLLOWED` keys to the front, and forgets the others.
    fn compact(&mut self) {
        let kept: Vec<CacheKey> = self.keys.iter().flatten().copied().collect();
        let forgotten = kept.len().saturating_sub(MAX_FOLLOWED);
        kept[..forgotten].iter().for_each(|key| _ = self.newest.remove(key));
        self.keys = vec![None; SLOTS];
        self.sums = vec![0; SLOTS + 1];
        self.next = 0;
        for key in &kept[forgotten..] {
            let Some((slot, charge)) = self.newest.get_mut(key) else { continue };
            *slot = self.next as u32;
            let charge = i64::from(*charge);
            self.keys[self.next] = Some(*key);
            self.add(self.next, charge);
            self.next += 1;
        }
    }

    fn estimates(&self) -> Vec<MissEstimate> {
        let all = self.histogram.iter().sum::<u64>();
        let mut hits = 0;
        let estimates = EIGHTHS.iter().zip(&self.histogram).map(|(eighths, n)| {
            hits += n;
            let miss_ratio = (all - hits) as f64 / all.max(1) as f64;
            MissEstimate { capacity: self.capacity / 8 * eighths, miss_ratio }
        });
        estimates.collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
