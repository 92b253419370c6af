//! Plug-ins of users, with the time that they take.
//!
//! In: a family's merge operator or compaction filter. Out: the same plug-in, whose calls add their
//! nanoseconds to the tickers `merge.operation.time.nanos` and `filter.operation.time.nanos` and to
//! the perf context.

use crate::compaction_filter::{CompactionFilter, EntityColumns, FilterDecision};
use esker_base::merge_operator::{MergeBase, MergeOperator, MergeOperatorRef, MergeOutcome};
use esker_base::perf_time;
use esker_base::stats::{Statistics, Ticker};
use esker_base::sync::Arc;
use esker_env::Clock;

/// Takes the times of calls.
#[derive(Clone)]
struct CallTimes {
    statistics: Option<Arc<Statistics>>,
    clock: Arc<dyn Clock>,
    ticker: Ticker,
}

impl CallTimes {
    fn time<T>(&self, call: impl FnOnce() -> T) -> T {
        let Some(statistics) = &self.statistics else { return call() };
        let begun = self.clock.monotonic_nanos();
        let out = call();
        statistics.record_tick(self.ticker, self.clock.monotonic_nanos().saturating_sub(begun));
        out
    }
}

/// A merge operator whose calls are timed.
struct TimedMergeOperator {
    inner: MergeOperatorRef,
    times: CallTimes,
}

/// Times the calls of `operator`, in place of former statistics.
pub(crate) fn timed_operator(
    operator: &MergeOperatorRef,
    statistics: Option<Arc<Statistics>>,
    clock: Arc<dyn Clock>,
) -> MergeOperatorRef {
    let inner = operator.untimed().unwrap_or_else(|| operator.clone());
    let times = CallTimes { statistics, clock, ticker: Ticker::MergeOperationTotalTime };
    Arc::new(TimedMergeOperator { inner, times })
}

impl MergeOperator for TimedMergeOperator {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn option_text(&self) -> String {
        self.inner.option_text()
    }
    fn takes_operands_of(&self, name: &str) -> bool {
        self.inner.takes_operands_of(name)
    }
    fn full_merge(&self, key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        perf_time!(merge_operator_time_nanos, self.times.clock, {
            self.times.time(|| self.inner.full_merge(key, existing, operands))
        })
    }
    fn partial_merge(&self, key: &[u8], left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
        perf_time!(merge_operator_time_nanos, self.times.clock, {
            self.times.time(|| self.inner.partial_merge(key, left, right))
        })
    }
    fn full_merge_v3<'a>(
        &self,
        key: &[u8],
        base: MergeBase<'a>,
        operands: &[&'a [u8]],
    ) -> Option<MergeOutcome<'a>> {
        perf_time!(merge_operator_time_nanos, self.times.clock, {
            self.times.time(|| self.inner.full_merge_v3(key, base, operands))
        })
    }
    fn has_full_merge_v3(&self) -> bool {
        self.inner.has_full_merge_v3()
    }
    fn should_merge(&self, operands: &[&[u8]]) -> bool {
        self.inner.should_merge(operands)
    }
    fn has_should_merge(&self) -> bool {
        self.inner.has_should_merge()
    }
    fn allow_single_operand(&self) -> bool {
        self.inner.allow_single_operand()
    }
    fn untimed(&self) -> Option<MergeOperatorRef> {
        Some(self.inner.clone())
    }
}

/// A compaction filter whose calls are timed.
struct TimedFilter {
    inner: Box<dyn CompactionFilter>,
    times: CallTimes,
}

/// Times the calls of `filter`, if the statistics collect detailed times.
pub(crate) fn timed_filter(
    filter: Box<dyn CompactionFilter>,
    statistics: Option<&Arc<Statistics>>,
    clock: &Arc<dyn Clock>,
) -> Box<dyn CompactionFilter> {
    match statistics.filter(|statistics| statistics.collects_detailed_times()) {
        Some(statistics) => {
            let (statistics, clock) = (Some(statistics.clone()), clock.clone());
            let times = CallTimes { statistics, clock, ticker: Ticker::FilterOperationTotalTime };
            Box::new(TimedFilter { inner: filter, times })
        }
        None => filter,
    }
}

impl CompactionFilter for TimedFilter {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn filter(&self, level: usize, key: &[u8], value: &[u8]) -> FilterDecision {
        self.times.time(|| self.inner.filter(level, key, value))
    }
    fn filter_merge_operand(&self, level: usize, key: &[u8], operand: &[u8]) -> FilterDecision {
        self.times.time(|| self.inner.filter_merge_operand(level, key, operand))
    }
    fn filter_entity(&self, level: usize, key: &[u8], columns: &mut dyn EntityColumns) -> FilterDecision {
        self.times.time(|| self.inner.filter_entity(level, key, columns))
    }
    fn filter_blob_by_key(&self, level: usize, key: &[u8]) -> Option<FilterDecision> {
        self.times.time(|| self.inner.filter_blob_by_key(level, key))
    }
}
