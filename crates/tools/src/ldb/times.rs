//! Flags of scan and dump about the times of writes, which a database with TTL stores behind its
//! values.

use super::session::Session;
use crate::failure::{CommandOutcome, Failure};
use crate::text::local_time_text;
use clap::Args;
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;

/// The first time that RocksDB's TTL knows: the day of its introduction.
const MIN_TIME: i32 = 1_368_146_402;

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(super) struct TimeFlags {
    /// With --ttl: print the local time of each write before its entry
    #[arg(long)]
    timestamp: bool,
    /// With --ttl: only values written at this time or later (Unix seconds)
    #[arg(long)]
    start_time: Option<i32>,
    /// With --ttl: only values written before this time (Unix seconds)
    #[arg(long)]
    end_time: Option<i32>,
}

/// The times of writes that a command shows.
#[derive(Clone)]
pub(super) struct Times {
    /// Whether the command prints times.
    pub(super) are_printed: bool,
    /// The times from the start up to, not including, the end.
    pub(super) range: Range<i32>,
}

impl TimeFlags {
    /// The times for which the flags ask.
    /// # Errors
    /// A flag without `--ttl`, or an end before the start.
    pub(super) fn times(&self, session: &Session) -> CommandOutcome<Times> {
        let given = [
            ("--timestamp", self.timestamp),
            ("--start_time", self.start_time.is_some()),
            ("--end_time", self.end_time.is_some()),
        ];
        if let Some((flag, _)) = given.iter().find(|(_, given)| *given && !session.has_ttl()) {
            return Err(needs_ttl(flag));
        }
        let range = self.start_time.unwrap_or(MIN_TIME)..self.end_time.unwrap_or(i32::MAX);
        if range.end < range.start {
            return Err(Failure::new("--end_time: End time can't be less than start time"));
        }
        Ok(Times { are_printed: self.timestamp, range })
    }
}

pub(super) fn needs_ttl(flag: &str) -> Failure {
    Failure::new(format_args!("{flag} needs --ttl: without it, values have no times"))
}

impl Times {
    /// Both ends in words.
    pub(super) fn text(&self) -> String {
        format!("{} to {}", text(self.range.start), text(self.range.end))
    }
}

pub(super) fn text(time: i32) -> String {
    local_time_text(u64::try_from(time).unwrap_or(0))
}

/// Numbers of entries by the time of their write. Memory grows with the times that occur, not with
/// the number of buckets.
pub(super) struct Buckets {
    range: Range<i32>,
    size: i32,
    counts: BTreeMap<i64, u64>,
}

impl Buckets {
    /// Buckets of `size` seconds; `None` if the whole range is one bucket.
    pub(super) fn new(times: &Times, size: i32) -> Option<Buckets> {
        let range = times.range.clone();
        let is_divided = size > 0 && i64::from(size) < i64::from(range.end) - i64::from(range.start);
        is_divided.then(|| Buckets { range, size, counts: BTreeMap::new() })
    }

    /// Counts an entry, whose time must lie in the range.
    pub(super) fn count(&mut self, time: i32) {
        // The range may have more seconds than an `i32` holds.
        let bucket = (i64::from(time) - i64::from(self.range.start)) / i64::from(self.size);
        *self.counts.entry(bucket).or_default() += 1;
    }

    pub(super) fn print(&self, out: &mut dyn Write) -> CommandOutcome {
        let starts = (self.range.start..self.range.end).step_by(self.size as usize);
        for (bucket, start) in (0..).zip(starts) {
            let end = start.saturating_add(self.size).min(self.range.end);
            let count = self.counts.get(&bucket).copied().unwrap_or_default();
            writeln!(out, "Keys in range {} to {} : {count}", text(start), text(end))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(range: Range<i32>) -> Times {
        Times { are_printed: false, range }
    }

    #[test]
    fn one_bucket_needs_no_table() {
        for size in [-1, 0, 100, 101] {
            assert!(Buckets::new(&times(0..100), size).is_none(), "{size}");
        }
    }

    #[test]
    fn each_time_of_the_largest_range_has_its_bucket() {
        let mut buckets = Buckets::new(&times(i32::MIN..i32::MAX), 1 << 30).unwrap();
        for time in [i32::MIN, -1, 0, i32::MAX - 1] {
            buckets.count(time);
        }
        assert_eq!(buckets.counts, BTreeMap::from([(0, 1), (1, 1), (2, 1), (3, 1)]));
        let mut printed = Vec::new();
        buckets.print(&mut printed).unwrap();
        let printed = String::from_utf8(printed).unwrap();
        assert!(printed.lines().count() == 4 && printed.lines().all(|l| l.ends_with(" : 1")), "{printed}");
    }

    #[test]
    fn every_time_has_one_bucket_and_the_last_ends_with_the_range() {
        let mut buckets = Buckets::new(&times(10..i32::MAX), 2_000_000_000).unwrap();
        for time in [10, 2_000_000_009, 2_000_000_010, i32::MAX - 1] {
            buckets.count(time);
        }
        assert_eq!(buckets.counts, BTreeMap::from([(0, 2), (1, 2)]));
        let mut printed = Vec::new();
        buckets.print(&mut printed).unwrap();
        let printed = String::from_utf8(printed).unwrap();
        assert_eq!(printed.lines().count(), 2, "{printed}");
        assert!(printed.ends_with(&format!("to {} : 2\n", text(i32::MAX))), "{printed}");
    }
}
