//! Iterators with planned ranges.
//!
//! In: ranges. Out: the same rows as without a plan. Within a range, the iterator ends at the
//! range's end. When the first block of the ranges is missing in the cache, their blocks are read
//! together (`esker_table::ScansAhead`).
//!
//! Invariants
//!  1. While `planned` is set, the bounds are those of the current range; otherwise those of the
//!     read options.
//!  2. Blocks are read ahead from the files that the cursor reads: `Runs` reports them whenever
//!     they change. If the cursor had ranges before, its tables are known already: no table is
//!     reported again, and nothing is allocated.
//!  3. The cursor reads all files that overlap the bounds of the read options or any of the ranges.

use super::runs::{PlanTarget, Runs, iterator_table_options};
use super::{Cursor, DbIterator, KeepAlive, Watched, deleted_run_memory};
use crate::options::{MultiScanArgs, ReadOptions};
use esker_base::stats::{Histogram, Statistics, Ticker};
use esker_base::sync::Arc;
use esker_base::{Error, Result, perf_count};
use esker_format::key::InternalKeyComparator;
use esker_table::{AheadCounts, AheadOptions, ScansAhead};

/// Ranges to be scanned one after the other.
#[derive(Debug)]
pub(super) struct PlannedRanges {
    reverse: bool,
    /// The index of the next range.
    next: usize,
    target: PlanTarget,
    /// The options for opening files, if they differ from the read options: their bounds enclose
    /// the read options' bounds and all ranges.
    pub(super) around: Option<Box<ReadOptions>>,
}

impl PlannedRanges {
    /// Plans the ranges of `args`, if there are any, and reports them to `runs`. REQUIRES: `check`
    /// accepted the ranges.
    pub(super) fn new(
        args: &MultiScanArgs,
        runs: Option<&mut Runs>,
        options: &ReadOptions,
        statistics: Option<&Arc<Statistics>>,
    ) -> PlannedRanges {
        let target = match runs {
            Some(runs) => runs.plan(&args.ranges, ahead_options(args, options), statistics),
            None => PlanTarget { ranges: Arc::new(args.ranges.clone()), ahead: None },
        };
        PlannedRanges { reverse: args.reverse, next: 0, target, around: None }
    }

    /// Makes range `number` the current one. Returns its start and limit, if there is such a range.
    fn enter(
        &mut self,
        number: usize,
        options: &ReadOptions,
        iter: &mut Cursor,
    ) -> Option<(&[u8], Option<&[u8]>)> {
        let (start, limit) = self.target.ranges.get(number)?;
        self.next = number + 1;
        if let Some(ahead) = &self.target.ahead {
            ahead.enter(number);
        }
        let lower = if self.reverse { Some(start) } else { options.iterate_lower_bound.as_deref() };
        iter.set_bounds(lower, limit);
        Some((start, limit))
    }
}

/// Checks and counts ranges.
/// # Errors
/// `InvalidArgument`: see [`DbIterator::prepare`].
pub(super) fn check(
    args: &MultiScanArgs,
    icmp: &InternalKeyComparator,
    statistics: Option<&Arc<Statistics>>,
) -> Result<()> {
    let count = |ticker| statistics.into_iter().for_each(|s| s.record_tick(ticker, 1));
    count(Ticker::MultiscanPrepareCalls);
    perf_count!(multiscan_prepare_count);
    args.check(&icmp.without_timestamp()).inspect_err(|_| count(Ticker::MultiscanPrepareErrors))
}

fn ahead_options(args: &MultiScanArgs, options: &ReadOptions) -> AheadOptions {
    AheadOptions {
        table: iterator_table_options(options),
        coalesced_gap_bytes: args.io_coalesce_threshold,
        most_bytes: args.max_prefetch_size,
        reverse: args.reverse,
    }
}

/// The readahead for the ranges of `args`.
/// # Errors
/// `InvalidArgument`: see [`DbIterator::prepare`].
pub(crate) fn new_ahead(
    args: &MultiScanArgs,
    icmp: &InternalKeyComparator,
    options: &ReadOptions,
) -> Result<Arc<ScansAhead>> {
    check(args, icmp, None)?;
    let ahead = Arc::<ScansAhead>::default();
    ahead.plan(&args.ranges, ahead_options(args, options), None);
    Ok(ahead)
}

/// The options of an iterator over these ranges: its bounds enclose all of them.
pub(crate) fn within_ranges(mut options: ReadOptions, args: &MultiScanArgs) -> ReadOptions {
    if args.reverse {
        options.iterate_lower_bound = args.ranges.get(0).map(|(start, _)| start.to_vec());
    }
    options.iterate_upper_bound = args.ranges.last().and_then(|(_, limit)| Some(limit?.to_vec()));
    options
}

/// The options with bounds that enclose their own and the ranges of `args`. REQUIRES: the ranges
/// ascend.
fn around(options: &ReadOptions, args: &MultiScanArgs, icmp: &InternalKeyComparator) -> ReadOptions {
    let mut around = options.clone();
    if let (true, Some(lower), Some((start, _))) =
        (args.reverse, &mut around.iterate_lower_bound, args.ranges.get(0))
        && icmp.compare_user_keys(start, lower).is_lt()
    {
        *lower = start.to_vec();
    }
    around.iterate_upper_bound = around.iterate_upper_bound.and_then(|upper| {
        let limit = args.ranges.last()?.1?;
        Some(if icmp.compare_user_keys(limit, &upper).is_gt() { limit.to_vec() } else { upper })
    });
    around
}

fn has_bounds_of(a: &ReadOptions, b: &ReadOptions) -> bool {
    a.iterate_lower_bound == b.iterate_lower_bound && a.iterate_upper_bound == b.iterate_upper_bound
}

impl DbIterator {
    /// Announces the ranges that will be scanned. Blocks of the ranges that are not in the cache
    /// are read together, from all files, within the limits of `args`. Then call
    /// [`seek`](Self::seek) to the start of each range, in order (with `reverse`,
    /// [`seek_for_prev`](Self::seek_for_prev) to the limit of each); ranges may be left out. Until
    /// the next seek the range replaces `iterate_upper_bound` and, with `reverse`,
    /// `iterate_lower_bound` too. Any other positioning drops the plan.
    ///
    /// The iterator is then invalid until it is positioned. If all blocks are in the cache, the
    /// call costs only a copy of the ranges. If a range reaches beyond the iterator's bounds, the
    /// call opens files as a new iterator does.
    ///
    /// An iterator that cannot leave its super version gets the bounds but no readahead: with
    /// `pin_data`, `ignore_range_deletions`, `table_filter` or another `read_tier` than `ReadAll`,
    /// in families with timestamps, and on a secondary.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// let mut ranges = esker::MultiScanArgs::new();
    /// ranges.insert("a", "b");
    /// ranges.insert("m", "n");
    /// let mut iter = db.iter()?;
    /// iter.prepare(&ranges)?;
    /// iter.seek("a");
    /// println!("{:?}", iter.ahead_counts());
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: there are no ranges, or they overlap or do not ascend
    /// ([`Db::new_multi_scan`](crate::Db::new_multi_scan)); or a range reaches beyond the bounds of
    /// an iterator that cannot leave its super version, which opens no further files · `Corruption`
    /// and `IoError` from opening level-0 files · `Incomplete` and `TimedOut`: `read_tier` or
    /// `deadline` stops the opening of a file. The iterator is then unchanged.
    pub fn prepare(&mut self, args: &MultiScanArgs) -> Result<()> {
        let db = self.db.clone();
        let _watch = db.engine.time(Histogram::MultiscanPrepareMicros);
        let statistics = db.engine.options.statistics.as_ref();
        check(args, &self.cf.icmp, statistics)?;
        let around = around(&self.options, args, &self.cf.icmp.without_timestamp());
        let around = (!has_bounds_of(&self.options, &around)).then(|| Box::new(around));
        let stays = matches!((&self.iter, &self.watched), (Cursor::Plain(_), Watched::Stays));
        if stays && around.is_some() {
            let what =
                "MultiScanArgs: a range reaches beyond the bounds of an iterator that stays at its files";
            return Err(Error::invalid_argument(what));
        }
        let reopened = match (&self.iter, &around) {
            // The ranges may need files that are not open.
            (Cursor::Plain(iter), Some(around)) => {
                let super_version = self.cf.pinned_super_version();
                Some((Runs::new(&self.cf, &super_version, around, iter.sequence())?, super_version))
            }
            _ => None,
        };
        self.leave_ranges();
        if let Some((runs, super_version)) = reopened {
            let memory = deleted_run_memory(&super_version, &self.options);
            self.watched = Watched::SuperVersion(super_version.clone());
            let iter = self.plain();
            iter.set_deleted_run_memory(memory);
            iter.refresh(iter.sequence(), Some(super_version as KeepAlive), |old| *old = runs);
        }
        let mut planned = match &mut self.iter {
            Cursor::Plain(iter) if !stays => {
                iter.forget_place();
                PlannedRanges::new(args, Some(iter.inner_mut()), &self.options, statistics)
            }
            Cursor::Plain(iter) => {
                iter.forget_place();
                PlannedRanges::new(args, None, &self.options, statistics)
            }
            _ => PlannedRanges::new(args, None, &self.options, statistics),
        };
        planned.around = around;
        self.planned = Some(planned);
        Ok(())
    }

    /// Called before a seek to `target`. Enters the range that begins there, or drops the plan if
    /// no range does.
    pub(super) fn enter_range(&mut self, target: &[u8], reverse: bool) {
        let Some(planned) = &mut self.planned else { return };
        let ranges = &planned.target.ranges;
        let begins_at = |number: &usize| match ranges.get(*number) {
            Some((start, _)) if !reverse => start == target,
            Some((_, limit)) => limit == Some(target),
            None => false,
        };
        let mut rest = (planned.next..ranges.len()).filter(|_| planned.reverse == reverse);
        let Some(number) = rest.find(begins_at) else { return self.leave_ranges() };
        planned.enter(number, &self.options, &mut self.iter);
    }

    /// Enters the next range, and moves to its first entry (its last with `reverse`). Returns false
    /// if there is no next range.
    pub(crate) fn enter_next_range(&mut self) -> bool {
        self.catch_up();
        self.leave_old_super_version();
        let Some(planned) = &mut self.planned else { return false };
        let reverse = planned.reverse;
        let Some((start, limit)) = planned.enter(planned.next, &self.options, &mut self.iter) else {
            return false;
        };
        match limit {
            Some(limit) if reverse => each!(&mut self.iter, iter => iter.seek_for_prev(limit)),
            _ => each!(&mut self.iter, iter => iter.seek(start)),
        }
        true
    }

    /// Drops the plan. The caller positions the iterator next.
    pub(super) fn leave_ranges(&mut self) {
        let Some(planned) = self.planned.take() else { return };
        drop(planned);
        if let Cursor::Plain(iter) = &mut self.iter {
            iter.inner_mut().forget_ranges();
        }
        let ReadOptions { iterate_lower_bound: lower, iterate_upper_bound: upper, .. } = &self.options;
        self.iter.set_bounds(lower.as_deref(), upper.as_deref());
    }

    /// Counts of readahead for the last planned ranges.
    pub fn ahead_counts(&self) -> AheadCounts {
        let ahead = self.planned.as_ref().and_then(|planned| planned.target.ahead.as_ref());
        ahead.map_or_else(AheadCounts::default, |ahead| ahead.counts())
    }
}

impl Cursor {
    /// The runs, if they can take planned ranges.
    pub(super) fn runs(&mut self) -> Option<&mut Runs> {
        match self {
            Cursor::Plain(iter) => Some(iter.inner_mut()),
            Cursor::Timestamped(_) | Cursor::Versions(_) | Cursor::Gone => None,
        }
    }

    fn set_bounds(&mut self, lower: Option<&[u8]>, upper: Option<&[u8]>) {
        match self {
            Cursor::Plain(iter) => iter.set_bounds(lower, upper),
            Cursor::Timestamped(iter) => iter.set_bounds(lower, upper),
            Cursor::Versions(iter) => iter.set_bounds(lower, upper),
            Cursor::Gone => {}
        }
    }
}
