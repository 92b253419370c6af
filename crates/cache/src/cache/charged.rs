//! Charges the usage of a cache to a second cache, whose capacity then limits both. In this way the
//! capacity of a block cache can limit a blob cache, too.
//!
//! In: the cache's usage, and the bytes of the next insert. Out: whether the second cache has room.
//! Source of the rule: RocksDB `cache/charged_cache.cc`. (RocksDB charges after each insert, and so
//! may exceed a strict limit.)
//!
//! Invariants
//!  1. At the end of each insert the charge is at least the cache's usage. An insert charges the
//!     second cache before its value enters the first one. Only growth of the cache's own table may
//!     stay uncharged, if the second cache's strict limit leaves no room.
//!  2. The charge changes in steps. Once less than three quarters of it are used, the charge
//!     shrinks: at the next insert, change of the capacity, or call of `erase_unreferenced`.
//!  3. The second cache evicts values under the lock of `charge`. The drop of such a value must not
//!     insert into this cache.

use super::{Cache, Reservation};
use crate::ledger::Ledger;
use crate::role::Role;
use esker_base::Result;
use esker_base::sync::atomic::{AtomicUsize, Ordering};
use esker_base::sync::{Arc, Mutex};

/// A step of the charge is the second cache's capacity divided by this, at most [`MAX_STEP`] bytes.
const STEPS: usize = 256;
const MAX_STEP: usize = 256 << 10;
/// Upper bound for the bytes of an entry beside its charge.
const OVERHEAD: usize = 256;

/// The charge of one cache to a second one.
pub(super) struct ChargedCache<V: Send + Sync + 'static> {
    charge: Mutex<Reservation<V>>,
    /// A copy of the reservation's size in bytes, for reads without the lock.
    charged: AtomicUsize,
    /// Bytes of inserts in progress.
    coming: AtomicUsize,
    step: usize,
}

/// The bytes of an insert in progress. `coming` includes them until this value is dropped.
pub(super) struct Coming<'a> {
    coming: &'a AtomicUsize,
    bytes: usize,
}

impl Drop for Coming<'_> {
    fn drop(&mut self) {
        self.coming.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

impl<V: Send + Sync + 'static> ChargedCache<V> {
    pub(super) fn new(other: &Arc<Cache<V>>, role: Role) -> ChargedCache<V> {
        ChargedCache {
            charge: Mutex::new(other.reserve(role, 0).expect("a reservation of 0 bytes always fits")),
            charged: AtomicUsize::new(0),
            coming: AtomicUsize::new(0),
            step: (other.capacity() / STEPS).clamp(1, MAX_STEP),
        }
    }

    /// Charges for the cache's usage and `bytes` more.
    /// # Errors
    /// `MemoryLimit` if the second cache has a strict limit and no room.
    pub(super) fn make_room(&self, ledger: &Ledger, bytes: usize) -> Result<Coming<'_>> {
        let bytes = bytes.saturating_add(OVERHEAD);
        self.coming.fetch_add(bytes, Ordering::SeqCst);
        let coming = Coming { coming: &self.coming, bytes };
        self.change(ledger)?;
        Ok(coming)
    }

    /// Charges for the cache's usage. Ignores an error of a strict limit: the bytes are in use
    /// already.
    pub(super) fn fit(&self, ledger: &Ledger) {
        // The second cache never refuses a smaller charge. If it refuses a larger charge, the next
        // insert tries again.
        self.change(ledger).ok();
    }

    fn change(&self, ledger: &Ledger) -> Result<()> {
        if is_right(self.wanted(ledger), self.charged.load(Ordering::SeqCst)) {
            return Ok(());
        }
        let mut charge = self.charge.lock();
        let wanted = self.wanted(ledger);
        if is_right(wanted, charge.bytes()) {
            return Ok(());
        }
        let changed = charge.resize(wanted.next_multiple_of(self.step));
        self.charged.store(charge.bytes(), Ordering::SeqCst);
        changed
    }

    /// The bytes to charge. Inserts in progress count only up to the capacity: beyond it they
    /// replace other values.
    fn wanted(&self, ledger: &Ledger) -> usize {
        let coming = self.coming.load(Ordering::SeqCst);
        let used = ledger.usage();
        used.saturating_add(coming).min(used.max(ledger.capacity()))
    }
}

/// Whether the charge `charged` may stay if the usage is `wanted` bytes.
fn is_right(wanted: usize, charged: usize) -> bool {
    wanted <= charged && wanted >= charged / 4 * 3
}
