//! Recovery from a background error: the public methods of `instance/resume.rs`.

use super::Db;
use esker_base::{Error, Result};

impl Db {
    /// Tries to lift the error that stopped writes. Releases quarantined tables
    /// ([`Db::quarantined_tables`]): the next compaction finds out whether they can be read now. If
    /// the WAL was damaged, memtables are flushed first, so that no data depends on that WAL. If
    /// memtables hold half of a write, the flush leaves that write out. Acknowledged writes are
    /// kept in any case. A change whose write to the MANIFEST failed (an ingestion, a created or
    /// dropped family) does not appear at the next opening, however the process ends.
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
    /// The error in force, if this process cannot recover from it (`UnrecoverableError`,
    /// `FatalError`): reopen the database · the new error, if the same step fails again: call again
    /// when its cause is gone.
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
