//! fjall 3, another LSM tree in Rust.

use crate::engine::{Abilities, Durability, From, RivalCursor, RivalEngine, RivalResult, RivalSettings};
use fjall::compaction::Leveled;
use fjall::config::{BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry};
use fjall::{Database, Guard, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Differences from the other engines' settings.
pub(crate) const NOTES: &[&str] = &["no writes without its journal, no range deletions"];

/// The adapter for fjall.
pub(crate) struct Fjall {
    db: Database,
    keyspace: Keyspace,
}

fn text(error: fjall::Error) -> String {
    error.to_string()
}

/// Time between two checks for background work: fjall has no call that waits for it.
const POLL: Duration = Duration::from_micros(500);

impl RivalEngine for Fjall {
    const ABILITIES: Abilities =
        Abilities { no_wal: false, multi_get: false, delete_range: false, ..Abilities::ALL };

    type Cursor<'a> = FjallCursor<'a>;

    fn open(dir: &Path, settings: &RivalSettings) -> RivalResult<Fjall> {
        let buffer = settings.write_buffer_bytes as u64;
        let db = Database::builder(dir)
            .cache_size(settings.cache_bytes as u64)
            .max_journaling_size((8 * buffer).max(512 << 20))
            .worker_threads(2)
            .open()
            .map_err(text)?;
        #[expect(clippy::cast_possible_truncation, reason = "a handful of bits")]
        let bloom = BloomConstructionPolicy::BitsPerKey(settings.bloom_bits as f32);
        let options = || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(buffer)
                .data_block_compression_policy(CompressionPolicy::disabled())
                .index_block_compression_policy(CompressionPolicy::disabled())
                .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(bloom)))
                .compaction_strategy(Arc::new(Leveled::default().with_table_target_size(buffer)))
        };
        let keyspace = db.keyspace("default", options).map_err(text)?;
        Ok(Fjall { db, keyspace })
    }

    fn put(&self, key: &[u8], value: &[u8], durability: Durability) -> RivalResult<()> {
        self.keyspace.insert(key, value).map_err(text)?;
        self.persist(durability)
    }

    fn put_all(&self, pairs: &[(&[u8], &[u8])], durability: Durability) -> RivalResult<()> {
        let mut batch = self.db.batch();
        for &(key, value) in pairs {
            batch.insert(&self.keyspace, key, value);
        }
        batch.commit().map_err(text)?;
        self.persist(durability)
    }

    fn delete(&self, key: &[u8]) -> RivalResult<()> {
        self.keyspace.remove(key).map_err(text)
    }

    fn get(&self, key: &[u8], visit: &mut impl FnMut(&[u8])) -> RivalResult<bool> {
        let value = self.keyspace.get(key).map_err(text)?;
        if let Some(value) = &value {
            visit(value);
        }
        Ok(value.is_some())
    }

    fn with_cursor<T>(
        &self,
        _under_snapshot: bool,
        work: impl FnOnce(&mut FjallCursor<'_>) -> RivalResult<T>,
    ) -> RivalResult<T> {
        work(&mut FjallCursor { snapshot: self.db.snapshot(), keyspace: &self.keyspace })
    }

    fn flush(&self) -> RivalResult<()> {
        self.keyspace.rotate_memtable_and_wait().map_err(text)
    }

    fn compact(&mut self) -> RivalResult<()> {
        self.flush()?;
        self.keyspace.major_compact().map_err(text)
    }

    fn settle(&self) -> RivalResult<()> {
        // A flush that has ended may have requested a compaction that has not begun. Two checks in
        // a row that find no work count as the end.
        let mut quiet = 0;
        while quiet < 3 {
            let is_busy = self.db.outstanding_flushes() > 0
                || self.keyspace.sealed_memtable_count() > 0
                || self.db.active_compactions() > 0;
            quiet = if is_busy { 0 } else { quiet + 1 };
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}

impl Fjall {
    fn persist(&self, durability: Durability) -> RivalResult<()> {
        if durability == Durability::Sync {
            self.db.persist(PersistMode::SyncData).map_err(text)?;
        }
        Ok(())
    }
}

/// A snapshot. Every scan makes an iterator of it.
pub(crate) struct FjallCursor<'a> {
    snapshot: Snapshot,
    keyspace: &'a Keyspace,
}

impl RivalCursor for FjallCursor<'_> {
    fn scan(
        &mut self,
        from: From<'_>,
        limit: usize,
        visit: &mut impl FnMut(&[u8], &[u8]),
    ) -> RivalResult<usize> {
        match from {
            From::First => show(self.snapshot.iter(self.keyspace), limit, visit),
            From::Key(key) => show(self.snapshot.range(self.keyspace, key..), limit, visit),
            From::Last => show(self.snapshot.iter(self.keyspace).rev(), limit, visit),
        }
    }

    fn keys(&mut self, from: From<'_>, limit: usize, visit: &mut impl FnMut(&[u8])) -> RivalResult<usize> {
        match from {
            From::First => show_keys(self.snapshot.iter(self.keyspace), limit, visit),
            From::Key(key) => show_keys(self.snapshot.range(self.keyspace, key..), limit, visit),
            From::Last => show_keys(self.snapshot.iter(self.keyspace).rev(), limit, visit),
        }
    }

    fn scan_behind(
        &mut self,
        from: From<'_>,
        skip: usize,
        limit: usize,
        visit: &mut impl FnMut(&[u8], &[u8]),
    ) -> RivalResult<usize> {
        match from {
            From::First => show(self.snapshot.iter(self.keyspace).skip(skip), limit, visit),
            From::Key(key) => show(self.snapshot.range(self.keyspace, key..).skip(skip), limit, visit),
            From::Last => show(self.snapshot.iter(self.keyspace).rev().skip(skip), limit, visit),
        }
    }
}

fn show(
    pairs: impl Iterator<Item = Guard>,
    limit: usize,
    visit: &mut impl FnMut(&[u8], &[u8]),
) -> RivalResult<usize> {
    let mut count = 0;
    for pair in pairs.take(limit) {
        let (key, value) = pair.into_inner().map_err(text)?;
        visit(&key, &value);
        count += 1;
    }
    Ok(count)
}

fn show_keys(
    pairs: impl Iterator<Item = Guard>,
    limit: usize,
    visit: &mut impl FnMut(&[u8]),
) -> RivalResult<usize> {
    let mut count = 0;
    for pair in pairs.take(limit) {
        visit(&pair.key().map_err(text)?);
        count += 1;
    }
    Ok(count)
}
