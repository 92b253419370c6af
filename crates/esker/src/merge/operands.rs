//! Merges operands into a value.
//!
//! In: the operands of one user key, and the value below them if there is one. Out: the value, or
//! an error. Reads meet operands newest first, and the operator takes them oldest first:
//! [`MergeOperands`] reverses them.

use esker_base::merge_operator::{MergeBase, MergeOperator, MergeOperatorRef, MergeOutcome};
use esker_base::{Error, Result, SubCode};
use esker_format::wide_column::{self, DEFAULT_COLUMN_NAME, EncodedColumns};
use smallvec::SmallVec;
use std::cell::Cell;

thread_local! {
    /// See [`note_merged`].
    static MERGED: Cell<usize> = const { Cell::new(0) };
}

/// Notes that a get of this thread merges this number of operands. The note costs a get without
/// operands nothing.
pub(crate) fn note_merged(operands: usize) {
    MERGED.set(operands);
}

/// The last note of this thread, which it forgets.
pub(crate) fn take_merged() -> usize {
    MERGED.take()
}

/// Merges `operands`, oldest first and at least one, onto `existing`.
/// # Errors
/// `InvalidArgument` without an operator: the caller must open the database with the operator that
/// wrote it · `Corruption` with sub-code `MergeOperatorFailed` if the operator refuses; the
/// operands stay stored.
pub(crate) fn full_merge(
    operator: Option<&MergeOperatorRef>,
    user_key: &[u8],
    existing: Option<&[u8]>,
    operands: &[&[u8]],
) -> Result<Vec<u8>> {
    let Some(operator) = operator else { return Err(no_operator(user_key)) };
    operator
        .full_merge(user_key, existing, operands)
        .ok_or_else(|| operator_failed(operator.as_ref(), user_key, operands.len()))
}

/// A value of a key, as an entry has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum MergedValue {
    Plain(Vec<u8>),
    /// A serialized entity with all its columns in place.
    Entity(Vec<u8>),
}

impl MergedValue {
    /// The same as the base of a merge.
    pub(crate) fn as_base(&self) -> StoredBase<'_> {
        match self {
            MergedValue::Plain(value) => StoredBase::Plain(value),
            MergedValue::Entity(entity) => StoredBase::Entity(entity),
        }
    }

    /// The plain value, or the value of the entity's default column.
    /// # Errors
    /// `Corruption` for an entity that cannot be parsed.
    pub(crate) fn into_value(self) -> Result<Vec<u8>> {
        match self {
            MergedValue::Plain(value) => Ok(value),
            MergedValue::Entity(entity) => Ok(EncodedColumns::parse(&entity)?.default_value().to_vec()),
        }
    }

    /// The serialized entity. A plain value becomes an entity of its default column.
    /// # Errors
    /// Those of [`wide_column::serialize`].
    pub(crate) fn into_entity(self) -> Result<Vec<u8>> {
        match self {
            MergedValue::Plain(value) => {
                let mut entity = Vec::new();
                wide_column::serialize(&[(DEFAULT_COLUMN_NAME, &value)], &mut entity)?;
                Ok(entity)
            }
            MergedValue::Entity(entity) => Ok(entity),
        }
    }
}

/// The value below operands, as an entry has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StoredBase<'a> {
    Nothing,
    Plain(&'a [u8]),
    /// A serialized entity with all its columns in place.
    Entity(&'a [u8]),
}

/// Whether `operator` merges onto columns of entities.
pub(crate) fn merges_columns(operator: Option<&MergeOperatorRef>) -> bool {
    operator.is_some_and(|operator| operator.has_full_merge_v3())
}

/// Merges `operands`, oldest first and at least one, onto a value or an entity.
/// # Errors
/// Those of [`full_merge`] · `Corruption` for an entity that cannot be parsed, or a result of the
/// operator that is no entity: names that come twice.
pub(crate) fn merge_columns(
    operator: Option<&MergeOperatorRef>,
    user_key: &[u8],
    base: StoredBase<'_>,
    operands: &[&[u8]],
) -> Result<MergedValue> {
    let Some(operator) = operator else { return Err(no_operator(user_key)) };
    if !operator.has_full_merge_v3() {
        let merge = |existing| full_merge(Some(operator), user_key, existing, operands);
        return Ok(match base {
            StoredBase::Nothing => MergedValue::Plain(merge(None)?),
            StoredBase::Plain(value) => MergedValue::Plain(merge(Some(value))?),
            StoredBase::Entity(entity) => {
                let columns = EncodedColumns::parse(entity)?;
                let merged = merge(Some(columns.default_value()))?;
                MergedValue::Entity(columns.with_default_value(&merged)?)
            }
        });
    }
    let columns: Vec<(&[u8], &[u8])>;
    let base = match base {
        StoredBase::Nothing => MergeBase::Nothing,
        StoredBase::Plain(value) => MergeBase::Value(value),
        StoredBase::Entity(entity) => {
            columns = EncodedColumns::parse(entity)?.iter().collect();
            MergeBase::Entity(&columns)
        }
    };
    let outcome = operator.full_merge_v3(user_key, base, operands);
    match outcome.ok_or_else(|| operator_failed(operator.as_ref(), user_key, operands.len()))? {
        MergeOutcome::Value(value) => Ok(MergedValue::Plain(value)),
        MergeOutcome::Existing(value) => Ok(MergedValue::Plain(value.to_vec())),
        MergeOutcome::Entity(mut columns) => {
            columns.sort();
            let sorted: Vec<(&[u8], &[u8])> =
                columns.iter().map(|(name, value)| (&name[..], &value[..])).collect();
            let mut entity = Vec::new();
            wide_column::serialize(&sorted, &mut entity)?;
            Ok(MergedValue::Entity(entity))
        }
    }
}

#[cold]
fn no_operator(user_key: &[u8]) -> Error {
    Error::invalid_argument(format!(
        "merge_operator is not set, but key '{}' has merge operands",
        user_key.escape_ascii()
    ))
}

#[cold]
fn operator_failed(operator: &dyn MergeOperator, user_key: &[u8], operands: usize) -> Error {
    Error::corruption(format!(
        "merge operator {} failed on {operands} operands of key '{}'",
        operator.name(),
        user_key.escape_ascii()
    ))
    .with_subcode(SubCode::MergeOperatorFailed)
}

/// Operands of one user key, copied into one buffer, which is reused for the next key.
#[derive(Clone, Default, Debug)]
pub(crate) struct MergeOperands {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl MergeOperands {
    /// A list without operands.
    pub(crate) fn new() -> MergeOperands {
        MergeOperands::default()
    }

    /// Bytes of memory for operands.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Removes all operands, and keeps the memory.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds an operand.
    pub(crate) fn push(&mut self, operand: &[u8]) {
        self.bytes.extend_from_slice(operand);
        self.ends.push(self.bytes.len());
    }

    /// Number of operands.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no operands.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Operand `i`, in the order pushed.
    ///
    /// # Panics
    /// If `i >= len()`.
    pub(crate) fn operand(&self, i: usize) -> &[u8] {
        let start = i.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[i]]
    }

    /// All operands, in the order pushed.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator {
        (0..self.len()).map(|i| self.operand(i))
    }

    /// Whether the operator merges these operands, newest first, without any older entry.
    pub(crate) fn suffice(&self, operator: Option<&MergeOperatorRef>) -> bool {
        let Some(operator) = operator.filter(|operator| operator.has_should_merge()) else { return false };
        let operands: SmallVec<[&[u8]; 16]> = self.iter().collect();
        operator.should_merge(&operands)
    }

    /// [`full_merge`] of operands that were pushed newest first.
    /// # Errors
    /// `InvalidArgument` without an operator · `Corruption` with sub-code `MergeOperatorFailed`:
    /// see [`full_merge`].
    pub(crate) fn merge_newest_first(
        &self,
        operator: Option<&MergeOperatorRef>,
        user_key: &[u8],
        existing: Option<&[u8]>,
    ) -> Result<Vec<u8>> {
        full_merge(operator, user_key, existing, &self.reversed())
    }

    fn reversed(&self) -> SmallVec<[&[u8]; 16]> {
        self.iter().rev().collect()
    }

    /// [`merge_columns`] of operands that were pushed newest first.
    /// # Errors
    /// Those of [`merge_columns`].
    pub(crate) fn merge_columns_newest_first(
        &self,
        operator: Option<&MergeOperatorRef>,
        user_key: &[u8],
        base: StoredBase<'_>,
    ) -> Result<MergedValue> {
        merge_columns(operator, user_key, base, &self.reversed())
    }

    /// [`merge_columns`] of operands that were pushed oldest first.
    /// # Errors
    /// Those of [`merge_columns`].
    pub(crate) fn merge_columns_oldest_first(
        &self,
        operator: Option<&MergeOperatorRef>,
        user_key: &[u8],
        base: StoredBase<'_>,
    ) -> Result<MergedValue> {
        let operands: SmallVec<[&[u8]; 16]> = self.iter().collect();
        merge_columns(operator, user_key, base, &operands)
    }
}

#[cfg(test)]
mod tests;
