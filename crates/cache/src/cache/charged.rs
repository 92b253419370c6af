//! A cache whose usage is charged to a second cache: a blob cache under the block cache's capacity.
//!
//! In: the cache's usage and the bytes about to come in. Out: whether the second cache has room.
//! Source of the rule: RocksDB `cache/charged_cache.cc`, which charges after each insert and lets a
//! strict limit pass.
//!
//! Invariants
//!  1. At the end of each insert the charge is at least the cache's usage: room is made before a
//!     value comes in, also for concurrent inserts. Only the growth of the cache's own table may be
//!     missing, while a strict limit of the second cache has no room for it.
//!  2. The charge moves in steps; it shrinks when less than three quarters of it are used, at the
//!     next insert, change of the capacity or erasure of all.
//!  3. Under the lock the second cache evicts. That may drop any value, but inserts none here.

use super::{Cache, Reservation};
use crate::ledger::Ledger;
use crate::role::Role;
use esker_base::Result;
use esker_base::sync::atomic::{AtomicUsize, Ordering};
use esker_base::sync::{Arc, Mutex};

/// Steps of the charge: this part of the second cache's capacity.
const STEPS: usize = 256;
const MAX_STEP: usize = 256 << 10;
/// Most bytes of an entry beside its charge.
const OVERHEAD: usize = 256;

/// See the head of the file.
pub(super) struct ChargedCache<V: Send + Sync + 'static> {
    charge: Mutex<Reservation<V>>,
    /// A copy of the reservation's bytes, read without the lock.
    charged: AtomicUsize,
    /// Bytes that are coming in.
    coming: AtomicUsize,
    step: usize,
}

/// Bytes that are coming in, until they are in.
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
            charge: Mutex::new(other.reserve(role, 0).expect("there is always room for nothing")),
            charged: AtomicUsize::new(0),
            coming: AtomicUsize::new(0),
            step: (other.capacity() / STEPS).clamp(1, MAX_STEP),
        }
    }

    /// Charges the cache's usage and `bytes` more.
    /// # Errors
    /// `MemoryLimit` if the second cache has a strict limit and no room.
    pub(super) fn make_room(&self, ledger: &Ledger, bytes: usize) -> Result<Coming<'_>> {
        let bytes = bytes.saturating_add(OVERHEAD);
        self.coming.fetch_add(bytes, Ordering::SeqCst);
        let coming = Coming { coming: &self.coming, bytes };
        self.change(ledger)?;
        Ok(coming)
    }

    /// Charges the cache's usage. Ignores a strict limit's refusal: those bytes were in use before.
    pub(super) fn fit(&self, ledger: &Ledger) {
        // To shrink is never refused, and to grow is tried at the next insert.
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

    /// The bytes to charge. Bytes that come in beyond the capacity replace others, and are not
    /// added.
    fn wanted(&self, ledger: &Ledger) -> usize {
        let coming = self.coming.load(Ordering::SeqCst);
        let used = ledger.usage();
        used.saturating_add(coming).min(used.max(ledger.capacity()))
    }
}

/// Whether `charged` may stay, for `wanted` bytes.
fn is_right(wanted: usize, charged: usize) -> bool {
    wanted <= charged && wanted >= charged / 4 * 3
}
