//! Log lines for human readers. The rolling `LOG` file is `esker_env::InfoLogFile`.
//!
//! Names and order of the levels: RocksDB `include/rocksdb/env.h`.

use std::fmt;

/// The level of a line. A log accepts lines of its own level and above, and all headers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub enum InfoLogLevel {
    /// Details for debugging the engine.
    Debug = 0,
    /// Normal events.
    #[default]
    Info = 1,
    /// An event that an operator should check.
    Warn = 2,
    /// Something failed.
    Error = 3,
    /// The database cannot continue.
    Fatal = 4,
    /// Lines at the head of every log file: version, options.
    Header = 5,
}

impl InfoLogLevel {
    /// RocksDB's name of the level, as in lines of the LOG.
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

/// A log for human readers. Never fails: a line that cannot be written is lost.
pub trait InfoLog: Send + Sync {
    /// Writes a line, if the log accepts lines of `level`.
    fn log(&self, level: InfoLogLevel, args: fmt::Arguments<'_>);
    /// Writes several lines, if the log accepts lines of `level`. An implementation may write them
    /// with one call of the file system.
    fn log_all(&self, level: InfoLogLevel, lines: &[String]) {
        lines.iter().for_each(|line| self.log(level, format_args!("{line}")));
    }
    /// The lowest level that the log accepts.
    fn level(&self) -> InfoLogLevel;
}

impl fmt::Debug for dyn InfoLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InfoLog({})", self.level().as_str())
    }
}

/// `info_log!(log, Warn, "file {name} is gone")`: writes a line of level `Warn`. Formats the line
/// only if the log accepts it.
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
