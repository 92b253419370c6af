//! Hashes that files contain, other than [`xxph3`](crate::xxph3).
//!
//! In: bytes (and a seed). Out: a number that never changes and is the same on every machine,
//! because files contain it.
//! Source: RocksDB `util/hash.cc` (hash32), `util/xxhash.h` (released xxHash, here the `twox-hash`
//! crate), `table/format.cc` (block checksums), `table/unique_id.cc`.

use twox_hash::{XxHash3_64, XxHash3_128, XxHash32, XxHash64};

/// Seed of [`hash32`] in legacy Bloom filters.
pub const BLOOM_SEED: u32 = 0xBC9F_1D34;
/// Seed of [`hash32`] in the hash index at the end of a data block.
pub const BLOCK_HASH_INDEX_SEED: u32 = 397;

/// The old 32-bit hash: legacy Bloom filters and the hash index of data blocks.
#[inline]
pub fn hash32(bytes: &[u8], seed: u32) -> u32 {
    const M: u32 = 0xC6A4_A793;
    let (words, tail) = bytes.as_chunks::<4>();
    // RocksDB multiplies the length as a 32-bit number.
    let mut h = seed ^ (bytes.len() as u32).wrapping_mul(M);
    for word in words {
        h = h.wrapping_add(u32::from_le_bytes(*word)).wrapping_mul(M);
        h ^= h >> 16;
    }
    // The bytes of the tail are signed: `char` was signed where the format was made.
    let signed = |i: usize| i32::from(tail[i] as i8) as u32;
    if tail.len() >= 3 {
        h = h.wrapping_add(signed(2) << 16);
    }
    if tail.len() >= 2 {
        h = h.wrapping_add(signed(1) << 8);
    }
    if !tail.is_empty() {
        h = h.wrapping_add(signed(0)).wrapping_mul(M);
        h ^= h >> 24;
    }
    h
}

/// XXH32.
#[inline]
pub fn xxh32(bytes: &[u8], seed: u32) -> u32 {
    XxHash32::oneshot(seed, bytes)
}

/// XXH64.
#[inline]
pub fn xxh64(bytes: &[u8], seed: u64) -> u64 {
    XxHash64::oneshot(seed, bytes)
}

/// The released XXH3, 64 bits. Filters use the older [`xxph3`](crate::xxph3).
#[inline]
pub fn xxh3_64(bytes: &[u8], seed: u64) -> u64 {
    if seed == 0 { XxHash3_64::oneshot(bytes) } else { XxHash3_64::oneshot_with_seed(seed, bytes) }
}

/// The released XXH3, 128 bits.
#[inline]
pub fn xxh3_128(bytes: &[u8], seed: u64) -> u128 {
    if seed == 0 { XxHash3_128::oneshot(bytes) } else { XxHash3_128::oneshot_with_seed(seed, bytes) }
}

/// The XXH3 checksum of a block (checksum type 4): of its contents and the compression type byte
/// behind them. The type byte is not hashed; it is mixed into the hash of the contents.
#[inline]
pub fn block_checksum_xxh3(contents: &[u8], last_byte: u8) -> u32 {
    const LAST_BYTE_PRIME: u32 = 0x6B90_83D9;
    xxh3_64(contents, 0) as u32 ^ u32::from(last_byte).wrapping_mul(LAST_BYTE_PRIME)
}

#[cfg(test)]
mod tests;
