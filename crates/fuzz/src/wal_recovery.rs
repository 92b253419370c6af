//! Any bytes as two WALs, in every recovery mode: a stricter mode never applies more.

use esker_base::FileNumber;
use esker_format::log::{BLOCK_BYTES, LogReader, SliceSource};
use esker_format::wal_recovery::{ReplayStep, WalReplayMode, WalReplay};

/// The sequence numbers of the batches that are applied, or `None` if the open fails.
fn replay(files: [&[u8]; 2], mode: WalReplayMode) -> Option<Vec<u64>> {
    let mut replay = WalReplay::new(mode);
    let mut applied = Vec::new();
    let mut record = Vec::new();
    for (number, bytes) in (3..).zip(files) {
        replay.begin_file(FileNumber(number));
        let mut reader = LogReader::new(SliceSource(bytes), number).with_max_record_bytes(4 * BLOCK_BYTES);
        loop {
            let event = reader.next_record(&mut record).unwrap();
            match replay.event(&event, &record).ok()? {
                ReplayStep::EndOfFile => break,
                ReplayStep::Continue => {}
                ReplayStep::Apply(batch) => {
                    applied.push(batch.sequence().0);
                    replay.applied(batch.sequence(), u64::from(batch.count())).ok()?;
                }
            }
        }
    }
    Some(applied)
}

/// One input.
pub fn run(data: &[u8]) {
    let Some((&split, bytes)) = data.split_first() else { return };
    let (first, second) = bytes.split_at(bytes.len() * usize::from(split) / 256);
    let of = |mode| replay([first, second], mode);
    let absolute = of(WalReplayMode::AbsoluteConsistency);
    let point = of(WalReplayMode::PointInTimeRecovery);
    let tail = of(WalReplayMode::TolerateCorruptedTailRecords);
    let any = of(WalReplayMode::SkipAnyCorruptedRecords);
    // All modes read undamaged logs alike. Only stale records make a difference: some modes read
    // past them.
    if let (Some(absolute), Some(point)) = (&absolute, &point) {
        assert!(absolute.starts_with(point));
    }
    if let (Some(absolute), Some(tail)) = (&absolute, &tail) {
        assert_eq!(absolute, tail);
    }
    if let (Some(point), Some(any)) = (&point, &any) {
        assert!(point.len() <= any.len());
    }
}
