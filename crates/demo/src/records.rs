//! The records of the demonstration. The index of a record determines its key and value, so every
//! answer can be checked.
//!
//! Keys have the order of their indexes. The second half of a value repeats its random first half,
//! so values can be compressed.

/// The data set of one demonstration.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    count: u64,
    value_bytes: usize,
    /// A number that shares no factor with `count`. Its multiples, modulo `count`, give every index
    /// once.
    stride: u64,
}

pub(crate) type DemoKey = [u8; Records::KEY_BYTES];

impl Records {
    pub(crate) const KEY_BYTES: usize = 16;

    pub(crate) fn new(count: u64, value_bytes: usize) -> Records {
        // With this stride, records that are loaded in succession lie far apart in key order.
        let golden = (count as f64 * 0.618) as u64;
        let stride =
            (golden.max(1)..).find(|s| gcd(*s, count) == 1).expect("some number is coprime to the count");
        Records { count, value_bytes, stride }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Bytes of a key and its value.
    pub(crate) fn record_bytes(&self) -> u64 {
        (Records::KEY_BYTES + self.value_bytes) as u64
    }

    /// The index of the record that is loaded at `turn`. The turns from 0 to `count - 1` give every
    /// index once.
    pub(crate) fn shuffled(&self, turn: u64) -> u64 {
        (u128::from(turn) * u128::from(self.stride) % u128::from(self.count)) as u64
    }

    pub(crate) fn key(&self, index: u64) -> DemoKey {
        key(index, b' ')
    }

    /// A key that no record has. It lies directly after the key of `index`.
    pub(crate) fn absent_key(&self, index: u64) -> DemoKey {
        key(index, b'!')
    }

    /// Puts the value of `index` into `value`.
    pub(crate) fn fill_value(&self, index: u64, value: &mut Vec<u8>) {
        fill_value(index, self.value_bytes, value);
    }
}

fn key(index: u64, mark: u8) -> DemoKey {
    let mut key = *b"key00000000000  ";
    let mut rest = index;
    for digit in key[3..14].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key[15] = mark;
    key
}

/// Fills `value` with `bytes` bytes that `seed` determines.
pub(crate) fn fill_value(seed: u64, bytes: usize, value: &mut Vec<u8>) {
    value.clear();
    value.resize(bytes, 0);
    let (random, repeated) = value.split_at_mut(bytes.div_ceil(2));
    fastrand::Rng::with_seed(seed).fill(random);
    repeated.copy_from_slice(&random[..repeated.len()]);
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_index_is_loaded_once() {
        for count in [1_000, 1_024, 9_973, 100_000] {
            let records = Records::new(count, 10);
            let loaded: BTreeSet<u64> = (0..count).map(|turn| records.shuffled(turn)).collect();
            assert_eq!(loaded.len() as u64, count);
            assert_eq!(loaded.last(), Some(&(count - 1)));
        }
    }

    #[test]
    fn keys_sort_as_their_indexes_and_absent_ones_lie_between() {
        let records = Records::new(1_000, 10);
        for index in 0..999 {
            assert!(records.key(index) < records.absent_key(index));
            assert!(records.absent_key(index) < records.key(index + 1));
        }
    }
}
