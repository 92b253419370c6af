//! Block caches: LRU and HyperClockCache.

use crate::field::{Held, Object};
use crate::memory::{answer, destroy, give, object};
use esker::options::{BlockCache, CacheOptions, CacheType};
use libc::c_char;
use std::sync::Arc;

/// A block cache. Options and databases own it too, so a client may destroy its handle at any time.
#[derive(Debug)]
pub struct rocksdb_cache_t {
    /// The cache.
    pub(crate) cache: Arc<BlockCache>,
}

/// Options of an LRU cache.
#[derive(Debug)]
pub struct rocksdb_lru_cache_options_t {
    /// The options.
    pub options: CacheOptions,
    held: Held,
}

impl Object for rocksdb_lru_cache_options_t {
    fn held(&mut self) -> Option<&mut Held> {
        Some(&mut self.held)
    }
}

/// Options of a HyperClockCache.
#[derive(Debug)]
pub struct rocksdb_hyper_clock_cache_options_t {
    /// The options.
    pub options: CacheOptions,
    held: Held,
}

impl Object for rocksdb_hyper_clock_cache_options_t {
    fn held(&mut self) -> Option<&mut Held> {
        Some(&mut self.held)
    }
}

unsafe fn create(options: &CacheOptions) -> *mut rocksdb_cache_t {
    answer(std::ptr::null_mut(), || Ok(give(rocksdb_cache_t { cache: Arc::new(BlockCache::new(options)?) })))
}

fn lru(capacity: usize) -> CacheOptions {
    CacheOptions { cache_type: CacheType::Lru, ..CacheOptions::with_capacity(capacity) }
}

/// A HyperClockCache. With an entry charge of 0 the table grows with its entries.
fn hyper_clock(capacity: usize, estimated_entry_charge: usize) -> CacheOptions {
    let cache_type = match estimated_entry_charge {
        0 => CacheType::AutoHyperClock,
        estimated_entry_charge => CacheType::FixedHyperClock { estimated_entry_charge },
    };
    CacheOptions { cache_type, ..CacheOptions::with_capacity(capacity) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_cache_create_lru(capacity: usize) -> *mut rocksdb_cache_t {
    create(&lru(capacity))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_cache_create_lru_with_strict_capacity_limit(
    capacity: usize,
) -> *mut rocksdb_cache_t {
    create(&CacheOptions { strict_capacity_limit: true, ..lru(capacity) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_cache_create_lru_opts(
    options: *const rocksdb_lru_cache_options_t,
) -> *mut rocksdb_cache_t {
    answer(std::ptr::null_mut(), || Ok(create(&object(options)?.options)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_cache_create_hyper_clock(
    capacity: usize,
    estimated_entry_charge: usize,
) -> *mut rocksdb_cache_t {
    create(&hyper_clock(capacity, estimated_entry_charge))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_cache_create_hyper_clock_opts(
    options: *const rocksdb_hyper_clock_cache_options_t,
) -> *mut rocksdb_cache_t {
    answer(std::ptr::null_mut(), || Ok(create(&object(options)?.options)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_cache_destroy(cache: *mut rocksdb_cache_t) {
    destroy(cache);
}

/// Never frees the cache's memory: as in RocksDB, this makes the exit of the process quick.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_cache_disown_data(cache: *mut rocksdb_cache_t) {
    answer((), || {
        std::mem::forget(object(cache)?.cache.clone());
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_cache_set_capacity(cache: *mut rocksdb_cache_t, capacity: usize) {
    answer((), || {
        object(cache)?.cache.set_capacity(capacity);
        Ok(())
    });
}

unsafe fn figure(cache: *const rocksdb_cache_t, figure: impl FnOnce(&BlockCache) -> usize) -> usize {
    answer(0, || Ok(figure(&object(cache)?.cache)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_cache_get_capacity(cache: *const rocksdb_cache_t) -> usize {
    figure(cache, BlockCache::capacity)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_cache_get_usage(cache: *const rocksdb_cache_t) -> usize {
    figure(cache, BlockCache::usage)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_cache_get_pinned_usage(cache: *const rocksdb_cache_t) -> usize {
    figure(cache, BlockCache::pinned_usage)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_cache_get_table_address_count(cache: *const rocksdb_cache_t) -> usize {
    figure(cache, BlockCache::table_address_count)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_cache_get_occupancy_count(cache: *const rocksdb_cache_t) -> usize {
    figure(cache, BlockCache::occupancy_count)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_lru_cache_options_create() -> *mut rocksdb_lru_cache_options_t {
    give(rocksdb_lru_cache_options_t { options: lru(32 << 20), held: Held::new() })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_lru_cache_options_destroy(options: *mut rocksdb_lru_cache_options_t) {
    destroy(options);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_hyper_clock_cache_options_create(
    capacity: usize,
    estimated_entry_charge: usize,
) -> *mut rocksdb_hyper_clock_cache_options_t {
    let options = hyper_clock(capacity, estimated_entry_charge);
    give(rocksdb_hyper_clock_cache_options_t { options, held: Held::new() })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_hyper_clock_cache_options_destroy(
    options: *mut rocksdb_hyper_clock_cache_options_t,
) {
    destroy(options);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_hyper_clock_cache_options_set_estimated_entry_charge(
    options: *mut rocksdb_hyper_clock_cache_options_t,
    estimated_entry_charge: usize,
) {
    answer((), || {
        let options = &mut crate::memory::object_mut(options)?.options;
        options.cache_type = hyper_clock(options.capacity, estimated_entry_charge).cache_type;
        Ok(())
    });
}

/// A memory allocator. The engine does not use it.
#[derive(Debug)]
pub struct rocksdb_memory_allocator_t(());

/// Fails, as in a RocksDB built without jemalloc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_jemalloc_nodump_allocator_create(
    errptr: *mut *mut c_char,
) -> *mut rocksdb_memory_allocator_t {
    crate::memory::save_error(errptr, "Not implemented: Not compiled with ROCKSDB_JEMALLOC");
    std::ptr::null_mut()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_memory_allocator_destroy(allocator: *mut rocksdb_memory_allocator_t) {
    destroy(allocator);
}

/// Does nothing, because the engine uses no such allocators.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_lru_cache_options_set_memory_allocator(
    _options: *mut rocksdb_lru_cache_options_t,
    _allocator: *mut rocksdb_memory_allocator_t,
) {
}

/// Does nothing, because the engine uses no such allocators.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_hyper_clock_cache_options_set_memory_allocator(
    _options: *mut rocksdb_hyper_clock_cache_options_t,
    _allocator: *mut rocksdb_memory_allocator_t,
) {
}
