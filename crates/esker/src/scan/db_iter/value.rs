//! Turns a stored value into the user's value.
//!
//! In: the inner cursor's entry. Out: `value`, the value to show: of an entity the default column,
//! of a blob index the fetched value.

use super::{DbIter, Value, set};
use crate::merge::operands::{MergedValue, StoredBase};
use esker_base::{Error, Result, ValueType, perf_add};
use esker_format::cursor::ScanIterator;
use esker_format::wide_column::{DEFAULT_COLUMN_NAME, EncodedColumns};
use esker_table::blob::BlobReads;

/// Operands were pushed newest first, as forward scans meet them.
pub(super) const NEWEST_FIRST: bool = true;

/// Operands were pushed oldest first, as backward scans meet them.
pub(super) const OLDEST_FIRST: bool = false;

impl<I> DbIter<I> {
    /// Access to values in blob files.
    /// # Errors
    /// `NotSupported`: the cursor has no access to blob files.
    fn blobs(&self) -> Result<BlobReads<'_>> {
        match &self.options.blobs {
            Some(blobs) => Ok(blobs.reads()),
            None => Err(Error::not_supported("values in blob files cannot be read here")),
        }
    }

    /// Shows the entity in `buffer`, which may have columns in blob files.
    pub(super) fn show_entity(&mut self) -> Result<()> {
        if let Some(blobs) = &self.options.blobs
            && let Some(whole) = blobs.reads().whole_entity(&self.key, &self.buffer)?
        {
            self.buffer = whole;
        }
        let (start, end) = default_column(&self.buffer)?;
        self.value = Value::Entity { start, end };
        Ok(())
    }

    /// Shows the value that the blob index in `buffer` names. It is read later if
    /// `allow_unprepared_value` is set.
    pub(super) fn show_blob(&mut self) -> Result<()> {
        self.value = Value::Unprepared;
        if self.options.allow_unprepared_value { Ok(()) } else { self.read_unprepared() }
    }

    /// Reads the value here, if it has not been read yet.
    fn read_unprepared(&mut self) -> Result<()> {
        if matches!(self.value, Value::Unprepared) {
            self.value = Value::Pinned(self.blobs()?.value(&self.key, &self.buffer)?);
        }
        Ok(())
    }

    /// Name and value of each shown column; a plain value is one column without a name.
    pub(super) fn shown_columns<'a>(&'a self, value: &'a [u8]) -> Vec<(&'a [u8], &'a [u8])> {
        match &self.value {
            Value::Entity { .. } => EncodedColumns::parse(&self.buffer)
                .expect("the entity was checked when it was read")
                .iter()
                .collect(),
            Value::Unprepared => Vec::new(),
            _ => vec![(DEFAULT_COLUMN_NAME, value)],
        }
    }
}

impl<I: ScanIterator> DbIter<I> {
    /// Reads the value here, if it has not been read yet. REQUIRES: `valid()`.
    /// # Errors
    /// Those of blob files. The cursor is not valid then.
    pub(crate) fn prepare_value(&mut self) -> Result<()> {
        debug_assert!(self.valid, "REQUIRES: valid()");
        self.read_unprepared().inspect_err(|error| self.fail(error.clone()))
    }

    /// Reads the value here and, from now on, those of all entries at which the cursor stops.
    /// # Errors
    /// Those of [`prepare_value`](Self::prepare_value).
    pub(crate) fn load_values(&mut self) -> Result<()> {
        self.options.allow_unprepared_value = false;
        if self.valid { self.prepare_value() } else { Ok(()) }
    }

    /// Shows the inner cursor's value.
    /// # Errors
    /// `Corruption` for a value that contradicts its type; those of blob files.
    pub(super) fn show_stored(&mut self, value_type: ValueType) -> Result<()> {
        let stored = self.iter.value();
        match value_type {
            ValueType::BlobIndex if self.options.allow_unprepared_value => {
                set(&mut self.buffer, stored);
                self.value = Value::Unprepared;
            }
            ValueType::BlobIndex => {
                self.value = Value::Pinned(self.blobs()?.value(&self.key, stored)?);
            }
            ValueType::WideColumnEntity => {
                set(&mut self.buffer, stored);
                self.show_entity()?;
            }
            _ => {
                let (start, end) = value_part(value_type, stored, &self.key)?;
                self.value = Value::InnerPart { start, end };
            }
        }
        Ok(())
    }

    /// Applies the operands to the shown value, of type `base`, or to nothing; shows the result.
    /// # Errors
    /// Those of [`merge_columns`](crate::merge::operands::merge_columns).
    #[cold]
    pub(super) fn show_merged(&mut self, base: Option<ValueType>, newest_first: bool) -> Result<()> {
        perf_add!(internal_merge_count, self.operands.len() as u64);
        if base.is_some() {
            self.read_unprepared()?;
        }
        let shown = match (&self.value, base) {
            (_, None) => StoredBase::Nothing,
            (Value::Entity { .. }, _) => StoredBase::Entity(&self.buffer),
            (Value::Inner, _) => StoredBase::Plain(self.iter.value()),
            (Value::InnerPart { start, end }, _) => StoredBase::Plain(&self.iter.value()[*start..*end]),
            (Value::Left, _) => StoredBase::Plain(self.left.value(&self.iter)),
            (Value::Run, _) => StoredBase::Plain(self.run.value()),
            (Value::Buffer, _) => StoredBase::Plain(&self.buffer),
            (Value::Pinned(bytes), _) => StoredBase::Plain(bytes),
            (Value::Unprepared, _) => unreachable!("the base has been read"),
        };
        let operator = self.options.merge_operator.as_ref();
        let merged = if newest_first {
            self.operands.merge_columns_newest_first(operator, &self.key, shown)?
        } else {
            self.operands.merge_columns_oldest_first(operator, &self.key, shown)?
        };
        (self.buffer, self.value) = match merged {
            MergedValue::Plain(value) => (value, Value::Buffer),
            MergedValue::Entity(entity) => {
                let (start, end) = default_column(&entity)?;
                (entity, Value::Entity { start, end })
            }
        };
        Ok(())
    }
}

/// The shown part of a stored value; `None` for a blob index or an entity.
/// # Errors
/// `Corruption` for values that contradict their type.
pub(super) fn value_part(value_type: ValueType, value: &[u8], user_key: &[u8]) -> Result<(usize, usize)> {
    match value_type {
        ValueType::Value => Ok((0, value.len())),
        ValueType::ValuePreferredSeqno => match value.len().checked_sub(8) {
            Some(end) => Ok((0, end)),
            None => Err(misfit(value_type, user_key)),
        },
        _ => Err(misfit(value_type, user_key)),
    }
}

/// Start and end of the default column's value in `entity`. Values lie back to back at the end, and
/// the default column's name sorts first.
fn default_column(entity: &[u8]) -> Result<(usize, usize)> {
    let columns = EncodedColumns::parse(entity)?;
    let start = entity.len() - columns.iter().map(|(_, value)| value.len()).sum::<usize>();
    Ok((start, start + columns.default_value().len()))
}

#[cold]
fn misfit(value_type: ValueType, user_key: &[u8]) -> Error {
    Error::corruption(format!(
        "an entry of type {value_type:?} does not fit where key '{}' has one",
        user_key.escape_ascii()
    ))
}
