//! The running traces of one database.
//!
//! In: operations. Out: records, in the running trace of each kind.
//!
//! Cost without a trace: nothing. Each read compares its family's tag with `Engine::open_tag`, to
//! check that the database is open. A trace sets one bit of `open_tag`, so that the tags differ.

use super::query::QueryTracer;
use esker_base::Result;
use esker_base::sync::{Arc, Mutex};
use esker_env::Env;
use esker_env::io_trace::IoTracer;
use esker_format::trace::Query;
use esker_table::trace::BlockCacheTracer;

/// The bit of `Engine::open_tag` that is set while reads and writes are traced.
pub(crate) const TRACED: u64 = 1 << 63;

/// The traces of one database.
#[derive(Debug)]
pub(crate) struct Traces {
    queries: Mutex<Option<QueryTracer>>,
    pub(crate) block_cache: Arc<BlockCacheTracer>,
    pub(crate) io: Arc<IoTracer>,
    /// The environment for trace files. It is not traced, so a trace of I/O does not record writes
    /// to its own file.
    pub(crate) env: Env,
    /// Serializes updates of the bit [`TRACED`].
    pub(crate) marking: Mutex<()>,
}

impl Traces {
    /// The traces of a database with none running.
    pub(crate) fn new(block_cache: Arc<BlockCacheTracer>, io: Arc<IoTracer>, env: Env) -> Traces {
        Traces { queries: Mutex::new(None), block_cache, io, env, marking: Mutex::new(()) }
    }

    /// Whether a running trace records gets: one of queries, or one of the block cache.
    pub(crate) fn want_gets(&self) -> bool {
        self.queries.lock().is_some() || self.block_cache.is_on()
    }

    /// Adds a query to the trace of queries, if one is running.
    pub(crate) fn add<'q>(&self, query: impl FnOnce() -> Query<'q>) {
        if let Some(tracer) = self.queries.lock().as_mut() {
            tracer.add(&query());
        }
    }

    /// Replaces the trace of queries (`None` ends it) and returns the previous trace.
    pub(crate) fn set_queries(&self, tracer: Option<QueryTracer>) -> Option<QueryTracer> {
        std::mem::replace(&mut *self.queries.lock(), tracer)
    }

    /// Ends all traces.
    /// # Errors
    /// The first error of a trace.
    pub(crate) fn end(&self) -> Result<()> {
        let queries = self.set_queries(None).map_or(Ok(()), QueryTracer::finish);
        queries.and(self.block_cache.end()).and(self.io.end())
    }
}
