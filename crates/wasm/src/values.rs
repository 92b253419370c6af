//! Values: the bytes that a reader gets for a version.
//!
//! In: the newest version of a key. Out: its value; from a blob file if it lies there, and the
//! default column of an entity.

use crate::files::DirectoryFiles;
use crate::merge::NewestVersion;
use esker_base::{Error, Result, ValueType};
use esker_format::blob::file::{BlobRecordHeader, RECORD_HEADER_BYTES};
use esker_format::blob::{BlobIndex, BlobLocation};
use esker_format::compression::{CompressionType, Decompressor};
use esker_format::wide_column::stored::{StoredColumns, StoredValue};
use std::ops::Range;

/// The value of a version; `None` if the key is deleted.
/// # Errors
/// `Corruption` · `NotSupported`.
pub(crate) fn resolve(version: &NewestVersion, files: &DirectoryFiles) -> Result<Option<Vec<u8>>> {
    if version.is_deleted {
        return Ok(None);
    }
    let (key, stored) = (&version.user_key, &version.value);
    let value = match version.kind {
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
        ValueType::Merge => {
            return Err(Error::not_supported(format!(
                "key '{}' has merge operands, and this reader has no merge operator",
                key.escape_ascii()
            )));
        }
        kind => return Err(Error::corruption(format!("a version of the type {kind:?}"))),
    };
    Ok(Some(value))
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
