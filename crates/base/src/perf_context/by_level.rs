//! Counts of one thread by level of the tree.
//!
//! In: [`count_at_level`] in the engine, on threads that asked for these counts. Out:
//! [`PerfContext::level_to_perf_context`]. Names are RocksDB's (`PerfContextByLevel`).

use super::{BY_LEVEL, PerfContext, counts_by_level, with_live};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

/// Reads of one thread from one level of the tree, since [`PerfContext::reset`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct PerfContextByLevel {
    /// Filters that ruled a key of a get or multi-get out, by the key or its prefix.
    pub bloom_filter_useful: u64,
    /// Filters that let a key pass.
    pub bloom_filter_full_positive: u64,
    /// Keys that a filter let pass and the table had.
    pub bloom_filter_full_true_positive: u64,
    /// Keys whose value was found here. A deleted key, or one with operands alone, does not count.
    pub user_key_return_count: u64,
    /// Nanoseconds of point reads in tables, from the level `EnableTimeExceptForMutex` on. If one
    /// multi-get reads blocks of several levels at once, those reads count nowhere.
    pub get_from_table_nanos: u64,
    /// Blocks that the block cache had.
    pub block_cache_hit_count: u64,
    /// Blocks that it did not have.
    pub block_cache_miss_count: u64,
}

impl PerfContextByLevel {
    /// Name and value of each number, in RocksDB's order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("bloom_filter_useful", self.bloom_filter_useful),
            ("bloom_filter_full_positive", self.bloom_filter_full_positive),
            ("bloom_filter_full_true_positive", self.bloom_filter_full_true_positive),
            ("user_key_return_count", self.user_key_return_count),
            ("get_from_table_nanos", self.get_from_table_nanos),
            ("block_cache_hit_count", self.block_cache_hit_count),
            ("block_cache_miss_count", self.block_cache_miss_count),
        ]
        .into_iter()
    }
}

/// The numbers that are not zero: `name = 1, other = 2`.
impl fmt::Display for PerfContextByLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (name, value) in self.iter().filter(|(_, value)| *value > 0) {
            write!(f, "{separator}{name} = {value}")?;
            separator = ", ";
        }
        Ok(())
    }
}

type Levels = BTreeMap<u32, PerfContextByLevel>;

thread_local! {
    static LEVELS: RefCell<Levels> = const { RefCell::new(BTreeMap::new()) };
}

impl PerfContext {
    /// Counts from now on by level of the tree, too, on this thread, from the level `EnableCount`
    /// on. Earlier counts by level stay. A get then takes the slower path of gets with times.
    ///
    /// ```
    /// use esker_base::perf_context::PerfContext;
    ///
    /// PerfContext::enable_per_level_perf_context();
    /// // … read …
    /// for (level, counts) in PerfContext::level_to_perf_context() {
    ///     println!("L{level}: {} filters ruled a key out", counts.bloom_filter_useful);
    /// }
    /// PerfContext::clear_per_level_perf_context();
    /// # assert!(!PerfContext::per_level_perf_context_enabled());
    /// ```
    pub fn enable_per_level_perf_context() {
        with_live(|live| live.detail.set(live.detail.get() | BY_LEVEL));
    }

    /// Counts no more by level. The counts stay.
    pub fn disable_per_level_perf_context() {
        with_live(|live| live.detail.set(live.detail.get() & !BY_LEVEL));
    }

    /// Counts no more by level, and drops the counts.
    pub fn clear_per_level_perf_context() {
        Self::disable_per_level_perf_context();
        LEVELS.take();
    }

    /// Whether this thread counts by level.
    pub fn per_level_perf_context_enabled() -> bool {
        with_live(|live| live.detail.get() & BY_LEVEL > 0)
    }

    /// A copy of this thread's counts by level; levels without a count are not there. Level
    /// `u32::MAX` stands for tables of no level. A table that moved to another level counts at its
    /// former one until it is opened again.
    pub fn level_to_perf_context() -> BTreeMap<u32, PerfContextByLevel> {
        LEVELS.with_borrow(Clone::clone)
    }
}

/// As in RocksDB, a reset leaves levels without numbers, and counts that are not on as they are.
pub(super) fn reset() {
    if PerfContext::per_level_perf_context_enabled() {
        LEVELS.with_borrow_mut(|levels| levels.values_mut().for_each(|level| *level = Default::default()));
    }
}

/// Changes the counts of a level, if this thread counts by level.
#[doc(hidden)]
#[cold]
pub fn count_at_level(level: u32, count: impl FnOnce(&mut PerfContextByLevel)) {
    if counts_by_level() {
        // A thread that ends may still read, and counts no more.
        _ = LEVELS.try_with(|levels| count(levels.borrow_mut().entry(level).or_default()));
    }
}
