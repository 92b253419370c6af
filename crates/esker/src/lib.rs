//! Esker: an embedded LSM key-value engine that opens RocksDB's database directories in place and
//! hands them back.
//!
//! ```
//! use esker::{Db, Options, ReadOptions, WriteBatch, WriteOptions};
//!
//! # fn main() -> esker::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("esker-doc-{}", std::process::id()));
//! let mut options = Options::default();
//! options.db.create_if_missing = true;
//! let db = Db::open(&options, &dir)?;
//! db.put("fjord", "water")?;
//! let snapshot = db.snapshot();
//! let mut batch = WriteBatch::new();
//! batch.put(db.default_column_family().id(), b"esker", b"gravel")?;
//! batch.delete(db.default_column_family().id(), b"fjord")?;
//! db.write(&WriteOptions::default().sync(true), &mut batch)?;
//! assert_eq!(db.get("fjord")?, None);
//! let then = ReadOptions::new().snapshot(&snapshot);
//! assert_eq!(db.get_opt(&then, &db.default_column_family(), "fjord")?.as_deref(), Some(&b"water"[..]));
//! # drop((snapshot, then));
//! # drop(db);
//! # esker::destroy_db(&options.db, &dir)
//! # }
//! ```
//!
//! Reading order: [`Db`] and [`options`] (the public face), then the modules in the order of a
//! write: `write`, `flush`, `compact`; of a read: `get`, `scan`, `merge`; and what they stand on:
//! `engine` (the shared state), `cf`, `version`, `picker`, `wal`, `files`. ARCHITECTURE.md draws
//! the paths.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod backup;
pub mod builtin;
mod cf;
mod checkpoint;
mod compact;
pub mod compat;
mod db;
mod deleted_runs;
mod engine;
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
mod scan;
mod schedule;
mod snapshot;
mod sst_file_reader;
mod sst_file_writer;
#[cfg(test)]
mod tests;
mod ttl;
pub mod txn;
mod version;
mod wal;
mod write;

pub use backup::{BackupEngine, BackupEngineOptions, BackupInfo};
pub use db::{
    AttributeGroup, ColumnFamilyDescriptor, ColumnFamilyHandle, Db, IngestExternalFileArg, OpenMode,
    QuarantinedTable, WideColumns, destroy_db,
};
pub use engine::ScrubState;
pub use esker_base::{
    ColumnFamilyId, Error, ErrorKind, FileNumber, PinnedBytes, Result, SequenceNumber, Severity, SubCode,
    ValueType, compaction_filter, comparator, merge_operator, perf_context, prefix, stats,
    table_properties_collector,
};
pub use esker_format::properties::TableProperties;
pub use esker_format::write_batch::{BatchOp, WriteBatch};
pub use esker_table::{AheadCounts, ScanRanges};
pub use explain::ExplainScan;
pub use get::MultiGetOutput;
pub use observe::{Explanation, ExportImportFilesMetaData, LiveFileMetaData};
pub use options::{
    ColumnFamilyOptions, CompactRangeOptions, CompactionOptions, DbOptions, Env, FlushOptions,
    ImportColumnFamilyOptions, IngestExternalFileOptions, MultiScanArgs, Options, RangeOpt, ReadOptions,
    ReadTier, WalRecoveryMode, WriteOptions,
};
pub use repair::{RepairSummary, repair_db};
pub use scan::{DbIterator, MultiScan, Scan};
pub use snapshot::Snapshot;
pub use sst_file_reader::{ParsedEntryInfo, SstFileIterator, SstFileReader};
pub use sst_file_writer::{ExternalSstFileInfo, SstFileWriter};
pub use ttl::{DbWithTtl, TtlIterator};
pub use txn::{
    IsolationLevel, OptimisticTransaction, OptimisticTransactionDb, OptimisticTransactionOptions,
    Transaction, TransactionDb, TransactionDbOptions, TransactionOptions, WriteBatchWithIndex,
};

/// README.md and the guide, so that their examples are compiled and run.
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
    #[doc = include_str!("../../../docs/guide/src/moving-from-rocksdb.md")]
    struct MovingFromRocksDb;
}

/// What tools and tests need to look inside files: the crates below, and parts of the engine. It
/// promises nothing: any release may change it.
pub mod internals {
    pub use esker_base as base;
    pub use esker_cache as cache;
    pub use esker_env as env;
    pub use esker_format as format;
    pub use esker_memtable as memtable;
    pub use esker_table as table;

    pub use crate::db::internal_iterator;

    /// Which files make up a database, as its MANIFEST says.
    pub mod version {
        pub use crate::version::beside_owner::read_beside_owner;
        pub use crate::version::manifest::read_current;
        pub use crate::version::{FamilyDescriptor, ListedFamily, VersionSet, VersionSetOptions};
    }
}
