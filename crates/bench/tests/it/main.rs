//! `db_bench`, run in this process.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests stop where they fail, and look into directories"
)]

mod benchmarks;
mod cache_bench;
mod refusals;
mod run;
