//! The demonstration as its users run it, and Esker as this package builds it: without optional
//! codecs.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests stop where they fail, and copy and damage files"
)]

mod codecs;
mod story;
