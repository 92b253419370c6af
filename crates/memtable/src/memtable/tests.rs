use super::*;
use esker_base::comparator::{Comparator, ReverseBytewiseComparator};
use esker_format::cursor::InternalIterator;
use esker_format::key::internal_key;
use esker_format::range_del::RangeTombstone;
use std::collections::BTreeMap;

const KINDS: [ValueType; 4] =
    [ValueType::Value, ValueType::Deletion, ValueType::Merge, ValueType::SingleDeletion];

/// Orders keys by length, and equal lengths by their bytes. The engine has no shortcut for this
/// order.
#[derive(Debug)]
struct LengthFirst;
impl Comparator for LengthFirst {
    fn name(&self) -> &str {
        "test.LengthFirst"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    }
}

fn comparators() -> Vec<InternalKeyComparator> {
    vec![
        InternalKeyComparator::default(),
        InternalKeyComparator::new(Arc::new(ReverseBytewiseComparator)),
        InternalKeyComparator::new(Arc::new(LengthFirst)),
    ]
}

/// The entries of a memtable in a sorted vector.
struct Model {
    icmp: InternalKeyComparator,
    entries: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Model {
    fn place(&self, key: &[u8]) -> Result<usize, usize> {
        self.entries.binary_search_by(|(k, _)| self.icmp.compare(k, key))
    }
    fn add(&mut self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.place(&key).map_or_else(
            |at| {
                self.entries.insert(at, (key, value));
                true
            },
            |_| false,
        )
    }
}

fn random_key(rng: &mut fastrand::Rng, style: usize) -> Vec<u8> {
    match style {
        0 => rng.u32(0..400).to_be_bytes().to_vec(),
        1 => format!("a long common prefix of all keys/{:06}", rng.u32(0..100_000)).into_bytes(),
        2 => (0..rng.usize(0..4)).map(|_| rng.u8(0..3)).collect(),
        3 => format!(
            "{}{:05}",
            ["user", "userland", "a", "zz top of the prefixes"][rng.usize(0..4)],
            rng.u32(0..500)
        )
        .into_bytes(),
        _ => (0..rng.usize(0..200)).map(|i| if i < 150 { 7 } else { rng.u8(..) }).collect(),
    }
}

fn fill(
    rng: &mut fastrand::Rng,
    icmp: &InternalKeyComparator,
    style: usize,
    n: usize,
) -> (Arc<MemTable>, Model) {
    let table = MemTable::new(icmp.clone(), MemTableOptions::default());
    let mut model = Model { icmp: icmp.clone(), entries: Vec::new() };
    for _ in 0..n {
        let (key, seq) = (random_key(rng, style), SequenceNumber(rng.u64(1..50)));
        let kind = KINDS[rng.usize(0..KINDS.len())];
        let value = vec![rng.u8(..); rng.usize(0..40)];
        let added = table.add(seq, kind, &key, &value);
        let expected = model.add(internal_key(&key, seq, kind), value);
        assert_eq!(added.is_ok(), expected);
        if let Err(e) = added {
            assert_eq!(e.kind(), esker_base::ErrorKind::TryAgain);
        }
    }
    assert_eq!(table.num_entries(), model.entries.len() as u64);
    (table, model)
}

fn for_each_case(check: impl Fn(&mut fastrand::Rng, &InternalKeyComparator, usize, usize)) {
    let (seeds, sizes): (_, &[usize]) =
        if cfg!(miri) { (0..1, &[1, 200]) } else { (0..3, &[0, 1, 50, 700, 6000]) };
    for seed in seeds {
        for icmp in &comparators() {
            for style in 0..5 {
                for &n in sizes {
                    println!("seed {seed} order {:?} style {style} n {n}", icmp.user_comparator());
                    check(&mut fastrand::Rng::with_seed(seed), icmp, style, n);
                }
            }
        }
    }
}

#[test]
fn a_cursor_yields_what_was_added_both_ways() {
    for_each_case(|rng, icmp, style, n| {
        let (table, model) = fill(rng, icmp, style, n);
        let mut iter = table.iter();
        assert!(!iter.valid());
        iter.seek_to_first();
        for (key, value) in &model.entries {
            assert_eq!((iter.key(), iter.value()), (&key[..], &value[..]));
            iter.next();
        }
        assert!(!iter.valid());
        iter.seek_to_last();
        for (key, value) in model.entries.iter().rev() {
            assert_eq!((iter.key(), iter.value()), (&key[..], &value[..]));
            iter.prev();
        }
        assert!(!iter.valid());
    });
}

#[test]
fn seeks_find_what_the_model_finds() {
    for_each_case(|rng, icmp, style, n| {
        let (table, model) = fill(rng, icmp, style, n);
        let mut iter = table.iter();
        let key_at = |i: usize| model.entries.get(i).map(|e| &e.0[..]);
        for _ in 0..if cfg!(miri) { 10 } else { 300 } {
            let target =
                internal_key(&random_key(rng, style), SequenceNumber(rng.u64(0..51)), ValueType::Value);
            let (at, at_or_before) = match model.place(&target) {
                Ok(i) => (i, Some(i)),
                Err(i) => (i, i.checked_sub(1)),
            };
            iter.seek(&target);
            assert_eq!(iter.valid().then(|| iter.key()), key_at(at));
            let mut i = at;
            for _ in 0..rng.usize(0..4) {
                if iter.valid() {
                    iter.prev();
                    i = i.wrapping_sub(1);
                    assert_eq!(iter.valid().then(|| iter.key()), key_at(i));
                }
            }
            iter.seek_for_prev(&target);
            assert_eq!(iter.valid().then(|| iter.key()), at_or_before.and_then(key_at));
            let mut i = at_or_before.unwrap_or(usize::MAX);
            for _ in 0..rng.usize(0..80) {
                if iter.valid() {
                    iter.next();
                    i += 1;
                    assert_eq!(iter.valid().then(|| iter.key()), key_at(i));
                }
            }
        }
    });
}

#[test]
fn get_visits_visible_versions_newest_first() {
    for_each_case(|rng, icmp, style, n| {
        let (table, model) = fill(rng, icmp, style, n);
        for _ in 0..if cfg!(miri) { 10 } else { 300 } {
            let lookup = LookupKey::new(&random_key(rng, style), SequenceNumber(rng.u64(0..51)));
            let expected: Vec<_> = model
                .entries
                .iter()
                .filter(|(k, _)| icmp.same_user_key(esker_format::key::user_key(k), lookup.user_key()))
                .filter(|(k, _)| esker_format::key::trailer(k) >> 8 <= lookup.sequence().0)
                .collect();
            let limit = rng.usize(1..200);
            let mut got = Vec::new();
            table
                .get(&lookup, |kind, seq, value| {
                    got.push((internal_key(lookup.user_key(), seq, kind), value.pin()));
                    got.len() < limit
                })
                .unwrap();
            assert_eq!(got.len(), expected.len().min(limit));
            assert!(got.iter().zip(&expected).all(|(g, e)| icmp.compare(&g.0, &e.0).is_eq() && g.1 == e.1));
        }
    });
}

#[test]
fn get_many_visits_what_get_visits() {
    for_each_case(|rng, icmp, style, n| {
        let (table, _) = fill(rng, icmp, style, n);
        let lookup =
            |rng: &mut fastrand::Rng| LookupKey::new(&random_key(rng, style), SequenceNumber(rng.u64(0..51)));
        let keys: Vec<LookupKey> = (0..rng.usize(0..60)).map(|_| lookup(rng)).collect();
        let mut which: Vec<u32> = (0..keys.len() as u32).filter(|_| rng.u32(0..4) > 0).collect();
        rng.shuffle(&mut which);
        let limit = rng.usize(1..5);
        let mut got = vec![Vec::new(); keys.len()];
        table.get_many(&keys, &which, |i, kind, seq, value| {
            got[i as usize].push((kind, seq, value.to_vec()));
            got[i as usize].len() < limit
        });
        for (i, key) in keys.iter().enumerate() {
            let mut expected = Vec::new();
            if which.contains(&(i as u32)) {
                table
                    .get(key, |kind, seq, value| {
                        expected.push((kind, seq, value.to_vec()));
                        expected.len() < limit
                    })
                    .unwrap();
            }
            assert_eq!(got[i], expected);
        }
    });
}

#[test]
fn it_has_points_from_the_first_one_on_and_range_tombstones_are_none() {
    let table = MemTable::new(InternalKeyComparator::default(), MemTableOptions::default());
    assert!(table.has_no_points());
    table.add(SequenceNumber(1), ValueType::RangeDeletion, b"a", b"b").unwrap();
    assert!(table.has_no_points());
    for n in 0u64..1000 {
        table.add(SequenceNumber(2 + n), ValueType::Value, &n.to_be_bytes(), b"").unwrap();
        assert!(!table.has_no_points());
    }
}

#[test]
fn counts_are_those_of_what_was_added() {
    let table =
        MemTable::new(InternalKeyComparator::default(), MemTableOptions { id: 9, ..Default::default() });
    assert!(table.is_empty() && table.first_seqno() == SequenceNumber::ZERO);
    assert!(table.approximate_memory_usage() <= 8 << 10, "{}", table.approximate_memory_usage());
    table.add(SequenceNumber(7), ValueType::Value, b"a", b"12345").unwrap();
    table.add(SequenceNumber(5), ValueType::Deletion, b"b", b"").unwrap();
    table.add(SequenceNumber(6), ValueType::RangeDeletion, b"c", b"d").unwrap();
    assert!(table.add(SequenceNumber(5), ValueType::Deletion, b"b", b"").is_err());
    assert_eq!((table.num_entries(), table.num_deletes(), table.num_range_deletes()), (3, 1, 1));
    assert_eq!((table.first_seqno(), table.largest_seqno()), (SequenceNumber(5), SequenceNumber(7)));
    assert_eq!(table.data_size(), (1 + 8 + 5) + (1 + 8) + (1 + 8 + 1));
    assert_eq!(table.id(), 9);
}

#[test]
fn pinned_values_outlive_the_handle() {
    let table = MemTable::new(InternalKeyComparator::default(), MemTableOptions::default());
    let big = vec![3u8; if cfg!(miri) { 9000 } else { 3 << 20 }];
    table.add(SequenceNumber(1), ValueType::Value, b"k", &big).unwrap();
    let mut pinned = PinnedBytes::empty();
    table
        .get(&LookupKey::new(b"k", SequenceNumber::MAX), |_, _, value| {
            pinned = value.pin();
            false
        })
        .unwrap();
    let mut iter = table.iter();
    drop(table);
    assert_eq!(pinned, big);
    iter.seek_to_first();
    assert_eq!(iter.value(), big);
    let from_iter = iter.pinned_value();
    drop(iter);
    assert_eq!(from_iter, big);
}

const TOMBSTONES: u64 = if cfg!(miri) { 60 } else { 400 };

#[test]
fn range_tombstones_cover_as_a_naive_list_says() {
    for icmp in &comparators() {
        let mut rng = fastrand::Rng::with_seed(11);
        let table = MemTable::new(icmp.clone(), MemTableOptions::default());
        let mut naive: Vec<RangeTombstone> = Vec::new();
        let key = |rng: &mut fastrand::Rng| format!("{:03}", rng.u32(0..200)).into_bytes();
        for seq in 1..TOMBSTONES {
            let (a, b) = (key(&mut rng), key(&mut rng));
            table.add(SequenceNumber(seq ^ 3), ValueType::RangeDeletion, &a, &b).unwrap();
            naive.push(RangeTombstone::new(a, b, SequenceNumber(seq ^ 3)));
            for _ in 0..rng.usize(0..5) {
                let (k, snapshot) = (key(&mut rng), SequenceNumber(rng.u64(0..seq + 5)));
                let expected = naive
                    .iter()
                    .filter(|t| t.as_ref().covers(&k, icmp) && t.seq <= snapshot)
                    .map(|t| t.seq)
                    .max();
                let got = table.max_covering_tombstone_seq(&k, snapshot);
                assert_eq!(got, expected.unwrap_or_default());
            }
        }
        assert_eq!(
            table.range_tombstones().iter().map(|set| set.tombstone_count()).sum::<usize>(),
            naive.iter().filter(|t| !t.as_ref().is_empty(icmp)).count()
        );
        assert_eq!(table.num_range_deletes(), TOMBSTONES - 1);
    }
}

#[test]
fn threads_add_and_read_at_once_and_nothing_is_lost() {
    const THREADS: u64 = 4;
    let per_thread = if cfg!(miri) { 60 } else { 20_000 };
    let table = MemTable::new(InternalKeyComparator::default(), MemTableOptions::default());
    let done: Vec<_> = (0..THREADS).map(|_| esker_base::sync::atomic::AtomicU64::new(0)).collect();
    let key = |thread: u64, i: u64| {
        let mixed = i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48;
        format!("user{:08}", mixed * THREADS + thread).into_bytes()
    };
    let seq = |thread: u64, i: u64| SequenceNumber(1 + i * THREADS + thread);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (table, done, key) = (&table, &done, &key);
            scope.spawn(move || {
                for i in 0..per_thread {
                    table.add(seq(thread, i), ValueType::Value, &key(thread, i), &i.to_le_bytes()).unwrap();
                    done[thread as usize].store(i + 1, Ordering::Release);
                }
            });
        }
        for reader in 0..2 {
            let (table, done, key) = (&table, &done, &key);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(reader);
                while done.iter().any(|d| d.load(Ordering::Acquire) < per_thread) {
                    check_against_progress(table, done, key, seq, &mut rng);
                    if cfg!(miri) {
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    let mut expected = BTreeMap::new();
    for thread in 0..THREADS {
        for i in 0..per_thread {
            expected.insert((key(thread, i), u64::MAX - seq(thread, i).0), i);
        }
    }
    let mut iter = table.iter();
    iter.seek_to_first();
    for ((key, inverse), i) in expected {
        assert_eq!(iter.key(), internal_key(&key, SequenceNumber(u64::MAX - inverse), ValueType::Value));
        assert_eq!(iter.value(), i.to_le_bytes());
        iter.next();
    }
    assert!(!iter.valid());
}

/// A read finds all that was added before it began. A scan is in order and has at least as many
/// entries.
fn check_against_progress(
    table: &Arc<MemTable>,
    done: &[esker_base::sync::atomic::AtomicU64],
    key: &impl Fn(u64, u64) -> Vec<u8>,
    seq: impl Fn(u64, u64) -> SequenceNumber,
    rng: &mut fastrand::Rng,
) {
    let before: Vec<u64> = done.iter().map(|d| d.load(Ordering::Acquire)).collect();
    let thread = rng.usize(0..done.len());
    if before[thread] > 0 {
        let i = rng.u64(before[thread].saturating_sub(50)..before[thread]);
        let (key, seq) = (key(thread as u64, i), seq(thread as u64, i));
        let mut found = None;
        table
            .get(&LookupKey::new(&key, seq), |_, seq, value| {
                found = Some((seq, value.to_vec()));
                false
            })
            .unwrap();
        assert_eq!(found, Some((seq, i.to_le_bytes().to_vec())));
        let mut iter = table.iter();
        iter.seek(&internal_key(&key, seq, ValueType::Value));
        assert_eq!(iter.value(), i.to_le_bytes());
        iter.seek_for_prev(&internal_key(&key, seq, ValueType::Value));
        assert_eq!(iter.value(), i.to_le_bytes());
    }
    if rng.u32(0..200) == 0 {
        let forward = rng.bool();
        let mut iter = table.iter();
        if forward {
            iter.seek_to_first()
        } else {
            iter.seek_to_last()
        }
        let (mut count, mut last) = (0, None::<Vec<u8>>);
        while iter.valid() {
            if let Some(last) = &last {
                let order = table.comparator().compare(last, iter.key());
                assert_eq!(
                    order,
                    if forward { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater }
                );
            }
            last = Some(iter.key().to_vec());
            count += 1;
            if forward { iter.next() } else { iter.prev() }
        }
        assert!(count >= before.iter().sum::<u64>());
    }
}

/// A reader's answer: the versions that count, newest first, and how far older sources are hidden.
#[derive(Debug, Default, PartialEq)]
struct Answer {
    versions: Vec<u64>,
    covered: u64,
    is_settled: bool,
}

impl Answer {
    fn see(&mut self, (mem, key): (&MemTable, &LookupKey), seen: ReadState<'_>) -> bool {
        match seen {
            ReadState::Covered(by) => {
                self.covered = self.covered.max(by.0);
                true
            }
            ReadState::MayBeCovered(newest) => {
                let by = mem.max_covering_tombstone_seq(key.user_key(), key.sequence());
                assert!(by <= newest, "{by:?} is newer than {newest:?}");
                self.covered = self.covered.max(by.0);
                true
            }
            ReadState::Version(_, sequence, _) if sequence.0 < self.covered => {
                self.is_settled = true;
                false
            }
            ReadState::Version(kind, sequence, _) => {
                self.versions.push(sequence.0);
                self.is_settled = kind != ValueType::Merge;
                !self.is_settled
            }
        }
    }

    /// Whether two answers mean the same. A settled answer may leave out the range tombstone.
    fn means(&self, other: &Answer) -> bool {
        (&self.versions, self.is_settled) == (&other.versions, other.is_settled)
            && (self.is_settled || self.covered == other.covered)
    }
}

#[test]
fn lookups_beside_range_tombstones_show_what_the_list_of_them_says() {
    for seed in 0..if cfg!(miri) { 1 } else { 20 } {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mem = MemTable::new(InternalKeyComparator::default(), MemTableOptions::default());
        let keys = 20 + rng.u32(..3000);
        let key = |n: u32| n.to_be_bytes();
        let (mut versions, mut tombstones) = (Vec::new(), Vec::new());
        for seq in 1..if cfg!(miri) { 200 } else { 6000 } {
            let at = rng.u32(..keys);
            if rng.u8(..6) == 0 {
                let to = at + if rng.bool() { rng.u32(..4) } else { rng.u32(..keys) };
                mem.add(SequenceNumber(seq), ValueType::RangeDeletion, &key(at), &key(to)).unwrap();
                tombstones.push((at, to, seq));
            } else {
                let kind = [ValueType::Value, ValueType::Merge, ValueType::Deletion][rng.usize(..3)];
                mem.add(SequenceNumber(seq), kind, &key(at), b"value").unwrap();
                versions.push((at, seq, kind));
            }
        }
        let asked: Vec<(u32, u64)> = (0..400).map(|_| (rng.u32(..keys), rng.u64(1..7000))).collect();
        let lookups: Vec<LookupKey> =
            asked.iter().map(|&(n, at)| LookupKey::new(&key(n), SequenceNumber(at))).collect();
        let mut many: Vec<Answer> = asked.iter().map(|_| Answer::default()).collect();
        let which: Vec<u32> = (0..asked.len() as u32).collect();
        let see = |i: u32, seen: ReadState<'_>| many[i as usize].see((&mem, &lookups[i as usize]), seen);
        mem.get_many_covered(&lookups, &which, see);
        for ((&(n, at), lookup), many) in asked.iter().zip(&lookups).zip(many) {
            let mut expected = Answer::default();
            let over = tombstones.iter().filter(|t| (t.0..t.1).contains(&n) && t.2 <= at).map(|t| t.2).max();
            expected.covered = over.unwrap_or(0);
            for &(_, seq, kind) in versions.iter().rev().filter(|v| v.0 == n && v.1 <= at) {
                expected.is_settled = seq < expected.covered || kind != ValueType::Merge;
                if seq > expected.covered {
                    expected.versions.push(seq);
                }
                if expected.is_settled {
                    break;
                }
            }
            let mut one = Answer::default();
            mem.get_covered(lookup, |seen| one.see((&mem, lookup), seen)).unwrap();
            assert!(one.means(&expected), "{seed}: {n} at {at}: {one:?}, not {expected:?}");
            assert!(many.means(&expected), "{seed}: {n} at {at}: {many:?}, not {expected:?}");
        }
    }
}

#[test]
fn lookups_with_a_filter_are_lookups_without() {
    use crate::MemTableFilterOptions;
    use esker_base::prefix;
    let push = |all: &mut Vec<(u8, u32, u8, SequenceNumber)>, seen| {
        all.push(seen);
        true
    };
    for (whole_keys, prefix_extractor) in
        [(true, None), (false, Some(prefix::fixed(2))), (true, Some(prefix::capped(3)))]
    {
        let filter = Some(MemTableFilterOptions { bytes: 512, whole_keys, prefix_extractor });
        let options = MemTableOptions { filter, ..MemTableOptions::default() };
        let filtered = MemTable::new(InternalKeyComparator::default(), options);
        let plain = MemTable::new(InternalKeyComparator::default(), MemTableOptions::default());
        let mut rng = fastrand::Rng::with_seed(7);
        for sequence in 1..600u64 {
            // The first entries are no range tombstones.
            let kind = match rng.u8(..10) {
                0 if sequence > 300 => ValueType::RangeDeletion,
                1 => ValueType::Deletion,
                _ => ValueType::Value,
            };
            let key = format!("k{}", rng.u32(..400) * 2);
            let value = if kind == ValueType::RangeDeletion { format!("{key}9") } else { "value".into() };
            for table in [&filtered, &plain] {
                table.add(SequenceNumber(sequence), kind, key.as_bytes(), value.as_bytes()).unwrap();
            }
            let keys: Vec<LookupKey> = (0..20)
                .map(|_| {
                    let key = format!("k{}", rng.u32(..820));
                    LookupKey::new(key.as_bytes(), SequenceNumber(rng.u64(1..=sequence)))
                })
                .collect();
            let which: Vec<u32> = (0..20).filter(|_| rng.bool()).collect();
            let seen = |table: &Arc<MemTable>| {
                let mut all = Vec::new();
                // A sequence number of zero says that no tombstone covers the key.
                let shown = |key: &LookupKey, seen: ReadState<'_>| match seen {
                    ReadState::Covered(by) => (0, by),
                    ReadState::MayBeCovered(_) => {
                        (0, table.max_covering_tombstone_seq(key.user_key(), key.sequence()))
                    }
                    ReadState::Version(kind, at, _) => (kind as u8, at),
                };
                for (i, key) in keys.iter().enumerate() {
                    table.get(key, |kind, at, _| push(&mut all, (0, i as u32, kind as u8, at))).unwrap();
                    table
                        .get_covered(key, |seen| match shown(key, seen) {
                            (0, SequenceNumber::ZERO) => true,
                            (kind, at) => push(&mut all, (1, i as u32, kind, at)),
                        })
                        .unwrap();
                }
                table.get_many(&keys, &which, |i, kind, at, _| push(&mut all, (2, i, kind as u8, at)));
                table.get_many_covered(&keys, &which, |i, seen| match shown(&keys[i as usize], seen) {
                    (0, SequenceNumber::ZERO) => true,
                    (kind, at) => push(&mut all, (3, i, kind, at)),
                });
                all.sort_unstable();
                all
            };
            assert_eq!(seen(&filtered), seen(&plain), "{whole_keys}, {sequence}");
        }
        assert!(filtered.approximate_memory_usage() >= plain.approximate_memory_usage() + 512);
    }
}
