//! The cache from outside.
//!
//! `stress`: many threads at once. `policies`: the entries that stay, beside other policies.
//! `memory`: its memory use.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod memory;
mod policies;
mod stress;

/// A test that measures memory runs while no other test's thread sleeps under a guard.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
