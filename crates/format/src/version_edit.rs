//! MANIFEST records: changes from one version of the database to the next.
//!
//! In: a version edit. Out: one log record, and back. Source: RocksDB `db/version_edit.cc`. Page:
//! `docs/format/manifest.md`.
//!
//! `(tag varint32, payload)*`
//!
//! Invariants
//!  1. A reader skips an unknown tag with bit 13 set; its payload is one length-prefixed slice. Any
//!     other unknown tag is `Corruption`. In the description of a table, an unknown custom tag with
//!     bit 6 set is `Corruption`; a reader skips the others.
//!  2. RocksDB 7.8 and 11 understand all that Esker writes. Tags come in RocksDB's order. Esker
//!     never writes the tags of WAL tracking: with them, read-only opens of RocksDB fail.
//!  3. An edit without changes has no bytes, and is legal.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

use esker_base::{ColumnFamilyId, FileNumber, SequenceNumber};

/// The description of a table in the MANIFEST (NewFile4 and its older forms).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FileMetaData {
    /// The file number.
    pub number: FileNumber,
    /// Index into the database's paths; 0 is the database directory.
    pub path_id: u32,
    /// Size in bytes.
    pub file_size: u64,
    /// Smallest internal key, range tombstones included. Not parsed: old bugs of RocksDB wrote
    /// bounds with unknown types.
    pub smallest: Vec<u8>,
    /// Largest internal key, range tombstones included. This bound is exclusive if it ends with
    /// `key::RANGE_END_SENTINEL`.
    pub largest: Vec<u8>,
    /// Smallest sequence number of the table's entries.
    pub smallest_seqno: SequenceNumber,
    /// Largest sequence number of the table's entries.
    pub largest_seqno: SequenceNumber,
    /// Whether the flush or compaction that wrote the table marked it for compaction.
    pub marked_for_compaction: bool,
    /// Smallest number of a blob file to which an entry of the table refers, if any.
    pub oldest_blob_file_number: Option<FileNumber>,
    /// Creation time of the oldest file whose data came into this one, in unix seconds; 0 if
    /// unknown.
    pub oldest_ancestor_time: u64,
    /// Time of the file's creation, in unix seconds; 0 if unknown.
    pub file_creation_time: u64,
    /// Orders the level-0 files of the family by age; 0 if unknown.
    pub epoch_number: u64,
    /// Checksum of the whole file, and the name of the checksum function. `None` if nothing
    /// computed one.
    pub file_checksum: Option<(Vec<u8>, String)>,
    /// Temperature code; 0 if unknown.
    pub temperature: u8,
    /// The table's unique id (two little-endian u64), if known.
    pub unique_id: Option<[u64; 2]>,
    /// Estimate of the bytes in other files that this table's range tombstones hide.
    pub compensated_range_deletion_size: u64,
    /// File bytes after the data blocks; 0 if unknown.
    pub tail_size: u64,
    /// Smallest user-defined timestamp in the table.
    pub min_timestamp: Vec<u8>,
    /// Largest user-defined timestamp in the table.
    pub max_timestamp: Vec<u8>,
    /// Whether the table stores keys without their timestamps.
    pub user_defined_timestamps_not_persisted: bool,
}

/// A new blob file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BlobFileAddition {
    /// The file number.
    pub number: FileNumber,
    /// Number of records in the file.
    pub total_blob_count: u64,
    /// Bytes of the file's records.
    pub total_blob_bytes: u64,
    /// Name of the function that made `checksum_value`; empty if there is none.
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
    /// This family needs no WAL with a smaller number.
    pub log_number: Option<FileNumber>,
    /// A WAL before `log_number` that is needed, too; 0 (none) in files of current releases.
    pub prev_log_number: Option<FileNumber>,
    /// The next file number: all numbers in use are smaller.
    pub next_file_number: Option<FileNumber>,
    /// The newest sequence number in any file.
    pub last_sequence: Option<SequenceNumber>,
    /// No family needs a WAL with a smaller number.
    pub min_log_number_to_keep: Option<FileNumber>,
    /// Largest family id ever used.
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
    /// WAL tracking: every WAL with a smaller number was deleted. Read, never written.
    pub wal_deletion: Option<FileNumber>,
    /// The family that this edit changes.
    pub column_family: ColumnFamilyId,
    /// Name of the family, if the edit creates it.
    pub column_family_add: Option<String>,
    /// Whether the edit drops the family.
    pub column_family_drop: bool,
    /// Number of edits of the same atomic group that follow this one. The edits of a group take
    /// effect together.
    pub remaining_in_atomic_group: Option<u32>,
    /// History below this user timestamp may be dropped.
    pub full_history_ts_low: Option<Vec<u8>>,
    /// Whether user timestamps are persisted.
    pub persist_user_defined_timestamps: Option<bool>,
    /// Unknown tags that the reader skipped.
    pub ignored_tags: Vec<u32>,
}
