//! Somebody who takes locks: a transaction, as far as locks go.
//!
//! In: keys and ranges to lock, save points, the end. Out: `Ok` with the lock held, or an error
//! with nothing changed. What is held is given back when the locker is dropped, if not before.
//!
//! Invariants
//!  1. Every stretch it holds is named by its log (`log.rs`), or `Owner::escalated` is set.
//!  2. It has at most one request in the queues, and only while its thread is inside of a call.

use crate::cut::{Endpoint, Span};
use crate::deadlock;
use crate::family::{Decision, Family, dropped};
use crate::fragment::{Change, Escalated, Pieces};
use crate::log::Log;
use crate::manager::{Inner, Shared};
use crate::owner::{NEVER, Outcome, Owner, Seat};
use crate::wait::{Request, Waiter};
use crate::{LockMode, LockerOptions, Locking, Timeout};
use esker_base::sync::atomic::Ordering;
use esker_base::sync::{Arc, MutexGuard};
use esker_base::{Error, ErrorKind, Result, SubCode};

/// Longest key that can be locked: RocksDB's limit for keys.
const MAX_KEY_BYTES: usize = u32::MAX as usize;

/// Takes and holds locks. One thread at a time; dropping it releases everything.
#[derive(Debug)]
pub struct Locker {
    inner: Arc<Inner>,
    owner: Arc<Owner>,
    options: LockerOptions,
    log: Log,
    /// Families it has locks in; the log names them by index.
    families: Vec<Arc<Family>>,
    /// Ends of the log.
    save_points: Vec<usize>,
    /// Bytes of locks that the manager has not been told of.
    untold: i64,
}

/// Ends a locker's waiting from another thread.
#[derive(Clone, Debug)]
pub struct Canceller {
    owner: Arc<Owner>,
}

impl Canceller {
    /// If the locker waits, its request fails with `Aborted` at once; later ones fail as soon as
    /// they would have to wait, until [`Locker::reset_cancel`].
    pub fn cancel(&self) {
        self.owner.seat.lock().is_cancelled = true;
        self.owner.wake.notify_one();
    }
}

impl Locker {
    pub(crate) fn new(inner: Arc<Inner>, id: u64, options: LockerOptions) -> Locker {
        let expires_at = match options.expiration {
            None => NEVER,
            Some(after) => {
                inner.shared.may_expire.store(true, Ordering::Release);
                inner.shared.now().saturating_add(nanos(after)).min(NEVER - 1)
            }
        };
        Locker {
            owner: Arc::new(Owner::new(id, expires_at)),
            inner,
            options,
            log: Log::default(),
            families: Vec::new(),
            save_points: Vec::new(),
            untold: 0,
        }
    }

    /// Its number: what dumps and deadlocks call it.
    pub fn id(&self) -> u64 {
        self.owner.id
    }

    /// How long requests wait from now on.
    pub fn set_lock_timeout(&mut self, timeout: Timeout) {
        self.options.lock_timeout = timeout;
    }

    /// When its locks may be stolen, counted from now; `None`: never. Those who wait for it already
    /// do not notice.
    pub fn set_expiration(&mut self, after: Option<std::time::Duration>) {
        self.options.expiration = after;
        let at = after.map_or(NEVER, |after| {
            self.inner.shared.may_expire.store(true, Ordering::Release);
            self.inner.shared.now().saturating_add(nanos(after)).min(NEVER - 1)
        });
        self.owner.set_expires_at(at);
    }

    /// What ends its waiting from elsewhere.
    pub fn canceller(&self) -> Canceller {
        Canceller { owner: self.owner.clone() }
    }

    /// Lets requests wait again after a cancellation.
    pub fn reset_cancel(&mut self) {
        self.owner.seat.lock().is_cancelled = false;
    }

    /// True if it has taken no lock, or given all back.
    pub fn is_empty(&self) -> bool {
        self.log.is_empty()
    }

    /// Bytes in which it remembers what it holds.
    pub fn log_bytes(&self) -> usize {
        self.log.capacity()
    }

    /// How many entries of it were looked at to forget one.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn log_entries_looked_at(&self) -> usize {
        self.log.looked_at
    }

    /// Locks one key. Held already in this mode or a stronger one: nothing happens. Held shared and
    /// wanted exclusive: an upgrade.
    /// # Errors
    /// `TimedOut(LockTimeout)`: not in time · `Busy(Deadlock)`: waiting would have closed a circle;
    /// release something · `Aborted`: cancelled · `Aborted(LockLimit)`: no memory left for locks ·
    /// `Expired`: its locks may have been stolen, start anew · `ColumnFamilyDropped` ·
    /// `InvalidArgument`: a family of another manager, a key too long.
    #[inline]
    pub fn lock_key(&mut self, family: &Arc<Family>, key: &[u8], mode: LockMode) -> Result<()> {
        self.lock(family, Span::point(key), mode)
    }

    /// Locks all keys from `left` to `right`, both included, whether they exist or not. In the
    /// comparator's order: nobody flips anything for a descending one. A range without a key in it
    /// is granted, and nothing held.
    /// # Errors
    /// As [`lock_key`](Self::lock_key); `InvalidArgument` also if `left` lies behind `right`,
    /// `NotSupported` in a family that locks points only.
    pub fn lock_range(
        &mut self,
        family: &Arc<Family>,
        left: Endpoint<'_>,
        right: Endpoint<'_>,
        mode: LockMode,
    ) -> Result<()> {
        let Some(span) = range(family, left, right)? else { return Ok(()) };
        self.lock(family, span, mode)
    }

    fn lock(&mut self, family: &Arc<Family>, span: Span<'_>, mode: LockMode) -> Result<()> {
        let timeout = self.options.lock_timeout;
        if let Some(waiter) = self.start(family, span, mode, timeout != Timeout::Never)? {
            let (pieces, bytes) = self.wait(&waiter, timeout)?;
            self.finish(family, span, pieces, bytes);
        }
        Ok(())
    }

    /// Asks for a lock. `None`: it is held. Otherwise the request that waits.
    #[inline]
    pub(crate) fn start(
        &mut self,
        family: &Arc<Family>,
        span: Span<'_>,
        mode: LockMode,
        may_wait: bool,
    ) -> Result<Option<Arc<Waiter>>> {
        let shared = &self.inner.shared;
        shared.process.check("the lock manager")?;
        if !Arc::ptr_eq(&family.shared, shared) {
            return Err(foreign_family(family));
        }
        if span.lo.key.len() > MAX_KEY_BYTES || span.hi.key.len() > MAX_KEY_BYTES {
            return Err(Error::invalid_argument("a key of 4 GiB or more cannot be locked"));
        }
        if self.owner.expires_at() != NEVER {
            self.check_expiry()?;
        }
        if !self.inner.has_room(self.untold) {
            return Err(lock_limit());
        }
        // What escalation has joined may be held without being in the log.
        if self.log.is_empty() && !self.owner.escalated.load(Ordering::Acquire) {
            self.owner.set_stamp(shared.next_ticket());
        }
        let request = Request { owner: &self.owner, stamp: self.owner.stamp(), span, mode };
        match family.acquire(&request, may_wait) {
            Decision::Granted(pieces, bytes) => {
                self.finish(family, span, pieces, bytes);
                Ok(None)
            }
            Decision::Waits(waiter) => Ok(Some(waiter)),
            Decision::Refused => {
                shared.counters.timeouts.fetch_add(1, Ordering::Relaxed);
                Err(timed_out(family, &request))
            }
            Decision::Dropped => Err(dropped(family.id)),
        }
    }

    /// Notes what was granted.
    #[inline]
    pub(crate) fn finish(&mut self, family: &Arc<Family>, span: Span<'_>, pieces: Pieces, bytes: i64) {
        self.record(family, span, pieces);
        self.tell(bytes);
    }

    /// Notes what was taken.
    #[inline]
    fn record(&mut self, family: &Arc<Family>, span: Span<'_>, pieces: Pieces) {
        let index = match self.families.iter().position(|f| Arc::ptr_eq(f, family)) {
            Some(index) => index,
            None => {
                self.families.push(family.clone());
                self.families.len() - 1
            }
        };
        match pieces {
            Pieces::Nothing => {}
            Pieces::Whole => self.log.push(Change::Taken, index, span),
            Pieces::Some(pieces) => {
                for piece in pieces {
                    self.log.push(piece.change, index, piece.span.as_span());
                }
            }
        }
    }

    /// Adds to what the manager is to be told, and tells it if that is much.
    #[inline]
    fn tell(&mut self, bytes: i64) {
        self.untold += bytes;
        if self.untold.abs() > self.inner.shared.untold_bytes() {
            self.inner.shared.add_bytes(std::mem::take(&mut self.untold));
        }
    }

    #[cold]
    fn check_expiry(&self) -> Result<()> {
        if self.owner.is_stolen() || self.inner.shared.now() >= self.owner.expires_at() {
            return Err(expired());
        }
        Ok(())
    }

    /// Sleeps until the request is settled, or withdraws it.
    #[cold]
    fn wait(&mut self, waiter: &Arc<Waiter>, timeout: Timeout) -> Result<(Pieces, i64)> {
        let shared = self.inner.shared.clone();
        shared.counters.waits.fetch_add(1, Ordering::Relaxed);
        let start = if self.needs_clock(timeout) { shared.now() } else { 0 };
        let deadline = match timeout {
            Timeout::Forever => NEVER,
            Timeout::Never => start,
            Timeout::After(time) => start.saturating_add(nanos(time)),
        };
        let mut detect_at = if self.options.deadlock_detect {
            start.saturating_add(nanos(self.options.deadlock_timeout))
        } else {
            NEVER
        };
        loop {
            let expiry = self.expiry_in_the_way(waiter);
            match self.sleep(&shared, deadline.min(detect_at).min(expiry)) {
                Woken::Settled(Outcome::Granted(pieces, bytes)) => return Ok((pieces, bytes)),
                Woken::Settled(Outcome::Failed(why)) => return Err(why),
                Woken::Nudged => {}
                Woken::Cancelled => {
                    if waiter.family.withdraw(waiter) {
                        shared.counters.cancellations.fetch_add(1, Ordering::Relaxed);
                        return Err(Error::aborted("waiting for a lock was cancelled"));
                    }
                }
                Woken::Late(now) if now >= detect_at => {
                    detect_at = NEVER;
                    if deadlock::is_victim(&shared, waiter, self.options.deadlock_detect_depth) {
                        return Err(would_close_circle(waiter));
                    }
                }
                Woken::Late(now) if now >= deadline => {
                    if waiter.family.withdraw(waiter) {
                        shared.counters.timeouts.fetch_add(1, Ordering::Relaxed);
                        return Err(timed_out(&waiter.family, &waiter.request()));
                    }
                }
                Woken::Late(_) => waiter.family.decide(waiter),
            }
        }
    }

    fn needs_clock(&self, timeout: Timeout) -> bool {
        timeout != Timeout::Forever
            || (self.options.deadlock_detect && !self.options.deadlock_timeout.is_zero())
    }

    /// When somebody's locks expire that alone are in the way. Clears the word that this may have
    /// changed.
    fn expiry_in_the_way(&self, waiter: &Waiter) -> u64 {
        if !self.inner.shared.may_expire.load(Ordering::Acquire) {
            return NEVER;
        }
        self.owner.seat.lock().is_nudged = false;
        waiter.family.expiry_in_the_way(waiter)
    }

    /// Sleeps until there is news or the time has come.
    fn sleep(&self, shared: &Shared, until: u64) -> Woken {
        let mut seat = self.owner.seat.lock();
        loop {
            if let Some(outcome) = seat.outcome.take() {
                return Woken::Settled(outcome);
            }
            if seat.is_cancelled {
                return Woken::Cancelled;
            }
            if std::mem::take(&mut seat.is_nudged) {
                return Woken::Nudged;
            }
            if until == NEVER {
                self.owner.wake.wait(&mut seat);
                continue;
            }
            let now = if until == 0 { 0 } else { shared.now() };
            if now >= until {
                return Woken::Late(now);
            }
            self.sleep_for(&mut seat, until - now);
        }
    }

    #[cfg(not(any(loom, shuttle)))]
    fn sleep_for(&self, seat: &mut MutexGuard<'_, Seat>, nanos: u64) {
        // Whether the time has come is for the manager's clock to say.
        let _timed_out = self.owner.wake.wait_for(seat, std::time::Duration::from_nanos(nanos));
    }

    /// Models have no time: they use clocks that stand still and wait for events.
    #[cfg(any(loom, shuttle))]
    fn sleep_for(&self, seat: &mut MutexGuard<'_, Seat>, _nanos: u64) {
        self.owner.wake.wait(seat);
    }

    /// Releases one key.
    /// # Errors
    /// `InvalidArgument` if it is not held, or only as a part of what escalation has joined, which
    /// is held to the end.
    pub fn unlock_key(&mut self, family: &Arc<Family>, key: &[u8]) -> Result<()> {
        self.unlock(family, Span::point(key))
    }

    /// Releases all it holds between `left` and `right`, both included.
    /// # Errors
    /// As [`unlock_key`](Self::unlock_key) and [`lock_range`](Self::lock_range).
    pub fn unlock_range(
        &mut self,
        family: &Arc<Family>,
        left: Endpoint<'_>,
        right: Endpoint<'_>,
    ) -> Result<()> {
        match range(family, left, right)? {
            Some(span) => self.unlock(family, span),
            None => Ok(()),
        }
    }

    pub(crate) fn unlock(&mut self, family: &Arc<Family>, span: Span<'_>) -> Result<()> {
        self.inner.shared.process.check("the lock manager")?;
        let bytes = family.release(span, self.owner.id, Escalated::Keep).ok_or_else(not_held)?;
        self.tell(bytes);
        let index = self.families.iter().position(|f| Arc::ptr_eq(f, family));
        if let Some((start, count)) = index.and_then(|index| self.log.forget(index, span)) {
            for mark in self.save_points.iter_mut().filter(|mark| **mark > start) {
                *mark -= count;
            }
        }
        Ok(())
    }

    /// Makes what it holds exclusively between `left` and `right` shared; those who wait to share
    /// it are let through.
    /// # Errors
    /// `InvalidArgument` if it holds nothing of it exclusively; otherwise as
    /// [`lock_range`](Self::lock_range).
    pub fn downgrade(&mut self, family: &Arc<Family>, left: Endpoint<'_>, right: Endpoint<'_>) -> Result<()> {
        let span = match (left, right) {
            (Endpoint::Key(a), Endpoint::Key(b)) if a == b => Some(Span::point(a)),
            _ => range(family, left, right)?,
        };
        match span {
            Some(span) => self.downgrade_span(family, span),
            None => Ok(()),
        }
    }

    pub(crate) fn downgrade_span(&mut self, family: &Arc<Family>, span: Span<'_>) -> Result<()> {
        self.inner.shared.process.check("the lock manager")?;
        let bytes = family.downgrade(span, self.owner.id).ok_or_else(not_held)?;
        self.tell(bytes);
        Ok(())
    }

    /// How a request ended that was left waiting, if it has.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn take_outcome(&mut self) -> Option<Outcome> {
        self.owner.seat.lock().outcome.take()
    }

    /// Remembers what is held now.
    pub fn set_save_point(&mut self) {
        self.save_points.push(self.log.mark());
    }

    /// Forgets the newest save point; what was taken since belongs to the one before.
    /// # Errors
    /// `NotFound` if there is none.
    pub fn pop_save_point(&mut self) -> Result<()> {
        self.save_points.pop().map(|_| ()).ok_or_else(no_save_point)
    }

    /// Releases what was taken since the newest save point, makes shared what was upgraded since,
    /// and forgets the save point. Locks that escalation has joined stay.
    /// # Errors
    /// `NotFound` if there is none.
    pub fn rollback_to_save_point(&mut self) -> Result<()> {
        self.inner.shared.process.check("the lock manager")?;
        let mark = self.save_points.pop().ok_or_else(no_save_point)?;
        let (id, mut bytes) = (self.owner.id, 0);
        for entry in self.log.since(mark) {
            let family = &self.families[entry.family];
            let given_up = match entry.change {
                Change::Taken => family.release(entry.span, id, Escalated::Keep),
                Change::Upgraded => family.downgrade(entry.span, id),
            };
            bytes += given_up.unwrap_or(0);
        }
        // What escalation has kept is still named by its earlier entries or found by the sweep at
        // the end.
        self.log.truncate(mark);
        self.tell(bytes);
        Ok(())
    }

    /// From now on nobody steals its locks, whether they expire or not.
    /// # Errors
    /// `Expired` if they have expired; release everything and start anew.
    pub fn begin_commit(&mut self) -> Result<()> {
        if self.owner.expires_at() != NEVER {
            self.check_expiry()?;
        }
        if self.owner.begin_commit() { Ok(()) } else { Err(expired()) }
    }

    /// Releases everything, in the order in which it was taken, and forgets all save points. The
    /// locker can be used again.
    /// In a forked child nothing is released: the locks are the parent's.
    pub fn release_all(&mut self) {
        if !self.inner.shared.process.is_here() {
            return;
        }
        let (id, mut bytes) = (self.owner.id, 0);
        for entry in self.log.since(0) {
            if entry.change == Change::Taken {
                let family = &self.families[entry.family];
                bytes += family.release(entry.span, id, Escalated::Release).unwrap_or(0);
            }
        }
        // Again, if locks were joined while they were being swept up.
        while self.owner.escalated.load(Ordering::Acquire) {
            self.owner.escalated.store(false, Ordering::Release);
            bytes += self.families.iter().map(|family| family.sweep(id)).sum::<i64>();
        }
        // Each lock that it holds has its owner.
        if Arc::strong_count(&self.owner) > 1 {
            let fickle = self.families.iter().filter(|family| family.may_change_its_mind());
            bytes += fickle.map(|family| family.purge(id)).sum::<i64>();
        }
        self.log.clear();
        self.families.clear();
        self.save_points.clear();
        self.owner.restart();
        self.tell(bytes);
    }
}

impl Drop for Locker {
    fn drop(&mut self) {
        self.release_all();
        self.inner.shared.add_bytes(self.untold);
    }
}

/// Why [`Locker::sleep`] returned.
enum Woken {
    Settled(Outcome),
    Cancelled,
    Nudged,
    /// It is this late.
    Late(u64),
}

fn nanos(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(NEVER - 1)
}

/// The span of a closed range; `None` if no key can be in it.
fn range<'a>(family: &Family, left: Endpoint<'a>, right: Endpoint<'a>) -> Result<Option<Span<'a>>> {
    if family.locking() == Locking::Points {
        let why = format!("column family {} locks points only", family.id);
        return Err(Error::not_supported(why));
    }
    let span = Span::closed(left, right);
    match family.order.cmp(span.lo, span.hi) {
        std::cmp::Ordering::Less => Ok(Some(span)),
        std::cmp::Ordering::Equal => Ok(None),
        std::cmp::Ordering::Greater => {
            let (left, right) = (span.lo.to_endpoint(), span.hi.to_endpoint());
            Err(Error::invalid_argument(format!("the range starts at {left}, behind its end {right}")))
        }
    }
}

/// The keys that a request is for, and their family, for people.
fn keys_text(family: &Family, span: Span<'_>) -> String {
    let (start, end) = (span.lo.to_endpoint(), span.hi.to_endpoint());
    let keys =
        if start.key == end.key { format!("key '{start}'") } else { format!("keys '{start}' to '{end}'") };
    format!("{keys} of column family {}", family.id)
}

#[cold]
fn timed_out(family: &Family, request: &Request<'_>) -> Error {
    let keys = keys_text(family, request.span);
    let holder = match family.holder(request) {
        Some(id) => format!("transaction {id} holds it"),
        None => "others wait for it".to_owned(),
    };
    let why = format!("the lock of {keys} was not granted in time: {holder}");
    Error::timed_out(why).with_subcode(SubCode::LockTimeout).with_retryable(true)
}

#[cold]
fn would_close_circle(waiter: &Waiter) -> Error {
    let keys = keys_text(&waiter.family, waiter.request().span);
    let why = format!(
        "waiting for the lock of {keys} would close a circle of waiting transactions; roll back and start anew"
    );
    Error::busy(why).with_subcode(SubCode::Deadlock).with_retryable(true)
}

#[cold]
fn lock_limit() -> Error {
    Error::aborted("locks take as much memory as they may (max_lock_memory)").with_subcode(SubCode::LockLimit)
}

#[cold]
fn expired() -> Error {
    Error::new(ErrorKind::Expired, "the locks have expired; others may have taken them")
}

#[cold]
fn foreign_family(family: &Family) -> Error {
    Error::invalid_argument(format!("column family {} belongs to another lock manager", family.id))
}

#[cold]
fn not_held() -> Error {
    Error::invalid_argument("nothing of this is held")
}

#[cold]
fn no_save_point() -> Error {
    Error::not_found("there is no save point")
}
