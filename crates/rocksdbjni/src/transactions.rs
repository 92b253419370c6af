//! `Transaction`: reads and writes that take effect together.
//!
//! In: calls of transactions that lock, and of those that check at commit. Out: calls of
//! [`esker::Transaction`] and [`esker::OptimisticTransaction`]. `transaction_dbs.rs` begins them.
//!
//! Invariants
//!  1. Each call locks its transaction, since a database ends its transactions on another thread.
//!     A call that waits for a key keeps the lock, so `transaction_facts.rs` does without it
//!     where it can.
//!  2. No call waits for a list of given objects while it has the lock of a transaction: the end of
//!     a database has the list when it locks transactions.
//!  3. A transaction owns the snapshot, the batch and the options that it has lent to Java. They
//!     stay until the transaction is freed, and always show its present state.

use crate::batch::{Batch, IndexedBatch};
use crate::border::{JavaInput, JavaOutput, NativeResult};
use crate::callbacks::ask;
use crate::db::Family;
use crate::given::{
    GivenHandle, GivenObjects, OfDatabase, SnapshotObject, dispose_listed, ended, give_listed,
};
use crate::handle::{NativeHandle, dispose, give, give_typed};
use crate::iterator::IteratorObject;
use crate::jni::{Global, JavaBytes, JavaEnv, Method, Reference, long};
use crate::options::{Call, ReadSettings};
use crate::transaction_dbs::TransactionNames;
use esker::options::Clock;
use esker::txn::{LockMode, TransactionState};
use esker::{
    BatchOp, ColumnFamilyHandle, Error, OptimisticTransaction, OptimisticTransactionDb,
    OptimisticTransactionOptions, PinnedBytes, ReadOptions, Transaction, TransactionDb, WriteOptions,
};
use std::ops::Deref;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Handle = NativeHandle<TransactionObject>;

/// A transaction.
#[derive(Debug)]
pub(crate) struct TransactionObject {
    /// `None` after the database has ended it.
    open: Mutex<Option<OpenTransaction>>,
    lent: Mutex<Lent>,
    /// The number of the present transaction.
    pub(crate) id: AtomicU64,
    /// The database, if its transactions lock; `None` after the end.
    pub(crate) locks: Mutex<Option<TransactionDb>>,
    list: Arc<GivenObjects>,
    names: Arc<TransactionNames>,
    /// The object to tell of the snapshot that the next operation sets.
    notifier: Mutex<Option<Arc<JavaNotifier>>>,
    pub(crate) log_number: AtomicI64,
}

/// `AbstractTransactionNotifier`.
#[derive(Debug)]
pub(crate) struct JavaNotifier {
    object: Global,
    created: Method,
}

/// The native object of a notifier.
#[derive(Debug)]
pub(crate) struct NotifierObject(Arc<JavaNotifier>);

/// A transaction that its database has not ended.
#[derive(Debug)]
pub(crate) struct OpenTransaction {
    pub(crate) kind: TransactionKind,
    /// The family of calls that name none.
    pub(crate) default: ColumnFamilyHandle,
    pub(crate) clock: Arc<dyn Clock>,
    /// The time of the begin.
    pub(crate) began_nanos: u64,
    pub(crate) deadlock_detect: bool,
    pub(crate) write_options: WriteOptions,
}

#[derive(Debug)]
pub(crate) enum TransactionKind {
    Locking(Transaction),
    Optimistic(Box<RepeatedTransaction>),
}

/// An optimistic transaction, and what begins it again. As in RocksDB, the transaction can be used
/// again after its commit.
#[derive(Debug)]
pub(crate) struct RepeatedTransaction {
    transaction: OptimisticTransaction,
    db: OptimisticTransactionDb,
    writes: WriteOptions,
    options: OptimisticTransactionOptions,
}

/// Objects that Java does not free.
#[derive(Debug, Default)]
struct Lent {
    snapshot: Option<NativeHandle<SnapshotObject>>,
    batch: Option<NativeHandle<IndexedBatch>>,
    /// Writes that a prepared transaction gets at its commit.
    commit_batch: Option<NativeHandle<Batch>>,
    writes: Option<NativeHandle<Call<WriteOptions>>>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        // Errors have no way to Java here.
        self.snapshot.take().map(dispose_listed);
        self.batch.take().map(dispose);
        self.commit_batch.take().map(dispose);
        self.writes.take().map(dispose);
    }
}

impl RepeatedTransaction {
    pub(crate) fn begin(
        db: &OptimisticTransactionDb,
        writes: &WriteOptions,
        options: OptimisticTransactionOptions,
    ) -> RepeatedTransaction {
        let transaction = db.begin_transaction_opt(writes, &options);
        RepeatedTransaction { transaction, db: db.clone(), writes: *writes, options }
    }

    /// Commits the transaction, and begins the next one in its place.
    /// # Errors
    /// As [`OptimisticTransaction::commit`]; the transaction stays then.
    fn commit(&mut self) -> esker::Result<()> {
        self.transaction.commit()?;
        self.transaction = self.db.begin_transaction_opt(&self.writes, &self.options);
        Ok(())
    }
}

impl Deref for RepeatedTransaction {
    type Target = OptimisticTransaction;

    fn deref(&self) -> &OptimisticTransaction {
        &self.transaction
    }
}

/// Calls the same method on a transaction of either kind.
macro_rules! of_kind {
    ($kind:expr, $transaction:ident => $call:expr) => {
        match $kind {
            TransactionKind::Locking($transaction) => $call,
            TransactionKind::Optimistic($transaction) => $call,
        }
    };
}

impl OpenTransaction {
    /// The family of a call; the default family for 0.
    fn family(&self, family: NativeHandle<Family>) -> NativeResult<&ColumnFamilyHandle> {
        family.find().map_or(Ok(&self.default), Family::handle)
    }

    /// The transaction, if it locks.
    /// # Errors
    /// `InvalidArgument` with the text `otherwise`.
    fn locking(&self, otherwise: &str) -> NativeResult<&Transaction> {
        match &self.kind {
            TransactionKind::Locking(transaction) => Ok(transaction),
            TransactionKind::Optimistic(_) => Err(Error::invalid_argument(otherwise).into()),
        }
    }

    /// The number of its operations of a kind.
    pub(crate) fn count(&self, is_kind: impl Fn(&BatchOp<'_>) -> bool) -> i64 {
        let count = of_kind!(&self.kind, transaction => transaction.with_write_batch(|batch| {
            batch.write_batch().iter().filter(|op| is_kind(op)).count()
        }));
        count as i64
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OfDatabase for TransactionObject {
    fn list(&self) -> &Arc<GivenObjects> {
        &self.list
    }

    fn listed(handle: Handle) -> GivenHandle {
        GivenHandle::Transaction(handle)
    }
}

impl TransactionObject {
    pub(crate) fn new(
        open: OpenTransaction,
        locks: Option<TransactionDb>,
        list: Arc<GivenObjects>,
        names: Arc<TransactionNames>,
    ) -> TransactionObject {
        let object = TransactionObject {
            open: Mutex::default(),
            lent: Mutex::default(),
            id: AtomicU64::new(0),
            locks: Mutex::new(locks),
            list,
            names,
            notifier: Mutex::default(),
            log_number: AtomicI64::new(0),
        };
        object.begin(open);
        object
    }

    /// Puts another transaction in the place of the present one, which is dropped.
    pub(crate) fn begin(&self, open: OpenTransaction) {
        let id = match &open.kind {
            TransactionKind::Locking(transaction) => transaction.id(),
            TransactionKind::Optimistic(_) => 0,
        };
        *locked(&self.open) = Some(open);
        self.id.store(id, Ordering::Relaxed);
        self.log_number.store(0, Ordering::Relaxed);
        *locked(&self.notifier) = None;
        self.clear_commit_batch();
        self.let_snapshot_go();
    }

    /// Lets go of the database.
    pub(crate) fn end(&self) {
        *locked(&self.open) = None;
        *locked(&self.locks) = None;
    }

    /// Runs `body` on the open transaction.
    /// # Errors
    /// `ShutdownInProgress`: the database is closed.
    pub(crate) fn with<R>(
        &self,
        body: impl FnOnce(&mut OpenTransaction) -> NativeResult<R>,
    ) -> NativeResult<R> {
        body(locked(&self.open).as_mut().ok_or_else(ended)?)
    }

    fn clear_commit_batch(&self) {
        if let Some(Ok(batch)) = locked(&self.lent).commit_batch.map(NativeHandle::get_mut) {
            batch.0.clear();
        }
    }

    /// Adds the writes for the commit to a prepared transaction. One that is over fails later.
    /// # Errors
    /// `InvalidArgument`: there are such writes, and the transaction is not prepared · the errors
    /// of the writes, which take locks.
    fn take_commit_batch(&self) -> NativeResult<()> {
        let lent = locked(&self.lent);
        let Some(batch) = lent.commit_batch else { return Ok(()) };
        let batch = batch.get_mut()?;
        self.with(|open| {
            let TransactionKind::Locking(transaction) = &open.kind else { return Ok(()) };
            match transaction.state() {
                TransactionState::Prepared => transaction.rebuild_from_write_batch(&batch.0)?,
                TransactionState::Started if !batch.0.is_empty() => {
                    return Err(Error::invalid_argument(
                        "Commit-time batch contains values that will not be committed.",
                    )
                    .into());
                }
                _ => return Ok(()),
            }
            batch.0.clear();
            Ok(())
        })
    }

    /// Lets the lent snapshot hold nothing, after a call that may have changed the snapshot.
    fn let_snapshot_go(&self) {
        if let Some(Ok(lent)) = locked(&self.lent).snapshot.map(NativeHandle::get_mut) {
            lent.snapshot = None;
        }
    }

    /// Takes over changes that Java has made to the lent options.
    fn take_options(&self) -> NativeResult<()> {
        let Some(writes) = locked(&self.lent).writes else { return Ok(()) };
        let options = writes.get()?.options;
        self.with(|open| {
            open.write_options = options;
            if let TransactionKind::Locking(transaction) = &open.kind {
                transaction.set_write_options(&options);
            }
            Ok(())
        })
    }
}

/// Frees a transaction. Rolls it back, unless it is prepared.
pub(crate) fn free(transaction: Handle) -> NativeResult<()> {
    if let Some(object) = transaction.find() {
        object.names.forget(transaction);
    }
    dispose_listed(transaction)
}

/// Runs `body`, which may set the transaction's snapshot, and then tells the notifier.
fn operate<R>(
    transaction: Handle,
    body: impl FnOnce(&mut OpenTransaction) -> NativeResult<R>,
) -> NativeResult<R> {
    let object = transaction.get()?;
    let result = object.with(body);
    if locked(&object.notifier).is_some() {
        notify(transaction)?;
    }
    result
}

/// Tells the notifier of the snapshot, if there is one now. No lock is held then: the notifier may
/// use the transaction.
fn notify(transaction: Handle) -> NativeResult<()> {
    let snapshot = snapshot(transaction)?;
    let notifier = if snapshot == 0 { None } else { locked(&transaction.get()?.notifier).take() };
    if let Some(notifier) = notifier {
        ask(|env| env.call_void(notifier.object.get(), notifier.created, &[long(snapshot)]));
    }
    Ok(())
}

/// `AbstractTransactionNotifier.createNewTransactionNotifier`.
pub(crate) fn new_notifier(env: &JavaEnv<'_>, object: Reference) -> NativeResult<i64> {
    // The method is private, so the class of the object does not have it.
    let class = env.class("org/rocksdb/AbstractTransactionNotifier")?;
    let created = env.method(class, "snapshotCreated", "(J)V")?;
    Ok(give(NotifierObject(Arc::new(JavaNotifier { object: env.global(object)?, created }))))
}

pub(crate) fn set_snapshot(transaction: Handle) -> NativeResult<()> {
    let object = transaction.get()?;
    *locked(&object.notifier) = None;
    object.with(|open| {
        of_kind!(&open.kind, transaction => transaction.set_snapshot());
        Ok(())
    })?;
    object.let_snapshot_go();
    Ok(())
}

/// Lets the next operation that locks or checks a key set the snapshot. With a notifier the
/// present snapshot ends now, so that the next one can be told from it.
pub(crate) fn set_snapshot_on_next_operation(
    transaction: Handle,
    notifier: NativeHandle<NotifierObject>,
) -> NativeResult<()> {
    let (object, notifier) = (transaction.get()?, notifier.find().map(|notifier| notifier.0.clone()));
    let ends = notifier.is_some();
    object.with(|open| {
        of_kind!(&open.kind, transaction => {
            if ends {
                transaction.clear_snapshot();
            }
            transaction.set_snapshot_on_next_operation();
        });
        Ok(())
    })?;
    *locked(&object.notifier) = notifier;
    if ends {
        object.let_snapshot_go();
    }
    Ok(())
}

/// The handle of the transaction's snapshot; 0 without one.
pub(crate) fn snapshot(transaction: Handle) -> NativeResult<i64> {
    let object = transaction.get()?;
    let snapshot = object.with(|open| Ok(of_kind!(&open.kind, transaction => transaction.snapshot())))?;
    let Some(snapshot) = snapshot else { return Ok(0) };
    let sequence = snapshot.sequence().0.cast_signed();
    let mut lent = locked(&object.lent);
    let handle = *lent.snapshot.get_or_insert_with(|| {
        give_listed(SnapshotObject { snapshot: None, sequence, list: object.list.clone() })
    });
    let shown = handle.get_mut()?;
    (shown.snapshot, shown.sequence) = (Some(snapshot), sequence);
    Ok(handle.number())
}

pub(crate) fn clear_snapshot(transaction: Handle) -> NativeResult<()> {
    let object = transaction.get()?;
    *locked(&object.notifier) = None;
    object.with(|open| {
        of_kind!(&open.kind, transaction => transaction.clear_snapshot());
        Ok(())
    })?;
    object.let_snapshot_go();
    Ok(())
}

pub(crate) fn prepare(transaction: Handle) -> NativeResult<()> {
    let object = transaction.get()?;
    object.take_options()?;
    let otherwise = "Two phase commit not supported for optimistic transactions.";
    object.with(|open| Ok(open.locking(otherwise)?.prepare()?))?;
    // As far as the engine tells: another thread may have begun the next WAL meanwhile.
    let wal = locked(&object.locks).as_ref().map(|db| db.db().current_wal_file());
    if let Some(Ok(wal)) = wal {
        object.log_number.store(wal.log_number.0.cast_signed(), Ordering::Relaxed);
    }
    object.names.set_prepared(transaction);
    Ok(())
}

pub(crate) fn commit(transaction: Handle) -> NativeResult<()> {
    let object = transaction.get()?;
    object.take_options()?;
    object.take_commit_batch()?;
    object.with(|open| Ok(of_kind!(&mut open.kind, transaction => transaction.commit())?))?;
    object.clear_commit_batch();
    object.names.forget(transaction);
    object.let_snapshot_go();
    Ok(())
}

pub(crate) fn rollback(transaction: Handle) -> NativeResult<()> {
    let object = transaction.get()?;
    object.take_options()?;
    let is_over = object.with(|open| {
        of_kind!(&open.kind, transaction => transaction.rollback())?;
        Ok(match &open.kind {
            TransactionKind::Locking(transaction) => transaction.state() == TransactionState::RolledBack,
            TransactionKind::Optimistic(_) => false,
        })
    })?;
    if is_over {
        object.names.forget(transaction);
    }
    object.clear_commit_batch();
    object.let_snapshot_go();
    Ok(())
}

pub(crate) fn set_save_point(transaction: Handle) -> NativeResult<()> {
    transaction.get()?.with(|open| {
        of_kind!(&open.kind, transaction => transaction.set_save_point());
        Ok(())
    })
}

pub(crate) fn rollback_to_save_point(transaction: Handle) -> NativeResult<()> {
    let object = transaction.get()?;
    object.with(|open| Ok(of_kind!(&open.kind, transaction => transaction.rollback_to_save_point())?))?;
    object.let_snapshot_go();
    Ok(())
}

fn read_options(options: NativeHandle<ReadSettings>) -> ReadOptions {
    options.find().map(|reads| reads.options.clone()).unwrap_or_default()
}

/// The locks that a read takes: none, or one for a later write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReadLock {
    None,
    /// Whether the lock is exclusive, and whether the key must be unchanged since the snapshot.
    ForUpdate(bool, bool),
}

pub(crate) fn for_update(exclusive: bool, validates: bool) -> ReadLock {
    ReadLock::ForUpdate(exclusive, validates)
}

fn find(
    env: &JavaEnv<'_>,
    transaction: Handle,
    options: NativeHandle<ReadSettings>,
    family: NativeHandle<Family>,
    key: JavaInput,
    lock: ReadLock,
) -> NativeResult<Option<PinnedBytes>> {
    let (key, options) = (key.read(env)?, read_options(options));
    operate(transaction, |open| {
        let family = open.family(family)?;
        let ReadLock::ForUpdate(exclusive, validates) = lock else {
            return Ok(
                of_kind!(&open.kind, transaction => transaction.get_pinned_opt(&options, family, &key))?,
            );
        };
        let mode = if exclusive { LockMode::Exclusive } else { LockMode::Shared };
        let found = match &open.kind {
            TransactionKind::Locking(transaction) => {
                transaction.get_for_update_opt(&options, family, &key, mode, validates)
            }
            TransactionKind::Optimistic(transaction) => {
                transaction.get_for_update_opt(&options, family, &key)
            }
        };
        Ok(found?.map(PinnedBytes::from))
    })
}

/// The value as a new array; null if there is none.
pub(crate) fn get(
    env: &JavaEnv<'_>,
    transaction: Handle,
    options: NativeHandle<ReadSettings>,
    family: NativeHandle<Family>,
    key: JavaInput,
    lock: ReadLock,
) -> NativeResult<Reference> {
    let found = find(env, transaction, options, family, key, lock)?;
    found.map_or(Ok(Reference::NULL), |value| env.new_bytes(&value))
}

/// Copies the value, and returns its length.
pub(crate) fn get_into(
    env: &JavaEnv<'_>,
    transaction: Handle,
    options: NativeHandle<ReadSettings>,
    (family, key): (NativeHandle<Family>, JavaInput),
    output: JavaOutput,
    lock: ReadLock,
) -> NativeResult<i32> {
    match find(env, transaction, options, family, key, lock)? {
        Some(value) => output.write(env, &value),
        None => Ok(crate::reads::NOT_FOUND),
    }
}

/// The families of the keys of a multi-get.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyFamilies {
    /// One family for all keys; the default family for 0.
    One(NativeHandle<Family>),
    /// An array with a family for each key.
    Each(Reference),
}

/// An array of values. As in RocksJava, the value of a key that is absent, or whose read fails, is
/// null.
pub(crate) fn multi_get(
    env: &JavaEnv<'_>,
    transaction: Handle,
    options: NativeHandle<ReadSettings>,
    keys: Reference,
    families: KeyFamilies,
    is_for_update: bool,
) -> NativeResult<Reference> {
    let options = read_options(options);
    let keys: Vec<JavaBytes> = env.elements(keys, |key| env.all_bytes(key))?;
    let listed = match families {
        KeyFamilies::One(_) => Vec::new(),
        KeyFamilies::Each(array) => crate::db::families(env, array)?,
    };
    let found = operate(transaction, |open| {
        let listed = match families {
            KeyFamilies::One(family) => vec![open.family(family)?; keys.len()],
            KeyFamilies::Each(_) => listed,
        };
        if listed.len() != keys.len() {
            return Err(Error::invalid_argument("keys and families differ in number").into());
        }
        let keys: Vec<(&ColumnFamilyHandle, &[u8])> =
            listed.into_iter().zip(keys.iter().map(|key| &key[..])).collect();
        Ok(of_kind!(&open.kind, transaction => match is_for_update {
            true => transaction.multi_get_for_update_cf(&options, &keys),
            false => transaction.multi_get_cf(&options, &keys),
        }))
    })?;
    env.new_array_of("[B", &found, |value| match value {
        Ok(Some(value)) => env.new_bytes(value),
        _ => Ok(Reference::NULL),
    })
}

pub(crate) fn iterator(
    transaction: Handle,
    options: NativeHandle<ReadSettings>,
    family: NativeHandle<Family>,
) -> NativeResult<i64> {
    let (object, options) = (transaction.get()?, read_options(options));
    let made = object.with(|open| {
        let family = open.family(family)?;
        Ok(of_kind!(&open.kind, transaction => transaction.iter_opt(&options, family)))
    })?;
    Ok(give_listed(IteratorObject::of_transaction(made, &object.list)).number())
}

/// A write's check of its key. RocksJava's argument `assumeTracked` says that the transaction has
/// locked or read the key before, so that no check is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tracking {
    Checked,
    AssumeTracked,
    Untracked,
}

pub(crate) fn tracking(assume_tracked: bool) -> Tracking {
    if assume_tracked { Tracking::AssumeTracked } else { Tracking::Checked }
}

impl TransactionKind {
    /// Whether a write checks its key. A transaction without locks checks a key that it is to
    /// assume as tracked: it may be wrong.
    fn checks(&self, tracking: Tracking) -> bool {
        match self {
            TransactionKind::Locking(_) => tracking == Tracking::Checked,
            TransactionKind::Optimistic(_) => tracking != Tracking::Untracked,
        }
    }
}

pub(crate) fn put(
    env: &JavaEnv<'_>,
    transaction: Handle,
    family: NativeHandle<Family>,
    key: JavaInput,
    value: JavaInput,
    tracking: Tracking,
) -> NativeResult<()> {
    let (key, value) = (key.read(env)?, value.read(env)?);
    operate(transaction, |open| {
        let family = open.family(family)?;
        Ok(of_kind!(&open.kind, transaction => match open.kind.checks(tracking) {
            true => transaction.put_cf(family, &key, &value),
            false => transaction.put_untracked(family, &key, &value),
        })?)
    })
}

pub(crate) fn merge(
    env: &JavaEnv<'_>,
    transaction: Handle,
    family: NativeHandle<Family>,
    key: JavaInput,
    operand: JavaInput,
    tracking: Tracking,
) -> NativeResult<()> {
    let (key, operand) = (key.read(env)?, operand.read(env)?);
    operate(transaction, |open| {
        let family = open.family(family)?;
        Ok(of_kind!(&open.kind, transaction => match open.kind.checks(tracking) {
            true => transaction.merge_cf(family, &key, &operand),
            false => transaction.merge_untracked(family, &key, &operand),
        })?)
    })
}

pub(crate) fn delete(
    env: &JavaEnv<'_>,
    transaction: Handle,
    family: NativeHandle<Family>,
    key: JavaInput,
    tracking: Tracking,
) -> NativeResult<()> {
    let key = key.read(env)?;
    operate(transaction, |open| {
        let family = open.family(family)?;
        Ok(of_kind!(&open.kind, transaction => match open.kind.checks(tracking) {
            true => transaction.delete_cf(family, &key),
            false => transaction.delete_untracked(family, &key),
        })?)
    })
}

pub(crate) fn single_delete(
    env: &JavaEnv<'_>,
    transaction: Handle,
    family: NativeHandle<Family>,
    key: JavaInput,
    tracking: Tracking,
) -> NativeResult<()> {
    let key = key.read(env)?;
    operate(transaction, |open| {
        let family = open.family(family)?;
        Ok(of_kind!(&open.kind, transaction => match open.kind.checks(tracking) {
            true => transaction.single_delete_cf(family, &key),
            false => transaction.single_delete_untracked(family, &key),
        })?)
    })
}

pub(crate) fn put_log_data(env: &JavaEnv<'_>, transaction: Handle, blob: JavaInput) -> NativeResult<()> {
    let blob = blob.read(env)?;
    transaction.get()?.with(|open| Ok(of_kind!(&open.kind, transaction => transaction.put_log_data(&blob))?))
}

/// The handle of a copy of the transaction's writes.
pub(crate) fn write_batch(transaction: Handle) -> NativeResult<i64> {
    let object = transaction.get()?;
    let copy = object.with(|open| Ok(of_kind!(&open.kind, transaction => transaction.write_batch())))?;
    let mut lent = locked(&object.lent);
    match lent.batch {
        Some(batch) => batch.get_mut()?.0 = copy,
        None => lent.batch = Some(give_typed(IndexedBatch(copy))),
    }
    Ok(lent.batch.map_or(0, NativeHandle::number))
}

pub(crate) fn set_lock_timeout(transaction: Handle, millis: i64) -> NativeResult<()> {
    transaction.get()?.with(|open| {
        if let TransactionKind::Locking(transaction) = &open.kind {
            transaction.set_lock_timeout(millis);
        }
        Ok(())
    })
}

/// The handle of the options with which the transaction is written. Their changes count for it.
pub(crate) fn write_options(transaction: Handle) -> NativeResult<i64> {
    let object = transaction.get()?;
    let options = object.with(|open| Ok(open.write_options))?;
    let mut lent = locked(&object.lent);
    let writes = lent.writes.get_or_insert_with(|| give_typed(Call { options, ..Call::default() }));
    Ok(writes.number())
}

pub(crate) fn set_write_options(
    transaction: Handle,
    options: NativeHandle<Call<WriteOptions>>,
) -> NativeResult<()> {
    let (object, options) = (transaction.get()?, options.get()?.options);
    object.with(|open| {
        of_kind!(&open.kind, transaction => transaction.set_write_options(&options));
        open.write_options = options;
        Ok(())
    })?;
    if let Some(writes) = locked(&object.lent).writes {
        writes.get_mut()?.options = options;
    }
    Ok(())
}

/// Whether the transaction finds its later writes.
pub(crate) fn set_indexing(transaction: Handle, is_enabled: bool) -> NativeResult<()> {
    transaction.get()?.with(|open| {
        of_kind!(&open.kind, transaction => match is_enabled {
            true => transaction.enable_indexing(),
            false => transaction.disable_indexing(),
        });
        Ok(())
    })
}

/// Undoes one read for update.
pub(crate) fn undo_get_for_update(
    env: &JavaEnv<'_>,
    transaction: Handle,
    family: NativeHandle<Family>,
    key: JavaInput,
) -> NativeResult<()> {
    let key = key.read(env)?;
    transaction.get()?.with(|open| {
        let family = open.family(family)?;
        of_kind!(&open.kind, transaction => transaction.undo_get_for_update(family, &key));
        Ok(())
    })
}

pub(crate) fn rebuild(transaction: Handle, batch: NativeHandle<Batch>) -> NativeResult<()> {
    let batch = &batch.get()?.0;
    operate(transaction, |open| {
        Ok(of_kind!(&open.kind, transaction => transaction.rebuild_from_write_batch(batch))?)
    })
}

pub(crate) fn set_name(env: &JavaEnv<'_>, transaction: Handle, name: Reference) -> NativeResult<()> {
    let (object, name) = (transaction.get()?, env.text(name)?.into_bytes());
    let otherwise = "Optimistic transactions cannot be named.";
    object.with(|open| Ok(open.locking(otherwise)?.set_name(&name)?))?;
    object.names.add(name, transaction);
    Ok(())
}

/// The name; an empty text if the transaction has none.
pub(crate) fn name(env: &JavaEnv<'_>, transaction: Handle) -> NativeResult<Reference> {
    let name = transaction.get()?.with(|open| {
        Ok(match &open.kind {
            TransactionKind::Locking(transaction) => transaction.name().unwrap_or_default(),
            TransactionKind::Optimistic(_) => Vec::new(),
        })
    })?;
    env.new_text(&String::from_utf8_lossy(&name))
}

/// The handle of the writes that a prepared transaction gets at its commit.
pub(crate) fn commit_batch(transaction: Handle) -> NativeResult<i64> {
    let object = transaction.get()?;
    object.with(|_| Ok(()))?;
    let mut lent = locked(&object.lent);
    Ok(lent.commit_batch.get_or_insert_with(|| give_typed(Batch::default())).number())
}
