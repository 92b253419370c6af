//! Encodes version edits, in RocksDB's order of tags.

use super::{BlobFileAddition, BlobFileGarbage, FileMetaData, VersionEdit};
use esker_base::coding::{put_length_prefixed, put_varint32, put_varint64};

/// Tags on disk.
pub(super) mod tag {
    pub(crate) const COMPARATOR: u32 = 1;
    pub(crate) const LOG_NUMBER: u32 = 2;
    pub(crate) const NEXT_FILE_NUMBER: u32 = 3;
    pub(crate) const LAST_SEQUENCE: u32 = 4;
    pub(crate) const COMPACT_CURSOR: u32 = 5;
    pub(crate) const DELETED_FILE: u32 = 6;
    pub(crate) const NEW_FILE: u32 = 7;
    pub(crate) const PREV_LOG_NUMBER: u32 = 9;
    pub(crate) const MIN_LOG_NUMBER_TO_KEEP: u32 = 10;
    pub(crate) const NEW_FILE2: u32 = 100;
    pub(crate) const NEW_FILE3: u32 = 102;
    pub(crate) const NEW_FILE4: u32 = 103;
    pub(crate) const COLUMN_FAMILY: u32 = 200;
    pub(crate) const COLUMN_FAMILY_ADD: u32 = 201;
    pub(crate) const COLUMN_FAMILY_DROP: u32 = 202;
    pub(crate) const MAX_COLUMN_FAMILY: u32 = 203;
    pub(crate) const IN_ATOMIC_GROUP: u32 = 300;
    pub(crate) const BLOB_FILE_ADDITION: u32 = 400;
    pub(crate) const BLOB_FILE_GARBAGE: u32 = 401;
    /// Tags with this bit may be skipped.
    pub(crate) const SAFE_TO_IGNORE: u32 = 1 << 13;
    pub(crate) const DB_ID: u32 = 8193;
    pub(crate) const BLOB_FILE_ADDITION_DEPRECATED: u32 = 8194;
    pub(crate) const BLOB_FILE_GARBAGE_DEPRECATED: u32 = 8195;
    pub(crate) const WAL_ADDITION_DEPRECATED: u32 = 8196;
    pub(crate) const WAL_DELETION_DEPRECATED: u32 = 8197;
    pub(crate) const FULL_HISTORY_TS_LOW: u32 = 8198;
    pub(crate) const WAL_ADDITION: u32 = 8199;
    pub(crate) const WAL_DELETION: u32 = 8200;
    pub(crate) const PERSIST_USER_DEFINED_TIMESTAMPS: u32 = 8201;
}

/// Tags within the description of a table.
pub(super) mod file_tag {
    pub(crate) const TERMINATE: u32 = 1;
    pub(crate) const NEED_COMPACTION: u32 = 2;
    pub(crate) const MIN_LOG_NUMBER_TO_KEEP: u32 = 3;
    pub(crate) const OLDEST_BLOB_FILE_NUMBER: u32 = 4;
    pub(crate) const OLDEST_ANCESTOR_TIME: u32 = 5;
    pub(crate) const FILE_CREATION_TIME: u32 = 6;
    pub(crate) const FILE_CHECKSUM: u32 = 7;
    pub(crate) const FILE_CHECKSUM_FUNCTION: u32 = 8;
    pub(crate) const TEMPERATURE: u32 = 9;
    pub(crate) const MIN_TIMESTAMP: u32 = 10;
    pub(crate) const MAX_TIMESTAMP: u32 = 11;
    pub(crate) const UNIQUE_ID: u32 = 12;
    pub(crate) const EPOCH_NUMBER: u32 = 13;
    pub(crate) const COMPENSATED_RANGE_DELETION_SIZE: u32 = 14;
    pub(crate) const TAIL_SIZE: u32 = 15;
    pub(crate) const USER_DEFINED_TIMESTAMPS_PERSISTED: u32 = 16;
    pub(crate) const PATH_ID: u32 = 65;
    /// Tags with this bit must be understood.
    pub(crate) const MUST_UNDERSTAND: u32 = 1 << 6;
}

/// The level -1 of a file that is in no level yet.
pub(super) const NO_LEVEL: u32 = u32::MAX;

/// Ends the items of a blob entry.
pub(super) const BLOB_ITEMS_END: u32 = 0;

impl VersionEdit {
    /// Appends its bytes: one log record.
    pub fn encode_to(&self, out: &mut Vec<u8>) {
        self.encode_header(out);
        for (level, key) in &self.compact_cursors {
            put_level(out, tag::COMPACT_CURSOR, *level);
            put_length_prefixed(out, key);
        }
        for (level, number) in &self.deleted_files {
            put_level(out, tag::DELETED_FILE, *level);
            put_varint64(out, number.0);
        }
        for (level, file) in &self.new_files {
            put_level(out, tag::NEW_FILE4, *level);
            encode_file(out, file);
        }
        for blob in &self.blob_file_additions {
            put_varint32(out, tag::BLOB_FILE_ADDITION);
            encode_blob_addition(out, blob);
        }
        for garbage in &self.blob_file_garbages {
            put_varint32(out, tag::BLOB_FILE_GARBAGE);
            encode_blob_garbage(out, garbage);
        }
        self.encode_family(out);
    }

    /// Its bytes in a vector of their own.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode_to(&mut out);
        out
    }

    fn encode_header(&self, out: &mut Vec<u8>) {
        put_text(out, tag::DB_ID, self.db_id.as_deref());
        put_text(out, tag::COMPARATOR, self.comparator.as_deref());
        put_number(out, tag::LOG_NUMBER, self.log_number.map(|n| n.0));
        put_number(out, tag::PREV_LOG_NUMBER, self.prev_log_number.map(|n| n.0));
        put_number(out, tag::NEXT_FILE_NUMBER, self.next_file_number.map(|n| n.0));
        put_number(out, tag::MAX_COLUMN_FAMILY, self.max_column_family.map(u64::from));
        put_number(out, tag::MIN_LOG_NUMBER_TO_KEEP, self.min_log_number_to_keep.map(|n| n.0));
        put_number(out, tag::LAST_SEQUENCE, self.last_sequence.map(|s| s.0));
    }

    fn encode_family(&self, out: &mut Vec<u8>) {
        if self.column_family.0 != 0 {
            put_number(out, tag::COLUMN_FAMILY, Some(u64::from(self.column_family.0)));
        }
        put_text(out, tag::COLUMN_FAMILY_ADD, self.column_family_add.as_deref());
        if self.column_family_drop {
            put_varint32(out, tag::COLUMN_FAMILY_DROP);
        }
        put_number(out, tag::IN_ATOMIC_GROUP, self.remaining_in_atomic_group.map(u64::from));
        if let Some(ts) = &self.full_history_ts_low {
            put_item(out, tag::FULL_HISTORY_TS_LOW, ts);
        }
        if let Some(persisted) = self.persist_user_defined_timestamps {
            put_item(out, tag::PERSIST_USER_DEFINED_TIMESTAMPS, &[u8::from(persisted)]);
        }
    }
}

impl FileMetaData {
    /// The file as a version edit describes a new file, with the level -1.
    pub(crate) fn encode_without_level(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint32(&mut out, tag::NEW_FILE4);
        put_varint32(&mut out, NO_LEVEL);
        encode_file(&mut out, self);
        out
    }
}

fn encode_file(out: &mut Vec<u8>, file: &FileMetaData) {
    put_varint64(out, file.number.0);
    put_varint64(out, file.file_size);
    put_length_prefixed(out, &file.smallest);
    put_length_prefixed(out, &file.largest);
    put_varint64(out, file.smallest_seqno.0);
    put_varint64(out, file.largest_seqno.0);
    put_varint_item(out, file_tag::OLDEST_ANCESTOR_TIME, file.oldest_ancestor_time);
    put_varint_item(out, file_tag::FILE_CREATION_TIME, file.file_creation_time);
    put_known(out, file_tag::EPOCH_NUMBER, file.epoch_number);
    if let Some((value, function)) = &file.file_checksum {
        put_item(out, file_tag::FILE_CHECKSUM, value);
        put_item(out, file_tag::FILE_CHECKSUM_FUNCTION, function.as_bytes());
    }
    // Four paths at most: RocksDB packs the index into two bits.
    if let Ok(path_id @ 1..) = u8::try_from(file.path_id) {
        put_item(out, file_tag::PATH_ID, &[path_id]);
    }
    if file.temperature != 0 {
        put_item(out, file_tag::TEMPERATURE, &[file.temperature]);
    }
    if file.marked_for_compaction {
        put_item(out, file_tag::NEED_COMPACTION, &[1]);
    }
    if let Some(number) = file.oldest_blob_file_number {
        put_varint_item(out, file_tag::OLDEST_BLOB_FILE_NUMBER, number.0);
    }
    if let Some([low, high]) = file.unique_id {
        let mut id = [0; 16];
        for (to, from) in id.iter_mut().zip(low.to_le_bytes().into_iter().chain(high.to_le_bytes())) {
            *to = from;
        }
        put_item(out, file_tag::UNIQUE_ID, &id);
    }
    put_known(out, file_tag::COMPENSATED_RANGE_DELETION_SIZE, file.compensated_range_deletion_size);
    put_known(out, file_tag::TAIL_SIZE, file.tail_size);
    if file.user_defined_timestamps_not_persisted {
        put_item(out, file_tag::USER_DEFINED_TIMESTAMPS_PERSISTED, &[0]);
    }
    if !file.min_timestamp.is_empty() {
        put_item(out, file_tag::MIN_TIMESTAMP, &file.min_timestamp);
    }
    if !file.max_timestamp.is_empty() {
        put_item(out, file_tag::MAX_TIMESTAMP, &file.max_timestamp);
    }
    put_varint32(out, file_tag::TERMINATE);
}

fn encode_blob_addition(out: &mut Vec<u8>, blob: &BlobFileAddition) {
    put_varint64(out, blob.number.0);
    put_varint64(out, blob.total_blob_count);
    put_varint64(out, blob.total_blob_bytes);
    put_length_prefixed(out, blob.checksum_method.as_bytes());
    put_length_prefixed(out, &blob.checksum_value);
    put_varint32(out, BLOB_ITEMS_END);
}

fn encode_blob_garbage(out: &mut Vec<u8>, garbage: &BlobFileGarbage) {
    put_varint64(out, garbage.number.0);
    put_varint64(out, garbage.garbage_blob_count);
    put_varint64(out, garbage.garbage_blob_bytes);
    put_varint32(out, BLOB_ITEMS_END);
}

fn put_level(out: &mut Vec<u8>, tag: u32, level: usize) {
    put_varint32(out, tag);
    put_varint64(out, level as u64);
}

fn put_number(out: &mut Vec<u8>, tag: u32, number: Option<u64>) {
    if let Some(number) = number {
        put_varint32(out, tag);
        put_varint64(out, number);
    }
}

fn put_text(out: &mut Vec<u8>, tag: u32, text: Option<&str>) {
    if let Some(text) = text {
        put_item(out, tag, text.as_bytes());
    }
}

fn put_item(out: &mut Vec<u8>, tag: u32, bytes: &[u8]) {
    put_varint32(out, tag);
    put_length_prefixed(out, bytes);
}

fn put_varint_item(out: &mut Vec<u8>, tag: u32, number: u64) {
    let mut bytes = Vec::with_capacity(10);
    put_varint64(&mut bytes, number);
    put_item(out, tag, &bytes);
}

/// 0 stands for "unknown" and is not written.
fn put_known(out: &mut Vec<u8>, tag: u32, number: u64) {
    if number != 0 {
        put_varint_item(out, tag, number);
    }
}
