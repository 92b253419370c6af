//! Backups in RocksDB's layout: tables once for all backups, other files once for each.
//!
//! In: an open database, and a directory for its backups. Out: numbered backups that RocksDB
//! restores. RocksDB's backups are restored here, too.
//!
//! ```text
//! meta/N                       which files backup N consists of, with their checksums (`meta.rs`)
//! private/N/CURRENT, MANIFEST-…, OPTIONS-…, ….log
//! shared_checksum/NUMBER_sSESSION_BYTES.sst        a table: number, session that wrote it, size
//! shared_checksum/NUMBER_CRC_BYTES.blob            a blob file
//! shared_checksum/NUMBER_CRC_BYTES.sst             a table without a session, or of a taken name
//! ```
//!
//! Invariants
//!  1. `meta/N` has its name only when all its files are durable; until then the backup does not
//!     exist.
//!  2. A shared file is deleted only when no meta file names it.
//!  3. A backup holds all families at one point in time, as a checkpoint does.
//!
//! Source: RocksDB `utilities/backup/backup_engine.cc`.

mod in_place;
mod meta;
mod options;
mod restore;
mod transfer;

use crate::checkpoint::KeepFiles;
use crate::db::Db;
use crate::files::{read_chunks, under_either_name};
use crate::observe::{FlushReason, LiveFileStorageInfo};
use crate::options::FileChecksumGenCrc32cFactory;
use esker_base::sync::Arc;
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_base::sync::fork::ProcessOwner;
use esker_base::{Error, Result, crc32c};
use esker_env::{Env, FileSystem, RateLimiter, RateLimiterMode};
use esker_format::file_name::{descriptor_file_name, parse_file_name};
use esker_format::properties::TableProperties;
use esker_table::TableReader;
use meta::{BackupFile, BackupMeta};
pub use options::{
    BackupEngineOptions, CreateBackupOptions, ExcludeFilesCallback, RestoreMode, RestoreOptions,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use transfer::Transfer;

const META: &str = "meta";
const PRIVATE: &str = "private";
const SHARED: &str = "shared_checksum";

/// Stops a backup from another thread: [`BackupEngine::stopper`].
#[derive(Clone, Debug)]
pub struct BackupStopper(Arc<AtomicBool>);

impl BackupStopper {
    /// Makes the running backup, and all later ones of the engine, end with `Incomplete`. Returns
    /// at once. The next garbage collection deletes the files that were copied.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A backup.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct BackupInfo {
    /// Its number.
    pub backup_id: u32,
    /// Time at which the backup was made, in Unix seconds.
    pub timestamp: u64,
    /// Bytes of all its files, shared ones included.
    pub size: u64,
    /// Number of its files.
    pub number_files: usize,
    /// The metadata that the program gave.
    pub app_metadata: Vec<u8>,
    /// Names of the files that `exclude_files_callback` left out, below a backup directory.
    pub excluded_files: Vec<String>,
    /// Its files, without excluded ones: [`BackupEngine::backup_info`] names them. Directories of
    /// names are the backup directory, checksums those of the backup.
    pub file_details: Vec<LiveFileStorageInfo>,
    /// The directory by which [`BackupEngine::env_for_open`] opens the backup.
    pub name_for_open: PathBuf,
}

/// Makes, checks, restores and deletes backups. Only one engine may have a directory open.
///
/// ```
/// # let dir = esker_testkit::TempDir::new("doc");
/// # let db = esker::Db::open_default(dir.join("db"))?;
/// use esker::{BackupEngine, BackupEngineOptions};
///
/// db.put("esker", "gravel")?;
/// let mut backups = BackupEngine::open(&BackupEngineOptions::new(dir.join("backups")))?;
/// let first = backups.create_new_backup(&db, true)?;
/// backups.create_new_backup_with_metadata(&db, b"after the deploy", false)?;
/// assert!(backups.corrupted_backups().is_empty());
/// for backup in backups.backup_infos() {
///     backups.verify_backup(backup.backup_id, true)?;
/// }
/// backups.restore_db_from_latest_backup(dir.join("restored"), dir.join("restored"))?;
/// backups.restore_db_from_backup(first, dir.join("older"), dir.join("older"))?;
/// backups.delete_backup(first)?;
/// backups.purge_old_backups(1)?;
/// backups.garbage_collect()?;
///
/// let restored = esker::Db::open_default(dir.join("restored"))?;
/// assert!(restored.contains_key("esker")?);
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Debug)]
pub struct BackupEngine {
    /// A forked child must change nothing: its parent would use the same numbers.
    owner: ProcessOwner,
    dir: PathBuf,
    env: Env,
    backups: BTreeMap<u32, BackupMeta>,
    /// Backups whose meta file cannot be used, and why.
    corrupt: BTreeMap<u32, Error>,
    options: BackupEngineOptions,
    stopped: Arc<AtomicBool>,
}

impl BackupEngine {
    /// Opens the directory.
    /// # Errors
    /// `IoError`. Damaged backups do not prevent opening: see [`BackupEngine::corrupted_backups`].
    pub fn open(options: &BackupEngineOptions) -> Result<BackupEngine> {
        let env = options.env.clone();
        let dir = env.fs.absolute_path(&options.backup_dir)?;
        env.fs.create_dir_if_missing(&dir)?;
        for name in [META, PRIVATE, SHARED] {
            env.fs.create_dir_if_missing(&dir.join(name))?;
        }
        let mut engine = BackupEngine {
            owner: ProcessOwner::here(),
            dir,
            env,
            backups: BTreeMap::new(),
            corrupt: BTreeMap::new(),
            options: limited(options.clone()),
            stopped: Arc::default(),
        };
        for name in engine.fs().children(&engine.dir.join(META))? {
            let Ok(id) = name.parse::<u32>() else { continue };
            match engine.load(id) {
                Ok(meta) => drop(engine.backups.insert(id, meta)),
                Err(e) => drop(engine.corrupt.insert(id, e)),
            }
        }
        if options.destroy_old_data {
            let ids: Vec<u32> = engine.backups.keys().chain(engine.corrupt.keys()).copied().collect();
            ids.into_iter().try_for_each(|id| engine.delete_backup(id))?;
            engine.garbage_collect()?;
        }
        Ok(engine)
    }

    /// A handle that stops backups of this engine from another thread.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.join("db"))?;
    /// use esker::{BackupEngine, BackupEngineOptions, ErrorKind};
    ///
    /// let mut backups = BackupEngine::open(&BackupEngineOptions::new(dir.join("backups")))?;
    /// backups.stopper().stop();
    /// assert_eq!(backups.create_new_backup(&db, true).unwrap_err().kind(), ErrorKind::Incomplete);
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn stopper(&self) -> BackupStopper {
        BackupStopper(self.stopped.clone())
    }

    /// The copying of a backup: paced, and stopped on request.
    fn backing_up<'a>(&'a self, options: &'a CreateBackupOptions) -> Transfer<'a> {
        let mut transfer = self.transfer(self.options.backup_rate_limiter.as_deref());
        transfer.stopped = Some(&self.stopped);
        transfer.progress = options.progress_callback.as_deref();
        transfer
    }

    fn transfer<'a>(&'a self, limiter: Option<&'a RateLimiter>) -> Transfer<'a> {
        let interval = self.options.callback_trigger_interval_size.max(1);
        Transfer::new(self.fs(), self.env.clock.as_ref(), limiter, interval)
    }

    /// Checks that the calling process is the one that opened it.
    /// # Errors
    /// `NotSupported` in a forked child of the process that opened it.
    fn check_process(&self) -> Result<()> {
        self.owner.check(format_args!("the backup engine of {}", self.dir.display()))
    }

    fn fs(&self) -> &dyn FileSystem {
        self.env.fs.as_ref()
    }

    fn load(&self, id: u32) -> Result<BackupMeta> {
        let path = self.dir.join(META).join(id.to_string());
        let text = read_all(self.fs(), &path)?;
        let mut meta = BackupMeta::parse(&text).map_err(|e| e.at(path.display()))?;
        for file in &mut meta.files {
            let path = self.dir.join(&file.name);
            if !self.fs().file_exists(&path)? {
                return Err(Error::corruption("a file of the backup is missing").at(path.display()));
            }
            file.bytes = self.fs().file_size(&path)?;
        }
        Ok(meta)
    }

    /// The backups that can be restored, oldest first, without `file_details`.
    pub fn backup_infos(&self) -> Vec<BackupInfo> {
        self.backups.iter().map(|(id, meta)| self.describe(*id, meta)).collect()
    }

    fn describe(&self, id: u32, meta: &BackupMeta) -> BackupInfo {
        BackupInfo {
            backup_id: id,
            timestamp: meta.timestamp,
            size: meta.files.iter().map(|f| f.bytes).sum(),
            number_files: meta.files.len(),
            app_metadata: meta.app_metadata.clone(),
            excluded_files: meta.excluded.clone(),
            file_details: Vec::new(),
            name_for_open: self.private_dir(id),
        }
    }

    fn private_dir(&self, id: u32) -> PathBuf {
        self.dir.join(PRIVATE).join(id.to_string())
    }

    /// Numbers of backups that cannot be restored.
    pub fn corrupted_backups(&self) -> Vec<u32> {
        self.corrupt.keys().copied().collect()
    }

    /// Backs up `db` and returns the backup's number. Tables of earlier backups are not copied
    /// again. With `flush_before_backup` memtables are flushed first; otherwise the WALs are
    /// copied.
    /// # Errors
    /// `ShutdownInProgress`: the database was closed · `NotSupported`: it is read-only · `IoError`:
    /// the next garbage collection deletes the copied files · `Incomplete`: it was stopped · the
    /// error of the flush · the background error in force.
    pub fn create_new_backup(&mut self, db: &Db, flush_before_backup: bool) -> Result<u32> {
        self.create_new_backup_with_metadata(db, &[], flush_before_backup)
    }

    /// Backs up `db` as [`BackupEngine::create_new_backup`] does, and records `app_metadata`.
    /// # Errors
    /// `ShutdownInProgress`: the database was closed · `NotSupported`: it is read-only · `IoError`:
    /// the next garbage collection deletes the copied files · `Incomplete`: it was stopped · the
    /// error of the flush · the background error in force.
    pub fn create_new_backup_with_metadata(
        &mut self,
        db: &Db,
        app_metadata: &[u8],
        flush_before_backup: bool,
    ) -> Result<u32> {
        let options = CreateBackupOptions::default().flush_before_backup(flush_before_backup);
        self.create_new_backup_with_options(db, &options, app_metadata)
    }

    /// Backs up `db` as `options` say, and records `app_metadata`.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.join("db"))?;
    /// use esker::{BackupEngine, BackupEngineOptions, CreateBackupOptions};
    ///
    /// let options = BackupEngineOptions::new(dir.join("backups")).backup_rate_limit(64 << 20);
    /// let mut backups = BackupEngine::open(&options)?;
    /// let how = CreateBackupOptions::default().progress_callback(|| println!("4 MiB more"));
    /// backups.create_new_backup_with_options(&db, &how, b"nightly")?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `ShutdownInProgress`: the database was closed · `NotSupported`: it is read-only, or
    /// `schema_version` is above 2 · `InvalidArgument`: `schema_version` is below 1, or below 2
    /// with `exclude_files_callback` · `IoError`: the next garbage collection deletes the copied
    /// files · `Incomplete`: it was stopped · the error of the flush · the background error in
    /// force.
    pub fn create_new_backup_with_options(
        &mut self,
        db: &Db,
        options: &CreateBackupOptions,
        app_metadata: &[u8],
    ) -> Result<u32> {
        self.check_process()?;
        self.backing_up(options).check_stopped()?;
        self.check_schema(options)?;
        let id = self.backups.keys().chain(self.corrupt.keys()).max().map_or(1, |last| last + 1);
        let private = self.private_dir(id);
        remove_dir(self.fs(), &private)?;
        self.fs().create_dir_if_missing(&private)?;
        let undeletable = KeepFiles::new(db)?;
        let mut meta = self.copy_all(db, id, options)?;
        drop(undeletable);
        meta.timestamp = self.env.clock.now_seconds();
        meta.app_metadata = app_metadata.to_vec();
        // The backup directory and its folders may be new: sync them, too.
        for dir in [&private, &self.dir.join(PRIVATE), &self.dir.join(SHARED), &self.dir] {
            self.fs().new_directory(dir)?.fsync()?;
        }
        let dir = self.dir.join(META);
        let staging = dir.join(format!(".{id}.tmp"));
        let mut file = self.fs().new_writable_file(&staging)?;
        file.append(&meta.encode(self.options.schema_version))?;
        file.fsync()?;
        file.close()?;
        self.fs().rename(&staging, &dir.join(id.to_string()))?;
        self.fs().new_directory(&dir)?.fsync()?;
        self.backups.insert(id, meta);
        Ok(id)
    }

    fn copy_all(&self, db: &Db, id: u32, options: &CreateBackupOptions) -> Result<BackupMeta> {
        let mut transfer = self.backing_up(options);
        transfer.statistics = db.engine().options.statistics.as_deref();
        if options.flush_before_backup && options.atomic_flush {
            db.engine().check_writable()?;
            db.engine().check_open()?;
            let families = db.engine().family_ids();
            db.inner.write_path.flush_atomically(&families, FlushReason::GetLiveFiles, true)?;
        }
        let flushes_here = options.flush_before_backup && !options.atomic_flush;
        let cut = db.live_cut(if flushes_here { 0 } else { u64::MAX })?;
        let known = self.files_by_name();
        let mut meta = BackupMeta { sequence: cut.last_sequence.0, ..BackupMeta::default() };
        let is_direct = db.engine().options.use_direct_reads;
        for path in cut.tables.iter().chain(&cut.blobs) {
            db.engine().check_open()?;
            let number = path.file_name().and_then(|name| parse_file_name(&name.to_string_lossy()));
            let recorded = number.and_then(|(_, number)| cut.checksums.get(&number));
            let exclude = options.exclude_files_callback.as_ref();
            match self.share(&transfer, (path, is_direct), &known, recorded, exclude)? {
                Shared::There(file) => meta.files.push(file),
                Shared::LeftOut(name) => meta.excluded.push(name),
            }
        }
        let private = format!("{PRIVATE}/{id}");
        let mut keep = |from: &Path, bytes: u64| -> Result<()> {
            let name = format!("{private}/{}", from.file_name().unwrap_or_default().to_string_lossy());
            let crc = transfer.copy(from, false, &self.dir.join(&name), bytes)?;
            meta.files.push(BackupFile { name, crc, bytes });
            Ok(())
        };
        for (wal, bytes) in &cut.wals {
            keep(wal, *bytes)?;
        }
        let (manifest, bytes) = cut.manifest;
        if cut.has_several_paths {
            cut.copy_manifest(&self.env.fs, &self.dir.join(&private))?;
            meta.files.push(self.described(
                &transfer,
                &private,
                &descriptor_file_name(Path::new(""), manifest),
            )?);
        } else {
            keep(&descriptor_file_name(&cut.path, manifest), bytes)?;
        }
        let current = esker_format::file_name::current_contents(manifest);
        let options_path = self.dir.join(&private);
        db.inner.save_options_in(&options_path, cut.options_number)?;
        let options = esker_format::file_name::options_file_name(&options_path, cut.options_number);
        meta.files.push(self.described(&transfer, &private, &options)?);
        let name = format!("{private}/CURRENT");
        let mut file = self.fs().new_writable_file(&self.dir.join(&name))?;
        file.append(current.as_bytes())?;
        file.fsync()?;
        file.close()?;
        let (crc, bytes) = (crc32c::value(current.as_bytes()), current.len() as u64);
        meta.files.push(BackupFile { name, crc, bytes });
        Ok(meta)
    }

    /// The meta file's entry of the private file of this name, which has been written.
    fn described(&self, transfer: &Transfer<'_>, private: &str, file: &Path) -> Result<BackupFile> {
        let name = format!("{private}/{}", file.file_name().unwrap_or_default().to_string_lossy());
        let path = self.dir.join(&name);
        let bytes = self.fs().file_size(&path)?;
        Ok(BackupFile { name, crc: transfer.checksum(&path, false, bytes)?, bytes })
    }

    /// Copies a table or blob file into the backups, unless it is there. Compares its checksum with
    /// the recorded one, if both are of the same kind. `is_direct`: reads the file past the page
    /// cache, as the database does. `exclude` may leave it out.
    fn share(
        &self,
        transfer: &Transfer<'_>,
        (path, is_direct): (&Path, bool),
        known: &HashMap<&str, &BackupFile>,
        recorded: Option<&(Vec<u8>, String)>,
        exclude: Option<&ExcludeFilesCallback>,
    ) -> Result<Shared> {
        let file_name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (path, bytes) = under_either_name(path, |p| Ok((p.to_owned(), self.fs().file_size(p)?)))?;
        let path = path.as_path();
        let (stem, extension) = file_name.rsplit_once('.').unwrap_or((&file_name, ""));
        let properties = if extension == "sst" {
            let file = self.fs().open_random_access(path, is_direct)?;
            TableReader::properties_of(file, bytes)?
        } else {
            TableProperties::default()
        };
        let session = &properties.db_session_id;
        let by_session = by_session(stem, session, bytes, extension);
        let is_known = known.contains_key(by_session.as_str());
        let name = if session.is_empty() || is_known && !self.is_same(&by_session, bytes, &properties) {
            let crc = transfer.checksum(path, is_direct, bytes)?;
            check_recorded(recorded, crc, path)?;
            format!("{SHARED}/{stem}_{crc}_{bytes}.{extension}")
        } else {
            by_session
        };
        let target = self.dir.join(&name);
        // A file that no backup names is the rest of a failed backup: its contents are unknown.
        if let Some(file) = known.get(name.as_str())
            && self.fs().file_exists(&target)?
            && self.fs().file_size(&target)? == bytes
        {
            check_recorded(recorded, file.crc, path)?;
            return Ok(Shared::There(BackupFile { name, crc: file.crc, bytes }));
        }
        if exclude.is_some_and(|exclude| exclude(&name)) {
            return Ok(Shared::LeftOut(name));
        }
        let staging = self.dir.join(SHARED).join(format!(".{file_name}.tmp"));
        let crc = transfer.copy(path, is_direct, &staging, bytes)?;
        check_recorded(recorded, crc, path)?;
        self.fs().rename(&staging, &target)?;
        Ok(Shared::There(BackupFile { name, crc, bytes }))
    }

    /// Whether the backed-up file `name` is the table with these properties, and not another of the
    /// same number, session and size. An ingested or imported table has the session of its writer,
    /// and a number unrelated to that session; a restored database may give such a number again.
    /// Reads the end of the backed-up file.
    fn is_same(&self, name: &str, bytes: u64, properties: &TableProperties) -> bool {
        let there = self.fs().open_random_access(&self.dir.join(name), false);
        there.and_then(|file| TableReader::properties_of(file, bytes)).is_ok_and(|there| {
            (&there.db_id, there.orig_file_number) == (&properties.db_id, properties.orig_file_number)
        })
    }

    /// The files of all backups.
    fn files_by_name(&self) -> HashMap<&str, &BackupFile> {
        self.backups.values().flat_map(|meta| &meta.files).map(|file| (file.name.as_str(), file)).collect()
    }

    /// Checks that the schema of meta files is known and has what `options` needs.
    /// # Errors
    /// `InvalidArgument` or `NotSupported`.
    fn check_schema(&self, options: &CreateBackupOptions) -> Result<()> {
        match self.options.schema_version {
            ..1 => Err(Error::invalid_argument("schema_version must be at least 1")),
            1 if options.exclude_files_callback.is_some() => {
                Err(Error::invalid_argument("exclude_files_callback needs schema_version 2"))
            }
            1 | 2 => Ok(()),
            later => Err(Error::not_supported(format!("schema_version {later}"))),
        }
    }

    fn get(&self, id: u32) -> Result<&BackupMeta> {
        match (self.backups.get(&id), self.corrupt.get(&id)) {
            (Some(meta), _) => Ok(meta),
            (None, Some(why)) => Err(why.clone()),
            (None, None) => Err(Error::not_found(format!("there is no backup {id}"))),
        }
    }

    /// Checks that the files of backup `id` have their sizes, and with `verify_with_checksum` their
    /// contents.
    /// # Errors
    /// `NotFound` · `Corruption` naming the file · `IoError`.
    pub fn verify_backup(&self, id: u32, verify_with_checksum: bool) -> Result<()> {
        let transfer = self.transfer(self.options.backup_rate_limiter.as_deref());
        for file in &self.get(id)?.files {
            let path = self.dir.join(&file.name);
            let bytes = self.fs().file_size(&path)?;
            if bytes != file.bytes {
                let what = format!("{bytes} bytes, {} were backed up", file.bytes);
                return Err(Error::corruption(what).at(path.display()));
            }
            if verify_with_checksum {
                check(file.crc, transfer.checksum(&path, false, bytes)?, &path)?;
            }
        }
        Ok(())
    }

    /// Deletes backup `id` and the files that only it needs.
    /// # Errors
    /// `NotFound` · `IoError`: delete it again, or collect garbage.
    pub fn delete_backup(&mut self, id: u32) -> Result<()> {
        self.check_process()?;
        if !self.backups.contains_key(&id) && !self.corrupt.contains_key(&id) {
            return Err(Error::not_found(format!("there is no backup {id}")));
        }
        let dir = self.dir.join(META);
        let meta = dir.join(id.to_string());
        // An earlier attempt may have deleted the meta file.
        if self.fs().file_exists(&meta)? {
            self.fs().delete_file(&meta)?;
        }
        self.fs().new_directory(&dir)?.fsync()?;
        self.backups.remove(&id);
        self.corrupt.remove(&id);
        self.garbage_collect()
    }

    /// Deletes all backups but the newest `keep`, oldest first.
    /// # Errors
    /// `IoError`: the backups after the one that could not be deleted are still there.
    pub fn purge_old_backups(&mut self, keep: usize) -> Result<()> {
        let ids: Vec<u32> = self.backups.keys().copied().collect();
        let old = ids.len().saturating_sub(keep);
        ids.into_iter().take(old).try_for_each(|id| self.delete_backup(id))
    }

    /// Deletes files that no backup needs: those of deleted backups and of unfinished ones. Shared
    /// files stay while any backup is corrupted.
    /// # Errors
    /// `IoError`.
    pub fn garbage_collect(&mut self) -> Result<()> {
        self.check_process()?;
        let fs = self.fs();
        if self.corrupt.is_empty() {
            let needed: BTreeSet<&str> =
                self.backups.values().flat_map(|m| &m.files).map(|f| f.name.as_str()).collect();
            let dir = self.dir.join(SHARED);
            for name in fs.children(&dir)? {
                if !needed.contains(format!("{SHARED}/{name}").as_str()) {
                    fs.delete_file(&dir.join(name))?;
                }
            }
        }
        let dir = self.dir.join(PRIVATE);
        for name in fs.children(&dir)? {
            let id = name.trim_end_matches(".tmp").parse::<u32>();
            let is_needed = |id: &u32| self.backups.contains_key(id) || self.corrupt.contains_key(id);
            if !id.is_ok_and(|id| is_needed(&id)) {
                remove_dir(fs, &dir.join(name))?;
            }
        }
        Ok(())
    }
}

/// A table or blob file for a backup.
enum Shared {
    /// It is in the directory.
    There(BackupFile),
    /// The callback left it out.
    LeftOut(String),
}

/// The options, with limiters for the rates.
fn limited(mut options: BackupEngineOptions) -> BackupEngineOptions {
    let mode = RateLimiterMode::AllIo;
    let limiter = |rate| (rate > 0).then(|| Arc::new(RateLimiter::new(rate, 100_000, 10, mode)));
    let BackupEngineOptions { backup_rate_limit, restore_rate_limit, .. } = options;
    options.backup_rate_limiter = options.backup_rate_limiter.or_else(|| limiter(backup_rate_limit));
    options.restore_rate_limiter = options.restore_rate_limiter.or_else(|| limiter(restore_rate_limit));
    options
}

/// The name of a table in the backups, by its number, the session that wrote it, and its size.
fn by_session(stem: &str, session: &str, bytes: u64, extension: &str) -> String {
    format!("{SHARED}/{stem}_s{session}_{bytes}.{extension}")
}

fn remove_dir(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    if !fs.file_exists(dir)? {
        return Ok(());
    }
    for name in fs.children(dir)? {
        fs.delete_file(&dir.join(name))?;
    }
    fs.delete_dir(dir)
}

fn check(expected: u32, found: u32, path: &Path) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    let what = format!("checksum {found} of a backed-up file, it should be {expected}");
    Err(Error::corruption(what).at(path.display()))
}

fn read_all(fs: &dyn FileSystem, path: &Path) -> Result<Vec<u8>> {
    let mut contents = Vec::new();
    read_chunks(fs.new_sequential_file(path)?, path, fs.file_size(path)?, |chunk| {
        contents.extend_from_slice(chunk);
        Ok(())
    })?;
    Ok(contents)
}

/// Compares `crc` with the recorded checksum.
/// # Errors
/// `Corruption` if the database has recorded another CRC-32C of the file.
fn check_recorded(recorded: Option<&(Vec<u8>, String)>, crc: u32, path: &Path) -> Result<()> {
    match recorded {
        Some((checksum, function))
            if function == FileChecksumGenCrc32cFactory::FUNCTION && *checksum != crc.to_be_bytes() =>
        {
            let what = "checksum mismatch: the file is not what the database has recorded";
            Err(Error::corruption(what).at(path.display()))
        }
        _ => Ok(()),
    }
}
