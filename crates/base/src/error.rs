//! The error type of the engine.
//!
//! [`Error`] is RocksDB's `Status` in Rust: a kind, a sub-code, a severity and a message. The
//! message names the file and offset, or the option, and gives advice. An error is one word wide
//! and cheap to clone: all writers of a failed write group get the same error. Source of the names:
//! RocksDB `include/rocksdb/status.h`.

use std::fmt;
use std::sync::Arc;

/// The result of a fallible call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// RocksDB's status codes. `NotFound` is for files and families: a read of an absent key returns
/// `Ok(None)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file or column family does not exist.
    NotFound,
    /// Stored bytes are damaged or inconsistent.
    Corruption,
    /// The request is valid, but this version cannot serve it.
    NotSupported,
    /// The caller must change the call or an option.
    InvalidArgument,
    /// A call of the operating system failed.
    IoError,
    /// A merge could not be finished.
    MergeInProgress,
    /// The answer needs I/O that the call forbids, or a write would have to wait (`no_slowdown`).
    Incomplete,
    /// The database is closing.
    ShutdownInProgress,
    /// A wait took longer than allowed.
    TimedOut,
    /// The operation was given up.
    Aborted,
    /// Another holder has the resource.
    Busy,
    /// The transaction or lock has expired.
    Expired,
    /// Try again; nothing was done.
    TryAgain,
    /// A compaction would be too large.
    CompactionTooLarge,
    /// The column family was dropped.
    ColumnFamilyDropped,
}

impl ErrorKind {
    /// RocksDB's words for the kind, as `Status::ToString` prints them.
    pub const fn as_str(self) -> &'static str {
        match self {
            ErrorKind::NotFound => "NotFound",
            ErrorKind::Corruption => "Corruption",
            ErrorKind::NotSupported => "Not implemented",
            ErrorKind::InvalidArgument => "Invalid argument",
            ErrorKind::IoError => "IO error",
            ErrorKind::MergeInProgress => "Merge in progress",
            ErrorKind::Incomplete => "Result incomplete",
            ErrorKind::ShutdownInProgress => "Shutdown in progress",
            ErrorKind::TimedOut => "Operation timed out",
            ErrorKind::Aborted => "Operation aborted",
            ErrorKind::Busy => "Resource busy",
            ErrorKind::Expired => "Operation expired",
            ErrorKind::TryAgain => "Operation failed. Try again.",
            ErrorKind::CompactionTooLarge => "Compaction too large",
            ErrorKind::ColumnFamilyDropped => "Column family dropped",
        }
    }
}

/// Finer distinctions within a kind, with RocksDB's names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[non_exhaustive]
pub enum SubCode {
    /// No further distinction.
    #[default]
    None,
    /// The time to wait for a mutex ran out.
    MutexTimeout,
    /// The time to wait for a lock ran out.
    LockTimeout,
    /// The limit on locks was reached.
    LockLimit,
    /// The disk is full.
    NoSpace,
    /// Waiting would close a cycle of waiting transactions.
    Deadlock,
    /// The file no longer exists.
    StaleFile,
    /// A memory limit was reached.
    MemoryLimit,
    /// A space limit was reached.
    SpaceLimit,
    /// The path does not exist.
    PathNotFound,
    /// The merge operator reported a failure.
    MergeOperatorFailed,
    /// Manual compactions are disabled, or the caller cancelled this one.
    ManualCompactionPaused,
    /// Compactions were aborted, and have not been resumed.
    CompactionAborted,
    /// This instance is fenced off: the file system accepts no more of its writes.
    IoFenced,
}

impl SubCode {
    /// RocksDB's words for the sub-code, as `Status::ToString` prints them after the kind.
    pub const fn as_str(self) -> &'static str {
        match self {
            SubCode::None => "",
            SubCode::MutexTimeout => "Timeout Acquiring Mutex",
            SubCode::LockTimeout => "Timeout waiting to lock key",
            SubCode::LockLimit => "Failed to acquire lock due to max_num_locks limit",
            SubCode::NoSpace => "No space left on device",
            SubCode::Deadlock => "Deadlock",
            SubCode::StaleFile => "Stale file handle",
            SubCode::MemoryLimit => "Memory limit reached",
            SubCode::SpaceLimit => "Space limit reached",
            SubCode::PathNotFound => "No such file or directory",
            SubCode::MergeOperatorFailed => "Merge operator failed",
            SubCode::ManualCompactionPaused => "Manual compaction paused",
            SubCode::CompactionAborted => "All compactions aborted",
            SubCode::IoFenced => "IO fenced off",
        }
    }
}

/// The effect of a background error on writes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub enum Severity {
    /// Not a background error.
    #[default]
    NoError,
    /// Writes continue.
    SoftError,
    /// Writes stop until `resume()`.
    HardError,
    /// Writes stop; reopen the database.
    FatalError,
    /// The data is damaged, and reopening does not help.
    UnrecoverableError,
}

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    subcode: SubCode,
    severity: Severity,
    retryable: bool,
    message: String,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// An error of the engine, with its cause, its place and advice for the caller.
///
/// One word wide; clones share the content.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident => $kind:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[cold]
        pub fn $name(message: impl Into<String>) -> Error {
            Error::new(ErrorKind::$kind, message)
        }
    )*};
}

impl Error {
    /// Makes an error of `kind` with `message`.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Arc::new(Inner {
            kind,
            subcode: SubCode::None,
            severity: Severity::NoError,
            retryable: false,
            message: message.into(),
            source: None,
        }))
    }

    constructors! {
        /// A file or column family does not exist.
        not_found => NotFound,
        /// Stored bytes are damaged or inconsistent.
        corruption => Corruption,
        /// The request is valid, but this version cannot serve it.
        not_supported => NotSupported,
        /// The call or an option is wrong.
        invalid_argument => InvalidArgument,
        /// A call of the operating system failed. Prefer [`Error::io_with`], which keeps the cause.
        io => IoError,
        /// The answer needs I/O that the call forbids.
        incomplete => Incomplete,
        /// The database is closing.
        shutdown_in_progress => ShutdownInProgress,
        /// A wait took too long.
        timed_out => TimedOut,
        /// The operation was given up.
        aborted => Aborted,
        /// Another holder has the resource.
        busy => Busy,
        /// Try again.
        try_again => TryAgain,
        /// The column family was dropped.
        column_family_dropped => ColumnFamilyDropped,
    }

    /// Makes an `IoError` from an error of the operating system.
    ///
    /// `what` names the operation and the file ("pread 000012.sst at 4096"). A full disk gives the
    /// sub-code `NoSpace`, a missing path `PathNotFound`. The error is retryable if the call was
    /// interrupted, timed out or met a busy resource. A lack of disk space, descriptors or memory
    /// is retryable too.
    #[cold]
    pub fn io_with(what: impl fmt::Display, source: std::io::Error) -> Error {
        /// `ENFILE` on all supported systems; the standard library has no name for it.
        const ENFILE: i32 = 23;
        const EMFILE: i32 = 24;
        use std::io::ErrorKind as Os;
        let subcode = match source.kind() {
            Os::StorageFull | Os::QuotaExceeded => SubCode::NoSpace,
            Os::NotFound => SubCode::PathNotFound,
            Os::StaleNetworkFileHandle => SubCode::StaleFile,
            _ => SubCode::None,
        };
        let retryable = subcode == SubCode::NoSpace
            || matches!(source.raw_os_error(), Some(ENFILE | EMFILE))
            || matches!(
                source.kind(),
                Os::Interrupted | Os::WouldBlock | Os::TimedOut | Os::ResourceBusy | Os::OutOfMemory
            );
        Error(Arc::new(Inner {
            kind: ErrorKind::IoError,
            subcode,
            severity: Severity::NoError,
            retryable,
            message: format!("{what}: {source}"),
            source: Some(Arc::new(source)),
        }))
    }

    fn edit(self, change: impl FnOnce(&mut Inner)) -> Error {
        let mut inner = Inner {
            kind: self.0.kind,
            subcode: self.0.subcode,
            severity: self.0.severity,
            retryable: self.0.retryable,
            message: self.0.message.clone(),
            source: self.0.source.clone(),
        };
        change(&mut inner);
        Error(Arc::new(inner))
    }

    /// The same error with another sub-code.
    #[must_use]
    pub fn with_subcode(self, subcode: SubCode) -> Error {
        self.edit(|e| e.subcode = subcode)
    }

    /// The same error with another severity.
    #[must_use]
    pub fn with_severity(self, severity: Severity) -> Error {
        self.edit(|e| e.severity = severity)
    }

    /// The same error, marked as retryable or not.
    #[must_use]
    pub fn with_retryable(self, retryable: bool) -> Error {
        self.edit(|e| e.retryable = retryable)
    }

    /// The same error with `place` (a file, an offset, an option) before its message.
    #[must_use]
    pub fn at(self, place: impl fmt::Display) -> Error {
        self.edit(|e| e.message = format!("{place}: {}", e.message))
    }

    /// The same error with advice for the caller behind its message.
    #[must_use]
    pub fn advising(self, advice: impl fmt::Display) -> Error {
        self.edit(|e| e.message = format!("{}; {advice}", e.message))
    }

    /// RocksDB's status code.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The sub-code.
    pub fn subcode(&self) -> SubCode {
        self.0.subcode
    }

    /// The severity of an error of background work.
    pub fn severity(&self) -> Severity {
        self.0.severity
    }

    /// Whether the same call may succeed later without a change by the caller.
    pub fn is_retryable(&self) -> bool {
        self.0.retryable
    }

    /// The message, without kind and sub-code.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Shorthand for `kind() == ErrorKind::Corruption`.
    pub fn is_corruption(&self) -> bool {
        self.0.kind == ErrorKind::Corruption
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.kind.as_str())?;
        let parts = [self.0.subcode.as_str(), self.0.message.as_str()];
        parts.into_iter().filter(|part| !part.is_empty()).try_for_each(|part| write!(f, ": {part}"))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        match (self.0.subcode, self.0.severity) {
            (SubCode::None, Severity::NoError) => Ok(()),
            (subcode, Severity::NoError) => write!(f, " [{subcode:?}]"),
            (SubCode::None, severity) => write!(f, " [{severity:?}]"),
            (subcode, severity) => write!(f, " [{subcode:?}, {severity:?}]"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|s| s as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_a_sub_code_and_a_severity_only_if_there_are_some() {
        let error = Error::busy("b");
        assert_eq!(format!("{error:?}"), error.to_string());
        let with_both = error.clone().with_subcode(SubCode::Deadlock).with_severity(Severity::HardError);
        assert_eq!(format!("{with_both:?}"), "Resource busy: Deadlock: b [Deadlock, HardError]");
        let with_severity = error.clone().with_severity(Severity::SoftError);
        assert_eq!(format!("{with_severity:?}"), format!("{error} [SoftError]"));
        let with_subcode = error.clone().with_subcode(SubCode::LockTimeout);
        assert_eq!(
            format!("{with_subcode:?}"),
            "Resource busy: Timeout waiting to lock key: b [LockTimeout]"
        );
    }

    #[test]
    fn the_text_of_a_sub_code_stands_before_the_message() {
        let failed = Error::corruption("on 'k'").with_subcode(SubCode::MergeOperatorFailed);
        assert_eq!(failed.to_string(), "Corruption: Merge operator failed: on 'k'");
        let timeout = Error::timed_out("").with_subcode(SubCode::LockTimeout);
        assert_eq!(timeout.to_string(), "Operation timed out: Timeout waiting to lock key");
        assert_eq!(Error::timed_out("").to_string(), "Operation timed out");
    }

    #[test]
    fn a_lack_of_descriptors_is_retryable() {
        // ENFILE: of the system. EMFILE: of the process.
        for code in [23, 24] {
            let error = Error::io_with("open", std::io::Error::from_raw_os_error(code));
            assert_eq!((error.kind(), error.subcode()), (ErrorKind::IoError, SubCode::None), "{error}");
            assert!(error.is_retryable(), "{error}");
        }
        for code in [22, 25] {
            let error = Error::io_with("open", std::io::Error::from_raw_os_error(code));
            assert!(!error.is_retryable(), "{error}");
        }
    }
}
