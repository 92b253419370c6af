//! Bounds of tables that store no user timestamps: the bounds have timestamps in memory, but not in
//! a MANIFEST.
//!
//! Source: RocksDB `db/version_edit_handler.cc`, `db/version_edit.cc` (custom tag 16).

use esker_base::comparator::Comparator;
use esker_format::key;
use esker_format::version_edit::{FileMetaData, VersionEdit};
use std::borrow::Cow;

/// Appends the oldest timestamp to the bounds. An upper bound from a range tombstone gets the
/// newest, so that it stays exclusive.
pub(super) fn pad(file: &mut FileMetaData, comparator: &dyn Comparator) {
    let oldest = comparator.min_timestamp();
    insert(&mut file.smallest, &oldest);
    let ends_in_tombstone = key::trailer(&file.largest) == key::RANGE_END_SENTINEL;
    insert(&mut file.largest, &if ends_in_tombstone { comparator.max_timestamp() } else { oldest });
}

fn insert(bound: &mut Vec<u8>, timestamp: &[u8]) {
    let at = key::user_key(bound).len();
    bound.splice(at..at, timestamp.iter().copied());
}

/// The edit in the form of a MANIFEST, without these timestamps.
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
