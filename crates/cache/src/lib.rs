//! Caches: values in bounded memory.
//!
//! A cache knows a key as 16 bytes, and a value by its charge in bytes. Public items are for
//! Esker's crates and may change without notice.
//!
//! Reading order: `contract` (options and priorities), [`Cache`] (the interface), `entry` (one
//! value with its counts), `slab` (the memory of entries), `ledger` (charges), `outcome` (results
//! that hold a value), `clock` and `lru` (the two tables), `tier` (the contract of a tier below a
//! cache), `sampler` (estimates the misses of caches of other sizes), `watch` (sees accesses),
//! `flight` (joins concurrent misses of a key into one load).
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
mod watch;

pub use cache::{Cache, Guarded, Reservation, TieredCacheOptions};
pub use contract::{CacheOptions, CachePriority, CacheType, InsertOutcome, MetadataChargePolicy, Visited};
pub use entry::{Borrowed, Handle};
pub use key::{BaseCacheKey, CacheKey};
pub use outcome::{CacheInserted, Evicted, EvictionCallback, Rejected};
pub use role::{Role, RoleStats};
pub use sampler::MissEstimate;
pub use watch::AccessWatch;
