//! Commands on single log files, without an open database: dump_wal, manifest_dump,
//! file_checksum_dump, compaction_progress_dump.

use super::session::db_path;
use super::{Common, Out};
use crate::failure::{CommandOutcome, Failure};
use crate::host::Host;
use crate::manifest::{ManifestFileSource, ManifestState, edit_text};
use crate::text::hex;
use clap::Args;
use esker::internals::base::{SequenceNumber, ValueType};
use esker::internals::env::FileSystem;
use esker::internals::format::compaction_progress::{CompactionProgress, LevelProgress};
use esker::internals::format::file_name::{FileType, descriptor_file_name, parse_file_name};
use esker::internals::format::key::ParsedInternalKey;
use esker::internals::format::log::{LogEvent, LogReader, next_strict};
use esker::internals::format::version_edit::BlobFileAddition;
use esker::internals::format::write_batch::WriteBatchView;
use esker::internals::version::read_current;
use esker::{BatchOp, Error};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(super) struct DumpWalOptions {
    /// Path of the WAL
    #[arg(long)]
    walfile: PathBuf,
    /// Print a line of column names first
    #[arg(long)]
    header: bool,
    /// Print values, too
    #[arg(long)]
    print_value: bool,
    /// Accepted for scripts; has no effect: all write policies are printed alike
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    write_committed: Option<bool>,
}

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(super) struct ManifestDumpOptions {
    /// Path of a MANIFEST file; default: the only MANIFEST of the database in --db
    #[arg(long)]
    path: Option<PathBuf>,
    /// Print each version edit, too
    #[arg(long)]
    verbose: bool,
}

/// Prints the records of a compaction that can be resumed, in the form of RocksDB 11.8's command.
/// # Errors
/// A damaged record, which RocksDB's command passes over. A record torn at the end counts as none.
pub(super) fn compaction_progress_dump(path: &Path, host: &Host, out: &mut Out) -> CommandOutcome {
    let file = host
        .fs()
        .new_sequential_file(path)
        .map_err(|e| Failure::new(format_args!("Failed to open compaction progress file {e}")))?;
    writeln!(out, "Compaction Progress File: {}", path.display())?;
    writeln!(out, "============================================")?;
    let mut log = LogReader::new(ManifestFileSource(file), 0);
    let (mut record, mut count) = (Vec::new(), 0);
    while next_strict(&mut log, &mut record, &path.display())? {
        if let Some(progress) = CompactionProgress::decode(&record).map_err(|e| e.at(path.display()))? {
            writeln!(out, "Progress Record {count}:\n{}", progress_text(&progress))?;
            count += 1;
        }
    }
    match count {
        0 => writeln!(out, "No valid records found in the compaction progress file.")?,
        _ => writeln!(out, "\nTotal records: {count}")?,
    }
    Ok(())
}

fn progress_text(progress: &CompactionProgress) -> String {
    let level = |level: &LevelProgress| {
        format!(
            "SubcompactionProgressPerLevel{{ num_processed_output_records={}, output_files_count={}, \
             last_persisted_output_files_count=0 }}",
            level.output_records,
            level.files.len()
        )
    };
    let next = match ParsedInternalKey::parse(&progress.next_key) {
        Ok(key) => {
            let sequence = match key.sequence {
                SequenceNumber::MAX => "kMaxSequenceNumber".to_owned(),
                sequence => sequence.to_string(),
            };
            let value_type = match key.value_type {
                ValueType::SEEK => "kValueTypeForSeek".to_owned(),
                other => (other as u8).to_string(),
            };
            format!("user_key(hex)={}, seq={sequence}, type={value_type}", hex(key.user_key))
        }
        Err(_) if progress.next_key.is_empty() => String::new(),
        Err(_) => format!("raw={}", hex(&progress.next_key)),
    };
    format!(
        "SubcompactionProgress{{ next_internal_key_to_compact={next}, num_processed_input_records={}, \
         output_level_progress={}, proximal_output_level_progress={} }}",
        progress.input_records,
        level(&progress.output),
        level(&progress.proximal)
    )
}

pub(super) fn dump_wal(options: &DumpWalOptions, host: &Host, out: &mut Out) -> CommandOutcome {
    dump_wal_file(&options.walfile, options.header, options.print_value, host, out)
}

/// Prints the batches of the WAL at `path`, with a line of column names if `header` is set.
pub(super) fn dump_wal_file(
    path: &Path,
    header: bool,
    print_value: bool,
    host: &Host,
    out: &mut Out,
) -> CommandOutcome {
    let fs = host.fs();
    let file = fs
        .new_sequential_file(path)
        .map_err(|e| Failure::new(format_args!("Failed to open WAL file {e}")))?;
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    let number = parse_file_name(name).map_or(0, |(_, number)| number.0);
    if header {
        let values = if print_value { " : value " } else { "" };
        writeln!(out, "Sequence,Count,ByteSize,Physical Offset,Key(s){values}")?;
    }
    let mut log = LogReader::new(ManifestFileSource(file), number);
    let (mut record, mut row) = (Vec::new(), String::new());
    let mut damage = None;
    loop {
        match log.next_record(&mut record)? {
            LogEvent::Record { offset } => {
                let batch = WriteBatchView::parse(&record).map_err(|e| e.at(format_args!("offset {offset}")));
                let batch = batch.map_err(|e| e.at(path.display()))?;
                row.clear();
                append_row(&batch, offset, print_value, &mut row)?;
                writeln!(out, "{row}")?;
            }
            LogEvent::End => break,
            // A torn end is no error: a killed process leaves one.
            LogEvent::Truncated { .. } => {}
            event => damage = damage.or_else(|| event.to_error(&path.display())),
        }
    }
    damage.map_or(Ok(()), |error: Error| {
        Err(Failure::new(format_args!("Corruption detected in log file {error}")))
    })
}

fn append_row(batch: &WriteBatchView<'_>, offset: u64, values: bool, row: &mut String) -> CommandOutcome {
    let head =
        format_args!("{},{},{},{offset},", batch.sequence(), batch.count(), batch.data().len()).to_string();
    row.push_str(&head);
    for op in batch.iter() {
        append_op(&op, values, row).map_err(|_| Failure::new("out of memory"))?;
    }
    Ok(())
}

fn append_op(op: &BatchOp<'_>, values: bool, row: &mut String) -> std::fmt::Result {
    let mut entry = |what: &str, family: esker::ColumnFamilyId, key: &[u8], value: Option<&[u8]>| {
        write!(row, "{what}({family}) : 0x{} ", hex(key))?;
        match value {
            Some(value) if values => write!(row, ": 0x{} ", hex(value)),
            _ => Ok(()),
        }
    };
    match *op {
        BatchOp::Put { family, key, value } => entry("PUT", family, key, Some(value)),
        BatchOp::Merge { family, key, operand } => entry("MERGE", family, key, Some(operand)),
        BatchOp::PutEntity { family, key, entity } => entry("PUT_ENTITY", family, key, Some(entity)),
        BatchOp::TimedPut { family, key, value, .. } => entry("TIMED_PUT", family, key, Some(value.value())),
        BatchOp::BlobIndex { family, key, index } => entry("PUT_BLOB_INDEX", family, key, Some(index)),
        BatchOp::Delete { family, key } => entry("DELETE", family, key, None),
        BatchOp::SingleDelete { family, key } => entry("SINGLE_DELETE", family, key, None),
        BatchOp::DeleteRange { family, begin, end } => {
            write!(row, "DELETE_RANGE({family}) : 0x{} 0x{} ", hex(begin), hex(end))
        }
        BatchOp::LogData(bytes) => write!(row, "LOG_DATA : 0x{} ", hex(bytes)),
        BatchOp::BeginPrepare(_) => row.write_str("BEGIN_PREPARE "),
        BatchOp::EndPrepare { xid } => write!(row, "END_PREPARE(0x{}) ", hex(xid)),
        BatchOp::Commit { xid } | BatchOp::CommitWithTimestamp { xid, .. } => {
            write!(row, "COMMIT(0x{}) ", hex(xid))
        }
        BatchOp::Rollback { xid } => write!(row, "ROLLBACK(0x{}) ", hex(xid)),
        BatchOp::Noop => row.write_str("NOOP "),
    }
}

pub(super) fn manifest_dump(
    common: &Common,
    options: &ManifestDumpOptions,
    host: &Host,
    out: &mut Out,
) -> CommandOutcome {
    let fs = host.fs();
    let path = match &options.path {
        Some(path) => path.clone(),
        None => the_manifest(fs, db_path(common)?)?,
    };
    dump_manifest_file(&path, options.verbose, common.hex, host, out)
}

/// Prints the state at the end of the MANIFEST at `path`; with `verbose` each edit, too.
pub(super) fn dump_manifest_file(
    path: &Path,
    verbose: bool,
    is_hex: bool,
    host: &Host,
    out: &mut Out,
) -> CommandOutcome {
    if verbose {
        writeln!(out, "Processing Manifest file {}", path.display())?;
    }
    let mut edits = Vec::new();
    let state = ManifestState::read(host.fs(), path, &mut |edit| {
        if verbose {
            edits.extend_from_slice(&edit_text(edit, is_hex));
        }
        Ok(())
    });
    out.write_all(&edits)?;
    let state =
        state.map_err(|e| Failure::new(format_args!("Error in processing file {} {e}", path.display())))?;
    out.write_all(&state.to_text(is_hex))?;
    if verbose {
        writeln!(out, "Processing Manifest file {} done", path.display())?;
    }
    Ok(())
}

/// Prints number, function and checksum of each live table and blob file.
pub(super) fn file_checksum_dump(
    common: &Common,
    path: Option<&Path>,
    host: &Host,
    out: &mut Out,
) -> CommandOutcome {
    let fs = host.fs();
    let path = match path {
        Some(path) => path.to_owned(),
        None => {
            let dir = db_path(common)?;
            descriptor_file_name(dir, read_current(fs, dir)?)
        }
    };
    let state = ManifestState::read(fs, &path, &mut |_| Ok(()))?;
    let mut checksums: BTreeMap<u64, (&[u8], &str)> = BTreeMap::new();
    for family in state.families.values() {
        for file in family.levels.values().flatten() {
            let checksum = file.file_checksum.as_ref().map(|(sum, function)| (&sum[..], &function[..]));
            checksums.insert(file.number.0, checksum.unwrap_or((&[], "Unknown")));
        }
        for (number, blob) in &family.blob_files {
            let BlobFileAddition { checksum_method, checksum_value, .. } = &blob.addition;
            let function = if checksum_method.is_empty() { "Unknown" } else { checksum_method };
            checksums.insert(number.0, (checksum_value, function));
        }
    }
    for (number, (checksum, function)) in checksums {
        write!(out, "{number}, {function}, ")?;
        match common.hex {
            true => write!(out, "0x{}", hex(checksum))?,
            false => out.write_all(checksum)?,
        }
        writeln!(out)?;
    }
    Ok(writeln!(out, "Print SST file checksum information finished ")?)
}

/// The only MANIFEST in a directory.
fn the_manifest(fs: &dyn FileSystem, dir: &Path) -> CommandOutcome<PathBuf> {
    let names = fs.children(dir)?;
    let mut found = names
        .iter()
        .filter_map(|name| parse_file_name(name))
        .filter(|(kind, _)| *kind == FileType::Descriptor)
        .map(|(_, number)| descriptor_file_name(dir, number));
    match (found.next(), found.next()) {
        (Some(path), None) => Ok(path),
        (None, _) => Err(Failure::new(format_args!("No MANIFEST found in {}", dir.display()))),
        (Some(_), Some(_)) => Err(Failure::new("Multiple MANIFEST files found; use --path to select one")),
    }
}
