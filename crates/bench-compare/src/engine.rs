//! The interface between workloads and engines: one trait, implemented for each engine in
//! `engines/`.
//!
//! In: settings, equal for all engines. Out: operations on one ordered map of bytes.
//!
//! Invariants
//!  1. A workload sees only this trait, so every engine does the same operations in the same order.
//!  2. The workloads are compiled once for each engine, so no call of an engine is virtual.
//!  3. An engine lends values to a closure, without a copy. It copies values only if its interface
//!     has no other way.

use crate::bench::in_threads;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// An error, as text for the user.
pub(crate) type RivalResult<T> = std::result::Result<T, String>;

/// The settings for every engine; an engine ignores settings that it does not have.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct RivalSettings {
    /// Bytes of a memtable. The sizes of levels are in proportion to it, as in RocksDB's defaults.
    pub(crate) write_buffer_bytes: usize,
    /// Bytes of the block or page cache.
    pub(crate) cache_bytes: usize,
    /// Bits per key of Bloom filters.
    pub(crate) bloom_bits: f64,
    /// Upper limit of the stored bytes. LMDB reserves this much address space.
    pub(crate) map_bytes: usize,
    /// Whether all writes will be [`Durability::Sync`], for engines that choose this at opening.
    #[serde(default)]
    pub(crate) synced: bool,
}

/// The durability of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Durability {
    /// A crash of the process loses the write.
    NoWal,
    /// The write survives a crash of the process, not of the machine. An engine without a log uses
    /// its nearest mode.
    Wal,
    /// The write survives a crash of the machine.
    Sync,
}

/// The start and the direction of a scan.
#[derive(Clone, Copy, Debug)]
pub(crate) enum From<'a> {
    /// At the first pair, forward.
    First,
    /// At the first pair at or after the key, forward.
    Key(&'a [u8]),
    /// At the last pair, backward.
    Last,
}

/// The abilities of an engine. A workload that needs another ability is skipped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Abilities {
    /// Whether writes can skip the log.
    pub(crate) no_wal: bool,
    /// Whether one call can read several keys.
    pub(crate) multi_get: bool,
    /// Whether one record can delete a range.
    pub(crate) delete_range: bool,
    /// Whether the size of a cache can be set.
    pub(crate) cache: bool,
    /// Whether the database can be compacted in place.
    pub(crate) compacts: bool,
    /// Whether the engine stores data on disk.
    pub(crate) disk: bool,
    /// Whether a closed database can be opened again.
    pub(crate) reopens: bool,
    /// Whether a write can survive a crash of the machine.
    pub(crate) synced: bool,
    /// Whether several pairs can be stored as one batch: all of them or none.
    pub(crate) batches: bool,
    /// Whether scans can go backward.
    pub(crate) reverse: bool,
    /// Whether a scan sees the state of one point in time, while writes go on.
    pub(crate) versions: bool,
}

impl Abilities {
    /// All abilities.
    pub(crate) const ALL: Abilities = Abilities {
        no_wal: true,
        multi_get: true,
        delete_range: true,
        cache: true,
        compacts: true,
        disk: true,
        reopens: true,
        synced: true,
        batches: true,
        reverse: true,
        versions: true,
    };
}

/// A cursor over the pairs of a database at one point in time.
pub(crate) trait RivalCursor {
    /// Calls `visit` with up to `limit` pairs; returns their number.
    fn scan(
        &mut self,
        from: From<'_>,
        limit: usize,
        visit: &mut impl FnMut(&[u8], &[u8]),
    ) -> RivalResult<usize>;

    /// Calls `visit` with up to `limit` keys; returns their number. An engine that can leave out
    /// values does so.
    fn keys(&mut self, from: From<'_>, limit: usize, visit: &mut impl FnMut(&[u8])) -> RivalResult<usize> {
        self.scan(from, limit, &mut |key, _| visit(key))
    }

    /// Steps over `skip` pairs, then scans; returns the number of pairs that `visit` was called
    /// with. An engine that can leave out the values of skipped pairs does so.
    fn scan_behind(
        &mut self,
        from: From<'_>,
        skip: usize,
        limit: usize,
        visit: &mut impl FnMut(&[u8], &[u8]),
    ) -> RivalResult<usize> {
        let mut seen = 0;
        self.scan(from, skip + limit, &mut |key, value| {
            seen += 1;
            if seen > skip {
                visit(key, value);
            }
        })?;
        Ok(seen.saturating_sub(skip))
    }
}

/// An open database.
pub(crate) trait RivalEngine: Sized + Send + Sync + 'static {
    /// The engine's abilities.
    const ABILITIES: Abilities;

    /// The engine's cursors.
    type Cursor<'a>: RivalCursor
    where
        Self: 'a;

    /// Opens the database in `dir`. The directory exists; it is empty or has a database of this
    /// engine.
    fn open(dir: &Path, settings: &RivalSettings) -> RivalResult<Self>;

    /// Stores one pair.
    fn put(&self, key: &[u8], value: &[u8], durability: Durability) -> RivalResult<()>;

    /// Stores all pairs as one batch.
    fn put_all(&self, pairs: &[(&[u8], &[u8])], durability: Durability) -> RivalResult<()>;

    /// As [`RivalEngine::put`], for tasks: an asynchronous engine does not block the thread.
    async fn put_in_task(&self, key: &[u8], value: &[u8], durability: Durability) -> RivalResult<()> {
        self.put(key, value, durability)
    }

    /// As [`RivalEngine::get`], for tasks.
    async fn get_in_task(&self, key: &[u8], visit: &mut impl FnMut(&[u8])) -> RivalResult<bool> {
        self.get(key, visit)
    }

    /// Runs `work(0)` to `work(tasks - 1)` at the same time: a thread for each. An asynchronous
    /// engine runs them as tasks of its runtime. Returns the seconds from the first start to the
    /// last end, and the results.
    fn in_tasks<T: Send>(
        &self,
        tasks: u64,
        work: impl AsyncFn(u64) -> RivalResult<T> + Sync,
    ) -> RivalResult<(f64, Vec<T>)> {
        in_threads(tasks, |task| match pin!(work(task)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result,
            Poll::Pending => unreachable!("an engine that blocks does not await"),
        })
    }

    /// Deletes one key.
    fn delete(&self, key: &[u8]) -> RivalResult<()>;

    /// Deletes the keys of `begin..end`. Called only for engines with [`Abilities::delete_range`].
    fn delete_range(&self, _begin: &[u8], _end: &[u8]) -> RivalResult<()> {
        Err("this engine deletes no ranges".to_owned())
    }

    /// Calls `visit` with the value of `key`. Returns false for an absent key.
    fn get(&self, key: &[u8], visit: &mut impl FnMut(&[u8])) -> RivalResult<bool>;

    /// Calls `visit` with the values of `keys`; returns the number of present keys. Without
    /// [`Abilities::multi_get`] this function calls `get` for each key.
    fn multi_get(&self, keys: &[&[u8]], visit: &mut impl FnMut(&[u8])) -> RivalResult<usize> {
        let mut found = 0;
        for key in keys {
            found += usize::from(self.get(key, visit)?);
        }
        Ok(found)
    }

    /// Lends `work` a cursor over the present state. With `under_snapshot`, an engine with snapshot
    /// objects makes the cursor under a new snapshot.
    fn with_cursor<T>(
        &self,
        under_snapshot: bool,
        work: impl FnOnce(&mut Self::Cursor<'_>) -> RivalResult<T>,
    ) -> RivalResult<T>;

    /// The number of pairs. An engine that does not count pairs scans all of them.
    fn len(&self) -> RivalResult<u64> {
        let count = self.with_cursor(false, |cursor| cursor.keys(From::First, usize::MAX, &mut |_| ()))?;
        Ok(count as u64)
    }

    /// Flushes memory to disk, and waits.
    fn flush(&self) -> RivalResult<()>;

    /// Compacts the whole database, and waits.
    fn compact(&mut self) -> RivalResult<()>;

    /// Waits until no background work is due or running.
    fn settle(&self) -> RivalResult<()>;

    /// Bytes that the engine has stored into memory-mapped files since opening; 0 if the engine
    /// does not count them. The kernel does not count these bytes as written by the process.
    fn mapped_bytes(&self) -> u64 {
        0
    }
}
