//! Backups and checkpoints.

use crate::column_family::{give_family, rocksdb_column_family_handle_t};
use crate::db::{family, rocksdb_t};
use crate::env::{rocksdb_env_t, rocksdb_ratelimiter_t};
use crate::field::{Held, Object};
use crate::live_files::rocksdb_export_import_files_metadata_t;
use crate::memory::{answer, attempt, bytes, destroy, give, lend, object, object_mut, path, put, text};
use crate::options::rocksdb_options_t;
use esker::{
    BackupEngine, BackupEngineOptions, BackupInfo, BackupStopper, CreateBackupOptions, Db,
    ExcludeFilesCallback, ImportColumnFamilyOptions, RestoreMode, RestoreOptions, Result,
};
use libc::{c_char, c_int, c_uchar, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

/// An open directory of backups.
#[derive(Debug)]
pub struct rocksdb_backup_engine_t {
    engine: BackupEngine,
    stopper: BackupStopper,
}

impl rocksdb_backup_engine_t {
    fn open(options: &BackupEngineOptions) -> Result<*mut rocksdb_backup_engine_t> {
        let engine = BackupEngine::open(options)?;
        Ok(give(rocksdb_backup_engine_t { stopper: engine.stopper(), engine }))
    }
}

/// Options of a directory of backups.
#[derive(Debug)]
pub struct rocksdb_backup_engine_options_t {
    /// The options.
    pub options: BackupEngineOptions,
    held: Held,
}

impl Object for rocksdb_backup_engine_options_t {
    fn held(&mut self) -> Option<&mut Held> {
        Some(&mut self.held)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_options_create(
    backup_dir: *const c_char,
) -> *mut rocksdb_backup_engine_options_t {
    answer(std::ptr::null_mut(), || {
        let options = BackupEngineOptions::new(path(backup_dir)?);
        Ok(give(rocksdb_backup_engine_options_t { options, held: Held::new() }))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_options_destroy(
    options: *mut rocksdb_backup_engine_options_t,
) {
    destroy(options);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_options_set_backup_dir(
    options: *mut rocksdb_backup_engine_options_t,
    backup_dir: *const c_char,
) {
    answer((), || {
        object_mut(options)?.options.backup_dir = PathBuf::from(path(backup_dir)?);
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_options_set_env(
    options: *mut rocksdb_backup_engine_options_t,
    env: *mut rocksdb_env_t,
) {
    answer((), || {
        object_mut(options)?.options.env = object(env)?.env.clone();
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_open(
    options: *const rocksdb_options_t,
    backup_dir: *const c_char,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_backup_engine_t {
    attempt(errptr, std::ptr::null_mut(), || {
        let mut backup = BackupEngineOptions::new(path(backup_dir)?);
        backup.env = object(options)?.db.env.clone();
        rocksdb_backup_engine_t::open(&backup)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_open_opts(
    options: *const rocksdb_backup_engine_options_t,
    env: *mut rocksdb_env_t,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_backup_engine_t {
    attempt(errptr, std::ptr::null_mut(), || {
        let mut backup = object(options)?.options.clone();
        if let Some(env) = env.as_ref() {
            backup.env = env.env.clone();
        }
        rocksdb_backup_engine_t::open(&backup)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_close(engine: *mut rocksdb_backup_engine_t) {
    destroy(engine);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_create_new_backup(
    engine: *mut rocksdb_backup_engine_t,
    db: *mut rocksdb_t,
    errptr: *mut *mut c_char,
) {
    rocksdb_backup_engine_create_new_backup_flush(engine, db, 0, errptr);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_create_new_backup_flush(
    engine: *mut rocksdb_backup_engine_t,
    db: *mut rocksdb_t,
    flush_before_backup: c_uchar,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        object_mut(engine)?.engine.create_new_backup(&object(db)?.db, flush_before_backup != 0).map(drop)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_purge_old_backups(
    engine: *mut rocksdb_backup_engine_t,
    keep: u32,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || object_mut(engine)?.engine.purge_old_backups(keep as usize));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_verify_backup(
    engine: *mut rocksdb_backup_engine_t,
    id: u32,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || object(engine)?.engine.verify_backup(id, false));
}

/// Options of a restore.
#[derive(Debug)]
pub struct rocksdb_restore_options_t {
    /// RocksDB's number of the mode.
    pub mode: c_int,
    held: Held,
}

impl rocksdb_restore_options_t {
    /// The options without engines of other directories, which `c.h` does not name.
    fn options(&self) -> RestoreOptions<'static> {
        RestoreOptions::default().mode(match self.mode {
            1 => RestoreMode::KeepLatestDbSessionIdFiles,
            2 => RestoreMode::VerifyChecksum,
            _ => RestoreMode::PurgeAllFiles,
        })
    }
}

impl Object for rocksdb_restore_options_t {
    fn held(&mut self) -> Option<&mut Held> {
        Some(&mut self.held)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_restore_options_create() -> *mut rocksdb_restore_options_t {
    give(rocksdb_restore_options_t { mode: RestoreMode::PurgeAllFiles as c_int, held: Held::default() })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_restore_options_destroy(options: *mut rocksdb_restore_options_t) {
    destroy(options);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_restore_db_from_backup(
    engine: *mut rocksdb_backup_engine_t,
    db_dir: *const c_char,
    wal_dir: *const c_char,
    options: *const rocksdb_restore_options_t,
    id: u32,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let options = object(options)?.options();
        object(engine)?.engine.restore_db_from_backup_with(&options, id, path(db_dir)?, path(wal_dir)?)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_restore_db_from_latest_backup(
    engine: *mut rocksdb_backup_engine_t,
    db_dir: *const c_char,
    wal_dir: *const c_char,
    options: *const rocksdb_restore_options_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let options = object(options)?.options();
        object(engine)?.engine.restore_db_from_latest_backup_with(&options, path(db_dir)?, path(wal_dir)?)
    });
}

/// The backups of a directory at the time of the call.
#[derive(Debug)]
pub struct rocksdb_backup_engine_info_t {
    backups: Vec<BackupInfo>,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_get_backup_info(
    engine: *mut rocksdb_backup_engine_t,
) -> *const rocksdb_backup_engine_info_t {
    answer(std::ptr::null(), || {
        let backups = object(engine)?.engine.backup_infos();
        Ok(give(rocksdb_backup_engine_info_t { backups }).cast_const())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_info_count(
    info: *const rocksdb_backup_engine_info_t,
) -> c_int {
    answer(0, || Ok(c_int::try_from(object(info)?.backups.len()).unwrap_or(c_int::MAX)))
}

/// Reads a number of the backup at `index`; 0 if there is no such backup.
unsafe fn of_backup<T: Default>(
    info: *const rocksdb_backup_engine_info_t,
    index: c_int,
    figure: impl FnOnce(&'static BackupInfo) -> T,
) -> T {
    let Some(info) = info.as_ref() else { return T::default() };
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    info.backups.get(index).map_or_else(T::default, figure)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_info_timestamp(
    info: *const rocksdb_backup_engine_info_t,
    index: c_int,
) -> i64 {
    of_backup(info, index, |backup| i64::try_from(backup.timestamp).unwrap_or(i64::MAX))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_info_backup_id(
    info: *const rocksdb_backup_engine_info_t,
    index: c_int,
) -> u32 {
    of_backup(info, index, |backup| backup.backup_id)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_info_size(
    info: *const rocksdb_backup_engine_info_t,
    index: c_int,
) -> u64 {
    of_backup(info, index, |backup| backup.size)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_info_number_files(
    info: *const rocksdb_backup_engine_info_t,
    index: c_int,
) -> u32 {
    of_backup(info, index, |backup| u32::try_from(backup.number_files).unwrap_or(u32::MAX))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_info_app_metadata(
    info: *const rocksdb_backup_engine_info_t,
    index: c_int,
    len: *mut usize,
) -> *const c_char {
    put(len, 0);
    of_backup(info, index, |backup| Lent(lend(&backup.app_metadata, len))).0
}

/// A pointer to memory of another object, NULL by default.
struct Lent(*const c_char);

impl Default for Lent {
    fn default() -> Lent {
        Lent(std::ptr::null())
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_info_destroy(info: *const rocksdb_backup_engine_info_t) {
    destroy(info.cast_mut());
}

/// Makes checkpoints of a database.
#[derive(Debug)]
pub struct rocksdb_checkpoint_t {
    pub(crate) db: Db,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_checkpoint_object_create(
    db: *mut rocksdb_t,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_checkpoint_t {
    attempt(errptr, std::ptr::null_mut(), || Ok(give(rocksdb_checkpoint_t { db: object(db)?.db.clone() })))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_checkpoint_object_destroy(checkpoint: *mut rocksdb_checkpoint_t) {
    destroy(checkpoint);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_checkpoint_create(
    checkpoint: *mut rocksdb_checkpoint_t,
    dir: *const c_char,
    log_size_for_flush: u64,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        object(checkpoint)?.db.create_checkpoint(path(dir)?, log_size_for_flush).map(drop)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_checkpoint_export_column_family(
    checkpoint: *mut rocksdb_checkpoint_t,
    column_family: *mut rocksdb_column_family_handle_t,
    export_dir: *const c_char,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_export_import_files_metadata_t {
    attempt(errptr, std::ptr::null_mut(), || {
        let export =
            object(checkpoint)?.db.export_column_family(family(column_family)?, path(export_dir)?)?;
        Ok(give(rocksdb_export_import_files_metadata_t::new(export)))
    })
}

/// Options of an import.
#[derive(Debug, Default)]
pub struct rocksdb_import_column_family_options_t {
    /// The options.
    pub options: ImportColumnFamilyOptions,
}

impl Object for rocksdb_import_column_family_options_t {}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_import_column_family_options_create()
-> *mut rocksdb_import_column_family_options_t {
    give(rocksdb_import_column_family_options_t::default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_import_column_family_options_destroy(
    options: *mut rocksdb_import_column_family_options_t,
) {
    destroy(options);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_create_column_family_with_import(
    db: *mut rocksdb_t,
    options: *mut rocksdb_options_t,
    name: *const c_char,
    import: *mut rocksdb_import_column_family_options_t,
    metadata: *mut rocksdb_export_import_files_metadata_t,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_column_family_handle_t {
    attempt(errptr, std::ptr::null_mut(), || {
        let (options, metadata) = (object(options)?, object(metadata)?);
        options.check()?;
        let db = object(db)?;
        let import = &object(import)?.options;
        let made =
            db.db.create_column_family_with_import(import, &text(name)?, &options.cf, &metadata.export())?;
        Ok(give_family(db.database, made))
    })
}

/// Options of one backup.
#[derive(Debug, Default)]
pub struct rocksdb_create_backup_options_t {
    /// The options.
    pub options: CreateBackupOptions,
    held: Held,
}

impl Object for rocksdb_create_backup_options_t {
    fn held(&mut self) -> Option<&mut Held> {
        Some(&mut self.held)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_create_backup_options_create() -> *mut rocksdb_create_backup_options_t {
    give(rocksdb_create_backup_options_t::default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_create_backup_options_destroy(
    options: *mut rocksdb_create_backup_options_t,
) {
    destroy(options);
}

/// The argument of a client's function; the client keeps it alive.
struct Kept(*mut c_void);

// SAFETY: by contract the client's function may be called from the thread that makes the backup.
unsafe impl Send for Kept {}
unsafe impl Sync for Kept {}

impl Kept {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_create_backup_options_set_progress_callback(
    options: *mut rocksdb_create_backup_options_t,
    state: *mut c_void,
    callback: Option<unsafe extern "C" fn(*mut c_void)>,
) {
    answer((), || {
        let state = Kept(state);
        object_mut(options)?.options.progress_callback = callback.map(|callback| {
            let call: Arc<dyn Fn() + Send + Sync> = Arc::new(move || callback(state.get()));
            call
        });
        Ok(())
    });
}

/// Sets the function that says which tables and blob files a backup leaves out. Called from the
/// thread that makes the backup.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_create_backup_options_set_exclude_files_callback(
    options: *mut rocksdb_create_backup_options_t,
    state: *mut c_void,
    callback: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> c_uchar>,
) {
    answer((), || {
        let state = Kept(state);
        object_mut(options)?.options.exclude_files_callback = callback.map(|callback| {
            let call: ExcludeFilesCallback =
                Arc::new(move |name| callback(state.get(), name.as_ptr().cast(), name.len()) != 0);
            call
        });
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_create_new_backup_with_options(
    engine: *mut rocksdb_backup_engine_t,
    db: *mut rocksdb_t,
    options: *const rocksdb_create_backup_options_t,
    backup_id: *mut u32,
    errptr: *mut *mut c_char,
) {
    rocksdb_backup_engine_create_new_backup_with_metadata(
        engine,
        db,
        options,
        std::ptr::null(),
        0,
        backup_id,
        errptr,
    );
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_create_new_backup_with_metadata(
    engine: *mut rocksdb_backup_engine_t,
    db: *mut rocksdb_t,
    options: *const rocksdb_create_backup_options_t,
    app_metadata: *const c_char,
    app_metadata_len: usize,
    backup_id: *mut u32,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let default = CreateBackupOptions::default();
        let options = options.as_ref().map_or(&default, |options| &options.options);
        let metadata = bytes(app_metadata, app_metadata_len)?;
        let engine = &mut object_mut(engine)?.engine;
        put(backup_id, engine.create_new_backup_with_options(&object(db)?.db, options, metadata)?);
        Ok(())
    });
}

/// Stops a backup that another thread is making, and all later backups of this engine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_stop_backup(engine: *mut rocksdb_backup_engine_t) {
    answer((), || {
        object(engine)?.stopper.stop();
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_options_set_backup_rate_limiter(
    options: *mut rocksdb_backup_engine_options_t,
    limiter: *mut rocksdb_ratelimiter_t,
) {
    answer((), || {
        let limiter = limiter.as_ref().map(|limiter| limiter.limiter.clone());
        object_mut(options)?.options.backup_rate_limiter = limiter;
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_options_set_restore_rate_limiter(
    options: *mut rocksdb_backup_engine_options_t,
    limiter: *mut rocksdb_ratelimiter_t,
) {
    answer((), || {
        let limiter = limiter.as_ref().map(|limiter| limiter.limiter.clone());
        object_mut(options)?.options.restore_rate_limiter = limiter;
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_backup_engine_options_get_backup_dir(
    options: *mut rocksdb_backup_engine_options_t,
    len: *mut usize,
) -> *const c_char {
    answer(std::ptr::null(), || Ok(lend(object(options)?.options.backup_dir.as_os_str().as_bytes(), len)))
}
