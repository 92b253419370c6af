//! Puts blocks into the block cache as they are written: `prepopulate_block_cache`.
//!
//! In: the contents of a block that was just written. Out: the block in the cache, as a reader
//! would have put it there.
//! Source of the rules: RocksDB `BlockBasedTableBuilder::InsertBlockInCacheHelper`.
//!
//! Invariant: a block's key is the key that a reader of the finished table uses; a table without
//! unique id warms nothing.

use crate::block_source::{BlockCache, BlockKind, CachedBlock, protect};
use crate::cache_options::PrepopulateBlockCache;
use crate::counts;
use crate::options::TableBuilderOptions;
use crate::trace;
use esker_base::stats::Statistics;
use esker_cache::{BaseCacheKey, CachePriority};
use esker_format::block::{Block, EntryShape};
use esker_format::filter::{CustomFilterPolicyRef, FilterReader};
use esker_format::handle::BlockHandle;
use esker_format::index_entry::{IndexShape, prepare_for_search};
use esker_format::key::InternalKeyComparator;
use esker_format::unique_id::unique_id;
use std::sync::Arc;

/// See the head of the file.
#[derive(Debug)]
pub(crate) struct Warmer {
    cache: Arc<BlockCache>,
    file_key: BaseCacheKey,
    data_priority: CachePriority,
    /// `None` if readers do not get index and filter through the cache.
    metadata_priority: Option<CachePriority>,
    /// Index and filter blocks that were written.
    metadata: Vec<(BlockHandle, BlockKind, Vec<u8>)>,
    statistics: Option<Arc<Statistics>>,
    protection_bytes: usize,
    filter_policy: Option<CustomFilterPolicyRef>,
}

impl Warmer {
    /// `None` if the options warm nothing.
    pub(crate) fn new(options: &TableBuilderOptions) -> Option<Warmer> {
        let table = &options.table_options;
        let data_priority = match (table.prepopulate_block_cache, options.is_flush) {
            (PrepopulateBlockCache::Disable, _) | (PrepopulateBlockCache::FlushOnly, false) => return None,
            (_, true) => CachePriority::Low,
            (PrepopulateBlockCache::FlushAndCompaction, false) => CachePriority::Bottom,
        };
        let cache = table.block_cache.clone().filter(|_| !table.no_block_cache)?;
        let [session, file] = unique_id(&options.db_id, &options.db_session_id, options.orig_file_number.0)?;
        let high = table.cache_index_and_filter_blocks_with_high_priority;
        let of_metadata = if high { CachePriority::High } else { CachePriority::Low };
        Some(Warmer {
            cache,
            file_key: BaseCacheKey::new((session, file)),
            data_priority,
            metadata_priority: table.cache_index_and_filter_blocks.then_some(of_metadata),
            metadata: Vec::new(),
            statistics: options.statistics.clone(),
            protection_bytes: options.block_protection_bytes_per_key,
            filter_policy: table.filter_policy.as_ref().and_then(|policy| policy.as_custom()).cloned(),
        })
    }

    /// Adds a data block. Leaves out a block that cannot be parsed or does not fit: readers will
    /// load it.
    pub(crate) fn data(&self, handle: BlockHandle, contents: Vec<u8>) {
        if let Ok(block) = Block::parse_prefixed(contents) {
            self.put_entries(handle, (block, EntryShape::KeyValue), self.data_priority, BlockKind::Data);
        }
    }

    /// Records a block of index or filter. `finish` adds it, since the shape of the whole index
    /// decides how its blocks are prepared.
    pub(crate) fn later(&mut self, handle: BlockHandle, kind: BlockKind, contents: Vec<u8>) {
        if self.metadata_priority.is_some() {
            self.metadata.push((handle, kind, contents));
        }
    }

    /// Adds the blocks of index and filter, which are complete now.
    pub(crate) fn finish(&mut self, shape: IndexShape, icmp: &InternalKeyComparator) {
        let Some(priority) = self.metadata_priority else { return };
        for (handle, kind, contents) in std::mem::take(&mut self.metadata) {
            if kind == BlockKind::Filter {
                let filter = match &self.filter_policy {
                    None => FilterReader::parse(contents.into()),
                    Some(policy) => FilterReader::of_policy(contents.into(), policy),
                };
                self.put(handle, CachedBlock::Filter(filter), priority, kind);
            } else if let Ok(mut block) = Block::parse_prefixed(contents) {
                prepare_for_search(&mut block, shape, icmp);
                self.put_entries(handle, (block, shape.entry_shape()), priority, kind);
            }
        }
    }

    fn put_entries(
        &self,
        handle: BlockHandle,
        (block, shape): (Block, EntryShape),
        priority: CachePriority,
        kind: BlockKind,
    ) {
        let block = CachedBlock::KeyValue(block);
        let block = match self.protection_bytes {
            0 => Ok(block),
            bytes => protect(block, handle, shape, bytes),
        };
        if let Ok(block) = block {
            self.put(handle, block, priority, kind);
        }
    }

    fn put(&self, handle: BlockHandle, block: CachedBlock, priority: CachePriority, kind: BlockKind) {
        let charge = block.memory_usage();
        let key = self.file_key.block(handle.offset);
        if trace::is_watched() {
            self.cache.each_watch(|watch| watch.added(&key, charge));
        }
        let inserted = self.cache.insert(key, block, charge, priority, kind.role());
        let outcome = inserted.ok().map(|inserted| inserted.outcome);
        counts::cache_add(self.statistics.as_ref(), kind, charge, outcome);
    }
}
