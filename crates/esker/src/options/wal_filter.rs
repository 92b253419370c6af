//! Filters of WAL records at recovery: RocksDB's `WalFilter`.
//!
//! In: what the MANIFEST says about column families, then each record of the WALs that an open
//! replays, in order. Out: for each record, what becomes of it.
//!
//! Source: RocksDB `include/rocksdb/wal_filter.h`, `db/db_impl/db_impl_open.cc`.

use super::log::LogLine;
use super::value::{OptionValue, is_null, object_name};
use esker_base::sync::Arc;
use esker_base::{ColumnFamilyId, Error, FileNumber, Result};
use esker_format::write_batch::WriteBatch;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// One record of a WAL, as a filter sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct WalFilterRecord<'a> {
    /// The number of the WAL.
    pub log_number: FileNumber,
    /// The path of the WAL.
    pub log_file_name: &'a Path,
    /// The operations that were written together, with their sequence number.
    pub batch: &'a WriteBatch,
}

impl<'a> WalFilterRecord<'a> {
    pub(crate) fn new(
        log_number: FileNumber,
        log_file_name: &'a Path,
        batch: &'a WriteBatch,
    ) -> WalFilterRecord<'a> {
        WalFilterRecord { log_number, log_file_name, batch }
    }
}

/// The fate of a record.
#[derive(Clone, Debug)]
pub enum WalFilterDecision {
    /// The record is replayed.
    ContinueProcessing,
    /// Replay this batch in place of the record, from the record's sequence number on. A batch with
    /// more counted operations than the record fails the open with `NotSupported`.
    ChangeBatch(WriteBatch),
    /// The record is skipped.
    IgnoreCurrentRecord,
    /// Replay ends before the record; this record and all later ones are discarded for good.
    StopReplay,
    /// The record is damaged: `wal_recovery_mode` says what follows.
    CorruptedRecord,
}

/// Inspects, changes or drops the records that an open replays.
///
/// The open is the only caller, from its own thread. Secondaries do not call a filter, as in
/// RocksDB. An open that may write then flushes the memtables, even with
/// `avoid_flush_during_recovery`. So records that a filter dropped or changed stay so.
/// Cost: a copy of each record; nothing without a filter.
///
/// ```
/// use esker::options::{WalFilter, WalFilterDecision, WalFilterRecord};
/// use esker::{BatchOp, Db, Options};
/// use std::sync::Arc;
///
/// #[derive(Debug)]
/// struct WithoutDrafts;
///
/// impl WalFilter for WithoutDrafts {
///     fn name(&self) -> &str {
///         "WithoutDrafts"
///     }
///     fn log_record_found(&self, record: &WalFilterRecord<'_>) -> WalFilterDecision {
///         let is_draft = |op: BatchOp<'_>| matches!(op, BatchOp::Put { key: b"draft", .. });
///         if record.batch.iter().any(is_draft) {
///             return WalFilterDecision::IgnoreCurrentRecord;
///         }
///         WalFilterDecision::ContinueProcessing
///     }
/// }
///
/// # let dir = esker_testkit::TempDir::new("doc");
/// let mut options = Options::new().create_if_missing(true);
/// options.db.avoid_flush_during_shutdown = true;
/// let db = Db::open(&options, dir.path())?;
/// db.put("draft", "moraines")?;
/// db.put("page", "eskers")?;
/// drop(db);
/// options.db.wal_filter = Some(Arc::new(WithoutDrafts));
/// let db = Db::open(&options, dir.path())?;
/// assert_eq!(db.get("draft")?, None);
/// assert_eq!(db.get("page")?.unwrap(), b"eskers");
/// # Ok::<_, esker::Error>(())
/// ```
pub trait WalFilter: Send + Sync {
    /// The filter's name, for the LOG, OPTIONS files and errors.
    fn name(&self) -> &str;

    /// Takes the oldest WAL that each family needs, and the families' ids by name. Called once,
    /// before the first record.
    fn column_family_log_number_map(
        &self,
        _log_numbers: &BTreeMap<ColumnFamilyId, FileNumber>,
        _ids: &BTreeMap<&str, ColumnFamilyId>,
    ) {
    }

    /// Decides on a record.
    fn log_record_found(&self, _record: &WalFilterRecord<'_>) -> WalFilterDecision {
        WalFilterDecision::ContinueProcessing
    }
}

/// A shared filter.
pub type WalFilterRef = Arc<dyn WalFilter>;

impl fmt::Debug for dyn WalFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WalFilter({})", self.name())
    }
}

/// A filter's name in OPTIONS files; none can be made from one.
impl OptionValue for Option<WalFilterRef> {
    fn parse(text: &str) -> Result<Option<WalFilterRef>> {
        match object_name(text) {
            name if is_null(name) => Ok(None),
            name => Err(Error::invalid_argument(format!("no built-in WAL filter is called '{name}'"))),
        }
    }

    fn print(&self) -> String {
        self.as_ref().map_or_else(|| "nullptr".to_owned(), |filter| filter.name().to_owned())
    }

    fn log(&self, name: &str, lines: &mut Vec<LogLine>) {
        lines.push((name.to_owned(), self.as_ref().map_or("None", |filter| filter.name()).to_owned()));
    }
}
