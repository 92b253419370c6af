//! Iterators: a family's keys in order, as of one moment.
//!
//! In: a view of the family, a sequence number, bounds. Out: a cursor over user keys. The iterator owns its view: memtables
//! and files it needs stay as long as it lives, also when the database is closed.

use super::reads::{check_read_options, pinned_view, table_read_options};
use super::{ColumnFamilyHandle, Db, DbInner};
use crate::cf::{ColumnFamily, SuperVersion};
use crate::iter::db_iter::KeepAlive;
use crate::iter::range_del::FileBounds;
use crate::iter::{
    DbIter, DbIterOptions, DeadRangesOfView, FileOpener, LevelIterator, LevelTombstones, MergeChild,
    OpenedFile, RunTombstones, merge_children,
};
use crate::options::{ReadOptions, ReadTier};
use crate::read::tables::open_file;
use crate::snapshot::{Holder, Snapshot};
use crate::version::FileMeta;
use esker_base::iter::InternalIterator;
use esker_base::stats::Statistics;
use esker_base::sync::Arc;
use esker_base::{Error, PinnedBytes, Result, SequenceNumber};
use esker_format::range_del::FragmentedRangeTombstones;
use esker_table::TableReadOptions;
use esker_table::blob::BlobReader;

/// A cursor over the keys of a family. Not valid until it is positioned; after an error until it is positioned again.
/// May be sent to another thread, not shared.
#[derive(Debug)]
pub struct DbIterator {
    iter: DbIter,
    cf: Arc<ColumnFamily>,
    db: Arc<DbInner>,
    options: ReadOptions,
    /// What it reads; `None` with `pin_data`: then it stays at one view.
    watched: Option<Arc<SuperVersion>>,
    /// Keeps what it sees from being compacted away, if the user has no snapshot that does.
    held: Option<Snapshot>,
}

impl Db {
    /// An iterator over the default family as of now.
    /// # Errors
    /// As [`Db::iter_opt`].
    pub fn iter(&self) -> Result<DbIterator> {
        self.iter_opt(ReadOptions::default(), &self.default_column_family())
    }

    /// An iterator over `family` as of now.
    /// # Errors
    /// As [`Db::iter_opt`].
    pub fn iter_cf(&self, family: &ColumnFamilyHandle) -> Result<DbIterator> {
        self.iter_opt(ReadOptions::default(), family)
    }

    /// An iterator over `family` within the bounds of `options`, as of its snapshot or of now.
    /// # Errors
    /// `NotSupported` names the option; `Corruption` and `IoError` from opening level-0 files.
    pub fn iter_opt(&self, options: ReadOptions, family: &ColumnFamilyHandle) -> Result<DbIterator> {
        check_read_options(&options)?;
        options.snapshot.as_ref().map_or(Ok(()), |snapshot| self.inner.check_own(snapshot))?;
        let cf = family.cf.clone();
        let held = self.inner.hold_for_iterator(&options);
        let (view, sequence) = self.inner.pinned_moment(&cf, &options, held.as_ref());
        let statistics = self.inner.engine.options.statistics.clone();
        let iter = new_db_iter(&cf, &view, &options, sequence, statistics)?;
        let watched = (!options.pin_data).then_some(view);
        Ok(DbIterator { iter, cf, db: self.inner.clone(), options, watched, held })
    }

    /// A cursor over all internal entries of `family` as of now: every version of every key but those that range
    /// tombstones hide. For tools; keys end in their sequence number and type.
    /// # Errors
    /// `Corruption` and `IoError` from opening level-0 files.
    pub fn internal_iter(&self, family: &ColumnFamilyHandle) -> Result<Box<dyn InternalIterator>> {
        let view = pinned_view(&family.cf);
        let options = ReadOptions { total_order_seek: true, ..ReadOptions::default() };
        internal_iterator(&family.cf, &view, &options, SequenceNumber::MAX)
    }
}

impl DbIterator {
    /// Whether it stands on an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.iter.valid()
    }
    /// To the first key within the bounds.
    pub fn seek_to_first(&mut self) {
        self.leave_old_view();
        self.iter.seek_to_first();
    }
    /// To the last key within the bounds.
    pub fn seek_to_last(&mut self) {
        self.leave_old_view();
        self.iter.seek_to_last();
    }
    /// To the first key at or after `target`.
    pub fn seek(&mut self, target: impl AsRef<[u8]>) {
        self.leave_old_view();
        self.iter.seek(target.as_ref());
    }
    /// To the last key at or before `target`.
    pub fn seek_for_prev(&mut self, target: impl AsRef<[u8]>) {
        self.leave_old_view();
        self.iter.seek_for_prev(target.as_ref());
    }
    /// To the next key.
    ///
    /// # Panics
    /// If the iterator is not valid, in debug builds.
    #[inline]
    pub fn next(&mut self) {
        if self.keep_place() {
            self.iter.next();
        }
    }
    /// To the previous key.
    ///
    /// # Panics
    /// If the iterator is not valid, in debug builds.
    #[inline]
    pub fn prev(&mut self) {
        if self.keep_place() {
            self.iter.prev();
        }
    }
    /// The key here; lives until the next move.
    ///
    /// # Panics
    /// If the iterator is not valid, in debug builds.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.iter.key()
    }
    /// The value here; lives until the next move.
    ///
    /// # Panics
    /// If the iterator is not valid, in debug builds.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.iter.value()
    }
    /// Name and value of each column here, by name: of an entity all of them, of a plain value one without a name. They live
    /// until the next move.
    ///
    /// # Panics
    /// If the iterator is not valid, in debug builds.
    pub fn columns(&self) -> Vec<(&[u8], &[u8])> {
        self.iter.columns()
    }
    /// The value here, readable beyond the next move and the iterator.
    pub fn pinned_value(&self) -> PinnedBytes {
        self.iter.pinned_value()
    }
    /// Key and value here, if it is valid.
    pub fn item(&self) -> Option<(&[u8], &[u8])> {
        self.valid().then(|| (self.key(), self.value()))
    }
    /// Why it is not valid, if an error was the reason.
    /// # Errors
    /// `Corruption` and `IoError` name the file · `Incomplete` if `read_tier` forbids the I/O it would take, or
    /// `max_skippable_internal_keys` was passed.
    pub fn status(&self) -> Result<()> {
        self.iter.status()
    }

    /// Moves to the present: later reads show what is there now. Not valid until positioned again. An iterator with a
    /// snapshot stays at it, but lets go of memtables and files that are no longer needed for it.
    /// # Errors
    /// As [`Db::iter_opt`]; the iterator is as it was then.
    pub fn refresh(&mut self) -> Result<()> {
        let held = self.db.hold_for_iterator(&self.options);
        let (view, sequence) = self.db.pinned_moment(&self.cf, &self.options, held.as_ref());
        let iter = internal_iterator(&self.cf, &view, &self.options, sequence)?;
        self.iter.set_dead_ranges(dead_ranges(&view, &self.options));
        if self.watched.is_some() {
            self.watched = Some(view.clone());
        }
        self.iter.refresh(iter, sequence, Some(view as KeepAlive));
        self.held = held;
        Ok(())
    }

    /// Moves to the moment of `snapshot`, and stays there: as [`refresh`](Self::refresh), as if it had been opened with it.
    /// # Errors
    /// `InvalidArgument` if it is a snapshot of another database · as [`Db::iter_opt`]. The iterator is as it was then.
    pub fn refresh_at(&mut self, snapshot: &Snapshot) -> Result<()> {
        self.db.check_own(snapshot)?;
        let before = self.options.snapshot.replace(snapshot.clone());
        self.refresh().inspect_err(|_| self.options.snapshot = before)
    }

    /// Whether the view is not the family's any more.
    #[inline]
    fn is_outdated(&self) -> bool {
        self.watched.as_ref().is_some_and(|view| !self.cf.super_version.holds(view))
    }

    /// Before a step: goes on over the family's present view, at the same place and under the same snapshot. False if the
    /// place cannot be read there; `status` then says why.
    #[inline]
    fn keep_place(&mut self) -> bool {
        if !self.is_outdated() {
            return true;
        }
        if let Some((iter, view)) = self.newer_view() {
            self.iter.rebase(iter, Some(view as KeepAlive));
        }
        self.iter.valid()
    }

    /// Before a seek: the same, without a place.
    #[inline]
    fn leave_old_view(&mut self) {
        if self.is_outdated()
            && let Some((iter, view)) = self.newer_view()
        {
            self.iter.refresh(iter, self.iter.sequence(), Some(view as KeepAlive));
        }
    }

    /// A cursor over the family's present view. `None` if a file of it cannot be opened: the old view is as good.
    #[cold]
    fn newer_view(&mut self) -> Option<(Box<dyn InternalIterator>, Arc<SuperVersion>)> {
        let view = pinned_view(&self.cf);
        let iter = internal_iterator(&self.cf, &view, &self.options, self.iter.sequence()).ok()?;
        self.iter.set_dead_ranges(dead_ranges(&view, &self.options));
        self.watched = Some(view.clone());
        Some((iter, view))
    }
}

fn new_db_iter(
    cf: &Arc<ColumnFamily>,
    view: &Arc<SuperVersion>,
    options: &ReadOptions,
    sequence: SequenceNumber,
    statistics: Option<Arc<Statistics>>,
) -> Result<DbIter> {
    let iter = internal_iterator(cf, view, options, sequence)?;
    let iter_options = db_iter_options(cf, view, options, sequence, statistics);
    Ok(DbIter::new(cf.icmp.clone(), iter, iter_options, Some(view.clone() as KeepAlive)))
}

/// What the user's options say to the cursor over user keys.
pub(super) fn db_iter_options(
    cf: &ColumnFamily,
    view: &SuperVersion,
    options: &ReadOptions,
    sequence: SequenceNumber,
    statistics: Option<Arc<Statistics>>,
) -> DbIterOptions {
    DbIterOptions {
        sequence,
        lower_bound: options.iterate_lower_bound.clone(),
        upper_bound: options.iterate_upper_bound.clone(),
        prefix_same_as_start: options.prefix_same_as_start,
        prefix_extractor: view.options.prefix_extractor.clone(),
        max_sequential_skip_in_iterations: view.options.max_sequential_skip_in_iterations,
        max_skippable_internal_keys: options.max_skippable_internal_keys,
        merge_operator: view.options.merge_operator.clone(),
        dead_ranges: dead_ranges(view, options),
        statistics,
        blobs: Some(BlobReader { source: cf.tables.blobs().clone(), options: table_read_options(options) }),
    }
}

/// Where a scan of all there is remembers runs of deleted keys.
fn dead_ranges(view: &SuperVersion, options: &ReadOptions) -> Option<DeadRangesOfView> {
    let sees_everything = !options.ignore_range_deletions && options.read_tier == ReadTier::ReadAll;
    sees_everything
        .then(|| DeadRangesOfView { ranges: view.dead_ranges.clone(), newest_file: view.newest_file })
}

impl DbInner {
    /// # Errors
    /// `InvalidArgument` if it is a snapshot of another database.
    fn check_own(self: &Arc<Self>, snapshot: &Snapshot) -> Result<()> {
        if snapshot.belongs_to(self) {
            return Ok(());
        }
        Err(Error::invalid_argument("the snapshot is one of another database"))
    }

    /// What keeps an iterator's moment, if the user has no snapshot of it and the iterator may leave its view.
    fn hold_for_iterator(self: &Arc<Self>, options: &ReadOptions) -> Option<Snapshot> {
        (options.snapshot.is_none() && !options.pin_data).then(|| self.hold_now(Holder::Iterator))
    }

    /// A view of `cf` and the sequence number to read it at: that of `held`, if there is one, else as the options say. The
    /// view has all that the number sees.
    fn pinned_moment(
        &self,
        cf: &ColumnFamily,
        options: &ReadOptions,
        held: Option<&Snapshot>,
    ) -> (Arc<SuperVersion>, SequenceNumber) {
        if let Some(snapshot) = held.or(options.snapshot.as_ref()) {
            // What the number sees is in all views since it was taken.
            return (pinned_view(cf), snapshot.sequence());
        }
        loop {
            let view = pinned_view(cf);
            let sequence = self.read_sequence(options);
            // Else something that the number sees may be in a memtable that was put in place meanwhile.
            if cf.super_version.holds(&view) {
                return (view, sequence);
            }
        }
    }
}

/// All sorted runs of a view as one cursor, newest first.
pub(super) fn internal_iterator(
    cf: &Arc<ColumnFamily>,
    view: &Arc<SuperVersion>,
    options: &ReadOptions,
    sequence: SequenceNumber,
) -> Result<Box<dyn InternalIterator>> {
    let mut children = Vec::new();
    for mem in view.memtables() {
        let tombstones = (!options.ignore_range_deletions && mem.num_range_deletes() > 0)
            .then(|| RunTombstones::new(cf.icmp.clone(), mem.range_tombstones(), None, sequence));
        // What it may show was written before `sequence` was read, so it is not empty later if it is now.
        if tombstones.is_none() && mem.has_no_points() {
            continue;
        }
        children.push(MergeChild {
            iter: Box::new(mem.iter()),
            tombstones: tombstones.map(|t| Box::new(t) as Box<_>),
        });
    }
    if options.read_tier != ReadTier::Memtable {
        add_files(&mut children, cf, view, options, sequence)?;
    }
    Ok(merge_children(&cf.icmp, children))
}

fn add_files(
    children: &mut Vec<MergeChild>,
    cf: &Arc<ColumnFamily>,
    view: &Arc<SuperVersion>,
    options: &ReadOptions,
    sequence: SequenceNumber,
) -> Result<()> {
    let opener = Arc::new(ReadOpener {
        cf: cf.clone(),
        options: iterator_table_options(options),
        ignore_range_deletions: options.ignore_range_deletions,
    });
    for file in view.version.files(0) {
        if outside_bounds(cf, file, options) {
            continue;
        }
        let opened = opener.open(file)?;
        let bounds = || FileBounds::new(&file.smallest, &file.largest);
        let tombstones = opened.range_dels.map(|fragments| {
            Box::new(RunTombstones::new(cf.icmp.clone(), fragments, Some(bounds()), sequence)) as Box<_>
        });
        children.push(MergeChild { iter: opened.iter, tombstones });
    }
    for level in view.version.levels().iter().skip(1) {
        let files = level.files();
        if files.is_empty() {
            continue;
        }
        let iter = LevelIterator::new(cf.icmp.clone(), files.clone(), opener.clone());
        let may_hide = !options.ignore_range_deletions && files.iter().any(|f| f.may_have_range_deletions());
        let tombstones = may_hide.then(|| {
            Box::new(LevelTombstones::new(cf.icmp.clone(), files.clone(), opener.clone(), sequence)) as Box<_>
        });
        children.push(MergeChild { iter: Box::new(iter), tombstones });
    }
    Ok(())
}

fn outside_bounds(cf: &ColumnFamily, file: &FileMeta, options: &ReadOptions) -> bool {
    let below = options
        .iterate_lower_bound
        .as_ref()
        .is_some_and(|lower| cf.icmp.compare_user_keys(file.largest_user_key(), lower).is_lt());
    let above = options
        .iterate_upper_bound
        .as_ref()
        .is_some_and(|upper| cf.icmp.compare_user_keys(file.smallest_user_key(), upper).is_ge());
    below || above
}

/// A seek may ask prefix filters only if the caller wants nothing but keys with the prefix of the seek key; with mere
/// bounds a key could be missed, so bounds alone never turn it on.
fn iterator_table_options(options: &ReadOptions) -> TableReadOptions {
    let mut table_options = table_read_options(options);
    table_options.prefix_filter_on_seek = options.prefix_same_as_start && !options.total_order_seek;
    table_options
}

/// Opens files for reads.
struct ReadOpener {
    cf: Arc<ColumnFamily>,
    options: TableReadOptions,
    ignore_range_deletions: bool,
}

impl FileOpener<Arc<FileMeta>> for ReadOpener {
    fn open(&self, file: &Arc<FileMeta>) -> Result<OpenedFile> {
        let reader = open_file(&self.cf.tables, file)?;
        let range_dels = if self.ignore_range_deletions { None } else { reader.range_dels().cloned() };
        Ok(OpenedFile { iter: Box::new(reader.iter(self.options)), range_dels })
    }

    fn range_dels(&self, file: &Arc<FileMeta>) -> Result<Option<Arc<FragmentedRangeTombstones>>> {
        Ok(open_file(&self.cf.tables, file)?.range_dels().cloned())
    }
}

#[cfg(test)]
mod tests;
