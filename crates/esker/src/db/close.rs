//! Closing: the public methods of `instance/close.rs`.

use super::Db;
use esker_base::Result;

impl Db {
    /// Ends background work and lets go of the directory. Afterwards every call that reads, writes
    /// or changes something gives `ShutdownInProgress`; iterators, snapshots and values that exist
    /// go on with what they hold, and properties tell what was there last. A second close does
    /// nothing. Dropping the last handle closes too, without telling of errors. A change whose
    /// write to the MANIFEST failed does not come into force at the next opening.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.put("esker", "gravel")?;
    /// db.close()?;
    /// assert!(db.get("esker").is_err());
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `IoError` if a flush of unlogged data, the close of the WAL, or, after such a failure, the
    /// write of a fresh MANIFEST fails; the database is closed all the same · `NotSupported` in a
    /// forked child: nothing is done, and the parent's database goes on.
    pub fn close(&self) -> Result<()> {
        self.inner.close()
    }

    /// Ends background work for good, as a first step of closing: reads go on, writes and flushes
    /// give `ShutdownInProgress`. Data that no WAL holds is flushed first. With `wait` no job runs
    /// any more on return.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.cancel_all_background_work(true)?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// That of the flush; background work ends all the same.
    pub fn cancel_all_background_work(&self, wait: bool) -> Result<()> {
        self.inner.cancel_all_background_work(wait)
    }
}
