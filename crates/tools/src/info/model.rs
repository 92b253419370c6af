//! The values that `esker info` prints. Their field names are the names in the JSON object.
//!
//! Sizes are bytes, times Unix seconds, shares numbers from 0 to 1. `null` means "unknown" or
//! "none". Lists of files are sorted as their field says. New fields may come; names stay.
//!
//! Invariant: the sums of a family are those of its levels, and the totals are those of the
//! families. Entries and tombstones count the tables whose properties could be read.

use serde::Serialize;

/// A database.
#[derive(Serialize, Debug, Default)]
pub(crate) struct DatabaseInfo {
    pub(crate) directory: String,
    pub(crate) wal_directory: String,
    /// Whether the command line named encryption keys.
    pub(crate) encrypted: bool,
    /// Whether `smallest_key` and `largest_key` are given: `text`, `hex` or `none`.
    pub(crate) keys: &'static str,
    /// Time of the report.
    pub(crate) time: u64,
    pub(crate) creator: CreatorInfo,
    pub(crate) manifest: ManifestInfo,
    pub(crate) lock: DirectoryLock,
    pub(crate) totals: TotalsInfo,
    /// By id.
    pub(crate) families: Vec<FamilyInfo>,
    /// Options of the database that differ from RocksDB's defaults.
    pub(crate) options: Vec<ChangedOption>,
    pub(crate) largest: LargestInfo,
    /// The live table with the oldest creation time.
    pub(crate) oldest_table: Option<TableInfo>,
    /// Damage that the cheap checks found, a sentence each.
    pub(crate) damage: Vec<String>,
    /// Facts that are no damage, a sentence each.
    pub(crate) notes: Vec<String>,
}

/// The program that wrote the database.
#[derive(Serialize, Debug, Default)]
pub(crate) struct CreatorInfo {
    /// The database's id.
    pub(crate) db_id: Option<String>,
    /// Name of the newest OPTIONS file.
    pub(crate) options_file: Option<String>,
    /// The RocksDB version that the OPTIONS file names. Esker writes the version of the oldest
    /// RocksDB for which the file is meant.
    pub(crate) options_version: Option<String>,
    /// The first line of the LOG with a version: `Esker version: …` or `RocksDB version: …`.
    pub(crate) log_version: Option<String>,
    /// Live tables that have properties only Esker writes.
    pub(crate) tables_of_esker: u64,
    /// Other live tables.
    pub(crate) tables_of_others: u64,
    /// Hosts that wrote live tables, at most ten.
    pub(crate) hosts: Vec<String>,
}

/// The current MANIFEST.
#[derive(Serialize, Debug, Default)]
pub(crate) struct ManifestInfo {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) last_sequence: u64,
    pub(crate) next_file_number: u64,
}

/// The lock of the directory.
#[derive(Serialize, Debug, Default)]
pub(crate) struct DirectoryLock {
    /// Whether the system tells who holds locks.
    pub(crate) is_known: bool,
    pub(crate) holders: Vec<LockHolder>,
}

/// A process that has the database open for writing.
#[derive(Serialize, Debug, PartialEq, Eq)]
pub(crate) struct LockHolder {
    pub(crate) pid: u32,
    /// `null` if the process belongs to another user or another container.
    pub(crate) program: Option<String>,
}

/// Sums over the database.
#[derive(Serialize, Debug, Default)]
pub(crate) struct TotalsInfo {
    pub(crate) families: u64,
    pub(crate) tables: u64,
    pub(crate) table_bytes: u64,
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
    pub(crate) blob_files: u64,
    pub(crate) blob_bytes: u64,
    pub(crate) blob_garbage_bytes: u64,
    /// WALs in the WAL directory, those that are not needed any more included.
    pub(crate) wals: u64,
    pub(crate) wal_bytes: u64,
    /// WALs in the archive.
    pub(crate) archived_wals: u64,
    pub(crate) archived_wal_bytes: u64,
    /// Tables and blob files that the MANIFEST does not name.
    pub(crate) unnamed_files: u64,
    pub(crate) unnamed_bytes: u64,
    /// LOG, OPTIONS, MANIFEST and other files.
    pub(crate) other_bytes: u64,
}

/// A column family.
#[derive(Serialize, Debug, Default)]
pub(crate) struct FamilyInfo {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) tables: u64,
    pub(crate) table_bytes: u64,
    pub(crate) entries: u64,
    /// Deletions of all kinds, range tombstones included.
    pub(crate) tombstones: u64,
    pub(crate) range_tombstones: u64,
    pub(crate) merge_operands: u64,
    /// Uncompressed bytes of keys and values.
    pub(crate) raw_bytes: u64,
    pub(crate) filter_bytes: u64,
    pub(crate) index_bytes: u64,
    /// Sorted runs that a read may have to search: level-0 files and levels with files.
    pub(crate) read_amplification: u64,
    /// Bytes of tables to bytes of the last level with files; `null` without such a level.
    pub(crate) space_amplification: Option<f64>,
    /// Levels with files, or with a target.
    pub(crate) levels: Vec<LevelInfo>,
    pub(crate) blob_files: u64,
    pub(crate) blob_bytes: u64,
    pub(crate) blob_garbage_bytes: u64,
    pub(crate) operators: OperatorsInfo,
    /// Options of the family that differ from RocksDB's defaults; options of tables begin with
    /// `table.`.
    pub(crate) options: Vec<ChangedOption>,
}

/// A level of a family.
#[derive(Serialize, Debug, Default)]
pub(crate) struct LevelInfo {
    pub(crate) level: usize,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// Size above which leveled compaction moves files deeper.
    pub(crate) target_bytes: Option<u64>,
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
    pub(crate) sorted_runs: u64,
    pub(crate) smallest_key: Option<String>,
    pub(crate) largest_key: Option<String>,
    /// Compressions of its tables, as their properties say.
    pub(crate) compressions: Vec<String>,
}

/// The code that a family needs, and the form of its tables.
#[derive(Serialize, Debug, Default)]
pub(crate) struct OperatorsInfo {
    pub(crate) comparator: String,
    /// Whether this program has the comparator.
    pub(crate) comparator_is_known: bool,
    pub(crate) merge_operator: Option<String>,
    pub(crate) prefix_extractor: Option<String>,
    /// The filter policy in the OPTIONS file.
    pub(crate) filter_policy: Option<String>,
    /// Filters of the tables, as their properties say.
    pub(crate) table_filters: Vec<String>,
    pub(crate) compaction_style: Option<String>,
    /// The compression of new tables by level, such as `L0-L1 no, L2-L6 zstd`.
    pub(crate) compression_by_level: Option<String>,
    /// Format versions of the tables, as their footers say.
    pub(crate) format_versions: Vec<u32>,
}

/// An option with a value other than RocksDB's default.
#[derive(Serialize, Debug, PartialEq, Eq)]
pub(crate) struct ChangedOption {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) default: String,
}

/// Files and families by size, the largest first, at most ten each.
#[derive(Serialize, Debug, Default)]
pub(crate) struct LargestInfo {
    pub(crate) families: Vec<NamedSize>,
    pub(crate) tables: Vec<TableInfo>,
    pub(crate) blob_files: Vec<LargeBlobFile>,
    pub(crate) wals: Vec<NamedSize>,
}

/// A name and a size.
#[derive(Serialize, Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedSize {
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

/// A live table.
#[derive(Serialize, Debug, Clone)]
pub(crate) struct TableInfo {
    pub(crate) name: String,
    pub(crate) family: String,
    pub(crate) level: usize,
    pub(crate) bytes: u64,
    pub(crate) entries: Option<u64>,
    /// Time of the file's creation.
    pub(crate) created: Option<u64>,
}

/// A live blob file.
#[derive(Serialize, Debug, Clone)]
pub(crate) struct LargeBlobFile {
    pub(crate) name: String,
    pub(crate) family: String,
    pub(crate) bytes: u64,
    pub(crate) records: u64,
    pub(crate) garbage_bytes: u64,
}
