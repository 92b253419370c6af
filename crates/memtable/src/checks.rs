//! What a memtable checks of itself, so that memory which changed under it is found out: checksums
//! and the order of keys.
//!
//! In: options, records. Out: `Corruption` where an entry is not what was added. Off, it costs one
//! test a call.
//!
//! Invariants
//!  1. With `protection_bytes` each record ends in so many bytes of the checksum of what it says,
//!     made of what the writer gave, and compared with the record before that can be found.
//!  2. An entry that fails a check is shown to nobody.
//!
//! Range tombstones are compared when they are added only: they lie elsewhere, and readers see
//! fragments of them.
//!
//! Source of what is checked when: RocksDB `db/memtable.cc`, `memtable/inlineskiplist.h`.

use crate::record::{self, Record, Target};
use crate::tree::{Run, Tree};
use esker_base::entry_checksum::EntryChecksum;
use esker_base::{Error, Result, SequenceNumber, ValueType, probe};

/// What a memtable checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Checks {
    /// Bytes of the checksum of each entry: 0 (none), 1, 2, 4 or 8. Entries are compared with it
    /// whenever they are read.
    pub protection_bytes: u8,
    /// Whether a search also compares all entries of the leaf it ends in with their checksums.
    pub on_seek: bool,
    /// Whether keys must come in their order, where a search ends and where a cursor goes.
    pub order: bool,
}

impl Checks {
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.protection_bytes > 0 || self.order
    }

    /// Compares a fresh record with the checksum that came with it, if one did, and puts one behind
    /// it.
    /// # Errors
    /// `Corruption` if the record is not what that is a checksum of.
    ///
    /// # Safety
    /// Behind the record there are `protection_bytes` bytes that are still the caller's alone.
    #[cold]
    pub(crate) unsafe fn protect(&self, record: Record<'_>, expected: Option<EntryChecksum>) -> Result<()> {
        let found = checksum_of(record)?;
        compare(expected, found)?;
        let mut bytes = expected.unwrap_or(found).to_bytes();
        probe!("MemTable::protect", &mut bytes);
        // SAFETY: the caller's promise.
        unsafe { record.write_checksum(&bytes[..usize::from(self.protection_bytes)]) };
        Ok(())
    }

    /// Whether the record still says what its checksum was made of.
    /// # Errors
    /// `Corruption` if not.
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

    /// Checks where a search has ended.
    /// # Errors
    /// `Corruption`.
    pub(crate) fn check_run(&self, tree: &Tree, run: &Run) -> Result<()> {
        for at in 0..run.len() {
            // SAFETY: the run was copied from this tree, which is borrowed.
            let record: Record<'_> = unsafe { run.record(at) };
            if self.on_seek {
                self.check(record)?;
            }
            if self.order && at > 0 {
                // SAFETY: as above.
                let before: Record<'_> = unsafe { run.record(at - 1) };
                check_order(tree, before, record)?;
            }
        }
        Ok(())
    }

    /// `Tree::visit_versions`, checking.
    /// # Errors
    /// `Corruption`; the entries before it were visited.
    #[cold]
    pub(crate) fn visit_versions<'t>(
        &self,
        tree: &'t Tree,
        target: &Target<'_>,
        visit: &mut dyn FnMut(Record<'t>) -> bool,
    ) -> Result<()> {
        if self.on_seek || self.order {
            let mut run = Run::new();
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

/// # Errors
/// `Corruption` if `record` does not come behind `before`.
pub(crate) fn check_order(tree: &Tree, before: Record<'_>, record: Record<'_>) -> Result<()> {
    match Target::of(record).cmp_record(tree.icmp(), before) {
        std::cmp::Ordering::Less => Ok(()),
        _ => Err(Error::corruption("memtable: keys are out of order")),
    }
}

/// # Errors
/// `Corruption` if something was expected, and something else is found.
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
