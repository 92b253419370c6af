//! The flush job: picks memtables, builds tables, logs and installs them.
//!
//! Steps
//!  1. Under the state lock: takes the request and marks its memtables.
//!  2. Without a lock: builds the tables (`build.rs`).
//!  3. Under the manifest lock: logs the version edit.
//!  4. Under both locks: drops the memtables and publishes the new super version.
//!
//! Invariants
//!  1. Memtables leave their list only after the MANIFEST that names their table is synced.
//!  2. With several families, or with two-phase commit, all WALs before the current one are synced
//!     before a flush is logged. Otherwise a power loss could lose writes of one family that are
//!     older than a flushed write of another family. Two-phase commit needs the sync even with one
//!     family: recovery reads some old WALs only for their prepared sections, and these WALs must
//!     be complete.
//!  3. After a failure the memtables wait for another flush, and the engine has a background error.
//!     The new tables are deleted, unless the MANIFEST may name them.
//!  4. The flush that recovers from an error covers all families. While a WAL is damaged, no other
//!     flush begins (`engine/jobs.rs`).
//!  5. A family's log number is the number of the first WAL that recovery replays for the family.
//!     No flush raises it above the number of a WAL that is needed and not durable yet. Otherwise,
//!     if that WAL lost its end, recovery would refuse the family's tables as newer than the WAL.
//!  6. The flush that recovers from an error leaves out the entries of failed writes, which were
//!     never published.

use super::build::{BuildTable, BuiltTable, TableBuildJob};
use crate::cf::{ColumnFamily, FailedFlush};
use crate::engine::{
    DbState, Engine, ErrorReason, FlushRequest, contained, publish_super_versions, queue_flushes, take_flush,
};
use crate::files::OutputContext;
use crate::observe::FlushReason;
use crate::options::ColumnFamilyOptions;
use crate::version::{LogOptions, Version, VersionSet};
use esker_base::sync::Arc;
use esker_base::sync::atomic::Ordering;
use esker_base::{ColumnFamilyId, Error, FileNumber, Result, SequenceNumber, Severity};
use esker_env::rate_limiter::IoPriority;
use esker_env::thread_status::{OperationStage, OperationType, begin_stage};
use esker_format::seqno_to_time::SeqnoToTimeMapping;
use esker_format::version_edit::VersionEdit;
use esker_memtable::MemTable;
use std::collections::HashSet;

/// One family's part of a flush.
struct Part {
    cf: Arc<ColumnFamily>,
    options: Arc<ColumnFamilyOptions>,
    /// Oldest first.
    memtables: Vec<Arc<MemTable>>,
    number: FileNumber,
    epoch_number: u64,
    /// The times of sequence numbers, if the family keeps times.
    times: Option<Arc<SeqnoToTimeMapping>>,
}

/// Runs one waiting flush request, if there is one.
pub(crate) fn background_flush(engine: &Arc<Engine>) {
    let (request, parts) = {
        let mut state = engine.state.lock();
        state.flushes_unbegun -= 1;
        let Some(request) = take_flush(&mut state) else { return };
        // The state lock is held from `take_flush` to the end of `take_parts`. Otherwise an atomic
        // flush that is requested between the two calls could miss a family. The family's memtables
        // would be neither in a queued request nor marked as `flushing`.
        let parts = take_parts(engine, &mut state, &request);
        (request, parts)
    };
    let taken: Vec<Taken> =
        parts.iter().filter_map(|part| Some((part.cf.id, part.memtables.last()?.id()))).collect();
    if let Err(e) = contained("a flush", Severity::FatalError, || flush(engine, &request, &parts)) {
        fail(engine, &request, &taken, &e);
    }
}

/// A family, and the id of its newest memtable that a flush has taken.
type Taken = (ColumnFamilyId, u64);

fn fail(engine: &Arc<Engine>, request: &FlushRequest, taken: &[Taken], error: &Error) {
    if engine.is_shutting_down() {
        return;
    }
    esker_base::info_log!(engine.info_log, Error, "Flush failed: {error}");
    engine.background_errors.fetch_add(1, Ordering::Relaxed);
    // After a failed sync it is unknown how much of the WALs is on the medium, so recovery must not
    // rely on the WALs.
    let wal_failed = engine.wals.lock().has_failed();
    let reason = if wal_failed { ErrorReason::WalWrite } else { ErrorReason::Flush };
    if engine.set_background_error(error, reason).is_none() {
        go_on(engine, request, taken, error);
    }
}

/// Continues after an error that a listener has cleared: passes the error to callers that wait for
/// the flush, and queues the flush again. Otherwise memtables could pile up until writers stop.
fn go_on(engine: &Arc<Engine>, request: &FlushRequest, taken: &[Taken], error: &Error) {
    let mut state = engine.state.lock();
    state.failed_flushes += 1;
    let number = state.failed_flushes;
    for (id, newest) in taken {
        if let Some(family) = state.family_mut(*id) {
            family.failed_flush = Some(FailedFlush { number, newest: *newest, error: error.clone() });
        }
    }
    engine.state_changed.notify_all();
    drop(state);
    // A recovery gets this error and decides itself whether to flush again.
    if request.reason != FlushReason::ErrorRecovery {
        engine.pause_before_retry();
        requeue(engine, &mut engine.state.lock(), request, taken.iter().map(|(id, _)| *id));
    }
}

/// Flushes the parts together.
/// # Errors
/// The first error; the memtables then stay.
fn flush(engine: &Arc<Engine>, request: &FlushRequest, parts: &[Part]) -> Result<()> {
    if parts.is_empty() {
        return Ok(());
    }
    let (job, start) = (engine.next_job_id(), engine.env.clock.monotonic_micros());
    let memory = || parts.iter().flat_map(|part| &part.memtables).map(|mem| mem.approximate_memory_usage());
    let properties = || [job, memory().sum::<usize>() as u64, 0, 0, 0, 0];
    let _operation = engine.track(OperationType::Flush, Some(&parts[0].cf), properties);
    let _stage = begin_stage(OperationStage::FlushRun);
    for part in parts {
        engine.report_flush_begin(job, &part.cf, &part.memtables, request.reason);
    }
    let mut files = Vec::new();
    let newest = if request.reason == FlushReason::ErrorRecovery {
        engine.visible_sequence()
    } else {
        SequenceNumber::MAX
    };
    let built = build_all(engine, job, parts, newest, &mut files);
    if built.is_ok() {
        // Checked before the memtables are released, so that callers that wait for the release see
        // the error.
        engine.stop_at_space_limit();
    }
    let dropped = match built.and_then(|()| install(engine, job, request, parts, &files)) {
        Ok(dropped) => dropped,
        Err(e) => {
            let _stage = begin_stage(OperationStage::MemtableRollback);
            discard(engine, parts.iter().zip(&files));
            give_back(engine, parts);
            return Err(e);
        }
    };
    let _telling = Telling { engine, job };
    discard(engine, dropped.iter().map(|i| (&parts[*i], &files[*i])));
    let micros = engine.env.clock.monotonic_micros().saturating_sub(start);
    for (i, (part, built)) in parts.iter().zip(&files).enumerate() {
        // The files of a dropped family were discarded.
        if !dropped.contains(&i) {
            let made = built.file.as_ref().map(|file| (file, built.num_entries));
            engine.report_flush_end(job, &part.cf, made, &built.blobs, request.reason, micros);
        }
    }
    engine.report_stall_changes();
    Ok(())
}

/// Represents a job while listeners are notified of its end. A drop of this value removes the job
/// from `flushes_reported`.
struct Telling<'a> {
    engine: &'a Engine,
    job: u64,
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        let mut state = self.engine.state.lock();
        let reported_before = state.flushes_reported.len();
        state.flushes_reported.retain(|(job, _)| *job != self.job);
        if state.flushes_reported.len() < reported_before {
            self.engine.state_changed.notify_all();
        }
    }
}

fn take_parts(engine: &Engine, state: &mut DbState, request: &FlushRequest) -> Vec<Part> {
    let mut parts = Vec::new();
    // Atomic flushes and recoveries take all families, even families that the request does not
    // name. A switch of memtables after the request may have added memtables of these families.
    // Each switch covers all families, so the waiting memtables of all families end at the same
    // write.
    let all = engine.options.atomic_flush || request.reason == FlushReason::ErrorRecovery;
    let times = state.times.samples().clone();
    let families = if all { state.families.keys().copied().collect() } else { request.families.clone() };
    for id in &families {
        let Some(family) = state.family_mut(*id) else { continue };
        family.flush_queued = false;
        if family.flushing {
            family.flush_wanted = Some(request.reason);
            continue;
        }
        if family.memtables.immutables.is_empty() {
            continue;
        }
        family.flushing = true;
        for immutable in &mut family.memtables.immutables {
            immutable.flushing = true;
        }
        parts.push(Part {
            cf: family.cf.clone(),
            options: family.options.clone(),
            memtables: family.memtables.immutables.iter().map(|i| i.mem.clone()).collect(),
            number: engine.numbers.new_file_number(),
            epoch_number: family.epochs.fetch_add(1, Ordering::Relaxed),
            times: (family.options.kept_seconds() > 0).then(|| times.clone()),
        });
    }
    parts
}

/// Builds the tables of all parts, with entries up to `newest`. After an error `built` has the
/// finished tables.
fn build_all(
    engine: &Engine,
    job: u64,
    parts: &[Part],
    newest: SequenceNumber,
    built: &mut Vec<BuiltTable>,
) -> Result<()> {
    if engine.families.len() > 1 || engine.options.allow_2pc {
        engine.wals.lock().sync_closed()?;
    }
    let (snapshots, prepared) = engine.snapshots_for_job()?;
    let db_options = engine.db_options();
    let _stage = begin_stage(OperationStage::FlushWriteL0);
    for part in parts {
        let build = BuildTable {
            output: OutputContext {
                times: part.times.as_deref(),
                ..engine.output_context(&part.cf, &db_options, &part.options, job, IoPriority::High)
            },
            cancel: None,
            numbers: Some(&engine.numbers),
        };
        built.push(build.run(&TableBuildJob {
            number: part.number,
            memtables: &part.memtables,
            newest,
            snapshots: &snapshots,
            prepared: prepared.clone(),
            epoch_number: part.epoch_number,
        })?);
    }
    engine.sync_directories(parts.iter().map(|part| part.cf.tables.paths().first()))
}

/// Deletes the files of these tables.
fn discard<'a>(engine: &Engine, made: impl Iterator<Item = (&'a Part, &'a BuiltTable)>) {
    for (part, built) in made {
        let tables = built.file.iter().map(|file| file.number);
        engine.delete_outputs(&part.cf, 0, tables, built.blobs.iter().map(|blob| blob.number));
    }
}

/// Logs the new tables and releases the memtables. Returns the indexes of the parts whose families
/// were dropped meanwhile.
fn install(
    engine: &Arc<Engine>,
    job: u64,
    request: &FlushRequest,
    parts: &[Part],
    files: &[BuiltTable],
) -> Result<Vec<usize>> {
    let _stage = begin_stage(OperationStage::MemtableInstallFlushResults);
    let mut manifest = engine.manifest.lock();
    // No family is dropped while the MANIFEST is locked.
    let is_dropped = |i: &usize| parts[*i].cf.is_dropped();
    let dropped = (0..parts.len()).filter(is_dropped).collect();
    let edits = {
        // Read before the db mutex is taken, because a sync may hold the lock of the WALs.
        let durable = engine.wals.lock().durable_before();
        let state = engine.state.lock();
        let limit = log_number_limit(engine, &state, durable, &HashSet::new());
        let edits =
            parts.iter().zip(files).filter_map(|(part, file)| edit_for(&state, part, file.clone(), limit));
        edits.collect::<Vec<_>>()
    };
    raise_log_numbers(engine, &mut manifest, &HashSet::new());
    manifest.keep_sections_from(oldest_section_after(engine, parts));
    let log = LogOptions { atomic_group: edits.len() > 1, ..LogOptions::default() };
    let versions = if edits.is_empty() { Vec::new() } else { manifest.log_and_apply(edits, log)? };
    engine.prepare_versions(&versions);
    let mut state = engine.state.lock();
    for (id, version) in versions {
        if let Some(family) = state.family_mut(id) {
            family.version = version;
        }
    }
    engine.request_wal_check();
    for part in parts {
        if let Some(family) = state.family_mut(part.cf.id) {
            family.flushing = false;
            let (history, before) = (family.options.history_bytes(), family.memtables.oldest_history());
            family.memtables.retire(part.memtables.len(), history);
            state.history_changed(part.cf.id, before);
        }
    }
    if !engine.listeners().is_empty() {
        state.flushes_reported.extend(parts.iter().map(|part| (job, part.cf.id)));
    }
    let mut changed = engine.trim_histories(&mut state);
    changed.extend(parts.iter().map(|part| part.cf.id));
    for (part, _) in parts.iter().zip(files).filter(|(_, built)| built.may_reappear) {
        if let Some(family) = state.family_mut(part.cf.id) {
            // A filter removed entries, so older versions in tables may become visible, perhaps in
            // deleted runs that scans remember. The new memory has no runs.
            family.deleted_run_memory = Arc::new(family.deleted_run_memory.fresh());
        }
    }
    publish_super_versions(engine, &mut state, &changed);
    for (part, built) in parts.iter().zip(files) {
        state.queue_pre_scans(part.cf.id, &built.long_deleted_runs);
    }
    requeue(engine, &mut state, request, parts.iter().map(|part| part.cf.id));
    Ok(dropped)
}

/// Raises the families' log numbers in the version set, up to the oldest WAL that each family
/// needs. The next record of the MANIFEST then releases older WALs. Otherwise the next open would
/// read these WALs again, and would report any damage in them. `leaving`: families that need no WAL
/// after the next record of the MANIFEST.
pub(crate) fn raise_log_numbers(
    engine: &Engine,
    manifest: &mut VersionSet,
    leaving: &HashSet<ColumnFamilyId>,
) {
    let durable = engine.wals.lock().durable_before();
    let state = engine.state.lock();
    let limit = log_number_limit(engine, &state, durable, leaving);
    for family in state.families.values() {
        manifest.raise_log_number(family.cf.id, family.memtables.oldest_log_needed().min(limit));
    }
}

/// The largest log number that the MANIFEST may record for a family. It is the number of the first
/// WAL that is needed and perhaps not durable yet. All needed WALs with numbers below `durable` are
/// durable. A WAL that only families in `leaving` need does not count.
fn log_number_limit(
    engine: &Engine,
    state: &DbState,
    durable: FileNumber,
    leaving: &HashSet<ColumnFamilyId>,
) -> FileNumber {
    let staying = state.families.values().filter(|f| !leaving.contains(&f.cf.id));
    let needed = staying.map(|f| f.memtables.oldest_log_needed()).min();
    let needed = needed.into_iter().chain(oldest_section_of(engine, state, &|_| 0, leaving)).min();
    durable.max(needed.unwrap_or_default())
}

/// The oldest WAL with a prepared section that is still needed after these memtables are in tables.
fn oldest_section_after(engine: &Engine, parts: &[Part]) -> Option<FileNumber> {
    let flushed = |id| parts.iter().find(|p| p.cf.id == id).map_or(0, |part| part.memtables.len());
    oldest_section_of(engine, &engine.state.lock(), &flushed, &HashSet::new())
}

/// The oldest WAL with a prepared section that is still needed after the families `leaving` are
/// gone.
pub(crate) fn oldest_section_without(
    engine: &Engine,
    leaving: &HashSet<ColumnFamilyId>,
) -> Option<FileNumber> {
    oldest_section_of(engine, &engine.state.lock(), &|_| 0, leaving)
}

/// The oldest WAL with a prepared section that is still needed after two changes. First, the
/// `flushed(family)` oldest memtables of each family are in tables. Second, the families `leaving`
/// are gone.
fn oldest_section_of(
    engine: &Engine,
    state: &DbState,
    flushed: &dyn Fn(ColumnFamilyId) -> usize,
    leaving: &HashSet<ColumnFamilyId>,
) -> Option<FileNumber> {
    let durable = engine.wals.lock().durable_before();
    let outstanding = engine.prepared.lock().oldest_wal_needed(durable);
    let staying = state.families.values().filter(|f| !leaving.contains(&f.cf.id));
    let committed = staying.filter_map(|f| f.memtables.oldest_section(flushed(f.cf.id)));
    committed.chain(outstanding).min()
}

/// The MANIFEST's edit for one family; `None` if the family was dropped meanwhile. `limit`: the
/// largest log number to record.
fn edit_for(state: &DbState, part: &Part, built: BuiltTable, limit: FileNumber) -> Option<VersionEdit> {
    let family = state.families.get(&part.cf.id)?;
    let (flushed, remaining) = family.memtables.immutables.split_at(part.memtables.len());
    let needed = remaining.first().map_or(family.memtables.log_number, |oldest| oldest.log_number);
    // The log number always passes the WALs of the flushed memtables: recovery must not replay
    // entries that a table has.
    let log_number = flushed.last().map_or(needed, |newest| needed.min(limit.max(newest.next_log_number)));
    Some(VersionEdit {
        column_family: part.cf.id,
        log_number: Some(log_number),
        new_files: built.file.into_iter().map(|f| (0, f)).collect(),
        blob_file_additions: built.blobs,
        full_history_ts_low: raised(built.full_history_ts_low, &family.version),
        ..VersionEdit::default()
    })
}

/// Queues flushes of memtables that still wait after this flush. If it failed, these are its own.
/// Others filled up during it: they had to wait, because one flush of a family runs at a time.
fn requeue(
    engine: &Engine,
    state: &mut DbState,
    request: &FlushRequest,
    taken: impl Iterator<Item = ColumnFamilyId>,
) {
    queue_flushes(engine, state, &request.families, request.reason, request.forced_atomic);
    for id in taken {
        let wanted = state.family_mut(id).and_then(|family| family.flush_wanted.take());
        if let Some(reason) = wanted {
            queue_flushes(engine, state, &[id], reason, false);
        }
    }
}

fn give_back(engine: &Engine, parts: &[Part]) {
    let mut state = engine.state.lock();
    engine.request_wal_check();
    for part in parts {
        if let Some(family) = state.family_mut(part.cf.id) {
            family.flushing = false;
            for immutable in &mut family.memtables.immutables {
                immutable.flushing = false;
            }
        }
    }
}

/// The `full_history_ts_low` to log: `bound`, if it is newer than the bound in `version`.
fn raised(bound: Option<Vec<u8>>, version: &Version) -> Option<Vec<u8>> {
    bound.filter(|bound| version.icmp().compare_timestamps(bound, version.full_history_ts_low()).is_gt())
}
