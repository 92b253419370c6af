//! `get_property`: facts about the engine, under RocksDB's names.

mod keys;

use super::stats_dump::{self, cf_stats};
use super::{ColumnFamilyHandle, Db};
use crate::cf::{ColumnFamily, FamilyState};
use crate::engine::{DbState, Engine};
use crate::files::open_table::open_file;
use crate::observe::{LevelStats, Property, StallCounts, WriteStallCondition, parse_property};
use crate::options::{ColumnFamilyOptions, SizeApproximationOptions};
use crate::picker::score::scores;
use crate::snapshot::SnapshotList;
use crate::version::blob_meta::BlobFileMeta;
use crate::version::{FileMeta, Version};
use esker_base::sync::Arc;
use esker_base::sync::atomic::Ordering;
use esker_base::{ColumnFamilyId, Error, FileNumber, Result, SequenceNumber};
use esker_format::key;
use esker_format::properties::TableProperties;
use std::collections::BTreeMap;

impl Db {
    /// The value of property `name` (`rocksdb.…`) of the default family, as text; `None` if there
    /// is no such property.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// let family = db.default_column_family();
    /// println!("{}", db.property("rocksdb.stats").expect("there is one"));
    /// assert!(db.property_cf(&family, "rocksdb.no-such-property").is_none());
    /// assert_eq!(db.int_property("rocksdb.num-snapshots"), Some(0));
    /// assert!(db.int_property_cf(&family, "rocksdb.estimate-num-keys").is_some());
    /// assert!(db.map_property("rocksdb.cfstats").is_some());
    /// assert!(db.map_property_cf(&family, "rocksdb.cfstats").is_some());
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn property(&self, name: &str) -> Option<String> {
        self.property_cf(&self.default_column_family(), name)
    }

    /// The value of property `name` of `family`, as text.
    pub fn property_cf(&self, family: &ColumnFamilyHandle, name: &str) -> Option<String> {
        self.engine().check_process().ok()?;
        let property = parse_property(name)?;
        if !family.cf.is_dropped()
            && let Some(text) = text_of_super_version(&family.cf, property)
        {
            return Some(text);
        }
        if let Some(number) = self.number_of(family, property) {
            return Some(number.to_string());
        }
        self.text_of(family, property)
    }

    /// The value of a property that is a number.
    pub fn int_property(&self, name: &str) -> Option<u64> {
        self.int_property_cf(&self.default_column_family(), name)
    }

    /// The value of a property of `family` that is a number.
    pub fn int_property_cf(&self, family: &ColumnFamilyHandle, name: &str) -> Option<u64> {
        self.engine().check_process().ok()?;
        self.number_of(family, parse_property(name)?)
    }

    /// Estimates the bytes in files of the keys from `begin` to `end` (exclusive), which are given
    /// without timestamps. As in RocksDB's `GetApproximateSizes`, memtables do not count: see
    /// [`Db::approximate_memtable_size`].
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// let family = db.default_column_family();
    /// assert_eq!(db.approximate_size(&family, b"a", b"z"), 0);
    /// assert_eq!(db.approximate_memtable_size(&family, b"a", b"z"), 0);
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn approximate_size(&self, family: &ColumnFamilyHandle, begin: &[u8], end: &[u8]) -> u64 {
        if !self.engine().owner.is_here() {
            return 0;
        }
        let super_version = family.cf.super_version.load_full();
        let (start, limit) = (before_all_versions(&family.cf, begin), before_all_versions(&family.cf, end));
        let sizes =
            super_version.version.all_files().map(|(_, file)| size_within(&family.cf, file, &start, &limit));
        sizes.sum()
    }

    /// Estimates the bytes of each of the ranges of keys, begin included and end excluded, without
    /// timestamps. It is RocksDB's `GetApproximateSizes` with its options.
    ///
    /// ```
    /// use esker::options::SizeApproximationOptions;
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.put("esker", "gravel".repeat(1000))?;
    /// let family = db.default_column_family();
    /// let options = SizeApproximationOptions::default().include_memtables(true);
    /// let sizes = db.approximate_sizes(&options, &family, &[(b"a", b"f"), (b"x", b"z")])?;
    /// assert!(sizes[0] > 0 && sizes[1] == 0);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the options leave out everything, or the family is one of another
    /// database · `NotSupported` in a forked child process.
    pub fn approximate_sizes(
        &self,
        options: &SizeApproximationOptions,
        family: &ColumnFamilyHandle,
        ranges: &[(&[u8], &[u8])],
    ) -> Result<Vec<u64>> {
        self.inner.check_family(&family.cf)?;
        if !options.include_memtables && !options.include_files && !options.include_blob_files {
            return Err(Error::invalid_argument("Invalid options"));
        }
        let super_version = family.cf.pinned_super_version();
        let version = &super_version.version;
        let blob_bytes: u64 = version.blob_files().values().map(BlobFileMeta::file_size).sum();
        let blobs_per_byte = blob_bytes as f64 / version.total_size().max(1) as f64;
        let sizes = ranges.iter().map(|(begin, end)| {
            // The size in files opens tables, so it is not computed for memtables alone.
            let in_files = if options.include_files || options.include_blob_files {
                size_in_files(&family.cf, version, (begin, end), options.files_size_error_margin)
            } else {
                0
            };
            let of_files = if options.include_files { in_files } else { 0 };
            let of_memtables = if options.include_memtables {
                self.approximate_memtable_size(family, begin, end)
            } else {
                0
            };
            let of_blobs = if options.include_blob_files { in_files as f64 * blobs_per_byte } else { 0.0 };
            of_files + of_memtables + of_blobs as u64
        });
        Ok(sizes.collect())
    }

    /// Estimates the memtable bytes of the keys from `begin` to `end` (exclusive), which are given
    /// without timestamps.
    pub fn approximate_memtable_size(&self, family: &ColumnFamilyHandle, begin: &[u8], end: &[u8]) -> u64 {
        if !self.engine().owner.is_here() {
            return 0;
        }
        let super_version = family.cf.super_version.load_full();
        let (start, limit) = (newest_version(&family.cf, begin), newest_version(&family.cf, end));
        super_version.memtables().map(|mem| mem.approximate_size(&start, &limit)).sum()
    }

    fn number_of(&self, family: &ColumnFamilyHandle, property: Property) -> Option<u64> {
        let engine = self.engine();
        if let Some(number) = number_of_database(engine, property) {
            return Some(number);
        }
        if let Some(number) = number_of_versions(engine, family.id(), property) {
            return Some(number);
        }
        if family.cf.is_dropped() {
            return None;
        }
        if property == Property::EstimateNumKeys {
            return Some(keys::estimate_num_keys(&family.cf));
        }
        if let Some(number) = number_of_super_version(&family.cf, property) {
            return Some(number);
        }
        let state = engine.state.lock();
        let family_state = state.families.get(&family.id())?;
        number_of_family(engine, &state, family_state, property)
    }

    fn text_of(&self, family: &ColumnFamilyHandle, property: Property) -> Option<String> {
        let engine = self.engine();
        match property {
            Property::DbStats => return Some(stats_dump::db_stats(engine)),
            Property::WalLosses => {
                return Some(engine.wal_losses.iter().map(|loss| format!("{loss}\n")).collect());
            }
            Property::DbWriteStallStats => {
                return Some(engine.counters.db_stats(engine.env.clock.as_ref()).write_stall_text());
            }
            Property::Stats => {
                let of_family = stats_dump::family_stats(engine, family.id())?;
                let of_files = stats_dump::file_histogram(&family.cf);
                return Some(of_family + &of_files + &stats_dump::db_stats(engine));
            }
            Property::CfStats => {
                let of_family = stats_dump::family_stats(engine, family.id())?;
                return Some(of_family + &stats_dump::file_histogram(&family.cf));
            }
            Property::CfStatsNoFileHistogram => {
                return stats_dump::family_stats(engine, family.id());
            }
            _ => {}
        }
        if property == Property::OptionsStatistics {
            return engine.options.statistics.as_ref().map(|s| s.to_string());
        }
        let state = engine.state.lock();
        let f = state.families.get(&family.id())?;
        Some(match property {
            Property::LevelStats => cf_stats(engine, f).level_stats_text(),
            Property::CfWriteStallStats => f.stall_counts.to_text(&StallCounts::default()),
            _ => return None,
        })
    }

    /// A property of the default family that is a map of names to values.
    pub fn map_property(&self, name: &str) -> Option<BTreeMap<String, String>> {
        self.map_property_cf(&self.default_column_family(), name)
    }

    /// A property of `family` that is a map of names to values: `cfstats`, `dbstats`, `levelstats`,
    /// `cf-write-stall-stats`, `db-write-stall-stats`, `block-cache-entry-stats`,
    /// `fast-block-cache-entry-stats`, `block-cache-miss-estimate`, `aggregated-table-properties`
    /// and the same at one level; `None` for all others.
    pub fn map_property_cf(
        &self,
        family: &ColumnFamilyHandle,
        name: &str,
    ) -> Option<BTreeMap<String, String>> {
        let property = parse_property(name)?;
        let engine = self.engine();
        engine.check_process().ok()?;
        match property {
            Property::DbStats | Property::DbWriteStallStats => {
                return Some(engine.counters.db_stats(engine.env.clock.as_ref()).to_map());
            }
            Property::AggregatedTableProperties | Property::AggregatedTablePropertiesAtLevel(_) => {
                let mut sums = aggregated_of(&family.cf, property)?;
                return Some(summed(&mut sums).map(|(name, sum)| (name.to_owned(), sum.to_string())).into());
            }
            _ => {}
        }
        if family.cf.is_dropped() {
            return None;
        }
        let options = family.cf.super_version.load_full().options.clone();
        match property {
            Property::BlockCacheEntryStats | Property::FastBlockCacheEntryStats => {
                return Some(stats_dump::cache_entry_stats(&options)?.to_map());
            }
            Property::BlockCacheMissEstimate => return Some(miss_estimates(&options)?.into_iter().collect()),
            _ => {}
        }
        let stats = {
            let state = engine.state.lock();
            cf_stats(engine, state.families.get(&family.id())?)
        };
        match property {
            Property::CfStats => Some(stats.to_map()),
            Property::CfWriteStallStats => Some(stats.stalls.to_map()),
            Property::LevelStats => {
                let levels = stats.levels.iter().enumerate();
                let numbers = |(level, of): (usize, &LevelStats)| {
                    [
                        (format!("L{level}.num_files"), of.num_files.to_string()),
                        (format!("L{level}.size_bytes"), of.bytes.to_string()),
                    ]
                };
                Some(levels.flat_map(numbers).collect())
            }
            _ => None,
        }
    }
}

/// `user_key` with the newest possible timestamp, which sorts before its other versions.
fn newest_version(cf: &ColumnFamily, user_key: &[u8]) -> Vec<u8> {
    cf.icmp.first_version(user_key)
}

/// The internal key in front of all versions of `user_key`.
fn before_all_versions(cf: &ColumnFamily, user_key: &[u8]) -> Vec<u8> {
    key::seek_key(&newest_version(cf, user_key), SequenceNumber::MAX)
}

/// Estimates the bytes of tables between two user keys. `margin`: see
/// [`SizeApproximationOptions::files_size_error_margin`].
fn size_in_files(cf: &ColumnFamily, version: &Version, (begin, end): (&[u8], &[u8]), margin: f64) -> u64 {
    let (start, limit) = (before_all_versions(cf, begin), before_all_versions(cf, end));
    let (mut whole, mut touched, mut parts) = (0, 0, Vec::new());
    for (_, file) in version.all_files() {
        let begins_within = cf.icmp.compare(&file.smallest, &start).is_ge();
        let ends_within = cf.icmp.compare(&file.largest, &limit).is_lt();
        let is_beyond =
            cf.icmp.compare(&file.largest, &start).is_lt() || cf.icmp.compare(&file.smallest, &limit).is_ge();
        if begins_within && ends_within {
            whole += file.file_size;
        } else if !is_beyond {
            touched += file.file_size;
            parts.push(file);
        }
    }
    if margin > 0.0 && (touched as f64) < whole as f64 * margin {
        return whole + touched / 2;
    }
    whole + parts.into_iter().map(|file| size_within(cf, file, &start, &limit)).sum::<u64>()
}

/// Estimates the bytes of `file` between two internal keys. A file between them counts whole, meta
/// blocks included; of any other, the share that its data blocks have.
fn size_within(cf: &ColumnFamily, file: &FileMeta, start: &[u8], limit: &[u8]) -> u64 {
    let icmp = &cf.icmp;
    if icmp.compare(&file.largest, start).is_lt() || icmp.compare(&file.smallest, limit).is_ge() {
        return 0;
    }
    if icmp.compare(&file.smallest, start).is_ge() && icmp.compare(&file.largest, limit).is_lt() {
        return file.file_size;
    }
    // An estimate that fails counts as 0: a read of the file returns the error.
    open_file(&cf.tables, file).map_or(0, |reader| {
        let stored = |bound| match reader.lacks_timestamps() {
            true => key::seek_key(icmp.split_timestamp(key::user_key(bound)).0, SequenceNumber::MAX),
            false => Vec::from(bound),
        };
        let part = reader.approximate_size(&stored(start), &stored(limit)) as f64;
        let share = part / reader.properties().data_size.max(1) as f64;
        (file.file_size as f64 * share.min(1.0)) as u64
    })
}

fn number_of_database(engine: &Engine, property: Property) -> Option<u64> {
    Some(match property {
        Property::NumSnapshots => engine.snapshots.with(SnapshotList::len) as u64,
        Property::OldestSnapshotTime => engine.snapshots.with(SnapshotList::oldest_unix_time),
        Property::OldestSnapshotSequence => {
            engine.snapshots.with(SnapshotList::oldest_of_users).map_or(0, |s| s.0)
        }
        Property::IsWriteStopped => u64::from(engine.stall.condition() == WriteStallCondition::Stopped),
        Property::ActualDelayedWriteRate => match engine.stall.condition() {
            WriteStallCondition::Delayed => engine.stall.delayed_write_rate(),
            _ => 0,
        },
        Property::NumWalLosses => engine.wal_losses.len() as u64,
        // Purges keep lists of files; no table is kept because of its number.
        Property::MinObsoleteSstNumberToKeep => u64::MAX,
        Property::ObsoleteSstFilesSize => engine.manifest.lock().obsolete_table_bytes(),
        _ => return None,
    })
}

/// Totals over all versions of a family, including versions that only readers and jobs hold.
fn number_of_versions(engine: &Engine, family: ColumnFamilyId, property: Property) -> Option<u64> {
    let sizes_of: fn(&Version) -> Vec<(FileNumber, u64)> = match property {
        Property::NumLiveVersions => |_| Vec::new(),
        Property::TotalSstFilesSize => {
            |version| version.all_files().map(|(_, file)| (file.number, file.file_size)).collect()
        }
        Property::TotalBlobFileSize => |version| {
            version.blob_files().values().map(|blob| (blob.addition.number, blob.file_size())).collect()
        },
        _ => return None,
    };
    let versions: Vec<Arc<Version>> = engine.manifest.lock().live_versions(family).collect();
    if property == Property::NumLiveVersions {
        return Some(versions.len() as u64);
    }
    let sizes: BTreeMap<FileNumber, u64> = versions.iter().flat_map(|version| sizes_of(version)).collect();
    Some(sizes.into_values().sum())
}

/// Properties of a family's super version and its caches. Monitors query this at short intervals,
/// and the answer takes long with many files, or many blocks in a cache. Called under no lock.
fn number_of_super_version(cf: &ColumnFamily, property: Property) -> Option<u64> {
    let super_version = cf.super_version.load_full();
    let (version, options) = (&super_version.version, &super_version.options);
    Some(match property {
        Property::LiveSstFilesSize => version.total_size(),
        Property::EstimateLiveDataSize => version.estimate_live_data_size(),
        Property::EstimateTableReadersMem => {
            let open = version.all_files().filter_map(|(_, file)| file.open_table());
            let kept = open.map(|reader| reader.approximate_memory_usage()).sum::<usize>();
            // With limited open files, only the table cache holds open tables.
            kept.max(cf.tables.approximate_memory_usage()) as u64
        }
        Property::BlockCacheCapacity => options.table.block_cache.as_ref()?.capacity() as u64,
        Property::BlockCacheUsage => options.table.block_cache.as_ref()?.usage() as u64,
        Property::BlockCachePinnedUsage => options.table.block_cache.as_ref()?.pinned_usage() as u64,
        Property::SecondaryCacheCapacity => {
            options.table.block_cache.as_ref()?.secondary()?.capacity() as u64
        }
        Property::SecondaryCacheUsage => options.table.block_cache.as_ref()?.secondary()?.usage() as u64,
        Property::NumBlobFiles => version.blob_files().len() as u64,
        Property::LiveBlobFileSize => version.blob_files().values().map(BlobFileMeta::file_size).sum(),
        Property::LiveBlobFileGarbageSize => {
            version.blob_files().values().map(|blob| blob.garbage_blob_bytes).sum()
        }
        Property::BlobCacheCapacity => options.blob_cache.as_ref()?.capacity() as u64,
        Property::BlobCacheUsage => options.blob_cache.as_ref()?.usage() as u64,
        Property::BlobCachePinnedUsage => options.blob_cache.as_ref()?.pinned_usage() as u64,
        _ => return None,
    })
}

/// The text of a property that is not a number; otherwise as [`number_of_super_version`].
fn text_of_super_version(cf: &ColumnFamily, property: Property) -> Option<String> {
    let super_version = cf.super_version.load_full();
    let version = &super_version.version;
    Some(match property {
        Property::NumFilesAtLevel(level) if level < version.num_levels() => {
            version.num_files(level).to_string()
        }
        Property::CompressionRatioAtLevel(level) if level < version.num_levels() => {
            compression_ratio_at(version, level)
        }
        Property::LiveSstFilesSizeAtTemperature(temperature) => {
            let files = version.all_files().map(|(_, file)| file);
            let of_it = files.filter(|file| usize::from(file.temperature) == temperature);
            of_it.map(|file| file.file_size).sum::<u64>().to_string()
        }
        Property::CfFileHistogram => stats_dump::file_histogram(cf),
        Property::BlobStats => blob_stats(version),
        Property::SsTables => version.to_string(),
        Property::AggregatedTableProperties | Property::AggregatedTablePropertiesAtLevel(_) => {
            aggregated_text(&aggregated_of(cf, property)?)
        }
        Property::BlockCacheEntryStats | Property::FastBlockCacheEntryStats => {
            stats_dump::cache_entry_stats(&super_version.options)?.to_text()
        }
        Property::BlockCacheMissEstimate => {
            let estimates = miss_estimates(&super_version.options)?.into_iter();
            estimates.map(|(size, ratio)| format!("{size}: {ratio}\n")).collect()
        }
        _ => return None,
    })
}

fn number_of_family(engine: &Engine, state: &DbState, f: &FamilyState, property: Property) -> Option<u64> {
    let mem = &f.memtables;
    let waiting = || mem.immutables.iter().map(|i| &i.mem);
    Some(match property {
        Property::NumImmutableMemTable => mem.immutables.len() as u64,
        Property::NumImmutableMemTableFlushed => mem.num_flushed() as u64,
        Property::MemTableFlushPending => u64::from(f.is_flush_pending()),
        Property::NumRunningFlushes => (state.flushes_scheduled - state.flushes_unbegun) as u64,
        Property::NumRunningCompactions => (state.compactions_scheduled - state.compactions_unbegun) as u64,
        Property::NumRunningCompactionSortedRuns => {
            state.families.values().map(|f| f.running.num_sorted_runs() as u64).sum()
        }
        Property::NumUnscheduledCompactions => (state.compaction_queue.len() + state.throttled.len()) as u64,
        Property::CompactionAbortCount => (state.compactions_aborted + f.compactions_aborted) as u64,
        Property::CompactionPending => u64::from(state.has_due_compaction()),
        Property::NumPreScannedEntries => state.pre_scans.pre_scanned_entries,
        Property::NumQuarantinedTables => {
            f.version.all_files().filter(|(_, file)| f.running.is_quarantined(file.number)).count() as u64
        }
        Property::BackgroundErrors => engine.background_errors.load(Ordering::Relaxed),
        Property::CurSizeActiveMemTable => mem.active.approximate_memory_usage() as u64,
        Property::CurSizeAllMemTables => mem.memory_usage() as u64,
        Property::SizeAllMemTables => mem.memory_usage_with_pinned() as u64,
        Property::NumEntriesActiveMemTable => mem.active.num_entries(),
        Property::NumEntriesImmMemTables => waiting().map(|m| m.num_entries()).sum(),
        Property::NumDeletesActiveMemTable => mem.active.num_deletes(),
        Property::NumDeletesImmMemTables => waiting().map(|m| m.num_deletes()).sum(),
        Property::IsFileDeletionsEnabled => u64::from(!state.keeps_files()),
        Property::CurrentSuperVersionNumber => f.cf.super_version.load_full().number,
        Property::MinLogNumberToKeep => engine.oldest_wal_needed(state)?.0,
        Property::BaseLevel => scores(&f.version, &f.compaction_options, &f.running).base_level as u64,
        Property::EstimatePendingCompactionBytes => f.pending_compaction_bytes,
        _ => return None,
    })
}

/// Bytes of the tables' keys and values divided by those of the files, in RocksDB's notation; -1 if
/// no table was opened.
fn compression_ratio_at(version: &Version, level: usize) -> String {
    let known = version.files(level).iter().filter_map(|file| Some((file.stats()?, file.file_size)));
    let sums = known.fold((0, 0), |sum, (stats, size)| {
        (sum.0 + stats.raw_key_bytes + stats.raw_value_bytes, sum.1 + size)
    });
    let ratio = if sums.1 == 0 { -1.0 } else { sums.0 as f64 / sums.1 as f64 };
    format!("{ratio:.6}")
}

fn blob_stats(version: &Version) -> String {
    let blobs = version.blob_file_stats();
    format!(
        "Number of blob files: {}\nTotal size of blob files: {}\nTotal size of garbage in blob files: {}\n\
         Blob file space amplification: {}\n",
        blobs.files,
        blobs.bytes,
        blobs.garbage_bytes,
        six_digits(blobs.space_amplification())
    )
}

/// `number` as a C++ stream prints one below a million: six digits, without trailing zeros.
fn six_digits(number: f64) -> String {
    let before_the_point = (number as u64).to_string().len();
    let text = format!("{number:.*}", 6_usize.saturating_sub(before_the_point));
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Cache sizes in bytes, each with the share of lookups that a cache of that size would miss: a
/// number from 0 to 1. `None` if the cache takes no sample.
fn miss_estimates(options: &ColumnFamilyOptions) -> Option<Vec<(String, String)>> {
    let estimates = options.table.block_cache.as_ref()?.miss_estimates();
    let as_text = estimates.into_iter().map(|e| (e.capacity.to_string(), format!("{:.4}", e.miss_ratio)));
    Some(as_text.collect())
}

/// The sums that this property is about. `None`: another property, or a level that is not there.
fn aggregated_of(cf: &ColumnFamily, property: Property) -> Option<TableProperties> {
    let levels = cf.super_version.load_full().version.num_levels();
    match property {
        Property::AggregatedTableProperties => Some(aggregated_properties(cf, None)),
        Property::AggregatedTablePropertiesAtLevel(level) if level < levels => {
            Some(aggregated_properties(cf, Some(level)))
        }
        _ => None,
    }
}

/// Properties added up over all tables, or those of one level. Tables that cannot be opened are
/// left out.
fn aggregated_properties(cf: &ColumnFamily, only_level: Option<usize>) -> TableProperties {
    let mut sums = TableProperties::default();
    let super_version = cf.super_version.load_full();
    let all = super_version.version.all_files();
    for (_, file) in all.filter(|(level, _)| only_level.is_none_or(|l| l == *level)) {
        let Ok(reader) = open_file(&cf.tables, file) else { continue };
        let mut table = reader.properties().clone();
        for ((_, sum), (_, value)) in summed(&mut sums).into_iter().zip(summed(&mut table)) {
            *sum = sum.saturating_add(*value);
        }
        sums.index_key_is_user_key |= table.index_key_is_user_key;
        sums.index_value_is_delta_encoded |= table.index_value_is_delta_encoded;
    }
    sums
}

/// The properties that are added up, with RocksDB's names for them in the map.
fn summed(p: &mut TableProperties) -> [(&'static str, &mut u64); 18] {
    [
        ("data_size", &mut p.data_size),
        ("index_size", &mut p.index_size),
        ("index_partitions", &mut p.index_partitions),
        ("top_level_index_size", &mut p.top_level_index_size),
        ("filter_size", &mut p.filter_size),
        ("raw_key_size", &mut p.raw_key_size),
        ("raw_value_size", &mut p.raw_value_size),
        ("num_data_blocks", &mut p.num_data_blocks),
        ("num_data_blocks_compression_rejected", &mut p.num_data_blocks_compression_rejected),
        ("num_data_blocks_compression_bypassed", &mut p.num_data_blocks_compression_bypassed),
        ("num_uniform_blocks", &mut p.num_uniform_blocks),
        ("num_entries", &mut p.num_entries),
        ("num_deletions", &mut p.num_deletions),
        ("num_merge_operands", &mut p.num_merge_operands),
        ("num_range_deletions", &mut p.num_range_deletions),
        ("num_filter_entries", &mut p.num_filter_entries),
        ("slow_compression_estimated_data_size", &mut p.slow_compression_estimated_data_size),
        ("fast_compression_estimated_data_size", &mut p.fast_compression_estimated_data_size),
    ]
}

/// Sums of table properties as RocksDB's `TableProperties::ToString` prints them. Properties that
/// have no sum are left out.
fn aggregated_text(p: &TableProperties) -> String {
    let average = |bytes: u64| format!("{:.6}", bytes as f64 / p.num_entries.max(1) as f64);
    let index = format!(
        "index block size (user-key? {}, delta-value? {})",
        u8::from(p.index_key_is_user_key),
        u8::from(p.index_value_is_delta_encoded)
    );
    let number = |number: u64| number.to_string();
    let table_size = p.data_size.saturating_add(p.index_size).saturating_add(p.filter_size);
    let all = [
        ("# data blocks", number(p.num_data_blocks)),
        ("# entries", number(p.num_entries)),
        ("# deletions", number(p.num_deletions)),
        ("# merge operands", number(p.num_merge_operands)),
        ("# range deletions", number(p.num_range_deletions)),
        ("raw key size", number(p.raw_key_size)),
        ("raw average key size", average(p.raw_key_size)),
        ("raw value size", number(p.raw_value_size)),
        ("raw average value size", average(p.raw_value_size)),
        ("data block size", number(p.data_size)),
        (&index, number(p.index_size)),
        ("filter block size", number(p.filter_size)),
        ("# entries for filter", number(p.num_filter_entries)),
        ("(estimated) table size", number(table_size)),
        ("slow compression estimated data size", number(p.slow_compression_estimated_data_size)),
        ("fast compression estimated data size", number(p.fast_compression_estimated_data_size)),
    ];
    all.into_iter().map(|(name, value)| format!("{name}={value}; ")).collect()
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
