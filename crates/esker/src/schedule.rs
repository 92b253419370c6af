//! Slots and priorities for boxed jobs, and work shared among scoped threads. The scheduler does
//! not depend on jobs: the callers decide what runs.

use esker_base::sync::{Arc, Mutex, thread};
use esker_env::spawn_scoped;
use esker_env::thread_pool::{Priority, ThreadPool};
use std::fmt;

/// The kind of a job; it decides the job's pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Job {
    /// Memtables become files of level 0.
    Flush,
    /// Files are merged into other files.
    Compaction,
    /// Obsolete files are deleted.
    Purge,
    /// Deleted runs are found for later scans to remember.
    PreScan,
    /// A follower catches up with its leader.
    CatchUp,
}

/// One database's access to the environment's thread pools, which it may share with others.
#[derive(Clone)]
pub(crate) struct Scheduler {
    pool: Arc<ThreadPool>,
    /// Identifies this database's jobs when queued jobs are removed.
    tag: u64,
}

impl Scheduler {
    /// Jobs go to `pool` under `tag`.
    pub(crate) fn new(pool: Arc<ThreadPool>, tag: u64) -> Scheduler {
        Scheduler { pool, tag }
    }

    /// Makes sure that this many jobs of each kind can run at once.
    pub(crate) fn ensure_threads(&self, flushes: usize, compactions: usize) {
        self.pool.inc_background_threads_if_needed(flushes, Priority::High);
        self.pool.inc_background_threads_if_needed(compactions, Priority::Low);
    }

    /// Queues `work`.
    pub(crate) fn schedule(&self, job: Job, work: Box<dyn FnOnce() + Send>) {
        let priority = match job {
            Job::Flush | Job::Purge | Job::CatchUp => Priority::High,
            Job::Compaction | Job::PreScan => Priority::Low,
        };
        self.pool.schedule(priority, self.tag, work);
    }

    /// Whether jobs, of any database, wait because the system refuses them a thread.
    pub(crate) fn is_starved(&self) -> bool {
        self.pool.is_starved()
    }

    /// Tries to start threads for starved jobs. If the system gives none, returns a job of this
    /// database for the caller to run under no lock.
    pub(crate) fn take_starved(&self) -> Option<Box<dyn FnOnce() + Send>> {
        self.pool.take_starved(self.tag)
    }

    /// Whether a job, perhaps of another database, waits for a thread that a pre-scan may occupy.
    pub(crate) fn pre_scan_is_in_the_way(&self) -> bool {
        self.pool.queue_len(Priority::Low) > 0
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scheduler({})", self.tag)
    }
}

/// Applies `work` to each item on up to `threads` threads, the caller's included. Results are in
/// the order of the items. If the system refuses threads, the existing ones do all the work.
pub(crate) fn map_in_parallel<T: Send, R: Send>(
    items: Vec<T>,
    threads: usize,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let helpers = threads.min(items.len()).saturating_sub(1);
    let mut results = Vec::with_capacity(items.len());
    let (items, done) = (Mutex::new(items.into_iter().enumerate()), Mutex::new(&mut results));
    let run = || {
        loop {
            // A separate statement: the lock is not held while the work is done.
            let next = items.lock().next();
            let Some((index, item)) = next else { return };
            let result = work(item);
            done.lock().push((index, result));
        }
    };
    thread::scope(|scope| {
        let spawned = (0..helpers).map_while(|_| spawn_scoped(scope, "esker:recover", run).ok());
        let _joined_by_the_scope: Vec<_> = spawned.collect();
        run();
    });
    results.sort_unstable_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}
