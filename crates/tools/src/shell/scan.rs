//! Commands on ranges: scan, more, count, compact; and explain.
//!
//! A range is `from`, included, to `to`, excluded, and all keys with a prefix. `reverse` visits the
//! same keys from the end.

use super::Out;
use super::command::{parse_rows, wrong_arguments};
use super::database::DbShell;
use super::print::{CellColumns, KeyedRow, RowForm, RowPrinter, json_text};
use super::transaction::ShellTransaction;
use super::words::message_text;
use crate::failure::{CommandOutcome, Failure};
use crate::progress::ProgressLine;
use crate::units;
use esker::options::{BottommostLevelCompaction, CompactRangeOptions};
use esker::txn::TransactionIterator;
use esker::{DbIterator, ErrorKind, ExplainScan, ReadOptions};
use std::io::Write;

/// Rows whose keys determine the width of the column of keys.
const MEASURED_ROWS: usize = 100;
/// Rows of `explain scan` without a limit.
const EXPLAINED_ROWS: u64 = 1000;

/// The entries that a user wants to see.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct ScanWish {
    prefix: Option<Vec<u8>>,
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
    limit: Option<u64>,
    is_reverse: bool,
    only_keys: bool,
}

impl ScanWish {
    /// Reads the arguments of `command`; `known` are the words that it takes.
    fn parse(command: &str, words: &[&[u8]], known: &[&str]) -> CommandOutcome<ScanWish> {
        let mut wish = ScanWish::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let name = str::from_utf8(word).unwrap_or_default().trim_start_matches("--");
            let mut argument = || words.next().ok_or_else(|| wrong_arguments(command));
            match name {
                _ if !known.contains(&name) => {
                    let word = word.escape_ascii();
                    return Err(Failure::new(format_args!(
                        "{command} takes {}, not '{word}'",
                        known.join(", ")
                    )));
                }
                "prefix" => wish.prefix = Some(argument()?.to_vec()),
                "from" => wish.from = Some(argument()?.to_vec()),
                "to" => wish.to = Some(argument()?.to_vec()),
                "limit" => {
                    let rows = String::from_utf8_lossy(argument()?);
                    let wrong = || Failure::new(format_args!("limit: '{rows}' is no number of rows"));
                    wish.limit = Some(parse_rows(&rows).ok_or_else(wrong)?);
                }
                "reverse" => wish.is_reverse = true,
                _ => wish.only_keys = true,
            }
        }
        Ok(wish)
    }

    /// The wish for the entries behind the last row of a scan that was cut before `next`.
    fn behind(&self, last: &[u8], next: &[u8]) -> ScanWish {
        let mut rest = ScanWish { limit: None, ..self.clone() };
        if self.is_reverse {
            rest.to = Some(last.to_vec());
        } else {
            rest.from = Some(next.to_vec());
        }
        rest
    }

    /// Puts the bounds into the options of a read.
    fn bound(&self, has_byte_order: bool, options: &mut ReadOptions) {
        (options.iterate_lower_bound, options.iterate_upper_bound) = (self.from.clone(), self.to.clone());
        let Some(prefix) = self.prefix.as_ref().filter(|_| has_byte_order) else { return };
        options.iterate_lower_bound = self.from.clone().max(Some(prefix.clone()));
        if let Some(behind) = successor(prefix) {
            let to = self.to.clone().map_or_else(|| behind.clone(), |to| to.min(behind.clone()));
            options.iterate_upper_bound = Some(to);
        }
    }
}

/// The first key behind all keys with a prefix, in the order of bytes; `None`: there is none.
pub(super) fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut key = prefix[..=last].to_vec();
    key[last] += 1;
    Some(key)
}

/// A cursor over the database, or over the database and a transaction.
enum ScanCursor {
    Database(Box<DbIterator>),
    Transaction(Box<TransactionIterator>),
}

impl ScanCursor {
    fn start(&mut self, is_reverse: bool) {
        match (self, is_reverse) {
            (ScanCursor::Database(iter), false) => iter.seek_to_first(),
            (ScanCursor::Database(iter), true) => iter.seek_to_last(),
            (ScanCursor::Transaction(iter), false) => iter.seek_to_first(),
            (ScanCursor::Transaction(iter), true) => iter.seek_to_last(),
        }
    }

    fn step(&mut self, is_reverse: bool) {
        match (self, is_reverse) {
            (ScanCursor::Database(iter), false) => iter.next(),
            (ScanCursor::Database(iter), true) => iter.prev(),
            (ScanCursor::Transaction(iter), false) => iter.next(),
            (ScanCursor::Transaction(iter), true) => iter.prev(),
        }
    }

    fn key(&self) -> Option<&[u8]> {
        match self {
            ScanCursor::Database(iter) => iter.valid().then(|| iter.key()),
            ScanCursor::Transaction(iter) => iter.valid().then(|| iter.key()),
        }
    }

    fn columns(&self) -> CellColumns {
        let columns = match self {
            ScanCursor::Database(iter) => iter.columns(),
            ScanCursor::Transaction(iter) => iter.columns(),
        };
        columns.into_iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect()
    }

    fn status(&self) -> esker::Result<()> {
        match self {
            ScanCursor::Database(iter) => iter.status(),
            ScanCursor::Transaction(iter) => iter.status(),
        }
    }
}

/// Prints rows, the first ones together, so that their values begin in one column.
struct RowColumn<'o> {
    printer: RowPrinter,
    first: Vec<KeyedRow>,
    /// The width of keys, once the first rows are printed.
    width: Option<usize>,
    out: &'o mut Out,
}

impl RowColumn<'_> {
    fn print(&mut self, row: KeyedRow) -> CommandOutcome {
        if let Some(width) = self.width {
            return self.printer.row(&row, width, self.out);
        }
        self.first.push(row);
        if self.first.len() < MEASURED_ROWS { Ok(()) } else { self.settle() }
    }

    fn settle(&mut self) -> CommandOutcome {
        let width = *self.width.get_or_insert_with(|| self.printer.key_width(&self.first));
        let rows = std::mem::take(&mut self.first);
        rows.iter().try_for_each(|row| self.printer.row(row, width, self.out))
    }
}

impl DbShell<'_> {
    pub(super) fn scan(&mut self, words: &[&[u8]], out: &mut Out) -> CommandOutcome {
        let known = ["prefix", "from", "to", "limit", "reverse", "keys"];
        let wish = ScanWish::parse("scan", words, &known)?;
        self.print_rows(&wish, out)
    }

    pub(super) fn more(&mut self, words: &[&[u8]], out: &mut Out) -> CommandOutcome {
        let ScanWish { limit, .. } = ScanWish::parse("more", words, &["limit"])?;
        let rest = self.rest.clone().ok_or_else(|| Failure::new("no scan was cut"))?;
        self.print_rows(&ScanWish { limit, ..rest }, out)
    }

    fn print_rows(&mut self, wish: &ScanWish, out: &mut Out) -> CommandOutcome {
        self.rest = None;
        let limit = wish.limit.or(self.limit).unwrap_or(u64::MAX);
        let printer = RowPrinter { only_keys: wish.only_keys, ..self.printer };
        let mut rows = RowColumn { printer, first: Vec::new(), width: None, out };
        let (mut count, mut last, mut rest) = (0, Vec::new(), None);
        let done = self.for_each(wish, &mut |cursor, key| {
            if count == limit {
                rest = Some(wish.behind(&last, key));
                return Ok(false);
            }
            self.stop.check(|| units::counted(count, "row"))?;
            let value = if wish.only_keys { None } else { Some(cursor.columns()) };
            rows.print(KeyedRow { key: key.to_vec(), value })?;
            count += 1;
            last.clear();
            last.extend_from_slice(key);
            Ok(true)
        });
        rows.settle()?;
        done?;
        self.rest = rest;
        let rows = units::counted(count, "row");
        match &self.rest {
            Some(_) if self.is_interactive => {
                self.say(&format!("{rows}, not all: `more` goes on, `scan … limit N` prints N"), out)
            }
            Some(_) if wish.limit.is_none() => {
                self.say(&format!("{rows}, not all: `scan … limit N` prints N"), out)
            }
            None if self.is_interactive && self.printer.form == RowForm::Table => self.say(&rows, out),
            _ => Ok(()),
        }
    }

    pub(super) fn count(&self, words: &[&[u8]], out: &mut Out) -> CommandOutcome {
        let wish = ScanWish::parse("count", words, &["prefix", "from", "to"])?;
        let progress = ProgressLine::of_count("counting keys", self.shows_progress, self.host);
        let mut count = 0;
        let done = self.for_each(&wish, &mut |_, _| {
            self.stop.check(|| units::counted(count, "key"))?;
            count += 1;
            progress.reach(count);
            Ok(true)
        });
        progress.end();
        done?;
        self.printer.number("count", count, out)
    }

    /// Calls `visit` with the keys of the wish until it returns false.
    fn for_each(
        &self,
        wish: &ScanWish,
        visit: &mut dyn FnMut(&ScanCursor, &[u8]) -> CommandOutcome<bool>,
    ) -> CommandOutcome {
        let mut options = self.read_options();
        wish.bound(self.has_byte_order(), &mut options);
        let mut cursor = match &self.transaction {
            None => ScanCursor::Database(Box::new(self.db.iter_opt(options, &self.family)?)),
            Some(ShellTransaction::Locking(txn, _)) => {
                ScanCursor::Transaction(Box::new(txn.iter_opt(&options, &self.family)?))
            }
            Some(ShellTransaction::Optimistic(txn, _)) => {
                ScanCursor::Transaction(Box::new(txn.iter_opt(&options, &self.family)?))
            }
        };
        cursor.start(wish.is_reverse);
        while let Some(key) = cursor.key() {
            // In another order than that of bytes, keys with a prefix may be anywhere.
            let is_wanted = wish.prefix.as_ref().is_none_or(|prefix| key.starts_with(prefix));
            if is_wanted && !visit(&cursor, key)? {
                return Ok(());
            }
            if !is_wanted {
                self.stop.check(|| "a search for keys with the prefix".to_owned())?;
            }
            cursor.step(wish.is_reverse);
        }
        Ok(cursor.status()?)
    }

    pub(super) fn explain(&self, read: &[u8], words: &[&[u8]], out: &mut Out) -> CommandOutcome {
        let mut options = self.read_options();
        let report = match (read, words) {
            (b"get", [key]) => self.db.explain_get(&options, &self.family, key)?,
            (b"multi_get", [_, ..]) => self.db.explain_multi_get(&options, &self.family, words)?,
            (b"scan", _) => {
                let known = ["prefix", "from", "to", "limit", "reverse", "keys"];
                let wish = ScanWish::parse("scan", words, &known)?;
                if wish.prefix.is_some() && !self.has_byte_order() {
                    let order = self.family.comparator().name();
                    return Err(Failure::new(format_args!("a prefix is no range in the order {order}")));
                }
                wish.bound(self.has_byte_order(), &mut options);
                let rows = wish.limit.unwrap_or(EXPLAINED_ROWS);
                let scan = ExplainScan { from: None, rows, reverse: wish.is_reverse };
                self.db.explain_scan(&options, &self.family, &scan)?
            }
            _ => return Err(wrong_arguments("explain")),
        };
        let is_json = self.printer.form == RowForm::Json;
        let text = match is_json {
            true => json_text(&report.to_json()) + "\n",
            false => message_text(&report.to_string()),
        };
        out.write_all(text.as_bytes())?;
        report.error().map_or(Ok(()), |error| Err(Failure::new(error)))
    }

    pub(super) fn compact(&self, words: &[&[u8]], out: &mut Out) -> CommandOutcome {
        let wish = ScanWish::parse("compact", words, &["from", "to"])?;
        let options = CompactRangeOptions {
            bottommost_level_compaction: BottommostLevelCompaction::Force,
            canceled: Some(self.stop.shared()),
            ..CompactRangeOptions::default()
        };
        let (from, to) = (wish.from.as_deref(), wish.to.as_deref());
        let done = self.db.compact_range_opt(&options, &self.family, from, to);
        match done {
            Err(e) if e.kind() == ErrorKind::Incomplete => {
                self.stop.check(|| "a part; finished parts stay".to_owned())?;
                Err(e.into())
            }
            done => {
                done?;
                self.say_ok(out)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_its_successor() {
        assert_eq!(successor(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(successor(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!((successor(b"\xff"), successor(b"")), (None, None));
    }

    #[test]
    fn bounds_are_those_of_the_range_within_the_prefix() {
        let bounds = |prefix: &str, from: Option<&str>, to: Option<&str>| {
            let bytes = |text: Option<&str>| text.map(|text| text.as_bytes().to_vec());
            let prefix = Some(prefix.as_bytes().to_vec());
            let wish = ScanWish { prefix, from: bytes(from), to: bytes(to), ..ScanWish::default() };
            let mut options = ReadOptions::default();
            wish.bound(true, &mut options);
            let text = |key: Option<Vec<u8>>| key.map(|key| String::from_utf8(key).unwrap());
            (text(options.iterate_lower_bound).unwrap(), text(options.iterate_upper_bound).unwrap())
        };
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(bounds("b", None, None), pair("b", "c"));
        assert_eq!(bounds("b", Some("a"), Some("z")), pair("b", "c"));
        assert_eq!(bounds("b", Some("bb"), Some("bd")), pair("bb", "bd"));
    }
}
