//! `esker compare DIR_A DIR_B`: reports whether two databases have the same contents.
//!
//! In: two database directories, of Esker or RocksDB; both are opened for reading only. Out: a line
//! with the counts of equal families and keys, or with the first difference. Exit code 0 for equal
//! contents, 1 for a difference, 2 for a database that cannot be read.
//!
//! Contents are equal if the names of families, the orders of keys, the keys and the values are
//! equal. Values include all columns of entities, values in blob files, and merged operands. If the
//! merge operator is unknown, `stringappend` joins the operands, so the operands themselves are
//! compared. In families with user-defined timestamps, the newest version of a key and its
//! timestamp must be equal. Reads at each timestamp that occurs in either database must be equal,
//! too. Levels, files and formats may differ.

use crate::failure::{CommandOutcome, Failure};
use crate::host::Host;
use crate::ldb::open_as_it_is;
use crate::progress::LongCommand;
use crate::text::hex;
use clap::Args;
use esker::comparator::ComparatorRef;
use esker::internals::format::cursor::InternalIterator;
use esker::internals::format::key::user_key;
use esker::internals::internal_iterator;
use esker::{ColumnFamilyHandle, Db, DbIterator, ReadOptions};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct CompareOptions {
    /// Directory of a database
    dir_a: PathBuf,
    /// Directory of another database
    dir_b: PathBuf,
}

impl CompareOptions {
    /// The files for the progress of the command.
    pub(crate) fn long_command(&self) -> Option<LongCommand> {
        Some(LongCommand::over("comparing", [&self.dir_a, &self.dir_b]))
    }
}

/// Exit code for a difference.
const DIFFERENT: u8 = 1;
/// Exit code for a database that cannot be read.
const UNREADABLE: u8 = 2;

pub(crate) fn run(options: &CompareOptions, host: &Host) -> CommandOutcome {
    let unreadable = |failure| match failure {
        Failure::Told(why) => Failure::Coded(UNREADABLE, why),
        other => other,
    };
    let (a, b) =
        (open(&options.dir_a, host).map_err(unreadable)?, open(&options.dir_b, host).map_err(unreadable)?);
    let mut comparison = Comparison { a, b, keys: 0, families: 0 };
    let difference = comparison.first_difference().map_err(unreadable)?;
    let mut out = host.output();
    match difference {
        None => {
            let (families, keys) = (comparison.families, comparison.keys);
            Ok(writeln!(out, "equal: {families} column families, {keys} keys")?)
        }
        Some(difference) => Err(Failure::Coded(DIFFERENT, difference)),
    }
}

/// One of the two databases.
struct Side {
    name: String,
    db: Db,
}

fn open(path: &Path, host: &Host) -> CommandOutcome<Side> {
    let db = open_as_it_is(path, host)?;
    Ok(Side { name: path.display().to_string(), db })
}

struct Comparison {
    a: Side,
    b: Side,
    families: u64,
    keys: u64,
}

impl Comparison {
    fn first_difference(&mut self) -> CommandOutcome<Option<String>> {
        let names = |side: &Side| side.db.column_family_names().into_iter().collect::<BTreeSet<_>>();
        let (in_a, in_b) = (names(&self.a), names(&self.b));
        if let Some(name) = in_a.symmetric_difference(&in_b).next() {
            let side = if in_a.contains(name) { &self.a } else { &self.b };
            return Ok(Some(format!("column family '{name}': only in {}", side.name)));
        }
        for name in &in_a {
            let family = |side: &Side| side.db.column_family(name).expect("the family was listed above");
            let (a, b) = (family(&self.a), family(&self.b));
            let difference = self.in_family(&a, &b)?;
            if difference.is_some() {
                return Ok(difference.map(|what| format!("column family '{name}': {what}")));
            }
            self.families += 1;
        }
        Ok(None)
    }

    fn in_family(
        &mut self,
        a: &ColumnFamilyHandle,
        b: &ColumnFamilyHandle,
    ) -> CommandOutcome<Option<String>> {
        let (order, other) = (a.comparator(), b.comparator());
        if order.name() != other.name() {
            let (a, b) = (&self.a.name, &self.b.name);
            return Ok(Some(format!("the order is {} in {a} and {} in {b}", order.name(), other.name())));
        }
        let newest = self.newest_versions(a, b)?;
        if newest.is_some() || order.timestamp_size() == 0 {
            return Ok(newest);
        }
        self.history(order, a, b)
    }

    /// Compares the newest version of each key.
    fn newest_versions(
        &mut self,
        a: &ColumnFamilyHandle,
        b: &ColumnFamilyHandle,
    ) -> CommandOutcome<Option<String>> {
        let order = plain_order(a.comparator());
        let timestamp_size = a.comparator().timestamp_size();
        let read = ReadOptions {
            total_order_seek: true,
            fill_cache: false,
            timestamp: (timestamp_size > 0).then(|| a.comparator().max_timestamp()),
            ..ReadOptions::default()
        };
        let (mut x, mut y) = (self.a.db.iter_opt(read.clone(), a)?, self.b.db.iter_opt(read, b)?);
        x.seek_to_first();
        y.seek_to_first();
        loop {
            x.status()?;
            y.status()?;
            let which = match (x.valid(), y.valid()) {
                (false, false) => return Ok(None),
                (true, false) => Ordering::Less,
                (false, true) => Ordering::Greater,
                (true, true) => order.compare(x.key(), y.key()),
            };
            match which {
                Ordering::Less => return Ok(Some(only_in(x.key(), &self.a))),
                Ordering::Greater => return Ok(Some(only_in(y.key(), &self.b))),
                Ordering::Equal => {}
            }
            if let Some(what) = entry_difference(&x, &y, timestamp_size > 0) {
                return Ok(Some(format!("key 0x{}: {what}", hex(x.key()))));
            }
            self.keys += 1;
            x.next();
            y.next();
        }
    }

    /// Compares reads at each timestamp at which either database has an entry.
    fn history(
        &self,
        order: &ComparatorRef,
        a: &ColumnFamilyHandle,
        b: &ColumnFamilyHandle,
    ) -> CommandOutcome<Option<String>> {
        let (mut x, mut y) = (internal_iterator(&self.a.db, a)?, internal_iterator(&self.b.db, b)?);
        x.seek_to_first();
        y.seek_to_first();
        loop {
            x.status()?;
            y.status()?;
            let at = match (x.valid(), y.valid()) {
                (false, false) => return Ok(None),
                (true, false) => user_key(x.key()).to_vec(),
                (false, true) => user_key(y.key()).to_vec(),
                (true, true) if order.compare(user_key(x.key()), user_key(y.key())).is_gt() => {
                    user_key(y.key()).to_vec()
                }
                (true, true) => user_key(x.key()).to_vec(),
            };
            let (key, timestamp) = at.split_at(at.len() - order.timestamp_size());
            let read = ReadOptions { timestamp: Some(timestamp.to_vec()), ..ReadOptions::default() };
            let values = (self.a.db.get_opt(&read, a, key)?, self.b.db.get_opt(&read, b, key)?);
            if values.0 != values.1 {
                let what = format!("key 0x{}: differs at timestamp 0x{}", hex(key), hex(timestamp));
                return Ok(Some(what));
            }
            for iter in [&mut x, &mut y] {
                while iter.valid() && order.compare(user_key(iter.key()), &at).is_le() {
                    iter.next();
                }
            }
        }
    }
}

/// The order of keys without their timestamps.
fn plain_order(order: &ComparatorRef) -> ComparatorRef {
    order.without_timestamp().unwrap_or_else(|| order.clone())
}

fn only_in(key: &[u8], side: &Side) -> String {
    format!("key 0x{}: only in {}", hex(key), side.name)
}

/// The difference between the entries of one key.
fn entry_difference(x: &DbIterator, y: &DbIterator, has_timestamps: bool) -> Option<String> {
    if has_timestamps && x.timestamp() != y.timestamp() {
        return Some(format!("timestamp 0x{} and 0x{}", hex(x.timestamp()), hex(y.timestamp())));
    }
    let (a, b) = (x.columns(), y.columns());
    if a == b {
        return None;
    }
    let at = (0..a.len().max(b.len())).find(|&i| a.get(i) != b.get(i))?;
    Some(format!("{} and {}", column_text(a.get(at)), column_text(b.get(at))))
}

/// The text of a column: its name and value, or only the value of the default column.
fn column_text(column: Option<&(&[u8], &[u8])>) -> String {
    /// Bytes of a value that a message shows.
    const SHOWN: usize = 40;
    match column {
        None => "no further column".to_owned(),
        Some((name, value)) => {
            let cut =
                if value.len() > SHOWN { format!("… ({} bytes)", value.len()) } else { String::new() };
            let value = format!("0x{}{cut}", hex(&value[..value.len().min(SHOWN)]));
            if name.is_empty() { value } else { format!("column 0x{} = {value}", hex(name)) }
        }
    }
}
