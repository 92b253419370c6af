//! Dumps of a block cache, and loads of them into a tier.

use esker::internals::base::sync::Mutex;
use esker::internals::cache::CacheKey;
use esker::internals::cache::tier::{Admission, Lookup, Saved, SecondaryCache};
use esker::internals::env::mem::MemFs;
use esker::internals::env::{FileSystem, MockClock};
use esker::internals::format::cache_dump::{DumpUnit, DumpUnitMeta, header_text};
use esker::internals::table::FilterPolicy;
use esker::options::{BlockCache, CacheOptions, IndexType, block_cache_from_string};
use esker::stats::{Statistics, Ticker};
use esker::{
    CacheDumpOptions, CacheDumpWriter, CacheDumpedLoader, CacheDumper, Db, Env, Error, ErrorKind, Options,
    Result, from_file_cache_dump_reader, to_file_cache_dump_writer,
};
use esker_testkit::seed::for_each_seed;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const KEYS: u32 = 1500;
const DUMP: &str = "/dump";

fn key(i: u32) -> Vec<u8> {
    format!("key{i:06}").into_bytes()
}

fn options(fs: &Arc<MemFs>, cache: &Arc<BlockCache>) -> Options {
    let mut options = Options::new().create_if_missing(true);
    options.db.statistics = Some(Arc::new(Statistics::new()));
    options.db.env = Env::with_fs(fs.clone());
    options.cf.table.block_size = 1024;
    options.cf.table.block_cache = Some(cache.clone());
    options.cf.table.cache_index_and_filter_blocks = true;
    options.cf.table.filter_policy = Some(FilterPolicy::bloom(10.0));
    options.cf.table.index_type = IndexType::TwoLevel;
    options.cf.table.partition_filters = true;
    options.cf.table.metadata_block_size = 512;
    options
}

fn fill(db: &Db) {
    (0..KEYS).for_each(|i| db.put(key(i), format!("{i:0120}")).unwrap());
    db.flush().unwrap();
}

fn read_all(db: &Db) {
    (0..KEYS).for_each(|i| assert_eq!(db.get(key(i)).unwrap(), Some(format!("{i:0120}").into_bytes())));
    assert_eq!(db.get("key000007x").unwrap(), None);
}

fn plain_cache() -> Arc<BlockCache> {
    Arc::new(BlockCache::new(&CacheOptions::with_capacity(8 << 20)).unwrap())
}

fn dump(fs: &MemFs, cache: &Arc<BlockCache>, dbs: &[&Db], options: &CacheDumpOptions) -> Result<u64> {
    let mut dumper = CacheDumper::new(options, cache, to_file_cache_dump_writer(fs, DUMP)?);
    if !dbs.is_empty() {
        dumper.set_dump_filter(dbs)?;
    }
    dumper.dump_cache_entries_to_writer()
}

/// Keeps everything that it is offered.
#[derive(Debug, Default)]
struct Keeping(Mutex<BTreeMap<CacheKey, Vec<u8>>>);

impl SecondaryCache for Keeping {
    fn name(&self) -> &'static str {
        "Keeping"
    }
    fn insert(&self, key: &CacheKey, saved: Saved<'_>, is_forced: bool) -> Admission {
        assert!(is_forced && saved.codec == 0);
        let bytes = [&[saved.role as u8], saved.bytes].concat();
        assert_eq!(self.0.lock().insert(*key, bytes), None, "no block comes twice");
        Admission::Stored
    }
    fn lookup(&self, _key: &CacheKey, _advise_erase: bool) -> Lookup {
        Lookup::Missing { was_seen: false }
    }
    fn contains(&self, key: &CacheKey) -> bool {
        self.0.lock().contains_key(key)
    }
    fn erase(&self, _key: &CacheKey) {}
    fn capacity(&self) -> usize {
        usize::MAX
    }
    fn set_capacity(&self, _bytes: usize) {}
    fn usage(&self) -> usize {
        0
    }
}

fn load(fs: &MemFs) -> (Result<u64>, BTreeMap<CacheKey, Vec<u8>>) {
    let tier = Arc::new(Keeping::default());
    let reader = from_file_cache_dump_reader(fs, DUMP).unwrap();
    let loaded = CacheDumpedLoader::new(tier.clone(), reader).restore_cache_entries_to_secondary_cache();
    let blocks = std::mem::take(&mut *tier.0.lock());
    (loaded, blocks)
}

fn bytes_of_dump(fs: &MemFs) -> Vec<u8> {
    let mut bytes = vec![0; fs.file_size(Path::new(DUMP)).unwrap() as usize];
    fs.new_random_access_file(Path::new(DUMP)).unwrap().read_at(0, &mut bytes).unwrap();
    bytes
}

fn write(fs: &MemFs, bytes: &[u8]) {
    let mut file = fs.new_writable_file(Path::new(DUMP)).unwrap();
    file.append(bytes).unwrap();
    file.close().unwrap();
}

#[test]
fn a_loaded_dump_spares_a_database_that_opens_anew_its_reads() {
    let fs = Arc::new(MemFs::new());
    let cache = plain_cache();
    let db = Db::open(&options(&fs, &cache), "/db").unwrap();
    fill(&db);
    read_all(&db);
    let blocks = dump(&fs, &cache, &[&db], &CacheDumpOptions::new()).unwrap();
    assert!(blocks > 200, "{blocks} blocks");
    assert_eq!(blocks, cache.occupancy_count() as u64);
    read_all(&db);
    drop(db);

    let misses = |is_loaded: bool| {
        let text = "capacity=8M;secondary_cache=compressed_secondary_cache://capacity=16M";
        let cache = block_cache_from_string(text).unwrap().unwrap();
        let options = options(&fs, &cache);
        if is_loaded {
            let reader = from_file_cache_dump_reader(&*fs, DUMP).unwrap();
            let mut loader = CacheDumpedLoader::new(cache.secondary().unwrap().clone(), reader);
            assert_eq!(loader.restore_cache_entries_to_secondary_cache().unwrap(), blocks);
        }
        let db = Db::open(&options, "/db").unwrap();
        read_all(&db);
        let count = |ticker| options.db.statistics.as_ref().unwrap().ticker_count(ticker);
        (count(Ticker::BlockCacheMiss), count(Ticker::SecondaryCacheHits))
    };
    let (cold, _) = misses(false);
    let (warm, hits) = misses(true);
    assert!(cold >= blocks && warm * 20 < cold, "{warm} of {cold} blocks were read from the file");
    assert!(hits + 20 > blocks, "{hits} of {blocks} blocks came from the tier");
}

#[test]
fn a_filter_leaves_out_the_blocks_of_other_databases_and_keeps_all_families() {
    let fs = Arc::new(MemFs::new());
    let cache = plain_cache();
    let open = |path: &str| Db::open(&options(&fs, &cache), path).unwrap();
    let (first, second) = (open("/first"), open("/second"));
    let family = first.create_column_family("other", &options(&fs, &cache).cf).unwrap();
    first.put_cf(&family, "a", "1").unwrap();
    first.flush_opt(&esker::FlushOptions::default(), &[&family]).unwrap();
    [&first, &second].iter().for_each(|db| fill(db));
    [&first, &second].iter().for_each(|db| read_all(db));
    first.get_cf(&family, "a").unwrap();
    let of = |dbs: &[&Db]| {
        let dumped = dump(&fs, &cache, dbs, &CacheDumpOptions::new()).unwrap();
        let (loaded, blocks) = load(&fs);
        assert_eq!((loaded.unwrap(), blocks.len() as u64), (dumped, dumped));
        blocks
    };
    let (of_first, of_second, all) = (of(&[&first]), of(&[&second]), of(&[]));
    let tables: BTreeSet<u64> = of_first.keys().map(|key| key.words()[0]).collect();
    assert_eq!(tables.len(), 2, "a table of each family");
    assert!(of_first.keys().all(|key| !of_second.contains_key(key)));
    let both: BTreeMap<_, _> = of_first.into_iter().chain(of_second).collect();
    assert!(both == all, "{} and {} blocks", both.len(), all.len());
}

#[test]
fn a_dump_ends_at_its_size_or_deadline_with_a_footer() {
    let fs = Arc::new(MemFs::new());
    let cache = plain_cache();
    let db = Db::open(&options(&fs, &cache), "/db").unwrap();
    fill(&db);
    read_all(&db);
    let limited = dump(&fs, &cache, &[&db], &CacheDumpOptions::new().max_size_bytes(20_000)).unwrap();
    let (loaded, blocks) = load(&fs);
    assert_eq!((loaded.unwrap(), blocks.len() as u64), (limited, limited));
    let bytes: usize = blocks.values().map(|bytes| bytes.len() - 1).sum();
    assert!(bytes > 20_000 && bytes < 23_000, "{bytes} bytes");

    let clock = Arc::new(MockClock::new(5_000_000));
    let at = |seconds| CacheDumpOptions::new().clock(clock.clone()).deadline(Duration::from_secs(seconds));
    assert_eq!(dump(&fs, &cache, &[&db], &at(5)).unwrap(), 0);
    assert_eq!(load(&fs).0.unwrap(), 0);
    assert_eq!(dump(&fs, &cache, &[&db], &at(6)).unwrap(), cache.occupancy_count() as u64);
    // The layout of the file: a size and 16 bytes of metadata, a size and the header.
    let dumped = bytes_of_dump(&fs);
    let header = DumpUnit::header(5_000_000, &header_text((11, 8))).encode().unwrap();
    let meta = DumpUnitMeta::of(0, &header).encode();
    let expected = [&16_u32.to_le_bytes()[..], &meta, &(header.len() as u32).to_le_bytes(), &header].concat();
    assert_eq!(dumped[..expected.len()], expected);
}

#[test]
fn damaged_and_cut_dumps_are_errors_that_name_file_and_offset_and_give_no_wrong_block() {
    let fs = Arc::new(MemFs::new());
    let cache = plain_cache();
    let db = Db::open(&options(&fs, &cache), "/db").unwrap();
    fill(&db);
    read_all(&db);
    dump(&fs, &cache, &[&db], &CacheDumpOptions::new().max_size_bytes(8000)).unwrap();
    let (whole, blocks) = (bytes_of_dump(&fs), load(&fs).1);
    for_each_seed("damaged dumps", 300, |_, mut rng| {
        let mut bytes = whole.clone();
        let at = rng.usize(..bytes.len());
        match rng.bool() {
            true => bytes.truncate(at),
            false => bytes[at] ^= 1 << rng.u8(..8),
        }
        write(&fs, &bytes);
        let (loaded, found) = load(&fs);
        assert!(found.iter().all(|(key, bytes)| blocks.get(key) == Some(bytes)));
        match loaded {
            // Nothing checks the number of a unit.
            Ok(_) => assert!(bytes.len() == whole.len() && found == blocks),
            Err(e) => {
                assert!(matches!(e.kind(), ErrorKind::Corruption | ErrorKind::NotSupported), "{e}");
                assert!(e.to_string().contains("/dump at offset "), "{e}");
            }
        }
    });
    write(&fs, b"");
    assert_eq!(load(&fs).0.unwrap_err().kind(), ErrorKind::Corruption);
}

/// Refuses the unit with this number.
struct Failing(u32);

impl CacheDumpWriter for Failing {
    fn write_metadata(&mut self, metadata: &[u8]) -> Result<()> {
        assert_eq!(metadata.len(), 16);
        Ok(())
    }
    fn write_packet(&mut self, _data: &[u8]) -> Result<()> {
        self.0 -= 1;
        if self.0 == 0 {
            Err(Error::new(ErrorKind::IoError, "the connection is gone".to_owned()))
        } else {
            Ok(())
        }
    }
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn the_first_error_of_a_writer_ends_the_dump() {
    let fs = Arc::new(MemFs::new());
    let cache = plain_cache();
    let db = Db::open(&options(&fs, &cache), "/db").unwrap();
    fill(&db);
    read_all(&db);
    for failing in [1, 2, 100] {
        let mut dumper = CacheDumper::new(&CacheDumpOptions::new(), &cache, Box::new(Failing(failing)));
        let error = dumper.dump_cache_entries_to_writer().unwrap_err();
        assert!(error.to_string().contains("the connection is gone"), "{error}");
    }
    read_all(&db);
}
