//! The history of a database, from the lines of its LOG files.
//!
//! In: lines, oldest first. Out: levels over time, jobs, stalls, caches, failures.
//!
//! Invariants
//!  1. Memory does not grow with the LOG: every list and map has a limit, and `left_out` counts the
//!     jobs beyond theirs.
//!  2. Times are microseconds since the Unix epoch. Lines without an event have a local time only;
//!     the last event tells the zone.

use super::lines::{
    CAUSES, DumpLine, HistoryEvent, LEVELS, LogMeaning, OTHER_CAUSE, StallLine, meaning, stamp,
};
use super::series::{Sums, Thinned};
use std::collections::{BTreeMap, VecDeque};
use std::ops::AddAssign;

/// Families with a history of their own; events of others belong to `OTHER_FAMILIES`.
const MOST_FAMILIES: usize = 24;
const OTHER_FAMILIES: &str = "(other families)";
/// Jobs that have begun and not ended. An open database has a few.
const MOST_OPEN_JOBS: usize = 256;
/// Jobs that are kept. When there are twice as many, the shortest go.
const MOST_JOBS: usize = 1200;
const MOST_REASONS: usize = 32;
const MOST_OPENS: usize = 200;
const MOST_FAILURES: usize = 20;
const QUARTER_HOUR: i64 = 15 * 60 * 1_000_000;

/// The kinds of jobs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum JobKind {
    Flush,
    Compaction,
    /// Files that moved to another level as they were.
    Move,
}

/// A job that has ended.
#[derive(Clone, Debug)]
pub(super) struct JobRecord {
    pub(super) kind: JobKind,
    pub(super) family: String,
    pub(super) reason: String,
    /// The level of its outputs.
    pub(super) level: usize,
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) bytes_read: u64,
    pub(super) bytes_written: u64,
    pub(super) entries_read: u64,
    pub(super) entries_written: u64,
}

/// Jobs of one kind and reason.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReasonSum {
    pub(super) jobs: u64,
    pub(super) micros: u64,
    pub(super) bytes_read: u64,
    pub(super) bytes_written: u64,
}

/// Bytes that jobs wrote in an interval.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WrittenBytes {
    pub(super) flushed: u64,
    pub(super) compacted: u64,
}

impl AddAssign for WrittenBytes {
    fn add_assign(&mut self, other: WrittenBytes) {
        self.flushed = self.flushed.saturating_add(other.flushed);
        self.compacted = self.compacted.saturating_add(other.compacted);
    }
}

/// Stalls that began in an interval.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StallSum {
    pub(super) slowed: u64,
    pub(super) stopped: u64,
}

impl AddAssign for StallSum {
    fn add_assign(&mut self, other: StallSum) {
        self.slowed = self.slowed.saturating_add(other.slowed);
        self.stopped = self.stopped.saturating_add(other.stopped);
    }
}

/// The history of a family.
#[derive(Debug, Default)]
pub(super) struct FamilyHistory {
    /// Files of each level after each flush and compaction.
    pub(super) files: Thinned<Vec<f64>>,
    /// Bytes of each level at each statistics dump.
    pub(super) bytes: Thinned<Vec<f64>>,
    /// Stalls since the last open, by cause: (slowed, stopped).
    counted: [(u64, u64); CAUSES.len()],
}

/// The history of a database.
#[derive(Debug, Default)]
pub(super) struct LogHistory {
    pub(super) lines: u64,
    pub(super) unreadable: u64,
    pub(super) first: Option<u64>,
    pub(super) last: Option<u64>,
    pub(super) families: BTreeMap<String, FamilyHistory>,
    pub(super) jobs: Vec<JobRecord>,
    /// Jobs that are not in `jobs`.
    pub(super) left_out: u64,
    /// By kind and reason.
    pub(super) reasons: BTreeMap<(JobKind, String), ReasonSum>,
    pub(super) written: Sums<WrittenBytes>,
    pub(super) stalls: Sums<StallSum>,
    /// Lines about stalls, by cause.
    pub(super) stall_lines: BTreeMap<&'static str, StallSum>,
    /// The same as the statistics dumps count them, summed over families and opens.
    pub(super) stall_counts: BTreeMap<&'static str, StallSum>,
    /// Percent of the time in which writers waited, at each dump.
    pub(super) stalled: Thinned<f64>,
    /// Megabytes a second that users wrote, at each dump.
    pub(super) ingested: Thinned<f64>,
    /// Bytes in the largest block cache, and its capacity.
    pub(super) cache: Thinned<(f64, f64)>,
    /// Percent of the lookups in block caches that found their block, since the dump before.
    pub(super) hits: Thinned<f64>,
    /// Times of opens, and the program.
    pub(super) opens: Vec<(u64, String)>,
    pub(super) failures: VecDeque<(Option<u64>, String)>,
    open_jobs: BTreeMap<u64, JobRecord>,
    dump: DumpState,
    /// The difference of the zone's time from the epoch's, in microseconds.
    zone: Option<i64>,
    /// The program of an open that no event has followed yet.
    opened_by: Option<String>,
}

/// The state within a dump.
#[derive(Debug, Default)]
struct DumpState {
    time: u64,
    family: String,
    levels: Vec<f64>,
    cache: Option<(f64, f64)>,
    tickers: [u64; 2],
    newest_tickers: [Option<u64>; 2],
}

impl LogHistory {
    /// Adds a line.
    pub(super) fn add(&mut self, line: &str) {
        self.lines += 1;
        let stamped = stamp(line);
        let text = stamped.map_or(line, |(_, rest)| rest);
        let local = stamped.map(|(local, _)| local);
        let time = local.and_then(|local| u64::try_from(local.saturating_sub(self.zone?)).ok());
        match meaning(text) {
            LogMeaning::Event(event) => {
                if let (Some(local), Ok(micros)) = (local, i64::try_from(event.time_micros)) {
                    let difference = local.saturating_sub(micros).saturating_add(QUARTER_HOUR / 2);
                    self.zone = Some(difference.div_euclid(QUARTER_HOUR).saturating_mul(QUARTER_HOUR));
                }
                self.event(*event);
            }
            LogMeaning::Unreadable => self.unreadable += 1,
            LogMeaning::Stall(stall) => self.stall(time, &stall),
            LogMeaning::Version(program) => self.open(program),
            LogMeaning::Failure(text) => {
                self.failures.push_back((time, text));
                if self.failures.len() > MOST_FAILURES {
                    self.failures.pop_front();
                }
            }
            LogMeaning::Dump(line) => self.dump(time, line),
            LogMeaning::Other => {}
        }
    }

    /// Ends the history: the last dump counts.
    pub(super) fn finish(&mut self) {
        self.end_dump();
    }

    fn see(&mut self, time: u64) {
        self.first = Some(self.first.map_or(time, |first| first.min(time)));
        self.last = Some(self.last.map_or(time, |last| last.max(time)));
    }

    /// Remembers an open. Jobs that were running then never ended, and counts begin anew.
    fn open(&mut self, program: String) {
        self.end_dump();
        self.opened_by = Some(program);
        self.open_jobs.clear();
        self.dump = DumpState::default();
        for family in self.families.values_mut() {
            family.counted = Default::default();
        }
    }

    fn family(&mut self, name: &str) -> &mut FamilyHistory {
        let is_known = self.families.contains_key(name) || self.families.len() < MOST_FAMILIES;
        let name = if is_known { name } else { OTHER_FAMILIES };
        self.families.entry(name.to_owned()).or_default()
    }

    fn event(&mut self, event: HistoryEvent) {
        let time = event.time_micros;
        self.see(time);
        if let Some(program) = self.opened_by.take()
            && self.opens.len() < MOST_OPENS
        {
            self.opens.push((time, program));
        }
        match &event.event[..] {
            "flush_started" => self.begin(JobKind::Flush, &event, &event.flush_reason, 0),
            "compaction_started" => {
                self.begin(JobKind::Compaction, &event, &event.compaction_reason, event.input_data_size);
            }
            "table_file_creation" | "blob_file_creation" => self.file(&event),
            "flush_finished" | "compaction_finished" => self.end(event),
            "trivial_move" => self.moved(&event),
            _ => {}
        }
    }

    fn begin(&mut self, kind: JobKind, event: &HistoryEvent, reason: &str, bytes_read: u64) {
        let job = JobRecord {
            kind,
            family: event.cf_name.clone(),
            reason: reason.to_owned(),
            level: 0,
            begin: event.time_micros,
            end: event.time_micros,
            bytes_read,
            bytes_written: 0,
            entries_read: 0,
            entries_written: 0,
        };
        self.open_jobs.insert(event.job, job);
        if self.open_jobs.len() > MOST_OPEN_JOBS {
            self.open_jobs.pop_first();
        }
    }

    /// A file of a job that runs. Events of flushes name their family here only.
    fn file(&mut self, event: &HistoryEvent) {
        let Some(job) = self.open_jobs.get_mut(&event.job) else { return };
        if job.family.is_empty() {
            job.family.clone_from(&event.cf_name);
        }
        let bytes = event.file_size.saturating_add(event.total_blob_bytes);
        job.bytes_written = job.bytes_written.saturating_add(bytes);
    }

    fn end(&mut self, event: HistoryEvent) {
        let Some(mut job) = self.open_jobs.remove(&event.job) else {
            // Its begin is in a LOG that is gone.
            return;
        };
        job.end = event.time_micros.max(job.begin);
        job.level = event.output_level.min(LEVELS - 1);
        if event.total_output_size > 0 {
            job.bytes_written = event.total_output_size;
        }
        (job.entries_read, job.entries_written) = (event.num_input_records, event.num_output_records);
        if !event.lsm_state.is_empty() && !job.family.is_empty() {
            let mut files: Vec<f64> = event.lsm_state.iter().map(|files| *files as f64).collect();
            files.resize(LEVELS, 0.0);
            let name = job.family.clone();
            self.family(&name).files.push(event.time_micros, files);
        }
        self.keep(job);
    }

    fn moved(&mut self, event: &HistoryEvent) {
        let family = self.open_jobs.remove(&event.job).map_or_else(String::new, |job| job.family);
        self.keep(JobRecord {
            kind: JobKind::Move,
            family,
            reason: "moved without a rewrite".to_owned(),
            level: event.destination_level.min(LEVELS - 1),
            begin: event.time_micros,
            end: event.time_micros,
            bytes_read: 0,
            bytes_written: event.total_files_size,
            entries_read: 0,
            entries_written: 0,
        });
    }

    fn keep(&mut self, job: JobRecord) {
        let micros = job.end - job.begin;
        let mut key = (job.kind, job.reason.clone());
        if self.reasons.len() >= MOST_REASONS && !self.reasons.contains_key(&key) {
            key.1 = "other".to_owned();
        }
        let sum = self.reasons.entry(key).or_default();
        sum.jobs += 1;
        sum.micros = sum.micros.saturating_add(micros);
        sum.bytes_read = sum.bytes_read.saturating_add(job.bytes_read);
        sum.bytes_written = sum.bytes_written.saturating_add(job.bytes_written);
        let (flushed, compacted) = match job.kind {
            JobKind::Flush => (job.bytes_written, 0),
            JobKind::Compaction => (0, job.bytes_written),
            JobKind::Move => (0, 0),
        };
        self.written.add(job.end, WrittenBytes { flushed, compacted });
        self.jobs.push(job);
        if self.jobs.len() > 2 * MOST_JOBS {
            self.keep_longest_jobs();
        }
    }

    /// Drops the shortest jobs until the list has its limit.
    pub(super) fn keep_longest_jobs(&mut self) {
        if self.jobs.len() > MOST_JOBS {
            self.jobs.sort_by_key(|job| std::cmp::Reverse(job.end - job.begin));
            self.left_out += (self.jobs.len() - MOST_JOBS) as u64;
            self.jobs.truncate(MOST_JOBS);
        }
    }

    fn stall(&mut self, time: Option<u64>, stall: &StallLine) {
        let sum = match stall.stops {
            true => StallSum { slowed: 0, stopped: 1 },
            false => StallSum { slowed: 1, stopped: 0 },
        };
        *self.stall_lines.entry(stall.cause).or_default() += sum;
        if let Some(time) = time {
            self.see(time);
            self.stalls.add(time, sum);
        }
    }

    fn dump(&mut self, time: Option<u64>, line: DumpLine) {
        if line == DumpLine::Begin {
            self.end_dump();
            self.dump.time = time.unwrap_or(0);
        }
        let at = self.dump.time;
        if at == 0 {
            return;
        }
        match line {
            DumpLine::Begin => self.see(at),
            DumpLine::Family(name) => {
                self.end_levels();
                self.dump.family = name;
            }
            DumpLine::Level { level, bytes } => {
                self.dump.levels.resize(LEVELS, 0.0);
                self.dump.levels[level] += bytes;
            }
            DumpLine::IntervalIngest(rate) => self.ingested.push(at, rate),
            DumpLine::IntervalStall(percent) => self.stalled.push(at, percent.min(100.0)),
            DumpLine::Cache { capacity, usage } => {
                if self.dump.cache.is_none_or(|cache| capacity > cache.0) {
                    self.dump.cache = Some((capacity, usage));
                }
            }
            DumpLine::Ticker { is_hit, count } => {
                self.dump.newest_tickers[usize::from(!is_hit)] = Some(count);
            }
            DumpLine::StallCounts(counts) => self.stall_counts(counts),
        }
    }

    /// Stalls of the present family of a dump since its last dump.
    fn stall_counts(&mut self, counts: [(u64, u64); CAUSES.len()]) {
        let name = self.dump.family.clone();
        let before = std::mem::replace(&mut self.family(&name).counted, counts);
        for ((cause, now), before) in CAUSES.iter().zip(counts).zip(before) {
            let slowed = now.0.saturating_sub(before.0);
            let stopped = now.1.saturating_sub(before.1);
            if slowed > 0 || stopped > 0 {
                *self.stall_counts.entry(cause).or_default() += StallSum { slowed, stopped };
            }
        }
    }

    fn end_levels(&mut self) {
        let (levels, at) = (std::mem::take(&mut self.dump.levels), self.dump.time);
        if !levels.is_empty() {
            let name = self.dump.family.clone();
            self.family(&name).bytes.push(at, levels);
        }
    }

    fn end_dump(&mut self) {
        if self.dump.time == 0 {
            return;
        }
        self.end_levels();
        let at = self.dump.time;
        if let Some((capacity, usage)) = self.dump.cache.take() {
            self.cache.push(at, (usage, capacity));
        }
        if let [Some(hits), Some(misses)] = std::mem::take(&mut self.dump.newest_tickers) {
            let new_hits = hits.saturating_sub(self.dump.tickers[0]);
            let new_misses = misses.saturating_sub(self.dump.tickers[1]);
            let lookups = new_hits.saturating_add(new_misses);
            if lookups > 0 {
                self.hits.push(at, 100.0 * new_hits as f64 / lookups as f64);
            }
            self.dump.tickers = [hits, misses];
        }
    }

    /// Stalls by cause: from their lines if the LOG has any, else from the dumps.
    pub(super) fn stalls_by_cause(&self) -> Vec<(&'static str, StallSum)> {
        let known = if self.stall_lines.is_empty() { &self.stall_counts } else { &self.stall_lines };
        let causes = CAUSES.iter().chain([&OTHER_CAUSE]);
        causes.filter_map(|cause| Some((*cause, *known.get(cause)?))).collect()
    }
}

#[cfg(test)]
mod tests;
