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
use crate::progress::LongCommand;
use crate::recompress::{RecompressFlags, Trials};
use crate::table_text::{append_raw_dump, properties_in_one, properties_text};
use crate::text::{
    EntryForm, append_entry, append_internal_key, before_all_versions, hex, is_at_or_behind, parse_hex,
};
use clap::{Args, ValueEnum};
use esker::comparator;
use esker::internals::env::FileSystem;
use esker::internals::format::cursor::InternalIterator;
use esker::internals::format::key::{InternalKeyComparator, ParsedInternalKey, user_key};
use esker::internals::table::{TableReadOptions, TableReader, TableReaderOptions};
use esker::{Error, Result};
use regex_lite::Regex;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct SstDumpOptions {
    /// A table file, or a directory with table files; may be repeated
    #[arg(long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Table files, or directories with table files
    #[arg(value_name = "FILE", required_unless_present_any = ["files", "parse_internal_key"])]
    paths: Vec<PathBuf>,
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
    /// Write sequence numbers and types of keys, too, with raw
    #[arg(long)]
    show_sequence_number_type: bool,
    /// Print names, offsets and sizes of the blocks in the meta index, with check, scan and
    /// identify
    #[arg(long)]
    list_meta_blocks: bool,
    /// Only tables whose properties, as --show_properties prints them, match this regular
    /// expression
    #[arg(long)]
    require_property_regex: Option<String>,
    /// Only tables whose properties do not match this regular expression
    #[arg(long)]
    exclude_property_regex: Option<String>,
    /// Print an internal key, given as 0x…, in words, and read no file
    #[arg(long, value_name = "0xKEY")]
    parse_internal_key: Option<String>,
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

    /// The files for the progress of the command.
    pub(crate) fn long_command(&self) -> Option<LongCommand> {
        let what = match self.command {
            Command::Check | Command::Verify => "checking",
            Command::Scan => "printing",
            Command::Raw => "writing",
            Command::Recompress => "recompressing",
            Command::Identify | Command::None => return None,
        };
        let trials = self.recompress.trials().ok().map_or(1, |trials| trials.count());
        let passes = if self.command == Command::Recompress { trials } else { 1 };
        let prints_rows = self.command == Command::Scan;
        let files = LongCommand::over(what, self.files.iter().chain(&self.paths));
        Some(LongCommand { passes, prints_rows, ..files })
    }
}

type Out = BufWriter<Stream>;

/// The line under a title.
const RULE: &str = "------------------------------";

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
    let done = dump_all(options, host.fs(), host.errors(), &mut out);
    done.and(out.flush().map_err(Failure::from))
}

fn dump_all(options: &SstDumpOptions, fs: &dyn FileSystem, errors: Stream, out: &mut Out) -> CommandOutcome {
    if let Some(key) = &options.parse_internal_key {
        return parse_internal_key(key, out);
    }
    let named: Vec<&PathBuf> = options.files.iter().chain(&options.paths).collect();
    let mut paths = Vec::new();
    for path in &named {
        paths.extend(table_files(fs, path)?);
    }
    let range = Range::new(options)?;
    let mut wanted = Wanted::new(options, errors)?;
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
        if !wanted.lets_pass(&reader, path)? {
            continue;
        }
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
            out.write_all(properties_text(&reader, RULE).as_bytes())?;
        }
        let lists =
            matches!(options.command, Command::Check | Command::Scan | Command::Identify | Command::None);
        if options.list_meta_blocks && lists {
            list_meta_blocks(&reader, out)?;
        }
    }
    if options.command == Command::Identify {
        let is_file = named.len() == 1 && paths.first() == named.first().copied();
        identify(&named, is_file, &valid, out)?;
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
        Command::Raw => raw(fs, (reader, path), options.show_sequence_number_type, out),
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
    (reader, path): (&Arc<TableReader>, &Path),
    with_sequence_and_type: bool,
    out: &mut Out,
) -> CommandOutcome<Result<()>> {
    let mut contents = Vec::new();
    let dumped = append_raw_dump(reader, with_sequence_and_type, &mut contents);
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

/// Prints the tables among the named files. `is_file`: one file was named, no directory.
fn identify(named: &[&PathBuf], is_file: bool, valid: &[&PathBuf], out: &mut Out) -> CommandOutcome {
    if is_file {
        for path in valid {
            writeln!(out, "{} is a valid SST file", path.display())?;
        }
        return Ok(());
    }
    let place = match named {
        [path] => format!(" found in {}", path.display()),
        _ => String::new(),
    };
    writeln!(out, "{RULE}")?;
    if valid.is_empty() {
        return Ok(writeln!(out, "No valid SST files{place}")?);
    }
    writeln!(out, "List of valid SST files{place}:")?;
    for path in valid {
        writeln!(out, "{}", path.display())?;
    }
    Ok(writeln!(out, "Number of valid SST files: {}", valid.len())?)
}

/// Prints a line for each block in the meta index: name, offset, size without the trailer.
fn list_meta_blocks(reader: &TableReader, out: &mut Out) -> CommandOutcome {
    writeln!(out, "Meta Blocks:\n{RULE}")?;
    for (name, at) in reader.meta_index().iter() {
        writeln!(out, "  {}: {} {}", name.escape_ascii(), at.offset, at.size)?;
    }
    Ok(())
}

/// Prints the parts of an internal key that is given as `0x…`.
fn parse_internal_key(text: &str, out: &mut Out) -> CommandOutcome {
    let key = parse_hex(text, "key")?;
    ParsedInternalKey::parse(&key)?;
    let mut line = b"key=".to_vec();
    append_internal_key(&key, true, &mut line);
    line.push(b'\n');
    Ok(out.write_all(&line)?)
}

/// The tables that the flags about properties let pass.
struct Wanted {
    required: Option<Regex>,
    excluded: Option<Regex>,
    errors: Stream,
}

impl Wanted {
    fn new(options: &SstDumpOptions, errors: Stream) -> CommandOutcome<Wanted> {
        let parse = |flag: &str, text: &Option<String>| {
            let regex = text.as_ref().map(|text| Regex::new(text)).transpose();
            regex.map_err(|why| Failure::new(format_args!("--{flag}: {why}")))
        };
        let required = parse("require_property_regex", &options.require_property_regex)?;
        let excluded = parse("exclude_property_regex", &options.exclude_property_regex)?;
        Ok(Wanted { required, excluded, errors })
    }

    /// Whether a table is wanted. If not, standard error says why.
    fn lets_pass(&mut self, reader: &TableReader, path: &Path) -> CommandOutcome<bool> {
        if self.required.is_none() && self.excluded.is_none() {
            return Ok(true);
        }
        let text = properties_in_one(reader);
        let why = if self.required.as_ref().is_some_and(|regex| !regex.is_match(&text)) {
            "doesn't match required"
        } else if self.excluded.as_ref().is_some_and(|regex| regex.is_match(&text)) {
            "matches excluded"
        } else {
            return Ok(true);
        };
        let path = path.display();
        writeln!(self.errors, "{path}: skipping because properties string {why} regex")?;
        Ok(false)
    }
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
