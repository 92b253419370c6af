//! Point reads of many keys at once.
//!
//! In: keys in ascending order. Out: as `TableReader::get` for each, but each filter, index block and data block is looked
//! up once for all keys of a wave that need it, and what a key will read is fetched into the processor's caches while the
//! keys before it are worked on. The steps go level by level through the table: all keys through the filter, then all
//! through the index, then all blocks are looked up, then all keys are searched.
//! Idea of the level-wise order: RocksDB `table/block_based/block_based_table_reader_sync_and_async.h` (`MultiGet`).
//!
//! Invariants
//!  1. An error belongs to the keys that needed what failed; the others go on.
//!  2. A block is held from its look-up to the end of its wave, once.

use crate::block_source::{BlockKind, BlockLoan, CachedBlock, Started};
use crate::counts;
use crate::filter::TableFilter;
use crate::index_walker::IndexWalker;
use crate::options::TableReadOptions;
use crate::reader::{DATA_BUFFER, KEY_BUFFER, TableReader, TableValue, seek_block};
use esker_base::sync::epoch::{self, Guard};
use esker_base::{Error, Result};
use esker_cache::Guarded;
use esker_format::block::{BlockCursor, EntryShape};
use esker_format::filter::FilterProbe;
use esker_format::handle::BlockHandle;
use esker_format::key::{self, LookupKey, ParsedInternalKey};
use smallvec::SmallVec;

/// Keys that go through the steps together: what they prefetch has to fit into the first-level cache.
const WAVE: usize = 32;

/// Gets what a batch finds. `i` is the number of a key.
pub trait BatchVisitor {
    /// An entry of key `i`, newest first. Whether more entries of that key are wanted.
    fn entry(&mut self, i: usize, entry: ParsedInternalKey<'_>, value: TableValue<'_>) -> bool;
    /// Key `i` cannot be read; what was visited of it so far stands.
    fn failed(&mut self, i: usize, error: Error);
}

/// How many keys ahead of the one that is searched have their entries fetched.
const AHEAD: usize = 4;

type Wave<T> = SmallVec<[T; WAVE]>;

/// No block, and no restart.
const NOWHERE: (u32, u32) = (u32::MAX, 0);

/// Where a key's entries begin.
struct Place {
    key: u32,
    /// Number of its block in the wave.
    block: u32,
    restart: u32,
    /// Whether entries of its user key can lie behind the block.
    goes_on: bool,
}

/// The blocks that a wave of keys needs.
#[derive(Default)]
struct Needed {
    places: Wave<Place>,
    handles: Wave<BlockHandle>,
}

/// What all steps of a batch share.
#[derive(Clone, Copy)]
struct Reading<'r> {
    options: &'r TableReadOptions,
    guard: &'r Guard,
    keys: &'r [LookupKey],
}

impl TableReader {
    /// Does for each key that `which` names in `keys` what [`TableReader::get`] does for one. The keys are named in
    /// ascending order, and differ in their user keys.
    pub fn multi_get(
        &self,
        options: &TableReadOptions,
        keys: &[LookupKey],
        which: &[u32],
        visitor: &mut dyn BatchVisitor,
    ) {
        let guard = epoch::pin();
        for wave in which.chunks(WAVE) {
            let passed = self.pass_filter(options, keys, wave);
            if passed.is_empty() {
                continue;
            }
            let needed = self.index.with(&self.source, BlockKind::Index, options, |top| {
                Ok(self.find_blocks(options, top, keys, &passed, visitor))
            });
            match needed {
                Ok(needed) => self.search(Reading { options, guard: &guard, keys }, needed, visitor),
                Err(e) => passed.iter().for_each(|&key| visitor.failed(key as usize, e.clone())),
            }
        }
    }

    /// Those keys of a wave that the filter lets pass.
    fn pass_filter(&self, options: &TableReadOptions, keys: &[LookupKey], wave: &[u32]) -> Wave<u32> {
        if !self.whole_keys {
            return wave.into();
        }
        let user_key = |key: u32| self.without_timestamp(keys[key as usize].user_key());
        let full = match &self.filter {
            TableFilter::Full(filter) => filter
                .with(&self.source, BlockKind::Filter, options, |block| {
                    let Some(filter) = block.filter() else { return Ok(wave.into()) };
                    let mut probes: Wave<FilterProbe<'_>> =
                        wave.iter().map(|&key| FilterProbe::new(user_key(key))).collect();
                    probes.iter_mut().for_each(|probe| filter.prefetch(probe));
                    let asked = wave.iter().zip(&mut probes);
                    Ok(asked.filter_map(|(&key, p)| filter.may_match_probe(p).then_some(key)).collect())
                })
                .unwrap_or_else(|_| wave.into()),
            _ => {
                let passes = |key: &u32| {
                    self.filter_passes(options, user_key(*key), keys[*key as usize].internal_key())
                };
                wave.iter().copied().filter(passes).collect()
            }
        };
        let passed: Wave<u32> = full;
        for i in 0..wave.len() {
            counts::filter_asked(self.source.statistics.as_ref(), i < passed.len());
        }
        passed
    }

    /// Goes through the index with all keys: to which block each leads.
    fn find_blocks(
        &self,
        options: &TableReadOptions,
        top: &CachedBlock,
        keys: &[LookupKey],
        passed: &[u32],
        visitor: &mut dyn BatchVisitor,
    ) -> Needed {
        let mut walker = IndexWalker::new(top, self.index_shape, self.two_level, KEY_BUFFER.take());
        let mut needed = Needed::default();
        let mut is_dense = false;
        for &key in passed {
            let target = keys[key as usize].internal_key();
            if let Err(e) = self.lead(&mut walker, options, target, &mut is_dense) {
                visitor.failed(key as usize, self.source.in_file(e));
                walker.reset();
                continue;
            }
            match self.place_of(&walker, key, target, &mut needed) {
                Ok(place) => needed.places.extend(place),
                Err(e) => visitor.failed(key as usize, self.source.in_file(e)),
            }
        }
        KEY_BUFFER.set(walker.into_buffer());
        needed
    }

    /// Leads the walker, which stands where the key before this one led it, to the first block that can hold `target`. If
    /// the last two blocks were neighbours (`is_dense`), the next one is looked at before the index is searched.
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

    /// The key's place in the block that the walker stands on; none if the table cannot have it.
    fn place_of(
        &self,
        walker: &IndexWalker<&CachedBlock>,
        key: u32,
        target: &[u8],
        needed: &mut Needed,
    ) -> Result<Option<Place>> {
        if !walker.valid() {
            return Ok(None);
        }
        if let Some(first) = walker.first_key()?
            && self.options.icmp.compare_user_keys(key::user_key(first), key::user_key(target)).is_gt()
        {
            return Ok(None);
        }
        let handle = walker.handle();
        if needed.handles.last() != Some(&handle) {
            needed.handles.push(handle);
        }
        let block = needed.handles.len() as u32 - 1;
        Ok(Some(Place { key, block, restart: 0, goes_on: self.may_go_on_behind(walker, target) }))
    }

    /// Gets the blocks, and visits the keys' entries in them.
    fn search(&self, reading: Reading<'_>, needed: Needed, visitor: &mut dyn BatchVisitor) {
        let Reading { options, guard, keys } = reading;
        let Needed { mut places, handles } = needed;
        // With a tier below the cache all lookups there begin before the first one is waited for.
        let started = if self.source.looks_below() { &handles[..] } else { &[] };
        let started: Vec<Started> =
            started.iter().map(|&handle| self.source.start(handle, BlockKind::Data, options)).collect();
        let mut started = started.into_iter();
        let blocks: Wave<Result<BlockLoan<'_>>> = handles
            .iter()
            .map(|&handle| {
                let block = match started.next() {
                    None => self.source.block_under(handle, BlockKind::Data, options, guard)?,
                    Some(started) => {
                        let block = self.source.finish(started, handle, BlockKind::Data, options)?;
                        Guarded::Held(block)
                    }
                };
                block.key_value().map_err(|e| self.source.at(e, handle))?.prefetch_restarts();
                Ok(block)
            })
            .collect();
        for block in blocks.iter().flatten() {
            block.key_value().into_iter().for_each(|block| block.prefetch_restart_keys());
        }
        let mut cursor = BlockCursor::with_buffer(EntryShape::KeyValue, DATA_BUFFER.take());
        // Of the key that was last prepared, and of the one that was last searched.
        let (mut prepared, mut searched) = (NOWHERE, u32::MAX);
        for at in 0..places.len() + AHEAD {
            if let Some(place) = places.get_mut(at) {
                place.restart = self.prepare(&mut cursor, keys, place, &blocks, prepared);
                prepared = (place.block, place.restart);
            }
            let Some(place) = at.checked_sub(AHEAD).and_then(|at| places.get(at)) else { continue };
            if std::mem::replace(&mut searched, place.block) != place.block {
                cursor.reset();
            }
            let found = match &blocks[place.block as usize] {
                Ok(block) => {
                    let handle = handles[place.block as usize];
                    self.search_block(reading, place, (block, handle), &mut cursor, visitor)
                }
                Err(e) => Err(e.clone()),
            };
            if let Err(e) = found {
                visitor.failed(place.key as usize, e);
            }
        }
        DATA_BUFFER.set(cursor.into_buffer());
    }

    /// Finds the restart from which a key is searched, and has the entries behind it fetched. `before` is the block and
    /// restart of the key before.
    #[inline]
    fn prepare(
        &self,
        cursor: &mut BlockCursor,
        keys: &[LookupKey],
        place: &Place,
        blocks: &[Result<BlockLoan<'_>>],
        before: (u32, u32),
    ) -> u32 {
        let Ok(block) = &blocks[place.block as usize] else { return 0 };
        let Ok(block) = block.key_value() else { return 0 };
        let target = keys[place.key as usize].internal_key();
        let low = if place.block == before.0 { before.1 } else { 0 };
        // What is wrong here is so, too, when the key is searched.
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
        Reading { options, guard, keys }: Reading<'_>,
        place: &Place,
        (shared, handle): (&BlockLoan<'_>, BlockHandle),
        cursor: &mut BlockCursor,
        visitor: &mut dyn BatchVisitor,
    ) -> Result<()> {
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
        if more && place.goes_on {
            self.get_behind(options, guard, target, &mut visit)?;
        }
        if self.whole_keys
            && is_there
            && let Some(statistics) = &self.source.statistics
        {
            counts::filter_was_right(statistics);
        }
        Ok(())
    }
}
