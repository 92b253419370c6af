//! The cache from outside.
//!
//! `stress`: many threads at once.

mod stress;
