//! The traces of one database that are under way.
//!
//! In: operations. Out: records, to the trace that wants them.
//!
//! Cost without a trace: nothing. Reads compare their family's number with the database's in any
//! case, to find out whether the database is open; a trace changes that number.

use super::query::QueryTracer;
use esker_base::Result;
use esker_base::sync::{Arc, Mutex};
use esker_env::Env;
use esker_env::io_trace::IoTracer;
use esker_format::trace::Query;
use esker_table::trace::BlockCacheTracer;

/// The bit of `Engine::open_tag` while reads and writes are traced.
pub(crate) const TRACED: u64 = 1 << 63;

/// The traces of one database.
#[derive(Debug)]
pub(crate) struct Traces {
    queries: Mutex<Option<QueryTracer>>,
    pub(crate) block_cache: Arc<BlockCacheTracer>,
    pub(crate) io: Arc<IoTracer>,
    /// The environment for the files of traces: a trace of I/O does not trace its own file.
    pub(crate) env: Env,
    /// Held while the mark in `open_tag` follows the traces.
    pub(crate) marking: Mutex<()>,
}

impl Traces {
    /// None is under way.
    pub(crate) fn new(block_cache: Arc<BlockCacheTracer>, io: Arc<IoTracer>, env: Env) -> Traces {
        Traces { queries: Mutex::new(None), block_cache, io, env, marking: Mutex::new(()) }
    }

    /// Whether gets look for a trace.
    pub(crate) fn want_gets(&self) -> bool {
        self.queries.lock().is_some() || self.block_cache.is_on()
    }

    /// Adds a query to the trace of queries, if there is one.
    pub(crate) fn add<'q>(&self, query: impl FnOnce() -> Query<'q>) {
        if let Some(tracer) = self.queries.lock().as_mut() {
            tracer.add(&query());
        }
    }

    /// Begins or ends the trace of queries. Returns the one before.
    pub(crate) fn set_queries(&self, tracer: Option<QueryTracer>) -> Option<QueryTracer> {
        std::mem::replace(&mut *self.queries.lock(), tracer)
    }

    /// Ends all traces.
    /// # Errors
    /// The first of their errors.
    pub(crate) fn end(&self) -> Result<()> {
        let queries = self.set_queries(None).map_or(Ok(()), QueryTracer::finish);
        queries.and(self.block_cache.end()).and(self.io.end())
    }
}
