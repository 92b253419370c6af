//! Who goes: a clock whose hand is moved by whoever needs room.
//!
//! In: bytes that are wanted. Out: bytes that were taken back; entries that nobody holds and nobody has used of late.
//!
//! The hand goes over buckets; each step reads one line. An entry whose clock is above zero loses one; at zero it goes,
//! if nobody holds it, and leaves a ghost of its hash in its place until that is needed. An entry whose ghost is still
//! there when it comes back starts one higher: a scan, whose blocks never come back, does not push out what does.
//!
//! Invariants
//!  1. Threads share the hand by adding to it, so none waits for another and each bucket is looked at by one.
//!  2. Entries under guards may go: their memory waits for the guards. Entries with handles stay.
//!  3. Each call ends: after `MAX_TURNS` of the hand, or when it has seen so many pinned entries for each it took that
//!     going on would be waste (`effort_cap`), unless the limit is strict.

use super::slot::Found;
use super::table::ClockTable;
use crate::entry::Handle;
use esker_base::sync::atomic::Ordering;
use esker_base::sync::epoch::{self, Guard};
use smallvec::SmallVec;

/// Enough for every clock to come down to zero, and once more.
const MAX_TURNS: usize = 4;
/// Memory that waits for guards is pushed when it exceeds this share of the capacity …
const LIMBO_SHARE: usize = 64;
/// … or this many bytes, whichever is more.
const MIN_LIMBO_BYTES: usize = 64 << 10;

/// What is told about an entry that the clock gives up.
#[derive(Debug)]
pub struct Evicted<V> {
    /// The last handle: who keeps it keeps the value, and its charge.
    pub value: Handle<V>,
    /// Whether it was ever looked up.
    pub was_hit: bool,
}

/// Told about each entry that is evicted, by the thread that evicts, under no lock.
pub type EvictionCallback<V> = Box<dyn Fn(Evicted<V>) + Send + Sync>;

/// What was evicted and is to be told, when no guard is open any more.
pub(crate) type Departed<V> = SmallVec<[Evicted<V>; 2]>;

impl<V: Send + Sync + 'static> ClockTable<V> {
    /// Evicts until `wanted` bytes are free, or it is not worth the effort: more than `effort_cap` pinned entries seen
    /// for each that was taken. Returns the bytes.
    pub(crate) fn evict(&self, wanted: usize, effort_cap: usize) -> usize {
        let mut departed = Departed::new();
        let (mut freed, mut taken, mut pinned) = (0, 0, 0_usize);
        let guard = epoch::pin();
        for step in 0.. {
            let length = self.length();
            if freed >= wanted || step >= length * MAX_TURNS || pinned >= effort_cap.saturating_mul(taken + 1)
            {
                break;
            }
            let index = self.hand.0.fetch_add(1, Ordering::Relaxed) % length;
            for found in self.bucket(index).entries(&guard) {
                if found.word.clock() > 0 {
                    found.age();
                } else if found.entry.is_pinned() {
                    pinned += 1;
                } else if let Some(bytes) = self.evict_found(&found, &mut departed, &guard) {
                    freed += bytes;
                    taken += 1;
                    if freed >= wanted {
                        break;
                    }
                }
            }
        }
        drop(guard);
        self.tell(departed);
        self.push_limbo();
        freed
    }

    /// Evicts an entry if nobody holds it; cleans up after a dead one.
    pub(super) fn evict_found(
        &self,
        found: &Found<'_, V>,
        departed: &mut Departed<V>,
        guard: &Guard,
    ) -> Option<usize> {
        let entry = found.entry;
        if entry.is_dead() {
            self.clear(found, None, guard);
            return None;
        }
        let ghost = Some(self.hash(&entry.about.key));
        if self.on_evict.is_some() {
            let value = entry.kill_for_callback()?;
            departed.push(Evicted { value, was_hit: found.word.is_hit() });
        } else if !entry.kill_unpinned() {
            return None;
        }
        self.bury(found, ghost, guard);
        Some(entry.about.charge)
    }

    /// Tells about what was evicted. REQUIRES: no guard is open here.
    pub(crate) fn tell(&self, departed: Departed<V>) {
        if let Some(callback) = &self.on_evict {
            departed.into_iter().for_each(callback);
        }
    }

    /// Evicts everything that nobody holds.
    pub(crate) fn evict_all(&self) {
        let mut departed = Departed::new();
        let guard = epoch::pin();
        for index in 0..self.length() {
            for found in self.bucket(index).entries(&guard) {
                self.evict_found(&found, &mut departed, &guard);
            }
        }
        drop(guard);
        self.tell(departed);
        epoch::collect();
    }

    /// Bounds the memory that waits for guards.
    fn push_limbo(&self) {
        if self.ledger.limbo() > (self.ledger.capacity() / LIMBO_SHARE).max(MIN_LIMBO_BYTES) {
            epoch::collect();
        }
    }
}
