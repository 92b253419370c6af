//! Esker behind the interface for benchmarks.

use super::{BenchBatch, BenchCursor, BenchEngine, Store};
use esker::internals::format::file_name::parse_file_name;
use esker::options::Statistics;
use esker::{
    ColumnFamilyHandle, CompactRangeOptions, Db, DbIterator, Error, MultiGetOutput, MultiScanArgs, Options,
    ReadOptions, Result, SubCode, WriteBatch, WriteOptions, destroy_db, options::BottommostLevelCompaction,
};
use esker_monitor::{Monitor, StatisticsServer, StatisticsServerOptions};
use std::path::PathBuf;
use std::sync::Arc;

/// A directory, and the options to open it with.
#[derive(Debug)]
pub struct EskerStore {
    /// The database's directory.
    pub path: PathBuf,
    /// The options to open it with.
    pub options: Options,
    /// Whether to open for reading only.
    pub read_only: bool,
    /// The statistics server of each open database; `None`: there is none.
    pub watch: Option<BenchWatch>,
}

/// A monitor, whose listener is among the options, and the socket of its server.
#[derive(Clone, Debug)]
pub struct BenchWatch {
    monitor: Monitor,
    socket: PathBuf,
}

impl EskerStore {
    /// Serves the statistics of each database that is opened from now on through a Unix socket.
    pub fn watch_at(&mut self, socket: impl Into<PathBuf>) {
        let watch = BenchWatch { monitor: Monitor::new(), socket: socket.into() };
        self.options.db.listeners.push(watch.monitor.listener());
        self.options.db.statistics.get_or_insert_with(|| Arc::new(Statistics::new()));
        self.watch = Some(watch);
    }

    /// Refuses a directory that has files, but none of a database.
    fn check_directory(&self) -> Result<()> {
        let names = match self.options.db.env.fs.children(&self.path) {
            Ok(names) => names,
            Err(e) if e.subcode() == SubCode::PathNotFound => return Ok(()),
            Err(e) => return Err(e.at(self.path.display())),
        };
        if names.is_empty() || names.iter().any(|name| parse_file_name(name).is_some()) {
            return Ok(());
        }
        Err(Error::invalid_argument(format!(
            "{}: holds files but no database; choose another directory with --db",
            self.path.display()
        )))
    }
}

impl Store for EskerStore {
    type Engine = EskerEngine;

    fn open(&self) -> Result<EskerEngine> {
        if !self.read_only {
            self.check_directory()?;
            if let Some(parent) = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                self.options.db.env.fs.create_dir_if_missing(parent)?;
            }
        }
        let open = if self.read_only { Db::open_for_read_only } else { Db::open };
        let db = open(&self.options, self.path.clone())?;
        let server = self.watch.as_ref().map(|watch| {
            let handle = Arc::new(db.clone());
            let options = StatisticsServerOptions::new(&watch.socket);
            let server = StatisticsServer::start(&watch.monitor, &handle, &options)?;
            Ok::<_, Error>(EngineWatch { _server: server, _handle: handle })
        });
        Ok(EskerEngine { watch: server.transpose()?, family: db.default_column_family(), db })
    }

    fn destroy(&self) -> Result<()> {
        self.check_directory()?;
        destroy_db(&self.options.db, &self.path)
    }

    fn path(&self) -> String {
        self.path.display().to_string()
    }

    fn memtable_name(&self) -> &'static str {
        "BPlusTree"
    }

    fn statistics(&self) -> Option<String> {
        self.options.db.statistics.as_ref().map(|s| s.to_string())
    }
}

/// An open database of Esker.
#[derive(Debug)]
pub struct EskerEngine {
    db: Db,
    family: ColumnFamilyHandle,
    watch: Option<EngineWatch>,
}

/// A statistics server, and the handle that it watches.
#[derive(Debug)]
struct EngineWatch {
    _server: StatisticsServer,
    _handle: Arc<Db>,
}

impl BenchEngine for EskerEngine {
    type Batch = EskerBatch;
    type Cursor = DbIterator;
    type Values = MultiGetOutput;

    fn new_batch(&self) -> EskerBatch {
        EskerBatch { batch: WriteBatch::new(), family: self.family.id() }
    }
    #[inline]
    fn write(&self, options: &WriteOptions, batch: &mut EskerBatch) -> Result<()> {
        self.db.write_opt(options, &mut batch.batch)
    }
    #[inline]
    fn put(&self, options: &WriteOptions, key: &[u8], value: &[u8]) -> Result<()> {
        self.db.put_opt(options, &self.family, key, value)
    }
    #[inline]
    fn merge(&self, options: &WriteOptions, key: &[u8], operand: &[u8]) -> Result<()> {
        self.db.merge_opt(options, &self.family, key, operand)
    }
    #[inline]
    fn delete(&self, options: &WriteOptions, key: &[u8]) -> Result<()> {
        self.db.delete_opt(options, &self.family, key)
    }
    fn delete_range(&self, options: &WriteOptions, begin: &[u8], end: &[u8]) -> Result<()> {
        self.db.delete_range_opt(options, &self.family, begin, end)
    }
    #[inline]
    fn get(&self, options: &ReadOptions, key: &[u8]) -> Result<Option<usize>> {
        Ok(self.db.get_pinned_opt(options, &self.family, key)?.map(|value| value.len()))
    }
    fn multi_get(
        &self,
        options: &ReadOptions,
        keys: &[Vec<u8>],
        values: &mut MultiGetOutput,
        mut each: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let mut first_error = Ok(());
        self.db.multi_get_lent(options, &self.family, keys, values);
        for (i, value) in values.iter().enumerate() {
            match value {
                Ok(value) => each(i, value),
                Err(e) => first_error = first_error.and(Err(e)),
            }
        }
        first_error
    }
    fn under_snapshot(&self, options: &ReadOptions) -> ReadOptions {
        options.clone().snapshot(&self.db.snapshot())
    }
    fn cursor(&self, options: ReadOptions) -> Result<DbIterator> {
        self.db.iter_opt(options, &self.family)
    }
    fn multi_scan(
        &self,
        options: ReadOptions,
        args: &MultiScanArgs,
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let mut scans = self.db.new_multi_scan(options, &self.family, args)?;
        while let Some(mut scan) = scans.next_scan() {
            while let Some((key, value)) = scan.next_item()? {
                each(key, value);
            }
        }
        Ok(())
    }
    fn flush(&self) -> Result<()> {
        self.db.flush()
    }
    fn compact(&self, rewrite_last_level: bool, max_subcompactions: u32) -> Result<()> {
        let mut options = CompactRangeOptions { max_subcompactions, ..CompactRangeOptions::default() };
        if rewrite_last_level {
            options.bottommost_level_compaction = BottommostLevelCompaction::ForceOptimized;
        }
        self.db.compact_range_opt(&options, &self.family, None, None)
    }
    fn wait_for_background_work(&self) -> Result<()> {
        self.db.wait_for_background_work()
    }
    fn property(&self, name: &str) -> Option<String> {
        self.db.property(name)
    }
    fn close(self) -> Result<()> {
        drop(self.watch);
        self.db.close()
    }
}

/// A batch for the default family.
#[derive(Debug)]
pub struct EskerBatch {
    batch: WriteBatch,
    family: esker::ColumnFamilyId,
}

impl BenchBatch for EskerBatch {
    #[inline]
    fn clear(&mut self) {
        self.batch.clear();
    }
    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.batch.put_cf(self.family, key, value)
    }
    #[inline]
    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.batch.delete_cf(self.family, key)
    }
    fn delete_range(&mut self, begin: &[u8], end: &[u8]) -> Result<()> {
        self.batch.delete_range_cf(self.family, begin, end)
    }
}

impl BenchCursor for DbIterator {
    #[inline]
    fn valid(&self) -> bool {
        DbIterator::valid(self)
    }
    fn seek_to_first(&mut self) {
        DbIterator::seek_to_first(self);
    }
    fn seek_to_last(&mut self) {
        DbIterator::seek_to_last(self);
    }
    fn seek(&mut self, target: &[u8]) {
        DbIterator::seek(self, target);
    }
    fn seek_for_prev(&mut self, target: &[u8]) {
        DbIterator::seek_for_prev(self, target);
    }
    #[inline]
    fn next(&mut self) {
        DbIterator::next(self);
    }
    #[inline]
    fn prev(&mut self) {
        DbIterator::prev(self);
    }
    #[inline]
    fn key(&self) -> &[u8] {
        DbIterator::key(self)
    }
    #[inline]
    fn value(&self) -> &[u8] {
        DbIterator::value(self)
    }
    fn status(&self) -> Result<()> {
        DbIterator::status(self)
    }
}
