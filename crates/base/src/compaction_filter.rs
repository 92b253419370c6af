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
    /// Drop this and everything before this user key, without leaving deletions: older versions may
    /// reappear. It ends in a timestamp where keys do.
    RemoveAndSkipUntil(Vec<u8>),
}

/// Looks at the newest version of each key that no snapshot needs, and at each merge operand. In
/// families with user-defined timestamps keys end in their timestamps, and versions at different
/// ones are different keys: each is judged, and `Remove` and `Purge` leave a deletion at its
/// timestamp.
pub trait CompactionFilter: Send + Sync {
    /// For logs.
    fn name(&self) -> &str;
    /// Judges a value. `level` is the output level's input: the level the entry is read from.
    fn filter(&self, level: usize, key: &[u8], value: &[u8]) -> FilterDecision;
    /// Judges a merge operand; only `Keep`, `Remove` and `ChangeValue` make sense. Default: keep.
    fn filter_merge_operand(&self, _level: usize, _key: &[u8], _operand: &[u8]) -> FilterDecision {
        FilterDecision::Keep
    }
}

/// The facts about a compaction that a filter's factory gets.
#[derive(Clone, Debug)]
pub struct CompactionFilterContext {
    /// Every file of the family takes part.
    pub is_full_compaction: bool,
    /// The user asked for it.
    pub is_manual_compaction: bool,
    /// The family.
    pub column_family_id: ColumnFamilyId,
    /// Whether it is a flush.
    pub is_flush: bool,
}

/// Makes one filter for each (sub)compaction.
pub trait CompactionFilterFactory: Send + Sync {
    /// For logs and OPTIONS.
    fn name(&self) -> &str;
    /// A filter for this compaction, or `None`.
    fn create(&self, context: &CompactionFilterContext) -> Option<Box<dyn CompactionFilter>>;
    /// The filter and factory that the engine put this factory in front of, so that the same
    /// options can open another database. Default: none.
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
