//! A round on a failing disk: the errors that may occur, and the state afterwards.
//!
//! In: operations on a disk that is slow, fails, is full or reads wrong bytes; calls of `resume()`
//! in between. Out: each answer is right or an error that the disk explains. A severe background
//! error makes the database refuse writes. When the faults have ended, `resume()` lets everything
//! continue, or the database must be opened again.
//!
//! An acknowledged write is never lost. A refused write is not visible. A crash may bring it back,
//! unless a recovery came between, or an earlier error refused it. A recovery ends with the data in
//! tables, and with a MANIFEST that needs no older WAL.
//!
//! If the database resumes by itself, a refused write leaves an error in force. Once that error is
//! gone, a recovery has come between; each operation checks this first. A crash may leave some of
//! the writes that may come back, in any order, and all combinations are tried. So the faults end
//! once there are `MOST_IN_DOUBT` of them.

use super::journal::{Journal, JournalWrites};
use super::transactions::TransactionStage;
use super::{Checked, Done, Event, ModelWrite, Round, RoundStop, refused};
use crate::crash::is_of_the_disk;
use crate::model::settings::ModelSettings;
use esker::{Env, Error, Severity};

/// Maximum number of calls of `resume`. After each, a job from the time of the faults may cause
/// another error.
const ATTEMPTS: usize = 20;
/// The faults end once this number of refused writes may come back. Four writes can come back in
/// 65 ways.
const MOST_IN_DOUBT: usize = 4;

/// The effects of the faults so far.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    /// Whether an error that refuses writes was in force before this operation.
    refuses: bool,
    /// The text of that error.
    in_force: Option<String>,
    /// Number of operations that failed.
    errors: u64,
}

/// The state of the database after the faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TroubleEnd {
    /// The database continues.
    Resumed,
    /// The database must be opened again.
    MustReopen,
}

/// Whether the error says that `resume` is refused, because a damaged WAL holds prepared sections
/// of `WritePrepared`.
fn needs_reopening(error: &Error) -> bool {
    error.severity() == Severity::FatalError && error.to_string().contains("WritePrepared")
}

impl Round {
    /// Records that the disk begins to fail.
    pub(crate) fn trouble_begins(&mut self) {
        self.trouble = Some(Trouble::default());
        self.had_trouble = true;
        self.note(Event::Other("the disk begins to make trouble".to_owned()));
    }

    pub(crate) fn is_in_trouble(&self) -> bool {
        self.trouble.is_some()
    }

    /// Whether the faults must end, because too many refused writes may come back. If the database
    /// does not resume by itself, only writes of one operation may come back.
    pub(crate) fn has_many_refused_writes(&self) -> bool {
        let Some(journal) = &self.journal else { return false };
        self.resumes_itself() && journal.written.len() - journal.written_certainly() >= MOST_IN_DOUBT
    }

    pub(super) fn resumes_itself(&self) -> bool {
        self.settings.db.max_bgerror_resume_count > 0
    }

    /// Draws whether to call `resume()` now, if an error refuses writes.
    pub(super) fn wants_to_resume(&mut self) -> bool {
        let is_kept_out =
            || self.db().background_error().is_some_and(|e| e.severity() >= Severity::HardError);
        self.is_in_trouble() && is_kept_out() && self.rng.u8(..4) == 0
    }

    /// Resumes, on a failing or a healed disk. Afterwards every acknowledged write is visible,
    /// and no refused one.
    pub(super) fn resume(&mut self) -> Done {
        let before = self.db().background_error();
        self.db().resume().map_err(refused("resume"))?;
        if !self.is_in_trouble() {
            return Ok(());
        }
        self.journal.iter_mut().for_each(Journal::resumed);
        self.note(Event::Other(format!("resumed on a disk in trouble, after {before:?}")));
        self.verify()
    }

    /// Records the error in force before the next operation. Returns the number of acknowledged
    /// writes.
    pub(super) fn record_error_in_force(&mut self) -> usize {
        if self.trouble.is_some() {
            let error = self.db().background_error();
            let refuses = error.as_ref().is_some_and(|e| e.severity() >= Severity::HardError);
            // A refused write leaves an error at least this severe, which only a recovery clears.
            if !refuses {
                self.journal.iter_mut().for_each(Journal::forget_refused);
            }
            let in_force = error.filter(|_| refuses).map(|e| e.to_string());
            self.trouble.iter_mut().for_each(|t| (t.refuses, t.in_force) = (refuses, in_force.clone()));
        }
        self.journal.as_ref().map_or(0, |journal| journal.written_certainly())
    }

    /// Whether an error that refuses writes was in force before this operation.
    pub(super) fn refuses_writes(&self) -> bool {
        self.trouble.as_ref().is_some_and(|trouble| trouble.refuses)
    }

    /// Decides after an operation on a failing disk whether the round can continue. `before` is the
    /// number of acknowledged writes before it.
    pub(super) fn tolerate(&mut self, done: Done, before: usize) -> Checked {
        let resumes_itself = self.resumes_itself();
        let Some(trouble) = &mut self.trouble else { return Ok(done?) };
        match done {
            Err(RoundStop::Refused(error, _)) if is_of_the_disk(&error) || needs_reopening(&error) => {
                trouble.errors += 1;
                let in_force = trouble.refuses;
                self.note(Event::Other(format!("refused, error in force before: {in_force}: {error}")));
                Ok(())
            }
            Ok(()) if trouble.refuses && !resumes_itself && before != self.journal().written_certainly() => {
                Err("a write was acknowledged after a background error, before resume()".to_owned())
            }
            done => Ok(done?),
        }
    }

    /// Records refused writes.
    pub(super) fn record_refused_writes(&mut self, writes: Vec<(usize, ModelWrite)>) {
        let changes = self.with_ids(writes);
        self.record_refused_step(TransactionStage::Changes(changes));
    }

    /// Records a refused step. A step refused because of an earlier error has done nothing, and is
    /// not recorded.
    pub(super) fn record_refused_step(&mut self, what: TransactionStage) {
        let Some(trouble) = &self.trouble else { return };
        let error = self.db().background_error();
        // The text of an injected error has the number of its operation. So the same text means
        // that no recovery came between.
        let is_same = error.is_some_and(|error| trouble.in_force == Some(error.to_string()));
        if trouble.refuses && (is_same || !self.resumes_itself()) {
            return;
        }
        self.journal.iter_mut().for_each(|j| j.written.push(JournalWrites { at: None, what: what.clone() }));
    }

    /// Opens the database with newly drawn settings, and drops it. Returns whether the open was
    /// refused.
    /// # Errors
    /// An error that the failing disk does not explain. The crash before may explain it.
    pub(crate) fn open_in_trouble(&mut self, env: Env) -> Result<bool, String> {
        let settings = ModelSettings::random(&mut self.rng, &env, &self.specs);
        match self.open_and_close(settings) {
            Ok(()) => Ok(false),
            Err(error) if is_of_the_disk(&error) => Ok(true),
            Err(error) => Err(format!("on a disk in trouble, open: {error}")),
        }
    }

    /// Resumes the database after the caller has healed the disk. Also returns the number of
    /// operations that failed.
    /// # Errors
    /// The database does not resume, or gives wrong answers.
    pub(crate) fn trouble_ends(&mut self) -> Result<(TroubleEnd, u64), String> {
        let errors = self.trouble.as_ref().map_or(0, |t| t.errors);
        for _ in 0..ATTEMPTS {
            let before = self.db().background_error();
            match self.db().resume() {
                Ok(()) => {}
                Err(error) if error.severity() > Severity::HardError => {
                    return Ok((TroubleEnd::MustReopen, errors));
                }
                Err(error) => {
                    return Err(format!("resume on a disk that is well again, after {before:?}: {error}"));
                }
            }
            self.journal.iter_mut().for_each(Journal::resumed);
            // A job that began during the faults may still cause an error, or quarantine tables.
            let settled = self.db().wait_for_background_work();
            let is_well = self.db().background_error().is_none() && self.db().quarantined_tables().is_empty();
            if settled.is_ok() && is_well {
                self.trouble = None;
                self.note(Event::Other(format!("the disk is well again; before resume(): {before:?}")));
                self.verify()?;
                if self.rng.u8(..3) == 0 {
                    self.reopen()?;
                    self.verify()?;
                }
                return Ok((TroubleEnd::Resumed, errors));
            }
        }
        Err(format!("no end of errors on a disk that is well again: {:?}", self.db().background_error()))
    }
}
