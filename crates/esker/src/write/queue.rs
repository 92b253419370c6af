//! The write queue: many writers, one leader at a time.
//!
//! In: one [`WriteRequest`] per writer. Out: for the leader, the right to write and the requests
//! that may share its record; for a follower, its batch back with the result.
//!
//! A writer that finds no leader leads at once, without allocating or waiting. Other writers spin
//! briefly, then line up, and the leader writes for all that fit into its group. Before it hands
//! over leadership, a leader also writes for the waiters in line: if it only woke the next one, all
//! would wait for a sleeping thread, and the line would never end. A stalled leader lends its lead
//! to requests that need no room ([`WriteRequest::urgent`]): dropping a family may make room.
//!
//! A waiter's states, and its transitions:
//!
//! | state    | means                               | left by                                    |
//! |----------|-------------------------------------|--------------------------------------------|
//! | Waiting  | in line with its request            | the leader: to Taken (in its group), Lead (it is next, or urgent and the leader stalled) or Done (stalled and may not wait) |
//! | Taken    | the leader has the request          | the leader: to Apply or Done               |
//! | Apply    | insert your own batch in memtables  | the waiter: to Taken, with its part done   |
//! | Lead     | you are the leader now              | the waiter returns                         |
//! | Done     | batch and result are here           | the waiter returns                         |
//!
//! Invariants
//!  1. At most one leader: `lead` is `FREE` exactly while no [`Leader`] exists. A writer that finds
//!     it `FREE` takes the lead with one atomic step, without locking the line.
//!  2. Requests are served in the order in which they joined, except urgent ones while the leader
//!     is stalled; a leader that lent the lead has it back before all others.
//!  3. Every follower taken into a group is finished before its leader gives up leadership.
//!  4. `lead` is `QUEUED` exactly while a leader exists and a writer waits in line; it changes to
//!     and from `QUEUED` only under the line's lock. So a leader that finds `ALONE` has no waiters.
//!
//! Source of the grouping rules: RocksDB `db/write_thread.cc` (`EnterAsBatchGroupLeader`).

use super::two_phase::TwoPhase;
use crate::write::apply::ApplyTask;
use esker_base::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use esker_base::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use esker_base::{Error, Result};
use esker_format::write_batch::WriteBatch;
use std::collections::VecDeque;

/// A leader with a batch of at most these bytes takes at most these bytes from others, so that its
/// own write stays fast.
const SMALL_LEADER_BYTES: usize = 128 << 10;

/// The request of one writer.
#[derive(Debug, Default)]
pub(crate) struct WriteRequest {
    pub(crate) batch: WriteBatch,
    pub(crate) sync: bool,
    pub(crate) disable_wal: bool,
    pub(crate) no_slowdown: bool,
    /// The step of a prepared transaction that the batch is, if any; see `two_phase.rs`.
    pub(crate) two_phase: Option<Arc<TwoPhase>>,
    /// The request runs alone in its group: memtable switches, for example.
    pub(crate) exclusive: bool,
    /// The request needs no room, and does not wait for a stalled leader.
    pub(crate) urgent: bool,
}

impl WriteRequest {
    /// Number of sequence numbers that the request takes.
    pub(crate) fn sequences(&self) -> u64 {
        match self.two_phase.as_deref() {
            None => u64::from(self.batch.count()),
            Some(step) => step.numbers(),
        }
    }

    /// The ops that reads see from this request on.
    pub(crate) fn applied(&self) -> Option<&WriteBatch> {
        match self.two_phase.as_deref() {
            None => Some(&self.batch),
            Some(step) => step.committed(&self.batch),
        }
    }
}

#[derive(Debug)]
enum State {
    Waiting(WriteRequest),
    Taken,
    Apply(ApplyTask),
    Lead(WriteRequest),
    Done(WriteBatch, Result<()>),
}

#[derive(Debug)]
struct Waiter {
    state: Mutex<State>,
    changed: Condvar,
    /// Set after each change of the state; a spinning waiter reads it.
    told: AtomicBool,
    urgent: bool,
}

impl Waiter {
    fn new(request: WriteRequest) -> Waiter {
        let urgent = request.urgent;
        let state = Mutex::new(State::Waiting(request));
        Waiter { state, changed: Condvar::new(), told: AtomicBool::new(false), urgent }
    }

    fn set(&self, state: State) {
        self.set_state(self.state.lock(), state);
    }

    /// Makes this waiter the leader. REQUIRES: it has just been taken out of the line.
    fn give_lead(&self) {
        let mut state = self.state.lock();
        let State::Waiting(request) = std::mem::replace(&mut *state, State::Taken) else {
            unreachable!("a request in line is in the state Waiting")
        };
        self.set_state(state, State::Lead(request));
    }

    /// Sleeps until this writer gets leadership. REQUIRES: the waiter's request is exclusive.
    fn wait_for_lead(&self) {
        let mut state = self.state.lock();
        while !matches!(*state, State::Lead(_)) {
            self.changed.wait(&mut state);
        }
    }

    fn set_state(&self, mut held: MutexGuard<'_, State>, state: State) {
        *held = state;
        drop(held);
        self.told.store(true, Ordering::Release);
        self.changed.notify_one();
    }
}

/// Number of spins before a writer sleeps: one to two microseconds. A running leader has written by
/// then, and a sleep would cost both the sleeper and its waker more. 0 on a machine with one
/// processor.
fn looks() -> u32 {
    static LOOKS: OnceLock<u32> = OnceLock::new();
    *LOOKS.get_or_init(|| match std::thread::available_parallelism() {
        _ if cfg!(any(loom, shuttle)) => 0,
        Ok(threads) if threads.get() == 1 => 0,
        _ => 80,
    })
}

fn look_for<T>(mut what: impl FnMut() -> Option<T>) -> Option<T> {
    for _ in 0..looks() {
        if let Some(found) = what() {
            return Some(found);
        }
        std::hint::spin_loop();
    }
    None
}

/// No leader.
const FREE: u8 = 0;
/// A leader and no waiters.
const ALONE: u8 = 1;
/// A leader and waiters.
const QUEUED: u8 = 2;

#[derive(Debug, Default)]
struct Line {
    /// Whether a stalled leader holds the lead: requests that may not wait fail. The leader clears
    /// it before it gives up leadership.
    stalled: bool,
    waiting: VecDeque<Arc<Waiter>>,
}

/// The queue of one database.
#[derive(Debug, Default)]
pub(crate) struct WriteQueue {
    /// `FREE`, `ALONE` or `QUEUED`.
    lead: AtomicU8,
    line: Mutex<Line>,
}

/// The result of joining.
pub(crate) enum Joined<'q> {
    /// The caller leads. It writes its own request, and those that it takes by
    /// [`Leader::take_group`].
    Lead(Leader<'q>, WriteRequest),
    /// Another leader wrote the batch.
    Done(WriteBatch, Result<()>),
}

/// A follower that the leader has taken out of the line.
#[derive(Debug)]
pub(crate) struct Follower {
    waiter: Arc<Waiter>,
    pub(crate) request: WriteRequest,
    /// Bytes of the follower's batch, which it may hold itself for the insertion.
    pub(crate) bytes: usize,
}

impl Follower {
    /// Hands the batch back with its result and wakes the writer.
    pub(crate) fn finish(self, result: Result<()>) {
        self.waiter.set(State::Done(self.request.batch, result));
    }

    /// Lets the follower insert its own batch, which it keeps; the task's countdown reports the
    /// end.
    pub(crate) fn apply_itself(&mut self, task: impl FnOnce(WriteBatch) -> ApplyTask) {
        self.waiter.set(State::Apply(task(std::mem::take(&mut self.request.batch))));
    }
}

/// The right to write. A drop hands the lead to the next waiter in line.
#[derive(Debug)]
pub(crate) struct Leader<'q> {
    queue: &'q WriteQueue,
}

impl WriteQueue {
    /// Joins the line and returns when the request has been written or is to be written by the
    /// caller.
    pub(crate) fn join(&self, request: WriteRequest) -> Joined<'_> {
        self.join_and_wake(request, || {})
    }

    /// Joins the line. Calls `wake_leader` if the request is urgent and the leader is stalled, so
    /// that the leader finds the request.
    pub(crate) fn join_and_wake(&self, request: WriteRequest, wake_leader: impl FnOnce()) -> Joined<'_> {
        self.join_noting(request, wake_leader, || {})
    }

    /// [`WriteQueue::join_and_wake`] that calls `enqueued` once the request has its place in the
    /// line, or the lead. `enqueued` does not panic.
    fn join_noting(
        &self,
        request: WriteRequest,
        wake_leader: impl FnOnce(),
        enqueued: impl FnOnce(),
    ) -> Joined<'_> {
        let free = || (self.lead.load(Ordering::Relaxed) == FREE && self.take_lead()).then_some(());
        if self.take_lead() || look_for(free).is_some() {
            enqueued();
            return Joined::Lead(Leader { queue: self }, request);
        }
        let (waiter, may_borrow) = {
            let mut line = self.line.lock();
            if line.stalled && request.no_slowdown {
                return Joined::Done(request.batch, Err(write_stall()));
            }
            if !self.queue_up() {
                drop(line);
                enqueued();
                return Joined::Lead(Leader { queue: self }, request);
            }
            let waiter = Arc::new(Waiter::new(request));
            line.waiting.push_back(waiter.clone());
            let may_borrow = waiter.urgent && line.stalled;
            (waiter, may_borrow)
        };
        if may_borrow {
            wake_leader();
        }
        enqueued();
        look_for(|| waiter.told.load(Ordering::Acquire).then_some(()));
        let mut own_batch = None;
        let mut state = waiter.state.lock();
        loop {
            match std::mem::replace(&mut *state, State::Taken) {
                State::Done(batch, result) => return Joined::Done(own_batch.unwrap_or(batch), result),
                State::Lead(request) => return Joined::Lead(Leader { queue: self }, request),
                State::Apply(task) => {
                    drop(state);
                    own_batch = Some(task.run());
                    state = waiter.state.lock();
                }
                unchanged @ (State::Waiting(_) | State::Taken) => {
                    *state = unchanged;
                    waiter.changed.wait(&mut state);
                }
            }
        }
    }

    /// Takes the lead if it is free.
    #[inline]
    fn take_lead(&self) -> bool {
        self.lead.compare_exchange(FREE, ALONE, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Marks that a writer waits. Returns false if there was no leader: the caller leads now.
    /// Called under the line's lock.
    fn queue_up(&self) -> bool {
        loop {
            if self.take_lead() {
                return false;
            }
            let queued = self.lead.compare_exchange(ALONE, QUEUED, Ordering::Relaxed, Ordering::Relaxed);
            if queued != Err(FREE) {
                return true;
            }
        }
    }

    /// Number of writers in line.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(super) fn len(&self) -> usize {
        self.line.lock().waiting.len()
    }

    /// Whether a leader waits for room.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(super) fn is_stalled(&self) -> bool {
        self.line.lock().stalled
    }

    /// Waits for the lead and keeps it: nothing is written while the result lives.
    pub(crate) fn lead_alone(&self) -> Leader<'_> {
        match self.join(WriteRequest { exclusive: true, ..WriteRequest::default() }) {
            Joined::Lead(leader, _) => leader,
            Joined::Done(..) => unreachable!("no leader writes an exclusive request of another"),
        }
    }

    /// [`WriteQueue::lead_alone`] that does not wait for a stalled leader.
    /// # Errors
    /// `Incomplete` if the leader is stalled.
    pub(crate) fn lead_alone_without_stall(&self) -> Result<Leader<'_>> {
        match self.join(WriteRequest { exclusive: true, no_slowdown: true, ..WriteRequest::default() }) {
            Joined::Lead(leader, _) => Ok(leader),
            Joined::Done(_, turned_away) => {
                Err(turned_away.expect_err("no leader writes an exclusive request of another"))
            }
        }
    }

    /// [`WriteQueue::lead_alone`] that calls `enqueued` once the caller has its place in the line,
    /// or the lead. `enqueued` does not panic.
    /// # Errors
    /// `Incomplete` if `no_slowdown` is set and the leader is stalled.
    pub(crate) fn lead_alone_noting(&self, no_slowdown: bool, enqueued: impl FnOnce()) -> Result<Leader<'_>> {
        let request = WriteRequest { exclusive: true, no_slowdown, ..WriteRequest::default() };
        match self.join_noting(request, || {}, enqueued) {
            Joined::Lead(leader, _) => Ok(leader),
            Joined::Done(_, turned_away) => {
                Err(turned_away.expect_err("no leader writes an exclusive request of another"))
            }
        }
    }

    /// [`WriteQueue::lead_alone`], which borrows the lead from a stalled leader. `wake_leader`
    /// wakes that leader.
    pub(crate) fn lead_alone_urgently(&self, wake_leader: impl FnOnce()) -> Leader<'_> {
        let request = WriteRequest { exclusive: true, urgent: true, ..WriteRequest::default() };
        match self.join_and_wake(request, wake_leader) {
            Joined::Lead(leader, _) => leader,
            Joined::Done(..) => unreachable!("no leader writes an exclusive request of another"),
        }
    }
}

/// Whether the steps of both requests may be in one record, that of `own` first.
fn may_share_record(own: &WriteRequest, request: &WriteRequest) -> bool {
    match (own.two_phase.as_deref(), request.two_phase.as_deref()) {
        (_, Some(TwoPhase::Rollback { .. })) => false,
        (Some(TwoPhase::Prepared(own)), Some(TwoPhase::Prepared(step))) => own.may_share(step),
        (Some(TwoPhase::Prepared(_)), _) | (_, Some(TwoPhase::Prepared(_))) => false,
        _ => true,
    }
}

impl Leader<'_> {
    /// Takes the followers that may share the leader's WAL record, up to `max_bytes` of batches.
    /// Stops at a request that needs a `sync` which the leader does not, or that differs in
    /// `disable_wal` or `no_slowdown`. Stops at a rollback, too: behind ops, its record would read
    /// like RocksDB's rollbacks, which restore keys by such ops.
    pub(crate) fn take_group(&self, own: &WriteRequest, max_bytes: usize) -> Vec<Follower> {
        let mut group = Vec::new();
        let own_bytes = own.batch.data_size();
        let limit = if own_bytes <= SMALL_LEADER_BYTES { own_bytes + SMALL_LEADER_BYTES } else { max_bytes }
            .min(max_bytes);
        let mut bytes = own_bytes;
        if self.queue.lead.load(Ordering::Relaxed) == ALONE {
            return group;
        }
        let mut line = self.queue.line.lock();
        while let Some(waiter) = line.waiting.front() {
            let mut state = waiter.state.lock();
            let State::Waiting(request) = &*state else {
                unreachable!("a request in line is in the state Waiting")
            };
            if request.exclusive
                || !may_share_record(own, request)
                || (request.sync && !own.sync)
                || request.disable_wal != own.disable_wal
                || request.no_slowdown != own.no_slowdown
                || bytes + request.batch.data_size() > limit
            {
                break;
            }
            let of_batch = request.batch.data_size();
            bytes += of_batch;
            let State::Waiting(request) = std::mem::replace(&mut *state, State::Taken) else {
                unreachable!("the state was checked above, under the same lock")
            };
            drop(state);
            let waiter = line.waiting.pop_front().expect("the waiter was at the front");
            group.push(Follower { waiter, request, bytes: of_batch });
        }
        self.note_length(&line);
        group
    }

    /// Takes the first waiter in line, to write a further group for it after the leader's own.
    /// Takes none if its request is exclusive or needs a sync, or if `suits` refuses it.
    pub(crate) fn take_next(&self, suits: impl FnOnce(&WriteRequest) -> bool) -> Option<Follower> {
        if self.queue.lead.load(Ordering::Relaxed) == ALONE {
            return None;
        }
        let mut line = self.queue.line.lock();
        let waiter = line.waiting.front()?.clone();
        let mut state = waiter.state.lock();
        let State::Waiting(request) = &*state else {
            unreachable!("a request in line is in the state Waiting")
        };
        if request.exclusive || request.sync || !suits(request) {
            return None;
        }
        let State::Waiting(request) = std::mem::replace(&mut *state, State::Taken) else {
            unreachable!("the state was checked above, under the same lock")
        };
        drop(state);
        line.waiting.pop_front();
        self.note_length(&line);
        let bytes = request.batch.data_size();
        Some(Follower { waiter, request, bytes })
    }

    /// Marks that the leader is about to wait for compactions: requests that may not wait fail,
    /// those in line and later ones, until [`Leader::end_stall`].
    pub(crate) fn begin_stall(&self) {
        let mut line = self.queue.line.lock();
        line.stalled = true;
        line.waiting.retain(|waiter| {
            let mut state = waiter.state.lock();
            let State::Waiting(request) = &mut *state else {
                unreachable!("a request in line is in the state Waiting")
            };
            if !request.no_slowdown {
                return true;
            }
            let batch = std::mem::take(&mut request.batch);
            waiter.set_state(state, State::Done(batch, Err(write_stall())));
            false
        });
        self.note_length(&line);
    }

    /// Whether an urgent request is in line.
    pub(crate) fn is_wanted(&self) -> bool {
        self.queue.lead.load(Ordering::Relaxed) == QUEUED
            && self.queue.line.lock().waiting.iter().any(|waiter| waiter.urgent)
    }

    /// Lends leadership to the first urgent waiter and takes it back when that write finishes.
    /// REQUIRES: the caller is stalled, has begun nothing of its group, and holds no lock.
    pub(crate) fn lend(&self) {
        let mut line = self.queue.line.lock();
        let Some(urgent) = line.waiting.iter().position(|waiter| waiter.urgent) else { return };
        let borrower = line.waiting.remove(urgent).expect("the waiter was found in line");
        let own = Arc::new(Waiter::new(WriteRequest { exclusive: true, ..WriteRequest::default() }));
        line.waiting.push_front(own.clone());
        drop(line);
        esker_base::probe!("write_queue:lent");
        borrower.give_lead();
        own.wait_for_lead();
    }

    /// Sets `lead` to `ALONE` if the line has become empty. Called under the line's lock.
    fn note_length(&self, line: &Line) {
        if line.waiting.is_empty() {
            self.queue.lead.store(ALONE, Ordering::Relaxed);
        }
    }

    /// Ends the stall: requests may wait again.
    pub(crate) fn end_stall(&self) {
        self.queue.line.lock().stalled = false;
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        let lead = &self.queue.lead;
        if lead.compare_exchange(ALONE, FREE, Ordering::Release, Ordering::Relaxed).is_ok() {
            return;
        }
        let mut line = self.queue.line.lock();
        let next = line.waiting.pop_front().expect("`QUEUED` says that somebody waits");
        self.note_length(&line);
        drop(line);
        next.give_lead();
    }
}

/// The error of a write with `no_slowdown` that would have to wait.
#[cold]
pub(crate) fn write_stall() -> Error {
    Error::incomplete(
        "Write stall: WriteOptions::no_slowdown forbids waiting; try again when compactions have caught up",
    )
}

// Under loom, `group/tests.rs` tests the queue.
#[cfg(all(test, not(loom)))]
mod tests;
