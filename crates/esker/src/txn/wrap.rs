//! Transactions over a database that is open already: RocksDB's `TransactionDB::WrapDB`.
//!
//! In: a [`Db`] that is open for writing. Out: the databases with transactions that share it. The
//! [`Db`] stays usable; it takes no locks.
//!
//! Invariant: a family has one lock table as long as it is open. So a second wrapping with locks is
//! an error, and families made later need [`TransactionDb::create_column_family`].

use super::db::{EnvClock, TransactionDb, TransactionDbShared};
use super::direct_writes::DirectWrites;
use super::optimistic::OptimisticTransactionDb;
use super::options::{TransactionDbOptions, WritePolicy};
use super::secondary_index::check_policy;
use super::timestamps::check_timestamps;
use crate::db::Db;
use esker_base::sync::{Arc, Mutex};
use esker_base::{Error, Result};
use esker_lock::{FamilyOptions, LockManager, LockManagerOptions};
use std::collections::BTreeMap;

impl TransactionDb {
    /// Transactions with locks over a database that was opened with `allow_2pc`, under the write
    /// policy `WriteCommitted`. With `allow_2pc` flushes and compactions keep the entries that
    /// transactions check for conflicts, as RocksDB's `PrepareWrap` demands.
    ///
    /// Writes of `db` itself take no locks. A family that `db` makes later has no locks:
    /// [`TransactionDb::create_column_family`] makes one with them. An open database is wrapped
    /// once: to wrap it again, open it again. That also restores transactions that were prepared
    /// when the wrapper was dropped.
    ///
    /// ```
    /// use esker::{Db, Options, TransactionDb};
    /// # let dir = esker_testkit::TempDir::new("doc");
    ///
    /// let mut options = Options::new().create_if_missing(true);
    /// options.db.allow_2pc = true;
    /// let db = Db::open(&options, dir.path())?;
    /// let locking = TransactionDb::wrap(&db, &Default::default())?;
    /// let txn = locking.begin_transaction();
    /// txn.put("ada", "900")?;
    /// assert_eq!((locking.get_lock_status_data().len(), db.get("ada")?), (1, None));
    /// txn.commit()?;
    /// assert_eq!(db.get("ada")?.unwrap(), b"900");
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the database was opened without `allow_2pc`, was wrapped or opened with
    /// locks before, or has prepared transactions of an earlier opening, which
    /// [`TransactionDb::open_cf`] restores; `max_lock_memory` is 0; a family has timestamps of
    /// another size than 8 bytes · `NotSupported`: another write policy than `WriteCommitted`, a
    /// read-only database, or a forked child process.
    pub fn wrap(db: &Db, options: &TransactionDbOptions) -> Result<TransactionDb> {
        db.engine().check_process()?;
        db.engine().check_writable()?;
        if options.write_policy != WritePolicy::WriteCommitted {
            return Err(Error::not_supported("only WriteCommitted transactions wrap an open database"));
        }
        if !db.engine().options.allow_2pc {
            let why = "transactions with locks wrap a database that was opened with allow_2pc";
            return Err(Error::invalid_argument(why));
        }
        if options.max_lock_memory == 0 {
            return Err(Error::invalid_argument("max_lock_memory: with 0 bytes nothing can be locked"));
        }
        if db.engine().prepared.lock().iter().next().is_some() {
            let why = "there are prepared transactions; open the database with TransactionDb::open_cf";
            return Err(Error::invalid_argument(why));
        }
        check_policy(&options.secondary_indices, options.write_policy)?;
        let names = db.column_family_names();
        let families: Vec<_> = names.iter().filter_map(|name| db.column_family(name)).collect();
        for family in &families {
            check_timestamps(family.name(), &db.options_cf(family), options.write_policy)?;
        }
        let locks = LockManager::new(LockManagerOptions {
            max_lock_memory: options.max_lock_memory,
            max_num_deadlocks: options.max_num_deadlocks as usize,
            ..LockManagerOptions::new(Arc::new(EnvClock(db.env().clock.clone())))
        });
        for family in &families {
            let of_family = FamilyOptions {
                comparator: family.cf.icmp.without_timestamp().user_comparator().clone(),
                locking: options.locking,
                ..FamilyOptions::default()
            };
            let table = locks.add_family(family.id(), &of_family)?;
            let taken = || Error::invalid_argument("the database was wrapped or opened with locks before");
            family.cf.locks.set(table).map_err(|_| taken())?;
        }
        Ok(TransactionDb {
            shared: Arc::new(TransactionDbShared {
                db: db.clone(),
                locks,
                options: options.clone(),
                has_plain_writes: options.secondary_indices.is_empty(),
                direct_writes: DirectWrites::of(options),
                names: Mutex::new(BTreeMap::new()),
                timestamped_snapshots: Mutex::new(BTreeMap::new()),
            }),
        })
    }
}

impl OptimisticTransactionDb {
    /// Transactions that check at commit, over an open database, with serial validation. A commit
    /// after a flush may give `TryAgain`: see `max_write_buffer_size_to_maintain`.
    ///
    /// Commits under `ValidateParallel` of another handle do not see those of this one under way:
    /// use one kind of validation for a database.
    ///
    /// ```
    /// use esker::{Db, OptimisticTransactionDb, Options};
    /// # let dir = esker_testkit::TempDir::new("doc");
    ///
    /// let db = Db::open(&Options::new().create_if_missing(true), dir.path())?;
    /// let txn = OptimisticTransactionDb::wrap(&db)?.begin_transaction();
    /// txn.put("ada", "900")?;
    /// db.put("ada", "1000")?;
    /// assert_eq!(txn.commit().unwrap_err().kind(), esker::ErrorKind::Busy);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `NotSupported`: a read-only database, a forked child process, or a database of transactions
    /// under the policies WritePrepared and WriteUnprepared.
    pub fn wrap(db: &Db) -> Result<OptimisticTransactionDb> {
        db.engine().check_process()?;
        db.engine().check_writable()?;
        if db.engine().commits.is_some() {
            let why = "optimistic transactions beside WritePrepared and WriteUnprepared transactions";
            return Err(Error::not_supported(why));
        }
        Ok(OptimisticTransactionDb { db: db.clone(), locks: None })
    }
}
