//! Facts and settings of all families together: sums of properties, memory in use, statistics that
//! begin again, automatic compactions, the LOG files.
//!
//! In: a database. Out: sums over its families. Source of the semantics: RocksDB
//! `include/rocksdb/db.h`, `include/rocksdb/utilities/memory_util.h`,
//! `include/rocksdb/utilities/info_log_finder.h`, `db/internal_stats.cc`.

use super::{ColumnFamilyHandle, Db};
use crate::observe::{IngestedFiles, LevelCompactionStats, Property, StallCounts, parse_property};
use crate::options::BlockCache;
use esker_base::Result;
use esker_base::sync::Arc;
use esker_base::sync::atomic::Ordering;
use esker_format::file_name::{self, FileType, parse_file_name};
use std::collections::{BTreeMap, BTreeSet};

/// The kinds of memory that [`approximate_memory_usage_by_type`] counts: RocksDB's
/// `MemoryUtil::UsageType`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[non_exhaustive]
pub enum MemoryUsageType {
    /// All memtables, those that only iterators and snapshots hold included.
    MemTableTotal,
    /// Memtables that are not flushed.
    MemTableUnFlushed,
    /// Indexes and filters of open tables, outside of caches.
    TableReadersTotal,
    /// The given caches.
    CacheTotal,
}

/// Bytes of memory that databases and caches use, by kind. Blocks in the databases' own caches
/// count only if the caller names the cache. It is RocksDB's
/// `MemoryUtil::GetApproximateMemoryUsageByType`.
///
/// ```
/// use esker::{MemoryUsageType, approximate_memory_usage_by_type};
/// # let dir = esker_testkit::TempDir::new("doc");
/// # let db = esker::Db::open_default(dir.path())?;
/// db.put("esker", "gravel")?;
/// let cache = db.options_cf(&db.default_column_family()).table.block_cache;
/// let caches: Vec<_> = cache.iter().collect();
/// let usage = approximate_memory_usage_by_type(&[&db], &caches);
/// assert!(usage[&MemoryUsageType::MemTableUnFlushed] > 0);
/// # Ok::<_, esker::Error>(())
/// ```
pub fn approximate_memory_usage_by_type(
    dbs: &[&Db],
    caches: &[&Arc<BlockCache>],
) -> BTreeMap<MemoryUsageType, u64> {
    let kinds = [
        (MemoryUsageType::MemTableTotal, Property::SizeAllMemTables),
        (MemoryUsageType::MemTableUnFlushed, Property::CurSizeAllMemTables),
        (MemoryUsageType::TableReadersTotal, Property::EstimateTableReadersMem),
    ];
    let mut usage = BTreeMap::new();
    for (kind, property) in kinds {
        let of_all = dbs.iter().filter_map(|db| db.aggregated_int_property(property.name()));
        usage.insert(kind, of_all.fold(0, u64::saturating_add));
    }
    let different: BTreeMap<_, _> = caches.iter().map(|cache| (Arc::as_ptr(cache), cache)).collect();
    let of_caches = different.values().map(|cache| cache.usage() as u64).fold(0, u64::saturating_add);
    usage.insert(MemoryUsageType::CacheTotal, of_caches);
    usage
}

impl Db {
    /// The sum of an integer property over all families; `None` if a family does not have it. A
    /// block cache that families share counts once. A sum beyond `u64` is `u64::MAX`. It is
    /// RocksDB's `GetAggregatedIntProperty`.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.put("esker", "gravel")?;
    /// assert_eq!(db.aggregated_int_property("rocksdb.estimate-num-keys"), Some(1));
    /// assert_eq!(db.aggregated_int_property("rocksdb.stats"), None);
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn aggregated_int_property(&self, name: &str) -> Option<u64> {
        self.engine().check_process().ok()?;
        let is_of_cache = matches!(
            parse_property(name)?,
            Property::BlockCacheCapacity | Property::BlockCacheUsage | Property::BlockCachePinnedUsage
        );
        let (mut sum, mut caches) = (0_u64, BTreeSet::new());
        for cf in self.engine().families.all() {
            let options = cf.super_version.load_full().options.clone();
            let value = self.int_property_cf(&ColumnFamilyHandle { cf }, name)?;
            let cache = options.table.block_cache.as_ref().map(Arc::as_ptr);
            if !is_of_cache || caches.insert(cache) {
                sum = sum.saturating_add(value);
            }
        }
        Some(sum)
    }

    /// Begins the counts of the statistics text again: those of compactions, stalls, ingestions and
    /// writes (`rocksdb.stats`, `rocksdb.cfstats`, `rocksdb.dbstats`), and
    /// `rocksdb.background-errors`. Tickers and histograms stay as they are: see
    /// [`Statistics::reset`](crate::stats::Statistics::reset). It is RocksDB's `ResetStats`.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.put("esker", "gravel")?;
    /// db.reset_stats()?;
    /// assert_eq!(db.map_property("rocksdb.dbstats").unwrap()["db.user_keys_written"], "0");
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `NotSupported` in a forked child process.
    pub fn reset_stats(&self) -> Result<()> {
        let engine = self.engine();
        engine.check_process()?;
        // As the leader: only the leader counts writes.
        let lead = self.inner.write_path.lead_alone_urgently();
        engine.counters.reset(engine.env.clock.as_ref());
        drop(lead);
        let mut state = engine.state.lock();
        for family in state.families.values_mut() {
            family.compaction_stats = LevelCompactionStats::new(family.version.num_levels());
            family.stall_counts = StallCounts::default();
            family.ingested = IngestedFiles::default();
            family.bytes_flushed = 0;
            if let Some(latencies) = family.cf.tables.latencies() {
                latencies.clear();
            }
        }
        drop(state);
        *engine.last_stats_dump.lock() = Default::default();
        engine.background_errors.store(0, Ordering::Relaxed);
        Ok(())
    }

    /// Sets `disable_auto_compactions` of these families to false. Families whose options have it
    /// may so be loaded first and compacted later. It is RocksDB's `EnableAutoCompaction`.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let mut options = esker::Options::new().create_if_missing(true);
    /// # options.cf.disable_auto_compactions = true;
    /// # let db = esker::Db::open(&options, dir.path())?;
    /// let family = db.default_column_family();
    /// assert!(db.options_cf(&family).disable_auto_compactions);
    /// db.enable_auto_compaction(&[&family])?;
    /// assert!(!db.options_cf(&family).disable_auto_compactions);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// Those of [`Db::set_options`], of the first family that has one.
    pub fn enable_auto_compaction(&self, families: &[&ColumnFamilyHandle]) -> Result<()> {
        families
            .iter()
            .try_for_each(|family| self.set_options(family, &[("disable_auto_compactions", "false")]))
    }

    /// The names of the LOG files in `db_log_dir`, or else in the database's directory: the present
    /// one and those before it. It is RocksDB's `GetInfoLogList`.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// assert_eq!(db.info_log_list()?, ["LOG"]);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `IoError`: the directory cannot be listed · `NotSupported` in a forked child process.
    pub fn info_log_list(&self) -> Result<Vec<String>> {
        let engine = self.engine();
        engine.check_process()?;
        let mut names: Vec<String> = match &engine.options.db_log_dir {
            None => {
                let all = engine.fs().children(&engine.path)?.into_iter();
                let is_log = |name: &String| matches!(parse_file_name(name), Some((FileType::InfoLog, _)));
                all.filter(is_log).collect()
            }
            Some(dir) => {
                let present = file_name::info_log_name_elsewhere(&engine.path);
                let old = format!("{present}.old.");
                let is_log = |name: &String| *name == present || name.starts_with(&old);
                engine.fs().children(dir)?.into_iter().filter(is_log).collect()
            }
        };
        names.sort_unstable();
        Ok(names)
    }
}
