//! esker-testkit: helpers for the tests of every crate. It depends on no crate of Esker, so that
//! the lowest crate can use it.
//!
//! [`seed`] (random numbers whose seed is printed), [`TempDir`], [`data_driven`] (cases as text
//! files that can be rewritten), [`model`] (a simple, slow database to compare with), [`ranges`]
//! (shapes of several ranges), [`timestamps`] (their widths and orders), [`Answering`] (a process
//! that answers line by line).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod answering;
pub mod data_driven;
pub mod model;
pub mod ranges;
pub mod seed;
mod temp_dir;
pub mod timestamps;

pub use answering::Answering;
pub use temp_dir::TempDir;
