//! Reads a MANIFEST back into versions. Writes nothing.
//!
//! In: edits in order, and the families that the caller wants. Out: every family's version, and the
//! counters.
//! Source: RocksDB `db/version_edit_handler.cc`.
//!
//! Invariants
//!  1. An atomic group is applied after its last edit has been read, or not at all.
//!  2. Edits of a dropped family have no effect; edits of a family that never existed are
//!     `Corruption`.

use super::beside_owner::open_current_manifest;
use super::builder::{Built, VersionBuilder};
use super::config::DEFAULT_COLUMN_FAMILY_NAME;
use super::file_meta::ObsoleteFiles;
use super::manifest::ManifestReader;
use super::{FamilyDescriptor, FileMeta, Version, VersionSet, VersionSetOptions, timestamps};
use esker_base::sync::Arc;
use esker_base::{ColumnFamilyId, Error, ErrorKind, FileNumber, Result, SequenceNumber, SubCode};
use esker_env::FileSystem;
use esker_format::file_name;
use esker_format::version_edit::VersionEdit;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

/// The content of a MANIFEST.
#[derive(Debug)]
pub(super) struct Recovered {
    pub(super) families: Vec<RecoveredFamily>,
    pub(super) db_id: Option<String>,
    /// Larger than every number that the MANIFEST names.
    pub(super) next_file: FileNumber,
    pub(super) last_sequence: SequenceNumber,
    pub(super) min_log_number_to_keep: FileNumber,
    pub(super) prev_log_number: FileNumber,
    pub(super) max_column_family: u32,
    pub(super) tracked_wals: BTreeMap<FileNumber, Option<u64>>,
}

/// One family of a MANIFEST.
#[derive(Debug)]
pub(super) struct RecoveredFamily {
    pub(super) id: ColumnFamilyId,
    pub(super) descriptor: FamilyDescriptor,
    pub(super) log_number: FileNumber,
    pub(super) next_epoch: u64,
    pub(super) built: Built,
}

/// Reads a MANIFEST to its end. `group` keeps the edits of an incomplete group at the end.
pub(super) fn recover(
    options: &VersionSetOptions,
    families: &[FamilyDescriptor],
    reader: &mut ManifestReader,
    group: &mut AtomicGroup,
    obsolete: &Arc<ObsoleteFiles>,
) -> Result<Recovered> {
    let mut replay = Replay::new(options, families)?;
    while let Some(edit) = reader.next_edit()? {
        group.add(edit, &mut |e| replay.apply(e)).map_err(|e| in_manifest(e, reader.path()))?;
    }
    let recovered = replay.finish(obsolete).map_err(|e| in_manifest(e, reader.path()))?;
    // A reader beside the owner opens the files instead: the owner may delete them.
    if !options.read_only {
        for family in &recovered.families {
            check_files(options, &family.built.version)?;
        }
    }
    Ok(recovered)
}

/// The content of a MANIFEST with these edits. Fails if they are incomplete, or do not fit
/// `families`. Looks at no file.
/// # Errors
/// As [`recover`].
pub(super) fn recover_edits(
    options: &VersionSetOptions,
    families: &[FamilyDescriptor],
    edits: &[VersionEdit],
    obsolete: &Arc<ObsoleteFiles>,
) -> Result<Recovered> {
    let mut replay = Replay::new(options, families)?;
    edits.iter().try_for_each(|edit| replay.apply(edit))?;
    replay.finish(obsolete)
}

/// An error of the MANIFEST at `path`. The path precedes the message, unless the caller's options
/// are wrong: then the message has RocksDB's words only.
pub(super) fn in_manifest(error: Error, path: &Path) -> Error {
    if error.kind() == ErrorKind::InvalidArgument { error } else { error.at(path.display()) }
}

/// Holds edits back until their group is complete.
#[derive(Debug, Default)]
pub(super) struct AtomicGroup {
    edits: Vec<VersionEdit>,
}

impl AtomicGroup {
    /// Passes on an edit outside of groups, or all edits of a group with its last edit.
    /// # Errors
    /// `Corruption` for a broken group · errors of `apply`.
    pub(super) fn add(
        &mut self,
        edit: VersionEdit,
        apply: &mut dyn FnMut(&VersionEdit) -> Result<()>,
    ) -> Result<()> {
        let Some(remaining) = edit.remaining_in_atomic_group else {
            return if self.edits.is_empty() {
                apply(&edit)
            } else {
                Err(broken_group("an edit outside of it"))
            };
        };
        if edit.column_family_add.is_some() || edit.column_family_drop {
            return Err(broken_group("a column family that comes or goes"));
        }
        let expected = self.edits.last().and_then(|e| e.remaining_in_atomic_group).map(|r| r.wrapping_sub(1));
        if expected.is_some_and(|e| e != remaining) {
            return Err(broken_group("edits that are not counted down one by one"));
        }
        self.edits.push(edit);
        if remaining > 0 {
            return Ok(());
        }
        std::mem::take(&mut self.edits).iter().try_for_each(apply)
    }
}

fn broken_group(what: &str) -> Error {
    Error::corruption(format!("corrupted atomic group: it holds {what}"))
}

/// A family while the MANIFEST is being read.
#[derive(Debug)]
enum Family {
    Open(Box<OpenFamily>),
    /// The caller did not name the family.
    Unopened {
        name: String,
    },
    Dropped,
}

impl Family {
    /// The family's name, unless it was dropped.
    fn name(&self) -> Option<&str> {
        match self {
            Family::Open(open) => Some(&open.descriptor.name),
            Family::Unopened { name } => Some(name),
            Family::Dropped => None,
        }
    }
}

/// A family to which edits are applied.
#[derive(Debug)]
pub(super) struct OpenFamily {
    pub(super) descriptor: FamilyDescriptor,
    pub(super) builder: VersionBuilder,
    pub(super) log_number: FileNumber,
}

#[derive(Debug)]
struct Replay<'a> {
    options: &'a VersionSetOptions,
    wanted: HashMap<&'a str, &'a FamilyDescriptor>,
    families: BTreeMap<ColumnFamilyId, Family>,
    /// Names of the present families.
    names: HashSet<String>,
    db_id: Option<String>,
    log_number: Option<FileNumber>,
    next_file: Option<FileNumber>,
    last_sequence: Option<SequenceNumber>,
    prev_log_number: FileNumber,
    min_log_number_to_keep: FileNumber,
    max_column_family: u32,
    largest_number: FileNumber,
    tracked_wals: BTreeMap<FileNumber, Option<u64>>,
}

impl<'a> Replay<'a> {
    fn new(options: &'a VersionSetOptions, wanted: &'a [FamilyDescriptor]) -> Result<Replay<'a>> {
        let mut replay = Replay {
            options,
            // Of two entries with one name, the first counts.
            wanted: wanted.iter().rev().map(|d| (d.name.as_str(), d)).collect(),
            families: BTreeMap::new(),
            names: HashSet::new(),
            db_id: None,
            log_number: None,
            next_file: None,
            last_sequence: None,
            prev_log_number: FileNumber(0),
            min_log_number_to_keep: FileNumber(0),
            max_column_family: 0,
            largest_number: FileNumber(0),
            tracked_wals: BTreeMap::new(),
        };
        replay.add_family(ColumnFamilyId::DEFAULT, super::DEFAULT_COLUMN_FAMILY_NAME);
        match replay.families.get(&ColumnFamilyId::DEFAULT) {
            Some(Family::Open(_)) => Ok(replay),
            _ => Err(Error::invalid_argument("the default column family is not among those to open")),
        }
    }

    fn add_family(&mut self, id: ColumnFamilyId, name: &str) {
        let family = match self.wanted.get(name) {
            None => Family::Unopened { name: name.to_owned() },
            Some(&descriptor) => {
                let base = Arc::new(descriptor.empty_version(id, &self.options.dir));
                Family::Open(Box::new(OpenFamily {
                    descriptor: descriptor.clone(),
                    builder: VersionBuilder::new(base, Arc::default()),
                    log_number: FileNumber(0),
                }))
            }
        };
        self.families.insert(id, family);
        self.names.insert(name.to_owned());
        self.max_column_family = self.max_column_family.max(id.0);
    }

    fn apply(&mut self, edit: &VersionEdit) -> Result<()> {
        let id = edit.column_family;
        if let Some(name) = &edit.column_family_add {
            self.on_add(id, name, edit)?;
        }
        match self.families.get_mut(&id) {
            None => return Err(Error::corruption(format!("an edit of column family {id}, which never was"))),
            Some(Family::Open(family)) => family.apply(edit)?,
            Some(Family::Unopened { .. } | Family::Dropped) => {}
        }
        if edit.column_family_drop {
            self.on_drop(id)?;
        }
        self.take_numbers(edit);
        Ok(())
    }

    fn on_add(&mut self, id: ColumnFamilyId, name: &str, edit: &VersionEdit) -> Result<()> {
        if self.families.contains_key(&id) || self.names.contains(name) {
            return Err(Error::corruption(format!("column family {id} '{name}' is added twice")));
        }
        if !edit.new_files.is_empty() || !edit.deleted_files.is_empty() {
            return Err(Error::corruption(format!("the edit that adds column family '{name}' has files")));
        }
        self.add_family(id, name);
        Ok(())
    }

    fn on_drop(&mut self, id: ColumnFamilyId) -> Result<()> {
        let family = self.families.insert(id, Family::Dropped);
        let name = family.as_ref().and_then(Family::name);
        name.map(|name| self.names.remove(name));
        match family {
            Some(Family::Dropped) => {
                Err(Error::corruption(format!("column family {id} is dropped, and is not there")))
            }
            _ if id == ColumnFamilyId::DEFAULT => {
                Err(Error::corruption("the default column family is dropped"))
            }
            _ => Ok(()),
        }
    }

    fn take_numbers(&mut self, edit: &VersionEdit) {
        if let Some(db_id) = &edit.db_id {
            self.db_id = Some(db_id.clone());
        }
        self.log_number = self.log_number.max(edit.log_number);
        self.next_file = self.next_file.max(edit.next_file_number);
        self.last_sequence = self.last_sequence.max(edit.last_sequence);
        self.prev_log_number = edit.prev_log_number.unwrap_or(self.prev_log_number);
        let min_log = edit.min_log_number_to_keep.unwrap_or_default();
        self.min_log_number_to_keep = self.min_log_number_to_keep.max(min_log);
        self.max_column_family = self.max_column_family.max(edit.max_column_family.unwrap_or(0));
        let tables = edit.new_files.iter().map(|(_, f)| f.number);
        let blobs = edit.blob_file_additions.iter().map(|b| b.number);
        let wals = edit.wal_additions.iter().map(|(n, _)| *n);
        let largest = tables.chain(blobs).chain(wals).max().unwrap_or_default();
        self.largest_number = self.largest_number.max(largest);
        for (number, size) in &edit.wal_additions {
            self.tracked_wals.insert(*number, *size);
        }
        if let Some(keep) = edit.wal_deletion {
            self.tracked_wals.retain(|n, _| *n >= keep);
        }
    }

    fn finish(self, obsolete: &Arc<ObsoleteFiles>) -> Result<Recovered> {
        let (next_file, last_sequence) = self.required_numbers()?;
        if !self.options.read_only {
            self.check_all_are_open()?;
        }
        let in_use = [self.largest_number, self.prev_log_number, self.min_log_number_to_keep];
        let largest = in_use.into_iter().chain(self.log_number).max().unwrap_or_default();
        let mut families = Vec::new();
        for (id, family) in self.families {
            let Family::Open(family) = family else { continue };
            let name = family.descriptor.name.clone();
            families.push(family.finish(id, obsolete).map_err(|e| e.at(format!("column family '{name}'")))?);
        }
        Ok(Recovered {
            families,
            db_id: self.db_id,
            // The recorded number itself may have been allocated later, so the counter starts one
            // above it.
            next_file: FileNumber(next_file.0.max(largest.0).saturating_add(1)),
            last_sequence,
            min_log_number_to_keep: self.min_log_number_to_keep,
            prev_log_number: self.prev_log_number,
            max_column_family: self.max_column_family,
            tracked_wals: self.tracked_wals,
        })
    }

    fn required_numbers(&self) -> Result<(FileNumber, SequenceNumber)> {
        if let (Some(_), Some(next), Some(last)) = (self.log_number, self.next_file, self.last_sequence) {
            return Ok((next, last));
        }
        let missing = [
            (self.log_number.is_none(), "log_file_number"),
            (self.next_file.is_none(), "next_file_number"),
            (self.last_sequence.is_none(), "last_sequence"),
        ];
        let names: Vec<&str> = missing.iter().filter(|(m, _)| *m).map(|(_, name)| *name).collect();
        Err(Error::corruption(format!("no {} entry in MANIFEST", names.join(", "))))
    }

    fn check_all_are_open(&self) -> Result<()> {
        let unopened = self.families.values().filter_map(|f| match f {
            Family::Unopened { name } => Some(name.as_str()),
            _ => None,
        });
        let names: Vec<&str> = unopened.collect();
        if names.is_empty() {
            return Ok(());
        }
        Err(Error::invalid_argument(format!("Column families not opened: {}", names.join(", "))))
    }
}

impl OpenFamily {
    /// Applies an edit of this family.
    /// # Errors
    /// `InvalidArgument` for another comparator · `Corruption` if the edit does not fit.
    pub(super) fn apply(&mut self, edit: &VersionEdit) -> Result<()> {
        if let Some(stored) = &edit.comparator
            && stored != self.descriptor.comparator.name()
        {
            let given = self.descriptor.comparator.name();
            // RocksDB's words.
            let error = format!("{given}: does not match existing comparator {stored}");
            return Err(match self.descriptor.name.as_str() {
                DEFAULT_COLUMN_FAMILY_NAME => Error::invalid_argument(error),
                name => Error::invalid_argument(format!("{error}, of column family '{name}'")),
            });
        }
        if let Some(persisted) = edit.persist_user_defined_timestamps {
            self.descriptor.persist_user_defined_timestamps = persisted;
        }
        // RocksDB warns of a decreasing log number, and keeps the larger one.
        self.log_number = self.log_number.max(edit.log_number.unwrap_or_default());
        let timestamp_size = self.descriptor.comparator.timestamp_size();
        if let Some(low) = &edit.full_history_ts_low
            && timestamp_size > 0
            && low.len() != timestamp_size
        {
            let what = "full_history_ts_low has another size than the comparator's timestamps";
            return Err(Error::corruption(format!("column family '{}': {what}", self.descriptor.name)));
        }
        if timestamp_size == 0 || edit.new_files.iter().all(|(_, f)| !f.user_defined_timestamps_not_persisted)
        {
            return self.builder.apply(edit);
        }
        let mut edit = edit.clone();
        for (_, file) in &mut edit.new_files {
            if file.user_defined_timestamps_not_persisted {
                timestamps::pad(file, &*self.descriptor.comparator);
            }
        }
        self.builder.apply(&edit)
    }

    fn finish(mut self, id: ColumnFamilyId, obsolete: &Arc<ObsoleteFiles>) -> Result<RecoveredFamily> {
        let next_epoch = self.builder.infer_epochs();
        let built = self.builder.finish(0, obsolete)?;
        built.set_installed();
        Ok(RecoveredFamily {
            id,
            descriptor: self.descriptor,
            log_number: self.log_number,
            next_epoch,
            built,
        })
    }
}

/// Checks that every table exists with the size in the MANIFEST, and every blob file. Without
/// `paranoid_checks`, checks only tables whose path id is beyond the family's paths: the next
/// MANIFEST will change it.
fn check_files(options: &VersionSetOptions, version: &Version) -> Result<()> {
    for (level, file) in version.all_files() {
        if !options.paranoid_checks && file.recorded_path_id() == file.path_id {
            continue;
        }
        let size = match table_size(options, file) {
            Err(e) if e.subcode() == SubCode::PathNotFound => return Err(missing_table(level, file)),
            size => size?,
        };
        if size != file.file_size {
            let what =
                format!("the table of L{level} has {size} bytes, the MANIFEST says {}", file.file_size);
            return Err(Error::corruption(what).at(file.path().display()));
        }
    }
    for number in version.blob_files().keys().filter(|_| options.paranoid_checks) {
        let path = version.paths().blob(*number);
        if !options.fs.file_exists(&path)? {
            return Err(Error::corruption("the blob file is missing").at(path.display()));
        }
    }
    Ok(())
}

pub(super) fn table_size(options: &VersionSetOptions, file: &FileMeta) -> Result<u64> {
    match options.fs.file_size(&file.path()) {
        Err(e) if e.subcode() == SubCode::PathNotFound => {
            options.fs.file_size(&file_name::leveldb_table_file_name(file.directory(), file.number))
        }
        size => size,
    }
}

/// `Corruption`: the file of a table is not in its directory.
pub(crate) fn missing_table(level: usize, file: &FileMeta) -> Error {
    let what = match file.recorded_path_id() {
        0 => format!("the table of L{level} is missing"),
        id => format!(
            "the table of L{level} is missing; the MANIFEST has it in path {id} of db_paths or cf_paths"
        ),
    };
    Error::corruption(what).at(file.path().display())
}

/// A family as a MANIFEST lists it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedFamily {
    /// The family's id.
    pub id: ColumnFamilyId,
    /// The family's name.
    pub name: String,
    /// The comparator's name, if the MANIFEST has it.
    pub comparator: Option<String>,
}

impl VersionSet {
    /// The families of a database by id, without opening it.
    /// # Errors
    /// `IoError` (sub-code `PathNotFound` if there is no CURRENT) · `Corruption`.
    pub fn list_families(fs: &dyn FileSystem, dir: &Path) -> Result<Vec<ListedFamily>> {
        list_families(open_current_manifest(fs, dir, false)?.1)
    }

    /// Names of the families of a database, in the order of their ids, without opening it.
    /// # Errors
    /// `IoError` (sub-code `PathNotFound` if there is no CURRENT) · `Corruption`.
    pub fn list_column_families(fs: &dyn FileSystem, dir: &Path) -> Result<Vec<String>> {
        Ok(VersionSet::list_families(fs, dir)?.into_iter().map(|f| f.name).collect())
    }
}

/// The families of a MANIFEST by id.
fn list_families(mut reader: ManifestReader) -> Result<Vec<ListedFamily>> {
    let mut families: BTreeMap<ColumnFamilyId, ListedFamily> = BTreeMap::new();
    let mut dropped = BTreeSet::new();
    let named = |id, name: &str| ListedFamily { id, name: name.to_owned(), comparator: None };
    families
        .insert(ColumnFamilyId::DEFAULT, named(ColumnFamilyId::DEFAULT, super::DEFAULT_COLUMN_FAMILY_NAME));
    while let Some(edit) = reader.next_edit()? {
        let id = edit.column_family;
        if let Some(name) = &edit.column_family_add
            && (dropped.contains(&id) || families.insert(id, named(id, name)).is_some())
        {
            let what = format!("column family {id} '{name}' is added twice");
            return Err(Error::corruption(what).at(reader.path().display()));
        }
        if let (Some(family), Some(_)) = (families.get_mut(&id), &edit.comparator) {
            family.comparator = edit.comparator;
        }
        if edit.column_family_drop {
            families.remove(&id);
            dropped.insert(id);
        }
    }
    Ok(families.into_values().collect())
}
