//! Lines of a LOG of Esker or RocksDB.
//!
//! In: a line, at most [`LINE_BYTES`] of it. Out: its time and its meaning. A line that is cut,
//! forged or of another program is [`LogMeaning::Other`] or [`LogMeaning::Unreadable`].
//! Source: LOG files of RocksDB 7.8.3 and 11, `docs/compat/tools.md`.
//!
//! Invariant: no input panics, and no value that leaves this file is longer than [`NAME_CHARS`].

use serde::Deserialize;

/// Bytes of a line that count. Events of compactions with thousands of inputs are longer than most.
pub(super) const LINE_BYTES: usize = 1 << 20;
/// Most characters of a name.
const NAME_CHARS: usize = 100;
/// Levels that are told apart; deeper ones count as the last.
pub(super) const LEVELS: usize = 8;

/// The meaning of a line.
#[derive(Debug)]
pub(super) enum LogMeaning {
    Event(Box<HistoryEvent>),
    /// An event whose object cannot be read.
    Unreadable,
    /// Writers are slowed down or stopped.
    Stall(StallLine),
    /// The version of the program that opened the database.
    Version(String),
    /// A line of level ERROR or FATAL.
    Failure(String),
    /// A part of a statistics dump.
    Dump(DumpLine),
    Other,
}

/// An event: those fields of all events that the report needs. Sizes are bytes.
#[derive(Deserialize, Debug, Default, Clone)]
#[serde(default)]
pub(super) struct HistoryEvent {
    pub(super) time_micros: u64,
    pub(super) job: u64,
    pub(super) event: String,
    pub(super) cf_name: String,
    pub(super) flush_reason: String,
    pub(super) compaction_reason: String,
    pub(super) lsm_state: Vec<u64>,
    pub(super) file_size: u64,
    pub(super) total_blob_bytes: u64,
    pub(super) input_data_size: u64,
    pub(super) total_output_size: u64,
    pub(super) total_files_size: u64,
    pub(super) output_level: usize,
    pub(super) destination_level: usize,
    pub(super) num_input_records: u64,
    pub(super) num_output_records: u64,
}

/// A stall.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StallLine {
    pub(super) family: String,
    pub(super) stops: bool,
    pub(super) cause: &'static str,
}

/// A line of a statistics dump.
#[derive(Debug, PartialEq)]
pub(super) enum DumpLine {
    Begin,
    /// The following rows are of this family's levels.
    Family(String),
    Level {
        level: usize,
        bytes: f64,
    },
    /// Megabytes a second that users wrote in the interval.
    IntervalIngest(f64),
    /// Percent of the interval in which writers waited.
    IntervalStall(f64),
    Cache {
        capacity: f64,
        usage: f64,
    },
    Ticker {
        is_hit: bool,
        count: u64,
    },
    /// Stalls of a family since the open: (slowed, stopped) by cause.
    StallCounts([(u64, u64); CAUSES.len()]),
}

/// The causes of stalls, in the order of [`DumpLine::StallCounts`].
pub(super) const CAUSES: [&str; 3] = ["files in level 0", "memtables", "bytes waiting for compaction"];
pub(super) const OTHER_CAUSE: &str = "other";

/// `text` with at most [`NAME_CHARS`] characters.
pub(super) fn name(text: &str) -> String {
    text.trim().chars().take(NAME_CHARS).collect()
}

/// The time at the begin of a line, in microseconds of the local zone, and the rest of the line:
/// `2026/11/20-20:25:43.123456 4242 …`.
pub(super) fn stamp(line: &str) -> Option<(i64, &str)> {
    let (date, rest) = line.split_once('-')?;
    let (time, rest) = rest.split_once(' ')?;
    let mut date = date.splitn(3, '/').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let (clock, micros) = time.split_once('.')?;
    let mut clock = clock.splitn(3, ':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    let micros: i64 = micros.parse().ok()?;
    let is_time = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..=60).contains(&second);
    let is_date = (1970..10_000).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_time || !is_date || !(0..1_000_000).contains(&micros) {
        return None;
    }
    let seconds = ((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
    Some((seconds * 1_000_000 + micros, rest))
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the day that some years lack is the last one.
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    365 * year + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

/// The meaning of a line behind its stamp; of a line without a stamp, the whole line.
pub(super) fn meaning(text: &str) -> LogMeaning {
    if let Some(at) = text.find("EVENT_LOG_v1 ") {
        let object = text.get(at + "EVENT_LOG_v1 ".len()..).unwrap_or_default();
        return match serde_json::from_str::<HistoryEvent>(object) {
            Ok(event) => LogMeaning::Event(Box::new(shortened(event))),
            Err(_) => LogMeaning::Unreadable,
        };
    }
    if let Some(stall) = stall(text) {
        return LogMeaning::Stall(stall);
    }
    if let Some(dump) = dump(text) {
        return LogMeaning::Dump(dump);
    }
    for program in ["Esker", "RocksDB"] {
        let version = text.split_once(program).and_then(|(before, rest)| {
            (!before.contains("Compatible")).then(|| rest.strip_prefix(" version: "))?
        });
        if let Some(version) = version {
            return LogMeaning::Version(format!("{program} {}", name(version)));
        }
    }
    match ["[ERROR]", "[FATAL]"].iter().any(|level| text.contains(level)) {
        true => LogMeaning::Failure(text.trim().chars().take(4 * NAME_CHARS).collect()),
        false => LogMeaning::Other,
    }
}

fn shortened(mut event: HistoryEvent) -> HistoryEvent {
    for text in [&mut event.event, &mut event.cf_name, &mut event.flush_reason, &mut event.compaction_reason]
    {
        *text = name(text);
    }
    let deeper: u64 = event.lsm_state.iter().skip(LEVELS).fold(0, |sum, files| sum.saturating_add(*files));
    event.lsm_state.truncate(LEVELS);
    if let Some(last) = event.lsm_state.last_mut() {
        *last = last.saturating_add(deeper);
    }
    event.lsm_state.shrink_to_fit();
    event
}

/// `[default] Stalling writes because we have 20 level-0 files rate 16777216`.
fn stall(text: &str) -> Option<StallLine> {
    let (before, because, stops) = match text.split_once("Stalling writes because ") {
        Some((before, because)) => (before, because, false),
        None => {
            let (before, because) = text.split_once("Stopping writes because ")?;
            (before, because, true)
        }
    };
    let family = before.trim_end().strip_suffix(']').and_then(|text| text.rsplit_once('['));
    let causes = [("level-0 files", CAUSES[0]), ("memtables", CAUSES[1]), ("pending compaction", CAUSES[2])];
    let cause =
        causes.iter().find(|(words, _)| because.contains(words)).map_or(OTHER_CAUSE, |(_, cause)| cause);
    Some(StallLine { family: family.map_or_else(String::new, |(_, family)| name(family)), stops, cause })
}

fn dump(text: &str) -> Option<DumpLine> {
    let text = text.trim();
    if text.ends_with("------- DUMPING STATS -------") {
        return Some(DumpLine::Begin);
    }
    if let Some(rest) = text.strip_prefix("** Compaction Stats [") {
        return Some(DumpLine::Family(name(rest.strip_suffix("] **")?)));
    }
    if let Some(rest) = text.strip_prefix('L') {
        return level_row(rest);
    }
    if let Some(rest) = text.strip_prefix("Interval writes: ") {
        let rate = rest.rsplit_once(", ")?.1.strip_suffix(" MB/s")?;
        return Some(DumpLine::IntervalIngest(number(rate)?));
    }
    if let Some(rest) = text.strip_prefix("Interval stall: ") {
        return Some(DumpLine::IntervalStall(number(rest.rsplit_once(", ")?.1.strip_suffix(" percent")?)?));
    }
    if let Some(rest) = text.strip_prefix("Block cache ") {
        let capacity = sized(rest.split_once(" capacity: ")?.1)?;
        return Some(DumpLine::Cache { capacity, usage: sized(rest.split_once(" usage: ")?.1)? });
    }
    if let Some(rest) = text.strip_prefix("rocksdb.block.cache.") {
        let (what, count) = rest.split_once(" COUNT : ")?;
        let is_hit = match what {
            "hit" => true,
            "miss" => false,
            _ => return None,
        };
        return Some(DumpLine::Ticker { is_hit, count: count.trim().parse().ok()? });
    }
    stall_counts(text)
}

/// ` 4/4    1.97 MB   0.0 …`, behind the `L`.
fn level_row(rest: &str) -> Option<DumpLine> {
    let (level, rest) = rest.split_once(' ')?;
    let (files, rest) = rest.trim_start().split_once(' ')?;
    files.split_once('/')?;
    Some(DumpLine::Level {
        level: level.parse::<usize>().ok()?.min(LEVELS - 1),
        bytes: sized(rest.trim_start())?,
    })
}

/// `Write Stall (count): l0-file-count-limit-delays: 3, …`, or RocksDB 7's `Stalls(count): 3
/// level0_slowdown, …`.
fn stall_counts(text: &str) -> Option<DumpLine> {
    let mut counts = [(0, 0); CAUSES.len()];
    if let Some(rest) = text.strip_prefix("Write Stall (count): ") {
        for part in rest.split(", ") {
            let (what, count) = part.split_once(": ")?;
            let count: u64 = count.trim().parse().ok()?;
            match what {
                "l0-file-count-limit-delays" => counts[0].0 = count,
                "l0-file-count-limit-stops" => counts[0].1 = count,
                "memtable-limit-delays" => counts[1].0 = count,
                "memtable-limit-stops" => counts[1].1 = count,
                "pending-compaction-bytes-delays" => counts[2].0 = count,
                "pending-compaction-bytes-stops" => counts[2].1 = count,
                // The whole database has a line with another name only.
                "write-buffer-manager-limit-stops" => return None,
                _ => {}
            }
        }
        return Some(DumpLine::StallCounts(counts));
    }
    for part in text.strip_prefix("Stalls(count): ")?.split(", ") {
        let Some((count, what)) = part.split_once(' ') else { continue };
        let Ok(count) = count.parse::<u64>() else { continue };
        match what {
            "level0_slowdown" => counts[0].0 = count,
            "level0_numfiles" => counts[0].1 = count,
            "memtable_slowdown" => counts[1].0 = count,
            "memtable_compaction" => counts[1].1 = count,
            "slowdown for pending_compaction_bytes" => counts[2].0 = count,
            "stop for pending_compaction_bytes" => counts[2].1 = count,
            _ => {}
        }
    }
    Some(DumpLine::StallCounts(counts))
}

/// Larger numbers are forged.
const MOST: f64 = 1e18;

/// A number of at most [`MOST`] at the begin of `text`, not negative.
fn number(text: &str) -> Option<f64> {
    let value: f64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some(value.min(MOST))
}

/// A size such as `1.97 MB`, in bytes.
fn sized(text: &str) -> Option<f64> {
    let unit = text.split_ascii_whitespace().nth(1)?;
    let power = ["B", "KB", "MB", "GB", "TB", "PB"].iter().position(|name| *name == unit)?;
    Some((number(text)? * 1024_f64.powi(i32::try_from(power).ok()?)).min(MOST))
}

#[cfg(test)]
mod tests;
