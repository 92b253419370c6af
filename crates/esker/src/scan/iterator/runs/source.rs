//! The sources of a cursor over a super version: a memtable, a file of level 0, or a level.

use crate::version::FileMeta;
use esker_base::sync::Arc;
use esker_memtable::MemTable;

/// The source of a child.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Memtable(Arc<MemTable>),
    /// A file of level 0.
    File(Arc<FileMeta>),
    Level(Arc<[Arc<FileMeta>]>),
}

/// A borrowed [`Source`] of a super version.
#[derive(Clone, Copy)]
pub(super) enum SourceRef<'a> {
    Memtable(&'a Arc<MemTable>),
    File(&'a Arc<FileMeta>),
    Level(&'a Arc<[Arc<FileMeta>]>),
}

impl SourceRef<'_> {
    pub(super) fn to_owned(self) -> Source {
        match self {
            SourceRef::Memtable(mem) => Source::Memtable(mem.clone()),
            SourceRef::File(file) => Source::File(file.clone()),
            SourceRef::Level(files) => Source::Level(files.clone()),
        }
    }
}

impl Source {
    /// Whether a source that was opened without range tombstones may have some now: only a memtable
    /// may.
    #[inline]
    pub(super) fn has_new_tombstones(&self) -> bool {
        matches!(self, Source::Memtable(mem) if mem.has_range_tombstones())
    }

    /// Whether both are the same source. Versions share the `Arc` of an unchanged file or level, so
    /// pointers are compared.
    #[inline]
    pub(super) fn is(&self, other: SourceRef<'_>) -> bool {
        match (self, other) {
            (Source::Memtable(a), SourceRef::Memtable(b)) => Arc::ptr_eq(a, b),
            (Source::File(a), SourceRef::File(b)) => Arc::ptr_eq(a, b),
            (Source::Level(a), SourceRef::Level(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}
