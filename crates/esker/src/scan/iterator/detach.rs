//! Detached iterators: a position that pins no memory and no files.
//!
//! In: an iterator that will not be used for a while. Out: the same iterator without memtables,
//! files and blocks; its key and value are copies. Its sequence number alone protects the entries
//! it sees from compactions.
//!
//! Invariant: a detached iterator has no sources and no super version. The next move takes the
//! family's current super version: any super version with the entries that the sequence number sees
//! is right.

use super::{Cursor, DbIterator, Watched};
use esker_base::{Error, Result};

impl DbIterator {
    /// Releases everything that the iterator pins (memtables, files, cached blocks) until its next
    /// move, which continues from here at the same point in time. Key and value stay readable: they
    /// are copied. Call it on iterators that stay open unused, as a server's cursors. Costs a copy
    /// of the value; the next move costs as much as a seek.
    ///
    /// The iterator's sequence number stays registered, as a snapshot's: compactions keep the
    /// entries that it sees.
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
    /// `NotSupported`: the iterator cannot leave its super version. That holds with `pin_data`,
    /// `ignore_range_deletions`, `table_filter` or another `read_tier` than `ReadAll`, and in
    /// families with timestamps. The iterator is then unchanged.
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

    /// Whether the iterator is detached and has not moved since.
    pub fn is_detached(&self) -> bool {
        matches!(self.watched, Watched::Detached)
    }
}

#[cfg(test)]
mod tests;
