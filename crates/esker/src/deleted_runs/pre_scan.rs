//! Pre-scans over deleted runs after flushes and compactions.
//!
//! In: a run of a new table that overlaps other tables, or deletions in a memtable (`around.rs`).
//! Out: the range that a scan through the run would remember (`deleted_runs/memory.rs`), so that no
//! scan has to step through it.
//!
//! A pre-scan reads the family's current super version at the present sequence number. It ends
//! behind its run, when other work waits, or when it has found too many visible keys. It remembers
//! the part that it has passed in any case.
//!
//! Invariants
//!  1. It holds no lock while it reads. At each check it gives up its super version if that was
//!     replaced.
//!  2. It checks for other work every `LOOK_UP_EVERY` entries, and ends if the database closes or
//!     the family is dropped. A pre-scan pauses while background work is paused or stopped by an
//!     error, and queues behind a job that waits for a thread.
//!  3. It changes nothing but the remembered runs. Its blocks do not go into the block cache, and
//!     its errors go to LOG only.

mod around;

use super::PreScan;
use crate::cf::{ColumnFamily, SuperVersion};
use crate::engine::{Engine, contained};
use crate::options::ReadOptions;
use crate::scan::DbIter;
use crate::scan::iterator::{Runs, new_db_iter};
use esker_base::sync::Arc;
use esker_base::{Result, SequenceNumber, Severity};

/// Entries between two checks for other work, some 100 µs; fewer if shorter runs are pre-scanned.
const LOOK_UP_EVERY: u64 = 2048;
/// Fewest entries between two checks for other work.
const LOOK_UP_LEAST: u64 = 16;

/// The reason why a pre-scan stops at its position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stop {
    /// The pre-scan is done.
    Over,
    /// The pre-scan yields, and continues when the job runs again.
    GiveWay,
    /// The pre-scan continues over the family's newer super version.
    NewSuperVersion,
}

/// The state that a pre-scan checks between entries.
struct Surroundings {
    engine: Arc<Engine>,
    cf: Arc<ColumnFamily>,
    super_version: Arc<SuperVersion>,
    /// The last user key of the pre-scan's run, if the run has an end.
    last: Option<Vec<u8>>,
    most_entries: u64,
}

impl Surroundings {
    /// The reason to stop before `user_key`, after `passed` entries; `None`: continue.
    fn stop(&self, user_key: &[u8], passed: u64) -> Option<Stop> {
        let engine = &self.engine;
        if engine.is_shutting_down()
            || self.cf.is_dropped()
            || passed >= self.most_entries
            || self.last.as_ref().is_some_and(|last| self.cf.icmp.compare_user_keys(user_key, last).is_gt())
        {
            Some(Stop::Over)
        } else if engine.is_without_pre_scans() || engine.scheduler.pre_scan_is_in_the_way() {
            Some(Stop::GiveWay)
        } else if !self.cf.super_version.holds(&self.super_version) {
            Some(Stop::NewSuperVersion)
        } else {
            None
        }
    }
}

/// Runs the first waiting pre-scan, and puts the rest of it back if it had to yield.
pub(crate) fn resume_pre_scan(engine: &Arc<Engine>) {
    let Some(mut pre_scan) = engine.state.lock().pre_scans.take_first() else { return };
    let Some(cf) = engine.families.by_id(pre_scan.family) else { return };
    let (start, passed) = (engine.env.clock.monotonic_micros(), pre_scan.passed);
    let ended = contained("a pre-scan over deleted keys", Severity::NoError, || {
        loop {
            let stop = match pre_scan.around {
                None => pre_scan_super_version(engine, &cf, &mut pre_scan)?,
                Some(_) => around::pre_scan_super_version(engine, &cf, &mut pre_scan)?,
            };
            if stop != Stop::NewSuperVersion {
                return Ok(stop);
            }
        }
    });
    pre_scan.micros += engine.env.clock.monotonic_micros().saturating_sub(start);
    engine.state.lock().pre_scans.pre_scanned_entries += pre_scan.passed - passed;
    match ended {
        Ok(Stop::GiveWay) => engine.state.lock().pre_scans.put_back(pre_scan),
        Ok(_) if pre_scan.around.is_some() => {
            around::linger(engine, (pre_scan.passed - passed, pre_scan.deletions))
        }
        Ok(_) => log_end(engine, &cf, &pre_scan),
        Err(e) => {
            esker_base::info_log!(engine.info_log, Warn, "[{}] Pre-scan of deleted keys: {e}", cf.name);
        }
    }
}

fn log_end(engine: &Engine, cf: &ColumnFamily, pre_scan: &PreScan) {
    esker_base::probe!("pre_scan:over");
    let PreScan { passed, keys_there, micros, .. } = pre_scan;
    esker_base::info_log!(
        engine.info_log,
        Info,
        "[{}] Pre-scan of deleted keys: {passed} entries, {keys_there} keys there, {micros} us",
        cf.name
    );
}

/// Continues a pre-scan over the current super version.
/// # Errors
/// Errors of reading tables.
fn pre_scan_super_version(
    engine: &Arc<Engine>,
    cf: &Arc<ColumnFamily>,
    pre_scan: &mut PreScan,
) -> Result<Stop> {
    esker_base::probe!("pre_scan:super_version");
    let (mut iter, around, every) = begin(engine, cf, pre_scan)?;
    iter.seek(&pre_scan.from);
    // Between two visible keys there may be few deleted keys, and then the cursor does not call
    // `look_at`. So this loop checks, too.
    let (mut steps, mut look_at) = (0, every);
    let stop = loop {
        iter.status()?;
        if !iter.valid() {
            break stop_of(&iter, &around, pre_scan);
        }
        if cf.icmp.compare_user_keys(iter.key(), &pre_scan.last).is_gt() {
            break Stop::Over;
        }
        let passed = iter.counters().skipped + steps;
        if passed >= look_at {
            look_at = passed + every;
            if let Some(stop) = around.stop(iter.key(), passed) {
                pre_scan.from = iter.key().to_vec();
                break stop;
            }
        }
        steps += 1;
        pre_scan.keys_there += 1;
        if pre_scan.keys_there > pre_scan.most_there {
            break Stop::Over;
        }
        iter.next();
    };
    pre_scan.passed = (pre_scan.passed + iter.counters().skipped + steps).min(pre_scan.most_entries);
    Ok(stop)
}

/// A cursor over the current super version that checks for other work, with the state it checks and
/// the number of entries between checks.
/// # Errors
/// Errors of opening tables.
fn begin(
    engine: &Arc<Engine>,
    cf: &Arc<ColumnFamily>,
    pre_scan: &PreScan,
) -> Result<(DbIter<Runs>, Arc<Surroundings>, u64)> {
    let (super_version, sequence) = point(engine, cf);
    let around = Arc::new(Surroundings {
        engine: engine.clone(),
        cf: cf.clone(),
        super_version: super_version.clone(),
        last: pre_scan.around.is_none().then(|| pre_scan.last.clone()),
        most_entries: pre_scan.most_entries - pre_scan.passed,
    });
    let options = ReadOptions { fill_cache: false, total_order_seek: true, ..ReadOptions::default() };
    let mut iter = new_db_iter(cf, &super_version, &options, sequence, None)?;
    let every = LOOK_UP_EVERY.min(super_version.options.pre_scan_threshold().max(LOOK_UP_LEAST));
    let (looks, mut passed) = (around.clone(), 0);
    let goes_on = move |user_key: &[u8]| {
        passed += every;
        looks.stop(user_key, passed).is_none()
    };
    iter.pre_scan(every, Box::new(goes_on));
    Ok((iter, around, every))
}

/// The reason why a pre-scan's cursor is invalid; the pre-scan continues from its position.
fn stop_of(iter: &DbIter<Runs>, around: &Surroundings, pre_scan: &mut PreScan) -> Stop {
    let Some(user_key) = iter.stopped_at() else { return Stop::Over };
    pre_scan.from.clear();
    pre_scan.from.extend_from_slice(user_key);
    // The reason may have ceased meanwhile.
    around.stop(user_key, iter.counters().skipped).unwrap_or(Stop::NewSuperVersion)
}

/// The family's super version, and a sequence number at which it is complete.
fn point(engine: &Engine, cf: &ColumnFamily) -> (Arc<SuperVersion>, SequenceNumber) {
    loop {
        let super_version = cf.pinned_super_version();
        let sequence = engine.visible_sequence();
        if cf.super_version.holds(&super_version) {
            return (super_version, sequence);
        }
    }
}

#[cfg(test)]
mod tests;
