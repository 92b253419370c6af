//! After a background error: the public methods of `instance/resume.rs`.

use super::Db;
use esker_base::{Error, Result};

impl Db {
    /// Tries to lift the error that stopped writes. Tables that were quarantined
    /// ([`Db::quarantined_tables`]) may be compacted again: whether they can be read now, the next
    /// compaction finds out. If the WAL was damaged, everything in memory is first flushed to
    /// tables, so that nothing depends on it. After a write that memtables took half of, they are
    /// flushed without it. Acknowledged writes are kept in any case. A
    /// change whose write to the MANIFEST failed (an ingestion, a family made or dropped) does not
    /// come into force at the next opening, however the process ends.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// if let Some(error) = db.background_error() {
    ///     println!("writes stopped: {error}");
    ///     db.resume()?;
    /// }
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// The error in force, if it is beyond repair by this process (`UnrecoverableError`,
    /// `FatalError`): reopen · the new error, if the same thing fails again; call again when its
    /// cause is gone.
    pub fn resume(&self) -> Result<()> {
        self.inner.resume()
    }

    /// The error that stops writes or background work, if there is one.
    pub fn background_error(&self) -> Option<Error> {
        if let Err(error) = self.engine().check_process() {
            return Some(error);
        }
        self.engine().state.lock().background_error.current().cloned()
    }
}
