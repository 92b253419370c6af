//! Options of backup engines and of single backups.
//!
//! In: values by RocksDB's names, and callbacks. Out: the structs that `BackupEngine` reads.

use super::BackupEngine;
use esker_base::sync::Arc;
use esker_env::{Env, RateLimiter};
use std::fmt;
use std::path::PathBuf;

/// Options of a backup engine, under RocksDB's names.
///
/// ```
/// use esker::BackupEngineOptions;
///
/// let options = BackupEngineOptions::new("/backups");
/// assert!(options.backup_dir.ends_with("backups"));
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct BackupEngineOptions {
    /// The directory of the backups; it is made if it is missing.
    pub backup_dir: PathBuf,
    /// File system and clock, of the backups and of the databases.
    pub env: Env,
    /// Delete all backups when the engine opens. Default false.
    pub destroy_old_data: bool,
    /// Bytes a second that a backup or verification reads at most; 0: no limit. Default 0.
    pub backup_rate_limit: u64,
    /// The limiter of backups and verifications, in place of `backup_rate_limit`. Default `None`.
    pub backup_rate_limiter: Option<Arc<RateLimiter>>,
    /// Bytes a second that a restore reads at most; 0: no limit. Default 0.
    pub restore_rate_limit: u64,
    /// The limiter of restores, in place of `restore_rate_limit`. Default `None`.
    pub restore_rate_limiter: Option<Arc<RateLimiter>>,
    /// Bytes copied between two calls of `CreateBackupOptions::progress_callback`. Default 4 MiB.
    pub callback_trigger_interval_size: u64,
    /// The schema of the backups' meta files: 1, or 2, which `exclude_files_callback` needs.
    /// RocksDB reads schema 2 since 6.19, and backups without some files since 7.10. Default 1.
    pub schema_version: i32,
}

impl BackupEngineOptions {
    /// Backups in this directory of the real file system.
    pub fn new(backup_dir: impl Into<PathBuf>) -> BackupEngineOptions {
        BackupEngineOptions {
            backup_dir: backup_dir.into(),
            env: Env::default(),
            destroy_old_data: false,
            backup_rate_limit: 0,
            backup_rate_limiter: None,
            restore_rate_limit: 0,
            restore_rate_limiter: None,
            callback_trigger_interval_size: 4 << 20,
            schema_version: 1,
        }
    }
}

esker_base::setters! {
    BackupEngineOptions {
        backup_dir: PathBuf;
        env: Env;
        destroy_old_data: bool;
        backup_rate_limit: u64;
        optional backup_rate_limiter: Arc<RateLimiter>;
        restore_rate_limit: u64;
        optional restore_rate_limiter: Arc<RateLimiter>;
        callback_trigger_interval_size: u64;
        schema_version: i32;
    }
}

/// Says whether a backup leaves out the file of this name below the backup directory.
pub type ExcludeFilesCallback = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Options of one backup.
///
/// ```
/// use esker::CreateBackupOptions;
///
/// let options = CreateBackupOptions::default()
///     .flush_before_backup(true)
///     .progress_callback(|| println!("4 MiB more"));
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct CreateBackupOptions {
    /// Flush memtables first; otherwise the WALs are copied. Default false.
    pub flush_before_backup: bool,
    /// Flush all families at once, so that after a crash meanwhile all of them have the flushed
    /// tables, or none. Only with `flush_before_backup`. The backup is one point in time with or
    /// without it. Default false.
    pub atomic_flush: bool,
    /// Called after each `callback_trigger_interval_size` bytes that are copied, by the thread that
    /// makes the backup. Default `None`.
    pub progress_callback: Option<Arc<dyn Fn() + Send + Sync>>,
    /// Called with the name, below the backup directory, of each table and blob file that the
    /// directory does not have yet. True leaves the file out: a restore needs another engine that
    /// has it, in [`RestoreOptions::alternate_dirs`]. Needs `schema_version` 2. Default `None`.
    pub exclude_files_callback: Option<ExcludeFilesCallback>,
}

impl fmt::Debug for CreateBackupOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateBackupOptions")
            .field("flush_before_backup", &self.flush_before_backup)
            .field("atomic_flush", &self.atomic_flush)
            .field("progress_callback", &self.progress_callback.is_some())
            .field("exclude_files_callback", &self.exclude_files_callback.is_some())
            .finish()
    }
}

impl CreateBackupOptions {
    /// Sets `flush_before_backup`.
    #[must_use]
    pub fn flush_before_backup(mut self, value: bool) -> Self {
        self.flush_before_backup = value;
        self
    }

    /// Sets `atomic_flush`.
    #[must_use]
    pub fn atomic_flush(mut self, value: bool) -> Self {
        self.atomic_flush = value;
        self
    }

    /// Sets `progress_callback`.
    #[must_use]
    pub fn progress_callback(mut self, callback: impl Fn() + Send + Sync + 'static) -> Self {
        self.progress_callback = Some(Arc::new(callback));
        self
    }

    /// Sets `exclude_files_callback`.
    #[must_use]
    pub fn exclude_files_callback(mut self, callback: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.exclude_files_callback = Some(Arc::new(callback));
        self
    }
}

/// The tables and blob files that a restore keeps of a database that is there: RocksDB's
/// `RestoreOptions::Mode`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum RestoreMode {
    /// Keeps tables whose number, writing session and size are those of the backup. Reads their
    /// ends, and no entries: for a healthy database, or an incomplete copy of one. An excluded file
    /// that no engine has may be among them.
    KeepLatestDbSessionIdFiles = 1,
    /// Keeps tables and blob files whose contents have the checksums of the backup: for a database
    /// of which some files are damaged. Reads each file of the backup's size.
    VerifyChecksum = 2,
    /// Deletes all of them.
    #[default]
    PurgeAllFiles = 0xffff,
}

/// Options of a restore.
#[derive(Clone, Default, Debug)]
#[non_exhaustive]
pub struct RestoreOptions<'a> {
    /// Engines of other directories, which are searched in this order for files that the backup
    /// leaves out. Default none.
    pub alternate_dirs: Vec<&'a BackupEngine>,
    /// The files of a database that is there. Default `PurgeAllFiles`.
    pub mode: RestoreMode,
}

impl<'a> RestoreOptions<'a> {
    /// Sets `alternate_dirs`.
    #[must_use]
    pub fn alternate_dirs(mut self, engines: impl IntoIterator<Item = &'a BackupEngine>) -> Self {
        self.alternate_dirs = engines.into_iter().collect();
        self
    }

    /// Sets `mode`.
    #[must_use]
    pub fn mode(mut self, mode: RestoreMode) -> Self {
        self.mode = mode;
        self
    }
}
