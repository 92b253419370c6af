//! Read options have the same effect in every kind of read.

use esker::internals::env::fault::OpKind;
use esker::internals::env::{FaultFs, MockClock, mem::MemFs};
use esker::{
    Db, Env, ErrorKind, MultiGetOutput, Options, ReadOptions, ReadTier, TransactionDb, TransactionDbOptions,
    WriteOptions,
};
use std::sync::Arc;
use std::time::Duration;

fn options(fs: &FaultFs) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(fs.clone()));
    options.cf.disable_auto_compactions = true;
    options
}

fn fault_fs() -> FaultFs {
    FaultFs::new(Arc::new(MemFs::new()))
}

fn tier(read_tier: ReadTier) -> ReadOptions {
    ReadOptions { read_tier, ..ReadOptions::default() }
}

/// The results of point reads of `keys`. Checks that every kind of read gives the same.
fn read_all_ways(db: &Db, options: &ReadOptions, keys: &[&str]) -> Vec<Result<Option<String>, ErrorKind>> {
    let family = db.default_column_family();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let one = |key: &&str| {
        let got = db.get_opt(options, &family, key).map(|v| v.map(|v| text(&v))).map_err(|e| e.kind());
        let entity = db.get_entity(options, &family, key);
        let entity = entity.map(|v| v.map(|v| text(v.default_column()))).map_err(|e| e.kind());
        assert_eq!(entity, got, "{key}");
        let alone = db.multi_get_opt(options, &family, &[key]).pop().unwrap();
        assert_eq!(alone.map(|v| v.map(|v| text(&v))).map_err(|e| e.kind()), got, "{key}");
        got
    };
    let found: Vec<_> = keys.iter().map(one).collect();
    let batch = |keys: &[&str]| -> Vec<_> {
        let values = db.multi_get_opt(options, &family, keys).into_iter();
        values.map(|v| v.map(|v| v.map(|v| text(&v))).map_err(|e| e.kind())).collect()
    };
    assert_eq!(batch(keys), found);
    let many: Vec<&str> = keys.iter().copied().cycle().take(keys.len() * 20).collect();
    assert!(batch(&many).chunks(keys.len()).all(|chunk| chunk == found));
    let pairs: Vec<(_, &[u8])> = keys.iter().map(|key| (&family, key.as_bytes())).collect();
    let values = db.multi_get_cf(options, &pairs).into_iter();
    let values: Vec<_> = values.map(|v| v.map(|v| v.map(|v| text(&v))).map_err(|e| e.kind())).collect();
    assert_eq!(values, found);
    let mut output = MultiGetOutput::new();
    db.multi_get_lent(options, &family, keys, &mut output);
    let lent: Vec<_> = output.iter().map(|v| v.map(|v| v.map(text)).map_err(|e| e.kind())).collect();
    assert_eq!(lent, found);
    let entities = db.multi_get_entity(options, &family, keys).into_iter();
    let entities: Vec<_> =
        entities.map(|v| v.map(|v| v.map(|v| text(v.default_column()))).map_err(|e| e.kind())).collect();
    assert_eq!(entities, found);
    found
}

#[test]
fn unlogged_writes_are_not_persisted_data() {
    let db = Db::open(&options(&fault_fs()), "/db").unwrap();
    let family = db.default_column_family();
    let unlogged = WriteOptions { disable_wal: true, ..WriteOptions::default() };
    let persisted = tier(ReadTier::Persisted);
    db.put("a", "1").unwrap();
    assert_eq!(read_all_ways(&db, &persisted, &["a", "b"]), [Ok(Some("1".to_owned())), Ok(None)]);
    db.flush().unwrap();
    db.put_opt(&unlogged, &family, "b", "2").unwrap();
    db.put_opt(&unlogged, &family, "a", "3").unwrap();
    assert_eq!(read_all_ways(&db, &persisted, &["a", "b"]), [Ok(Some("1".to_owned())), Ok(None)]);
    let all = ReadOptions::default();
    let both = [Ok(Some("3".to_owned())), Ok(Some("2".to_owned()))];
    assert_eq!(read_all_ways(&db, &all, &["a", "b"]), both);
    db.flush().unwrap();
    assert_eq!(read_all_ways(&db, &persisted, &["a", "b"]), both);
    assert_eq!(db.iter_opt(persisted.clone(), &family).unwrap_err().kind(), ErrorKind::NotSupported);
    db.close().unwrap();
    drop(db);
    let db = TransactionDb::open(&options(&fault_fs()), &TransactionDbOptions::default(), "/txn").unwrap();
    let txn = db.begin_transaction();
    txn.put("own", "1").unwrap();
    let family = db.db().default_column_family();
    assert_eq!(txn.get_opt(&persisted, &family, "own").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(txn.iter_opt(&persisted, &family).unwrap_err().kind(), ErrorKind::NotSupported);
}

/// A table that is not open cannot be read without I/O.
#[test]
fn the_cache_only_tier_opens_no_table() {
    let fs = fault_fs();
    let mut options = options(&fs);
    options.db.max_open_files = 12;
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    let keys: Vec<String> = (0..40).map(|n| format!("key{n:02}")).collect();
    for key in &keys {
        db.put(key, "value").unwrap();
        db.flush().unwrap();
    }
    // The block of each key is in the cache.
    keys.iter().for_each(|key| assert!(db.get(key).unwrap().is_some()));
    let cached = tier(ReadTier::BlockCache);
    fs.on_op(|op| assert!(!matches!(op.kind, OpKind::Read | OpKind::Open), "{op:?}"));
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let found = read_all_ways(&db, &cached, &keys);
    let (there, open): (Vec<_>, Vec<_>) = found.into_iter().partition(Result::is_ok);
    assert!(there.iter().all(|value| value == &Ok(Some("value".to_owned()))));
    assert!(!there.is_empty() && !open.is_empty(), "{} there", there.len());
    assert!(open.iter().all(|value| value == &Err(ErrorKind::Incomplete)));
    assert!(keys.iter().all(|key| db.key_may_exist(&family, key)));
    let scanned = db.iter_opt(cached.clone(), &family).and_then(|mut iter| {
        iter.seek_to_first();
        iter.status()
    });
    assert_eq!(scanned.unwrap_err().kind(), ErrorKind::Incomplete);
    fs.clear_hook();
}

/// After its deadline a read still returns values from memory, and waits for no file.
#[test]
fn a_read_past_its_deadline_waits_for_no_file() {
    let (fs, clock) = (fault_fs(), Arc::new(MockClock::new(1_000_000)));
    let mut options = options(&fs);
    options.db.env = Env::new(Arc::new(fs.clone()), clock.clone());
    options.cf.table.no_block_cache = true;
    options.cf.table.block_size = 128;
    options.cf.enable_blob_files = true;
    options.cf.min_blob_size = 100;
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    (0..100).for_each(|n| db.put(format!("key{n:02}"), "value").unwrap());
    db.flush().unwrap();
    db.put("blob", "b".repeat(100)).unwrap();
    db.flush().unwrap();
    db.put("new", "value").unwrap();
    let keys = ["key07", "new", "key99", "blob"];
    let until =
        |micros| ReadOptions { deadline: Some(Duration::from_micros(micros)), ..ReadOptions::default() };
    // Sleep advances the clock.
    const NOW: u64 = 1 << 40;
    clock.set_micros(NOW);
    let there: Vec<_> = ["value", "value", "value", &"b".repeat(100)].map(|v| Ok(Some(v.to_owned()))).into();
    assert_eq!(read_all_ways(&db, &until(NOW + (1 << 30)), &keys), there);
    let late = Err(ErrorKind::TimedOut);
    for deadline in [1, NOW] {
        fs.on_op(|op| assert_ne!(op.kind, OpKind::Read));
        let in_memory = there[1].clone();
        let expected = [late.clone(), in_memory, late.clone(), late.clone()];
        assert_eq!(read_all_ways(&db, &until(deadline), &keys), expected);
        let mut iter = db.iter_opt(until(deadline), &family).unwrap();
        iter.seek("key50");
        assert_eq!(iter.status().unwrap_err().kind(), ErrorKind::TimedOut);
        fs.clear_hook();
    }
    // Steps have the same deadline as the seek.
    let mut iter = db.iter_opt(until(2 * NOW), &family).unwrap();
    iter.seek("key00");
    clock.set_micros(2 * NOW);
    let mut rows = 0;
    while iter.valid() {
        rows += 1;
        iter.next();
    }
    assert!(rows < 100);
    assert_eq!(iter.status().unwrap_err().kind(), ErrorKind::TimedOut);
}

/// A scan reads ahead no further than the file's end, whatever the option says.
#[test]
fn as_much_read_ahead_as_can_be_asked_for_is_the_whole_file() {
    let fs = fault_fs();
    let mut options = options(&fs);
    options.cf.table.no_block_cache = true;
    options.cf.table.block_size = 128;
    let db = Db::open(&options, "/db").unwrap();
    (0..200).for_each(|n| db.put(format!("key{n:03}"), "value").unwrap());
    db.flush().unwrap();
    db.get("key000").unwrap();
    for readahead_size in [usize::MAX, usize::MAX / 2, 1 << 40] {
        let read = ReadOptions { readahead_size, ..ReadOptions::default() };
        let mut iter = db.iter_opt(read, &db.default_column_family()).unwrap();
        fs.list_ops(true);
        for forward in [true, false] {
            if forward {
                iter.seek_to_first()
            } else {
                iter.seek_to_last()
            }
            let mut rows = 0;
            while iter.valid() {
                rows += 1;
                if forward { iter.next() } else { iter.prev() }
            }
            iter.status().unwrap();
            assert_eq!(rows, 200);
        }
        let reads = fs.take_ops().iter().filter(|op| op.kind == OpKind::Read).count();
        fs.list_ops(false);
        assert!(reads < 10, "{reads} reads");
    }
}
