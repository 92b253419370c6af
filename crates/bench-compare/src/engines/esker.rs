//! The adapter for Esker.

use crate::bench::in_few_threads;
use crate::engine::{Abilities, Durability, From, RivalCursor, RivalEngine, RivalResult, RivalSettings};
use esker::internals::cache::{Cache, CacheOptions};
use esker::internals::format::compression::CompressionType;
use esker::internals::format::filter::FilterPolicy;
use esker::{
    AsyncDb, AsyncOptions, ColumnFamilyHandle, Db, DbIterator, MultiGetOutput, Options, ReadOptions,
    WriteBatch, WriteOptions,
};
use futures_executor::block_on;
use futures_util::future::try_join_all;
use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

/// An open database.
pub(crate) struct Esker {
    db: Db,
    /// The database for tasks.
    tasks: AsyncDb,
    family: ColumnFamilyHandle,
    read: ReadOptions,
    /// Write options in the order of [`Durability`].
    write: [WriteOptions; 3],
}

thread_local! {
    static OUTPUT: RefCell<MultiGetOutput> = RefCell::default();
}

fn text(error: esker::Error) -> String {
    error.to_string()
}

fn options(settings: &RivalSettings) -> RivalResult<Options> {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    let family = &mut options.cf;
    family.write_buffer_size = settings.write_buffer_bytes;
    family.target_file_size_base = settings.write_buffer_bytes as u64;
    family.max_bytes_for_level_base = 4 * settings.write_buffer_bytes as u64;
    family.compression = CompressionType::None;
    family.table.filter_policy = Some(FilterPolicy::bloom(settings.bloom_bits));
    let cache = Cache::new(&CacheOptions::with_capacity(settings.cache_bytes)).map_err(text)?;
    family.table.block_cache = Some(Arc::new(cache));
    Ok(options)
}

impl RivalEngine for Esker {
    const ABILITIES: Abilities = Abilities::ALL;

    type Cursor<'a> = EskerCursor;

    fn open(dir: &Path, settings: &RivalSettings) -> RivalResult<Esker> {
        let db = Db::open(&options(settings)?, dir).map_err(text)?;
        let family = db.default_column_family();
        let write =
            [WriteOptions::new().disable_wal(true), WriteOptions::new(), WriteOptions::new().sync(true)];
        let tasks = AsyncDb::new(db.clone(), &AsyncOptions::default()).map_err(text)?;
        Ok(Esker { db, tasks, family, read: ReadOptions::new(), write })
    }

    fn put(&self, key: &[u8], value: &[u8], durability: Durability) -> RivalResult<()> {
        self.db.put_opt(&self.write[durability as usize], &self.family, key, value).map_err(text)
    }

    fn put_all(&self, pairs: &[(&[u8], &[u8])], durability: Durability) -> RivalResult<()> {
        let mut batch = WriteBatch::new();
        for (key, value) in pairs {
            batch.put_cf(self.family.id(), key, value).map_err(text)?;
        }
        self.db.write_opt(&self.write[durability as usize], &mut batch).map_err(text)
    }

    async fn put_in_task(&self, key: &[u8], value: &[u8], durability: Durability) -> RivalResult<()> {
        let mut batch = WriteBatch::new();
        batch.put(key, value).map_err(text)?;
        self.tasks.write_opt(self.write[durability as usize], batch).await.map_err(text)
    }

    async fn get_in_task(&self, key: &[u8], visit: &mut impl FnMut(&[u8])) -> RivalResult<bool> {
        let value = self.tasks.get(key).await.map_err(text)?;
        if let Some(value) = &value {
            visit(value);
        }
        Ok(value.is_some())
    }

    fn in_tasks<T: Send>(
        &self,
        tasks: u64,
        work: impl AsyncFn(u64) -> RivalResult<T> + Sync,
    ) -> RivalResult<(f64, Vec<T>)> {
        in_few_threads(tasks, |part| block_on(try_join_all(part.into_iter().map(|task| work(task)))))
    }

    fn delete(&self, key: &[u8]) -> RivalResult<()> {
        self.db.delete(key).map_err(text)
    }

    fn delete_range(&self, begin: &[u8], end: &[u8]) -> RivalResult<()> {
        self.db.delete_range(begin, end).map_err(text)
    }

    fn get(&self, key: &[u8], visit: &mut impl FnMut(&[u8])) -> RivalResult<bool> {
        let value = self.db.get_pinned_opt(&self.read, &self.family, key).map_err(text)?;
        if let Some(value) = &value {
            visit(value);
        }
        Ok(value.is_some())
    }

    fn multi_get(&self, keys: &[&[u8]], visit: &mut impl FnMut(&[u8])) -> RivalResult<usize> {
        OUTPUT.with_borrow_mut(|output| {
            self.db.multi_get_lent(&self.read, &self.family, keys, output);
            let mut found = 0;
            for value in output.iter() {
                if let Some(value) = value.map_err(text)? {
                    visit(value);
                    found += 1;
                }
            }
            Ok(found)
        })
    }

    fn with_cursor<T>(
        &self,
        under_snapshot: bool,
        work: impl FnOnce(&mut EskerCursor) -> RivalResult<T>,
    ) -> RivalResult<T> {
        let mut options = ReadOptions::new();
        if under_snapshot {
            options = options.snapshot(&self.db.snapshot());
        }
        work(&mut EskerCursor { iter: self.db.iter_opt(options, &self.family).map_err(text)? })
    }

    fn flush(&self) -> RivalResult<()> {
        self.db.flush().map_err(text)
    }

    fn compact(&mut self) -> RivalResult<()> {
        self.db.compact_range(None, None).map_err(text)
    }

    fn settle(&self) -> RivalResult<()> {
        self.db.wait_for_background_work().map_err(text)
    }

    /// Bytes written to the WAL if its file is mapped, which depends on the file system.
    fn mapped_bytes(&self) -> u64 {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        if !maps.lines().any(|line| line.ends_with(".log")) {
            return 0;
        }
        let statistics = self.db.map_property("rocksdb.dbstats").unwrap_or_default();
        statistics.get("db.wal_bytes_written").and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
    }
}

/// An iterator as a cursor.
pub(crate) struct EskerCursor {
    iter: DbIterator,
}

impl EskerCursor {
    /// Calls `visit` with the iterator at up to `limit` pairs.
    fn walk(
        &mut self,
        from: From<'_>,
        limit: usize,
        mut visit: impl FnMut(&DbIterator),
    ) -> RivalResult<usize> {
        let iter = &mut self.iter;
        match from {
            From::First => iter.seek_to_first(),
            From::Key(key) => iter.seek(key),
            From::Last => iter.seek_to_last(),
        }
        let mut count = 0;
        while count < limit && iter.valid() {
            visit(iter);
            count += 1;
            if matches!(from, From::Last) { iter.prev() } else { iter.next() }
        }
        iter.status().map_err(text)?;
        Ok(count)
    }
}

impl RivalCursor for EskerCursor {
    fn scan(
        &mut self,
        from: From<'_>,
        limit: usize,
        visit: &mut impl FnMut(&[u8], &[u8]),
    ) -> RivalResult<usize> {
        self.walk(from, limit, |iter| visit(iter.key(), iter.value()))
    }

    fn keys(&mut self, from: From<'_>, limit: usize, visit: &mut impl FnMut(&[u8])) -> RivalResult<usize> {
        self.walk(from, limit, |iter| visit(iter.key()))
    }

    fn scan_behind(
        &mut self,
        from: From<'_>,
        skip: usize,
        limit: usize,
        visit: &mut impl FnMut(&[u8], &[u8]),
    ) -> RivalResult<usize> {
        let mut left = skip;
        let seen = self.walk(from, skip + limit, |iter| match left {
            0 => visit(iter.key(), iter.value()),
            _ => left -= 1,
        })?;
        Ok(seen.saturating_sub(skip))
    }
}
