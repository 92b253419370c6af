//! Methods of [`Db`] that start and end traces.

use super::Db;
use crate::trace::{
    BinaryTrace, BlockCacheTrace, BlockCacheTraceOptions, IoTrace, QueryTracer, TraceOptions, TraceWriter,
};
use esker_base::sync::Arc;
use esker_base::{Error, ErrorKind, Result};

impl Db {
    /// Records gets, multi-gets, seeks of iterators and writes to `writer` from now on, in the
    /// format of RocksDB's traces. A running trace of queries ends first.
    ///
    /// A multi-get of one key is recorded as a get. A prepared transaction is recorded at its
    /// commit. Writes are in the order of the WAL. Cost while the trace runs: a lock and the
    /// record's bytes for each operation. Cost after its end: none.
    ///
    /// [`new_file_trace_writer`](crate::trace::new_file_trace_writer) has an example.
    /// # Errors
    /// Those of `writer` · `ShutdownInProgress` · `NotSupported` in a forked child of the process
    /// that opened the database.
    pub fn start_trace(&self, options: &TraceOptions, writer: Box<dyn TraceWriter>) -> Result<()> {
        let engine = self.engine();
        engine.check_open()?;
        let tracer = QueryTracer::new(*options, writer, engine.env.clock.clone())?;
        let before = engine.traces.set_queries(Some(tracer));
        engine.update_traced();
        before.map_or(Ok(()), QueryTracer::finish)
    }

    /// Ends the trace of queries.
    /// # Errors
    /// `IoError` if no trace of queries is running · the first error of the trace's writer. Traced
    /// operations have succeeded all the same.
    pub fn end_trace(&self) -> Result<()> {
        let engine = self.engine();
        engine.check_process()?;
        let tracer = engine.traces.set_queries(None);
        engine.update_traced();
        tracer.ok_or_else(|| Error::new(ErrorKind::IoError, "No trace file to close"))?.finish()
    }

    /// Records accesses to the block cache to `writer` from now on. Each lookup and each load of a
    /// table's block, by any operation, is one record.
    ///
    /// Accesses of a multi-get name its first key. Cost while the trace runs: a lock for each
    /// access; a get also counts the entries of each data block. Cost after its end: a load of a
    /// static.
    ///
    /// ```
    /// use esker::Db;
    /// use esker::trace::{BlockCacheTraceOptions, TraceOptions, new_file_trace_writer};
    ///
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// let db = Db::open_default(dir.join("db"))?;
    /// db.put("esker", "gravel")?;
    /// db.flush()?;
    /// let blocks = new_file_trace_writer(db.env(), dir.join("blocks"))?;
    /// db.start_block_cache_trace(&BlockCacheTraceOptions::default(), blocks)?;
    /// let writer = new_file_trace_writer(db.env(), dir.join("io"))?;
    /// db.start_io_trace(&TraceOptions::default(), writer)?;
    /// assert!(db.get("esker")?.is_some());
    /// db.end_block_cache_trace()?;
    /// db.end_io_trace()?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `Busy` while another trace of this kind runs · those of `writer` · `ShutdownInProgress` ·
    /// `NotSupported` in a forked child of the process that opened the database.
    pub fn start_block_cache_trace(
        &self,
        options: &BlockCacheTraceOptions,
        writer: Box<dyn TraceWriter>,
    ) -> Result<()> {
        let engine = self.engine();
        engine.check_open()?;
        if engine.traces.block_cache.is_on() {
            return Err(runs_already());
        }
        let weak = Arc::downgrade(engine);
        let id = move |name: &str| {
            let id = weak.upgrade().and_then(|engine| Some(engine.families.by_name(name)?.id));
            id.map_or(0, |id| u64::from(id.0))
        };
        let trace = BlockCacheTrace {
            file: BinaryTrace::new(writer, options.max_trace_file_size, &*engine.env.clock)?,
            sampling_frequency: options.sampling_frequency,
            family_id: Box::new(id),
        };
        let has_begun = engine.traces.block_cache.begin(Box::new(trace));
        engine.update_traced();
        if has_begun { Ok(()) } else { Err(runs_already()) }
    }

    /// Ends the trace of the block cache. Without a running trace it does nothing, as in RocksDB.
    /// # Errors
    /// The first error of the trace's writer. Traced operations have succeeded all the same.
    pub fn end_block_cache_trace(&self) -> Result<()> {
        let engine = self.engine();
        engine.check_process()?;
        let ended = engine.traces.block_cache.end();
        engine.update_traced();
        ended
    }

    /// Records operations on the database's files to `writer` from now on, with their times.
    /// Options other than `max_trace_file_size` have no effect, as in RocksDB.
    ///
    /// [`start_block_cache_trace`](Self::start_block_cache_trace) has an example. Cost while the
    /// trace runs: a lock for each operation. A read of several blocks then reads them one by one,
    /// without `io_uring`.
    /// # Errors
    /// `Busy` while another trace of this kind runs · those of `writer` · `ShutdownInProgress` ·
    /// `NotSupported` in a forked child of the process that opened the database.
    pub fn start_io_trace(&self, options: &TraceOptions, writer: Box<dyn TraceWriter>) -> Result<()> {
        let engine = self.engine();
        engine.check_open()?;
        let trace = BinaryTrace::new(writer, options.max_trace_file_size, &*engine.env.clock)?;
        if engine.traces.io.begin(Box::new(IoTrace(trace))) { Ok(()) } else { Err(runs_already()) }
    }

    /// Ends the trace of I/O. Without a running trace it does nothing, as in RocksDB.
    /// # Errors
    /// The first error of the trace's writer. Traced operations have succeeded all the same.
    pub fn end_io_trace(&self) -> Result<()> {
        self.engine().check_process()?;
        self.engine().traces.io.end()
    }
}

fn runs_already() -> Error {
    Error::busy("such a trace is under way")
}
