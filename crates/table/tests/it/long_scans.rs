//! Scans of tables that are larger than the block cache.

use crate::util::*;
use esker_base::perf_context::PerfContext;
use esker_cache::{Cache, CacheOptions, CacheType};
use esker_format::compression::CompressionType;
use esker_format::cursor::InternalIterator;
use esker_table::{BlockBasedTableOptions, BlockCache, TableReadOptions, TableReader};
use std::sync::Arc;

const CAPACITY: usize = 256 << 10;
const TYPES: [CacheType; 2] = [CacheType::AutoHyperClock, CacheType::Lru];

/// A table of about this many bytes, and its cache of `CAPACITY`.
fn table(cache_type: CacheType, bytes: usize) -> (Arc<TableReader>, Arc<BlockCache>) {
    let cache = CacheOptions { cache_type, num_shard_bits: 0, ..CacheOptions::with_capacity(CAPACITY) };
    let cache: Arc<BlockCache> = Arc::new(Cache::new(&cache).unwrap());
    let table = BlockBasedTableOptions { block_cache: Some(Arc::clone(&cache)), ..Default::default() };
    let mut options = builder_options(table.clone());
    options.compression = CompressionType::None;
    let (file, _) = write_table(options, sample_entries(&mut Rng::new(1), bytes / 128, 100)).unwrap();
    println!("{} bytes", file.len());
    (open_bytes(&file, table).unwrap(), cache)
}

/// Reads up to `most` entries. Returns the number of blocks read from the file.
fn blocks_read(table: &Arc<TableReader>, most: usize, mut each: impl FnMut(&dyn InternalIterator)) -> u64 {
    let before = PerfContext::current().block_read_count;
    let mut iter = table.iter(TableReadOptions::default());
    iter.seek_to_first();
    for _ in 0..most {
        if !iter.valid() {
            break;
        }
        each(&iter);
        iter.next();
    }
    iter.status().unwrap();
    PerfContext::current().block_read_count - before
}

/// Each later scan finds at least half as many blocks in the cache as the first scan left there.
#[test]
fn the_next_scan_of_a_large_table_finds_the_blocks_that_the_cache_kept() {
    for cache_type in TYPES {
        let (table, cache) = table(cache_type, 8 * CAPACITY);
        let all = blocks_read(&table, usize::MAX, |_| assert!(cache.usage() <= CAPACITY + 5000));
        let kept = cache.occupancy_count() as u64;
        for _ in 0..3 {
            let read = blocks_read(&table, usize::MAX, |_| assert!(cache.usage() <= CAPACITY + 5000));
            // Each scan adds a quarter of the cache, and other blocks are evicted.
            assert!(all - read >= kept / 2, "{cache_type:?}: {read} of {all} were read, {kept} were kept");
        }
    }
}

/// Most of a table that fits is in the cache after seven scans, although blocks of another table
/// filled the cache before.
#[test]
fn a_table_that_fits_comes_in_quarter_by_quarter() {
    let (large, cache) = table(CacheType::AutoHyperClock, 8 * CAPACITY);
    blocks_read(&large, usize::MAX, |_| ());
    let table = BlockBasedTableOptions { block_cache: Some(Arc::clone(&cache)), ..Default::default() };
    let mut options = builder_options(table.clone());
    options.compression = CompressionType::None;
    options.orig_file_number = esker_base::FileNumber(10);
    let (file, _) = write_table(options, sample_entries(&mut Rng::new(2), CAPACITY / 2 / 128, 100)).unwrap();
    let small = open_bytes(&file, table).unwrap();
    let reads: Vec<u64> = (0..8).map(|_| blocks_read(&small, usize::MAX, |_| ())).collect();
    assert!(reads[7] <= reads[0] / 8, "{reads:?}");
}

/// The cache is charged for a block that bypasses it, for as long as the block is pinned.
#[test]
fn blocks_that_bypass_the_cache_are_charged_as_long_as_they_are_pinned() {
    for cache_type in TYPES {
        let (table, cache) = table(cache_type, 8 * CAPACITY);
        let (mut pins, mut expected, mut pinned_bytes) = (Vec::new(), Vec::new(), 0);
        blocks_read(&table, usize::MAX, |iter| {
            pinned_bytes += iter.value().len();
            assert!(pinned_bytes <= cache.usage());
            pins.push(iter.pinned_value());
            expected.push(iter.value().to_vec());
        });
        assert!(cache.usage() > 6 * CAPACITY, "{}", cache.usage());
        assert!(pins.iter().zip(&expected).all(|(pin, value)| **pin == **value));
        drop(pins);
        assert!(cache.usage() <= CAPACITY + 5000, "{}", cache.usage());
    }
}
