//! Charges for the memory of building a table, in the block cache: filters
//! (`CacheEntryRole::kFilterConstruction`), and blocks that wait for a dictionary
//! (`kCompressionDictionaryBuildingBuffer`).
//!
//! In: bytes in use. Out: whether there is room for them.
//!
//! Invariant: the charge is at least the last number of bytes, unless that was refused.

use crate::block_source::CachedBlock;
use crate::options::BlockBasedTableOptions;
use esker_base::Result;
use esker_cache::{Reservation, Role};

/// Bytes that a builder keeps for each key until the filter is finished.
pub(crate) const BYTES_PER_FILTER_KEY: usize = 8;
/// Charges change in steps of this many bytes.
const STEP: usize = 256 << 10;
/// And of this part of a cache for which those are large.
const STEPS_OF_A_CACHE: usize = 256;

/// The charge of one building; nothing if the options say so.
#[derive(Debug)]
pub(crate) struct BuildingCharge {
    reservation: Option<Reservation<CachedBlock>>,
    step: usize,
}

impl BuildingCharge {
    /// Nothing is charged yet.
    /// # Errors
    /// None: there is always room for nothing.
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
