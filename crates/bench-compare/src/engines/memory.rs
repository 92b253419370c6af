//! The limit: a `BTreeMap` behind a lock, without log, flush or recovery. Every write copies its
//! bytes once.

use crate::engine::{Abilities, Durability, From, RivalCursor, RivalEngine, RivalResult, RivalSettings};
use esker::internals::base::sync::{RwLock, RwLockReadGuard};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

type Map = BTreeMap<Box<[u8]>, Box<[u8]>>;

/// The adapter for the map.
pub(crate) struct Memory {
    map: RwLock<Map>,
}

impl RivalEngine for Memory {
    const ABILITIES: Abilities = Abilities {
        multi_get: false,
        delete_range: false,
        cache: false,
        compacts: false,
        disk: false,
        reopens: false,
        synced: false,
        versions: false,
        ..Abilities::ALL
    };

    type Cursor<'a> = MemoryCursor<'a>;

    fn open(_dir: &Path, _settings: &RivalSettings) -> RivalResult<Memory> {
        Ok(Memory { map: RwLock::new(Map::new()) })
    }

    fn put(&self, key: &[u8], value: &[u8], _durability: Durability) -> RivalResult<()> {
        self.map.write().insert(key.into(), value.into());
        Ok(())
    }

    fn put_all(&self, pairs: &[(&[u8], &[u8])], _durability: Durability) -> RivalResult<()> {
        let mut map = self.map.write();
        for &(key, value) in pairs {
            map.insert(key.into(), value.into());
        }
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> RivalResult<()> {
        self.map.write().remove(key);
        Ok(())
    }

    fn get(&self, key: &[u8], visit: &mut impl FnMut(&[u8])) -> RivalResult<bool> {
        let map = self.map.read();
        let value = map.get(key);
        if let Some(value) = value {
            visit(value);
        }
        Ok(value.is_some())
    }

    fn with_cursor<T>(
        &self,
        _under_snapshot: bool,
        work: impl FnOnce(&mut MemoryCursor<'_>) -> RivalResult<T>,
    ) -> RivalResult<T> {
        work(&mut MemoryCursor { map: self.map.read() })
    }

    fn flush(&self) -> RivalResult<()> {
        Ok(())
    }

    fn compact(&mut self) -> RivalResult<()> {
        Ok(())
    }

    fn settle(&self) -> RivalResult<()> {
        Ok(())
    }
}

/// A scan locks out writers: a map has no versions.
pub(crate) struct MemoryCursor<'a> {
    map: RwLockReadGuard<'a, Map>,
}

impl RivalCursor for MemoryCursor<'_> {
    fn scan(
        &mut self,
        from: From<'_>,
        limit: usize,
        visit: &mut impl FnMut(&[u8], &[u8]),
    ) -> RivalResult<usize> {
        let map = &*self.map;
        Ok(match from {
            From::First => show(map.iter().map(|(k, v)| (&**k, &**v)), limit, visit),
            From::Key(key) => {
                let behind = (Bound::Included(key), Bound::Unbounded);
                show(map.range::<[u8], _>(behind).map(|(k, v)| (&**k, &**v)), limit, visit)
            }
            From::Last => show(map.iter().rev().map(|(k, v)| (&**k, &**v)), limit, visit),
        })
    }
}

fn show<'m>(
    pairs: impl Iterator<Item = (&'m [u8], &'m [u8])>,
    limit: usize,
    visit: &mut impl FnMut(&[u8], &[u8]),
) -> usize {
    pairs.take(limit).map(|(key, value)| visit(key, value)).count()
}
