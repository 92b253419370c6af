//! FastLocalBloom: a Bloom filter in which all bits of a key lie in one cache line. Used since
//! format version 5.
//!
//! In: 64-bit hashes of keys. Out: filter contents, and answers. Source: RocksDB
//! `util/bloom_impl.h`.
//!
//!   lines of 64 bytes | FF | 00 | probes u8 | 00 00
//!
//!   line = (low 32 bits of hash * lines) >> 32; g = high 32 bits; for each probe: bit g >> 23 of
//!   the line, g *= golden
#![expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "indices and sizes follow from lengths that were checked; hashes are cut on purpose"
)]

use super::METADATA_BYTES;

/// Marks the kind in the first metadata byte.
pub const MARKER: u8 = 0xFF;

const LINE_BYTES: usize = 64;
const GOLDEN: u32 = 0x9E37_79B9;
const MAX_LEN: u64 = 0xFFFF_FFC0;

/// The layout of a filter, from its metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FastLocalBloomLayout {
    lines: u32,
    probes: u32,
}

impl FastLocalBloomLayout {
    /// Parses the metadata. `None` for a layout that this version does not know.
    pub(super) fn parse(len: usize, metadata: &[u8; METADATA_BYTES]) -> Option<FastLocalBloomLayout> {
        let [_, sub_kind, block_and_probes, 0, 0] = *metadata else { return None };
        let (log2_line_bytes, probes) = ((block_and_probes >> 5) + 6, block_and_probes & 31);
        let known = sub_kind == 0 && log2_line_bytes == 6 && (1..=30).contains(&probes);
        let lines = u32::try_from(len / LINE_BYTES).ok().filter(|&lines| lines > 0)?;
        known.then_some(FastLocalBloomLayout { lines, probes: u32::from(probes) })
    }

    /// The line that contains the bits of a key.
    #[inline]
    pub(super) fn line<'a>(&self, contents: &'a [u8], hash: u64) -> &'a [u8; LINE_BYTES] {
        let at = line_of(hash, self.lines) * LINE_BYTES;
        contents[at..].first_chunk().expect("lines were counted from the length")
    }

    #[inline]
    pub(super) fn may_match(&self, contents: &[u8], hash: u64) -> bool {
        let line = self.line(contents, hash);
        let g = (hash >> 32) as u32;
        // Nearly all filters have 10 bits a key, which means 6 probes.
        match self.probes {
            6 => has_all::<6>(line, g),
            probes => has_all_of(line, g, probes),
        }
    }
}

// Tests all bits, although the first zero bit decides. The processor cannot predict its position,
// and a wrong guess costs more than the remaining probes. Absent keys take 4.3 ns instead of 9.0,
// present ones 4.3 instead of 3.6 (6 probes, small filter, one run on a busy 2-vCPU Zen 4 machine).

/// Whether the bits of `N` probes are set. No probe waits for an earlier one. With the hash of a
/// key of 24 bytes it takes 10.5 ns instead of 12.3; among 40 filters, 16.1 instead of 20.5.
#[inline]
fn has_all<const N: usize>(line: &[u8; LINE_BYTES], g: u32) -> bool {
    let (words, _) = line.as_chunks::<8>();
    let mut all = 1u64;
    let mut factor = 1u32;
    for _ in 0..N {
        let h = g.wrapping_mul(factor);
        all &= u64::from_le_bytes(words[(h >> 29) as usize]) >> (h >> 23 & 63);
        factor = factor.wrapping_mul(GOLDEN);
    }
    all == 1
}

/// [`has_all`] for any number of probes.
#[inline]
fn has_all_of(line: &[u8; LINE_BYTES], mut g: u32, probes: u32) -> bool {
    let mut all = 1u8;
    for _ in 0..probes {
        let bit = (g >> 23) as usize;
        all &= line[bit / 8] >> (bit % 8);
        g = g.wrapping_mul(GOLDEN);
    }
    all == 1
}

#[inline]
fn line_of(hash: u64, lines: u32) -> usize {
    ((u64::from(hash as u32) * u64::from(lines)) >> 32) as usize
}

/// Number of probes that RocksDB makes for a filter of this many thousandths of bits per key.
pub fn probes_for(millibits_per_key: u32) -> u32 {
    const UP_TO: [u32; 12] = [2080, 3580, 5100, 6640, 8300, 10070, 11720, 14001, 16050, 18300, 22001, 25501];
    match millibits_per_key {
        0..=25501 => UP_TO.partition_point(|&limit| limit < millibits_per_key) as u32 + 1,
        25502..=50000 => (millibits_per_key - 1) / 2000 - 1,
        _ => 24,
    }
}

/// Size of a filter for this many entries, metadata included: a multiple of 64, plus 5.
pub fn filter_bytes(entries: usize, millibits_per_key: u32) -> usize {
    // An overflow of u64 also exceeds the limit. A compaction calls this for every key, so there is
    // no 128-bit division.
    let bits = (entries as u64).checked_mul(u64::from(millibits_per_key));
    let raw = bits.map_or(MAX_LEN, |bits| bits.div_ceil(8000).min(MAX_LEN));
    raw.next_multiple_of(LINE_BYTES as u64) as usize + METADATA_BYTES
}

/// Number of entries that fit into `bytes`, metadata included.
pub(super) fn entries_for(bytes: usize, millibits_per_key: u32) -> usize {
    let usable = (bytes.saturating_sub(METADATA_BYTES) as u64).min(MAX_LEN) / LINE_BYTES as u64;
    (8000 * usable * LINE_BYTES as u64 / u64::from(millibits_per_key.max(1))) as usize
}

/// Builds the filter of these hashes. Without hashes the filter is empty and matches nothing.
pub fn build(hashes: &[u64], millibits_per_key: u32) -> Vec<u8> {
    if hashes.is_empty() {
        return Vec::new();
    }
    let bytes = filter_bytes(hashes.len(), millibits_per_key);
    build_sized(hashes, bytes - METADATA_BYTES, probes_for(millibits_per_key))
}

/// Builds a filter that fills the memory to which the allocator rounds its size.
pub fn build_filling_memory(hashes: &[u64], millibits_per_key: u32) -> Vec<u8> {
    if hashes.is_empty() {
        return Vec::new();
    }
    let bytes = filling_memory(filter_bytes(hashes.len(), millibits_per_key));
    let millibits = (bytes - METADATA_BYTES) as u64 * 8000 / hashes.len() as u64;
    build_sized(hashes, bytes - METADATA_BYTES, probes_for(millibits as u32))
}

/// Size of a filter that fills the allocation for `bytes`. Caches hold filters with a trailer of 5
/// bytes. An allocation over 128 KiB is whole pages less 16 bytes.
pub fn filling_memory(bytes: usize) -> usize {
    const TRAILER: usize = 5;
    const MAPPED_FROM: usize = 128 << 10;
    const PAGE: usize = 4096;
    const HEAD: usize = 16;
    let requested = bytes + TRAILER;
    if requested < MAPPED_FROM {
        return bytes;
    }
    let usable = (requested + HEAD).next_multiple_of(PAGE) - HEAD - TRAILER - METADATA_BYTES;
    (usable.min(MAX_LEN as usize) / LINE_BYTES * LINE_BYTES) + METADATA_BYTES
}

/// Builds the filter of these hashes with `len` bytes of bits and `probes` probes. `len` is a
/// multiple of 64; `probes` is 1 to 30.
fn build_sized(hashes: &[u64], len: usize, probes: u32) -> Vec<u8> {
    let mut out = vec![0; len + METADATA_BYTES];
    let lines = u32::try_from(len / LINE_BYTES).expect("a filter has at most 4 GiB");
    // Hashes whose lines are computed and touched ahead. In a large filter each line is a cache
    // miss; so the misses overlap.
    const AHEAD: usize = 8;
    let mut touched = 0u8;
    for (i, &hash) in hashes.iter().enumerate() {
        if let Some(&later) = hashes.get(i + AHEAD) {
            touched ^= out[line_of(later, lines) * LINE_BYTES];
        }
        add(&mut out, hash, lines, probes);
    }
    std::hint::black_box(touched);
    out[len..].copy_from_slice(&[MARKER, 0, probes as u8, 0, 0]);
    out
}

#[inline]
fn add(out: &mut [u8], hash: u64, lines: u32, probes: u32) {
    let at = line_of(hash, lines) * LINE_BYTES;
    let line: &mut [u8; LINE_BYTES] =
        out[at..].first_chunk_mut().expect("lines were counted from the length");
    let mut g = (hash >> 32) as u32;
    for _ in 0..probes {
        let bit = (g >> 23) as usize;
        line[bit / 8] |= 1 << (bit % 8);
        g = g.wrapping_mul(GOLDEN);
    }
}

/// The false positive rate of a Bloom filter with one line a key. It is the mean of two rates: of a
/// line one standard deviation fuller than average, and of one as much emptier.
pub fn false_positive_rate(bits_per_key: f64, probes: u32) -> f64 {
    if bits_per_key <= 0.0 {
        return 1.0;
    }
    let line_bits = (8 * LINE_BYTES) as f64;
    let standard =
        |bits_per_key: f64| (1.0 - (-f64::from(probes) / bits_per_key).exp()).powf(f64::from(probes));
    let keys_per_line = line_bits / bits_per_key;
    let deviation = keys_per_line.sqrt();
    let crowded = standard(line_bits / (keys_per_line + deviation));
    let uncrowded = standard(line_bits / (keys_per_line - deviation));
    (crowded + uncrowded) / 2.0
}

#[cfg(test)]
mod tests;
