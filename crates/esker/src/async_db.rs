//! The database for asynchronous programs: calls that are awaited instead of waited for.
//!
//! In: the calls of a [`Db`], from tasks of any executor. Out: their results, as futures and a
//! stream. A thread of the executor does what needs no wait itself; everything else runs on the
//! threads of `async_db/pool.rs`, and synced writes in groups made by `async_db/commits.rs`.
//!
//! Invariants
//!  1. A future that is dropped has done nothing, or the whole of its call: a write is made whole
//!     or not at all, and a result that nobody awaits is freed.
//!  2. The number of waiting calls is bounded by [`AsyncOptions`]. A call over a bound waits as a
//!     future, which holds nothing but its arguments, and is forgotten when it is dropped.
//!  3. A write comes after those that were in line when it began, also if their futures were
//!     dropped.
//!  4. No lock is held across an await.

mod commits;
mod pool;
mod rows;

pub use rows::RowStream;

use crate::db::{ColumnFamilyHandle, Db};
use crate::options::{ReadOptions, ReadTier, WriteOptions};
use crate::scan::KeyRange;
use commits::Commits;
use esker_base::sync::Arc;
use esker_base::{Error, ErrorKind, PinnedBytes, Result};
use esker_format::write_batch::WriteBatch;
use pool::{Errand, Pool};
use std::fmt;

/// Bounds of an [`AsyncDb`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AsyncOptions {
    /// Number of threads for reads that need I/O, at least 1. Threads start when reads come.
    /// Default 4.
    pub read_threads: usize,
    /// Number of threads for [`AsyncDb::call`], at least 1. Default 2.
    pub call_threads: usize,
    /// Bytes of batches that wait for their commit, at least 1. Further writes wait until there is
    /// room; a larger batch waits until no other is there. Default 64 MiB.
    pub max_waiting_write_bytes: usize,
}

impl Default for AsyncOptions {
    fn default() -> AsyncOptions {
        AsyncOptions { read_threads: 4, call_threads: 2, max_waiting_write_bytes: 64 << 20 }
    }
}

esker_base::setters! {
    AsyncOptions {
        read_threads: usize;
        call_threads: usize;
        max_waiting_write_bytes: usize;
    }
}

/// A [`Db`] whose calls are awaited. A clone is another handle to the same threads.
///
/// * A **read** of cached data answers at once, on the thread that polls it. A read that needs I/O
///   moves to a thread of the pool, which begins it again.
/// * A **write** without `sync` is made at once, unless writers are stalled or synced writes are
///   under way; then, and with `sync`, it waits in line. One thread commits what is in line,
///   several batches with one sync, as writers that block would share one.
/// * [`AsyncDb::range`] is a stream. It reads one piece at a time, and only when it is polled.
///
/// The futures need no runtime: any executor polls them. A dropped future ends the wait and not the
/// call: a write may still be made, whole or not at all.
///
/// Some waits remain on the thread that polls. An unsynced write that finds nothing of this
/// `AsyncDb` in line stands in the line of the database's writers, with those that block in
/// [`Db::write_opt`]: behind their syncs, behind ingestions and changes of families, and behind a
/// flush of several families that syncs closed WALs. A write that fills a memtable makes the next
/// one, with its WAL. A program without these waits writes through the `AsyncDb` alone, and with
/// `sync`.
///
/// The last handle waits at its drop for the calls that run, and so do the threads for it. If the
/// system refuses threads, the thread that polls a call runs it.
///
/// ```
/// # let dir = esker_testkit::TempDir::new("doc");
/// use esker::{AsyncDb, AsyncOptions, Db, WriteOptions};
/// use futures_util::StreamExt;
///
/// # futures_executor::block_on(async {
/// let db = AsyncDb::new(Db::open_default(dir.path())?, &AsyncOptions::default())?;
/// db.put("esker", "a ridge of gravel").await?;
///
/// let mut batch = esker::WriteBatch::new();
/// batch.put("moraine", "stones")?;
/// db.write_opt(WriteOptions::new().sync(true), batch).await?;
///
/// assert_eq!(db.get("esker").await?.as_deref(), Some(&b"a ridge of gravel"[..]));
/// let mut rows = db.range("a"..);
/// while let Some(row) = rows.next().await {
///     let (key, value) = row?;
///     println!("{} has {} bytes", key.escape_ascii(), value.len());
/// }
/// db.call(|db| db.flush()).await?;
/// # Ok::<_, esker::Error>(())
/// # })?;
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Clone)]
pub struct AsyncDb {
    db: Db,
    pool: Arc<Pool>,
    commits: Arc<Commits>,
}

impl AsyncDb {
    /// Starts no thread: threads start when calls need them.
    /// # Errors
    /// `InvalidArgument` names an option that is 0.
    pub fn new(db: Db, options: &AsyncOptions) -> Result<AsyncDb> {
        let AsyncOptions { read_threads, call_threads, max_waiting_write_bytes } = *options;
        for (name, value) in [
            ("read_threads", read_threads),
            ("call_threads", call_threads),
            ("max_waiting_write_bytes", max_waiting_write_bytes),
        ] {
            if value == 0 {
                return Err(Error::invalid_argument(format!("AsyncOptions::{name} is 0")));
            }
        }
        let pool = Arc::new(Pool::new(read_threads, call_threads));
        Ok(AsyncDb { db, pool, commits: Arc::new(Commits::new(max_waiting_write_bytes)) })
    }

    /// The database, for calls that do not wait or may block.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// The value of `key` in the default family, without copying it. Cost beside [`Db::get_pinned`]
    /// if the blocks are cached: one future without an allocation.
    /// # Errors
    /// Those of [`Db::get_pinned`].
    pub async fn get(&self, key: impl AsRef<[u8]> + Send) -> Result<Option<PinnedBytes>> {
        let family = self.db.engine().families.default_family();
        match self.db.inner.get(&CACHED, family, key.as_ref()) {
            Err(e) if e.kind() == ErrorKind::Incomplete => {}
            answer => return answer,
        }
        let (db, key) = (self.db.clone(), key.as_ref().to_vec());
        self.pool.run(Errand::Read, move || db.get_pinned(key)).await
    }

    /// The value of `key` in `family`. With the tiers `BlockCache` and `Memtable` the thread that
    /// polls gives the answer, and with `Persisted` one of the pool.
    /// # Errors
    /// Those of [`Db::get_pinned_opt`].
    pub async fn get_opt(
        &self,
        options: ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]> + Send,
    ) -> Result<Option<PinnedBytes>> {
        let (tier, mut options) = (options.read_tier, options);
        if let Some(at_once) = tier_at_once(tier) {
            options.read_tier = at_once;
            match self.db.get_pinned_opt(&options, family, key.as_ref()) {
                Err(e) if e.kind() == ErrorKind::Incomplete && tier == ReadTier::ReadAll => {}
                answer => return answer,
            }
        }
        options.read_tier = tier;
        let (db, family, key) = (self.db.clone(), family.clone(), key.as_ref().to_vec());
        self.pool.run(Errand::Read, move || db.get_pinned_opt(&options, &family, key)).await
    }

    /// The values of `keys` in `family`, in the order of the keys, all as of one point in time. If
    /// one of them needs I/O, all are read by a thread of the pool.
    /// # Errors
    /// Each key has its own result; see [`Db::multi_get_opt`].
    pub async fn multi_get_opt<K: AsRef<[u8]> + Send + Sync + 'static>(
        &self,
        options: ReadOptions,
        family: &ColumnFamilyHandle,
        keys: Vec<K>,
    ) -> Vec<Result<Option<PinnedBytes>>> {
        let (tier, mut options) = (options.read_tier, options);
        if let Some(at_once) = tier_at_once(tier) {
            options.read_tier = at_once;
            let answers = self.db.multi_get_opt(&options, family, &keys);
            let needs_io = |answer: &Result<_>| matches!(answer, Err(e) if e.kind() == ErrorKind::Incomplete);
            if tier != ReadTier::ReadAll || !answers.iter().any(needs_io) {
                return answers;
            }
        }
        options.read_tier = tier;
        let (db, family, count) = (self.db.clone(), family.clone(), keys.len());
        let read = move || Ok(db.multi_get_opt(&options, &family, &keys));
        let answers = self.pool.run(Errand::Read, read).await;
        answers.unwrap_or_else(|e| vec![Err(e); count])
    }

    /// Stores `value` under `key` in the default family.
    /// # Errors
    /// Those of [`Db::put`].
    pub async fn put(&self, key: impl AsRef<[u8]> + Send, value: impl AsRef<[u8]> + Send) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put(key, value)?;
        self.write_opt(WriteOptions::default(), batch).await
    }

    /// Removes `key` from the default family; an absent key is no error.
    /// # Errors
    /// Those of [`Db::delete`].
    pub async fn delete(&self, key: impl AsRef<[u8]> + Send) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete(key)?;
        self.write_opt(WriteOptions::default(), batch).await
    }

    /// Writes `batch`, all or nothing. With `sync` it is on the medium when the future is ready.
    ///
    /// Batches in line are committed together, up to 1 MiB: one record of the WAL, one sync, one
    /// step to become visible. Their options are equal, but a batch with `sync` takes in those
    /// without. Protected batches are committed alone. If the database refuses batches as a whole,
    /// each is tried alone, so that an error belongs to its own batch; an error of the file system
    /// is the error of all, as for writers that block.
    ///
    /// A write with `no_slowdown` in line waits for its turn, and not for a stall that meets it
    /// then. A write with `low_pri` that has to give way does so on a thread for calls, outside of
    /// the line.
    /// # Errors
    /// Those of [`Db::write_opt`].
    pub async fn write_opt(&self, options: WriteOptions, mut batch: WriteBatch) -> Result<()> {
        if !options.sync && !self.commits.is_busy() {
            match self.db.write_opt(&options.no_slowdown(true), &mut batch) {
                Err(e) if e.kind() == ErrorKind::Incomplete && !options.no_slowdown => {}
                result => return result,
            }
        }
        if options.low_pri {
            // Its sleep is not to hold the line back.
            return self.call(move |db| db.write_opt(&options, batch)).await;
        }
        self.commits.commit(&self.db, &self.pool, options, batch).await
    }

    /// The entries of `range` in the default family as of now, in the order of their keys.
    pub fn range(&self, range: impl KeyRange) -> RowStream {
        self.range_opt(ReadOptions::default(), &self.db.default_column_family(), range)
    }

    /// The entries of `range` in `family`, as of the snapshot of `options`, else as of now. The
    /// range takes the place of the bounds in `options`.
    pub fn range_opt(
        &self,
        options: ReadOptions,
        family: &ColumnFamilyHandle,
        range: impl KeyRange,
    ) -> RowStream {
        RowStream::new(self, options, family, range)
    }

    /// Runs `work` on a thread for calls that block: flushes, compactions, checkpoints,
    /// transactions. It may take as long as it likes; other calls wait if all
    /// [`AsyncOptions::call_threads`] are taken, and reads do not.
    /// # Errors
    /// Those of `work`.
    /// # Panics
    /// With the panic of `work`.
    pub async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Db) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let db = self.db.clone();
        self.pool.run(Errand::Call, move || work(&db)).await
    }
}

/// The tier of an attempt on the thread that polls, which does no I/O; `None` if `tier` demands
/// I/O.
fn tier_at_once(tier: ReadTier) -> Option<ReadTier> {
    match tier {
        ReadTier::ReadAll => Some(ReadTier::BlockCache),
        ReadTier::BlockCache | ReadTier::Memtable => Some(tier),
        ReadTier::Persisted => None,
    }
}

/// The options of a first attempt: no I/O.
static CACHED: ReadOptions = ReadOptions { read_tier: ReadTier::BlockCache, ..ReadOptions::DEFAULTS };

impl fmt::Debug for AsyncDb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AsyncDb({})", self.db.path().display())
    }
}

#[cfg(test)]
mod tests;
