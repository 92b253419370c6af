use super::*;
use esker_format::range_del::RangeTombstone;

fn naive(all: &[RangeTombstone], key: &[u8], snapshot: u64, icmp: &InternalKeyComparator) -> SequenceNumber {
    let covering = all.iter().filter(|t| t.seq.0 <= snapshot && t.as_ref().covers(key, icmp));
    covering.map(|t| t.seq).max().unwrap_or_default()
}

fn count(sets: &[Arc<FragmentedRangeTombstones>]) -> usize {
    sets.iter().map(|set| set.tombstone_count()).sum()
}

fn newest(sets: &[Arc<FragmentedRangeTombstones>], key: &[u8], snapshot: SequenceNumber) -> SequenceNumber {
    let icmp = InternalKeyComparator::default();
    let newest = sets.iter().map(|set| set.max_covering_seq(key, &icmp, snapshot)).max();
    newest.unwrap_or_default()
}

fn random_range(rng: &mut fastrand::Rng, shape: usize, i: u64) -> (Vec<u8>, Vec<u8>) {
    let key = |n: u64| format!("{n:05}").into_bytes();
    match shape {
        0 => (key(rng.u64(0..300)), key(rng.u64(0..300))),
        1 => (key(i % 1000), key(i % 1000 + 3)),
        2 => (key(i / 2), key(2000 - i / 2)),
        _ => (key(7), key(9)),
    }
}

#[test]
fn it_answers_as_a_naive_list_however_reads_and_writes_alternate() {
    let icmp = InternalKeyComparator::default();
    for seed in 0..12 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (shape, most_reads) = (seed as usize % 4, [0, 1, 3, 400][seed as usize / 4 % 4]);
        let dels = RangeDels::new(1 << 16, None);
        let mut all = Vec::new();
        let n = if cfg!(miri) { 60 } else { 700 };
        for i in 0..n {
            let (start, end) = random_range(&mut rng, shape, i);
            // Not in order of sequence.
            let seq = SequenceNumber((i ^ 5) + 1);
            dels.add(&start, &end, seq).unwrap();
            all.push(RangeTombstone { start, end, seq });
            for _ in 0..rng.usize(0..=most_reads) {
                let key = format!("{:05}", rng.u32(0..400)).into_bytes();
                let snapshot = rng.u64(0..n + 9);
                let expected = naive(&all, &key, snapshot, &icmp);
                assert_eq!(
                    dels.max_covering_seq(&key, &icmp, SequenceNumber(snapshot)),
                    expected,
                    "seed {seed}"
                );
            }
            if rng.u32(0..100) == 0 {
                let cover = all.iter().filter(|t| !t.as_ref().is_empty(&icmp)).count();
                assert_eq!(count(&dels.fragments(&icmp)), cover);
            }
        }
        assert_eq!(dels.len(), all.len());
        let fragments = dels.fragments(&icmp);
        for key in (0..400).map(|k| format!("{k:05}").into_bytes()) {
            assert_eq!(newest(&fragments, &key, SequenceNumber::MAX), naive(&all, &key, u64::MAX, &icmp));
        }
    }
}

#[test]
fn runs_are_few_and_many_reads_make_them_one() {
    let icmp = InternalKeyComparator::default();
    let dels = RangeDels::new(1 << 16, None);
    let read = || dels.max_covering_seq(b"00500", &icmp, SequenceNumber::MAX);
    let n = if cfg!(miri) { 100 } else { 3000u64 };
    for i in 0..n {
        let (start, end) = random_range(&mut fastrand::Rng::with_seed(i), 1, i);
        dels.add(&start, &end, SequenceNumber(i + 1)).unwrap();
        read();
        assert!(dels.fragmented.load_full().runs.len() <= 9);
    }
    for _ in 0..2 * n {
        read();
    }
    assert_eq!(dels.fragmented.load_full().runs.len(), 1);
}

#[test]
fn threads_add_and_search_at_once() {
    let icmp = InternalKeyComparator::default();
    let dels = RangeDels::new(1 << 16, None);
    let n = if cfg!(miri) { 40 } else { 4000u64 };
    let added: Vec<AtomicUsize> = (0..3).map(|_| AtomicUsize::new(0)).collect();
    std::thread::scope(|scope| {
        for (thread, progress) in added.iter().enumerate() {
            let dels = &dels;
            scope.spawn(move || {
                for i in 0..n {
                    let key = format!("{thread}{i:05}").into_bytes();
                    dels.add(&key, &[&key[..], b"x"].concat(), SequenceNumber(i + 1)).unwrap();
                    progress.store(i as usize + 1, Ordering::Release);
                }
            });
        }
        for seed in 0..2 {
            let (dels, added, icmp) = (&dels, &added, &icmp);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(seed);
                while added.iter().any(|a| (a.load(Ordering::Acquire) as u64) < n) {
                    let thread = rng.usize(0..3);
                    let before = added[thread].load(Ordering::Acquire) as u64;
                    if before > 0 {
                        let i = rng.u64(before.saturating_sub(100)..before);
                        let key = format!("{thread}{i:05}").into_bytes();
                        let got = dels.max_covering_seq(&key, icmp, SequenceNumber::MAX);
                        assert_eq!(got, SequenceNumber(i + 1));
                        let got = dels.max_covering_seq(&key, icmp, SequenceNumber(i));
                        assert_eq!(got, SequenceNumber::ZERO);
                    }
                }
            });
        }
    });
    assert_eq!(count(&dels.fragments(&icmp)), 3 * n as usize);
}

#[cfg(loom)]
mod models {
    use super::*;
    use esker_base::sync::atomic::AtomicU64;
    use esker_base::sync::process::atomic::AtomicUsize as Counter;

    const KEY: &[u8] = b"b";

    /// Tombstones over one key, and how many are published.
    struct Shared {
        icmp: InternalKeyComparator,
        dels: RangeDels,
        published: AtomicU64,
    }

    impl Shared {
        fn with(count: u64) -> Arc<Shared> {
            let dels = RangeDels::new(1 << 12, None);
            let shared =
                Shared { icmp: InternalKeyComparator::default(), dels, published: AtomicU64::new(0) };
            (1..=count).for_each(|seq| shared.add(seq));
            Arc::new(shared)
        }

        fn add(&self, seq: u64) {
            self.dels.add(b"a", b"c", SequenceNumber(seq)).unwrap();
            self.published.store(seq, Ordering::Release);
        }

        /// The newest that is published covers the key, in the list or in the fragmented part.
        fn search(&self) {
            let snapshot = SequenceNumber(self.published.load(Ordering::Acquire));
            assert_eq!(self.dels.max_covering_seq(KEY, &self.icmp, snapshot), snapshot);
        }

        fn fragment(&self) {
            let snapshot = SequenceNumber(self.published.load(Ordering::Acquire));
            let fragments = self.dels.fragments(&self.icmp);
            assert_eq!(newest(&fragments, KEY, snapshot), snapshot);
        }
    }

    fn model(count: u64, beside: [fn(&Shared); 2], here: fn(&Shared)) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(4);
        let counter = Arc::new(Counter::new(0));
        let runs = counter.clone();
        builder.check(move || {
            runs.fetch_add(1, Ordering::Relaxed);
            let shared = Shared::with(count);
            let threads = beside.map(|work| {
                let shared = shared.clone();
                loom::thread::spawn(move || work(&shared))
            });
            here(&shared);
            for thread in threads {
                thread.join().expect("no assertion failed");
            }
            shared.search();
            shared.fragment();
        });
        let runs = counter.load(Ordering::Relaxed);
        println!("{runs} runs");
        assert!(runs >= 50, "{runs} runs cannot have been all interleavings");
    }

    #[test]
    fn loom_a_tombstone_is_seen_once_it_is_published() {
        model(1, [|s| s.add(2), Shared::search], Shared::search);
        model(2, [|s| s.add(3), Shared::search], Shared::search);
    }

    #[test]
    fn loom_fragments_have_every_tombstone_that_is_published() {
        model(1, [|s| s.add(2), Shared::fragment], Shared::search);
        model(2, [|s| s.add(3), Shared::search], Shared::fragment);
    }
}
