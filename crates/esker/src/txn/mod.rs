//! Transactions: several reads and writes that take effect together, beside others that do the
//! same.
//!
//! | | finds conflicts | by |
//! |---|---|---|
//! | [`TransactionDb`] | when a key is touched | locks (`esker_lock`), and looking whether it was written since the snapshot |
//! | [`OptimisticTransactionDb`] | at commit | looking whether what was touched has been written since |
//!
//! What a transaction has written lies in a [`WriteBatchWithIndex`] until it commits: then it is
//! written as one batch, or, if it was prepared, the section that is in the WAL is applied
//! (`write/two_phase.rs`).
//!
//! What the isolation levels promise, by [`IsolationLevel`]'s names and the anomalies of Hermitage
//! that they allow: docs/transactions.md.
//!
//! Source of names and semantics: RocksDB
//! `include/rocksdb/utilities/{transaction,transaction_db}.h`.

mod batch_index;
mod db;
mod entities;
mod iterator;
mod optimistic;
mod options;
mod pessimistic;
mod ranges;
mod reads;
mod reads_of_db;
mod timestamps;
mod writes;

pub use batch_index::{BatchEntry, BatchIterator, WriteBatchWithIndex};
pub use db::TransactionDb;
pub use esker_lock::{
    DeadlockInfo, DeadlockPath, Endpoint, EndpointBuf, LockCounters, LockInfo, LockMode, Locking, WaitInfo,
};
pub use iterator::TransactionIterator;
pub use optimistic::{OptimisticTransaction, OptimisticTransactionDb};
pub use options::{
    IsolationLevel, OptimisticTransactionOptions, TransactionDbOptions, TransactionOptions, WritePolicy,
};
pub use pessimistic::{Transaction, TransactionState};
