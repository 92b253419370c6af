//! Batched reads of data blocks of any tables.
//!
//! In: handles. Out: for each handle its block, from the cache, the tier below it or the file, or
//! an error. All reads go to the kernel together (`esker_env::read_many`), and neighbours in a file
//! become one read. Files without a descriptor are read block by block.
//!
//! Invariants
//!  1. No guard is held: each gathered block has its own reference.
//!  2. An error belongs to the blocks that needed the failed bytes: if neighbours cannot be read as
//!     one, each is read alone.

use super::{BlockKind, BlockRef, BlockSource, Started};
use crate::counts;
use crate::options::TableReadOptions;
use esker_base::{Buffer, Result};
use esker_env::{ReadRequest, read_many};
use esker_format::handle::BlockHandle;
use esker_format::trailer::TRAILER_BYTES;
use smallvec::SmallVec;

/// The largest gap between two blocks of one read. To read the gap along costs less than another
/// read.
const GAP_BYTES: u64 = 4 << 10;

/// The largest gap in planned scans: RocksDB's number (`MultiScanArgs::io_coalesce_threshold`).
pub(crate) const COALESCED_GAP_BYTES: u64 = 16 << 10;

/// The most bytes of one read. Larger reads are no cheaper.
const RUN_BYTES: u64 = 1 << 20;

/// A requested block.
pub(crate) struct Wanted<'s> {
    pub(crate) source: &'s BlockSource,
    pub(crate) handle: BlockHandle,
}

/// Number of blocks for which no memory is allocated.
const FEW: usize = 8;

/// A block, or the error instead of it.
pub(crate) type Gathered = Result<BlockRef>;

/// A block on its way from the file.
struct Reading {
    /// Its index among the requested blocks.
    at: usize,
    stored: Buffer,
    /// Memory for the gap before this block, if the same read fetches the block before it.
    gap: Buffer,
    is_first: bool,
    read: Result<()>,
}

/// Counts of blocks and reads.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct GatherCounts {
    /// Blocks read from files.
    pub(crate) blocks_read: u64,
    /// Blocks found in the cache, or in a tier below it.
    pub(crate) blocks_cached: u64,
    /// Stored bytes of the blocks read from files.
    pub(crate) bytes_read: u64,
    /// Reads, each of one block or of neighbours.
    pub(crate) reads: u64,
    /// Gaps between neighbours that were read along.
    pub(crate) gaps_read: u64,
}

/// All the blocks that are `wanted`, in their order. Those of one table are wanted in the order of
/// their offsets.
pub(crate) fn gather(wanted: &[Wanted<'_>], options: &TableReadOptions) -> Vec<Gathered> {
    gather_closer(wanted, options, GAP_BYTES, &mut GatherCounts::default())
}

/// [`gather`] that reads gaps of up to `gap_bytes` along.
pub(crate) fn gather_closer(
    wanted: &[Wanted<'_>],
    options: &TableReadOptions,
    gap_bytes: u64,
    counts: &mut GatherCounts,
) -> Vec<Gathered> {
    let _activity = options.activity.begin();
    let mut found: Vec<Option<Gathered>> = look_up(wanted, options);
    let mut reading = Vec::with_capacity(found.iter().filter(|found| found.is_none()).count());
    for (at, (w, found)) in wanted.iter().zip(&mut found).enumerate().filter(|(_, (_, f))| f.is_none()) {
        let begun = w
            .source
            .begin_read(w.handle, BlockKind::Data, options)
            .and_then(|()| w.handle.check_within(w.source.file_size).map_err(|e| w.source.at(e, w.handle)));
        match begun {
            Ok(()) => reading.push(Reading::new(at, w.handle)),
            Err(e) => *found = Some(Err(e)),
        }
    }
    join_neighbours(wanted, &mut reading, gap_bytes);
    counts.blocks_cached += found.iter().flatten().filter(|found| found.is_ok()).count() as u64;
    for block in &reading {
        counts.blocks_read += 1;
        counts.bytes_read += block.stored.len() as u64;
        counts.reads += u64::from(block.is_first);
        counts.gaps_read += u64::from(!block.gap.is_empty());
    }
    read_all(wanted, &mut reading);
    for block in reading {
        let at = block.at;
        found[at] = Some(block.into_gathered(&wanted[at], options));
    }
    found.into_iter().map(|block| block.expect("each block was found or read, or has failed")).collect()
}

/// Looks up the blocks in the cache and below it.
fn look_up(wanted: &[Wanted<'_>], options: &TableReadOptions) -> Vec<Option<Gathered>> {
    // All lookups below the cache begin before the first one is waited for.
    let start = |w: &Wanted<'_>| w.source.start(w.handle, BlockKind::Data, options);
    let started: SmallVec<[Started; FEW]> = wanted.iter().map(start).collect();
    let finish = |(w, started): (&Wanted<'_>, Started)| {
        w.source.finish(started, w.handle, BlockKind::Data, options).map(Ok)
    };
    wanted.iter().zip(started).map(finish).collect()
}

impl Reading {
    fn new(at: usize, handle: BlockHandle) -> Reading {
        let stored = Buffer::new(handle.size as usize + TRAILER_BYTES);
        Reading { at, stored, gap: Buffer::default(), is_first: true, read: Ok(()) }
    }

    /// Puts the block that was read into the cache.
    fn into_gathered(self, wanted: &Wanted<'_>, options: &TableReadOptions) -> Gathered {
        let Wanted { source, handle } = *wanted;
        let (for_cache, verify) = (options.fill_cache, options.verify_checksums);
        let parse = |stored| source.parse_for(for_cache, stored, handle, BlockKind::Data, verify);
        self.read
            .and_then(|()| parse(self.stored))
            .or_else(|e| source.again(e, handle, parse))
            .and_then(|parsed| source.keep(parsed, handle, BlockKind::Data, options, true))
    }
}

/// Marks the blocks that lie close behind their predecessor.
fn join_neighbours(wanted: &[Wanted<'_>], reading: &mut [Reading], gap_bytes: u64) {
    let mut run_bytes = 0;
    for i in 1..reading.len() {
        let (before, here) = (&wanted[reading[i - 1].at], &wanted[reading[i].at]);
        let is_same_file =
            std::ptr::eq(before.source, here.source) && here.source.file.descriptor().is_some();
        let gap = match before.handle.end().and_then(|end| here.handle.offset.checked_sub(end)) {
            Some(gap) if is_same_file => gap,
            _ => u64::MAX,
        };
        run_bytes += here.handle.size;
        reading[i].is_first = gap > gap_bytes || run_bytes > RUN_BYTES;
        if reading[i].is_first {
            run_bytes = here.handle.size;
        } else {
            reading[i].gap = Buffer::at_most(gap as usize, 2 * gap as usize);
        }
    }
}

/// The read requests, one for each run of neighbours.
fn requests<'r>(wanted: &[Wanted<'r>], reading: &'r mut [Reading]) -> Vec<ReadRequest<'r>> {
    let mut requests: Vec<ReadRequest<'r>> = Vec::with_capacity(reading.len());
    for block in reading {
        let Wanted { source, handle } = &wanted[block.at];
        if block.is_first {
            requests.push(ReadRequest::new(&*source.file, handle.offset, Vec::with_capacity(1)));
        }
        let request = requests.last_mut().expect("the first block begins a run");
        if !block.gap.is_empty() {
            request.bufs.push(&mut block.gap);
        }
        request.bufs.push(&mut block.stored);
    }
    requests
}

/// Reads each run of neighbours as one.
fn read_all(wanted: &[Wanted<'_>], reading: &mut [Reading]) {
    let mut requests = requests(wanted, reading);
    if let (Some(first), false) = (wanted.first(), requests.is_empty()) {
        counts::batch_read(first.source.statistics.as_ref(), requests.len());
    }
    read_many(&mut requests);
    let results: Vec<Result<usize>> = requests.into_iter().map(|request| request.result).collect();
    let mut results = results.into_iter();
    for run in reading.chunk_by_mut(|_, next| !next.is_first) {
        let read = results.next().expect("the kernel answers for each run");
        if let [block] = run {
            let Wanted { source, handle } = wanted[block.at];
            block.read = match read {
                Ok(n) if n < block.stored.len() => Err(source.truncated(n, handle)),
                Ok(_) => Ok(()),
                Err(e) => Err(source.at(e, handle)),
            };
            continue;
        }
        let bytes: usize = run.iter().map(|block| block.gap.len() + block.stored.len()).sum();
        if read.is_ok_and(|n| n == bytes) {
            continue;
        }
        for block in run {
            let Wanted { source, handle } = wanted[block.at];
            block.read = source.read_stored(handle).map(|stored| block.stored = stored);
        }
    }
}
