//! Accesses to the block cache, for a trace.
//!
//! In: blocks that were found or loaded; the operation that the thread is at. Out: a record for
//! each, to the sink of the table's database.
//!
//! Cost without a trace: one relaxed load of a static for each access. An operation names itself
//! once, for its thread: gets only while their database is traced, jobs always.
//!
//! Invariants
//!  1. `UNDER_WAY` counts the tracers that have a sink, and the simulations of caches.
//!  2. An access whose thread has named no operation is one of an iterator.

use crate::block_source::{BlockKind, BlockSource, CachedBlock};
use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::sync::process::atomic::AtomicUsize;
use esker_base::{FileNumber, Result};
use esker_format::block::BlockCursor;
use esker_format::handle::BlockHandle;
use esker_format::key::ParsedInternalKey;
use esker_format::trace::{BlockAccess, GetAccess, TableReaderCaller, TraceKind};
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

/// Databases whose accesses are traced, and simulations that see accesses.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// Begins to tell of accesses, until [`end_watching`].
pub(crate) fn begin_watching() {
    UNDER_WAY.fetch_add(1, Ordering::Relaxed);
}

/// Takes back one [`begin_watching`].
pub(crate) fn end_watching() {
    UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
}

/// Whether somebody may want to know of accesses.
#[inline]
pub(crate) fn is_watched() -> bool {
    UNDER_WAY.load(Ordering::Relaxed) > 0
}

/// Takes the accesses of one database. Called under a lock, from any thread.
pub trait BlockAccessSink: Send {
    /// Adds one access. The column family's id is 0: tables have its name only.
    fn add(&mut self, access: BlockAccess<'_>);
    /// Records that no access follows.
    /// # Errors
    /// The first error of the sink.
    fn finish(&mut self) -> Result<()>;
}

/// Hands the accesses of one database to a sink, while there is one.
#[derive(Default)]
pub struct BlockCacheTracer {
    sink: Mutex<Option<Box<dyn BlockAccessSink>>>,
    last_get: AtomicU64,
}

impl fmt::Debug for BlockCacheTracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockCacheTracer").finish_non_exhaustive()
    }
}

impl BlockCacheTracer {
    /// Whether there is a sink.
    pub fn is_on(&self) -> bool {
        self.sink.lock().is_some()
    }

    /// Begins with this sink. False, and nothing is changed, if there is one already.
    pub fn begin(&self, sink: Box<dyn BlockAccessSink>) -> bool {
        let mut place = self.sink.lock();
        if place.is_some() {
            return false;
        }
        *place = Some(sink);
        UNDER_WAY.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Ends, if there is a sink.
    /// # Errors
    /// The first error of the sink.
    pub fn end(&self) -> Result<()> {
        let Some(mut sink) = self.sink.lock().take() else { return Ok(()) };
        UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
        sink.finish()
    }

    /// The number of the next get, from 1 on.
    pub fn next_get(&self) -> u64 {
        self.last_get.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Drop for BlockCacheTracer {
    fn drop(&mut self) {
        self.end().unwrap_or_default();
    }
}

/// The place of a table, as accesses to its blocks name it.
#[derive(Clone, Debug)]
pub(crate) struct TracedTable {
    pub(crate) tracer: Arc<BlockCacheTracer>,
    pub(crate) family_name: Arc<str>,
    pub(crate) level: u32,
    pub(crate) number: FileNumber,
}

/// The operation that a thread is at.
#[derive(Clone, Debug)]
struct Caller {
    caller: TableReaderCaller,
    get: Option<CallingGet>,
}

/// The get that a thread is at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallingGet {
    /// Its number.
    pub id: u64,
    /// Whether it reads at a snapshot of the user.
    pub at_snapshot: bool,
    /// The internal key that it looks for.
    pub key: Vec<u8>,
}

thread_local! {
    static CALLER: RefCell<Option<Caller>> = const { RefCell::new(None) };
}

/// Names the operation that this thread is at, until the result is dropped.
#[must_use]
pub fn called_by(caller: TableReaderCaller, get: Option<CallingGet>) -> CallerScope {
    CallerScope { before: CALLER.replace(Some(Caller { caller, get })) }
}

/// See [`called_by`].
#[derive(Debug)]
pub struct CallerScope {
    before: Option<Caller>,
}

impl Drop for CallerScope {
    fn drop(&mut self) {
        CALLER.set(self.before.take());
    }
}

impl BlockSource {
    /// Gives an access to the trace and to simulations, if there are any. `is_hit`: the cache or a
    /// tier below had the block. `no_insert`: a block that was read does not go into the cache.
    #[inline]
    pub(crate) fn trace_access(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        block: &CachedBlock,
        is_hit: bool,
        no_insert: bool,
    ) {
        if is_watched() {
            self.add_access(handle, kind, block, (is_hit, no_insert));
        }
    }

    #[cold]
    fn add_access(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        block: &CachedBlock,
        (is_cache_hit, no_insert): (bool, bool),
    ) {
        match (is_cache_hit, no_insert) {
            (true, _) => self.tell_of_lookup(handle, kind, Some(block.memory_usage())),
            (false, false) => self.tell_of_addition(handle, kind, block.memory_usage()),
            (false, true) => {}
        }
        let Some(table) = &self.traced else { return };
        let block_type = match kind {
            BlockKind::Data => TraceKind::DataBlock,
            BlockKind::Index => TraceKind::IndexBlock,
            BlockKind::Filter => TraceKind::FilterBlock,
            BlockKind::Meta => return,
        };
        let mut sink = table.tracer.sink.lock();
        let Some(sink) = sink.as_mut() else { return };
        let named = CALLER.with_borrow(Clone::clone);
        let caller = named.as_ref().map_or(TableReaderCaller::UserIterator, |named| named.caller);
        let get = named.as_ref().and_then(|named| named.get.as_ref());
        let key = self.key(handle).to_bytes();
        sink.add(BlockAccess {
            timestamp: self.clock.now_micros(),
            block_type: block_type as u8,
            block_key: &key,
            block_size: block.memory_usage() as u64,
            cf_id: 0,
            cf_name: table.family_name.as_bytes(),
            level: table.level,
            sst_fd_number: table.number.0,
            caller: caller as u8,
            is_cache_hit,
            no_insert,
            get: get.map(|get| get_access(get, kind, block)),
        });
    }
}

/// The facts about a get's access. Those of a data block cost a visit of each of its entries.
fn get_access<'g>(get: &'g CallingGet, kind: BlockKind, block: &CachedBlock) -> GetAccess<'g> {
    let mut access = GetAccess {
        get_id: get.id,
        from_user_specified_snapshot: get.at_snapshot,
        referenced_key: &get.key,
        ..GetAccess::default()
    };
    let (BlockKind::Data, Ok(entries)) = (kind, block.key_value()) else { return access };
    let wanted = ParsedInternalKey::parse(&get.key).map(|key| key.user_key);
    let mut cursor = BlockCursor::new();
    let mut moved = cursor.seek_to_first(entries);
    while moved.is_ok() && cursor.valid() {
        access.num_keys_in_block += 1;
        let key = ParsedInternalKey::parse(cursor.key()).map(|key| key.user_key);
        if !access.referenced_key_exists && matches!((&wanted, &key), (Ok(wanted), Ok(key)) if wanted == key)
        {
            access.referenced_key_exists = true;
            access.referenced_data_size = (cursor.key().len() + cursor.value(entries).len()) as u64;
        }
        moved = cursor.next(entries);
    }
    access
}
