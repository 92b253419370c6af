//! Restores of backups.
//!
//! In: a backup, and the directory of a database, which may hold one. Out: the backup's database in
//! that directory. Files that are there already stay, if [`RestoreMode`] says so.
//!
//! Invariants
//!  1. The directory durably stops being a database before any of its files is deleted, and becomes
//!     one with its last file, `CURRENT`.
//!  2. A file that is not the backup's never stays, but what `KeepLatestDbSessionIdFiles` takes for
//!     it unread.
//!
//! Source: RocksDB `utilities/backup/backup_engine.cc` (`RestoreDBFromBackup`).

use super::meta::{BackupFile, BackupMeta};
use super::transfer::Transfer;
use super::{BackupEngine, RestoreMode, RestoreOptions, SHARED, by_session, check};
use crate::db::delete_archive;
use crate::files::sync_file;
use esker_base::{Error, Result};
use esker_env::FileSystem;
use esker_format::file_name::{FileType, lock_file_name, parse_file_name};
use esker_format::properties::TableProperties;
use esker_table::TableReader;
use std::collections::{HashMap, HashSet};
use std::path::Path;

impl BackupEngine {
    /// Makes `db_dir` the database of backup `id`; WALs go to `wal_dir`. Deletes a database in
    /// these directories first, which must not be open.
    /// # Errors
    /// `NotFound` · `InvalidArgument`: no backup of this engine has a file that this one leaves
    /// out; nothing is changed · `Corruption` naming a file whose contents are not those backed up
    /// · `IoError`. After the last two the directory has no `CURRENT`: it does not open as a
    /// database.
    pub fn restore_db_from_backup(
        &self,
        id: u32,
        db_dir: impl AsRef<Path>,
        wal_dir: impl AsRef<Path>,
    ) -> Result<()> {
        self.restore_db_from_backup_with(&RestoreOptions::default(), id, db_dir, wal_dir)
    }

    /// [`BackupEngine::restore_db_from_backup`] with options.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.join("db"))?;
    /// use esker::{BackupEngine, BackupEngineOptions, CreateBackupOptions, RestoreOptions};
    ///
    /// db.put("esker", "gravel")?;
    /// let mut whole = BackupEngine::open(&BackupEngineOptions::new(dir.join("whole")))?;
    /// whole.create_new_backup(&db, true)?;
    ///
    /// let mut small = BackupEngine::open(&BackupEngineOptions::new(dir.join("small")).schema_version(2))?;
    /// let without_tables = CreateBackupOptions::default().exclude_files_callback(|_| true);
    /// let id = small.create_new_backup_with_options(&db, &without_tables, &[])?;
    ///
    /// let options = RestoreOptions::default().alternate_dirs([&whole]);
    /// small.restore_db_from_backup_with(&options, id, dir.join("restored"), dir.join("restored"))?;
    /// assert!(esker::Db::open_default(dir.join("restored"))?.contains_key("esker")?);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `NotFound` · `InvalidArgument`: neither this engine nor one of `alternate_dirs` has a file
    /// that the backup leaves out; nothing is changed · `Corruption` naming a file whose contents
    /// are not those backed up · `IoError`. After the last two the directory has no `CURRENT`: it
    /// does not open as a database.
    pub fn restore_db_from_backup_with(
        &self,
        options: &RestoreOptions<'_>,
        id: u32,
        db_dir: impl AsRef<Path>,
        wal_dir: impl AsRef<Path>,
    ) -> Result<()> {
        let (fs, meta) = (self.fs(), self.get(id)?);
        let transfer = self.transfer(self.options.restore_rate_limiter.as_deref());
        let (db_dir, wal_dir) = (fs.absolute_path(db_dir.as_ref())?, fs.absolute_path(wal_dir.as_ref())?);
        // The lock comes before the look at the files: an owner could delete one that is kept.
        let lock_file = lock_file_name(&db_dir);
        let early_lock = fs.file_exists(&db_dir)?.then(|| fs.lock_file(&lock_file)).transpose()?;
        let there = self.tables_there(meta, options.mode, &db_dir)?;
        let files = self.files_to_restore(meta, options, &there)?;
        let kept = self.kept(&files, &there, options.mode, (&db_dir, &transfer))?;
        for dir in [&db_dir, &wal_dir] {
            fs.create_dir_if_missing(dir)?;
        }
        let lock = early_lock.map_or_else(|| fs.lock_file(&lock_file), Ok)?;
        // The directory durably stops being a database before any other file is deleted. Otherwise
        // a power loss could leave a database without its WALs.
        remove_current(fs, &db_dir)?;
        for dir in [&db_dir, &wal_dir] {
            clear(fs, dir, &kept)?;
            // Archived WALs would show old updates as if they belonged to the backup.
            delete_archive(fs, dir)?;
        }
        // `CURRENT`, which makes the directory a database, comes last.
        let (current, others): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|(_, f)| f.name.ends_with("/CURRENT"));
        for ((engine, file), is_last) in
            others.into_iter().map(|f| (f, false)).chain(current.into_iter().map(|f| (f, true)))
        {
            if is_last {
                // A copy or an earlier restore that did not end may have left kept files unsynced.
                kept.iter().try_for_each(|name| sync_file(fs, &db_dir.join(name)))?;
                // Makes the deletion of WALs durable, too: replay would apply them over the backup.
                sync_both(fs, &db_dir, &wal_dir)?;
            }
            let name = restored_name(&file.name);
            if kept.contains(&name) {
                continue;
            }
            let dir = if name.ends_with(".log") { &wal_dir } else { &db_dir };
            let target = dir.join(&name);
            let source = engine.dir.join(&file.name);
            let crc = transfer.copy_from(engine.fs(), &source, false, &target, file.bytes)?;
            if let Err(damaged) = check(file.crc, crc, &source) {
                // Another restore would take it for the table that the backup means.
                fs.delete_file(&target)?;
                return Err(damaged);
            }
        }
        sync_both(fs, &db_dir, &wal_dir)?;
        drop(lock);
        Ok(())
    }

    /// The tables in `db_dir` that a backup with `kKeepLatestDbSessionIdFiles` may keep, by the
    /// names that the backup gives them.
    fn tables_there(
        &self,
        meta: &BackupMeta,
        mode: RestoreMode,
        db_dir: &Path,
    ) -> Result<HashMap<String, TableProperties>> {
        let mut there = HashMap::new();
        if mode != RestoreMode::KeepLatestDbSessionIdFiles || !self.fs().file_exists(db_dir)? {
            return Ok(there);
        }
        let names = meta.files.iter().map(|file| &file.name).chain(&meta.excluded);
        for name in names.filter(|name| name.starts_with(SHARED) && name.ends_with(".sst")) {
            let path = db_dir.join(restored_name(name));
            if !self.fs().file_exists(&path)? {
                continue;
            }
            let bytes = self.fs().file_size(&path)?;
            // A table that cannot be read is restored.
            let properties = self.fs().open_random_access(&path, false);
            let properties = properties.and_then(|file| TableReader::properties_of(file, bytes));
            let Ok(properties) = properties else { continue };
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            if *name == by_session(&stem, &properties.db_session_id, bytes, "sst") {
                there.insert(name.clone(), properties);
            }
        }
        Ok(there)
    }

    /// The names of files in `db_dir` that stay, because `mode` finds them to be those of the
    /// backup.
    /// # Errors
    /// `IoError`.
    fn kept(
        &self,
        files: &[(&BackupEngine, &BackupFile)],
        there: &HashMap<String, TableProperties>,
        mode: RestoreMode,
        (db_dir, transfer): (&Path, &Transfer<'_>),
    ) -> Result<HashSet<String>> {
        let mut kept: HashSet<String> = there.keys().map(|name| restored_name(name)).collect();
        for (engine, file) in files.iter().filter(|(_, file)| file.name.starts_with(SHARED)) {
            let name = restored_name(&file.name);
            let path = db_dir.join(&name);
            match mode {
                RestoreMode::PurgeAllFiles => {}
                // A restored database may give the number of an ingested table to another table of
                // the same writer and size.
                RestoreMode::KeepLatestDbSessionIdFiles => {
                    if let Some(properties) = there.get(&file.name)
                        && !engine.is_same(&file.name, file.bytes, properties)
                    {
                        kept.remove(&name);
                    }
                }
                RestoreMode::VerifyChecksum => {
                    let is_there = self.fs().file_exists(&path)? && self.fs().file_size(&path)? == file.bytes;
                    // A file that cannot be read is restored.
                    if is_there
                        && transfer.checksum(&path, false, file.bytes).is_ok_and(|crc| crc == file.crc)
                    {
                        kept.insert(name);
                    }
                }
            }
        }
        Ok(kept)
    }

    /// The files of a backup with the engines that have them, excluded files too, but not those
    /// that only the database has.
    /// # Errors
    /// `InvalidArgument`: no engine has an excluded file.
    fn files_to_restore<'a>(
        &'a self,
        meta: &'a BackupMeta,
        options: &RestoreOptions<'a>,
        there: &HashMap<String, TableProperties>,
    ) -> Result<Vec<(&'a BackupEngine, &'a BackupFile)>> {
        let mut files: Vec<_> = meta.files.iter().map(|file| (self, file)).collect();
        if meta.excluded.is_empty() {
            return Ok(files);
        }
        let engines: Vec<_> = [self].into_iter().chain(options.alternate_dirs.iter().copied()).collect();
        let known: Vec<_> = engines.iter().map(|engine| (*engine, engine.files_by_name())).collect();
        for name in &meta.excluded {
            let found = known.iter().find_map(|(engine, files)| Some((*engine, *files.get(name.as_str())?)));
            if found.is_none() && there.contains_key(name) {
                continue;
            }
            files.push(found.ok_or_else(|| {
                let others = options.alternate_dirs.len();
                Error::invalid_argument(format!(
                    "Excluded file {name} is neither in this backup directory nor in {others} others"
                ))
            })?);
        }
        Ok(files)
    }

    /// Restores the newest backup.
    /// # Errors
    /// `NotFound`: there is no backup · `Corruption`: a file of the backup is missing or damaged ·
    /// `IoError`: the directory is not a database then; restore again.
    pub fn restore_db_from_latest_backup(
        &self,
        db_dir: impl AsRef<Path>,
        wal_dir: impl AsRef<Path>,
    ) -> Result<()> {
        self.restore_db_from_latest_backup_with(&RestoreOptions::default(), db_dir, wal_dir)
    }

    /// [`BackupEngine::restore_db_from_latest_backup`] with options.
    /// # Errors
    /// `NotFound`: there is no backup · those of [`BackupEngine::restore_db_from_backup_with`].
    pub fn restore_db_from_latest_backup_with(
        &self,
        options: &RestoreOptions<'_>,
        db_dir: impl AsRef<Path>,
        wal_dir: impl AsRef<Path>,
    ) -> Result<()> {
        let id = self.backups.keys().next_back().copied();
        let id = id.ok_or_else(|| Error::not_found("there is no backup"))?;
        self.restore_db_from_backup_with(options, id, db_dir, wal_dir)
    }
}

/// The file's name in the database: `000007.sst` for `shared_checksum/000007_s…_590.sst`, `CURRENT`
/// for `private/1/CURRENT`.
pub(super) fn restored_name(name: &str) -> String {
    let file = name.rsplit('/').next().unwrap_or(name);
    match (name.starts_with(SHARED), file.split_once('_'), file.rsplit_once('.')) {
        (true, Some((number, _)), Some((_, extension))) => format!("{number}.{extension}"),
        _ => file.to_owned(),
    }
}

/// Durably removes `CURRENT`, so that `dir` is no database any more.
fn remove_current(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    let current = esker_format::file_name::current_file_name(dir);
    if fs.file_exists(&current)? {
        fs.delete_file(&current)?;
    }
    fs.new_directory(dir)?.fsync()
}

fn sync_both(fs: &dyn FileSystem, db_dir: &Path, wal_dir: &Path) -> Result<()> {
    fs.new_directory(wal_dir)?.fsync()?;
    fs.new_directory(db_dir)?.fsync()
}

/// Deletes the files that a database may have in `dir`, but those of these names.
fn clear(fs: &dyn FileSystem, dir: &Path, kept: &HashSet<String>) -> Result<()> {
    for name in fs.children(dir)?.into_iter().filter(|name| !kept.contains(name)) {
        if parse_file_name(&name).is_some_and(|(kind, _)| kind != FileType::DbLock) {
            fs.delete_file(&dir.join(name))?;
        }
    }
    Ok(())
}
