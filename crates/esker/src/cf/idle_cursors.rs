//! Unused cursors over one super version, kept for the next reader: reuse costs less than making
//! and dropping a cursor.
//!
//! In: cursors whose references the super version itself holds, too. Out: the same cursors. This
//! module does not depend on their type.
//!
//! Invariants
//!  1. An idle cursor does not count as a reference to the super version. It is dropped when
//!     another super version is published, and at the latest with its own.
//!  2. There are at most `MOST`. Threads only try the lock, and drop nothing under it: a reader
//!     that does not get it makes a new cursor, or drops its own.

use esker_base::sync::Mutex;
use std::any::Any;
use std::fmt;

/// Most cursors that are kept: the threads that may end a scan before one of them begins the next.
const MOST: usize = 16;

/// The cursors; the most recently used one is last.
#[derive(Default)]
pub(crate) struct IdleCursors(Mutex<Vec<Box<dyn Any + Send>>>);

impl fmt::Debug for IdleCursors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdleCursors")
    }
}

impl IdleCursors {
    /// Takes a cursor that `fits`, if there is one.
    #[inline]
    pub(crate) fn take<T: Any>(&self, fits: impl Fn(&T) -> bool) -> Option<Box<T>> {
        let mut idle = self.0.try_lock()?;
        let at = idle.iter().rposition(|cursor| cursor.downcast_ref::<T>().is_some_and(&fits))?;
        let taken = idle.swap_remove(at);
        drop(idle);
        taken.downcast().ok()
    }

    /// Takes all cursors, when the super version has been replaced.
    pub(crate) fn take_all(&self) -> Vec<Box<dyn Any + Send>> {
        self.0.try_lock().map(|mut idle| std::mem::take(&mut *idle)).unwrap_or_default()
    }

    /// Adds a cursor, if there is room.
    #[inline]
    pub(crate) fn put(&self, cursor: Box<dyn Any + Send>) {
        let Some(mut idle) = self.0.try_lock().filter(|idle| idle.len() < MOST) else { return };
        idle.push(cursor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fitting_cursor_is_taken_and_a_limited_number_is_kept() {
        let idle = IdleCursors::default();
        (0..2 * MOST).for_each(|number| idle.put(Box::new(number)));
        idle.put(Box::new("another"));
        assert_eq!(idle.take(|&number: &usize| number == 2 * MOST - 1), None);
        assert_eq!(idle.take(|_: &&str| true), None);
        assert_eq!(idle.take(|&number: &usize| number < 3), Some(Box::new(2)));
        assert_eq!((idle.take_all().len(), idle.take_all().len()), (MOST - 1, 0));
    }
}
