use super::*;
use esker_base::ColumnFamilyId;
use proptest::prelude::*;

/// Every event of a log, each with the contents of the record.
fn events(bytes: &[u8], log_number: u64) -> Vec<(LogEvent, Vec<u8>)> {
    let mut reader = LogReader::new(SliceSource(bytes), log_number);
    let mut found = Vec::new();
    loop {
        let mut record = Vec::new();
        let event = reader.next_record(&mut record).unwrap();
        found.push((event, record));
        if event == LogEvent::End {
            return found;
        }
        assert!(found.len() <= bytes.len() + 2, "the reader does not advance");
    }
}

fn records(bytes: &[u8], log_number: u64) -> Vec<Vec<u8>> {
    events(bytes, log_number)
        .into_iter()
        .filter(|(event, _)| matches!(event, LogEvent::Record { .. }))
        .map(|(_, record)| record)
        .collect()
}

fn log_of(records: &[Vec<u8>], log_number: u64, recyclable: bool) -> Vec<u8> {
    let mut writer = LogWriter::new(log_number, recyclable);
    let mut out = Vec::new();
    for record in records {
        writer.add_record(record, &mut out);
    }
    out
}

/// Payloads that differ from each other. Their lengths are often near the edges of blocks.
fn payloads() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let length = prop_oneof![
        4 => 0usize..200,
        2 => 32700usize..32800,
        1 => 65480usize..65560,
        1 => 0usize..150_000,
    ];
    prop::collection::vec((length, any::<u8>()), 0..12).prop_map(|items| {
        let fill = |(i, (length, seed)): (usize, (usize, u8))| {
            (0..length).map(|at| (at as u8).wrapping_mul(31) ^ seed ^ i as u8).collect()
        };
        items.into_iter().enumerate().map(fill).collect()
    })
}

#[test]
fn a_reader_without_checksums_takes_a_record_whose_checksum_is_wrong() {
    let mut bytes = log_of(&[b"esker".to_vec()], 0, false);
    *bytes.last_mut().unwrap() ^= 1;
    let mut record = Vec::new();
    let damaged = LogReader::new(SliceSource(&bytes), 0).next_record(&mut record).unwrap();
    assert!(matches!(damaged, LogEvent::Corrupt { what: LogCorruption::ChecksumMismatch, .. }));
    let mut unchecked = LogReader::new(SliceSource(&bytes), 0).without_checksums();
    assert!(matches!(unchecked.next_record(&mut record).unwrap(), LogEvent::Record { .. }));
}

#[test]
fn bytes_are_rocksdbs() {
    // Compares with the first bytes of a WAL that RocksDB wrote.
    let mut payload = vec![0x59, 2, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 9];
    payload.extend_from_slice(b"key000007");
    let mut expected = vec![0x8B, 0x3B, 0x49, 0x1C, 0x17, 0, 1];
    expected.extend_from_slice(&payload);
    assert_eq!(log_of(&[payload], 4, false), expected);
}

#[test]
fn header_that_just_fits_holds_an_empty_fragment() {
    let lengths = [BLOCK_BYTES - 2 * HEADER_BYTES, 5];
    let bytes = log_of(&lengths.map(|n| vec![7; n]), 1, false);
    assert_eq!(bytes[BLOCK_BYTES - 1], RecordType::First as u8);
    assert_eq!(bytes[BLOCK_BYTES + 6], RecordType::Last as u8);
    assert_eq!(records(&bytes, 1).iter().map(Vec::len).collect::<Vec<_>>(), lengths);
}

#[test]
fn rest_too_short_for_a_header_is_zero() {
    for (recyclable, header) in [(false, HEADER_BYTES), (true, RECYCLABLE_HEADER_BYTES)] {
        for rest in 1..header {
            let first = vec![1; BLOCK_BYTES - header - rest];
            let bytes = log_of(&[first.clone(), vec![2]], 1, recyclable);
            assert!(bytes[BLOCK_BYTES - rest..BLOCK_BYTES].iter().all(|b| *b == 0));
            assert_eq!(records(&bytes, 1), [first, vec![2]]);
        }
    }
}

#[test]
fn empty_first_at_the_end_of_a_block_is_no_damage() {
    // Old writers left an empty first fragment at the end of a block, and began the record anew in
    // the next block.
    let mut bytes = log_of(&[vec![1; BLOCK_BYTES - 2 * HEADER_BYTES], vec![2; 40_000]], 1, false);
    assert_eq!(bytes[BLOCK_BYTES - 1], RecordType::First as u8);
    bytes.truncate(BLOCK_BYTES);
    bytes.extend_from_slice(&log_of(&[b"again".to_vec()], 1, false));
    let events = events(&bytes, 1);
    assert_eq!(events.len(), 3, "{events:?}");
    assert_eq!(events[1].1, b"again");
}

#[test]
fn crc_mismatch_drops_the_rest_of_its_block_only() {
    let payloads: Vec<Vec<u8>> = (0..100).map(|i| vec![i; 1000]).collect();
    let mut bytes = log_of(&payloads, 1, false);
    bytes[5 * 1007 + 500] ^= 0x10;
    let events = events(&bytes, 1);
    let damage: Vec<_> = events.iter().filter(|(e, _)| matches!(e, LogEvent::Corrupt { .. })).collect();
    assert!(matches!(
        damage[0].0,
        LogEvent::Corrupt { what: LogCorruption::ChecksumMismatch, offset: 5035, dropped, .. }
            if dropped == BLOCK_BYTES - 5035
    ));
    // The first block's damage also costs the record that began there and ends in the next block.
    assert!(matches!(damage[1].0, LogEvent::Corrupt { what: LogCorruption::MissingStart, .. }));
    assert_eq!(damage.len(), 2);
    let survivors = records(&bytes, 1);
    assert_eq!(survivors[..5], payloads[..5]);
    assert_eq!(survivors[5..], payloads[33..]);
}

#[test]
fn length_beyond_the_block_is_torn_only_in_a_short_last_block() {
    let one = log_of(&[vec![3; 100]], 1, false);
    let mut torn = one.clone();
    torn[4] = 101;
    assert!(matches!(
        events(&torn, 1)[0].0,
        LogEvent::Truncated { what: Truncation::Body, offset: 0, dropped: 107 }
    ));
    let mut full_block = log_of(&[vec![3; BLOCK_BYTES - HEADER_BYTES]], 1, false);
    full_block[4] += 1;
    assert!(matches!(
        events(&full_block, 1)[0].0,
        LogEvent::Corrupt { what: LogCorruption::BadLength, offset: 0, dropped: BLOCK_BYTES, .. }
    ));
}

#[test]
fn zeros_end_a_log_cleanly_however_many_there_are() {
    let payload = b"payload".to_vec();
    for zeros in [7, 8, 100, BLOCK_BYTES, 3 * BLOCK_BYTES + 11] {
        let mut bytes = log_of(std::slice::from_ref(&payload), 1, false);
        bytes.resize(bytes.len() + zeros, 0);
        let events = events(&bytes, 1);
        assert_eq!(events.len(), 2, "{zeros} zeros: {events:?}");
    }
}

#[test]
fn records_of_an_older_log_are_told_apart() {
    let old = log_of(&[vec![1; 500], vec![2; 500], vec![3; 500]], 7, true);
    let mut bytes = log_of(&[vec![9; 600]], 1 << 32 | 8, true);
    let end = bytes.len();
    bytes.extend_from_slice(&old[end..]);
    let mut reader = LogReader::new(SliceSource(&bytes), 1 << 32 | 8);
    let mut record = Vec::new();
    assert_eq!(reader.next_record(&mut record).unwrap(), LogEvent::Record { offset: 0 });
    assert!(reader.is_recycled());
    // The next bytes start in the middle of an old record. The reader reports damage, and that the
    // log is recycled.
    let event = reader.next_record(&mut record).unwrap();
    assert!(
        matches!(event, LogEvent::Corrupt { recycled: true, .. } | LogEvent::Truncated { .. }),
        "{event:?}"
    );
    let aligned = [log_of(&[vec![9; 500]], 8, true), old[511..].to_vec()].concat();
    let found = events(&aligned, 8);
    assert!(matches!(found[1].0, LogEvent::OldRecord { offset: 511, in_fragment: false }), "{found:?}");
}

#[test]
fn recyclable_record_behind_plain_ones_is_damage() {
    let bytes = [log_of(&[b"plain".to_vec()], 8, false), log_of(&[b"other".to_vec()], 8, true)].concat();
    let found = events(&bytes, 8);
    assert!(matches!(
        found[1].0,
        LogEvent::Corrupt { what: LogCorruption::UnexpectedRecyclable, dropped: 16, .. }
    ));
    assert_eq!(found[2].0, LogEvent::End);
}

/// One physical record of any type.
fn physical(code: u8, payload: &[u8]) -> Vec<u8> {
    let mut checked = vec![code];
    checked.extend_from_slice(payload);
    let crc = esker_base::crc32c::mask(esker_base::crc32c::value(&checked));
    let mut out = crc.to_le_bytes().to_vec();
    out.extend_from_slice(&(payload.len() as u16).to_le_bytes());
    out.extend_from_slice(&checked);
    out
}

#[test]
fn unknown_types_are_skipped_or_fatal_by_their_top_bit() {
    for code in 12..=255u8 {
        if matches!(code, 130..=137) {
            continue;
        }
        let bytes = [physical(code, b"new"), physical(1, b"known")].concat();
        let found = events(&bytes, 1);
        match found[0].0 {
            LogEvent::Ignored { record_type, .. } => assert!(code >= 128 && record_type == code),
            LogEvent::Corrupt { what: LogCorruption::UnknownType(t), .. } => assert!(code < 128 && t == code),
            other => panic!("{code}: {other:?}"),
        }
        assert_eq!(found[1].1, b"known");
    }
}

/// RocksDB takes records of these types for its own result codes.
#[test]
fn types_that_rocksdb_misreads_are_what_it_reads() {
    for (code, expected) in [
        (132, LogEvent::End),
        (133, LogEvent::Ignored { offset: 0, record_type: 133 }),
        (134, LogEvent::Truncated { what: Truncation::Header, offset: 0, dropped: 0 }),
        (135, LogEvent::OldRecord { offset: 0, in_fragment: false }),
        (136, LogEvent::Truncated { what: Truncation::Body, offset: 0, dropped: 0 }),
    ] {
        let bytes = [physical(code, b"new"), physical(1, b"known")].concat();
        let mut reader = LogReader::new(SliceSource(&bytes), 1);
        let mut record = Vec::new();
        assert_eq!(reader.next_record(&mut record).unwrap(), expected, "{code}");
    }
    let found = events(&physical(137, b"new"), 1);
    assert!(matches!(found[0].0, LogEvent::Corrupt { what: LogCorruption::ChecksumMismatch, .. }));
}

/// As in RocksDB, the bytes behind the record about the log count as the whole open record.
#[test]
fn a_record_about_the_log_empties_the_one_that_is_open() {
    for (code, payload) in [(10, [7, 0, 0, 0, 8, 0].to_vec()), (130, vec![0; 24])] {
        let bytes = [physical(2, b"start"), physical(code, &payload), physical(4, b"end")].concat();
        let found = events(&bytes, 1);
        assert_eq!(found[1], (LogEvent::Record { offset: 0 }, b"end".to_vec()));
    }
}

#[test]
fn timestamp_sizes_within_a_record_apply_and_are_damage_and_a_predecessor_is_none() {
    let sizes = physical(10, &[7, 0, 0, 0, 8, 0]);
    let bytes = [physical(2, b"start"), sizes, physical(4, b"end")].concat();
    let mut reader = LogReader::new(SliceSource(&bytes), 1);
    let mut record = Vec::new();
    let event = reader.next_record(&mut record).unwrap();
    assert!(
        matches!(event, LogEvent::Corrupt { what: LogCorruption::PartialRecord, offset: 0, dropped: 5, .. }),
        "{event:?}"
    );
    assert_eq!(reader.timestamp_sizes(), [(ColumnFamilyId(7), 8)]);

    let bytes = [physical(2, b""), physical(10, b""), physical(4, b"end")].concat();
    assert_eq!(events(&bytes, 1)[0].0, LogEvent::TimestampSizes, "the open record has no bytes");
    let bytes = [physical(2, b"start"), physical(130, &[0; 24]), physical(4, b"end")].concat();
    assert!(matches!(events(&bytes, 1)[0].0, LogEvent::Predecessor(_)));
}

#[test]
fn interrupted_records_are_reported_and_what_follows_is_read() {
    for interrupting in
        [physical(1, b"whole"), physical(2, b"begun"), physical(200, b"skipped"), physical(50, b"?")]
    {
        let bytes = [physical(2, b"start"), interrupting, physical(1, b"behind")].concat();
        let found = events(&bytes, 1);
        assert!(
            matches!(
                found[0].0,
                LogEvent::Corrupt { what: LogCorruption::PartialRecord, offset: 0, dropped: 5, .. }
            ),
            "{found:?}"
        );
        assert!(found.iter().any(|(_, record)| record == b"behind"), "{found:?}");
    }
}

#[test]
fn timestamp_size_records_add_up_and_may_not_contradict() {
    let entry = |id: u32, size: u16| [&id.to_le_bytes()[..], &size.to_le_bytes()[..]].concat();
    let good = [physical(10, &entry(1, 8)), physical(10, &[entry(2, 8), entry(3, 16)].concat())].concat();
    let mut reader = LogReader::new(SliceSource(&good), 1);
    let mut record = Vec::new();
    assert_eq!(reader.next_record(&mut record).unwrap(), LogEvent::TimestampSizes);
    assert_eq!(reader.next_record(&mut record).unwrap(), LogEvent::TimestampSizes);
    let sizes: Vec<_> = reader.timestamp_sizes().iter().map(|(id, size)| (id.0, *size)).collect();
    assert_eq!(sizes, [(1, 8), (2, 8), (3, 16)]);
    for bad in [entry(1, 0), [entry(1, 8), entry(1, 8)].concat(), vec![1, 2, 3]] {
        let bytes = physical(10, &bad);
        assert!(matches!(
            events(&bytes, 1)[0].0,
            LogEvent::Corrupt { what: LogCorruption::BadTimestampSizes, .. }
        ));
    }
}

#[test]
fn more_families_with_timestamps_than_a_block_holds_fill_several_records() {
    for recyclable in [false, true] {
        let mut writer = LogWriter::new(7, recyclable);
        let mut bytes = Vec::new();
        let sizes: Vec<_> = (1..20_000).map(|id| (ColumnFamilyId(id), 8)).collect();
        writer.add_record(b"before", &mut bytes);
        writer.add_timestamp_sizes(&sizes, &mut bytes);
        writer.add_record(b"behind", &mut bytes);
        let found = events(&bytes, 7);
        assert!(found.iter().all(|(event, _)| !matches!(event, LogEvent::Corrupt { .. })), "{found:?}");
        let records: Vec<_> =
            found.iter().filter(|(event, _)| matches!(event, LogEvent::Record { .. })).collect();
        assert_eq!(records.iter().map(|(_, record)| &record[..]).collect::<Vec<_>>(), [b"before", b"behind"]);
        let mut reader = LogReader::new(SliceSource(&bytes), 7);
        while reader.next_record(&mut Vec::new()).unwrap() != LogEvent::End {}
        assert_eq!(reader.timestamp_sizes(), sizes);
    }
}

#[cfg(feature = "zstd")]
#[test]
fn compression_must_be_announced_once_and_first() {
    let zstd = physical(9, &7u32.to_le_bytes());
    for (bytes, bad_at) in [
        ([zstd.clone(), zstd.clone()].concat(), 0),
        ([physical(1, b"record"), zstd.clone()].concat(), 1),
        ([physical(9, &0u32.to_le_bytes()), zstd.clone()].concat(), 0),
        (physical(9, &4u32.to_le_bytes()), 0),
        (physical(9, b""), 0),
    ] {
        let found = events(&bytes, 1);
        assert!(
            matches!(found[bad_at].0, LogEvent::Corrupt { what: LogCorruption::BadSetCompression, .. }),
            "{found:?}"
        );
    }
    let garbage = [zstd, physical(1, b"not a zstd frame"), physical(1, b"lost with the block")].concat();
    let found = events(&garbage, 1);
    assert!(matches!(found[0].0, LogEvent::Undecodable { offset: 11, .. }), "{found:?}");
    assert_eq!(found[1].0, LogEvent::End);
    let none = [physical(9, &0u32.to_le_bytes()), physical(1, b"as it is")].concat();
    assert_eq!(records(&none, 1), [b"as it is"]);
}

#[cfg(feature = "zstd")]
#[test]
fn an_empty_payload_begins_no_frame() {
    let zstd = physical(9, &7u32.to_le_bytes());
    let frame = RecordCompressor::new().unwrap().compress(&[b"record"]).unwrap().to_vec();
    let (first, last) = frame.split_at(5);
    let between = [zstd.clone(), physical(2, first), physical(2, b""), physical(4, last)].concat();
    assert_eq!(records(&between, 1), [b"record"]);
    let alone = [zstd, physical(1, b""), physical(1, &frame)].concat();
    assert_eq!(records(&alone, 1), [&b""[..], b"record"]);
}

#[cfg(not(feature = "zstd"))]
#[test]
fn a_compressed_log_is_refused_by_the_feature_it_needs() {
    let bytes = [physical(9, &7u32.to_le_bytes()), physical(1, b"frame"), physical(1, b"frame")].concat();
    let mut reader = LogReader::new(SliceSource(&bytes), 1);
    for _ in 0..3 {
        let error = reader.next_record(&mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), esker_base::ErrorKind::NotSupported);
        assert!(error.message().contains("feature `zstd`"), "{error}");
    }
    let none = [physical(9, &0u32.to_le_bytes()), physical(1, b"as it is")].concat();
    assert_eq!(records(&none, 1), [b"as it is"]);
}

/// A log whose records are zstd frames, cut as RocksDB cuts them.
#[cfg(feature = "zstd")]
fn compressed_log(records: &[Vec<u8>]) -> Vec<u8> {
    compressed_log_in(records, false)
}

#[cfg(feature = "zstd")]
fn compressed_log_in(records: &[Vec<u8>], recyclable: bool) -> Vec<u8> {
    let (mut compressor, mut writer) = (RecordCompressor::new().unwrap(), LogWriter::new(1, recyclable));
    let mut out = Vec::new();
    writer.add_zstd_compression(&mut out);
    assert_eq!(out, physical(9, &7u32.to_le_bytes()));
    for record in records {
        let (a, b) = record.split_at(record.len() / 3);
        let frame = compressor.compress(&[a, &[], b]).unwrap();
        writer.add_record(frame, &mut out);
    }
    out
}

#[cfg(feature = "zstd")]
#[test]
fn a_frame_is_smaller_and_says_what_it_holds() {
    let mut compressor = RecordCompressor::new().unwrap();
    let record = b"all records are alike. ".repeat(100);
    let frame = compressor.compress(&[&record]).unwrap();
    assert!(frame.len() < record.len() / 10, "{}", frame.len());
    assert_eq!(zstd_safe::get_frame_content_size(frame).unwrap(), Some(record.len() as u64));
    assert_eq!(frame[4] & 4, 4, "the frame has the flag of a checksum");
    assert!(!compressor.compress(&[]).unwrap().is_empty(), "a record without bytes is a frame, too");
    compressor.keep_at_most(0);
}

#[cfg(feature = "zstd")]
#[test]
fn frame_may_end_where_the_buffer_is_full() {
    for blocks in 1..4 {
        let payloads = [vec![5; blocks * BLOCK_BYTES], vec![6; 3]];
        assert_eq!(records(&compressed_log(&payloads), 1), payloads);
    }
}

#[cfg(feature = "zstd")]
#[test]
fn decompressed_records_have_a_limit() {
    let bytes = compressed_log(&[vec![0; 1 << 20], vec![1; 10]]);
    let mut reader = LogReader::new(SliceSource(&bytes), 1).with_max_record_bytes(1 << 16);
    let mut record = Vec::new();
    let event = reader.next_record(&mut record).unwrap();
    assert!(matches!(event, LogEvent::Undecodable { .. }), "{event:?}");
    assert!(record.capacity() < 1 << 18);
}

#[test]
fn failed_reads_are_handed_on_and_end_the_log() {
    let bytes = log_of(&[vec![1; 40_000]], 1, false);
    let mut reads = 0;
    let mut rest = SliceSource(&bytes);
    let source = |buf: &mut [u8]| {
        reads += 1;
        if reads == 2 { Err(esker_base::Error::io("the disk is gone")) } else { rest.read(buf) }
    };
    let mut reader = LogReader::new(source, 1);
    let mut record = Vec::new();
    assert_eq!(reader.next_record(&mut record).unwrap_err().kind(), esker_base::ErrorKind::IoError);
    assert_eq!(reader.next_record(&mut record).unwrap(), LogEvent::End);
}

#[test]
fn strict_reading_forgives_a_torn_tail_and_nothing_else() {
    let bytes = log_of(&[vec![1; 50], vec![2; 50]], 0, false);
    let mut record = Vec::new();
    for cut in 0..=bytes.len() {
        let mut reader = LogReader::new(SliceSource(&bytes[..cut]), 0);
        let mut count = 0;
        while next_strict(&mut reader, &mut record, &"MANIFEST-000001").unwrap() {
            count += 1;
        }
        assert_eq!(count, cut / 57);
    }
    let mut damaged = bytes;
    damaged[20] ^= 1;
    let mut reader = LogReader::new(SliceSource(&damaged), 0);
    let error = next_strict(&mut reader, &mut record, &"MANIFEST-000001").unwrap_err();
    assert!(error.is_corruption());
    assert_eq!(error.message(), "MANIFEST-000001: checksum mismatch at offset 0, 114 bytes dropped");
}

proptest! {
    #[test]
    fn written_records_are_read_back(payloads in payloads(), number: u64, recyclable: bool) {
        let bytes = log_of(&payloads, number, recyclable);
        let events = events(&bytes, number);
        let is_clean = |event: &LogEvent| matches!(event, LogEvent::Record { .. } | LogEvent::End);
        prop_assert!(events.iter().all(|(event, _)| is_clean(event)));
        prop_assert_eq!(records(&bytes, number), payloads);
    }

    #[test]
    fn writer_goes_on_where_a_log_ends(payloads in payloads(), recyclable: bool) {
        let mut resumed = Vec::new();
        for payload in &payloads {
            let mut writer = LogWriter::resume(3, recyclable, resumed.len() as u64);
            let expected = resumed.len() + writer.encoded_bytes(payload.len());
            let (a, b) = payload.split_at(payload.len() / 3);
            writer.add_record_parts(&[a, &[], b], &mut resumed);
            prop_assert_eq!(resumed.len(), expected);
            prop_assert_eq!(writer.block_offset() % BLOCK_BYTES, resumed.len() % BLOCK_BYTES);
        }
        prop_assert_eq!(resumed, log_of(&payloads, 3, recyclable));
    }

    /// A log cut anywhere gives a prefix of its records and reports no damage.
    #[test]
    fn torn_log_is_a_prefix(payloads in payloads(), recyclable: bool, at in 0.0..1.0f64) {
        let bytes = log_of(&payloads, 3, recyclable);
        let cut = (bytes.len() as f64 * at) as usize;
        let events = events(&bytes[..cut], 3);
        for (event, _) in &events {
            prop_assert!(
                !matches!(event, LogEvent::Corrupt { .. } | LogEvent::OldRecord { .. }),
                "{:?}", event
            );
        }
        let read = records(&bytes[..cut], 3);
        prop_assert_eq!(&read[..], &payloads[..read.len()]);
    }

    /// A damaged log gives only records that were written to it.
    #[test]
    fn damaged_log_never_gives_a_wrong_record(
        payloads in payloads(),
        recyclable: bool,
        hits in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..4),
    ) {
        let mut bytes = log_of(&payloads, 3, recyclable);
        prop_assume!(!bytes.is_empty());
        for (index, mask) in hits {
            let at = index.index(bytes.len());
            bytes[at] ^= mask;
        }
        let mut next = payloads.iter();
        for record in records(&bytes, 3) {
            prop_assert!(next.any(|p| *p == record), "a record of {} bytes that was not written", record.len());
        }
    }

    #[test]
    fn arbitrary_bytes_are_no_problem(bytes in prop::collection::vec(any::<u8>(), 0..70_000)) {
        events(&bytes, 0);
    }

    #[cfg(feature = "zstd")]
    #[test]
    fn compressed_logs_are_read(payloads in payloads()) {
        prop_assert_eq!(&records(&compressed_log(&payloads), 1), &payloads);
        prop_assert_eq!(records(&compressed_log_in(&payloads, true), 1), payloads);
    }
}

/// A log in memory to which a writer appends while it is read.
#[derive(Default)]
struct Growing {
    bytes: std::rc::Rc<std::cell::RefCell<Vec<u8>>>,
    at: usize,
    read: std::rc::Rc<std::cell::Cell<usize>>,
}

impl LogSource for Growing {
    fn read(&mut self, buf: &mut [u8]) -> esker_base::Result<usize> {
        let bytes = self.bytes.borrow();
        let rest = bytes.get(self.at..).unwrap_or_default();
        let n = rest.len().min(buf.len());
        buf[..n].copy_from_slice(&rest[..n]);
        self.at += n;
        self.read.set(self.read.get() + n);
        Ok(n)
    }
}

impl SeekSource for Growing {
    fn seek(&mut self, offset: u64) {
        self.at = usize::try_from(offset).unwrap();
    }
}

/// Reads every whole record that is there, and then goes back to the place behind the last one.
fn read_more(reader: &mut LogReader<Growing>, mark: &mut LogMark, found: &mut Vec<Vec<u8>>) {
    let mut record = Vec::new();
    loop {
        match reader.next_record(&mut record).unwrap() {
            LogEvent::Record { .. } => found.push(record.clone()),
            LogEvent::TimestampSizes => {}
            _ => return reader.go_back(mark),
        }
        *mark = reader.mark();
    }
}

proptest! {
    #[test]
    fn a_reader_that_goes_back_finds_every_record_of_a_log_that_grows_in_any_pieces(
        payloads in payloads(),
        cuts in prop::collection::vec(1usize..40_000, 1..20),
        recyclable: bool,
        sizes: bool,
    ) {
        let mut writer = LogWriter::new(7, recyclable);
        let mut whole = Vec::new();
        if sizes {
            writer.add_timestamp_sizes(&[(ColumnFamilyId(1), 8)], &mut whole);
        }
        payloads.iter().for_each(|payload| writer.add_record(payload, &mut whole));
        let source = Growing::default();
        let (bytes, read) = (source.bytes.clone(), source.read.clone());
        let mut reader = LogReader::new(source, 7);
        let (mut mark, mut found) = (reader.mark(), Vec::new());
        let mut pieces = cuts.iter().cycle();
        while bytes.borrow().len() < whole.len() {
            let from = bytes.borrow().len();
            let to = whole.len().min(from + pieces.next().unwrap());
            bytes.borrow_mut().extend_from_slice(&whole[from..to]);
            let unfinished = to - usize::try_from(mark.offset()).unwrap();
            read.set(0);
            read_more(&mut reader, &mut mark, &mut found);
            prop_assert!(read.get() <= unfinished, "{} bytes read of {unfinished} new ones", read.get());
            prop_assert_eq!(&found[..], &payloads[..found.len()]);
        }
        prop_assert_eq!(found, payloads);
        prop_assert_eq!(reader.timestamp_sizes().len(), usize::from(sizes));
    }
}

/// A log whose file is longer than what is written, and zero behind it, as a writer leaves it that
/// maps the file. Before each read, the writer goes on to the next of `ends`.
struct Mapped {
    whole: Vec<u8>,
    ends: std::vec::IntoIter<usize>,
    written: usize,
    at: usize,
}

impl LogSource for Mapped {
    fn read(&mut self, buf: &mut [u8]) -> esker_base::Result<usize> {
        self.written = self.ends.next().unwrap_or(self.written);
        let file_bytes = self.whole.len() + 100_000;
        let n = (file_bytes - self.at).min(buf.len());
        for (i, byte) in buf[..n].iter_mut().enumerate() {
            let at = self.at + i;
            *byte = if at < self.written { self.whole[at] } else { 0 };
        }
        self.at += n;
        Ok(n)
    }

    fn try_seek(&mut self, offset: u64) -> bool {
        self.at = usize::try_from(offset).unwrap();
        true
    }
}

proptest! {
    /// Records with parts of a block as lengths, header included: many end where a block ends.
    #[test]
    fn a_reader_beside_a_writer_that_maps_its_log_passes_over_no_record(
        parts in prop::collection::vec(prop::sample::select(vec![1usize, 2, 4, 8, 32]), 1..60),
        steps in prop::collection::vec(1usize..12, 1..40),
        recyclable: bool,
    ) {
        let header = if recyclable { RECYCLABLE_HEADER_BYTES } else { HEADER_BYTES };
        let payload = |(i, part): (usize, &usize)| vec![i as u8; BLOCK_BYTES / part - header];
        let payloads: Vec<_> = parts.iter().enumerate().map(payload).collect();
        let mut writer = LogWriter::new(7, recyclable);
        let (mut whole, mut record_ends) = (Vec::new(), Vec::new());
        for payload in &payloads {
            writer.add_record(payload, &mut whole);
            record_ends.push(whole.len());
        }
        let mut last = 0;
        let ends: Vec<_> = steps
            .iter()
            .map_while(|step| {
                last += step;
                record_ends.get(last - 1).copied()
            })
            .collect();
        let mut reader = LogReader::new(Mapped { whole, ends: ends.into_iter(), written: 0, at: 0 }, 7);
        let (mut record, mut found) = (Vec::new(), Vec::new());
        while let LogEvent::Record { .. } = reader.next_record(&mut record).unwrap() {
            found.push(record.clone());
        }
        prop_assert!(found[..] == payloads[..found.len()], "{} records, one was passed over", found.len());
    }
}

#[test]
fn zeros_that_are_on_the_disk_are_passed_over_once_read_again() {
    let mut log = Vec::new();
    LogWriter::new(1, false).add_record(b"first", &mut log);
    log.resize(BLOCK_BYTES * 2, 0);
    LogWriter::new(1, false).add_record(b"behind", &mut log);
    let ends = vec![log.len()].into_iter();
    let mut reader = LogReader::new(Mapped { whole: log, ends, written: 0, at: 0 }, 1);
    let (mut record, mut found) = (Vec::new(), Vec::new());
    while let LogEvent::Record { .. } = reader.next_record(&mut record).unwrap() {
        found.push(record.clone());
    }
    assert_eq!(found, [b"first".to_vec(), b"behind".to_vec()]);
}

#[cfg(feature = "zstd")]
#[test]
fn a_reader_that_goes_back_before_the_record_about_compression_reads_it_again() {
    let payloads = [vec![1; 300], vec![2; 40_000], vec![3; 5]];
    let whole = compressed_log(&payloads);
    let source = Growing::default();
    let bytes = source.bytes.clone();
    let mut reader = LogReader::new(source, 1);
    let (mut mark, mut found) = (reader.mark(), Vec::new());
    for byte in &whole {
        bytes.borrow_mut().push(*byte);
        read_more(&mut reader, &mut mark, &mut found);
    }
    assert_eq!(found, payloads);
}
