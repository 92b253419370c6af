//! The background jobs: the engine decides when they run, this file defines their work.

use crate::engine::{Engine, Jobs, Purger, maybe_schedule};
use crate::instance::settle_and_purge;
use crate::{compact, flush};
use esker_base::sync::Arc;

/// Makes the jobs known and starts those that recovery left work for.
pub(super) fn start(engine: &Arc<Engine>) {
    let limits = engine.job_limits();
    engine.scheduler.ensure_threads(limits.flushes, limits.compactions);
    let (flush, compact) = (flush::background_flush, compact::background_compaction);
    let jobs = Jobs { flush, compact, pre_scan: crate::deleted_runs::pre_scan::resume_pre_scan };
    assert!(engine.jobs.set(jobs).is_ok(), "a database starts once");
    Purger::start(engine, settle_and_purge);
    // Dropping the last super version with a file deletes the file, even in the reader of an old
    // iterator.
    let purger = engine.purger.clone();
    engine.manifest.lock().on_obsolete_table(move || purger.request());
    maybe_schedule(engine, &mut engine.state.lock());
}
