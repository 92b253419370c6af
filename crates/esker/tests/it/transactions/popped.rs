//! Scans of transactions over deleted runs: the transaction's own deletions, and those of others.

use super::options;
use esker::stats::{Statistics, Ticker};
use esker::txn::TransactionIterator;
use esker::{
    Db, IngestExternalFileOptions, OptimisticTransactionDb, Options, ReadOptions, Snapshot, SstFileWriter,
    TransactionDb, TransactionDbOptions,
};
use esker_testkit::seed::for_each_seed;
use std::collections::BTreeMap;
use std::sync::Arc;

const MESSAGES: usize = 3000;
/// Most hidden entries that a pop may step over.
const MOST_STEPS: u64 = 24;

fn key(n: usize) -> String {
    format!("key{n:05}")
}

/// The transactions that pop.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Pops {
    InOne,
    EachInItsOwn,
    /// Each transaction has written something before it pops.
    EachBehindAWrite,
    /// Others append messages.
    InOneBesideWriters,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Place {
    Memtable,
    Level0,
    LastLevel,
}

fn fill(db: &Db, place: Place) {
    (0..MESSAGES).for_each(|n| db.put(key(n), "message").unwrap());
    if place != Place::Memtable {
        db.flush().unwrap();
    }
    if place == Place::LastLevel {
        db.compact_range(None, None).unwrap();
    }
}

/// Pops half of the messages. Returns how many hidden entries a pop has stepped over.
fn steps_of_a_pop(place: Place, pops: Pops, backward: bool) -> u64 {
    let statistics = Arc::new(Statistics::new());
    let mut options = options();
    options.db.statistics = Some(statistics.clone());
    options.cf.disable_auto_compactions = true;
    let db = TransactionDb::open(&options, &TransactionDbOptions::default(), "/db").unwrap();
    fill(db.db(), place);
    let one = db.begin_transaction();
    let before = statistics.ticker_count(Ticker::NumberIterSkip);
    for popped in 0..MESSAGES / 2 {
        let other = db.begin_transaction();
        let txn = if matches!(pops, Pops::InOne | Pops::InOneBesideWriters) { &one } else { &other };
        if pops == Pops::EachBehindAWrite {
            txn.put("a", "own").unwrap();
        }
        let mut iter = txn.iter().unwrap();
        if backward {
            iter.seek_to_last()
        } else {
            iter.seek("key")
        }
        let found = iter.key().to_vec();
        assert_eq!(found, key(if backward { MESSAGES - 1 - popped } else { popped }).into_bytes());
        drop(iter);
        txn.delete(found).unwrap();
        if pops == Pops::InOneBesideWriters {
            db.db().put(format!("later{popped:05}"), "message").unwrap();
        }
        if matches!(pops, Pops::EachInItsOwn | Pops::EachBehindAWrite) {
            txn.commit().unwrap();
        }
    }
    (statistics.ticker_count(Ticker::NumberIterSkip) - before) / (MESSAGES as u64 / 2)
}

/// A consumer may pop many messages in one transaction, or one in each.
#[test]
fn a_pop_in_a_transaction_steps_over_few_of_the_messages_popped_before() {
    for place in [Place::Memtable, Place::Level0, Place::LastLevel] {
        for pops in [Pops::InOne, Pops::EachInItsOwn, Pops::EachBehindAWrite, Pops::InOneBesideWriters] {
            for backward in [false, true] {
                // Of a memtable that others write to, a later reader cannot tell what was seen.
                let is_unknown = place == Place::Memtable && pops == Pops::InOneBesideWriters;
                // The messages of the writers lie behind the queue.
                if is_unknown || backward && pops == Pops::InOneBesideWriters {
                    continue;
                }
                let steps = steps_of_a_pop(place, pops, backward);
                assert!(steps <= MOST_STEPS, "{steps} steps: {place:?}, {pops:?}, backward {backward}");
            }
        }
    }
}

type Keys = BTreeMap<Vec<u8>, Vec<u8>>;

/// An operation of the transaction: a put, a deletion, or a deletion of a range.
#[derive(Clone, Debug)]
enum Own {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
}

impl Own {
    fn apply(&self, keys: &mut Keys) {
        match self {
            Own::Put(key, value) => drop(keys.insert(key.clone(), value.clone())),
            Own::Delete(key) => drop(keys.remove(key)),
            Own::DeleteRange(from, to) => keys.retain(|key, _| key < from || key >= to),
        }
    }
}

/// A database, a transaction over it, and what both must contain.
struct Shared {
    options: Options,
    db: OptimisticTransactionDb,
    keys: Keys,
    snapshots: Vec<(Snapshot, Keys)>,
    rng: fastrand::Rng,
    step: usize,
}

impl Shared {
    fn key(&mut self) -> Vec<u8> {
        format!("{:03}", self.rng.u32(..150)).into_bytes()
    }

    fn range(&mut self) -> (Vec<u8>, Vec<u8>) {
        let (a, b) = (self.key(), self.key());
        if a <= b { (a, b) } else { (b, a) }
    }

    /// Others change the database.
    fn change(&mut self) {
        let value = self.step.to_string().into_bytes();
        let key = self.key();
        match self.rng.u8(..16) {
            0..5 => {
                self.db.db().put(&key, &value).unwrap();
                self.keys.insert(key, value);
            }
            5..10 => {
                self.db.db().delete(&key).unwrap();
                self.keys.remove(&key);
            }
            10 => {
                let (from, to) = self.range();
                self.db.db().delete_range(&from, &to).unwrap();
                self.keys.retain(|key, _| *key < from || *key >= to);
            }
            11 => self.db.db().flush().unwrap(),
            12 => self.db.db().compact_range(None, None).unwrap(),
            13 => self.ingest(&key, &value, true),
            14 => self.snapshots.push((self.db.db().snapshot(), self.keys.clone())),
            _ => drop(self.snapshots.pop()),
        }
    }

    fn ingest(&mut self, key: &[u8], value: &[u8], allow_global_seqno: bool) {
        let path = format!("/ingested-{}.sst", self.step);
        let mut writer = SstFileWriter::new(&self.options);
        writer.open(&path).unwrap();
        writer.put(key, value).unwrap();
        writer.finish().unwrap();
        let how = IngestExternalFileOptions { allow_global_seqno, ..Default::default() };
        let family = self.db.db().default_column_family();
        self.db.db().ingest_external_file_opt(&how, &family, &[path]).unwrap();
        self.keys.insert(key.to_vec(), value.to_vec());
    }
}

/// Compares a scan of all keys, and one from a key, with the map.
fn check(iter: &mut TransactionIterator, expected: &Keys, from: &[u8], forward: bool, what: &str) {
    let step = |iter: &mut TransactionIterator| if forward { iter.next() } else { iter.prev() };
    let all: Vec<_> = expected.iter().collect();
    let mut wanted: Vec<_> = all.iter().filter(|(key, _)| !forward || key.as_slice() >= from).collect();
    if forward {
        iter.seek(from);
    } else {
        iter.seek_to_last();
        wanted.reverse();
    }
    for (key, value) in wanted {
        assert_eq!(iter.item(), Some((key.as_slice(), value.as_slice())), "{what}, forward {forward}");
        step(iter);
    }
    iter.status().unwrap();
    assert!(!iter.valid(), "{what}: {:?} is too much", iter.key());
}

#[test]
fn scans_of_a_transaction_find_its_writes_over_those_of_others() {
    for_each_seed("transactions over deleted runs", 12, |_, mut rng| {
        let mut options = options();
        options.cf.deleted_run_memory_min_keys = [1, 2, 8][rng.usize(..3)];
        options.cf.deleted_run_block_min_entries = [1, 4][rng.usize(..2)];
        let db = OptimisticTransactionDb::open(&options, "/db").unwrap();
        let (keys, snapshots) = (Keys::new(), Vec::new());
        let mut shared = Shared { options, db, keys, snapshots, rng, step: 0 };
        for _ in 0..12 {
            let txn = shared.db.begin_transaction();
            let (mut own, mut saved): (Vec<Own>, Vec<usize>) = (Vec::new(), Vec::new());
            for _ in 0..60 {
                shared.step += 1;
                (0..shared.rng.usize(..4)).for_each(|_| shared.change());
                let (key, value) = (shared.key(), format!("own {}", shared.step).into_bytes());
                let family = shared.db.db().default_column_family();
                match shared.rng.u8(..12) {
                    0..3 => {
                        txn.put(&key, &value).unwrap();
                        own.push(Own::Put(key, value));
                    }
                    3..8 => {
                        txn.delete(&key).unwrap();
                        own.push(Own::Delete(key));
                    }
                    8 => {
                        let (from, to) = shared.range();
                        txn.delete_range_cf(&family, &from, &to).unwrap();
                        own.push(Own::DeleteRange(from, to));
                    }
                    9 => {
                        txn.set_save_point();
                        saved.push(own.len());
                    }
                    _ => {
                        if let Some(length) = saved.pop() {
                            txn.rollback_to_save_point().unwrap();
                            own.truncate(length);
                        }
                    }
                }
                let old = shared.snapshots.last().filter(|_| shared.rng.u8(..4) == 0).cloned();
                let mut expected = old.as_ref().map_or(&shared.keys, |(_, keys)| keys).clone();
                own.iter().for_each(|own| own.apply(&mut expected));
                let read =
                    ReadOptions { snapshot: old.map(|(snapshot, _)| snapshot), ..ReadOptions::default() };
                let from = shared.key();
                let mut iter = txn.iter_opt(&read, &family).unwrap();
                let what = format!("step {}, {own:?}", shared.step);
                check(&mut iter, &expected, &from, shared.rng.bool(), &what);
                check(&mut iter, &expected, b"", shared.rng.bool(), &what);
            }
            txn.rollback().unwrap();
        }
    });
}

/// An ingested file may have sequence number 0, at which earlier scans have found nothing.
#[test]
fn a_key_that_is_ingested_between_own_deletions_is_found() {
    let mut options = options();
    options.cf.deleted_run_memory_min_keys = 1;
    let db = OptimisticTransactionDb::open(&options, "/db").unwrap();
    db.db().put(key(99_999), "last").unwrap();
    let txn = db.begin_transaction();
    (0..200).step_by(2).for_each(|n| txn.delete(key(n)).unwrap());
    let first = |txn: &esker::OptimisticTransaction| {
        let mut iter = txn.iter().unwrap();
        iter.seek_to_first();
        iter.item().map(|(_, value)| value.to_vec())
    };
    // The second scan remembers that there is nothing before the last key.
    (0..3).for_each(|_| assert_eq!(first(&txn).as_deref(), Some(&b"last"[..])));
    let (keys, snapshots) = (Keys::new(), Vec::new());
    let mut shared = Shared { options, db, keys, snapshots, rng: fastrand::Rng::with_seed(1), step: 0 };
    let before = shared.db.db().latest_sequence_number();
    shared.ingest(key(101).as_bytes(), b"ingested", false);
    assert_eq!(shared.db.db().latest_sequence_number(), before, "the file has an old number");
    assert_eq!(first(&txn).as_deref(), Some(&b"ingested"[..]));
}
