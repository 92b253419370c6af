//! Every engine against a `BTreeMap`, in random histories.

use super::*;
use crate::engine::{Durability, From, RivalCursor, RivalSettings};
use crate::keys::{Digest, key};
use esker_testkit::TempDir;
use fastrand::Rng;
use std::collections::BTreeMap;
use std::ops::Bound;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;
type Pair = (Vec<u8>, Vec<u8>);

const SEEDS: u64 = 2;
const STEPS: usize = 1000;

fn settings() -> RivalSettings {
    RivalSettings {
        // Small, so that histories flush and evict.
        write_buffer_bytes: 64 << 10,
        cache_bytes: 64 << 10,
        bloom_bits: 10.0,
        map_bytes: 1 << 28,
        synced: false,
    }
}

/// Runs the test on each engine that is here. "Esker (C ABI)" is left out: a process loads one
/// library with RocksDB's C functions.
fn on_every_engine(test: impl WithEngine<Output = ()> + Clone) {
    let libraries = Libraries { esker: None, rocksdb: None };
    for kind in EngineKind::ALL {
        if kind != EngineKind::EskerC && availability(kind, &libraries).is_ok() {
            kind.with(test.clone()).unwrap_or_else(|why| panic!("{kind}: {why}"));
        }
    }
}

fn random_key(random: &mut Rng) -> Vec<u8> {
    // Few letters, so that keys meet, and are prefixes of each other.
    (0..random.usize(1..=6)).map(|_| random.choice(*b"\0am\xff").expect("letters")).collect()
}

fn random_pair(random: &mut Rng) -> Pair {
    let len = if random.u8(..8) == 0 { random.usize(4..1500) } else { random.usize(4..60) };
    (random_key(random), (0..len).map(|_| random.u8(..)).collect())
}

/// The pairs that a scan of the model shows.
fn expected(model: &Model, from: From<'_>, skip: usize, limit: usize) -> Vec<Pair> {
    let own = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
    match from {
        From::First => model.iter().map(own).skip(skip).take(limit).collect(),
        From::Key(key) => {
            let behind = (Bound::Included(key), Bound::Unbounded);
            model.range::<[u8], _>(behind).map(own).skip(skip).take(limit).collect()
        }
        From::Last => model.iter().rev().map(own).skip(skip).take(limit).collect(),
    }
}

/// A database beside its model.
struct History<E> {
    // Closes before the directory is deleted.
    db: Option<E>,
    dir: TempDir,
    model: Model,
    random: Rng,
}

impl<E: RivalEngine> History<E> {
    fn step(&mut self) -> RivalResult<()> {
        let can = E::ABILITIES;
        let db = self.db.as_mut().expect("open");
        let random = &mut self.random;
        match random.u8(..100) {
            0..40 => {
                let (key, value) = random_pair(random);
                let durability = match random.u8(..20) {
                    0 if can.synced => Durability::Sync,
                    _ => Durability::Wal,
                };
                db.put(&key, &value, durability)?;
                self.model.insert(key, value);
            }
            40..50 => {
                // Keys may meet in a batch: the last one counts.
                let batch: Vec<Pair> = (0..random.usize(1..40)).map(|_| random_pair(random)).collect();
                let pairs: Vec<(&[u8], &[u8])> = batch.iter().map(|(k, v)| (&k[..], &v[..])).collect();
                db.put_all(&pairs, Durability::Wal)?;
                self.model.extend(batch);
            }
            50..62 => {
                let key = random_key(random);
                db.delete(&key)?;
                self.model.remove(&key);
            }
            62..64 if can.delete_range => {
                let (one, other) = (random_key(random), random_key(random));
                let (begin, end) = (one.clone().min(other.clone()), one.max(other));
                if begin < end {
                    db.delete_range(&begin, &end)?;
                    self.model.retain(|key, _| *key < begin || *key >= end);
                }
            }
            64..75 => {
                let keys: Vec<Vec<u8>> = (0..random.usize(1..10)).map(|_| random_key(random)).collect();
                let slices: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
                let mut values = Vec::new();
                let found = db.multi_get(&slices, &mut |value| values.push(value.to_vec()))?;
                let wanted: Vec<Vec<u8>> =
                    keys.iter().filter_map(|key| self.model.get(key).cloned()).collect();
                assert_eq!((found, values), (wanted.len(), wanted), "multi_get of {keys:?}");
                let mut value = None;
                let found = db.get(&keys[0], &mut |bytes| value = Some(bytes.to_vec()))?;
                assert_eq!((found, &value), (value.is_some(), &self.model.get(&keys[0]).cloned()));
            }
            75..95 => self.scan()?,
            95 => db.flush()?,
            96 if can.compacts => db.compact()?,
            97 if can.reopens => {
                self.db = None;
                self.db = Some(E::open(self.dir.path(), &settings())?);
            }
            98 => db.settle()?,
            _ => assert_eq!(db.len()?, self.model.len() as u64, "len"),
        }
        Ok(())
    }

    fn scan(&mut self) -> RivalResult<()> {
        let (db, random) = (self.db.as_ref().expect("open"), &mut self.random);
        let start = random_key(random);
        let from = match random.u8(..4) {
            0 => From::First,
            1 if E::ABILITIES.reverse => From::Last,
            _ => From::Key(&start),
        };
        let (skip, limit) = (random.usize(..20), random.usize(..50));
        db.with_cursor(random.bool(), |cursor| {
            let mut pairs = Vec::new();
            let count =
                cursor.scan(from, limit, &mut |key, value| pairs.push((key.to_vec(), value.to_vec())))?;
            assert_eq!((count, &pairs), (pairs.len(), &expected(&self.model, from, 0, limit)), "{from:?}");

            let mut keys = Vec::new();
            let count = cursor.keys(from, limit, &mut |key| keys.push(key.to_vec()))?;
            let wanted: Vec<Vec<u8>> = pairs.into_iter().map(|(key, _)| key).collect();
            assert_eq!((count, keys), (wanted.len(), wanted), "keys from {from:?}");

            let mut pairs = Vec::new();
            let mut visit = |key: &[u8], value: &[u8]| pairs.push((key.to_vec(), value.to_vec()));
            let count = cursor.scan_behind(from, skip, limit, &mut visit)?;
            let wanted = expected(&self.model, from, skip, limit);
            assert_eq!((count, pairs), (wanted.len(), wanted), "{from:?}, {skip} skipped");
            Ok(())
        })
    }
}

#[derive(Clone)]
struct AgainstAModel;

impl WithEngine for AgainstAModel {
    type Output = ();

    fn run<E: RivalEngine>(self) -> RivalResult<()> {
        for seed in 0..SEEDS {
            let dir = TempDir::new("compare-model");
            let db = Some(E::open(dir.path(), &settings())?);
            let mut history = History { db, dir, model: Model::new(), random: Rng::with_seed(seed) };
            for step in 0..STEPS {
                history.step().map_err(|why| format!("seed {seed}, step {step}: {why}"))?;
            }
        }
        Ok(())
    }
}

#[test]
fn engines_answer_as_a_map_does() {
    on_every_engine(AgainstAModel);
}

#[derive(Clone)]
struct Tasks;

impl WithEngine for Tasks {
    type Output = ();

    fn run<E: RivalEngine>(self) -> RivalResult<()> {
        const TASKS: u64 = 48;
        const SHARE: u64 = 20;
        let dir = TempDir::new("compare-tasks");
        let settings = RivalSettings { synced: E::ABILITIES.synced, ..settings() };
        let mut db = E::open(dir.path(), &settings)?;
        let durability = if E::ABILITIES.synced { Durability::Sync } else { Durability::Wal };
        let (_, mut done) = db.in_tasks(TASKS, async |task| {
            for i in 0..SHARE {
                db.put_in_task(&key(i * TASKS + task), &task.to_be_bytes(), durability).await?;
            }
            Ok(task)
        })?;
        done.sort_unstable();
        assert_eq!(done, (0..TASKS).collect::<Vec<_>>(), "each task runs once");
        let stored = |db: &E, number: u64| db.get(&key(number), &mut |_| ());
        for number in 0..TASKS * SHARE {
            assert!(stored(&db, number)?, "the put of {number} was acknowledged");
        }
        if E::ABILITIES.reopens {
            drop(db);
            db = E::open(dir.path(), &settings)?;
        }
        for number in 0..TASKS * SHARE {
            assert!(stored(&db, number)?, "the put of {number} is there after a close");
        }
        let (mut wanted, mut digest) = (Digest::default(), Digest::default());
        for number in 0..TASKS * SHARE {
            wanted.add_pair(&key(number), &(number % TASKS).to_be_bytes());
        }
        db.with_cursor(false, |cursor| {
            cursor.scan(From::First, usize::MAX, &mut |key, value| digest.add_pair(key, value))
        })?;
        assert_eq!((db.len()?, digest.0), (TASKS * SHARE, wanted.0));
        Ok(())
    }
}

#[test]
fn tasks_of_every_engine_store_what_they_put() {
    on_every_engine(Tasks);
}
