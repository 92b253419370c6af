//! The cache from outside.
//!
//! `stress`: many threads at once. `policies`: what stays, beside other policies.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod policies;
mod stress;
