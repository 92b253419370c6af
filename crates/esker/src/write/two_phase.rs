//! The steps of a prepared transaction in the write path.
//!
//! | step | the WAL gets | the memtables get | sequence numbers |
//! |---|---|---|---|
//! | prepare | the ops between markers | nothing | none |
//! | commit | the commit-time batch, a marker, then the writes since the prepare | all ops | one for each op |
//! | roll back | a marker | nothing | none |
//!
//! Invariants
//!  1. `Engine::prepared` lists every section in a WAL that is neither committed nor rolled back:
//!     its WAL stays.
//!  2. A commit names the section's WAL in every memtable it writes to before it takes the section
//!     out of the list: the WAL stays until these memtables are in tables, because replaying the
//!     commit needs both.
//!  3. The section's WAL stays until the WAL that resolves it is durable: otherwise a crash could
//!     keep the resolution and lose earlier writes.
//!
//! Source: RocksDB `utilities/transactions/pessimistic_transaction.cc`,
//! `db/logs_with_prep_tracker.h`.

use super::WritePath;
use super::apply::{Memtables, Refused};
use super::prepared::PreparedStep;
use super::queue::{Follower, WriteRequest};
use crate::options::WriteOptions;
use crate::wal::{section_record, section_record_again, stamped};
use esker_base::sync::Arc;
use esker_base::sync::atomic::Ordering;
use esker_base::{Error, FileNumber, Result, SequenceNumber, Severity};
use esker_format::write_batch::{BatchOp, WriteBatch};
use std::collections::BTreeSet;

/// A step of two-phase commit.
#[derive(Debug)]
pub(crate) enum TwoPhase {
    /// The request's ops become a prepared section.
    Prepare { xid: Vec<u8>, batch: Arc<WriteBatch> },
    /// The section's ops are applied.
    Commit { xid: Vec<u8>, batch: Arc<WriteBatch> },
    /// The section is dropped.
    Rollback { xid: Vec<u8> },
    /// A step under the policy `WritePrepared`.
    Prepared(PreparedStep),
}

/// Ops that the commit of a prepared transaction applies together with the section.
#[derive(Debug)]
pub(crate) struct PreparedCommit<'a> {
    /// The timestamp of the section and of `later`, in families with timestamps of 8 bytes.
    pub(crate) timestamp: Option<[u8; 8]>,
    /// Ops before those of the section.
    pub(crate) first: &'a WriteBatch,
    /// Ops behind those of the section.
    pub(crate) later: WriteBatch,
}

impl TwoPhase {
    /// Number of sequence numbers that the step takes.
    pub(super) fn numbers(&self) -> u64 {
        match self {
            TwoPhase::Commit { batch, .. } => u64::from(batch.count()),
            TwoPhase::Prepare { .. } | TwoPhase::Rollback { .. } => 0,
            TwoPhase::Prepared(step) => step.numbers(),
        }
    }

    /// The ops that reads see from the step on. `own` is the batch of its request.
    pub(super) fn committed<'a>(&'a self, own: &'a WriteBatch) -> Option<&'a WriteBatch> {
        match self {
            TwoPhase::Commit { batch, .. }
            | TwoPhase::Prepared(
                PreparedStep::Commit { batch, .. } | PreparedStep::Prepare { batch, commits: true, .. },
            ) => Some(batch),
            TwoPhase::Prepared(PreparedStep::Write { .. }) => Some(own),
            TwoPhase::Prepare { .. } | TwoPhase::Rollback { .. } | TwoPhase::Prepared(_) => None,
        }
    }

    /// Inserts the step's ops into the memtables.
    /// # Errors
    /// Those of [`Memtables::apply`].
    pub(super) fn apply(&self, memtables: &dyn Memtables, request: &WriteRequest) -> Result<(), Refused> {
        match self {
            TwoPhase::Commit { batch, .. } => memtables.apply(batch, request.batch.sequence()),
            TwoPhase::Prepare { .. } | TwoPhase::Rollback { .. } => Ok(()),
            TwoPhase::Prepared(step) => step.apply(memtables, request),
        }
    }
}

impl WritePath {
    /// Writes `batch` as the prepared section of transaction `xid`: it survives a crash, and no
    /// read sees it.
    /// # Errors
    /// `InvalidArgument`: a section of this name exists, or `disable_wal` is set · errors of
    /// [`WritePath::write`].
    pub(crate) fn prepare(&self, options: &WriteOptions, xid: &[u8], batch: WriteBatch) -> Result<()> {
        if options.disable_wal {
            return Err(Error::invalid_argument("a transaction can only be prepared in the WAL"));
        }
        if self.engine.prepared.lock().get(xid).is_some() {
            let name = xid.escape_ascii();
            return Err(Error::invalid_argument(format!("a transaction '{name}' is prepared already")));
        }
        if self.engine.commits.is_some() {
            return self.prepare_in_memtables(options, xid, batch);
        }
        let record = section_record(xid, &batch)?;
        self.step(options, record, TwoPhase::Prepare { xid: xid.to_vec(), batch: Arc::new(batch) })
    }

    /// Commits the prepared transaction `xid`: its ops are applied together with those of `commit`.
    /// `after` is called before any other write; then the commit is a group of its own.
    /// # Errors
    /// `InvalidArgument`: no section of this name is prepared · errors of [`WritePath::write`].
    pub(crate) fn commit_prepared(
        &self,
        options: &WriteOptions,
        xid: &[u8],
        commit: PreparedCommit<'_>,
        after: Option<&mut dyn FnMut()>,
    ) -> Result<()> {
        let PreparedCommit { timestamp, first, mut later } = commit;
        let mut batch = self.engine.prepared.lock().get(xid).ok_or_else(|| not_prepared(xid))?;
        if self.engine.commits.is_some() {
            if later.count() > 0 {
                return Err(Error::invalid_argument("write_policy WritePrepared: writes after the prepare"));
            }
            if first.count() > 0 {
                return Err(Error::not_supported("write_policy WritePrepared: a commit-time batch"));
            }
            debug_assert!(after.is_none(), "only WriteCommitted has commits with a snapshot");
            debug_assert!(timestamp.is_none(), "WritePrepared has no families with timestamps");
            return self.commit_in_memtables(options, xid, batch);
        }
        // The ops before the marker get the lower numbers here and in a replay.
        let mut record = WriteBatch::new();
        record.append(first)?;
        match &timestamp {
            None => record.put_marker(BatchOp::Commit { xid })?,
            Some(timestamp) => {
                record.put_marker(BatchOp::CommitWithTimestamp { timestamp, xid })?;
                let has_timestamps = |id| self.engine.timestamp_size(id) > 0;
                batch = Arc::new(stamped(&batch, timestamp, &has_timestamps)?);
                later = stamped(&later, timestamp, &has_timestamps)?;
            }
        }
        if !later.ops_bytes().is_empty() || !first.ops_bytes().is_empty() {
            record.append(&later)?;
            let bytes = first.data_size() + batch.data_size() + later.data_size();
            let mut all = WriteBatch::with_capacity(bytes);
            all.append(first)?;
            all.append(&batch)?;
            all.append(&later)?;
            batch = Arc::new(all);
        }
        let step = TwoPhase::Commit { xid: xid.to_vec(), batch };
        let Some(after) = after else { return self.step(options, record, step) };
        self.engine.check_open()?;
        self.request_and_then(step_request(options, record, step), after).1
    }

    /// Rolls back the prepared transaction `xid`. `former`: under `WritePrepared`, the values that
    /// others see of its keys.
    /// # Errors
    /// `InvalidArgument`: no section of this name is prepared · errors of [`WritePath::write`].
    pub(crate) fn rollback_prepared(
        &self,
        options: &WriteOptions,
        xid: &[u8],
        former: impl FnOnce(&WriteBatch) -> Result<WriteBatch>,
    ) -> Result<()> {
        let batch = self.engine.prepared.lock().get(xid).ok_or_else(|| not_prepared(xid))?;
        if self.engine.commits.is_some() {
            return self.rollback_in_memtables(options, xid, former(&batch)?);
        }
        let mut record = WriteBatch::new();
        record.put_marker(BatchOp::Rollback { xid })?;
        self.step(options, record, TwoPhase::Rollback { xid: xid.to_vec() })
    }

    pub(super) fn step(&self, options: &WriteOptions, record: WriteBatch, step: TwoPhase) -> Result<()> {
        self.numbered_step(options, record, step)?;
        Ok(())
    }

    /// Writes `record`, which is `step`. Returns its sequence number.
    pub(super) fn numbered_step(
        &self,
        options: &WriteOptions,
        record: WriteBatch,
        step: TwoPhase,
    ) -> Result<SequenceNumber> {
        self.engine.check_open()?;
        let request = step_request(options, record, step);
        let mut record = WriteBatch::new();
        self.join(request, &mut record)?;
        Ok(record.sequence())
    }

    /// Called after the append: records the group's new sections, with the current WAL.
    pub(super) fn note_sections(&self, own: &WriteRequest, group: &[Follower]) {
        for (step, request) in steps(own, group) {
            match step {
                TwoPhase::Prepare { xid, batch } => {
                    let wal = self.engine.wals.lock().current_number();
                    self.engine.prepared.lock().insert(xid.clone(), wal, batch.clone());
                }
                TwoPhase::Prepared(step) => self.note_prepared(step, request),
                TwoPhase::Commit { .. } | TwoPhase::Rollback { .. } => {}
            }
        }
    }

    /// Undoes [`WritePath::note_sections`] for a group whose record was removed.
    pub(super) fn forget_sections(&self, own: &WriteRequest, group: &[Follower]) {
        for (step, _) in steps(own, group) {
            match step {
                TwoPhase::Prepare { xid, .. } => self.engine.prepared.lock().remove(xid, None),
                TwoPhase::Prepared(step) => self.forget_prepared(step),
                TwoPhase::Commit { .. } | TwoPhase::Rollback { .. } => {}
            }
        }
    }

    /// Called after the insertion: sections that are committed or rolled back stop keeping their
    /// WALs.
    pub(super) fn resolve_sections(&self, own: &WriteRequest, group: &[Follower]) {
        for (step, request) in steps(own, group) {
            let current = || (!own.sync).then(|| self.engine.wals.lock().current_number());
            match step {
                TwoPhase::Prepare { .. } => continue,
                TwoPhase::Prepared(step) => {
                    self.resolve_prepared(step, request, own.sync);
                    continue;
                }
                TwoPhase::Rollback { xid } => {
                    let resolved_in = current();
                    self.engine.prepared.lock().remove(xid, resolved_in);
                }
                TwoPhase::Commit { xid, batch } => self.note_commit(xid, batch, current()),
            }
            self.engine.request_wal_check();
        }
    }

    fn note_commit(&self, xid: &[u8], batch: &WriteBatch, resolved_in: Option<FileNumber>) {
        // The walk over the ops comes before the lock, for which readers and writers wait.
        let families: BTreeSet<_> = batch.iter().filter_map(|op| op.family()).collect();
        let mut state = self.engine.state.lock();
        let wal = self.engine.prepared.lock().wal_of(xid);
        if let Some(wal) = wal {
            for id in families {
                if let Some(family) = state.family_mut(id) {
                    family.memtables.note_section(wal);
                }
            }
        }
        self.engine.prepared.lock().remove(xid, resolved_in);
    }

    /// Writes every section to `wal`, the current one, and syncs it, because the WALs with the
    /// sections will be dropped. Does nothing if an earlier attempt did this and no write followed.
    /// # Errors
    /// `IoError`.
    pub(super) fn log_sections_again(&self, wal: FileNumber) -> Result<()> {
        let engine = &self.engine;
        let mut wals = engine.wals.lock();
        let mut prepared = engine.prepared.lock();
        if wals.current_is_complete() {
            return Ok(());
        }
        if prepared.oldest_wal().is_none() {
            wals.set_current_complete();
            return Ok(());
        }
        if engine.commits.is_some() {
            // The entries of the sections have the numbers of the damaged WALs, which a copy in
            // another WAL cannot have.
            return Err(Error::not_supported(
                "write_policy WritePrepared: a WAL is damaged and transactions are prepared; open the database again",
            )
            .with_severity(Severity::FatalError));
        }
        let next = SequenceNumber(engine.allocated_sequence.load(Ordering::Relaxed) + 1);
        for (xid, batch) in prepared.iter() {
            let mut record = section_record_again(xid, batch)?;
            record.set_sequence(next);
            wals.append(&[record.data()], next..next)?;
        }
        wals.sync()?;
        wals.set_current_complete();
        prepared.moved_to(wal);
        engine.request_wal_check();
        Ok(())
    }
}

pub(super) fn steps<'a>(
    own: &'a WriteRequest,
    group: &'a [Follower],
) -> impl Iterator<Item = (&'a TwoPhase, &'a WriteRequest)> {
    let all = std::iter::once(own).chain(group.iter().map(|f| &f.request));
    all.filter_map(|request| Some((request.two_phase.as_deref()?, request)))
}

fn step_request(options: &WriteOptions, record: WriteBatch, step: TwoPhase) -> WriteRequest {
    WriteRequest {
        batch: record,
        sync: options.sync,
        no_slowdown: options.no_slowdown,
        two_phase: Some(Arc::new(step)),
        ..WriteRequest::default()
    }
}

fn not_prepared(xid: &[u8]) -> Error {
    Error::invalid_argument(format!("no transaction '{}' is prepared", xid.escape_ascii()))
}
