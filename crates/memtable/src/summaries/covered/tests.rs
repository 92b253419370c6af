//! Compares the tombstones that a lookup reports with a search through all tombstones. A lookup
//! never misses one, and reports none where there is none.

use super::*;
use crate::arena::{Arena, ShardStats};
use crate::record::encoded_len;
use esker_base::ValueType;

/// A key and its sequence number.
type Version = (u16, u64);
/// Start, end, sequence number.
type Tombstone = (u16, u16, u64);

fn tree<const N: usize>() -> Tree<N> {
    Tree::new(InternalKeyComparator::default(), Arena::new(1 << 16, false)).expect("the arena has memory")
}

fn add<const N: usize>(tree: &Tree<N>, (key, seq): Version) {
    let key = key.to_be_bytes();
    let len = encoded_len(key.len(), 0);
    let place = tree.arena().allocate_record(len, &ShardStats::NONE).expect("the arena has memory");
    // SAFETY: `len` fresh bytes of the arena.
    let record = unsafe { Record::write(place, len, SequenceNumber(seq), ValueType::Value, &key, b"") };
    // SAFETY: the record lies in the tree's arena.
    unsafe { tree.insert(record) }.expect("the versions are distinct");
}

fn cast<const N: usize>(tree: &Tree<N>, (from, to, seq): Tombstone) {
    tree.mark_covered(&from.to_be_bytes(), &to.to_be_bytes(), SequenceNumber(seq));
}

/// Checks that a lookup of `key` at `snapshot` reports no older tombstone than the newest over it.
/// Returns the sequence numbers it reports, for the version found and for the key.
fn check<const N: usize>(
    tree: &Tree<N>,
    (key, snapshot): (u16, u64),
    versions: &[Version],
    tombstones: &[Tombstone],
) -> (u64, u64) {
    let bytes = key.to_be_bytes();
    let target = Target { user_key: &bytes, trailer: snapshot << 8 | 0xFF };
    let newest = versions.iter().filter(|&&(of, seq)| of == key && seq <= snapshot).map(|v| v.1).max();
    let over = tombstones.iter().filter(|&&(from, to, _)| (from..to).contains(&key)).map(|t| t.2).max();
    let over = over.unwrap_or(0);
    let check_report = |(found, over_found, over_key): (Option<u64>, u64, u64)| {
        assert_eq!(found, newest, "{key} at {snapshot}");
        assert!(over_key >= over, "{key} at {snapshot}: {over_key} reported, not {over}");
        assert!(
            found.is_none_or(|found| over < found || over_found >= over),
            "{key} at {snapshot}: {found:?} is under {over}, {over_found} reported"
        );
    };
    // Two lookups beside a writer may differ, so each is checked by itself.
    let mut many = 0;
    tree.look_up_many::<2>(&[target, target], |i, lookup| {
        assert_eq!(i, many);
        many += 1;
        check_report(report(&lookup));
    });
    assert_eq!(many, 2);
    let one = report(&tree.look_up(&target));
    check_report(one);
    (one.1, one.2)
}

fn report<const N: usize>(lookup: &CoverLookup<'_, N>) -> (Option<u64>, u64, u64) {
    (lookup.found.map(|record| record.parts().1 >> 8), lookup.over_found(), lookup.over_key())
}

#[test]
fn a_lookup_check_report_of_every_tombstone_over_it() {
    let seeds = if cfg!(miri) { 2 } else { 120 };
    for seed in 0..seeds {
        random_history::<4>(seed);
        random_history::<2>(seed);
    }
}

fn random_history<const N: usize>(seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let tree = tree::<N>();
    let (mut versions, mut tombstones) = (Vec::new(), Vec::new());
    let keys = 10 + rng.u16(..200);
    let mut numbers: Vec<u64> = (1..300).collect();
    // Mostly in order, like the sequence numbers of a write group.
    for at in 0..numbers.len() - 4 {
        numbers.swap(at, at + rng.usize(..4));
    }
    for seq in numbers {
        let key = rng.u16(..keys);
        if rng.u8(..4) == 0 {
            let width = if rng.bool() { rng.u16(..6) } else { rng.u16(..keys) };
            // Some ranges are empty or reversed.
            tombstones.push((key, (key + width).saturating_sub(2), seq));
            cast(&tree, (key, (key + width).saturating_sub(2), seq));
        } else {
            versions.push((key, seq));
            add(&tree, (key, seq));
        }
        check(&tree, (rng.u16(..keys + 2), rng.u64(1..400)), &versions, &tombstones);
    }
    for key in 0..keys + 2 {
        for snapshot in [50, 150, 1000] {
            check(&tree, (key, snapshot), &versions, &tombstones);
        }
    }
}

#[test]
fn tombstones_between_the_keys_are_no_cover_on_them() {
    let tree = tree::<4>();
    let versions: Vec<Version> = (0..400).map(|i| (i * 10, u64::from(i) + 1)).collect();
    versions.iter().for_each(|&version| add(&tree, version));
    let tombstones: Vec<Tombstone> =
        (0..399).step_by(2).map(|i| (i * 10 + 1, i * 10 + 10, 1000 + u64::from(i))).collect();
    tombstones.iter().for_each(|&tombstone| cast(&tree, tombstone));
    for &(key, _) in &versions {
        assert_eq!(check(&tree, (key, 5000), &versions, &tombstones).0, 0, "{key}");
    }
    // The record is newer than all tombstones, so a lookup that finds it need not report them.
    add(&tree, (5, 2000));
    assert!(check(&tree, (5, 5000), &[(5, 2000)], &tombstones).0 < 2000);
}

/// Number of `keys` over which a lookup reports a tombstone; each lookup passes `check`.
fn count_reported<const N: usize>(
    tree: &Tree<N>,
    keys: impl Iterator<Item = u16>,
    versions: &[Version],
    tombstones: &[Tombstone],
) -> usize {
    keys.filter(|&key| check(tree, (key, 5000), versions, tombstones).1 > 0).count()
}

#[test]
fn keys_that_are_not_there_are_told_of_tombstones_in_their_own_gap() {
    let tree = tree::<16>();
    let versions: Vec<Version> = (0..400).map(|i| (i * 10, u64::from(i) + 1)).collect();
    versions.iter().for_each(|&version| add(&tree, version));
    // A tombstone ends inside a gap, or at the next record; or it starts at a record, or covers
    // one.
    let ends =
        |i: u16| [(i + 3, i + 6), (i + 3, i + 10), (i, i + 6), (i + 5, i + 15)][usize::from(i / 100) % 4];
    let tombstones: Vec<Tombstone> =
        (1..39).map(|i| (ends(i * 100).0, ends(i * 100).1, 1000 + u64::from(i))).collect();
    tombstones.iter().for_each(|&tombstone| cast(&tree, tombstone));
    // In each leaf a key in a distant gap, in the gap before the tombstone, in the tombstone's own
    // gap, and in the gap behind it.
    for (place, expected) in [(55, 0), (91, 0), (5, 38), (11, 9)] {
        let reported = count_reported(
            &tree,
            (1..39).map(|i| i * 100 + place - if place == 91 { 100 } else { 0 }),
            &versions,
            &tombstones,
        );
        // Different gaps may share a class.
        assert!((expected..=expected + 4).contains(&reported), "{place}: {reported}");
    }
    // A record divides a marked gap: both parts are marked. A divided gap without a mark stays
    // unmarked.
    let more: Vec<Version> = (1..39).flat_map(|i| [(i * 100 + 4, 2000), (i * 100 + 54, 2000)]).collect();
    more.iter().for_each(|&version| add(&tree, version));
    let all: Vec<Version> = versions.into_iter().chain(more).collect();
    let of = |place: u16| count_reported(&tree, (1..39).map(|i| i * 100 + place), &all, &tombstones);
    assert_eq!((of(2), of(5)), (38, 38));
    assert!(of(52) <= 8 && of(56) <= 8, "{} {}", of(52), of(56));
}

#[test]
fn a_wide_tombstone_check_report_of_in_its_range_only() {
    let tree = tree::<4>();
    let versions: Vec<Version> = (0..2000).map(|i| (i * 10, u64::from(i) + 1)).collect();
    versions.iter().for_each(|&version| add(&tree, version));
    let wide = (3005, 15_005, 5000);
    cast(&tree, wide);
    for &(key, _) in &versions {
        let (over_found, over_key) = check(&tree, (key, 9000), &versions, &[wide]);
        if !(2900..15_100).contains(&key) {
            assert_eq!((over_found, over_key), (0, 0), "{key}");
        }
    }
    // Leaves split off under the tombstone report it, too.
    (0..1000).for_each(|i| add(&tree, (5001 + i * 10, 6000 + u64::from(i))));
    let versions: Vec<Version> =
        versions.into_iter().chain((0..1000).map(|i| (5001 + i * 10, 6000 + u64::from(i)))).collect();
    for key in 2990..15_100 {
        check(&tree, (key, 9000), &versions, &[wide]);
    }
}

/// Versions 10, 20, ... that fill ten leaves of four keys, under nodes of four children, and a
/// tombstone. The tombstone marks the second of those nodes whole; under the first it marks each
/// of the four leaves.
fn under_inner_nodes() -> (Vec<Version>, Tombstone) {
    ((1..=40).map(|i| (i * 10, u64::from(i))).collect(), (15, 345, 1000))
}

/// The first key of a leaf. The path of its lookup misses some of the nodes above that leaf.
const SECOND_LOOK: u16 = 170;

/// Whether only a second look finds the tombstone over this key: neither its leaf nor a node on the
/// lookup's path has it.
fn is_reported_by_second_look_only<const N: usize>(tree: &Tree<N>, key: u16) -> bool {
    let bytes = key.to_be_bytes();
    let target = Target { user_key: &bytes, trailer: u64::MAX };
    let mut whole = 0;
    tree.find_past(0, &target, true, |node| whole = node.covered().covers().max(whole));
    let lookup = tree.look_up(&target);
    lookup.found.is_some() && lookup.over_found() > whole.max(lookup.leaf.covered().covers())
}

#[test]
fn the_first_key_of_a_leaf_check_report_of_what_covers_the_nodes_above_it() {
    let (versions, tombstone) = under_inner_nodes();
    let tree = tree::<4>();
    versions.iter().for_each(|&version| add(&tree, version));
    assert_eq!(tree.newest_above.load(Ordering::Relaxed), 0);
    cast(&tree, tombstone);
    assert_eq!(tree.newest_above.load(Ordering::Relaxed), 1000);
    for &(key, _) in &versions {
        check(&tree, (key, 5000), &versions, &[tombstone]);
    }
    let keys = versions.iter().map(|version| version.0);
    let second: Vec<u16> = keys.filter(|&key| is_reported_by_second_look_only(&tree, key)).collect();
    assert_eq!(second, [SECOND_LOOK]);
}

#[cfg(not(loom))]
#[test]
fn inserts_and_tombstones_may_pass_each_other() {
    let rounds = if cfg!(miri) { 1 } else { 40 };
    for seed in 0..rounds {
        let keys: u16 = if cfg!(miri) { 40 } else { 600 };
        let tree = tree::<4>();
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut order: Vec<Version> = (0..keys).map(|key| (key, rng.u64(1..100_000))).collect();
        rng.shuffle(&mut order);
        let (early, rest) = order.split_at(order.len() / 4);
        early.iter().for_each(|&version| add(&tree, version));
        let tombstones: Vec<Tombstone> = (0..keys / 4)
            .map(|_| {
                let from = rng.u16(..keys);
                (from, from + if rng.bool() { rng.u16(..8) } else { rng.u16(..keys) }, rng.u64(1..100_000))
            })
            .collect();
        std::thread::scope(|scope| {
            for part in rest.chunks(rest.len().div_ceil(2)) {
                let tree = &tree;
                scope.spawn(move || part.iter().for_each(|&version| add(tree, version)));
            }
            for part in tombstones.chunks(tombstones.len().div_ceil(2)) {
                let tree = &tree;
                scope.spawn(move || {
                    for (at, &tombstone) in part.iter().enumerate() {
                        cast(tree, tombstone);
                        // From here on a lookup of an earlier record must report the tombstone.
                        let (key, seq) = early[at % early.len()];
                        let own = &part[..=at];
                        let over = own.iter().filter(|t| (t.0..t.1).contains(&key)).map(|t| t.2).max();
                        let bytes = key.to_be_bytes();
                        let lookup = tree.look_up(&Target { user_key: &bytes, trailer: u64::MAX });
                        let (_, over_found, over_key) = report(&lookup);
                        assert!(
                            over.is_none_or(|over| over_key >= over && (over < seq || over_found >= over))
                        );
                    }
                });
            }
        });
        for key in 0..keys {
            check(&tree, (key, 200_000), &order, &tombstones);
        }
    }
}

#[cfg(loom)]
mod models {
    use super::*;
    use esker_base::sync::Arc;

    /// An insert beside a tombstone in all interleavings, in trees of tiny nodes. A lookup of an
    /// absent key is checked, too.
    fn model<const N: usize>(
        old: &'static [Version],
        new: &'static [Version],
        (tombstone, absent): (Tombstone, u16),
    ) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.max_branches = 20_000;
        builder.check(move || {
            let tree = Arc::new(tree::<N>());
            old.iter().for_each(|&version| add(&tree, version));
            let beside = Arc::clone(&tree);
            let writer = loom::thread::spawn(move || new.iter().for_each(|&version| add(&beside, version)));
            cast(&tree, tombstone);
            for &version in old {
                check(&tree, (version.0, version.1), old, &[tombstone]);
            }
            // With two slots a node the insert splits, and loom cannot search a lookup beside it in
            // reasonable time. The check after the join covers that case.
            if N > 2 {
                let bytes = absent.to_be_bytes();
                let (found, _, over_key) =
                    report(&tree.look_up(&Target { user_key: &bytes, trailer: u64::MAX }));
                assert!(found.is_none() && over_key >= tombstone.2);
            }
            writer.join().expect("no assertion failed");
            let all: Vec<Version> = old.iter().chain(new).copied().collect();
            for &(key, _) in &all {
                check(&tree, (key, 1000), &all, &[tombstone]);
            }
            check(&tree, (absent, 1000), &all, &[tombstone]);
        });
    }

    /// A lookup that sees the tombstone, beside an insert that splits, in all interleavings.
    fn model_of_a_lookup(inserted: Version) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.max_branches = 20_000;
        builder.check(move || {
            let (old, tombstone) = under_inner_nodes();
            let tree = Arc::new(tree::<4>());
            old.iter().for_each(|&version| add(&tree, version));
            cast(&tree, tombstone);
            assert!(is_reported_by_second_look_only(&tree, SECOND_LOOK));
            let beside = Arc::clone(&tree);
            let writer = loom::thread::spawn(move || add(&beside, inserted));
            let bytes = SECOND_LOOK.to_be_bytes();
            let (_, over_found, over_key) =
                report(&tree.look_up(&Target { user_key: &bytes, trailer: u64::MAX }));
            assert!(over_found >= tombstone.2 && over_key >= tombstone.2);
            writer.join().expect("no assertion failed");
            let all: Vec<Version> = old.into_iter().chain([inserted]).collect();
            check(&tree, (SECOND_LOOK, 5000), &all, &[tombstone]);
            check(&tree, (inserted.0, 5000), &all, &[tombstone]);
        });
    }

    #[test]
    fn loom_an_insert_and_a_tombstone_pass_each_other() {
        model::<4>(&[(10, 1), (30, 2)], &[(20, 3)], ((15, 25, 9), 22));
        model::<4>(&[(10, 1), (30, 2)], &[(20, 3)], ((15, 25, 9), 17));
        model::<4>(&[(10, 1), (30, 2)], &[(20, 3)], ((5, 40, 9), 35));
        model::<4>(&[(10, 1), (30, 2)], &[(40, 3)], ((35, 45, 9), 42));
    }

    #[test]
    fn loom_a_split_and_a_tombstone_pass_each_other() {
        model::<2>(&[(10, 1), (30, 2)], &[(20, 3)], ((15, 25, 9), 22));
        model::<2>(&[(10, 1), (30, 2)], &[(20, 3)], ((5, 40, 9), 35));
        model::<2>(&[(10, 1), (20, 2), (30, 3), (40, 4)], &[(25, 5)], ((15, 35, 9), 27));
    }

    /// The lookup's key is the first of its leaf. The insert splits the leaf before it, its own
    /// leaf, or a node above as well; or it adds a newer version of the key to the leaf before.
    #[test]
    fn loom_a_split_beside_a_lookup_that_looks_twice() {
        for key in [SECOND_LOOK - 5, SECOND_LOOK, SECOND_LOOK + 5, SECOND_LOOK + 15] {
            model_of_a_lookup((key, 30));
        }
    }
}
