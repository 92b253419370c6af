//! Esker is an embedded key-value store, a log-structured merge tree. It opens RocksDB's database
//! directories in place, and RocksDB can open them again.
//!
//! * **RocksDB's files, byte for byte.** Esker opens what RocksDB 5 to 11 wrote. RocksDB 7.8 and 11
//!   open what Esker writes, WALs included.
//! * **RocksDB's vocabulary.** Options, statistics, properties, errors and tools have RocksDB's
//!   names.
//! * **All in Rust.** `cargo` builds everything; this crate has no `unsafe`.
//! * **Column families**, atomic batches, snapshots, cursors in both directions, range deletions,
//!   merge operators, compaction filters, custom comparators, wide columns, user-defined
//!   timestamps.
//! * **Transactions**, with locks ([`TransactionDb`]) or with a check at commit
//!   ([`OptimisticTransactionDb`]); two-phase commit, savepoints, range locks.
//! * **Operation**: checkpoints, backups, ingestion, export and import, repair, TTL
//!   ([`DbWithTtl`]), an explanation of one slow read ([`Db::explain_get`]), changes of options
//!   while the database is open.
//! * **No surprises**: with the WAL on, a crash of the process loses no acknowledged write, unless
//!   `manual_wal_flush` is set. A power loss loses no synced write. A read of damaged bytes returns
//!   [`ErrorKind::Corruption`] with file and offset.
//!
//! # Five examples
//!
//! Open, write, read:
//!
//! ```
//! use esker::Db;
//! # let dir = esker_testkit::TempDir::new("front-open");
//! # let path = dir.path();
//!
//! let db = Db::open_default(path)?;
//! db.put("esker", "a ridge of gravel")?;
//! assert_eq!(db.get("esker")?.as_deref(), Some(&b"a ridge of gravel"[..]));
//! # Ok::<_, esker::Error>(())
//! ```
//!
//! Change several keys in several families, all or none. The changes are durable when the call
//! returns:
//!
//! ```
//! use esker::{Db, WriteBatch, WriteOptions};
//! # let dir = esker_testkit::TempDir::new("front-batch");
//! # let db = Db::open_default(dir.path())?;
//!
//! let orders = db.create_column_family("orders", &Default::default())?;
//! let mut batch = WriteBatch::new();
//! batch.put("stock", "2")?;
//! batch.put_cf(&orders, "17", "a shovel")?;
//! db.write_opt(&WriteOptions::new().sync(true), batch)?;
//! # Ok::<_, esker::Error>(())
//! ```
//!
//! Iterate, forward or backward, as of one point in time:
//!
//! ```
//! # let dir = esker_testkit::TempDir::new("front-iterate");
//! # let db = esker::Db::open_default(dir.path())?;
//! # db.put("user/1", "ada")?;
//! # db.put("user/2", "grace")?;
//! let snapshot = db.snapshot();
//! db.delete("user/2")?;
//! for entry in snapshot.prefix("user/") {
//!     let (key, value) = entry?;
//!     println!("{} = {}", key.escape_ascii(), value.escape_ascii());
//! }
//! let newest = db.range("user/".."user0").rev().next();
//! # assert_eq!(snapshot.prefix("user/").count(), 2);
//! # assert!(newest.is_some());
//! # Ok::<_, esker::Error>(())
//! ```
//!
//! Read a value and change it, while other threads do the same:
//!
//! ```
//! use esker::{Options, TransactionDb};
//! # let dir = esker_testkit::TempDir::new("front-transaction");
//! # let path = dir.path();
//!
//! let options = Options::new().create_if_missing(true);
//! let db = TransactionDb::open(&options, &Default::default(), path)?;
//! let txn = db.begin_transaction();
//! let stock = txn.get_for_update("stock")?.map_or(3, |text| text[0] - b'0');
//! txn.put("stock", (stock - 1).to_string())?;
//! txn.commit()?;
//! # assert_eq!(db.get("stock")?.unwrap(), b"2");
//! # Ok::<_, esker::Error>(())
//! ```
//!
//! Migrate from RocksDB: open the directory with the options in its OPTIONS file. Nothing is
//! converted, and RocksDB can open the directory again.
//!
//! ```
//! use esker::Db;
//! use esker::options::load_latest_options;
//! # let dir = esker_testkit::TempDir::new("front-migrate");
//! # let path = dir.path();
//! # Db::open_default(path)?.create_column_families(["users"])?;
//!
//! let written_with = load_latest_options(path)?;
//! let db = Db::open_cf(&written_with.db, path, written_with.families)?;
//! println!("{:?}", db.column_family_names());
//! # Ok::<_, esker::Error>(())
//! ```
//!
//! # Coming from `rocksdb` or `fjall`
//!
//! | `rocksdb` | `fjall` | Esker |
//! |---|---|---|
//! | `DB::open_default(path)` | `Database::builder(path).open()` | [`Db::open_default`] |
//! | `DB::open_cf(&opts, path, ["a"])` | `db.keyspace("a", …)` | [`Db::open_cf`], [`Db::create_column_family`] |
//! | `db.put_cf(&cf, k, v)` | `items.insert(k, v)` | [`Db::put_cf`] |
//! | `db.put_opt(k, v, &opts)` | | [`Db::put_opt`]: options come first, then the family |
//! | `db.iterator(IteratorMode::Start)` | `items.iter()` | [`Db::range`]`(..)` |
//! | `db.iterator(IteratorMode::End)` | `items.iter().rev()` | `db.range(..).rev()` |
//! | `db.prefix_iterator(p)` | `items.prefix(p)` | [`Db::prefix`] |
//! | `db.raw_iterator()` | | [`Db::iter`]: a cursor that lends keys and values |
//! | `WriteBatch`, `db.write(batch)` | `db.batch()`, `batch.commit()` | [`WriteBatch`], [`Db::write`] |
//! | `db.snapshot().get(k)` | `db.snapshot()` | [`Db::snapshot`], [`Snapshot::get`] |
//! | `TransactionDB`, `OptimisticTransactionDB` | `OptimisticTxDatabase` | [`TransactionDb`], [`OptimisticTransactionDb`] |
//! | `db.flush_wal(true)` | `db.persist(PersistMode::SyncAll)` | [`Db::sync_wal`] |
//! | `opts.set_merge_operator(name, f, g)` | | [`ColumnFamilyOptions::merge_operator_fn`] |
//! | `Checkpoint::new(&db)?.create_checkpoint(p)` | | [`Db::create_checkpoint`] |
//!
//! Methods come in three forms. `get(key)` reads the default family, `get_cf(&family, key)` reads
//! any family, and `get_opt(&options, &family, key)` takes options, too. Each method that ends in
//! `_opt` has options as its first argument.
//!
//! # Where to continue
//!
//! * [`options`]: every option, its unit, its default, and when it may change.
//! * [`txn`]: the kinds of transactions, and the conflicts that each kind finds; [`observe`]:
//!   events, statistics, explanations.
//! * [`builtin`]: RocksDB's stock merge operators; [`agg_merge`]: an operator over functions.
//! * The guide, in `docs/guide`, and a cookbook of programs, in `examples` of this crate.
//! * `docs/compat`: for each feature of RocksDB, whether Esker reads and writes it, and where it
//!   differs.
//! * `ARCHITECTURE.md`: the parts of the engine, and where each one lives.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

#[cfg(feature = "tokio")]
mod async_db;
mod backup;
mod cache_dump;
mod cf;
mod checkpoint;
mod compact;
pub mod compaction_filter;
pub mod compat;
mod db;
mod deleted_runs;
mod engine;
pub mod experimental;
mod explain;
mod files;
mod flush;
mod get;
mod ingest;
mod instance;
mod merge;
pub mod observe;
pub mod options;
mod picker;
mod repair;
mod replayer;
mod scan;
mod schedule;
mod snapshot;
mod sorted_run_builder;
mod sst_file_reader;
mod sst_file_writer;
#[cfg(test)]
mod tests;
/// The operations of threads: the items of [`Env::get_thread_list`].
pub mod thread_status {
    pub use esker_env::thread_status::{
        CompactionProperty, FlushProperty, OperationStage, OperationType, StateType, ThreadStatus, ThreadType,
    };
}
pub mod trace;
mod ttl;
pub mod txn;
mod version;
mod wal;
mod write;

#[cfg(feature = "tokio")]
pub use async_db::{AsyncDb, AsyncOptions, RowStream};
pub use backup::{
    BackupEngine, BackupEngineOptions, BackupInfo, BackupStopper, CreateBackupOptions, ExcludeFilesCallback,
    RestoreMode, RestoreOptions,
};
pub use cache_dump::{
    CacheDumpOptions, CacheDumpReader, CacheDumpWriter, CacheDumpedLoader, CacheDumper,
    from_file_cache_dump_reader, to_file_cache_dump_writer,
};
pub use db::{
    AttributeGroup, BatchArg, ChangeBatch, ChangeFamily, ChangeItem, ChangeOp, ChangePosition, ChangeStream,
    ChangesEnd, ChangesLag, ChangesOptions, CoalescingIterator, ColumnFamilyDescriptor, ColumnFamilyHandle,
    ColumnsCursor, Db, FileIngestionHandle, GetOutput, IngestExternalFileArg, MemoryUsageType, OpenMode,
    QuarantinedTable, StatsHistoryIterator, UserWriteCallback, WalIterator, WalLock, WideColumns,
    WriteCallback, approximate_memory_usage_by_type, destroy_db, destroy_db_cf, option_change_migration,
};
pub use engine::ScrubState;
pub use esker_base::{
    ColumnFamilyId, Error, ErrorKind, FileNumber, PinnedBytes, Result, SequenceNumber, Severity, SubCode,
    ValueType, comparator, iostats_context, merge_operator, perf_context, prefix, stats,
    table_properties_collector,
};
/// Encryption at rest: a file system for [`options::DbOptions::env`].
#[cfg(feature = "encryption")]
pub use esker_encryption as encryption;
pub use esker_format::agg_merge;
pub use esker_format::builtin;
pub use esker_format::properties::TableProperties;
pub use esker_format::unique_id::unique_id_to_human_string;
pub use esker_format::write_batch::{BatchOp, WalTerminationPoint, WriteBatch};
/// Two sizes beside the cache in use:
///
/// ```
/// use esker::options::{BlockCache, CacheOptions};
/// use esker::{Db, Options, SimCache};
/// use std::sync::Arc;
/// # let dir = esker_testkit::TempDir::new("doc");
///
/// let cache = Arc::new(BlockCache::new(&CacheOptions::with_capacity(8 << 20))?);
/// let small = SimCache::new(&cache, 1 << 20, -1)?;
/// let large = SimCache::new(&cache, 64 << 20, -1)?;
/// let mut options = Options::new().create_if_missing(true);
/// options.cf.table.block_cache = Some(cache);
/// let db = Db::open(&options, dir.path())?;
/// db.put("esker", "gravel")?;
/// db.flush()?;
/// (0..4).try_for_each(|_| db.get("esker").map(|_| ()))?;
/// assert_eq!((large.hit_counter(), large.miss_counter()), (3, 1));
/// println!("1 MiB:\n{small}64 MiB:\n{large}");
/// # Ok::<_, esker::Error>(())
/// ```
pub use esker_table::SimCache;
pub use esker_table::{AheadCounts, ScanRanges};
pub use explain::ExplainScan;
pub use get::MultiGetOutput;
pub use observe::{Explanation, ExportImportFilesMetaData, LiveFileMetaData, WalFile, WalFileType};
pub use options::{
    ColumnFamilyOptions, CompactRangeOptions, CompactionOptions, DbOptions, DbPath, Env, FlushOptions,
    ImportColumnFamilyOptions, IngestExternalFileOptions, MultiScanArgs, Options, RangeOpt, ReadOptions,
    ReadTier, WaitForCompactOptions, WalReadOptions, WalRecoveryMode, WriteOptions,
};
pub use repair::{MissingKeys, RepairOptions, RepairSummary, SalvagedTable, repair_db, repair_db_with};
pub use replayer::{ReplayOptions, ReplayedAnswer, ReplayedQuery, Replayer};
pub use scan::{DbIterator, Entries, EntryCursor, KeyRange, KeyValue, MultiScan, Scan};
pub use snapshot::Snapshot;
pub use sorted_run_builder::{SortedRunBuilder, SortedRunBuilderOptions};
pub use sst_file_reader::{ParsedEntryInfo, SstFileIterator, SstFileReader};
pub use sst_file_writer::{
    ExternalSstFileInfo, PreparedFileInfo, SstFileWriter, SstFileWriterEmbeddedBlobOptions,
};
pub use ttl::{DbWithTtl, TtlIterator};
pub use txn::{
    IsolationLevel, OptimisticTransaction, OptimisticTransactionDb, OptimisticTransactionOptions,
    Transaction, TransactionDb, TransactionDbOptions, TransactionOptions, WriteBatchWithIndex,
};

/// README.md and the guide, as doc comments: `cargo test` compiles and runs their examples.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/guide/src/getting-started.md")]
    struct GettingStarted;
    #[doc = include_str!("../../../docs/guide/src/data-model.md")]
    struct DataModel;
    #[doc = include_str!("../../../docs/guide/src/transactions.md")]
    struct Transactions;
    #[doc = include_str!("../../../docs/guide/src/tuning.md")]
    struct Tuning;
    #[doc = include_str!("../../../docs/guide/src/operating.md")]
    struct Operating;
    #[cfg(feature = "tokio")]
    #[doc = include_str!("../../../docs/guide/src/async.md")]
    struct Asynchronous;
    #[doc = include_str!("../../../docs/guide/src/moving-from-rocksdb.md")]
    struct MovingFromRocksDb;
}

/// Items for tools and tests that look inside database files: the crates on which this crate is
/// built, and parts of the engine. Any release may change these items.
#[doc(hidden)]
pub mod internals {
    pub use esker_base as base;
    pub use esker_cache as cache;
    pub use esker_env as env;
    pub use esker_format as format;
    pub use esker_memtable as memtable;
    pub use esker_table as table;

    pub use crate::db::internal_iterator;

    /// The files of a database, as its MANIFEST names them.
    pub mod version {
        pub use crate::version::beside_owner::read_beside_owner;
        pub use crate::version::manifest::read_current;
        pub use crate::version::{FamilyDescriptor, ListedFamily, VersionSet, VersionSetOptions};
    }
}
