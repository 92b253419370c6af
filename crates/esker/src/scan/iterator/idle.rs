//! Reuses cursors: a dropped iterator leaves its cursor to the next one over the same super
//! version.
//!
//! In: a dropped iterator. Out: its cursor with all parts, for a later iterator, which then only
//! takes a reference to the super version, and allocates and opens nothing. In a family of three
//! sorted runs this saves most of the cost of a seek with ten steps, apart from block reads.
//!
//! Invariants
//!  1. An idle cursor holds no blocks, no super version and no table that the table cache may
//!     close. It is stored with its super version (`cf/idle_cursors.rs`) and dropped with it.
//!  2. It has all runs of its super version that its sequence number sees. The next user first
//!     moves it to a new sequence number, as [`DbIterator::refresh`] does: a memtable may have got
//!     its first entry, or range tombstones.
//!  3. It reads tables as its next user asks (`Runs::reads_plainly`), and that user sets its
//!     bounds. Iterators with unusual options, or with bounds that exclude files of level 0,
//!     neither leave nor take an idle cursor.
//!  4. It reads with the family's current options, even if it was made under older ones and has
//!     moved from super version to super version since.

use super::runs::{Runs, plain_reads};
use super::{Cursor, DbIterator, Watched};
use crate::cf::{ColumnFamily, SuperVersion};
use crate::options::ReadOptions;
use crate::scan::{DbIter, KeepAlive};
use esker_base::stats::{Ticker, record_tick};
use esker_base::sync::Arc;
use esker_base::{Result, SequenceNumber};

impl Drop for DbIterator {
    fn drop(&mut self) {
        if !self.db.engine.owner.is_here() {
            // In a forked child the cursor is leaked: dropping its parts takes locks that threads
            // of the parent may have held.
            let iter = std::mem::replace(&mut self.iter, Cursor::Gone);
            let watched = std::mem::replace(&mut self.watched, Watched::Stays);
            std::mem::forget((iter, watched, self.planned.take()));
            return;
        }
        record_tick(&self.db.engine.options.statistics, Ticker::NoIteratorDeleted, 1);
        let Watched::SuperVersion(super_version) = &self.watched else { return };
        // A comparator that panicked left an unknown state, and must not be called again.
        if !std::thread::panicking()
            && let Cursor::Plain(iter) = &self.iter
            && let Some(how) = plain_reads(&self.cf, super_version, &self.options)
            && iter.inner().reads_plainly(how)
            && self.cf.super_version.holds(super_version)
            && let Cursor::Plain(mut iter) = std::mem::replace(&mut self.iter, Cursor::Gone)
            && iter.release()
        {
            super_version.idle.put(iter);
        }
    }
}

/// Takes the idle cursor of this super version, if there is one, and moves it to this sequence
/// number. `has_ranges`: each planned range sets its bounds.
/// # Errors
/// See [`Db::iter_opt`](crate::Db::iter_opt).
pub(super) fn take_idle(
    cf: &ColumnFamily,
    super_version: &Arc<SuperVersion>,
    options: &ReadOptions,
    (sequence, has_ranges): (SequenceNumber, bool),
) -> Result<Option<Box<DbIter<Runs>>>> {
    let Some(how) = plain_reads(cf, super_version, options) else { return Ok(None) };
    let taken = super_version.idle.take(|iter: &DbIter<Runs>| iter.inner().reads_plainly(how));
    let Some(mut iter) = taken else { return Ok(None) };
    esker_base::probe!("iterator:idle");
    let (lower, upper) = (options.iterate_lower_bound.as_deref(), options.iterate_upper_bound.as_deref());
    // Each planned range sets its own bounds before the cursor is positioned.
    if !has_ranges && (iter.has_bounds() || lower.or(upper).is_some()) {
        iter.set_bounds(lower, upper);
    }
    iter.set_most_skipped(super_version.options.max_sequential_skip_in_iterations);
    let prepared = iter.inner().prepare(cf, super_version, options, sequence)?;
    iter.refresh(sequence, Some(super_version.clone() as KeepAlive), |runs| runs.exchange(prepared, None));
    Ok(Some(iter))
}

#[cfg(test)]
mod tests;
