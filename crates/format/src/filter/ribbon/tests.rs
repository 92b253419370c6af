use super::build::{one_in_for_tests, slots_for_tests};
use super::*;
use crate::filter::tests::{golden, golden_key};
use crate::filter::{FilterReader, key_hash};

#[test]
fn hashing_vectors() {
    for (key, seed, raw, start, c, r) in [
        ("abc", 0, 0, 170, 0xb5e3_365f_c6e5_2228_7684_b215_a8b7_5135u128, 0x5f36_e3b5),
        ("abc", 1, 0x3de4_d003, 21, 0x5eca_33ef_9961_d943_9dad_b7a5_f733_aa5f, 0xef33_ca5e),
        ("key0001", 0, 0, 710, 0x9ca2_b3b8_004f_b8b9_5fc5_37f2_6e1d_cba5, 0xb8b3_a29c),
        ("key0001", 68, 0xbd64_bfc0, 465, 0x6b3a_6a80_51f7_4279_a85d_eeca_3fa5_3165, 0x806a_3a6bu32),
    ] {
        let hasher = Hasher::new(seed, 8);
        let row = hasher.row(key_hash(key.as_bytes()));
        assert_eq!(hasher.raw_seed, raw, "{key} {seed}");
        assert_eq!((row.start, row.coefficients, row.result), (start, c, r), "{key} {seed}");
    }
}

#[test]
fn filter_equals_that_of_rocksdb() {
    let hashes: Vec<u64> = (0..1800).map(|i| key_hash(&golden_key(i))).collect();
    let sizing = Sizing::choose(1800, 10_000, hashes[0]).unwrap();
    assert_eq!(build(&hashes, sizing).unwrap(), golden("v7_8_ribbon"));
}

#[test]
fn slots_are_those_of_rocksdb() {
    let entries = [10, 300, 1000, 1800, 3000, 10_000, 1_000_000];
    assert_eq!(entries.map(slots_for_tests), [256, 384, 1024, 1920, 3072, 10368, 1_047_552]);
    assert!((one_in_for_tests(10_000) - 104.9023).abs() < 0.0001);
}

#[test]
fn small_filters_are_left_to_bloom() {
    assert_eq!(Sizing::choose(10, 10_000, 0), None);
    assert_eq!(Sizing::choose(usize::MAX, 10_000, 0), None);
    assert!(Sizing::choose(5000, 10_000, 0).is_some());
}

#[test]
fn every_key_is_found_at_any_size_and_rate() {
    for (n, millibits) in [
        (1u64, 10_000),
        (100, 20_000),
        (700, 2000),
        (3000, 10_000),
        (20_000, 1000),
        (5000, 24_300),
        (900, 100_000),
    ] {
        let hash = |i: u64| key_hash(&i.to_le_bytes());
        let hashes: Vec<u64> = (0..n).map(hash).collect();
        let sizing = Sizing::choose(n as usize, millibits, hashes[0]);
        let Some(built) = sizing.and_then(|s| build(&hashes, s)) else { continue };
        let filter = FilterReader::parse(built);
        let bytes_per_key = filter.contents().len() as f64 / n as f64;
        assert!(bytes_per_key * 8.0 < f64::from(millibits) / 1000.0 + 5.0 || n < 1000, "{n} {millibits}");
        assert!((0..n).all(|i| filter.may_match(&i.to_le_bytes())), "{n} {millibits}");
        let found = (0..10_000u64).filter(|i| filter.may_match(&(i + (1 << 40)).to_le_bytes())).count();
        let expected = 10_000.0 / one_in_for_tests(millibits);
        assert!(found as f64 <= expected * 1.3 + 20.0, "{n} {millibits}: {found}, expected {expected}");
    }
}

#[test]
fn the_order_of_keys_does_not_change_the_solution() {
    let mut hashes: Vec<u64> = (0..30_000u64).map(|i| key_hash(&i.to_le_bytes())).collect();
    let sizing = Sizing::choose(hashes.len(), 10_000, hashes[0]).unwrap();
    let built = build(&hashes, sizing).unwrap();
    // The first hash chooses the first seed, so it stays.
    esker_base::rng::Rng::new(1).shuffle(&mut hashes[1..]);
    assert_eq!(build(&hashes, sizing).unwrap(), built);
    let filter = FilterReader::parse(built);
    assert!((0..30_000u64).all(|i| filter.may_match(&i.to_le_bytes())));
}
