//! A timer: work repeated at intervals, on one thread.
//!
//! In: boxed work and a period. Out: the work is called once in each period until its [`Repeating`]
//! is dropped. The thread starts with the first work and ends with the timer.
//!
//! Invariants
//!  1. No work runs, and none is dropped, while the timer's lock is held: work may call the timer.
//!  2. When a drop of [`Repeating`] returns, its work has been dropped and does not run. A drop
//!     from within the work itself does not wait.
//!  3. A forked child has none of its parent's work, and a thread of its own.
//!  4. Late calls are not made up for: the next call is one period after the end of the last.
//!
//! The idea is RocksDB's `util/timer.h`.

use crate::clock::Clock;
use crate::thread_pool::spawn;
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_base::sync::fork::{PerProcess, ProcessOwner};
use esker_base::sync::thread::{JoinHandle, ThreadId, current};
use esker_base::sync::{Arc, Condvar, Mutex};
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

type Work = Box<dyn FnMut() + Send>;

/// The thread and its list.
pub struct Timer {
    clock: Arc<dyn Clock>,
    shared: PerProcess<Arc<Shared>>,
}

struct Shared {
    owner: ProcessOwner,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// Notified when the list changes, a call has ended, or the timer ends.
    changed: Condvar,
    /// Whether there is work and the system has refused the thread for it. Changes under `state`.
    is_refused: AtomicBool,
}

struct State {
    tasks: BTreeMap<u64, Task>,
    next_id: u64,
    /// The owner of the work that is being called.
    running: Option<u64>,
    thread: Option<JoinHandle<()>>,
    closing: bool,
}

struct Task {
    period: Duration,
    /// Time of the next call, in monotonic nanoseconds.
    due: u64,
    /// The work; `None` while it runs.
    work: Option<Work>,
}

/// Work that is repeated until this is dropped.
pub struct Repeating {
    shared: Arc<Shared>,
    id: u64,
}

impl Timer {
    /// Makes a timer without calls and without a thread.
    pub fn new(clock: Arc<dyn Clock>) -> Timer {
        Timer { clock, shared: PerProcess::new() }
    }

    fn shared(&self) -> &Arc<Shared> {
        self.shared.get(|_| Arc::new(Shared::new(self.clock.clone())))
    }

    /// Calls `work` every `period`, first after one period; periods count from start to start. Work
    /// should be short: all work shares one thread. Work that panics is not called again. If the
    /// system refuses the thread, work waits until a call of [`Timer::start_refused`] gets one.
    pub fn repeat(&self, period: Duration, work: impl FnMut() + Send + 'static) -> Repeating {
        let own = self.shared();
        let mut state = own.state.lock();
        let id = state.next_id;
        state.next_id += 1;
        let due = own.after(period);
        state.tasks.insert(id, Task { period, due, work: Some(Box::new(work)) });
        own.start_thread(&mut state);
        drop(state);
        own.changed.notify_all();
        Repeating { shared: own.clone(), id }
    }

    /// Tries again to start the thread, if the system has refused it. One load if it has not.
    pub fn start_refused(&self) {
        let own = self.shared();
        if own.is_refused.load(Ordering::Acquire) {
            own.start_thread(&mut own.state.lock());
        }
    }

    /// Makes the thread read the clock again: for clocks that a test moves.
    pub fn read_clock_again(&self) {
        // The thread holds this lock from its read of the clock until it waits.
        let own = self.shared();
        let state = own.state.lock();
        own.changed.notify_all();
        drop(state);
    }
}

impl Shared {
    fn new(clock: Arc<dyn Clock>) -> Shared {
        let state = State { tasks: BTreeMap::new(), next_id: 0, running: None, thread: None, closing: false };
        let (state, changed, is_refused) = (Mutex::new(state), Condvar::new(), AtomicBool::new(false));
        Shared { owner: ProcessOwner::here(), clock, state, changed, is_refused }
    }

    fn start_thread(self: &Arc<Self>, state: &mut State) {
        if state.thread.is_none() && !state.tasks.is_empty() {
            let shared = self.clone();
            state.thread = spawn("esker:timer", move || shared.run()).ok();
        }
        let is_refused = state.thread.is_none() && !state.tasks.is_empty();
        self.is_refused.store(is_refused, Ordering::Release);
    }

    fn thread_id(&self) -> Option<ThreadId> {
        self.state.lock().thread.as_ref().map(|t| t.thread().id())
    }

    fn after(&self, period: Duration) -> u64 {
        let period = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        self.clock.monotonic_nanos().saturating_add(period)
    }

    /// Calls work when it is due, until the timer ends.
    fn run(&self) {
        let mut state = self.state.lock();
        while !state.closing {
            let next = state.tasks.iter().filter(|(_, t)| t.work.is_some()).min_by_key(|(_, t)| t.due);
            let Some((&id, task)) = next else {
                self.changed.wait(&mut state);
                continue;
            };
            let wait = task.due.saturating_sub(self.clock.monotonic_nanos());
            if wait > 0 {
                let _timed_out = self.changed.wait_for(&mut state, Duration::from_nanos(wait));
                continue;
            }
            let due = self.after(task.period);
            let work = state.tasks.get_mut(&id).and_then(|task| {
                task.due = due;
                task.work.take()
            });
            state.running = Some(id);
            drop(state);
            esker_base::probe!("timer:called");
            let work = call(work);
            state = self.state.lock();
            state.running = None;
            let left = match state.tasks.get_mut(&id) {
                Some(task) => {
                    task.work = work;
                    None
                }
                None => work,
            };
            self.changed.notify_all();
            drop(state);
            drop(left);
            state = self.state.lock();
        }
    }
}

/// Calls `work` and returns it; `None` if it panicked. The panic hook has reported the panic.
fn call(work: Option<Work>) -> Option<Work> {
    let mut work = work?;
    catch_unwind(AssertUnwindSafe(&mut work)).ok().map(|()| work)
}

impl Drop for Repeating {
    fn drop(&mut self) {
        if !self.shared.owner.is_here() {
            return;
        }
        let mut state = self.shared.state.lock();
        let task = state.tasks.remove(&self.id);
        let own = state.thread.as_ref().is_some_and(|t| t.thread().id() == current().id());
        while !own && state.running == Some(self.id) {
            self.shared.changed.wait(&mut state);
        }
        drop(state);
        drop(task);
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let Some(shared) = self.shared.here() else { return };
        let own = shared.thread_id() == Some(current().id());
        let mut state = shared.state.lock();
        state.closing = true;
        let thread = state.thread.take();
        drop(state);
        shared.changed.notify_all();
        // Work that held the last reference drops the timer on its own thread.
        if let Some(thread) = thread.filter(|_| !own) {
            thread.join().expect("the thread catches the panics of its work");
        }
        let tasks = std::mem::take(&mut shared.state.lock().tasks);
        drop(tasks);
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tasks = self.shared.here().map_or(0, |shared| shared.state.lock().tasks.len());
        write!(f, "Timer({tasks} tasks)")
    }
}

impl fmt::Debug for Repeating {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Repeating({})", self.id)
    }
}

#[cfg(test)]
mod tests;
