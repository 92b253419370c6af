//! Walks around deletions that a memtable has noted (`memtable/src/noted.rs`).
//!
//! In: a few deleted user keys. Out: around each of them that lies over a table, what a scan would have remembered that came by; so that of a
//! run of deletions that is still in memory a scan has to step through no more than what was written since the last walk.
//!
//! A run grows while it is written, mostly upward or downward. So a walk begins where what is remembered around a key begins, is at the
//! end of that at once, and goes on over what is new: what it remembers then takes the place of what was remembered before, and the
//! whole run is one range again.
//!
//! Invariants
//!  1. No entry of a table is stepped over twice for the same deletions, but where what was remembered has been forgotten, and then no
//!     more than the memtable allows.
//!  2. A key that cannot be looked at now, since the walk has to stop, is left for later.

use super::{Stop, begin};
use crate::cf::ColumnFamily;
use crate::engine::{DeadWalk, Engine, tables_between};
use esker_base::Result;
use esker_base::sync::Arc;
use std::time::Duration;

/// Entries that a seek counts for.
const SEEK_ENTRIES: u64 = 16;

/// How long a job waits for more to do. Who wakes a thread pays some microseconds for it, a writer as much as for twenty deletions:
/// so a job stays as long as deletions come fast, and none wakes another.
const LINGER: Duration = Duration::from_millis(1);

/// Behind a walk: queues the next one if somebody goes on deleting.
pub(super) fn linger(engine: &Arc<Engine>) {
    if !(engine.is_shutting_down() || engine.is_without_walks() || engine.scheduler.walk_is_in_the_way()) {
        engine.env.clock.sleep(LINGER);
        engine.queue_walks_in_memory(true);
    }
}

/// Goes on over the present view.
/// # Errors
/// Those of reading tables.
pub(super) fn walk_over_view(
    engine: &Arc<Engine>,
    cf: &Arc<ColumnFamily>,
    walk: &mut DeadWalk,
) -> Result<Stop> {
    esker_base::probe!("dead_walk:around");
    let (mut iter, surroundings, _) = begin(engine, cf, walk)?;
    let view = &surroundings.view;
    let mut keys = walk.around.take().unwrap_or_default();
    // The first comes last.
    keys.sort_by(|a, b| cf.icmp.compare_user_keys(b, a));
    let (mut edge, mut seeks, mut stop) = (Vec::new(), 0, Stop::Over);
    while let Some(key) = keys.pop() {
        if tables_between(&view.version, &key, &key) == 0 {
            continue;
        }
        let known = view.dead_ranges.find(&key, iter.sequence(), false, &mut edge);
        iter.seek(known.map_or(key.as_slice(), |known| known.edge));
        iter.status()?;
        seeks += 1;
        let passed = iter.counters().skipped + SEEK_ENTRIES * seeks;
        let stopped = if iter.valid() {
            let found = iter.key();
            while keys.pop_if(|key| cf.icmp.compare_user_keys(key, found).is_le()).is_some() {}
            surroundings.stop(found, passed)
        } else if let Some(user_key) = iter.stopped_at() {
            keys.push(user_key.to_vec());
            // What was the reason may have passed.
            Some(surroundings.stop(user_key, passed).unwrap_or(Stop::NewView))
        } else {
            Some(Stop::Over)
        };
        if let Some(why) = stopped {
            stop = why;
            break;
        }
    }
    let passed = iter.counters().skipped + SEEK_ENTRIES * seeks;
    view.mem.noted_looked_at(passed);
    walk.passed = (walk.passed + passed).min(walk.most_entries);
    walk.around = Some(keys);
    Ok(stop)
}

#[cfg(test)]
mod tests;
