//! Options of a version set: the database's location, the families to open, and the logging of
//! edits.

use super::Version;
use crate::options::DbOptions;
use esker_base::comparator::{BytewiseComparator, ComparatorRef};
use esker_base::stats::Statistics;
use esker_base::sync::Arc;
use esker_base::{ColumnFamilyId, Error, Result};
use esker_env::{Clock, FileSystem, SystemClock};
use esker_format::file_name::{FilePaths, FileType};
use esker_format::key::InternalKeyComparator;
use esker_table::BlockCache;
use std::path::{Path, PathBuf};

/// Name of the family with id 0.
pub(crate) const DEFAULT_COLUMN_FAMILY_NAME: &str = "default";

/// The hidden family of the statistics' history.
pub(crate) const STATS_HISTORY_COLUMN_FAMILY_NAME: &str = "___rocksdb_stats_history___";

/// The database options that the set needs.
#[derive(Clone, Debug)]
pub struct VersionSetOptions {
    /// The file system.
    pub fs: Arc<dyn FileSystem>,
    /// The database directory.
    pub dir: PathBuf,
    /// Bytes after which the next edit goes to a fresh MANIFEST, if it has also outgrown its
    /// initial snapshot by `max_manifest_space_amp_pct` percent.
    pub max_manifest_file_size: u64,
    /// See `max_manifest_file_size`.
    pub max_manifest_space_amp_pct: u64,
    /// Bytes to preallocate in a MANIFEST; 0 for none.
    pub manifest_preallocation_size: u64,
    /// Whether to write the database's id into every fresh MANIFEST.
    pub write_dbid_to_manifest: bool,
    /// `fsync` instead of `fdatasync`.
    pub use_fsync: bool,
    /// Whether appends to the MANIFEST carry checksums to the file system.
    pub checksum_handoff: bool,
    /// Counts the times of syncs of the MANIFEST.
    pub statistics: Option<Arc<Statistics>>,
    /// The clock for these times; by default the machine's.
    pub clock: Arc<dyn Clock>,
    /// Whether every table file must exist with its recorded size at recovery.
    pub paranoid_checks: bool,
    /// Whether the set writes no file, and skips families that the caller does not name.
    pub read_only: bool,
    /// Whether another owner writes the MANIFEST, so that the caller calls
    /// [`VersionSet::read_later_edits`](super::VersionSet) from time to time.
    pub follows: bool,
}

impl VersionSetOptions {
    /// RocksDB's defaults.
    pub fn new(fs: Arc<dyn FileSystem>, dir: impl Into<PathBuf>) -> VersionSetOptions {
        VersionSetOptions {
            fs,
            dir: dir.into(),
            max_manifest_file_size: 1 << 30,
            max_manifest_space_amp_pct: 500,
            manifest_preallocation_size: 4 << 20,
            write_dbid_to_manifest: true,
            use_fsync: false,
            checksum_handoff: false,
            statistics: None,
            clock: Arc::new(SystemClock),
            paranoid_checks: true,
            read_only: false,
            follows: false,
        }
    }

    /// These options with the way in which `options` sync files, and their statistics.
    #[must_use]
    pub(crate) fn with_syncs(self, options: &DbOptions) -> VersionSetOptions {
        VersionSetOptions {
            use_fsync: options.use_fsync,
            checksum_handoff: options.checksum_handoff_file_types.contains(&FileType::Descriptor),
            statistics: options.statistics.clone(),
            clock: options.env.clock.clone(),
            ..self
        }
    }
}

/// The reason why RocksDB cannot have a family of this name; `None` for every other name, however
/// long.
pub(crate) fn find_fault_in_family_name(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("it is empty, and RocksDB 7.8 aborts when it flushes such a family");
    }
    name.contains('\0').then_some("it has a NUL, where RocksDB's C interface and tools end it")
}

/// A name for a new family.
/// # Errors
/// `InvalidArgument` for a name that RocksDB refuses.
pub(crate) fn check_family_name(name: &str) -> Result<()> {
    match find_fault_in_family_name(name) {
        None => Ok(()),
        Some(why) => {
            let name = name.escape_debug();
            Err(Error::invalid_argument(format!("no name for a column family: '{name}': {why}")))
        }
    }
}

/// The epoch number of files that were ingested behind all others
/// (`kReservedEpochNumberForFileIngestedBehind`).
pub(crate) const EPOCH_BEHIND_ALL: u64 = 1;

/// A family as its user describes it.
#[derive(Clone, Debug)]
pub struct FamilyDescriptor {
    /// The family's name.
    pub name: String,
    /// The order of the family's user keys.
    pub comparator: ComparatorRef,
    /// Number of levels of the family, 7 by default.
    pub num_levels: usize,
    /// Whether files store user timestamps.
    pub persist_user_defined_timestamps: bool,
    /// The directories of the family's tables and blob files; `None`: the database's directory.
    pub paths: Option<FilePaths>,
    /// The cache charged for tables' metadata; `None`: no charge.
    pub metadata_cache: Option<Arc<BlockCache>>,
    /// Whether the last level is kept for files that are ingested behind all others.
    pub reserves_last_level: bool,
}

impl FamilyDescriptor {
    /// A family in bytewise order with 7 levels.
    pub fn new(name: impl Into<String>) -> FamilyDescriptor {
        FamilyDescriptor {
            name: name.into(),
            comparator: Arc::new(BytewiseComparator),
            num_levels: 7,
            persist_user_defined_timestamps: true,
            paths: None,
            metadata_cache: None,
            reserves_last_level: false,
        }
    }
}

impl FamilyDescriptor {
    /// A version without files of the family `id` of the database in `dir`.
    pub(super) fn empty_version(&self, id: ColumnFamilyId, dir: &Path) -> Version {
        let icmp = InternalKeyComparator::new(Arc::clone(&self.comparator));
        let empty = Version::empty(id, icmp, self.num_levels);
        let paths = self.paths.clone().unwrap_or_else(|| FilePaths::one(dir));
        let empty = empty.in_paths(paths).charged_to(self.metadata_cache.clone());
        empty.reserving_last_level(self.reserves_last_level)
    }
}

/// Options for logging edits.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogOptions {
    /// Whether the edits take effect together or not at all, even after a crash.
    pub atomic_group: bool,
    /// Whether the edits go to a fresh MANIFEST.
    pub new_manifest: bool,
}
