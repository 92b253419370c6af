//! Prepared transactions and kill -9: Esker and RocksDB open one database in turn.
//!
//! In each round a child process opens the database with one of the engines. It takes up the
//! prepared transactions, and takes steps until this process kills it. Then one of the two engines
//! opens the database, checks it against the child's reports, and resolves some prepared
//! transactions. Only this process knows the expected contents: the child reports each step that it
//! has done.
//!
//! Transactions belong to [`LANES`] lanes, and a lane has one transaction at a time. The order of
//! its steps is fixed ([`Lane`]). So the state of a lane is the number of its steps. After a kill
//! that is the number reported, or one more. Some lanes are slow: their transactions stay prepared
//! while memtables are flushed and WALs retired all around them.
//!
//! `ROUNDS=n` for more rounds (`cargo xtask long durability`).

use esker::{Options, Transaction, TransactionDb, TransactionDbOptions};
use esker_peer::{RocksDb, RocksTransaction, RocksTransactionDb, RocksWritePolicy, require};
use esker_testkit::{TempDir, seed};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const DIRECTORY: &str = "ESKER_PEER_LANES_DIRECTORY";
const ENGINE: &str = "ESKER_PEER_LANES_ENGINE";
const STEPS: &str = "ESKER_PEER_LANES_STEPS";
const LANES: usize = 4;
/// The speeds of the lanes: a lane with 100 takes a hundred steps for each step of a lane with 1.
const PACE: [u32; LANES] = [100, 100, 8, 1];
/// Transaction `n` removes the keys of transactions `n - KEPT` and `n - KEPT - 1`.
const KEPT: u64 = 8;

/// The next step of a lane, with its transaction number `n`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Prepare(u64),
    Commit(u64),
    Rollback(u64),
    /// The transaction begins, writes and commits without being prepared.
    Direct(u64),
}

/// Steps that a lane has done. Of four transactions the first and third are prepared and committed,
/// the second is prepared and rolled back, the fourth is committed without being prepared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Lane {
    number: usize,
    steps: u64,
}

impl Lane {
    fn next(self) -> Step {
        let n = self.steps / 7 * 4;
        match self.steps % 7 {
            0 => Step::Prepare(n + 1),
            1 => Step::Commit(n + 1),
            2 => Step::Prepare(n + 2),
            3 => Step::Rollback(n + 2),
            4 => Step::Prepare(n + 3),
            5 => Step::Commit(n + 3),
            _ => Step::Direct(n + 4),
        }
    }

    /// The newest committed transaction; 0: none.
    fn last(self) -> u64 {
        match self.next() {
            Step::Prepare(n) if n % 4 == 3 => n - 2,
            Step::Prepare(n) | Step::Commit(n) | Step::Rollback(n) | Step::Direct(n) => {
                if n % 4 == 3 {
                    n - 2
                } else {
                    n - 1
                }
            }
        }
    }

    fn prepared(self) -> Option<u64> {
        match self.next() {
            Step::Commit(n) | Step::Rollback(n) => Some(n),
            Step::Prepare(_) | Step::Direct(_) => None,
        }
    }

    fn name(self, n: u64) -> String {
        format!("lane{}-{n}", self.number)
    }

    fn key(self, n: u64) -> Vec<u8> {
        format!("key{}-{n:08}", self.number).into_bytes()
    }

    fn last_key(self) -> Vec<u8> {
        format!("last{}", self.number).into_bytes()
    }

    fn value(self, n: u64) -> Vec<u8> {
        let mut value = vec![0; 200 + (n % 7) as usize * 300];
        fastrand::Rng::with_seed((self.number as u64) << 40 | n).fill(&mut value);
        value
    }

    /// The expected value under key `n`.
    fn expected(self, n: u64) -> Option<Vec<u8>> {
        let is_committed = |n: u64| n > 0 && n <= self.last() && n % 4 != 2;
        let is_there = is_committed(n) && !is_committed(n + KEPT) && !is_committed(n + KEPT + 1);
        is_there.then(|| self.value(n))
    }

    /// The writes of transaction `n`.
    fn writes(self, n: u64) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let mut writes =
            vec![(self.key(n), Some(self.value(n))), (self.last_key(), Some(n.to_string().into_bytes()))];
        writes.extend((n - n.min(KEPT + 1)..=n - n.min(KEPT)).map(|old| (self.key(old), None)));
        writes
    }
}

/// An engine with its database and the transactions that are prepared in it.
trait PeerEngine {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>>;
    /// The names of prepared transactions, sorted.
    fn prepared(&self) -> Vec<String>;
    fn step(&mut self, lane: Lane);
}

struct Esker {
    db: TransactionDb,
    prepared: BTreeMap<String, Transaction>,
}

impl Esker {
    fn open(dir: &Path) -> TransactionDb {
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.cf.write_buffer_size = 64 << 10;
        TransactionDb::open(&options, &TransactionDbOptions::default(), dir).expect("opens")
    }

    fn of(db: TransactionDb) -> Esker {
        let name = |txn: &Transaction| String::from_utf8(txn.name().expect("it has one").to_vec());
        let prepared = db.get_all_prepared_transactions().into_iter();
        let prepared = prepared.map(|txn| (name(&txn).expect("text"), txn)).collect();
        Esker { db, prepared }
    }

    fn written(&self, lane: Lane, n: u64) -> Transaction {
        let txn = self.db.begin_transaction();
        let family = self.db.db().default_column_family();
        for (key, value) in lane.writes(n) {
            match value {
                Some(value) => txn.put_cf(&family, key, value),
                None => txn.delete_cf(&family, key),
            }
            .expect("nobody else has it");
        }
        txn
    }
}

impl PeerEngine for Esker {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.db.db().get(key).expect("read")
    }
    fn prepared(&self) -> Vec<String> {
        self.prepared.keys().cloned().collect()
    }
    fn step(&mut self, lane: Lane) {
        match lane.next() {
            Step::Prepare(n) => {
                let txn = self.written(lane, n);
                txn.set_name(lane.name(n).as_bytes()).expect("a new name");
                txn.prepare().expect("prepared");
                self.prepared.insert(lane.name(n), txn);
            }
            Step::Direct(n) => self.written(lane, n).commit().expect("committed"),
            Step::Commit(n) => {
                self.prepared.remove(&lane.name(n)).expect("prepared").commit().expect("committed");
            }
            Step::Rollback(n) => {
                self.prepared.remove(&lane.name(n)).expect("prepared").rollback().expect("rolled back");
            }
        }
    }
}

struct Rocks<'a> {
    db: &'a RocksTransactionDb,
    prepared: BTreeMap<String, RocksTransaction<'a>>,
}

impl<'a> Rocks<'a> {
    fn open(dir: &Path) -> RocksTransactionDb {
        let options = "create_if_missing=true;write_buffer_size=65536;";
        RocksTransactionDb::open(dir, options, RocksWritePolicy::Committed).expect("opens")
    }

    fn of(db: &RocksTransactionDb) -> Rocks<'_> {
        Rocks { db, prepared: db.prepared().into_iter().collect() }
    }

    fn written(&self, lane: Lane, n: u64) -> RocksTransaction<'a> {
        let txn = self.db.begin(&lane.name(n)).expect("begun");
        for (key, value) in lane.writes(n) {
            match value {
                Some(value) => txn.put(&key, &value),
                None => txn.delete(&key),
            }
            .expect("nobody else has it");
        }
        txn
    }
}

impl PeerEngine for Rocks<'_> {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.db.get(key).expect("read")
    }
    fn prepared(&self) -> Vec<String> {
        self.prepared.keys().cloned().collect()
    }
    fn step(&mut self, lane: Lane) {
        match lane.next() {
            Step::Prepare(n) => {
                let txn = self.written(lane, n);
                txn.prepare().expect("prepared");
                self.prepared.insert(lane.name(n), txn);
            }
            Step::Direct(n) => self.written(lane, n).commit().expect("committed"),
            Step::Commit(n) => {
                self.prepared.remove(&lane.name(n)).expect("prepared").commit().expect("committed");
            }
            Step::Rollback(n) => {
                self.prepared.remove(&lane.name(n)).expect("prepared").rollback().expect("rolled back");
            }
        }
    }
}

/// Takes steps of random lanes and reports each, until the process is killed.
fn walk(engine: &mut dyn PeerEngine, lanes: &mut [Lane], mut rng: fastrand::Rng) {
    loop {
        let sum: u32 = lanes.iter().map(|lane| PACE[lane.number]).sum();
        let mut at = rng.u32(..sum);
        let lane = lanes.iter_mut().find(|lane| {
            let pace = PACE[lane.number];
            let is_it = at < pace;
            at = at.saturating_sub(pace);
            is_it
        });
        let lane = lane.expect("below the sum");
        engine.step(*lane);
        lane.steps += 1;
        let line = format!("lane {} {}\n", lane.number, lane.steps);
        std::io::stdout().lock().write_all(line.as_bytes()).expect("the parent reads");
    }
}

/// The work of the child process; not a test of its own.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let steps = std::env::var(STEPS).expect("with the directory");
    let number = |steps: &str| steps.parse().expect("a number");
    let lanes = steps.split(',').enumerate().map(|(i, steps)| Lane { number: i, steps: number(steps) });
    let mut lanes: Vec<Lane> = lanes.collect();
    let mut rng = fastrand::Rng::new();
    // On one core the test harness has printed this test's name and not yet ended the line.
    println!();
    if std::env::var(ENGINE).as_deref() == Ok("rocksdb") {
        let db = Rocks::open(&dir);
        return walk(&mut Rocks::of(&db), &mut lanes, rng);
    }
    let db = Esker::open(&dir);
    let mut prepared = Esker::of(db.clone()).prepared;
    std::thread::scope(|scope| {
        let mut halves: [Vec<Lane>; 2] = Default::default();
        lanes.iter().for_each(|lane| halves[lane.number % 2].push(*lane));
        for mut half in halves {
            let is_its =
                |name: &String| half.iter().any(|l| l.prepared().map(|n| l.name(n)).as_ref() == Some(name));
            let own = prepared.extract_if(.., |name, _| is_its(name)).collect();
            let mut engine = Esker { db: db.clone(), prepared: own };
            let rng = rng.fork();
            scope.spawn(move || walk(&mut engine, &mut half, rng));
        }
    });
}

/// Runs a child and kills it once it has printed `lines` lines. Updates `lanes` from its reports.
fn walk_and_kill(dir: &Path, engine: &str, lanes: &mut [Lane], lines: usize) {
    let steps: Vec<String> = lanes.iter().map(|lane| lane.steps.to_string()).collect();
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "killed_transactions::child", "--nocapture"])
        .env(DIRECTORY, dir)
        .env(ENGINE, engine)
        .env(STEPS, steps.join(","))
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let (mut said, mut killed) = (0, false);
    for line in BufReader::new(child.stdout.take().expect("piped")).lines() {
        let line = line.expect("text");
        let Some((lane, steps)) = line.strip_prefix("lane ").and_then(|rest| rest.split_once(' ')) else {
            continue;
        };
        lanes[lane.parse::<usize>().expect("a number")].steps = steps.parse().expect("a number");
        said += 1;
        if said >= lines && !killed {
            child.kill().expect("killed");
            killed = true;
        }
    }
    let status = child.wait().expect("waited for");
    assert!(killed, "the child ended by itself: {status}");
}

/// Compares the database with the reports, finds out which lanes are a step further, and resolves
/// some prepared transactions.
fn check(engine: &mut dyn PeerEngine, lanes: &mut [Lane], rng: &mut fastrand::Rng, when: &str) {
    let prepared = engine.prepared();
    for lane in lanes.iter_mut() {
        let last = engine
            .get(&lane.last_key())
            .map_or(0, |last| String::from_utf8(last).expect("text").parse::<u64>().expect("a number"));
        let own = format!("lane{}-", lane.number);
        let own: Vec<&String> = prepared.iter().filter(|name| name.starts_with(&own)).collect();
        let is_so = |lane: Lane| {
            let name = lane.prepared().map(|n| lane.name(n));
            lane.last() == last && own == name.iter().collect::<Vec<_>>()
        };
        let further = Lane { steps: lane.steps + 1, ..*lane };
        let found = [*lane, further].into_iter().find(|lane| is_so(*lane));
        *lane = found.unwrap_or_else(|| panic!("{when}: {lane:?} said, found {last} committed and {own:?}"));
        for n in last.saturating_sub(30)..last + 3 {
            assert!(engine.get(&lane.key(n)) == lane.expected(n), "{when}: {lane:?}, key {n}");
        }
    }
    let known = lanes.iter().filter(|lane| lane.prepared().is_some()).count();
    assert_eq!(prepared.len(), known, "{when}: {prepared:?}");
    for lane in lanes.iter_mut().filter(|lane| lane.prepared().is_some()) {
        if rng.u8(..4) == 0 {
            engine.step(*lane);
            lane.steps += 1;
        }
    }
}

#[test]
fn prepared_transactions_survive_kills_from_hand_to_hand() {
    let with_rocksdb = require("librocksdb 11.8", RocksDb::available()).is_some();
    let rounds = std::env::var("ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(8);
    let mut rng = seed::rng("peer::killed_transactions");
    let dir = TempDir::new("killed-transactions");
    let mut lanes: Vec<Lane> = (0..LANES).map(|number| Lane { number, steps: 0 }).collect();
    let mut inherited = 0;
    for round in 0..rounds {
        let engines: [&str; 2] =
            std::array::from_fn(|_| if with_rocksdb && rng.bool() { "rocksdb" } else { "esker" });
        walk_and_kill(dir.path(), engines[0], &mut lanes, rng.usize(1..1500));
        let when = format!("round {round}, {} killed, {} looks", engines[0], engines[1]);
        if engines[1] == "rocksdb" {
            let db = Rocks::open(dir.path());
            check(&mut Rocks::of(&db), &mut lanes, &mut rng, &when);
        } else {
            check(&mut Esker::of(Esker::open(dir.path())), &mut lanes, &mut rng, &when);
        }
        inherited += lanes.iter().filter(|lane| lane.prepared().is_some()).count();
    }
    let steps: u64 = lanes.iter().map(|lane| lane.steps).sum();
    println!("{rounds} kills, {steps} steps, {inherited} times a prepared transaction was handed on");
    assert!(steps > 0);
}
