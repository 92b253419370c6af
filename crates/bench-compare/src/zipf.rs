//! YCSB's distributions of records.
//!
//! A scrambled generator always draws from ten billion ranks, whose zeta is a published constant.
//! It hashes a rank (FNV-1a, 64 bits, from the lowest byte) and takes the hash modulo the number of
//! records.
//! Source: Gray et al., "Quickly Generating Billion-Record Synthetic Databases" (SIGMOD 1994), for
//! the method; YCSB core 0.17 (`ZipfianGenerator`, `ScrambledZipfianGenerator`,
//! `SkewedLatestGenerator`) for the constants and for the scattering of ranks.
//!
//! Invariant: the probability of rank r (from 0) is 1 / (r+1)^theta / zeta(n). This is exact for
//! the first two ranks and approximate for the others.

use fastrand::Rng;

/// The skew of YCSB.
pub(crate) const THETA: f64 = 0.99;
/// Ranks that a scrambled generator draws from.
const SCRAMBLED_RANKS: u64 = 10_000_000_000;
/// zeta(ten billion, 0.99), as YCSB publishes it.
pub(crate) const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

/// Sum of 1 / i^theta for i in 1..=n.
pub(crate) fn zeta(n: u64, theta: f64) -> f64 {
    extend_zeta(0, 0.0, n, theta)
}

/// `zeta(to)` from `zeta(from)`.
fn extend_zeta(from: u64, sum: f64, to: u64, theta: f64) -> f64 {
    (from + 1..=to).fold(sum, |sum, i| sum + (i as f64).powf(theta).recip())
}

/// A generator of ranks 0..n, rank 0 most often.
#[derive(Clone, Debug)]
pub(crate) struct Zipfian {
    ranks: u64,
    zeta: f64,
    eta: f64,
}

impl Zipfian {
    /// A generator over `ranks` ranks.
    pub(crate) fn new(ranks: u64) -> Zipfian {
        Zipfian::with_zeta(ranks, zeta(ranks, THETA))
    }

    fn with_zeta(ranks: u64, sum: f64) -> Zipfian {
        let eta = (1.0 - (2.0 / ranks as f64).powf(1.0 - THETA)) / (1.0 - zeta(2, THETA) / sum);
        Zipfian { ranks, zeta: sum, eta }
    }

    /// Extends the generator to more ranks.
    pub(crate) fn grow(&mut self, ranks: u64) {
        if ranks > self.ranks {
            *self = Zipfian::with_zeta(ranks, extend_zeta(self.ranks, self.zeta, ranks, THETA));
        }
    }

    /// The rank for a uniform number in 0..1.
    pub(crate) fn rank(&self, uniform: f64) -> u64 {
        let scaled = uniform * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5_f64.powf(THETA) {
            return 1;
        }
        let rank = self.ranks as f64 * (self.eta * uniform - self.eta + 1.0).powf(1.0 / (1.0 - THETA));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative, at most ranks"
        )]
        let rank = rank as u64;
        rank.min(self.ranks - 1)
    }
}

/// YCSB's hash that scatters ranks: FNV-1a of a number's eight bytes, lowest first, as a positive
/// signed number.
pub(crate) fn fnv64(number: u64) -> u64 {
    let hash = number.to_le_bytes().iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(1_099_511_628_211)
    });
    hash.cast_signed().unsigned_abs()
}

/// A generator of records 0..n; hot records are scattered among all.
#[derive(Clone, Debug)]
pub(crate) struct Scrambled {
    zipfian: Zipfian,
    records: u64,
}

impl Scrambled {
    /// A generator over `records` records.
    pub(crate) fn new(records: u64) -> Scrambled {
        Scrambled { zipfian: Zipfian::with_zeta(SCRAMBLED_RANKS, SCRAMBLED_ZETA), records }
    }

    /// The next record.
    pub(crate) fn next(&self, random: &mut Rng) -> u64 {
        fnv64(self.zipfian.rank(random.f64())) % self.records
    }
}

/// A generator of records 0..n, the latest most often.
#[derive(Clone, Debug)]
pub(crate) struct Latest {
    zipfian: Zipfian,
}

impl Latest {
    /// A generator over `records` records.
    pub(crate) fn new(records: u64) -> Latest {
        Latest { zipfian: Zipfian::new(records) }
    }

    /// The next record, among `records` records.
    pub(crate) fn next(&mut self, random: &mut Rng, records: u64) -> u64 {
        self.zipfian.grow(records);
        records - 1 - self.zipfian.rank(random.f64()).min(records - 1)
    }
}

#[cfg(test)]
mod tests;
