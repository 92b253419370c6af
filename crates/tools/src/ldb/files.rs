//! Commands that bring entries in or out as files: load, write_extern_sst, ingest_extern_sst.
//!
//! In: lines `KEY ==> VALUE` on standard input, as `dump` prints them; or a table. Lines of another form are counted.

use super::Out;
use super::session::Session;
use crate::failure::{Failure, Outcome};
use crate::host::Host;
use clap::Args;
use esker::{CompactRangeOptions, IngestExternalFileOptions, Options, SstFileWriter, WriteOptions};
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

/// Between key and value.
const DELIMITER: &str = " ==> ";
/// How lines begin that `dump` adds.
const NO_ENTRIES: [&str; 2] = ["Keys in range:", "Created bg thread 0x"];

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(super) struct LoadOptions {
    /// Leave the WAL out: what is not flushed when the machine fails is lost
    #[arg(long)]
    disable_wal: bool,
    /// Compact everything afterwards
    #[arg(long)]
    compact: bool,
}

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(super) struct IngestOptions {
    /// The table, as write_extern_sst makes it
    input_sst_path: PathBuf,
    /// Take the file over by a hard link
    #[arg(long)]
    move_files: bool,
    /// Snapshots taken before do not see it
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true")]
    snapshot_consistency: bool,
    /// It may be given a sequence number
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true")]
    allow_global_seqno: bool,
    /// Memtables may be flushed for it
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true")]
    allow_blocking_flush: bool,
}

/// Calls `take` with each entry on standard input; how many lines were none.
fn read_entries(
    session: &Session,
    host: &Host,
    mut take: impl FnMut(&[u8], &[u8]) -> Outcome,
) -> Outcome<u64> {
    let mut bad_lines = 0;
    for line in host.input().lines() {
        let line = line?;
        match line.split_once(DELIMITER) {
            Some((key, value)) => take(&session.parse_key(key)?, &session.parse_value(value)?)?,
            None if NO_ENTRIES.iter().any(|start| line.starts_with(start)) => {}
            None => bad_lines += 1,
        }
    }
    Ok(bad_lines)
}

fn tell_bad_lines(bad_lines: u64, out: &mut Out) -> Outcome {
    match bad_lines {
        0 => Ok(()),
        count => Ok(writeln!(out, "Warning: {count} bad lines ignored.")?),
    }
}

pub(super) fn load(session: &Session, options: &LoadOptions, host: &Host, out: &mut Out) -> Outcome {
    let opened = session.open()?;
    let write = WriteOptions::default().disable_wal(options.disable_wal);
    let failed = |e: esker::Error| Failure::new(format_args!("Load failed: {e}"));
    let bad_lines = read_entries(session, host, |key, value| {
        opened.db.put_opt(&write, &opened.family, key, value).map_err(failed)
    })?;
    tell_bad_lines(bad_lines, out)?;
    if options.compact {
        let whole = CompactRangeOptions::default();
        let compacted = opened.db.compact_range_opt(&whole, &opened.family, None, None);
        compacted.map_err(|e| Failure::new(format_args!("Compaction failed: {e}")))?;
    }
    Ok(opened.db.close()?)
}

pub(super) fn write_extern_sst(session: &Session, path: &Path, host: &Host, out: &mut Out) -> Outcome {
    let opened = session.open_for_read_only()?;
    let options = Options { db: session.options.clone(), cf: opened.db.options_cf(&opened.family) };
    let mut writer = SstFileWriter::new(&options);
    writer.open(path).map_err(|e| Failure::new(format_args!("failed to open SST file: {e}")))?;
    let failed = |e: esker::Error| Failure::new(format_args!("failed to write record to file: {e}"));
    let bad_lines = read_entries(session, host, |key, value| writer.put(key, value).map_err(failed))?;
    writer.finish().map_err(|e| Failure::new(format_args!("Failed to finish writing to file: {e}")))?;
    tell_bad_lines(bad_lines, out)?;
    Ok(writeln!(out, "external SST file written to {}", path.display())?)
}

pub(super) fn ingest_extern_sst(session: &Session, options: &IngestOptions, out: &mut Out) -> Outcome {
    let opened = session.open()?;
    let how = IngestExternalFileOptions {
        move_files: options.move_files,
        snapshot_consistency: options.snapshot_consistency,
        allow_global_seqno: options.allow_global_seqno,
        allow_blocking_flush: options.allow_blocking_flush,
        ..IngestExternalFileOptions::default()
    };
    let paths = [&options.input_sst_path];
    let taken = opened.db.ingest_external_file_cf(&opened.family, &paths, &how);
    taken.map_err(|e| Failure::new(format_args!("failed to ingest external SST: {e}")))?;
    opened.db.close()?;
    Ok(writeln!(out, "external SST files ingested")?)
}
