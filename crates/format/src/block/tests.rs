use super::*;
use crate::cursor::DecodedRun;
use crate::key::{InternalKeyComparator, internal_key};
use esker_base::{SequenceNumber, ValueType};

mod key_prefix;

struct Rng(u64);
impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

fn sorted_entries(rng: &mut Rng, count: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut keys = std::collections::BTreeSet::new();
    while keys.len() < count {
        let most = if rng.below(10) == 0 { 300 } else { 6 };
        let len = rng.below(most);
        keys.insert((0..len).map(|_| b'a' + rng.below(3) as u8).collect::<Vec<u8>>());
    }
    let value = |rng: &mut Rng| (0..rng.below(200)).map(|_| rng.below(256) as u8).collect();
    keys.into_iter().map(|k| (k, value(rng))).collect()
}

fn build(entries: &[(Vec<u8>, Vec<u8>)], interval: usize, share: bool) -> Block {
    let mut builder = BlockBuilder::new(interval).share_prefixes(share);
    for (k, v) in entries {
        builder.add(k, v);
    }
    let estimate = builder.size_estimate();
    assert_eq!(builder.finish().len(), estimate);
    Block::parse(builder.into_contents()).unwrap()
}

/// The same entries in the layout with separate values, which Esker only reads.
fn build_separated(entries: &[(Vec<u8>, Vec<u8>)], interval: usize) -> Block {
    let (mut bytes, mut values, mut restarts, mut last) = (vec![], vec![], vec![], vec![]);
    for (i, (k, v)) in entries.iter().enumerate() {
        let is_restart = i % interval == 0;
        let shared = if is_restart { 0 } else { common_prefix(&last, k) };
        if is_restart {
            restarts.push(bytes.len() as u32);
        }
        for n in [shared, k.len() - shared, v.len()] {
            esker_base::coding::put_varint32(&mut bytes, n as u32);
        }
        if is_restart {
            esker_base::coding::put_varint32(&mut bytes, values.len() as u32);
        }
        bytes.extend_from_slice(&k[shared..]);
        values.extend_from_slice(v);
        last.clone_from(k);
    }
    if restarts.is_empty() {
        restarts.push(0);
    }
    let values_at = bytes.len() as u32;
    bytes.extend_from_slice(&values);
    restarts.iter().for_each(|r| bytes.extend_from_slice(&r.to_le_bytes()));
    bytes.extend_from_slice(&values_at.to_le_bytes());
    bytes.extend_from_slice(&(restarts.len() as u32 | SEPARATED_VALUES).to_le_bytes());
    Block::parse(bytes).unwrap()
}

/// Walks `block` at random, and compares each step with an index into `entries`.
fn walk(block: &Block, entries: &[(Vec<u8>, Vec<u8>)], rng: &mut Rng, steps: usize) {
    let mut cursor = BlockCursor::new();
    let mut run = DecodedRun::default();
    let mut model: Option<usize> = None;
    for _ in 0..steps {
        let target: Vec<u8> = (0..rng.below(6)).map(|_| b'a' + rng.below(3) as u8).collect();
        match (rng.below(8), model) {
            (0, _) => {
                cursor.seek_to_first(block).unwrap();
                model = (!entries.is_empty()).then_some(0);
            }
            (1, _) => {
                cursor.seek_to_last(block).unwrap();
                model = entries.len().checked_sub(1);
            }
            (2, _) => {
                cursor.seek_by(block, |k| k < target.as_slice()).unwrap();
                model = entries.iter().position(|(k, _)| *k >= target);
            }
            (3, _) => {
                cursor.seek_for_prev_by(block, |k| k <= target.as_slice()).unwrap();
                model = entries.iter().rposition(|(k, _)| *k <= target);
            }
            (4 | 5, Some(i)) => {
                cursor.next(block).unwrap();
                model = (i + 1 < entries.len()).then_some(i + 1);
            }
            (_, Some(i)) => {
                cursor.prev(block).unwrap();
                model = i.checked_sub(1);
            }
            _ => {}
        }
        assert_eq!(cursor.valid(), model.is_some());
        if let Some(i) = model {
            assert_eq!((cursor.key(), cursor.value(block)), (&entries[i].0[..], &entries[i].1[..]));
            let forward = rng.below(2) == 0;
            let first = decode(&cursor, block, &mut run, entries, i, forward);
            if let (Some(first), 0) = (first, rng.below(4)) {
                let among = rng.below(run.entries().len() as u64) as usize;
                cursor.stand_on_entry(&run, among);
                model = Some(first + among);
                assert_eq!(cursor.key(), entries[first + among].0);
            }
        }
    }
}

/// Decodes from entry `i`, at which the cursor is, and compares. Returns the first decoded entry,
/// if any.
fn decode(
    cursor: &BlockCursor,
    block: &Block,
    run: &mut DecodedRun,
    entries: &[(Vec<u8>, Vec<u8>)],
    i: usize,
    forward: bool,
) -> Option<usize> {
    if forward {
        cursor.decode_on(block, run);
    } else {
        cursor.decode_back(block, run);
    }
    let count = run.entries().len();
    let first = if forward { i } else { (i + 1).saturating_sub(count) };
    for (n, (entry, (key, value))) in run.entries().iter().zip(&entries[first..]).enumerate() {
        let stored = block.bytes().get(entry.value as usize..entry.value_end as usize);
        assert_eq!((run.internal_key(n), stored), (&key[..], Some(&value[..])));
    }
    if block.values.is_some() {
        assert_eq!(count, 0, "separate values are not decoded");
    } else if forward {
        assert!(count >= 2.min(entries.len() - i) && first + count <= entries.len());
    } else {
        // In a long interval nothing is decoded unless many entries are wanted.
        assert!(count != 1 || i == 0, "a backward run decodes the entries before the current one");
    }
    (count > 0).then_some(first)
}

#[test]
fn a_cursor_walks_as_a_sorted_list_does() {
    let seed = 20_261_120;
    println!("seed {seed}");
    let mut rng = Rng(seed);
    for count in [0, 1, 2, 3, 15, 16, 17, 40, 100] {
        let entries = sorted_entries(&mut rng, count);
        for interval in [1, 2, 3, 16, 1000] {
            walk(&build(&entries, interval, true), &entries, &mut rng, 600);
            walk(&build(&entries, interval, false), &entries, &mut rng, 200);
            walk(&build_separated(&entries, interval), &entries, &mut rng, 600);
        }
    }
}

/// Keys that share much with their neighbours, `longest` bytes at most.
fn neighbours(rng: &mut Rng, count: usize, longest: usize, value: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut keys = std::collections::BTreeSet::new();
    while keys.len() < count {
        let mut key = vec![b'a'; longest - rng.below(10) as usize];
        for _ in 0..2 {
            let at = rng.below(key.len() as u64) as usize;
            key[at] = b'a' + rng.below(4) as u8;
        }
        keys.insert(key);
    }
    keys.into_iter().map(|key| (key, vec![b'v'; rng.below(value) as usize])).collect()
}

#[test]
fn keys_of_all_lengths_are_put_together_ahead() {
    let seed = 20_261_122;
    println!("seed {seed}");
    let mut rng = Rng(seed);
    for longest in [12, 31, 32, 33, 40, 63, 64, 65, 100, 300] {
        for (interval, value) in [(1, 3), (2, 200), (16, 3), (16, 20_000), (200, 3)] {
            let entries = neighbours(&mut rng, 200, longest, value);
            walk(&build(&entries, interval, true), &entries, &mut rng, 500);
        }
    }
}

#[test]
fn damaged_blocks_never_panic() {
    let mut rng = Rng(7);
    for separated in [false, true] {
        let entries = sorted_entries(&mut rng, 12);
        let good = if separated { build_separated(&entries, 4) } else { build(&entries, 4, true) };
        for i in 0..good.bytes().len() {
            for change in [1u8, 0x80, 0xFF, 0x7F] {
                let mut bytes = good.bytes().to_vec();
                bytes[i] ^= change;
                let Ok(block) = Block::parse(bytes) else { continue };
                let mut cursor = BlockCursor::new();
                let (mut steps, mut run) = (0, DecodedRun::default());
                let mut go = |r: Result<()>| {
                    steps += 1;
                    r.is_ok() && steps < 10_000
                };
                let mut on = go(cursor.seek_to_first(&block));
                while on && cursor.valid() {
                    assert!(cursor.value(&block).len() <= block.bytes().len());
                    cursor.decode_on(&block, &mut run);
                    cursor.decode_back(&block, &mut run);
                    on = go(cursor.next(&block));
                }
                on = go(cursor.seek_to_last(&block));
                while on && cursor.valid() {
                    on = go(cursor.prev(&block));
                }
                go(cursor.seek_by(&block, |k| k < b"b".as_slice()));
                go(cursor.seek_for_prev_by(&block, |k| k < b"b".as_slice()));
                assert!(steps < 10_000);
            }
        }
        for n in 0..good.bytes().len() {
            if let Ok(block) = Block::parse(good.bytes()[..n].to_vec()) {
                assert!(block.restart_count() > 0);
            }
        }
    }
}

#[test]
fn bytes_of_a_block_are_rocksdbs() {
    let mut builder = BlockBuilder::new(2);
    for (k, v) in [("apple", "1"), ("apply", "22"), ("apt", "333")] {
        builder.add(k.as_bytes(), v.as_bytes());
    }
    let want: &[u8] = b"\x00\x05\x01apple1\x04\x01\x02y22\x00\x03\x03apt333\0\0\0\0\x0f\0\0\0\x02\0\0\0";
    assert_eq!(builder.finish(), want);
    assert_eq!(BlockBuilder::new(16).finish(), b"\0\0\0\0\x01\0\0\0");
}

#[test]
fn a_hash_index_is_stepped_over() {
    let block = build(&[(b"k".to_vec(), b"v".to_vec())], 16, true);
    let mut bytes = block.bytes()[..block.bytes().len() - 4].to_vec();
    bytes.extend_from_slice(&[255, 0, 255, 3, 0]);
    bytes.extend_from_slice(&(1 | HASH_INDEX).to_le_bytes());
    let block = Block::parse(bytes).unwrap();
    let mut cursor = BlockCursor::new();
    cursor.seek_to_first(&block).unwrap();
    assert_eq!((cursor.key(), cursor.value(&block)), (&b"k"[..], &b"v"[..]));
    cursor.next(&block).unwrap();
    assert!(!cursor.valid());
}

#[test]
fn common_prefixes_are_counted() {
    let a: Vec<u8> = (0..40).collect();
    for n in 0..40 {
        let mut b = a.clone();
        b[n] ^= 0x80;
        assert_eq!(common_prefix(&a, &b), n);
        assert_eq!(common_prefix(&a, &a[..n]), n);
        assert_eq!(common_prefix(&a[..n], &b), n);
    }
}

#[test]
fn internal_keys_are_found_by_their_order() {
    let icmp = InternalKeyComparator::default();
    let keys: Vec<Vec<u8>> = (0..50u64)
        .flat_map(|i| {
            [9, 5, 1]
                .map(|s| internal_key(format!("k{i:03}").as_bytes(), SequenceNumber(s), ValueType::Value))
        })
        .collect();
    let entries: Vec<_> = keys.iter().map(|k| (k.clone(), Vec::new())).collect();
    let block = build(&entries, 16, true);
    let mut cursor = BlockCursor::new();
    for (i, k) in keys.iter().enumerate() {
        cursor.seek_by(&block, |x| icmp.compare(x, k).is_lt()).unwrap();
        assert_eq!(cursor.key(), keys[i]);
    }
    let between = internal_key(b"k007", SequenceNumber(6), ValueType::Value);
    cursor.seek_by(&block, |x| icmp.compare(x, &between).is_lt()).unwrap();
    assert_eq!(cursor.key(), internal_key(b"k007", SequenceNumber(5), ValueType::Value));
}

/// User keys that are prefixes of each other, and have bytes that look like trailers.
fn nasty_internal_keys(rng: &mut Rng, count: usize) -> Vec<Vec<u8>> {
    let icmp = InternalKeyComparator::default();
    let mut keys: Vec<Vec<u8>> = (0..count)
        .map(|_| {
            let len = rng.below(14);
            let user: Vec<u8> = (0..len).map(|_| [0, 1, 255, b'a'][rng.below(4) as usize]).collect();
            internal_key(&user, SequenceNumber(rng.below(3)), ValueType::Value)
        })
        .collect();
    keys.sort_by(|a, b| icmp.compare(a, b));
    keys.dedup();
    keys
}

#[test]
fn the_fast_seek_finds_what_the_plain_one_finds() {
    let icmp = InternalKeyComparator::default();
    let mut rng = Rng(4711);
    for count in [0, 1, 5, 40, 400] {
        for interval in [1, 3, 16] {
            let keys = nasty_internal_keys(&mut rng, count);
            let entries: Vec<_> = keys.iter().map(|k| (k.clone(), b"v".to_vec())).collect();
            for share in [true, false] {
                let block = build(&entries, interval, share);
                let (mut fast, mut plain) = (BlockCursor::new(), BlockCursor::new());
                for target in nasty_internal_keys(&mut rng, 300).iter().chain(&keys) {
                    fast.seek(&block, target, &icmp).unwrap();
                    plain.seek_by(&block, |k| icmp.compare(k, target).is_lt()).unwrap();
                    assert_eq!(fast.valid(), plain.valid());
                    assert!(!fast.valid() || fast.key() == plain.key());
                }
            }
        }
    }
}

/// Internal keys with versions. There are few user keys; they begin alike, and some are prefixes of
/// others.
fn versioned_entries(rng: &mut Rng, count: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut user_keys: Vec<Vec<u8>> = (0..count)
        .map(|_| {
            let mut key = b"common".to_vec();
            key.extend((0..rng.below(5)).map(|_| rng.below(3) as u8));
            key
        })
        .collect();
    user_keys.sort();
    user_keys.dedup();
    let mut entries = Vec::new();
    for user_key in user_keys {
        for sequence in (1..=1 + rng.below(3)).rev() {
            let key = internal_key(&user_key, SequenceNumber(sequence * 3), ValueType::Value);
            entries.push((key, vec![7; rng.below(20) as usize]));
        }
    }
    entries
}

#[test]
fn seeks_from_restarts_and_on_from_the_last_one_find_what_a_look_at_each_entry_finds() {
    let icmp = InternalKeyComparator::default();
    for seed in 0..60 {
        let rng = &mut Rng(seed);
        let count = 1 + rng.below(60) as usize;
        let entries = versioned_entries(rng, count);
        let interval = 1 + rng.below(16) as usize;
        for block in [
            build(&entries, interval, true),
            build(&entries, interval, false),
            build_separated(&entries, interval),
        ] {
            let mut targets: Vec<Vec<u8>> = (0..20)
                .map(|_| {
                    let mut user_key = b"common".to_vec();
                    user_key.extend((0..rng.below(6)).map(|_| rng.below(3) as u8));
                    internal_key(&user_key, SequenceNumber(rng.below(12)), ValueType::Value)
                })
                .collect();
            targets.sort_by(|a, b| icmp.compare(a, b));
            let (mut fresh, mut going, mut low) = (BlockCursor::new(), BlockCursor::new(), 0);
            for target in &targets {
                let expected = entries.iter().find(|(key, _)| icmp.compare(key, target).is_ge());
                fresh.seek(&block, target, &icmp).unwrap();
                low = going.restart_behind(&block, low, target, &icmp).unwrap();
                going.seek_on_from(&block, low, target, &icmp).unwrap();
                for cursor in [&fresh, &going] {
                    let found =
                        cursor.valid().then(|| (cursor.key().to_vec(), cursor.value(&block).to_vec()));
                    assert_eq!(found.as_ref(), expected, "seed {seed}");
                }
            }
        }
    }
}

#[test]
fn an_entry_that_shares_more_than_there_is_is_corruption_though_its_key_is_not_looked_at() {
    let icmp = InternalKeyComparator::default();
    let key = |n: u8| internal_key(&[b'k', n], SequenceNumber(1), ValueType::Value);
    // The second entry claims to share 100 bytes with a key of 10.
    let mut bytes = vec![0, 10, 0];
    bytes.extend_from_slice(&key(1));
    bytes.extend_from_slice(&[100, 1, 0, b'x']);
    bytes.extend_from_slice(&0u32.to_le_bytes());
    bytes.extend_from_slice(&1u32.to_le_bytes());
    let block = Block::parse(bytes).unwrap();
    let mut cursor = BlockCursor::new();
    assert!(cursor.seek(&block, &key(5), &icmp).is_err());
    assert!(!cursor.valid());
}
