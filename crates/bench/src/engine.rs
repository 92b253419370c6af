//! What a benchmark needs of an engine, so that the same loops can drive Esker, another engine, or
//! nothing at all.
//!
//! Options and errors are Esker's own types: their names are RocksDB's, and others can translate
//! them once at open. All calls of a loop are monomorphic; none goes through a table of functions.

mod esker;
mod noop;

pub use self::esker::EskerStore;
pub use noop::NoStore;

use ::esker::{MultiScanArgs, ReadOptions, Result, WriteOptions};

/// Opens and removes the database of one run.
pub trait Store: Sync {
    /// An open database.
    type Engine: Engine;

    /// Opens the database, creating it if the run may write.
    /// # Errors
    /// The engine's, with the directory named.
    fn open(&self) -> Result<Self::Engine>;

    /// Removes the database; a directory without one is fine.
    /// # Errors
    /// `InvalidArgument` if the directory holds something else; the engine's own.
    fn destroy(&self) -> Result<()>;

    /// Where it is, as people read it.
    fn path(&self) -> String;

    /// What holds the newest writes, for the header.
    fn memtable_name(&self) -> &'static str;

    /// The engine's statistics as text, if they are collected.
    fn statistics(&self) -> Option<String>;
}

/// An open database, used by many threads.
pub trait Engine: Send + Sync {
    /// Writes that go together.
    type Batch: Batch;
    /// A place in the order of keys.
    type Cursor: Cursor;
    /// Values of a batch of reads; one is used for batch after batch, as RocksDB's tool does.
    type Values: Default;

    /// An empty batch for this database.
    fn new_batch(&self) -> Self::Batch;

    /// Writes all of `batch`; it stays the caller's.
    /// # Errors
    /// The engine's.
    fn write(&self, options: &WriteOptions, batch: &mut Self::Batch) -> Result<()>;

    /// Stores `value` under `key`.
    /// # Errors
    /// The engine's.
    fn put(&self, options: &WriteOptions, key: &[u8], value: &[u8]) -> Result<()>;

    /// Adds an operand to `key`.
    /// # Errors
    /// The engine's.
    fn merge(&self, options: &WriteOptions, key: &[u8], operand: &[u8]) -> Result<()>;

    /// Removes `key`.
    /// # Errors
    /// The engine's.
    fn delete(&self, options: &WriteOptions, key: &[u8]) -> Result<()>;

    /// Removes the keys from `begin` up to, not including, `end`.
    /// # Errors
    /// The engine's.
    fn delete_range(&self, options: &WriteOptions, begin: &[u8], end: &[u8]) -> Result<()>;

    /// Reads `key` without copying its value; the value's bytes, or `None` if it is absent.
    /// # Errors
    /// The engine's.
    fn get(&self, options: &ReadOptions, key: &[u8]) -> Result<Option<usize>>;

    /// Reads all `keys`, handing each value (or its absence) to `each` in the order of the keys.
    /// What was read lies in `values` until the next batch.
    /// # Errors
    /// The first error of a key; the others are still read.
    fn multi_get(
        &self,
        options: &ReadOptions,
        keys: &[Vec<u8>],
        values: &mut Self::Values,
        each: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()>;

    /// `options` that read the state of now, for as long as they live.
    fn under_snapshot(&self, options: &ReadOptions) -> ReadOptions;

    /// A cursor, not yet positioned.
    /// # Errors
    /// The engine's.
    fn cursor(&self, options: ReadOptions) -> Result<Self::Cursor>;

    /// Hands the entries of all ranges of `args` to `each`, range by range: key and value.
    /// # Errors
    /// The engine's; what was not read then is left out.
    fn multi_scan(
        &self,
        options: ReadOptions,
        args: &MultiScanArgs,
        each: impl FnMut(&[u8], &[u8]),
    ) -> Result<()>;

    /// Flushes what is in memory and waits.
    /// # Errors
    /// The engine's.
    fn flush(&self) -> Result<()>;

    /// Compacts everything. `rewrite_last_level` also rewrites what is in the last level already.
    /// # Errors
    /// The engine's.
    fn compact(&self, rewrite_last_level: bool, max_subcompactions: u32) -> Result<()>;

    /// Waits until no background work is running or due.
    /// # Errors
    /// The background error in force.
    fn wait_for_background_work(&self) -> Result<()>;

    /// A property under RocksDB's name.
    fn property(&self, name: &str) -> Option<String>;

    /// Ends background work and closes all files.
    /// # Errors
    /// The engine's; it is closed all the same.
    fn close(self) -> Result<()>;
}

/// Writes that go together.
pub trait Batch {
    /// Forgets all of them.
    fn clear(&mut self);
    /// Stores `value` under `key`.
    /// # Errors
    /// `InvalidArgument` for what the format cannot hold.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
    /// Removes `key`.
    /// # Errors
    /// As `put`.
    fn delete(&mut self, key: &[u8]) -> Result<()>;
    /// Removes the keys from `begin` up to, not including, `end`.
    /// # Errors
    /// As `put`.
    fn delete_range(&mut self, begin: &[u8], end: &[u8]) -> Result<()>;
}

/// A place in the order of keys.
pub trait Cursor {
    /// Whether it stands on an entry.
    fn valid(&self) -> bool;
    /// To the first key.
    fn seek_to_first(&mut self);
    /// To the last key.
    fn seek_to_last(&mut self);
    /// To the first key at or after `target`.
    fn seek(&mut self, target: &[u8]);
    /// To the last key at or before `target`.
    fn seek_for_prev(&mut self, target: &[u8]);
    /// To the next key. REQUIRES: `valid()`.
    fn next(&mut self);
    /// To the previous key. REQUIRES: `valid()`.
    fn prev(&mut self);
    /// The key here. REQUIRES: `valid()`.
    fn key(&self) -> &[u8];
    /// The value here. REQUIRES: `valid()`.
    fn value(&self) -> &[u8];
    /// Why it is not valid, if an error was the reason.
    /// # Errors
    /// The engine's.
    fn status(&self) -> Result<()>;
}
