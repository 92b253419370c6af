//! The policy of a write buffer manager: it selects the memtable to flush at the manager's bound.
//!
//! In: a policy's number. Out: the manager with that policy. For an unknown number a constructor
//! returns NULL, and a setter changes nothing. As in RocksDB, a manager without a given policy
//! flushes the oldest memtable.

use crate::cache::rocksdb_cache_t;
use crate::env::rocksdb_write_buffer_manager_t;
use crate::memory::{answer, give, object};
use esker::options::{WriteBufferFlushPolicy, WriteBufferManager};
use esker::{Error, Result};
use libc::c_int;
use std::ptr::null_mut;
use std::sync::Arc;

fn parse(number: c_int) -> Result<WriteBufferFlushPolicy> {
    let policy = u8::try_from(number).ok().and_then(WriteBufferFlushPolicy::from_u8);
    policy.ok_or_else(|| Error::invalid_argument(format!("{number} is no flush policy")))
}

/// Gives the caller a manager with this policy.
pub(crate) fn give_manager(
    manager: WriteBufferManager,
    policy: WriteBufferFlushPolicy,
) -> *mut rocksdb_write_buffer_manager_t {
    manager.set_flush_policy(policy);
    give(rocksdb_write_buffer_manager_t { manager: Arc::new(manager) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_write_buffer_manager_create_with_policy(
    bytes: usize,
    allow_stall: bool,
    flush_policy: c_int,
) -> *mut rocksdb_write_buffer_manager_t {
    answer(null_mut(), || {
        let policy = parse(flush_policy)?;
        Ok(give_manager(WriteBufferManager::new(bytes, allow_stall), policy))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_write_buffer_manager_create_with_cache_and_policy(
    bytes: usize,
    cache: *const rocksdb_cache_t,
    allow_stall: bool,
    flush_policy: c_int,
) -> *mut rocksdb_write_buffer_manager_t {
    answer(null_mut(), || {
        let policy = parse(flush_policy)?;
        let manager = WriteBufferManager::with_cache(bytes, &object(cache)?.cache, allow_stall);
        Ok(give_manager(manager, policy))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_write_buffer_manager_flush_policy(
    manager: *mut rocksdb_write_buffer_manager_t,
) -> c_int {
    answer(0, || Ok(c_int::from(object(manager)?.manager.flush_policy() as u8)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_write_buffer_manager_set_flush_policy(
    manager: *mut rocksdb_write_buffer_manager_t,
    flush_policy: c_int,
) {
    answer((), || {
        object(manager)?.manager.set_flush_policy(parse(flush_policy)?);
        Ok(())
    });
}
