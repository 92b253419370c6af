//! Iterators that are told beforehand which ranges will be scanned.
//!
//! In: ranges. Out: the same rows as without them; the iterator ends where each range does, and the blocks of the ranges are
//! read together when the first of them is missing in the cache (`esker_table::ScansAhead`).
//!
//! Invariants
//!  1. While `prepared` is there, the bounds are those of the range that was entered last; else those of the read options.
//!  2. What is read ahead comes from the files that the cursor reads: `Runs` tells of them whenever they change.
//!  3. The cursor reads all files within the bounds of the read options and within those of the ranges.

use super::runs::iterator_table_options;
use super::{Cursor, DbIterator, Watched};
use crate::options::{MultiScanArgs, ReadOptions};
use esker_base::stats::{Statistics, Ticker};
use esker_base::sync::Arc;
use esker_base::{Error, Result};
use esker_format::key::InternalKeyComparator;
use esker_table::{AheadCounts, AheadOptions, ScanRanges, ScansAhead};

/// Ranges to be scanned one after the other.
#[derive(Debug)]
pub(super) struct Prepared {
    reverse: bool,
    /// The range that is to be entered next.
    next: usize,
    pub(super) ahead: Arc<ScansAhead>,
    /// The read options, with bounds around their own and around all ranges: what files are opened by.
    pub(super) around: ReadOptions,
}

impl Prepared {
    /// # Errors
    /// `InvalidArgument`: see [`DbIterator::prepare`].
    pub(super) fn new(
        args: &MultiScanArgs,
        icmp: &InternalKeyComparator,
        options: &ReadOptions,
        statistics: Option<&Arc<Statistics>>,
    ) -> Result<Prepared> {
        let ahead = new_ahead(args, icmp, options, statistics)?;
        let around = around(options, args, &icmp.without_timestamp());
        Ok(Prepared { reverse: args.reverse, next: 0, ahead, around })
    }
}

/// What reads the ranges of `args` ahead.
/// # Errors
/// `InvalidArgument`: see [`DbIterator::prepare`].
pub(in crate::db) fn new_ahead(
    args: &MultiScanArgs,
    icmp: &InternalKeyComparator,
    options: &ReadOptions,
    statistics: Option<&Arc<Statistics>>,
) -> Result<Arc<ScansAhead>> {
    let count = |ticker| statistics.into_iter().for_each(|s| s.record_tick(ticker, 1));
    count(Ticker::MultiscanPrepareCalls);
    args.check(&icmp.without_timestamp()).inspect_err(|_| count(Ticker::MultiscanPrepareErrors))?;
    let mut ranges = ScanRanges::default();
    args.ranges.iter().for_each(|range| ranges.push(&range.start, range.limit.as_deref()));
    let ahead_options = AheadOptions {
        table: iterator_table_options(options),
        coalesced_gap_bytes: args.io_coalesce_threshold,
        most_bytes: args.max_prefetch_size,
        reverse: args.reverse,
    };
    Ok(Arc::new(ScansAhead::new(ranges, ahead_options, statistics.cloned())))
}

/// The options of an iterator that goes through these ranges, with bounds around all of them.
pub(in crate::db) fn within_ranges(mut options: ReadOptions, args: &MultiScanArgs) -> ReadOptions {
    if args.reverse {
        options.iterate_lower_bound = args.ranges.first().map(|first| first.start.clone());
    }
    options.iterate_upper_bound = args.ranges.last().and_then(|last| last.limit.clone());
    options
}

/// The options with bounds as wide as their own and those that the ranges of `args` put in their place. REQUIRES: the ranges ascend.
fn around(options: &ReadOptions, args: &MultiScanArgs, icmp: &InternalKeyComparator) -> ReadOptions {
    let mut around = options.clone();
    if let (true, Some(lower), Some(first)) =
        (args.reverse, &mut around.iterate_lower_bound, args.ranges.first())
        && icmp.compare_user_keys(&first.start, lower).is_lt()
    {
        lower.clone_from(&first.start);
    }
    around.iterate_upper_bound = around.iterate_upper_bound.and_then(|upper| {
        let limit = args.ranges.last()?.limit.as_ref()?;
        Some(if icmp.compare_user_keys(limit, &upper).is_gt() { limit.clone() } else { upper })
    });
    around
}

fn has_bounds_of(a: &ReadOptions, b: &ReadOptions) -> bool {
    a.iterate_lower_bound == b.iterate_lower_bound && a.iterate_upper_bound == b.iterate_upper_bound
}

impl DbIterator {
    /// Tells which ranges will be scanned: blocks that they need and that are not in the cache are read together, those of all
    /// files and of as many ranges as `args` has room for. To be followed by a [`seek`](Self::seek) to the start of each range,
    /// in their order (with `reverse`, a [`seek_for_prev`](Self::seek_for_prev) to the limit of each); ranges may be left out.
    /// From there to the next seek the range takes the place of `iterate_upper_bound`, and with `reverse` of
    /// `iterate_lower_bound` too. Any other positioning ends it: the iterator is then as if nothing had been prepared.
    ///
    /// The iterator is not valid afterwards, until it is positioned. Costs nothing but a copy of the ranges while all blocks are
    /// in the cache. With `pin_data` and in families with timestamps nothing is read ahead; the bounds are set all the same.
    /// # Errors
    /// `InvalidArgument` as for [`Db::new_multi_scan`](crate::Db::new_multi_scan), and if a range reaches beyond the bounds of an
    /// iterator with `pin_data`, which opens no other files any more. Nothing has changed then.
    pub fn prepare(&mut self, args: &MultiScanArgs) -> Result<()> {
        let statistics = self.db.engine.options.statistics.as_ref();
        let prepared = Prepared::new(args, &self.cf.icmp, &self.options, statistics)?;
        let stays = matches!((&self.iter, &self.watched), (Cursor::Plain(_), Watched::Stays));
        if stays && !has_bounds_of(&self.options, &prepared.around) {
            let what =
                "MultiScanArgs: a range reaches beyond the bounds of an iterator that stays at its files";
            return Err(Error::invalid_argument(what));
        }
        self.leave_ranges();
        if let Cursor::Plain(iter) = &mut self.iter {
            iter.forget_place();
            if !matches!(self.watched, Watched::Stays) {
                let ahead = prepared.ahead.clone();
                iter.park(|runs| {
                    runs.park();
                    runs.set_ahead(Some(ahead));
                });
                self.watched = Watched::Parked;
            }
        }
        self.prepared = Some(Box::new(prepared));
        Ok(())
    }

    /// Before a seek to `target`: its range is entered, or all are left if it is not where one begins.
    pub(super) fn enter_range(&mut self, target: &[u8], reverse: bool) {
        let Some(prepared) = &mut self.prepared else { return };
        let ranges = prepared.ahead.ranges();
        let begins_at = |number: &usize| match ranges.get(*number) {
            Some((start, _)) if !reverse => start == target,
            Some((_, limit)) => limit == Some(target),
            None => false,
        };
        let rest = (prepared.next..ranges.len()).filter(|_| prepared.reverse == reverse);
        let found = rest.filter(begins_at).find_map(|number| Some((number, ranges.get(number)?)));
        let Some((number, (start, limit))) = found else { return self.leave_ranges() };
        prepared.next = number + 1;
        prepared.ahead.enter(number);
        let lower = if reverse { Some(start) } else { self.options.iterate_lower_bound.as_deref() };
        self.iter.set_bounds(lower, limit);
    }

    /// Enters the range behind the one that was entered last. False if there is none.
    pub(in crate::db) fn enter_next_range(&mut self) -> bool {
        let Some(prepared) = &self.prepared else { return false };
        let (ahead, next, reverse) = (prepared.ahead.clone(), prepared.next, prepared.reverse);
        let Some((start, limit)) = ahead.ranges().get(next) else { return false };
        match limit {
            Some(limit) if reverse => self.seek_for_prev(limit),
            _ => self.seek(start),
        }
        true
    }

    /// As if nothing had been prepared. To be positioned next.
    pub(super) fn leave_ranges(&mut self) {
        let Some(prepared) = self.prepared.take() else { return };
        prepared.ahead.set_tables(None);
        if let Cursor::Plain(iter) = &mut self.iter {
            iter.inner_mut().set_ahead(None);
        }
        let ReadOptions { iterate_lower_bound: lower, iterate_upper_bound: upper, .. } = &self.options;
        self.iter.set_bounds(lower.as_deref(), upper.as_deref());
    }

    /// What was read ahead for the ranges that it was told of last.
    pub fn ahead_counts(&self) -> AheadCounts {
        self.prepared.as_ref().map_or_else(AheadCounts::default, |prepared| prepared.ahead.counts())
    }
}

impl Cursor {
    fn set_bounds(&mut self, lower: Option<&[u8]>, upper: Option<&[u8]>) {
        match self {
            Cursor::Plain(iter) => iter.set_bounds(lower, upper),
            Cursor::Timestamped(iter) => iter.set_bounds(lower, upper),
            Cursor::Versions(iter) => iter.set_bounds(lower, upper),
            Cursor::Gone => {}
        }
    }
}
