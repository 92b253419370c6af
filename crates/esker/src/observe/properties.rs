//! The `rocksdb.*` properties by name.
//!
//! In: a name that the user gives. Out: the property with its argument, or nothing if RocksDB has
//! no property of that name. Source: RocksDB `include/rocksdb/db.h` (`DB::Properties`),
//! `db/internal_stats.cc`.

/// The forms in which a property is available. `get_property` gives every one as text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PropertyKind {
    /// Text.
    Text,
    /// Text and a map of names to values.
    Map,
    /// A number.
    Int,
    /// A number that is read without the database's mutex.
    IntWithoutMutex,
}

macro_rules! properties {
    ( $( $(#[$attr:meta])* $variant:ident $(($arg:ident))? = $name:literal, $kind:ident; )* ) => {
        /// A property, with its argument if it takes one.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        #[non_exhaustive]
        pub enum Property {
            $( $(#[$attr])* $variant $(($arg))?, )*
        }

        impl Property {
            /// RocksDB's name, without the argument.
            pub const fn name(self) -> &'static str {
                match self { $( properties!(@pattern $variant $($arg)?) => concat!("rocksdb.", $name), )* }
            }

            /// The forms in which it is available.
            pub const fn kind(self) -> PropertyKind {
                match self { $( properties!(@pattern $variant $($arg)?) => PropertyKind::$kind, )* }
            }

            /// Every property; arguments are 0.
            pub const ALL: &'static [Property] = &[ $( properties!(@value $variant $($arg)?), )* ];
        }

        /// `name` without `rocksdb.` and without its argument.
        fn find(name: &str, argument: Option<usize>) -> Option<Property> {
            match (name, argument) {
                $( properties!(@key $name, argument $($arg)?) => Some(properties!(@make $variant argument $($arg)?)), )*
                _ => None,
            }
        }
    };
    (@pattern $variant:ident) => { Property::$variant };
    (@pattern $variant:ident $arg:ident) => { Property::$variant(_) };
    (@value $variant:ident) => { Property::$variant };
    (@value $variant:ident $arg:ident) => { Property::$variant(0) };
    (@key $name:literal, $argument:ident) => { ($name, None) };
    (@key $name:literal, $argument:ident $arg:ident) => { ($name, Some(_)) };
    (@make $variant:ident $argument:ident) => { Property::$variant };
    (@make $variant:ident $argument:ident $arg:ident) => { Property::$variant($argument.unwrap_or(0)) };
}

properties! {
    /// Number of files in level N.
    NumFilesAtLevel(usize) = "num-files-at-level", Text;
    /// Ratio of the bytes before compression to the bytes after it, in level N; -1 if N is empty.
    CompressionRatioAtLevel(usize) = "compression-ratio-at-level", Text;
    /// `cfstats` and `dbstats`.
    Stats = "stats", Text;
    /// Files of each level with their bounds.
    SsTables = "sstables", Text;
    /// Compactions by level, and stalls.
    CfStats = "cfstats", Map;
    /// `cfstats` without the times of reads.
    CfStatsNoFileHistogram = "cfstats-no-file-histogram", Text;
    /// Times of reads of tables, by level, and of blob files, if there are statistics.
    CfFileHistogram = "cf-file-histogram", Text;
    /// Stalls of the family, by cause.
    CfWriteStallStats = "cf-write-stall-stats", Map;
    /// Stalls of the database, by cause.
    DbWriteStallStats = "db-write-stall-stats", Map;
    /// Writes, WAL and stalls, in total and since the last dump.
    DbStats = "dbstats", Map;
    /// Files and megabytes of each level.
    LevelStats = "levelstats", Text;
    /// Contents of the block cache, by role.
    BlockCacheEntryStats = "block-cache-entry-stats", Map;
    /// The same contents. RocksDB may return contents that are some minutes old.
    FastBlockCacheEntryStats = "fast-block-cache-entry-stats", Map;
    /// Esker's own: estimated misses of block caches of several sizes, from a sample of the
    /// lookups.
    BlockCacheMissEstimate = "block-cache-miss-estimate", Map;
    /// Esker's own: bytes of the tier below the block cache.
    SecondaryCacheCapacity = "secondary-cache-capacity", Int;
    /// Esker's own: bytes used by the tier below the block cache.
    SecondaryCacheUsage = "secondary-cache-usage", Int;
    /// Immutable memtables not flushed yet.
    NumImmutableMemTable = "num-immutable-mem-table", Int;
    /// Immutable memtables flushed but still held.
    NumImmutableMemTableFlushed = "num-immutable-mem-table-flushed", Int;
    /// 1 if a flush waits.
    MemTableFlushPending = "mem-table-flush-pending", Int;
    /// Flushes running.
    NumRunningFlushes = "num-running-flushes", Int;
    /// 1 if a compaction waits.
    CompactionPending = "compaction-pending", Int;
    /// Compactions running.
    NumRunningCompactions = "num-running-compactions", Int;
    /// Sorted runs that running compactions read.
    NumRunningCompactionSortedRuns = "num-running-compaction-sorted-runs", Int;
    /// Aborts of compactions in force, which no resume has undone yet: of all families and of this
    /// one.
    CompactionAbortCount = "compaction-abort-count", Int;
    /// Compactions that are due but not scheduled.
    NumUnscheduledCompactions = "num-unscheduled-compactions", Int;
    /// Esker's own: damaged tables that compactions leave alone.
    NumQuarantinedTables = "num-quarantined-tables", Int;
    /// Esker's own: places at which the open has lost records of WALs.
    NumWalLosses = "num-wal-losses", Int;
    /// Esker's own: a line for each such place, with WAL and offset.
    WalLosses = "wal-losses", Text;
    /// Esker's own: entries of all families that background pre-scans have read
    /// (`pre_scan_min_entries`).
    NumPreScannedEntries = "num-pre-scanned-entries", Int;
    /// Failures of flushes and compactions since the open.
    BackgroundErrors = "background-errors", Int;
    /// Bytes of the active memtable.
    CurSizeActiveMemTable = "cur-size-active-mem-table", Int;
    /// Bytes of active and unflushed memtables.
    CurSizeAllMemTables = "cur-size-all-mem-tables", Int;
    /// Bytes of all memtables, pinned ones included.
    SizeAllMemTables = "size-all-mem-tables", Int;
    /// Entries in the active memtable.
    NumEntriesActiveMemTable = "num-entries-active-mem-table", Int;
    /// Entries in unflushed immutable memtables.
    NumEntriesImmMemTables = "num-entries-imm-mem-tables", Int;
    /// Deletions in the active memtable.
    NumDeletesActiveMemTable = "num-deletes-active-mem-table", Int;
    /// Deletions in unflushed immutable memtables.
    NumDeletesImmMemTables = "num-deletes-imm-mem-tables", Int;
    /// Estimated number of keys.
    EstimateNumKeys = "estimate-num-keys", Int;
    /// Estimated bytes of open tables outside the block cache.
    EstimateTableReadersMem = "estimate-table-readers-mem", IntWithoutMutex;
    /// 1 if obsolete files may be deleted, 0 while file deletions are disabled.
    IsFileDeletionsEnabled = "is-file-deletions-enabled", Int;
    /// Live snapshots.
    NumSnapshots = "num-snapshots", Int;
    /// Unix seconds of the oldest live snapshot.
    OldestSnapshotTime = "oldest-snapshot-time", Int;
    /// Sequence number of the oldest live snapshot.
    OldestSnapshotSequence = "oldest-snapshot-sequence", Int;
    /// Versions that are still in use.
    NumLiveVersions = "num-live-versions", Int;
    /// Number of the current super version.
    CurrentSuperVersionNumber = "current-super-version-number", Int;
    /// Estimated bytes of live data.
    EstimateLiveDataSize = "estimate-live-data-size", IntWithoutMutex;
    /// The oldest WAL that is needed.
    MinLogNumberToKeep = "min-log-number-to-keep", Int;
    /// The smallest number of a table that is kept although nothing needs it. Esker keeps no such
    /// table, so the value is always `u64::MAX`.
    MinObsoleteSstNumberToKeep = "min-obsolete-sst-number-to-keep", Int;
    /// Bytes of all tables of all live versions.
    TotalSstFilesSize = "total-sst-files-size", Int;
    /// Bytes of the current version's tables.
    LiveSstFilesSize = "live-sst-files-size", Int;
    /// Bytes of tables that wait for deletion.
    ObsoleteSstFilesSize = "obsolete-sst-files-size", Int;
    /// Bytes of the current version's tables of this temperature.
    LiveSstFilesSizeAtTemperature(usize) = "live-sst-files-size-at-temperature", Text;
    /// The level that level 0 is compacted to.
    BaseLevel = "base-level", Int;
    /// Estimated bytes that compactions must rewrite to bring all levels to size.
    EstimatePendingCompactionBytes = "estimate-pending-compaction-bytes", Int;
    /// Table properties summed over all tables.
    AggregatedTableProperties = "aggregated-table-properties", Map;
    /// Table properties summed over the tables of level N.
    AggregatedTablePropertiesAtLevel(usize) = "aggregated-table-properties-at-level", Map;
    /// Bytes per second granted to slowed-down writers; 0 if writers are not slowed down.
    ActualDelayedWriteRate = "actual-delayed-write-rate", Int;
    /// 1 if writers are stopped.
    IsWriteStopped = "is-write-stopped", Int;
    /// Estimated Unix seconds of the oldest key; FIFO only.
    EstimateOldestKeyTime = "estimate-oldest-key-time", Int;
    /// Bytes the block cache may hold.
    BlockCacheCapacity = "block-cache-capacity", Int;
    /// Bytes the block cache holds.
    BlockCacheUsage = "block-cache-usage", Int;
    /// Bytes of the cache's entries that are in use now.
    BlockCachePinnedUsage = "block-cache-pinned-usage", Int;
    /// All tickers and histograms as text.
    OptionsStatistics = "options-statistics", Text;
    /// Blob files.
    NumBlobFiles = "num-blob-files", Int;
    /// Blob files and garbage in them, as text.
    BlobStats = "blob-stats", Text;
    /// Bytes of all blob files of all live versions.
    TotalBlobFileSize = "total-blob-file-size", Int;
    /// Bytes of the current version's blob files.
    LiveBlobFileSize = "live-blob-file-size", Int;
    /// Bytes of garbage in the current version's blob files.
    LiveBlobFileGarbageSize = "live-blob-file-garbage-size", Int;
    /// Bytes the blob cache may hold.
    BlobCacheCapacity = "blob-cache-capacity", Int;
    /// Bytes the blob cache holds.
    BlobCacheUsage = "blob-cache-usage", Int;
    /// Bytes of the cache's entries that are in use now.
    BlobCachePinnedUsage = "blob-cache-pinned-usage", Int;
}

/// Former names of Esker's own properties. Monitoring may still use the old names.
const RENAMED: [(&str, Property); 2] = [
    ("rocksdb.num-tables-set-aside", Property::NumQuarantinedTables), // old spelling
    ("rocksdb.num-dead-range-entries-walked", Property::NumPreScannedEntries), // old spelling
];

/// The property called `name`; digits at its end are an argument. `None` if no property has that
/// name, or if the argument is missing or superfluous.
pub fn parse_property(name: &str) -> Option<Property> {
    if let Some((_, now)) = RENAMED.iter().find(|(before, _)| *before == name) {
        return Some(*now);
    }
    let name = name.strip_prefix("rocksdb.")?;
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let argument = &name[base.len()..];
    if argument.is_empty() { find(base, None) } else { find(base, Some(argument.parse().ok()?)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_and_arguments_are_asked_for() {
        for property in Property::ALL {
            let takes_argument = property.name().ends_with("level") && *property != Property::BaseLevel
                || property.name().ends_with("temperature");
            let found = if takes_argument {
                assert_eq!(parse_property(property.name()), None, "{} needs its argument", property.name());
                parse_property(&format!("{}0", property.name()))
            } else {
                assert_eq!(parse_property(&format!("{}0", property.name())), None);
                parse_property(property.name())
            };
            assert_eq!(found, Some(*property));
        }
        assert_eq!(parse_property("rocksdb.num-files-at-level12"), Some(Property::NumFilesAtLevel(12)));
        for (before, now) in RENAMED {
            assert_eq!((parse_property(before), parse_property(now.name())), (Some(now), Some(now)));
        }
        assert_eq!(parse_property("num-snapshots"), None);
        assert_eq!(parse_property("rocksdb.nonsense"), None);
        assert_eq!(parse_property("rocksdb.num-files-at-level99999999999999999999999"), None);
        assert_eq!(parse_property("rocksdb."), None);
        assert_eq!(parse_property("rocksdb.é7"), None);
    }
}
