//! Memory in which a filter is built, charged to the block cache: `CacheEntryRole::kFilterConstruction`.
//!
//! In: bytes that the building takes. Out: whether there is room for them.

use crate::block_source::CachedBlock;
use crate::options::BlockBasedTableOptions;
use esker_base::Result;
use esker_cache::{Reservation, Role};

/// What a builder keeps of each key until the filter is finished, in bytes.
pub(crate) const BYTES_PER_FILTER_KEY: usize = 8;
/// Charges change in steps of so many bytes.
const STEP: usize = 256 << 10;

/// The charge of one filter; nothing if filters are not charged.
#[derive(Debug)]
pub(crate) struct FilterCharge(Option<Reservation<CachedBlock>>);

impl FilterCharge {
    /// Nothing is charged yet.
    /// # Errors
    /// None: there is always room for nothing.
    pub(crate) fn new(options: &BlockBasedTableOptions) -> Result<FilterCharge> {
        let is_charged = options.cache_usage_options.is_charged(Role::FilterConstruction);
        let cache = options.block_cache.as_ref().filter(|_| is_charged && !options.no_block_cache);
        cache.map(|cache| cache.reserve(Role::FilterConstruction, 0)).transpose().map(FilterCharge)
    }

    /// Changes the charge to at least `bytes`. False if a strict limit has no room.
    pub(crate) fn set(&mut self, bytes: usize) -> bool {
        let Some(reservation) = &mut self.0 else { return true };
        let wanted = bytes.next_multiple_of(STEP);
        wanted == reservation.bytes() || reservation.resize(wanted).is_ok()
    }
}
