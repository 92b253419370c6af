//! Esker and real RocksDB on the same directories, in both directions. See docs/testing.md,
//! "RocksDB as oracle".
#![allow(
    clippy::disallowed_methods,
    reason = "what is tested here is on the real file system, and peers do not go through esker-env"
)]

mod backup;
mod best_efforts;
mod bit_exact;
mod blobs;
mod compat;
mod damage;
mod deleted_runs;
mod encrypted;
mod entities;
mod error_texts;
mod export;
mod families;
mod file_checksums;
mod fixtures;
mod handed_over;
mod identity;
mod ingested_behind;
mod ingested_tables;
mod killed;
mod killed_transactions;
mod locked;
mod log_header;
mod matrix;
mod odd_directories;
mod option_effects;
mod paths;
mod peer_process;
mod ping_pong;
mod properties;
mod range_deletions;
mod recycled_wals;
mod refused;
mod remote_compaction;
mod scans;
mod second_reader;
mod secondary;
mod sst_file_reader;
mod stats_history;
mod tables;
mod tiering;
mod timed;
mod timestamps;
mod traces;
mod transactions;
mod ttl;
mod universal;
mod updates;
mod wal_types;
mod walrec;
mod without_rocksdb;
mod write_prepared;
