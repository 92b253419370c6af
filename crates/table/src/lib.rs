//! Tables: immutable files, written once and read many times.
//!
//! The format is RocksDB's block-based table: data blocks, filter, index, meta blocks, footer.
//! `esker_format` defines the bytes. This crate does the I/O: it decides which block to read,
//! through which cache, and how far ahead.
//!
//! Reading order: [`options`], [`TableBuilder`] (`writer.rs`), [`TableReader`] (`open.rs`,
//! `reader.rs`), the blocks of a reader (`block_source.rs`, [`tier`], `readahead.rs`,
//! `index_walker.rs`, `filter.rs`), [`TableIter`], `verify.rs`, [`TableCache`] (the open tables of
//! a family), [`OpenFiles`] (the limit on open files), [`blob`] (values in blob files), [`trace`]
//! (records of block accesses).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod blob;
mod block_source;
mod building_charge;
pub mod cache_options;
mod counts;
mod embedded;
mod explain;
mod filter;
pub mod flush_block_policy;
mod index_walker;
mod inspect;
mod iter;
mod long_scan;
mod multi_get;
mod open;
mod open_files;
pub mod options;
mod readahead;
mod reader;
mod residence;
pub mod salvage;
mod scans_ahead;
mod sim_cache;
mod table_cache;
pub mod tier;
pub mod trace;
mod uncache;
mod verify;
mod warm;
mod writer;

pub use block_source::{BlockCache, CachedBlock, DEFAULT_BLOCK_CACHE_BYTES, default_block_cache};
pub use counts::count_batch_reads;
pub use esker_format::filter::{
    CustomFilterBitsBuilder, CustomFilterBitsReader, CustomFilterPolicy, CustomFilterPolicyRef,
    FilterBitsBuilder, FilterBuildingContext, FilterPolicy,
};
pub use explain::{FoundAt, Touched, TouchedKind};
pub use inspect::{DataBlock, EntryVisitor};
pub use iter::TableIter;
pub use multi_get::{BatchVisitor, LookupPlan, read_plans};
pub use open::{check_compression_manager, check_readable, stable_file_key};
pub use open_files::OpenFiles;
pub use options::{
    BlockBasedTableOptions, BlockSearchType, DataBlockIndexType, IndexMode, IndexShorteningMode,
    OptimizeKeyCommonPrefix, TableBuilderOptions, TableReadOptions, TableReadTier, TableReaderOptions,
};
pub use readahead::ReadPace;
pub use reader::{Missing, TableReader, TableValue, Visit};
pub use scans_ahead::{AheadCounts, AheadOptions, ScanRanges, ScanTables, ScansAhead};
pub use sim_cache::SimCache;
pub use table_cache::{ReadLatencies, TableCache, TableCacheOptions, TableFile};
pub use writer::{EndedBlock, TableBuilder, TableFileInfo};
