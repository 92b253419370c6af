//! Writes stopped on request: RocksDB's `LockWAL` and `UnlockWAL`.
//!
//! In: calls. Out: a guard, during whose life no write takes effect. Writers wait as they do when
//! level 0 has too many files: the write leader lends its lead to work that needs no room, such as
//! flushes and checkpoints. Ingestions wait as the leader, too. Invariant: a guard in a forked
//! child of its process does nothing.

use super::Db;
use esker_base::Result;
use std::fmt;

/// Stops the writes of a database while it lives: see [`Db::lock_wal`]. It keeps the database open,
/// and may be dropped by any thread.
pub struct WalLock {
    db: Db,
}

impl fmt::Debug for WalLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WalLock({})", self.db.path().display())
    }
}

impl Db {
    /// Stops all writes until the result is dropped, and hands buffered bytes of the WAL to the
    /// operating system, as [`Db::flush_wal`] without `sync`. Each write that began before has
    /// ended, or waits. So files that are copied meanwhile, by
    /// [`create_checkpoint`](Db::create_checkpoint) or by hand, hold one known state.
    ///
    /// It is RocksDB's `LockWAL`; the drop is its `UnlockWAL`. Locks nest: writes go on when the
    /// last one is gone. Writes with [`no_slowdown`](crate::WriteOptions::no_slowdown) fail
    /// meanwhile, all others wait, those of the calling thread, too: it must not write. Ingestions
    /// and imports of tables wait likewise. Reads, flushes and compactions go on, and families may
    /// be made and dropped. Costs writers nothing otherwise: they look at one atomic for
    /// all kinds of stalls.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path().join("db"))?;
    /// db.put("esker", "gravel")?;
    /// let locked = db.lock_wal()?;
    /// let newest = db.latest_sequence_number();
    /// db.create_checkpoint(dir.path().join("copy"), u64::MAX)?;
    /// assert_eq!(db.latest_sequence_number(), newest);
    /// drop(locked);
    /// db.put("esker", "a ridge")?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `ShutdownInProgress`: the database was closed · `NotSupported`: a read-only database or a
    /// forked child process · `IoError`: the WAL could not be written, and writes go on.
    pub fn lock_wal(&self) -> Result<WalLock> {
        let engine = self.engine();
        engine.check_writable()?;
        engine.check_open()?;
        // As the leader: a write that has begun ends first.
        let lead = self.inner.write_path.lead_alone_urgently();
        engine.stall.lock();
        let locked = WalLock { db: self.clone() };
        let flushed = self.inner.write_path.flush_wal();
        drop(lead);
        flushed.map(|()| locked)
    }
}

impl Drop for WalLock {
    fn drop(&mut self) {
        let engine = self.db.engine();
        if !engine.owner.is_here() {
            return;
        }
        // A waiting leader holds this lock from its check until it sleeps, so it cannot miss the
        // notification.
        let state = engine.state.lock();
        engine.stall.unlock();
        drop(state);
        engine.state_changed.notify_all();
        if !engine.is_shutting_down() && !engine.stall.is_locked() {
            // The waiting leader has seen the end of the stall once it has written, or lends its
            // lead for another reason. So a write with `no_slowdown` does not fail from here on.
            drop(self.db.inner.write_path.lead_alone_urgently());
        }
    }
}
