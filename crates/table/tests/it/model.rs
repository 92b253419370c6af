//! Compares a table's cursor with a sorted list.

use crate::util::*;
use esker_base::{PinnedBytes, SequenceNumber, ValueType, comparator};
use esker_format::compression::CompressionType;
use esker_format::cursor::{DecodeAhead, DecodedRun, InternalIterator, ScanIterator};
use esker_format::key::{InternalKeyComparator, ParsedInternalKey, internal_key};
use esker_format::properties::IndexType;
use esker_table::{
    BlockBasedTableOptions, DataBlockIndexType, TableIter, TableReadOptions, TableReader, TableReaderOptions,
};
use std::sync::Arc;

/// Moves a cursor at random, `steps` times.
fn walk(reader: &Arc<TableReader>, entries: &[(Vec<u8>, Vec<u8>)], rng: &mut Rng, steps: usize) {
    let icmp = InternalKeyComparator::default();
    let any_key = |rng: &mut Rng| format!("key{:08}", rng.below(2 * entries.len() + 2)).into_bytes();
    walk_in(&icmp, reader, entries, rng, steps, &any_key);
}

/// Moves at random in the order of `icmp`. `any_key` gives a user key that may be absent.
fn walk_in(
    icmp: &InternalKeyComparator,
    reader: &Arc<TableReader>,
    entries: &[(Vec<u8>, Vec<u8>)],
    rng: &mut Rng,
    steps: usize,
    any_key: &dyn Fn(&mut Rng) -> Vec<u8>,
) {
    let mut iter = reader.iter(TableReadOptions::default());
    let mut model: Option<usize> = None;
    for _ in 0..steps {
        let target = match rng.below(3) {
            0 if !entries.is_empty() => entries[rng.below(entries.len())].0.clone(),
            _ => {
                let sequence = SequenceNumber(rng.below(2100) as u64);
                internal_key(&any_key(rng), sequence, ValueType::SEEK)
            }
        };
        match (rng.below(12), model) {
            (0, _) => {
                iter.seek_to_first();
                model = (!entries.is_empty()).then_some(0);
            }
            (1, _) => {
                iter.seek_to_last();
                model = entries.len().checked_sub(1);
            }
            (2 | 3, _) => {
                iter.seek(&target);
                model = entries.iter().position(|(k, _)| icmp.compare(k, &target).is_ge());
            }
            (4, _) => {
                iter.seek_for_prev(&target);
                model = entries.iter().rposition(|(k, _)| icmp.compare(k, &target).is_le());
            }
            (5..8, Some(i)) => {
                iter.next();
                model = (i + 1 < entries.len()).then_some(i + 1);
            }
            (8 | 9, Some(i)) => {
                iter.prev();
                model = i.checked_sub(1);
            }
            (_, Some(i)) => {
                let limit = (rng.below(3) == 0).then(|| any_key(rng));
                model = walk_ahead(icmp, &mut iter, entries, (i, limit.as_deref()), rng);
            }
            _ => {}
        }
        iter.status().unwrap();
        assert_eq!(iter.valid(), model.is_some());
        if let Some(i) = model {
            assert_eq!((iter.key(), iter.value()), (&entries[i].0[..], &entries[i].1[..]));
            assert_eq!(iter.pinned_value().as_slice(), entries[i].1);
        }
    }
}

/// Reads runs from entry `i` on, up to a limit. Returns the cursor's place after that.
fn walk_ahead(
    icmp: &InternalKeyComparator,
    iter: &mut TableIter,
    entries: &[(Vec<u8>, Vec<u8>)],
    (i, limit): (usize, Option<&[u8]>),
    rng: &mut Rng,
) -> Option<usize> {
    let (forward, sequence) = (rng.below(2) == 0, SequenceNumber(rng.below(2100) as u64));
    let ahead = DecodeAhead { forward, sequence, limit };
    let next = |i: usize| if forward { Some(i + 1).filter(|i| *i < entries.len()) } else { i.checked_sub(1) };
    let user_key = |i: usize| &entries[i].0[..entries[i].0.len() - 8];
    let (mut run, mut here) = (DecodedRun::default(), i);
    iter.look_ahead(&mut run, &ahead);
    let mut pinned: Vec<(PinnedBytes, usize)> = Vec::new();
    for _ in 0..rng.below(8) {
        let (mut at, mut left) = (here, rng.below(3 * run.len() + 1));
        while !run.is_empty() {
            assert_eq!((run.user_key(), run.value()), (user_key(at), &entries[at].1[..]));
            assert_eq!(run.pinned_value(), entries[at].1);
            pinned.push((run.pinned_value(), at));
            let entry = ParsedInternalKey::parse(&entries[at].0).unwrap();
            assert!(entry.sequence <= sequence && entry.value_type == ValueType::Value);
            let is_first = at == 0 || (forward && at == here);
            let begins = is_first || !icmp.same_user_key(user_key(at - 1), entry.user_key);
            assert!(begins, "the entry is not the newest of its user key");
            let order = limit.map(|limit| icmp.compare_user_keys(entry.user_key, limit));
            let is_within = order.is_none_or(|order| if forward { order.is_lt() } else { order.is_gt() });
            assert!(is_within, "the entry is not before the limit");
            if left == 0 {
                iter.advance(&run);
                return Some(at);
            }
            left -= 1;
            if !(if forward { run.step_on() } else { run.step_back() }) {
                break;
            }
            at = next(at).expect("the run ends before");
        }
        if run.is_empty() {
            break;
        }
        iter.pass(&mut run, &ahead);
        assert!(!iter.valid() || Some(iter.key()) == next(at).map(|i| &entries[i].0[..]));
        assert!(
            pinned.iter().all(|(value, at)| *value == entries[*at].1),
            "pinned values of left entries stay"
        );
        here = next(at)?;
    }
    Some(here)
}

#[test]
fn a_cursor_walks_as_a_sorted_list_does() {
    let mut rng = Rng::new(20_261_120);
    for count in [0, 1, 2, 17, 100, 700] {
        let entries = sample_entries(&mut rng, count, 40);
        for (block_size, restarts, index_restarts) in
            [(1, 1, 1), (200, 2, 3), (1000, 16, 1), (1 << 20, 16, 16)]
        {
            for index_type in [IndexType::BinarySearch, IndexType::BinarySearchWithFirstKey] {
                for version in [2, 5, 6, 8] {
                    let table = BlockBasedTableOptions {
                        block_size,
                        block_restart_interval: restarts,
                        index_block_restart_interval: index_restarts,
                        index_type,
                        format_version: version,
                        ..Default::default()
                    };
                    let mut options = builder_options(table);
                    options.compression =
                        if version == 5 { CompressionType::Lz4 } else { CompressionType::None };
                    let (bytes, _) = write_table(options, entries.clone()).unwrap();
                    let reader = open_bytes(&bytes, BlockBasedTableOptions::default()).unwrap();
                    walk(&reader, &entries, &mut rng, 300);
                    let mut known = TableReaderOptions::new(
                        InternalKeyComparator::default(),
                        Arc::new(BlockBasedTableOptions::default()),
                        bytes.len() as u64,
                    );
                    known.smallest_key = entries.first().map(|(key, _)| key.as_slice().into());
                    known.largest_key = entries.last().map(|(key, _)| key.as_slice().into());
                    let reader = TableReader::open(memory_file(&bytes), known).unwrap();
                    walk(&reader, &entries, &mut rng, 300);
                }
            }
        }
    }
}

#[test]
fn two_level_indexes_walk_alike() {
    let mut rng = Rng::new(99);
    let mut walked = 0;
    for path in fixture_tables() {
        if !short_name(&path).contains("partitioned") || short_name(&path).contains("prefix") {
            continue;
        }
        let reader = open_bytes(&std::fs::read(&path).unwrap(), with_filters()).unwrap();
        let entries: Vec<_> = scan(&reader).unwrap().iter().map(|e| (ikey_of(e), e.3.clone())).collect();
        walk(&reader, &entries, &mut rng, 2000);
        walked += 1;
    }
    assert!(walked >= 4);
}

/// A user key of random length, up to `longest`. At most two of its bytes are not `a`, so keys
/// share long prefixes.
fn odd_key(rng: &mut Rng, longest: usize) -> Vec<u8> {
    let mut key = vec![b'a'; rng.below(longest + 1)];
    for _ in 0..rng.below(3).min(key.len()) {
        let at = rng.below(key.len());
        key[at] = [0, b'b', 0xFF][rng.below(3)];
    }
    key
}

/// Entries with such keys, at times with many versions of one, in the order of `icmp`.
fn odd_entries(
    rng: &mut Rng,
    icmp: &InternalKeyComparator,
    count: usize,
    longest: usize,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut entries = Vec::new();
    while entries.len() < count {
        let user_key = odd_key(rng, longest);
        let versions = if rng.below(4) == 0 { 1 + rng.below(40) } else { 1 };
        for _ in 0..versions {
            let kind = match rng.below(40) {
                0 => ValueType::Deletion,
                1 => ValueType::Merge,
                2 => ValueType::WideColumnEntity,
                3 => ValueType::BlobIndex,
                _ => ValueType::Value,
            };
            let sequence = if rng.below(3) == 0 { 0 } else { rng.below(2000) as u64 };
            let size = [0, 1, 20, 200][rng.below(4)];
            entries.push((internal_key(&user_key, SequenceNumber(sequence), kind), rng.value(size)));
        }
    }
    entries.sort_by(|a, b| icmp.compare(&a.0, &b.0));
    entries.dedup_by(|a, b| key_and_sequence(&a.0) == key_and_sequence(&b.0));
    entries
}

fn key_and_sequence(internal_key: &[u8]) -> (&[u8], u64) {
    let (user_key, trailer) = internal_key.split_last_chunk::<8>().unwrap();
    (user_key, u64::from_le_bytes(*trailer) >> 8)
}

#[test]
fn runs_of_odd_keys_are_those_of_a_sorted_list() {
    let mut rng = Rng::new(20_261_122);
    for round in 0..60 {
        let order = ["leveldb.BytewiseComparator", "rocksdb.ReverseBytewiseComparator"][round % 2];
        let icmp = InternalKeyComparator::new(comparator::by_name(order).unwrap());
        let longest = [1, 3, 23, 24, 25, 56, 57, 90, 300][rng.below(9)];
        let count = [1, 5, 60, 400][rng.below(4)];
        let entries = odd_entries(&mut rng, &icmp, count, longest);
        let table = BlockBasedTableOptions {
            block_size: [1, 60, 300, 2000, 1 << 20][rng.below(5)],
            block_restart_interval: [1, 2, 3, 16, 400][rng.below(5)],
            index_block_restart_interval: [1, 2, 5][rng.below(3)],
            data_block_index_type: [DataBlockIndexType::BinarySearch, DataBlockIndexType::BinaryAndHash]
                [usize::from(order.starts_with("level")) * rng.below(2)],
            format_version: [2, 4, 5, 6, 7, 8, 8][rng.below(7)],
            use_delta_encoding: rng.below(4) > 0,
            ..Default::default()
        };
        let mut options = builder_options(table);
        options.icmp = icmp.clone();
        let (bytes, _) = write_table(options, entries.clone()).unwrap();
        let table = BlockBasedTableOptions {
            block_cache: (rng.below(3) > 0).then(esker_table::default_block_cache),
            ..Default::default()
        };
        let mut options = TableReaderOptions::new(icmp.clone(), Arc::new(table), bytes.len() as u64);
        options.block_protection_bytes_per_key = if rng.below(8) == 0 { 4 } else { 0 };
        let reader = TableReader::open(memory_file(&bytes), options).unwrap();
        walk_in(&icmp, &reader, &entries, &mut rng, 400, &|rng| odd_key(rng, longest));
    }
}
