//! Small numbers for threads, which choose a thread's shard of sharded state.

use super::process::atomic::{AtomicUsize, Ordering};
use std::cell::Cell;

/// The caller's number: threads are numbered from 0 in the order of their first call. Numbers are
/// unique, but not modulo a number of shards. In a model every thread has 0.
#[inline]
pub fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    if cfg!(any(loom, shuttle)) {
        return 0;
    }
    MINE.with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        mine.get()
    })
}
