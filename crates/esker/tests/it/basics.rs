//! The calls of a user's first hour: open, write, read, families.

use esker::internals::env::mem::MemFs;
use esker::internals::env::{FaultFs, OpKind};
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyOptions, Db, Env, ErrorKind, FlushOptions, OpenMode, Options,
    ReadOptions, WriteBatch, WriteOptions,
};
use std::path::Path;
use std::sync::Arc;

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options
}

fn contents(db: &Db) -> Vec<(String, String)> {
    let mut iter = db.iter().unwrap();
    iter.seek_to_first();
    let mut out = Vec::new();
    while let Some((key, value)) = iter.item() {
        out.push((String::from_utf8_lossy(key).into_owned(), String::from_utf8_lossy(value).into_owned()));
        iter.next();
    }
    iter.status().unwrap();
    out
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

/// With this option, RocksDB has no snapshots, and refuses concurrent writes.
#[test]
fn a_family_with_inplace_updates_loses_no_version_that_a_snapshot_sees() {
    let fs = std::sync::Arc::new(esker::internals::env::mem::MemFs::new());
    let mut options = esker::Options::default();
    options.db.create_if_missing = true;
    options.db.env = esker::Env::with_fs(fs);
    options.db.avoid_flush_during_shutdown = true;
    options.cf.inplace_update_support = true;
    let db = esker::Db::open(&options, "/db").unwrap();
    db.put("key", "old value").unwrap();
    let before = db.snapshot();
    db.put("key", "new").unwrap();
    db.flush().unwrap();
    db.put("key", "newest").unwrap();
    assert_eq!(before.get("key").unwrap().as_deref(), Some(&b"old value"[..]));
    drop((before, db));
    let db = esker::Db::open(&options, "/db").unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"newest"[..]));
}

#[test]
fn writes_survive_a_reopen_from_the_wal() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    db.put("a", "1").unwrap();
    db.put("b", "2").unwrap();
    db.delete("a").unwrap();
    db.delete_range("c", "d").unwrap();
    assert_eq!(contents(&db), pairs(&[("b", "2")]));
    drop(db);
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(contents(&db), pairs(&[("b", "2")]));
    assert_eq!(db.get("a").unwrap(), None);
    assert_eq!(db.get("b").unwrap().as_deref(), Some(&b"2"[..]));
}

#[test]
fn flushed_and_compacted_data_reads_as_before() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    let mut expected = Vec::new();
    for round in 0..5 {
        for i in 0..1000 {
            db.put(format!("key{i:05}"), format!("value{i}-{round}")).unwrap();
        }
        db.delete(format!("key{:05}", round * 10)).unwrap();
        db.delete_range(format!("key{:05}", 500 + round), format!("key{:05}", 600 + round)).unwrap();
        db.flush().unwrap();
    }
    for i in 0..1000 {
        if i != 40 && !(504..604).contains(&i) {
            expected.push((format!("key{i:05}"), format!("value{i}-4")));
        }
    }
    assert_eq!(contents(&db), expected);
    db.compact_range(None, None).unwrap();
    assert_eq!(contents(&db), expected);
    assert_eq!(db.property("rocksdb.num-files-at-level0").as_deref(), Some("0"));
    drop(db);
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(contents(&db), expected);
    for (key, value) in &expected {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(value.as_bytes()));
    }
    assert_eq!(db.get("key00550").unwrap(), None);
}

#[test]
fn a_snapshot_sees_what_was_there_when_it_was_taken() {
    let db = Db::open(&options(), "/db").unwrap();
    db.put("k", "old").unwrap();
    let snapshot = db.snapshot();
    db.put("k", "new").unwrap();
    db.delete_range("a", "z").unwrap();
    let then = ReadOptions::new().snapshot(&snapshot);
    let family = db.default_column_family();
    for flush in [false, true] {
        if flush {
            db.flush().unwrap();
            db.compact_range(None, None).unwrap();
        }
        assert_eq!(db.get_opt(&then, &family, "k").unwrap().as_deref(), Some(&b"old"[..]));
        assert_eq!(db.get("k").unwrap(), None);
    }
}

#[test]
fn a_batch_reaches_several_families_and_they_survive_a_reopen() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    let reverse = ColumnFamilyOptions {
        comparator: esker::comparator::by_name("rocksdb.ReverseBytewiseComparator").unwrap(),
        ..ColumnFamilyOptions::default()
    };
    let other = db.create_column_family("other", &reverse).unwrap();
    let mut batch = WriteBatch::new();
    batch.put_cf(db.default_column_family().id(), b"a", b"1").unwrap();
    batch.put_cf(other.id(), b"a", b"2").unwrap();
    batch.put_cf(other.id(), b"b", b"3").unwrap();
    db.write(&mut batch).unwrap();
    db.flush_opt(&FlushOptions::default(), &[&other]).unwrap();
    drop(other);
    drop(db);
    let error = Db::open(&options, "/db").unwrap_err();
    assert!(error.to_string().contains("other"), "{error}");
    let families = vec![
        ColumnFamilyDescriptor::new("default", ColumnFamilyOptions::default()),
        ColumnFamilyDescriptor::new("other", reverse),
    ];
    let db = Db::open_cf(&options.db, "/db", families).unwrap();
    let other = db.column_family("other").unwrap();
    assert_eq!(contents(&db), pairs(&[("a", "1")]));
    let mut iter = db.iter_cf(&other).unwrap();
    iter.seek_to_first();
    assert_eq!(iter.item(), Some((&b"b"[..], &b"3"[..])));
    iter.next();
    assert_eq!(iter.item(), Some((&b"a"[..], &b"2"[..])));
    drop(iter);
    db.drop_column_family(&other).unwrap();
    assert!(db.put_cf(&other, "x", "y").is_err());
    assert_eq!(db.column_family_names(), ["default"]);
}

#[test]
fn merges_combine_in_memory_and_in_files() {
    let mut options = options();
    options.cf.merge_operator = esker::builtin::merge_operator("stringappend");
    let db = Db::open(&options, "/db").unwrap();
    db.put("k", "a").unwrap();
    db.merge("k", "b").unwrap();
    db.flush().unwrap();
    db.merge("k", "c").unwrap();
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"a,b,c"[..]));
    db.compact_range(None, None).unwrap();
    assert_eq!(contents(&db), pairs(&[("k", "a,b,c")]));
}

#[test]
fn small_buffers_flush_and_compact_by_themselves() {
    let mut options = options();
    options.cf.write_buffer_size = 64 << 10;
    options.cf.target_file_size_base = 64 << 10;
    options.cf.max_bytes_for_level_base = 256 << 10;
    let db = Db::open(&options, "/db").unwrap();
    let mut rng = fastrand::Rng::with_seed(7);
    let mut model = std::collections::BTreeMap::new();
    for i in 0..40_000u32 {
        let key = format!("key{:06}", rng.u32(..20_000));
        let value = format!("{i:0100}");
        db.put(&key, &value).unwrap();
        model.insert(key, value);
    }
    db.wait_for_background_work().unwrap();
    assert!(db.property("rocksdb.num-files-at-level0").unwrap().parse::<usize>().unwrap() < 8);
    assert_eq!(contents(&db), model.clone().into_iter().collect::<Vec<_>>());
    drop(db);
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(contents(&db), model.into_iter().collect::<Vec<_>>());
}

#[test]
fn merging_without_a_merge_operator_is_refused() {
    let db = Db::open(&options(), "/db").unwrap();
    let family = db.create_column_family("counts", &ColumnFamilyOptions::default()).unwrap();
    for error in [
        db.merge("key", "1").unwrap_err(),
        db.merge_opt(&WriteOptions::default(), &family, "key", "1").unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::NotSupported);
        assert!(error.message().contains("merge_operator"), "{error}");
    }
    assert!(db.get("key").unwrap().is_none());
}

/// The directory after a lost CURRENT, or an interrupted restoration or destruction.
#[test]
fn no_database_is_created_over_what_is_left_of_another() {
    for (kept, in_wal_dir) in [(".sst", false), (".log", false), (".log", true)] {
        let mut options = options();
        options.db.wal_dir = in_wal_dir.then(|| "/wals".into());
        let fs = options.db.env.fs.clone();
        let db = Db::open(&options, "/db").unwrap();
        db.put("in a table", "1").unwrap();
        db.flush().unwrap();
        db.put("in a WAL", "2").unwrap();
        db.close().unwrap();
        drop(db);
        let delete = |wanted: &dyn Fn(&str) -> bool| {
            for name in fs.children(Path::new("/db")).unwrap().iter().filter(|name| wanted(name)) {
                fs.delete_file(&Path::new("/db").join(name)).unwrap();
            }
        };
        delete(&|name| name == "CURRENT" || !name.ends_with(kept) && name.contains('.'));
        let names = |dir: &str| fs.children(Path::new(dir)).unwrap();
        let before = (names("/db"), in_wal_dir.then(|| names("/wals")));

        let error = Db::open(&options, "/db").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(error.to_string().contains(kept) && error.to_string().contains("repair_db"), "{error}");
        let left =
            |names: &[String]| names.iter().filter(|name| name.ends_with(kept)).cloned().collect::<Vec<_>>();
        assert_eq!(left(&names("/db")), left(&before.0));
        assert_eq!(in_wal_dir.then(|| names("/wals")), before.1);

        esker::repair_db(&options, "/db", &[]).unwrap();
        let db = Db::open(&options, "/db").unwrap();
        let found = if kept == ".sst" { "in a table" } else { "in a WAL" };
        assert!(db.get(found).unwrap().is_some(), "{kept}");
        db.close().unwrap();
        drop(db);
        delete(&|name| name == "CURRENT");
        esker::destroy_db(&options.db, "/db").unwrap();
        assert_eq!(contents(&Db::open(&options, "/db").unwrap()), []);
    }
}

#[test]
fn many_families_are_made_with_one_write_of_the_manifest_and_one_options_file() {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(fs.clone()));
    let db = Db::open(&options, "/db").unwrap();
    db.put("key", "value").unwrap();
    let descriptor = |i: usize| ColumnFamilyDescriptor::new(format!("family{i:03}"), options.cf.clone());
    let some: Vec<_> = (0..300).map(descriptor).collect();
    fs.list_ops(true);
    let made = db.create_column_families(&some).unwrap();
    let ops = fs.take_ops();
    fs.list_ops(false);
    let count = |kind, name: &str| {
        ops.iter().filter(|op| op.kind == kind && op.path.to_string_lossy().contains(name)).count()
    };
    assert_eq!(count(OpKind::Sync, "MANIFEST"), 1, "{ops:?}");
    assert!(
        ops.len() < 300 + 50,
        "one operation for each record, and a constant number of others: {}",
        ops.len()
    );
    for (i, family) in made.iter().enumerate() {
        assert_eq!(family.name(), format!("family{i:03}"));
        db.put_cf(family, "key", format!("{i}")).unwrap();
    }
    // If a name is taken or given twice, no family is created.
    for wrong in [[descriptor(300), descriptor(7)], [descriptor(300), descriptor(300)]] {
        let error = db.create_column_families(&wrong).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(db.column_family("family300").is_none());
    }
    assert!(db.create_column_families([""; 0]).unwrap().is_empty());
    drop(made);
    drop(db);
    let mut all = vec![ColumnFamilyDescriptor::new("default", options.cf.clone())];
    all.extend(some);
    let db = Db::open_with(&options.db, "/db", all, OpenMode::ReadWrite).unwrap();
    for i in 0..300 {
        let family = db.column_family(&format!("family{i:03}")).unwrap();
        assert_eq!(db.get_cf(&family, "key").unwrap().as_deref(), Some(i.to_string().as_bytes()));
    }
}
