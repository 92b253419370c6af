//! Iterators: a family's keys in order, as of one point in time.
//!
//! In: a super version of the family, a sequence number, bounds. Out: a cursor over user keys. The
//! iterator owns its super version: memtables and files it needs stay as long as it lives, also
//! when the database is closed.

/// Calls a method that both cursors have.
macro_rules! each {
    ($cursor:expr, $iter:ident => $call:expr) => {
        match $cursor {
            Cursor::Plain($iter) => $call,
            Cursor::Timestamped($iter) => $call,
            Cursor::Versions($iter) => $call,
            Cursor::Gone => unreachable!("an iterator in use has its cursor"),
        }
    };
}

mod committed;
mod idle;
mod planned;
mod runs;
mod seek_times;
mod timestamped;
mod traced;
mod watch;
mod write_time;

use crate::cf::{ColumnFamily, SuperVersion};
use crate::deleted_runs::DeletedRunMemoryRef;
use crate::instance::DbInner;
use crate::options::{MultiScanArgs, ReadOptions, ReadTier};
use crate::scan::timestamped::TimestampedIter;
use crate::scan::versions::VersionsIter;
use crate::scan::{DbIter, DbIterOptions, KeepAlive};
use crate::snapshot::{Holder, Snapshot};
pub(crate) use committed::internal_iterator;
use committed::new_committed_iter;
use esker_base::stats::{Statistics, Ticker, record_tick};
use esker_base::sync::Arc;
use esker_base::{Error, PinnedBytes, Result, SequenceNumber};
use esker_format::cursor::ScanIterator;
use esker_table::ScansAhead;
use esker_table::blob::BlobReader;
use idle::take_idle;
use planned::{PlannedRanges, check as check_ranges};
pub(crate) use planned::{new_ahead, within_ranges};
pub(crate) use runs::Runs;
pub(super) use runs::children_of;
use runs::{iterator_table_options, memtables_by_prefix};
use std::cmp::Ordering;
pub(crate) use timestamped::{new_timestamped_iter, new_versions_iter};
pub(crate) use watch::{RunWatch, WatchedRun};

/// A cursor over the keys of a family. It is not valid until a move positions it, nor after an
/// error until the next seek. It may be sent to another thread, but not shared.
///
/// Between two moves it pins memtables and files. In place of an iterator that lies idle, keep a
/// [`Snapshot`] and the last key: a new iterator that seeks there continues.
///
/// ```
/// # let dir = esker_testkit::TempDir::new("doc");
/// # let db = esker::Db::open_default(dir.path())?;
/// for key in ["a", "b", "c"] {
///     db.put(key, "value")?;
/// }
/// let mut iter = db.iter()?;
/// iter.seek("b");
/// while iter.valid() {
///     println!("{:?} has {} bytes", iter.key(), iter.value().len());
///     iter.next();
/// }
/// iter.status()?;
///
/// iter.seek_to_last();
/// iter.prev();
/// assert_eq!(iter.item(), Some((&b"b"[..], &b"value"[..])));
/// iter.seek_for_prev("bb");
/// assert_eq!(iter.key(), b"b");
/// iter.seek_to_first();
/// let kept = iter.pinned_value();
/// assert_eq!(iter.columns(), [(&b""[..], &b"value"[..])]);
/// assert!(iter.timestamp().is_empty());
/// drop(iter);
/// assert_eq!(&kept[..], b"value");
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Debug)]
pub struct DbIterator {
    iter: Cursor,
    cf: Arc<ColumnFamily>,
    db: Arc<DbInner>,
    options: ReadOptions,
    watched: Watched,
    /// A snapshot that keeps visible entries from being compacted away, if the user holds none.
    held: Option<Snapshot>,
    /// The ranges that the user plans to scan.
    planned: Option<PlannedRanges>,
}

/// Whether the iterator moves to newer super versions by itself.
#[derive(Debug)]
enum Watched {
    /// The iterator reads this super version until there is a newer one.
    SuperVersion(Arc<SuperVersion>),
    /// The iterator keeps one super version for life: with `pin_data`, timestamps, options that
    /// hide entries, or on a secondary.
    Stays,
}

/// A cursor over keys without or with user-defined timestamps.
#[derive(Debug)]
enum Cursor {
    Plain(Box<DbIter<Runs>>),
    Timestamped(Box<TimestampedIter>),
    /// All versions, with `iter_start_ts`.
    Versions(Box<VersionsIter>),
    /// No cursor: the iterator is being dropped.
    Gone,
}

/// Calls out of line: callers inline the calls of a plain cursor only.
impl Cursor {
    #[inline(never)]
    fn valid(&self) -> bool {
        each!(self, iter => iter.valid())
    }

    #[inline(never)]
    fn key(&self) -> &[u8] {
        each!(self, iter => iter.key())
    }

    #[inline(never)]
    fn value(&self) -> &[u8] {
        each!(self, iter => iter.value())
    }
}

impl DbIterator {
    /// An iterator that plans to scan the ranges of `args`. It opens no file outside of them.
    /// # Errors
    /// As `Db::new_multi_scan`.
    pub(crate) fn new_prepared(
        db: &Arc<DbInner>,
        options: ReadOptions,
        cf: &Arc<ColumnFamily>,
        args: &MultiScanArgs,
    ) -> Result<DbIterator> {
        let statistics = db.engine.options.statistics.as_ref();
        check_ranges(args, &cf.icmp, statistics)?;
        DbIterator::new(db, within_ranges(options, args), cf, Some(args))
    }

    /// An iterator over `cf`. `ranges`: the ranges that the user plans to scan.
    /// # Errors
    /// See `Db::iter_opt`.
    pub(crate) fn new(
        db: &Arc<DbInner>,
        options: ReadOptions,
        cf: &Arc<ColumnFamily>,
        ranges: Option<&MultiScanArgs>,
    ) -> Result<DbIterator> {
        check_tier(&options)?;
        check_tailing(&options, cf.icmp.timestamp_size() > 0)?;
        db.check_family(cf)?;
        options.snapshot.as_ref().map_or(Ok(()), |snapshot| db.check_own(snapshot))?;
        let held = db.hold_for_iterator(&options, cf);
        let (super_version, sequence) = db.pinned_read_point(cf, &options, held.as_ref());
        let unseen = db.unseen_sections(sequence);
        let statistics = db.engine.options.statistics.clone();
        let mut iter = if options.iter_start_ts.is_some() {
            Cursor::Versions(Box::new(new_versions_iter(cf, &super_version, &options, sequence)?))
        } else if cf.icmp.timestamp_size() > 0 || options.timestamp.is_some() {
            Cursor::Timestamped(Box::new(new_timestamped_iter(cf, &super_version, &options, sequence, None)?))
        } else {
            let idle = match unseen {
                None => take_idle(cf, &super_version, &options, (sequence, ranges.is_some()))?,
                Some(_) => None,
            };
            Cursor::Plain(match (idle, unseen.clone()) {
                (Some(iter), _) => iter,
                (None, None) => Box::new(new_db_iter(cf, &super_version, &options, sequence, statistics)?),
                (None, Some(unseen)) => {
                    Box::new(new_committed_iter(cf, &super_version, &options, unseen, statistics)?)
                }
            })
        };
        let planned = ranges.map(|ranges| {
            let statistics = db.engine.options.statistics.as_ref();
            PlannedRanges::new(ranges, iter.runs(), &options, statistics)
        });
        // An iterator with options that hide entries would lose those that flushes move into files,
        // and those that compactions drop as invisible. A secondary's later super versions lack
        // entries that only this iterator sees. An iterator that hides uncommitted entries keeps
        // its cursors.
        let may_leave = !options.pin_data && db.engine.secondary.is_none() && db.engine.commits.is_none();
        let can_watch = matches!(iter, Cursor::Plain(_)) && may_leave && sees_all(&super_version, &options);
        let watched = if can_watch { Watched::SuperVersion(super_version) } else { Watched::Stays };
        record_tick(&db.engine.options.statistics, Ticker::NoIteratorCreated, 1);
        Ok(DbIterator { iter, cf: cf.clone(), db: db.clone(), options, watched, held, planned })
    }

    /// Whether the iterator is at an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        match &self.iter {
            Cursor::Plain(iter) => iter.valid(),
            other => other.valid(),
        }
    }
    /// Moves to the first key within the bounds.
    pub fn seek_to_first(&mut self) {
        if !self.is_here() {
            return;
        }
        let _traced = if self.is_traced() { self.trace_end(false) } else { None };
        let start = self.begin_seek();
        self.leave_ranges();
        self.catch_up();
        self.leave_old_super_version();
        each!(&mut self.iter, iter => iter.seek_to_first());
        self.end_seek(start);
    }
    /// Moves to the last key within the bounds.
    pub fn seek_to_last(&mut self) {
        if !self.is_here() {
            return;
        }
        let _traced = if self.is_traced() { self.trace_end(true) } else { None };
        let start = self.begin_seek();
        self.leave_ranges();
        self.catch_up();
        self.leave_old_super_version();
        each!(&mut self.iter, iter => iter.seek_to_last());
        self.end_seek(start);
    }
    /// Moves to the first key at or after `target`.
    pub fn seek(&mut self, target: impl AsRef<[u8]>) {
        if !self.is_here() {
            return;
        }
        let _traced = if self.is_traced() { self.trace_seek(target.as_ref(), false) } else { None };
        let start = self.begin_seek();
        if self.planned.is_some() {
            self.enter_range(target.as_ref(), false);
        }
        self.catch_up();
        self.leave_old_super_version();
        each!(&mut self.iter, iter => iter.seek(target.as_ref()));
        self.end_seek(start);
    }
    /// Moves to the last key at or before `target`.
    pub fn seek_for_prev(&mut self, target: impl AsRef<[u8]>) {
        if !self.is_here() {
            return;
        }
        let _traced = if self.is_traced() { self.trace_seek(target.as_ref(), true) } else { None };
        let start = self.begin_seek();
        if self.planned.is_some() {
            self.enter_range(target.as_ref(), true);
        }
        self.catch_up();
        self.leave_old_super_version();
        each!(&mut self.iter, iter => iter.seek_for_prev(target.as_ref()));
        self.end_seek(start);
    }
    /// Moves to the next key. An iterator that is not valid stays where it is, also if it was
    /// refreshed or follows new writes.
    #[inline]
    pub fn next(&mut self) {
        if self.options.tailing && self.follow(true) {
            return;
        }
        if !self.step_in_run(true) && self.keep_place() {
            each!(&mut self.iter, iter => iter.next());
        }
    }
    /// Moves to the previous key. An iterator that is not valid stays where it is, also if it was
    /// refreshed or follows new writes.
    #[inline]
    pub fn prev(&mut self) {
        if self.options.tailing && self.follow(false) {
            return;
        }
        if !self.step_in_run(false) && self.keep_place() {
            each!(&mut self.iter, iter => iter.prev());
        }
    }
    /// The key here; lives until the next move.
    ///
    /// # Panics
    /// If the iterator is not valid, in debug builds.
    #[inline]
    pub fn key(&self) -> &[u8] {
        match &self.iter {
            Cursor::Plain(iter) => iter.key(),
            other => other.key(),
        }
    }
    /// The value here; lives until the next move.
    ///
    /// # Panics
    /// If the iterator is not valid, in debug builds.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match &self.iter {
            Cursor::Plain(iter) => iter.value(),
            other => other.value(),
        }
    }
    /// Makes sure that [`value`](Self::value), [`columns`](Self::columns) and
    /// [`pinned_value`](Self::pinned_value) have the value here. An iterator with
    /// [`allow_unprepared_value`](ReadOptions::allow_unprepared_value) has not read a value in a
    /// blob file before: until this call, value and columns are empty. Costs one read of the blob
    /// file or its cache then, and nothing otherwise.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let mut options = esker::Options::new().create_if_missing(true);
    /// # options.cf.enable_blob_files = true;
    /// # let db = esker::Db::open(&options, dir.path())?;
    /// use esker::ReadOptions;
    ///
    /// for key in ["draft-1", "draft-2", "final"] {
    ///     db.put(key, "a".repeat(100_000))?;
    /// }
    /// db.flush()?;
    /// let options = ReadOptions::new().allow_unprepared_value(true);
    /// let mut iter = db.iter_opt(options, &db.default_column_family())?;
    /// iter.seek_to_first();
    /// while iter.valid() {
    ///     // Values of drafts are not read.
    ///     if iter.key() == b"final" {
    ///         iter.prepare_value()?;
    ///         assert_eq!(iter.value().len(), 100_000);
    ///     }
    ///     iter.next();
    /// }
    /// iter.status()?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `Corruption` and `IoError` name the blob file · `Incomplete`: `read_tier` forbids the read ·
    /// `TimedOut`: `deadline` has passed · `NotSupported` in a forked child of the process that
    /// opened the database. The iterator is not valid then, and `status` has the error.
    ///
    /// # Panics
    /// If the iterator is not valid, in debug builds.
    pub fn prepare_value(&mut self) -> Result<()> {
        if !self.options.allow_unprepared_value {
            return Ok(());
        }
        if !self.is_here() {
            return self.status();
        }
        each!(&mut self.iter, iter => iter.prepare_value())
    }

    /// Reads the value here and, from now on, those of all entries at which the iterator stops.
    /// # Errors
    /// Those of [`prepare_value`](Self::prepare_value).
    pub(crate) fn load_values(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.options.allow_unprepared_value) {
            return Ok(());
        }
        each!(&mut self.iter, iter => iter.load_values())
    }

    /// Name and value of each column here, by name. An entity has several columns; a plain value
    /// has one without a name. They live until the next move.
    ///
    /// # Panics
    /// If the iterator is not valid, in debug builds.
    pub fn columns(&self) -> Vec<(&[u8], &[u8])> {
        each!(&self.iter, iter => iter.columns())
    }
    /// The value here, readable beyond the next move and the iterator.
    pub fn pinned_value(&self) -> PinnedBytes {
        each!(&self.iter, iter => iter.pinned_value())
    }
    /// Key and value here, if it is valid.
    pub fn item(&self) -> Option<(&[u8], &[u8])> {
        self.valid().then(|| (self.key(), self.value()))
    }
    /// The error that made the iterator invalid, if there was one.
    /// # Errors
    /// `Corruption` and `IoError` name the file · `Incomplete` if a move needs I/O that `read_tier`
    /// forbids, or passes `max_skippable_internal_keys` · `TimedOut` if a move needs I/O after
    /// `deadline` · `NotSupported` in a forked child of the process that opened the database.
    pub fn status(&self) -> Result<()> {
        each!(&self.iter, iter => iter.status())
    }

    /// Moves to the present: later reads show the newest values. Not valid until positioned again.
    /// An iterator with a snapshot leaves it. To keep it and release only memtables and files, call
    /// [`refresh_at`](Self::refresh_at) with the same snapshot.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// let before = db.snapshot();
    /// let mut iter = db.iter()?;
    /// db.put("new", "value")?;
    /// iter.refresh()?;
    /// iter.seek_to_first();
    /// assert!(iter.valid());
    /// iter.refresh_at(&before)?;
    /// iter.seek_to_first();
    /// assert!(!iter.valid());
    /// iter.refresh()?;
    /// iter.seek_to_first();
    /// assert!(iter.valid());
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: a snapshot or family of another database; `tailing` together with a
    /// snapshot or timestamps · `NotSupported`: `read_tier` is `Persisted`, or this is a forked
    /// child of the process that opened the database · `Corruption` and `IoError` from opening
    /// level-0 files · `Incomplete` and `TimedOut`: `read_tier` or `deadline` stops the opening of
    /// a file · `ShutdownInProgress`: the database was closed. The iterator is as it was then.
    pub fn refresh(&mut self) -> Result<()> {
        let before = self.options.snapshot.take();
        self.refresh_runs().inspect_err(|_| self.options.snapshot = before)
    }

    /// Moves to the point in time that the options name.
    /// # Errors
    /// Those of `refresh`. The iterator is as it was then.
    fn refresh_runs(&mut self) -> Result<()> {
        self.db.engine.check_process()?;
        let held = self.db.hold_for_iterator(&self.options, &self.cf);
        let (super_version, sequence) = self.db.pinned_read_point(&self.cf, &self.options, held.as_ref());
        if let Cursor::Timestamped(iter) = &mut self.iter {
            **iter = new_timestamped_iter(&self.cf, &super_version, &self.options, sequence, None)?;
            self.held = held;
            return Ok(());
        }
        if let Cursor::Versions(iter) = &mut self.iter {
            **iter = new_versions_iter(&self.cf, &super_version, &self.options, sequence)?;
            self.held = held;
            return Ok(());
        }
        if self.db.engine.commits.is_some() {
            return self.refresh_committed(&super_version, sequence, held);
        }
        let Cursor::Plain(iter) = &self.iter else { return Ok(()) };
        let prepared = iter.inner().prepare(&self.cf, &super_version, self.opening_options(), sequence)?;
        let memory = deleted_run_memory(&super_version, &self.options);
        self.plain().set_deleted_run_memory(memory);
        if !matches!(self.watched, Watched::Stays) {
            self.watched = Watched::SuperVersion(super_version.clone());
        }
        let keep_alive = Some(super_version as KeepAlive);
        self.plain().refresh(sequence, keep_alive, |runs| runs.exchange(prepared, None));
        self.held = held;
        Ok(())
    }

    /// Moves to the point in time of `snapshot` and stays there, as if the iterator had been opened
    /// with `snapshot`. Otherwise like [`refresh`](Self::refresh).
    /// # Errors
    /// `InvalidArgument`: a snapshot of another database, or the iterator follows new writes
    /// (`tailing`) · `NotSupported` in a forked child of the process that opened the database ·
    /// `Corruption` and `IoError` from opening level-0 files. The iterator is as it was then.
    pub fn refresh_at(&mut self, snapshot: &Snapshot) -> Result<()> {
        self.db.check_own(snapshot)?;
        let before = self.options.snapshot.replace(snapshot.clone());
        check_tailing(&self.options, false)
            .and_then(|()| self.refresh_runs())
            .inspect_err(|_| self.options.snapshot = before)
    }

    /// The timestamp of the version shown here, in a family with user-defined timestamps; empty in
    /// others.
    ///
    /// # Panics
    /// If the iterator is not valid, in debug builds.
    pub fn timestamp(&self) -> &[u8] {
        match &self.iter {
            Cursor::Plain(_) | Cursor::Gone => &[],
            Cursor::Timestamped(iter) => iter.timestamp(),
            Cursor::Versions(iter) => iter.timestamp(),
        }
    }

    /// Another iterator over the same keys at the same sequence number.
    pub(super) fn another(&self) -> Result<DbIterator> {
        DbIterator::new(&self.db, self.options_of_another(), &self.cf, None)
    }

    fn options_of_another(&self) -> ReadOptions {
        let mut options = self.options.clone();
        if let Some(held) = &self.held {
            options.snapshot = Some(held.clone());
        }
        options
    }

    /// The iterator's database and family, and options that open another iterator at the same
    /// sequence number.
    pub(crate) fn reads(&self) -> (&Arc<DbInner>, &Arc<ColumnFamily>, ReadOptions) {
        (&self.db, &self.cf, self.options_of_another())
    }

    /// The order of keys as this iterator shows them.
    #[inline]
    pub(super) fn compare_keys(&self, a: &[u8], b: &[u8]) -> Ordering {
        let icmp = &self.cf.icmp;
        match icmp.timestamp_size() {
            0 => icmp.compare_user_keys(a, b),
            _ => icmp.without_timestamp().compare_user_keys(a, b),
        }
    }

    /// Moves a tailing iterator to the present, if there are new writes. True if it has moved; then
    /// it is not valid. If a file cannot be opened, it stays where it is.
    fn catch_up(&mut self) -> bool {
        if !self.options.tailing {
            return false;
        }
        let is_new = match &self.iter {
            Cursor::Plain(iter) => self.db.engine.visible_sequence() != iter.sequence(),
            Cursor::Timestamped(_) | Cursor::Versions(_) | Cursor::Gone => false,
        };
        is_new && self.refresh_runs().is_ok()
    }

    /// Moves a tailing iterator to the present and steps past its key there. False, and nothing is
    /// done, if there are no new writes.
    #[cold]
    fn follow(&mut self, forward: bool) -> bool {
        if !self.valid() {
            return false;
        }
        let key = self.key().to_vec();
        if !self.catch_up() {
            return false;
        }
        let Cursor::Plain(iter) = &mut self.iter else { return false };
        if forward {
            iter.seek(&key);
        } else {
            iter.seek_for_prev(&key);
        }
        // The key may have been deleted.
        if iter.valid() && iter.key() == key {
            if forward {
                iter.next();
            } else {
                iter.prev();
            }
        }
        true
    }

    /// The cursor that can change its super version. A cursor over timestamps never does.
    fn plain(&mut self) -> &mut DbIter<Runs> {
        match &mut self.iter {
            Cursor::Plain(iter) => iter,
            Cursor::Timestamped(_) | Cursor::Versions(_) | Cursor::Gone => {
                unreachable!("only a plain cursor changes its super version")
            }
        }
    }

    /// The options for opening files.
    fn opening_options(&self) -> &ReadOptions {
        self.planned.as_ref().and_then(|planned| planned.around.as_deref()).unwrap_or(&self.options)
    }

    /// Whether this process opened the database. In a forked child the status becomes an error.
    #[inline]
    fn is_here(&mut self) -> bool {
        self.db.engine.owner.is_here() || self.fail_elsewhere()
    }

    #[cold]
    fn fail_elsewhere(&mut self) -> bool {
        let error = self.db.engine.is_of_another_process();
        each!(&mut self.iter, iter => iter.fail(error));
        false
    }

    /// Whether the family has a newer super version.
    #[inline]
    fn is_outdated(&self) -> bool {
        match &self.watched {
            Watched::SuperVersion(super_version) => !self.cf.super_version.holds(super_version),
            Watched::Stays => false,
        }
    }

    /// Steps to the next row that is decoded already, if there is one. That reads nothing, so the
    /// iterator changes to a newer super version only after the last decoded row.
    #[inline]
    fn step_in_run(&mut self, forward: bool) -> bool {
        // A probe changes the super version in the middle of decoded rows as well.
        let leaves_early =
            || self.is_outdated() && self.valid() && self.key().last().is_some_and(|byte| byte % 2 == 0);
        if esker_base::probe!(soon: leaves_early(), usually: false) {
            return false;
        }
        let Cursor::Plain(iter) = &mut self.iter else { return false };
        if forward { iter.next_in_run() } else { iter.prev_in_run() }
    }

    /// Changes to the family's present super version before a step, at the same place and sequence
    /// number. False if the place cannot be read there; `status` then says why.
    #[inline]
    fn keep_place(&mut self) -> bool {
        if !self.is_here() {
            return false;
        }
        if !self.is_outdated() {
            return true;
        }
        self.change_super_version();
        each!(&self.iter, iter => iter.valid())
    }

    /// Changes to the family's present super version before a seek, without keeping a place.
    #[inline]
    fn leave_old_super_version(&mut self) {
        if self.is_outdated() {
            self.plain().forget_place();
            self.change_super_version();
        }
    }

    /// Takes the family's present super version. If one of its files cannot be opened, stays with
    /// the old one.
    #[cold]
    fn change_super_version(&mut self) {
        let super_version = self.cf.pinned_super_version();
        let Cursor::Plain(iter) = &self.iter else { return };
        let Ok(prepared) =
            iter.inner().prepare(&self.cf, &super_version, self.opening_options(), iter.sequence())
        else {
            return;
        };
        let memory = deleted_run_memory(&super_version, &self.options);
        self.plain().set_deleted_run_memory(memory);
        self.watched = Watched::SuperVersion(super_version.clone());
        if prepared.is_empty() {
            // Only options differ, or a memtable that this iterator does not see.
            self.plain().keep(super_version);
            return;
        }
        self.plain().rebase(Some(super_version as KeepAlive), |runs, place| runs.exchange(prepared, place));
    }
}

/// Checks that iterators support the read tier of `options`.
/// # Errors
/// See [`Db::iter_opt`](crate::Db::iter_opt).
pub(crate) fn check_tier(options: &ReadOptions) -> Result<()> {
    match options.read_tier {
        ReadTier::Persisted => {
            Err(Error::not_supported("ReadOptions::read_tier: iterators over what is persisted"))
        }
        _ => Ok(()),
    }
}

/// Checks the options of a tailing iterator.
/// # Errors
/// See [`Db::iter_opt`](crate::Db::iter_opt).
fn check_tailing(options: &ReadOptions, has_timestamps: bool) -> Result<()> {
    let why = match options.tailing {
        true if options.snapshot.is_some() => "a snapshot",
        true if has_timestamps || options.timestamp.is_some() => "timestamps",
        _ => return Ok(()),
    };
    Err(Error::invalid_argument(format!(
        "ReadOptions::tailing: an iterator with {why} cannot follow new writes"
    )))
}

/// A cursor over the keys of a family that remembers runs of deleted keys.
/// # Errors
/// Those of opening files of level 0.
pub(crate) fn new_db_iter(
    cf: &ColumnFamily,
    super_version: &Arc<SuperVersion>,
    options: &ReadOptions,
    sequence: SequenceNumber,
    statistics: Option<Arc<Statistics>>,
) -> Result<DbIter<Runs>> {
    let iter = Runs::new(cf, super_version, options, sequence)?;
    let mut iter_options = db_iter_options(cf, super_version, options, sequence, statistics);
    iter_options.deleted_run_memory = deleted_run_memory(super_version, options);
    Ok(DbIter::new(cf.icmp.clone(), iter, iter_options, Some(super_version.clone() as KeepAlive)))
}

/// A cursor over the keys of a family that reports its runs to `watch`. It stays at its super
/// version.
/// # Errors
/// As [`Db::iter_opt`](crate::Db::iter_opt).
pub(crate) fn watched_iter(
    cf: &ColumnFamily,
    super_version: &Arc<SuperVersion>,
    options: &ReadOptions,
    sequence: SequenceNumber,
    (watch, ahead): (&Arc<dyn RunWatch>, Option<Arc<ScansAhead>>),
) -> Result<DbIter> {
    let runs = Runs::watched(cf, super_version, options, sequence, (watch, ahead))?;
    let iter: Box<dyn ScanIterator> = Box::new(runs);
    let mut iter_options = db_iter_options(cf, super_version, options, sequence, None);
    iter_options.deleted_run_memory = deleted_run_memory(super_version, options);
    Ok(DbIter::new(cf.icmp.clone(), iter, iter_options, Some(super_version.clone() as KeepAlive)))
}

/// The options of a cursor over user keys that follow from `options`. The cursor remembers no
/// deleted runs: its caller may read other entries over the database, or an incomplete super
/// version.
pub(crate) fn db_iter_options(
    cf: &ColumnFamily,
    super_version: &SuperVersion,
    options: &ReadOptions,
    sequence: SequenceNumber,
    statistics: Option<Arc<Statistics>>,
) -> DbIterOptions {
    DbIterOptions {
        sequence,
        lower_bound: options.iterate_lower_bound.clone(),
        upper_bound: options.iterate_upper_bound.clone(),
        prefix_same_as_start: options.prefix_same_as_start,
        prefix_extractor: super_version.options.prefix_extractor.clone(),
        asks_prefix_filters: filters_have_prefixes(cf, super_version),
        max_sequential_skip_in_iterations: super_version.options.max_sequential_skip_in_iterations,
        max_skippable_internal_keys: options.max_skippable_internal_keys,
        merge_operator: super_version.options.merge_operator.clone(),
        deleted_run_memory: None,
        statistics,
        allow_unprepared_value: options.allow_unprepared_value,
        blobs: Some(BlobReader {
            source: cf.tables.blobs().clone(),
            options: iterator_table_options(options),
        }),
    }
}

/// Whether filters have the prefixes of the family's present extractor. Tables have the extractor
/// of when the database was opened. A scan with a later extractor needs keys of several old
/// prefixes, so it must not use the filters.
fn filters_have_prefixes(cf: &ColumnFamily, super_version: &SuperVersion) -> bool {
    match (&super_version.options.prefix_extractor, cf.tables.prefix_extractor()) {
        (Some(asked), Some(opened)) => asked.name() == opened.name(),
        _ => false,
    }
}

/// Whether a scan sees every entry and every range deletion.
fn sees_all(super_version: &SuperVersion, options: &ReadOptions) -> bool {
    options.read_tier == ReadTier::ReadAll
        && !options.ignore_range_deletions
        && options.table_filter.is_none()
        && !memtables_by_prefix(super_version, options)
}

/// The memory of deleted runs, for a scan that sees every entry.
pub(super) fn deleted_run_memory(
    super_version: &SuperVersion,
    options: &ReadOptions,
) -> Option<DeletedRunMemoryRef> {
    sees_all(super_version, options).then(|| DeletedRunMemoryRef {
        ranges: super_version.deleted_run_memory.clone(),
        newest_file: super_version.newest_file,
        own: None,
    })
}

impl DbInner {
    /// Holds an iterator's point in time, if the user gave no snapshot: the iterator may leave its
    /// super version, and others may be opened beside it. On a secondary it holds the super
    /// version, too.
    fn hold_for_iterator(self: &Arc<Self>, options: &ReadOptions, cf: &ColumnFamily) -> Option<Snapshot> {
        if options.snapshot.is_some() {
            return None;
        }
        Some(match self.engine.secondary {
            Some(_) => self.hold_family(cf),
            None => self.hold_now(Holder::Iterator),
        })
    }
}

#[cfg(test)]
mod tests;
