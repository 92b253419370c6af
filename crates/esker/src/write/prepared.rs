//! Writes under the policies `WritePrepared` and `WriteUnprepared`: a prepared transaction is in
//! the memtables before its commit, and parts of a large one before its prepare.
//!
//! | step | the WAL gets | the memtables get | sequence numbers |
//! |---|---|---|---|
//! | write | the ops, a no-op | all ops | one for each part |
//! | spill | some ops between markers | these ops | one for each part |
//! | prepare | the other ops between markers | these ops | one for each part |
//! | commit | a marker | nothing | one |
//! | commit after spills without a prepare | both of the prepare and the commit | these ops | one for each part, one |
//! | roll back | the former values, a marker | the former values | one for each part |
//!
//! A *part* is a run of ops without repeated keys; its ops share a number. In the WAL a no-op ends
//! a batch, and readers number the ops by batch. So RocksDB and the recovery find the numbers that
//! the memtables have.
//!
//! Invariants
//!  1. The commit table has a section from before its numbers are published until its resolution
//!     is. So a read sees its ops from the number of its commit on.
//!  2. `Engine::prepared` lists the transaction, and so keeps the WALs from its first section on,
//!     until the WAL of its resolution is durable. Without these WALs, entries in tables would
//!     count as committed.
//!  3. A record has one step of a prepared transaction, or several commits, or writes. So the
//!     numbers of a section follow from the head of its record.
//!
//! Source: RocksDB `utilities/transactions/write_prepared_txn.cc`, `write_prepared_txn_db.cc`,
//! `write_unprepared_txn.cc`.

use super::WritePath;
use super::apply::{Memtables, Refused};
use super::queue::{Follower, WriteRequest};
use super::two_phase::{TwoPhase, steps};
use crate::engine::Engine;
use crate::options::WriteOptions;
use crate::wal::{CustomOrders, OpNumbers, custom_order, early_section, numbers_by_batch};
use esker_base::sync::Arc;
use esker_base::{ColumnFamilyId, Error, Result, SequenceNumber};
use esker_format::key::InternalKeyComparator;
use esker_format::write_batch::{BatchOp, PrepareKind, WriteBatch};

/// A step under `WritePrepared` or `WriteUnprepared`.
#[derive(Debug)]
pub(crate) enum PreparedStep {
    /// The request's ops are written, as the only step.
    Write { numbers: u64 },
    /// Ops of a transaction that is not prepared go to the memtables, where no other reader sees
    /// them.
    Spill { xid: Vec<u8>, batch: Arc<WriteBatch>, numbers: u64 },
    /// The section's ops go to the memtables. No read sees them, unless the step `commits`, too.
    /// `numbers`: those of the section; the commit takes the next one.
    Prepare { xid: Vec<u8>, batch: Arc<WriteBatch>, numbers: u64, commits: bool },
    /// Later reads see the ops of all sections. `batch`: those of the last one.
    Commit { xid: Vec<u8>, batch: Arc<WriteBatch> },
    /// The request's ops take the ops of all sections back.
    Rollback { xid: Vec<u8>, numbers: u64 },
}

impl PreparedStep {
    /// Number of sequence numbers that the step takes.
    pub(super) fn numbers(&self) -> u64 {
        match self {
            PreparedStep::Write { numbers }
            | PreparedStep::Spill { numbers, .. }
            | PreparedStep::Rollback { numbers, .. } => *numbers,
            PreparedStep::Prepare { numbers, commits, .. } => numbers + u64::from(*commits),
            PreparedStep::Commit { .. } => 1,
        }
    }

    /// Whether both steps may be in one record.
    pub(super) fn may_share(&self, other: &PreparedStep) -> bool {
        matches!(
            (self, other),
            (PreparedStep::Write { .. }, PreparedStep::Write { .. })
                | (PreparedStep::Commit { .. }, PreparedStep::Commit { .. })
        )
    }

    /// Inserts the ops of a request of this step into the memtables.
    /// # Errors
    /// Those of [`Memtables::apply`].
    pub(super) fn apply(&self, memtables: &dyn Memtables, request: &WriteRequest) -> Result<(), Refused> {
        let first = request.batch.sequence();
        match self {
            PreparedStep::Write { .. } | PreparedStep::Rollback { .. } => {
                memtables.apply_parts(&request.batch, first)
            }
            PreparedStep::Spill { batch, .. } | PreparedStep::Prepare { batch, .. } => {
                memtables.apply_parts(batch, first)
            }
            PreparedStep::Commit { .. } => Ok(()),
        }
    }
}

impl WritePath {
    /// [`WritePath::write`] under `WritePrepared`. Copies the batch.
    #[cold]
    pub(super) fn write_numbered_by_batch(
        &self,
        options: &WriteOptions,
        batch: &mut WriteBatch,
    ) -> Result<()> {
        let mut record = with_ends(batch)?;
        let numbers = numbers_by_batch(&record, &|id| order_of(&self.engine, id));
        // A batch without ops takes no number, so it has no end.
        let step = (numbers > 0).then(|| Arc::new(TwoPhase::Prepared(PreparedStep::Write { numbers })));
        let request = WriteRequest {
            batch: std::mem::take(&mut record),
            sync: options.sync,
            disable_wal: options.disable_wal,
            no_slowdown: options.no_slowdown,
            two_phase: step,
            ..WriteRequest::default()
        };
        let result = self.join(request, &mut record);
        batch.set_sequence(record.sequence());
        result
    }

    /// [`WritePath::prepare`] under `WritePrepared`.
    /// # Errors
    /// `NotSupported`: the transaction deletes ranges · those of [`WritePath::write`].
    pub(super) fn prepare_in_memtables(
        &self,
        options: &WriteOptions,
        xid: &[u8],
        batch: WriteBatch,
    ) -> Result<()> {
        if batch.content().delete_range {
            return Err(Error::not_supported(
                "write_policy WritePrepared: a transaction that deletes ranges cannot be prepared; commit it without",
            ));
        }
        let orders = |id| order_of(&self.engine, id);
        let (record, numbers) = early_section(xid, &batch, PrepareKind::Persisted, &orders)?;
        let step =
            PreparedStep::Prepare { xid: xid.to_vec(), batch: Arc::new(batch), numbers, commits: false };
        self.step(options, record, TwoPhase::Prepared(step))
    }

    /// Commits a transaction that has spilled, with `batch` as its last section. A crash leaves all
    /// of it or nothing.
    /// # Errors
    /// Errors of [`WritePath::write`].
    pub(crate) fn commit_spilled(&self, options: &WriteOptions, xid: &[u8], batch: WriteBatch) -> Result<()> {
        let orders = |id| order_of(&self.engine, id);
        let (mut record, numbers) = early_section(xid, &batch, PrepareKind::Persisted, &orders)?;
        record.put_marker(BatchOp::Commit { xid })?;
        let step =
            PreparedStep::Prepare { xid: xid.to_vec(), batch: Arc::new(batch), numbers, commits: true };
        self.step(options, record, TwoPhase::Prepared(step))
    }

    /// Writes ops of a transaction that is not prepared to WAL and memtables, where no other reader
    /// sees them. Returns their first sequence number and its count. The sync is that of the
    /// prepare: it covers the older WALs, too.
    /// # Errors
    /// Those of [`WritePath::write`]. Nothing is written then.
    pub(crate) fn spill(
        &self,
        options: &WriteOptions,
        xid: &[u8],
        batch: WriteBatch,
    ) -> Result<(SequenceNumber, u64)> {
        debug_assert!(!batch.content().delete_range, "a transaction with range deletions stays in memory");
        let orders = |id| order_of(&self.engine, id);
        let (record, numbers) = early_section(xid, &batch, PrepareKind::Unprepared, &orders)?;
        let step = PreparedStep::Spill { xid: xid.to_vec(), batch: Arc::new(batch), numbers };
        let options = WriteOptions { sync: false, ..*options };
        Ok((self.numbered_step(&options, record, TwoPhase::Prepared(step))?, numbers))
    }

    /// [`WritePath::commit_prepared`] under `WritePrepared`: writes nothing to memtables.
    /// # Errors
    /// `InvalidArgument`: no section of this name is prepared · errors of [`WritePath::write`].
    pub(super) fn commit_in_memtables(
        &self,
        options: &WriteOptions,
        xid: &[u8],
        batch: Arc<WriteBatch>,
    ) -> Result<()> {
        let mut record = WriteBatch::new();
        record.put_marker(BatchOp::Commit { xid })?;
        self.step(options, record, TwoPhase::Prepared(PreparedStep::Commit { xid: xid.to_vec(), batch }))
    }

    /// Rolls back a transaction with sections in the memtables. `former` has, for each key of
    /// these, the value that others see.
    /// # Errors
    /// Errors of [`WritePath::write`].
    pub(crate) fn rollback_in_memtables(
        &self,
        options: &WriteOptions,
        xid: &[u8],
        mut former: WriteBatch,
    ) -> Result<()> {
        let numbers = numbers_by_batch(&former, &|id| order_of(&self.engine, id)).max(1);
        former.put_marker(BatchOp::Rollback { xid })?;
        self.step(options, former, TwoPhase::Prepared(PreparedStep::Rollback { xid: xid.to_vec(), numbers }))
    }

    /// Called after the append: records the step's section, before any read can reach its numbers.
    pub(super) fn note_prepared(&self, step: &PreparedStep, request: &WriteRequest) {
        let (PreparedStep::Prepare { xid, numbers, .. } | PreparedStep::Spill { xid, numbers, .. }) = step
        else {
            return;
        };
        let wal = self.engine.wals.lock().current_number();
        let mut prepared = self.engine.prepared.lock();
        match step {
            PreparedStep::Prepare { batch, .. } => prepared.insert(xid.clone(), wal, batch.clone()),
            _ => prepared.insert_unprepared(xid.clone(), wal),
        }
        drop(prepared);
        if let Some(commits) = &self.engine.commits {
            commits.prepare(xid, request.batch.sequence(), *numbers);
        }
    }

    /// Undoes [`WritePath::note_prepared`] for a group whose record was removed.
    pub(super) fn forget_prepared(&self, step: &PreparedStep) {
        let (PreparedStep::Prepare { xid, .. } | PreparedStep::Spill { xid, .. }) = step else { return };
        self.engine.prepared.lock().forget(xid);
        if let Some(commits) = &self.engine.commits {
            commits.forget(xid);
        }
    }

    /// Called before the group's numbers are published: later reads see what the step resolves.
    pub(super) fn resolve_prepared(&self, step: &PreparedStep, request: &WriteRequest, synced: bool) {
        let first = request.batch.sequence();
        let (xid, at) = match step {
            PreparedStep::Commit { xid, .. } | PreparedStep::Rollback { xid, .. } => (xid, first),
            PreparedStep::Prepare { xid, numbers, commits: true, .. } => {
                (xid, SequenceNumber(first.0 + numbers))
            }
            _ => return,
        };
        if let Some(commits) = &self.engine.commits {
            commits.resolve(xid, at);
        }
        let resolved_in = (!synced).then(|| self.engine.wals.lock().current_number());
        self.engine.prepared.lock().remove(xid, resolved_in);
        self.engine.request_wal_check();
    }

    /// Number of ops that a group commits or spills. `numbers`: the numbers that it took, which are
    /// as many without a commit table.
    #[cold]
    pub(super) fn keys_of(&self, own: &WriteRequest, group: &[Follower], numbers: u64) -> u64 {
        if self.engine.commits.is_none() {
            return numbers;
        }
        let all = std::iter::once(own).chain(group.iter().map(|f| &f.request));
        let written = |request: &WriteRequest| match request.two_phase.as_deref() {
            Some(TwoPhase::Prepared(PreparedStep::Spill { batch, .. })) => batch.count(),
            _ => request.applied().map_or(0, WriteBatch::count),
        };
        all.map(|request| u64::from(written(request))).sum()
    }

    /// Drops resolved sections that no reader needs from the commit table, if the group resolved
    /// any. Called after its numbers were published.
    #[cold]
    pub(super) fn prune_commits(&self, own: &WriteRequest, group: &[Follower]) {
        let resolves = |(step, _): (&TwoPhase, _)| match step {
            TwoPhase::Prepared(step) => {
                let ends_section = matches!(step, PreparedStep::Prepare { commits: true, .. });
                ends_section || matches!(step, PreparedStep::Commit { .. } | PreparedStep::Rollback { .. })
            }
            _ => false,
        };
        if steps(own, group).any(resolves) {
            self.engine.prune_commits();
        }
    }
}

/// The ops of a batch with a no-op behind them, and one before each range deletion: it deletes what
/// the batch wrote before, so it needs a number of its own.
fn with_ends(batch: &WriteBatch) -> Result<WriteBatch> {
    if !batch.content().delete_range || batch.count() == 1 {
        let mut record = batch.clone();
        record.set_max_bytes(0);
        if batch.count() > 0 {
            record.put_marker(BatchOp::Noop)?;
        }
        return Ok(record);
    }
    batch.verify_checksum()?;
    let mut record = WriteBatch::with_capacity(batch.data_size() + 8);
    let mut in_part = false;
    for op in batch.iter() {
        if in_part && matches!(op, BatchOp::DeleteRange { .. }) {
            record.put_marker(BatchOp::Noop)?;
        }
        in_part |= op.family().is_some();
        record.push(op)?;
    }
    record.put_marker(BatchOp::Noop)?;
    Ok(record)
}

/// The order of a family in which keys of different bytes may be equal.
pub(crate) fn order_of(engine: &Engine, family: ColumnFamilyId) -> Option<InternalKeyComparator> {
    engine.families.with(family, |cf| custom_order(&cf.icmp)).flatten()
}

/// Calls `insert` with each op that a memtable takes and its number, the first part at `first`.
/// # Errors
/// Those of `insert`.
pub(super) fn numbered_ops(
    batch: &WriteBatch,
    first: SequenceNumber,
    orders: CustomOrders<'_>,
    mut insert: impl FnMut(SequenceNumber, &BatchOp<'_>) -> Result<()>,
) -> Result<()> {
    let mut numbers = OpNumbers::new(true, first, orders);
    batch.iter().try_for_each(|op| match numbers.number_of(&op) {
        Some(number) => insert(number, &op),
        None => Ok(()),
    })
}
