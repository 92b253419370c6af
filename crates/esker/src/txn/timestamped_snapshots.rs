//! Snapshots by timestamps of the user.
//!
//! In: a timestamp, at any time or with a commit. Out: snapshots that the database keeps, by
//! timestamp or by a range of them, until they are released.
//!
//! Invariant: a snapshot with a larger timestamp has the same sequence number or a higher one. A
//! commit with a snapshot is a write group of its own, and the snapshot is taken before the next
//! group. So the snapshot sees this commit as the newest one.
//!
//! Source of the semantics: RocksDB `include/rocksdb/utilities/transaction_db.h`,
//! `db/snapshot_impl.h`.

use super::db::TransactionDbShared;
use super::options::WritePolicy;
use super::timestamps::UNSET;
use super::{Transaction, TransactionDb};
use crate::snapshot::Snapshot;
use esker_base::{Error, Result};
use std::ops::Range;

impl TransactionDbShared {
    /// Takes a snapshot and keeps it under `timestamp`.
    fn create_timestamped_snapshot(&self, timestamp: u64) -> Result<Snapshot> {
        if timestamp == UNSET {
            return Err(Error::invalid_argument("invalid ts"));
        }
        self.db.engine().check_process()?;
        let mut snapshots = self.timestamped_snapshots.lock();
        let snapshot = self.db.snapshot().with_timestamp(timestamp);
        if let Some((&latest, newest)) = snapshots.last_key_value() {
            if latest > timestamp {
                return Err(Error::invalid_argument(format!(
                    "snapshot exists with larger timestamp {latest} > {timestamp}"
                )));
            }
            if latest == timestamp && newest.sequence() == snapshot.sequence() {
                return Ok(newest.clone());
            }
            if latest == timestamp {
                return Err(Error::invalid_argument(format!(
                    "Allocated seq is {}, while snapshot exists with smaller seq {} but same timestamp {timestamp}",
                    snapshot.sequence(),
                    newest.sequence()
                )));
            }
        }
        snapshots.insert(timestamp, snapshot.clone());
        Ok(snapshot)
    }
}

/// Snapshots by timestamps of the user. The database keeps them until they are released, or until
/// its last handle is dropped.
impl TransactionDb {
    /// Takes a snapshot of the present state and keeps it under `timestamp`, which must not be
    /// smaller than those before. A write that runs meanwhile may be in the snapshot or not.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;
    /// db.put("ada", "900")?;
    /// let before = db.create_timestamped_snapshot(10)?;
    /// assert_eq!(before.timestamp(), Some(10));
    /// let txn = db.begin_transaction();
    /// txn.put("ada", "901")?;
    /// let after = txn.commit_and_try_create_snapshot(Some(20))?.expect("20 is the largest timestamp");
    /// assert_eq!(txn.timestamped_snapshot().unwrap().timestamp(), Some(20));
    /// assert_eq!(before.get("ada")?.unwrap(), b"900");
    /// assert_eq!(after.get("ada")?.unwrap(), b"901");
    ///
    /// assert!(db.timestamped_snapshot(10).is_some());
    /// assert_eq!(db.latest_timestamped_snapshot().unwrap().timestamp(), Some(20));
    /// assert_eq!(db.timestamped_snapshots(10..20)?.len(), 1);
    /// db.release_timestamped_snapshots_older_than(20);
    /// assert_eq!(db.all_timestamped_snapshots().len(), 1);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: `timestamp` is `u64::MAX` or smaller than that of another snapshot, or
    /// there is one under it and the database has changed since · `NotSupported`: this is a forked
    /// child process.
    pub fn create_timestamped_snapshot(&self, timestamp: u64) -> Result<Snapshot> {
        self.shared.create_timestamped_snapshot(timestamp)
    }

    /// The snapshot under exactly this timestamp; with `u64::MAX`, the one with the largest
    /// timestamp.
    pub fn timestamped_snapshot(&self, timestamp: u64) -> Option<Snapshot> {
        if timestamp == UNSET {
            return self.latest_timestamped_snapshot();
        }
        self.shared.timestamped_snapshots.lock().get(&timestamp).cloned()
    }

    /// The snapshot with the largest timestamp.
    pub fn latest_timestamped_snapshot(&self) -> Option<Snapshot> {
        self.shared.timestamped_snapshots.lock().last_key_value().map(|(_, snapshot)| snapshot.clone())
    }

    /// The snapshots whose timestamps lie in `timestamps`, by timestamp.
    /// # Errors
    /// `InvalidArgument`: the range is empty.
    pub fn timestamped_snapshots(&self, timestamps: Range<u64>) -> Result<Vec<Snapshot>> {
        if timestamps.is_empty() {
            return Err(Error::invalid_argument("timestamp lower bound must be smaller than upper bound"));
        }
        Ok(self
            .shared
            .timestamped_snapshots
            .lock()
            .range(timestamps)
            .map(|(_, found)| found.clone())
            .collect())
    }

    /// All timestamped snapshots, by timestamp.
    pub fn all_timestamped_snapshots(&self) -> Vec<Snapshot> {
        self.shared.timestamped_snapshots.lock().values().cloned().collect()
    }

    /// Lets go of the snapshots with a timestamp smaller than `timestamp`. Clones of them stay
    /// readable.
    pub fn release_timestamped_snapshots_older_than(&self, timestamp: u64) {
        let mut snapshots = self.shared.timestamped_snapshots.lock();
        let kept = snapshots.split_off(&timestamp);
        let released = std::mem::replace(&mut *snapshots, kept);
        drop(snapshots);
        // The last clone of a snapshot may start compactions, so it goes without the lock.
        drop(released);
    }
}

impl Transaction {
    /// Commits, and keeps a snapshot under the commit timestamp: `timestamp`, or that of
    /// [`Transaction::set_commit_timestamp`]. The snapshot sees this commit and all before it, and
    /// nothing later. The answer is `None` if the commit succeeded and there could be no snapshot
    /// under this timestamp: another one has a larger timestamp, or the same one and another state.
    ///
    /// The commit shares its write, and its sync, with no other writer.
    /// # Errors
    /// `InvalidArgument`: there is no commit timestamp, or `timestamp` is another one · those of
    /// [`Transaction::set_commit_timestamp`] and [`Transaction::commit`] · `NotSupported`: the
    /// write policy is not `WriteCommitted`. The transaction is not committed then.
    pub fn commit_and_try_create_snapshot(&self, timestamp: Option<u64>) -> Result<Option<Snapshot>> {
        let shared = self.shared();
        if shared.options.write_policy != WritePolicy::WriteCommitted {
            return Err(Error::not_supported(
                "write_policy: only WriteCommitted creates snapshots at commits",
            ));
        }
        let timestamp = timestamp.filter(|&timestamp| timestamp != UNSET);
        let commit = match (self.commit_timestamp(), timestamp) {
            (None, None) => return Err(Error::invalid_argument("Commit timestamp unset")),
            (None, Some(timestamp)) => {
                self.set_commit_timestamp(timestamp)?;
                timestamp
            }
            (Some(commit), Some(timestamp)) if commit != timestamp => {
                return Err(Error::invalid_argument("Different commit ts specified"));
            }
            (Some(commit), _) => commit,
        };
        let mut snapshot = None;
        self.commit_and_then(Some(&mut || snapshot = shared.create_timestamped_snapshot(commit).ok()))?;
        self.core_mut().timestamped_snapshot.clone_from(&snapshot);
        Ok(snapshot)
    }

    /// The snapshot that [`Transaction::commit_and_try_create_snapshot`] has created.
    pub fn timestamped_snapshot(&self) -> Option<Snapshot> {
        self.core().timestamped_snapshot.clone()
    }
}
