//! Log lines for people. The rolling `LOG` file is `esker_env::InfoLogFile`.
//!
//! Names and order of the levels: RocksDB `include/rocksdb/env.h`.

use std::fmt;

/// The level of a line. A log takes lines of its own level and above; headers always.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub enum InfoLogLevel {
    /// Details for finding a fault of the engine.
    Debug = 0,
    /// Normal events.
    #[default]
    Info = 1,
    /// An operator should look.
    Warn = 2,
    /// Something failed.
    Error = 3,
    /// The database cannot go on.
    Fatal = 4,
    /// Lines at the head of every log file: version, options.
    Header = 5,
}

impl InfoLogLevel {
    /// RocksDB's word for it, as in LOG lines and OPTIONS.
    pub const fn as_str(self) -> &'static str {
        match self {
            InfoLogLevel::Debug => "DEBUG",
            InfoLogLevel::Info => "INFO",
            InfoLogLevel::Warn => "WARN",
            InfoLogLevel::Error => "ERROR",
            InfoLogLevel::Fatal => "FATAL",
            InfoLogLevel::Header => "HEADER",
        }
    }
}

/// A log of lines for people. Never fails: a line that cannot be written is lost.
pub trait InfoLog: Send + Sync {
    /// Writes a line, if `level` is one this log takes.
    fn log(&self, level: InfoLogLevel, args: fmt::Arguments<'_>);
    /// Writes several lines, if `level` is one this log takes. A log that pays for each call can
    /// take them at once.
    fn log_all(&self, level: InfoLogLevel, lines: &[String]) {
        lines.iter().for_each(|line| self.log(level, format_args!("{line}")));
    }
    /// The lowest level that the log takes.
    fn level(&self) -> InfoLogLevel;
}

impl fmt::Debug for dyn InfoLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InfoLog({})", self.level().as_str())
    }
}

/// `info_log!(log, Warn, "file {name} is gone")`: a line of this level, formatted only if the log
/// takes it.
#[macro_export]
macro_rules! info_log {
    ($log:expr, $level:ident, $($arg:tt)+) => {{
        use $crate::logger::InfoLog as _;
        let log = &$log;
        let level = $crate::logger::InfoLogLevel::$level;
        if level >= log.level() {
            log.log(level, ::std::format_args!($($arg)+));
        }
    }};
}

/// A log that keeps nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoInfoLog;

impl InfoLog for NoInfoLog {
    fn log(&self, _level: InfoLogLevel, _args: fmt::Arguments<'_>) {}
    fn level(&self) -> InfoLogLevel {
        InfoLogLevel::Fatal
    }
}
