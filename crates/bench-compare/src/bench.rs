//! One engine at work: fresh directories, timed steps.
//!
//! Invariants
//!  1. A fresh database is in a directory of its own that nothing was in.
//!  2. No step starts while background work of the step before is running.

use crate::engine::{Durability, Engine, Result, Settings};
use crate::keys::{KEY_BYTES, VALUE_BYTES, Values, key};
use crate::measure::{Deadline, Meter, Sample};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Sizes of a run; suites derive theirs from it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Keys of the core set; other sets scale with it.
    pub(crate) num: u64,
    /// When a step is cut, seconds.
    pub(crate) step_seconds: f64,
    /// For every engine.
    pub(crate) settings: Settings,
}

/// A step as the table shows it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct StepInfo {
    /// For the command line: `suite/step`.
    pub(crate) name: String,
    /// What it is, for people.
    pub(crate) title: String,
    /// What one operation is: `put`, `key`, `row`.
    pub(crate) unit: String,
    /// What no engine can avoid: bytes, cache misses, system calls.
    pub(crate) limit: String,
    /// Its rate counts the background work it causes.
    pub(crate) counts_settling: bool,
}

impl StepInfo {
    /// A step whose rate is that of the operations alone.
    pub(crate) fn new(name: String, title: impl Into<String>, unit: &str, limit: &str) -> StepInfo {
        let (title, unit, limit) = (title.into(), unit.to_owned(), limit.to_owned());
        StepInfo { name, title, unit, limit, counts_settling: false }
    }

    /// The same, background work included.
    pub(crate) fn counting_settling(self) -> StepInfo {
        StepInfo { counts_settling: true, ..self }
    }
}

/// An engine and its directory.
pub(crate) struct Bench<E> {
    pub(crate) plan: Plan,
    root: PathBuf,
    databases: u32,
    db: Option<E>,
}

impl<E: Engine> Bench<E> {
    /// Will work in `root`, which is empty.
    pub(crate) fn new(root: &Path, plan: Plan) -> Bench<E> {
        Bench { plan, root: root.to_owned(), databases: 0, db: None }
    }

    fn dir(&self) -> PathBuf {
        self.root.join(format!("{}", self.databases))
    }

    /// Closes and deletes what there is, and opens an empty database.
    pub(crate) fn fresh(&mut self, settings: &Settings) -> Result<()> {
        self.close()?;
        self.databases += 1;
        let dir = self.dir();
        std::fs::create_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        self.db = Some(E::open(&dir, settings)?);
        Ok(())
    }

    /// Closes and deletes what there is.
    pub(crate) fn close(&mut self) -> Result<()> {
        self.db = None;
        match std::fs::remove_dir_all(self.dir()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(format!("{}: {error}", self.dir().display()))
            }
            _ => Ok(()),
        }
    }

    /// The open database.
    pub(crate) fn db(&self) -> &E {
        self.db.as_ref().expect("a step that needs a database has opened one")
    }

    /// An empty database with the plan's settings.
    pub(crate) fn fresh_as_planned(&mut self) -> Result<()> {
        self.fresh(&self.plan.settings.clone())
    }

    /// Runs `work`, and measures it and the background work behind it.
    pub(crate) fn measure(
        &mut self,
        work: impl FnOnce(&mut E, Deadline) -> Result<Sample>,
    ) -> Result<Sample> {
        let dir = self.dir();
        let limit = Duration::from_secs_f64(self.plan.step_seconds);
        let db = self.db.as_mut().expect("a step that needs a database has opened one");
        let meter = Meter::start();
        let start = Instant::now();
        let mut sample = work(db, Deadline::after(limit))?;
        // Threads that must first be started measure themselves.
        if sample.seconds == 0.0 {
            sample.seconds = start.elapsed().as_secs_f64();
        }
        let end = Instant::now();
        db.settle()?;
        sample.settle_seconds = end.elapsed().as_secs_f64();
        meter.finish(&mut sample, &dir)?;
        Ok(sample)
    }
}

/// A sample of so many puts of the usual size.
pub(crate) fn puts(done: u64, count: u64) -> Sample {
    let user_bytes = done * (KEY_BYTES + VALUE_BYTES) as u64;
    Sample { operations: done, user_bytes, cut: done < count, ..Sample::default() }
}

/// A sample of so many reads.
pub(crate) fn reads(done: u64, count: u64, digest: u64) -> Sample {
    Sample { operations: done, cut: done < count, digest, ..Sample::default() }
}

/// Puts the keys that `number` gives, one by one. Gives how many.
pub(crate) fn fill<E: Engine>(
    db: &E,
    deadline: Deadline,
    count: u64,
    seed: u64,
    durability: Durability,
    mut number: impl FnMut(u64) -> u64,
) -> Result<u64> {
    let mut values = Values::new(seed);
    deadline.repeat(count, |i| db.put(&key(number(i)), values.next(VALUE_BYTES), durability))
}

/// Time enough for what is not measured.
pub(crate) fn unhurried() -> Deadline {
    Deadline::after(Duration::from_secs(24 * 60 * 60))
}

/// Runs `work` in `threads` threads at once, each with its number, and gives the seconds from when all were ready and
/// what each gave.
pub(crate) fn in_threads<T: Send>(
    threads: u64,
    work: impl Fn(u64) -> Result<T> + Sync,
) -> Result<(f64, Vec<T>)> {
    let barrier = std::sync::Barrier::new(usize::try_from(threads).expect("a few") + 1);
    let (work, barrier) = (&work, &barrier);
    std::thread::scope(|scope| {
        let spawn = |number| {
            scope.spawn(move || {
                barrier.wait();
                work(number)
            })
        };
        let handles: Vec<_> = (0..threads).map(spawn).collect();
        barrier.wait();
        let start = Instant::now();
        let results: Vec<_> = handles.into_iter().map(|h| h.join().expect("workers do not panic")).collect();
        let seconds = start.elapsed().as_secs_f64();
        Ok((seconds, results.into_iter().collect::<Result<Vec<T>>>()?))
    })
}
