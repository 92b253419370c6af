//! Consistency checks of versions.
//!
//! Source: RocksDB `db/version_builder.cc` (consistency checks).

use super::version::DisplayKey;
use super::{FileMeta, Version, blob_meta};
use esker_base::sync::Arc;
use esker_base::{Error, Result};
use esker_format::key::{InternalKeyComparator, TRAILER_BYTES};
use esker_format::version_edit::FileMetaData;
use std::cmp::Ordering;

/// Checks order, bounds and blob files of the changes since `base`, which was checked before. Reads
/// no file.
/// # Errors
/// `Corruption`, naming level and files.
pub(crate) fn check_next_version(base: &Version, version: &Version) -> Result<()> {
    for (level, (old, new)) in base.levels().iter().zip(version.levels()).enumerate() {
        if Arc::ptr_eq(old, new) {
            continue;
        }
        let files = new.files();
        for file in files.iter() {
            check_bounds(level, file, version.icmp())?;
        }
        for pair in files.windows(2) {
            match level {
                0 => check_level0_pair(&pair[0], &pair[1], version.icmp())?,
                _ => check_sorted_pair(level, &pair[0], &pair[1], version.icmp())?,
            }
        }
    }
    blob_meta::check(version.blob_files())
}

fn check_bounds(level: usize, f: &FileMeta, icmp: &InternalKeyComparator) -> Result<()> {
    let long_enough = f.smallest.len().min(f.largest.len()) >= TRAILER_BYTES;
    if !long_enough || f.smallest != f.largest && icmp.compare(&f.smallest, &f.largest).is_gt() {
        return Err(Error::corruption(format!(
            "L{level} file #{} has no valid range: {} .. {}",
            f.number,
            DisplayKey(&f.smallest),
            DisplayKey(&f.largest)
        )));
    }
    Ok(())
}

/// Orders files newest first: by epoch, then by sequence numbers, then by file number.
pub(super) fn newest_first(a: &FileMeta, b: &FileMeta) -> Ordering {
    b.epoch_number.cmp(&a.epoch_number).then_with(|| newest_first_by_sequence(a, b))
}

/// Orders files newest first without epochs, as older RocksDB versions do.
pub(super) fn newest_first_by_sequence(a: &FileMetaData, b: &FileMetaData) -> Ordering {
    (b.largest_seqno, b.smallest_seqno, b.number).cmp(&(a.largest_seqno, a.smallest_seqno, a.number))
}

fn check_level0_pair(newer: &FileMeta, older: &FileMeta, icmp: &InternalKeyComparator) -> Result<()> {
    if newest_first(newer, older).is_gt() {
        return Err(Error::corruption(format!(
            "L0 files are not sorted: #{} of epoch {} before #{} of epoch {}",
            newer.number, newer.epoch_number, older.number, older.epoch_number
        )));
    }
    let overlap = icmp.compare(&newer.smallest, &older.largest).is_le()
        && icmp.compare(&newer.largest, &older.smallest).is_ge();
    if newer.epoch_number == older.epoch_number && overlap {
        return Err(Error::corruption(format!(
            "L0 files #{} and #{} have the same epoch {} and overlap",
            newer.number, older.number, newer.epoch_number
        )));
    }
    Ok(())
}

fn check_sorted_pair(
    level: usize,
    left: &Arc<FileMeta>,
    right: &Arc<FileMeta>,
    icmp: &InternalKeyComparator,
) -> Result<()> {
    if icmp.compare(&left.largest, &right.smallest).is_ge() {
        return Err(Error::corruption(format!(
            "L{level} has overlapping ranges: file #{} ends with {}, file #{} begins with {}",
            left.number,
            DisplayKey(&left.largest),
            right.number,
            DisplayKey(&right.smallest)
        )));
    }
    Ok(())
}
