use super::*;
use crate::block::Block;
use crate::key::internal_key;
use esker_base::comparator::{BytewiseComparator, ReverseBytewiseComparator};
use esker_base::{SequenceNumber, ValueType};
use std::sync::Arc;

const SHORTEN: Shortening = Shortening { separators: true, successor: false };

fn place<'a>(
    first: &'a [u8],
    last: &'a [u8],
    next: Option<&'a [u8]>,
    handle: BlockHandle,
) -> DataBlockPlace<'a> {
    DataBlockPlace { first, last, next, handle, follows_gap: false }
}

#[test]
fn blocks_behind_gaps_are_found_in_format_8_too() {
    let icmp = InternalKeyComparator::default();
    for (interval, delta, first_key, key_prefix) in [
        (1, true, false, true),
        (4, true, false, true),
        (4, true, true, false),
        (4, false, true, true),
        (16, true, true, true),
    ] {
        let mut blocks = blocks(40, 10);
        for (i, (_, _, handle)) in blocks.iter_mut().enumerate() {
            handle.offset += 4096 * (i as u64 / 3);
        }
        let mut builder = IndexBuilder::new(interval, delta, first_key).in_format_8(key_prefix);
        for (i, (first, last, handle)) in blocks.iter().enumerate() {
            let next = blocks.get(i + 1).map(|b| &b.0[..]);
            let follows_gap = i > 0 && i % 3 == 0;
            builder.add(&DataBlockPlace { follows_gap, ..place(first, last, next, *handle) }, SHORTEN, &icmp);
        }
        let (bytes, shape) = builder.finish(true);
        let mut block = Block::parse_prefixed(bytes).unwrap();
        prepare_for_search(&mut block, shape, &icmp);
        let mut cursor = IndexCursor::new(shape);
        cursor.seek_to_last(&block).unwrap();
        for (first, _, handle) in blocks.iter().rev() {
            assert_eq!(cursor.handle(), *handle);
            assert_eq!(cursor.first_key(&block).unwrap(), first_key.then_some(&first[..]));
            cursor.prev(&block).unwrap();
        }
        assert!(!cursor.valid());
        for (first, last, handle) in &blocks {
            for key in [first, last] {
                cursor.seek(&block, key, &icmp).unwrap();
                assert_eq!(cursor.handle(), *handle);
            }
        }
    }
}

fn ikey(user: &str, seq: u64) -> Vec<u8> {
    internal_key(user.as_bytes(), SequenceNumber(seq), ValueType::Value)
}

/// Blocks of various sizes, some much larger than their neighbours, each with a first and a last
/// key.
fn blocks(count: u64, stride: u64) -> Vec<(Vec<u8>, Vec<u8>, BlockHandle)> {
    let mut offset = 0;
    (0..count)
        .map(|i| {
            let size = if i % 5 == 2 { 20_000 } else { 1000 + (i * 7919) % 500 };
            let handle = BlockHandle::new(offset, size);
            offset += size + 5;
            (
                ikey(&format!("key{:05}", i * stride), 9),
                ikey(&format!("key{:05}x", i * stride + stride / 2), 3),
                handle,
            )
        })
        .collect()
}

#[test]
fn every_form_of_index_finds_every_block() {
    let icmp = InternalKeyComparator::default();
    for (count, interval) in [(0, 1), (1, 1), (7, 1), (40, 1), (40, 4), (41, 16)] {
        for form in 0..24 {
            let (delta, first_key, user_keys) = (form & 1 != 0, form & 2 != 0, form & 4 != 0);
            let blocks = blocks(count, 10);
            let mut builder = IndexBuilder::new(interval, delta, first_key);
            if form >= 8 {
                builder = builder.in_format_8(form >= 16);
            }
            for (i, (first, last, handle)) in blocks.iter().enumerate() {
                let next = blocks.get(i + 1).map(|b| &b.0[..]);
                builder.add(&place(first, last, next, *handle), SHORTEN, &icmp);
            }
            let (bytes, shape) = builder.finish(user_keys);
            assert_eq!(shape.key_is_user_key, user_keys);
            let block = Block::parse_prefixed(bytes).unwrap();
            assert_eq!(block.key_prefix().is_empty(), form < 16 || count == 0);
            let mut cursor = IndexCursor::new(shape);
            cursor.seek_to_first(&block).unwrap();
            for (first, _, handle) in &blocks {
                assert_eq!(cursor.handle(), *handle);
                assert_eq!(cursor.first_key(&block).unwrap(), first_key.then_some(&first[..]));
                cursor.next(&block).unwrap();
            }
            assert!(!cursor.valid());
            cursor.seek_to_last(&block).unwrap();
            for (_, _, handle) in blocks.iter().rev() {
                assert_eq!(cursor.handle(), *handle);
                cursor.prev(&block).unwrap();
            }
            assert!(!cursor.valid());
            for (first, last, handle) in &blocks {
                for key in [first, last] {
                    cursor.seek(&block, key, &icmp).unwrap();
                    assert_eq!(cursor.handle(), *handle);
                }
            }
            cursor.seek(&block, &ikey("z", 1), &icmp).unwrap();
            assert!(!cursor.valid());
        }
    }
}

#[test]
fn separators_are_short_and_between() {
    let icmp = InternalKeyComparator::new(Arc::new(BytewiseComparator));
    let mut builder = IndexBuilder::new(1, true, false);
    let handle = BlockHandle::new(0, 10);
    builder.add(&place(b"", &ikey("abcdef", 5), Some(&ikey("abzzz", 5)), handle), SHORTEN, &icmp);
    builder.add(&place(b"", &ikey("last", 5), None, BlockHandle::new(15, 10)), SHORTEN, &icmp);
    let (bytes, shape) = builder.finish(true);
    let block = Block::parse(bytes).unwrap();
    let mut cursor = IndexCursor::new(shape);
    cursor.seek_to_first(&block).unwrap();
    assert_eq!(cursor.separator(), b"abd");
    cursor.next(&block).unwrap();
    assert_eq!(cursor.separator(), b"last");
}

#[test]
fn a_user_key_across_blocks_brings_the_sequence_into_the_index() {
    let icmp = InternalKeyComparator::default();
    let mut builder = IndexBuilder::new(1, true, false);
    builder.add(&place(b"", &ikey("k", 9), Some(&ikey("k", 4)), BlockHandle::new(0, 10)), SHORTEN, &icmp);
    builder.add(&place(b"", &ikey("k", 2), None, BlockHandle::new(15, 10)), SHORTEN, &icmp);
    let (bytes, shape) = builder.finish(true);
    assert!(!shape.key_is_user_key);
    let block = Block::parse(bytes).unwrap();
    let mut cursor = IndexCursor::new(shape);
    cursor.seek(&block, &ikey("k", 5), &icmp).unwrap();
    assert_eq!(cursor.handle().offset, 15);
    cursor.seek(&block, &ikey("k", 9), &icmp).unwrap();
    assert_eq!(cursor.handle().offset, 0);
}

#[test]
fn other_orders_keep_full_keys() {
    let icmp = InternalKeyComparator::new(Arc::new(ReverseBytewiseComparator));
    let mut builder = IndexBuilder::new(1, true, false);
    builder.add(&place(b"", &ikey("zzz", 5), Some(&ikey("abc", 5)), BlockHandle::new(0, 10)), SHORTEN, &icmp);
    let (bytes, shape) = builder.finish(true);
    let block = Block::parse(bytes).unwrap();
    let mut cursor = IndexCursor::new(shape);
    cursor.seek_to_first(&block).unwrap();
    assert_eq!(cursor.separator(), b"zzz");
}

#[test]
fn damaged_index_blocks_never_panic() {
    let icmp = InternalKeyComparator::default();
    let blocks = blocks(12, 10);
    for format_8 in [false, true] {
        let mut builder = IndexBuilder::new(4, true, true);
        if format_8 {
            builder = builder.in_format_8(true);
        }
        for (first, last, handle) in &blocks {
            builder.add(&place(first, last, None, *handle), SHORTEN, &icmp);
        }
        let (bytes, shape) = builder.finish(true);
        check_every_change(&bytes, shape, &icmp);
    }
}

/// Changes each byte in turn and walks the block.
fn check_every_change(bytes: &[u8], shape: IndexShape, icmp: &InternalKeyComparator) {
    for i in 0..bytes.len() {
        for change in [1u8, 0x80, 0xFF] {
            let mut bytes = bytes.to_vec();
            bytes[i] ^= change;
            let Ok(block) = Block::parse_prefixed(bytes) else { continue };
            let mut cursor = IndexCursor::new(shape);
            let mut ok = cursor.seek_to_first(&block).is_ok();
            while ok && cursor.valid() {
                ok = cursor.first_key(&block).is_ok() && cursor.next(&block).is_ok();
            }
            ok = cursor.seek_to_last(&block).is_ok();
            while ok && cursor.valid() {
                ok = cursor.prev(&block).is_ok();
            }
            if cursor.seek(&block, &ikey("key00050", 4), icmp).is_ok() && cursor.valid() {
                cursor.separator();
            }
        }
    }
}

#[test]
fn a_prepared_index_finds_what_a_plain_one_finds() {
    let icmp = InternalKeyComparator::default();
    let mut seed = 99u64;
    let mut below = |n: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % n
    };
    for (prefix, letters, most) in [("", 3, 6), ("common", 3, 12), ("common", 2, 30), ("x", 200, 3)] {
        for user_keys in [true, false] {
            let mut key = || {
                let mut k = prefix.as_bytes().to_vec();
                let length = below(most);
                k.extend((0..length).map(|_| below(letters) as u8));
                k
            };
            let keys: std::collections::BTreeSet<Vec<u8>> = (0..200).map(|_| key()).collect();
            let ikeys: Vec<_> =
                keys.iter().map(|k| internal_key(k, SequenceNumber(5), ValueType::Value)).collect();
            let mut builder = IndexBuilder::new(1, true, false);
            for (i, k) in ikeys.iter().enumerate() {
                let no = Shortening { separators: false, successor: false };
                builder.add(&place(k, k, None, BlockHandle::new(15 * i as u64, 10)), no, &icmp);
            }
            let (bytes, shape) = builder.finish(user_keys);
            let plain = Block::parse(bytes.clone()).unwrap();
            let mut prepared = Block::parse(bytes).unwrap();
            prepare_for_search(&mut prepared, shape, &icmp);
            assert!(prepared.memory_usage() > plain.memory_usage() || keys.len() < 8);
            let mut odd = key();
            odd.truncate(prefix.len() / 2);
            let targets: Vec<_> = (0..400).map(|_| key()).chain([vec![], vec![0xFF], odd]).collect();
            for target in targets.iter().chain(&keys) {
                for sequence in [9, 5, 1] {
                    let target = internal_key(target, SequenceNumber(sequence), ValueType::Value);
                    let (mut a, mut b) = (IndexCursor::new(shape), IndexCursor::new(shape));
                    a.seek(&plain, &target, &icmp).unwrap();
                    b.seek(&prepared, &target, &icmp).unwrap();
                    assert_eq!((a.valid(), a.separator()), (b.valid(), b.separator()));
                    assert!(!a.valid() || a.handle() == b.handle());
                }
            }
        }
    }
}
