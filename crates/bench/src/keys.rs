//! Keys in the form of RocksDB's `db_bench`, and their orders.
//!
//! A key is its number, 8 bytes in big-endian order, then '0' characters up to `key_size` bytes. If
//! `key_size` is less than 8, the key has only the last bytes of the number. With
//! `keys_per_prefix`, the key begins with the number of its prefix, in the same form, `prefix_size`
//! bytes long.

use crate::flags::Flags;
use crate::random::Random64;

/// Bytes of a number in a key.
const NUMBER_BYTES: usize = 8;

/// A maker of keys of one size.
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

    /// A buffer for a key.
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

    /// Writes key `number` of `count` into `key`, as the target of a seek. With
    /// `seek_missing_prefix`, no key of the database has the target's prefix.
    #[inline]
    pub(crate) fn fill_for_seek(&self, number: u64, count: u64, key: &mut [u8]) {
        self.fill(number, count, key);
        if self.seek_missing_prefix {
            // In every existing key this byte of the prefix is '0'.
            key[NUMBER_BYTES] = b'1';
        }
    }
}

/// Fills `to` with `number`, most significant byte first, then '0'. A short `to` gets the last
/// bytes of the number.
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

/// The order of a benchmark's writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WriteOrder {
    Sequential,
    /// Random keys, with repetitions.
    Random,
    /// Each key once, in random order.
    UniqueRandom,
}

/// A sequence of key numbers.
pub(crate) enum KeyNumbers {
    Sequential { next: u64 },
    Random { count: u64 },
    Unique { shuffled: Vec<u64>, next: usize },
}

impl KeyNumbers {
    /// A sequence of numbers below `count`.
    pub(crate) fn new(order: WriteOrder, count: u64, seed: u64) -> KeyNumbers {
        match order {
            WriteOrder::Sequential => KeyNumbers::Sequential { next: 0 },
            WriteOrder::Random => KeyNumbers::Random { count },
            WriteOrder::UniqueRandom => {
                let mut shuffled: Vec<u64> = (0..count).collect();
                let mut random = Random64::new(seed);
                // The shuffle of Fisher and Yates.
                for i in (1..shuffled.len()).rev() {
                    let other = usize::try_from(random.below(i as u64 + 1)).expect("an index");
                    shuffled.swap(i, other);
                }
                KeyNumbers::Unique { shuffled, next: 0 }
            }
        }
    }

    /// The next number; `None` after all numbers of [`WriteOrder::UniqueRandom`].
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
