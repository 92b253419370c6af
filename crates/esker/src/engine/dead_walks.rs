//! Which runs of deleted keys are to be gone through in the background, before a scan comes to them.
//!
//! In: the long runs of tables that flushes and compactions have installed. Out: a queue of walks; `db/iterator/walk.rs` makes them.
//!
//! Invariants
//!  1. The queue holds at most `MOST_WAITING` walks: what does not fit is left to scans.
//!  2. A run is queued only if a table besides its own has anything there: a run over nothing is passed by its own span.

use super::{DbState, Engine};
use crate::version::Version;
use esker_base::ColumnFamilyId;
use esker_format::dead_spans::LongSpan;

/// Walks that wait at most, of all families.
const MOST_WAITING: usize = 256;
/// Entries that a walk may pass for each one of its run: older versions and what else lies between.
const ENTRIES_EACH: u64 = 16;

/// A walk over a run of deleted keys, or what is left of one.
#[derive(Debug)]
pub(crate) struct DeadWalk {
    pub(crate) family: ColumnFamilyId,
    /// The user key it goes on from.
    pub(crate) from: Vec<u8>,
    /// The last user key of the run.
    pub(crate) last: Vec<u8>,
    /// Entries that it has passed, and that it may pass in all.
    pub(crate) passed: u64,
    pub(crate) most_entries: u64,
    /// Microseconds that took.
    pub(crate) micros: u64,
    /// Keys that were there after all, and how many of them end it.
    pub(crate) keys_there: u64,
    pub(crate) most_there: u64,
}

impl Engine {
    /// Whether no walk shall go on: somebody waits until nothing is at work, to pause or to resume after an error.
    pub(crate) fn is_without_walks(&self) -> bool {
        let state = self.state.lock();
        state.paused > 0 || state.background_error.stops_flushes()
    }
}

/// Queues walks over those of `spans` that lie over something. REQUIRES: the tables that have them are in the family's version.
pub(crate) fn queue_dead_walks<'a>(
    state: &mut DbState,
    family: ColumnFamilyId,
    spans: impl IntoIterator<Item = &'a LongSpan>,
) {
    let Some(version) = state.family_mut(family).map(|family| family.version.clone()) else { return };
    for span in spans {
        if state.dead_walks.len() < MOST_WAITING && lies_over_another(&version, span) {
            state.dead_walks.push_back(DeadWalk {
                family,
                from: span.first.clone(),
                last: span.last.clone(),
                passed: 0,
                most_entries: span.entries.saturating_mul(ENTRIES_EACH),
                micros: 0,
                keys_there: 0,
                // A walk that finds nothing but keys costs a scan of them and spares nobody anything.
                most_there: 1 + span.entries / 64,
            });
        }
    }
}

/// Whether two tables or more touch the span.
fn lies_over_another(version: &Version, span: &LongSpan) -> bool {
    let (first, last) = (Some(span.first.as_slice()), Some(span.last.as_slice()));
    let in_level = |level| match level {
        0 => version.overlapping(0, first, last).len(),
        _ => version.overlapping_range(level, first, last).len(),
    };
    // A run may go on from one table of a level to the next, but then each has its own span of it.
    (0..version.num_levels()).map(in_level).sum::<usize>() > 1
}
