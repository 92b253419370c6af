//! Writes: one operation, or a batch of them.

use super::{BatchArg, ColumnFamilyHandle, Db};
use crate::cf::ColumnFamily;
use crate::options::{Feature, WriteOptions};
use crate::write::{ApartCalls, PreparedCommit, entry_of};
use esker_base::sync::epoch;
use esker_base::{ColumnFamilyId, Error, Result, SequenceNumber, ValueType};
use esker_format::key::InternalKeyComparator;
use esker_format::write_batch::{BatchOp, WriteBatch};
use std::cell::RefCell;
use std::time::Duration;

thread_local! {
    /// The batch of single operations, reused so that they allocate nothing.
    static SINGLE: RefCell<WriteBatch> = RefCell::new(WriteBatch::default());
}

/// Bytes up to which a batch is kept for reuse; a larger batch is freed.
const KEEP_BATCH_BYTES: usize = 1 << 20;

/// The longest sleep of a low-priority write before it checks again whether the database is
/// closing.
const GIVE_WAY_STEP_MICROS: u64 = 100_000;

impl Db {
    /// Stores `value` under `key` in the default family.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.put("esker", "gravel")?;
    /// db.delete("fjord")?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the keys of the family have timestamps · `ShutdownInProgress`: the
    /// database was closed · `NotSupported`: a read-only database or a forked child process ·
    /// `IoError`: the WAL could not be written; writes fail until [`Db::resume`] · the background
    /// error in force.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write_default(|batch, id| batch.put_cf(id, key.as_ref(), value.as_ref()))
    }

    /// Stores `value` under `key` in `family`.
    /// # Errors
    /// `InvalidArgument`: a family of another database, or one whose keys have timestamps ·
    /// `ColumnFamilyDropped` · `ShutdownInProgress`: the database was closed · `NotSupported`: a
    /// read-only database or a forked child process · `IoError`: the WAL could not be written;
    /// writes fail until [`Db::resume`] · the background error in force.
    pub fn put_cf(
        &self,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.put_opt(&WriteOptions::default(), family, key, value)
    }

    /// Stores `value` under `key` in `family`.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// use esker::WriteOptions;
    ///
    /// let family = db.default_column_family();
    /// let durable = WriteOptions::new().sync(true);
    /// db.put_opt(&durable, &family, "order", "paid")?;
    /// db.delete_opt(&durable, &family, "order")?;
    /// db.put_cf(&family, "visit", "1")?;
    /// db.delete_cf(&family, "visit")?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: options that contradict each other, a family of another database, or one
    /// whose keys have timestamps · `ColumnFamilyDropped` · `Incomplete`: `no_slowdown` is set, and
    /// writers are stalled · `ShutdownInProgress`: the database was closed · `NotSupported`: a
    /// read-only database or a forked child process · `IoError`: the WAL could not be written;
    /// writes fail until [`Db::resume`] · the background error in force.
    pub fn put_opt(
        &self,
        options: &WriteOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.write_single(options, family, |batch, id| batch.put_cf(id, key.as_ref(), value.as_ref()))
    }

    /// Removes `key` from the default family; an absent key is no error.
    /// # Errors
    /// `InvalidArgument`: the keys of the family have timestamps · `ShutdownInProgress`: the
    /// database was closed · `NotSupported`: a read-only database or a forked child process ·
    /// `IoError`: the WAL could not be written; writes fail until [`Db::resume`] · the background
    /// error in force.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.write_default(|batch, id| batch.delete_cf(id, key.as_ref()))
    }

    /// Removes `key` from `family`.
    /// # Errors
    /// `InvalidArgument`: a family of another database, or one whose keys have timestamps ·
    /// `ColumnFamilyDropped` · `ShutdownInProgress`: the database was closed · `NotSupported`: a
    /// read-only database or a forked child process · `IoError`: the WAL could not be written;
    /// writes fail until [`Db::resume`] · the background error in force.
    pub fn delete_cf(&self, family: &ColumnFamilyHandle, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_opt(&WriteOptions::default(), family, key)
    }

    /// Removes `key` from `family`.
    /// # Errors
    /// `InvalidArgument`: options that contradict each other, a family of another database, or one
    /// whose keys have timestamps · `ColumnFamilyDropped` · `Incomplete`: `no_slowdown` is set, and
    /// writers are stalled · `ShutdownInProgress`: the database was closed · `NotSupported`: a
    /// read-only database or a forked child process · `IoError`: the WAL could not be written;
    /// writes fail until [`Db::resume`] · the background error in force.
    pub fn delete_opt(
        &self,
        options: &WriteOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.write_single(options, family, |batch, id| batch.delete_cf(id, key.as_ref()))
    }

    /// Removes `key`, which must have been put at most once since its last removal, and never
    /// merged. Costs compactions less than `delete`; if the condition does not hold, later reads of
    /// `key` are undefined.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.put("visit", "1")?;
    /// db.single_delete("visit")?;
    /// let family = db.default_column_family();
    /// db.single_delete_opt(&Default::default(), &family, "visit")?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the keys of the family have timestamps · `ShutdownInProgress`: the
    /// database was closed · `NotSupported`: a read-only database or a forked child process ·
    /// `IoError`: the WAL could not be written; writes fail until [`Db::resume`] · the background
    /// error in force.
    pub fn single_delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.write_default(|batch, id| batch.single_delete_cf(id, key.as_ref()))
    }

    /// [`Db::single_delete`] in `family`.
    /// # Errors
    /// `InvalidArgument`: options that contradict each other, a family of another database, or one
    /// whose keys have timestamps · `ColumnFamilyDropped` · `Incomplete`: `no_slowdown` is set, and
    /// writers are stalled · `ShutdownInProgress`: the database was closed · `NotSupported`: a
    /// read-only database or a forked child process · `IoError`: the WAL could not be written;
    /// writes fail until [`Db::resume`] · the background error in force.
    pub fn single_delete_opt(
        &self,
        options: &WriteOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.write_single(options, family, |batch, id| batch.single_delete_cf(id, key.as_ref()))
    }

    /// Adds `operand` to `key` for the family's merge operator to combine.
    ///
    /// ```
    /// use esker::builtin;
    /// # let dir = esker_testkit::TempDir::new("doc");
    ///
    /// let mut options = esker::Options::new().create_if_missing(true);
    /// options.cf.merge_operator = Some(builtin::uint64_add());
    /// let db = esker::Db::open(&options, dir.path())?;
    /// db.merge("visits", 1u64.to_le_bytes())?;
    /// let family = db.default_column_family();
    /// db.merge_opt(&Default::default(), &family, "visits", 2u64.to_le_bytes())?;
    /// assert_eq!(db.get("visits")?.unwrap(), 3u64.to_le_bytes());
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the keys of the family have timestamps · `ShutdownInProgress`: the
    /// database was closed · `NotSupported`: a read-only database or a forked child process ·
    /// `IoError`: the WAL could not be written; writes fail until [`Db::resume`] · the background
    /// error in force · `NotSupported`: the family has no merge operator. A batch does not check
    /// this; reads of the key fail.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        check_can_merge(self.engine().families.default_family())?;
        self.write_default(|batch, id| batch.merge_cf(id, key.as_ref(), operand.as_ref()))
    }

    /// [`Db::merge`] in `family`.
    /// # Errors
    /// `InvalidArgument`: options that contradict each other, a family of another database, or one
    /// whose keys have timestamps · `ColumnFamilyDropped` · `Incomplete`: `no_slowdown` is set, and
    /// writers are stalled · `ShutdownInProgress`: the database was closed · `NotSupported`: a
    /// read-only database or a forked child process · `IoError`: the WAL could not be written;
    /// writes fail until [`Db::resume`] · the background error in force · `NotSupported`: the
    /// family has no merge operator. A batch does not check this; reads of the key fail.
    pub fn merge_opt(
        &self,
        options: &WriteOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        check_can_merge(&family.cf)?;
        self.write_single(options, family, |batch, id| batch.merge_cf(id, key.as_ref(), operand.as_ref()))
    }

    /// Removes every key from `begin` up to, not including, `end` in the default family.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.put("log/2025-12-31", "the last of the year")?;
    /// db.delete_range("log/2025", "log/2026")?;
    /// assert!(db.is_empty()?);
    /// let family = db.default_column_family();
    /// db.delete_range_opt(&Default::default(), &family, "log/2026", "log/2027")?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the keys of the family have timestamps · `ShutdownInProgress`: the
    /// database was closed · `NotSupported`: a read-only database or a forked child process ·
    /// `IoError`: the WAL could not be written; writes fail until [`Db::resume`] · the background
    /// error in force · `InvalidArgument`: `end` comes before `begin`.
    pub fn delete_range(&self, begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        self.delete_range_opt(&WriteOptions::default(), &self.default_column_family(), begin, end)
    }

    /// [`Db::delete_range`] in `family`.
    /// # Errors
    /// `InvalidArgument`: options that contradict each other, a family of another database, or one
    /// whose keys have timestamps · `ColumnFamilyDropped` · `Incomplete`: `no_slowdown` is set, and
    /// writers are stalled · `ShutdownInProgress`: the database was closed · `NotSupported`: a
    /// read-only database or a forked child process · `IoError`: the WAL could not be written;
    /// writes fail until [`Db::resume`] · the background error in force · `InvalidArgument`: `end`
    /// comes before `begin`.
    pub fn delete_range_opt(
        &self,
        options: &WriteOptions,
        family: &ColumnFamilyHandle,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (begin, end) = (begin.as_ref(), end.as_ref());
        check_range(family, begin, end)?;
        self.write_single(options, family, |batch, id| batch.delete_range_cf(id, begin, end))
    }

    /// Writes `batch` atomically: a crash keeps all of it or nothing, and no read sees a part.
    ///
    /// The batch comes by value, by `&mut` or by `&`: see [`BatchArg`].
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// let mut batch = esker::WriteBatch::new();
    /// batch.put("from", "90")?;
    /// batch.put("to", "110")?;
    /// db.write(batch)?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: a family that is not open, an inverted range; nothing was written ·
    /// `ShutdownInProgress`: the database was closed · `IoError`: the WAL could not be written;
    /// writes fail until [`Db::resume`] · the background error in force.
    pub fn write(&self, batch: impl BatchArg) -> Result<()> {
        self.write_opt(&WriteOptions::default(), batch)
    }

    /// [`Db::write`] with options: here, it returns only when the batch is on the medium.
    ///
    /// ```
    /// use esker::{WriteBatch, WriteOptions};
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.put("order", "paid")?;
    /// db.write_opt(&WriteOptions::new().sync(true), &mut batch)?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: options that contradict each other, a family that is not open, an
    /// inverted range; nothing was written · `Incomplete`: `no_slowdown` is set, and writers are
    /// stalled · `ShutdownInProgress`: the database was closed · `IoError`: the WAL could not be
    /// written; writes fail until [`Db::resume`] · the background error in force.
    pub fn write_opt(&self, options: &WriteOptions, batch: impl BatchArg) -> Result<()> {
        batch.lend(|batch| {
            self.engine().check_writable()?;
            if batch.wal_termination_point().is_some() {
                return self.write_apart(options, batch, &ApartCalls::default());
            }
            self.check_families(options, batch, false)?;
            self.write_unchecked(options, batch)
        })
    }

    /// Writes one operation into the default family. Needs no handle: that family cannot be
    /// dropped.
    fn write_default(&self, fill: impl FnOnce(&mut WriteBatch, ColumnFamilyId) -> Result<()>) -> Result<()> {
        self.engine().check_writable()?;
        if self.engine().families.default_family().icmp.timestamp_size() > 0 {
            return Err(timestamp_wanted());
        }
        self.write_one(&WriteOptions::default(), ColumnFamilyId::DEFAULT, fill)
    }

    fn write_single(
        &self,
        options: &WriteOptions,
        family: &ColumnFamilyHandle,
        fill: impl FnOnce(&mut WriteBatch, ColumnFamilyId) -> Result<()>,
    ) -> Result<()> {
        self.engine().check_writable()?;
        family.check_live(self)?;
        if family.cf.icmp.timestamp_size() > 0 {
            return Err(timestamp_wanted());
        }
        self.write_one(options, family.id(), fill)
    }

    /// Stores `value` under `key` as of `timestamp`, in a family with user-defined timestamps.
    /// Later writes of a key must not have an older timestamp.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// use esker::comparator::BytewiseComparatorWithU64Ts;
    /// use esker::{ColumnFamilyOptions, ReadOptions, WriteOptions};
    /// use std::sync::Arc;
    ///
    /// let stamped = ColumnFamilyOptions::new().comparator(Arc::new(BytewiseComparatorWithU64Ts));
    /// let prices = db.create_column_family("prices", &stamped)?;
    /// let (write, at) = (WriteOptions::default(), u64::to_le_bytes);
    /// db.put_with_ts(&write, &prices, "gravel", &at(10), "3")?;
    /// db.delete_with_ts(&write, &prices, "gravel", &at(20))?;
    /// db.put_with_ts(&write, &prices, "sand", &at(20), "1")?;
    /// db.single_delete_with_ts(&write, &prices, "sand", &at(30))?;
    /// db.delete_range_with_ts(&write, &prices, "a", "b", &at(30))?;
    ///
    /// let then = ReadOptions::new().timestamp(at(15).to_vec());
    /// let (price, written) = db.get_with_timestamp(&then, &prices, "gravel")?.unwrap();
    /// assert_eq!((&price[..], written), (&b"3"[..], at(10).to_vec()));
    ///
    /// db.increase_full_history_ts_low(&prices, &at(12))?;
    /// assert_eq!(db.full_history_ts_low(&prices)?, at(12));
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the family has no timestamps, or timestamps of another size, or is one of
    /// another database; options that contradict each other · `ColumnFamilyDropped` · `Incomplete`:
    /// `no_slowdown` is set, and writers are stalled · `ShutdownInProgress`: the database was
    /// closed · `NotSupported`: a read-only database or a forked child process · `IoError`: the WAL
    /// could not be written; writes fail until [`Db::resume`] · the background error in force.
    pub fn put_with_ts(
        &self,
        options: &WriteOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        timestamp: &[u8],
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        let key = with_timestamp(family, key.as_ref(), timestamp)?;
        self.write_timestamped(options, family, |batch, id| batch.put_cf(id, &key, value.as_ref()))
    }

    /// Removes `key` as of `timestamp`; reads at older timestamps still see it.
    /// # Errors
    /// `InvalidArgument`: the family has no timestamps, or timestamps of another size, or is one of
    /// another database; options that contradict each other · `ColumnFamilyDropped` · `Incomplete`:
    /// `no_slowdown` is set, and writers are stalled · `ShutdownInProgress`: the database was
    /// closed · `NotSupported`: a read-only database or a forked child process · `IoError`: the WAL
    /// could not be written; writes fail until [`Db::resume`] · the background error in force.
    pub fn delete_with_ts(
        &self,
        options: &WriteOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        timestamp: &[u8],
    ) -> Result<()> {
        let key = with_timestamp(family, key.as_ref(), timestamp)?;
        self.write_timestamped(options, family, |batch, id| batch.delete_cf(id, &key))
    }

    /// [`Db::single_delete`] as of `timestamp`.
    /// # Errors
    /// `InvalidArgument`: the family has no timestamps, or timestamps of another size, or is one of
    /// another database; options that contradict each other · `ColumnFamilyDropped` · `Incomplete`:
    /// `no_slowdown` is set, and writers are stalled · `ShutdownInProgress`: the database was
    /// closed · `NotSupported`: a read-only database or a forked child process · `IoError`: the WAL
    /// could not be written; writes fail until [`Db::resume`] · the background error in force.
    pub fn single_delete_with_ts(
        &self,
        options: &WriteOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        timestamp: &[u8],
    ) -> Result<()> {
        let key = with_timestamp(family, key.as_ref(), timestamp)?;
        self.write_timestamped(options, family, |batch, id| batch.single_delete_cf(id, &key))
    }

    /// [`Db::merge`] as of `timestamp`.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// use esker::comparator::BytewiseComparatorWithU64Ts;
    /// use esker::{ColumnFamilyOptions, WriteOptions, builtin};
    /// use std::sync::Arc;
    ///
    /// let mut counters = ColumnFamilyOptions::new().comparator(Arc::new(BytewiseComparatorWithU64Ts));
    /// counters.merge_operator = Some(builtin::uint64_add());
    /// let visits = db.create_column_family("visits", &counters)?;
    /// let one = 1u64.to_le_bytes();
    /// db.merge_with_ts(&WriteOptions::default(), &visits, "home", &7u64.to_le_bytes(), one)?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the family has no timestamps, or timestamps of another size, or is one of
    /// another database; options that contradict each other · `ColumnFamilyDropped` · `Incomplete`:
    /// `no_slowdown` is set, and writers are stalled · `ShutdownInProgress`: the database was
    /// closed · `NotSupported`: a read-only database or a forked child process · `IoError`: the WAL
    /// could not be written; writes fail until [`Db::resume`] · the background error in force ·
    /// `NotSupported`: the family has no merge operator. A batch does not check this; reads of the
    /// key fail.
    pub fn merge_with_ts(
        &self,
        options: &WriteOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        timestamp: &[u8],
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        check_can_merge(&family.cf)?;
        let key = with_timestamp(family, key.as_ref(), timestamp)?;
        self.write_timestamped(options, family, |batch, id| batch.merge_cf(id, &key, operand.as_ref()))
    }

    /// Removes every key from `begin` up to, not including, `end` as of `timestamp`.
    /// # Errors
    /// `InvalidArgument`: the family has no timestamps, or timestamps of another size, or is one of
    /// another database; options that contradict each other · `ColumnFamilyDropped` · `Incomplete`:
    /// `no_slowdown` is set, and writers are stalled · `ShutdownInProgress`: the database was
    /// closed · `NotSupported`: a read-only database or a forked child process · `IoError`: the WAL
    /// could not be written; writes fail until [`Db::resume`] · the background error in force ·
    /// `InvalidArgument`: `end` comes before `begin`.
    pub fn delete_range_with_ts(
        &self,
        options: &WriteOptions,
        family: &ColumnFamilyHandle,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
        timestamp: &[u8],
    ) -> Result<()> {
        let begin = with_timestamp(family, begin.as_ref(), timestamp)?;
        let end = with_timestamp(family, end.as_ref(), timestamp)?;
        check_range(family, &begin, &end)?;
        self.write_timestamped(options, family, |batch, id| batch.delete_range_cf(id, &begin, &end))
    }

    fn write_timestamped(
        &self,
        options: &WriteOptions,
        family: &ColumnFamilyHandle,
        fill: impl FnOnce(&mut WriteBatch, ColumnFamilyId) -> Result<()>,
    ) -> Result<()> {
        self.engine().check_writable()?;
        family.check_live(self)?;
        self.write_one(options, family.id(), fill)
    }

    fn write_one(
        &self,
        options: &WriteOptions,
        family: ColumnFamilyId,
        fill: impl FnOnce(&mut WriteBatch, ColumnFamilyId) -> Result<()>,
    ) -> Result<()> {
        if options.protection_bytes_per_key > 0 {
            let mut batch = WriteBatch::with_protection(options.protection_bytes_per_key)?;
            fill(&mut batch, family)?;
            return self.write_unchecked(options, &mut batch);
        }
        let mut batch = SINGLE.with_borrow_mut(std::mem::take);
        batch.clear();
        let result = fill(&mut batch, family).and_then(|()| self.write_unchecked(options, &mut batch));
        if batch.data_size() <= KEEP_BATCH_BYTES {
            SINGLE.set(batch);
        }
        result
    }

    fn write_unchecked(&self, options: &WriteOptions, batch: &mut WriteBatch) -> Result<()> {
        self.give_way(options, batch)?;
        if self.updates_in_place(batch) {
            return self.write_in_place(options, batch);
        }
        self.inner.write_path.write(options, batch)
    }

    /// Slows a low-priority write down while compaction is behind.
    pub(crate) fn give_way(&self, options: &WriteOptions, batch: &WriteBatch) -> Result<()> {
        let engine = self.engine();
        if !options.low_pri || !engine.stall.holds_low_pri_back() {
            return Ok(());
        }
        if options.no_slowdown {
            return Err(Error::incomplete(
                "Low priority write stall: compaction is behind and no_slowdown forbids waiting",
            ));
        }
        let now = || engine.env.clock.monotonic_nanos() / 1000;
        let start = now();
        let end = start + engine.stall.low_pri_delay_micros(batch.data_size() as u64, start);
        loop {
            engine.check_open()?;
            let left = end.saturating_sub(now());
            if left == 0 {
                return Ok(());
            }
            engine.env.clock.sleep(Duration::from_micros(left.min(GIVE_WAY_STEP_MICROS)));
        }
    }

    /// Writes `batch` if `validate` returns no error. `validate` runs when all earlier writes are
    /// visible, and no other write begins until this one is done.
    /// # Errors
    /// The error of `validate`: nothing was written · the errors of [`Db::write`].
    pub(crate) fn write_if(
        &self,
        options: &WriteOptions,
        batch: &mut WriteBatch,
        validate: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        self.engine().check_writable()?;
        self.check_families(options, batch, false)?;
        self.give_way(options, batch)?;
        if self.updates_in_place(batch) {
            return self.write_in_place_if(options, batch, validate);
        }
        self.inner.write_path.write_if(options, batch, validate)
    }

    /// [`crate::write::WritePath::write_apart`], after a check that the families are open.
    /// # Errors
    /// The errors of [`Db::write`], and those of the callbacks.
    pub(crate) fn write_apart(
        &self,
        options: &WriteOptions,
        batch: &mut WriteBatch,
        calls: &ApartCalls<'_>,
    ) -> Result<()> {
        self.engine().check_writable()?;
        self.check_families(options, batch, false)?;
        self.give_way(options, batch)?;
        if self.updates_in_place(batch) {
            let change = |batch: &WriteBatch| self.updated_in_place(batch);
            let calls = ApartCalls { change: Some(&change), ..*calls };
            return self.inner.write_path.write_apart(options, batch, &calls);
        }
        self.inner.write_path.write_apart(options, batch, calls)
    }

    /// [`crate::write::WritePath::write_and_then`], after a check that the families are open.
    /// # Errors
    /// The errors of [`Db::write`].
    pub(crate) fn write_and_then(
        &self,
        options: &WriteOptions,
        batch: &mut WriteBatch,
        after: &mut dyn FnMut(),
    ) -> Result<()> {
        self.engine().check_writable()?;
        self.check_families(options, batch, false)?;
        self.give_way(options, batch)?;
        self.refuse_in_place(batch)?;
        self.inner.write_path.write_and_then(options, batch, after)
    }

    /// [`crate::write::WritePath::commit_prepared`], after a check that the families of the
    /// commit-time batch are open.
    /// # Errors
    /// `InvalidArgument`: a family is not open · the errors of `commit_prepared`.
    pub(crate) fn commit_prepared(
        &self,
        options: &WriteOptions,
        xid: &[u8],
        commit: PreparedCommit<'_>,
        after: Option<&mut dyn FnMut()>,
    ) -> Result<()> {
        self.engine().check_writable()?;
        self.check_families(options, commit.first, false)?;
        self.refuse_in_place(commit.first)?;
        self.inner.write_path.commit_prepared(options, xid, commit, after)
    }

    /// [`crate::write::WritePath::prepare`], after a check that the families are open.
    /// # Errors
    /// `InvalidArgument`: a family is not open · the errors of `prepare`.
    pub(crate) fn prepare(&self, options: &WriteOptions, xid: &[u8], batch: WriteBatch) -> Result<()> {
        self.engine().check_writable()?;
        self.check_families(options, &batch, true)?;
        self.give_way(options, &batch)?;
        self.refuse_in_place(&batch)?;
        self.inner.write_path.prepare(options, xid, batch)
    }

    /// [`crate::write::WritePath::spill`], after a check that the families are open.
    /// # Errors
    /// `InvalidArgument`: a family is not open · the errors of `spill`.
    pub(crate) fn spill(
        &self,
        options: &WriteOptions,
        xid: &[u8],
        batch: WriteBatch,
    ) -> Result<(SequenceNumber, u64)> {
        self.engine().check_writable()?;
        self.check_families(options, &batch, true)?;
        self.give_way(options, &batch)?;
        self.refuse_in_place(&batch)?;
        self.inner.write_path.spill(options, xid, batch)
    }

    /// [`crate::write::WritePath::commit_spilled`], after a check that the families are open.
    /// # Errors
    /// `InvalidArgument`: a family is not open · the errors of `commit_spilled`.
    pub(crate) fn commit_spilled(&self, options: &WriteOptions, xid: &[u8], batch: WriteBatch) -> Result<()> {
        self.engine().check_writable()?;
        self.check_families(options, &batch, true)?;
        self.give_way(options, &batch)?;
        self.refuse_in_place(&batch)?;
        self.inner.write_path.commit_spilled(options, xid, batch)
    }

    /// Checks families, ranges and timestamps of `batch`. `is_prepared`: its keys end in room for
    /// timestamps, which the commit fills in.
    fn check_families(&self, options: &WriteOptions, batch: &WriteBatch, is_prepared: bool) -> Result<()> {
        let content = batch.content();
        if content.transaction_markers | content.timed {
            self.check_special(batch)?;
        }
        let engine = self.engine();
        let (mut last, mut stamped) = (None, None);
        for op in batch.iter() {
            let Some(id) = op.family() else { continue };
            if let BatchOp::DeleteRange { begin, end, .. } = op
                && let Some(cf) = engine.families.by_id(id)
                && cf.icmp.compare_user_keys(begin, end).is_gt()
            {
                return Err(inverted_range());
            }
            if last != Some(id) {
                let cf = engine.families.by_id(id);
                if cf.is_none() && !options.ignore_missing_column_families {
                    return Err(Error::invalid_argument(format!(
                        "Invalid column family specified in write batch: {id} is not open"
                    )));
                }
                last = Some(id);
                stamped = cf.filter(|cf| cf.icmp.timestamp_size() > 0);
            }
            if let Some(cf) = &stamped
                && let Ok(Some((_, entry))) = entry_of(&op)
            {
                check_stamped(&cf.icmp, entry.key, is_prepared)?;
                if entry.value_type == ValueType::RangeDeletion {
                    check_stamped(&cf.icmp, entry.value, is_prepared)?;
                }
            }
        }
        Ok(())
    }
}

impl Db {
    /// Refuses markers of transactions, and timed puts that the target version or a family cannot
    /// have.
    #[cold]
    fn check_special(&self, batch: &WriteBatch) -> Result<()> {
        if batch.content().transaction_markers {
            return Err(Error::invalid_argument("markers of transactions are written by transactions only"));
        }
        let engine = self.engine();
        engine.options.compatible_with.require(Feature::TimedPut)?;
        let timed = batch.iter().filter(|op| matches!(op, BatchOp::TimedPut { .. }));
        let mut families = timed.filter_map(|op| engine.families.by_id(op.family()?));
        if families.any(|cf| cf.icmp.timestamp_size() > 0) {
            let what = "TimedPut is not supported in combination with user-defined timestamps.";
            return Err(Error::not_supported(what));
        }
        Ok(())
    }
}

fn check_range(family: &ColumnFamilyHandle, begin: &[u8], end: &[u8]) -> Result<()> {
    if family.cf.icmp.compare_user_keys(begin, end).is_gt() { Err(inverted_range()) } else { Ok(()) }
}

#[cold]
fn inverted_range() -> Error {
    Error::invalid_argument("end key comes before start key")
}

/// A key as a family with user-defined timestamps stores it.
fn with_timestamp(family: &ColumnFamilyHandle, key: &[u8], timestamp: &[u8]) -> Result<Vec<u8>> {
    let size = family.cf.icmp.timestamp_size();
    if size == 0 || timestamp.len() != size {
        return Err(Error::invalid_argument(format!(
            "column family '{}' has timestamps of {size} bytes, not of {}",
            family.name(),
            timestamp.len()
        )));
    }
    check_timestamp(&family.cf.icmp, timestamp)?;
    Ok([key, timestamp].concat())
}

/// Checks the timestamp of a key in a batch for a family with timestamps.
fn check_stamped(icmp: &InternalKeyComparator, user_key: &[u8], is_prepared: bool) -> Result<()> {
    if user_key.len() < icmp.timestamp_size() {
        return Err(timestamp_wanted());
    }
    if is_prepared { Ok(()) } else { check_timestamp(icmp, icmp.split_timestamp(user_key).1) }
}

/// Checks that `timestamp` lies between the comparator's oldest and newest: reads would miss one
/// beyond them.
/// # Errors
/// `InvalidArgument`: `timestamp` is beyond them.
pub(crate) fn check_timestamp(icmp: &InternalKeyComparator, timestamp: &[u8]) -> Result<()> {
    if icmp.compare_timestamps(timestamp, icmp.max_timestamp()).is_gt()
        || icmp.compare_timestamps(timestamp, icmp.min_timestamp()).is_lt()
    {
        let what = "a timestamp is beyond the comparator's min_timestamp or max_timestamp";
        return Err(Error::invalid_argument(what));
    }
    Ok(())
}

/// Checks that the family can merge operands.
/// # Errors
/// `NotSupported` if the family has no operator, so that no read could merge the operands. A
/// family's operator stays the same while it is open.
fn check_can_merge(cf: &ColumnFamily) -> Result<()> {
    let guard = epoch::pin();
    if cf.super_version.load(&guard).options.merge_operator.is_some() {
        return Ok(());
    }
    Err(Error::not_supported(format!("column family '{}' has no merge_operator: open it with one", cf.name)))
}

#[cold]
pub(super) fn timestamp_wanted() -> Error {
    Error::invalid_argument("keys of this column family have timestamps: write with one")
}
