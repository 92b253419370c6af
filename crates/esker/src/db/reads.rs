//! Point reads and snapshots.

use super::{ColumnFamilyHandle, Db};
use crate::options::{PLAIN, ReadOptions, ReadTier};
use crate::snapshot::{Holder, Snapshot};
use esker_base::{PinnedBytes, Result, SequenceNumber};

impl Db {
    /// The value of `key` in the default family, copied.
    /// # Errors
    /// As [`Db::get_pinned_opt`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        Ok(self.get_pinned(key)?.map(|value| value.to_vec()))
    }

    /// The value of `key` in `family`, copied.
    /// # Errors
    /// As [`Db::get_pinned_opt`].
    pub fn get_cf(&self, family: &ColumnFamilyHandle, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_opt(&PLAIN, family, key)
    }

    /// The value of `key` in `family`, copied.
    /// # Errors
    /// As [`Db::get_pinned_opt`].
    pub fn get_opt(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        Ok(self.get_pinned_opt(options, family, key)?.map(|value| value.to_vec()))
    }

    /// The value of `key` in the default family, without copying it.
    /// # Errors
    /// As [`Db::get_pinned_opt`].
    pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedBytes>> {
        let family = self.engine().families.default_family();
        self.inner.get(&PLAIN, family, key.as_ref())
    }

    /// The value of `key` in `family`, or `None`. The value is not copied: it keeps its block or
    /// memtable alive, whatever happens to the database, until it is dropped.
    /// # Errors
    /// `Corruption` and `IoError` name the file and offset · `Incomplete` if `read_tier` forbids
    /// the I/O it would take · `InvalidArgument` for merge operands in a family without merge
    /// operator, and for a snapshot or family of another database · `NotSupported` for what only a
    /// newer version can read, and in a forked child of the process that opened the database.
    pub fn get_pinned_opt(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<PinnedBytes>> {
        self.inner.get(options, &family.cf, key.as_ref())
    }

    /// In a family with user-defined timestamps: the value of `key` as of `ReadOptions::timestamp`,
    /// and the timestamp it was written with.
    /// # Errors
    /// As [`Db::get_pinned_opt`]; `InvalidArgument` if the family has no timestamps, the timestamp
    /// is missing or of another size, or older than what the family still keeps.
    pub fn get_with_timestamp(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<(PinnedBytes, Vec<u8>)>> {
        self.inner.get_timestamped(options, &family.cf, key.as_ref())
    }

    /// Whether `key` is certainly absent (`false`), judging by memtables, filters and cached blocks
    /// only.
    pub fn key_may_exist(&self, family: &ColumnFamilyHandle, key: impl AsRef<[u8]>) -> bool {
        let options = ReadOptions { read_tier: ReadTier::BlockCache, ..ReadOptions::default() };
        !matches!(self.inner.get(&options, &family.cf, key.as_ref()), Ok(None))
    }

    /// The state of now, readable until the last clone of the snapshot is dropped. Keeps old
    /// versions from being compacted away meanwhile.
    pub fn snapshot(&self) -> Snapshot {
        self.inner.hold_now(Holder::User)
    }

    /// # Errors
    /// `InvalidArgument` if `family` is one of another database.
    pub(crate) fn check_family(&self, family: &ColumnFamilyHandle) -> Result<()> {
        self.inner.check_family(&family.cf)
    }

    /// The newest sequence number that reads see.
    pub fn latest_sequence_number(&self) -> SequenceNumber {
        self.engine().visible_sequence()
    }
}

#[cfg(test)]
mod tests;
