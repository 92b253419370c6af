//! Traces, written and replayed by RocksDB.

use super::RocksDb;
use crate::api::{Database, EnvOptions, ErrorPtr, NEEDS_11, TraceOptions};
use crate::c_data::{c_path, call};
use std::ffi::c_char;
use std::path::Path;
use std::ptr;

/// The subject of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceOf {
    /// Gets, seeks and writes.
    Queries,
    /// Accesses to the block cache.
    BlockCache,
    /// Operations on files.
    Io,
}

type Start = unsafe extern "C" fn(
    *mut Database,
    *mut crate::api::Env,
    *const EnvOptions,
    *const TraceOptions,
    *const c_char,
    ErrorPtr,
);

impl RocksDb {
    /// Begins a trace in the file `path`.
    /// # Errors
    /// RocksDB's, as text.
    pub fn start_trace(&self, of: TraceOf, path: &Path) -> Result<(), String> {
        let api = self.api;
        let start: Start = match of {
            TraceOf::Queries => api.start_trace,
            TraceOf::BlockCache => api.start_block_cache_trace,
            TraceOf::Io => api.start_io_trace,
        }
        .expect(NEEDS_11);
        let path = c_path(path);
        let (env, env_options, options) = (ptr::null_mut(), ptr::null(), ptr::null());
        // SAFETY: the database is live, and the path ends in NUL; NULL for the other arguments
        // means defaults.
        call(api, |error| unsafe { start(self.db, env, env_options, options, path.as_ptr(), error) })
    }

    /// Ends a trace.
    /// # Errors
    /// RocksDB's, as text.
    pub fn end_trace(&self, of: TraceOf) -> Result<(), String> {
        let api = self.api;
        let end = match of {
            TraceOf::Queries => api.end_trace,
            TraceOf::BlockCache => api.end_block_cache_trace,
            TraceOf::Io => api.end_io_trace,
        }
        .expect(NEEDS_11);
        // SAFETY: the database is live.
        call(api, |error| unsafe { end(self.db, error) })
    }

    /// Replays a trace of queries a million times faster than it was.
    /// # Errors
    /// RocksDB's, as text.
    pub fn replay(&self, path: &Path, threads: u32) -> Result<(), String> {
        let api = self.api;
        let mut families: Vec<_> = self.families.iter().map(|(_, family)| *family).collect();
        let path = c_path(path);
        let create = api.new_default_replayer.expect(NEEDS_11);
        let (handles, count) = (families.as_mut_ptr(), families.len());
        let (env, env_options) = (ptr::null_mut(), ptr::null());
        // SAFETY: the database and its families are live, the path ends in NUL.
        let replayer = call(api, |error| unsafe {
            create(self.db, handles, count, env, env_options, path.as_ptr(), error)
        })?;
        let (prepare, replay) = (api.replayer_prepare.expect(NEEDS_11), api.replayer_replay.expect(NEEDS_11));
        // SAFETY: always callable.
        let options = unsafe { api.replay_options_create.expect(NEEDS_11)() };
        // SAFETY: the options are live.
        unsafe { api.replay_options_set_num_threads.expect(NEEDS_11)(options, threads) };
        // SAFETY: the options are live.
        unsafe { api.replay_options_set_fast_forward.expect(NEEDS_11)(options, 1e6) };
        // SAFETY: the replayer is live.
        let prepared = call(api, |error| unsafe { prepare(replayer, error) });
        // SAFETY: replayer and options are live.
        let replayed = prepared.and_then(|()| call(api, |error| unsafe { replay(replayer, options, error) }));
        // SAFETY: made above, not used again.
        unsafe { api.replay_options_destroy.expect(NEEDS_11)(options) };
        // SAFETY: made above, not used again.
        unsafe { api.replayer_destroy.expect(NEEDS_11)(replayer) };
        replayed
    }
}
