//! Simulated caches: accesses in, miss ratios and their timelines out.

use super::MICROS_PER_SECOND;
use super::accesses::{CALLER_GET, percent};
use super::groups::{Timeline, span_of, write_timelines};
use super::readable::get_key;
use super::report_dir::ReportDir;
use crate::failure::{CommandOutcome, Failure};
use esker::internals::base::hash::xxh3_128;
use esker::internals::cache::{
    Cache, CacheKey, CacheOptions, CachePriority, CacheType, MetadataChargePolicy, Role,
};
use esker::trace::{BlockAccess, GetAccess, TraceKind};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

const NAMES: &str = "lru, lru_priority, lru_hybrid, lru_hybrid_no_insert_on_row_miss, hyper_clock, and ghost_ \
                     before each";

/// Accesses and misses.
#[derive(Clone, Copy, Default)]
struct MissCounts {
    accesses: u64,
    misses: u64,
}

impl MissCounts {
    fn add(&mut self, is_miss: bool) {
        self.accesses += 1;
        self.misses += u64::from(is_miss);
    }

    fn merge(&mut self, other: &MissCounts) {
        self.accesses += other.accesses;
        self.misses += other.misses;
    }

    /// In percent; -1 without accesses.
    fn ratio(&self) -> f64 {
        percent(self.misses, self.accesses)
    }
}

/// The accesses and misses of a cache, in all and by second.
#[derive(Default)]
pub(super) struct MissStats {
    all: MissCounts,
    /// Seconds of the warm-up too.
    by_second: Timeline<MissCounts>,
}

impl MissStats {
    pub(super) fn add(&mut self, time: u64, is_miss: bool) {
        self.all.add(is_miss);
        self.by_second.entry(time / MICROS_PER_SECOND).or_default().add(is_miss);
    }

    /// The miss ratio in percent; -1 without accesses.
    pub(super) fn ratio(&self) -> f64 {
        self.all.ratio()
    }

    fn by_unit(&self, unit: u64) -> Timeline<MissCounts> {
        let mut units: Timeline<MissCounts> = Timeline::new();
        for (second, counts) in &self.by_second {
            units.entry(second / unit).or_default().merge(counts);
        }
        units
    }
}

/// All caches of a run.
pub(super) struct Simulation {
    caches: Vec<Simulated>,
    warmup_micros: u64,
    began_at: Option<u64>,
    is_warm: bool,
}

/// One cache, and its line of the configuration.
struct Simulated {
    name: String,
    shard_bits: i32,
    ghost_bytes: u64,
    bytes: u64,
    has_priorities: bool,
    cache: Cache<()>,
    /// The keys of recent accesses. A missed block enters `cache` only if its key is here.
    ghost: Option<Cache<()>>,
    /// The gets of a cache of rows and blocks.
    rows: Option<RowGets>,
    stats: MissStats,
}

/// The gets that a cache of rows and blocks has seen. A row is a key's entry in one table.
struct RowGets {
    /// A get that misses its row brings blocks into the cache.
    inserts_blocks: bool,
    by_id: HashMap<u64, RowGet>,
}

/// One get.
#[derive(Default)]
struct RowGet {
    /// A row was in the cache, so the get reads no further block.
    is_complete: bool,
    rows: HashMap<Vec<u8>, RowState>,
}

/// A row that was not in the cache.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowState {
    /// The ghost cache did not know the row.
    Refused,
    /// The row goes into the cache as soon as its size is known.
    Admitted,
    Inserted,
}

impl Simulation {
    /// Makes the caches of a configuration: one for each size on each line. `file` is the name of
    /// the configuration in errors.
    /// # Errors
    /// The line that is no cache.
    pub(super) fn parse(
        text: &str,
        file: &str,
        ratio: u64,
        warmup_seconds: u64,
    ) -> CommandOutcome<Simulation> {
        let mut caches = Vec::new();
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            let wrong = |why: &str| Failure::new(format_args!("{file}, line {number} '{line}': {why}"));
            let parts: Vec<&str> = line.trim().split(',').map(str::trim).collect();
            let [name, shard_bits, ghost_bytes, sizes @ ..] = parts.as_slice() else {
                return Err(wrong("a cache is NAME,SHARD_BITS,GHOST_BYTES,BYTES[,BYTES…]"));
            };
            if sizes.is_empty() {
                return Err(wrong("it has no size"));
            }
            let shard_bits: i32 = shard_bits.parse().map_err(|_| wrong("SHARD_BITS is no number"))?;
            if !(0..20).contains(&shard_bits) {
                return Err(wrong("the number of shard bits must be at least 0 and below 20"));
            }
            let ghost_bytes =
                parse_bytes(ghost_bytes).ok_or_else(|| wrong("GHOST_BYTES is no number of bytes"))?;
            for size in sizes {
                let bytes = parse_bytes(size).filter(|bytes| *bytes > 0);
                let bytes = bytes.ok_or_else(|| wrong("a size must be a number of bytes above 0"))?;
                let made = Simulated::new(name, shard_bits, ghost_bytes, (bytes, ratio));
                let made = made.ok_or_else(|| wrong(&format!("the names of caches are {NAMES}")))?;
                caches.push(made.map_err(|e| wrong(&e.to_string()))?);
            }
        }
        let warmup_micros = warmup_seconds.saturating_mul(MICROS_PER_SECOND);
        Ok(Simulation { caches, warmup_micros, began_at: None, is_warm: false })
    }

    pub(super) fn access(&mut self, access: &BlockAccess<'_>) {
        let began_at = *self.began_at.get_or_insert(access.timestamp);
        if !self.is_warm && began_at.saturating_add(self.warmup_micros) <= access.timestamp {
            self.is_warm = true;
            self.caches.iter_mut().for_each(|cache| cache.stats.all = MissCounts::default());
        }
        let key = cache_key(access.block_key);
        self.caches.iter_mut().for_each(|cache| cache.access(&key, access));
    }

    pub(super) fn has_caches(&self) -> bool {
        !self.caches.is_empty()
    }

    /// Writes the timelines: for each size of a cache its miss ratios and its misses by
    /// second, minute and hour. `trace` is the traced cache, with the largest number for a size.
    pub(super) fn timelines(&self, trace: &MissStats, dir: ReportDir<'_>) -> CommandOutcome {
        for unit in [1, 60, 3600] {
            let mut by_size: BTreeMap<u64, BTreeMap<String, Timeline<MissCounts>>> = BTreeMap::new();
            let traced = BTreeMap::from([("trace".to_owned(), trace.by_unit(unit))]);
            by_size.insert(u64::MAX, traced);
            for cache in &self.caches {
                let Simulated { name, shard_bits, ghost_bytes, bytes, stats, .. } = cache;
                let name = format!("{name}-{shard_bits}-{ghost_bytes}");
                by_size.entry(*bytes).or_default().insert(name, stats.by_unit(unit));
            }
            let span = span_of(by_size.values().flat_map(BTreeMap::values));
            for (bytes, lines) in &by_size {
                let lines = || lines.iter().map(|(name, line)| (name.as_str(), line));
                let ratio = |counts: &MissCounts| format!("{:.6}", counts.ratio());
                dir.make(&format!("{bytes}_{unit}_miss_ratio_timeline"), |out| {
                    write_timelines(out, lines(), span, ratio)
                })?;
                let misses = |counts: &MissCounts| counts.misses.to_string();
                dir.make(&format!("{bytes}_{unit}_miss_timeline"), |out| {
                    write_timelines(out, lines(), span, misses)
                })?;
            }
        }
        Ok(())
    }

    /// A header, and a line for each cache with its miss ratio in percent.
    pub(super) fn miss_ratios(&self) -> String {
        let mut text =
            "cache_name,num_shard_bits,ghost_capacity,capacity,miss_ratio,total_accesses\n".to_owned();
        for cache in &self.caches {
            let Simulated { name, shard_bits, ghost_bytes, bytes, stats, .. } = cache;
            let (ratio, accesses) = (stats.ratio(), stats.all.accesses);
            writeln!(text, "{name},{shard_bits},{ghost_bytes},{bytes},{ratio:.4},{accesses}")
                .expect("a write to a string cannot fail");
        }
        text
    }
}

fn cache_key(bytes: &[u8]) -> CacheKey {
    let hash = xxh3_128(bytes, 0);
    CacheKey::from_words([(hash >> 64) as u64, hash as u64])
}

/// A number of bytes, which may end in K, M, G or T.
pub(super) fn parse_bytes(text: &str) -> Option<u64> {
    let (digits, shift) = match text.char_indices().next_back()? {
        (at, 'K' | 'k') => (&text[..at], 10),
        (at, 'M' | 'm') => (&text[..at], 20),
        (at, 'G' | 'g') => (&text[..at], 30),
        (at, 'T' | 't') => (&text[..at], 40),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

impl Simulated {
    /// Makes a cache of the kind `name`, with `bytes / ratio` bytes. `None` for an unknown kind.
    fn new(
        name: &str,
        shard_bits: i32,
        ghost_bytes: u64,
        (bytes, ratio): (u64, u64),
    ) -> Option<esker::Result<Simulated>> {
        let plain = name.strip_prefix("ghost_").unwrap_or(name);
        let (cache_type, has_priorities, inserts_blocks) = match plain {
            "lru" => (CacheType::Lru, false, None),
            "lru_priority" => (CacheType::Lru, true, None),
            "lru_hybrid" => (CacheType::Lru, true, Some(true)),
            "lru_hybrid_no_insert_on_row_miss" => (CacheType::Lru, true, Some(false)),
            "hyper_clock" => (CacheType::AutoHyperClock, true, None),
            _ => return None,
        };
        let cache = |cache_type, bytes: u64, shard_bits| {
            let options = CacheOptions {
                cache_type,
                capacity: usize::try_from(bytes).unwrap_or(usize::MAX),
                num_shard_bits: shard_bits,
                high_pri_pool_ratio: if has_priorities { 0.5 } else { 0.0 },
                metadata_charge_policy: MetadataChargePolicy::DontChargeCacheMetadata,
                ..CacheOptions::default()
            };
            Cache::new(&options)
        };
        let ghost = (plain != name).then(|| cache(CacheType::Lru, ghost_bytes, 1)).transpose();
        let made = ghost.and_then(|ghost| {
            Ok(Simulated {
                name: name.to_owned(),
                shard_bits,
                ghost_bytes,
                bytes,
                has_priorities,
                cache: cache(cache_type, bytes / ratio, shard_bits)?,
                ghost,
                rows: inserts_blocks.map(|inserts_blocks| RowGets { inserts_blocks, by_id: HashMap::new() }),
                stats: MissStats::default(),
            })
        });
        Some(made)
    }

    fn access(&mut self, key: &CacheKey, access: &BlockAccess<'_>) {
        let get = access.get.filter(|get| access.caller == CALLER_GET && get.get_id != 0);
        let is_miss = match (self.rows.take(), get) {
            (Some(mut rows), Some(get)) => {
                let is_miss = self.access_row(key, access, &get, &mut rows);
                self.rows = Some(rows);
                is_miss
            }
            (rows, _) => {
                self.rows = rows;
                self.access_block(key, access, access.no_insert)
            }
        };
        self.stats.add(access.timestamp, is_miss);
    }

    /// An access of a get to a cache of rows and blocks. Returns whether it is a miss.
    fn access_row(
        &self,
        key: &CacheKey,
        access: &BlockAccess<'_>,
        get: &GetAccess<'_>,
        rows: &mut RowGets,
    ) -> bool {
        let row_bytes = [access.sst_fd_number.to_string().as_bytes(), b"_", get_key(get)].concat();
        let row = cache_key(&row_bytes);
        let status = rows.by_id.entry(get.get_id).or_default();
        if status.is_complete {
            return false;
        }
        let bytes = get.referenced_data_size;
        let state = match status.rows.get(&row_bytes) {
            Some(state) => *state,
            None => {
                let priority = CachePriority::High;
                let (is_miss, is_admitted) = self.look_up(&row, (&row_bytes, bytes), priority, false);
                if !is_miss {
                    status.is_complete = true;
                    return false;
                }
                match (is_admitted, bytes) {
                    (false, _) => RowState::Refused,
                    (true, 0) => RowState::Admitted,
                    (true, _) => RowState::Inserted,
                }
            }
        };
        let is_miss = self.access_block(key, access, access.no_insert || !rows.inserts_blocks);
        let inserts_now = bytes > 0 && state == RowState::Admitted;
        if inserts_now {
            self.insert(&row, bytes, CachePriority::High);
        }
        status.rows.insert(row_bytes, if inserts_now { RowState::Inserted } else { state });
        is_miss
    }

    /// An access to a block. Returns whether it is a miss.
    fn access_block(&self, key: &CacheKey, access: &BlockAccess<'_>, no_insert: bool) -> bool {
        let is_index = [TraceKind::FilterBlock, TraceKind::IndexBlock, TraceKind::UncompressionDictBlock]
            .iter()
            .any(|kind| *kind as u8 == access.block_type);
        let priority = if self.has_priorities && is_index { CachePriority::High } else { CachePriority::Low };
        self.look_up(key, (access.block_key, access.block_size), priority, no_insert).0
    }

    /// Looks for an entry, and inserts it if it is missing and admitted. Returns whether it is
    /// missing, and whether it is admitted.
    fn look_up(
        &self,
        key: &CacheKey,
        (key_bytes, bytes): (&[u8], u64),
        priority: CachePriority,
        no_insert: bool,
    ) -> (bool, bool) {
        let is_admitted = no_insert || self.ghost.as_ref().is_none_or(|g| admits(g, key, key_bytes.len()));
        if self.cache.lookup(key).is_some() {
            return (false, is_admitted);
        }
        if !no_insert && is_admitted && bytes > 0 {
            self.insert(key, bytes, priority);
        }
        (true, is_admitted)
    }

    fn insert(&self, key: &CacheKey, bytes: u64, priority: CachePriority) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        // The cache does not keep such an entry either, but counts it briefly: a forged size would
        // exceed its numbers.
        if bytes > self.cache.capacity() {
            return;
        }
        // An entry larger than its shard is not kept.
        drop(self.cache.insert(*key, (), bytes, priority, Role::DataBlock));
    }
}

/// Whether a ghost cache knows the key. Records the key in the ghost cache.
fn admits(ghost: &Cache<()>, key: &CacheKey, key_bytes: usize) -> bool {
    if ghost.lookup(key).is_some() {
        return true;
    }
    drop(ghost.insert(*key, (), key_bytes, CachePriority::Low, Role::DataBlock));
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::read_file;
    use esker::internals::env::{FileSystem, MemFs};
    use std::path::Path;

    fn access(key: &[u8]) -> BlockAccess<'_> {
        BlockAccess {
            timestamp: 5,
            block_type: TraceKind::DataBlock as u8,
            block_key: key,
            block_size: 100,
            cf_id: 0,
            cf_name: b"default",
            level: 1,
            sst_fd_number: 7,
            caller: 3,
            is_cache_hit: false,
            no_insert: false,
            get: None,
        }
    }

    #[test]
    fn miss_ratios_equal_those_counted_by_hand() {
        let config = "lru,0,0,250,1000\nghost_lru,0,1000,1000\nhyper_clock,0,0,1M\n";
        let mut simulation = Simulation::parse(config, "caches", 1, 0).unwrap();
        // Three blocks in turn: an LRU cache for two blocks always misses. A larger one misses
        // three times.
        for _ in 0..4 {
            [b"a", b"b", b"c"].iter().for_each(|key| simulation.access(&access(*key)));
        }
        let ratios = simulation.miss_ratios();
        let lines: Vec<&str> = ratios.lines().collect();
        assert_eq!(
            lines[1..],
            [
                "lru,0,0,250,100.0000,12",
                "lru,0,0,1000,25.0000,12",
                // The ghost cache lets a block in at its second miss.
                "ghost_lru,0,1000,1000,50.0000,12",
                "hyper_clock,0,0,1048576,25.0000,12",
            ]
        );
    }

    /// A get of key `k` at number `id`: its index block, then its data block with the value.
    fn get(simulation: &mut Simulation, id: u64, blocks: [&[u8]; 2]) {
        let key = [&b"k"[..], &[0; 8]].concat();
        let kinds = [TraceKind::IndexBlock, TraceKind::DataBlock];
        for ((block, kind), bytes) in blocks.into_iter().zip(kinds).zip([0, 40]) {
            let get = GetAccess {
                get_id: id,
                referenced_key: &key,
                referenced_data_size: bytes,
                ..GetAccess::default()
            };
            let access = BlockAccess { block_type: kind as u8, caller: 1, get: Some(get), ..access(block) };
            simulation.access(&access);
        }
    }

    #[test]
    fn a_get_that_finds_its_row_reads_no_block() {
        let config = "lru_priority,0,0,10K\nlru_hybrid,0,0,10K\n\
                      lru_hybrid_no_insert_on_row_miss,0,0,10K\nghost_lru_hybrid,0,1K,10K\n";
        let mut simulation = Simulation::parse(config, "caches", 1, 0).unwrap();
        // The row is in after the first get, so other blocks of the table are not read.
        get(&mut simulation, 1, [b"i", b"d"]);
        get(&mut simulation, 2, [b"j", b"e"]);
        get(&mut simulation, 3, [b"j", b"e"]);
        let misses: Vec<u64> = simulation.caches.iter().map(|cache| cache.stats.all.misses).collect();
        // Behind a ghost cache the first get misses both blocks and is refused; the second looks
        // for other blocks, but its row is admitted then.
        assert_eq!(misses, [4, 2, 2, 4]);
        // A scan reads the block of the get: it is there only if blocks were inserted.
        simulation.access(&access(b"d"));
        let misses: Vec<u64> = simulation.caches.iter().map(|cache| cache.stats.all.misses).collect();
        assert_eq!(misses, [4, 2, 3, 5]);
        assert!(simulation.caches.iter().all(|cache| cache.stats.all.accesses == 7));
    }

    #[test]
    fn a_block_of_a_forged_size_is_a_miss() {
        let mut simulation =
            Simulation::parse("lru,0,0,1000\nhyper_clock,0,0,1000\n", "caches", 1, 0).unwrap();
        for (key, block_size) in [(b"a", 100), (b"b", u64::MAX), (b"b", u64::MAX), (b"a", 100)] {
            simulation.access(&BlockAccess { block_size, ..access(key) });
        }
        let misses: Vec<u64> = simulation.caches.iter().map(|cache| cache.stats.all.misses).collect();
        assert_eq!(misses, [3, 3]);
    }

    #[test]
    fn timelines_have_a_column_for_each_second() {
        let mut simulation = Simulation::parse("lru,0,0,1000\n", "caches", 1, 0).unwrap();
        let mut traced = MissStats::default();
        for (second, key) in [(5, b"a"), (5, b"a"), (7, b"b")] {
            let timestamp = second * MICROS_PER_SECOND;
            simulation.access(&BlockAccess { timestamp, ..access(key) });
            traced.add(timestamp, true);
        }
        let (fs, path) = (MemFs::new(), Path::new("/reports"));
        fs.create_dir_if_missing(path).unwrap();
        assert!(simulation.timelines(&traced, ReportDir { fs: &fs, path }).is_ok());
        let text = |name: &str| String::from_utf8(read_file(&fs, &path.join(name)).unwrap()).unwrap();
        assert_eq!(text("1000_1_miss_ratio_timeline"), "time,5,6,7\nlru-0-0,50.000000,0,100.000000\n");
        assert_eq!(text("1000_60_miss_timeline"), "time,0\nlru-0-0,2\n");
        assert_eq!(text("18446744073709551615_1_miss_timeline"), "time,5,6,7\ntrace,2,0,1\n");
        assert_eq!(fs.children(path).unwrap().len(), 12);
    }

    #[test]
    fn a_line_that_is_no_cache_is_named() {
        for line in ["lru", "lru,0,0", "lru,0,0,0", "lru,x,0,9", "fifo,0,0,9", "lru,0,0,9X", "lru,99,0,9"] {
            let told = Simulation::parse(&format!("lru,0,0,9\n{line}\n"), "caches", 1, 0).err();
            let Some(Failure::Told(told)) = told else { panic!("{line} was taken") };
            assert!(told.contains("caches, line 2"), "{told}");
        }
    }
}
