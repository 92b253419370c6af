//! esker-cache: bounded memory.
//!
//! Knows keys of 16 bytes, values, and what each costs; never what a key means. What is `pub` here
//! is shared between Esker's crates and promises nothing to others.
//!
//! In reading order: [`Cache`] is the contract; `entry` is one value with its counts, `slab` where
//! entries lie, `ledger` what is charged; `clock` and `lru` are the tables; `tier` is what may lie
//! below, `sampler` says what another size would bring; `flight` makes concurrent misses one load,
//! `reservation` charges for memory elsewhere.
#![warn(missing_docs)]

pub mod cache;
mod clock;
mod entry;
mod flight;
pub mod key;
mod ledger;
mod lru;
mod reservation;
mod role;
mod sampler;
mod slab;
pub mod tier;

pub use cache::{
    Cache, CacheOptions, CacheType, Guarded, InsertOutcome, Inserted, MetadataChargePolicy, Priority,
    Rejected, TieredCacheOptions, Visited,
};
pub use clock::evict::{Evicted, EvictionCallback};
pub use entry::{Borrowed, Handle};
pub use key::CacheKey;
pub use reservation::Reservation;
pub use role::{Role, RoleStats};
pub use sampler::MissEstimate;
