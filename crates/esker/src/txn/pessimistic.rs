//! A transaction that locks the keys it touches.
//!
//! | state | left by |
//! |---|---|
//! | Started | `prepare` → Prepared · `commit` → Committed · `rollback` → Started, empty |
//! | Prepared | `commit` → Committed · `rollback` → RolledBack; it takes reads and writes |
//! | Committed, RolledBack | nothing: begin another one |
//!
//! Invariants
//!  1. Keys that it writes, or reads for update, stay locked until it ends, or rolls back to a save
//!     point before that. A drop rolls the transaction back and releases its locks. A prepared
//!     transaction stays prepared, with its locks.
//!  2. With a snapshot, a key is locked only if others have not written it since.
//!  3. Others see none of its writes before it commits, and then all at once.
//!  4. Others see none of the ops that it has spilled (`spill.rs`). A drop rolls these back, too.
//!  5. Writes after `prepare` are in memory only until the commit logs them behind its marker. A
//!     crash before the commit leaves the prepared section without them.
//!
//! Source of the semantics: RocksDB `utilities/transactions/pessimistic_transaction.cc`.

use super::batch_index::WriteBatchWithIndex;
use super::counts::OpCounts;
use super::db::{TransactionDbShared, lock};
use super::former_values::{former_values, ops_by_key};
use super::options::{IsolationLevel, TransactionOptions, WritePolicy, timeout};
use super::spill::{SavePointPosition, Spilled};
use super::timestamps::{UNSET, has_timestamps, refuse_timestamps};
use crate::db::{ColumnFamilyHandle, Db};
use crate::options::WriteOptions;
use crate::snapshot::Snapshot;
use crate::write::PreparedCommit;
use esker_base::stats::{Histogram, record_in_histogram};
use esker_base::sync::Arc;
use esker_base::{ColumnFamilyId, Error, Result, SequenceNumber};
use esker_format::write_batch::WriteBatch;
use esker_lock::{Canceller, LockMode, Locker, Locking};
use std::cell::{Ref, RefCell, RefMut};
use std::collections::{BTreeSet, HashMap};
use std::fmt;

/// Longest name of a transaction, in bytes: RocksDB's.
const MAX_NAME_BYTES: usize = 512;

/// The stage of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TransactionState {
    /// The transaction accepts reads and writes.
    Started,
    /// The transaction is in the WAL and waits for its commit or rollback. The transaction accepts
    /// reads and writes.
    Prepared,
    /// The transaction has ended, and its writes are in the database.
    Committed,
    /// The transaction has ended, and none of its writes is in the database.
    RolledBack,
}

/// The parts of a transaction, apart from its database.
#[derive(Debug)]
pub(super) struct PessimisticCore {
    pub(super) locker: Locker,
    pub(super) batch: WriteBatchWithIndex,
    pub(super) counts: OpCounts,
    /// Monotonic nanoseconds of the begin.
    pub(super) began: u64,
    /// Ops that the commit of the prepared transaction writes before the others.
    pub(super) commit_time: WriteBatch,
    /// The snapshot that the commit created.
    pub(super) timestamped_snapshot: Option<Snapshot>,
    pub(super) state: TransactionState,
    pub(super) name: Option<Vec<u8>>,
    pub(super) options: TransactionOptions,
    pub(super) write_options: WriteOptions,
    pub(super) snapshot: Option<Snapshot>,
    /// The next operation that locks sets the snapshot.
    snapshot_needed: bool,
    pub(super) save_points: Vec<SavePoint>,
    /// Reads for update of each key since the newest save point, or since the begin. Each save
    /// point has the counts before it.
    pub(super) reads: Reads,
    /// Families in which ranges are locked.
    pub(super) range_locked: BTreeSet<ColumnFamilyId>,
    pub(super) read_timestamp: u64,
    pub(super) commit_timestamp: u64,
    /// Whether the transaction may have touched families with user-defined timestamps.
    pub(super) may_have_timestamps: bool,
    /// The size of the batch when its prepared section was written.
    prepared_bytes: usize,
    pub(super) spilled: Spilled,
}

/// Number of reads for update of each key.
pub(super) type Reads = HashMap<(ColumnFamilyId, Vec<u8>), u32>;

#[derive(Debug)]
pub(super) struct SavePoint {
    snapshot: Option<Snapshot>,
    snapshot_needed: bool,
    /// Reads for update between the save point before and this one: [`PessimisticCore::reads`].
    pub(super) reads: Reads,
    range_locked: BTreeSet<ColumnFamilyId>,
    counts: OpCounts,
    pub(super) position: SavePointPosition,
}

impl SavePoint {
    pub(super) fn is_spilled(&self) -> bool {
        matches!(self.position, SavePointPosition::Spilled(_))
    }
}

impl PessimisticCore {
    pub(super) fn new(
        shared: &TransactionDbShared,
        write_options: &WriteOptions,
        options: &TransactionOptions,
    ) -> PessimisticCore {
        let mut batch = WriteBatchWithIndex::default();
        batch.set_max_bytes(options.max_write_batch_size);
        PessimisticCore {
            locker: shared.locks.locker(options.locker(&shared.options)),
            batch,
            counts: OpCounts::default(),
            began: shared.db.engine().env.clock.monotonic_nanos(),
            commit_time: WriteBatch::new(),
            timestamped_snapshot: None,
            state: TransactionState::Started,
            name: None,
            options: options.clone(),
            write_options: *write_options,
            snapshot: None,
            snapshot_needed: false,
            save_points: Vec::new(),
            reads: Reads::new(),
            range_locked: BTreeSet::new(),
            read_timestamp: UNSET,
            commit_timestamp: UNSET,
            may_have_timestamps: false,
            prepared_bytes: 0,
            spilled: Spilled::new(&shared.options, options),
        }
    }

    /// Marks the whole batch as written to the prepared section.
    pub(super) fn set_prepared(&mut self) {
        self.state = TransactionState::Prepared;
        self.prepared_bytes = self.batch.write_batch().ops_bytes().len();
    }

    /// The writes after `prepare`.
    fn later_writes(&self) -> Result<WriteBatch> {
        let mut later = WriteBatch::new();
        self.batch.write_batch().iter_from(self.prepared_bytes).try_for_each(|op| later.push(op))?;
        Ok(later)
    }

    /// The ops in memory, for a section of the WAL.
    fn copy_of_batch(&self) -> Result<WriteBatch> {
        let mut batch = WriteBatch::with_capacity(self.batch.write_batch().data_size());
        batch.append(self.batch.write_batch())?;
        Ok(batch)
    }

    pub(super) fn snapshot_sequence(&self) -> Option<SequenceNumber> {
        self.snapshot.as_ref().map(Snapshot::sequence)
    }

    /// Removes all writes and locks.
    fn clear(&mut self) {
        self.batch.clear();
        self.batch.spilled = None;
        self.counts = OpCounts::default();
        self.commit_time.clear();
        self.spilled.clear();
        self.locker.release_all();
        self.save_points.clear();
        self.reads.clear();
        self.range_locked.clear();
        self.snapshot = None;
        self.snapshot_needed = false;
    }
}

/// Several reads and writes that take effect together.
///
/// One thread uses it at a time; it may be sent to another. A drop rolls it back, unless it is
/// prepared: then
/// [`TransactionDb::get_transaction_by_name`](super::TransactionDb::get_transaction_by_name) gives
/// it back.
///
/// ```
/// # let dir = esker_testkit::TempDir::new("doc");
/// # let options = esker::Options::new().create_if_missing(true);
/// # let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;
/// use esker::ReadOptions;
///
/// db.put("stock", "3")?;
/// let (read, family) = (ReadOptions::default(), db.default_column_family());
/// let txn = db.begin_transaction();
/// txn.set_snapshot();
/// assert_eq!(txn.get_for_update("stock")?.unwrap(), b"3");
/// txn.put("stock", "2")?;
/// txn.put_cf(&family, "order/17", "a shovel")?;
/// assert_eq!(txn.get("stock")?.unwrap(), b"2");
/// assert_eq!(txn.get_opt(&read, &family, "stock")?.unwrap(), b"2");
/// assert_eq!(txn.multi_get(&read, &family, &["stock", "order/17"]).len(), 2);
/// let mut cursor = txn.iter_opt(&read, &family)?;
/// cursor.seek("order/");
/// assert!(cursor.valid());
/// assert_eq!(txn.range_cf(&family, "order/"..).count(), 2);
/// assert_eq!(txn.prefix_cf(&family, "order/").count(), 1);
///
/// txn.set_save_point();
/// txn.delete("stock")?;
/// txn.rollback_to_save_point()?;
/// txn.set_save_point();
/// txn.pop_save_point()?;
/// assert_eq!(txn.write_batch().len(), 2);
/// txn.commit()?;
/// assert!(db.contains_key("order/17")?);
///
/// let dropped = db.begin_transaction();
/// dropped.delete_cf(&family, "stock")?;
/// dropped.single_delete_cf(&family, "order/17")?;
/// dropped.delete_range_cf(&family, "x", "y")?;
/// dropped.put_untracked(&family, "last", "wins")?;
/// dropped.clear_snapshot();
/// dropped.set_snapshot_on_next_operation();
/// assert!(dropped.snapshot().is_none());
/// dropped.rollback()?;
/// # Ok::<_, esker::Error>(())
/// ```
pub struct Transaction {
    shared: Arc<TransactionDbShared>,
    /// Taken by `drop` only. No borrow outlives the statement that needs it.
    core: RefCell<Option<Box<PessimisticCore>>>,
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let core = self.core();
        f.debug_struct("Transaction")
            .field("id", &core.locker.id())
            .field("name", &core.name.as_ref().map(|name| name.escape_ascii().to_string()))
            .field("state", &core.state)
            .finish_non_exhaustive()
    }
}

impl Transaction {
    pub(super) fn begin(
        shared: Arc<TransactionDbShared>,
        write_options: &WriteOptions,
        options: &TransactionOptions,
    ) -> Transaction {
        let mut options = options.clone();
        options.skip_concurrency_control |= shared.options.skip_concurrency_control;
        options.set_snapshot |= options.isolation == IsolationLevel::Snapshot;
        let core = PessimisticCore::new(&shared, write_options, &options);
        let transaction = Transaction::of_core(shared, Box::new(core));
        if options.set_snapshot {
            transaction.set_snapshot();
        }
        transaction
    }

    pub(super) fn of_core(shared: Arc<TransactionDbShared>, core: Box<PessimisticCore>) -> Transaction {
        Transaction { shared, core: RefCell::new(Some(core)) }
    }

    pub(super) fn core(&self) -> Ref<'_, PessimisticCore> {
        Ref::map(self.core.borrow(), |core| &**core.as_ref().expect("only the drop takes the value out"))
    }

    pub(super) fn core_mut(&self) -> RefMut<'_, PessimisticCore> {
        RefMut::map(self.core.borrow_mut(), |core| {
            &mut **core.as_mut().expect("only the drop takes the value out")
        })
    }

    pub(super) fn db(&self) -> &Db {
        &self.shared.db
    }

    pub(super) fn shared(&self) -> &TransactionDbShared {
        &self.shared
    }

    /// Its number, which lock dumps and deadlocks name.
    pub fn id(&self) -> u64 {
        self.core().locker.id()
    }

    /// Its name; `None` if it was not given one.
    pub fn name(&self) -> Option<Vec<u8>> {
        self.core().name.clone()
    }

    /// Its stage.
    pub fn state(&self) -> TransactionState {
        self.core().state
    }

    /// Gives the transaction a name, which `prepare` needs. It can be set once, and must differ
    /// from those of other transactions that are not over.
    /// # Errors
    /// `InvalidArgument`: the name is empty, longer than 512 bytes or taken; the transaction has a
    /// name, or is prepared or over.
    pub fn set_name(&self, name: &[u8]) -> Result<()> {
        let mut core = self.core_mut();
        if core.state != TransactionState::Started {
            return Err(Error::invalid_argument("Transaction is beyond state for naming."));
        }
        if core.name.is_some() {
            let why =
                if core.spilled.made_name() { " It got a name when its writes were spilled." } else { "" };
            return Err(Error::invalid_argument(format!("Transaction has already been named.{why}")));
        }
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            return Err(Error::invalid_argument("Transaction name length must be between 1 and 512 chars."));
        }
        self.db().engine().check_process()?;
        let mut names = self.shared.names.lock();
        if names.contains_key(name) {
            return Err(Error::invalid_argument("Transaction name must be unique."));
        }
        names.insert(name.to_vec(), None);
        drop(names);
        core.name = Some(name.to_vec());
        Ok(())
    }

    /// Sets the snapshot to now: keys locked from now on must not have been written since.
    pub fn set_snapshot(&self) {
        let snapshot = self.db().snapshot();
        let core = &mut *self.core_mut();
        core.snapshot = Some(snapshot);
        core.snapshot_needed = false;
    }

    /// The next operation that locks sets the snapshot, once it has the lock.
    pub fn set_snapshot_on_next_operation(&self) {
        self.core_mut().snapshot_needed = true;
    }

    /// The snapshot, if one is set.
    pub fn snapshot(&self) -> Option<Snapshot> {
        self.core().snapshot.clone()
    }

    /// Removes the snapshot.
    pub fn clear_snapshot(&self) {
        let core = &mut *self.core_mut();
        core.snapshot = None;
        core.snapshot_needed = false;
    }

    /// Marks the present writes and locks as a save point. Save points nest.
    pub fn set_save_point(&self) {
        let core = &mut *self.core_mut();
        let position = core.position();
        if let SavePointPosition::InBatch(_) = position {
            core.batch.set_save_point();
        }
        core.locker.set_save_point();
        core.save_points.push(SavePoint {
            position,
            snapshot: core.snapshot.clone(),
            snapshot_needed: core.snapshot_needed,
            reads: std::mem::take(&mut core.reads),
            range_locked: core.range_locked.clone(),
            counts: core.counts,
        });
    }

    /// Undoes writes since the newest save point, releases the locks taken since, and removes the
    /// save point. The snapshot becomes that of the save point. With `Serializable` the locks stay,
    /// because the caller may use the values that it has read. If the writes since then were
    /// spilled (`WriteUnprepared`), the values of the save point are read and written, too.
    /// # Errors
    /// `NotFound` if there is none · `InvalidArgument`: the transaction is prepared or over · of
    /// spilled writes: the errors of [`Transaction::get_opt`] and [`Db::write`]. The transaction is
    /// unchanged then.
    pub fn rollback_to_save_point(&self) -> Result<()> {
        if self.state() == TransactionState::Prepared {
            return Err(Error::invalid_argument("Transaction is beyond state for rollback."));
        }
        self.check_live()?;
        self.undo_to_save_point()
    }

    /// [`Transaction::rollback_to_save_point`] in each state that takes writes.
    pub(super) fn undo_to_save_point(&self) -> Result<()> {
        let core = &mut *self.core_mut();
        match core.save_points.last().ok_or_else(no_save_point)?.position {
            SavePointPosition::Spilled(boundary) => self.undo_spilled(core, boundary)?,
            SavePointPosition::InBatch(_) => core.batch.rollback_to_save_point()?,
        }
        let point = core.save_points.pop().ok_or_else(no_save_point)?;
        if core.options.isolation == IsolationLevel::Serializable {
            core.locker.pop_save_point()?;
        } else {
            core.locker.rollback_to_save_point()?;
            core.range_locked = point.range_locked;
        }
        core.reads = point.reads;
        core.counts = point.counts;
        core.snapshot = point.snapshot;
        core.snapshot_needed = point.snapshot_needed;
        Ok(())
    }

    /// Removes the newest save point.
    /// # Errors
    /// `NotFound` if there is none.
    pub fn pop_save_point(&self) -> Result<()> {
        let core = &mut *self.core_mut();
        let point = core.save_points.pop().ok_or_else(no_save_point)?;
        let since = std::mem::replace(&mut core.reads, point.reads);
        since.into_iter().for_each(|(key, count)| *core.reads.entry(key).or_insert(0) += count);
        if let SavePointPosition::InBatch(_) = point.position {
            core.batch.pop_save_point()?;
        }
        core.locker.pop_save_point()
    }

    /// Sets the longest wait for a lock from now on, in milliseconds; 0: no wait, negative: no
    /// limit.
    pub fn set_lock_timeout(&self, millis: i64) {
        self.core_mut().locker.set_lock_timeout(timeout(millis));
    }

    /// Lets other transactions steal its locks once `millis` milliseconds have passed; negative:
    /// never.
    pub fn set_expiration(&self, millis: i64) {
        let after = u64::try_from(millis).ok().map(std::time::Duration::from_millis);
        self.core_mut().locker.set_expiration(after);
    }

    /// A handle that lets another thread end the transaction's wait for a lock.
    pub fn canceller(&self) -> Canceller {
        self.core().locker.canceller()
    }

    /// A copy of what it has written so far, without spilled writes (`WriteUnprepared`).
    pub fn write_batch(&self) -> WriteBatchWithIndex {
        WriteBatchWithIndex::from(self.core().batch.write_batch().clone())
    }

    /// Sets the options of the writes that prepare, commit or roll back.
    pub fn set_write_options(&self, options: &WriteOptions) {
        self.core_mut().write_options = *options;
    }

    /// Writes the transaction to the WAL. From now on it can be committed or rolled back, even
    /// after a crash. It keeps its locks. The commit applies later writes too; a crash before the
    /// commit loses them.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;
    /// use esker::WriteOptions;
    /// use esker::txn::TransactionState;
    ///
    /// let txn = db.begin_transaction();
    /// txn.set_name(b"transfer 17")?;
    /// txn.set_write_options(&WriteOptions::new().sync(true));
    /// txn.put("ada", "900")?;
    /// txn.prepare()?;
    /// assert_eq!(txn.state(), TransactionState::Prepared);
    /// assert_eq!(txn.name().unwrap(), b"transfer 17");
    /// drop(txn);
    ///
    /// let found = db.get_transaction_by_name(b"transfer 17").expect("it is prepared");
    /// found.commit()?;
    /// assert!(db.get_all_prepared_transactions().is_empty());
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: it has no name, is prepared or over, or writes without a WAL · `Expired`:
    /// its locks may have been stolen · `Incomplete`: `no_slowdown` is set, and writers are stalled
    /// · `ShutdownInProgress`: the database was closed · `NotSupported`: the database is read-only
    /// · `IoError`: the WAL could not be written; writes fail until [`Db::resume`] · the background
    /// error in force. After an error the transaction is unchanged.
    pub fn prepare(&self) -> Result<()> {
        let core = &mut *self.core_mut();
        match core.state {
            TransactionState::Started => {}
            TransactionState::Prepared => {
                return Err(Error::invalid_argument("Transaction has already been prepared."));
            }
            TransactionState::Committed => return Err(over("committed")),
            TransactionState::RolledBack => return Err(over("rolledback")),
        }
        let Some(name) = core.name.clone() else {
            return Err(Error::invalid_argument("Cannot prepare a transaction that has not been named."));
        };
        core.locker.begin_commit()?;
        let batch = core.copy_of_batch()?;
        // Without the WAL of the prepare, recovery would drop spilled ops.
        let disable_wal = core.write_options.disable_wal && core.spilled.is_empty();
        let options = WriteOptions { disable_wal, ..core.write_options };
        self.shared.db.prepare(&options, &name, batch)?;
        core.set_prepared();
        Ok(())
    }

    /// Writes everything to the database at once, and releases all locks.
    /// # Errors
    /// `Expired`: its locks may have been stolen · `InvalidArgument`: it is over, must be prepared
    /// first (`skip_prepare` is off, or there are ops in the commit-time batch), or has written to
    /// a family with user-defined timestamps and has no commit timestamp · `Incomplete`:
    /// `no_slowdown` is set, and writers are stalled · `ShutdownInProgress`: the database was
    /// closed · `NotSupported`: the database is read-only · `IoError`: the WAL could not be
    /// written; writes fail until [`Db::resume`] · the background error in force. After an error
    /// the transaction is unchanged, and may be committed again or rolled back. After `Busy` or
    /// `Expired`, roll back.
    pub fn commit(&self) -> Result<()> {
        self.commit_and_then(None)
    }

    /// [`Transaction::commit`], and a call of `after` before any other write, whether or not the
    /// transaction has written anything.
    pub(super) fn commit_and_then(&self, after: Option<&mut dyn FnMut()>) -> Result<()> {
        let core = &mut *self.core_mut();
        let db = &self.shared.db;
        let stamp = core.stamp(db, self.shared.options.enable_udt_validation);
        match core.state {
            TransactionState::Started if !core.options.skip_prepare => {
                return Err(Error::invalid_argument(
                    "Transaction has to be prepared before it is committed.",
                ));
            }
            TransactionState::Started if core.commit_time.count() > 0 => {
                return Err(Error::invalid_argument(
                    "Commit-time batch contains values that will not be committed.",
                ));
            }
            TransactionState::Started if !core.spilled.is_empty() => {
                core.locker.begin_commit()?;
                let name = core.name.clone().expect("a transaction that spills has a name");
                db.commit_spilled(&core.write_options, &name, core.copy_of_batch()?)?;
            }
            TransactionState::Started => {
                let mut stamped = stamp?.map(|stamp| core.stamped_batch(db, stamp)).transpose()?;
                core.locker.begin_commit()?;
                let batch = stamped.as_mut().unwrap_or(core.batch.write_batch_mut());
                match after {
                    Some(after) => db.write_and_then(&core.write_options, batch, after)?,
                    None if batch.is_empty() => {}
                    None => db.write_opt(&core.write_options, batch)?,
                }
            }
            TransactionState::Prepared => {
                let name = core.name.as_deref().expect("prepared transactions have a name");
                db.engine().check_writable()?;
                let operations = u64::from(core.batch.write_batch().count());
                record_in_histogram(
                    &db.engine().options.statistics,
                    Histogram::NumOpPerTransaction,
                    operations,
                );
                let commit = PreparedCommit {
                    timestamp: stamp?,
                    first: &core.commit_time,
                    later: core.later_writes()?,
                };
                let is_ingested = commit.timestamp.is_none()
                    && self.shared.options.write_policy == WritePolicy::WriteCommitted
                    && core.options.bypasses_memtable(core.batch.write_batch());
                db.commit_prepared(&core.write_options, name, commit, after)?;
                if is_ingested {
                    db.flush_behind(core.batch.write_batch());
                }
            }
            TransactionState::Committed => return Err(over("committed")),
            TransactionState::RolledBack => return Err(over("rolledback")),
        }
        self.end(core, TransactionState::Committed);
        Ok(())
    }

    /// Discards all writes and releases all locks. A transaction that was not prepared can be used
    /// again, as if it had just begun: at the level `Snapshot` with a new snapshot, otherwise
    /// without one. Its timestamps stay.
    /// # Errors
    /// `InvalidArgument`: it is over. The rollback of a transaction that is prepared, or has
    /// spilled writes (`WriteUnprepared`), may also fail with: `Incomplete`: `no_slowdown` is set,
    /// and writers are stalled · `ShutdownInProgress`: the database was closed · `NotSupported`:
    /// the database is read-only · `IoError`: the WAL could not be written; writes fail until
    /// [`Db::resume`] · the background error in force. The transaction is unchanged then.
    pub fn rollback(&self) -> Result<()> {
        let core = &mut *self.core_mut();
        match core.state {
            TransactionState::Started => {
                Transaction::roll_back_spilled(&self.shared, core)?;
                core.clear();
                if core.options.isolation == IsolationLevel::Snapshot {
                    core.snapshot = Some(self.db().snapshot());
                }
                Ok(())
            }
            TransactionState::Prepared => {
                let name = core.name.as_deref().expect("prepared transactions have a name");
                let db = &self.shared.db;
                db.engine().check_writable()?;
                let former = |section: &WriteBatch| {
                    let mut keys = core.spilled.keys();
                    for (key, op) in ops_by_key(db, section) {
                        keys.entry(key).or_default().note(&op);
                    }
                    former_values(db, &keys, None)
                };
                db.inner.write_path.rollback_prepared(&core.write_options, name, former)?;
                self.end(core, TransactionState::RolledBack);
                Ok(())
            }
            TransactionState::Committed => Err(over("committed")),
            TransactionState::RolledBack => Err(over("rolledback")),
        }
    }

    fn end(&self, core: &mut PessimisticCore, state: TransactionState) {
        core.state = state;
        core.clear();
        if let Some(name) = &core.name {
            self.shared.names.lock().remove(name);
        }
    }

    /// Refuses writes and locks of a transaction that is over.
    pub(super) fn check_live(&self) -> Result<()> {
        match self.state() {
            TransactionState::Started | TransactionState::Prepared => Ok(()),
            TransactionState::Committed => Err(over("committed")),
            TransactionState::RolledBack => Err(over("rolledback")),
        }
    }

    /// [`Transaction::lock`], exclusively, for a write, which adds an op.
    pub(super) fn lock_for_write(
        &self,
        family: &ColumnFamilyHandle,
        key: &[u8],
        end: Option<&[u8]>,
        validate: bool,
    ) -> Result<()> {
        if self.db().engine().commits.is_some() {
            if self.state() == TransactionState::Prepared {
                // The commit writes a marker only.
                return Err(Error::invalid_argument(
                    "write_policy WritePrepared: a prepared transaction takes no more writes",
                ));
            }
            self.make_room()?;
            if end.is_some() && !self.core().spilled.is_empty() {
                return Err(Error::not_supported(
                    "write_policy WriteUnprepared: range deletions after write_batch_flush_threshold",
                ));
            }
        }
        self.lock(family, key, end, LockMode::Exclusive, validate)
    }

    /// Locks a key, or the keys from it to `end`. With `validate` and a snapshot, writes of others
    /// since the snapshot are a conflict, and nothing is locked.
    pub(super) fn lock(
        &self,
        family: &ColumnFamilyHandle,
        key: &[u8],
        end: Option<&[u8]>,
        mode: LockMode,
        validate: bool,
    ) -> Result<()> {
        self.check_live()?;
        family.check_live(self.db())?;
        if end.is_some() {
            refuse_timestamps(family, "range deletions")?;
        }
        let timestamped = has_timestamps(family);
        self.core_mut().may_have_timestamps |= timestamped;
        if self.core().options.skip_concurrency_control {
            return Ok(());
        }
        let locks = self.shared.locks_of(family)?.clone();
        if end.is_some() && self.shared.options.locking == Locking::Points {
            return Err(Error::not_supported("ranges cannot be locked: TransactionDbOptions::locking"));
        }
        let core = &mut *self.core_mut();
        if end.is_some() {
            core.range_locked.insert(family.id());
        }
        let checks_timestamp = timestamped && validate && core.read_timestamp != UNSET;
        if core.snapshot.is_none() && !core.snapshot_needed && !checks_timestamp {
            return lock(&mut core.locker, &locks, family, key, end, mode);
        }
        core.locker.set_save_point();
        let result = lock(&mut core.locker, &locks, family, key, end, mode)
            .and_then(|()| self.check_since_snapshot(core, family, key, end, validate));
        let settled = match &result {
            Ok(()) => core.locker.pop_save_point(),
            Err(_) => core.locker.rollback_to_save_point(),
        };
        result.and(settled)
    }

    fn check_since_snapshot(
        &self,
        core: &mut PessimisticCore,
        family: &ColumnFamilyHandle,
        key: &[u8],
        end: Option<&[u8]>,
        validate: bool,
    ) -> Result<()> {
        if core.snapshot_needed {
            core.snapshot = Some(self.db().snapshot());
            core.snapshot_needed = false;
        }
        if !validate {
            return Ok(());
        }
        let since = core.snapshot_sequence().unwrap_or(SequenceNumber::MAX);
        let since = (since, core.spilled.numbers());
        let written = match end {
            None if has_timestamps(family) => self.timestamped_conflict(core, family, key)?,
            None => self.db().written_since(family, key, since, true)?,
            Some(end) => self.db().range_written_since(family, (Some(key), Some(end)), since, true)?,
        };
        if written {
            let (key, name) = (key.escape_ascii(), family.name());
            let why =
                format!("key '{key}' of column family '{name}' was written by others since the snapshot");
            return Err(Error::busy(why).with_retryable(true));
        }
        Ok(())
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let Some(mut core) = self.core.get_mut().take() else { return };
        let Some(name) = core.name.clone() else { return };
        if !self.shared.db.engine().owner.is_here() {
            // In a forked child: the name and the prepared transaction belong to the parent.
            return;
        }
        if core.state == TransactionState::Started
            && let Err(error) = Transaction::roll_back_spilled(&self.shared, &mut core)
        {
            // The next open rolls it back. Until then its name stays taken: a commit under that
            // name would commit its spilled ops, too.
            let (log, name) = (&self.shared.db.engine().info_log, name.escape_ascii());
            esker_base::info_log!(log, Warn, "Rollback of the dropped transaction '{name}': {error}");
            return;
        }
        let mut names = self.shared.names.lock();
        if core.state == TransactionState::Prepared {
            names.insert(name, Some(core));
        } else if core.state == TransactionState::Started {
            names.remove(&name);
        }
    }
}

#[cold]
fn over(how: &str) -> Error {
    Error::invalid_argument(format!("Transaction has already been {how}."))
}

#[cold]
fn no_save_point() -> Error {
    Error::not_found("the transaction has no save point")
}
