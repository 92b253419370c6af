//! The functions of the fuzz targets. Each checks laws, which hold for every input.
//!
//! In: bytes from a fuzzer or from a corpus. Out: nothing, or a panic that names the broken law.
//! The programs in `fuzz/` only call these functions. Each run of the tests gives the corpora in
//! `fuzz/corpus` to the functions again, without a fuzzer (`tests/it`). docs/testing.md, "Fuzzing",
//! lists the laws.
//!
//! Invariants
//!  1. The result of a target depends on its input only, not on the clock or on earlier inputs.
//!  2. A target writes to memory, or to a directory of its own, which it deletes.
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

        /// All targets: for each its name and its function. The corpus of a target has the same
        /// name.
        pub const TARGETS: &[(&str, fn(&[u8]))] = &[$((stringify!($name), $name::run)),*];
    };
}

targets! {
    agg_merge backups blob_file blob_index block cache_dump commands compaction_progress compaction_service compression database deleted_runs embedded_blobs encryption file_name file_tier filter footer
    index_block ingested_file internal_key log merge_operators meta_index options_file options_text properties query_filter range_del
    rocksdb_sst rocksdb_wal stored_columns traces trailer version_edit wal_recovery wide_column
    write_batch
}
