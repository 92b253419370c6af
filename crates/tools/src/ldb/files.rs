//! Commands that read or write files of entries: load, write_extern_sst, ingest_extern_sst.
//!
//! In: lines `KEY ==> VALUE` on standard input, as `dump` prints them, or a table. Other lines
//! count as bad.

use super::Out;
use super::session::{Opened, Session};
use crate::failure::{CommandOutcome, Failure};
use crate::host::Host;
use crate::progress::LongCommand;
use crate::text::parse_bytes;
use clap::Args;
use esker::{
    CompactRangeOptions, FlushOptions, IngestExternalFileOptions, OpenMode, Options, SstFileWriter,
    WriteBatch, WriteOptions,
};
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

/// The text between key and value.
const DELIMITER: &[u8] = b" ==> ";
/// The first words of lines that `dump` prints besides entries.
const NO_ENTRIES: [&[u8]; 2] = [b"Keys in range:", b"Created bg thread 0x"];

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(super) struct LoadOptions {
    /// Skip the WAL: a crash loses unflushed entries
    #[arg(long)]
    disable_wal: bool,
    /// Compact everything afterwards
    #[arg(long)]
    compact: bool,
}

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(super) struct IngestOptions {
    /// Path of a table, as write_extern_sst makes it
    input_sst_path: PathBuf,
    /// Ingest the file by a hard link, not by a copy
    #[arg(long)]
    move_files: bool,
    /// Hide the entries from older snapshots
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true")]
    snapshot_consistency: bool,
    /// Allow a sequence number for the table
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true")]
    allow_global_seqno: bool,
    /// Allow a flush of memtables before the ingestion
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true")]
    allow_blocking_flush: bool,
}

impl IngestOptions {
    /// The files for the progress of the command.
    pub(super) fn long_command(&self) -> Option<LongCommand> {
        Some(LongCommand::over("ingesting", [&self.input_sst_path]))
    }
}

/// Calls `take` with each entry on standard input; returns the number of other lines. Entries may
/// have bytes that are not UTF-8, since `dump` prints raw bytes.
fn read_entries(
    session: &Session,
    host: &Host,
    mut take: impl FnMut(&[u8], &[u8]) -> CommandOutcome,
) -> CommandOutcome<u64> {
    let (mut input, mut line, mut bad_lines) = (host.input(), Vec::new(), 0);
    while input.read_until(b'\n', &mut line)? > 0 {
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        match text.windows(DELIMITER.len()).position(|part| part == DELIMITER) {
            Some(at) => {
                let (key, value) = (&text[..at], &text[at + DELIMITER.len()..]);
                take(
                    &parse_bytes(key, session.key_hex(), "key")?,
                    &parse_bytes(value, session.value_hex(), "value")?,
                )?;
            }
            None if NO_ENTRIES.iter().any(|start| text.starts_with(start)) => {}
            None => bad_lines += 1,
        }
        line.clear();
    }
    Ok(bad_lines)
}

fn report_bad_lines(bad_lines: u64, out: &mut Out) -> CommandOutcome {
    match bad_lines {
        0 => Ok(()),
        count => Ok(writeln!(out, "Warning: {count} bad lines ignored.")?),
    }
}

pub(super) fn load(session: &Session, options: &LoadOptions, host: &Host, out: &mut Out) -> CommandOutcome {
    let write = WriteOptions::default().disable_wal(options.disable_wal);
    let failed = |e: esker::Error| Failure::new(format_args!("Load failed: {e}"));
    let (db, family, bad_lines) = if session.has_ttl() {
        let (db, family) = session.open_with_ttl(OpenMode::ReadWrite)?;
        let bad_lines = read_entries(session, host, |key, value| {
            let mut batch = WriteBatch::new();
            batch.put_cf(family.id(), key, value).and_then(|()| db.write_opt(&write, &batch)).map_err(failed)
        })?;
        (db.base_db().clone(), family, bad_lines)
    } else {
        let Opened { db, family } = session.open()?;
        let bad_lines = read_entries(session, host, |key, value| {
            db.put_opt(&write, &family, key, value).map_err(failed)
        })?;
        (db, family, bad_lines)
    };
    report_bad_lines(bad_lines, out)?;
    if options.disable_wal {
        // A flush here, because the OPTIONS file may forbid the flush at closing.
        db.flush_opt(&FlushOptions::default(), &[&family]).map_err(failed)?;
    }
    if options.compact {
        let compacted = db.compact_range_opt(&CompactRangeOptions::default(), &family, None, None);
        compacted.map_err(|e| Failure::new(format_args!("Compaction failed: {e}")))?;
    }
    Ok(db.close()?)
}

pub(super) fn write_extern_sst(session: &Session, path: &Path, host: &Host, out: &mut Out) -> CommandOutcome {
    if session.has_ttl() {
        return Err(Failure::new("--ttl: external tables get no times; load puts entries in with theirs"));
    }
    let opened = session.open_for_read_only()?;
    let options = Options { db: session.options.clone(), cf: opened.db.options_cf(&opened.family) };
    let mut writer = SstFileWriter::new(&options);
    writer.open(path).map_err(|e| Failure::new(format_args!("failed to open SST file: {e}")))?;
    let failed = |e: esker::Error| Failure::new(format_args!("failed to write record to file: {e}"));
    let bad_lines = read_entries(session, host, |key, value| writer.put(key, value).map_err(failed))?;
    writer.finish().map_err(|e| Failure::new(format_args!("Failed to finish writing to file: {e}")))?;
    report_bad_lines(bad_lines, out)?;
    Ok(writeln!(out, "external SST file written to {}", path.display())?)
}

pub(super) fn ingest_extern_sst(session: &Session, options: &IngestOptions, out: &mut Out) -> CommandOutcome {
    let opened = session.open()?;
    let how = IngestExternalFileOptions {
        move_files: options.move_files,
        snapshot_consistency: options.snapshot_consistency,
        allow_global_seqno: options.allow_global_seqno,
        allow_blocking_flush: options.allow_blocking_flush,
        ..IngestExternalFileOptions::default()
    };
    let paths = [&options.input_sst_path];
    let taken = opened.db.ingest_external_file_opt(&how, &opened.family, &paths);
    taken.map_err(|e| Failure::new(format_args!("failed to ingest external SST: {e}")))?;
    opened.db.close()?;
    Ok(writeln!(out, "external SST files ingested")?)
}
