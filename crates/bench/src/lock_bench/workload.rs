//! The requests of transactions.
//!
//! In: a generator. Out: requests, in ascending order where waits could otherwise make a circle.

use esker_lock::LockMode;

/// Keys of a hot workload.
const HOT_KEYS: u64 = 100;
/// Keys in a short range.
const SHORT: u64 = 10;

/// A kind of transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workload {
    /// Exclusive locks on random keys.
    Random,
    /// Exclusive locks on keys that grow, over all threads.
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

/// Keys from `first` on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) first: u64,
    pub(super) count: u64,
    pub(super) mode: LockMode,
}

impl Workload {
    /// All workloads.
    pub const ALL: [Workload; 6] = [
        Workload::Random,
        Workload::Increasing,
        Workload::ShortRanges,
        Workload::WideRanges,
        Workload::Shared,
        Workload::Hot,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Workload::Random => "random",
            Workload::Increasing => "increasing",
            Workload::ShortRanges => "short-ranges",
            Workload::WideRanges => "wide-ranges",
            Workload::Shared => "shared",
            Workload::Hot => "hot",
        }
    }

    /// The workload with this name.
    pub fn by_name(name: &str) -> Option<Workload> {
        Workload::ALL.into_iter().find(|w| w.name() == name)
    }

    /// Whether it locks ranges, which a family for points refuses.
    pub const fn has_ranges(self) -> bool {
        matches!(self, Workload::ShortRanges | Workload::WideRanges)
    }

    /// One request of a transaction, among `count` keys; `next` gives growing keys.
    pub(super) fn request(
        self,
        keys: u64,
        rng: &mut impl FnMut(u64) -> u64,
        next: impl FnOnce() -> u64,
    ) -> Request {
        let one = |first, mode| Request { first, count: 1, mode };
        let mixed = |n: u64| if n < 8 { LockMode::Shared } else { LockMode::Exclusive };
        match self {
            Workload::Random => one(rng(keys), LockMode::Exclusive),
            Workload::Increasing => one(next(), LockMode::Exclusive),
            Workload::ShortRanges => Request { first: rng(keys), count: SHORT, mode: LockMode::Exclusive },
            Workload::WideRanges if rng(100) == 0 => {
                Request { first: rng(keys), count: (keys / 100).max(1), mode: LockMode::Exclusive }
            }
            Workload::WideRanges => one(rng(keys), LockMode::Exclusive),
            Workload::Shared => one(rng(keys), mixed(rng(10))),
            Workload::Hot => one(rng(HOT_KEYS), mixed(rng(10))),
        }
    }

    /// Whether transactions take their locks in ascending order, and make no circles.
    pub(super) const fn is_sorted(self) -> bool {
        !matches!(self, Workload::Random | Workload::Increasing)
    }
}
