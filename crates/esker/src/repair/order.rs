//! Finds tables that a repair cannot order with certainty.
//!
//! In: the tables of a family, by sequence number. Out: the pairs whose keys and sequence numbers
//! both overlap.
//!
//! There may be tens of thousands of tables, most of which overlap no other in both. So tables are
//! visited by key, and a tree over the tables that reach the current key finds those with
//! overlapping sequence numbers.

use esker_base::comparator::Comparator;
use esker_base::{FileNumber, SequenceNumber};
use esker_format::key;
use esker_format::version_edit::FileMetaData;
use std::collections::BTreeSet;

/// Most pairs that are listed: if all tables overlap, their number is the square of the tables'
/// number.
const MOST: usize = 10_000;

/// Pairs of overlapping tables whose order is unsure, the older table first. The tables are sorted
/// by sequence number. A table `of_unknown_age` forms a pair with each overlapping table behind it.
pub(super) fn unsure_pairs(
    tables: &[FileMetaData],
    comparator: &dyn Comparator,
    of_unknown_age: &BTreeSet<FileNumber>,
) -> Vec<(FileNumber, FileNumber)> {
    let start = |i: usize| key::user_key(&tables[i].smallest);
    let end = |i: usize| key::user_key(&tables[i].largest);
    let newest = |i: usize| match of_unknown_age.contains(&tables[i].number) {
        true => SequenceNumber::MAX,
        false => tables[i].largest_seqno,
    };
    let mut by_oldest: Vec<usize> = (0..tables.len()).collect();
    by_oldest.sort_by_key(|&i| tables[i].smallest_seqno);
    let mut rank = vec![0; tables.len()];
    (0..).zip(&by_oldest).for_each(|(at, &i)| rank[i] = at);
    let mut by_start: Vec<usize> = (0..tables.len()).collect();
    by_start.sort_by(|&a, &b| comparator.compare(start(a), start(b)));
    let mut by_end: Vec<usize> = (0..tables.len()).collect();
    by_end.sort_by(|&a, &b| comparator.compare(end(a), end(b)));
    let mut ended = by_end.into_iter().peekable();
    // Tables whose keys reach the current key.
    let mut reaching = Reaching::new(tables.len());
    let mut pairs = Vec::new();
    for i in by_start {
        while let Some(gone) = ended.next_if(|&e| comparator.compare(end(e), start(i)).is_lt()) {
            reaching.set(rank[gone], None);
        }
        let begun = by_oldest.partition_point(|&j| tables[j].smallest_seqno <= newest(i));
        reaching.for_each(begun, tables[i].smallest_seqno, &mut |at| {
            pairs.push((i.min(by_oldest[at]), i.max(by_oldest[at])));
            pairs.len() < MOST
        });
        if pairs.len() >= MOST {
            break;
        }
        reaching.set(rank[i], Some(newest(i)));
    }
    pairs.sort_unstable_by_key(|&(older, newer)| (newer, older));
    pairs.into_iter().map(|(older, newer)| (tables[older].number, tables[newer].number)).collect()
}

/// Tables by their oldest sequence number, in a tree whose nodes hold the newest sequence number
/// below them.
struct Reaching {
    /// Number of leaves, a power of two.
    width: usize,
    newest: Vec<Option<SequenceNumber>>,
}

impl Reaching {
    fn new(count: usize) -> Reaching {
        let width = count.next_power_of_two();
        Reaching { width, newest: vec![None; 2 * width] }
    }

    fn set(&mut self, at: usize, newest: Option<SequenceNumber>) {
        let mut node = self.width + at;
        self.newest[node] = newest;
        while node > 1 {
            node /= 2;
            self.newest[node] = self.newest[2 * node].max(self.newest[2 * node + 1]);
        }
    }

    /// Calls `found` for each of the first `count` tables that reaches `oldest`, until it returns
    /// false.
    fn for_each(&self, count: usize, oldest: SequenceNumber, found: &mut dyn FnMut(usize) -> bool) {
        let mut nodes = vec![(1, 0, self.width)];
        while let Some((node, from, to)) = nodes.pop() {
            if from >= count || self.newest[node] < Some(oldest) {
                continue;
            }
            if to - from == 1 {
                if !found(from) {
                    return;
                }
                continue;
            }
            let middle = from.midpoint(to);
            nodes.extend([(2 * node + 1, middle, to), (2 * node, from, middle)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::CountingComparator;
    use esker_base::ValueType;
    use std::cell::Cell;

    fn table(number: u64, keys: (u64, u64), seqs: (u64, u64)) -> FileMetaData {
        let key = |n: u64| key::internal_key(&n.to_be_bytes(), SequenceNumber(1), ValueType::Value);
        FileMetaData {
            number: FileNumber(number),
            smallest: key(keys.0),
            largest: key(keys.1),
            smallest_seqno: SequenceNumber(seqs.0),
            largest_seqno: SequenceNumber(seqs.1),
            ..FileMetaData::default()
        }
    }

    fn sorted(mut tables: Vec<FileMetaData>) -> Vec<FileMetaData> {
        tables.sort_by_key(|f| (f.largest_seqno, f.smallest_seqno, f.number));
        tables
    }

    #[test]
    fn pairs_are_those_that_each_table_has_with_each_other() {
        esker_testkit::seed::for_each_seed("unsure pairs", 200, |_, mut rng| {
            let count = rng.u64(0..40);
            let span = rng.u64(1..60);
            let bounds = |rng: &mut fastrand::Rng| {
                let from = rng.u64(0..100);
                (from, from + rng.u64(0..span))
            };
            let tables = sorted((0..count).map(|n| table(n, bounds(&mut rng), bounds(&mut rng))).collect());
            let unknown: BTreeSet<_> = (0..count).filter(|_| rng.u8(..) < 40).map(FileNumber).collect();
            let comparator = CountingComparator::default();
            let mut expected = Vec::new();
            for (i, newer) in tables.iter().enumerate() {
                for older in &tables[..i] {
                    let apart = |a: &FileMetaData, b: &FileMetaData| {
                        key::user_key(&a.largest) < key::user_key(&b.smallest)
                    };
                    let in_order =
                        newer.smallest_seqno > older.largest_seqno && !unknown.contains(&older.number);
                    if !in_order && !apart(newer, older) && !apart(older, newer) {
                        expected.push((older.number, newer.number));
                    }
                }
            }
            assert_eq!(unsure_pairs(&tables, &comparator, &unknown), expected);
        });
    }

    #[test]
    fn thousands_of_tables_are_not_compared_each_with_each() {
        const TABLES: u64 = 20_000;
        let compared = Cell::new(0);
        let pairs = |tables: Vec<FileMetaData>| {
            let comparator = CountingComparator::default();
            let pairs = unsure_pairs(&sorted(tables), &comparator, &BTreeSet::new());
            compared.set(comparator.count() / TABLES);
            pairs.len()
        };
        // Tables of the last level, with zeroed sequence numbers; tables of level 0; and tables
        // that all overlap.
        assert_eq!(pairs((0..TABLES).map(|n| table(n, (2 * n, 2 * n + 1), (0, 0))).collect()), 0);
        assert!(compared.get() < 60, "{compared:?}");
        assert_eq!(pairs((0..TABLES).map(|n| table(n, (0, 9), (2 * n, 2 * n + 1))).collect()), 0);
        assert!(compared.get() < 60, "{compared:?}");
        assert_eq!(pairs((0..TABLES).map(|n| table(n, (0, 9), (0, 9))).collect()), MOST);
    }
}
