//! Runs the real RocksDB beside Esker: as an oracle for tests, and for comparison in benchmarks
//! ([`timed`]).
//!
//! A *peer* is a version of RocksDB: the oldest available one, the newest, and one between
//! (docs/testing.md, "RocksDB as oracle"):
//!
//! | peer | what it is | where it comes from |
//! |---|---|---|
//! | [`RocksDb`] | the library of RocksDB 11.8.1, through its C functions | `.ci/fetch-peers` puts it into `target/peers` |
//! | [`peer_processes`] | Esker, and the libraries of 7.8.3, 10.4.2 and 11.8.1, each in a process of its own | `.ci/fetch-peers` |
//! | [`Tools`] | `ldb` and `sst_dump` of RocksDB 7.8.3 | the system's package `rocksdb-tools` |
//!
//! Reading order: [`PeerOp`] and [`ModelOps`] (operations for Esker, a peer or a model),
//! [`Contents`] (the contents of a family), [`fixture`] (databases that RocksDB wrote),
//! [`peer_process`] and [`step`] (an engine in a process of its own).
//!
//! Invariants
//!  1. A test whose peer is missing prints a note and passes. With `ESKER_REQUIRE_PEERS` set, the
//!     test fails.
//!  2. A process loads one RocksDB library and never unloads it: two versions in one process crash.
#![warn(missing_docs)]
#![allow(
    clippy::disallowed_methods,
    reason = "what is tested here is on the real file system, and peers do not go through esker-env"
)]

mod api;
mod c_data;
pub mod contents;
pub mod damage;
pub mod fixture;
mod library;
pub mod matrix;
pub mod mixture;
pub mod model_ops;
mod option_set;
pub mod peer_process;
pub mod peer_processes;
pub mod reader;
mod remote;
mod stamped_order;
pub mod step;
pub mod timed;
mod tools;
mod transactions;

pub use api::{LIBRARY_7, default_library, library_10, library_11_12, load_library};
pub use contents::Contents;
pub use library::{
    CursorOptions, FamilySpec, RocksCursor, RocksDb, RocksSnapshot, RocksUpdates, TraceOf, WriteFlags,
    write_sst_file,
};
pub use model_ops::{ModelOps, PeerOp};
pub use option_set::Preset;
pub use remote::{RemoteWorker, open_and_compact};
pub use tools::{InternalEntry, Tools};
pub use transactions::{RocksTransaction, RocksTransactionDb, RocksWritePolicy};

/// Returns the peer. If there is none, prints a note and returns `None`: the caller skips its test.
///
/// # Panics
/// If the peer is missing and `ESKER_REQUIRE_PEERS` is set.
pub fn require<T>(what: &str, peer: Result<T, String>) -> Option<T> {
    match peer {
        Ok(peer) => Some(peer),
        Err(reason) => {
            let required = std::env::var_os("ESKER_REQUIRE_PEERS").is_some_and(|v| v != "0");
            assert!(!required, "{what} is required (ESKER_REQUIRE_PEERS), but {reason}");
            note(&format!("SKIPPED: {what}: {reason}; run .ci/fetch-peers"));
            None
        }
    }
}

/// Prints a line for the person who runs the tests.
#[expect(clippy::print_stderr, reason = "this crate is only linked into tests")]
pub fn note(line: &str) {
    eprintln!("{line}");
}
