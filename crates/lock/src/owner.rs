//! What others may see of a locker: its number, whether its locks may be stolen, and where it
//! sleeps.
//!
//! In: a grant, a cancellation or an error from whoever frees the way. Out: the sleeping thread
//! wakes, once, with it.
//!
//! | state     | means                                     | left by                                        |
//! |-----------|-------------------------------------------|------------------------------------------------|
//! | Active    | takes and holds locks                     | its own thread, to Committing; a thief, to Stolen |
//! | Committing| may no longer be robbed                   | its own thread, to Active, with no locks left  |
//! | Stolen    | somebody took a lock after it had expired | its own thread, to Active, with no locks left  |
//!
//! Invariants
//!  1. `Seat::waiting` is the request that is in the queues of its leaves; both change under the
//!     latches of those leaves.
//!  2. An outcome is put by whoever takes the request out of the queues, before the latches are
//!     released, and taken by the owner's thread.

use crate::fragment::Pieces;
use crate::wait::Waiter;
use esker_base::Error;
use esker_base::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use esker_base::sync::{Arc, Condvar, Mutex};
use std::fmt;

const ACTIVE: u8 = 0;
const COMMITTING: u8 = 1;
const STOLEN: u8 = 2;

/// Never expires.
pub(crate) const NEVER: u64 = u64::MAX;

/// The shared half of a locker.
pub(crate) struct Owner {
    pub(crate) id: u64,
    state: AtomicU8,
    /// Nanoseconds of the manager's clock from which on its locks may be stolen.
    expires_at: AtomicU64,
    /// The next ticket when it took its first lock since it last held none. Written by its own
    /// thread, before it asks for that lock, and when it holds none.
    stamp: AtomicU64,
    /// Some of its locks were joined by escalation since it last held none: its log does not name
    /// all it holds.
    pub(crate) escalated: AtomicBool,
    pub(crate) seat: Mutex<Seat>,
    pub(crate) wake: Condvar,
}

/// Where a locker waits.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    pub(crate) waiting: Option<Arc<Waiter>>,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) is_cancelled: bool,
    /// When its wait may end by expiry has changed.
    pub(crate) is_nudged: bool,
}

/// How a wait ended, told by another thread.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Granted: what is held now that was not, and how many bytes that took.
    Granted(Pieces, i64),
    Failed(Error),
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({})", self.id)
    }
}

impl Owner {
    pub(crate) fn new(id: u64, expires_at: u64) -> Owner {
        Owner {
            id,
            state: AtomicU8::new(ACTIVE),
            expires_at: AtomicU64::new(expires_at),
            stamp: AtomicU64::new(NEVER),
            escalated: AtomicBool::new(false),
            seat: Mutex::new(Seat::default()),
            wake: Condvar::new(),
        }
    }

    /// When its locks may be stolen, unless it is committing.
    #[inline]
    pub(crate) fn expires_at(&self) -> u64 {
        // Written by the owner's thread only; others see it with the latch of a leaf that holds its
        // lock.
        self.expires_at.load(Ordering::Relaxed)
    }

    pub(crate) fn set_expires_at(&self, at: u64) {
        self.expires_at.store(at, Ordering::Relaxed);
    }

    /// What makes it senior to requests with later tickets. Exact for whoever has the latch of a
    /// leaf in which it holds something.
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

    /// From now on nobody steals. False if somebody has.
    pub(crate) fn begin_commit(&self) -> bool {
        match self.state.compare_exchange(ACTIVE, COMMITTING, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) | Err(COMMITTING) => true,
            Err(_) => false,
        }
    }

    /// It holds no locks any more and starts anew. By its own thread.
    pub(crate) fn restart(&self) {
        self.set_stamp(NEVER);
        self.state.store(ACTIVE, Ordering::Release);
    }

    /// True if its locks are anybody's at `now` (asked for only if it can expire).
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

    /// When its locks may be stolen as things stand: never, if it is committing.
    pub(crate) fn robbable_at(&self) -> u64 {
        match self.state.load(Ordering::Acquire) {
            ACTIVE => self.expires_at(),
            STOLEN => 0,
            _ => NEVER,
        }
    }

    /// Ends the wait of whoever sits here. The caller has taken the request out of the queues and
    /// holds their latches; it notifies `wake` when it has released them.
    pub(crate) fn settle(&self, outcome: Outcome) {
        let mut seat = self.seat.lock();
        seat.waiting = None;
        seat.outcome = Some(outcome);
    }
}
