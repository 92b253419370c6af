//! Point reads of many keys at once.
//!
//! In: keys in ascending order. Out: the result of `TableReader::get` for each. Each filter, index
//! block and data block is looked up once for all keys of a group of [`BATCH_KEYS`]. A key's lines
//! are prefetched while earlier keys are processed. The steps go level by level through the table:
//! all keys through the filter, then all through the index, then all block lookups, then all
//! searches. Idea of the level-wise order: RocksDB
//! `table/block_based/block_based_table_reader_sync_and_async.h` (`MultiGet`).
//!
//! A multi_get visits its tables twice. The first visit, under a guard
//! ([`TableReader::multi_get`]), waits for nothing: keys whose blocks are not in the cache are
//! suspended. Suspended keys are then planned ([`TableReader::plan`]) table by table. The missing
//! blocks of all plans are read together ([`read_plans`]), and each plan is searched
//! ([`LookupPlan::search`]).
//!
//! Invariants
//!  1. An error belongs to the keys that needed the failed bytes; the others continue.
//!  2. A block is held from its lookup to the end of its group or plan, once.
//!  3. No guard is held while files are read.

use crate::block_source::{BlockKind, BlockLoan, CachedBlock, Gathered, Wanted, gather};
use crate::counts;
use crate::filter::{TableFilter, or_may_match};
use crate::index_walker::IndexWalker;
use crate::options::TableReadOptions;
use crate::reader::{Access, DATA_BUFFER, KEY_BUFFER, Missing, TableReader, TableValue, seek_block};
use esker_base::sync::epoch::Guard;
use esker_base::{Error, Result};
use esker_cache::Guarded;
use esker_format::block::{BlockCursor, EntryShape};
use esker_format::filter::FilterProbe;
use esker_format::handle::BlockHandle;
use esker_format::key::{self, LookupKey, ParsedInternalKey};
use esker_format::range_del::FragmentedRangeTombstones;
use smallvec::SmallVec;
use std::sync::Arc;

/// Keys that go through the steps together: their prefetched lines must fit into the first-level
/// cache.
const BATCH_KEYS: usize = 32;

/// Receives the results of a batch. `i` is the index of a key.
pub trait BatchVisitor {
    /// An entry of key `i`, newest first. True to see more entries of that key.
    fn entry(&mut self, i: usize, entry: ParsedInternalKey<'_>, value: TableValue<'_>) -> bool;
    /// Key `i` cannot be read; its entries visited so far remain valid.
    fn failed(&mut self, i: usize, error: Error);
    /// Key `i` would have to wait for a block. Its entries visited so far remain valid; plan the
    /// rest.
    fn missing(&mut self, i: usize, missing: Missing);
}

/// The entries of a key are prefetched while the search is this many keys behind it.
const AHEAD: usize = 4;

type KeyBatch<T> = SmallVec<[T; BATCH_KEYS]>;

/// No block and no restart: before the first key.
const NOWHERE: (u32, u32) = (u32::MAX, 0);

/// The number of keys that one scan through the first key's block should find; 0 if each key should
/// be searched by itself. A scan pays off if the block has at least as many keys as restart
/// intervals from the first key on.
fn keys_to_walk_to(places: &[KeyPosition], blocks: &[BatchBlock<'_>]) -> usize {
    let Some((first, BatchBlock::Block(block))) =
        places.first().and_then(|p| Some((p, blocks.get(p.block as usize)?)))
    else {
        return 0;
    };
    let Ok(block) = block.key_value() else { return 0 };
    let count = places.iter().take_while(|place| place.block == first.block).count();
    if count < 2 || count < (block.restart_count() - first.restart.min(block.restart_count())) as usize {
        return 0;
    }
    block.prefetch_from(first.restart);
    count
}

/// The place at which a key's entries begin.
struct KeyPosition {
    key: u32,
    /// Number of its block in the batch.
    block: u32,
    restart: u32,
    /// Whether entries of the key can lie behind the block.
    may_continue_behind: bool,
}

/// The blocks that a batch of keys needs.
#[derive(Default)]
struct NeededBlocks {
    places: KeyBatch<KeyPosition>,
    handles: KeyBatch<BlockHandle>,
}

/// A block of a batch.
enum BatchBlock<'g> {
    Block(BlockLoan<'g>),
    /// The block is not at hand without waiting.
    Missing,
    Failed(Error),
}

/// Keys of one table that wait for their blocks to be read: see [`read_plans`].
pub struct LookupPlan {
    reader: Arc<TableReader>,
    needed: NeededBlocks,
    blocks: Vec<Gathered>,
    /// Keys whose lookup stopped between two of their entries.
    alone: Vec<(u32, Missing)>,
}

impl LookupPlan {
    /// The range tombstones of the plan's table.
    pub fn range_dels(&self) -> Option<&Arc<FragmentedRangeTombstones>> {
        self.reader.range_dels()
    }
}

impl std::fmt::Debug for LookupPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} keys in {} blocks", self.needed.places.len(), self.needed.handles.len())
    }
}

impl TableReader {
    /// [`TableReader::get_under`] for each of `keys` whose index is in `which`. `which` is in
    /// ascending order of keys, and no two keys have the same user key.
    pub fn multi_get(
        &self,
        options: &TableReadOptions,
        guard: &Guard,
        keys: &[LookupKey],
        which: &[u32],
        visitor: &mut dyn BatchVisitor,
    ) {
        let options = options.without_waiting();
        let access = Access { options: &options, guard: Some(guard) };
        for batch in which.chunks(BATCH_KEYS) {
            let needed = self.pass_filter(access, keys, batch).and_then(|passed| match passed.is_empty() {
                true => Ok(NeededBlocks::default()),
                false => self.find_blocks(access, keys, &passed, visitor),
            });
            match needed {
                Ok(needed) if needed.places.is_empty() => {}
                Ok(needed) => {
                    let blocks: KeyBatch<BatchBlock<'_>> =
                        needed.handles.iter().map(|&handle| self.lent_block(handle, guard)).collect();
                    self.search(access, keys, needed, &blocks, visitor);
                }
                Err(e) => match Missing::from_error(e) {
                    Ok(missing) => {
                        missing
                            .iter()
                            .for_each(|&m| batch.iter().for_each(|&i| visitor.missing(i as usize, m)));
                    }
                    Err(e) => batch.iter().for_each(|&i| visitor.failed(i as usize, e.clone())),
                },
            }
        }
    }

    /// Plans the blocks of each of `keys` whose index is in `which`, in ascending order. `which`
    /// also gives the block in this table that the key missed, if there is one. Keys that cannot be
    /// planned go to `failed`. May read filters and indexes: call it without a guard.
    pub fn plan(
        self: &Arc<Self>,
        options: &TableReadOptions,
        keys: &[LookupKey],
        which: &[(u32, Option<Missing>)],
        failed: &mut Vec<(usize, Error)>,
    ) -> LookupPlan {
        let access = Access { options, guard: None };
        let visitor: &mut dyn BatchVisitor = &mut FailureCollector { failed };
        let fresh: KeyBatch<u32> = (which.iter())
            .filter(|(_, missing)| missing.and_then(|m| m.block).is_none())
            .map(|(key, _)| *key)
            .collect();
        let mut needed = NeededBlocks::default();
        for batch in fresh.chunks(BATCH_KEYS) {
            let found = self.pass_filter(access, keys, batch).and_then(|passed| match passed.is_empty() {
                true => Ok(NeededBlocks::default()),
                false => self.find_blocks(access, keys, &passed, visitor),
            });
            match found {
                Ok(found) => needed.append(found),
                Err(e) => batch.iter().for_each(|&key| visitor.failed(key as usize, e.clone())),
            }
        }
        let mut alone = Vec::new();
        for &(key, missing) in which {
            let Some((missing, place)) = missing.and_then(|m| Some((m, m.block?))) else { continue };
            if place.is_first {
                needed.places.push(KeyPosition {
                    key,
                    block: needed.handles.len() as u32,
                    restart: 0,
                    may_continue_behind: place.may_continue_behind,
                });
                needed.handles.push(place.handle);
            } else {
                alone.push((key, missing));
            }
        }
        if fresh.len() < which.len() {
            needed.put_in_order();
        }
        LookupPlan { reader: Arc::clone(self), needed, blocks: Vec::new(), alone }
    }

    fn lent_block<'g>(&self, handle: BlockHandle, guard: &'g Guard) -> BatchBlock<'g> {
        match self.source.lent(handle, BlockKind::Data, guard) {
            None => BatchBlock::Missing,
            Some(block) => self.ready(block, handle),
        }
    }

    /// The block; prefetches the parts that are read first.
    fn ready<'g>(&self, block: BlockLoan<'g>, handle: BlockHandle) -> BatchBlock<'g> {
        match block.key_value() {
            Ok(entries) => entries.prefetch_restarts(),
            Err(e) => return BatchBlock::Failed(self.source.at(e, handle)),
        }
        BatchBlock::Block(block)
    }

    /// The keys of a batch that the filter does not rule out.
    /// # Errors
    /// `Incomplete` if the filter is not at hand without waiting.
    fn pass_filter(&self, access: Access<'_>, keys: &[LookupKey], batch: &[u32]) -> Result<KeyBatch<u32>> {
        let user_key = |key: u32| self.without_timestamp(keys[key as usize].user_key());
        let mut passed: KeyBatch<u32> = batch.into();
        match &self.filter {
            TableFilter::None => return Ok(passed),
            TableFilter::Full(filter) if self.whole_keys => {
                let asked =
                    filter.with(&self.source, BlockKind::Filter, (access.options, access.guard), |block| {
                        let Some(filter) = block.filter() else { return Ok(true) };
                        if filter.is_custom() {
                            let keys: KeyBatch<&[u8]> = batch.iter().map(|&key| user_key(key)).collect();
                            let mut answers = filter.may_match_many(&keys).unwrap_or_default().into_iter();
                            passed.retain(|_| answers.next().unwrap_or(true));
                            return Ok(true);
                        }
                        let mut probes: KeyBatch<FilterProbe<'_>> =
                            batch.iter().map(|&key| FilterProbe::new(user_key(key))).collect();
                        probes.iter_mut().for_each(|probe| filter.prefetch(probe));
                        let mut probes = probes.iter_mut();
                        passed.retain(|_| probes.next().is_none_or(|probe| filter.may_match_probe(probe)));
                        Ok(true)
                    });
                or_may_match(asked, access.options)?;
            }
            _ => {
                let (mut answers, mut waits) = (KeyBatch::<bool>::new(), Ok(()));
                passed.retain(|key| {
                    let target = keys[*key as usize].internal_key();
                    let Some(asked_for) = self.in_filter(key::user_key(target)) else { return true };
                    self.filter_passes(access, asked_for, target)
                        .inspect(|&passes| answers.push(passes))
                        .unwrap_or_else(|e| {
                            waits = Err(e);
                            true
                        })
                });
                waits?;
                answers.into_iter().for_each(|passes| self.count_asked(passes));
                return Ok(passed);
            }
        }
        for i in 0..batch.len() {
            counts::filter_asked(self.source.statistics.as_ref(), self.source.level, i < passed.len());
        }
        Ok(passed)
    }

    /// Finds each key's block in the index.
    /// # Errors
    /// The errors of reading the index; `Incomplete` if it is not at hand without waiting.
    fn find_blocks(
        &self,
        access: Access<'_>,
        keys: &[LookupKey],
        passed: &[u32],
        visitor: &mut dyn BatchVisitor,
    ) -> Result<NeededBlocks> {
        self.index.with(&self.source, BlockKind::Index, (access.options, access.guard), |top| {
            let mut walker = IndexWalker::new(top, self.index_shape, self.two_level, KEY_BUFFER.take());
            let mut needed = NeededBlocks::default();
            let mut is_dense = false;
            for &key in passed {
                let target = keys[key as usize].internal_key();
                let place = self
                    .lead(&mut walker, access.options, target, &mut is_dense)
                    .and_then(|()| self.place_of(&walker, key, target, &mut needed));
                match place {
                    Ok(place) => needed.places.extend(place),
                    Err(e) => {
                        match if access.guard.is_some() { Missing::from_error(e) } else { Err(e) } {
                            Ok(missing) => missing.iter().for_each(|&m| visitor.missing(key as usize, m)),
                            Err(e) => visitor.failed(key as usize, self.source.in_file(e)),
                        }
                        walker.reset();
                    }
                }
            }
            KEY_BUFFER.set(walker.into_buffer());
            Ok(needed)
        })
    }

    /// Moves the walker from the previous key's block to the first block that can hold `target`. If
    /// the last two blocks were neighbours (`is_dense`), tries the next one before searching the
    /// index.
    #[inline]
    fn lead(
        &self,
        walker: &mut IndexWalker<&CachedBlock>,
        options: &TableReadOptions,
        target: &[u8],
        is_dense: &mut bool,
    ) -> Result<()> {
        let icmp = &self.options.icmp;
        let mut behind = None;
        if walker.valid() {
            if walker.reaches(target, icmp) {
                return Ok(());
            }
            if *is_dense {
                walker.next(&self.source, options)?;
                if !walker.valid() || walker.reaches(target, icmp) {
                    return Ok(());
                }
            }
            behind = walker.handle().end();
        }
        walker.seek(&self.source, options, target, icmp)?;
        *is_dense = walker.valid() && behind == Some(walker.handle().offset);
        Ok(())
    }

    /// The key's place in the walker's block; `None` if the table cannot have the key.
    fn place_of(
        &self,
        walker: &IndexWalker<&CachedBlock>,
        key: u32,
        target: &[u8],
        needed: &mut NeededBlocks,
    ) -> Result<Option<KeyPosition>> {
        if !walker.valid() {
            return Ok(None);
        }
        if self.index_shape.with_first_key
            && let Some(first) = walker.first_key()?
            && self.options.icmp.compare_user_keys(key::user_key(first), key::user_key(target)).is_gt()
        {
            return Ok(None);
        }
        let handle = walker.handle();
        if needed.handles.last() != Some(&handle) {
            needed.handles.push(handle);
        }
        let block = needed.handles.len() as u32 - 1;
        Ok(Some(KeyPosition {
            key,
            block,
            restart: 0,
            may_continue_behind: self.may_continue_behind(walker, target),
        }))
    }

    /// Visits the keys' entries in their blocks.
    fn search(
        &self,
        access: Access<'_>,
        keys: &[LookupKey],
        needed: NeededBlocks,
        blocks: &[BatchBlock<'_>],
        visitor: &mut dyn BatchVisitor,
    ) {
        let NeededBlocks { mut places, handles } = needed;
        for block in blocks {
            let BatchBlock::Block(block) = block else { continue };
            block.key_value().into_iter().for_each(|block| block.prefetch_restart_keys());
        }
        let mut cursor = BlockCursor::with_buffer(EntryShape::KeyValue, DATA_BUFFER.take());
        // Block and restart of the key prepared last, and the block of the key searched last.
        let (mut prepared, mut searched) = (NOWHERE, u32::MAX);
        // A scan from the key before reaches every key below this index.
        let mut walked = 0;
        for at in 0..places.len() + AHEAD {
            if at < walked {
                if let Some(place) = places.get_mut(at) {
                    place.restart = prepared.1;
                }
            } else if let Some(place) = places.get_mut(at) {
                place.restart = self.prepare(&mut cursor, keys, place, blocks, prepared);
                if prepared.0 != place.block {
                    walked = at + keys_to_walk_to(&places[at..], blocks);
                }
                prepared = (places[at].block, places[at].restart);
            }
            let Some(place) = at.checked_sub(AHEAD).and_then(|at| places.get(at)) else { continue };
            if std::mem::replace(&mut searched, place.block) != place.block {
                cursor.reset();
            }
            let handle = handles[place.block as usize];
            let found = match &blocks[place.block as usize] {
                BatchBlock::Block(block) => {
                    self.search_block(access, keys, place, (block, handle), &mut cursor, visitor)
                }
                BatchBlock::Missing => Ok(Some(Missing::data(handle, true, place.may_continue_behind))),
                BatchBlock::Failed(e) => Err(e.clone()),
            };
            match found {
                Ok(None) => {}
                Ok(Some(missing)) => visitor.missing(place.key as usize, missing),
                Err(e) => visitor.failed(place.key as usize, e),
            }
        }
        DATA_BUFFER.set(cursor.into_buffer());
    }

    /// Visits the keys' entries in their blocks, which the caller holds.
    fn search_gathered(
        &self,
        options: &TableReadOptions,
        keys: &[LookupKey],
        needed: NeededBlocks,
        blocks: Vec<Gathered>,
        visitor: &mut dyn BatchVisitor,
    ) {
        let to_block = |(block, &handle): (Gathered, &BlockHandle)| match block {
            Ok(block) => self.ready(Guarded::Held(block), handle),
            Err(e) => BatchBlock::Failed(e),
        };
        let blocks: KeyBatch<BatchBlock<'_>> =
            blocks.into_iter().zip(&needed.handles).map(to_block).collect();
        self.search(Access { options, guard: None }, keys, needed, &blocks, visitor);
    }

    /// Finds the restart from which a key is searched, and prefetches the entries behind it.
    /// `before`: block and restart of the key before.
    #[inline]
    fn prepare(
        &self,
        cursor: &mut BlockCursor,
        keys: &[LookupKey],
        place: &KeyPosition,
        blocks: &[BatchBlock<'_>],
        before: (u32, u32),
    ) -> u32 {
        let BatchBlock::Block(block) = &blocks[place.block as usize] else { return 0 };
        let Ok(block) = block.key_value() else { return 0 };
        let target = keys[place.key as usize].internal_key();
        let low = if place.block == before.0 { before.1 } else { 0 };
        // An error here recurs when the key is searched.
        let Ok(restart) = cursor.restart_behind(block, low, target, &self.options.icmp) else { return low };
        if before != (place.block, restart) {
            block.prefetch_interval(restart);
        }
        restart
    }

    /// Visits the entries of one key.
    #[inline]
    fn search_block(
        &self,
        access: Access<'_>,
        keys: &[LookupKey],
        place: &KeyPosition,
        (shared, handle): (&BlockLoan<'_>, BlockHandle),
        cursor: &mut BlockCursor,
        visitor: &mut dyn BatchVisitor,
    ) -> Result<Option<Missing>> {
        let i = place.key as usize;
        let target = keys[i].internal_key();
        let mut is_there = false;
        let mut visit = |entry: ParsedInternalKey<'_>, value: TableValue<'_>| {
            is_there = true;
            visitor.entry(i, entry, value)
        };
        let icmp = &self.options.icmp;
        let more = shared
            .key_value()
            .and_then(|block| {
                match self.global_seqno {
                    None => cursor.seek_on_from(block, place.restart, target, icmp)?,
                    some => seek_block(cursor, block, target, icmp, some)?,
                }
                self.visit_from(cursor, block, shared, key::user_key(target), &mut visit)
            })
            .map_err(|e| self.source.at(e, handle))?;
        let mut missing = None;
        if more && place.may_continue_behind {
            missing = self.get_behind(access, handle, target, &mut visit)?;
        }
        if is_there && (self.whole_keys || self.has_prefix_filter()) {
            let statistics = self.source.statistics.as_ref();
            counts::filter_was_right(statistics, self.source.level, self.whole_keys);
        }
        Ok(missing)
    }
}

impl NeededBlocks {
    /// Adds the needs of later keys.
    fn append(&mut self, behind: NeededBlocks) {
        let first = self.handles.len() as u32;
        self.handles.extend(behind.handles);
        self.places.extend(behind.places.into_iter().map(|p| KeyPosition { block: first + p.block, ..p }));
    }

    /// Sorts the keys, and names each block once.
    fn put_in_order(&mut self) {
        self.places.sort_unstable_by_key(|place| place.key);
        let handles = std::mem::take(&mut self.handles);
        for place in &mut self.places {
            let handle = handles[place.block as usize];
            if self.handles.last() != Some(&handle) {
                self.handles.push(handle);
            }
            place.block = self.handles.len() as u32 - 1;
        }
    }
}

/// Records the errors that occur before any entry is visited.
struct FailureCollector<'f> {
    failed: &'f mut Vec<(usize, Error)>,
}

impl BatchVisitor for FailureCollector<'_> {
    fn entry(&mut self, _i: usize, _entry: ParsedInternalKey<'_>, _value: TableValue<'_>) -> bool {
        false
    }

    fn failed(&mut self, i: usize, error: Error) {
        self.failed.push((i, error));
    }

    fn missing(&mut self, i: usize, _missing: Missing) {
        self.failed(i, Error::incomplete("a read that may wait for blocks reported one as missing"));
    }
}

/// Reads the blocks of all plans together. Call it without a guard.
pub fn read_plans(plans: &mut [LookupPlan], options: &TableReadOptions) {
    let mut wanted = Vec::with_capacity(plans.iter().map(|plan| plan.needed.handles.len()).sum());
    for plan in &*plans {
        let source = &plan.reader.source;
        wanted.extend(plan.needed.handles.iter().map(|&handle| Wanted { source, handle }));
    }
    let mut blocks = gather(&wanted, options).into_iter();
    for plan in plans {
        plan.blocks = blocks.by_ref().take(plan.needed.handles.len()).collect();
    }
}

impl LookupPlan {
    /// Visits the entries of the plan's keys. REQUIRES: [`read_plans`] has read its blocks.
    pub fn search(self, options: &TableReadOptions, keys: &[LookupKey], visitor: &mut dyn BatchVisitor) {
        let LookupPlan { reader, needed, blocks, alone } = self;
        reader.search_gathered(options, keys, needed, blocks, visitor);
        for (key, missing) in alone {
            let i = key as usize;
            let mut visit =
                |entry: ParsedInternalKey<'_>, value: TableValue<'_>| visitor.entry(i, entry, value);
            if let Err(e) = reader.resume_get(options, &keys[i], missing, &mut visit) {
                visitor.failed(i, e);
            }
        }
    }
}
