//! The plug-in that drops or changes entries while they are compacted. Semantics are RocksDB's
//! `CompactionFilter`.

use crate::types::ColumnFamilyId;
use std::fmt;
use std::sync::Arc;

/// A filter's decision about an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FilterDecision {
    /// Leave it.
    Keep,
    /// Replace it by a deletion.
    Remove,
    /// Replace it by a single deletion.
    Purge,
    /// Store this value instead.
    ChangeValue(Vec<u8>),
    /// Drop this entry and all entries before this user key, without leaving deletions: older
    /// versions may reappear. In families with timestamps the user key ends with one.
    RemoveAndSkipUntil(Vec<u8>),
}

/// Judges the newest version of each key that no snapshot needs, and each merge operand. In
/// families with user-defined timestamps keys end with their timestamps, and versions with
/// different timestamps are different keys. Each is judged, and `Remove` and `Purge` leave a
/// deletion at its timestamp.
pub trait CompactionFilter: Send + Sync {
    /// The filter's name, for logs.
    fn name(&self) -> &str;
    /// Judges a value. `level` is the level from which the entry is read.
    fn filter(&self, level: usize, key: &[u8], value: &[u8]) -> FilterDecision;
    /// Judges a merge operand. Only `Keep`, `Remove` and `ChangeValue` are allowed. Default: keep.
    fn filter_merge_operand(&self, _level: usize, _key: &[u8], _operand: &[u8]) -> FilterDecision {
        FilterDecision::Keep
    }
}

/// The facts about a compaction that a filter's factory gets.
#[derive(Clone, Debug)]
pub struct CompactionFilterContext {
    /// Whether every file of the family takes part.
    pub is_full_compaction: bool,
    /// Whether the user requested the compaction.
    pub is_manual_compaction: bool,
    /// The family.
    pub column_family_id: ColumnFamilyId,
    /// Whether it is a flush.
    pub is_flush: bool,
}

/// Makes one filter for each (sub)compaction.
pub trait CompactionFilterFactory: Send + Sync {
    /// The factory's name, for logs and OPTIONS files.
    fn name(&self) -> &str;
    /// A filter for this compaction, or `None`.
    fn create(&self, context: &CompactionFilterContext) -> Option<Box<dyn CompactionFilter>>;
    /// The filter and factory that this factory replaced when the engine added TTL. With them the
    /// same options can open another database. Default: none.
    fn before(&self) -> Option<BeforeTtl> {
        None
    }
}

/// A shared factory.
pub type CompactionFilterFactoryRef = Arc<dyn CompactionFilterFactory>;

/// The filter and the factory in a family's options before TTL was added to them.
#[derive(Clone, Debug, Default)]
pub struct BeforeTtl {
    /// The filter.
    pub filter: Option<Arc<dyn CompactionFilter>>,
    /// The factory.
    pub factory: Option<CompactionFilterFactoryRef>,
}

impl fmt::Debug for dyn CompactionFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CompactionFilter({})", self.name())
    }
}

impl fmt::Debug for dyn CompactionFilterFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CompactionFilterFactory({})", self.name())
    }
}
