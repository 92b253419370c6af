//! Iterators that see writes outside of the database: those of a batch or transaction.

use crate::cf::OwnWrites;
use crate::db::{ColumnFamilyHandle, ColumnsCursor, Db};
use crate::options::ReadOptions;
use crate::scan::entries::sealed;
use crate::scan::{DbIter, Entries, EntryCursor, KeyValue};
use esker_base::{PinnedBytes, Result};
use std::cmp::Ordering;

/// A cursor over the keys of a family as they would be if a batch or transaction were written. It
/// shows the state when it was made, without later writes, even those of the transaction itself. It
/// is not valid until a move positions it.
///
/// ```
/// # let dir = esker_testkit::TempDir::new("doc");
/// # let options = esker::Options::new().create_if_missing(true);
/// # let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;
/// let txn = db.begin_transaction();
/// txn.put("a", "1")?;
/// txn.put("b", "2")?;
/// let mut iter = txn.iter()?;
/// iter.seek_to_first();
/// while iter.valid() {
///     println!("{:?} has {} bytes", iter.key(), iter.value().len());
///     iter.next();
/// }
/// iter.status()?;
/// iter.seek_to_last();
/// iter.prev();
/// iter.seek("b");
/// iter.seek_for_prev("az");
/// assert_eq!(iter.item(), Some((&b"a"[..], &b"1"[..])));
/// assert_eq!(iter.columns().len(), 1);
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Debug)]
pub struct TransactionIterator {
    iter: DbIter,
    /// Keeps the database open.
    db: Db,
    /// The options of the iterator, with a snapshot of its read point.
    options: ReadOptions,
    family: ColumnFamilyHandle,
    own: Option<OwnWrites>,
}

impl TransactionIterator {
    /// A cursor over `family` that shows `own` writes over the database's entries.
    pub(super) fn new(
        db: &Db,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        own: Option<OwnWrites>,
    ) -> Result<TransactionIterator> {
        let mut options = options.clone();
        options.snapshot.get_or_insert_with(|| db.hold_for_iterator());
        let iter = db.iter_over(&options, family, own.as_ref())?;
        Ok(TransactionIterator { iter, db: db.clone(), options, family: family.clone(), own })
    }

    /// Whether this process opened the database. In a forked child the status becomes an error.
    fn is_here(&mut self) -> bool {
        let here = self.db.engine().check_process();
        here.map_err(|error| self.iter.fail(error)).is_ok()
    }

    /// Whether the iterator is at an entry.
    pub fn valid(&self) -> bool {
        self.iter.valid()
    }
    /// Moves to the first key within the bounds.
    pub fn seek_to_first(&mut self) {
        if self.is_here() {
            self.iter.seek_to_first();
        }
    }
    /// Moves to the last key within the bounds.
    pub fn seek_to_last(&mut self) {
        if self.is_here() {
            self.iter.seek_to_last();
        }
    }
    /// Moves to the first key at or after `target`.
    pub fn seek(&mut self, target: impl AsRef<[u8]>) {
        if self.is_here() {
            self.iter.seek(target.as_ref());
        }
    }
    /// Moves to the last key at or before `target`.
    pub fn seek_for_prev(&mut self, target: impl AsRef<[u8]>) {
        if self.is_here() {
            self.iter.seek_for_prev(target.as_ref());
        }
    }
    /// Moves to the next key. Does nothing if the iterator is not valid.
    pub fn next(&mut self) {
        if self.is_here() {
            self.iter.next();
        }
    }
    /// Moves to the previous key. Does nothing if the iterator is not valid.
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
    /// Makes sure that value and columns here have been read: see
    /// [`DbIterator::prepare_value`](crate::DbIterator::prepare_value).
    /// # Errors
    /// `Corruption` and `IoError` name the blob file · `Incomplete`: `read_tier` forbids the read ·
    /// `TimedOut`: `deadline` has passed · `NotSupported` in a forked child process. The iterator
    /// is not valid then, and `status` has the error.
    ///
    /// # Panics
    /// If the iterator is not valid, in debug builds.
    pub fn prepare_value(&mut self) -> Result<()> {
        if !self.options.allow_unprepared_value {
            return Ok(());
        }
        if self.is_here() { self.iter.prepare_value() } else { self.iter.status() }
    }
    /// Names and values of the columns here, by name. An entity has several columns; a plain value
    /// has one without a name. They live until the next move.
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
    /// The error that made the iterator invalid, if there was one.
    /// # Errors
    /// `Corruption` and `IoError` name the file · `Incomplete`: a move needs I/O that `read_tier`
    /// forbids, or passes `max_skippable_internal_keys` · `TimedOut`: a move needs I/O after
    /// `deadline` · `NotSupported` in a forked child process.
    pub fn status(&self) -> Result<()> {
        self.iter.status()
    }
}

impl sealed::Sealed for TransactionIterator {}

impl EntryCursor for TransactionIterator {
    fn twin(&self) -> Result<TransactionIterator> {
        TransactionIterator::new(&self.db, &self.options, &self.family, self.own.clone())
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.family.cf.icmp.compare_user_keys(a, b)
    }
    fn valid(&self) -> bool {
        TransactionIterator::valid(self)
    }
    fn status(&self) -> Result<()> {
        TransactionIterator::status(self)
    }
    fn seek_to_first(&mut self) {
        TransactionIterator::seek_to_first(self);
    }
    fn seek_to_last(&mut self) {
        TransactionIterator::seek_to_last(self);
    }
    fn seek(&mut self, target: &[u8]) {
        TransactionIterator::seek(self, target);
    }
    fn seek_for_prev(&mut self, target: &[u8]) {
        TransactionIterator::seek_for_prev(self, target);
    }
    fn next(&mut self) {
        TransactionIterator::next(self);
    }
    fn prev(&mut self) {
        TransactionIterator::prev(self);
    }
    fn key(&self) -> &[u8] {
        TransactionIterator::key(self)
    }
    fn value(&self) -> Result<&[u8]> {
        Ok(TransactionIterator::value(self))
    }
    fn pinned_value(&self) -> Result<PinnedBytes> {
        Ok(self.iter.pinned_value())
    }
    fn load_values(&mut self) -> Result<()> {
        if std::mem::take(&mut self.options.allow_unprepared_value) {
            self.iter.load_values()
        } else {
            Ok(())
        }
    }
}

impl ColumnsCursor for TransactionIterator {
    fn columns(&self) -> Vec<(&[u8], &[u8])> {
        TransactionIterator::columns(self)
    }
    fn prepare_value(&mut self) -> Result<()> {
        TransactionIterator::prepare_value(self)
    }
}

/// The entries from the cursor's position on; all entries if it is not valid.
impl IntoIterator for TransactionIterator {
    type Item = Result<KeyValue>;
    type IntoIter = Entries<TransactionIterator>;

    fn into_iter(self) -> Entries<TransactionIterator> {
        Entries::from_cursor(self)
    }
}
