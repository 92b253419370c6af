//! Readers of traces, and the replayer.
//!
//! In: a trace file of this library or of RocksDB. Out: the file's records, or the results of its
//! queries on a database.

use crate::column_family::rocksdb_column_family_handle_t;
use crate::db::rocksdb_t;
use crate::env::rocksdb_env_t;
use crate::field::Object;
use crate::memory::{attempt, destroy, give, object, object_mut, path, put, slice, to_c_bytes};
use crate::sst::rocksdb_envoptions_t;
use esker::trace::{TraceReader, new_file_trace_reader};
use esker::{ReplayOptions, Replayer};
use libc::c_char;
use std::ptr::null_mut;

/// A reader of a trace file.
pub struct rocksdb_trace_reader_t {
    reader: Box<dyn TraceReader>,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_trace_reader_create(
    env: *mut rocksdb_env_t,
    _env_options: *const rocksdb_envoptions_t,
    trace_path: *const c_char,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_trace_reader_t {
    attempt(errptr, null_mut(), || {
        let reader = new_file_trace_reader(&object(env)?.env, path(trace_path)?)?;
        Ok(give(rocksdb_trace_reader_t { reader }))
    })
}

/// Reads the next record into memory made by `malloc`; NULL at the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_trace_reader_read(
    reader: *mut rocksdb_trace_reader_t,
    size: *mut usize,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    put(size, 0);
    attempt(errptr, null_mut(), || {
        let record = object_mut(reader)?.reader.read()?;
        Ok(record.map_or(null_mut(), |record| to_c_bytes(&record, size)))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_trace_reader_reset(
    reader: *mut rocksdb_trace_reader_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || object_mut(reader)?.reader.reset());
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_trace_reader_close(
    reader: *mut rocksdb_trace_reader_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || object_mut(reader)?.reader.close());
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_trace_reader_destroy(reader: *mut rocksdb_trace_reader_t) {
    destroy(reader);
}

/// Options of a replay.
#[derive(Debug, Default)]
pub struct rocksdb_replay_options_t {
    /// The options.
    pub(crate) options: ReplayOptions,
}

impl Object for rocksdb_replay_options_t {}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_replay_options_create() -> *mut rocksdb_replay_options_t {
    give(rocksdb_replay_options_t::default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_replay_options_destroy(options: *mut rocksdb_replay_options_t) {
    destroy(options);
}

/// A replay of a trace on a database, which it keeps open.
#[derive(Debug)]
pub struct rocksdb_replayer_t {
    replayer: Replayer,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_new_default_replayer(
    db: *mut rocksdb_t,
    column_families: *mut *mut rocksdb_column_family_handle_t,
    num_column_families: usize,
    env: *mut rocksdb_env_t,
    _env_options: *const rocksdb_envoptions_t,
    trace_path: *const c_char,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_replayer_t {
    attempt(errptr, null_mut(), || {
        let db = &object(db)?.db;
        let handles = slice(column_families, num_column_families)?.iter();
        let env = env.as_ref().map_or_else(|| db.env(), |env| &env.env);
        let reader = new_file_trace_reader(env, path(trace_path)?)?;
        let families: Vec<_> =
            handles.map(|handle| Ok(object(*handle)?.family.clone())).collect::<esker::Result<_>>()?;
        Ok(give(rocksdb_replayer_t { replayer: Replayer::new(db, &families, reader) }))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_replayer_prepare(
    replayer: *mut rocksdb_replayer_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || object_mut(replayer)?.replayer.prepare());
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_replayer_get_header_timestamp(replayer: *const rocksdb_replayer_t) -> u64 {
    replayer.as_ref().map_or(0, |replayer| replayer.replayer.header_timestamp())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_replayer_replay(
    replayer: *mut rocksdb_replayer_t,
    options: *const rocksdb_replay_options_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let options = options.as_ref().map(|options| options.options).unwrap_or_default();
        object_mut(replayer)?.replayer.replay(&options, |_| {})
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_replayer_destroy(replayer: *mut rocksdb_replayer_t) {
    destroy(replayer);
}
