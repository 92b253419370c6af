//! Background threads in three priorities.
//!
//! In: boxed jobs with a tag. Out: each job runs once on a thread of its priority, first come first
//! served, unless [`ThreadPool::unschedule`] removes it. Threads start when jobs come. They stay
//! until the pool is dropped or made smaller.
//!
//! Invariants
//!  1. No job runs, and none is dropped, while a lock of the pool is held: jobs and their captures
//!     may call the pool.
//!  2. Dropping the pool drops queued jobs without running them, waits for jobs that run on its
//!     threads, then ends. It does not wait for a job that itself drops the pool.
//!  3. A job that panics does not end its thread. Each priority keeps its first panic.
//!     [`ThreadPool::take_panic`] takes the one of the highest priority. [`ThreadPool::join`] and
//!     dropping the pool raise that panic again.
//!  4. If the system refuses threads (`RLIMIT_NPROC`, a full cgroup), no call fails. A priority
//!     without any thread keeps its jobs. Each new job, each change of the limit, and each call of
//!     [`ThreadPool::take_starved`] tries to start threads. If that fails, `take_starved` returns
//!     a job for its caller to run.
//!  5. In a forked child, the pool has the parent's limits, but queues of its own and none of the
//!     parent's threads and jobs.

use crate::thread_status::ThreadRegistry;
use esker_base::iostats_context::set_thread_pool_id;
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_base::sync::fork::PerProcess;
use esker_base::sync::process::atomic::AtomicUsize;
use esker_base::sync::thread::{self, JoinHandle, Scope, ScopedJoinHandle};
use esker_base::sync::{Arc, Condvar, Mutex, MutexGuard};
use esker_base::{Error, Result};
use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Work to be done once.
pub type PoolJob = Box<dyn FnOnce() + Send>;
type Panic = Box<dyn Any + Send>;

/// The group of threads that runs a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Priority {
    /// Flushes.
    High,
    /// Compactions.
    Low,
    /// Compactions into the last level.
    Bottom,
}

impl Priority {
    /// All priorities.
    pub const ALL: [Priority; 3] = [Priority::High, Priority::Low, Priority::Bottom];

    /// RocksDB's number of the pool: `Env::Priority`.
    const fn pool_id(self) -> u8 {
        match self {
            Priority::Bottom => 0,
            Priority::Low => 1,
            Priority::High => 2,
        }
    }

    const fn thread_name(self) -> &'static str {
        match self {
            Priority::High => "esker:high",
            Priority::Low => "esker:low",
            Priority::Bottom => "esker:bottom",
        }
    }
}

/// Threads and queues of all three priorities.
pub struct ThreadPool {
    queues: PerProcess<[Arc<Queue>; 3]>,
}

/// One priority.
struct Queue {
    priority: Priority,
    /// The threads of all priorities, with their operations.
    registry: Arc<ThreadRegistry>,
    state: Mutex<State>,
    /// A copy of the limit for a forked child, in which a vanished thread may hold the lock.
    limit: AtomicUsize,
    /// Notified when a job comes, the limit changes, or the pool ends.
    changed: Condvar,
    /// Notified when a thread becomes idle.
    idle: Condvar,
    /// Whether, at the last attempt to start threads, jobs waited, there was no thread, and the
    /// system refused one. Changes under `state`.
    is_starved: AtomicBool,
}

struct State {
    jobs: VecDeque<(u64, PoolJob)>,
    limit: usize,
    /// Threads by index. `None` for a thread that ended because the limit was lowered.
    threads: Vec<Option<JoinHandle<()>>>,
    /// Threads that have not ended.
    live: usize,
    /// Jobs that run, on threads of the pool or of callers ([`ThreadPool::take_starved`]).
    running: usize,
    closing: bool,
    panic: Option<Panic>,
}

impl ThreadPool {
    /// Makes a pool that may have one thread for `High` and `Low` each, and none for `Bottom`.
    /// These are RocksDB's defaults.
    pub fn new() -> ThreadPool {
        ThreadPool { queues: PerProcess::new() }
    }

    fn queues(&self) -> &[Arc<Queue>; 3] {
        self.queues.get(|parents| {
            let registry = Arc::new(ThreadRegistry::default());
            Priority::ALL.map(|priority| {
                let first = usize::from(priority != Priority::Bottom);
                let limit =
                    parents.map_or(first, |queues| queues[priority as usize].limit.load(Ordering::Relaxed));
                Arc::new(Queue::new(priority, limit, registry.clone()))
            })
        })
    }

    fn queue(&self, priority: Priority) -> &Arc<Queue> {
        &self.queues()[priority as usize]
    }

    /// The operations of the pool's threads, and of others that work beside them.
    pub fn thread_registry(&self) -> &Arc<ThreadRegistry> {
        &self.queues()[0].registry
    }

    /// Runs `job` on a thread of this priority when one is free. `tag` is for
    /// [`ThreadPool::unschedule`]. While the limit of this priority is 0, the job waits. If the
    /// system refuses threads, the job may wait for [`ThreadPool::take_starved`].
    pub fn schedule(&self, priority: Priority, tag: u64, job: PoolJob) {
        let queue = self.queue(priority);
        let mut state = queue.state.lock();
        state.jobs.push_back((tag, job));
        queue.start_threads(&mut state);
        drop(state);
        queue.changed.notify_one();
    }

    /// Whether a priority had jobs but no thread at its last attempt to start threads, because the
    /// system refused them. One load for each priority.
    pub fn is_starved(&self) -> bool {
        self.queues().iter().any(|queue| queue.is_starved.load(Ordering::Acquire))
    }

    /// Tries to start threads that the system refused before. If it still refuses, returns the
    /// first job with this tag. The caller must run it at once, without holding a lock.
    pub fn take_starved(&self, tag: u64) -> Option<PoolJob> {
        let starved = self.queues().iter().filter(|queue| queue.is_starved.load(Ordering::Acquire));
        starved.into_iter().find_map(|queue| queue.take_starved(tag))
    }

    /// Drops the queued jobs with this tag, of all priorities, without running them. Returns their
    /// number. Running jobs continue.
    pub fn unschedule(&self, tag: u64) -> usize {
        self.queues().iter().map(|queue| queue.unschedule(tag).len()).sum()
    }

    /// Limits this priority to `n` threads. Surplus threads end when they have finished their job.
    pub fn set_background_threads(&self, n: usize, priority: Priority) {
        self.queue(priority).set_limit(|_| n);
    }

    /// Raises the limit of this priority to at least `n` threads.
    pub fn inc_background_threads_if_needed(&self, n: usize, priority: Priority) {
        self.queue(priority).set_limit(|limit| limit.max(n));
    }

    /// Number of threads that this priority may have.
    pub fn background_threads(&self, priority: Priority) -> usize {
        self.queue(priority).state.lock().limit
    }

    /// Jobs that wait for a thread.
    pub fn queue_len(&self, priority: Priority) -> usize {
        self.queue(priority).state.lock().jobs.len()
    }

    /// Waits until no job of this priority is queued or running.
    pub fn wait_until_idle(&self, priority: Priority) {
        let queue = self.queue(priority);
        let mut state = queue.state.lock();
        while !state.jobs.is_empty() || state.running > 0 {
            queue.idle.wait(&mut state);
        }
    }

    /// Takes the first panic of a job; if several priorities have one, that of the highest.
    pub fn take_panic(&self) -> Option<Panic> {
        self.queues.here()?.iter().find_map(|queue| queue.state.lock().panic.take())
    }

    /// Ends the pool as a drop does, and raises the panic of a job again.
    ///
    /// # Panics
    /// With the panic that [`ThreadPool::take_panic`] would return, if any.
    pub fn join(self) {
        drop(self);
    }
}

impl Default for ThreadPool {
    fn default() -> ThreadPool {
        ThreadPool::new()
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        // Threads of the parent cannot be waited for in a forked child.
        let Some(queues) = self.queues.here() else { return };
        let unrun: Vec<_> = queues.iter().map(|queue| queue.close()).collect();
        drop(unrun);
        for queue in queues {
            let threads = std::mem::take(&mut queue.state.lock().threads);
            for worker in threads.into_iter().flatten() {
                // A job that held the last reference drops the pool on its own thread.
                if worker.thread().id() != thread::current().id() {
                    worker.join().expect("workers catch the panics of their jobs");
                }
            }
        }
        if !thread::panicking()
            && let Some(panic) = self.take_panic()
        {
            resume_unwind(panic);
        }
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("ThreadPool");
        for queue in self.queues.here().into_iter().flatten() {
            let state = queue.state.lock();
            out.field(queue.priority.thread_name(), &(state.limit, state.jobs.len()));
        }
        out.finish()
    }
}

impl Queue {
    fn new(priority: Priority, limit: usize, registry: Arc<ThreadRegistry>) -> Queue {
        Queue {
            priority,
            registry,
            state: Mutex::new(State {
                jobs: VecDeque::new(),
                limit,
                threads: Vec::new(),
                live: 0,
                running: 0,
                closing: false,
                panic: None,
            }),
            limit: AtomicUsize::new(limit),
            changed: Condvar::new(),
            idle: Condvar::new(),
            is_starved: AtomicBool::new(false),
        }
    }

    fn set_limit(self: &Arc<Self>, limit: impl FnOnce(usize) -> usize) {
        let mut state = self.state.lock();
        state.limit = limit(state.limit);
        self.limit.store(state.limit, Ordering::Relaxed);
        self.start_threads(&mut state);
        drop(state);
        self.changed.notify_all();
    }

    fn unschedule(&self, tag: u64) -> Vec<PoolJob> {
        let mut state = self.state.lock();
        let jobs = std::mem::take(&mut state.jobs);
        let (taken, kept): (VecDeque<_>, VecDeque<_>) = jobs.into_iter().partition(|(t, _)| *t == tag);
        state.jobs = kept;
        drop(state);
        self.idle.notify_all();
        taken.into_iter().map(|(_, job)| job).collect()
    }

    fn close(&self) -> VecDeque<(u64, PoolJob)> {
        let mut state = self.state.lock();
        state.closing = true;
        let jobs = std::mem::take(&mut state.jobs);
        drop(state);
        self.changed.notify_all();
        self.idle.notify_all();
        jobs
    }

    /// Starts as many threads as the queue needs and the limit allows.
    fn start_threads(self: &Arc<Self>, state: &mut State) {
        while state.live < state.limit.min(state.running + state.jobs.len()) {
            let free = state.threads.iter().position(Option::is_none);
            let index = free.unwrap_or_else(|| {
                state.threads.push(None);
                state.threads.len() - 1
            });
            let queue = Arc::clone(self);
            let name = format!("{}{index}", self.priority.thread_name());
            match spawn(&name, move || queue.work(index)) {
                Ok(handle) => {
                    state.threads[index] = Some(handle);
                    state.live += 1;
                }
                // Fewer threads do the same work.
                Err(_) => break,
            }
        }
        let is_starved = state.live == 0 && state.limit > 0 && !state.jobs.is_empty();
        self.is_starved.store(is_starved, Ordering::Release);
    }

    fn take_starved(self: &Arc<Self>, tag: u64) -> Option<PoolJob> {
        let mut state = self.state.lock();
        self.start_threads(&mut state);
        if state.live > 0 {
            drop(state);
            self.changed.notify_one();
            return None;
        }
        let position = state.jobs.iter().position(|(t, _)| *t == tag)?;
        let (_, job) = state.jobs.remove(position)?;
        state.running += 1;
        drop(state);
        let queue = Arc::clone(self);
        Some(Box::new(move || {
            let mut state = queue.run(job);
            // Starts threads for jobs that this job left in the queue or added to it.
            queue.start_threads(&mut state);
            drop(state);
            queue.idle.notify_all();
        }))
    }

    /// Runs a job that counts as running.
    fn run(&self, job: PoolJob) -> MutexGuard<'_, State> {
        let outcome = catch_unwind(AssertUnwindSafe(job));
        let mut state = self.state.lock();
        state.running -= 1;
        if let Err(panic) = outcome {
            state.panic.get_or_insert(panic);
        }
        state
    }

    /// Runs jobs on thread `index` until the thread must end.
    fn work(&self, index: usize) {
        self.registry.register(self.priority.into());
        set_thread_pool_id(self.priority.pool_id());
        let mut state = self.state.lock();
        loop {
            // Lowering the limit wakes all threads, so that no job's wake-up is lost on a thread
            // that ends here.
            if state.closing || state.live > state.limit {
                state.live -= 1;
                if !state.closing {
                    // Detaches the thread: nothing waits for it.
                    state.threads[index] = None;
                }
                self.idle.notify_all();
                return;
            }
            if let Some((_, job)) = state.jobs.pop_front() {
                state.running += 1;
                drop(state);
                state = self.run(job);
                continue;
            }
            self.idle.notify_all();
            self.changed.wait(&mut state);
        }
    }
}

/// Starts a thread that runs `f`.
/// # Errors
/// `IoError`, retryable, if the operating system refuses a thread.
pub fn spawn<T: Send + 'static>(name: &str, f: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
    let mut is_refused = false;
    esker_base::probe!("spawn", &mut is_refused);
    #[cfg(test)]
    {
        is_refused |= tests::REFUSES.get();
    }
    if is_refused {
        return Err(refused(name, std::io::ErrorKind::WouldBlock.into()));
    }
    thread::Builder::new().name(name.to_owned()).spawn(f).map_err(|e| refused(name, e))
}

/// Starts a thread that ends within `scope`.
/// # Errors
/// `IoError`, retryable, if the operating system refuses a thread: the caller does the work itself.
pub fn spawn_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    f: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    #[cfg(test)]
    if tests::refuses_scoped() {
        return Err(refused(name, std::io::ErrorKind::WouldBlock.into()));
    }
    #[cfg(shuttle)]
    {
        let _ = name;
        Ok(scope.spawn(f))
    }
    #[cfg(not(shuttle))]
    thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, f).map_err(|e| refused(name, e))
}

/// Runs `work` on `count` threads, each with its number, and returns their results in the order of
/// the numbers. No thread calls `work` before all threads exist.
/// # Errors
/// `IoError` if the system refuses a thread: `work` is not called.
///
/// # Panics
/// As `work` does.
pub fn on_threads<T: Send>(name: &str, count: usize, work: impl Fn(usize) -> T + Sync) -> Result<Vec<T>> {
    let (gate, work) = (Gate::default(), &work);
    thread::scope(|scope| {
        let gate = &gate;
        let mut threads = Vec::with_capacity(count);
        for number in 0..count {
            let thread = spawn_scoped(scope, name, move || gate.wait().then(|| work(number)));
            threads.push(thread.inspect_err(|_| gate.open(false))?);
        }
        gate.open(true);
        let ended = threads.into_iter().map(|thread| match thread.join() {
            Ok(done) => done.expect("an open gate lets every thread work"),
            Err(panic) => std::panic::resume_unwind(panic),
        });
        Ok(ended.collect())
    })
}

/// Holds threads back until all of them exist, or one of them could not be started.
#[derive(Default)]
struct Gate {
    begins: Mutex<Option<bool>>,
    opened: Condvar,
}

impl Gate {
    fn open(&self, begins: bool) {
        *self.begins.lock() = Some(begins);
        self.opened.notify_all();
    }

    fn wait(&self) -> bool {
        let mut begins = self.begins.lock();
        loop {
            match *begins {
                Some(begins) => return begins,
                None => self.opened.wait(&mut begins),
            }
        }
    }
}

#[cold]
fn refused(name: &str, cause: std::io::Error) -> Error {
    Error::io_with(format_args!("While start thread: {name}"), cause)
}

#[cfg(test)]
pub(crate) mod tests;
