//! `WritePrepared` and `WriteUnprepared` in both engines: transactions that one leaves running,
//! prepared, committed or rolled back, in the WAL or in tables, and the other takes over.

use esker::txn::WritePolicy;
use esker::{Options, Transaction, TransactionDb, TransactionDbOptions};
use esker_peer::{RocksDb, RocksTransactionDb, RocksWritePolicy, require};
use esker_testkit::{TempDir, seed};
use std::collections::BTreeMap;
use std::path::Path;

fn esker_as(dir: &Path, write_policy: WritePolicy) -> TransactionDb {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.compatible_with = esker::options::TargetVersion::V11;
    let txn_options = TransactionDbOptions {
        write_policy,
        default_write_batch_flush_threshold: SPILLS_ALWAYS,
        ..TransactionDbOptions::default()
    };
    TransactionDb::open(&options, &txn_options, dir).expect("opens")
}

/// Under `WriteUnprepared` every write spills the one before.
const SPILLS_ALWAYS: i64 = 1;

const POLICIES: [WritePolicy; 2] = [WritePolicy::WritePrepared, WritePolicy::WriteUnprepared];

fn esker_begin(db: &TransactionDb, name: &str) -> Transaction {
    let txn = db.begin_transaction();
    txn.set_name(name.as_bytes()).expect("a new name");
    txn
}

/// Without compactions of its own: they would change files while these are copied.
fn rocksdb(dir: &Path, policy: WritePolicy) -> RocksTransactionDb {
    let options = "create_if_missing=true;disable_auto_compactions=true;";
    let policy = match policy {
        WritePolicy::WriteUnprepared => RocksWritePolicy::Unprepared,
        _ => RocksWritePolicy::Prepared,
    };
    RocksTransactionDb::open_spilling(dir, options, policy, SPILLS_ALWAYS).expect("opens")
}

/// The files of a database that is open and idle, as a crash of its process leaves them. It may
/// still delete files that it does not need.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        if entry.file_type().expect("a type").is_file() {
            match std::fs::copy(entry.path(), to.join(entry.file_name())) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                copied => _ = copied.expect("copied"),
            }
        }
    }
}

fn rocks_get(db: &RocksTransactionDb, key: &str) -> Option<String> {
    db.get(key.as_bytes()).expect("read").map(|value| String::from_utf8(value).expect("text"))
}

fn esker_get(db: &TransactionDb, key: &str) -> Option<String> {
    let value = db.db().get(key).expect("read");
    value.map(|value| String::from_utf8(value.to_vec()).expect("text"))
}

/// The values of `a` to `e` while one transaction is prepared, one committed and one rolled back.
const BEFORE: [(&str, Option<&str>); 6] = [
    ("a", Some("old")),
    ("b", None),
    ("c", Some("committed")),
    ("d", Some("old")),
    ("e", Some("old")),
    ("plain", Some("2")),
];

/// When the tables are written: never, before the ends of the transactions, or after them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flush {
    Never,
    Before,
    After,
    Both,
}

const FLUSHES: [Flush; 4] = [Flush::Never, Flush::Before, Flush::After, Flush::Both];

/// All policies, flushes and ends, of which `true` is a crash.
fn cases() -> impl Iterator<Item = (WritePolicy, Flush, bool)> {
    let flushes = |policy| FLUSHES.into_iter().map(move |flush| (policy, flush));
    POLICIES.into_iter().flat_map(flushes).flat_map(|(p, flush)| [(p, flush, false), (p, flush, true)])
}

#[test]
fn rocksdb_takes_over_what_esker_wrote_under_write_prepared_in_every_state() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    for (policy, flush, crash) in cases() {
        let (dir, crashed) = (TempDir::new("esker-wp"), TempDir::new("esker-wp-crashed"));
        {
            let db = esker_as(dir.path(), policy);
            for key in ["a", "d", "e"] {
                db.put(key, "old").expect("written");
            }
            let running = esker_begin(&db, "running");
            running.put("running", "never").expect("locked");
            running.put("also running", "never").expect("locked");
            let [open, done, gone] = [("open", "a"), ("done", "c"), ("gone", "d")].map(|(name, key)| {
                let txn = esker_begin(&db, name);
                txn.put(key, "first").expect("locked");
                txn.put(key, "committed").expect("locked");
                txn
            });
            open.put("b", "committed").expect("locked");
            open.delete("e").expect("locked");
            for txn in [&open, &done, &gone] {
                txn.prepare().expect("prepared");
            }
            db.put("plain", "1").expect("written");
            if matches!(flush, Flush::Before | Flush::Both) {
                db.db().flush().expect("flushes");
                db.db().compact_range(None, None).expect("compacts");
            }
            done.commit().expect("committed");
            gone.rollback().expect("rolled back");
            if matches!(flush, Flush::After | Flush::Both) {
                db.db().flush().expect("flushes");
                db.db().compact_range(None, None).expect("compacts");
            }
            db.put("plain", "2").expect("written");
            if crash {
                db.db().wait_for_background_work().expect("idle");
                copy(dir.path(), crashed.path());
            }
        }
        let dir = if crash { &crashed } else { &dir };
        {
            let db = rocksdb(dir.path(), policy);
            for (key, value) in BEFORE {
                assert_eq!(rocks_get(&db, key).as_deref(), value, "{policy:?} {flush:?} {crash} {key}");
            }
            // RocksDB rolls it back at this open. If another is prepared, RocksDB shows it until
            // the next open, in its own databases too.
            if !(crash && policy == WritePolicy::WriteUnprepared) {
                assert_eq!(rocks_get(&db, "running"), None, "{policy:?} {flush:?} {crash}");
            }
            db.put(b"plain", b"3").expect("written");
            let mut prepared = db.prepared();
            assert_eq!(prepared.len(), 1, "{policy:?} {flush:?} {crash}");
            let (name, open) = prepared.pop().expect("one");
            assert_eq!(name, "open");
            db.flush().expect("flushes");
            assert_eq!(rocks_get(&db, "a").as_deref(), Some("old"));
            if crash { open.rollback() } else { open.commit() }.expect("resolved");
        }
        let db = esker_as(dir.path(), policy);
        assert!(db.get_all_prepared_transactions().is_empty());
        let [a, b, e] = if crash {
            [Some("old"), None, Some("old")]
        } else {
            [Some("committed"), Some("committed"), None]
        };
        for (key, value) in [("a", a), ("b", b), ("c", Some("committed")), ("d", Some("old")), ("e", e)] {
            assert_eq!(esker_get(&db, key).as_deref(), value, "{policy:?} {flush:?} {crash} {key}");
        }
        assert_eq!(esker_get(&db, "plain").as_deref(), Some("3"));
        assert_eq!(esker_get(&db, "running"), None, "{policy:?} {flush:?} {crash}");
    }
}

#[test]
fn esker_takes_over_what_rocksdb_wrote_under_write_prepared_in_every_state() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    for (policy, flush, crash) in cases() {
        let (dir, crashed) = (TempDir::new("rocksdb-wp"), TempDir::new("rocksdb-wp-crashed"));
        {
            let db = rocksdb(dir.path(), policy);
            for key in ["a", "d", "e"] {
                db.put(key.as_bytes(), b"old").expect("written");
            }
            let running = db.begin("running").expect("begun");
            running.put(b"running", b"never").expect("locked");
            running.put(b"also running", b"never").expect("locked");
            let [open, done, gone] = [("open", "a"), ("done", "c"), ("gone", "d")].map(|(name, key)| {
                let txn = db.begin(name).expect("begun");
                txn.put(key.as_bytes(), b"first").expect("locked");
                txn.put(key.as_bytes(), b"committed").expect("locked");
                txn
            });
            open.put(b"b", b"committed").expect("locked");
            open.delete(b"e").expect("locked");
            for txn in [&open, &done, &gone] {
                txn.prepare().expect("prepared");
            }
            db.put(b"plain", b"1").expect("written");
            if matches!(flush, Flush::Before | Flush::Both) {
                db.flush().expect("flushes");
            }
            done.commit().expect("committed");
            gone.rollback().expect("rolled back");
            if matches!(flush, Flush::After | Flush::Both) {
                db.flush().expect("flushes");
            }
            db.put(b"plain", b"2").expect("written");
            if crash {
                copy(dir.path(), crashed.path());
            }
        }
        let dir = if crash { &crashed } else { &dir };
        for _ in 0..2 {
            // The second time Esker finds what it has written itself.
            let db = esker_as(dir.path(), policy);
            for (key, value) in BEFORE {
                assert_eq!(esker_get(&db, key).as_deref(), value, "{policy:?} {flush:?} {crash} {key}");
            }
            assert_eq!(esker_get(&db, "running"), None, "{policy:?} {flush:?} {crash}");
            db.put("plain", "2").expect("written");
            db.db().flush().expect("flushes");
            db.db().compact_range(None, None).expect("compacts");
            assert_eq!(esker_get(&db, "a").as_deref(), Some("old"), "{policy:?} {flush:?} {crash}");
        }
        {
            let db = esker_as(dir.path(), policy);
            let open = db.get_transaction_by_name(b"open").expect("prepared");
            if crash { open.rollback() } else { open.commit() }.expect("resolved");
        }
        let db = rocksdb(dir.path(), policy);
        assert!(db.prepared().is_empty());
        let [a, b, e] = if crash {
            [Some("old"), None, Some("old")]
        } else {
            [Some("committed"), Some("committed"), None]
        };
        for (key, value) in [("a", a), ("b", b), ("c", Some("committed")), ("d", Some("old")), ("e", e)] {
            assert_eq!(rocks_get(&db, key).as_deref(), value, "{policy:?} {flush:?} {crash} {key}");
        }
    }
}

/// Writes of a transaction; `None` deletes.
type Writes = BTreeMap<String, Option<String>>;

/// Both engines as one, for the turns of a history.
enum Engine {
    Esker(TransactionDb),
    Rocks(RocksTransactionDb),
}

impl Engine {
    fn esker(dir: &Path, policy: WritePolicy) -> Engine {
        Engine::Esker(esker_as(dir, policy))
    }

    fn rocks(dir: &Path, policy: WritePolicy) -> Engine {
        Engine::Rocks(rocksdb(dir, policy))
    }

    /// Ends a transaction that was found prepared.
    fn end(&self, name: &str, commits: bool) {
        match self {
            Engine::Esker(db) => {
                let txn = db.get_transaction_by_name(name.as_bytes()).expect("prepared");
                if commits { txn.commit() } else { txn.rollback() }.expect("ended");
            }
            Engine::Rocks(db) => {
                let (_, txn) = db.prepared().into_iter().find(|(found, _)| found == name).expect("prepared");
                if commits { txn.commit() } else { txn.rollback() }.expect("ended");
            }
        }
    }

    fn flush_all(&self) {
        match self {
            Engine::Esker(db) => db.db().flush().expect("flushes"),
            Engine::Rocks(db) => db.flush().expect("flushes"),
        }
    }

    /// Waits until background work changes no files.
    fn settle(&self) {
        if let Engine::Esker(db) = self {
            db.db().wait_for_background_work().expect("idle");
        }
    }

    fn get(&self, key: &str) -> Option<String> {
        match self {
            Engine::Esker(db) => esker_get(db, key),
            Engine::Rocks(db) => rocks_get(db, key),
        }
    }

    fn put(&self, key: &str, value: &str) {
        match self {
            Engine::Esker(db) => db.put(key, value).expect("written"),
            Engine::Rocks(db) => db.put(key.as_bytes(), value.as_bytes()).expect("written"),
        }
    }

    fn flush(&self, rng: &mut fastrand::Rng) {
        match self {
            Engine::Esker(db) => {
                db.db().flush().expect("flushes");
                if rng.bool() {
                    db.db().compact_range(None, None).expect("compacts");
                }
            }
            Engine::Rocks(db) => db.flush().expect("flushes"),
        }
    }

    /// Begins a transaction with these writes; prepares it, and perhaps commits or rolls back.
    /// Without `prepares`, it ends unprepared. A save point takes back what it has written to
    /// `given_back` meanwhile.
    fn transact(
        &self,
        name: &str,
        (writes, given_back): (&Writes, &[String]),
        commits: Option<bool>,
        prepares: bool,
    ) {
        match self {
            Engine::Esker(db) => {
                let txn = esker_begin(db, name);
                for (key, value) in writes {
                    match value {
                        Some(value) => txn.put(key, value).expect("locked"),
                        None => txn.delete(key).expect("locked"),
                    }
                }
                if !given_back.is_empty() {
                    txn.set_save_point();
                    given_back.iter().for_each(|key| txn.put(key, "taken back").expect("locked"));
                    txn.rollback_to_save_point().expect("there is one");
                }
                if prepares {
                    txn.prepare().expect("prepared");
                }
                commits
                    .map_or(Ok(()), |commits| if commits { txn.commit() } else { txn.rollback() })
                    .expect("ended");
            }
            Engine::Rocks(db) => {
                let txn = db.begin(name).expect("begun");
                for (key, value) in writes {
                    match value {
                        Some(value) => txn.put(key.as_bytes(), value.as_bytes()).expect("locked"),
                        None => txn.delete(key.as_bytes()).expect("locked"),
                    }
                }
                if !given_back.is_empty() {
                    txn.set_save_point();
                    let put = |key: &String| txn.put(key.as_bytes(), b"taken back").expect("locked");
                    given_back.iter().for_each(put);
                    txn.rollback_to_save_point().expect("there is one");
                }
                if prepares {
                    txn.prepare().expect("prepared");
                }
                match commits {
                    None => drop(txn),
                    Some(true) => txn.commit().expect("committed"),
                    Some(false) => txn.rollback().expect("rolled back"),
                }
            }
        }
    }
}

#[test]
fn databases_of_write_prepared_change_hands_again_and_again() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    const KEYS: usize = 12;
    let key = |i: usize| format!("key{i}");
    seed::for_each_seed("write-prepared-changes-hands", 24, |_, mut rng| {
        let policy = POLICIES[rng.usize(..2)];
        let mut dir = TempDir::new("wp-hand-over");
        let mut state: BTreeMap<String, String> = BTreeMap::new();
        let mut open: BTreeMap<String, Writes> = BTreeMap::new();
        // Keys that save points gave back: a transaction that is found prepared locks them again.
        let mut given_back: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut next = 0;
        for turn in 0..8 {
            let crashed = TempDir::new("wp-hand-over");
            let engine = match turn % 2 {
                0 => Engine::Esker(esker_as(dir.path(), policy)),
                _ => Engine::Rocks(rocksdb(dir.path(), policy)),
            };
            let check = |engine: &Engine, state: &BTreeMap<String, String>| {
                for key in (0..KEYS).map(key) {
                    assert_eq!(engine.get(&key).as_ref(), state.get(&key), "turn {turn}: {key}");
                }
            };
            check(&engine, &state);
            // Transactions that the other engine left prepared.
            let names: Vec<_> = open.keys().cloned().collect();
            let ended: Vec<_> = names.into_iter().filter(|_| rng.bool()).collect();
            let mut end = |name: &str, commits: bool| {
                let writes = open.remove(name).expect("prepared");
                for (key, value) in writes.into_iter().filter(|_| commits) {
                    match value {
                        Some(value) => _ = state.insert(key, value),
                        None => _ = state.remove(&key),
                    }
                }
            };
            match &engine {
                Engine::Esker(db) => {
                    for name in &ended {
                        let txn = db.get_transaction_by_name(name.as_bytes()).expect("prepared");
                        let commits = rng.bool();
                        if commits { txn.commit() } else { txn.rollback() }.expect("ended");
                        end(name, commits);
                    }
                }
                Engine::Rocks(db) => {
                    let mut prepared: BTreeMap<_, _> = db.prepared().into_iter().collect();
                    for name in &ended {
                        let txn = prepared.remove(name).expect("prepared");
                        let commits = rng.bool();
                        if commits { txn.commit() } else { txn.rollback() }.expect("ended");
                        end(name, commits);
                    }
                }
            }
            check(&engine, &state);
            let found = given_back.iter().filter(|(name, _)| open.contains_key(*name));
            let again: Vec<_> = found.flat_map(|(_, keys)| keys.clone()).collect();
            for _ in 0..rng.usize(2..10) {
                let locked = open.values().flat_map(|writes| writes.keys());
                let locked: Vec<_> = locked.chain(&again).cloned().collect();
                let free: Vec<_> = (0..KEYS).map(key).filter(|key| !locked.contains(key)).collect();
                if free.is_empty() || rng.u8(..4) == 0 {
                    engine.flush(&mut rng);
                } else if rng.u8(..3) == 0 {
                    let (key, value) = (rng.choice(&free).expect("some").clone(), format!("plain{next}"));
                    engine.put(&key, &value);
                    state.insert(key, value);
                } else {
                    next += 1;
                    let name = format!("txn{next}");
                    let commits = (rng.u8(..3) > 0).then(|| rng.bool());
                    // RocksDB rolls back a transaction that it finds prepared over the writes of
                    // another one, if a save point gave their key back.
                    let is_given_back = |key: &&String| {
                        let mut open = given_back.iter().filter(|(name, _)| open.contains_key(*name));
                        open.any(|(_, keys)| keys.contains(key))
                    };
                    let may_write = |key: &&String| {
                        commits.is_some() || matches!(engine, Engine::Rocks(_)) || !is_given_back(key)
                    };
                    let unclaimed: Vec<_> = free.iter().filter(may_write).cloned().collect();
                    let Some(_) = unclaimed.first() else { continue };
                    let writes = |i: usize| {
                        let key = unclaimed[rng.usize(..unclaimed.len())].clone();
                        (key, rng.bool().then(|| format!("{name}-{i}")))
                    };
                    let writes: Writes = (0..3).map(writes).collect();
                    let count = rng.usize(..3);
                    let back = (0..count).map(|_| rng.choice(&free).expect("some").clone());
                    let back: Vec<_> = back.collect();
                    engine.transact(&name, (&writes, &back), commits, commits.is_none() || rng.bool());
                    match commits {
                        None => {
                            given_back.insert(name.clone(), back);
                            open.insert(name, writes);
                        }
                        Some(false) => {}
                        Some(true) => {
                            for (key, value) in writes {
                                match value {
                                    Some(value) => _ = state.insert(key, value),
                                    None => _ = state.remove(&key),
                                }
                            }
                        }
                    }
                }
                check(&engine, &state);
            }
            let crash = rng.bool();
            if crash {
                if let Engine::Esker(db) = &engine {
                    db.db().wait_for_background_work().expect("idle");
                }
                copy(dir.path(), crashed.path());
            }
            drop(engine);
            if crash {
                dir = crashed;
            }
        }
        let db = esker_as(dir.path(), WritePolicy::WriteCommitted);
        for key in (0..KEYS).map(key) {
            assert_eq!(esker_get(&db, &key).as_ref(), state.get(&key), "at last: {key}");
        }
        let left = db.get_all_prepared_transactions();
        let names: Vec<_> = left.iter().map(|txn| txn.name().expect("named")).collect();
        assert_eq!(names, open.keys().map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>());
    });
}

/// One engine prepares a transaction whose save point has given keys back, and another writer has
/// written one of them since. The other engine ends it.
fn save_points_change_hands(from: fn(&Path, WritePolicy) -> Engine, to: fn(&Path, WritePolicy) -> Engine) {
    for (policy, flush, crash) in cases() {
        for commits in [true, false] {
            let case = format!("{policy:?} {flush:?} crash {crash} commits {commits}");
            let (dir, crashed) = (TempDir::new("saved"), TempDir::new("saved-crashed"));
            {
                let engine = from(dir.path(), policy);
                ["a", "b"].iter().for_each(|key| engine.put(key, "old"));
                let writes = [("a".to_owned(), Some("kept".to_owned()))].into();
                if matches!(flush, Flush::Before | Flush::Both) {
                    engine.flush_all();
                }
                engine.transact("saved", (&writes, &["a", "b", "c"].map(str::to_owned)), None, true);
                engine.put("b", "other");
                if matches!(flush, Flush::After | Flush::Both) {
                    engine.flush_all();
                }
                engine.put("plain", "1");
                if crash {
                    engine.settle();
                    copy(dir.path(), crashed.path());
                }
            }
            let dir = if crash { &crashed } else { &dir };
            let check = |engine: &Engine, a: &str| {
                let found = ["a", "b", "c", "plain"].map(|key| engine.get(key));
                let expected = [Some(a), Some("other"), None, Some("1")];
                assert_eq!(found.each_ref().map(Option::as_deref), expected, "{case}");
            };
            let engine = to(dir.path(), policy);
            check(&engine, "old");
            engine.end("saved", commits);
            let a = if commits { "kept" } else { "old" };
            check(&engine, a);
            drop(engine);
            check(&from(dir.path(), policy), a);
        }
    }
}

#[test]
fn rocksdb_ends_transactions_whose_save_points_esker_has_rolled_back() {
    if require("librocksdb 11.8", RocksDb::available()).is_some() {
        save_points_change_hands(Engine::esker, Engine::rocks);
    }
}

#[test]
fn esker_ends_transactions_whose_save_points_rocksdb_has_rolled_back() {
    if require("librocksdb 11.8", RocksDb::available()).is_some() {
        save_points_change_hands(Engine::rocks, Engine::esker);
    }
}

#[test]
fn both_engines_show_large_transactions_and_their_save_points_alike() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    const KEYS: usize = 6;
    seed::for_each_seed("write-unprepared-beside-rocksdb", 20, |_, mut rng| {
        let policy = WritePolicy::WriteUnprepared;
        let (ours, theirs) = (TempDir::new("esker-wup"), TempDir::new("rocksdb-wup"));
        let (esker, rocks) = (esker_as(ours.path(), policy), rocksdb(theirs.path(), policy));
        let keys: Vec<String> = (0..KEYS).map(|i| format!("key{i}")).collect();
        for round in 0..4 {
            let name = format!("txn{round}");
            let (txn, twin) = (esker_begin(&esker, &name), rocks.begin(&name).expect("begun"));
            let mut points = 0;
            for step in 0..rng.usize(1..25) {
                let key = rng.choice(&keys).expect("some");
                match rng.u8(..10) {
                    0 => {
                        txn.set_save_point();
                        twin.set_save_point();
                        points += 1;
                    }
                    1 if points > 0 => {
                        txn.rollback_to_save_point().expect("there is one");
                        twin.rollback_to_save_point().expect("there is one");
                        points -= 1;
                    }
                    2 | 3 => {
                        txn.delete(key).expect("locked");
                        twin.delete(key.as_bytes()).expect("locked");
                    }
                    4 => {
                        esker.db().flush().expect("flushes");
                        rocks.flush().expect("flushes");
                    }
                    _ => {
                        let value = format!("{round}-{step}");
                        txn.put(key, &value).expect("locked");
                        twin.put(key.as_bytes(), value.as_bytes()).expect("locked");
                    }
                }
                for key in &keys {
                    let value = txn.get(key).expect("read");
                    assert_eq!(value, twin.get(key.as_bytes()).expect("read"), "{name} {step} {key}");
                    assert_eq!(esker_get(&esker, key), rocks_get(&rocks, key), "{name} {step} {key}");
                }
            }
            match rng.u8(..3) {
                0 => {
                    txn.rollback().expect("rolled back");
                    twin.rollback().expect("rolled back");
                }
                1 => {
                    txn.prepare().expect("prepared");
                    twin.prepare().expect("prepared");
                    txn.commit().expect("committed");
                    twin.commit().expect("committed");
                }
                _ => {
                    txn.commit().expect("committed");
                    twin.commit().expect("committed");
                }
            }
            for key in &keys {
                assert_eq!(esker_get(&esker, key), rocks_get(&rocks, key), "after {name}: {key}");
            }
        }
    });
}
