//! Options of traces. The traces themselves are not there yet: their functions say so.

use crate::field::{Held, Object};
use crate::memory::{destroy, give};

/// Options of a trace of queries.
#[derive(Debug, Default)]
pub struct rocksdb_trace_options_t {
    held: Held,
}

impl Object for rocksdb_trace_options_t {
    fn held(&mut self) -> Option<&mut Held> {
        Some(&mut self.held)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_trace_options_create() -> *mut rocksdb_trace_options_t {
    give(rocksdb_trace_options_t::default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_trace_options_destroy(options: *mut rocksdb_trace_options_t) {
    destroy(options);
}

/// Options of a trace of the block cache.
#[derive(Debug, Default)]
pub struct rocksdb_block_cache_trace_options_t {
    held: Held,
}

impl Object for rocksdb_block_cache_trace_options_t {
    fn held(&mut self) -> Option<&mut Held> {
        Some(&mut self.held)
    }
}

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
    held: Held,
}

impl Object for rocksdb_block_cache_trace_writer_options_t {
    fn held(&mut self) -> Option<&mut Held> {
        Some(&mut self.held)
    }
}

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

/// Options of a replay.
#[derive(Debug, Default)]
pub struct rocksdb_replay_options_t {
    held: Held,
}

impl Object for rocksdb_replay_options_t {
    fn held(&mut self) -> Option<&mut Held> {
        Some(&mut self.held)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_replay_options_create() -> *mut rocksdb_replay_options_t {
    give(rocksdb_replay_options_t::default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_replay_options_destroy(options: *mut rocksdb_replay_options_t) {
    destroy(options);
}
