//! Report files, in the forms of RocksDB's tool.

use super::stats::{FamilyStats, Queries, QueryKind};
use super::{AnalyzerOptions, key_text};
use crate::failure::{CommandOutcome, Failure};
use crate::host::Host;
use esker::internals::env::WritableFile;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Bytes of text that a report keeps before it writes them.
const BUFFER_BYTES: usize = 64 << 10;

/// A report file under way.
pub(super) struct QueryReport {
    file: Box<dyn WritableFile>,
    text: String,
}

impl QueryReport {
    pub(super) fn line(&mut self, line: std::fmt::Arguments<'_>) -> CommandOutcome {
        writeln!(self.text, "{line}").map_err(|_| Failure::new("out of memory"))?;
        if self.text.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> CommandOutcome {
        self.file.append(self.text.as_bytes())?;
        self.text.clear();
        Ok(())
    }

    pub(super) fn close(mut self) -> CommandOutcome {
        self.flush()?;
        Ok(self.file.close()?)
    }
}

/// All report files of a run.
pub(super) struct Reports<'a> {
    options: &'a AnalyzerOptions,
    host: &'a Host,
    /// The human-readable trace.
    sequence: Option<QueryReport>,
}

impl<'a> Reports<'a> {
    /// Makes the human-readable trace, if it is wanted.
    /// # Errors
    /// The file cannot be made.
    pub(super) fn new(options: &'a AnalyzerOptions, host: &'a Host) -> CommandOutcome<Reports<'a>> {
        let mut reports = Reports { options, host, sequence: None };
        if options.convert_to_human_readable_trace {
            reports.sequence = Some(reports.create("human_readable_trace.txt")?);
        }
        Ok(reports)
    }

    /// Makes a report file. `ending` is its name behind the prefix.
    pub(super) fn create(&self, ending: &str) -> CommandOutcome<QueryReport> {
        let dir = self.options.output_dir.clone().unwrap_or_default();
        let path = dir.join(format!("{}-{ending}", self.options.output_prefix));
        let failed = |e| Failure::new(format_args!("Cannot open file: {}: {e}", path.display()));
        let file = self.host.fs().new_writable_file(&path).map_err(failed)?;
        Ok(QueryReport { file, text: String::new() })
    }

    /// Adds a query to the human-readable trace.
    pub(super) fn add_query(
        &mut self,
        time: u64,
        kind: QueryKind,
        keys: &[(u32, &[u8])],
        value_bytes: usize,
    ) -> CommandOutcome {
        let Some(report) = &mut self.sequence else { return Ok(()) };
        let shows_keys = !self.options.no_key;
        let number = kind as u8;
        if let (QueryKind::RangeDelete, [(family, begin), (_, end)]) = (kind, keys) {
            let keys =
                if shows_keys { format!("{} {} ", key_text(begin), key_text(end)) } else { String::new() };
            return report.line(format_args!("{keys}{number} {family} 0 {time}"));
        }
        for (family, key) in keys {
            let key = if shows_keys { format!("{} ", key_text(key)) } else { String::new() };
            report.line(format_args!("{key}{number} {family} {value_bytes} {time}"))?;
        }
        Ok(())
    }

    /// Writes the other reports of queries, and closes the human-readable trace.
    pub(super) fn write(&mut self, queries: &Queries, seconds: u64) -> CommandOutcome {
        if let Some(sequence) = self.sequence.take() {
            sequence.close()?;
        }
        for (kind, family, stats) in queries.each() {
            self.write_family(kind, family, stats, seconds)?;
        }
        if self.options.output_qps_stats { self.write_rates(queries, seconds) } else { Ok(()) }
    }

    fn write_family(
        &self,
        kind: QueryKind,
        family: u32,
        stats: &FamilyStats,
        seconds: u64,
    ) -> CommandOutcome {
        let options = self.options;
        let create = |ending: &str| self.create(&format!("{}-{family}-{ending}", kind.name()));
        if options.output_key_stats {
            let mut report = create("accessed_key_stats.txt")?;
            for key in stats.keys.values() {
                let (bytes, number, accesses) = (key.value_bytes, key.number, key.accesses);
                // Each recorded access counts as one that succeeded, as in RocksDB's tool.
                report.line(format_args!("{family} {bytes} {number} {accesses} {:.6}", 1.0))?;
            }
            report.close()?;
            write_key_numbers(create("accessed_unique_key_num_change.txt")?, stats, seconds)?;
        }
        if options.output_access_count_stats {
            let accesses = self.counted_keys(stats).map(|(_, accesses)| accesses);
            let mut report = create("accessed_key_count_distribution.txt")?;
            for (accesses, keys) in distribution(accesses) {
                report.line(format_args!("access_count: {accesses} num: {keys}"))?;
            }
            report.close()?;
        }
        if options.output_key_distribution {
            let mut report = create("accessed_key_size_distribution.txt")?;
            for (bytes, keys) in distribution(self.counted_keys(stats).map(|(bytes, _)| bytes)) {
                report.line(format_args!("{bytes} {keys}"))?;
            }
            report.close()?;
        }
        if options.output_value_distribution {
            let mut report = create("accessed_value_size_distribution.txt")?;
            let mut begin = 0;
            for (class, values) in &stats.by_value_class {
                let end = (class + 1) * options.value_interval;
                if matches!(kind, QueryKind::Put | QueryKind::Merge) {
                    report
                        .line(format_args!("Number_of_value_size_between {begin} and {end} is: {values}"))?;
                }
                begin = end;
            }
            report.close()?;
        }
        if options.output_prefix_cut > 0 {
            self.write_prefixes(create("accessed_key_prefix_cut.txt")?, stats)?;
        }
        if options.output_time_series {
            let mut report = create("time_series.txt")?;
            for (second, key) in &stats.series {
                let number = stats.keys.get(key).map_or(0, |key| key.number);
                report.line(format_args!("{} {second} {number}", kind as u8))?;
            }
            report.close()?;
        }
        if options.output_qps_stats {
            let mut report = create("qps_stats.txt")?;
            let last = stats.by_second.range(..seconds).next_back().map(|(second, _)| *second);
            for second in 0..last.map_or(0, |last| last + 1) {
                report.line(format_args!("{}", stats.by_second.get(&second).unwrap_or(&0)))?;
            }
            report.close()?;
        }
        Ok(())
    }

    /// Bytes and accesses of the keys with more than `--output_ignore_count` accesses.
    fn counted_keys<'s>(&self, stats: &'s FamilyStats) -> impl Iterator<Item = (u64, u64)> + use<'s> {
        let ignored = self.options.output_ignore_count;
        let keys = stats.keys.iter().filter(move |(_, key)| key.accesses > ignored);
        keys.map(|(key, stats)| (key.len() as u64, stats.accesses))
    }

    /// Writes a line for each run of keys with one prefix: number of the run's first key, accesses,
    /// keys, accesses per key, share of accesses that succeeded, prefix.
    fn write_prefixes(&self, mut report: QueryReport, stats: &FamilyStats) -> CommandOutcome {
        let cut = |key: &[u8]| key.get(..self.options.output_prefix_cut).unwrap_or(key).to_vec();
        let mut runs: Vec<(u64, u64, u64, Vec<u8>)> = Vec::new();
        for (key, stats) in &stats.keys {
            let prefix = cut(key);
            match runs.last_mut().filter(|run| run.3 == prefix) {
                Some(run) => (run.1, run.2) = (run.1 + stats.accesses, run.2 + 1),
                None => runs.push((stats.number, stats.accesses, 1, prefix)),
            }
        }
        for (number, accesses, keys, prefix) in runs {
            let (each, prefix) = (accesses as f64 / keys as f64, key_text(&prefix));
            report.line(format_args!("{number} {accesses} {keys} {each:.6} {:.6} {prefix}", 1.0))?;
        }
        report.close()
    }

    /// Writes the queries of each second: by kind with their sum, and by column family.
    fn write_rates(&self, queries: &Queries, seconds: u64) -> CommandOutcome {
        let (mut kinds, mut families) = (self.create("qps_stats.txt")?, self.create("cf_qps_stats.txt")?);
        let text = |counts: Vec<u64>| counts.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
        for second in 0..seconds {
            let mut counts: Vec<u64> =
                QueryKind::ALL.iter().map(|kind| queries.in_second(second, |of, _| of == *kind)).collect();
            counts.push(counts.iter().sum());
            kinds.line(format_args!("{}", text(counts)))?;
            let of_family = |family| queries.in_second(second, |_, of| of == family);
            families
                .line(format_args!("{}", text(queries.families().into_iter().map(of_family).collect())))?;
        }
        kinds.close()?;
        families.close()
    }
}

/// Writes number and share of the keys that are known after each second.
fn write_key_numbers(mut report: QueryReport, stats: &FamilyStats, seconds: u64) -> CommandOutcome {
    let mut known = 0;
    for second in 0..seconds {
        known = stats.keys_at.get(&second).copied().unwrap_or(known);
        report.line(format_args!("{known} {:.12}", known as f64 / stats.keys.len() as f64))?;
    }
    report.close()
}

fn distribution(values: impl Iterator<Item = u64>) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    values.for_each(|value| *counts.entry(value).or_default() += 1);
    counts
}
