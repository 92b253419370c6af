//! Slots and priorities for boxed jobs. Knows no job: who runs what is decided above.

use esker_base::sync::Arc;
use esker_env::thread_pool::{Priority, ThreadPool};
use std::fmt;

/// What kind of work a job is; decides its pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Job {
    /// Memtables to level 0.
    Flush,
    /// Files to files.
    Compaction,
    /// Files to nothing.
    Purge,
    /// Files to what scans remember.
    DeadWalk,
}

/// One database's door to the environment's thread pools, which it may share with others.
#[derive(Clone)]
pub(crate) struct Scheduler {
    pool: Arc<ThreadPool>,
    /// Tells this database's jobs from others' when queued ones are taken back.
    tag: u64,
}

impl Scheduler {
    /// Jobs go to `pool` under `tag`.
    pub(crate) fn new(pool: Arc<ThreadPool>, tag: u64) -> Scheduler {
        Scheduler { pool, tag }
    }

    /// Makes sure that so many jobs of each kind can run at once.
    pub(crate) fn ensure_threads(&self, flushes: usize, compactions: usize) {
        self.pool.inc_background_threads_if_needed(flushes, Priority::High);
        self.pool.inc_background_threads_if_needed(compactions, Priority::Low);
    }

    /// Queues `work`.
    pub(crate) fn schedule(&self, job: Job, work: Box<dyn FnOnce() + Send>) {
        let priority = match job {
            Job::Flush | Job::Purge => Priority::High,
            Job::Compaction | Job::DeadWalk => Priority::Low,
        };
        self.pool.schedule(priority, self.tag, work);
    }

    /// Whether a job waits for a thread that a walk over deleted keys may have, one of another database perhaps.
    pub(crate) fn walk_is_in_the_way(&self) -> bool {
        self.pool.queue_len(Priority::Low) > 0
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scheduler({})", self.tag)
    }
}
