//! The C functions of RocksDB that tests call, looked up in a shared library at run time.
//!
//! In: a library's path. Out: one table of function pointers for the life of the process.
//! Source: RocksDB `include/rocksdb/c.h` of 11.8. The functions have had the same arguments since
//! 7.8 at least.

use libloading::Library;
use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Defines types whose contents only RocksDB knows.
macro_rules! opaque {
    ($($name:ident),*) => { $(
        #[repr(C)]
        #[derive(Debug)]
        pub(crate) struct $name { _private: [u8; 0] }
    )* };
}
opaque!(
    Cache,
    Comparator,
    Database,
    Env,
    Options,
    Family,
    ReadOptions,
    WriteOptions,
    FlushOptions,
    Batch,
    Iter,
    SnapshotPtr,
    TableOptions,
    FilterPolicy,
    PinnedValue,
    WaitOptions,
    TxnDatabase,
    TxnDbOptions,
    TxnOptions,
    Txn,
    EnvOptions,
    SstWriter,
    IngestOptions,
    Checkpoint,
    DbPath,
    WalReadOptions,
    WalIter,
    TraceOptions,
    ReplayOptions,
    Replayer,
    CompactionService,
    JobInfo,
    ScheduleResponse,
    Override
);

/// `rocksdb_slice_t`: bytes that RocksDB owns.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    pub(crate) data: *const c_char,
    pub(crate) size: usize,
}

/// A comparator's callback: the order of two keys, or of two timestamps.
pub(crate) type Compare =
    unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int;
/// A comparator's callback: the order of two keys without their timestamps. A flag for each key
/// says whether it ends with a timestamp.
pub(crate) type CompareWithout =
    unsafe extern "C" fn(*mut c_void, *const c_char, usize, c_uchar, *const c_char, usize, c_uchar) -> c_int;

/// A compaction service's callback: takes a job.
pub(crate) type ScheduleJob =
    unsafe extern "C" fn(*mut c_void, *const JobInfo, *const c_char, usize) -> *mut ScheduleResponse;
/// A compaction service's callback: waits for a job and gives its result.
pub(crate) type WaitForJob =
    unsafe extern "C" fn(*mut c_void, *const c_char, *mut *mut c_char, *mut usize) -> c_int;

/// The place for a function's error: RocksDB leaves it null or stores a string to be freed.
pub(crate) type ErrorPtr = *mut *mut c_char;

/// Declares [`Api`] from a table of functions. The field `name` holds the library's function
/// `rocksdb_name`.
macro_rules! c_functions {
    (
        since 7: { $( $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?; )* }
        since 8: { $( $new:ident($($new_arg:ident: $new_ty:ty),* $(,)?) $(-> $new_ret:ty)?; )* }
    ) => {
        /// The functions of a loaded library. An older library may lack functions that are newer
        /// than 7.8.
        #[derive(Debug)]
        #[expect(non_snake_case, reason = "RocksDB's names")]
        pub(crate) struct Api {
            $( pub(crate) $name: unsafe extern "C" fn($($ty),*) $(-> $ret)?, )*
            $( pub(crate) $new: Option<unsafe extern "C" fn($($new_ty),*) $(-> $new_ret)?>, )*
            _library: Library,
        }

        impl Api {
            #[expect(non_snake_case, reason = "RocksDB's names")]
            fn load(path: &Path) -> Result<Api, libloading::Error> {
                // SAFETY: RocksDB's initialisers have no requirements; `_library` keeps the library
                // loaded for ever.
                let library = unsafe { Library::new(path) }?;
                $(
                    // SAFETY: the type is what RocksDB's c.h declares for this name.
                    let found = unsafe {
                        library.get::<unsafe extern "C" fn($($ty),*) $(-> $ret)?>(
                            concat!("rocksdb_", stringify!($name)),
                        )
                    };
                    let $name = *found?;
                )*
                $(
                    // SAFETY: the type is what RocksDB's c.h declares for this name.
                    let found = unsafe {
                        library.get::<unsafe extern "C" fn($($new_ty),*) $(-> $new_ret)?>(
                            concat!("rocksdb_", stringify!($new)),
                        )
                    };
                    let $new = found.ok().map(|function| *function);
                )*
                Ok(Api { $($name,)* $($new,)* _library: library })
            }
        }
    };
}

c_functions! {
    since 7: {
        free(ptr: *mut c_void);

        options_create() -> *mut Options;
        options_destroy(options: *mut Options);
        create_default_env() -> *mut Env;
        env_destroy(env: *mut Env);
        cache_create_lru(capacity: usize) -> *mut Cache;
        cache_destroy(cache: *mut Cache);
        load_latest_options(
            path: *const c_char, env: *mut Env, ignore_unknown_options: bool, cache: *mut Cache,
            options: *mut *mut Options, count: *mut usize, names: *mut *mut *mut c_char,
            family_options: *mut *mut *mut Options, error: ErrorPtr,
        );
        load_latest_options_destroy(
            options: *mut Options, names: *mut *mut c_char, family_options: *mut *mut Options, count: usize,
        );
        options_increase_parallelism(options: *mut Options, total_threads: c_int);
        options_optimize_for_point_lookup(options: *mut Options, block_cache_size_mb: u64);
        options_optimize_level_style_compaction(options: *mut Options, memtable_memory_budget: u64);
        options_optimize_universal_style_compaction(options: *mut Options, memtable_memory_budget: u64);
        options_prepare_for_bulk_load(options: *mut Options);
        get_options_from_string(base: *const Options, text: *const c_char, new: *mut Options, error: ErrorPtr);

        open_column_families(
            options: *const Options, path: *const c_char, count: c_int, names: *const *const c_char,
            family_options: *const *const Options, handles: *mut *mut Family, error: ErrorPtr,
        ) -> *mut Database;
        open_for_read_only_column_families(
            options: *const Options, path: *const c_char, count: c_int, names: *const *const c_char,
            family_options: *const *const Options, handles: *mut *mut Family, error_if_wal_exists: c_uchar,
            error: ErrorPtr,
        ) -> *mut Database;
        open_as_secondary_column_families(
            options: *const Options, path: *const c_char, secondary_path: *const c_char, count: c_int,
            names: *const *const c_char, family_options: *const *const Options, handles: *mut *mut Family,
            error: ErrorPtr,
        ) -> *mut Database;
        try_catch_up_with_primary(db: *mut Database, error: ErrorPtr);
        list_column_families(
            options: *const Options, path: *const c_char, count: *mut usize, error: ErrorPtr,
        ) -> *mut *mut c_char;
        list_column_families_destroy(list: *mut *mut c_char, count: usize);
        create_column_family(
            db: *mut Database, options: *const Options, name: *const c_char, error: ErrorPtr,
        ) -> *mut Family;
        drop_column_family(db: *mut Database, family: *mut Family, error: ErrorPtr);
        column_family_handle_destroy(family: *mut Family);
        close(db: *mut Database);

        readoptions_set_timestamp(options: *mut ReadOptions, timestamp: *const c_char, len: usize);
        writeoptions_create() -> *mut WriteOptions;
        writeoptions_destroy(options: *mut WriteOptions);
        writeoptions_set_sync(options: *mut WriteOptions, value: c_uchar);
        writeoptions_disable_WAL(options: *mut WriteOptions, value: c_int);
        write(db: *mut Database, options: *const WriteOptions, batch: *mut Batch, error: ErrorPtr);
        writebatch_create() -> *mut Batch;
        writebatch_destroy(batch: *mut Batch);
        writebatch_put_cf(
            batch: *mut Batch, family: *mut Family, key: *const c_char, key_len: usize, value: *const c_char,
            value_len: usize,
        );
        writebatch_merge_cf(
            batch: *mut Batch, family: *mut Family, key: *const c_char, key_len: usize, value: *const c_char,
            value_len: usize,
        );
        writebatch_delete_cf(batch: *mut Batch, family: *mut Family, key: *const c_char, key_len: usize);
        writebatch_singledelete_cf(batch: *mut Batch, family: *mut Family, key: *const c_char, key_len: usize);
        writebatch_delete_range_cf(
            batch: *mut Batch, family: *mut Family, begin: *const c_char, begin_len: usize,
            end: *const c_char,
            end_len: usize,
        );

        readoptions_create() -> *mut ReadOptions;
        readoptions_destroy(options: *mut ReadOptions);
        readoptions_set_total_order_seek(options: *mut ReadOptions, value: c_uchar);
        readoptions_set_snapshot(options: *mut ReadOptions, snapshot: *const SnapshotPtr);
        readoptions_set_prefix_same_as_start(options: *mut ReadOptions, value: c_uchar);
        readoptions_set_iterate_lower_bound(options: *mut ReadOptions, key: *const c_char, key_len: usize);
        readoptions_set_iterate_upper_bound(options: *mut ReadOptions, key: *const c_char, key_len: usize);
        get_cf(
            db: *mut Database, options: *const ReadOptions, family: *mut Family, key: *const c_char,
            key_len: usize,
            value_len: *mut usize, error: ErrorPtr,
        ) -> *mut c_char;
        create_snapshot(db: *mut Database) -> *const SnapshotPtr;
        release_snapshot(db: *mut Database, snapshot: *const SnapshotPtr);

        create_iterator_cf(db: *mut Database, options: *const ReadOptions, family: *mut Family) -> *mut Iter;
        iter_destroy(iter: *mut Iter);
        iter_valid(iter: *const Iter) -> c_uchar;
        iter_seek_to_first(iter: *mut Iter);
        iter_seek_to_last(iter: *mut Iter);
        iter_seek_for_prev(iter: *mut Iter, key: *const c_char, key_len: usize);
        iter_next(iter: *mut Iter);
        iter_prev(iter: *mut Iter);
        iter_key(iter: *const Iter, len: *mut usize) -> *const c_char;
        iter_value(iter: *const Iter, len: *mut usize) -> *const c_char;
        iter_get_error(iter: *const Iter, error: ErrorPtr);

        get_updates_since(
            db: *mut Database, sequence: u64, options: *const WalReadOptions, error: ErrorPtr,
        ) -> *mut WalIter;
        wal_iter_valid(iter: *const WalIter) -> c_uchar;
        wal_iter_next(iter: *mut WalIter);
        wal_iter_status(iter: *const WalIter, error: ErrorPtr);
        wal_iter_get_batch(iter: *const WalIter, sequence: *mut u64) -> *mut Batch;
        wal_iter_destroy(iter: *const WalIter);
        writebatch_data(batch: *mut Batch, len: *mut usize) -> *const c_char;

        flushoptions_create() -> *mut FlushOptions;
        flushoptions_destroy(options: *mut FlushOptions);
        flushoptions_set_wait(options: *mut FlushOptions, value: c_uchar);
        flush_cf(db: *mut Database, options: *const FlushOptions, family: *mut Family, error: ErrorPtr);
        compact_range_cf(
            db: *mut Database, family: *mut Family, begin: *const c_char, begin_len: usize,
            end: *const c_char,
            end_len: usize,
        );
        property_value_cf(db: *mut Database, family: *mut Family, name: *const c_char) -> *mut c_char;

        transactiondb_options_create() -> *mut TxnDbOptions;
        transactiondb_options_destroy(options: *mut TxnDbOptions);
        transactiondb_open(
            options: *const Options, txn_options: *const TxnDbOptions, path: *const c_char, error: ErrorPtr,
        ) -> *mut TxnDatabase;
        transactiondb_close(db: *mut TxnDatabase);
        transactiondb_put(
            db: *mut TxnDatabase, options: *const WriteOptions, key: *const c_char, key_len: usize,
            value: *const c_char, value_len: usize, error: ErrorPtr,
        );
        transactiondb_get(
            db: *mut TxnDatabase, options: *const ReadOptions, key: *const c_char, key_len: usize,
            value_len: *mut usize, error: ErrorPtr,
        ) -> *mut c_char;
        transactiondb_flush(db: *mut TxnDatabase, options: *const FlushOptions, error: ErrorPtr);
        transactiondb_get_prepared_transactions(db: *mut TxnDatabase, count: *mut usize) -> *mut *mut Txn;
        transaction_options_create() -> *mut TxnOptions;
        transaction_options_destroy(options: *mut TxnOptions);
        transaction_begin(
            db: *mut TxnDatabase, options: *const WriteOptions, txn_options: *const TxnOptions, old: *mut Txn,
        ) -> *mut Txn;
        transaction_set_name(txn: *mut Txn, name: *const c_char, name_len: usize, error: ErrorPtr);
        transaction_get_name(txn: *mut Txn, name_len: *mut usize) -> *mut c_char;
        transaction_put(
            txn: *mut Txn, key: *const c_char, key_len: usize, value: *const c_char, value_len: usize,
            error: ErrorPtr,
        );
        transaction_delete(txn: *mut Txn, key: *const c_char, key_len: usize, error: ErrorPtr);
        transaction_get(
            txn: *mut Txn, options: *const ReadOptions, key: *const c_char, key_len: usize,
            value_len: *mut usize, error: ErrorPtr,
        ) -> *mut c_char;
        transaction_set_savepoint(txn: *mut Txn);
        transaction_rollback_to_savepoint(txn: *mut Txn, error: ErrorPtr);
        transaction_prepare(txn: *mut Txn, error: ErrorPtr);
        transaction_commit(txn: *mut Txn, error: ErrorPtr);
        transaction_rollback(txn: *mut Txn, error: ErrorPtr);
        transaction_destroy(txn: *mut Txn);

        // For benchmarks: the cheapest call of 11.x for each operation.
        open(options: *const Options, path: *const c_char, error: ErrorPtr) -> *mut Database;
        block_based_options_create() -> *mut TableOptions;
        block_based_options_destroy(options: *mut TableOptions);
        block_based_options_set_filter_policy(options: *mut TableOptions, policy: *mut FilterPolicy);
        block_based_options_set_block_cache(options: *mut TableOptions, cache: *mut Cache);
        filterpolicy_create_bloom(bits_per_key: f64) -> *mut FilterPolicy;
        options_set_block_based_table_factory(options: *mut Options, table: *mut TableOptions);
        put(
            db: *mut Database, options: *const WriteOptions, key: *const c_char, key_len: usize,
            value: *const c_char,
            value_len: usize, error: ErrorPtr,
        );
        delete(
            db: *mut Database, options: *const WriteOptions, key: *const c_char, key_len: usize,
            error: ErrorPtr,
        );
        writebatch_put(
            batch: *mut Batch, key: *const c_char, key_len: usize, value: *const c_char, value_len: usize,
        );
        writebatch_delete_range(
            batch: *mut Batch, begin: *const c_char, begin_len: usize, end: *const c_char, end_len: usize,
        );
        pinnableslice_value(value: *const PinnedValue, len: *mut usize) -> *const c_char;
        pinnableslice_destroy(value: *mut PinnedValue);
        create_iterator(db: *mut Database, options: *const ReadOptions) -> *mut Iter;
        iter_seek(iter: *mut Iter, key: *const c_char, key_len: usize);
        flush(db: *mut Database, options: *const FlushOptions, error: ErrorPtr);
        compact_range(
            db: *mut Database, begin: *const c_char, begin_len: usize, end: *const c_char, end_len: usize,
        );
        envoptions_create() -> *mut EnvOptions;
        envoptions_destroy(options: *mut EnvOptions);
        sstfilewriter_create(env: *const EnvOptions, options: *const Options) -> *mut SstWriter;
        sstfilewriter_open(writer: *mut SstWriter, path: *const c_char, error: ErrorPtr);
        sstfilewriter_put(
            writer: *mut SstWriter, key: *const c_char, key_len: usize, value: *const c_char,
            value_len: usize,
            error: ErrorPtr,
        );
        sstfilewriter_merge(
            writer: *mut SstWriter, key: *const c_char, key_len: usize, value: *const c_char,
            value_len: usize,
            error: ErrorPtr,
        );
        sstfilewriter_delete(writer: *mut SstWriter, key: *const c_char, key_len: usize, error: ErrorPtr);
        sstfilewriter_delete_range(
            writer: *mut SstWriter, begin: *const c_char, begin_len: usize, end: *const c_char,
            end_len: usize,
            error: ErrorPtr,
        );
        sstfilewriter_finish(writer: *mut SstWriter, error: ErrorPtr);
        sstfilewriter_destroy(writer: *mut SstWriter);

        ingestexternalfileoptions_create() -> *mut IngestOptions;
        ingestexternalfileoptions_set_move_files(options: *mut IngestOptions, value: c_uchar);
        ingestexternalfileoptions_set_ingest_behind(options: *mut IngestOptions, value: c_uchar);
        ingestexternalfileoptions_destroy(options: *mut IngestOptions);
        ingest_external_file_cf(
            db: *mut Database, family: *mut Family, files: *const *const c_char, count: usize,
            options: *const IngestOptions, error: ErrorPtr,
        );
        checkpoint_object_create(db: *mut Database, error: ErrorPtr) -> *mut Checkpoint;
        checkpoint_create(
            checkpoint: *mut Checkpoint, dir: *const c_char, log_size_for_flush: u64, error: ErrorPtr,
        );
        checkpoint_object_destroy(checkpoint: *mut Checkpoint);
    }

    since 8: {
        ingestexternalfileoptions_set_link_files(options: *mut IngestOptions, value: c_uchar);
        ingestexternalfileoptions_set_allow_db_generated_files(options: *mut IngestOptions, value: c_uchar);
        options_enable_statistics(options: *mut Options);
        options_set_row_cache(options: *mut Options, cache: *mut Cache);
        cache_create_hyper_clock(capacity: usize, estimated_entry_charge: usize) -> *mut Cache;
        compactionservice_create(
            state: *mut c_void, destructor: unsafe extern "C" fn(*mut c_void), schedule: ScheduleJob,
            name: *const c_char, wait: WaitForJob, cancel: Option<unsafe extern "C" fn(*mut c_void)>,
            on_installation: unsafe extern "C" fn(*mut c_void, *const c_char, c_int),
        ) -> *mut CompactionService;
        options_set_compaction_service(options: *mut Options, service: *mut CompactionService);
        compactionservice_jobinfo_t_get_db_name(info: *const JobInfo, len: *mut usize) -> *const c_char;
        compactionservice_scheduleresponse_create(
            id: *const c_char, status: c_int, error: ErrorPtr,
        ) -> *mut ScheduleResponse;
        compaction_service_options_override_create_from_options(options: *mut Options) -> *mut Override;
        compaction_service_options_override_destroy(overrides: *mut Override);
        open_and_compact(
            path: *const c_char, output: *const c_char, job: *const c_char, job_len: usize,
            len: *mut usize, overrides: *const Override, error: ErrorPtr,
        ) -> *mut c_char;
        open_and_trim_history(
            options: *const Options, path: *const c_char, count: c_int, names: *const *const c_char,
            family_options: *const *const Options, handles: *mut *mut Family, trim_ts: *mut c_char,
            trim_ts_len: usize, error: ErrorPtr,
        ) -> *mut Database;
        get_default_column_family_handle(db: *mut Database) -> *mut Family;
        wait_for_compact_options_create() -> *mut WaitOptions;
        wait_for_compact_options_destroy(options: *mut WaitOptions);
        wait_for_compact(db: *mut Database, options: *mut WaitOptions, error: ErrorPtr);
        batched_multi_get_cf_slice(
            db: *mut Database, options: *const ReadOptions, family: *mut Family, count: usize,
            keys: *const Slice,
            values: *mut *mut PinnedValue, errors: *mut *mut c_char, sorted_input: bool,
        );
        get_into_buffer(
            db: *mut Database, options: *const ReadOptions, key: *const c_char, key_len: usize,
            buffer: *mut c_char,
            buffer_len: usize, value_len: *mut usize, found: *mut c_uchar, error: ErrorPtr,
        ) -> c_uchar;
        comparator_create(
            state: *mut c_void, destroy: unsafe extern "C" fn(*mut c_void), compare: Compare,
            name: unsafe extern "C" fn(*mut c_void) -> *const c_char,
        ) -> *mut Comparator;
        comparator_with_ts_create(
            state: *mut c_void, destructor: unsafe extern "C" fn(*mut c_void), compare: Compare,
            compare_timestamps: Compare, compare_without_timestamps: CompareWithout,
            name: unsafe extern "C" fn(*mut c_void) -> *const c_char, timestamp_size: usize,
        ) -> *mut Comparator;
        comparator_destroy(comparator: *mut Comparator);
        options_set_comparator(options: *mut Options, comparator: *mut Comparator);
        put_cf_with_ts(
            db: *mut Database, options: *const WriteOptions, family: *mut Family, key: *const c_char,
            key_len: usize,
            timestamp: *const c_char, timestamp_len: usize, value: *const c_char, value_len: usize,
            error: ErrorPtr,
        );
        delete_cf_with_ts(
            db: *mut Database, options: *const WriteOptions, family: *mut Family, key: *const c_char,
            key_len: usize,
            timestamp: *const c_char, timestamp_len: usize, error: ErrorPtr,
        );
        iter_key_slice(iter: *const Iter) -> Slice;
        iter_value_slice(iter: *const Iter) -> Slice;
        transactiondb_options_set_write_policy(options: *mut TxnDbOptions, policy: c_int);
        transactiondb_options_set_default_write_batch_flush_threshold(options: *mut TxnDbOptions, bytes: i64);
        transaction_set_commit_timestamp(txn: *mut Txn, timestamp: u64);
        verify_checksum(db: *mut Database, error: ErrorPtr);
        verify_file_checksums(db: *mut Database, error: ErrorPtr);
        increase_full_history_ts_low(
            db: *mut Database, family: *mut Family, ts_low: *const c_char, ts_low_len: usize, error: ErrorPtr,
        );
        get_db_identity(db: *mut Database, len: *mut usize) -> *mut c_char;
        dbpath_create(path: *const c_char, target_size: u64) -> *mut DbPath;
        dbpath_destroy(path: *mut DbPath);
        options_set_db_paths(options: *mut Options, paths: *const *const DbPath, count: usize);
        options_set_cf_paths(options: *mut Options, paths: *const *const DbPath, count: usize);
        start_trace(
            db: *mut Database, env: *mut Env, env_options: *const EnvOptions,
            options: *const TraceOptions, path: *const c_char, error: ErrorPtr,
        );
        end_trace(db: *mut Database, error: ErrorPtr);
        start_block_cache_trace(
            db: *mut Database, env: *mut Env, env_options: *const EnvOptions,
            options: *const TraceOptions, path: *const c_char, error: ErrorPtr,
        );
        end_block_cache_trace(db: *mut Database, error: ErrorPtr);
        start_io_trace(
            db: *mut Database, env: *mut Env, env_options: *const EnvOptions,
            options: *const TraceOptions, path: *const c_char, error: ErrorPtr,
        );
        end_io_trace(db: *mut Database, error: ErrorPtr);
        replay_options_create() -> *mut ReplayOptions;
        replay_options_destroy(options: *mut ReplayOptions);
        replay_options_set_num_threads(options: *mut ReplayOptions, threads: u32);
        replay_options_set_fast_forward(options: *mut ReplayOptions, fast_forward: f64);
        new_default_replayer(
            db: *mut Database, families: *mut *mut Family, count: usize, env: *mut Env,
            env_options: *const EnvOptions, path: *const c_char, error: ErrorPtr,
        ) -> *mut Replayer;
        replayer_prepare(replayer: *mut Replayer, error: ErrorPtr);
        replayer_replay(replayer: *mut Replayer, options: *const ReplayOptions, error: ErrorPtr);
        replayer_destroy(replayer: *mut Replayer);
        readoptions_set_iter_start_ts(options: *mut ReadOptions, timestamp: *const c_char, len: usize);
    }
}

/// The message for a function that only version 11 has.
pub(crate) const NEEDS_11: &str = "RocksDB 11's library";

/// The file name of the RocksDB 7.8.3 library that the tools use. The system's loader finds it.
pub const LIBRARY_7: &str = "librocksdb.so.7.8";

/// The library's file name in the directory of peers.
const LIBRARY: &str = "librocksdbjni-linux64.so";

/// The directory that `.ci/fetch-peers` fills.
fn peers_dir() -> PathBuf {
    match std::env::var_os("ESKER_PEERS_DIR") {
        Some(dir) => PathBuf::from(dir),
        None => Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/peers")).to_owned(),
    }
}

static API: OnceLock<Result<Api, String>> = OnceLock::new();

fn load(path: &Path) -> Result<Api, String> {
    // A bare file name is left to the system's loader.
    if path.components().count() > 1 && !path.exists() {
        return Err(format!("{} is not there", path.display()));
    }
    Api::load(path).map_err(|error| format!("{} cannot be loaded: {error}", path.display()))
}

/// The path of RocksDB 10.4.2's library, which runs in a process of its own.
/// # Errors
/// The file does not exist.
pub fn library_10() -> Result<PathBuf, String> {
    let path = peers_dir().join("10.4.2").join(LIBRARY);
    if path.exists() { Ok(path) } else { Err(format!("{} is not there", path.display())) }
}

/// The path of the library of 11.12, if it is there. No package has it: it is built by hand from
/// the sources in crate `rust-librocksdb-sys` 0.49.
pub fn library_11_12() -> Option<PathBuf> {
    Some(peers_dir().join("11.12/librocksdb.so")).filter(|path| path.exists())
}

/// The path of the tests' library. The file need not exist.
pub fn default_library() -> PathBuf {
    peers_dir().join(LIBRARY)
}

/// The functions of the library that [`load_library`] chose, or of the tests' library. Loads it
/// once.
/// # Errors
/// The library does not exist, or lacks a function.
pub(crate) fn api() -> Result<&'static Api, String> {
    API.get_or_init(|| load(&default_library())).as_ref().map_err(Clone::clone)
}

/// Loads the library at `path` for this process: another build of RocksDB 11, for example one
/// compiled for this machine.
/// # Errors
/// The library does not exist or lacks a function · this process has already loaded a library
/// (invariant 2 of the crate).
pub fn load_library(path: &Path) -> Result<(), String> {
    let mut is_new = false;
    let loaded = API.get_or_init(|| {
        is_new = true;
        load(path)
    });
    match loaded {
        Ok(_) if !is_new => Err("a RocksDB library is loaded already: one for each process".to_owned()),
        Ok(_) => Ok(()),
        Err(why) => Err(why.clone()),
    }
}
