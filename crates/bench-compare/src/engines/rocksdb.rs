//! RocksDB 11, or Esker's library with the same C functions, loaded at run time and called through
//! `esker_peer::timed`.

use crate::engine::{Abilities, Durability, From, RivalCursor, RivalEngine, RivalResult, RivalSettings};
use esker_peer::timed::{self, MultiGetScratch, ScanFrom, TimedCursor, TimedDb, TimedOptions};
use std::cell::RefCell;
use std::path::Path;

/// Bytes for a value that is read; no workload has longer values.
const BUFFER: usize = 4096;

/// The adapter for a library with RocksDB's C functions.
pub(crate) struct RocksDbEngine {
    db: TimedDb,
}

thread_local! {
    static VALUE: RefCell<[u8; BUFFER]> = const { RefCell::new([0; BUFFER]) };
    static SCRATCH: RefCell<MultiGetScratch> = RefCell::default();
}

impl From<'_> {
    fn for_rocksdb(&self) -> ScanFrom<'_> {
        match self {
            From::First => ScanFrom::First,
            From::Key(key) => ScanFrom::Key(key),
            From::Last => ScanFrom::Last,
        }
    }
}

fn durability(durability: Durability) -> timed::TimedDurability {
    match durability {
        Durability::NoWal => timed::TimedDurability::NoWal,
        Durability::Wal => timed::TimedDurability::Wal,
        Durability::Sync => timed::TimedDurability::Sync,
    }
}

impl RivalEngine for RocksDbEngine {
    const ABILITIES: Abilities = Abilities::ALL;

    type Cursor<'a> = TimedCursor<'a>;

    fn open(dir: &Path, settings: &RivalSettings) -> RivalResult<RocksDbEngine> {
        let buffer = settings.write_buffer_bytes;
        let text = format!(
            "create_if_missing=true;compression=kNoCompression;write_buffer_size={buffer};\
             target_file_size_base={buffer};max_bytes_for_level_base={}",
            4 * buffer
        );
        let options =
            TimedOptions { text, cache_bytes: settings.cache_bytes, bloom_bits: settings.bloom_bits };
        Ok(RocksDbEngine { db: TimedDb::open(dir, &options)? })
    }

    fn put(&self, key: &[u8], value: &[u8], how: Durability) -> RivalResult<()> {
        self.db.put(key, value, durability(how))
    }

    fn put_all(&self, pairs: &[(&[u8], &[u8])], how: Durability) -> RivalResult<()> {
        self.db.put_all(pairs.iter().copied(), durability(how))
    }

    fn delete(&self, key: &[u8]) -> RivalResult<()> {
        self.db.delete(key, timed::TimedDurability::Wal)
    }

    fn delete_range(&self, begin: &[u8], end: &[u8]) -> RivalResult<()> {
        self.db.delete_range(begin, end, timed::TimedDurability::Wal)
    }

    fn get(&self, key: &[u8], visit: &mut impl FnMut(&[u8])) -> RivalResult<bool> {
        VALUE.with_borrow_mut(|buffer| {
            let len = self.db.get(key, buffer)?;
            if let Some(len) = len {
                visit(&buffer[..len]);
            }
            Ok(len.is_some())
        })
    }

    fn multi_get(&self, keys: &[&[u8]], visit: &mut impl FnMut(&[u8])) -> RivalResult<usize> {
        let mut found = 0;
        SCRATCH.with_borrow_mut(|scratch| {
            self.db.multi_get(keys, scratch, |value| {
                visit(value);
                found += 1;
            })
        })?;
        Ok(found)
    }

    fn with_cursor<T>(
        &self,
        under_snapshot: bool,
        work: impl FnOnce(&mut TimedCursor<'_>) -> RivalResult<T>,
    ) -> RivalResult<T> {
        work(&mut self.db.cursor(under_snapshot))
    }

    fn flush(&self) -> RivalResult<()> {
        self.db.flush()
    }

    fn compact(&mut self) -> RivalResult<()> {
        self.db.compact();
        Ok(())
    }

    fn settle(&self) -> RivalResult<()> {
        self.db.settle()
    }
}

impl RivalCursor for TimedCursor<'_> {
    fn scan(
        &mut self,
        from: From<'_>,
        limit: usize,
        visit: &mut impl FnMut(&[u8], &[u8]),
    ) -> RivalResult<usize> {
        TimedCursor::scan(self, from.for_rocksdb(), limit, visit)
    }
}
