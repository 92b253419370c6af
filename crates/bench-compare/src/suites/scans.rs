//! Scans of 100, 20,000 and 400,000 rows under a snapshot, beside a writer. A scan takes a new
//! snapshot if the present one is older than a second.

use super::Suite;
use crate::bench::{Bench, BenchPlan, StepInfo, in_threads, load, reads};
use crate::engine::{Abilities, Durability, From, RivalCursor, RivalEngine, RivalResult};
use crate::keys::{RivalValues, VALUE_BYTES, key};
use crate::measure::{Deadline, Sample};
use esker::internals::base::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The set of scans.
pub(crate) struct ScanSuite;

/// Scans of a number of rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanStep {
    rows: u64,
}

const SEED: u64 = 801;
/// The largest age of a snapshot at the start of a scan.
const VIEW: Duration = Duration::from_secs(1);
/// Writes in a burst. The writer pauses after each burst, so it makes at most ten thousand writes a
/// second.
const WRITES: usize = 100;
const REST: Duration = Duration::from_millis(10);

const LIMIT: &str = "116 bytes in order for each row: about 10 ns at 12 GB/s";

/// Rows of the longest scan.
const LONGEST: u64 = 400_000;
/// Least number of keys for scans of full length. Smaller plans shorten the scans.
const LARGE: u64 = 100_000;

fn keys(plan: &BenchPlan) -> u64 {
    if plan.num < LARGE { plan.num } else { plan.num.max(LONGEST + LONGEST / 20) }
}

impl Suite for ScanSuite {
    type Step = ScanStep;

    fn steps(plan: &BenchPlan) -> Vec<(StepInfo, ScanStep)> {
        let step = |rows: u64| {
            let step = ScanStep { rows: rows.min(keys(plan)) };
            let title = format!("scans of {} rows, beside a writer", step.rows);
            (StepInfo::new(format!("scans/{rows}"), title, "row", LIMIT), step)
        };
        vec![step(100), step(20_000), step(LONGEST)]
    }

    fn missing(_step: &ScanStep, abilities: &Abilities) -> Option<&'static str> {
        (!abilities.versions).then_some("it has no versions: a scan would stop the writer or show its writes")
    }

    fn prepares(_step: &ScanStep) -> bool {
        false
    }

    fn run<E: RivalEngine>(bench: &mut Bench<E>, step: &ScanStep) -> RivalResult<Sample> {
        let num = keys(&bench.plan);
        if !bench.is_open() {
            bench.fresh_as_planned()?;
            let mut random = fastrand::Rng::with_seed(SEED);
            let mut numbers: Vec<u64> = (0..num).collect();
            random.shuffle(&mut numbers);
            load(bench.db(), num, SEED, VALUE_BYTES, |i| numbers[usize::try_from(i).expect("an index")])?;
            bench.db().flush()?;
            bench.db().settle()?;
        }
        // Reads three times as many rows as there are keys, in at least one scan.
        let scans = (3 * num / step.rows).max(1);
        let rows = step.rows;
        bench.measure(|db, deadline| {
            let is_done = AtomicBool::new(false);
            let (seconds, done) = in_threads(2, |thread| {
                if thread == 1 {
                    return write_until(db, &is_done, num).map(|()| 0);
                }
                let result = scan(db, deadline, scans, rows, num);
                is_done.store(true, Ordering::Relaxed);
                result
            })?;
            Ok(Sample { seconds, ..reads(done[0], scans * rows, 0) })
        })
    }
}

/// Scans, and returns the number of rows.
fn scan<E: RivalEngine>(db: &E, deadline: Deadline, scans: u64, rows: u64, num: u64) -> RivalResult<u64> {
    let mut random = fastrand::Rng::with_seed(SEED + 1);
    let limit = usize::try_from(rows).expect("fits");
    let (mut shown, mut bytes, mut scan) = (0, 0, 0);
    let goes_on = |scan| scan < scans && (scan == 0 || !deadline.is_over());
    while goes_on(scan) {
        db.with_cursor(true, |cursor| {
            let taken = Instant::now();
            while goes_on(scan) && taken.elapsed() <= VIEW {
                let start = key(random.u64(..=num - rows));
                shown += cursor.scan(From::Key(&start), limit, &mut |_, value| bytes += value.len())? as u64;
                scan += 1;
            }
            Ok(())
        })?;
    }
    if bytes as u64 != shown * VALUE_BYTES as u64 {
        return Err(format!("{shown} rows hold {bytes} bytes of values"));
    }
    Ok(shown)
}

fn write_until<E: RivalEngine>(db: &E, is_done: &AtomicBool, num: u64) -> RivalResult<()> {
    let (mut random, mut values) = (fastrand::Rng::with_seed(SEED + 2), RivalValues::new(SEED + 2));
    while !is_done.load(Ordering::Relaxed) {
        let batch: Vec<_> =
            (0..WRITES).map(|_| (key(random.u64(..num)), values.next(VALUE_BYTES).to_vec())).collect();
        let pairs: Vec<(&[u8], &[u8])> = batch.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        db.put_all(&pairs, Durability::Wal)?;
        std::thread::sleep(REST);
    }
    Ok(())
}
