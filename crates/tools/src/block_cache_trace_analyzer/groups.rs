//! Groups of blocks, buckets of values, and the tables of reports.
//!
//! A table is text: a line of the groups' names, then a line for each bucket with the percentage of
//! each group. A timeline is text: a line of points in time, then a line for each group.

use super::accesses::{BlockPlace, caller_name, kind_name, percent};
use super::simulated::parse_bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::io;

/// One part of a group's name. Parts have the order of RocksDB's labels.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum GroupLabel {
    All,
    Block,
    BlockType,
    Caller,
    ColumnFamily,
    Level,
    SstFile,
}

/// The grouping of blocks in a report: the value of a flag like `--reuse_distance_labels=cf_bt`.
#[derive(Clone, Debug)]
pub(super) struct BlockGrouping {
    text: String,
    labels: BTreeSet<GroupLabel>,
}

impl BlockGrouping {
    pub(super) fn parse(text: &str) -> Result<BlockGrouping, String> {
        let label = |name: &str| match name {
            "all" => Ok(GroupLabel::All),
            "block" => Ok(GroupLabel::Block),
            "bt" => Ok(GroupLabel::BlockType),
            "caller" => Ok(GroupLabel::Caller),
            "cf" => Ok(GroupLabel::ColumnFamily),
            "level" => Ok(GroupLabel::Level),
            "sst" => Ok(GroupLabel::SstFile),
            _ => Err(format!("'{name}' is none of all, block, bt, caller, cf, level, sst")),
        };
        let labels = text.split('_').map(label).collect::<Result<_, _>>()?;
        Ok(BlockGrouping { text: text.to_owned(), labels })
    }

    /// The value of the flag, which is the first part of the report's name.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn has_blocks(&self) -> bool {
        self.labels.contains(&GroupLabel::Block)
    }

    pub(super) fn has_callers(&self) -> bool {
        self.labels.contains(&GroupLabel::Caller)
    }

    /// The group of a block. `caller` is 0 if the report has no callers.
    pub(super) fn group(&self, place: &BlockPlace<'_>, caller: u8) -> String {
        self.named(place, caller, place.block.id)
    }

    /// The group of a block in a report in which all blocks have the number 0.
    pub(super) fn group_without_block(&self, place: &BlockPlace<'_>, caller: u8) -> String {
        self.named(place, caller, 0)
    }

    fn named(&self, place: &BlockPlace<'_>, caller: u8, block: u64) -> String {
        let mut name = String::new();
        for label in &self.labels {
            if !name.is_empty() {
                name.push('-');
            }
            match label {
                GroupLabel::All => name.push_str("all"),
                GroupLabel::Block => put(&mut name, block),
                GroupLabel::BlockType => name.push_str(kind_name(place.kind)),
                GroupLabel::Caller => name.push_str(caller_name(caller)),
                GroupLabel::ColumnFamily => name.push_str(place.family),
                GroupLabel::Level => put(&mut name, u64::from(place.level)),
                GroupLabel::SstFile => put(&mut name, place.file),
            }
        }
        name
    }
}

fn put(text: &mut String, number: u64) {
    write!(text, "{number}").expect("a write to a string cannot fail");
}

/// Ascending upper limits of buckets, without the limits themselves. The last is the largest
/// number.
#[derive(Clone, Debug)]
pub(super) struct BucketLimits(Vec<u64>);

impl BucketLimits {
    pub(super) fn parse(text: &str) -> Result<BucketLimits, String> {
        let limit = |part: &str| parse_bytes(part).ok_or_else(|| format!("'{part}' is no number"));
        let mut limits = text.split(',').map(limit).collect::<Result<Vec<u64>, _>>()?;
        limits.push(u64::MAX);
        if limits.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err("the limits of buckets must ascend".to_owned());
        }
        Ok(BucketLimits(limits))
    }

    /// The limits, the largest number last.
    pub(super) fn limits(&self) -> &[u64] {
        &self.0
    }

    fn bucket_of(&self, value: u64) -> usize {
        self.0.partition_point(|limit| *limit <= value).min(self.0.len() - 1)
    }
}

/// Counts by group and bucket.
pub(super) struct BucketTable<'a> {
    limits: &'a BucketLimits,
    groups: BTreeMap<String, Vec<u64>>,
}

impl<'a> BucketTable<'a> {
    pub(super) fn new(limits: &'a BucketLimits) -> BucketTable<'a> {
        BucketTable { limits, groups: BTreeMap::new() }
    }

    /// The counts of a group, which is in the table from now on.
    pub(super) fn group(&mut self, name: String) -> BucketCounts<'_> {
        let zeros = || vec![0; self.limits.0.len()];
        BucketCounts { limits: self.limits, counts: self.groups.entry(name).or_insert_with(zeros) }
    }

    pub(super) fn text(&self) -> String {
        let total = self.groups.values().flatten().sum();
        let mut text = "bucket".to_owned();
        for name in self.groups.keys() {
            text.extend([",", name]);
        }
        for (at, limit) in self.limits.0.iter().enumerate() {
            text.push('\n');
            put(&mut text, *limit);
            for counts in self.groups.values() {
                write!(text, ",{:.6}", percent(counts[at], total)).expect("a string takes all");
            }
        }
        text.push('\n');
        text
    }
}

/// The counts of one group.
pub(super) struct BucketCounts<'a> {
    limits: &'a BucketLimits,
    counts: &'a mut [u64],
}

impl BucketCounts<'_> {
    /// Counts a value `times` times.
    pub(super) fn add(&mut self, value: u64, times: u64) {
        self.counts[self.limits.bucket_of(value)] += times;
    }

    /// Counts in the bucket at a place.
    pub(super) fn add_at(&mut self, place: usize, times: u64) {
        self.counts[place] += times;
    }
}

/// Values by point in time.
pub(super) type Timeline<V> = BTreeMap<u64, V>;

/// The first and last point in time of some timelines.
pub(super) fn span_of<'a, V: 'a>(lines: impl Iterator<Item = &'a Timeline<V>>) -> Option<(u64, u64)> {
    let ends = |line: &Timeline<V>| Some((*line.first_key_value()?.0, *line.last_key_value()?.0));
    lines.filter_map(ends).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

/// Writes timelines: a column for each point in time of `span`. The text may be far larger than the
/// timelines.
pub(super) fn write_timelines<'a, V: 'a>(
    out: &mut dyn io::Write,
    lines: impl Iterator<Item = (&'a str, &'a Timeline<V>)>,
    span: Option<(u64, u64)>,
    value: impl Fn(&V) -> String,
) -> io::Result<()> {
    let times = || span.into_iter().flat_map(|(begin, end)| begin..=end);
    out.write_all(b"time")?;
    times().try_for_each(|time| write!(out, ",{time}"))?;
    for (name, line) in lines {
        write!(out, "\n{name}")?;
        for time in times() {
            match line.get(&time) {
                Some(found) => write!(out, ",{}", value(found))?,
                None => out.write_all(b",0")?,
            }
        }
    }
    out.write_all(b"\n")
}
