//! The interface between benchmarks and engines. The same loops drive Esker, another engine, or an
//! engine that does nothing.
//!
//! Options and errors are Esker's types, with RocksDB's names. Another engine translates them. Each
//! loop is compiled for one engine, without virtual calls.

mod esker;
mod noop;

pub use self::esker::EskerStore;
pub use noop::NoStore;

use ::esker::{MultiScanArgs, ReadOptions, Result, WriteOptions};

/// Opens and removes the database of one run.
pub trait Store: Sync {
    /// An open database.
    type Engine: BenchEngine;

    /// Opens the database. Creates it if the run may write.
    /// # Errors
    /// Errors of the engine, which name the directory.
    fn open(&self) -> Result<Self::Engine>;

    /// Removes the database, if there is one.
    /// # Errors
    /// `InvalidArgument` if the directory holds other files · errors of the engine.
    fn destroy(&self) -> Result<()>;

    /// The location of the database, for messages.
    fn path(&self) -> String;

    /// The kind of memtable, for the header.
    fn memtable_name(&self) -> &'static str;

    /// The engine's statistics as text; `None` if they are not collected.
    fn statistics(&self) -> Option<String>;
}

/// An open database, shared by threads.
pub trait BenchEngine: Send + Sync {
    /// A batch of writes.
    type Batch: BenchBatch;
    /// An iterator over keys.
    type Cursor: BenchCursor;
    /// Values of a batch of reads. As in RocksDB's tool, all batches of a loop use the same object.
    type Values: Default;

    /// An empty batch for this database.
    fn new_batch(&self) -> Self::Batch;

    /// Writes all operations of `batch` and leaves the batch unchanged.
    /// # Errors
    /// Errors of the engine.
    fn write(&self, options: &WriteOptions, batch: &mut Self::Batch) -> Result<()>;

    /// Stores `value` under `key`.
    /// # Errors
    /// Errors of the engine.
    fn put(&self, options: &WriteOptions, key: &[u8], value: &[u8]) -> Result<()>;

    /// Adds an operand to `key`.
    /// # Errors
    /// Errors of the engine.
    fn merge(&self, options: &WriteOptions, key: &[u8], operand: &[u8]) -> Result<()>;

    /// Removes `key`.
    /// # Errors
    /// Errors of the engine.
    fn delete(&self, options: &WriteOptions, key: &[u8]) -> Result<()>;

    /// Removes the keys from `begin` up to, not including, `end`.
    /// # Errors
    /// Errors of the engine.
    fn delete_range(&self, options: &WriteOptions, begin: &[u8], end: &[u8]) -> Result<()>;

    /// Reads `key` without a copy of its value. Returns the value's length, or `None` for an absent
    /// key.
    /// # Errors
    /// Errors of the engine.
    fn get(&self, options: &ReadOptions, key: &[u8]) -> Result<Option<usize>>;

    /// Reads all `keys`. Calls `each` with the index of each key and its value or `None`, in the
    /// order of the keys. `values` holds the results until the next batch.
    /// # Errors
    /// The first error of a key. The other keys are still read.
    fn multi_get(
        &self,
        options: &ReadOptions,
        keys: &[Vec<u8>],
        values: &mut Self::Values,
        each: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()>;

    /// A copy of `options` with a new snapshot. The snapshot lives as long as the copy.
    fn under_snapshot(&self, options: &ReadOptions) -> ReadOptions;

    /// An iterator without a position.
    /// # Errors
    /// Errors of the engine.
    fn cursor(&self, options: ReadOptions) -> Result<Self::Cursor>;

    /// Scans all ranges in `args`, one after the other. Calls `each` with the key and value of each
    /// entry.
    /// # Errors
    /// Errors of the engine. The remaining entries are then not read.
    fn multi_scan(
        &self,
        options: ReadOptions,
        args: &MultiScanArgs,
        each: impl FnMut(&[u8], &[u8]),
    ) -> Result<()>;

    /// Flushes the memtables, and waits for the end of the flush.
    /// # Errors
    /// Errors of the engine.
    fn flush(&self) -> Result<()>;

    /// Compacts the whole database; with `rewrite_last_level` also the tables of the last level.
    /// # Errors
    /// Errors of the engine.
    fn compact(&self, rewrite_last_level: bool, max_subcompactions: u32) -> Result<()>;

    /// Waits until no background work is due or running.
    /// # Errors
    /// The background error, if there is one.
    fn wait_for_background_work(&self) -> Result<()>;

    /// The property with this RocksDB name.
    fn property(&self, name: &str) -> Option<String>;

    /// Ends background work and closes all files.
    /// # Errors
    /// Errors of the engine. The database is closed in any case.
    fn close(self) -> Result<()>;
}

/// Writes that are applied together.
pub trait BenchBatch {
    /// Empties the batch.
    fn clear(&mut self);
    /// Stores `value` under `key`.
    /// # Errors
    /// `InvalidArgument` for a key or value that is too long for the format.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
    /// Removes `key`.
    /// # Errors
    /// `InvalidArgument` for a key that is too long for the format.
    fn delete(&mut self, key: &[u8]) -> Result<()>;
    /// Removes the keys from `begin` up to, not including, `end`.
    /// # Errors
    /// `InvalidArgument` for a key that is too long for the format.
    fn delete_range(&mut self, begin: &[u8], end: &[u8]) -> Result<()>;
}

/// An iterator over keys and values.
pub trait BenchCursor {
    /// Whether the iterator is at an entry.
    fn valid(&self) -> bool;
    /// Moves to the first key.
    fn seek_to_first(&mut self);
    /// Moves to the last key.
    fn seek_to_last(&mut self);
    /// Moves to the first key at or after `target`.
    fn seek(&mut self, target: &[u8]);
    /// Moves to the last key at or before `target`.
    fn seek_for_prev(&mut self, target: &[u8]);
    /// Moves to the next key. REQUIRES: `valid()`.
    fn next(&mut self);
    /// Moves to the previous key. REQUIRES: `valid()`.
    fn prev(&mut self);
    /// The present key. REQUIRES: `valid()`.
    fn key(&self) -> &[u8];
    /// The present value. REQUIRES: `valid()`.
    fn value(&self) -> &[u8];
    /// The error that made the iterator invalid, if there was one.
    /// # Errors
    /// Errors of the engine.
    fn status(&self) -> Result<()>;
}
