//! TidesDB 10, an LSM tree in C, by its crate, which builds the library from source with CMake.

use crate::engine::{Abilities, Durability, From, RivalCursor, RivalEngine, RivalResult, RivalSettings};
use std::path::Path;
use std::time::Duration;
use tidesdb::{
    ColumnFamily, ColumnFamilyConfig, Config, Error, IsolationLevel, LogLevel, SyncMode, TidesDB, Transaction,
};

/// Differences from the other engines' settings.
pub(crate) const NOTES: &[&str] = &[
    "every put is a transaction; every get is a transaction of its own, a batch of reads is one",
    "its default, SyncMode::None, may lose commits when the process dies: here commits are in the file \
     (SyncMode::Interval, one sync an hour), or synced (SyncMode::Full) where all writes are",
    "every operation looks up its column family by name: a handle cannot be kept beside its database",
    "its values are copied by the C library and by the crate",
];

/// The adapter for TidesDB.
pub(crate) struct Tides {
    db: TidesDB,
    /// Whether the database syncs each commit itself.
    is_synced: bool,
}

const FAMILY: &str = "data";

fn text(error: Error) -> String {
    error.to_string()
}

/// Time between two checks for background work: TidesDB has no call that waits for it.
const POLL: Duration = Duration::from_micros(500);

/// Time between two syncs if writes need not survive a crash of the machine: longer than any step.
const INTERVAL_MICROS: u64 = 3_600_000_000;

impl Tides {
    fn family(&self) -> RivalResult<ColumnFamily<'_>> {
        self.db.get_column_family(FAMILY).map_err(text)
    }

    /// Commits what `fill` puts into a transaction. Repeats a commit that another one got ahead of.
    fn write(
        &self,
        durability: Durability,
        fill: impl Fn(&Transaction<'_>, &ColumnFamily<'_>) -> tidesdb::Result<()>,
    ) -> RivalResult<()> {
        let family = self.family()?;
        loop {
            let mut transaction = self.db.begin_transaction().map_err(text)?;
            match fill(&transaction, &family).and_then(|()| transaction.commit()) {
                Err(error) if error.is_conflict() || error.is_locked() => {}
                Err(error) => return Err(text(error)),
                Ok(()) => break,
            }
        }
        if durability == Durability::Sync && !self.is_synced {
            self.db.sync_wal().map_err(text)?;
        }
        Ok(())
    }
}

impl RivalEngine for Tides {
    const ABILITIES: Abilities = Abilities { no_wal: false, ..Abilities::ALL };

    type Cursor<'a> = TidesCursor<'a>;

    fn open(dir: &Path, settings: &RivalSettings) -> RivalResult<Tides> {
        let mode = if settings.synced { SyncMode::Full } else { SyncMode::Interval };
        let config = Config::new(dir)
            .log_level(LogLevel::None)
            .block_cache_size(settings.cache_bytes)
            .memtable_write_buffer_size(settings.write_buffer_bytes)
            .memtable_sync_mode(mode)
            .memtable_sync_interval_us(INTERVAL_MICROS);
        let db = TidesDB::open(config).map_err(text)?;
        if !db.list_column_families().map_err(text)?.iter().any(|name| name == FAMILY) {
            // A Bloom filter of that many bits per key, with the best number of probes.
            let false_positives = 0.618_503_f64.powf(settings.bloom_bits);
            let family = ColumnFamilyConfig::new().enable_bloom_filter(true).bloom_fpr(false_positives);
            db.create_column_family(FAMILY, family).map_err(text)?;
        }
        Ok(Tides { db, is_synced: settings.synced })
    }

    fn put(&self, key: &[u8], value: &[u8], durability: Durability) -> RivalResult<()> {
        self.write(durability, |transaction, family| transaction.put(family, key, value))
    }

    fn put_all(&self, pairs: &[(&[u8], &[u8])], durability: Durability) -> RivalResult<()> {
        self.write(durability, |transaction, family| {
            pairs.iter().try_for_each(|(key, value)| transaction.put(family, key, value))
        })
    }

    fn delete(&self, key: &[u8]) -> RivalResult<()> {
        self.write(Durability::Wal, |transaction, family| transaction.delete(family, key))
    }

    fn delete_range(&self, begin: &[u8], end: &[u8]) -> RivalResult<()> {
        self.write(Durability::Wal, |transaction, family| transaction.delete_range(family, begin, Some(end)))
    }

    fn get(&self, key: &[u8], visit: &mut impl FnMut(&[u8])) -> RivalResult<bool> {
        Ok(self.multi_get(&[key], visit)? == 1)
    }

    fn multi_get(&self, keys: &[&[u8]], visit: &mut impl FnMut(&[u8])) -> RivalResult<usize> {
        let (family, transaction) = (self.family()?, self.db.begin_transaction().map_err(text)?);
        let mut found = 0;
        for key in keys {
            match transaction.get_notrack(&family, key) {
                Ok(value) => {
                    visit(&value);
                    found += 1;
                }
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(text(error)),
            }
        }
        Ok(found)
    }

    fn with_cursor<T>(
        &self,
        _under_snapshot: bool,
        work: impl FnOnce(&mut TidesCursor<'_>) -> RivalResult<T>,
    ) -> RivalResult<T> {
        let family = self.family()?;
        let frozen = IsolationLevel::RepeatableRead;
        let transaction = self.db.begin_transaction_with_isolation(frozen).map_err(text)?;
        let iter = transaction.new_iterator(&family).map_err(text)?;
        work(&mut TidesCursor { iter })
    }

    fn flush(&self) -> RivalResult<()> {
        self.db.flush_memtable().map_err(text)
    }

    fn compact(&mut self) -> RivalResult<()> {
        self.flush()?;
        self.settle()?;
        self.family()?.compact().map_err(text)
    }

    fn settle(&self) -> RivalResult<()> {
        // A flush that has ended may have requested a compaction that has not begun. Three checks
        // in a row that find no work count as the end.
        let (family, mut quiet) = (self.family()?, 0);
        while quiet < 3 {
            let state = self.db.get_db_stats().map_err(text)?;
            let is_busy = self.db.is_flushing()
                || family.is_compacting()
                || state.immutable_memtable_count > 0
                || state.compaction_pending_count > 0;
            quiet = if is_busy { 0 } else { quiet + 1 };
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}

/// An iterator of a transaction that reads at the state of its begin.
pub(crate) struct TidesCursor<'a> {
    iter: tidesdb::Iterator<'a>,
}

impl TidesCursor<'_> {
    /// Calls `visit` with the iterator at up to `limit` pairs.
    fn walk(
        &mut self,
        from: From<'_>,
        limit: usize,
        mut visit: impl FnMut(&tidesdb::Iterator<'_>) -> tidesdb::Result<()>,
    ) -> RivalResult<usize> {
        let iter = &mut self.iter;
        match from {
            From::First => iter.seek_to_first(),
            From::Key(key) => iter.seek(key),
            From::Last => iter.seek_to_last(),
        }
        .map_err(text)?;
        let mut count = 0;
        while count < limit && iter.is_valid() {
            visit(iter).map_err(text)?;
            count += 1;
            if matches!(from, From::Last) { iter.prev() } else { iter.next() }.map_err(text)?;
        }
        Ok(count)
    }
}

impl RivalCursor for TidesCursor<'_> {
    fn scan(
        &mut self,
        from: From<'_>,
        limit: usize,
        visit: &mut impl FnMut(&[u8], &[u8]),
    ) -> RivalResult<usize> {
        self.scan_behind(from, 0, limit, visit)
    }

    fn keys(&mut self, from: From<'_>, limit: usize, visit: &mut impl FnMut(&[u8])) -> RivalResult<usize> {
        self.walk(from, limit, |iter| {
            visit(&iter.key()?);
            Ok(())
        })
    }

    fn scan_behind(
        &mut self,
        from: From<'_>,
        skip: usize,
        limit: usize,
        visit: &mut impl FnMut(&[u8], &[u8]),
    ) -> RivalResult<usize> {
        let mut left = skip;
        let seen = self.walk(from, skip.saturating_add(limit), |iter| {
            if left > 0 {
                left -= 1;
            } else {
                let (key, value) = iter.key_value()?;
                visit(&key, &value);
            }
            Ok(())
        })?;
        Ok(seen.saturating_sub(skip))
    }
}
