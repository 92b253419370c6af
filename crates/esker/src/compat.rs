//! Compatibility: which RocksDB versions can open a directory, which of its features need a newer
//! one, and how to remove those.
//!
//! In: a directory that no process has open. Out: a [`CompatReport`]; or, by [`downgrade`], the
//! same contents in files that an older RocksDB reads. Source: RocksDB `HISTORY.md`, and tests of
//! each feature with 7.8.3 (docs/compat/).
//!
//! Invariants
//!  1. Inspection changes nothing and takes no lock. It reads every entry, because no property
//!     lists the kinds of entries.
//!  2. A downgrade consists of flushes, compactions and a fresh MANIFEST. If it is interrupted, the
//!     database is whole, and the next downgrade continues.
//!  3. Contents that the older version cannot represent (families without timestamps in their
//!     tables) are refused before anything is written.

mod downgrade;
mod report;
mod tables;

pub use downgrade::{Downgrade, downgrade};
pub use report::{CompatReport, Need};

use crate::options::{Feature, Release, latest_options_file, load_latest_options_from};
use crate::version::beside_owner::{open_current_manifest, read_beside_owner};
use crate::version::{VersionSet, find_fault_in_family_name};
use crate::wal::open_wal;
use esker_base::{ColumnFamilyId, Error, FileNumber, Result, SubCode};
use esker_env::{FileSystem, SystemClock};
use esker_format::file_name::{self, FileType, parse_file_name};
use esker_format::log::LogEvent;
use esker_format::version_edit::{FileMetaData, VersionEdit};
use esker_format::write_batch::{BatchOp, WriteBatchView};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Finds out which RocksDB can open the database in `dir`, whose WALs are in `wal_dir`. If another
/// process has it open, the report is of one point in time of the call.
/// # Errors
/// `IoError`, with sub-code `PathNotFound` if there is no database · `Corruption` or `NotSupported`
/// naming the unreadable file · `TryAgain` if another process changes the database too fast.
pub fn inspect(fs: &dyn FileSystem, dir: &Path, wal_dir: &Path) -> Result<CompatReport> {
    inspect_with_paths(fs, dir, wal_dir, &[])
}

/// [`inspect`] of a database whose tables are also in `paths`, the directories of `db_paths` and
/// `cf_paths`.
/// # Errors
/// Those of [`inspect`].
pub fn inspect_with_paths(
    fs: &dyn FileSystem,
    dir: &Path,
    wal_dir: &Path,
    paths: &[PathBuf],
) -> Result<CompatReport> {
    let dirs: Vec<&Path> = [dir].into_iter().chain(paths.iter().map(PathBuf::as_path)).collect();
    read_beside_owner(fs, &SystemClock, dir, || inspect_once(fs, &dirs, wal_dir))
}

/// `dirs`: the database's directory, then the others that tables may be in.
fn inspect_once(fs: &dyn FileSystem, dirs: &[&Path], wal_dir: &Path) -> Result<CompatReport> {
    let dir = dirs[0];
    let mut report = CompatReport::default();
    let listed = VersionSet::list_families(fs, dir)?;
    let state = replay(fs, dir, &mut report)?;
    for (id, family) in &state.families {
        let Some(listed) = listed.iter().find(|listed| listed.id == *id) else { continue };
        for meta in family.tables.values() {
            tables::inspect(fs, dirs, listed, meta, &mut report)?;
        }
    }
    for family in &listed {
        if let Some(why) = find_fault_in_family_name(&family.name) {
            let name = family.name.escape_debug();
            report.notes.push(format!(
                "column family {} is called '{name}': {why}; copy what it holds into one of another name and drop it",
                family.id
            ));
        }
    }
    inspect_wals(fs, wal_dir, state.smallest_wanted_wal(), &mut report)?;
    inspect_options(fs, dir, &mut report)?;
    Ok(report)
}

/// The final state that the MANIFEST's edits describe.
#[derive(Debug)]
struct ManifestState {
    families: BTreeMap<ColumnFamilyId, Family>,
    min_log_number_to_keep: FileNumber,
}

/// The final state of a family.
#[derive(Debug, Default)]
struct Family {
    tables: BTreeMap<FileNumber, FileMetaData>,
    log_number: FileNumber,
    persists_timestamps: Option<bool>,
}

fn replay(fs: &dyn FileSystem, dir: &Path, report: &mut CompatReport) -> Result<ManifestState> {
    let (number, mut reader) = open_current_manifest(fs, dir, false)?;
    let manifest = format!("MANIFEST-{number:06}");
    let mut families: BTreeMap<ColumnFamilyId, Family> =
        BTreeMap::from([(ColumnFamilyId::DEFAULT, Family::default())]);
    let (mut tracked, mut min_log_number_to_keep) = (0, FileNumber(0));
    while let Some(edit) = reader.next_edit()? {
        min_log_number_to_keep = edit.min_log_number_to_keep.unwrap_or_default().max(min_log_number_to_keep);
        tracked += edit.wal_additions.len();
        if edit.column_family_drop {
            families.remove(&edit.column_family);
        } else if edit.column_family_add.is_some() {
            families.insert(edit.column_family, Family::default());
        }
        if let Some(family) = families.get_mut(&edit.column_family) {
            family.apply(edit);
        }
    }
    for family in families.values() {
        if family.persists_timestamps == Some(false) {
            report.need(Feature::TimestampsInMemory, &manifest);
        }
    }
    if tracked > 0 {
        report.notes.push(format!(
            "{manifest} tracks WALs (track_and_verify_wals_in_manifest): RocksDB without that option fails to open it read-only"
        ));
    }
    Ok(ManifestState { families, min_log_number_to_keep })
}

impl ManifestState {
    /// The smallest WAL number to inspect. Tables hold all entries of WALs before it. A WAL that no
    /// family needs may hold prepared transactions; the MANIFEST gives the first WAL that does.
    fn smallest_wanted_wal(&self) -> FileNumber {
        let by_families = self.families.values().map(|f| f.log_number).min().unwrap_or_default();
        match self.min_log_number_to_keep {
            FileNumber(0) => by_families,
            for_sections => for_sections.min(by_families),
        }
    }
}

impl Family {
    fn apply(&mut self, edit: VersionEdit) {
        for (_, number) in &edit.deleted_files {
            self.tables.remove(number);
        }
        self.tables.extend(edit.new_files.into_iter().map(|(_, meta)| (meta.number, meta)));
        self.log_number = edit.log_number.map_or(self.log_number, |n| n.max(self.log_number));
        self.persists_timestamps = edit.persist_user_defined_timestamps.or(self.persists_timestamps);
    }
}

/// Inspects the WALs from `needed` on, each as far as it can be read: its end may be torn.
fn inspect_wals(
    fs: &dyn FileSystem,
    wal_dir: &Path,
    needed: FileNumber,
    report: &mut CompatReport,
) -> Result<()> {
    let names = fs.children(wal_dir)?;
    let wals =
        names.iter().filter_map(|name| parse_file_name(name)).filter(|(kind, _)| *kind == FileType::Wal);
    for number in wals.map(|(_, number)| number).filter(|number| *number >= needed) {
        report.wals += 1;
        inspect_wal(fs, wal_dir, number, report)?;
    }
    Ok(())
}

fn inspect_wal(
    fs: &dyn FileSystem,
    wal_dir: &Path,
    number: FileNumber,
    report: &mut CompatReport,
) -> Result<()> {
    let name = format!("{number:06}.log");
    let mut log = open_wal(fs, wal_dir, number)?;
    let mut record = Vec::new();
    loop {
        match log.next_record(&mut record)? {
            LogEvent::Record { .. } => {
                let Ok(batch) = WriteBatchView::parse(&record) else { continue };
                for op in batch.iter() {
                    inspect_op(&op, &name, report);
                }
            }
            LogEvent::Predecessor(_) => report.need(Feature::PredecessorRecords, &name),
            LogEvent::TimestampSizes => report.need(Feature::TimestampSizes, &name),
            LogEvent::Ignored { record_type, .. } => {
                report.notes.push(format!("{name}: records of the unknown type {record_type}"));
            }
            LogEvent::End => return Ok(()),
            event if event.to_error(&name).is_some() && log.is_recycled() => return Ok(()),
            _ => {}
        }
    }
}

fn inspect_op(op: &BatchOp<'_>, name: &str, report: &mut CompatReport) {
    match op {
        BatchOp::TimedPut { .. } => report.need(Feature::TimedPut, name),
        BatchOp::BeginPrepare(_) | BatchOp::EndPrepare { .. } => {
            let note = format!("{name}: transactions of two phases: only a TransactionDB opens it");
            if !report.notes.contains(&note) {
                report.notes.push(note);
            }
        }
        _ => {}
    }
}

/// Inspects the OPTIONS file. Only tools read it; the library does not.
fn inspect_options(fs: &dyn FileSystem, dir: &Path, report: &mut CompatReport) -> Result<()> {
    let Some(number) = latest_options_file(fs, dir)? else { return Ok(()) };
    let loaded = match load_latest_options_from(fs, dir) {
        Ok(loaded) => loaded,
        Err(e) if e.subcode() == SubCode::PathNotFound => return Ok(()),
        Err(e) => {
            report.notes.push(format!("OPTIONS-{number:06} cannot be read: {e}"));
            return Ok(());
        }
    };
    let written_by = loaded.rocksdb_version.as_deref().and_then(parse_release);
    if let Some(release) = written_by.filter(|release| *release > Release::OLDEST) {
        report.tools = release;
        report.notes.push(format!(
            "OPTIONS-{number:06} is of RocksDB {release}: ldb of an older version refuses the names it does not know \
             (--ignore_unknown_options, or --try_load_options=false)"
        ));
    }
    Ok(())
}

/// Parses a release such as "11.8.1".
fn parse_release(text: &str) -> Option<Release> {
    let mut parts = text.split('.');
    Some(Release(parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Path of a table in one of these directories, under RocksDB's name or LevelDB's. No number occurs
/// twice.
fn table_path(fs: &dyn FileSystem, dirs: &[&Path], number: FileNumber) -> Result<PathBuf> {
    for dir in dirs {
        for name_in in [file_name::table_file_name, file_name::leveldb_table_file_name] {
            let path = name_in(dir, number);
            if fs.file_exists(&path)? {
                return Ok(path);
            }
        }
    }
    let path = file_name::table_file_name(dirs[0], number);
    let hint = "it may be in a directory of db_paths or cf_paths";
    Err(Error::corruption(format!("{} is missing: {hint}", path.display())))
}

#[cfg(test)]
mod tests;
