//! The threads of a run: their operations, and the values that they may find.
//!
//! In: an open database, and its expected values. Out: nothing, or the first wrong answer, in
//! `Run::wrong`.
//!
//! Invariants
//!  1. A thread that changes a key holds its lock from before the change is announced until it is
//!     settled.
//!  2. Readers without the lock take the expected states before and after the read, and accept
//!     every state between them.

mod maintain;
mod read;
mod write;

use super::expected::{ExpectedSlot, allows};
use super::{Run, StressKind};
use esker::internals::base::sync::RwLock;
use esker::internals::base::sync::atomic::Ordering;
use esker::internals::env::on_threads;
use esker::{ColumnFamilyHandle, Db, Error, Snapshot};
use std::collections::VecDeque;

/// Runs the threads of one phase until each has done `operations`, or an answer is wrong.
pub(super) fn work(run: &Run<'_>, db: &Db, phase: u64, operations: u64) {
    let families: Vec<_> = run.setup.families.iter().map(|_| RwLock::new(())).collect();
    let started = on_threads("db_stress", run.flags.threads as usize, |thread| {
        let thread = u32::try_from(thread).expect("a number of a thread");
        let seed = run.flags.seed.wrapping_mul(1_000_003) ^ phase << 40 ^ u64::from(thread);
        let (families, rng) = (&families[..], fastrand::Rng::with_seed(seed));
        let mut worker = Worker { run, db, families, rng, thread, done: 0, snapshots: VecDeque::new() };
        if let Err(why) = worker.run(operations) {
            run.fail(format!("thread {thread}, operation {}: {why}", worker.done));
        }
    });
    if let Err(e) = started {
        run.fail(e.to_string());
    }
}

/// One thread.
struct Worker<'a> {
    run: &'a Run<'a>,
    db: &'a Db,
    /// One lock for each family. A thread that drops the family and makes it again holds the lock
    /// alone; other threads share it.
    families: &'a [RwLock<()>],
    rng: fastrand::Rng,
    thread: u32,
    done: u64,
    snapshots: VecDeque<HeldSnapshot>,
}

/// A snapshot, and the state of one key when the snapshot was taken.
struct HeldSnapshot {
    snapshot: Snapshot,
    family: usize,
    /// The family's number, since the family may have been made again.
    id: esker::ColumnFamilyId,
    key: u32,
    value: Option<u32>,
    until: u64,
}

type Outcome = Result<(), String>;

impl Worker<'_> {
    fn run(&mut self, operations: u64) -> Outcome {
        while self.done < operations && !self.run.stop.load(Ordering::SeqCst) {
            self.step()?;
            self.done += 1;
        }
        self.snapshots.clear();
        Ok(())
    }

    fn step(&mut self) -> Outcome {
        let number = self.rng.usize(..self.families.len());
        if self.one_in(self.run.flags.clear_column_family_one_in) && number > 0 {
            return self.clear_family(number);
        }
        let families = self.families;
        let _shared = families[number].read();
        let Some(family) = self.db.column_family(&self.run.setup.families[number]) else {
            return self.gone();
        };
        self.maintain(number, &family)?;
        let flags = self.run.flags;
        let roll = self.rng.u32(..100);
        let mut below = 0;
        let mut is = |percent: u32| {
            below += percent;
            roll < below
        };
        if is(flags.writepercent) {
            self.write(number, &family)
        } else if is(flags.delpercent) {
            self.delete(number, &family)
        } else if is(flags.delrangepercent) {
            self.delete_range(number, &family)
        } else if is(flags.prefixpercent) {
            self.scan(number, &family)
        } else if is(flags.iterpercent) {
            self.move_about(number, &family)
        } else {
            self.read(number, &family)
        }
    }

    /// Handles a missing family. A family may be missing if a fault prevented its creation after a
    /// drop; the phase then ends.
    fn gone(&self) -> Outcome {
        if self.run.stop.load(Ordering::SeqCst) { Ok(()) } else { Err("a family is gone".to_owned()) }
    }

    fn one_in(&mut self, n: u32) -> bool {
        n > 0 && self.rng.u32(..n) == 0
    }

    fn key(&mut self) -> u32 {
        // Some keys are hotter than others.
        let max = self.run.flags.max_key;
        if self.rng.u8(..4) == 0 { self.rng.u32(..max.div_ceil(50)) } else { self.rng.u32(..max) }
    }

    /// Whether the key is put once and then deleted by a single deletion.
    fn is_put_once(&self, key: u32) -> bool {
        key % 100 < self.run.flags.nooverwritepercent
    }

    fn place(&self, family: usize, key: u32) -> ExpectedSlot {
        self.run.expected.place(family, key)
    }

    /// Accepts an error if a fault was injected.
    fn excuse(&self, what: &str, error: &Error) -> Outcome {
        if self.run.setup.faults() == 0 {
            return Err(format!("{what}: {error}"));
        }
        self.run.report.count(StressKind::Failed, 1);
        Ok(())
    }

    /// Handles a failed write. Clears the background error; the value that the database then shows
    /// is the key's state.
    fn recover(
        &mut self,
        family: &ColumnFamilyHandle,
        number: usize,
        keys: &[u32],
        error: &Error,
    ) -> Outcome {
        self.excuse("a write", error)?;
        if !self.resume()? {
            return Ok(());
        }
        for key in keys {
            let place = self.place(number, *key);
            let found = self.found(family, number, *key);
            match found {
                Ok(found) if self.run.expected.settle(place, found) => {}
                Ok(found) => {
                    let seen = self.run.expected.seen(place);
                    return Err(format!("after {error}: key {key} is {found:?}, expected {seen:?}"));
                }
                Err(_) => {
                    // The change of the key stays open: the next opening settles it.
                    self.run.stop.store(true, Ordering::SeqCst);
                }
            }
        }
        Ok(())
    }

    /// Reads a key and returns the number in its value.
    fn found(&self, family: &ColumnFamilyHandle, number: usize, key: u32) -> Result<Option<u32>, Error> {
        let value = self.db.get_cf(family, self.run.setup.key(key))?;
        let number = value.map(|value| self.run.setup.number_of(number, key, &value)).transpose();
        number.map_err(Error::corruption)
    }

    /// Clears the background error, if there is one. `false` if the database must be opened again.
    fn resume(&mut self) -> Result<bool, String> {
        let _one = self.run.resuming.lock();
        self.run.setup.end_faults();
        for _ in 0..5 {
            if self.db.background_error().is_none() {
                self.run.setup.add_faults(self.run.flags, &mut self.rng);
                return Ok(true);
            }
            if self.db.resume().is_ok() {
                self.run.report.count(StressKind::Resumed, 1);
            }
        }
        self.run.stop.store(true, Ordering::SeqCst);
        Ok(false)
    }

    /// Checks the value that a read without the lock found.
    fn compare(
        &self,
        family: usize,
        key: u32,
        (before, after): (super::expected::KeyKnowledge, super::expected::KeyKnowledge),
        found: Option<&[u8]>,
        how: &str,
    ) -> Outcome {
        let found = found.map(|value| self.run.setup.number_of(family, key, value)).transpose()?;
        if allows(before, after, found) {
            return Ok(());
        }
        let name = &self.run.setup.families[family];
        Err(format!("{name}, key {key}: {how} finds {found:?}, expected {before:?} to {after:?}"))
    }
}
