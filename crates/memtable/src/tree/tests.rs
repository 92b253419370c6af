//! The tree with tiny nodes: by loom in all interleavings (`RUSTFLAGS="--cfg loom" cargo test -p
//! esker-memtable --release loom`), and by real threads.

use super::*;
use crate::arena::ShardStats;
use crate::record::encoded_len;
use esker_base::{SequenceNumber, ValueType};

fn tree<const N: usize>() -> Tree<N> {
    Tree::new(InternalKeyComparator::default(), Arena::new(1 << 16, false)).expect("the arena has memory")
}

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

fn insert<const N: usize>(tree: &Tree<N>, n: u32) -> Result<()> {
    insert_version(tree, n, 1)
}

fn insert_version<const N: usize>(tree: &Tree<N>, n: u32, seq: u64) -> Result<()> {
    let (key, value) = (key(n), n.to_le_bytes());
    let len = encoded_len(key.len(), value.len());
    let place = tree.arena().allocate_record(len, &ShardStats::NONE)?;
    // SAFETY: `len` fresh bytes of the arena.
    let record = unsafe { Record::write(place, len, SequenceNumber(seq), ValueType::Value, &key, &value) };
    // SAFETY: the record lies in the tree's arena.
    unsafe { tree.insert(record) }
}

fn get<const N: usize>(tree: &Tree<N>, n: u32) -> bool {
    let key = key(n);
    let mut found = false;
    tree.visit_versions(&Target { user_key: &key, trailer: u64::MAX }, |record| {
        let (internal_key, value) = record.key_value();
        assert_eq!((&internal_key[..4], value), (&key[..], &n.to_le_bytes()[..]));
        found = true;
        false
    });
    found
}

fn number(record: Record<'_>) -> u32 {
    u32::from_be_bytes(*record.user_key().first_chunk().expect("4 bytes"))
}

fn scan<const N: usize>(tree: &Tree<N>) -> Vec<u32> {
    let mut run = node::LeafRun::new();
    let mut all = Vec::new();
    let mut more = tree.load_first(&mut run);
    while more {
        // SAFETY: the run is of this tree.
        all.extend((0..run.len()).map(|at| number(unsafe { run.record(at) })));
        // SAFETY: the run is of this tree.
        more = unsafe { tree.load_next(&mut run) };
    }
    all
}

fn scan_back<const N: usize>(tree: &Tree<N>) -> Vec<u32> {
    let mut run = node::LeafRun::new();
    let mut all = Vec::new();
    let mut last = tree.load_last(&mut run);
    while let Some(at) = last {
        // SAFETY: the run is of this tree.
        all.extend((0..=at).rev().map(|at| number(unsafe { run.record(at) })));
        // SAFETY: the run is of this tree.
        let first: Record<'_> = unsafe { run.record(0) };
        last = tree.load_before(&Target::of(first), false, &mut run);
    }
    all.reverse();
    all
}

#[cfg(loom)]
mod models {
    use super::*;
    use esker_base::sync::Arc;
    use esker_base::sync::process::atomic::AtomicUsize;
    use loom::thread;

    /// `all` is sorted and contains `old`.
    fn assert_scan(all: &[u32], old: &[u32]) {
        assert!(all.is_sorted_by(|a, b| a < b), "{all:?}");
        assert!(old.iter().all(|n| all.contains(n)), "{old:?} in {all:?}");
    }

    /// Lets each of `writers` insert its keys and `read` read, over a tree that holds `old`. Loom's
    /// search runs all interleavings with at most `preemptions` preemptions. At the end every
    /// record must be there.
    ///
    /// loom remembers only the last access to a word: a load hides an earlier one by another thread
    /// from its search. So writers do nothing but insert, and latch holders read past loom
    /// (`own!`). The search runs once with the reader first and once with it last. Fewer than 50
    /// runs are a failure.
    fn model<const N: usize>(
        preemptions: usize,
        old: &'static [u32],
        writers: &'static [&'static [u32]],
        read: fn(&Tree<N>),
    ) {
        let mut runs = 0;
        for reader_is_first in [true, false] {
            let mut builder = loom::model::Builder::new();
            builder.preemption_bound = Some(preemptions);
            builder.max_branches = 20_000;
            let counter = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&counter);
            builder.check(move || {
                count.fetch_add(1, Ordering::Relaxed);
                run_once(old, writers, read, reader_is_first);
            });
            runs += counter.load(Ordering::Relaxed);
        }
        println!("{runs} runs: {writers:?} into {old:?}, {N} slots");
        assert!(runs >= 50, "{runs} runs cannot have been all interleavings");
    }

    fn run_once<const N: usize>(
        old: &[u32],
        writers: &'static [&'static [u32]],
        read: fn(&Tree<N>),
        reader_is_first: bool,
    ) {
        let tree = Arc::new(tree::<N>());
        let insert_all = |tree: &Tree<N>, keys: &[u32]| {
            keys.iter().for_each(|&n| insert(tree, n).expect("the keys are distinct"))
        };
        insert_all(&tree, old);
        let spawn = |work: Box<dyn FnOnce(&Tree<N>) + 'static>| {
            let tree = Arc::clone(&tree);
            thread::spawn(move || work(&tree))
        };
        let mut threads = Vec::new();
        let (first, others) = writers.split_first().expect("a model has at least one writer");
        for &new in others {
            threads.push(spawn(Box::new(move |tree| insert_all(tree, new))));
        }
        if reader_is_first {
            threads.push(spawn(Box::new(move |tree| insert_all(tree, first))));
            read(&tree);
        } else {
            threads.push(spawn(Box::new(read)));
            insert_all(&tree, first);
        }
        for thread in threads {
            thread.join().expect("no assertion failed");
        }
        let mut expected: Vec<u32> = old.iter().chain(writers.iter().copied().flatten()).copied().collect();
        expected.sort_unstable();
        assert_eq!(scan(&tree), expected);
        assert_eq!(scan_back(&tree), expected);
        assert!(expected.iter().all(|&n| get(&tree, n)));
    }

    #[test]
    fn loom_two_inserts_into_one_leaf() {
        model::<6>(3, &[10, 30], &[&[20], &[5]], |_| {});
        model::<6>(3, &[10, 30], &[&[20], &[21]], |_| {});
    }

    #[test]
    fn loom_a_reader_beside_inserts_finds_what_was_there() {
        model::<6>(2, &[10, 20, 30], &[&[5, 6]], |tree| {
            assert!(get(tree, 20));
            assert!(!get(tree, 25));
        });
        model::<6>(3, &[10, 20], &[&[5, 15]], |tree| assert_scan(&scan(tree), &[10, 20]));
    }

    #[test]
    fn loom_two_inserts_beside_a_scan() {
        model::<6>(2, &[10, 20], &[&[5], &[15]], |tree| assert_scan(&scan(tree), &[10, 20]));
    }

    #[test]
    fn loom_a_reader_beside_a_split_finds_what_was_there() {
        model::<2>(3, &[10, 20], &[&[15]], |tree| assert!(get(tree, 20)));
        model::<2>(3, &[10, 20], &[&[5, 4]], |tree| assert!(get(tree, 20)));
        model::<3>(3, &[10, 20, 30], &[&[5, 6]], |tree| assert!(get(tree, 20)));
        model::<3>(2, &[10, 20, 30], &[&[5, 6, 7]], |tree| {
            assert!(get(tree, 20));
            assert!(get(tree, 30));
        });
        model::<3>(2, &[10, 20, 30], &[&[15, 12]], |tree| assert_scan(&scan(tree), &[10, 20, 30]));
        model::<3>(2, &[10, 20, 30], &[&[15, 12]], |tree| assert_scan(&scan_back(tree), &[10, 20, 30]));
    }

    #[test]
    fn loom_split_beside_insert_and_read() {
        model::<2>(2, &[10, 20], &[&[15], &[25]], |tree| assert!(get(tree, 20)));
        model::<2>(1, &[10, 20], &[&[5], &[17]], |tree| assert!(get(tree, 20)));
    }

    #[test]
    fn loom_inner_nodes_split_beside_a_reader() {
        model::<2>(2, &[10, 20, 30, 40], &[&[15, 5]], |tree| assert!(get(tree, 40)));
        model::<2>(2, &[10, 20, 30, 40], &[&[35, 15]], |tree| assert!(get(tree, 30)));
    }
}

#[cfg(not(loom))]
fn stress<const N: usize>(threads: u32, per_thread: u32, mix: fn(u32) -> u32) {
    use esker_base::sync::atomic::AtomicU32;
    let tree = tree::<N>();
    let done: Vec<AtomicU32> = (0..threads).map(|_| AtomicU32::new(0)).collect();
    let nth = |thread: u32, i: u32| mix(i) * threads + thread;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (tree, done) = (&tree, &done);
            scope.spawn(move || {
                for i in 0..per_thread {
                    insert(tree, nth(thread, i)).unwrap();
                    assert!(insert(tree, nth(thread, i)).is_err());
                    done[thread as usize].store(i + 1, Ordering::Release);
                }
            });
        }
        let (tree, done) = (&tree, &done);
        scope.spawn(move || {
            let mut rng = fastrand::Rng::with_seed(u64::from(per_thread));
            let progress = || -> Vec<u32> { done.iter().map(|d| d.load(Ordering::Acquire)).collect() };
            loop {
                let before = progress();
                for (thread, &n) in before.iter().enumerate().filter(|(_, n)| **n > 0) {
                    assert!(get(tree, nth(thread as u32, rng.u32(0..n))));
                    assert!(get(tree, nth(thread as u32, n - 1)));
                    let keys: Vec<_> = (0..GROUP).map(|_| key(nth(thread as u32, rng.u32(0..n)))).collect();
                    let mut found = 0;
                    let targets: Vec<_> =
                        keys.iter().map(|k| Target { user_key: k, trailer: u64::MAX }).collect();
                    tree.visit_versions_of::<GROUP>(&targets, |i, record| {
                        found += usize::from(record.user_key() == keys[i]);
                        false
                    });
                    assert_eq!(found, GROUP);
                }
                if rng.u32(0..50) == 0 {
                    let all = if rng.bool() { scan(tree) } else { scan_back(tree) };
                    assert!(all.is_sorted_by(|a, b| a < b));
                    assert!(all.len() as u32 >= before.iter().sum());
                }
                if before.iter().all(|&n| n == per_thread) {
                    return;
                }
            }
        });
    });
    let mut expected: Vec<u32> = (0..threads).flat_map(|t| (0..per_thread).map(move |i| nth(t, i))).collect();
    expected.sort_unstable();
    assert_eq!(scan(&tree), expected);
    assert_eq!(scan_back(&tree), expected);
}

#[cfg(not(loom))]
#[test]
fn threads_insert_and_read_in_trees_of_all_widths() {
    let n = if cfg!(miri) { 30 } else { 3000 };
    let mixed = |i: u32| i.wrapping_mul(0x9E37_79B1) >> 4;
    for _ in 0..if cfg!(miri) { 1 } else { 3 } {
        stress::<2>(3, n, mixed);
        stress::<3>(3, n, mixed);
        stress::<4>(4, n, |i| i);
        stress::<5>(3, n, |i| u32::MAX / 8 - i);
        stress::<16>(4, 2 * n, mixed);
        stress::<68>(4, 4 * n, mixed);
        stress::<68>(4, 4 * n, |i| i);
        stress::<68>(4, 4 * n, |i| u32::MAX / 8 - i);
    }
}

/// The newest version goes before all others, so a full leaf gives all its records away before it
/// takes the new one.
#[cfg(not(loom))]
#[test]
fn a_key_that_is_there_is_found_while_the_only_leaf_gives_all_its_records_away() {
    use esker_base::sync::atomic::AtomicBool;
    for _ in 0..if cfg!(miri) { 1 } else { 300 } {
        let (tree, done) = (tree::<5>(), AtomicBool::new(false));
        insert_version(&tree, 7, 1).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (2..40).for_each(|seq| insert_version(&tree, 7, seq).unwrap());
                done.store(true, Ordering::Release);
            });
            while !done.load(Ordering::Acquire) {
                assert!(get(&tree, 7));
                assert!(!tree.is_empty());
            }
        });
    }
}

#[cfg(not(loom))]
#[test]
fn a_wrong_guess_leads_to_the_same_record() {
    let tree = tree::<68>();
    (0..50).for_each(|n| insert(&tree, 2 * n).unwrap());
    for n in 0..101 {
        let user_key = key(n);
        let target = Target { user_key: &user_key, trailer: u64::MAX };
        let right = tree.root().guess(tree.icmp(), &target);
        for at in (0..70).chain([usize::MAX]) {
            let (guess, mut found) = (right.moved_to(at), None);
            tree.visit_in(tree.root(), &target, guess, |record| {
                found = Some(number(record));
                false
            });
            assert_eq!(found, (n < 100 && n % 2 == 0).then_some(n), "guess {at}");
        }
    }
}

#[cfg(not(loom))]
#[test]
fn ascending_and_descending_keys_fill_leaves() {
    // In the last case, keys that descend in the middle share a leaf with the keys before them.
    type Order = fn(u32) -> u32;
    let cases: [(Order, u32); 4] = [
        (|i| i, 110),
        (|i| u32::MAX - i, 110),
        (|i| (i % 2) << 30 | i, 110),
        (|i| (i % 2) << 30 | ((1 << 29) - i), 160),
    ];
    for (order, percent) in cases {
        let tree = tree::<64>();
        let n = if cfg!(miri) { 300 } else { 20_000 };
        (0..n).for_each(|i| insert(&tree, order(i)).unwrap());
        let mut run = node::LeafRun::new();
        let mut leaves = 0;
        let mut more = tree.load_first(&mut run);
        while more {
            leaves += 1;
            // SAFETY: the run is of this tree.
            more = unsafe { tree.load_next(&mut run) };
        }
        assert!(leaves <= n / 64 * percent / 100 + 4, "{leaves} leaves for {n}");
    }
}

#[cfg(not(loom))]
#[test]
fn versions_of_a_hot_key_are_found_at_every_snapshot() {
    let tree = tree::<68>();
    let n = if cfg!(miri) { 200 } else { 5000 };
    (1..=n).for_each(|seq| insert_version(&tree, 7, seq).unwrap());
    (1..=n).for_each(|seq| insert_version(&tree, 8, n + 1 - seq).unwrap());
    for snapshot in [1, 2, n / 2, n - 1, n] {
        for hot in [7, 8] {
            let target = Target { user_key: &key(hot), trailer: snapshot << 8 | 0xFF };
            let mut seqs = Vec::new();
            tree.visit_versions(&target, |record| {
                seqs.push(record.parts().1 >> 8);
                true
            });
            assert!(seqs.into_iter().eq((1..=snapshot).rev()));
        }
    }
}
