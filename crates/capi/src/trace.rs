//! Traces of a database, and their options.
//!
//! In: a path, options. Out: a trace file in RocksDB's format. `env` is the environment of the
//! trace file; NULL means the database's. `env_options` has no effect.

use crate::db::rocksdb_t;
use crate::env::rocksdb_env_t;
use crate::field::Object;
use crate::memory::{attempt, destroy, give, object, path};
use crate::sst::rocksdb_envoptions_t;
use esker::trace::{BlockCacheTraceOptions, TraceOptions, TraceWriter, new_file_trace_writer};
use esker::{Db, Result};
use libc::c_char;

/// Options of a trace of queries or of I/O.
#[derive(Debug, Default)]
pub struct rocksdb_trace_options_t {
    /// The options.
    pub(crate) options: TraceOptions,
}

impl Object for rocksdb_trace_options_t {}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_trace_options_create() -> *mut rocksdb_trace_options_t {
    give(rocksdb_trace_options_t::default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_trace_options_destroy(options: *mut rocksdb_trace_options_t) {
    destroy(options);
}

/// The file of a trace.
unsafe fn writer(
    db: &Db,
    env: *mut rocksdb_env_t,
    trace_path: *const c_char,
) -> Result<Box<dyn TraceWriter>> {
    let env = env.as_ref().map_or_else(|| db.env(), |env| &env.env);
    new_file_trace_writer(env, path(trace_path)?)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_start_trace(
    db: *mut rocksdb_t,
    env: *mut rocksdb_env_t,
    _env_options: *const rocksdb_envoptions_t,
    options: *const rocksdb_trace_options_t,
    trace_path: *const c_char,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let db = &object(db)?.db;
        let options = options.as_ref().map(|options| options.options).unwrap_or_default();
        db.start_trace(&options, writer(db, env, trace_path)?)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_end_trace(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
    attempt(errptr, (), || object(db)?.db.end_trace());
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_start_io_trace(
    db: *mut rocksdb_t,
    env: *mut rocksdb_env_t,
    _env_options: *const rocksdb_envoptions_t,
    options: *const rocksdb_trace_options_t,
    trace_path: *const c_char,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let db = &object(db)?.db;
        let options = options.as_ref().map(|options| options.options).unwrap_or_default();
        db.start_io_trace(&options, writer(db, env, trace_path)?)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_end_io_trace(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
    attempt(errptr, (), || object(db)?.db.end_io_trace());
}

/// Of `options`, the size limit and the sampling apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_start_block_cache_trace(
    db: *mut rocksdb_t,
    env: *mut rocksdb_env_t,
    _env_options: *const rocksdb_envoptions_t,
    options: *const rocksdb_trace_options_t,
    trace_path: *const c_char,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let db = &object(db)?.db;
        let TraceOptions { sampling_frequency, max_trace_file_size, .. } =
            options.as_ref().map(|options| options.options).unwrap_or_default();
        let options = BlockCacheTraceOptions { sampling_frequency, max_trace_file_size };
        db.start_block_cache_trace(&options, writer(db, env, trace_path)?)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_start_block_cache_trace_with_options(
    db: *mut rocksdb_t,
    env: *mut rocksdb_env_t,
    _env_options: *const rocksdb_envoptions_t,
    options: *const rocksdb_block_cache_trace_options_t,
    writer_options: *const rocksdb_block_cache_trace_writer_options_t,
    trace_path: *const c_char,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let db = &object(db)?.db;
        let sampling = options.as_ref().map(|options| options.options).unwrap_or_default();
        let size = writer_options.as_ref().map(|options| options.options).unwrap_or_default();
        let options = BlockCacheTraceOptions { max_trace_file_size: size.max_trace_file_size, ..sampling };
        db.start_block_cache_trace(&options, writer(db, env, trace_path)?)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_end_block_cache_trace(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
    attempt(errptr, (), || object(db)?.db.end_block_cache_trace());
}

/// Options of a trace of the block cache.
#[derive(Debug, Default)]
pub struct rocksdb_block_cache_trace_options_t {
    /// The options.
    pub(crate) options: BlockCacheTraceOptions,
}

impl Object for rocksdb_block_cache_trace_options_t {}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_block_cache_trace_options_create() -> *mut rocksdb_block_cache_trace_options_t
{
    give(rocksdb_block_cache_trace_options_t::default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_block_cache_trace_options_destroy(
    options: *mut rocksdb_block_cache_trace_options_t,
) {
    destroy(options);
}

/// Options of the writer of a block cache trace.
#[derive(Debug, Default)]
pub struct rocksdb_block_cache_trace_writer_options_t {
    /// The options.
    pub(crate) options: BlockCacheTraceOptions,
}

impl Object for rocksdb_block_cache_trace_writer_options_t {}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_block_cache_trace_writer_options_create()
-> *mut rocksdb_block_cache_trace_writer_options_t {
    give(rocksdb_block_cache_trace_writer_options_t::default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_block_cache_trace_writer_options_destroy(
    options: *mut rocksdb_block_cache_trace_writer_options_t,
) {
    destroy(options);
}
