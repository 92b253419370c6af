//! The database that is measured, and the things that an axis lets grow in it.
//!
//! In: options and steps of an axis. Out: an open database on the real file system, with a count of
//! its file operations; and the snapshots, iterators and transactions that keep its state.
//!
//! Keys: `a00` to `a31` and `z00` to `z31` lie in two tables of the last level. The keys of an axis
//! begin with `m`, between them.

use esker::internals::base::sync::epoch;
use esker::internals::cache::{CacheOptions, CacheType};
use esker::internals::env::{Clock, Env, FaultFs, PosixFileSystem, SystemClock};
use esker::options::BlockCache;
use esker::txn::WritePolicy;
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyHandle, Db, DbIterator, IngestExternalFileOptions, Options,
    ReadOptions, Result, Snapshot, SstFileWriter, Transaction, TransactionDb, TransactionDbOptions,
};
use esker_testkit::TempDir;
use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The call to be measured.
pub(super) type Act = Box<dyn FnOnce(&mut GrowthSubject) -> Result<()>>;

/// Keys on each side of those of an axis.
pub(super) const SIDE: u64 = 32;
/// Value of a key, unless an axis chooses another.
pub(super) const VALUE: &[u8] = &[b'v'; 100];

/// A database and its surroundings.
#[derive(Debug)]
pub(super) struct GrowthSubject {
    pub(super) fs: FaultFs,
    pub(super) options: Options,
    pub(super) write_policy: WritePolicy,
    /// All but the default family.
    pub(super) families: Vec<ColumnFamilyDescriptor>,
    db: Option<TransactionDb>,
    directory: TempDir,
    files: u64,
    pub(super) snapshots: Vec<Snapshot>,
    pub(super) iterators: Vec<DbIterator>,
    pub(super) transactions: Vec<Transaction>,
    /// Values that acts made and that must not be dropped while they are measured.
    kept: Vec<Box<dyn Any>>,
}

impl GrowthSubject {
    /// An empty database; `env` lends its threads and its clock.
    pub(super) fn new(env: &Env) -> GrowthSubject {
        let fs = FaultFs::new(Arc::new(PosixFileSystem));
        let mut options = Options::default();
        options.db.env = Env { fs: Arc::new(fs.clone()), ..env.clone() };
        options.db.create_if_missing = true;
        options.db.allow_fallocate = false;
        options.db.max_bgerror_resume_count = 0;
        options.db.max_total_wal_size = 1 << 40;
        options.cf.disable_auto_compactions = true;
        options.cf.level0_slowdown_writes_trigger = 1 << 20;
        options.cf.level0_stop_writes_trigger = 1 << 20;
        options.cf.write_buffer_size = 16 << 20;
        options.cf.arena_block_size = 16 << 10;
        options.cf.compression = esker::options::CompressionType::None;
        // The tables of a clock cache grow in steps, which the counts would show.
        let cache = CacheOptions { cache_type: CacheType::Lru, ..CacheOptions::with_capacity(8 << 20) };
        options.cf.table.block_cache = BlockCache::new(&cache).ok().map(Arc::new);
        // In a memory file system, if one is mounted: the campaign syncs thousands of files.
        let directory = TempDir::within(Path::new("/dev/shm"), "growth");
        GrowthSubject {
            fs,
            options,
            write_policy: WritePolicy::WriteCommitted,
            families: Vec::new(),
            db: None,
            directory: directory.unwrap_or_else(|| TempDir::new("growth")),
            files: 0,
            snapshots: Vec::new(),
            iterators: Vec::new(),
            transactions: Vec::new(),
            kept: Vec::new(),
        }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.join("db")
    }

    /// A path in the directory that no file has yet.
    pub(super) fn fresh_path(&mut self, name: &str) -> PathBuf {
        self.files += 1;
        self.directory.join(format!("{name}-{}", self.files))
    }

    /// Opens the database with its families.
    pub(super) fn open(&mut self) -> Result<()> {
        let mut families = vec![ColumnFamilyDescriptor::new("default", self.options.cf.clone())];
        families.extend(self.families.iter().cloned());
        let options = TransactionDbOptions::default().write_policy(self.write_policy);
        self.db = Some(TransactionDb::open_cf(&self.options.db, &options, self.path(), families)?);
        Ok(())
    }

    /// Puts the keys of both sides into two tables of the last level.
    pub(super) fn fill_sides(&mut self) -> Result<()> {
        let files = ["a", "z"].map(|side| {
            let keys = (0..SIDE).map(|i| (format!("{side}{i:02}"), VALUE.to_vec())).collect();
            self.table(keys)
        });
        self.ingest(files.into_iter().collect::<Result<_>>()?)
    }

    /// Writes a table that can be ingested.
    pub(super) fn table(&mut self, entries: Vec<(String, Vec<u8>)>) -> Result<PathBuf> {
        let path = self.fresh_path("table");
        let mut writer = SstFileWriter::new(&self.options);
        writer.open(&path)?;
        entries.iter().try_for_each(|(key, value)| writer.put(key, value))?;
        writer.finish()?;
        Ok(path)
    }

    pub(super) fn ingest(&self, files: Vec<PathBuf>) -> Result<()> {
        let options = IngestExternalFileOptions { move_files: true, ..Default::default() };
        self.db().ingest_external_file_opt(&options, &self.db().default_column_family(), &files)
    }

    /// Drops all objects that keep the database open, and closes it.
    pub(super) fn close(&mut self) -> Result<()> {
        self.transactions.clear();
        self.iterators.clear();
        self.snapshots.clear();
        self.kept.clear();
        self.settle()?;
        self.shut()
    }

    /// Closes the database, even if other objects still use it.
    pub(super) fn shut(&mut self) -> Result<()> {
        let Some(db) = self.db.take() else { return Ok(()) };
        db.db().close()
    }

    pub(super) fn transaction_db(&self) -> &TransactionDb {
        self.db.as_ref().expect("the database is open until an act closes it")
    }

    pub(super) fn db(&self) -> &Db {
        self.transaction_db().db()
    }

    pub(super) fn default_family(&self) -> ColumnFamilyHandle {
        self.db().default_column_family()
    }

    /// An iterator over keys from `lower` on.
    pub(super) fn iterator(&self, lower: &str) -> Result<DbIterator> {
        self.db().iter_opt(ReadOptions::new().lower_bound(lower), &self.default_family())
    }

    pub(super) fn transaction(&self) -> Transaction {
        self.transaction_db().begin_transaction()
    }

    /// Puts a key of an axis.
    pub(super) fn put(&self, i: u64) -> Result<()> {
        self.db().put(key(i), VALUE)
    }

    pub(super) fn flush(&self) -> Result<()> {
        self.db().flush()
    }

    /// Opens every table.
    pub(super) fn open_tables(&self) {
        drop(self.db().property("rocksdb.estimate-num-keys"));
    }

    /// Waits until background work is done and files without a reference are gone.
    pub(super) fn settle(&self) -> Result<()> {
        let Some(db) = self.db.as_ref().map(TransactionDb::db) else { return Ok(()) };
        if db.background_error().is_some() {
            return Ok(());
        }
        // Tables are deleted a little after the super version that had them is gone.
        for _ in 0..50 {
            db.wait_for_background_work()?;
            epoch::settle(8, std::thread::yield_now);
            if db.int_property("rocksdb.num-live-versions").is_none_or(|versions| versions <= 1) {
                break;
            }
            SystemClock.sleep(Duration::from_millis(2));
        }
        db.wait_for_background_work()
    }

    /// Keeps `value` until the database is closed: its drop is not measured.
    pub(super) fn keep(&mut self, value: impl Any) {
        self.kept.push(Box::new(value));
    }
}

impl Drop for GrowthSubject {
    fn drop(&mut self) {
        // The measurement is complete; a database with an error in force may not close cleanly.
        self.close().unwrap_or_default();
    }
}

/// A key of an axis, between those of the sides.
pub(super) fn key(i: u64) -> String {
    format!("m{i:08}")
}
