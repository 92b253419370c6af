//! Databases that store with each value the time it was written: RocksDB's `DBWithTTL`.
//!
//! In: values, and the number of seconds that a family's values live. Out: the same values, until a
//! compaction drops them: a read may return a value for some time after it expires.
//!
//! Stored: the value, then fixed32 Unix seconds; operands the same. Such a database must always be
//! opened with TTL, or reads return the values with their times.
//!
//! Source: RocksDB `utilities/ttl/db_ttl_impl.h`.

use crate::builtin;
use crate::compaction_filter::{
    BeforeTtl, CompactionFilter, CompactionFilterContext, CompactionFilterFactory, FilterDecision,
};
use crate::db::{ColumnFamilyDescriptor, ColumnFamilyHandle, Db, OpenMode};
use crate::options::{ColumnFamilyOptions, CompactionFilterRef, DbOptions, ReadOptions, WriteOptions};
use crate::scan::entries::sealed;
use crate::scan::{DbIterator, Entries, EntryCursor, KeyValue};
use esker_base::sync::atomic::AtomicI32;
use esker_base::sync::atomic::Ordering::Relaxed;
use esker_base::sync::{Arc, Mutex};
use esker_base::{ColumnFamilyId, Error, PinnedBytes, Result};
use esker_env::Clock;
use esker_format::write_batch::{BatchOp, WriteBatch};
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// Bytes of time behind each value.
const TIME_BYTES: usize = 4;
/// The time of RocksDB's first TTL databases, Unix seconds. No value is older.
const MIN_TIMESTAMP: u32 = 1_368_146_402;

/// A database whose values expire. Cloning gives another handle to the same one.
///
/// ```
/// use esker::{DbOptions, DbWithTtl, OpenMode, ReadOptions, WriteBatch, WriteOptions};
/// # let dir = esker_testkit::TempDir::new("doc");
///
/// let options = DbOptions::new().create_if_missing(true);
/// let (day, mode) = (24 * 60 * 60, OpenMode::ReadWrite);
/// let db = DbWithTtl::open(&options, dir.path(), ["default"], &[day], mode)?;
/// db.put("session", "17")?;
/// let mut batch = WriteBatch::new();
/// batch.put("token", "abc")?;
/// db.write(&batch)?;
/// db.write_opt(&WriteOptions::new().sync(true), batch)?;
/// assert_eq!(db.get("session")?.unwrap(), b"17");
///
/// let family = db.base_db().default_column_family();
/// assert!(db.get_opt(&ReadOptions::default(), &family, "token")?.is_some());
/// assert_eq!(db.multi_get(&ReadOptions::default(), &family, &["session", "token"]).len(), 2);
/// for entry in db.iter_opt(ReadOptions::default(), &family)? {
///     println!("{:?}", entry?);
/// }
/// db.delete("token")?;
/// db.set_ttl(&family, 60);
/// assert_eq!(db.ttl(&family), Some(60));
/// db.create_column_family_with_ttl("for ever", &Default::default(), 0)?;
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Clone)]
pub struct DbWithTtl {
    db: Db,
    clock: Arc<dyn Clock>,
    ttls: Arc<Mutex<BTreeMap<ColumnFamilyId, Arc<AtomicI32>>>>,
}

impl fmt::Debug for DbWithTtl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DbWithTtl").field("db", &self.db).finish_non_exhaustive()
    }
}

impl DbWithTtl {
    /// Opens the database in `path` with these families and the number of seconds that values live
    /// in each; with 0 or less they never expire.
    /// # Errors
    /// `InvalidArgument`: `ttls` does not have one number for each family; the database does not
    /// exist and `create_if_missing` is off; it exists and `error_if_exists` is on; it has families
    /// that are not named; an option is out of range · `IoError`, retryable: open elsewhere ·
    /// `Corruption`: names file and offset · `NotSupported`: names the feature · `IoError` from the
    /// directory.
    pub fn open(
        options: &DbOptions,
        path: impl AsRef<Path>,
        families: impl IntoIterator<Item = impl Into<ColumnFamilyDescriptor>>,
        ttls: &[i32],
        mode: OpenMode,
    ) -> Result<DbWithTtl> {
        let mut families = ColumnFamilyDescriptor::list(families);
        if ttls.len() != families.len() {
            return Err(Error::invalid_argument("ttls size has to be the same as number of column families"));
        }
        let clock = options.env.clock.clone();
        let mut by_name = Vec::new();
        for (family, ttl) in families.iter_mut().zip(ttls) {
            let ttl = Arc::new(AtomicI32::new(*ttl));
            add_times(&mut family.options, &ttl, &clock);
            by_name.push((family.name.clone(), ttl));
        }
        let db = Db::open_with(options, path, families, mode)?;
        let ttls = by_name.into_iter().filter_map(|(name, ttl)| Some((db.column_family(&name)?.id(), ttl)));
        let ttls = Arc::new(Mutex::new(ttls.collect()));
        Ok(DbWithTtl { db, clock, ttls })
    }

    /// The underlying database, to flush, compact and inspect it. Its values end in their times.
    pub fn base_db(&self) -> &Db {
        &self.db
    }

    /// Creates a family whose values live `ttl` seconds; with 0 or less they never expire.
    /// # Errors
    /// `InvalidArgument`: the name is taken, empty or has a NUL, or an option is out of range ·
    /// `NotSupported`: the database is read-only · `IoError` from the MANIFEST.
    pub fn create_column_family_with_ttl(
        &self,
        name: &str,
        options: &ColumnFamilyOptions,
        ttl: i32,
    ) -> Result<ColumnFamilyHandle> {
        let (mut options, ttl) = (options.clone(), Arc::new(AtomicI32::new(ttl)));
        add_times(&mut options, &ttl, &self.clock);
        let family = self.db.create_column_family(name, &options)?;
        self.ttls.lock().insert(family.id(), ttl);
        Ok(family)
    }

    /// Sets the time that values of `family` live, in seconds from their writing. It holds for
    /// existing values, too.
    pub fn set_ttl(&self, family: &ColumnFamilyHandle, ttl: i32) {
        if let Some(current) = self.ttls.lock().get(&family.id()) {
            current.store(ttl, Relaxed);
        }
    }

    /// The number of seconds that values of `family` live.
    pub fn ttl(&self, family: &ColumnFamilyHandle) -> Option<i32> {
        self.ttls.lock().get(&family.id()).map(|ttl| ttl.load(Relaxed))
    }

    /// Sets `key` of the default family, with the present time.
    /// # Errors
    /// `InvalidArgument`: the keys of the family have timestamps · `ShutdownInProgress`: the
    /// database was closed · `NotSupported`: the database is read-only, or this is a forked child
    /// of the process that opened it · `IoError`: the WAL could not be written, and no write
    /// succeeds until [`Db::resume`] · the background error in force.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put(key, value)?;
        self.write(batch)
    }

    /// Removes `key` of the default family.
    /// # Errors
    /// `InvalidArgument`: the keys of the family have timestamps · `ShutdownInProgress`: the
    /// database was closed · `NotSupported`: the database is read-only, or this is a forked child
    /// of the process that opened it · `IoError`: the WAL could not be written, and no write
    /// succeeds until [`Db::resume`] · the background error in force.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.db.delete(key)
    }

    /// Applies a batch whose values and operands have no times yet: they get the present time.
    /// # Errors
    /// `NotSupported`: entities, values with timestamps, or transaction markers; the database is
    /// read-only · `InvalidArgument`: a family that is not open, or an inverted range ·
    /// `ShutdownInProgress`: the database was closed · `IoError`: the WAL could not be written ·
    /// the background error in force.
    pub fn write(&self, batch: impl Borrow<WriteBatch>) -> Result<()> {
        self.write_opt(&WriteOptions::default(), batch)
    }

    /// [`write`](Self::write) with options.
    /// # Errors
    /// `NotSupported` for entities, values with timestamps and transaction markers ·
    /// `InvalidArgument`: options that contradict each other, a family that is not open, an
    /// inverted range · `Incomplete`: `no_slowdown` is set, and writers are stalled ·
    /// `ShutdownInProgress` ·
    /// `IoError`: the WAL could not be written · the background error in force.
    pub fn write_opt(&self, options: &WriteOptions, batch: impl Borrow<WriteBatch>) -> Result<()> {
        let batch = batch.borrow();
        // Seconds fit until 2106; RocksDB reads them as signed, until 2038.
        let now = u32::try_from(self.clock.now_seconds()).unwrap_or(u32::MAX).to_le_bytes();
        let mut timed = WriteBatch::new();
        for op in batch.iter() {
            match op {
                BatchOp::Put { family, key, value } => timed.put_cf(family, key, [value, &now].concat())?,
                BatchOp::Merge { family, key, operand } => {
                    timed.merge_cf(family, key, [operand, &now].concat())?;
                }
                BatchOp::Delete { family, key } => timed.delete_cf(family, key)?,
                BatchOp::SingleDelete { family, key } => timed.single_delete_cf(family, key)?,
                BatchOp::DeleteRange { family, begin, end } => timed.delete_range_cf(family, begin, end)?,
                BatchOp::LogData(data) => timed.put_log_data(data)?,
                BatchOp::Noop => {}
                other => {
                    return Err(Error::not_supported(format!("a database with TTL does not take {other:?}")));
                }
            }
        }
        self.db.write_opt(options, &mut timed)
    }

    /// The value of `key` in the default family.
    /// # Errors
    /// `Corruption`: the value does not end in a time · `Corruption` and `IoError` name the file
    /// and offset · `InvalidArgument`: merge operands without a merge operator, or the keys of the
    /// family have timestamps · `NotSupported`: a newer version wrote it, or this is a forked child
    /// of the process that opened the database · `ShutdownInProgress`: the database was closed.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_opt(&ReadOptions::default(), &self.db.default_column_family(), key)
    }

    /// The value of `key` in `family`. It may have expired.
    /// # Errors
    /// `Corruption`: the value does not end in a time · `Corruption` and `IoError` name the file
    /// and offset · `Incomplete`: the read needs I/O that `read_tier` forbids · `TimedOut`: it
    /// needs I/O after `deadline` · `InvalidArgument`: merge operands without a merge operator, a
    /// snapshot or family of another database, or timestamps that the options and the family do not
    /// agree on · `NotSupported`: a newer version wrote it, or this is a forked child of the
    /// process that opened the database · `ShutdownInProgress`: the database was closed.
    pub fn get_opt(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        let Some(mut value) = self.db.get_opt(options, family, key)? else { return Ok(None) };
        value.truncate(split(&value)?.0.len());
        Ok(Some(value))
    }

    /// [`DbWithTtl::get_opt`] of several keys; answers are in the order of the keys.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        keys: &[K],
    ) -> Vec<Result<Option<Vec<u8>>>> {
        let without_time = |found: Option<esker_base::PinnedBytes>| match found {
            Some(value) => Ok(Some(split(&value)?.0.to_vec())),
            None => Ok(None),
        };
        let found = self.db.multi_get_opt(options, family, keys);
        found.into_iter().map(|value| value.and_then(without_time)).collect()
    }

    /// An iterator over `family`.
    /// # Errors
    /// `InvalidArgument`: a snapshot or family of another database; `tailing` together with a
    /// snapshot or timestamps · `NotSupported`: `read_tier` is `Persisted`, or this is a forked
    /// child of the process that opened the database · `Corruption` and `IoError` from opening
    /// level-0 files · `Incomplete` and `TimedOut`: `read_tier` or `deadline` stops the opening of
    /// a file · `ShutdownInProgress`: the database was closed.
    pub fn iter_opt(&self, options: ReadOptions, family: &ColumnFamilyHandle) -> Result<TtlIterator> {
        // The time of a value can be told only when the value has been read.
        let options = ReadOptions { allow_unprepared_value: false, ..options };
        Ok(TtlIterator(self.db.iter_opt(options, family)?))
    }
}

/// An iterator over values with times.
///
/// ```
/// # use esker::{DbOptions, DbWithTtl, OpenMode, ReadOptions};
/// # let dir = esker_testkit::TempDir::new("doc");
/// # let options = DbOptions::new().create_if_missing(true);
/// # let db = DbWithTtl::open(&options, dir.path(), ["default"], &[60], OpenMode::ReadWrite)?;
/// # let family = db.base_db().default_column_family();
/// db.put("session", "17")?;
/// let mut iter = db.iter_opt(ReadOptions::default(), &family)?;
/// iter.seek_to_first();
/// while iter.valid() {
///     println!("{:?} = {:?}, written at {}", iter.key(), iter.value()?, iter.ttl_timestamp()?);
///     iter.next();
/// }
/// iter.status()?;
/// iter.seek_to_last();
/// iter.prev();
/// iter.seek("session");
/// iter.seek_for_prev("session");
/// assert!(iter.valid());
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Debug)]
pub struct TtlIterator(DbIterator);

impl sealed::Sealed for TtlIterator {}

impl EntryCursor for TtlIterator {
    fn twin(&self) -> Result<TtlIterator> {
        self.0.twin().map(TtlIterator)
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.0.compare(a, b)
    }
    fn valid(&self) -> bool {
        self.0.valid()
    }
    fn status(&self) -> Result<()> {
        self.0.status()
    }
    fn seek_to_first(&mut self) {
        self.0.seek_to_first();
    }
    fn seek_to_last(&mut self) {
        self.0.seek_to_last();
    }
    fn seek(&mut self, target: &[u8]) {
        self.0.seek(target);
    }
    fn seek_for_prev(&mut self, target: &[u8]) {
        self.0.seek_for_prev(target);
    }
    fn next(&mut self) {
        self.0.next();
    }
    fn prev(&mut self) {
        self.0.prev();
    }
    fn key(&self) -> &[u8] {
        self.0.key()
    }
    fn value(&self) -> Result<&[u8]> {
        TtlIterator::value(self)
    }
    fn pinned_value(&self) -> Result<PinnedBytes> {
        let value = self.0.pinned_value();
        let bytes = split(&value)?.0.len();
        Ok(value.slice(0..bytes))
    }
}

/// The entries from the cursor's position on; all entries if it is not valid.
impl IntoIterator for TtlIterator {
    type Item = Result<KeyValue>;
    type IntoIter = Entries<TtlIterator>;

    fn into_iter(self) -> Entries<TtlIterator> {
        Entries::from_cursor(self)
    }
}

impl TtlIterator {
    /// Whether it is positioned at an entry.
    pub fn valid(&self) -> bool {
        self.0.valid()
    }

    /// Moves to the first key.
    pub fn seek_to_first(&mut self) {
        self.0.seek_to_first();
    }

    /// Moves to the last key.
    pub fn seek_to_last(&mut self) {
        self.0.seek_to_last();
    }

    /// Moves to the first key at or after `target`.
    pub fn seek(&mut self, target: impl AsRef<[u8]>) {
        self.0.seek(target);
    }

    /// Moves to the last key at or before `target`.
    pub fn seek_for_prev(&mut self, target: impl AsRef<[u8]>) {
        self.0.seek_for_prev(target);
    }

    /// Moves to the next key. Does nothing if it is not valid.
    pub fn next(&mut self) {
        self.0.next();
    }

    /// Moves to the previous key. Does nothing if it is not valid.
    pub fn prev(&mut self) {
        self.0.prev();
    }

    /// The key here. REQUIRES: `valid()`.
    pub fn key(&self) -> &[u8] {
        self.0.key()
    }

    /// The value here, without its time. REQUIRES: `valid()`.
    /// # Errors
    /// `Corruption` if it does not end in a time.
    pub fn value(&self) -> Result<&[u8]> {
        Ok(split(self.0.value())?.0)
    }

    /// Time at which the current value was written, in Unix seconds. REQUIRES: `valid()`.
    /// # Errors
    /// `Corruption` if it does not end in a time.
    pub fn ttl_timestamp(&self) -> Result<u32> {
        Ok(split(self.0.value())?.1)
    }

    /// The error that made it invalid, if any.
    /// # Errors
    /// `Corruption` and `IoError` name the file · `Incomplete`: a move needs I/O that `read_tier`
    /// forbids, or passes `max_skippable_internal_keys` · `TimedOut`: a move needs I/O after
    /// `deadline` · `NotSupported` in a forked child of the process that opened the database.
    pub fn status(&self) -> Result<()> {
        self.0.status()
    }
}

/// Splits a stored value into the value and its time.
fn split(stored: &[u8]) -> Result<(&[u8], u32)> {
    let Some((value, time)) = stored.split_last_chunk::<TIME_BYTES>() else {
        return Err(Error::corruption("Error: value's length less than timestamp's"));
    };
    let time = u32::from_le_bytes(*time);
    if time < MIN_TIMESTAMP {
        return Err(Error::corruption("Error: Timestamp < ttl feature release time!"));
    }
    Ok((value, time))
}

/// Changes the options of a family so that its values have times. Options from an OPTIONS file or
/// an open database may have such a filter and operator already. Those are replaced, so that times
/// are stripped once.
fn add_times(options: &mut ColumnFamilyOptions, ttl: &Arc<AtomicI32>, clock: &Arc<dyn Clock>) {
    let own = BeforeTtl {
        filter: options.compaction_filter.take(),
        factory: options.compaction_filter_factory.take(),
    };
    let before = match own.factory.as_ref().and_then(|factory| factory.before()) {
        // A filter that the user has set since then replaces the former one.
        Some(before) => BeforeTtl { filter: own.filter.or(before.filter), factory: before.factory },
        None => own,
    };
    options.compaction_filter_factory =
        Some(Arc::new(TtlFilterFactory { ttl: ttl.clone(), clock: clock.clone(), before }));
    options.merge_operator = options.merge_operator.take().map(builtin::ttl);
}

struct TtlFilterFactory {
    ttl: Arc<AtomicI32>,
    clock: Arc<dyn Clock>,
    /// The user's own filter and factory.
    before: BeforeTtl,
}

impl CompactionFilterFactory for TtlFilterFactory {
    fn name(&self) -> &str {
        "TtlCompactionFilterFactory"
    }
    fn create(&self, context: &CompactionFilterContext) -> Option<Box<dyn CompactionFilter>> {
        let factory = self.before.factory.as_ref();
        let made = factory.and_then(|factory| factory.create(context)).map(Arc::from);
        Some(Box::new(TtlFilter {
            ttl: self.ttl.clone(),
            clock: self.clock.clone(),
            user: self.before.filter.clone().or(made),
        }))
    }
    fn before(&self) -> Option<BeforeTtl> {
        Some(self.before.clone())
    }
}

struct TtlFilter {
    ttl: Arc<AtomicI32>,
    clock: Arc<dyn Clock>,
    user: Option<CompactionFilterRef>,
}

impl CompactionFilter for TtlFilter {
    fn name(&self) -> &str {
        "TtlCompactionFilter"
    }
    fn filter(&self, level: usize, key: &[u8], stored: &[u8]) -> FilterDecision {
        let Some((value, time)) = stored.split_last_chunk::<TIME_BYTES>() else {
            return FilterDecision::Keep;
        };
        let (ttl, written) = (self.ttl.load(Relaxed), u64::from(u32::from_le_bytes(*time)));
        if u64::try_from(ttl).is_ok_and(|ttl| ttl > 0 && written + ttl < self.clock.now_seconds()) {
            return FilterDecision::Remove;
        }
        match self.user.as_ref().map(|user| user.filter(level, key, value)) {
            Some(FilterDecision::ChangeValue(mut changed)) => {
                changed.extend_from_slice(time);
                FilterDecision::ChangeValue(changed)
            }
            Some(decision) => decision,
            None => FilterDecision::Keep,
        }
    }
}
