//! The binary `esker`, run as its users run it.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "tests stop where they fail, and copy and damage files"
)]

mod beside_owner;
mod block_cache_reports;
mod changes;
mod compaction_worker;
mod compat;
mod db_bench;
mod db_dump;
mod db_stress;
mod demo;
#[cfg(feature = "encryption")]
mod encryption;
mod explain;
mod info;
mod ldb;
mod ldb_levels;
mod peers;
mod report;
mod run;
mod salvage;
mod shell;
mod sst_dump;
#[cfg(feature = "top")]
mod top;
mod traces;
mod verify;
mod write_stress;
