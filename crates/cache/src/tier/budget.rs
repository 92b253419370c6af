//! The link from a cache to what lies below it, and one capacity for both.
//!
//! In: evictions, reservations, changes of capacity. Out: offers to the tier, and how many bytes each of the two may use.
//! Source of the rules: RocksDB `cache/secondary_cache_adapter.cc`, `TieredCacheOptions`. RocksDB moves capacity by dummy
//! entries in the first cache, in steps of 1 MiB; here it is two numbers under a lock.
//!
//! ```text
//! total = first + second          second = ratio × (total − reserved)
//! ```
//!
//! So memory that is reserved is taken from both in their proportion. Reservations are charged to the first.
//!
//! Invariants
//!  1. The capacities of both add up to the total, but while a change is under way: then they are less.
//!  2. Capacity moves under `shares`, which is taken on changes only and never by a lookup or an insert.

use super::{Saved, SecondaryCache};
use crate::clock::evict::Evicted;
use crate::entry::Handle;
use esker_base::sync::atomic::{AtomicU8, Ordering};
use esker_base::sync::{Arc, Mutex, MutexGuard};
use esker_base::{Error, Result};

/// Which evicted values are stored below. Names: RocksDB's `TieredAdmissionPolicy`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum AdmissionPolicy {
    /// As `Placeholder`.
    #[default]
    Auto,
    /// Those that are evicted for the second time of late.
    Placeholder,
    /// Those, and all that were hit before they were evicted.
    AllowCacheHits,
    /// As `Placeholder`; what the tier in memory gives up goes on to the file below it. Needs one.
    ThreeQueue,
    /// All.
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

    /// The policy with this name, as `db_bench --tiered_adm_policy` has them.
    /// # Errors
    /// `InvalidArgument` if there is none.
    pub fn parse(name: &str) -> Result<AdmissionPolicy> {
        let found = AdmissionPolicy::ALL.iter().find(|(_, n)| *n == name).map(|(policy, _)| *policy);
        found.ok_or_else(|| Error::invalid_argument(format!("'{name}' is no admission policy")))
    }

    fn from_u8(code: u8) -> AdmissionPolicy {
        AdmissionPolicy::ALL[usize::from(code)].0
    }
}

/// How one capacity is divided.
#[derive(Debug)]
pub(crate) struct Shares {
    /// Bytes of both together.
    pub(crate) total: usize,
    /// The part of what is not reserved that is the tier's.
    pub(crate) ratio: f64,
    /// Bytes of reservations.
    pub(crate) reserved: usize,
}

impl Shares {
    /// The tier's, in bytes.
    pub(crate) fn second(&self) -> usize {
        (self.total.saturating_sub(self.reserved) as f64 * self.ratio) as usize
    }

    /// The first cache's, in bytes.
    pub(crate) fn first(&self) -> usize {
        self.total - self.second()
    }
}

/// What a cache knows about the tier below it.
pub(crate) struct Lower<V> {
    pub(crate) tier: Arc<dyn SecondaryCache>,
    save: fn(&V) -> Option<&[u8]>,
    policy: AtomicU8,
    /// `None`: each has its own capacity.
    shares: Option<Mutex<Shares>>,
}

impl<V> Lower<V> {
    pub(crate) fn new(
        tier: Arc<dyn SecondaryCache>,
        save: fn(&V) -> Option<&[u8]>,
        policy: AdmissionPolicy,
        shares: Option<Shares>,
    ) -> Lower<V> {
        Lower { tier, save, policy: AtomicU8::new(policy as u8), shares: shares.map(Mutex::new) }
    }

    pub(crate) fn policy(&self) -> AdmissionPolicy {
        AdmissionPolicy::from_u8(self.policy.load(Ordering::Relaxed))
    }

    pub(crate) fn set_policy(&self, policy: AdmissionPolicy) {
        self.policy.store(policy as u8, Ordering::Relaxed);
    }

    /// Offers what was evicted.
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

    /// The shares, if there is one capacity for both.
    pub(crate) fn shares(&self) -> Option<MutexGuard<'_, Shares>> {
        self.shares.as_ref().map(|shares| shares.lock())
    }
}
