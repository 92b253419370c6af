//! What the background jobs are: the engine knows when they run, this file what they do.

use crate::engine::{Engine, Jobs, Purger, maybe_schedule};
use crate::files::{KeepSet, is_obsolete, under_either_name};
use crate::observe::{Event, TableFileDeletionInfo};
use crate::version::ObsoleteTable;
use crate::{compact, flush};
use esker_base::sync::atomic::Ordering;
use esker_base::sync::{Arc, epoch};
use esker_base::{FileNumber, Result};
use esker_format::file_name;
use std::path::Path;
use std::time::Duration;

/// Makes the jobs known and starts those that recovery left work for.
pub(super) fn start(engine: &Arc<Engine>) {
    let limits = engine.job_limits();
    engine.scheduler.ensure_threads(limits.flushes, limits.compactions);
    let (flush, compact) = (flush::background_flush, compact::background_compaction);
    let jobs = Jobs { flush, compact, walk: super::iterator::go_on_with_dead_walk };
    assert!(engine.jobs.set(jobs).is_ok(), "a database starts once");
    Purger::start(engine, settle_and_purge);
    // Whoever drops the last view of a file, be it the reader of an old iterator, has the file deleted.
    let purger = engine.purger.clone();
    engine.manifest.lock().on_obsolete_table(move || purger.request());
    maybe_schedule(engine, &mut engine.state.lock());
}

/// How long a purge waits for the reads that were under way when it began: theirs are the views that hold files which
/// nobody else wants. Such a read ends within microseconds unless its thread gets no processor.
const PATIENCE: (u32, Duration) = (40, Duration::from_micros(500));

/// Deletes files that have become obsolete since the last purge. Closing does it, too.
pub(super) fn settle_and_purge(engine: &Engine) {
    let (attempts, pause) = PATIENCE;
    epoch::settle(attempts, || engine.env.clock.sleep(pause));
    purge(engine);
}

/// Deletes tables and blob files that no version names, WALs that no memtable needs and old MANIFESTs.
/// What cannot be deleted is logged and left for the next open.
pub(crate) fn purge(engine: &Engine) {
    let mut manifest = engine.manifest.lock();
    let state = engine.state.lock();
    if state.keeps_files() {
        return;
    }
    let (tables, blobs) = (manifest.take_obsolete_tables(), manifest.take_obsolete_blobs());
    let quarantined = !manifest.files_to_quarantine().is_empty();
    let wals = match engine.oldest_wal_needed(&state) {
        // A MANIFEST write failed: nobody knows which WALs the MANIFEST on disk still wants.
        Some(oldest) if !quarantined => {
            // A section that is found again, its file being recycled or not deleted, must not be without what resolved it.
            let oldest =
                if engine.options.allow_2pc { oldest.min(manifest.min_log_number_to_keep()) } else { oldest };
            let mut wals = engine.wals.lock();
            let gone = wals.release_before(oldest);
            // Else the next writer would find what there was, and have what came since flushed for that.
            engine.wal_bytes.store(wals.total_bytes(), Ordering::Relaxed);
            gone
        }
        _ => Vec::new(),
    };
    let manifests = manifest.take_obsolete_manifests();
    drop(state);
    drop(manifest);
    for ObsoleteTable { number, .. } in tables {
        for cf in engine.families.all() {
            cf.tables.evict(number);
        }
        delete_table(engine, number);
    }
    for number in blobs {
        for cf in engine.families.all() {
            cf.tables.blobs().evict(number);
        }
        delete(engine, &file_name::blob_file_name(&engine.path, number));
    }
    for number in wals {
        delete(engine, &file_name::wal_file_name(&engine.wal_dir, number));
    }
    for number in manifests {
        delete(engine, &file_name::descriptor_file_name(&engine.path, number));
    }
}

/// Deletes everything in the directory that a crash or an earlier process left and nothing needs. No job has begun yet:
/// what the MANIFEST does not name, nobody is writing.
pub(super) fn purge_directory(engine: &Engine) -> Result<()> {
    let names = engine.fs().children(&engine.path)?;
    let mut keep = {
        let manifest = engine.manifest.lock();
        let wals = engine.wals.lock();
        KeepSet {
            live: manifest.live_files(),
            min_wal: wals.oldest_alive().unwrap_or(FileNumber(0)),
            recyclable_wals: wals.recyclable().collect(),
            manifest: manifest.manifest_number(),
            options_files: Vec::new(),
        }
    };
    keep.keep_newest_options(&names);
    for name in names.iter().filter(|name| is_obsolete(name, &keep)) {
        delete(engine, &engine.path.join(name));
    }
    if engine.wal_dir != engine.path {
        let names = engine.fs().children(&engine.wal_dir)?;
        for name in names.iter().filter(|name| name.ends_with(".log") && is_obsolete(name, &keep)) {
            delete(engine, &engine.wal_dir.join(name));
        }
    }
    Ok(())
}

fn delete_table(engine: &Engine, number: FileNumber) {
    let path = file_name::table_file_name(&engine.path, number);
    let result = under_either_name(&path, |path| engine.fs().delete_file(path));
    let status = result.as_ref().map(|_| ());
    let event = Event::TableFileDeletion { job: 0, file_number: number, status };
    let line = event.to_line(engine.env.clock.now_micros());
    esker_base::info_log!(engine.info_log, Info, "{line}");
    for listener in &engine.options.listeners {
        listener.on_table_file_deleted(&TableFileDeletionInfo {
            db_name: engine.path.display().to_string(),
            file_path: path.clone(),
            job_id: 0,
            status: result.clone(),
        });
    }
}

fn delete(engine: &Engine, path: &Path) {
    match engine.fs().delete_file(path) {
        Ok(()) => esker_base::info_log!(engine.info_log, Debug, "Deleted {}", path.display()),
        Err(e) => esker_base::info_log!(engine.info_log, Warn, "Could not delete an obsolete file: {e}"),
    }
}
