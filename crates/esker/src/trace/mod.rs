//! Traces of a running database, in RocksDB's formats: queries that [`Replayer`](crate::Replayer)
//! repeats, accesses to the block cache, and I/O.
//!
//! In: operations under way, from any thread. Out: records, to a [`TraceWriter`].
//!
//! Reading order: this file (options), `file` (a trace as a file), `query` (records of queries),
//! `binary` (those of accesses and I/O),
//! `under_way` (the traces of a database).
//! [`Db::start_trace`](crate::Db::start_trace) begins a trace; `db/traces.rs` has the methods.

mod binary;
mod file;
mod query;
mod under_way;

pub(crate) use binary::{BinaryTrace, BlockCacheTrace, IoTrace};
pub use esker_format::trace::{
    BlockAccess, GetAccess, IoOp, Query, TableReaderCaller, TraceFrame, TraceKind, parse_binary_header,
    parse_query_header,
};
pub use file::{TraceReader, TraceWriter, new_file_trace_reader, new_file_trace_writer};
pub(crate) use query::QueryTracer;
pub(crate) use under_way::{TRACED, Traces};

/// The RocksDB release whose trace formats Esker writes. Headers of traces name it.
pub(crate) const RELEASE: (u32, u32) = (11, 8);

/// The default of `max_trace_file_size`: 64 GiB.
const MAX_TRACE_FILE_BYTES: u64 = 64 << 30;

/// Kinds of queries that a trace leaves out, for [`TraceOptions::filter`]. The bits are RocksDB's.
pub mod trace_filter {
    /// Leaves out no kind.
    pub const NONE: u64 = 0;
    /// Gets.
    pub const GET: u64 = 1 << 0;
    /// Writes.
    pub const WRITE: u64 = 1 << 1;
    /// `seek` of iterators.
    pub const ITERATOR_SEEK: u64 = 1 << 2;
    /// `seek_for_prev` of iterators.
    pub const ITERATOR_SEEK_FOR_PREV: u64 = 1 << 3;
    /// Multi-gets.
    pub const MULTI_GET: u64 = 1 << 4;
}

/// Options of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceOptions {
    /// Limit on the size of the trace in bytes. Once the trace has reached it, no record is added.
    /// Default 64 GiB.
    pub max_trace_file_size: u64,
    /// With N, every Nth operation is traced; with 0 and 1, every operation. Default 1.
    pub sampling_frequency: u64,
    /// Kinds of queries that the trace leaves out: bits of [`trace_filter`]. Sampling counts the
    /// others only. Default 0.
    pub filter: u64,
    /// Has no effect: Esker always traces writes in the order of the WAL. RocksDB has the option.
    /// Default false.
    pub preserve_write_order: bool,
}

impl Default for TraceOptions {
    fn default() -> TraceOptions {
        TraceOptions {
            max_trace_file_size: MAX_TRACE_FILE_BYTES,
            sampling_frequency: 1,
            filter: trace_filter::NONE,
            preserve_write_order: false,
        }
    }
}

/// Options of a trace of the block cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockCacheTraceOptions {
    /// With N, one of N blocks is traced, with all accesses to it; with 0 and 1, every block.
    /// Default 1.
    pub sampling_frequency: u64,
    /// Limit on the size of the trace in bytes. Once the trace has reached it, no record is added.
    /// Default 64 GiB.
    pub max_trace_file_size: u64,
}

impl Default for BlockCacheTraceOptions {
    fn default() -> BlockCacheTraceOptions {
        BlockCacheTraceOptions { sampling_frequency: 1, max_trace_file_size: MAX_TRACE_FILE_BYTES }
    }
}
