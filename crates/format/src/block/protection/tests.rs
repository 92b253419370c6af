//! Changes each byte of a block in turn. Each read then gives the original entry, or `Corruption`.

use super::*;
use crate::block::BlockBuilder;
use crate::handle::BlockHandle;
use crate::index_entry::{
    DataBlockPlace, IndexBuilder, IndexCursor, IndexShape, Shortening, prepare_for_search,
};
use crate::key::{InternalKeyComparator, internal_key};
use esker_base::{ErrorKind, SequenceNumber, ValueType};

type Entry = (Vec<u8>, Vec<u8>);

/// Keys that share much or little with their neighbours, and values of several lengths.
fn entries() -> Vec<Entry> {
    (0..60u32)
        .map(|n| {
            let key = format!("key{:03}{}", n * 7 % 10 + n / 10 * 100, "x".repeat(n as usize % 3));
            (key, n)
        })
        .map(|(key, n)| (internal_key(key.as_bytes(), SequenceNumber(5), ValueType::Value), n))
        .map(|(key, n)| (key, vec![n as u8; n as usize % 5 * 40]))
        .collect::<std::collections::BTreeMap<_, _>>()
        .into_iter()
        .collect()
}

fn contents(interval: usize) -> Vec<u8> {
    let mut builder = BlockBuilder::new(interval);
    entries().iter().for_each(|(key, value)| builder.add(key, value));
    builder.finish().to_vec()
}

/// The entries in the layout with values apart: see `docs/format/sst.md`.
fn contents_apart(interval: usize) -> Vec<u8> {
    let (mut bytes, mut values, mut restarts, mut last) = (vec![], vec![], vec![], vec![]);
    for (i, (key, value)) in entries().into_iter().enumerate() {
        let is_restart = i % interval == 0;
        let shared = if is_restart { 0 } else { crate::block::common_prefix(&last, &key) };
        let mut lengths = vec![shared, key.len() - shared, value.len()];
        if is_restart {
            restarts.push(bytes.len() as u32);
            lengths.push(values.len());
        }
        lengths.iter().for_each(|n| esker_base::coding::put_varint32(&mut bytes, *n as u32));
        bytes.extend_from_slice(&key[shared..]);
        values.extend_from_slice(&value);
        last = key;
    }
    let values_at = bytes.len() as u32;
    bytes.extend_from_slice(&values);
    restarts.iter().for_each(|r| bytes.extend_from_slice(&r.to_le_bytes()));
    bytes.extend_from_slice(&values_at.to_le_bytes());
    bytes.extend_from_slice(&(restarts.len() as u32 | super::super::SEPARATED_VALUES).to_le_bytes());
    bytes
}

fn protected(contents: &[u8], width: usize) -> Block {
    let mut block = Block::parse(contents.to_vec()).unwrap();
    block.protect(EntryShape::KeyValue, width, 4096).unwrap();
    block
}

/// The entries of a scan in either direction, and how it ended.
fn walk(block: &Block, forward: bool) -> (Vec<Entry>, Result<()>) {
    let (mut cursor, mut found) = (BlockCursor::new(), Vec::new());
    let mut moved = if forward { cursor.seek_to_first(block) } else { cursor.seek_to_last(block) };
    while moved.is_ok() && cursor.valid() {
        found.push((cursor.key().to_vec(), cursor.value(block).to_vec()));
        moved = if forward { cursor.next(block) } else { cursor.prev(block) };
    }
    if !forward {
        found.reverse();
    }
    (found, moved)
}

/// Reads in every way. Returns whether some read failed; the others must be right.
fn fails(block: &Block, all: &[Entry]) -> bool {
    let mut failed = false;
    for forward in [true, false] {
        let (found, ended) = walk(block, forward);
        failed |= ended.is_err();
        ended.inspect_err(|e| assert_eq!(e.kind(), ErrorKind::Corruption)).ok();
        let expected = if forward { &all[..found.len()] } else { &all[all.len() - found.len()..] };
        assert!(found == expected);
    }
    let icmp = InternalKeyComparator::default();
    for (key, value) in all {
        let mut cursor = BlockCursor::new();
        match cursor.seek(block, key, &icmp) {
            Ok(()) => assert!(cursor.valid() && cursor.key() == key && cursor.value(block) == value),
            Err(e) => {
                assert!(!cursor.valid() && e.kind() == ErrorKind::Corruption);
                assert!(e.to_string().contains("of the block at offset 4096"), "{e}");
                failed = true;
            }
        }
    }
    failed
}

#[test]
fn protected_blocks_read_as_others() {
    let all = entries();
    for interval in [1, 4, 16, 100] {
        for contents in [contents(interval), contents_apart(interval)] {
            let plain = Block::parse(contents.clone()).unwrap().memory_usage();
            for width in [0, 1, 2, 4, 8] {
                let block = protected(&contents, width);
                assert!(!fails(&block, &all));
                // The sums and offsets take at least this many bytes.
                assert_eq!(block.memory_usage() - plain >= all.len() * (width + 4), width > 0);
            }
        }
    }
    let mut empty = Block::parse(BlockBuilder::new(16).finish().to_vec()).unwrap();
    empty.protect(EntryShape::KeyValue, 8, 0).unwrap();
    assert_eq!(walk(&empty, true).0, []);
}

#[test]
fn entries_that_memory_changed_are_never_read() {
    let all = entries();
    let step = if cfg!(miri) { 97 } else { 1 };
    for interval in [1, 4, 16] {
        for contents in [contents(interval), contents_apart(interval)] {
            let mut block = protected(&contents, 8);
            // Changes entries and restarts only: the number of restarts is read once.
            let end = block.restarts as usize + 4 * block.restart_count as usize;
            for at in (0..end).step_by(step) {
                let bits = [1, 0x80, 0xFF][at % 3];
                block.damage_for_test(at, bits);
                assert!(fails(&block, &all), "byte {at} of {end}");
                block.damage_for_test(at, bits);
            }
            assert!(!fails(&block, &all));
        }
    }
}

#[test]
fn one_byte_finds_nearly_all() {
    let mut block = protected(&contents(16), 1);
    let (mut missed, bytes) = (0, block.entries_end as usize);
    for at in 0..bytes {
        block.damage_for_test(at, 0x10);
        missed += usize::from(walk(&block, true).1.is_ok());
        block.damage_for_test(at, 0x10);
    }
    assert!(missed < bytes / 64, "{missed} of {bytes}");
}

#[test]
fn entries_passed_backward_are_compared_again() {
    let all = entries();
    let contents = contents(16);
    let end = Block::parse(contents.clone()).unwrap().entries_end as usize;
    for at in (0..end).step_by(if cfg!(miri) { 211 } else { 1 }) {
        let mut block = protected(&contents, 8);
        let mut cursor = BlockCursor::new();
        // The cursor is in the middle of an interval, which has been parsed before.
        cursor.seek_to_last(&block).unwrap();
        cursor.prev(&block).unwrap();
        let mut left = all.len() - 2;
        block.damage_for_test(at, 4);
        let moved = loop {
            let moved = cursor.prev(&block);
            if moved.is_err() || !cursor.valid() {
                break moved;
            }
            left -= 1;
            assert_eq!((cursor.key(), cursor.value(&block)), (&all[left].0[..], &all[left].1[..]));
        };
        assert!(moved.is_err() || at >= cursor_offset(&contents, all.len() - 2), "byte {at}");
    }
}

/// The offset of entry `n`.
fn cursor_offset(contents: &[u8], n: usize) -> usize {
    let block = Block::parse(contents.to_vec()).unwrap();
    let mut cursor = BlockCursor::new();
    cursor.seek_to_first(&block).unwrap();
    (0..n).for_each(|_| cursor.next(&block).unwrap());
    cursor.entry_offset().unwrap() as usize
}

/// An index of adjacent blocks.
fn index(with_deltas: bool, with_first_key: bool) -> (Block, IndexShape, Vec<BlockHandle>) {
    let icmp = InternalKeyComparator::default();
    let mut builder = IndexBuilder::new(4, with_deltas, with_first_key);
    let mut handles: Vec<BlockHandle> = Vec::new();
    for n in 0..30 {
        let offset = handles.last().and_then(|before| before.end()).unwrap_or(0);
        let handle = BlockHandle { offset, size: 4000 + n as u64 * 37 % 100 };
        let (first, last, next) = (last_key(n), last_key(n), last_key(n + 1));
        let place =
            DataBlockPlace { first: &first, last: &last, next: Some(&next), handle, follows_gap: false };
        builder.add(&place, Shortening { separators: false, successor: false }, &icmp);
        handles.push(handle);
    }
    let (contents, shape) = builder.finish(true);
    let mut block = Block::parse(contents).unwrap();
    prepare_for_search(&mut block, shape, &icmp);
    block.protect(shape.entry_shape(), 8, 77).unwrap();
    (block, shape, handles)
}

fn last_key(n: usize) -> Vec<u8> {
    internal_key(format!("separator{n:03}").as_bytes(), SequenceNumber(9), ValueType::Value)
}

#[test]
fn index_blocks_are_compared_as_well() {
    let icmp = InternalKeyComparator::default();
    for (with_deltas, with_first_key) in [(false, false), (false, true), (true, false), (true, true)] {
        let (mut block, shape, handles) = index(with_deltas, with_first_key);
        let read = |block: &Block| -> Result<Vec<BlockHandle>> {
            let (mut cursor, mut found) = (IndexCursor::new(shape), Vec::new());
            cursor.seek_to_first(block)?;
            while cursor.valid() {
                found.push(cursor.handle());
                cursor.next(block)?;
            }
            for (n, handle) in handles.iter().enumerate() {
                cursor.seek(block, &last_key(n), &icmp)?;
                assert_eq!((cursor.valid(), cursor.handle()), (true, *handle));
            }
            Ok(found)
        };
        assert_eq!(read(&block).unwrap(), handles);
        for at in 0..block.restarts as usize + 4 * block.restart_count as usize {
            block.damage_for_test(at, 2);
            let error = read(&block).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "byte {at}");
            assert!(error.to_string().contains("of the block at offset 77"), "{error}");
            block.damage_for_test(at, 2);
        }
    }
}
