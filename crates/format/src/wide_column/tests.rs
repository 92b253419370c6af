use super::*;
use esker_base::ErrorKind;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[test]
fn an_entity_has_the_bytes_that_rocksdb_writes() {
    let mut out = Vec::new();
    serialize(&[(b"b", b"two"), (b"", b"one")], &mut out).unwrap();
    assert_eq!(out, b"\x01\x02\x00\x03\x01b\x03onetwo");
    let columns = EncodedColumns::parse(&out).unwrap();
    assert_eq!(columns.default_value(), b"one");
    assert_eq!(columns.column(b"b"), Some(&b"two"[..]));
    assert_eq!(columns.column(b"c"), None);
}

#[test]
fn entity_without_default_column_has_an_empty_value() {
    let mut out = Vec::new();
    serialize(&[(b"b", b"two")], &mut out).unwrap();
    assert_eq!(EncodedColumns::parse(&out).unwrap().default_value(), b"");
    assert!(EncodedColumns::parse(b"\x01\x00").unwrap().is_empty());
}

#[test]
fn bad_entities_are_refused() {
    let mut out = vec![9];
    assert_eq!(
        serialize(&[(b"a", b"1"), (b"a", b"2")], &mut out).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    assert_eq!(out, [9]);
    for bad in [
        &b""[..],
        b"\x01",
        b"\x01\x02\x01a\x00\x01a\x00",
        b"\x01\x02\x01b\x00\x01a\x00",
        b"\x01\x01\x01a\x02x",
        b"\x01\x01\x01a\x00x",
        b"\x01\xFF\xFF\xFF\xFF\x0F\x01a\x00",
    ] {
        assert!(EncodedColumns::parse(bad).unwrap_err().is_corruption(), "{}", bad.escape_ascii());
    }
    for version in [0u8, 2, 3] {
        assert_eq!(EncodedColumns::parse(&[version, 0]).unwrap_err().kind(), ErrorKind::NotSupported);
    }
}

proptest! {
    #[test]
    fn columns_round_trip(
        columns in prop::collection::btree_map(
            prop::collection::vec(any::<u8>(), 0..20), prop::collection::vec(any::<u8>(), 0..50), 0..10),
        rotate: prop::sample::Index,
    ) {
        let mut pairs: Vec<(&[u8], &[u8])> = columns.iter().map(|(k, v)| (&k[..], &v[..])).collect();
        if !pairs.is_empty() {
            let by = rotate.index(pairs.len());
            pairs.rotate_left(by);
        }
        let mut out = Vec::new();
        serialize(&pairs, &mut out).unwrap();
        let parsed = EncodedColumns::parse(&out).unwrap();
        prop_assert_eq!(parsed.len(), columns.len());
        let back: BTreeMap<Vec<u8>, Vec<u8>> = parsed.iter().map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
        prop_assert_eq!(back, columns);
        for cut in 0..out.len() {
            prop_assert!(EncodedColumns::parse(&out[..cut]).is_err());
        }
    }

    #[test]
    fn columns_parsed_from_arbitrary_bytes_can_all_be_read(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        if let Ok(columns) = EncodedColumns::parse(&[&[1], &bytes[..]].concat()) {
            prop_assert_eq!(columns.iter().count(), columns.len());
        }
    }
}

#[test]
fn a_version_written_in_two_bytes_still_tells_of_blobs() {
    assert!(stored::may_have_blobs(&[0x02, 0x00]) && stored::may_have_blobs(&[0x82, 0x00, 0x00]));
    assert!(!stored::may_have_blobs(&[0x01, 0x00]) && !stored::may_have_blobs(&[]));
}
