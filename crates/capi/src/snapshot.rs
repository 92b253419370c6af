//! Snapshots and sequence numbers.

use crate::db::rocksdb_t;
use crate::memory::{answer, destroy, give, object};
use esker::Snapshot;

/// A wrapper of a snapshot: one pointer in memory made by `malloc`, because callers free some
/// wrappers by `rocksdb_free`.
#[repr(C)]
#[derive(Debug)]
pub struct rocksdb_snapshot_t {
    snapshot: *const Snapshot,
}

impl rocksdb_snapshot_t {
    /// Wraps the snapshot at `snapshot`, which must outlive the wrapper. NULL makes an empty
    /// wrapper.
    pub(crate) unsafe fn give(snapshot: *const Snapshot) -> *mut rocksdb_snapshot_t {
        crate::memory::to_c_array(&[snapshot]).cast()
    }

    /// The wrapped snapshot; `None` for an empty wrapper.
    pub(crate) unsafe fn get(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_create_snapshot(db: *mut rocksdb_t) -> *const rocksdb_snapshot_t {
    answer(std::ptr::null(), || {
        let db = object(db)?;
        let snapshot = if db.has_snapshots { give(db.db.snapshot()).cast_const() } else { std::ptr::null() };
        Ok(rocksdb_snapshot_t::give(snapshot).cast_const())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_release_snapshot(_db: *mut rocksdb_t, snapshot: *const rocksdb_snapshot_t) {
    if let Some(held) = snapshot.as_ref() {
        destroy(held.snapshot.cast_mut());
        libc::free(snapshot.cast_mut().cast());
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_snapshot_get_sequence_number(snapshot: *const rocksdb_snapshot_t) -> u64 {
    answer(0, || Ok(object(snapshot)?.get().map_or(0, |snapshot| snapshot.sequence().0)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_latest_sequence_number(db: *mut rocksdb_t) -> u64 {
    answer(0, || Ok(object(db)?.db.latest_sequence_number().0))
}
