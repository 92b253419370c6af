//! Commands that print and count the entries of a family: dump (user keys) and idump (internal
//! entries).

use super::Out;
use super::session::Session;
use crate::failure::CommandOutcome;
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

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(super) struct DumpOptions {
    /// First key
    #[arg(long)]
    from: Option<String>,
    /// Key to stop before
    #[arg(long)]
    to: Option<String>,
    /// Print at most this many entries
    #[arg(long)]
    max_keys: Option<u64>,
    /// Print only the number of keys and the sizes of their values
    #[arg(long)]
    count_only: bool,
    /// Print the database's statistics first
    #[arg(long)]
    stats: bool,
}

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(super) struct IdumpOptions {
    #[command(flatten)]
    dump: DumpOptions,
    /// Read --from and --to as 0x…
    #[arg(long)]
    input_key_hex: bool,
    /// Decode blob indexes to text
    #[arg(long)]
    decode_blob_index: bool,
}

pub(super) fn dump(session: &Session, options: &DumpOptions, out: &mut Out) -> CommandOutcome {
    let (from, to) = (session.parse_bound(options.from.as_ref())?, session.parse_bound(options.to.as_ref())?);
    let opened = session.open_for_read_only()?;
    if options.stats {
        writeln!(out, "{}", opened.db.property_cf(&opened.family, "rocksdb.stats").unwrap_or_default())?;
    }
    let read = ReadOptions { iterate_upper_bound: to, total_order_seek: true, ..ReadOptions::default() };
    let mut iter = opened.db.iter_opt(read, &opened.family)?;
    match from {
        Some(key) => iter.seek(key),
        None => iter.seek_to_first(),
    }
    let most = options.max_keys.unwrap_or(u64::MAX);
    let mut sizes = HistogramSnapshot::new();
    let mut line = Vec::new();
    while let Some((key, value)) = iter.item()
        && sizes.count() < most
    {
        let value = if session.has_ttl() { super::data::without_time(value)?.0 } else { value };
        sizes.add(value.len() as u64);
        if !options.count_only {
            line.clear();
            append_prefixed(key, session.key_hex(), &mut line);
            line.extend_from_slice(b" ==> ");
            append_prefixed(value, session.value_hex(), &mut line);
            line.push(b'\n');
            out.write_all(&line)?;
        }
        iter.next();
    }
    iter.status()?;
    writeln!(out, "Keys in range: {}", sizes.count())?;
    if options.count_only {
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
    let options = &options.dump;
    let (from, to) = (bound(options.from.as_ref())?, bound(options.to.as_ref())?);
    let opened = session.open_for_read_only()?;
    if options.stats {
        writeln!(out, "{}", opened.db.property_cf(&opened.family, "rocksdb.stats").unwrap_or_default())?;
    }
    let mut iter = internal_iterator(&opened.db, &opened.family)?;
    let icmp = InternalKeyComparator::new(opened.family.comparator().clone());
    match from {
        Some(key) => iter.seek(&before_all_versions(&key, &icmp)),
        None => iter.seek_to_first(),
    }
    let most = options.max_keys.unwrap_or(u64::MAX);
    let (mut count, mut line) = (0, Vec::new());
    while iter.valid() && count < most {
        if let Some(to) = &to
            && is_at_or_behind(user_key(iter.key()), to, &icmp)
        {
            break;
        }
        count += 1;
        if !options.count_only {
            line.clear();
            append_entry(iter.key(), iter.value(), form, &mut line);
            out.write_all(&line)?;
        }
        iter.next();
    }
    iter.status()?;
    Ok(writeln!(out, "Internal keys in range: {count}")?)
}
