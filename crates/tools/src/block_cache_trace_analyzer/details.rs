//! Distributions of the sizes and accesses of blocks, as RocksDB's tool prints them.

use super::accesses::{
    Accesses, BlockAccesses, BlockPlace, break_lines, caller_name, is_user, kind_name, percent,
};
use crate::failure::CommandOutcome;
use esker::stats::HistogramSnapshot;
use esker::trace::TraceKind;
use std::collections::BTreeMap;
use std::io::Write;

/// Distributions over all blocks, by kind, and by column family and kind.
#[derive(Default)]
struct Distributions<'a> {
    all: HistogramSnapshot,
    by_kind: BTreeMap<u8, HistogramSnapshot>,
    by_family: BTreeMap<(&'a str, u8), HistogramSnapshot>,
}

impl<'a> Distributions<'a> {
    fn add(&mut self, place: &BlockPlace<'a>, value: u64) {
        self.all.add(value);
        self.by_kind.entry(place.kind).or_default().add(value);
        self.by_family.entry((place.family, place.kind)).or_default().add(value);
    }

    /// Prints the distributions by kind and family. `titles` has what stands before the names.
    fn print_parts(&self, (by_kind, by_family): (&str, &str), out: &mut dyn Write) -> CommandOutcome {
        for (kind, values) in &self.by_kind {
            break_lines(1, out)?;
            write!(out, "{by_kind} {}: \n{values}", kind_name(*kind))?;
        }
        for ((family, kind), values) in &self.by_family {
            break_lines(1, out)?;
            write!(out, "{by_family} {family} and block type {}: \n{values}", kind_name(*kind))?;
        }
        Ok(())
    }
}

/// Prints the distribution of the sizes of blocks. Blocks whose last access did not read them have
/// no size.
pub(super) fn print_sizes(accesses: &Accesses, out: &mut dyn Write) -> CommandOutcome {
    let mut sizes = Distributions::default();
    accesses.blocks().filter(|place| place.block.bytes > 0).for_each(|p| sizes.add(&p, p.block.bytes));
    write!(out, "Block size stats: \n{}", sizes.all)?;
    let titles = ("Block size stats for block type", "Block size stats for column family");
    sizes.print_parts(titles, out)
}

/// Number of the most and least accessed blocks to print.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    pub(super) bottom: usize,
    pub(super) top: usize,
}

/// Prints the distribution of the numbers of accesses to blocks.
pub(super) fn print_counts(
    accesses: &Accesses,
    only_users: bool,
    ends: Ends,
    out: &mut dyn Write,
) -> CommandOutcome {
    let is_meant = |caller| !only_users || is_user(caller);
    let mut counts = Distributions::default();
    let mut by_count: BTreeMap<u64, Vec<&BlockAccesses>> = BTreeMap::new();
    for place in accesses.blocks() {
        let count = place.block.accesses_by(is_meant);
        if count == 0 {
            continue;
        }
        if place.kind == TraceKind::DataBlock as u8 {
            by_count.entry(count).or_default().push(place.block);
        }
        counts.add(&place, count);
    }
    let scope = if only_users { "User accesses only" } else { "All accesses" };
    write!(out, "Block access count stats: The number of accesses per block. {scope}\n{}", counts.all)?;
    for (count, blocks) in by_count.iter().take(ends.bottom) {
        let mut callers: BTreeMap<u8, u64> = BTreeMap::new();
        for block in blocks {
            block.by_caller.iter().filter(|(c, _)| is_meant(**c)).for_each(|(caller, accesses)| {
                *callers.entry(*caller).or_default() += accesses;
            });
        }
        let all = callers.values().sum();
        let callers: String = callers.iter().map(|(c, n)| format!("{},", share(*c, *n, all))).collect();
        writeln!(
            out,
            "Bottom {} access count. Access count={count} nblocks={} Caller:{callers}",
            ends.bottom,
            blocks.len()
        )?;
    }
    for (count, blocks) in by_count.iter().rev().take(ends.top) {
        for block in blocks {
            let block = block_text(block, *count, &is_meant);
            writeln!(out, "Top {} access count blocks access_count={count} {block}", ends.top)?;
        }
    }
    counts.print_parts(("Break down by block type", "Break down by column family"), out)
}

fn share(caller: u8, accesses: u64, all: u64) -> String {
    format!("{}:{:.6}", caller_name(caller), percent(accesses, all))
}

/// The facts about a block with `count` accesses.
fn block_text(block: &BlockAccesses, count: u64, is_meant: &dyn Fn(u8) -> bool) -> String {
    let callers = block.by_caller.iter().filter(|(caller, _)| is_meant(**caller));
    let callers: String = callers.map(|(c, n)| format!(",{}", share(*c, *n, count))).collect();
    let accesses = |keys: &BTreeMap<Vec<u8>, BTreeMap<u8, u64>>| {
        let counts = keys.values().flatten().filter(|(caller, _)| is_meant(**caller));
        percent(counts.map(|(_, count)| count).sum(), count)
    };
    format!(
        "Caller:{callers},nkeys={},block_size={},num_ref_keys={},percent_access_ref_keys={:.6},\
         num_ref_keys_does_not_exist={},percent_access_ref_keys_does_not_exist={:.6},ref_data_size={}",
        block.keys,
        block.bytes,
        block.found.len(),
        accesses(&block.found),
        block.not_found.len(),
        accesses(&block.not_found),
        block.referenced_bytes
    )
}

/// A distribution over data blocks, and its parts by column family.
#[derive(Default)]
struct FamilyDistribution<'a> {
    all: HistogramSnapshot,
    by_family: BTreeMap<&'a str, HistogramSnapshot>,
}

impl<'a> FamilyDistribution<'a> {
    fn add(&mut self, family: &'a str, value: u64) {
        self.all.add(value);
        self.by_family.entry(family).or_default().add(value);
    }
}

/// Prints distributions about the keys that gets look for in data blocks. Shares are in hundredths
/// of a percent.
pub(super) fn print_data_blocks(accesses: &Accesses, out: &mut dyn Write) -> CommandOutcome {
    let mut distributions: [FamilyDistribution<'_>; 5] = Default::default();
    for BlockPlace { family, block, .. } in accesses.blocks().filter(|place| place.block.keys > 0) {
        let share = |part: u64, whole: u64| (part as f64 / whole as f64 * 10000.0) as u64;
        let mut by_key = HistogramSnapshot::new();
        block.found.values().flatten().for_each(|(_, count)| by_key.add(*count));
        let values = [
            share(block.found.len() as u64, block.keys),
            share(block.not_found.len() as u64, block.keys),
            share(block.found_accesses, block.accesses()),
            by_key.average() as u64,
            by_key.standard_deviation() as u64,
        ];
        distributions.iter_mut().zip(values).for_each(|(to, value)| to.add(family, value));
    }
    // Break lines stand before the families of the first three.
    let titles = [
        ("the number of referenced keys existing in a block over the total number of keys in a block", 1),
        ("the number of referenced keys DO NOT exist in a block over the total number of keys in a block", 1),
        ("the number of accesses on keys exist in a block over the total number of accesses in a block", 1),
        ("the average number of accesses per key in a block", 0),
        ("the standard deviation of the number of accesses per key in a block", 0),
    ];
    for (at, ((title, breaks), values)) in titles.iter().zip(&distributions).enumerate() {
        break_lines(usize::from(at > 0), out)?;
        write!(out, "Histogram on {title}: \n{}", values.all)?;
        for (family, values) in &values.by_family {
            break_lines(*breaks, out)?;
            write!(out, "Break down by column family {family}: \n{values}")?;
        }
    }
    Ok(())
}
