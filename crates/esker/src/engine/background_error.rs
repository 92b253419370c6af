//! Background errors: their severity, the work they stop, and how they end.
//!
//! Source of the severities: RocksDB `db/error_handler.cc`, simplified to the engine's cases. A
//! failed WAL or MANIFEST write, `Corruption`, and a write that is half in the memtables stop
//! writes. A failed flush stops writes because memtables would pile up. A compaction that failed
//! for lack of space, or by a transient error, stops only compactions, until the cause is gone.
//!
//! [`crate::Db::resume`] lifts an error; an automatic recovery (`instance/auto_resume.rs`) lifts a
//! transient one.
//!
//! | automatic recovery | from, to | by |
//! |---|---|---|
//! | planned | a transient error is put in force, and no recovery is planned | `plan_recovery`, by the thread that puts it in force |
//! | ended | the recovery has succeeded or given up | `recovery_ended`, by its thread |
//!
//! One thread at a time resumes (`resuming`): a caller of `resume`, or the thread of the recovery.

use esker_base::{Error, ErrorKind, Result, Severity, SubCode};

/// The work that met an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ErrorReason {
    Flush,
    Compaction,
    MemTable,
    WalWrite,
}

/// The error that stops work of the database, if there is one. Guarded by the db mutex.
#[derive(Debug, Default)]
pub(crate) struct BackgroundError {
    error: Option<Error>,
    /// The work that has met the error.
    reason: Option<ErrorReason>,
    /// Whether the newest WAL may end in half a record, or lacks a failed write's numbers. Then
    /// nothing may be appended to it or a successor before all earlier writes are in tables.
    pub(crate) wal_damaged: bool,
    /// Whether memtables hold entries of a failed write, under unpublished numbers.
    pub(crate) has_failed_entries: bool,
    /// Whether a recovery is in progress: flushes run, writes are still refused.
    recovering: bool,
    /// Whether a thread is in `resume`.
    pub(crate) resuming: bool,
    /// Whether an automatic recovery runs, or waits for its next attempt.
    recovery_planned: bool,
}

impl BackgroundError {
    /// Records `error` unless a worse error is in force, and returns the error in force. The
    /// severity is the reason's, or the error's own if that is worse. Ends a recovery, unless
    /// `error` is less severe than the error that the recovery treats.
    pub(crate) fn set(&mut self, error: &Error, reason: ErrorReason) -> Error {
        let error = error.clone().with_severity(severity(error, reason).max(error.severity()));
        self.wal_damaged |= matches!(reason, ErrorReason::WalWrite | ErrorReason::MemTable);
        self.has_failed_entries |= reason == ErrorReason::MemTable;
        match &self.error {
            // A lesser error must not let writes in.
            Some(worse) if worse.severity() > error.severity() => return worse.clone(),
            // Of two equally severe errors, the newer one gives the reason of a failed recovery.
            Some(old) if old.severity() == error.severity() && !self.recovering => return old.clone(),
            _ => {}
        }
        self.recovering = false;
        self.reason = Some(reason);
        self.error.insert(error).clone()
    }

    /// Checks that no background error stops writes.
    /// # Errors
    /// The error in force, if it is severe enough to stop writes.
    pub(crate) fn check_writes(&self) -> Result<()> {
        match &self.error {
            Some(e) if e.severity() >= Severity::HardError => Err(e.clone()),
            _ => Ok(()),
        }
    }

    /// Checks that the space limit does not stop writes.
    /// # Errors
    /// The error of the space limit, if it stops writes.
    pub(crate) fn check_space_limit(&self) -> Result<()> {
        match &self.error {
            Some(e) if e.subcode() == SubCode::SpaceLimit => Err(e.clone()),
            _ => Ok(()),
        }
    }

    /// Whether flushes should not start.
    pub(crate) fn stops_flushes(&self) -> bool {
        self.check_writes().is_err() && !self.recovering
    }

    /// Whether compactions should not start. They stop with flushes, and after lesser errors, too.
    pub(crate) fn stops_compactions(&self) -> bool {
        self.error.is_some() && !self.recovering
    }

    /// The error in force.
    pub(crate) fn current(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// The error in force and the work that has met it, if the error is transient.
    pub(crate) fn passing(&self) -> Option<(&Error, ErrorReason)> {
        self.error.as_ref().filter(|error| may_pass(error)).zip(self.reason)
    }

    /// Lets flushes run while writes are still refused.
    pub(crate) fn begin_recovery(&mut self) {
        self.recovering = true;
    }

    /// Whether the caller, which has put an error in force, must start an automatic recovery. If
    /// so, marks the recovery as planned.
    pub(crate) fn plan_recovery(&mut self) -> bool {
        let begins = !self.recovery_planned && self.error.as_ref().is_some_and(may_pass);
        self.recovery_planned |= begins;
        begins
    }

    /// Ends the planned automatic recovery.
    pub(crate) fn recovery_ended(&mut self) {
        self.recovery_planned = false;
    }

    /// Whether an automatic recovery is planned.
    pub(crate) fn is_recovery_planned(&self) -> bool {
        self.recovery_planned
    }

    /// Clears the error, so that the stopped work continues.
    /// # Errors
    /// The error that was put in force meanwhile.
    pub(crate) fn end_recovery(&mut self) -> Result<()> {
        match self.error.take() {
            Some(new) if !self.recovering => Err(self.error.insert(new).clone()),
            _ => {
                (self.wal_damaged, self.has_failed_entries, self.recovering) = (false, false, false);
                Ok(())
            }
        }
    }
}

/// Whether a retry may succeed after this error.
pub(crate) fn may_pass(error: &Error) -> bool {
    error.is_retryable() && error.severity() <= Severity::HardError
}

/// Whether listeners may not clear this error: half a group may be in the memtables, the WAL takes
/// no more records, or a job stopped midway. Only a recovery or a reopen can continue from there.
pub(crate) fn must_be_in_force(error: &Error, reason: ErrorReason) -> bool {
    let is_unknown = matches!(reason, ErrorReason::MemTable | ErrorReason::WalWrite);
    is_unknown || error.severity() == Severity::FatalError
}

fn severity(error: &Error, reason: ErrorReason) -> Severity {
    match (error.kind(), error.subcode(), reason) {
        (ErrorKind::Corruption, ..) => Severity::UnrecoverableError,
        (_, SubCode::IoFenced, _) => Severity::FatalError,
        (_, SubCode::SpaceLimit, _) => Severity::HardError,
        (.., ErrorReason::Compaction) if error.is_retryable() => Severity::SoftError,
        _ => Severity::HardError,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passing_errors_stop_no_more_than_necessary() {
        let no_space = Error::io("full").with_subcode(SubCode::NoSpace).with_retryable(true);
        let passing = Error::io("busy").with_retryable(true);
        for (error, reason, expected) in [
            (&no_space, ErrorReason::Compaction, Severity::SoftError),
            (&no_space, ErrorReason::Flush, Severity::HardError),
            (&no_space, ErrorReason::WalWrite, Severity::HardError),
            (&no_space, ErrorReason::MemTable, Severity::HardError),
            (&passing, ErrorReason::Compaction, Severity::SoftError),
            (&passing, ErrorReason::Flush, Severity::HardError),
            (&Error::io("gone"), ErrorReason::Compaction, Severity::HardError),
            (&passing.clone().with_subcode(SubCode::IoFenced), ErrorReason::Flush, Severity::FatalError),
            (
                &no_space.clone().with_subcode(SubCode::SpaceLimit),
                ErrorReason::Compaction,
                Severity::HardError,
            ),
        ] {
            let mut state = BackgroundError::default();
            assert_eq!(state.set(error, reason).severity(), expected, "{error} in {reason:?}");
            assert_eq!(state.check_writes().is_err(), expected >= Severity::HardError);
            assert!(state.stops_compactions());
            let may_pass = error.is_retryable() && expected <= Severity::HardError;
            assert_eq!((state.plan_recovery(), state.plan_recovery()), (may_pass, false));
        }
    }

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
        // A lesser error changes nothing; the recovery starts its work again afterwards.
        recovering(&mut state);
        let passing = Error::io("try again").with_retryable(true);
        assert_eq!(state.set(&passing, ErrorReason::Compaction).severity(), Severity::HardError);
        assert!(state.end_recovery().is_ok());
        // An equally severe or worse error ends the recovery.
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
