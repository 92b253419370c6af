//! The path of one write.
//!
//! In: a batch and its options. Out: the batch in the WAL and in the memtables, visible to reads,
//! acknowledged.
//!
//! Steps: join the queue → as leader: make room (`room.rs`) → take a group → number it → WAL (and
//! sync) → memtables → publish the last sequence number → wake the followers → hand over
//! leadership.
//!
//! Reading order: this file, `queue` (leaders and followers), `room`, `switch` (a new memtable and
//! WAL), `group` (the steps of a group), `apply` (batch to memtables), `apart` (callbacks),
//! `two_phase`, `flush`.
//!
//! Invariants
//!  1. A write is acknowledged after its WAL record is in the kernel, or on the medium with `sync`.
//!     Exceptions: `disable_wal`, and `manual_wal_flush` without `sync`.
//!  2. A sequence number is published after all writes up to this number are in the memtables, so a
//!     read never sees half a batch.
//!  3. If the memtables refuse a write, its WAL record is removed, so no reopen brings the write
//!     back. If memtables hold a part of that write, writes stop until a recovery has flushed these
//!     memtables without that part.
//!  4. The sequence number of an entry in a memtable or a WAL is never allocated again.
//!
//! Source: RocksDB `db/db_impl/db_impl_write.cc`.

mod apart;
pub(crate) mod apply;
mod flush;
mod group;
mod prepared;
mod queue;
mod room;
mod shared_memory;
mod switch;
mod two_phase;

pub(crate) use apart::ApartCalls;
use apply::Refused;
pub(crate) use apply::{ApplyEntry, entry_of};
pub(crate) use prepared::order_of;
pub(crate) use queue::Leader;
pub(crate) use switch::new_memtable;
pub(crate) use two_phase::PreparedCommit;

use crate::engine::{CommittedGroup, Engine, ErrorReason};
use crate::options::{DbOptions, SharesMemory, WriteOptions};
use crate::trace::Query;
use crate::wal::Wals;
use esker_base::perf_context::{PerfLevel, perf_level, with_live};
use esker_base::stats::{Histogram, Ticker};
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_base::sync::{Arc, Weak};
use esker_base::{Error, ErrorKind, Result, SequenceNumber, perf_add, perf_time};
use esker_format::write_batch::WriteBatch;
use esker_memtable::Take;
use group::{Sink, write_alone, write_group};
use queue::{Follower, Joined, WriteQueue, WriteRequest};
use std::ops::Range;

/// The write path of an open database.
#[derive(Debug)]
pub(crate) struct WritePath {
    engine: Arc<Engine>,
    queue: WriteQueue,
    /// A weak reference to this object, for the write buffer manager.
    myself: Weak<WritePath>,
    /// Whether another database with the same write buffer manager has requested a flush that has
    /// not ended.
    flush_asked: AtomicBool,
}

impl WritePath {
    /// The write path of this database.
    pub(crate) fn new(engine: Arc<Engine>) -> Arc<WritePath> {
        let path = Arc::new_cyclic(|myself| WritePath {
            engine,
            queue: WriteQueue::default(),
            myself: myself.clone(),
            flush_asked: AtomicBool::new(false),
        });
        if let Some(manager) = &path.engine.options.write_buffer_manager {
            manager.add_database(Arc::downgrade(&path) as Weak<dyn SharesMemory>);
        }
        path
    }

    /// Writes `batch` and sets its sequence number.
    /// # Errors
    /// `InvalidArgument`: options that contradict each other, or an unknown family · `Incomplete`:
    /// the write would wait, and has `no_slowdown` · `ShutdownInProgress` · the background error in
    /// force · `IoError`: the WAL could not be written. After an `IoError` a reopen may or may not
    /// show the write, and further writes fail until `resume()` or a reopen.
    pub(crate) fn write(&self, options: &WriteOptions, batch: &mut WriteBatch) -> Result<()> {
        let _watch = self.engine.time(Histogram::DbWrite);
        check_options(options, &self.engine.options)?;
        self.engine.check_open()?;
        protect(options, batch)?;
        if self.engine.commits.is_some() {
            return self.write_numbered_by_batch(options, batch);
        }
        let request = WriteRequest {
            batch: std::mem::take(batch),
            sync: options.sync,
            disable_wal: options.disable_wal,
            no_slowdown: options.no_slowdown,
            ..WriteRequest::default()
        };
        self.join(request, batch)
    }

    /// Writes `batch`, in a group of its own, if `validate` returns `Ok`. The caller is the leader
    /// while `validate` runs.
    /// # Errors
    /// The error of `validate` · errors of [`WritePath::write`].
    pub(crate) fn write_if(
        &self,
        options: &WriteOptions,
        batch: &mut WriteBatch,
        validate: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let _watch = self.engine.time(Histogram::DbWrite);
        check_options(options, &self.engine.options)?;
        self.engine.check_open()?;
        protect(options, batch)?;
        let request = WriteRequest {
            batch: std::mem::take(batch),
            sync: options.sync,
            disable_wal: options.disable_wal,
            no_slowdown: options.no_slowdown,
            ..WriteRequest::default()
        };
        let lead =
            if options.no_slowdown { self.queue.lead_alone_without_stall() } else { Ok(self.lead_alone()) };
        let (own_batch, result) = match lead {
            Ok(leader) => match self.make_room(&leader, &request).and_then(|()| validate()) {
                Ok(()) => write_group(self, &leader, request, 0),
                Err(e) => (request.batch, Err(e)),
            },
            Err(e) => (request.batch, Err(e)),
        };
        *batch = own_batch;
        result
    }

    /// Writes `batch` in a group of its own, and calls `after` before any other write: to its reads
    /// this write is the newest one.
    /// # Errors
    /// Errors of [`WritePath::write`]. `after` is not called then.
    pub(crate) fn write_and_then(
        &self,
        options: &WriteOptions,
        batch: &mut WriteBatch,
        after: &mut dyn FnMut(),
    ) -> Result<()> {
        check_options(options, &self.engine.options)?;
        self.engine.check_open()?;
        protect(options, batch)?;
        let request = WriteRequest {
            batch: std::mem::take(batch),
            sync: options.sync,
            disable_wal: options.disable_wal,
            no_slowdown: options.no_slowdown,
            ..WriteRequest::default()
        };
        let (own_batch, result) = self.request_and_then(request, after);
        *batch = own_batch;
        result
    }

    /// Writes a request in a group of its own, and calls `after` before any other write.
    fn request_and_then(&self, request: WriteRequest, after: &mut dyn FnMut()) -> (WriteBatch, Result<()>) {
        let _watch = self.engine.time(Histogram::DbWrite);
        let lead =
            if request.no_slowdown { self.queue.lead_alone_without_stall() } else { Ok(self.lead_alone()) };
        let made_room = lead.and_then(|leader| self.make_room(&leader, &request).map(|()| leader));
        match made_room {
            Ok(_leader) => {
                let (batch, result) = write_alone(self, request);
                if result.is_ok() {
                    after();
                }
                (batch, result)
            }
            Err(e) => (request.batch, Err(e)),
        }
    }

    /// Syncs the WAL, so that all earlier writes are durable. Works also while writes are stalled.
    /// If another thread is the leader, it may sync for this caller.
    /// # Errors
    /// `ShutdownInProgress` · the background error in force · `IoError`: the durable part of the
    /// WAL is unknown, and writes fail until `resume()` or a reopen.
    pub(crate) fn sync_wal(&self) -> Result<()> {
        self.engine.check_open()?;
        let request = WriteRequest { sync: true, urgent: true, ..WriteRequest::default() };
        match self.queue.join_and_wake(request, || self.wake_leader()) {
            Joined::Done(_, result) => result,
            Joined::Lead(leader, request) => self.lead(&leader, request).1,
        }
    }

    /// Writes a request as the leader, or lets another leader write it. Then moves the request's
    /// batch back to `batch`.
    #[inline(always)]
    fn join(&self, request: WriteRequest, batch: &mut WriteBatch) -> Result<()> {
        if perf_level() >= PerfLevel::EnableWait {
            return self.join_timed(request, batch);
        }
        let (own_batch, result) = match self.queue.join(request) {
            Joined::Done(own_batch, result) => (own_batch, result),
            Joined::Lead(leader, request) => self.lead(&leader, request),
        };
        *batch = own_batch;
        result
    }

    /// [`WritePath::join`] for a thread whose `PerfContext` has waits, and perhaps times.
    #[cold]
    fn join_timed(&self, request: WriteRequest, batch: &mut WriteBatch) -> Result<()> {
        let clock = &*self.engine.env.clock;
        let begun = clock.monotonic_nanos();
        let joined = self.queue.join(request);
        let now = clock.monotonic_nanos();
        perf_add!(write_thread_wait_nanos, now.saturating_sub(begun));
        let (own_batch, result) = match joined {
            Joined::Done(own_batch, result) => (own_batch, result),
            Joined::Lead(leader, request) => {
                let before = timed_parts();
                let led = self.lead(&leader, request);
                if perf_level() >= PerfLevel::EnableTimeExceptForMutex {
                    let all = clock.monotonic_nanos().saturating_sub(now);
                    let parts = timed_parts().wrapping_sub(before);
                    perf_add!(write_pre_and_post_process_time, all.saturating_sub(parts));
                }
                led
            }
        };
        *batch = own_batch;
        result
    }

    /// Waits for leadership. No other thread writes while the returned leader lives.
    pub(crate) fn lead_alone(&self) -> Leader<'_> {
        self.queue.lead_alone()
    }

    /// [`lead_alone`](Self::lead_alone) for work that adds entries past the memtables: it waits for
    /// the end of each `Db::lock_wal`.
    /// # Errors
    /// `ShutdownInProgress` · the background error in force, if it stops writes.
    pub(crate) fn lead_alone_unlocked(&self) -> Result<Leader<'_>> {
        let leader = self.lead_alone();
        self.wait_until_unlocked(&leader)?;
        Ok(leader)
    }

    /// [`lead_alone`](Self::lead_alone) for work that needs no room in the memtables and may make
    /// room there. A stalled leader lends its leadership to this caller and writes after it.
    pub(crate) fn lead_alone_urgently(&self) -> Leader<'_> {
        self.queue.lead_alone_urgently(|| self.wake_leader())
    }

    /// Wakes a stalled leader, which then checks whether an urgent waiter needs leadership.
    fn wake_leader(&self) {
        // The leader holds the state lock from its check of the queue until it sleeps. So a
        // notification under this lock reaches the leader.
        let state = self.engine.state.lock();
        self.engine.state_changed.notify_all();
        drop(state);
    }

    fn lead(&self, leader: &Leader<'_>, own: WriteRequest) -> (WriteBatch, Result<()>) {
        if let Err(e) = self.make_room(leader, &own) {
            return (own.batch, Err(e));
        }
        let limit = if own.urgent && !self.has_room() {
            0 // No followers, because their batches would need room.
        } else {
            usize::try_from(self.engine.options.max_write_batch_group_size_bytes).unwrap_or(usize::MAX)
        };
        write_group(self, leader, own, limit)
    }

    fn count_group(&self, own: &WriteRequest, group: &[Follower], keys: u64) {
        let of_followers = group.iter().map(|f| f.bytes).sum::<usize>() as u64;
        let (bytes, followers) = (own.batch.data_size() as u64 + of_followers, group.len() as u64);
        if followers > 0 {
            self.charge_followers(of_followers);
        }
        let (to_wal, synced) = (!own.disable_wal, own.sync);
        self.engine.counters.count_group(CommittedGroup { followers, keys, bytes, to_wal, synced });
        let Some(statistics) = &self.engine.options.statistics else { return };
        statistics.record_tick(Ticker::NumberKeysWritten, keys);
        statistics.record_tick(Ticker::BytesWritten, bytes);
        statistics.record_in_histogram(Histogram::BytesPerWrite, bytes);
        statistics.record_tick(Ticker::WriteDoneBySelf, 1);
        statistics.record_tick(Ticker::WriteDoneByOther, followers);
        if to_wal {
            statistics.record_tick(Ticker::WriteWithWal, 1 + followers);
            statistics.record_tick(Ticker::WalFileBytes, bytes);
        }
        if synced {
            statistics.record_tick(Ticker::WalFileSynced, 1);
        }
    }

    /// Appends one record for the whole group, in RocksDB's form. The header has the first sequence
    /// number and the number of operations. The operations of all batches follow.
    fn append_to_wal(
        &self,
        own: &WriteRequest,
        group: &[Follower],
        first: SequenceNumber,
        next: SequenceNumber,
    ) -> Result<()> {
        let batches = || std::iter::once(&own.batch).chain(group.iter().map(|f| &f.request.batch));
        // Checksums of batches are checked first: bytes that changed in memory must not get a valid
        // checksum in the WAL.
        if batches().any(WriteBatch::is_protected) {
            let unchanged = batches().try_for_each(WriteBatch::verify_checksum);
            unchanged.map_err(|e| self.stop_writes(&e, ErrorReason::MemTable))?;
        }
        // The record's count includes ops of prepared sections, which take no sequence numbers.
        let count = batches().map(WriteBatch::count).sum();
        let header = WriteBatch::encode_header(first, count);
        let mut wals = self.engine.wals.lock();
        let appended = if batches().all(WriteBatch::is_empty) {
            Ok(()) // a sync without a batch
        } else if group.is_empty() {
            wals.append(&[&header, own.batch.ops_bytes()], first..next)
        } else {
            let pieces: Vec<&[u8]> =
                std::iter::once(&header[..]).chain(batches().map(WriteBatch::ops_bytes)).collect();
            wals.append(&pieces, first..next)
        };
        let mut result = appended;
        if own.sync && result.is_ok() {
            result = self.sync(&mut wals);
            if result.is_err() && !batches().all(WriteBatch::is_empty) {
                wals.refuse_last();
            }
        }
        self.engine.wal_bytes.store(wals.total_bytes(), Ordering::Relaxed);
        drop(wals);
        result.map_err(|e| self.stop_writes(&e, ErrorReason::WalWrite))
    }

    /// Adds a group's batches to the open traces, before any read sees the batches. The operations
    /// of a prepared transaction are added at its commit.
    #[cold]
    fn trace(&self, own: &WriteRequest, group: &[Follower]) {
        let applied = std::iter::once(own).chain(group.iter().map(|f| &f.request));
        for batch in applied.filter_map(WriteRequest::applied).filter(|batch| !batch.is_empty()) {
            self.engine.trace_query(|| Query::Write(batch.data()));
        }
    }

    /// Removes the group's record from the WAL, and the group's prepared sections from the list of
    /// prepared sections.
    fn take_back(&self, own: &WriteRequest, group: &[Follower]) -> Result<()> {
        if own.disable_wal {
            return Ok(());
        }
        self.forget_sections(own, group);
        let mut wals = self.engine.wals.lock();
        let result = wals.take_back(own.batch.sequence());
        self.engine.wal_bytes.store(wals.total_bytes(), Ordering::Relaxed);
        result
    }

    fn sync(&self, wals: &mut Wals) -> Result<()> {
        let _watch = self.engine.time(Histogram::WalFileSyncMicros);
        wals.sync()
    }

    /// Records an error that stops all writes, and returns the error for this group's writers.
    fn stop_writes(&self, error: &Error, reason: ErrorReason) -> Error {
        let in_force = self.engine.set_background_error(error, reason);
        let in_force = in_force.unwrap_or_else(|| error.clone());
        esker_base::info_log!(self.engine.info_log, Error, "Write failed ({reason:?}): {in_force}");
        error.clone().with_severity(in_force.severity())
    }
}

/// Nanoseconds of the parts of writes that the thread's `PerfContext` has apart.
fn timed_parts() -> u64 {
    with_live(|live| {
        [
            &live.write_wal_time,
            &live.write_memtable_time,
            &live.write_delay_time,
            &live.write_scheduling_flushes_compactions_time,
        ]
        .into_iter()
        .fold(0_u64, |sum, part| sum.wrapping_add(part.get()))
    })
}

impl Sink for WritePath {
    type Memtables = Engine;

    fn has_room_for(&self, _request: &WriteRequest) -> bool {
        self.has_room()
    }

    fn allocate(&self, count: u64) -> SequenceNumber {
        let last = self.engine.allocated_sequence.load(Ordering::Relaxed);
        self.engine.allocated_sequence.store(last + count, Ordering::Relaxed);
        SequenceNumber(last + 1)
    }

    fn log(&self, own: &WriteRequest, group: &[Follower], numbers: Range<SequenceNumber>) -> Result<()> {
        if own.disable_wal {
            self.engine.has_unlogged_data.store(true, Ordering::Release);
            return Ok(());
        }
        let append = || self.append_to_wal(own, group, numbers.start, numbers.end);
        perf_time!(write_wal_time, self.engine.env.clock, append())?;
        self.note_sections(own, group);
        Ok(())
    }

    fn memtables(&self) -> &Arc<Engine> {
        &self.engine
    }

    fn time_insert<R>(&self, insert: impl FnOnce() -> R) -> R {
        perf_time!(write_memtable_time, self.engine.env.clock, insert())
    }

    fn applies_concurrently(&self) -> bool {
        self.engine.options.allow_concurrent_memtable_write
    }

    fn refused(&self, refused: &Refused, own: &WriteRequest, group: &[Follower]) -> Error {
        let taken_back = self.take_back(own, group);
        if let Err(e) = &taken_back {
            esker_base::info_log!(
                self.engine.info_log,
                Error,
                "A write that failed may be there after a reopen: its WAL record could not be removed: {e}"
            );
        }
        let is_damage = refused.error.kind() == ErrorKind::Corruption;
        if taken_back.is_ok() && refused.is_clean && !is_damage {
            // The next group gets this group's numbers: recovery of recycled WALs needs numbers
            // without gaps.
            let before = own.batch.sequence().0 - 1;
            self.engine.allocated_sequence.store(before, Ordering::Relaxed);
            return refused.error.clone();
        }
        self.stop_writes(&refused.error, ErrorReason::MemTable)
    }

    fn publish(&self, own: &WriteRequest, group: &[Follower], numbers: Range<SequenceNumber>) {
        self.resolve_sections(own, group);
        let newest = SequenceNumber(numbers.end.0 - 1);
        let mut keys = numbers.end.0 - numbers.start.0;
        if self.engine.open_tag.load(Ordering::Relaxed) == self.engine.tag {
            self.engine.numbers.set_last_sequence(newest);
        } else {
            keys = self.keys_of(own, group, keys);
            self.trace(own, group);
            self.engine.numbers.set_last_sequence(newest);
            self.prune_commits(own, group);
        }
        if self.engine.deletions_sampled.load(Ordering::Relaxed) {
            self.engine.queue_pre_scans_in_memory(Take::Due);
        }
        self.count_group(own, group, keys);
    }
}

/// Adds checksums to the batch, if the options request checksums and the batch has none.
fn protect(options: &WriteOptions, batch: &mut WriteBatch) -> Result<()> {
    if options.protection_bytes_per_key == 0 {
        Ok(())
    } else {
        batch.protect(options.protection_bytes_per_key)
    }
}

fn check_options(options: &WriteOptions, db_options: &DbOptions) -> Result<()> {
    if !options.disable_wal {
        return Ok(());
    }
    if db_options.recycle_log_file_num > 0 {
        // Recovery of a recycled WAL stops at a gap in the sequence numbers, because old records
        // begin there. Writes without a WAL would leave such gaps.
        return Err(Error::invalid_argument(
            "WriteOptions: disable_wal is not supported if recycle_log_file_num > 0",
        ));
    }
    if options.sync {
        return Err(Error::invalid_argument(
            "WriteOptions: sync and disable_wal contradict each other; set one",
        ));
    }
    Ok(())
}
