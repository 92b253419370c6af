//! RocksDB 11's embedded blobs: values in the table's own file, between its data blocks.
//!
//! In: a stored data block. Out: the block with all its values in place.
//! Source: RocksDB `table/embedded_blob_sst.h`, `table/block_based/block_based_table_reader.cc`.
//!
//! An entry of type `BlobIndex`, or a column of an entity, names file number 0, and the offset and
//! size of its value in this file. A block trailer follows the value. Only `SstFileWriter` makes
//! such tables, and only on request.
//!
//! Invariants
//!  1. A resolved block holds no blob index of file number 0: callers never meet one.
//!  2. A resolved entry's type is `Value`, which sorts behind `BlobIndex`. These tables hold each
//!     user key once, so no order changes.

use crate::block_source::{BlockSource, CachedBlock};
use esker_base::{Buffer, Error, Result, ValueType};
use esker_format::blob::{BlobIndex, BlobLocation};
use esker_format::block::{Block, BlockBuilder, BlockCursor};
use esker_format::compression::CompressionType;
use esker_format::handle::BlockHandle;
use esker_format::key::{self, ParsedInternalKey};
use esker_format::trailer::compression_code;
use esker_format::wide_column::stored::{StoredColumns, StoredValue, may_have_blobs};

/// The restart interval of resolved blocks, which exist in memory only.
const RESTART_INTERVAL: usize = 16;

/// The data block with its values in place. `verify`: checks the payloads' checksums.
/// # Errors
/// `Corruption` for malformed blob indexes and payloads · `IoError` · `NotSupported` for blobs that
/// expire.
pub(crate) fn resolve(source: &BlockSource, block: CachedBlock, verify: bool) -> Result<CachedBlock> {
    let CachedBlock::KeyValue(stored) = &block else { return Ok(block) };
    let mut builder = BlockBuilder::new(RESTART_INTERVAL);
    let mut cursor = BlockCursor::new();
    let mut changed = false;
    cursor.seek_to_first(stored)?;
    while cursor.valid() {
        let (here, value) = (ParsedInternalKey::parse(cursor.key())?, cursor.value(stored));
        match whole(source, &here, value, verify)? {
            Some((value_type, value)) => {
                changed = true;
                let key = key::internal_key(here.user_key, here.sequence, value_type);
                check_room(&builder, &key, &value)?;
                builder.add(&key, &value);
            }
            None => {
                check_room(&builder, cursor.key(), value)?;
                builder.add(cursor.key(), value);
            }
        }
        cursor.next(stored)?;
    }
    if changed {
        Ok(CachedBlock::KeyValue(Block::parse(std::mem::take(builder.finish_mut()))?))
    } else {
        Ok(block)
    }
}

/// Checks that the block has room for the entry.
/// # Errors
/// `NotSupported`: the values of the block have 4 GiB or more.
fn check_room(builder: &BlockBuilder, key: &[u8], value: &[u8]) -> Result<()> {
    if u32::try_from(builder.size_estimate_after(key, value)).is_err() {
        return Err(Error::not_supported("a data block whose embedded blobs have 4 GiB or more"));
    }
    Ok(())
}

/// Type and value of the entry with its embedded values in place; `None` if it has none.
fn whole(
    source: &BlockSource,
    key: &ParsedInternalKey<'_>,
    value: &[u8],
    verify: bool,
) -> Result<Option<(ValueType, Vec<u8>)>> {
    match key.value_type {
        ValueType::BlobIndex => match BlobIndex::parse(value)? {
            BlobIndex::Blob(location) if location.file_number.0 == 0 => {
                Ok(Some((ValueType::Value, payload(source, location, verify)?)))
            }
            BlobIndex::Blob(_) => Ok(None),
            _ => Err(Error::not_supported("embedded blobs that expire")),
        },
        ValueType::WideColumnEntity if may_have_blobs(value) => {
            let stored = StoredColumns::parse(value)?;
            let mut fetched = Vec::new();
            for (_, column) in &stored.columns {
                fetched.push(match column {
                    StoredValue::Blob(location) if location.file_number.0 == 0 => {
                        Some(payload(source, *location, verify)?)
                    }
                    _ => None,
                });
            }
            let columns = stored.columns.iter().zip(&fetched).map(|((name, column), fetched)| {
                (*name, fetched.as_deref().map_or(*column, StoredValue::Inline))
            });
            let mut bytes = Vec::new();
            StoredColumns { columns: columns.collect() }.append_to(&mut bytes)?;
            Ok(Some((ValueType::WideColumnEntity, bytes)))
        }
        _ => Ok(None),
    }
}

/// The bytes at `location`, without the block trailer behind them.
fn payload(source: &BlockSource, location: BlobLocation, verify: bool) -> Result<Vec<u8>> {
    let handle = BlockHandle { offset: location.offset, size: location.size };
    source.read_checked(handle, |stored| checked_payload(source, location, stored, verify))
}

/// The payload in `stored`, decompressed.
fn checked_payload(
    source: &BlockSource,
    location: BlobLocation,
    mut stored: Buffer,
    verify: bool,
) -> Result<Vec<u8>> {
    let handle = BlockHandle { offset: location.offset, size: location.size };
    let in_trailer =
        if verify { source.guard.check(&stored, handle.offset) } else { compression_code(&stored) }
            .map_err(|e| source.at(e.at("embedded blob"), handle))?;
    if in_trailer != location.compression {
        let why = format!("an embedded blob has codec {in_trailer}, its index {}", location.compression);
        return Err(source.at(Error::corruption(why), handle));
    }
    stored.truncate(stored.len() - esker_format::trailer::TRAILER_BYTES);
    match CompressionType::from_u8(in_trailer)? {
        CompressionType::None => Ok(stored.to_vec()),
        codec => source.decompressor.decompress(codec, &stored).map_err(|e| source.at(e, handle)),
    }
}
