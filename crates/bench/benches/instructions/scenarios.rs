//! The counted operations. Each scenario sets up, runs its operation once for every key, and runs
//! it again while it is counted.

use esker::internals::base::sync::epoch;
use esker::internals::cache::{Cache, CacheKey, CacheOptions, CachePriority, CacheType, Role};
use esker::internals::env::FileSystem as _;
use esker::internals::env::mem::MemFs;
use esker::internals::format::block::{Block, BlockBuilder, BlockCursor};
use esker::internals::format::compression::CompressionType;
use esker::internals::format::cursor::InternalIterator as _;
use esker::internals::format::filter::{FilterBitsBuilder, FilterKind, FilterPolicy, FilterReader};
use esker::internals::format::key::{InternalKeyComparator, LookupKey, internal_key, seek_key};
use esker::internals::format::log::LogWriter;
use esker::internals::format::trailer::BlockGuard;
use esker::internals::memtable::{MemTable, MemTableOptions};
use esker::{Db, Env, MultiGetOutput, Options, ReadOptions, Result, SequenceNumber, ValueType};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

/// Number of operations of each scenario under valgrind.
pub(super) const COUNTED_OPERATIONS: u64 = 5_000;
/// Number of operations of each scenario in a test.
pub(super) const TESTED_OPERATIONS: u64 = 50;

/// Keys of the databases and memtables that are read. There are more keys than operations. The
/// number is prime, so that the multiples of any stride visit every key.
const KEYS: u64 = 10_007;

/// Keys of a database whose reads touch a small number of blocks.
const FEW_KEYS: u64 = 500;

/// Range tombstones of a memtable.
const TOMBSTONES: u64 = 1_000;

const VALUE: [u8; 100] = [b'v'; 100];
/// Entries of 16 + 8 + 100 bytes in a block of about 4 KiB.
const BLOCK_ENTRIES: u64 = 32;

type Scenario = fn(u64) -> Result<()>;

/// All scenarios and their names.
pub(super) const ALL: [(&str, Scenario); 45] = [
    ("get_memtable_hit", get_memtable_hit),
    ("get_cached_block_hit", get_cached_block_hit),
    ("get_filter_miss", get_filter_miss),
    ("multi_get_32_memtable", multi_get_32_memtable),
    ("multi_get_32_cached_blocks", multi_get_32_cached_blocks),
    ("multi_get_lent_1_memtable", |count| multi_get_lent::<1>(&db_in_memory()?, count, KEYS)),
    ("multi_get_lent_4_memtable", |count| multi_get_lent::<4>(&db_in_memory()?, count, KEYS)),
    ("multi_get_lent_1_cached", |count| multi_get_lent::<1>(&db_in_tables()?, count, KEYS)),
    ("multi_get_lent_4_cached", |count| multi_get_lent::<4>(&db_in_tables()?, count, KEYS)),
    ("multi_get_lent_200_of_500", |count| multi_get_lent::<200>(&db_of_few()?, count, FEW_KEYS)),
    ("multi_get_lent_8_cold", |count| multi_get_lent::<8>(&db_in_tables_uncached()?, count, KEYS)),
    ("multi_get_pinned_2_memtable", |count| multi_get_pinned::<2>(&db_in_memory()?, count)),
    ("multi_get_pinned_3_memtable", |count| multi_get_pinned::<3>(&db_in_memory()?, count)),
    ("multi_get_pinned_2_cached", |count| multi_get_pinned::<2>(&db_in_tables()?, count)),
    ("multi_get_pinned_200_of_500", multi_get_pinned_200_of_500),
    ("multi_scan_10_cached", |count| multi_scan_10(&db_in_tables()?, count)),
    ("scan_10_cached", |count| scan_10(&db_in_tables()?, count)),
    ("multi_scan_10_cold", |count| multi_scan_10(&db_in_tables_uncached()?, count)),
    ("get_beside_tombstones", get_beside_tombstones),
    ("get_before_tombstones", get_before_tombstones),
    ("get_memtable_absent", |count| get_absent(&db_in_memory()?, count)),
    ("get_absent_beside_tombstones", |count| get_absent(&db_beside_tombstones()?, count)),
    ("get_covered", get_covered),
    ("delete_range_and_get", delete_range_and_get),
    ("snapshot_and_release", snapshot_and_release),
    ("iterator_next", iterator_next),
    ("iterator_prev", iterator_prev),
    ("iterator_seek", iterator_seek),
    ("iterator_seek_beside_flushes", iterator_seek_beside_flushes),
    ("iterator_made_and_sought", iterator_made_and_sought),
    ("iterator_refresh", iterator_refresh),
    ("iterator_next_over_deleted", iterator_next_over_deleted),
    ("pop_first", |count| pop(count, false)),
    ("pop_last", |count| pop(count, true)),
    ("put_100_bytes", put_100_bytes),
    ("memtable_insert", memtable_insert),
    ("memtable_get", memtable_get),
    ("memtable_next", memtable_next),
    ("wal_append", wal_append),
    ("block_seek", block_seek),
    ("block_decode_4k", block_decode_4k),
    ("bloom_probe", bloom_probe),
    ("cache_lookup", cache_lookup),
    ("cache_lookup_lru", cache_lookup_lru),
    ("cache_lookup_under_guard", cache_lookup_under_guard),
];

/// Calls `operation` with each number. callgrind finds this function by its name.
#[inline(never)]
fn counted_by_callgrind(
    numbers: std::ops::Range<u64>,
    operation: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    for number in numbers {
        operation(number)?;
    }
    black_box(Ok(()))
}

/// Runs `operation` with the first `count` numbers, and then with the next `count`, which callgrind
/// counts.
fn warm_up_and_count(count: u64, mut operation: impl FnMut(u64) -> Result<()>) -> Result<()> {
    (0..count).try_for_each(&mut operation)?;
    counted_by_callgrind(count..2 * count, &mut operation)
}

/// The `number`-th key in a scattered order. Even keys exist, odd ones do not.
fn key(number: u64) -> [u8; 16] {
    decimal(2 * (number * 7_919 % KEYS))
}

fn absent_key(number: u64) -> [u8; 16] {
    decimal(2 * (number * 7_919 % KEYS) + 1)
}

fn decimal(mut number: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    for digit in key.iter_mut().rev() {
        *digit += (number % 10) as u8;
        number /= 10;
    }
    key
}

/// An empty database.
fn empty_db() -> Result<Db> {
    Db::open(&options(), "/db")
}

/// Files in memory, and the defaults, except options whose effect depends on time.
fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.stats_dump_period_sec = 0;
    options.cf.compression = CompressionType::None;
    options.cf.table.filter_policy = Some(FilterPolicy::bloom(10.0));
    options
}

fn db_in_memory() -> Result<Db> {
    let db = empty_db()?;
    (0..KEYS).try_for_each(|number| db.put(key(number), VALUE))?;
    Ok(db)
}

/// A database with all keys in tables of one level.
fn db_in_tables() -> Result<Db> {
    db_in_tables_with(&options())
}

/// As `db_in_tables`, with a block cache that keeps nothing.
fn db_in_tables_uncached() -> Result<Db> {
    let mut options = options();
    options.cf.table.block_cache = Some(Arc::new(Cache::new(&CacheOptions::with_capacity(0))?));
    db_in_tables_with(&options)
}

fn db_in_tables_with(options: &Options) -> Result<Db> {
    let db = Db::open(options, "/db")?;
    (0..KEYS).try_for_each(|number| db.put(key(number), VALUE))?;
    db.compact_range(None, None)?;
    db.wait_for_background_work()?;
    Ok(db)
}

/// As `db_in_memory`, with range tombstones between the keys.
fn db_beside_tombstones() -> Result<Db> {
    let db = db_in_memory()?;
    (0..TOMBSTONES).try_for_each(|number| delete_between(&db, number))?;
    Ok(db)
}

/// Deletes a range behind the `number`-th key that contains no key.
fn delete_between(db: &Db, number: u64) -> Result<()> {
    let at = 2 * (number * 104_729 % KEYS);
    db.delete_range(decimal(at + 1), decimal(at + 2))
}

/// As `db_in_tables`, but only with the first keys, which fill a small number of blocks.
fn db_of_few() -> Result<Db> {
    let db = empty_db()?;
    (0..FEW_KEYS).try_for_each(|number| db.put(decimal(2 * number), VALUE))?;
    db.flush()?;
    db.wait_for_background_work()?;
    Ok(db)
}

fn check_get(db: &Db, number: u64) -> Result<()> {
    let value = db.get_pinned(key(number))?;
    assert_eq!(value.map(|v| v.len()), Some(VALUE.len()));
    Ok(())
}

fn get_memtable_hit(count: u64) -> Result<()> {
    let db = db_in_memory()?;
    warm_up_and_count(count, |number| check_get(&db, number))
}

fn get_cached_block_hit(count: u64) -> Result<()> {
    let db = db_in_tables()?;
    (0..KEYS).try_for_each(|number| check_get(&db, number))?;
    warm_up_and_count(count, |number| check_get(&db, number))
}

/// Reads absent keys. One in a hundred passes the filter and costs a look into a block.
fn get_filter_miss(count: u64) -> Result<()> {
    let db = db_in_tables()?;
    (0..KEYS).try_for_each(|number| check_get(&db, number))?;
    warm_up_and_count(count, |number| {
        assert_eq!(db.get_pinned(absent_key(number))?, None);
        Ok(())
    })
}

/// Reads a batch of 32 keys.
fn multi_get_32(db: &Db, count: u64) -> Result<()> {
    (0..KEYS).try_for_each(|number| check_get(db, number))?;
    warm_up_and_count(count, |number| {
        let keys: [[u8; 16]; 32] = std::array::from_fn(|i| key(number * 32 + i as u64));
        for value in db.multi_get(&keys) {
            assert_eq!(value?.map(|v| v.len()), Some(VALUE.len()));
        }
        Ok(())
    })
}

fn multi_get_32_memtable(count: u64) -> Result<()> {
    multi_get_32(&db_in_memory()?, count)
}

fn multi_get_32_cached_blocks(count: u64) -> Result<()> {
    multi_get_32(&db_in_tables()?, count)
}

/// Reads a batch of `N` lent values, of the first `among` keys.
fn multi_get_lent<const N: usize>(db: &Db, count: u64, among: u64) -> Result<()> {
    let (family, options) = (db.default_column_family(), ReadOptions::default());
    let mut output = MultiGetOutput::new();
    warm_up_and_count(count, |number| {
        let keys: [[u8; 16]; N] =
            std::array::from_fn(|i| decimal((number * N as u64 + i as u64) * 7_919 % among * 2));
        db.multi_get_lent(&options, &family, &keys, &mut output);
        for value in output.iter() {
            assert_eq!(value?.map(<[u8]>::len), Some(VALUE.len()));
        }
        Ok(())
    })
}

/// Reads a batch of `N` keys and pins the values, in the caller's vector.
fn multi_get_pinned<const N: usize>(db: &Db, count: u64) -> Result<()> {
    let (family, options) = (db.default_column_family(), ReadOptions::default());
    let mut values = Vec::new();
    (0..KEYS).try_for_each(|number| check_get(db, number))?;
    warm_up_and_count(count, |number| {
        let keys: [[u8; 16]; N] = std::array::from_fn(|i| key(number * N as u64 + i as u64));
        db.multi_get_into(&options, &family, &keys, &mut values);
        for value in values.drain(..) {
            assert_eq!(value?.map(|v| v.len()), Some(VALUE.len()));
        }
        Ok(())
    })
}

/// Reads a batch of 200 of 500 keys and pins the values.
fn multi_get_pinned_200_of_500(count: u64) -> Result<()> {
    let db = db_of_few()?;
    warm_up_and_count(count, |number| {
        let keys: [[u8; 16]; 200] =
            std::array::from_fn(|i| decimal((number * 200 + i as u64) * 7_919 % FEW_KEYS * 2));
        for value in db.multi_get(&keys) {
            assert_eq!(value?.map(|v| v.len()), Some(VALUE.len()));
        }
        Ok(())
    })
}

/// Scans the ranges of `multi_scan_10` one after the other with one iterator.
fn scan_10(db: &Db, count: u64) -> Result<()> {
    (0..KEYS).try_for_each(|number| check_get(db, number))?;
    warm_up_and_count(count, |number| {
        let first = |i: u64| number * 7_919 % (KEYS / 2) + i * 400;
        let (mut iter, mut rows) = (db.iter()?, 0);
        for i in 0..10 {
            let limit = decimal(2 * (first(i) + 10));
            iter.seek(decimal(2 * first(i)));
            while iter.valid() && iter.key() < limit.as_slice() {
                assert_eq!(iter.value().len(), VALUE.len());
                rows += 1;
                iter.next();
            }
            iter.status()?;
        }
        assert_eq!(rows, 100);
        Ok(())
    })
}

/// Scans ten ranges of ten keys, planned together.
fn multi_scan_10(db: &Db, count: u64) -> Result<()> {
    (0..KEYS).try_for_each(|number| check_get(db, number))?;
    warm_up_and_count(count, |number| {
        let first = |i: u64| number * 7_919 % (KEYS / 2) + i * 400;
        let mut scans =
            db.multi_scan((0..10).map(|i| (decimal(2 * first(i)), decimal(2 * (first(i) + 10)))))?;
        let mut rows = 0;
        while let Some(mut scan) = scans.next_scan() {
            while let Some((_, value)) = scan.next_item()? {
                assert_eq!(value.len(), VALUE.len());
                rows += 1;
            }
        }
        assert_eq!(rows, 100);
        Ok(())
    })
}

/// Reads present keys that no tombstone covers.
fn get_beside_tombstones(count: u64) -> Result<()> {
    let db = db_beside_tombstones()?;
    warm_up_and_count(count, |number| check_get(&db, number))
}

/// Reads present keys; the tombstones lie behind all keys.
fn get_before_tombstones(count: u64) -> Result<()> {
    let db = db_in_memory()?;
    (KEYS..KEYS + TOMBSTONES).try_for_each(|i| db.delete_range(decimal(2 * i + 1), decimal(2 * i + 2)))?;
    warm_up_and_count(count, |number| check_get(&db, number))
}

/// Reads absent keys.
fn get_absent(db: &Db, count: u64) -> Result<()> {
    warm_up_and_count(count, |number| {
        assert_eq!(db.get_pinned(decimal(2 * (number * 7_919 % KEYS) + 1))?, None);
        Ok(())
    })
}

/// Reads keys under a thousand tombstones, which cover all keys.
fn get_covered(count: u64) -> Result<()> {
    let db = db_in_memory()?;
    let width = (2 * KEYS).div_ceil(TOMBSTONES);
    (0..TOMBSTONES).try_for_each(|i| db.delete_range(decimal(i * width), decimal((i + 1) * width)))?;
    warm_up_and_count(count, |number| {
        assert_eq!(db.get_pinned(key(number))?, None);
        Ok(())
    })
}

fn delete_range_and_get(count: u64) -> Result<()> {
    let db = db_beside_tombstones()?;
    warm_up_and_count(count, |number| {
        delete_between(&db, number)?;
        check_get(&db, number)
    })
}

/// Takes and drops a snapshot while ten thousand others live.
fn snapshot_and_release(count: u64) -> Result<()> {
    let db = empty_db()?;
    let mut live = Vec::new();
    for number in 0..10_000 {
        db.put(key(number), VALUE)?;
        live.push(db.snapshot());
    }
    warm_up_and_count(count, |_| {
        black_box(db.snapshot());
        Ok(())
    })
}

fn iterator_next(count: u64) -> Result<()> {
    let db = db_in_tables()?;
    let mut iter = db.iter()?;
    let mut seen = 0;
    iter.seek_to_first();
    while iter.valid() {
        seen += 1;
        iter.next();
    }
    assert_eq!(seen, KEYS);
    iter.seek_to_first();
    counted_by_callgrind(0..count, &mut |_| {
        assert_eq!(iter.value().len(), VALUE.len());
        iter.next();
        Ok(())
    })?;
    assert_eq!(iter.key(), decimal(2 * count));
    iter.status()
}

fn iterator_prev(count: u64) -> Result<()> {
    let db = db_in_tables()?;
    let mut iter = db.iter()?;
    let mut seen = 0;
    iter.seek_to_last();
    while iter.valid() {
        seen += 1;
        iter.prev();
    }
    assert_eq!(seen, KEYS);
    iter.seek_to_last();
    counted_by_callgrind(0..count, &mut |_| {
        assert_eq!(iter.value().len(), VALUE.len());
        iter.prev();
        Ok(())
    })?;
    assert_eq!(iter.key(), decimal(2 * (KEYS - 1 - count)));
    iter.status()
}

fn iterator_seek(count: u64) -> Result<()> {
    let db = db_in_tables()?;
    let mut iter = db.iter()?;
    warm_up_and_count(count, |number| {
        iter.seek(key(number));
        assert_eq!(iter.key(), key(number));
        Ok(())
    })
}

/// Seeks beside eight level-0 files: four lie before all sought keys, four behind them.
fn iterator_seek_beside_flushes(count: u64) -> Result<()> {
    let db = db_in_tables()?;
    db.set_options(&db.default_column_family(), &[("disable_auto_compactions", "true")])?;
    for number in 0..8 {
        db.put(if number % 2 == 0 { [b'a'; 16] } else { [b'!'; 16] }, VALUE)?;
        db.flush()?;
    }
    let mut iter = db.iter()?;
    warm_up_and_count(count, |number| {
        iter.seek(key(number));
        assert_eq!(iter.key(), key(number));
        Ok(())
    })
}

/// Makes an iterator, seeks with it and drops it. It reuses the cursor of the iterator before.
fn iterator_made_and_sought(count: u64) -> Result<()> {
    let db = db_in_tables()?;
    warm_up_and_count(count, |number| {
        let mut iter = db.iter()?;
        iter.seek(key(number));
        assert_eq!(iter.key(), key(number));
        iter.status()
    })
}

/// Refreshes an unpositioned iterator to a super version with the same files.
fn iterator_refresh(count: u64) -> Result<()> {
    let db = db_in_tables()?;
    let mut iter = db.iter()?;
    warm_up_and_count(count, |_| iter.refresh())
}

/// Steps over all keys but the first and the last. They were put and deleted in the memtable.
fn iterator_next_over_deleted(count: u64) -> Result<()> {
    let db = db_in_memory()?;
    (1..KEYS - 1).try_for_each(|number| db.delete(decimal(2 * number)))?;
    let mut iter = db.iter()?;
    warm_up_and_count(count, |_| {
        iter.seek_to_first();
        iter.next();
        assert_eq!(iter.key(), decimal(2 * (KEYS - 1)));
        Ok(())
    })
}

/// Pops a message of a queue: makes an iterator, reads the first (last) key and deletes it. The
/// messages lie in a table, the deletions in the memtable. There are no pre-scans, whose work would
/// depend on time.
fn pop(count: u64, backward: bool) -> Result<()> {
    let mut options = options();
    options.cf.pre_scan_min_entries = 0;
    let db = db_in_tables_with(&options)?;
    warm_up_and_count(count, |number| {
        let message = decimal(2 * if backward { KEYS - 1 - number } else { number });
        let mut iter = db.iter()?;
        if backward {
            iter.seek_to_last()
        } else {
            iter.seek_to_first()
        }
        assert_eq!(iter.key(), message);
        drop(iter);
        db.delete(message)
    })
}

/// Puts 100 bytes, with the WAL, without a sync.
fn put_100_bytes(count: u64) -> Result<()> {
    let db = empty_db()?;
    warm_up_and_count(count, |number| db.put(key(number), VALUE))
}

fn insert(memtable: &MemTable, number: u64) -> Result<()> {
    memtable.add(SequenceNumber(number + 1), ValueType::Value, &key(number), &VALUE)
}

fn memtable() -> Result<Arc<MemTable>> {
    let memtable = MemTable::new(InternalKeyComparator::default(), MemTableOptions::default());
    (0..KEYS).try_for_each(|number| insert(&memtable, number))?;
    Ok(memtable)
}

fn memtable_insert(count: u64) -> Result<()> {
    let memtable = MemTable::new(InternalKeyComparator::default(), MemTableOptions::default());
    warm_up_and_count(count, |number| insert(&memtable, number))
}

fn memtable_get(count: u64) -> Result<()> {
    let memtable = memtable()?;
    warm_up_and_count(count, |number| {
        let mut bytes = 0;
        memtable.get(&LookupKey::new(&key(number), SequenceNumber::MAX), |_, _, value| {
            bytes = value.bytes().len();
            false
        })?;
        assert_eq!(bytes, VALUE.len());
        Ok(())
    })
}

fn memtable_next(count: u64) -> Result<()> {
    let memtable = memtable()?;
    let mut iter = memtable.iter();
    iter.seek_to_first();
    warm_up_and_count(count, |_| {
        assert_eq!(iter.value().len(), VALUE.len());
        iter.next();
        Ok(())
    })
}

/// Frames a record of one put, computes its checksum, and appends it to a file.
fn wal_append(count: u64) -> Result<()> {
    let fs = MemFs::new();
    let mut file = fs.new_writable_file(Path::new("/wal"))?;
    let mut writer = LogWriter::new(1, false);
    let mut buffer = Vec::new();
    let record = [b'r'; 12 + 1 + 17 + 101];
    warm_up_and_count(count, |_| {
        buffer.clear();
        writer.add_record(&record, &mut buffer);
        file.append(&buffer)
    })?;
    assert!(file.file_size() > 2 * count * record.len() as u64);
    Ok(())
}

/// The contents of a data block as tables hold it.
fn block_bytes() -> Vec<u8> {
    let mut builder = BlockBuilder::new(16);
    for number in 0..BLOCK_ENTRIES {
        let key = internal_key(&decimal(2 * number), SequenceNumber(1), ValueType::Value);
        builder.add(&key, &VALUE);
    }
    builder.finish().to_vec()
}

fn block_seek(count: u64) -> Result<()> {
    let block = Block::parse(block_bytes())?;
    let order = InternalKeyComparator::default();
    let targets: Vec<Vec<u8>> =
        (0..BLOCK_ENTRIES).map(|n| seek_key(&decimal(2 * n), SequenceNumber::MAX)).collect();
    let mut cursor = BlockCursor::new();
    warm_up_and_count(count, |number| {
        let wanted = number * 7 % BLOCK_ENTRIES;
        cursor.seek(&block, &targets[wanted as usize], &order)?;
        assert_eq!(&cursor.key()[..16], decimal(2 * wanted));
        Ok(())
    })
}

/// Handles a block from a file: compares the checksum, parses it, steps over each entry.
fn block_decode_4k(count: u64) -> Result<()> {
    let guard = BlockGuard::default();
    let mut stored = block_bytes();
    let length = stored.len();
    guard.append_trailer(&mut stored, 0, CompressionType::None as u8, 4096);
    let mut cursor = BlockCursor::new();
    warm_up_and_count(count, |_| {
        assert_eq!(guard.check(&stored, 4096)?, CompressionType::None as u8);
        let block = Block::parse(stored[..length].to_vec())?;
        let mut entries = 0;
        cursor.seek_to_first(&block)?;
        while cursor.valid() {
            entries += 1;
            cursor.next(&block)?;
        }
        assert_eq!(entries, BLOCK_ENTRIES);
        Ok(())
    })
}

/// Hashes and probes keys, of which every second one is present.
fn bloom_probe(count: u64) -> Result<()> {
    let mut builder = FilterBitsBuilder::new(FilterKind::FastLocalBloom { millibits_per_key: 10_000 });
    (0..KEYS).for_each(|number| builder.add_key(&key(number)));
    let filter = FilterReader::parse(builder.finish());
    let mut found = 0;
    warm_up_and_count(count, |number| {
        let key = if number % 2 == 0 { key(number) } else { absent_key(number) };
        found += u64::from(filter.may_match(&key));
        Ok(())
    })?;
    assert!((count..count + count / 20 + 2).contains(&found), "{found} of {count}");
    Ok(())
}

const CACHED_BLOCKS: u64 = 1_000;

fn cached_block(number: u64) -> CacheKey {
    CacheKey::new((1, 2), number % CACHED_BLOCKS * 4096)
}

fn cache_of(cache_type: CacheType) -> Cache<u64> {
    let options = CacheOptions { cache_type, ..CacheOptions::with_capacity(32 << 20) };
    let cache = Cache::new(&options).expect("default options but for the type");
    for number in 0..CACHED_BLOCKS {
        let inserted = cache.insert(cached_block(number), number, 4096, CachePriority::Low, Role::DataBlock);
        drop(inserted.expect("room for all"));
    }
    cache
}

/// Looks a block up by a handle, and releases the handle.
fn lookup(cache: &Cache<u64>, count: u64) -> Result<()> {
    warm_up_and_count(count, |number| {
        let handle = cache.lookup(&cached_block(number));
        assert_eq!(handle.as_deref(), Some(&(number % CACHED_BLOCKS)));
        Ok(())
    })
}

fn cache_lookup(count: u64) -> Result<()> {
    lookup(&cache_of(CacheType::default()), count)
}

fn cache_lookup_lru(count: u64) -> Result<()> {
    lookup(&cache_of(CacheType::Lru), count)
}

/// Looks a block up as a read does, under the guard that the read holds.
fn cache_lookup_under_guard(count: u64) -> Result<()> {
    let cache = cache_of(CacheType::default());
    let guard = epoch::pin();
    warm_up_and_count(count, |number| {
        let value = cache.lookup_under(&cached_block(number), &guard);
        assert_eq!(value.as_deref(), Some(&(number % CACHED_BLOCKS)));
        Ok(())
    })
}
