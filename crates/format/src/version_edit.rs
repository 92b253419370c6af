//! MANIFEST records: changes from one version of the database to the next.
//!
//! In: an edit. Out: one log record, and back. Source: RocksDB `db/version_edit.cc`. Page:
//! `docs/format/manifest.md`.
//!
//! `(tag varint32, payload)*`
//!
//! Invariants
//!  1. An unknown tag with bit 13 set is skipped (its payload is one length-prefixed slice); any
//!     other unknown tag is corruption. In a table's description an unknown custom tag with bit 6
//!     set is fatal; others are skipped.
//!  2. RocksDB 7.8 and 11 understand everything written. Tags come in RocksDB's order. WAL
//!     tracking, which makes their read-only opens fail, is never written.
//!  3. An edit without changes has no bytes, and is legal.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

use esker_base::{ColumnFamilyId, FileNumber, SequenceNumber};

/// A table file as the MANIFEST describes it (NewFile4 and its older forms).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FileMetaData {
    /// The file number.
    pub number: FileNumber,
    /// Index into the database's paths; 0 is the database directory.
    pub path_id: u32,
    /// Size in bytes.
    pub file_size: u64,
    /// First internal key, range tombstones included. Raw bytes, because old bugs leaked odd types
    /// into bounds.
    pub smallest: Vec<u8>,
    /// Last internal key, range tombstones included. It is exclusive if it ends with
    /// `key::RANGE_END_SENTINEL`.
    pub largest: Vec<u8>,
    /// Smallest sequence number of its entries.
    pub smallest_seqno: SequenceNumber,
    /// Largest sequence number of its entries.
    pub largest_seqno: SequenceNumber,
    /// Whether the flush or compaction that wrote the table marked it for compaction.
    pub marked_for_compaction: bool,
    /// Smallest number of the blob files to which its entries refer, if any.
    pub oldest_blob_file_number: Option<FileNumber>,
    /// Creation time of its oldest ancestor file, in unix seconds; 0 if unknown.
    pub oldest_ancestor_time: u64,
    /// Time of the file's creation, in unix seconds; 0 if unknown.
    pub file_creation_time: u64,
    /// Order among level-0 files of the family; 0 if unknown.
    pub epoch_number: u64,
    /// Checksum of the whole file and name of its function, if a checksum was made.
    pub file_checksum: Option<(Vec<u8>, String)>,
    /// Temperature code; 0 if unknown.
    pub temperature: u8,
    /// The table's unique id (two little-endian u64), if known.
    pub unique_id: Option<[u64; 2]>,
    /// Estimated bytes in other files that its range tombstones hide.
    pub compensated_range_deletion_size: u64,
    /// File bytes after the data blocks; 0 if unknown.
    pub tail_size: u64,
    /// Smallest user-defined timestamp.
    pub min_timestamp: Vec<u8>,
    /// Largest user-defined timestamp.
    pub max_timestamp: Vec<u8>,
    /// Whether stored keys lack their timestamps. Absent in the record means that they have them.
    pub user_defined_timestamps_not_persisted: bool,
}

/// A new blob file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BlobFileAddition {
    /// The file number.
    pub number: FileNumber,
    /// Records in it.
    pub total_blob_count: u64,
    /// Bytes of its records.
    pub total_blob_bytes: u64,
    /// Name of the function of the whole file's checksum; empty if there is none.
    pub checksum_method: String,
    /// Checksum of the whole file; empty if there is none.
    pub checksum_value: Vec<u8>,
}

/// Records of a blob file that become garbage.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BlobFileGarbage {
    /// The file number.
    pub number: FileNumber,
    /// Number of records that become garbage.
    pub garbage_blob_count: u64,
    /// Bytes of these records.
    pub garbage_blob_bytes: u64,
}

/// One MANIFEST record.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VersionEdit {
    /// The database's id.
    pub db_id: Option<String>,
    /// Name of the family's comparator.
    pub comparator: Option<String>,
    /// WALs below this number have no data that this family needs.
    pub log_number: Option<FileNumber>,
    /// Always 0 in files of current releases.
    pub prev_log_number: Option<FileNumber>,
    /// The next file number: all numbers in use are smaller.
    pub next_file_number: Option<FileNumber>,
    /// The newest sequence number in any file.
    pub last_sequence: Option<SequenceNumber>,
    /// WALs below this number are not needed by any family.
    pub min_log_number_to_keep: Option<FileNumber>,
    /// Largest family id that was ever used.
    pub max_column_family: Option<u32>,
    /// Cursors of round-robin compaction: level and internal key.
    pub compact_cursors: Vec<(usize, Vec<u8>)>,
    /// Deleted files: level and number.
    pub deleted_files: Vec<(usize, FileNumber)>,
    /// New files: level and description.
    pub new_files: Vec<(usize, FileMetaData)>,
    /// New blob files.
    pub blob_file_additions: Vec<BlobFileAddition>,
    /// Blobs that became garbage.
    pub blob_file_garbages: Vec<BlobFileGarbage>,
    /// WAL tracking: numbers, with the synced size if known. Read, never written.
    pub wal_additions: Vec<(FileNumber, Option<u64>)>,
    /// WAL tracking: every WAL with a smaller number is deleted. Read, never written.
    pub wal_deletion: Option<FileNumber>,
    /// The family that this edit changes.
    pub column_family: ColumnFamilyId,
    /// Name of the family, if the edit creates it.
    pub column_family_add: Option<String>,
    /// Whether the edit drops the family.
    pub column_family_drop: bool,
    /// Number of edits of the same atomic group that follow.
    pub remaining_in_atomic_group: Option<u32>,
    /// History below this user timestamp may be dropped.
    pub full_history_ts_low: Option<Vec<u8>>,
    /// Whether user timestamps are persisted.
    pub persist_user_defined_timestamps: Option<bool>,
    /// Skipped unknown tags that the format allows to skip.
    pub ignored_tags: Vec<u32>,
}
