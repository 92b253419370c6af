//! Transactions under `WritePrepared`: in memtables and tables before their commit, and seen from
//! the commit on.

use super::options;
use esker::internals::env::{CrashChoices, CrashFs};
use esker::txn::{TransactionState, WritePolicy};
use esker::{
    Env, ErrorKind, Options, ReadOptions, Snapshot, Transaction, TransactionDb, TransactionDbOptions,
    TransactionOptions, WriteOptions, builtin,
};
use esker_testkit::seed;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) fn open_as(options: &Options, write_policy: WritePolicy) -> TransactionDb {
    let txn_options = TransactionDbOptions { write_policy, ..TransactionDbOptions::default() };
    TransactionDb::open(options, &txn_options, "/db").unwrap()
}

fn open(options: &Options) -> TransactionDb {
    open_as(options, WritePolicy::WritePrepared)
}

pub(super) fn merging() -> Options {
    let mut options = options();
    options.cf.merge_operator = Some(builtin::string_append(","));
    options
}

pub(super) fn begin(db: &TransactionDb, name: &str) -> Transaction {
    let options = TransactionOptions { lock_timeout: 0, ..TransactionOptions::default() };
    let txn = db.begin_transaction_opt(&WriteOptions::default(), &options);
    txn.set_name(name.as_bytes()).unwrap();
    txn
}

pub(super) type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// The entries that an iterator shows, forward; the backward order and gets are compared with it.
pub(super) fn contents(db: &TransactionDb, at: Option<&Snapshot>) -> Contents {
    let options = ReadOptions { snapshot: at.cloned(), ..ReadOptions::default() };
    let family = db.db().default_column_family();
    let mut iter = db.db().iter_opt(options.clone(), &family).unwrap();
    iter.seek_to_first();
    let mut found = Contents::new();
    while iter.valid() {
        found.insert(iter.key().to_vec(), iter.value().to_vec());
        iter.next();
    }
    iter.status().unwrap();
    iter.seek_to_last();
    for (key, value) in found.iter().rev() {
        assert_eq!(iter.item(), Some((&key[..], &value[..])));
        iter.prev();
    }
    assert!(!iter.valid());
    for key in (0..KEYS).map(|i| format!("k{i}")) {
        let value = db.db().get_opt(&options, &family, &key).unwrap();
        assert_eq!(value.as_ref(), found.get(key.as_bytes()), "{key}");
    }
    let keys: Vec<_> = (0..KEYS).map(|i| format!("k{i}")).collect();
    for (key, value) in keys.iter().zip(db.db().multi_get_opt(&options, &family, &keys)) {
        assert_eq!(value.unwrap().as_deref(), found.get(key.as_bytes()).map(|v| &v[..]), "{key}");
    }
    found
}

pub(super) const KEYS: usize = 6;

#[test]
fn a_prepared_write_is_seen_from_its_commit_on_in_memtables_and_in_tables() {
    for (flush_before, flush_after) in [(false, false), (true, false), (false, true), (true, true)] {
        let db = open(&options());
        db.put("k1", "old").unwrap();
        db.put("k2", "old").unwrap();
        let before = db.db().snapshot();
        let txn = begin(&db, "one");
        txn.put("k0", "new").unwrap();
        txn.put("k1", "lost").unwrap();
        txn.put("k1", "new").unwrap();
        txn.delete("k2").unwrap();
        txn.prepare().unwrap();
        let old = contents(&db, Some(&before));
        assert_eq!(contents(&db, None), old);
        if flush_before {
            db.db().flush().unwrap();
            db.db().compact_range(None, None).unwrap();
        }
        assert_eq!(contents(&db, None), old);
        // The file with the entries is not compacted again and again.
        db.db().wait_for_background_work().unwrap();
        let prepared = db.db().snapshot();
        let mut iter = db.db().iter().unwrap();
        txn.commit().unwrap();
        assert_eq!(txn.state(), TransactionState::Committed);
        if flush_after {
            db.db().flush().unwrap();
            db.db().compact_range(None, None).unwrap();
        }
        let new: Contents = [("k0", "new"), ("k1", "new")].map(|(k, v)| (k.into(), v.into())).into();
        assert_eq!(contents(&db, None), new);
        assert_eq!(contents(&db, Some(&before)), old);
        assert_eq!(contents(&db, Some(&prepared)), old);
        iter.seek("k1");
        assert_eq!(iter.value(), b"old");
        iter.refresh().unwrap();
        iter.seek("k1");
        assert_eq!(iter.value(), b"new");
        drop((before, prepared, iter));
        db.db().compact_range(None, None).unwrap();
        assert_eq!(contents(&db, None), new);
    }
}

#[test]
fn a_rollback_writes_the_former_values_and_merged_ones_too() {
    for flush in [false, true] {
        let db = open(&merging());
        let family = db.db().default_column_family();
        db.put("k1", "a").unwrap();
        db.db().merge("k1", "b").unwrap();
        db.db()
            .put_entity(&WriteOptions::default(), &family, "k2", &[(b"c".as_slice(), b"v".as_slice())])
            .unwrap();
        let old = contents(&db, None);
        let txn = begin(&db, "one");
        txn.merge_cf(&family, "k1", "c").unwrap();
        txn.put("k2", "plain").unwrap();
        txn.put("k3", "new").unwrap();
        txn.prepare().unwrap();
        if flush {
            db.db().flush().unwrap();
        }
        txn.rollback().unwrap();
        assert_eq!(contents(&db, None), old);
        db.db().flush().unwrap();
        db.db().compact_range(None, None).unwrap();
        assert_eq!(contents(&db, None), old);
        let entity = db.db().get_entity(&ReadOptions::default(), &family, "k2").unwrap().unwrap();
        assert_eq!(entity.iter().collect::<Vec<_>>(), [(&b"c"[..], &b"v"[..])]);
        begin(&db, "two").put("k1", "the locks are free").unwrap();
    }
}

/// The single deletion and the put that undoes it belong together: without the first, a second
/// single deletion would remove the second put only.
#[test]
fn a_key_whose_single_deletion_was_rolled_back_is_deleted_singly_before_and_after_an_open() {
    for reopens in [false, true] {
        let options = options();
        let mut db = open(&options);
        let family = db.db().default_column_family();
        db.put("k1", "old").unwrap();
        db.db().flush().unwrap();
        let txn = begin(&db, "one");
        txn.single_delete_cf(&family, "k1").unwrap();
        txn.prepare().unwrap();
        txn.rollback().unwrap();
        assert_eq!(db.get("k1").unwrap().unwrap(), b"old");
        db.db().single_delete("k1").unwrap();
        drop((txn, family));
        if reopens {
            drop(db);
            db = open(&options);
        }
        assert_eq!(contents(&db, None), Contents::new());
        db.db().flush().unwrap();
        db.db().compact_range(None, None).unwrap();
        assert_eq!(contents(&db, None), Contents::new(), "{reopens}");
    }
}

#[test]
fn a_write_that_was_committed_since_the_snapshot_is_a_conflict_whatever_its_number() {
    for flush in [false, true] {
        let db = open(&options());
        let txn = begin(&db, "one");
        txn.put("k1", "new").unwrap();
        txn.prepare().unwrap();
        let late = begin(&db, "late");
        late.set_snapshot();
        txn.commit().unwrap();
        if flush {
            db.db().flush().unwrap();
        }
        assert_eq!(late.put("k1", "lost update").unwrap_err().kind(), ErrorKind::Busy);
        late.set_snapshot();
        late.put("k1", "2").unwrap();
    }
}

#[test]
fn calls_that_the_policy_excludes_are_refused_by_its_name() {
    let db = open(&options());
    let family = db.db().default_column_family();
    let txn = begin(&db, "one");
    txn.delete_range_cf(&family, "a", "b").unwrap();
    let error = txn.prepare().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    assert!(error.to_string().contains("WritePrepared"), "{error}");
    txn.commit().unwrap();
    let txn = begin(&db, "two");
    txn.put("k", "1").unwrap();
    txn.prepare().unwrap();
    let error = txn.put("l", "1").unwrap_err();
    assert!(error.to_string().contains("WritePrepared"), "{error}");
    assert_eq!(txn.get("k").unwrap().unwrap(), b"1");
    txn.commit().unwrap();
    let mut stamped = options();
    stamped.cf.comparator = esker::comparator::by_name("leveldb.BytewiseComparator.u64ts").unwrap();
    let txn_options =
        TransactionDbOptions { write_policy: WritePolicy::WritePrepared, ..TransactionDbOptions::default() };
    let error = TransactionDb::open(&stamped, &txn_options, "/db").unwrap_err();
    assert!(error.to_string().contains("write_policy"), "{error}");
}

/// Recovery takes back what a section has in tables, and must not take later writes along.
#[test]
fn a_write_without_a_lock_behind_a_prepared_section_survives_every_open() {
    for policy in [WritePolicy::WritePrepared, WritePolicy::WriteCommitted] {
        let options = options();
        {
            let db = open(&options);
            for key in ["k1", "k2", "k3"] {
                db.put(key, "old").unwrap();
            }
            let txn = begin(&db, "one");
            for key in ["k1", "k2", "k3"] {
                txn.put(key, "prepared").unwrap();
            }
            txn.prepare().unwrap();
            db.db().put("k1", "no lock").unwrap();
            db.db().delete_range("k2", "k3").unwrap();
            db.db().flush().unwrap();
            // At the bottommost level the write keeps its number, as the entry below it does.
            db.db().compact_range(None, None).unwrap();
        }
        let expected: Contents = [("k1", "no lock"), ("k3", "old")].map(|(k, v)| (k.into(), v.into())).into();
        for _ in 0..2 {
            let db = open_as(&options, policy);
            assert_eq!(contents(&db, None), expected, "{policy:?}");
        }
        let db = open_as(&options, policy);
        db.get_transaction_by_name(b"one").unwrap().commit().unwrap();
        // As without an open, the writes behind the section lie over it.
        let committed: Contents =
            [("k1", "no lock"), ("k3", "prepared")].map(|(k, v)| (k.into(), v.into())).into();
        assert_eq!(contents(&db, None), committed, "{policy:?}");
    }
}

/// A database on a file system that forgets unsynced bytes, and the contents it must show.
struct Model {
    fs: CrashFs,
    db: Option<TransactionDb>,
    /// The committed contents.
    state: Contents,
    /// Prepared transactions and their writes.
    prepared: BTreeMap<String, Vec<(Vec<u8>, Op)>>,
    snapshots: Vec<(Snapshot, Contents)>,
    next: usize,
}

#[derive(Clone, Debug)]
pub(super) enum Op {
    Put(Vec<u8>),
    Delete,
    Merge(Vec<u8>),
}

pub(super) fn apply(state: &mut Contents, ops: &[(Vec<u8>, Op)]) {
    for (key, op) in ops {
        match op {
            Op::Put(value) => _ = state.insert(key.clone(), value.clone()),
            Op::Delete => _ = state.remove(key),
            Op::Merge(operand) => {
                let merged = match state.get(key) {
                    Some(value) => [value, &b","[..], operand].concat(),
                    None => operand.clone(),
                };
                state.insert(key.clone(), merged);
            }
        }
    }
}

impl Model {
    fn db(&self) -> &TransactionDb {
        self.db.as_ref().unwrap()
    }

    fn options(&self, rng: &mut fastrand::Rng) -> Options {
        let mut options = merging();
        options.db.env = Env::with_fs(Arc::new(self.fs.clone()));
        options.db.avoid_flush_during_recovery = rng.bool();
        options
    }

    /// Opens the database under one of both policies.
    fn open(&mut self, rng: &mut fastrand::Rng) {
        let policy = if rng.u8(..4) == 0 { WritePolicy::WriteCommitted } else { WritePolicy::WritePrepared };
        self.db = Some(open_as(&self.options(rng), policy));
        let mut found: Vec<_> = self.db().get_all_prepared_transactions();
        found.sort_by_key(Transaction::name);
        let names: Vec<_> = found.iter().map(|t| String::from_utf8(t.name().unwrap()).unwrap()).collect();
        assert_eq!(names, self.prepared.keys().cloned().collect::<Vec<_>>());
    }

    /// Writes some ops to keys that no prepared transaction has.
    fn ops(&self, rng: &mut fastrand::Rng) -> Vec<(Vec<u8>, Op)> {
        let locked: Vec<_> = self.prepared.values().flatten().map(|(key, _)| key.clone()).collect();
        let op = |rng: &mut fastrand::Rng| match rng.u8(..4) {
            0 => Op::Delete,
            1 => Op::Merge(vec![b'm', rng.alphanumeric() as u8]),
            _ => Op::Put(vec![b'v', rng.alphanumeric() as u8]),
        };
        let keys = (0..rng.usize(1..5)).map(|_| format!("k{}", rng.usize(..KEYS)).into_bytes());
        let keys: Vec<_> = keys.filter(|key| !locked.contains(key)).collect();
        keys.into_iter().map(|key| (key, op(rng))).collect()
    }

    fn add(&self, txn: &Transaction, ops: &[(Vec<u8>, Op)]) {
        let family = self.db().db().default_column_family();
        for (key, op) in ops {
            match op {
                Op::Put(value) => txn.put(key, value).unwrap(),
                Op::Delete => txn.delete(key).unwrap(),
                Op::Merge(operand) => txn.merge_cf(&family, key, operand).unwrap(),
            }
        }
    }

    fn step(&mut self, rng: &mut fastrand::Rng) {
        match rng.u8(..12) {
            0 | 1 => {
                let ops = self.ops(rng);
                let txn = self.db().begin_transaction();
                self.add(&txn, &ops);
                txn.commit().unwrap();
                apply(&mut self.state, &ops);
            }
            2..=4 => {
                let ops = self.ops(rng);
                self.next += 1;
                let name = format!("t{:03}", self.next);
                let txn = begin(self.db(), &name);
                self.add(&txn, &ops);
                txn.prepare().unwrap();
                self.prepared.insert(name, ops);
            }
            5..=7 => {
                let Some(name) = self.prepared.keys().nth(rng.usize(..=self.prepared.len())).cloned() else {
                    return;
                };
                let txn = self.db().get_transaction_by_name(name.as_bytes()).unwrap();
                let ops = self.prepared.remove(&name).unwrap();
                if rng.u8(..3) == 0 {
                    txn.rollback().unwrap();
                } else {
                    txn.commit().unwrap();
                    apply(&mut self.state, &ops);
                }
            }
            8 => self.snapshots.push((self.db().db().snapshot(), self.state.clone())),
            9 => {
                let at = rng.usize(..=self.snapshots.len());
                if at < self.snapshots.len() {
                    self.snapshots.swap_remove(at);
                }
            }
            10 => self.db().db().flush().unwrap(),
            _ => {
                self.db().db().flush().unwrap();
                self.db().db().compact_range(None, None).unwrap();
            }
        }
    }

    fn check(&self) {
        assert_eq!(contents(self.db(), None), self.state);
        for (snapshot, state) in &self.snapshots {
            assert_eq!(&contents(self.db(), Some(snapshot)), state);
        }
    }

    /// Ends the database, by a close or by a crash of the process or the machine.
    fn end(&mut self, rng: &mut fastrand::Rng) {
        self.snapshots.clear();
        if rng.bool() {
            self.db().db().sync_wal().unwrap();
            let choices =
                if rng.bool() { CrashChoices::process_kill() } else { CrashChoices::lose_unsynced() };
            let image = self.fs.crash_clone(&choices);
            self.db = None;
            self.fs = image;
        } else {
            self.db = None;
        }
    }
}

#[test]
fn histories_of_transactions_read_as_their_commits_say_through_crashes_and_other_policies() {
    seed::for_each_seed("write-prepared-histories", 40, |_, mut rng| {
        let mut model = Model {
            fs: CrashFs::new(),
            db: None,
            state: Contents::new(),
            prepared: BTreeMap::new(),
            snapshots: Vec::new(),
            next: 0,
        };
        for _ in 0..4 {
            model.open(&mut rng);
            model.check();
            for _ in 0..rng.usize(5..40) {
                model.step(&mut rng);
                model.check();
            }
            model.end(&mut rng);
        }
    });
}
