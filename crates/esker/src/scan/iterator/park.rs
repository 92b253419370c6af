//! Parked iterators: a place, and nothing that memory or files wait for.
//!
//! In: an iterator that will not be used for a while. Out: the same iterator without memtables,
//! files and blocks; its key and value are copies. What it must see is kept from being compacted
//! away by its sequence number alone.
//!
//! Invariant: a parked iterator has no sources and no view; the next move takes the family's
//! present view, as any view that holds what its sequence number sees will do.

use super::{Cursor, DbIterator, Watched};
use esker_base::{Error, Result};

impl DbIterator {
    /// Lets go of all that it pins (memtables, files, blocks of the cache) until it is moved again;
    /// the next move goes on from here, at the same moment. Everything can be read here as before:
    /// key and value are copied. For iterators that are kept open without being used: cursors of a
    /// server, say. Costs a copy of the value; the next move costs as much as a seek.
    ///
    /// Its sequence number stays registered, as a snapshot's: compactions keep what it sees.
    /// # Errors
    /// `NotSupported` if it cannot leave its view: with `pin_data`, `ignore_range_deletions`, or
    /// another `read_tier` than `ReadAll`, in families with timestamps, and if it shows a range of
    /// versions. Nothing has changed then.
    pub fn park(&mut self) -> Result<()> {
        match (&mut self.iter, &self.watched) {
            (Cursor::Plain(iter), Watched::View(_)) => {
                iter.park(|runs| runs.park());
                self.watched = Watched::Parked;
                Ok(())
            }
            (_, Watched::Parked) => Ok(()),
            _ => Err(Error::not_supported("an iterator that stays at one view cannot be parked")),
        }
    }

    /// Whether it has been parked and not been moved since.
    pub fn is_parked(&self) -> bool {
        matches!(self.watched, Watched::Parked)
    }
}

#[cfg(test)]
mod tests;
