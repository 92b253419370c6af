//! Detached iterators: a position that pins no memory and no files.
//!
//! In: an iterator that will not be used for a while. Out: the same iterator without memtables,
//! files and blocks; its key and value are copies. Its sequence number alone protects the entries
//! it sees from compactions.
//!
//! Invariant: a detached iterator has no sources and no super version. The next move takes the
//! family's current super version: any super version that has the entries its sequence number sees
//! will do.

use super::{Cursor, DbIterator, Watched};
use esker_base::{Error, Result};

impl DbIterator {
    /// Lets go of all that it pins (memtables, files, blocks of the cache) until it is moved again;
    /// the next move goes on from here, at the same point in time. Everything can be read here as
    /// before: key and value are copied. For iterators that are kept open without being used:
    /// cursors of a server, say. Costs a copy of the value; the next move costs as much as a seek.
    ///
    /// Its sequence number stays registered, as a snapshot's: compactions keep what it sees.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.put("a", "1")?;
    /// let mut iter = db.iter()?;
    /// iter.seek("a");
    /// iter.detach()?;
    /// assert!(iter.is_detached());
    /// iter.seek("a");
    /// assert!(iter.valid());
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `NotSupported` if it cannot leave its super version: with `pin_data`,
    /// `ignore_range_deletions`, `table_filter`, or another `read_tier` than `ReadAll`, in families
    /// with timestamps, and if it shows a range of versions. Nothing has changed then.
    pub fn detach(&mut self) -> Result<()> {
        match (&mut self.iter, &self.watched) {
            (Cursor::Plain(iter), Watched::SuperVersion(_)) => {
                iter.detach(|runs| runs.detach());
                self.watched = Watched::Detached;
                Ok(())
            }
            (_, Watched::Detached) => Ok(()),
            _ => Err(Error::not_supported("an iterator that stays at one super version cannot be detached")),
        }
    }

    /// Whether it has been detached and not been moved since.
    pub fn is_detached(&self) -> bool {
        matches!(self.watched, Watched::Detached)
    }
}

#[cfg(test)]
mod tests;
