//! Decodes version edits.

use super::encode::{BLOB_ITEMS_END, NO_LEVEL, file_tag, tag};
use super::{BlobFileAddition, BlobFileGarbage, FileMetaData, VersionEdit};
use crate::file_name::MAX_PATHS;
use crate::key::TRAILER_BYTES;
use esker_base::coding::Decoder;
use esker_base::{ColumnFamilyId, Error, FileNumber, Result, SequenceNumber};

/// The name of the checksum function of a file without a checksum.
const UNKNOWN_CHECKSUM_FUNCTION: &str = "Unknown";

const MAX_FILE_NUMBER: u64 = (1 << 62) - 1;

/// A larger level is damage; RocksDB's own limit is far below.
const MAX_LEVEL: u32 = 1 << 10;

impl VersionEdit {
    /// Parses one log record.
    /// # Errors
    /// `Corruption`, naming the tag, if the record is cut off, contradicts itself, or has an
    /// unknown mandatory tag · `NotSupported` if a name in it is not UTF-8.
    pub fn decode(bytes: &[u8]) -> Result<VersionEdit> {
        let mut edit = VersionEdit::default();
        let mut d = Decoder::new(bytes);
        while !d.is_empty() {
            let tag = d.varint32().map_err(|e| e.at("version edit, tag"))?;
            edit.decode_field(tag, &mut d).map_err(|e| e.at(format_args!("version edit, tag {tag}")))?;
        }
        Ok(edit)
    }

    fn decode_field(&mut self, tag: u32, d: &mut Decoder<'_>) -> Result<()> {
        match tag {
            tag::DB_ID => self.db_id = Some(text(d)?),
            tag::COMPARATOR => self.comparator = Some(text(d)?),
            tag::LOG_NUMBER => self.log_number = Some(FileNumber(d.varint64()?)),
            tag::PREV_LOG_NUMBER => self.prev_log_number = Some(FileNumber(d.varint64()?)),
            tag::NEXT_FILE_NUMBER => self.next_file_number = Some(FileNumber(d.varint64()?)),
            tag::MAX_COLUMN_FAMILY => self.max_column_family = Some(d.varint32()?),
            tag::MIN_LOG_NUMBER_TO_KEEP => self.min_log_number_to_keep = Some(FileNumber(d.varint64()?)),
            tag::LAST_SEQUENCE => self.last_sequence = Some(SequenceNumber(d.varint64()?)),
            tag::COLUMN_FAMILY => self.column_family = ColumnFamilyId(d.varint32()?),
            tag::COLUMN_FAMILY_ADD => self.column_family_add = Some(text(d)?),
            tag::COLUMN_FAMILY_DROP => self.column_family_drop = true,
            tag::IN_ATOMIC_GROUP => self.remaining_in_atomic_group = Some(d.varint32()?),
            tag::COMPACT_CURSOR => self.compact_cursors.push((level(d)?, internal_key(d)?)),
            tag::DELETED_FILE => self.deleted_files.push((level(d)?, FileNumber(d.varint64()?))),
            tag::NEW_FILE | tag::NEW_FILE2 | tag::NEW_FILE3 | tag::NEW_FILE4 => {
                let level = level(d)?;
                let file = self.decode_file(tag, d)?;
                self.new_files.push((level, file));
            }
            _ => return self.decode_rare_field(tag, d),
        }
        Ok(())
    }

    fn decode_rare_field(&mut self, tag: u32, d: &mut Decoder<'_>) -> Result<()> {
        match tag {
            tag::BLOB_FILE_ADDITION | tag::BLOB_FILE_ADDITION_DEPRECATED => {
                self.blob_file_additions.push(blob_addition(d)?);
            }
            tag::BLOB_FILE_GARBAGE | tag::BLOB_FILE_GARBAGE_DEPRECATED => {
                self.blob_file_garbages.push(blob_garbage(d)?);
            }
            tag::WAL_ADDITION_DEPRECATED => self.wal_additions.push(wal_addition(d)?),
            tag::WAL_ADDITION => {
                self.wal_additions.push(wal_addition(&mut Decoder::new(d.length_prefixed()?))?)
            }
            tag::WAL_DELETION_DEPRECATED => self.wal_deletion = Some(FileNumber(d.varint64()?)),
            tag::WAL_DELETION => {
                self.wal_deletion = Some(FileNumber(Decoder::new(d.length_prefixed()?).varint64()?));
            }
            tag::FULL_HISTORY_TS_LOW => {
                let timestamp = d.length_prefixed()?;
                if timestamp.is_empty() {
                    return Err(Error::corruption("empty timestamp"));
                }
                self.full_history_ts_low = Some(timestamp.to_vec());
            }
            tag::PERSIST_USER_DEFINED_TIMESTAMPS => {
                self.persist_user_defined_timestamps = Some(byte(d.length_prefixed()?)? == 1);
            }
            ignorable if ignorable & tag::SAFE_TO_IGNORE != 0 => {
                d.length_prefixed()?;
                self.ignored_tags.push(ignorable);
            }
            _ => return Err(Error::corruption("unknown, and not marked as one that may be skipped")),
        }
        Ok(())
    }

    fn decode_file(&mut self, tag: u32, d: &mut Decoder<'_>) -> Result<FileMetaData> {
        let mut file = FileMetaData { number: FileNumber(d.varint64()?), ..FileMetaData::default() };
        if file.number.0 > MAX_FILE_NUMBER {
            return Err(Error::corruption(format!("file number {} is too large", file.number)));
        }
        if tag == tag::NEW_FILE3 {
            file.path_id = path_id(d.varint32()?)?;
        }
        file.file_size = d.varint64()?;
        file.smallest = internal_key(d)?;
        file.largest = internal_key(d)?;
        if tag != tag::NEW_FILE {
            file.smallest_seqno = SequenceNumber(d.varint64()?);
            file.largest_seqno = SequenceNumber(d.varint64()?);
        }
        if tag == tag::NEW_FILE4 {
            self.decode_file_items(&mut file, d)?;
        }
        Ok(file)
    }

    fn decode_file_items(&mut self, file: &mut FileMetaData, d: &mut Decoder<'_>) -> Result<()> {
        let mut checksum = (Vec::new(), String::from(UNKNOWN_CHECKSUM_FUNCTION));
        loop {
            let tag = d.varint32()?;
            if tag == file_tag::TERMINATE {
                break;
            }
            let item = d.length_prefixed()?;
            match tag {
                file_tag::FILE_CHECKSUM => checksum.0 = item.to_vec(),
                file_tag::FILE_CHECKSUM_FUNCTION => checksum.1 = utf8(item)?,
                file_tag::MIN_LOG_NUMBER_TO_KEEP => {
                    self.min_log_number_to_keep = Some(FileNumber(Decoder::new(item).fixed64()?));
                }
                _ => decode_file_item(tag, item, file)
                    .map_err(|e| e.at(format_args!("table {}, custom tag {tag}", file.number)))?,
            }
        }
        if checksum.1 != UNKNOWN_CHECKSUM_FUNCTION {
            file.file_checksum = Some(checksum);
        }
        Ok(())
    }
}

impl FileMetaData {
    /// Parses [`FileMetaData::encode_without_level`].
    /// # Errors
    /// `Corruption` if it is something else, or cut off.
    pub(crate) fn decode_without_level(bytes: &[u8]) -> Result<FileMetaData> {
        let mut d = Decoder::new(bytes);
        let head = (d.varint32()?, d.varint32()?);
        if head != (tag::NEW_FILE4, NO_LEVEL) {
            return Err(Error::corruption("it is no file without a level"));
        }
        VersionEdit::default().decode_file(tag::NEW_FILE4, &mut d)
    }
}

fn decode_file_item(tag: u32, item: &[u8], file: &mut FileMetaData) -> Result<()> {
    let varint = || Decoder::new(item).varint64();
    match tag {
        file_tag::NEED_COMPACTION => file.marked_for_compaction = byte(item)? == 1,
        file_tag::OLDEST_BLOB_FILE_NUMBER => {
            // RocksDB writes 0 for "none".
            file.oldest_blob_file_number = Some(FileNumber(varint()?)).filter(|n| n.0 != 0);
        }
        file_tag::OLDEST_ANCESTOR_TIME => file.oldest_ancestor_time = varint()?,
        file_tag::FILE_CREATION_TIME => file.file_creation_time = varint()?,
        file_tag::TEMPERATURE => file.temperature = byte(item)?,
        file_tag::MIN_TIMESTAMP => file.min_timestamp = item.to_vec(),
        file_tag::MAX_TIMESTAMP => file.max_timestamp = item.to_vec(),
        file_tag::UNIQUE_ID => {
            let mut id = Decoder::new(item);
            let id_words = [id.fixed64()?, id.fixed64()?];
            if !id.is_empty() {
                return Err(Error::corruption("unique id is not 16 bytes long"));
            }
            file.unique_id = Some(id_words).filter(|id| *id != [0, 0]);
        }
        file_tag::EPOCH_NUMBER => file.epoch_number = varint()?,
        file_tag::COMPENSATED_RANGE_DELETION_SIZE => file.compensated_range_deletion_size = varint()?,
        file_tag::TAIL_SIZE => file.tail_size = varint()?,
        file_tag::USER_DEFINED_TIMESTAMPS_PERSISTED => {
            file.user_defined_timestamps_not_persisted = byte(item)? != 1;
        }
        file_tag::PATH_ID => file.path_id = path_id(u32::from(byte(item)?))?,
        unknown if unknown & file_tag::MUST_UNDERSTAND != 0 => {
            return Err(Error::corruption("unknown, and marked as one that must be understood"));
        }
        _ => {}
    }
    Ok(())
}

fn blob_addition(d: &mut Decoder<'_>) -> Result<BlobFileAddition> {
    let blob = BlobFileAddition {
        number: FileNumber(d.varint64()?),
        total_blob_count: d.varint64()?,
        total_blob_bytes: d.varint64()?,
        checksum_method: text(d)?,
        checksum_value: d.length_prefixed()?.to_vec(),
    };
    blob_items(d)?;
    Ok(blob)
}

fn blob_garbage(d: &mut Decoder<'_>) -> Result<BlobFileGarbage> {
    let garbage = BlobFileGarbage {
        number: FileNumber(d.varint64()?),
        garbage_blob_count: d.varint64()?,
        garbage_blob_bytes: d.varint64()?,
    };
    blob_items(d)?;
    Ok(garbage)
}

/// Skips the items behind a blob entry. This version defines no items.
fn blob_items(d: &mut Decoder<'_>) -> Result<()> {
    loop {
        let tag = d.varint32()?;
        if tag == BLOB_ITEMS_END {
            return Ok(());
        }
        if tag & file_tag::MUST_UNDERSTAND != 0 {
            return Err(Error::corruption(format!("custom tag {tag} of a blob file must be understood")));
        }
        d.length_prefixed()?;
    }
}

fn wal_addition(d: &mut Decoder<'_>) -> Result<(FileNumber, Option<u64>)> {
    const END: u32 = 1;
    const SYNCED_SIZE: u32 = 2;
    let number = FileNumber(d.varint64()?);
    let mut synced_size = None;
    loop {
        match d.varint32()? {
            END => return Ok((number, synced_size)),
            SYNCED_SIZE => synced_size = Some(d.varint64()?),
            tag => return Err(Error::corruption(format!("unknown tag {tag} in a WAL addition"))),
        }
    }
}

fn level(d: &mut Decoder<'_>) -> Result<usize> {
    match d.varint32()? {
        level @ 0..MAX_LEVEL => Ok(level as usize),
        level => Err(Error::corruption(format!("level {level} cannot be meant"))),
    }
}

/// Checks only the length: old bugs leaked unknown types into bounds.
fn internal_key(d: &mut Decoder<'_>) -> Result<Vec<u8>> {
    let key = d.length_prefixed()?;
    if key.len() < TRAILER_BYTES {
        return Err(Error::corruption(format!("internal key of {} bytes is too short", key.len())));
    }
    Ok(key.to_vec())
}

fn path_id(id: u32) -> Result<u32> {
    if (id as usize) < MAX_PATHS {
        Ok(id)
    } else {
        Err(Error::corruption(format!("path id {id} is above 3")))
    }
}

fn byte(item: &[u8]) -> Result<u8> {
    match item {
        [byte] => Ok(*byte),
        _ => Err(Error::corruption(format!("{} bytes where there should be one", item.len()))),
    }
}

fn text(d: &mut Decoder<'_>) -> Result<String> {
    utf8(d.length_prefixed()?)
}

fn utf8(bytes: &[u8]) -> Result<String> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(Error::not_supported(format!("name '{}' is not UTF-8", bytes.escape_ascii()))),
    }
}
