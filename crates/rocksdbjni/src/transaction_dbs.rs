//! `TransactionDB` and `OptimisticTransactionDB`: databases with transactions, their options and
//! their locks.
//!
//! In: options and paths. Out: handles of a [`Database`], whose natives are those of `RocksDB`, and
//! handles of transactions. RocksJava does not free a prepared transaction that it finds by its
//! name, or in the list of all: the end of the database leaves the empty box, as of other objects.

use crate::border::NativeResult;
use crate::db::{Database, descriptors, for_open, give_opened, path};
use crate::given::give_listed;
use crate::handle::NativeHandle;
use crate::jni::{JavaEnv, Reference, boolean, long, reference};
use crate::kind::DatabaseKind;
use crate::options::{AllSettings, Call, DbSettings};
use crate::transactions::{OpenTransaction, RepeatedTransaction, TransactionKind, TransactionObject};
use esker::txn::{DeadlockInfo, LockInfo, LockMode};
use esker::{
    ColumnFamilyDescriptor, Error, OptimisticTransactionDb, OptimisticTransactionOptions, Transaction,
    TransactionDb, TransactionDbOptions, TransactionOptions, WriteOptions,
};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

type Handle = NativeHandle<TransactionObject>;

/// The named transactions of a database that have a handle.
#[derive(Debug, Default)]
pub(crate) struct TransactionNames(Mutex<NamedTransactions>);

/// By name: the handle, and whether the transaction is prepared.
type NamedTransactions = BTreeMap<Vec<u8>, (Handle, bool)>;

impl TransactionNames {
    fn change<R>(&self, change: impl FnOnce(&mut NamedTransactions) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn add(&self, name: Vec<u8>, transaction: Handle) {
        self.change(|names| names.insert(name, (transaction, false)));
    }

    pub(crate) fn set_prepared(&self, transaction: Handle) {
        self.change(|names| {
            for (named, is_prepared) in names.values_mut() {
                *is_prepared |= named.number() == transaction.number();
            }
        });
    }

    /// Removes the name of a transaction that is over.
    pub(crate) fn forget(&self, transaction: Handle) {
        self.change(|names| names.retain(|_, (named, _)| named.number() != transaction.number()));
    }
}

pub(crate) fn open_locking(
    env: &JavaEnv<'_>,
    options: NativeHandle<AllSettings>,
    locks: NativeHandle<Call<TransactionDbOptions>>,
    directory: Reference,
) -> NativeResult<i64> {
    let (options, locks, name) = (options.get()?, &locks.get()?.options, path(env, directory)?);
    let families = [ColumnFamilyDescriptor::new("default", options.cf.clone())];
    let (db_options, events) = for_open(options);
    let db = TransactionDb::open_cf(&db_options, locks, &name, families)?;
    let base = db.db().clone();
    Ok(Database::of_kind(DatabaseKind::Locking(db), base, name, &db_options.env, events).give())
}

pub(crate) fn open_families_locking(
    env: &JavaEnv<'_>,
    options: NativeHandle<DbSettings>,
    locks: NativeHandle<Call<TransactionDbOptions>>,
    directory: Reference,
    names: Reference,
    family_options: Reference,
) -> NativeResult<Reference> {
    let families = descriptors(env, names, family_options)?;
    let (locks, name) = (&locks.get()?.options, path(env, directory)?);
    let (options, events) = for_open(options.get()?);
    let db = TransactionDb::open_cf(&options, locks, &name, families.clone())?;
    let base = db.db().clone();
    let database = Database::of_kind(DatabaseKind::Locking(db), base, name, &options.env, events);
    give_opened(env, database, &families)
}

pub(crate) fn open_optimistic(
    env: &JavaEnv<'_>,
    options: NativeHandle<AllSettings>,
    directory: Reference,
) -> NativeResult<i64> {
    let (options, name) = (options.get()?, path(env, directory)?);
    let families = [ColumnFamilyDescriptor::new("default", options.cf.clone())];
    let (db_options, events) = for_open(options);
    let db = OptimisticTransactionDb::open_cf(&db_options, &name, families)?;
    let base = db.db().clone();
    Ok(Database::of_kind(DatabaseKind::Optimistic(db), base, name, &db_options.env, events).give())
}

pub(crate) fn open_families_optimistic(
    env: &JavaEnv<'_>,
    options: NativeHandle<DbSettings>,
    directory: Reference,
    names: Reference,
    family_options: Reference,
) -> NativeResult<Reference> {
    let families = descriptors(env, names, family_options)?;
    let (name, (options, events)) = (path(env, directory)?, for_open(options.get()?));
    let db = OptimisticTransactionDb::open_cf(&options, &name, families.clone())?;
    let base = db.db().clone();
    let database = Database::of_kind(DatabaseKind::Optimistic(db), base, name, &options.env, events);
    give_opened(env, database, &families)
}

impl Database {
    /// The database, if its transactions lock.
    /// # Errors
    /// `InvalidArgument`: it is another kind of database.
    fn locking(&self) -> NativeResult<&TransactionDb> {
        match &self.kind {
            DatabaseKind::Locking(db) => Ok(db),
            _ => Err(Error::invalid_argument("the database is no TransactionDB").into()),
        }
    }

    fn optimistic(&self) -> NativeResult<&OptimisticTransactionDb> {
        match &self.kind {
            DatabaseKind::Optimistic(db) => Ok(db),
            _ => Err(Error::invalid_argument("the database is no OptimisticTransactionDB").into()),
        }
    }

    fn opened(&self, kind: TransactionKind, deadlock_detect: bool, writes: WriteOptions) -> OpenTransaction {
        OpenTransaction {
            kind,
            default: self.default.clone(),
            clock: self.clock.clone(),
            began_nanos: self.clock.monotonic_nanos(),
            deadlock_detect,
            write_options: writes,
        }
    }

    fn begin_locking(
        &self,
        writes: NativeHandle<Call<WriteOptions>>,
        options: NativeHandle<Call<TransactionOptions>>,
    ) -> NativeResult<OpenTransaction> {
        let (writes, default) = (writes.get()?.options, TransactionOptions::default());
        let options = options.find().map_or(&default, |options| &options.options);
        let transaction = self.locking()?.begin_transaction_opt(&writes, options);
        Ok(self.opened(TransactionKind::Locking(transaction), options.deadlock_detect, writes))
    }

    fn begin_optimistic(
        &self,
        writes: NativeHandle<Call<WriteOptions>>,
        options: NativeHandle<Call<OptimisticTransactionOptions>>,
    ) -> NativeResult<OpenTransaction> {
        let writes = writes.get()?.options;
        let options = options.find().map(|options| options.options).unwrap_or_default();
        let transaction = RepeatedTransaction::begin(self.optimistic()?, &writes, options);
        Ok(self.opened(TransactionKind::Optimistic(Box::new(transaction)), false, writes))
    }

    fn give_transaction(&self, open: OpenTransaction) -> Handle {
        let locks = match &self.kind {
            DatabaseKind::Locking(db) => Some(db.clone()),
            _ => None,
        };
        give_listed(TransactionObject::new(open, locks, self.list.clone(), self.names.clone()))
    }

    /// The handle of a prepared transaction that had none.
    fn adopt(&self, transaction: Transaction) -> Handle {
        let name = transaction.name().unwrap_or_default();
        let kind = TransactionKind::Locking(transaction);
        let handle = self.give_transaction(self.opened(kind, false, WriteOptions::default()));
        self.names.change(|names| names.insert(name, (handle, true)));
        handle
    }
}

pub(crate) fn begin_locking(
    db: NativeHandle<Database>,
    writes: NativeHandle<Call<WriteOptions>>,
    options: NativeHandle<Call<TransactionOptions>>,
) -> NativeResult<i64> {
    let db = db.get()?;
    Ok(db.give_transaction(db.begin_locking(writes, options)?).number())
}

/// Begins a transaction in the object of another one, which is rolled back unless it is over.
pub(crate) fn begin_locking_again(
    db: NativeHandle<Database>,
    writes: NativeHandle<Call<WriteOptions>>,
    options: NativeHandle<Call<TransactionOptions>>,
    old: Handle,
) -> NativeResult<i64> {
    begin_again(db, old, db.get()?.begin_locking(writes, options)?)
}

pub(crate) fn begin_optimistic(
    db: NativeHandle<Database>,
    writes: NativeHandle<Call<WriteOptions>>,
    options: NativeHandle<Call<OptimisticTransactionOptions>>,
) -> NativeResult<i64> {
    let db = db.get()?;
    Ok(db.give_transaction(db.begin_optimistic(writes, options)?).number())
}

pub(crate) fn begin_optimistic_again(
    db: NativeHandle<Database>,
    writes: NativeHandle<Call<WriteOptions>>,
    options: NativeHandle<Call<OptimisticTransactionOptions>>,
    old: Handle,
) -> NativeResult<i64> {
    begin_again(db, old, db.get()?.begin_optimistic(writes, options)?)
}

fn begin_again(db: NativeHandle<Database>, old: Handle, open: OpenTransaction) -> NativeResult<i64> {
    db.get()?.names.forget(old);
    old.get()?.begin(open);
    Ok(old.number())
}

/// The handle of the transaction with the name; 0 if there is none.
pub(crate) fn by_name(env: &JavaEnv<'_>, db: NativeHandle<Database>, name: Reference) -> NativeResult<i64> {
    let (db, name) = (db.get()?, env.text(name)?.into_bytes());
    let locking = db.locking()?;
    if let Some((named, _)) = db.names.change(|names| names.get(&name).copied()) {
        return Ok(named.number());
    }
    Ok(locking.get_transaction_by_name(&name).map_or(0, |transaction| db.adopt(transaction).number()))
}

/// An array with the handles of all prepared transactions.
pub(crate) fn all_prepared(env: &JavaEnv<'_>, db: NativeHandle<Database>) -> NativeResult<Reference> {
    let db = db.get()?;
    for transaction in db.locking()?.get_all_prepared_transactions() {
        db.adopt(transaction);
    }
    let prepared: Vec<i64> = db.names.change(|names| {
        let prepared = names.values().filter(|(_, is_prepared)| *is_prepared);
        prepared.map(|(named, _)| named.number()).collect()
    });
    env.new_longs(&prepared)
}

fn numbers(ids: &[u64]) -> Vec<i64> {
    ids.iter().map(|id| id.cast_signed()).collect()
}

/// Java's map from a family's number to a `KeyLockInfo`. As in RocksJava, a family with several
/// locks shows one of them.
pub(crate) fn lock_status(env: &JavaEnv<'_>, db: NativeHandle<Database>) -> NativeResult<Reference> {
    let locks = db.get()?.locking()?.get_lock_status_data();
    let map = env.new_object("java/util/HashMap", "()V", &[])?;
    let class = env.class_of(map)?;
    let put = env.method(class, "put", "(Ljava/lang/Object;Ljava/lang/Object;)Ljava/lang/Object;")?;
    for lock in locks {
        env.in_frame(16, || {
            let family = env.new_object("java/lang/Long", "(J)V", &[long(i64::from(lock.family.0))])?;
            let shown = key_lock_info(env, &lock)?;
            env.call_object(map, put, &[reference(family), reference(shown)])
        })
        .map(|replaced| env.forget(replaced))?;
    }
    Ok(map)
}

fn key_lock_info(env: &JavaEnv<'_>, lock: &LockInfo) -> NativeResult<Reference> {
    let arguments = [
        reference(env.new_text(&String::from_utf8_lossy(&lock.start.key))?),
        reference(env.new_longs(&numbers(&lock.ids))?),
        boolean(lock.mode == LockMode::Exclusive),
    ];
    env.new_object("org/rocksdb/TransactionDB$KeyLockInfo", "(Ljava/lang/String;[JZ)V", &arguments)
}

/// An array of `DeadlockPath`, newest first.
pub(crate) fn deadlocks(env: &JavaEnv<'_>, db: NativeHandle<Database>) -> NativeResult<Reference> {
    let deadlocks = db.get()?.locking()?.get_deadlock_info_buffer();
    env.new_array_of("org/rocksdb/TransactionDB$DeadlockPath", &deadlocks, |deadlock| {
        let info = "org/rocksdb/TransactionDB$DeadlockInfo";
        let path =
            env.new_array_of(info, &deadlock.path, |waiter| env.in_frame(8, || deadlock_info(env, waiter)))?;
        let arguments = [reference(path), boolean(deadlock.limit_exceeded)];
        let descriptor = format!("([L{info};Z)V");
        let made = env.new_object("org/rocksdb/TransactionDB$DeadlockPath", &descriptor, &arguments)?;
        env.forget(path);
        Ok(made)
    })
}

fn deadlock_info(env: &JavaEnv<'_>, waiter: &DeadlockInfo) -> NativeResult<Reference> {
    let arguments = [
        long(waiter.id.cast_signed()),
        long(i64::from(waiter.family.0)),
        reference(env.new_text(&String::from_utf8_lossy(&waiter.start.key))?),
        boolean(waiter.mode == LockMode::Exclusive),
    ];
    env.new_object("org/rocksdb/TransactionDB$DeadlockInfo", "(JJLjava/lang/String;Z)V", &arguments)
}

pub(crate) fn set_deadlock_buffer(db: NativeHandle<Database>, deadlocks: i32) -> NativeResult<()> {
    let deadlocks = u32::try_from(deadlocks).unwrap_or(0);
    db.get()?.locking()?.set_deadlock_info_buffer_size(deadlocks);
    Ok(())
}
