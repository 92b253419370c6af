//! One shard: everything behind one mutex.
//!
//! Invariants
//!  1. An index is in the table if and only if its slot holds an entry; then it is in exactly one
//!     pool's list. Empty slots are chained from `free`.
//!  2. `usage` is the sum of all charges; each pool's `usage` that of its entries.
//!  3. Removed entries are returned to the caller, which drops them after it has released the lock.

use crate::contract::CachePriority;
use crate::entry::{CacheEntry, Handle, Listed};
use crate::key::CacheKey;
use crate::outcome::{Evicted, EvictedList};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as TableEntry;
use smallvec::SmallVec;

const NONE: u32 = u32::MAX;

/// The place behind the last slot, for visits.
pub(super) const END: usize = usize::MAX;

/// Without a strict limit, an insert gives up after it has met this many values in use. Otherwise
/// each insert into a small cache would search it all while all of it is in use. These values count
/// as used now, so the next insert starts behind them.
const MAX_IN_USE_MET: usize = 64;

/// The entries that an operation removed.
pub(super) struct LruGarbage<V> {
    pub(super) evicted: EvictedList<V>,
    listings: SmallVec<[Listed<V>; 4]>,
}

impl<V> Default for LruGarbage<V> {
    fn default() -> LruGarbage<V> {
        LruGarbage { evicted: EvictedList::new(), listings: SmallVec::new() }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) capacity: usize,
    /// Whether evictions are reported.
    pub(super) tells: bool,
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
    /// The entry; `None` in an empty slot.
    entry: Option<Listed<V>>,
    newer: u32,
    /// The next older entry of the pool; in an empty slot, the next empty slot.
    older: u32,
    pool: Pool,
    has_hit: bool,
}

impl<V> Slot<V> {
    fn entry(&self) -> &CacheEntry<V> {
        self.entry.as_ref().expect("a slot in the table or in a list has an entry")
    }

    fn key(&self) -> &CacheKey {
        &self.entry().about.key
    }

    fn charge(&self) -> usize {
        self.entry().about.charge
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

pub(super) struct LruShard<V> {
    table: HashTable<u32>,
    slots: Vec<Slot<V>>,
    free: u32,
    pools: [List; 3],
    usage: usize,
    limits: Limits,
    seed: u64,
}

impl<V> LruShard<V> {
    /// Bytes of an entry beside its value: its slot, and its index and tag in a table 7/8 full at
    /// best, half that at worst.
    pub(super) const ENTRY_OVERHEAD_BYTES: usize = size_of::<Slot<V>>() + 8;

    pub(super) fn new(limits: Limits, seed: u64) -> LruShard<V> {
        let list = |pool| List { newest: NONE, oldest: NONE, len: 0, usage: 0, share: limits.share_of(pool) };
        LruShard {
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
    pub(super) fn lookup(&mut self, hash: u64, key: &CacheKey) -> Option<Handle<V>> {
        let index = *self.table.find(hash, |&i| self.slots[i as usize].key() == key)?;
        let slot = &mut self.slots[index as usize];
        slot.has_hit = true;
        let handle = slot.entry().pin();
        self.touch(index);
        handle
    }

    /// Finds an entry, and makes it the oldest of the bottom pool.
    pub(super) fn lookup_last(&mut self, hash: u64, key: &CacheKey) -> Option<Handle<V>> {
        let index = *self.table.find(hash, |&i| self.slots[i as usize].key() == key)?;
        self.unlink(index);
        self.slots[index as usize].has_hit = false;
        self.link_oldest(index);
        self.slots[index as usize].entry().pin()
    }

    pub(super) fn contains(&self, hash: u64, key: &CacheKey) -> bool {
        self.table.find(hash, |&i| self.slots[i as usize].key() == key).is_some()
    }

    pub(super) fn capacity(&self) -> usize {
        self.limits.capacity
    }

    /// Inserts an entry whose key the shard does not have.
    pub(super) fn put(&mut self, hash: u64, entry: Listed<V>) {
        self.usage += entry.about.charge;
        let slot = Slot { entry: Some(entry), newer: NONE, older: NONE, pool: Pool::Bottom, has_hit: false };
        let index = self.put_into_slot(slot);
        self.link(index);
        let (slots, seed) = (&self.slots, self.seed);
        self.table.insert_unique(hash, index, |&i| slots[i as usize].key().hash(seed));
    }

    /// Removes the value of a key. True if there was one.
    pub(super) fn erase(&mut self, hash: u64, key: &CacheKey, garbage: &mut LruGarbage<V>) -> bool {
        let found = self.table.entry(
            hash,
            |&i| self.slots[i as usize].key() == key,
            |&i| self.slots[i as usize].key().hash(self.seed),
        );
        let TableEntry::Occupied(occupied) = found else { return false };
        let (index, _) = occupied.remove();
        let entry = self.take_from_slot(index);
        entry.erase();
        garbage.listings.push(entry);
        true
    }

    /// Evicts up to this many bytes of values without handles. Returns the bytes freed.
    pub(super) fn evict(&mut self, wanted: usize, garbage: &mut LruGarbage<V>) -> usize {
        let before = self.usage;
        for pool in POOLS {
            self.evict_from(pool, garbage, usize::MAX, |shard| before - shard.usage < wanted);
        }
        before - self.usage
    }

    pub(super) fn set_capacity(&mut self, capacity: usize, garbage: &mut LruGarbage<V>) {
        self.limits.capacity = capacity;
        for pool in POOLS {
            self.pools[pool as usize].share = self.limits.share_of(pool);
        }
        self.maintain_shares();
        for pool in POOLS {
            self.evict_from(pool, garbage, usize::MAX, |shard| shard.usage > shard.limits.capacity);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn table_size(&self) -> usize {
        self.table.capacity()
    }

    pub(super) fn pinned_usage(&self) -> usize {
        self.slots
            .iter()
            .filter_map(|s| s.entry.as_ref())
            .filter(|e| e.is_pinned())
            .map(|e| e.about.charge)
            .sum()
    }

    /// Visits up to `count` slots from `first`. Returns where to continue, or `END`.
    pub(super) fn visit(&self, first: usize, count: usize, visit: &mut dyn FnMut(&CacheEntry<V>)) -> usize {
        let end = (first + count).min(self.slots.len());
        // The shard may have shrunk to nothing meanwhile.
        for slot in self.slots.get(first..end).unwrap_or_default() {
            if let Some(entry) = &slot.entry {
                visit(entry);
            }
        }
        if end >= self.slots.len() { END } else { end }
    }

    /// Evicts until `charge` more bytes fit. False if they do not.
    pub(super) fn make_room_for(
        &mut self,
        charge: usize,
        is_strict: bool,
        garbage: &mut LruGarbage<V>,
    ) -> bool {
        if charge > self.limits.capacity {
            return false;
        }
        let lacks = |shard: &LruShard<V>| shard.usage.saturating_add(charge) > shard.limits.capacity;
        let mut patience = if is_strict { usize::MAX } else { MAX_IN_USE_MET };
        for pool in POOLS {
            patience -= self.evict_from(pool, garbage, patience, lacks);
        }
        !lacks(self)
    }

    /// Evicts the oldest entries of a pool while `wanted` returns true, skipping up to `patience`
    /// entries in use. Those count as used now and move to the newest end. Returns their number.
    fn evict_from(
        &mut self,
        pool: Pool,
        garbage: &mut LruGarbage<V>,
        patience: usize,
        wanted: impl Fn(&LruShard<V>) -> bool,
    ) -> usize {
        let mut met = 0;
        for _ in 0..self.pools[pool as usize].len {
            if met == patience || !wanted(self) {
                break;
            }
            let index = self.pools[pool as usize].oldest;
            let slot = &self.slots[index as usize];
            // One attempt only: handles are released without the lock, so a second attempt might
            // succeed and leave the eviction unreported.
            let is_killed = if self.limits.tells {
                let last = slot.entry().erase_for_callback();
                let evicted = last.map(|value| Evicted { value, was_hit: slot.has_hit });
                let was_evicted = evicted.is_some();
                garbage.evicted.extend(evicted);
                was_evicted
            } else {
                slot.entry().erase_unpinned()
            };
            if !is_killed {
                met += 1;
                self.unlink(index);
                self.link_into(index, pool);
                continue;
            }
            let entry = self.remove(index);
            garbage.listings.push(entry);
        }
        met
    }

    fn remove(&mut self, index: u32) -> Listed<V> {
        let hash = self.slots[index as usize].key().hash(self.seed);
        let found = self.table.find_entry(hash, |&i| i == index);
        found.expect("a slot in a list is in the table").remove();
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
    fn take_from_slot(&mut self, index: u32) -> Listed<V> {
        self.unlink(index);
        let free = self.free;
        let slot = &mut self.slots[index as usize];
        slot.older = free;
        self.free = index;
        let entry = slot.entry.take().expect("a removed slot had an entry");
        self.usage -= entry.about.charge;
        entry
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
        if self.limits.high_ratio > 0.0
            && (slot.has_hit || slot.entry().about.priority == CachePriority::High)
        {
            Pool::High
        } else if self.limits.low_ratio > 0.0
            && (slot.has_hit || slot.entry().about.priority != CachePriority::Bottom)
        {
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
        list.usage += slot.charge();
        slot.pool = pool;
        slot.newer = NONE;
        slot.older = next;
        if next != NONE {
            self.slots[next as usize].newer = index;
        }
    }

    /// Makes an entry that is in no list the oldest of the bottom pool.
    fn link_oldest(&mut self, index: u32) {
        let list = &mut self.pools[Pool::Bottom as usize];
        let next = std::mem::replace(&mut list.oldest, index);
        if next == NONE {
            list.newest = index;
        }
        list.len += 1;
        let slot = &mut self.slots[index as usize];
        list.usage += slot.charge();
        (slot.pool, slot.newer, slot.older) = (Pool::Bottom, next, NONE);
        if next != NONE {
            self.slots[next as usize].older = index;
        }
    }

    #[inline]
    fn unlink(&mut self, index: u32) {
        let slot = &self.slots[index as usize];
        let (newer, older, charge) = (slot.newer, slot.older, slot.charge());
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

    /// Moves the oldest entries of pools that exceed their share down to the next pool.
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
                let hash = slot.key().hash(self.seed);
                assert_eq!(
                    self.table.find(hash, |&i| self.slots[i as usize].key() == slot.key()),
                    Some(&index)
                );
                usage += slot.charge();
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
            assert!(self.slots[free as usize].entry.is_none());
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
                out.push(*self.slots[index as usize].key());
                index = self.slots[index as usize].newer;
            }
        }
        out
    }
}
