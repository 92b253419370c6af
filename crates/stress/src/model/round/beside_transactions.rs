//! The keys that live transactions have written, for writes beside them that take no locks.

use super::transactions::Live;
use super::{Checked, ModelWrite, Round};
use esker::ColumnFamilyId;
use std::collections::BTreeSet;

impl Round {
    /// Checks that no live transaction has written these keys. Its locks should have prevented the
    /// writes.
    pub(super) fn check_not_locked(&self, writes: &[(usize, ModelWrite)]) -> Checked {
        for (family, write) in writes {
            let id = self.handles[*family].id();
            let by = write.index().and_then(|i| self.live.iter().find(|live| live.has_written(id, i)));
            if let Some(live) = by {
                return Err(format!("{write:?}: what '{}' has written was not locked", live.describe()));
            }
        }
        Ok(())
    }

    /// Whether a live transaction has written a key, or may have locked it.
    pub(super) fn is_in_transaction(&self, family: usize, index: usize) -> bool {
        let id = self.handles.get(family).map(esker::ColumnFamilyHandle::id);
        id.is_some_and(|id| self.live.iter().any(|live| live.may_have_locked(id, index)))
    }

    /// Whether a live transaction has written one of the keys that this write changes.
    pub(super) fn meets_transaction(&self, family: usize, write: &ModelWrite) -> bool {
        let keys = write.keys(&self.specs[family]);
        !self.live.is_empty() && keys.into_iter().any(|index| self.is_in_transaction(family, index))
    }

    /// The keys that live transactions have written, also those that save points have given back:
    /// the family and the index of each.
    pub(super) fn written_by_live(&self) -> BTreeSet<(usize, usize)> {
        let written = self.live.iter().flat_map(|live| &live.written);
        let is_present =
            |(family, id, _): &&(usize, ColumnFamilyId, usize)| *id == self.handles[*family].id();
        written.filter(is_present).map(|(family, _, index)| (*family, *index)).collect()
    }

    /// Before a family is dropped: ends the transactions that have written to it, because they
    /// could not be committed. Prepared ones stay.
    pub(super) fn family_leaves(&mut self, family: usize) {
        let writes_to = |live: &Live| live.changes.iter().any(|(of, ..)| *of == family);
        self.live.retain(|live| live.is_prepared || !writes_to(live));
        self.note_spills();
        self.live.iter_mut().for_each(|live| live.forget_snapshot_of(family));
    }
}
