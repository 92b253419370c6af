//! Every layout of tables and every way to read them shows the contents of a map, with odd keys,
//! odd sizes, and other options at each opening.

use esker::comparator::{Comparator, ComparatorRef};
use esker::internals::base::prefix;
use esker::internals::cache::{CacheOptions, CacheType};
use esker::internals::env::mem::MemFs;
use esker::internals::format::properties::IndexType;
use esker::internals::format::trailer::ChecksumType;
use esker::internals::table::{BlockCache, DataBlockIndexType, FilterPolicy, IndexShorteningMode};
use esker::options::{
    CompressionType, MetadataCacheOptions, PinningTier, PrepopulateBlockCache, TargetVersion,
};
use esker::{Db, DbIterator, Env, ErrorKind, Options, ReadOptions, ReadTier, SstFileWriter, WriteOptions};
use esker_testkit::seed::for_each_seed;
use fastrand::Rng;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

fn pick<T: Clone>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.usize(..from.len())].clone()
}

fn random_options(rng: &mut Rng, env: &Env, order: &ComparatorRef) -> Options {
    let mut options = Options::default();
    options.db.env = env.clone();
    options.db.create_if_missing = true;
    options.db.compatible_with = TargetVersion::V11_10;
    options.db.max_open_files = pick(rng, &[-1, 10, 20]);
    let cf = &mut options.cf;
    cf.comparator = order.clone();
    cf.merge_operator = esker::builtin::merge_operator("stringappend");
    cf.prefix_extractor = match rng.u8(..6) {
        // Keys of one prefix must be contiguous in the order.
        _ if order.name() == "by-length" => None,
        0 => None,
        1 => Some(prefix::fixed(1)),
        2 => Some(prefix::fixed(3)),
        3 => Some(prefix::capped(1)),
        4 => Some(prefix::capped(4)),
        _ => Some(prefix::capped(1000)),
    };
    cf.write_buffer_size = 1 << 20;
    cf.target_file_size_base = pick(rng, &[1, 4 << 10, 1 << 20]);
    cf.max_bytes_for_level_base = pick(rng, &[4 << 10, 1 << 20]);
    cf.level0_file_num_compaction_trigger = pick(rng, &[2, 4, 100]);
    cf.level0_slowdown_writes_trigger = 1000;
    cf.level0_stop_writes_trigger = 1000;
    cf.optimize_filters_for_hits = rng.u8(..4) == 0;
    cf.deleted_run_block_min_entries = pick(rng, &[0, 1, 64]);
    cf.memtable_protection_bytes_per_key = pick(rng, &[0, 8]);
    cf.block_protection_bytes_per_key = pick(rng, &[0, 0, 1, 8]);
    cf.compression = pick(rng, &[CompressionType::None, CompressionType::Lz4, CompressionType::Zstd]);
    if rng.bool() {
        cf.compression_opts.max_dict_bytes = pick(rng, &[1, 256]);
        cf.compression_opts.zstd_max_train_bytes = pick(rng, &[0, 4096]);
        cf.compression_opts.max_dict_buffer_bytes = pick(rng, &[0, 1, 1000]);
    }
    cf.deleted_run_memory_min_keys = pick(rng, &[0, 1, 64]);
    let has_prefixes = cf.prefix_extractor.is_some();
    let is_plain = cf.compression == CompressionType::None;
    let table = &mut cf.table;
    table.block_size = pick(rng, &[1, 64, 512, 4096]);
    table.block_size_deviation = pick(rng, &[0, 10, 100]);
    table.block_restart_interval = pick(rng, &[1, 2, 16, 1000]);
    table.index_block_restart_interval = pick(rng, &[1, 2, 1000]);
    table.use_delta_encoding = rng.u8(..4) > 0;
    table.format_version = pick(rng, &[2, 3, 4, 5, 6, 7, 8, 8]);
    table.checksum = pick(
        rng,
        &[
            ChecksumType::NoChecksum,
            ChecksumType::Crc32c,
            ChecksumType::XxHash,
            ChecksumType::XxHash64,
            ChecksumType::Xxh3,
        ],
    );
    table.filter_policy = match rng.u8(..5) {
        0 => None,
        1 => Some(FilterPolicy::bloom(1.0)),
        2 => Some(FilterPolicy::bloom(20.0)),
        3 => Some(FilterPolicy::ribbon(10.0, pick(rng, &[-1, 0, 1]))),
        _ => Some(FilterPolicy::ribbon(1.0, -1)),
    };
    table.whole_key_filtering = rng.bool();
    table.index_type = match rng.u8(..5) {
        0 | 1 => IndexType::TwoLevel,
        2 => IndexType::BinarySearchWithFirstKey,
        3 if has_prefixes => IndexType::HashSearch,
        _ => IndexType::BinarySearch,
    };
    table.metadata_block_size = pick(rng, &[1, 64, 512, 4096]);
    table.partition_filters = rng.bool();
    table.decouple_partitioned_filters = rng.bool();
    table.optimize_filters_for_memory = rng.bool();
    table.data_block_index_type =
        pick(rng, &[DataBlockIndexType::BinarySearch, DataBlockIndexType::BinaryAndHash]);
    table.data_block_hash_table_util_ratio = pick(rng, &[0.01, 0.75, 10.0]);
    table.separate_key_value_in_data_block = rng.u8(..3) == 0;
    table.super_block_alignment_size = pick(rng, &[0, 0, 1024]);
    table.super_block_alignment_space_overhead_ratio = 4;
    table.verify_compression = rng.bool();
    table.index_shortening = pick(
        rng,
        &[
            IndexShorteningMode::NoShortening,
            IndexShorteningMode::ShortenSeparators,
            IndexShorteningMode::ShortenSeparatorsAndSuccessor,
        ],
    );
    table.enable_index_compression = rng.bool();
    table.block_align = is_plain && table.block_size >= 64 && rng.u8(..3) == 0;
    table.no_block_cache = rng.u8(..5) == 0;
    if !table.no_block_cache {
        let cache_type = pick(
            rng,
            &[
                CacheType::Lru,
                CacheType::AutoHyperClock,
                CacheType::FixedHyperClock { estimated_entry_charge: 512 },
            ],
        );
        let capacity = pick(rng, &[1, 2000, 20_000, 1 << 20]);
        let metadata = rng.bool();
        let cache = BlockCache::new(&CacheOptions {
            cache_type,
            strict_capacity_limit: capacity == 1 << 20 && rng.bool(),
            ..CacheOptions::with_capacity(capacity)
        });
        table.block_cache = Some(Arc::new(cache.unwrap()));
        if rng.u8(..3) == 0 {
            let bytes = pick(rng, &[1, 20_000, 1 << 20]);
            let text = format!(
                "id=auto_hyper_clock_cache;capacity={capacity};secondary_cache=compressed_secondary_cache://capacity={bytes}"
            );
            table.block_cache = esker::options::block_cache_from_string(&text).unwrap();
        }
        table.cache_index_and_filter_blocks = metadata;
        table.cache_index_and_filter_blocks_with_high_priority = rng.bool();
        table.pin_l0_filter_and_index_blocks_in_cache = rng.bool();
        table.pin_top_level_index_and_filter = rng.bool();
        let tiers =
            [PinningTier::Fallback, PinningTier::None, PinningTier::FlushedAndSimilar, PinningTier::All];
        table.metadata_cache_options = MetadataCacheOptions {
            top_level_index_pinning: pick(rng, &tiers),
            partition_pinning: pick(rng, &tiers),
            unpartitioned_pinning: pick(rng, &tiers),
        };
        table.prepopulate_block_cache = pick(
            rng,
            &[
                PrepopulateBlockCache::Disable,
                PrepopulateBlockCache::FlushOnly,
                PrepopulateBlockCache::FlushAndCompaction,
            ],
        );
    }
    table.initial_auto_readahead_size = pick(rng, &[0, 100, 8 << 10]);
    table.max_auto_readahead_size = pick(rng, &[0, 1000, 256 << 10]);
    table.num_file_reads_for_auto_readahead = pick(rng, &[0, 2]);
    options
}

/// A key of few different letters, so that many share prefixes; sometimes an empty or long one.
fn random_key(rng: &mut Rng) -> Vec<u8> {
    let length = pick(rng, &[0, 1, 2, 3, 4, 5, 5, 5, 6, 6, 6, 8, 9, 12, 40, 300]);
    let letters = pick(rng, &[&[0, 0xFF, b'a', b'b'][..], b"abc"]);
    let mut key: Vec<u8> = (0..length).map(|_| pick(rng, letters)).collect();
    if length >= 40 {
        key[4..length - 2].fill(b'a');
    }
    key
}

/// A map in the family's order.
struct Model {
    map: BTreeMap<Vec<u8>, Vec<u8>>,
    order: ComparatorRef,
    /// The timestamp of the last write, if keys have timestamps.
    time: Option<u64>,
}

/// Orders keys by length, then by bytes.
struct ByLength;

impl Comparator for ByLength {
    fn name(&self) -> &str {
        "by-length"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    }
}

impl Model {
    /// The timestamp of the next write, if keys have timestamps.
    fn tick(&mut self) -> Option<[u8; 8]> {
        self.time = self.time.map(|time| time + 1);
        self.time.map(u64::to_le_bytes)
    }

    /// The order of keys without timestamps.
    fn plain_order(&self) -> ComparatorRef {
        self.order.without_timestamp().unwrap_or_else(|| self.order.clone())
    }

    fn before(&self, a: &[u8], b: &[u8]) -> bool {
        self.plain_order().compare(a, b).is_lt()
    }

    /// The keys within the bounds, in the family's order.
    fn keys(&self, lower: Option<&[u8]>, upper: Option<&[u8]>) -> Vec<&Vec<u8>> {
        let mut keys: Vec<_> = (self.map.keys())
            .filter(|key| {
                lower.is_none_or(|l| !self.before(key, l)) && upper.is_none_or(|u| self.before(key, u))
            })
            .collect();
        let order = self.plain_order();
        keys.sort_by(|a, b| order.compare(a, b));
        keys
    }
}

fn random_read(rng: &mut Rng, time: Option<u64>) -> ReadOptions {
    ReadOptions {
        verify_checksums: rng.bool(),
        fill_cache: rng.bool(),
        read_tier: if rng.u8(..6) == 0 { ReadTier::BlockCache } else { ReadTier::ReadAll },
        readahead_size: pick(rng, &[0, 0, 1, 5000]),
        async_io: rng.bool(),
        total_order_seek: rng.u8(..3) == 0,
        auto_prefix_mode: rng.u8(..3) == 0,
        pin_data: rng.u8(..3) == 0,
        timestamp: time.map(|t| t.to_le_bytes().to_vec()),
        ..ReadOptions::default()
    }
}

fn check_gets(db: &Db, model: &Model, rng: &mut Rng) {
    let family = db.default_column_family();
    let known: Vec<&Vec<u8>> = model.map.keys().collect();
    let any = |rng: &mut Rng| {
        if known.is_empty() || rng.u8(..4) == 0 { random_key(rng) } else { pick(rng, &known).clone() }
    };
    for _ in 0..20 {
        let (key, read) = (any(rng), random_read(rng, model.time));
        match db.get_opt(&read, &family, &key) {
            Ok(value) => assert_eq!(value.as_ref(), model.map.get(&key), "{key:?} {read:?}"),
            Err(e) => assert!(is_allowed(&read, e.kind()), "{e}"),
        }
        if model.time.is_none() && model.map.contains_key(&key) {
            assert!(db.key_may_exist(&family, &key));
        }
    }
    let keys: Vec<Vec<u8>> = (0..rng.usize(1..80)).map(|_| any(rng)).collect();
    let read = random_read(rng, model.time);
    for (key, value) in keys.iter().zip(db.multi_get_opt(&read, &family, &keys)) {
        match value {
            Ok(value) => {
                assert_eq!(value.as_deref(), model.map.get(key).map(|v| &v[..]), "{key:?} {read:?}");
            }
            Err(e) => assert!(is_allowed(&read, e.kind()), "{e}"),
        }
    }
}

fn is_allowed(read: &ReadOptions, kind: ErrorKind) -> bool {
    read.read_tier == ReadTier::BlockCache && kind == ErrorKind::Incomplete
}

fn check_scan(db: &Db, options: &Options, model: &Model, rng: &mut Rng) {
    let mut read = random_read(rng, model.time);
    read.prefix_same_as_start = rng.u8(..3) == 0;
    let bound = |rng: &mut Rng| (rng.u8(..3) == 0).then(|| random_key(rng));
    (read.iterate_lower_bound, read.iterate_upper_bound) = (bound(rng), bound(rng));
    let text = format!("{read:?}");
    let keys = model.keys(read.iterate_lower_bound.as_deref(), read.iterate_upper_bound.as_deref());
    let stays = read.prefix_same_as_start;
    let extractor = options.cf.prefix_extractor.clone().filter(|_| stays);
    let prefix_of = |key: &[u8]| extractor.as_ref().and_then(|e| e.transform(key)).map(<[u8]>::to_vec);
    let opened = db.iter_opt(read.clone(), &db.default_column_family());
    let mut iter: DbIterator = match opened {
        Ok(iter) => iter,
        Err(e) => return assert!(is_allowed(&read, e.kind()), "{e}"),
    };
    let before = |a: &[u8], b: &[u8]| model.before(a, b);
    for _ in 0..12 {
        let target = if keys.is_empty() || rng.bool() { random_key(rng) } else { pick(rng, &keys).clone() };
        let (mut at, wanted): (Option<usize>, Option<Vec<u8>>) = match rng.u8(..8) {
            0 => {
                iter.seek_to_first();
                let at = (!keys.is_empty()).then_some(0);
                (at, at.and_then(|i| prefix_of(keys[i])))
            }
            1 => {
                iter.seek_to_last();
                let at = keys.len().checked_sub(1);
                (at, at.and_then(|i| prefix_of(keys[i])))
            }
            2..=5 => {
                iter.seek(&target);
                (keys.iter().position(|key| !before(key, &target)), prefix_of(&target))
            }
            _ => {
                iter.seek_for_prev(&target);
                (keys.iter().rposition(|key| !before(&target, key)), prefix_of(&target))
            }
        };
        let stay = |at: Option<usize>| {
            at.filter(|&i| i < keys.len()).filter(|&i| wanted.is_none() || prefix_of(keys[i]) == wanted)
        };
        at = stay(at);
        for _ in 0..rng.usize(..30) {
            if let Err(e) = iter.status() {
                assert!(is_allowed(&read, e.kind()), "{e}");
                break;
            }
            let expected = at.map(|i| (&keys[i][..], &model.map[keys[i]][..]));
            assert_eq!(iter.item(), expected, "target {target:?}, {text}");
            let Some(i) = at else { break };
            at = if rng.u8(..4) > 0 {
                iter.next();
                stay(Some(i + 1))
            } else {
                iter.prev();
                stay(i.checked_sub(1))
            };
        }
    }
}

/// Makes some writes of all kinds.
fn write(db: &Db, model: &mut Model, rng: &mut Rng) {
    let (options, family) = (WriteOptions::default(), db.default_column_family());
    for _ in 0..pick(rng, &[1, 10, 60, 150]) {
        let (key, now) = (random_key(rng), model.tick());
        match rng.u8(..20) {
            0..12 => {
                let value = vec![b'v'; pick(rng, &[0, 1, 20, 20, 3000])];
                match now {
                    None => db.put(&key, &value),
                    Some(now) => db.put_with_ts(&options, &family, &key, &now, &value),
                }
                .unwrap();
                model.map.insert(key, value);
            }
            12..16 => {
                match now {
                    None => db.delete(&key),
                    Some(now) => db.delete_with_ts(&options, &family, &key, &now),
                }
                .unwrap();
                model.map.remove(&key);
            }
            16..19 => {
                match now {
                    None => db.merge(&key, b"m"),
                    Some(now) => db.merge_with_ts(&options, &family, &key, &now, b"m"),
                }
                .unwrap();
                let merged = model.map.get(&key).map(|value| [value, &b",m"[..]].concat());
                model.map.insert(key, merged.unwrap_or(b"m".to_vec()));
            }
            _ => {
                let other = random_key(rng);
                let (low, high) = if model.before(&key, &other) { (key, other) } else { (other, key) };
                match now {
                    None => db.delete_range(&low, &high),
                    Some(now) => db.delete_range_with_ts(&options, &family, &low, &high, &now),
                }
                .unwrap();
                let gone: Vec<Vec<u8>> = model.keys(Some(&low), Some(&high)).into_iter().cloned().collect();
                gone.iter().for_each(|key| drop(model.map.remove(key)));
            }
        }
    }
}

/// Ingests a table that was written with the options `of_writer`.
fn ingest(db: &Db, of_writer: &Options, model: &mut Model, rng: &mut Rng) {
    let keys: BTreeMap<Vec<u8>, Vec<u8>> = (0..pick(rng, &[1, 10, 100]))
        .map(|_| (random_key(rng), rng.u64(..).to_string().into_bytes()))
        .collect();
    let timestamp = model.tick().map_or(Vec::new(), |now| now.to_vec());
    let mut writer = SstFileWriter::new(of_writer);
    let path = format!("/{}.sst", rng.u64(..));
    writer.open(&path).unwrap();
    let file = Model { map: keys, order: model.order.clone(), time: None };
    for key in file.keys(None, None) {
        writer.put([&key[..], &timestamp].concat(), &file.map[key]).unwrap();
    }
    writer.finish().unwrap();
    db.ingest_external_file(&[path]).unwrap();
    model.map.extend(file.map);
}

#[test]
fn every_layout_shows_what_was_written() {
    for_each_seed("layouts", 5, |seed, mut rng| {
        let rng = &mut rng;
        let env = Env::with_fs(Arc::new(MemFs::new()));
        let by_name = |name| esker::comparator::by_name(name).unwrap();
        let order: ComparatorRef = match seed % 5 {
            0 => by_name("leveldb.BytewiseComparator"),
            1 => by_name("rocksdb.ReverseBytewiseComparator"),
            2 => by_name("leveldb.BytewiseComparator.u64ts"),
            3 => by_name("rocksdb.ReverseBytewiseComparator.u64ts"),
            _ => Arc::new(ByLength),
        };
        let time = (order.timestamp_size() > 0).then_some(0);
        let mut model = Model { map: BTreeMap::new(), order: order.clone(), time };
        for _ in 0..5 {
            let options = random_options(rng, &env, &order);
            let db = Db::open(&options, "/db").unwrap();
            for _ in 0..rng.usize(1..6) {
                write(&db, &mut model, rng);
                if rng.u8(..4) == 0 {
                    ingest(&db, &random_options(rng, &env, &order), &mut model, rng);
                }
                match rng.u8(..8) {
                    0 => db.compact_range(None::<&[u8]>, None::<&[u8]>).unwrap(),
                    1..6 => db.flush().unwrap(),
                    _ => {}
                }
                check_gets(&db, &model, rng);
                (0..3).for_each(|_| check_scan(&db, &options, &model, rng));
            }
            db.verify_checksum().unwrap();
            db.close().unwrap();
        }
    });
}

/// Partitioned filters and indexes lead to the partition with the key, wherever they are cut.
#[test]
fn parts_of_filters_and_indexes_are_found_by_keys_with_timestamps() {
    for name in ["leveldb.BytewiseComparator.u64ts", "rocksdb.ReverseBytewiseComparator.u64ts"] {
        for (decoupled, index_restarts, version) in [(true, 1, 5), (false, 1, 5), (true, 4, 2), (false, 4, 2)]
        {
            let mut options = Options::default();
            options.db.create_if_missing = true;
            options.db.env = Env::with_fs(Arc::new(MemFs::new()));
            options.cf.comparator = esker::comparator::by_name(name).unwrap();
            options.cf.disable_auto_compactions = true;
            let table = &mut options.cf.table;
            table.filter_policy = Some(FilterPolicy::bloom(20.0));
            (table.index_type, table.partition_filters) = (IndexType::TwoLevel, true);
            table.decouple_partitioned_filters = decoupled;
            (table.metadata_block_size, table.block_size) = (64, 64);
            (table.index_block_restart_interval, table.format_version) = (index_restarts, version);
            let db = Db::open(&options, "/db").unwrap();
            let (write, family) = (WriteOptions::default(), db.default_column_family());
            let keys: Vec<String> =
                (0..300).map(|n| format!("{n:03}{}", "x".repeat(n as usize % 14))).collect();
            for (n, key) in keys.iter().enumerate() {
                for time in 1..=1 + n as u64 % 3 {
                    db.put_with_ts(&write, &family, key, &u64::to_le_bytes(time), format!("{key}@{time}"))
                        .unwrap();
                }
            }
            db.flush().unwrap();
            for (n, key) in keys.iter().enumerate() {
                for time in 1..=4 {
                    let expected = format!("{key}@{}", time.min(1 + n as u64 % 3));
                    let at = ReadOptions {
                        timestamp: Some(time.to_le_bytes().to_vec()),
                        ..ReadOptions::default()
                    };
                    let found = db.get_opt(&at, &family, key).unwrap();
                    assert_eq!(
                        found.as_deref(),
                        Some(expected.as_bytes()),
                        "{name} {decoupled} {key} at {time}"
                    );
                }
            }
            db.close().unwrap();
        }
    }
}
