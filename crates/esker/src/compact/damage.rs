//! Finds the damaged inputs of a failed compaction and quarantines them.
//!
//! In: the plan, and its error. Out: the inputs that are still damaged when they are read again
//! alone, in their own bytes or in a value in a blob file. These are quarantined.
//!
//! Invariant: every file quarantined was read alone, past all caches, and found damaged; a
//! transient error quarantines nothing.

use crate::cf::ColumnFamily;
use crate::engine::{DbState, Engine, maybe_schedule, publish_super_version};
use crate::files::open_table::open_file;
use crate::merge::timestamps::table_iter;
use crate::picker::CompactionPlan;
use crate::version::FileMeta;
use esker_base::sync::Arc;
use esker_base::{ColumnFamilyId, Error, ErrorKind, FileNumber, Result, SubCode};
use esker_format::cursor::InternalIterator;
use esker_format::key::ParsedInternalKey;
use esker_format::wide_column::stored::for_each_blob;
use esker_table::TableReadOptions;

/// Whether the error means bad bytes, or bytes that stay unreadable.
fn is_damage(error: &Error) -> bool {
    match error.kind() {
        // The head of a blob file has no checksum: damage may make it look like another kind of
        // file.
        ErrorKind::Corruption | ErrorKind::NotSupported => true,
        ErrorKind::IoError => !error.is_retryable() && error.subcode() != SubCode::NoSpace,
        _ => false,
    }
}

/// The inputs that are still bad when they are read alone, after bad bytes or a failed read ended a
/// compaction. Empty if the fault lies elsewhere: in the output, in memory, or in a device that
/// reads nothing at all.
pub(super) fn damaged_inputs(
    engine: &Engine,
    cf: &Arc<ColumnFamily>,
    plan: &CompactionPlan,
    error: &Error,
) -> Vec<(FileNumber, Error)> {
    if !is_damage(error) {
        return Vec::new();
    }
    let goes_on = || !engine.is_shutting_down() && !cf.is_dropped();
    let those_that_fail = |check: &dyn Fn(&FileMeta) -> Result<()>| -> Vec<(FileNumber, Error)> {
        let failed = |(_, file): (_, &Arc<FileMeta>)| {
            check(file).err().filter(is_damage).map(|why| (file.number, why))
        };
        plan.input_files().filter_map(failed).collect()
    };
    let damaged = those_that_fail(&|file| open_file(&cf.tables, file)?.verify(&mut |_| goes_on()));
    let unreadable = damaged.iter().filter(|(_, why)| why.kind() == ErrorKind::IoError).count();
    if unreadable > 1 && unreadable == plan.input_files().count() {
        return Vec::new();
    }
    if !damaged.is_empty() || plan.version.blob_files().is_empty() {
        return damaged;
    }
    // The tables are sound, and the device can be read: the values in blob files remain.
    those_that_fail(&|file| check_blobs(cf, file, &goes_on))
}

/// Reads every value of the table that lies in a blob file, from the file.
/// # Errors
/// The first value that is damaged or cannot be read, with the blob file's name · `Aborted` when
/// `goes_on` returns false.
fn check_blobs(cf: &ColumnFamily, file: &FileMeta, goes_on: &dyn Fn() -> bool) -> Result<()> {
    let table = open_file(&cf.tables, file)?;
    let options = TableReadOptions { fill_cache: false, ..TableReadOptions::default() };
    let mut entries = table_iter(&table, options, &cf.icmp);
    entries.seek_to_first();
    while entries.valid() {
        let entry = ParsedInternalKey::parse(entries.key())?;
        let mut checked = Ok(());
        for_each_blob(entry.value_type, entries.value(), &mut |location| {
            if checked.is_ok() {
                let reader = cf.tables.blobs().reader(location.file_number);
                checked = reader.and_then(|r| r.value(entry.user_key, &location, true)).map(drop);
            }
        })?;
        checked?;
        if !goes_on() {
            return Err(Error::aborted("the database is closed, or the family dropped"));
        }
        entries.next();
    }
    entries.status()
}

/// Excludes these files from compactions, so that other compactions of the family can begin.
pub(super) fn quarantine(
    engine: &Arc<Engine>,
    state: &mut DbState,
    family: ColumnFamilyId,
    damaged: &[(FileNumber, Error)],
) {
    esker_base::probe!("compaction:quarantined");
    if let Some(family) = state.family_mut(family) {
        for (number, why) in damaged {
            family.running.quarantine(*number, why.clone());
        }
    }
    publish_super_version(engine, state, family);
    maybe_schedule(engine, state);
}
