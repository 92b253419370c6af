//! Finds files that range tombstones cover completely, so that they can be deleted unread, and
//! measures what else tombstones hide.
//!
//! In: a version that has just been logged. Out: marks on its files ([`FileMeta::covered_at`],
//! [`FileMeta::hidden_below`]), for pickers. Checks new files with range tombstones, and other new
//! files under such files. No I/O: a table that is not open is skipped, and its tombstones wait for
//! the next compaction.
//!
//! Invariant: the tombstones of one file, within the bounds of that file, cover each key of a
//! covered file. They are newer than all its entries, and the file lies below theirs or is older in
//! level 0. So they also hide everything that the covered file hides. The covered file can be
//! deleted once no reader is older than the newest of these tombstones.
//!
//! Cost for a file with n tombstones: O(log n) for each gapless run of tombstones and each level,
//! O(log n) for each of [`MOST_OF_LEVEL0`] files, and a step for each tombstone over a covered
//! file. For any other new file: a search in each candidate above it.

use crate::cf::ColumnFamily;
use crate::files::open_table::opened_file;
use crate::picker::garbage::{average_blob_bytes, candidates};
use crate::version::{FileMeta, Version};
use esker_base::SequenceNumber;
use esker_base::sync::Arc;
use esker_format::key::{InternalKeyComparator, seek_key};
use esker_format::range_del::FragmentedRangeTombstones;

/// Most partly covered files whose covered bytes are measured for one file with tombstones. Further
/// files count 0.
const MOST_MEASURED: usize = 64;
/// Most older files of level 0 that are checked.
const MOST_OF_LEVEL0: usize = 64;

/// Marks files of the version. `new_files` were in no earlier version; with `all_new` all files
/// count as new.
pub(super) fn note_covered(cf: &ColumnFamily, version: &Version, new_files: &[Arc<FileMeta>], all_new: bool) {
    // With timestamps, tombstones delete only entries of older timestamps.
    if cf.icmp.timestamp_size() > 0 {
        return;
    }
    let mut found = Vec::new();
    for file in new_files {
        let Some(level) = file.level() else { continue };
        if file.stats().is_some_and(|s| s.range_deletions > 0) {
            note_below(cf, version, (level, file), &mut found);
        }
        if !all_new {
            note_above(cf, version, (level, file), &mut found);
        }
    }
    version.set_covered(found);
}

/// Marks `file` if tombstones of files above it cover it.
fn note_above(
    cf: &ColumnFamily,
    version: &Version,
    (level, file): (usize, &Arc<FileMeta>),
    found: &mut Vec<Arc<FileMeta>>,
) {
    let above = (0..level.max(1)).flat_map(|above| candidates(version, above));
    let others = above.filter(|other| other.may_have_range_deletions() && is_older(file, other));
    for other in others {
        let Some(reader) = opened_file(&cf.tables, other) else { continue };
        let Some(all) = reader.range_dels() else { continue };
        if (Tombstones { icmp: &cf.icmp, file: other, all }).mark(file, found) {
            return;
        }
    }
}

fn is_older(file: &FileMeta, other: &FileMeta) -> bool {
    file.number != other.number && file.largest_seqno < other.largest_seqno
}

/// Finds the effect of a file's tombstones on older files.
fn note_below(
    cf: &ColumnFamily,
    version: &Version,
    (level, file): (usize, &FileMeta),
    found: &mut Vec<Arc<FileMeta>>,
) {
    let Some(reader) = opened_file(&cf.tables, file) else { return };
    let Some(all) = reader.range_dels() else { return };
    let tombstones = Tombstones { icmp: &cf.icmp, file, all };
    let level0 = if level == 0 { version.files(0) } else { &[] };
    let level0: Vec<_> = level0.iter().filter(|f| is_older(f, file)).take(MOST_OF_LEVEL0).collect();
    let blob_bytes = average_blob_bytes(version);
    let mut measured = 0;
    let mut look = |(start, end): (&[u8], &[u8]), other: &Arc<FileMeta>| {
        let hidden = match tombstones.mark(other, found) {
            true if other.oldest_blob_file_number.is_none() => 0,
            true => all_bytes(other, blob_bytes),
            false if measured < MOST_MEASURED => {
                measured += 1;
                bytes_within(cf, other, blob_bytes, (start, end))
            }
            false => 0,
        };
        file.add_hidden_below(hidden);
    };
    for (i, run) in tombstones.runs().enumerate() {
        let (start, end) = run;
        // Only the first runs are compared with the files of level 0: a run over all of level 0
        // comes early, unless there are many runs.
        let overlapped = level0.iter().filter(|f| i < MOST_MEASURED && overlaps(&cf.icmp, f, run));
        overlapped.for_each(|other| look(run, other));
        for below in level + 1..version.num_levels() {
            let range = version.overlapping_range(below, Some(start), Some(end));
            let others = version.files(below)[range].iter().filter(|f| is_older(f, file));
            others.for_each(|other| look(run, other));
        }
    }
}

fn overlaps(icmp: &InternalKeyComparator, file: &FileMeta, (start, end): (&[u8], &[u8])) -> bool {
    icmp.compare_user_keys(file.smallest_user_key(), end).is_lt()
        && icmp.compare_user_keys(file.largest_user_key(), start).is_ge()
}

/// Bytes of a file, and of the blobs that it refers to on average.
fn all_bytes(file: &FileMeta, blob_bytes: u64) -> u64 {
    let blobs = file.oldest_blob_file_number.and(file.stats());
    let blobs = blobs.map_or(0, |s| s.entries.saturating_mul(blob_bytes));
    file.file_size.saturating_add(blobs)
}

/// Estimates the bytes of a file, blobs included, in `[start, end)`.
fn bytes_within(cf: &ColumnFamily, file: &FileMeta, blob_bytes: u64, (start, end): (&[u8], &[u8])) -> u64 {
    let Some(reader) = opened_file(&cf.tables, file) else { return 0 };
    let before = |user_key: &[u8]| seek_key(user_key, SequenceNumber::MAX);
    let within = reader.approximate_size(&before(start), &before(end)) as f64;
    let share = within / reader.properties().data_size.max(1) as f64;
    (all_bytes(file, blob_bytes) as f64 * share.min(1.0)) as u64
}

/// The tombstones of one file. They apply only within the file's bounds, and not at its last key.
struct Tombstones<'a> {
    icmp: &'a InternalKeyComparator,
    file: &'a FileMeta,
    all: &'a FragmentedRangeTombstones,
}

impl<'a> Tombstones<'a> {
    /// Ranges that the tombstones cover without a gap, in key order.
    fn runs(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let Tombstones { icmp, file, all } = *self;
        let (smallest, largest) = (file.smallest_user_key(), file.largest_user_key());
        let mut next = 0;
        let all_runs = std::iter::from_fn(move || {
            while next < all.len() && all.fragment(next).newest == SequenceNumber::ZERO {
                next += 1;
            }
            let from = Some(next).filter(|from| *from < all.len())?;
            next = all.covered_until(from, SequenceNumber::MAX);
            Some((all.boundary(from), all.boundary(next)))
        });
        let later = move |key| if icmp.compare_user_keys(key, smallest).is_lt() { smallest } else { key };
        let earlier = move |key| if icmp.compare_user_keys(key, largest).is_gt() { largest } else { key };
        let within = all_runs.map(move |(start, end)| (later(start), earlier(end)));
        within.filter(move |(start, end)| icmp.compare_user_keys(start, end).is_lt())
    }

    /// Whether the tombstones cover all of `other` and are newer than all its entries. Marks
    /// `other` if it can be deleted unread.
    fn mark(&self, other: &Arc<FileMeta>, found: &mut Vec<Arc<FileMeta>>) -> bool {
        let Some(newest) = self.covers(other) else { return false };
        // A table that is deleted unread cannot report its references to blob files.
        if other.oldest_blob_file_number.is_none() && other.set_covered_at(newest) {
            found.push(Arc::clone(other));
        }
        true
    }

    /// The number of the newest tombstone over `other`, if the tombstones cover all of it.
    fn covers(&self, other: &FileMeta) -> Option<SequenceNumber> {
        let (smallest, largest) = (other.smallest_user_key(), other.largest_user_key());
        let compare = |a: &[u8], b: &[u8]| self.icmp.compare_user_keys(a, b);
        // `end` is exclusive.
        let ends_before = |end: &[u8]| {
            let order = compare(largest, end);
            order.is_lt() || order.is_eq() && other.largest_is_exclusive()
        };
        if compare(smallest, self.file.smallest_user_key()).is_lt()
            || !ends_before(self.file.largest_user_key())
        {
            return None;
        }
        let first = self.all.position(smallest, self.icmp).checked_sub(1)?;
        let mut newest = SequenceNumber::ZERO;
        for fragment in (first..self.all.len()).map(|i| self.all.fragment(i)) {
            if fragment.newest <= other.largest_seqno {
                return None;
            }
            newest = newest.max(fragment.newest);
            if ends_before(fragment.end) {
                return Some(newest);
            }
        }
        None
    }
}
