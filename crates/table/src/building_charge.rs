//! Charges for the memory of building a table, in the block cache: filters
//! (`CacheEntryRole::kFilterConstruction`), and blocks that wait for a dictionary
//! (`kCompressionDictionaryBuildingBuffer`).
//!
//! In: bytes in use. Out: whether there is room for them.
//!
//! Invariant: the charge is at least the bytes of the last `set`, unless that call was refused.

use crate::block_source::CachedBlock;
use crate::options::BlockBasedTableOptions;
use esker_base::Result;
use esker_cache::{Reservation, Role};

/// Bytes that a builder keeps for each key until the filter is finished.
pub(crate) const BYTES_PER_FILTER_KEY: usize = 8;
/// Charges change in steps of at most this many bytes.
const STEP: usize = 256 << 10;
/// A step is at most the capacity of the cache divided by this.
const STEPS_OF_A_CACHE: usize = 256;

/// The charge for building one table; without effect if the options do not charge its role.
#[derive(Debug)]
pub(crate) struct BuildingCharge {
    reservation: Option<Reservation<CachedBlock>>,
    step: usize,
}

impl BuildingCharge {
    /// A charge of 0.
    /// # Errors
    /// None: 0 bytes always fit.
    pub(crate) fn new(options: &BlockBasedTableOptions, role: Role) -> Result<BuildingCharge> {
        let cache = options.cache_charged_for(role);
        let step = cache.map_or(STEP, |cache| (cache.capacity() / STEPS_OF_A_CACHE).clamp(1, STEP));
        let reservation = cache.map(|cache| cache.reserve(role, 0)).transpose()?;
        Ok(BuildingCharge { reservation, step })
    }

    /// Changes the charge to at least `bytes`. False if a strict limit has no room.
    pub(crate) fn set(&mut self, bytes: usize) -> bool {
        let Some(reservation) = &mut self.reservation else { return true };
        let wanted = bytes.next_multiple_of(self.step);
        wanted == reservation.bytes() || reservation.resize(wanted).is_ok()
    }
}
