//! The formats of all files, and the cursor over internal keys.
//!
//! This crate converts bytes to values and back: no I/O, no `unsafe`, no panic on any input. It
//! checks bytes once, when it parses them; bad bytes are `Corruption`. `docs/format/` has a page
//! for each format, with grammar and examples. [`cursor`] is the contract of all cursors: of
//! memtables, tables and merges.
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

pub mod agg_merge;
pub mod blob;
pub mod block;
pub mod builtin;
pub mod cache_dump;
pub mod compaction_progress;
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
pub mod query_filter;
pub mod range_del;
pub mod seqno_to_time;
pub mod trace;
pub mod trailer;
pub mod unique_id;
pub mod version_edit;
pub mod wal_recovery;
pub mod wide_column;
pub mod write_batch;
