//! Caches: bounded memory.
//!
//! A key is 16 bytes without a meaning here, and a value has a charge. Public items are for Esker's
//! own crates and may change at any time.
//!
//! Reading order: `contract` has the vocabulary, [`Cache`] is the interface (its `reservation`
//! charges for memory elsewhere); `entry` is one value with its counts, `slab` the memory of
//! entries, `ledger` the charges, `outcome` the answers with a value; `clock` and `lru` are the
//! tables; `tier` is the layer below, `sampler` estimates other sizes; `flight` makes concurrent
//! misses one load.
#![warn(missing_docs)]

mod cache;
mod clock;
mod contract;
mod entry;
mod flight;
pub mod key;
mod ledger;
mod lru;
mod outcome;
mod role;
mod sampler;
mod slab;
pub mod tier;

pub use cache::{Cache, Guarded, Reservation, TieredCacheOptions};
pub use contract::{CacheOptions, CachePriority, CacheType, InsertOutcome, MetadataChargePolicy, Visited};
pub use entry::{Borrowed, Handle};
pub use key::CacheKey;
pub use outcome::{CacheInserted, Evicted, EvictionCallback, Rejected};
pub use role::{Role, RoleStats};
pub use sampler::MissEstimate;
