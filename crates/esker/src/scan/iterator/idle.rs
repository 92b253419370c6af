//! Whoever drops an iterator leaves its cursor to those who want one over the same super version
//! next.
//!
//! In: an iterator that is dropped. Out: its cursor with all parts, for another one: nothing is
//! allocated, opened or counted then but the super version. With a family of three sorted runs that
//! is most of what a seek and ten steps cost beside reading blocks.
//!
//! Invariants
//!  1. A cursor that lies idle holds no blocks, no super version and no table that somebody else
//!     would close; it lies with its super version (`cf/idle_cursors.rs`), and goes with it.
//!  2. It has all runs of its super version that its sequence number sees. Whoever takes it goes
//!     over to his own number first, as [`DbIterator::refresh`] does: a memtable may have got its
//!     first entry, or range tombstones.
//!  3. It reads tables as its taker wants to (`Runs::reads_plainly`); it gives it his bounds.
//!     Iterators with unusual options leave none and take none, nor do those whose bounds leave
//!     files of level 0 out.
//!  4. It goes by the family's options of now: it may be older than they are, as it moves from
//!     super version to super version with its iterator.

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
        // A comparator that panics leaves nobody knows what, and is not asked again.
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

/// A cursor over this super version that somebody has left, at this sequence number. `has_ranges`:
/// bounds are set before it is positioned.
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
