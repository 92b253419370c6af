use super::*;
use esker_base::comparator::{BytewiseComparator, Comparator, ReverseBytewiseComparator};
use esker_base::rng::Rng;
use std::sync::Arc;

fn t(start: &str, end: &str, seq: u64) -> RangeTombstone {
    RangeTombstone::new(start, end, SequenceNumber(seq))
}

/// "a-c@5,3 c-e@5"
fn text(fragments: &FragmentedRangeTombstones) -> String {
    let piece = |f: Fragment<'_>| {
        let seqs: Vec<String> = f.seqs.iter().map(|s| s.to_string()).collect();
        format!("{}-{}@{}", f.start.escape_ascii(), f.end.escape_ascii(), seqs.join(","))
    };
    fragments.iter().map(piece).collect::<Vec<_>>().join(" ")
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
fn lookups_at_the_edges() {
    let icmp = InternalKeyComparator::default();
    let fragments = FragmentedRangeTombstones::build(vec![t("b", "d", 5), t("f", "h", 7)], &icmp);
    let seek = |k: &str| fragments.seek(k.as_bytes(), &icmp);
    assert_eq!(["a", "b", "c", "d", "f", "g", "h", "z"].map(seek), [0, 0, 0, 1, 1, 1, 2, 2]);
    let back = |k: &str| fragments.seek_for_prev(k.as_bytes(), &icmp);
    assert_eq!(["a", "b", "e", "f", "z"].map(back), [None, Some(0), Some(0), Some(1), Some(1)]);
    assert_eq!(fragments.max_seq(), SequenceNumber(7));
    let overlaps =
        |a: &str, b: &str, s| fragments.overlaps(a.as_bytes(), b.as_bytes(), &icmp, SequenceNumber(s));
    assert!(overlaps("a", "b", 5) && overlaps("c", "e", 5) && overlaps("a", "z", 5));
    assert!(
        !overlaps("a", "b", 4) && !overlaps("d", "e", 9) && !overlaps("h", "z", 9) && !overlaps("d", "g", 6)
    );
}

#[test]
fn ordered_overlaps_share_one_list() {
    let icmp = InternalKeyComparator::default();
    let n = 2000u32;
    let key = |i: u32| i.to_be_bytes().to_vec();
    let seq = |i: u32| SequenceNumber(u64::from(i) + 1);
    let pool = |tombstones: Vec<RangeTombstone>| {
        let built = FragmentedRangeTombstones::build(tombstones, &icmp);
        assert!(built.len() >= n as usize);
        built.seqs.len()
    };
    let queue = (0..n).map(|i| RangeTombstone::new(key(0), key(i + 1), seq(i)));
    let stack = (0..n).map(|i| RangeTombstone::new(key(i), key(n), seq(i)));
    let rising = (0..n).map(|i| RangeTombstone::new(key(i), key(i + 500), seq(i)));
    let falling = (0..n).map(|i| RangeTombstone::new(key(i), key(i + 500), seq(n - i)));
    let nested = (0..n).map(|i| RangeTombstone::new(key(i), key(2 * n - i), seq(i)));
    assert_eq!(pool(queue.collect()), n as usize);
    assert_eq!(pool(stack.collect()), n as usize);
    assert_eq!(pool(rising.collect()), n as usize);
    assert_eq!(pool(falling.collect()), n as usize);
    assert_eq!(pool(nested.collect()), n as usize);
}

/// The naive list: every answer by looking at every tombstone.
fn check_against_naive_list(seed: u64, comparator: Arc<dyn Comparator>) {
    let mut rng = Rng::new(seed);
    let icmp = InternalKeyComparator::new(comparator);
    let alphabet = rng.between(1, 250);
    // What all keys begin with, and so often that their first bytes behind it agree.
    let prefix = vec![7; rng.index(4)];
    let stretch = [0, 0, 9][rng.index(3)];
    let max_seq = rng.between(1, 30);
    let key = |rng: &mut Rng| {
        let mut k = prefix.clone();
        k.push(rng.below(alphabet) as u8);
        k.extend(vec![0; stretch]);
        k.extend((0..rng.below(3)).map(|_| rng.below(2) as u8));
        if rng.one_in(60) { vec![] } else { k }
    };
    let count = if rng.one_in(8) { 400 } else { rng.below(60) };
    let tombstones: Vec<RangeTombstone> = (0..count)
        .map(|_| RangeTombstone::new(key(&mut rng), key(&mut rng), SequenceNumber(rng.between(1, max_seq))))
        .collect();
    let built = FragmentedRangeTombstones::build(tombstones.clone(), &icmp);

    let mut previous_end: Option<&[u8]> = None;
    for f in built.iter() {
        assert!(icmp.compare_user_keys(f.start, f.end).is_lt(), "seed {seed}");
        assert!(previous_end.is_none_or(|e| icmp.compare_user_keys(e, f.start).is_le()), "seed {seed}");
        assert!(!f.seqs.is_empty() && f.seqs.windows(2).all(|w| w[0] > w[1]), "seed {seed}");
        previous_end = Some(f.end);
    }
    for _ in 0..200 {
        let k = key(&mut rng);
        let mut seqs: Vec<_> =
            tombstones.iter().filter(|t| t.as_ref().covers(&k, &icmp)).map(|t| t.seq).collect();
        seqs.sort_unstable_by(|a, b| b.cmp(a));
        seqs.dedup();
        let found = built.seek(&k, &icmp);
        let here = (found < built.len()).then(|| built.fragment(found));
        let here = here.filter(|f| icmp.compare_user_keys(f.start, &k).is_le());
        assert_eq!(here.map_or(&[][..], |f| f.seqs), seqs, "seed {seed}, key {k:?}");
        let back = built.iter().take_while(|f| icmp.compare_user_keys(f.start, &k).is_le()).count();
        assert_eq!(built.seek_for_prev(&k, &icmp), back.checked_sub(1), "seed {seed}, key {k:?}");
        let ahead = built.iter().take_while(|f| icmp.compare_user_keys(f.end, &k).is_le()).count();
        assert_eq!(found, ahead, "seed {seed}, key {k:?}");
        if rng.one_in(10) && !k.is_empty() {
            // Shorter or greater than the common beginning.
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
            RangeTombstone::new([start], [start + 1 + rng.below(20) as u8], SequenceNumber(i + 1))
        })
        .collect();
    let once = FragmentedRangeTombstones::build(tombstones.clone(), &icmp);
    let pieces = once
        .iter()
        .flat_map(|f| f.seqs.iter().map(move |&seq| RangeTombstoneRef { start: f.start, end: f.end, seq }));
    let twice = FragmentedRangeTombstones::from_refs(pieces, &icmp);
    assert_eq!(text(&once), text(&twice));
    rng.shuffle(&mut tombstones);
    assert_eq!(text(&once), text(&FragmentedRangeTombstones::build(tombstones, &icmp)));
}
