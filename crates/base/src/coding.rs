//! Encodings of integers (fixed and variable length) and of slices with their length.
//!
//! All are little-endian, as in RocksDB's `util/coding.h`.

use crate::error::{Error, Result};

/// Appends `v` as 2 bytes.
pub fn put_fixed16(out: &mut Vec<u8>, v: u16) {
    out.extend_from_slice(&v.to_le_bytes());
}
/// Appends `v` as 4 bytes.
pub fn put_fixed32(out: &mut Vec<u8>, v: u32) {
    out.extend_from_slice(&v.to_le_bytes());
}
/// Appends `v` as 8 bytes.
pub fn put_fixed64(out: &mut Vec<u8>, v: u64) {
    out.extend_from_slice(&v.to_le_bytes());
}
/// Appends `v` as a varint: 1 to 5 bytes.
pub fn put_varint32(out: &mut Vec<u8>, v: u32) {
    put_varint64(out, u64::from(v));
}
/// Appends `v` as a varint: 1 to 10 bytes with 7 bits each, the least significant bits first.
pub fn put_varint64(out: &mut Vec<u8>, mut v: u64) {
    while v >= 0x80 {
        out.push((v as u8 & 0x7F) | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}
/// Appends `v` as a zigzag varint: 1 to 10 bytes.
pub fn put_varsignedint64(out: &mut Vec<u8>, v: i64) {
    put_varint64(out, zigzag(v));
}
/// Maps a signed number to an unsigned one. Numbers near 0 become small.
pub fn zigzag(v: i64) -> u64 {
    ((v << 1) ^ (v >> 63)) as u64
}
/// The inverse of [`zigzag`].
pub fn from_zigzag(v: u64) -> i64 {
    (v >> 1) as i64 ^ -((v & 1) as i64)
}
/// Appends a varint32 length and the bytes.
///
/// # Panics
/// If `bytes` is 4 GiB or longer; callers check the engine's key and value limits first.
pub fn put_length_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint32(out, u32::try_from(bytes.len()).expect("lengths are checked against the 4 GiB limit"));
    out.extend_from_slice(bytes);
}
/// Number of bytes that `put_varint64` appends.
pub const fn varint_len(v: u64) -> usize {
    (64 - (v | 1).leading_zeros() as usize).div_ceil(7)
}

/// The u64 in the first 8 bytes, or `None` if there are fewer.
#[inline]
pub fn fixed64(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|b| u64::from_le_bytes(*b))
}
/// The u32 in the first 4 bytes, or `None` if there are fewer.
#[inline]
pub fn fixed32(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|b| u32::from_le_bytes(*b))
}

/// Reads values off the front of a slice. Every method fails with `Corruption` if too few bytes are
/// left.
#[derive(Clone, Copy, Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// A decoder at the front of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Decoder<'a> {
        Decoder { rest: bytes }
    }
    /// The unread bytes.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
    /// Whether nothing is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
    /// The next `n` bytes.
    /// # Errors
    /// `Corruption` if fewer are left.
    #[inline]
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8]> {
        match self.rest.split_at_checked(n) {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(head)
            }
            None => Err(truncated()),
        }
    }
    /// Reads one byte.
    /// # Errors
    /// `Corruption` if nothing is left.
    #[inline]
    pub fn u8(&mut self) -> Result<u8> {
        match self.rest.split_first() {
            Some((&b, tail)) => {
                self.rest = tail;
                Ok(b)
            }
            None => Err(truncated()),
        }
    }
    /// Reads an integer of 2 bytes.
    /// # Errors
    /// `Corruption` if fewer are left.
    pub fn fixed16(&mut self) -> Result<u16> {
        let (head, tail) = self.rest.split_first_chunk().ok_or_else(truncated)?;
        self.rest = tail;
        Ok(u16::from_le_bytes(*head))
    }
    /// Reads an integer of 4 bytes.
    /// # Errors
    /// `Corruption` if fewer are left.
    #[inline]
    pub fn fixed32(&mut self) -> Result<u32> {
        let (head, tail) = self.rest.split_first_chunk().ok_or_else(truncated)?;
        self.rest = tail;
        Ok(u32::from_le_bytes(*head))
    }
    /// Reads an integer of 8 bytes.
    /// # Errors
    /// `Corruption` if fewer are left.
    #[inline]
    pub fn fixed64(&mut self) -> Result<u64> {
        let (head, tail) = self.rest.split_first_chunk().ok_or_else(truncated)?;
        self.rest = tail;
        Ok(u64::from_le_bytes(*head))
    }
    /// Reads a varint of at most 5 bytes with a value below 2^32.
    /// # Errors
    /// `Corruption` if it is cut off or too long.
    #[inline]
    pub fn varint32(&mut self) -> Result<u32> {
        if let Some((&b, tail)) = self.rest.split_first()
            && b < 0x80
        {
            self.rest = tail;
            return Ok(u32::from(b));
        }
        let before = self.rest.len();
        let v = self.varint64()?;
        if before - self.rest.len() > 5 {
            return Err(Error::corruption("varint32 longer than 5 bytes"));
        }
        // A fifth byte can carry bits beyond 32; RocksDB drops them.
        Ok(v as u32)
    }
    /// Reads a varint of at most 10 bytes.
    /// # Errors
    /// `Corruption` if it is cut off or too long.
    #[inline]
    pub fn varint64(&mut self) -> Result<u64> {
        let mut v = 0u64;
        for (i, &b) in self.rest.iter().enumerate().take(10) {
            v |= u64::from(b & 0x7F) << (7 * i);
            if b < 0x80 {
                self.rest = self.rest.split_at(i + 1).1;
                return Ok(v);
            }
        }
        Err(if self.rest.len() >= 10 {
            Error::corruption("varint64 longer than 10 bytes")
        } else {
            truncated()
        })
    }
    /// Reads a zigzag varint.
    /// # Errors
    /// `Corruption` if it is cut off or too long.
    pub fn varsignedint64(&mut self) -> Result<i64> {
        Ok(from_zigzag(self.varint64()?))
    }
    /// Reads a varint32 length, then that number of bytes.
    /// # Errors
    /// `Corruption` if it is cut off.
    #[inline]
    pub fn length_prefixed(&mut self) -> Result<&'a [u8]> {
        let n = self.varint32()?;
        self.bytes(n as usize)
    }
}

#[cold]
fn truncated() -> Error {
    Error::corruption("bytes end in the middle of a value")
}
