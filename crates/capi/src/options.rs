//! `rocksdb_options_t`: options of a database and of a family in one object.
//!
//! In: setters and getters, most of them from `accessors.txt`. Out: Esker's `DbOptions` and
//! `ColumnFamilyOptions`. A setter that takes ownership of an object (as `c.h` says) frees its
//! wrapper. Shared objects are reference-counted.

use crate::cache::rocksdb_cache_t;
use crate::callbacks::{
    rocksdb_compactionfilter_t, rocksdb_compactionfilterfactory_t, rocksdb_comparator_t,
    rocksdb_mergeoperator_t, rocksdb_slicetransform_t,
};
use crate::compaction_styles::{rocksdb_fifo_compaction_options_t, rocksdb_universal_compaction_options_t};
use crate::env::{
    rocksdb_dbpath_t, rocksdb_env_t, rocksdb_logger_t, rocksdb_ratelimiter_t, rocksdb_sst_file_manager_t,
    rocksdb_write_buffer_manager_t,
};
use crate::field::{Code, Field, Held, Object};
use crate::listener::{ClientListener, EventCallbacks, HandleCell, no_handle};
use crate::memory::{
    answer, attempt, destroy, give, lend, object, object_mut, path, put, slice, text, to_c_array, to_c_string,
};
use crate::table_options::rocksdb_block_based_table_options_t;
use esker::options::{
    CompressionType, Env, Statistics, StatsLevel, TargetVersion, load_latest_options_from,
    options_from_string,
};
use esker::{ColumnFamilyOptions, DbOptions, DbPath, Error, Options, Result};
use libc::{c_char, c_int, c_uchar};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

/// Options of a database and of a family.
#[derive(Clone, Debug, Default)]
pub struct rocksdb_options_t {
    /// Options of the database.
    pub db: DbOptions,
    /// Options of the family.
    pub cf: ColumnFamilyOptions,
    /// Held values: they have no effect.
    pub(crate) held: Held,
    /// Options that a setter got an impossible value for. Opening a database fails and names them.
    pub(crate) refused: Vec<String>,
    /// Functions of the client that Esker calls for events.
    pub(crate) listeners: Vec<Arc<EventCallbacks>>,
}

impl Object for rocksdb_options_t {
    fn refuse(&mut self, option: &'static str, value: String) {
        self.refused.push(format!("{option}: '{value}' is not one of its values"));
    }

    fn held(&mut self) -> Option<&mut Held> {
        Some(&mut self.held)
    }
}

impl rocksdb_options_t {
    /// The defaults of RocksDB 11.8; with feature `defaults-of-11-1`, those of 11.1. A client of
    /// the ABI expects files that RocksDB 11 can read.
    pub(crate) fn new() -> rocksdb_options_t {
        let mut options = rocksdb_options_t::default();
        options.db.compatible_with = TargetVersion::V11;
        options.cf.table = rocksdb_block_based_table_options_t::new().table;
        if cfg!(feature = "defaults-of-11-1") {
            options.cf.compression = CompressionType::Snappy;
        }
        options
    }

    /// The defaults of a release before 11 that decide which files are written. With them a client
    /// of a shim can go back to that release. `format_version` is that of the release.
    fn before_11(compatible_with: TargetVersion, format_version: u32) -> rocksdb_options_t {
        let mut options = rocksdb_options_t::new();
        options.db.compatible_with = compatible_with;
        options.cf.table.format_version = format_version;
        options.cf.table.optimize_filters_for_memory = compatible_with != TargetVersion::V8;
        options.cf.compression = CompressionType::Snappy;
        options
    }

    /// Checks that every setter was given a possible value.
    /// # Errors
    /// `InvalidArgument` if a setter was given a value that its option cannot have.
    pub(crate) fn check(&self) -> Result<()> {
        match self.refused.first() {
            Some(refused) => Err(Error::invalid_argument(refused)),
            None => Ok(()),
        }
    }

    /// Checks the options and returns them.
    pub(crate) fn checked(&self) -> Result<Options> {
        Ok(self.for_open()?.0)
    }

    /// Checks the options and returns them, with the cell for the handle of the database to open.
    pub(crate) fn for_open(&self) -> Result<(Options, HandleCell)> {
        self.check()?;
        let (mut db, handle) = (self.db.clone(), no_handle());
        // A client of RocksDB may destroy a database without naming its other paths.
        db.move_leftovers_of_paths = true;
        for callbacks in &self.listeners {
            let listener = ClientListener { callbacks: callbacks.clone(), handle: handle.clone() };
            db.listeners.push(Arc::new(listener));
        }
        Ok((Options { db, cf: self.cf.clone() }, handle))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_create() -> *mut rocksdb_options_t {
    give(rocksdb_options_t::new())
}

/// Options with the defaults of RocksDB 8.1, for the shims. They differ from those of 8.10 in the
/// level sizes only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_v8_1_rocksdb_options_create() -> *mut rocksdb_options_t {
    let mut options = rocksdb_options_t::before_11(TargetVersion::V8, 5);
    options.cf.level_compaction_dynamic_level_bytes = false;
    give(options)
}

/// Options with the defaults of RocksDB 8.10, for the shims.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_v8_rocksdb_options_create() -> *mut rocksdb_options_t {
    give(rocksdb_options_t::before_11(TargetVersion::V8, 5))
}

/// Options with the defaults of RocksDB 10.4, for the shims.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_v10_rocksdb_options_create() -> *mut rocksdb_options_t {
    give(rocksdb_options_t::before_11(TargetVersion::V10, 6))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_create_copy(
    options: *mut rocksdb_options_t,
) -> *mut rocksdb_options_t {
    answer(std::ptr::null_mut(), || Ok(give(object(options)?.clone())))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_destroy(options: *mut rocksdb_options_t) {
    destroy(options);
}

/// Changes `options`, unless it is NULL.
pub(crate) unsafe fn change(
    options: *mut rocksdb_options_t,
    change: impl FnOnce(&mut rocksdb_options_t) -> Result<()>,
) {
    answer((), || change(object_mut(options)?));
}

/// Takes the content out of the wrapper and frees the wrapper.
unsafe fn take<T>(wrapper: *mut T) -> Option<Box<T>> {
    (!wrapper.is_null()).then(|| Box::from_raw(wrapper))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_comparator(
    options: *mut rocksdb_options_t,
    comparator: *mut rocksdb_comparator_t,
) {
    change(options, |options| {
        options.cf.comparator = object(comparator)?.comparator.clone();
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_merge_operator(
    options: *mut rocksdb_options_t,
    operator: *mut rocksdb_mergeoperator_t,
) {
    change(options, |options| {
        options.cf.merge_operator = take(operator).map(|operator| operator.operator);
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_uint64add_merge_operator(options: *mut rocksdb_options_t) {
    change(options, |options| {
        options.cf.merge_operator = Some(esker::builtin::uint64_add());
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_prefix_extractor(
    options: *mut rocksdb_options_t,
    transform: *mut rocksdb_slicetransform_t,
) {
    change(options, |options| {
        options.cf.prefix_extractor = take(transform).and_then(|transform| transform.transform);
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_compaction_filter(
    options: *mut rocksdb_options_t,
    filter: *mut rocksdb_compactionfilter_t,
) {
    change(options, |options| {
        options.cf.compaction_filter = filter.as_ref().map(|filter| filter.filter());
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_compaction_filter_factory(
    options: *mut rocksdb_options_t,
    factory: *mut rocksdb_compactionfilterfactory_t,
) {
    change(options, |options| {
        options.cf.compaction_filter_factory = take(factory).map(|factory| factory.factory);
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_block_based_table_factory(
    options: *mut rocksdb_options_t,
    table: *mut rocksdb_block_based_table_options_t,
) {
    change(options, |options| {
        let table = object(table)?;
        options.refused.extend(table.refused.iter().cloned());
        options.refused.extend(crate::user_defined_index::refusal(table));
        options.cf.table = table.raised();
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_env(options: *mut rocksdb_options_t, env: *mut rocksdb_env_t) {
    change(options, |options| {
        options.db.env = env.as_ref().map_or_else(Default::default, |env| env.env.clone());
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_info_log(
    options: *mut rocksdb_options_t,
    logger: *mut rocksdb_logger_t,
) {
    change(options, |options| {
        options.db.info_log = logger.as_ref().map(|logger| logger.logger.clone());
        Ok(())
    });
}

/// A new wrapper of the same log, or NULL if no log is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_get_info_log(
    options: *mut rocksdb_options_t,
) -> *mut rocksdb_logger_t {
    answer(std::ptr::null_mut(), || {
        let logger = object(options)?.db.info_log.clone();
        Ok(logger.map_or(std::ptr::null_mut(), |logger| give(rocksdb_logger_t { logger })))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_ratelimiter(
    options: *mut rocksdb_options_t,
    limiter: *mut rocksdb_ratelimiter_t,
) {
    change(options, |options| {
        options.db.rate_limiter = limiter.as_ref().map(|limiter| limiter.limiter.clone());
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_write_buffer_manager(
    options: *mut rocksdb_options_t,
    manager: *mut rocksdb_write_buffer_manager_t,
) {
    change(options, |options| {
        options.db.write_buffer_manager = manager.as_ref().map(|manager| manager.manager.clone());
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_blob_cache(
    options: *mut rocksdb_options_t,
    cache: *mut rocksdb_cache_t,
) {
    change(options, |options| {
        options.cf.blob_cache = cache.as_ref().map(|cache| cache.cache.clone());
        Ok(())
    });
}

/// Returns the path of a directory, which the options own; an empty path if the option is unset.
unsafe fn lend_directory(directory: Option<&PathBuf>, len: *mut usize) -> *const c_char {
    lend(directory.map_or(&[], |path| path.as_os_str().as_bytes()), len)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_wal_dir(options: *mut rocksdb_options_t, dir: *const c_char) {
    change(options, |options| {
        options.db.wal_dir = Some(path(dir)?.to_owned()).filter(|path| !path.as_os_str().is_empty());
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_get_wal_dir(
    options: *mut rocksdb_options_t,
    len: *mut usize,
) -> *const c_char {
    answer(std::ptr::null(), || Ok(lend_directory(object(options)?.db.wal_dir.as_ref(), len)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_db_log_dir(options: *mut rocksdb_options_t, dir: *const c_char) {
    change(options, |options| {
        options.db.db_log_dir = Some(path(dir)?.to_owned()).filter(|path| !path.as_os_str().is_empty());
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_get_db_log_dir(
    options: *mut rocksdb_options_t,
    len: *mut usize,
) -> *const c_char {
    answer(std::ptr::null(), || Ok(lend_directory(object(options)?.db.db_log_dir.as_ref(), len)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_compression_per_level(
    options: *mut rocksdb_options_t,
    levels: *const c_int,
    count: usize,
) {
    change(options, |options| {
        let mut compressions = Vec::new();
        for code in slice(levels, count)? {
            match CompressionType::of((*code).into()) {
                Some(compression) => compressions.push(compression),
                None => options.refuse("compression_per_level", code.to_string()),
            }
        }
        options.cf.compression_per_level = compressions;
        Ok(())
    });
}

/// Turns compression off below `level`. Levels from `level` on get `compression`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_min_level_to_compress(
    options: *mut rocksdb_options_t,
    level: c_int,
) {
    change(options, |options| {
        if level >= 0 {
            let (levels, compression) = (options.cf.num_levels.max(0), options.cf.compression);
            let of_level = |at| if at < level { CompressionType::None } else { compression };
            options.cf.compression_per_level = (0..levels).map(of_level).collect();
        }
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_max_bytes_for_level_multiplier_additional(
    options: *mut rocksdb_options_t,
    levels: *mut c_int,
    count: usize,
) {
    change(options, |options| {
        options.cf.max_bytes_for_level_multiplier_additional = slice(levels, count)?.to_vec();
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_compression_options(
    options: *mut rocksdb_options_t,
    window_bits: c_int,
    level: c_int,
    strategy: c_int,
    max_dict_bytes: c_int,
) {
    change(options, |options| {
        let opts = &mut options.cf.compression_opts;
        (opts.window_bits, opts.level, opts.strategy) = (window_bits, level, strategy);
        opts.max_dict_bytes.store(max_dict_bytes).map_err(Error::invalid_argument)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_bottommost_compression_options(
    options: *mut rocksdb_options_t,
    window_bits: c_int,
    level: c_int,
    strategy: c_int,
    max_dict_bytes: c_int,
    enabled: c_uchar,
) {
    change(options, |options| {
        let opts = &mut options.cf.bottommost_compression_opts;
        (opts.window_bits, opts.level, opts.strategy) = (window_bits, level, strategy);
        opts.enabled = enabled != 0;
        opts.max_dict_bytes.store(max_dict_bytes).map_err(Error::invalid_argument)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_bottommost_compression_options_zstd_max_train_bytes(
    options: *mut rocksdb_options_t,
    bytes: c_int,
    enabled: c_uchar,
) {
    change(options, |options| {
        let opts = &mut options.cf.bottommost_compression_opts;
        opts.enabled = enabled != 0;
        opts.zstd_max_train_bytes.store(bytes).map_err(Error::invalid_argument)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_bottommost_compression_options_use_zstd_dict_trainer(
    options: *mut rocksdb_options_t,
    trains: c_uchar,
    enabled: c_uchar,
) {
    change(options, |options| {
        let opts = &mut options.cf.bottommost_compression_opts;
        (opts.enabled, opts.use_zstd_dict_trainer) = (enabled != 0, trains != 0);
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_bottommost_compression_options_max_dict_buffer_bytes(
    options: *mut rocksdb_options_t,
    bytes: u64,
    enabled: c_uchar,
) {
    change(options, |options| {
        let opts = &mut options.cf.bottommost_compression_opts;
        (opts.enabled, opts.max_dict_buffer_bytes) = (enabled != 0, bytes);
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_universal_compaction_options(
    options: *mut rocksdb_options_t,
    universal: *mut rocksdb_universal_compaction_options_t,
) {
    change(options, |options| {
        options.cf.compaction_options_universal = object(universal)?.options;
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_fifo_compaction_options(
    options: *mut rocksdb_options_t,
    fifo: *mut rocksdb_fifo_compaction_options_t,
) {
    change(options, |options| {
        options.cf.compaction_options_fifo = object(fifo)?.options.clone();
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_enable_statistics(options: *mut rocksdb_options_t) {
    change(options, |options| {
        options.db.statistics = Some(Arc::new(Statistics::new()));
        Ok(())
    });
}

/// Sets the level of the statistics. Does nothing without statistics, as in RocksDB.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_statistics_level(options: *mut rocksdb_options_t, level: c_int) {
    change(options, |options| {
        let level = StatsLevel::of(level.clamp(0, 5).into());
        if let (Some(statistics), Some(level)) = (&options.db.statistics, level) {
            statistics.set_stats_level(level);
        }
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_get_statistics_level(options: *mut rocksdb_options_t) -> c_int {
    answer(0, || {
        let statistics = &object(options)?.db.statistics;
        Ok(statistics.as_ref().map_or(0, |statistics| statistics.stats_level().code() as c_int))
    })
}

/// Translates RocksDB's number of a level.
impl Code for StatsLevel {
    fn of(code: i64) -> Option<StatsLevel> {
        Some(match code {
            0 => StatsLevel::DisableAll,
            1 => StatsLevel::ExceptHistogramOrTimers,
            2 => StatsLevel::ExceptTimers,
            3 => StatsLevel::ExceptDetailedTimers,
            4 => StatsLevel::ExceptTimeForMutex,
            5 => StatsLevel::All,
            _ => return None,
        })
    }
    fn code(&self) -> i64 {
        *self as i64
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_increase_parallelism(
    options: *mut rocksdb_options_t,
    threads: c_int,
) {
    change_both(options, |both| Ok(both.increase_parallelism(threads.max(1).unsigned_abs())));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_optimize_for_point_lookup(
    options: *mut rocksdb_options_t,
    cache_mb: u64,
) {
    change_both(options, |both| both.optimize_for_point_lookup(cache_mb));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_optimize_level_style_compaction(
    options: *mut rocksdb_options_t,
    memory: u64,
) {
    change_both(options, |both| Ok(both.optimize_level_style_compaction(memory)));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_optimize_universal_style_compaction(
    options: *mut rocksdb_options_t,
    memory: u64,
) {
    change_both(options, |both| Ok(both.optimize_universal_style_compaction(memory)));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_prepare_for_bulk_load(options: *mut rocksdb_options_t) {
    change(options, |options| {
        let cf = &mut options.cf;
        cf.level0_file_num_compaction_trigger = 1 << 30;
        cf.level0_slowdown_writes_trigger = 1 << 30;
        cf.level0_stop_writes_trigger = 1 << 30;
        cf.soft_pending_compaction_bytes_limit = 0;
        cf.hard_pending_compaction_bytes_limit = 0;
        cf.disable_auto_compactions = true;
        cf.max_compaction_bytes = 1 << 60;
        cf.num_levels = 2;
        cf.max_write_buffer_number = 6;
        cf.min_write_buffer_number_to_merge = 1;
        cf.target_file_size_base = 256 << 20;
        options.db.max_background_flushes = 4;
        Ok(())
    });
}

unsafe fn change_both(options: *mut rocksdb_options_t, preset: impl FnOnce(Options) -> Result<Options>) {
    change(options, |options| {
        let both = preset(Options { db: options.db.clone(), cf: options.cf.clone() })?;
        (options.db, options.cf) = (both.db, both.cf);
        Ok(())
    });
}

/// Copies `base` and sets the options of `text`: "name=value;…", of database, family and table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_options_from_string(
    base: *const rocksdb_options_t,
    options_text: *const c_char,
    new_options: *mut rocksdb_options_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let mut changed = object(base)?.clone();
        let both = Options { db: changed.db, cf: changed.cf };
        let both = options_from_string(&both, &text(options_text)?)?;
        (changed.db, changed.cf) = (both.db, both.cf);
        *object_mut(new_options)? = changed;
        Ok(())
    });
}

/// Whether a directory that cannot be listed counts as one without options, as in RocksDB. Clients
/// take `NotFound` for a new database.
fn is_no_directory(listing: &Error) -> bool {
    use std::error::Error as _;
    let cause = listing.source().and_then(|cause| cause.downcast_ref::<std::io::Error>());
    let errno = cause.and_then(std::io::Error::raw_os_error);
    matches!(errno, Some(libc::ENOENT | libc::ENOTDIR | libc::EACCES))
}

/// Loads the options of the newest OPTIONS file of a directory. The caller owns the arrays and
/// strings, and frees them by `rocksdb_load_latest_options_destroy` or one by one. After an error
/// the results are NULL and 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_load_latest_options(
    db_path: *const c_char,
    env: *mut rocksdb_env_t,
    ignore_unknown_options: bool,
    cache: *mut rocksdb_cache_t,
    db_options: *mut *mut rocksdb_options_t,
    count: *mut usize,
    names: *mut *mut *mut c_char,
    family_options: *mut *mut *mut rocksdb_options_t,
    errptr: *mut *mut c_char,
) {
    put(db_options, std::ptr::null_mut());
    put(count, 0);
    put(names, std::ptr::null_mut());
    put(family_options, std::ptr::null_mut());
    attempt(errptr, (), || {
        let env = env.as_ref().map_or_else(Env::default, |env| env.env.clone());
        let db_path = path(db_path)?;
        let as_rocksdb = |error: Error| match env.fs.children(db_path) {
            Err(listing) if is_no_directory(&listing) => Error::not_found(error.message()),
            _ => error,
        };
        let mut loaded = load_latest_options_from(env.fs.as_ref(), db_path).map_err(as_rocksdb)?;
        loaded.check_names(ignore_unknown_options)?;
        loaded.db.env = env;
        let give_family = |(_, family): &(String, ColumnFamilyOptions)| {
            let mut options = rocksdb_options_t { cf: family.clone(), ..rocksdb_options_t::new() };
            // As in RocksDB, loading succeeds without the client's comparator. Opening then fails,
            // because the MANIFEST names it.
            options.cf.unresolved.retain(|(option, _)| option != "comparator");
            if let Some(cache) = cache.as_ref() {
                options.cf.table.block_cache = Some(cache.cache.clone());
            }
            give(options)
        };
        let options: Vec<_> = loaded.families.iter().map(give_family).collect();
        let given_names: Vec<_> =
            loaded.families.iter().map(|(name, _)| to_c_string(name.as_bytes())).collect();
        put(db_options, give(rocksdb_options_t { db: loaded.db.clone(), ..rocksdb_options_t::new() }));
        put(count, options.len());
        put(names, to_c_array(&given_names));
        put(family_options, to_c_array(&options));
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_load_latest_options_destroy(
    db_options: *mut rocksdb_options_t,
    names: *mut *mut c_char,
    family_options: *mut *mut rocksdb_options_t,
    count: usize,
) {
    destroy(db_options);
    for name in slice(names, count).unwrap_or_default() {
        libc::free((*name).cast());
    }
    for options in slice(family_options, count).unwrap_or_default() {
        destroy(*options);
    }
    libc::free(names.cast());
    libc::free(family_options.cast());
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_db_host_id(options: *mut rocksdb_options_t, id: *const c_char) {
    change(options, |options| {
        options.db.db_host_id = text(id)?.into_owned();
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_get_db_host_id(
    options: *mut rocksdb_options_t,
    len: *mut usize,
) -> *const c_char {
    answer(std::ptr::null(), || Ok(lend(object(options)?.db.db_host_id.as_bytes(), len)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_daily_offpeak_time_utc(
    options: *mut rocksdb_options_t,
    times: *const c_char,
) {
    change(options, |options| {
        options.db.daily_offpeak_time_utc = text(times)?.into_owned();
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_get_daily_offpeak_time_utc(
    options: *mut rocksdb_options_t,
    len: *mut usize,
) -> *const c_char {
    answer(std::ptr::null(), || Ok(lend(object(options)?.db.daily_offpeak_time_utc.as_bytes(), len)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_sst_file_manager(
    options: *mut rocksdb_options_t,
    manager: *mut rocksdb_sst_file_manager_t,
) {
    change(options, |options| {
        options.db.sst_file_manager = manager.as_ref().map(|manager| manager.manager.clone());
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_compaction_readahead_size(
    options: *mut rocksdb_options_t,
    bytes: usize,
) {
    change(options, |options| {
        options.db.compaction_readahead_size = bytes;
        Ok(())
    });
}

unsafe fn paths(paths: *mut *const rocksdb_dbpath_t, count: usize) -> Result<Vec<DbPath>> {
    let path = |path: &*const rocksdb_dbpath_t| object(*path).map(|path| path.path.clone());
    slice(paths, count)?.iter().map(path).collect()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_db_paths(
    options: *mut rocksdb_options_t,
    given: *mut *const rocksdb_dbpath_t,
    count: usize,
) {
    change(options, |options| {
        options.db.db_paths = paths(given, count)?;
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_cf_paths(
    options: *mut rocksdb_options_t,
    given: *mut *const rocksdb_dbpath_t,
    count: usize,
) {
    change(options, |options| {
        options.cf.cf_paths = paths(given, count)?;
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_row_cache(
    options: *mut rocksdb_options_t,
    cache: *mut rocksdb_cache_t,
) {
    change(options, |options| {
        options.db.row_cache = cache.as_ref().map(|cache| cache.cache.clone());
        Ok(())
    });
}
