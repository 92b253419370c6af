//! RocksDB as benchmarks call it: one family, prepared options, values lent rather than copied
//! where its C functions allow that.
//!
//! In: a directory, sizes. Out: the operations that a benchmark requires of every engine.
//!
//! Invariants
//!  1. Cursors and snapshots borrow the database; it closes behind them.
//!  2. Memory that RocksDB gives away is freed before the call returns. Memory that it lends is
//!     passed to a closure only.

use crate::api::{
    Api, Batch, Database, Family, Iter, NEEDS_11, Options, PinnedValue, ReadOptions, Slice, SnapshotPtr,
    WriteOptions, api,
};
use crate::c_data::{c_path, call, slice, take_string};
use crate::option_set::OptionSet;
use std::ffi::c_char;
use std::path::Path;
use std::ptr;

/// Sizes and switches that matter for speed. Everything else is RocksDB's default.
#[derive(Clone, Debug)]
pub struct TimedOptions {
    /// `name=value;…`, as OPTIONS files have it.
    pub text: String,
    /// Capacity of the block cache, bytes. It is a hyper clock cache, as in RocksDB's own
    /// benchmark.
    pub cache_bytes: usize,
    /// Bits of the Bloom filter for each key.
    pub bloom_bits: f64,
}

/// The durability of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimedDurability {
    /// Memory only.
    NoWal,
    /// In the WAL, handed to the operating system.
    Wal,
    /// In the WAL, synced to the medium.
    Sync,
}

/// An open database. Closed when dropped.
#[derive(Debug)]
pub struct TimedDb {
    api: &'static Api,
    db: *mut Database,
    family: *mut Family,
    read: *mut ReadOptions,
    /// Write options, in the order of [`TimedDurability`].
    write: [*mut WriteOptions; 3],
}

// SAFETY: RocksDB's databases and options may be used from any thread.
unsafe impl Send for TimedDb {}
// SAFETY: RocksDB synchronises calls on a database; the options do not change after the opening.
unsafe impl Sync for TimedDb {}

impl TimedDb {
    /// Opens or creates the database in `path`.
    /// # Errors
    /// RocksDB's, as text; or why there is no RocksDB.
    pub fn open(path: &Path, options: &TimedOptions) -> Result<TimedDb, String> {
        let api = api()?;
        let set = OptionSet::parse(api, &options.text)?;
        set_table_options(api, set.as_ptr().cast_mut(), options);
        let c_path = c_path(path);
        // SAFETY: the options are live, the string ends in NUL.
        let db = call(api, |error| unsafe { (api.open)(set.as_ptr(), c_path.as_ptr(), error) })?;
        // SAFETY: the database is live.
        let family = unsafe { api.get_default_column_family_handle.expect(NEEDS_11)(db) };
        // SAFETY: no requirements.
        let read = unsafe { (api.readoptions_create)() };
        let write = [TimedDurability::NoWal, TimedDurability::Wal, TimedDurability::Sync]
            .map(|d| write_options(api, d));
        Ok(TimedDb { api, db, family, read, write })
    }

    fn write_options(&self, durability: TimedDurability) -> *const WriteOptions {
        self.write[durability as usize]
    }

    /// Stores one pair.
    /// # Errors
    /// RocksDB's, as text.
    pub fn put(&self, key: &[u8], value: &[u8], durability: TimedDurability) -> Result<(), String> {
        let ((k, kn), (v, vn)) = (slice(key), slice(value));
        let options = self.write_options(durability);
        // SAFETY: database and options are live; the bytes outlive the call.
        call(self.api, |error| unsafe { (self.api.put)(self.db, options, k, kn, v, vn, error) })
    }

    /// Deletes one key.
    /// # Errors
    /// RocksDB's, as text.
    pub fn delete(&self, key: &[u8], durability: TimedDurability) -> Result<(), String> {
        let (k, kn) = slice(key);
        let options = self.write_options(durability);
        // SAFETY: database and options are live; the bytes outlive the call.
        call(self.api, |error| unsafe { (self.api.delete)(self.db, options, k, kn, error) })
    }

    /// Stores all pairs at once.
    /// # Errors
    /// RocksDB's, as text.
    pub fn put_all<'p>(
        &self,
        pairs: impl Iterator<Item = (&'p [u8], &'p [u8])>,
        durability: TimedDurability,
    ) -> Result<(), String> {
        let batch = OwnedBatch::new(self.api);
        for (key, value) in pairs {
            let ((k, kn), (v, vn)) = (slice(key), slice(value));
            // SAFETY: the batch is live; it copies the bytes.
            unsafe { (self.api.writebatch_put)(batch.ptr, k, kn, v, vn) };
        }
        self.write(&batch, durability)
    }

    /// Deletes all keys of `begin..end`.
    /// # Errors
    /// RocksDB's, as text.
    pub fn delete_range(&self, begin: &[u8], end: &[u8], durability: TimedDurability) -> Result<(), String> {
        let batch = OwnedBatch::new(self.api);
        let ((b, bn), (e, en)) = (slice(begin), slice(end));
        // SAFETY: the batch is live; it copies the bytes.
        unsafe { (self.api.writebatch_delete_range)(batch.ptr, b, bn, e, en) };
        self.write(&batch, durability)
    }

    fn write(&self, batch: &OwnedBatch, durability: TimedDurability) -> Result<(), String> {
        let options = self.write_options(durability);
        // SAFETY: database, options and batch are live.
        call(self.api, |error| unsafe { (self.api.write)(self.db, options, batch.ptr, error) })
    }

    /// Copies the value of `key` into `buffer` and gives its length; `None` if the key is absent.
    /// # Errors
    /// RocksDB's, as text · the buffer is too small.
    pub fn get(&self, key: &[u8], buffer: &mut [u8]) -> Result<Option<usize>, String> {
        let (k, kn) = slice(key);
        let (mut len, mut found) = (0, 0);
        let out = buffer.as_mut_ptr().cast();
        let copied = call(self.api, |error| {
            let get = self.api.get_into_buffer.expect(NEEDS_11);
            // SAFETY: database and options are live; key, buffer and results outlive the call.
            unsafe { get(self.db, self.read, k, kn, out, buffer.len(), &raw mut len, &raw mut found, error) }
        })?;
        match (found, copied) {
            (0, _) => Ok(None),
            (_, 0) => Err(format!("a value of {len} bytes where {} were expected at most", buffer.len())),
            _ => Ok(Some(len)),
        }
    }

    /// Reads all keys as one batch and shows each value found to `visit`.
    /// # Errors
    /// RocksDB's, as text.
    pub fn multi_get(
        &self,
        keys: &[&[u8]],
        scratch: &mut MultiGetScratch,
        mut visit: impl FnMut(&[u8]),
    ) -> Result<(), String> {
        let MultiGetScratch { slices, values, errors } = scratch;
        slices.clear();
        slices.extend(keys.iter().map(|key| Slice { data: key.as_ptr().cast(), size: key.len() }));
        values.clear();
        values.resize(keys.len(), ptr::null_mut());
        errors.clear();
        errors.resize(keys.len(), ptr::null_mut());
        let (k, v, e) = (slices.as_ptr(), values.as_mut_ptr(), errors.as_mut_ptr());
        // SAFETY: database, options and family are live; the three arrays have as many elements as
        // there are keys.
        unsafe {
            self.api.batched_multi_get_cf_slice.expect(NEEDS_11)(
                self.db,
                self.read,
                self.family,
                keys.len(),
                k,
                v,
                e,
                false,
            );
        }
        let mut failure = None;
        for (&value, &error) in values.iter().zip(errors.iter()) {
            if !error.is_null() {
                failure = Some(take_string(self.api, error));
            }
            if !value.is_null() {
                let mut len = 0;
                // SAFETY: RocksDB gave the value to us; it is destroyed below.
                let bytes = unsafe { (self.api.pinnableslice_value)(value, &raw mut len) };
                visit(lent(bytes, len));
                // SAFETY: RocksDB gave the value to us; it is not used again.
                unsafe { (self.api.pinnableslice_destroy)(value) };
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// A cursor over the newest state, or over a snapshot that is taken for it.
    pub fn cursor(&self, under_snapshot: bool) -> TimedCursor<'_> {
        // SAFETY: no requirements.
        let options = unsafe { (self.api.readoptions_create)() };
        let mut snapshot = ptr::null();
        if under_snapshot {
            // SAFETY: the database is live.
            snapshot = unsafe { (self.api.create_snapshot)(self.db) };
            // SAFETY: options and snapshot are live until the cursor is dropped.
            unsafe { (self.api.readoptions_set_snapshot)(options, snapshot) };
        }
        // SAFETY: database and options are live.
        let iter = unsafe { (self.api.create_iterator)(self.db, options) };
        TimedCursor { db: self, options, snapshot, iter }
    }

    /// Flushes the memtable and waits.
    /// # Errors
    /// RocksDB's, as text.
    pub fn flush(&self) -> Result<(), String> {
        // SAFETY: no requirements.
        let options = unsafe { (self.api.flushoptions_create)() };
        // SAFETY: database and options are live.
        let result = call(self.api, |error| unsafe { (self.api.flush)(self.db, options, error) });
        // SAFETY: made above, not used again.
        unsafe { (self.api.flushoptions_destroy)(options) };
        result
    }

    /// Compacts the whole tree.
    pub fn compact(&self) {
        // SAFETY: the database is live; null means unbounded.
        unsafe { (self.api.compact_range)(self.db, ptr::null(), 0, ptr::null(), 0) };
    }

    /// Waits until no flush or compaction is due or running.
    /// # Errors
    /// RocksDB's, as text.
    pub fn settle(&self) -> Result<(), String> {
        // SAFETY: no requirements.
        let options = unsafe { self.api.wait_for_compact_options_create.expect(NEEDS_11)() };
        // SAFETY: database and options are live.
        let result = call(self.api, |error| unsafe {
            self.api.wait_for_compact.expect(NEEDS_11)(self.db, options, error)
        });
        // SAFETY: made above, not used again.
        unsafe { self.api.wait_for_compact_options_destroy.expect(NEEDS_11)(options) };
        result
    }
}

impl Drop for TimedDb {
    fn drop(&mut self) {
        for options in self.write {
            // SAFETY: made at opening, not used again.
            unsafe { (self.api.writeoptions_destroy)(options) };
        }
        // SAFETY: made at opening, not used again.
        unsafe { (self.api.readoptions_destroy)(self.read) };
        // SAFETY: made at opening, not used again.
        unsafe { (self.api.column_family_handle_destroy)(self.family) };
        // SAFETY: cursors and snapshots borrow `self`, so none is left.
        unsafe { (self.api.close)(self.db) };
    }
}

/// Arrays of [`TimedDb::multi_get`], kept from call to call.
#[derive(Debug, Default)]
pub struct MultiGetScratch {
    slices: Vec<Slice>,
    values: Vec<*mut PinnedValue>,
    errors: Vec<*mut c_char>,
}

/// The start of a scan, and with it the direction.
#[derive(Clone, Copy, Debug)]
pub enum ScanFrom<'a> {
    /// At the first pair, forwards.
    First,
    /// At the first pair at or behind the key, forwards.
    Key(&'a [u8]),
    /// At the last pair, backwards.
    Last,
}

/// A cursor over one state of the database.
#[derive(Debug)]
pub struct TimedCursor<'a> {
    db: &'a TimedDb,
    options: *mut ReadOptions,
    snapshot: *const SnapshotPtr,
    iter: *mut Iter,
}

impl TimedCursor<'_> {
    /// Shows up to `limit` pairs: from the first or from a key forwards, or from the last
    /// backwards. Gives their number.
    /// # Errors
    /// RocksDB's, as text.
    pub fn scan(
        &mut self,
        from: ScanFrom<'_>,
        limit: usize,
        visit: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<usize, String> {
        let api = self.db.api;
        let step = match from {
            ScanFrom::First => {
                // SAFETY: the iterator is live.
                unsafe { (api.iter_seek_to_first)(self.iter) };
                api.iter_next
            }
            ScanFrom::Key(key) => {
                let (k, kn) = slice(key);
                // SAFETY: the iterator is live; the key outlives the call.
                unsafe { (api.iter_seek)(self.iter, k, kn) };
                api.iter_next
            }
            ScanFrom::Last => {
                // SAFETY: the iterator is live.
                unsafe { (api.iter_seek_to_last)(self.iter) };
                api.iter_prev
            }
        };
        let mut count = 0;
        // SAFETY: the iterator is live.
        while count < limit && unsafe { (api.iter_valid)(self.iter) } != 0 {
            // SAFETY: the iterator is live and valid.
            let key = unsafe { api.iter_key_slice.expect(NEEDS_11)(self.iter) };
            // SAFETY: the iterator is live and valid.
            let value = unsafe { api.iter_value_slice.expect(NEEDS_11)(self.iter) };
            visit(lent(key.data, key.size), lent(value.data, value.size));
            count += 1;
            // SAFETY: the iterator is live and valid.
            unsafe { step(self.iter) };
        }
        // SAFETY: the iterator is live.
        call(api, |error| unsafe { (api.iter_get_error)(self.iter, error) })?;
        Ok(count)
    }
}

impl Drop for TimedCursor<'_> {
    fn drop(&mut self) {
        let api = self.db.api;
        // SAFETY: not used again.
        unsafe { (api.iter_destroy)(self.iter) };
        // SAFETY: the iterator that read the options is gone; they are not used again.
        unsafe { (api.readoptions_destroy)(self.options) };
        if !self.snapshot.is_null() {
            // SAFETY: made by this database, which is open; nothing reads at it any more.
            unsafe { (api.release_snapshot)(self.db.db, self.snapshot) };
        }
    }
}

struct OwnedBatch {
    api: &'static Api,
    ptr: *mut Batch,
}

impl OwnedBatch {
    fn new(api: &'static Api) -> OwnedBatch {
        // SAFETY: no requirements.
        OwnedBatch { api, ptr: unsafe { (api.writebatch_create)() } }
    }
}

impl Drop for OwnedBatch {
    fn drop(&mut self) {
        // SAFETY: made in `new`, not used again.
        unsafe { (self.api.writebatch_destroy)(self.ptr) };
    }
}

fn write_options(api: &'static Api, durability: TimedDurability) -> *mut WriteOptions {
    // SAFETY: no requirements.
    let options = unsafe { (api.writeoptions_create)() };
    // SAFETY: the options are live.
    unsafe { (api.writeoptions_set_sync)(options, u8::from(durability == TimedDurability::Sync)) };
    // SAFETY: the options are live.
    unsafe { (api.writeoptions_disable_WAL)(options, i32::from(durability == TimedDurability::NoWal)) };
    options
}

/// Gives `options` a table factory with a Bloom filter and a cache.
fn set_table_options(api: &'static Api, options: *mut Options, wanted: &TimedOptions) {
    // SAFETY: no requirements.
    let table = unsafe { (api.block_based_options_create)() };
    // SAFETY: no requirements.
    let policy = unsafe { (api.filterpolicy_create_bloom)(wanted.bloom_bits) };
    // SAFETY: both are live; the options own the policy from here on.
    unsafe { (api.block_based_options_set_filter_policy)(table, policy) };
    // SAFETY: no requirements; an estimated charge of 0 lets the cache find out.
    let cache = unsafe { api.cache_create_hyper_clock.expect(NEEDS_11)(wanted.cache_bytes, 0) };
    // SAFETY: both are live; the options hold a reference of their own.
    unsafe { (api.block_based_options_set_block_cache)(table, cache) };
    // SAFETY: our reference is not used again.
    unsafe { (api.cache_destroy)(cache) };
    // SAFETY: both are live; RocksDB copies the table options.
    unsafe { (api.options_set_block_based_table_factory)(options, table) };
    // SAFETY: made above, not used again.
    unsafe { (api.block_based_options_destroy)(table) };
}

/// Bytes that RocksDB lends until the next call of the same function.
fn lent<'a>(bytes: *const c_char, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: RocksDB gave pointer and length together; each caller shows the bytes to a closure
    // that cannot keep them.
    unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), len) }
}
