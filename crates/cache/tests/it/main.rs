//! The cache from outside.
//!
//! `stress`: many threads at once. `policies`: what stays, beside other policies. `memory`: how much it takes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod memory;
mod policies;
mod stress;
