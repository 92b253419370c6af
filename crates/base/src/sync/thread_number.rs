//! Small numbers for threads: what is kept in shards, a thread looks for in the shard of its
//! number.

use super::process::atomic::{AtomicUsize, Ordering};
use std::cell::Cell;

/// The caller's number: threads are numbered from 0 in the order in which they first ask. Another
/// thread's number is never the same, but modulo a number of shards it may be. In a model every
/// thread has 0.
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
