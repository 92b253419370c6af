use super::*;
use std::collections::HashSet;

#[test]
fn files_of_a_session_and_their_offsets_never_collide() {
    let mut seen = HashSet::new();
    let mut hashes = HashSet::new();
    for file in 0..300u64 {
        for block in 0..300u64 {
            let key = CacheKey::new((0x1234_5678_9abc_def0, 0xfeed_0000_1111_2222 ^ file), block * 4096);
            assert!(seen.insert(key), "file {file}, block {block}");
            hashes.insert(key.hash(99));
        }
    }
    assert_eq!(hashes.len(), seen.len(), "64 bits are enough for 90,000 keys");
}

#[test]
fn hashes_spread_over_high_and_low_bits() {
    for shift in [0, 32, 57] {
        let mut buckets = [0; 64];
        for block in 0..64_000u64 {
            let key = CacheKey::new((7, 9), block * 4096);
            buckets[(key.hash(0) >> shift) as usize % 64] += 1;
        }
        assert!(buckets.iter().all(|&n| (700..1300).contains(&n)), "bits from {shift}: {buckets:?}");
    }
}

#[test]
fn process_unique_identities_differ() {
    assert_ne!(process_unique_identity(), process_unique_identity());
}
