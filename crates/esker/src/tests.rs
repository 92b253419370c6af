//! Helpers that unit tests of several modules share. The integration tests include this file, too.

use esker_base::comparator::Comparator;
use std::cmp::Ordering;
use std::sync::atomic::{self, AtomicU64};

/// A bytewise comparator that counts comparisons and shortens no key.
#[derive(Debug, Default)]
pub(crate) struct CountingComparator(AtomicU64);

impl CountingComparator {
    /// Comparisons so far.
    pub(crate) fn count(&self) -> u64 {
        self.0.load(atomic::Ordering::Relaxed)
    }

    /// The comparisons that `work` makes.
    pub(crate) fn in_work(&self, work: impl FnOnce()) -> u64 {
        let before = self.count();
        work();
        self.count() - before
    }
}

impl Comparator for CountingComparator {
    fn name(&self) -> &str {
        "counting"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.0.fetch_add(1, atomic::Ordering::Relaxed);
        a.cmp(b)
    }
    fn find_shortest_separator(&self, _start: &mut Vec<u8>, _limit: &[u8]) {}
    fn find_short_successor(&self, _key: &mut Vec<u8>) {}
}
