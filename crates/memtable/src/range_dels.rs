//! The range tombstones of a memtable.
//!
//! In: tombstones in any order of sequence, from any thread. Out: for a key and a snapshot, the
//! newest tombstone that covers it; and all tombstones, fragmented, in O(log n) sets.
//!
//! ```text
//! newest -> t9 -> t8 -> t7 -> ... -> t0                every tombstone, as a list
//! fragmented part: runs [t0..t4) [t4..t6) [t6..t7)     the older ones, searched, not walked
//! ```
//!
//! A writer puts its tombstone in front of the list. A point lookup walks the front of the list,
//! which is not fragmented, then searches the runs. If that front is long, the lookup first makes
//! it a run, merged with the smaller runs. If another thread is making one, it walks instead. An
//! iterator needs all tombstones in runs, so it makes a run of any part. So each tombstone is
//! fragmented O(log n) times, and only if it is read. There are O(log n) runs: a lookup or an
//! iterator after each of n tombstones costs O(log² n). After as many reads as there are tombstones
//! all runs become one. A memtable without tombstones costs its readers one test.
//!
//! Invariants
//!  1. The list only grows, at its front, by complete tombstones; `index` counts from 0 at its end.
//!  2. The runs of a fragmented part are neighbouring stretches of the list from its end on;
//!     `count` is the number of tombstones in them.
//!  3. A reader takes the list before the fragmented part: together they hold all that was added
//!     before it began.
//!  4. No lookup waits: only `fragments`, which flush and iterators call, may wait for another
//!     thread that fragments.

use crate::arena::{Arena, ShardStats};
use crate::memtable::MemoryBudget;
use crate::record::{self, Record};
use esker_base::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use esker_base::sync::epoch::{self, Swap};
use esker_base::sync::{Arc, Mutex};
use esker_base::{Result, SequenceNumber, ValueType};
use esker_format::key::InternalKeyComparator;
use esker_format::range_del::{FragmentedRangeTombstones, RangeTombstone, RangeTombstoneRef};
use std::alloc::Layout;
use std::ptr;

/// A reader that would walk over more tombstones than this fragments them. Models and the simulated
/// machine have few, so there the number is small.
const MAX_WALK: usize = if cfg!(any(loom, shuttle)) { 1 } else { 16 };

/// A tombstone in the list.
struct Entry {
    older: *const Entry,
    index: usize,
    start: *const [u8],
    end: *const [u8],
    seq: SequenceNumber,
}

/// Fragments of the older tombstones.
#[derive(Debug, Default)]
struct FragmentedPart {
    /// Number of tombstones, from the end of the list, that the runs hold.
    count: usize,
    /// The oldest run first. Each is at least twice as large as the next.
    runs: Vec<Run>,
    /// About how many searches this part and its predecessors had since the last one with one run.
    searches: AtomicUsize,
}

#[derive(Clone, Debug)]
struct Run {
    /// Number of tombstones.
    len: usize,
    fragments: Arc<FragmentedRangeTombstones>,
}

/// All range tombstones of one memtable.
#[derive(Debug)]
pub(crate) struct RangeDels {
    newest: AtomicPtr<Entry>,
    fragmented: Swap<FragmentedPart>,
    fragmented_bytes: AtomicUsize,
    /// All entries by index. Held by a thread that adds an entry or fragments the list.
    all: Mutex<Vec<EntryPtr>>,
    /// The memory of entries and their keys.
    arena: Arena,
}

#[derive(Debug)]
struct EntryPtr(*const Entry);
// SAFETY: leads to an entry, which is immutable and stays as long as the arena.
unsafe impl Send for EntryPtr {}

impl RangeDels {
    /// An empty set. Blocks of memory grow up to `block_bytes`.
    pub(crate) fn new(block_bytes: usize, budget: Option<Arc<dyn MemoryBudget>>) -> RangeDels {
        RangeDels {
            newest: AtomicPtr::new(ptr::null_mut()),
            fragmented: Swap::new(Arc::default()),
            fragmented_bytes: AtomicUsize::new(0),
            all: Mutex::new(Vec::new()),
            arena: Arena::new(block_bytes, false).counted_by(budget),
        }
    }

    /// Whether no tombstone was added.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.newest().is_none()
    }

    /// Number of tombstones that were added.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.newest().map_or(0, |entry| entry.index + 1)
    }

    /// Bytes reported to the budget.
    pub(crate) fn budgeted(&self) -> usize {
        self.arena.budgeted()
    }

    /// Bytes of memory that the tombstones and their fragments take.
    pub(crate) fn memory_usage(&self) -> usize {
        self.arena.allocated() + self.arena.overhead() + self.fragmented_bytes.load(Ordering::Relaxed)
    }

    /// The part of them that tombstones and fragments use, without the rest of the newest block.
    #[inline]
    pub(crate) fn used_bytes(&self) -> usize {
        self.arena.carved() + self.fragmented_bytes.load(Ordering::Relaxed)
    }

    #[inline]
    fn newest(&self) -> Option<&Entry> {
        // SAFETY: entries are complete before their address is stored and stay as long as the
        // arena.
        unsafe { self.newest.load(Ordering::Acquire).as_ref() }
    }

    /// Adds `[start, end)` at `seq`. Readers that start later see it.
    /// # Errors
    /// `Aborted` with `MemoryLimit`; nothing was added.
    pub(crate) fn add(&self, start: &[u8], end: &[u8], seq: SequenceNumber) -> Result<()> {
        let len = record::encoded_len(start.len(), end.len());
        let place = self.arena.allocate_record(len, &ShardStats::NONE)?;
        // SAFETY: the arena gave these `len` bytes to this call alone.
        let record = unsafe { Record::write(place, len, seq, ValueType::RangeDeletion, start, end) };
        let place = self.arena.allocate_node(Layout::new::<Entry>())?.cast::<Entry>();
        let mut all = self.all.lock();
        let older = self.newest.load(Ordering::Relaxed).cast_const();
        let entry =
            Entry { older, index: all.len(), start: record.user_key(), end: record.key_value().1, seq };
        // SAFETY: the arena gave memory of this layout to this call alone.
        unsafe { place.write(entry) };
        all.push(EntryPtr(place.as_ptr()));
        self.newest.store(place.as_ptr(), Ordering::Release);
        Ok(())
    }

    /// The newest tombstone that covers `user_key` and is not newer than `snapshot`; zero if none.
    #[inline]
    pub(crate) fn max_covering_seq(
        &self,
        user_key: &[u8],
        icmp: &InternalKeyComparator,
        snapshot: SequenceNumber,
    ) -> SequenceNumber {
        match self.newest() {
            None => SequenceNumber::ZERO,
            Some(newest) => self.search(newest, user_key, icmp, snapshot),
        }
    }

    fn search(
        &self,
        newest: &Entry,
        user_key: &[u8],
        icmp: &InternalKeyComparator,
        snapshot: SequenceNumber,
    ) -> SequenceNumber {
        let guard = epoch::pin();
        let mut fragmented = self.fragmented.load(&guard);
        if newest.index + 1 > fragmented.count + MAX_WALK || fragmented.is_worth_merging() {
            self.improve(icmp);
            fragmented = self.fragmented.load(&guard);
        }
        let mut best = SequenceNumber::ZERO;
        let mut next = Some(newest);
        while let Some(entry) = next
            && entry.index >= fragmented.count
        {
            if entry.seq <= snapshot && entry.seq > best && entry.tombstone().covers(user_key, icmp) {
                best = entry.seq;
            }
            next = entry.older();
        }
        for run in fragmented.runs.iter().rev() {
            if run.fragments.max_seq() > best {
                best = best.max(run.fragments.max_covering_seq(user_key, icmp, snapshot));
            }
        }
        best
    }

    /// Fragments more of the list, unless another thread is doing so.
    #[cold]
    fn improve(&self, icmp: &InternalKeyComparator) {
        let Some(all) = self.all.try_lock() else { return };
        let guard = epoch::pin();
        let fragmented = self.fragmented.load(&guard);
        let whole = fragmented.is_worth_merging();
        if whole || all.len() > fragmented.count + MAX_WALK {
            self.publish(fragmented.extended(&all, whole, icmp));
        }
    }

    /// All tombstones, fragmented, in O(log n) sets. Each tombstone added since the last call costs
    /// O(log n) on average.
    pub(crate) fn fragments(&self, icmp: &InternalKeyComparator) -> Vec<Arc<FragmentedRangeTombstones>> {
        let count = self.len();
        let guard = epoch::pin();
        let fragmented = self.fragmented.load(&guard);
        let whole = fragmented.is_worth_merging();
        if fragmented.count >= count && !whole {
            return fragmented.fragments();
        }
        let all = self.all.lock();
        let fragmented = self.fragmented.load(&guard);
        if fragmented.count == all.len() && fragmented.runs.len() < 2 {
            return fragmented.fragments();
        }
        let fragmented = fragmented.extended(&all, whole, icmp);
        let fragments = fragmented.fragments();
        self.publish(fragmented);
        fragments
    }

    /// All tombstones, unfragmented.
    pub(crate) fn stored(&self) -> Vec<RangeTombstone> {
        let mut all = Vec::with_capacity(self.len());
        let mut next = self.newest();
        while let Some(entry) = next {
            // SAFETY: keys lie in the arena, as the entry does, and never change.
            let start = unsafe { &*entry.start };
            // SAFETY: `entry.end` points to bytes of the arena, which the tombstones do not
            // outlive.
            let end = unsafe { &*entry.end };
            all.push(RangeTombstone::new(start, end, entry.seq));
            // SAFETY: entries are immutable and stay as long as the arena; null ends the list.
            next = unsafe { entry.older.as_ref() };
        }
        all
    }

    fn publish(&self, fragmented: FragmentedPart) {
        let bytes = fragmented.runs.iter().map(|run| run.fragments.approximate_memory_usage()).sum();
        self.fragmented_bytes.store(bytes, Ordering::Relaxed);
        self.fragmented.store(Arc::new(fragmented));
    }
}

impl FragmentedPart {
    fn fragments(&self) -> Vec<Arc<FragmentedRangeTombstones>> {
        self.runs.iter().map(|run| Arc::clone(&run.fragments)).collect()
    }

    /// Whether there are several runs, and enough searches have passed to pay for a merge of
    /// them. Counts the call.
    fn is_worth_merging(&self) -> bool {
        if self.runs.len() < 2 {
            return false;
        }
        // The count need not be exact: two threads may count as one.
        let searches = self.searches.load(Ordering::Relaxed) + 1;
        self.searches.store(searches, Ordering::Relaxed);
        searches > self.count
    }

    /// The fragmented part for all entries. The entries that this one lacks become one run,
    /// together with each run that is less than twice as large; with `whole`, together with all
    /// runs.
    fn extended(&self, all: &[EntryPtr], whole: bool, icmp: &InternalKeyComparator) -> FragmentedPart {
        let mut runs = self.runs.clone();
        let mut from = self.count;
        while let Some(run) = runs.pop_if(|run| whole || run.len < 2 * (all.len() - from)) {
            from -= run.len;
        }
        let tombstones = all[from..].iter().map(|entry| {
            // SAFETY: entries stay as long as the arena, which its owner borrows.
            unsafe { &*entry.0 }.tombstone()
        });
        if from < all.len() {
            let fragments = Arc::new(FragmentedRangeTombstones::from_refs(tombstones, icmp));
            runs.push(Run { len: all.len() - from, fragments });
        }
        let searches = if runs.len() < 2 { 0 } else { self.searches.load(Ordering::Relaxed) };
        FragmentedPart { count: all.len(), runs, searches: AtomicUsize::new(searches) }
    }
}

impl Entry {
    #[inline]
    fn older(&self) -> Option<&Entry> {
        // SAFETY: an entry of the same list, or null; see `RangeDels::newest`.
        unsafe { self.older.as_ref() }
    }

    #[inline]
    fn tombstone(&self) -> RangeTombstoneRef<'_> {
        // SAFETY: bytes of a record in the same arena as this entry.
        let start = unsafe { &*self.start };
        // SAFETY: `self.end` points to bytes of the arena, which the entry does not outlive.
        let end = unsafe { &*self.end };
        RangeTombstoneRef { start, end, seq: self.seq }
    }
}

#[cfg(test)]
mod tests;
