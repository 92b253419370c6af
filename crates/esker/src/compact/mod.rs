//! Compaction: merges files into new files, and keeps every entry that a reader may still need.
//!
//! In: a plan from the picker. Out: new files in the output level and an edit that replaces the
//! inputs by them.
//!
//! Files: `job.rs` takes the work, runs the plan and installs the result · `subjob.rs` does one
//! key range, `io_times.rs` times its files · `output.rs` writes files, `cut.rs` ends them ·
//! `damage.rs` finds damaged inputs · `manual.rs` is `compact_range` and `compact_files`,
//! `refit.rs` the former's `change_level`, and `promote_l0` · `abort.rs` aborts compactions and
//! resumes them · `delete_files.rs` is `delete_files_in_ranges` · `remote.rs` gives work to the
//! compaction service, `remote/accept.rs` takes its tables in, `remote/worker.rs` is the other
//! side, `remote/progress.rs` lets another worker resume it.
//!
//! Source: RocksDB `db/compaction/compaction_job.cc`, `db/db_impl/db_impl_compaction_flush.cc`.

mod abort;
pub(crate) mod cut;
mod damage;
mod delete_files;
mod io_times;
mod job;
mod manual;
mod output;
mod placement;
mod refit;
mod remote;
mod subjob;

pub(crate) use abort::{abort_compactions, resume_compactions};
pub(crate) use delete_files::delete_files_in_ranges;
pub(crate) use job::background_compaction;
pub(crate) use manual::{
    ManualRange, check_may_run, compact_files, compact_hot_files, compact_range, disable_manual_compaction,
    enable_manual_compaction, suggest_compact_range,
};
pub(crate) use refit::promote_l0;
pub(crate) use remote::{RemoteJob, Resumption, run_for_another};
