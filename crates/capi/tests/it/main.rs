//! Tests of the C API from outside, that need a process or an allocator of their own.
#![allow(clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block, reason = "C programs")]
#![allow(clippy::disallowed_methods, reason = "a test watches a process")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(missing_docs, reason = "no test has users")]

mod allocations;
mod closing;
mod double_destroy;

use esker_base::allocations::CountingAllocator;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Lets one test run at a time: another one's allocations would be counted, too.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
