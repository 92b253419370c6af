//! Pre-scans around deletions that a memtable has sampled (`memtable/src/deletion_sample.rs`).
//!
//! In: sampled deletions. Out: around each sampled deletion that overlaps a table, the range that a
//! scan would remember. A scan then steps only through deletions since the last pre-scan, not
//! through the whole run in memory.
//!
//! A run grows while it is written, mostly upward or downward. A pre-scan begins at the start of
//! the remembered range around a sampled key. If the memtable has few deletions before that range,
//! it begins at the first of them. It skips to the end of the remembered range and continues over
//! the new part. Its range replaces the former one, so the whole run is one range again.
//!
//! After a pre-scan of a fast-growing run the next one comes soon, with or without new samples. A
//! scan right after the last deletion steps through all deletions since the last pre-scan.
//!
//! Invariants
//!  1. No entry of a table is stepped over twice for the same deletions, unless a remembered range
//!     was dropped; the memtable limits such repeats.
//!  2. If the pre-scan has to stop, keys that it has not examined stay queued.

use super::{Stop, begin};
use crate::cf::ColumnFamily;
use crate::deleted_runs::{PreScan, tables_between};
use crate::engine::Engine;
use esker_base::sync::Arc;
use esker_base::{Result, SequenceNumber};
use esker_memtable::{MemTable, Take};
use std::time::Duration;

/// Entries as which a seek counts.
const SEEK_ENTRIES: u64 = 16;

/// Most entries of the memtable before a sampled deletion for which a pre-scan goes back: deletions
/// of the run before its first sample.
const NEAR: u64 = 2048;

/// Time for which a job waits for more work. Waking a thread costs a writer as much as twenty
/// deletions. So the job stays while deletions come fast, and no writer wakes it.
const LINGER: Duration = Duration::from_millis(1);

/// Time for which a job waits while a run grows fast: a scan has to step through the deletions of
/// this time.
const LINGER_BY_RUN: Duration = Duration::from_micros(100);

/// Deletions since the last pre-scan at which a run counts as growing fast.
const FAST: u64 = 64;

/// Queues the next pre-scan if deletions continue. The last pre-scan passed `passed` entries for
/// `deletions` new deletions.
pub(super) fn linger(engine: &Arc<Engine>, (passed, deletions): (u64, u64)) {
    let goes_on = || {
        !(engine.is_shutting_down()
            || engine.is_without_pre_scans()
            || engine.scheduler.pre_scan_is_in_the_way())
    };
    let wait = |time, when| {
        engine.env.clock.sleep(time);
        engine.queue_pre_scans_in_memory(when)
    };
    // If the entries passed are as many as the deletions, the deletions form a run over table
    // entries. Other deletions are read around only where they were sampled.
    let follows_run = deletions >= FAST && passed >= deletions;
    if follows_run && goes_on() && wait(LINGER_BY_RUN, Take::Any) {
        return;
    }
    if goes_on() {
        wait(LINGER, if follows_run { Take::Any } else { Take::Early });
    }
}

/// The start of the memtable's deletions around `user_key`, if it is before `user_key` and at most
/// `NEAR` entries away.
fn start_of_run(mem: &Arc<MemTable>, user_key: &[u8], sequence: SequenceNumber) -> Option<Vec<u8>> {
    let start = mem.deleted_run_start(user_key, sequence)?;
    let is_before = mem.comparator().compare_user_keys(&start, user_key).is_lt();
    (is_before && mem.approximate_count(&start, user_key) <= NEAR).then_some(start)
}

/// Continues a pre-scan over the current super version.
/// # Errors
/// Errors of reading tables.
pub(super) fn pre_scan_super_version(
    engine: &Arc<Engine>,
    cf: &Arc<ColumnFamily>,
    pre_scan: &mut PreScan,
) -> Result<Stop> {
    esker_base::probe!("pre_scan:around");
    let (mut iter, surroundings, _) = begin(engine, cf, pre_scan)?;
    let super_version = &surroundings.super_version;
    let mut keys = pre_scan.around.take().unwrap_or_default();
    // Descending: `pop` then takes the first key.
    keys.sort_by(|a, b| cf.icmp.compare_user_keys(b, a));
    let (mut run_end, mut seeks, mut stop) = (Vec::new(), 0, Stop::Over);
    let mut goes_back = true;
    while let Some(key) = keys.pop() {
        if tables_between(&super_version.version, &key, &key) == 0 {
            continue;
        }
        let known = super_version.deleted_run_memory.find(&key, iter.sequence(), false, &mut run_end);
        let known_start = known.map_or(key.as_slice(), |known| known.run_end);
        let start =
            goes_back.then(|| start_of_run(&super_version.mem, known_start, iter.sequence())).flatten();
        iter.seek(start.as_deref().unwrap_or(known_start));
        iter.status()?;
        seeks += 1;
        // A table has a visible key between the start of the memtable's deletions and the sample:
        // going back may be useless for the other samples, too.
        if start.is_some() && iter.valid() && cf.icmp.compare_user_keys(iter.key(), &key).is_lt() {
            goes_back = false;
            iter.seek(known_start);
            iter.status()?;
            seeks += 1;
        }
        let passed = iter.counters().skipped + SEEK_ENTRIES * seeks;
        let stopped = if iter.valid() {
            let found = iter.key();
            while keys.pop_if(|key| cf.icmp.compare_user_keys(key, found).is_le()).is_some() {}
            surroundings.stop(found, passed)
        } else if let Some(user_key) = iter.stopped_at() {
            if cf.icmp.compare_user_keys(user_key, &key).is_lt() {
                keys.push(key);
            }
            keys.push(user_key.to_vec());
            // The reason may have ceased meanwhile.
            Some(surroundings.stop(user_key, passed).unwrap_or(Stop::NewSuperVersion))
        } else {
            Some(Stop::Over)
        };
        if let Some(why) = stopped {
            stop = why;
            break;
        }
    }
    let passed = iter.counters().skipped + SEEK_ENTRIES * seeks;
    super_version.mem.sample_looked_at(passed);
    pre_scan.passed = (pre_scan.passed + passed).min(pre_scan.most_entries);
    pre_scan.around = Some(keys);
    Ok(stop)
}

#[cfg(test)]
mod tests;
