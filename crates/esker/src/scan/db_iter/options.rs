//! Options and counters of an iterator.

use crate::deleted_runs::DeletedRunMemoryRef;
use crate::merge::level::set_bound;
use esker_base::merge_operator::MergeOperatorRef;
use esker_base::prefix::SliceTransformRef;
use esker_base::stats::{Statistics, Ticker};
use esker_base::sync::Arc;
use esker_base::{Error, Result, SequenceNumber, perf_add};
use esker_table::blob::BlobReader;

/// Options of an iterator. Names and defaults are RocksDB's, of `ReadOptions` and the family's
/// options.
#[derive(Clone, Debug)]
pub(crate) struct DbIterOptions {
    /// Entries newer than this are invisible.
    pub sequence: SequenceNumber,
    /// The first user key that may be shown.
    pub lower_bound: Option<Vec<u8>>,
    /// The first user key beyond the bounds.
    pub upper_bound: Option<Vec<u8>>,
    /// Stay within the prefix of the seek target.
    pub prefix_same_as_start: bool,
    /// The prefix extractor; without it `prefix_same_as_start` does nothing.
    pub prefix_extractor: Option<SliceTransformRef>,
    /// Hidden entries of one user key after which the cursor seeks instead of stepping.
    pub max_sequential_skip_in_iterations: u64,
    /// Hidden entries in one call after which it fails with `Incomplete`; 0: never.
    pub max_skippable_internal_keys: u64,
    /// Whether prefix filters may exclude files: true if the files are opened with
    /// `prefix_extractor`.
    pub asks_prefix_filters: bool,
    /// Combines merge operands.
    pub merge_operator: Option<MergeOperatorRef>,
    /// Reads values in blob files. Without it, reads of them fail.
    pub blobs: Option<BlobReader>,
    /// Leave values in blob files unread until `prepare_value`.
    pub allow_unprepared_value: bool,
    /// The memory of deleted runs; `None`: runs are not remembered.
    pub(crate) deleted_run_memory: Option<DeletedRunMemoryRef>,
    /// Gets the counters when the iterator is dropped or refreshed.
    pub statistics: Option<Arc<Statistics>>,
}

impl DbIterOptions {
    /// Sets the bounds. Allocates only if a bound is longer than its earlier values.
    pub(crate) fn set_bounds(&mut self, lower: Option<&[u8]>, upper: Option<&[u8]>) {
        set_bound(&mut self.lower_bound, lower);
        set_bound(&mut self.upper_bound, upper);
    }

    /// The prefix of `user_key`, a key without a timestamp, if the cursor must stay within it.
    pub(crate) fn prefix_to_stay_in(&self, user_key: &[u8]) -> Option<Vec<u8>> {
        let extractor = self.prefix_extractor.as_ref().filter(|_| self.prefix_same_as_start)?;
        extractor.transform(user_key).map(<[u8]>::to_vec)
    }

    /// Whether a key, without a timestamp, lies outside `prefix`.
    #[inline]
    pub(crate) fn leaves(&self, prefix: Option<&[u8]>, user_key: &[u8]) -> bool {
        prefix.is_some_and(|prefix| {
            let extractor = self.prefix_extractor.as_ref();
            extractor.is_some_and(|extractor| extractor.transform(user_key) != Some(prefix))
        })
    }

    /// Checks the number of hidden entries in one move.
    /// # Errors
    /// `Incomplete` if it exceeds the limit.
    pub(crate) fn check_skipped(&self, skipped: u64) -> Result<()> {
        match self.max_skippable_internal_keys {
            0 => Ok(()),
            max if skipped <= max => Ok(()),
            _ => Err(Error::incomplete("Too many internal keys skipped.")),
        }
    }
}

impl Default for DbIterOptions {
    fn default() -> DbIterOptions {
        DbIterOptions {
            sequence: SequenceNumber::MAX,
            lower_bound: None,
            upper_bound: None,
            prefix_same_as_start: false,
            prefix_extractor: None,
            asks_prefix_filters: true,
            max_sequential_skip_in_iterations: 8,
            max_skippable_internal_keys: 0,
            merge_operator: None,
            blobs: None,
            allow_unprepared_value: false,
            deleted_run_memory: None,
            statistics: None,
        }
    }
}

/// Counts of an iterator's work since it was made or refreshed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct DbIterCounters {
    /// Positioning calls (`NUMBER_DB_SEEK`).
    pub seeks: u64,
    /// Positioning calls or steps that found an entry (`NUMBER_DB_SEEK_FOUND`).
    pub seeks_found: u64,
    /// Steps forward (`NUMBER_DB_NEXT`).
    pub nexts: u64,
    /// Positioning calls or steps that found an entry (`NUMBER_DB_NEXT_FOUND`).
    pub nexts_found: u64,
    /// Steps backward (`NUMBER_DB_PREV`).
    pub prevs: u64,
    /// Positioning calls or steps that found an entry (`NUMBER_DB_PREV_FOUND`).
    pub prevs_found: u64,
    /// Seeks that replaced many steps (`NUMBER_OF_RESEEKS_IN_ITERATION`).
    pub reseeks: u64,
    /// Skips of runs of deleted keys.
    pub skips: u64,
    /// Hidden entries that were stepped over (`NUMBER_ITER_SKIP`).
    pub skipped: u64,
    /// Bytes of keys and values shown (`ITER_BYTES_READ`); counted only with statistics.
    pub bytes_read: u64,
}

impl DbIterCounters {
    /// Adds the counts to those of the calling thread.
    pub(super) fn add_to_perf_context(&self) {
        perf_add!(iter_seek_count, self.seeks);
        perf_add!(iter_next_count, self.nexts);
        perf_add!(iter_prev_count, self.prevs);
        perf_add!(iter_read_bytes, self.bytes_read);
    }

    pub(super) fn add_to(&self, statistics: &Statistics) {
        for (ticker, count) in [
            (Ticker::NumberDbSeek, self.seeks),
            (Ticker::NumberDbSeekFound, self.seeks_found),
            (Ticker::NumberDbNext, self.nexts),
            (Ticker::NumberDbNextFound, self.nexts_found),
            (Ticker::NumberDbPrev, self.prevs),
            (Ticker::NumberDbPrevFound, self.prevs_found),
            (Ticker::NumberOfReseeksInIteration, self.reseeks),
            (Ticker::NumberIterSkip, self.skipped),
            (Ticker::IterBytesRead, self.bytes_read),
        ] {
            if count > 0 {
                statistics.record_tick(ticker, count);
            }
        }
    }
}
