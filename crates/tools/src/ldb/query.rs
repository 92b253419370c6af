//! `ldb query`: a shell that reads and writes one family.
//!
//! In: a command a line, on standard input. Out: the answers that RocksDB 7.8.3's `ldb query`
//! prints. On a terminal the shell has a prompt, a history for the session, and completion of
//! commands (feature `shell`).
//!
//! The shell has two commands that RocksDB 7.8.3 lacks: `count`, which RocksDB has from release 9
//! on, and `scan`.

use super::Out;
use super::data::without_time;
use super::session::Session;
use crate::failure::{CommandOutcome, Failure};
use crate::host::Host;
#[cfg(feature = "shell")]
use crate::terminal::{FirstWords, Terminal};
use crate::text::append_prefixed;
use esker::{ColumnFamilyHandle, Db, DbWithTtl, OpenMode, ReadOptions, WriteBatch};
use std::io::{BufRead, Write};

/// The commands and their arguments, as `help` prints them.
const HELP: &str = "get <key>\nput <key> <value>\ndelete <key>\ncount [--from=<start_key>] [--to=<end_key>]\n\
                    scan [--from=<start_key>] [--to=<end_key>] [--max_keys=<N>]\n";

/// The first words of commands, for completion.
#[cfg(feature = "shell")]
const WORDS: [&str; 6] = ["count", "delete", "get", "help", "put", "scan"];

/// The database of the shell.
enum Subject {
    Plain(Db),
    Ttl(DbWithTtl),
}

struct Shell<'a> {
    session: &'a Session,
    subject: Subject,
    family: ColumnFamilyHandle,
}

/// A range of keys to count or to print.
#[derive(Default)]
struct Extent {
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
    most: Option<u64>,
}

/// Runs the commands on standard input until it ends.
/// # Errors
/// Errors of opening and closing the database, and of input and output · the failure of a command
/// after which the database has a background error. For other failures and for unknown commands the
/// shell prints a message, and runs the next command.
pub(super) fn query(session: &Session, host: &Host, out: &mut Out) -> CommandOutcome {
    let shell = Shell::open(session)?;
    #[cfg(feature = "shell")]
    let done = match crate::terminal::is_interactive(host) {
        true => shell.run_on_terminal(out),
        false => shell.run_all(host, out),
    };
    #[cfg(not(feature = "shell"))]
    let done = shell.run_all(host, out);
    let closed = shell.db().close();
    done.and(closed.map_err(Failure::from))
}

impl<'a> Shell<'a> {
    fn open(session: &'a Session) -> CommandOutcome<Shell<'a>> {
        if session.has_ttl() {
            let (db, family) = session.open_with_ttl(OpenMode::ReadWrite)?;
            return Ok(Shell { session, subject: Subject::Ttl(db), family });
        }
        let opened = session.open()?;
        Ok(Shell { session, subject: Subject::Plain(opened.db), family: opened.family })
    }

    fn db(&self) -> &Db {
        match &self.subject {
            Subject::Plain(db) => db,
            Subject::Ttl(db) => db.base_db(),
        }
    }

    #[cfg(feature = "shell")]
    fn run_on_terminal(&self, out: &mut Out) -> CommandOutcome {
        let mut terminal = Terminal::open(FirstWords(&WORDS), None)?;
        while let Some(line) = terminal.line("ldb> ")? {
            self.run_line(line.as_bytes(), out)?;
        }
        Ok(())
    }

    fn run_all(&self, host: &Host, out: &mut Out) -> CommandOutcome {
        let (mut input, mut line) = (host.input(), Vec::new());
        while input.read_until(b'\n', &mut line)? > 0 {
            self.run_line(line.strip_suffix(b"\n").unwrap_or(&line), out)?;
            line.clear();
        }
        Ok(())
    }

    /// Runs one command, and prints its answer at once. Keys and values are raw bytes: neither the
    /// line nor the answer need be UTF-8.
    fn run_line(&self, line: &[u8], out: &mut Out) -> CommandOutcome {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).collect();
        let done = match words.as_slice() {
            [] => Ok(()),
            [b"help"] => Ok(out.write_all(HELP.as_bytes())?),
            [b"get", key] => self.get(key, out),
            [b"put", key, value] => self.put(key, value, out),
            [b"delete", key] => self.delete(key, out),
            [b"count", flags @ ..] => self.count(flags, out),
            [b"scan", flags @ ..] => self.scan(flags, out),
            _ => print_line(out, &[b"Unknown command ", line]),
        };
        match done {
            // The next command may succeed.
            Err(Failure::Told(why)) if self.is_sound() => writeln!(out, "Failed: {why}")?,
            done => done?,
        }
        Ok(out.flush()?)
    }

    /// Whether the database has no background error.
    fn is_sound(&self) -> bool {
        self.db().background_error().is_none()
    }

    fn get(&self, key: &[u8], out: &mut Out) -> CommandOutcome {
        let (bytes, options) = (self.session.parse_key(key)?, ReadOptions::default());
        let found = match &self.subject {
            Subject::Plain(db) => db.get_opt(&options, &self.family, &bytes)?,
            Subject::Ttl(db) => db.get_opt(&options, &self.family, &bytes)?,
        };
        let Some(value) = found else { return print_line(out, &[b"Not found ", key]) };
        self.print_entry(&bytes, b" ==> ", &value, out)
    }

    fn put(&self, key: &[u8], value: &[u8], out: &mut Out) -> CommandOutcome {
        let (key_bytes, value_bytes) = (self.session.parse_key(key)?, self.session.parse_value(value)?);
        let mut batch = WriteBatch::new();
        batch.put_cf(self.family.id(), &key_bytes, &value_bytes)?;
        self.write(batch)?;
        print_line(out, &[b"Successfully put ", key, b" ", value])
    }

    fn delete(&self, key: &[u8], out: &mut Out) -> CommandOutcome {
        let mut batch = WriteBatch::new();
        batch.delete_cf(self.family.id(), &self.session.parse_key(key)?)?;
        self.write(batch)?;
        print_line(out, &[b"Successfully deleted ", key])
    }

    fn write(&self, mut batch: WriteBatch) -> CommandOutcome {
        match &self.subject {
            Subject::Plain(db) => db.write(&mut batch)?,
            Subject::Ttl(db) => db.write(&batch)?,
        }
        Ok(())
    }

    fn count(&self, flags: &[&[u8]], out: &mut Out) -> CommandOutcome {
        let Some(extent) = self.extent(flags, &[b"--from", b"--to"])? else {
            return Ok(writeln!(out, "count gets invalid arguments")?);
        };
        let mut count = 0u64;
        self.for_each(&extent, &mut |_, _| {
            count += 1;
            Ok(())
        })?;
        Ok(writeln!(out, "{count}")?)
    }

    fn scan(&self, flags: &[&[u8]], out: &mut Out) -> CommandOutcome {
        let Some(extent) = self.extent(flags, &[b"--from", b"--to", b"--max_keys"])? else {
            return Ok(writeln!(out, "scan gets invalid arguments")?);
        };
        self.for_each(&extent, &mut |key, value| self.print_entry(key, b" ==> ", value, out))
    }

    /// The range that `flags` give; `None` if a flag is malformed or not in `known`.
    fn extent(&self, flags: &[&[u8]], known: &[&[u8]]) -> CommandOutcome<Option<Extent>> {
        let mut extent = Extent::default();
        for flag in flags {
            let Some(at) = flag.iter().position(|byte| *byte == b'=') else { return Ok(None) };
            let (name, value) = (&flag[..at], &flag[at + 1..]);
            let number = str::from_utf8(value).ok().and_then(|text| text.parse().ok());
            match name {
                _ if !known.contains(&name) => return Ok(None),
                b"--from" => extent.from = Some(self.session.parse_key(value)?),
                b"--to" => extent.to = Some(self.session.parse_key(value)?),
                _ if number.is_some() => extent.most = number,
                _ => return Ok(None),
            }
        }
        Ok(Some(extent))
    }

    fn for_each(
        &self,
        extent: &Extent,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> CommandOutcome,
    ) -> CommandOutcome {
        let options = ReadOptions {
            iterate_upper_bound: extent.to.clone(),
            total_order_seek: true,
            ..ReadOptions::default()
        };
        let mut iter = self.db().iter_opt(options, &self.family)?;
        match &extent.from {
            Some(key) => iter.seek(key),
            None => iter.seek_to_first(),
        }
        let mut left = extent.most.unwrap_or(u64::MAX);
        while let Some((key, value)) = iter.item()
            && left > 0
        {
            let value = if self.session.has_ttl() { without_time(value)?.0 } else { value };
            visit(key, value)?;
            left -= 1;
            iter.next();
        }
        Ok(iter.status()?)
    }

    fn print_entry(&self, key: &[u8], between: &[u8], value: &[u8], out: &mut Out) -> CommandOutcome {
        let mut line = Vec::new();
        append_prefixed(key, self.session.key_hex(), &mut line);
        line.extend_from_slice(between);
        append_prefixed(value, self.session.value_hex(), &mut line);
        line.push(b'\n');
        Ok(out.write_all(&line)?)
    }
}

/// Prints a line of these parts.
fn print_line(out: &mut Out, parts: &[&[u8]]) -> CommandOutcome {
    out.write_all(&parts.concat())?;
    Ok(out.write_all(b"\n")?)
}
