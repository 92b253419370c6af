//! `delete_files_in_ranges`: deletes files within ranges of keys at once, unread.
//!
//! In: ranges of a family. Out: an edit that deletes files of all levels but 0, logged and in
//! force. The calling thread does the work. It needs no free job, and a background error does not
//! stop it, so it frees space on a full disk if the MANIFEST can still be written.
//!
//! Invariants
//!  1. From the time they are picked until the version without them is in force, no compaction
//!     takes these files.
//!  2. One edit removes all of them: after a crash either all files are in the version, or none.

use crate::cf::ColumnFamily;
use crate::engine::{Engine, maybe_schedule, publish_super_version, queue_if_due};
use crate::options::RangeOpt;
use crate::picker::whole_files::pick_whole_files;
use crate::version::LogOptions;
use esker_base::sync::Arc;
use esker_base::{Error, Result};
use esker_format::version_edit::VersionEdit;

/// Deletes files that lie in the ranges and are not being compacted; returns their number.
/// # Errors
/// `ColumnFamilyDropped` · the MANIFEST's: the files stay.
pub(crate) fn delete_files_in_ranges(
    engine: &Arc<Engine>,
    family: &Arc<ColumnFamily>,
    ranges: &[RangeOpt<'_>],
    include_end: bool,
) -> Result<usize> {
    let mut manifest = engine.manifest.lock();
    let mut state = engine.state.lock();
    let Some(found) = state.family_mut(family.id) else {
        return Err(Error::column_family_dropped("delete_files_in_ranges: the family was dropped"));
    };
    let (version, options) = (&found.version, &found.compaction_options);
    let Some(plan) = pick_whole_files(version, options, &found.running, ranges, include_end) else {
        return Ok(0);
    };
    let running = found.running.start(&plan);
    drop(state);
    esker_base::probe!("delete_files:picked");
    let deleted_files: Vec<_> = plan.input_files().map(|(level, f)| (level, f.number)).collect();
    let count = deleted_files.len();
    let edit = VersionEdit { column_family: family.id, deleted_files, ..VersionEdit::default() };
    let logged = manifest.log_and_apply(vec![edit], LogOptions::default());
    if let Ok(versions) = &logged {
        engine.prepare_versions(versions);
    }
    let mut state = engine.state.lock();
    if let Some(found) = state.family_mut(family.id) {
        found.running.finish(running);
    }
    for (id, version) in logged.as_ref().map_or(&[][..], Vec::as_slice) {
        if let Some(found) = state.family_mut(*id) {
            found.version = Arc::clone(version);
            // Deletions in these files may have hidden entries in deleted runs that scans remember.
            // Those entries may appear again.
            found.deleted_run_memory = Arc::new(found.deleted_run_memory.fresh());
        }
        publish_super_version(engine, &mut state, *id);
    }
    // The files may have been in a compaction's way.
    queue_if_due(engine, &mut state, family.id, engine.oldest_snapshot_at_release());
    maybe_schedule(engine, &mut state);
    engine.state_changed.notify_all();
    drop(state);
    drop((manifest, plan));
    engine.release_super_versions();
    engine.purger.request();
    engine.report_stall_changes();
    logged.map(|_| count)
}
