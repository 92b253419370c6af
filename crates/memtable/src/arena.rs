//! The arena of a memtable: memory for its records and nodes, freed all at once.
//!
//! In: sizes. Out: addresses that stay valid until the arena is dropped.
//!
//! Blocks come from the allocator. Their size grows from 4 KiB to `arena_block_size`. The arena
//! cuts blocks into chunks, and each shard allocates from a chunk of its own. A thread's number
//! gives its shard, so two threads seldom use one shard. Nodes have a chunk of their own, so inner
//! nodes lie close together. A request larger than a quarter of a block gets its own block. A large
//! memtable gets blocks of huge pages, which shorten a lookup to 0.6 of its time
//! (`docs/design/0001-memtable.md`).
//!
//! Invariants
//!  1. No byte is allocated twice. Allocated memory stays in place until the arena is dropped.
//!  2. `allocated` is the sum of the sizes of all blocks, as requested from the allocator.
//!  3. Lock order: the lock of a shard or of the nodes' chunk, then the lock of the blocks.

use crate::memtable::MemoryBudget;
use crate::node::prefetch_line;
use crossbeam_utils::CachePadded;
use esker_base::memory::{HUGE_PAGE_BYTES, prefer_huge_pages};
use esker_base::sync::atomic::{AtomicUsize, Ordering};
use esker_base::sync::{Arc, Mutex, thread_number};
use esker_base::{Error, Result, SubCode};
use std::alloc::Layout;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Size of the first block.
const FIRST_BLOCK_BYTES: usize = 4 << 10;
/// Size of the largest chunk. A shard leaves at most this much memory unused.
const MAX_CHUNK_BYTES: usize = 64 << 10;
/// An arena of at least this size gets further blocks of huge pages, if its options request them.
const HUGE_FROM_BYTES: usize = 16 << 20;
/// Number of cache lines to prefetch for the next record.
const NEXT_RECORD_LINES: usize = 3;
/// Alignment of blocks. Nothing in the arena needs a larger one.
const BLOCK_ALIGN: usize = 128;

/// Free memory, which is allocated from the front.
#[derive(Debug)]
struct Chunk {
    at: *mut u8,
    left: usize,
}

// SAFETY: nothing else refers to the memory of a chunk (invariant 1).
unsafe impl Send for Chunk {}

impl Chunk {
    const EMPTY: Chunk = Chunk { at: std::ptr::null_mut(), left: 0 };

    #[inline]
    fn take(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        let pad = self.at.align_offset(layout.align());
        let need = pad.checked_add(layout.size())?;
        if need > self.left {
            return None;
        }
        let start = self.at.wrapping_add(pad);
        self.at = self.at.wrapping_add(need);
        self.left -= need;
        NonNull::new(start)
    }
}

/// The chunk of one shard, and the statistics of its writers.
#[derive(Debug)]
pub(crate) struct ArenaShard {
    chunk: Chunk,
    pub(crate) stats: ShardStats,
}

/// Counts of the entries that a shard's writers added. The shard's lock guards them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardStats {
    pub(crate) entries: u64,
    pub(crate) deletes: u64,
    pub(crate) data_bytes: u64,
    pub(crate) first_seq: u64,
    pub(crate) last_seq: u64,
}

impl ShardStats {
    pub(crate) const NONE: ShardStats =
        ShardStats { entries: 0, deletes: 0, data_bytes: 0, first_seq: u64::MAX, last_seq: 0 };

    pub(crate) fn add(&mut self, other: &ShardStats) {
        self.entries += other.entries;
        self.deletes += other.deletes;
        self.data_bytes += other.data_bytes;
        self.first_seq = self.first_seq.min(other.first_seq);
        self.last_seq = self.last_seq.max(other.last_seq);
    }
}

#[derive(Debug)]
struct Blocks {
    all: Vec<(NonNull<u8>, Layout)>,
    /// The free rest of the newest block for chunks.
    current: Chunk,
}

// SAFETY: the arena owns the blocks, and nothing else refers to the memory of `current`.
unsafe impl Send for Blocks {}

/// The memory of one memtable.
#[derive(Debug)]
pub(crate) struct Arena {
    shards: Box<[CachePadded<Mutex<ArenaShard>>]>,
    nodes: Mutex<Chunk>,
    blocks: Mutex<Blocks>,
    allocated: AtomicUsize,
    /// Bytes of blocks that chunks and large requests have taken.
    carved: AtomicUsize,
    /// Bytes of blocks that the arena has reported to the budget: 0 while only the first block
    /// exists. Changed under the lock of `blocks`.
    budgeted: AtomicUsize,
    block_bytes: usize,
    /// The expected final size of the arena in bytes. The last blocks get smaller to fit it.
    expected_bytes: usize,
    huge_pages: bool,
    budget: Option<Arc<dyn MemoryBudget>>,
}

impl Arena {
    /// An empty arena. Blocks grow up to `block_bytes`. With `huge_pages`, later blocks of a large
    /// arena consist of huge pages.
    pub(crate) fn new(block_bytes: usize, huge_pages: bool) -> Arena {
        let shard =
            || CachePadded::new(Mutex::new(ArenaShard { chunk: Chunk::EMPTY, stats: ShardStats::NONE }));
        Arena {
            shards: (0..shard_count()).map(|_| shard()).collect(),
            nodes: Mutex::new(Chunk::EMPTY),
            blocks: Mutex::new(Blocks { all: Vec::new(), current: Chunk::EMPTY }),
            allocated: AtomicUsize::new(0),
            carved: AtomicUsize::new(0),
            budgeted: AtomicUsize::new(0),
            block_bytes: block_bytes.max(FIRST_BLOCK_BYTES),
            expected_bytes: usize::MAX,
            huge_pages,
            budget: None,
        }
    }

    /// Makes the arena report its blocks to `budget`. The owner reports their release when it drops
    /// the arena.
    ///
    /// The first block does not count while it is the only one. Otherwise thousands of idle
    /// families could exceed the budget for ever, and each write would cause a flush. The flush
    /// would not help: it replaces the memtable by a new one, which has a first block too.
    pub(crate) fn counted_by(mut self, budget: Option<Arc<dyn MemoryBudget>>) -> Arena {
        self.budget = budget;
        self
    }

    /// Tells the arena its expected final size, so that the last block is mostly used.
    pub(crate) fn expecting(mut self, bytes: usize) -> Arena {
        self.expected_bytes = bytes;
        self
    }

    /// Bytes requested from the allocator for blocks.
    pub(crate) fn allocated(&self) -> usize {
        self.allocated.load(Ordering::Relaxed)
    }

    /// Bytes of blocks that chunks and large requests have taken. A chunk counts as a whole.
    #[inline]
    pub(crate) fn carved(&self) -> usize {
        self.carved.load(Ordering::Relaxed)
    }

    /// Bytes reported to the budget.
    pub(crate) fn budgeted(&self) -> usize {
        self.budgeted.load(Ordering::Relaxed)
    }

    /// Bytes of the arena itself.
    pub(crate) fn overhead(&self) -> usize {
        size_of_val(&*self.shards)
    }

    /// The statistics of all shards together.
    pub(crate) fn stats(&self) -> ShardStats {
        let mut sum = ShardStats::NONE;
        for shard in &self.shards {
            sum.add(&shard.lock().stats);
        }
        sum
    }

    /// Adds `change` to the statistics of this thread's shard, and allocates `len` bytes there.
    /// # Errors
    /// `Aborted` with `MemoryLimit` if the allocator has no memory. The statistics are then
    /// unchanged.
    #[inline]
    pub(crate) fn allocate_record(&self, len: usize, change: &ShardStats) -> Result<NonNull<u8>> {
        let layout = Layout::from_size_align(len, 1).map_err(|_| out_of_memory(len))?;
        let mut shard = self.shards[thread_number() & (self.shards.len() - 1)].lock();
        let place = match shard.chunk.take(layout) {
            Some(place) => place,
            None => self.refill(&mut shard.chunk, layout)?,
        };
        shard.stats.add(change);
        // Prefetch the memory of the next record now: it is in no cache of the processor. Otherwise
        // the writer's next lock operation waits until that memory has come.
        for line in 0..NEXT_RECORD_LINES {
            prefetch_line(shard.chunk.at.wrapping_add(line * 64));
        }
        Ok(place)
    }

    /// Adds `change` to the statistics of this thread's shard, without an allocation.
    pub(crate) fn count(&self, change: &ShardStats) {
        self.shards[thread_number() & (self.shards.len() - 1)].lock().stats.add(change);
    }

    /// Takes `change` back from the statistics. The memory stays allocated.
    pub(crate) fn uncount(&self, change: &ShardStats) {
        let mut shard = self.shards[thread_number() & (self.shards.len() - 1)].lock();
        shard.stats.entries -= change.entries;
        shard.stats.deletes -= change.deletes;
        shard.stats.data_bytes -= change.data_bytes;
    }

    /// Allocates memory for a node.
    /// # Errors
    /// `Aborted` with `MemoryLimit` if the allocator has no memory.
    pub(crate) fn allocate_node(&self, layout: Layout) -> Result<NonNull<u8>> {
        let mut chunk = self.nodes.lock();
        match chunk.take(layout) {
            Some(place) => Ok(place),
            None => self.refill(&mut chunk, layout),
        }
    }

    /// Takes memory of `layout` from a new chunk. A large request takes its memory from the blocks
    /// directly.
    #[cold]
    fn refill(&self, chunk: &mut Chunk, layout: Layout) -> Result<NonNull<u8>> {
        let mut blocks = self.blocks.lock();
        // A small memtable gets small chunks, so that it leaves little memory unused.
        let chunk_bytes =
            (self.allocated() / 32).next_power_of_two().clamp(FIRST_BLOCK_BYTES / 4, MAX_CHUNK_BYTES);
        if layout.size() + layout.align() > chunk_bytes / 8 {
            // The rest of the chunk can still serve small requests.
            return self.carve(&mut blocks, layout);
        }
        let fresh = Layout::from_size_align(chunk_bytes, 8).map_err(|_| out_of_memory(chunk_bytes))?;
        *chunk = Chunk { at: self.carve(&mut blocks, fresh)?.as_ptr(), left: chunk_bytes };
        chunk.take(layout).ok_or_else(|| out_of_memory(layout.size()))
    }

    /// Takes memory of `layout` from the newest block, or from a new one.
    fn carve(&self, blocks: &mut Blocks, layout: Layout) -> Result<NonNull<u8>> {
        let place = self.carve_uncounted(blocks, layout)?;
        self.carved.fetch_add(layout.size(), Ordering::Relaxed);
        Ok(place)
    }

    fn carve_uncounted(&self, blocks: &mut Blocks, layout: Layout) -> Result<NonNull<u8>> {
        if let Some(place) = blocks.current.take(layout) {
            return Ok(place);
        }
        let block_bytes = self.next_block_bytes();
        if layout.size() > block_bytes / 4 {
            return self.new_block(blocks, layout.size());
        }
        let at = self.new_block(blocks, block_bytes)?.as_ptr();
        blocks.current = Chunk { at, left: block_bytes };
        blocks.current.take(layout).ok_or_else(|| out_of_memory(layout.size()))
    }

    fn next_block_bytes(&self) -> usize {
        let allocated = self.allocated();
        let left = self.expected_bytes.saturating_sub(allocated).max(FIRST_BLOCK_BYTES);
        let huge = self.block_bytes.next_multiple_of(HUGE_PAGE_BYTES);
        if self.huge_pages && allocated >= HUGE_FROM_BYTES && left >= huge {
            return huge;
        }
        allocated.next_power_of_two().clamp(FIRST_BLOCK_BYTES, self.block_bytes).min(left)
    }

    fn new_block(&self, blocks: &mut Blocks, len: usize) -> Result<NonNull<u8>> {
        let mut is_refused = false;
        esker_base::probe!("arena:new_block", &mut is_refused);
        if is_refused {
            return Err(out_of_memory(len));
        }
        let is_huge = self.huge_pages && len >= HUGE_PAGE_BYTES && len.is_multiple_of(HUGE_PAGE_BYTES);
        let align = if is_huge { HUGE_PAGE_BYTES } else { BLOCK_ALIGN };
        let layout = Layout::from_size_align(len.max(1), align).map_err(|_| out_of_memory(len))?;
        // SAFETY: the size is not zero.
        let block = NonNull::new(unsafe { std::alloc::alloc(layout) }).ok_or_else(|| out_of_memory(len))?;
        if is_huge {
            let bytes = block.cast::<MaybeUninit<u8>>().as_ptr();
            // SAFETY: the allocator has just returned these `len` bytes, and nothing else refers to
            // them.
            prefer_huge_pages(unsafe { std::slice::from_raw_parts_mut(bytes, len) });
        }
        blocks.all.push((block, layout));
        let allocated = self.allocated.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        if let Some(budget) = &self.budget
            && allocated > FIRST_BLOCK_BYTES
        {
            budget.reserve(allocated - self.budgeted.swap(allocated, Ordering::Relaxed));
        }
        Ok(block)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for (block, layout) in self.blocks.get_mut().all.drain(..) {
            // SAFETY: the block came from `alloc` with this layout. Users of its memory borrow the
            // arena, so none is left.
            unsafe { std::alloc::dealloc(block.as_ptr(), layout) };
        }
    }
}

#[cold]
fn out_of_memory(len: usize) -> Error {
    Error::new(esker_base::ErrorKind::Aborted, format!("no memory for {len} bytes of a memtable"))
        .with_subcode(SubCode::MemoryLimit)
        .with_retryable(true)
}

/// Number of shards: a power of two, about one for each core.
#[cfg(not(loom))]
fn shard_count() -> usize {
    static COUNT: esker_base::sync::OnceLock<usize> = esker_base::sync::OnceLock::new();
    *COUNT.get_or_init(|| {
        std::thread::available_parallelism().map_or(1, usize::from).next_power_of_two().min(16)
    })
}

#[cfg(loom)]
fn shard_count() -> usize {
    1
}

#[cfg(test)]
mod tests;
