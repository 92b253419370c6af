//! Commands that change the MANIFEST of a closed database: unsafe_remove_sst_file and
//! update_manifest.
//!
//! In: a database that no process has open. Out: a new MANIFEST; tables, WALs and OPTIONS stay as
//! they are.
//!
//! Invariant: the file LOCK is locked from before the MANIFEST is read until the new one is in
//! force. A database in use is refused unchanged.

use super::Out;
use super::session::Session;
use crate::failure::{CommandOutcome, Failure};
use crate::host::Host;
use clap::Args;
use esker::FileNumber;
use esker::internals::env::FileLock;
use esker::internals::format::file_name::{current_file_name, lock_file_name};
use esker::internals::format::version_edit::VersionEdit;
use esker::internals::version::{VersionSet, VersionSetOptions};
use std::io::Write;

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(super) struct UpdateManifestOptions {
    /// Record the temperatures that the file system tells of tables
    #[arg(long)]
    update_temperatures: bool,
    /// Print the tables that were looked at
    #[arg(long)]
    verbose: bool,
}

/// The versions of a closed database, and the lock that keeps it closed.
struct Offline {
    versions: VersionSet,
    _lock: Box<dyn FileLock>,
}

impl Offline {
    /// Locks the database and reads its MANIFEST.
    /// # Errors
    /// `IoError`: there is no database, or a process has it open · those of
    /// [`VersionSet::recover`].
    fn open(session: &Session, host: &Host, paranoid_checks: bool) -> esker::Result<Offline> {
        let (fs, dir) = (host.env().fs, session.path());
        if !fs.file_exists(&current_file_name(dir))? {
            return Err(esker::Error::not_found("there is no database").at(dir.display()));
        }
        let fs = fs.hold_directories(&[dir])?.unwrap_or(fs);
        let lock = fs.lock_file(&lock_file_name(dir))?;
        let options = VersionSetOptions {
            paranoid_checks,
            use_fsync: session.options.use_fsync,
            ..VersionSetOptions::new(fs, dir)
        };
        let versions = VersionSet::recover(options, &session.families_for_manifest())?;
        Ok(Offline { versions, _lock: lock })
    }
}

/// Removes a table from the MANIFEST. Its file stays until the next open of the database.
pub(super) fn unsafe_remove_sst_file(
    session: &Session,
    number: Option<&String>,
    host: &Host,
) -> CommandOutcome {
    let text = number.ok_or_else(|| Failure::new("SST file number must be specified"))?;
    let number = text.parse().map(FileNumber);
    let number = number.map_err(|_| Failure::new(format_args!("Failed to parse SST file number {text}")))?;
    let failed = |e: esker::Error| Failure::new(format_args!("failed to unsafely remove SST file: {e}"));
    // The table may be damaged or missing: that is why it is removed.
    let mut offline = Offline::open(session, host, false).map_err(failed)?;
    let place = offline.versions.families().find_map(|family| {
        let version = family.current();
        let has = |level: &usize| version.files(*level).iter().any(|file| file.number == number);
        (0..version.num_levels()).find(has).map(|level| (family.id(), level))
    });
    let Some((column_family, level)) = place else {
        return Err(failed(esker::Error::not_found("File not present in any level").at(text)));
    };
    let edit = VersionEdit { column_family, deleted_files: vec![(level, number)], ..VersionEdit::default() };
    offline.versions.log_and_apply(vec![edit], Default::default()).map_err(failed)?;
    offline.versions.close().map_err(failed)?;
    session.print_success("unsafely removed SST file")
}

/// Checks that each table of the MANIFEST exists with its size. The file systems of Esker tell no
/// temperatures, so none is recorded, as by RocksDB on an ordinary file system.
pub(super) fn update_manifest(
    session: &Session,
    options: &UpdateManifestOptions,
    host: &Host,
    out: &mut Out,
) -> CommandOutcome {
    if !options.update_temperatures {
        return Err(Failure::new("No action like --update_temperatures specified for update_manifest"));
    }
    let failed = |e: esker::Error| Failure::new(format_args!("failed to update manifest: {e}"));
    let offline = Offline::open(session, host, true).map_err(failed)?;
    if options.verbose {
        for family in offline.versions.families() {
            let version = family.current();
            let tables: usize = (0..version.num_levels()).map(|level| version.files(level).len()).sum();
            writeln!(out, "[{}] {tables} tables, no updates needed", family.name())?;
        }
    }
    session.print_success("Manifest updates successful")
}
