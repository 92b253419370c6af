use super::*;
use proptest::prelude::*;

fn location_strategy() -> impl Strategy<Value = BlobLocation> {
    (any::<u64>(), any::<u64>(), any::<u64>(), any::<u8>()).prop_map(|(file, offset, size, compression)| {
        BlobLocation { file_number: FileNumber(file), offset, size, compression }
    })
}

#[test]
fn bytes_are_rocksdbs() {
    let index = BlobIndex::parse(b"\x01\x09\xAC\x02\x64\x07").unwrap();
    let location = BlobLocation { file_number: FileNumber(9), offset: 300, size: 100, compression: 7 };
    assert_eq!(index, BlobIndex::Blob(location));
}

#[test]
fn bad_indexes_are_corruption() {
    for bad in [&b""[..], b"\x03", b"\x01", b"\x01\x09\x01\x01", b"\x01\x09\x01\x01\x00\x00", b"\x02\x01"] {
        assert!(BlobIndex::parse(bad).unwrap_err().is_corruption(), "{}", bad.escape_ascii());
    }
}

proptest! {
    #[test]
    fn indexes_round_trip(
        location in location_strategy(),
        expiration: u64,
        value in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        for index in [
            BlobIndex::Blob(location),
            BlobIndex::BlobTtl { expiration, location },
            BlobIndex::InlinedTtl { expiration, value: &value },
        ] {
            let mut out = Vec::new();
            index.append_to(&mut out);
            prop_assert_eq!(BlobIndex::parse(&out).unwrap(), index);
        }
    }
}
