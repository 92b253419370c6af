//! Recovers changed WALs with Esker and RocksDB.
//!
//! WALs have changed records under right checksums, changed bytes, or a cut end. Law, in each
//! recovery mode: if RocksDB recovers the database, Esker recovers the same entries. Esker may
//! refuse in two cases (`is_stricter_on_purpose`).

use crate::oracle::{OracleAnswer, ask};
use crate::scene::{Files, databases, contents};
use esker::ErrorKind;
use esker::internals::format::file_name::{FileType, parse_file_name};
use esker::internals::format::log::{LogEvent, LogReader, LogWriter, SliceSource};

/// Number of bytes of the input for one change.
const CHANGE: usize = 6;
/// The recovery mode `kSkipAnyCorruptedRecords`.
const SKIP_ANY: usize = 3;

fn records(bytes: &[u8], number: u64) -> Vec<Vec<u8>> {
    let mut reader = LogReader::new(SliceSource(bytes), number);
    let (mut records, mut record) = (Vec::new(), Vec::new());
    while let Ok(LogEvent::Record { .. }) = reader.next_record(&mut record) {
        records.push(record.clone());
    }
    records
}

/// Applies a change to the records of a log.
fn change_records(records: &mut Vec<Vec<u8>>, change: &[u8; CHANGE]) {
    let &[kind, at, low, high, count, byte] = change;
    if records.is_empty() {
        return;
    }
    let at = usize::from(at) % records.len();
    let record = &mut records[at];
    let place = usize::from(u16::from_le_bytes([low, high])) % (record.len() + 1);
    let end = (place + usize::from(count % 16)).min(record.len());
    match kind % 8 {
        0 if place < record.len() => record[place] ^= byte.max(1),
        1 => record[place..end].fill(byte),
        2 => record.truncate(place),
        3 => drop(record.splice(place..end, [byte])),
        4 => drop(records.remove(at)),
        5 => {
            let again = record.clone();
            records.push(again);
        }
        _ => {}
    }
}

/// Applies a change to the bytes of the log.
fn change_bytes(log: &mut Vec<u8>, change: &[u8; CHANGE]) {
    let &[kind, _, low, high, _, byte] = change;
    let place = usize::from(u16::from_le_bytes([low, high])) % (log.len() + 1);
    match kind % 8 {
        6 if place < log.len() => log[place] ^= byte.max(1),
        7 => log.truncate(place),
        _ => {}
    }
}

/// Returns `files` with a changed WAL.
fn changed(files: &Files, changes: &[[u8; CHANGE]]) -> Option<Files> {
    let mut files = files.clone();
    let log = files.iter_mut().rev().find_map(|(path, bytes)| {
        let (kind, number) = parse_file_name(path.file_name()?.to_str()?)?;
        (kind == FileType::Wal).then_some((number.0, bytes))
    });
    let (number, log) = log?;
    let mut records = records(log, number);
    for change in changes {
        change_records(&mut records, change);
    }
    let mut writer = LogWriter::new(number, false);
    log.clear();
    for record in &records {
        writer.add_record(record, log);
    }
    for change in changes {
        change_bytes(log, change);
    }
    Some(files)
}

/// Whether Esker rightly refuses a WAL that RocksDB accepts.
///
/// There are two cases. First, a changed batch is a section of a two-phase transaction. Without
/// `allow_2pc`, RocksDB refuses such a batch in most recovery modes. Under
/// `kSkipAnyCorruptedRecords` it silently skips the section, so a committed transaction would be
/// lost. Second, a section ends without a beginning. No writer makes such a section; RocksDB checks
/// this by an assertion only.
fn is_stricter_on_purpose(recovery: usize, why: &esker::Error) -> bool {
    match why.kind() {
        ErrorKind::NotSupported => recovery == SKIP_ANY,
        ErrorKind::Corruption => why.message().contains("a prepared section ends that never began"),
        _ => false,
    }
}

/// Runs one input. The first byte selects the database and the recovery mode. The rest is changes
/// of six bytes each.
pub fn run(data: &[u8]) {
    let Some((&switches, data)) = data.split_first() else { return };
    let (variant, recovery) = (usize::from(switches % 16) % databases().len(), usize::from(switches >> 4) % 4);
    let (changes, _) = data.as_chunks::<CHANGE>();
    let Some(files) = changed(&databases()[variant], &changes[..changes.len().min(4)]) else { return };
    let own = contents(&files, variant, recovery);
    match (ask(&files, recovery), own) {
        (Some(OracleAnswer::Holds(theirs)), Ok(own)) => assert_eq!(own, theirs, "recovery mode {recovery}"),
        (_, Err(why)) if is_stricter_on_purpose(recovery, &why) => {}
        (Some(OracleAnswer::Holds(theirs)), Err(why)) => {
            panic!("recovery mode {recovery}: RocksDB recovers {} entries, Esker says {why}", theirs.concat().len())
        }
        _ => {}
    }
}
