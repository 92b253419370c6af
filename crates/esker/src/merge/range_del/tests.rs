use super::*;
use crate::merge::tests::script::tombstones;
use crate::tests::CountingComparator;
use esker_base::ValueType;
use esker_base::sync::Arc;
use esker_format::key::{InternalKeyComparator, internal_key};
use esker_format::range_del::{FragmentedRangeTombstones, RangeTombstone};
use esker_testkit::ranges::{RANGE_SHAPES, RangeShape};

fn icmp() -> InternalKeyComparator {
    InternalKeyComparator::default()
}

fn bounds(smallest: (&str, u64), largest: (&str, u64)) -> FileBounds {
    let key = |(key, seq): (&str, u64)| internal_key(key.as_bytes(), SequenceNumber(seq), ValueType::Value);
    FileBounds::new(&key(smallest), &key(largest))
}

fn exclusive(smallest: &str, largest: &str) -> FileBounds {
    let smallest = internal_key(smallest.as_bytes(), SequenceNumber(9), ValueType::RangeDeletion);
    FileBounds::new(
        &smallest,
        &internal_key(largest.as_bytes(), SequenceNumber::MAX, ValueType::RangeDeletion),
    )
}

fn source(list: &[(&str, &str, u64)], bounds: Option<FileBounds>, snapshot: u64) -> RunTombstones {
    RunTombstones::new(icmp(), tombstones(list), bounds, SequenceNumber(snapshot))
}

fn hidden_below(source: &RunTombstones, key: &str) -> u64 {
    source.cover_at(key.as_bytes()).below.0
}

#[test]
fn a_snapshot_sees_the_tombstones_of_its_time() {
    let list = [("b", "d", 5), ("c", "f", 9)];
    let at = |snapshot, key| hidden_below(&source(&list, None, snapshot), key);
    assert_eq!([at(9, "a"), at(9, "b"), at(9, "c"), at(9, "e"), at(9, "f")], [0, 5, 9, 9, 0]);
    assert_eq!([at(8, "b"), at(8, "c"), at(8, "e"), at(4, "c")], [5, 5, 0, 0]);
    assert!(Cover::below(SequenceNumber(5)).hides(SequenceNumber(4)));
    assert!(!Cover::below(SequenceNumber(5)).hides(SequenceNumber(5)));
}

#[test]
fn tombstones_end_at_the_bounds_of_their_file() {
    let list = [("a", "z", 5)];
    let cut = source(&list, Some(exclusive("c", "g")), 9);
    assert_eq!(["b", "c", "f", "g", "h"].map(|key| hidden_below(&cut, key)), [0, 5, 5, 0, 0]);
    let mut cut = cut;
    let mut end = Vec::new();
    for key in [b"d", b"c"] {
        assert_eq!(cut.locate(key).unwrap(), Cover::below(SequenceNumber(5)));
        assert_eq!(cut.window(), (Bound::Included(&b"c"[..]), Bound::Excluded(&b"g"[..])));
    }
    cut.covered_until(&mut end);
    cut.covered_since(&mut end);
    assert_eq!(end, b"gc");
}

#[test]
fn at_the_last_user_key_of_a_file_only_the_versions_in_this_file_are_hidden() {
    let cut = source(&[("a", "z", 9)], Some(bounds(("c", 3), ("g", 4))), 9);
    let at_edge = cut.cover_at(b"g");
    let hidden: Vec<u64> = (0..12).filter(|&seq| at_edge.hides(SequenceNumber(seq))).collect();
    assert_eq!(hidden, [4, 5, 6, 7, 8]);
    assert_eq!(hidden_below(&cut, "f"), 9);
    assert_eq!(cut.cover_at(b"h"), Cover::NONE);
    // If the bound has sequence number 0, the version at 0 is not hidden.
    let cut = source(&[("a", "z", 9)], Some(bounds(("c", 3), ("g", 0))), 9);
    assert!(!cut.cover_at(b"g").hides(SequenceNumber(0)) && cut.cover_at(b"g").hides(SequenceNumber(1)));

    let mut aggregator = RangeDelAggregator::new(icmp(), Vec::new());
    aggregator.add(&tombstones(&[("a", "z", 9)]), Some(&bounds(("c", 3), ("g", 4))));
    for (key, seq, hidden) in
        [("f", 1, true), ("g", 4, true), ("g", 3, false), ("h", 1, false), ("b", 1, false)]
    {
        assert_eq!(aggregator.should_delete(key.as_bytes(), SequenceNumber(seq), 0), hidden, "{key}@{seq}");
    }
    let made = aggregator.tombstones_for_output(None, None, false);
    assert_eq!(made.len(), 1);
    assert_eq!((&made[0].start[..], &made[0].end[..]), (&b"c"[..], &b"g"[..]));
}

#[test]
fn hidden_ranges_that_touch_are_one_range() {
    let mut run = source(&[("a", "c", 5), ("c", "e", 7), ("e", "g", 9), ("h", "k", 5)], None, 8);
    let ends = |run: &mut RunTombstones, key: &[u8]| {
        assert!(run.locate(key).unwrap().below.0 > 0);
        let (mut since, mut until) = (Vec::new(), Vec::new());
        run.covered_since(&mut since);
        run.covered_until(&mut until);
        (since, until)
    };
    // The snapshot does not see the third tombstone.
    assert_eq!(ends(&mut run, b"b"), (b"a".to_vec(), b"e".to_vec()));
    assert_eq!(ends(&mut run, b"d"), (b"a".to_vec(), b"e".to_vec()));
    assert_eq!(ends(&mut run, b"i"), (b"h".to_vec(), b"k".to_vec()));
}

#[test]
fn a_window_contains_its_key_and_all_keys_in_it_have_one_cover() {
    let mut rng = fastrand::Rng::with_seed(7);
    for _ in 0..300 {
        let letter = |rng: &mut fastrand::Rng| rng.char('a'..='m').to_string();
        let list: Vec<(String, String, u64)> =
            (0..rng.usize(..6)).map(|_| (letter(&mut rng), letter(&mut rng), rng.u64(1..9))).collect();
        let list: Vec<_> = list.iter().map(|(a, b, s)| (&a[..], &b[..], *s)).collect();
        let (low, high) = (letter(&mut rng), letter(&mut rng));
        let bounds = (low < high).then(|| match rng.bool() {
            true => bounds((&low, 5), (&high, rng.u64(..6))),
            false => exclusive(&low, &high),
        });
        let snapshot = rng.u64(..10);
        let mut run = source(&list, bounds.clone(), snapshot);
        check_windows(&mut run, &mut rng);
        if bounds.is_none() {
            let cut = rng.usize(..=list.len());
            let sets = vec![tombstones(&list[..cut]), tombstones(&list[cut..])];
            let mut sets = RunTombstones::of_memtable(icmp(), sets, SequenceNumber(snapshot));
            check_windows(&mut sets, &mut rng);
            check_reach(&mut sets, &mut run);
        }
    }
}

fn check_windows(run: &mut RunTombstones, rng: &mut fastrand::Rng) {
    for _ in 0..40 {
        let key = rng.char('a'..='m').to_string();
        let cover = run.locate(key.as_bytes()).unwrap();
        let fresh = run.clone();
        let (low, high) = run.window();
        for other in 'a'..='n' {
            let other = other.to_string();
            let inside = std::ops::RangeBounds::contains(&(low, high), other.as_bytes());
            assert!(inside || other != key, "{run:?} at {key}");
            assert!(!inside || fresh.cover_at(other.as_bytes()) == cover, "{run:?}: {key} and {other}");
        }
    }
}

/// Checks that several sets hide the same as one set of all tombstones, with the same reach in both
/// directions.
fn check_reach(sets: &mut RunTombstones, whole: &mut RunTombstones) {
    for key in ('a'..='n').map(|key| key.to_string()) {
        let cover = sets.locate(key.as_bytes()).unwrap();
        assert_eq!(cover, whole.locate(key.as_bytes()).unwrap());
        if cover.below == SequenceNumber::ZERO {
            continue;
        }
        let ends = |run: &RunTombstones| {
            let (mut since, mut until) = (Vec::new(), Vec::new());
            run.covered_since(&mut since);
            run.covered_until(&mut until);
            (since, until)
        };
        assert_eq!(ends(sets), ends(whole), "{sets:?} at {key}");
    }
}

/// Number of comparisons in a compaction with `n` tombstones that checks each key and writes
/// `PARTS` files.
fn comparisons(shape: RangeShape, n: u32, snapshots: u32) -> u64 {
    const PARTS: u32 = 10;
    let key = |i: u32| i.to_be_bytes();
    let counting = Arc::new(CountingComparator::default());
    let icmp = InternalKeyComparator::new(counting.clone());
    let list = (0..n).map(|i| {
        let (start, end) = shape(i, n);
        RangeTombstone::new(key(start), key(end), SequenceNumber(u64::from(i) + 1))
    });
    let snapshots = (1..=snapshots).map(|i| SequenceNumber(u64::from(i * (n / (snapshots + 1)))));
    let mut aggregator = RangeDelAggregator::new(icmp.clone(), snapshots.collect());
    aggregator.add(&Arc::new(FragmentedRangeTombstones::build(list.collect(), &icmp)), None);
    for i in 0..2 * n {
        let sequence = SequenceNumber(u64::from(i % n));
        let seen_from = stripe(aggregator.snapshots(), sequence);
        aggregator.should_delete(&key(i), sequence, seen_from);
    }
    let cuts: Vec<_> = (1..PARTS).map(|i| key(i * (2 * n / PARTS))).collect();
    let mut made = 0;
    for part in 0..PARTS as usize {
        let lower = part.checked_sub(1).map(|before| &cuts[before][..]);
        let upper = cuts.get(part).map(|cut| &cut[..]);
        let out = aggregator.tombstones_for_output(lower, upper, false);
        let in_order = |a: &RangeTombstone, b: &RangeTombstone| (&a.start, b.seq) < (&b.start, a.seq);
        assert!(out.is_sorted_by(in_order), "the output is in the order of a table");
        made += out.len();
    }
    // In each part of a stripe, one tombstone may continue from the part before.
    let most = 2 * n as usize + aggregator.snapshots().len() * PARTS as usize + PARTS as usize;
    assert!(made <= most, "{made} tombstones of {n}");
    counting.count()
}

#[test]
fn a_compaction_of_n_tombstones_makes_n_log_n_comparisons_in_every_shape() {
    for (name, shape) in RANGE_SHAPES {
        for snapshots in [0, 1, 20] {
            let counts = [500, 1000, 2000].map(|n| comparisons(shape, n, snapshots));
            let allowed = |n: u64| 60 * n * u64::from(n.ilog2());
            assert!(
                counts[2] < allowed(2000)
                    && 10 * counts[2] < 27 * counts[1]
                    && 10 * counts[1] < 27 * counts[0],
                "{name}, {snapshots} snapshots: {counts:?}"
            );
        }
    }
}

#[test]
fn outputs_of_a_compaction_hide_the_same_keys_as_its_inputs_from_every_snapshot() {
    let key = |i: u32| i.to_be_bytes();
    let n = 40u32;
    for (name, shape) in RANGE_SHAPES {
        for snapshots in [vec![], vec![7], vec![3, 9, 10, 30]] {
            let list = (0..n).map(|i| {
                let (start, end) = shape(i, n);
                RangeTombstone::new(key(start), key(end), SequenceNumber(u64::from(i) + 1))
            });
            let input = Arc::new(FragmentedRangeTombstones::build(list.collect(), &icmp()));
            let snapshots: Vec<_> = snapshots.into_iter().map(SequenceNumber).collect();
            let mut aggregator = RangeDelAggregator::new(icmp(), snapshots.clone());
            aggregator.add(&input, None);
            let mut out = aggregator.tombstones_for_output(None, Some(&key(n)), false);
            out.extend(aggregator.tombstones_for_output(Some(&key(n)), None, false));
            let output = FragmentedRangeTombstones::build(out, &icmp());
            for snapshot in snapshots.iter().copied().chain([SequenceNumber::MAX]) {
                for i in 0..2 * n {
                    let newest =
                        |set: &FragmentedRangeTombstones| set.max_covering_seq(&key(i), &icmp(), snapshot);
                    assert_eq!(newest(&input), newest(&output), "{name} at {snapshot}: {i}");
                }
            }
        }
    }
}
