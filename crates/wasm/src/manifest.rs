//! The MANIFEST: the families of a database, their tables, and the WALs that they need.
//!
//! In: CURRENT, and the MANIFEST that it names. Out: [`Manifest`].
//! Source: RocksDB `db/version_edit_handler.cc`.
//!
//! Invariant: the edits of an atomic group take effect together, or not at all.

use crate::files::DirectoryFiles;
use esker_base::{ColumnFamilyId, Error, FileNumber, Result, comparator};
use esker_format::file_name::parse_current;
use esker_format::key::InternalKeyComparator;
use esker_format::log::{LogReader, SliceSource, next_strict};
use esker_format::version_edit::{FileMetaData, VersionEdit};
use std::collections::BTreeMap;

/// The state of a database after the last edit.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    pub(crate) families: BTreeMap<ColumnFamilyId, StoredFamily>,
    /// No family needs a WAL with a smaller number.
    pub(crate) min_log_number: FileNumber,
}

/// The state of one family.
#[derive(Clone, Debug)]
pub(crate) struct StoredFamily {
    pub(crate) name: String,
    comparator: String,
    /// The family needs no WAL with a smaller number.
    pub(crate) log_number: FileNumber,
    pub(crate) tables: BTreeMap<FileNumber, FileMetaData>,
}

impl StoredFamily {
    fn new(name: String) -> StoredFamily {
        StoredFamily {
            name,
            comparator: "leveldb.BytewiseComparator".to_owned(),
            log_number: FileNumber(0),
            tables: BTreeMap::new(),
        }
    }

    /// The order of its internal keys.
    /// # Errors
    /// `NotSupported` for a comparator of a user.
    pub(crate) fn comparator(&self) -> Result<InternalKeyComparator> {
        let (family, name) = (&self.name, &self.comparator);
        match comparator::by_name(name) {
            Some(order) => Ok(InternalKeyComparator::new(order)),
            None => Err(Error::not_supported(format!("column family '{family}': comparator '{name}'"))),
        }
    }
}

impl Manifest {
    /// Reads CURRENT and the MANIFEST.
    /// # Errors
    /// `Corruption` names the file.
    pub(crate) fn read(files: &DirectoryFiles) -> Result<Manifest> {
        let number = parse_current(files.get("CURRENT")?)?;
        let name = format!("MANIFEST-{:06}", number.0);
        let mut reader = LogReader::new(SliceSource(files.get(&name)?), 0);
        let mut manifest = Manifest::default();
        manifest.families.insert(ColumnFamilyId::DEFAULT, StoredFamily::new("default".to_owned()));
        let (mut record, mut group) = (Vec::new(), Vec::new());
        while next_strict(&mut reader, &mut record, &name)? {
            let edit = VersionEdit::decode(&record).map_err(|e| e.at(&name))?;
            let is_last = edit.remaining_in_atomic_group.is_none_or(|remaining| remaining == 0);
            group.push(edit);
            if is_last {
                group.drain(..).try_for_each(|edit| manifest.apply(edit)).map_err(|e| e.at(&name))?;
            }
        }
        Ok(manifest)
    }

    fn apply(&mut self, edit: VersionEdit) -> Result<()> {
        if let Some(number) = edit.min_log_number_to_keep {
            self.min_log_number = self.min_log_number.max(number);
        }
        let id = edit.column_family;
        if let Some(name) = edit.column_family_add {
            self.families.insert(id, StoredFamily::new(name));
        }
        if edit.column_family_drop {
            self.families.remove(&id);
            return Ok(());
        }
        let family = self.families.get_mut(&id);
        let family =
            family.ok_or_else(|| Error::corruption(format!("an edit of the unknown family {id}")))?;
        if let Some(name) = edit.comparator {
            family.comparator = name;
        }
        if let Some(number) = edit.log_number {
            family.log_number = family.log_number.max(number);
        }
        for (_, number) in edit.deleted_files {
            family.tables.remove(&number);
        }
        family.tables.extend(edit.new_files.into_iter().map(|(_, meta)| (meta.number, meta)));
        Ok(())
    }
}
