//! CRC-32C (Castagnoli), plain and masked.
//!
//! In: bytes. Out: a u32. Stored checksums are *masked*, so that the CRC of bytes that hold CRCs
//! stays useful.
//! Source: RocksDB `util/crc32c.h`. The polynomial arithmetic is the `crc32c` crate's (SSE4.2 /
//! ARMv8 where there).

const MASK_DELTA: u32 = 0xA282_EAD8;

/// The CRC of `bytes`.
#[inline]
pub fn value(bytes: &[u8]) -> u32 {
    ::crc32c::crc32c(bytes)
}

/// The CRC of the bytes that gave `crc`, followed by `bytes`.
#[inline]
pub fn extend(crc: u32, bytes: &[u8]) -> u32 {
    ::crc32c::crc32c_append(crc, bytes)
}

/// The masked form of a CRC, as files store it.
#[inline]
pub const fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(MASK_DELTA)
}

/// The CRC whose masked form is `masked`.
#[inline]
pub const fn unmask(masked: u32) -> u32 {
    masked.wrapping_sub(MASK_DELTA).rotate_left(15)
}

#[cfg(test)]
mod tests;
