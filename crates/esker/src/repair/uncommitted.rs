//! Takes entries of transactions that were not committed out of tables.
//!
//! In: the transactions that the WALs leave unresolved, and all tables. Out: for each table with
//! entries of theirs, a table without them; the summary names both.
//!
//! Under the policies write-prepared and write-unprepared tables have such entries. Flushes and
//! compactions keep them with their numbers, together with what they would hide. So the other
//! entries are the committed state. An entry whose WAL is lost stays, because nothing tells it from
//! a committed one.
//!
//! Cost: one search for each key in each table whose numbers include the entry's, and a copy of
//! each table with such an entry.

use super::salvage::DamagedTable;
use super::{Family, Found, Repair};
use crate::db;
use crate::wal::{UnresolvedTransaction, custom_order, family_and_key};
use esker_base::{ColumnFamilyId, Error, Result, SequenceNumber};
use esker_format::key::{InternalKeyComparator, LookupKey};
use esker_format::version_edit::FileMetaData;
use esker_table::{TableCache, TableFile, TableReadOptions};
use std::collections::{BTreeMap, BTreeSet};

/// The keys of a family's uncommitted entries, by sequence number.
pub(super) type Uncommitted = BTreeMap<SequenceNumber, BTreeSet<Vec<u8>>>;

impl Repair {
    /// Records the entries of `transaction` that tables may have.
    pub(super) fn note_uncommitted(&mut self, transaction: &UnresolvedTransaction) {
        let families = &self.families;
        let order =
            |family: &Family| InternalKeyComparator::new(family.descriptor.options.comparator.clone());
        let orders = |id| families.get(&id).and_then(|family| custom_order(&order(family)));
        for op in transaction.ops(&orders) {
            if let (Some((id, key)), Some((number, _))) = (family_and_key(&op.op), op.entry) {
                let of_family = self.uncommitted.entry(id).or_default();
                of_family.entry(number).or_default().insert(key.to_vec());
            }
        }
    }

    /// Replaces each table that has uncommitted entries.
    /// # Errors
    /// `IoError` · `Corruption`: a table changed after it was checked.
    pub(super) fn take_uncommitted_out(&mut self, found: &Found) -> Result<()> {
        if !self.uncommitted.is_empty() && !self.how.salvage {
            self.check_blobs(found)?;
        }
        for (id, uncommitted) in &self.uncommitted.clone() {
            let Some(family) = self.families.get(id) else { continue };
            let tables =
                db::family_tables(&self.options, family.paths.clone(), &family.descriptor, &self.open_files);
            let mut having = Vec::new();
            for table in &family.tables {
                if has_one_of(&tables, table, uncommitted)? {
                    having.push(table.clone());
                }
            }
            having.iter().try_for_each(|table| self.replace(*id, table, found))?;
        }
        Ok(())
    }

    fn replace(&mut self, id: ColumnFamilyId, table: &FileMetaData, found: &Found) -> Result<()> {
        let number = table.number;
        let in_directory = found.tables.iter().find(|(other, _)| *other == number);
        let path = match in_directory {
            Some((_, path)) => path.clone(),
            // An earlier step of this repair has written it.
            None => self.families[&id].paths.table(table.path_id, number),
        };
        let error = Error::corruption("it has entries of transactions that were not committed");
        let replaced = DamagedTable { number, path: path.clone(), error };
        let copied = self.salvage(&replaced)?;
        let family = self.families.get_mut(&id).expect("the table is one of its tables");
        family.tables.retain(|table| table.number != number);
        family.references.remove(&number);
        self.summary.tables_kept.retain(|kept| *kept != number);
        let new_number = copied.as_ref().and_then(|copied| copied.new_number);
        for salvaged in &mut self.summary.tables_salvaged {
            if salvaged.new_number == Some(number) {
                salvaged.new_number = new_number;
            }
        }
        self.summary.tables_salvaged.extend(copied.filter(|copied| copied.has_losses()));
        self.summary.tables_taken_back.push((number, new_number));
        self.left_over.push(path);
        Ok(())
    }
}

/// Whether the table has one of these entries.
fn has_one_of(tables: &TableCache, table: &FileMetaData, uncommitted: &Uncommitted) -> Result<bool> {
    let options = TableReadOptions { fill_cache: false, ..TableReadOptions::default() };
    for (number, keys) in uncommitted.range(table.smallest_seqno..=table.largest_seqno) {
        let reader = tables.reader(&TableFile { meta: table, level: None })?;
        for key in keys {
            let mut has = false;
            reader.get(&options, &LookupKey::new(key, *number), &mut |found, _| {
                has = found.sequence == *number;
                false
            })?;
            if has {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
