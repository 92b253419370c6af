//! A table's cursor beside a sorted list.

use crate::util::*;
use esker_base::iter::InternalIterator;
use esker_base::run::{Ahead, Run};
use esker_base::{SequenceNumber, ValueType};
use esker_format::compression::CompressionType;
use esker_format::key::{InternalKeyComparator, ParsedInternalKey, internal_key};
use esker_format::properties::IndexType;
use esker_table::{BlockBasedTableOptions, TableIter, TableReadOptions, TableReader};
use std::sync::Arc;

/// Walks at random, `steps` times.
fn walk(reader: &Arc<TableReader>, entries: &[(Vec<u8>, Vec<u8>)], rng: &mut Rng, steps: usize) {
    let icmp = InternalKeyComparator::default();
    let mut iter = reader.iter(TableReadOptions::default());
    let mut model: Option<usize> = None;
    for _ in 0..steps {
        let target = match rng.below(3) {
            0 if !entries.is_empty() => entries[rng.below(entries.len())].0.clone(),
            _ => {
                let user = format!("key{:08}", rng.below(2 * entries.len() + 2));
                let sequence = SequenceNumber(rng.below(2100) as u64);
                internal_key(user.as_bytes(), sequence, ValueType::SEEK)
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
            (_, Some(i)) => model = walk_ahead(&mut iter, entries, i, rng),
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

/// Walks over runs from entry `i` on; where the cursor stands then.
fn walk_ahead(
    iter: &mut TableIter,
    entries: &[(Vec<u8>, Vec<u8>)],
    i: usize,
    rng: &mut Rng,
) -> Option<usize> {
    let (forward, sequence) = (rng.below(2) == 0, SequenceNumber(rng.below(2100) as u64));
    let ahead = Ahead { forward, sequence, limit: None };
    let next = |i: usize| if forward { Some(i + 1).filter(|i| *i < entries.len()) } else { i.checked_sub(1) };
    let user_key = |i: usize| &entries[i].0[..entries[i].0.len() - 8];
    let (mut run, mut here) = (Run::default(), i);
    iter.look_ahead(&mut run, &ahead);
    for _ in 0..rng.below(8) {
        let (mut at, mut left) = (here, rng.below(3 * run.len() + 1));
        while !run.is_empty() {
            assert_eq!((run.user_key(), run.value()), (user_key(at), &entries[at].1[..]));
            assert_eq!(run.pinned_value(), entries[at].1);
            let entry = ParsedInternalKey::parse(&entries[at].0).unwrap();
            assert!(entry.sequence <= sequence && entry.value_type == ValueType::Value);
            let is_first = at == 0 || (forward && at == here);
            assert!(is_first || user_key(at - 1) != entry.user_key, "it is not the newest of its user key");
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
                for version in [2, 5, 6] {
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
