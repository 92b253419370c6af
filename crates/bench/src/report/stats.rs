//! Counts and times of one thread, and their sums over all threads of a benchmark.

use super::{IntervalReport, MB, log_time};
use crate::flags::Flags;
use crate::output::BenchOutput;
use esker::internals::env::Clock;
use esker::stats::HistogramSnapshot;
use std::fmt::Write;

/// The kind of an operation, for the histograms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BenchOpKind {
    Read,
    Write,
    Delete,
    Seek,
    MultiScan,
    Merge,
    Update,
    Compress,
    Uncompress,
    Crc,
    Hash,
    Other,
}

impl BenchOpKind {
    const ALL: [BenchOpKind; 12] = [
        BenchOpKind::Read,
        BenchOpKind::Write,
        BenchOpKind::Delete,
        BenchOpKind::Seek,
        BenchOpKind::MultiScan,
        BenchOpKind::Merge,
        BenchOpKind::Update,
        BenchOpKind::Compress,
        BenchOpKind::Uncompress,
        BenchOpKind::Crc,
        BenchOpKind::Hash,
        BenchOpKind::Other,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            BenchOpKind::Read => "read",
            BenchOpKind::Write => "write",
            BenchOpKind::Delete => "delete",
            BenchOpKind::Seek => "seek",
            BenchOpKind::MultiScan => "multiscan",
            BenchOpKind::Merge => "merge",
            BenchOpKind::Update => "update",
            BenchOpKind::Compress => "compress",
            BenchOpKind::Uncompress => "uncompress",
            BenchOpKind::Crc => "crc",
            BenchOpKind::Hash => "hash",
            BenchOpKind::Other => "op",
        }
    }
}

/// The state that the threads of a benchmark share for their reports.
pub(crate) struct StatsSink<'a> {
    pub(crate) flags: &'a Flags,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) output: &'a BenchOutput,
    pub(crate) interval: Option<&'a IntervalReport>,
    /// Operations between two reports of a thread. With 0, the number grows from report to report.
    pub(crate) stats_interval: u64,
    /// Reads a property of the database, for `stats_per_interval`.
    pub(crate) property: &'a (dyn Fn(&str) -> Option<String> + Sync),
}

/// Counts of one thread.
pub(crate) struct Stats<'a> {
    sink: &'a StatsSink<'a>,
    thread: usize,
    next_report: u64,
    last_report_done: u64,
    last_report_micros: u64,
    last_op_micros: u64,
    done: FinishedOperations,
}

/// Counts of operations, and their times.
#[derive(Clone, Debug, Default)]
pub(crate) struct FinishedOperations {
    /// Start in microseconds of the monotonic clock.
    pub(crate) start: u64,
    pub(crate) finish: u64,
    /// Sum of the microseconds of all threads.
    pub(crate) micros: u64,
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    pub(crate) message: String,
    pub(super) histograms: Vec<(BenchOpKind, HistogramSnapshot)>,
    pub(super) excluded: bool,
}

impl<'a> Stats<'a> {
    /// Starts the clock.
    pub(crate) fn start(sink: &'a StatsSink<'a>, thread: usize) -> Stats<'a> {
        let now = micros(sink.clock);
        let next_report = match sink.stats_interval {
            _ if !sink.flags.progress_reports => u64::MAX,
            0 => 100,
            interval => interval,
        };
        Stats {
            sink,
            thread,
            next_report,
            last_report_done: 0,
            last_report_micros: now,
            last_op_micros: now,
            done: FinishedOperations { start: now, finish: now, ..FinishedOperations::default() },
        }
    }

    /// Counts `count` operations of one kind. The time since the last call goes into the histogram.
    #[inline]
    pub(crate) fn finished(&mut self, count: u64, kind: BenchOpKind) {
        if let Some(interval) = self.sink.interval {
            interval.add(count);
        }
        if self.sink.flags.histogram {
            self.time(kind);
        }
        self.done.operations += count;
        if self.done.operations >= self.next_report {
            self.report_progress();
        }
    }

    pub(crate) fn add_bytes(&mut self, bytes: u64) {
        self.done.bytes += bytes;
    }

    /// Appends a text to the result line.
    pub(crate) fn add_message(&mut self, message: &str) {
        if !self.done.message.is_empty() {
            self.done.message.push(' ');
        }
        self.done.message.push_str(message);
    }

    /// Leaves this thread out of the result.
    pub(crate) fn exclude(&mut self) {
        self.done.excluded = true;
    }

    /// Restarts the clock of the next operation, after a wait that does not count.
    pub(crate) fn reset_last_op_time(&mut self) {
        self.last_op_micros = micros(self.sink.clock);
    }

    /// Stops the clock.
    pub(crate) fn stop(mut self) -> FinishedOperations {
        self.done.finish = micros(self.sink.clock);
        self.done.micros = self.done.finish - self.done.start;
        self.done
    }

    fn time(&mut self, kind: BenchOpKind) {
        let now = micros(self.sink.clock);
        let took = now - self.last_op_micros;
        self.done.histogram(kind).add(took);
        if took >= self.sink.flags.slow_usecs && self.sink.stats_interval == 0 {
            self.sink.output.report(format_args!("long op: {took} micros{:30}\r", ""));
        }
        self.last_op_micros = now;
    }

    #[cold]
    fn report_progress(&mut self) {
        if self.sink.stats_interval == 0 {
            self.next_report += match self.next_report {
                ..1_000 => 100,
                1_000..5_000 => 500,
                5_000..10_000 => 1_000,
                10_000..50_000 => 5_000,
                50_000..100_000 => 10_000,
                100_000..500_000 => 50_000,
                _ => 100_000,
            };
            self.sink.output.report(format_args!("... finished {} ops{:30}\r", self.done.operations, ""));
            return;
        }
        self.next_report += self.sink.stats_interval;
        let now = micros(self.sink.clock);
        let seconds = u64::try_from(self.sink.flags.stats_interval_seconds).unwrap_or(0);
        if now - self.last_report_micros < seconds * 1_000_000 {
            return;
        }
        self.report_interval(now);
        self.last_report_micros = now;
        self.last_report_done = self.done.operations;
    }

    fn report_interval(&self, now: u64) {
        let since_last = (now - self.last_report_micros) as f64 / 1e6;
        let since_start = (now - self.done.start) as f64 / 1e6;
        let (new, all) = (self.done.operations - self.last_report_done, self.done.operations);
        let mut text = format!(
            "{} ... thread {}: ({new},{all}) ops and ({:.1},{:.1}) ops/second in ({since_last:.6},{since_start:.6}) seconds\n",
            log_time(self.sink.clock.now_seconds()),
            self.thread,
            new as f64 / since_last,
            all as f64 / since_start,
        );
        if self.thread == 0 && self.sink.flags.stats_per_interval > 0 {
            text.extend((self.sink.property)("rocksdb.stats"));
            for what in ["num-running-compactions", "num-running-flushes"] {
                if let Some(number) = (self.sink.property)(&format!("rocksdb.{what}")) {
                    writeln!(text, "{what}: {number}").expect("a write to a String cannot fail");
                }
            }
        }
        self.sink.output.report(format_args!("{text}"));
    }
}

impl FinishedOperations {
    /// Adds the work of another thread. Takes its message only if `self` has no message.
    pub(crate) fn merge(&mut self, other: &FinishedOperations) {
        if other.excluded {
            return;
        }
        let is_first = self.finish == 0;
        self.start = if is_first { other.start } else { self.start.min(other.start) };
        self.finish = self.finish.max(other.finish);
        self.micros += other.micros;
        self.operations += other.operations;
        self.bytes += other.bytes;
        if self.message.is_empty() {
            self.message.clone_from(&other.message);
        }
        for (kind, histogram) in &other.histograms {
            self.histogram(*kind).merge(histogram);
        }
    }

    /// Seconds from the first start to the last finish.
    pub(crate) fn elapsed(&self) -> f64 {
        (self.finish - self.start) as f64 * 1e-6
    }

    /// The result line, and the histograms if there are any.
    pub(crate) fn text(&self, name: &str) -> String {
        // A benchmark that counts no operations is shown as one operation.
        let operations = self.operations.max(1);
        let elapsed = self.elapsed();
        let mut extra = String::new();
        if self.bytes > 0 {
            extra = format!("{:6.1} MB/s", self.bytes as f64 / MB / elapsed);
        }
        if !self.message.is_empty() {
            if !extra.is_empty() {
                extra.push(' ');
            }
            extra.push_str(&self.message);
        }
        let mut text = format!(
            "{name:<12} : {:11.3} micros/op {} ops/sec {elapsed:.3} seconds {operations} operations;{}{extra}\n",
            self.micros as f64 / operations as f64,
            (operations as f64 / elapsed) as i64,
            if extra.is_empty() { "" } else { " " },
        );
        for kind in BenchOpKind::ALL {
            if let Some((_, histogram)) = self.histograms.iter().find(|(k, _)| *k == kind) {
                writeln!(text, "Microseconds per {}:\n{histogram}", kind.as_str())
                    .expect("a write to a String cannot fail");
            }
        }
        text
    }

    fn histogram(&mut self, kind: BenchOpKind) -> &mut HistogramSnapshot {
        let i = self.histograms.iter().position(|(k, _)| *k == kind).unwrap_or_else(|| {
            self.histograms.push((kind, HistogramSnapshot::new()));
            self.histograms.len() - 1
        });
        &mut self.histograms[i].1
    }
}

fn micros(clock: &dyn Clock) -> u64 {
    clock.monotonic_nanos() / 1_000
}
