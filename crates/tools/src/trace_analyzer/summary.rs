//! Sums of a trace on standard output, in the words of RocksDB's tool.

use super::key_space::KeySpaces;
use super::stats::{FamilyStats, Queries, QueryKind};
use super::{AnalyzerOptions, Out, Records, key_text};
use crate::failure::CommandOutcome;
use std::collections::BTreeMap;
use std::io::Write;

const RULE: &str = "*********************************************************";

pub(super) fn print(
    options: &AnalyzerOptions,
    records: &Records,
    queries: &Queries,
    spaces: &KeySpaces,
    (seconds, sample): (u64, u64),
    out: &mut Out,
) -> CommandOutcome {
    let peak_and_average = |is_meant: &dyn Fn(QueryKind) -> bool| {
        let mut counts = BTreeMap::<u64, u64>::new();
        for (_, _, stats) in queries.each().filter(|(kind, ..)| is_meant(*kind)) {
            let by_second = stats.by_second.range(..seconds);
            by_second.for_each(|(second, count)| *counts.entry(*second).or_default() += count);
        }
        let (peak, sum) = (counts.values().max().copied().unwrap_or(0), counts.values().sum::<u64>());
        (peak, if seconds == 0 { 0.0 } else { sum as f64 / seconds as f64 })
    };
    let enabled = || QueryKind::ALL.into_iter().filter(|kind| queries.is_enabled(*kind));
    let accesses = |kind| queries.of_kind(kind).map(|(_, stats)| stats.count).sum::<u64>();
    let keys = |kind| queries.of_kind(kind).map(|(_, stats)| stats.keys.len() as u64).sum::<u64>();
    for kind in enabled() {
        writeln!(out, "\n################# Operation Type: {} #####################", kind.name())?;
        if options.output_qps_stats {
            let (peak, average) = peak_and_average(&|of| of == kind);
            writeln!(out, "Peak QPS is: {peak} Average QPS is: {average:.6}")?;
        }
        for (family, stats) in queries.of_kind(kind) {
            print_family(options, kind, family, stats, seconds, out)?;
        }
        writeln!(out, "{RULE}\nTotal keys of '{}' is: {}", kind.name(), keys(kind))?;
        writeln!(out, "Total access is: {}", accesses(kind))?;
    }
    writeln!(out, "\n{RULE}\n{RULE}\nThe column family based statistics")?;
    for family in queries.families() {
        let of_family = queries.each().filter(|(_, of, _)| *of == family);
        let keys: usize = of_family.map(|(_, _, stats)| stats.keys.len()).sum();
        let all = spaces.key_count(family);
        writeln!(out, "The column family id: {family}\nThe whole key space key numbers: {all}")?;
        writeln!(out, "The accessed key space key numbers: {keys}")?;
    }
    if !options.print_overall_stats {
        return Ok(());
    }
    writeln!(out, "\n{RULE}\n{RULE}")?;
    if options.output_qps_stats {
        let (peak, average) = peak_and_average(&|_| true);
        writeln!(out, "Average QPS per second: {average:.6} Peak QPS: {peak}")?;
    }
    writeln!(out, "The statistics related to query number need to times: {sample}")?;
    let Records { all, gets, writes, seeks, seeks_for_prev, multi_gets, .. } = records;
    let all_keys: u64 = enabled().map(keys).sum();
    writeln!(
        out,
        "Total_requests: {all} Total_accessed_keys: {all_keys} Total_gets: {gets} Total_write_batches: {writes} \
         Total_seeks: {seeks} Total_seek_for_prevs: {seeks_for_prev} Total_multigets: {multi_gets}"
    )?;
    for kind in enabled() {
        writeln!(out, "Operation: '{}' has: {}", kind.name(), accesses(kind))?;
    }
    Ok(())
}

fn print_family(
    options: &AnalyzerOptions,
    kind: QueryKind,
    family: u32,
    stats: &FamilyStats,
    seconds: u64,
    out: &mut Out,
) -> CommandOutcome {
    writeln!(out, "{RULE}\ncolume family id: {family}")?;
    writeln!(out, "Total number of queries to this cf by {}: {}", kind.name(), stats.count)?;
    writeln!(out, "Total unique keys in this cf: {}", stats.keys.len())?;
    let (average, deviation) = stats.key_bytes.average_and_deviation(stats.count);
    let middle = stats.middle_key_bytes();
    writeln!(
        out,
        "Average key size: {average:.6} key size medium: {middle} Key size Variation: {deviation:.6}"
    )?;
    if matches!(kind, QueryKind::Put | QueryKind::Merge) {
        let (average, deviation) = stats.value_bytes.average_and_deviation(stats.count);
        let middle = stats.middle_value_bytes(options.value_interval);
        writeln!(
            out,
            "Average value size: {average:.6} Value size medium: {middle} Value size variation: {deviation:.6}"
        )?;
    }
    let (peak, average) = if options.output_qps_stats { stats.peak_and_average(seconds) } else { (0, 0.0) };
    writeln!(out, "Peak QPS is: {peak} Average QPS is: {average:.6}")?;
    if options.print_top_k_access > 0 {
        writeln!(out, "The Top {} keys that are accessed:", options.print_top_k_access)?;
        for (accesses, key) in stats.top_keys(options.print_top_k_access) {
            writeln!(out, "Access_count: {accesses} {}", key_text(key))?;
        }
    }
    let pairs = options.print_correlation.iter().flat_map(|pairs| &pairs.0);
    for ((first, second), (count, micros)) in pairs.zip(&stats.followed) {
        let (first, second) = (first.name(), second.name());
        let average = if *count == 0 { 0.0 } else { *micros as f64 / (*count as f64 * 1000.0) };
        writeln!(
            out,
            "The correlation statistics of '{second}' after '{first}' is: total numbers: {count} average \
             time: {average:.6}(ms)"
        )?;
    }
    Ok(())
}
