//! `esker changes DIR`: prints the committed batches of a database in order.
//!
//! In: a database directory, and a position. Out: a line for each batch, and at the end a line with
//! the position behind the last one: the next run begins there. The command opens the database for
//! reading only, also beside the process that owns it. With `--follow` it looks at the WALs of the
//! directory ten times a second, and opens the database again when they have changed: a reader gets
//! what was written before its open. It keeps no WAL of the owner, so a slow reader may find a gap.

use crate::failure::{CommandOutcome, Failure};
use crate::host::{Host, Stream};
use crate::ldb::open_as_it_is;
use crate::text::hex;
use clap::Args;
use esker::internals::base::sync::atomic::{AtomicBool, Ordering};
use esker::{ChangeBatch, ChangeItem, ChangeOp, ChangePosition, ChangeStream, ChangesOptions, Db};
use serde_json::{Map, Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The time between two looks at the WALs.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Looks after which the database is opened again even if its WALs seem unchanged: a WAL that is
/// written through a mapping may keep its size.
const LOOKS_WITHOUT_CHANGE: u32 = 50;
/// Attempts to open the database again beside an owner that changes it.
const ATTEMPTS: u32 = 20;

#[derive(Args)]
pub(crate) struct ChangesCommand {
    /// Directory of the database
    dir: PathBuf,
    /// Position to begin at: a sequence number, or the position that an earlier run printed;
    /// default: the oldest write that a WAL has
    #[arg(long, value_name = "POSITION")]
    from: Option<ChangePosition>,
    /// Wait for further batches, until the command is interrupted
    #[arg(long)]
    follow: bool,
    /// Print a JSON object for each batch
    #[arg(long)]
    json: bool,
    /// Print operations of this column family only
    #[arg(long, alias = "column_family", value_name = "NAME")]
    family: Option<String>,
    /// Print keys and values as hexadecimal digits, 0x…
    #[arg(long)]
    hex: bool,
    /// Print values; the default
    #[arg(long, overrides_with = "no_values")]
    values: bool,
    /// Print no values
    #[arg(long, overrides_with = "values")]
    no_values: bool,
    /// End after this number of batches
    #[arg(long, value_name = "BATCHES")]
    limit: Option<u64>,
}

pub(crate) fn run(options: &ChangesCommand, host: &Host) -> CommandOutcome {
    let stop = Arc::new(AtomicBool::new(false));
    if options.follow && host.is_machine() {
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(Failure::new)?;
        }
    }
    let mut run = Run { options, host, stop, out: host.output(), printed: 0, position: options.from };
    let outcome = run.all();
    if let Some(position) = run.position {
        let line = match options.json {
            true => json!({ "position": position.to_string() }).to_string(),
            false => format!("position {position}"),
        };
        writeln!(run.out, "{line}")?;
        run.out.flush()?;
    }
    outcome
}

struct Run<'a> {
    options: &'a ChangesCommand,
    host: &'a Host,
    /// Set by a signal.
    stop: Arc<AtomicBool>,
    out: Stream,
    /// Batches printed.
    printed: u64,
    /// The place behind the last batch; `None` until the database was opened.
    position: Option<ChangePosition>,
}

impl Run<'_> {
    fn all(&mut self) -> CommandOutcome {
        let mut wals = self.wals();
        let mut db = open_as_it_is(&self.options.dir, self.host)?;
        loop {
            let from = match self.position {
                Some(position) => position,
                None => oldest(&db)?,
            };
            self.position = Some(from);
            let mut changes = db.changes(from, &ChangesOptions::default())?;
            while !self.is_done() {
                match changes.next() {
                    Some(Ok(batch)) => {
                        self.print(&batch)?;
                        self.position = Some(batch.next_position());
                    }
                    Some(Err(error)) => return Err(self.failure(&changes, &error)),
                    None => break,
                }
            }
            self.out.flush()?;
            drop((changes, db));
            if !self.options.follow || !self.wait_for_change(&mut wals) {
                return Ok(());
            }
            db = self.open_again()?;
        }
    }

    fn is_done(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.options.limit.is_some_and(|limit| self.printed >= limit)
    }

    fn failure(&self, changes: &ChangeStream, error: &esker::Error) -> Failure {
        let dir = self.options.dir.display();
        match changes.end() {
            Some(_) => Failure::new(format_args!(
                "{error}\nA copy: esker ldb --db={dir} checkpoint --checkpoint_dir=COPY. It goes on at the position \
                 behind the copy's newest sequence number. DbOptions::wal_ttl_seconds keeps WALs for readers."
            )),
            None => Failure::new(error),
        }
    }

    /// Names and sizes of the WALs.
    fn wals(&self) -> Vec<(String, u64)> {
        let dir = self.host.wal_dir_of(&self.options.dir).unwrap_or_else(|| self.options.dir.clone());
        let mut names = self.host.fs().children(&dir).unwrap_or_default();
        names.retain(|name| name.ends_with(".log"));
        names.sort();
        let size = |name: &String| self.host.fs().file_size(&dir.join(name)).unwrap_or(0);
        names.iter().map(|name| (name.clone(), size(name))).collect()
    }

    /// Waits until the WALs are others than `seen`; false if the command ends.
    fn wait_for_change(&self, seen: &mut Vec<(String, u64)>) -> bool {
        for _ in 0..LOOKS_WITHOUT_CHANGE {
            // No signal ends a simulation.
            if self.is_done() || !self.host.is_machine() {
                return false;
            }
            let now = self.wals();
            if *seen != now {
                *seen = now;
                return true;
            }
            self.host.env().clock.sleep(LOOK_EVERY);
        }
        !self.is_done()
    }

    /// Opens the database again. Its owner may change files during an attempt.
    fn open_again(&self) -> CommandOutcome<Db> {
        for _ in 1..ATTEMPTS {
            if let Ok(db) = open_as_it_is(&self.options.dir, self.host) {
                return Ok(db);
            }
            self.host.env().clock.sleep(LOOK_EVERY);
        }
        open_as_it_is(&self.options.dir, self.host)
    }

    fn print(&mut self, batch: &ChangeBatch) -> CommandOutcome {
        let family = self.options.family.as_deref();
        let wanted = |change: &ChangeItem<'_>| {
            family.is_none() || change.family.is_some_and(|of| of.name.as_deref() == family)
        };
        let changes: Vec<ChangeItem<'_>> = batch.iter().filter(wanted).collect();
        if changes.is_empty() {
            return Ok(());
        }
        self.printed += 1;
        let (first, next) = (batch.first_sequence(), batch.next_position());
        if self.options.json {
            let operations: Vec<Value> = changes.iter().map(|change| self.object(change)).collect();
            let line = json!({ "sequence": first.0, "next": next.to_string(), "operations": operations });
            writeln!(self.out, "{line}")?;
        } else {
            let operations: Vec<String> = changes.iter().map(|change| self.text(change)).collect();
            writeln!(self.out, "{first} {}", operations.join(", "))?;
        }
        // A follower that reads a pipe gets whole batches at once.
        if self.options.follow {
            self.out.flush()?;
        }
        Ok(())
    }

    fn bytes(&self, bytes: &[u8]) -> String {
        if self.options.hex { format!("0x{}", hex(bytes)) } else { bytes.escape_ascii().to_string() }
    }

    /// The type of an operation, and its named parts.
    fn parts(&self, change: &ChangeItem<'_>) -> (&'static str, Vec<(&'static str, Value)>) {
        let text = |bytes: &[u8]| Value::from(self.bytes(bytes));
        let mut parts = Vec::new();
        let with_values = self.options.values || !self.options.no_values;
        let kind = match &change.op {
            ChangeOp::Put { key, value } => {
                parts.push(("key", text(key)));
                parts.extend(with_values.then(|| ("value", text(value))));
                "put"
            }
            ChangeOp::Delete { key } => {
                parts.push(("key", text(key)));
                "delete"
            }
            ChangeOp::SingleDelete { key } => {
                parts.push(("key", text(key)));
                "single_delete"
            }
            ChangeOp::Merge { key, operand } => {
                parts.push(("key", text(key)));
                parts.extend(with_values.then(|| ("operand", text(operand))));
                "merge"
            }
            ChangeOp::DeleteRange { begin, end } => {
                parts.extend([("begin", text(begin)), ("end", text(end))]);
                "delete_range"
            }
            ChangeOp::PutEntity { key, columns } => {
                parts.push(("key", text(key)));
                let column = |(name, value): &(&[u8], &[u8])| json!([text(name), text(value)]);
                parts.extend(with_values.then(|| ("columns", columns.iter().map(column).collect())));
                "put_entity"
            }
            ChangeOp::TimedPut { key, value, write_unix_time } => {
                parts.push(("key", text(key)));
                parts.extend(with_values.then(|| ("value", text(value))));
                parts.push(("write_unix_time", Value::from(*write_unix_time)));
                "timed_put"
            }
            ChangeOp::BlobIndex { key, index } => {
                parts.push(("key", text(key)));
                parts.extend(with_values.then(|| ("index", text(index))));
                "blob_index"
            }
            ChangeOp::LogData(blob) => {
                parts.extend(with_values.then(|| ("data", text(blob))));
                "log_data"
            }
            _ => "unknown",
        };
        parts.extend(change.timestamp.map(|timestamp| ("timestamp", text(timestamp))));
        (kind, parts)
    }

    fn object(&self, change: &ChangeItem<'_>) -> Value {
        let (kind, parts) = self.parts(change);
        let mut object = Map::new();
        object.insert("type".to_owned(), kind.into());
        if let Some(sequence) = change.sequence {
            object.insert("sequence".to_owned(), sequence.0.into());
        }
        if let Some(family) = change.family {
            object.insert("family_id".to_owned(), family.id.0.into());
            object.insert("family".to_owned(), family.name.as_deref().into());
            if family.is_dropped {
                object.insert("is_dropped".to_owned(), true.into());
            }
        }
        object.extend(parts.into_iter().map(|(name, value)| (name.to_owned(), value)));
        Value::Object(object)
    }

    /// The operation for people: `put default "key" "value"`.
    fn text(&self, change: &ChangeItem<'_>) -> String {
        let (kind, parts) = self.parts(change);
        let family =
            change.family.map_or_else(String::new, |family| match (&family.name, family.is_dropped) {
                // A name may have the end of a line.
                (Some(name), false) => format!(" {}", name.escape_debug()),
                (Some(name), true) => format!(" {} (dropped)", name.escape_debug()),
                (None, _) => format!(" {} (dropped)", family.id),
            });
        let parts = parts.iter().map(|(_, value)| format!(" {value}"));
        parts.fold(format!("{kind}{family}"), |line, part| line + &part)
    }
}

/// The place of the oldest write that a WAL has.
fn oldest(db: &Db) -> CommandOutcome<ChangePosition> {
    let behind_all = ChangePosition::after(db.latest_sequence_number());
    let first = db.sorted_wal_files()?.first().map(|file| ChangePosition::from(file.start_sequence));
    Ok(first.map_or(behind_all, |first| first.min(behind_all)))
}
