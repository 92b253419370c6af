//! Aborts compactions and refuses new ones until they are resumed.
//!
//! In: calls that abort and resume, for all families or for one. Out: cancelled compactions, and
//! queued families that are held back meanwhile.
//!
//! Invariants
//!  1. When an abort returns, no compaction that it means runs or waits, unless the database
//!     closes.
//!  2. A family that was due when compactions were aborted is queued again when the last abort that
//!     means it is undone.
//!
//! Source: RocksDB `DBImpl::AbortAllCompactions`, `ResumeAllCompactions`; 11.12 for one family.

use crate::cf::ColumnFamily;
use crate::engine::{DbState, Engine, maybe_schedule};
use esker_base::sync::Arc;
use esker_base::{ColumnFamilyId, Error, SubCode};

#[cold]
pub(super) fn compactions_aborted() -> Error {
    Error::incomplete("").with_subcode(SubCode::CompactionAborted)
}

/// Aborts the family's compactions, or, with `None`, those of all families, and waits for their
/// ends.
pub(crate) fn abort_compactions(engine: &Engine, family: Option<&ColumnFamily>) {
    let mut state = engine.state.lock();
    let family = family.map(|family| family.id);
    match family {
        None => state.compactions_aborted += 1,
        Some(id) => {
            // A dropped family has no compactions.
            let Some(found) = state.family_mut(id) else { return };
            found.compactions_aborted += 1;
        }
    }
    state.cancel_compactions(family);
    engine.state_changed.notify_all();
    while state.has_compactions(family) && !engine.is_shutting_down() {
        engine.wait_for_change(&mut state);
    }
}

/// Undoes one [`abort_compactions`] of the same scope; none precedes it: only says so in the LOG.
pub(crate) fn resume_compactions(engine: &Arc<Engine>, family: Option<&ColumnFamily>) {
    let mut state = engine.state.lock();
    let count = match family {
        None => &mut state.compactions_aborted,
        Some(family) => match state.family_mut(family.id) {
            Some(found) => &mut found.compactions_aborted,
            None => return,
        },
    };
    match count.checked_sub(1) {
        Some(left) => *count = left,
        None => {
            drop(state);
            let scope = family.map_or("all families", |family| &family.name);
            esker_base::info_log!(
                engine.info_log,
                Warn,
                "Compactions of {scope} are resumed, but not aborted"
            );
            return;
        }
    }
    queue_again(&mut state);
    maybe_schedule(engine, &mut state);
    engine.state_changed.notify_all();
}

/// Queues the families that are held back and whose compactions are no longer aborted.
fn queue_again(state: &mut DbState) {
    let is_free = |id: &ColumnFamilyId| !state.is_compaction_aborted(*id);
    let free: Vec<ColumnFamilyId> = state.held_back.iter().copied().filter(is_free).collect();
    for id in free {
        state.held_back.remove(&id);
        state.compaction_queue.push_back(id);
    }
}
