//! Any bytes as a block of deleted runs: a run found around a key holds the key. Any entries as the
//! writer's input: it records the runs that a comparison of all entries gives.

use esker_base::{SequenceNumber, ValueType};
use esker_format::block::Block;
use esker_format::deleted_runs::{DeletedRunBuilder, DeletedRuns};
use esker_format::key::InternalKeyComparator;

fn check(spans: &DeletedRuns, icmp: &InternalKeyComparator) {
    let mut last: Option<&[u8]> = None;
    for span in spans.iter() {
        assert!(span.first <= span.last && last.is_none_or(|last| last < span.first));
        assert_eq!(spans.find(span.first, icmp), Some(span));
        assert_eq!(spans.find(span.last, icmp), Some(span));
        last = Some(span.last);
    }
}

/// A byte for each key in turn: whether it is deleted, and how many older versions it has.
fn built(data: &[u8]) {
    let icmp = InternalKeyComparator::default();
    let mut builder = DeletedRunBuilder::new(1);
    let mut dead = Vec::new();
    for (i, &byte) in data.iter().take(200).enumerate() {
        let value_type = if byte & 1 == 0 { ValueType::Deletion } else { ValueType::Value };
        dead.push(value_type == ValueType::Deletion);
        for version in 0..=byte >> 6 {
            let value_type = if version == 0 { value_type } else { ValueType::Value };
            if builder.is_relevant(value_type) {
                builder.add(&[i as u8], SequenceNumber(u64::from(9 - version)), value_type, version > 0);
            }
        }
    }
    let Some(bytes) = builder.finish() else { return assert!(!dead.contains(&true)) };
    let spans = DeletedRuns::parse(&Block::parse(bytes).unwrap(), &icmp, None).unwrap();
    check(&spans, &icmp);
    for (i, &dead) in dead.iter().enumerate() {
        assert_eq!(spans.find(&[i as u8], &icmp).is_some(), dead);
    }
}

/// One input.
pub fn run(data: &[u8]) {
    let Some((&kind, bytes)) = data.split_first() else { return };
    if kind & 1 == 0 {
        return built(bytes);
    }
    let icmp = InternalKeyComparator::default();
    let Ok(block) = Block::parse(bytes.to_vec()) else { return };
    if let Ok(spans) = DeletedRuns::parse(&block, &icmp, None) {
        check(&spans, &icmp);
    }
}
