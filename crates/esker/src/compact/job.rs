//! The compaction job: takes a plan, runs it, and installs the result.
//!
//! Steps
//!  1. Under the state lock: picks a plan and marks its inputs.
//!  2. Without a lock: writes the outputs, each key range on its own thread.
//!  3. Under the manifest lock: logs the version edit.
//!  4. Under both locks: publishes the new version.
//!
//! Invariants
//!  1. Inputs stay marked until the result is installed or abandoned, so no two compactions read or
//!     write the same keys of a level at once.
//!  2. Outputs are synced, and their names too, before the MANIFEST names them.
//!  3. After a failure or cancellation the outputs are deleted and the version is unchanged.
//!  4. Damaged inputs are quarantined; the rest of the database continues to work.

use super::abort::compactions_aborted;
use super::damage::{damaged_inputs, quarantine};
use super::manual::manual_compaction_paused;
use super::output::partitioner;
use super::placement::Placement;
use super::remote;
use super::subjob::{self, SubjobContext, SubjobResult};
use crate::cf::ColumnFamily;
use crate::engine::{
    AutomaticCompaction, CompactionReport, DbState, Engine, ErrorReason, QueuedManualCompaction,
    compaction_properties, contained, maybe_schedule, publish_super_version, release_marks,
};
use crate::files::open_table::open_file;
use crate::merge::CompactionIteratorStats;
use crate::merge::compaction_iter::BlobTally;
use crate::observe::CompactionJobInfo;
use crate::options::{ColumnFamilyOptions, ConcurrentTaskLimiter, TaskToken};
use crate::picker::{CompactionPlan, CompactionReason, Overrides, PickContext, RunningId, pick};
use crate::snapshot::SectionsForJob;
use crate::version::LogOptions;
use esker_base::stats::{Histogram, Ticker, record_tick};
use esker_base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use esker_base::sync::{Arc, thread};
use esker_base::{Error, ErrorKind, FileNumber, Result, SequenceNumber, Severity};
use esker_env::spawn_scoped;
use esker_env::sst_file_manager::CompactionRoom;
use esker_env::thread_status::{OperationStage, OperationType, SharedOperation, begin_stage};
use esker_format::key::InternalKeyComparator;
use esker_format::version_edit::{BlobFileGarbage, VersionEdit};
use std::collections::HashSet;

/// A plan that is being run.
struct Task {
    plan: CompactionPlan,
    cf: Arc<ColumnFamily>,
    options: Arc<ColumnFamilyOptions>,
    running: RunningId,
    /// The number of the manual compaction to which the task belongs.
    manual: Option<u64>,
    /// Threads; 0: as the option `max_subcompactions` says.
    max_subcompactions: u32,
    cancelled: Arc<AtomicBool>,
    /// Whether all inputs have been read: later errors are not due to damaged inputs.
    installs: AtomicBool,
    /// The task's place in the family's `compaction_thread_limiter`, if there is one.
    _token: Option<TaskToken>,
}

/// Runs the most urgent compaction there is, if there is one.
pub(crate) fn background_compaction(engine: &Arc<Engine>) {
    let Some(mut task) = take_task(engine) else { return };
    let registered = task.manual.is_none().then(|| Registered { engine, canceled: task.cancelled.clone() });
    let result = run(engine, &mut task);
    let manual = task.manual;
    // The task keeps files on disk, so it is dropped before the caller sees the end of the job.
    drop(task);
    drop(registered);
    if let Some(id) = manual {
        report_end(engine, id, result);
    }
}

/// An automatic compaction in the list of those that can be aborted.
struct Registered<'a> {
    engine: &'a Engine,
    canceled: Arc<AtomicBool>,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        let mut state = self.engine.state.lock();
        state.automatic_compactions.retain(|job| !Arc::ptr_eq(&job.canceled, &self.canceled));
        self.engine.state_changed.notify_all();
    }
}

/// Runs the task, and releases its marks. Returns the files that were written.
/// # Errors
/// The error of the compaction, which the database has recorded.
fn run(engine: &Arc<Engine>, task: &mut Task) -> Result<Vec<FileNumber>> {
    if task.plan.is_trivial_move {
        match may_move(task) {
            Ok(moves) => task.plan.is_trivial_move = moves,
            Err(e) => return finish(engine, task, Err(e)),
        }
    }
    let Ok(_room) = reserve_room(engine, &task.plan) else { return cancel_without_room(engine, task) };
    let result = contained("a compaction", Severity::FatalError, || run_and_install(engine, task));
    finish(engine, task, result)
}

/// Gives the caller of a manual compaction its result.
fn report_end(engine: &Engine, id: u64, result: Result<Vec<FileNumber>>) {
    let mut state = engine.state.lock();
    if let Some(manual) = state.manual_compactions.iter_mut().find(|m| m.id == id) {
        manual.done = Some(result);
    }
    engine.state_changed.notify_all();
}

/// Reserves disk space for the plan's outputs, if an `sst_file_manager` limits it.
/// # Errors
/// There is not enough space.
fn reserve_room(engine: &Engine, plan: &CompactionPlan) -> std::result::Result<Option<CompactionRoom>, ()> {
    match &engine.options.sst_file_manager {
        Some(manager) if !plan.is_trivial_move && !plan.is_deletion => {
            manager.reserve_for_compaction(plan.input_bytes()).map(Some).ok_or(())
        }
        _ => Ok(None),
    }
}

/// Abandons the plan. An automatic compaction then pauses: its family is in the queue again.
/// # Errors
/// `CompactionTooLarge`.
fn cancel_without_room(engine: &Arc<Engine>, task: &Task) -> Result<Vec<FileNumber>> {
    esker_base::info_log!(
        engine.info_log,
        Warn,
        "[{}] Cancelled compaction because not enough room",
        task.cf.name
    );
    record_tick(&engine.options.statistics, Ticker::CompactionCancelled, 1);
    release_marks(engine, &mut engine.state.lock(), task.cf.id, task.running);
    if task.manual.is_none() {
        engine.pause_before_retry();
    }
    let too_large = "the limit of the sst_file_manager leaves no room for the compaction";
    Err(Error::new(ErrorKind::CompactionTooLarge, too_large))
}

/// Takes the next compaction, if one is due. Manual ones come first, because callers wait for them.
fn take_task(engine: &Arc<Engine>) -> Option<Task> {
    let oldest_snapshot = engine.oldest_snapshot_at_release();
    let mut state = engine.state.lock();
    state.compactions_unbegun -= 1;
    // A thread that finds the family in the queue leaves the check of its files' ages to this job.
    // So the job reads the time under the lock.
    let now_seconds = engine.env.clock.now_seconds();
    // Read under the lock, too: the plan is picked from the current version.
    let oldest_live = engine.oldest_reader();
    if engine.is_shutting_down() || state.is_paused() {
        return None;
    }
    if let Some(manual) = state.manual_compactions.iter_mut().find(|m| m.plan.is_some()) {
        let (plan, running, id) = (manual.plan.take()?, manual.running?, manual.id);
        let (max_subcompactions, cancelled) = (manual.max_subcompactions, manual.canceled.clone());
        let Some(family) = state.families.get(&plan.column_family) else {
            let gone = Error::column_family_dropped("the family was dropped before it could be compacted");
            state
                .manual_compactions
                .iter_mut()
                .filter(|m| m.id == id)
                .for_each(|m| m.done = Some(Err(gone.clone())));
            engine.state_changed.notify_all();
            return None;
        };
        let (cf, options) = (family.cf.clone(), family.options.clone());
        let installs = AtomicBool::new(false);
        let (manual, token) = (Some(id), options.compaction_thread_limiter.as_ref().map(TaskToken::force));
        return Some(Task {
            plan,
            cf,
            options,
            running,
            manual,
            max_subcompactions,
            cancelled,
            installs,
            _token: token,
        });
    }
    if state.exclusive_manual {
        return None;
    }
    take_automatic(engine, &mut state, (now_seconds, oldest_snapshot, oldest_live))
}

/// Takes the next automatic compaction that the `compaction_thread_limiter` of its family allows.
/// The numbers are the present time in seconds, the oldest snapshot at a release, and the oldest
/// reader.
fn take_automatic(
    engine: &Arc<Engine>,
    state: &mut DbState,
    (now_seconds, oldest_snapshot, oldest_live): (u64, SequenceNumber, SequenceNumber),
) -> Option<Task> {
    while let Some(id) = state.compaction_queue.pop_front() {
        if state.is_compaction_aborted(id) {
            state.held_back.insert(id);
            continue;
        }
        let Some(family) = state.family_mut(id) else { continue };
        family.compaction_queued = false;
        if family.options.disable_auto_compactions {
            continue; // queued before the option was set
        }
        let context = PickContext {
            options: &family.compaction_options,
            running: &family.running,
            now_seconds,
            seconds_ahead: engine.db_options().offpeak_seconds_ahead(now_seconds),
            oldest_snapshot,
            oldest_live,
            suggested: &family.suggested,
        };
        let Some(plan) = pick(&family.version, &context) else { continue };
        // A further compaction of the family may be due at the same time.
        family.compaction_queued = true;
        let token = match &family.options.compaction_thread_limiter {
            None => None,
            Some(limiter) => match request_token(engine, limiter) {
                None => {
                    state.throttled.push_back(id);
                    continue;
                }
                token => token,
            },
        };
        let running = family.running.start(&plan);
        let (cf, options) = (family.cf.clone(), family.options.clone());
        state.compaction_queue.push_back(id);
        let cancelled = Arc::new(AtomicBool::new(false));
        let registered = AutomaticCompaction { family: id, canceled: cancelled.clone() };
        state.automatic_compactions.push(registered);
        maybe_schedule(engine, state);
        let (manual, max_subcompactions, installs) = (None, 0, AtomicBool::new(false));
        return Some(Task {
            plan,
            cf,
            options,
            running,
            manual,
            max_subcompactions,
            cancelled,
            installs,
            _token: token,
        });
    }
    None
}

/// A token of the limiter; `None` if the limiter has no room. Once it may have room again, it calls
/// the database, which then queues the families that wait.
fn request_token(engine: &Arc<Engine>, limiter: &Arc<ConcurrentTaskLimiter>) -> Option<TaskToken> {
    let database = Arc::downgrade(engine);
    TaskToken::acquire(limiter, engine.tag, move || {
        if let Some(engine) = database.upgrade() {
            engine.queue_throttled();
        }
    })
}

/// Runs the plan and installs the result. Returns the written files.
fn run_and_install(engine: &Arc<Engine>, task: &Task) -> Result<Vec<FileNumber>> {
    let plan = &task.plan;
    let (job, start) = (engine.next_job_id(), engine.env.clock.monotonic_micros());
    let properties = || compaction_properties(job, plan);
    let _operation = engine.track(OperationType::Compaction, Some(&task.cf), properties);
    let _stage = begin_stage(OperationStage::CompactionRun);
    if plan.is_trivial_move {
        esker_base::probe!("compaction:trivial_move");
        engine.report_trivial_move_begin(job, &task.cf, plan);
        let moved = install(engine, task, plan.trivial_move_edit(), &[], &Arc::default());
        engine.report_trivial_move_end(job, &task.cf, plan, &moved);
        keep_info(engine, task, || engine.move_info(job, &task.cf, plan, true, &moved));
        engine.report_stall_changes();
        return moved.map(|()| Vec::new());
    }
    esker_base::probe!("compaction:begun");
    if matches!(plan.reason, CompactionReason::Ttl | CompactionReason::PeriodicCompaction) {
        esker_base::probe!("compaction:due_by_time");
    }
    let (snapshots, prepared) = engine.snapshots_for_job()?;
    engine.report_compaction_begin(job, &task.cf, plan);
    let readers = (&snapshots[..], prepared.as_ref());
    let results = if plan.is_deletion { Vec::new() } else { run_all(engine, task, job, readers) };
    // No release ends the snapshot that the job has added. So the outputs are marked as kept for
    // the live snapshots only.
    let snapshots = prepared.as_ref().map_or_else(|| snapshots.clone(), |prepared| prepared.live(&snapshots));
    let snapshots: Arc<[SequenceNumber]> = snapshots.into();
    let outcome = check_results(engine, task, &results).and_then(|()| {
        let mut edit = plan.edit();
        edit.new_files =
            results.iter().flat_map(|r| r.outputs(plan)).map(|(level, f)| (level, f.clone())).collect();
        edit.blob_file_additions = results.iter().flat_map(|r| r.blob_files.iter().cloned()).collect();
        edit.blob_file_garbages = blob_garbage(&results);
        let micros = engine.env.clock.monotonic_micros().saturating_sub(start);
        contained("a compaction", Severity::HardError, || {
            engine.report_compaction_pre_commit(&report(task, job, &results, micros));
            Ok(())
        })?;
        install(engine, task, edit, &results, &snapshots)
    });
    let outcome = outcome.map_err(|e| cancellation(engine, task).unwrap_or(e));
    if outcome.is_err() {
        esker_base::probe!("compaction:failed");
        let tables = results.iter().flat_map(|r| &r.created).copied();
        let blobs = results.iter().flat_map(|r| &r.created_blobs).copied();
        engine.delete_outputs(&task.cf, plan.output_path, tables, blobs);
    }
    let micros = engine.env.clock.monotonic_micros().saturating_sub(start);
    let report = report(task, job, &results, micros);
    engine.report_compaction_end(&report, &outcome);
    keep_info(engine, task, || engine.compaction_info(&report, &outcome));
    engine.report_stall_changes();
    outcome.map(|()| results.iter().flat_map(|r| r.outputs(plan)).map(|(_, f)| f.number).collect())
}

/// Whether the family's partitioner lets the files move as they are.
/// # Errors
/// `Aborted` if it panicked.
fn may_move(task: &Task) -> Result<bool> {
    contained("a compaction", Severity::HardError, || {
        let Some(mut partitioner) = partitioner(&task.options, &task.plan) else { return Ok(true) };
        let mut files = task.plan.input_files().map(|(_, file)| file);
        Ok(files.all(|f| partitioner.can_do_trivial_move(f.smallest_user_key(), f.largest_user_key())))
    })
}

/// Stores the compaction's description, if its caller requested it.
fn keep_info(engine: &Engine, task: &Task, describe: impl FnOnce() -> CompactionJobInfo) {
    let manual = |manual: &&mut QueuedManualCompaction| Some(manual.id) == task.manual && manual.wants_info;
    let is_wanted = engine.state.lock().manual_compactions.iter_mut().any(|m| manual(&m));
    if is_wanted {
        let info = Some(Box::new(describe()));
        let mut state = engine.state.lock();
        state.manual_compactions.iter_mut().filter(manual).for_each(|m| m.info.clone_from(&info));
    }
}

/// The error of a compaction that was cancelled: aborted, or, if it is a manual one, cancelled by
/// its caller or by `disable_manual_compaction`.
fn cancellation(engine: &Engine, task: &Task) -> Option<Error> {
    // A cancellation does not stop an installation. So an error there has another cause.
    let installs = task.installs.load(Ordering::Relaxed);
    if !task.cancelled.load(Ordering::Acquire) || installs || engine.is_shutting_down() {
        return None;
    }
    if engine.state.lock().is_compaction_aborted(task.cf.id) {
        record_tick(&engine.options.statistics, Ticker::CompactionAborted, 1);
        return Some(compactions_aborted());
    }
    task.manual.is_some().then(manual_compaction_paused)
}

/// The live snapshots, and the sections of prepared transactions.
type Readers<'a> = (&'a [SequenceNumber], Option<&'a SectionsForJob>);

/// Runs all key ranges; again without the compaction service, if its workers have left entries of
/// the inputs out.
fn run_all(engine: &Arc<Engine>, task: &Task, job: u64, readers: Readers<'_>) -> Vec<SubjobResult> {
    // A worker of the compaction service does not know which transactions are prepared, nor what
    // the caller wants otherwise than the options.
    let has_wishes = task.plan.overrides != Overrides::default();
    let remote = engine.options.compaction_service.is_some() && readers.1.is_none() && !has_wishes;
    let results = run_subjobs(engine, task, job, readers, remote);
    let failed = results.iter().any(|r| r.result.is_some());
    if failed || !remote::lacks_entries(engine, &task.cf, &task.plan, &results) {
        return results;
    }
    let tables = results.iter().flat_map(|r| &r.created).copied();
    engine.delete_outputs(&task.cf, task.plan.output_path, tables, std::iter::empty());
    run_subjobs(engine, task, job, readers, false)
}

/// Runs all key ranges, each on a thread of its own if the system gives enough threads. Returns the
/// results in the order of the ranges.
fn run_subjobs(
    engine: &Arc<Engine>,
    task: &Task,
    job: u64,
    (snapshots, prepared): Readers<'_>,
    remote: bool,
) -> Vec<SubjobResult> {
    let cuts = subcompaction_cuts(engine, task);
    let mut starts: Vec<Option<Vec<u8>>> = vec![None];
    starts.extend(cuts.iter().cloned().map(Some));
    let mut ends: Vec<Option<Vec<u8>>> = cuts.into_iter().map(Some).collect();
    ends.push(None);
    let db_options = engine.db_options();
    let placement = Placement::of(engine, &task.cf, &task.options, &task.plan, snapshots);
    let run_one = |number, start, end| {
        let context = SubjobContext {
            engine,
            db_options: &db_options,
            job,
            number,
            cf: &task.cf,
            options: &task.options,
            plan: &task.plan,
            snapshots,
            placement: &placement,
            prepared,
            cancelled: &task.cancelled,
            elsewhere: None,
        };
        let by_worker = if remote { remote::run(&context, (&start, &end)) } else { None };
        by_worker.unwrap_or_else(|| subjob::run(&context, start, end, None, None))
    };
    let ranges: Vec<_> = starts.into_iter().zip(ends).collect();
    let next = AtomicUsize::new(0);
    let run_some = || {
        let mut results = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some((start, end)) = ranges.get(number) else { return results };
            results.push((number, run_one(number, start.clone(), end.clone())));
        }
    };
    let operation = SharedOperation::current();
    let (operation, run_some) = (&operation, &run_some);
    let mut results = match ranges.len() {
        1 => run_some(),
        ranges => thread::scope(|scope| {
            // The threads that the system gives, perhaps only this one, run all ranges.
            let help = move || {
                let _joined = operation.join();
                run_some()
            };
            let spawned = (1..ranges).map_while(|_| spawn_scoped(scope, "esker:subcompact", help).ok());
            let others: Vec<_> = spawned.collect();
            let mut results = run_some();
            let joined = others.into_iter().map(|t| t.join().expect("a subcompaction does not panic"));
            results.extend(joined.flatten());
            results
        }),
    };
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

/// User keys that cut the inputs into parts of about equal size. There is at most one part for each
/// allowed thread, and one for each target file size of input bytes.
fn subcompaction_cuts(engine: &Engine, task: &Task) -> Vec<Vec<u8>> {
    let plan = &task.plan;
    let threads = match task.max_subcompactions {
        0 => engine.db_options().max_subcompactions,
        threads => threads,
    };
    let worthwhile = plan.input_bytes() / plan.target_file_size.max(1);
    let parts = (threads as u64).min(worthwhile) as usize;
    if parts < 2 || plan.output_level == 0 {
        return Vec::new();
    }
    let _watch = engine.time(Histogram::SubcompactionSetupTime);
    let _stage = begin_stage(OperationStage::CompactionPrepare);
    let icmp = &task.cf.icmp;
    let mut anchors: Vec<(Vec<u8>, u64)> = Vec::new();
    for (_, file) in plan.input_files() {
        // An unreadable file only makes the parts less equal.
        if let Ok(reader) = open_file(&task.cf.tables, file)
            && let Ok(of_file) = reader.anchors(parts * 4)
        {
            let lacks_timestamps = reader.lacks_timestamps();
            let cut = |user_key: Vec<u8>| before_all_versions(icmp, user_key, lacks_timestamps);
            anchors.extend(of_file.into_iter().map(|(user_key, bytes)| (cut(user_key), bytes)));
        }
    }
    anchors.sort_by(|(a, _), (b, _)| icmp.compare_user_keys(a, b));
    let total: u64 = anchors.iter().map(|(_, bytes)| bytes).sum();
    let mut cuts: Vec<Vec<u8>> = Vec::new();
    let mut before = 0;
    for (user_key, bytes) in anchors {
        before += bytes;
        let due = total / parts as u64 * (cuts.len() as u64 + 1);
        let is_new = cuts.last().is_none_or(|last| icmp.compare_user_keys(last, &user_key).is_lt());
        if before >= due && before < total && is_new && cuts.len() + 1 < parts {
            cuts.push(user_key);
        }
    }
    cuts
}

/// The cut before this user key of a table: before its newest version, so that all its versions
/// stay together.
fn before_all_versions(icmp: &InternalKeyComparator, user_key: Vec<u8>, lacks_timestamp: bool) -> Vec<u8> {
    let plain = if lacks_timestamp { &user_key } else { icmp.split_timestamp(&user_key).0 };
    icmp.first_version(plain)
}

fn check_results(engine: &Engine, task: &Task, results: &[SubjobResult]) -> Result<()> {
    if let Some(error) = results.iter().find_map(|r| r.result.clone()) {
        return Err(error);
    }
    if task.cancelled.load(Ordering::Acquire) || task.cf.is_dropped() {
        return Err(Error::aborted("compaction cancelled"));
    }
    let has_tables = results.iter().any(|r| r.outputs(&task.plan).next().is_some());
    let has_blobs = results.iter().any(|r| !r.blob_files.is_empty());
    let paths = task.cf.tables.paths();
    let of_tables = has_tables.then(|| paths.directory(task.plan.output_path));
    let of_blobs = has_blobs.then(|| paths.first());
    engine.sync_directories(of_tables.into_iter().chain(of_blobs))
}

/// Blob bytes that the inputs refer to and the outputs do not.
fn blob_garbage(results: &[SubjobResult]) -> Vec<BlobFileGarbage> {
    let (mut came_in, mut went_out) = (BlobTally::default(), BlobTally::default());
    for result in results {
        came_in.merge(&result.blobs_in);
        went_out.merge(&result.blobs_out);
    }
    came_in.garbage(&went_out)
}

/// Logs the outputs and publishes the new version.
fn install(
    engine: &Arc<Engine>,
    task: &Task,
    edit: VersionEdit,
    results: &[SubjobResult],
    snapshots: &Arc<[SequenceNumber]>,
) -> Result<()> {
    // A filter removed entries, so older versions may become visible, perhaps in deleted runs that
    // scans remember.
    let may_reappear = results.iter().any(|result| result.stats.may_reappear > 0);
    task.installs.store(true, Ordering::Relaxed);
    let _stage = begin_stage(OperationStage::CompactionInstall);
    let mut manifest = engine.manifest.lock();
    if task.cf.is_dropped() {
        return Err(Error::column_family_dropped("the family was dropped while it was compacted"));
    }
    let versions = manifest.log_and_apply(vec![edit], LogOptions::default())?;
    engine.prepare_versions(&versions);
    let kept: HashSet<FileNumber> = results.iter().flat_map(|r| &r.kept_for_snapshots).copied().collect();
    if !kept.is_empty() {
        let files = versions.iter().flat_map(|(_, version)| version.files(task.plan.output_level));
        files.filter(|f| kept.contains(&f.number)).for_each(|f| f.set_kept_for(snapshots));
    }
    let mut state = engine.state.lock();
    for (id, version) in versions {
        if let Some(family) = state.family_mut(id) {
            family.version = version;
            family.running.finish(task.running);
            // Moved files keep their numbers.
            for (_, file) in task.plan.input_files() {
                family.suggested.remove(&file.number);
                file.forget_wasted_reads();
            }
            if may_reappear {
                family.deleted_run_memory = Arc::new(family.deleted_run_memory.fresh());
            }
        }
        publish_super_version(engine, &mut state, id);
        state.queue_pre_scans(id, results.iter().flat_map(|result| &result.long_deleted_runs));
    }
    Ok(())
}

/// Ends the task, and returns `result`. After an error: releases the task's marks, and quarantines
/// the damaged inputs or puts the error in force.
fn finish(engine: &Arc<Engine>, task: &Task, result: Result<Vec<FileNumber>>) -> Result<Vec<FileNumber>> {
    let damaged = match &result {
        Err(error) if !task.installs.load(Ordering::Relaxed) => {
            damaged_inputs(engine, &task.cf, &task.plan, error)
        }
        _ => Vec::new(),
    };
    let mut state = engine.state.lock();
    if result.is_err() {
        release_marks(engine, &mut state, task.cf.id, task.running);
    }
    let may_be_cancelled = !task.installs.load(Ordering::Relaxed) || engine.is_shutting_down();
    let cancelled = task.cancelled.load(Ordering::Acquire) && may_be_cancelled || task.cf.is_dropped();
    if result.is_err() && !cancelled {
        engine.background_errors.fetch_add(1, Ordering::Relaxed);
    }
    if !damaged.is_empty() && !cancelled {
        quarantine(engine, &mut state, task.cf.id, &damaged);
        drop(state);
        for (_, why) in &damaged {
            esker_base::info_log!(engine.info_log, Error, "[{}] Quarantined: {why}", task.cf.name);
            engine.ask_listeners(why, ErrorReason::Compaction);
        }
    } else if let Err(error) = &result
        && !cancelled
    {
        esker_base::info_log!(engine.info_log, Error, "[{}] Compaction failed: {error}", task.cf.name);
        drop(state);
        engine.set_background_error(error, ErrorReason::Compaction);
        if task.manual.is_none() {
            // The family may be in the queue again: a listener has cleared the error, or a recovery
            // lets jobs run.
            engine.pause_before_retry();
        }
    }
    result
}

fn report<'a>(task: &'a Task, job: u64, results: &'a [SubjobResult], micros: u64) -> CompactionReport<'a> {
    let mut iteration = CompactionIteratorStats::default();
    for result in results {
        iteration += result.stats;
    }
    CompactionReport {
        job,
        cf: &task.cf,
        plan: &task.plan,
        outputs: results.iter().flat_map(|r| r.outputs(&task.plan)).collect(),
        blob_files: results.iter().flat_map(|r| &r.blob_files).collect(),
        blob_garbage: blob_garbage(results),
        blob_bytes_read: results.iter().map(|r| r.blob_bytes_read).sum(),
        blobs_read: results.iter().map(|r| r.blobs_read).sum(),
        iteration,
        subcompactions: results.len(),
        compression: subjob::output_compression(&task.plan, &task.options).0,
        blob_compression: task.options.blob_compression_type,
        micros,
        cpu_micros: results.iter().map(|r| r.cpu_micros).sum(),
        range_dels_dropped: results.iter().map(|r| r.range_dels_dropped).sum(),
        is_remote: results.iter().any(|r| r.is_remote),
    }
}
