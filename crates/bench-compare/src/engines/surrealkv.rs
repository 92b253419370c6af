//! SurrealKV 1, an LSM tree in Rust with asynchronous commits.

use crate::bench::in_few_threads;
use crate::engine::{Abilities, Durability, From, RivalCursor, RivalEngine, RivalResult, RivalSettings};
use futures_util::future::try_join_all;
use std::path::Path;
use std::time::Duration;
use surrealkv::{
    CompactRangeOptions, Error, LSMIterator, Mode, Options, ReadOptions, Transaction, Tree, TreeBuilder,
};
use tokio::runtime::Runtime;

/// Differences from the other engines' settings.
pub(crate) const NOTES: &[&str] = &[
    "48 tasks are 48 futures on as many threads as there are processors; a commit awaits, a read blocks its thread",
    "every put is a write-only transaction; every get is a transaction of its own, a batch of reads is one",
    "every seek makes an iterator: its own seek takes keys in an internal form that it does not publish",
    "its log is preallocated (with_wal_preallocation, off by default) where all writes are durable",
    "its memtables count keys and not values; blocks of 64 KiB; a cache below 32 MB rejects some of its blocks",
];

/// The adapter for SurrealKV. A drop closes the database.
pub(crate) struct SurrealKv {
    tree: Tree,
    runtime: Runtime,
    /// The directory of the log's segments.
    log: std::path::PathBuf,
}

fn text(error: Error) -> String {
    error.to_string()
}

/// Time between two checks for background work: SurrealKV has no call that waits for it.
const POLL: Duration = Duration::from_millis(1);

/// Options of a compaction that flushes, and compacts nothing.
const ONLY_FLUSH: CompactRangeOptions =
    CompactRangeOptions { flush_memtable: true, target_level: Some(0), rewrite_bottommost: false };
/// Options of a compaction that waits for a running one. It gets an empty range.
const ONLY_WAIT: CompactRangeOptions =
    CompactRangeOptions { flush_memtable: false, target_level: Some(1), rewrite_bottommost: false };

impl SurrealKv {
    /// Commits what `fill` puts into a transaction. Repeats a commit that another one got ahead of.
    async fn write(
        &self,
        durability: Durability,
        fill: impl Fn(&mut Transaction) -> surrealkv::Result<()>,
    ) -> RivalResult<()> {
        loop {
            let mut transaction = self.tree.begin_with_mode(Mode::WriteOnly).map_err(text)?;
            transaction.set_durability(match durability {
                Durability::NoWal | Durability::Wal => surrealkv::Durability::Eventual,
                Durability::Sync => surrealkv::Durability::Immediate,
            });
            fill(&mut transaction).map_err(text)?;
            match transaction.commit().await {
                Err(Error::TransactionWriteConflict | Error::TransactionRetry) => {}
                result => return result.map_err(text),
            }
        }
    }

    fn reader(&self) -> RivalResult<Transaction> {
        self.tree.begin_with_mode(Mode::ReadOnly).map_err(text)
    }

    fn compact_range(&self, range: Option<&[u8]>, options: &CompactRangeOptions) -> RivalResult<()> {
        let _entered = self.runtime.enter();
        self.tree.compact_range(range, range, options).map_err(text)
    }

    /// Whether memtables wait for their flush. A flush deletes the segments of its memtable.
    fn is_flushing(&self) -> RivalResult<bool> {
        let segments = std::fs::read_dir(&self.log).map_err(|e| format!("{}: {e}", self.log.display()))?;
        Ok(segments.count() > 1)
    }
}

impl RivalEngine for SurrealKv {
    const ABILITIES: Abilities = Abilities { no_wal: false, ..Abilities::ALL };

    type Cursor<'a> = SurrealCursor;

    fn open(dir: &Path, settings: &RivalSettings) -> RivalResult<SurrealKv> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|e| e.to_string())?;
        let buffer = settings.write_buffer_bytes as u64;
        let mut options = Options::new()
            .with_path(dir.to_owned())
            .with_max_memtable_size(settings.write_buffer_bytes)
            .with_target_file_size(buffer)
            .with_block_cache_capacity(settings.cache_bytes as u64)
            .with_wal_preallocation(settings.synced)
            .without_compression();
        options.max_bytes_for_level = 4 * buffer;
        let tree = runtime.block_on(TreeBuilder::with_options(options).build_async()).map_err(text)?;
        Ok(SurrealKv { tree, runtime, log: dir.join("wal") })
    }

    fn put(&self, key: &[u8], value: &[u8], durability: Durability) -> RivalResult<()> {
        self.runtime.block_on(self.put_in_task(key, value, durability))
    }

    fn put_all(&self, pairs: &[(&[u8], &[u8])], durability: Durability) -> RivalResult<()> {
        self.runtime.block_on(self.write(durability, |transaction| {
            pairs.iter().try_for_each(|&(key, value)| transaction.set(key, value))
        }))
    }

    async fn put_in_task(&self, key: &[u8], value: &[u8], durability: Durability) -> RivalResult<()> {
        self.write(durability, |transaction| transaction.set(key, value)).await
    }

    fn in_tasks<T: Send>(
        &self,
        tasks: u64,
        work: impl AsyncFn(u64) -> RivalResult<T> + Sync,
    ) -> RivalResult<(f64, Vec<T>)> {
        in_few_threads(tasks, |part| {
            self.runtime.block_on(try_join_all(part.into_iter().map(|task| work(task))))
        })
    }

    fn delete(&self, key: &[u8]) -> RivalResult<()> {
        self.runtime.block_on(self.write(Durability::Wal, |transaction| transaction.delete(key)))
    }

    fn delete_range(&self, begin: &[u8], end: &[u8]) -> RivalResult<()> {
        self.runtime.block_on(self.write(Durability::Wal, |transaction| transaction.delete_range(begin, end)))
    }

    fn get(&self, key: &[u8], visit: &mut impl FnMut(&[u8])) -> RivalResult<bool> {
        Ok(self.multi_get(&[key], visit)? == 1)
    }

    fn multi_get(&self, keys: &[&[u8]], visit: &mut impl FnMut(&[u8])) -> RivalResult<usize> {
        let transaction = self.reader()?;
        let mut found = 0;
        for &key in keys {
            if let Some(value) = transaction.get(key).map_err(text)? {
                visit(&value);
                found += 1;
            }
        }
        Ok(found)
    }

    fn with_cursor<T>(
        &self,
        _under_snapshot: bool,
        work: impl FnOnce(&mut SurrealCursor) -> RivalResult<T>,
    ) -> RivalResult<T> {
        work(&mut SurrealCursor { transaction: self.reader()? })
    }

    fn flush(&self) -> RivalResult<()> {
        self.compact_range(None, &ONLY_FLUSH)
    }

    fn compact(&mut self) -> RivalResult<()> {
        self.compact_range(None, &CompactRangeOptions::default())
    }

    fn settle(&self) -> RivalResult<()> {
        // A flush that has ended may have requested a compaction that has not begun. Three checks
        // in a row that find no work count as the end.
        let mut quiet = 0;
        while quiet < 3 {
            quiet = if self.is_flushing()? { 0 } else { quiet + 1 };
            std::thread::sleep(POLL);
            self.compact_range(Some(b"\xff"), &ONLY_WAIT)?;
        }
        Ok(())
    }
}

impl Drop for SurrealKv {
    #[expect(clippy::print_stderr, reason = "the parent shows the errors of a process that ended")]
    fn drop(&mut self) {
        if let Err(error) = self.runtime.block_on(self.tree.close()) {
            eprintln!("SurrealKV's close: {error}");
        }
    }
}

/// A read transaction. Each scan makes an iterator.
pub(crate) struct SurrealCursor {
    transaction: Transaction,
}

impl SurrealCursor {
    /// Steps over `skip` pairs, and shows `limit` of the others, without values if `!has_values`.
    fn rows(
        &self,
        from: From<'_>,
        (skip, limit): (usize, usize),
        has_values: bool,
        visit: &mut impl FnMut(&[u8], &[u8]),
    ) -> RivalResult<usize> {
        let options = match from {
            From::First | From::Last => ReadOptions::new(),
            From::Key(key) => ReadOptions::from_range(key..),
        };
        let mut iter = self.transaction.range_with_options(&options).map_err(text)?;
        let is_backward = matches!(from, From::Last);
        let mut valid = if is_backward { iter.seek_last() } else { iter.seek_first() }.map_err(text)?;
        let (mut seen, end) = (0, skip.saturating_add(limit));
        while valid && seen < end {
            if seen >= skip {
                if has_values {
                    visit(iter.key().user_key(), &iter.value_ref().map_err(text)?);
                } else {
                    visit(iter.key().user_key(), &[]);
                }
            }
            seen += 1;
            if seen < end {
                valid = if is_backward { iter.prev() } else { iter.next() }.map_err(text)?;
            }
        }
        Ok(seen.saturating_sub(skip))
    }
}

impl RivalCursor for SurrealCursor {
    fn scan(
        &mut self,
        from: From<'_>,
        limit: usize,
        visit: &mut impl FnMut(&[u8], &[u8]),
    ) -> RivalResult<usize> {
        self.rows(from, (0, limit), true, visit)
    }

    fn keys(&mut self, from: From<'_>, limit: usize, visit: &mut impl FnMut(&[u8])) -> RivalResult<usize> {
        self.rows(from, (0, limit), false, &mut |key, _| visit(key))
    }

    fn scan_behind(
        &mut self,
        from: From<'_>,
        skip: usize,
        limit: usize,
        visit: &mut impl FnMut(&[u8], &[u8]),
    ) -> RivalResult<usize> {
        self.rows(from, (skip, limit), true, visit)
    }
}
