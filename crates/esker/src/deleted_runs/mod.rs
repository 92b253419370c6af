//! Deleted runs: scans remember and skip them, and pre-scans find them in advance.
//!
//! A scan that meets a long run of deleted keys steps through it once. It remembers that nothing in
//! this range is visible at its sequence number, and later scans skip the run.
//!
//! Reading order: [`memory`] (the runs that scans of a family remember), [`skip`] (a cursor's
//! current run, and the skips), [`queue`] (the runs that wait for a pre-scan), [`pre_scan`]
//! (background scans that only remember runs). Runs inside tables and memtables have summaries of
//! their own: `format/deleted_runs.rs`, `memtable`.
//!
//! [`pre_scan`] uses scans and the engine; scans and the engine use the other files.

mod memory;
pub(crate) mod pre_scan;
mod queue;
mod skip;

pub(crate) use memory::DeletedRunMemory;
pub(crate) use queue::{PreScan, PreScanQueue, tables_between};
pub(crate) use skip::{DeletedRunMemoryRef, DeletedRunTracker, OwnRunsRef, Skip};
