//! Bf-Tree 0.5: a B-tree that keeps variable-length parts of its pages in a circular buffer, and
//! the pages in a file.

use crate::engine::{Abilities, Durability, From, RivalCursor, RivalEngine, RivalResult, RivalSettings};
use bf_tree::{BfTree, Config, LeafInsertResult, LeafReadResult, ScanReturnField};
use std::cell::RefCell;
use std::path::Path;

/// Differences from the other engines' settings.
pub(crate) const NOTES: &[&str] = &[
    "a crash of the process loses its writes: it never syncs its log, waits a millisecond for each record of it, and \
     calls the recovery from it incomplete",
    "a closed tree is lost: only trees that support snapshots can be opened again, and these make a system call at each \
     operation",
    "its buffer is memtable and cache in one: the greatest power of two within the cache's size",
    "a batch is a loop of puts; scans go forward only, and show the writes beside them",
    "keys of at most 16 bytes, its default",
];

/// Bytes for a key and value that are read; no workload has longer pairs.
const BUFFER: usize = 4096;

/// Bytes of the smallest circular buffer: 16 pages.
const LEAST_BUFFER: usize = 1 << 16;

/// The least key: keys are not empty.
const LEAST_KEY: &[u8] = &[0];

thread_local! {
    static ROW: RefCell<[u8; BUFFER]> = const { RefCell::new([0; BUFFER]) };
}

/// The adapter for Bf-Tree.
pub(crate) struct BfTreeEngine {
    tree: BfTree,
}

impl RivalEngine for BfTreeEngine {
    const ABILITIES: Abilities = Abilities {
        multi_get: false,
        delete_range: false,
        cache: false,
        compacts: false,
        reopens: false,
        synced: false,
        batches: false,
        reverse: false,
        versions: false,
        ..Abilities::ALL
    };

    type Cursor<'a> = BfTreeCursor<'a>;

    fn open(dir: &Path, settings: &RivalSettings) -> RivalResult<BfTreeEngine> {
        let buffer = 1 << settings.cache_bytes.max(LEAST_BUFFER).ilog2();
        let config = Config::new(dir.join("bf-tree"), buffer);
        let tree = BfTree::with_config(config, None).map_err(|e| format!("{e:?}"))?;
        Ok(BfTreeEngine { tree })
    }

    fn put(&self, key: &[u8], value: &[u8], _durability: Durability) -> RivalResult<()> {
        match self.tree.insert(key, value) {
            LeafInsertResult::Success => Ok(()),
            LeafInsertResult::InvalidKV(why) => Err(why),
        }
    }

    fn put_all(&self, pairs: &[(&[u8], &[u8])], durability: Durability) -> RivalResult<()> {
        pairs.iter().try_for_each(|(key, value)| self.put(key, value, durability))
    }

    fn delete(&self, key: &[u8]) -> RivalResult<()> {
        self.tree.delete(key);
        Ok(())
    }

    fn get(&self, key: &[u8], visit: &mut impl FnMut(&[u8])) -> RivalResult<bool> {
        ROW.with_borrow_mut(|row| match self.tree.read(key, row) {
            LeafReadResult::Found(len) => {
                visit(&row[..len as usize]);
                Ok(true)
            }
            LeafReadResult::NotFound | LeafReadResult::Deleted => Ok(false),
            LeafReadResult::InvalidKey => Err(format!("a key of {} bytes is refused", key.len())),
        })
    }

    fn with_cursor<T>(
        &self,
        _under_snapshot: bool,
        work: impl FnOnce(&mut BfTreeCursor<'_>) -> RivalResult<T>,
    ) -> RivalResult<T> {
        work(&mut BfTreeCursor { tree: &self.tree })
    }

    /// Does nothing: pages are written when they leave the buffer.
    fn flush(&self) -> RivalResult<()> {
        Ok(())
    }

    fn compact(&mut self) -> RivalResult<()> {
        Err("Bf-Tree does not compact".to_owned())
    }

    fn settle(&self) -> RivalResult<()> {
        Ok(())
    }
}

/// A tree; every scan makes an iterator, which holds a lock on its page.
pub(crate) struct BfTreeCursor<'a> {
    tree: &'a BfTree,
}

impl BfTreeCursor<'_> {
    fn rows(
        &self,
        from: From<'_>,
        limit: usize,
        fields: ScanReturnField,
        visit: &mut impl FnMut(&[u8], &[u8]),
    ) -> RivalResult<usize> {
        let start = match from {
            From::First => LEAST_KEY,
            From::Key(key) => key,
            From::Last => return Err("Bf-Tree scans only forward".to_owned()),
        };
        if limit == 0 {
            return Ok(0);
        }
        let mut iter = self.tree.scan_with_count(start, limit, fields).map_err(|e| format!("{e:?}"))?;
        let mut count = 0;
        ROW.with_borrow_mut(|row| {
            while let Some((key, value)) = iter.next(row) {
                visit(&row[..key], &row[key..key + value]);
                count += 1;
            }
        });
        Ok(count)
    }
}

impl RivalCursor for BfTreeCursor<'_> {
    fn scan(
        &mut self,
        from: From<'_>,
        limit: usize,
        visit: &mut impl FnMut(&[u8], &[u8]),
    ) -> RivalResult<usize> {
        self.rows(from, limit, ScanReturnField::KeyAndValue, visit)
    }

    fn keys(&mut self, from: From<'_>, limit: usize, visit: &mut impl FnMut(&[u8])) -> RivalResult<usize> {
        self.rows(from, limit, ScanReturnField::Key, &mut |key, _| visit(key))
    }
}
