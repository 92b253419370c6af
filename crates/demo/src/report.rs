//! The tables at the end: rates, level sizes, checked facts.

use crate::records::Records;
use crate::table::Table;
use esker::Db;
use esker::internals::env::{Clock, SystemClock};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct DemoReport {
    rates: Vec<Rate>,
    levels: Vec<LevelRow>,
    verified: Vec<(String, u64)>,
    started_nanos: u64,
}

#[derive(Debug)]
struct Rate {
    what: String,
    operations: u64,
    bytes: u64,
    time: Duration,
}

#[derive(Debug, Default)]
struct LevelRow {
    level: usize,
    files: usize,
    bytes: u64,
    entries: u64,
}

impl DemoReport {
    pub(crate) fn new() -> DemoReport {
        DemoReport {
            rates: Vec::new(),
            levels: Vec::new(),
            verified: Vec::new(),
            started_nanos: SystemClock.monotonic_nanos(),
        }
    }

    /// Adds a row: `operations` moved `bytes` in `time`.
    pub(crate) fn rate(&mut self, what: impl Into<String>, operations: u64, bytes: u64, time: Duration) {
        self.rates.push(Rate { what: what.into(), operations, bytes, time });
    }

    /// Adds a row: `count` facts were checked and held.
    pub(crate) fn verified(&mut self, what: impl Into<String>, count: u64) {
        self.verified.push((what.into(), count));
    }

    /// Sums the live files of each level.
    pub(crate) fn levels(&mut self, db: &Db) {
        for file in db.live_files() {
            if self.levels.len() <= file.level {
                self.levels.resize_with(file.level + 1, LevelRow::default);
            }
            let row = &mut self.levels[file.level];
            row.files += 1;
            row.bytes += file.size;
            row.entries += file.num_entries;
        }
        for (level, row) in self.levels.iter_mut().enumerate() {
            row.level = level;
        }
    }

    pub(crate) fn print(&self, records: &Records, path: &Path) -> io::Result<()> {
        let mut out = std::io::stdout().lock();
        writeln!(
            out,
            "\n{} records of {} bytes in {}\n{}\n",
            grouped(records.count()),
            records.record_bytes(),
            path.display(),
            self.rate_table()
        )?;
        writeln!(out, "{}\n\n{}", self.level_table(), self.verified_table())?;
        let nanos = SystemClock.monotonic_nanos() - self.started_nanos;
        writeln!(out, "All verified, in {:.1} s.", Duration::from_nanos(nanos).as_secs_f64())
    }

    fn rate_table(&self) -> Table {
        let mut table = Table::new(&["what", "operations", "seconds", "operations/s", "MB/s"]);
        for rate in &self.rates {
            let seconds = rate.time.as_secs_f64().max(1e-9);
            table.add_row(vec![
                rate.what.clone(),
                grouped(rate.operations),
                format!("{seconds:.2}"),
                grouped((rate.operations as f64 / seconds) as u64),
                match rate.bytes {
                    0 => String::new(),
                    bytes => format!("{:.1}", bytes as f64 / 1e6 / seconds),
                },
            ]);
        }
        table
    }

    fn level_table(&self) -> Table {
        let mut table = Table::new(&["level", "files", "MB", "entries"]);
        for row in self.levels.iter().filter(|row| row.files > 0) {
            let megabytes = format!("{:.1}", row.bytes as f64 / 1e6);
            table.add_row(vec![
                format!("L{}", row.level),
                grouped(row.files as u64),
                megabytes,
                grouped(row.entries),
            ]);
        }
        table
    }

    fn verified_table(&self) -> Table {
        let mut table = Table::new(&["verified", "count"]);
        for (what, count) in &self.verified {
            table.add_row(vec![what.clone(), grouped(*count)]);
        }
        table
    }
}

/// The number with separators: 1234567 as "1,234,567".
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }
}
