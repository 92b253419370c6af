//! The link from a cache to its tier, and one capacity for both.
//!
//! In: evictions, reservations, changes of capacity. Out: offers to the tier, and the bytes that
//! each of the two may use.
//! Source of the rules: RocksDB `cache/secondary_cache_adapter.cc`, `TieredCacheOptions`. RocksDB
//! moves capacity by dummy entries in the first cache, in steps of 1 MiB. Esker changes the two
//! capacities themselves.
//!
//! ```text
//! total = first + tier_capacity          tier_capacity = ratio × (total − reserved)
//! ```
//!
//! So reserved memory is taken from both in their proportion. Reservations are charged to the
//! first.
//!
//! Invariants
//!  1. The capacities of both add up to the total; during a change they are less.
//!  2. Only arithmetic is done under `shares`. Changes take it; lookups and inserts never do.
//!  3. Capacity moves under `moving`, and no thread waits for that lock: a thread that finds it
//!     taken leaves the move to its holder. A move evicts. An evicted value may be dropped on the
//!     same thread, and its drop may move capacity again: a table releases its own reservation.

use super::{Saved, SecondaryCache};
use crate::entry::Handle;
use crate::outcome::Evicted;
use esker_base::sync::atomic::{AtomicU8, Ordering};
use esker_base::sync::{Arc, Mutex};
use esker_base::{Error, Result};

/// Selects the evicted values that the tier stores. Names: RocksDB's `TieredAdmissionPolicy`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum AdmissionPolicy {
    /// As `Placeholder`.
    #[default]
    Auto,
    /// Values that are evicted for the second time, as far as the tier remembers.
    Placeholder,
    /// Those of `Placeholder`, and all values that were hit before their eviction.
    AllowCacheHits,
    /// Like `Placeholder`, but a file must exist below the tier in memory. Under every policy,
    /// values that this tier evicts go on to a file below it, if there is one.
    ThreeQueue,
    /// All values.
    AllowAll,
}

impl AdmissionPolicy {
    const ALL: [(AdmissionPolicy, &'static str); 5] = [
        (AdmissionPolicy::Auto, "auto"),
        (AdmissionPolicy::Placeholder, "placeholder"),
        (AdmissionPolicy::AllowCacheHits, "allow_cache_hits"),
        (AdmissionPolicy::ThreeQueue, "three_queue"),
        (AdmissionPolicy::AllowAll, "allow_all"),
    ];

    /// The policy with this name; names are those of `db_bench --tiered_adm_policy`.
    /// # Errors
    /// `InvalidArgument` if no policy has the name.
    pub fn parse(name: &str) -> Result<AdmissionPolicy> {
        let found = AdmissionPolicy::ALL.iter().find(|(_, n)| *n == name).map(|(policy, _)| *policy);
        found.ok_or_else(|| Error::invalid_argument(format!("'{name}' is no admission policy")))
    }

    fn from_u8(code: u8) -> AdmissionPolicy {
        AdmissionPolicy::ALL[usize::from(code)].0
    }
}

/// The division of one capacity.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Shares {
    /// Capacity of cache and tier together, in bytes.
    pub(crate) total: usize,
    /// The tier's part of the unreserved capacity.
    pub(crate) ratio: f64,
    /// Bytes of reservations.
    pub(crate) reserved: usize,
}

impl Shares {
    /// The tier's capacity in bytes.
    pub(crate) fn tier_capacity(&self) -> usize {
        (self.total.saturating_sub(self.reserved) as f64 * self.ratio) as usize
    }

    /// The first cache's capacity in bytes.
    pub(crate) fn cache_capacity(&self) -> usize {
        self.total - self.tier_capacity()
    }
}

/// The division of one capacity between cache and tier.
struct Division {
    /// The target shares of cache and tier.
    shares: Mutex<Shares>,
    /// The shares that the last move applied.
    moving: Mutex<Shares>,
}

impl Division {
    /// Changes the shares, and calls `move_capacity(before, now)` until the capacities match them.
    /// If another thread is moving capacity, that thread does it.
    fn change(&self, change: impl FnOnce(&mut Shares), move_capacity: impl Fn(&Shares, &Shares)) {
        let mut wanted = self.shares.lock();
        change(&mut wanted);
        let mut now = *wanted;
        drop(wanted);
        loop {
            let Some(mut moved) = self.moving.try_lock() else { return };
            move_capacity(&moved, &now);
            *moved = now;
            drop(moved);
            // Read after the release. A change that came before this read may have found the lock
            // taken. A later change finds it free.
            let wanted = *self.shares.lock();
            if wanted == now {
                return;
            }
            now = wanted;
        }
    }
}

/// A cache's link to its tier.
pub(crate) struct Lower<V> {
    pub(crate) tier: Arc<dyn SecondaryCache>,
    save: fn(&V) -> Option<&[u8]>,
    policy: AtomicU8,
    /// `None`: each has its own capacity.
    division: Option<Division>,
}

impl<V> Lower<V> {
    pub(crate) fn new(
        tier: Arc<dyn SecondaryCache>,
        save: fn(&V) -> Option<&[u8]>,
        policy: AdmissionPolicy,
        shares: Option<Shares>,
    ) -> Lower<V> {
        let division = shares.map(|now| Division { shares: Mutex::new(now), moving: Mutex::new(now) });
        Lower { tier, save, policy: AtomicU8::new(policy as u8), division }
    }

    pub(crate) fn policy(&self) -> AdmissionPolicy {
        AdmissionPolicy::from_u8(self.policy.load(Ordering::Relaxed))
    }

    pub(crate) fn set_policy(&self, policy: AdmissionPolicy) {
        self.policy.store(policy as u8, Ordering::Relaxed);
    }

    /// Offers an evicted value to the tier.
    pub(crate) fn demote(&self, evicted: &Evicted<V>) {
        let Some(bytes) = (self.save)(&evicted.value) else { return };
        let is_forced = match self.policy() {
            AdmissionPolicy::AllowAll => true,
            AdmissionPolicy::AllowCacheHits => evicted.was_hit,
            AdmissionPolicy::Auto | AdmissionPolicy::Placeholder | AdmissionPolicy::ThreeQueue => false,
        };
        let saved = Saved { role: Handle::role(&evicted.value), codec: 0, bytes };
        self.tier.insert(Handle::key(&evicted.value), saved, is_forced);
    }

    /// The target shares, if cache and tier share one capacity.
    pub(crate) fn shares(&self) -> Option<Shares> {
        self.division.as_ref().map(|division| *division.shares.lock())
    }

    /// Changes the shares, if there is one capacity for both; `move_capacity(before, now)` applies
    /// them.
    pub(crate) fn divide(&self, change: impl FnOnce(&mut Shares), move_capacity: impl Fn(&Shares, &Shares)) {
        if let Some(division) = &self.division {
            division.change(change, move_capacity);
        }
    }
}
