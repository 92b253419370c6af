//! Environments, logs, rate limiters and write buffer managers.

use crate::cache::rocksdb_cache_t;
use crate::memory::{answer, attempt, destroy, give, object, path, text_or_none};
use crate::write_buffer_policy::give_manager;
use esker::DbPath;
use esker::options::{
    Env, InfoLog, InfoLogLevel, Priority, RateLimiter, RateLimiterMode, SstFileManager,
    SstFileManagerOptions, WriteBufferFlushPolicy, WriteBufferManager,
};
use libc::{c_char, c_int, c_uint, c_void};
use std::fmt;
use std::sync::Arc;

/// An environment: files, clock and threads.
#[derive(Debug)]
pub struct rocksdb_env_t {
    /// The environment.
    pub(crate) env: Env,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_create_default_env() -> *mut rocksdb_env_t {
    give(rocksdb_env_t { env: Env::default() })
}

/// An environment with files in memory, which vanish with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_create_mem_env() -> *mut rocksdb_env_t {
    give(rocksdb_env_t { env: Env::with_fs(Arc::new(esker::options::MemFs::new())) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_env_destroy(env: *mut rocksdb_env_t) {
    destroy(env);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_create_dir_if_missing(
    env: *mut rocksdb_env_t,
    dir: *const c_char,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || object(env)?.env.fs.create_dir_if_missing(path(dir)?));
}

/// A log for human readers.
pub struct rocksdb_logger_t {
    /// The log.
    pub(crate) logger: Arc<dyn InfoLog>,
}

struct StderrLog {
    level: InfoLogLevel,
    prefix: String,
}

impl InfoLog for StderrLog {
    #[allow(clippy::print_stderr, reason = "this log writes to stderr")]
    fn log(&self, _level: InfoLogLevel, args: fmt::Arguments<'_>) {
        eprintln!("{}{args}", self.prefix);
    }
    fn level(&self) -> InfoLogLevel {
        self.level
    }
}

/// A log that passes lines to a function of the client.
struct CallbackLog {
    level: InfoLogLevel,
    callback: unsafe extern "C" fn(*mut c_void, c_uint, *mut c_char, usize),
    state: *mut c_void,
}

unsafe impl Send for CallbackLog {}
unsafe impl Sync for CallbackLog {}

impl InfoLog for CallbackLog {
    fn log(&self, level: InfoLogLevel, args: fmt::Arguments<'_>) {
        let mut line = args.to_string();
        let len = line.len();
        line.push('\0');
        unsafe { (self.callback)(self.state, level as c_uint, line.as_mut_ptr().cast(), len) };
    }
    fn level(&self) -> InfoLogLevel {
        self.level
    }
}

fn log_level(level: c_int) -> InfoLogLevel {
    use crate::field::Code;
    InfoLogLevel::of(level.into()).unwrap_or(InfoLogLevel::Info)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_logger_create_stderr_logger(
    level: c_int,
    prefix: *const c_char,
) -> *mut rocksdb_logger_t {
    let prefix = text_or_none(prefix).unwrap_or_default().into_owned();
    give(rocksdb_logger_t { logger: Arc::new(StderrLog { level: log_level(level), prefix }) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_logger_create_callback_logger(
    level: c_int,
    callback: Option<unsafe extern "C" fn(*mut c_void, c_uint, *mut c_char, usize)>,
    state: *mut c_void,
) -> *mut rocksdb_logger_t {
    let Some(callback) = callback else { return std::ptr::null_mut() };
    give(rocksdb_logger_t { logger: Arc::new(CallbackLog { level: log_level(level), callback, state }) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_logger_destroy(logger: *mut rocksdb_logger_t) {
    destroy(logger);
}

/// Limits bytes per second.
pub struct rocksdb_ratelimiter_t {
    /// The limiter.
    pub(crate) limiter: Arc<RateLimiter>,
}

/// Makes a limiter. `mode` says what it limits: 0 reads, 1 writes, 2 both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_ratelimiter_create_with_mode(
    rate: i64,
    refill_period_us: i64,
    fairness: i32,
    mode: c_int,
    auto_tuned: bool,
) -> *mut rocksdb_ratelimiter_t {
    let mode = match mode {
        0 => RateLimiterMode::ReadsOnly,
        2 => RateLimiterMode::AllIo,
        _ => RateLimiterMode::WritesOnly,
    };
    let make = if auto_tuned { RateLimiter::auto_tuned } else { RateLimiter::new };
    let limiter = make(
        rate.max(1).unsigned_abs(),
        refill_period_us.max(1).unsigned_abs(),
        fairness.max(1).unsigned_abs(),
        mode,
    );
    give(rocksdb_ratelimiter_t { limiter: Arc::new(limiter) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_ratelimiter_create(
    rate: i64,
    refill_period_us: i64,
    fairness: i32,
) -> *mut rocksdb_ratelimiter_t {
    rocksdb_ratelimiter_create_with_mode(rate, refill_period_us, fairness, 1, false)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_ratelimiter_destroy(limiter: *mut rocksdb_ratelimiter_t) {
    destroy(limiter);
}

/// Limits the memory of the memtables of several databases.
#[derive(Debug)]
pub struct rocksdb_write_buffer_manager_t {
    /// The manager.
    pub(crate) manager: Arc<WriteBufferManager>,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_write_buffer_manager_create(
    bytes: usize,
    allow_stall: bool,
) -> *mut rocksdb_write_buffer_manager_t {
    give_manager(WriteBufferManager::new(bytes, allow_stall), WriteBufferFlushPolicy::Oldest)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_write_buffer_manager_create_with_cache(
    bytes: usize,
    cache: *const rocksdb_cache_t,
    allow_stall: bool,
) -> *mut rocksdb_write_buffer_manager_t {
    answer(std::ptr::null_mut(), || {
        let manager = WriteBufferManager::with_cache(bytes, &object(cache)?.cache, allow_stall);
        Ok(give_manager(manager, WriteBufferFlushPolicy::Oldest))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_write_buffer_manager_destroy(manager: *mut rocksdb_write_buffer_manager_t) {
    destroy(manager);
}

unsafe fn of_manager<T: Default>(
    manager: *mut rocksdb_write_buffer_manager_t,
    figure: impl FnOnce(&WriteBufferManager) -> T,
) -> T {
    answer(T::default(), || Ok(figure(&object(manager)?.manager)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_write_buffer_manager_enabled(
    manager: *mut rocksdb_write_buffer_manager_t,
) -> bool {
    of_manager(manager, |manager| manager.buffer_size() > 0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_write_buffer_manager_cost_to_cache(
    manager: *mut rocksdb_write_buffer_manager_t,
) -> bool {
    of_manager(manager, WriteBufferManager::cost_to_cache)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_write_buffer_manager_memory_usage(
    manager: *mut rocksdb_write_buffer_manager_t,
) -> usize {
    of_manager(manager, WriteBufferManager::memory_usage)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_write_buffer_manager_mutable_memtable_memory_usage(
    manager: *mut rocksdb_write_buffer_manager_t,
) -> usize {
    of_manager(manager, WriteBufferManager::mutable_memtable_memory_usage)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_write_buffer_manager_dummy_entries_in_cache_usage(
    manager: *mut rocksdb_write_buffer_manager_t,
) -> usize {
    of_manager(manager, WriteBufferManager::dummy_entries_in_cache_usage)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_write_buffer_manager_buffer_size(
    manager: *mut rocksdb_write_buffer_manager_t,
) -> usize {
    of_manager(manager, WriteBufferManager::buffer_size)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_write_buffer_manager_set_buffer_size(
    manager: *mut rocksdb_write_buffer_manager_t,
    bytes: usize,
) {
    of_manager(manager, |manager| manager.set_buffer_size(bytes));
}

/// Tracks and limits the space of tables.
#[derive(Debug)]
pub struct rocksdb_sst_file_manager_t {
    /// The manager.
    pub(crate) manager: Arc<SstFileManager>,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_sst_file_manager_create(
    env: *mut rocksdb_env_t,
) -> *mut rocksdb_sst_file_manager_t {
    let env = env.as_ref().map_or_else(Env::default, |env| env.env.clone());
    let manager = SstFileManager::new(env.clock, SstFileManagerOptions::default());
    give(rocksdb_sst_file_manager_t { manager: Arc::new(manager) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_sst_file_manager_destroy(manager: *mut rocksdb_sst_file_manager_t) {
    destroy(manager);
}

/// Defines functions of a manager.
macro_rules! of_sst_file_managers {
    ($(fn $name:ident($($argument:ident: $ty:ty)?) -> $result:ty, |$manager:ident| $call:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(manager: *mut rocksdb_sst_file_manager_t $(, $argument: $ty)?) -> $result {
            answer(Default::default(), || {
                let $manager = &object(manager)?.manager;
                Ok($call)
            })
        }
    )*};
}

of_sst_file_managers! {
    fn rocksdb_sst_file_manager_set_max_allowed_space_usage(bytes: u64) -> (),
        |manager| manager.set_max_allowed_space_usage(bytes);
    fn rocksdb_sst_file_manager_set_compaction_buffer_size(bytes: u64) -> (),
        |manager| manager.set_compaction_buffer_size(bytes);
    fn rocksdb_sst_file_manager_is_max_allowed_space_reached() -> bool, |manager| manager.is_max_allowed_space_reached();
    fn rocksdb_sst_file_manager_is_max_allowed_space_reached_including_compactions() -> bool,
        |manager| manager.is_max_allowed_space_reached_including_compactions();
    fn rocksdb_sst_file_manager_get_total_size() -> u64, |manager| manager.total_size();
    fn rocksdb_sst_file_manager_get_delete_rate_bytes_per_second() -> i64,
        |manager| i64::try_from(manager.delete_rate_bytes_per_second()).unwrap_or(i64::MAX);
    fn rocksdb_sst_file_manager_set_delete_rate_bytes_per_second(rate: i64) -> (),
        |manager| manager.set_delete_rate_bytes_per_second(u64::try_from(rate).unwrap_or(0));
    fn rocksdb_sst_file_manager_get_max_trash_db_ratio() -> f64, |manager| manager.max_trash_db_ratio();
    fn rocksdb_sst_file_manager_set_max_trash_db_ratio(ratio: f64) -> (),
        |manager| manager.set_max_trash_db_ratio(ratio);
    fn rocksdb_sst_file_manager_get_total_trash_size() -> u64, |manager| manager.total_trash_size();
}

/// Makes a limiter as [`rocksdb_ratelimiter_create`] does; its rate follows the demand.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_ratelimiter_create_auto_tuned(
    rate: i64,
    refill_period_us: i64,
    fairness: i32,
) -> *mut rocksdb_ratelimiter_t {
    rocksdb_ratelimiter_create_with_mode(rate, refill_period_us, fairness, 1, true)
}

unsafe fn set_threads(env: *mut rocksdb_env_t, threads: c_int, priority: Priority) {
    answer((), || {
        let threads = usize::try_from(threads).unwrap_or(0);
        object(env)?.env.pool.set_background_threads(threads, priority);
        Ok(())
    });
}

unsafe fn threads(env: *mut rocksdb_env_t, priority: Priority) -> c_int {
    answer(
        0,
        || Ok(c_int::try_from(object(env)?.env.pool.background_threads(priority)).unwrap_or(c_int::MAX)),
    )
}

/// Defines setter and getter of a pool's threads.
macro_rules! thread_counts {
    ($(fn $set:ident, fn $get:ident: $priority:ident;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $set(env: *mut rocksdb_env_t, threads: c_int) {
            set_threads(env, threads, Priority::$priority);
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get(env: *mut rocksdb_env_t) -> c_int {
            threads(env, Priority::$priority)
        }
    )*};
}

thread_counts! {
    fn rocksdb_env_set_background_threads, fn rocksdb_env_get_background_threads: Low;
    fn rocksdb_env_set_low_priority_background_threads, fn rocksdb_env_get_low_priority_background_threads: Low;
    fn rocksdb_env_set_high_priority_background_threads, fn rocksdb_env_get_high_priority_background_threads: High;
    fn rocksdb_env_set_bottom_priority_background_threads, fn rocksdb_env_get_bottom_priority_background_threads: Bottom;
}

/// Does nothing: idle threads end with the environment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_env_join_all_threads(_env: *mut rocksdb_env_t) {}

/// Defines hints to the operating system. They have no effect.
macro_rules! hints {
    ($(fn $name:ident;)*) => {$(
        #[doc = "A hint without effect."]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(_env: *mut rocksdb_env_t) {}
    )*};
}

hints! {
    fn rocksdb_env_lower_thread_pool_io_priority;
    fn rocksdb_env_lower_high_priority_thread_pool_io_priority;
    fn rocksdb_env_lower_thread_pool_cpu_priority;
    fn rocksdb_env_lower_high_priority_thread_pool_cpu_priority;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_write_buffer_manager_set_allow_stall(
    manager: *mut rocksdb_write_buffer_manager_t,
    allow_stall: bool,
) {
    of_manager(manager, |manager| manager.set_allow_stall(allow_stall));
}

/// A directory for tables, and the number of bytes that it may hold.
#[derive(Clone, Debug)]
pub struct rocksdb_dbpath_t {
    pub(crate) path: DbPath,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_dbpath_create(
    dir: *const c_char,
    target_size: u64,
) -> *mut rocksdb_dbpath_t {
    answer(std::ptr::null_mut(), || Ok(give(rocksdb_dbpath_t { path: DbPath::new(path(dir)?, target_size) })))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_dbpath_destroy(path: *mut rocksdb_dbpath_t) {
    destroy(path);
}
