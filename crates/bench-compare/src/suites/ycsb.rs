//! YCSB's six core workloads, in the order that its authors recommend: load, A, B, C, F, D, E.
//!
//! * A: half updates. B: a twentieth updates. C: reads only.
//! * D: reads of the latest records, and a twentieth insertions.
//! * E: scans of 1 to 100 rows, and a twentieth insertions. F: half read-modify-write.
//!
//! Records are 1000 bytes (ten fields of a hundred, stored as one value). Requests follow the
//! scrambled Zipfian distribution (`crate::zipf`); those of D follow the latest distribution.
//! Source: Cooper et al., "Benchmarking Cloud Serving Systems with YCSB" (SoCC 2010);
//! `workloads/workload{a..f}` of YCSB 0.17.

use super::Suite;
use crate::bench::{Bench, BenchPlan, StepInfo, load};
use crate::engine::{Abilities, Durability, From, RivalCursor, RivalEngine, RivalResult};
use crate::keys::{Digest, KEY_BYTES, RivalValues, key};
use crate::measure::{Deadline, Sample};
use crate::zipf::{Latest, Scrambled, fnv64};
use fastrand::Rng;

/// The set of YCSB's workloads.
pub(crate) struct Ycsb;

/// The workloads by their letters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum YcsbStep {
    A,
    B,
    C,
    D,
    E,
    F,
}

/// Ten fields of a hundred bytes.
const RECORD_BYTES: usize = 1000;
const SEED: u64 = 901;
/// Rows of the longest scan.
const LONGEST_SCAN: u64 = 100;

const LIMIT: &str =
    "1 kB a record: about 0.1 µs to copy; reads 4–6 dependent cache misses, writes a log record";

fn records(plan: &BenchPlan) -> u64 {
    plan.num / 4
}

impl Suite for Ycsb {
    type Step = YcsbStep;

    fn steps(_plan: &BenchPlan) -> Vec<(StepInfo, YcsbStep)> {
        let step = |step, letter: &str, title: &str| {
            let name = format!("ycsb/{letter}");
            let title = format!("{}: {title}", letter.to_uppercase());
            (StepInfo::new(name, title, "operation", LIMIT), step)
        };
        vec![
            step(YcsbStep::A, "a", "50% reads, 50% updates"),
            step(YcsbStep::B, "b", "95% reads, 5% updates"),
            step(YcsbStep::C, "c", "reads only"),
            step(YcsbStep::F, "f", "50% reads, 50% read-modify-write"),
            step(YcsbStep::D, "d", "95% reads of the latest, 5% insertions"),
            step(YcsbStep::E, "e", "95% scans, 5% insertions"),
        ]
    }

    fn missing(_step: &YcsbStep, _abilities: &Abilities) -> Option<&'static str> {
        None
    }

    fn prepares(_step: &YcsbStep) -> bool {
        true
    }

    fn run<E: RivalEngine>(bench: &mut Bench<E>, step: &YcsbStep) -> RivalResult<Sample> {
        let count = records(&bench.plan);
        if !bench.is_open() {
            bench.fresh_as_planned()?;
            load(bench.db(), count, SEED, RECORD_BYTES, fnv64)?;
            bench.db().settle()?;
        }
        let step = *step;
        bench.measure(|db, deadline| Client::new(step, count).run(db, deadline, count))
    }
}

/// The operation on a drawn record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operation {
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

impl YcsbStep {
    /// The operation for a random number in 0..100.
    fn operation(self, percent: u32) -> Operation {
        let (limit, below, above) = match self {
            YcsbStep::A => (50, Operation::Read, Operation::Update),
            YcsbStep::B => (95, Operation::Read, Operation::Update),
            YcsbStep::C => (100, Operation::Read, Operation::Read),
            YcsbStep::D => (95, Operation::Read, Operation::Insert),
            YcsbStep::E => (95, Operation::Scan, Operation::Insert),
            YcsbStep::F => (50, Operation::Read, Operation::ReadModifyWrite),
        };
        if percent < limit { below } else { above }
    }
}

/// A client and its state.
struct Client {
    step: YcsbStep,
    random: Rng,
    scrambled: Scrambled,
    latest: Latest,
    /// The number of records. D and E insert from the same number on, so E overwrites the records
    /// of D.
    records: u64,
    values: RivalValues,
    digest: Digest,
    user_bytes: u64,
}

impl Client {
    fn new(step: YcsbStep, records: u64) -> Client {
        Client {
            step,
            random: Rng::with_seed(SEED + 1 + step as u64),
            scrambled: Scrambled::new(records),
            latest: Latest::new(records),
            records,
            values: RivalValues::new(SEED + 1),
            digest: Digest::default(),
            user_bytes: 0,
        }
    }

    fn run<E: RivalEngine>(mut self, db: &E, deadline: Deadline, count: u64) -> RivalResult<Sample> {
        let done = deadline.repeat(count, |_| self.next(db))?;
        Ok(Sample {
            operations: done,
            user_bytes: self.user_bytes,
            digest: self.digest.0,
            cut: done < count,
            ..Sample::default()
        })
    }

    fn record(&mut self) -> u64 {
        match self.step {
            YcsbStep::D => self.latest.next(&mut self.random, self.records),
            _ => self.scrambled.next(&mut self.random),
        }
    }

    fn next<E: RivalEngine>(&mut self, db: &E) -> RivalResult<()> {
        match self.step.operation(self.random.u32(..100)) {
            Operation::Insert => {
                self.records += 1;
                self.put(db, self.records - 1)
            }
            Operation::Read => {
                let record = self.record();
                self.read(db, record)
            }
            Operation::Update => {
                let record = self.record();
                self.put(db, record)
            }
            Operation::ReadModifyWrite => {
                let record = self.record();
                self.read(db, record)?;
                self.put(db, record)
            }
            Operation::Scan => {
                let record = self.record();
                let rows =
                    usize::try_from(self.random.u64(1..=LONGEST_SCAN)).expect("a scan has at most 100 rows");
                let (start, digest) = (key(fnv64(record)), &mut self.digest);
                db.with_cursor(false, |cursor| {
                    cursor.scan(From::Key(&start), rows, &mut |_, value| digest.add(value)).map(drop)
                })
            }
        }
    }

    fn read<E: RivalEngine>(&mut self, db: &E, record: u64) -> RivalResult<()> {
        let digest = &mut self.digest;
        if db.get(&key(fnv64(record)), &mut |value| digest.add(value))? {
            Ok(())
        } else {
            Err(format!("record {record} is not there"))
        }
    }

    fn put<E: RivalEngine>(&mut self, db: &E, record: u64) -> RivalResult<()> {
        self.user_bytes += (KEY_BYTES + RECORD_BYTES) as u64;
        db.put(&key(fnv64(record)), self.values.next(RECORD_BYTES), Durability::Wal)
    }
}
