//! Counts and times of one thread's operations, which show why one of them was slow.
//!
//! In: [`perf_count!`], [`perf_add!`] and [`perf_time!`] in the engine. Out:
//! [`PerfContext::current`], for the thread. Names are RocksDB's (`include/rocksdb/perf_context.h`,
//! `perf_level.h`).
//!
//! Cost of a count that the level leaves out: one thread-local read and a comparison. Counts by
//! level of the tree ([`PerfContextByLevel`]) are on for threads that ask for them. For all others
//! they cost a comparison where a filter was asked, a block missed, or an answer found.
//!
//! [`perf_count!`]: crate::perf_count
//! [`perf_add!`]: crate::perf_add
//! [`perf_time!`]: crate::perf_time

mod by_level;

pub use by_level::{PerfContextByLevel, count_at_level};

use crate::thread_numbers::thread_numbers;
use std::cell::Cell;

/// The level of detail of a thread. Each level includes those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum PerfLevel {
    /// Nothing.
    Disable = 1,
    /// Counts.
    #[default]
    EnableCount = 2,
    /// Also waits for other threads.
    EnableWait = 3,
    /// Also times, except those of mutexes.
    EnableTimeExceptForMutex = 4,
    /// Also processor times.
    EnableTimeAndCpuTimeExceptForMutex = 5,
    /// Also times of mutexes.
    EnableTime = 6,
}

thread_numbers! {
    /// A copy of a thread's numbers since its last reset.
    PerfContext,
    LivePerfContext {
        level: Cell<PerfLevel> = Cell::new(PerfLevel::EnableCount),
        detail: Cell<u8> = Cell::new(PerfLevel::EnableCount as u8),
    },
    with_live,
    by_level::reset,
    user_key_comparison_count,
    block_cache_hit_count,
    block_read_count,
    block_read_byte,
    block_read_time,
    block_read_cpu_time,
    block_cache_index_hit_count,
    block_cache_standalone_handle_count,
    block_cache_real_handle_count,
    index_block_read_count,
    block_cache_filter_hit_count,
    filter_block_read_count,
    compression_dict_block_read_count,
    block_cache_index_read_byte,
    block_cache_filter_read_byte,
    block_cache_compression_dict_read_byte,
    block_cache_read_byte,
    secondary_cache_hit_count,
    compressed_sec_cache_insert_real_count,
    compressed_sec_cache_insert_dummy_count,
    compressed_sec_cache_uncompressed_bytes,
    compressed_sec_cache_compressed_bytes,
    block_checksum_time,
    block_decompress_time,
    block_decompress_count,
    get_read_bytes,
    multiget_read_bytes,
    iter_read_bytes,
    blob_cache_hit_count,
    blob_cache_read_byte,
    blob_read_count,
    blob_read_byte,
    blob_read_time,
    blob_checksum_time,
    blob_decompress_time,
    internal_key_skipped_count,
    internal_delete_skipped_count,
    internal_recent_skipped_count,
    internal_merge_count,
    internal_merge_point_lookup_count,
    internal_range_del_reseek_count,
    get_snapshot_time,
    get_from_memtable_time,
    get_from_memtable_count,
    get_post_process_time,
    get_from_output_files_time,
    seek_on_memtable_time,
    seek_on_memtable_count,
    next_on_memtable_count,
    prev_on_memtable_count,
    seek_child_seek_time,
    seek_child_seek_count,
    seek_min_heap_time,
    seek_max_heap_time,
    seek_internal_seek_time,
    find_next_user_entry_time,
    write_wal_time,
    write_memtable_time,
    write_delay_time,
    write_scheduling_flushes_compactions_time,
    write_pre_and_post_process_time,
    write_thread_wait_nanos,
    db_mutex_lock_nanos,
    db_condition_wait_nanos,
    merge_operator_time_nanos,
    read_index_block_nanos,
    read_filter_block_nanos,
    new_table_block_iter_nanos,
    new_table_iterator_nanos,
    block_seek_nanos,
    find_table_nanos,
    bloom_memtable_hit_count,
    bloom_memtable_miss_count,
    bloom_sst_hit_count,
    bloom_sst_miss_count,
    key_lock_wait_time,
    key_lock_wait_count,
    env_new_sequential_file_nanos,
    env_new_random_access_file_nanos,
    env_new_writable_file_nanos,
    env_reuse_writable_file_nanos,
    env_new_random_rw_file_nanos,
    env_new_directory_nanos,
    env_file_exists_nanos,
    env_get_children_nanos,
    env_get_children_file_attributes_nanos,
    env_delete_file_nanos,
    env_create_dir_nanos,
    env_create_dir_if_missing_nanos,
    env_delete_dir_nanos,
    env_get_file_size_nanos,
    env_get_file_modification_time_nanos,
    env_rename_file_nanos,
    env_link_file_nanos,
    env_lock_file_nanos,
    env_unlock_file_nanos,
    env_new_logger_nanos,
    get_cpu_nanos,
    iter_next_cpu_nanos,
    iter_prev_cpu_nanos,
    iter_seek_cpu_nanos,
    iter_next_count,
    iter_prev_count,
    iter_seek_count,
    encrypt_data_nanos,
    decrypt_data_nanos,
    number_async_seek,
    file_ingestion_nanos,
    file_ingestion_blocking_live_writes_nanos,
    data_block_read_byte,
    index_block_read_byte,
    filter_block_read_byte,
    compression_dict_block_read_byte,
    metadata_block_read_byte,
    multiscan_prepare_count,
    multiscan_blocks_prefetched,
    multiscan_blocks_from_cache,
    multiscan_prefetch_bytes,
    multiscan_io_requests,
    multiscan_io_coalesced_nonadjacent,
}

/// This thread's level.
#[inline]
pub fn perf_level() -> PerfLevel {
    with_live(|live| live.level.get())
}

/// Sets this thread's level.
pub fn set_perf_level(level: PerfLevel) {
    with_live(|live| {
        live.level.set(level);
        live.detail.set(level as u8 | live.detail.get() & BY_LEVEL);
    });
}

/// The bit of a thread's detail that stands above its level: counts by level of the tree are on.
const BY_LEVEL: u8 = 16;

/// Whether this thread counts by level of the tree, or measures times.
#[doc(hidden)]
#[inline]
pub fn is_detailed() -> bool {
    with_live(|live| live.detail.get() >= PerfLevel::EnableTimeExceptForMutex as u8)
}

/// Whether this thread counts by level of the tree.
#[doc(hidden)]
#[inline]
pub fn counts_by_level() -> bool {
    with_live(|live| live.detail.get() >= BY_LEVEL | PerfLevel::EnableCount as u8)
}

/// The time, if this thread's level is `level` or higher. For the macros, which have the measured
/// block once: a second copy, without times, would keep the compiler from inlining it.
#[doc(hidden)]
#[inline(always)]
pub fn time_if(level: PerfLevel, now: impl FnOnce() -> u64) -> Option<u64> {
    (perf_level() >= level).then(|| time_since(0, now))
}

/// The nanoseconds since `started`.
#[doc(hidden)]
#[cold]
pub fn time_since(started: u64, now: impl FnOnce() -> u64) -> u64 {
    now().saturating_sub(started)
}

/// `perf_count!(block_read_count)`: adds one to a number of this thread.
#[macro_export]
macro_rules! perf_count {
    ($field:ident) => {
        $crate::perf_add!($field, 1)
    };
}

/// `perf_add!(block_read_byte, n)`: adds `n` (a `u64`) to a number of this thread. Evaluates `n`
/// only if the level counts it.
#[macro_export]
macro_rules! perf_add {
    ($field:ident, $amount:expr) => {
        $crate::perf_context::with_live(|live| {
            if live.level.get() >= $crate::perf_context::PerfLevel::EnableCount {
                live.$field.set(live.$field.get().wrapping_add($amount));
            }
        })
    };
}

/// `perf_time!(block_read_time, clock, { … })` runs the block, adds its nanoseconds by
/// `clock.monotonic_nanos()`, and returns its value. It reads no clock below the level
/// `EnableTimeExceptForMutex`. `perf_time!(level EnableTime, db_mutex_lock_nanos, clock, { … })`
/// names another level, and `perf_time!(cpu block_read_cpu_time, clock, { … })` adds processor time
/// by `clock.thread_cpu_nanos()`, from its level on. After a `return` or `?` in the block nothing
/// is added.
#[macro_export]
macro_rules! perf_time {
    ($field:ident, $clock:expr, $body:expr) => {
        $crate::perf_time!(level EnableTimeExceptForMutex, $field, $clock, $body)
    };
    (cpu $field:ident, $clock:expr, $body:expr) => {
        $crate::time_number!(
            $crate::perf_context::with_live,
            thread_cpu_nanos,
            EnableTimeAndCpuTimeExceptForMutex,
            $field,
            $clock,
            $body
        )
    };
    (level $level:ident, $field:ident, $clock:expr, $body:expr) => {
        $crate::time_number!(
            $crate::perf_context::with_live,
            monotonic_nanos,
            $level,
            $field,
            $clock,
            $body
        )
    };
}

/// Runs a block, adds its nanoseconds to a number that `$with` lends, and returns its value. For
/// the macros.
#[doc(hidden)]
#[macro_export]
macro_rules! time_number {
    ($with:path, $now:ident, $level:ident, $field:ident, $clock:expr, $body:expr) => {{
        let level = $crate::perf_context::PerfLevel::$level;
        let started = $crate::perf_context::time_if(level, || $clock.$now());
        let out = $body;
        if let Some(started) = started {
            let nanos = $crate::perf_context::time_since(started, || $clock.$now());
            $with(|live| live.$field.set(live.$field.get().wrapping_add(nanos)));
        }
        out
    }};
}

#[cfg(test)]
mod tests;
