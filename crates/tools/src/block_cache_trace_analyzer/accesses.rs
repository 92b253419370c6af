//! Accesses by column family, file, kind of block, block and caller, and their sums.

use super::MICROS_PER_SECOND;
use super::distance::LastAccesses;
use super::readable::{AccessNumbers, get_key};
use crate::failure::CommandOutcome;
use esker::trace::{BlockAccess, TraceKind};
use std::collections::BTreeMap;
use std::io::Write;

const BREAK_LINE: &str = "***************************************************************";

/// The facts about blocks that reports need, beside their sums.
#[derive(Clone, Copy, Default)]
pub(super) struct KeptFacts {
    /// Accesses by second.
    pub(super) seconds: bool,
    /// Number and time of each access.
    pub(super) sequences: bool,
    /// Keys that gets look for.
    pub(super) keys: bool,
    /// Reuse distances.
    pub(super) distances: bool,
    /// Numbers for the keys of gets.
    pub(super) get_keys: bool,
}

/// Accesses in their order: caller, number of the access in the trace, time in microseconds.
pub(super) type AccessSequence = Vec<(u8, u64, u64)>;

/// Numbers of accesses by key and caller.
type KeyCounts = BTreeMap<Vec<u8>, BTreeMap<u8, u64>>;

/// The accesses to one block.
#[derive(Default)]
pub(super) struct BlockAccesses {
    /// The block's place in the order of first accesses, from 1 on.
    pub(super) id: u64,
    /// Bytes at the last access; 0 if that did not read it into the cache.
    pub(super) bytes: u64,
    pub(super) first_at: u64,
    pub(super) last_at: u64,
    pub(super) by_caller: BTreeMap<u8, u64>,
    /// Number of keys in the block, if a get has told it.
    pub(super) keys: u64,
    /// Accesses by gets for keys in the block, and for others.
    pub(super) found: KeyCounts,
    pub(super) not_found: KeyCounts,
    pub(super) found_accesses: u64,
    /// Bytes of the keys in `found` and of their values.
    pub(super) referenced_bytes: u64,
    /// By caller and second.
    pub(super) by_second: BTreeMap<u8, BTreeMap<u64, u64>>,
    /// Numbers of reuses by distance.
    pub(super) distances: BTreeMap<u64, u64>,
    pub(super) sequence: AccessSequence,
}

impl BlockAccesses {
    /// The number of accesses by callers that `is_meant` selects.
    pub(super) fn accesses_by(&self, is_meant: impl Fn(u8) -> bool) -> u64 {
        self.by_caller.iter().filter(|(caller, _)| is_meant(**caller)).map(|(_, count)| count).sum()
    }

    /// The number of all accesses.
    pub(super) fn accesses(&self) -> u64 {
        self.accesses_by(|_| true)
    }

    /// Seconds from the first access to the last. The largest number but one for a single access.
    pub(super) fn lifetime(&self) -> u64 {
        match self.accesses() {
            0 | 1 => u64::MAX - 1,
            _ => self.last_at.saturating_sub(self.first_at) / MICROS_PER_SECOND,
        }
    }

    fn add(&mut self, access: &BlockAccess<'_>, number: u64, kept: KeptFacts) {
        if self.by_caller.is_empty() {
            self.first_at = access.timestamp;
        }
        (self.last_at, self.bytes) = (access.timestamp, access.block_size);
        *self.by_caller.entry(access.caller).or_default() += 1;
        if kept.seconds {
            let seconds = self.by_second.entry(access.caller).or_default();
            *seconds.entry(access.timestamp / MICROS_PER_SECOND).or_default() += 1;
        }
        if kept.sequences {
            self.sequence.push((access.caller, number, access.timestamp));
        }
        let Some(get) = &access.get else { return };
        if !kept.keys || access.block_type != TraceKind::DataBlock as u8 {
            return;
        }
        self.keys = get.num_keys_in_block;
        let keys = if get.referenced_key_exists { &mut self.found } else { &mut self.not_found };
        let is_new = !keys.contains_key(get.referenced_key);
        *keys.entry(get.referenced_key.to_vec()).or_default().entry(access.caller).or_default() += 1;
        if get.referenced_key_exists {
            self.found_accesses += 1;
            let added = if is_new { get.referenced_data_size } else { 0 };
            self.referenced_bytes = self.referenced_bytes.saturating_add(added);
        }
    }
}

#[derive(Default)]
struct File {
    level: u32,
    /// By kind and key.
    blocks: BTreeMap<(u8, Vec<u8>), BlockAccesses>,
}

/// A block, and the file that has it.
#[derive(Clone, Copy)]
pub(super) struct BlockPlace<'a> {
    pub(super) family: &'a str,
    pub(super) file: u64,
    pub(super) level: u32,
    pub(super) kind: u8,
    pub(super) block: &'a BlockAccesses,
}

/// All accesses of a trace.
#[derive(Default)]
pub(super) struct Accesses {
    kept: KeptFacts,
    families: BTreeMap<String, BTreeMap<u64, File>>,
    count: u64,
    blocks: u64,
    last: LastAccesses,
    /// Number and accesses by user key of gets.
    get_keys: BTreeMap<Vec<u8>, (u64, AccessSequence)>,
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
    pub(super) fn new(kept: KeptFacts) -> Accesses {
        Accesses { kept, ..Accesses::default() }
    }

    /// Counts an access. Returns the numbers of its block and key.
    pub(super) fn add(&mut self, access: &BlockAccess<'_>) -> AccessNumbers {
        let family = String::from_utf8_lossy(access.cf_name).into_owned();
        let file = self.families.entry(family).or_default().entry(access.sst_fd_number).or_default();
        file.level = access.level;
        let block = file.blocks.entry((access.block_type, access.block_key.to_vec())).or_default();
        if block.id == 0 {
            self.blocks += 1;
            block.id = self.blocks;
        }
        if self.kept.distances
            && let Some(distance) = self.last.access(access.block_key, access.block_size)
        {
            *block.distances.entry(distance).or_default() += 1;
        }
        block.add(access, self.count, self.kept);
        let numbers = AccessNumbers { block: block.id, get_key: self.add_get_key(access) };
        self.count += 1;
        numbers
    }

    /// Counts the key of a get. Returns its number; 0 if there is none.
    fn add_get_key(&mut self, access: &BlockAccess<'_>) -> u64 {
        let Some(get) = access.get.filter(|get| get.get_id != 0 && access.caller == CALLER_GET) else {
            return 0;
        };
        if !self.kept.get_keys {
            return 0;
        }
        let next = self.get_keys.len() as u64 + 1;
        let (number, sequence) =
            self.get_keys.entry(get_key(&get).to_vec()).or_insert_with(|| (next, Vec::new()));
        if self.kept.sequences {
            sequence.push((access.caller, self.count, access.timestamp));
        }
        *number
    }

    /// The accesses by gets of each key.
    pub(super) fn get_sequences(&self) -> impl Iterator<Item = &AccessSequence> {
        self.get_keys.values().map(|(_, sequence)| sequence)
    }

    pub(super) fn family_names(&self) -> impl Iterator<Item = &str> {
        self.families.keys().map(String::as_str)
    }

    /// All blocks, by column family, file, kind and key.
    pub(super) fn blocks(&self) -> impl Iterator<Item = BlockPlace<'_>> {
        let files = self
            .families
            .iter()
            .flat_map(|(family, files)| files.iter().map(move |(number, file)| (family, *number, file)));
        files.flat_map(|(family, number, file)| {
            file.blocks.iter().map(move |((kind, _), block)| BlockPlace {
                family,
                file: number,
                level: file.level,
                kind: *kind,
                block,
            })
        })
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

pub(super) fn break_lines(count: usize, out: &mut dyn Write) -> CommandOutcome {
    (0..count).try_for_each(|_| writeln!(out, "{BREAK_LINE}"))?;
    Ok(())
}

pub(super) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { -1.0 } else { part as f64 * 100.0 / whole as f64 }
}

pub(super) fn kind_name(kind: u8) -> &'static str {
    match TraceKind::from_u8(kind) {
        Some(TraceKind::FilterBlock) => "Filter",
        Some(TraceKind::DataBlock) => "Data",
        Some(TraceKind::IndexBlock) => "Index",
        Some(TraceKind::RangeDeletionBlock) => "RangeDeletion",
        Some(TraceKind::UncompressionDictBlock) => "UncompressionDict",
        _ => "InvalidType",
    }
}

/// The number of the caller "Get".
pub(super) const CALLER_GET: u8 = 1;

/// Numbers of the callers from `CALLER_GET` on.
pub(super) const CALLERS: std::ops::RangeInclusive<u8> = CALLER_GET..=14;

/// Whether a caller is an operation of the user.
pub(super) fn is_user(caller: u8) -> bool {
    (CALLER_GET..=5).contains(&caller)
}

pub(super) fn caller_name(caller: u8) -> &'static str {
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
