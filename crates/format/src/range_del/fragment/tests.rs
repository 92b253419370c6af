use super::*;
use esker_base::comparator::{BytewiseComparator, Comparator, ReverseBytewiseComparator};
use esker_base::rng::Rng;
use std::sync::Arc;

fn t(start: &str, end: &str, seq: u64) -> RangeTombstone {
    RangeTombstone::new(start, end, SequenceNumber(seq))
}

/// The fragments as text, such as "a-c@5,3 c-e@5".
fn text(fragments: &FragmentedRangeTombstones) -> String {
    let piece = |i: usize| {
        let f = fragments.fragment(i);
        let seqs: Vec<String> = fragments.sequences(i).iter().map(|s| s.to_string()).collect();
        format!("{}-{}@{}", f.start.escape_ascii(), f.end.escape_ascii(), seqs.join(","))
    };
    let covered = (0..fragments.len()).filter(|&i| !fragments.sequences(i).is_empty());
    covered.map(piece).collect::<Vec<_>>().join(" ")
}

fn check(tombstones: Vec<RangeTombstone>, expected: &str) {
    let icmp = InternalKeyComparator::default();
    assert_eq!(text(&FragmentedRangeTombstones::build(tombstones, &icmp)), expected);
}

#[test]
fn overlaps_are_cut_at_every_boundary() {
    check(vec![t("a", "e", 5), t("c", "g", 9)], "a-c@5 c-e@9,5 e-g@9");
    check(vec![t("c", "g", 5), t("a", "e", 9)], "a-c@9 c-e@9,5 e-g@5");
    check(vec![t("a", "z", 5), t("c", "g", 9), t("d", "e", 1)], "a-c@5 c-d@9,5 d-e@9,5,1 e-g@9,5 g-z@5");
    check(vec![t("a", "c", 5), t("a", "c", 9)], "a-c@9,5");
}

#[test]
fn neighbours_stay_apart_and_gaps_stay_open() {
    check(vec![t("a", "c", 5), t("c", "e", 5)], "a-c@5 c-e@5");
    check(vec![t("a", "b", 5), t("x", "y", 9)], "a-b@5 x-y@9");
}

#[test]
fn a_number_used_twice_is_listed_once() {
    check(vec![t("a", "e", 5), t("c", "g", 5)], "a-c@5 c-e@5 e-g@5");
}

#[test]
fn empty_and_inverted_ranges_cover_nothing() {
    check(vec![t("b", "b", 5), t("c", "a", 9)], "");
    check(vec![], "");
    check(vec![t("b", "b", 5), t("", "a", 9)], "-a@9");
}

#[test]
fn a_tombstone_at_zero_hides_nothing_and_is_there() {
    check(vec![t("a", "c", 0), t("x", "z", 0)], "a-c@0 x-z@0");
    check(vec![t("a", "d", 0), t("c", "g", 9)], "a-c@0 c-d@9,0 d-g@9");
    let icmp = InternalKeyComparator::default();
    let fragments = FragmentedRangeTombstones::build(vec![t("a", "c", 0), t("x", "z", 0)], &icmp);
    assert_eq!((fragments.tombstones().count(), fragments.iter().count()), (2, 2));
    assert_eq!(fragments.max_covering_seq(b"b", &icmp, SequenceNumber::MAX), SequenceNumber::ZERO);
}

#[test]
fn lookups_at_the_edges() {
    let icmp = InternalKeyComparator::default();
    let fragments = FragmentedRangeTombstones::build(vec![t("b", "d", 5), t("f", "h", 7)], &icmp);
    let position = |k: &str| fragments.position(k.as_bytes(), &icmp);
    assert_eq!(["a", "b", "c", "d", "f", "g", "h", "z"].map(position), [0, 1, 1, 2, 3, 3, 4, 4]);
    for near in 0..6 {
        let near = |k: &str| fragments.position_near(near, k.as_bytes(), &icmp);
        assert_eq!(["a", "b", "c", "d", "f", "g", "h", "z"].map(near), [0, 1, 1, 2, 3, 3, 4, 4]);
    }
    assert_eq!(fragments.max_seq(), SequenceNumber(7));
    let overlaps =
        |a: &str, b: &str, s| fragments.overlaps(a.as_bytes(), b.as_bytes(), &icmp, SequenceNumber(s));
    assert!(overlaps("a", "b", 5) && overlaps("c", "e", 5) && overlaps("a", "z", 5));
    assert!(
        !overlaps("a", "b", 4) && !overlaps("d", "e", 9) && !overlaps("h", "z", 9) && !overlaps("d", "g", 6)
    );
}

/// `n` tombstones of each shape, oldest first.
fn shapes(n: u32) -> Vec<(&'static str, Vec<RangeTombstone>)> {
    let key = |i: u32| i.to_be_bytes().to_vec();
    let tombstone = |start: u32, end: u32, i: u32| {
        RangeTombstone::new(key(start), key(end), SequenceNumber(u64::from(i) + 1))
    };
    let shape =
        |range: &dyn Fn(u32) -> (u32, u32)| (0..n).map(|i| tombstone(range(i).0, range(i).1, i)).collect();
    vec![
        ("same begin", shape(&|i| (0, i + 1))),
        ("same begin, shorter and shorter", shape(&|i| (0, n - i))),
        ("same end", shape(&|i| (i, n))),
        ("nested", shape(&|i| (i, 2 * n - i))),
        ("nested, wider and wider", shape(&|i| (n - i, n + 1 + i))),
        ("a staircase", shape(&|i| (i, i + n / 4))),
        ("a staircase down", shape(&|i| (n - i, n - i + n / 4))),
        ("apart", shape(&|i| (2 * i, 2 * i + 1))),
        ("side by side", shape(&|i| (i, i + 1))),
        ("identical", shape(&|_| (3, 4))),
        ("without any order", shape(&|i| (i * 7919 % n, n + i * 104_729 % n))),
    ]
}

/// O(n) memory; the least that the old lists of sequence numbers took without order was n² / 3
/// numbers.
#[test]
fn memory_is_linear_in_the_tombstones_whatever_their_shape() {
    let icmp = InternalKeyComparator::default();
    for n in [2000, 4000, 8000] {
        for (shape, tombstones) in shapes(n) {
            let built = FragmentedRangeTombstones::build(tombstones, &icmp);
            let each = built.approximate_memory_usage() / n as usize;
            assert!(each < 256, "{shape}: {each} bytes for each of {n}");
            assert!(built.tombstones().count() <= n as usize, "{shape}");
        }
    }
}

#[test]
fn the_newest_fragments_alone_answer_like_all_for_a_reader_that_sees_all() {
    let icmp = InternalKeyComparator::default();
    for (shape, tombstones) in shapes(300) {
        let refs = || tombstones.iter().map(RangeTombstone::as_ref);
        let (all, newest) = (
            FragmentedRangeTombstones::from_refs(refs(), &icmp),
            FragmentedRangeTombstones::newest_of(refs(), &icmp),
        );
        assert!(newest.len() <= 2 * tombstones.len(), "{shape}");
        for key in (0..900u32).map(u32::to_be_bytes) {
            let of = |set: &FragmentedRangeTombstones| set.max_covering_seq(&key, &icmp, SequenceNumber::MAX);
            assert_eq!(of(&all), of(&newest), "{shape}");
        }
    }
    check_newest(vec![t("a", "c", 5), t("c", "e", 5), t("b", "d", 4), t("x", "z", 1)], "a-e@5 x-z@1");
}

fn check_newest(tombstones: Vec<RangeTombstone>, expected: &str) {
    let icmp = InternalKeyComparator::default();
    let refs = tombstones.iter().map(RangeTombstone::as_ref);
    assert_eq!(text(&FragmentedRangeTombstones::newest_of(refs, &icmp)), expected);
}

/// Checks the reach of ranges in which a snapshot finds every fragment covered.
fn check_reach(built: &FragmentedRangeTombstones, snapshot: SequenceNumber, seed: u64) {
    let is_covered = |&i: &usize| built.newest_visible(i, snapshot) > SequenceNumber::ZERO;
    for i in 0..built.len() {
        let until = (i..built.len()).find(|i| !is_covered(i)).unwrap_or(built.len());
        let since = (0..=i).rev().find(|i| !is_covered(i)).map_or(0, |bare| bare + 1);
        assert_eq!(built.covered_until(i, snapshot), until, "seed {seed}");
        assert_eq!(built.covered_since(i, snapshot), since, "seed {seed}");
    }
}

/// The naive list: every answer by looking at every tombstone.
fn check_against_naive_list(seed: u64, comparator: Arc<dyn Comparator>) {
    let mut rng = Rng::new(seed);
    let icmp = InternalKeyComparator::new(comparator);
    let alphabet = rng.between(1, 250);
    // All keys have a common prefix, and often agree in the bytes behind it.
    let prefix = vec![7; rng.index(4)];
    let stretch = [0, 0, 9][rng.index(3)];
    let max_seq = rng.between(1, 30);
    // Number zero hides nothing.
    let least = [0, 1, 1][rng.index(3)];
    let key = |rng: &mut Rng| {
        let mut k = prefix.clone();
        k.push(rng.below(alphabet) as u8);
        k.extend(vec![0; stretch]);
        k.extend((0..rng.below(3)).map(|_| rng.below(2) as u8));
        if rng.one_in(60) { vec![] } else { k }
    };
    let count = if rng.one_in(8) { 400 } else { rng.below(60) };
    let tombstones: Vec<RangeTombstone> = (0..count)
        .map(|_| {
            RangeTombstone::new(key(&mut rng), key(&mut rng), SequenceNumber(rng.between(least, max_seq)))
        })
        .collect();
    let built = FragmentedRangeTombstones::build(tombstones.clone(), &icmp);

    let mut previous_end: Option<&[u8]> = None;
    for (i, f) in (0..built.len()).map(|i| (i, built.fragment(i))) {
        assert!(icmp.compare_user_keys(f.start, f.end).is_lt(), "seed {seed}");
        assert!(previous_end.is_none_or(|end| end == f.start), "seed {seed}");
        assert!(built.sequences(i).is_sorted_by(|a, b| a > b), "seed {seed}");
        previous_end = Some(f.end);
    }
    for snapshot in [rng.below(max_seq + 2), max_seq] {
        check_reach(&built, SequenceNumber(snapshot), seed);
    }
    for _ in 0..200 {
        let k = key(&mut rng);
        let mut seqs: Vec<_> =
            tombstones.iter().filter(|t| t.as_ref().covers(&k, &icmp)).map(|t| t.seq).collect();
        seqs.sort_unstable_by(|a, b| b.cmp(a));
        seqs.dedup();
        let position = built.position(&k, &icmp);
        let here = position.checked_sub(1).filter(|&i| i < built.len());
        assert_eq!(here.map_or(Vec::new(), |i| built.sequences(i)), seqs, "seed {seed}, key {k:?}");
        let boundaries = if built.is_empty() { 0 } else { built.len() + 1 };
        let up_to =
            (0..boundaries).take_while(|&i| icmp.compare_user_keys(built.boundary(i), &k).is_le()).count();
        assert_eq!(position, up_to, "seed {seed}, key {k:?}");
        assert_eq!(
            built.position_near(rng.index(boundaries + 3), &k, &icmp),
            up_to,
            "seed {seed}, key {k:?}"
        );
        if rng.one_in(10) && !k.is_empty() {
            // This key is shorter or greater than the common prefix.
            let mut other = k.clone();
            if rng.one_in(2) {
                other.truncate(rng.index(k.len()))
            } else {
                other[0] ^= 1 << rng.below(8)
            }
            let expected =
                tombstones.iter().filter(|t| t.as_ref().covers(&other, &icmp)).map(|t| t.seq).max();
            let found = built.max_covering_seq(&other, &icmp, SequenceNumber::MAX);
            assert_eq!(found, expected.unwrap_or_default(), "seed {seed}, key {other:?}");
        }
        let snapshot = SequenceNumber(rng.below(max_seq + 2));
        let expected = seqs.iter().copied().find(|&s| s <= snapshot).unwrap_or_default();
        assert_eq!(built.max_covering_seq(&k, &icmp, snapshot), expected, "seed {seed}, key {k:?}");
    }
}

#[test]
fn answers_equal_those_of_a_naive_list() {
    for seed in 0..400 {
        check_against_naive_list(seed, Arc::new(BytewiseComparator));
        check_against_naive_list(seed, Arc::new(ReverseBytewiseComparator));
    }
}

#[test]
fn fragments_of_fragments_are_the_same() {
    let icmp = InternalKeyComparator::default();
    let mut rng = Rng::new(11);
    let mut tombstones: Vec<_> = (0..300u64)
        .map(|i| {
            let start = rng.below(100) as u8;
            RangeTombstone::new([start], [start + 1 + rng.below(20) as u8], SequenceNumber(i / 2))
        })
        .collect();
    let once = FragmentedRangeTombstones::build(tombstones.clone(), &icmp);
    let pieces = (0..once.len()).flat_map(|i| {
        let f = once.fragment(i);
        once.sequences(i).into_iter().map(move |seq| RangeTombstoneRef { start: f.start, end: f.end, seq })
    });
    let twice = FragmentedRangeTombstones::from_refs(pieces, &icmp);
    assert_eq!(text(&once), text(&twice));
    assert_eq!(text(&once), text(&FragmentedRangeTombstones::from_refs(once.tombstones(), &icmp)));
    rng.shuffle(&mut tombstones);
    assert_eq!(text(&once), text(&FragmentedRangeTombstones::build(tombstones, &icmp)));
}
