//! `esker ldb repair`: makes a new MANIFEST from tables and WALs, and reports every loss.

use super::session::{Session, db_path, db_paths};
use super::{Common, Out};
use crate::failure::{CommandOutcome, Failure};
use crate::host::Host;
use esker::internals::env::FileSystem;
use esker::internals::format::file_name::{self, FileType, parse_file_name};
use esker::internals::table::TableReader;
use esker::options::load_latest_options_from;
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyOptions, DbOptions, DbPath, FileNumber, Options, RepairSummary,
    comparator, repair_db,
};
use std::io::Write;
use std::path::Path;

/// Keeps readable data; moves the rest to `lost`.
pub(super) fn repair(common: &Common, verbose: bool, host: &Host, out: &mut Out) -> CommandOutcome {
    let path = db_path(common)?;
    // A directory without CURRENT counts as a database to be created.
    let has_current = host.fs().file_exists(&file_name::current_file_name(path))?;
    let (options, families) = match Session::new(common, host) {
        Ok(session) if has_current => (session.options.clone(), session.families().to_vec()),
        // Repairs work without a readable MANIFEST or OPTIONS file.
        _ => {
            let wal_dir = host.wal_dir_of(path);
            let db_paths = db_paths(common)?;
            let families = known_families(path, &db_paths, host.fs());
            (DbOptions { wal_dir, db_paths, ..host.db_options() }, families)
        }
    };
    let cf = families.first().map(|f| f.options.clone()).unwrap_or_default();
    let comparator = ColumnFamilyOptions::default().comparator;
    let options = Options { db: options, cf: ColumnFamilyOptions { comparator, ..cf } };
    let summary = repair_db(&options, path, &families)
        .map_err(|e| Failure::new(format_args!("{e}; nothing was changed before the new MANIFEST")))?;
    tell(&summary, verbose, out)
}

/// The families that the OPTIONS file or a readable table names.
fn known_families(path: &Path, db_paths: &[DbPath], fs: &dyn FileSystem) -> Vec<ColumnFamilyDescriptor> {
    let mut families: Vec<ColumnFamilyDescriptor> = match load_latest_options_from(fs, path) {
        Ok(loaded) => {
            let described = loaded.families.into_iter();
            described.map(|(name, options)| ColumnFamilyDescriptor::new(name, options)).collect()
        }
        Err(_) => Vec::new(),
    };
    let dirs = [path].into_iter().chain(db_paths.iter().map(|path| path.path.as_path()));
    let names_in = |dir: &Path| fs.children(dir).unwrap_or_default();
    for (dir, name) in dirs.flat_map(|dir| names_in(dir).into_iter().map(move |name| (dir, name))) {
        let Some((FileType::Table, number)) = parse_file_name(&name) else { continue };
        let table = file_name::table_file_name(dir, number);
        let properties = fs.file_size(&table).and_then(|size| {
            fs.new_random_access_file(&table).and_then(|file| TableReader::properties_of(file, size))
        });
        let Ok(properties) = properties else { continue };
        let Some(order) = comparator::by_name(&properties.comparator_name) else { continue };
        let name = match properties.column_family_name.as_str() {
            "" => "default",
            name => name,
        };
        if !families.iter().any(|f| f.name == name) {
            let options = ColumnFamilyOptions { comparator: order, ..ColumnFamilyOptions::default() };
            families.push(ColumnFamilyDescriptor::new(name, options));
        }
    }
    families
}

fn tell(summary: &RepairSummary, verbose: bool, out: &mut Out) -> CommandOutcome {
    if verbose {
        let wals = summary.wals.len();
        writeln!(
            out,
            "{} tables kept; {} operations of {wals} WALs in {} new tables; families: {}; last sequence number {}",
            summary.tables_kept.len(),
            summary.wal_records,
            summary.tables_from_wals.len(),
            summary.families.join(", "),
            summary.last_sequence
        )?;
    }
    for (id, name, new_name) in &summary.families_renamed {
        writeln!(out, "note: column family {id} was '{name}', as a younger one is; it is '{new_name}' now")?;
    }
    for (number, why) in &summary.tables_lost {
        writeln!(out, "lost: table {}: {why}", name_of(*number))?;
    }
    for (number, why) in &summary.blobs_lost {
        writeln!(out, "lost: blob file {number:06}.blob: {why}")?;
    }
    for (number, why) in &summary.wals_damaged {
        writeln!(out, "damaged: WAL {number:06}.log: {why}")?;
    }
    if summary.wal_records_without_family > 0 {
        writeln!(
            out,
            "lost: {} operations in WALs for column families of which nothing else is left",
            summary.wal_records_without_family
        )?;
    }
    for xid in &summary.prepared_transactions_lost {
        writeln!(out, "lost: the prepared transaction '{}'", xid.escape_ascii())?;
    }
    for (older, newer) in &summary.order_unsure {
        writeln!(out, "note: which of {} and {} is newer is not certain", name_of(*older), name_of(*newer))?;
    }
    Ok(writeln!(out, "OK")?)
}

fn name_of(number: FileNumber) -> String {
    format!("{number:06}.sst")
}
