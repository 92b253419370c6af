//! Writes that wait for their commit, without a thread each.
//!
//! In: batches with their options. Out: their results. A write joins the line; if no round runs it
//! starts one. A round takes batches from the head of the line, joins those whose options agree
//! into one, writes it, and ends when the line is empty. While it syncs, the next batches gather.
//!
//! Invariants
//!  1. At most one round runs, and one runs or is due whenever a batch is in line.
//!  2. Batches are committed in the order of the line.
//!  3. Each batch is committed once, or has an error.

use super::pool::{Pool, unpack};
use crate::db::Db;
use crate::options::WriteOptions;
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_base::sync::{Arc, Mutex};
use esker_base::{Error, ErrorKind, Result};
use esker_format::write_batch::WriteBatch;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Bytes up to which batches are joined: the limit of a group of writers that block.
const JOIN_BYTES: usize = 1 << 20;

/// Bytes that one permit of the semaphore stands for.
const PERMIT_BYTES: usize = 256;

/// The writes in line.
pub(super) struct Commits {
    pub(super) line: Mutex<VecDeque<Waiting>>,
    /// Whether a round runs or is due. Changes under the lock of `line`.
    is_busy: AtomicBool,
    pub(super) room: Arc<Semaphore>,
    pub(super) permits: u32,
}

/// A batch in line.
pub(super) struct Waiting {
    batch: WriteBatch,
    options: WriteOptions,
    done: oneshot::Sender<thread::Result<Result<()>>>,
    room: OwnedSemaphorePermit,
}

impl Commits {
    pub(super) fn new(max_waiting_bytes: usize) -> Commits {
        let permits = (max_waiting_bytes / PERMIT_BYTES).clamp(1, u32::MAX as usize >> 3);
        Commits {
            line: Mutex::default(),
            is_busy: AtomicBool::new(false),
            room: Arc::new(Semaphore::new(permits)),
            permits: u32::try_from(permits).expect("at most 2^29"),
        }
    }

    /// Whether writes are in line.
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Relaxed)
    }

    /// Puts `batch` in line; ready when it is committed.
    pub(super) async fn commit(
        self: &Arc<Self>,
        db: &Db,
        pool: &Pool,
        options: WriteOptions,
        batch: WriteBatch,
    ) -> Result<()> {
        let wanted = u32::try_from(batch.data_size().div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX);
        let wanted = wanted.clamp(1, self.permits);
        let room = Arc::clone(&self.room).acquire_many_owned(wanted).await;
        let room = room.expect("nobody closes the semaphore");
        let (done, result) = oneshot::channel();
        if self.join(Waiting { batch, options, done, room }) {
            let (commits, db) = (Arc::clone(self), db.clone());
            pool.run_commits(move || commits.run_round(&db));
        }
        unpack(result.await)
    }

    /// Puts `waiting` in line; true if its caller is to start a round.
    fn join(&self, waiting: Waiting) -> bool {
        let mut line = self.line.lock();
        line.push_back(waiting);
        !self.is_busy.swap(true, Ordering::Relaxed)
    }

    fn run_round(&self, db: &Db) {
        while let Some(group) = self.take_group() {
            write_group(db, group);
        }
    }

    /// The batches at the head of the line that are committed as one; `None` ends the round.
    fn take_group(&self) -> Option<Vec<Waiting>> {
        let mut line = self.line.lock();
        let Some(first) = line.pop_front() else {
            self.is_busy.store(false, Ordering::Relaxed);
            return None;
        };
        let mut bytes = first.batch.data_size();
        let (options, joins) = (first.options, first.may_join());
        let mut group = vec![first];
        while joins
            && let Some(next) = line.front()
            && next.may_join()
            && (next.options == options || next.options.sync(true) == options)
            && bytes.saturating_add(next.batch.data_size()) <= JOIN_BYTES
        {
            bytes += next.batch.data_size();
            group.extend(line.pop_front());
        }
        Some(group)
    }
}

impl Waiting {
    /// Whether the batch may be part of a larger one: nothing in it speaks about its end, and it
    /// has no checksums, which the write itself is to check.
    pub(super) fn may_join(&self) -> bool {
        let is_protected = self.batch.is_protected() || self.options.protection_bytes_per_key > 0;
        self.batch.wal_termination_point().is_none() && !is_protected
    }

    fn finish(self, result: thread::Result<Result<()>>) {
        drop(self.room);
        // The call may run code of the executor, whose panic is not to end the round. Nobody awaits
        // the result of a dropped future.
        drop(catch_unwind(AssertUnwindSafe(|| self.done.send(result).ok())));
    }
}

/// Writes `group`, and tells each member its result.
fn write_group(db: &Db, group: Vec<Waiting>) {
    if group.len() > 1 {
        let options = group[0].options;
        let written = catch_unwind(AssertUnwindSafe(|| write_joined(db, &options, &group)));
        match written {
            Ok(Err(e)) if is_of_one_batch(&e) => {}
            Ok(result) => {
                return group.into_iter().for_each(|waiting| waiting.finish(Ok(result.clone())));
            }
            Err(panic) => {
                let mut panic = Some(panic);
                return group.into_iter().for_each(|waiting| {
                    waiting.finish(Err(panic.take().unwrap_or_else(|| Box::new(GROUP_PANIC))));
                });
            }
        }
    }
    for mut waiting in group {
        let write = AssertUnwindSafe(|| db.write_opt(&waiting.options, &mut waiting.batch));
        let result = catch_unwind(write);
        waiting.finish(result);
    }
}

const GROUP_PANIC: &str = "a write of the same group has panicked";

fn write_joined(db: &Db, options: &WriteOptions, group: &[Waiting]) -> Result<()> {
    let mut joined = WriteBatch::with_capacity(group.iter().map(|waiting| waiting.batch.data_size()).sum());
    for waiting in group {
        joined.append(&waiting.batch)?;
    }
    db.write_opt(options, joined)
}

/// Whether the error says that one batch is refused, and nothing was written.
fn is_of_one_batch(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::InvalidArgument | ErrorKind::ColumnFamilyDropped | ErrorKind::NotSupported
    )
}
