use super::*;
use std::collections::HashSet;

#[test]
fn files_of_a_session_and_their_offsets_never_collide() {
    let mut seen = HashSet::new();
    let mut hashes = HashSet::new();
    for file in 0..300u64 {
        for block in 0..300u64 {
            let identity = (0x1234_5678_9abc_def0, 0xfeed_0000_1111_2222 ^ file);
            for key in
                [CacheKey::new(identity, block * 4096), BaseCacheKey::new(identity).block(block * 4100)]
            {
                assert!(seen.insert(key), "file {file}, block {block}");
                hashes.insert(key.hash(99));
            }
        }
    }
    assert_eq!(hashes.len(), seen.len(), "64 bits are enough for 180,000 keys");
}

#[test]
fn hashes_spread_over_high_and_low_bits() {
    for shift in [0, 32, 57] {
        let mut buckets = [0; 64];
        for block in 0..64_000u64 {
            let key = BaseCacheKey::new((0x70f3_91aa_0b1c_55d2, 9)).block(block * 4096);
            buckets[(key.hash(0) >> shift) as usize % 64] += 1;
        }
        assert!(buckets.iter().all(|&n| (700..1300).contains(&n)), "bits from {shift}: {buckets:?}");
    }
}

#[test]
fn process_unique_identities_differ() {
    assert_ne!(process_unique_identity(), process_unique_identity());
}

/// The facts that RocksDB's sources state of the function.
#[test]
fn the_involution_is_its_own_inverse_and_keeps_the_highest_bit() {
    for i in 0..1000_u64 {
        let bits = 0xc682_cd15_3d0e_3279_u64.wrapping_add(i.wrapping_mul(0x9b39_72f3_bea0_baa3)) >> (i % 64);
        assert_eq!(downward(downward(bits)), bits);
        assert_eq!(downward(bits).leading_zeros(), bits.leading_zeros());
        assert_eq!(downward(bits ^ (bits >> 1)), downward(bits) ^ downward(bits >> 1));
    }
    // The rows of the matrix, from the highest bit: all ones, then ones in even places.
    assert_eq!((downward(1 << 63), downward(1 << 62)), (u64::MAX, 0x5555_5555_5555_5555));
    assert_eq!(BaseCacheKey::new((0, 0)).block(0), CacheKey([0, 0]));
    assert_ne!(BaseCacheKey::new((0, 7)).common(), 0);
}

#[test]
fn keys_come_back_from_their_bytes() {
    let key = BaseCacheKey::new((0x0102_0304_0506_0708, 3)).block(8);
    assert_eq!(CacheKey::from_bytes(&key.to_bytes()), Some(key));
    assert_eq!(CacheKey::from_bytes(&key.to_bytes()[1..]), None);
    assert_eq!(CacheKey([1, 2 << 56]).to_bytes(), *b"\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02");
}
