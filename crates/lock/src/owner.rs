//! The part of a locker that other threads use: its id, its state, and the place where it sleeps.
//!
//! In: the outcome of a wait, from the thread that ends the wait. Out: the owner's thread takes
//! that outcome once.
//!
//! | state     | means                               | left by                                           |
//! |-----------|-------------------------------------|---------------------------------------------------|
//! | Active    | takes and holds locks               | its own thread, to Committing; a thief, to Stolen |
//! | Committing| its locks can no longer be stolen   | its own thread, to Active, with no locks left     |
//! | Stolen    | a thief took one of its locks       | its own thread, to Active, with no locks left     |
//!
//! Invariants
//!  1. `Seat::waiting` is the owner's waiting request. It changes together with the queues of the
//!     request's leaves, under the latches of these leaves.
//!  2. A thread that grants or fails the request stores the outcome before it releases the latches.
//!     The owner's thread takes the outcome.

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

/// The part of a locker that other threads use.
pub(crate) struct LockOwner {
    pub(crate) id: u64,
    state: AtomicU8,
    /// From this time on, other lockers may steal the owner's locks. Nanoseconds of the manager's
    /// clock.
    expires_at: AtomicU64,
    /// The next ticket at the time of the owner's first lock. Only the owner's thread writes this
    /// field, while it holds no lock.
    stamp: AtomicU64,
    /// Whether escalation has joined locks of this owner since its last `release_all`. The owner's
    /// log is then incomplete.
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
    /// Whether an owner that can expire has taken a lock in the request's span. The waiting owner
    /// then computes its deadline again.
    pub(crate) is_nudged: bool,
}

/// The outcome of a wait. The thread that grants or fails the request stores it.
#[derive(Debug)]
pub(crate) enum WaitOutcome {
    /// The request was granted. Holds the newly held pieces, and their bytes.
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

    /// The time from which on other lockers may steal the owner's locks, unless the owner is
    /// committing.
    #[inline]
    pub(crate) fn expires_at(&self) -> u64 {
        // Only the owner's thread writes this word. Other threads read it under the latch of a leaf
        // that has a lock of the owner.
        self.expires_at.load(Ordering::Relaxed)
    }

    pub(crate) fn set_expires_at(&self, at: u64) {
        self.expires_at.store(at, Ordering::Relaxed);
    }

    /// The owner's seniority: the owner passes requests with this or a later ticket.
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

    /// Protects the owner's locks from theft from now on. False if a lock was stolen already.
    pub(crate) fn begin_commit(&self) -> bool {
        match self.state.compare_exchange(ACTIVE, COMMITTING, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) | Err(COMMITTING) => true,
            Err(_) => false,
        }
    }

    /// Makes the owner active again, without locks. Only the owner's thread may call this.
    pub(crate) fn restart(&self) {
        self.set_stamp(NEVER);
        self.state.store(ACTIVE, Ordering::Release);
    }

    /// Whether other lockers may steal the owner's locks at the time `now`. If so, sets the state
    /// to Stolen. Calls `now` only if the owner is active and can expire.
    pub(crate) fn is_stealable(&self, now: impl FnOnce() -> u64) -> bool {
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

    /// The time from which on other lockers may steal the owner's locks: [`NEVER`] while the owner
    /// commits, 0 after a theft.
    pub(crate) fn stealable_from(&self) -> u64 {
        match self.state.load(Ordering::Acquire) {
            ACTIVE => self.expires_at(),
            STOLEN => 0,
            _ => NEVER,
        }
    }

    /// Stores the outcome of the owner's wait. The caller holds the latches, and has removed the
    /// request from the queues. It notifies `wake` after it has released the latches.
    pub(crate) fn settle(&self, outcome: WaitOutcome) {
        let mut seat = self.seat.lock();
        seat.waiting = None;
        seat.outcome = Some(outcome);
    }
}
