//! Values like those of RocksDB's `db_bench`: slices of one long text with a given compression
//! ratio.

use crate::flags::Flags;
use crate::random::{Random, Random64};

/// Bytes of the text, unless a value is longer. The text is longer than zlib's window of 32 KiB.
const TEXT_BYTES: usize = 1 << 20;
/// Bytes of a piece: random bytes, repeated until the piece is full.
const PIECE_BYTES: usize = 100;

/// The distribution of value sizes.
enum Sizes {
    Fixed(usize),
    Uniform { min: u64, max: u64, random: Random64 },
    Normal { min: f64, max: f64, random: Random64 },
}

/// A generator of values.
pub(crate) struct Values {
    text: Vec<u8>,
    position: usize,
    sizes: Sizes,
    same_percentage: u32,
    random: Random,
}

impl Values {
    /// A generator for a benchmark with `value_size`; `seed` determines the sizes.
    pub(crate) fn new(flags: &Flags, value_size: usize, seed: u64) -> Values {
        let size = |bytes: i32| usize::try_from(bytes).unwrap_or(0);
        let (min, max) = (size(flags.value_size_min), size(flags.value_size_max));
        let (sizes, largest) = match flags.value_size_distribution_type.to_ascii_lowercase().as_str() {
            "uniform" => {
                (Sizes::Uniform { min: min as u64, max: max as u64, random: Random64::new(seed) }, max)
            }
            "normal" => {
                (Sizes::Normal { min: min as f64, max: max as f64, random: Random64::new(seed) }, max)
            }
            _ => (Sizes::Fixed(value_size), value_size),
        };
        let mut random = Random::new(301);
        let text = compressible_text(&mut random, flags.compression_ratio, largest.max(TEXT_BYTES));
        let same_percentage = u32::try_from(flags.same_value_percentage).unwrap_or(0);
        Values { text, position: 0, sizes, same_percentage, random }
    }

    /// The next value.
    #[inline]
    pub(crate) fn next(&mut self) -> &[u8] {
        let bytes = match &mut self.sizes {
            Sizes::Fixed(bytes) => *bytes,
            Sizes::Uniform { min, max, random } => {
                usize::try_from(*min + random.below(*max - *min + 1)).expect("a size fits into usize")
            }
            Sizes::Normal { min, max, random } => normal(*min, *max, random),
        };
        self.slice(bytes)
    }

    /// The next `bytes` of text.
    #[inline]
    pub(crate) fn slice(&mut self, bytes: usize) -> &[u8] {
        if self.same_percentage > 0 && self.random.below(100) < self.same_percentage {
            return &self.text[..bytes];
        }
        if self.position + bytes > self.text.len() {
            self.position = 0;
        }
        self.position += bytes;
        &self.text[self.position - bytes..self.position]
    }
}

/// A normally distributed size, by the method of Box and Muller. `min` and `max` lie three standard
/// deviations from the mean.
fn normal(min: f64, max: f64, random: &mut Random64) -> usize {
    let mut unit = || ((random.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    let deviates = (-2.0 * unit().ln()).sqrt() * (std::f64::consts::TAU * unit()).cos();
    ((min + max) / 2.0 + deviates * (max - min) / 6.0).clamp(min, max) as usize
}

/// At least `bytes` of text that a good compressor shrinks to `ratio`. Each piece begins with
/// random characters and repeats them.
fn compressible_text(random: &mut Random, ratio: f64, bytes: usize) -> Vec<u8> {
    let random_bytes = ((PIECE_BYTES as f64 * ratio) as usize).max(1);
    let mut text = Vec::with_capacity(bytes + PIECE_BYTES);
    while text.len() < bytes {
        let piece: Vec<u8> = (0..random_bytes).map(|_| printable(random)).collect();
        text.extend(piece.iter().cycle().take(PIECE_BYTES));
    }
    text
}

/// One of the 95 characters from ' ' to '~'.
fn printable(random: &mut Random) -> u8 {
    b' ' + u8::try_from(random.below(95)).expect("the number is below 95")
}

#[cfg(test)]
mod tests;
