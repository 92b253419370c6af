//! A cache with a tier below it: construction, lookups, and the split of one capacity.

use super::Cache;
use crate::contract::CacheOptions;
use crate::key::CacheKey;
use crate::role::Role;
use crate::sampler::MissEstimate;
use crate::tier::{AdmissionPolicy, Lookup, Lower, Saved, SecondaryCache, Shares};
use esker_base::sync::Arc;
use esker_base::{Error, Result};

/// Division of one capacity between a cache and the tier below it: RocksDB's `TieredCacheOptions`.
#[derive(Clone, Copy, Debug)]
pub struct TieredCacheOptions {
    /// Capacity of cache and tier together, in bytes.
    pub total_capacity: usize,
    /// The tier's part, 0 to 1.
    pub compressed_secondary_ratio: f64,
    /// Policy for evicted values that are stored in the tier.
    pub adm_policy: AdmissionPolicy,
}

impl<V: Send + Sync + 'static> Cache<V> {
    /// An empty cache above `tier`, each with its own capacity. `save` turns a value into bytes
    /// from which it can be made again; `None`: the value does not go to the tier.
    /// # Errors
    /// Those of [`Cache::new`].
    pub fn with_secondary(
        options: &CacheOptions,
        tier: Arc<dyn SecondaryCache>,
        save: fn(&V) -> Option<&[u8]>,
        policy: AdmissionPolicy,
    ) -> Result<Cache<V>> {
        Cache::above(options, Lower::new(tier, save, policy, None))
    }

    /// An empty cache above `tier` with one capacity for both. The capacities of the options and
    /// the tier have no effect.
    /// # Errors
    /// Those of [`Cache::new`]; `InvalidArgument` if the ratio is not between 0 and 1.
    pub fn tiered(
        options: &CacheOptions,
        tier: Arc<dyn SecondaryCache>,
        save: fn(&V) -> Option<&[u8]>,
        division: &TieredCacheOptions,
    ) -> Result<Cache<V>> {
        check_ratio(division.compressed_secondary_ratio)?;
        let shares = Shares {
            total: division.total_capacity,
            ratio: division.compressed_secondary_ratio,
            reserved: 0,
        };
        tier.set_capacity(shares.tier_capacity());
        let options = CacheOptions { capacity: shares.cache_capacity(), ..options.clone() };
        Cache::above(&options, Lower::new(tier, save, division.adm_policy, Some(shares)))
    }

    fn above(options: &CacheOptions, lower: Lower<V>) -> Result<Cache<V>> {
        let lower = Arc::new(lower);
        let below = Arc::clone(&lower);
        let callback = Box::new(move |evicted| below.demote(&evicted));
        Cache::with_callback(options, Some(callback), Some(lower))
    }

    /// The tier below.
    pub fn secondary(&self) -> Option<&Arc<dyn SecondaryCache>> {
        self.lower.as_ref().map(|lower| &lower.tier)
    }

    /// Policy for evicted values that are stored below.
    pub fn admission_policy(&self) -> Option<AdmissionPolicy> {
        self.lower.as_ref().map(|lower| lower.policy())
    }

    /// Starts a lookup in the tier for a value that is not in this cache. `will_insert`: the caller
    /// will insert it here. If this cache had the value recently, the tier may drop its copy;
    /// otherwise the tier keeps it.
    pub fn look_below(&self, key: &CacheKey, will_insert: bool) -> Lookup {
        match &self.lower {
            None => Lookup::Missing { was_seen: false },
            Some(lower) => lower.tier.lookup(key, will_insert && self.knew(key)),
        }
    }

    /// Offers a value to the tier in the compressed form that the caller has just read. The tier
    /// may store that form, so that it need not compress the value when this cache evicts it.
    pub fn offer_stored(&self, key: &CacheKey, stored: Saved<'_>) {
        if let Some(lower) = &self.lower {
            let is_forced = lower.policy() == AdmissionPolicy::AllowAll;
            lower.tier.insert_stored(key, stored, is_forced);
        }
    }

    /// Changes capacity, division or policy beside other threads; `None` leaves a setting as it is.
    /// # Errors
    /// `InvalidArgument` if the ratio is not between 0 and 1; `NotSupported` if this cache and its
    /// tier have no common capacity. RocksDB: `UpdateTieredCache`.
    pub fn update_tiered(
        &self,
        total_capacity: Option<usize>,
        compressed_secondary_ratio: Option<f64>,
        adm_policy: Option<AdmissionPolicy>,
    ) -> Result<()> {
        let lower = self.lower.as_ref().filter(|lower| lower.shares().is_some());
        let lower =
            lower.ok_or_else(|| Error::not_supported("the cache has no capacity in common with a tier"))?;
        compressed_secondary_ratio.map_or(Ok(()), check_ratio)?;
        if let Some(policy) = adm_policy {
            lower.set_policy(policy);
        }
        self.divide(lower, |shares| {
            shares.total = total_capacity.unwrap_or(shares.total);
            shares.ratio = compressed_secondary_ratio.unwrap_or(shares.ratio);
        });
        Ok(())
    }

    /// Changes the division: the part that shrinks does so first. If another thread is busy with a
    /// change, that thread carries out this one too.
    pub(super) fn divide(&self, lower: &Lower<V>, change: impl FnOnce(&mut Shares)) {
        lower.divide(change, |before, now| {
            if now.tier_capacity() < before.tier_capacity() {
                lower.tier.set_capacity(now.tier_capacity());
                self.set_own_capacity(now.cache_capacity());
            } else {
                self.set_own_capacity(now.cache_capacity());
                lower.tier.set_capacity(now.tier_capacity());
            }
        });
    }

    pub(crate) fn charge_reservation(&self, role: Role, bytes: usize) -> Result<()> {
        if let Some(lower) = &self.lower {
            self.divide(lower, |shares| shares.reserved += bytes);
        }
        let charged = self.charge_own(bytes);
        match (&charged, &self.lower) {
            (Ok(()), _) => self.ledger().count(role, 0, bytes as isize),
            (Err(_), Some(lower)) => self.divide(lower, |shares| shares.reserved -= bytes),
            (Err(_), None) => {}
        }
        charged
    }

    pub(crate) fn uncharge_reservation(&self, role: Role, bytes: usize) {
        self.ledger().count(role, 0, -(bytes as isize));
        self.uncharge_own(bytes);
        if let Some(lower) = &self.lower {
            self.divide(lower, |shares| shares.reserved -= bytes);
        }
    }

    /// Estimated misses of caches of other sizes, from a sample of the lookups
    /// (`CacheOptions::estimates_misses`).
    pub fn miss_estimates(&self) -> Vec<MissEstimate> {
        self.sampler.as_ref().map(|sampler| sampler.estimates()).unwrap_or_default()
    }
}

fn check_ratio(ratio: f64) -> Result<()> {
    if (0.0..=1.0).contains(&ratio) {
        return Ok(());
    }
    Err(Error::invalid_argument(format!("compressed_secondary_ratio {ratio} must lie between 0 and 1")))
}
