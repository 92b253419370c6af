use super::*;
use crate::filter::{FilterKind, FilterReader};

fn builder(bytes: usize, has_prefixes: bool) -> PartitionedFilterBuilder {
    let bits = FilterBitsBuilder::new(FilterKind::FastLocalBloom { millibits_per_key: 10_000 });
    PartitionedFilterBuilder::new(bits, bytes, true, has_prefixes)
}

#[test]
fn each_key_is_in_the_part_that_its_separator_leads_to() {
    let mut filter = builder(128, true);
    let keys: Vec<String> = (0..1000).map(|n| format!("key{n:06}")).collect();
    for key in &keys {
        let prefix = Some(&key.as_bytes()[..7]);
        if filter.is_full() {
            filter.cut(prefix, None);
        }
        filter.add(key.as_bytes(), prefix);
    }
    filter.finish(None);
    let parts = filter.take_partitions();
    assert!(parts.len() >= 10, "{}", parts.len());
    for key in &keys {
        let part = parts.iter().find(|p| key::user_key(&p.separator) >= key.as_bytes()).unwrap();
        let parsed = FilterReader::parse(part.contents.clone());
        assert!(parsed.may_match(key.as_bytes()) && parsed.may_match(&key.as_bytes()[..7]), "{key}");
    }
    // A seek to a prefix may land in the part before, or behind.
    for (part, next) in parts.iter().zip(&parts[1..]) {
        let last = key::user_key(&part.separator);
        let following = keys.iter().find(|k| k.as_bytes() > last).unwrap();
        assert!(FilterReader::parse(part.contents.clone()).may_match(&following.as_bytes()[..7]));
        assert!(FilterReader::parse(next.contents.clone()).may_match(&last[..7]));
    }
}

#[test]
fn a_part_too_small_for_any_key_still_takes_some() {
    let mut filter = builder(1, false);
    assert!(!filter.is_full());
    filter.add(b"k", None);
    filter.finish(None);
    assert_eq!(filter.num_entries(), 1);
}
