//! Every byte that reaches the disk, and the cursor over internal keys.
//!
//! Converts bytes to values and back: no I/O, no unsafe, no panic on any input. Everything is
//! parsed once into a value that needs no second check; bad bytes are `Corruption`. Pages with
//! grammar and worked examples: `docs/format/`. Cursors of memtables, tables and merges keep the
//! contract in [`cursor`].
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![deny(clippy::indexing_slicing, clippy::cast_possible_truncation, clippy::panic)]
#![cfg_attr(
    test,
    allow(
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        clippy::panic,
        reason = "a test may stop where its input is not what it made"
    )
)]

pub mod blob;
pub mod block;
pub mod compaction_service;
pub mod compression;
pub mod cursor;
pub mod deleted_runs;
pub mod encryption;
pub mod file_name;
pub mod filter;
pub mod footer;
pub mod handle;
pub mod index_entry;
pub mod key;
pub mod log;
pub mod meta_index;
pub mod options_file;
pub mod properties;
pub mod range_del;
pub mod trace;
pub mod trailer;
pub mod unique_id;
pub mod version_edit;
pub mod wal_recovery;
pub mod wide_column;
pub mod write_batch;
