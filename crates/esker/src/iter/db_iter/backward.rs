//! The backward half of the user's cursor.
//!
//! A key's versions are met oldest first, so all that are visible are looked at, and each takes the place of what the older
//! ones came to. A key with many versions is sought from its newest instead.

use super::{DbIter, DbIterOptions, Value, leaves_prefix, merge_base, set, value_part};
use esker_base::iter::InternalIterator;
use esker_base::{Result, SequenceNumber, ValueType, perf_add};
use esker_format::key::{self, InternalKeyComparator, ParsedInternalKey};

/// Backward, values larger than this are pinned where they lie instead of copied. A pin costs two atomic operations.
const PIN_VALUES_FROM_BYTES: usize = 4096;

/// What backward steps have found of a user key so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    /// Nothing that is there at the sequence number.
    Nothing,
    /// A value, in `self.value`.
    Value,
    /// An entity without a default column: shown as an empty value, but operands apply to nothing.
    Baseless,
}

impl Found {
    fn of(value_type: ValueType, value: &[u8], user_key: &[u8]) -> Result<Found> {
        Ok(if merge_base(value_type, value, user_key)?.is_some() { Found::Value } else { Found::Baseless })
    }
}

impl<I: InternalIterator> DbIter<I> {
    /// From the current entry to the last one of the keys before it.
    pub(super) fn turn_backward(&mut self) {
        self.forward = false;
        if !self.merged {
            // Mostly the newest version is the current one, and one step does it.
            for _ in 0..=self.options.max_sequential_skip_in_iterations {
                self.iter.prev();
                if !self.iter.valid() || !self.is_current(self.iter.key()) {
                    return;
                }
            }
        }
        self.seek_before_current();
    }

    /// Whether this internal key is one of the current user key.
    fn is_current(&self, internal_key: &[u8]) -> bool {
        self.icmp.same_user_key(key::user_key(internal_key), &self.key)
    }

    fn seek_before_current(&mut self) {
        self.aim(SequenceNumber::MAX, ValueType::SEEK);
        self.iter.seek_for_prev(&self.target);
    }

    /// Backward to the last key that is there, from the inner cursor's place on.
    pub(super) fn find_prev(&mut self) {
        self.merged = false;
        while self.iter.valid() {
            let entry = match ParsedInternalKey::parse(self.iter.key()) {
                Ok(entry) => entry,
                Err(error) => return self.fail(error),
            };
            if is_before(&self.icmp, &self.options, self.prefix.as_deref(), entry.user_key) {
                self.valid = false;
                return;
            }
            set(&mut self.key, entry.user_key);
            let (sequence, value_type) = (entry.sequence, entry.value_type);
            match self.walk_versions_backward(sequence, value_type) {
                Ok(Found::Value | Found::Baseless) => {
                    self.valid = true;
                    return;
                }
                Ok(Found::Nothing) => {
                    if !self.may_skip() {
                        return;
                    }
                }
                Err(error) => return self.fail(error),
            }
        }
        self.run_out();
    }

    /// From the oldest version of `key`, of which sequence and type are given, to before its newest, remembering what is
    /// there at the sequence number.
    fn walk_versions_backward(
        &mut self,
        mut sequence: SequenceNumber,
        mut value_type: ValueType,
    ) -> Result<Found> {
        let mut found = Found::Nothing;
        let mut run = 0;
        self.operands.clear();
        loop {
            let too_new = sequence > self.options.sequence;
            if run > self.options.max_sequential_skip_in_iterations {
                self.counters.reseeks += 1;
                if !too_new {
                    return self.find_from_newest();
                }
                self.seek_before_current();
                break;
            }
            run += 1;
            if !too_new {
                found = self.remember(found, value_type)?;
            }
            let Some(before) = self.iter.prev_key() else {
                self.iter.status()?;
                break;
            };
            if !self.icmp.same_user_key(key::user_key(before), &self.key) {
                break;
            }
            let entry = ParsedInternalKey::parse(before)?;
            (sequence, value_type) = (entry.sequence, entry.value_type);
            if !self.may_skip() {
                return self.status.clone().map(|()| Found::Nothing);
            }
        }
        self.merge_remembered(found)
    }

    /// Puts a newer version in the place of what was found of the older ones.
    fn remember(&mut self, found: Found, value_type: ValueType) -> Result<Found> {
        if value_type == ValueType::Merge {
            self.operands.push(self.iter.value());
            return Ok(found);
        }
        self.operands.clear();
        if value_type.is_point_deletion() {
            return Ok(Found::Nothing);
        }
        let bytes = self.iter.value();
        let (start, end) = value_part(value_type, bytes, &self.key)?;
        let found = match value_type {
            ValueType::Value => Found::Value,
            _ => Found::of(value_type, bytes, &self.key)?,
        };
        if end - start >= PIN_VALUES_FROM_BYTES {
            self.value = Value::Pinned(self.iter.pinned_value().slice(start..end));
        } else {
            set(&mut self.buffer, &bytes[start..end]);
            self.value = Value::Buffer;
        }
        Ok(found)
    }

    /// Applies the operands that were remembered, oldest first, to the value that was found.
    fn merge_remembered(&mut self, found: Found) -> Result<Found> {
        if self.operands.is_empty() {
            return Ok(found);
        }
        let existing = match (&self.value, found) {
            (_, Found::Nothing | Found::Baseless) => None,
            (Value::Pinned(bytes), _) => Some(bytes.as_slice()),
            _ => Some(self.buffer.as_slice()),
        };
        perf_add!(internal_merge_count, self.operands.len() as u64);
        let merged =
            self.operands.merge_oldest_first(self.options.merge_operator.as_ref(), &self.key, existing)?;
        self.buffer = merged;
        self.value = Value::Buffer;
        Ok(Found::Value)
    }

    /// For a key with many versions: seeks to the newest that is visible, and then to before the key.
    #[cold]
    fn find_from_newest(&mut self) -> Result<Found> {
        self.aim(self.options.sequence, ValueType::SEEK);
        self.iter.seek(&self.target);
        self.operands.clear();
        let mut found = Found::Nothing;
        while self.iter.valid() {
            let entry = ParsedInternalKey::parse(self.iter.key())?;
            if !self.icmp.same_user_key(entry.user_key, &self.key) {
                break;
            }
            match entry.value_type {
                ValueType::Merge => self.operands.push(self.iter.value()),
                value_type if value_type.is_point_deletion() => break,
                value_type => {
                    let bytes = self.iter.value();
                    let (start, end) = value_part(value_type, bytes, &self.key)?;
                    set(&mut self.buffer, &bytes[start..end]);
                    self.value = Value::Buffer;
                    found = Found::of(value_type, bytes, &self.key)?;
                    break;
                }
            }
            self.iter.next();
        }
        self.iter.status()?;
        if !self.operands.is_empty() {
            let existing = (found == Found::Value).then_some(self.buffer.as_slice());
            self.buffer = self.merge_operands_onto(existing)?;
            self.value = Value::Buffer;
            found = Found::Value;
        }
        self.seek_before_current();
        Ok(found)
    }
}

/// Whether a backward scan ends at this key.
#[inline]
fn is_before(
    icmp: &InternalKeyComparator,
    options: &DbIterOptions,
    prefix: Option<&[u8]>,
    user_key: &[u8],
) -> bool {
    options.lower_bound.as_ref().is_some_and(|lower| icmp.compare_user_keys(user_key, lower).is_lt())
        || prefix.is_some_and(|prefix| leaves_prefix(options, prefix, user_key))
}
