//! Flush: full memtables become level-0 tables.
//!
//! In: flush requests in the db state. Out: tables in level 0; memtables and WALs released. One
//! flush of a family runs at a time and takes all waiting memtables, oldest first. So level 0 grows
//! in the order of the writes.
//!
//! Reading order: `job` (takes memtables, installs the table), `build` (memtables to a table).
//!
//! Source: RocksDB `db/flush_job.cc`, `db/memtable_list.cc`.

mod build;
mod job;

pub(crate) use build::{BuildTable, BuiltTable, TableBuildJob};
pub(crate) use job::{background_flush, oldest_section_without, raise_log_numbers};
