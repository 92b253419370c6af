//! Timestamps of different widths and orders, for families with user-defined timestamps.
//!
//! In: points in time, as numbers. Out: the bytes of their timestamps, and the order of user keys
//! that end with timestamps. Tests make a comparator from this order.

use std::cmp::Ordering;

/// The order of timestamps: how their bytes give a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimestampOrder {
    /// Little-endian, as in the built-in comparators.
    Little,
    /// Big-endian.
    Big,
    /// Little-endian. The larger number is the older timestamp.
    Reverse,
    /// Little-endian two's complement. The oldest and the newest timestamp are neither all zeros
    /// nor all ones.
    Signed,
}

/// The point in time whose signed timestamp is zero.
const SIGNED_ZERO: u128 = 10_000;

/// The order and width of timestamps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimestampFormat {
    order: TimestampOrder,
    bytes: usize,
}

impl TimestampFormat {
    /// The format of the built-in comparators.
    pub const STOCK: TimestampFormat = TimestampFormat { order: TimestampOrder::Little, bytes: 8 };
    /// Every order.
    pub const ORDERS: [TimestampOrder; 4] =
        [TimestampOrder::Little, TimestampOrder::Big, TimestampOrder::Reverse, TimestampOrder::Signed];

    /// The format of timestamps with `bytes` bytes: 1 to 16.
    pub fn new(order: TimestampOrder, bytes: usize) -> TimestampFormat {
        assert!((1..=16).contains(&bytes), "timestamps of {bytes} bytes");
        TimestampFormat { order, bytes }
    }

    /// A format that depends on `seed`: any order, with 4, 8 or 16 bytes.
    pub fn of_seed(seed: u64) -> TimestampFormat {
        let (order, bytes) = ((seed % 4) as usize, (seed / 4 % 3) as usize);
        TimestampFormat { order: TimestampFormat::ORDERS[order], bytes: [8, 4, 16][bytes] }
    }

    /// The order of timestamps.
    pub fn order(self) -> TimestampOrder {
        self.order
    }

    /// Bytes of a timestamp.
    pub fn bytes(self) -> usize {
        self.bytes
    }

    fn largest(self) -> u128 {
        u128::MAX >> (128 - 8 * self.bytes)
    }

    /// The timestamp of a point in time. For points beyond the newest timestamp: the newest
    /// timestamp.
    pub fn timestamp(self, time: u64) -> Vec<u8> {
        let largest = self.largest();
        let number = match self.order {
            TimestampOrder::Little | TimestampOrder::Big => u128::from(time).min(largest),
            TimestampOrder::Reverse => largest - u128::from(time).min(largest),
            TimestampOrder::Signed => {
                u128::from(time).min(largest / 2 + SIGNED_ZERO).wrapping_sub(SIGNED_ZERO) & largest
            }
        };
        match self.order {
            TimestampOrder::Big => number.to_be_bytes()[16 - self.bytes..].to_vec(),
            _ => number.to_le_bytes()[..self.bytes].to_vec(),
        }
    }

    /// A number that is larger for a newer timestamp.
    /// # Panics
    /// If `timestamp` has another width.
    pub fn rank(self, timestamp: &[u8]) -> u128 {
        assert_eq!(timestamp.len(), self.bytes);
        let fold = |number: u128, byte: &u8| number << 8 | u128::from(*byte);
        let little = timestamp.iter().rev().fold(0, fold);
        match self.order {
            TimestampOrder::Little => little,
            TimestampOrder::Big => timestamp.iter().fold(0, fold),
            TimestampOrder::Reverse => self.largest() - little,
            TimestampOrder::Signed => little ^ (self.largest() / 2 + 1),
        }
    }

    /// The point in time of a timestamp.
    /// # Panics
    /// If the timestamp does not come from [`TimestampFormat::timestamp`].
    pub fn time(self, timestamp: &[u8]) -> u64 {
        let rank = self.rank(timestamp);
        let time = match self.order {
            TimestampOrder::Signed => rank + SIGNED_ZERO - (self.largest() / 2 + 1),
            _ => rank,
        };
        u64::try_from(time).expect("the timestamp was made from 64 bits")
    }

    /// Compares keys by their bytes, then by timestamp: the newest comes first.
    pub fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        let ((a, of_a), (b, of_b)) = (a.split_at(a.len() - self.bytes), b.split_at(b.len() - self.bytes));
        a.cmp(b).then_with(|| self.rank(of_b).cmp(&self.rank(of_a)))
    }

    /// The oldest and the newest timestamp, if they are neither all zeros nor all ones. A
    /// comparator of this format must then report them.
    pub fn ends(self) -> Option<[Vec<u8>; 2]> {
        if self.order != TimestampOrder::Signed {
            return None;
        }
        let (mut min, mut max) = (vec![0; self.bytes], vec![0xFF; self.bytes]);
        (min[self.bytes - 1], max[self.bytes - 1]) = (0x80, 0x7F);
        Some([min, max])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_with_newer_timestamps_come_first() {
        for seed in 0..12 {
            let format = TimestampFormat::of_seed(seed);
            let times = [0, 1, 255, 256, 1000, 9_999, 10_000, 10_001, 70_000, 1 << 31];
            let stamped = |time| [&b"key"[..], &format.timestamp(time)].concat();
            for (i, time) in times.iter().enumerate() {
                assert_eq!(format.time(&format.timestamp(*time)), *time, "{format:?}");
                for later in &times[i + 1..] {
                    let order = format.compare(&stamped(*later), &stamped(*time));
                    assert_eq!(order, Ordering::Less, "{format:?}: {time}, {later}");
                }
            }
            assert!(format.compare(&stamped(1), &[&b"kez"[..], &format.timestamp(2)].concat()).is_lt());
            if let Some([min, max]) = format.ends() {
                assert!(format.rank(&min) == 0 && format.rank(&max) == format.largest());
            }
        }
    }
}
