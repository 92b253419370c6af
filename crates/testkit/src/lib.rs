//! Helpers for the tests of all crates.
//!
//! This crate depends on no crate of Esker, so that even the lowest crate can use it.
//!
//! Contents: [`seed`] (random numbers that can be repeated), [`TempDir`], [`data_driven`] (test
//! cases in text files), [`model`] (a simple, slow database to compare with), [`ranges`] (sets of
//! key ranges), [`timestamps`] (formats of user-defined timestamps), [`Answering`] (a process that
//! answers line by line), [`runs_alone`] (a test in a process of its own), [`this_program`] (a new
//! process of the test binary).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod alone;
mod answering;
pub mod data_driven;
pub mod model;
pub mod ranges;
pub mod seed;
mod started;
mod temp_dir;
pub mod timestamps;

pub use alone::runs_alone;
pub use answering::Answering;
pub use started::{command, this_program};
pub use temp_dir::TempDir;
