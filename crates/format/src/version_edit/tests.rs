use super::*;
use esker_base::coding::{put_length_prefixed, put_varint32, put_varint64};
use proptest::prelude::*;

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..300, 0u64..(1 << 62)]
}

fn file_number() -> impl Strategy<Value = FileNumber> {
    number().prop_map(FileNumber)
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..40)
}

fn internal_key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 8..40)
}

fn level() -> impl Strategy<Value = usize> {
    0usize..64
}

fn file() -> impl Strategy<Value = FileMetaData> {
    let core =
        (file_number(), 0u32..4, number(), internal_key(), internal_key(), number(), number(), any::<bool>());
    let known = (
        prop::option::of((1u64..1 << 62).prop_map(FileNumber)),
        number(),
        number(),
        number(),
        prop::option::of((bytes(), "[a-z]{0,12}")),
        any::<u8>(),
        prop::option::of([1..u64::MAX, 0..u64::MAX]),
    );
    let rest = (number(), number(), bytes(), bytes(), any::<bool>());
    (core, known, rest).prop_map(|(core, known, rest)| FileMetaData {
        number: core.0,
        path_id: core.1,
        file_size: core.2,
        smallest: core.3,
        largest: core.4,
        smallest_seqno: SequenceNumber(core.5),
        largest_seqno: SequenceNumber(core.6),
        marked_for_compaction: core.7,
        oldest_blob_file_number: known.0,
        oldest_ancestor_time: known.1,
        file_creation_time: known.2,
        epoch_number: known.3,
        file_checksum: known.4,
        temperature: known.5,
        unique_id: known.6,
        compensated_range_deletion_size: rest.0,
        tail_size: rest.1,
        min_timestamp: rest.2,
        max_timestamp: rest.3,
        user_defined_timestamps_not_persisted: rest.4,
    })
}

fn edit() -> impl Strategy<Value = VersionEdit> {
    use prop::collection::vec;
    use prop::option::of;
    let header = (
        of(".{0,40}"),
        of("[a-zA-Z.]{0,40}"),
        of(file_number()),
        of(file_number()),
        of(file_number()),
        of(number().prop_map(SequenceNumber)),
        of(file_number()),
        of(any::<u32>()),
    );
    let blob = (file_number(), number(), number(), "[a-z]{0,9}", bytes()).prop_map(|b| BlobFileAddition {
        number: b.0,
        total_blob_count: b.1,
        total_blob_bytes: b.2,
        checksum_method: b.3,
        checksum_value: b.4,
    });
    let garbage = (file_number(), number(), number()).prop_map(|g| BlobFileGarbage {
        number: g.0,
        garbage_blob_count: g.1,
        garbage_blob_bytes: g.2,
    });
    let files = (
        vec((level(), internal_key()), 0..3),
        vec((level(), file_number()), 0..4),
        vec((level(), file()), 0..4),
        vec(blob, 0..3),
        vec(garbage, 0..3),
    );
    let family = (
        any::<u32>(),
        of(".{0,20}"),
        any::<bool>(),
        of(any::<u32>()),
        of(vec(any::<u8>(), 1..17)),
        of(any::<bool>()),
    );
    (header, files, family).prop_map(|(h, files, family)| VersionEdit {
        db_id: h.0,
        comparator: h.1,
        log_number: h.2,
        prev_log_number: h.3,
        next_file_number: h.4,
        last_sequence: h.5,
        min_log_number_to_keep: h.6,
        max_column_family: h.7,
        compact_cursors: files.0,
        deleted_files: files.1,
        new_files: files.2,
        blob_file_additions: files.3,
        blob_file_garbages: files.4,
        wal_additions: Vec::new(),
        wal_deletion: None,
        column_family: ColumnFamilyId(family.0),
        column_family_add: family.1,
        column_family_drop: family.2,
        remaining_in_atomic_group: family.3,
        full_history_ts_low: family.4,
        persist_user_defined_timestamps: family.5,
        ignored_tags: Vec::new(),
    })
}

proptest! {
    #[test]
    fn encoded_edits_are_decoded(edit in edit()) {
        let bytes = edit.encode();
        prop_assert_eq!(VersionEdit::decode(&bytes).unwrap(), edit);
    }

    #[test]
    fn cut_edits_are_corruption_or_shorter_edits(edit in edit(), at in any::<prop::sample::Index>()) {
        let bytes = edit.encode();
        let cut = at.index(bytes.len() + 1);
        // Fields are independent, so a cut between two of them cannot be seen; the log record's
        // length guards it.
        if let Ok(shorter) = VersionEdit::decode(&bytes[..cut]) {
            prop_assert_eq!(shorter.encode(), &bytes[..cut]);
        }
    }

    #[test]
    fn arbitrary_bytes_are_no_problem(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(edit) = VersionEdit::decode(&bytes) {
            let again = edit.encode();
            prop_assert_eq!(VersionEdit::decode(&again).unwrap().encode(), again);
        }
    }
}

#[test]
fn new_database_is_three_small_records() {
    // The edit that RocksDB 7.8.3 writes for a new database.
    let records: [&[u8]; 3] =
        [b"\x01\x1aleveldb.BytewiseComparator", b"\x02\x00\x04\x00", b"\x09\x00\x03\x06\x04\x00"];
    let edits = [
        VersionEdit { comparator: Some("leveldb.BytewiseComparator".into()), ..VersionEdit::default() },
        VersionEdit {
            log_number: Some(FileNumber(0)),
            last_sequence: Some(SequenceNumber(0)),
            ..VersionEdit::default()
        },
        VersionEdit {
            prev_log_number: Some(FileNumber(0)),
            next_file_number: Some(FileNumber(6)),
            last_sequence: Some(SequenceNumber(0)),
            ..VersionEdit::default()
        },
    ];
    for (record, edit) in records.into_iter().zip(edits) {
        assert_eq!(edit.encode(), record);
        assert_eq!(VersionEdit::decode(record).unwrap(), edit);
    }
}

#[test]
fn empty_edit_has_no_bytes() {
    assert_eq!(VersionEdit::default().encode(), b"");
    assert_eq!(VersionEdit::decode(b"").unwrap(), VersionEdit::default());
}

#[test]
fn unknown_tags_are_skipped_or_fatal() {
    for tag in [8, 99, 101, 104, 204, 402, 8191, 16384 + 8191] {
        let mut bytes = Vec::new();
        put_varint32(&mut bytes, tag);
        put_length_prefixed(&mut bytes, b"whatever");
        let decoded = VersionEdit::decode(&bytes);
        if tag & 8192 == 0 {
            let error = decoded.unwrap_err();
            assert!(error.is_corruption() && error.message().contains(&format!("tag {tag}:")), "{error}");
        } else {
            assert_eq!(decoded.unwrap().ignored_tags, [tag]);
        }
    }
    for tag in [8192, 8202, 8203, 9000, (1 << 20) | 8192] {
        let mut bytes = Vec::new();
        put_varint32(&mut bytes, tag);
        put_length_prefixed(&mut bytes, b"whatever");
        bytes.extend_from_slice(b"\x02\x07");
        let edit = VersionEdit::decode(&bytes).unwrap();
        assert_eq!(edit.ignored_tags, [tag]);
        assert_eq!(edit.log_number, Some(FileNumber(7)));
    }
}

/// A NewFile4 record with these items.
fn new_file(items: &[(u32, &[u8])]) -> Vec<u8> {
    let mut out = vec![103, 2];
    put_varint64(&mut out, 300);
    put_varint64(&mut out, 4096);
    put_length_prefixed(&mut out, b"aaaa\x01\0\0\0\0\0\0\0");
    put_length_prefixed(&mut out, b"zzzz\x01\0\0\0\0\0\0\0");
    put_varint64(&mut out, 0);
    put_varint64(&mut out, 9);
    for (tag, value) in items {
        put_varint32(&mut out, *tag);
        put_length_prefixed(&mut out, value);
    }
    put_varint32(&mut out, 1);
    out
}

#[test]
fn unknown_custom_tags_are_skipped_or_fatal() {
    let edit = VersionEdit::decode(&new_file(&[(17, b"opaque"), (63, b""), (15, b"\x64")])).unwrap();
    assert_eq!(edit.new_files[0].0, 2);
    assert_eq!(edit.new_files[0].1.tail_size, 100);
    let error = VersionEdit::decode(&new_file(&[(66, b"")])).unwrap_err();
    assert!(error.is_corruption() && error.message().contains("custom tag 66"), "{error}");
}

#[test]
fn bad_items_are_corruption() {
    for item in [
        (2, &b""[..]),
        (2, b"xx"),
        (3, b"1234567"),
        (5, b"\x80"),
        (9, b""),
        (12, b"short"),
        (12, &[1; 17]),
        (16, b""),
        (65, b"\x04"),
        (65, b""),
    ] {
        assert!(VersionEdit::decode(&new_file(&[item])).unwrap_err().is_corruption(), "{item:?}");
    }
    let ok = new_file(&[]);
    for cut in 1..ok.len() {
        assert!(VersionEdit::decode(&ok[..cut]).unwrap_err().is_corruption());
    }
}

#[test]
fn items_that_say_nothing_are_unknown() {
    let edit = VersionEdit::decode(&new_file(&[
        (4, b"\x00"),
        (7, b""),
        (8, b"Unknown"),
        (12, &[0; 16]),
        (3, b"\x2A\0\0\0\0\0\0\0"),
        (16, b"\x00"),
    ]))
    .unwrap();
    let file = &edit.new_files[0].1;
    assert_eq!(file.oldest_blob_file_number, None);
    assert_eq!(file.file_checksum, None);
    assert_eq!(file.unique_id, None);
    assert!(file.user_defined_timestamps_not_persisted);
    assert_eq!(edit.min_log_number_to_keep, Some(FileNumber(42)));
}

#[test]
fn elder_file_records_are_read() {
    let keys = |out: &mut Vec<u8>| {
        put_length_prefixed(out, b"a\x01\0\0\0\0\0\0\0");
        put_length_prefixed(out, b"b\x01\0\0\0\0\0\0\0");
    };
    let mut bytes = vec![7, 1, 11, 100];
    keys(&mut bytes);
    bytes.extend([100, 1, 12, 100]);
    keys(&mut bytes);
    bytes.extend([3, 4]);
    bytes.extend([102, 1, 13, 2, 100]);
    keys(&mut bytes);
    bytes.extend([5, 6]);
    let edit = VersionEdit::decode(&bytes).unwrap();
    let found: Vec<_> = edit
        .new_files
        .iter()
        .map(|(level, f)| (*level, f.number.0, f.path_id, f.file_size, f.smallest_seqno.0, f.largest_seqno.0))
        .collect();
    assert_eq!(found, [(1, 11, 0, 100, 0, 0), (1, 12, 0, 100, 3, 4), (1, 13, 2, 100, 5, 6)]);
}

#[test]
fn wal_tracking_is_read_and_not_written() {
    let mut bytes = Vec::new();
    for (tag, body) in [(8199, &[5, 2, 100, 1][..]), (8199, &[6, 1]), (8200, &[4])] {
        put_varint32(&mut bytes, tag);
        put_length_prefixed(&mut bytes, body);
    }
    put_varint32(&mut bytes, 8196);
    bytes.extend([7, 1]);
    let edit = VersionEdit::decode(&bytes).unwrap();
    assert_eq!(
        edit.wal_additions,
        [(FileNumber(5), Some(100)), (FileNumber(6), None), (FileNumber(7), None)]
    );
    assert_eq!(edit.wal_deletion, Some(FileNumber(4)));
    assert_eq!(edit.encode(), b"");
}

#[test]
fn blob_items_are_skipped_or_fatal() {
    let body = |tag: u8| vec![0x90, 3, 9, 2, 50, 0, 0, tag, 1, b'x', 0];
    assert_eq!(VersionEdit::decode(&body(5)).unwrap().blob_file_additions[0].total_blob_bytes, 50);
    assert!(VersionEdit::decode(&body(64)).unwrap_err().is_corruption());
}
