//! The 5 bytes behind every block of a table, and their checksums.
//!
//! `contents | compression code u8 | checksum u32`. Source: RocksDB `table/format.cc`.
//!
//! The checksum covers contents and compression code. Since format version 6, a number that depends
//! on the file and on the block's offset is added to the checksum. A block that was read from a
//! wrong place then fails the check.
//!
//! Page: `docs/format/sst.md`.

use esker_base::{Error, Result, crc32c, hash};

/// Bytes behind each block.
pub const TRAILER_BYTES: usize = 5;

/// The checksum function of a table's blocks. The codes are on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u8)]
pub enum ChecksumType {
    /// No checksum.
    NoChecksum = 0,
    /// Masked CRC-32C.
    Crc32c = 1,
    /// XXH32.
    XxHash = 2,
    /// The low half of XXH64.
    XxHash64 = 3,
    /// XXH3 of all bytes except the last one, which the function mixes in afterwards. The default.
    #[default]
    Xxh3 = 4,
}

impl ChecksumType {
    /// The type with this code.
    /// # Errors
    /// `Corruption` if no type has the code.
    pub fn from_u8(code: u8) -> Result<ChecksumType> {
        Ok(match code {
            0 => ChecksumType::NoChecksum,
            1 => ChecksumType::Crc32c,
            2 => ChecksumType::XxHash,
            3 => ChecksumType::XxHash64,
            4 => ChecksumType::Xxh3,
            _ => return Err(Error::corruption(format!("unknown checksum type {code} in the footer"))),
        })
    }

    /// The checksum of `bytes` (contents and compression code), without the number of
    /// [`context_modifier`].
    #[inline]
    pub fn checksum(self, bytes: &[u8]) -> u32 {
        match self {
            ChecksumType::NoChecksum => 0,
            ChecksumType::Crc32c => crc32c::mask(crc32c::value(bytes)),
            ChecksumType::XxHash => hash::xxh32(bytes, 0),
            ChecksumType::XxHash64 => low_half(hash::xxh64(bytes, 0)),
            ChecksumType::Xxh3 => match bytes.split_last() {
                None => 0,
                Some((&last, body)) => hash::block_checksum_xxh3(body, last),
            },
        }
    }

    /// RocksDB's name of the type in options.
    pub const fn as_str(self) -> &'static str {
        match self {
            ChecksumType::NoChecksum => "kNoChecksum",
            ChecksumType::Crc32c => "kCRC32c",
            ChecksumType::XxHash => "kxxHash",
            ChecksumType::XxHash64 => "kxxHash64",
            ChecksumType::Xxh3 => "kXXH3",
        }
    }
}

const fn low_half(v: u64) -> u32 {
    (v & 0xFFFF_FFFF) as u32
}

/// The number that is added to the checksum of a block at `offset`. `base` is the file's base
/// context; if `base` is 0, the number is 0.
#[inline]
pub const fn context_modifier(base: u32, offset: u64) -> u32 {
    if base == 0 { 0 } else { base ^ low_half(offset).wrapping_add(low_half(offset >> 32)) }
}

/// The checksum type and base context of one file's blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BlockGuard {
    /// The function.
    pub checksum_type: ChecksumType,
    /// The file's base context; 0 before format version 6.
    pub base_context: u32,
}

impl BlockGuard {
    /// The checksum to store behind the block at `offset`. `bytes` are the contents and the
    /// compression code.
    #[inline]
    pub fn stored_checksum(&self, bytes: &[u8], offset: u64) -> u32 {
        self.checksum_type.checksum(bytes).wrapping_add(context_modifier(self.base_context, offset))
    }

    /// Appends compression code and checksum to `block`. The contents of the block begin at `start`
    /// in the vector, and at `offset` in the file.
    pub fn append_trailer(&self, block: &mut Vec<u8>, start: usize, compression_code: u8, offset: u64) {
        block.push(compression_code);
        let sum = self.stored_checksum(block.get(start..).unwrap_or_default(), offset);
        block.extend_from_slice(&sum.to_le_bytes());
    }

    /// Checks a block with its trailer, read from `offset`. Returns the compression code.
    /// # Errors
    /// `Corruption` naming the offset and both checksums.
    #[inline]
    pub fn check(&self, block_with_trailer: &[u8], offset: u64) -> Result<u8> {
        let Some((checked, stored)) = block_with_trailer.split_last_chunk::<4>() else {
            return Err(Error::corruption("block is shorter than its trailer"));
        };
        let stored = u32::from_le_bytes(*stored);
        let computed = self.stored_checksum(checked, offset);
        match checked.last() {
            Some(&code) if stored == computed => Ok(code),
            _ => Err(mismatch(stored, computed, offset)),
        }
    }
}

#[cold]
fn mismatch(stored: u32, computed: u32, offset: u64) -> Error {
    Error::corruption(format!(
        "block checksum mismatch: stored = {stored}, computed = {computed}, in the block at offset {offset}"
    ))
}

/// The compression code of a block with its trailer. Does not check the checksum.
/// # Errors
/// `Corruption` if the bytes are shorter than a trailer.
#[inline]
pub fn compression_code(block_with_trailer: &[u8]) -> Result<u8> {
    match block_with_trailer.len().checked_sub(TRAILER_BYTES).and_then(|n| block_with_trailer.get(n)) {
        Some(&code) => Ok(code),
        None => Err(Error::corruption("block is shorter than its trailer")),
    }
}

#[cfg(test)]
mod tests;
