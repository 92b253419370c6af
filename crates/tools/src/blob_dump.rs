//! `esker blob_dump`: the records of a blob file, as RocksDB's `blob_dump` prints them.
//!
//! In: a blob file, finished or not. Out: its header, its footer, its records. Damage is named with
//! file and offset on standard error, and the exit code is 1.
//!
//! Intended differences: all bytes are printed, while RocksDB's tool stops at the first zero byte;
//! the checksum of each record is checked.

use crate::failure::{CommandOutcome, Failure};
use crate::host::Host;
use crate::text::hex;
use clap::{Args, ValueEnum};
use esker::internals::env::{FileSystem, RandomAccessFile};
use esker::internals::format::blob::file::{
    BlobFileFooter, BlobFileHeader, BlobRecordHeader, FOOTER_BYTES, HEADER_BYTES, RECORD_HEADER_BYTES,
};
use esker::internals::format::compression::{CompressionType, Decompressor};
use esker::{Error, Result};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct BlobDumpOptions {
    /// A blob file
    #[arg(long)]
    file: PathBuf,
    /// Form of keys
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_value = "raw", default_missing_value = "raw")]
    show_key: Form,
    /// Form of values as they are stored
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "hex")]
    show_blob: Form,
    /// Form of decompressed values
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "hex")]
    show_uncompressed_blob: Form,
    /// Print sums over all records at the end
    #[arg(long)]
    show_summary: bool,
}

/// A form in which bytes are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Form {
    /// Not at all; without keys no record is printed
    None,
    /// As they are
    Raw,
    /// As hexadecimal digits
    Hex,
    /// As hexadecimal digits beside printable characters
    Detail,
}

/// The parts of a blob file to print, and their forms.
#[derive(Clone, Copy)]
pub(crate) struct BlobForms {
    pub(crate) key: Form,
    /// The value as it is stored.
    pub(crate) stored: Form,
    /// The decompressed value.
    pub(crate) value: Form,
    pub(crate) summary: bool,
}

pub(crate) fn run(options: &BlobDumpOptions, host: &Host) -> CommandOutcome {
    let shown = BlobForms {
        key: options.show_key,
        stored: options.show_blob,
        value: options.show_uncompressed_blob,
        summary: options.show_summary,
    };
    let mut out = BufWriter::with_capacity(64 << 10, host.output());
    let done = dump(host.fs(), &options.file, shown, &mut out);
    done.and(out.flush().map_err(Failure::from))
}

#[derive(Default)]
struct Sums {
    records: u64,
    key_bytes: u64,
    stored_bytes: u64,
    value_bytes: u64,
}

/// Prints the blob file at `path`. Costs one read of the header, the footer and of each record.
/// # Errors
/// `Corruption` of header, footer or a record, with file and offset; records before it are printed.
pub(crate) fn dump(
    fs: &dyn FileSystem,
    path: &Path,
    shown: BlobForms,
    out: &mut dyn Write,
) -> CommandOutcome {
    let at =
        |offset: u64| move |e: Error| Failure::new(e.at(format_args!("{}, offset {offset}", path.display())));
    let size = fs.file_size(path)?;
    if size == 0 {
        return Err(Failure::new(Error::corruption("File is empty.").at(path.display())));
    }
    let file = fs.new_random_access_file(path)?;
    let header =
        read(file.as_ref(), 0, HEADER_BYTES as u64, size).and_then(|bytes| BlobFileHeader::parse(&bytes));
    let header = header.map_err(at(0))?;
    let compression = CompressionType::from_u8(header.compression);
    let name = match &compression {
        Ok(known) => known.option_name().to_owned(),
        Err(_) => format!("Unrecongnized compression type ({})", header.compression),
    };
    writeln!(out, "Blob log header:\n  Version          : 1\n  Column Family ID : {}", header.column_family)?;
    writeln!(out, "  Compression      : {name}\n  Expiration range : nil")?;
    let end = dump_footer(file.as_ref(), size, out)?;
    let mut sums = Sums::default();
    let mut offset = HEADER_BYTES as u64;
    while (shown.key != Form::None || shown.summary) && offset < end {
        if shown.key != Form::None {
            writeln!(out, "Read record with offset 0x{offset:x} ({offset}):")?;
        }
        let record = read_record(file.as_ref(), offset, end).map_err(at(offset))?;
        let needs_value = shown.summary || shown.value != Form::None;
        let value = match &compression {
            Ok(CompressionType::None) => record.stored.clone(),
            Ok(codec) if needs_value => {
                Decompressor::new(2).decompress(*codec, &record.stored).map_err(at(offset))?
            }
            Err(e) if needs_value => return Err(at(0)(e.clone())),
            _ => Vec::new(),
        };
        print_record(&record, &value, shown, out)?;
        sums.records += 1;
        sums.key_bytes += record.key.len() as u64;
        sums.stored_bytes += record.stored.len() as u64;
        sums.value_bytes += value.len() as u64;
        offset += (RECORD_HEADER_BYTES + record.key.len() + record.stored.len()) as u64;
    }
    if shown.summary {
        writeln!(out, "Summary:\n  total records: {}", sums.records)?;
        writeln!(out, "  total key size: {}\n  total blob size: {}", sums.key_bytes, sums.stored_bytes)?;
        if !matches!(compression, Ok(CompressionType::None)) {
            writeln!(out, "  total raw blob size: {}", sums.value_bytes)?;
        }
    }
    Ok(())
}

/// Prints the footer and returns its offset: the end of the records. A file without a footer, which
/// a killed process leaves, ends with its last record.
fn dump_footer(file: &dyn RandomAccessFile, size: u64, out: &mut dyn Write) -> CommandOutcome<u64> {
    let footer = (size >= (HEADER_BYTES + FOOTER_BYTES) as u64).then(|| size - FOOTER_BYTES as u64);
    if let Some(offset) = footer
        && let Ok(footer) = BlobFileFooter::parse(&read(file, offset, FOOTER_BYTES as u64, size)?)
    {
        writeln!(out, "Blob log footer:\n  Blob count       : {}", footer.blob_count)?;
        writeln!(out, "  Expiration Range : nil")?;
        return Ok(offset);
    }
    writeln!(out, "No blob log footer.")?;
    Ok(size)
}

struct Record {
    key: Vec<u8>,
    stored: Vec<u8>,
}

fn read_record(file: &dyn RandomAccessFile, offset: u64, end: u64) -> Result<Record> {
    let header = BlobRecordHeader::parse(&read(file, offset, RECORD_HEADER_BYTES as u64, end)?)?;
    let bytes = header.key_bytes.saturating_add(header.value_bytes);
    let mut key = read(file, offset + RECORD_HEADER_BYTES as u64, bytes, end)?;
    let stored = key.split_off(header.key_bytes as usize);
    header.check(&key, &stored)?;
    Ok(Record { key, stored })
}

/// The `bytes` bytes at `offset`, which must lie before `end`.
fn read(file: &dyn RandomAccessFile, offset: u64, bytes: u64, end: u64) -> Result<Vec<u8>> {
    let cut_off = || Error::corruption("Reach the end of the file unexpectedly.");
    if offset.checked_add(bytes).is_none_or(|behind| behind > end) {
        return Err(cut_off());
    }
    let mut buffer = vec![0; bytes as usize];
    match file.read_at(offset, &mut buffer)? {
        n if n == buffer.len() => Ok(buffer),
        _ => Err(cut_off()),
    }
}

fn print_record(record: &Record, value: &[u8], shown: BlobForms, out: &mut dyn Write) -> CommandOutcome {
    if shown.key == Form::None {
        return Ok(());
    }
    writeln!(out, "  key size   : {}", record.key.len())?;
    writeln!(out, "  value size : {}\n  expiration : 0", record.stored.len())?;
    print_bytes("  key        : ", &record.key, shown.key, out)?;
    print_bytes("  blob       : ", &record.stored, shown.stored, out)?;
    print_bytes("  raw blob   : ", value, shown.value, out)
}

fn print_bytes(title: &str, bytes: &[u8], form: Form, out: &mut dyn Write) -> CommandOutcome {
    if form != Form::None {
        write!(out, "{title}")?;
    }
    match form {
        Form::None => {}
        Form::Raw => {
            out.write_all(bytes)?;
            out.write_all(b"\n")?;
        }
        Form::Hex => writeln!(out, "{}", hex(bytes))?,
        Form::Detail => {
            for (i, row) in bytes.chunks(16).enumerate() {
                // The title takes the place of the first row's margin.
                let margin = if i == 0 { 0 } else { 15 };
                let digits: String = row.iter().map(|byte| format!("{byte:02x} ")).collect();
                let is_printable = |byte: &u8| (0x20..=0x7E).contains(byte);
                let text: String =
                    row.iter().map(|byte| if is_printable(byte) { char::from(*byte) } else { '.' }).collect();
                writeln!(out, "{:margin$}{digits:<50}{text:<34}", "")?;
            }
        }
    }
    Ok(())
}
