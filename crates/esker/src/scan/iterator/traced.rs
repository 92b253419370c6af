//! Seeks of iterators, for a trace.
//!
//! In: a seek. Out: its record, if the database is traced.

use super::DbIterator;
use crate::options::ReadOptions;
use crate::trace::Query;
use esker_base::sync::atomic::Ordering;

impl DbIterator {
    /// Whether the database may be traced. One relaxed load.
    #[inline]
    pub(super) fn is_traced(&self) -> bool {
        self.cf.database != self.db.engine.open_tag.load(Ordering::Relaxed)
    }

    #[cold]
    pub(super) fn trace_seek(&self, key: &[u8], for_prev: bool) {
        if self.db.check_traced_family(&self.cf).is_err() {
            return;
        }
        self.db.engine.traces.add(|| Query::IteratorSeek {
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
    pub(super) fn trace_end(&self, last: bool) {
        let ReadOptions { iterate_lower_bound: lower, iterate_upper_bound: upper, .. } = &self.options;
        if let Some(bound) = if last { upper } else { lower } {
            self.trace_seek(bound, last);
        }
    }
}
