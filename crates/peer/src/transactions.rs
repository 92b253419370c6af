//! RocksDB's `TransactionDB`, with the calls that tests of prepared transactions need.
//!
//! Invariant: a transaction borrows its database, and is destroyed before the database closes. A
//! prepared transaction stays in the WAL.

use crate::api::{Api, NEEDS_11, Txn, TxnDatabase, WriteOptions, api};
use crate::c_data::{c_path, call, slice, take};
use crate::option_set::OptionSet;
use std::ffi::c_int;
use std::path::Path;
use std::ptr;

/// When RocksDB writes transactions to memtables, by its numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RocksWritePolicy {
    /// At commit.
    Committed = 0,
    /// At prepare.
    Prepared = 1,
    /// Before prepare.
    Unprepared = 2,
}

/// A `TransactionDB` that RocksDB has open, with its default family. Closed when dropped.
#[derive(Debug)]
pub struct RocksTransactionDb {
    api: &'static Api,
    db: *mut TxnDatabase,
    write: *mut WriteOptions,
}

// SAFETY: RocksDB's TransactionDB is used by many threads at once; the write options are only read.
unsafe impl Send for RocksTransactionDb {}
// SAFETY: many threads may use RocksDB's TransactionDB at once; the write options are only read.
unsafe impl Sync for RocksTransactionDb {}

impl RocksTransactionDb {
    /// Opens or creates the database in `path`.
    /// # Errors
    /// RocksDB's error, as text; or the reason why no library can be loaded.
    pub fn open(path: &Path, options: &str, policy: RocksWritePolicy) -> Result<RocksTransactionDb, String> {
        RocksTransactionDb::open_spilling(path, options, policy, 0)
    }

    /// [`open`](Self::open). Under `Unprepared`, transactions write their ops to memtables each
    /// time these pass `threshold` bytes; 0: not before their prepare.
    /// # Errors
    /// RocksDB's error, as text; or the reason why no library can be loaded.
    pub fn open_spilling(
        path: &Path,
        options: &str,
        policy: RocksWritePolicy,
        threshold: i64,
    ) -> Result<RocksTransactionDb, String> {
        let api = api()?;
        let set = OptionSet::parse(api, options)?;
        let path = c_path(path);
        // SAFETY: no requirements.
        let txn_options = unsafe { (api.transactiondb_options_create)() };
        // SAFETY: the options are live.
        unsafe { api.transactiondb_options_set_write_policy.expect(NEEDS_11)(txn_options, policy as c_int) };
        let set_threshold = api.transactiondb_options_set_default_write_batch_flush_threshold;
        // SAFETY: the options are live.
        unsafe { set_threshold.expect(NEEDS_11)(txn_options, threshold) };
        let db = call(api, |error| {
            // SAFETY: both options are live, the string ends in NUL.
            unsafe { (api.transactiondb_open)(set.as_ptr(), txn_options, path.as_ptr(), error) }
        });
        // SAFETY: made above, not used again.
        unsafe { (api.transactiondb_options_destroy)(txn_options) };
        let db = db?;
        // SAFETY: no requirements.
        let write = unsafe { (api.writeoptions_create)() };
        Ok(RocksTransactionDb { api, db, write })
    }

    /// Stores a pair outside of any transaction.
    /// # Errors
    /// RocksDB's, as text.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let ((k, kn), (v, vn)) = (slice(key), slice(value));
        // SAFETY: database and options are live; the slices are copied during the call.
        call(self.api, |error| unsafe {
            (self.api.transactiondb_put)(self.db, self.write, k, kn, v, vn, error);
        })
    }

    /// The value of a key, now.
    /// # Errors
    /// RocksDB's, as text.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        self.get_at(key, None)
    }

    /// The value of a key, now, or as of a timestamp.
    /// # Errors
    /// RocksDB's, as text.
    pub fn get_at(&self, key: &[u8], timestamp: Option<&[u8]>) -> Result<Option<Vec<u8>>, String> {
        // SAFETY: no requirements.
        let options = unsafe { (self.api.readoptions_create)() };
        if let Some(timestamp) = timestamp {
            let (t, tn) = slice(timestamp);
            // SAFETY: the options are live; the timestamp outlives them.
            unsafe { (self.api.readoptions_set_timestamp)(options, t, tn) };
        }
        let ((k, kn), mut len) = (slice(key), 0);
        let value = call(self.api, |error| {
            // SAFETY: database and options are live; `len` and the key outlive the call.
            unsafe { (self.api.transactiondb_get)(self.db, options, k, kn, &raw mut len, error) }
        });
        // SAFETY: made above, not used again.
        unsafe { (self.api.readoptions_destroy)(options) };
        let value = value?;
        Ok((!value.is_null()).then(|| take(self.api, value, len)))
    }

    /// Flushes and waits.
    /// # Errors
    /// RocksDB's, as text.
    pub fn flush(&self) -> Result<(), String> {
        // SAFETY: no requirements.
        let options = unsafe { (self.api.flushoptions_create)() };
        // SAFETY: database and options are live.
        let result =
            call(self.api, |error| unsafe { (self.api.transactiondb_flush)(self.db, options, error) });
        // SAFETY: made above, not used again.
        unsafe { (self.api.flushoptions_destroy)(options) };
        result
    }

    /// Begins a transaction of this name.
    /// # Errors
    /// RocksDB's, as text.
    pub fn begin(&self, name: &str) -> Result<RocksTransaction<'_>, String> {
        let txn = self.begin_unnamed();
        let (n, nn) = slice(name.as_bytes());
        // SAFETY: the transaction is live; the name is copied.
        call(self.api, |error| unsafe { (self.api.transaction_set_name)(txn.txn, n, nn, error) })?;
        Ok(txn)
    }

    /// Begins a transaction that cannot be prepared.
    pub fn begin_unnamed(&self) -> RocksTransaction<'_> {
        // SAFETY: no requirements.
        let options = unsafe { (self.api.transaction_options_create)() };
        // SAFETY: database and options are live; there is no older transaction.
        let txn = unsafe { (self.api.transaction_begin)(self.db, self.write, options, ptr::null_mut()) };
        // SAFETY: made above, not used again.
        unsafe { (self.api.transaction_options_destroy)(options) };
        RocksTransaction { db: self, txn }
    }

    /// The transactions that were prepared when the database was opened, by name.
    pub fn prepared(&self) -> Vec<(String, RocksTransaction<'_>)> {
        let mut count = 0;
        // SAFETY: the database is live; `count` outlives the call.
        let list = unsafe { (self.api.transactiondb_get_prepared_transactions)(self.db, &raw mut count) };
        if list.is_null() {
            return Vec::new();
        }
        // SAFETY: RocksDB returned an array of `count` transactions, which this process now owns.
        let txns = unsafe { std::slice::from_raw_parts(list, count) }.to_vec();
        // SAFETY: RocksDB's allocator made the array, and it is not used again.
        unsafe { (self.api.free)(list.cast()) };
        let mut found: Vec<_> = txns
            .into_iter()
            .map(|txn| {
                let mut len = 0;
                // SAFETY: the transaction is live; `len` outlives the call.
                let name = unsafe { (self.api.transaction_get_name)(txn, &raw mut len) };
                let name = String::from_utf8_lossy(&take(self.api, name, len)).into_owned();
                (name, RocksTransaction { db: self, txn })
            })
            .collect();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found
    }
}

impl Drop for RocksTransactionDb {
    fn drop(&mut self) {
        // SAFETY: made at open, not used again.
        unsafe { (self.api.writeoptions_destroy)(self.write) };
        // SAFETY: made at open, not used again; transactions borrow `self`, so none is left.
        unsafe { (self.api.transactiondb_close)(self.db) };
    }
}

/// A transaction of RocksDB's. Destroyed when dropped, which rolls it back unless it is prepared.
#[derive(Debug)]
pub struct RocksTransaction<'db> {
    db: &'db RocksTransactionDb,
    txn: *mut Txn,
}

impl RocksTransaction<'_> {
    /// Stores a pair.
    /// # Errors
    /// RocksDB's, as text.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let ((k, kn), (v, vn)) = (slice(key), slice(value));
        // SAFETY: the transaction is live; the slices are copied during the call.
        call(self.db.api, |error| unsafe {
            (self.db.api.transaction_put)(self.txn, k, kn, v, vn, error);
        })
    }

    /// Removes a key.
    /// # Errors
    /// RocksDB's, as text.
    pub fn delete(&self, key: &[u8]) -> Result<(), String> {
        let (k, kn) = slice(key);
        // SAFETY: the transaction is live; the slice is copied during the call.
        call(self.db.api, |error| unsafe { (self.db.api.transaction_delete)(self.txn, k, kn, error) })
    }

    /// The value of a key, as the transaction sees it.
    /// # Errors
    /// RocksDB's, as text.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let api = self.db.api;
        // SAFETY: no requirements.
        let options = unsafe { (api.readoptions_create)() };
        let ((k, kn), mut len) = (slice(key), 0);
        let value = call(api, |error| {
            // SAFETY: transaction and options are live; `len` and the key outlive the call.
            unsafe { (api.transaction_get)(self.txn, options, k, kn, &raw mut len, error) }
        });
        // SAFETY: made above, not used again.
        unsafe { (api.readoptions_destroy)(options) };
        let value = value?;
        Ok((!value.is_null()).then(|| take(api, value, len)))
    }

    /// Sets a save point.
    pub fn set_save_point(&self) {
        // SAFETY: the transaction is live.
        unsafe { (self.db.api.transaction_set_savepoint)(self.txn) }
    }

    /// Undoes writes since the newest save point.
    /// # Errors
    /// RocksDB's, as text.
    pub fn rollback_to_save_point(&self) -> Result<(), String> {
        // SAFETY: the transaction is live.
        call(self.db.api, |error| unsafe { (self.db.api.transaction_rollback_to_savepoint)(self.txn, error) })
    }

    /// Sets the transaction's commit timestamp.
    pub fn set_commit_timestamp(&self, timestamp: u64) {
        // SAFETY: the transaction is live.
        unsafe { self.db.api.transaction_set_commit_timestamp.expect(NEEDS_11)(self.txn, timestamp) }
    }

    /// Prepares the transaction: writes it to the WAL.
    /// # Errors
    /// RocksDB's, as text.
    pub fn prepare(&self) -> Result<(), String> {
        // SAFETY: the transaction is live.
        call(self.db.api, |error| unsafe { (self.db.api.transaction_prepare)(self.txn, error) })
    }

    /// Commits the transaction.
    /// # Errors
    /// RocksDB's, as text.
    pub fn commit(self) -> Result<(), String> {
        // SAFETY: the transaction is live.
        call(self.db.api, |error| unsafe { (self.db.api.transaction_commit)(self.txn, error) })
    }

    /// Rolls the transaction back.
    /// # Errors
    /// RocksDB's, as text.
    pub fn rollback(self) -> Result<(), String> {
        // SAFETY: the transaction is live.
        call(self.db.api, |error| unsafe { (self.db.api.transaction_rollback)(self.txn, error) })
    }
}

impl Drop for RocksTransaction<'_> {
    fn drop(&mut self) {
        // SAFETY: not used again.
        unsafe { (self.db.api.transaction_destroy)(self.txn) };
    }
}
