//! Bounds of tables whose user timestamps are not persisted: in memory they carry timestamps, in a MANIFEST they do not.
//!
//! Source: RocksDB `db/version_edit_handler.cc`, `db/version_edit.cc`; formats.md §5.3 (custom tag 16).

use esker_format::key;
use esker_format::version_edit::{FileMetaData, VersionEdit};
use std::borrow::Cow;

/// Gives the bounds the smallest timestamp, or, if a range tombstone ends the file, the largest: so it stays exclusive.
pub(super) fn pad(file: &mut FileMetaData, timestamp_size: usize) {
    insert(&mut file.smallest, 0, timestamp_size);
    let ends_in_tombstone = key::trailer(&file.largest) == key::RANGE_END_SENTINEL;
    insert(&mut file.largest, if ends_in_tombstone { 0xFF } else { 0 }, timestamp_size);
}

fn insert(bound: &mut Vec<u8>, byte: u8, count: usize) {
    let at = key::user_key(bound).len();
    bound.splice(at..at, std::iter::repeat_n(byte, count));
}

/// The edit as a MANIFEST has it.
pub(crate) fn stripped(edit: &VersionEdit, timestamp_size: usize) -> Cow<'_, VersionEdit> {
    let concerned = |f: &FileMetaData| f.user_defined_timestamps_not_persisted;
    if timestamp_size == 0 || !edit.new_files.iter().any(|(_, f)| concerned(f)) {
        return Cow::Borrowed(edit);
    }
    let mut edit = edit.clone();
    for (_, file) in edit.new_files.iter_mut().filter(|(_, f)| concerned(f)) {
        remove(&mut file.smallest, timestamp_size);
        remove(&mut file.largest, timestamp_size);
    }
    Cow::Owned(edit)
}

fn remove(bound: &mut Vec<u8>, count: usize) {
    let end = key::user_key(bound).len();
    bound.drain(end.saturating_sub(count)..end);
}
