//! The requests of transactions.
//!
//! In: a generator of random numbers. Out: requests, and whether the caller sorts them.

use esker_lock::LockMode;

/// Keys of a hot workload.
const HOT_KEYS: u64 = 100;
/// Keys in a short range.
const SHORT: u64 = 10;

/// A kind of transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockWorkload {
    /// Exclusive locks on random keys.
    Random,
    /// Exclusive locks on ascending keys. No two threads lock the same key.
    Increasing,
    /// Exclusive locks on ranges of ten keys.
    ShortRanges,
    /// Random keys; one request of a hundred is for a range of a hundredth of all keys.
    WideRanges,
    /// Random keys; eight requests of ten are shared.
    Shared,
    /// A hundred keys; eight requests of ten are shared.
    Hot,
}

/// A request to lock `count` keys from `first` on.
#[derive(Clone, Copy, Debug)]
pub(super) struct LockBenchRequest {
    pub(super) first: u64,
    pub(super) count: u64,
    pub(super) mode: LockMode,
}

impl LockWorkload {
    /// All workloads.
    pub const ALL: [LockWorkload; 6] = [
        LockWorkload::Random,
        LockWorkload::Increasing,
        LockWorkload::ShortRanges,
        LockWorkload::WideRanges,
        LockWorkload::Shared,
        LockWorkload::Hot,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            LockWorkload::Random => "random",
            LockWorkload::Increasing => "increasing",
            LockWorkload::ShortRanges => "short-ranges",
            LockWorkload::WideRanges => "wide-ranges",
            LockWorkload::Shared => "shared",
            LockWorkload::Hot => "hot",
        }
    }

    /// The workload with this name.
    pub fn by_name(name: &str) -> Option<LockWorkload> {
        LockWorkload::ALL.into_iter().find(|w| w.name() == name)
    }

    /// Whether it locks ranges, which a family for points refuses.
    pub const fn has_ranges(self) -> bool {
        matches!(self, LockWorkload::ShortRanges | LockWorkload::WideRanges)
    }

    /// One request of a transaction, among `keys` keys; `next` gives ascending keys.
    pub(super) fn request(
        self,
        keys: u64,
        rng: &mut impl FnMut(u64) -> u64,
        next: impl FnOnce() -> u64,
    ) -> LockBenchRequest {
        let one = |first, mode| LockBenchRequest { first, count: 1, mode };
        let mixed = |n: u64| if n < 8 { LockMode::Shared } else { LockMode::Exclusive };
        match self {
            LockWorkload::Random => one(rng(keys), LockMode::Exclusive),
            LockWorkload::Increasing => one(next(), LockMode::Exclusive),
            LockWorkload::ShortRanges => {
                LockBenchRequest { first: rng(keys), count: SHORT, mode: LockMode::Exclusive }
            }
            LockWorkload::WideRanges if rng(100) == 0 => {
                LockBenchRequest { first: rng(keys), count: (keys / 100).max(1), mode: LockMode::Exclusive }
            }
            LockWorkload::WideRanges => one(rng(keys), LockMode::Exclusive),
            LockWorkload::Shared => one(rng(keys), mixed(rng(10))),
            LockWorkload::Hot => one(rng(HOT_KEYS), mixed(rng(10))),
        }
    }

    /// Whether the caller sorts a transaction's requests by their first keys, to avoid deadlocks.
    pub(super) const fn is_sorted(self) -> bool {
        !matches!(self, LockWorkload::Random | LockWorkload::Increasing)
    }
}
