//! Commit timestamps: transactions in families with user-defined timestamps of 8 bytes.
//!
//! In: keys without timestamps. Out: the same with the timestamp that is set before the commit.
//!
//! Invariants
//!  1. In the batch, and in a prepared section, such keys end in [`NO_TIMESTAMP`]; locks and the index know them without.
//!  2. What is committed has the commit timestamp in all such families: the batch is written with it, or the commit's
//!     record carries it, and whoever replays that puts it in.
//!  3. With a read timestamp and `enable_udt_validation`, a key is locked only if nobody has written it at a newer one, and
//!     the commit timestamp is newer than it.
//!
//! Source of the semantics: RocksDB `utilities/transactions/{pessimistic_transaction,transaction_util}.cc`.

use super::batch_index::{OwnState, WriteBatchWithIndex};
use super::pessimistic::{Core, Transaction};
use crate::db::{ColumnFamilyHandle, Db};
use crate::options::ReadOptions;
use crate::wal::stamped;
use esker_base::{Error, PinnedBytes, Result, SequenceNumber};
use esker_format::write_batch::WriteBatch;
use std::borrow::Cow;

/// Bytes of the timestamps that transactions know.
pub(super) const TIMESTAMP_BYTES: usize = 8;

/// What keys end in until the commit.
const NO_TIMESTAMP: [u8; TIMESTAMP_BYTES] = [0; TIMESTAMP_BYTES];

/// A timestamp that is not set: RocksDB's `kMaxTxnTimestamp`.
pub(super) const UNSET: u64 = u64::MAX;

impl Transaction {
    /// The timestamp of everything that it writes to families with user-defined timestamps, from the commit on; needed
    /// before that if it has written to one. May be set again, also of a prepared transaction; `u64::MAX` is none.
    /// # Errors
    /// `InvalidArgument`: not newer than the read timestamp, with `enable_udt_validation`.
    pub fn set_commit_timestamp(&mut self, timestamp: u64) -> Result<()> {
        let validates = self.shared().options.enable_udt_validation;
        let core = self.core_mut();
        if validates && core.read_timestamp != UNSET && timestamp <= core.read_timestamp {
            return Err(Error::invalid_argument(
                "Cannot commit at timestamp smaller than or equal to read timestamp",
            ));
        }
        core.commit_timestamp = timestamp;
        Ok(())
    }

    /// The timestamp set by [`Transaction::set_commit_timestamp`].
    pub fn commit_timestamp(&self) -> Option<u64> {
        Some(self.core().commit_timestamp).filter(|&timestamp| timestamp != UNSET)
    }

    /// The timestamp as of which keys are read for update. Keys of families with user-defined timestamps are locked only if
    /// nobody has written them at a newer one; `u64::MAX` is none.
    /// # Errors
    /// `InvalidArgument`: older than the one that is set; or not older than the commit timestamp, if that is set, with
    /// `enable_udt_validation`.
    pub fn set_read_timestamp_for_validation(&mut self, timestamp: u64) -> Result<()> {
        let validates = self.shared().options.enable_udt_validation;
        let core = self.core_mut();
        if core.read_timestamp != UNSET && timestamp < core.read_timestamp {
            return Err(Error::invalid_argument("Cannot decrease read timestamp for validation"));
        }
        let commits = core.commit_timestamp != UNSET && timestamp != UNSET;
        if validates && commits && core.commit_timestamp <= timestamp {
            return Err(Error::invalid_argument(
                "Cannot read for validation at a timestamp that is not older than the commit timestamp",
            ));
        }
        core.read_timestamp = timestamp;
        Ok(())
    }

    /// Whether `key` may be read for update as of the timestamps of this transaction and of `options`.
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

    /// [`Transaction::read_options`] of a key that was locked for that.
    pub(super) fn update_options(&self, options: &ReadOptions, family: &ColumnFamilyHandle) -> ReadOptions {
        let mut options = self.read_options(options);
        if has_timestamps(family) {
            options.timestamp = Some(self.core().read_timestamp.to_le_bytes().to_vec());
        }
        options
    }

    /// The value of `key` with own writes; in a family with timestamps as of that of `options`.
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
        batch.get_pinned(self.db(), options, family, key)
    }

    /// [`Transaction::read_own`] of many keys, all as of the same moment.
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

    /// Whether `key` of a family with timestamps was written since the snapshot, or at a timestamp newer than the one read.
    pub(super) fn timestamped_conflict(&self, family: &ColumnFamilyHandle, key: &[u8]) -> Result<bool> {
        let core = self.core();
        let since = core.snapshot_sequence().unwrap_or(SequenceNumber::MAX);
        let validates = self.shared().options.enable_udt_validation && core.read_timestamp != UNSET;
        let timestamp = validates.then(|| core.read_timestamp.to_le_bytes());
        self.db().timestamped_written_since(family, key, since, timestamp.as_ref().map(<[u8; 8]>::as_slice))
    }
}

impl Core {
    /// The timestamp that is to be put into the batch; `None` if none of its keys has one.
    /// # Errors
    /// `InvalidArgument`: there are such keys, and no commit timestamp.
    pub(super) fn stamp(&self, db: &Db) -> Result<Option<[u8; TIMESTAMP_BYTES]>> {
        if !self.may_have_timestamps || !is_timestamped(db, self.batch.write_batch()) {
            return Ok(None);
        }
        match self.commit_timestamp {
            UNSET => Err(Error::invalid_argument("Must assign a commit timestamp")),
            timestamp => Ok(Some(timestamp.to_le_bytes())),
        }
    }

    /// The batch as it is to be written at this timestamp.
    pub(super) fn stamped_batch(&self, db: &Db, timestamp: [u8; TIMESTAMP_BYTES]) -> Result<WriteBatch> {
        stamped(self.batch.write_batch(), &timestamp, &|id| db.engine().timestamp_size(id) > 0)
    }
}

impl WriteBatchWithIndex {
    /// What `key` of a family with timestamps would be if a transaction's batch were written: its own writes, whatever the
    /// timestamp, then the database as of that of `options`.
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
        let merged = operands.merge_newest_first(operator.as_ref(), key, base.as_deref())?;
        Ok(Some(PinnedBytes::from(merged)))
    }
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

/// What has no form without a timestamp.
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
