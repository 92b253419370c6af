//! Erases the blocks of an obsolete table from the block cache: `uncache_aggressiveness`.
//!
//! In: a table that no version names any more. Out: its blocks have left the cache, as far as they
//! can be found without I/O. Source of the rules: RocksDB `BlockBasedTable::~BlockBasedTable`,
//! `table/block_based/block_cache.h`.

use crate::block_source::BlockKind;
use crate::filter::{Resident, TableFilter};
use crate::index_walker::IndexWalker;
use crate::options::{TableReadOptions, TableReadTier};
use crate::reader::TableReader;
use crate::trace;
use esker_base::Result;
use esker_base::sync::atomic::Ordering;
use esker_format::handle::BlockHandle;

/// Decides when too few of a table's blocks are in the cache to try the others.
struct Advisor {
    /// Misses that are free.
    allowance: f64,
    /// The least share of hits.
    threshold: f64,
    hits: f64,
    misses: f64,
}

impl Advisor {
    fn new(aggressiveness: u32) -> Advisor {
        Advisor {
            allowance: f64::from(aggressiveness.min(3)),
            threshold: 0.99_f64.powf(f64::from(aggressiveness) - 1.0),
            hits: 0.0,
            misses: 0.0,
        }
    }

    fn report(&mut self, was_cached: bool) {
        if was_cached {
            self.hits += 1.0;
        } else {
            self.misses += 1.0;
        }
    }

    fn goes_on(&self) -> bool {
        // The constants count as a few more tries, so that the first misses do not decide.
        self.misses < self.allowance
            || (self.hits + 1.0) / (self.hits + self.misses - self.allowance + 1.5) >= self.threshold
    }
}

impl TableReader {
    /// The family's `uncache_aggressiveness` at present.
    pub fn uncache_aggressiveness(&self) -> u32 {
        self.options.uncache_aggressiveness.load(Ordering::Relaxed)
    }

    /// Erases the table's filter, data and index blocks from the block cache. Stops at data blocks
    /// once the share of those in the cache is below `0.99^(uncache_aggressiveness - 1)`; at 0 it
    /// does nothing. Reads no file: of a partitioned index or filter it sees the partitions in
    /// front of the first one that is not in the cache. Readers keep the blocks that they hold.
    pub fn uncache(&self) {
        let aggressiveness = self.uncache_aggressiveness();
        if aggressiveness == 0 || self.source.cache.is_none() {
            return;
        }
        // A damaged index ends the walk: the blocks age in the cache.
        _ = self.uncache_filter();
        _ = self.uncache_data(aggressiveness);
        self.erase_resident(&self.index);
    }

    fn uncache_filter(&self) -> Result<()> {
        match &self.filter {
            TableFilter::None => {}
            TableFilter::Full(filter) => self.erase_resident(filter),
            TableFilter::Partitioned { index, shape } => {
                let options = from_cache();
                let handles = index.with(&self.source, BlockKind::Index, (&options, None), |top| {
                    let mut walker = IndexWalker::new(top, *shape, false, Vec::new());
                    let mut handles = Vec::new();
                    walker.seek_to_first(&self.source, &options)?;
                    while walker.valid() {
                        handles.push(walker.handle());
                        walker.next(&self.source, &options)?;
                    }
                    Ok(handles)
                })?;
                handles.into_iter().for_each(|handle| _ = self.erase(handle));
                self.erase_resident(index);
            }
        }
        Ok(())
    }

    /// Erases data blocks, and the partitions of the index that the walk has passed.
    fn uncache_data(&self, aggressiveness: u32) -> Result<()> {
        let mut partitions = Vec::new();
        let walked = self.walk_data(aggressiveness, &mut partitions);
        partitions.into_iter().for_each(|handle| _ = self.erase(handle));
        walked
    }

    fn walk_data(&self, aggressiveness: u32, partitions: &mut Vec<BlockHandle>) -> Result<()> {
        let (options, mut advisor) = (from_cache(), Advisor::new(aggressiveness));
        let mut walker = self.walker(&options)?;
        walker.seek_to_first(&self.source, &options)?;
        while walker.valid() && advisor.goes_on() {
            if let Some(partition) = walker.partition_handle()
                && partitions.last() != Some(&partition)
            {
                partitions.push(partition);
            }
            advisor.report(self.erase(walker.handle()));
            walker.next(&self.source, &options)?;
        }
        Ok(())
    }

    fn erase_resident(&self, block: &Resident) {
        match block {
            Resident::Cached(handle) => _ = self.erase(*handle),
            Resident::Pinned(_) => {}
        }
    }

    /// Erases a block. Returns whether it was in the cache.
    fn erase(&self, handle: BlockHandle) -> bool {
        if trace::is_watched() {
            self.source.tell_of_erasure(handle);
        }
        self.source.cache.as_ref().is_some_and(|cache| cache.erase(&self.source.key(handle)))
    }
}

/// Options of reads that take blocks from the cache only.
fn from_cache() -> TableReadOptions {
    TableReadOptions {
        read_tier: TableReadTier::BlockCache,
        fill_cache: false,
        ..TableReadOptions::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_aggressiveness_bears_more_misses() {
        let tries_without_hits = |aggressiveness| {
            let mut advisor = Advisor::new(aggressiveness);
            (0..100_000).take_while(|_| advisor.goes_on().then(|| advisor.report(false)).is_some()).count()
        };
        let tries = [1, 2, 11, 69, 110, 230, 460].map(tries_without_hits);
        assert_eq!(tries[0], 1, "the first miss ends it");
        assert!(tries.is_sorted() && tries[6] > 90, "{tries:?}");
        assert_eq!(tries_without_hits(10_000), 100_000);
        let mut advisor = Advisor::new(1);
        (0..1000).for_each(|_| advisor.report(true));
        assert!(advisor.goes_on());
        advisor.report(false);
        assert!(!advisor.goes_on());
    }
}
