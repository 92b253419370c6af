use super::*;
use crate::filter::key_hash;
use crate::filter::tests::{golden, golden_key};

fn hashes(n: u32) -> Vec<u64> {
    (0..n).map(|i| key_hash(&golden_key(i))).collect()
}

#[test]
fn three_keys_give_the_expected_filter() {
    let hashes: Vec<u64> = ["a", "abc", "key0001"].map(|k| key_hash(k.as_bytes())).to_vec();
    let hex = "0200000000010400000000000040000002000000000000100000000004000040\
               2000020102000000000000000000000000000020800040000400010000002000\
               ff00060000";
    let built: String = build(&hashes, 10_000).iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(built, hex);
}

#[test]
fn filters_equal_those_of_rocksdb() {
    assert_eq!(build(&hashes(500), 10_000), golden("v7_8_bloom_noopt"));
    assert_eq!(build(&hashes(900), 10_000), golden("v7_8_bloom"));
    assert_eq!(build_sized(&hashes(900), 1152, 7), golden("v11_9_bloom"));
}

#[test]
fn probes_follow_the_table() {
    for (millibits, probes) in [
        (1000, 1),
        (2080, 1),
        (2081, 2),
        (10_000, 6),
        (10_070, 6),
        (10_071, 7),
        (14_001, 8),
        (25_501, 12),
        (25_502, 11),
        (28_001, 13),
        (50_000, 23),
        (50_001, 24),
        (100_000, 24),
    ] {
        assert_eq!(probes_for(millibits), probes, "{millibits}");
    }
}

#[test]
fn sizes_are_whole_lines_within_four_gigabytes() {
    assert_eq!(filter_bytes(1, 10_000), 64 + 5);
    assert_eq!(filter_bytes(51, 10_000), 64 + 5);
    assert_eq!(filter_bytes(52, 10_000), 128 + 5);
    for entries in [usize::MAX / 10_000 + 1, usize::MAX / 3, usize::MAX] {
        assert_eq!(filter_bytes(entries, 10_000), MAX_LEN as usize + 5);
    }
    assert_eq!(filter_bytes(usize::MAX, 100_000), 0xFFFF_FFC0 + 5);
    assert!(build(&[], 10_000).is_empty());
}

#[test]
fn rate_of_false_positives_is_as_estimated() {
    let hash = |i: u64| key_hash(&i.to_le_bytes());
    for millibits in [3000, 10_000, 16_000] {
        let filter = build(&(0..20_000).map(hash).collect::<Vec<_>>(), millibits);
        let layout = FastLocalBloomLayout::parse(filter.len() - 5, filter.last_chunk().unwrap()).unwrap();
        assert!((0..20_000).all(|i| layout.may_match(&filter, hash(i))));
        let tried = 200_000;
        let found = (0..tried).filter(|i| layout.may_match(&filter, hash(1_000_000 + i))).count();
        let expected =
            false_positive_rate(f64::from(millibits) / 1000.0, probes_for(millibits)) * tried as f64;
        let ratio = found as f64 / expected;
        assert!((0.8..1.25).contains(&ratio), "{millibits}: {found} instead of {expected}");
    }
}
