//! Metadata of a database's files: RocksDB's `LiveFileMetaData`, `ColumnFamilyMetaData` and their
//! parts.
//!
//! Source of the fields: RocksDB `include/rocksdb/metadata.h`.

use super::Temperature;
use esker_base::{FileNumber, SequenceNumber, ValueType};
use esker_format::file_name::FileType;
use std::ops::Deref;
use std::path::PathBuf;

/// One table file.
#[derive(Clone, PartialEq, Eq)]
pub struct SstFileMetaData {
    /// Its number.
    pub file_number: FileNumber,
    /// Its name in `directory`.
    pub relative_filename: String,
    /// Its directory.
    pub directory: PathBuf,
    /// Size in bytes.
    pub size: u64,
    /// Smallest user key, range tombstones included.
    pub smallest_key: Vec<u8>,
    /// Largest user key; a range tombstone that ends there does not cover it.
    pub largest_key: Vec<u8>,
    /// Smallest internal key, range tombstones included.
    pub smallest: Vec<u8>,
    /// Largest internal key; exclusive if it is the end of a range tombstone.
    pub largest: Vec<u8>,
    /// Smallest sequence number in it.
    pub smallest_seqno: SequenceNumber,
    /// Largest sequence number in it.
    pub largest_seqno: SequenceNumber,
    /// Gets that looked in it since the database was opened, as estimated from one get of 1024. 0
    /// if no family has ever had a `read_triggered_compaction_threshold`: only then gets are
    /// sampled.
    pub num_reads_sampled: u64,
    /// Whether a running compaction reads it.
    pub being_compacted: bool,
    /// Entries of all types; 0 if the table cannot be opened.
    pub num_entries: u64,
    /// Deletions among them.
    pub num_deletions: u64,
    /// The oldest blob file that it refers to.
    pub oldest_blob_file_number: Option<FileNumber>,
    /// Time at which the file's oldest data was flushed, in Unix seconds; 0 if unknown.
    pub oldest_ancestor_time: u64,
    /// Time at which the file was made, in Unix seconds; 0 if unknown.
    pub file_creation_time: u64,
    /// Order among level-0 files of its family.
    pub epoch_number: u64,
    /// Checksum of the whole file and its function's name, if one was made.
    pub file_checksum: Option<(Vec<u8>, String)>,
    /// Its temperature.
    pub temperature: Temperature,
}

esker_base::debug_with_text!(SstFileMetaData {
    file_number,
    relative_filename,
    directory,
    size,
    text smallest_key,
    text largest_key,
    text smallest,
    text largest,
    smallest_seqno,
    largest_seqno,
    num_reads_sampled,
    being_compacted,
    num_entries,
    num_deletions,
    oldest_blob_file_number,
    oldest_ancestor_time,
    file_creation_time,
    epoch_number,
    file_checksum,
    temperature,
});

/// One stored version of a key: RocksDB's `KeyVersion`.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyVersion {
    /// The key, with its timestamp if the family has timestamps.
    pub user_key: Vec<u8>,
    /// The stored bytes: a value, a merge operand, a blob index, columns.
    pub value: Vec<u8>,
    /// The sequence number of its write; 0 if a compaction found that no reader needs it.
    pub sequence: SequenceNumber,
    /// The kind of its write.
    pub value_type: ValueType,
}

esker_base::debug_with_text!(KeyVersion { text user_key, text value, sequence, value_type });

impl KeyVersion {
    /// RocksDB's name of the kind, as `TypeValue`.
    pub fn type_name(&self) -> &'static str {
        match self.value_type {
            ValueType::Deletion => "TypeDeletion",
            ValueType::Value => "TypeValue",
            ValueType::Merge => "TypeMerge",
            ValueType::SingleDeletion => "TypeSingleDeletion",
            ValueType::RangeDeletion => "TypeRangeDeletion",
            ValueType::BlobIndex => "TypeBlobIndex",
            ValueType::DeletionWithTimestamp => "TypeDeletionWithTimestamp",
            ValueType::WideColumnEntity => "TypeWideColumnEntity",
            ValueType::ValuePreferredSeqno => "TypeValuePreferredSeqno",
        }
    }
}

/// One table file with its family and level. The file's own fields are reached through `Deref`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LiveFileMetaData {
    /// Its family.
    pub column_family_name: String,
    /// Its level.
    pub level: usize,
    /// The file.
    pub file: SstFileMetaData,
}

impl Deref for LiveFileMetaData {
    type Target = SstFileMetaData;
    fn deref(&self) -> &SstFileMetaData {
        &self.file
    }
}

/// One level of a family.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LevelMetaData {
    /// Its number; flushes write to level 0.
    pub level: usize,
    /// Bytes of its files.
    pub size: u64,
    /// Its files, sorted by key; in level 0 newest first.
    pub files: Vec<SstFileMetaData>,
}

/// One blob file.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct BlobMetaData {
    /// Its number.
    pub blob_file_number: FileNumber,
    /// Its name in `blob_file_path`.
    pub blob_file_name: String,
    /// The directory of the file.
    pub blob_file_path: PathBuf,
    /// Size in bytes.
    pub blob_file_size: u64,
    /// Number of records in it.
    pub total_blob_count: u64,
    /// Bytes of its records.
    pub total_blob_bytes: u64,
    /// Number of records that no table refers to any more.
    pub garbage_blob_count: u64,
    /// Bytes of those records.
    pub garbage_blob_bytes: u64,
    /// Checksum of the whole file and its function's name, if one was made.
    pub file_checksum: Option<(Vec<u8>, String)>,
}

/// One family.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ColumnFamilyMetaData {
    /// Its name.
    pub name: String,
    /// Bytes of its tables.
    pub size: u64,
    /// Number of its tables.
    pub file_count: usize,
    /// All its levels, empty ones included.
    pub levels: Vec<LevelMetaData>,
    /// Bytes of its blob files.
    pub blob_file_size: u64,
    /// Number of its blob files.
    pub blob_file_count: usize,
    /// Its blob files, by number.
    pub blob_files: Vec<BlobMetaData>,
}

/// A family that `Db::export_column_family` has exported: its table files, in the directory of the
/// export.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExportImportFilesMetaData {
    /// Name of the comparator that sorts its keys.
    pub db_comparator_name: String,
    /// Its files.
    pub files: Vec<LiveFileMetaData>,
}

/// One file that a copy of the database needs: RocksDB's `LiveFileStorageInfo`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LiveFileStorageInfo {
    /// Its name in `directory`.
    pub relative_filename: String,
    /// Its directory.
    pub directory: PathBuf,
    /// Its number; 0 for CURRENT.
    pub file_number: FileNumber,
    /// Its kind.
    pub file_type: FileType,
    /// Bytes to copy.
    pub size: u64,
    /// Checksum of the whole file and its function's name, if requested. A file without one has an
    /// empty checksum and the name "Unknown".
    pub file_checksum: Option<(Vec<u8>, String)>,
    /// Contents to write instead of those of the file, which may change. Empty: copy the file.
    pub replacement_contents: Vec<u8>,
    /// Whether the file may grow: a copy takes the first `size` bytes, and must not be a link.
    pub trim_to_size: bool,
    /// Temperature of a table; otherwise `Unknown`.
    pub temperature: Temperature,
}

/// The place of a WAL file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WalFileType {
    /// In the archive: tables hold its entries.
    Archived = 0,
    /// In the WAL directory.
    Alive = 1,
}

/// A WAL file.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct WalFile {
    /// Path below the WAL directory, with a slash in front: `/000003.log` or
    /// `/archive/000003.log`.
    pub path_name: String,
    /// Its number; later files have larger ones.
    pub log_number: FileNumber,
    /// Whether the file is in the WAL directory or in the archive.
    pub file_type: WalFileType,
    /// Sequence number of its first record.
    pub start_sequence: SequenceNumber,
    /// Bytes of its records that are written.
    pub size_file_bytes: u64,
}
