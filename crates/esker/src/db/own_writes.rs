//! Reads that see writes which are not in the database yet: those of a batch or a transaction.
//!
//! In: a view of the family, and own writes as a memtable of their own. Out: what a read would give
//! if they were written.
//!
//! Invariants
//!  1. Own writes are numbered from [`OwnWrites::FIRST`] on, above every sequence number of the
//!     database, and in the order in which they were made: the same code that merges memtables and
//!     files merges them in.
//!  2. Entries of the database that the read must not see are taken out below the merge, as to it
//!     they look older than own writes.

use super::{ColumnFamilyHandle, Db};
use crate::cf::ColumnFamily;
use crate::get::latest::{latest_sequence, range_written_since, timestamped_written_since};
use crate::get::search::ReadContext;
use crate::merge::{MergeChild, RunTombstones, merge_children};
use crate::options::{ReadOptions, table_read_options};
use crate::scan::iterator::{check_tier, db_iter_options, internal_iterator};
use crate::scan::{DbIter, KeepAlive};
use esker_base::iter::InternalIterator;
use esker_base::sync::Arc;
use esker_base::{Error, PinnedBytes, Result, SequenceNumber};
use esker_format::key::{self, LookupKey, ParsedInternalKey, seek_key};
use esker_memtable::MemTable;

/// Writes of a batch in one family.
#[derive(Clone, Debug)]
pub(crate) struct OwnWrites {
    pub(crate) mem: Arc<MemTable>,
    /// Later ones are not seen.
    pub(crate) up_to: SequenceNumber,
}

impl OwnWrites {
    /// The number of the first: sequence numbers of databases do not get there.
    pub(crate) const FIRST: SequenceNumber = SequenceNumber(1 << 55);

    /// Whether they have an op on `key`, range deletions aside.
    pub(crate) fn name(&self, key: &[u8]) -> Result<bool> {
        let mut found = false;
        self.mem.get(&LookupKey::new(key, self.up_to), |_, _, _| {
            found = true;
            false
        })?;
        Ok(found)
    }

    /// Whether what `key` is in the database may not be what it would be if they were written.
    fn concern(&self, key: &[u8]) -> bool {
        // What cannot be told is told by who reads the key.
        self.mem.max_covering_tombstone_seq(key, self.up_to) > SequenceNumber::ZERO
            || self.name(key).unwrap_or(true)
    }
}

/// Keys that are read over own writes, divided into those that these may have to do with and the
/// rest.
pub(super) struct Divided<'k> {
    /// Both parts are read with them: as of the same moment.
    pub(super) options: ReadOptions,
    /// To be read of the database, together.
    pub(super) rest: Vec<&'k [u8]>,
    all: Vec<(&'k [u8], bool)>,
}

impl Divided<'_> {
    /// The answers as the keys stand: those of the rest, and of others what `over_own` gives.
    pub(super) fn join<T>(
        &self,
        rest: Vec<Result<T>>,
        over_own: impl Fn(&[u8]) -> Result<T>,
    ) -> Vec<Result<T>> {
        let mut rest = rest.into_iter();
        let mut next = || rest.next().expect("one answer for each key of the batch");
        self.all.iter().map(|(key, concerned)| if *concerned { over_own(key) } else { next() }).collect()
    }
}

impl Db {
    /// [`Db::get_pinned_opt`], with `own` writes over what is in the database.
    /// # Errors
    /// As [`Db::get_pinned_opt`].
    pub(crate) fn get_over(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        own: &OwnWrites,
        key: &[u8],
    ) -> Result<Option<PinnedBytes>> {
        check_plain(&family.cf, options)?;
        self.inner.read(options, &family.cf, key, Some(own), None)
    }

    /// [`Db::multi_get_opt`], with `own` writes over what is in the database. Keys that they have
    /// to do with are read one by one, of which most end there, the others together.
    pub(crate) fn multi_get_over(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        own: &OwnWrites,
        keys: &[impl AsRef<[u8]>],
    ) -> Vec<Result<Option<PinnedBytes>>> {
        let divided = self.divided(options, own, keys);
        let rest = self.multi_get_opt(&divided.options, family, &divided.rest);
        divided.join(rest, |key| self.get_over(&divided.options, family, own, key))
    }

    pub(super) fn divided<'k>(
        &self,
        options: &ReadOptions,
        own: &OwnWrites,
        keys: &'k [impl AsRef<[u8]>],
    ) -> Divided<'k> {
        let mut options = options.clone();
        options.snapshot.get_or_insert_with(|| self.snapshot());
        let all = keys.iter().map(|key| (key.as_ref(), own.concern(key.as_ref())));
        let all: Vec<(&[u8], bool)> = all.collect();
        let rest = all.iter().filter(|(_, concerned)| !concerned).map(|(key, _)| *key).collect();
        Divided { options, rest, all }
    }

    /// [`Db::iter_opt`], with `own` writes over what is in the database.
    /// # Errors
    /// As [`Db::iter_opt`].
    pub(crate) fn iter_over(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        own: Option<&OwnWrites>,
    ) -> Result<DbIter> {
        if options.tailing {
            return Err(Error::not_supported(
                "ReadOptions::tailing: an iterator over a transaction's own writes",
            ));
        }
        check_tier(options)?;
        let cf = &family.cf;
        check_plain(cf, options)?;
        self.inner.check_family(cf)?;
        options.snapshot.as_ref().map_or(Ok(()), |snapshot| self.inner.check_own(snapshot))?;
        let (view, sequence) = self.inner.pinned_moment(cf, options, None);
        let statistics = self.engine().options.statistics.clone();
        let base = internal_iterator(cf, &view, options, sequence)?;
        let Some(own) = own else {
            let iter_options = db_iter_options(cf, &view, options, sequence, statistics);
            return Ok(DbIter::new(cf.icmp.clone(), base, iter_options, Some(view as KeepAlive)));
        };
        let tombstones = (!options.ignore_range_deletions && own.mem.num_range_deletes() > 0)
            .then(|| RunTombstones::of_memtable(cf.icmp.clone(), own.mem.range_tombstones(), own.up_to));
        let children = vec![
            MergeChild {
                iter: Box::new(match options.ignore_range_deletions {
                    true => own.mem.iter_ignoring_range_deletions(),
                    false => own.mem.iter(),
                }),
                tombstones: tombstones.map(|tombstones| Box::new(tombstones) as Box<_>),
            },
            MergeChild::new(Box::new(VisibleOnly { iter: base, sequence })),
        ];
        let merged = merge_children(&cf.icmp, children);
        let iter_options = db_iter_options(cf, &view, options, own.up_to, statistics);
        Ok(DbIter::new(cf.icmp.clone(), merged, iter_options, Some(view as KeepAlive)))
    }

    /// Whether `key` was written after `since`; range deletions over it count. Without
    /// `with_tables`, memtables only are asked; with them, `since` must be that of a live snapshot.
    /// # Errors
    /// `TryAgain` if memtables do not reach back to `since` and tables are not to be asked ·
    /// `Corruption` and `IoError` of the tables.
    pub(crate) fn written_since(
        &self,
        family: &ColumnFamilyHandle,
        key: &[u8],
        since: SequenceNumber,
        with_tables: bool,
    ) -> Result<bool> {
        // Files may be read: the view is held, without a guard.
        let (options, view) = (ReadOptions::default(), family.cf.pinned_view());
        let table_options = table_read_options(&options);
        let context = ReadContext::new(&family.cf, &options, &table_options, None);
        Ok(latest_sequence(&view, &context, key, since, with_tables)?.is_some())
    }

    /// Whether `key`, without a timestamp, of a family that has them was written after `since`, or
    /// at a timestamp newer than this one.
    /// # Errors
    /// `Corruption` and `IoError` of the tables.
    pub(crate) fn timestamped_written_since(
        &self,
        family: &ColumnFamilyHandle,
        key: &[u8],
        since: SequenceNumber,
        timestamp: Option<&[u8]>,
    ) -> Result<bool> {
        let (mut options, view) = (ReadOptions::default(), family.cf.pinned_view());
        if let Some(timestamp) = timestamp {
            // What was written behind it, and before the history that is left, nobody can tell any
            // more.
            options.timestamp = Some(timestamp.to_vec());
            family.cf.read_timestamp(&view, &options)?;
        }
        let table_options = table_read_options(&options);
        let context = ReadContext::new(&family.cf, &options, &table_options, None);
        timestamped_written_since(&view, &context, key, since, timestamp)
    }

    /// Whether any key from `begin` to `end`, both included, was written after `since`; `None` is
    /// an open end.
    /// # Errors
    /// As [`Db::written_since`].
    pub(crate) fn range_written_since(
        &self,
        family: &ColumnFamilyHandle,
        range: (Option<&[u8]>, Option<&[u8]>),
        since: SequenceNumber,
        with_tables: bool,
    ) -> Result<bool> {
        let (options, view) = (ReadOptions::default(), family.cf.pinned_view());
        let table_options = table_read_options(&options);
        let context = ReadContext::new(&family.cf, &options, &table_options, None);
        range_written_since(&view, &context, range, since, with_tables)
    }
}

/// A family whose keys have no timestamps is not read as of one.
/// # Errors
/// `InvalidArgument`.
fn check_plain(cf: &ColumnFamily, options: &ReadOptions) -> Result<()> {
    if cf.icmp.timestamp_size() > 0 || options.timestamp.is_none() && options.iter_start_ts.is_none() {
        return Ok(());
    }
    let what = "its keys have no timestamps, and ReadOptions::timestamp or iter_start_ts is set";
    Err(Error::invalid_argument(format!("column family '{}': {what}", cf.name)))
}

/// Passes over entries that are newer than `sequence`.
struct VisibleOnly {
    iter: Box<dyn InternalIterator>,
    sequence: SequenceNumber,
}

/// So many entries of one key are stepped over before the rest of what is hidden of it is sought
/// past.
const MOST_STEPS: usize = 8;

impl VisibleOnly {
    fn is_hidden(&self) -> bool {
        // What cannot be parsed is shown, so that it is found out where keys are read.
        self.iter.valid()
            && ParsedInternalKey::parse(self.iter.key()).is_ok_and(|key| key.sequence > self.sequence)
    }

    fn forward(&mut self) {
        let mut steps = 0;
        while self.is_hidden() {
            steps += 1;
            if steps > MOST_STEPS {
                steps = 0;
                // Newer versions of a key stand before older ones.
                let target = seek_key(key::user_key(self.iter.key()), self.sequence);
                self.iter.seek(&target);
            } else {
                self.iter.next();
            }
        }
    }

    fn backward(&mut self) {
        let mut steps = 0;
        while self.is_hidden() {
            steps += 1;
            if steps > MOST_STEPS {
                steps = 0;
                // What is before a hidden version of the same key is hidden, too.
                let target = seek_key(key::user_key(self.iter.key()), SequenceNumber::MAX);
                self.iter.seek_for_prev(&target);
            } else {
                self.iter.prev();
            }
        }
    }
}

impl InternalIterator for VisibleOnly {
    fn valid(&self) -> bool {
        self.iter.valid()
    }
    fn seek_to_first(&mut self) {
        self.iter.seek_to_first();
        self.forward();
    }
    fn seek_to_last(&mut self) {
        self.iter.seek_to_last();
        self.backward();
    }
    fn seek(&mut self, target: &[u8]) {
        self.iter.seek(target);
        self.forward();
    }
    fn seek_for_prev(&mut self, target: &[u8]) {
        self.iter.seek_for_prev(target);
        self.backward();
    }
    fn next(&mut self) {
        self.iter.next();
        self.forward();
    }
    fn prev(&mut self) {
        self.iter.prev();
        self.backward();
    }
    fn key(&self) -> &[u8] {
        self.iter.key()
    }
    fn value(&self) -> &[u8] {
        self.iter.value()
    }
    fn status(&self) -> Result<()> {
        self.iter.status()
    }
    fn pinned_value(&self) -> PinnedBytes {
        self.iter.pinned_value()
    }
    fn set_upper_bound(&mut self, user_key: Option<&[u8]>) {
        self.iter.set_upper_bound(user_key);
    }
    fn set_wanted_prefix_of(&mut self, user_key: Option<&[u8]>) {
        self.iter.set_wanted_prefix_of(user_key);
    }
}

#[cfg(test)]
mod tests;
