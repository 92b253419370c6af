//! `compact_range`: level by level, each step a plan that a background job runs; `compact_files`:
//! one such plan; `suggest_compact_range`: marks for the picker.
//!
//! Source: RocksDB `DBImpl::CompactRangeInternal`, `RunManualCompaction`, `CompactFilesImpl`.

use super::abort::compactions_aborted;
use super::refit::refit_level;
use super::subjob::read_pace;
use crate::cf::ColumnFamily;
use crate::engine::{DbState, Engine, QueuedManualCompaction, maybe_schedule, queue_if_due, release_marks};
use crate::files::open_table::open_at_pace;
use crate::observe::{CompactionJobInfo, Temperature};
use crate::options::{
    BlobGarbageCollectionPolicy, CompactRangeOptions, CompactionOptions, check_compression,
};
use crate::picker::manual::{ManualCompaction as Steps, ManualStep, pick_files};
use crate::picker::{CompactionPlan, Overrides, can_be_asked};
use esker_base::sync::Arc;
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_base::{ColumnFamilyId, Error, FileNumber, Result, SequenceNumber, SubCode};

/// The range to compact.
pub(crate) struct ManualRange<'a> {
    pub(crate) family: &'a Arc<ColumnFamily>,
    /// First user key, inclusive.
    pub(crate) begin: Option<&'a [u8]>,
    /// Last user key, inclusive.
    pub(crate) end: Option<&'a [u8]>,
    pub(crate) options: &'a CompactRangeOptions,
    /// If set, the compaction removes entries with a newer timestamp, so it never moves a file
    /// unchanged.
    pub(crate) trim_ts: Option<Arc<[u8]>>,
}

/// Moves every key of the range down to the deepest level that holds any of them, and waits. After
/// each step the picker chooses the next one from the current version, because levels can change
/// during a wait.
/// # Errors
/// The error of a step, or that of [`check_may_run`]. Earlier steps keep their effect. With
/// `change_level` also `NotSupported` and `InvalidArgument`: the range is compacted, but its files
/// were not moved to the target level.
pub(crate) fn compact_range(engine: &Arc<Engine>, range: &ManualRange<'_>) -> Result<()> {
    let canceled = range.options.canceled.as_ref();
    let exclusive = range.options.exclusive_manual_compaction;
    let guard =
        if exclusive { Some(ExclusiveCompaction::acquire(engine, range.family.id, canceled)?) } else { None };
    let bottommost = range.options.bottommost_level_compaction;
    let next_file = engine.numbers.next_file_number();
    read_properties(engine, range);
    let snapshots = engine.snapshot_sequences();
    let path = Some(range.options.target_path_id).filter(|id| *id != CompactRangeOptions::PATH_OF_LEVEL);
    if path.is_some_and(|id| id as usize >= range.family.tables.paths().all().len()) {
        return Err(Error::invalid_argument("Invalid target path ID"));
    }
    let mut steps = Steps::new(range.begin, range.end, bottommost, next_file, snapshots).into_path(path);
    while let Some(id) = start_next(engine, range, &mut steps)? {
        wait(engine, id)?.0?;
    }
    let Some(level) = steps.arrived_at().filter(|_| range.options.change_level) else { return Ok(()) };
    // No other compaction may run or wait: its plan names files by level, and this step changes the
    // level.
    let _guard = guard.map_or_else(|| ExclusiveCompaction::acquire(engine, range.family.id, canceled), Ok)?;
    refit_level(engine, range.family, level, range.options.target_level)
}

/// Opens tables of the range whose properties are not loaded. The picker needs the properties to
/// find tables that a compaction can shrink. A table whose sequence numbers are all 0 cannot
/// shrink. If a table cannot be opened, the compaction reports the error.
fn read_properties(engine: &Engine, range: &ManualRange<'_>) {
    let pace = read_pace(&engine.db_options());
    let super_version = range.family.super_version.load_full();
    let version = &super_version.version;
    let files =
        (0..version.num_levels()).flat_map(|level| version.overlapping(level, range.begin, range.end));
    let unread = files.filter(|f| f.stats().is_none() && f.largest_seqno > SequenceNumber::ZERO);
    unread.for_each(|f| drop(open_at_pace(&range.family.tables, &f, pace.as_ref())));
}

/// Checks that a manual compaction may begin its next step.
/// # Errors
/// `ShutdownInProgress` · `Incomplete` with `CompactionAborted`: the family's compactions are
/// aborted; with `ManualCompactionPaused`: manual compactions are disabled, or the caller has
/// cancelled this one.
pub(crate) fn check_may_run(
    engine: &Engine,
    state: &DbState,
    family: ColumnFamilyId,
    canceled: Option<&Arc<AtomicBool>>,
) -> Result<()> {
    engine.check_open()?;
    if state.is_compaction_aborted(family) {
        return Err(compactions_aborted());
    }
    if state.manual_disabled > 0 || canceled.is_some_and(|flag| flag.load(Ordering::Acquire)) {
        return Err(manual_compaction_paused());
    }
    Ok(())
}

#[cold]
pub(super) fn manual_compaction_paused() -> Error {
    Error::incomplete("").with_subcode(SubCode::ManualCompactionPaused)
}

/// Disables manual compactions until [`enable_manual_compaction`] is called as often. Stops waiting
/// and running manual compactions, and waits for their ends.
pub(crate) fn disable_manual_compaction(engine: &Engine) {
    let mut state = engine.state.lock();
    state.manual_disabled += 1;
    if state.manual_disabled <= 0 {
        return;
    }
    state.cancel_manual_compactions();
    engine.state_changed.notify_all();
    while (!state.manual_compactions.is_empty() || state.exclusive_manual) && !engine.is_shutting_down() {
        engine.wait_for_change(&mut state);
    }
}

/// Undoes one [`disable_manual_compaction`]. If none precedes it, the next
/// [`disable_manual_compaction`] has no effect.
pub(crate) fn enable_manual_compaction(engine: &Engine) {
    engine.state.lock().manual_disabled -= 1;
}

/// Marks the tables that may hold keys of the range for compaction, except those of the last level
/// that has files. Queues the family if it compacts automatically.
pub(crate) fn suggest_compact_range(
    engine: &Arc<Engine>,
    family: &ColumnFamily,
    begin: Option<&[u8]>,
    end: Option<&[u8]>,
) {
    let oldest_snapshot = engine.oldest_snapshot_at_release();
    let mut state = engine.state.lock();
    let Some(found) = state.family_mut(family.id) else { return };
    let version = &found.version;
    let last = version.num_non_empty_levels().saturating_sub(1);
    let files = (0..last).flat_map(|level| version.overlapping(level, begin, end));
    found.suggested.extend(files.map(|file| file.number));
    queue_if_due(engine, &mut state, family.id, oldest_snapshot);
    maybe_schedule(engine, &mut state);
}

/// Marks tables for compaction in which gets have searched in vain too often, the last one for
/// `user_key`, and queues the family. Passes over tables that were replaced meanwhile. A table that
/// no compaction can take now is counted anew: a mark that stays costs each new version a walk over
/// all files.
pub(crate) fn compact_hot_files(
    engine: &Arc<Engine>,
    family: &ColumnFamily,
    user_key: &[u8],
    files: &[(usize, FileNumber)],
) {
    let oldest_snapshot = engine.oldest_snapshot_at_release();
    let mut state = engine.state.lock();
    let Some(found) = state.family_mut(family.id) else { return };
    for &(level, number) in files {
        let there = found.version.overlapping(level, Some(user_key), Some(user_key));
        let Some(file) = there.into_iter().find(|file| file.number == number) else { continue };
        if !found.options.disable_auto_compactions && can_be_asked(&found.version, level) {
            found.suggested.insert(number);
        } else {
            file.forget_wasted_reads();
        }
    }
    queue_if_due(engine, &mut state, family.id, oldest_snapshot);
    maybe_schedule(engine, &mut state);
}

/// Compacts the named files into `output_level` and waits. Adds files that the picker must include.
/// Returns the new files, and with `wants_info` a description of the job.
/// # Errors
/// Those of [`pick_files`] and [`check_may_run`] · the background error in force · the error of the
/// compaction.
pub(crate) fn compact_files(
    engine: &Arc<Engine>,
    family: &Arc<ColumnFamily>,
    files: &[FileNumber],
    output_level: usize,
    options: &CompactionOptions,
    wants_info: bool,
) -> Result<Compacted> {
    if options.output_path_id.is_some_and(|id| id as usize >= family.tables.paths().all().len()) {
        return Err(Error::invalid_argument("Invalid output path ID"));
    }
    // In the job it would be an error of the database.
    options.compression.map_or(Ok(()), |kind| check_compression("compression", kind))?;
    let mut state = engine.state.lock();
    while state.exclusive_manual {
        check_may_run(engine, &state, family.id, options.canceled.as_ref())?;
        engine.wait_for_change(&mut state);
    }
    check_may_run(engine, &state, family.id, options.canceled.as_ref())?;
    if let Some(error) = state.background_error.current() {
        return Err(error.clone());
    }
    let Some(found) = state.family_mut(family.id) else {
        return Err(Error::column_family_dropped("compact_files: the family was dropped"));
    };
    let overrides = Overrides {
        compression: options.compression,
        temperature: Some(options.output_temperature_override).filter(|t| *t != Temperature::Unknown),
        ..Overrides::default()
    };
    let (version, running) = (&found.version, &found.running);
    let may_move = options.allow_trivial_move && overrides == Overrides::default();
    let how = (options.output_path_id, may_move);
    let mut plan = pick_files(version, &found.compaction_options, running, files, output_level, how)?;
    plan.overrides = overrides;
    if output_level > 0 {
        // The caller sets the size of outputs, so outputs are not cut at the bounds of grandparent
        // files.
        plan.grandparents.clear();
        plan.target_file_size = options.output_file_size_limit;
        plan.max_output_file_size = options.output_file_size_limit;
    }
    let moved: Vec<FileNumber> = match plan.is_trivial_move {
        true => plan.moved_files().map(|(_, file)| file.number).collect(),
        false => Vec::new(),
    };
    let canceled = options.canceled.clone().unwrap_or_default();
    let id = queue(engine, &mut state, plan, options.max_subcompactions, canceled);
    state.manual_compactions.iter_mut().filter(|m| m.id == id).for_each(|m| m.wants_info = wants_info);
    drop(state);
    let (files, info) = wait(engine, id)?;
    // A move writes no files. As in RocksDB, the caller gets the moved ones.
    files.map(|files| (if files.is_empty() { moved } else { files }, info))
}

/// Files that a `compact_files` has written, and the description of its job.
pub(crate) type Compacted = (Vec<FileNumber>, Option<Box<CompactionJobInfo>>);

/// Marks the plan's inputs, queues a job for the plan, and returns the job's id for [`wait`].
fn queue(
    engine: &Arc<Engine>,
    state: &mut DbState,
    plan: CompactionPlan,
    max_subcompactions: u32,
    canceled: Arc<AtomicBool>,
) -> u64 {
    let running = state.family_mut(plan.column_family).map(|family| family.running.start(&plan));
    let id = state.next_manual_id;
    state.next_manual_id += 1;
    let family = plan.column_family;
    let plan = Some(plan);
    let manual = QueuedManualCompaction {
        id,
        family,
        running,
        plan,
        max_subcompactions,
        canceled,
        wants_info: false,
        info: None,
        done: None,
    };
    state.manual_compactions.push(manual);
    maybe_schedule(engine, state);
    id
}

/// A guard: while it lives, no other compaction of the database runs or is planned.
pub(super) struct ExclusiveCompaction<'a>(&'a Arc<Engine>);

impl<'a> ExclusiveCompaction<'a> {
    /// Waits for running and planned compactions.
    pub(super) fn acquire(
        engine: &'a Arc<Engine>,
        family: ColumnFamilyId,
        canceled: Option<&Arc<AtomicBool>>,
    ) -> Result<ExclusiveCompaction<'a>> {
        let mut state = engine.state.lock();
        while state.exclusive_manual {
            check_may_run(engine, &state, family, canceled)?;
            engine.wait_for_change(&mut state);
        }
        state.exclusive_manual = true;
        drop(state);
        let guard = ExclusiveCompaction(engine);
        let mut state = engine.state.lock();
        let waits = |state: &DbState| state.manual_compactions.iter().any(|manual| manual.plan.is_some());
        while state.compactions_scheduled > 0 || waits(&state) {
            check_may_run(engine, &state, family, canceled)?;
            engine.wait_for_change(&mut state);
        }
        drop(state);
        Ok(guard)
    }
}

impl Drop for ExclusiveCompaction<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.exclusive_manual = false;
        maybe_schedule(self.0, &mut state);
        self.0.state_changed.notify_all();
    }
}

/// Waits until no running job conflicts with the next plan, and queues the plan. `None` if no step
/// is left.
fn start_next(engine: &Arc<Engine>, range: &ManualRange<'_>, steps: &mut Steps) -> Result<Option<u64>> {
    let mut state = engine.state.lock();
    loop {
        check_may_run(engine, &state, range.family.id, range.options.canceled.as_ref())?;
        if let Some(error) = state.background_error.current() {
            return Err(error.clone());
        }
        if state.exclusive_manual && !range.options.exclusive_manual_compaction {
            engine.wait_for_change(&mut state);
            continue;
        }
        let Some(family) = state.family_mut(range.family.id) else {
            return Err(Error::column_family_dropped("compact_range: the family was dropped"));
        };
        match steps.next(&family.version, &family.compaction_options, &family.running) {
            ManualStep::Done => return Ok(None),
            ManualStep::Conflict => {
                let blocked = steps.blocked_by(&family.version, &family.compaction_options, &family.running);
                if let Some(damaged) = blocked {
                    return Err(damaged);
                }
                engine.wait_for_change(&mut state);
            }
            ManualStep::Run(mut plan) => {
                plan.trim_ts.clone_from(&range.trim_ts);
                plan.overrides = overrides(range.options);
                // As in RocksDB, with a compaction service several files of level 0 are compacted,
                // not moved: they might overlap.
                let is_for_service = engine.options.compaction_service.is_some()
                    && plan.inputs.first().is_some_and(|first| first.level == 0 && first.files.len() > 1);
                plan.is_trivial_move &= range.trim_ts.is_none() && !is_for_service;
                let threads = range.options.max_subcompactions;
                let canceled = range.options.canceled.clone().unwrap_or_default();
                return Ok(Some(queue(engine, &mut state, *plan, threads, canceled)));
            }
        }
    }
}

/// The wishes of a caller about blob files.
fn overrides(options: &CompactRangeOptions) -> Overrides {
    let cutoff = options.blob_garbage_collection_age_cutoff;
    Overrides {
        blob_garbage_collection: match options.blob_garbage_collection_policy {
            BlobGarbageCollectionPolicy::Force => Some(true),
            BlobGarbageCollectionPolicy::Disable => Some(false),
            BlobGarbageCollectionPolicy::UseDefault => None,
        },
        blob_age_cutoff: (0.0..=1.0).contains(&cutoff).then_some(cutoff),
        ..Overrides::default()
    }
}

/// The result of a compaction that has begun: its files or its error, and its description.
type Ended = (Result<Vec<FileNumber>>, Option<Box<CompactionJobInfo>>);

/// Waits for the end of a queued compaction and returns its result. The error of
/// [`may_still_start`] ends the wait: then the compaction has not begun.
fn wait(engine: &Arc<Engine>, id: u64) -> Result<Ended> {
    let mut state = engine.state.lock();
    loop {
        let position = state.manual_compactions.iter().position(|m| m.id == id).expect("queued by `start`");
        if let Some(result) = state.manual_compactions[position].done.take() {
            let ended = state.manual_compactions.swap_remove(position);
            // `disable_manual_compaction` waits until the list is empty.
            engine.state_changed.notify_all();
            return Ok((result, ended.info));
        }
        if state.manual_compactions[position].plan.is_some()
            && let Err(e) = may_still_start(engine, &state, &state.manual_compactions[position])
        {
            let withdrawn = state.manual_compactions.swap_remove(position);
            let family = withdrawn.plan.map(|plan| plan.column_family);
            if let (Some(running), Some(family)) = (withdrawn.running, family) {
                release_marks(engine, &mut state, family, running);
                maybe_schedule(engine, &mut state);
            }
            engine.state_changed.notify_all();
            return Err(e);
        }
        engine.wait_for_change(&mut state);
    }
}

/// Checks that a queued compaction can still start.
/// # Errors
/// The database is closing, an error keeps compactions from starting, or it was cancelled.
fn may_still_start(engine: &Engine, state: &DbState, manual: &QueuedManualCompaction) -> Result<()> {
    check_may_run(engine, state, manual.family, Some(&manual.canceled))?;
    match state.background_error.current() {
        Some(error) if state.background_error.stops_compactions() => Err(error.clone()),
        _ => Ok(()),
    }
}
