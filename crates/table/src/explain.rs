//! A point read of one table, reported step by step.
//!
//! In: a key. Out: the entries that [`TableReader::get`] shows, and each filter, index and block on
//! the way with its source, bytes and time. This read is a twin of `get`, so `get` itself does no
//! reporting. Tests check that both show the same entries and read the same blocks.

use crate::block_source::{BlockKind, BlockRef, CachedBlock};
use crate::filter::{Resident, TableFilter};
use crate::index_walker::IndexWalker;
use crate::options::TableReadOptions;
use crate::reader::{Access, TableReader, Visit};
use esker_base::Result;
use esker_base::perf_context::PerfContext;
use esker_cache::Guarded;
use esker_env::Clock;
use esker_format::handle::BlockHandle;
use esker_format::key::{self, LookupKey};

/// The place of an object that a read touched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FoundAt {
    /// Held by the open table, so that the read looks in no cache.
    Reader,
    /// In the block cache.
    BlockCache,
    /// In the tier below the block cache.
    SecondaryCache,
    /// In the file.
    File,
}

/// The kind of an object that a read touched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TouchedKind {
    /// The filter or a partition of it.
    Filter {
        /// Whether the filter let the key pass.
        passes: bool,
    },
    /// The index or partitions of it.
    Index,
    /// A data block.
    Data,
}

/// An object that a read of a table touched.
#[derive(Clone, Debug)]
pub struct Touched {
    /// The object's kind.
    pub kind: TouchedKind,
    /// The object's place.
    pub found_at: FoundAt,
    /// Offset in the file; `None` for an index or filter that the table holds, and for index
    /// partitions.
    pub offset: Option<u64>,
    /// Bytes that the object has in memory. A filter counts only if the table holds it outside the
    /// block cache. Index partitions count 0.
    pub bytes: u64,
    /// Bytes read from the file for the object.
    pub bytes_read: u64,
    /// Nanoseconds spent on the object.
    pub nanos: u64,
}

/// Records touched objects.
struct Notes<'n> {
    clock: &'n dyn Clock,
    touched: &'n mut Vec<Touched>,
}

impl Notes<'_> {
    /// Calls `read`, which reads one part of the table, and records that part.
    fn note<R>(
        &mut self,
        kind: TouchedKind,
        resident: Option<&Resident>,
        offset: Option<u64>,
        read: impl FnOnce() -> Result<(R, u64)>,
    ) -> Result<R> {
        let (before, start) = (PerfContext::current(), self.clock.monotonic_nanos());
        let result = read();
        let nanos = self.clock.monotonic_nanos().saturating_sub(start);
        let after = PerfContext::current();
        let bytes_read = after.block_read_byte - before.block_read_byte;
        let found_at = if bytes_read > 0 {
            FoundAt::File
        } else if after.secondary_cache_hit_count > before.secondary_cache_hit_count {
            FoundAt::SecondaryCache
        } else if let Some(Resident::Pinned(_)) = resident {
            FoundAt::Reader
        } else {
            FoundAt::BlockCache
        };
        let (result, bytes) = result?;
        self.touched.push(Touched { kind, found_at, offset, bytes, bytes_read, nanos });
        Ok(result)
    }
}

impl TableReader {
    /// Reads like [`TableReader::get`], and reports each object that it touches to `touched`.
    /// # Errors
    /// Those of [`TableReader::get`]; objects touched before were reported.
    pub fn explain(
        &self,
        options: &TableReadOptions,
        key: &LookupKey,
        clock: &dyn Clock,
        touched: &mut Vec<Touched>,
        visit: Visit<'_>,
    ) -> Result<()> {
        let mut notes = Notes { clock, touched };
        let target = key.internal_key();
        if !self.explain_filter(options, key, &mut notes)? {
            return Ok(());
        }
        let top = self.explain_index(options, &mut notes)?;
        let mut walker = IndexWalker::new(top, self.index_shape, self.two_level, Vec::new());
        let icmp = &self.options.icmp;
        let in_file = |e| self.source.in_file(e);
        let index = TouchedKind::Index;
        if self.two_level {
            notes.note(index, None, None, || {
                walker.seek(&self.source, options, target, icmp).map_err(in_file).map(|()| ((), 0))
            })?;
        } else {
            walker.seek(&self.source, options, target, icmp).map_err(in_file)?;
        }
        let mut is_first = true;
        while walker.valid() {
            if let Some(first) = walker.first_key()?
                && icmp.compare_user_keys(key::user_key(first), key::user_key(target)).is_gt()
            {
                return Ok(());
            }
            let handle = walker.handle();
            let block = self.explain_block(options, handle, TouchedKind::Data, &mut notes)?;
            let block = Guarded::Held(block);
            let more = self
                .visit_block(&block, is_first.then_some(target), key::user_key(target), visit)
                .map_err(|e| self.source.at(e, handle))?;
            let order = icmp.compare_user_keys(walker.separator_user_key(), key::user_key(target));
            if !more || order.is_gt() || (order.is_eq() && self.index_shape.key_is_user_key) {
                return Ok(());
            }
            is_first = false;
            walker.next(&self.source, options).map_err(in_file)?;
        }
        Ok(())
    }

    fn explain_filter(
        &self,
        options: &TableReadOptions,
        key: &LookupKey,
        notes: &mut Notes<'_>,
    ) -> Result<bool> {
        let resident = match &self.filter {
            TableFilter::None => return Ok(true),
            TableFilter::Full(resident) | TableFilter::Partitioned { index: resident, .. } => resident,
        };
        let access = Access { options, guard: None };
        let Some(asked_for) = self.in_filter(key.user_key()) else { return Ok(true) };
        let offset = match resident {
            Resident::Cached(handle) => Some(handle.offset),
            Resident::Pinned(_) => None,
        };
        let filter = TouchedKind::Filter { passes: true };
        let pinned = (!self.filter.is_partitioned()).then_some(resident);
        let passes = notes.note(filter, pinned, offset, || {
            let bytes = self.filter.memory_usage() as u64;
            Ok((self.filter_passes(access, asked_for, key.internal_key())?, bytes))
        })?;
        if let Some(last) = notes.touched.last_mut() {
            last.kind = TouchedKind::Filter { passes };
        }
        Ok(passes)
    }

    fn explain_index(&self, options: &TableReadOptions, notes: &mut Notes<'_>) -> Result<BlockRef> {
        let offset = match &self.index {
            Resident::Cached(handle) => Some(handle.offset),
            Resident::Pinned(_) => None,
        };
        notes.note(TouchedKind::Index, Some(&self.index), offset, || {
            let top = self.index.share(&self.source, BlockKind::Index, options, None)?;
            let bytes = CachedBlock::memory_usage(&top) as u64;
            Ok((top, bytes))
        })
    }

    fn explain_block(
        &self,
        options: &TableReadOptions,
        handle: BlockHandle,
        kind: TouchedKind,
        notes: &mut Notes<'_>,
    ) -> Result<BlockRef> {
        notes.note(kind, None, Some(handle.offset), || {
            let block = self.source.block(handle, BlockKind::Data, options, None)?;
            let bytes = CachedBlock::memory_usage(&block) as u64;
            Ok((block, bytes))
        })
    }
}
