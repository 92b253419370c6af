//! Standard128Ribbon: three quarters of a Bloom filter's memory for some more time.
//!
//! In: 64-bit hashes of keys. Out: answers; `build` makes filters. Source: RocksDB
//! `util/ribbon_{alg,impl}.h`.
//!
//! ```text
//! segments of 16 bytes | FE | seed u8 | blocks u24
//! ```
//!
//! A key stands for one linear equation over bits: 128 coefficients, beginning at slot `start`, and
//! a result. The filter is a solution of the added keys' equations; a key that was not added
//! satisfies its own only by chance, 2^-columns. There are 128 slots to a block; a block has
//! `columns` segments, segment i holding bit i of the solution of each of its slots.
#![expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "indices and sizes follow from lengths that were checked; hashes are cut on purpose"
)]

mod build;

use super::METADATA_BYTES;

pub(super) use build::{Sizing, build, entries_for};

/// Marks the kind in the first metadata byte.
pub const MARKER: u8 = 0xFE;

const COEFFICIENT_BITS: u32 = 128;
const SEGMENT_BYTES: usize = 16;
const MAX_COLUMNS: u32 = 32;

/// Turns a key's hash into its equation, for one seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Hasher {
    raw_seed: u64,
    starts: u32,
}

/// A key's equation.
struct Row {
    start: u32,
    coefficients: u128,
    result: u32,
}

impl Hasher {
    fn new(seed: u8, blocks: u32) -> Hasher {
        let mut t = u64::from(seed).wrapping_mul(0xC782_19A2_3EEA_DD03);
        t ^= (t & 0xF0F0_F0F0_F0F0_F0F0) >> 4;
        Hasher { raw_seed: u64::from(t as u32), starts: blocks * COEFFICIENT_BITS - (COEFFICIENT_BITS - 1) }
    }

    /// Grows with the start slot.
    #[inline]
    fn seeded(&self, hash: u64) -> u64 {
        (hash ^ self.raw_seed).wrapping_mul(0x6193_D459_236A_3A0D)
    }

    #[inline]
    fn row(&self, hash: u64) -> Row {
        let seeded = self.seeded(hash);
        let start = ((u128::from(seeded) * u128::from(self.starts)) >> 64) as u32;
        let a = seeded.wrapping_mul(0xC28F_8282_2B65_0BED);
        let coefficients = u128::from(a) << 64 | u128::from(a ^ 0xC367_844A_6E52_731D) | 1;
        Row { start, coefficients, result: a.swap_bytes() as u32 }
    }
}

/// The number of columns of each block: the first `lower_blocks` have `upper - 1`, the others
/// `upper`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Columns {
    upper: u32,
    lower_blocks: u32,
}

impl Columns {
    /// Computes the layout from the numbers of segments and blocks.
    fn new(segments: u64, blocks: u32) -> Columns {
        let upper = segments.div_ceil(u64::from(blocks));
        if upper > u64::from(MAX_COLUMNS) {
            return Columns { upper: MAX_COLUMNS, lower_blocks: 0 };
        }
        // At most `blocks - 1`, as the last block's columns exist unless there are no segments at
        // all.
        let lower_blocks = (upper * u64::from(blocks) - segments) as u32;
        Columns { upper: upper as u32, lower_blocks }
    }

    /// The first segment of a block and its number of columns.
    #[inline]
    fn of(&self, block: u32) -> (usize, usize) {
        let first = u64::from(block) * u64::from(self.upper) - u64::from(block.min(self.lower_blocks));
        let columns = self.upper - u32::from(block < self.lower_blocks);
        (first as usize, columns as usize)
    }
}

/// The metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RibbonLayout {
    hasher: Hasher,
    columns: Columns,
}

impl RibbonLayout {
    /// Parses the metadata. `None` for metadata that no writer makes.
    pub(super) fn parse(len: usize, metadata: &[u8; METADATA_BYTES]) -> Option<RibbonLayout> {
        let [_, seed, b0, b1, b2] = *metadata;
        let blocks = u32::from_le_bytes([b0, b1, b2, 0]);
        let segments = (len / SEGMENT_BYTES) as u64;
        if blocks < 2 || segments == 0 {
            return None;
        }
        Some(RibbonLayout { hasher: Hasher::new(seed, blocks), columns: Columns::new(segments, blocks) })
    }

    #[inline]
    pub(super) fn may_match(&self, contents: &[u8], hash: u64) -> bool {
        let row = self.hasher.row(hash);
        let (block, bit) = (row.start / COEFFICIENT_BITS, row.start % COEFFICIENT_BITS);
        let (first, columns) = self.columns.of(block);
        let here = &contents[first * SEGMENT_BYTES..][..columns * SEGMENT_BYTES];
        let low = row.coefficients << bit;
        if bit == 0 {
            return (0..columns).all(|i| parity(segment(here, i) & low) == row.result >> i & 1);
        }
        // The coefficients reach into the next block, which has as many columns or one more. The
        // next block exists, because the last possible start is bit 0 of a block.
        let next = &contents[(first + columns) * SEGMENT_BYTES..][..columns * SEGMENT_BYTES];
        let high = row.coefficients >> (COEFFICIENT_BITS - bit);
        (0..columns).all(|i| parity(segment(here, i) & low ^ segment(next, i) & high) == row.result >> i & 1)
    }
}

#[inline]
fn segment(bytes: &[u8], i: usize) -> u128 {
    u128::from_le_bytes(
        *bytes[i * SEGMENT_BYTES..].first_chunk().expect("segments were counted from the length"),
    )
}

#[inline]
fn parity(bits: u128) -> u32 {
    ((bits as u64) ^ (bits >> 64) as u64).count_ones() & 1
}

#[cfg(test)]
mod tests;
