//! Runs of deleted keys: remembered, skipped, and looked for before a scan comes by.
//!
//! A scan that meets a long run of deleted keys steps through it once. What it finds out (nothing
//! in this range is visible at this sequence number) later scans use to skip the run.
//!
//! Reading order: [`memory`] (the runs that scans of a family remember), [`skip`] (what one cursor
//! knows of the run that it is in, and how it skips), [`queue`] (which runs pre-scans are to go
//! through), [`pre_scan`] (scans in the background for the sake of what they remember). Runs inside
//! tables and memtables have summaries of their own: `format/deleted_runs.rs`, `memtable`.
//!
//! [`pre_scan`] stands on scans and on the engine; the other files stand below both.

mod memory;
pub(crate) mod pre_scan;
mod queue;
mod skip;

pub(crate) use memory::DeletedRunMemory;
pub(crate) use queue::{PreScan, PreScanQueue, tables_between};
pub(crate) use skip::{DeletedRunMemoryRef, DeletedRunTracker, Skip};
