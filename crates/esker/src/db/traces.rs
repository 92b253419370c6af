//! The public methods of `trace/`.

use super::Db;
use crate::trace::{
    BinaryTrace, BlockCacheTrace, BlockCacheTraceOptions, IoTrace, QueryTracer, TraceOptions, TraceWriter,
};
use esker_base::sync::Arc;
use esker_base::{Error, ErrorKind, Result};

impl Db {
    /// Records gets, multi-gets, seeks of iterators and writes to `writer` from now on, in the
    /// format of RocksDB's traces. A trace under way ends.
    ///
    /// A multi-get of one key has the record of a get. A prepared transaction has its record when
    /// it is committed. Writes are in the order of the WAL. Cost while it runs: a lock and the
    /// record's bytes for each operation; nothing after its end.
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
    /// `IoError` if there is none · the first error of its writer: operations were not affected.
    pub fn end_trace(&self) -> Result<()> {
        let engine = self.engine();
        engine.check_process()?;
        let tracer = engine.traces.set_queries(None);
        engine.update_traced();
        tracer.ok_or_else(|| Error::new(ErrorKind::IoError, "No trace file to close"))?.finish()
    }

    /// Records accesses to the block cache to `writer` from now on: one record for each block of a
    /// table that is looked up or loaded, by any operation.
    ///
    /// Accesses of a multi-get name its first key. Cost while it runs: a lock for each access, and
    /// for gets a look at each entry of a data block; nothing after its end but a load of a static.
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
    /// `Busy` while such a trace runs · those of `writer` · `ShutdownInProgress` · `NotSupported`
    /// in a forked child of the process that opened the database.
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

    /// Ends the trace of the block cache. None is no error, as in RocksDB.
    /// # Errors
    /// The first error of its writer: operations were not affected.
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
    /// [`start_block_cache_trace`](Self::start_block_cache_trace) has an example. Cost while it
    /// runs: a lock for each operation. Reads of several blocks come one by one then, and not
    /// through `io_uring`.
    /// # Errors
    /// `Busy` while such a trace runs · those of `writer` · `ShutdownInProgress` · `NotSupported`
    /// in a forked child of the process that opened the database.
    pub fn start_io_trace(&self, options: &TraceOptions, writer: Box<dyn TraceWriter>) -> Result<()> {
        let engine = self.engine();
        engine.check_open()?;
        let trace = BinaryTrace::new(writer, options.max_trace_file_size, &*engine.env.clock)?;
        if engine.traces.io.begin(Box::new(IoTrace(trace))) { Ok(()) } else { Err(runs_already()) }
    }

    /// Ends the trace of I/O. None is no error, as in RocksDB.
    /// # Errors
    /// The first error of its writer: operations were not affected.
    pub fn end_io_trace(&self) -> Result<()> {
        self.engine().check_process()?;
        self.engine().traces.io.end()
    }
}

fn runs_already() -> Error {
    Error::busy("such a trace is under way")
}
