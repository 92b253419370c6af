//! Transactions under `WriteUnprepared`: parts of a large one are in memtables and tables before
//! its prepare, and only the transaction itself sees them.

use super::options;
use super::write_prepared::{Contents, KEYS, Op, apply, begin, contents, merging, open_as};
use esker::comparator::Comparator;
use esker::internals::env::fault::OpKind;
use esker::internals::env::{CrashChoices, CrashFs, FaultFs, FaultRule};
use esker::txn::{TransactionIterator, TransactionState, WritePolicy};
use esker::{
    Env, Error, ErrorKind, Options, ReadOptions, Snapshot, Transaction, TransactionDb, TransactionDbOptions,
    TransactionOptions, WriteOptions,
};
use esker_testkit::seed;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Every write spills the one before.
const ALWAYS: i64 = 1;

fn open(options: &Options, threshold: i64) -> TransactionDb {
    let txn_options = TransactionDbOptions {
        write_policy: WritePolicy::WriteUnprepared,
        default_write_batch_flush_threshold: threshold,
        ..TransactionDbOptions::default()
    };
    TransactionDb::open(options, &txn_options, "/db").unwrap()
}

/// The contents that `txn` shows, by all ways of reading.
fn seen_by(db: &TransactionDb, txn: &Transaction, at: Option<&Snapshot>) -> Contents {
    let family = db.default_column_family();
    let options = ReadOptions { snapshot: at.cloned(), ..ReadOptions::default() };
    let found = shown_by(&mut txn.iter_opt(&options, &family).unwrap());
    let keys: Vec<_> = (0..KEYS).map(|i| format!("k{i}")).collect();
    for (key, value) in keys.iter().zip(txn.multi_get(&options, &family, &keys)) {
        let expected = found.get(key.as_bytes());
        assert_eq!(value.unwrap().as_deref(), expected.map(|v| &v[..]), "{key}");
        assert_eq!(txn.get_opt(&options, &family, key).unwrap().as_ref(), expected, "{key}");
    }
    found
}

fn shown_by(iter: &mut TransactionIterator) -> Contents {
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
    found
}

fn of<const N: usize>(pairs: [(&str, &str); N]) -> Contents {
    pairs.map(|(key, value)| (key.into(), value.into())).into()
}

#[test]
fn only_the_transaction_sees_what_it_has_spilled_until_its_commit() {
    for (is_prepared, flushes) in [(false, false), (false, true), (true, false), (true, true)] {
        let db = open(&options(), ALWAYS);
        db.put("k1", "old").unwrap();
        db.put("k2", "old").unwrap();
        let txn = begin(&db, "one");
        txn.put("k0", "lost").unwrap();
        txn.delete("k2").unwrap();
        txn.put("k0", "new").unwrap();
        txn.put("k1", "new").unwrap();
        assert_eq!(txn.write_batch().len(), 1, "the others are spilled");
        if flushes {
            db.db().flush().unwrap();
            db.db().compact_range(None, None).unwrap();
        }
        let (old, new) = (of([("k1", "old"), ("k2", "old")]), of([("k0", "new"), ("k1", "new")]));
        assert_eq!((contents(&db, None), seen_by(&db, &txn, None)), (old.clone(), new.clone()));
        let snapshot = db.db().snapshot();
        db.put("k3", "other").unwrap();
        assert_eq!(seen_by(&db, &txn, Some(&snapshot)), new);
        db.delete("k3").unwrap();
        if is_prepared {
            txn.prepare().unwrap();
            assert_eq!((contents(&db, None), seen_by(&db, &txn, None)), (old.clone(), new.clone()));
        }
        txn.commit().unwrap();
        assert_eq!((contents(&db, None), contents(&db, Some(&snapshot))), (new.clone(), old));
        drop((snapshot, txn));
        db.db().flush().unwrap();
        db.db().compact_range(None, None).unwrap();
        assert_eq!(contents(&db, None), new);
    }
}

#[test]
fn a_snapshot_of_a_transaction_hides_range_deletions_between_it_and_spilled_writes() {
    for flushes in [false, true] {
        let db = open(&options(), ALWAYS);
        let family = db.default_column_family();
        db.put("k1", "old").unwrap();
        let txn = begin(&db, "one");
        txn.set_snapshot();
        db.delete_range_cf(&family, "k1", "k2").unwrap();
        txn.put("k3", "own").unwrap();
        txn.put("k4", "own").unwrap();
        if flushes {
            db.db().flush().unwrap();
        }
        let own = [("k3", "own"), ("k4", "own")];
        let at_snapshot = of([("k1", "old"), own[0], own[1]]);
        assert_eq!(seen_by(&db, &txn, txn.snapshot().as_ref()), at_snapshot);
        assert_eq!(seen_by(&db, &txn, None), of(own));
    }
}

/// Takes upper and lower case for the same.
#[derive(Debug)]
pub(super) struct Folding;

impl Comparator for Folding {
    fn name(&self) -> &str {
        "test.Folding"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
    }
    fn find_shortest_separator(&self, _start: &mut Vec<u8>, _limit: &[u8]) {}
    fn find_short_successor(&self, _key: &mut Vec<u8>) {}
}

#[test]
fn keys_that_the_order_takes_for_the_same_are_rolled_back_and_numbered_apart() {
    for threshold in [0, ALWAYS] {
        let mut options = options();
        options.cf.comparator = Arc::new(Folding);
        let old = of([("k1", "old")]);
        for reopens in [false, true] {
            let db = open(&options, threshold);
            db.put("k1", "old").unwrap();
            let txn = begin(&db, "one");
            txn.put("k1", "1").unwrap();
            txn.put("K1", "2").unwrap();
            txn.put("k2", "1").unwrap();
            txn.put("K2", "2").unwrap();
            txn.prepare().unwrap();
            txn.rollback().unwrap();
            db.put("k3", "behind").unwrap();
            db.delete("K3").unwrap();
            let db = if reopens {
                drop((txn, db));
                open(&options, threshold)
            } else {
                db
            };
            assert_eq!(contents(&db, None), old, "{threshold} {reopens}");
            db.db().flush().unwrap();
            db.db().compact_range(None, None).unwrap();
            assert_eq!(contents(&db, None), old, "{threshold} {reopens}");
        }
    }
}

/// A rollback writes a single deletion below a value that the transaction has deleted singly and
/// put, however it spelled the key. Otherwise the next single deletion would show the put.
#[test]
fn a_key_that_a_transaction_spelled_in_two_ways_is_deleted_singly_behind_its_rollback() {
    for (threshold, to_save_point) in [(0, false), (ALWAYS, false), (ALWAYS, true)] {
        let mut options = options();
        options.cf.comparator = Arc::new(Folding);
        options.cf.disable_auto_compactions = true;
        let db = open(&options, threshold);
        db.put("k1", "old").unwrap();
        let txn = begin(&db, "one");
        txn.put("k2", "own").unwrap();
        txn.set_save_point();
        txn.single_delete_cf(&db.default_column_family(), "k1").unwrap();
        txn.put("K1", "taken back").unwrap();
        txn.put("k3", "spills K1").unwrap();
        if to_save_point {
            db.db().flush().unwrap();
            txn.rollback_to_save_point().unwrap();
        } else {
            txn.prepare().unwrap();
            db.db().flush().unwrap();
            txn.rollback().unwrap();
        }
        drop(txn);
        assert_eq!(db.get("k1").unwrap().unwrap(), b"old", "{threshold} {to_save_point}");
        db.db().single_delete("k1").unwrap();
        db.db().flush().unwrap();
        assert_eq!(contents(&db, None), of([]), "{threshold} {to_save_point}");
    }
}

#[test]
fn the_batch_of_a_large_transaction_stays_small() {
    let db = open(&options(), 10_000);
    let txn = begin(&db, "large");
    let value = vec![b'v'; 1000];
    for i in 0..1000 {
        txn.put(format!("key{i:04}"), &value).unwrap();
        let held = txn.with_write_batch(|batch| batch.write_batch().data_size());
        assert!(held < 12_000, "{held} bytes at {i}");
    }
    let mut iter = txn.iter_opt(&ReadOptions::default(), &db.default_column_family()).unwrap();
    iter.seek_to_first();
    let mut count = 0;
    while iter.valid() {
        count += 1;
        iter.next();
    }
    assert_eq!(count, 1000);
    txn.commit().unwrap();
    assert_eq!(db.get("key0500").unwrap().unwrap(), value);
    let options = TransactionOptions { write_batch_flush_threshold: 0, ..TransactionOptions::default() };
    let txn = db.begin_transaction_opt(&WriteOptions::default(), &options);
    (0..100).for_each(|i| txn.put(format!("key{i}"), &value).unwrap());
    assert_eq!(txn.write_batch().len(), 100, "0 is no limit");
}

#[test]
fn a_rollback_a_drop_and_a_crash_leave_nothing_of_what_was_spilled() {
    for (end, flushes) in [(0, false), (0, true), (1, false), (1, true), (2, false), (2, true)] {
        let fs = CrashFs::new();
        let mut options = merging();
        options.db.env = Env::with_fs(Arc::new(fs.clone()));
        let db = open(&options, ALWAYS);
        db.put("k1", "old").unwrap();
        db.put("k2", "old").unwrap();
        let txn = begin(&db, "one");
        txn.put("k0", "new").unwrap();
        txn.delete("k1").unwrap();
        txn.merge_cf(&db.default_column_family(), "k2", "operand").unwrap();
        txn.put("k3", "in memory").unwrap();
        if flushes {
            db.db().flush().unwrap();
        }
        let old = of([("k1", "old"), ("k2", "old")]);
        let db = match end {
            0 => {
                txn.rollback().unwrap();
                assert_eq!((txn.state(), seen_by(&db, &txn, None)), (TransactionState::Started, old.clone()));
                txn.put("k0", "again").unwrap();
                txn.put("k1", "again").unwrap();
                txn.rollback().unwrap();
                drop(txn);
                db
            }
            1 => {
                drop(txn);
                db
            }
            _ => {
                let image = fs.crash_clone(&CrashChoices::process_kill());
                drop(txn);
                drop(db);
                options.db.env = Env::with_fs(Arc::new(image));
                open(&options, ALWAYS)
            }
        };
        assert_eq!(contents(&db, None), old);
        let other = begin(&db, "one");
        (0..4).for_each(|i| other.put(format!("k{i}"), "the locks are free").unwrap());
        other.rollback().unwrap();
        drop(other);
        // A commit under the same name brings nothing of the other transactions back.
        let other = begin(&db, "one");
        other.put("k4", "4").unwrap();
        other.put("k5", "5").unwrap();
        other.commit().unwrap();
        let expected: Contents = old.into_iter().chain(of([("k4", "4"), ("k5", "5")])).collect();
        assert_eq!(contents(&db, None), expected);
        db.db().flush().unwrap();
        db.db().compact_range(None, None).unwrap();
        db.db().wait_for_background_work().unwrap();
        assert_eq!(contents(&db, None), expected);
    }
}

#[test]
fn a_key_that_a_save_point_gave_back_belongs_to_the_next_holder_of_its_lock() {
    for (first, second) in [("commit", "commit"), ("rollback", "commit"), ("commit", "rollback")] {
        for early in [false, true] {
            let db = open(&options(), ALWAYS);
            db.put("k1", "old").unwrap();
            let one = begin(&db, "one");
            one.put("k0", "one").unwrap();
            one.set_save_point();
            one.put("k1", "one").unwrap();
            one.put("k2", "one").unwrap();
            one.put("k3", "one").unwrap();
            one.rollback_to_save_point().unwrap();
            let old = of([("k0", "one"), ("k1", "old")]);
            assert_eq!(seen_by(&db, &one, None), old);
            let two = begin(&db, "two");
            two.put("k1", "two").unwrap();
            two.put("k2", "two").unwrap();
            two.prepare().unwrap();
            let end = |txn: &Transaction, how| match how {
                "commit" => txn.commit().unwrap(),
                _ => txn.rollback().unwrap(),
            };
            if early {
                end(&one, first);
                end(&two, second);
            } else {
                end(&two, second);
                end(&one, first);
            }
            let mut expected = of([("k1", "old")]);
            if first == "commit" {
                expected.extend(of([("k0", "one")]));
            }
            if second == "commit" {
                expected.extend(of([("k1", "two"), ("k2", "two")]));
            }
            assert_eq!(contents(&db, None), expected, "{first} {second} {early}");
            db.db().flush().unwrap();
            db.db().compact_range(None, None).unwrap();
            assert_eq!(contents(&db, None), expected, "{first} {second} {early}");
        }
    }
}

#[test]
fn recovery_keeps_what_others_wrote_to_keys_that_a_save_point_gave_back() {
    for (is_prepared, flushes) in [(false, false), (false, true), (true, false), (true, true)] {
        for policy in [WritePolicy::WriteCommitted, WritePolicy::WritePrepared] {
            let fs = CrashFs::new();
            let mut options = merging();
            options.db.env = Env::with_fs(Arc::new(fs.clone()));
            let db = open(&options, ALWAYS);
            db.put("k1", "old").unwrap();
            let one = begin(&db, "one");
            one.put("k0", "one").unwrap();
            one.set_save_point();
            one.put("k1", "one").unwrap();
            one.put("k2", "one").unwrap();
            one.put("k4", "one").unwrap();
            one.rollback_to_save_point().unwrap();
            db.put("k1", "other").unwrap();
            let two = begin(&db, "two");
            two.put("k2", "two").unwrap();
            two.prepare().unwrap();
            two.commit().unwrap();
            // A key that others wrote between two sections of the transaction.
            db.put("k3", "other").unwrap();
            one.put("k3", "one").unwrap();
            one.put("k0", "1").unwrap();
            if flushes {
                db.db().flush().unwrap();
            }
            if is_prepared {
                one.prepare().unwrap();
            }
            let image = fs.crash_clone(&CrashChoices::process_kill());
            drop((one, two, db));
            options.db.env = Env::with_fs(Arc::new(image));
            let others = of([("k1", "other"), ("k2", "two"), ("k3", "other")]);
            for _ in 0..2 {
                let db = open_as(&options, policy);
                assert_eq!(contents(&db, None), others, "{is_prepared} {flushes} {policy:?}");
            }
            let db = open_as(&options, policy);
            let mut expected = others;
            match db.get_transaction_by_name(b"one") {
                Some(one) => {
                    one.commit().unwrap();
                    expected.extend(of([("k0", "1"), ("k3", "one")]));
                }
                None => assert!(!is_prepared),
            }
            assert_eq!(contents(&db, None), expected, "{is_prepared} {flushes} {policy:?}");
        }
    }
}

#[test]
fn spilled_writes_are_no_conflict_for_their_own_transaction() {
    for flushes in [false, true] {
        let db = open(&options(), ALWAYS);
        db.put("k1", "old").unwrap();
        let txn = begin(&db, "one");
        txn.set_snapshot();
        txn.put("k1", "1").unwrap();
        txn.put("k2", "1").unwrap();
        if flushes {
            db.db().flush().unwrap();
        }
        txn.put("k1", "2").unwrap();
        db.put("k3", "other").unwrap();
        assert_eq!(txn.put("k3", "lost update").unwrap_err().kind(), ErrorKind::Busy);
        let other = begin(&db, "two");
        other.set_snapshot();
        txn.commit().unwrap();
        assert_eq!(other.put("k1", "lost update").unwrap_err().kind(), ErrorKind::Busy);
        assert_eq!(db.get("k1").unwrap().unwrap(), b"2");
    }
}

#[test]
fn a_transaction_without_a_name_gets_one_and_range_deletions_stay_in_memory() {
    let db = open(&options(), ALWAYS);
    let family = db.default_column_family();
    let txn = db.begin_transaction();
    txn.put("k1", "1").unwrap();
    assert_eq!(txn.name(), None);
    txn.put("k2", "1").unwrap();
    let name = txn.name().expect("recovery needs one");
    let error = txn.set_name(b"mine").unwrap_err();
    assert!(error.to_string().contains("spilled"), "{error}");
    let error = txn.delete_range_cf(&family, "a", "b").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    let other = db.begin_transaction();
    (5..8).for_each(|i| other.put(format!("k{i}"), "1").unwrap());
    assert_ne!(other.name(), Some(name));
    txn.commit().unwrap();
    other.commit().unwrap();
    let txn = db.begin_transaction();
    txn.delete_range_cf(&family, "k1", "k3").unwrap();
    txn.put("k3", "1").unwrap();
    txn.put("k4", "1").unwrap();
    assert_eq!((txn.name(), txn.write_batch().len()), (None, 3));
    txn.commit().unwrap();
    let expected = ["k3", "k4", "k5", "k6", "k7"].map(|key| (key.into(), b"1".to_vec()));
    let mut iter = db.db().iter().unwrap();
    iter.seek_to_first();
    for (key, value) in expected {
        let (key, value): (Vec<u8>, Vec<u8>) = (key, value);
        assert_eq!(iter.item(), Some((&key[..], &value[..])));
        iter.next();
    }
}

/// A transaction under way.
struct Live {
    txn: Transaction,
    writes: Vec<(Vec<u8>, Op)>,
    /// For each save point, the number of writes before it.
    points: Vec<usize>,
    /// Its snapshot, with the committed contents there.
    at: Option<(Snapshot, Contents)>,
    /// An iterator, with the contents when it was made.
    held: Option<(TransactionIterator, Contents)>,
}

/// A database on a file system that forgets unsynced bytes, and the contents it must show.
struct Model {
    fs: CrashFs,
    db: Option<TransactionDb>,
    /// The committed contents.
    state: Contents,
    live: BTreeMap<String, Live>,
    prepared: Prepared,
    /// The states since the last sync, up to the present one: a crash may leave each of them.
    promised: Vec<(Contents, Prepared)>,
    snapshots: Vec<(Snapshot, Contents)>,
    /// Keys that save points have given back: others may write them next.
    given_back: Vec<Vec<u8>>,
    next: usize,
}

/// Prepared transactions by name, with their writes.
type Prepared = BTreeMap<String, Vec<(Vec<u8>, Op)>>;

impl Model {
    fn db(&self) -> &TransactionDb {
        self.db.as_ref().unwrap()
    }

    fn open(&mut self, rng: &mut fastrand::Rng) {
        let mut options = merging();
        options.db.env = Env::with_fs(Arc::new(self.fs.clone()));
        self.db = Some(match rng.u8(..6) {
            0 => open_as(&options, WritePolicy::WriteCommitted),
            1 => open_as(&options, WritePolicy::WritePrepared),
            _ => open(&options, [ALWAYS, 40, 80][rng.usize(..3)]),
        });
        let mut found = self.db().get_all_prepared_transactions();
        found.sort_by_key(Transaction::name);
        let names: Vec<_> = found.iter().map(|t| String::from_utf8(t.name().unwrap()).unwrap()).collect();
        let found = contents(self.db(), None);
        let is_found =
            |(state, prepared): &(Contents, Prepared)| *state == found && prepared.keys().eq(names.iter());
        let at = self.promised.iter().rposition(is_found);
        let at = at.unwrap_or_else(|| panic!("{names:?} {found:?} is none of {:#?}", self.promised));
        (self.state, self.prepared) = self.promised.swap_remove(at);
        self.note(true);
    }

    /// Records the present state. `is_durable`: no older one can come back.
    fn note(&mut self, is_durable: bool) {
        if is_durable {
            self.promised.clear();
        }
        self.promised.push((self.state.clone(), self.prepared.clone()));
    }

    /// A write outside transactions, to a key that none of them has locked.
    fn write_outside(&mut self, rng: &mut fastrand::Rng) {
        let key = self.some_key(rng);
        if !self.locked("").contains(&key) {
            let value = vec![b'o', rng.alphanumeric() as u8];
            match self.db().put(&key, &value) {
                Ok(()) => _ = self.state.insert(key, value),
                Err(error) => self.check_recovered_lock(&error),
            }
            self.note(false);
        }
    }

    /// A recovered transaction has locked keys again that its save points gave back.
    fn check_recovered_lock(&self, error: &Error) {
        assert!(error.kind() == ErrorKind::TimedOut && !self.prepared.is_empty(), "{error}");
    }

    /// A key, often one that a save point has given back.
    fn some_key(&mut self, rng: &mut fastrand::Rng) -> Vec<u8> {
        let given_back = if rng.bool() { self.given_back.pop() } else { None };
        given_back.unwrap_or_else(|| format!("k{}", rng.usize(..KEYS)).into_bytes())
    }

    /// Keys that a transaction other than `name` has locked.
    fn locked(&self, name: &str) -> BTreeSet<Vec<u8>> {
        let live = self.live.iter().filter(|(other, _)| *other != name).flat_map(|(_, live)| &live.writes);
        live.chain(self.prepared.values().flatten()).map(|(key, _)| key.clone()).collect()
    }

    fn view(&self, live: &Live) -> Contents {
        let mut view = live.at.as_ref().map_or(&self.state, |(_, contents)| contents).clone();
        apply(&mut view, &live.writes);
        view
    }

    /// Writes to a key that no other transaction has locked.
    fn write(&mut self, rng: &mut fastrand::Rng, name: &str) {
        let locked = self.locked(name);
        let key = self.some_key(rng);
        if locked.contains(&key) {
            return;
        }
        let op = match rng.u8(..5) {
            0 => Op::Delete,
            1 => Op::Merge(vec![b'm', rng.alphanumeric() as u8]),
            _ => Op::Put(vec![b'v', rng.alphanumeric() as u8]),
        };
        let family = self.db().default_column_family();
        let state = self.state.get(&key).cloned();
        let live = self.live.get_mut(name).unwrap();
        let written = match &op {
            Op::Put(value) => live.txn.put(&key, value),
            Op::Delete => live.txn.delete(&key),
            Op::Merge(operand) => live.txn.merge_cf(&family, &key, operand),
        };
        let is_first = live.writes.iter().all(|(written, _)| *written != key);
        let changed = live.at.as_ref().is_some_and(|(_, contents)| contents.get(&key) != state.as_ref());
        match written {
            Ok(()) => {
                assert!(!is_first || !changed, "a write of another since the snapshot is a conflict");
                live.writes.push((key, op));
            }
            Err(error) if error.kind() == ErrorKind::TimedOut => self.check_recovered_lock(&error),
            // The key may have its old value again.
            Err(error) => assert!(error.kind() == ErrorKind::Busy && live.at.is_some(), "{error}"),
        }
    }

    fn step_of_live(&mut self, rng: &mut fastrand::Rng, name: &str) {
        match rng.u8(..16) {
            0 => {
                let live = self.live.get_mut(name).unwrap();
                live.txn.set_save_point();
                live.points.push(live.writes.len());
            }
            1 | 2 => {
                let live = self.live.get_mut(name).unwrap();
                match live.points.pop() {
                    None => {
                        let error = live.txn.rollback_to_save_point().unwrap_err();
                        assert_eq!(error.kind(), ErrorKind::NotFound);
                    }
                    Some(point) if rng.u8(..3) > 0 => {
                        live.txn.rollback_to_save_point().unwrap();
                        self.given_back.extend(live.writes.drain(point..).map(|(key, _)| key));
                    }
                    Some(_) => live.txn.pop_save_point().unwrap(),
                }
            }
            3 => {
                let live = self.live.remove(name).unwrap();
                if rng.bool() {
                    live.txn.rollback().unwrap();
                }
            }
            4 => {
                let live = self.live.remove(name).unwrap();
                live.txn.commit().unwrap();
                apply(&mut self.state, &live.writes);
            }
            5 => {
                let live = self.live.remove(name).unwrap();
                live.txn.prepare().unwrap();
                self.prepared.insert(name.to_owned(), live.writes);
            }
            6 => {
                let live = &self.live[name];
                let view = self.view(live);
                let at = live.at.as_ref().map(|(snapshot, _)| snapshot.clone());
                let options = ReadOptions { snapshot: at, ..ReadOptions::default() };
                let iter = live.txn.iter_opt(&options, &self.db().default_column_family()).unwrap();
                self.live.get_mut(name).unwrap().held = Some((iter, view));
            }
            _ => self.write(rng, name),
        }
    }

    fn step(&mut self, rng: &mut fastrand::Rng) {
        match rng.u8(..16) {
            0 | 1 if self.live.len() < 3 => {
                self.next += 1;
                // Recovery finds transactions by name, so names have no order in time.
                let name = format!("{}t{:03}", rng.u8(..10), self.next);
                let txn = begin(self.db(), &name);
                let at = rng.bool().then(|| {
                    txn.set_snapshot();
                    (txn.snapshot().unwrap(), self.state.clone())
                });
                let live = Live { txn, writes: Vec::new(), points: Vec::new(), at, held: None };
                self.live.insert(name, live);
            }
            0..=2 => {
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
            3 => self.snapshots.push((self.db().db().snapshot(), self.state.clone())),
            4 => {
                let at = rng.usize(..=self.snapshots.len());
                if at < self.snapshots.len() {
                    self.snapshots.swap_remove(at);
                }
            }
            5 => self.db().db().flush().unwrap(),
            6 => {
                if rng.bool() {
                    self.db().db().flush().unwrap();
                }
                self.db().db().compact_range(None, None).unwrap();
            }
            7 => self.write_outside(rng),
            8 => {
                self.db().db().sync_wal().unwrap();
                self.note(true);
            }
            _ => {
                let at = rng.usize(..=self.live.len());
                if let Some(name) = self.live.keys().nth(at).cloned() {
                    self.step_of_live(rng, &name);
                }
            }
        }
    }

    fn check(&mut self) {
        assert_eq!(contents(self.db(), None), self.state);
        for (snapshot, state) in &self.snapshots {
            assert_eq!(&contents(self.db(), Some(snapshot)), state);
        }
        for (name, live) in &self.live {
            let at = live.at.as_ref().map(|(snapshot, _)| snapshot);
            assert_eq!(seen_by(self.db(), &live.txn, at), self.view(live), "{name}");
        }
        for (name, live) in &mut self.live {
            if let Some((iter, view)) = &mut live.held {
                assert_eq!(&shown_by(iter), view, "an iterator of {name}");
            }
        }
    }

    /// Ends the database, by a close or by a crash of the process or the machine.
    fn end(&mut self, rng: &mut fastrand::Rng) {
        self.snapshots.clear();
        self.given_back.clear();
        let prepares = rng.u8(..3) == 0;
        while prepares && let Some((name, live)) = self.live.pop_first() {
            live.txn.prepare().unwrap();
            self.prepared.insert(name, live.writes);
            self.note(false);
        }
        if rng.bool()
            && let Some((name, ops)) = self.prepared.pop_first()
        {
            // Its entries are in tables when it is resolved, and a compaction comes before a sync.
            self.db().db().flush().unwrap();
            self.db().db().sync_wal().unwrap();
            self.prepared.insert(name.clone(), ops.clone());
            self.note(true);
            self.prepared.remove(&name);
            self.db().get_transaction_by_name(name.as_bytes()).unwrap().commit().unwrap();
            apply(&mut self.state, &ops);
            self.note(false);
            self.db().db().compact_range(None, None).unwrap();
        }
        let image = (rng.u8(..3) > 0).then(|| {
            if rng.bool() {
                return self.fs.crash_clone(&CrashChoices::lose_unsynced());
            }
            self.promised.drain(..self.promised.len() - 1);
            self.fs.crash_clone(&CrashChoices::process_kill())
        });
        if image.is_none() {
            self.promised.drain(..self.promised.len() - 1);
        }
        self.live.clear();
        self.db = None;
        if let Some(image) = image {
            self.fs = image;
        }
    }
}

#[test]
fn histories_of_large_transactions_read_as_their_commits_and_save_points_say() {
    seed::for_each_seed("write-unprepared-histories", 40, |_, mut rng| {
        let mut model = Model {
            fs: CrashFs::new(),
            db: None,
            state: Contents::new(),
            live: BTreeMap::new(),
            prepared: BTreeMap::new(),
            promised: vec![(Contents::new(), Prepared::new())],
            snapshots: Vec::new(),
            given_back: Vec::new(),
            next: 0,
        };
        for _ in 0..4 {
            for _ in 0..rng.usize(..3) {
                model.open(&mut rng);
                model.write_outside(&mut rng);
                model.db = None;
                model.promised.drain(..model.promised.len() - 1);
            }
            model.open(&mut rng);
            model.check();
            for _ in 0..rng.usize(5..60) {
                model.step(&mut rng);
                model.note(false);
                model.check();
            }
            model.end(&mut rng);
        }
    });
}

#[test]
fn no_transaction_gets_the_name_of_one_whose_rollback_failed() {
    let fs = FaultFs::new(Arc::new(CrashFs::new()));
    let mut options = options();
    options.db.env = Env::with_fs(Arc::new(fs.clone()));
    options.db.max_bgerror_resume_count = 0;
    let db = open(&options, ALWAYS);
    let txn = begin(&db, "one");
    txn.put("k0", "lost").unwrap();
    txn.put("k1", "lost").unwrap();
    fs.add_rule(FaultRule::fail(&[OpKind::Create]).on_name(".sst"));
    db.db().flush().unwrap_err();
    drop(txn);
    db.db().resume().unwrap();
    let other = db.begin_transaction();
    let named = other.set_name(b"one");
    other.put("k3", "v").unwrap();
    other.put("k4", "v").unwrap();
    other.commit().unwrap();
    assert_eq!(contents(&db, None), of([("k3", "v"), ("k4", "v")]));
    assert_eq!(named.unwrap_err().kind(), ErrorKind::InvalidArgument);
    drop((other, db));
    let db = open(&options, ALWAYS);
    assert_eq!(contents(&db, None), of([("k3", "v"), ("k4", "v")]));
    begin(&db, "one").rollback().unwrap();
}
