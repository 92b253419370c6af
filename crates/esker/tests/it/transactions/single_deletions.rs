//! Single deletions beside transactions. Users put a key only if it has no value, and delete it
//! singly. Transactions put values and take them back. Keys that users merge are not deleted
//! singly.

use super::cut_short::crashes;
use super::options;
use super::write_prepared::{Contents, begin, contents};
use esker::internals::env::mem::MemFs;
use esker::internals::env::{CrashChoices, CrashFs, FaultFs, MockClock};
use esker::txn::WritePolicy;
use esker::{
    ColumnFamilyHandle, CompactionOptions, Env, Options, Snapshot, Transaction, TransactionDb,
    TransactionDbOptions,
};
use esker_testkit::seed;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const POLICIES: [WritePolicy; 3] =
    [WritePolicy::WriteCommitted, WritePolicy::WritePrepared, WritePolicy::WriteUnprepared];

/// Opens the database, without compactions of its own. Under `WriteUnprepared` every write spills
/// the one before.
fn open(options: &Options, write_policy: WritePolicy) -> TransactionDb {
    let mut options = options.clone();
    options.cf.disable_auto_compactions = true;
    let txn_options = TransactionDbOptions {
        write_policy,
        default_write_batch_flush_threshold: 1,
        ..TransactionDbOptions::default()
    };
    TransactionDb::open(&options, &txn_options, "/db").unwrap()
}

fn on(fs: &CrashFs) -> Options {
    let mut options = options();
    options.db.env = Env::with_fs(Arc::new(fs.clone()));
    options
}

fn flush(db: &TransactionDb) {
    db.db().flush().unwrap();
}

/// Compacts all tables, so that they lie below all later ones.
fn flush_to_last_level(db: &TransactionDb) {
    flush(db);
    db.db().compact_range(None, None).unwrap();
}

/// Compacts the `count` newest tables of level 0 into one.
fn compact_newest(db: &TransactionDb, count: usize) {
    let files = db.db().live_files();
    let mut numbers: Vec<_> = files.iter().filter(|f| f.level == 0).map(|f| f.file.file_number).collect();
    numbers.sort_unstable();
    let newest = &numbers[numbers.len().saturating_sub(count)..];
    if !newest.is_empty() {
        let family = db.db().default_column_family();
        db.db().compact_files(&CompactionOptions::default(), &family, newest, 0).unwrap();
    }
}

/// Puts `k1` after a transaction's put there was taken back, and deletes it singly. Looks for the
/// key while flushes and compactions drop unneeded entries. `flushes`: each write gets a table.
fn put_again_and_delete_singly(db: &TransactionDb, flushes: bool, how: &str) {
    db.put("k1", "new").unwrap();
    if flushes {
        flush(db);
    }
    delete_singly(db, how);
}

fn delete_singly(db: &TransactionDb, how: &str) {
    db.db().single_delete("k1").unwrap();
    assert_eq!(contents(db, None), Contents::new(), "{how}");
    flush(db);
    assert_eq!(contents(db, None), Contents::new(), "{how}, flushed");
    compact_newest(db, 2);
    assert_eq!(contents(db, None), Contents::new(), "{how}, compacted in part");
    db.db().compact_range(None, None).unwrap();
    assert_eq!(contents(db, None), Contents::new(), "{how}, compacted");
}

#[test]
fn a_single_deletion_does_not_show_a_put_that_a_rollback_took_back() {
    for flushes in [false, true] {
        let db = open(&options(), WritePolicy::WritePrepared);
        let txn = begin(&db, "one");
        txn.put("k1", "rolled back").unwrap();
        txn.prepare().unwrap();
        flush_to_last_level(&db);
        txn.rollback().unwrap();
        put_again_and_delete_singly(&db, flushes, "after a rollback");
    }
}

#[test]
fn a_single_deletion_does_not_show_a_put_that_a_save_point_took_back() {
    for flushes in [false, true] {
        let db = open(&options(), WritePolicy::WriteUnprepared);
        let txn = begin(&db, "one");
        txn.put("k2", "stays").unwrap();
        txn.set_save_point();
        txn.put("k1", "taken back").unwrap();
        txn.put("k2", "spills k1").unwrap();
        flush_to_last_level(&db);
        txn.rollback_to_save_point().unwrap();
        txn.delete("k2").unwrap();
        txn.commit().unwrap();
        put_again_and_delete_singly(&db, flushes, "after a rollback to a save point");
    }
}

#[test]
fn a_single_deletion_does_not_show_a_put_that_an_open_took_back() {
    for (policy, flushes) in POLICIES.into_iter().flat_map(|policy| [(policy, false), (policy, true)]) {
        let options = options();
        let db = open(&options, WritePolicy::WritePrepared);
        let txn = begin(&db, "one");
        txn.put("k1", "prepared").unwrap();
        txn.prepare().unwrap();
        flush_to_last_level(&db);
        drop((txn, db));
        // The open takes the entry in the table back, and has the section anew.
        let db = open(&options, policy);
        let txn = db.get_transaction_by_name(b"one").unwrap();
        txn.rollback().unwrap();
        put_again_and_delete_singly(&db, flushes, "after an open");
    }
}

/// The snapshot keeps the value that the user has deleted singly before the transaction, in the
/// last level. The rollback's deletion is above, and goes with the next put.
#[test]
fn a_single_deletion_does_not_show_a_value_that_a_snapshot_has_kept_below_a_rollback() {
    let clock = Arc::new(MockClock::new(1_000_000_000_000));
    let mut options = options();
    options.db.env = Env::new(Arc::new(MemFs::new()), clock.clone());
    options.cf.preclude_last_level_data_seconds = 100;
    let db = open(&options, WritePolicy::WritePrepared);
    let family = db.db().default_column_family();
    let wait = |seconds| {
        clock.advance(Duration::from_secs(seconds));
        // Records the time.
        db.db().set_options(&family, &[("preclude_last_level_data_seconds", "100")]).unwrap();
    };
    let compact_to_5 = || {
        flush(&db);
        let files = db.db().live_files();
        let young: Vec<_> = files.iter().filter(|f| f.level < 6).map(|f| f.file.file_number).collect();
        db.db().compact_files(&CompactionOptions::default(), &family, &young, 5).unwrap();
    };
    db.put("k1", "old").unwrap();
    let snapshot = db.db().snapshot();
    wait(90);
    flush_to_last_level(&db);
    db.db().single_delete("k1").unwrap();
    let txn = begin(&db, "one");
    txn.put("k1", "rolled back").unwrap();
    txn.prepare().unwrap();
    txn.rollback().unwrap();
    wait(60);
    flush_to_last_level(&db);
    let levels: BTreeSet<_> = db.db().live_files().iter().map(|f| f.level).collect();
    assert_eq!(levels, BTreeSet::from([5, 6]));
    drop(snapshot);
    db.put("k1", "new").unwrap();
    compact_to_5();
    db.db().single_delete("k1").unwrap();
    compact_to_5();
    assert_eq!(contents(&db, None), Contents::new());
}

/// The single deletion of the save point is in the WAL only, and the transaction is lost.
#[test]
fn a_single_deletion_does_not_show_a_put_below_a_key_that_a_save_point_gave_back() {
    for policy in POLICIES {
        let fs = CrashFs::new();
        let db = open(&on(&fs), WritePolicy::WriteUnprepared);
        let txn = begin(&db, "one");
        txn.put("k2", "lost").unwrap();
        txn.set_save_point();
        txn.put("k1", "taken back").unwrap();
        txn.put("k2", "spills k1").unwrap();
        flush_to_last_level(&db);
        txn.rollback_to_save_point().unwrap();
        db.put("k1", "new").unwrap();
        let image = fs.crash_clone(&CrashChoices::process_kill());
        drop((txn, db));
        let db = open(&on(&image), policy);
        assert_eq!(db.get("k1").unwrap().unwrap(), b"new");
        delete_singly(&db, "after an open");
    }
}

/// Ends the process before each operation of an open that changes the disk. Opens each disk again
/// and hands the database to `check`. Also does so with a disk that no open has touched.
fn after_each_crash_of_an_open(left: &CrashFs, policy: WritePolicy, mut check: impl FnMut(TransactionDb)) {
    let fs = FaultFs::new(Arc::new(left.clone()));
    let mut options = on(left);
    options.db.env = Env::with_fs(Arc::new(fs.clone()));
    let whole = left.crash_clone(&CrashChoices::process_kill());
    let halves = crashes(&fs, left, CrashChoices::process_kill(), || drop(open(&options, policy)));
    for left in [whole].into_iter().chain(halves) {
        let mut options = on(&left);
        // So small a buffer makes a replay write tables before its end.
        options.cf.write_buffer_size = 64 << 10;
        check(open(&options, policy));
    }
}

/// Lets the transaction change `k1` by `ops` and give it back. `flushes`: a table gets the changes.
fn give_back(
    db: &TransactionDb,
    txn: &Transaction,
    ops: impl Fn(&Transaction, &ColumnFamilyHandle),
    flushes: bool,
) {
    txn.set_save_point();
    ops(txn, &db.db().default_column_family());
    txn.put("k2", "spills k1").unwrap();
    if flushes {
        flush(db);
    }
    txn.rollback_to_save_point().unwrap();
}

/// Lets a transaction change `k1` and give it back. Then `later` changes it. Returns the disk after
/// the end of the process.
fn given_back(
    former: Option<&str>,
    ops: impl Fn(&Transaction, &ColumnFamilyHandle),
    flushes: bool,
    later: impl Fn(&TransactionDb),
    prepares: bool,
) -> CrashFs {
    let fs = CrashFs::new();
    let db = open(&on(&fs), WritePolicy::WriteUnprepared);
    if let Some(former) = former {
        db.put("k1", former).unwrap();
    }
    let txn = begin(&db, "one");
    txn.put("k2", "lost").unwrap();
    give_back(&db, &txn, ops, flushes);
    later(&db);
    if prepares {
        txn.prepare().unwrap();
    }
    let image = fs.crash_clone(&CrashChoices::process_kill());
    drop((txn, db));
    image
}

fn delete_and_put(txn: &Transaction, family: &ColumnFamilyHandle) {
    txn.single_delete_cf(family, "k1").unwrap();
    txn.put("k1", "taken back").unwrap();
}

fn delete(txn: &Transaction, family: &ColumnFamilyHandle) {
    txn.single_delete_cf(family, "k1").unwrap();
}

fn put(txn: &Transaction, _: &ColumnFamilyHandle) {
    txn.put("k1", "taken back").unwrap();
}

/// Checks what `k1` has after every way to open the database, also when tables were compacted and
/// the transaction has ended.
fn check_given_back(image: &CrashFs, due: Option<&[u8]>) {
    for policy in POLICIES {
        after_each_crash_of_an_open(&image.crash_clone(&CrashChoices::process_kill()), policy, |db| {
            assert_eq!(db.get("k1").unwrap().as_deref(), due);
            if let Some(txn) = db.get_transaction_by_name(b"one") {
                txn.commit().unwrap();
                assert_eq!(db.get("k1").unwrap().as_deref(), due, "committed");
            }
            db.db().compact_range(None, None).unwrap();
            assert_eq!(db.get("k1").unwrap().as_deref(), due, "compacted");
        });
    }
}

#[test]
fn a_merge_on_a_key_that_a_save_point_gave_back_keeps_the_value_below() {
    let merge = |db: &TransactionDb| db.merge("k1", "x").unwrap();
    for flushes in [false, true] {
        for prepares in [false, true] {
            check_given_back(&given_back(Some("old"), delete, flushes, merge, prepares), Some(b"old,x"));
            check_given_back(
                &given_back(Some("old"), delete_and_put, flushes, merge, prepares),
                Some(b"old,x"),
            );
            check_given_back(&given_back(None, put, flushes, merge, prepares), Some(b"x"));
        }
    }
}

#[test]
fn a_merge_on_a_key_that_save_points_gave_back_twice_keeps_the_value_between() {
    let fs = CrashFs::new();
    let db = open(&on(&fs), WritePolicy::WriteUnprepared);
    let txn = begin(&db, "one");
    give_back(&db, &txn, put, true);
    db.put("k1", "between").unwrap();
    give_back(&db, &txn, delete_and_put, false);
    db.merge("k1", "x").unwrap();
    let image = fs.crash_clone(&CrashChoices::process_kill());
    drop((txn, db));
    check_given_back(&image, Some(b"between,x"));
}

#[test]
fn a_single_deletion_of_a_key_that_a_save_point_gave_back_survives_every_open() {
    let delete_singly = |db: &TransactionDb| db.db().single_delete("k1").unwrap();
    for flushes in [false, true] {
        for prepares in [false, true] {
            check_given_back(&given_back(Some("old"), delete, flushes, delete_singly, prepares), None);
            check_given_back(
                &given_back(Some("old"), delete_and_put, flushes, delete_singly, prepares),
                None,
            );
        }
    }
}

#[test]
fn an_open_that_was_cut_short_does_not_lose_the_single_deletions_of_save_points() {
    for (flushes, prepares) in [(false, false), (false, true), (true, false), (true, true)] {
        let fill_buffer = |db: &TransactionDb| {
            db.put("k1", "new").unwrap();
            db.put("k3", vec![0; 100_000]).unwrap();
            db.delete("k3").unwrap();
        };
        let image = given_back(None, put, flushes, fill_buffer, prepares);
        for policy in POLICIES {
            after_each_crash_of_an_open(&image.crash_clone(&CrashChoices::process_kill()), policy, |db| {
                assert_eq!(db.get("k1").unwrap().unwrap(), b"new");
                if let Some(txn) = db.get_transaction_by_name(b"one") {
                    txn.rollback().unwrap();
                }
                delete_singly(&db, "after an open");
            });
        }
    }
}

/// Writes of a transaction; `None`: a deletion.
type Writes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// A write of a history to a key.
enum KeyWrite {
    Put,
    Merge,
    Delete,
    SingleDelete,
}

/// A transaction of a history, and what it has written.
struct Running {
    name: String,
    /// `None` while the database is closed.
    txn: Option<Transaction>,
    is_prepared: bool,
    writes: Writes,
    save_points: Vec<Writes>,
    locked: BTreeSet<Vec<u8>>,
    /// All keys that it ever locked. After an open, a prepared transaction may have any of them
    /// locked.
    touched: BTreeSet<Vec<u8>>,
}

/// A database whose keys are put only where they have no value, and deleted singly only where they
/// have one. New keys replace the old ones in the course of a history, so some keys are not merged
/// yet.
struct History {
    fs: CrashFs,
    db: Option<TransactionDb>,
    state: Writes,
    /// Keys that were ever merged. RocksDB allows no single deletion of these.
    merged: BTreeSet<Vec<u8>>,
    /// Snapshots of the open database, and what they show.
    snapshots: Vec<(Snapshot, Contents)>,
    running: Vec<Running>,
    next: usize,
}

impl History {
    fn db(&self) -> &TransactionDb {
        self.db.as_ref().unwrap()
    }

    fn open(&mut self, rng: &mut fastrand::Rng) {
        let db = open(&on(&self.fs), POLICIES[rng.usize(..3)]);
        for running in &mut self.running {
            running.txn = db.get_transaction_by_name(running.name.as_bytes());
            assert!(running.txn.is_some(), "{}", running.name);
            running.locked.clone_from(&running.touched);
        }
        self.db = Some(db);
    }

    /// Opens the database and ends the process at some operation of the open, or behind it.
    fn open_in_part(&mut self, rng: &mut fastrand::Rng) {
        let (disk, fs) = (self.fs.clone(), FaultFs::new(Arc::new(self.fs.clone())));
        let mut options = on(&self.fs);
        options.db.env = Env::with_fs(Arc::new(fs.clone()));
        let (left, image) = (Arc::new(AtomicUsize::new(rng.usize(..100))), Arc::new(Mutex::new(None)));
        let caught = image.clone();
        fs.on_op(move |_| {
            if left.fetch_sub(1, Ordering::Relaxed) == 0 {
                *caught.lock().unwrap() = Some(disk.crash_clone(&CrashChoices::process_kill()));
            }
        });
        drop(open(&options, POLICIES[rng.usize(..3)]));
        fs.clear_hook();
        if let Some(image) = image.lock().unwrap().take() {
            self.fs = image;
        }
    }

    /// Ends the database, by a close or by a crash of the process. Transactions that are not
    /// prepared end, too.
    fn end(&mut self, rng: &mut fastrand::Rng) {
        let crashes = rng.bool();
        let image = self.fs.crash_clone(&CrashChoices::process_kill());
        self.running.retain(|running| running.is_prepared);
        self.running.iter_mut().for_each(|running| running.txn = None);
        self.snapshots.clear();
        self.db = None;
        if crashes {
            self.fs = image;
        }
    }

    /// The committed contents.
    fn contents(&self) -> Contents {
        self.state.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?))).collect()
    }

    fn check(&self) {
        assert_eq!(contents(self.db(), None), self.contents());
        for (snapshot, due) in &self.snapshots {
            assert_eq!(&contents(self.db(), Some(snapshot)), due, "at {}", snapshot.sequence().0);
        }
    }

    /// A key that no running transaction but `by` has locked.
    fn free_key(&self, by: Option<usize>, rng: &mut fastrand::Rng) -> Option<Vec<u8>> {
        let key = format!("k{}", self.next / 40 * 3 + rng.usize(..3)).into_bytes();
        let others = self.running.iter().enumerate().filter(|(i, _)| Some(*i) != by);
        others.into_iter().all(|(_, running)| !running.locked.contains(&key)).then_some(key)
    }

    /// Chooses a write of `key`, which has the value `former`. Returns the kind, the operand, and
    /// the value after the write.
    fn choose(
        &mut self,
        key: &[u8],
        former: Option<Vec<u8>>,
        rng: &mut fastrand::Rng,
    ) -> (KeyWrite, Vec<u8>, Option<Vec<u8>>) {
        self.next += 1;
        let operand = format!("v{}", self.next).into_bytes();
        if rng.u8(..10) == 0 {
            self.merged.insert(key.to_vec());
            let value = former.map_or(operand.clone(), |former| [former, operand.clone()].join(&b','));
            return (KeyWrite::Merge, operand, Some(value));
        }
        match former {
            None => (KeyWrite::Put, operand.clone(), Some(operand)),
            Some(_) if self.merged.contains(key) => (KeyWrite::Delete, operand, None),
            Some(_) => (KeyWrite::SingleDelete, operand, None),
        }
    }

    /// Writes a key without a transaction.
    fn write(&mut self, rng: &mut fastrand::Rng) {
        let Some(key) = self.free_key(None, rng) else { return };
        let former = self.state.get(&key).cloned().flatten();
        let (write, operand, value) = self.choose(&key, former, rng);
        let db = self.db();
        match write {
            KeyWrite::Put => db.put(&key, &operand),
            KeyWrite::Merge => db.merge(&key, &operand),
            KeyWrite::Delete => db.delete(&key),
            KeyWrite::SingleDelete => db.db().single_delete(&key),
        }
        .unwrap();
        self.state.insert(key, value);
    }

    fn begin(&mut self) {
        self.next += 1;
        let name = format!("t{:04}", self.next);
        let txn = begin(self.db(), &name);
        let (writes, save_points, locked, touched) = Default::default();
        let (txn, is_prepared) = (Some(txn), false);
        self.running.push(Running { name, txn, is_prepared, writes, save_points, locked, touched });
    }

    /// Writes a key in transaction `i`.
    fn write_in(&mut self, i: usize, rng: &mut fastrand::Rng) {
        let Some(key) = self.free_key(Some(i), rng) else { return };
        let former = self.running[i].writes.get(&key).or(self.state.get(&key)).cloned();
        let (write, operand, value) = self.choose(&key, former.flatten(), rng);
        let family = self.db().db().default_column_family();
        let Running { txn: Some(txn), writes, locked, touched, .. } = &mut self.running[i] else {
            unreachable!()
        };
        match write {
            KeyWrite::Put => txn.put(&key, &operand),
            KeyWrite::Merge => txn.merge_cf(&family, &key, &operand),
            KeyWrite::Delete => txn.delete(&key),
            KeyWrite::SingleDelete => txn.single_delete_cf(&family, &key),
        }
        .unwrap();
        locked.insert(key.clone());
        touched.insert(key.clone());
        writes.insert(key, value);
    }

    fn step_in(&mut self, i: usize, rng: &mut fastrand::Rng) {
        let Running { txn: Some(txn), is_prepared, writes, save_points, locked, .. } = &mut self.running[i]
        else {
            unreachable!()
        };
        match rng.u8(..10) {
            0..=4 if !*is_prepared => self.write_in(i, rng),
            5 if !*is_prepared => match save_points.pop() {
                Some(former) => {
                    txn.rollback_to_save_point().unwrap();
                    *writes = former;
                    *locked = writes.keys().cloned().collect();
                }
                None => {
                    save_points.push(writes.clone());
                    txn.set_save_point();
                }
            },
            6 if !*is_prepared => {
                txn.prepare().unwrap();
                *is_prepared = true;
            }
            7 => {
                txn.rollback().unwrap();
                self.running.swap_remove(i);
            }
            8 => {
                txn.commit().unwrap();
                self.state.extend(self.running.swap_remove(i).writes);
            }
            _ => {}
        }
    }

    fn step(&mut self, rng: &mut fastrand::Rng) {
        match rng.u8(..40) {
            0..=9 => self.write(rng),
            10..=12 if self.running.len() < 2 => self.begin(),
            13..=17 => flush(self.db()),
            18 => self.db().db().compact_range(None, None).unwrap(),
            19 | 20 => compact_newest(self.db(), rng.usize(2..4)),
            21 => {
                self.end(rng);
                for _ in 0..rng.usize(..3) {
                    self.open_in_part(rng);
                }
                self.open(rng);
            }
            22 if self.snapshots.len() < 2 => {
                self.snapshots.push((self.db().db().snapshot(), self.contents()));
            }
            23 => _ = self.snapshots.pop(),
            _ if !self.running.is_empty() => self.step_in(rng.usize(..self.running.len()), rng),
            _ => {}
        }
    }
}

#[test]
fn histories_of_single_deletions_show_no_value_that_a_transaction_took_back() {
    seed::for_each_seed("single-deletions", 40, |_, mut rng| {
        let (state, merged, snapshots, running) = Default::default();
        let mut history =
            History { fs: CrashFs::new(), db: None, state, merged, snapshots, running, next: 0 };
        history.open(&mut rng);
        for _ in 0..200 {
            history.step(&mut rng);
            history.check();
        }
    });
}
