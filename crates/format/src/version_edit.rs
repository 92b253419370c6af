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
//!     set is fatal and others are skipped.
//!  2. RocksDB 7.8 and 11 understand everything written: tags come in RocksDB's order, and WAL
//!     tracking (which makes their read-only opens fail) is never written.
//!  3. An edit without changes has no bytes, and is legal.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

use esker_base::{ColumnFamilyId, FileNumber, SequenceNumber};

/// One table file as the MANIFEST describes it (NewFile4 and its elders).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FileMetaData {
    /// Its number.
    pub number: FileNumber,
    /// Index into the database's paths; 0 is the database directory.
    pub path_id: u32,
    /// Bytes.
    pub file_size: u64,
    /// First internal key, range tombstones included. Bytes, because old bugs leaked odd types into
    /// bounds.
    pub smallest: Vec<u8>,
    /// Last internal key, range tombstones included; exclusive if it ends in
    /// `key::RANGE_END_SENTINEL`.
    pub largest: Vec<u8>,
    /// Smallest sequence number in it.
    pub smallest_seqno: SequenceNumber,
    /// Largest sequence number in it.
    pub largest_seqno: SequenceNumber,
    /// Whether a former compaction marked it for compaction.
    pub marked_for_compaction: bool,
    /// Smallest blob file its entries point into, if any.
    pub oldest_blob_file_number: Option<FileNumber>,
    /// Unix seconds; 0 unknown.
    pub oldest_ancestor_time: u64,
    /// Unix seconds; 0 unknown.
    pub file_creation_time: u64,
    /// Order among level-0 files of the family; 0 unknown.
    pub epoch_number: u64,
    /// Whole-file checksum and its function's name, if one was made.
    pub file_checksum: Option<(Vec<u8>, String)>,
    /// Temperature code, 0 unknown.
    pub temperature: u8,
    /// The table's unique id (two little-endian u64), if known.
    pub unique_id: Option<[u64; 2]>,
    /// Estimated bytes that its range tombstones hide elsewhere.
    pub compensated_range_deletion_size: u64,
    /// File bytes after the data blocks; 0 unknown.
    pub tail_size: u64,
    /// Smallest and largest user timestamps.
    pub min_timestamp: Vec<u8>,
    /// See `min_timestamp`.
    pub max_timestamp: Vec<u8>,
    /// Whether stored keys carry their timestamps (absent means yes).
    pub user_defined_timestamps_not_persisted: bool,
}

/// A blob file that appeared.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BlobFileAddition {
    /// Its number.
    pub number: FileNumber,
    /// Records in it.
    pub total_blob_count: u64,
    /// Bytes of its records.
    pub total_blob_bytes: u64,
    /// Whole-file checksum function, empty if none.
    pub checksum_method: String,
    /// Whole-file checksum, empty if none.
    pub checksum_value: Vec<u8>,
}

/// Records of a blob file that became garbage.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BlobFileGarbage {
    /// Its number.
    pub number: FileNumber,
    /// More records that are garbage now.
    pub garbage_blob_count: u64,
    /// Their bytes.
    pub garbage_blob_bytes: u64,
}

/// One MANIFEST record.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VersionEdit {
    /// The database's id.
    pub db_id: Option<String>,
    /// Name of the family's comparator.
    pub comparator: Option<String>,
    /// WALs below this number hold nothing this family needs.
    pub log_number: Option<FileNumber>,
    /// Always 0 nowadays.
    pub prev_log_number: Option<FileNumber>,
    /// Every file number in use is below this.
    pub next_file_number: Option<FileNumber>,
    /// The newest sequence number in any file.
    pub last_sequence: Option<SequenceNumber>,
    /// WALs below this number are not needed by the database at all.
    pub min_log_number_to_keep: Option<FileNumber>,
    /// Largest family id ever used.
    pub max_column_family: Option<u32>,
    /// Round-robin cursors: level and internal key.
    pub compact_cursors: Vec<(usize, Vec<u8>)>,
    /// Files that are gone: level and number.
    pub deleted_files: Vec<(usize, FileNumber)>,
    /// Files that are new: level and description.
    pub new_files: Vec<(usize, FileMetaData)>,
    /// Blob files that are new.
    pub blob_file_additions: Vec<BlobFileAddition>,
    /// Blobs that became garbage.
    pub blob_file_garbages: Vec<BlobFileGarbage>,
    /// WAL tracking: numbers, with the synced size if known. Read, never written.
    pub wal_additions: Vec<(FileNumber, Option<u64>)>,
    /// WAL tracking: every smaller number is gone. Read, never written.
    pub wal_deletion: Option<FileNumber>,
    /// The family this edit is about.
    pub column_family: ColumnFamilyId,
    /// The family is new and has this name.
    pub column_family_add: Option<String>,
    /// The family is gone.
    pub column_family_drop: bool,
    /// Number of edits of the same atomic group that follow.
    pub remaining_in_atomic_group: Option<u32>,
    /// History below this user timestamp may be dropped.
    pub full_history_ts_low: Option<Vec<u8>>,
    /// Whether user timestamps are persisted.
    pub persist_user_defined_timestamps: Option<bool>,
    /// Tags that were skipped because the format says they may be.
    pub ignored_tags: Vec<u32>,
}
