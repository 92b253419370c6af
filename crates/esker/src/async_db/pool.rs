//! Threads for calls that wait.
//!
//! In: closures. Out: futures of their results. No more closures are handed over than threads may
//! run; further calls wait as futures, first come first served, and a dropped one leaves the line.

use esker_base::sync::Arc;
use esker_base::{Error, Result};
use esker_env::{Priority, ThreadPool};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;
use tokio::sync::{Semaphore, oneshot};

/// The kind of a closure: it decides about the threads that run it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Errand {
    Read,
    Call,
}

/// The threads of an [`AsyncDb`](super::AsyncDb).
pub(super) struct Pool {
    pub(super) threads: ThreadPool,
    pub(super) reads: Arc<Semaphore>,
    pub(super) calls: Arc<Semaphore>,
}

/// The priorities of the thread pool, each with threads of its own.
pub(super) const READS: Priority = Priority::Low;
pub(super) const CALLS: Priority = Priority::Bottom;
pub(super) const COMMITS: Priority = Priority::High;

/// All jobs of a pool belong to one owner.
const TAG: u64 = 0;

impl Pool {
    pub(super) fn new(read_threads: usize, call_threads: usize) -> Pool {
        let threads = ThreadPool::new();
        for (priority, n) in [(READS, read_threads), (CALLS, call_threads), (COMMITS, 1)] {
            threads.set_background_threads(n, priority);
        }
        let permits = |n: usize| Arc::new(Semaphore::new(n.min(Semaphore::MAX_PERMITS)));
        Pool { threads, reads: permits(read_threads), calls: permits(call_threads) }
    }

    /// The result of `work`, which runs on another thread. Once it is handed over it runs, whether
    /// or not the future is dropped.
    ///
    /// # Panics
    /// With the panic of `work`.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        kind: Errand,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (permits, priority) = match kind {
            Errand::Read => (&self.reads, READS),
            Errand::Call => (&self.calls, CALLS),
        };
        let permit = Arc::clone(permits).acquire_owned().await.map_err(|_| ended())?;
        let (sender, receiver) = oneshot::channel();
        self.hand_over(priority, move || {
            let result = catch_unwind(AssertUnwindSafe(work));
            drop(permit);
            // Nobody awaits the result of a dropped future.
            sender.send(result).ok();
        });
        unpack(receiver.await)
    }

    /// Lets `round` run on the thread of the commits.
    pub(super) fn run_commits(&self, round: impl FnOnce() + Send + 'static) {
        self.hand_over(COMMITS, round);
    }

    pub(super) fn hand_over(&self, priority: Priority, job: impl FnOnce() + Send + 'static) {
        self.threads.schedule(priority, TAG, Box::new(job));
        while self.threads.is_starved()
            && let Some(job) = self.threads.take_starved(TAG)
        {
            job();
        }
    }
}

/// The result that a thread has sent.
///
/// # Panics
/// With the panic that the thread has caught.
pub(super) fn unpack<T>(sent: Result<thread::Result<Result<T>>, oneshot::error::RecvError>) -> Result<T> {
    match sent {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => Err(ended()),
    }
}

fn ended() -> Error {
    Error::shutdown_in_progress("the threads of the AsyncDb have ended")
}
