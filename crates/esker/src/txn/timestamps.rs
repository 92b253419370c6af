//! Commit timestamps: transactions in families with user-defined timestamps of 8 bytes.
//!
//! In: keys without timestamps. Out: the same with the timestamp that is set before the commit.
//!
//! Invariants
//!  1. In the batch, and in a prepared section, such keys end in [`NO_TIMESTAMP`]. Locks and the
//!     index have the keys without timestamps.
//!  2. Committed keys have the commit timestamp in all such families. The batch is written with it,
//!     or the commit's record carries it and the replay puts it in.
//!  3. With a read timestamp and `enable_udt_validation`, a key is locked only if it has no newer
//!     version, and the commit timestamp is newer than the read timestamp.
//!  4. A family's comparator orders timestamps, so families may differ on which is newer. A setter
//!     refuses a timestamp only if it is on the wrong side in every family. The commit checks the
//!     families that the transaction has written to.
//!
//! Source of the semantics: RocksDB
//! `utilities/transactions/{pessimistic_transaction,transaction_util}.cc`.

use super::batch_index::{OwnState, WriteBatchWithIndex, shown_value};
use super::options::WritePolicy;
use super::pessimistic::{PessimisticCore, Transaction};
use crate::db::{ColumnFamilyHandle, Db, check_timestamp};
use crate::merge::operands::{MergedValue, StoredBase, merges_columns};
use crate::options::{ColumnFamilyOptions, ReadOptions};
use crate::wal::stamped;
use esker_base::{Error, PinnedBytes, Result, SequenceNumber};
use esker_format::key::InternalKeyComparator;
use esker_format::wide_column;
use esker_format::write_batch::WriteBatch;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Size of the timestamps that transactions support, in bytes.
pub(super) const TIMESTAMP_BYTES: usize = 8;

/// The timestamp that keys carry until the commit.
const NO_TIMESTAMP: [u8; TIMESTAMP_BYTES] = [0; TIMESTAMP_BYTES];

/// A timestamp that is not set: RocksDB's `kMaxTxnTimestamp`.
pub(super) const UNSET: u64 = u64::MAX;

const COMMIT_NOT_NEWER: &str = "Cannot commit at timestamp smaller than or equal to read timestamp";

impl Transaction {
    /// Sets the timestamp of everything that the transaction writes to families with user-defined
    /// timestamps. A commit that writes to one needs it. May be set again, also for a prepared
    /// transaction; `u64::MAX` means none.
    ///
    /// Keys then end in the timestamp, as eight little-endian bytes.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;
    /// use esker::comparator::BytewiseComparatorWithU64Ts;
    /// use std::sync::Arc;
    ///
    /// let stamped = esker::ColumnFamilyOptions::new().comparator(Arc::new(BytewiseComparatorWithU64Ts));
    /// let prices = db.create_column_family("prices", &stamped)?;
    /// let txn = db.begin_transaction();
    /// txn.set_read_timestamp_for_validation(10)?;
    /// txn.put_cf(&prices, "gravel", "3")?;
    /// txn.set_commit_timestamp(20)?;
    /// assert_eq!(txn.commit_timestamp(), Some(20));
    /// txn.commit()?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument` with `enable_udt_validation`: in no family it is newer than the read
    /// timestamp.
    pub fn set_commit_timestamp(&self, timestamp: u64) -> Result<()> {
        let validates = self.shared().options.enable_udt_validation;
        let read = self.core().read_timestamp;
        let checks = validates && read != UNSET && timestamp != UNSET;
        if checks && !self.may_be_newer(timestamp, read) {
            return Err(Error::invalid_argument(COMMIT_NOT_NEWER));
        }
        self.core_mut().commit_timestamp = timestamp;
        Ok(())
    }

    /// Whether any family's comparator takes `a` for newer than `b`; without such families the
    /// larger number is newer.
    fn may_be_newer(&self, a: u64, b: u64) -> bool {
        let families = self.db().engine().families.all();
        let mut stamped = families.iter().filter(|cf| cf.icmp.timestamp_size() == TIMESTAMP_BYTES).peekable();
        if stamped.peek().is_none() {
            return a > b;
        }
        stamped.any(|cf| is_newer(&cf.icmp, a, b))
    }

    /// The timestamp set by [`Transaction::set_commit_timestamp`].
    pub fn commit_timestamp(&self) -> Option<u64> {
        Some(self.core().commit_timestamp).filter(|&timestamp| timestamp != UNSET)
    }

    /// Sets the timestamp at which keys are read for update. A key of a family with user-defined
    /// timestamps is locked only if it has no write with a newer timestamp; `u64::MAX` means none.
    /// # Errors
    /// `InvalidArgument`: in every family the new timestamp is older than the one set before; with
    /// `enable_udt_validation`, in no family it is older than the commit timestamp.
    pub fn set_read_timestamp_for_validation(&self, timestamp: u64) -> Result<()> {
        let validates = self.shared().options.enable_udt_validation;
        let PessimisticCore { read_timestamp: read, commit_timestamp: commit, .. } = *self.core();
        let goes_back = read != UNSET && timestamp != UNSET && timestamp != read;
        if goes_back && !self.may_be_newer(timestamp, read) {
            return Err(Error::invalid_argument("Cannot decrease read timestamp for validation"));
        }
        let commits = commit != UNSET && timestamp != UNSET;
        if validates && commits && !self.may_be_newer(commit, timestamp) {
            return Err(Error::invalid_argument(
                "Cannot read for validation at a timestamp that is not older than the commit timestamp",
            ));
        }
        self.core_mut().read_timestamp = timestamp;
        Ok(())
    }

    /// Checks whether `key` may be read for update at the timestamps of this transaction and of
    /// `options`.
    pub(super) fn check_read_timestamp(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        do_validate: bool,
    ) -> Result<()> {
        if !has_timestamps(family) {
            return Ok(());
        }
        let timestamp = self.core().read_timestamp;
        let is_set = timestamp != UNSET;
        let wrong = if !self.shared().options.enable_udt_validation {
            is_set.then_some("read_timestamp is set, but enable_udt_validation is off")
        } else if do_validate {
            (!is_set).then_some("read_timestamp must be set for validation")
        } else {
            is_set.then_some("with a read_timestamp, GetForUpdate validates: do_validate is false")
        };
        let other = options.timestamp.as_ref().is_some_and(|other| *other != timestamp.to_le_bytes());
        match wrong.or(other.then_some("Must read from the same read_timestamp")) {
            Some(wrong) => Err(Error::invalid_argument(wrong)),
            None => Ok(()),
        }
    }

    /// [`Transaction::read_options`] for a read for update: in a family with timestamps, at the
    /// read timestamp.
    pub(super) fn update_options(&self, options: &ReadOptions, family: &ColumnFamilyHandle) -> ReadOptions {
        let mut options = self.read_options(options);
        if has_timestamps(family) {
            options.timestamp = Some(self.core().read_timestamp.to_le_bytes().to_vec());
        }
        options
    }

    /// The value of `key` with own writes; in a family with timestamps, at the timestamp of
    /// `options`.
    pub(super) fn read_own(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: &[u8],
    ) -> Result<Option<PinnedBytes>> {
        let batch = &self.core().batch;
        if has_timestamps(family) {
            return batch.get_timestamped(self.db(), options, family, key);
        }
        batch.get_pinned_from_batch_and_db(self.db(), options, family, key)
    }

    /// [`Transaction::read_own`] of many keys, all as of the same point in time.
    pub(super) fn read_own_batch(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        keys: &[impl AsRef<[u8]>],
    ) -> Vec<Result<Option<PinnedBytes>>> {
        if !has_timestamps(family) {
            return self.core().batch.multi_get_from_batch_and_db(self.db(), options, family, keys);
        }
        let mut options = options.clone();
        options.snapshot.get_or_insert_with(|| self.db().snapshot());
        keys.iter().map(|key| self.read_own(&options, family, key.as_ref())).collect()
    }

    /// Whether `key` of a family with timestamps was written since the snapshot, or at a timestamp
    /// newer than that of the version read.
    pub(super) fn timestamped_conflict(
        &self,
        core: &PessimisticCore,
        family: &ColumnFamilyHandle,
        key: &[u8],
    ) -> Result<bool> {
        let since = core.snapshot_sequence().unwrap_or(SequenceNumber::MAX);
        let validates = self.shared().options.enable_udt_validation && core.read_timestamp != UNSET;
        let timestamp = validates.then(|| core.read_timestamp.to_le_bytes());
        self.db().timestamped_written_since(family, key, since, timestamp.as_ref().map(<[u8; 8]>::as_slice))
    }
}

impl PessimisticCore {
    /// The timestamp to put into the batch; `None` if none of its keys has one.
    /// # Errors
    /// `InvalidArgument`: the batch has such keys and there is no commit timestamp; or, with
    /// `validates`, the commit timestamp is not newer than the read timestamp in a family that the
    /// batch writes to.
    pub(super) fn stamp(&self, db: &Db, validates: bool) -> Result<Option<[u8; TIMESTAMP_BYTES]>> {
        if !self.may_have_timestamps {
            return Ok(None);
        }
        let ids: BTreeSet<_> = self.batch.write_batch().iter().filter_map(|op| op.family()).collect();
        let families = ids.into_iter().filter_map(|id| db.engine().families.by_id(id));
        let stamped: Vec<_> = families.filter(|cf| cf.icmp.timestamp_size() > 0).collect();
        if stamped.is_empty() {
            return Ok(None);
        }
        let (commit, read) = (self.commit_timestamp, self.read_timestamp);
        if commit == UNSET {
            return Err(Error::invalid_argument("Must assign a commit timestamp"));
        }
        for cf in &stamped {
            check_timestamp(&cf.icmp, &commit.to_le_bytes())?;
        }
        let checks = validates && read != UNSET;
        if checks && let Some(cf) = stamped.iter().find(|cf| !is_newer(&cf.icmp, commit, read)) {
            return Err(Error::invalid_argument(COMMIT_NOT_NEWER).at(format!("column family '{}'", cf.name)));
        }
        Ok(Some(commit.to_le_bytes()))
    }

    /// The batch with this timestamp in its keys.
    pub(super) fn stamped_batch(&self, db: &Db, timestamp: [u8; TIMESTAMP_BYTES]) -> Result<WriteBatch> {
        stamped(self.batch.write_batch(), &timestamp, &|id| db.engine().timestamp_size(id) > 0)
    }
}

impl WriteBatchWithIndex {
    /// The value that `key` of a family with timestamps would have if a transaction's batch were
    /// written. Own writes count at any timestamp, then the database at the timestamp of `options`.
    fn get_timestamped(
        &self,
        db: &Db,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: &[u8],
    ) -> Result<Option<PinnedBytes>> {
        if options.timestamp.as_ref().is_none_or(|timestamp| timestamp.len() != TIMESTAMP_BYTES) {
            return Err(Error::invalid_argument("Must specify timestamp, of 8 bytes"));
        }
        let state = match self.own(family.id(), &family.cf.icmp)? {
            Some(own) => OwnState::of(&own, key)?,
            None => return db.get_pinned_opt(options, family, key),
        };
        let OwnState { base, operands } = state;
        if operands.is_empty() && base.is_none() {
            return db.get_pinned_opt(options, family, key);
        }
        let base = match base {
            Some(base) => base.map(PinnedBytes::from),
            None => db.get_pinned_opt(options, family, key)?,
        };
        if operands.is_empty() {
            return Ok(base);
        }
        let operator = family.cf.super_version.load_full().options.merge_operator.clone();
        if merges_columns(operator.as_ref()) {
            let base = self.stored_base(db, options, family, key)?;
            let base = base.as_ref().map_or(StoredBase::Nothing, MergedValue::as_base);
            let merged = operands.merge_columns_newest_first(operator.as_ref(), key, base)?;
            return Ok(Some(PinnedBytes::from(merged.into_value()?)));
        }
        let merged = operands.merge_newest_first(operator.as_ref(), key, base.as_deref())?;
        Ok(Some(PinnedBytes::from(merged)))
    }
}

impl WriteBatchWithIndex {
    /// The value or entity below the own operands of `key`, in a family with timestamps. An entity
    /// of the database with no more than a default column counts as a plain value.
    #[cold]
    fn stored_base(
        &self,
        db: &Db,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: &[u8],
    ) -> Result<Option<MergedValue>> {
        if let Some(own) = self.own(family.id(), &family.cf.icmp)?
            && let Some(base) = OwnState::shown_by(&own, key, shown_value)?.base
        {
            return Ok(base);
        }
        let Some(columns) = db.get_entity(options, family, key)? else { return Ok(None) };
        let columns: Vec<(&[u8], &[u8])> = columns.iter().collect();
        if let [(b"", value)] = columns[..] {
            return Ok(Some(MergedValue::Plain(value.to_vec())));
        }
        let mut entity = Vec::new();
        wide_column::serialize(&columns, &mut entity)?;
        Ok(Some(MergedValue::Entity(entity)))
    }
}

/// Whether the comparator takes timestamp `a` for newer than `b`.
fn is_newer(icmp: &InternalKeyComparator, a: u64, b: u64) -> bool {
    icmp.compare_timestamps(&a.to_le_bytes(), &b.to_le_bytes()).is_gt()
}

/// Whether keys of `family` have timestamps.
pub(super) fn has_timestamps(family: &ColumnFamilyHandle) -> bool {
    family.cf.icmp.timestamp_size() > 0
}

/// Whether `batch` writes to a family with timestamps.
pub(super) fn is_timestamped(db: &Db, batch: &WriteBatch) -> bool {
    batch.iter().filter_map(|op| op.family()).any(|id| db.engine().timestamp_size(id) > 0)
}

/// The key as the batch of a transaction has it.
pub(super) fn stored<'k>(family: &ColumnFamilyHandle, key: &'k [u8]) -> Cow<'k, [u8]> {
    if has_timestamps(family) { Cow::Owned([key, &NO_TIMESTAMP].concat()) } else { Cow::Borrowed(key) }
}

/// The error for an operation that has no form without a timestamp.
/// # Errors
/// `InvalidArgument` if `family` has timestamps.
pub(super) fn refuse_timestamps(family: &ColumnFamilyHandle, what: &str) -> Result<()> {
    if !has_timestamps(family) {
        return Ok(());
    }
    Err(Error::invalid_argument(format!(
        "column family '{}' has user-defined timestamps: transactions have no {what} there",
        family.name()
    )))
}

/// Checks that transactions can commit in a family with these timestamps.
/// # Errors
/// `InvalidArgument` for timestamps at which no transaction can commit · `NotSupported`: only
/// `WriteCommitted` commits at timestamps.
pub(super) fn check_timestamps(name: &str, options: &ColumnFamilyOptions, policy: WritePolicy) -> Result<()> {
    match options.comparator.timestamp_size() {
        0 => Ok(()),
        TIMESTAMP_BYTES if policy == WritePolicy::WriteCommitted => Ok(()),
        TIMESTAMP_BYTES => Err(Error::not_supported(format!(
            "write_policy: column family '{name}' has timestamps, which only WriteCommitted supports"
        ))),
        size => Err(Error::invalid_argument(format!(
            "column family '{name}' has timestamps of {size} bytes: those of transactions have {TIMESTAMP_BYTES}"
        ))),
    }
}
