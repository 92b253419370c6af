use super::*;
use crate::filter::legacy_key_hash;
use crate::filter::tests::{golden, golden_key};

#[test]
fn vector_of_three_keys() {
    let hashes = ["a", "abc", "key0001"].map(|k| legacy_key_hash(k.as_bytes()));
    let hex = "0000004000000000000020000001010000182000000000000800000000040000\
               00000000008000020000000000100000000000000000010000000020c0400000\
               0601000000";
    let built: String = build(&hashes, 10).iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(built, hex);
}

#[test]
fn filter_equals_that_of_rocksdb() {
    let hashes: Vec<u32> = (0..500).map(|i| legacy_key_hash(&golden_key(i))).collect();
    assert_eq!(build(&hashes, 10), golden("v7_8_bloom_legacy_fv4"));
}

#[test]
fn lines_are_odd_and_limited() {
    assert_eq!(filter_bytes(1, 10), 64 + 5);
    assert_eq!(filter_bytes(52, 10), 3 * 64 + 5);
    assert!(filter_bytes(usize::MAX, 100) <= (1 << 29) + 64 + 5);
    assert!(build(&[], 10).is_empty());
}

#[test]
fn lines_of_other_machines_are_understood() {
    // 128-byte lines, made by hand: the same bits, one line twice as long.
    let hash = legacy_key_hash(b"abc");
    let mut contents = vec![0; 3 * 128 + 5];
    let at = (hash % 3) as usize * 128;
    let mut h = hash;
    for _ in 0..4 {
        let bit = (h % 1024) as usize;
        contents[at + bit / 8] |= 1 << (bit % 8);
        h = h.wrapping_add(hash.rotate_right(17));
    }
    contents[3 * 128..].copy_from_slice(&[4, 3, 0, 0, 0]);
    let layout = LegacyBloomLayout::parse(3 * 128, contents.last_chunk().unwrap()).unwrap();
    assert_eq!(layout.log2_line_bytes, 7);
    assert!(layout.may_match(&contents, hash));
    assert!(!layout.may_match(&contents, legacy_key_hash(b"abd")));
}
