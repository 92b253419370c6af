//! The engine from outside, through its public API, on memory and simulated file systems.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod aging;
mod backup;
mod basics;
mod blobs;
mod block_cache;
mod cache_tiers;
mod checkpoint;
mod compact_range;
mod dead_runs;
mod door;
mod entities;
mod errors;
mod export;
mod ingest;
mod moment;
mod multi_get;
mod observe;
mod obsolete_files;
mod one_roof;
mod open_tables;
mod panics;
mod paranoid;
mod prefix_scan;
mod preserve;
mod protection;
mod repair;
mod scan_histories;
mod scrub;
mod set_options;
mod shared_keys;
mod styles;
mod timestamps;
mod transactions;
mod ttl;
mod wal;
