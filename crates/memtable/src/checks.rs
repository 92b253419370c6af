//! Checks of checksums and key order, which find damaged memory of a memtable.
//!
//! In: options, records. Out: `Corruption` if an entry is not as the writer added it. While the
//! checks are off, each call costs one test.
//!
//! Invariants
//!  1. If `protection_bytes` is not 0, each record ends with a checksum of that length. If the
//!     writer gives a checksum, the new record is compared with it before readers can find the
//!     record.
//!  2. A reader gets no entry that fails a check.
//!
//! A range tombstone is checked only when it is added: readers see fragments of tombstones, not
//! records.
//!
//! Source of the checks: RocksDB `db/memtable.cc`, `memtable/inlineskiplist.h`.

use crate::record::{self, Record, Target};
use crate::tree::{Tree, TreeRun};
use esker_base::entry_checksum::EntryChecksum;
use esker_base::{Error, Result, SequenceNumber, ValueType, probe};

/// Selects the checks of a memtable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Checks {
    /// Bytes of the checksum of each entry: 0 (none), 1, 2, 4 or 8. Each read of an entry compares
    /// the entry with its checksum.
    pub protection_bytes: u8,
    /// Whether a search also checks the checksums of all entries in the leaf in which it ends.
    pub on_seek: bool,
    /// Whether searches and steps check that keys are in order.
    pub order: bool,
}

impl Checks {
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.protection_bytes > 0 || self.order
    }

    /// Compares a new record with the checksum `expected`, if there is one. Then writes the
    /// checksum behind the record.
    /// # Errors
    /// `Corruption` if the record does not match the checksum.
    ///
    /// # Safety
    /// Behind the record there are `protection_bytes` bytes to which only the caller refers.
    #[cold]
    pub(crate) unsafe fn protect(&self, record: Record<'_>, expected: Option<EntryChecksum>) -> Result<()> {
        let found = checksum_of(record)?;
        compare(expected, found)?;
        let mut bytes = expected.unwrap_or(found).to_bytes();
        probe!("MemTable::protect", &mut bytes);
        // SAFETY: the bytes behind the record are the caller's (contract of this function).
        unsafe { record.write_checksum(&bytes[..usize::from(self.protection_bytes)]) };
        Ok(())
    }

    /// Compares the record with its checksum.
    /// # Errors
    /// `Corruption` if they differ.
    pub(crate) fn check(&self, record: Record<'_>) -> Result<()> {
        let len = usize::from(self.protection_bytes);
        if len == 0 {
            return Ok(());
        }
        // SAFETY: every record of a memtable is written with its checksum (invariant 1).
        let stored = unsafe { record.checksum(len) };
        let found = checksum_of(record)?.to_bytes();
        if stored == &found[..len] { Ok(()) } else { Err(mismatch()) }
    }

    /// Checks the leaf in which a search ended: checksums with `on_seek`, order with `order`.
    /// # Errors
    /// `Corruption`.
    pub(crate) fn check_run(&self, tree: &Tree, run: &TreeRun) -> Result<()> {
        for at in 0..run.len() {
            // SAFETY: the run was copied from this tree, which is borrowed.
            let record: Record<'_> = unsafe { run.record(at) };
            if self.on_seek {
                self.check(record)?;
            }
            if self.order && at > 0 {
                // SAFETY: the run was loaded from this tree, and `at` is a place in it.
                let before: Record<'_> = unsafe { run.record(at - 1) };
                check_order(tree, before, record)?;
            }
        }
        Ok(())
    }

    /// Does `Tree::visit_versions`, and checks each entry before its visit.
    /// # Errors
    /// `Corruption`. The entries before the damaged one may have been visited.
    #[cold]
    pub(crate) fn visit_versions<'t>(
        &self,
        tree: &'t Tree,
        target: &Target<'_>,
        visit: &mut dyn FnMut(Record<'t>) -> bool,
    ) -> Result<()> {
        if self.on_seek || self.order {
            let mut run = TreeRun::new();
            if tree.load_from(target, &mut run).is_some() {
                self.check_run(tree, &run)?;
            }
        }
        let mut checked = Ok(());
        tree.visit_versions(target, |record| {
            checked = self.check(record);
            checked.is_ok() && visit(record)
        });
        checked
    }
}

/// Checks the order of two neighbouring records.
/// # Errors
/// `Corruption` if `record` does not come behind `before`.
pub(crate) fn check_order(tree: &Tree, before: Record<'_>, record: Record<'_>) -> Result<()> {
    match Target::of(record).cmp_record(tree.icmp(), before) {
        std::cmp::Ordering::Less => Ok(()),
        _ => Err(Error::corruption("memtable: keys are out of order")),
    }
}

/// Compares an entry's checksum with the expected one.
/// # Errors
/// `Corruption` if they differ.
pub(crate) fn compare(expected: Option<EntryChecksum>, found: EntryChecksum) -> Result<()> {
    match expected {
        Some(expected) if expected != found => Err(mismatch()),
        _ => Ok(()),
    }
}

fn checksum_of(record: Record<'_>) -> Result<EntryChecksum> {
    let (internal_key, value) = record.key_value();
    let (user_key, trailer) = record::split(internal_key);
    let kind = ValueType::from_u8(trailer as u8).ok_or_else(mismatch)?;
    Ok(EntryChecksum::of(kind, user_key, value).with_sequence(SequenceNumber(trailer >> 8)))
}

#[cold]
fn mismatch() -> Error {
    Error::corruption("memtable entry per key-value checksum verification failed")
}

#[cfg(test)]
mod tests;
