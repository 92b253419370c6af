//! One engine at work: fresh directories, timed steps.
//!
//! Invariants
//!  1. A fresh database is in a directory of its own that nothing was in.
//!  2. No step starts while background work of the step before is running.

use crate::engine::{Durability, Engine, Result, Settings};
use crate::keys::{Digest, KEY_BYTES, VALUE_BYTES, Values, key};
use crate::measure::{Deadline, Meter, Sample};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Sizes of a run; suites derive theirs from it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Keys of the core set; other sets scale with it.
    pub(crate) num: u64,
    /// Sets have more steps: other thread counts.
    pub(crate) full: bool,
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

    /// The same database with other settings.
    pub(crate) fn reopen(&mut self, settings: &Settings) -> Result<()> {
        self.db = None;
        self.db = Some(E::open(&self.dir(), settings)?);
        Ok(())
    }

    /// Whether there is a database.
    pub(crate) fn is_open(&self) -> bool {
        self.db.is_some()
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
        let meter = Meter::start(db.mapped_bytes());
        let start = Instant::now();
        let mut sample = work(db, Deadline::after(limit))?;
        // Threads that must first be started measure themselves.
        if sample.seconds == 0.0 {
            sample.seconds = start.elapsed().as_secs_f64();
        }
        let end = Instant::now();
        db.settle()?;
        sample.settle_seconds = end.elapsed().as_secs_f64();
        meter.finish(&mut sample, &dir, db.mapped_bytes())?;
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

/// Time enough for what other steps need whole.
pub(crate) fn unhurried() -> Deadline {
    Deadline::after(Duration::from_secs(24 * 60 * 60))
}

/// Pairs of one batch when what comes in is not measured.
const LOAD_BATCH: usize = 500;

/// Puts the keys that `number` gives, in batches: the quick way to what a step works on.
pub(crate) fn load<E: Engine>(
    db: &E,
    count: u64,
    seed: u64,
    value_bytes: usize,
    number: impl FnMut(u64) -> u64,
) -> Result<()> {
    load_behind(db, 0..count, seed, value_bytes, number)
}

/// The same for a part: values begin where those of the pairs before it have ended.
pub(crate) fn load_behind<E: Engine>(
    db: &E,
    part: Range<u64>,
    seed: u64,
    value_bytes: usize,
    mut number: impl FnMut(u64) -> u64,
) -> Result<()> {
    let mut values = Values::new(seed);
    for _ in 0..part.start {
        values.next(value_bytes);
    }
    let count = part.end;
    let (mut next, mut batch) = (part.start, Vec::with_capacity(LOAD_BATCH));
    while next < count {
        batch.clear();
        while next < count && batch.len() < LOAD_BATCH {
            batch.push((key(number(next)), values.next(value_bytes).to_vec()));
            next += 1;
        }
        let pairs: Vec<(&[u8], &[u8])> = batch.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        db.put_all(&pairs, Durability::Wal)?;
    }
    Ok(())
}

/// Reads `share` random ones of `num` keys in each of `threads` threads.
pub(crate) fn read_in_threads<E: Engine>(
    db: &E,
    deadline: Deadline,
    threads: u64,
    share: u64,
    num: u64,
    seed: u64,
) -> Result<Sample> {
    let (seconds, done) = in_threads(threads, |thread| {
        let mut random = fastrand::Rng::with_seed(seed + thread);
        let mut digest = Digest::default();
        let count = deadline
            .repeat(share, |_| db.get(&key(random.u64(..num)), &mut |value| digest.add(value)).map(drop))?;
        Ok((count, digest.0))
    })?;
    Ok(Sample { seconds, ..sum(&done, share * threads) })
}

/// A sample of what several threads have read: counts and digests.
pub(crate) fn sum(done: &[(u64, u64)], count: u64) -> Sample {
    let digest = done.iter().fold(0u64, |sum, (_, digest)| sum.wrapping_add(*digest));
    reads(done.iter().map(|(count, _)| count).sum(), count, digest)
}

/// Runs `work` in `threads` threads at once, each with its number, and gives the seconds from when
/// the first began until the last ended, and what each gave.
pub(crate) fn in_threads<T: Send>(
    threads: u64,
    work: impl Fn(u64) -> Result<T> + Sync,
) -> Result<(f64, Vec<T>)> {
    let barrier = std::sync::Barrier::new(usize::try_from(threads).expect("a few"));
    let (work, barrier) = (&work, &barrier);
    std::thread::scope(|scope| {
        let spawn = |number| {
            scope.spawn(move || {
                barrier.wait();
                // Each looks at the clock for itself: on a busy machine nobody else knows when it
                // was let run.
                let start = Instant::now();
                let result = work(number);
                (start, Instant::now(), result)
            })
        };
        let handles: Vec<_> = (0..threads).map(spawn).collect();
        let mut all = Vec::new();
        let mut times = Vec::new();
        for handle in handles {
            let (start, end, result) = handle.join().expect("workers do not panic");
            times.push((start, end));
            all.push(result?);
        }
        let start = times.iter().map(|(start, _)| *start).min().expect("one thread at least");
        let end = times.iter().map(|(_, end)| *end).max().expect("one thread at least");
        Ok(((end - start).as_secs_f64(), all))
    })
}
