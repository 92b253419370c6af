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
    /// error itself if that is worse. Ends a recovery, unless it is a lesser one than that which is recovered from.
    pub(crate) fn set(&mut self, error: &Error, reason: ErrorReason) -> Error {
        let error = error.clone().with_severity(severity(error, reason).max(error.severity()));
        if reason == ErrorReason::WalWrite {
            self.wal_damaged = true;
        }
        match &self.error {
            // It must not let writes in.
            Some(worse) if worse.severity() > error.severity() => return worse.clone(),
            // The newer of two equal ones tells why a recovery failed.
            Some(old) if old.severity() == error.severity() && !self.recovering => return old.clone(),
            _ => {}
        }
        self.recovering = false;
        self.error.insert(error).clone()
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

    /// What the error stopped may go on: it is forgotten.
    /// # Errors
    /// A new one has come meanwhile, and is in force.
    pub(crate) fn end_recovery(&mut self) -> Result<()> {
        match self.error.take() {
            Some(new) if !self.recovering => Err(self.error.insert(new).clone()),
            _ => {
                *self = BackgroundError::default();
                Ok(())
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_does_not_forget_what_went_wrong_meanwhile() {
        let mut state = BackgroundError::default();
        let full = Error::io("no space");
        let recovering = |state: &mut BackgroundError| {
            state.set(&full, ErrorReason::Flush);
            state.begin_recovery();
            assert!(!state.stops_flushes() && state.check_writes().is_err());
        };
        recovering(&mut state);
        assert!(state.end_recovery().is_ok() && state.current().is_none());
        // A lesser error changes nothing; its work is begun again afterwards.
        recovering(&mut state);
        let passing = Error::io("try again").with_retryable(true);
        assert_eq!(state.set(&passing, ErrorReason::Compaction).severity(), Severity::HardError);
        assert!(state.end_recovery().is_ok());
        // Another of its kind, or a worse one, ends it.
        for (error, severity) in [
            (Error::io("again"), Severity::HardError),
            (Error::corruption("bad"), Severity::UnrecoverableError),
        ] {
            recovering(&mut state);
            state.set(&error, ErrorReason::Compaction);
            assert_eq!(state.end_recovery().unwrap_err().to_string(), error.to_string());
            assert_eq!(state.current().map(Error::severity), Some(severity));
            assert!(state.stops_flushes());
            state = BackgroundError::default();
        }
    }
}
