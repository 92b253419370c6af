//! Live snapshots: which sequence numbers somebody may still read at.
//!
//! In: sequence numbers taken and given back. Out: the oldest one, without a lock, and all of them,
//! for flush and compaction. [`Snapshot`] is what the user holds, and gives its number back through
//! its owner when the last clone is dropped. Iterators without a snapshot hold a number as well, so
//! that they can go on over newer files; statistics do not count those.
//!
//! ```text
//! first -> 17 x1 <-> 20 x3 <-> 21 x1 <- last        one node for each number, in a vector; a ticket is a place in it
//! ```
//!
//! Taking a number appends or counts up the last node, since numbers only rise; giving it back goes
//! straight to its node. So both cost the same with one live snapshot and with ten thousand, a
//! mutex that is held for a few nanoseconds each. (Slots of each thread, with an asymmetric fence,
//! would cost two stores; but whoever gives back may be another thread than the one that took, and
//! compactions would look at all slots.) Nobody who writes looks at any of this.
//!
//! Invariants
//!  1. A node's count is how often its number was taken and not yet given back; nodes without
//!     holders are in `free`.
//!  2. Nodes are linked in strictly ascending order of their numbers.
//!  3. `oldest` is the first node's number, or `NONE`, whenever the mutex is free.

use esker_base::SequenceNumber;
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::sync::{Arc, Mutex};
use std::any::Any;
use std::fmt;

/// No node.
const NIL: u32 = u32::MAX;

/// No snapshot.
const NONE: u64 = u64::MAX;

/// Who takes a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holder {
    /// The user, who sees it in statistics.
    User,
    /// An iterator that was opened without a snapshot.
    Iterator,
}

/// A number that was taken: where its node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticket {
    node: u32,
    holder: Holder,
}

impl Ticket {
    /// Of no node: nothing was taken, and nothing is given back.
    pub(crate) const NONE: Ticket = Ticket { node: NIL, holder: Holder::Iterator };

    /// Not an iterator's.
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
    /// Unix seconds at which the first of them came.
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
    /// No snapshots.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    fn node(&self, at: u32) -> Option<&Node> {
        self.nodes.get(at as usize)
    }

    fn node_mut(&mut self, at: u32) -> Option<&mut Node> {
        self.nodes.get_mut(at as usize)
    }

    /// Somebody reads at `sequence` from now (`unix_time`, seconds) on. O(1) if no held number is
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

    /// Sets the neighbours' links around `at`, or across if that is nothing.
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

    /// One holder of a number is gone. Returns whether nobody else holds the number: then files
    /// that only it needed may be compacted away. O(1).
    ///
    /// # Panics
    /// If it was given back before and nobody has taken a number since.
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

    /// The oldest number held by anybody.
    pub(crate) fn oldest(&self) -> Option<SequenceNumber> {
        self.node(self.first).map(|node| node.sequence)
    }

    /// The oldest number that a user holds.
    pub(crate) fn oldest_of_users(&self) -> Option<SequenceNumber> {
        self.iter().find(|node| node.users > 0).map(|node| node.sequence)
    }

    /// Unix seconds at which that was taken; 0 if there is none, as `rocksdb.oldest-snapshot-time`
    /// says it.
    pub(crate) fn oldest_unix_time(&self) -> u64 {
        self.iter().find(|node| node.users > 0).map_or(0, |node| node.unix_time)
    }

    /// Every number held, once, ascending.
    pub(crate) fn all(&self) -> Vec<SequenceNumber> {
        self.iter().map(|node| node.sequence).collect()
    }

    /// Snapshots that users hold, equal numbers counted each.
    pub(crate) fn len(&self) -> usize {
        self.users
    }

    /// Whether users hold none.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.users == 0
    }
}

/// The list, shared. In lines of its own, which nobody who writes or reads keys looks at.
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

    /// Takes the number that `sequence` gives, under the lock: a flush that looked at the list has
    /// not missed an older one.
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

    /// Gives it back. Gives the oldest number that is held still or, if there is none, the one that
    /// `newest` gives, under the lock: whoever takes one afterwards takes none that is older.
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

    /// The oldest number held by anybody. Takes no lock.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<SequenceNumber> {
        let oldest = self.oldest.load(Ordering::SeqCst);
        (oldest != NONE).then_some(SequenceNumber(oldest))
    }

    /// The oldest number that was held when the last one was given back, or the newest there was
    /// then; 0 before that.
    #[inline]
    pub(crate) fn oldest_at_release(&self) -> SequenceNumber {
        SequenceNumber(self.oldest_at_release.load(Ordering::SeqCst))
    }

    /// Says that this is it, and gives what was said before. It never goes down.
    #[inline]
    pub(crate) fn raise_oldest_at_release(&self, oldest: SequenceNumber) -> SequenceNumber {
        SequenceNumber(self.oldest_at_release.fetch_max(oldest.0, Ordering::SeqCst))
    }

    /// See [`SnapshotList::all`].
    pub(crate) fn all(&self) -> Vec<SequenceNumber> {
        self.list.lock().all()
    }

    /// Looks at the list. `look` takes no lock.
    pub(crate) fn with<R>(&self, look: impl FnOnce(&SnapshotList) -> R) -> R {
        look(&self.list.lock())
    }
}

/// Who takes a number back when the last clone of its snapshot is dropped: the database.
pub(crate) trait SnapshotOwner: Send + Sync {
    /// Nobody holds this snapshot any more.
    fn release_snapshot(&self, ticket: Ticket);

    /// The owner as what it is: snapshots that are read from find their database by it.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

struct Held {
    sequence: SequenceNumber,
    ticket: Ticket,
    owner: Arc<dyn SnapshotOwner>,
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
    /// `sequence`, already acquired, to be given back to `owner`. The owner must stay alive, so it
    /// is held here.
    pub(crate) fn new(sequence: SequenceNumber, ticket: Ticket, owner: Arc<dyn SnapshotOwner>) -> Snapshot {
        Snapshot(Arc::new(Held { sequence, ticket, owner }))
    }

    pub(crate) fn owner(&self) -> Arc<dyn Any + Send + Sync> {
        self.0.owner.clone().into_any()
    }

    /// The number it reads at.
    pub fn sequence(&self) -> SequenceNumber {
        self.0.sequence
    }

    /// Whether it was taken from the database behind `owner`: reading at another database's
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
