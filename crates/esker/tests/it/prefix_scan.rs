//! Prefix scans see every key of their prefix, even if filters exclude other prefixes.

use esker::internals::base::perf_context::{PerfContext, PerfLevel, set_perf_level};
use esker::internals::base::prefix;
use esker::internals::env::mem::MemFs;
use esker::internals::format::properties::IndexType;
use esker::internals::table::FilterPolicy;
use esker::options::MemtableFactory;
use esker::prefix::SliceTransformRef;
use esker::stats::{Statistics, Ticker};
use esker::{Db, DbIterator, Env, Options, ReadOptions};
use std::sync::Arc;

fn database() -> Db {
    database_with(prefix::fixed(2))
}

fn database_with(extractor: SliceTransformRef) -> Db {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.disable_auto_compactions = true;
    options.cf.prefix_extractor = Some(extractor);
    options.cf.table.filter_policy = Some(FilterPolicy::bloom(20.0));
    Db::open(&options, "/db").unwrap()
}

fn put_and_flush(db: &Db, keys: &[&str]) {
    for key in keys {
        db.put(key, "value").unwrap();
    }
    db.flush().unwrap();
}

fn prefix_iter(db: &Db) -> DbIterator {
    db.iter_opt(ReadOptions::new().prefix_same_as_start(true), &db.default_column_family()).unwrap()
}

fn key(iter: &DbIterator) -> Option<&str> {
    iter.status().unwrap();
    iter.item().map(|(key, _)| std::str::from_utf8(key).unwrap())
}

#[test]
fn a_range_deletion_that_ends_in_another_prefix_hides_no_key_behind_it() {
    let db = database();
    put_and_flush(&db, &["aa1", "ac1", "ac2"]);
    db.delete_range("aa0", "ab0").unwrap();
    put_and_flush(&db, &["zz"]);
    let mut iter = prefix_iter(&db);
    iter.seek_to_first();
    assert_eq!(key(&iter), Some("ac1"));
    iter.next();
    assert_eq!(key(&iter), Some("ac2"));
    iter.next();
    assert_eq!(key(&iter), None);
}

#[test]
fn an_iterator_without_a_prefix_turns_round_without_losing_keys() {
    let db = database();
    put_and_flush(&db, &["a", "bb1"]);
    put_and_flush(&db, &["aa1", "cc1"]);
    let mut iter = prefix_iter(&db);
    iter.seek_to_first();
    assert_eq!(key(&iter), Some("a"), "a key without a prefix starts a scan over all keys");
    iter.next();
    iter.next();
    assert_eq!(key(&iter), Some("bb1"));
    iter.prev();
    assert_eq!(key(&iter), Some("aa1"));
    iter.next();
    assert_eq!(key(&iter), Some("bb1"));
}

#[test]
fn a_scan_from_a_lower_bound_is_not_kept_from_files_without_the_bounds_prefix() {
    let db = database();
    put_and_flush(&db, &["ab1", "ab2", "ac1"]);
    let options = ReadOptions::new().prefix_same_as_start(true).lower_bound("aa5");
    let mut iter = db.iter_opt(options, &db.default_column_family()).unwrap();
    iter.seek_to_first();
    assert_eq!(key(&iter), Some("ab1"));
}

#[test]
fn a_prefix_scan_sees_its_prefix_whatever_extractor_its_files_were_written_and_opened_with() {
    let widths =
        [("fixed:2", prefix::fixed(2)), ("fixed:4", prefix::fixed(4)), ("capped:3", prefix::capped(3))];
    for (at_open, extractor) in &widths {
        for (old, _) in &widths {
            for (new, of_new) in &widths {
                let db = database_with(extractor.clone());
                let family = db.default_column_family();
                let change = |text| db.set_options(&family, &[("prefix_extractor", text)]).unwrap();
                change(old);
                put_and_flush(&db, &["abcz1", "abzz1"]);
                change(new);
                // Both keys lie behind "abcd": "abcz1" shares three bytes with it, "abzz1" two.
                let expected = ["abcz1", "abzz1"]
                    .into_iter()
                    .find(|key| of_new.transform(key.as_bytes()) == of_new.transform(b"abcd"));
                let mut iter = prefix_iter(&db);
                for _ in 0..2 {
                    iter.seek("abcd");
                    assert_eq!(
                        key(&iter),
                        expected,
                        "opened with {at_open}, written with {old}, read with {new}"
                    );
                    // An open iterator keeps the extractor with which it was opened.
                    change(at_open);
                    put_and_flush(&db, &["zz"]);
                }
            }
        }
    }
}

/// A filter without whole keys has the prefixes of all keys that have one.
#[test]
fn gets_ask_filters_of_prefixes_where_there_are_no_whole_keys() {
    for partitioned in [None, Some(false), Some(true)] {
        let statistics = Arc::new(Statistics::new());
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.env = Env::with_fs(Arc::new(MemFs::new()));
        options.db.statistics = Some(statistics.clone());
        options.cf.disable_auto_compactions = true;
        options.cf.prefix_extractor = Some(prefix::fixed(3));
        options.cf.table.filter_policy = Some(FilterPolicy::bloom(20.0));
        options.cf.table.whole_key_filtering = false;
        if let Some(decoupled) = partitioned {
            let table = &mut options.cf.table;
            (table.index_type, table.partition_filters) = (IndexType::TwoLevel, true);
            table.decouple_partitioned_filters = decoupled;
            (table.block_size, table.metadata_block_size) = (64, 64);
        }
        let db = Db::open(&options, "/db").unwrap();
        let family = db.default_column_family();
        for file in 0..10 {
            for n in (file..600).step_by(10) {
                for end in ["", "a", "b"] {
                    db.put(format!("{n:03}{end}"), "value").unwrap();
                }
            }
            db.put("00", "too short for a prefix").unwrap();
            db.flush().unwrap();
        }
        let count = |ticker| statistics.ticker_count(ticker);
        let asked = || (count(Ticker::BloomFilterPrefixChecked), count(Ticker::BloomFilterPrefixUseful));
        for n in 0..600 {
            assert!(db.get(format!("{n:03}b")).unwrap().is_some(), "{n}");
            assert_eq!(db.get(format!("{n:03}c")).unwrap(), None);
        }
        let (checked, useful) = asked();
        assert!(checked > 8000, "{partitioned:?}: {checked}");
        // Each get reads the file with the prefix; filters of 20 bits a key admit few others.
        assert!(checked - useful < 1500, "{partitioned:?}: {useful} of {checked}");
        let keys: Vec<String> = (0..600).flat_map(|n| [format!("{n:03}a"), format!("{n:03}c")]).collect();
        let (checked, useful) = asked();
        for (i, value) in db.multi_get(&keys).into_iter().enumerate() {
            assert_eq!(value.unwrap().is_some(), i % 2 == 0);
        }
        let (checked, useful) = (asked().0 - checked, asked().1 - useful);
        assert!(useful > checked * 4 / 5, "{partitioned:?}: {useful} of {checked}");
        assert_eq!(db.get("00").unwrap().as_deref(), Some(&b"too short for a prefix"[..]));
        assert_eq!(db.get("01").unwrap(), None);
        assert!(db.key_may_exist(&family, "000"));
        assert!(!db.key_may_exist(&family, "0001"));
    }
}

/// Files behind the absent prefix's position have other prefixes, and are not read.
#[test]
fn a_scan_of_a_prefix_that_is_not_there_reads_no_block() {
    let statistics = Arc::new(Statistics::new());
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.statistics = Some(statistics.clone());
    options.cf.prefix_extractor = Some(prefix::fixed(4));
    options.cf.target_file_size_base = 1 << 10;
    options.cf.compression = esker::options::CompressionType::None;
    options.cf.table.block_size = 256;
    options.cf.table.filter_policy = Some(FilterPolicy::bloom(20.0));
    options.cf.table.no_block_cache = true;
    let db = Db::open(&options, "/db").unwrap();
    for end in ["a", "b"] {
        for n in 0..200 {
            db.put(format!("{:04}{end}", n * 10), [b'v'; 100]).unwrap();
        }
        db.flush().unwrap();
    }
    db.compact_range(None, None).unwrap();
    assert!(db.live_files().len() > 5, "{}", db.live_files().len());
    let mut iter = prefix_iter(&db);
    set_perf_level(PerfLevel::EnableCount);
    for forward in [true, false] {
        let (mut reads, mut asked) = (0, 0);
        for n in (0..1990).filter(|n| n % 10 != 0) {
            PerfContext::reset();
            let target = format!("{n:04}m");
            if forward {
                iter.seek(&target)
            } else {
                iter.seek_for_prev(&target)
            }
            assert_eq!(key(&iter), None);
            reads += PerfContext::current().block_read_count;
            asked += 1;
        }
        assert!(reads < asked / 50, "{reads} blocks for {asked} prefixes, forward: {forward}");
        iter.seek("0100");
        assert_eq!(key(&iter), Some("0100a"));
        iter.next();
        iter.next();
        assert_eq!(key(&iter), None);
        iter.seek_for_prev("0100z");
        assert_eq!(key(&iter), Some("0100b"));
        iter.prev();
        iter.next();
        assert_eq!(key(&iter), Some("0100b"));
        iter.prev();
        iter.prev();
        assert_eq!(key(&iter), None);
    }
}

#[test]
fn a_hash_memtable_is_found_by_seeks_and_in_total_order_only() {
    for factory in [MemtableFactory::HashSkipList, MemtableFactory::HashLinkList] {
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.allow_concurrent_memtable_write = false;
        options.db.env = Env::with_fs(Arc::new(MemFs::new()));
        options.cf.prefix_extractor = Some(prefix::fixed(2));
        options.cf.memtable_factory = factory;
        let db = Db::open(&options, "/db").unwrap();
        put_and_flush(&db, &["aa1", "bb1", "cc1"]);
        db.put("aa2", "value").unwrap();
        db.put("cc2", "value").unwrap();
        let with = |read: ReadOptions| db.iter_opt(read, &db.default_column_family()).unwrap();
        let whole = |mut iter: DbIterator| {
            let (mut keys, mut backwards) = (Vec::new(), Vec::new());
            iter.seek_to_first();
            while let Some(key) = key(&iter).map(str::to_owned) {
                keys.push(key);
                iter.next();
            }
            iter.seek_to_last();
            while let Some(key) = key(&iter).map(str::to_owned) {
                backwards.insert(0, key);
                iter.prev();
            }
            assert_eq!(keys, backwards);
            keys
        };
        assert_eq!(whole(with(ReadOptions::new())), ["aa1", "bb1", "cc1"], "tables have an order");
        let total = ReadOptions::new().total_order_seek(true);
        assert_eq!(whole(with(total)), ["aa1", "aa2", "bb1", "cc1", "cc2"]);
        let mut iter = with(ReadOptions::new());
        iter.seek("aa2");
        assert_eq!(key(&iter), Some("aa2"));
        iter.seek_for_prev("cc3");
        assert_eq!(key(&iter), Some("cc2"));
        db.flush().unwrap();
        assert_eq!(whole(with(ReadOptions::new())), ["aa1", "aa2", "bb1", "cc1", "cc2"]);
    }
}

/// A scan that skips a memtable must not remember a deleted run: the memtable may have keys in it.
#[test]
fn a_scan_past_a_hash_memtable_remembers_no_deleted_run() {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.allow_concurrent_memtable_write = false;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.disable_auto_compactions = true;
    options.cf.prefix_extractor = Some(prefix::fixed(2));
    options.cf.memtable_factory = MemtableFactory::HashSkipList;
    let db = Db::open(&options, "/db").unwrap();
    let name = |i: u32| format!("k{i:05}");
    for i in 0..5000 {
        db.put(name(i), "value").unwrap();
    }
    db.flush().unwrap();
    (0..5000).for_each(|i| db.delete(name(i)).unwrap());
    db.flush().unwrap();
    db.put(name(2500), "value").unwrap();
    let scan = |read: ReadOptions| {
        let mut iter = db.iter_opt(read, &db.default_column_family()).unwrap();
        iter.seek_to_first();
        key(&iter).map(str::to_owned)
    };
    for _ in 0..3 {
        assert_eq!(scan(ReadOptions::new()), None);
    }
    assert_eq!(scan(ReadOptions::new().total_order_seek(true)), Some(name(2500)));
}
