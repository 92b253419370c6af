//! Blocks of format version 8, which store the common prefix of their user keys once. The bytes are
//! put together here, by the rules of `docs/format/sst.md`.

use super::*;
use crate::index_entry::{IndexCursor, IndexShape, prepare_for_search};
use crate::key;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// A block that stores the first `prefix` bytes of all keys once.
fn prefixed_bytes(entries: &Entries, interval: usize, prefix: usize, values_apart: bool) -> Vec<u8> {
    let mut bytes = entries.first().map_or(vec![], |(key, _)| key[..prefix].to_vec());
    let (mut values, mut restarts, mut last) = (vec![], vec![], vec![]);
    for (i, (k, v)) in entries.iter().enumerate() {
        let is_restart = i % interval == 0;
        let shared = if is_restart { 0 } else { common_prefix(&last, k) };
        let left_out = if is_restart { prefix } else { shared };
        if is_restart {
            restarts.push(bytes.len() as u32);
        }
        for n in [shared, k.len() - left_out, v.len()] {
            esker_base::coding::put_varint32(&mut bytes, n as u32);
        }
        if is_restart && values_apart {
            esker_base::coding::put_varint32(&mut bytes, values.len() as u32);
        }
        bytes.extend_from_slice(&k[left_out..]);
        if values_apart { &mut values } else { &mut bytes }.extend_from_slice(v);
        last.clone_from(k);
    }
    if restarts.is_empty() {
        restarts.push(0);
    }
    let values_at = bytes.len() as u32;
    bytes.extend_from_slice(&values);
    restarts.iter().for_each(|r| bytes.extend_from_slice(&r.to_le_bytes()));
    let mut footer = restarts.len() as u32;
    if values_apart {
        bytes.extend_from_slice(&values_at.to_le_bytes());
        footer |= SEPARATED_VALUES;
    }
    bytes.extend_from_slice(&footer.to_le_bytes());
    bytes
}

fn prefixed(entries: &Entries, interval: usize, prefix: usize, values_apart: bool) -> Block {
    Block::parse_prefixed(prefixed_bytes(entries, interval, prefix, values_apart)).unwrap()
}

/// The entries with `prefix` before each key.
fn behind(prefix: &[u8], entries: &Entries) -> Entries {
    entries.iter().map(|(key, value)| ([prefix, key].concat(), value.clone())).collect()
}

fn read(block: &Block, shape: EntryShape) -> Result<Entries> {
    let (mut cursor, mut entries) = (BlockCursor::with_buffer(shape, Vec::new()), Entries::new());
    cursor.seek_to_first(block)?;
    while cursor.valid() {
        entries.push((cursor.key().to_vec(), cursor.value(block).to_vec()));
        cursor.next(block)?;
    }
    Ok(entries)
}

#[test]
fn a_block_is_read_from_its_bytes() {
    // Restarts at 4 and 15: the prefix takes four bytes, the first interval eleven.
    let bytes = b"key/\x00\x01\x01a1\x05\x01\x02b22\x00\x01\x01b3\x04\0\0\0\x0f\0\0\0\x02\0\0\0";
    let want: Entries = [("key/a", "1"), ("key/ab", "22"), ("key/b", "3")]
        .map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec()))
        .into();
    let block = Block::parse_prefixed(bytes.to_vec()).unwrap();
    assert_eq!(read(&block, EntryShape::KeyValue).unwrap(), want);
    let mut cursor = BlockCursor::new();
    cursor.seek_to_last(&block).unwrap();
    for entry in want.iter().rev() {
        assert_eq!((cursor.key(), cursor.value(&block)), (&entry.0[..], &entry.1[..]));
        assert_eq!(cursor.is_first(), entry.0 == b"key/a");
        cursor.prev(&block).unwrap();
    }
    assert!(!cursor.valid());
    assert!(Block::parse(bytes.to_vec()).unwrap_err().is_corruption(), "older tables have no prefixes");

    let mut builder = BlockBuilder::new(2).key_prefix(EntryShape::KeyValue, true);
    want.iter().for_each(|(key, value)| builder.add(key, value));
    assert_eq!(builder.size_estimate(), bytes.len());
    assert_eq!(builder.finish(), bytes);
    builder.reset();
    builder.add(b"other", b"");
    assert_eq!(builder.finish(), b"other\0\0\0\x05\0\0\0\x01\0\0\0");
    assert_eq!(BlockBuilder::new(2).key_prefix(EntryShape::KeyValue, true).finish(), b"\0\0\0\0\x01\0\0\0");
}

#[test]
fn a_cursor_walks_as_a_sorted_list_does() {
    let mut rng = Rng(20_261_126);
    for count in [1, 2, 3, 16, 17, 60] {
        for prefix in [&b"a"[..], b"bb", b"a prefix that is longer than the keys behind it, by far"] {
            let entries = behind(prefix, &sorted_entries(&mut rng, count));
            for interval in [1, 2, 16, 1000] {
                walk(&prefixed(&entries, interval, prefix.len(), false), &entries, &mut rng, 400);
                walk(&prefixed(&entries, interval, prefix.len(), true), &entries, &mut rng, 200);
            }
        }
    }
}

#[test]
fn keys_of_all_lengths_are_put_together_ahead() {
    let mut rng = Rng(20_261_127);
    for (prefix, longest) in [(1, 20), (8, 24), (20, 31), (20, 33), (31, 50), (40, 64), (70, 90), (300, 310)]
    {
        for (interval, value) in [(1, 3), (2, 200), (16, 3), (200, 3)] {
            let entries = behind(&vec![b'a'; prefix], &neighbours(&mut rng, 100, longest - prefix, value));
            walk(&prefixed(&entries, interval, prefix, false), &entries, &mut rng, 400);
        }
    }
}

#[test]
fn a_builder_finds_the_longest_prefix_of_user_keys() {
    let mut rng = Rng(99);
    for round in 0..200 {
        let count = 1 + rng.below(40) as usize;
        let mut entries = versioned_entries(&mut rng, count);
        let letters = [&b""[..], b"c", b"common", b"common\0"][round % 4];
        entries.retain(|(key, _)| key.starts_with(letters) && rng.below(8) > 0);
        let Some(((first, _), (last, _))) = entries.first().zip(entries.last()) else { continue };
        let prefix = common_prefix(key::user_key(first), key::user_key(last));
        for (interval, apart) in [(1, false), (3, false), (16, true), (1, true)] {
            let mut builder =
                BlockBuilder::new(interval).values_apart(apart).key_prefix(EntryShape::KeyValue, false);
            entries.iter().for_each(|(key, value)| builder.add(key, value));
            let estimate = builder.size_estimate();
            let bytes = builder.finish();
            assert_eq!(bytes, prefixed_bytes(&entries, interval, prefix, apart));
            assert!(estimate >= bytes.len(), "short lengths take fewer bytes");
        }
    }
}

#[test]
fn internal_keys_are_found_by_their_order() {
    let orders: [InternalKeyComparator; 2] = [
        InternalKeyComparator::default(),
        InternalKeyComparator::new(std::sync::Arc::new(esker_base::comparator::ReverseBytewiseComparator)),
    ];
    for seed in 0..200 {
        let rng = &mut Rng(seed);
        let icmp = &orders[seed as usize % 2];
        let count = 1 + rng.below(60) as usize;
        let mut entries = versioned_entries(rng, count);
        entries.sort_by(|a, b| icmp.compare(&a.0, &b.0));
        let interval = 1 + rng.below(16) as usize;
        let user_keys = || entries.iter().map(|(key, _)| key::user_key(key));
        let first = user_keys().next().unwrap();
        let prefix = user_keys().map(|key| common_prefix(first, key)).min().unwrap();
        let block = prefixed(&entries, interval, prefix, seed % 3 == 0);
        let mut targets: Vec<Vec<u8>> = (0..40)
            .map(|_| {
                let mut user_key = b"common"[..rng.below(7) as usize].to_vec();
                user_key.extend((0..rng.below(6)).map(|_| [0, 1, 2, b'c', 255][rng.below(5) as usize]));
                internal_key(&user_key, SequenceNumber(rng.below(12)), ValueType::Value)
            })
            .collect();
        targets.sort_by(|a, b| icmp.compare(a, b));
        let (mut fresh, mut going, mut low) = (BlockCursor::new(), BlockCursor::new(), 0);
        for target in &targets {
            let expected = entries.iter().find(|(key, _)| icmp.compare(key, target).is_ge());
            fresh.seek(&block, target, icmp).unwrap();
            low = going.restart_behind(&block, low, target, icmp).unwrap();
            going.seek_on_from(&block, low, target, icmp).unwrap();
            for cursor in [&fresh, &going] {
                let found = cursor.valid().then(|| (cursor.key().to_vec(), cursor.value(&block).to_vec()));
                assert_eq!(found.as_ref(), expected, "seed {seed}");
            }
        }
    }
}

/// All that readers do with a block. Says whether nothing was damaged.
fn use_everything(block: &Block, shape: EntryShape) -> bool {
    let icmp = InternalKeyComparator::default();
    let mut run = DecodedRun::default();
    let mut is_whole = true;
    let mut cursor = BlockCursor::with_buffer(shape, Vec::new());
    for (forward, started) in
        [(true, cursor.clone().seek_to_first(block)), (false, cursor.clone().seek_to_last(block))]
    {
        let mut moved = started
            .and_then(|()| if forward { cursor.seek_to_first(block) } else { cursor.seek_to_last(block) });
        for _ in 0..=block.bytes().len() {
            is_whole &= moved.is_ok();
            if !cursor.valid() {
                break;
            }
            assert!(cursor.key().len() <= block.bytes().len());
            assert!(cursor.value_range().end <= block.bytes().len());
            cursor.decode_on(block, &mut run);
            cursor.decode_back(block, &mut run);
            moved = if forward { cursor.next(block) } else { cursor.prev(block) };
        }
        assert!(!cursor.valid(), "the cursor does not advance");
    }
    is_whole &= cursor.seek_to_last_and_decode(block, &mut run).is_ok();
    for target in [&b"common\x02\x01"[..], b"common", b"zzz", b""] {
        let target = internal_key(target, SequenceNumber(3), ValueType::Value);
        is_whole &= cursor.seek(block, &target, &icmp).is_ok();
        is_whole &= cursor.seek_for_prev_by(block, |key| icmp.compare(key, &target).is_le()).is_ok();
    }
    is_whole && super::super::check_restarts(block, shape).is_ok()
}

#[test]
fn damage_never_panics() {
    let mut rng = Rng(8);
    let entries = versioned_entries(&mut rng, 14);
    for apart in [false, true] {
        let good = prefixed_bytes(&entries, 4, 6, apart);
        assert!(use_everything(&Block::parse_prefixed(good.clone()).unwrap(), EntryShape::KeyValue));
        for i in 0..good.len() {
            for change in [1u8, 4, 0x80, 0xFF, 0x7F] {
                let mut bytes = good.clone();
                bytes[i] ^= change;
                if let Ok(block) = Block::parse_prefixed(bytes) {
                    use_everything(&block, EntryShape::KeyValue);
                }
            }
        }
        for n in 0..good.len() {
            if let Ok(block) = Block::parse_prefixed(good[..n].to_vec()) {
                use_everything(&block, EntryShape::KeyValue);
            }
        }
    }
}

/// A block of these bytes before the restarts.
fn block_of(entries: &[u8], restarts: &[u32]) -> Result<Block> {
    let mut bytes = entries.to_vec();
    restarts.iter().for_each(|restart| bytes.extend_from_slice(&restart.to_le_bytes()));
    bytes.extend_from_slice(&(restarts.len() as u32).to_le_bytes());
    Block::parse_prefixed(bytes)
}

#[test]
fn prefixes_that_do_not_fit_are_corruption() {
    let entries = b"key/\x00\x01\x01a1\x05\x01\x01b2\x00\x01\x01b3";
    assert!(use_everything(&block_of(entries, &[4, 14]).unwrap(), EntryShape::KeyValue));
    // A prefix as long as the block or longer; restarts that do not ascend or lie within the
    // prefix.
    for restarts in [&[19][..], &[20], &[u32::MAX], &[4, 4], &[4, 2], &[4, 0], &[14, 4]] {
        assert!(block_of(entries, restarts).unwrap_err().is_corruption(), "{restarts:?}");
    }
    let broken: [&[u8]; 5] = [
        // The second key shares less than the prefix, more than there is, or has no end.
        b"key/\x00\x01\x01a1\x03\x01\x01b2",
        b"key/\x00\x01\x01a1\x06\x01\x01b2",
        b"key/\x00\x01\x01a1\x05\xff\xff\xff\xff\x0f\x01b2",
        // The same for the first key: it shares bytes, though nothing is before it.
        b"key/\x03\x01\x01a1\x05\x01\x01b2",
        b"key/\x00\xff\xff\xff\xff\x0f\xff\xff\xff\xff\x0fa1",
    ];
    for entries in broken {
        let block = block_of(entries, &[4]).unwrap();
        assert!(read(&block, EntryShape::KeyValue).unwrap_err().is_corruption(), "{entries:?}");
        assert!(!use_everything(&block, EntryShape::KeyValue));
    }
    // A restart whose key needs the key before it.
    let entries = b"key/\x00\x01\x01a1\x04\x01\x01b2";
    assert!(!use_everything(&block_of(entries, &[4, 9]).unwrap(), EntryShape::KeyValue));
}

#[test]
fn unknown_data_of_a_block_is_refused() {
    let mut bytes = build(&[(b"k".to_vec(), b"v".to_vec())], 16, true).bytes().to_vec();
    let last = bytes.len() - 1;
    bytes[last] |= 0x40;
    for parsed in [Block::parse(bytes.clone()), Block::parse_prefixed(bytes)] {
        let error = parsed.unwrap_err();
        assert!(error.is_corruption() && error.message().contains("bit 30"), "{error}");
    }
}

#[test]
fn a_protected_prefix_is_compared_in_memory() {
    let entries = behind(b"prefix", &versioned_entries(&mut Rng(3), 20));
    let good = prefixed(&entries, 4, 6, false);
    for at in 0..good.bytes().len() - 8 {
        let mut block = prefixed(&entries, 4, 6, false);
        block.protect(EntryShape::KeyValue, 8, 0).unwrap();
        assert_eq!(read(&block, EntryShape::KeyValue).unwrap(), entries);
        block.damage_for_test(at, 0x10);
        match read(&block, EntryShape::KeyValue) {
            Ok(all) => assert_eq!(all, entries, "byte {at}"),
            Err(e) => assert!(e.is_corruption()),
        }
        assert!(at >= 6 || read(&block, EntryShape::KeyValue).is_err(), "byte {at}");
    }
}

#[test]
fn an_index_is_read_from_its_bytes() {
    // Blocks of 10, 30 and 7 bytes, each with a trailer of 5; the third lies behind a gap.
    let handles = [(0, 10), (15, 30), (60, 7), (72, 8)];
    let keys = ["user/aa", "user/ab", "user/b", "user/c"];
    // shared, not shared, rest of the key; then the value: a whole handle, zigzag(+20) + 1, an
    // escape with a whole handle, and the handle of a restart.
    let mut bytes = b"user/".to_vec();
    bytes.extend_from_slice(b"\x00\x02aa\x00\x0a");
    bytes.extend_from_slice(b"\x06\x01b\x29");
    bytes.extend_from_slice(b"\x05\x01b\x00\x3c\x07");
    bytes.extend_from_slice(b"\x00\x01c\x48\x08");
    for restart in [5u32, 21] {
        bytes.extend_from_slice(&restart.to_le_bytes());
    }
    bytes.extend_from_slice(&2u32.to_le_bytes());
    let shape = IndexShape {
        key_is_user_key: true,
        value_is_delta_encoded: true,
        with_first_key: false,
        value_escapes: true,
    };
    let icmp = InternalKeyComparator::default();
    let mut block = Block::parse_prefixed(bytes.clone()).unwrap();
    prepare_for_search(&mut block, shape, &icmp);
    let mut cursor = IndexCursor::new(shape);
    cursor.seek_to_first(&block).unwrap();
    for (key, (offset, size)) in keys.iter().zip(handles) {
        assert_eq!(cursor.separator(), key.as_bytes());
        assert_eq!((cursor.handle().offset, cursor.handle().size), (offset, size));
        cursor.next(&block).unwrap();
    }
    assert!(!cursor.valid());
    cursor.seek_to_last(&block).unwrap();
    for (key, (offset, _)) in keys.iter().zip(handles).rev() {
        assert_eq!((cursor.separator(), cursor.handle().offset), (key.as_bytes(), offset));
        cursor.prev(&block).unwrap();
    }
    assert!(!cursor.valid());
    for (target, want) in
        [("", 0), ("user", 0), ("user/", 0), ("user/aaa", 15), ("user/bb", 72), ("user/c", 72)]
    {
        let target = internal_key(target.as_bytes(), SequenceNumber(1), ValueType::Value);
        cursor.seek(&block, &target, &icmp).unwrap();
        assert_eq!((cursor.valid(), cursor.handle().offset), (true, want));
    }
    for target in ["user/ca", "v"] {
        let target = internal_key(target.as_bytes(), SequenceNumber(1), ValueType::Value);
        cursor.seek(&block, &target, &icmp).unwrap();
        assert!(!cursor.valid());
    }
}
