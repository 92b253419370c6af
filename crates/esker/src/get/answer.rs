//! The result of a point read: a value lent in place, or anything else.
//!
//! Invariant: a lent value lives as long as the read's guard and super version; longer use pins it.

use esker_base::{PinnedBytes, Result};
use esker_memtable::MemValue;
use esker_table::TableValue;

/// A value where it lies.
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

    /// The bytes, kept alive: no copy.
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
    /// A plain value, where it lies.
    Lent(LentValue<'a>),
    /// Anything else.
    Made(Result<Option<PinnedBytes>>),
}

impl Answer<'_> {
    /// The answer, pinned if it was lent.
    #[inline]
    pub(crate) fn into_pinned(self) -> Result<Option<PinnedBytes>> {
        match self {
            Answer::Lent(value) => Ok(Some(value.pin())),
            Answer::Made(answer) => answer,
        }
    }
}
