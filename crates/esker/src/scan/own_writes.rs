//! Scans that see the unwritten operations of a batch or transaction.
//!
//! In: a family and own writes as a memtable of their own. Out: a cursor that shows the family as
//! if these were written.
//!
//! Invariants
//!  1. Entries of the database that the scan must not see are removed below the merge. The merge
//!     reads at the number of the last own write, above all numbers of the database, so it would
//!     show them. Own writes that are in the database already are shown.
//!  2. Own writes are the newest run of one merge with the runs of the database. So a scan skips
//!     deleted runs of all of them, and a queue that one transaction pops stays fast.

use super::iterator::{check_tier, children_of, db_iter_options, deleted_run_memory, internal_iterator};
use super::{DbIter, KeepAlive};
use crate::cf::{ColumnFamily, OwnWrites};
use crate::deleted_runs::{DeletedRunMemoryRef, OwnRunsRef};
use crate::instance::DbInner;
use crate::merge::{MergeChild, RunTombstones, merge_children};
use crate::options::ReadOptions;
use esker_base::{Error, Result, SequenceNumber};
use esker_format::cursor::{InternalIterator, KnownDeletedRun, ScanIterator, forward_cursor, plain_cursor};
use esker_format::key::{self, ParsedInternalKey, seek_key};
use std::cmp::Ordering;

/// `Db::iter_opt`, with `own` writes over the database's entries.
/// # Errors
/// Those of `Db::iter_opt` · `NotSupported`: `tailing` is set · `InvalidArgument`: `options` name a
/// timestamp for a family without timestamps.
pub(crate) fn iter_over(
    db: &DbInner,
    cf: &ColumnFamily,
    options: &ReadOptions,
    own: Option<&OwnWrites>,
) -> Result<DbIter> {
    if options.tailing {
        return Err(Error::not_supported(
            "ReadOptions::tailing: an iterator over a transaction's own writes",
        ));
    }
    check_tier(options)?;
    check_plain(cf, options)?;
    db.check_family(cf)?;
    options.snapshot.as_ref().map_or(Ok(()), |snapshot| db.check_own(snapshot))?;
    let (super_version, sequence, unseen) = match &db.engine.commits {
        Some(commits) => db.prepared_read_point(cf, options, commits)?,
        None => {
            let (super_version, sequence) = db.pinned_read_point(cf, options, None);
            (super_version, sequence, None)
        }
    };
    let statistics = db.engine.options.statistics.clone();
    // A scan that hides uncommitted entries, or shows spilled ones, may see other deleted runs than
    // those that the family remembers.
    let spilled = own.and_then(|own| own.spilled.as_ref());
    let is_plain = unseen.is_none() && spilled.is_none();
    let memory = deleted_run_memory(&super_version, options).filter(|_| is_plain);
    let Some(own) = own else {
        let base = internal_iterator(cf, &super_version, options, sequence, unseen)?;
        let mut iter_options = db_iter_options(cf, &super_version, options, sequence, statistics);
        iter_options.deleted_run_memory = memory;
        return Ok(DbIter::new(cf.icmp.clone(), base, iter_options, Some(super_version as KeepAlive)));
    };
    let tombstones = (!options.ignore_range_deletions && own.mem.num_range_deletes() > 0)
        .then(|| RunTombstones::of_memtable(cf.icmp.clone(), own.mem.range_tombstones(), own.up_to));
    let mut children = vec![MergeChild {
        iter: Box::new(match options.ignore_range_deletions {
            true => own.mem.iter_ignoring_range_deletions(),
            false => own.mem.iter(),
        }),
        tombstones: tombstones.map(|tombstones| Box::new(tombstones) as Box<_>),
    }];
    let visible_only = |MergeChild { iter, tombstones }| {
        let iter: Box<dyn ScanIterator> = Box::new(VisibleOnly { iter, sequence });
        MergeChild { iter, tombstones }
    };
    let runs = children_of(cf, &super_version, options, sequence, unseen, spilled)?.into_iter();
    match spilled {
        None => children.extend(runs.map(visible_only)),
        Some(_) => children.extend(runs),
    }
    let merged = merge_children(&cf.icmp, children);
    let mut iter_options = db_iter_options(cf, &super_version, options, own.up_to, statistics);
    iter_options.deleted_run_memory = memory.map(|base| {
        let ranges = own.runs.over(&base.ranges);
        let own = OwnRunsRef { ranges, base_sequence: sequence, mem: own.mem.clone() };
        DeletedRunMemoryRef { own: Some(own), ..base }
    });
    Ok(DbIter::new(cf.icmp.clone(), merged, iter_options, Some(super_version as KeepAlive)))
}

/// Refuses `timestamp` and `iter_start_ts` in `options` if the family has no timestamps.
/// # Errors
/// `InvalidArgument`: one of them is set.
pub(crate) fn check_plain(cf: &ColumnFamily, options: &ReadOptions) -> Result<()> {
    if cf.icmp.timestamp_size() > 0 || options.timestamp.is_none() && options.iter_start_ts.is_none() {
        return Ok(());
    }
    let what = "its keys have no timestamps, and ReadOptions::timestamp or iter_start_ts is set";
    Err(Error::invalid_argument(format!("column family '{}': {what}", cf.name)))
}

/// A cursor that hides entries newer than `sequence`.
struct VisibleOnly {
    iter: Box<dyn ScanIterator>,
    sequence: SequenceNumber,
}

/// Consecutive hidden entries that are stepped over before a seek.
const MOST_STEPS: usize = 8;

impl VisibleOnly {
    fn is_hidden(&self) -> bool {
        // A malformed key is shown, so that the reader above reports it.
        self.iter.valid()
            && ParsedInternalKey::parse(self.iter.key()).is_ok_and(|key| key.sequence > self.sequence)
    }

    fn forward(&mut self) {
        let mut steps = 0;
        while self.is_hidden() {
            steps += 1;
            if steps > MOST_STEPS {
                steps = 0;
                // Newer versions of a key come before older ones.
                let target = seek_key(key::user_key(self.iter.key()), self.sequence);
                self.iter.seek(&target);
            } else {
                self.iter.next();
            }
        }
    }

    fn backward(&mut self) {
        let mut steps = 0;
        while self.is_hidden() {
            steps += 1;
            if steps > MOST_STEPS {
                steps = 0;
                // Versions of a key before a hidden one are newer, so they are hidden, too.
                let target = seek_key(key::user_key(self.iter.key()), SequenceNumber::MAX);
                self.iter.seek_for_prev(&target);
            } else {
                self.iter.prev();
            }
        }
    }
}

impl InternalIterator for VisibleOnly {
    forward_cursor!(self => self.iter; valid, key, value, pinned_value, status);

    fn seek_to_first(&mut self) {
        self.iter.seek_to_first();
        self.forward();
    }
    fn seek_to_last(&mut self) {
        self.iter.seek_to_last();
        self.backward();
    }
    fn seek(&mut self, target: &[u8]) {
        self.iter.seek(target);
        self.forward();
    }
    fn seek_for_prev(&mut self, target: &[u8]) {
        self.iter.seek_for_prev(target);
        self.backward();
    }
    fn next(&mut self) {
        self.iter.next();
        self.forward();
    }
    fn prev(&mut self) {
        self.iter.prev();
        self.backward();
    }
}

impl ScanIterator for VisibleOnly {
    forward_cursor!(self => self.iter; set_upper_bound, set_wanted_prefix_of, progress, continue_from, release);
    // The merge asks for entries ahead at its own number, so hidden ones could be among them. This
    // cursor therefore decodes none.
    plain_cursor!(self; next_key, prev_key, prev_key_leaving, left_value, pinned_left_value, look_ahead,
        advance, pass, skip_deleted_run);

    fn deleted_run_end(&self, snapshot: SequenceNumber, forward: bool) -> Option<&[u8]> {
        self.iter.deleted_run_end(snapshot.min(self.sequence), forward)
    }
    fn was_seen(&self, known: &KnownDeletedRun<'_>, forward: bool) -> bool {
        // The numbers of own writes mean nothing in the database.
        let in_database = KnownDeletedRun { sequence: known.base_sequence, ..*known };
        match known.base_sequence.cmp(&self.sequence) {
            Ordering::Less => self.iter.was_seen(&in_database, forward),
            Ordering::Equal => true,
            Ordering::Greater => false,
        }
    }
}

#[cfg(test)]
mod tests;
