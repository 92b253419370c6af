//! OPTIONS files: the options in force, as text that RocksDB's tools read.
//!
//! In: options of the database and its families, and changes of them. Out: OPTIONS files.
//!
//! Printing a file costs time in proportion to the number of families, so a file for each change
//! would make changes cost more with more families. Instead each change pays for
//! [`FAMILIES_PER_CHANGE`] families. Once the changes so far have paid for all families, the last
//! of them writes a file before it returns. With at most [`FAMILIES_PER_CHANGE`] families each
//! change does. Otherwise a file follows within [`DELAY`], or when the database closes.
//!
//! After a crash in between, the newest file lacks these changes, as RocksDB's does after a crash
//! between its MANIFEST and its OPTIONS file. The MANIFEST has all families, and every opening
//! writes a new file.

use super::DbInner;
use super::purge::Deleting;
use crate::engine::Engine;
use crate::options::{obsolete_options_files, save_options_file};
use esker_base::sync::Arc;
use esker_base::{FileNumber, Result};
use esker_env::timer::Repeating;
use esker_format::file_name;
use std::path::Path;
use std::time::Duration;

/// A change pays for printing this many families.
const FAMILIES_PER_CHANGE: usize = 32;

/// A file follows a change within this time.
const DELAY: Duration = Duration::from_secs(1);

impl DbInner {
    /// Records `changes` changes of options or of the set of families. An OPTIONS file follows.
    /// # Errors
    /// `IoError` if a file was due; the older files are unchanged.
    pub(crate) fn options_changed(&self, changes: usize) -> Result<()> {
        let engine = &self.engine;
        let is_due = {
            let mut unwritten = engine.unwritten_options.lock();
            unwritten.changes += changes;
            let is_due = unwritten.changes.saturating_mul(FAMILIES_PER_CHANGE) >= engine.families.len();
            if !is_due && unwritten.timer.is_none() {
                unwritten.timer = Some(write_later(engine));
            }
            is_due
        };
        if is_due { write_options_file(engine) } else { Ok(()) }
    }

    /// Writes a new OPTIONS file and removes all but the newest two, unless file deletions are
    /// disabled.
    /// # Errors
    /// `IoError`; the older files are unchanged.
    pub(crate) fn write_options_file(&self) -> Result<()> {
        write_options_file(&self.engine)
    }

    /// Writes an OPTIONS file with this number into the directory of a copy. The copy has its WALs
    /// in the same directory.
    /// # Errors
    /// `IoError`.
    pub(crate) fn save_options_in(&self, directory: &Path, number: FileNumber) -> Result<()> {
        save_options(&self.engine, directory, Some(number))
    }
}

/// Schedules a file after [`DELAY`].
fn write_later(engine: &Arc<Engine>) -> Repeating {
    let weak = Arc::downgrade(engine);
    let work = move || {
        if let Some(engine) = weak.upgrade() {
            let result = write_unwritten(&engine);
            let mut unwritten = engine.unwritten_options.lock();
            // After a failure, the next change or the end of the database tries again.
            let is_over = result.is_err() || unwritten.changes == 0;
            let timer = if is_over { unwritten.timer.take() } else { None };
            drop(unwritten);
            drop(timer);
        }
    };
    engine.env.timer.repeat(DELAY, work)
}

/// Writes the changes that no OPTIONS file has yet, as a last step of closing. A failure is logged
/// only: the next opening writes a file.
pub(super) fn end_options_files(engine: &Engine) {
    // The timer is dropped without the lock: the drop waits for work that takes the lock.
    let timer = engine.unwritten_options.lock().timer.take();
    drop(timer);
    // The failure is logged already.
    write_unwritten(engine).unwrap_or_default();
}

/// Writes an OPTIONS file if the newest one lacks changes, and logs a failure.
fn write_unwritten(engine: &Engine) -> Result<()> {
    if engine.unwritten_options.lock().changes == 0 {
        return Ok(());
    }
    write_options_file(engine).inspect_err(|e| {
        esker_base::info_log!(engine.info_log, Warn, "The OPTIONS file lacks the newest changes: {e}");
    })
}

fn write_options_file(engine: &Engine) -> Result<()> {
    let changes = std::mem::take(&mut engine.unwritten_options.lock().changes);
    if let Err(e) = save_options(engine, &engine.path, None) {
        engine.unwritten_options.lock().changes += changes;
        return Err(e);
    }
    let Some(_deleting) = Deleting::begin(engine, &mut engine.state.lock()) else { return Ok(()) };
    for old in obsolete_options_files(&engine.fs().children(&engine.path)?) {
        let path = file_name::options_file_name(&engine.path, old);
        if let Err(e) = engine.fs().delete_file(&path) {
            esker_base::info_log!(engine.info_log, Warn, "Could not delete an old OPTIONS file: {e}");
        }
    }
    Ok(())
}

fn save_options(engine: &Engine, directory: &Path, number: Option<FileNumber>) -> Result<()> {
    let (number, mut options, families) = {
        let state = engine.state.lock();
        let families = state.families.values().map(|f| (f.cf.name.clone(), f.options.clone()));
        // Takes the number under the lock: the newest file has the newest options.
        let number = number.unwrap_or_else(|| engine.numbers.new_file_number());
        (number, engine.db_options().as_ref().clone(), families.collect::<Vec<_>>())
    };
    // For tools: they get only the database's directory, and may run in another working directory
    // than this process.
    let is_other = directory == engine.path && engine.wal_dir != engine.path;
    options.wal_dir = if is_other { Some(engine.fs().absolute_path(&engine.wal_dir)?) } else { None };
    let families = families.iter().map(|(name, options)| (name.as_str(), options.as_ref()));
    save_options_file(engine.fs().as_ref(), directory, number, &options, families).map(drop)
}
