//! Reads that record their steps.
//!
//! In: a read. Out: its [`Explanation`]. Lookups go through twins of `get/search.rs` and of the
//! tables' `get` (`lookup.rs`). Scans go through the real iterators, with a counting cursor around
//! each run (`watch.rs`). Reads that are not explained therefore pay nothing.
//!
//! Invariants
//!  1. The outcome is that of the explained read, at the same sequence number.
//!  2. Blocks go into the cache and statistics are counted as in the explained read.

mod lookup;
mod watch;

use crate::cf::ColumnFamily;
use crate::get::search::ReadContext;
use crate::instance::DbInner;
use crate::observe::{Explanation, ScanRead};
use crate::options::{MultiScanArgs, ReadOptions, table_read_options};
use crate::scan::DbIter;
use crate::scan::iterator::{RunWatch, check_tier, new_ahead, watched_iter, within_ranges};
use esker_base::perf_context::{PerfContext, PerfLevel, perf_level, set_perf_level};
use esker_base::sync::Arc;
use esker_base::{Error, Result, SequenceNumber};
use esker_env::Clock;
use esker_format::key::LookupKey;
use esker_table::ScansAhead;
use lookup::ExplainedLookup;
use watch::Watch;

/// The rows that a scan should return.
#[derive(Clone, Default)]
pub struct ExplainScan {
    /// The key at which the scan starts; `None`: the first key, or the last if `reverse`. Bounds
    /// are in the read options.
    pub from: Option<Vec<u8>>,
    /// Maximum number of rows.
    pub rows: u64,
    /// Whether to scan backward.
    pub reverse: bool,
}

esker_base::debug_with_text!(ExplainScan {
    text from,
    rows,
    reverse,
});

/// A family whose reads are explained, and the read options.
pub(crate) struct Explainer<'e> {
    db: &'e DbInner,
    cf: &'e ColumnFamily,
    options: &'e ReadOptions,
    /// The time at which the explanation began.
    start: u64,
}

impl<'e> Explainer<'e> {
    /// Begins an explanation.
    /// # Errors
    /// `NotSupported` for timestamps, for the write policies `WritePrepared` and `WriteUnprepared`,
    /// and in a forked child · `InvalidArgument` for a family or a snapshot of another database ·
    /// `ShutdownInProgress` after the close.
    pub(crate) fn begin(
        db: &'e DbInner,
        cf: &'e ColumnFamily,
        options: &'e ReadOptions,
    ) -> Result<Explainer<'e>> {
        if cf.icmp.timestamp_size() > 0 || options.timestamp.is_some() {
            return Err(Error::not_supported("explain: families with user-defined timestamps"));
        }
        if db.engine.commits.is_some() {
            return Err(Error::not_supported("explain: a database with write_policy WritePrepared"));
        }
        db.check_family(cf)?;
        if let Some(snapshot) = &options.snapshot {
            db.check_own(snapshot)?;
        }
        let start = db.engine.env.clock.monotonic_nanos();
        Ok(Explainer { db, cf, options, start })
    }

    fn clock(&self) -> &'e Arc<dyn Clock> {
        &self.db.engine.env.clock
    }

    fn nanos(&self) -> u64 {
        self.clock().monotonic_nanos() - self.start
    }

    fn explanation(&self, operation: &'static str, sequence: SequenceNumber) -> Explanation {
        let family = self.cf.name.clone();
        Explanation { operation, family, sequence, keys: Vec::new(), scan: None, nanos: self.nanos() }
    }

    /// Explains lookups of these keys: each distinct key once, in the family's order.
    pub(crate) fn lookups<K: AsRef<[u8]>>(&self, operation: &'static str, keys: &[K]) -> Explanation {
        let (super_version, sequence) = self.db.pinned_read_point(self.cf, self.options, None);
        let table_options = table_read_options(self.options);
        let files_only = self.db.reads_files_only(self.options);
        let context =
            ReadContext { files_only, ..ReadContext::new(self.cf, self.options, &table_options, None) };
        let mut sorted: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        let icmp = &self.cf.icmp;
        sorted.sort_by(|a, b| icmp.compare_user_keys(a, b));
        sorted.dedup_by(|a, b| icmp.same_user_key(a, b));
        let read = |key| {
            let lookup = LookupKey::new(key, sequence);
            ExplainedLookup::new(&**self.clock(), &super_version, &context, &lookup).run()
        };
        let keys = counting(|| sorted.into_iter().map(read).collect());
        Explanation { keys, ..self.explanation(operation, sequence) }
    }

    /// Explains a scan, run by run.
    /// # Errors
    /// `NotSupported` for a read tier of persisted data only.
    pub(crate) fn scan(&self, operation: &'static str, scan: &ExplainScan) -> Result<Explanation> {
        self.iterate(operation, None, |mut iter, read| {
            match (&scan.from, scan.reverse) {
                (Some(from), false) => iter.seek(from),
                (Some(from), true) => iter.seek_for_prev(from),
                (None, false) => iter.seek_to_first(),
                (None, true) => iter.seek_to_last(),
            }
            read_rows(&mut iter, read, scan.rows, scan.reverse)
        })
    }

    /// Explains scans of several ranges, run by run, with their readahead.
    /// # Errors
    /// `InvalidArgument` for ranges that `Db::new_multi_scan` refuses · `NotSupported` for a read
    /// tier of persisted data only.
    pub(crate) fn multi_scan(&self, args: &MultiScanArgs) -> Result<Explanation> {
        let ahead = new_ahead(args, &self.cf.icmp, self.options)?;
        let within = Explainer { options: &within_ranges(self.options.clone(), args), ..*self };
        within.iterate("multiscan", Some(ahead.clone()), |mut iter, read| {
            for (number, (start, limit)) in args.ranges.iter().enumerate() {
                ahead.enter(number);
                let lower =
                    if args.reverse { Some(start) } else { self.options.iterate_lower_bound.as_deref() };
                iter.set_bounds(lower, limit);
                match limit {
                    Some(limit) if args.reverse => iter.seek_for_prev(limit),
                    _ => iter.seek(start),
                }
                read_rows(&mut iter, read, u64::MAX, args.reverse)?;
            }
            read.ahead = Some(ahead.counts());
            Ok(())
        })
    }

    /// Runs `scan` on an iterator.
    fn iterate(
        &self,
        operation: &'static str,
        ahead: Option<Arc<ScansAhead>>,
        scan: impl FnOnce(DbIter, &mut ScanRead) -> Result<()>,
    ) -> Result<Explanation> {
        check_tier(self.options)?;
        let watch = Watch::new(self.clock().clone());
        let (super_version, sequence) = self.db.pinned_read_point(self.cf, self.options, None);
        let mut read = ScanRead::default();
        let before = PerfContext::current();
        let scanned = counting(|| {
            let watch = watch.clone() as Arc<dyn RunWatch>;
            let iter = watched_iter(self.cf, &super_version, self.options, sequence, (&watch, ahead))?;
            read.opening_nanos = self.nanos();
            scan(iter, &mut read)
        });
        let explanation = self.explanation(operation, sequence);
        read.error = scanned.err().map(|e| e.to_string());
        let after = PerfContext::current();
        read.skipped_entries = after.internal_key_skipped_count - before.internal_key_skipped_count;
        read.skipped_deletions = after.internal_delete_skipped_count - before.internal_delete_skipped_count;
        read.tombstone_seeks = after.internal_range_del_reseek_count - before.internal_range_del_reseek_count;
        read.operands = after.internal_merge_count - before.internal_merge_count;
        (read.runs, read.left_out) = watch.results(&super_version);
        Ok(Explanation { scan: Some(read), ..explanation })
    }
}

/// Steps through at most `rows` rows from the iterator's position.
fn read_rows(iter: &mut DbIter, read: &mut ScanRead, rows: u64, reverse: bool) -> Result<()> {
    while iter.valid() && read.rows < rows {
        read.rows += 1;
        read.row_bytes += (iter.key().len() + iter.value().len()) as u64;
        match &mut read.ends {
            Some((_, last)) => *last = iter.key().to_vec(),
            None => read.ends = Some((iter.key().to_vec(), iter.key().to_vec())),
        }
        if read.rows < rows {
            if reverse { iter.prev() } else { iter.next() }
        }
    }
    iter.status()
}

/// Calls `read` with this thread's counters switched on.
fn counting<R>(read: impl FnOnce() -> R) -> R {
    let level = perf_level();
    set_perf_level(level.max(PerfLevel::EnableCount));
    let result = read();
    set_perf_level(level);
    result
}

#[cfg(test)]
mod tests;
