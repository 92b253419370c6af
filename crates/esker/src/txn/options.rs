//! Options of transactions: RocksDB's `TransactionDBOptions`, `TransactionOptions` and those of
//! optimistic ones.
//!
//! Source of names and defaults: RocksDB
//! `include/rocksdb/utilities/{transaction_db,optimistic_transaction_db}.h`.

use super::occ::OccLockBuckets;
use super::secondary_index::SecondaryIndexRef;
use esker_format::write_batch::WriteBatch;
use esker_lock::{LockerOptions, Locking, Timeout};
use std::time::Duration;

/// The time at which a transaction's writes are applied to memtables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WritePolicy {
    /// At commit. Transactions that were written under other policies are recovered, and continue
    /// under this one; so under the others.
    #[default]
    WriteCommitted,
    /// At prepare, so that a commit writes a marker only. Takes no families with user-defined
    /// timestamps; a prepared transaction has no range deletions and takes no more writes.
    WritePrepared,
    /// As `WritePrepared`, and before the prepare each time the ops in memory pass
    /// [`TransactionOptions::write_batch_flush_threshold`]. So a transaction may be larger than
    /// memory: only its keys stay there. Once it has spilled ops, it deletes no ranges.
    WriteUnprepared,
}

/// The visibility of other transactions' writes. docs/transactions.md says which anomalies each
/// level allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IsolationLevel {
    /// Each read sees the latest committed values. Keys that are written or read for update are
    /// locked. If the transaction sets a snapshot itself, later writes to those keys are conflicts.
    /// As in RocksDB.
    #[default]
    ReadCommitted,
    /// Snapshot isolation: the transaction sets a snapshot when it begins, and reads see it. Keys
    /// that others have written since then cannot be written.
    Snapshot,
    /// As if transactions ran one after the other. With locks, each read takes a shared lock on its
    /// key, and an iterator locks everything between its bounds. Without locks, the commit fails if
    /// others have written a key since it was read.
    Serializable,
}

/// Options of a [`TransactionDb`](super::TransactionDb).
#[derive(Clone, Debug)]
pub struct TransactionDbOptions {
    /// Longest wait of a transaction for a lock unless its own options say otherwise, in
    /// milliseconds; 0: not at all, negative: for ever. Default 1000.
    pub transaction_lock_timeout: i64,
    /// The lock timeout for writes outside of transactions. Default 1000.
    pub default_lock_timeout: i64,
    /// Number of recent deadlocks that are remembered. Default 5.
    pub max_num_deadlocks: u32,
    /// Most bytes of locks. Beyond it the locks of the greediest transaction are joined; if that
    /// does not help, requests fail with `LockLimit`. `usize::MAX`: no limit, the default. Replaces
    /// RocksDB's `max_num_locks`.
    pub max_lock_memory: usize,
    /// Whether ranges can be locked, which `delete_range` and serializable iterators need. Default
    /// `Ranges`.
    pub locking: Locking,
    /// When transactions are written to memtables. Default `WriteCommitted`.
    pub write_policy: WritePolicy,
    /// [`TransactionOptions::write_batch_flush_threshold`] of transactions that name none. 0, the
    /// default: no limit.
    pub default_write_batch_flush_threshold: i64,
    /// Take no locks and check nothing: the caller guarantees that there are no conflicts. Default
    /// false.
    pub skip_concurrency_control: bool,
    /// In families with user-defined timestamps: whether a key with a timestamp newer than the
    /// transaction's read timestamp is a conflict. Default true.
    pub enable_udt_validation: bool,
    /// Indices that transactions keep up to date: [`SecondaryIndex`](super::SecondaryIndex). Under
    /// `WriteCommitted` only; an open under another policy refuses them. Default: none.
    pub secondary_indices: Vec<SecondaryIndexRef>,
}

impl Default for TransactionDbOptions {
    fn default() -> TransactionDbOptions {
        TransactionDbOptions {
            transaction_lock_timeout: 1000,
            default_lock_timeout: 1000,
            max_num_deadlocks: 5,
            max_lock_memory: usize::MAX,
            locking: Locking::Ranges,
            write_policy: WritePolicy::WriteCommitted,
            default_write_batch_flush_threshold: 0,
            skip_concurrency_control: false,
            enable_udt_validation: true,
            secondary_indices: Vec::new(),
        }
    }
}

esker_base::setters! {
    TransactionDbOptions {
        transaction_lock_timeout: i64;
        default_lock_timeout: i64;
        max_num_deadlocks: u32;
        max_lock_memory: usize;
        locking: Locking;
        write_policy: WritePolicy;
        default_write_batch_flush_threshold: i64;
        skip_concurrency_control: bool;
        enable_udt_validation: bool;
        secondary_indices: Vec<SecondaryIndexRef>;
    }
}

/// Options of a [`Transaction`](super::Transaction).
#[derive(Clone, Debug)]
pub struct TransactionOptions {
    /// Isolation from other transactions. Default `ReadCommitted`.
    pub isolation: IsolationLevel,
    /// Set a snapshot at the begin. Default false.
    pub set_snapshot: bool,
    /// Look for a cycle of waiting transactions before waiting. Default false.
    pub deadlock_detect: bool,
    /// Longest chain of waiting transactions that is followed; a longer one counts as a cycle.
    /// Default 50.
    pub deadlock_detect_depth: usize,
    /// Time to wait before looking for a cycle, in microseconds. Default 0.
    pub deadlock_timeout_us: u64,
    /// Longest wait for a lock, in milliseconds; 0: not at all, negative: as the database says.
    /// Default -1.
    pub lock_timeout: i64,
    /// Milliseconds until the transaction expires: then others may steal its locks, and it cannot
    /// commit. Negative: never. Default -1.
    pub expiration: i64,
    /// Limit on the bytes that the transaction writes; 0: no limit. Default 0.
    pub max_write_batch_size: usize,
    /// Under `WriteUnprepared`: bytes of ops in memory beyond which the next write spills them to
    /// memtables, and to the WAL even with `disable_wal`. 0: no limit; negative: as the database
    /// says. Default -1.
    pub write_batch_flush_threshold: i64,
    /// Take no locks and check nothing. Default false.
    pub skip_concurrency_control: bool,
    /// Whether the transaction may be committed without a prepare. Default true.
    pub skip_prepare: bool,
    /// Whether the commit of a prepared transaction requests a flush of its families behind it, as
    /// [`Db::ingest_write_batch_with_index`](crate::Db::ingest_write_batch_with_index) does. The
    /// commit writes to memtables as others do. For `WriteCommitted`, and transactions without
    /// timestamps. Default false.
    pub commit_bypass_memtable: bool,
    /// `commit_bypass_memtable` for transactions of at least this number of writes; 0, the default:
    /// not by their number.
    pub large_txn_commit_optimize_threshold: u32,
    /// `commit_bypass_memtable` for transactions whose batch has at least this number of bytes; 0,
    /// the default: not by their size.
    pub large_txn_commit_optimize_byte_threshold: u64,
}

impl Default for TransactionOptions {
    fn default() -> TransactionOptions {
        TransactionOptions {
            isolation: IsolationLevel::ReadCommitted,
            set_snapshot: false,
            deadlock_detect: false,
            deadlock_detect_depth: 50,
            deadlock_timeout_us: 0,
            lock_timeout: -1,
            expiration: -1,
            max_write_batch_size: 0,
            write_batch_flush_threshold: -1,
            skip_concurrency_control: false,
            skip_prepare: true,
            commit_bypass_memtable: false,
            large_txn_commit_optimize_threshold: 0,
            large_txn_commit_optimize_byte_threshold: 0,
        }
    }
}

impl TransactionOptions {
    /// Whether the commit of this batch requests a flush: see `commit_bypass_memtable`.
    pub(super) fn bypasses_memtable(&self, batch: &WriteBatch) -> bool {
        let (least, least_bytes) =
            (self.large_txn_commit_optimize_threshold, self.large_txn_commit_optimize_byte_threshold);
        let count = batch.count();
        self.commit_bypass_memtable && count > 0
            || least > 0 && count >= least
            || least_bytes > 0 && batch.data_size() as u64 >= least_bytes
    }

    /// The options for the lock manager.
    pub(super) fn locker(&self, db: &TransactionDbOptions) -> LockerOptions {
        let own = u64::try_from(self.lock_timeout).ok().map(milliseconds);
        LockerOptions {
            lock_timeout: own.unwrap_or_else(|| timeout(db.transaction_lock_timeout)),
            deadlock_detect: self.deadlock_detect,
            deadlock_detect_depth: self.deadlock_detect_depth,
            deadlock_timeout: Duration::from_micros(self.deadlock_timeout_us),
            expiration: u64::try_from(self.expiration).ok().map(Duration::from_millis),
        }
    }
}

esker_base::setters! {
    TransactionOptions {
        isolation: IsolationLevel;
        set_snapshot: bool;
        deadlock_detect: bool;
        deadlock_detect_depth: usize;
        deadlock_timeout_us: u64;
        lock_timeout: i64;
        expiration: i64;
        max_write_batch_size: usize;
        write_batch_flush_threshold: i64;
        skip_concurrency_control: bool;
        skip_prepare: bool;
        commit_bypass_memtable: bool;
        large_txn_commit_optimize_threshold: u32;
        large_txn_commit_optimize_byte_threshold: u64;
    }
}

/// A timeout as RocksDB's options say it: milliseconds, 0 for not at all, negative for ever.
pub(super) fn timeout(millis: i64) -> Timeout {
    u64::try_from(millis).map_or(Timeout::Forever, milliseconds)
}

fn milliseconds(millis: u64) -> Timeout {
    if millis == 0 { Timeout::Never } else { Timeout::After(Duration::from_millis(millis)) }
}

/// When an optimistic transaction is checked for writes of others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OccValidationPolicy {
    /// In the commit's place in the line of writes, alone: no other write begins until the
    /// transaction is checked and written. Sees every write, those of [`Db`](crate::Db) too. The
    /// default, which is not RocksDB's.
    #[default]
    ValidateSerial,
    /// Before the commit joins the line, under mutexes for its keys: transactions with other keys
    /// are checked at the same time, and share writes and syncs. Writes of the
    /// [`OptimisticTransactionDb`](super::OptimisticTransactionDb) take the same mutexes. A write
    /// of [`Db`](crate::Db) between check and write goes unseen, as in RocksDB.
    ValidateParallel,
}

/// Options of an [`OptimisticTransactionDb`](super::OptimisticTransactionDb).
#[derive(Clone, Debug)]
pub struct OptimisticTransactionDbOptions {
    /// When transactions are checked. Default `ValidateSerial`.
    pub validate_policy: OccValidationPolicy,
    /// Number of mutexes of `ValidateParallel`; keys are spread over them by hash. Numbers below 16
    /// count as 16. Default 2^20, of a few bytes each.
    pub occ_lock_buckets: u32,
    /// Mutexes that several databases share, in place of `occ_lock_buckets`. Default `None`.
    pub shared_lock_buckets: Option<OccLockBuckets>,
}

impl Default for OptimisticTransactionDbOptions {
    fn default() -> OptimisticTransactionDbOptions {
        OptimisticTransactionDbOptions {
            validate_policy: OccValidationPolicy::ValidateSerial,
            occ_lock_buckets: 1 << 20,
            shared_lock_buckets: None,
        }
    }
}

esker_base::setters! {
    OptimisticTransactionDbOptions {
        validate_policy: OccValidationPolicy;
        occ_lock_buckets: u32;
        optional shared_lock_buckets: OccLockBuckets;
    }
}

/// Options of an [`OptimisticTransaction`](super::OptimisticTransaction).
#[derive(Clone, Copy, Debug, Default)]
pub struct OptimisticTransactionOptions {
    /// Isolation from other transactions. Default `ReadCommitted`: the commit fails if others have
    /// written a key since this transaction wrote it or read it for update.
    pub isolation: IsolationLevel,
    /// Set a snapshot at the begin. Default false.
    pub set_snapshot: bool,
}

esker_base::setters! {
    OptimisticTransactionOptions {
        isolation: IsolationLevel;
        set_snapshot: bool;
    }
}
