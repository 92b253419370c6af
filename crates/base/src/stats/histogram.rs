//! Histograms with buckets that grow by half.
//!
//! In: numbers. Out: count, sum, percentiles, and RocksDB's texts. Source: RocksDB
//! `monitoring/histogram.cc`.
//!
//! Invariants
//!  1. Bucket b holds values in (limit[b-1], limit\[b\]]; the last holds all larger ones. Limits
//!     are RocksDB's: 1, 2, then one and a half times the limit before, cut to two digits.

use crate::sync::atomic::{AtomicU64, Ordering};
use std::fmt;

/// Number of buckets.
pub const BUCKET_COUNT: usize = 109;

/// The largest value of each bucket.
pub const BUCKET_LIMITS: [u64; BUCKET_COUNT] = bucket_limits();

const fn bucket_limits() -> [u64; BUCKET_COUNT] {
    let mut limits = [0; BUCKET_COUNT];
    limits[0] = 1;
    limits[1] = 2;
    let mut exact = 2.0f64;
    let mut i = 2;
    while i < BUCKET_COUNT {
        exact *= 1.5;
        let (mut digits, mut power) = (exact as u64, 1);
        while digits / 10 > 10 {
            digits /= 10;
            power *= 10;
        }
        limits[i] = digits * power;
        i += 1;
    }
    limits
}

/// For each number of significant bits, the bucket of the smallest value with that number.
const FIRST_BUCKET: [u8; 65] = first_buckets();

const fn first_buckets() -> [u8; 65] {
    let mut first = [0; 65];
    let mut bits = 1;
    while bits <= 64 {
        let smallest = 1u64 << (bits - 1);
        let mut b = 0;
        while b < BUCKET_COUNT - 1 && BUCKET_LIMITS[b] < smallest {
            b += 1;
        }
        first[bits] = b as u8;
        bits += 1;
    }
    first
}

/// The bucket of a value.
#[inline]
pub fn bucket_of(value: u64) -> usize {
    let mut b = FIRST_BUCKET[(64 - value.leading_zeros()) as usize] as usize;
    // At most two steps, because limits grow by less than a factor of two.
    while b < BUCKET_COUNT - 1 && BUCKET_LIMITS[b] < value {
        b += 1;
    }
    b
}

/// A distribution that many threads add to. Fields are updated atomically, but one by one: a reader
/// may see a value in one field and not yet in another.
#[derive(Debug)]
pub struct HistogramStat {
    min: AtomicU64,
    max: AtomicU64,
    sum: AtomicU64,
    sum_squares: AtomicU64,
    buckets: [AtomicU64; BUCKET_COUNT],
}

impl Default for HistogramStat {
    fn default() -> HistogramStat {
        HistogramStat::new()
    }
}

impl HistogramStat {
    /// An empty histogram.
    pub fn new() -> HistogramStat {
        HistogramStat {
            min: AtomicU64::new(u64::MAX),
            max: AtomicU64::new(0),
            sum: AtomicU64::new(0),
            sum_squares: AtomicU64::new(0),
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Adds a value.
    #[inline]
    pub fn add(&self, value: u64) {
        self.buckets[bucket_of(value)].fetch_add(1, Ordering::Relaxed);
        if value < self.min.load(Ordering::Relaxed) {
            self.min.fetch_min(value, Ordering::Relaxed);
        }
        if value > self.max.load(Ordering::Relaxed) {
            self.max.fetch_max(value, Ordering::Relaxed);
        }
        self.sum.fetch_add(value, Ordering::Relaxed);
        self.sum_squares.fetch_add(value.wrapping_mul(value), Ordering::Relaxed);
    }

    /// Adds the values of this histogram to `out`.
    pub fn merge_into(&self, out: &mut HistogramSnapshot) {
        out.min = out.min.min(self.min.load(Ordering::Relaxed));
        out.max = out.max.max(self.max.load(Ordering::Relaxed));
        out.sum = out.sum.wrapping_add(self.sum.load(Ordering::Relaxed));
        out.sum_squares = out.sum_squares.wrapping_add(self.sum_squares.load(Ordering::Relaxed));
        for (out, bucket) in out.buckets.iter_mut().zip(&self.buckets) {
            let n = bucket.load(Ordering::Relaxed);
            *out += n;
        }
        out.count = out.buckets.iter().sum();
    }

    /// The current values.
    pub fn snapshot(&self) -> HistogramSnapshot {
        let mut out = HistogramSnapshot::new();
        self.merge_into(&mut out);
        out
    }

    /// Removes all values.
    pub fn clear(&self) {
        self.min.store(u64::MAX, Ordering::Relaxed);
        for number in [&self.max, &self.sum, &self.sum_squares].into_iter().chain(&self.buckets) {
            number.store(0, Ordering::Relaxed);
        }
    }
}

/// A summary of a histogram, RocksDB's `HistogramData`. All fields are zero if it is empty.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct HistogramData {
    /// Half of all values are at most this.
    pub median: f64,
    /// 95% of all values are at most this.
    pub percentile95: f64,
    /// 99% of all values are at most this.
    pub percentile99: f64,
    /// The mean.
    pub average: f64,
    /// Standard deviation of the values.
    pub standard_deviation: f64,
    /// The largest value.
    pub max: f64,
    /// Number of values.
    pub count: u64,
    /// The sum of all values.
    pub sum: u64,
    /// The smallest value.
    pub min: f64,
}

/// A distribution that one thread owns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HistogramSnapshot {
    min: u64,
    max: u64,
    sum: u64,
    sum_squares: u64,
    count: u64,
    buckets: [u64; BUCKET_COUNT],
}

impl Default for HistogramSnapshot {
    fn default() -> HistogramSnapshot {
        HistogramSnapshot::new()
    }
}

impl HistogramSnapshot {
    /// An empty histogram.
    pub const fn new() -> HistogramSnapshot {
        HistogramSnapshot {
            min: u64::MAX,
            max: 0,
            sum: 0,
            sum_squares: 0,
            count: 0,
            buckets: [0; BUCKET_COUNT],
        }
    }

    /// Adds a value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.buckets[bucket_of(value)] += 1;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.count += 1;
        self.sum = self.sum.wrapping_add(value);
        self.sum_squares = self.sum_squares.wrapping_add(value.wrapping_mul(value));
    }

    /// Adds all values of another.
    pub fn merge(&mut self, other: &HistogramSnapshot) {
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
        self.sum_squares = self.sum_squares.wrapping_add(other.sum_squares);
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum of all values.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The smallest value; 0 if there is none.
    pub fn min(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min }
    }

    /// The largest value; 0 if there is none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The mean; 0 if there are no values.
    pub fn average(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// Standard deviation of the values; 0 if there are none.
    pub fn standard_deviation(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let (n, sum, squares) = (self.count as f64, self.sum as f64, self.sum_squares as f64);
        ((squares * n - sum * sum) / (n * n)).max(0.0).sqrt()
    }

    /// The value that `p` percent of all values do not exceed. Assumes that values are spread
    /// evenly in their bucket.
    pub fn percentile(&self, p: f64) -> f64 {
        let threshold = self.count as f64 * (p / 100.0);
        let mut before = 0;
        for (b, &n) in self.buckets.iter().enumerate() {
            if (before + n) as f64 >= threshold {
                let left = if b == 0 { 0 } else { BUCKET_LIMITS[b - 1] } as f64;
                let width = BUCKET_LIMITS[b] as f64 - left;
                let part = if n == 0 { 0.0 } else { (threshold - before as f64) / n as f64 };
                return (left + width * part).max(self.min() as f64).min(self.max as f64);
            }
            before += n;
        }
        self.max as f64
    }

    /// A summary of the histogram.
    pub fn data(&self) -> HistogramData {
        HistogramData {
            median: self.percentile(50.0),
            percentile95: self.percentile(95.0),
            percentile99: self.percentile(99.0),
            average: self.average(),
            standard_deviation: self.standard_deviation(),
            max: self.max as f64,
            count: self.count,
            sum: self.sum,
            min: self.min() as f64,
        }
    }
}

/// RocksDB's table of buckets, as `db_bench --histogram` prints it.
impl fmt::Display for HistogramSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let p = |p| self.percentile(p);
        let (average, deviation) = (self.average(), self.standard_deviation());
        writeln!(f, "Count: {} Average: {average:.4}  StdDev: {deviation:.2}", self.count)?;
        writeln!(f, "Min: {}  Median: {:.4}  Max: {}", self.min(), p(50.0), self.max)?;
        writeln!(
            f,
            "Percentiles: P50: {:.2} P75: {:.2} P99: {:.2} P99.9: {:.2} P99.99: {:.2}",
            p(50.0),
            p(75.0),
            p(99.0),
            p(99.9),
            p(99.99)
        )?;
        writeln!(f, "------------------------------------------------------")?;
        let percent = 100.0 / self.count as f64;
        let mut cumulative = 0;
        for (b, &n) in self.buckets.iter().enumerate().filter(|(_, n)| **n > 0) {
            cumulative += n;
            let (open, left) = if b == 0 { ('[', 0) } else { ('(', BUCKET_LIMITS[b - 1]) };
            let (part, all) = (percent * n as f64, percent * cumulative as f64);
            let marks = "#".repeat((part / 5.0 + 0.5) as usize);
            writeln!(f, "{open} {left:7}, {:7} ] {n:8} {part:7.3}% {all:7.3}% {marks}", BUCKET_LIMITS[b])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
