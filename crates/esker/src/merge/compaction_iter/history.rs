//! Versions of keys with user-defined timestamps, in a flush or compaction.
//!
//! In: versions of one key, newest timestamp first; the oldest readable timestamp. Out: the
//! versions that no read can reach.
//!
//! Reads have timestamps at or above that bound. So of the versions below it, a reader uses only
//! the newest one that its sequence number sees, and stops there unless that is an operand.
//!
//! Source: RocksDB `db/compaction/compaction_iterator.cc` (`full_history_ts_low_`).

use super::{CompactionIterator, Head, Source};
use crate::compaction_filter::FilterDecision;
use esker_base::{Result, ValueType};
use esker_format::cursor::InternalIterator;
use esker_format::key::InternalKeyComparator;
use esker_format::range_del::RangeTombstone;

/// The state for the versions of one key.
#[derive(Debug, Default)]
pub(super) struct KeyHistory {
    /// The key, without its timestamp; `None` before the first key.
    key: Option<Vec<u8>>,
    /// The stripe of a version that replaces all older ones for the readers that see it.
    closed: Option<usize>,
    /// The key of the last output version, without its timestamp.
    last_shown: Option<Vec<u8>>,
}

impl KeyHistory {
    /// Whether the last output had another key, timestamps left out.
    pub(super) fn is_another_plain_key(&mut self, icmp: &InternalKeyComparator, user_key: &[u8]) -> bool {
        let (plain, _) = icmp.split_timestamp(user_key);
        let is_another = self.last_shown.as_deref() != Some(plain);
        if is_another {
            self.last_shown = Some(plain.to_vec());
        }
        is_another
    }
}

impl<I: InternalIterator> CompactionIterator<I> {
    /// Skips the input's version if it is newer than `trim_ts`, or if no reader can reach it. With
    /// `keep_history`.
    pub(super) fn is_trimmed(&mut self, head: Head) -> bool {
        if let Some(newest) = &self.options.trim_ts {
            let (_, timestamp) = self.icmp.split_timestamp(&self.user_key);
            if self.icmp.compare_timestamps(timestamp, newest).is_gt() {
                self.stats.dropped_obsolete += 1;
                self.consume();
                return true;
            }
        }
        let Some(low) = &self.options.full_history_ts_low else { return false };
        let (plain, timestamp) = self.icmp.split_timestamp(&self.user_key);
        let history = &mut self.history;
        if history.key.as_deref() != Some(plain) {
            history.key = Some(plain.to_vec());
            history.closed = None;
        }
        if self.icmp.compare_timestamps(timestamp, low).is_ge() {
            return false;
        }
        if history.closed.is_some_and(|closed| closed <= head.stripe) {
            self.stats.dropped_hidden += 1;
            self.consume();
            return true;
        }
        if matches!(head.value_type, ValueType::Merge | ValueType::SingleDeletion) {
            return false;
        }
        history.closed = Some(head.stripe);
        let deletes = matches!(head.value_type, ValueType::Deletion | ValueType::DeletionWithTimestamp);
        let is_obsolete = deletes && head.stripe == 0 && self.nothing_beyond();
        if is_obsolete {
            self.stats.dropped_obsolete += 1;
            self.consume();
        }
        is_obsolete
    }

    /// Outputs an entry with the versions that it hides, unless the filter drops it.
    pub(super) fn carry_through(&mut self, head: Head) -> Result<()> {
        if self.is_skipped(head) {
            self.stats.dropped_by_filter += 1;
            self.consume();
            return Ok(());
        }
        match head.value_type {
            ValueType::Merge => {
                // An operand does not replace older versions.
                self.closed = None;
                return self.carry_operand_through(head);
            }
            ValueType::ValuePreferredSeqno => {
                self.closed = Some(head.stripe);
                return self.keep_timed_value(head);
            }
            _ => self.closed = Some(head.stripe),
        }
        self.show(head.sequence, head.value_type, Source::Input);
        Ok(())
    }

    /// Outputs an operand, as the filter decides.
    fn carry_operand_through(&mut self, head: Head) -> Result<()> {
        let operand = self.input.value();
        let filter = self.options.compaction_filter.as_ref().filter(|_| self.is_tip(head.stripe));
        let decision = filter.map_or(FilterDecision::Keep, |filter| {
            filter.filter_merge_operand(self.options.filter_level, &self.user_key, operand)
        });
        match decision {
            FilterDecision::Remove => {
                self.stats.dropped_by_filter += 1;
                self.consume();
            }
            FilterDecision::ChangeValue(changed) => {
                self.changed = changed;
                self.show(head.sequence, ValueType::Merge, Source::Changed);
            }
            // Other decisions have no meaning for an operand.
            _ => self.show(head.sequence, ValueType::Merge, Source::Input),
        }
        Ok(())
    }

    /// Puts a deletion at the timestamp of a version that the filter has removed: otherwise the
    /// previous version would reappear. The input has left the version. The deletion is dropped
    /// where any other deletion would be.
    pub(super) fn delete_version(&mut self, head: Head, deletion: ValueType) {
        let (_, timestamp) = self.icmp.split_timestamp(&self.user_key);
        let low = self.options.full_history_ts_low.as_deref();
        let is_old = low.is_some_and(|low| self.icmp.compare_timestamps(timestamp, low).is_lt());
        if is_old && head.stripe == 0 && self.nothing_beyond() {
            self.stats.dropped_obsolete += 1;
        } else {
            self.show(head.sequence, deletion, Source::Empty);
        }
    }
}

/// Whether a family with history keeps entries of this type because they need older versions.
pub(super) fn is_carried_through(value_type: ValueType) -> bool {
    value_type.is_point_deletion() || matches!(value_type, ValueType::Merge | ValueType::ValuePreferredSeqno)
}

/// The part of a tombstone with timestamps from `lower` to `upper`; timestamps of these bounds are
/// ignored.
pub(crate) fn clipped(
    tombstone: &RangeTombstone,
    icmp: &InternalKeyComparator,
    lower: Option<&[u8]>,
    upper: Option<&[u8]>,
) -> Option<RangeTombstone> {
    let plain = icmp.without_timestamp();
    let ((mut start, timestamp), (mut end, _)) =
        (icmp.split_timestamp(&tombstone.start), icmp.split_timestamp(&tombstone.end));
    if let Some((lower, _)) = lower.map(|key| icmp.split_timestamp(key))
        && plain.compare_user_keys(lower, start).is_gt()
    {
        start = lower;
    }
    if let Some((upper, _)) = upper.map(|key| icmp.split_timestamp(key))
        && plain.compare_user_keys(upper, end).is_lt()
    {
        end = upper;
    }
    let is_empty = plain.compare_user_keys(start, end).is_ge();
    let with_timestamp = |key: &[u8]| [key, timestamp].concat();
    (!is_empty).then(|| RangeTombstone::new(with_timestamp(start), with_timestamp(end), tombstone.seq))
}
