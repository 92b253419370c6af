//! The current versions of all column families, and the only way to change them: log an edit, then
//! apply it.
//!
//! The engine's manifest lock guards the set, and is held during MANIFEST I/O; the db mutex is
//! taken after it, never before. `log_and_apply` returns new versions; the engine installs them in
//! SuperVersions under the db mutex.
//! Source: RocksDB `db/version_set.cc`. Page: `docs/format/manifest.md`.
//!
//! Invariants
//!  1. The versions in the set equal the content of the MANIFEST that CURRENT names, up to the last
//!     synced record.
//!  2. After a failed write the set has the old versions, and the MANIFEST on disk has the old or
//!     the new ones. The next `log_and_apply` writes a fresh MANIFEST. Until it succeeds, the files
//!     of both must stay: [`VersionSet::files_to_quarantine`]. If it fails before the switch of
//!     CURRENT, the fresh MANIFEST is deleted and the failed edit's files become obsolete, so
//!     retries leak no files.
//!  3. Every number in a logged edit is below the `next_file` logged with it.

use super::beside_owner::{OwnersProgress, open_current_manifest};
use super::builder::{Built, Locations, VersionBuilder};
use super::file_meta::{ObsoleteBlob, ObsoleteFiles, ObsoleteTable, files_of_edit};
use super::follow::ManifestTail;
use super::manifest::{ManifestWriter, read_current, set_current};
use super::recover::{self, RecoveredFamily};
use super::{
    FamilyDescriptor, LogOptions, Numbers, Version, VersionSetOptions, check_family_name, snapshot,
    timestamps,
};
use esker_base::comparator::ComparatorRef;
use esker_base::sync::atomic::AtomicU64;
use esker_base::sync::{Arc, Weak};
use esker_base::{ColumnFamilyId, Error, FileNumber, Result, SequenceNumber};
use esker_format::file_name;
use esker_format::version_edit::VersionEdit;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

/// One family of the set.
#[derive(Debug)]
pub struct VersionSetFamily {
    pub(super) id: ColumnFamilyId,
    pub(super) descriptor: FamilyDescriptor,
    pub(super) log_number: FileNumber,
    pub(super) current: Arc<Version>,
    pub(super) locations: Arc<Locations>,
    epochs: Arc<AtomicU64>,
}

impl VersionSetFamily {
    /// The family's id, which is never reused.
    pub fn id(&self) -> ColumnFamilyId {
        self.id
    }
    /// The family's name.
    pub fn name(&self) -> &str {
        &self.descriptor.name
    }
    /// The user's description of the family.
    pub fn descriptor(&self) -> &FamilyDescriptor {
        &self.descriptor
    }
    /// The family needs no WAL below this number.
    pub fn log_number(&self) -> FileNumber {
        self.log_number
    }
    /// The family's newest version.
    pub fn current(&self) -> &Arc<Version> {
        &self.current
    }
    /// The next epoch number to allocate; each flush takes one with `fetch_add`, in the order of
    /// its memtables. Shared, so that the engine can use it without the manifest lock.
    pub fn epochs(&self) -> &Arc<AtomicU64> {
        &self.epochs
    }

    fn new_empty(
        id: ColumnFamilyId,
        descriptor: FamilyDescriptor,
        log_number: FileNumber,
        dir: &Path,
    ) -> VersionSetFamily {
        let current = Arc::new(descriptor.empty_version(id, dir));
        let epochs = Arc::new(AtomicU64::new(current.first_epoch()));
        VersionSetFamily { id, descriptor, log_number, current, locations: Arc::default(), epochs }
    }

    fn has_several_paths(&self) -> bool {
        self.current.paths.all().len() > 1
    }

    fn of_recovered(r: RecoveredFamily) -> VersionSetFamily {
        let current = r.built.version;
        VersionSetFamily {
            id: r.id,
            descriptor: r.descriptor,
            log_number: r.log_number,
            locations: Arc::new(Locations::of(&current)),
            epochs: Arc::new(AtomicU64::new(r.next_epoch.max(current.first_epoch()))),
            current,
        }
    }
}

/// The current versions of all families.
#[derive(Debug)]
pub struct VersionSet {
    pub(super) options: VersionSetOptions,
    numbers: Arc<Numbers>,
    pub(super) families: BTreeMap<ColumnFamilyId, VersionSetFamily>,
    pub(super) names: HashMap<String, ColumnFamilyId>,
    pub(super) max_column_family: u32,
    pub(super) db_id: Option<String>,
    pub(super) min_log_number_to_keep: FileNumber,
    /// See [`VersionSet::keep_sections_from`].
    oldest_section: Option<FileNumber>,
    prev_log_number: FileNumber,
    tracked_wals: BTreeMap<FileNumber, Option<u64>>,
    /// The largest sequence number in the MANIFEST.
    pub(super) logged_sequence: SequenceNumber,
    pub(super) manifest_number: FileNumber,
    /// The open MANIFEST, if the next edit may be appended to it; otherwise the edit goes to a
    /// fresh one.
    manifest: Option<ManifestWriter>,
    /// The owner's progress before the MANIFEST was read, if the set is read-only.
    pub(super) read_at: Option<OwnersProgress>,
    /// The position in another owner's MANIFEST; `None`: it has to be read from the start.
    pub(super) tail: Option<ManifestTail>,
    obsolete_manifests: Vec<FileNumber>,
    /// MANIFESTs that were not finished, or that CURRENT may name after a failed switch.
    unsure_manifests: Vec<FileNumber>,
    pub(crate) obsolete: Arc<ObsoleteFiles>,
    quarantine: BTreeSet<FileNumber>,
    /// Tables and blob files of edits that could not be written: they become obsolete when CURRENT
    /// names a MANIFEST without them.
    orphans: (Vec<ObsoleteTable>, Vec<ObsoleteBlob>),
    /// Every version that was ever current and may still be in use.
    pub(super) versions: Vec<Weak<Version>>,
    /// Versions in use when dead ones were last removed.
    versions_kept: usize,
    pub(super) next_version: u64,
    /// Whether some family has or had more than one path: MANIFESTs of this set may name path ids.
    has_several_paths: bool,
}

impl VersionSet {
    /// Writes the first MANIFEST of a new database and CURRENT. `db_id` is the content of IDENTITY.
    /// The caller has made the directory and IDENTITY; then [`VersionSet::recover`] opens the
    /// database.
    /// # Errors
    /// `IoError`: the directory then holds no database, unless CURRENT was switched.
    pub fn create_new_db(options: &VersionSetOptions, db_id: &str, comparator: &ComparatorRef) -> Result<()> {
        const FIRST_MANIFEST: FileNumber = FileNumber(1);
        let edit = VersionEdit {
            db_id: options.write_dbid_to_manifest.then(|| db_id.to_owned()),
            comparator: Some(comparator.name().to_owned()),
            log_number: Some(FileNumber(0)),
            next_file_number: Some(FileNumber(FIRST_MANIFEST.0 + 1)),
            last_sequence: Some(SequenceNumber::ZERO),
            ..VersionEdit::default()
        };
        delete_left_manifest(options, FIRST_MANIFEST)?;
        let mut manifest = ManifestWriter::create(options, FIRST_MANIFEST)?;
        manifest.preallocate(options.manifest_preallocation_size)?;
        manifest.append(&edit)?;
        manifest.sync()?;
        manifest.close()?;
        set_current(options, FIRST_MANIFEST)
    }

    /// Reads CURRENT and its MANIFEST, and infers missing epochs. Writes nothing; the first
    /// `log_and_apply` writes a fresh MANIFEST. Does not create families that the database lacks;
    /// [`VersionSet::family_by_name`] shows which exist.
    /// # Errors
    /// `IoError` (sub-code `PathNotFound` if there is no CURRENT) · `Corruption`: the MANIFEST
    /// contradicts itself or, unless the set is read-only, a table is missing or has another size ·
    /// `InvalidArgument`: `families` lacks families (each is listed), another comparator (both are
    /// named), or files on more levels than `num_levels`; the database itself is sound.
    pub fn recover(options: VersionSetOptions, families: &[FamilyDescriptor]) -> Result<VersionSet> {
        let follows = options.follows;
        let read_at = OwnersProgress::of_reader(&options);
        let (manifest_number, mut reader) =
            open_current_manifest(options.fs.as_ref(), &options.dir, follows)?;
        let obsolete = Arc::new(ObsoleteFiles::default());
        let mut group = recover::AtomicGroup::default();
        let r = recover::recover(&options, families, &mut reader, &mut group, &obsolete)?;
        let tail = follows.then_some(ManifestTail { reader, group });
        Ok(VersionSet::of_recovered(options, r, (manifest_number, read_at, tail), obsolete))
    }

    /// The set with the recovered content of MANIFEST `manifest_number`.
    pub(super) fn of_recovered(
        options: VersionSetOptions,
        r: recover::Recovered,
        (manifest_number, read_at, tail): (FileNumber, Option<OwnersProgress>, Option<ManifestTail>),
        obsolete: Arc<ObsoleteFiles>,
    ) -> VersionSet {
        let next_file = FileNumber(r.next_file.0.max(manifest_number.0.saturating_add(1)));
        let names = r.families.iter().map(|f| (f.descriptor.name.clone(), f.id)).collect();
        let mut set = VersionSet {
            options,
            names,
            numbers: Arc::new(Numbers::new(next_file, r.last_sequence)),
            families: r.families.into_iter().map(|f| (f.id, VersionSetFamily::of_recovered(f))).collect(),
            max_column_family: r.max_column_family,
            db_id: r.db_id,
            min_log_number_to_keep: r.min_log_number_to_keep,
            oldest_section: None,
            prev_log_number: r.prev_log_number,
            tracked_wals: r.tracked_wals,
            logged_sequence: r.last_sequence,
            manifest_number,
            manifest: None,
            read_at,
            tail,
            obsolete_manifests: Vec::new(),
            unsure_manifests: Vec::new(),
            obsolete,
            quarantine: BTreeSet::new(),
            orphans: Default::default(),
            versions: Vec::new(),
            versions_kept: 0,
            next_version: 1,
            has_several_paths: false,
        };
        set.versions = set.families.values().map(|f| Arc::downgrade(&f.current)).collect();
        set.has_several_paths = set.families.values().any(VersionSetFamily::has_several_paths);
        set
    }

    /// Logs `edits` (of one or several families, in this order), syncs, and makes them current.
    /// Each edit is one record. The set fills in `next_file_number`, `last_sequence` and
    /// `prev_log_number`. If an edit raises a family's log number and none sets
    /// `min_log_number_to_keep`, it fills in that, too: see [`VersionSet::keep_sections_from`].
    /// Returns the new version of every named family, in the order of their ids. Without edits,
    /// logs only numbers.
    /// # Errors
    /// `Corruption`: an edit does not fit the current version; nothing was written ·
    /// `ColumnFamilyDropped`: nothing was written · any other: see invariant 2; the caller may
    /// retry with the same edits.
    pub fn log_and_apply(
        &mut self,
        mut edits: Vec<VersionEdit>,
        log: LogOptions,
    ) -> Result<Vec<(ColumnFamilyId, Arc<Version>)>> {
        self.check_writable()?;
        if edits.is_empty() {
            edits.push(VersionEdit::default());
        }
        let built = self.build(&edits)?;
        if log.atomic_group && edits.len() > 1 {
            number_group(&mut edits);
        }
        self.say_min_log_number(&mut edits);
        self.write(&mut edits, log.new_manifest)?;
        Ok(self.install(built, &edits))
    }

    /// Writes a fresh MANIFEST with the state in force after a failed write, so that the failed
    /// change does not appear at the next opening. Does nothing if a write has succeeded since.
    /// # Errors
    /// Errors of `log_and_apply`: the state of the MANIFEST on disk stays unknown.
    pub fn settle(&mut self) -> Result<()> {
        if self.quarantine.is_empty() {
            return Ok(());
        }
        self.write(&mut [VersionEdit::default()], true)
    }

    fn check_writable(&self) -> Result<()> {
        if self.options.read_only {
            return Err(Error::not_supported("the database is open read-only"));
        }
        Ok(())
    }

    /// The next version of each family that the edits change.
    fn build(&mut self, edits: &[VersionEdit]) -> Result<BTreeMap<ColumnFamilyId, Built>> {
        let mut builders: BTreeMap<ColumnFamilyId, VersionBuilder> = BTreeMap::new();
        for edit in edits {
            let id = edit.column_family;
            debug_assert!(edit.column_family_add.is_none() && !edit.column_family_drop, "has its own method");
            let Some(family) = self.families.get(&id) else {
                return Err(Error::column_family_dropped(format!("column family {id} was dropped")));
            };
            let builder = builders.entry(id).or_insert_with(|| {
                VersionBuilder::new(Arc::clone(&family.current), Arc::clone(&family.locations))
            });
            builder.apply(edit)?;
        }
        let mut number = self.next_version;
        let mut built = BTreeMap::new();
        for (id, builder) in builders {
            built.insert(id, builder.finish(number, &self.obsolete)?);
            number += 1;
        }
        self.next_version = number;
        Ok(built)
    }

    /// Puts the smallest log number of all families into the last edit, if it rises and the caller
    /// did not set it.
    fn say_min_log_number(&self, edits: &mut [VersionEdit]) {
        let names_wal = edits.iter().any(|e| e.min_log_number_to_keep.is_some());
        if names_wal || edits.iter().all(|e| e.log_number.is_none()) {
            return;
        }
        let after = self.min_log_number_after(edits);
        let min = self.oldest_section.map_or(after, |section| section.min(after));
        if min > self.min_log_number_to_keep
            && let Some(last) = edits.last_mut()
        {
            last.min_log_number_to_keep = Some(min);
        }
    }

    /// Appends the edits and syncs; after an error the next call starts a fresh MANIFEST.
    fn write(&mut self, edits: &mut [VersionEdit], new_manifest: bool) -> Result<()> {
        let (max_bytes, space_amp) =
            (self.options.max_manifest_file_size, self.options.max_manifest_space_amp_pct);
        let open = self.manifest.take().filter(|m| !new_manifest && !m.is_full(max_bytes, space_amp));
        // This number is taken before the edits are numbered: their `next_file` must be above it.
        let number = if open.is_some() { self.manifest_number } else { self.numbers.new_file_number() };
        self.number_edits(edits);
        if open.is_none() {
            esker_base::probe!("manifest:fresh");
        }
        let written = match open {
            Some(manifest) => self.append_and_sync(manifest, edits),
            None => {
                // If the creation fails, an existing file is not deleted: it does not belong to
                // this set.
                let manifest = ManifestWriter::create(&self.options, number)?;
                match self.fill(manifest, edits) {
                    Ok(manifest) => set_current(&self.options, number).map(|()| manifest),
                    Err(e) => {
                        esker_base::probe!("manifest:write_failed");
                        self.give_up_manifest(number);
                        return Err(e);
                    }
                }
            }
        };
        match written {
            Ok(manifest) => {
                self.manifest = Some(manifest);
                self.switched_to(number);
                self.give_up_orphans(edits);
                Ok(())
            }
            Err(e) => {
                esker_base::probe!("manifest:write_failed");
                self.quarantine_after_failure(edits, number);
                Err(e)
            }
        }
    }

    /// Deletes a MANIFEST that CURRENT never named; if that fails, it is deleted with the next
    /// obsolete MANIFEST.
    fn give_up_manifest(&mut self, number: FileNumber) {
        let fs = &self.options.fs;
        let path = file_name::descriptor_file_name(&self.options.dir, number);
        let is_gone = matches!(fs.file_exists(&path), Ok(false)) || fs.delete_file(&path).is_ok();
        if !is_gone {
            self.unsure_manifests.push(number);
        }
    }

    fn number_edits(&mut self, edits: &mut [VersionEdit]) {
        let mut last = self.logged_sequence.max(self.numbers.last_sequence());
        for edit in &*edits {
            let tables = edit.new_files.iter().map(|(_, f)| f.number);
            let blobs = edit.blob_file_additions.iter().map(|b| b.number);
            tables.chain(blobs).chain(edit.log_number).for_each(|n| self.numbers.mark_used(n));
            let newest = edit.new_files.iter().map(|(_, f)| f.largest_seqno).max();
            last = last.max(newest.unwrap_or_default()).max(edit.last_sequence.unwrap_or_default());
        }
        for edit in edits {
            edit.next_file_number = Some(self.numbers.next_file_number());
            edit.last_sequence = Some(last);
            edit.prev_log_number = Some(FileNumber(0));
        }
    }

    /// Fills an empty MANIFEST with a snapshot and these edits, and syncs it. Does not touch
    /// CURRENT.
    fn fill(&self, mut manifest: ManifestWriter, edits: &[VersionEdit]) -> Result<ManifestWriter> {
        manifest.preallocate(self.options.manifest_preallocation_size)?;
        for edit in snapshot::edits(self) {
            self.append(&mut manifest, &edit)?;
        }
        manifest.begun();
        self.append_and_sync(manifest, edits)
    }

    fn append(&self, manifest: &mut ManifestWriter, edit: &VersionEdit) -> Result<()> {
        let family = self.families.get(&edit.column_family);
        let timestamp_size = family.map_or(0, |f| f.descriptor.comparator.timestamp_size());
        manifest.append(&timestamps::stripped(edit, timestamp_size))
    }

    fn append_and_sync(&self, mut manifest: ManifestWriter, edits: &[VersionEdit]) -> Result<ManifestWriter> {
        self.options.fs.check_may_change(&self.options.dir)?;
        for edit in edits {
            self.append(&mut manifest, edit)?;
        }
        manifest.sync()?;
        Ok(manifest)
    }

    fn switched_to(&mut self, number: FileNumber) {
        if number == self.manifest_number {
            return;
        }
        self.obsolete_manifests.push(self.manifest_number);
        self.manifest_number = number;
        // Older MANIFESTs no longer matter.
        self.obsolete_manifests.append(&mut self.unsure_manifests);
        self.quarantine.clear();
        // Requests a purge: the caller may not be a job that purges afterwards.
        self.obsolete.notify();
        self.tracked_wals.clear();
    }

    /// Marks files obsolete that failed edits named and these written edits do not.
    fn give_up_orphans(&mut self, edits: &[VersionEdit]) {
        let (tables, blobs) = std::mem::take(&mut self.orphans);
        if tables.is_empty() && blobs.is_empty() {
            return;
        }
        let tables_named: HashSet<_> =
            edits.iter().flat_map(|e| &e.new_files).map(|(_, f)| f.number).collect();
        let blobs_named: HashSet<_> =
            edits.iter().flat_map(|e| &e.blob_file_additions).map(|b| b.number).collect();
        self.obsolete.put_back(tables.into_iter().filter(|table| !tables_named.contains(&table.number)));
        self.obsolete.put_back_blobs(blobs.into_iter().filter(|blob| !blobs_named.contains(&blob.number)));
    }

    fn quarantine_after_failure(&mut self, edits: &[VersionEdit], manifest: FileNumber) {
        // Some of the files may only move between levels.
        let live = self.live_files();
        for edit in edits {
            if let Some(family) = self.families.get(&edit.column_family) {
                let (tables, blobs) = files_of_edit(edit, &family.current.paths);
                self.orphans.0.extend(tables.filter(|table| !live.contains(&table.number)));
                self.orphans.1.extend(blobs.filter(|blob| !live.contains(&blob.number)));
            }
            self.quarantine.extend(edit.new_files.iter().map(|(_, f)| f.number));
            self.quarantine.extend(edit.blob_file_additions.iter().map(|b| b.number));
        }
        self.quarantine.extend([self.manifest_number, manifest]);
        if manifest != self.manifest_number {
            self.unsure_manifests.push(manifest);
        }
    }

    /// Removes dead versions once they may be half of all, so that an edit costs only the versions
    /// that it makes.
    pub(super) fn forget_released_versions(&mut self) {
        if self.versions.len() > self.versions_kept.saturating_mul(2).max(64) {
            self.versions.retain(|v| v.strong_count() > 0);
            self.versions_kept = self.versions.len();
        }
    }

    /// Makes logged edits current.
    fn install(
        &mut self,
        built: BTreeMap<ColumnFamilyId, Built>,
        edits: &[VersionEdit],
    ) -> Vec<(ColumnFamilyId, Arc<Version>)> {
        for edit in edits {
            self.logged_sequence = self.logged_sequence.max(edit.last_sequence.unwrap_or_default());
            let min_log = edit.min_log_number_to_keep.unwrap_or_default();
            self.min_log_number_to_keep = self.min_log_number_to_keep.max(min_log);
            self.raise_log_number(edit.column_family, edit.log_number.unwrap_or_default());
        }
        self.prev_log_number = FileNumber(0);
        self.install_built(built)
    }

    /// Adds a family with a new id; `log_number` is the current WAL's.
    /// # Errors
    /// `InvalidArgument`: the name is taken, empty or has a NUL · `IoError` from the MANIFEST.
    pub fn create_column_family(
        &mut self,
        descriptor: FamilyDescriptor,
        log_number: FileNumber,
    ) -> Result<(ColumnFamilyId, Arc<Version>)> {
        let ids = self.create_column_families(vec![descriptor], log_number)?;
        Ok((ids[0], Arc::clone(&self.families[&ids[0]].current)))
    }

    /// Adds families with new ids, in this order, in one write; `log_number` is the current WAL's.
    /// A crash during the write may keep only some of them, the first ones.
    /// # Errors
    /// `InvalidArgument` if a name is taken, repeated or invalid (`check_family_name`) · errors of
    /// [`VersionSet::log_and_apply`].
    pub fn create_column_families(
        &mut self,
        descriptors: Vec<FamilyDescriptor>,
        log_number: FileNumber,
    ) -> Result<Vec<ColumnFamilyId>> {
        self.check_writable()?;
        descriptors.iter().try_for_each(|d| check_family_name(&d.name))?;
        let mut new = HashSet::with_capacity(descriptors.len());
        let mut names = descriptors.iter().map(|d| d.name.as_str());
        if let Some(name) = names.find(|name| self.names.contains_key(*name) || !new.insert(*name)) {
            return Err(Error::invalid_argument(format!("column family '{name}' exists already")));
        }
        // Even after a failure the ids may be on disk, so they are never used again.
        let first = self.max_column_family + 1;
        self.max_column_family += u32::try_from(descriptors.len()).expect("ids are not used up");
        let ids: Vec<_> = (first..=self.max_column_family).map(ColumnFamilyId).collect();
        let added = |(id, descriptor): (&ColumnFamilyId, &FamilyDescriptor)| VersionEdit {
            column_family: *id,
            column_family_add: Some(descriptor.name.clone()),
            comparator: Some(descriptor.comparator.name().to_owned()),
            persist_user_defined_timestamps: snapshot::persist_timestamps(descriptor),
            log_number: Some(log_number),
            ..VersionEdit::default()
        };
        let mut edits: Vec<_> = ids.iter().zip(&descriptors).map(added).collect();
        if !edits.is_empty() {
            self.write(&mut edits, false)?;
        }
        for (id, descriptor) in ids.iter().zip(descriptors) {
            let family = VersionSetFamily::new_empty(*id, descriptor, log_number, &self.options.dir);
            self.versions.push(Arc::downgrade(&family.current));
            self.has_several_paths |= family.has_several_paths();
            self.names.insert(family.name().to_owned(), *id);
            self.families.insert(*id, family);
        }
        Ok(ids)
    }

    /// Drops a family: its id is never used again, its files become obsolete with its last version.
    /// # Errors
    /// `InvalidArgument`: the default family, or an unknown one · `IoError` from the MANIFEST.
    pub fn drop_column_family(&mut self, id: ColumnFamilyId) -> Result<()> {
        self.drop_column_families(&HashSet::from([id]))
    }

    /// Drops families in one write. A crash during the write may drop some of them.
    /// # Errors
    /// `InvalidArgument` for the default family or an unknown one · errors of
    /// [`VersionSet::log_and_apply`].
    pub fn drop_column_families(&mut self, leaving: &HashSet<ColumnFamilyId>) -> Result<()> {
        self.check_writable()?;
        if leaving.contains(&ColumnFamilyId::DEFAULT) {
            return Err(Error::invalid_argument("the default column family cannot be dropped"));
        }
        if let Some(id) = leaving.iter().find(|id| !self.families.contains_key(id)) {
            return Err(Error::invalid_argument(format!("column family {id} is not there")));
        }
        let dropped = |id: &ColumnFamilyId| VersionEdit {
            column_family: *id,
            column_family_drop: true,
            max_column_family: Some(self.max_column_family),
            ..VersionEdit::default()
        };
        let mut edits: Vec<_> = leaving.iter().map(dropped).collect();
        // Sorted, so that the same families give the same edits.
        edits.sort_unstable_by_key(|edit| edit.column_family);
        let others = self.families.values().filter(|f| !leaving.contains(&f.id)).map(|f| f.log_number);
        let min = others.chain(self.oldest_section).min().unwrap_or_default();
        // WALs that only these families needed will be deleted. A crash may restore their names,
        // but not all of their bytes.
        if min > self.min_log_number_to_keep {
            edits.push(VersionEdit { min_log_number_to_keep: Some(min), ..VersionEdit::default() });
        }
        self.write(&mut edits, false)?;
        self.min_log_number_to_keep = self.min_log_number_to_keep.max(min);
        for family in leaving.iter().filter_map(|id| self.families.remove(id)) {
            self.names.remove(family.name());
        }
        Ok(())
    }

    /// A family by id.
    pub fn family(&self, id: ColumnFamilyId) -> Option<&VersionSetFamily> {
        self.families.get(&id)
    }

    /// A family by name.
    pub fn family_by_name(&self, name: &str) -> Option<&VersionSetFamily> {
        self.families.get(self.names.get(name)?)
    }

    /// All families by id, except unopened families of a read-only set.
    pub fn families(&self) -> impl Iterator<Item = &VersionSetFamily> {
        self.families.values()
    }

    /// A family's newest version.
    pub fn current(&self, id: ColumnFamilyId) -> Option<&Arc<Version>> {
        self.family(id).map(VersionSetFamily::current)
    }

    /// The counters.
    pub fn numbers(&self) -> &Arc<Numbers> {
        &self.numbers
    }

    /// The set's options.
    pub fn options(&self) -> &VersionSetOptions {
        &self.options
    }

    /// Changes the limits of a MANIFEST. A larger MANIFEST is followed by a fresh one, for which
    /// `preallocate` bytes are reserved.
    pub fn set_manifest_limits(&mut self, bytes: u64, space_amp_pct: u64, preallocate: u64) {
        self.options.max_manifest_file_size = bytes;
        self.options.max_manifest_space_amp_pct = space_amp_pct;
        self.options.manifest_preallocation_size = preallocate;
    }

    /// The database's id in the MANIFEST.
    pub fn db_id(&self) -> Option<&str> {
        self.db_id.as_deref()
    }

    /// Sets the database's id for fresh MANIFESTs (from IDENTITY, if the MANIFEST had none).
    pub fn set_db_id(&mut self, db_id: String) {
        self.db_id = Some(db_id);
    }

    /// The largest sequence number in the MANIFEST.
    pub fn logged_sequence(&self) -> SequenceNumber {
        self.logged_sequence
    }

    /// No family or prepared transaction needs a WAL below this number.
    pub fn min_log_number_to_keep(&self) -> FileNumber {
        self.min_log_number_to_keep
    }

    /// A WAL that LevelDB was still flushing; 0 in RocksDB's and Esker's MANIFESTs.
    pub fn prev_log_number(&self) -> FileNumber {
        self.prev_log_number
    }

    /// WALs that a RocksDB with `track_and_verify_wals_in_manifest` recorded, with their synced
    /// sizes; a fresh MANIFEST has no such records.
    pub fn tracked_wals(&self) -> &BTreeMap<FileNumber, Option<u64>> {
        &self.tracked_wals
    }

    /// The value of [`VersionSet::min_log_number_to_keep`] after these edits: the smallest log
    /// number of any family.
    pub fn min_log_number_after(&self, edits: &[VersionEdit]) -> FileNumber {
        let number = |f: &VersionSetFamily| {
            let log = edits.iter().filter(|e| e.column_family == f.id).filter_map(|e| e.log_number).max();
            f.log_number.max(log.unwrap_or_default())
        };
        self.families.values().map(number).min().unwrap_or_default()
    }

    /// Records, in memory only, that a family needs no WAL below `log_number`: its memtables are
    /// empty. The next MANIFEST record that raises a log number may then release WALs.
    pub fn raise_log_number(&mut self, id: ColumnFamilyId, log_number: FileNumber) {
        if let Some(f) = self.families.get_mut(&id) {
            f.log_number = f.log_number.max(log_number);
        }
    }

    /// Makes later records keep WALs from this one on, for prepared transactions, even if no family
    /// needs them; `None`: no prepared transaction needs an older WAL than the families do.
    pub fn keep_sections_from(&mut self, oldest: Option<FileNumber>) {
        self.oldest_section = oldest;
    }

    /// Number of the MANIFEST that CURRENT names.
    pub fn manifest_number(&self) -> FileNumber {
        self.manifest_number
    }

    /// Bytes of the open MANIFEST; 0 until the first edit after recovery or a failed write.
    pub fn manifest_bytes(&self) -> u64 {
        self.manifest.as_ref().map_or(0, ManifestWriter::bytes)
    }

    /// Largest family id ever used.
    pub fn max_column_family(&self) -> u32 {
        self.max_column_family
    }

    /// Numbers of all table and blob files that some version in use names, and of the quarantined
    /// files. Visits all versions: meant for scans of the directory, not for every compaction.
    pub fn live_files(&self) -> HashSet<FileNumber> {
        let mut live: HashSet<FileNumber> = self.quarantine.iter().copied().collect();
        for version in self.versions.iter().filter_map(Weak::upgrade) {
            live.extend(version.live_files());
        }
        live
    }

    /// Versions of a family that are still in use, the current one included.
    pub fn live_versions(&self, family: ColumnFamilyId) -> impl Iterator<Item = Arc<Version>> {
        self.versions
            .iter()
            .filter_map(Weak::upgrade)
            .filter(move |version| version.column_family() == family)
    }

    /// Bytes of tables that no version names and that are not deleted yet.
    pub fn obsolete_table_bytes(&self) -> u64 {
        self.obsolete.table_bytes()
    }

    /// Files of any kind that must stay because a MANIFEST write failed and its result on disk is
    /// unknown: tables and blob files of edits that may be in force, and both MANIFESTs. WALs stay
    /// anyway, because no log number rose. When the set is empty again, the failed edits' files are
    /// obsolete.
    pub fn files_to_quarantine(&self) -> &BTreeSet<FileNumber> {
        &self.quarantine
    }

    /// Whether MANIFESTs of this set may have tables in other paths than the first of their family.
    pub(crate) fn has_several_paths(&self) -> bool {
        self.has_several_paths
    }

    /// Whether a MANIFEST may name this table or blob file although its edit failed. If so, the
    /// writer must not delete it.
    pub fn may_be_named(&self, file: FileNumber) -> bool {
        self.quarantine.contains(&file)
    }

    /// Sets a function that is called whenever [`VersionSet::take_obsolete_tables`] has one more
    /// table to report. The call comes on any thread, under any lock, so `tell` may only schedule
    /// work.
    pub fn on_obsolete_table(&self, tell: impl Fn() + Send + Sync + 'static) {
        self.obsolete.on_obsolete(tell);
    }

    /// Table files that a version of this set named and that no version names now. The caller
    /// deletes them: each is reported only once.
    pub fn take_obsolete_tables(&self) -> Vec<ObsoleteTable> {
        let tables = self.obsolete.take_tables();
        let (keep, gone): (Vec<_>, Vec<_>) =
            tables.into_iter().partition(|table| self.quarantine.contains(&table.number));
        self.obsolete.put_back(keep);
        gone
    }

    /// [`VersionSet::take_obsolete_tables`] for blob files.
    pub fn take_obsolete_blobs(&self) -> Vec<ObsoleteBlob> {
        let blobs = self.obsolete.take_blobs();
        let (keep, gone): (Vec<_>, Vec<_>) =
            blobs.into_iter().partition(|blob| self.quarantine.contains(&blob.number));
        self.obsolete.put_back_blobs(keep);
        gone
    }

    /// MANIFESTs that CURRENT cannot name now. The caller deletes them: each is reported only once.
    pub fn take_obsolete_manifests(&mut self) -> Vec<FileNumber> {
        std::mem::take(&mut self.obsolete_manifests)
    }

    /// Closes the MANIFEST. All its records have been synced already.
    /// # Errors
    /// `IoError`; no data is lost.
    pub fn close(&mut self) -> Result<()> {
        self.manifest.take().map_or(Ok(()), ManifestWriter::close)
    }
}

/// Deletes the remains of a crashed creation of a database. CURRENT, if there is one, names another
/// MANIFEST.
/// # Errors
/// `InvalidArgument` if CURRENT names this MANIFEST · `IoError` · `Corruption` if CURRENT names no
/// MANIFEST.
fn delete_left_manifest(options: &VersionSetOptions, number: FileNumber) -> Result<()> {
    let (fs, path) = (&options.fs, file_name::descriptor_file_name(&options.dir, number));
    if !fs.file_exists(&path)? {
        return Ok(());
    }
    if fs.file_exists(&file_name::current_file_name(&options.dir))?
        && read_current(fs.as_ref(), &options.dir)? == number
    {
        return Err(Error::invalid_argument(format!("{}: exists, and CURRENT names it", path.display())));
    }
    fs.delete_file(&path)
}

/// Writes into each edit the number of group edits that follow it.
fn number_group(edits: &mut [VersionEdit]) {
    let following = (0..u32::try_from(edits.len()).expect("edits fit in memory")).rev();
    for (edit, n) in edits.iter_mut().zip(following) {
        edit.remaining_in_atomic_group = Some(n);
    }
}

#[cfg(test)]
mod tests;
