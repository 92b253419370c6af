//! Closing: the public methods of `instance/close.rs`.

use super::Db;
use esker_base::Result;

impl Db {
    /// Ends background work and releases the directory. Afterwards every call that reads, writes or
    /// changes something gives `ShutdownInProgress`. Existing iterators, snapshots and values keep
    /// what they hold; properties give their last values. A second close does nothing. Dropping the
    /// last handle closes too, and discards errors. A change whose write to the MANIFEST failed
    /// does not come into force at the next opening.
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
    /// `IoError`: the flush of unlogged data, the close of the WAL, or the fresh MANIFEST after a
    /// failed write of one failed; the database is closed all the same · `NotSupported` in a forked
    /// child: nothing is done, and the parent's database stays open.
    pub fn close(&self) -> Result<()> {
        self.inner.close()
    }

    /// Ends background work for good, as a first step of closing: reads still work, writes and
    /// flushes give `ShutdownInProgress`. Data that no WAL holds is flushed first. With `wait` the
    /// call returns after the last job has ended.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.cancel_all_background_work(true)?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// The flush's error; background work ends all the same.
    pub fn cancel_all_background_work(&self, wait: bool) -> Result<()> {
        self.inner.cancel_all_background_work(wait)
    }
}
