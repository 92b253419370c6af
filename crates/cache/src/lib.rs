//! esker-cache: bounded memory.
//!
//! Knows keys of 16 bytes, values, and what each costs; never what a key means. What is `pub` here
//! is shared between Esker's crates and promises nothing to others.
//!
//! In reading order: `contract` has the words, [`Cache`] is the way in (its `reservation` charges
//! for memory elsewhere); `entry` is one value with its counts, `slab` where entries lie, `ledger`
//! what is charged, `outcome` what is given back; `clock` and `lru` are the tables; `tier` is what
//! may lie below, `sampler` says what another size would bring; `flight` makes concurrent misses one
//! load.
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
pub use contract::{CacheOptions, CacheType, InsertOutcome, MetadataChargePolicy, Priority, Visited};
pub use entry::{Borrowed, Handle};
pub use key::CacheKey;
pub use outcome::{Evicted, EvictionCallback, Inserted, Rejected};
pub use role::{Role, RoleStats};
pub use sampler::MissEstimate;
