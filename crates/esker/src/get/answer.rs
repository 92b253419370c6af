//! The result of a point read: a value lent in place, or anything else.
//!
//! Invariant: a lent value lives as long as the read's guard and super version; longer use pins it.

use esker_base::{PinnedBytes, Result};
use esker_memtable::MemValue;
use esker_table::TableValue;

/// A value in place: in a memtable or a block.
pub(crate) enum LentValue<'a> {
    Memtable(MemValue<'a>),
    Table(TableValue<'a>),
}

impl LentValue<'_> {
    /// The bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            LentValue::Memtable(value) => value,
            LentValue::Table(value) => value.bytes(),
        }
    }

    /// The bytes, kept alive without a copy.
    #[inline]
    pub(crate) fn pin(&self) -> PinnedBytes {
        match self {
            LentValue::Memtable(value) => value.pin(),
            LentValue::Table(value) => value.pin(),
        }
    }
}

/// The result for a key.
pub(crate) enum Answer<'a> {
    /// A plain value, in place.
    Lent(LentValue<'a>),
    /// Any other result: a merged or fetched value, no value, or an error.
    Made(Result<Option<PinnedBytes>>),
}

impl Answer<'_> {
    /// Bytes of the value; 0 without one.
    pub(crate) fn value_len(&self) -> usize {
        match self {
            Answer::Lent(value) => value.bytes().len(),
            Answer::Made(Ok(Some(value))) => value.len(),
            Answer::Made(_) => 0,
        }
    }

    /// The answer, pinned if it was lent.
    #[inline]
    pub(crate) fn into_pinned(self) -> Result<Option<PinnedBytes>> {
        match self {
            Answer::Lent(value) => Ok(Some(value.pin())),
            Answer::Made(answer) => answer,
        }
    }
}
