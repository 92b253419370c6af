//! Limits on compactions that run at once, shared by families and databases.
//!
//! In: jobs that are about to begin a compaction. Out: a token for each that may begin; a call of
//! the others' databases as soon as there is room.
//!
//! Invariants
//!  1. A database that gets no token is in `waiting` before the lock is released, so that it misses
//!     no end of a task and no change of the limit.
//!  2. No lock is held while a database is called.
//!
//! Source: RocksDB `include/rocksdb/concurrent_task_limiter.h`.

use super::log::{LogLine, ObjectLog};
use esker_base::sync::{Arc, Mutex};
use std::collections::BTreeMap;
use std::fmt;

/// A limit on the compactions that run at once in all families whose options hold it, of any
/// databases: RocksDB's `ConcurrentTaskLimiter`.
///
/// A family whose compaction finds no room waits until one ends, or the limit changes; meanwhile
/// the threads compact other families. Compactions on request
/// ([`Db::compact_range`](crate::Db::compact_range)) are counted, and never wait. The name is for
/// people.
///
/// ```
/// # let dir = esker_testkit::TempDir::new("doc");
/// use esker::options::ConcurrentTaskLimiter;
/// use esker::{ColumnFamilyOptions, Db, DbOptions};
/// use std::sync::Arc;
///
/// let limiter = Arc::new(ConcurrentTaskLimiter::new("archives", 1));
/// let archive = ColumnFamilyOptions::new().compaction_thread_limiter(Some(limiter.clone()));
/// let options = DbOptions::new().create_if_missing(true).create_missing_column_families(true);
/// let families = [("default", ColumnFamilyOptions::new()), ("2024", archive.clone()), ("2025", archive)];
/// let db = Db::open_cf(&options, dir.path(), families)?;
/// // At night.
/// limiter.set_max_outstanding_task(4);
/// assert_eq!((limiter.name(), limiter.outstanding_task()), ("archives", 0));
/// # Ok::<_, esker::Error>(())
/// ```
pub struct ConcurrentTaskLimiter {
    name: String,
    state: Mutex<LimiterState>,
}

#[derive(Default)]
struct LimiterState {
    /// `None`: no limit.
    limit: Option<u32>,
    outstanding: u32,
    /// Databases with families that wait, by their tags.
    waiting: BTreeMap<u64, Caller>,
}

/// Lets a database look for room again.
type Caller = Box<dyn FnOnce() + Send>;

impl LimiterState {
    fn has_room(&self) -> bool {
        self.limit.is_none_or(|limit| self.outstanding < limit)
    }

    /// The databases to call, if there is room.
    fn take_callers(&mut self) -> BTreeMap<u64, Caller> {
        if self.has_room() { std::mem::take(&mut self.waiting) } else { BTreeMap::new() }
    }
}

impl fmt::Debug for ConcurrentTaskLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConcurrentTaskLimiter({})", self.name)
    }
}

impl ConcurrentTaskLimiter {
    /// A limiter that lets `limit` compactions run at once; 0: none begins; below 0: any number.
    pub fn new(name: impl Into<String>, limit: i32) -> ConcurrentTaskLimiter {
        let state = LimiterState { limit: u32::try_from(limit).ok(), ..LimiterState::default() };
        ConcurrentTaskLimiter { name: name.into(), state: Mutex::new(state) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the number of compactions that may run at once; 0: none begins; below 0: any number.
    /// Running ones go on.
    pub fn set_max_outstanding_task(&self, limit: i32) {
        self.change(|state| state.limit = u32::try_from(limit).ok());
    }

    /// Lifts the limit.
    pub fn reset_max_outstanding_task(&self) {
        self.set_max_outstanding_task(-1);
    }

    /// The number of compactions that run now.
    pub fn outstanding_task(&self) -> i32 {
        i32::try_from(self.state.lock().outstanding).unwrap_or(i32::MAX)
    }

    fn change(&self, change: impl FnOnce(&mut LimiterState)) {
        let callers = {
            let mut state = self.state.lock();
            change(&mut state);
            state.take_callers()
        };
        callers.into_values().for_each(|call| call());
    }
}

/// A compaction that runs and counts. Dropped under no lock: the drop calls databases.
#[derive(Debug)]
pub(crate) struct TaskToken(Arc<ConcurrentTaskLimiter>);

impl TaskToken {
    /// A token for one more compaction; `None` if there is no room. Then `call` is called once
    /// there may be some, instead of an earlier one for the database with this `tag`.
    pub(crate) fn acquire(
        limiter: &Arc<ConcurrentTaskLimiter>,
        tag: u64,
        call: impl FnOnce() + Send + 'static,
    ) -> Option<TaskToken> {
        let mut state = limiter.state.lock();
        if !state.has_room() {
            state.waiting.insert(tag, Box::new(call));
            return None;
        }
        state.outstanding += 1;
        Some(TaskToken(limiter.clone()))
    }

    /// A token for a compaction that does not wait.
    pub(crate) fn force(limiter: &Arc<ConcurrentTaskLimiter>) -> TaskToken {
        limiter.state.lock().outstanding += 1;
        TaskToken(limiter.clone())
    }
}

impl Drop for TaskToken {
    fn drop(&mut self) {
        self.0.change(|state| state.outstanding -= 1);
    }
}

impl ObjectLog for Option<Arc<ConcurrentTaskLimiter>> {
    fn log(&self, name: &str, lines: &mut Vec<LogLine>) {
        let limiter = self.as_ref().map_or("nullptr", |limiter| limiter.name());
        lines.push((name.to_owned(), limiter.to_owned()));
    }
}
