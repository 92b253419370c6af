//! Opening: lock, options, column families, recovery, first jobs.
//!
//! In: options, a directory, the families to open. Out: a [`Db`], or an error. A failed open may
//! leave new files that no MANIFEST names; it changes nothing else in the directory.
//!
//! Source: RocksDB `db/db_impl/db_impl_open.cc`. docs/format/manifest.md states the order of
//! durable steps.

mod best_efforts;
mod remains;
mod stats_history;

pub(super) use stats_history::family_options as stats_history_options;

use super::catch_up::{first_replay, new_follower};
use super::column_family::family_with;
use super::descriptor::{ColumnFamilyDescriptor, family_tables, make_consistent};
use super::holding::Holding;
use super::leftovers::Leftovers;
use super::open_tables::{OpenAllTables, table_capacity};
use super::opening::OpenMode;
use super::operands::FormerOperators;
use super::recorded_times::{begin_numbers, record_times_before_creation};
use super::recover::{BeforeManifest, RecoveredDb, Recovery, ReplayedFamily, log_sections};
use super::stats_history::{begin_stats_history, schedule_stats_history};
use super::{Db, identity, jobs, log_header};
use crate::cf::{ColumnFamilySet, FamilyState};
use crate::engine::{
    DbState, Engine, EngineParts, PrimaryFollower, Secondary, publish_super_versions, track_open,
};
use crate::files::{other_directories, take_directories};
use crate::instance::{DbInner, ReleaseAll, enable_auto_resume, purge_directory};
use crate::observe::observer;
use crate::options::{DbOptions, Feature};
use crate::schedule::Scheduler;
use crate::snapshot::CommitTable;
use crate::trace::Traces;
use crate::version::beside_owner::{OwnersProgress, read_beside_owner};
use crate::version::best_efforts::NewestState;
use crate::version::{
    LogOptions, STATS_HISTORY_COLUMN_FAMILY_NAME, Version, VersionSet, VersionSetOptions, check_family_name,
};
use crate::wal::{ArchivedWal, OldWals, PreparedSections, WalOptions, Wals};
use crate::write::WritePath;
use esker_base::logger::{InfoLog, InfoLogLevel};
use esker_base::sync::Arc;
use esker_base::sync::process::atomic::{AtomicU64, Ordering};
use esker_base::{ColumnFamilyId, Error, ErrorKind, FileNumber, IoActivity, Result, SequenceNumber, SubCode};
use esker_env::io_trace::{IoTracer, TracedFileSystem};
use esker_env::system::unsynced_directory;
use esker_env::{Env, FileLock, FileSystem, random};
use esker_format::compression::CompressionType;
use esker_format::file_name::{self, FileType, parse_file_name};
use esker_format::version_edit::VersionEdit;
use esker_table::{OpenFiles, TableCache};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

/// A number for each open database of this process. Families, and jobs in shared thread pools,
/// carry the number of their database.
static NEXT_TAG: AtomicU64 = AtomicU64::new(1);

/// Largest file number that an engine allocates. `mark_file_numbers_used` ignores files with a
/// larger one.
const MAX_ALLOCATED_NUMBER: u64 = u64::MAX / 2;

impl Db {
    /// Opens a database in `mode`. `secondary` is the directory for a secondary's own files.
    pub(super) fn open_in_mode(
        options: &DbOptions,
        path: &Path,
        mut families: Vec<ColumnFamilyDescriptor>,
        (mode, secondary): (OpenMode, Option<&Path>),
        (reads, write_prepared): (SecondaryReads, bool),
        notes_options: bool,
    ) -> Result<Db> {
        let _activity = IoActivity::DbOpen.begin();
        let _operation = track_open(options, path);
        let mut options = options.clone();
        options.validate()?;
        options.make_paths_absolute()?;
        let mut changes = options.sanitize();
        for family in &mut families {
            changes.extend(make_consistent(&options, family)?);
        }
        options.make_write_buffer_manager();
        let mut opening = Opening::new(options, path, families, (mode, secondary))?;
        opening.reads = reads;
        opening.write_prepared = write_prepared;
        opening.log_header();
        for change in changes {
            esker_base::info_log!(opening.info_log, Warn, "Options: {change}");
        }
        match mode {
            OpenMode::ReadWrite => opening.run(notes_options),
            OpenMode::ReadOnly => {
                let (env, path) = (opening.options.env.clone(), opening.path.clone());
                let attempt = || opening.run(notes_options);
                read_beside_owner(env.fs.as_ref(), env.clock.as_ref(), &path, attempt)
            }
        }
    }
}

/// The files whose entries a secondary shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SecondaryReads {
    TablesAndWals,
    Tables,
}

/// A database that is being opened.
struct Opening {
    options: DbOptions,
    path: PathBuf,
    wal_dir: PathBuf,
    families: Vec<ColumnFamilyDescriptor>,
    mode: OpenMode,
    /// The directory of a secondary's own files.
    secondary: Option<PathBuf>,
    reads: SecondaryReads,
    /// Whether transactions are written under `WritePrepared`.
    write_prepared: bool,
    /// The state that an open for reading shows instead of that of CURRENT's MANIFEST.
    best_state: Option<NewestState>,
    /// Whether the caller has not named the family of the statistics' history.
    hides_stats_history: bool,
    lock: Option<Box<dyn FileLock>>,
    info_log: Arc<dyn InfoLog>,
    session_id: String,
    leftovers: Option<Leftovers>,
    tag: u64,
    /// Open files of the owner. All attempts to open share them, so a file stays open for the next
    /// attempt.
    open_files: Arc<OpenFiles>,
    /// Traces the operations on the database's files.
    io_tracer: Arc<IoTracer>,
    /// The environment without `io_tracer`.
    untraced: Env,
}

impl Opening {
    /// Takes the lock and starts the LOG.
    fn new(
        mut options: DbOptions,
        path: &Path,
        families: Vec<ColumnFamilyDescriptor>,
        (mode, secondary): (OpenMode, Option<&Path>),
    ) -> Result<Opening> {
        if !families.iter().any(|f| f.name == "default") {
            return Err(Error::invalid_argument("Default column family not specified"));
        }
        let fs = options.env.fs.clone();
        let path = fs.absolute_path(path)?;
        let wal_dir = options.wal_dir.clone().unwrap_or_else(|| path.clone());
        let mut lock = None;
        if mode == OpenMode::ReadWrite {
            if options.create_if_missing {
                fs.create_dir_if_missing(&path)?;
            }
            if !fs.file_exists(&path)? {
                return Err(does_not_exist(&path));
            }
            fs.create_dir_if_missing(&wal_dir)?;
            let log_dir = options.db_log_dir.as_deref().filter(|_| options.info_log.is_none());
            log_dir.map_or(Ok(()), |dir| fs.create_dir_if_missing(dir))?;
            // Resolves paths from handles of the directories, so a later rename has no effect.
            let directories: Vec<&Path> = [&*path, &wal_dir].into_iter().chain(log_dir).collect();
            if let Some(held) = fs.hold_directories(&directories)? {
                options.env.fs = held;
            }
            lock = Some(options.env.fs.lock_file(&file_name::lock_file_name(&path))?);
        }
        let untraced = options.env.clone();
        let io_tracer = IoTracer::new(options.env.clock.clone(), observer(&options.listeners));
        options.env.fs = Arc::new(TracedFileSystem::new(options.env.fs, io_tracer.clone()));
        let secondary = secondary.map(|dir| fs.absolute_path(dir)).transpose()?;
        let info_log = log_header::open_info_log(&options, &path, mode, secondary.as_deref())?;
        let tag = NEXT_TAG.fetch_add(1, Ordering::Relaxed);
        let open_files = OpenFiles::new(table_capacity(&options));
        if mode == OpenMode::ReadOnly {
            open_files.set_other_owner(secondary.is_some());
        }
        let session_id = random::session_id();
        Ok(Opening {
            options,
            path,
            wal_dir,
            families,
            mode,
            secondary,
            reads: SecondaryReads::TablesAndWals,
            write_prepared: false,
            best_state: None,
            hides_stats_history: false,
            lock,
            info_log,
            session_id,
            leftovers: None,
            tag,
            open_files,
            io_tracer,
            untraced,
        })
    }

    /// Writes the head of the LOG, if there is one.
    fn log_header(&self) {
        let has_log = self.mode == OpenMode::ReadWrite || self.secondary.is_some();
        if has_log || self.options.info_log.is_some() {
            let dirs = (self.path.as_path(), self.wal_dir.as_path());
            let lines = log_header::header(&self.options, dirs, &self.families, &self.session_id);
            self.info_log.log_all(InfoLogLevel::Header, &lines);
        }
    }

    /// Runs the steps of an open. `notes_options` says whether to write an OPTIONS file.
    fn run(&mut self, notes_options: bool) -> Result<Db> {
        self.leftovers = match self.mode {
            OpenMode::ReadWrite => Leftovers::list(&self.options.env.fs, &self.path, &self.wal_dir),
            OpenMode::ReadOnly => None,
        };
        let result = self.try_to_run(notes_options);
        if let (Err(_), Some(leftovers)) = (&result, self.leftovers.take()) {
            leftovers.delete();
            // Recovery may have written tables.
            if let Some(manager) = &self.options.sst_file_manager {
                let others = self.other_directories();
                let directories = [&self.path].into_iter().chain(&others);
                manager.forget_directories(&directories.map(PathBuf::as_path).collect::<Vec<_>>());
            }
        }
        result
    }

    fn try_to_run(&mut self, notes_options: bool) -> Result<Db> {
        let read_only = self.mode == OpenMode::ReadOnly;
        if read_only {
            self.best_state = self.best_state_for_reading()?;
        } else {
            self.settle_for_best_state()?;
        }
        let before_manifest = if read_only { Some(self.look_at_wals()?) } else { None };
        let followed_from = before_manifest
            .clone()
            .filter(|_| self.secondary.is_some() && self.reads == SecondaryReads::TablesAndWals);
        let (existing, in_file) = self.find_or_create()?;
        let (mut present, missing) = self.split_families(existing)?;
        let mut manifest = self.recover_manifest(&mut present)?;
        let db_id = self.agree_on_identity(&manifest, in_file)?;
        manifest.set_db_id(db_id.clone());
        let tables = self.open_tables(&manifest, &present)?;
        esker_base::info_log!(self.info_log, Info, "DB ID: {db_id}");
        let mut recovered = self.recover_wals(&manifest, &present, &tables, &db_id, before_manifest)?;
        let follower = self.secondary.as_ref().map(|_| recovered.refused_operands());
        let mut wals = self.new_wals(&manifest, &recovered)?;
        let kept_before = if existing { 0 } else { begin_numbers(&self.families, manifest.numbers()) };
        if !read_only {
            self.log_recovery(&mut manifest, &mut wals, &recovered)?;
            self.drop_identity_file()?;
        }
        let losses = std::mem::take(&mut recovered.losses);
        let mut prepared = PreparedSections::default();
        let commits = self.write_prepared.then(CommitTable::new);
        for transaction in std::mem::take(&mut recovered.sections.prepared) {
            if let (Some(commits), Some((first, count))) = (&commits, transaction.numbers) {
                commits.prepare(&transaction.xid, first, count);
            }
            prepared.insert(transaction.xid, wals.current_number(), Arc::new(transaction.batch));
        }
        let states = self.family_states(&manifest, recovered, wals.current_number(), &tables);
        let follower = follower.map(|refused| new_follower(&self.options, &manifest, &states, refused));
        let engine =
            self.build_engine(manifest, (wals, prepared, losses), (states, follower, commits), db_id);
        if let Some(before) = followed_from {
            first_replay(&engine, before)?;
        }
        let db = Db {
            inner: Arc::new(DbInner {
                write_path: WritePath::new(engine.clone()),
                engine,
                _last: ReleaseAll(self.options.env.clock.clone()),
            }),
        };
        record_times_before_creation(db.engine(), kept_before);
        db.start(missing, notes_options)?;
        if let Some(dir) = unsynced_directory() {
            let what = "does not sync directories: a power loss may undo changes of names";
            esker_base::info_log!(db.engine().info_log, Warn, "The file system of {} {what}", dir.display());
        }
        Ok(db)
    }

    /// Recovers the versions that the MANIFEST describes. Unless the database is read-only, creates
    /// and locks the directories of tables and blob files. Sets options of `present` families that
    /// the MANIFEST stores.
    fn recover_manifest(&mut self, present: &mut [ColumnFamilyDescriptor]) -> Result<VersionSet> {
        let fs = self.options.env.fs.clone();
        let descriptors: Vec<_> = present.iter().map(|family| family.for_manifest(&self.path)).collect();
        let manifest = match &self.best_state {
            Some(state) => state.version_set(self.version_set_options(&fs), &descriptors)?,
            None => VersionSet::recover(self.version_set_options(&fs), &descriptors)?,
        };
        if self.mode != OpenMode::ReadOnly {
            self.mark_file_numbers_used(&manifest)?;
            // This comes after the MANIFEST's files are found, so that a missing directory is an
            // error and is not created.
            let directories = self.other_directories();
            take_directories(fs.as_ref(), &self.path, &directories, manifest.numbers())?;
            self.leftovers.iter_mut().for_each(|leftovers| leftovers.add_data_directories(&directories));
        }
        let in_manifest: HashMap<&str, _> = manifest.families().map(|f| (f.name(), f)).collect();
        for family in present {
            // The MANIFEST says whether the family's tables keep timestamps; new tables do the
            // same.
            let in_manifest = in_manifest.get(family.name.as_str());
            let persisted = in_manifest.is_none_or(|f| f.descriptor().persist_user_defined_timestamps);
            family.options.persist_user_defined_timestamps = persisted;
        }
        Ok(manifest)
    }

    /// Recovers entries that are in WALs only. A secondary replays WALs later.
    fn recover_wals(
        &self,
        manifest: &VersionSet,
        present: &[ColumnFamilyDescriptor],
        tables: &BTreeMap<ColumnFamilyId, Arc<TableCache>>,
        db_id: &str,
        before_manifest: Option<BeforeManifest>,
    ) -> Result<RecoveredDb> {
        let fs = &self.options.env.fs;
        let former_operators = FormerOperators::of(fs.as_ref(), &self.path, present);
        former_operators.check_tables(manifest, tables)?;
        let recovery = Recovery {
            options: &self.options,
            fs,
            path: &self.path,
            wal_dir: &self.wal_dir,
            db_id,
            session_id: &self.session_id,
            before_manifest,
            info_log: &self.info_log,
            tables,
            former_operators: &former_operators,
            write_prepared: self.write_prepared,
        };
        // WALs may be newer than lost tables.
        let has_losses = self.best_state.as_ref().is_some_and(|state| !state.losses.is_empty());
        match self.secondary.is_some() || has_losses {
            false => recovery.run(manifest, present),
            true => recovery.without_replay(manifest, present),
        }
    }

    /// The WAL manager for new writes. It also lists the old WALs that recovery has left.
    fn new_wals(&self, manifest: &VersionSet, recovered: &RecoveredDb) -> Result<Wals> {
        let old = self.old_wals(manifest, &recovered.cuts)?;
        let mut wals = Wals::new(self.options.env.fs.clone(), self.wal_dir.clone(), self.wal_options(), old);
        for family in manifest.families() {
            wals.set_timestamp_size(family.id(), family.descriptor().comparator.timestamp_size());
        }
        Ok(wals)
    }

    /// The directories for tables and blob files of all families besides the database's own.
    fn other_directories(&self) -> Vec<PathBuf> {
        let own = self.families.iter().map(|family| family.options.file_paths(&self.path));
        other_directories(&self.path, &own.collect::<Vec<_>>())
    }

    /// Marks the numbers of tables, blob files, MANIFESTs and OPTIONS files in the directory as
    /// used. The MANIFEST may not know a file that a crash left, and knows no OPTIONS file.
    fn mark_file_numbers_used(&self, manifest: &VersionSet) -> Result<()> {
        for name in self.options.env.fs.children(&self.path)? {
            match parse_file_name(&name) {
                Some((
                    FileType::Table | FileType::Blob | FileType::Descriptor | FileType::Options,
                    number,
                )) if number.0 <= MAX_ALLOCATED_NUMBER => {
                    manifest.numbers().mark_used(number);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the database's id: that of the MANIFEST, else that of IDENTITY, else a new one.
    /// Writes it to IDENTITY if the options require that file and its content differs.
    fn agree_on_identity(&self, manifest: &VersionSet, in_file: Option<String>) -> Result<String> {
        let known = manifest.db_id().map(str::to_owned).or_else(|| in_file.clone());
        let db_id = known.unwrap_or_else(identity::generate);
        let wants_file = self.mode == OpenMode::ReadWrite && self.options.write_identity_file;
        if wants_file && in_file.as_ref() != Some(&db_id) {
            identity::save(&self.options, self.options.env.fs.as_ref(), &self.path, &db_id)?;
        }
        Ok(db_id)
    }

    /// Deletes IDENTITY if the options exclude it. The MANIFEST has the id.
    fn drop_identity_file(&self) -> Result<()> {
        let (fs, path) = (&self.options.env.fs, file_name::identity_file_name(&self.path));
        if !self.options.write_identity_file && fs.file_exists(&path)? {
            fs.delete_file(&path)?;
        }
        Ok(())
    }

    /// Returns whether the directory had a database, and the id in IDENTITY. Creates a database if
    /// there was none and the options allow it.
    fn find_or_create(&self) -> Result<(bool, Option<String>)> {
        let fs = &self.options.env.fs;
        let writable = self.mode == OpenMode::ReadWrite;
        let has_current = fs.file_exists(&file_name::current_file_name(&self.path))?;
        let existing = has_current || self.best_state.is_some();
        if !existing && (!writable || !self.options.create_if_missing) {
            return Err(does_not_exist(&self.path));
        }
        if existing && self.options.error_if_exists && writable {
            return Err(Error::invalid_argument(format!(
                "{}: exists (error_if_exists is true)",
                self.path.display()
            )));
        }
        if !existing {
            // Checked before the new database has its first file.
            let creates = self.options.create_missing_column_families;
            let missing = self.families.iter().find(|family| family.name != "default" && !creates);
            missing.map_or(Ok(()), |family| Err(family_not_found(&family.name)))?;
            self.families.iter().try_for_each(|family| check_family_name(&family.name))?;
            self.check_for_remains(fs.as_ref())?;
        }
        let in_file = if existing {
            identity::load(fs.as_ref(), &self.path)?
        } else {
            Some(identity::load_or_create_identity(&self.options, fs.as_ref(), &self.path)?)
        };
        self.check_direct_io(fs.as_ref(), has_current)?;
        if let (false, Some(db_id)) = (existing, &in_file) {
            let default = self.families.iter().find(|f| f.name == "default").expect("`new` checked this");
            VersionSet::create_new_db(&self.version_set_options(fs), db_id, &default.options.comparator)?;
        }
        Ok((existing, in_file))
    }

    /// If options set direct I/O, checks with CURRENT, in a new database with IDENTITY, that the
    /// directory's file system supports it.
    fn check_direct_io(&self, fs: &dyn FileSystem, existing: bool) -> Result<()> {
        let names = [
            ("use_direct_reads", self.options.use_direct_reads),
            ("use_direct_io_for_flush_and_compaction", self.options.use_direct_io_for_flush_and_compaction),
        ];
        let Some((name, _)) = names.into_iter().find(|(_, is_set)| *is_set) else { return Ok(()) };
        let name_of = if existing { file_name::current_file_name } else { file_name::identity_file_name };
        match fs.new_direct_random_access_file(&name_of(&self.path)) {
            Err(e) if e.kind() == ErrorKind::NotSupported => Err(Error::invalid_argument(format!(
                "{name}: Direct I/O is not supported by the specified DB. {}",
                e.message()
            ))),
            opened => opened.map(drop),
        }
    }

    /// Splits the requested families into existing ones and ones to create.
    fn split_families(
        &mut self,
        existing: bool,
    ) -> Result<(Vec<ColumnFamilyDescriptor>, Vec<ColumnFamilyDescriptor>)> {
        let known = match &self.best_state {
            Some(state) => state.families().map(str::to_owned).collect(),
            None if existing || self.mode == OpenMode::ReadWrite => {
                VersionSet::list_column_families(self.options.env.fs.as_ref(), &self.path)?
            }
            None => vec!["default".to_owned()],
        };
        let known: HashSet<String> = known.into_iter().collect();
        self.add_stats_history(&known)?;
        let (present, missing): (Vec<_>, Vec<_>) =
            self.families.iter().cloned().partition(|f| known.contains(&f.name));
        let may_create = self.mode == OpenMode::ReadWrite && self.options.create_missing_column_families;
        let not_created =
            |family: &&ColumnFamilyDescriptor| !may_create && !self.is_requested_history(family);
        if let Some(first) = missing.iter().find(not_created) {
            return Err(family_not_found(&first.name));
        }
        missing.iter().try_for_each(|family| check_family_name(&family.name))?;
        Ok((present, missing))
    }

    /// Begins a new WAL. Writes a new MANIFEST with its number and with the tables that recovery
    /// wrote.
    fn log_recovery(
        &self,
        manifest: &mut VersionSet,
        wals: &mut Wals,
        recovered: &RecoveredDb,
    ) -> Result<()> {
        self.sync_wals(&recovered.wals_to_sync())?;
        for (number, bytes) in &recovered.wals_still_needed {
            wals.add_alive(*number, *bytes);
        }
        let new_wal = manifest.numbers().new_file_number();
        wals.switch(new_wal)?;
        let next = SequenceNumber(manifest.numbers().last_sequence().0 + 1);
        log_sections(wals, &recovered.sections, recovered.kind, next)?;
        let in_force: BTreeMap<ColumnFamilyId, Arc<Version>> =
            manifest.families().map(|f| (f.id(), f.current().clone())).collect();
        let edits = recovered.families.iter().map(|family| VersionEdit {
            column_family: family.id,
            log_number: Some(family.oldest_wal(new_wal)),
            new_files: family.new_files.iter().map(|f| (0, f.clone())).collect(),
            blob_file_additions: family.new_blobs.clone(),
            full_history_ts_low: family.full_history_ts_low.clone().filter(|bound| {
                let version = in_force.get(&family.id);
                version.is_none_or(|v| v.icmp().compare_timestamps(bound, v.full_history_ts_low()).is_gt())
            }),
            ..VersionEdit::default()
        });
        // The edits of all families form one atomic group: after a crash, a replay applies all of
        // them or none.
        let log = LogOptions { new_manifest: true, atomic_group: recovered.families.len() > 1 };
        manifest.log_and_apply(edits.collect(), log)?;
        Ok(())
    }

    /// The WALs in the archive; none if the directory cannot be listed.
    fn archived_wals(&self) -> Vec<FileNumber> {
        let archive = self.wal_dir.join(file_name::ARCHIVE_DIR);
        wals_in(self.options.env.fs.as_ref(), &archive).unwrap_or_else(|e| {
            esker_base::info_log!(self.info_log, Warn, "No archive of WALs: {e}");
            Vec::new()
        })
    }

    /// The old WALs that users may read: those in the archive and, if the database is read-only,
    /// all others. Marks the numbers of archived WALs as used.
    fn old_wals(&self, manifest: &VersionSet, cuts: &[(FileNumber, u64)]) -> Result<OldWals> {
        let fs = self.options.env.fs.as_ref();
        let mut old = OldWals::new(&self.options);
        cuts.iter().for_each(|(number, bytes)| old.cut(*number, *bytes));
        // Lists these WALs before the archive, because the owner may move WALs into the archive
        // meanwhile.
        if self.mode == OpenMode::ReadOnly {
            wals_in(fs, &self.wal_dir)?.into_iter().for_each(|number| old.retire(number));
        }
        for number in self.archived_wals() {
            if number.0 <= MAX_ALLOCATED_NUMBER {
                manifest.numbers().mark_used(number);
            }
            let path = file_name::archived_wal_file_name(&self.wal_dir, number);
            // The owner may delete the file meanwhile.
            if let (Ok(bytes), Ok(modified)) = (fs.file_size(&path), fs.modification_time(&path)) {
                old.note_archived(number, ArchivedWal { bytes, modified });
            }
        }
        Ok(old)
    }

    /// Syncs these WALs, because their writer may not have synced them.
    fn sync_wals(&self, numbers: &[FileNumber]) -> Result<()> {
        let fs = &self.options.env.fs;
        for number in numbers {
            let mut file = fs.reopen_writable_file(&file_name::wal_file_name(&self.wal_dir, *number))?;
            file.sync()?;
            file.close()?;
        }
        if numbers.is_empty() { Ok(()) } else { fs.new_directory(&self.wal_dir)?.fsync() }
    }

    /// Each family's recovered memtable over its current version.
    fn family_states(
        &self,
        manifest: &VersionSet,
        recovered: RecoveredDb,
        new_wal: FileNumber,
        tables: &BTreeMap<ColumnFamilyId, Arc<TableCache>>,
    ) -> Vec<FamilyState> {
        let state = |family: ReplayedFamily| {
            let in_manifest = manifest.family(family.id).expect("recovered from this MANIFEST");
            let log_number = family.oldest_wal(new_wal);
            let tables = tables[&family.id].clone();
            let in_manifest = (manifest, in_manifest);
            family_with(self.tag, in_manifest, &family.descriptor, family.mem, log_number, tables)
        };
        recovered.families.into_iter().map(state).collect()
    }

    fn build_engine(
        &mut self,
        manifest: VersionSet,
        (wals, prepared, wal_losses): (Wals, PreparedSections, Vec<String>),
        (states, follower, commits): (Vec<FamilyState>, Option<PrimaryFollower>, Option<CommitTable>),
        db_id: String,
    ) -> Arc<Engine> {
        let numbers = manifest.numbers().clone();
        let families = ColumnFamilySet::new(states.iter().map(|s| s.cf.clone()));
        let mut state = DbState::default();
        for family in states {
            state.families.insert(family.cf.id, family);
        }
        Arc::new(Engine::new(EngineParts {
            path: self.path.clone(),
            other_directories: self.other_directories(),
            wal_dir: self.wal_dir.clone(),
            tag: self.tag,
            scheduler: Scheduler::new(self.options.env.pool.clone(), self.tag),
            options: self.options.clone(),
            db_id,
            session_id: self.session_id.clone(),
            read_only: self.mode == OpenMode::ReadOnly,
            hides_stats_history: self.hides_stats_history,
            secondary: follower.map(Secondary::new),
            info_log: self.info_log.clone(),
            families,
            numbers,
            manifest,
            state,
            wals,
            prepared,
            commits,
            wal_losses,
            traces: Traces::new(
                self.open_files.tracer().clone(),
                self.io_tracer.clone(),
                self.untraced.clone(),
            ),
            lock: self.lock.take(),
        }))
    }

    /// Makes the table caches of all families. If all tables stay open, opens the tables.
    fn open_tables(
        &self,
        manifest: &VersionSet,
        families: &[ColumnFamilyDescriptor],
    ) -> Result<BTreeMap<ColumnFamilyId, Arc<TableCache>>> {
        let mut tables = BTreeMap::new();
        let mut all = OpenAllTables::new(&self.options, &self.info_log);
        let by_name: HashMap<&str, _> = families.iter().rev().map(|f| (f.name.as_str(), f)).collect();
        for family in manifest.families() {
            let Some(descriptor) = by_name.get(family.name()) else { continue };
            let paths = family.current().paths().clone();
            let of_family = family_tables(&self.options, paths, descriptor, &self.open_files);
            all.add(family.name(), &of_family, family.current());
            tables.insert(family.id(), of_family);
        }
        if self.mode == OpenMode::ReadOnly {
            self.hold_files(manifest, &tables)?;
        }
        all.run()?;
        Ok(tables)
    }

    /// Lists the WALs. Runs before the MANIFEST is read.
    fn look_at_wals(&self) -> Result<BeforeManifest> {
        let fs = self.options.env.fs.as_ref();
        let progress = OwnersProgress::now(fs, &self.path);
        Ok(BeforeManifest { progress, wals: wals_in(fs, &self.wal_dir)? })
    }

    /// Opens every file that a read may need, because the owner may delete it at any time. Reads
    /// nothing. Each file costs a descriptor, regardless of `max_open_files`. If the process has no
    /// descriptor left, reads open the other files later, if these still exist.
    /// # Errors
    /// `Corruption`: a file is missing, or has another size than the MANIFEST says.
    fn hold_files(
        &self,
        manifest: &VersionSet,
        tables: &BTreeMap<ColumnFamilyId, Arc<TableCache>>,
    ) -> Result<()> {
        let holding = self.holding();
        let (mut live_tables, mut live_blobs) = (HashSet::new(), HashSet::new());
        for family in manifest.families() {
            let Some(tables) = tables.get(&family.id()) else { continue };
            let version = family.current();
            for (level, file) in version.all_files() {
                holding.hold_table(tables, level, file)?;
                live_tables.insert(file.number);
            }
            for number in version.blob_files().keys() {
                holding.hold_blob_file(tables, *number)?;
                live_blobs.insert(*number);
            }
        }
        self.open_files.hold_only(&live_tables, &live_blobs);
        Ok(())
    }

    fn holding(&self) -> Holding<'_> {
        Holding {
            fs: &self.options.env.fs,
            paranoid_checks: self.options.paranoid_checks,
            info_log: &self.info_log,
        }
    }

    fn version_set_options(&self, fs: &Arc<dyn FileSystem>) -> VersionSetOptions {
        let mut options = VersionSetOptions::new(fs.clone(), self.path.clone()).with_syncs(&self.options);
        options.max_manifest_file_size = self.options.max_manifest_file_size;
        options.max_manifest_space_amp_pct = self.options.manifest_space_amp_pct();
        options.manifest_preallocation_size = self.options.manifest_preallocation();
        options.write_dbid_to_manifest = self.options.write_dbid_to_manifest;
        options.paranoid_checks = self.options.paranoid_checks;
        options.read_only = self.mode == OpenMode::ReadOnly;
        options.follows = self.secondary.is_some();
        options
    }

    /// The bytes to preallocate for a WAL, by RocksDB's rule: 1.1 times the largest write buffer,
    /// or a smaller limit on WALs or memtables.
    fn most_to_preallocate(&self) -> u64 {
        let options = &self.options;
        let largest = self.families.iter().map(|f| f.options.write_buffer_size).max().unwrap_or(0) as u64;
        let manager = options.write_buffer_manager.as_ref().map_or(0, |manager| manager.buffer_size() as u64);
        let limits = [options.max_total_wal_size, options.db_write_buffer_size as u64, manager];
        let limits = limits.into_iter().filter(|limit| *limit > 0);
        limits.fold(largest.saturating_add(largest / 10), u64::min)
    }

    fn wal_options(&self) -> WalOptions {
        let preallocate_bytes = if self.options.allow_fallocate { self.most_to_preallocate() } else { 0 };
        WalOptions {
            recycle_log_file_num: self.options.recycle_log_file_num,
            preallocate_bytes,
            wal_bytes_per_sync: self.options.wal_bytes_per_sync,
            manual_wal_flush: self.options.manual_wal_flush,
            use_fsync: self.options.use_fsync,
            compresses: self.options.wal_compression != CompressionType::None,
            timestamp_sizes: self.options.compatible_with.reads(Feature::TimestampSizes),
            checksum_handoff: self.options.checksum_handoff_file_types.contains(&FileType::Wal),
        }
    }
}

impl Db {
    /// Starts the first jobs and writes the first files of an open database.
    fn start(&self, missing: Vec<ColumnFamilyDescriptor>, notes_options: bool) -> Result<()> {
        let engine = self.engine();
        if !engine.read_only {
            engine.prepare_opened_versions();
        }
        {
            let mut state = engine.state.lock();
            let ids: Vec<ColumnFamilyId> = state.families.keys().copied().collect();
            publish_super_versions(engine, &mut state, &ids);
        }
        if engine.secondary.is_some() {
            jobs::start_of_secondary(engine);
        }
        if engine.read_only {
            return Ok(());
        }
        self.add_column_families(&missing)?;
        if notes_options {
            self.inner.write_options_file()?;
        }
        engine.track_existing_files()?;
        purge_directory(engine)?;
        enable_auto_resume(&self.inner);
        jobs::start(engine);
        if engine.options.persist_stats_to_disk {
            begin_stats_history(self, missing.iter().any(|f| f.name == STATS_HISTORY_COLUMN_FAMILY_NAME))?;
        }
        schedule_stats_history(engine, &self.inner.write_path);
        Ok(())
    }
}

/// The numbers of the WALs in `dir`, which need not exist.
pub(super) fn wals_in(fs: &dyn FileSystem, dir: &Path) -> Result<Vec<FileNumber>> {
    let names = match fs.children(dir) {
        Err(e) if e.subcode() == SubCode::PathNotFound => return Ok(Vec::new()),
        names => names?,
    };
    let number = |name: String| match parse_file_name(&name) {
        Some((FileType::Wal, number)) => Some(number),
        _ => None,
    };
    Ok(names.into_iter().filter_map(number).collect())
}

fn family_not_found(name: &str) -> Error {
    let what = format!("Column family not found: {name}; set create_missing_column_families to create it");
    Error::invalid_argument(what)
}

fn does_not_exist(path: &Path) -> Error {
    Error::invalid_argument(format!("{}: does not exist (create_if_missing is false)", path.display()))
}
