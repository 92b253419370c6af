//! What must be in a family: one slot for each key. Copying it is cheap until one of the copies changes, so that a
//! snapshot is a copy.

use super::families::Merge;
use std::rc::Rc;

/// A value, shared between copies.
pub(super) type Value = Rc<[u8]>;

/// The contents of one family at one moment.
#[derive(Clone, Debug)]
pub(super) struct State {
    slots: Rc<Vec<Option<Value>>>,
}

impl State {
    pub(super) fn empty(keys: usize) -> State {
        State { slots: Rc::new(vec![None; keys]) }
    }

    pub(super) fn get(&self, index: usize) -> Option<&[u8]> {
        self.slots[index].as_deref()
    }

    pub(super) fn put(&mut self, index: usize, value: &[u8]) {
        Rc::make_mut(&mut self.slots)[index] = Some(value.into());
    }

    pub(super) fn delete(&mut self, index: usize) {
        Rc::make_mut(&mut self.slots)[index] = None;
    }

    pub(super) fn merge(&mut self, index: usize, merge: Merge, operand: &[u8]) {
        let value = merge.apply(self.get(index), operand);
        self.put(index, &value);
    }

    /// Deletes the keys from `begin` to before `end`.
    pub(super) fn delete_range(&mut self, begin: usize, end: usize) {
        if begin < end {
            Rc::make_mut(&mut self.slots)[begin..end].fill(None);
        }
    }

    /// The first index in `range` that is there.
    pub(super) fn first_in(&self, range: std::ops::Range<usize>) -> Option<usize> {
        range.into_iter().find(|&i| self.slots[i].is_some())
    }

    /// The last index in `range` that is there.
    pub(super) fn last_in(&self, range: std::ops::Range<usize>) -> Option<usize> {
        range.into_iter().rev().find(|&i| self.slots[i].is_some())
    }

    pub(super) fn len(&self) -> usize {
        self.slots.iter().flatten().count()
    }
}
