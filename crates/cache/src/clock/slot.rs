//! A bucket of the clock table: one cache line with seven places.
//!
//! ```text
//! tags  spilled 8 | tag 8 x 7        hints: a byte of the hash of each place's entry, or last one
//! words [ place ] x 7
//!
//! place   0                                     empty
//!         1000                                  reserved: an inserter is about to publish
//!         hash 60 | 1000                        ghost: the entry here was evicted
//!         spilled | address 59 | 0 hit clock 2  an entry
//! ```
//!
//! | from | to | function | by |
//! |---|---|---|---|
//! | empty, ghost | reserved | `reserve` | the inserter whose update succeeds; it alone writes the place's tag |
//! | reserved | entry | `publish` | the same inserter |
//! | entry | entry, clock + 1 up to 3, and hit | `touch` | a reader; may be skipped |
//! | entry, clock > 0 | entry, clock - 1 | `age` | the clock hand; may be skipped |
//! | entry | entry, clock 0 and no hit | `forget_uses` | a reader; may be skipped |
//! | entry | empty, ghost | `clear` | the thread whose update succeeds; it releases the entry's listing after a grace period |
//!
//! Invariants
//!  1. A place that names an entry holds one of its listings.
//!  2. A tag is written before its place is published and not again until the place has been
//!     emptied and reserved once more. So a thread that reads a place and then the tags sees that
//!     entry's tag or a later entry's.
//!  3. `spilled` is at least the number of entries whose first choice is this bucket and which are
//!     in another.
//!  4. A bucket is written only by inserts, evictions and erasures, and by reads of entries whose
//!     clock is not full or that had no hit yet.

use crate::entry::CacheEntry;
use crate::key::CacheKey;
use esker_base::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use esker_base::sync::epoch::Guard;
use std::iter;
use std::ptr::{self, NonNull};

/// Places in a bucket.
pub(crate) const PLACES: usize = 7;

const CLOCK: usize = 3;
const HIT: usize = 4;
const NO_ENTRY: usize = 8;
const LOW_BITS: usize = 15;
/// The entry is not in its first choice. Addresses leave the highest bit alone.
const SPILLED: usize = 1 << (usize::BITS - 1);

const SPILLED_SHIFT: u32 = 56;
const SPILLED_ONE: u64 = 1 << SPILLED_SHIFT;
/// The largest spill count. Beyond it an insert that would spill is refused.
const MAX_SPILLED: u64 = 250;

/// The content of a place.
pub(crate) struct Word<V>(*mut CacheEntry<V>);

impl<V> Clone for Word<V> {
    fn clone(&self) -> Word<V> {
        *self
    }
}

impl<V> Copy for Word<V> {}

impl<V> Word<V> {
    pub(crate) fn naming(entry: NonNull<CacheEntry<V>>, clock: usize, is_spilled: bool) -> Word<V> {
        debug_assert!(clock <= CLOCK);
        Word(entry.as_ptr().map_addr(|a| a | clock | if is_spilled { SPILLED } else { 0 }))
    }

    fn ghost(hash: u64) -> Word<V> {
        // The ghost of a hash that starts with sixty zeros must not look like a reserved place.
        let print = (hash as usize & !LOW_BITS).max(LOW_BITS + 1);
        Word(ptr::without_provenance_mut(print | NO_ENTRY))
    }

    fn reserved() -> Word<V> {
        Word(ptr::without_provenance_mut(NO_ENTRY))
    }

    fn is_free(self) -> bool {
        self.0.is_null() || (self.0.addr() & NO_ENTRY != 0 && self.0.addr() != NO_ENTRY)
    }

    pub(crate) fn is_ghost_of(self, hash: u64) -> bool {
        self.0 == Word::<V>::ghost(hash).0
    }

    #[inline]
    pub(crate) fn entry(self) -> Option<NonNull<CacheEntry<V>>> {
        if self.0.addr() & NO_ENTRY != 0 {
            None
        } else {
            NonNull::new(self.0.map_addr(|a| a & !(LOW_BITS | SPILLED)))
        }
    }

    #[inline]
    pub(crate) fn clock(self) -> usize {
        self.0.addr() & CLOCK
    }

    pub(crate) fn is_hit(self) -> bool {
        self.0.addr() & HIT != 0
    }

    /// New, or grown old without having been used.
    pub(crate) fn is_on_probation(self) -> bool {
        self.0.addr() & (CLOCK | HIT) == 0
    }

    pub(crate) fn is_spilled(self) -> bool {
        self.0.addr() & SPILLED != 0
    }
}

/// One place of a bucket, found with an entry in it.
pub(crate) struct FoundSlot<'a, V> {
    pub(crate) place: &'a AtomicPtr<CacheEntry<V>>,
    pub(crate) word: Word<V>,
    pub(crate) entry: &'a CacheEntry<V>,
}

impl<V> FoundSlot<'_, V> {
    /// Counts a use. Writes nothing if the clock is full and a use is noted already.
    #[inline]
    pub(crate) fn touch(&self) {
        let word = self.word.0;
        if word.addr() & (CLOCK | HIT) != CLOCK | HIT {
            let step = usize::from(word.addr() & CLOCK != CLOCK);
            let after = word.map_addr(|a| (a + step) | HIT);
            // On failure another thread has just used the entry or removed it. Relaxed, because
            // this word publishes nothing new: the store that published the entry still does (a
            // release sequence).
            _ = self.place.compare_exchange(word, after, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Lowers the clock by one step. Does nothing if another thread has just used or removed the
    /// entry.
    pub(crate) fn age(&self) {
        let word = self.word.0;
        debug_assert!(self.word.clock() > 0);
        _ = self.place.compare_exchange(word, word.map_addr(|a| a - 1), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Puts the entry on probation. Does nothing if another thread has just used or removed the
    /// entry.
    pub(crate) fn forget_uses(&self) {
        let word = self.word.0;
        if !self.word.is_on_probation() {
            let after = word.map_addr(|a| a & !(CLOCK | HIT));
            // Relaxed, as in `touch`.
            _ = self.place.compare_exchange(word, after, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Removes the entry from the place, if it is still there; leaves a ghost if `ghost_of` gives
    /// its hash. The caller owns the listing then.
    pub(crate) fn clear(&self, ghost_of: Option<u64>) -> bool {
        let after = ghost_of.map_or(ptr::null_mut(), |hash| Word::ghost(hash).0);
        let mut word = self.word;
        loop {
            // Acquire and release: every use of the entry here comes before the place's next use.
            match self.place.compare_exchange(word.0, after, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) if Word(now).entry() != self.word.entry() => return false,
                Err(now) => word = Word(now),
            }
        }
    }
}

/// A place that belongs to one inserter until it is published.
pub(crate) struct Reserved<'a, V> {
    place: &'a AtomicPtr<CacheEntry<V>>,
    /// The place was the ghost of the same hash.
    pub(crate) is_revived: bool,
}

impl<'a, V> Reserved<'a, V> {
    /// Makes the place name an entry, which has a listing for it.
    pub(crate) fn publish(self, word: Word<V>) -> &'a AtomicPtr<CacheEntry<V>> {
        self.place.store(word.0, Ordering::Release);
        self.place
    }
}

/// See the head of the file.
#[repr(C, align(64))]
pub(crate) struct Bucket<V> {
    tags: AtomicU64,
    places: [AtomicPtr<CacheEntry<V>>; PLACES],
}

impl<V> Default for Bucket<V> {
    fn default() -> Bucket<V> {
        Bucket { tags: AtomicU64::new(0), places: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())) }
    }
}

/// The byte of a hash that goes into the tags.
#[inline]
pub(crate) fn tag_of(hash: u64) -> u8 {
    (hash >> 56) as u8
}

/// The highest bit of each byte of `tags` that equals `tag`. Another byte's bit may be set too,
/// seldom; the spill count's never is.
#[inline]
fn matches(tags: u64, tag: u8) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x0080_8080_8080_8080;
    let zero_where_equal = tags ^ (ONES * u64::from(tag));
    zero_where_equal.wrapping_sub(ONES) & !zero_where_equal & HIGHS
}

impl<V> Bucket<V> {
    /// The living entry with this key.
    #[inline]
    pub(crate) fn find<'g>(&'g self, tag: u8, key: &CacheKey, guard: &'g Guard) -> Option<FoundSlot<'g, V>> {
        // Not by `candidates`, which would cost each lookup eight instructions more.
        let mut candidates = matches(self.tags.load(Ordering::Acquire), tag);
        while candidates != 0 {
            let place = &self.places[(candidates.trailing_zeros() / 8) as usize];
            if let Some(found) = Bucket::look(place, guard)
                && found.entry.about.key == *key
                && !found.entry.is_dead()
            {
                return Some(found);
            }
            candidates &= candidates - 1;
        }
        None
    }

    /// All entries with this tag, dead ones too, and seldom one with another tag.
    pub(crate) fn candidates<'g>(
        &'g self,
        tag: u8,
        guard: &'g Guard,
    ) -> impl Iterator<Item = FoundSlot<'g, V>> + 'g {
        let mut left = matches(self.tags.load(Ordering::Acquire), tag);
        iter::from_fn(move || {
            while left != 0 {
                let place = &self.places[(left.trailing_zeros() / 8) as usize];
                left &= left - 1;
                if let Some(found) = Bucket::look(place, guard) {
                    return Some(found);
                }
            }
            None
        })
    }

    #[inline]
    fn look<'g>(place: &'g AtomicPtr<CacheEntry<V>>, guard: &'g Guard) -> Option<FoundSlot<'g, V>> {
        let word = Word(place.load(Ordering::Acquire));
        // SAFETY: the place names the entry now, within the guard.
        let entry = unsafe { CacheEntry::under(word.entry()?, guard) };
        Some(FoundSlot { place, word, entry })
    }

    /// Whether a place has the ghost of this hash.
    pub(crate) fn has_ghost(&self, hash: u64) -> bool {
        self.places.iter().any(|place| Word(place.load(Ordering::Relaxed)).is_ghost_of(hash))
    }

    /// All entries in it, dead ones too.
    pub(crate) fn entries<'g>(&'g self, guard: &'g Guard) -> impl Iterator<Item = FoundSlot<'g, V>> {
        self.places.iter().filter_map(move |place| Bucket::look(place, guard))
    }

    /// Whether entries whose first choice is this bucket are in others.
    #[inline]
    pub(crate) fn has_spilled(&self) -> bool {
        self.tags.load(Ordering::Acquire) >= SPILLED_ONE
    }

    /// Counts an entry that goes to its second or third choice. False if the count is full.
    pub(crate) fn add_spilled(&self) -> bool {
        if self.tags.load(Ordering::Relaxed) >> SPILLED_SHIFT >= MAX_SPILLED {
            return false;
        }
        self.tags.fetch_add(SPILLED_ONE, Ordering::AcqRel);
        true
    }

    pub(crate) fn sub_spilled(&self) {
        let before = self.tags.fetch_sub(SPILLED_ONE, Ordering::AcqRel);
        debug_assert!(before >= SPILLED_ONE, "more entries returned than spilled");
    }

    /// A free place, with the tag set: the ghost of the same hash, or an empty one, or any other
    /// ghost.
    pub(crate) fn reserve(&self, hash: u64) -> Option<Reserved<'_, V>> {
        let ghost = |word: Word<V>| word.is_ghost_of(hash);
        let empty = |word: Word<V>| word.0.is_null();
        let free = |word: Word<V>| word.is_free();
        self.reserve_if(hash, ghost)
            .or_else(|| self.reserve_if(hash, empty))
            .or_else(|| self.reserve_if(hash, free))
    }

    fn reserve_if(&self, hash: u64, fits: impl Fn(Word<V>) -> bool) -> Option<Reserved<'_, V>> {
        for (i, place) in self.places.iter().enumerate() {
            let word = Word(place.load(Ordering::Relaxed));
            if !fits(word) {
                continue;
            }
            let reserved = Word::reserved();
            if place.compare_exchange(word.0, reserved.0, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                let shift = 8 * i as u32;
                let before = (self.tags.load(Ordering::Relaxed) >> shift) as u8;
                self.tags.fetch_xor(u64::from(before ^ tag_of(hash)) << shift, Ordering::AcqRel);
                return Some(Reserved { place, is_revived: word.is_ghost_of(hash) });
            }
        }
        None
    }

    /// Copies the spill count of `other`: a split leaves entries in their second choices.
    pub(crate) fn set_spilled_as(&self, other: &Bucket<V>) {
        let spilled = other.tags.load(Ordering::Acquire) >> SPILLED_SHIFT << SPILLED_SHIFT;
        let mine = self.tags.load(Ordering::Relaxed) & (SPILLED_ONE - 1);
        // No other thread knows this bucket yet.
        self.tags.store(mine | spilled, Ordering::Release);
    }
}

/// A bucket is a line of the processor's cache.
const _: () = assert!(cfg!(any(loom, shuttle)) || size_of::<Bucket<u8>>() == 64);
