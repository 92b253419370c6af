use super::*;
use crate::log::Truncation;
use crate::write_batch::WriteBatch;

fn batch(sequence: u64, puts: usize) -> Vec<u8> {
    let mut batch = WriteBatch::new();
    batch.set_sequence(SequenceNumber(sequence));
    for _ in 0..puts {
        batch.put_cf(ColumnFamilyId::DEFAULT, b"key", b"value").unwrap();
    }
    batch.into_bytes()
}

const RECORD: LogEvent = LogEvent::Record { offset: 0 };
const TORN: LogEvent = LogEvent::Truncated { what: Truncation::Body, offset: 0, dropped: 9 };

fn apply(replay: &mut WalReplay, sequence: u64, puts: usize) -> bool {
    let bytes = batch(sequence, puts);
    match replay.event(&RECORD, &bytes).unwrap() {
        ReplayStep::Apply(batch) => {
            replay.applied(batch.sequence(), u64::from(batch.count())).unwrap();
            true
        }
        ReplayStep::EndOfFile => false,
        ReplayStep::Continue => panic!("a good record was skipped"),
    }
}

#[test]
fn point_in_time_resumes_only_where_nothing_is_missing() {
    let mut replay = WalReplay::new(WalReplayMode::PointInTimeRecovery);
    replay.begin_file(FileNumber(3));
    assert!(apply(&mut replay, 1, 4));
    assert!(matches!(replay.event(&TORN, b"").unwrap(), ReplayStep::EndOfFile));
    assert_eq!(replay.stopped_in(), Some(FileNumber(3)));
    assert!(replay.take_warning().unwrap().starts_with("replay stops: 000003.log"));
    replay.begin_file(FileNumber(4));
    assert!(!apply(&mut replay, 6, 1), "number 5 is missing");
    replay.begin_file(FileNumber(5));
    assert!(apply(&mut replay, 5, 2));
    assert_eq!(replay.stopped_in(), None);
    assert!(apply(&mut replay, 7, 0));
    assert_eq!(replay.next_sequence(), Some(SequenceNumber(7)));
}

#[test]
fn nothing_is_due_before_the_first_batch() {
    let mut replay = WalReplay::new(WalReplayMode::PointInTimeRecovery);
    replay.begin_file(FileNumber(3));
    assert!(matches!(replay.event(&TORN, b"").unwrap(), ReplayStep::EndOfFile));
    replay.begin_file(FileNumber(4));
    assert!(!apply(&mut replay, 0, 1));
    assert!(!apply(&mut replay, 1, 1));
}

#[test]
fn numbers_may_jump_forward_and_not_backwards() {
    let mut replay = WalReplay::new(WalReplayMode::SkipAnyCorruptedRecords);
    replay.begin_file(FileNumber(3));
    assert!(apply(&mut replay, 10, 1));
    assert!(apply(&mut replay, 100, 3));
    let error = replay.applied(SequenceNumber(50), 2).unwrap_err();
    assert!(error.is_corruption() && error.message().contains("000003.log"), "{error}");
}

#[test]
fn reading_errors_are_fatal_unless_anything_may_be_skipped() {
    for mode in [
        WalReplayMode::TolerateCorruptedTailRecords,
        WalReplayMode::AbsoluteConsistency,
        WalReplayMode::PointInTimeRecovery,
    ] {
        assert_eq!(
            WalReplay::new(mode).read_error(Error::io("gone")).unwrap_err().kind(),
            ErrorKind::IoError
        );
    }
    let mut replay = WalReplay::new(WalReplayMode::SkipAnyCorruptedRecords);
    assert!(matches!(replay.read_error(Error::io("gone")).unwrap(), ReplayStep::EndOfFile));
    assert!(replay.take_warning().unwrap().contains("gone"));
}

#[test]
fn errors_name_the_file_and_the_offset() {
    let mut replay = WalReplay::new(WalReplayMode::AbsoluteConsistency);
    replay.begin_file(FileNumber(12));
    let event =
        LogEvent::Corrupt { what: LogCorruption::ChecksumMismatch, offset: 77, dropped: 5, recycled: false };
    let error = replay.event(&event, b"").unwrap_err();
    assert_eq!(error.message(), "000012.log: checksum mismatch at offset 77, 5 bytes dropped");
    let error = replay.event(&LogEvent::Record { offset: 9 }, b"short").unwrap_err();
    assert_eq!(error.message(), "000012.log: record of 5 bytes is no batch, at offset 9");
}

#[test]
fn timestamp_sizes_must_agree_where_the_family_is_open() {
    let recorded = [(ColumnFamilyId(1), 8), (ColumnFamilyId(2), 16)];
    let running = |family: ColumnFamilyId| (family.0 == 1).then_some(8);
    check_timestamp_sizes(&recorded, running).unwrap();
    let error = check_timestamp_sizes(&recorded, |_| Some(8)).unwrap_err();
    assert!(error.kind() == ErrorKind::NotSupported && error.message().contains("family 2"), "{error}");
}
