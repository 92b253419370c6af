//! Transactions without locks: at commit nothing they touched may have been written by others.
//!
//! Invariants
//!  1. What is written, read for update, or with `Serializable` read, is remembered with a sequence
//!     number up to which it was looked at; before the read, so that what came in between is found.
//!  2. Commit looks whether anything of it was written since, as the write leader: everything
//!     before is in memtables, and nothing comes in between.
//!  3. What memtables cannot tell any more is `TryAgain`, never a guess.
//!
//! Source of the semantics: RocksDB `utilities/transactions/optimistic_transaction.cc`.

use super::batch_index::{WriteBatchWithIndex, no_timestamps};
use super::options::{IsolationLevel, OptimisticTransactionOptions};
use crate::db::{ColumnFamilyDescriptor, ColumnFamilyHandle, Db, OpenMode};
use crate::options::{DbOptions, Options, WriteOptions};
use crate::snapshot::Snapshot;
use esker_base::{ColumnFamilyId, Error, Result, SequenceNumber};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;

/// A database with transactions that check at commit. Cloning gives another handle to the same one.
/// What is written past transactions counts as written by others.
#[derive(Clone, Debug)]
pub struct OptimisticTransactionDb {
    db: Db,
}

impl OptimisticTransactionDb {
    /// Opens the database in `path` with its default family only.
    /// # Errors
    /// As [`Db::open`].
    pub fn open(options: &Options, path: impl AsRef<Path>) -> Result<OptimisticTransactionDb> {
        let default = ColumnFamilyDescriptor::new("default", options.cf.clone());
        OptimisticTransactionDb::open_cf(&options.db, path, vec![default])
    }

    /// Opens the database in `path` with these families, which must be all it has. As in RocksDB, a
    /// family whose options say nothing keeps flushed memtables, as many bytes as its write buffers
    /// have, to check for conflicts (`max_write_buffer_size_to_maintain` becomes -1).
    /// # Errors
    /// As [`Db::open_cf`].
    pub fn open_cf(
        options: &DbOptions,
        path: impl AsRef<Path>,
        mut families: Vec<ColumnFamilyDescriptor>,
    ) -> Result<OptimisticTransactionDb> {
        for family in &mut families {
            if family.options.max_write_buffer_size_to_maintain == 0 {
                family.options.max_write_buffer_size_to_maintain = -1;
            }
        }
        Ok(OptimisticTransactionDb { db: Db::open_with(options, path, families, OpenMode::ReadWrite)? })
    }

    /// The database itself: reads, writes, flushes, compactions, properties.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Begins a transaction. Dropping it rolls it back.
    pub fn begin_transaction(
        &self,
        write_options: &WriteOptions,
        options: &OptimisticTransactionOptions,
    ) -> OptimisticTransaction {
        let mut transaction = OptimisticTransaction {
            db: self.db.clone(),
            write_options: *write_options,
            isolation: options.isolation,
            batch: WriteBatchWithIndex::default(),
            snapshot: None,
            snapshot_needed: false,
            reads_one_snapshot: false,
            touched: BTreeMap::new(),
            touched_since: Vec::new(),
            ranges: Vec::new(),
            families: BTreeMap::new(),
            save_points: Vec::new(),
            is_over: false,
        };
        if options.set_snapshot {
            transaction.set_snapshot();
        }
        transaction.start();
        transaction
    }
}

/// A range that was read or removed; `None` is an open end, both ends belong to it.
#[derive(Clone, Debug)]
struct Range {
    family: ColumnFamilyId,
    begin: Option<Vec<u8>>,
    end: Option<Vec<u8>>,
    since: SequenceNumber,
}

#[derive(Debug)]
struct SavePoint {
    snapshot: Option<Snapshot>,
    snapshot_needed: bool,
    /// How many entries of `touched_since` come before it.
    touched: usize,
    ranges: usize,
}

/// Several reads and writes that take effect together, if nobody has interfered. One thread at a
/// time.
#[derive(Debug)]
pub struct OptimisticTransaction {
    pub(super) db: Db,
    write_options: WriteOptions,
    pub(super) isolation: IsolationLevel,
    pub(super) batch: WriteBatchWithIndex,
    pub(super) snapshot: Option<Snapshot>,
    snapshot_needed: bool,
    /// All that was touched was looked at as of the snapshot that it has.
    reads_one_snapshot: bool,
    /// Keys, with the oldest sequence number since which they must not have been written.
    touched: BTreeMap<(ColumnFamilyId, Vec<u8>), SequenceNumber>,
    /// What `touched` said before, of each change to it since the first save point.
    touched_since: Vec<(ColumnFamilyId, Vec<u8>, Option<SequenceNumber>)>,
    ranges: Vec<Range>,
    families: BTreeMap<ColumnFamilyId, ColumnFamilyHandle>,
    save_points: Vec<SavePoint>,
    is_over: bool,
}

impl OptimisticTransaction {
    /// Stores `value` under `key` in the default family.
    /// # Errors
    /// As [`OptimisticTransaction::put_cf`].
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let family = self.db.default_column_family();
        self.put_cf(&family, key, value)
    }

    /// Stores `value` under `key` in `family`.
    /// # Errors
    /// For this and all that write: `InvalidArgument`: the transaction is over ·
    /// `ColumnFamilyDropped`.
    pub fn put_cf(
        &mut self,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.check_usable(family)?;
        self.touch(family, key.as_ref())?;
        self.batch.put(family.id(), key.as_ref(), value.as_ref())
    }

    /// [`OptimisticTransaction::put_cf`], whether or not others write the key.
    /// # Errors
    /// As [`OptimisticTransaction::put_cf`].
    pub fn put_untracked(
        &mut self,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.check_usable(family)?;
        self.batch.put(family.id(), key.as_ref(), value.as_ref())
    }

    /// Removes `key` from the default family.
    /// # Errors
    /// As [`OptimisticTransaction::put_cf`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let family = self.db.default_column_family();
        self.delete_cf(&family, key)
    }

    /// Removes `key` from `family`.
    /// # Errors
    /// As [`OptimisticTransaction::put_cf`].
    pub fn delete_cf(&mut self, family: &ColumnFamilyHandle, key: impl AsRef<[u8]>) -> Result<()> {
        self.check_usable(family)?;
        self.touch(family, key.as_ref())?;
        self.batch.delete(family.id(), key.as_ref())
    }

    /// Removes `key`, which was put exactly once since its last deletion.
    /// # Errors
    /// As [`OptimisticTransaction::put_cf`].
    pub fn single_delete_cf(&mut self, family: &ColumnFamilyHandle, key: impl AsRef<[u8]>) -> Result<()> {
        self.check_usable(family)?;
        self.touch(family, key.as_ref())?;
        self.batch.single_delete(family.id(), key.as_ref())
    }

    /// Adds an operand to `key` for the family's merge operator.
    /// # Errors
    /// As [`OptimisticTransaction::put_cf`].
    pub fn merge_cf(
        &mut self,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.check_usable(family)?;
        self.touch(family, key.as_ref())?;
        self.batch.merge(family.id(), key.as_ref(), operand.as_ref())
    }

    /// Removes the keys of `family` from `begin` up to `end`, exclusive. Nobody may write there, or
    /// `end`, until it commits.
    /// # Errors
    /// As [`OptimisticTransaction::put_cf`] · `InvalidArgument` if `end` comes before `begin`.
    pub fn delete_range_cf(
        &mut self,
        family: &ColumnFamilyHandle,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (begin, end) = (begin.as_ref(), end.as_ref());
        self.check_usable(family)?;
        if family.cf.icmp.compare_user_keys(begin, end).is_gt() {
            return Err(Error::invalid_argument("end key comes before start key"));
        }
        self.touch_range(family, (Some(begin.to_vec()), Some(end.to_vec())))?;
        self.batch.delete_range(family.id(), begin, end)
    }

    /// Sets the snapshot to now: what is touched from now on must not have been written since.
    pub fn set_snapshot(&mut self) {
        let snapshot = self.db.snapshot();
        self.change_snapshot(Some(snapshot), false);
    }

    /// The next operation sets the snapshot.
    pub fn set_snapshot_on_next_operation(&mut self) {
        self.snapshot_needed = true;
    }

    /// The snapshot, if one is set.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    /// Forgets the snapshot.
    pub fn clear_snapshot(&mut self) {
        self.change_snapshot(None, false);
    }

    fn change_snapshot(&mut self, snapshot: Option<Snapshot>, snapshot_needed: bool) {
        self.reads_one_snapshot = snapshot.is_some() && self.touched.is_empty() && self.ranges.is_empty();
        self.snapshot = snapshot;
        self.snapshot_needed = snapshot_needed;
    }

    /// Sets the snapshot that the isolation level begins with, if nothing else has.
    fn start(&mut self) {
        if self.isolation != IsolationLevel::ReadCommitted && self.snapshot.is_none() {
            self.set_snapshot();
        }
    }

    /// Remembers what is written and touched now. Save points nest.
    pub fn set_save_point(&mut self) {
        self.batch.set_save_point();
        self.save_points.push(SavePoint {
            snapshot: self.snapshot.clone(),
            snapshot_needed: self.snapshot_needed,
            touched: self.touched_since.len(),
            ranges: self.ranges.len(),
        });
    }

    /// Forgets what was written and touched since the newest save point, which is gone. With
    /// `Serializable` what was touched stays so: what was read is known to whoever read it.
    /// # Errors
    /// `NotFound` if there is none.
    pub fn rollback_to_save_point(&mut self) -> Result<()> {
        let point = self.save_points.pop().ok_or_else(no_save_point)?;
        self.batch.rollback_to_save_point()?;
        if self.isolation != IsolationLevel::Serializable {
            while self.touched_since.len() > point.touched {
                let Some((family, key, before)) = self.touched_since.pop() else { break };
                match before {
                    Some(since) => self.touched.insert((family, key), since),
                    None => self.touched.remove(&(family, key)),
                };
            }
            self.ranges.truncate(point.ranges);
        }
        let sequence = |snapshot: &Option<Snapshot>| snapshot.as_ref().map(Snapshot::sequence);
        if sequence(&self.snapshot) != sequence(&point.snapshot) {
            self.change_snapshot(point.snapshot, point.snapshot_needed);
        }
        self.snapshot_needed = point.snapshot_needed;
        self.forget_changes();
        Ok(())
    }

    /// Forgets the newest save point.
    /// # Errors
    /// `NotFound` if there is none.
    pub fn pop_save_point(&mut self) -> Result<()> {
        self.save_points.pop().ok_or_else(no_save_point)?;
        self.forget_changes();
        self.batch.pop_save_point()
    }

    /// Without save points nobody asks what was touched when.
    fn forget_changes(&mut self) {
        if self.save_points.is_empty() {
            self.touched_since.clear();
        }
    }

    /// What it has written so far.
    pub fn write_batch(&self) -> &WriteBatchWithIndex {
        &self.batch
    }

    /// Writes everything to the database, as one, if nothing that was touched has been written by
    /// others.
    /// # Errors
    /// `Busy`: something has; roll back and start anew · `TryAgain`: memtables cannot tell any
    /// more: likewise (`max_write_buffer_size_to_maintain`) · `InvalidArgument`: it is over · as
    /// [`Db::write`].
    pub fn commit(&mut self) -> Result<()> {
        if self.is_over {
            return Err(over());
        }
        let (db, touched, ranges) = (&self.db, &self.touched, &self.ranges);
        let families = &self.families;
        let mut validate = || {
            for ((id, key), since) in touched {
                if db.written_since(&families[id], key, *since, false)? {
                    return Err(conflict(&families[id], format_args!("key '{}'", key.escape_ascii())));
                }
            }
            for range in ranges {
                let bounds = (range.begin.as_deref(), range.end.as_deref());
                if db.range_written_since(&families[&range.family], bounds, range.since, false)? {
                    let (begin, end) = (bound_text(bounds.0), bound_text(bounds.1));
                    let what = format_args!("a key from {begin} to {end}");
                    return Err(conflict(&families[&range.family], what));
                }
            }
            Ok(())
        };
        if !self.batch.is_empty() {
            db.write_if(&self.write_options, self.batch.write_batch_mut(), &mut validate)?;
        } else if self.isolation != IsolationLevel::Serializable || !self.reads_one_snapshot {
            validate()?;
        } // else it wrote nothing and read one snapshot: it comes at its place among the others, in any case

        self.clear();
        self.is_over = true;
        Ok(())
    }

    /// Forgets everything; it is as if it had just begun: without a snapshot, or with a new one if
    /// its isolation level has one.
    /// # Errors
    /// `InvalidArgument`: it is over.
    pub fn rollback(&mut self) -> Result<()> {
        if self.is_over {
            return Err(over());
        }
        self.clear();
        self.start();
        Ok(())
    }

    fn clear(&mut self) {
        self.batch.clear();
        self.touched.clear();
        self.touched_since.clear();
        self.ranges.clear();
        self.save_points.clear();
        self.clear_snapshot();
    }

    pub(super) fn check_usable(&self, family: &ColumnFamilyHandle) -> Result<()> {
        if self.is_over {
            return Err(over());
        }
        if family.cf.icmp.timestamp_size() > 0 {
            return Err(no_timestamps(family));
        }
        family.check_live(&self.db)
    }

    /// Since when what is touched now must not have been written.
    fn since(&mut self) -> SequenceNumber {
        if self.snapshot_needed {
            self.set_snapshot();
        }
        self.snapshot.as_ref().map_or_else(|| self.db.latest_sequence_number(), Snapshot::sequence)
    }

    /// # Errors
    /// `InvalidArgument` for a family of another database: it would pass for that of ours with the
    /// same id.
    pub(super) fn touch(&mut self, family: &ColumnFamilyHandle, key: &[u8]) -> Result<()> {
        self.db.check_family(family)?;
        let since = self.since();
        self.families.entry(family.id()).or_insert_with(|| family.clone());
        let before = match self.touched.entry((family.id(), key.to_vec())) {
            Entry::Occupied(oldest) if *oldest.get() <= since => return Ok(()),
            Entry::Occupied(mut oldest) => Some(oldest.insert(since)),
            Entry::Vacant(unknown) => {
                unknown.insert(since);
                None
            }
        };
        if !self.save_points.is_empty() {
            self.touched_since.push((family.id(), key.to_vec(), before));
        }
        Ok(())
    }

    /// # Errors
    /// As [`Self::touch`].
    pub(super) fn touch_range(
        &mut self,
        family: &ColumnFamilyHandle,
        range: (Option<Vec<u8>>, Option<Vec<u8>>),
    ) -> Result<()> {
        self.db.check_family(family)?;
        let since = self.since();
        self.families.entry(family.id()).or_insert_with(|| family.clone());
        self.ranges.push(Range { family: family.id(), begin: range.0, end: range.1, since });
        Ok(())
    }
}

#[cold]
fn conflict(family: &ColumnFamilyHandle, what: std::fmt::Arguments<'_>) -> Error {
    Error::busy(format!(
        "{what} of column family '{}' was written by others since the transaction touched it; roll back and start anew",
        family.name()
    ))
    .with_retryable(true)
}

fn bound_text(bound: Option<&[u8]>) -> String {
    bound.map_or_else(|| "the end".to_owned(), |key| format!("'{}'", key.escape_ascii()))
}

#[cold]
fn over() -> Error {
    Error::invalid_argument("Transaction has already been committed.")
}

#[cold]
fn no_save_point() -> Error {
    Error::not_found("the transaction has no save point")
}
