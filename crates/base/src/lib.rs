//! Vocabulary, primitives and plug-in traits that every crate of Esker uses.
//!
//! This crate uses no file, no thread pool and no other crate of Esker. Its public items are for
//! Esker's crates and may change without notice. Users see the part that `esker` re-exports.
//!
//! Reading order: [`types`] and [`error`] (the vocabulary), [`coding`], [`bytes`] and [`buffer`]
//! (encodings, and memory for bytes), [`comparator`], [`prefix`], [`merge_operator`] (plug-ins of
//! users), then hashes, statistics and [`sync`].
#![warn(missing_docs)]

pub mod allocations;
pub mod buffer;
pub mod bytes;
pub mod closures;
pub mod coding;
pub mod comparator;
pub mod crc32c;
pub mod entry_checksum;
pub mod error;
pub mod hash;
pub mod io_activity;
pub mod iostats_context;
pub mod logger;
pub mod memory;
pub mod merge_operator;
pub mod perf_context;
pub mod prefix;
pub mod probe;
pub mod rng;
mod setters;
pub mod stats;
pub mod sync;
mod table_creation;
pub mod table_properties_collector;
pub mod text;
mod thread_numbers;
pub mod types;
pub mod xxph3;

pub use buffer::Buffer;
pub use bytes::PinnedBytes;
pub use error::{Error, ErrorKind, Result, Severity, SubCode};
pub use io_activity::IoActivity;
pub use table_creation::{CompactionStyle, TableFileCreationReason};
pub use types::{ColumnFamilyId, FileNumber, SequenceNumber, ValueType};
