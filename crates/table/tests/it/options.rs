//! Every option of the writer: the reader reads each table back.

use crate::util::*;
use esker_base::comparator::ReverseBytewiseComparator;
use esker_base::{FileNumber, SequenceNumber, ValueType, prefix};
use esker_cache::{Cache, CacheOptions};
use esker_env::FileSystem;
use esker_env::mem::MemFs;
use esker_format::compression::CompressionType;
use esker_format::cursor::{InternalIterator, ScanIterator};
use esker_format::filter::FilterPolicy;
use esker_format::key::{InternalKeyComparator, LookupKey, RANGE_END_SENTINEL, internal_key};
use esker_format::properties::IndexType;
use esker_format::trailer::ChecksumType;
use esker_format::version_edit::FileMetaData;
use esker_table::{
    BlockBasedTableOptions, DataBlockIndexType, IndexShorteningMode, OpenFiles, TableBuilderOptions,
    TableCache, TableCacheOptions, TableFile, TableReadOptions, TableReadTier, TableReader,
    TableReaderOptions,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Builder options, each with a name.
pub fn variants() -> Vec<(String, TableBuilderOptions)> {
    let mut all = Vec::new();
    let mut add = |name: String, change: &dyn Fn(&mut BlockBasedTableOptions, &mut CompressionType)| {
        let mut table = BlockBasedTableOptions { block_size: 1024, ..Default::default() };
        let mut compression = CompressionType::None;
        change(&mut table, &mut compression);
        let mut options = builder_options(table);
        options.compression = compression;
        all.push((name, options));
    };
    let checksums = [
        ChecksumType::NoChecksum,
        ChecksumType::Crc32c,
        ChecksumType::XxHash,
        ChecksumType::XxHash64,
        ChecksumType::Xxh3,
    ];
    let codecs = [
        CompressionType::None,
        CompressionType::Snappy,
        CompressionType::Zlib,
        CompressionType::Bzip2,
        CompressionType::Lz4,
        CompressionType::Lz4hc,
        CompressionType::Zstd,
    ];
    for version in 2..=8 {
        for checksum in checksums {
            for codec in codecs {
                add(format!("fv{version} {checksum:?} {codec:?}"), &|t, c| {
                    (t.format_version, t.checksum, *c) = (version, checksum, codec);
                });
            }
        }
    }
    for (interval, index_interval) in [(1, 1), (2, 3), (16, 16), (1000, 2)] {
        for version in [3, 5, 6, 8] {
            add(format!("restarts {interval} {index_interval} fv{version}"), &|t, _| {
                t.block_restart_interval = interval;
                t.index_block_restart_interval = index_interval;
                t.format_version = version;
            });
        }
    }
    for shortening in [IndexShorteningMode::NoShortening, IndexShorteningMode::ShortenSeparatorsAndSuccessor]
    {
        add(format!("{shortening:?}"), &|t, _| t.index_shortening = shortening);
    }
    for version in [4, 5, 6] {
        add(format!("bloom fv{version}"), &|t, _| {
            t.filter_policy = Some(FilterPolicy::bloom(10.0));
            t.format_version = version;
        });
    }
    add("ribbon".into(), &|t, _| t.filter_policy = Some(FilterPolicy::ribbon(10.0, -1)));
    add("first keys".into(), &|t, _| t.index_type = IndexType::BinarySearchWithFirstKey);
    add("first keys, sparse".into(), &|t, _| {
        t.index_type = IndexType::BinarySearchWithFirstKey;
        t.index_block_restart_interval = 8;
    });
    add_new_layouts(&mut add);
    add("full keys".into(), &|t, _| t.use_delta_encoding = false);
    add("aligned".into(), &|t, _| t.block_align = true);
    add("index not compressed".into(), &|t, c| {
        (t.enable_index_compression, *c) = (false, CompressionType::Lz4)
    });
    add("tiny blocks".into(), &|t, _| t.block_size = 1);
    add("one block".into(), &|t, _| t.block_size = 1 << 20);
    all
}

/// A change of a table's options.
type Change<'a> = &'a dyn Fn(&mut BlockBasedTableOptions, &mut CompressionType);

/// Indexes and filters in parts, hash indexes, values apart, padding.
fn add_new_layouts(add: &mut impl FnMut(String, Change<'_>)) {
    for (version, interval) in [(2, 1), (3, 2), (4, 1), (5, 1), (5, 16), (6, 3), (7, 1), (8, 1), (8, 5)] {
        for size in [1, 60, 200, 4096] {
            add(format!("two levels of {size}, every {interval}, fv{version}"), &|t, c| {
                t.index_type = IndexType::TwoLevel;
                (t.format_version, t.index_block_restart_interval) = (version, interval);
                (t.metadata_block_size, *c) = (size, CompressionType::Lz4);
            });
            for decoupled in [false, true] {
                for ribbon in [false, true] {
                    if ribbon && version < 5 {
                        continue;
                    }
                    let name =
                        format!("filters of {size}, fv{version}, decoupled {decoupled}, ribbon {ribbon}");
                    add(name, &|t, _| {
                        t.index_type = IndexType::TwoLevel;
                        (t.format_version, t.metadata_block_size) = (version, size);
                        (t.partition_filters, t.decouple_partitioned_filters) = (true, decoupled);
                        let bloom = FilterPolicy::bloom(10.0);
                        t.filter_policy = Some(if ribbon { FilterPolicy::ribbon(10.0, -1) } else { bloom });
                        t.index_block_restart_interval = interval;
                    });
                }
            }
        }
    }
    for (ratio, interval) in [(0.75, 16), (0.01, 1), (1.0, 4)] {
        add(format!("hash index in data blocks, {ratio} of {interval}"), &|t, _| {
            t.data_block_index_type = DataBlockIndexType::BinaryAndHash;
            (t.data_block_hash_table_util_ratio, t.block_restart_interval) = (ratio, interval);
        });
    }
    for (interval, hash) in [(1, false), (16, false), (3, true)] {
        add(format!("values apart, {interval}, {hash}"), &|t, c| {
            t.separate_key_value_in_data_block = true;
            (t.block_restart_interval, t.format_version, *c) = (interval, 7, CompressionType::Zstd);
            if hash {
                t.data_block_index_type = DataBlockIndexType::BinaryAndHash;
            }
        });
        add(format!("values apart, {interval}, {hash}, fv8"), &|t, _| {
            t.separate_key_value_in_data_block = true;
            (t.block_restart_interval, t.format_version) = (interval, 8);
            if hash {
                t.data_block_index_type = DataBlockIndexType::BinaryAndHash;
            }
        });
        add(format!("first keys, {interval}, fv8"), &|t, _| {
            (t.index_type, t.format_version) = (IndexType::BinarySearchWithFirstKey, 8);
            (t.index_block_restart_interval, t.super_block_alignment_size) = (interval, 4096);
            t.super_block_alignment_space_overhead_ratio = if hash { 4 } else { 0 };
        });
    }
    for interval in [1, 4] {
        add(format!("super blocks, {interval}"), &|t, c| {
            (t.super_block_alignment_size, t.super_block_alignment_space_overhead_ratio) = (4096, 4);
            (t.index_block_restart_interval, *c) = (interval, CompressionType::Snappy);
        });
    }
    add("verified".into(), &|t, c| (t.verify_compression, *c) = (true, CompressionType::Zstd));
    add("filters that fill memory".into(), &|t, _| {
        t.filter_policy = Some(FilterPolicy::bloom(10.0));
        t.optimize_filters_for_memory = true;
    });
}

#[test]
fn tables_with_dictionaries_are_read() {
    let mut rng = Rng::new(2);
    let entries = sample_entries(&mut rng, 3000, 60);
    let with = CompressionType::ALL.into_iter().filter(|c| c.has_dictionaries() && c.is_built_in());
    for kind in with {
        for (train, buffer, level) in [(0, 0, 1), (40_000, 0, 1), (0, 20_000, 5), (40_000, 50_000, 5)] {
            let table = BlockBasedTableOptions {
                index_type: IndexType::TwoLevel,
                metadata_block_size: 512,
                partition_filters: true,
                filter_policy: Some(FilterPolicy::bloom(10.0)),
                verify_compression: true,
                ..Default::default()
            };
            let mut options = builder_options(table);
            options.compression = kind;
            options.compression_opts.max_dict_bytes = 4096;
            options.compression_opts.zstd_max_train_bytes = train;
            options.compression_opts.max_dict_buffer_bytes = buffer;
            options.compression_opts.level = level;
            let (bytes, info) = write_table(options, entries.iter().cloned()).unwrap();
            let reader = open_bytes(&bytes, with_filters()).unwrap();
            let name = format!("{kind:?} {train} {buffer}");
            let dictionary = reader.meta_index().find("rocksdb.compression_dict");
            let is_zstd = matches!(kind, CompressionType::Zstd | CompressionType::ZstdNotFinal);
            let expected = if train > 0 && is_zstd { 1..=4096 } else { 4096..=40_000 };
            assert!(expected.contains(&dictionary.expect(&name).size), "{name}: {dictionary:?}");
            reader.verify(&mut |_| true).unwrap_or_else(|e| panic!("{name}: {e}"));
            let read: Vec<_> = scan(&reader).unwrap().iter().map(|e| (ikey_of(e), e.3.clone())).collect();
            assert_eq!(read, entries, "{name}");
            assert_eq!(info.num_entries, 3000);
        }
    }
}

#[test]
fn a_hash_index_names_the_blocks_of_each_prefix() {
    let table =
        BlockBasedTableOptions { index_type: IndexType::HashSearch, block_size: 256, ..Default::default() };
    let mut options = builder_options(table);
    options.prefix_extractor = Some(prefix::fixed(7));
    let entries = sample_entries(&mut Rng::new(3), 500, 20);
    let (bytes, _) = write_table(options.clone(), entries.iter().cloned()).unwrap();
    let reader = open_bytes(&bytes, with_filters()).unwrap();
    for name in ["rocksdb.hashindex.prefixes", "rocksdb.hashindex.metadata"] {
        assert!(reader.meta_index().find(name).is_some(), "{name}");
    }
    assert_eq!(scan(&reader).unwrap().len(), 500);
    // A key without a prefix would be hidden by the blocks: then they are left out.
    let mut short = entries;
    short.insert(0, (internal_key(b"a", SequenceNumber(1), ValueType::Value), Vec::new()));
    let (bytes, _) = write_table(options.clone(), short).unwrap();
    let reader = open_bytes(&bytes, with_filters()).unwrap();
    assert!(reader.meta_index().find("rocksdb.hashindex.prefixes").is_none());
    options.prefix_extractor = None;
    assert!(write_table(options, Vec::new()).unwrap_err().message().contains("prefix_extractor"));
}

#[test]
fn written_entries_are_read_under_all_options() {
    let mut rng = Rng::new(1);
    let entries = sample_entries(&mut rng, 300, 60);
    for (name, mut options) in variants() {
        for with_prefix in [false, true] {
            if with_prefix && options.table_options.filter_policy.is_none() {
                continue;
            }
            options.prefix_extractor = with_prefix.then(|| prefix::fixed(6));
            let (bytes, info) = write_table(options.clone(), entries.iter().cloned()).unwrap();
            assert_eq!(info.smallest, entries[0].0, "{name}");
            assert_eq!(info.largest, entries.last().unwrap().0, "{name}");
            assert_eq!(info.num_entries, 300);
            assert_eq!(info.file_size, bytes.len() as u64);
            let reader = open_bytes(&bytes, with_filters()).unwrap_or_else(|e| panic!("{name}: {e}"));
            reader.verify(&mut |_| true).unwrap_or_else(|e| panic!("{name}: {e}"));
            let read: Vec<_> = scan(&reader).unwrap().iter().map(|e| (ikey_of(e), e.3.clone())).collect();
            assert_eq!(read, entries, "{name}");
            assert_eq!(scan_backwards(&reader).unwrap(), scan(&reader).unwrap(), "{name}");
        }
    }
}

#[test]
fn an_empty_table_is_a_table() {
    let (bytes, info) = write_table(builder_options(BlockBasedTableOptions::default()), []).unwrap();
    assert!(info.smallest.is_empty() && info.largest.is_empty());
    let reader = open_bytes(&bytes, with_filters()).unwrap();
    reader.verify(&mut |_| true).unwrap();
    assert!(scan(&reader).unwrap().is_empty() && scan_backwards(&reader).unwrap().is_empty());
    let mut iter = reader.iter(TableReadOptions::default());
    let key = internal_key(b"k", SequenceNumber(3), ValueType::Value);
    iter.seek(&key);
    assert!(!iter.valid());
    iter.seek_for_prev(&key);
    assert!(!iter.valid());
    iter.status().unwrap();
    let lookup = LookupKey::new(b"k", SequenceNumber::MAX);
    reader.get(&TableReadOptions::default(), &lookup, &mut |_, _| panic!("nothing is there")).unwrap();
}

#[test]
fn range_tombstones_are_kept_apart_and_widen_the_bounds() {
    let mut builder = builder_options(BlockBasedTableOptions::default());
    builder.icmp = InternalKeyComparator::default();
    let entries = vec![
        (internal_key(b"m", SequenceNumber(5), ValueType::Value), b"v".to_vec()),
        (internal_key(b"x", SequenceNumber(9), ValueType::RangeDeletion), b"z".to_vec()),
        (internal_key(b"a", SequenceNumber(2), ValueType::RangeDeletion), b"n".to_vec()),
    ];
    let (bytes, info) = write_table(builder, entries.clone()).unwrap();
    assert_eq!((info.num_entries, info.num_deletions, info.num_range_deletions), (3, 2, 2));
    assert_eq!((info.smallest_seqno.0, info.largest_seqno.0), (2, 9));
    assert_eq!(info.smallest, entries[2].0);
    assert_eq!(info.largest, [b"z".as_slice(), &RANGE_END_SENTINEL.to_le_bytes()].concat());
    let reader = open_bytes(&bytes, BlockBasedTableOptions::default()).unwrap();
    reader.verify(&mut |_| true).unwrap();
    let dels = reader.range_dels().unwrap();
    let icmp = reader.icmp();
    assert_eq!(dels.max_covering_seq(b"b", icmp, SequenceNumber::MAX), SequenceNumber(2));
    assert_eq!(dels.max_covering_seq(b"y", icmp, SequenceNumber::MAX), SequenceNumber(9));
    assert_eq!(dels.max_covering_seq(b"z", icmp, SequenceNumber::MAX), SequenceNumber::ZERO);
    assert_eq!(scan(&reader).unwrap().len(), 1);
}

#[test]
fn keys_out_of_order_end_the_table() {
    let fs = MemFs::new();
    let file = || fs.new_writable_file(Path::new("/t.sst")).unwrap();
    let key = |k: &str, s| internal_key(k.as_bytes(), SequenceNumber(s), ValueType::Value);
    for (a, b) in [
        (key("b", 1), key("a", 9)),
        (key("a", 1), key("a", 1)),
        (key("a", 1), key("a", 2)),
        (key("ab", 1), key("a", 1)),
    ] {
        let mut t =
            esker_table::TableBuilder::new(builder_options(BlockBasedTableOptions::default()), file())
                .unwrap();
        t.add(&a, b"").unwrap();
        assert!(t.add(&b, b"").unwrap_err().is_corruption());
        assert!(t.finish().unwrap_err().is_corruption(), "every call after an error returns an error");
    }
    let mut t =
        esker_table::TableBuilder::new(builder_options(BlockBasedTableOptions::default()), file()).unwrap();
    assert!(t.add(b"short", b"").unwrap_err().is_corruption());
}

#[test]
fn a_reverse_order_is_kept() {
    let icmp = InternalKeyComparator::new(Arc::new(ReverseBytewiseComparator));
    let table = BlockBasedTableOptions { block_size: 256, ..with_filters() };
    let mut options = builder_options(table);
    options.icmp = icmp.clone();
    let mut keys: Vec<String> = (0..500).map(|i| format!("k{}", i * 7 % 500)).collect();
    keys.sort_unstable_by(|a, b| b.cmp(a));
    let entries: Vec<_> = keys
        .iter()
        .map(|k| (internal_key(k.as_bytes(), SequenceNumber(7), ValueType::Value), k.clone().into_bytes()))
        .collect();
    let (bytes, _) = write_table(options, entries.clone()).unwrap();
    let reader = open_bytes(&bytes, with_filters()).unwrap();
    reader.verify(&mut |_| true).unwrap();
    assert_eq!(scan(&reader).unwrap().len(), 500);
    let mut iter = reader.iter(TableReadOptions::default());
    for (k, v) in &entries {
        iter.seek(k);
        assert_eq!(iter.value(), v);
    }
    let wrong = TableReaderOptions::new(InternalKeyComparator::default(), Arc::default(), bytes.len() as u64);
    let e = TableReader::open(memory_file(&bytes), wrong).unwrap_err();
    assert!(e.message().contains("ReverseBytewise"), "{e}");
}

#[test]
fn versions_of_a_key_are_shown_newest_first_across_blocks() {
    let mut entries = Vec::new();
    for s in (1..=200).rev() {
        entries.push((
            internal_key(b"key", SequenceNumber(s), ValueType::Merge),
            format!("{s:050}").into_bytes(),
        ));
    }
    let after = internal_key(b"key2", SequenceNumber(1), ValueType::Value);
    entries.push((after, b"other".to_vec()));
    for version in [2, 5, 8] {
        let table = BlockBasedTableOptions { block_size: 512, format_version: version, ..Default::default() };
        let (bytes, _) = write_table(builder_options(table), entries.clone()).unwrap();
        let reader = open_bytes(&bytes, with_filters()).unwrap();
        assert!(!reader.properties().index_key_is_user_key);
        for snapshot in [200, 150, 3, 1, 0] {
            let mut seen = Vec::new();
            let lookup = LookupKey::new(b"key", SequenceNumber(snapshot));
            reader
                .get(&TableReadOptions::default(), &lookup, &mut |k, v| {
                    assert_eq!(v.bytes(), format!("{:050}", k.sequence.0).as_bytes());
                    seen.push(k.sequence.0);
                    true
                })
                .unwrap();
            assert_eq!(seen, (1..=snapshot).rev().collect::<Vec<_>>());
        }
    }
}

#[test]
fn tables_of_format_7_say_between_which_numbers_their_keys_lie() {
    let entries: Vec<_> = [9, 4, 7]
        .iter()
        .zip(b'a'..)
        .map(|(s, key)| (internal_key(&[key], SequenceNumber(*s), ValueType::Value), Vec::new()))
        .collect();
    let bounds = |version, entries: &[_]| {
        let table = BlockBasedTableOptions { format_version: version, ..Default::default() };
        let (bytes, _) = write_table(builder_options(table), entries.to_vec()).unwrap();
        let reader = open_bytes(&bytes, with_filters()).unwrap();
        (reader.properties().key_smallest_seqno, reader.properties().key_largest_seqno)
    };
    assert_eq!(bounds(7, &entries), (Some(4), Some(9)));
    // RocksDB 7.8 writes none.
    assert_eq!(bounds(5, &entries), (None, None));
}

type Cached = (Arc<TableReader>, Arc<esker_table::BlockCache>, Vec<(Vec<u8>, Vec<u8>)>);

fn cached_reader(cache_index: bool) -> Cached {
    let entries = sample_entries(&mut Rng::new(3), 2000, 60);
    let (bytes, _) = write_table(builder_options(with_filters()), entries.clone()).unwrap();
    let cache = Arc::new(Cache::lru(&CacheOptions::with_capacity(8 << 20)).unwrap());
    let table = BlockBasedTableOptions {
        block_cache: Some(cache.clone()),
        cache_index_and_filter_blocks: cache_index,
        ..with_filters()
    };
    (open_bytes(&bytes, table).unwrap(), cache, entries)
}

#[test]
fn blocks_are_cached_and_the_cache_alone_can_be_asked() {
    for cache_index in [false, true] {
        let (reader, cache, entries) = cached_reader(cache_index);
        let at_open = cache.occupancy_count();
        assert_eq!(at_open, if cache_index { 2 } else { 0 }, "the open reads index and filter");
        let lookup = LookupKey::new(&entries[900].0[..entries[900].0.len() - 8], SequenceNumber::MAX);
        let cached_only = TableReadOptions { read_tier: TableReadTier::BlockCache, ..Default::default() };
        let e = reader.get(&cached_only, &lookup, &mut |_, _| false).unwrap_err();
        assert_eq!(e.kind(), esker_base::ErrorKind::Incomplete);
        let mut iter = reader.iter(cached_only);
        iter.seek_to_first();
        assert_eq!(iter.status().unwrap_err().kind(), esker_base::ErrorKind::Incomplete);
        let no_trace = TableReadOptions { fill_cache: false, ..Default::default() };
        reader.get(&no_trace, &lookup, &mut |_, _| false).unwrap();
        assert_eq!(cache.occupancy_count(), at_open);
        reader.get(&TableReadOptions::default(), &lookup, &mut |_, _| false).unwrap();
        assert_eq!(cache.occupancy_count(), at_open + 1);
        let mut found = 0;
        reader
            .get(&cached_only, &lookup, &mut |_, _| {
                found += 1;
                false
            })
            .unwrap();
        assert_eq!(found, 1);
        let mut iter = reader.iter(TableReadOptions::default());
        let pinned: Vec<_> = std::iter::from_fn(|| {
            if iter.valid() {
                iter.next()
            } else {
                iter.seek_to_first()
            }
            iter.valid().then(|| iter.pinned_value())
        })
        .take(entries.len())
        .collect();
        drop((iter, reader));
        cache.set_capacity(0);
        assert!(
            pinned.iter().zip(&entries).all(|(p, e)| p.as_slice() == e.1),
            "pinned values outlive the reader and the cache"
        );
    }
}

#[test]
fn ingested_files_show_their_sequence() {
    let mut options = builder_options(BlockBasedTableOptions { block_size: 200, ..Default::default() });
    options.is_external_file = true;
    let entries: Vec<_> = (0..200)
        .map(|i| {
            (internal_key(format!("k{i:04}").as_bytes(), SequenceNumber(0), ValueType::Value), vec![b'v'; 20])
        })
        .chain([(internal_key(b"a", SequenceNumber(0), ValueType::RangeDeletion), b"b".to_vec())])
        .collect();
    let (bytes, _) = write_table(options, entries).unwrap();
    let mut open =
        TableReaderOptions::new(InternalKeyComparator::default(), Arc::default(), bytes.len() as u64);
    open.largest_seqno = Some(SequenceNumber(77));
    let reader = TableReader::open(memory_file(&bytes), open.clone()).unwrap();
    assert!(scan(&reader).unwrap().iter().all(|e| e.1 == 77));
    assert_eq!(scan(&reader).unwrap(), scan_backwards(&reader).unwrap());
    assert_eq!(
        reader.range_dels().unwrap().max_covering_seq(b"aa", reader.icmp(), SequenceNumber(77)),
        SequenceNumber(77)
    );
    let sees = |snapshot| {
        let mut seen = None;
        let lookup = LookupKey::new(b"k0100", SequenceNumber(snapshot));
        reader
            .get(&TableReadOptions::default(), &lookup, &mut |k, _| {
                seen = Some(k.sequence.0);
                true
            })
            .unwrap();
        seen
    };
    assert_eq!((sees(76), sees(77), sees(1000)), (None, Some(77), Some(77)));
    let mut iter = reader.iter(TableReadOptions::default());
    iter.seek(&internal_key(b"k0100", SequenceNumber(50), ValueType::SEEK));
    assert_eq!(entry(&iter).0, b"k0101", "at 50 the entry of k0100 is not there yet");
    iter.seek_for_prev(&internal_key(b"k0100", SequenceNumber(50), ValueType::SEEK));
    assert_eq!(entry(&iter).0, b"k0100");
    open.largest_seqno = Some(SequenceNumber(0));
    let reader = TableReader::open(memory_file(&bytes), open).unwrap();
    assert_eq!(reader.global_seqno(), None);
}

#[test]
fn a_prefix_filter_ends_a_seek() {
    let mut options =
        builder_options(BlockBasedTableOptions { whole_key_filtering: false, ..with_filters() });
    options.prefix_extractor = Some(prefix::fixed(3));
    let entries: Vec<_> = (0..100)
        .map(|i| {
            (internal_key(format!("{:03}-x", i * 10).as_bytes(), SequenceNumber(5), ValueType::Value), vec![])
        })
        .collect();
    let (bytes, _) = write_table(options, entries).unwrap();
    let mut open = TableReaderOptions::new(
        InternalKeyComparator::default(),
        Arc::new(with_filters()),
        bytes.len() as u64,
    );
    open.prefix_extractor = Some(prefix::fixed(3));
    let reader = TableReader::open(memory_file(&bytes), open.clone()).unwrap();
    let target = |i: u32| internal_key(format!("{i:03}").as_bytes(), SequenceNumber::MAX, ValueType::SEEK);
    let mut denied = 0;
    for i in 0..1000 {
        let user_key = format!("{i:03}").into_bytes();
        let passes = reader.may_contain_prefix(&TableReadOptions::default(), &user_key);
        assert!(passes || i % 10 != 0);
        denied += u32::from(!passes);
        let mut iter = reader.iter(TableReadOptions { prefix_filter_on_seek: true, ..Default::default() });
        iter.seek(&target(i));
        assert_eq!(iter.valid(), i <= 990, "the scan is not limited to a prefix");
        iter.set_wanted_prefix_of(Some(&user_key));
        iter.seek(&target(i));
        assert_eq!(iter.valid(), passes && i <= 990);
        iter.seek(&target(500));
        assert_eq!(iter.valid(), passes, "the target's own prefix does not matter");
    }
    assert!(denied > 850, "{denied}");
    open.prefix_extractor = Some(prefix::fixed(4));
    let reader = TableReader::open(memory_file(&bytes), open).unwrap();
    assert!(
        reader.may_contain_prefix(&TableReadOptions::default(), b"005"),
        "a filter of another extractor is not used"
    );
}

#[test]
fn offsets_and_anchors_follow_the_keys() {
    let entries = sample_entries(&mut Rng::new(6), 10_000, 60);
    let (bytes, info) =
        write_table(builder_options(BlockBasedTableOptions::default()), entries.clone()).unwrap();
    let reader = open_bytes(&bytes, BlockBasedTableOptions::default()).unwrap();
    let mut last = 0;
    for e in entries.iter().step_by(100) {
        let offset = reader.approximate_offset_of(&e.0);
        assert!(offset >= last && offset <= info.properties.data_size);
        last = offset;
    }
    let beyond = internal_key(b"z", SequenceNumber(1), ValueType::Value);
    assert_eq!(reader.approximate_offset_of(&beyond), info.properties.data_size);
    let half = reader.approximate_size(&entries[0].0, &entries[5000].0);
    assert!(half.abs_diff(info.properties.data_size / 2) < info.properties.data_size / 20);
    let anchors = reader.anchors(16).unwrap();
    assert!((14..=16).contains(&anchors.len()), "{}", anchors.len());
    assert!(anchors.windows(2).all(|w| w[0].0 < w[1].0));
}

#[test]
fn readers_are_opened_once_and_can_be_forgotten() {
    let fs = Arc::new(MemFs::new());
    fs.create_dir_if_missing(Path::new("/db")).unwrap();
    let mut metas = Vec::new();
    for number in 1..=5u64 {
        let mut file = fs.new_writable_file(&PathBuf::from(format!("/db/{number:06}.sst"))).unwrap();
        let entries = sample_entries(&mut Rng::new(number), 50, 10);
        let mut options = builder_options(BlockBasedTableOptions::default());
        options.orig_file_number = FileNumber(number);
        let (bytes, info) = write_table(options, entries).unwrap();
        file.append(&bytes).unwrap();
        file.close().unwrap();
        metas.push(FileMetaData {
            number: FileNumber(number),
            file_size: info.file_size,
            unique_id: info.unique_id,
            tail_size: info.tail_size,
            ..FileMetaData::default()
        });
    }
    let cache = TableCache::new(
        fs.clone(),
        TableCacheOptions {
            max_file_size_for_l0_meta_pin: u64::MAX,
            uncache_aggressiveness: 0,
            block_protection_bytes_per_key: 0,
            icmp: InternalKeyComparator::default(),
            table_options: Arc::default(),
            prefix_extractor: None,
            compression_manager: None,
            merge_operator: None,
            paths: esker_format::file_name::FilePaths::one("/db"),
            open_files: OpenFiles::new(Some(3)),
            verify_unique_ids: true,
            num_levels: 7,
            default_temperature: 0,
            family_name: "default".into(),
            statistics: None,
            clock: Arc::new(esker_env::SystemClock),
            blob_cache: None,
            use_direct_reads: false,
        },
    );
    let file = |i: usize| TableFile { meta: &metas[i], level: Some(1) };
    let first = cache.reader(&file(0)).unwrap();
    assert!(Arc::ptr_eq(&first, &cache.reader(&file(0)).unwrap()));
    cache.evict(FileNumber(1));
    assert!(!Arc::ptr_eq(&first, &cache.reader(&file(0)).unwrap()));
    assert_eq!(scan(&first).unwrap().len(), 50);
    drop(first);
    for i in 0..5 {
        cache.reader(&file(i)).unwrap();
    }
    assert!(cache.len() <= 3, "{} of at most 3 are open", cache.len());
    let swapped = FileMetaData { number: FileNumber(2), ..metas[3].clone() };
    cache.evict(FileNumber(2));
    let e = cache.reader(&TableFile { meta: &swapped, level: None }).unwrap_err();
    assert!(e.is_corruption(), "{e}");
    cache.reader(&file(1)).unwrap();
}

#[test]
fn hits_misses_and_filters_are_counted() {
    use esker_base::stats::{Statistics, Ticker};
    let entries = sample_entries(&mut Rng::new(7), 2000, 60);
    let (bytes, _) = write_table(builder_options(with_filters()), entries.clone()).unwrap();
    let cache = Arc::new(Cache::lru(&CacheOptions::with_capacity(8 << 20)).unwrap());
    let table = BlockBasedTableOptions { block_cache: Some(cache), ..with_filters() };
    let statistics = Arc::new(Statistics::new());
    let mut open =
        TableReaderOptions::new(InternalKeyComparator::default(), Arc::new(table), bytes.len() as u64);
    open.statistics = Some(statistics.clone());
    let reader = TableReader::open(memory_file(&bytes), open).unwrap();
    let user_key = &entries[50].0[..11];
    let options = TableReadOptions::default();
    for key in [user_key, user_key, b"absent"] {
        let lookup = LookupKey::new(key, SequenceNumber::MAX);
        reader.get(&options, &lookup, &mut |_, _| false).unwrap();
    }
    let count = |t| statistics.ticker_count(t);
    assert_eq!((count(Ticker::BlockCacheDataMiss), count(Ticker::BlockCacheDataHit)), (1, 1));
    assert_eq!((count(Ticker::BlockCacheMiss), count(Ticker::BlockCacheAdd)), (1, 1));
    assert_eq!((count(Ticker::BloomFilterUseful), count(Ticker::BloomFilterFullPositive)), (1, 2));
    assert_eq!(count(Ticker::BloomFilterFullTruePositive), 2);
}
