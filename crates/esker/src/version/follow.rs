//! Follows a MANIFEST that another process writes.
//!
//! In: a set that was recovered with [`VersionSetOptions::follows`](super::VersionSetOptions). Out:
//! the versions that the owner has logged since, and the families that it has dropped.
//!
//! Cost: that of the new edits. A new MANIFEST is read whole. So is one whose new tables lack epoch
//! numbers (RocksDB before 8.0): they are inferred from all tables together.
//!
//! Invariants
//!  1. The set equals the MANIFEST up to the last whole atomic group that was read.
//!  2. After an error the set is unchanged, and the next call reads the MANIFEST from its start.
//!  3. Versions share the `TableFile`s of the versions before them, also after a new MANIFEST: a
//!     file becomes obsolete once no version names it.

use super::beside_owner::open_current_manifest;
use super::builder::{Built, VersionBuilder};
use super::file_meta::ObsoleteFiles;
use super::manifest::{ManifestReader, read_current};
use super::recover::{AtomicGroup, OpenFamily, Recovered, in_manifest, recover};
use super::{FamilyDescriptor, Version, VersionSet, VersionSetFamily};
use esker_base::sync::Arc;
use esker_base::{ColumnFamilyId, Error, FileNumber, Result, SequenceNumber};
use esker_format::version_edit::VersionEdit;
use std::collections::{BTreeMap, BTreeSet};

/// The position at which the reading of a MANIFEST continues.
#[derive(Debug)]
pub(super) struct ManifestTail {
    pub(super) reader: ManifestReader,
    /// Edits that wait for the rest of their atomic group.
    pub(super) group: AtomicGroup,
}

/// The changes since the MANIFEST was last read.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    /// The new version of each family whose files have changed.
    pub(crate) versions: Vec<(ColumnFamilyId, Arc<Version>)>,
    /// Families that edits name: their log numbers may have risen.
    pub(crate) named: Vec<ColumnFamilyId>,
    /// Families that the owner has dropped.
    pub(crate) dropped: Vec<ColumnFamilyId>,
}

impl VersionSet {
    /// Reads the edits that the owner has logged since the last call, and makes the resulting
    /// versions current. Skips families that the set does not have.
    /// # Errors
    /// `Corruption`: the MANIFEST contradicts itself · `InvalidArgument`: the directory now holds
    /// another database · `IoError`.
    pub(crate) fn read_later_edits(&mut self) -> Result<Followed> {
        let current = read_current(self.options.fs.as_ref(), &self.options.dir)?;
        let tail = self.tail.take().filter(|_| current == self.manifest_number);
        let Some(mut tail) = tail else { return self.read_whole() };
        let mut edits = Vec::new();
        while let Some(edit) = tail.reader.next_edit()? {
            let mut keep = |edit: &VersionEdit| {
                edits.push(edit.clone());
                Ok(())
            };
            tail.group.add(edit, &mut keep).map_err(|e| in_manifest(e, tail.reader.path()))?;
        }
        let is_open = |edit: &VersionEdit| self.families.contains_key(&edit.column_family);
        let lacks_epoch = |edit: &VersionEdit| edit.new_files.iter().any(|(_, f)| f.epoch_number == 0);
        if edits.iter().any(|edit| is_open(edit) && lacks_epoch(edit)) {
            return self.read_whole();
        }
        let followed = self.apply(&edits).map_err(|e| in_manifest(e, tail.reader.path()))?;
        self.tail = Some(tail);
        Ok(followed)
    }

    fn apply(&mut self, edits: &[VersionEdit]) -> Result<Followed> {
        let mut open: BTreeMap<ColumnFamilyId, OpenFamily> = BTreeMap::new();
        let (mut dropped, mut changed) = (BTreeSet::new(), BTreeSet::new());
        for edit in edits {
            let id = edit.column_family;
            let Some(family) = self.families.get(&id) else { continue };
            let family = open.entry(id).or_insert_with(|| OpenFamily {
                descriptor: family.descriptor.clone(),
                builder: VersionBuilder::new(Arc::clone(&family.current), Arc::clone(&family.locations)),
                log_number: family.log_number,
            });
            family.apply(edit)?;
            if edit.column_family_drop {
                dropped.insert(id);
            }
            if changes_version(edit) {
                changed.insert(id);
            }
        }
        open.retain(|id, _| !dropped.contains(id));
        let log_numbers: Vec<_> = open.iter().map(|(id, family)| (*id, family.log_number)).collect();
        let mut built = BTreeMap::new();
        for (id, family) in open.into_iter().filter(|(id, _)| changed.contains(id)) {
            built.insert(id, family.builder.finish(self.number_of_version(), &self.obsolete)?);
        }
        for (id, log_number) in &log_numbers {
            self.raise_log_number(*id, *log_number);
        }
        for edit in edits {
            self.take_numbers(
                edit.last_sequence.unwrap_or_default(),
                edit.min_log_number_to_keep.unwrap_or_default(),
            );
        }
        let named = log_numbers.into_iter().map(|(id, _)| id).collect();
        Ok(self.take(built, named, dropped))
    }

    /// Reads the MANIFEST that CURRENT names from its start.
    fn read_whole(&mut self) -> Result<Followed> {
        esker_base::probe!("follow:read_whole");
        let options = self.options.clone();
        let (number, mut reader) = open_current_manifest(options.fs.as_ref(), &options.dir, true)?;
        let wanted: Vec<FamilyDescriptor> = self.families.values().map(|f| f.descriptor.clone()).collect();
        let mut group = AtomicGroup::default();
        // The files of these versions do not belong to this set, which uses only their
        // descriptions.
        let nobodys = Arc::new(ObsoleteFiles::default());
        let mut recovered = recover(&options, &wanted, &mut reader, &mut group, &nobodys)?;
        self.check_same_database(&recovered)?;
        // A family may have been dropped, and another one with its name created.
        recovered.families.retain(|family| self.families.contains_key(&family.id));
        let there: BTreeSet<_> = recovered.families.iter().map(|family| family.id).collect();
        let dropped = self.families.keys().filter(|id| !there.contains(id)).copied().collect();
        let mut built = BTreeMap::new();
        for family in &recovered.families {
            let now = &self.families[&family.id];
            if let Some(builder) =
                VersionBuilder::towards(&now.current, &now.locations, &family.built.version)
            {
                built.insert(family.id, builder.finish(self.number_of_version(), &self.obsolete)?);
            }
        }
        for family in &recovered.families {
            self.raise_log_number(family.id, family.log_number);
        }
        self.take_numbers(recovered.last_sequence, recovered.min_log_number_to_keep);
        self.manifest_number = number;
        self.tail = Some(ManifestTail { reader, group });
        Ok(self.take(built, there.into_iter().collect(), dropped))
    }

    fn check_same_database(&self, recovered: &Recovered) -> Result<()> {
        match (self.db_id(), recovered.db_id.as_deref()) {
            (Some(before), Some(now)) if before != now => Err(Error::invalid_argument(format!(
                "{}: holds another database now (id {now}, before {before}); open it again",
                self.options.dir.display()
            ))),
            _ => Ok(()),
        }
    }

    /// Makes new versions current.
    pub(super) fn install_built(
        &mut self,
        built: BTreeMap<ColumnFamilyId, Built>,
    ) -> Vec<(ColumnFamilyId, Arc<Version>)> {
        self.forget_released_versions();
        let mut installed = Vec::with_capacity(built.len());
        for (id, b) in built {
            b.set_installed();
            let family = self.families.get_mut(&id).expect("built from this family");
            Arc::make_mut(&mut family.locations).update(b.moved);
            family.current = Arc::clone(&b.version);
            self.versions.push(Arc::downgrade(&b.version));
            installed.push((id, b.version));
        }
        installed
    }

    fn number_of_version(&mut self) -> u64 {
        let number = self.next_version;
        self.next_version += 1;
        number
    }

    fn take_numbers(&mut self, last_sequence: SequenceNumber, min_log_number_to_keep: FileNumber) {
        self.logged_sequence = self.logged_sequence.max(last_sequence);
        self.min_log_number_to_keep = self.min_log_number_to_keep.max(min_log_number_to_keep);
    }

    fn take(
        &mut self,
        built: BTreeMap<ColumnFamilyId, Built>,
        named: Vec<ColumnFamilyId>,
        dropped: BTreeSet<ColumnFamilyId>,
    ) -> Followed {
        for family in dropped.iter().filter_map(|id| self.families.remove(id)) {
            self.names.remove(family.name());
        }
        Followed { versions: self.install_built(built), named, dropped: dropped.into_iter().collect() }
    }
}

impl VersionSetFamily {
    /// The level of a table in the newest version; `None` if no family has it.
    pub(crate) fn level_of(&self, table: FileNumber) -> Option<usize> {
        self.locations.level(table)
    }
}

/// Whether the edit changes the files of its family, or the history that may be dropped.
fn changes_version(edit: &VersionEdit) -> bool {
    !edit.new_files.is_empty()
        || !edit.deleted_files.is_empty()
        || !edit.blob_file_additions.is_empty()
        || !edit.blob_file_garbages.is_empty()
        || !edit.compact_cursors.is_empty()
        || edit.full_history_ts_low.is_some()
}
