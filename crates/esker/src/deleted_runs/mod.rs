//! Deleted runs: remembered, skipped, and looked for before a scan comes by.
//!
//! A scan that meets a long run of deleted keys steps through it once. Later scans use its finding
//! (nothing in this range is visible at this sequence number) to skip the run.
//!
//! Reading order: [`memory`] (the runs that scans of a family remember), [`skip`] (one cursor's
//! knowledge of its current run, and skipping it), [`queue`] (the runs that wait for a pre-scan),
//! [`pre_scan`] (background scans for the sake of remembering). Runs inside tables and memtables
//! have summaries of their own: `format/deleted_runs.rs`, `memtable`.
//!
//! [`pre_scan`] stands on scans and on the engine; the other files stand below both.

mod memory;
pub(crate) mod pre_scan;
mod queue;
mod skip;

pub(crate) use memory::DeletedRunMemory;
pub(crate) use queue::{PreScan, PreScanQueue, tables_between};
pub(crate) use skip::{DeletedRunMemoryRef, DeletedRunTracker, Skip};
