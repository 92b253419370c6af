//! esker-fuzz: the laws that each fuzz target checks.
//!
//! In: bytes from a fuzzer or from a corpus. Out: nothing, or a panic that names the broken law.
//! The targets in `fuzz/` only call these functions. `tests/it` runs the corpora in `fuzz/corpus`
//! again without a fuzzer, in every run of the tests. docs/testing.md, "Fuzzing", lists the laws.
//!
//! Invariants
//!  1. A target is a function of its input: neither clock nor earlier inputs change its result.
//!  2. A target writes to memory, or to a directory of its own that it deletes.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a target is a test: what must hold is unwrapped, and RocksDB reads real files"
)]

mod blocks;
pub mod oracle;
mod scene;

macro_rules! targets {
    ($($name:ident)*) => {
        $(pub mod $name;)*

        /// Every target: its name, which is also the name of its corpus, and its function.
        pub const TARGETS: &[(&str, fn(&[u8]))] = &[$((stringify!($name), $name::run)),*];
    };
}

targets! {
    backups blob_file blob_index block commands compaction_service compression database deleted_runs embedded_blobs encryption file_name file_tier filter footer
    index_block ingested_file internal_key log meta_index options_file options_text properties range_del
    rocksdb_sst rocksdb_wal stored_columns traces trailer version_edit wal_recovery wide_column
    write_batch
}
