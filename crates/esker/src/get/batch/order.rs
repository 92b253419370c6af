//! In which order the keys of a batch are read, and which of them were named before.

use super::Keys;
use esker_base::comparator::{KeyOrder, head};
use smallvec::SmallVec;

/// A key's place in the order in which a batch is read. From the top: the index of its super
/// version, 32 bits; a number that sorts as the key does where two of them differ, 64 bits; its
/// number in the batch, 32 bits. One number, because numbers are sorted several times as fast.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ordered(u128);

impl Ordered {
    #[inline]
    pub(super) fn new(super_version: usize, head: u64, key: usize) -> Ordered {
        Ordered((super_version as u128) << 96 | u128::from(head) << 32 | key as u128)
    }
    /// Most keys that a short number can tell apart.
    pub(super) const MOST_SHORT: usize = 1 << 16;

    /// The key's place among those of one family, as a number that is sorted in half the time: 48
    /// bits of the head.
    #[inline]
    pub(super) fn short(head: u64, key: usize) -> u64 {
        head >> 16 << 16 | key as u64
    }
    #[inline]
    pub(super) fn from_short(short: u64) -> Ordered {
        Ordered::new(0, short >> 16, (short as u16).into())
    }
    #[inline]
    pub(super) fn super_version(self) -> usize {
        (self.0 >> 96) as usize
    }
    #[inline]
    pub(super) fn key(self) -> usize {
        self.0 as u32 as usize
    }
    #[inline]
    pub(super) fn has_head_of(self, other: Ordered) -> bool {
        self.0 >> 32 == other.0 >> 32
    }
}

/// Stays on the stack while a batch has few keys.
pub(super) type Order = SmallVec<[Ordered; 32]>;

/// A number, of the bytes from `from` on, that sorts as `order` does wherever two of them differ;
/// the same for all keys of an order that is not known.
#[inline]
pub(super) fn head_of(order: KeyOrder, user_key: &[u8], from: usize) -> u64 {
    let head = head(user_key, from);
    match order {
        KeyOrder::Bytewise => head,
        KeyOrder::ReverseBytewise => !head,
        KeyOrder::Custom => 0,
    }
}

/// One more than the number of the last key of a batch that fell into each slot, as its last 8
/// bytes have it. Two keys in one slot hide each other: a key that is named again is mostly found
/// to be, where sorting finds each but costs more than a search of a memtable.
pub(super) struct Named<const SLOTS: usize>([u32; SLOTS]);

impl<const SLOTS: usize> Named<SLOTS> {
    pub(super) fn new() -> Named<SLOTS> {
        const { assert!(SLOTS.is_power_of_two()) };
        Named([0; SLOTS])
    }

    /// The number of a key like key `i`, if one was here.
    #[inline]
    pub(super) fn before(&mut self, keys: &impl Keys, i: usize) -> Option<usize> {
        let key = keys.key(i);
        let mixed = head(key, key.len().saturating_sub(8)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = &mut self.0[(mixed >> (64 - SLOTS.ilog2())) as usize];
        let before = (*slot as usize).checked_sub(1).filter(|&before| keys.key(before) == key);
        if before.is_none() {
            *slot = i as u32 + 1;
        }
        before
    }
}
