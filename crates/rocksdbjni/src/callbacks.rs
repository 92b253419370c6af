//! Comparators and loggers that are written in Java.
//!
//! In: Java objects. Out: Esker's traits, whose methods call the Java object on whichever thread
//! needs it. The creation of a comparator or logger looks up its class and methods once. A thread
//! of the engine cannot look them up, because it sees the system's classes only.
//!
//! No caller can take an exception of a callback, so it is printed and forgotten, as in RocksJava.

use crate::border::NativeResult;
use crate::handle::{NativeHandle, give};
use crate::jni::{Global, JavaEnv, Method, Reference, attached, byte, int, reference};
use crate::objects::{Comparators, LoggerObject};
use crate::options::{AllSettings, DbSettings};
use esker::comparator::Comparator;
use esker::options::{InfoLog, InfoLogLevel};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI8, Ordering as MemoryOrder};

/// Calls Java on this thread, with room for eight local references. `None`: Java has thrown an
/// exception, which is printed, or the JVM refuses this thread.
pub(crate) fn ask<T>(body: impl FnOnce(&JavaEnv<'_>) -> NativeResult<T>) -> Option<T> {
    ask_with(8, body)
}

/// As [`ask`], with room for `count` local references.
pub(crate) fn ask_with<T>(count: i32, body: impl FnOnce(&JavaEnv<'_>) -> NativeResult<T>) -> Option<T> {
    let answer = attached(|env| {
        let answer = env.with_frame(count, || body(env));
        env.describe_and_clear();
        answer
    });
    answer.ok()
}

/// `ComparatorOptions`. Only the kind of buffers has an effect: there are no reused buffers.
#[derive(Clone, Debug)]
pub(crate) struct ComparatorOptions {
    pub(crate) use_direct_buffer: bool,
}

impl Default for ComparatorOptions {
    fn default() -> ComparatorOptions {
        ComparatorOptions { use_direct_buffer: true }
    }
}

/// An `AbstractComparator`.
struct JavaComparator {
    name: String,
    object: Global,
    bridge: Global,
    compare: Method,
    /// `ByteBuffer` and its method `wrap`, for comparators that want buffers with an array.
    wrap: Option<(Global, Method)>,
}

impl JavaComparator {
    fn buffer(&self, env: &JavaEnv<'_>, bytes: &[u8]) -> NativeResult<Reference> {
        match &self.wrap {
            None => env.new_direct(bytes),
            Some((class, wrap)) => {
                let array = env.new_bytes(bytes)?;
                env.call_static_object(class.get(), *wrap, &[reference(array)])
            }
        }
    }

    fn call(&self, env: &JavaEnv<'_>, a: &[u8], b: &[u8]) -> NativeResult<i32> {
        let (a, b) = (self.buffer(env, a)?, self.buffer(env, b)?);
        // -1: the whole buffer is the key.
        let arguments = [reference(self.object.get()), reference(a), int(-1), reference(b), int(-1)];
        env.call_static_int(self.bridge.get(), self.compare, &arguments)
    }
}

impl Comparator for JavaComparator {
    fn name(&self) -> &str {
        &self.name
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        ask(|env| self.call(env, a, b)).map_or(Ordering::Equal, |order| order.cmp(&0))
    }
}

/// `AbstractComparator.createNewComparator`.
pub(crate) fn new_comparator(
    env: &JavaEnv<'_>,
    object: Reference,
    options: NativeHandle<ComparatorOptions>,
) -> NativeResult<i64> {
    let uses_direct_buffers = options.find().is_none_or(|options| options.use_direct_buffer);
    let class = env.class_of(object)?;
    let name = env.method(class, "name", "()Ljava/lang/String;")?;
    let name = env.text(env.call_object(object, name, &[])?)?;
    let bridge = env.class("org/rocksdb/AbstractComparatorJniBridge")?;
    let descriptor = "(Lorg/rocksdb/AbstractComparator;Ljava/nio/ByteBuffer;ILjava/nio/ByteBuffer;I)I";
    let compare = env.static_method(bridge, "compareInternal", descriptor)?;
    let wrap = if uses_direct_buffers {
        None
    } else {
        let buffer = env.class("java/nio/ByteBuffer")?;
        let wrap = env.static_method(buffer, "wrap", "([B)Ljava/nio/ByteBuffer;")?;
        Some((env.global(buffer)?, wrap))
    };
    let (object, bridge) = (env.global(object)?, env.global(bridge)?);
    let comparator = Arc::new(JavaComparator { name, object, bridge, compare, wrap });
    Ok(give(JavaCallback::Comparator(Comparators { comparator, uses_direct_buffers })))
}

/// Objects of `RocksCallbackObject`. The same native frees all kinds of them.
#[derive(Debug)]
pub(crate) enum JavaCallback {
    Comparator(Comparators),
}

pub(crate) fn uses_direct_buffers(callback: NativeHandle<JavaCallback>) -> NativeResult<bool> {
    let JavaCallback::Comparator(comparators) = callback.get()?;
    Ok(comparators.uses_direct_buffers)
}

/// The level of a log, which Java may change.
#[derive(Clone)]
pub(crate) struct LogLevel(Arc<AtomicI8>);

impl LogLevel {
    fn new(level: i8) -> LogLevel {
        LogLevel(Arc::new(AtomicI8::new(level)))
    }

    fn get(&self) -> InfoLogLevel {
        let level = self.0.load(MemoryOrder::Relaxed).into();
        <InfoLogLevel as esker_capi::field::Code>::of(level).unwrap_or(InfoLogLevel::Info)
    }
}

/// A `Logger`.
struct JavaLog {
    object: Global,
    log: Method,
    levels: Global,
    level_of: Method,
    level: LogLevel,
}

impl InfoLog for JavaLog {
    fn log(&self, level: InfoLogLevel, args: fmt::Arguments<'_>) {
        let Some(level) = level_of_line(level, self.level()) else { return };
        let line = args.to_string();
        // A line that Java refuses is lost, like one that a full disk refuses.
        ask(|env| {
            let level = [byte(level as i8)];
            let level = env.call_static_object(self.levels.get(), self.level_of, &level)?;
            let line = env.new_text(&line)?;
            env.call_void(self.object.get(), self.log, &[reference(level), reference(line)])
        });
    }

    fn level(&self) -> InfoLogLevel {
        self.level.get()
    }
}

/// A logger. `level` is RocksJava's number of its level.
pub(crate) fn new_logger(env: &JavaEnv<'_>, object: Reference, level: i8) -> NativeResult<i64> {
    let descriptor = "(Lorg/rocksdb/InfoLogLevel;Ljava/lang/String;)V";
    let log = env.method(env.class_of(object)?, "log", descriptor)?;
    let levels = env.class("org/rocksdb/InfoLogLevel")?;
    let level_of = env.static_method(levels, "getInfoLogLevel", "(B)Lorg/rocksdb/InfoLogLevel;")?;
    let (object, levels, level) = (env.global(object)?, env.global(levels)?, LogLevel::new(level));
    let log = Arc::new(JavaLog { object, log, levels, level_of, level: level.clone() });
    Ok(give(LoggerObject { log, level }))
}

/// A logger with the `info_log_level` of `options`.
pub(crate) fn new_logger_of_both(
    env: &JavaEnv<'_>,
    object: Reference,
    options: NativeHandle<AllSettings>,
) -> NativeResult<i64> {
    new_logger(env, object, options.get()?.db.info_log_level as i8)
}

pub(crate) fn new_logger_of_db(
    env: &JavaEnv<'_>,
    object: Reference,
    options: NativeHandle<DbSettings>,
) -> NativeResult<i64> {
    new_logger(env, object, options.get()?.db.info_log_level as i8)
}

/// A `StdErrLogger`.
struct StderrLog {
    prefix: String,
    level: LogLevel,
}

impl InfoLog for StderrLog {
    #[allow(clippy::print_stderr, reason = "this log writes to stderr")]
    fn log(&self, level: InfoLogLevel, args: fmt::Arguments<'_>) {
        let mark = match level_of_line(level, self.level()) {
            None => return,
            Some(InfoLogLevel::Debug) => "[DEBUG] ",
            Some(InfoLogLevel::Warn) => "[WARN] ",
            Some(InfoLogLevel::Error) => "[ERROR] ",
            Some(InfoLogLevel::Fatal) => "[FATAL] ",
            Some(InfoLogLevel::Info | InfoLogLevel::Header) => "",
        };
        eprintln!("{}{mark}{args}", self.prefix);
    }

    fn level(&self) -> InfoLogLevel {
        self.level.get()
    }
}

/// The level with which a log gets a line; `None` if `least` leaves the line out. As in RocksDB,
/// level `Header` counts as `Info`.
pub(crate) fn level_of_line(level: InfoLogLevel, least: InfoLogLevel) -> Option<InfoLogLevel> {
    let level = if level == InfoLogLevel::Header { InfoLogLevel::Info } else { level };
    (level >= least).then_some(level)
}

pub(crate) fn new_stderr_logger(env: &JavaEnv<'_>, level: i8, prefix: Reference) -> NativeResult<i64> {
    let prefix = if prefix.is_null() { String::new() } else { env.text(prefix)? };
    let level = LogLevel::new(level);
    Ok(give(LoggerObject { log: Arc::new(StderrLog { prefix, level: level.clone() }), level }))
}

pub(crate) fn set_log_level(logger: NativeHandle<LoggerObject>, level: i8) -> NativeResult<()> {
    logger.get()?.level.0.store(level, MemoryOrder::Relaxed);
    Ok(())
}

pub(crate) fn log_level(logger: NativeHandle<LoggerObject>) -> NativeResult<i8> {
    Ok(logger.get()?.level.0.load(MemoryOrder::Relaxed))
}
