//! Seeks of iterators, for a trace and for the list of threads.
//!
//! In: a seek. Out: its record, if the database is traced; the status of its thread, with
//! `enable_thread_tracking`.

use super::DbIterator;
use crate::options::ReadOptions;
use crate::trace::Query;
use esker_base::sync::atomic::Ordering;
use esker_env::thread_status::{OperationScope, OperationType};

impl DbIterator {
    /// Whether the database may be traced or shows its reads. One relaxed load.
    #[inline]
    pub(super) fn is_traced(&self) -> bool {
        self.cf.database != self.db.engine.open_tag.load(Ordering::Relaxed)
    }

    /// Traces a seek, and shows it until the result is dropped.
    #[cold]
    pub(super) fn trace_seek(&self, key: &[u8], for_prev: bool) -> Option<Box<OperationScope>> {
        self.record_seek(key, for_prev);
        self.track_seek()
    }

    fn track_seek(&self) -> Option<Box<OperationScope>> {
        self.db.engine.track(OperationType::DbIterator, Some(&self.cf), || [0; 6]).map(Box::new)
    }

    fn record_seek(&self, key: &[u8], for_prev: bool) {
        if self.db.check_traced_family(&self.cf).is_err() {
            return;
        }
        self.db.engine.trace_query(|| Query::IteratorSeek {
            family: self.cf.id,
            for_prev,
            key,
            lower_bound: self.options.iterate_lower_bound.as_deref().unwrap_or_default(),
            upper_bound: self.options.iterate_upper_bound.as_deref().unwrap_or_default(),
        });
    }

    /// A move to the first or last key, which is a seek to the bound there. Without a bound it has
    /// no record, as in RocksDB.
    #[cold]
    pub(super) fn trace_end(&self, last: bool) -> Option<Box<OperationScope>> {
        let ReadOptions { iterate_lower_bound: lower, iterate_upper_bound: upper, .. } = &self.options;
        if let Some(bound) = if last { upper } else { lower } {
            self.record_seek(bound, last);
        }
        self.track_seek()
    }
}
