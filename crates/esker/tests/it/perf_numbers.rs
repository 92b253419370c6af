//! Counts and times of a thread's `PerfContext`: each number is seen to move.

use esker::internals::env::MemFs;
use esker::internals::table::FilterPolicy;
use esker::merge_operator::MergeOperator;
use esker::options::{CompressionType, block_cache_from_string};
use esker::perf_context::{PerfContext, PerfLevel, set_perf_level};
use esker::stats::Statistics;
use esker::txn::{TransactionDb, TransactionDbOptions, TransactionOptions};
use esker::{Db, Env, MultiScanArgs, Options, ReadOptions, SstFileWriter, WriteOptions};
use std::sync::Arc;

/// Joins operands.
struct Joins;

impl MergeOperator for Joins {
    fn name(&self) -> &str {
        "joins"
    }
    fn full_merge(&self, _key: &[u8], _existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        Some(operands.concat())
    }
}

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.merge_operator = Some(Arc::new(Joins));
    options.cf.disable_auto_compactions = true;
    options
}

fn begin(level: PerfLevel) {
    set_perf_level(level);
    PerfContext::reset();
}

fn fill(db: &Db, keys: u32) {
    for i in 0..keys {
        db.put(format!("key{i:05}"), format!("{i}").repeat(20)).unwrap();
    }
    db.flush().unwrap();
}

#[test]
fn gets_have_their_parts() {
    let db = Db::open(&options(), "/db").unwrap();
    fill(&db, 100);
    db.put("memory", "12345").unwrap();
    db.merge("merged", "a").unwrap();
    db.merge("merged", "b").unwrap();

    begin(PerfLevel::EnableCount);
    db.get("memory").unwrap().unwrap();
    db.get("key00001").unwrap().unwrap();
    let counted = PerfContext::current();
    assert_eq!((counted.get_from_memtable_time, counted.get_read_bytes), (0, 0), "{counted}");
    assert!(counted.block_cache_hit_count + counted.block_read_count > 0, "{counted}");

    begin(PerfLevel::EnableTimeExceptForMutex);
    assert_eq!(db.get("memory").unwrap().unwrap(), b"12345");
    let perf = PerfContext::current();
    assert!(perf.get_from_memtable_time > 0 && perf.get_from_output_files_time < perf.get_from_memtable_time);
    assert_eq!((perf.get_from_memtable_count, perf.get_read_bytes, perf.get_cpu_nanos), (1, 5, 0), "{perf}");
    db.get("key00001").unwrap().unwrap();
    let perf = PerfContext::current();
    assert!(perf.get_from_output_files_time > 0 && perf.get_post_process_time > 0, "{perf}");
    assert_eq!((perf.get_from_memtable_count, perf.get_read_bytes), (2, 5 + 20), "{perf}");
    assert_eq!(db.get("nothing").unwrap(), None);
    assert_eq!(PerfContext::current().get_read_bytes, 25);

    begin(PerfLevel::EnableTimeAndCpuTimeExceptForMutex);
    assert_eq!(db.get("merged").unwrap().unwrap(), b"ab");
    let perf = PerfContext::current();
    assert!(perf.get_cpu_nanos > 0, "{perf}");
    assert_eq!((perf.internal_merge_point_lookup_count, perf.get_read_bytes), (2, 2), "{perf}");
    set_perf_level(PerfLevel::default());
}

#[test]
fn seeks_have_times_and_iterators_add_their_steps_at_their_end() {
    let mut options = options();
    options.db.statistics = Some(Arc::new(Statistics::new()));
    let db = Db::open(&options, "/db").unwrap();
    fill(&db, 10);
    db.put("key00003x", "memory").unwrap();
    begin(PerfLevel::EnableTimeAndCpuTimeExceptForMutex);
    let mut iter = db.iter().unwrap();
    iter.seek("key00002");
    (0..3).for_each(|_| iter.next());
    iter.prev();
    iter.seek_to_last();
    let perf = PerfContext::current();
    assert!(perf.seek_internal_seek_time > 0 && perf.iter_seek_cpu_nanos > 0, "{perf}");
    assert_eq!(perf.seek_child_seek_count, 2, "the memtable and the table, once: {perf}");
    assert_eq!((perf.iter_seek_count, perf.iter_next_count), (0, 0), "the iterator lives");
    drop(iter);
    let perf = PerfContext::current();
    assert_eq!((perf.iter_seek_count, perf.iter_next_count, perf.iter_prev_count), (2, 3, 1), "{perf}");
    assert!(perf.iter_read_bytes > 6 * 8, "{perf}");
    set_perf_level(PerfLevel::default());
}

#[test]
fn blocks_are_counted_by_kind() {
    let mut options = options();
    options.cf.table.cache_index_and_filter_blocks = true;
    options.cf.table.filter_policy = Some(FilterPolicy::bloom(10.0));
    options.cf.compression = CompressionType::Zstd;
    options.cf.compression_opts.max_dict_bytes = 4096;
    let db = Db::open(&options, "/db").unwrap();
    begin(PerfLevel::EnableTimeExceptForMutex);
    fill(&db, 2000);
    drop(db);
    begin(PerfLevel::EnableTimeAndCpuTimeExceptForMutex);
    let db = Db::open(&options, "/db").unwrap();
    db.get("key00001").unwrap().unwrap();
    let perf = PerfContext::current();
    assert_eq!(perf.compression_dict_block_read_count, 1, "{perf}");
    assert!(perf.compression_dict_block_read_byte > 0 && perf.metadata_block_read_byte > 0, "{perf}");
    assert!(perf.index_block_read_byte > 0 && perf.filter_block_read_byte > 0, "{perf}");
    assert!(perf.data_block_read_byte > 0, "{perf}");
    let kinds = perf.index_block_read_byte + perf.filter_block_read_byte + perf.data_block_read_byte;
    assert_eq!(kinds, perf.block_read_byte, "{perf}");
    assert!(perf.read_index_block_nanos > 0 && perf.read_filter_block_nanos > 0, "{perf}");
    assert!(perf.block_read_cpu_time > 0, "{perf}");
    begin(PerfLevel::EnableTimeExceptForMutex);
    db.get("key00001").unwrap().unwrap();
    let perf = PerfContext::current();
    assert!(perf.block_cache_index_read_byte > 0 && perf.block_cache_filter_read_byte > 0, "{perf}");
    assert!(perf.block_cache_read_byte > perf.block_cache_index_read_byte, "{perf}");
    set_perf_level(PerfLevel::default());
}

#[test]
fn blobs_have_times() {
    let mut options = options();
    options.cf.enable_blob_files = true;
    options.cf.blob_compression_type = CompressionType::Lz4;
    let db = Db::open(&options, "/db").unwrap();
    fill(&db, 10);
    begin(PerfLevel::EnableTimeExceptForMutex);
    db.get("key00001").unwrap().unwrap();
    let perf = PerfContext::current();
    assert!(perf.blob_read_time > 0 && perf.blob_checksum_time > 0, "{perf}");
    assert!(perf.blob_decompress_time > 0 && perf.blob_decompress_time < perf.blob_read_time, "{perf}");
    set_perf_level(PerfLevel::default());
}

#[test]
fn planned_ranges_are_counted() {
    let db = Db::open(&options(), "/db").unwrap();
    fill(&db, 5000);
    begin(PerfLevel::EnableCount);
    let mut ranges = MultiScanArgs::new();
    ranges.insert("key00100", "key00200");
    ranges.insert("key02000", "key03000");
    let mut iter = db.iter().unwrap();
    iter.prepare(&ranges).unwrap();
    iter.seek("key00100");
    let perf = PerfContext::current();
    assert_eq!(perf.multiscan_prepare_count, 1, "{perf}");
    assert!(perf.multiscan_blocks_prefetched > 0 && perf.multiscan_prefetch_bytes > 0, "{perf}");
    assert!(perf.multiscan_io_requests > 0, "{perf}");
    iter.prepare(&ranges).unwrap();
    iter.seek("key00100");
    let again = PerfContext::current();
    assert_eq!(again.multiscan_prepare_count, 2, "{again}");
}

#[test]
fn a_compressed_tier_counts_its_inserts() {
    let text = "capacity=64k;num_shard_bits=0;secondary_cache=compressed_secondary_cache://capacity=1M";
    let mut options = options();
    options.cf.compression = CompressionType::None;
    options.cf.table.block_cache = Some(block_cache_from_string(text).unwrap().unwrap());
    let db = Db::open(&options, "/db").unwrap();
    fill(&db, 5000);
    begin(PerfLevel::EnableCount);
    let read_all = || (0..5000).for_each(|i| drop(db.get(format!("key{i:05}")).unwrap().unwrap()));
    (0..3).for_each(|_| read_all());
    let perf = PerfContext::current();
    assert!(perf.compressed_sec_cache_insert_dummy_count > 0, "{perf}");
    assert!(perf.compressed_sec_cache_insert_real_count > 0, "{perf}");
    let (plain, compressed) =
        (perf.compressed_sec_cache_uncompressed_bytes, perf.compressed_sec_cache_compressed_bytes);
    assert!(compressed > 0 && compressed < plain, "{perf}");
}

#[test]
fn ingestions_have_times() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    let mut table = SstFileWriter::new(&options);
    table.open("/made.sst").unwrap();
    table.put("z", "1").unwrap();
    table.finish().unwrap();
    begin(PerfLevel::EnableTimeExceptForMutex);
    db.ingest_external_file(&["/made.sst"]).unwrap();
    let perf = PerfContext::current();
    assert!(perf.file_ingestion_blocking_live_writes_nanos > 0, "{perf}");
    assert!(perf.file_ingestion_nanos > perf.file_ingestion_blocking_live_writes_nanos, "{perf}");
    set_perf_level(PerfLevel::default());
}

#[test]
fn waits_for_locks_of_keys_are_counted_and_timed() {
    let db = TransactionDb::open(&options(), &TransactionDbOptions::default(), "/db").unwrap();
    begin(PerfLevel::EnableTimeExceptForMutex);
    let (write, txn) =
        (WriteOptions::default(), TransactionOptions { lock_timeout: 20, ..Default::default() });
    let first = db.begin_transaction_opt(&write, &txn);
    first.put("key", "1").unwrap();
    assert_eq!(PerfContext::current().key_lock_wait_count, 0);
    let second = db.begin_transaction_opt(&write, &txn);
    second.put("key", "2").unwrap_err();
    let perf = PerfContext::current();
    assert_eq!(perf.key_lock_wait_count, 1, "{perf}");
    assert!(perf.key_lock_wait_time >= 20_000_000, "{perf}");
    set_perf_level(PerfLevel::default());
}

#[test]
fn the_default_read_reads_no_clock() {
    let db = Db::open(&options(), "/db").unwrap();
    fill(&db, 10);
    begin(PerfLevel::Disable);
    db.put("key", "value").unwrap();
    db.get_opt(&ReadOptions::default(), &db.default_column_family(), "key00001").unwrap().unwrap();
    let mut iter = db.iter().unwrap();
    iter.seek_to_first();
    drop(iter);
    assert_eq!(PerfContext::current(), PerfContext::default());
    set_perf_level(PerfLevel::default());
}

#[test]
fn reads_are_counted_by_the_level_of_their_table() {
    let mut options = options();
    options.cf.table.filter_policy = Some(FilterPolicy::bloom(20.0));
    options.cf.table.cache_index_and_filter_blocks = false;
    options.cf.compression = CompressionType::None;
    let db = Db::open(&options, "/db").unwrap();
    fill(&db, 100);
    db.compact_range(None, None).unwrap();
    // A table counts at the level at which it was opened.
    drop(db);
    let db = Db::open(&options, "/db").unwrap();
    // Level 0 has other keys of the same range, operands and a deletion.
    db.put("key00001+", "new").unwrap();
    db.merge("key00050", "more").unwrap();
    db.delete("key00060").unwrap();
    db.put("key00099", "newest").unwrap();
    db.flush().unwrap();
    let levels = || {
        let levels = PerfContext::level_to_perf_context();
        (levels.get(&0).copied().unwrap_or_default(), levels.get(&6).copied().unwrap_or_default())
    };
    let read = |keys: &[&str], together: bool| {
        PerfContext::reset();
        match together {
            true => db.multi_get(keys).into_iter().for_each(|value| drop(value.unwrap())),
            false => keys.iter().for_each(|key| drop(db.get(key).unwrap())),
        }
    };
    begin(PerfLevel::EnableCount);
    let keys = ["key00001", "key00002", "key00050", "key00060", "key00099", "key00101", "key00098+"];
    read(&keys, false);
    assert!(PerfContext::level_to_perf_context().is_empty(), "nothing is counted unless it is asked for");
    PerfContext::enable_per_level_perf_context();
    for (level, together) in [
        (PerfLevel::EnableCount, false),
        (PerfLevel::EnableCount, true),
        (PerfLevel::EnableTimeExceptForMutex, false),
        (PerfLevel::EnableTimeExceptForMutex, true),
    ] {
        set_perf_level(level);
        read(&keys, together);
        let ((l0, l6), total) = (levels(), PerfContext::current());
        // Five of the keys lie in the range of level 0, and three in it.
        assert_eq!((l0.bloom_filter_full_positive, l0.bloom_filter_full_true_positive), (3, 3), "{l0}");
        assert_eq!((l0.bloom_filter_useful, l0.user_key_return_count), (2, 1), "{l0}");
        // The last level is asked for all but what level 0 has settled: a deletion, and a value.
        assert_eq!((l6.bloom_filter_full_positive, l6.bloom_filter_full_true_positive), (3, 3), "{l6}");
        assert_eq!((l6.bloom_filter_useful, l6.user_key_return_count), (1, 3), "{l6}");
        assert_eq!(total.bloom_sst_hit_count, 6);
        assert_eq!(l0.block_cache_hit_count + l6.block_cache_hit_count, total.block_cache_hit_count);
        assert_eq!((l0.block_cache_miss_count, l6.block_cache_miss_count), (0, 0));
        let has_times = level > PerfLevel::EnableWait;
        assert_eq!((l0.get_from_table_nanos > 0, l6.get_from_table_nanos > 0), (has_times, has_times));
        assert!(together || (total.get_from_output_files_time > 0) == has_times, "{total}");
    }
    set_perf_level(PerfLevel::EnableCount);
    // An iterator counts the blocks of its levels, and asks no filter.
    PerfContext::reset();
    let mut iter = db.iter().unwrap();
    iter.seek_to_first();
    (0..101).for_each(|_| iter.next());
    drop(iter);
    let (l0, l6) = levels();
    assert!(l0.block_cache_hit_count > 0 && l6.block_cache_hit_count > 0, "{l0}, {l6}");
    assert_eq!((l0.bloom_filter_useful, l6.bloom_filter_full_positive, l6.user_key_return_count), (0, 0, 0));
    // A cache that has nothing yet misses.
    drop(db);
    let db = Db::open(&options, "/db").unwrap();
    PerfContext::reset();
    db.get("key00002").unwrap().unwrap();
    let (_, l6) = levels();
    assert_eq!((l6.block_cache_miss_count, l6.user_key_return_count), (1, 1), "{l6}");
    PerfContext::clear_per_level_perf_context();
    db.get("key00002").unwrap().unwrap();
    assert!(PerfContext::level_to_perf_context().is_empty());
    set_perf_level(PerfLevel::default());
}
