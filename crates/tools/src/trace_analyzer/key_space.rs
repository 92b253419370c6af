//! Files of whole key spaces: `FAMILY.txt` has a line with a hex key for each key of the family.
//!
//! In: these files, line by line, and the queries of a trace. Out: report files about whole key
//! spaces, and the numbers of their keys.

use super::reports::{QueryReport, Reports};
use super::stats::{FamilyStats, Queries};
use super::{AnalyzerOptions, key_text};
use crate::failure::CommandOutcome;
use crate::host::{FileLines, Host};
use crate::text::parse_hex;
use std::collections::BTreeMap;
use std::io::Write;

/// The number of keys in the key space of each family that has a file.
#[derive(Default)]
pub(super) struct KeySpaces(BTreeMap<u32, u64>);

impl KeySpaces {
    /// Reads the files of the families in the trace, and writes the reports about them. A family
    /// without a file has no key space, and a warning says so.
    /// # Errors
    /// A file that cannot be read or written, or a line that is no hex key.
    pub(super) fn read(
        options: &AnalyzerOptions,
        host: &Host,
        queries: &Queries,
        reports: &Reports<'_>,
    ) -> CommandOutcome<KeySpaces> {
        let mut spaces = KeySpaces::default();
        let Some(dir) = &options.key_space_dir else { return Ok(spaces) };
        for family in queries.families() {
            let path = dir.join(format!("{family}.txt"));
            if !host.fs().file_exists(&path)? {
                let why = "Cannot open the whole key space file of CF";
                writeln!(host.errors(), "Warning: {why}: {family}: {}", path.display())?;
                continue;
            }
            let mut lines = FileLines::open(host.fs(), &path)?;
            let mut of_family = KeySpaceReports::make(options, queries, reports, family)?;
            let keys = spaces.0.entry(family).or_default();
            while let Some((number, line)) = lines.next_line()? {
                let key = parse_hex(&line, format_args!("{}, line {number}", path.display()))?;
                of_family.iter_mut().try_for_each(|reports| reports.add(*keys, &key))?;
                *keys += 1;
            }
            of_family.into_iter().try_for_each(KeySpaceReports::close)?;
        }
        Ok(spaces)
    }

    /// Number of keys of a family; 0 if it has no file.
    pub(super) fn key_count(&self, family: u32) -> u64 {
        self.0.get(&family).copied().unwrap_or(0)
    }
}

/// The reports about a whole key space for one kind of queries.
struct KeySpaceReports<'q> {
    stats: &'q FamilyStats,
    /// A line for each key that the trace accesses: the key's number in the key space, accesses.
    accessed: Option<QueryReport>,
    /// A line for each run of keys with the same first bytes: number of the run's first key,
    /// prefix.
    prefixes: Option<QueryReport>,
    prefix_bytes: usize,
    /// The prefix of the key before.
    before: Option<Vec<u8>>,
}

impl<'q> KeySpaceReports<'q> {
    /// Makes the reports that flags ask for, for each kind of queries to the family.
    fn make(
        options: &AnalyzerOptions,
        queries: &'q Queries,
        reports: &Reports<'_>,
        family: u32,
    ) -> CommandOutcome<Vec<KeySpaceReports<'q>>> {
        let of_family = queries.each().filter(|(_, of, _)| *of == family);
        let made = of_family.map(|(kind, _, stats)| {
            let create = |ending: &str| reports.create(&format!("{}-{family}-{ending}", kind.name()));
            let accessed = options.output_key_stats.then(|| create("whole_key_stats.txt")).transpose()?;
            let prefix_bytes = options.output_prefix_cut;
            let prefixes = (prefix_bytes > 0).then(|| create("whole_key_prefix_cut.txt")).transpose()?;
            Ok(KeySpaceReports { stats, accessed, prefixes, prefix_bytes, before: None })
        });
        made.collect()
    }

    /// Adds key `number` of the key space, counted from 0.
    fn add(&mut self, number: u64, key: &[u8]) -> CommandOutcome {
        if let (Some(report), Some(known)) = (&mut self.accessed, self.stats.keys.get(key)) {
            report.line(format_args!("{number} {}", known.accesses))?;
        }
        let Some(report) = &mut self.prefixes else { return Ok(()) };
        let prefix = key.get(..self.prefix_bytes).unwrap_or(key);
        if self.before.as_deref() == Some(prefix) {
            return Ok(());
        }
        self.before = Some(prefix.to_vec());
        report.line(format_args!("{number} {}", key_text(prefix)))
    }

    fn close(self) -> CommandOutcome {
        self.accessed.into_iter().chain(self.prefixes).try_for_each(QueryReport::close)
    }
}
