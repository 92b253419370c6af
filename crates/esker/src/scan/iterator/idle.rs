//! Reuses cursors: a dropped iterator leaves its cursor to the next one over the same super
//! version.
//!
//! In: a dropped iterator. Out: its cursor with all parts, for another one: only the super version
//! is then counted, and nothing is allocated or opened. With a family of three sorted runs that is
//! most of the cost of a seek and ten steps beside reading blocks.
//!
//! Invariants
//!  1. An idle cursor holds no blocks, no super version and no table that another thread would
//!     close; it lies with its super version (`cf/idle_cursors.rs`), and goes with it.
//!  2. It has all runs of its super version that its sequence number sees. Its taker first moves it
//!     to its own number, as [`DbIterator::refresh`] does: a memtable may have got its first entry,
//!     or range tombstones.
//!  3. It reads tables as its taker wants to (`Runs::reads_plainly`); the taker sets its bounds.
//!     Iterators with unusual options leave none and take none, nor do those whose bounds exclude
//!     files of level 0.
//!  4. It uses the family's current options: it may be older than they are, as it moves from super
//!     version to super version with its iterator.

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
            // Blocks, tables and super versions are given back under locks that threads of the
            // parent may have held.
            let iter = std::mem::replace(&mut self.iter, Cursor::Gone);
            let watched = std::mem::replace(&mut self.watched, Watched::Stays);
            std::mem::forget((iter, watched, self.planned.take()));
            return;
        }
        record_tick(&self.db.engine.options.statistics, Ticker::NoIteratorDeleted, 1);
        let Watched::SuperVersion(super_version) = &self.watched else { return };
        // A comparator that panics leaves an unknown state, and is not called again.
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

/// A cursor over this super version that a dropped iterator has left, at this sequence number.
/// `has_ranges`: bounds are set before it is positioned.
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
    // Each range sets its own before the cursor is positioned.
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
