//! What a point read has found: a value lent where it lies, or anything else.
//!
//! Invariant: what is lent lives as long as the read's guard and super version; who stays longer
//! pins it.

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

/// What was found for a key.
pub(crate) enum Answer<'a> {
    /// A plain value, where it lies.
    Lent(LentValue<'a>),
    /// Anything else.
    Made(Result<Option<PinnedBytes>>),
}

impl Answer<'_> {
    /// The same for those who keep it.
    #[inline]
    pub(crate) fn into_pinned(self) -> Result<Option<PinnedBytes>> {
        match self {
            Answer::Lent(value) => Ok(Some(value.pin())),
            Answer::Made(answer) => answer,
        }
    }
}
