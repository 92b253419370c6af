//! Cursors over one super version that nobody uses any more, for those who want one next: taking
//! one over costs less than making it and dropping it.
//!
//! In: cursors that hold nothing but what the super version holds itself. Out: the same. What they
//! are this module does not know.
//!
//! Invariants
//!  1. None of them has a count of the super version: they go when another super version is
//!     published, and at the latest when it goes.
//!  2. There are at most `MOST`. The lock is only ever tried, and nothing is dropped under it: who
//!     does not get it makes a cursor, or drops one.

use esker_base::sync::Mutex;
use std::any::Any;
use std::fmt;

/// As many threads as will end a scan before the first of them begins another.
const MOST: usize = 16;

/// The cursors, the last used last.
#[derive(Default)]
pub(crate) struct IdleCursors(Mutex<Vec<Box<dyn Any + Send>>>);

impl fmt::Debug for IdleCursors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdleCursors")
    }
}

impl IdleCursors {
    /// One that `fits`, if there is one.
    #[inline]
    pub(crate) fn take<T: Any>(&self, fits: impl Fn(&T) -> bool) -> Option<Box<T>> {
        let mut idle = self.0.try_lock()?;
        let at = idle.iter().rposition(|cursor| cursor.downcast_ref::<T>().is_some_and(&fits))?;
        let taken = idle.swap_remove(at);
        drop(idle);
        taken.downcast().ok()
    }

    /// All of them, when the super version is not the family's any more and nobody will take one.
    pub(crate) fn take_all(&self) -> Vec<Box<dyn Any + Send>> {
        self.0.try_lock().map(|mut idle| std::mem::take(&mut *idle)).unwrap_or_default()
    }

    /// Leaves one here, if there is room.
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
    fn what_fits_is_taken_and_no_more_than_so_many_are_kept() {
        let idle = IdleCursors::default();
        (0..2 * MOST).for_each(|number| idle.put(Box::new(number)));
        idle.put(Box::new("another"));
        assert_eq!(idle.take(|&number: &usize| number == 2 * MOST - 1), None);
        assert_eq!(idle.take(|_: &&str| true), None);
        assert_eq!(idle.take(|&number: &usize| number < 3), Some(Box::new(2)));
        assert_eq!((idle.take_all().len(), idle.take_all().len()), (MOST - 1, 0));
    }
}
