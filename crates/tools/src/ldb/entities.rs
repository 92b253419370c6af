//! Commands on several keys and on entities: multi_get, get_entity, multi_get_entity, put_entity;
//! and the text of entities.

use super::Out;
use super::session::{Opened, Session};
use crate::failure::{CommandOutcome, Failure};
use crate::text::append_prefixed;
use clap::Args;
use esker::{OpenMode, PinnedBytes, ReadOptions};
use std::io::Write;

const DELIMITER: &[u8] = b" ==> ";

/// The point in time of a read.
#[derive(Args, Clone, Default)]
#[command(rename_all = "snake_case")]
pub(super) struct ReadTimestampFlag {
    /// Timestamp to read at, a number; for families with user-defined timestamps, which need it
    #[arg(long)]
    read_timestamp: Option<u64>,
}

impl ReadTimestampFlag {
    /// The options of a read.
    /// # Errors
    /// The family has timestamps and the flag is not given, or the flag is given and it has none.
    pub(super) fn options(&self, session: &Session) -> CommandOutcome<ReadOptions> {
        let has_timestamps = session.family_options()?.comparator.timestamp_size() > 0;
        match (has_timestamps, self.read_timestamp) {
            (true, None) => Err(Failure::new(
                "Invalid argument: column family enables user-defined timestamp while --read_timestamp is not \
                 provided.",
            )),
            (false, Some(_)) => Err(Failure::new(
                "Invalid argument: column family does not enable user-defined timestamps while \
                 --read_timestamp is provided.",
            )),
            (_, at) => {
                let timestamp = at.map(|at| at.to_le_bytes().to_vec());
                Ok(ReadOptions { timestamp, ..ReadOptions::default() })
            }
        }
    }
}

/// Appends `NAME:VALUE` for each column, with spaces between. With `is_hex`, each as 0x…
pub(super) fn append_columns<'a>(
    columns: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    is_hex: bool,
    out: &mut Vec<u8>,
) {
    for (at, (name, value)) in columns.enumerate() {
        if at > 0 {
            out.push(b' ');
        }
        for (text, end) in [(name, &b":"[..]), (value, b"")] {
            if !text.is_empty() {
                append_prefixed(text, is_hex, out);
            }
            out.extend_from_slice(end);
        }
    }
}

/// Appends the value of an entry, or its columns if it is an entity with others than the default
/// one.
pub(super) fn append_value_or_columns(
    value: &[u8],
    columns: &[(&[u8], &[u8])],
    is_hex: bool,
    out: &mut Vec<u8>,
) {
    match columns {
        [] | [(b"", _)] => append_prefixed(value, is_hex, out),
        _ => append_columns(columns.iter().copied(), is_hex, out),
    }
}

pub(super) fn multi_get(
    session: &Session,
    keys: &[String],
    time: &ReadTimestampFlag,
    out: &mut Out,
) -> CommandOutcome {
    let keys = parse_keys(session, keys)?;
    let options = time.options(session)?;
    let found: Vec<esker::Result<Option<PinnedBytes>>> = if session.has_ttl() {
        let (db, family) = session.open_with_ttl(OpenMode::ReadOnly)?;
        let get = |key| db.get_opt(&options, &family, key).map(|found| found.map(PinnedBytes::from_vec));
        keys.iter().map(get).collect()
    } else {
        let Opened { db, family } = session.open_for_read_only()?;
        db.multi_get_opt(&options, &family, &keys)
    };
    print_all(session, &keys, found, out, |value, line| append_prefixed(&value, session.value_hex(), line))
}

pub(super) fn get_entity(
    session: &Session,
    key: &str,
    time: &ReadTimestampFlag,
    out: &mut Out,
) -> CommandOutcome {
    let key = session.parse_key(key)?;
    let options = time.options(session)?;
    let Opened { db, family } = open_without_ttl(session)?;
    let found = db.get_entity(&options, &family, &key)?;
    let entity = found.ok_or_else(|| Failure::new("GetEntity failed: NotFound: "))?;
    let mut line = Vec::new();
    append_columns(entity.iter(), session.value_hex(), &mut line);
    line.push(b'\n');
    Ok(out.write_all(&line)?)
}

pub(super) fn multi_get_entity(
    session: &Session,
    keys: &[String],
    time: &ReadTimestampFlag,
    out: &mut Out,
) -> CommandOutcome {
    let keys = parse_keys(session, keys)?;
    let options = time.options(session)?;
    let Opened { db, family } = open_without_ttl(session)?;
    let found = db.multi_get_entity(&options, &family, &keys);
    print_all(session, &keys, found, out, |entity, line| {
        append_columns(entity.iter(), session.value_hex(), line);
    })
}

pub(super) fn put_entity(session: &Session, key: &str, columns: &[String], out: &mut Out) -> CommandOutcome {
    let key = session.parse_key(key)?;
    let column = |text: &String| {
        let parts: Vec<&str> = text.split(':').collect();
        let [name, value] = parts.as_slice() else {
            return Err(Failure::new(
                "wide column format needs to be <column_name>:<column_value> (did you mean put <key> <value>?)",
            ));
        };
        Ok((session.parse_value(name)?, session.parse_value(value)?))
    };
    let columns = columns.iter().map(column).collect::<CommandOutcome<Vec<_>>>()?;
    let columns: Vec<_> = columns.iter().map(|(name, value)| (&name[..], &value[..])).collect();
    if session.has_ttl() {
        return Err(no_ttl());
    }
    let Opened { db, family } = session.open()?;
    db.put_entity(&Default::default(), &family, &key, &columns)?;
    db.close()?;
    Ok(writeln!(out, "OK")?)
}

fn parse_keys(session: &Session, keys: &[String]) -> CommandOutcome<Vec<Vec<u8>>> {
    keys.iter().map(|key| session.parse_key(key)).collect()
}

fn no_ttl() -> Failure {
    Failure::new("--ttl and entities exclude each other: entities have no time")
}

fn open_without_ttl(session: &Session) -> CommandOutcome<Opened> {
    if session.has_ttl() { Err(no_ttl()) } else { session.open_for_read_only() }
}

/// Prints a line for each key.
/// # Errors
/// The number of keys that could not be read, after all lines.
fn print_all<T>(
    session: &Session,
    keys: &[Vec<u8>],
    found: Vec<esker::Result<Option<T>>>,
    out: &mut Out,
    append: impl Fn(T, &mut Vec<u8>),
) -> CommandOutcome {
    let mut wrong = None;
    for (key, found) in keys.iter().zip(found) {
        let mut line = Vec::new();
        match found {
            Ok(Some(value)) => {
                append_prefixed(key, session.key_hex(), &mut line);
                line.extend_from_slice(DELIMITER);
                append(value, &mut line);
            }
            Ok(None) => {
                line.extend_from_slice(b"Key not found: ");
                append_prefixed(key, session.key_hex(), &mut line);
            }
            Err(error) => {
                append_prefixed(key, session.key_hex(), &mut line);
                let key = String::from_utf8_lossy(&line).into_owned();
                session.print_success(&format!("Status for key {key}: {error}"))?;
                wrong = Some(Failure::new("one or more keys had non-okay status"));
                continue;
            }
        }
        line.push(b'\n');
        out.write_all(&line)?;
    }
    wrong.map_or(Ok(()), Err)
}
