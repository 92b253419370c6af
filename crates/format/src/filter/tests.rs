use super::*;
use esker_base::rng::Rng;

/// A filter that RocksDB wrote; see `fixtures/filter/README.md`.
pub(super) fn golden(name: &str) -> Vec<u8> {
    let path = format!("{}/../../fixtures/filter/{name}.bin", env!("CARGO_MANIFEST_DIR"));
    #[expect(clippy::disallowed_methods, reason = "a test reads its fixture")]
    std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

pub(super) fn golden_key(i: u32) -> Vec<u8> {
    format!("key{i:06}").into_bytes()
}

fn false_positives(filter: &FilterReader<Vec<u8>>) -> usize {
    (0..10_000).filter(|i| filter.may_match(format!("absent{i}").as_bytes())).count()
}

#[test]
fn filters_of_rocksdb_know_their_keys() {
    for (name, keys, most_false) in [
        ("v7_8_bloom", 900, 150),
        ("v7_8_bloom_noopt", 500, 150),
        ("v11_9_bloom", 900, 150),
        ("v7_8_bloom_legacy_fv4", 500, 150),
        ("v7_8_prefix_fixed_bloom", 700, 150),
        ("v7_8_ribbon", 1800, 150),
    ] {
        let filter = FilterReader::parse(golden(name));
        assert!(filter.is_useful(), "{name}");
        for i in 0..keys {
            assert!(filter.may_match(&golden_key(i)), "{name}, key {i}");
        }
        let count = false_positives(&filter);
        assert!(count < most_false, "{name}: {count} of 10000");
    }
    let with_prefixes = FilterReader::parse(golden("v7_8_prefix_fixed_bloom"));
    assert!((0..7).all(|i| with_prefixes.may_match(format!("key000{i}").as_bytes())));
}

#[test]
fn one_probe_serves_all_kinds() {
    let filters =
        ["v7_8_bloom", "v7_8_bloom_legacy_fv4", "v7_8_ribbon"].map(|n| FilterReader::parse(golden(n)));
    for key in [&b"key000001"[..], b"absent", b""] {
        let mut probe = FilterProbe::new(key);
        for _ in 0..2 {
            for filter in &filters {
                assert_eq!(filter.may_match_probe(&mut probe), filter.may_match(key));
            }
        }
        assert_eq!(probe.key(), key);
    }
}

#[test]
fn metadata_alone_match_nothing() {
    for contents in [&[][..], &[0xFF], &[0xFF, 0, 6, 0, 0], &[0, 0, 0, 0, 0]] {
        let filter = FilterReader::parse(contents);
        assert!(!filter.may_match(b"a") && filter.is_useful(), "{contents:?}");
    }
}

#[test]
fn an_unknown_filter_matches_everything() {
    let bits = |metadata: [u8; 5]| [&[0; 128][..], &metadata].concat();
    for metadata in [
        [0x00, 0, 0, 0, 0],
        [0x80, 0, 0, 0, 0],
        [0xFD, 0, 6, 0, 0],
        [0xFF, 1, 6, 0, 0],
        [0xFF, 0, 0x26, 0, 0],
        [0xFF, 0, 0, 0, 0],
        [0xFF, 0, 31, 0, 0],
        [0xFF, 0, 6, 1, 0],
        [0xFF, 0, 6, 0, 1],
        [0xFE, 0, 0, 0, 0],
        [0xFE, 0, 1, 0, 0],
        [0x06, 0, 0, 0, 0],
        [0x06, 3, 0, 0, 0],
        [0x06, 255, 255, 255, 255],
    ] {
        let filter = FilterReader::parse(bits(metadata));
        assert!(filter.may_match(b"a") && !filter.is_useful(), "{metadata:x?}");
    }
    for metadata in [[0xFF, 0, 6, 0, 0], [0x06, 1, 0, 0, 0], [0x06, 2, 0, 0, 0], [0x06, 128, 0, 0, 0]] {
        assert!(!FilterReader::parse(bits(metadata)).may_match(b"a"), "{metadata:x?}");
    }
}

#[test]
fn bits_too_short_for_a_line_match_everything() {
    let short = [&[0; 63][..], &[0xFF, 0, 6, 0, 0]].concat();
    assert!(FilterReader::parse(short).may_match(b"a"));
    let no_segment = [&[0; 15][..], &[0xFE, 0, 2, 0, 0]].concat();
    assert!(FilterReader::parse(no_segment).may_match(b"a"));
}

#[test]
fn random_bytes_are_never_out_of_bounds() {
    let mut rng = Rng::new(5);
    for _ in 0..20_000 {
        let mut contents = vec![0; rng.index(300)];
        rng.fill(&mut contents);
        let n = contents.len();
        if n >= 5 && rng.one_in(2) {
            contents[n - 5] = [0xFE, 0xFF, 1, 6, 0x7F][rng.index(5)];
            contents[n - 4..].copy_from_slice(&[rng.below(3) as u8, rng.below(20) as u8, 0, 0]);
        }
        let filter = FilterReader::parse(&contents);
        for i in 0..20u32 {
            filter.may_match(&i.to_be_bytes());
        }
    }
}
