//! Building a Ribbon filter: choose a size, solve the equations, lay out the solution.
//!
//! Source: RocksDB `util/ribbon_alg.h` (banding, back substitution), `util/ribbon_config.cc` (how
//! many slots).
#![expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "indices stay below the number of slots by construction; no bytes from disk come here"
)]

use super::{COEFFICIENT_BITS, Columns, Hasher, MARKER, MAX_COLUMNS, METADATA_BYTES, SEGMENT_BYTES, parity};
use crate::filter::fast_local_bloom;

/// With more entries RocksDB writes a Bloom filter instead.
const MAX_ENTRIES: usize = 950_000_000;

/// Entries that fit into 2^8, 2^9, … 2^17 slots so that one seed in twenty fails (measured by
/// RocksDB's authors).
const KNOWN_ENTRIES: [f64; 10] =
    [248.851, 499.532, 1001.26, 2003.97, 4005.59, 8000.39, 15966.6, 31828.1, 63447.3, 126_506.0];
const KNOWN_FROM_LOG2: u32 = 8;

/// The size of a Ribbon filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::filter) struct Sizing {
    blocks: u32,
    segments: u64,
}

impl Sizing {
    /// The size for `entries` entries with the false positive rate of a Bloom filter of
    /// `millibits_per_key`. The first entry's hash decides the rounding. `None` if RocksDB would
    /// write a Bloom filter: too many keys, or so few that Bloom is smaller.
    pub(in crate::filter) fn choose(
        entries: usize,
        millibits_per_key: u32,
        first_hash: u64,
    ) -> Option<Sizing> {
        if entries > MAX_ENTRIES {
            return None;
        }
        let slots = slots_for(entries);
        let one_in = desired_one_in(millibits_per_key);
        let sizing = Sizing {
            blocks: slots / COEFFICIENT_BITS,
            segments: segments_for(slots, one_in, (first_hash >> 32) as u32),
        };
        let bloom_is_smaller = slots < 1024
            && fast_local_bloom::filter_bytes(entries, millibits_per_key) < sizing.filter_bytes();
        (!bloom_is_smaller).then_some(sizing)
    }

    /// Size of the filter, metadata included.
    pub(in crate::filter) fn filter_bytes(&self) -> usize {
        self.segments as usize * SEGMENT_BYTES + METADATA_BYTES
    }
}

/// Number of entries that RocksDB expects to fit into `bytes`, metadata included. It decides where
/// partitions are cut.
pub(in crate::filter) fn entries_for(bytes: usize, millibits_per_key: u32) -> usize {
    let usable = (bytes.saturating_sub(METADATA_BYTES) / SEGMENT_BYTES * SEGMENT_BYTES) as u64;
    let one_in = desired_one_in(millibits_per_key);
    if !one_in.is_finite() || one_in <= 1.0 {
        return MAX_ENTRIES;
    }
    // Slightly too low: blocks with two numbers of columns take somewhat more than the logarithm.
    let bits_per_slot = if one_in > f64::from(u32::MAX) {
        f64::from(MAX_COLUMNS)
    } else {
        let upper = f64::from(1 + (one_in as u32).ilog2());
        let upper_rate = (-upper).exp2();
        upper - (1.0 / one_in - upper_rate) / upper_rate
    };
    let most_slots = usable as f64 * 8.0 / bits_per_slot;
    if most_slots >= f64::from(slots_for(MAX_ENTRIES)) {
        return MAX_ENTRIES;
    }
    let mut slots = (most_slots as u32).next_multiple_of(COEFFICIENT_BITS);
    if slots == COEFFICIENT_BITS {
        slots = 2 * COEFFICIENT_BITS;
    }
    for _ in 0..2 {
        if slots == 0 || segments_for(slots, one_in, 0) * SEGMENT_BYTES as u64 <= usable {
            break;
        }
        slots = (slots - 1) / COEFFICIENT_BITS * COEFFICIENT_BITS;
        if slots == COEFFICIENT_BITS {
            slots = 0;
        }
    }
    let entries = entries_for_slots(slots);
    if slots < 1024 {
        return entries.max(fast_local_bloom::entries_for(bytes, millibits_per_key));
    }
    entries.min(MAX_ENTRIES)
}

/// Entries that fit into this many slots; between powers of two interpolated.
fn entries_for_slots(slots: u32) -> usize {
    if slots == 0 {
        return 0;
    }
    let log2 = f64::from(slots).ln() * std::f64::consts::LOG2_E;
    let floor = log2 as u32;
    if floor < 17 {
        let portion = f64::from(slots) / f64::from(1u32 << floor) - 1.0;
        return (portion * entries_for_log2_slots(floor + 1) + (1.0 - portion) * entries_for_log2_slots(floor))
            as usize;
    }
    let factor = 131_072.0 / 126_506.0 + (log2 - 17.0) * 0.0038;
    (f64::from(slots) / factor) as usize
}

/// Number of absent keys of which one is to match.
fn desired_one_in(millibits_per_key: u32) -> f64 {
    let bits_per_key = f64::from(millibits_per_key) / 1000.0;
    1.0 / fast_local_bloom::false_positive_rate(bits_per_key, fast_local_bloom::probes_for(millibits_per_key))
}

fn entries_for_log2_slots(log2: u32) -> f64 {
    match log2.checked_sub(KNOWN_FROM_LOG2) {
        None => 0.0,
        Some(i) => KNOWN_ENTRIES.get(i as usize).copied().unwrap_or_else(|| {
            let factor = 131_072.0 / 126_506.0 + (f64::from(log2) - 17.0) * 0.0038;
            (1u64 << log2) as f64 / factor
        }),
    }
}

/// Slots for this many entries: interpolated between powers of two, rounded up to whole blocks, two
/// at least.
fn slots_for(entries: usize) -> u32 {
    let entries = entries as f64;
    let mut log2 = (entries.ln() * std::f64::consts::LOG2_E + 0.5) as u32;
    if log2 < KNOWN_FROM_LOG2 {
        return 2 * COEFFICIENT_BITS;
    }
    if entries < entries_for_log2_slots(log2) {
        log2 -= 1;
    }
    let (lower, upper) = (entries_for_log2_slots(log2), entries_for_log2_slots(log2 + 1));
    let portion = (entries - lower) / (upper - lower);
    let power = (1u64 << log2) as f64;
    let slots = (portion * power + power + 0.999_999_999) as u32;
    slots.next_multiple_of(COEFFICIENT_BITS).max(2 * COEFFICIENT_BITS)
}

/// Number of segments with which blocks of k and of k + 1 columns together have the desired false
/// positive rate. `rounding` spreads the error over filters.
fn segments_for(slots: u32, one_in: f64, rounding: u32) -> u64 {
    let blocks = u64::from(slots / COEFFICIENT_BITS);
    if !one_in.is_finite() || one_in <= 1.0 {
        return 1;
    }
    if one_in > f64::from(u32::MAX) {
        return blocks * u64::from(MAX_COLUMNS);
    }
    let lower = (one_in as u32).ilog2();
    let (lower_rate, upper_rate) = ((-f64::from(lower)).exp2(), (-f64::from(lower + 1)).exp2());
    let lower_portion = (1.0 / one_in - upper_rate) / (lower_rate - upper_rate);
    let bias = (f64::from(rounding) + 0.5) / 4_294_967_296.0;
    let starts = f64::from(slots - COEFFICIENT_BITS + 1);
    let lower_blocks = ((lower_portion * starts + bias) / f64::from(COEFFICIENT_BITS)) as u64;
    blocks * u64::from(lower) + (blocks - lower_blocks.min(blocks))
}

/// From this number of keys on, the equations do not fit into a processor's cache, and it pays to
/// add them in order.
const ORDER_FROM: usize = 1 << 14;

/// Sorts hashes by the highest 8 bits of their start slots. The order in which equations are added
/// changes neither whether they can be solved nor the solution. The slots that get an equation are
/// the leading ones of the space that the equations span, and the other slots are zero.
fn order_roughly_by_start(hashes: &[u64], hasher: &Hasher, out: &mut Vec<u64>) {
    let bucket = |hash: u64| (hasher.seeded(hash) >> 56) as usize;
    let mut next = [0usize; 257];
    for &hash in hashes {
        next[bucket(hash) + 1] += 1;
    }
    for b in 0..256 {
        next[b + 1] += next[b];
    }
    out.resize(hashes.len(), 0);
    for &hash in hashes {
        let at = &mut next[bucket(hash)];
        out[*at] = hash;
        *at += 1;
    }
}

/// The equations solved so far: at most one that begins at each slot.
struct Banding {
    coefficients: Vec<u128>,
    results: Vec<u32>,
}

impl Banding {
    fn new(blocks: u32) -> Banding {
        let slots = blocks as usize * COEFFICIENT_BITS as usize;
        Banding { coefficients: vec![0; slots], results: vec![0; slots] }
    }

    /// Adds every hash; false if one contradicts others under this seed.
    fn add_all(&mut self, hashes: &[u64], hasher: &Hasher, ordered: &mut Vec<u64>) -> bool {
        self.coefficients.fill(0);
        self.results.fill(0);
        if hashes.len() < ORDER_FROM {
            return hashes.iter().all(|&hash| self.add(hash, hasher));
        }
        order_roughly_by_start(hashes, hasher, ordered);
        ordered.iter().all(|&hash| self.add(hash, hasher))
    }

    #[inline]
    fn add(&mut self, hash: u64, hasher: &Hasher) -> bool {
        let row = hasher.row(hash);
        let (mut i, mut c, mut r) = (row.start as usize, row.coefficients, row.result);
        loop {
            if self.coefficients[i] == 0 {
                self.coefficients[i] = c;
                self.results[i] = r;
                return true;
            }
            c ^= self.coefficients[i];
            r ^= self.results[i];
            if c == 0 {
                return r == 0;
            }
            // Both were odd, so their difference has at least one zero at the low end.
            let zeros = c.trailing_zeros();
            c >>= zeros;
            i += zeros as usize;
        }
    }
}

/// The filter of these hashes, or `None` if no seed works (the caller then writes a Bloom filter).
pub(in crate::filter) fn build(hashes: &[u64], sizing: Sizing) -> Option<Vec<u8>> {
    let mut banding = Banding::new(sizing.blocks);
    let mut ordered = Vec::new();
    let first_seed = hashes.first().map_or(0, |&h| h as u8);
    for attempt in 0..=u8::MAX {
        let seed = first_seed.wrapping_add(attempt);
        if banding.add_all(hashes, &Hasher::new(seed, sizing.blocks), &mut ordered) {
            return Some(encode(&banding, sizing, seed));
        }
    }
    None
}

fn encode(banding: &Banding, sizing: Sizing, seed: u8) -> Vec<u8> {
    let mut out = vec![0; sizing.filter_bytes()];
    back_substitute(banding, sizing, &mut out);
    let [b0, b1, b2, _] = sizing.blocks.to_le_bytes();
    let at = out.len() - METADATA_BYTES;
    out[at..].copy_from_slice(&[MARKER, seed, b0, b1, b2]);
    out
}

/// Solves from the last slot to the first. Each solution bit follows from the 127 bits behind it
/// and the slot's equation.
fn back_substitute(banding: &Banding, sizing: Sizing, out: &mut [u8]) {
    let layout = Columns::new(sizing.segments, sizing.blocks);
    // The solution of the slots just behind, one window of 128 for each column.
    let mut windows = [0u128; MAX_COLUMNS as usize];
    for block in (0..sizing.blocks).rev() {
        let (first_segment, columns) = layout.of(block);
        let first_slot = block as usize * COEFFICIENT_BITS as usize;
        for slot in (first_slot..first_slot + COEFFICIENT_BITS as usize).rev() {
            let (c, r) = (banding.coefficients[slot], banding.results[slot]);
            for (column, window) in windows[..columns].iter_mut().enumerate() {
                let shifted = *window << 1;
                *window = shifted | u128::from(parity(shifted & c) ^ (r >> column & 1));
            }
        }
        for (column, window) in windows[..columns].iter().enumerate() {
            let at = (first_segment + column) * SEGMENT_BYTES;
            out[at..at + SEGMENT_BYTES].copy_from_slice(&window.to_le_bytes());
        }
    }
}

#[cfg(test)]
pub(super) fn slots_for_tests(entries: usize) -> u32 {
    slots_for(entries)
}

#[cfg(test)]
pub(super) fn one_in_for_tests(millibits_per_key: u32) -> f64 {
    desired_one_in(millibits_per_key)
}
