//! Commands on keys: get, put, batchput, delete, singledelete, deleterange, scan.

use super::Out;
use super::entities::{ReadTimestampFlag, append_value_or_columns};
use super::session::Session;
use super::times::{self, TimeFlags};
use crate::failure::{CommandOutcome, Failure};
use crate::text::append_prefixed;
use clap::Args;
use esker::{OpenMode, PinnedBytes, ReadOptions, WriteBatch};
use std::io::Write;

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(super) struct ScanOptions {
    /// First key
    #[arg(long)]
    from: Option<String>,
    /// Key to stop before
    #[arg(long)]
    to: Option<String>,
    /// Print at most this many entries
    #[arg(long)]
    max_keys: Option<u64>,
    /// Print keys only
    #[arg(long)]
    no_value: bool,
    /// Print the Unix time of each write, from families that record times, in a line behind its
    /// entry; 18446744073709551615 if it is unknown, 0 if it is older than all recorded times
    #[arg(long)]
    get_write_unix_time: bool,
    #[command(flatten)]
    times: TimeFlags,
    #[command(flatten)]
    time: ReadTimestampFlag,
}

pub(super) fn get(session: &Session, key: &str, time: &ReadTimestampFlag, out: &mut Out) -> CommandOutcome {
    let key = session.parse_key(key)?;
    let options = time.options(session)?;
    let found = if session.has_ttl() {
        let (db, family) = session.open_with_ttl(OpenMode::ReadOnly)?;
        db.get_opt(&options, &family, &key)?.map(PinnedBytes::from_vec)
    } else {
        let opened = session.open_for_read_only()?;
        opened.db.get_pinned_opt(&options, &opened.family, &key)?
    };
    let value = found.ok_or_else(|| Failure::new("Get failed: NotFound: "))?;
    let mut line = Vec::new();
    append_prefixed(&value, session.value_hex(), &mut line);
    line.push(b'\n');
    Ok(out.write_all(&line)?)
}

pub(super) fn put(session: &Session, key: &str, value: &str, out: &mut Out) -> CommandOutcome {
    let (key, value) = (session.parse_key(key)?, session.parse_value(value)?);
    write(session, out, |batch, family| batch.put_cf(family, &key, &value))
}

pub(super) fn batchput(session: &Session, pairs: &[String], out: &mut Out) -> CommandOutcome {
    if !pairs.len().is_multiple_of(2) {
        return Err(Failure::new("Equal number of <key>s and <value>s must be specified for batchput."));
    }
    let pairs = pairs
        .chunks(2)
        .map(|pair| Ok((session.parse_key(&pair[0])?, session.parse_value(&pair[1])?)))
        .collect::<CommandOutcome<Vec<_>>>()?;
    write(session, out, |batch, family| {
        pairs.iter().try_for_each(|(key, value)| batch.put_cf(family, key, value))
    })
}

pub(super) fn delete(session: &Session, key: &str, out: &mut Out) -> CommandOutcome {
    let key = session.parse_key(key)?;
    write(session, out, |batch, family| batch.delete_cf(family, &key))
}

pub(super) fn singledelete(session: &Session, key: &str, out: &mut Out) -> CommandOutcome {
    let key = session.parse_key(key)?;
    write(session, out, |batch, family| batch.single_delete_cf(family, &key))
}

pub(super) fn deleterange(session: &Session, begin: &str, end: &str, out: &mut Out) -> CommandOutcome {
    let (begin, end) = (session.parse_key(begin)?, session.parse_key(end)?);
    write(session, out, |batch, family| batch.delete_range_cf(family, &begin, &end))
}

fn write(
    session: &Session,
    out: &mut Out,
    fill: impl FnOnce(&mut WriteBatch, esker::ColumnFamilyId) -> esker::Result<()>,
) -> CommandOutcome {
    if session.has_ttl() {
        let (db, family) = session.open_with_ttl(OpenMode::ReadWrite)?;
        let mut batch = WriteBatch::new();
        fill(&mut batch, family.id())?;
        db.write(&batch)?;
        db.base_db().close()?;
        return Ok(writeln!(out, "OK")?);
    }
    let opened = session.open()?;
    let mut batch = WriteBatch::new();
    fill(&mut batch, opened.family.id())?;
    opened.db.write(&mut batch)?;
    opened.db.close()?;
    Ok(writeln!(out, "OK")?)
}

/// Splits a value of a database with TTL into the user's value and the time of its write.
pub(super) fn without_time(stored: &[u8]) -> CommandOutcome<(&[u8], i32)> {
    match stored.split_last_chunk::<4>() {
        Some((value, time)) => Ok((value, i32::from_le_bytes(*time))),
        None => Err(Failure::new("Corruption: Error: value's length less than timestamp's")),
    }
}

pub(super) fn scan(session: &Session, options: &ScanOptions, out: &mut Out) -> CommandOutcome {
    let (from, to) = (session.parse_bound(options.from.as_ref())?, session.parse_bound(options.to.as_ref())?);
    let times = options.times.times(session)?;
    if times.are_printed {
        writeln!(out, "Scanning key-values from {}", times.text())?;
    }
    let opened = session.open_for_read_only()?;
    let read =
        ReadOptions { iterate_upper_bound: to, total_order_seek: true, ..options.time.options(session)? };
    let mut iter = opened.db.iter_opt(read, &opened.family)?;
    match from {
        Some(key) => iter.seek(key),
        None => iter.seek_to_first(),
    }
    let mut left = options.max_keys.unwrap_or(u64::MAX);
    let mut line = Vec::new();
    while let Some((key, mut value)) = iter.item()
        && left > 0
    {
        line.clear();
        if session.has_ttl() {
            let (plain, time) = without_time(value)?;
            value = plain;
            if !times.range.contains(&time) {
                iter.next();
                continue;
            }
            if times.are_printed {
                line.extend_from_slice(times::text(time).as_bytes());
                line.push(b' ');
            }
        }
        left -= 1;
        append_prefixed(key, session.key_hex(), &mut line);
        if let Some(timestamp) = iter.timestamp().first_chunk() {
            write!(line, "|timestamp:{}", u64::from_le_bytes(*timestamp))?;
        }
        if !options.no_value {
            line.extend_from_slice(b" : ");
            let columns = if session.has_ttl() { Vec::new() } else { iter.columns() };
            append_value_or_columns(value, &columns, session.value_hex(), &mut line);
        }
        line.push(b'\n');
        if options.get_write_unix_time {
            match iter.write_unix_time() {
                Ok(time) => writeln!(line, "  write unix time: {time}")?,
                Err(why) => writeln!(line, "  Failed to get write unix time: {why}")?,
            }
        }
        out.write_all(&line)?;
        iter.next();
    }
    Ok(iter.status()?)
}
