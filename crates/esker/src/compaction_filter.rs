//! The plug-in that drops or changes entries in compactions.
//!
//! Semantics are those of RocksDB's `CompactionFilter`.

pub use esker_base::TableFileCreationReason;
use esker_base::{ColumnFamilyId, Error, Result};
use esker_format::properties::TableProperties;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
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
    /// Replace the value by this one. An entity becomes a plain value.
    ChangeValue(Vec<u8>),
    /// Replace the value by an entity. Each pair is the name and the value of a column. RocksDB's
    /// `kChangeWideColumnEntity`. The compaction fails if a name occurs twice.
    ChangeEntity(Vec<(Vec<u8>, Vec<u8>)>),
    /// Drop this entry, and all following entries up to, not including, the given user key. No
    /// deletions replace them, so older versions may reappear. In families with timestamps the user
    /// key ends with a timestamp.
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
    /// Decides about an entity: RocksDB's `FilterV3` and `FilterV4`. Columns in blob files are read
    /// when the filter asks for their values. Default: keep, unread.
    fn filter_entity(&self, _level: usize, _key: &[u8], _columns: &mut dyn EntityColumns) -> FilterDecision {
        FilterDecision::Keep
    }
    /// Decides about a value in a blob file by its key, unread: RocksDB's `FilterBlobByKey`.
    /// `None`: the key does not decide, and [`filter`](CompactionFilter::filter) gets the value.
    /// Default `None`.
    fn filter_blob_by_key(&self, _level: usize, _key: &[u8]) -> Option<FilterDecision> {
        None
    }
}

/// The columns of an entity, for a filter; in the order of their names.
///
/// If the entity is damaged, or a value cannot be read, the compaction fails whatever the filter
/// decides. A damaged entity has no columns.
pub trait EntityColumns {
    /// Number of columns.
    fn len(&self) -> usize;
    /// Whether there are no columns.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The name of a column; `None` if there are fewer columns.
    fn name(&self, index: usize) -> Option<&[u8]>;
    /// Whether the value of the column is in a blob file.
    fn is_blob(&self, index: usize) -> bool;
    /// The value of a column. Reads a value from its blob file once.
    /// # Errors
    /// `InvalidArgument`: there is no such column · errors of reading the blob file.
    fn value(&mut self, index: usize) -> Result<&[u8]>;
}

/// The error of [`EntityColumns::value`] for a column that does not exist.
#[cold]
pub fn no_such_column(index: usize, len: usize) -> Error {
    Error::invalid_argument(format!("an entity of {len} columns has no column {index}"))
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
    /// The reason for the new tables.
    pub reason: TableFileCreationReason,
    /// The uppermost level of the inputs; `None` if they are memtables.
    pub input_start_level: Option<usize>,
    /// The properties of all input tables of the compaction, by path. Empty if the inputs are
    /// memtables, or if a table cannot be opened.
    pub input_table_properties: Arc<BTreeMap<PathBuf, TableProperties>>,
}

/// Makes one filter for each (sub)compaction, and on request for each flush.
pub trait CompactionFilterFactory: Send + Sync {
    /// The factory's name, for logs and OPTIONS files.
    fn name(&self) -> &str;
    /// Whether a filter gets the entries of tables that are written for this reason. Default: only
    /// for [`TableFileCreationReason::Compaction`].
    fn should_filter_table_file_creation(&self, reason: TableFileCreationReason) -> bool {
        reason == TableFileCreationReason::Compaction
    }
    /// Makes the filter of one (sub)compaction. `None`: no filter.
    fn create(&self, context: &CompactionFilterContext) -> Option<Box<dyn CompactionFilter>>;
    /// The user's filter and factory, if this factory replaced them for TTL. A later open with the
    /// same options takes both from here. Default: `None`.
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

struct FilterFn<F> {
    name: String,
    filter: F,
}

impl<F> CompactionFilter for FilterFn<F>
where
    F: Fn(usize, &[u8], &[u8]) -> FilterDecision + Send + Sync,
{
    fn name(&self) -> &str {
        &self.name
    }
    fn filter(&self, level: usize, key: &[u8], value: &[u8]) -> FilterDecision {
        (self.filter)(level, key, value)
    }
}

/// A compaction filter that calls `filter` with the level, key and value of an entry.
///
/// ```
/// use esker::compaction_filter::{FilterDecision, from_closure};
///
/// let filter = from_closure("example.NoDrafts", |_level, _key, value| match value {
///     [b'd', ..] => FilterDecision::Remove,
///     _ => FilterDecision::Keep,
/// });
/// assert_eq!(filter.filter(0, b"k", b"draft"), FilterDecision::Remove);
/// ```
pub fn from_closure<F>(name: impl Into<String>, filter: F) -> Arc<dyn CompactionFilter>
where
    F: Fn(usize, &[u8], &[u8]) -> FilterDecision + Send + Sync + 'static,
{
    Arc::new(FilterFn { name: name.into(), filter })
}
