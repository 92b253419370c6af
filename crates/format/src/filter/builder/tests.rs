use super::*;
use crate::filter::FilterReader;
use crate::filter::tests::{golden, golden_key};

const BLOOM: FilterKind = FilterKind::FastLocalBloom { millibits_per_key: 10_000 };
const LEGACY: FilterKind = FilterKind::LegacyBloom { bits_per_key: 10 };
const RIBBON: FilterKind = FilterKind::Ribbon { millibits_per_key: 10_000 };

#[test]
fn keys_with_prefixes_give_the_filter_of_rocksdb() {
    let mut builder = FilterBitsBuilder::new(BLOOM);
    for i in 0..700 {
        let key = golden_key(i);
        builder.add_key_and_prefix(&key, &key[..7]);
    }
    assert_eq!(builder.num_entries(), 707);
    assert_eq!(builder.estimated_bytes(), 901);
    assert_eq!(builder.finish(), golden("v7_8_prefix_fixed_bloom"));
}

#[test]
fn every_kind_gives_the_filter_of_rocksdb() {
    for (kind, n, name) in
        [(BLOOM, 900, "v7_8_bloom"), (LEGACY, 500, "v7_8_bloom_legacy_fv4"), (RIBBON, 1800, "v7_8_ribbon")]
    {
        let mut builder = FilterBitsBuilder::new(kind);
        for i in 0..n {
            // Versions of one key are neighbours and count once.
            builder.add_key(&golden_key(i));
            builder.add_key(&golden_key(i));
        }
        let estimated = builder.estimated_bytes();
        let filter = builder.finish();
        assert_eq!(filter, golden(name), "{name}");
        assert_eq!(estimated, filter.len());
        assert_eq!((builder.num_entries(), builder.estimated_bytes()), (0, 0), "the builder is empty again");
        assert!(builder.finish().is_empty());
    }
}

#[test]
fn a_checked_filter_that_lacks_a_key_is_corrupt() {
    for kind in [BLOOM, LEGACY, RIBBON] {
        let built = |checks| {
            let mut builder = FilterBitsBuilder::new(kind).check(checks);
            (0..2000).for_each(|i| builder.add_key(&golden_key(i)));
            builder
        };
        let mut checked = built(true);
        let contents = checked.finish();
        assert_eq!(contents, built(false).finish(), "{kind:?}");
        checked.add_key(b"one more");
        checked.finish();
        assert!(checked.finish().is_empty() && checked.status().is_ok(), "{kind:?}");
        // A fault of the memory clears a byte.
        let mut wrong = contents.clone();
        let full = wrong.iter().position(|byte| *byte == u8::MAX || byte.count_ones() > 4).unwrap();
        wrong[full] = 0;
        assert!(built(true).has_all(&contents) && !built(true).has_all(&wrong), "{kind:?}");
        assert!(!built(true).has_all(b""), "{kind:?}: nothing matches");
    }
    let mut damaged = FilterBitsBuilder::new(BLOOM).check(true);
    damaged.fault = Some(Error::corruption("Corrupted filter content"));
    damaged.add_key(b"key");
    damaged.finish();
    assert!(damaged.status().unwrap_err().message().contains("filter"), "the state stays");
}

#[test]
fn repetitions_among_neighbours_are_dropped() {
    let entries = |pairs: &[(&str, &str)]| {
        let mut builder = FilterBitsBuilder::new(BLOOM);
        for (key, prefix) in pairs {
            builder.add_key_and_prefix(key.as_bytes(), prefix.as_bytes());
        }
        builder.num_entries()
    };
    assert_eq!(entries(&[("ab1", "ab"), ("ab1", "ab"), ("ab2", "ab")]), 3);
    assert_eq!(entries(&[("ab", "ab"), ("ab1", "ab")]), 2, "a key that is its own prefix");
    assert_eq!(entries(&[("ab1", "ab"), ("ab", "ab")]), 2, "the order of the two keys does not matter");
    assert_eq!(entries(&[("ab1", "ab"), ("ac1", "ac"), ("ab1", "ab")]), 6, "only neighbours are compared");
}

#[test]
fn small_ribbons_are_bloom_filters() {
    let mut builder = FilterBitsBuilder::new(RIBBON);
    for i in 0..100 {
        builder.add_key(&golden_key(i));
    }
    let estimated = builder.estimated_bytes();
    let filter = builder.finish();
    assert_eq!(filter.len(), estimated);
    assert_eq!(filter[filter.len() - 5], 0xFF);
    let reader = FilterReader::parse(filter);
    assert!((0..100).all(|i| reader.may_match(&golden_key(i))));
}
