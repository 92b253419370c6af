//! Iterators that see writes which are not in the database yet.

use crate::cf::OwnWrites;
use crate::db::{ColumnFamilyHandle, Db};
use crate::options::ReadOptions;
use crate::scan::entries::sealed;
use crate::scan::{DbIter, Entries, EntryCursor, KeyValue};
use esker_base::{PinnedBytes, Result};
use std::cmp::Ordering;

/// A cursor over the keys of a family as they would be if a batch or transaction were written.
/// Shows what was there when it was made: later writes, also those of the transaction itself, are
/// not seen. Not valid until it is positioned.
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
    /// The options it was opened with, a snapshot of its read point included.
    options: ReadOptions,
    family: ColumnFamilyHandle,
    own: Option<OwnWrites>,
}

impl TransactionIterator {
    /// Over `family` with `own` writes over it.
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
    /// The error that made it invalid, if there was one.
    /// # Errors
    /// `Corruption` and `IoError` name the file · `Incomplete`: `read_tier` forbids the I/O it
    /// would take, or `max_skippable_internal_keys` was passed · `TimedOut`: it would take I/O
    /// behind `deadline` · `NotSupported` in a forked child of the process that opened the
    /// database.
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
}

/// The entries from where the cursor stands; from its first key, if it stands nowhere.
impl IntoIterator for TransactionIterator {
    type Item = Result<KeyValue>;
    type IntoIter = Entries<TransactionIterator>;

    fn into_iter(self) -> Entries<TransactionIterator> {
        Entries::from_cursor(self)
    }
}
