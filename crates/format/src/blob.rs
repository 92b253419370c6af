//! Blob indexes: references to values in blob files.
//!
//! In: the value of a `BlobIndex` entry. Out: the place of the real value. Source: RocksDB
//! `db/blob/blob_index.h`.
//!
//! ```text
//! kind u8 = 0 | expiration varint64 | value                                      inlined, with TTL
//! kind u8 = 1 | file varint64 | offset varint64 | size varint64 | compression u8
//! kind u8 = 2 | expiration varint64 | as 1                                         with TTL
//! ```
//!
//! Only the former stacked BlobDB wrote kinds 0 and 2.
//!
//! Page: `docs/format/values.md`.

use esker_base::coding::{Decoder, put_varint64};
use esker_base::{Error, FileNumber, Result};

pub mod file;
#[cfg(test)]
mod tests;

/// The place of a value in a blob file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlobLocation {
    /// The blob file.
    pub file_number: FileNumber,
    /// File offset of the value's bytes.
    pub offset: u64,
    /// Number of stored bytes.
    pub size: u64,
    /// RocksDB's code of the value's compression.
    pub compression: u8,
}

/// The value of a `BlobIndex` entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlobIndex<'a> {
    /// The value itself, valid until `expiration` (unix seconds).
    InlinedTtl {
        /// The time at which the value expires.
        expiration: u64,
        /// The value.
        value: &'a [u8],
    },
    /// A value in a blob file.
    Blob(BlobLocation),
    /// A value in a blob file, valid until `expiration` (unix seconds).
    BlobTtl {
        /// The time at which the value expires.
        expiration: u64,
        /// The place of the value.
        location: BlobLocation,
    },
}

impl<'a> BlobIndex<'a> {
    /// Parses a blob index.
    /// # Errors
    /// `Corruption` if it is cut off, too long or of an unknown kind.
    pub fn parse(bytes: &'a [u8]) -> Result<BlobIndex<'a>> {
        let mut d = Decoder::new(bytes);
        Ok(match d.u8()? {
            0 => BlobIndex::InlinedTtl { expiration: d.varint64()?, value: d.rest() },
            1 => BlobIndex::Blob(location(&mut d)?),
            2 => BlobIndex::BlobTtl { expiration: d.varint64()?, location: location(&mut d)? },
            kind => return Err(Error::corruption(format!("unknown kind {kind} of blob index"))),
        })
    }

    /// Appends the encoding of the index.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        match self {
            BlobIndex::InlinedTtl { expiration, value } => {
                out.push(0);
                put_varint64(out, *expiration);
                out.extend_from_slice(value);
            }
            BlobIndex::Blob(location) => {
                out.push(1);
                put_location(out, location);
            }
            BlobIndex::BlobTtl { expiration, location } => {
                out.push(2);
                put_varint64(out, *expiration);
                put_location(out, location);
            }
        }
    }
}

fn location(d: &mut Decoder<'_>) -> Result<BlobLocation> {
    let location = BlobLocation {
        file_number: FileNumber(d.varint64()?),
        offset: d.varint64()?,
        size: d.varint64()?,
        compression: d.u8()?,
    };
    if d.is_empty() { Ok(location) } else { Err(Error::corruption("bytes behind a blob index")) }
}

fn put_location(out: &mut Vec<u8>, location: &BlobLocation) {
    put_varint64(out, location.file_number.0);
    put_varint64(out, location.offset);
    put_varint64(out, location.size);
    out.push(location.compression);
}
