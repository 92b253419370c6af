//! Those that see the accesses to a cache, to simulate others.
//!
//! In: accesses, told by the cache's user: a cache does not know which of its lookups are accesses.
//! Out: calls of the watches.

use crate::cache::Cache;
use crate::key::CacheKey;
use esker_base::stats::Statistics;
use esker_base::sync::{Arc, Weak};

/// Sees the accesses to a cache.
pub trait AccessWatch: Send + Sync {
    /// A value was looked up. `found_charge`: its charge, if it was found. `statistics`: those of
    /// the database that looked it up.
    fn looked_up(&self, key: &CacheKey, found_charge: Option<usize>, statistics: Option<&Statistics>);
    /// A value that was not found goes into the cache.
    fn added(&self, key: &CacheKey, charge: usize);
    /// A value is erased.
    fn erased(&self, key: &CacheKey);
}

impl<V: Send + Sync + 'static> Cache<V> {
    /// Tells `watch` of accesses from now on, until it is dropped.
    pub fn watch_accesses(&self, watch: Weak<dyn AccessWatch>) {
        let mut watches = self.watches.lock();
        watches.retain(|watch| watch.strong_count() > 0);
        watches.push(watch);
    }

    /// Calls `tell` with each watch. The cache's user calls this for each access, if there may be a
    /// watch.
    pub fn each_watch(&self, mut tell: impl FnMut(&dyn AccessWatch)) {
        let watches: Vec<Arc<dyn AccessWatch>> =
            self.watches.lock().iter().filter_map(Weak::upgrade).collect();
        for watch in &watches {
            tell(&**watch);
        }
    }
}
