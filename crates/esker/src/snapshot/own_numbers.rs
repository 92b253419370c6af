//! The sequence numbers of a transaction's own entries, under the write policy `WriteUnprepared`.

use esker_base::SequenceNumber;
use esker_base::sync::Arc;

/// Ranges of sequence numbers, both ends included, ascending and apart. A copy shares them.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnNumbers(Arc<Vec<(SequenceNumber, SequenceNumber)>>);

impl OwnNumbers {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The highest number; 0 if there is none.
    pub(crate) fn last(&self) -> SequenceNumber {
        self.0.last().map_or(SequenceNumber::ZERO, |range| range.1)
    }

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

    /// Those up to `bound`.
    pub(crate) fn up_to(&self, bound: SequenceNumber) -> OwnNumbers {
        let kept = self.0.iter().take_while(|range| range.0 <= bound);
        OwnNumbers(Arc::new(kept.map(|range| (range.0, range.1.min(bound))).collect()))
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_ranges_and_no_others() {
        let mut numbers = OwnNumbers::default();
        assert!(numbers.is_empty() && !numbers.contains(SequenceNumber(1)));
        for (first, count) in [(3, 2), (5, 1), (9, 1)] {
            numbers.add(SequenceNumber(first), count);
        }
        let of = |numbers: &OwnNumbers| -> Vec<u64> {
            (0..20).filter(|n| numbers.contains(SequenceNumber(*n))).collect()
        };
        assert_eq!((of(&numbers), numbers.last().0), (vec![3, 4, 5, 9], 9));
        let shared = numbers.clone();
        numbers.add(SequenceNumber(10), 2);
        assert_eq!((of(&shared), of(&numbers)), (vec![3, 4, 5, 9], vec![3, 4, 5, 9, 10, 11]));
        assert_eq!(of(&numbers.up_to(SequenceNumber(4))), [3, 4]);
        assert_eq!(of(&numbers.up_to(SequenceNumber(8))), [3, 4, 5]);
        assert!(numbers.up_to(SequenceNumber(2)).is_empty());
    }
}
