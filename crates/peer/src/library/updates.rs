//! The writes since a sequence number, as RocksDB reads them from its WALs.

use super::RocksDb;
use crate::c_data::{call, copy};
use std::ptr;

/// The writes since a sequence number.
#[derive(Debug)]
pub struct RocksUpdates {
    /// Sequence number and bytes of each batch.
    pub batches: Vec<(u64, Vec<u8>)>,
    /// `Ok`, or the error that ended the stream, as text.
    pub status: Result<(), String>,
}

impl RocksDb {
    /// The writes from `sequence` on.
    /// # Errors
    /// RocksDB's, as text, if it opens no stream.
    pub fn updates_since(&self, sequence: u64) -> Result<RocksUpdates, String> {
        let api = self.api;
        // SAFETY: the database is live; the options may be null.
        let iter =
            call(api, |error| unsafe { (api.get_updates_since)(self.db, sequence, ptr::null(), error) })?;
        let mut batches = Vec::new();
        // SAFETY: the iterator is live.
        while unsafe { (api.wal_iter_valid)(iter) } != 0 {
            let mut first = 0;
            // SAFETY: the iterator is live and valid; `first` outlives the call.
            let batch = unsafe { (api.wal_iter_get_batch)(iter, &raw mut first) };
            let mut len = 0;
            // SAFETY: the batch is live; `len` outlives the call.
            let data = unsafe { (api.writebatch_data)(batch, &raw mut len) };
            batches.push((first, copy(data, len)));
            // SAFETY: this process owns the batch, and does not use it again.
            unsafe { (api.writebatch_destroy)(batch) };
            // SAFETY: the iterator is live.
            unsafe { (api.wal_iter_next)(iter) };
        }
        // SAFETY: the iterator is live.
        let status = call(api, |error| unsafe { (api.wal_iter_status)(iter, error) });
        // SAFETY: made above, not used again.
        unsafe { (api.wal_iter_destroy)(iter) };
        Ok(RocksUpdates { batches, status })
    }
}
