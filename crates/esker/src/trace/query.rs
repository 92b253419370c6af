//! Writes a trace of queries.
//!
//! In: queries, one after the other. Out: a record of each, with the time of its start.

use super::{RELEASE, TraceOptions, TraceWriter, trace_filter};
use esker_base::{Error, Result};
use esker_env::Clock;
use esker_format::trace::{Query, TraceFrame, TraceKind, query_header};
use std::fmt;
use std::sync::Arc;

/// A trace of queries under way.
pub(crate) struct QueryTracer {
    options: TraceOptions,
    writer: Box<dyn TraceWriter>,
    clock: Arc<dyn Clock>,
    /// Number of queries since the last traced query.
    skipped: u64,
    /// The error that has ended the trace early.
    failed: Option<Error>,
    payload: Vec<u8>,
    record: Vec<u8>,
}

impl fmt::Debug for QueryTracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryTracer").field("options", &self.options).finish_non_exhaustive()
    }
}

impl QueryTracer {
    /// Begins with the header.
    /// # Errors
    /// Those of the writer.
    pub(crate) fn new(
        options: TraceOptions,
        writer: Box<dyn TraceWriter>,
        clock: Arc<dyn Clock>,
    ) -> Result<QueryTracer> {
        let mut tracer = QueryTracer {
            options,
            writer,
            clock,
            skipped: 0,
            failed: None,
            payload: query_header(RELEASE),
            record: Vec::new(),
        };
        tracer.write(TraceKind::Begin);
        tracer.failed.take().map_or(Ok(tracer), Err)
    }

    /// Adds a record of `query`, unless the filter, sampling or the size limit leaves it out.
    pub(crate) fn add(&mut self, query: &Query<'_>) {
        let filter = match query.kind() {
            TraceKind::Write => trace_filter::WRITE,
            TraceKind::Get => trace_filter::GET,
            TraceKind::IteratorSeek => trace_filter::ITERATOR_SEEK,
            TraceKind::IteratorSeekForPrev => trace_filter::ITERATOR_SEEK_FOR_PREV,
            _ => trace_filter::MULTI_GET,
        };
        let is_full = self.writer.file_size() > self.options.max_trace_file_size;
        if is_full || self.options.filter & filter != 0 {
            return;
        }
        self.skipped += 1;
        if self.skipped < self.options.sampling_frequency {
            return;
        }
        self.skipped = 0;
        self.payload.clear();
        query.encode(&mut self.payload);
        self.write(query.kind());
    }

    /// Writes the footer and closes the writer.
    /// # Errors
    /// The first error of the writer.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.payload.clear();
        self.write(TraceKind::End);
        let closed = self.writer.close();
        self.failed.map_or(closed, Err)
    }

    fn write(&mut self, kind: TraceKind) {
        if self.failed.is_none() {
            let timestamp = self.clock.now_micros();
            self.record.clear();
            TraceFrame { timestamp, kind: kind as u8, payload: &self.payload }.encode(&mut self.record);
            self.failed = self.writer.write(&self.record).err();
        }
    }
}
