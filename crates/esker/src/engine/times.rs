//! The times of sequence numbers, for families with `preserve_internal_time_seconds` or
//! `preclude_last_level_data_seconds`.
//!
//! In: the families' options, and a sample of the newest sequence number from time to time. Out:
//! the samples that a flush stores in its table. A database without such families has none.
//! Source: RocksDB `DBImpl::RecordSeqnoToTimeMapping`, `RegisterRecordSeqnoTimeWorker`.

use super::{DbState, Engine};
use esker_base::SequenceNumber;
use esker_base::sync::Arc;
use esker_format::seqno_to_time::{MAX_PAIRS, PAIRS_PER_FAMILY, SeqnoToTimeMapping};

/// The samples of one database. Guarded by the db mutex.
#[derive(Debug, Default)]
pub(crate) struct RecordedTimes {
    samples: Arc<SeqnoToTimeMapping>,
    /// Seconds for which samples are kept.
    seconds: u64,
    /// Samples to keep.
    capacity: usize,
}

impl RecordedTimes {
    /// The samples.
    pub(crate) fn samples(&self) -> &Arc<SeqnoToTimeMapping> {
        &self.samples
    }

    /// Replaces the samples, in a new database.
    pub(crate) fn begin_with(&mut self, samples: SeqnoToTimeMapping) {
        self.samples = Arc::new(samples);
    }

    fn record(&mut self, seqno: SequenceNumber, now: u64) {
        let samples = Arc::make_mut(&mut self.samples);
        // RocksDB, too, records 1 in place of 0.
        samples.append(seqno.max(SequenceNumber(1)), now);
        samples.forget_before(now, self.seconds);
        if samples.pairs().len() > self.capacity + self.capacity / 8 {
            samples.thin_out(self.capacity);
        }
    }
}

impl Engine {
    /// Records the newest sequence number and the time, if a family keeps times. Otherwise forgets
    /// all samples. Returns the seconds until the next sample is due. Reads each family's options.
    pub(crate) fn record_time(&self, state: &mut DbState) -> Option<u64> {
        let kept = state.families.values().map(|f| f.options.kept_seconds()).filter(|seconds| *seconds > 0);
        let range = kept.fold(None, |range: Option<(u64, u64)>, seconds| {
            let (shortest, longest) = range.unwrap_or((seconds, seconds));
            Some((shortest.min(seconds), longest.max(seconds)))
        });
        let Some((shortest, longest)) = range.filter(|_| !self.read_only) else {
            state.times = RecordedTimes::default();
            return None;
        };
        let most = u128::from(longest) * u128::from(PAIRS_PER_FAMILY) / u128::from(shortest);
        state.times.seconds = longest;
        state.times.capacity = usize::try_from(most).unwrap_or(MAX_PAIRS).min(MAX_PAIRS);
        // The number is read before the time: no entry up to it was written later.
        let newest = self.visible_sequence();
        state.times.record(newest, self.env.clock.now_seconds());
        Some(shortest.div_ceil(PAIRS_PER_FAMILY))
    }
}
