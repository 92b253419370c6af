//! Finds memtables with keys of the ingested files.
//!
//! In: prepared files and replaced ranges. Out: the families whose memtables must be flushed first.

use super::Ingestion;
use esker_base::sync::Arc;
use esker_base::{ColumnFamilyId, Error, Result, SequenceNumber};
use esker_format::cursor::InternalIterator;
use esker_format::key::{self, InternalKeyComparator};
use esker_memtable::MemTable;
use std::collections::BTreeSet;

/// Families with a memtable entry in the range of a file, or in a replaced range. A file that goes
/// behind all others needs no flush.
pub(super) fn families_with_overlap(ingestion: &Ingestion) -> Vec<ColumnFamilyId> {
    let of_file = ingestion.files.iter().filter(|file| !file.options.ingest_behind).filter(|file| {
        let super_version = file.cf.super_version.load_full();
        super_version.memtables().any(|mem| holds_any(mem, &file.cf.icmp, file.smallest(), file.largest()))
    });
    let of_range = ingestion.replaced.iter().filter(|replaced| {
        let super_version = replaced.cf.super_version.load_full();
        super_version.memtables().any(|mem| match &replaced.range {
            None => !mem.is_empty(),
            Some((first, last)) => holds_any(mem, &replaced.cf.icmp, first, last),
        })
    });
    let overlapped: BTreeSet<ColumnFamilyId> =
        of_file.map(|file| file.cf.id).chain(of_range.map(|replaced| replaced.cf.id)).collect();
    overlapped.into_iter().collect()
}

/// Refuses the ingestion if memtables of these families must be flushed and may not.
/// # Errors
/// `InvalidArgument`.
pub(super) fn check_blocking_flush(ingestion: &Ingestion, overlapped: &[ColumnFamilyId]) -> Result<()> {
    let mut files = ingestion.files.iter();
    if !files.any(|file| !file.options.allow_blocking_flush && overlapped.contains(&file.cf.id)) {
        return Ok(());
    }
    Err(Error::invalid_argument("External file requires flush, and allow_blocking_flush is false"))
}

/// Whether a memtable has a user key within the bounds, at any timestamp.
fn holds_any(mem: &Arc<MemTable>, icmp: &InternalKeyComparator, smallest: &[u8], largest: &[u8]) -> bool {
    let (smallest, _) = icmp.split_timestamp(smallest);
    let mut entries = mem.iter();
    entries.seek(&key::seek_key(&icmp.first_version(smallest), SequenceNumber::MAX));
    if entries.valid() && icmp.compare_plain_keys(key::user_key(entries.key()), largest).is_le() {
        return true;
    }
    // A tombstone that ends at the first key, with any timestamp, does not cover it; one that
    // begins at the last key does.
    let (first, last) = (icmp.last_version(smallest), icmp.last_version(icmp.split_timestamp(largest).0));
    mem.num_range_deletes() > 0
        && mem.range_tombstones().iter().any(|set| set.overlaps(&first, &last, icmp, SequenceNumber::MAX))
}
