//! The newest state of a database whose files are all there, for `best_efforts_recovery`. Writes
//! nothing.
//!
//! In: the MANIFESTs of a directory from which files are missing. Out: edits that make up the
//! newest state of each family that has all its files.
//! Source: RocksDB `db/version_edit_handler.cc` (`VersionEditHandlerPointInTime`),
//! `db/version_builder.cc`, `include/rocksdb/options.h`.
//!
//! Invariants
//!  1. Each family gets the files that it had after one of its edits. From level 0 only the newest
//!     files may be missing: they are left out, and the family is as it was before them.
//!  2. Edits that several families logged together change the files of all of them, or of none.
//!  3. Files of families that are not opened do not matter. Only readers leave families out.
//!  4. Numbers of all edits count, also of those whose files are left out: no number comes twice.

use super::beside_owner::OwnersProgress;
use super::blob_meta::{self, BlobFiles, blob_file_size};
use super::check::newest_first_by_sequence;
use super::file_meta::ObsoleteFiles;
use super::manifest::{ManifestReader, read_current, set_current, write_manifest};
use super::recover::{recover_edits, table_size};
use super::{DEFAULT_COLUMN_FAMILY_NAME, FamilyDescriptor, FileMeta, VersionSet, VersionSetOptions};
use esker_base::sync::Arc;
use esker_base::{ColumnFamilyId, Error, ErrorKind, FileNumber, Result, SubCode};
use esker_format::file_name::{FilePaths, FileType, descriptor_file_name, parse_file_name};
use esker_format::unique_id::unique_id;
use esker_format::version_edit::{FileMetaData, VersionEdit};
use esker_table::TableReader;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The newest state that has all its files.
pub(crate) struct NewestState {
    /// The MANIFEST that has it.
    manifest: FileNumber,
    /// Edits that make it up, complete by themselves.
    edits: Vec<VersionEdit>,
    /// A sentence about each family that lacks files, and about a newer MANIFEST that cannot be
    /// read; empty if nothing is missing.
    pub(crate) losses: Vec<String>,
    /// The numbers of its tables and blob files.
    pub(crate) files: HashSet<FileNumber>,
    /// The names of its families.
    families: HashSet<String>,
}

/// Takes the MANIFEST that CURRENT names if none of its files is missing. Otherwise reads
/// MANIFESTs, the newest first, until one can be read. `None` if there is none with contents.
/// `checks_ids`: a table with another unique id than the MANIFEST says counts as missing. Holds all
/// edits of a MANIFEST in memory; asks the file system about each file that they name.
/// # Errors
/// The error of the newest MANIFEST, if none can be read · `InvalidArgument` if `families` do not
/// fit the database · `IoError`.
pub(crate) fn newest_state(
    options: &VersionSetOptions,
    families: &[FamilyDescriptor],
    checks_ids: bool,
) -> Result<Option<NewestState>> {
    let mut numbers = Vec::new();
    for name in options.fs.children(&options.dir)? {
        if let Some((FileType::Descriptor, number)) = parse_file_name(&name)
            && options.fs.file_size(&descriptor_file_name(&options.dir, number))? > 0
        {
            numbers.push(number);
        }
    }
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    // A newer one is left from an opening that failed, and files of that opening may be deleted.
    let current = read_current(options.fs.as_ref(), &options.dir).ok().filter(|n| numbers.contains(n));
    if let Some(Ok(state)) = current.map(|number| state_in(options, families, checks_ids, (number, None)))
        && state.losses.is_empty()
    {
        return Ok(Some(state));
    }
    let mut first_error: Option<Error> = None;
    for number in numbers {
        let newer = first_error.as_ref().filter(|_| current != Some(number)).map(Error::to_string);
        match state_in(options, families, checks_ids, (number, newer)) {
            Err(e) if e.kind() == ErrorKind::Corruption => first_error = first_error.or(Some(e)),
            state => return state.map(Some),
        }
    }
    first_error.map_or(Ok(None), Err)
}

/// The newest state in a MANIFEST. `newer`: the error of a newer one, which cannot be read.
fn state_in(
    options: &VersionSetOptions,
    families: &[FamilyDescriptor],
    checks_ids: bool,
    (manifest, newer): (FileNumber, Option<String>),
) -> Result<NewestState> {
    let mut steps = read_steps(options, manifest)?;
    let files = Files { options, checks_ids, seen: HashMap::new() };
    let mut scan = Scan { families, files, states: BTreeMap::new(), waiting: BTreeMap::new() };
    scan.add_family(ColumnFamilyId::DEFAULT, DEFAULT_COLUMN_FAMILY_NAME);
    for (step, edits) in steps.iter().enumerate() {
        scan.apply(step, edits).map_err(|e| super::recover::in_manifest(e, &path_of(options, manifest)))?;
    }
    let losses: Vec<_> =
        newer.into_iter().chain(scan.states.values().filter_map(FamilyState::loss)).collect();
    if !losses.is_empty() {
        let cuts: HashMap<_, _> = scan.states.iter().map(|(id, state)| (*id, state.newest_valid)).collect();
        for (step, edits) in steps.iter_mut().enumerate() {
            for edit in edits {
                let is_newer =
                    cuts.get(&edit.column_family).is_some_and(|cut| cut.is_none_or(|cut| step > cut));
                leave_out(edit, is_newer);
            }
        }
        scan.begin_again();
        scan.add_family(ColumnFamilyId::DEFAULT, DEFAULT_COLUMN_FAMILY_NAME);
        for (step, edits) in steps.iter().enumerate() {
            scan.apply(step, edits)?;
        }
        steps.push(scan.states.iter().map(|(id, state)| state.without_missing(*id)).collect());
    }
    let edits: Vec<VersionEdit> = steps.into_iter().flatten().collect();
    recover_edits(options, families, &edits, &Arc::default())
        .map_err(|e| super::recover::in_manifest(e, &path_of(options, manifest)))?;
    let files = scan.states.values().flat_map(FamilyState::present).collect();
    let families = scan.states.into_values().map(|state| state.name).collect();
    Ok(NewestState { manifest, edits, losses, files, families })
}

fn path_of(options: &VersionSetOptions, manifest: FileNumber) -> std::path::PathBuf {
    descriptor_file_name(&options.dir, manifest)
}

/// The edits of a MANIFEST that take effect together. An incomplete group at the end has none.
fn read_steps(options: &VersionSetOptions, manifest: FileNumber) -> Result<Vec<Vec<VersionEdit>>> {
    let mut reader = ManifestReader::open(options.fs.as_ref(), &options.dir, manifest, false)?;
    let (mut steps, mut group) = (Vec::new(), Vec::new());
    while let Some(edit) = reader.next_edit()? {
        let is_last = edit.remaining_in_atomic_group.is_none_or(|remaining| remaining == 0);
        group.push(edit);
        if is_last {
            steps.push(std::mem::take(&mut group));
        }
    }
    Ok(steps)
}

/// Takes the files out of an edit whose family is as it was before (`is_newer`). WALs go, too: none
/// of them is replayed.
fn leave_out(edit: &mut VersionEdit, is_newer: bool) {
    edit.remaining_in_atomic_group = None;
    (edit.wal_additions, edit.wal_deletion) = (Vec::new(), None);
    if is_newer {
        (edit.new_files, edit.deleted_files) = (Vec::new(), Vec::new());
        (edit.blob_file_additions, edit.blob_file_garbages) = (Vec::new(), Vec::new());
        (edit.compact_cursors, edit.full_history_ts_low) = (Vec::new(), None);
    }
}

impl NewestState {
    /// Whether it has a family of this name.
    pub(crate) fn has_family(&self, name: &str) -> bool {
        self.families.contains(name)
    }

    /// The names of its families.
    pub(crate) fn families(&self) -> impl Iterator<Item = &str> {
        self.families.iter().map(String::as_str)
    }

    /// Whether CURRENT names the MANIFEST, and the MANIFEST has no other state.
    pub(crate) fn is_in_force(&self, options: &VersionSetOptions) -> bool {
        let current = read_current(options.fs.as_ref(), &options.dir);
        self.losses.is_empty() && current.is_ok_and(|number| number == self.manifest)
    }

    /// A read-only set with this state. Writes nothing.
    /// # Errors
    /// `InvalidArgument` if `families` do not fit the state.
    pub(crate) fn version_set(
        &self,
        options: VersionSetOptions,
        families: &[FamilyDescriptor],
    ) -> Result<VersionSet> {
        let obsolete = Arc::new(ObsoleteFiles::default());
        let recovered = recover_edits(&options, families, &self.edits, &obsolete)?;
        let read_at = OwnersProgress::of_reader(&options);
        Ok(VersionSet::of_recovered(options, recovered, (self.manifest, read_at, None), obsolete))
    }

    /// Makes CURRENT name a MANIFEST with this state: the one that has it, or, if files are left
    /// out, a new one with number `new_manifest`.
    /// # Errors
    /// `IoError`: CURRENT names the MANIFEST that it named before, or the new one.
    pub(crate) fn put_in_force(&self, options: &VersionSetOptions, new_manifest: FileNumber) -> Result<()> {
        if !self.losses.is_empty() {
            return write_manifest(options, new_manifest, &self.numbered_last(new_manifest));
        }
        match read_current(options.fs.as_ref(), &options.dir) {
            Ok(number) if number == self.manifest => Ok(()),
            _ => set_current(options, self.manifest),
        }
    }
}

impl NewestState {
    /// The edits for the new MANIFEST. The counters are in the last one: a MANIFEST that a crash
    /// cuts short has none, and is not taken for a state.
    fn numbered_last(&self, new_manifest: FileNumber) -> Vec<VersionEdit> {
        let mut edits = self.edits.clone();
        let mut numbers =
            VersionEdit { next_file_number: Some(FileNumber(new_manifest.0 + 1)), ..VersionEdit::default() };
        for edit in &mut edits {
            numbers.next_file_number = numbers.next_file_number.max(edit.next_file_number.take());
            numbers.last_sequence = numbers.last_sequence.max(edit.last_sequence.take());
        }
        edits.push(numbers);
        edits
    }
}

/// The files on the disk.
struct Files<'a> {
    options: &'a VersionSetOptions,
    checks_ids: bool,
    /// Whether a table is there as its edit says.
    seen: HashMap<FileNumber, bool>,
}

impl Files<'_> {
    fn has_table(&mut self, data: &FileMetaData, paths: &FilePaths) -> Result<bool> {
        if let Some(is_there) = self.seen.get(&data.number) {
            return Ok(*is_there);
        }
        let file = FileMeta::new(data.clone(), paths, &Arc::new(ObsoleteFiles::default()));
        let is_there = match table_size(self.options, &file) {
            Err(e) if e.subcode() == SubCode::PathNotFound => false,
            size => size? == data.file_size && self.is_the_one(&file)?,
        };
        self.seen.insert(data.number, is_there);
        Ok(is_there)
    }

    /// Whether the table's properties can be read, and have the unique id of the MANIFEST.
    fn is_the_one(&self, file: &FileMeta) -> Result<bool> {
        let Some(expected) = file.unique_id.filter(|_| self.checks_ids) else { return Ok(true) };
        let opened = match self.options.fs.new_random_access_file(&file.path()) {
            Err(e) if e.subcode() == SubCode::PathNotFound => return Ok(true), // It has LevelDB's name.
            opened => opened?,
        };
        match TableReader::properties_of(opened, file.file_size) {
            Ok(own) => {
                let own = unique_id(&own.db_id, &own.db_session_id, own.orig_file_number);
                Ok(own.is_none_or(|own| own == expected))
            }
            Err(e) if e.kind() == ErrorKind::Corruption => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn has_blob_file(&self, path: &std::path::Path, bytes: u64) -> Result<bool> {
        match self.options.fs.file_size(path) {
            Err(e) if e.subcode() == SubCode::PathNotFound => Ok(false),
            size => Ok(size? >= bytes),
        }
    }
}

/// A reading of edits from the first one on.
struct Scan<'a> {
    families: &'a [FamilyDescriptor],
    files: Files<'a>,
    states: BTreeMap<ColumnFamilyId, FamilyState>,
    /// Families that have logged a change of files together, and of which some have had no valid
    /// state since: for each, its newest valid step since then.
    waiting: BTreeMap<ColumnFamilyId, Option<usize>>,
}

impl Scan<'_> {
    fn begin_again(&mut self) {
        self.states.clear();
        self.waiting.clear();
    }

    fn add_family(&mut self, id: ColumnFamilyId, name: &str) {
        let dir = &self.files.options.dir;
        let paths = self.families.iter().find(|f| f.name == name);
        let paths = paths.map(|f| f.paths.clone().unwrap_or_else(|| FilePaths::one(dir)));
        self.states.insert(id, FamilyState::new(name, paths));
    }

    /// Applies edits that take effect together.
    fn apply(&mut self, step: usize, edits: &[VersionEdit]) -> Result<()> {
        let of_files = edits.iter().filter(|edit| changes_files(edit));
        let together: BTreeSet<ColumnFamilyId> = of_files.map(|edit| edit.column_family).collect();
        let is_joint = edits.len() > 1 && together.len() > 1;
        if is_joint {
            self.waiting = together.iter().map(|id| (*id, None)).collect();
        }
        let mut changed = BTreeSet::new();
        for edit in edits {
            let id = edit.column_family;
            if let Some(name) = &edit.column_family_add {
                self.add_family(id, name);
            }
            // Edits of families that were dropped have no effect.
            let Some(state) = self.states.get_mut(&id) else { continue };
            state.changes_jointly |= is_joint;
            state.apply(edit, &mut self.files)?;
            changed.insert(id);
            if edit.column_family_drop {
                self.states.remove(&id);
                self.waiting.remove(&id);
                self.end_waiting();
            }
        }
        for id in changed {
            if self.states.get(&id).is_some_and(FamilyState::is_valid) {
                self.reach(id, step);
            }
        }
        Ok(())
    }

    /// Notes that the family has a valid state after this step.
    fn reach(&mut self, id: ColumnFamilyId, step: usize) {
        match self.waiting.get_mut(&id) {
            Some(reached) => {
                *reached = Some(step);
                self.end_waiting();
            }
            None => {
                if let Some(state) = self.states.get_mut(&id) {
                    state.newest_valid = Some(step);
                }
            }
        }
    }

    /// Takes the states of the waiting families, if each of them has a valid one.
    fn end_waiting(&mut self) {
        if self.waiting.values().any(Option::is_none) {
            return;
        }
        for (id, step) in std::mem::take(&mut self.waiting) {
            if let Some(state) = self.states.get_mut(&id) {
                state.newest_valid = step;
            }
        }
    }
}

fn changes_files(edit: &VersionEdit) -> bool {
    !edit.new_files.is_empty() || !edit.deleted_files.is_empty() || !edit.blob_file_additions.is_empty()
}

/// The files of a family after some of its edits.
struct FamilyState {
    name: String,
    /// `None`: the family is not opened, and its files count as present.
    paths: Option<FilePaths>,
    tables: HashMap<FileNumber, (usize, FileMetaData)>,
    /// For each table, the newest flushed table of which it has entries, if edits say so.
    newest: HashMap<FileNumber, Option<FileNumber>>,
    missing: BTreeSet<FileNumber>,
    blobs: BlobFiles,
    missing_blobs: BTreeSet<FileNumber>,
    /// Whether the family has changed its files together with others. It then needs all its files.
    changes_jointly: bool,
    /// The newest step after which the family's state was valid. `None`: only before it had files.
    newest_valid: Option<usize>,
}

impl FamilyState {
    fn new(name: &str, paths: Option<FilePaths>) -> FamilyState {
        FamilyState {
            name: name.to_owned(),
            paths,
            tables: HashMap::new(),
            newest: HashMap::new(),
            missing: BTreeSet::new(),
            blobs: BlobFiles::new(),
            missing_blobs: BTreeSet::new(),
            changes_jointly: false,
            newest_valid: None,
        }
    }

    fn apply(&mut self, edit: &VersionEdit, files: &mut Files<'_>) -> Result<()> {
        for addition in &edit.blob_file_additions {
            blob_meta::add(&mut self.blobs, addition)?;
            if let Some(paths) = &self.paths
                && !files.has_blob_file(&paths.blob(addition.number), blob_file_size(addition))?
            {
                self.missing_blobs.insert(addition.number);
            }
        }
        for garbage in &edit.blob_file_garbages {
            blob_meta::add_garbage(&mut self.blobs, garbage)?;
        }
        let mut of_inputs = Some(FileNumber::default());
        for (_, number) in &edit.deleted_files {
            self.tables.remove(number);
            self.missing.remove(number);
            let newest = self.newest.remove(number).flatten();
            of_inputs = of_inputs.zip(newest).map(|(a, b)| a.max(b));
        }
        for (level, table) in &edit.new_files {
            let newest = match edit.deleted_files.is_empty() {
                true => Some(table.number).filter(|_| *level == 0),
                false => of_inputs,
            };
            self.newest.insert(table.number, newest);
            self.tables.insert(table.number, (*level, table.clone()));
            if let Some(paths) = &self.paths
                && !files.has_table(table, paths)?
            {
                self.missing.insert(table.number);
            }
        }
        Ok(())
    }

    /// Whether the state is one to which the family may return.
    fn is_valid(&self) -> bool {
        match self.missing.is_empty() {
            true => self.lacks_no_blob_file(),
            false => !self.changes_jointly && self.lacks_newest_only() && self.lacks_no_blob_file(),
        }
    }

    /// Whether the missing tables are the newest ones of level 0, and no deeper table has newer
    /// entries.
    fn lacks_newest_only(&self) -> bool {
        let (mut level_0, deeper): (Vec<_>, Vec<_>) =
            self.tables.values().partition(|(level, _)| *level == 0);
        level_0.sort_by(|(_, a), (_, b)| newest_first_by_sequence(a, b));
        let newest: Vec<_> =
            level_0.iter().take_while(|(_, table)| self.missing.contains(&table.number)).collect();
        let is_older = |table: &FileMetaData, missing: &FileMetaData| match self.newest[&table.number] {
            Some(newest) => newest < missing.number,
            // A MANIFEST begins with tables of which it does not tell the inputs.
            None => table.number < missing.number || table.largest_seqno < missing.smallest_seqno,
        };
        newest.len() == self.missing.len()
            && newest.last().is_none_or(|(_, oldest)| deeper.iter().all(|(_, table)| is_older(table, oldest)))
    }

    /// Whether no table that is there may refer to a blob file that is missing. A table names the
    /// oldest blob file to which it refers. It refers to no file that was first written with one of
    /// the newest tables of level 0.
    fn lacks_no_blob_file(&self) -> bool {
        let named = |is_missing: bool| {
            let tables =
                self.tables.values().filter(move |(_, t)| self.missing.contains(&t.number) == is_missing);
            tables.filter_map(|(_, table)| table.oldest_blob_file_number)
        };
        let of_missing: BTreeSet<FileNumber> = named(true).collect();
        self.missing_blobs.iter().filter(|blob| !self.blobs[blob].is_all_garbage()).all(|blob| {
            match of_missing.contains(blob) {
                true => named(false).all(|oldest| oldest != *blob),
                false => named(false).all(|oldest| oldest > *blob),
            }
        })
    }

    /// A sentence about the missing files; `None` if nothing is missing.
    fn loss(&self) -> Option<String> {
        if self.missing.is_empty() && self.lacks_no_blob_file() {
            return None;
        }
        let oldest = self.tables.values().filter_map(|(_, table)| table.oldest_blob_file_number).min();
        let wanted = |number: &&FileNumber| {
            oldest.is_some_and(|oldest| **number >= oldest) && !self.blobs[number].is_all_garbage()
        };
        let blobs = self.missing_blobs.iter().filter(wanted).map(|number| format!("{number}.blob"));
        let names: Vec<String> =
            self.missing.iter().map(|number| format!("{number}.sst")).chain(blobs).collect();
        Some(format!("column family '{}' lacks {}", self.name, names.join(", ")))
    }

    /// The numbers of its tables and blob files that are there.
    fn present(&self) -> impl Iterator<Item = FileNumber> {
        let tables = self.tables.keys().filter(|number| !self.missing.contains(number));
        tables.chain(self.blobs.keys()).copied()
    }

    /// An edit that removes the missing files from the state.
    fn without_missing(&self, id: ColumnFamilyId) -> VersionEdit {
        let garbage = |number: &FileNumber| {
            let blobs = self.blobs.get(number).filter(|blobs| !blobs.is_all_garbage())?;
            Some(esker_format::version_edit::BlobFileGarbage {
                number: *number,
                garbage_blob_count: blobs.addition.total_blob_count - blobs.garbage_blob_count,
                garbage_blob_bytes: blobs.addition.total_blob_bytes - blobs.garbage_blob_bytes,
            })
        };
        VersionEdit {
            column_family: id,
            deleted_files: self.missing.iter().map(|number| (self.tables[number].0, *number)).collect(),
            blob_file_garbages: self.missing_blobs.iter().filter_map(garbage).collect(),
            ..VersionEdit::default()
        }
    }
}
