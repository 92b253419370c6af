//! The work of the background jobs; the engine decides when they run.

use super::catch_up::close_obsolete_files;
use super::compaction_timer::schedule_compaction_trigger;
use super::recorded_times::schedule_recording;
use super::stats_dump::schedule_stats_dump;
use crate::engine::{Engine, Jobs, Purger, begin_scrubbing, maybe_schedule};
use crate::instance::{settle_and, settle_and_purge};
use crate::{compact, flush};
use esker_base::sync::Arc;

/// Registers the jobs, starts those for which recovery left work, and starts the timers.
pub(super) fn start(engine: &Arc<Engine>) {
    let limits = engine.job_limits();
    engine.scheduler.ensure_threads(limits.flushes, limits.compactions);
    let (flush, compact) = (flush::background_flush, compact::background_compaction);
    let jobs = Jobs { flush, compact, pre_scan: crate::deleted_runs::pre_scan::resume_pre_scan };
    assert!(engine.jobs.set(jobs).is_ok(), "a database starts once");
    start_purger(engine, settle_and_purge);
    schedule_recording(engine);
    maybe_schedule(engine, &mut engine.state.lock());
    schedule_stats_dump(engine);
    schedule_compaction_trigger(engine);
    begin_scrubbing(engine);
}

/// Lets a secondary close each file that no super version needs.
pub(super) fn start_of_secondary(engine: &Arc<Engine>) {
    start_purger(engine, |engine| settle_and(engine, close_obsolete_files));
}

/// Lets `purge` run for obsolete files. The drop of the last super version with a file requests a
/// purge, even in the reader of an old iterator.
fn start_purger(engine: &Arc<Engine>, purge: fn(&Engine)) {
    Purger::start(engine, purge);
    let purger = engine.purger.clone();
    engine.manifest.lock().on_obsolete_table(move || purger.request());
}
