//! The order in which the keys of a batch are read, and the search for repeated keys.

use super::Keys;
use esker_base::comparator::{KeyOrder, head};
use smallvec::SmallVec;

/// A key's place in the order in which a batch is read. From the top: the index of its super
/// version, 32 bits; its head, 64 bits, which sorts as the key does if two heads differ; its index
/// in the batch, 32 bits. All in one number, because numbers sort several times as fast.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ordered(u128);

impl Ordered {
    #[inline]
    pub(super) fn new(super_version: usize, head: u64, key: usize) -> Ordered {
        Ordered((super_version as u128) << 96 | u128::from(head) << 32 | key as u128)
    }
    /// Most keys that a short number can distinguish.
    pub(super) const MOST_SHORT: usize = 1 << 16;

    /// The key's place among the keys of one family, as a number with 48 bits of the head, which
    /// sorts in half the time.
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

/// The order of a batch; on the stack for up to 32 keys.
pub(super) type Order = SmallVec<[Ordered; 32]>;

/// A number made of the key's bytes from offset `from` on. Two different numbers sort as their keys
/// do in `order`; in an unknown order, all keys have the same number.
#[inline]
pub(super) fn head_of(order: KeyOrder, user_key: &[u8], from: usize) -> u64 {
    let head = head(user_key, from);
    match order {
        KeyOrder::Bytewise => head,
        KeyOrder::ReverseBytewise => !head,
        KeyOrder::Custom => 0,
    }
}

/// A hash table that finds most repeated keys. A key's last 8 bytes choose its slot; the slot has
/// the index of its last key, plus one. Different keys in one slot replace each other, so some
/// repetitions are missed. A sort would find all, but costs more than a search of a memtable.
pub(super) struct Named<const SLOTS: usize>([u32; SLOTS]);

impl<const SLOTS: usize> Named<SLOTS> {
    pub(super) fn new() -> Named<SLOTS> {
        const { assert!(SLOTS.is_power_of_two()) };
        Named([0; SLOTS])
    }

    /// The index of an earlier key equal to key `i`, if its slot has one. Otherwise puts key `i`
    /// into the slot.
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
