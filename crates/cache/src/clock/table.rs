//! The clock table: buckets that any number of threads search and change at once, without waiting.
//!
//! In: entries with a pin. Out: the living entry with a key. `evict.rs` decides when an entry is
//! evicted.
//!
//! Three parts of a key's hash choose the three buckets it may be in. A key goes into the second or
//! third bucket only if the ones before are full, and the first counts it (`spilled`). So nearly
//! all searches read one cache line, also those that find nothing. With seven places a bucket and
//! 60 % of them taken, one in 400 inserts finds all three full.
//!
//! Length is the number of buckets in use. It grows by one: an older bucket gives the new bucket
//! the entries that one more bit of their hash sends there (linear hashing, Litwin 1980). Once the
//! table grows, each insert splits some buckets until the length is the next power of two. So at
//! nearly all times all buckets are about equally full.
//!
//! | step | function | afterwards |
//! |---|---|---|
//! | 1 | reserve and publish a place | searches find the tentative entry |
//! | 2 | read the length again | if the key's buckets have changed, or it spilled from a bucket that is being split: withdraw; the value lives on outside |
//! | 3 | look for others with the key | yield to confirmed entries and to lower ranks, erase other tentative ones |
//! | 4 | confirm | the entry stays until it is evicted or erased |
//!
//! | a split of `src` into `src` and `dst` | |
//! |---|---|
//! | 1 | copy the entries that belong to `dst` from `src`; no search looks into `dst` yet |
//! | 2 | publish the new length: searches look into `dst` |
//! | 3 | clear the places of these entries in `src`, and copy entries that came meanwhile |
//! | 4 | clear in `dst` entries that died meanwhile |
//!
//! Invariants
//!  1. A search finds an entry only while it is not dead. A place that names a dead entry is a
//!     leftover, which will be emptied.
//!  2. After all inserts of a key have returned, at most one living entry has it. Each insert makes
//!     a full fence between its steps 1 and 3, so of two inserts at least one sees its rival.
//!  3. If an insert publishes into a bucket while a thread splits it, one of them sees the other.
//!     The insert sees the new length in step 2, or the splitter sees the entry in its step 3.
//!     Between their writes and reads lie full fences.
//!  4. A search that finds nothing has looked into the key's buckets while they were its buckets.
//!     Or it gives up after `MAX_ATTEMPTS` changes: a cache may always miss.
//!  5. Nothing here waits: one thread at a time grows the table, and others skip the growth.
//!  6. A new bucket takes over the spill count of the bucket that is split. An insert that spills
//!     from that bucket is in the copied count, or withdraws: its step 2 finds the bucket in
//!     `splitting`, or a new length. Between their writes and reads lie full fences.

use super::slot::{Bucket, FoundSlot, PLACES, Reserved, Word, tag_of};
use crate::contract::CachePriority;
use crate::entry::{CacheEntry, Handle};
use crate::key::CacheKey;
use crate::ledger::Ledger;
use crate::outcome::{EvictedList, EvictionCallback};
use crossbeam_utils::CachePadded;
use esker_base::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, fence};
use esker_base::sync::epoch::{self, Guard};
use esker_base::sync::{Arc, Mutex};
use smallvec::SmallVec;
use std::ptr::{self, NonNull};

/// Binary logarithm of the number of buckets in the first segment. Each further segment doubles the
/// length.
const FIRST_BITS: u32 = if cfg!(loom) { 1 } else { 3 };
const FIRST: usize = 1 << FIRST_BITS;
/// More segments than memory can hold.
const SEGMENTS: usize = 40;
/// Above this share of all places in use, the table grows.
const MAX_LOAD: f64 = 0.6;
/// Attempts of a search: it starts anew if its key's buckets change meanwhile.
const MAX_ATTEMPTS: usize = 4;
/// The index of no bucket.
const NONE: usize = usize::MAX;
/// Buckets that an insert splits while the table grows.
const SPLITS_PER_INSERT: usize = 4;

/// The length of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ClockTableSize {
    /// Buckets at the start.
    pub(crate) min_length: usize,
    /// Buckets at most.
    pub(crate) max_length: usize,
    /// The charge of a bucket, in bytes.
    pub(crate) bucket_charge: usize,
}

/// See the head of the file.
pub(crate) struct ClockTable<V: Send + Sync + 'static> {
    segments: [AtomicPtr<Bucket<V>>; SEGMENTS],
    length: CachePadded<AtomicUsize>,
    max_length: usize,
    bucket_charge: usize,
    seed: u64,
    pub(super) ledger: Arc<Ledger>,
    /// The position of the second hand, which ages entries and evicts aged ones.
    pub(super) hand: CachePadded<AtomicUsize>,
    /// The position of the first hand, which evicts entries on probation.
    pub(super) probation_hand: CachePadded<AtomicUsize>,
    /// For each claim, the next of its eight steps of the probation hand. Several threads may share
    /// a claim. A multiple of eight means that the claim has no step left.
    pub(super) probation_claims: Box<[CachePadded<AtomicUsize>]>,
    /// Whether the last eviction found nothing to evict.
    pub(super) barren: AtomicBool,
    /// Bytes left in deferred free by the last attempt to advance the epoch, or fewer if an
    /// eviction has met fewer since.
    pub(super) deferred_left: CachePadded<AtomicUsize>,
    /// Inserts refused because too many bytes wait for guards.
    pub(super) deferred_refusals: AtomicUsize,
    /// Number of times that an insert found no place in its buckets.
    crowded: AtomicUsize,
    growing: Mutex<()>,
    /// The bucket that is being split; `NONE` if there is none.
    splitting: AtomicUsize,
    pub(super) on_evict: Option<EvictionCallback<V>>,
}

/// The result of an insert.
pub(crate) enum ClockInsertOutcome<V> {
    /// The entry is in the table.
    Added(Handle<V>),
    /// The table had an entry with this key: this one.
    Found(Handle<V>),
    /// The table had no place for the entry, a split changed its buckets, or another thread erased
    /// it at once. The entry lives on outside the table.
    Detached(Handle<V>),
}

/// The buckets of a hash, in the order in which they are filled.
type Homes = [usize; 3];

#[inline]
fn home(hash: u64, length: usize) -> usize {
    let mask = usize::MAX >> (length - 1).leading_zeros();
    let long = hash as usize & mask;
    if long < length { long } else { long & (mask >> 1) }
}

/// The part of the hash that chooses the first, second or third bucket: `choice` is 0, 1 or 2.
#[inline]
fn part(hash: u64, choice: usize) -> u64 {
    hash.rotate_right([0, 32, 16][choice])
}

#[inline]
fn homes(hash: u64, length: usize) -> Homes {
    std::array::from_fn(|choice| home(part(hash, choice), length))
}

/// The segment of a bucket, and its place there.
#[inline]
fn locate(index: usize) -> (usize, usize) {
    let segment = usize::BITS - (index >> FIRST_BITS).leading_zeros();
    (segment as usize, index - (((FIRST << segment) >> 1) & !(FIRST - 1)))
}

fn segment_len(segment: usize) -> usize {
    if segment == 0 { FIRST } else { FIRST << (segment - 1) }
}

impl<V: Send + Sync + 'static> ClockTable<V> {
    pub(crate) fn new(
        size: ClockTableSize,
        seed: u64,
        ledger: Arc<Ledger>,
        on_evict: Option<EvictionCallback<V>>,
    ) -> ClockTable<V> {
        let min_length = size.min_length.next_power_of_two().max(FIRST);
        let probation_claims = (0..ledger.share_count()).map(|_| CachePadded::default()).collect();
        let table = ClockTable {
            segments: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            length: CachePadded::new(AtomicUsize::new(min_length)),
            max_length: size.max_length.max(min_length),
            bucket_charge: size.bucket_charge,
            seed,
            ledger,
            hand: CachePadded::new(AtomicUsize::new(0)),
            probation_hand: CachePadded::new(AtomicUsize::new(0)),
            probation_claims,
            barren: AtomicBool::new(false),
            deferred_left: CachePadded::new(AtomicUsize::new(0)),
            deferred_refusals: AtomicUsize::new(0),
            crowded: AtomicUsize::new(0),
            growing: Mutex::new(()),
            splitting: AtomicUsize::new(NONE),
            on_evict,
        };
        (0..=locate(min_length - 1).0).for_each(|segment| table.add_segment(segment));
        table.ledger.charge(min_length * table.bucket_charge);
        table
    }

    fn add_segment(&self, segment: usize) {
        #[cfg(not(any(loom, shuttle)))]
        let buckets = {
            let zeroed = Box::<[Bucket<V>]>::new_zeroed_slice(segment_len(segment));
            // SAFETY: a bucket of zeros is an empty one: no tags, null places.
            unsafe { zeroed.assume_init() }
        };
        #[cfg(any(loom, shuttle))]
        let buckets: Box<[Bucket<V>]> = (0..segment_len(segment)).map(|_| Bucket::default()).collect();
        self.segments[segment].store(Box::leak(buckets).as_mut_ptr(), Ordering::Release);
    }

    #[inline]
    pub(crate) fn length(&self) -> usize {
        self.length.load(Ordering::Acquire)
    }

    /// Number of confirmed, living entries.
    pub(crate) fn occupancy(&self) -> usize {
        self.ledger.listed()
    }

    /// Number of times so far that an insert found no place in its buckets.
    pub(crate) fn crowded(&self) -> usize {
        self.crowded.load(Ordering::Relaxed)
    }

    pub(super) fn hash(&self, key: &CacheKey) -> u64 {
        key.hash(self.seed)
    }

    /// REQUIRES: `index` is below a length that this thread has read. Or `index` is the length, its
    /// segment is there, and the caller holds `growing`.
    #[inline]
    pub(super) fn bucket(&self, index: usize) -> &Bucket<V> {
        let (segment, offset) = locate(index);
        debug_assert!(offset < segment_len(segment));
        let buckets = self.segments[segment].load(Ordering::Acquire);
        // SAFETY: the segment was added before the length passed its first bucket, or REQUIRES says
        // that it is there. `offset` is below the segment's length.
        let bucket = unsafe { buckets.add(offset) };
        // SAFETY: the bucket lies in a live segment; segments stay until the table is dropped.
        unsafe { &*bucket }
    }

    /// The living entry with this key.
    #[inline]
    pub(crate) fn find<'g>(&'g self, key: &CacheKey, guard: &'g Guard) -> Option<FoundSlot<'g, V>> {
        let hash = self.hash(key);
        let mut length = self.length();
        for _ in 0..MAX_ATTEMPTS {
            let first = self.bucket(home(hash, length));
            if let Some(found) = first.find(tag_of(hash), key, guard) {
                return Some(found);
            }
            if first.has_spilled() {
                let others = &homes(hash, length)[1..];
                let found = others.iter().find_map(|&at| self.bucket(at).find(tag_of(hash), key, guard));
                if found.is_some() {
                    return found;
                }
            }
            let now = self.length();
            if now == length || homes(hash, now) == homes(hash, length) {
                return None;
            }
            length = now;
        }
        None
    }

    /// Whether a place has the ghost of this key.
    pub(crate) fn has_ghost(&self, key: &CacheKey) -> bool {
        let hash = self.hash(key);
        homes(hash, self.length()).iter().any(|&index| self.bucket(index).has_ghost(hash))
    }

    /// Inserts an entry that is in no table and has one pin and one listing. Adds the entries
    /// evicted for it to `evicted`.
    pub(crate) fn insert(&self, mine: Handle<V>, evicted: &mut EvictedList<V>) -> ClockInsertOutcome<V> {
        let guard = epoch::pin();
        let key = *Handle::key(&mine);
        let hash = self.hash(&key);
        let homes_then = homes(hash, self.length());
        if let Some(other) = self.find(&key, &guard).and_then(|found| found.entry.pin()) {
            // SAFETY: no place has ever named the entry.
            unsafe { CacheEntry::unlist(mine.address()) };
            return ClockInsertOutcome::Found(other);
        }
        let Some((reserved, is_spilled)) = self.reserve(hash, homes_then, evicted, &guard) else {
            mine.entry().erase();
            // SAFETY: no place has ever named the entry.
            unsafe { CacheEntry::unlist(mine.address()) };
            return ClockInsertOutcome::Detached(mine);
        };
        let entry = mine.entry();
        let clock = initial_clock(entry.about.priority, reserved.is_revived);
        let word = Word::naming(mine.address(), clock, is_spilled);
        let place = reserved.publish(word);
        fence(Ordering::SeqCst);
        // Read before the length: a split that has just ended has changed the length (invariant 6).
        let may_be_uncounted = is_spilled && self.splitting.load(Ordering::Acquire) == homes_then[0];
        let is_home = !may_be_uncounted && homes(hash, self.length()) == homes_then;
        let better = if is_home { self.contest(hash, homes_then, &mine, &guard) } else { None };
        // Counted before `confirm`: another thread may erase a confirmed entry and count down.
        let occupancy = self.ledger.list();
        if is_home && better.is_none() && entry.confirm() {
            self.grow(occupancy, evicted, &guard);
            return ClockInsertOutcome::Added(mine);
        }
        self.ledger.unlist(1);
        entry.erase();
        // The entry was never confirmed, so this insert undoes the count of spilled keys, whichever
        // thread clears the place.
        if is_spilled {
            self.bucket(homes_then[0]).sub_spilled();
        }
        self.clear(&FoundSlot { place, word, entry }, None, &guard);
        let other = better.or_else(|| self.find(&key, &guard).and_then(|found| found.entry.pin()));
        other.map_or(ClockInsertOutcome::Detached(mine), ClockInsertOutcome::Found)
    }

    /// Yields to another entry with the same key, or makes it yield. REQUIRES: a full fence since
    /// `mine` was published.
    fn contest(&self, hash: u64, homes: Homes, mine: &Handle<V>, guard: &Guard) -> Option<Handle<V>> {
        let me = mine.entry();
        // If a rival's fence lies before this one, the rival has already written tag, place and
        // spill count. So the first bucket's count shows whether a rival may be in the other two.
        let homes = if self.bucket(homes[0]).has_spilled() { &homes[..] } else { &homes[..1] };
        for &index in homes {
            for found in self.bucket(index).candidates(tag_of(hash), guard) {
                let other = found.entry;
                if other.about.key != me.about.key || ptr::eq(other, me) || other.is_dead() {
                    continue;
                }
                let yields = other.rank() > me.rank() && other.erase_tentative();
                if !yields && let Some(other) = other.pin() {
                    return Some(other);
                }
            }
        }
        None
    }

    /// A place for this hash, and whether it is outside the first bucket.
    fn reserve(
        &self,
        hash: u64,
        homes: Homes,
        evicted: &mut EvictedList<V>,
        guard: &Guard,
    ) -> Option<(Reserved<'_, V>, bool)> {
        let [first, others @ ..] = homes.map(|index| self.bucket(index));
        for _ in 0..2 {
            if let Some(reserved) = first.reserve(hash) {
                return Some((reserved, false));
            }
            if first.add_spilled() {
                if let Some(reserved) = others.iter().find_map(|bucket| bucket.reserve(hash)) {
                    return Some((reserved, true));
                }
                first.sub_spilled();
            }
            // All three buckets are full, or the spill count is. This is rare: evict the least used
            // entry of the first bucket.
            self.crowded.fetch_add(1, Ordering::Relaxed);
            let mut all: SmallVec<[FoundSlot<'_, V>; PLACES]> = first.entries(guard).collect();
            all.sort_by_key(|found| found.word.clock());
            all.iter().find(|found| self.evict_found(found, evicted, guard).is_some())?;
        }
        None
    }

    /// Empties a place and releases its listing after the grace period. True if this thread emptied
    /// it.
    pub(super) fn clear(&self, found: &FoundSlot<'_, V>, ghost_of: Option<u64>, guard: &Guard) -> bool {
        let cleared = found.clear(ghost_of);
        if cleared {
            unlist_later(NonNull::from(found.entry), guard);
        }
        cleared
    }

    /// Does the remaining work of the thread that killed a confirmed entry.
    pub(super) fn finish_kill(&self, found: &FoundSlot<'_, V>, ghost_of: Option<u64>, guard: &Guard) {
        self.ledger.unlist(1);
        self.unplace(found, ghost_of, guard);
    }

    /// Like `finish_kill`, but the caller takes the entry out of the count.
    pub(super) fn unplace(&self, found: &FoundSlot<'_, V>, ghost_of: Option<u64>, guard: &Guard) {
        if found.word.is_spilled() {
            self.bucket(home(self.hash(&found.entry.about.key), self.length())).sub_spilled();
        }
        self.clear(found, ghost_of, guard);
    }

    /// Removes the entry with this key. True if there was one.
    pub(crate) fn erase(&self, key: &CacheKey) -> bool {
        let guard = epoch::pin();
        self.find(key, &guard).is_some_and(|found| self.kill(&found, &guard))
    }

    /// Kills the entry, pinned or not, and empties its place. False if it was dead.
    fn kill(&self, found: &FoundSlot<'_, V>, guard: &Guard) -> bool {
        match found.entry.erase_under(guard) {
            Some(true) => self.finish_kill(found, None, guard),
            // The entry was not confirmed yet: its own insert undoes the rest.
            Some(false) => _ = self.clear(found, None, guard),
            None => return false,
        }
        true
    }

    /// Splits up to `SPLITS_PER_INSERT` buckets, if the table is too full or its length is not a
    /// power of two.
    fn grow(&self, occupancy: usize, evicted: &mut EvictedList<V>, guard: &Guard) {
        let length = self.length();
        let is_between = !length.is_power_of_two();
        let is_full = occupancy as f64 > length as f64 * PLACES as f64 * MAX_LOAD;
        if !(is_between || is_full) || length >= self.max_length {
            return;
        }
        let Some(_growing) = self.growing.try_lock() else { return };
        for _ in 0..SPLITS_PER_INSERT {
            let length = self.length();
            let is_done = length.is_power_of_two() && is_between;
            if is_done || length >= self.max_length {
                return;
            }
            self.split(length, evicted, guard);
        }
    }

    /// REQUIRES: the caller holds `growing`, and `length` is the table's length.
    fn split(&self, length: usize, evicted: &mut EvictedList<V>, guard: &Guard) {
        let (segment, offset) = locate(length);
        if offset == 0 {
            self.add_segment(segment);
        }
        let source_index = length - (1 << length.ilog2());
        let (source, fresh) = (self.bucket(source_index), self.bucket(length));
        self.splitting.store(source_index, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        fresh.set_spilled_as(source);
        let moves = |found: &FoundSlot<'_, V>| {
            let hash = self.hash(&found.entry.about.key);
            let mut choices = if found.word.is_spilled() { 1..3 } else { 0..1 };
            // The choice of the hash that leads to this bucket.
            let here = choices.find(|&choice| home(part(hash, choice), length) == source_index);
            here.is_some_and(|choice| home(part(hash, choice), length + 1) == length)
        };
        for found in source.entries(guard).filter(moves) {
            self.copy_into(fresh, &found, evicted, guard);
        }
        self.length.store(length + 1, Ordering::Release);
        self.splitting.store(NONE, Ordering::Release);
        fence(Ordering::SeqCst);
        for found in source.entries(guard).filter(moves) {
            if !fresh.entries(guard).any(|copy| ptr::eq(copy.entry, found.entry)) {
                self.copy_into(fresh, &found, evicted, guard);
            }
            self.clear(&found, None, guard);
        }
        for found in fresh.entries(guard).filter(|found| found.entry.is_dead()) {
            self.clear(&found, None, guard);
        }
        self.ledger.charge(self.bucket_charge);
    }

    fn copy_into(
        &self,
        bucket: &Bucket<V>,
        found: &FoundSlot<'_, V>,
        evicted: &mut EvictedList<V>,
        guard: &Guard,
    ) {
        let hash = self.hash(&found.entry.about.key);
        match bucket.reserve(hash) {
            Some(reserved) => {
                found.entry.list();
                reserved.publish(found.word);
            }
            // Other inserts filled the new bucket. The entry is about to lose its place, so it dies
            // also if it is pinned: an entry without a place would count, but never be found.
            None => {
                if self.evict_found(found, evicted, guard).is_none() {
                    self.kill(found, guard);
                }
            }
        }
    }
}

/// Number of passes of the hand that an unused entry survives.
fn initial_clock(priority: CachePriority, is_revived: bool) -> usize {
    match priority {
        CachePriority::High => 3,
        CachePriority::Low => 2 * usize::from(is_revived),
        CachePriority::Bottom => 0,
    }
}

/// Releases a listing once all guards that may have read the place are dropped.
fn unlist_later<V: Send + Sync + 'static>(entry: NonNull<CacheEntry<V>>, guard: &Guard) {
    struct Sent<V>(NonNull<CacheEntry<V>>);
    let sent = Sent(entry);
    let release = move || {
        let Sent(entry) = sent;
        // SAFETY: the place stopped naming the entry before this call was deferred, so all guards
        // that were open then are dropped.
        unsafe { CacheEntry::unlist(entry) };
    };
    // SAFETY: the closure owns a listing, and only the closure releases it. The entry's value is
    // `Send + Sync + 'static` and may be dropped on any thread at any time.
    unsafe { guard.defer(release) };
}

impl<V: Send + Sync + 'static> Drop for ClockTable<V> {
    fn drop(&mut self) {
        let guard = epoch::pin();
        for index in 0..self.length() {
            // The drop of the table frees its buckets, but an entry lives on while a guard may
            // reach it.
            for found in self.bucket(index).entries(&guard) {
                found.entry.erase_under(&guard);
                self.clear(&found, None, &guard);
            }
        }
        for (segment, buckets) in self.segments.iter().enumerate() {
            let buckets = buckets.load(Ordering::Acquire);
            if !buckets.is_null() {
                let all = ptr::slice_from_raw_parts_mut(buckets, segment_len(segment));
                // SAFETY: `add_segment` made it from a Box of this many buckets, and `&mut self`
                // shows that no other thread has the table.
                drop(unsafe { Box::from_raw(all) });
            }
        }
        drop(guard);
        epoch::collect();
    }
}

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
