//! Accesses by column family, file, kind of block, block and caller.

use crate::failure::CommandOutcome;
use esker::stats::HistogramSnapshot;
use esker::trace::{BlockAccess, TraceKind};
use std::collections::BTreeMap;
use std::io::Write;

const BREAK_LINE: &str = "***************************************************************";

/// The accesses to one block.
#[derive(Default)]
struct Block {
    bytes: u64,
    by_caller: BTreeMap<u8, u64>,
}

#[derive(Default)]
struct File {
    level: u32,
    /// By kind and key.
    blocks: BTreeMap<(u8, Vec<u8>), Block>,
}

/// All accesses of a trace.
#[derive(Default)]
pub(super) struct Accesses {
    families: BTreeMap<String, BTreeMap<u64, File>>,
}

/// Sums over some files.
#[derive(Default)]
struct Sums {
    files: u64,
    blocks: u64,
    accesses: u64,
    blocks_by_kind: BTreeMap<u8, u64>,
    callers: BTreeMap<u8, CallerSums>,
}

#[derive(Default)]
struct CallerSums {
    accesses: u64,
    by_level: BTreeMap<u64, u64>,
    by_file: BTreeMap<u64, u64>,
    by_kind: BTreeMap<u8, u64>,
}

impl Accesses {
    pub(super) fn add(&mut self, access: &BlockAccess<'_>) {
        let family = String::from_utf8_lossy(access.cf_name).into_owned();
        let file = self.families.entry(family).or_default().entry(access.sst_fd_number).or_default();
        file.level = access.level;
        let block = file.blocks.entry((access.block_type, access.block_key.to_vec())).or_default();
        block.bytes = block.bytes.max(access.block_size);
        *block.by_caller.entry(access.caller).or_default() += 1;
    }

    fn blocks(&self) -> impl Iterator<Item = (u8, &Block)> {
        let files = self.families.values().flat_map(BTreeMap::values);
        files.flat_map(|file| file.blocks.iter().map(|((kind, _), block)| (*kind, block)))
    }

    /// Prints sums for each column family and for all.
    pub(super) fn print(&self, out: &mut dyn Write) -> CommandOutcome {
        let mut all = Sums::default();
        for (name, files) in &self.families {
            let mut sums = Sums::default();
            for (number, file) in files {
                sums.add(*number, file);
                all.add(*number, file);
            }
            break_lines(3, out)?;
            writeln!(out, "Statistics for column family {name}:")?;
            let Sums { files, blocks, accesses, .. } = &sums;
            writeln!(
                out,
                " Number of files:{files} Number of blocks: {blocks} Number of accesses: {accesses}"
            )?;
            sums.print(true, out)?;
        }
        break_lines(3, out)?;
        let Sums { files, blocks, accesses, .. } = &all;
        writeln!(
            out,
            "Overall statistics:\nNumber of files: {files} Number of blocks: {blocks} Number of accesses: {accesses}"
        )?;
        all.print(false, out)
    }

    /// Prints the distribution of the sizes of blocks.
    pub(super) fn print_sizes(&self, out: &mut dyn Write) -> CommandOutcome {
        self.print_distributions("Block size stats", &|block| block.bytes, out)
    }

    /// Prints the distribution of the numbers of accesses to blocks.
    pub(super) fn print_counts(&self, out: &mut dyn Write) -> CommandOutcome {
        self.print_distributions("Block access count stats", &|block| block.by_caller.values().sum(), out)
    }

    fn print_distributions(
        &self,
        title: &str,
        value: &dyn Fn(&Block) -> u64,
        out: &mut dyn Write,
    ) -> CommandOutcome {
        let (mut all, mut by_kind) = (HistogramSnapshot::new(), BTreeMap::new());
        for (kind, block) in self.blocks() {
            all.add(value(block));
            by_kind.entry(kind).or_insert_with(HistogramSnapshot::new).add(value(block));
        }
        break_lines(1, out)?;
        writeln!(out, "{title}: \n{all}")?;
        for (kind, sizes) in &by_kind {
            break_lines(1, out)?;
            writeln!(out, "{title} for block type {}: \n{sizes}", kind_name(*kind))?;
        }
        Ok(())
    }
}

impl Sums {
    fn add(&mut self, number: u64, file: &File) {
        self.files += 1;
        for ((kind, _), block) in &file.blocks {
            self.blocks += 1;
            *self.blocks_by_kind.entry(*kind).or_default() += 1;
            for (caller, accesses) in &block.by_caller {
                self.accesses += accesses;
                let sums = self.callers.entry(*caller).or_default();
                sums.accesses += accesses;
                *sums.by_level.entry(u64::from(file.level)).or_default() += accesses;
                *sums.by_file.entry(number).or_default() += accesses;
                *sums.by_kind.entry(*kind).or_default() += accesses;
            }
        }
    }

    fn print(&self, with_files: bool, out: &mut dyn Write) -> CommandOutcome {
        for (kind, blocks) in &self.blocks_by_kind {
            let share = percent(*blocks, self.blocks);
            writeln!(out, "Number of {} blocks: {blocks} Percent: {share:.2}", kind_name(*kind))?;
        }
        for (caller, sums) in &self.callers {
            let (name, accesses) = (caller_name(*caller), sums.accesses);
            let share = percent(accesses, self.accesses);
            let lines = |what: &str, counts: &BTreeMap<u64, u64>, out: &mut dyn Write| -> CommandOutcome {
                for (of, count) in counts {
                    let share = percent(*count, accesses);
                    writeln!(out, "\t {what} {of}: Number of accesses: {count} Percent: {share:.2}")?;
                }
                Ok(())
            };
            break_lines(1, out)?;
            writeln!(out, "Caller {name}: Number of accesses {accesses} Percent: {share:.2}")?;
            writeln!(out, "Caller {name}: Number of accesses per level break down")?;
            lines("Level", &sums.by_level, out)?;
            if with_files {
                writeln!(out, "Caller {name}: Number of accesses per file break down")?;
                lines("File", &sums.by_file, out)?;
            }
            writeln!(out, "Caller {name}: Number of accesses per block type break down")?;
            for (kind, count) in &sums.by_kind {
                let (kind, share) = (kind_name(*kind), percent(*count, accesses));
                writeln!(out, "\t Block Type {kind}: Number of accesses: {count} Percent: {share:.2}")?;
            }
        }
        Ok(())
    }
}

fn break_lines(count: usize, out: &mut dyn Write) -> CommandOutcome {
    (0..count).try_for_each(|_| writeln!(out, "{BREAK_LINE}"))?;
    Ok(())
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { -1.0 } else { part as f64 * 100.0 / whole as f64 }
}

fn kind_name(kind: u8) -> &'static str {
    match TraceKind::from_u8(kind) {
        Some(TraceKind::FilterBlock) => "Filter",
        Some(TraceKind::DataBlock) => "Data",
        Some(TraceKind::IndexBlock) => "Index",
        Some(TraceKind::RangeDeletionBlock) => "RangeDeletion",
        Some(TraceKind::UncompressionDictBlock) => "UncompressionDict",
        _ => "InvalidType",
    }
}

fn caller_name(caller: u8) -> &'static str {
    match caller {
        1 => "Get",
        2 => "MultiGet",
        3 => "Iterator",
        4 => "ApproximateSize",
        5 => "VerifyChecksum",
        6 => "SSTDumpTool",
        7 => "ExternalSSTIngestion",
        8 => "Repair",
        9 => "Prefetch",
        10 => "Compaction",
        11 => "CompactionRefill",
        12 => "Flush",
        13 => "SSTFileReader",
        14 => "Uncategorized",
        _ => "InvalidCaller",
    }
}
