//! The shared half of a locker: its id, its state, and its seat for sleeping.
//!
//! In: a grant, a cancellation or an error from the thread that ends the wait. Out: the sleeping
//! thread wakes once, with that outcome.
//!
//! | state     | means                               | left by                                           |
//! |-----------|-------------------------------------|---------------------------------------------------|
//! | Active    | takes and holds locks               | its own thread, to Committing; a thief, to Stolen |
//! | Committing| its locks can no longer be stolen   | its own thread, to Active, with no locks left     |
//! | Stolen    | an expired lock of it was taken     | its own thread, to Active, with no locks left     |
//!
//! Invariants
//!  1. `Seat::waiting` is the request that is in the queues of its leaves; both change under the
//!     latches of those leaves.
//!  2. The thread that takes the request out of the queues stores the outcome, before it releases
//!     the latches. The owner's thread takes the outcome.

use crate::fragment::Pieces;
use crate::wait::Waiter;
use esker_base::Error;
use esker_base::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use esker_base::sync::{Arc, Condvar, Mutex};
use std::fmt;

const ACTIVE: u8 = 0;
const COMMITTING: u8 = 1;
const STOLEN: u8 = 2;

/// The expiry of an owner that never expires.
pub(crate) const NEVER: u64 = u64::MAX;

/// The shared half of a locker.
pub(crate) struct LockOwner {
    pub(crate) id: u64,
    state: AtomicU8,
    /// Time of the manager's clock, in nanoseconds, from which on its locks may be stolen.
    expires_at: AtomicU64,
    /// The next ticket at the time of its first lock. Its own thread writes it, while it holds no
    /// lock.
    stamp: AtomicU64,
    /// Escalation has joined some of its locks since it last held none: its log is incomplete.
    pub(crate) escalated: AtomicBool,
    pub(crate) seat: Mutex<Seat>,
    pub(crate) wake: Condvar,
}

/// The place where a locker sleeps.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    pub(crate) waiting: Option<Arc<Waiter>>,
    pub(crate) outcome: Option<WaitOutcome>,
    pub(crate) is_cancelled: bool,
    /// Whether the expiry that may end the owner's wait has changed.
    pub(crate) is_nudged: bool,
}

/// The end of a wait, reported by another thread.
#[derive(Debug)]
pub(crate) enum WaitOutcome {
    /// Granted: the pieces that are newly held, and their bytes.
    Granted(Pieces, i64),
    Failed(Error),
}

impl fmt::Debug for LockOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({})", self.id)
    }
}

impl LockOwner {
    pub(crate) fn new(id: u64, expires_at: u64) -> LockOwner {
        LockOwner {
            id,
            state: AtomicU8::new(ACTIVE),
            expires_at: AtomicU64::new(expires_at),
            stamp: AtomicU64::new(NEVER),
            escalated: AtomicBool::new(false),
            seat: Mutex::new(Seat::default()),
            wake: Condvar::new(),
        }
    }

    /// The time from which on its locks may be stolen, unless it is committing.
    #[inline]
    pub(crate) fn expires_at(&self) -> u64 {
        // Only the owner's thread writes it. Other threads see it under the latch of a leaf with
        // its lock.
        self.expires_at.load(Ordering::Relaxed)
    }

    pub(crate) fn set_expires_at(&self, at: u64) {
        self.expires_at.store(at, Ordering::Relaxed);
    }

    /// The owner's seniority: the owner passes requests with this or a later ticket. The value is
    /// exact under the latch of a leaf in which it holds a lock.
    #[inline]
    pub(crate) fn stamp(&self) -> u64 {
        self.stamp.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set_stamp(&self, stamp: u64) {
        self.stamp.store(stamp, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_stolen(&self) -> bool {
        self.state.load(Ordering::Acquire) == STOLEN
    }

    /// Protects its locks from theft from now on. False if a lock was stolen already.
    pub(crate) fn begin_commit(&self) -> bool {
        match self.state.compare_exchange(ACTIVE, COMMITTING, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) | Err(COMMITTING) => true,
            Err(_) => false,
        }
    }

    /// Starts anew, with no locks. Called by its own thread.
    pub(crate) fn restart(&self) {
        self.set_stamp(NEVER);
        self.state.store(ACTIVE, Ordering::Release);
    }

    /// True if its locks may be stolen at `now`. Calls `now` only if it can expire.
    pub(crate) fn may_be_robbed(&self, now: impl FnOnce() -> u64) -> bool {
        let at = self.expires_at();
        if at == NEVER {
            return false;
        }
        match self.state.load(Ordering::Acquire) {
            STOLEN => true,
            ACTIVE if now() >= at => {
                let stolen = self.state.compare_exchange(ACTIVE, STOLEN, Ordering::AcqRel, Ordering::Acquire);
                matches!(stolen, Ok(_) | Err(STOLEN))
            }
            _ => false,
        }
    }

    /// The time from which on its locks may be stolen; [`NEVER`] while the owner commits.
    pub(crate) fn stealable_from(&self) -> u64 {
        match self.state.load(Ordering::Acquire) {
            ACTIVE => self.expires_at(),
            STOLEN => 0,
            _ => NEVER,
        }
    }

    /// Ends the owner's wait. The caller holds the latches, has taken the request out of the
    /// queues, and notifies `wake` after it has released the latches.
    pub(crate) fn settle(&self, outcome: WaitOutcome) {
        let mut seat = self.seat.lock();
        seat.waiting = None;
        seat.outcome = Some(outcome);
    }
}
