//! Writes in a group of their own: with callbacks, or logged in part.
//!
//! In: a batch, which may have a termination point of the WAL, and the caller's callbacks. Out: the
//! batch written, or refused by a callback.
//!
//! Invariants
//!  1. A callback that panics ends its own write only: the line of writers goes on.
//!  2. A write whose record is in the WAL reaches the memtables, whatever its callback does.

use super::apply::Refused;
use super::group::{Sink, write_alone};
use super::queue::{Follower, WriteRequest};
use super::{WritePath, check_options, protect};
use crate::engine::{Engine, ErrorReason, contained};
use crate::options::WriteOptions;
use esker_base::stats::Histogram;
use esker_base::sync::Arc;
use esker_base::sync::atomic::Ordering;
use esker_base::{Error, Result, SequenceNumber, Severity};
use esker_format::write_batch::{BATCH_PROTECTION_BYTES, WalTerminationPoint, WriteBatch};
use std::cell::RefCell;
use std::ops::Range;

/// Makes other ops of a batch.
type ChangeBatch<'c> = dyn Fn(&WriteBatch) -> Result<WriteBatch> + 'c;

/// The callbacks of one write.
#[derive(Default)]
pub(crate) struct ApartCalls<'c> {
    /// Called when the write has its place in the line of writers.
    pub(crate) enqueued: Option<&'c dyn Fn()>,
    /// Called by the leader before it writes. Its error refuses the write.
    pub(crate) check: Option<&'c dyn Fn() -> Result<()>>,
    /// Called by the leader after `check`: makes the ops that are written in place of the batch's.
    pub(crate) change: Option<&'c ChangeBatch<'c>>,
    /// Called between the WAL and the memtables, if the write goes to the WAL.
    pub(crate) logged: Option<&'c dyn Fn()>,
}

impl WritePath {
    /// Writes `batch` in a group of its own, with callbacks.
    /// # Errors
    /// The error of `check`: nothing was written · `Aborted` if a callback panics. If `logged`
    /// does so, the batch is written · errors of [`WritePath::write`].
    pub(crate) fn write_apart(
        &self,
        options: &WriteOptions,
        batch: &mut WriteBatch,
        calls: &ApartCalls<'_>,
    ) -> Result<()> {
        let _watch = self.engine.time(Histogram::DbWrite);
        check_options(options, &self.engine.options)?;
        self.engine.check_open()?;
        if self.engine.commits.is_some() {
            return Err(Error::not_supported(
                "write callbacks and termination points of the WAL, with WritePrepared and WriteUnprepared",
            ));
        }
        check_part(batch, self.engine.options.recycle_log_file_num)?;
        protect(options, batch)?;
        let request = WriteRequest {
            batch: std::mem::take(batch),
            sync: options.sync,
            disable_wal: options.disable_wal,
            no_slowdown: options.no_slowdown,
            ..WriteRequest::default()
        };
        let (own_batch, result) = self.request_apart(request, calls);
        *batch = own_batch;
        result
    }

    fn request_apart(&self, request: WriteRequest, calls: &ApartCalls<'_>) -> (WriteBatch, Result<()>) {
        let panicked = RefCell::new(Ok(()));
        let lead = self.queue.lead_alone_noting(request.no_slowdown, || {
            *panicked.borrow_mut() = call(calls.enqueued);
        });
        let ready = lead.and_then(|leader| {
            panicked.replace(Ok(()))?;
            self.make_room(&leader, &request)?;
            let check = || calls.check.map_or(Ok(()), |check| check());
            contained("a write callback", Severity::NoError, check)?;
            let changed = || calls.change.map(|change| changed(&request.batch, change)).transpose();
            Ok((leader, contained("inplace_callback", Severity::NoError, changed)?))
        });
        let (_leader, changed) = match ready {
            Ok(ready) => ready,
            Err(e) => return (request.batch, Err(e)),
        };
        let sink = ApartSink { path: self, calls, panicked };
        let Some(batch) = changed else {
            let (batch, result) = write_alone(&sink, request);
            return (batch, result.and(sink.panicked.into_inner()));
        };
        let mut own = request.batch;
        let (batch, result) = write_alone(&sink, WriteRequest { batch, ..request });
        own.set_sequence(batch.sequence());
        (own, result.and(sink.panicked.into_inner()))
    }
}

impl WritePath {
    /// Logs the ops of a batch that precede `point`.
    fn log_part(&self, own: &WriteRequest, point: &WalTerminationPoint, first: SequenceNumber) -> Result<()> {
        if own.batch.is_protected() {
            let unchanged = own.batch.verify_checksum();
            unchanged.map_err(|e| self.stop_writes(&e, ErrorReason::MemTable))?;
        }
        let (header, ops) =
            (WriteBatch::encode_header(first, point.count), own.batch.ops_bytes_before(point));
        let mut wals = self.engine.wals.lock();
        let next = SequenceNumber(first.0 + u64::from(point.count));
        let mut result = Ok(());
        if ops.is_empty() {
            wals.forget_mark();
        } else {
            result = wals.append(&[&header, ops], first..next);
        }
        if own.sync && result.is_ok() {
            result = self.sync(&mut wals);
            if result.is_err() && !ops.is_empty() {
                wals.refuse_last();
            }
        }
        self.engine.wal_bytes.store(wals.total_bytes(), Ordering::Relaxed);
        drop(wals);
        self.engine.has_unlogged_data.store(true, Ordering::Release);
        result.map_err(|e| self.stop_writes(&e, ErrorReason::WalWrite))
    }
}

/// The batch that `change` makes of this one, with checksums if this one has them.
fn changed(batch: &WriteBatch, change: &ChangeBatch<'_>) -> Result<WriteBatch> {
    if batch.wal_termination_point().is_some() {
        return Err(Error::not_supported("a termination point of the WAL in a batch for inplace_callback"));
    }
    batch.verify_checksum()?;
    let mut changed = change(batch)?;
    if batch.is_protected() {
        changed.protect(BATCH_PROTECTION_BYTES)?;
    }
    Ok(changed)
}

/// Checks that the options allow a batch that is logged in part.
fn check_part(batch: &WriteBatch, recycle_log_file_num: usize) -> Result<()> {
    if recycle_log_file_num > 0 && batch.wal_termination_point().is_some() {
        // Recovery of a recycled WAL stops at a gap in the sequence numbers.
        return Err(Error::invalid_argument(
            "WriteBatch: mark_wal_termination_point is not supported if recycle_log_file_num > 0",
        ));
    }
    Ok(())
}

/// Runs a callback, and makes an error of a panic.
fn call(callback: Option<&dyn Fn()>) -> Result<()> {
    let Some(callback) = callback else { return Ok(()) };
    contained("a write callback", Severity::NoError, || {
        callback();
        Ok(())
    })
}

/// The write path, with a callback between the WAL and the memtables.
struct ApartSink<'a> {
    path: &'a WritePath,
    calls: &'a ApartCalls<'a>,
    panicked: RefCell<Result<()>>,
}

impl Sink for ApartSink<'_> {
    type Memtables = Engine;

    fn has_room_for(&self, request: &WriteRequest) -> bool {
        self.path.has_room_for(request)
    }

    fn allocate(&self, count: u64) -> SequenceNumber {
        self.path.allocate(count)
    }

    fn log(&self, own: &WriteRequest, group: &[Follower], numbers: Range<SequenceNumber>) -> Result<()> {
        match own.batch.wal_termination_point() {
            Some(point) if !own.disable_wal => self.path.log_part(own, &point, numbers.start)?,
            _ => self.path.log(own, group, numbers)?,
        }
        if !own.disable_wal {
            *self.panicked.borrow_mut() = call(self.calls.logged);
        }
        Ok(())
    }

    fn memtables(&self) -> &Arc<Engine> {
        self.path.memtables()
    }

    fn time_insert<R>(&self, insert: impl FnOnce() -> R) -> R {
        self.path.time_insert(insert)
    }

    fn applies_concurrently(&self) -> bool {
        self.path.applies_concurrently()
    }

    fn refused(&self, refused: &Refused, own: &WriteRequest, group: &[Follower]) -> Error {
        self.path.refused(refused, own, group)
    }

    fn publish(&self, own: &WriteRequest, group: &[Follower], numbers: Range<SequenceNumber>) {
        self.path.publish(own, group, numbers);
    }
}
