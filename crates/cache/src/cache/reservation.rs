//! Memory outside of a cache that is charged to it: memtables, filters being built, open tables.
//!
//! In: bytes. Out: a charge of these bytes until the reservation is dropped. Source of the idea:
//! RocksDB `cache/cache_reservation_manager.h`, which inserts dummy entries; here it is one number.
//!
//! Invariant: the charge of a reservation is `bytes`, at all times.

use super::Cache;
use crate::role::Role;
use esker_base::Result;
use esker_base::sync::Arc;
use std::cmp::Ordering;

/// Bytes charged to a cache until this is dropped.
#[derive(Debug)]
pub struct Reservation<V: Send + Sync + 'static> {
    cache: Arc<Cache<V>>,
    role: Role,
    bytes: usize,
}

impl<V: Send + Sync + 'static> Reservation<V> {
    pub(super) fn new(cache: Arc<Cache<V>>, role: Role, bytes: usize) -> Result<Reservation<V>> {
        cache.charge_reservation(role, bytes)?;
        cache.count_reservation(role, 1);
        Ok(Reservation { cache, role, bytes })
    }

    /// Bytes that are charged.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes the charge.
    /// # Errors
    /// `MemoryLimit` if it grows, the limit is strict and there is no room; then nothing has
    /// changed.
    pub fn resize(&mut self, bytes: usize) -> Result<()> {
        match bytes.cmp(&self.bytes) {
            Ordering::Greater => self.cache.charge_reservation(self.role, bytes - self.bytes)?,
            Ordering::Less => self.cache.uncharge_reservation(self.role, self.bytes - bytes),
            Ordering::Equal => {}
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl<V: Send + Sync + 'static> Drop for Reservation<V> {
    fn drop(&mut self) {
        self.cache.uncharge_reservation(self.role, self.bytes);
        self.cache.count_reservation(self.role, -1);
    }
}
