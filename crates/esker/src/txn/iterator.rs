//! Iterators that see writes which are not in the database yet.

use crate::db::Db;
use crate::scan::DbIter;
use esker_base::Result;

/// A cursor over the keys of a family as they would be if a batch or transaction were written.
/// Shows what was there when it was made: later writes, also those of the transaction itself, are
/// not seen. Not valid until it is positioned.
#[derive(Debug)]
pub struct TransactionIterator {
    iter: DbIter,
    /// Keeps the database open.
    db: Db,
}

impl TransactionIterator {
    pub(super) fn new(iter: DbIter, db: Db) -> TransactionIterator {
        TransactionIterator { iter, db }
    }

    /// False, with an error as the status, in a forked child of the process that opened the
    /// database.
    fn is_here(&mut self) -> bool {
        let here = self.db.engine().check_process();
        here.map_err(|error| self.iter.fail(error)).is_ok()
    }

    /// Whether it stands on an entry.
    pub fn valid(&self) -> bool {
        self.iter.valid()
    }
    /// To the first key within the bounds.
    pub fn seek_to_first(&mut self) {
        if self.is_here() {
            self.iter.seek_to_first();
        }
    }
    /// To the last key within the bounds.
    pub fn seek_to_last(&mut self) {
        if self.is_here() {
            self.iter.seek_to_last();
        }
    }
    /// To the first key at or after `target`.
    pub fn seek(&mut self, target: impl AsRef<[u8]>) {
        if self.is_here() {
            self.iter.seek(target.as_ref());
        }
    }
    /// To the last key at or before `target`.
    pub fn seek_for_prev(&mut self, target: impl AsRef<[u8]>) {
        if self.is_here() {
            self.iter.seek_for_prev(target.as_ref());
        }
    }
    /// To the next key. Stays where it is if it is not valid.
    pub fn next(&mut self) {
        if self.is_here() {
            self.iter.next();
        }
    }
    /// To the previous key. Stays where it is if it is not valid.
    pub fn prev(&mut self) {
        if self.is_here() {
            self.iter.prev();
        }
    }
    /// The key here; lives until the next move.
    ///
    /// # Panics
    /// If the iterator is not valid, in debug builds.
    pub fn key(&self) -> &[u8] {
        self.iter.key()
    }
    /// The value here; lives until the next move.
    ///
    /// # Panics
    /// If the iterator is not valid, in debug builds.
    pub fn value(&self) -> &[u8] {
        self.iter.value()
    }
    /// Names and values of the columns here, by name: of an entity all, of a plain value one
    /// without a name; they live until the next move.
    ///
    /// # Panics
    /// If the iterator is not valid, in debug builds.
    pub fn columns(&self) -> Vec<(&[u8], &[u8])> {
        self.iter.columns()
    }
    /// Key and value here, if it is valid.
    pub fn item(&self) -> Option<(&[u8], &[u8])> {
        self.valid().then(|| (self.key(), self.value()))
    }
    /// Why it is not valid, if an error was the reason.
    /// # Errors
    /// As [`crate::DbIterator::status`].
    pub fn status(&self) -> Result<()> {
        self.iter.status()
    }
}
