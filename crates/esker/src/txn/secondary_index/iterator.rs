//! Searches in a secondary index.

use super::SecondaryIndexRef;
use crate::db::ColumnsCursor;
use crate::scan::DbIterator;
use esker_base::Result;
use std::borrow::Cow;
use std::fmt;

/// Finds the primary keys of a target in an index: those of the entries whose key begins with the
/// target's prefix, in the order of the secondary family, which must be bytewise.
///
/// `C` is an iterator over the index's secondary family: one of the database, or one of a
/// transaction, which shows its own writes. It costs a seek for each [`seek`](Self::seek).
/// [`SimpleSecondaryIndex`](super::SimpleSecondaryIndex) has an example.
///
/// ```
/// # let dir = esker_testkit::TempDir::new("doc");
/// # use esker::txn::{SecondaryIndex, SecondaryIndexIterator, SimpleSecondaryIndex};
/// # use esker::{Options, TransactionDb, TransactionDbOptions};
/// # let index = std::sync::Arc::new(SimpleSecondaryIndex::new(""));
/// # let indices = TransactionDbOptions::default().secondary_indices(vec![index.clone()]);
/// # let db = TransactionDb::open(&Options::new().create_if_missing(true), &indices, dir.path())?;
/// let people = db.default_column_family();
/// let by_town = db.create_column_family("by_town", &Default::default())?;
/// index.set_primary_column_family(&people)?;
/// index.set_secondary_column_family(&by_town)?;
/// let txn = db.begin_transaction();
/// txn.put("ada", "London")?;
/// txn.put("mary", "London")?;
/// txn.put("emmy", "Erlangen")?;
/// let mut people = SecondaryIndexIterator::new(index, txn.iter_opt(&Default::default(), &by_town)?);
/// people.seek("London");
/// let mut found = Vec::new();
/// while people.valid() {
///     found.push(people.key().to_vec());
///     people.next();
/// }
/// people.status()?;
/// assert_eq!(found, [b"ada".to_vec(), b"mary".to_vec()]);
/// # Ok::<_, esker::Error>(())
/// ```
pub struct SecondaryIndexIterator<C = DbIterator> {
    index: SecondaryIndexRef,
    iter: C,
    /// The outcome of the last seek.
    status: Result<()>,
    /// The prefix of the last target.
    prefix: Vec<u8>,
}

impl<C> fmt::Debug for SecondaryIndexIterator<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = self.prefix.escape_ascii().to_string();
        f.debug_struct("SecondaryIndexIterator").field("index", &self.index).field("prefix", &prefix).finish()
    }
}

impl<C: ColumnsCursor> SecondaryIndexIterator<C> {
    /// Searches `index` by an iterator over its secondary family.
    pub fn new(index: SecondaryIndexRef, iter: C) -> SecondaryIndexIterator<C> {
        SecondaryIndexIterator { index, iter, status: Ok(()), prefix: Vec::new() }
    }

    /// Whether the iterator is at an entry of the target.
    pub fn valid(&self) -> bool {
        self.status.is_ok() && self.iter.valid() && self.iter.key().starts_with(&self.prefix)
    }

    /// The error that made the iterator invalid, if there was one. Without an error, an iterator
    /// that is not valid is behind the entries of its target.
    /// # Errors
    /// An error of [`SecondaryIndex::finalize_secondary_key_prefix`] · `Corruption` and `IoError`
    /// name the file · `Incomplete` and `TimedOut`: options of the read stop it · `NotSupported` in
    /// a forked child process.
    ///
    /// [`SecondaryIndex::finalize_secondary_key_prefix`]: super::SecondaryIndex::finalize_secondary_key_prefix
    pub fn status(&self) -> Result<()> {
        self.status.clone()?;
        self.iter.status()
    }

    /// Moves to the first entry of `target`.
    pub fn seek(&mut self, target: impl AsRef<[u8]>) {
        self.status = match self.index.finalize_secondary_key_prefix(Cow::Borrowed(target.as_ref())) {
            Ok(prefix) => {
                self.prefix = prefix.into_owned();
                self.iter.seek(&self.prefix);
                Ok(())
            }
            Err(why) => Err(why),
        };
    }

    /// Moves to the next entry. Does nothing if the iterator is not valid.
    pub fn next(&mut self) {
        if self.valid() {
            self.iter.next();
        }
    }

    /// Moves to the entry before. Does nothing if the iterator is not valid.
    pub fn prev(&mut self) {
        if self.valid() {
            self.iter.prev();
        }
    }

    /// Makes sure that value and columns here have been read: see
    /// [`DbIterator::prepare_value`](crate::DbIterator::prepare_value).
    /// # Errors
    /// `Corruption` and `IoError` name the blob file · `Incomplete`: `read_tier` forbids the read ·
    /// `TimedOut`: `deadline` has passed · `NotSupported` in a forked child process.
    ///
    /// # Panics
    /// If the iterator is not valid, in debug builds.
    pub fn prepare_value(&mut self) -> Result<()> {
        self.iter.prepare_value()
    }

    /// The primary key here; lives until the next move.
    ///
    /// # Panics
    /// If the iterator is not valid.
    pub fn key(&self) -> &[u8] {
        &self.iter.key()[self.prefix.len()..]
    }

    /// The value of the entry here; lives until the next move.
    ///
    /// # Panics
    /// If the iterator is not valid, in debug builds.
    pub fn value(&self) -> &[u8] {
        // Iterators of databases and transactions lend values without an error.
        self.iter.value().unwrap_or_default()
    }

    /// Names and values of the columns of the entry here, by name; they live until the next move.
    ///
    /// # Panics
    /// If the iterator is not valid, in debug builds.
    pub fn columns(&self) -> Vec<(&[u8], &[u8])> {
        self.iter.columns()
    }
}

impl SecondaryIndexIterator<DbIterator> {
    /// The timestamp of the entry here; empty in a family without timestamps.
    ///
    /// # Panics
    /// If the iterator is not valid.
    pub fn timestamp(&self) -> &[u8] {
        self.iter.timestamp()
    }

    /// The iterator over the secondary family, for its properties.
    pub fn get_ref(&self) -> &DbIterator {
        &self.iter
    }
}
