//! Live snapshots: which sequence numbers somebody may still read at.
//!
//! In: sequence numbers taken and given back. Out: the oldest one, and all of them, for flush and compaction.
//! The list lives inside the database's mutex; [`Snapshot`] is what the user holds, and gives its number back through
//! its owner when the last clone is dropped.
//!
//! Invariants
//!  1. A number is in the list as often as it was taken and not yet given back.
//!  2. `all()` is strictly ascending.

use esker_base::SequenceNumber;
use esker_base::sync::Arc;
use std::collections::BTreeMap;
use std::fmt;

/// What is known of the holders of one number.
#[derive(Clone, Copy, Debug)]
struct Holders {
    count: usize,
    /// Unix seconds at which the first of them came.
    unix_time: u64,
}

/// The live snapshots of a database, ordered. Taking and giving back cost O(log n) in distinct numbers.
#[derive(Debug, Default)]
pub struct SnapshotList {
    live: BTreeMap<SequenceNumber, Holders>,
    count: usize,
}

impl SnapshotList {
    /// No snapshots.
    pub fn new() -> Self {
        Self::default()
    }

    /// Somebody reads at `sequence` from now (`unix_time`, seconds) on.
    pub fn acquire(&mut self, sequence: SequenceNumber, unix_time: u64) {
        self.live.entry(sequence).or_insert(Holders { count: 0, unix_time }).count += 1;
        self.count += 1;
    }

    /// One holder of `sequence` is gone. Returns whether nobody else holds it: then files that only it needed may be
    /// compacted away.
    /// # Panics
    /// If `sequence` is not held: the caller gave it back twice.
    pub fn release(&mut self, sequence: SequenceNumber) -> bool {
        let holders =
            self.live.get_mut(&sequence).expect("a snapshot is released once for each time it was acquired");
        holders.count -= 1;
        self.count -= 1;
        let last = holders.count == 0;
        if last {
            self.live.remove(&sequence);
        }
        last
    }

    /// The oldest number held.
    pub fn oldest(&self) -> Option<SequenceNumber> {
        self.live.keys().next().copied()
    }

    /// The newest number held.
    pub fn newest(&self) -> Option<SequenceNumber> {
        self.live.keys().next_back().copied()
    }

    /// Unix seconds at which the oldest number was taken; 0 if there is none, as `rocksdb.oldest-snapshot-time` says it.
    pub fn oldest_unix_time(&self) -> u64 {
        self.live.values().next().map_or(0, |h| h.unix_time)
    }

    /// Every number held, once, ascending.
    pub fn all(&self) -> Vec<SequenceNumber> {
        self.live.keys().copied().collect()
    }

    /// Snapshots held, equal numbers counted each.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Who takes a number back when the last clone of its snapshot is dropped. The database implements it and holds its
/// mutex meanwhile.
pub trait SnapshotOwner: Send + Sync {
    /// Nobody holds this snapshot any more.
    fn release_snapshot(&self, sequence: SequenceNumber);
}

struct Held {
    sequence: SequenceNumber,
    owner: Arc<dyn SnapshotOwner>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.owner.release_snapshot(self.sequence);
    }
}

/// A state of the database that stays readable as long as this value or a clone of it lives.
#[derive(Clone)]
pub struct Snapshot(Arc<Held>);

impl Snapshot {
    /// `sequence`, already acquired, to be given back to `owner`. The owner must stay alive, so it is held here.
    pub fn new(sequence: SequenceNumber, owner: Arc<dyn SnapshotOwner>) -> Snapshot {
        Snapshot(Arc::new(Held { sequence, owner }))
    }

    /// The number it reads at.
    pub fn sequence(&self) -> SequenceNumber {
        self.0.sequence
    }

    /// Whether it was taken from the database behind `owner`: reading at another database's snapshot is refused.
    pub fn belongs_to<T: SnapshotOwner>(&self, owner: &Arc<T>) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.0.owner), Arc::as_ptr(owner))
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot({})", self.0.sequence)
    }
}

#[cfg(test)]
mod tests;
