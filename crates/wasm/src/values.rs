//! Values: the bytes that a reader gets for a key.
//!
//! In: the visible version of a key, and the operands above it. Out: its value; from a blob file if
//! it lies there, and the default column of an entity.

use crate::files::DirectoryFiles;
use crate::merge::{FoundKey, FoundVersion};
use esker_base::{Error, Result, ValueType};
use esker_format::blob::file::{BlobRecordHeader, RECORD_HEADER_BYTES};
use esker_format::blob::{BlobIndex, BlobLocation};
use esker_format::compression::{CompressionType, Decompressor};
use esker_format::wide_column::stored::{StoredColumns, StoredValue};
use std::ops::Range;

/// The value of a key; `None` if the key is deleted. `merge` puts the operands onto a value.
/// # Errors
/// `Corruption` · `NotSupported` · those of `merge`.
pub(crate) fn resolve(
    found: &FoundKey,
    files: &DirectoryFiles,
    merge: impl FnOnce(Option<&[u8]>) -> Result<Vec<u8>>,
) -> Result<Option<Vec<u8>>> {
    let base = found.base.as_ref().map(|version| base(version, files)).transpose()?;
    if found.operands.is_empty() { Ok(base) } else { merge(base.as_deref()).map(Some) }
}

/// The value of a version.
fn base(version: &FoundVersion, files: &DirectoryFiles) -> Result<Vec<u8>> {
    let (key, stored) = (&version.stored_key, &version.value);
    Ok(match version.kind {
        ValueType::Value => stored.clone(),
        // Behind the value lies a sequence number, which matters to compactions only.
        ValueType::ValuePreferredSeqno => match stored.split_last_chunk::<8>() {
            Some((value, _)) => value.to_vec(),
            None => return Err(Error::corruption("a value without its preferred sequence number")),
        },
        ValueType::BlobIndex => match BlobIndex::parse(stored)? {
            BlobIndex::Blob(location) => blob(key, location, files)?,
            _ => return Err(Error::not_supported("blobs that expire")),
        },
        ValueType::WideColumnEntity => match StoredColumns::parse(stored)?.default_value() {
            None => Vec::new(),
            Some(StoredValue::Inline(value)) => value.to_vec(),
            Some(StoredValue::Blob(location)) => blob(key, location, files)?,
        },
        kind => return Err(Error::corruption(format!("a version of the type {kind:?}"))),
    })
}

/// Reads a value from its blob file.
fn blob(user_key: &[u8], location: BlobLocation, files: &DirectoryFiles) -> Result<Vec<u8>> {
    let name = format!("{:06}.blob", location.file_number.0);
    let bytes = files.get(&name)?;
    let outside = || Error::corruption(format!("{name}: a blob outside of its file"));
    let (header, key, value) = places(user_key, location).ok_or_else(outside)?;
    let header = BlobRecordHeader::parse(bytes.get(header).ok_or_else(outside)?).map_err(|e| e.at(&name))?;
    let stored = bytes.get(value).ok_or_else(outside)?;
    header.check(user_key, stored).map_err(|e| e.at(&name))?;
    if bytes.get(key) != Some(user_key) {
        return Err(Error::corruption(format!("{name}: a blob of another key")));
    }
    let kind = CompressionType::from_u8(location.compression)?;
    Decompressor::new(2).decompress(kind, stored).map_err(|e| e.at(&name))
}

/// The places of a record's header, key and value.
fn places(user_key: &[u8], location: BlobLocation) -> Option<(Range<usize>, Range<usize>, Range<usize>)> {
    let value = usize::try_from(location.offset).ok()?;
    let end = value.checked_add(usize::try_from(location.size).ok()?)?;
    let key = value.checked_sub(user_key.len())?;
    let header = key.checked_sub(RECORD_HEADER_BYTES)?;
    Some((header..key, key..value, value..end))
}
