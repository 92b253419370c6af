//! Batches of reads give the same results as single reads.

use esker::builtin::string_append;
use esker::comparator::ReverseBytewiseComparator;
use esker::internals::base::perf_context::PerfContext;
use esker::internals::base::sync::epoch;
use esker::internals::cache::{Cache, CacheOptions};
use esker::internals::env::fault::OpKind;
use esker::internals::env::{FaultFs, FaultRule, PosixFileSystem, mem::MemFs};
use esker::internals::format::properties::IndexType;
use esker::internals::table::{BlockBasedTableOptions, FilterPolicy};
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyHandle, Db, Env, ErrorKind, MultiGetOutput, Options, ReadOptions,
    ReadTier, Snapshot,
};
use esker_testkit::TempDir;
use esker_testkit::seed::for_each_seed;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

pub(crate) const KEYS: u64 = 400;

pub(crate) fn options(fs: FaultFs) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.create_missing_column_families = true;
    options.db.env = Env::with_fs(Arc::new(fs));
    options.cf.merge_operator = Some(string_append(","));
    options.cf.disable_auto_compactions = true;
    options.cf.target_file_size_base = 2 << 10;
    options.cf.table.block_size = 128;
    options.cf.table.filter_policy = Some(FilterPolicy::bloom(10.0));
    options
}

pub(crate) fn open(options: &Options, path: &Path, rng: &mut fastrand::Rng) -> Db {
    let mut families = Vec::new();
    for name in ["default", "plain", "reverse"] {
        let mut cf = options.cf.clone();
        if name == "reverse" {
            cf.comparator = Arc::new(ReverseBytewiseComparator);
        }
        if rng.bool() {
            cf.table.filter_policy = None;
        }
        keep_little_in_memory(&mut cf.table, rng);
        families.push(ColumnFamilyDescriptor::new(name, cf));
    }
    Db::open_cf(&options.db, path, families).unwrap()
}

/// Chooses how much of the tables stays in memory, from all to nothing, so that keys of a batch
/// wait at every step of a read.
fn keep_little_in_memory(table: &mut BlockBasedTableOptions, rng: &mut fastrand::Rng) {
    let capacity = [0, 2 << 10, 20 << 10, 8 << 20][rng.usize(..4)];
    table.block_cache = Some(Arc::new(Cache::new(&CacheOptions::with_capacity(capacity)).unwrap()));
    table.no_block_cache = rng.u8(..8) == 0;
    table.cache_index_and_filter_blocks = !table.no_block_cache && rng.bool();
    table.metadata_block_size = 100;
    if rng.bool() {
        table.index_type = IndexType::TwoLevel;
        table.partition_filters = rng.bool();
    }
}

/// Key `n`: short or long, with or without eight common bytes.
pub(crate) fn key(n: u64) -> Vec<u8> {
    match n % 3 {
        0 => format!("{n:03}").into_bytes(),
        1 => format!("a-long-common-prefix-{n:03}").into_bytes(),
        _ => n.to_be_bytes().to_vec(),
    }
}

pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// The ends of a random range, in the family's order.
fn range(reverse: bool, rng: &mut fastrand::Rng) -> (Vec<u8>, Vec<u8>) {
    let (a, b) = (key(rng.u64(..KEYS)), key(rng.u64(..KEYS)));
    if (a < b) == reverse { (b, a) } else { (a, b) }
}

pub(crate) fn change(db: &Db, family: &ColumnFamilyHandle, model: &mut Model, rng: &mut fastrand::Rng) {
    let k = key(rng.u64(..KEYS));
    let length = if rng.u8(..8) == 0 { 1500 } else { rng.usize(..40) };
    let value = vec![rng.u8(b'a'..=b'z'); length];
    match rng.u8(..20) {
        0..10 => {
            db.put_cf(family, &k, &value).unwrap();
            model.insert(k, value);
        }
        10..15 => {
            db.merge_opt(&Default::default(), family, &k, &value).unwrap();
            let merged = match model.remove(&k) {
                Some(old) => [old, value].join(&b','),
                None => value,
            };
            model.insert(k, merged);
        }
        15..19 => {
            db.delete_cf(family, &k).unwrap();
            model.remove(&k);
        }
        _ => {
            let reverse = family.name() == "reverse";
            let (begin, end) = range(reverse, rng);
            db.delete_range_opt(&Default::default(), family, &begin, &end).unwrap();
            let within =
                |k: &Vec<u8>| if reverse { *k <= begin && *k > end } else { *k >= begin && *k < end };
            model.retain(|k, _| !within(k));
        }
    }
}

pub(crate) fn settle(db: &Db, families: &[ColumnFamilyHandle], rng: &mut fastrand::Rng) {
    let chosen: Vec<_> = families.iter().filter(|_| rng.bool()).collect();
    match rng.u8(..4) {
        0 | 1 => db.flush_opt(&Default::default(), &chosen).unwrap(),
        2 => {
            for family in chosen {
                db.compact_range_opt(&Default::default(), family, None, None).unwrap();
            }
        }
        _ => {}
    }
}

/// Compares a random batch with the models and with reads one by one.
fn check(
    db: &Db,
    families: &[ColumnFamilyHandle],
    (models, snapshot): (&[Model], Option<&Snapshot>),
    output: &mut MultiGetOutput,
    rng: &mut fastrand::Rng,
) {
    let len = [0, 1, 2, 7, 40, 300, 900][rng.usize(..7)];
    let near = rng.u64(..KEYS);
    let wanted: Vec<(usize, Vec<u8>)> = (0..len)
        .map(|_| {
            let n = if rng.bool() { near + rng.u64(..20) } else { rng.u64(..KEYS + 20) };
            (rng.usize(..families.len()), key(n))
        })
        .collect();
    let mut options = snapshot.map_or_else(ReadOptions::default, |s| ReadOptions::new().snapshot(s));
    options.async_io = rng.bool();
    options.fill_cache = rng.u8(..4) > 0;
    let pairs: Vec<_> = wanted.iter().map(|(f, k)| (&families[*f], k.as_slice())).collect();
    db.multi_get_lent_cf(&options, &pairs, output);
    let pinned = db.multi_get_cf(&options, &pairs);
    assert_eq!((output.len(), pinned.len(), output.is_empty()), (len, len, len == 0));
    for (i, (f, k)) in wanted.iter().enumerate() {
        let expected = models[*f].get(k).map(Vec::as_slice);
        let context = || format!("key {} of family {f}", k.escape_ascii());
        assert_eq!(output.get(i).unwrap(), expected, "lent: {}", context());
        assert_eq!(output.take_pinned(i).unwrap().as_deref(), expected, "taken: {}", context());
        assert_eq!(pinned[i].as_ref().unwrap().as_deref(), expected, "pinned: {}", context());
        assert_eq!(
            db.get_opt(&options, &families[*f], k).unwrap().as_deref(),
            expected,
            "get: {}",
            context()
        );
    }
    let mut values = Vec::new();
    for (f, family) in families.iter().enumerate() {
        let keys: Vec<&[u8]> = wanted.iter().filter(|(of, _)| *of == f).map(|(_, k)| k.as_slice()).collect();
        db.multi_get_into(&options, family, &keys, &mut values);
        assert_eq!(values.len(), keys.len());
        for (k, value) in keys.iter().zip(&values) {
            let expected = models[f].get(*k).map(Vec::as_slice);
            assert_eq!(
                value.as_ref().unwrap().as_deref(),
                expected,
                "key {} of family {f}",
                k.escape_ascii()
            );
        }
    }
}

fn batches_agree(rng: &mut fastrand::Rng, options: &Options, path: &Path, rounds: usize) {
    let db = open(options, path, rng);
    let families: Vec<_> =
        ["default", "plain", "reverse"].iter().map(|name| db.column_family(name).unwrap()).collect();
    let mut models = vec![Model::new(); 3];
    let mut kept: Vec<(Snapshot, Vec<Model>)> = Vec::new();
    let mut output = MultiGetOutput::new();
    for _ in 0..rounds {
        for _ in 0..rng.usize(..80) {
            let f = rng.usize(..3);
            change(&db, &families[f], &mut models[f], rng);
        }
        if rng.u8(..4) == 0 {
            kept.push((db.snapshot(), models.clone()));
        }
        settle(&db, &families, rng);
        check(&db, &families, (&models, None), &mut output, rng);
        if let Some((snapshot, models)) = kept.get(rng.usize(..kept.len().max(1))) {
            check(&db, &families, (models, Some(snapshot)), &mut output, rng);
        }
    }
}

#[test]
fn batches_give_what_the_model_and_single_reads_give() {
    for_each_seed("multi_get", 4, |_, mut rng| {
        let mut options = options(FaultFs::new(Arc::new(MemFs::new())));
        options.db.max_open_files = if rng.bool() { 12 } else { -1 };
        // Blocks with many keys, which are searched key by key, or with few.
        options.cf.table.block_size = [128, 128, 1024, 4096][rng.usize(..4)];
        options.cf.table.block_restart_interval = [1, 4, 16][rng.usize(..3)];
        batches_agree(&mut rng, &options, Path::new("/db"), 40);
    });
}

#[test]
fn batches_read_from_real_files_give_the_same() {
    for_each_seed("multi_get_files", 2, |_, mut rng| {
        let dir = TempDir::new("multi-get");
        let mut options = options(FaultFs::new(Arc::new(MemFs::new())));
        options.db.env = Env::with_fs(Arc::new(PosixFileSystem::new()));
        batches_agree(&mut rng, &options, &dir.path().join("db"), 8);
    });
}

#[test]
fn an_unreadable_block_fails_its_own_keys() {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let mut options = options(fs.clone());
    options.cf.table.no_block_cache = true;
    options.cf.table.block_size = 1;
    let db = Db::open(&options, "/db").unwrap();
    let keys: Vec<[u8; 8]> = (0u64..100).map(u64::to_be_bytes).collect();
    for key in &keys {
        db.put(key, b"value").unwrap();
    }
    db.flush().unwrap();
    db.get(keys[0]).unwrap();
    for pin in [false, true] {
        fs.add_rule(FaultRule::fail(&[OpKind::Read]).on_name(".sst").nth(50));
        let mut output = MultiGetOutput::new();
        let found: Vec<_> = if pin {
            db.multi_get(&keys).into_iter().map(|value| value.map(|v| v.map(|v| v.to_vec()))).collect()
        } else {
            db.multi_get_lent(&ReadOptions::default(), &db.default_column_family(), &keys, &mut output);
            output.iter().map(|value| value.map(|v| v.map(<[u8]>::to_vec))).collect()
        };
        let (good, bad): (Vec<_>, Vec<_>) = found.into_iter().partition(Result::is_ok);
        assert_eq!(bad.len(), 1, "each key has a block of its own");
        assert_eq!(bad[0].as_ref().unwrap_err().kind(), ErrorKind::IoError);
        assert!(good.iter().all(|value| value.as_ref().unwrap().as_deref() == Some(b"value")));
    }
}

#[test]
fn a_limit_of_bytes_ends_the_batch_in_the_order_of_its_keys() {
    let db = Db::open(&options(FaultFs::new(Arc::new(MemFs::new()))), "/db").unwrap();
    for k in ["a", "b", "c"] {
        db.put(k, [0; 100]).unwrap();
    }
    db.flush().unwrap();
    let mut output = MultiGetOutput::new();
    let options = ReadOptions { value_size_soft_limit: 150, ..ReadOptions::default() };
    db.multi_get_lent(&options, &db.default_column_family(), &["c", "a", "b", "a"], &mut output);
    let lengths: Vec<_> =
        output.iter().map(|v| v.map(|v| v.map(<[u8]>::len)).map_err(|e| e.kind())).collect();
    assert_eq!(lengths, [Ok(Some(100)), Ok(Some(100)), Err(ErrorKind::Aborted), Err(ErrorKind::Aborted)]);
}

#[test]
fn no_guard_is_held_while_files_are_read() {
    for_each_seed("multi_get_guards", 6, |_, mut rng| {
        let fs = FaultFs::new(Arc::new(MemFs::new()));
        let mut options = options(fs.clone());
        options.db.max_open_files = if rng.bool() { 12 } else { -1 };
        options.cf.enable_blob_files = true;
        options.cf.min_blob_size = 1000;
        let db = open(&options, Path::new("/db"), &mut rng);
        let family = db.default_column_family();
        let mut model = Model::new();
        for _ in 0..6 {
            (0..60).for_each(|_| change(&db, &family, &mut model, &mut rng));
            db.flush().unwrap();
        }
        fs.on_op(|op| assert!(op.kind != OpKind::Read || !epoch::is_pinned(), "{op:?}"));
        let read = ReadOptions { async_io: rng.bool(), ..ReadOptions::default() };
        for batch in [1, 9, 200] {
            let keys: Vec<_> = (0..batch).map(|_| key(rng.u64(..KEYS))).collect();
            for (key, value) in keys.iter().zip(db.multi_get_opt(&read, &family, &keys)) {
                assert_eq!(value.unwrap().as_deref(), model.get(key).map(Vec::as_slice));
                assert_eq!(db.get(key).unwrap().as_ref(), model.get(key));
            }
        }
        fs.clear_hook();
    });
}

#[test]
fn the_cache_only_tier_fails_the_keys_that_would_be_read_from_files() {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let mut options = options(fs.clone());
    options.cf.table.block_size = 1;
    // An LRU cache keeps all blocks for which it has room; a clock cache may find all slots of a
    // key taken.
    options.cf.table.block_cache = Some(Arc::new(Cache::lru(&CacheOptions::with_capacity(1 << 20)).unwrap()));
    let db = Db::open(&options, "/db").unwrap();
    let keys: Vec<[u8; 8]> = (0u64..100).map(u64::to_be_bytes).collect();
    keys.iter().for_each(|key| db.put(key, b"value").unwrap());
    db.flush().unwrap();
    keys.iter().step_by(3).for_each(|key| drop(db.get(key).unwrap()));
    fs.on_op(|op| assert_ne!(op.kind, OpKind::Read));
    let options = ReadOptions { read_tier: ReadTier::BlockCache, ..ReadOptions::default() };
    for batch in [1, 10, 100] {
        let keys = &keys[..batch];
        for (i, value) in db.multi_get_opt(&options, &db.default_column_family(), keys).iter().enumerate() {
            match value {
                Ok(value) => assert_eq!((i % 3, value.as_deref()), (0, Some(&b"value"[..]))),
                Err(e) => assert_eq!((i % 3 > 0, e.kind()), (true, ErrorKind::Incomplete)),
            }
        }
    }
    fs.clear_hook();
}

/// An error concerns only its key, even if blocks of all levels are read at once. An error of an
/// older file does not affect keys that newer files have.
#[test]
fn errors_of_older_files_do_not_touch_keys_of_newer_ones() {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let mut options = options(fs.clone());
    options.cf.table.no_block_cache = true;
    options.cf.table.block_size = 1;
    options.cf.table.filter_policy = None;
    let db = Db::open(&options, "/db").unwrap();
    let keys: Vec<[u8; 8]> = (0u64..60).map(u64::to_be_bytes).collect();
    keys.iter().for_each(|key| db.put(key, b"old").unwrap());
    db.flush().unwrap();
    db.get(keys[0]).unwrap();
    let old = db.live_files()[0].file.relative_filename.clone();
    keys.iter().step_by(2).for_each(|key| db.put(key, b"new").unwrap());
    db.flush().unwrap();
    fs.add_rule(FaultRule::fail(&[OpKind::Read]).on_name(&old).forever());
    only_every_other_key_is_there(&db, &keys);
}

/// Checks that the other keys fail: their files cannot be read.
fn only_every_other_key_is_there(db: &Db, keys: &[[u8; 8]]) {
    for async_io in [false, true] {
        let options = ReadOptions { async_io, ..ReadOptions::default() };
        for (i, value) in db.multi_get_opt(&options, &db.default_column_family(), keys).iter().enumerate() {
            match value {
                Ok(value) => assert_eq!((i % 2, value.as_deref()), (0, Some(&b"new"[..]))),
                Err(e) => assert_eq!((i % 2, e.kind()), (1, ErrorKind::IoError)),
            }
        }
    }
}

/// The errors come from an older table that cannot be opened.
#[test]
fn tables_that_cannot_be_opened_do_not_touch_keys_of_newer_ones() {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let mut options = options(fs.clone());
    options.cf.table.no_block_cache = true;
    options.db.max_open_files = 12;
    let db = Db::open(&options, "/db").unwrap();
    let keys: Vec<[u8; 8]> = (0u64..60).map(u64::to_be_bytes).collect();
    keys.iter().for_each(|key| db.put(key, b"old").unwrap());
    db.flush().unwrap();
    let old = db.live_files()[0].file.relative_filename.clone();
    for _ in 0..20 {
        keys.iter().step_by(2).for_each(|key| db.put(key, b"new").unwrap());
        db.flush().unwrap();
    }
    fs.add_rule(FaultRule::fail(&[OpKind::Open]).on_name(&old).forever());
    only_every_other_key_is_there(&db, &keys);
}

#[test]
fn a_million_keys_in_one_batch() {
    let db = Db::open(&options(FaultFs::new(Arc::new(MemFs::new()))), "/db").unwrap();
    (0..1000u64).step_by(2).for_each(|n| db.put(n.to_be_bytes(), n.to_le_bytes()).unwrap());
    db.flush().unwrap();
    let keys: Vec<[u8; 8]> = (0..1_000_000u64).map(|n| (n * 7919 % 1000).to_be_bytes()).collect();
    let mut output = MultiGetOutput::new();
    db.multi_get_lent(&ReadOptions::default(), &db.default_column_family(), &keys, &mut output);
    for (key, value) in keys.iter().zip(output.iter()) {
        let n = u64::from_be_bytes(*key);
        assert_eq!(value.unwrap(), (n % 2 == 0).then(|| n.to_le_bytes()).as_ref().map(|v| &v[..]));
    }
}

#[test]
fn a_snapshot_of_another_database_is_refused_by_gets_and_batches() {
    let open = || Db::open(&options(FaultFs::new(Arc::new(MemFs::new()))), "/db").unwrap();
    let (db, other) = (open(), open());
    db.put("a", "old").unwrap();
    other.put("a", "other").unwrap();
    let (own, foreign) = (db.snapshot(), other.snapshot());
    db.put("a", "new").unwrap();
    let family = db.default_column_family();
    let at_own = ReadOptions::new().snapshot(&own);
    assert_eq!(db.get_opt(&at_own, &family, "a").unwrap().as_deref(), Some(&b"old"[..]));
    let at_foreign = ReadOptions::new().snapshot(&foreign);
    let refused = |e: esker::Error| assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    refused(db.get_opt(&at_foreign, &family, "a").unwrap_err());
    refused(db.iter_opt(at_foreign.clone(), &family).unwrap_err());
    refused(db.explain_multi_get(&at_foreign, &family, &["a"]).unwrap_err());
    for value in db.multi_get_opt(&at_foreign, &family, &["a", "b"]) {
        refused(value.unwrap_err());
    }
    let mut output = MultiGetOutput::new();
    db.multi_get_lent(&at_foreign, &family, &["a"; 40], &mut output);
    output.iter().for_each(|value| refused(value.unwrap_err()));
}

#[test]
fn keys_that_come_twice_get_their_value_twice() {
    let db = Db::open(&options(FaultFs::new(Arc::new(MemFs::new()))), "/db").unwrap();
    for n in 0..30 {
        db.put(format!("key{n:02}"), n.to_string()).unwrap();
        if n == 15 {
            db.flush().unwrap();
        }
    }
    for count in [2, 10, 40, 500] {
        let keys: Vec<String> = (0..count).map(|i| format!("key{:02}", i % 7 * 5)).collect();
        let mut output = MultiGetOutput::new();
        db.multi_get_lent(&ReadOptions::default(), &db.default_column_family(), &keys, &mut output);
        for (i, value) in output.iter().enumerate() {
            let n = i % 7 * 5;
            let expected = (n < 30).then(|| n.to_string());
            assert_eq!(value.unwrap(), expected.as_ref().map(String::as_bytes), "{count}: {i}");
        }
        for (i, value) in db.multi_get(&keys).into_iter().enumerate() {
            let expected = (i % 7 < 6).then(|| (i % 7 * 5).to_string());
            assert_eq!(value.unwrap().as_deref(), expected.as_ref().map(String::as_bytes));
        }
    }
}

/// The keys are sorted and repeated: most occur several times, and some end like others. They lie
/// in memtables, in cached files and in files that reads wait for.
#[test]
fn keys_named_again_and_again_get_what_get_gives() {
    for_each_seed("keys named again", 12, |seed, mut rng| {
        let mut options = options(FaultFs::new(Arc::new(MemFs::new())));
        keep_little_in_memory(&mut options.cf.table, &mut rng);
        if rng.bool() {
            options.cf.table.no_block_cache = true;
            options.cf.table.cache_index_and_filter_blocks = false;
        }
        let path = if rng.bool() { "/db" } else { "/dba" };
        let db = Db::open(&options, path).unwrap();
        // Every second key ends like the key before it.
        let key = |n: u64| format!("{}{:08}", ["", "before-"][(n % 2) as usize], n / 2).into_bytes();
        let (in_files, all) = (rng.bool(), 60);
        for _ in 0..all * 2 {
            let n = rng.u64(..all);
            match rng.u8(..8) {
                0 => db.delete(key(n)).unwrap(),
                1 | 2 => db.merge(key(n), n.to_string()).unwrap(),
                3 => db.delete_range(key(n), key(n + 2)).unwrap(),
                _ => db.put(key(n), vec![b'v'; rng.usize(..40) * rng.usize(..40)]).unwrap(),
            }
            if in_files && rng.u8(..20) == 0 {
                db.flush().unwrap();
            }
        }
        let family = db.default_column_family();
        let (mut output, mut into) = (MultiGetOutput::new(), Vec::new());
        for round in 0..200 {
            let few = rng.choice([3, 6, 10, all]).unwrap();
            let most = rng.choice([6, 15, 15, 100]).unwrap();
            let len = rng.usize(..most);
            let keys: Vec<Vec<u8>> = (0..len).map(|_| key(rng.u64(..few) * all / few)).collect();
            let reads = ReadOptions { async_io: rng.bool(), ..ReadOptions::default() };
            let expected: Vec<_> = keys.iter().map(|key| db.get(key).unwrap()).collect();
            db.multi_get_lent(&reads, &family, &keys, &mut output);
            db.multi_get_into(&reads, &family, &keys, &mut into);
            assert_eq!((output.len(), into.len()), (len, len));
            for (i, expected) in expected.iter().enumerate() {
                let context = format!("seed {seed}, round {round}: {i} of {keys:?}");
                assert_eq!(output.get(i).unwrap(), expected.as_deref(), "lent: {context}");
                assert_eq!(into[i].as_ref().unwrap().as_deref(), expected.as_deref(), "into: {context}");
            }
        }
    });
}

#[test]
fn a_block_that_no_cache_keeps_is_read_once_for_all_keys_of_a_batch() {
    for (no_block_cache, fill_cache) in [(false, true), (false, false), (true, true)] {
        let mut options = options(FaultFs::new(Arc::new(MemFs::new())));
        options.cf.table.block_size = 16 << 10;
        options.cf.table.no_block_cache = no_block_cache;
        // One file reports that reads never wait, the other does not.
        for path in ["/db", "/dba"] {
            let db = Db::open(&options, path).unwrap();
            let keys: Vec<String> = (0..60).map(|n| format!("key{n:02}")).collect();
            keys.iter().for_each(|key| db.put(key, key).unwrap());
            db.flush().unwrap();
            let reads = ReadOptions { fill_cache, ..ReadOptions::default() };
            let before = PerfContext::current().block_read_count;
            for (key, value) in keys.iter().zip(db.multi_get_opt(&reads, &db.default_column_family(), &keys))
            {
                assert_eq!(value.unwrap().as_deref(), Some(key.as_bytes()));
            }
            let read = PerfContext::current().block_read_count - before;
            assert_eq!(read, 1, "{no_block_cache} {fill_cache} {path}");
        }
    }
}

#[test]
fn blocks_of_newer_files_are_read_before_those_of_older_files() {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let mut options = options(fs.clone());
    options.cf.table.filter_policy = None;
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    let put_from = |from: u64| {
        (from..200).step_by(2).for_each(|n| db.put(format!("key{n:03}"), n.to_string()).unwrap());
        db.flush().unwrap();
        let files = db.live_files();
        let newest = files.iter().max_by_key(|file| file.file_number).unwrap().file_number;
        Path::new("/db").join(format!("{newest:06}.sst"))
    };
    let (older, newer) = (put_from(0), put_from(1));
    let keys: Vec<String> = (0..8).map(|n| format!("key{:03}", 10 + 20 * n)).collect();
    fs.list_ops(true);
    for (key, value) in keys.iter().zip(db.multi_get_opt(&ReadOptions::default(), &family, &keys)) {
        assert_eq!(value.unwrap().as_deref(), Some(key[3..].trim_start_matches('0').as_bytes()));
    }
    let reads: Vec<_> = fs.take_ops().into_iter().filter(|op| op.kind == OpKind::Read).collect();
    let of = |path: &Path| reads.iter().filter(|op| op.path == path).map(|op| op.index).collect::<Vec<_>>();
    let (of_older, of_newer) = (of(&older), of(&newer));
    assert_eq!((of_older.len(), of_newer.len()), (8, 8), "{reads:?}");
    assert!(of_newer.last() < of_older.first(), "{reads:?}");
}

#[test]
fn a_value_above_the_limit_of_bytes_is_the_last_that_is_read() {
    let db = Db::open(&options(FaultFs::new(Arc::new(MemFs::new()))), "/db").unwrap();
    for k in ["a", "b", "c"] {
        db.put(k, [0; 1000]).unwrap();
    }
    for is_flushed in [false, true] {
        if is_flushed {
            db.flush().unwrap();
        }
        let options = ReadOptions { value_size_soft_limit: 10, ..ReadOptions::default() };
        let values = db.multi_get_opt(&options, &db.default_column_family(), &["a", "none", "b", "c"]);
        let kinds: Vec<_> =
            values.into_iter().map(|v| v.map(|v| v.is_some()).map_err(|e| e.kind())).collect();
        assert_eq!(
            kinds,
            [Ok(true), Err(ErrorKind::Aborted), Err(ErrorKind::Aborted), Err(ErrorKind::Aborted)]
        );
    }
}

#[test]
fn a_range_that_ends_before_it_begins_is_refused_and_an_empty_one_deletes_nothing() {
    let db = Db::open(&options(FaultFs::new(Arc::new(MemFs::new()))), "/db").unwrap();
    db.put("b", "value").unwrap();
    assert_eq!(db.delete_range("c", "a").unwrap_err().kind(), ErrorKind::InvalidArgument);
    db.delete_range("b", "b").unwrap();
    for _ in 0..2 {
        assert_eq!(db.get("b").unwrap().as_deref(), Some(&b"value"[..]));
        db.flush().unwrap();
    }
    // The range covers all keys.
    db.delete_range("", "c").unwrap();
    assert_eq!(db.get("b").unwrap(), None);
}

#[test]
fn a_batch_for_a_family_that_is_not_there_changes_nothing() {
    let db = Db::open(&options(FaultFs::new(Arc::new(MemFs::new()))), "/db").unwrap();
    let mut batch = esker::WriteBatch::new();
    batch.put_cf(esker::ColumnFamilyId(0), b"a", b"value").unwrap();
    batch.put_cf(esker::ColumnFamilyId(77), b"a", b"value").unwrap();
    assert_eq!(db.write(&mut batch).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(db.get("a").unwrap(), None);
}
