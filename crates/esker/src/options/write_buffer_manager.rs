//! One bound on the memtables of several databases: RocksDB's `WriteBufferManager`.
//!
//! In: bytes taken and given back by arenas. Out: whether a memtable should be flushed.
//! Source of the thresholds: RocksDB `include/rocksdb/write_buffer_manager.h`.

use esker_base::sync::atomic::{AtomicUsize, Ordering};

/// Shared by the databases whose options hold the same one. Charging a block cache is not done yet.
#[derive(Debug)]
pub struct WriteBufferManager {
    buffer_bytes: AtomicUsize,
    used_bytes: AtomicUsize,
    active_bytes: AtomicUsize,
    allow_stall: bool,
}

impl WriteBufferManager {
    /// Bounds memtables to `buffer_bytes`; 0: only counts. With `allow_stall`, writers wait beyond it.
    pub fn new(buffer_bytes: usize, allow_stall: bool) -> Self {
        WriteBufferManager {
            buffer_bytes: AtomicUsize::new(buffer_bytes),
            used_bytes: AtomicUsize::new(0),
            active_bytes: AtomicUsize::new(0),
            allow_stall,
        }
    }

    /// The bound, in bytes; 0 for none.
    pub fn buffer_size(&self) -> usize {
        self.buffer_bytes.load(Ordering::Relaxed)
    }

    /// Changes the bound, in bytes.
    pub fn set_buffer_size(&self, bytes: usize) {
        self.buffer_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of all memtables.
    pub fn memory_usage(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the memtables that still take writes.
    pub fn mutable_memtable_memory_usage(&self) -> usize {
        self.active_bytes.load(Ordering::Relaxed)
    }

    /// An active memtable took `bytes`.
    pub fn reserve(&self, bytes: usize) {
        self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.active_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A memtable of `bytes` was made immutable: it will be flushed.
    pub fn schedule_free(&self, bytes: usize) {
        self.active_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The `bytes` of a memtable that was made immutable before are free again.
    pub fn free(&self, bytes: usize) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether a memtable should be flushed: the active ones passed 7/8 of the bound, or all passed the bound while
    /// at least half of it is active (flushing less would not help).
    pub fn should_flush(&self) -> bool {
        let bound = self.buffer_size();
        if bound == 0 {
            return false;
        }
        let active = self.mutable_memtable_memory_usage();
        active > bound / 8 * 7 || (self.memory_usage() >= bound && active >= bound / 2)
    }

    /// Whether writers should wait.
    pub fn should_stall(&self) -> bool {
        let bound = self.buffer_size();
        self.allow_stall && bound > 0 && self.memory_usage() >= bound
    }
}
