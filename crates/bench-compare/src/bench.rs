//! Runs one engine: fresh directories, timed steps.
//!
//! Invariants
//!  1. Each fresh database gets a new, empty directory.
//!  2. A step starts after the background work of the previous step has ended.

use crate::directory::drop_page_cache;
use crate::engine::{Durability, RivalEngine, RivalResult, RivalSettings};
use crate::keys::{Digest, KEY_BYTES, RivalValues, VALUE_BYTES, key};
use crate::measure::{Deadline, Meter, Sample};
use esker::internals::env::system::available_parallelism;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The sizes of a run. Each suite derives its own sizes from these.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct BenchPlan {
    /// Number of keys of the core set; other sets scale with this number.
    pub(crate) num: u64,
    /// Whether sets also run their additional steps, with other numbers of threads.
    pub(crate) full: bool,
    /// Time limit of a step, seconds.
    pub(crate) step_seconds: f64,
    /// The settings of every engine.
    pub(crate) settings: RivalSettings,
    /// Whether the databases lie on a file system in memory.
    #[serde(default)]
    pub(crate) in_memory: bool,
}

/// A step, as the table shows it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct StepInfo {
    /// The step's name on the command line: `suite/step`.
    pub(crate) name: String,
    /// The description for people.
    pub(crate) title: String,
    /// The unit of an operation: `put`, `key`, `row`.
    pub(crate) unit: String,
    /// The cost that no engine can avoid: bytes, cache misses, system calls.
    pub(crate) limit: String,
    /// Whether the rate includes the background work after the step.
    pub(crate) counts_settling: bool,
}

impl StepInfo {
    /// A step whose rate counts only its operations.
    pub(crate) fn new(name: String, title: impl Into<String>, unit: &str, limit: &str) -> StepInfo {
        let (title, unit, limit) = (title.into(), unit.to_owned(), limit.to_owned());
        StepInfo { name, title, unit, limit, counts_settling: false }
    }

    /// A step whose rate includes background work.
    pub(crate) fn counting_settling(self) -> StepInfo {
        StepInfo { counts_settling: true, ..self }
    }
}

/// An engine and its directory.
pub(crate) struct Bench<E> {
    pub(crate) plan: BenchPlan,
    root: PathBuf,
    databases: u32,
    db: Option<E>,
}

impl<E: RivalEngine> Bench<E> {
    /// An engine that works in the empty directory `root`.
    pub(crate) fn new(root: &Path, plan: BenchPlan) -> Bench<E> {
        Bench { plan, root: root.to_owned(), databases: 0, db: None }
    }

    fn dir(&self) -> PathBuf {
        self.root.join(format!("{}", self.databases))
    }

    /// Closes and deletes the database, and opens an empty database.
    pub(crate) fn fresh(&mut self, settings: &RivalSettings) -> RivalResult<()> {
        self.close()?;
        self.databases += 1;
        let dir = self.dir();
        std::fs::create_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        self.db = Some(E::open(&dir, settings)?);
        Ok(())
    }

    /// Reopens the database with other settings.
    pub(crate) fn reopen(&mut self, settings: &RivalSettings) -> RivalResult<()> {
        self.db = None;
        self.db = Some(E::open(&self.dir(), settings)?);
        Ok(())
    }

    /// Drops the pages of the database from the page cache. Meanwhile the database is closed, so
    /// that it has no page mapped, unless the engine cannot open it again.
    pub(crate) fn reopen_cold(&mut self, settings: &RivalSettings) -> RivalResult<()> {
        if !E::ABILITIES.reopens {
            return drop_page_cache(&self.dir());
        }
        self.db = None;
        drop_page_cache(&self.dir())?;
        self.reopen(settings)
    }

    /// Whether a database is open.
    pub(crate) fn is_open(&self) -> bool {
        self.db.is_some()
    }

    /// Closes and deletes the database.
    pub(crate) fn close(&mut self) -> RivalResult<()> {
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

    /// Opens an empty database with the plan's settings.
    pub(crate) fn fresh_as_planned(&mut self) -> RivalResult<()> {
        self.fresh(&self.plan.settings.clone())
    }

    /// Measures `work` and the background work after it.
    pub(crate) fn measure(
        &mut self,
        work: impl FnOnce(&mut E, Deadline) -> RivalResult<Sample>,
    ) -> RivalResult<Sample> {
        let dir = self.dir();
        let limit = Duration::from_secs_f64(self.plan.step_seconds);
        let db = self.db.as_mut().expect("a step that needs a database has opened one");
        let meter = Meter::start(db.mapped_bytes());
        let start = Instant::now();
        let mut sample = work(db, Deadline::after(limit))?;
        // Steps that start threads measure the time themselves.
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

/// The sample of a step that has done `done` of `count` puts of the usual size.
pub(crate) fn puts(done: u64, count: u64) -> Sample {
    let user_bytes = done * (KEY_BYTES + VALUE_BYTES) as u64;
    Sample { operations: done, user_bytes, cut: done < count, ..Sample::default() }
}

/// The sample of a step that has done `done` of `count` reads.
pub(crate) fn reads(done: u64, count: u64, digest: u64) -> Sample {
    Sample { operations: done, cut: done < count, digest, ..Sample::default() }
}

/// Puts the keys `number(0)`, `number(1)`… one by one. Returns the number of keys put.
pub(crate) fn fill<E: RivalEngine>(
    db: &E,
    deadline: Deadline,
    count: u64,
    seed: u64,
    durability: Durability,
    mut number: impl FnMut(u64) -> u64,
) -> RivalResult<u64> {
    let mut values = RivalValues::new(seed);
    deadline.repeat(count, |i| db.put(&key(number(i)), values.next(VALUE_BYTES), durability))
}

/// A deadline a day away, for preparations. Later steps need complete preparations.
pub(crate) fn unhurried() -> Deadline {
    Deadline::after(Duration::from_secs(24 * 60 * 60))
}

/// Pairs in one batch of a preparation.
const LOAD_BATCH: usize = 500;

/// Puts the keys `number(0)`, `number(1)`… in batches, as a preparation.
pub(crate) fn load<E: RivalEngine>(
    db: &E,
    count: u64,
    seed: u64,
    value_bytes: usize,
    number: impl FnMut(u64) -> u64,
) -> RivalResult<()> {
    load_behind(db, 0..count, seed, value_bytes, number)
}

/// Puts the keys with the indexes in `part`. Each key gets the value that [`load`] with the same
/// seed gives it.
pub(crate) fn load_behind<E: RivalEngine>(
    db: &E,
    part: Range<u64>,
    seed: u64,
    value_bytes: usize,
    mut number: impl FnMut(u64) -> u64,
) -> RivalResult<()> {
    let mut values = RivalValues::new(seed);
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

/// Runs `threads` threads. Each thread reads `share` random keys, of `num` keys in the database.
pub(crate) fn read_in_threads<E: RivalEngine>(
    db: &E,
    deadline: Deadline,
    threads: u64,
    share: u64,
    num: u64,
    seed: u64,
) -> RivalResult<Sample> {
    let (seconds, done) = in_threads(threads, |thread| {
        let mut random = fastrand::Rng::with_seed(seed + thread);
        let mut digest = Digest::default();
        let count = deadline
            .repeat(share, |_| db.get(&key(random.u64(..num)), &mut |value| digest.add(value)).map(drop))?;
        Ok((count, digest.0))
    })?;
    Ok(Sample { seconds, ..sum(&done, share * threads) })
}

/// The sample of several reading threads, from the count and digest of each.
pub(crate) fn sum(done: &[(u64, u64)], count: u64) -> Sample {
    let digest = done.iter().fold(0u64, |sum, (_, digest)| sum.wrapping_add(*digest));
    reads(done.iter().map(|(count, _)| count).sum(), count, digest)
}

/// Runs tasks on as many threads as there are processors. `work` gets the numbers of the tasks that
/// one thread runs. Returns as [`in_threads`].
pub(crate) fn in_few_threads<T: Send>(
    tasks: u64,
    work: impl Fn(Vec<u64>) -> RivalResult<Vec<T>> + Sync,
) -> RivalResult<(f64, Vec<T>)> {
    let threads = (available_parallelism() as u64).min(tasks);
    let step = usize::try_from(threads).expect("processors");
    let (seconds, parts) = in_threads(threads, |thread| work((thread..tasks).step_by(step).collect()))?;
    Ok((seconds, parts.into_iter().flatten().collect()))
}

/// Runs `work` in `threads` threads. `work` gets the thread's number. Returns the seconds from the
/// first start to the last end, and the results.
pub(crate) fn in_threads<T: Send>(
    threads: u64,
    work: impl Fn(u64) -> RivalResult<T> + Sync,
) -> RivalResult<(f64, Vec<T>)> {
    let barrier =
        std::sync::Barrier::new(usize::try_from(threads).expect("the number of threads fits into usize"));
    let (work, barrier) = (&work, &barrier);
    std::thread::scope(|scope| {
        let spawn = |number| {
            scope.spawn(move || {
                barrier.wait();
                // Each thread reads the clock itself: on a busy machine another thread could read
                // it much later.
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
        let start = times.iter().map(|(start, _)| *start).min().expect("there is at least one thread");
        let end = times.iter().map(|(_, end)| *end).max().expect("there is at least one thread");
        Ok(((end - start).as_secs_f64(), all))
    })
}
