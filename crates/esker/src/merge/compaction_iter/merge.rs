//! Merge operands in a flush or compaction.
//!
//! In: the input at the newest operand of a stripe. Out: one value, or fewer operands, or all
//! operands unchanged if they cannot be combined. The input is then behind them.

use super::timed::split_timed_value;
use super::{CompactionIterator, Head};
use crate::compaction_filter::FilterDecision;
use crate::merge::operands::{MergedValue, StoredBase, merges_columns};
use esker_base::{Result, SequenceNumber, ValueType};
use esker_format::cursor::InternalIterator;
use esker_format::key::ParsedInternalKey;
use esker_format::wide_column::DEFAULT_COLUMN_NAME;
use esker_format::wide_column::stored::{StoredColumns, StoredValue, may_have_blobs};
use std::borrow::Cow;

/// The entry below the operands of a stripe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Base {
    /// A value.
    Value,
    /// A value with a preferred sequence number.
    Timed,
    /// A blob index: operands apply to the value in the blob file.
    Blob,
    /// An entity: operands apply to its default column.
    Entity,
    /// A deletion.
    Deletion,
    /// A range tombstone hides the rest of the stripe.
    RangeDeletion,
    /// No entry, on any level.
    Nothing,
    /// The base is in an older stripe or a deeper level, or it is a value onto which operands
    /// cannot be merged.
    Unknown,
}

/// A combination of neighbouring operands.
struct Part<'a> {
    /// The sequence number of the newest operand.
    newest: SequenceNumber,
    operand: Cow<'a, [u8]>,
    /// Whether the operator does not combine it with the older part before it.
    is_apart: bool,
}

impl<I: InternalIterator> CompactionIterator<I> {
    /// Combines the operands from `head`, at which the input is, down to the end of the stripe.
    pub(super) fn merge(&mut self, head: Head) -> Result<()> {
        self.operands.clear();
        self.operand_sequences.clear();
        let base = match self.collect_operands(head)? {
            Some(base) => base,
            None if self.nothing_beyond() => Base::Nothing,
            None => Base::Unknown,
        };
        let merged = !self.operands.is_empty() && self.merge_onto(base)?;
        if !merged {
            self.keep_operands();
        }
        // Only a merge uses the base entry; otherwise the entry is still needed.
        if base == Base::Unknown || (!merged && base != Base::RangeDeletion) {
            self.closed = None;
        }
        if !self.queue.entries.is_empty() {
            self.show_queued(0);
        }
        Ok(())
    }

    /// Takes all operands of the stripe from the input. `None`: no entry of the user key follows.
    fn collect_operands(&mut self, head: Head) -> Result<Option<Base>> {
        self.queue.clear();
        loop {
            self.take_operand()?;
            let Some(next) = self.peek_behind_twins()? else { return Ok(None) };
            if next.stripe != head.stripe {
                return Ok(Some(Base::Unknown));
            }
            if self.options.range_dels.should_delete(&self.user_key, next.sequence, next.stripe) {
                return Ok(Some(Base::RangeDeletion));
            }
            match next.value_type {
                ValueType::Merge => {}
                ValueType::Value => return Ok(Some(Base::Value)),
                ValueType::ValuePreferredSeqno => return Ok(Some(Base::Timed)),
                ValueType::BlobIndex if self.options.blobs.is_some() => return Ok(Some(Base::Blob)),
                ValueType::WideColumnEntity => return Ok(Some(Base::Entity)),
                value_type if value_type.is_point_deletion() => return Ok(Some(Base::Deletion)),
                _ => return Ok(Some(Base::Unknown)),
            }
        }
    }

    /// Takes the input's operand, if the filter keeps it.
    fn take_operand(&mut self) -> Result<()> {
        let sequence = ParsedInternalKey::parse(self.input.key())?.sequence;
        let operand = self.input.value();
        let judged = self.options.snapshots.last().is_none_or(|&newest| newest < sequence);
        let decision = match self.options.compaction_filter.as_ref().filter(|_| judged) {
            Some(filter) => filter.filter_merge_operand(self.options.filter_level, &self.user_key, operand),
            None => FilterDecision::Keep,
        };
        match decision {
            FilterDecision::Remove => self.stats.dropped_by_filter += 1,
            FilterDecision::ChangeValue(changed) => {
                self.operands.push(&changed);
                self.operand_sequences.push(sequence);
            }
            // The other decisions do not apply to an operand.
            _ => {
                self.operands.push(operand);
                self.operand_sequences.push(sequence);
            }
        }
        self.consume();
        Ok(())
    }

    /// Queues the result of the operands, if they can be combined.
    /// # Errors
    /// Errors of reading a blob file; `Corruption` in a timed value.
    fn merge_onto(&mut self, base: Base) -> Result<bool> {
        if self.options.merge_operator.is_none() {
            return Ok(false);
        }
        let newest = self.operand_sequences[0];
        let with_columns = merges_columns(self.options.merge_operator.as_ref());
        let fetched;
        let existing = match base {
            Base::Unknown => return Ok(self.merge_partially()),
            Base::Value => Some(self.input.value()),
            Base::Timed => {
                let (end, _) = split_timed_value(self.input.value(), &self.user_key)?;
                Some(&self.input.value()[..end])
            }
            Base::Blob => {
                let blobs =
                    self.options.blobs.as_ref().expect("without a reader of blobs the base is `Unknown`");
                fetched = blobs.reads().value(&self.user_key, self.input.value())?;
                Some(fetched.as_slice())
            }
            Base::Entity if with_columns => return self.merge_onto_whole_entity(newest),
            Base::Entity => return self.merge_onto_entity(newest),
            Base::Deletion | Base::RangeDeletion | Base::Nothing => None,
        };
        let operator = self.options.merge_operator.as_ref();
        let merged = if with_columns {
            let base = existing.map_or(StoredBase::Nothing, StoredBase::Plain);
            self.operands.merge_columns_newest_first(operator, &self.user_key, base)
        } else {
            self.operands.merge_newest_first(operator, &self.user_key, existing).map(MergedValue::Plain)
        };
        Ok(self.queue_merged(newest, merged))
    }

    /// Queues the result of the operands at `newest`; an error of the operator counts.
    fn queue_merged(&mut self, newest: SequenceNumber, merged: Result<MergedValue>) -> bool {
        match merged {
            Ok(merged) => {
                let (value_type, bytes) = match &merged {
                    MergedValue::Plain(value) => (ValueType::Value, value),
                    MergedValue::Entity(entity) => (ValueType::WideColumnEntity, entity),
                };
                self.queue.push(newest, value_type, bytes);
                self.stats.operands_merged += self.operands.len() as u64;
                true
            }
            Err(_) => {
                // Reads of the key keep failing; the operands stay until the operator is corrected.
                self.stats.merge_failures += 1;
                false
            }
        }
    }

    /// Queues the merge of the operands onto all columns of the input's entity. Columns in blob
    /// files are read.
    fn merge_onto_whole_entity(&mut self, newest: SequenceNumber) -> Result<bool> {
        let stored = self.input.value();
        let fetched = match &self.options.blobs {
            Some(blobs) => blobs.reads().whole_entity(&self.user_key, stored)?,
            None if may_have_blobs(stored) => return Ok(false),
            None => None,
        };
        let base = StoredBase::Entity(fetched.as_deref().unwrap_or(stored));
        let operator = self.options.merge_operator.as_ref();
        let merged = self.operands.merge_columns_newest_first(operator, &self.user_key, base);
        Ok(self.queue_merged(newest, merged))
    }

    /// Queues the input's entity with its default column merged; its other columns stay in place.
    fn merge_onto_entity(&mut self, newest: SequenceNumber) -> Result<bool> {
        let stored = StoredColumns::parse(self.input.value())?;
        let fetched;
        let existing = match (stored.default_value(), &self.options.blobs) {
            (None, _) => Some(&[][..]),
            (Some(StoredValue::Inline(value)), _) => Some(value),
            (Some(StoredValue::Blob(location)), Some(blobs)) => {
                fetched = blobs.source.at(&self.user_key, &location, &blobs.options)?;
                Some(fetched.as_slice())
            }
            (Some(StoredValue::Blob(_)), None) => return Ok(false),
        };
        let operator = self.options.merge_operator.as_ref();
        let merged = self.operands.merge_newest_first(operator, &self.user_key, existing).and_then(|value| {
            let mut columns = vec![(DEFAULT_COLUMN_NAME, StoredValue::Inline(&value))];
            columns.extend(stored.columns.iter().filter(|(name, _)| *name != DEFAULT_COLUMN_NAME));
            let mut bytes = Vec::new();
            StoredColumns { columns }.append_to(&mut bytes)?;
            Ok(bytes)
        });
        Ok(self.queue_merged(newest, merged.map(MergedValue::Entity)))
    }

    /// Queues the operator's combinations of neighbouring operands. Returns false if it combines
    /// none.
    fn merge_partially(&mut self) -> bool {
        let Some(operator) = &self.options.merge_operator else { return false };
        let count = self.operands.len();
        if count < 2 {
            return false;
        }
        let join = |left: &Part<'_>, right: &Part<'_>| {
            operator.partial_merge(&self.user_key, &left.operand, &right.operand)
        };
        // Oldest first. Each part is more than twice as long as the next one with which it may be
        // joined. So each byte is copied a bounded number of times. If operands were joined one by
        // one, an appending operator would copy all earlier bytes for each operand.
        let mut parts: Vec<Part<'_>> = Vec::new();
        for i in (0..count).rev() {
            let operand = Cow::Borrowed(self.operands.operand(i));
            parts.push(Part { newest: self.operand_sequences[i], operand, is_apart: false });
            while let [.., left, right] = &mut parts[..]
                && !right.is_apart
                && right.operand.len().saturating_mul(2) >= left.operand.len()
            {
                match join(left, right) {
                    Some(joined) => {
                        (left.newest, left.operand) = (right.newest, Cow::Owned(joined));
                        parts.pop();
                    }
                    None => right.is_apart = true,
                }
            }
        }
        let mut combined: Vec<Part<'_>> = Vec::new();
        for left in parts.into_iter().rev() {
            match combined.last_mut().filter(|right| !right.is_apart) {
                Some(right) if let Some(joined) = join(&left, right) => {
                    (right.operand, right.is_apart) = (Cow::Owned(joined), left.is_apart);
                }
                _ => combined.push(left),
            }
        }
        for part in &combined {
            self.queue.push(part.newest, ValueType::Merge, &part.operand);
        }
        self.stats.operands_merged += (count - combined.len()) as u64;
        true
    }

    /// Queues the operands unchanged.
    fn keep_operands(&mut self) {
        for (i, operand) in self.operands.iter().enumerate() {
            self.queue.push(self.operand_sequences[i], ValueType::Merge, operand);
        }
    }
}
