//! Options whose effects both engines count or store: the same work gives the same numbers.

use esker::internals::env::{FileSystem, PosixFileSystem};
use esker::internals::format::handle::BlockHandle;
use esker::internals::format::key::InternalKeyComparator;
use esker::internals::table::{TableReader, TableReaderOptions};
use esker::options::{BlockCache, CacheOptions, CacheType, cf_options_from_string};
use esker::stats::{Statistics, Ticker};
use esker::{ColumnFamilyOptions, Db, Options, SstFileWriter, builtin};
use esker_peer::{FamilySpec, PeerOp, RocksDb, WriteFlags, require, write_sst_file};
use esker_testkit::{TempDir, seed};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn put(key: &str, value: &[u8]) -> PeerOp {
    PeerOp::Put { family: "default".to_owned(), key: key.as_bytes().to_vec(), value: value.to_vec() }
}

/// One database of each engine, with row caches and statistics.
struct TwoRowCaches {
    rocks: RocksDb,
    esker: Db,
    statistics: Arc<Statistics>,
    seen: [(u64, u64); 2],
}

impl TwoRowCaches {
    fn open(dir: &TempDir) -> TwoRowCaches {
        let text = "create_if_missing=true;disable_auto_compactions=true;\
                    merge_operator={id=StringAppendOperator;delimiter=,};";
        let rocks = RocksDb::open_counted(&dir.join("rocks"), text, 8 << 20).expect("opens");
        let mut options = Options::new().create_if_missing(true);
        options.cf.disable_auto_compactions = true;
        options.cf.merge_operator = Some(builtin::string_append(","));
        // A clock may evict a row below its capacity.
        let cache = CacheOptions { cache_type: CacheType::Lru, ..CacheOptions::with_capacity(8 << 20) };
        options.db.row_cache = Some(Arc::new(BlockCache::new(&cache).expect("a cache")));
        let statistics = Arc::new(Statistics::new());
        options.db.statistics = Some(statistics.clone());
        let esker = Db::open(&options, dir.join("esker")).expect("opens");
        TwoRowCaches { rocks, esker, statistics, seen: [(0, 0); 2] }
    }

    /// Hits and misses of RocksDB and of Esker since the last call.
    fn counts(&mut self) -> [(u64, u64); 2] {
        let rocks = (self.rocks.ticker("rocksdb.row.cache.hit"), self.rocks.ticker("rocksdb.row.cache.miss"));
        let count = |ticker| self.statistics.ticker_count(ticker);
        let now = [rocks, (count(Ticker::RowCacheHit), count(Ticker::RowCacheMiss))];
        let before = std::mem::replace(&mut self.seen, now);
        [0, 1].map(|i| (now[i].0 - before[i].0, now[i].1 - before[i].1))
    }

    /// Writes a table that spans all keys: RocksDB asks up to three files of level 0 for keys
    /// beyond their bounds, too.
    fn flush(&self) {
        for bound in ["00", "59"] {
            self.esker.put(bound, "bound").expect("written");
            self.rocks.write(&[put(bound, b"bound")], WriteFlags::default()).expect("written");
        }
        self.esker.flush().expect("flushed");
        self.rocks.flush("default").expect("flushed");
    }

    fn change(&self, rng: &mut fastrand::Rng, step: u32) {
        let (key, family) = (format!("{:02}", rng.u32(..60)), || "default".to_owned());
        let value = step.to_string();
        let (op, done) = match rng.u8(..4) {
            0 => {
                let op = PeerOp::Delete { family: family(), key: key.clone().into_bytes() };
                (op, self.esker.delete(&key))
            }
            1 => {
                let (k, operand) = (key.clone().into_bytes(), value.clone().into_bytes());
                (PeerOp::Merge { family: family(), key: k, operand }, self.esker.merge(&key, &value))
            }
            _ => (put(&key, value.as_bytes()), self.esker.put(&key, &value)),
        };
        done.expect("written");
        self.rocks.write(&[op], WriteFlags::default()).expect("written");
    }
}

#[test]
fn both_engines_look_up_the_same_rows_in_gets_and_multi_gets() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    let (mut hits, mut misses) = (0, 0);
    seed::for_each_seed("row-cache", 6, |seed, mut rng| {
        let dir = TempDir::new("row-cache");
        let mut two = TwoRowCaches::open(&dir);
        for step in 0..400 {
            match rng.u8(..20) {
                0 => two.flush(),
                1 if rng.u8(..4) == 0 => {
                    // Either engine may move a single table, whose rows then stay.
                    two.flush();
                    two.flush();
                    two.esker.compact_range(None, None).expect("compacted");
                    two.rocks.compact("default");
                }
                2..10 => {
                    let (first, stride) = (rng.u32(..60), rng.u32(1..4));
                    let count = rng.u32(1..20).min((59 - first) / stride + 1);
                    let keys: Vec<String> =
                        (0..count).map(|i| format!("{:02}", first + i * stride)).collect();
                    let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
                    let theirs = two.rocks.multi_get("default", &keys).expect("read");
                    let ours = two.esker.multi_get(&keys).into_iter();
                    let ours: Vec<_> = ours.map(|v| v.expect("read").map(|v| v.to_vec())).collect();
                    assert_eq!(ours, theirs, "seed {seed}, step {step}");
                    let [theirs, ours] = two.counts();
                    assert_eq!(ours, theirs, "seed {seed}, step {step}: hits and misses of {count} keys");
                    (hits, misses) = (hits + ours.0, misses + ours.1);
                }
                _ => two.change(&mut rng, step),
            }
        }
    });
    assert!(hits > 500 && misses > 500, "{hits} hits, {misses} misses");
}

fn open_table(path: &Path, family: &str) -> Arc<TableReader> {
    let options = cf_options_from_string(&ColumnFamilyOptions::default(), family).expect("options");
    let file = PosixFileSystem.new_random_access_file(path).expect("opened");
    let size = PosixFileSystem.file_size(path).expect("sized");
    let options = TableReaderOptions::new(InternalKeyComparator::default(), Arc::new(options.table), size);
    TableReader::open(file, options).expect("a table")
}

/// The same table of both engines: RocksDB's, then Esker's.
fn tables(dir: &TempDir, family: &str, ops: &[PeerOp]) -> [(Vec<u8>, Arc<TableReader>); 2] {
    let paths = [dir.join("theirs.sst"), dir.join("ours.sst")];
    write_sst_file(&paths[0], family, ops).expect("written");
    let mut options = Options::default();
    options.cf = cf_options_from_string(&options.cf, family).expect("options");
    let mut writer = SstFileWriter::new(&options);
    writer.open(&paths[1]).expect("opened");
    for op in ops {
        let PeerOp::Put { key, value, .. } = op else { panic!("only puts") };
        writer.put(key, value).expect("added");
    }
    writer.finish().expect("finished");
    paths.map(|path| (std::fs::read(&path).expect("read"), open_table(&path, family)))
}

/// Values of which shares of different sizes can be compressed away.
fn mixed_values(rng: &mut fastrand::Rng) -> Vec<PeerOp> {
    (0..120)
        .map(|n| {
            let noise = [0, 10, 40, 60, 75, 93, 100][n % 7] * 40;
            let value: Vec<u8> = (0..4000).map(|at| if at < noise { rng.u8(..) } else { b'=' }).collect();
            put(&format!("{n:03}"), &value)
        })
        .collect()
}

/// Places of the data blocks, and whether each is compressed.
fn blocks(table: &TableReader) -> Vec<(BlockHandle, bool)> {
    let mut all = Vec::new();
    let mut visit = |block: esker::internals::table::DataBlock<'_>| {
        all.push((block.handle, block.handle.size < block.block.bytes().len() as u64));
        Ok(())
    };
    table.for_each_data_block(&mut visit).expect("readable");
    all
}

#[test]
fn both_engines_compress_the_same_blocks_and_add_checksums() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    let ops = mixed_values(&mut seed::rng("compressed blocks"));
    let mut seen = Vec::new();
    for (i, max) in [-1, 0, 1, 250, 512, 700, 896, 1000, 1024, 5000].into_iter().enumerate() {
        for codec in ["kZSTD", "kLZ4Compression", "kSnappyCompression"] {
            let checksum = i % 2 == 1;
            let family = format!(
                "compression={codec};block_based_table_factory={{block_size=1000;}};\
                 compression_opts={{max_compressed_bytes_per_kb={max};checksum={checksum};}};"
            );
            let dir = TempDir::new("compressed-blocks");
            let [theirs, ours] = tables(&dir, &family, &ops).map(|(bytes, table)| {
                let blocks = blocks(&table);
                // zstd's frame: size, magic number, descriptor, whose bit 2 stands for a checksum.
                let has_checksum = |handle: BlockHandle| bytes[handle.offset as usize + 2 + 4] & 4 != 0;
                blocks
                    .into_iter()
                    .map(|(handle, is_compressed)| {
                        (is_compressed, is_compressed && codec == "kZSTD" && has_checksum(handle))
                    })
                    .collect::<Vec<_>>()
            });
            assert_eq!(ours, theirs, "{family}");
            let compressed = ours.iter().filter(|(is_compressed, _)| *is_compressed).count();
            let checked = ours.iter().filter(|(_, is_checked)| *is_checked).count();
            assert_eq!(checked, if checksum && codec == "kZSTD" { compressed } else { 0 }, "{family}");
            seen.push(compressed);
        }
    }
    seen.sort_unstable();
    seen.dedup();
    assert!(seen.len() > 4, "{seen:?}");
}

#[test]
fn both_engines_estimate_the_same_sizes_of_samples() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    let ops = mixed_values(&mut seed::rng("samples"));
    for (one_in, codec) in [(0, "kZSTD"), (1, "kNoCompression"), (1, "kZSTD"), (1_000_000, "kNoCompression")]
    {
        let family = format!("compression={codec};sample_for_compression={one_in};");
        let dir = TempDir::new("samples");
        let [theirs, ours] = tables(&dir, &family, &ops).map(|(_, table)| {
            let p = table.properties();
            (p.slow_compression_estimated_data_size, p.fast_compression_estimated_data_size)
        });
        if one_in == 1 {
            let ratio = |ours: u64, theirs: u64| ours as f64 / theirs as f64;
            // Other versions of the codecs.
            assert!((ratio(ours.0, theirs.0) - 1.0).abs() < 0.02, "{family} {ours:?} {theirs:?}");
            assert!((ratio(ours.1, theirs.1) - 1.0).abs() < 0.02, "{family} {ours:?} {theirs:?}");
            assert!(ours.0 < 400_000, "{ours:?}: more than half of 480,000 bytes is noise");
        } else {
            assert_eq!(ours, theirs, "{family}");
            assert_eq!(ours.0 > 480_000, one_in > 0, "{ours:?}: without a sample, the whole size");
        }
    }
}

/// The bytes of cached blocks before a compaction replaces all tables, and afterwards.
fn cached(usage: impl Fn() -> u64, compact: impl Fn()) -> (u64, u64) {
    let before = usage();
    compact();
    let deadline = Instant::now() + Duration::from_secs(3);
    while usage() > before / 4 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    (before, usage())
}

#[test]
fn blocks_of_obsolete_tables_leave_the_cache_of_either_engine() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    let value = b"gravel and sand ".repeat(20);
    let number = |text: Option<String>| text.expect("a property").parse::<u64>().expect("a number");
    for index in ["kBinarySearch", "kTwoLevelIndexSearch"] {
        for aggressiveness in [0, 10_000] {
            let family = format!(
                "disable_auto_compactions=true;uncache_aggressiveness={aggressiveness};\
                 block_based_table_factory={{block_size=1k;metadata_block_size=200;index_type={index};}};"
            );
            let dir = TempDir::new("uncached");
            let key = |n: u32| format!("{n:04}");
            let spec = [FamilySpec::new("default", &family)];
            let rocks = RocksDb::open(&dir.join("rocks"), "create_if_missing=true", &spec).expect("opens");
            let mut options = Options::new().create_if_missing(true);
            options.cf = cf_options_from_string(&options.cf, &family).expect("options");
            let esker = Db::open(&options, dir.join("esker")).expect("opens");
            for part in 0..3 {
                for n in (part..600).step_by(3) {
                    rocks.write(&[put(&key(n), &value)], WriteFlags::default()).expect("written");
                    esker.put(key(n), &value).expect("written");
                }
                rocks.flush("default").expect("flushed");
                esker.flush().expect("flushed");
            }
            for n in 0..600 {
                assert!(rocks.get("default", key(n).as_bytes(), None).expect("read").is_some());
                assert!(esker.get(key(n)).expect("read").is_some());
            }
            let usage = "rocksdb.block-cache-usage";
            let theirs = cached(|| number(rocks.property("default", usage)), || rocks.compact("default"));
            let compact = || esker.compact_range(None, None).expect("compacted");
            let ours = cached(|| number(esker.property(usage)), compact);
            for (engine, (before, after)) in [("RocksDB", theirs), ("Esker", ours)] {
                assert!(before > 150_000, "{engine}: {before}");
                let expected =
                    if aggressiveness == 0 { before * 9 / 10..=before * 11 / 10 } else { 0..=before / 5 };
                assert!(expected.contains(&after), "{engine}, {family}: {before}, then {after}");
            }
        }
    }
}

#[test]
fn flushes_of_either_engine_put_blobs_into_the_cache_if_the_option_says_so() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    for (mode, expected) in [("kDisable", (0, 0)), ("kFlushOnly", (10, 3000))] {
        let family = format!(
            "enable_blob_files=true;disable_auto_compactions=true;blob_cache=4M;prepopulate_blob_cache={mode};"
        );
        let dir = TempDir::new("blob-cache");
        let text = format!("create_if_missing=true;{family}");
        let rocks = RocksDb::open_counted(&dir.join("rocks"), &text, 0).expect("opens");
        let mut options = Options::new().create_if_missing(true);
        options.cf = cf_options_from_string(&options.cf, &family).expect("options");
        let statistics = Arc::new(Statistics::new());
        options.db.statistics = Some(statistics.clone());
        let esker = Db::open(&options, dir.join("esker")).expect("opens");
        for n in 0..10_u8 {
            let (key, value) = (format!("{n:03}"), [n; 300]);
            rocks.write(&[put(&key, &value)], WriteFlags::default()).expect("written");
            esker.put(&key, value).expect("written");
        }
        rocks.flush("default").expect("flushed");
        esker.flush().expect("flushed");
        let theirs =
            (rocks.ticker("rocksdb.blobdb.cache.add"), rocks.ticker("rocksdb.blobdb.cache.bytes.write"));
        let count = |ticker| statistics.ticker_count(ticker);
        let ours = (count(Ticker::BlobDbCacheAdd), count(Ticker::BlobDbCacheBytesWrite));
        assert_eq!((ours, theirs), (expected, expected), "{mode}");
        // A read then misses or hits in either cache.
        assert!(rocks.get("default", b"005", None).expect("read").is_some());
        assert!(esker.get("005").expect("read").is_some());
        let hit = u64::from(mode == "kFlushOnly");
        assert_eq!((rocks.ticker("rocksdb.blobdb.cache.hit"), count(Ticker::BlobDbCacheHit)), (hit, hit));
    }
}
