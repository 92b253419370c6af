//! Repair: makes a new MANIFEST for a database whose MANIFEST is lost or damaged, from its tables
//! and WALs.
//!
//! In: a directory, and the options of its families (their comparators above all). Out: a directory
//! that opens, with every readable table in level 0 ordered by sequence number, and the contents of
//! the WALs in new tables. No file is deleted: unusable and unneeded files move into the
//! subdirectory `lost`.
//!
//! Invariants
//!  1. Until the new MANIFEST is in force, a repair only adds files, and moves tables away that the
//!     old MANIFEST has dropped: after a failure it can be repeated. After a later failure, some
//!     files are not in `lost` yet: an open before the next repair deletes those that the new
//!     MANIFEST does not name.
//!  2. Every table is read and checked completely before the MANIFEST names it.
//!  3. A comparator that differs from a table's is an error of the caller, and no reason to drop
//!     the table.
//!
//! Deleted entries may reappear if no compaction had dropped them: without a MANIFEST, obsolete
//! tables cannot be distinguished from live ones. Dropped families may reappear, too, unless the
//! readable part of the MANIFEST records the drop. A merge operand may count twice if three things
//! come together: a WAL still has it; a compaction into the last level has zeroed its sequence
//! number; and damage to the MANIFEST or lost tables hide its flush. Source: RocksDB
//! `db/repair.cc`.

mod order;
mod salvage;
mod scan;
mod wals;

pub use salvage::{MissingKeys, SalvagedTable};

use crate::db::{self, ColumnFamilyDescriptor};
use crate::files::{LOST, names_if_there, other_directories, take_directories};
use crate::merge::compaction_iter::BlobTally;
use crate::options::{ColumnFamilyOptions, DbOptions, Options};
use crate::version::manifest::write_manifest;
use crate::version::{Numbers, VersionSetOptions, stripped};
use esker_base::logger::{InfoLog, NoInfoLog};
use esker_base::sync::Arc;
use esker_base::{ColumnFamilyId, Error, FileNumber, Result, SequenceNumber, SubCode};
use esker_env::{FileSystem, random};
use esker_format::file_name::{self, FilePaths, FileType, parse_file_name};
use esker_format::key::InternalKeyComparator;
use esker_format::version_edit::{BlobFileAddition, FileMetaData, VersionEdit};
use esker_table::OpenFiles;
use order::unsure_pairs;
use salvage::BlobHealth;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Ways to repair a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairOptions {
    /// Replace each damaged table by a table of its readable entries, instead of giving it up. A
    /// data block is readable if its checksum holds, as stored or with one bit flipped back. Values
    /// in damaged blob files move into the new tables. The summary names the keys that may be
    /// missing.
    pub salvage: bool,
    /// Change nothing, and return what a repair would find. It takes no lock: the database must not
    /// be open. Tables that a repair would write have no numbers in the summary, and their order is
    /// not told.
    pub dry_run: bool,
}

impl RepairOptions {
    /// The default: damaged tables are given up.
    pub fn new() -> RepairOptions {
        RepairOptions::default()
    }

    /// Sets [`salvage`](Self::salvage).
    #[must_use]
    pub fn salvage(mut self, salvage: bool) -> RepairOptions {
        self.salvage = salvage;
        self
    }

    /// Sets [`dry_run`](Self::dry_run).
    #[must_use]
    pub fn dry_run(mut self, dry_run: bool) -> RepairOptions {
        self.dry_run = dry_run;
        self
    }
}

/// The result of a repair.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RepairSummary {
    /// Families of the repaired database, by id.
    pub families: Vec<String>,
    /// Families whose name a younger family has, too: their ids, that name, and the name under
    /// which they reappear. Either they were dropped in an unreadable part of the MANIFEST, or the
    /// younger family imported their tables.
    pub families_renamed: Vec<(ColumnFamilyId, String, String)>,
    /// Tables that were readable.
    pub tables_kept: Vec<FileNumber>,
    /// Tables that the MANIFEST had dropped already, or that an earlier repair has replaced, now in
    /// `lost`. They count only if all tables
    /// of the family that the MANIFEST's readable part names are readable. Tables of dropped
    /// families are included.
    pub tables_obsolete: Vec<FileNumber>,
    /// Unreadable tables, now in `lost`, with the error.
    pub tables_lost: Vec<(FileNumber, Error)>,
    /// Tables without an end that the MANIFEST, which is readable to its end, never named; now in
    /// `lost`, with the errors. A crash ended their writing, and their entries are in other files.
    /// With [`RepairOptions::salvage`] only; otherwise they are among `tables_lost`.
    pub tables_unfinished: Vec<(FileNumber, Error)>,
    /// Damaged tables, and what was kept of them; with [`RepairOptions::salvage`] only.
    pub tables_salvaged: Vec<SalvagedTable>,
    /// Pairs of tables whose keys and sequence numbers both overlap. For keys in both, a `get`
    /// takes the value from the table with the larger newest sequence number, which may be the
    /// older value. Scans and compactions use each entry's own sequence number, so a
    /// `compact_range` by this engine repairs the order. RocksDB 7.8 may refuse to open such a
    /// level 0. Entries of an ingested table have no sequence numbers of their own. Without a
    /// readable MANIFEST, the age of such a table is unknown: it counts as older than each table
    /// that it overlaps, and these pairs are listed, too. The list has at most 10,000 pairs of each
    /// family.
    pub order_unsure: Vec<(FileNumber, FileNumber)>,
    /// Blob files that cannot be read to their end, now in `lost`, with the error. Their values are
    /// lost, except for those that [`RepairOptions::salvage`] has moved into tables.
    pub blobs_lost: Vec<(FileNumber, Error)>,
    /// WALs that were converted, now in `lost`.
    pub wals: Vec<FileNumber>,
    /// WALs in which a part was skipped, each with its first skipped part.
    pub wals_damaged: Vec<(FileNumber, String)>,
    /// Tables that were written from WALs.
    pub tables_from_wals: Vec<FileNumber>,
    /// Number of operations that were taken from WALs.
    pub wal_records: u64,
    /// Number of operations in WALs for families that were dropped, or whose names are lost with
    /// the MANIFEST because they have no table.
    pub wal_records_without_family: u64,
    /// Names of transactions that were prepared and neither committed nor rolled back: their
    /// operations are lost. Under `WritePrepared` and `WriteUnprepared` those that a flush has
    /// written count as committed.
    pub prepared_transactions_lost: Vec<Vec<u8>>,
    /// The newest sequence number that was found.
    pub last_sequence: SequenceNumber,
}

impl RepairSummary {
    /// Whether entries may be lost, or deletions: deleted keys may then be visible again.
    pub fn has_losses(&self) -> bool {
        let has_salvaged = !self.tables_salvaged.is_empty();
        !self.tables_lost.is_empty()
            || self.tables_salvaged.iter().any(SalvagedTable::has_losses)
            || (!self.blobs_lost.is_empty() && !has_salvaged)
            || !self.wals_damaged.is_empty()
            || self.wal_records_without_family > 0
            || !self.prepared_transactions_lost.is_empty()
    }
}

/// [`repair_db_with`] the default [`RepairOptions`].
/// # Errors
/// `InvalidArgument`: a table was written with another comparator than its family's options name
/// (both are in the message) or with a `compression_manager` that its options lack, the OPTIONS
/// file names a `wal_dir` with WALs and `options` do not, or `db_paths` or `cf_paths` lack a path
/// with tables; nothing was changed · `IoError`: repair again after removing its cause.
pub fn repair_db(
    options: &Options,
    path: impl AsRef<Path>,
    families: &[ColumnFamilyDescriptor],
) -> Result<RepairSummary> {
    repair_db_with(&RepairOptions::new(), options, path, families)
}

/// Makes a new MANIFEST for the database in `path` from its tables and WALs. `families` lists the
/// families whose options differ from `options.cf`; all families that tables or a readable part of
/// the old MANIFEST name are restored under their ids. The database must not be open.
/// # Errors
/// `InvalidArgument`: a table was written with another comparator than its family's options name
/// (both are in the message) or with a `compression_manager` that its options lack, the OPTIONS
/// file names a `wal_dir` with WALs and `options` do not, or `db_paths` or `cf_paths` lack a path
/// with tables; nothing was changed · `IoError`: repair again after removing its cause.
pub fn repair_db_with(
    how: &RepairOptions,
    options: &Options,
    path: impl AsRef<Path>,
    families: &[ColumnFamilyDescriptor],
) -> Result<RepairSummary> {
    let mut repair = Repair::new(how, options, path.as_ref(), families)?;
    let lock = match how.dry_run {
        true => None,
        false => Some(repair.fs.lock_file(&file_name::lock_file_name(&repair.path))?),
    };
    if repair.options.wal_dir.is_none() {
        db::check_for_forgotten_wal_dir(
            repair.fs.as_ref(),
            &repair.path,
            FileNumber(0)..FileNumber(u64::MAX),
        )?;
    }
    let found = repair.find_files()?;
    if !how.dry_run {
        repair.db_id = db::load_or_create_identity(&repair.options, repair.fs.as_ref(), &repair.path)?;
    }
    let others = repair.other_directories();
    for directory in &others {
        if !repair.fs.file_exists(directory)? {
            // Tables on an unmounted disk would be left out, and later deleted as obsolete.
            let what = "of db_paths or cf_paths does not exist; make it if its tables are lost";
            return Err(Error::invalid_argument(what).at(directory.display()));
        }
    }
    if !how.dry_run {
        take_directories(repair.fs.as_ref(), &repair.path, &others, &repair.numbers)?;
    }
    repair.family(ColumnFamilyId::DEFAULT, "default")?;
    repair.names_from_manifests(&found)?;
    repair.scan_tables(&found)?;
    repair.leave_out_obsolete_tables();
    repair.convert_wals(&found)?;
    repair.scan_blobs(&found)?;
    repair.find_what_may_reappear();
    repair.name_families();
    if how.dry_run {
        repair.edits();
        return Ok(repair.summary);
    }
    repair.archive_obsolete_tables(&found)?;
    repair.write_manifest()?;
    repair.archive(&found)?;
    drop(lock);
    Ok(repair.summary)
}

/// A repair in progress.
struct Repair {
    how: RepairOptions,
    /// With `salvage`: the state of all blob files.
    blob_files: BlobHealth,
    /// Tables of an earlier repair, with the tables that they replace.
    replaced: BTreeMap<FileNumber, FileNumber>,
    options: DbOptions,
    fs: Arc<dyn FileSystem>,
    path: PathBuf,
    wal_dir: PathBuf,
    db_id: String,
    session_id: String,
    info_log: Arc<dyn InfoLog>,
    numbers: Numbers,
    default_options: ColumnFamilyOptions,
    described: Vec<ColumnFamilyDescriptor>,
    families: BTreeMap<ColumnFamilyId, Family>,
    flushed: Flushed,
    /// Ingested tables of unknown age.
    of_unknown_age: BTreeSet<FileNumber>,
    open_files: Arc<OpenFiles>,
    summary: RepairSummary,
    /// Blob files that no table names, or that cannot be read to their end.
    blobs_left_over: Vec<PathBuf>,
}

/// Facts about WALs and tables from the readable part of the MANIFEST.
#[derive(Default)]
struct Flushed {
    /// For each family, the WAL number below which its tables have all its entries.
    log_numbers: BTreeMap<ColumnFamilyId, FileNumber>,
    /// The live tables at the end of the readable part.
    tables: BTreeMap<FileNumber, ColumnFamilyId>,
    /// All tables that it ever named, with family and description. Ingested tables do not contain
    /// their family and age, and imported tables contain the family from which they come.
    named: BTreeMap<FileNumber, (ColumnFamilyId, FileMetaData)>,
    /// Tables that the lost MANIFEST had dropped.
    obsolete: BTreeSet<FileNumber>,
    /// Families that the lost MANIFEST had dropped. No id is used twice.
    dropped: BTreeSet<ColumnFamilyId>,
    /// The oldest readable timestamp of each family that has one.
    full_history_ts_low: BTreeMap<ColumnFamilyId, Vec<u8>>,
    /// Whether this is the MANIFEST in force, read to its end.
    is_complete: bool,
}

impl Flushed {
    fn apply(&mut self, edit: &VersionEdit) {
        if edit.column_family_drop {
            self.tables.retain(|_, family| *family != edit.column_family);
            self.dropped.insert(edit.column_family);
        }
        if let Some(log_number) = edit.log_number {
            self.log_numbers.insert(edit.column_family, log_number);
        }
        if let Some(bound) = &edit.full_history_ts_low {
            self.full_history_ts_low.insert(edit.column_family, bound.clone());
        }
        for (_, number) in &edit.deleted_files {
            self.tables.remove(number);
            self.obsolete.insert(*number);
        }
        for (_, meta) in &edit.new_files {
            self.tables.insert(meta.number, edit.column_family);
            self.named.insert(meta.number, (edit.column_family, meta.clone()));
            self.obsolete.remove(&meta.number);
        }
    }
}

/// A family that the repair restores.
struct Family {
    descriptor: ColumnFamilyDescriptor,
    paths: FilePaths,
    tables: Vec<FileMetaData>,
    blobs: Vec<BlobFileAddition>,
    /// References to blob files by the found tables.
    references: BTreeMap<FileNumber, BlobTally>,
    /// The oldest readable timestamp; empty: there is no bound.
    full_history_ts_low: Vec<u8>,
}

impl Family {
    fn raise_full_history_ts_low(&mut self, bound: &[u8]) {
        let icmp = InternalKeyComparator::new(self.descriptor.options.comparator.clone());
        let has_timestamps = icmp.timestamp_size() == bound.len();
        if has_timestamps && icmp.compare_timestamps(bound, &self.full_history_ts_low).is_gt() {
            self.full_history_ts_low = bound.to_vec();
        }
    }
}

/// The files that the repair has found.
#[derive(Default)]
struct Found {
    /// Tables with their paths: names of old tables end in `.ldb`.
    tables: Vec<(FileNumber, PathBuf)>,
    /// WALs with their directories: some may be from a time without `wal_dir`.
    wals: BTreeMap<FileNumber, PathBuf>,
    blobs: Vec<(FileNumber, PathBuf)>,
    manifests: Vec<FileNumber>,
}

impl Repair {
    /// A repair that has found nothing yet.
    /// # Errors
    /// `InvalidArgument`: options that contradict each other, or `path` does not exist · `IoError`.
    fn new(
        how: &RepairOptions,
        options: &Options,
        path: &Path,
        families: &[ColumnFamilyDescriptor],
    ) -> Result<Repair> {
        let mut db_options = options.db.clone();
        db_options.validate()?;
        db_options.sanitize();
        db_options.make_write_buffer_manager();
        db_options.make_paths_absolute()?;
        let mut default_options = options.cf.clone();
        default_options.take_paths(&db_options)?;
        let mut described = families.to_vec();
        described.iter_mut().try_for_each(|family| family.options.take_paths(&db_options))?;
        let fs = db_options.env.fs.clone();
        let path = fs.absolute_path(path)?;
        if !fs.file_exists(&path)? {
            return Err(Error::invalid_argument(format!("{}: does not exist", path.display())));
        }
        let wal_dir = db_options.wal_dir.clone().unwrap_or_else(|| path.clone());
        let info_log = db_options.info_log.clone().unwrap_or_else(|| Arc::new(NoInfoLog));
        Ok(Repair {
            how: how.clone(),
            blob_files: BlobHealth::default(),
            replaced: BTreeMap::new(),
            numbers: Numbers::new(FileNumber(1), SequenceNumber::ZERO),
            default_options,
            described,
            families: BTreeMap::new(),
            flushed: Flushed::default(),
            of_unknown_age: BTreeSet::new(),
            open_files: OpenFiles::new(db::table_capacity(&db_options)),
            summary: RepairSummary::default(),
            blobs_left_over: Vec::new(),
            session_id: random::session_id(),
            options: db_options,
            fs,
            path,
            wal_dir,
            db_id: String::new(),
            info_log,
        })
    }

    /// Whether every table of the family that the readable part of the MANIFEST names could be
    /// read completely.
    fn has_all_entries_of(&self, family: ColumnFamilyId) -> bool {
        let without_losses = self.summary.tables_salvaged.iter().filter(|table| !table.has_losses());
        self.has_tables_of(family, without_losses.map(|table| table.number))
    }

    /// Whether every table of the family that the readable part of the MANIFEST names could be
    /// read, at least in part. If so, the MANIFEST's drops of other tables of the family are
    /// believed.
    fn has_all_tables_of(&self, family: ColumnFamilyId) -> bool {
        let salvaged = self.summary.tables_salvaged.iter().filter(|table| table.entries > 0);
        self.has_tables_of(family, salvaged.map(|table| table.number))
    }

    fn has_tables_of(&self, family: ColumnFamilyId, salvaged: impl Iterator<Item = FileNumber>) -> bool {
        let there: BTreeSet<_> = self.summary.tables_kept.iter().copied().chain(salvaged).collect();
        let mut named = self.flushed.tables.iter().filter(|(_, of)| **of == family);
        named.all(|(table, _)| there.contains(table))
    }

    /// Leaves out tables that a compaction has replaced. They would add operands that the new table
    /// has, too, and older values would hide newer ones whose sequence numbers were zeroed.
    fn leave_out_obsolete_tables(&mut self) {
        let whole: Vec<_> = self.families.keys().copied().filter(|id| self.has_all_tables_of(*id)).collect();
        let mut left_out = BTreeSet::new();
        for id in whole {
            let family = self.families.get_mut(&id).expect("the family was listed above");
            let obsolete = |table: &FileMetaData| self.flushed.obsolete.contains(&table.number);
            left_out.extend(family.tables.extract_if(.., |table| obsolete(table)).map(|table| table.number));
        }
        self.summary.tables_kept.retain(|table| !left_out.contains(table));
        self.summary.tables_obsolete.extend(left_out);
    }

    fn find_files(&self) -> Result<Found> {
        let mut found = Found::default();
        for name in self.fs.children(&self.path)? {
            let Some((file_type, number)) = parse_file_name(&name) else { continue };
            match file_type {
                FileType::Table => found.tables.push((number, self.path.join(&name))),
                FileType::Wal => drop(found.wals.insert(number, self.path.clone())),
                FileType::Descriptor => found.manifests.push(number),
                FileType::Blob => found.blobs.push((number, self.path.join(&name))),
                FileType::Options | FileType::Temp => {}
                _ => continue,
            }
            self.numbers.mark_used(number);
        }
        for directory in self.other_directories() {
            for name in names_if_there(self.fs.as_ref(), &directory)? {
                let Some((file_type, number)) = parse_file_name(&name) else { continue };
                match file_type {
                    FileType::Table => found.tables.push((number, directory.join(&name))),
                    FileType::Blob => found.blobs.push((number, directory.join(&name))),
                    _ => continue,
                }
                self.numbers.mark_used(number);
            }
        }
        for name in self.fs.children(&self.wal_dir)? {
            if let Some((FileType::Wal, number)) = parse_file_name(&name) {
                found.wals.insert(number, self.wal_dir.clone());
                self.numbers.mark_used(number);
            }
        }
        for directory in self.other_directories().iter().chain([&self.path]) {
            for name in names_if_there(self.fs.as_ref(), &directory.join(LOST))? {
                parse_file_name(&name).into_iter().for_each(|(_, number)| self.numbers.mark_used(number));
            }
        }
        found.tables.sort_unstable();
        found.blobs.sort_unstable();
        found.manifests.sort_unstable();
        if found.tables.is_empty() && found.wals.is_empty() && found.manifests.is_empty() {
            let what = format!("{}: no tables, WALs or MANIFESTs to repair", self.path.display());
            return Err(Error::invalid_argument(what));
        }
        Ok(found)
    }

    /// The directories of `db_paths`, and of `cf_paths` of the families that the caller describes.
    fn other_directories(&self) -> Vec<PathBuf> {
        let of_default = self.default_options.file_paths(&self.path);
        let of_db = FilePaths::new(self.options.db_paths.iter().map(|p| p.path.clone()), &self.path);
        let described = self.described.iter().map(|family| family.options.file_paths(&self.path));
        other_directories(&self.path, &described.chain([of_default, of_db]).collect::<Vec<_>>())
    }

    /// The family with this id, which is created if it does not exist.
    fn family(&mut self, id: ColumnFamilyId, name: &str) -> Result<&mut Family> {
        if !self.families.contains_key(&id) {
            let described = self.described.iter().find(|d| d.name == name);
            let options = described.map_or(&self.default_options, |d| &d.options);
            let mut descriptor = ColumnFamilyDescriptor::new(name, options.clone());
            db::make_consistent(&self.options, &mut descriptor)?;
            let family = Family {
                paths: descriptor.options.file_paths(&self.path),
                descriptor,
                tables: Vec::new(),
                blobs: Vec::new(),
                references: BTreeMap::new(),
                full_history_ts_low: Vec::new(),
            };
            self.families.insert(id, family);
        }
        Ok(self.families.get_mut(&id).expect("the family was inserted above"))
    }

    /// Resolves equal names of families, which no MANIFEST may have: the youngest family keeps the
    /// name. It was created after the others were dropped, or it imported their tables. The
    /// families stay separate, because data of the older ones may have been deleted.
    fn name_families(&mut self) {
        let mut taken: BTreeSet<String> = self.families.values().map(|f| f.descriptor.name.clone()).collect();
        let mut seen = BTreeSet::new();
        for (id, family) in self.families.iter_mut().rev() {
            let name = &mut family.descriptor.name;
            if seen.insert(name.clone()) {
                continue;
            }
            let old = name.clone();
            let numbered =
                std::iter::once(format!("{old}.{id}")).chain((1..).map(|n| format!("{old}.{id}.{n}")));
            *name = numbered
                .into_iter()
                .find(|name| !taken.contains(name))
                .expect("the list of names is endless");
            taken.insert(name.clone());
            seen.insert(name.clone());
            self.summary.families_renamed.push((*id, old, name.clone()));
        }
    }

    /// Writes the MANIFEST and puts it in force.
    fn write_manifest(&mut self) -> Result<()> {
        let manifest_number = self.numbers.new_file_number();
        let edits = self.edits();
        for directory in self.other_directories() {
            self.fs.new_directory(&directory)?.fsync()?;
        }
        let mut options = VersionSetOptions::new(self.fs.clone(), self.path.clone());
        options.use_fsync = self.options.use_fsync;
        write_manifest(&options, manifest_number, &edits)
    }

    /// The edits of the new MANIFEST: all tables in level 0, in the order of their sequence
    /// numbers.
    fn edits(&mut self) -> Vec<VersionEdit> {
        let log_number = self.numbers.new_file_number();
        let mut last_sequence = self.numbers.last_sequence();
        let ids = self.families.keys().chain(&self.flushed.dropped);
        let max_family = ids.max().map_or(0, |id| id.0);
        let mut edits = vec![VersionEdit {
            db_id: Some(self.db_id.clone()),
            max_column_family: (max_family > 0).then_some(max_family),
            ..VersionEdit::default()
        }];
        for (id, family) in &mut self.families {
            let name = &family.descriptor.name;
            let options = &family.descriptor.options;
            let timestamp_size = options.comparator.timestamp_size();
            self.summary.families.push(name.clone());
            edits.push(VersionEdit {
                column_family: *id,
                column_family_add: (*id != ColumnFamilyId::DEFAULT).then(|| name.clone()),
                comparator: Some(options.comparator.name().to_owned()),
                persist_user_defined_timestamps: (timestamp_size > 0)
                    .then_some(options.persist_user_defined_timestamps),
                ..VersionEdit::default()
            });
            family.tables.sort_by_key(|f| (f.largest_seqno, f.smallest_seqno, f.number));
            let unsure = unsure_pairs(&family.tables, options.comparator.as_ref(), &self.of_unknown_age);
            self.summary.order_unsure.extend(unsure);
            for (epoch, file) in (1..).zip(&mut family.tables) {
                file.epoch_number = epoch;
                last_sequence = last_sequence.max(file.largest_seqno);
            }
            let low = &family.full_history_ts_low;
            let contents = VersionEdit {
                column_family: *id,
                log_number: Some(log_number),
                new_files: family.tables.iter().map(|f| (0, f.clone())).collect(),
                blob_file_additions: family.blobs.clone(),
                full_history_ts_low: (!low.is_empty()).then(|| low.clone()),
                ..VersionEdit::default()
            };
            edits.push(stripped(&contents, timestamp_size).into_owned());
        }
        edits.push(VersionEdit {
            log_number: Some(log_number),
            prev_log_number: Some(FileNumber(0)),
            next_file_number: Some(self.numbers.next_file_number()),
            last_sequence: Some(last_sequence),
            ..VersionEdit::default()
        });
        self.summary.last_sequence = last_sequence;
        edits
    }

    /// Moves tables that the old MANIFEST has dropped into `lost`, before the new MANIFEST is in
    /// force. The new one has no record of the drops, so a later repair would take these tables for
    /// live.
    fn archive_obsolete_tables(&self, found: &Found) -> Result<()> {
        let obsolete: BTreeSet<_> = self.summary.tables_obsolete.iter().collect();
        for (_, path) in found.tables.iter().filter(|(number, _)| obsolete.contains(number)) {
            self.move_to_lost(path)?;
        }
        self.sync_lost([&self.path].into_iter().chain(&self.other_directories()))
    }

    /// Moves all other files that the repaired database does not use into `lost`.
    fn archive(&self, found: &Found) -> Result<()> {
        let lost = self.summary.tables_lost.iter().map(|(number, _)| number);
        let salvaged = self.summary.tables_salvaged.iter().map(|table| &table.number);
        let unfinished = self.summary.tables_unfinished.iter().map(|(number, _)| number);
        let lost: BTreeSet<_> = lost.chain(salvaged).chain(unfinished).collect();
        for (_, path) in found.tables.iter().filter(|(number, _)| lost.contains(number)) {
            self.move_to_lost(path)?;
        }
        self.blobs_left_over.iter().try_for_each(|path| self.move_to_lost(path))?;
        for (number, dir) in &found.wals {
            self.move_to_lost(&file_name::wal_file_name(dir, *number))?;
        }
        for number in &found.manifests {
            self.move_to_lost(&file_name::descriptor_file_name(&self.path, *number))?;
        }
        let others = self.other_directories();
        let changed = [&self.path].into_iter().chain(found.wals.values()).chain(&others);
        self.sync_lost(changed.collect::<BTreeSet<_>>())
    }

    /// Makes the moves from these directories durable.
    fn sync_lost<'a>(&self, directories: impl IntoIterator<Item = &'a PathBuf>) -> Result<()> {
        for dir in directories {
            let lost = dir.join(LOST);
            if self.fs.file_exists(&lost)? {
                self.fs.new_directory(&lost)?.fsync()?;
                self.fs.new_directory(dir)?.fsync()?;
            }
        }
        Ok(())
    }

    fn move_to_lost(&self, path: &Path) -> Result<()> {
        let (dir, name) = (path.parent().unwrap_or(&self.path), path.file_name().unwrap_or_default());
        let lost = dir.join(LOST);
        self.fs.create_dir_if_missing(&lost)?;
        match self.fs.rename(path, &lost.join(name)) {
            Err(e) if e.subcode() == SubCode::PathNotFound => Ok(()),
            result => result,
        }
    }
}
