//! An iterator over several families at once.
//!
//! In: families of one comparator, and read options. Out: each key once, in order, with the columns
//! that the families have under it.
//!
//! Invariants
//!  1. All families are read at one sequence number.
//!  2. While the iterator is valid, the iterators of `current` are at the same key. Forward, all
//!     others are behind that key; in reverse, before it; or they are not valid.
//!
//! Source: RocksDB `include/rocksdb/db.h` (`NewCoalescingIterator`, `NewAttributeGroupIterator`),
//! `db/multi_cf_iterator_impl.h`.

use super::{ColumnFamilyHandle, Db};
use crate::options::ReadOptions;
use crate::scan::{DbIterator, EntryCursor};
use crate::snapshot::Snapshot;
use esker_base::{Error, Result};
use esker_format::wide_column::DEFAULT_COLUMN_NAME;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Names and values.
type Columns<'a> = Vec<(&'a [u8], &'a [u8])>;

/// A cursor over one family, as a [`CoalescingIterator`] needs it.
pub trait ColumnsCursor: EntryCursor {
    #[doc(hidden)]
    fn columns(&self) -> Vec<(&[u8], &[u8])>;
    #[doc(hidden)]
    fn prepare_value(&mut self) -> Result<()>;
}

impl ColumnsCursor for DbIterator {
    fn columns(&self) -> Vec<(&[u8], &[u8])> {
        DbIterator::columns(self)
    }
    fn prepare_value(&mut self) -> Result<()> {
        DbIterator::prepare_value(self)
    }
}

/// Iterates over the union of the keys of several families, at one sequence number:
/// [`Db::coalescing_iter`], and with a transaction's own writes
/// [`Transaction::coalescing_iter`](crate::Transaction::coalescing_iter). Each move compares the
/// keys of all families.
#[derive(Debug)]
pub struct CoalescingIterator<C = DbIterator> {
    families: Vec<(ColumnFamilyHandle, C)>,
    /// Positions in `families` of the iterators at the current key, ascending; empty if the
    /// iterator is not valid.
    current: Vec<usize>,
    is_reverse: bool,
    /// Keeps the entries of the sequence number.
    _snapshot: Snapshot,
}

impl Db {
    /// An iterator over the keys of all `families`, at the snapshot of `options` or as of now.
    /// Costs an iterator for each family.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// use esker::{Options, ReadOptions, WriteOptions};
    ///
    /// let (one, write) = (db.default_column_family(), WriteOptions::default());
    /// let two = db.create_column_family("two", &Options::default().cf)?;
    /// db.put_entity(&write, &one, "ada", &[(b"born", b"1815"), (b"name", b"Ada")])?;
    /// db.put_entity(&write, &two, "ada", &[(b"name", b"Lovelace")])?;
    /// db.put_cf(&two, "grace", "hopper")?;
    ///
    /// let mut iter = db.coalescing_iter(&ReadOptions::default(), &[&one, &two])?;
    /// iter.seek_to_first();
    /// assert_eq!(iter.key(), b"ada");
    /// assert_eq!(iter.columns(), [(&b"born"[..], &b"1815"[..]), (b"name", b"Lovelace")]);
    /// assert_eq!(iter.attribute_groups().len(), 2);
    /// iter.next();
    /// assert_eq!((iter.key(), iter.value()), (&b"grace"[..], &b"hopper"[..]));
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: no family is given, the families have different comparators, `tailing` is
    /// set, or a snapshot or family is one of another database · `NotSupported`: a family has
    /// timestamps, `read_tier` is `Persisted`, or this is a forked child of the process that opened
    /// the database · `Corruption` and `IoError` from opening level-0 files · `Incomplete` and
    /// `TimedOut`: `read_tier` or `deadline` stops the opening of a file · `ShutdownInProgress`:
    /// the database was closed.
    pub fn coalescing_iter(
        &self,
        options: &ReadOptions,
        families: &[&ColumnFamilyHandle],
    ) -> Result<CoalescingIterator> {
        check_families(families)?;
        let snapshot = options.snapshot.clone().unwrap_or_else(|| self.hold_for_iterator());
        let options = ReadOptions { snapshot: Some(snapshot.clone()), ..options.clone() };
        CoalescingIterator::new(families, snapshot, |family| self.iter_opt(options.clone(), family))
    }
}

/// Checks that the keys of these families can be merged.
/// # Errors
/// `InvalidArgument`: no family is given, or the families have different comparators ·
/// `NotSupported`: a family has timestamps.
pub(crate) fn check_families(families: &[&ColumnFamilyHandle]) -> Result<()> {
    let Some((first, others)) = families.split_first() else {
        return Err(Error::invalid_argument("coalescing_iter: no column family is given"));
    };
    let comparator = |family: &ColumnFamilyHandle| family.cf.icmp.user_comparator().name().to_owned();
    if let Some(other) = others.iter().find(|other| comparator(other) != comparator(first)) {
        return Err(Error::invalid_argument(format!(
            "coalescing_iter: column family '{}' has the comparator {}, '{}' has {}",
            first.name(),
            comparator(first),
            other.name(),
            comparator(other)
        )));
    }
    if let Some(family) = families.iter().find(|family| family.cf.icmp.timestamp_size() > 0) {
        let what = format!("coalescing_iter: column family '{}' has timestamps", family.name());
        return Err(Error::not_supported(what));
    }
    Ok(())
}

impl<C: ColumnsCursor> CoalescingIterator<C> {
    /// An iterator over `families`, of which `iter` opens one at `snapshot`.
    pub(crate) fn new(
        families: &[&ColumnFamilyHandle],
        snapshot: Snapshot,
        iter: impl Fn(&ColumnFamilyHandle) -> Result<C>,
    ) -> Result<CoalescingIterator<C>> {
        let open = |family: &&ColumnFamilyHandle| Ok(((*family).clone(), iter(family)?));
        let families = families.iter().map(open).collect::<Result<_>>()?;
        Ok(CoalescingIterator { families, current: Vec::new(), is_reverse: false, _snapshot: snapshot })
    }

    /// Whether the iterator is at a key. It is not after an error in one of the families.
    pub fn valid(&self) -> bool {
        !self.current.is_empty()
    }

    /// Moves to the first key.
    pub fn seek_to_first(&mut self) {
        self.move_all(false, C::seek_to_first);
    }

    /// Moves to the last key.
    pub fn seek_to_last(&mut self) {
        self.move_all(true, C::seek_to_last);
    }

    /// Moves to the first key at or behind `target`.
    pub fn seek(&mut self, target: impl AsRef<[u8]>) {
        self.move_all(false, |iter| iter.seek(target.as_ref()));
    }

    /// Moves to the last key at or before `target`.
    pub fn seek_for_prev(&mut self, target: impl AsRef<[u8]>) {
        self.move_all(true, |iter| iter.seek_for_prev(target.as_ref()));
    }

    /// Moves to the next key. An iterator that is not valid stays so.
    pub fn next(&mut self) {
        self.step(false);
    }

    /// Moves to the key before. An iterator that is not valid stays so.
    pub fn prev(&mut self) {
        self.step(true);
    }

    /// The key here. It lives until the next move.
    ///
    /// # Panics
    /// If the iterator is not valid.
    pub fn key(&self) -> &[u8] {
        self.families[self.current[0]].1.key()
    }

    /// Makes sure that the columns of all families under this key have been read: see
    /// [`DbIterator::prepare_value`].
    /// # Errors
    /// Those of [`DbIterator::prepare_value`], of any of the families. The iterator is not valid
    /// then, and `status` has the error.
    pub fn prepare_value(&mut self) -> Result<()> {
        let prepare = |i: &usize| self.families[*i].1.prepare_value();
        self.current.iter().try_for_each(prepare).inspect_err(|_| self.current.clear())
    }

    /// The value of the default column here: that of the last family that has it, in the order in
    /// which the families were given. Empty if none has it, and if the iterator is not valid.
    pub fn value(&self) -> &[u8] {
        let default = |(name, value)| (name == DEFAULT_COLUMN_NAME).then_some(value);
        let values = self.current.iter().rev().map(|i| self.families[*i].1.columns());
        values.filter_map(|columns| columns.first().copied().and_then(default)).next().unwrap_or_default()
    }

    /// Names and values of the columns that the families have under this key, by name. Of columns
    /// with the same name, that of the last family counts, in the order in which the families were
    /// given. Empty if the iterator is not valid.
    pub fn columns(&self) -> Columns<'_> {
        let all = self.current.iter().flat_map(|i| self.families[*i].1.columns());
        all.collect::<BTreeMap<_, _>>().into_iter().collect()
    }

    /// The families that have this key, in the order in which the families were given, each with
    /// its columns by name. Empty if the iterator is not valid. RocksDB's
    /// `AttributeGroupIterator::attribute_groups`.
    pub fn attribute_groups(&self) -> Vec<(&ColumnFamilyHandle, Columns<'_>)> {
        let families = self.current.iter().map(|i| &self.families[*i]);
        families.map(|(family, iter)| (family, iter.columns())).collect()
    }

    /// The error that made the iterator invalid, if there was one.
    /// # Errors
    /// Those of [`DbIterator::status`], of any of the families.
    pub fn status(&self) -> Result<()> {
        self.families.iter().try_for_each(|(_, iter)| iter.status())
    }

    fn move_all(&mut self, is_reverse: bool, mut to: impl FnMut(&mut C)) {
        self.families.iter_mut().for_each(|(_, iter)| to(iter));
        self.is_reverse = is_reverse;
        self.find_current();
    }

    fn step(&mut self, is_reverse: bool) {
        if !self.valid() {
            return;
        }
        if self.is_reverse != is_reverse {
            self.turn(is_reverse);
        }
        for i in &self.current {
            let iter = &mut self.families[*i].1;
            if is_reverse { iter.prev() } else { iter.next() }
        }
        self.find_current();
    }

    /// Moves the iterators that are not at the current key to its other side.
    fn turn(&mut self, is_reverse: bool) {
        let key = self.key().to_vec();
        let others = self.families.iter_mut().enumerate().filter(|(i, _)| !self.current.contains(i));
        for (_, (_, iter)) in others {
            if is_reverse { iter.seek_for_prev(&key) } else { iter.seek(&key) }
        }
        self.is_reverse = is_reverse;
    }

    /// Finds the iterators at the first key, or at the last one in reverse.
    fn find_current(&mut self) {
        self.current.clear();
        if self.status().is_err() {
            return;
        }
        let compare = |a: &C, b: &C| {
            let order = self.families[0].0.cf.icmp.compare_user_keys(a.key(), b.key());
            if self.is_reverse { order.reverse() } else { order }
        };
        for (i, (_, iter)) in self.families.iter().enumerate().filter(|(_, (_, iter))| iter.valid()) {
            let order = self.current.first().map(|first| compare(iter, &self.families[*first].1));
            match order {
                Some(Ordering::Greater) => continue,
                Some(Ordering::Equal) => {}
                Some(Ordering::Less) | None => self.current.clear(),
            }
            self.current.push(i);
        }
    }
}
