//! Transactions: several reads and writes that take effect together, while other transactions run.
//!
//! | | finds conflicts | by |
//! |---|---|---|
//! | [`TransactionDb`] | when a key is touched | locks (`esker_lock`), and a search for writes since the snapshot |
//! | [`OptimisticTransactionDb`] | at commit | a search for writes to its keys since it touched them |
//!
//! A [`WriteBatchWithIndex`] holds the writes of a transaction. The commit writes them as one
//! batch, or applies the transaction's section of the WAL if it was prepared
//! (`write/two_phase.rs`).
//!
//! docs/transactions.md says what each [`IsolationLevel`] promises, and which anomalies of
//! Hermitage it allows.
//!
//! Source of names and semantics: RocksDB
//! `include/rocksdb/utilities/{transaction,transaction_db}.h`.

mod batch_counts;
mod batch_index;
mod batch_over;
mod batches;
mod counts;
mod db;
mod direct_writes;
mod entities;
mod former_values;
mod ingest_batch;
mod iterator;
mod occ;
mod optimistic;
mod optimistic_writes;
mod options;
mod pessimistic;
mod ranges;
mod reads;
mod reads_of_db;
mod reads_of_families;
mod secondary_index;
mod spill;
mod timestamped_snapshots;
mod timestamps;
mod untracked;
mod wrap;
mod writes;

pub use batch_counts::BatchCfStat;
pub use batch_index::{BatchEntry, BatchIterator, WriteBatchWithIndex};
pub use db::TransactionDb;
pub use esker_lock::{
    DeadlockInfo, DeadlockPath, Endpoint, EndpointBuf, LockCounters, LockInfo, LockMode, Locking, WaitInfo,
};
pub use iterator::TransactionIterator;
pub use occ::OccLockBuckets;
pub use optimistic::{OptimisticTransaction, OptimisticTransactionDb};
pub use options::{
    IsolationLevel, OccValidationPolicy, OptimisticTransactionDbOptions, OptimisticTransactionOptions,
    TransactionDbOptions, TransactionOptions, WritePolicy,
};
pub use pessimistic::{Transaction, TransactionState};
pub use secondary_index::{SecondaryIndex, SecondaryIndexIterator, SecondaryIndexRef, SimpleSecondaryIndex};
