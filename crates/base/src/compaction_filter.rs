//! The plug-in that drops or changes entries in compactions.
//!
//! Semantics are those of RocksDB's `CompactionFilter`.

use crate::types::ColumnFamilyId;
use std::fmt;
use std::sync::Arc;

/// A filter's decision about an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FilterDecision {
    /// Keep the entry.
    Keep,
    /// Replace the entry by a deletion.
    Remove,
    /// Replace the entry by a single deletion.
    Purge,
    /// Replace the value by this one.
    ChangeValue(Vec<u8>),
    /// Drop this entry and all following entries before this user key. No deletions replace them,
    /// so older versions may reappear. In families with timestamps the user key ends with a
    /// timestamp.
    RemoveAndSkipUntil(Vec<u8>),
}

/// Decides about the entries of a compaction: the newest version of each key, and each merge
/// operand.
///
/// The filter does not see entries that a snapshot needs. In families with user-defined timestamps,
/// keys end with their timestamps. Versions with different timestamps count as different keys.
/// `Remove` and `Purge` then leave a deletion with the timestamp of the entry.
pub trait CompactionFilter: Send + Sync {
    /// The filter's name, for logs.
    fn name(&self) -> &str;
    /// Decides about a value. `level` is the level from which the compaction read the entry.
    fn filter(&self, level: usize, key: &[u8], value: &[u8]) -> FilterDecision;
    /// Decides about a merge operand: `Keep`, `Remove` or `ChangeValue`. Default: `Keep`.
    fn filter_merge_operand(&self, _level: usize, _key: &[u8], _operand: &[u8]) -> FilterDecision {
        FilterDecision::Keep
    }
}

/// Facts about a compaction, for the factory of its filter.
#[derive(Clone, Debug)]
pub struct CompactionFilterContext {
    /// Whether the compaction reads every file of the family.
    pub is_full_compaction: bool,
    /// Whether the user requested the compaction.
    pub is_manual_compaction: bool,
    /// The family.
    pub column_family_id: ColumnFamilyId,
    /// Whether the job is a flush.
    pub is_flush: bool,
}

/// Makes one filter for each (sub)compaction.
pub trait CompactionFilterFactory: Send + Sync {
    /// The factory's name, for logs and OPTIONS files.
    fn name(&self) -> &str;
    /// Makes the filter of one (sub)compaction. `None`: no filter.
    fn create(&self, context: &CompactionFilterContext) -> Option<Box<dyn CompactionFilter>>;
    /// For the factory that the engine uses for TTL: the user's filter and factory, which it
    /// replaced. A later open with the same options takes both from here. Default: none.
    fn before(&self) -> Option<BeforeTtl> {
        None
    }
}

/// A shared factory.
pub type CompactionFilterFactoryRef = Arc<dyn CompactionFilterFactory>;

/// The filter and the factory of a family's options before the engine replaced them for TTL.
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
