//! A locker, which takes and holds the locks of one transaction.
//!
//! In: keys and ranges to lock, save points, the end of the transaction. Out: `Ok`, and the lock is
//! held; or an error, and nothing has changed.
//!
//! Invariants
//!  1. The log (`log.rs`) names every span that the locker holds, or `LockOwner::escalated` is set.
//!  2. The locker has at most one request in the queues, and only during a call.

use crate::cut::{Endpoint, KeySpan};
use crate::deadlock;
use crate::family::{LockDecision, LockFamily, dropped};
use crate::fragment::{Escalated, FragmentChange, Pieces};
use crate::log::{LockLogEntry, Log};
use crate::manager::{Inner, LockShared};
use crate::owner::{LockOwner, NEVER, Seat, WaitOutcome};
use crate::wait::{LockRequest, Waiter};
use crate::{LockMode, LockerOptions, Locking, Timeout};
use esker_base::sync::atomic::Ordering;
use esker_base::sync::{Arc, MutexGuard};
use esker_base::{Error, ErrorKind, Result, SubCode, perf_count, perf_time};

/// Bytes of the longest key that can be locked: RocksDB's limit for keys.
const MAX_KEY_BYTES: usize = u32::MAX as usize;

/// Takes and holds the locks of one transaction. A drop releases all locks.
#[derive(Debug)]
pub struct Locker {
    inner: Arc<Inner>,
    owner: Arc<LockOwner>,
    options: LockerOptions,
    log: Log,
    /// The families in which this locker has locks. The log refers to them by index.
    families: Vec<Arc<LockFamily>>,
    /// The length of the log at each save point.
    save_points: Vec<usize>,
    /// Bytes of locks that the manager's total does not have yet.
    unreported_bytes: i64,
}

/// Cancels a locker's wait from another thread.
#[derive(Clone, Debug)]
pub struct Canceller {
    owner: Arc<LockOwner>,
}

impl Canceller {
    /// Makes the locker's waiting request fail with `Aborted`. Until [`Locker::reset_cancel`], each
    /// later request that would have to wait fails too.
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
            owner: Arc::new(LockOwner::new(id, expires_at)),
            inner,
            options,
            log: Log::default(),
            families: Vec::new(),
            save_points: Vec::new(),
            unreported_bytes: 0,
        }
    }

    /// The locker's id, as reports show it.
    pub fn id(&self) -> u64 {
        self.owner.id
    }

    /// Sets the limit on the waits of later requests.
    pub fn set_lock_timeout(&mut self, timeout: Timeout) {
        self.options.lock_timeout = timeout;
    }

    /// Sets the time, counted from now, after which other lockers may steal this locker's locks.
    /// `None`: never. Requests that already wait for this locker ignore the change.
    pub fn set_expiration(&mut self, after: Option<std::time::Duration>) {
        self.options.expiration = after;
        let at = after.map_or(NEVER, |after| {
            self.inner.shared.may_expire.store(true, Ordering::Release);
            self.inner.shared.now().saturating_add(nanos(after)).min(NEVER - 1)
        });
        self.owner.set_expires_at(at);
    }

    /// Makes a handle with which another thread can cancel this locker's waits.
    pub fn canceller(&self) -> Canceller {
        Canceller { owner: self.owner.clone() }
    }

    /// Allows requests to wait again after a cancellation.
    pub fn reset_cancel(&mut self) {
        self.owner.seat.lock().is_cancelled = false;
    }

    /// Whether the locker holds no lock.
    pub fn is_empty(&self) -> bool {
        self.log.is_empty()
    }

    /// Number of keys that the locker has locked one by one. Locks of ranges do not count, and a
    /// key whose lock was released long after it was taken may still count. Costs a look at each
    /// lock.
    pub fn num_point_locks(&self) -> usize {
        let is_point =
            |entry: &LockLogEntry<'_>| entry.change == FragmentChange::Taken && entry.span.is_point();
        self.log.since(0).filter(is_point).count()
    }

    /// Bytes of memory of the locker's log.
    pub fn log_bytes(&self) -> usize {
        self.log.capacity()
    }

    /// Number of log entries that calls of `unlock` have read.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn log_entries_looked_at(&self) -> usize {
        self.log.looked_at
    }

    /// Locks one key. If the locker has locked the key in this mode or a stronger one, does
    /// nothing. Upgrades a shared lock if `mode` is exclusive.
    /// # Errors
    /// `TimedOut(LockTimeout)`: the wait took too long · `Busy(Deadlock)`: the wait would close a
    /// cycle; release a lock · `Aborted`: the wait was cancelled · `Aborted(LockLimit)`: the memory
    /// for locks is used up · `Expired`: another locker may have stolen locks; release all and
    /// start again · `ColumnFamilyDropped`: the family was dropped · `InvalidArgument`: the family
    /// belongs to another manager, or the key is too long.
    #[inline]
    pub fn lock_key(&mut self, family: &Arc<LockFamily>, key: &[u8], mode: LockMode) -> Result<()> {
        self.lock(family, KeySpan::point(key), mode)
    }

    /// Locks all keys from `left` to `right`, both included, in the comparator's order. Keys need
    /// not exist. If the range can contain no key, the call succeeds without a lock.
    /// # Errors
    /// `InvalidArgument`: `left` lies behind `right`, the family belongs to another manager, or a
    /// key is too long · `NotSupported`: the family locks points only · `TimedOut(LockTimeout)` ·
    /// `Busy(Deadlock)` · `Aborted` · `Aborted(LockLimit)` · `Expired` · `ColumnFamilyDropped`: see
    /// [`lock_key`](Self::lock_key).
    pub fn lock_range(
        &mut self,
        family: &Arc<LockFamily>,
        left: Endpoint<'_>,
        right: Endpoint<'_>,
        mode: LockMode,
    ) -> Result<()> {
        let Some(span) = range(family, left, right)? else { return Ok(()) };
        self.lock(family, span, mode)
    }

    fn lock(&mut self, family: &Arc<LockFamily>, span: KeySpan<'_>, mode: LockMode) -> Result<()> {
        let timeout = self.options.lock_timeout;
        if let Some(waiter) = self.start(family, span, mode, timeout != Timeout::Never)? {
            let clock = self.inner.shared.clock.clone();
            let (pieces, bytes) = perf_time!(key_lock_wait_time, clock, self.wait(&waiter, timeout))?;
            self.finish(family, span, pieces, bytes);
        }
        Ok(())
    }

    /// Requests a lock. `None`: the lock is held. `Some`: the request waits.
    #[inline]
    pub(crate) fn start(
        &mut self,
        family: &Arc<LockFamily>,
        span: KeySpan<'_>,
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
        if !self.inner.has_room(self.unreported_bytes) {
            return Err(lock_limit());
        }
        // An empty log is not enough: escalation may have joined locks that the log does not name.
        if self.log.is_empty() && !self.owner.escalated.load(Ordering::Acquire) {
            self.owner.set_stamp(shared.next_ticket());
        }
        let request = LockRequest { owner: &self.owner, stamp: self.owner.stamp(), span, mode };
        match family.acquire(&request, may_wait) {
            LockDecision::Granted(pieces, bytes) => {
                self.finish(family, span, pieces, bytes);
                Ok(None)
            }
            LockDecision::Waits(waiter) => Ok(Some(waiter)),
            LockDecision::Refused => {
                shared.counters.timeouts.fetch_add(1, Ordering::Relaxed);
                Err(timed_out(family, &request))
            }
            LockDecision::Dropped => Err(dropped(family.id)),
        }
    }

    /// Records a grant in the log and the byte count.
    #[inline]
    pub(crate) fn finish(&mut self, family: &Arc<LockFamily>, span: KeySpan<'_>, pieces: Pieces, bytes: i64) {
        self.record(family, span, pieces);
        self.report_bytes(bytes);
    }

    /// Records the newly held pieces in the log.
    #[inline]
    fn record(&mut self, family: &Arc<LockFamily>, span: KeySpan<'_>, pieces: Pieces) {
        let index = match self.families.iter().position(|f| Arc::ptr_eq(f, family)) {
            Some(index) => index,
            None => {
                self.families.push(family.clone());
                self.families.len() - 1
            }
        };
        match pieces {
            Pieces::Nothing => {}
            Pieces::Whole => self.log.push(FragmentChange::Taken, index, span),
            Pieces::Some(pieces) => {
                for piece in pieces {
                    self.log.push(piece.change, index, piece.span.as_span());
                }
            }
        }
    }

    /// Adds to the unreported bytes. Once they exceed a limit, adds them to the manager's total.
    #[inline]
    fn report_bytes(&mut self, bytes: i64) {
        self.unreported_bytes += bytes;
        if self.unreported_bytes.abs() > self.inner.shared.max_unreported_bytes() {
            self.inner.shared.add_bytes(std::mem::take(&mut self.unreported_bytes));
        }
    }

    #[cold]
    fn check_expiry(&self) -> Result<()> {
        if self.owner.is_stolen() || self.inner.shared.now() >= self.owner.expires_at() {
            return Err(expired());
        }
        Ok(())
    }

    /// Sleeps until another thread ends the wait. On a timeout, a cancellation or a deadlock,
    /// withdraws the request.
    #[cold]
    fn wait(&mut self, waiter: &Arc<Waiter>, timeout: Timeout) -> Result<(Pieces, i64)> {
        let shared = self.inner.shared.clone();
        shared.counters.waits.fetch_add(1, Ordering::Relaxed);
        perf_count!(key_lock_wait_count);
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
                WakeReason::Settled(WaitOutcome::Granted(pieces, bytes)) => return Ok((pieces, bytes)),
                WakeReason::Settled(WaitOutcome::Failed(why)) => return Err(why),
                WakeReason::Nudged => {}
                WakeReason::Cancelled => {
                    if waiter.family.withdraw(waiter) {
                        shared.counters.cancellations.fetch_add(1, Ordering::Relaxed);
                        return Err(Error::aborted("waiting for a lock was cancelled"));
                    }
                }
                WakeReason::DeadlinePassed(now) if now >= detect_at => {
                    detect_at = NEVER;
                    if deadlock::withdraw_if_deadlocked(&shared, waiter, self.options.deadlock_detect_depth) {
                        return Err(would_close_cycle(waiter));
                    }
                }
                WakeReason::DeadlinePassed(now) if now >= deadline => {
                    if waiter.family.withdraw(waiter) {
                        shared.counters.timeouts.fetch_add(1, Ordering::Relaxed);
                        return Err(timed_out(&waiter.family, &waiter.request()));
                    }
                }
                WakeReason::DeadlinePassed(_) => waiter.family.decide(waiter),
            }
        }
    }

    fn needs_clock(&self, timeout: Timeout) -> bool {
        timeout != Timeout::Forever
            || (self.options.deadlock_detect && !self.options.deadlock_timeout.is_zero())
    }

    /// The first time at which a lock that blocks `waiter` expires. `NEVER` if an earlier request
    /// blocks `waiter` too. Clears `is_nudged` first, so that later changes of the expiry are
    /// noticed.
    fn expiry_in_the_way(&self, waiter: &Waiter) -> u64 {
        if !self.inner.shared.may_expire.load(Ordering::Acquire) {
            return NEVER;
        }
        self.owner.seat.lock().is_nudged = false;
        waiter.family.expiry_in_the_way(waiter)
    }

    /// Sleeps until an outcome arrives or the deadline passes.
    fn sleep(&self, shared: &LockShared, until: u64) -> WakeReason {
        let mut seat = self.owner.seat.lock();
        loop {
            if let Some(outcome) = seat.outcome.take() {
                return WakeReason::Settled(outcome);
            }
            if seat.is_cancelled {
                return WakeReason::Cancelled;
            }
            if std::mem::take(&mut seat.is_nudged) {
                return WakeReason::Nudged;
            }
            if until == NEVER {
                self.owner.wake.wait(&mut seat);
                continue;
            }
            let now = if until == 0 { 0 } else { shared.now() };
            if now >= until {
                return WakeReason::DeadlinePassed(now);
            }
            self.sleep_for(&mut seat, until - now);
        }
    }

    #[cfg(not(any(loom, shuttle)))]
    fn sleep_for(&self, seat: &mut MutexGuard<'_, Seat>, nanos: u64) {
        // The manager's clock decides whether the deadline has passed.
        let _timed_out = self.owner.wake.wait_for(seat, std::time::Duration::from_nanos(nanos));
    }

    /// In models no time passes: only events end waits.
    #[cfg(any(loom, shuttle))]
    fn sleep_for(&self, seat: &mut MutexGuard<'_, Seat>, _nanos: u64) {
        self.owner.wake.wait(seat);
    }

    /// Releases the lock of one key.
    /// # Errors
    /// `InvalidArgument`: the locker does not hold the key, or the key lies in a range that
    /// escalation joined. The locker keeps a joined range until it releases all locks.
    pub fn unlock_key(&mut self, family: &Arc<LockFamily>, key: &[u8]) -> Result<()> {
        self.unlock(family, KeySpan::point(key))
    }

    /// Releases all locks between `left` and `right`, both included.
    /// # Errors
    /// `InvalidArgument`: `left` lies behind `right`, or the locker holds nothing there except
    /// parts of ranges that escalation joined · `NotSupported`: the family locks points only.
    pub fn unlock_range(
        &mut self,
        family: &Arc<LockFamily>,
        left: Endpoint<'_>,
        right: Endpoint<'_>,
    ) -> Result<()> {
        match range(family, left, right)? {
            Some(span) => self.unlock(family, span),
            None => Ok(()),
        }
    }

    pub(crate) fn unlock(&mut self, family: &Arc<LockFamily>, span: KeySpan<'_>) -> Result<()> {
        self.inner.shared.process.check("the lock manager")?;
        let bytes = family.release(span, self.owner.id, Escalated::Keep).ok_or_else(not_held)?;
        self.report_bytes(bytes);
        let index = self.families.iter().position(|f| Arc::ptr_eq(f, family));
        if let Some((start, count)) = index.and_then(|index| self.log.forget(index, span)) {
            for mark in self.save_points.iter_mut().filter(|mark| **mark > start) {
                *mark -= count;
            }
        }
        Ok(())
    }

    /// Changes the locker's exclusive locks between `left` and `right` to shared ones. Waiting
    /// shared requests may then be granted.
    /// # Errors
    /// `InvalidArgument`: `left` lies behind `right`, or the locker has no exclusive lock there ·
    /// `NotSupported`: the family locks points only.
    pub fn downgrade(
        &mut self,
        family: &Arc<LockFamily>,
        left: Endpoint<'_>,
        right: Endpoint<'_>,
    ) -> Result<()> {
        let span = match (left, right) {
            (Endpoint::Key(a), Endpoint::Key(b)) if a == b => Some(KeySpan::point(a)),
            _ => range(family, left, right)?,
        };
        match span {
            Some(span) => self.downgrade_span(family, span),
            None => Ok(()),
        }
    }

    pub(crate) fn downgrade_span(&mut self, family: &Arc<LockFamily>, span: KeySpan<'_>) -> Result<()> {
        self.inner.shared.process.check("the lock manager")?;
        let bytes = family.downgrade(span, self.owner.id).ok_or_else(not_held)?;
        self.report_bytes(bytes);
        Ok(())
    }

    /// Takes the outcome of the waiting request, if there is one.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn take_outcome(&mut self) -> Option<WaitOutcome> {
        self.owner.seat.lock().outcome.take()
    }

    /// Sets a save point, to which [`rollback_to_save_point`](Self::rollback_to_save_point)
    /// returns.
    pub fn set_save_point(&mut self) {
        self.save_points.push(self.log.mark());
    }

    /// Removes the newest save point. The locker keeps its locks.
    /// # Errors
    /// `NotFound` if there is no save point.
    pub fn pop_save_point(&mut self) -> Result<()> {
        self.save_points.pop().map(|_| ()).ok_or_else(no_save_point)
    }

    /// Undoes all changes since the newest save point, and removes the save point. Releases new
    /// locks, and makes upgraded locks shared again. Locks that escalation has joined stay.
    /// # Errors
    /// `NotFound` if there is no save point.
    pub fn rollback_to_save_point(&mut self) -> Result<()> {
        self.inner.shared.process.check("the lock manager")?;
        let mark = self.save_points.pop().ok_or_else(no_save_point)?;
        let (id, mut bytes) = (self.owner.id, 0);
        for entry in self.log.since(mark) {
            let family = &self.families[entry.family];
            let given_up = match entry.change {
                FragmentChange::Taken => family.release(entry.span, id, Escalated::Keep),
                FragmentChange::Upgraded => family.downgrade(entry.span, id),
            };
            bytes += given_up.unwrap_or(0);
        }
        // Joined locks stay held. Earlier log entries name them, or the sweep in `release_all`
        // finds them.
        self.log.truncate(mark);
        self.report_bytes(bytes);
        Ok(())
    }

    /// Protects the locker's locks from theft from now on, even after they expire.
    /// # Errors
    /// `Expired` if the locks have expired. Release all of them and start again.
    pub fn begin_commit(&mut self) -> Result<()> {
        if self.owner.expires_at() != NEVER {
            self.check_expiry()?;
        }
        if self.owner.begin_commit() { Ok(()) } else { Err(expired()) }
    }

    /// Releases all locks, in the order in which the locker took them, and removes all save points.
    /// The locker can be used again. In a forked child the call does nothing: the locks belong to
    /// the parent.
    pub fn release_all(&mut self) {
        if !self.inner.shared.process.is_here() {
            return;
        }
        let (id, mut bytes) = (self.owner.id, 0);
        for entry in self.log.since(0) {
            if entry.change == FragmentChange::Taken {
                let family = &self.families[entry.family];
                bytes += family.release(entry.span, id, Escalated::Release).unwrap_or(0);
            }
        }
        // Sweeps again if escalation joined locks meanwhile.
        while self.owner.escalated.load(Ordering::Acquire) {
            self.owner.escalated.store(false, Ordering::Release);
            bytes += self.families.iter().map(|family| family.sweep(id)).sum::<i64>();
        }
        // Each held lock has a reference to its owner. If references are left, an inconsistent
        // comparator has hidden some locks.
        if Arc::strong_count(&self.owner) > 1 {
            let unstable = self.families.iter().filter(|family| family.has_custom_order());
            bytes += unstable.map(|family| family.purge(id)).sum::<i64>();
        }
        self.log.clear();
        self.families.clear();
        self.save_points.clear();
        self.owner.restart();
        self.report_bytes(bytes);
    }
}

impl Drop for Locker {
    fn drop(&mut self) {
        self.release_all();
        self.inner.shared.add_bytes(self.unreported_bytes);
    }
}

/// The reason why `Locker::sleep` returned.
enum WakeReason {
    Settled(WaitOutcome),
    Cancelled,
    Nudged,
    /// The deadline has passed. Holds the current time.
    DeadlinePassed(u64),
}

fn nanos(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(NEVER - 1)
}

/// The span from `left` to `right`, both included. `None` if it can contain no key.
fn range<'a>(family: &LockFamily, left: Endpoint<'a>, right: Endpoint<'a>) -> Result<Option<KeySpan<'a>>> {
    if family.locking() == Locking::Points {
        let why = format!("column family {} locks points only", family.id);
        return Err(Error::not_supported(why));
    }
    let span = KeySpan::closed(left, right);
    match family.order.cmp(span.lo, span.hi) {
        std::cmp::Ordering::Less => Ok(Some(span)),
        std::cmp::Ordering::Equal => Ok(None),
        std::cmp::Ordering::Greater => {
            let (left, right) = (span.lo.to_endpoint(), span.hi.to_endpoint());
            Err(Error::invalid_argument(format!("the range starts at {left}, behind its end {right}")))
        }
    }
}

/// Names the keys of a request and their family, for error messages.
fn keys_text(family: &LockFamily, span: KeySpan<'_>) -> String {
    let (start, end) = (span.lo.to_endpoint(), span.hi.to_endpoint());
    let keys =
        if start.key == end.key { format!("key '{start}'") } else { format!("keys '{start}' to '{end}'") };
    format!("{keys} of column family {}", family.id)
}

#[cold]
fn timed_out(family: &LockFamily, request: &LockRequest<'_>) -> Error {
    let keys = keys_text(family, request.span);
    let holder = match family.holder(request) {
        Some(id) => format!("transaction {id} holds it"),
        None => "others wait for it".to_owned(),
    };
    let why = format!("the lock of {keys} was not granted in time: {holder}");
    Error::timed_out(why).with_subcode(SubCode::LockTimeout).with_retryable(true)
}

#[cold]
fn would_close_cycle(waiter: &Waiter) -> Error {
    let keys = keys_text(&waiter.family, waiter.request().span);
    let why = format!(
        "waiting for the lock of {keys} would close a cycle of waiting transactions; roll back and start anew"
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
fn foreign_family(family: &LockFamily) -> Error {
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
