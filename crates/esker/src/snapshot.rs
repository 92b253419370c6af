//! Live snapshots: the sequence numbers that readers may still read at.
//!
//! In: sequence numbers that readers acquire and release. Out: the oldest one, without a lock, and
//! all of them, for flush and compaction. [`Snapshot`] is the user's handle; it gives its number
//! back through its owner when the last clone is dropped. Iterators without a snapshot hold a
//! number as well, so that they can continue over newer files; statistics do not count those.
//!
//! ```text
//! first -> 17 x1 <-> 20 x3 <-> 21 x1 <- last        one node for each number; a ticket names one
//! ```
//!
//! Taking a number appends a node or counts up the last one, since numbers only rise. A release
//! finds its node directly. Both therefore cost the same with one live snapshot and with ten
//! thousand: a mutex that is held for nanoseconds. (Slots for each thread, with an asymmetric
//! fence, would cost two stores. But another thread may give the number back, and compactions would
//! read all slots.) Writers never read this list.
//!
//! Invariants
//!  1. A node counts the unreleased snapshots of its number. Nodes without snapshots are in `free`.
//!  2. Nodes are linked in strictly ascending order of their numbers.
//!  3. `oldest` is the first node's number, or `NONE`, whenever the mutex is free.

mod commit_table;
mod own_numbers;

pub(crate) use commit_table::{CommitTable, SectionsForJob, UnseenSections};
pub(crate) use own_numbers::OwnNumbers;

use esker_base::SequenceNumber;
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::sync::{Arc, Mutex};
use std::any::Any;
use std::fmt;

/// No node.
const NIL: u32 = u32::MAX;

/// No snapshot.
const NONE: u64 = u64::MAX;

/// The kind of a number's holder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holder {
    /// The user; statistics count it.
    User,
    /// An iterator that was opened without a snapshot.
    Iterator,
}

/// A taken number: the place of its node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticket {
    node: u32,
    holder: Holder,
}

impl Ticket {
    /// A ticket without a node, for snapshots in a forked child, where every release does nothing.
    pub(crate) const NONE: Ticket = Ticket { node: NIL, holder: Holder::Iterator };

    /// Whether a user holds it, not an iterator.
    pub(crate) fn is_of_user(self) -> bool {
        self.holder == Holder::User
    }
}

#[derive(Clone, Copy, Debug)]
struct Node {
    sequence: SequenceNumber,
    /// Holders of both kinds.
    count: u32,
    users: u32,
    /// Unix seconds at which the first holder took the number.
    unix_time: u64,
    before: u32,
    behind: u32,
}

/// The live snapshots of a database, ordered.
#[derive(Debug)]
pub(crate) struct SnapshotList {
    nodes: Vec<Node>,
    free: Vec<u32>,
    first: u32,
    last: u32,
    users: usize,
}

impl Default for SnapshotList {
    fn default() -> SnapshotList {
        SnapshotList { nodes: Vec::new(), free: Vec::new(), first: NIL, last: NIL, users: 0 }
    }
}

impl SnapshotList {
    /// An empty list.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    fn node(&self, at: u32) -> Option<&Node> {
        self.nodes.get(at as usize)
    }

    fn node_mut(&mut self, at: u32) -> Option<&mut Node> {
        self.nodes.get_mut(at as usize)
    }

    /// Adds a holder of `sequence`, taken at `unix_time` (seconds). O(1) if no held number is
    /// higher.
    pub(crate) fn acquire(
        &mut self,
        sequence: SequenceNumber,
        holder: Holder,
        unix_time: impl FnOnce() -> u64,
    ) -> Ticket {
        let is_user = u32::from(holder == Holder::User);
        self.users += is_user as usize;
        let mut before = self.last;
        while let Some(node) = self.node(before).filter(|node| node.sequence > sequence) {
            before = node.before;
        }
        if let Some(node) = self.node_mut(before).filter(|node| node.sequence == sequence) {
            node.count += 1;
            node.users += is_user;
            return Ticket { node: before, holder };
        }
        let behind = self.node(before).map_or(self.first, |node| node.behind);
        let new = Node { sequence, count: 1, users: is_user, unix_time: unix_time(), before, behind };
        let at = match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = new;
                at
            }
            None => {
                let at = u32::try_from(self.nodes.len()).expect("fewer than 4 billion live snapshots");
                self.nodes.push(new);
                at
            }
        };
        self.link(before, at, behind);
        Ticket { node: at, holder }
    }

    /// Links the neighbours to `at`, or to each other if `at` is `NIL`.
    fn link(&mut self, before: u32, at: u32, behind: u32) {
        match self.node_mut(before) {
            Some(node) => node.behind = if at == NIL { behind } else { at },
            None => self.first = if at == NIL { behind } else { at },
        }
        match self.node_mut(behind) {
            Some(node) => node.before = if at == NIL { before } else { at },
            None => self.last = if at == NIL { before } else { at },
        }
    }

    /// Removes one holder of a number. Returns whether it was the last one: then compactions may
    /// drop entries that only this number needed. O(1).
    ///
    /// # Panics
    /// If the ticket's node has no holder.
    pub(crate) fn release(&mut self, ticket: Ticket) -> bool {
        let is_user = u32::from(ticket.holder == Holder::User);
        self.users -= is_user as usize;
        let node = &mut self.nodes[ticket.node as usize];
        assert!(node.count > 0, "a snapshot is released once for each time it was acquired");
        node.count -= 1;
        node.users -= is_user;
        if node.count > 0 {
            return false;
        }
        let (before, behind) = (node.before, node.behind);
        self.link(before, NIL, behind);
        self.free.push(ticket.node);
        true
    }

    fn iter(&self) -> impl Iterator<Item = &Node> {
        std::iter::successors(self.node(self.first), |node| self.node(node.behind))
    }

    /// The oldest held number.
    pub(crate) fn oldest(&self) -> Option<SequenceNumber> {
        self.node(self.first).map(|node| node.sequence)
    }

    /// The oldest number that a user holds.
    pub(crate) fn oldest_of_users(&self) -> Option<SequenceNumber> {
        self.iter().find(|node| node.users > 0).map(|node| node.sequence)
    }

    /// Unix seconds at which the number of [`oldest_of_users`](Self::oldest_of_users) was first
    /// taken; 0 if there is none, as in `rocksdb.oldest-snapshot-time`.
    pub(crate) fn oldest_unix_time(&self) -> u64 {
        self.iter().find(|node| node.users > 0).map_or(0, |node| node.unix_time)
    }

    /// Every held number, once, ascending.
    pub(crate) fn all(&self) -> Vec<SequenceNumber> {
        self.iter().map(|node| node.sequence).collect()
    }

    /// Number of snapshots that users hold. Snapshots with equal numbers count separately.
    pub(crate) fn len(&self) -> usize {
        self.users
    }

    /// Whether users hold none.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.users == 0
    }
}

/// The shared list. On cache lines of its own, away from values that writers and readers load.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct LiveSnapshots {
    list: Mutex<SnapshotList>,
    oldest: AtomicU64,
    oldest_at_release: AtomicU64,
}

impl LiveSnapshots {
    pub(crate) fn new() -> LiveSnapshots {
        LiveSnapshots {
            list: Mutex::new(SnapshotList::new()),
            oldest: AtomicU64::new(NONE),
            oldest_at_release: AtomicU64::new(0),
        }
    }

    /// Takes the number that `sequence` returns under the lock of the list. So a flush that reads
    /// the list misses no number that was chosen before.
    #[inline]
    pub(crate) fn acquire(
        &self,
        sequence: impl FnOnce() -> SequenceNumber,
        holder: Holder,
        unix_time: impl FnOnce() -> u64,
    ) -> (SequenceNumber, Ticket) {
        let mut list = self.list.lock();
        let sequence = sequence();
        let ticket = list.acquire(sequence, holder, unix_time);
        self.set_oldest(&list);
        (sequence, ticket)
    }

    /// Gives a number back. Returns the oldest number still held or, if none is, the result of
    /// `newest` under the lock: numbers taken afterwards are not older.
    #[inline]
    pub(crate) fn release(&self, ticket: Ticket, newest: impl FnOnce() -> SequenceNumber) -> SequenceNumber {
        let mut list = self.list.lock();
        if list.release(ticket) {
            self.set_oldest(&list);
        }
        list.oldest().unwrap_or_else(newest)
    }

    #[inline]
    fn set_oldest(&self, list: &SnapshotList) {
        let oldest = list.oldest().map_or(NONE, |sequence| sequence.0);
        if self.oldest.load(Ordering::Relaxed) != oldest {
            self.oldest.store(oldest, Ordering::SeqCst);
        }
    }

    /// The oldest held number. Takes no lock.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<SequenceNumber> {
        let oldest = self.oldest.load(Ordering::SeqCst);
        (oldest != NONE).then_some(SequenceNumber(oldest))
    }

    /// The oldest number held after the last release of a user's snapshot, or the newest number of
    /// that time if none was held. 0 before the first such release.
    #[inline]
    pub(crate) fn oldest_at_release(&self) -> SequenceNumber {
        SequenceNumber(self.oldest_at_release.load(Ordering::SeqCst))
    }

    /// Raises [`oldest_at_release`](Self::oldest_at_release) to `oldest`, never lowers it, and
    /// returns the previous number.
    #[inline]
    pub(crate) fn raise_oldest_at_release(&self, oldest: SequenceNumber) -> SequenceNumber {
        SequenceNumber(self.oldest_at_release.fetch_max(oldest.0, Ordering::SeqCst))
    }

    /// See [`SnapshotList::all`].
    pub(crate) fn all(&self) -> Vec<SequenceNumber> {
        self.list.lock().all()
    }

    /// Calls `look` with the list. `look` must take no lock.
    pub(crate) fn with<R>(&self, look: impl FnOnce(&SnapshotList) -> R) -> R {
        look(&self.list.lock())
    }
}

/// The database that takes a number back when the last clone of its snapshot is dropped.
pub(crate) trait SnapshotOwner: Send + Sync {
    /// Called when the last reference to this snapshot is dropped.
    fn release_snapshot(&self, ticket: Ticket);

    /// The owner as `Any`. A read through a snapshot downcasts it to the database.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

struct Held {
    sequence: SequenceNumber,
    /// The user's timestamp, if the snapshot has one.
    timestamp: Option<u64>,
    ticket: Ticket,
    owner: Arc<dyn SnapshotOwner>,
    /// The state to read at the number, if it is not the database's present one.
    pinned: Option<Box<dyn Any + Send + Sync>>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.owner.release_snapshot(self.ticket);
    }
}

/// A state of the database that stays readable as long as this value or a clone of it lives.
#[derive(Clone)]
pub struct Snapshot(Arc<Held>);

impl Snapshot {
    /// A snapshot at `sequence`, whose number the caller has taken. Its last clone gives the number
    /// back to `owner`, which it keeps alive.
    pub(crate) fn new(sequence: SequenceNumber, ticket: Ticket, owner: Arc<dyn SnapshotOwner>) -> Snapshot {
        Snapshot(Arc::new(Held { sequence, timestamp: None, ticket, owner, pinned: None }))
    }

    /// A snapshot whose reads use `pinned`: later states of the database lack entries that it sees.
    pub(crate) fn with_pinned(
        sequence: SequenceNumber,
        ticket: Ticket,
        owner: Arc<dyn SnapshotOwner>,
        pinned: Box<dyn Any + Send + Sync>,
    ) -> Snapshot {
        Snapshot(Arc::new(Held { sequence, timestamp: None, ticket, owner, pinned: Some(pinned) }))
    }

    /// The pinned state of a secondary, if the snapshot has one.
    #[inline]
    pub(crate) fn pinned(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.0.pinned.as_deref()
    }

    pub(crate) fn owner(&self) -> Arc<dyn Any + Send + Sync> {
        self.0.owner.clone().into_any()
    }

    /// This snapshot with a timestamp of the user. It has no other clone.
    pub(crate) fn with_timestamp(mut self, timestamp: u64) -> Snapshot {
        if let Some(held) = Arc::get_mut(&mut self.0) {
            held.timestamp = Some(timestamp);
        }
        self
    }

    /// The timestamp that the user gave it: that of
    /// [`TransactionDb::create_timestamped_snapshot`](crate::TransactionDb::create_timestamped_snapshot)
    /// or of the commit that created it. Other snapshots have none.
    pub fn timestamp(&self) -> Option<u64> {
        self.0.timestamp
    }

    /// The sequence number that it reads at.
    pub fn sequence(&self) -> SequenceNumber {
        self.0.sequence
    }

    /// Whether the snapshot belongs to the database behind `owner`. A read at another database's
    /// snapshot is refused.
    #[inline]
    pub(crate) fn belongs_to<T: SnapshotOwner>(&self, owner: &T) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.0.owner), owner)
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot({})", self.0.sequence)
    }
}

#[cfg(test)]
mod tests;
