//! What a benchmark asks of an engine: one trait, implemented once for each engine in `engines/`.
//!
//! In: settings that every engine is given alike. Out: operations on one ordered map of bytes.
//!
//! Invariants
//!  1. A workload sees nothing but this trait, so every engine does the same operations in the same
//!     order.
//!  2. The workloads are compiled once for each engine: no virtual call stands between a workload
//!     and an engine.
//!  3. Values are lent to a closure wherever the engine can lend them; an engine that copies does
//!     so because its interface has no other way.

use serde::{Deserialize, Serialize};
use std::path::Path;

/// What went wrong, for the person who runs this.
pub(crate) type Result<T> = std::result::Result<T, String>;

/// What every engine is told, as far as it has such an option.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Settings {
    /// Size of a memtable, bytes. The levels below scale with it as RocksDB's defaults do.
    pub(crate) write_buffer_bytes: usize,
    /// Capacity of the block or page cache, bytes.
    pub(crate) cache_bytes: usize,
    /// Bits a key of Bloom filters.
    pub(crate) bloom_bits: f64,
    /// Upper bound of what is ever stored, bytes: LMDB must reserve that much address space.
    pub(crate) map_bytes: usize,
}

/// How a write is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Durability {
    /// Lost when the process dies.
    NoWal,
    /// Survives the process, not the machine; an engine without a log comes as near as it can.
    Wal,
    /// Survives the machine.
    Sync,
}

/// Where a scan starts, and with that its direction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum From<'a> {
    /// At the first pair, forwards.
    First,
    /// At the first pair at or behind the key, forwards.
    Key(&'a [u8]),
    /// At the last pair, backwards.
    Last,
}

/// What an engine has; a workload that needs more is left out for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Abilities {
    /// Writes can skip the log.
    pub(crate) no_wal: bool,
    /// Many keys can be read in one call.
    pub(crate) multi_get: bool,
    /// A range can be deleted by one record.
    pub(crate) delete_range: bool,
    /// The size of a cache can be set.
    pub(crate) cache: bool,
    /// It can be compacted in place.
    pub(crate) compacts: bool,
    /// It keeps anything on disk.
    pub(crate) disk: bool,
}

/// A cursor over one state of an engine.
pub(crate) trait Cursor {
    /// Shows up to `limit` pairs and gives their number.
    fn scan(&mut self, from: From<'_>, limit: usize, visit: &mut impl FnMut(&[u8], &[u8])) -> Result<usize>;
}

/// An open database.
pub(crate) trait Engine: Sized + Send + Sync {
    /// What it has.
    const ABILITIES: Abilities;

    /// Its cursor.
    type Cursor<'a>: Cursor
    where
        Self: 'a;

    /// Opens the database in `dir`, which exists; it is empty, or was this engine's.
    fn open(dir: &Path, settings: &Settings) -> Result<Self>;

    /// Stores one pair.
    fn put(&self, key: &[u8], value: &[u8], durability: Durability) -> Result<()>;

    /// Stores all pairs at once.
    fn put_all(&self, pairs: &[(&[u8], &[u8])], durability: Durability) -> Result<()>;

    /// Deletes one key.
    fn delete(&self, key: &[u8]) -> Result<()>;

    /// Deletes the keys of `begin..end`. Only called if [`Abilities::delete_range`].
    fn delete_range(&self, _begin: &[u8], _end: &[u8]) -> Result<()> {
        Err("this engine deletes no ranges".to_owned())
    }

    /// Shows the value of `key`; false if there is none.
    fn get(&self, key: &[u8], visit: &mut impl FnMut(&[u8])) -> Result<bool>;

    /// Shows the values that there are of `keys`, and gives their number. Without
    /// [`Abilities::multi_get`] this is a loop.
    fn multi_get(&self, keys: &[&[u8]], visit: &mut impl FnMut(&[u8])) -> Result<usize> {
        let mut found = 0;
        for key in keys {
            found += usize::from(self.get(key, visit)?);
        }
        Ok(found)
    }

    /// A cursor over the state of now; `under_snapshot` asks for a snapshot object where the engine
    /// makes a difference.
    fn cursor(&self, under_snapshot: bool) -> Result<Self::Cursor<'_>>;

    /// How many pairs there are. An engine that does not count them walks over them.
    fn len(&self) -> Result<u64> {
        let count = self.cursor(false)?.scan(From::First, usize::MAX, &mut |_, _| ())?;
        Ok(count as u64)
    }

    /// Writes what is in memory to its place on disk, and waits.
    fn flush(&self) -> Result<()>;

    /// Brings the whole database into its tightest form, and waits.
    fn compact(&mut self) -> Result<()>;

    /// Waits until no background work is due or running.
    fn settle(&self) -> Result<()>;

    /// Bytes stored since opening into files that are mapped, which no system call saw; as far as
    /// the engine counts them.
    fn mapped_bytes(&self) -> u64 {
        0
    }
}
