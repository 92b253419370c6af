//! Blob files: large values of a flush or compaction, back to back. Tables refer to the values.
//! Compactions copy only the references, unless garbage collection moves the values.
//!
//! In: user keys and stored values. Out: the bytes of header, records and footer, and back.
//! Source: RocksDB `db/blob/blob_log_format.h`.
//!
//! ```text
//! file   := header record* footer                            little-endian; crc = masked CRC32C
//! header := magic u32 = 00248F37 | version u32 = 1 | family u32 | flags u8 | compression u8
//!         | expiration u64 × 2                                                          30 bytes
//! record := key bytes u64 | value bytes u64 | expiration u64 | crc of these u32
//!         | crc of key and value u32                                                    32 bytes
//!         | key | value
//! footer := magic u32 | records u64 | expiration u64 × 2 | crc of these u32             32 bytes
//! ```
//!
//! Invariants
//!  1. Flags and expirations are 0: only the former stacked BlobDB wrote others.
//!  2. All values of a file are stored under the compression code of its header.
//!  3. A blob index points at the value; its record begins 32 bytes and a key before.
//!
//! Page: `docs/format/values.md`.

use esker_base::coding::{Decoder, put_fixed32, put_fixed64};
use esker_base::{ColumnFamilyId, Error, Result, crc32c};

#[cfg(test)]
mod tests;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 30;

/// Bytes of a record before its key.
pub const RECORD_HEADER_BYTES: usize = 32;

/// Bytes of the footer.
pub const FOOTER_BYTES: usize = 32;

const MAGIC: u32 = 0x0024_8F37;
const VERSION: u32 = 1;
const HAS_TTL: u8 = 1;

/// The header of a blob file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlobFileHeader {
    /// The family of the file's values.
    pub column_family: ColumnFamilyId,
    /// RocksDB's code of the compression of all values.
    pub compression: u8,
}

impl BlobFileHeader {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        put_fixed32(&mut out, MAGIC);
        put_fixed32(&mut out, VERSION);
        put_fixed32(&mut out, self.column_family.0);
        out.push(0);
        out.push(self.compression);
        put_fixed64(&mut out, 0);
        put_fixed64(&mut out, 0);
        out
    }

    /// Parses a header.
    /// # Errors
    /// `Corruption` if it is not the header of a blob file · `NotSupported` for another version, or
    /// for values that expire.
    pub fn parse(bytes: &[u8]) -> Result<BlobFileHeader> {
        let mut d = Decoder::new(bytes);
        if d.fixed32()? != MAGIC {
            return Err(Error::corruption("bad magic number at the head of a blob file"));
        }
        let version = d.fixed32()?;
        if version != VERSION {
            return Err(Error::not_supported(format!("blob file of version {version}")));
        }
        let column_family = ColumnFamilyId(d.fixed32()?);
        let (flags, compression) = (d.u8()?, d.u8()?);
        let expiration = (d.fixed64()?, d.fixed64()?);
        if flags == HAS_TTL {
            return Err(Error::not_supported("blob file whose values expire (stacked BlobDB)"));
        }
        if flags != 0 || expiration != (0, 0) || !d.is_empty() {
            return Err(Error::corruption(
                "the header of a blob file has flags or an expiration it should not have",
            ));
        }
        Ok(BlobFileHeader { column_family, compression })
    }
}

/// The footer of a finished blob file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlobFileFooter {
    /// Records in the file.
    pub blob_count: u64,
}

impl BlobFileFooter {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        put_fixed32(&mut out, MAGIC);
        put_fixed64(&mut out, self.blob_count);
        put_fixed64(&mut out, 0);
        put_fixed64(&mut out, 0);
        let crc = crc32c::mask(crc32c::value(&out));
        put_fixed32(&mut out, crc);
        out
    }

    /// Parses a footer.
    /// # Errors
    /// `Corruption` if it is not a footer, or damaged.
    pub fn parse(bytes: &[u8]) -> Result<BlobFileFooter> {
        let mut d = Decoder::new(bytes);
        let (magic, blob_count) = (d.fixed32()?, d.fixed64()?);
        let expiration = (d.fixed64()?, d.fixed64()?);
        let crc = d.fixed32()?;
        if magic != MAGIC || !d.is_empty() {
            return Err(Error::corruption("no footer at the end of a blob file"));
        }
        let covered = bytes.get(..FOOTER_BYTES - 4).unwrap_or_default();
        if crc != crc32c::mask(crc32c::value(covered)) {
            return Err(Error::corruption("checksum mismatch in the footer of a blob file"));
        }
        if expiration != (0, 0) {
            return Err(Error::corruption("the footer of a blob file has an expiration it should not have"));
        }
        Ok(BlobFileFooter { blob_count })
    }
}

/// The part of a record before its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlobRecordHeader {
    /// Bytes of the user key.
    pub key_bytes: u64,
    /// Bytes of the value as it is stored.
    pub value_bytes: u64,
    /// Masked CRC32C of key and stored value.
    pub blob_crc: u32,
}

impl BlobRecordHeader {
    /// The header of a record with this key and stored value.
    pub fn of(user_key: &[u8], stored: &[u8]) -> BlobRecordHeader {
        BlobRecordHeader {
            key_bytes: user_key.len() as u64,
            value_bytes: stored.len() as u64,
            blob_crc: blob_crc(user_key, stored),
        }
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(RECORD_HEADER_BYTES);
        put_fixed64(&mut out, self.key_bytes);
        put_fixed64(&mut out, self.value_bytes);
        put_fixed64(&mut out, 0);
        let crc = crc32c::mask(crc32c::value(&out));
        put_fixed32(&mut out, crc);
        put_fixed32(&mut out, self.blob_crc);
        out
    }

    /// Parses a record's header.
    /// # Errors
    /// `Corruption` if it is damaged.
    pub fn parse(bytes: &[u8]) -> Result<BlobRecordHeader> {
        let mut d = Decoder::new(bytes);
        let (key_bytes, value_bytes, _expiration) = (d.fixed64()?, d.fixed64()?, d.fixed64()?);
        let (crc, blob_crc) = (d.fixed32()?, d.fixed32()?);
        let covered = bytes.get(..RECORD_HEADER_BYTES - 8).unwrap_or_default();
        if crc != crc32c::mask(crc32c::value(covered)) {
            return Err(Error::corruption("checksum mismatch in the header of a blob"));
        }
        Ok(BlobRecordHeader { key_bytes, value_bytes, blob_crc })
    }

    /// Checks key and value against the record's checksum.
    /// # Errors
    /// `Corruption` if they differ from those written.
    pub fn check(&self, user_key: &[u8], stored: &[u8]) -> Result<()> {
        if self.key_bytes != user_key.len() as u64 || self.value_bytes != stored.len() as u64 {
            return Err(Error::corruption(format!(
                "a blob has {} bytes of key and {} of value, its index says {} and {}",
                self.key_bytes,
                self.value_bytes,
                user_key.len(),
                stored.len()
            )));
        }
        if self.blob_crc != blob_crc(user_key, stored) {
            return Err(Error::corruption("checksum mismatch in a blob"));
        }
        Ok(())
    }
}

/// Bytes of a record in its file, as the MANIFEST counts them.
pub fn record_bytes(user_key_bytes: usize, stored_bytes: u64) -> u64 {
    RECORD_HEADER_BYTES as u64 + user_key_bytes as u64 + stored_bytes
}

fn blob_crc(user_key: &[u8], stored: &[u8]) -> u32 {
    crc32c::mask(crc32c::extend(crc32c::value(user_key), stored))
}
