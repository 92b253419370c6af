//! Isolation levels: Hermitage's anomalies by name, and random histories that are searched for
//! cycles.
//!
//! Everything runs in one thread, one operation after the other. A transaction that would have to
//! wait fails. Source of the scripts: Hermitage (Martin Kleppmann), of the cycles: Adya, "Weak
//! Consistency", 1999.

use super::options;
use esker::{
    IsolationLevel, OptimisticTransaction, OptimisticTransactionDb, OptimisticTransactionOptions,
    ReadOptions, Result, Transaction, TransactionDb, TransactionDbOptions, TransactionOptions, WriteOptions,
};
use std::collections::{BTreeMap, BTreeSet};

const LEVELS: [IsolationLevel; 3] =
    [IsolationLevel::ReadCommitted, IsolationLevel::Snapshot, IsolationLevel::Serializable];

enum Engine {
    Locks(TransactionDb),
    AtCommit(OptimisticTransactionDb),
}

enum Txn {
    Locks(Transaction),
    AtCommit(Box<OptimisticTransaction>),
}

impl Engine {
    fn both() -> [Engine; 2] {
        [
            Engine::Locks(TransactionDb::open(&options(), &TransactionDbOptions::default(), "/db").unwrap()),
            Engine::AtCommit(OptimisticTransactionDb::open(&options(), "/db").unwrap()),
        ]
    }

    fn db(&self) -> &esker::Db {
        match self {
            Engine::Locks(db) => db.db(),
            Engine::AtCommit(db) => db.db(),
        }
    }

    fn begin(&self, isolation: IsolationLevel) -> Txn {
        let write_options = WriteOptions::default();
        match self {
            Engine::Locks(db) => {
                let options = TransactionOptions { isolation, lock_timeout: 0, ..Default::default() };
                Txn::Locks(db.begin_transaction_opt(&write_options, &options))
            }
            Engine::AtCommit(db) => {
                let options = OptimisticTransactionOptions { isolation, ..Default::default() };
                Txn::AtCommit(Box::new(db.begin_transaction_opt(&write_options, &options)))
            }
        }
    }
}

fn text(value: Option<Vec<u8>>) -> String {
    String::from_utf8(value.unwrap_or_default()).unwrap()
}

impl Txn {
    fn get(&mut self, key: &str) -> Result<String> {
        Ok(text(match self {
            Txn::Locks(txn) => txn.get(key)?,
            Txn::AtCommit(txn) => txn.get(key)?,
        }))
    }

    fn get_for_update(&mut self, key: &str) -> Result<String> {
        Ok(text(match self {
            Txn::Locks(txn) => txn.get_for_update(key)?,
            Txn::AtCommit(txn) => txn.get_for_update(key)?,
        }))
    }

    fn put(&mut self, key: &str, value: &str) -> Result<()> {
        match self {
            Txn::Locks(txn) => txn.put(key, value),
            Txn::AtCommit(txn) => txn.put(key, value),
        }
    }

    /// Keys and values from `from` up to `to`.
    fn scan(&mut self, db: &esker::Db, from: &str, to: &str) -> Result<Vec<(String, String)>> {
        let bounds = ReadOptions::new().lower_bound(from).upper_bound(to);
        let family = db.default_column_family();
        let mut iter = match self {
            Txn::Locks(txn) => txn.iter_opt(&bounds, &family)?,
            Txn::AtCommit(txn) => txn.iter_opt(&bounds, &family)?,
        };
        let mut found = Vec::new();
        iter.seek_to_first();
        while let Some((key, value)) = iter.item() {
            found.push((text(Some(key.to_vec())), text(Some(value.to_vec()))));
            iter.next();
        }
        iter.status()?;
        Ok(found)
    }

    fn commit(&mut self) -> Result<()> {
        match self {
            Txn::Locks(txn) => txn.commit(),
            Txn::AtCommit(txn) => txn.commit(),
        }
    }

    fn rollback(&mut self) -> Result<()> {
        match self {
            Txn::Locks(txn) => txn.rollback(),
            Txn::AtCommit(txn) => txn.rollback(),
        }
    }

    fn set_save_point(&mut self) {
        match self {
            Txn::Locks(txn) => txn.set_save_point(),
            Txn::AtCommit(txn) => txn.set_save_point(),
        }
    }

    fn rollback_to_save_point(&mut self) -> Result<()> {
        match self {
            Txn::Locks(txn) => txn.rollback_to_save_point(),
            Txn::AtCommit(txn) => txn.rollback_to_save_point(),
        }
    }
}

/// A script that returns whether the anomaly was seen; an error means that it was prevented.
type Script = fn(&Engine, IsolationLevel) -> Result<bool>;

/// Runs `script` with both kinds of transactions at all levels; `allowed` are the levels at which
/// the anomaly happens.
fn check(script: Script, allowed: &[IsolationLevel]) {
    for level in LEVELS {
        for engine in Engine::both() {
            engine.db().put("1", "10").unwrap();
            engine.db().put("2", "20").unwrap();
            let seen = script(&engine, level).unwrap_or(false);
            let kind = if matches!(engine, Engine::Locks(_)) { "locks" } else { "at commit" };
            assert_eq!(seen, allowed.contains(&level), "{level:?}, {kind}");
        }
    }
}

const READ_COMMITTED: &[IsolationLevel] = &[IsolationLevel::ReadCommitted];
const NOT_SERIALIZABLE: &[IsolationLevel] = &[IsolationLevel::ReadCommitted, IsolationLevel::Snapshot];

#[test]
fn g0_writes_of_two_transactions_are_never_mixed() {
    check(
        |engine, level| {
            let (mut t1, mut t2) = (engine.begin(level), engine.begin(level));
            t1.put("1", "11")?;
            let blocked = t2.put("1", "12").is_err();
            t1.put("2", "21")?;
            t1.commit()?;
            if !blocked && t2.put("2", "22").is_ok() {
                drop(t2.commit());
            }
            let found = ["1", "2"].map(|key| text(engine.db().get(key).unwrap()));
            Ok(found != ["11", "21"] && found != ["12", "22"])
        },
        &[],
    );
}

#[test]
fn g1a_rolled_back_writes_are_never_seen() {
    check(
        |engine, level| {
            let (mut t1, mut t2) = (engine.begin(level), engine.begin(level));
            t1.put("1", "101")?;
            let before = t2.get("1")?;
            t1.rollback()?;
            Ok(before == "101" || t2.get("1")? == "101")
        },
        &[],
    );
}

#[test]
fn g1b_writes_overwritten_before_the_commit_are_never_seen() {
    check(
        |engine, level| {
            let (mut t1, mut t2) = (engine.begin(level), engine.begin(level));
            t1.put("1", "101")?;
            let before = t2.get("1")?;
            t1.put("1", "11")?;
            t1.commit()?;
            Ok(before == "101" || t2.get("1")? == "101")
        },
        &[],
    );
}

#[test]
fn g1c_two_transactions_do_not_see_each_other() {
    check(
        |engine, level| {
            let (mut t1, mut t2) = (engine.begin(level), engine.begin(level));
            t1.put("1", "11")?;
            t2.put("2", "22")?;
            let seen = (t1.get("2")?, t2.get("1")?);
            t1.commit()?;
            t2.commit()?;
            Ok(seen == ("22".to_owned(), "11".to_owned()))
        },
        &[],
    );
}

#[test]
fn otv_a_transaction_that_was_seen_does_not_vanish() {
    check(
        |engine, level| {
            let (mut t1, mut t2, mut t3) = (engine.begin(level), engine.begin(level), engine.begin(level));
            t1.put("1", "11")?;
            t1.put("2", "19")?;
            t1.commit()?;
            t2.put("1", "12")?;
            let first = t3.get("1")?;
            t2.put("2", "18")?;
            let second = t3.get("2")?;
            t2.commit()?;
            Ok((first == "12") != (second == "18") || (t3.get("2")? == "18") != (t3.get("1")? == "12"))
        },
        &[],
    );
}

#[test]
fn pmp_a_scan_repeated_finds_what_it_found() {
    check(
        |engine, level| {
            let (mut t1, mut t2) = (engine.begin(level), engine.begin(level));
            let before = t1.scan(engine.db(), "0", "9")?;
            t2.put("3", "30")?;
            t2.commit()?;
            Ok(t1.scan(engine.db(), "0", "9")? != before)
        },
        READ_COMMITTED,
    );
}

#[test]
fn p4_an_update_is_not_lost() {
    check(
        |engine, level| {
            let (mut t1, mut t2) = (engine.begin(level), engine.begin(level));
            t1.get("1")?;
            t2.get("1")?;
            t1.put("1", "11")?;
            t1.commit()?;
            t2.put("1", "12")?;
            t2.commit()?;
            Ok(true)
        },
        READ_COMMITTED,
    );
}

#[test]
fn p4_an_update_of_what_was_read_for_update_is_not_lost() {
    check(
        |engine, level| {
            let (mut t1, mut t2) = (engine.begin(level), engine.begin(level));
            t1.get_for_update("1")?;
            t2.get_for_update("1")?;
            t1.put("1", "11")?;
            t1.commit()?;
            t2.put("1", "12")?;
            t2.commit()?;
            Ok(true)
        },
        &[],
    );
}

#[test]
fn g_single_two_reads_are_of_one_state() {
    check(
        |engine, level| {
            let (mut t1, mut t2) = (engine.begin(level), engine.begin(level));
            let first = t1.get("1")?;
            t2.put("1", "12")?;
            t2.put("2", "18")?;
            t2.commit()?;
            Ok(first == "10" && t1.get("2")? == "18")
        },
        READ_COMMITTED,
    );
}

#[test]
fn g2_item_write_skew_is_refused_where_serializable() {
    check(
        |engine, level| {
            let (mut t1, mut t2) = (engine.begin(level), engine.begin(level));
            for txn in [&mut t1, &mut t2] {
                txn.get("1")?;
                txn.get("2")?;
            }
            t1.put("1", "11")?;
            t2.put("2", "21")?;
            t1.commit()?;
            t2.commit()?;
            Ok(true)
        },
        NOT_SERIALIZABLE,
    );
}

#[test]
fn a_transaction_that_is_used_again_after_a_rollback_reads_one_state() {
    let script: Script = |engine, level| {
        let (mut t1, mut t2) = (engine.begin(level), engine.begin(level));
        t1.get("1")?;
        t1.rollback()?;
        let one = t1.get("1")?;
        t2.put("1", "12")?;
        t2.put("2", "18")?;
        t2.commit()?;
        let two = t1.get("2")?;
        t1.commit()?;
        Ok((&*one, &*two) == ("10", "18"))
    };
    check(script, READ_COMMITTED);
}

#[test]
fn a_transaction_that_is_used_again_after_a_rollback_loses_no_update() {
    let script: Script = |engine, level| {
        let (mut t1, mut t2) = (engine.begin(level), engine.begin(level));
        t1.rollback()?;
        t1.get("1")?;
        t2.put("1", "11")?;
        t2.commit()?;
        t1.put("1", "12")?;
        t1.commit()?;
        Ok(true)
    };
    check(script, READ_COMMITTED);
}

#[test]
fn reads_before_a_rollback_to_a_save_point_still_count() {
    let script: Script = |engine, level| {
        let (mut t1, mut t2) = (engine.begin(level), engine.begin(level));
        t1.set_save_point();
        let one = t1.get("1")?;
        t1.rollback_to_save_point()?;
        t2.put("1", "12")?;
        t2.put("2", "18")?;
        t2.commit()?;
        let two = t1.get("2")?;
        t1.put("3", "sum")?;
        t1.commit()?;
        Ok((&*one, &*two) == ("10", "18"))
    };
    check(script, READ_COMMITTED);
    let script: Script = |engine, level| {
        let (mut t1, mut t2) = (engine.begin(level), engine.begin(level));
        t1.set_save_point();
        t1.get("2")?;
        t1.scan(engine.db(), "2", "3")?;
        t1.rollback_to_save_point()?;
        t2.get("1")?;
        t2.put("2", "21")?;
        t2.commit()?;
        t1.put("1", "11")?;
        t1.commit()?;
        Ok(true)
    };
    check(script, NOT_SERIALIZABLE);
}

#[test]
fn g2_write_skew_over_scans_is_refused_where_serializable() {
    check(
        |engine, level| {
            let (mut t1, mut t2) = (engine.begin(level), engine.begin(level));
            t1.scan(engine.db(), "0", "9")?;
            t2.scan(engine.db(), "0", "9")?;
            t1.put("3", "30")?;
            t2.put("4", "42")?;
            t1.commit()?;
            t2.commit()?;
            Ok(true)
        },
        NOT_SERIALIZABLE,
    );
}

#[test]
fn g2_two_edges_a_reader_in_between_sees_a_state_that_was() {
    check(
        |engine, level| {
            let (mut t1, mut t2) = (engine.begin(level), engine.begin(level));
            t1.scan(engine.db(), "0", "9")?;
            t2.put("2", "25")?;
            t2.commit()?;
            let mut t3 = engine.begin(level);
            let seen = t3.scan(engine.db(), "0", "9")?;
            t3.commit()?;
            t1.put("1", "0")?;
            t1.commit()?;
            Ok(seen.iter().any(|(_, value)| value == "25"))
        },
        NOT_SERIALIZABLE,
    );
}

/// The writer of a version: a transaction, or `None`.
type Writer = Option<usize>;

/// The operations of a transaction in a random history.
#[derive(Default)]
struct Done {
    /// Versions of other transactions that it read, with their keys.
    reads: Vec<(String, Writer)>,
    writes: BTreeSet<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Edge {
    /// The second transaction read or overwrote a write of the first.
    Follows,
    /// The second transaction overwrote a version that the first had read.
    Overwrites,
}

struct History {
    running: BTreeMap<usize, (Txn, Done)>,
    committed: BTreeMap<usize, Done>,
    /// Writers of each key in the order of their commits.
    versions: BTreeMap<String, Vec<usize>>,
    next: usize,
}

const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];

impl History {
    /// Makes one random operation of a random transaction.
    fn step(&mut self, engine: &Engine, level: IsolationLevel, rng: &mut fastrand::Rng) {
        if self.running.len() < 4 && rng.u8(..4) == 0 {
            self.running.insert(self.next, (engine.begin(level), Done::default()));
            self.next += 1;
            return;
        }
        let Some(id) = rng.choice(self.running.keys().copied().collect::<Vec<_>>()) else { return };
        let (mut txn, mut done) = self.running.remove(&id).unwrap();
        let key = KEYS[rng.usize(..KEYS.len())];
        let mut note = |key: &str, value: &str| {
            if !done.writes.contains(key) {
                done.reads.push((key.to_owned(), value.parse().ok()));
            }
        };
        let went_on = match rng.u8(..10) {
            0..=3 => txn.get(key).map(|value| note(key, &value)),
            4 | 5 => {
                let (from, to) = if rng.bool() { ("a", "c") } else { ("b", "f") };
                txn.scan(engine.db(), from, to).map(|found| {
                    let found: BTreeMap<_, _> = found.into_iter().collect();
                    for key in KEYS.iter().filter(|key| (from..to).contains(*key)) {
                        note(key, found.get(*key).map_or("", |value| value));
                    }
                })
            }
            6 | 7 => txn.put(key, &id.to_string()).map(|()| {
                done.writes.insert(key.to_owned());
            }),
            8 => {
                if txn.commit().is_ok() {
                    for key in &done.writes {
                        self.versions.entry(key.clone()).or_default().push(id);
                    }
                    self.committed.insert(id, done);
                }
                return;
            }
            _ => return drop(txn.rollback()),
        };
        if went_on.is_ok() {
            self.running.insert(id, (txn, done));
        }
    }

    /// The order between transactions, and the reasons.
    fn edges(&self) -> BTreeSet<(usize, usize, Edge)> {
        let mut edges = BTreeSet::new();
        for writers in self.versions.values() {
            edges.extend(writers.windows(2).map(|pair| (pair[0], pair[1], Edge::Follows)));
        }
        for (reader, done) in &self.committed {
            for (key, writer) in &done.reads {
                let versions = self.versions.get(key).map_or(&[][..], Vec::as_slice);
                let place = match writer {
                    Some(writer) => {
                        let at = versions.iter().position(|w| w == writer);
                        edges.insert((*writer, *reader, Edge::Follows));
                        at.expect("only what is committed is seen") + 1
                    }
                    None => 0,
                };
                if let Some(next) = versions.get(place) {
                    edges.insert((*reader, *next, Edge::Overwrites));
                }
            }
        }
        edges.retain(|(from, to, _)| from != to);
        edges
    }

    /// Whether there is a cycle with at most `max_overwrites` edges of kind `Overwrites`.
    fn has_cycle(&self, max_overwrites: usize) -> bool {
        let mut next: BTreeMap<usize, Vec<(usize, Edge)>> = BTreeMap::new();
        for (from, to, edge) in self.edges() {
            next.entry(from).or_default().push((to, edge));
        }
        self.committed.keys().any(|start| {
            let mut seen = BTreeSet::new();
            let mut todo = vec![(*start, 0)];
            while let Some((at, overwrites)) = todo.pop() {
                for (to, edge) in next.get(&at).into_iter().flatten() {
                    let overwrites = overwrites + usize::from(*edge == Edge::Overwrites);
                    if overwrites > max_overwrites {
                        continue;
                    }
                    if to == start {
                        return true;
                    }
                    if seen.insert((*to, overwrites.min(2))) {
                        todo.push((*to, overwrites));
                    }
                }
            }
            false
        })
    }
}

#[test]
fn random_histories_have_no_cycle_that_their_level_forbids() {
    let mut cycles = BTreeMap::new();
    esker_testkit::seed::for_each_seed("histories", 150, |_, mut rng| {
        for level in LEVELS {
            for engine in Engine::both() {
                let mut history = History {
                    running: BTreeMap::new(),
                    committed: BTreeMap::new(),
                    versions: BTreeMap::new(),
                    next: 0,
                };
                for _ in 0..120 {
                    history.step(&engine, level, &mut rng);
                }
                let forbidden = match level {
                    IsolationLevel::ReadCommitted => 0,
                    IsolationLevel::Snapshot => 1,
                    IsolationLevel::Serializable => usize::MAX,
                };
                assert!(!history.has_cycle(forbidden), "{level:?}: {:?}", history.edges());
                *cycles.entry(format!("{level:?}")).or_insert(0) +=
                    usize::from(history.has_cycle(usize::MAX));
            }
        }
    });
    // The search must find the cycles that weaker levels allow.
    if std::env::var_os("SEED").is_none() {
        assert!(cycles["ReadCommitted"] > 10 && cycles["Snapshot"] > 0, "{cycles:?}");
        assert_eq!(cycles["Serializable"], 0);
    }
}
