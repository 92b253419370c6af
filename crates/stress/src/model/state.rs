//! The expected contents of a family: one slot for each key. A copy is cheap until one of the
//! copies changes, so a snapshot is a copy.
//!
//! Where keys have timestamps, the slots hold the contents at the newest one, and each key has its
//! versions beside them. [`ModelState::at`] gives the slots of an older timestamp.
//!
//! Invariant: writes come with ascending timestamps.

use super::families::ModelMerge;
use std::ops::Range;
use std::rc::Rc;

/// A value, shared between copies.
pub(crate) type ModelValue = Rc<[u8]>;

/// A timestamp, and the value of a key from then on.
type Version = (u64, Option<ModelValue>);

/// The contents of one family at one point in time. Compared by its slots.
#[derive(Clone, Debug)]
pub(crate) struct ModelState {
    slots: Rc<Vec<Option<ModelValue>>>,
    /// The versions of each key, oldest first; `None` where keys have no timestamps.
    versions: Option<Rc<Vec<Rc<Vec<Version>>>>>,
}

impl PartialEq for ModelState {
    fn eq(&self, other: &ModelState) -> bool {
        self.slots == other.slots
    }
}

impl ModelState {
    pub(crate) fn empty(keys: usize) -> ModelState {
        ModelState { slots: Rc::new(vec![None; keys]), versions: None }
    }

    /// The empty state of a family whose keys have timestamps.
    pub(crate) fn stamped(keys: usize) -> ModelState {
        ModelState { versions: Some(Rc::new(vec![Rc::default(); keys])), ..ModelState::empty(keys) }
    }

    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        self.slots[index].as_deref()
    }

    pub(crate) fn put(&mut self, index: usize, value: &[u8]) {
        Rc::make_mut(&mut self.slots)[index] = Some(value.into());
    }

    pub(crate) fn delete(&mut self, index: usize) {
        Rc::make_mut(&mut self.slots)[index] = None;
    }

    pub(crate) fn merge(&mut self, index: usize, merge: ModelMerge, operand: &[u8]) {
        let value = merge.apply(self.get(index), operand);
        self.put(index, &value);
    }

    /// Deletes the keys from `begin` to before `end`.
    pub(crate) fn delete_range(&mut self, begin: usize, end: usize) {
        if begin < end {
            Rc::make_mut(&mut self.slots)[begin..end].fill(None);
        }
    }

    /// Makes the present slots of these keys their versions from timestamp `time` on.
    pub(crate) fn note_versions(&mut self, time: u64, keys: Range<usize>) {
        let Some(versions) = &mut self.versions else { return };
        for index in keys {
            let (slot, of_key) = (&self.slots[index], &versions[index]);
            let was_there = of_key.last().is_some_and(|(_, value)| value.is_some());
            // A write of the value that was there is a version, too.
            if slot.is_some() || was_there {
                Rc::make_mut(&mut Rc::make_mut(versions)[index]).push((time, slot.clone()));
            }
        }
    }

    /// The contents that a read at timestamp `time` shows.
    pub(crate) fn at(&self, time: u64) -> ModelState {
        let Some(versions) = &self.versions else { return self.clone() };
        let of_key = |of_key: &Rc<Vec<Version>>| {
            let older = of_key.partition_point(|(from, _)| *from <= time);
            older.checked_sub(1).and_then(|newest| of_key[newest].1.clone())
        };
        ModelState { slots: Rc::new(versions.iter().map(of_key).collect()), versions: None }
    }

    /// The timestamp of the version of a key that a read at `time` shows.
    pub(crate) fn time_of(&self, index: usize, time: u64) -> Option<u64> {
        let of_key = &self.versions.as_ref()?[index];
        let older = of_key.partition_point(|(from, _)| *from <= time);
        let (from, value) = &of_key[older.checked_sub(1)?];
        value.as_ref().map(|_| *from)
    }

    /// The first index in `range` with a value.
    pub(crate) fn first_in(&self, range: Range<usize>) -> Option<usize> {
        range.into_iter().find(|&i| self.slots[i].is_some())
    }

    /// The last index in `range` with a value.
    pub(crate) fn last_in(&self, range: Range<usize>) -> Option<usize> {
        range.into_iter().rev().find(|&i| self.slots[i].is_some())
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.iter().flatten().count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_of_the_value_that_was_there_has_its_own_timestamp() {
        let mut state = ModelState::stamped(1);
        for time in [3, 7] {
            state.put(0, b"value");
            state.note_versions(time, 0..1);
        }
        assert_eq!([2, 3, 6, 7].map(|time| state.time_of(0, time)), [None, Some(3), Some(3), Some(7)]);
    }
}
