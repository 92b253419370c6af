//! esker-cache: bounded memory.
//!
//! Knows keys of 16 bytes, values behind an `Arc`, and what each costs; never what a key means. What is `pub` here
//! is shared between Esker's crates and promises nothing to others.
//!
//! [`Cache`] is the contract; inside is, for now, a sharded LRU ([`lru`]).
#![warn(missing_docs)]

pub mod cache;
pub mod key;
pub mod lru;

pub use cache::{Cache, CacheOptions, MetadataChargePolicy, Priority};
pub use key::CacheKey;
