//! Report files about groups of blocks, with the names and forms of RocksDB's tool.

use super::Extent;
use super::MICROS_PER_SECOND;
use super::accesses::{
    Accesses, BlockPlace, CALLER_GET, CALLERS, KeptFacts, caller_name, is_user, kind_name, percent,
};
use super::groups::{BlockGrouping, BucketLimits, BucketTable, Timeline, span_of, write_timelines};
use super::report_dir::ReportDir;
use crate::failure::{CommandOutcome, Failure};
use clap::Args;
use esker::trace::TraceKind;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The largest number of windows in a report of reused blocks, which has a cell for each two.
const MAX_WINDOWS: u64 = 4096;

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(super) struct ReportOptions {
    /// Write …_access_timeline: accesses by minute and hour. Groups are one or several, joined by
    /// _, of all, block, bt (kind of block), caller, cf (column family), level, sst
    #[arg(long, value_delimiter = ',', value_parser = BlockGrouping::parse)]
    timeline_labels: Vec<BlockGrouping>,
    /// Write …_reuse_distance: bytes of distinct blocks between two accesses to a block
    #[arg(long, value_delimiter = ',', value_parser = BlockGrouping::parse)]
    reuse_distance_labels: Vec<BlockGrouping>,
    /// Ascending limits of distances, like 1K,1M,1G
    #[arg(long, value_parser = BucketLimits::parse)]
    reuse_distance_buckets: Option<BucketLimits>,
    /// Write …_access_reuse_interval, …_avg_reuse_interval and …_avg_reuse_interval_naccesses:
    /// seconds between two accesses to a block
    #[arg(long, value_delimiter = ',', value_parser = BlockGrouping::parse)]
    reuse_interval_labels: Vec<BlockGrouping>,
    /// Ascending limits of seconds
    #[arg(long, value_parser = BucketLimits::parse)]
    reuse_interval_buckets: Option<BucketLimits>,
    /// Write …_reuse_lifetime: seconds from the first access to a block to the last
    #[arg(long, value_delimiter = ',', value_parser = BlockGrouping::parse)]
    reuse_lifetime_labels: Vec<BlockGrouping>,
    /// Ascending limits of seconds
    #[arg(long, value_parser = BucketLimits::parse)]
    reuse_lifetime_buckets: Option<BucketLimits>,
    /// Write percentage_of_accesses_summary, and a report by level and one by kind of block for
    /// each of these callers, for example Get,Compaction
    #[arg(long, value_delimiter = ',', value_parser = parse_caller)]
    analyze_callers: Vec<u8>,
    /// Write …_access_count_summary with these ascending limits: blocks by number of accesses
    #[arg(long, value_parser = BucketLimits::parse)]
    access_count_buckets: Option<BucketLimits>,
    /// Write …_reuse_blocks_timeline: blocks that are accessed again, in windows of N seconds
    #[arg(long, default_value_t = 0)]
    analyze_blocks_reuse_k_reuse_window: u64,
    /// Write …_percent_ref_keys, …_percent_accesses_on_ref_keys and
    /// …_percent_data_size_on_ref_keys: shares of data blocks that gets use
    #[arg(long, value_delimiter = ',', value_parser = BlockGrouping::parse)]
    analyze_get_spatial_locality_labels: Vec<BlockGrouping>,
    /// Ascending limits of percentages
    #[arg(long, value_parser = BucketLimits::parse)]
    analyze_get_spatial_locality_buckets: Option<BucketLimits>,
    /// Write …_skewness: accesses to the most accessed groups
    #[arg(long, value_delimiter = ',', value_parser = BlockGrouping::parse)]
    skew_labels: Vec<BlockGrouping>,
    /// Ascending percentages of groups, at most 100
    #[arg(long, value_parser = BucketLimits::parse)]
    skew_buckets: Option<BucketLimits>,
    /// Write …_correlation_input: accesses and times between the accesses to a block
    #[arg(long, value_delimiter = ',', value_parser = BlockGrouping::parse)]
    analyze_correlation_coefficients_labels: Vec<BlockGrouping>,
    /// Most lines in a …_correlation_input, chosen at random
    #[arg(long, default_value_t = 1_000_000)]
    analyze_correlation_coefficients_max_number_of_values: usize,
}

fn parse_caller(name: &str) -> Result<u8, String> {
    CALLERS.into_iter().find(|caller| caller_name(*caller) == name).ok_or_else(|| {
        let names: Vec<&str> = CALLERS.map(caller_name).collect();
        format!("'{name}' is none of {}", names.join(", "))
    })
}

impl ReportOptions {
    /// The facts about blocks that the reports need.
    pub(super) fn kept(&self) -> KeptFacts {
        let sequences = !self.analyze_correlation_coefficients_labels.is_empty();
        KeptFacts {
            seconds: !self.timeline_labels.is_empty()
                || !self.reuse_interval_labels.is_empty()
                || self.analyze_blocks_reuse_k_reuse_window > 0,
            sequences,
            keys: !self.analyze_get_spatial_locality_labels.is_empty(),
            distances: !self.reuse_distance_labels.is_empty(),
            get_keys: sequences,
        }
    }

    /// A flag that asks for a file.
    pub(super) fn file_flag(&self) -> Option<&'static str> {
        let flags = [
            ("--timeline_labels", !self.timeline_labels.is_empty()),
            ("--reuse_distance_labels", !self.reuse_distance_labels.is_empty()),
            ("--reuse_interval_labels", !self.reuse_interval_labels.is_empty()),
            ("--reuse_lifetime_labels", !self.reuse_lifetime_labels.is_empty()),
            ("--analyze_callers", !self.analyze_callers.is_empty()),
            ("--access_count_buckets", self.access_count_buckets.is_some()),
            ("--analyze_blocks_reuse_k_reuse_window", self.analyze_blocks_reuse_k_reuse_window > 0),
            ("--analyze_get_spatial_locality_labels", !self.analyze_get_spatial_locality_labels.is_empty()),
            ("--skew_labels", !self.skew_labels.is_empty()),
            (
                "--analyze_correlation_coefficients_labels",
                !self.analyze_correlation_coefficients_labels.is_empty(),
            ),
        ];
        flags.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }

    /// Checks that groups have buckets and buckets groups.
    /// # Errors
    /// The flag that lacks the other · a percentage above 100.
    pub(super) fn check(&self) -> CommandOutcome {
        let pairs = [
            ("reuse_distance", &self.reuse_distance_labels, &self.reuse_distance_buckets),
            ("reuse_interval", &self.reuse_interval_labels, &self.reuse_interval_buckets),
            ("reuse_lifetime", &self.reuse_lifetime_labels, &self.reuse_lifetime_buckets),
            (
                "analyze_get_spatial_locality",
                &self.analyze_get_spatial_locality_labels,
                &self.analyze_get_spatial_locality_buckets,
            ),
            ("skew", &self.skew_labels, &self.skew_buckets),
        ];
        for (name, labels, buckets) in pairs {
            if labels.is_empty() != buckets.is_none() {
                let (has, lacks) =
                    if labels.is_empty() { ("buckets", "labels") } else { ("labels", "buckets") };
                return Err(Failure::new(format_args!("--{name}_{has} needs --{name}_{lacks}")));
            }
        }
        let percents = self.skew_buckets.iter().flat_map(BucketLimits::limits);
        if let Some(percent) = percents.clone().find(|limit| **limit > 100 && **limit < u64::MAX) {
            return Err(Failure::new(format_args!("--skew_buckets: {percent} is no percentage")));
        }
        Ok(())
    }

    /// Number of windows of the trace.
    /// # Errors
    /// There are more than a report may have.
    pub(super) fn check_windows(&self, extent: &Extent) -> CommandOutcome {
        let window = self.analyze_blocks_reuse_k_reuse_window;
        if window > 0 && extent.seconds() / window > MAX_WINDOWS {
            return Err(Failure::new(format_args!(
                "--analyze_blocks_reuse_k_reuse_window={window}: the trace has {} seconds, and a report at \
                 most {MAX_WINDOWS} windows",
                extent.seconds()
            )));
        }
        Ok(())
    }

    /// Writes all reports.
    pub(super) fn write(&self, accesses: &Accesses, extent: &Extent, dir: ReportDir<'_>) -> CommandOutcome {
        self.write_timelines(accesses, dir)?;
        if !self.analyze_callers.is_empty() {
            write_caller_summary(accesses, dir)?;
        }
        for caller in &self.analyze_callers {
            write_caller_details(accesses, *caller, dir)?;
        }
        if let Some(limits) = &self.access_count_buckets {
            write_count_summary(accesses, limits, true, dir)?;
            write_count_summary(accesses, limits, false, dir)?;
        }
        for (by, limits) in pairs(&self.reuse_distance_labels, &self.reuse_distance_buckets) {
            write_distances(accesses, by, limits, dir)?;
        }
        for (by, limits) in pairs(&self.reuse_interval_labels, &self.reuse_interval_buckets) {
            write_intervals(accesses, by, limits, dir)?;
        }
        for (by, limits) in pairs(&self.reuse_lifetime_labels, &self.reuse_lifetime_buckets) {
            write_lifetimes(accesses, by, limits, dir)?;
        }
        if self.analyze_blocks_reuse_k_reuse_window > 0 {
            for kind in [TraceKind::IndexBlock, TraceKind::DataBlock, TraceKind::FilterBlock] {
                for only_users in [true, false] {
                    self.write_reused_blocks(accesses, extent, kind as u8, only_users, dir)?;
                }
            }
        }
        let labels = &self.analyze_get_spatial_locality_labels;
        for (by, limits) in pairs(labels, &self.analyze_get_spatial_locality_buckets) {
            write_locality(accesses, by, limits, dir)?;
        }
        self.write_correlations(accesses, dir)?;
        for (by, limits) in pairs(&self.skew_labels, &self.skew_buckets) {
            let kinds = [TraceKind::IndexBlock, TraceKind::FilterBlock, TraceKind::DataBlock];
            for kind in kinds.into_iter().filter(|_| by.has_blocks()) {
                write_skew(accesses, by, limits, Some(kind as u8), dir)?;
            }
            write_skew(accesses, by, limits, None, dir)?;
        }
        Ok(())
    }

    fn write_timelines(&self, accesses: &Accesses, dir: ReportDir<'_>) -> CommandOutcome {
        for by in &self.timeline_labels {
            for unit in [60, 3600] {
                if by.has_blocks() {
                    write_timeline(accesses, by, unit, true, dir)?;
                }
                write_timeline(accesses, by, unit, false, dir)?;
            }
        }
        Ok(())
    }

    /// Writes the share of each window's blocks that later windows access again.
    fn write_reused_blocks(
        &self,
        accesses: &Accesses,
        extent: &Extent,
        kind: u8,
        only_users: bool,
        dir: ReportDir<'_>,
    ) -> CommandOutcome {
        let window = self.analyze_blocks_reuse_k_reuse_window;
        let windows = extent.seconds() / window;
        if windows < 2 {
            return Ok(());
        }
        let began_at = extent.began_at.unwrap_or(0) / MICROS_PER_SECOND;
        let size = windows as usize;
        let mut counts = vec![0u64; size * size];
        for place in accesses.blocks().filter(|place| place.kind == kind) {
            let callers = place.block.by_second.iter().filter(|(c, _)| !only_users || is_user(**c));
            let window_of = |second: &u64| (second.saturating_sub(began_at) / window).min(windows - 1);
            let seen: BTreeSet<u64> = callers.flat_map(|(_, s)| s.keys().map(window_of)).collect();
            for first in &seen {
                for later in seen.range(first..) {
                    counts[*first as usize * size + *later as usize] += 1;
                }
            }
        }
        let mut text = "start_time".to_owned();
        (0..size).for_each(|at| put(&mut text, format_args!(",{at}")));
        for first in 0..size {
            put(&mut text, format_args!("\n{}", first as u64 * window));
            for later in 0..size {
                let count = |later: usize| counts[first * size + later];
                match later < first {
                    true => text.push_str(",100.0"),
                    false => put(&mut text, format_args!(",{:.6}", percent(count(later), count(first)))),
                }
            }
        }
        text.push('\n');
        let scope = if only_users { "user_access_only" } else { "all_access" };
        dir.text(&format!("{}_{scope}_{window}_reuse_blocks_timeline", kind_name(kind)), &text)
    }

    fn write_correlations(&self, accesses: &Accesses, dir: ReportDir<'_>) -> CommandOutcome {
        let labels = &self.analyze_correlation_coefficients_labels;
        let most = self.analyze_correlation_coefficients_max_number_of_values;
        for by in labels {
            let mut lines: BTreeMap<String, Vec<[u64; 5]>> = BTreeMap::new();
            for place in accesses.blocks() {
                let mut by_caller: BTreeMap<u8, Vec<(u64, u64)>> = BTreeMap::new();
                for (caller, number, time) in &place.block.sequence {
                    let caller = if by.has_callers() { *caller } else { 0 };
                    by_caller.entry(caller).or_default().push((*number, *time));
                }
                for (caller, sequence) in &by_caller {
                    lines
                        .entry(by.group_without_block(&place, *caller))
                        .or_default()
                        .extend(features(sequence));
                }
            }
            for (group, lines) in lines.into_iter().filter(|(_, lines)| !lines.is_empty()) {
                dir.text(
                    &format!("{}_{group}_correlation_input", by.text()),
                    &correlation_text(lines, most),
                )?;
            }
        }
        let of_gets = accesses.get_sequences().flat_map(|sequence| {
            let sequence: Vec<_> = sequence.iter().map(|(_, number, time)| (*number, *time)).collect();
            features(&sequence)
        });
        let of_gets: Vec<[u64; 5]> = of_gets.collect();
        if of_gets.is_empty() {
            return Ok(());
        }
        dir.text("GetKeyInfo_GetKeyInfo_correlation_input", &correlation_text(of_gets, most))
    }
}

fn put(text: &mut String, part: std::fmt::Arguments<'_>) {
    text.write_fmt(part).expect("a write to a string cannot fail");
}

/// Each grouping with the limits; nothing without limits.
fn pairs<'a>(
    labels: &'a [BlockGrouping],
    limits: &'a Option<BucketLimits>,
) -> impl Iterator<Item = (&'a BlockGrouping, &'a BucketLimits)> {
    limits.iter().flat_map(move |limits| labels.iter().map(move |by| (by, limits)))
}

fn write_timeline(
    accesses: &Accesses,
    by: &BlockGrouping,
    unit: u64,
    only_users: bool,
    dir: ReportDir<'_>,
) -> CommandOutcome {
    let mut lines: BTreeMap<String, Timeline<u64>> = BTreeMap::new();
    for place in accesses.blocks() {
        let callers = &place.block.by_second;
        for (caller, seconds) in callers.iter().filter(|(c, _)| !only_users || is_user(**c)) {
            let line = lines.entry(by.group(&place, *caller)).or_default();
            seconds.iter().for_each(|(second, count)| *line.entry(second / unit).or_default() += count);
        }
    }
    let mut lines: Vec<_> = lines.iter().map(|(name, line)| (name.as_str(), line)).collect();
    if by.has_blocks() {
        lines.sort_by_key(|(_, line)| std::cmp::Reverse(line.values().sum::<u64>()));
    }
    let span = span_of(lines.iter().map(|(_, line)| *line));
    let scope = if only_users { "user_access_only" } else { "all_access" };
    let name = format!("{scope}_{}_{unit}_access_timeline", by.text());
    dir.make(&name, |out| write_timelines(out, lines.into_iter(), span, u64::to_string))
}

fn write_distances(
    accesses: &Accesses,
    by: &BlockGrouping,
    limits: &BucketLimits,
    dir: ReportDir<'_>,
) -> CommandOutcome {
    let mut table = BucketTable::new(limits);
    for place in accesses.blocks() {
        let mut group = table.group(by.group(&place, 0));
        place.block.distances.iter().for_each(|(distance, times)| group.add(*distance, *times));
    }
    dir.text(&format!("{}_reuse_distance", by.text()), &table.text())
}

fn write_intervals(
    accesses: &Accesses,
    by: &BlockGrouping,
    limits: &BucketLimits,
    dir: ReportDir<'_>,
) -> CommandOutcome {
    let [mut reuses, mut blocks, mut counts] = [(); 3].map(|()| BucketTable::new(limits));
    let mut add = |group: String, seconds: &Timeline<u64>| {
        let mut group = reuses.group(group);
        let mut before = None;
        for (second, count) in seconds {
            if let Some(before) = before.replace(*second) {
                group.add(second - before, 1);
            }
            group.add(0, count - 1);
        }
    };
    for place in accesses.blocks() {
        let block = place.block;
        if by.has_callers() {
            block.by_second.iter().for_each(|(caller, seconds)| add(by.group(&place, *caller), seconds));
            continue;
        }
        let mut seconds = Timeline::new();
        for (second, count) in block.by_second.values().flatten() {
            *seconds.entry(*second).or_default() += count;
        }
        add(by.group(&place, 0), &seconds);
        let average = match block.accesses() {
            0 | 1 => u64::MAX - 1,
            count => block.lifetime() / count,
        };
        blocks.group(by.group(&place, 0)).add(average, 1);
        counts.group(by.group(&place, 0)).add(average, block.accesses());
    }
    dir.text(&format!("{}_access_reuse_interval", by.text()), &reuses.text())?;
    dir.text(&format!("{}_avg_reuse_interval", by.text()), &blocks.text())?;
    dir.text(&format!("{}_avg_reuse_interval_naccesses", by.text()), &counts.text())
}

fn write_lifetimes(
    accesses: &Accesses,
    by: &BlockGrouping,
    limits: &BucketLimits,
    dir: ReportDir<'_>,
) -> CommandOutcome {
    let mut table = BucketTable::new(limits);
    accesses.blocks().for_each(|p| table.group(by.group(&p, 0)).add(p.block.lifetime(), 1));
    dir.text(&format!("{}_reuse_lifetime", by.text()), &table.text())
}

/// A table of shares of all accesses: a line for each name, a column for each column family.
fn family_table<'a>(
    accesses: &Accesses,
    header: &str,
    rows: impl Iterator<Item = (String, &'a BTreeMap<&'a str, u64>)>,
    total: u64,
) -> String {
    let mut text = header.to_owned();
    accesses.family_names().for_each(|family| text.extend([",", family]));
    for (name, counts) in rows {
        text.extend(["\n", &name]);
        for family in accesses.family_names() {
            match counts.get(family) {
                Some(count) => put(&mut text, format_args!(",{:.6}", percent(*count, total))),
                None => text.push_str(",0"),
            }
        }
    }
    text.push('\n');
    text
}

fn write_caller_summary(accesses: &Accesses, dir: ReportDir<'_>) -> CommandOutcome {
    let mut callers: BTreeMap<u8, BTreeMap<&str, u64>> = BTreeMap::new();
    for BlockPlace { family, block, .. } in accesses.blocks() {
        for (caller, count) in &block.by_caller {
            *callers.entry(*caller).or_default().entry(family).or_default() += count;
        }
    }
    let total = callers.values().flat_map(BTreeMap::values).sum();
    let rows = callers.iter().map(|(caller, counts)| (caller_name(*caller).to_owned(), counts));
    dir.text("percentage_of_accesses_summary", &family_table(accesses, "caller", rows, total))
}

fn write_caller_details(accesses: &Accesses, caller: u8, dir: ReportDir<'_>) -> CommandOutcome {
    let mut levels: BTreeMap<u32, BTreeMap<&str, u64>> = BTreeMap::new();
    let mut kinds: BTreeMap<u8, BTreeMap<&str, u64>> = BTreeMap::new();
    let mut total = 0;
    for BlockPlace { family, level, kind, block, .. } in accesses.blocks() {
        let Some(count) = block.by_caller.get(&caller) else { continue };
        *levels.entry(level).or_default().entry(family).or_default() += count;
        *kinds.entry(kind).or_default().entry(family).or_default() += count;
        total += count;
    }
    let name = |part: &str| format!("{}_{part}_percentage_of_accesses_summary", caller_name(caller));
    let rows = levels.iter().map(|(level, counts)| (level.to_string(), counts));
    dir.text(&name("level"), &family_table(accesses, "level", rows, total))?;
    let rows = kinds.iter().map(|(kind, counts)| (kind_name(*kind).to_owned(), counts));
    dir.text(&name("bt"), &family_table(accesses, "bt", rows, total))
}

fn write_count_summary(
    accesses: &Accesses,
    limits: &BucketLimits,
    only_users: bool,
    dir: ReportDir<'_>,
) -> CommandOutcome {
    let [mut families, mut kinds] = [(); 2].map(|()| BucketTable::new(limits));
    for place in accesses.blocks() {
        let count = place.block.accesses_by(|caller| !only_users || is_user(caller));
        let times = u64::from(count > 0);
        families.group(place.family.to_owned()).add(count, times);
        kinds.group(kind_name(place.kind).to_owned()).add(count, times);
    }
    let scope = if only_users { "user_access_only" } else { "all_access" };
    dir.text(&format!("cf_{scope}_access_count_summary"), &families.text())?;
    dir.text(&format!("bt_{scope}_access_count_summary"), &kinds.text())
}

fn write_locality(
    accesses: &Accesses,
    by: &BlockGrouping,
    limits: &BucketLimits,
    dir: ReportDir<'_>,
) -> CommandOutcome {
    let [mut keys, mut counts, mut sizes] = [(); 3].map(|()| BucketTable::new(limits));
    for place in accesses.blocks().filter(|place| place.block.keys > 0) {
        let block = place.block;
        let gets = block.found.values().filter_map(|callers| callers.get(&CALLER_GET)).sum();
        let share = |part, whole| percent(part, whole).max(0.0) as u64;
        let group = || by.group_without_block(&place, CALLER_GET);
        keys.group(group()).add(share(block.found.len() as u64, block.keys), 1);
        counts.group(group()).add(share(block.found_accesses, gets), 1);
        sizes.group(group()).add(share(block.referenced_bytes, block.bytes), 1);
    }
    dir.text(&format!("{}_percent_ref_keys", by.text()), &keys.text())?;
    dir.text(&format!("{}_percent_accesses_on_ref_keys", by.text()), &counts.text())?;
    dir.text(&format!("{}_percent_data_size_on_ref_keys", by.text()), &sizes.text())
}

/// Writes the accesses to the most accessed percent of groups, to the next percents, and so on.
fn write_skew(
    accesses: &Accesses,
    by: &BlockGrouping,
    limits: &BucketLimits,
    kind: Option<u8>,
    dir: ReportDir<'_>,
) -> CommandOutcome {
    let mut groups: BTreeMap<String, u64> = BTreeMap::new();
    for place in accesses.blocks().filter(|place| kind.is_none_or(|kind| kind == place.kind)) {
        *groups.entry(by.group(&place, 0)).or_default() += place.block.accesses();
    }
    let mut counts: Vec<u64> = groups.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let mut table = BucketTable::new(limits);
    let mut group = table.group(by.text().to_owned());
    let mut begin = 0;
    for (place, limit) in limits.limits().iter().enumerate() {
        let end = match *limit {
            u64::MAX => counts.len(),
            percent => percent as usize * counts.len() / 100,
        };
        group.add_at(place, counts[begin..end].iter().sum());
        begin = end;
    }
    let kind = kind.map_or_else(String::new, |kind| format!("{}_", kind_name(kind)));
    dir.text(&format!("{}_{kind}skewness", by.text()), &table.text())
}

/// A line for each access but the last: accesses and microseconds since the access before, number
/// of accesses before, accesses and microseconds till the next.
fn features(sequence: &[(u64, u64)]) -> Vec<[u64; 5]> {
    let since = |at: usize| match at {
        0 => (0, 0),
        _ => {
            let ((number, time), (before, time_before)) = (sequence[at], sequence[at - 1]);
            (number.saturating_sub(before), time.saturating_sub(time_before))
        }
    };
    let line = |at: usize| {
        let ((accesses, time), (next_accesses, next_time)) = (since(at), since(at + 1));
        [accesses, time, at as u64, next_accesses, next_time]
    };
    (0..sequence.len().saturating_sub(1)).map(line).collect()
}

/// The text of at most `most` of the lines, chosen at random, in their order.
fn correlation_text(mut lines: Vec<[u64; 5]>, most: usize) -> String {
    if lines.len() > most {
        let mut rng = fastrand::Rng::with_seed(lines.len() as u64);
        let mut chosen: Vec<usize> = (0..lines.len()).collect();
        rng.shuffle(&mut chosen);
        chosen.truncate(most);
        chosen.sort_unstable();
        lines = chosen.into_iter().map(|at| lines[at]).collect();
    }
    let mut text = "num_accesses_since_last_access,elapsed_time_since_last_access,num_past_accesses,\
                    num_accesses_till_next_access,elapsed_time_till_next_access\n"
        .to_owned();
    for [a, b, c, d, e] in lines {
        put(&mut text, format_args!("{a},{b},{c},{d},{e}\n"));
    }
    text
}
