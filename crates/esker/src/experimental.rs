//! Query filters: scans of a range leave out tables by parts of their keys.
//!
//! A [`KeySegmentsExtractor`] splits keys into segments. A collector of a
//! [`SstQueryFilterFactory`] stores the smallest and largest segments of each new table in the
//! table's properties. A scan with the factory's table filter skips tables without a key in its
//! range. Plain bounds tell as much about the first segment; filters help where segments behind it
//! have ranges of their own, for example times behind a name.
//!
//! A [`SstQueryFilterConfigsManager`] has the configurations of all versions of a program, so that
//! each version reads the filters of the others.
//!
//! ```
//! # let dir = esker_testkit::TempDir::new("doc");
//! use esker::experimental::{
//!     CappedKeySegmentsExtractor, FilterInput, KeyCategorySet, SstQueryFilterConfig,
//!     SstQueryFilterConfigs, SstQueryFilterConfigsManager,
//! };
//! use esker::{Db, Options, ReadOptions};
//! use std::sync::Arc;
//!
//! // A name of four bytes, and a day.
//! let day = SstQueryFilterConfig::bytewise_min_max(FilterInput::KeySegment(1), KeyCategorySet::ALL)?;
//! let extractor = Arc::new(CappedKeySegmentsExtractor::new(&[4, 8])?);
//! let configs = SstQueryFilterConfigs { filters: vec![day], extractor: Some(extractor) };
//! let versions = vec![(1, vec![("days".to_owned(), configs)])];
//! let days = SstQueryFilterConfigsManager::new(versions)?.factory("days", 1)?;
//!
//! let mut options = Options::new().create_if_missing(true);
//! options.cf.table_properties_collector_factories.push(days.clone());
//! let db = Db::open(&options, dir.path())?;
//! db.put("ada.20260102", "tea")?;
//! db.flush()?;
//!
//! let (first, last) = ("ada.20260301", "ada.20260401");
//! let filter = days.table_filter_for_range_query(first, last);
//! let march = ReadOptions { table_filter: Some(filter), ..ReadOptions::default() };
//! assert_eq!(db.range_opt(march, &db.default_column_family(), first..last).count(), 0);
//! # Ok::<_, esker::Error>(())
//! ```
//!
//! The property is RocksDB's, byte for byte. Source of names and semantics: RocksDB
//! `include/rocksdb/experimental.h`, `db/experimental.cc`.

use crate::options::ScanTableFilter;
use esker_base::sync::Arc;
use esker_base::sync::atomic::{AtomicU32, Ordering};
use esker_base::table_properties_collector::{
    TablePropertiesCollector, TablePropertiesCollectorContext, TablePropertiesCollectorFactory,
    UserCollectedProperties,
};
use esker_base::{Error, Result, SequenceNumber, ValueType};
use esker_format::properties::TableProperties;
use esker_format::query_filter::{NAME, QueryFilterBuilder, QueryRange};
use std::collections::{BTreeMap, HashMap, HashSet};

pub use esker_format::query_filter::{
    CappedKeySegmentsExtractor, FilterInput, KeyCategory, KeyCategorySet, KeyKind, KeySegments,
    KeySegmentsExtractor, SstQueryFilterConfig,
};

/// A shared extractor.
pub type KeySegmentsExtractorRef = Arc<dyn KeySegmentsExtractor>;

/// The filters of tables, and the extractor of the segments that they are about.
#[derive(Clone, Debug, Default)]
pub struct SstQueryFilterConfigs {
    /// The filters.
    pub filters: Vec<SstQueryFilterConfig>,
    /// The extractor. Without one, keys have no segments, and scans use none of the filters.
    pub extractor: Option<KeySegmentsExtractorRef>,
}

/// A version of the configurations, from 1; 0 stands for no filters.
pub type FilteringVersion = u32;

/// The configurations that each version of a program adds or replaces, by name.
pub type SstQueryFilterVersions = Vec<(FilteringVersion, Vec<(String, SstQueryFilterConfigs)>)>;

/// All configurations that a program knows, by name and version. Never changes.
///
/// A version keeps the configurations of the one before it, except those that it replaces. Once a
/// version is in use, its configurations stay as they are, and so does the behaviour of each
/// extractor under its id: a change is a new version.
///
/// ```
/// use esker::experimental::{SstQueryFilterConfigs, SstQueryFilterConfigsManager};
///
/// let of = |name: &str| (name.to_owned(), SstQueryFilterConfigs::default());
/// let manager = SstQueryFilterConfigsManager::new(vec![
///     (1, vec![of("foo")]),
///     (2, vec![of("bar")]),
///     (3, vec![]),
/// ])?;
/// assert!(manager.factory("bar", 3)?.configs().is_some(), "that of version 2");
/// assert!(manager.factory("bar", 1)?.configs().is_none());
/// assert!(manager.factory("bar", 4).is_err());
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct SstQueryFilterConfigsManager {
    names: HashMap<String, BTreeMap<FilteringVersion, SstQueryFilterConfigs>>,
    extractors: HashMap<String, KeySegmentsExtractorRef>,
    /// The first and the last version; both 0 if there is none.
    known: (FilteringVersion, FilteringVersion),
}

impl SstQueryFilterConfigsManager {
    /// The configurations of these versions, which ascend by 1: RocksDB's `MakeShared`.
    /// # Errors
    /// `InvalidArgument`: a version 0, a version that does not follow the one before, or a name
    /// that comes twice in a version.
    pub fn new(versions: SstQueryFilterVersions) -> Result<Arc<SstQueryFilterConfigsManager>> {
        let mut manager = SstQueryFilterConfigsManager::default();
        let mut before: Option<FilteringVersion> = None;
        for (version, configs) in versions {
            if version == 0 {
                return Err(Error::invalid_argument(
                    "Filtering version 0 is reserved for empty configuration and may not be overridden",
                ));
            }
            if let Some(before) = before
                && before.checked_add(1) != Some(version)
            {
                return Err(Error::invalid_argument(format!(
                    "Filtering versions must increase by 1 without repeating: {before} -> {version}"
                )));
            }
            before = Some(version);
            let first = if manager.known.0 == 0 { version } else { manager.known.0 };
            manager.known = (first, version);
            manager.add(version, configs)?;
        }
        Ok(Arc::new(manager))
    }

    fn add(&mut self, version: FilteringVersion, all: Vec<(String, SstQueryFilterConfigs)>) -> Result<()> {
        let mut seen = HashSet::new();
        for (name, configs) in all {
            if !seen.insert(name.clone()) {
                let why = format!("Duplicate name in filtering version {version}: {name}");
                return Err(Error::invalid_argument(why));
            }
            if let Some(extractor) = &configs.extractor {
                self.extractors.insert(extractor.id(), extractor.clone());
            }
            self.names.entry(name).or_default().insert(version, configs);
        }
        Ok(())
    }

    /// A factory of collectors that write the filters of this name, as of `version`: RocksDB's
    /// `MakeSharedFactory`. Without such a configuration, and with version 0, it writes none. It
    /// reads the filters of every configuration of the manager.
    /// # Errors
    /// `InvalidArgument`: the manager does not know the version.
    pub fn factory(
        self: &Arc<Self>,
        configs_name: impl Into<String>,
        version: FilteringVersion,
    ) -> Result<Arc<SstQueryFilterFactory>> {
        let configs_name = configs_name.into();
        let factory =
            SstQueryFilterFactory { manager: self.clone(), configs_name, version: AtomicU32::new(0) };
        factory.set_filtering_version(version)?;
        Ok(Arc::new(factory))
    }

    /// Whether a table with these properties may have a key from `lower` to `upper`.
    fn may_match(&self, properties: &TableProperties, lower: &[u8], upper: &[u8]) -> bool {
        let Some(property) = properties.user_collected_properties.get(NAME) else { return true };
        QueryRange { lower, upper }.may_match(property, |id| {
            let id = std::str::from_utf8(id).ok()?;
            self.extractors.get(id).map(|extractor| &**extractor)
        })
    }
}

/// Writes the filters of one configuration into new tables, and makes table filters for scans.
/// RocksDB's `SstQueryFilterConfigsManager::Factory`.
///
/// Tables have no filters if their extractor refuses a key, or if the keys of a class do not lie
/// side by side. The LOG says so.
#[derive(Debug)]
pub struct SstQueryFilterFactory {
    manager: Arc<SstQueryFilterConfigsManager>,
    configs_name: String,
    version: AtomicU32,
}

impl SstQueryFilterFactory {
    /// Changes the version of the filters in tables that are begun later.
    ///
    /// ```
    /// use esker::experimental::SstQueryFilterConfigsManager;
    ///
    /// let factory = SstQueryFilterConfigsManager::new(vec![(7, vec![])])?.factory("foo", 0)?;
    /// factory.set_filtering_version(7)?;
    /// assert!(factory.set_filtering_version(6).is_err());
    /// assert_eq!((factory.configs_name(), factory.filtering_version()), ("foo", 7));
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the manager does not know the version.
    pub fn set_filtering_version(&self, version: FilteringVersion) -> Result<()> {
        let (first, last) = self.manager.known;
        if version > 0 && version < first {
            return Err(Error::invalid_argument(format!(
                "Filtering version is before earliest known configuration: {version} < {first}"
            )));
        }
        if version > last {
            return Err(Error::invalid_argument(format!(
                "Filtering version is after latest known configuration: {version} > {last}"
            )));
        }
        self.version.store(version, Ordering::Relaxed);
        Ok(())
    }

    /// The version of the filters in new tables; 0: tables get none.
    pub fn filtering_version(&self) -> FilteringVersion {
        self.version.load(Ordering::Relaxed)
    }

    /// The name of its configuration.
    pub fn configs_name(&self) -> &str {
        &self.configs_name
    }

    /// The configuration of this name in the version in force; `None` if there is none (RocksDB's
    /// `IsEmptyNotFound`).
    pub fn configs(&self) -> Option<&SstQueryFilterConfigs> {
        let versions = self.manager.names.get(&self.configs_name)?;
        let up_to = self.filtering_version();
        versions.range(..=up_to).next_back().filter(|_| up_to > 0).map(|(_, configs)| configs)
    }

    /// A filter that leaves out tables without a key from `lower_bound_incl` up to
    /// `upper_bound_excl`, for [`ReadOptions::table_filter`](crate::ReadOptions::table_filter) of a
    /// scan with these bounds. Tables without filters stay. RocksDB's
    /// `GetTableFilterForRangeQuery`. Costs two extractions for each table that the scan opens.
    pub fn table_filter_for_range_query(
        &self,
        lower_bound_incl: impl Into<Vec<u8>>,
        upper_bound_excl: impl Into<Vec<u8>>,
    ) -> ScanTableFilter {
        let (lower, upper) = (lower_bound_incl.into(), upper_bound_excl.into());
        let manager = self.manager.clone();
        ScanTableFilter::new(move |properties| manager.may_match(properties, &lower, &upper))
    }
}

/// RocksDB's name of the factory, which tables list among their collectors.
const FACTORY: &str = "SstQueryFilterConfigsManagerImpl::MyFactory";

impl TablePropertiesCollectorFactory for SstQueryFilterFactory {
    fn name(&self) -> &str {
        FACTORY
    }

    fn create(&self, context: &TablePropertiesCollectorContext) -> Option<Box<dyn TablePropertiesCollector>> {
        let configs = self.configs()?;
        let builder = QueryFilterBuilder::new(configs.extractor.clone(), &configs.filters);
        let timestamp_size = context.timestamp_size;
        Some(Box::new(QueryFilterCollector { builder, timestamp_size, failure: None }))
    }
}

/// Gives the keys of one table to the builder.
struct QueryFilterCollector {
    builder: QueryFilterBuilder,
    /// Bytes at the end of each key that are no part of it: bounds of scans have no timestamps.
    timestamp_size: usize,
    /// The reason for which the table has no filters.
    failure: Option<Error>,
}

impl TablePropertiesCollector for QueryFilterCollector {
    fn name(&self) -> &str {
        FACTORY
    }

    fn add_user_key(
        &mut self,
        key: &[u8],
        _value: &[u8],
        _kind: ValueType,
        _sequence: SequenceNumber,
        _file_size: u64,
    ) -> Result<()> {
        self.builder.add(&key[..key.len().saturating_sub(self.timestamp_size)]);
        Ok(())
    }

    fn finish(&mut self) -> Result<UserCollectedProperties> {
        // A table without filters is right. An error would end the flush.
        match self.builder.finish() {
            Ok(property) => Ok(property.map(|property| (NAME.to_vec(), property)).into_iter().collect()),
            Err(failure) => {
                self.failure = Some(failure);
                Ok(Vec::new())
            }
        }
    }

    fn readable_properties(&self) -> UserCollectedProperties {
        let failure = self.failure.iter();
        failure.map(|failure| (NAME.to_vec(), failure.to_string().into_bytes())).collect()
    }
}
