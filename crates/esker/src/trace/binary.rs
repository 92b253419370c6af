//! Writes traces of block accesses and of I/O.
//!
//! In: accesses to blocks, I/O operations. Out: a header, then one record each, up to a size limit.

use super::{RELEASE, TraceWriter};
use esker_base::hash::xxh3_64;
use esker_base::{Error, Result};
use esker_env::Clock;
use esker_env::io_trace::{IoOperation, IoSink};
use esker_format::trace::{BlockAccess, IoOp, TraceFrame, TraceKind, binary_header};
use esker_table::trace::BlockAccessSink;
use std::fmt;

/// The file of a trace whose header is binary.
pub(crate) struct BinaryTrace {
    writer: Box<dyn TraceWriter>,
    max_bytes: u64,
    failed: Option<Error>,
    record: Vec<u8>,
}

impl fmt::Debug for BinaryTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BinaryTrace").field("max_bytes", &self.max_bytes).finish_non_exhaustive()
    }
}

impl BinaryTrace {
    /// Writes the header of a trace to `writer`.
    /// # Errors
    /// Those of the writer.
    pub(crate) fn new(
        mut writer: Box<dyn TraceWriter>,
        max_bytes: u64,
        clock: &dyn Clock,
    ) -> Result<BinaryTrace> {
        let (timestamp, payload) = (clock.now_micros(), binary_header(RELEASE));
        let mut record = Vec::new();
        TraceFrame { timestamp, kind: TraceKind::Begin as u8, payload: &payload }.encode(&mut record);
        writer.write(&record)?;
        Ok(BinaryTrace { writer, max_bytes, failed: None, record })
    }

    fn add(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        if self.failed.is_none() && self.writer.file_size() <= self.max_bytes {
            self.record.clear();
            encode(&mut self.record);
            self.failed = self.writer.write(&self.record).err();
        }
    }

    fn finish(&mut self) -> Result<()> {
        let closed = self.writer.close();
        self.failed.take().map_or(closed, Err)
    }
}

/// A trace of block accesses.
pub(crate) struct BlockCacheTrace {
    pub(crate) file: BinaryTrace,
    /// A block is traced, with all accesses to it, if this number divides the hash of its key. 0
    /// and 1: every block.
    pub(crate) sampling_frequency: u64,
    /// Maps the name of a column family to its id.
    pub(crate) family_id: Box<dyn Fn(&str) -> u64 + Send>,
}

impl BlockAccessSink for BlockCacheTrace {
    fn add(&mut self, mut access: BlockAccess<'_>) {
        if self.sampling_frequency > 1
            && !xxh3_64(access.block_key, 0).is_multiple_of(self.sampling_frequency)
        {
            return;
        }
        access.cf_id = std::str::from_utf8(access.cf_name).map_or(0, &self.family_id);
        self.file.add(|out| access.encode(out));
    }

    fn finish(&mut self) -> Result<()> {
        self.file.finish()
    }
}

/// A trace of I/O.
pub(crate) struct IoTrace(pub(crate) BinaryTrace);

impl IoSink for IoTrace {
    fn add(&mut self, op: &IoOperation<'_>) {
        let status = op.error.map_or_else(|| "OK".to_owned(), ToString::to_string);
        let file_name = op.path.file_name().unwrap_or_default().to_string_lossy();
        self.0.add(|out| {
            IoOp {
                timestamp: op.began_at,
                file_operation: op.operation.as_bytes(),
                latency: op.nanos,
                io_status: status.as_bytes(),
                file_name: file_name.as_bytes(),
                file_size: op.file_size,
                len: op.len,
                offset: op.offset,
                request_id: None,
            }
            .encode(out);
        });
    }

    fn finish(&mut self) -> Result<()> {
        self.0.finish()
    }
}
