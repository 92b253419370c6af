//! `esker sst_dump`: the commands of RocksDB's `sst_dump` that scripts use, with its flags and its
//! output.
//!
//! In: a table file, or a directory of table files. Out: the text that RocksDB 7.8.3's `sst_dump`
//! prints, without the line about its environment. If a file is damaged, standard error names the
//! first such file, and the exit code is 1.
//!
//! Intended differences: files of a directory come in the order of their names. `scan` prints zero
//! bytes like other bytes. Damage that `check`, `scan` or `verify` finds sets the exit code.
//! `verify` parses data blocks, while `verify` of 7.8.3 only compares checksums.

use crate::failure::{CommandOutcome, Failure};
use crate::host::{Host, Stream};
use crate::recompress::{RecompressFlags, Trials};
use crate::table_text::{append_raw_dump, properties_text};
use crate::text::{EntryForm, append_entry, before_all_versions, hex, is_at_or_behind, parse_hex};
use clap::{Args, ValueEnum};
use esker::comparator;
use esker::internals::env::FileSystem;
use esker::internals::format::cursor::InternalIterator;
use esker::internals::format::key::{InternalKeyComparator, user_key};
use esker::internals::table::{TableReadOptions, TableReader, TableReaderOptions};
use esker::{Error, Result};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct SstDumpOptions {
    /// A table file, or a directory with table files
    #[arg(long)]
    file: PathBuf,
    /// Command to run
    #[arg(long, value_enum, default_value = "check")]
    command: Command,
    /// Print keys and values in hexadecimal digits
    #[arg(long)]
    output_hex: bool,
    /// Decode blob indexes to text
    #[arg(long)]
    decode_blob_index: bool,
    /// Key to start at, without a timestamp
    #[arg(long)]
    from: Option<String>,
    /// Key to stop before, without a timestamp
    #[arg(long)]
    to: Option<String>,
    /// Read only keys with this prefix
    #[arg(long, conflicts_with = "from")]
    prefix: Option<String>,
    /// Read --from and --to as 0x…
    #[arg(long)]
    input_key_hex: bool,
    /// Read at most this many entries
    #[arg(long)]
    read_num: Option<u64>,
    /// Accepted for scripts; has no effect: checksums are always checked
    #[arg(long)]
    verify_checksum: bool,
    /// Print properties of the table
    #[arg(long)]
    show_properties: bool,
    /// Print sums over all files at the end
    #[arg(long)]
    show_summary: bool,
    #[command(flatten)]
    recompress: RecompressFlags,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Command {
    /// Read all entries, print none
    Check,
    /// Print all entries
    Scan,
    /// Write everything, block by block, to FILE_dump.txt
    Raw,
    /// Check all blocks, their checksums, the order of keys, the filter
    Verify,
    /// Say how large the table is under other codecs
    Recompress,
    /// Say whether the file is a table
    Identify,
    /// Run no command; obey other flags
    None,
}

impl SstDumpOptions {
    /// Whether the command changes no file.
    pub(crate) fn only_reads(&self) -> bool {
        self.command != Command::Raw
    }
}

type Out = BufWriter<Stream>;

#[derive(Default)]
struct Summary {
    files: u64,
    data_blocks: u64,
    data_size: u64,
    index_size: u64,
    filter_size: u64,
}

pub(crate) fn run(options: &SstDumpOptions, host: &Host) -> CommandOutcome {
    let mut out = BufWriter::with_capacity(64 << 10, host.output());
    let done = dump_all(options, host.fs(), &mut out);
    done.and(out.flush().map_err(Failure::from))
}

fn dump_all(options: &SstDumpOptions, fs: &dyn FileSystem, out: &mut Out) -> CommandOutcome {
    let paths = table_files(fs, &options.file)?;
    let is_directory = paths.first().is_some_and(|p| *p != options.file);
    let range = Range::new(options)?;
    let trials = options.recompress.trials()?;
    if let Some(flag) = options.recompress.given().filter(|_| options.command != Command::Recompress) {
        return Err(Failure::new(format_args!("{flag} needs --command=recompress")));
    }
    let mut left = options.read_num.unwrap_or(u64::MAX);
    let (mut valid, mut damage, mut summary) = (Vec::new(), None, Summary::default());
    let mut announced = false;
    for path in &paths {
        writeln!(out, "Process {}", path.display())?;
        let reader = match open(fs, path) {
            Ok(reader) => reader,
            Err(error) => {
                damage.get_or_insert(not_a_table(path, &error));
                continue;
            }
        };
        writeln!(out, "Sst file format: block-based")?;
        valid.push(path);
        summary.add(&reader);
        if matches!(options.command, Command::Check | Command::Scan)
            && !std::mem::replace(&mut announced, true)
        {
            writeln!(
                out,
                "from [{}] to [{}]",
                hex(&range.from),
                hex(range.to.as_deref().unwrap_or_default())
            )?;
        }
        let done = process(options, (&range, &trials), fs, (&reader, path), &mut left, out)?;
        if let Err(error) = done {
            damage.get_or_insert(Failure::new(format_args!("{}: {error}", path.display())));
        }
        if options.show_properties && options.command != Command::Raw {
            out.write_all(properties_text(&reader, "------------------------------").as_bytes())?;
        }
    }
    if options.command == Command::Identify {
        identify(&options.file, is_directory, &valid, out)?;
    }
    if options.show_summary {
        summary.print(out)?;
    }
    damage.map_or(Ok(()), Err)
}

/// Runs the command on a table. The outer failure ends the program. The inner error is damage of
/// this table.
fn process(
    options: &SstDumpOptions,
    (range, trials): (&Range, &Trials),
    fs: &dyn FileSystem,
    (reader, path): (&Arc<TableReader>, &Path),
    left: &mut u64,
    out: &mut Out,
) -> CommandOutcome<Result<()>> {
    match options.command {
        Command::Check | Command::Scan => scan(options, range, reader, left, out),
        Command::Verify => {
            let verified = reader.verify(&mut |_| true);
            if verified.is_ok() {
                writeln!(out, "The file is ok")?;
            }
            Ok(verified)
        }
        Command::Raw => raw(fs, reader, path, out),
        Command::Recompress => trials.print(reader, out),
        Command::Identify | Command::None => Ok(Ok(())),
    }
}

fn not_a_table(path: &Path, error: &Error) -> Failure {
    let path = path.display();
    Failure::new(format_args!("{path}: {error}\n{path} is not a valid SST file"))
}

/// `path` itself if it is a file; the table files in `path`, sorted by name, if it is a directory.
fn table_files(fs: &dyn FileSystem, path: &Path) -> CommandOutcome<Vec<PathBuf>> {
    let Ok(names) = fs.children(path) else {
        return match fs.file_exists(path)? {
            true => Ok(vec![path.to_owned()]),
            false => {
                Err(Failure::new(format_args!("NotFound: {}: No such file or directory", path.display())))
            }
        };
    };
    let mut names: Vec<String> = names.into_iter().filter(|n| n.ends_with(".sst")).collect();
    names.sort();
    Ok(names.into_iter().map(|name| path.join(name)).collect())
}

/// Opens a table with the comparator of its properties.
pub(crate) fn open(fs: &dyn FileSystem, path: &Path) -> Result<Arc<TableReader>> {
    let size = fs.file_size(path)?;
    let properties = TableReader::properties_of(fs.new_random_access_file(path)?, size)?;
    let name = &properties.comparator_name;
    let order = comparator::by_name(name).ok_or_else(|| {
        Error::not_supported(format!("{}: comparator {name} is not known here", path.display()))
    })?;
    let options = TableReaderOptions::new(InternalKeyComparator::new(order), Arc::default(), size);
    TableReader::open(fs.new_random_access_file(path)?, options)
}

/// The user keys to read.
struct Range {
    from: Vec<u8>,
    to: Option<Vec<u8>>,
    prefix: Option<Vec<u8>>,
}

impl Range {
    fn new(options: &SstDumpOptions) -> CommandOutcome<Range> {
        let key = |text: &Option<String>| match text {
            Some(text) if options.input_key_hex => parse_hex(text, "key").map(Some),
            Some(text) => Ok(Some(text.as_bytes().to_vec())),
            None => Ok(None),
        };
        let prefix = key(&options.prefix)?;
        let from = key(&options.from)?.or_else(|| prefix.clone()).unwrap_or_default();
        Ok(Range { from, to: key(&options.to)?, prefix })
    }

    fn ends_before(&self, key: &[u8], reader: &TableReader) -> bool {
        let beyond = |to: &Vec<u8>| is_at_or_behind(key, to, reader.icmp());
        self.to.as_ref().is_some_and(beyond) || self.prefix.as_ref().is_some_and(|p| !key.starts_with(p))
    }
}

fn scan(
    options: &SstDumpOptions,
    range: &Range,
    reader: &Arc<TableReader>,
    left: &mut u64,
    out: &mut Out,
) -> CommandOutcome<Result<()>> {
    let mut iter = reader.iter(TableReadOptions { fill_cache: false, ..TableReadOptions::default() });
    if range.from.is_empty() {
        iter.seek_to_first();
    } else {
        iter.seek(&before_all_versions(&range.from, reader.icmp()));
    }
    let form = EntryForm {
        key_hex: options.output_hex,
        value_hex: options.output_hex,
        decode_blob_index: options.decode_blob_index,
    };
    let mut line = Vec::new();
    while iter.valid() && *left > 0 && !range.ends_before(user_key(iter.key()), reader) {
        *left -= 1;
        if options.command == Command::Scan {
            line.clear();
            append_entry(iter.key(), iter.value(), form, &mut line);
            out.write_all(&line)?;
        }
        iter.next();
    }
    Ok(iter.status())
}

/// Writes the dump of `FILE.sst` to `FILE_dump.txt` beside it.
fn raw(
    fs: &dyn FileSystem,
    reader: &Arc<TableReader>,
    path: &Path,
    out: &mut Out,
) -> CommandOutcome<Result<()>> {
    let mut contents = Vec::new();
    let dumped = append_raw_dump(reader, &mut contents);
    let text_path = match path.extension() {
        Some(extension) if extension == "sst" => path.with_extension(""),
        _ => path.to_owned(),
    };
    let mut name = text_path.into_os_string();
    name.push("_dump.txt");
    let text_path = PathBuf::from(name);
    let mut file = fs.new_writable_file(&text_path)?;
    file.append(&contents)?;
    file.close()?;
    writeln!(out, "raw dump written to file {}", text_path.display())?;
    Ok(dumped)
}

fn identify(path: &Path, is_directory: bool, valid: &[&PathBuf], out: &mut Out) -> CommandOutcome {
    if !is_directory {
        for path in valid {
            writeln!(out, "{} is a valid SST file", path.display())?;
        }
        return Ok(());
    }
    writeln!(out, "------------------------------")?;
    if valid.is_empty() {
        return Ok(writeln!(out, "No valid SST files found in {}", path.display())?);
    }
    writeln!(out, "List of valid SST files found in {}:", path.display())?;
    for path in valid {
        writeln!(out, "{}", path.display())?;
    }
    Ok(writeln!(out, "Number of valid SST files: {}", valid.len())?)
}

impl Summary {
    fn add(&mut self, reader: &TableReader) {
        let p = reader.properties();
        self.files += 1;
        self.data_blocks += p.num_data_blocks;
        self.data_size += p.data_size;
        self.index_size += p.index_size;
        self.filter_size += p.filter_size;
    }

    fn print(&self, out: &mut Out) -> CommandOutcome {
        writeln!(out, "total number of files: {}", self.files)?;
        writeln!(out, "total number of data blocks: {}", self.data_blocks)?;
        writeln!(out, "total data block size: {}", self.data_size)?;
        writeln!(out, "total index block size: {}", self.index_size)?;
        Ok(writeln!(out, "total filter block size: {}", self.filter_size)?)
    }
}
