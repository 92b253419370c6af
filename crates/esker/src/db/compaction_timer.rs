//! Compactions that become due with time, in databases without writes.
//!
//! In: `ttl`, `periodic_compaction_seconds` and `file_temperature_age_thresholds` of the families.
//! Out: families queued for compaction, late by at most a fifth of the shortest of these times. In
//! a family that is written to, each flush and compaction checks this anyway.
//!
//! Source: RocksDB `DBImpl::TriggerPeriodicCompaction`, `ComputeTriggerCompactionPeriod`.

use crate::engine::{Engine, maybe_schedule, queue_if_due};
use crate::options::{CHOOSE_AT_OPEN, ColumnFamilyOptions};
use esker_base::ColumnFamilyId;
use esker_base::sync::Arc;

/// The fraction of the shortest time by which a compaction may be late.
const DIVISOR: u64 = 5;

/// Shortens the period if a new family's options need more frequent checks.
pub(super) fn family_is_there(engine: &Arc<Engine>, options: &ColumnFamilyOptions) {
    let Some(shortest) = shortest_interval(options) else { return };
    let period = period_for(engine, shortest);
    if engine.compaction_trigger.period().is_none_or(|current| current > period) {
        schedule_compaction_trigger(engine);
    }
}

/// Seconds between two checks.
fn period_for(engine: &Engine, shortest: u64) -> u64 {
    let options = engine.db_options();
    let longest = options.max_compaction_trigger_wakeup_seconds;
    let dump = match u64::from(options.stats_dump_period_sec) {
        0 => longest,
        seconds => seconds,
    };
    (shortest / DIVISOR).min(dump).min(longest).max(1)
}

/// Starts, changes or stops the periodic check, as the options in force say.
pub(super) fn schedule_compaction_trigger(engine: &Arc<Engine>) {
    let period = || {
        let shortest = {
            let state = engine.state.lock();
            state.families.values().filter_map(|f| shortest_interval(&f.options)).min()
        };
        shortest.filter(|_| !engine.is_shutting_down()).map(|shortest| period_for(engine, shortest))
    };
    engine.compaction_trigger.reschedule(period, |period| {
        let weak = Arc::downgrade(engine);
        engine.env.timer.repeat(period, move || {
            if let Some(engine) = weak.upgrade() {
                queue_due_families(&engine);
            }
        })
    });
}

/// The shortest time after which an entry of the family may be due; `None` if none ever is.
fn shortest_interval(options: &ColumnFamilyOptions) -> Option<u64> {
    let ages = options.compaction_options_fifo.file_temperature_age_thresholds.iter().map(|step| step.age);
    let times = [options.ttl, options.periodic_compaction_seconds];
    times.into_iter().chain(ages).filter(|seconds| *seconds > 0 && *seconds < CHOOSE_AT_OPEN).min()
}

fn queue_due_families(engine: &Arc<Engine>) {
    let mut state = engine.state.lock();
    let timed = state.families.iter().filter(|(_, f)| shortest_interval(&f.options).is_some());
    let timed: Vec<ColumnFamilyId> = timed.map(|(id, _)| *id).collect();
    for id in timed {
        queue_if_due(engine, &mut state, id, engine.oldest_snapshot_at_release());
    }
    maybe_schedule(engine, &mut state);
}
