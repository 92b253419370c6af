//! One shard: everything behind one mutex.
//!
//! Invariants
//!  1. An index is in the table if and only if its slot holds an entry; then it is in exactly one pool's list.
//!     Empty slots are chained from `free`.
//!  2. `usage` is the sum of all charges; each pool's `usage` that of its entries.
//!  3. What leaves is handed out to be dropped by the caller, after the lock.

use crate::cache::Priority;
use crate::key::CacheKey;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as TableEntry;
use smallvec::SmallVec;
use std::sync::Arc;

const NONE: u32 = u32::MAX;

/// When the limit is not strict, an insert gives up looking for room after meeting this many values in use: it would
/// do so again and again while a small cache is all in use. What was met counts as used now, so the next insert looks
/// further on.
const MAX_IN_USE_MET: usize = 64;

/// Sees key, value, charge and priority.
pub(super) type Visit<'a, V> = dyn FnMut(&CacheKey, &Arc<V>, usize, Priority) + 'a;

/// What an operation took out.
pub(super) type Garbage<V> = SmallVec<[Arc<V>; 4]>;

#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) capacity: usize,
    pub(super) strict: bool,
    pub(super) high_ratio: f64,
    pub(super) low_ratio: f64,
}

impl Limits {
    fn share_of(&self, pool: Pool) -> usize {
        let ratio = match pool {
            Pool::High => self.high_ratio,
            Pool::Low => self.low_ratio,
            Pool::Bottom => return usize::MAX,
        };
        (self.capacity as f64 * ratio) as usize
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pool {
    Bottom,
    Low,
    High,
}

const POOLS: [Pool; 3] = [Pool::Bottom, Pool::Low, Pool::High];

struct Slot<V> {
    key: CacheKey,
    /// `None` in an empty slot.
    value: Option<Arc<V>>,
    charge: usize,
    newer: u32,
    /// In an empty slot: the next empty one.
    older: u32,
    pool: Pool,
    priority: Priority,
    has_hit: bool,
}

impl<V> Slot<V> {
    fn is_in_use(&self) -> bool {
        self.value.as_ref().is_some_and(|v| Arc::strong_count(v) > 1)
    }
}

#[derive(Clone, Copy, Debug)]
struct List {
    newest: u32,
    oldest: u32,
    len: usize,
    usage: usize,
    share: usize,
}

pub(super) struct Shard<V> {
    table: HashTable<u32>,
    slots: Vec<Slot<V>>,
    free: u32,
    pools: [List; 3],
    usage: usize,
    limits: Limits,
    seed: u64,
}

impl<V> Shard<V> {
    /// What an entry costs beside its value: its slot, and its index and tag in a table 7/8 full at best, half that
    /// at worst.
    pub(super) const ENTRY_OVERHEAD_BYTES: usize = size_of::<Slot<V>>() + 8;

    pub(super) fn new(limits: Limits, seed: u64) -> Shard<V> {
        let list = |pool| List { newest: NONE, oldest: NONE, len: 0, usage: 0, share: limits.share_of(pool) };
        Shard {
            table: HashTable::new(),
            slots: Vec::new(),
            free: NONE,
            pools: POOLS.map(list),
            usage: 0,
            limits,
            seed,
        }
    }

    #[inline]
    pub(super) fn lookup(&mut self, hash: u64, key: &CacheKey) -> Option<Arc<V>> {
        let index = *self.table.find(hash, |&i| self.slots[i as usize].key == *key)?;
        let slot = &mut self.slots[index as usize];
        slot.has_hit = true;
        let value = slot.value.clone();
        self.touch(index);
        value
    }

    /// False if there is no room, with the value among the garbage.
    pub(super) fn insert(
        &mut self,
        hash: u64,
        key: CacheKey,
        value: Arc<V>,
        charge: usize,
        priority: Priority,
    ) -> (bool, Garbage<V>) {
        let mut garbage = Garbage::new();
        garbage.extend(self.erase(hash, &key));
        if charge > self.limits.capacity {
            garbage.push(value);
            return (!self.limits.strict, garbage);
        }
        self.make_room_for(charge, &mut garbage);
        if self.limits.strict && self.usage + charge > self.limits.capacity {
            garbage.push(value);
            return (false, garbage);
        }
        let slot = Slot {
            key,
            value: Some(value),
            charge,
            newer: NONE,
            older: NONE,
            pool: Pool::Bottom,
            priority,
            has_hit: false,
        };
        let index = self.put_into_slot(slot);
        self.link(index);
        self.usage += charge;
        let (slots, seed) = (&self.slots, self.seed);
        self.table.insert_unique(hash, index, |&i| slots[i as usize].key.hash(seed));
        (true, garbage)
    }

    pub(super) fn erase(&mut self, hash: u64, key: &CacheKey) -> Option<Arc<V>> {
        match self.table.entry(
            hash,
            |&i| self.slots[i as usize].key == *key,
            |&i| self.slots[i as usize].key.hash(self.seed),
        ) {
            TableEntry::Vacant(_) => None,
            TableEntry::Occupied(occupied) => {
                let (index, _) = occupied.remove();
                self.take_from_slot(index)
            }
        }
    }

    pub(super) fn erase_unreferenced(&mut self) -> Garbage<V> {
        let mut garbage = Garbage::new();
        for pool in POOLS {
            self.evict_from(pool, &mut garbage, usize::MAX, |_| true);
        }
        garbage
    }

    pub(super) fn set_capacity(&mut self, capacity: usize) -> Garbage<V> {
        self.limits.capacity = capacity;
        for pool in POOLS {
            self.pools[pool as usize].share = self.limits.share_of(pool);
        }
        self.maintain_shares();
        let mut garbage = Garbage::new();
        for pool in POOLS {
            self.evict_from(pool, &mut garbage, usize::MAX, |shard| shard.usage > shard.limits.capacity);
        }
        garbage
    }

    pub(super) fn set_strict(&mut self, strict: bool) {
        self.limits.strict = strict;
    }

    pub(super) fn usage(&self) -> usize {
        self.usage
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn pinned_usage(&self) -> usize {
        self.slots.iter().filter(|s| s.is_in_use()).map(|s| s.charge).sum()
    }

    pub(super) fn for_each(&self, visit: &mut Visit<'_, V>) {
        for slot in &self.slots {
            if let Some(value) = &slot.value {
                visit(&slot.key, value, slot.charge, slot.priority);
            }
        }
    }

    fn make_room_for(&mut self, charge: usize, garbage: &mut Garbage<V>) {
        let mut patience = if self.limits.strict { usize::MAX } else { MAX_IN_USE_MET };
        for pool in POOLS {
            let met = self.evict_from(pool, garbage, patience, |shard| {
                shard.usage.saturating_add(charge) > shard.limits.capacity
            });
            patience -= met;
        }
    }

    /// Evicts the oldest of a pool while `wanted`, leaving what is in use, up to `patience` of those. Returns how
    /// many in use it met. Those move to the new end: being in use is as good as being used now.
    fn evict_from(
        &mut self,
        pool: Pool,
        garbage: &mut Garbage<V>,
        patience: usize,
        wanted: impl Fn(&Shard<V>) -> bool,
    ) -> usize {
        let mut met = 0;
        for _ in 0..self.pools[pool as usize].len {
            if met == patience || !wanted(self) {
                break;
            }
            let index = self.pools[pool as usize].oldest;
            if self.slots[index as usize].is_in_use() {
                met += 1;
                self.unlink(index);
                self.link_into(index, pool);
            } else {
                garbage.extend(self.remove(index));
            }
        }
        met
    }

    fn remove(&mut self, index: u32) -> Option<Arc<V>> {
        let hash = self.slots[index as usize].key.hash(self.seed);
        let found = self.table.find_entry(hash, |&i| i == index);
        found.expect("what is in a list is in the table").remove();
        self.take_from_slot(index)
    }

    fn put_into_slot(&mut self, slot: Slot<V>) -> u32 {
        if self.free == NONE {
            let index = u32::try_from(self.slots.len()).expect("fewer than 2^32 entries in a shard");
            self.slots.push(slot);
            return index;
        }
        let index = self.free;
        self.free = self.slots[index as usize].older;
        self.slots[index as usize] = slot;
        index
    }

    /// Empties a slot that is no longer in the table.
    fn take_from_slot(&mut self, index: u32) -> Option<Arc<V>> {
        self.unlink(index);
        let free = self.free;
        let slot = &mut self.slots[index as usize];
        self.usage -= slot.charge;
        slot.charge = 0;
        slot.older = free;
        self.free = index;
        slot.value.take()
    }

    /// Makes an entry the newest of the pool it now belongs into.
    #[inline]
    fn touch(&mut self, index: u32) {
        let slot = &self.slots[index as usize];
        let pool = self.pool_for(slot);
        if slot.pool == pool && self.pools[pool as usize].newest == index {
            return;
        }
        self.unlink(index);
        self.link_into(index, pool);
        self.maintain_shares();
    }

    fn link(&mut self, index: u32) {
        let pool = self.pool_for(&self.slots[index as usize]);
        self.link_into(index, pool);
        self.maintain_shares();
    }

    #[inline]
    fn pool_for(&self, slot: &Slot<V>) -> Pool {
        if self.limits.high_ratio > 0.0 && (slot.has_hit || slot.priority == Priority::High) {
            Pool::High
        } else if self.limits.low_ratio > 0.0 && (slot.has_hit || slot.priority != Priority::Bottom) {
            Pool::Low
        } else {
            Pool::Bottom
        }
    }

    #[inline]
    fn link_into(&mut self, index: u32, pool: Pool) {
        let list = &mut self.pools[pool as usize];
        let next = list.newest;
        list.newest = index;
        if next == NONE {
            list.oldest = index;
        }
        list.len += 1;
        let slot = &mut self.slots[index as usize];
        list.usage += slot.charge;
        slot.pool = pool;
        slot.newer = NONE;
        slot.older = next;
        if next != NONE {
            self.slots[next as usize].newer = index;
        }
    }

    #[inline]
    fn unlink(&mut self, index: u32) {
        let slot = &self.slots[index as usize];
        let (newer, older, charge) = (slot.newer, slot.older, slot.charge);
        let list = &mut self.pools[slot.pool as usize];
        list.len -= 1;
        list.usage -= charge;
        if newer == NONE {
            list.newest = older;
        }
        if older == NONE {
            list.oldest = newer;
        }
        if newer != NONE {
            self.slots[newer as usize].older = older;
        }
        if older != NONE {
            self.slots[older as usize].newer = newer;
        }
    }

    /// Hands the oldest of pools that exceed their share down.
    #[inline]
    fn maintain_shares(&mut self) {
        for (from, to) in [(Pool::High, Pool::Low), (Pool::Low, Pool::Bottom)] {
            while self.pools[from as usize].usage > self.pools[from as usize].share {
                let index = self.pools[from as usize].oldest;
                self.unlink(index);
                self.link_into(index, to);
            }
        }
    }

    /// Checks the invariants.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut listed = 0;
        for pool in POOLS {
            let list = &self.pools[pool as usize];
            let (mut index, mut newer, mut usage, mut len) = (list.newest, NONE, 0, 0);
            while index != NONE {
                let slot = &self.slots[index as usize];
                assert_eq!((slot.newer, slot.pool), (newer, pool));
                assert!(slot.value.is_some());
                let hash = slot.key.hash(self.seed);
                assert_eq!(self.table.find(hash, |&i| self.slots[i as usize].key == slot.key), Some(&index));
                usage += slot.charge;
                len += 1;
                (newer, index) = (index, slot.older);
            }
            assert_eq!((list.oldest, list.usage, list.len), (newer, usage, len));
            assert!(list.usage <= list.share);
            listed += len;
        }
        assert_eq!(listed, self.table.len());
        assert_eq!(self.usage, self.pools.iter().map(|l| l.usage).sum::<usize>());
        let (mut free, mut empty) = (self.free, 0);
        while free != NONE {
            assert!(self.slots[free as usize].value.is_none());
            empty += 1;
            free = self.slots[free as usize].older;
        }
        assert_eq!(listed + empty, self.slots.len());
    }

    /// Keys from the first that would be evicted to the last.
    #[cfg(test)]
    pub(super) fn order(&self) -> Vec<CacheKey> {
        let mut out = Vec::new();
        for list in &self.pools {
            let mut index = list.oldest;
            while index != NONE {
                out.push(self.slots[index as usize].key);
                index = self.slots[index as usize].newer;
            }
        }
        out
    }
}
