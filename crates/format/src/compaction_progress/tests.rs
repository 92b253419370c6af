use super::*;
use esker_base::{FileNumber, SequenceNumber};

fn file(number: u64) -> FileMetaData {
    FileMetaData {
        number: FileNumber(number),
        file_size: 1000 + number,
        smallest: b"a\x01\x05\0\0\0\0\0\0".to_vec(),
        largest: b"b\x01\x06\0\0\0\0\0\0".to_vec(),
        smallest_seqno: SequenceNumber(5),
        largest_seqno: SequenceNumber(6),
        epoch_number: 3,
        unique_id: Some([7, 8]),
        ..FileMetaData::default()
    }
}

fn progress() -> CompactionProgress {
    CompactionProgress {
        next_key: b"c\x19\xFF\xFF\xFF\xFF\xFF\xFF\xFF".to_vec(),
        input_records: 300,
        output: LevelProgress { output_records: 200, files: vec![file(11), file(12)] },
        proximal: LevelProgress::default(),
        own: Some(OwnProgress { job: 1 << 100 | 5, counts: vec![1, 0, 1 << 40] }),
    }
}

#[test]
fn records_come_back() {
    for progress in
        [progress(), CompactionProgress::default(), CompactionProgress { own: None, ..progress() }]
    {
        assert_eq!(CompactionProgress::decode(&progress.encode()).unwrap(), Some(progress));
    }
}

#[test]
fn the_bytes_are_those_of_rocksdb() {
    // A RocksDB worker's record with no own part: tags and lengths by hand.
    let level = CompactionProgress {
        next_key: b"k2345678".to_vec(),
        input_records: 5,
        output: LevelProgress { output_records: 4, files: vec![file(9)] },
        ..CompactionProgress::default()
    };
    let bytes = level.encode();
    assert_eq!(bytes[..2], [0x8A, 0x40], "varint of 8202");
    assert_eq!(bytes[3..16], *b"\x02\x08k2345678\x03\x01\x05");
    assert_eq!(bytes[16], 4, "the output level");
    // Its number of entries, then one file: NewFile4 (103) at level -1.
    assert_eq!(bytes[18..22], [3, 1, 4, 2]);
    assert_eq!(bytes[23..31], [1, bytes[24], 103, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F]);
    assert_eq!(bytes[31], 9, "the file's number");
    assert_eq!(bytes[bytes.len() - 2..], [1, 1], "both lists of items end");
}

#[test]
fn unknown_items_are_skipped_if_they_may_be() {
    let with = |tag: u32| {
        let mut items = Vec::new();
        put_item(&mut items, tag, b"what");
        put_varint32(&mut items, TERMINATE);
        let mut record = Vec::new();
        put_item(&mut record, SUBCOMPACTION_PROGRESS, &items);
        CompactionProgress::decode(&record)
    };
    assert_eq!(with(SAFE_TO_IGNORE | 77).unwrap(), Some(CompactionProgress::default()));
    with(77).unwrap_err();
}

#[test]
fn a_record_that_is_cut_off_is_an_error() {
    let whole = progress().encode();
    for end in 1..whole.len() {
        CompactionProgress::decode(&whole[..end]).unwrap_err();
    }
    assert_eq!(CompactionProgress::decode(b"").unwrap(), None);
}

#[test]
fn later_records_add_their_files() {
    let mut all = progress();
    let later = CompactionProgress {
        next_key: b"d2345678".to_vec(),
        input_records: 400,
        output: LevelProgress { output_records: 250, files: vec![file(13)] },
        ..CompactionProgress::default()
    };
    all.add(later);
    assert_eq!((all.input_records, all.output.output_records), (400, 250));
    assert_eq!(all.output.files.iter().map(|f| f.number.0).collect::<Vec<_>>(), [11, 12, 13]);
    assert_eq!(all.own, None, "counts of the record before are no longer right");
}
