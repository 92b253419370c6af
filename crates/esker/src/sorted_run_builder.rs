//! Sorts any number of entries into tables, through a database that exists only meanwhile.
//!
//! In: entries in any order, from many threads. Out: tables without overlaps in the order of keys,
//! whose entries have sequence number 0, or an iterator over them.
//!
//! The entries go into memtables without a WAL, and from there into level 0. One compaction at the
//! end merges them. So sorting costs each entry two writes, whatever their number, and memory for
//! the memtables only.
//!
//! Source: RocksDB `include/rocksdb/utilities/sorted_run_builder.h`,
//! `utilities/sorted_run_builder/sorted_run_builder.cc`.

use crate::db::{BatchArg, Db, destroy_db};
use crate::options::{
    BlockBasedTableOptions, BottommostLevelCompaction, CompactRangeOptions, CompactionStyle, CompressionType,
    Env, InfoLogLevel, Options, ReadOptions, WriteOptions,
};
use crate::scan::DbIterator;
use esker_base::comparator::ComparatorRef;
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::{Error, Result};
use std::fmt;
use std::path::{Path, PathBuf};

/// Options of a [`SortedRunBuilder`].
#[derive(Clone)]
pub struct SortedRunBuilderOptions {
    /// Directory of the temporary database. It must not hold a database yet. Required.
    pub temp_dir: PathBuf,
    /// Order of keys; `None`: bytewise. Default `None`.
    pub comparator: Option<ComparatorRef>,
    /// Bytes at which an output table ends. Default 64 MiB.
    pub target_file_size_bytes: u64,
    /// The codec of the output. Default: none.
    pub compression: CompressionType,
    /// Threads that sort in the background. Default 4.
    pub max_compaction_threads: u32,
    /// Bytes that are sorted in memory at once. Default 64 MiB.
    pub write_buffer_size: usize,
    /// Memtables, active and immutable, at which [`SortedRunBuilder::add`] waits; at least 2.
    /// Default 4.
    pub max_write_buffer_number: i32,
    /// Options of the output tables; `None`: the defaults. Default `None`. RocksDB:
    /// `table_factory`.
    pub table_factory: Option<BlockBasedTableOptions>,
    /// Keep the database when the builder is dropped, so that the tables can be moved. Then only
    /// [`SortedRunBuilder::cleanup`] deletes it. Default false.
    pub keep_temp_db: bool,
    /// Files, clock and threads. Default: the machine's.
    pub env: Env,
}

impl SortedRunBuilderOptions {
    /// The defaults, with this directory.
    pub fn new(temp_dir: impl Into<PathBuf>) -> SortedRunBuilderOptions {
        SortedRunBuilderOptions {
            temp_dir: temp_dir.into(),
            comparator: None,
            target_file_size_bytes: 64 << 20,
            compression: CompressionType::None,
            max_compaction_threads: 4,
            write_buffer_size: 64 << 20,
            max_write_buffer_number: 4,
            table_factory: None,
            keep_temp_db: false,
            env: Env::default(),
        }
    }

    fn check(&self) -> Result<()> {
        let checks = [
            (self.temp_dir.as_os_str().is_empty(), "temp_dir must not be empty"),
            (self.max_compaction_threads == 0, "max_compaction_threads must be positive"),
            (self.write_buffer_size == 0, "write_buffer_size must be non-zero"),
            (self.max_write_buffer_number < 2, "max_write_buffer_number must be >= 2"),
            (self.target_file_size_bytes == 0, "target_file_size_bytes must be non-zero"),
        ];
        match checks.iter().find(|(is_wrong, _)| *is_wrong) {
            Some((_, text)) => Err(Error::invalid_argument(*text)),
            None => Ok(()),
        }
    }

    /// The options of the temporary database.
    fn of_database(&self) -> Options {
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.error_if_exists = true;
        options.db.env = self.env.clone();
        options.db.max_background_jobs = i32::try_from(self.max_compaction_threads).unwrap_or(i32::MAX);
        options.db.max_subcompactions = self.max_compaction_threads;
        options.db.info_log_level = InfoLogLevel::Header;
        options.db.stats_dump_period_sec = 0;
        let cf = &mut options.cf;
        cf.compaction_style = CompactionStyle::Universal;
        cf.disable_auto_compactions = true;
        // Without automatic compactions level 0 only shrinks at the end: no write waits for it.
        cf.level0_slowdown_writes_trigger = i32::MAX;
        cf.level0_stop_writes_trigger = i32::MAX;
        cf.write_buffer_size = self.write_buffer_size;
        cf.max_write_buffer_number = self.max_write_buffer_number;
        cf.target_file_size_base = self.target_file_size_bytes;
        cf.compression = self.compression;
        if let Some(comparator) = &self.comparator {
            cf.comparator = comparator.clone();
        }
        if let Some(table) = &self.table_factory {
            cf.table = table.clone();
        }
        options
    }
}

esker_base::setters! {
    SortedRunBuilderOptions {
        optional comparator: ComparatorRef;
        target_file_size_bytes: u64;
        compression: CompressionType;
        max_compaction_threads: u32;
        write_buffer_size: usize;
        max_write_buffer_number: i32;
        optional table_factory: BlockBasedTableOptions;
        keep_temp_db: bool;
        env: Env;
    }
}

impl fmt::Debug for SortedRunBuilderOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SortedRunBuilderOptions")
            .field("temp_dir", &self.temp_dir)
            .field("target_file_size_bytes", &self.target_file_size_bytes)
            .field("compression", &self.compression)
            .field("max_compaction_threads", &self.max_compaction_threads)
            .field("write_buffer_size", &self.write_buffer_size)
            .field("keep_temp_db", &self.keep_temp_db)
            .finish_non_exhaustive()
    }
}

/// Sorts entries that come in any order into tables. Of several entries with one key, the one that
/// was added last stays.
///
/// The tables can be ingested with `allow_db_generated_files`, and without `snapshot_consistency`.
/// Several threads may add entries at once.
///
/// ```
/// use esker::{Db, IngestExternalFileOptions, SortedRunBuilder, SortedRunBuilderOptions};
/// # let dir = esker_testkit::TempDir::new("doc");
///
/// let mut builder = SortedRunBuilder::create(SortedRunBuilderOptions::new(dir.join("sort")))?;
/// builder.add("zebra", "1")?;
/// builder.add("ape", "2")?;
/// builder.finish()?;
/// assert_eq!(builder.num_entries(), 2);
///
/// let db = Db::open_default(dir.join("db"))?;
/// let ingest = IngestExternalFileOptions {
///     allow_db_generated_files: true,
///     snapshot_consistency: false,
///     ..IngestExternalFileOptions::default()
/// };
/// db.ingest_external_file_opt(&ingest, &db.default_column_family(), builder.output_files())?;
/// assert_eq!(db.get("ape")?.as_deref(), Some(&b"2"[..]));
/// # Ok::<_, esker::Error>(())
/// ```
pub struct SortedRunBuilder {
    options: SortedRunBuilderOptions,
    /// `None` once the database is gone.
    db: Option<Db>,
    is_finished: bool,
    output_files: Vec<PathBuf>,
    num_entries: AtomicU64,
    data_size: AtomicU64,
}

impl SortedRunBuilder {
    /// Makes the temporary database.
    /// # Errors
    /// `InvalidArgument` names an option without meaning, or says that `temp_dir` holds a database
    /// · the errors of [`Db::open`].
    pub fn create(options: SortedRunBuilderOptions) -> Result<SortedRunBuilder> {
        options.check()?;
        let db = Db::open(&options.of_database(), &options.temp_dir)?;
        Ok(SortedRunBuilder {
            options,
            db: Some(db),
            is_finished: false,
            output_files: Vec::new(),
            num_entries: AtomicU64::new(0),
            data_size: AtomicU64::new(0),
        })
    }

    /// The database, as long as entries may come.
    fn unfinished(&self, call: &str) -> Result<&Db> {
        if self.is_finished {
            return Err(Error::invalid_argument(format!("Cannot {call}() after Finish()")));
        }
        self.database()
    }

    fn database(&self) -> Result<&Db> {
        self.db.as_ref().ok_or_else(|| Error::invalid_argument("the builder's database is cleaned up"))
    }

    fn count(&self, entries: u64, bytes: usize) {
        self.num_entries.fetch_add(entries, Ordering::Relaxed);
        self.data_size.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Adds an entry. Waits if `max_write_buffer_number` memtables are full.
    /// # Errors
    /// `InvalidArgument` after [`finish`](Self::finish) or [`cleanup`](Self::cleanup) · the errors
    /// of [`Db::put`].
    pub fn add(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        let db = self.unfinished("Add")?;
        db.put_opt(&without_wal(), &db.default_column_family(), key, value)?;
        self.count(1, key.len() + value.len());
        Ok(())
    }

    /// Adds the entries of a batch. Only puts are expected: deletions and merges are carried out,
    /// too.
    /// # Errors
    /// `InvalidArgument` after [`finish`](Self::finish) or [`cleanup`](Self::cleanup) · the errors
    /// of [`Db::write`].
    pub fn add_batch(&self, batch: impl BatchArg) -> Result<()> {
        let db = self.unfinished("AddBatch")?;
        batch.lend(|batch| {
            db.write_opt(&without_wal(), &mut *batch)?;
            self.count(u64::from(batch.count()), batch.data_size());
            Ok(())
        })
    }

    /// Sorts all entries. Afterwards the tables and the iterator are there, and no entry can be
    /// added. After an error the call may be repeated.
    /// # Errors
    /// `InvalidArgument` after an earlier call that succeeded, or after [`cleanup`](Self::cleanup)
    /// · the errors of [`Db::flush`] and [`Db::compact_range_opt`].
    pub fn finish(&mut self) -> Result<()> {
        if self.is_finished {
            return Err(Error::invalid_argument("Finish() already called"));
        }
        let db = self.database()?;
        let compact = CompactRangeOptions {
            bottommost_level_compaction: BottommostLevelCompaction::ForceOptimized,
            max_subcompactions: self.options.max_compaction_threads,
            ..CompactRangeOptions::default()
        };
        let family = db.default_column_family();
        db.flush()?;
        db.compact_range_opt(&compact, &family, None, None)?;
        let metadata = db.column_family_metadata(&family);
        let files = || metadata.levels.iter().flat_map(|level| &level.files);
        let path = |directory: &Path, name: &str| directory.join(name);
        let output = files().map(|file| path(&file.directory, &file.relative_filename)).collect();
        let (entries, bytes) = (files().map(|file| file.num_entries).sum(), files().map(|f| f.size).sum());
        self.output_files = output;
        self.num_entries.store(entries, Ordering::Relaxed);
        self.data_size.store(bytes, Ordering::Relaxed);
        self.is_finished = true;
        Ok(())
    }

    /// Paths of the sorted tables, in the order of keys; none before [`finish`](Self::finish).
    pub fn output_files(&self) -> &[PathBuf] {
        &self.output_files
    }

    /// Number of entries: before [`finish`](Self::finish) of all that were added, afterwards of
    /// those in the tables, one for each key.
    pub fn num_entries(&self) -> u64 {
        self.num_entries.load(Ordering::Relaxed)
    }

    /// Bytes: before [`finish`](Self::finish) of the keys, values and batches that were added,
    /// afterwards of the tables.
    pub fn data_size(&self) -> u64 {
        self.data_size.load(Ordering::Relaxed)
    }

    /// An iterator over the sorted entries. RocksDB: `NewIterator`.
    /// # Errors
    /// `InvalidArgument` before [`finish`](Self::finish), or after [`cleanup`](Self::cleanup) ·
    /// the errors of [`Db::iter_opt`].
    pub fn iter(&self, options: ReadOptions) -> Result<DbIterator> {
        if !self.is_finished {
            return Err(Error::invalid_argument("Must call Finish() before NewIterator()"));
        }
        let db = self.database()?;
        db.iter_opt(options, &db.default_column_family())
    }

    /// Deletes the temporary database with its tables. A drop of the builder does so, too, unless
    /// `keep_temp_db` is set. A second call does nothing.
    /// # Errors
    /// Those of [`Db::close`] and [`destroy_db`]; files may be left then.
    pub fn cleanup(&mut self) -> Result<()> {
        let Some(db) = self.db.take() else { return Ok(()) };
        let closed = db.close();
        drop(db);
        destroy_db(&self.options.of_database().db, &self.options.temp_dir)?;
        closed
    }
}

impl Drop for SortedRunBuilder {
    fn drop(&mut self) {
        if !self.options.keep_temp_db {
            // Nobody is left to hear of the error. The directory's files are what it leaves.
            _ = self.cleanup();
        }
    }
}

impl fmt::Debug for SortedRunBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SortedRunBuilder")
            .field("temp_dir", &self.options.temp_dir)
            .field("is_finished", &self.is_finished)
            .field("num_entries", &self.num_entries())
            .finish_non_exhaustive()
    }
}

fn without_wal() -> WriteOptions {
    WriteOptions { disable_wal: true, ..WriteOptions::default() }
}
