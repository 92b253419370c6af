//! Commands that print and count the entries of a family: dump (user keys) and idump (internal
//! entries). dump also prints a single file.

use super::entities::append_value_or_columns;
use super::session::Session;
use super::times::{self, Buckets, TimeFlags, needs_ttl};
use super::{Common, Out, single_file};
use crate::failure::CommandOutcome;
use crate::host::Host;
use crate::text::{
    EntryForm, append_entry, append_prefixed, before_all_versions, is_at_or_behind, parse_hex,
};
use clap::Args;
use esker::ReadOptions;
use esker::internals::format::cursor::InternalIterator;
use esker::internals::format::key::{InternalKeyComparator, user_key};
use esker::internals::internal_iterator;
use esker::stats::HistogramSnapshot;
use std::io::Write;
use std::path::PathBuf;

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(super) struct Extent {
    /// First key
    #[arg(long)]
    from: Option<String>,
    /// Key to stop before
    #[arg(long)]
    to: Option<String>,
    /// Print at most this many entries
    #[arg(long)]
    max_keys: Option<u64>,
    /// Print only the number of keys; dump also prints the sizes of their values
    #[arg(long)]
    count_only: bool,
    /// Print no entries, but number and bytes of those whose keys agree up to this character;
    /// without a value: up to a full stop
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = ".")]
    count_delim: Option<String>,
    /// Print the database's statistics first
    #[arg(long)]
    stats: bool,
}

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(super) struct DumpOptions {
    #[command(flatten)]
    extent: Extent,
    #[command(flatten)]
    times: TimeFlags,
    /// With --ttl: print the number of entries for each BUCKET seconds of write time
    #[arg(long)]
    bucket: Option<i32>,
    /// Print this table, WAL, MANIFEST or blob file, and no database
    #[arg(long, conflicts_with_all = ["ttl", "count_only", "count_delim", "stats", "max_keys"])]
    path: Option<PathBuf>,
    /// With --path of a table: decode blob indexes to text
    #[arg(long, requires = "path")]
    decode_blob_index: bool,
    /// With --path of a blob file: print decompressed values
    #[arg(long, requires = "path")]
    dump_uncompressed_blobs: bool,
}

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(super) struct IdumpOptions {
    #[command(flatten)]
    extent: Extent,
    /// Read --from and --to as 0x…
    #[arg(long)]
    input_key_hex: bool,
    /// Decode blob indexes to text
    #[arg(long)]
    decode_blob_index: bool,
}

/// Number and bytes of neighbouring entries whose keys begin with the same word.
#[derive(Default)]
struct Words {
    delimiter: u8,
    word: Vec<u8>,
    count: u64,
    bytes: usize,
}

impl Words {
    fn new(delimiter: &str) -> Words {
        Words { delimiter: delimiter.bytes().next().unwrap_or(0), ..Words::default() }
    }

    fn add(&mut self, key: &[u8], value: &[u8], out: &mut Out) -> CommandOutcome {
        let is_end = |byte: &u8| *byte == self.delimiter || *byte == 0;
        let word = &key[..key.iter().position(is_end).unwrap_or(key.len())];
        if !self.word.is_empty() && self.word != word {
            self.print(out)?;
            (self.count, self.bytes) = (0, 0);
        }
        word.clone_into(&mut self.word);
        self.count += 1;
        self.bytes += key.len() + value.len();
        Ok(())
    }

    fn print(&self, out: &mut Out) -> CommandOutcome {
        out.write_all(&self.word)?;
        Ok(writeln!(out, " => count:{}\tsize:{}", self.count, self.bytes)?)
    }
}

/// Prints the file of `--path`. `None` if the option is not given.
pub(super) fn dump_file(
    common: &Common,
    options: &DumpOptions,
    host: &Host,
    out: &mut Out,
) -> Option<CommandOutcome> {
    let path = options.path.as_ref()?;
    let how = single_file::How {
        key_hex: common.hex || common.key_hex,
        value_hex: common.hex || common.value_hex,
        decode_blob_index: options.decode_blob_index,
        dump_uncompressed_blobs: options.dump_uncompressed_blobs,
    };
    Some(single_file::dump(path, how, (&options.extent.from, &options.extent.to), host, out))
}

pub(super) fn dump(session: &Session, options: &DumpOptions, out: &mut Out) -> CommandOutcome {
    let extent = &options.extent;
    let (from, to) = (session.parse_bound(extent.from.as_ref())?, session.parse_bound(extent.to.as_ref())?);
    let times = options.times.times(session)?;
    if options.bucket.is_some() && !session.has_ttl() {
        return Err(needs_ttl("--bucket"));
    }
    let mut buckets = options.bucket.and_then(|size| Buckets::new(&times, size));
    let mut words = extent.count_delim.as_deref().map(Words::new);
    let opened = session.open_for_read_only()?;
    if extent.stats {
        writeln!(out, "{}", opened.db.property_cf(&opened.family, "rocksdb.stats").unwrap_or_default())?;
    }
    let prints_entries = !extent.count_only && words.is_none();
    if prints_entries && times.are_printed {
        writeln!(out, "Dumping key-values from {}", times.text())?;
    }
    let read = ReadOptions { iterate_upper_bound: to, total_order_seek: true, ..ReadOptions::default() };
    let mut iter = opened.db.iter_opt(read, &opened.family)?;
    match from {
        Some(key) => iter.seek(key),
        None => iter.seek_to_first(),
    }
    let most = extent.max_keys.unwrap_or(u64::MAX);
    let mut sizes = HistogramSnapshot::new();
    let mut line = Vec::new();
    while let Some((key, mut value)) = iter.item()
        && sizes.count() < most
    {
        line.clear();
        if session.has_ttl() {
            let (plain, time) = super::data::without_time(value)?;
            value = plain;
            if !times.range.contains(&time) {
                iter.next();
                continue;
            }
            buckets.iter_mut().for_each(|buckets| buckets.count(time));
            if times.are_printed {
                line.extend_from_slice(times::text(time).as_bytes());
                line.push(b' ');
            }
        }
        sizes.add(value.len() as u64);
        if let Some(words) = &mut words {
            words.add(key, value, out)?;
        }
        if prints_entries {
            append_prefixed(key, session.key_hex(), &mut line);
            line.extend_from_slice(b" ==> ");
            let columns = if session.has_ttl() { Vec::new() } else { iter.columns() };
            append_value_or_columns(value, &columns, session.value_hex(), &mut line);
            line.push(b'\n');
            out.write_all(&line)?;
        }
        iter.next();
    }
    iter.status()?;
    match (&buckets, &words) {
        (Some(buckets), _) => buckets.print(out)?,
        (None, Some(words)) => words.print(out)?,
        (None, None) => writeln!(out, "Keys in range: {}", sizes.count())?,
    }
    if extent.count_only {
        writeln!(out, "Value size distribution: \n{sizes}")?;
    }
    Ok(())
}

pub(super) fn idump(session: &Session, options: &IdumpOptions, out: &mut Out) -> CommandOutcome {
    let bound = |text: Option<&String>| match text {
        Some(text) if options.input_key_hex => parse_hex(text, "key").map(Some),
        text => session.parse_bound(text),
    };
    let form = EntryForm {
        key_hex: session.key_hex(),
        value_hex: session.value_hex(),
        decode_blob_index: options.decode_blob_index,
    };
    let extent = &options.extent;
    let (from, to) = (bound(extent.from.as_ref())?, bound(extent.to.as_ref())?);
    let mut words = extent.count_delim.as_deref().map(Words::new);
    let opened = session.open_for_read_only()?;
    if extent.stats {
        writeln!(out, "{}", opened.db.property_cf(&opened.family, "rocksdb.stats").unwrap_or_default())?;
    }
    let mut iter = internal_iterator(&opened.db, &opened.family)?;
    let icmp = InternalKeyComparator::new(opened.family.comparator().clone());
    match from {
        Some(key) => iter.seek(&before_all_versions(&key, &icmp)),
        None => iter.seek_to_first(),
    }
    let most = extent.max_keys.unwrap_or(u64::MAX);
    let (mut count, mut line) = (0, Vec::new());
    while iter.valid() && count < most {
        if let Some(to) = &to
            && is_at_or_behind(user_key(iter.key()), to, &icmp)
        {
            break;
        }
        count += 1;
        if let Some(words) = &mut words {
            words.add(user_key(iter.key()), iter.value(), out)?;
        } else if !extent.count_only {
            line.clear();
            append_entry(iter.key(), iter.value(), form, &mut line);
            out.write_all(&line)?;
        }
        iter.next();
    }
    iter.status()?;
    match &words {
        Some(words) => words.print(out),
        None => Ok(writeln!(out, "Internal keys in range: {count}")?),
    }
}
