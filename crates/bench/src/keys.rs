//! Keys as RocksDB's `db_bench` forms them, and the orders in which they come.
//!
//! A key is its number in big-endian order, cut to 8 bytes, then '0' up to `key_size`. With
//! `keys_per_prefix` the number of its prefix stands first, formed in the same way and
//! `prefix_size` bytes long.

use crate::flags::Flags;
use crate::random::Random64;

/// The bytes of a number.
const NUMBER_BYTES: usize = 8;

/// Makes keys of one size.
#[derive(Clone, Debug)]
pub(crate) struct KeyMaker {
    key_size: usize,
    prefix_size: usize,
    keys_per_prefix: u64,
    seek_missing_prefix: bool,
}

impl KeyMaker {
    pub(crate) fn new(flags: &Flags, key_size: usize) -> KeyMaker {
        KeyMaker {
            key_size,
            prefix_size: usize::try_from(flags.prefix_size).unwrap_or(0),
            keys_per_prefix: u64::try_from(flags.keys_per_prefix).unwrap_or(0),
            seek_missing_prefix: flags.seek_missing_prefix,
        }
    }

    /// A key's buffer, to be filled.
    pub(crate) fn buffer(&self) -> Vec<u8> {
        vec![b'0'; self.key_size]
    }

    /// Writes key `number` of `count` into `key`.
    #[inline]
    pub(crate) fn fill(&self, number: u64, count: u64, key: &mut [u8]) {
        if self.keys_per_prefix == 0 {
            put_number(number, key);
        } else {
            self.fill_with_prefix(number, count, key);
        }
    }

    fn fill_with_prefix(&self, number: u64, count: u64, key: &mut [u8]) {
        let prefixes = (count / self.keys_per_prefix).max(1);
        let (prefix, rest) = key.split_at_mut(self.prefix_size);
        put_number(number % prefixes, prefix);
        put_number(number, rest);
    }

    /// As `fill`, for a seek; with `seek_missing_prefix` the prefix is one that no key has.
    #[inline]
    pub(crate) fn fill_for_seek(&self, number: u64, count: u64, key: &mut [u8]) {
        self.fill(number, count, key);
        if self.seek_missing_prefix {
            // The padding of a prefix is '0' in all keys there are.
            key[NUMBER_BYTES] = b'1';
        }
    }
}

/// The last bytes of `number`, most significant first, then '0'.
#[inline]
fn put_number(number: u64, to: &mut [u8]) {
    let bytes = number.to_be_bytes();
    if let Some((head, rest)) = to.split_first_chunk_mut::<NUMBER_BYTES>() {
        *head = bytes;
        rest.fill(b'0');
    } else {
        to.copy_from_slice(&bytes[NUMBER_BYTES - to.len()..]);
    }
}

/// In which order a benchmark writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WriteOrder {
    Sequential,
    /// With repetitions.
    Random,
    /// Each once.
    UniqueRandom,
}

/// Numbers of keys, one after the other.
pub(crate) enum KeyNumbers {
    Sequential { next: u64 },
    Random { count: u64 },
    Unique { shuffled: Vec<u64>, next: usize },
}

impl KeyNumbers {
    /// Numbers below `count`.
    pub(crate) fn new(order: WriteOrder, count: u64, seed: u64) -> KeyNumbers {
        match order {
            WriteOrder::Sequential => KeyNumbers::Sequential { next: 0 },
            WriteOrder::Random => KeyNumbers::Random { count },
            WriteOrder::UniqueRandom => {
                let mut shuffled: Vec<u64> = (0..count).collect();
                let mut random = Random64::new(seed);
                // Fisher and Yates.
                for i in (1..shuffled.len()).rev() {
                    let other = usize::try_from(random.below(i as u64 + 1)).expect("an index");
                    shuffled.swap(i, other);
                }
                KeyNumbers::Unique { shuffled, next: 0 }
            }
        }
    }

    /// The next number; `None` if all unique ones have been drawn.
    #[inline]
    pub(crate) fn next(&mut self, random: &mut Random64) -> Option<u64> {
        match self {
            KeyNumbers::Sequential { next } => {
                *next += 1;
                Some(*next - 1)
            }
            KeyNumbers::Random { count } => Some(random.below(*count)),
            KeyNumbers::Unique { shuffled, next } => {
                *next += 1;
                shuffled.get(*next - 1).copied()
            }
        }
    }
}

#[cfg(test)]
mod tests;
