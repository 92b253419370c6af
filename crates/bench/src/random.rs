//! RocksDB's random numbers: a seed gives the same keys and values as in RocksDB's `db_bench`.

/// Number of words of the Mersenne Twister's state.
const WORDS: usize = 312;
/// Distance between two words that are mixed.
const MIDDLE: usize = 156;

/// The 64-bit Mersenne Twister, which C++ calls `mt19937_64`.
///
/// Source: T. Nishimura, "Tables of 64-bit Mersenne Twisters", ACM TOMACS 10 (2000); the constants
/// are those of the C++ standard, [rand.predef].
#[derive(Clone)]
pub(crate) struct Random64 {
    words: Box<[u64; WORDS]>,
    next: usize,
}

impl Random64 {
    pub(crate) fn new(seed: u64) -> Random64 {
        let mut words = Box::new([seed; WORDS]);
        for i in 1..WORDS {
            let before = words[i - 1];
            words[i] =
                (before ^ (before >> 62)).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i as u64);
        }
        Random64 { words, next: WORDS }
    }

    /// The next number: 64 uniform bits.
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        if self.next == WORDS {
            self.refill();
        }
        let mut x = self.words[self.next];
        self.next += 1;
        x ^= (x >> 29) & 0x5555_5555_5555_5555;
        x ^= (x << 17) & 0x71d6_7fff_eda6_0000;
        x ^= (x << 37) & 0xfff7_eee0_0000_0000;
        x ^ (x >> 43)
    }

    fn refill(&mut self) {
        const UPPER: u64 = !0 << 31;
        for i in 0..WORDS {
            let joined = (self.words[i] & UPPER) | (self.words[(i + 1) % WORDS] & !UPPER);
            let odd = if joined & 1 == 1 { 0xb502_6f5a_a966_19e9 } else { 0 };
            self.words[i] = self.words[(i + MIDDLE) % WORDS] ^ (joined >> 1) ^ odd;
        }
        self.next = 0;
    }

    /// A number below `limit`: the remainder of the next number, as in RocksDB. REQUIRES: `limit`
    /// is above 0.
    #[inline]
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// The generator of Park and Miller: x <- 16807 x mod 2^31-1. RocksDB's `db_bench` makes values
/// with it.
///
/// Source: S. Park and K. Miller, "Random number generators: good ones are hard to find", CACM 31
/// (1988).
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u32,
}

impl Random {
    const MODULUS: u64 = (1 << 31) - 1;

    /// A generator with `seed` modulo 2^31. The seeds 0 and 2^31-1 are fixed points and become 1.
    pub(crate) fn new(seed: u32) -> Random {
        let seed = seed & 0x7fff_ffff;
        Random { state: if seed == 0 || u64::from(seed) == Random::MODULUS { 1 } else { seed } }
    }

    pub(crate) fn next(&mut self) -> u32 {
        self.state = u32::try_from(u64::from(self.state) * 16_807 % Random::MODULUS)
            .expect("a remainder is below 2^31");
        self.state
    }

    /// A number below `limit`. REQUIRES: `limit` > 0.
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        self.next() % limit
    }
}

#[cfg(test)]
mod tests;
