//! The sequence numbers of transactions' entries that were in memtables before their commit.

use esker_base::SequenceNumber;
use esker_base::sync::Arc;

/// Ranges of sequence numbers, both ends included, ascending and apart. A copy shares them.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnNumbers(Arc<Vec<(SequenceNumber, SequenceNumber)>>);

impl OwnNumbers {
    /// Adds `count` numbers from `first` on. Calls come in ascending order of `first`.
    pub(crate) fn add(&mut self, first: SequenceNumber, count: u64) {
        let last = SequenceNumber(first.0.saturating_add(count.saturating_sub(1)));
        let ranges = Arc::make_mut(&mut self.0);
        match ranges.last_mut().filter(|range| first.0 <= range.1.0.saturating_add(1)) {
            Some(range) => range.1 = range.1.max(last),
            None => ranges.push((first, last)),
        }
    }

    /// Whether `sequence` is one of them.
    #[inline]
    pub(crate) fn contains(&self, sequence: SequenceNumber) -> bool {
        let next = self.0.partition_point(|range| range.0 <= sequence);
        next.checked_sub(1).is_some_and(|at| sequence <= self.0[at].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_those_that_were_added() {
        let mut numbers = OwnNumbers::default();
        for (first, count) in [(3, 2), (5, 1), (9, 1)] {
            numbers.add(SequenceNumber(first), count);
        }
        let all: Vec<u64> = (0..20).filter(|n| numbers.contains(SequenceNumber(*n))).collect();
        assert_eq!(all, [3, 4, 5, 9]);
    }
}
