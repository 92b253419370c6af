//! `esker ldb repair`: makes a new MANIFEST from tables and WALs, and reports every loss. After a
//! loss the exit code is 1.

use super::session::{Session, db_path, db_paths};
use super::{Common, Out};
use crate::failure::{CommandOutcome, Failure};
use crate::host::Host;
use clap::Args;
use esker::internals::env::FileSystem;
use esker::internals::format::file_name::{self, FileType, parse_file_name};
use esker::internals::table::TableReader;
use esker::options::load_latest_options_from;
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyOptions, DbOptions, DbPath, FileNumber, MissingKeys, Options,
    RepairOptions, RepairSummary, SalvagedTable, comparator, repair_db_with,
};
use std::io::Write;
use std::path::Path;

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(super) struct RepairFlags {
    /// Print the findings even if nothing is lost
    #[arg(long)]
    verbose: bool,
    /// Keep every block of a damaged table whose checksum holds, and name the keys that may be
    /// missing
    #[arg(long)]
    salvage: bool,
    /// Change nothing, and say what a repair would do
    #[arg(long, alias = "dry-run")]
    dry_run: bool,
}

/// Keeps readable data; moves the rest to `lost`.
pub(super) fn repair(common: &Common, flags: &RepairFlags, host: &Host, out: &mut Out) -> CommandOutcome {
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
    let how = RepairOptions::new().salvage(flags.salvage).dry_run(flags.dry_run);
    let summary = repair_db_with(&how, &options, path, &families)
        .map_err(|e| Failure::new(format_args!("{e}; nothing was changed before the new MANIFEST")))?;
    if flags.verbose {
        report_contents(&summary, out)?;
    }
    let is_hex = common.hex || common.key_hex;
    report_losses(&summary, is_hex, out)?;
    if flags.dry_run {
        writeln!(out, "dry run: nothing was changed")?;
    }
    if !summary.has_losses() {
        return Ok(writeln!(out, "OK")?);
    }
    let advice = match summary.tables_lost.is_empty() || flags.salvage {
        true => "",
        false if flags.dry_run => "; --salvage keeps what can be read of tables",
        false => "; move tables from there back and use --salvage to keep what can be read of them",
    };
    let lost = path.join("lost");
    Err(Failure::new(format_args!("data is lost; damaged files are kept in {}{advice}", lost.display())))
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

fn report_contents(summary: &RepairSummary, out: &mut Out) -> CommandOutcome {
    Ok(writeln!(
        out,
        "{} tables kept; {} operations of {} WALs in {} new tables; families: {}; last sequence number {}",
        summary.tables_kept.len(),
        summary.wal_records,
        summary.wals.len(),
        summary.tables_from_wals.len(),
        summary.families.join(", "),
        summary.last_sequence
    )?)
}

fn report_losses(summary: &RepairSummary, is_hex: bool, out: &mut Out) -> CommandOutcome {
    for (id, name, new_name) in &summary.families_renamed {
        writeln!(out, "note: column family {id} was '{name}', as a younger one is; it is '{new_name}' now")?;
    }
    for (number, why) in &summary.tables_lost {
        writeln!(out, "lost: table {}: {why}", name_of(*number))?;
    }
    for (number, why) in &summary.tables_unfinished {
        let name = name_of(*number);
        writeln!(out, "note: table {name} was never finished, and its entries are in other files: {why}")?;
    }
    summary.tables_salvaged.iter().try_for_each(|table| report_table(table, is_hex, out))?;
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
    Ok(())
}

/// Prints the entries kept of a damaged table, and the keys that may be missing.
fn report_table(table: &SalvagedTable, is_hex: bool, out: &mut Out) -> CommandOutcome {
    let SalvagedTable { blocks, blocks_lost, blocks_mended, entries, .. } = table;
    let name = name_of(table.number);
    let into = table.new_number.map_or(String::new(), |number| format!(" in {}", name_of(number)));
    let lost = table.entries_lost.map_or(String::new(), |lost| format!(", {lost} lost"));
    writeln!(
        out,
        "salvaged: table {name} of column family '{}': {entries} entries kept{into}{lost}",
        table.column_family_name
    )?;
    if *blocks_mended > 0 {
        writeln!(out, "  {name}: {blocks_mended} blocks had one flipped bit, which is flipped back")?;
    }
    if table.values_lost > 0 {
        writeln!(out, "  {name}: {} values in blob files are lost", table.values_lost)?;
    }
    for keys in &table.missing {
        let range = range_of(keys, is_hex);
        writeln!(
            out,
            "  {name}: {blocks_lost} of {blocks} blocks bad, keys {range} may be missing: {}",
            keys.error
        )?;
    }
    if let Some(keys) = &table.range_deletions_lost {
        let range = range_of(keys, is_hex);
        writeln!(
            out,
            "  {name}: range deletions are lost; deleted keys {range} may be visible again: {}",
            keys.error
        )?;
    }
    if table.may_reappear && !table.missing.is_empty() {
        writeln!(
            out,
            "  {name}: older versions of these keys may be visible again, also of keys that were deleted"
        )?;
    }
    for (part, why) in &table.damaged {
        writeln!(out, "  {name}: damaged {part}: {why}")?;
    }
    Ok(())
}

/// The text of a range, such as `from 'a' to 'b'`.
fn range_of(keys: &MissingKeys, is_hex: bool) -> String {
    let text = |key: &Option<Vec<u8>>, none: &str| match key {
        None => none.to_owned(),
        Some(key) if is_hex => format!("0x{}", crate::text::hex(key)),
        Some(key) => format!("'{}'", key.escape_ascii()),
    };
    format!("from {} to {}", text(&keys.from, "the first"), text(&keys.to, "the last"))
}

fn name_of(number: FileNumber) -> String {
    format!("{number:06}.sst")
}
