//! Deletion of obsolete files.
//!
//! In: files that the MANIFEST, the memtables and the WALs no longer need. Out: those files are
//! deleted, or logged and left for the next open. WALs go into the archive first, if options
//! request one, and wait there or in the WAL directory for readers that need them.
//!
//! Invariants
//!  1. No deleted file was needed when the state lock was last held. A file that is listed as
//!     obsolete under that lock is never needed again.
//!  2. While file deletions are disabled, no purge deletes. A purge begins only under the state
//!     lock with deletions enabled, and disabling them waits for purges that have begun.
//!  3. Listeners are notified after a purge has ended, so that they may disable deletions
//!     themselves.

use crate::engine::{DbState, Engine, UnderWay};
use crate::files::{KeepSet, is_data_file, is_obsolete, is_trash_name, under_either_name};
use crate::observe::{BlobFileDeletionInfo, Event, TableFileDeletionInfo};
use crate::version::{ObsoleteBlob, ObsoleteTable};
use crate::wal::{ArchivedWal, OldWals};
use esker_base::sync::Arc;
use esker_base::sync::atomic::Ordering;
use esker_base::sync::epoch;
use esker_base::{FileNumber, Result, SubCode};
use esker_env::Clock;
use esker_format::file_name::{self, FileType, parse_file_name};
use std::path::Path;
use std::time::Duration;

/// Time that a round of a purge waits for the reads under way at its start. Such reads hold super
/// versions, and with them files that nothing else needs. A read ends within microseconds unless
/// its thread gets no processor.
const PATIENCE: (u32, Duration) = (40, Duration::from_micros(500));
/// Number of rounds to wait for a thread that gets no processor. Then the purger waits for it.
const ROUNDS: u32 = 100;

/// Deletes files that have become obsolete since the last purge. It ends early when the database
/// closes.
pub(crate) fn settle_and_purge(engine: &Engine) {
    settle_and(engine, purge);
}

/// Calls `work` after each round of waiting for the reads under way. It ends when these have ended
/// or the database closes. After two seconds it leaves the rest to a later purge, which the purger
/// starts once these reads have ended.
pub(crate) fn settle_and(engine: &Engine, work: impl Fn(&Engine)) {
    for _ in 0..ROUNDS {
        engine.hand_over_all_super_versions();
        let is_settled = settle(engine.env.clock.as_ref());
        work(engine);
        if is_settled || engine.is_shutting_down() {
            return;
        }
    }
    engine.purger.request_after_reads(engine);
}

/// The last purge: no job runs any more, and none will start. Afterwards every remaining file is
/// live, or held by an iterator, a snapshot of files or a read that outlives the close.
pub(super) fn settle_and_purge_last(engine: &Engine) {
    engine.hand_over_all_super_versions();
    settle_for_long(engine.env.clock.as_ref());
    purge(engine);
}

/// Waits at most two seconds until reads that are under way now hold no super version. Returns
/// whether they have ended.
pub(super) fn settle_for_long(clock: &dyn Clock) -> bool {
    (0..ROUNDS).any(|_| settle(clock))
}

/// Waits at most two seconds until only `holders` hold the engine. A thread drops its reference
/// shortly after its last job. If that reference were the last one, files would stay open after the
/// end of the database.
pub(super) fn wait_for_other_holders(engine: &Arc<Engine>, holders: usize) {
    let (attempts, pause) = PATIENCE;
    for _ in 0..attempts as usize * ROUNDS as usize {
        if Arc::strong_count(engine) <= holders {
            return;
        }
        sleep(engine.env.clock.as_ref(), pause);
    }
}

/// Sleeps by the machine's clock, whatever clock the database has: a test's clock would not wait
/// for threads.
fn sleep(_clock: &dyn Clock, pause: Duration) {
    #[cfg(not(shuttle))]
    let _clock = &esker_env::SystemClock;
    _clock.sleep(pause);
}

/// Waits for the reads that are under way. Returns whether all have ended.
fn settle(clock: &dyn Clock) -> bool {
    let (attempts, pause) = PATIENCE;
    epoch::settle(attempts, || sleep(clock, pause))
}

/// Deletes tables and blob files that no version names, WALs that no memtable needs and old
/// MANIFESTs. Files that cannot be deleted are logged and left for the next open.
fn purge(engine: &Engine) {
    let Some(obsolete) = Obsolete::take(engine) else { return };
    esker_base::probe!("purge:listed", &mut engine.path.clone());
    let deleted = obsolete.delete(engine);
    for (table, status) in deleted.tables {
        report_table(engine, &table, &status);
    }
    for (blob, status) in deleted.blobs {
        report_blob_file(engine, &blob, &status);
    }
}

/// Disables file deletions until [`enable_file_deletions`] has been called as many times. Waits for
/// deletions that are under way.
pub(crate) fn disable_file_deletions(engine: &Engine) {
    let mut state = engine.state.lock();
    state.file_deletions_disabled += 1;
    while state.deleting > 0 {
        engine.state_changed.wait(&mut state);
    }
}

/// Undoes one [`disable_file_deletions`]; false if there is none. The last one deletes the obsolete
/// files before it returns, unless the database closes.
pub(crate) fn enable_file_deletions(engine: &Engine) -> bool {
    let mut state = engine.state.lock();
    let Some(left) = state.file_deletions_disabled.checked_sub(1) else { return false };
    state.file_deletions_disabled = left;
    let purges = !engine.read_only && !state.keeps_files();
    drop(state);
    if purges && let Ok(_under_way) = UnderWay::begin(engine) {
        settle_and_purge(engine);
        let mut state = engine.state.lock();
        // Another purge may have taken the list first.
        while state.deleting > 0 {
            engine.state_changed.wait(&mut state);
        }
    }
    true
}

/// A guard: a purge is deleting files.
pub(super) struct Deleting<'a>(&'a Engine);

impl<'a> Deleting<'a> {
    /// Begins deleting; `None` while deletions are disabled.
    pub(super) fn begin(engine: &'a Engine, state: &mut DbState) -> Option<Deleting<'a>> {
        if state.keeps_files() {
            return None;
        }
        state.deleting += 1;
        Some(Deleting(engine))
    }
}

impl Drop for Deleting<'_> {
    fn drop(&mut self) {
        self.0.state.lock().deleting -= 1;
        self.0.state_changed.notify_all();
    }
}

/// WALs that no family needs.
#[derive(Default)]
struct ObsoleteWals {
    delete: Vec<FileNumber>,
    archive: Vec<FileNumber>,
    /// Files of the archive to delete.
    expired: Vec<FileNumber>,
}

impl ObsoleteWals {
    fn take(engine: &Engine, old: &mut OldWals) -> ObsoleteWals {
        let expired =
            if old.archives() { old.take_expired(engine.env.clock.now_seconds()) } else { Vec::new() };
        ObsoleteWals {
            delete: old.take_deletable(engine.closed.load(Ordering::Acquire)),
            archive: old.to_archive(),
            expired,
        }
    }
}

/// Obsolete files, listed while deletions were enabled. Disabling deletions waits until it is
/// dropped.
struct Obsolete<'a> {
    tables: Vec<ObsoleteTable>,
    blobs: Vec<ObsoleteBlob>,
    wals: ObsoleteWals,
    manifests: Vec<FileNumber>,
    deleting: Deleting<'a>,
}

/// Deleted files, with the results, for listeners.
struct Deleted {
    tables: Vec<(ObsoleteTable, Result<()>)>,
    blobs: Vec<(ObsoleteBlob, Result<()>)>,
}

impl<'a> Obsolete<'a> {
    /// Takes the list. `None` while deletions are disabled: all files stay listed.
    fn take(engine: &'a Engine) -> Option<Obsolete<'a>> {
        let mut manifest = engine.manifest.lock();
        let mut state = engine.state.lock();
        let deleting = Deleting::begin(engine, &mut state)?;
        let (tables, blobs) = (manifest.take_obsolete_tables(), manifest.take_obsolete_blobs());
        let quarantined = !manifest.files_to_quarantine().is_empty();
        let wals = match engine.oldest_wal_needed(&state) {
            // A MANIFEST write failed: it is unknown which WALs the MANIFEST on disk still needs.
            Some(oldest) if !quarantined => {
                // The file of a section may be recycled or stay. Recovery must find the section's
                // resolution as well.
                let oldest = if engine.options.allow_2pc {
                    oldest.min(manifest.min_log_number_to_keep())
                } else {
                    oldest
                };
                let mut wals = engine.wals.lock();
                wals.release_before(oldest);
                // Otherwise the next writer would see the old total, and flush newer entries for
                // it.
                engine.wal_bytes.store(wals.total_bytes(), Ordering::Relaxed);
                engine.request_wal_check();
                ObsoleteWals::take(engine, &mut wals.old)
            }
            _ => ObsoleteWals::default(),
        };
        let manifests = manifest.take_obsolete_manifests();
        Some(Obsolete { tables, blobs, wals, manifests, deleting })
    }

    /// Deletes the files.
    fn delete(self, engine: &Engine) -> Deleted {
        let mut tables = Vec::with_capacity(self.tables.len());
        let mut blobs = Vec::with_capacity(self.blobs.len());
        // All families share the table cache's open files.
        let open_files = &engine.families.default_family().tables;
        for mut table in self.tables {
            // Blocks leave the cache, if the family's options say so.
            if let Some(reader) = table.reader.take().or_else(|| open_files.cached(table.number)) {
                reader.uncache();
            }
            open_files.evict(table.number);
            let result = delete_table(engine, &table);
            tables.push((table, result));
        }
        for blob in self.blobs {
            open_files.blobs().evict(blob.number);
            let result = delete_blob_file(engine, &blob);
            blobs.push((blob, result));
        }
        for number in self.wals.delete {
            delete(engine, &file_name::wal_file_name(&engine.wal_dir, number));
        }
        for number in self.wals.expired {
            delete(engine, &file_name::archived_wal_file_name(&engine.wal_dir, number));
        }
        self.wals.archive.into_iter().for_each(|number| archive_wal(engine, number));
        for number in self.manifests {
            delete(engine, &file_name::descriptor_file_name(&engine.path, number));
        }
        drop(self.deleting);
        Deleted { tables, blobs }
    }
}

/// At open: deletes every file that a crash or an earlier process left and nothing needs.
/// Directories besides the database's own lose tables, blob files and WALs only. No job has begun
/// yet, so no thread is writing a file that the MANIFEST does not name.
/// WALs go oldest first: a reader that finds an old WAL counts on all later ones.
pub(crate) fn purge_directory(engine: &Engine) -> Result<()> {
    let children = |dir: &Path| -> Result<Vec<String>> {
        let mut names = engine.fs().children(dir)?;
        names.sort_by_key(|name| parse_file_name(name).map(|(_, number)| number));
        Ok(names)
    };
    let names = children(&engine.path)?;
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
        delete_or_archive(engine, &engine.path, name);
    }
    if engine.wal_dir != engine.path {
        let names = children(&engine.wal_dir)?;
        for name in names.iter().filter(|name| name.ends_with(".log") && is_obsolete(name, &keep)) {
            delete_or_archive(engine, &engine.wal_dir, name);
        }
    }
    let others = engine.other_directories.lock().clone();
    for directory in others {
        let is_data = |name: &str| is_data_file(name) || is_trash_name(name);
        let names = engine.fs().children(&directory)?;
        for name in names.iter().filter(|name| is_data(name) && is_obsolete(name, &keep)) {
            delete(engine, &directory.join(name));
        }
    }
    Ok(())
}

/// Deletes an obsolete file of a directory. A WAL of the WAL directory goes into the archive, if
/// the options request one.
fn delete_or_archive(engine: &Engine, dir: &Path, name: &str) {
    match parse_file_name(name) {
        Some((FileType::Wal, number)) if dir == engine.wal_dir && engine.wals.lock().old.archives() => {
            engine.wals.lock().old.retire(number);
            archive_wal(engine, number);
        }
        _ => delete(engine, &dir.join(name)),
    }
}

/// Moves a WAL that no family needs into the archive, without bytes that are no records of this
/// database. A file without records is deleted. A failure is logged, and the next purge tries
/// again.
fn archive_wal(engine: &Engine, number: FileNumber) {
    let path = file_name::wal_file_name(&engine.wal_dir, number);
    match try_to_archive(engine, number, &path) {
        Ok(Some(file)) => engine.wals.lock().old.note_archived(number, file),
        Ok(None) => engine.wals.lock().old.forget(number),
        Err(e) => esker_base::info_log!(engine.info_log, Warn, "Could not archive a WAL: {e}"),
    }
}

fn try_to_archive(engine: &Engine, number: FileNumber, path: &Path) -> Result<Option<ArchivedWal>> {
    let fs = engine.fs();
    let bytes = match fs.file_size(path) {
        // Another purge has moved it.
        Err(e) if e.subcode() == SubCode::PathNotFound => return archived(engine, number),
        bytes => bytes?,
    };
    let cut = engine.wals.lock().old.cut_of(number).unwrap_or(bytes).min(bytes);
    if cut == 0 {
        fs.delete_file(path)?;
        return Ok(None);
    }
    if cut < bytes {
        fs.truncate(path, cut)?;
    }
    fs.create_dir_if_missing(&engine.wal_dir.join(file_name::ARCHIVE_DIR))?;
    let target = file_name::archived_wal_file_name(&engine.wal_dir, number);
    fs.rename(path, &target)?;
    esker_base::info_log!(engine.info_log, Info, "Move log file {} to {}", path.display(), target.display());
    archived(engine, number)
}

/// The file of the archive with this number.
fn archived(engine: &Engine, number: FileNumber) -> Result<Option<ArchivedWal>> {
    let path = file_name::archived_wal_file_name(&engine.wal_dir, number);
    match engine.fs().file_size(&path) {
        Err(e) if e.subcode() == SubCode::PathNotFound => Ok(None),
        bytes => Ok(Some(ArchivedWal { bytes: bytes?, modified: engine.fs().modification_time(&path)? })),
    }
}

fn delete_table(engine: &Engine, table: &ObsoleteTable) -> Result<()> {
    let result = under_either_name(&table.path(), |path| engine.delete_file(path));
    let status = result.as_ref().map(|_| ());
    let event = Event::TableFileDeletion { job: 0, file_number: table.number, status };
    let line = event.to_line(engine.env.clock.now_micros());
    esker_base::info_log!(engine.info_log, Info, "{line}");
    result
}

fn delete_blob_file(engine: &Engine, blob: &ObsoleteBlob) -> Result<()> {
    let result = engine.delete_file(&blob.path());
    let status = result.as_ref().map(|_| ());
    let event = Event::BlobFileDeletion { job: 0, file_number: blob.number, status };
    let line = event.to_line(engine.env.clock.now_micros());
    esker_base::info_log!(engine.info_log, Info, "{line}");
    result
}

fn report_blob_file(engine: &Engine, blob: &ObsoleteBlob, status: &Result<()>) {
    for listener in &engine.options.listeners {
        listener.on_blob_file_deleted(&BlobFileDeletionInfo {
            db_name: engine.path.display().to_string(),
            file_path: blob.path(),
            job_id: 0,
            status: status.clone(),
        });
    }
}

fn report_table(engine: &Engine, table: &ObsoleteTable, status: &Result<()>) {
    for listener in &engine.options.listeners {
        listener.on_table_file_deleted(&TableFileDeletionInfo {
            db_name: engine.path.display().to_string(),
            file_path: table.path(),
            job_id: 0,
            status: status.clone(),
        });
    }
}

fn delete(engine: &Engine, path: &Path) {
    match engine.delete_file(path) {
        Ok(()) => esker_base::info_log!(engine.info_log, Debug, "Deleted {}", path.display()),
        // The purge of the whole directory may have deleted it first.
        Err(e) if e.subcode() == SubCode::PathNotFound => {}
        Err(e) => esker_base::info_log!(engine.info_log, Warn, "Could not delete an obsolete file: {e}"),
    }
}
