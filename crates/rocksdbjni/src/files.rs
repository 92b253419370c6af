//! Backups, tables that Java writes, and their ingestion.

use crate::border::{JavaInput, NativeResult};
use crate::callbacks::JavaCallback;
use crate::db::{Database, Family, path};
use crate::handle::{NativeHandle, give};
use crate::jni::{JavaEnv, Reference, int, long, reference};
use crate::objects::{EnvObject, Limiter};
use crate::options::{AllSettings, Call};
use esker::options::Env;
use esker::{BackupEngine, BackupEngineOptions, Error, IngestExternalFileOptions, SstFileWriter};
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// `BackupEngineOptions`.
#[derive(Clone, Debug)]
pub(crate) struct BackupOptions {
    pub(crate) options: BackupEngineOptions,
    pub(crate) held: crate::field::HeldNumbers,
}

/// A backup engine. The lock lets several threads use the engine at once, as in RocksDB.
#[derive(Debug)]
pub(crate) struct Backups(RwLock<BackupEngine>);

impl Backups {
    fn read(&self) -> RwLockReadGuard<'_, BackupEngine> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, BackupEngine> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `RestoreOptions`.
#[derive(Debug)]
pub(crate) struct Restoring {
    pub(crate) keeps_log_files: bool,
}

impl Restoring {
    /// Checks that a restore supports the options.
    /// # Errors
    /// `NotSupported`: the log files are to be kept.
    fn check(restoring: NativeHandle<Restoring>) -> NativeResult<()> {
        if restoring.get()?.keeps_log_files {
            return Err(Error::not_supported("RestoreOptions: keepLogFiles").into());
        }
        Ok(())
    }
}

/// A writer of a table.
#[derive(Debug)]
pub(crate) struct TableWriter {
    writer: SstFileWriter,
    env: Env,
    /// Dropped behind the writer, which deletes a table that is not finished.
    unfinished: Option<UnfinishedTable>,
}

/// A table that is begun. Its drop leaves an empty file, unless the table is finished: RheaKV
/// expects the file also of a table without entries, which is closed and not finished.
#[derive(Debug)]
struct UnfinishedTable {
    env: Env,
    path: PathBuf,
    is_finished: bool,
}

impl Drop for UnfinishedTable {
    fn drop(&mut self) {
        if !self.is_finished {
            // An error has no way to Java.
            self.env.fs.create_writable_file(&self.path).and_then(|mut file| file.close()).ok();
        }
    }
}

pub(crate) fn new_backup_options(env: &JavaEnv<'_>, directory: Reference) -> NativeResult<i64> {
    let options = BackupEngineOptions::new(path(env, directory)?);
    Ok(give(BackupOptions { options, held: crate::field::HeldNumbers::new() }))
}

pub(crate) fn backup_dir(env: &JavaEnv<'_>, options: NativeHandle<BackupOptions>) -> NativeResult<Reference> {
    env.new_text(&options.get()?.options.backup_dir.to_string_lossy())
}

pub(crate) fn set_backup_limiter(
    options: NativeHandle<BackupOptions>,
    limiter: NativeHandle<Limiter>,
) -> NativeResult<()> {
    options.get_mut()?.options.backup_rate_limiter = Some(limiter.get()?.0.clone());
    Ok(())
}

pub(crate) fn set_restore_limiter(
    options: NativeHandle<BackupOptions>,
    limiter: NativeHandle<Limiter>,
) -> NativeResult<()> {
    options.get_mut()?.options.restore_rate_limiter = Some(limiter.get()?.0.clone());
    Ok(())
}

/// Opens an engine whose backups lie in the file system of `env`.
pub(crate) fn open_backups(
    env: NativeHandle<EnvObject>,
    options: NativeHandle<BackupOptions>,
) -> NativeResult<i64> {
    let mut options = options.get()?.options.clone();
    options.env = env.get()?.0.clone();
    let engine = BackupEngine::open(&options)?;
    Ok(give(Backups(RwLock::new(engine))))
}

pub(crate) fn create_backup(
    backups: NativeHandle<Backups>,
    db: NativeHandle<Database>,
    metadata: &str,
    flushes: bool,
) -> NativeResult<()> {
    backups.get()?.change().create_new_backup_with_metadata(&db.get()?.db, metadata.as_bytes(), flushes)?;
    Ok(())
}

/// A list of `BackupInfo`.
pub(crate) fn backup_infos(env: &JavaEnv<'_>, backups: NativeHandle<Backups>) -> NativeResult<Reference> {
    let list = env.new_object("java/util/ArrayList", "()V", &[])?;
    let add = env.method(env.class_of(list)?, "add", "(Ljava/lang/Object;)Z")?;
    let infos = backups.get()?.read().backup_infos();
    for info in infos {
        let metadata = if info.app_metadata.is_empty() {
            Reference::NULL
        } else {
            env.new_text(&String::from_utf8_lossy(&info.app_metadata))?
        };
        let arguments = [
            int(info.backup_id.cast_signed()),
            long(info.timestamp.cast_signed()),
            long(info.size.cast_signed()),
            int(i32::try_from(info.number_files).unwrap_or(i32::MAX)),
            reference(metadata),
        ];
        let made = env.new_object("org/rocksdb/BackupInfo", "(IJJILjava/lang/String;)V", &arguments)?;
        env.call_bool(list, add, &[reference(made)])?;
        env.forget(made);
        env.forget(metadata);
    }
    Ok(list)
}

pub(crate) fn corrupted_backups(
    env: &JavaEnv<'_>,
    backups: NativeHandle<Backups>,
) -> NativeResult<Reference> {
    let ids: Vec<i32> = backups.get()?.read().corrupted_backups().into_iter().map(u32::cast_signed).collect();
    env.new_ints(&ids)
}

pub(crate) fn delete_backup(backups: NativeHandle<Backups>, id: i32) -> NativeResult<()> {
    Ok(backups.get()?.change().delete_backup(id.cast_unsigned())?)
}

pub(crate) fn purge_backups(backups: NativeHandle<Backups>, kept: i32) -> NativeResult<()> {
    Ok(backups.get()?.change().purge_old_backups(usize::try_from(kept).unwrap_or(0))?)
}

pub(crate) fn collect_garbage(backups: NativeHandle<Backups>) -> NativeResult<()> {
    Ok(backups.get()?.change().garbage_collect()?)
}

pub(crate) fn restore(
    env: &JavaEnv<'_>,
    backups: NativeHandle<Backups>,
    id: i32,
    directory: Reference,
    wal_directory: Reference,
    restoring: NativeHandle<Restoring>,
) -> NativeResult<()> {
    Restoring::check(restoring)?;
    let (directory, wal_directory) = (path(env, directory)?, path(env, wal_directory)?);
    Ok(backups.get()?.read().restore_db_from_backup(id.cast_unsigned(), directory, wal_directory)?)
}

pub(crate) fn restore_latest(
    env: &JavaEnv<'_>,
    backups: NativeHandle<Backups>,
    directory: Reference,
    wal_directory: Reference,
    restoring: NativeHandle<Restoring>,
) -> NativeResult<()> {
    Restoring::check(restoring)?;
    let (directory, wal_directory) = (path(env, directory)?, path(env, wal_directory)?);
    Ok(backups.get()?.read().restore_db_from_latest_backup(directory, wal_directory)?)
}

pub(crate) fn new_ingest_options(
    move_files: bool,
    snapshot_consistency: bool,
    allow_global_seqno: bool,
    allow_blocking_flush: bool,
) -> NativeResult<i64> {
    let options = IngestExternalFileOptions {
        move_files,
        snapshot_consistency,
        allow_global_seqno,
        allow_blocking_flush,
        ..IngestExternalFileOptions::default()
    };
    Ok(give(Call { options, ..Call::default() }))
}

pub(crate) fn ingest(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    family: NativeHandle<Family>,
    files: Reference,
    options: NativeHandle<Call<IngestExternalFileOptions>>,
) -> NativeResult<()> {
    let (db, files) = (db.get()?, env.texts(files)?);
    Ok(db.db.ingest_external_file_opt(&options.get()?.options, db.family(family)?, &files)?)
}

/// A writer of tables. Its comparator is `order`, or the one of the options if `order` is null.
pub(crate) fn new_writer(
    options: NativeHandle<AllSettings>,
    order: NativeHandle<JavaCallback>,
) -> NativeResult<i64> {
    let mut options = options.get()?.options();
    if let Some(JavaCallback::Comparator(order)) = order.find() {
        options.cf.comparator = order.comparator.clone();
    }
    let (writer, env) = (SstFileWriter::new(&options), options.db.env);
    Ok(give(TableWriter { writer, env, unfinished: None }))
}

pub(crate) fn open_writer(
    env: &JavaEnv<'_>,
    writer: NativeHandle<TableWriter>,
    file: Reference,
) -> NativeResult<()> {
    let (writer, path) = (writer.get_mut()?, path(env, file)?);
    writer.writer.open(&path)?;
    writer.unfinished = Some(UnfinishedTable { env: writer.env.clone(), path, is_finished: false });
    Ok(())
}

pub(crate) fn writer_put(
    env: &JavaEnv<'_>,
    writer: NativeHandle<TableWriter>,
    key: JavaInput,
    value: JavaInput,
) -> NativeResult<()> {
    Ok(writer.get_mut()?.writer.put(key.read(env)?, value.read(env)?)?)
}

pub(crate) fn writer_merge(
    env: &JavaEnv<'_>,
    writer: NativeHandle<TableWriter>,
    key: JavaInput,
    operand: JavaInput,
) -> NativeResult<()> {
    Ok(writer.get_mut()?.writer.merge(key.read(env)?, operand.read(env)?)?)
}

pub(crate) fn writer_delete(
    env: &JavaEnv<'_>,
    writer: NativeHandle<TableWriter>,
    key: JavaInput,
) -> NativeResult<()> {
    Ok(writer.get_mut()?.writer.delete(key.read(env)?)?)
}

pub(crate) fn writer_finish(writer: NativeHandle<TableWriter>) -> NativeResult<()> {
    let writer = writer.get_mut()?;
    writer.writer.finish()?;
    if let Some(table) = &mut writer.unfinished {
        table.is_finished = true;
    }
    Ok(())
}

pub(crate) fn writer_size(writer: NativeHandle<TableWriter>) -> NativeResult<i64> {
    Ok(writer.get()?.writer.file_size().cast_signed())
}
