//! Legacy Bloom: the full filter of format versions below 5.
//!
//! In: 32-bit hashes of keys. Out: filter contents, and answers. Source: RocksDB
//! `util/bloom_impl.h` (`LegacyLocalityBloomImpl`).
//!
//!   lines | probes u8 (1..=127) | line count u32
//!
//!   line = hash mod lines; delta = hash rotated right by 17; for each probe: bit hash mod (bits
//!   per line), hash += delta
//!
//! A line is as long as the writer's cache line: 64 bytes, or another power of two, known only by
//! division.
#![expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "indices and sizes follow from lengths that were checked; hashes are cut on purpose"
)]

use super::METADATA_BYTES;

const LINE_BITS: u32 = 512;
const MAX_BITS: u64 = 0xFFFF_0000;

/// The metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LegacyBloomLayout {
    lines: u32,
    probes: u32,
    log2_line_bytes: u32,
}

impl LegacyBloomLayout {
    /// `None` if the lengths contradict each other.
    pub(super) fn parse(len: usize, metadata: &[u8; METADATA_BYTES]) -> Option<LegacyBloomLayout> {
        let [probes, lines @ ..] = *metadata;
        let lines = u32::from_le_bytes(lines);
        let len = u32::try_from(len).ok()?;
        let line_bytes = len.checked_div(lines)?;
        (line_bytes.is_power_of_two() && u64::from(line_bytes) * u64::from(lines) == u64::from(len))
            .then_some(LegacyBloomLayout {
                lines,
                probes: u32::from(probes),
                log2_line_bytes: line_bytes.trailing_zeros(),
            })
    }

    #[inline]
    pub(super) fn may_match(&self, contents: &[u8], hash: u32) -> bool {
        let at = ((hash % self.lines) as usize) << self.log2_line_bytes;
        let line = &contents[at..at + (1 << self.log2_line_bytes)];
        let bit_mask = (8u32 << self.log2_line_bytes).wrapping_sub(1);
        let delta = hash.rotate_right(17);
        let mut h = hash;
        for _ in 0..self.probes {
            let bit = (h & bit_mask) as usize;
            if line[bit / 8] >> (bit % 8) & 1 == 0 {
                return false;
            }
            h = h.wrapping_add(delta);
        }
        true
    }
}

fn probes_for(bits_per_key: u32) -> u32 {
    ((f64::from(bits_per_key) * 0.69) as u32).clamp(1, 30)
}

fn lines_for(entries: usize, bits_per_key: u32) -> u32 {
    let bits = (entries as u128 * u128::from(bits_per_key)).min(u128::from(MAX_BITS)) as u32;
    // Odd, so that more bits of the hash take part in choosing the line.
    bits.div_ceil(LINE_BITS) | 1
}

/// Size of a filter for this many entries, metadata included.
pub fn filter_bytes(entries: usize, bits_per_key: u32) -> usize {
    lines_for(entries, bits_per_key) as usize * (LINE_BITS / 8) as usize + METADATA_BYTES
}

/// Number of entries that fit into `bytes`, metadata included.
pub(super) fn entries_for(bytes: usize, bits_per_key: u32) -> usize {
    let bits = (bytes as u64 * 8).min(MAX_BITS) as usize;
    let most = bits / bits_per_key.max(1) as usize + 1;
    (1..=most).rev().find(|&n| filter_bytes(n, bits_per_key) <= bytes).unwrap_or(0)
}

/// The filter of these hashes, with lines of 64 bytes. With none: empty, which matches nothing.
pub fn build(hashes: &[u32], bits_per_key: u32) -> Vec<u8> {
    if hashes.is_empty() {
        return Vec::new();
    }
    let (lines, probes) = (lines_for(hashes.len(), bits_per_key), probes_for(bits_per_key));
    let len = lines as usize * (LINE_BITS / 8) as usize;
    let mut out = vec![0; len + METADATA_BYTES];
    for &hash in hashes {
        let at = (hash % lines) as usize * (LINE_BITS / 8) as usize;
        let line = &mut out[at..at + (LINE_BITS / 8) as usize];
        let delta = hash.rotate_right(17);
        let mut h = hash;
        for _ in 0..probes {
            let bit = (h % LINE_BITS) as usize;
            line[bit / 8] |= 1 << (bit % 8);
            h = h.wrapping_add(delta);
        }
    }
    out[len] = probes as u8;
    out[len + 1..].copy_from_slice(&lines.to_le_bytes());
    out
}

#[cfg(test)]
mod tests;
