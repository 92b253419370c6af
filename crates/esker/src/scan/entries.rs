//! Keys and values of a range as a standard iterator, from both ends.
//!
//! In: a cursor with bounds. Out: entries, copied or lent, from the front and from the back.
//!
//! Invariants
//!  1. Both ends read one sequence number: the second cursor is opened at the first one's.
//!  2. An entry comes from one end only: an end stops at the last key that the other end gave.
//!  3. After an error the iteration has ended.

mod key_range;

pub use key_range::KeyRange;
pub(crate) use key_range::{Span, prefix_span};

use super::DbIterator;
use esker_base::{PinnedBytes, Result};
use std::cmp::Ordering;
use std::fmt;
use std::iter::FusedIterator;

/// A key, and its value: copied or pinned, so that both outlive the iterator.
pub type KeyValue = (Vec<u8>, PinnedBytes);

/// A cursor that [`Entries`] moves.
pub trait EntryCursor: Sized + sealed::Sealed {
    /// Another cursor over the same keys at the same sequence number.
    #[doc(hidden)]
    fn twin(&self) -> Result<Self>;
    /// The order of the family's keys.
    #[doc(hidden)]
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering;
    #[doc(hidden)]
    fn valid(&self) -> bool;
    #[doc(hidden)]
    fn status(&self) -> Result<()>;
    #[doc(hidden)]
    fn seek_to_first(&mut self);
    #[doc(hidden)]
    fn seek_to_last(&mut self);
    #[doc(hidden)]
    fn seek(&mut self, target: &[u8]);
    #[doc(hidden)]
    fn seek_for_prev(&mut self, target: &[u8]);
    #[doc(hidden)]
    fn next(&mut self);
    #[doc(hidden)]
    fn prev(&mut self);
    #[doc(hidden)]
    fn key(&self) -> &[u8];
    #[doc(hidden)]
    fn value(&self) -> Result<&[u8]>;
    #[doc(hidden)]
    fn pinned_value(&self) -> Result<PinnedBytes>;
    /// Ends `allow_unprepared_value`: reads the value here and those of later entries.
    #[doc(hidden)]
    fn load_values(&mut self) -> Result<()> {
        Ok(())
    }
}

pub(crate) mod sealed {
    /// Only cursors of this crate are moved by [`Entries`](super::Entries).
    pub trait Sealed {}
}

/// The entries of a range, in the order of their keys; [`rev`](Iterator::rev) reverses it.
///
/// As an [`Iterator`] it gives copies of keys and pinned values, which outlive it. A pinned value
/// keeps its block or memtable in memory until it is dropped. [`next_item`](Self::next_item) and
/// [`next_item_back`](Self::next_item_back) lend both where they lie, and copy nothing.
///
/// All entries are as of one point in time. The first call opens the range. That costs as much as
/// one [`DbIterator`], or two if entries are taken from both ends. An error comes as an item, and
/// is the last one.
///
/// ```
/// # let dir = esker_testkit::TempDir::new("doc");
/// # let db = esker::Db::open_default(dir.path())?;
/// for key in ["a", "b", "c", "d"] {
///     db.put(key, "value")?;
/// }
/// let keys = |entries: esker::Entries| -> esker::Result<Vec<Vec<u8>>> {
///     entries.map(|entry| Ok(entry?.0)).collect()
/// };
/// assert_eq!(keys(db.range("b".."d"))?, [b"b", b"c"]);
/// assert_eq!(keys(db.range("c"..))?, [b"c", b"d"]);
/// assert_eq!(keys(db.range(..="b"))?, [b"a", b"b"]);
///
/// let (last, _) = db.range(..).next_back().expect("there are four")?;
/// assert_eq!(last, b"d");
/// # Ok::<_, esker::Error>(())
/// ```
pub struct Entries<C = DbIterator> {
    /// The opened cursor, until the first call from an end takes it.
    spare: Option<Result<C>>,
    front: Option<C>,
    /// False while `front` is at an entry that no call has returned yet.
    front_given: bool,
    back: Option<C>,
    span: Span,
    is_over: bool,
}

impl<C: EntryCursor> Entries<C> {
    /// The entries of `span`. `cursor` has its bounds.
    pub(crate) fn new(cursor: Result<C>, span: Span) -> Entries<C> {
        let cursor = cursor.and_then(|mut cursor| cursor.load_values().map(|()| cursor));
        let is_over = cursor.is_ok() && span.is_empty();
        Entries { spare: Some(cursor), front: None, front_given: true, back: None, span, is_over }
    }

    /// All entries from the cursor's position on; from its first key if it is not valid.
    pub(crate) fn from_cursor(mut cursor: C) -> Entries<C> {
        if !cursor.valid() {
            return Entries::new(Ok(cursor), Span::default());
        }
        if let Err(error) = cursor.load_values() {
            return Entries::new(Err(error), Span::default());
        }
        let front = Some(cursor);
        Entries { spare: None, front, front_given: false, back: None, span: Span::default(), is_over: false }
    }

    /// The next entry from the front; it lives until the next call.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// # db.put("a", "1")?;
    /// let mut entries = db.range("a".."z");
    /// let mut bytes = 0;
    /// while let Some((key, value)) = entries.next_item()? {
    ///     bytes += key.len() + value.len();
    /// }
    /// assert_eq!(bytes, 2);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the range or the options do not fit the family · `Corruption` and
    /// `IoError` name the file · `Incomplete`: the read needs I/O that `read_tier` forbids, or
    /// `max_skippable_internal_keys` was passed · `TimedOut`: it needs I/O after `deadline`.
    #[inline]
    pub fn next_item(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if !self.step()? {
            return Ok(None);
        }
        let Some(front) = &self.front else { return Ok(None) };
        Ok(Some((front.key(), front.value()?)))
    }

    /// The next entry from the back; it lives until the next call.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// # db.put("a", "1")?;
    /// # db.put("b", "2")?;
    /// let mut entries = db.range(..);
    /// assert_eq!(entries.next_item_back()?, Some((&b"b"[..], &b"2"[..])));
    /// assert_eq!(entries.next_item_back()?, Some((&b"a"[..], &b"1"[..])));
    /// assert_eq!(entries.next_item_back()?, None);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the range or the options do not fit the family · `Corruption` and
    /// `IoError` name the file · `Incomplete`: the read needs I/O that `read_tier` forbids, or
    /// `max_skippable_internal_keys` was passed · `TimedOut`: it needs I/O after `deadline`.
    #[inline]
    pub fn next_item_back(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if !self.step_back()? {
            return Ok(None);
        }
        let Some(back) = &self.back else { return Ok(None) };
        Ok(Some((back.key(), back.value()?)))
    }

    /// Moves to the next entry from the front; false if there is none.
    fn step(&mut self) -> Result<bool> {
        if self.is_over {
            return Ok(false);
        }
        match &mut self.front {
            Some(front) if self.front_given => front.next(),
            Some(_) => self.front_given = true,
            None => {
                let mut front = self.open()?;
                self.span.enter(&mut front);
                self.front = Some(front);
            }
        }
        let Some(front) = &self.front else { return Ok(false) };
        let meets = |back: &C| front.compare(front.key(), back.key()).is_ge();
        if front.valid() && self.span.ends_behind(front) && !self.back.as_ref().is_some_and(meets) {
            return Ok(true);
        }
        self.is_over = true;
        if front.valid() { Ok(false) } else { front.status().map(|()| false) }
    }

    /// Moves to the next entry from the back; false if there is none.
    fn step_back(&mut self) -> Result<bool> {
        if self.is_over {
            return Ok(false);
        }
        match &mut self.back {
            Some(back) => back.prev(),
            None => {
                let mut back = self.open()?;
                self.span.enter_back(&mut back);
                self.back = Some(back);
            }
        }
        let Some(back) = &self.back else { return Ok(false) };
        let is_given = self.front_given;
        let meets = |front: &C| {
            let order = back.compare(back.key(), front.key());
            if is_given { order.is_le() } else { order.is_lt() }
        };
        if back.valid() && self.span.begins_before(back) && !self.front.as_ref().is_some_and(meets) {
            return Ok(true);
        }
        self.is_over = true;
        if back.valid() { Ok(false) } else { back.status().map(|()| false) }
    }

    /// A cursor for one end: the one that was opened, or its twin.
    fn open(&mut self) -> Result<C> {
        let opened = match (self.spare.take(), self.front.as_ref().or(self.back.as_ref())) {
            (Some(spare), _) => spare,
            (None, Some(other)) => other.twin(),
            (None, None) => unreachable!("the spare cursor goes to one end, and stays there"),
        };
        opened.inspect_err(|_| self.is_over = true)
    }

    /// The entry at `cursor`, or the error that ended the entries.
    fn entry(stepped: Result<bool>, cursor: Option<&C>) -> Option<Result<KeyValue>> {
        match (stepped, cursor) {
            (Ok(true), Some(cursor)) => {
                Some(cursor.pinned_value().map(|value| (cursor.key().to_vec(), value)))
            }
            (Ok(_), _) => None,
            (Err(error), _) => Some(Err(error)),
        }
    }
}

impl<C: EntryCursor> Iterator for Entries<C> {
    type Item = Result<KeyValue>;

    fn next(&mut self) -> Option<Self::Item> {
        let stepped = self.step();
        let entry = Self::entry(stepped, self.front.as_ref());
        self.is_over |= matches!(entry, Some(Err(_)));
        entry
    }
}

impl<C: EntryCursor> DoubleEndedIterator for Entries<C> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let stepped = self.step_back();
        let entry = Self::entry(stepped, self.back.as_ref());
        self.is_over |= matches!(entry, Some(Err(_)));
        entry
    }
}

impl<C: EntryCursor> FusedIterator for Entries<C> {}

impl<C> fmt::Debug for Entries<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entries").field("is_over", &self.is_over).finish_non_exhaustive()
    }
}

impl sealed::Sealed for DbIterator {}

impl EntryCursor for DbIterator {
    fn twin(&self) -> Result<DbIterator> {
        self.another()
    }
    #[inline]
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.compare_keys(a, b)
    }
    #[inline]
    fn valid(&self) -> bool {
        DbIterator::valid(self)
    }
    fn status(&self) -> Result<()> {
        DbIterator::status(self)
    }
    fn seek_to_first(&mut self) {
        DbIterator::seek_to_first(self);
    }
    fn seek_to_last(&mut self) {
        DbIterator::seek_to_last(self);
    }
    fn seek(&mut self, target: &[u8]) {
        DbIterator::seek(self, target);
    }
    fn seek_for_prev(&mut self, target: &[u8]) {
        DbIterator::seek_for_prev(self, target);
    }
    #[inline]
    fn next(&mut self) {
        DbIterator::next(self);
    }
    #[inline]
    fn prev(&mut self) {
        DbIterator::prev(self);
    }
    #[inline]
    fn key(&self) -> &[u8] {
        DbIterator::key(self)
    }
    #[inline]
    fn value(&self) -> Result<&[u8]> {
        Ok(DbIterator::value(self))
    }
    fn pinned_value(&self) -> Result<PinnedBytes> {
        Ok(DbIterator::pinned_value(self))
    }
    fn load_values(&mut self) -> Result<()> {
        DbIterator::load_values(self)
    }
}

/// The entries from the cursor's position on; all entries if it is not valid.
impl IntoIterator for DbIterator {
    type Item = Result<KeyValue>;
    type IntoIter = Entries;

    fn into_iter(self) -> Entries {
        Entries::from_cursor(self)
    }
}

#[cfg(test)]
mod tests;
