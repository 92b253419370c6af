//! Text forms of single files: `dump --path` prints one file without a database, and
//! `dump_live_files` prints all live files of a database.

use super::session::Session;
use super::{Out, logs};
use crate::blob_dump::{BlobForms, Form};
use crate::failure::{CommandOutcome, Failure};
use crate::host::Host;
use crate::sst_dump;
use crate::table_text::properties_lines;
use crate::text::{EntryForm, append_entry, before_all_versions, is_at_or_behind, parse_hex};
use clap::Args;
use esker::internals::format::cursor::InternalIterator;
use esker::internals::format::file_name::{FileType, descriptor_file_name, parse_file_name};
use esker::internals::format::key::user_key;
use esker::internals::table::TableReadOptions;
use esker::internals::version::read_current;
use std::io::Write;
use std::path::Path;

/// The forms in which keys and values are printed.
#[derive(Clone, Copy, Default)]
pub(super) struct How {
    pub(super) key_hex: bool,
    pub(super) value_hex: bool,
    pub(super) decode_blob_index: bool,
    /// Whether blob files are printed with decompressed values.
    pub(super) dump_uncompressed_blobs: bool,
}

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(super) struct LiveFilesOptions {
    /// Decode blob indexes to text
    #[arg(long)]
    decode_blob_index: bool,
    /// Print decompressed values of blob files
    #[arg(long)]
    dump_uncompressed_blobs: bool,
}

/// Keys to begin at and to stop before, in a table.
type Bounds<'a> = (&'a Option<String>, &'a Option<String>);

/// Prints the file at `path`. The file's name gives its type.
/// # Errors
/// The name is not that of a WAL, table, MANIFEST or blob file · `bounds` for a file that is no
/// table · errors of the file.
pub(super) fn dump(path: &Path, how: How, bounds: Bounds<'_>, host: &Host, out: &mut Out) -> CommandOutcome {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some((kind, _)) = parse_file_name(name) else {
        return Err(Failure::new(format_args!("Can't parse file type: {}", path.display())));
    };
    if kind != FileType::Table && (bounds.0.is_some() || bounds.1.is_some()) {
        return Err(Failure::new("--from and --to need a table in --path"));
    }
    match kind {
        FileType::Wal => logs::dump_wal_file(path, true, true, host, out),
        FileType::Table => table(path, how, bounds, host, out),
        FileType::Descriptor => logs::dump_manifest_file(path, false, how.key_hex, host, out),
        FileType::Blob => blob_file(path, how, host, out),
        _ => Err(Failure::new(format_args!("File type not supported: {}", path.display()))),
    }
}

fn blob_file(path: &Path, how: How, host: &Host, out: &mut Out) -> CommandOutcome {
    let form = |is_hex| if is_hex { Form::Hex } else { Form::Raw };
    let (stored, value) = match how.dump_uncompressed_blobs {
        true => (Form::None, form(how.value_hex)),
        false => (form(how.value_hex), Form::None),
    };
    let shown = BlobForms { key: form(how.key_hex), stored, value, summary: true };
    crate::blob_dump::dump(host.fs(), path, shown, out)
}

fn table(path: &Path, how: How, (from, to): Bounds<'_>, host: &Host, out: &mut Out) -> CommandOutcome {
    let key = |text: &Option<String>| match text {
        Some(text) if how.key_hex => parse_hex(text, "key").map(Some),
        text => Ok(text.clone().map(String::into_bytes)),
    };
    let (from, to) = (key(from)?, key(to)?);
    let here = |e: esker::Error| Failure::new(e.at(path.display()));
    writeln!(out, "Process {}", path.display())?;
    let reader = sst_dump::open(host.fs(), path).map_err(here)?;
    writeln!(out, "Sst file format: block-based")?;
    let mut iter = reader.iter(TableReadOptions { fill_cache: false, ..TableReadOptions::default() });
    match &from {
        Some(from) => iter.seek(&before_all_versions(from, reader.icmp())),
        None => iter.seek_to_first(),
    }
    // RocksDB prints both keys and values in hexadecimal digits, or neither.
    let form =
        EntryForm { key_hex: how.key_hex, value_hex: how.key_hex, decode_blob_index: how.decode_blob_index };
    let is_in_range =
        |key: &[u8]| to.as_ref().is_none_or(|to| !is_at_or_behind(user_key(key), to, reader.icmp()));
    let mut line = Vec::new();
    while iter.valid() && is_in_range(iter.key()) {
        line.clear();
        append_entry(iter.key(), iter.value(), form, &mut line);
        out.write_all(&line)?;
        iter.next();
    }
    iter.status().map_err(here)?;
    Ok(writeln!(out, "\nTable Properties:\n{}", properties_lines(&reader))?)
}

/// Prints the MANIFEST, the tables and blob files of each family, and the WALs.
pub(super) fn dump_live_files(
    session: &Session,
    options: &LiveFilesOptions,
    host: &Host,
    out: &mut Out,
) -> CommandOutcome {
    const RULE: &str = "==============================";
    const THIN_RULE: &str = "------------------------------";
    let how = How {
        decode_blob_index: options.decode_blob_index,
        dump_uncompressed_blobs: options.dump_uncompressed_blobs,
        ..How::default()
    };
    let db = session.open_for_read_only()?.db;
    let dir = session.path();
    let manifest = descriptor_file_name(dir, read_current(host.fs(), dir)?);
    writeln!(out, "Manifest File\n{RULE}\n{}", manifest.display())?;
    logs::dump_manifest_file(&manifest, false, false, host, out)?;
    writeln!(out)?;
    for name in db.column_family_names() {
        let Some(family) = db.column_family(&name).map(|family| db.column_family_metadata(&family)) else {
            continue;
        };
        writeln!(out, "Column family name: {name}\n{RULE}\n\nSST Files\n{RULE}")?;
        for (level, file) in family.levels.iter().flat_map(|l| l.files.iter().map(|file| (l.level, file))) {
            let path = file.directory.join(&file.relative_filename);
            writeln!(out, "{} level:{level}\n{THIN_RULE}", path.display())?;
            table(&path, how, (&None, &None), host, out)?;
            writeln!(out)?;
        }
        writeln!(out, "Blob Files\n{RULE}")?;
        for blob in &family.blob_files {
            let path = Path::new(&blob.blob_file_path).join(&blob.blob_file_name);
            writeln!(out, "{}\n{THIN_RULE}", path.display())?;
            blob_file(&path, how, host, out)?;
            writeln!(out)?;
        }
    }
    writeln!(out, "\nWrite Ahead Log Files\n{RULE}")?;
    let wal_dir = session.options.wal_dir.as_deref().unwrap_or(dir);
    for wal in db.sorted_wal_files()? {
        let path = wal_dir.join(wal.path_name.trim_start_matches('/'));
        writeln!(out, "{}", path.display())?;
        logs::dump_wal_file(&path, true, true, host, out)?;
    }
    Ok(())
}
