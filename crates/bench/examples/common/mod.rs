//! Parts that several examples use.

/// A key of the length that RocksDB's `db_bench` uses.
pub(crate) type Key = [u8; 16];

/// `number` in decimal digits, zeros before it: keys in the order of their numbers.
pub(crate) fn key(number: u64) -> Key {
    let mut key = [b'0'; 16];
    let mut rest = number;
    for digit in key.iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    key
}
