//! Compares the deleted runs that nodes state with a search through all records.

use super::*;
use crate::arena::{Arena, ShardStats};
use crate::node::LeafRun;
use crate::record::encoded_len;
use esker_base::SequenceNumber;

type Version = (u16, u64, bool);

fn tree<const N: usize>() -> Tree<N> {
    Tree::new(InternalKeyComparator::default(), Arena::new(1 << 16, false)).expect("the arena has memory")
}

fn add<const N: usize>(tree: &Tree<N>, version: Version) {
    let record = record(tree, version);
    // SAFETY: the record lies in the tree's arena.
    unsafe { tree.insert(record) }.unwrap();
}

fn record<const N: usize>(tree: &Tree<N>, (key, seq, is_deletion): Version) -> Record<'_> {
    let kind = if is_deletion { ValueType::Deletion } else { ValueType::Value };
    let key = key.to_be_bytes();
    let len = encoded_len(key.len(), 0);
    let place = tree.arena().allocate_record(len, &ShardStats::NONE).unwrap();
    // SAFETY: `len` fresh bytes of the arena.
    unsafe { Record::write(place, len, SequenceNumber(seq), kind, &key, b"") }
}

/// Whether a reader at `snapshot` finds `key`.
fn is_there(versions: &[Version], key: u16, snapshot: u64) -> bool {
    let seen = versions.iter().filter(|(of, seq, _)| *of == key && *seq <= snapshot);
    seen.max_by_key(|(_, seq, _)| *seq).is_some_and(|(_, _, is_deletion)| !is_deletion)
}

/// The run end that a reader finds from the first record at or after `target`.
fn run_end_of<'t, const N: usize>(
    tree: &'t Tree<N>,
    target: &Target<'_>,
    snapshot: u64,
    forward: bool,
) -> Option<&'t [u8]> {
    let mut run = LeafRun::new();
    let at = tree.load_from(target, &mut run)?;
    // SAFETY: `run` was loaded from this tree.
    unsafe { tree.deleted_run_end(&run, at, snapshot, forward) }
}

/// Checks, in both directions, that a skip from each record of `from` passes no key that a reader
/// finds. Returns the number of keys skipped.
fn check<const N: usize>(tree: &Tree<N>, from: &[Version], snapshot: u64, versions: &[Version]) -> usize {
    let way = |forward| check_way(tree, from, snapshot, versions, forward);
    way(true) + way(false)
}

fn check_way<const N: usize>(
    tree: &Tree<N>,
    from: &[Version],
    snapshot: u64,
    versions: &[Version],
    forward: bool,
) -> usize {
    let mut passed = 0;
    for &(key, seq, is_deletion) in from {
        let kind = if is_deletion { ValueType::Deletion } else { ValueType::Value };
        let bytes = key.to_be_bytes();
        let target = Target { user_key: &bytes, trailer: seq << 8 | kind as u64 };
        let Some(run_end) = run_end_of(tree, &target, snapshot, forward) else { continue };
        let run_end = u16::from_be_bytes(*run_end.first_chunk().expect("2 bytes"));
        // Forward, the reader has left `key` and skips the run end. Backward, it stops at the run
        // end.
        let between = if forward { key + 1..run_end + 1 } else { run_end + 1..key };
        for key in between {
            passed += 1;
            assert!(!is_there(versions, key, snapshot), "{key} at {snapshot}, forward {forward}");
        }
    }
    passed
}

/// Checks that a node states no more than the nodes below it.
fn check_words<const N: usize>(tree: &Tree<N>) {
    let mut leftmost = tree.root();
    while leftmost.level() > 0 {
        let mut above = Some(leftmost);
        while let Some(node) = above {
            let until = node.dead().until.load(Ordering::Relaxed);
            for_each_below(node, |child| {
                let below = child.dead().until.load(Ordering::Relaxed);
                assert!(
                    until <= below,
                    "level {}: dead until {until}, one below until {below}",
                    node.level()
                );
            });
            for at in 0..node.count() {
                let stored = node.dead_child(at).load();
                for_each_beside(node.child(at), node.child_after(at), |child| {
                    let below = child.dead().load();
                    assert!(
                        stored.until <= below.until,
                        "child {at} at level {}: said dead until {}, is until {}",
                        node.level(),
                        stored.until,
                        below.until
                    );
                });
            }
            above = node.next();
        }
        leftmost = leftmost.child(0);
    }
}

/// Number of dead nodes, and of dead nodes that their parent does not mark.
fn dead_and_unsaid<const N: usize>(tree: &Tree<N>) -> (usize, usize) {
    let (mut dead, mut unsaid) = (0, 0);
    let mut leftmost = tree.root();
    while leftmost.level() > 0 {
        let mut above = Some(leftmost);
        while let Some(node) = above {
            for at in (0..node.count()).filter(|at| node.child(*at).dead().is_open()) {
                dead += 1;
                unsaid += usize::from(!node.dead_child(at).is_open());
            }
            above = node.next();
        }
        leftmost = leftmost.child(0);
    }
    (dead, unsaid)
}

/// A queue of 60,000 messages, popped from either end, has at most a tree of three levels.
#[cfg(not(any(loom, shuttle)))]
#[test]
fn a_skip_visits_few_nodes_however_many_deletions_it_passes() {
    use crate::tree::WIDTH;
    use esker_base::probe::Probes;
    use esker_base::sync::Arc;
    let probes = Probes::new();
    let visited = Arc::new(AtomicU64::new(0));
    let counter = visited.clone();
    probes.on_this_thread("deleted_run:node", move |_| _ = counter.fetch_add(1, Ordering::Relaxed));
    for forward in [true, false] {
        let tree = tree::<WIDTH>();
        let key = |popped: u16| if forward { popped } else { 60_000 - popped };
        for popped in 0..60_000 {
            add(&tree, (key(popped), 1 + u64::from(popped), true));
            if popped % 10_000 == 9_999 {
                visited.store(0, Ordering::Relaxed);
                let oldest = key(0).to_be_bytes();
                let from = Target { user_key: &oldest, trailer: u64::MAX };
                let run_end = run_end_of(&tree, &from, 60_000, forward).expect("a deleted run");
                assert_eq!(run_end, key(popped).to_be_bytes());
                let visits = visited.load(Ordering::Relaxed);
                assert!(visits > 0 && visits <= 3 * WIDTH as u64, "{visits} nodes after {popped} pops");
            }
        }
    }
}

#[test]
fn nothing_that_is_there_is_passed_over() {
    let mut passed = 0;
    for seed in 0..60 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let tree = tree::<4>();
        let mut versions = Vec::new();
        let keys = 10 + rng.u16(..60);
        let mut last = 0;
        while last < 400 {
            let deletes = rng.u8(..3) > 0;
            // A write group: its sequence numbers come in any order, and are published together.
            let (key, count) = (rng.u16(..keys), rng.u16(1..20));
            let mut group: Vec<Version> =
                (0..count).map(|i| ((key + i) % keys, last + 1 + u64::from(i), deletes)).collect();
            last += u64::from(count);
            rng.shuffle(&mut group);
            for version in group {
                add(&tree, version);
                versions.push(version);
            }
            passed += check(&tree, &versions, last, &versions);
            passed += check(&tree, &versions, rng.u64(..=last), &versions);
        }
    }
    assert!(passed > 10_000, "{passed}");
}

/// An insert into a leaf reaches the nodes above only after some other inserts: as if its thread
/// had lost the processor in between.
#[test]
fn nothing_that_is_there_is_passed_over_when_the_nodes_above_learn_of_it_late() {
    let mut passed = 0;
    for seed in 0..200 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let tree = tree::<4>();
        let mut versions = Vec::new();
        let keys = 10 + rng.u16(..60);
        let mut last = 0;
        while last < 600 {
            let mut group: Vec<Version> = Vec::new();
            for _ in 0..rng.usize(1..4) {
                // A run of keys in order, like a batch, most of them deleted.
                let (key, count, puts) = (rng.u16(..keys), rng.u16(1..20), rng.u16(..12));
                for i in 0..count {
                    last += 1;
                    group.push(((key + i) % keys, last, puts > 0 && (i % puts != 0 || puts > 9)));
                }
            }
            if rng.bool() {
                rng.shuffle(&mut group);
            }
            let mut late = Vec::new();
            for &version in &group {
                let record = record(&tree, version);
                // SAFETY: the record lies in the tree's arena.
                late.push((unsafe { tree.insert_unsettled(record) }.unwrap(), record));
                while !late.is_empty() && rng.u8(..4) == 0 {
                    let (after, record) = late.swap_remove(rng.usize(..late.len()));
                    tree.settle(after, &Target::of(record));
                }
            }
            rng.shuffle(&mut late);
            late.into_iter().for_each(|(after, record)| tree.settle(after, &Target::of(record)));
            versions.extend(group);
            check_words(&tree);
            passed += check(&tree, &versions, last, &versions);
        }
    }
    assert!(passed > 10_000, "{passed}");
}

#[test]
fn one_look_leads_across_all_that_is_deleted() {
    for order in ["ascending", "descending", "random"] {
        let tree = tree::<{ crate::tree::WIDTH }>();
        let keys = 20_000;
        (0..keys).for_each(|key| add(&tree, (key, 1 + u64::from(key), false)));
        let mut all: Vec<u16> = (1..keys - 1).collect();
        match order {
            "descending" => all.reverse(),
            "random" => fastrand::Rng::with_seed(1).shuffle(&mut all),
            _ => {}
        }
        for (i, key) in all.into_iter().enumerate() {
            add(&tree, (key, 30_000 + i as u64, true));
        }
        let (dead, unsaid) = dead_and_unsaid(&tree);
        assert!(
            dead > 200 && unsaid == 0,
            "{order}: {dead} are dead, {unsaid} of them as far as is not known above"
        );
        let run_end = |key: u16, forward| {
            let bytes = key.to_be_bytes();
            let target = Target { user_key: &bytes, trailer: u64::MAX };
            let run_end = run_end_of(&tree, &target, 60_000, forward)?;
            Some(u16::from_be_bytes(*run_end.first_chunk().expect("2 bytes")))
        };
        // The answer is the same from any place, also in the middle of a leaf.
        for from in [1, 2, 30, 66, 67, 200, keys / 2, keys - 200] {
            assert_eq!(run_end(from, true), Some(keys - 2), "{order} from {from}");
            assert_eq!(run_end(keys - 1 - from, false), Some(1), "{order} from {from} before the end");
        }
        assert_eq!(
            (run_end(0, true), run_end(keys - 1, false)),
            (None, None),
            "{order}: the end keys are visible"
        );
        // At snapshot 25,000 no key was deleted yet.
        let target = Target { user_key: &200u16.to_be_bytes(), trailer: u64::MAX };
        assert_eq!(run_end_of(&tree, &target, 25_000, true), None, "{order}");
    }
}

#[test]
fn runs_of_a_few_steps_have_no_run_end() {
    for (deleted, expected) in [(10, None), (40, Some(40))] {
        let tree = tree::<{ crate::tree::WIDTH }>();
        (1..=deleted).for_each(|key| add(&tree, (key, u64::from(key), true)));
        [0, deleted + 1].into_iter().for_each(|key| add(&tree, (key, 100 + u64::from(key), false)));
        let run_end = |from: u16, forward| {
            let target = Target { user_key: &from.to_be_bytes(), trailer: u64::MAX };
            run_end_of(&tree, &target, 1000, forward).map(<[u8]>::to_vec)
        };
        assert_eq!(run_end(1, true), expected.map(|key: u16| key.to_be_bytes().to_vec()));
        assert_eq!(run_end(deleted, false), expected.map(|_| 1u16.to_be_bytes().to_vec()));
    }
}

/// Number of live nodes of each level.
fn not_dead<const N: usize>(tree: &Tree<N>) -> Vec<usize> {
    let mut counts = Vec::new();
    let mut leftmost = tree.root();
    loop {
        let nodes = std::iter::successors(Some(leftmost), |node| node.next());
        counts.push(nodes.filter(|node| !node.dead().is_open()).count());
        if leftmost.level() == 0 {
            return counts;
        }
        leftmost = leftmost.child(0);
    }
}

/// A queue that is popped at one end. All deletions go to the place beside a live key, so the
/// leaves and nodes split off there get no further entries.
fn pop_beside_a_live_key<const N: usize>(ascending: bool) {
    let tree = tree::<N>();
    let n: u16 = if cfg!(miri) { 60 } else { 5000 };
    add(&tree, (if ascending { n } else { 0 }, 1, false));
    for i in 1..n {
        add(&tree, (if ascending { i } else { n - i }, u64::from(i) + 1, true));
    }
    check_words(&tree);
    let alive = not_dead(&tree);
    assert!(alive.iter().all(|&count| count <= 2), "living nodes of each level, from the root: {alive:?}");
}

#[test]
fn a_half_split_off_a_leaf_with_a_live_key_is_dead_once_nothing_comes_into_it() {
    for ascending in [true, false] {
        pop_beside_a_live_key::<4>(ascending);
        pop_beside_a_live_key::<66>(ascending);
    }
}

/// Calls `mark_dead_if_covered` for all leaves. The reader at `snapshot` sees a range tombstone
/// over all keys, whose sequence number is `snapshot`.
fn mark_all_dead_if_covered<const N: usize>(tree: &Tree<N>, snapshot: u64) {
    let mut leaf = tree.root();
    while leaf.level() > 0 {
        leaf = leaf.child(0);
    }
    let leaves = std::iter::successors(Some(leaf), |leaf| leaf.next());
    leaves.for_each(|leaf| tree.mark_dead_if_covered(leaf, snapshot, |_| snapshot));
}

#[test]
fn leaves_under_a_range_tombstone_are_dead_once_a_reader_has_been_there_until_something_comes_into_them() {
    let tree = tree::<4>();
    let n = 300;
    (0..n).for_each(|i| add(&tree, (i, u64::from(i) + 1, i % 3 == 0)));
    let covered_at = u64::from(n) + 1;
    mark_all_dead_if_covered(&tree, covered_at);
    check_words(&tree);
    let first = 0u16.to_be_bytes();
    let from_first = Target { user_key: &first, trailer: u64::MAX };
    let run_end = |snapshot| run_end_of(&tree, &from_first, snapshot, true).map(<[u8]>::to_vec);
    assert_eq!(run_end(covered_at), Some((n - 1).to_be_bytes().to_vec()));
    assert_eq!(run_end(covered_at - 1), Some(first.to_vec()), "older readers see the deleted keys");
    add(&tree, (200, covered_at + 1, false));
    check_words(&tree);
    // The put ended its leaf's dead state, so the skip checks that leaf's records up to it.
    let before = run_end(covered_at + 1).expect("most leaves are dead as before");
    assert!(before < 200u16.to_be_bytes().to_vec() && before >= 190u16.to_be_bytes().to_vec(), "{before:?}");
    assert_eq!(
        run_end(covered_at),
        Some((n - 1).to_be_bytes().to_vec()),
        "the put is too new for these readers"
    );
    mark_all_dead_if_covered(&tree, covered_at + 5);
    assert_eq!(run_end(covered_at + 5), Some((n - 1).to_be_bytes().to_vec()));
}

#[cfg(loom)]
mod models {
    use super::*;
    use esker_base::sync::Arc;
    use esker_base::sync::process::atomic::{AtomicUsize, Ordering};
    use loom::thread;

    /// Lets two writers and a reader work on one tree, in all interleavings that loom distinguishes
    /// with `preemptions` preemptions. The reader sees the records in `old`. It goes forward in one
    /// model and backward in another. At the end a reader sees everything.
    fn model(preemptions: usize, old: &'static [Version], writers: [&'static [Version]; 2]) {
        [true, false].into_iter().for_each(|forward| model_of_way(preemptions, old, writers, forward));
    }

    fn model_of_way(
        preemptions: usize,
        old: &'static [Version],
        writers: [&'static [Version]; 2],
        forward: bool,
    ) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.max_branches = 100_000;
        let counter = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&counter);
        builder.check(move || {
            count.fetch_add(1, Ordering::Relaxed);
            let tree = Arc::new(tree::<2>());
            old.iter().for_each(|&version| add(&tree, version));
            let spawn = |versions: &'static [Version]| {
                let tree = Arc::clone(&tree);
                thread::spawn(move || versions.iter().for_each(|&version| add(&tree, version)))
            };
            let threads = writers.map(spawn);
            let published = old.iter().map(|(_, seq, _)| *seq).max().unwrap_or(0);
            check_way(&tree, &old[..1], published, old, forward);
            for thread in threads {
                thread.join().expect("no assertion failed");
            }
            let all: Vec<Version> = old.iter().chain(writers.into_iter().flatten()).copied().collect();
            check_words(&tree);
            check(&tree, &all, 100, &all);
        });
        let runs = counter.load(Ordering::Relaxed);
        println!("{runs} runs: {writers:?} into {old:?}");
        assert!(runs >= 50, "{runs} runs cannot have been all interleavings");
    }

    #[test]
    fn loom_a_deletion_that_leaves_nothing_beside_a_write() {
        let old = &[(1, 1, false), (3, 2, false), (1, 3, true)];
        // With two preemptions it would take hours.
        model(1, old, [&[(3, 4, true)], &[(2, 5, false)]]);
        model(1, old, [&[(3, 4, true)], &[(3, 5, false)]]);
    }

    /// A range tombstone at 4 covers all leaves, and a reader states that they are dead. A later
    /// reader still finds a key that is written meanwhile.
    #[test]
    fn loom_a_reader_looks_through_covered_leaves_beside_a_write() {
        const OLD: &[Version] = &[(1, 1, false), (3, 2, false), (6, 3, false)];
        for put in [(2, 5, false), (3, 5, false), (7, 5, false)] {
            let mut builder = loom::model::Builder::new();
            builder.preemption_bound = Some(2);
            builder.max_branches = 100_000;
            let counter = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&counter);
            builder.check(move || {
                count.fetch_add(1, Ordering::Relaxed);
                let tree = Arc::new(tree::<2>());
                OLD.iter().for_each(|&version| add(&tree, version));
                let writer = {
                    let tree = Arc::clone(&tree);
                    thread::spawn(move || add(&tree, put))
                };
                mark_all_dead_if_covered(&tree, 4);
                writer.join().expect("no assertion failed");
                check_words(&tree);
                for (key, _, _) in OLD.iter().filter(|(key, ..)| *key <= put.0) {
                    let bytes = key.to_be_bytes();
                    let from = Target { user_key: &bytes, trailer: u64::MAX };
                    let run_end = run_end_of(&tree, &from, 5, true);
                    assert!(
                        run_end.is_none_or(|run_end| run_end < &put.0.to_be_bytes()[..]),
                        "from {key}: {run_end:?}"
                    );
                }
            });
            let runs = counter.load(Ordering::Relaxed);
            println!("{runs} runs: {put:?}");
            assert!(runs >= 50, "{runs} runs cannot have been all interleavings");
        }
    }

    #[test]
    fn loom_a_root_grows_over_dead_leaves_beside_a_write() {
        let old = &[(1, 1, true), (3, 2, true)];
        model(1, old, [&[(4, 3, true)], &[(2, 4, false)]]);
        model(1, old, [&[(4, 3, true), (5, 4, true)], &[(2, 5, false)]]);
    }

    #[test]
    fn loom_versions_in_two_leaves_beside_a_write() {
        let old = &[(1, 1, true), (2, 2, false), (3, 3, true)];
        model(1, old, [&[(2, 4, true)], &[(2, 5, false)]]);
    }

    /// A write splits a leaf, and then goes up to the nodes above. Another writer splits the node
    /// above, between the halves of that leaf.
    #[test]
    fn loom_an_inner_node_is_split_beside_a_write_below_it() {
        let old = &[(0, 1, true), (10, 2, true), (20, 3, true)];
        model(2, old, [&[(26, 4, false)], &[(32, 5, true)]]);
        model(2, old, [&[(21, 4, false)], &[(27, 5, false)]]);
        model(2, old, [&[(27, 4, false)], &[(22, 5, true)]]);
    }

    /// The root states which children are dead. A reader beside the writers reads this statement,
    /// which must hold for the records in `old`. Nodes have at least 4 slots, so that children move
    /// from slot to slot.
    fn model_of_root<const N: usize>(
        preemptions: usize,
        old: &'static [Version],
        writers: &'static [&'static [Version]],
    ) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.max_branches = 100_000;
        let counter = Arc::new([const { AtomicUsize::new(0) }; 2]);
        let counts = Arc::clone(&counter);
        builder.check(move || {
            counts[0].fetch_add(1, Ordering::Relaxed);
            let tree = Arc::new(tree::<N>());
            old.iter().for_each(|&version| add(&tree, version));
            let published = old.iter().map(|(_, seq, _)| *seq).max().unwrap_or(0);
            let root = tree.root();
            assert_eq!(root.level(), 1, "one inner node");
            let threads: Vec<_> = writers
                .iter()
                .map(|versions| {
                    let tree = Arc::clone(&tree);
                    thread::spawn(move || versions.iter().for_each(|&version| add(&tree, version)))
                })
                .collect();
            let key =
                |record: Record<'_>| u16::from_be_bytes(*record.user_key().first_chunk().expect("2 bytes"));
            for at in 0..N {
                let Some((child, next)) = root.dead_beside(at, published) else { continue };
                counts[1].fetch_add(1, Ordering::Relaxed);
                let begin = if at == 0 { 0 } else { key(child.first_record()) };
                let end = next.map_or(u16::MAX, |next| key(next.first_record()));
                assert!(begin <= end, "child {at} at {begin}, and behind it one at {end}");
                for &(key, _, _) in old.iter().filter(|(key, _, _)| (begin..end).contains(key)) {
                    assert!(
                        !is_there(old, key, published),
                        "{key} at {published} in {begin}..{end}, child {at}"
                    );
                }
            }
            for thread in threads {
                thread.join().expect("no assertion failed");
            }
            check_words(&tree);
        });
        let [runs, dead] = [0, 1].map(|i| counter[i].load(Ordering::Relaxed));
        println!("{runs} runs, {dead} children said to be dead: {writers:?} into {old:?}");
        assert!(runs >= 50 && dead >= 50, "{runs} runs, {dead} dead, cannot have been all interleavings");
    }

    #[test]
    fn loom_children_move_to_the_right_in_the_node_above() {
        // Leaves of 10 to 13, 20 and 21, 30 to 32: the first is full, the last dead.
        let old = &[
            (10, 1, false),
            (11, 2, false),
            (20, 3, false),
            (21, 4, false),
            (30, 5, true),
            (31, 6, true),
            (12, 7, false),
            (13, 8, false),
            (32, 9, true),
        ];
        model_of_root::<4>(3, old, &[&[(14, 20, false)]]);
        model_of_root::<4>(2, old, &[&[(14, 20, false)], &[(33, 21, false)]]);
        model_of_root::<4>(2, old, &[&[(14, 20, true), (15, 21, true)], &[(12, 22, true)]]);
        // The middle leaf is dead.
        let old = &[
            (10, 1, false),
            (11, 2, false),
            (20, 3, true),
            (21, 4, true),
            (30, 5, false),
            (31, 6, false),
            (12, 7, false),
            (13, 8, false),
            (22, 9, true),
        ];
        model_of_root::<4>(3, old, &[&[(14, 20, false)]]);
        model_of_root::<4>(2, old, &[&[(14, 20, false)], &[(23, 21, false)]]);
    }

    /// Leaves of 10 to 12, 20 to 23, 30 to 33 and 40: the second is dead. A split of the third
    /// splits the node above, too. A later split of the second reuses a slot of the node above. The
    /// child of that slot has moved to the new half of the node above.
    #[test]
    fn loom_the_node_above_is_split_and_filled_again() {
        let old = &[
            (10, 1, false),
            (11, 2, false),
            (20, 3, true),
            (21, 4, true),
            (30, 5, false),
            (12, 6, false),
            (22, 7, true),
            (23, 8, true),
            (31, 9, false),
            (32, 10, false),
            (33, 11, false),
            (40, 12, false),
        ];
        model_of_root::<4>(2, old, &[&[(34, 20, false), (24, 21, false)]]);
        model_of_root::<4>(1, old, &[&[(34, 20, false)], &[(24, 21, false)]]);
    }

    /// Leaves of 4 to 9, 10 to 20, 21 to 23, and 30; the first is full and dead. It is split, and
    /// its new half is split again. So two new children may take the slot of a child and the slot
    /// behind it.
    #[test]
    fn loom_children_move_twice() {
        let old = &[
            (10, 1, false),
            (11, 2, false),
            (20, 3, false),
            (21, 4, false),
            (22, 5, false),
            (23, 6, false),
            (30, 7, false),
            (12, 8, false),
            (10, 9, true),
            (11, 10, true),
            (9, 11, true),
            (8, 12, true),
            (7, 13, true),
            (6, 14, true),
            (5, 15, true),
            (4, 16, true),
        ];
        model_of_root::<6>(1, old, &[&[(3, 20, false), (6, 21, false)]]);
    }
}
