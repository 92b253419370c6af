use super::*;

#[test]
fn header_footer_and_record_go_there_and_back() {
    let header = BlobFileHeader { column_family: ColumnFamilyId(3), compression: 7 };
    assert_eq!(header.encode().len(), HEADER_BYTES);
    assert_eq!(BlobFileHeader::parse(&header.encode()).unwrap(), header);
    let footer = BlobFileFooter { blob_count: 12 };
    assert_eq!(footer.encode().len(), FOOTER_BYTES);
    assert_eq!(BlobFileFooter::parse(&footer.encode()).unwrap(), footer);
    let record = BlobRecordHeader::of(b"key", b"value");
    assert_eq!(record.encode().len(), RECORD_HEADER_BYTES);
    assert_eq!(BlobRecordHeader::parse(&record.encode()).unwrap(), record);
    record.check(b"key", b"value").unwrap();
    assert!(record.check(b"kez", b"value").unwrap_err().is_corruption());
    assert!(record.check(b"key", b"valuf").unwrap_err().is_corruption());
    assert!(record.check(b"key", b"values").unwrap_err().is_corruption());
}

/// No byte of footer or record header may change unseen; of the file header, which has no checksum,
/// family and compression may.
#[test]
fn a_changed_byte_is_seen() {
    let footer = BlobFileFooter { blob_count: 12 }.encode();
    let record = BlobRecordHeader::of(b"key", b"value").encode();
    let header = BlobFileHeader { column_family: ColumnFamilyId(3), compression: 7 }.encode();
    let flipped = |bytes: &[u8], at: usize| {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 1;
        bytes
    };
    for at in 0..FOOTER_BYTES {
        BlobFileFooter::parse(&flipped(&footer, at)).unwrap_err();
    }
    for at in 0..RECORD_HEADER_BYTES {
        let parsed = BlobRecordHeader::parse(&flipped(&record, at));
        assert!(parsed.is_err() || parsed.unwrap().check(b"key", b"value").is_err(), "byte {at}");
    }
    for at in (0..HEADER_BYTES).filter(|at| !(8..12).contains(at) && *at != 13) {
        BlobFileHeader::parse(&flipped(&header, at)).unwrap_err();
    }
    for cut in 0..HEADER_BYTES {
        BlobFileHeader::parse(&header[..cut]).unwrap_err();
    }
}
