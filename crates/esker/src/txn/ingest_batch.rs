//! `Db::ingest_write_batch_with_index`: a large batch, written apart from the memtable that is
//! there.
//!
//! In: an indexed batch. Out: its writes, visible together, and flushes of its families that have
//! been requested.
//! Source of the rules: RocksDB `DBImpl::IngestWriteBatchWithIndex`.
//!
//! Invariants
//!  1. The batch gets one sequence number for each op, as every batch does, and becomes visible as
//!     a whole.
//!  2. The families' memtables are switched behind the batch. It waits for a flush from then on,
//!     together with what was in the memtables before.

use super::WriteBatchWithIndex;
use crate::db::Db;
use crate::observe::FlushReason;
use crate::options::WriteOptions;
use esker_base::stats::Ticker;
use esker_base::{ColumnFamilyId, Error, Result};
use esker_format::write_batch::WriteBatch;
use std::collections::BTreeSet;

impl Db {
    /// Writes a large batch, and requests flushes of its families, without a wait for them. The
    /// call is RocksDB's `IngestWriteBatchWithIndex`: it needs `disable_wal` and a batch with
    /// `overwrite_key`. A crash before the flush loses the batch. Costs a write of the batch, and a
    /// new memtable for each of its families: a table each, so the call is for large batches.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// use esker::{WriteBatchWithIndex, WriteOptions};
    ///
    /// let mut batch = WriteBatchWithIndex::default();
    /// for n in 0..1000u32 {
    ///     batch.put(n.to_be_bytes(), "gravel")?;
    /// }
    /// let unlogged = WriteOptions::new().disable_wal(true);
    /// db.ingest_write_batch_with_index(&unlogged, &mut batch)?;
    /// assert!(db.get(999u32.to_be_bytes())?.is_some());
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `NotSupported`: without `disable_wal`; a batch without `overwrite_key`; with
    /// `unordered_write` or `enable_pipelined_write`; a read-only database or a forked child
    /// process · `InvalidArgument`: a family that is not open, an inverted range,
    /// `recycle_log_file_num` · `Incomplete`: `no_slowdown` is set, and writers are stalled ·
    /// `ShutdownInProgress`: the database was closed · the background error in force. After an
    /// error nothing of the batch is visible.
    pub fn ingest_write_batch_with_index(
        &self,
        options: &WriteOptions,
        batch: &mut WriteBatchWithIndex,
    ) -> Result<()> {
        self.engine().check_writable()?;
        self.check_ingested(options, batch)?;
        if batch.is_empty() {
            return Ok(());
        }
        self.write_opt(options, &mut *batch)?;
        self.flush_behind(&batch.batch);
        Ok(())
    }

    /// Requests a flush of the families of a batch that is written, and counts the batch as
    /// ingested.
    pub(super) fn flush_behind(&self, batch: &WriteBatch) {
        let engine = self.engine();
        if let Some(statistics) = &engine.options.statistics {
            statistics.record_tick(Ticker::NumberWbwiIngest, 1);
        }
        let named: BTreeSet<ColumnFamilyId> = batch.iter().filter_map(|op| op.family()).collect();
        let open: Vec<_> = named.into_iter().filter(|id| engine.families.by_id(*id).is_some()).collect();
        // The batch is written. A flush that cannot begin leaves a background error, which the
        // next write reports.
        if let Err(e) = self.inner.write_path.flush(&open, FlushReason::ExternalFileIngestion, false) {
            esker_base::info_log!(engine.info_log, Warn, "An ingested batch waits for a later flush: {e}");
        }
    }

    fn check_ingested(&self, options: &WriteOptions, batch: &WriteBatchWithIndex) -> Result<()> {
        let db = &self.engine().options;
        let what = if !options.disable_wal {
            "IngestWriteBatchWithIndex needs disableWAL=true"
        } else if db.unordered_write {
            "Ingesting WriteBatch does not support unordered_write"
        } else if db.enable_pipelined_write {
            "Ingesting WriteBatch does not support pipelined_write"
        } else if !batch.overwrites_keys() {
            "WriteBatchWithIndex ingestion requires overwrite_key=true"
        } else {
            return Ok(());
        };
        Err(Error::not_supported(what))
    }
}
