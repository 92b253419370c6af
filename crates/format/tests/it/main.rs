//! Golden tests of the byte formats: databases that RocksDB wrote (`fixtures/`), and laws that hold
//! for any value.
#![allow(clippy::unwrap_used, reason = "a test stops where a golden file is not what it should be")]

mod fixtures;
mod manifest;
mod options;
mod wal_contents;
mod wal_recovery;
