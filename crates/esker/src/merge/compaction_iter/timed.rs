//! Values with a preferred sequence number in a flush or compaction.
//!
//! In: the input at such a value. Out: a plain value, under the preferred number or its own, or a
//! value that still carries the preferred number. In memtables a value carries the time of its
//! write instead.

use super::{CompactionIterator, Head, Source};
use esker_base::{Error, Result, SequenceNumber, ValueType};
use esker_format::cursor::InternalIterator;
use esker_format::seqno_to_time::SeqnoToTimeMapping;

/// The meaning of the last eight bytes of the inputs' timed values.
#[derive(Debug)]
pub(crate) enum TimedValues {
    /// The preferred sequence number, which stays.
    Preferred,
    /// Anything: values become plain ones, because readers do not know timed ones or because no
    /// times are recorded.
    Plain,
    /// The time of the write. The samples turn it into a preferred sequence number.
    Written(SeqnoToTimeMapping),
}

impl<I: InternalIterator> CompactionIterator<I> {
    /// Outputs a value with a preferred, older sequence number. The value gets that number if all
    /// older versions are among the inputs and hidden by it, unless a range tombstone would then
    /// hide it. RocksDB `db/compaction/compaction_iterator.cc`.
    pub(super) fn settle_timed_value(&mut self, head: Head) -> Result<()> {
        let (value, preferred) = split_timed_value(self.input.value(), &self.user_key)?;
        let sequence = preferred.min(head.sequence);
        let is_safe = head.stripe == 0 && self.nothing_beyond();
        if is_safe && !self.options.range_dels.should_delete(&self.user_key, sequence, head.stripe) {
            self.changed.clear();
            self.changed.extend_from_slice(&self.input.value()[..value]);
            self.show(sequence, ValueType::Value, Source::Changed);
            return Ok(());
        }
        self.keep_timed_value(head)
    }

    /// Outputs a value under its own sequence number, with its preferred number if readers support
    /// it.
    pub(super) fn keep_timed_value(&mut self, head: Head) -> Result<()> {
        let (value, time) = split_timed_value(self.input.value(), &self.user_key)?;
        let preferred = match &self.options.timed_values {
            TimedValues::Preferred => {
                self.show(head.sequence, head.value_type, Source::Input);
                return Ok(());
            }
            TimedValues::Plain => None,
            TimedValues::Written(times) => Some(times.seqno_at(time.0)).filter(|n| *n < head.sequence),
        };
        self.changed.clear();
        self.changed.extend_from_slice(&self.input.value()[..value]);
        match preferred {
            Some(preferred) => {
                self.changed.extend_from_slice(&preferred.0.to_le_bytes());
                self.show(head.sequence, head.value_type, Source::Changed);
            }
            None => self.show(head.sequence, ValueType::Value, Source::Changed),
        }
        Ok(())
    }
}

/// The end of the user's part of a timed value, and its last eight bytes: the preferred sequence
/// number, or the time of the write.
pub(super) fn split_timed_value(value: &[u8], user_key: &[u8]) -> Result<(usize, SequenceNumber)> {
    match value.split_last_chunk::<8>() {
        Some((user_value, preferred)) => {
            Ok((user_value.len(), SequenceNumber(u64::from_le_bytes(*preferred))))
        }
        None => Err(Error::corruption(format!(
            "the timed value of key '{}' is shorter than its 8-byte number",
            user_key.escape_ascii()
        ))),
    }
}
