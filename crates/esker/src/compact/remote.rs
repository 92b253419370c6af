//! Key ranges of compactions that workers of the compaction service run.
//!
//! In: a plan, one key range. Out: the worker's tables, checked and in the database's directory; or
//! none, and this process compacts the range.
//!
//! Files: `accept.rs` takes a worker's tables in · `worker.rs` runs a job for another process ·
//! `progress.rs` lets another worker resume it.
//!
//! Source: RocksDB `db/compaction/compaction_service_job.cc`.
//!
//! Invariants
//!  1. Inputs are dropped only if the workers have read as many entries as the inputs have.
//!  2. A result that is refused leaves no file in the database's directories.

mod accept;
mod progress;
mod worker;

pub(crate) use progress::{ResumePoint, Resumption};
pub(crate) use worker::{RemoteJob, run_for_another};

use super::subjob::{SubjobContext, SubjobResult};
use crate::cf::ColumnFamily;
use crate::engine::{Engine, contained};
use crate::files::open_table::open_file;
use crate::options::{
    CompactionService, CompactionServiceJobInfo, CompactionServiceJobStatus as Status, latest_options_file,
};
use crate::picker::CompactionPlan;
use crate::version::FileMeta;
use accept::accept;
use esker_base::sync::Arc;
use esker_base::{Error, FileNumber, Result, Severity};
use esker_env::Priority;
use esker_format::compaction_service::{CompactionServiceInput, CompactionServiceResult};

/// The user keys of a range: from the first, inclusive, to the second, exclusive. `None`:
/// unbounded.
pub(super) type JobRange<'a> = (&'a Option<Vec<u8>>, &'a Option<Vec<u8>>);

/// Lets a worker compact the range. `None`: the caller must compact it itself.
pub(super) fn run(context: &SubjobContext<'_>, range: JobRange<'_>) -> Option<SubjobResult> {
    let service = context.engine.options.compaction_service.as_ref()?;
    let done = contained("a compaction service", Severity::HardError, || match job_of(context, range)? {
        Some(job) => by_worker(context, range, service.as_ref(), &job),
        None => Ok(None),
    });
    done.unwrap_or_else(|error| Some(SubjobResult { result: Some(error), ..SubjobResult::default() }))
}

/// The job for a worker; `None` if no worker can do it.
fn job_of(context: &SubjobContext<'_>, range: JobRange<'_>) -> Result<Option<CompactionServiceInput>> {
    let (engine, plan, cf) = (context.engine, context.plan, context.cf);
    let paths = cf.tables.paths();
    // A worker cannot report blob files, and OPTIONS files name no paths. If tables have no
    // timestamps, their bounds differ from those of the inputs.
    let has_blobs = context.options.enable_blob_files
        || plan.input_files().any(|(_, f)| f.oldest_blob_file_number.is_some());
    let is_elsewhere = paths.all().len() > 1 || paths.first() != engine.path;
    let lacks_timestamps = cf.icmp.timestamp_size() > 0 && !context.options.persist_user_defined_timestamps;
    // The newest OPTIONS file may lack changes that are in force.
    let is_stale = engine.unwritten_options.lock().changes > 0;
    if has_blobs || is_elsewhere || lacks_timestamps || is_stale || plan.trim_ts.is_some() {
        return Ok(None);
    }
    let Some(options_file_number) = latest_options_file(engine.fs().as_ref(), &engine.path)? else {
        return Ok(None);
    };
    Ok(Some(CompactionServiceInput {
        cf_name: cf.name.clone(),
        snapshots: context.snapshots.to_vec(),
        input_files: plan.input_files().map(|(_, file)| table_name(file.number)).collect(),
        output_level: plan.output_level,
        db_id: engine.db_id.clone(),
        begin: range.0.clone(),
        end: range.1.clone(),
        options_file_number,
    }))
}

/// The name of a table without its directory.
fn table_name(number: FileNumber) -> String {
    format!("{:06}.sst", number.0)
}

fn info_of(context: &SubjobContext<'_>) -> CompactionServiceJobInfo {
    let (engine, plan) = (context.engine, context.plan);
    CompactionServiceJobInfo {
        db_name: engine.path.display().to_string(),
        db_id: engine.db_id.clone(),
        db_session_id: engine.session_id.clone(),
        cf_id: context.cf.id,
        cf_name: context.cf.name.clone(),
        job_id: context.job << 32 | context.number as u64,
        priority: Priority::Low,
        compaction_reason: plan.reason,
        is_full_compaction: plan.is_full,
        is_manual_compaction: plan.is_manual,
        bottommost_level: plan.is_bottommost,
        base_input_level: plan.start_level,
        output_level: plan.output_level,
    }
}

/// Schedules the job with the service and waits for the result. `None`: the caller must compact the
/// range itself.
/// # Errors
/// The worker's, or the service's.
fn by_worker(
    context: &SubjobContext<'_>,
    range: JobRange<'_>,
    service: &dyn CompactionService,
    job: &CompactionServiceInput,
) -> Result<Option<SubjobResult>> {
    let log = |what: &str| {
        let (log, family, number) = (&context.engine.info_log, &context.cf.name, context.job);
        esker_base::info_log!(log, Info, "[{family}] [JOB {number}] {what}");
    };
    let (level, files) = (job.output_level, job.input_files.join(", "));
    log(&format!("Starting remote compaction (output level: {level}): {files}"));
    let response = service.schedule(&info_of(context), &job.to_bytes());
    match response.status {
        Status::Success => {}
        Status::UseLocal => {
            log("Remote compaction fallback to local by API (Schedule)");
            return Ok(None);
        }
        Status::Aborted => return Err(Error::aborted("Scheduling a remote compaction job was aborted")),
        Status::Failure => {
            let what = "CompactionService failed to schedule a remote compaction job.";
            return Err(Error::incomplete(what));
        }
    }
    let id = response.scheduled_job_id.as_str();
    log("Waiting for remote compaction...");
    let (status, bytes) = service.wait(id);
    match status {
        Status::Success => {}
        Status::UseLocal => {
            log("Remote compaction fallback to local by API (Wait)");
            return Ok(None);
        }
        Status::Aborted => return Err(Error::aborted("Waiting a remote compaction job was aborted")),
        Status::Failure => return Err(failure(&bytes)),
    }
    let result = match CompactionServiceResult::parse(&bytes) {
        Ok(CompactionServiceResult { status: Err(error), .. }) => {
            service.on_installation(id, Status::Failure);
            return Err(error);
        }
        result => result,
    };
    match result.and_then(|result| accept(context, range, &result)) {
        Ok(done) => {
            let (path, count) = (&context.engine.path, done.files.len());
            log(&format!("Received remote compaction result, {count} files now in {}", path.display()));
            service.on_installation(id, Status::Success);
            Ok(Some(done))
        }
        Err(error) => {
            log(&format!("Refused the remote compaction result, falling back to local compaction: {error}"));
            service.on_installation(id, Status::UseLocal);
            Ok(None)
        }
    }
}

/// The error of a job that has failed.
fn failure(bytes: &[u8]) -> Error {
    let what = match CompactionServiceResult::parse(bytes).map(|result| result.status) {
        Ok(Err(error)) => return error,
        Ok(Ok(())) => "(even though the internal status is okay)",
        Err(_) => "(and no valid result is returned)",
    };
    Error::incomplete(format!("CompactionService failed to run the compaction job {what}."))
}

/// Whether workers have skipped entries of the inputs. The check needs all ranges together, because
/// tables do not record how many entries are in a range.
pub(super) fn lacks_entries(
    engine: &Engine,
    cf: &ColumnFamily,
    plan: &CompactionPlan,
    results: &[SubjobResult],
) -> bool {
    if !results.iter().any(|result| result.is_remote) {
        return false;
    }
    let read: u64 = results.iter().map(|result| result.stats.records_in).sum();
    let lacking = entries_of(cf, plan).map_or(true, |entries| entries != read);
    if lacking {
        let (log, name) = (&engine.info_log, &cf.name);
        esker_base::info_log!(log, Warn, "[{name}] Workers have not read all entries, falling back to local");
    }
    lacking
}

/// Number of entries in a plan's inputs, without range tombstones.
/// # Errors
/// Those of opening a table.
fn entries_of(cf: &ColumnFamily, plan: &CompactionPlan) -> Result<u64> {
    let entries = |(_, file): (usize, &Arc<FileMeta>)| {
        let reader = open_file(&cf.tables, file)?;
        let properties = reader.properties();
        Ok(properties.num_entries.saturating_sub(properties.num_range_deletions))
    };
    plan.input_files().map(entries).sum()
}
