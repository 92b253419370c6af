//! What happens after an error that no caller is waiting for: how bad it is, what stops, how it ends.
//!
//! Source of the severities: RocksDB `db/error_handler.cc`, simplified to what the engine does: a failed WAL or
//! MANIFEST write and `Corruption` stop writes; a failed flush stops writes because memtables would pile up; a failed
//! compaction that ran out of space stops writes, one that hit a passing error only stops compactions until `resume`.

use esker_base::{Error, ErrorKind, Result, Severity, SubCode};

/// Which work met the error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ErrorReason {
    Flush,
    Compaction,
    MemTable,
    WalWrite,
}

/// The error that keeps the database from writing, if there is one. Guarded by the db mutex.
#[derive(Debug, Default)]
pub(crate) struct BackgroundError {
    error: Option<Error>,
    /// The newest WAL may end in half a record: nothing may be appended to it or to a successor before everything
    /// written so far is in tables.
    pub(crate) wal_damaged: bool,
    /// `resume` is at work: flushes run, writes still wait outside.
    recovering: bool,
}

impl BackgroundError {
    /// Records `error` unless a worse one is there, and gives back what is in force now. How bad it is, its reason says, or the
    /// error itself if that is worse. Ends a recovery: its cause is not
    /// gone, or there is a new one.
    pub(crate) fn set(&mut self, error: &Error, reason: ErrorReason) -> Error {
        let error = error.clone().with_severity(severity(error, reason).max(error.severity()));
        if reason == ErrorReason::WalWrite {
            self.wal_damaged = true;
        }
        let recovering = std::mem::take(&mut self.recovering);
        let old = self.error.as_ref().map(Error::severity);
        // The newer of two equal ones tells why a recovery failed. A lesser one must not let writes in.
        if old.is_none_or(|old| old < error.severity() || recovering && old == error.severity()) {
            self.error = Some(error);
        }
        self.error.clone().expect("set above")
    }

    /// # Errors
    /// The error in force, if it is bad enough to stop writes.
    pub(crate) fn check_writes(&self) -> Result<()> {
        match &self.error {
            Some(e) if e.severity() >= Severity::HardError => Err(e.clone()),
            _ => Ok(()),
        }
    }

    /// Whether flushes should not start.
    pub(crate) fn stops_flushes(&self) -> bool {
        self.check_writes().is_err() && !self.recovering
    }

    /// Whether compactions should not start: whenever flushes should not, and after lesser errors, too.
    pub(crate) fn stops_compactions(&self) -> bool {
        self.error.is_some() && !self.recovering
    }

    /// The error in force.
    pub(crate) fn current(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// Lets flushes run while writes are still refused.
    pub(crate) fn begin_recovery(&mut self) {
        self.recovering = true;
    }

    /// Forgets the error: what it stopped may go on.
    pub(crate) fn clear(&mut self) {
        self.error = None;
        self.wal_damaged = false;
        self.recovering = false;
    }
}

fn severity(error: &Error, reason: ErrorReason) -> Severity {
    if error.kind() == ErrorKind::Corruption {
        return Severity::UnrecoverableError;
    }
    match reason {
        ErrorReason::Compaction if error.is_retryable() && error.subcode() != SubCode::NoSpace => {
            Severity::SoftError
        }
        ErrorReason::MemTable => Severity::FatalError,
        _ => Severity::HardError,
    }
}
