//! What must be in a family: one slot for each key. Copying it is cheap until one of the copies
//! changes, so that a snapshot is a copy.

use super::families::Merge;
use std::rc::Rc;

/// A value, shared between copies.
pub(crate) type Value = Rc<[u8]>;

/// The contents of one family at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct State {
    slots: Rc<Vec<Option<Value>>>,
}

impl State {
    pub(crate) fn empty(keys: usize) -> State {
        State { slots: Rc::new(vec![None; keys]) }
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

    pub(crate) fn merge(&mut self, index: usize, merge: Merge, operand: &[u8]) {
        let value = merge.apply(self.get(index), operand);
        self.put(index, &value);
    }

    /// Deletes the keys from `begin` to before `end`.
    pub(crate) fn delete_range(&mut self, begin: usize, end: usize) {
        if begin < end {
            Rc::make_mut(&mut self.slots)[begin..end].fill(None);
        }
    }

    /// The first index in `range` that is there.
    pub(crate) fn first_in(&self, range: std::ops::Range<usize>) -> Option<usize> {
        range.into_iter().find(|&i| self.slots[i].is_some())
    }

    /// The last index in `range` that is there.
    pub(crate) fn last_in(&self, range: std::ops::Range<usize>) -> Option<usize> {
        range.into_iter().rev().find(|&i| self.slots[i].is_some())
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.iter().flatten().count()
    }
}
