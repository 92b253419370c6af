//! The operations of a database in the list of threads ([`Env::get_thread_list`]).
//!
//! In: jobs and calls that begin. Out: the status of their threads, with `enable_thread_tracking`.
//! Without the option a job reads one flag. Gets, multi-gets and seeks read none: the option sets a
//! bit of [`Engine::open_tag`], and they take the way of traced reads.
//!
//! [`Env::get_thread_list`]: esker_env::Env::get_thread_list

use super::Engine;
use crate::cf::ColumnFamily;
use crate::options::DbOptions;
use crate::picker::CompactionPlan;
use esker_env::thread_status::{OperationScope, OperationType, ThreadOperation};
use std::path::Path;

impl Engine {
    /// Shows an operation of the calling thread, until the result is dropped.
    pub(crate) fn track(
        &self,
        operation_type: OperationType,
        cf: Option<&ColumnFamily>,
        properties: impl FnOnce() -> [u64; 6],
    ) -> Option<OperationScope> {
        let mut operation = operation(&self.options, &self.path, operation_type)?;
        operation.cf_name = cf.map_or_else(String::new, |cf| cf.name.clone());
        operation.properties = properties();
        Some(self.env.pool.thread_registry().begin(operation))
    }
}

/// Shows the opening of the database in `path`, until the result is dropped.
pub(crate) fn track_open(options: &DbOptions, path: &Path) -> Option<OperationScope> {
    let operation = operation(options, path, OperationType::DbOpen)?;
    Some(options.env.pool.thread_registry().begin(operation))
}

/// The properties of a compaction that begins: RocksDB's places and bits.
pub(crate) fn compaction_properties(job: u64, plan: &CompactionPlan) -> [u64; 6] {
    let levels = (plan.start_level as u64) << 32 | plan.output_level as u64;
    let flags = [plan.is_manual, plan.is_deletion, plan.is_trivial_move];
    let flags = flags.iter().enumerate().map(|(bit, is_set)| u64::from(*is_set) << bit).sum();
    [job, levels, flags, plan.input_bytes(), 0, 0]
}

fn operation(options: &DbOptions, path: &Path, operation_type: OperationType) -> Option<ThreadOperation> {
    options.enable_thread_tracking.then(|| ThreadOperation {
        operation_type,
        db_name: path.display().to_string(),
        began_at: options.env.clock.monotonic_micros(),
        ..ThreadOperation::default()
    })
}
