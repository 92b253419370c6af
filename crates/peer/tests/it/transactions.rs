//! Prepared transactions that Esker leaves and RocksDB 11.8.1 commits, and the other way round.

use esker::{Options, ReadOptions, Transaction, TransactionDb, TransactionDbOptions, WriteOptions};
use esker_peer::{FamilySpec, RocksDb, RocksTransactionDb, RocksWritePolicy, require};
use esker_testkit::{TempDir, seed};
use std::collections::BTreeMap;
use std::path::Path;

fn esker(dir: &Path) -> TransactionDb {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    TransactionDb::open(&options, &TransactionDbOptions::default(), dir).expect("opens")
}

fn esker_begin(db: &TransactionDb, name: &str) -> Transaction {
    let txn = db.begin_transaction();
    txn.set_name(name.as_bytes()).expect("a new name");
    txn
}

fn rocksdb(dir: &Path, policy: RocksWritePolicy) -> RocksTransactionDb {
    RocksTransactionDb::open(dir, "create_if_missing=true;", policy).expect("opens")
}

#[test]
fn rocksdb_commits_and_rolls_back_transactions_that_esker_prepared() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    for flush in [false, true] {
        let dir = TempDir::new("esker-prepares");
        {
            let db = esker(dir.path());
            db.put("plain", "1").expect("written");
            for (name, key) in [("one", "a"), ("two", "b"), ("three", "c"), ("done", "d")] {
                let txn = esker_begin(&db, name);
                txn.put(key, name).expect("locked");
                txn.delete("plain-".to_owned() + key).expect("locked");
                txn.prepare().expect("prepared");
                if name == "done" {
                    txn.put("behind", "new").expect("locked");
                    txn.delete("d").expect("locked");
                    txn.put("d", "done later").expect("locked");
                    txn.commit().expect("committed");
                }
            }
            if flush {
                db.db().flush().expect("flushes");
                db.put("later", "2").expect("written");
            }
        }
        {
            let db = rocksdb(dir.path(), RocksWritePolicy::Committed);
            assert_eq!(db.get(b"plain").expect("read"), Some(b"1".to_vec()));
            // Writes after the prepare lie behind the commit's marker.
            assert_eq!(db.get(b"d").expect("read"), Some(b"done later".to_vec()));
            assert_eq!(db.get(b"behind").expect("read"), Some(b"new".to_vec()));
            assert_eq!(db.get(b"a").expect("read"), None);
            let mut prepared = db.prepared().into_iter();
            let (name, one) = prepared.next().expect("the first");
            assert_eq!(name, "one");
            one.commit().expect("committed");
            assert_eq!(prepared.next().map(|(name, _)| name).as_deref(), Some("three"));
            let (name, two) = prepared.next().expect("the last");
            assert_eq!(name, "two");
            two.rollback().expect("rolled back");
            assert_eq!(db.get(b"a").expect("read"), Some(b"one".to_vec()));
            assert_eq!(db.get(b"b").expect("read"), None);
        }
        let db = esker(dir.path());
        assert_eq!(db.db().get("a").expect("read").as_deref(), Some(&b"one"[..]));
        assert_eq!(db.db().get("b").expect("read"), None);
        let left = db.get_all_prepared_transactions();
        assert_eq!(left.len(), 1, "flush {flush}");
        assert_eq!(left[0].name().as_deref(), Some(&b"three"[..]));
        left[0].commit().expect("committed");
        assert_eq!(db.db().get("c").expect("read").as_deref(), Some(&b"three"[..]));
    }
}

#[test]
fn esker_commits_and_rolls_back_transactions_that_rocksdb_prepared() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    for policy in [RocksWritePolicy::Committed, RocksWritePolicy::Prepared, RocksWritePolicy::Unprepared] {
        let dir = TempDir::new("rocksdb-prepares");
        {
            let db = rocksdb(dir.path(), policy);
            db.put(b"plain", b"1").expect("written");
            db.put(b"plain", b"2").expect("written");
            for (name, key) in [("one", b"a"), ("two", b"b"), ("three", b"c"), ("done", b"d"), ("gone", b"e")]
            {
                let txn = db.begin(name).expect("begun");
                txn.put(key, b"first").expect("locked");
                txn.put(key, name.as_bytes()).expect("locked");
                txn.delete(b"plain").unwrap_or_else(|e| assert_ne!(name, "one", "{e}"));
                txn.prepare().expect("prepared");
                match name {
                    "done" => txn.commit().expect("committed"),
                    "gone" => txn.rollback().expect("rolled back"),
                    _ => drop(txn),
                }
            }
            db.put(b"later", b"3").expect("written");
        }
        {
            let db = esker(dir.path());
            let get =
                |key: &str| db.db().get(key).expect("read").map(|v| String::from_utf8(v).expect("text"));
            assert_eq!(get("d").as_deref(), Some("done"), "{policy:?}");
            assert_eq!(get("later").as_deref(), Some("3"));
            assert_eq!((get("a"), get("b"), get("c"), get("e")), (None, None, None, None), "{policy:?}");
            db.get_transaction_by_name(b"one").expect("prepared").commit().expect("committed");
            db.get_transaction_by_name(b"two").expect("prepared").rollback().expect("rolled back");
            assert_eq!((get("a").as_deref(), get("b"), get("plain")), (Some("one"), None, None));
        }
        // The remaining transaction behaves as under the policy that writes at commit.
        let db = rocksdb(dir.path(), RocksWritePolicy::Committed);
        let mut prepared = db.prepared();
        assert_eq!(prepared.len(), 1, "{policy:?}");
        let (name, three) = prepared.pop().expect("one");
        assert_eq!(name, "three");
        three.commit().expect("committed");
        assert_eq!(db.get(b"c").expect("read"), Some(b"three".to_vec()));
        assert_eq!(db.get(b"a").expect("read"), Some(b"one".to_vec()));
    }
}

#[test]
fn ops_that_rocksdb_flushed_before_their_commit_are_not_seen() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    for (policy, read_only_first) in [
        (RocksWritePolicy::Committed, false),
        (RocksWritePolicy::Prepared, false),
        (RocksWritePolicy::Unprepared, true),
    ] {
        let dir = TempDir::new("rocksdb-flushes-uncommitted");
        let columns: [(&[u8], &[u8]); 2] = [(b"", b"old"), (b"column", b"kept")];
        {
            let db = esker(dir.path());
            let family = db.db().default_column_family();
            db.db().put_entity(&WriteOptions::default(), &family, "entity", &columns).expect("written");
        }
        let entity = |db: &esker::Db| {
            let found = db.get_entity(&ReadOptions::default(), &db.default_column_family(), "entity");
            let found = found.expect("read").expect("there");
            assert_eq!(found.iter().collect::<Vec<_>>(), columns, "{policy:?}");
        };
        {
            let db = rocksdb(dir.path(), policy);
            for key in [b"a", b"b", b"c", b"d"] {
                db.put(key, b"old").expect("written");
            }
            for (name, key, other) in [("one", b"a", b"x"), ("two", b"b", b"y"), ("done", b"c", b"z")] {
                let txn = db.begin(name).expect("begun");
                txn.put(key, b"lost").expect("locked");
                txn.put(key, name.as_bytes()).expect("locked");
                txn.put(other, name.as_bytes()).expect("locked");
                match name {
                    "one" => txn.delete(b"d").expect("locked"),
                    "two" => txn.put(b"entity", b"two").expect("locked"),
                    _ => {}
                }
                txn.prepare().expect("prepared");
                if name == "done" { txn.commit().expect("committed") } else { drop(txn) }
            }
            db.flush().expect("flushes");
            db.put(b"later", b"1").expect("written");
        }
        let expected = |db: &esker::Db, pairs: &[(&str, Option<&str>)]| {
            for (key, value) in pairs {
                let found = db.get(key).expect("read").map(|v| String::from_utf8(v).expect("text"));
                assert_eq!(found.as_deref(), *value, "{policy:?}: {key}");
            }
        };
        let before = [
            ("a", Some("old")),
            ("b", Some("old")),
            ("c", Some("done")),
            ("d", Some("old")),
            ("x", None),
            ("y", None),
            ("z", Some("done")),
            ("later", Some("1")),
        ];
        if read_only_first {
            let mut options = Options::default();
            options.db.allow_2pc = true;
            expected(&esker::Db::open_for_read_only(&options, dir.path()).expect("opens"), &before);
        }
        for _ in 0..2 {
            let db = esker(dir.path());
            expected(db.db(), &before);
            entity(db.db());
            db.put("later", "1").expect("written");
        }
        {
            let db = esker(dir.path());
            db.get_transaction_by_name(b"one").expect("prepared").commit().expect("committed");
            db.get_transaction_by_name(b"two").expect("prepared").rollback().expect("rolled back");
            let after =
                [("a", Some("one")), ("b", Some("old")), ("d", None), ("x", Some("one")), ("y", None)];
            expected(db.db(), &after);
            entity(db.db());
        }
        let db = rocksdb(dir.path(), RocksWritePolicy::Committed);
        assert!(db.prepared().is_empty());
        for (key, value) in [(b"a", Some("one")), (b"b", Some("old")), (b"c", Some("done")), (b"d", None)] {
            assert_eq!(db.get(key).expect("read").as_deref(), value.map(str::as_bytes), "{policy:?}");
        }
    }
}

/// The WAL of the section is gone; that of its commit is still there.
#[test]
fn commits_of_what_is_in_tables_are_read_without_allow_2pc_by_both() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    let dir = TempDir::new("commit-without-section");
    {
        let db = esker(dir.path());
        let other = db.create_column_family("f", &Options::default().cf).expect("made");
        let one = esker_begin(&db, "one");
        one.put("a", "1").expect("locked");
        one.prepare().expect("prepared");
        db.put("b", "2").expect("written");
        db.db().flush().expect("flushes");
        one.commit().expect("committed");
        db.put_cf(&other, "x", "3").expect("written");
        db.db().flush().expect("flushes");
    }
    let families = ["default", "f"];
    let pair = |key: &[u8], value: &[u8]| (key.to_vec(), value.to_vec());
    let expected = [vec![pair(b"a", b"1"), pair(b"b", b"2")], vec![pair(b"x", b"3")]];
    {
        let specs = families.map(|name| FamilySpec::new(name, ""));
        let db = RocksDb::open_for_read_only(dir.path(), "", &specs).expect("opens");
        assert_eq!(families.map(|name| db.contents(name, None).expect("read").0), expected);
    }
    let options = Options::default();
    let descriptors = families.map(|name| esker::ColumnFamilyDescriptor::new(name, options.cf.clone()));
    let db = esker::Db::open_cf(&options.db, dir.path(), descriptors).expect("opens");
    for (name, pairs) in families.iter().zip(&expected) {
        let family = db.column_family(name).expect("it is there");
        for (key, value) in pairs {
            let found = db.get_cf(&family, key).expect("read");
            assert_eq!(found.as_deref(), Some(&value[..]), "{name}");
        }
    }
}

/// The writes of prepared transactions, by name.
type Open = BTreeMap<String, Vec<(Vec<u8>, Vec<u8>)>>;

#[test]
fn transactions_change_hands_again_and_again() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    seed::for_each_seed("transactions-change-hands", 6, |_, mut rng| {
        let dir = TempDir::new("hand-over");
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let mut open: Open = BTreeMap::new();
        let mut next = 0;
        for turn in 0..8 {
            let resolve = |rng: &mut fastrand::Rng, open: &mut Open| {
                let names: Vec<_> = open.keys().cloned().collect();
                let due: Vec<_> = names.into_iter().filter(|_| rng.bool()).collect();
                due.into_iter()
                    .map(|name| (open.remove(&name).expect("open"), name, rng.bool()))
                    .collect::<Vec<_>>()
            };
            let resolved = resolve(&mut rng, &mut open);
            let fresh: Vec<_> = (0..rng.usize(1..4))
                .map(|_| {
                    next += 1;
                    let pair = |i| (format!("key{next}-{i}").into_bytes(), vec![b'v'; rng.usize(..200)]);
                    (format!("txn{next}"), (0..3).map(pair).collect::<Vec<_>>())
                })
                .collect();
            let flush = rng.bool();
            if turn % 2 == 0 {
                let db = esker(dir.path());
                for (_, name, commits) in &resolved {
                    let txn = db.get_transaction_by_name(name.as_bytes()).expect("prepared");
                    if *commits { txn.commit() } else { txn.rollback() }.expect("resolved");
                }
                for (name, pairs) in &fresh {
                    let txn = esker_begin(&db, name);
                    pairs.iter().for_each(|(key, value)| txn.put(key, value).expect("locked"));
                    txn.prepare().expect("prepared");
                }
                if flush {
                    db.db().flush().expect("flushes");
                }
            } else {
                let db = rocksdb(dir.path(), RocksWritePolicy::Committed);
                let mut prepared: BTreeMap<_, _> = db.prepared().into_iter().collect();
                for (_, name, commits) in &resolved {
                    let txn = prepared.remove(name).expect("prepared");
                    if *commits { txn.commit() } else { txn.rollback() }.expect("resolved");
                }
                for (name, pairs) in &fresh {
                    let txn = db.begin(name).expect("begun");
                    pairs.iter().for_each(|(key, value)| txn.put(key, value).expect("locked"));
                    txn.prepare().expect("prepared");
                }
                if flush {
                    db.flush().expect("flushes");
                }
            }
            model.extend(
                resolved.into_iter().filter(|(_, _, commits)| *commits).flat_map(|(pairs, _, _)| pairs),
            );
            open.extend(fresh);
        }
        let db = esker(dir.path());
        let mut iter = db.db().iter().expect("iterates");
        iter.seek_to_first();
        for (key, value) in &model {
            assert_eq!(iter.item(), Some((key.as_slice(), value.as_slice())));
            iter.next();
        }
        assert!(!iter.valid());
        let names: Vec<_> = db
            .get_all_prepared_transactions()
            .iter()
            .map(|txn| String::from_utf8(txn.name().expect("named").to_vec()).expect("text"))
            .collect();
        assert_eq!(names, open.keys().cloned().collect::<Vec<_>>());
    });
}

/// Both read the timestamp from the commit's record: the section has none.
#[test]
fn commit_timestamps_are_read_by_both_from_wals() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    const NAME: &str = "leveldb.BytewiseComparator.u64ts";
    let ts = u64::to_le_bytes;
    let dir = TempDir::new("commit-timestamps");
    let open = || {
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.compatible_with = esker::options::TargetVersion::V11;
        options.cf.comparator = esker::comparator::by_name(NAME).expect("built in");
        TransactionDb::open(&options, &TransactionDbOptions::default(), dir.path()).expect("opens")
    };
    let read = |db: &TransactionDb, key: &str, point: u64| {
        let options = ReadOptions { timestamp: Some(ts(point).to_vec()), ..ReadOptions::default() };
        let family = db.db().default_column_family();
        let found = db.db().get_with_timestamp(&options, &family, key).expect("read");
        found.map(|(value, written)| (value.to_vec(), written))
    };
    {
        let db = open();
        for (name, key) in [("one", "a"), ("two", "b")] {
            let txn = esker_begin(&db, name);
            txn.put(key, name).expect("locked");
            txn.prepare().expect("prepared");
            if name == "one" {
                txn.set_commit_timestamp(10).expect("set");
                txn.commit().expect("committed");
            }
        }
        let plain = esker_begin(&db, "plain");
        plain.put("c", "plain").expect("locked");
        plain.set_commit_timestamp(11).expect("set");
        plain.commit().expect("committed");
    }
    {
        let options = format!("comparator={NAME};");
        let db = RocksTransactionDb::open(dir.path(), &options, RocksWritePolicy::Committed).expect("opens");
        let get = |key: &[u8], point| db.get_at(key, Some(&ts(point))).expect("read");
        assert_eq!((get(b"a", 9), get(b"a", 10)), (None, Some(b"one".to_vec())));
        assert_eq!((get(b"c", 10), get(b"c", 11)), (None, Some(b"plain".to_vec())));
        assert_eq!(get(b"b", 99), None);
        let (name, two) = db.prepared().into_iter().next().expect("it is prepared");
        assert_eq!(name, "two");
        two.set_commit_timestamp(20);
        two.commit().expect("committed");
        assert_eq!((get(b"b", 19), get(b"b", 20)), (None, Some(b"two".to_vec())));
        for (name, key) in [("three", b"d"), ("four", b"e")] {
            let txn = db.begin(name).expect("begun");
            txn.put(key, name.as_bytes()).expect("locked");
            txn.prepare().expect("prepared");
            if name == "three" {
                txn.set_commit_timestamp(30);
                txn.commit().expect("committed");
            }
        }
    }
    let db = open();
    assert_eq!(read(&db, "a", 99), Some((b"one".to_vec(), ts(10).to_vec())));
    assert_eq!(read(&db, "b", 99), Some((b"two".to_vec(), ts(20).to_vec())));
    assert_eq!(read(&db, "c", 99), Some((b"plain".to_vec(), ts(11).to_vec())));
    assert_eq!(read(&db, "d", 99), Some((b"three".to_vec(), ts(30).to_vec())));
    assert_eq!(read(&db, "e", 99), None);
    let four = db.get_transaction_by_name(b"four").expect("it is prepared");
    four.set_commit_timestamp(40).expect("set");
    four.commit().expect("committed");
    assert_eq!(read(&db, "e", 40), Some((b"four".to_vec(), ts(40).to_vec())));
}
