use super::*;
use crate::block_source::{CachedBlock, default_block_cache};
use crate::writer::TableBuilder;
use crate::{BlockBasedTableOptions, TableBuilderOptions, TableReaderOptions};
use esker_base::ValueType;
use esker_cache::{CachePriority, Role};
use esker_env::FileSystem;
use esker_env::mem::MemFs;
use esker_format::key::{InternalKeyComparator, internal_key};
use std::path::Path;

/// A table of `rows` short rows in small blocks, with a cache.
fn cached_table(rows: u32) -> Arc<TableReader> {
    let (fs, path, icmp) = (MemFs::new(), Path::new("/t.sst"), InternalKeyComparator::default());
    let table = BlockBasedTableOptions { block_size: 200, ..BlockBasedTableOptions::default() };
    let options = TableBuilderOptions::new(icmp.clone(), Arc::new(table));
    let mut builder = TableBuilder::new(options, fs.new_writable_file(path).unwrap()).unwrap();
    for row in 0..rows {
        let key = internal_key(format!("{row:05}").as_bytes(), SequenceNumber(1), ValueType::Value);
        builder.add(&key, b"value").unwrap();
    }
    let size = builder.finish().unwrap().file_size;
    builder.sync_and_close().unwrap();
    let table = BlockBasedTableOptions {
        block_cache: Some(default_block_cache()),
        ..BlockBasedTableOptions::default()
    };
    let options = TableReaderOptions::new(icmp, Arc::new(table), size);
    TableReader::open(fs.new_random_access_file(path).unwrap(), options).unwrap()
}

/// Goes from its place to the end over runs, or by steps where there are none. Gives the number of
/// rows it has seen.
fn walk_over_runs(iter: &mut TableIter, forward: bool) -> usize {
    let ahead = DecodeAhead { forward, sequence: SequenceNumber::MAX, limit: None };
    let (mut run, mut rows) = (DecodedRun::default(), 0);
    iter.look_ahead(&mut run, &ahead);
    while iter.valid() {
        rows += run.len().max(1);
        if !run.is_empty() {
            iter.pass(&mut run, &ahead);
        } else {
            if forward {
                iter.next()
            } else {
                iter.prev()
            }
            if iter.valid() {
                iter.look_ahead(&mut run, &ahead);
            }
        }
    }
    rows
}

#[test]
fn a_block_of_another_kind_is_not_taken_for_an_empty_data_block() {
    for forward in [true, false] {
        let reader = cached_table(400);
        let mut iter = reader.iter(TableReadOptions { fill_cache: false, ..TableReadOptions::default() });
        iter.seek(&internal_key(b"00200", SequenceNumber::MAX, ValueType::SEEK));
        let source = &reader.source;
        let cache = source.cache.as_ref().unwrap();
        let blob = CachedBlock::Blob(Vec::new());
        drop(cache.insert(source.key(iter.loaded), blob, 1, CachePriority::Low, Role::DataBlock));
        if forward {
            iter.seek_to_first()
        } else {
            iter.seek_to_last()
        }
        assert!(walk_over_runs(&mut iter, forward) < 220);
        let error = iter.status().unwrap_err();
        assert!(error.message().contains("a blob where a key/value block should be"), "{error}");
    }
}

#[test]
fn blocks_found_beforehand_count_as_entered() {
    let reader = cached_table(400);
    for _ in 0..100 {
        let mut iter = reader.iter(TableReadOptions::default());
        iter.seek_to_first();
        assert_eq!(walk_over_runs(&mut iter, true), 400);
    }
    assert!(reader.scan_length.usual() > 10, "{}", reader.scan_length.usual());
}

#[test]
fn long_ways_to_and_fro_over_cached_blocks_meet_every_row() {
    const ROWS: u32 = 2000;
    let reader = cached_table(ROWS);
    let mut iter = reader.iter(TableReadOptions::default());
    iter.seek_to_first();
    walk_over_runs(&mut iter, true);
    let number = |key: &[u8]| -> u32 { std::str::from_utf8(key).unwrap().parse().unwrap() };
    let mut rng = fastrand::Rng::with_seed(7);
    let mut run = DecodedRun::default();
    for _ in 0..300 {
        let mut here = rng.u32(..ROWS);
        let key = format!("{here:05}");
        iter.seek(&internal_key(key.as_bytes(), SequenceNumber::MAX, ValueType::SEEK));
        run.clear();
        // From the third run on a walk goes far; it stays one when it turns.
        for _ in 0..6 {
            let ahead = DecodeAhead { forward: rng.bool(), sequence: SequenceNumber::MAX, limit: None };
            iter.look_ahead(&mut run, &ahead);
            for _ in 0..rng.u32(1..9) {
                assert_eq!(number(key::user_key(iter.key())), here);
                while ahead.forward && run.step_on() || !ahead.forward && run.step_back() {
                    here = if ahead.forward { here + 1 } else { here - 1 };
                    assert_eq!(number(run.user_key()), here);
                }
                here = if ahead.forward { here + 1 } else { here.wrapping_sub(1) };
                if run.is_empty() {
                    if ahead.forward {
                        iter.next()
                    } else {
                        iter.prev()
                    }
                    if iter.valid() {
                        iter.look_ahead(&mut run, &ahead);
                    }
                } else {
                    iter.pass(&mut run, &ahead);
                }
                if !iter.valid() {
                    break;
                }
            }
            if !iter.valid() {
                assert!(here == ROWS || here == u32::MAX, "the run ends at {here}");
                break;
            }
        }
    }
    iter.status().unwrap();
}

#[test]
fn a_released_cursor_holds_none_of_the_blocks_it_had_found_beforehand() {
    for forward in [true, false] {
        let reader = cached_table(2000);
        let cache = reader.source.cache.clone().unwrap();
        let mut iter = reader.iter(TableReadOptions::default());
        iter.seek_to_first();
        // All of it into the cache.
        walk_over_runs(&mut iter, true);
        iter.release();
        assert_eq!(cache.pinned_usage(), 0);
        iter.seek(&internal_key(b"01000", SequenceNumber::MAX, ValueType::SEEK));
        let ahead = DecodeAhead { forward, sequence: SequenceNumber::MAX, limit: None };
        let mut run = DecodedRun::default();
        iter.look_ahead(&mut run, &ahead);
        for _ in 0..30 {
            iter.pass(&mut run, &ahead);
        }
        assert!(iter.far_neighbour.holds_a_block(), "the walk is long enough for a far neighbour");
        run.clear();
        drop(run);
        iter.release();
        assert_eq!(cache.pinned_usage(), 0, "forward: {forward}");
    }
}
