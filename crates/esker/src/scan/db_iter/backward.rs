//! Backward moves of the user's cursor.
//!
//! A key's versions come oldest first, so each visible version replaces the result of the older
//! versions. For a key with many versions the cursor seeks to the newest visible version instead.

use super::value::{NEWEST_FIRST, OLDEST_FIRST, value_part};
use super::{DbIter, DbIterOptions, Value, set};
use esker_base::{Result, SequenceNumber, ValueType};
use esker_format::cursor::ScanIterator;
use esker_format::key::{self, InternalKeyComparator, ParsedInternalKey};

/// The result for one user key after the backward steps so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    /// No value is visible at the sequence number.
    Nothing,
    /// A value, in `self.value`.
    Value,
    /// The value of the entry that the inner cursor has just left, in `self.left`.
    Left,
    /// A blob index or an entity, in `buffer` as stored. It is fetched only if no newer version
    /// replaces it.
    Stored(ValueType),
}

impl<I: ScanIterator> DbIter<I> {
    /// Moves the inner cursor from the current entry to the entry before all entries of the current
    /// key.
    pub(super) fn turn_backward(&mut self) {
        self.forward = false;
        self.ahead = None;
        if !self.merged {
            // Mostly the cursor is at the newest version of the key, and one step suffices.
            for _ in 0..=self.options.max_sequential_skip_in_iterations {
                self.iter.prev();
                if !self.iter.valid() || !self.is_current(self.iter.key()) {
                    return;
                }
            }
        }
        // The search that follows reports an error of the inner cursor.
        _ = self.seek_before_current();
    }

    /// Whether this internal key belongs to the current user key.
    pub(super) fn is_current(&self, internal_key: &[u8]) -> bool {
        self.icmp.same_user_key(key::user_key(internal_key), &self.key)
    }

    /// Moves before all entries of the current key.
    /// # Errors
    /// The error of the inner cursor.
    fn seek_before_current(&mut self) -> Result<()> {
        self.aim(SequenceNumber::MAX, ValueType::SEEK);
        self.iter.seek_for_prev(&self.target);
        if self.iter.valid() { Ok(()) } else { self.iter.status() }
    }

    /// Moves backward from the inner cursor's position to the nearest visible key.
    pub(super) fn find_prev(&mut self) {
        // `run_end` gets the key from which this call started: see `deleted_runs/skip.rs`,
        // invariant 2.
        std::mem::swap(&mut self.key, &mut self.deleted_run.run_end);
        self.look_backward();
        if self.deleted_run.keys >= self.deleted_run.min_keys {
            self.remember_backward();
        }
    }

    fn look_backward(&mut self) {
        self.merged = false;
        while let Some((sequence, value_type)) = self.look_ahead() {
            if is_before(&self.icmp, &self.options, self.prefix.as_deref(), &self.ahead_key) {
                self.valid = false;
                return;
            }
            std::mem::swap(&mut self.key, &mut self.ahead_key);
            match self.walk_versions_backward(sequence, value_type) {
                Ok(Found::Value | Found::Left | Found::Stored(_)) => {
                    self.valid = true;
                    return;
                }
                Ok(Found::Nothing) => {
                    if self.deleted_run.keys == 0 && self.deleted_run.run_end.is_empty() {
                        set(&mut self.deleted_run.run_end, &self.key);
                    }
                    self.deleted_run.keys += 1;
                    if !self.may_skip() {
                        return;
                    }
                    if self.skipped_in_call >= self.deleted_run.skip_at && self.iter.valid() {
                        self.ahead = None;
                        self.skip_deleted_run();
                    }
                }
                Err(error) => return self.fail(error),
            }
        }
        if self.status.is_ok() {
            self.run_out();
        }
    }

    /// The sequence number and type of the inner cursor's entry. Copies the entry's user key to
    /// `ahead_key`. `None` at the end and on an error.
    #[inline]
    fn look_ahead(&mut self) -> Option<(SequenceNumber, ValueType)> {
        if let Some(ahead) = self.ahead.take() {
            return Some(ahead);
        }
        if !self.iter.valid() {
            return None;
        }
        match ParsedInternalKey::parse(self.iter.key()) {
            Ok(entry) => {
                set(&mut self.ahead_key, entry.user_key);
                Some((entry.sequence, entry.value_type))
            }
            Err(error) => {
                self.fail(error);
                None
            }
        }
    }

    /// Moves from the oldest version of `key` to before the newest version, and collects the
    /// visible result. `sequence` and `value_type` belong to the oldest version.
    #[inline]
    fn walk_versions_backward(
        &mut self,
        mut sequence: SequenceNumber,
        mut value_type: ValueType,
    ) -> Result<Found> {
        let mut found = Found::Nothing;
        let mut run = 0;
        self.operands.clear();
        loop {
            if found == Found::Left {
                // The next move would invalidate the lent value.
                self.left.keep_lent(&self.iter);
                self.value = Value::Left;
                found = Found::Value;
            }
            let too_new = sequence > self.options.sequence;
            if run > self.options.max_sequential_skip_in_iterations {
                self.counters.reseeks += 1;
                if !too_new {
                    return self.find_from_newest();
                }
                self.seek_before_current()?;
                break;
            }
            run += 1;
            let before = if !too_new && value_type == ValueType::Value {
                self.operands.clear();
                found = Found::Left;
                self.iter.prev_key_leaving(&mut self.left)
            } else {
                if !too_new {
                    found = self.remember(found, value_type)?;
                }
                self.iter.prev_key()
            };
            let Some(before) = before else {
                self.iter.status()?;
                break;
            };
            if !self.icmp.same_user_key(key::user_key(before), &self.key) {
                // If the key cannot be parsed, the next step reports the error.
                if let Ok(entry) = ParsedInternalKey::parse(before) {
                    set(&mut self.ahead_key, entry.user_key);
                    self.ahead = Some((entry.sequence, entry.value_type));
                }
                break;
            }
            let entry = ParsedInternalKey::parse(before)?;
            (sequence, value_type) = (entry.sequence, entry.value_type);
            if !self.may_skip() {
                return self.status.clone().map(|()| Found::Nothing);
            }
        }
        if found == Found::Left {
            self.value = Value::Left;
            return Ok(found);
        }
        self.merge_remembered(found)
    }

    /// Updates the result of the older versions with the next newer version.
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
        if matches!(value_type, ValueType::BlobIndex | ValueType::WideColumnEntity) {
            set(&mut self.buffer, bytes);
            return Ok(Found::Stored(value_type));
        }
        let (start, end) = value_part(value_type, bytes, &self.key)?;
        set(&mut self.buffer, &bytes[start..end]);
        self.value = Value::Buffer;
        Ok(Found::Value)
    }

    /// Fetches the result, and applies the collected operands to it, oldest first.
    fn merge_remembered(&mut self, found: Found) -> Result<Found> {
        let base = match found {
            Found::Nothing => None,
            Found::Value | Found::Left => Some(ValueType::Value),
            Found::Stored(value_type) => {
                match value_type {
                    ValueType::BlobIndex => self.show_blob()?,
                    _ => self.show_entity()?,
                }
                Some(value_type)
            }
        };
        if self.operands.is_empty() {
            return Ok(found);
        }
        self.show_merged(base, OLDEST_FIRST)?;
        Ok(Found::Value)
    }

    /// Finds the result for a key with many versions: seeks to its newest visible version, and
    /// reads from there. Then moves to before the key.
    #[cold]
    fn find_from_newest(&mut self) -> Result<Found> {
        self.aim(self.options.sequence, ValueType::SEEK);
        self.iter.seek(&self.target);
        self.operands.clear();
        let mut base = None;
        while self.iter.valid() {
            let entry = ParsedInternalKey::parse(self.iter.key())?;
            if !self.icmp.same_user_key(entry.user_key, &self.key) {
                break;
            }
            match entry.value_type {
                ValueType::Merge => self.operands.push(self.iter.value()),
                value_type if value_type.is_point_deletion() => break,
                value_type => {
                    base = Some(value_type);
                    break;
                }
            }
            self.iter.next();
        }
        self.iter.status()?;
        if let Some(value_type) = base {
            self.show_stored(value_type)?;
            // The inner cursor is about to move, so the value is copied.
            if let Value::InnerPart { start, end } = self.value {
                set(&mut self.buffer, &self.iter.value()[start..end]);
                self.value = Value::Buffer;
            }
        }
        let mut found = if base.is_some() { Found::Value } else { Found::Nothing };
        if !self.operands.is_empty() {
            self.show_merged(base, NEWEST_FIRST)?;
            found = Found::Value;
        }
        self.seek_before_current()?;
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
        || options.leaves(prefix, user_key)
}
