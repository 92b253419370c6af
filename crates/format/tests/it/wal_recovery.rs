//! Every damaged database recovers, in every mode, to what RocksDB 11.9 made of it, or fails where
//! that failed.

use crate::fixtures::{databases, files, manifest_edits, read};
use esker_base::{ColumnFamilyId, FileNumber, Result};
use esker_format::file_name::FileType;
use esker_format::log::{LogReader, SliceSource};
use esker_format::wal_recovery::{ReplayStep, WalReplay, WalReplayMode, check_timestamp_sizes};
use esker_format::write_batch::BatchOp;
use std::collections::BTreeMap;
use std::path::Path;

const MODES: [WalReplayMode; 4] = [
    WalReplayMode::TolerateCorruptedTailRecords,
    WalReplayMode::AbsoluteConsistency,
    WalReplayMode::PointInTimeRecovery,
    WalReplayMode::SkipAnyCorruptedRecords,
];

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// Replays the WALs of a database without tables or merges; gives its keys and its last sequence
/// number.
fn recover(db: &Path, mode: WalReplayMode) -> Result<(Contents, u64)> {
    let edits = manifest_edits(db);
    let needed = edits.iter().filter_map(|e| e.log_number).max().map_or(0, |n| n.0);
    let mut contents = Contents::new();
    let mut replay = WalReplay::new(mode);
    for (number, path) in files(db, FileType::Wal) {
        if number >= needed {
            replay_file(number, &read(&path), &mut replay, &mut contents)?;
        }
    }
    let last = replay.next_sequence().map_or(0, |next| next.0 - 1);
    Ok((contents, last.max(edits.iter().filter_map(|e| e.last_sequence).max().map_or(0, |s| s.0))))
}

fn replay_file(number: u64, bytes: &[u8], replay: &mut WalReplay, contents: &mut Contents) -> Result<()> {
    let mut reader = LogReader::new(SliceSource(bytes), number);
    let mut record = Vec::new();
    replay.begin_file(FileNumber(number));
    loop {
        let event = reader.next_record(&mut record)?;
        check_timestamp_sizes(reader.timestamp_sizes(), |family| {
            (family == ColumnFamilyId::DEFAULT).then_some(0)
        })?;
        match replay.event(&event, &record)? {
            ReplayStep::EndOfFile => return Ok(()),
            ReplayStep::Continue => {}
            ReplayStep::Apply(batch) => {
                for op in batch.iter() {
                    match op {
                        BatchOp::Put { key, value, .. } => contents.insert(key.to_vec(), value.to_vec()),
                        BatchOp::Delete { key, .. } => contents.remove(key),
                        other => panic!("{other:?} in a fixture that has only puts"),
                    };
                }
                replay.applied(batch.sequence(), u64::from(batch.count()))?;
            }
        }
    }
}

#[test]
fn damaged_wals_recover_to_what_rocksdb_makes_of_them() {
    let mut failures = Vec::new();
    let mut cases = 0;
    for db in databases("walrec_") {
        let name = db.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        let expected = String::from_utf8(read(&db.with_file_name("expected.txt"))).unwrap();
        for mode in MODES {
            cases += 1;
            let prefix = format!("11.9 mode={} ", mode as u8);
            let expected = expected.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap();
            let found = match recover(&db, mode) {
                Ok((contents, last)) => {
                    let key = contents.last_key_value().map(|(k, _)| String::from_utf8(k.clone()).unwrap());
                    format!("keys={} last={} seq={last}", contents.len(), key.unwrap_or_default())
                }
                Err(error) => format!("ERR {error}"),
            };
            let agrees =
                if expected.starts_with("ERR") { found.starts_with("ERR") } else { found == expected };
            if !agrees {
                failures.push(format!("{name} mode {mode:?}: expected {expected}, found {found}"));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {cases} cases differ:\n{}", failures.len(), failures.join("\n"));
    assert!(cases >= 4 * 46, "only {cases} cases were there");
}
