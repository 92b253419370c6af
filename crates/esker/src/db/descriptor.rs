//! A family as the caller describes it: its name, its options, which are made consistent, and its
//! table cache.

use crate::merge::call_times::timed_operator;
use crate::options::{ColumnFamilyOptions, DbOptions};
use crate::version::{DEFAULT_COLUMN_FAMILY_NAME, FamilyDescriptor};
use esker_base::sync::Arc;
use esker_base::{Error, Result};
use esker_cache::Role;
use esker_format::file_name::FilePaths;
use esker_format::key::InternalKeyComparator;
use esker_table::{OpenFiles, TableCache, TableCacheOptions};
use std::path::Path;

/// A family to open: its name and options.
///
/// ```
/// # let dir = esker_testkit::TempDir::new("doc");
/// # let db = esker::Db::open_default(dir.path())?;
/// use esker::{ColumnFamilyDescriptor, ColumnFamilyOptions};
///
/// let small = ColumnFamilyOptions::new().write_buffer_size(1 << 20);
/// let users = ColumnFamilyDescriptor::new("users", small);
/// db.create_column_families([users])?;
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ColumnFamilyDescriptor {
    /// The family's name; every database has the family `default`.
    pub name: String,
    /// The family's options.
    pub options: ColumnFamilyOptions,
}

impl ColumnFamilyDescriptor {
    /// A family called `name`.
    pub fn new(name: impl Into<String>, options: ColumnFamilyOptions) -> ColumnFamilyDescriptor {
        ColumnFamilyDescriptor { name: name.into(), options }
    }

    /// Converts names of families, names with options, or descriptors into descriptors.
    pub(crate) fn list(families: impl IntoIterator<Item = impl Into<Self>>) -> Vec<Self> {
        families.into_iter().map(Into::into).collect()
    }

    /// The descriptor for the MANIFEST of the database in `db`.
    pub(crate) fn for_manifest(&self, db: &Path) -> FamilyDescriptor {
        let mut descriptor = FamilyDescriptor::new(self.name.clone());
        descriptor.comparator = self.options.comparator.clone();
        descriptor.persist_user_defined_timestamps = self.options.persist_user_defined_timestamps;
        descriptor.num_levels = usize::try_from(self.options.num_levels).unwrap_or(1);
        descriptor.paths = Some(self.options.file_paths(db));
        descriptor.metadata_cache = self.options.table.cache_charged_for(Role::FileMetadata).cloned();
        descriptor.reserves_last_level = self.options.cf_allow_ingest_behind;
        descriptor
    }
}

/// A family of this name with default options.
impl From<&str> for ColumnFamilyDescriptor {
    fn from(name: &str) -> Self {
        ColumnFamilyDescriptor::new(name, ColumnFamilyOptions::default())
    }
}

/// A family of this name with default options.
impl From<String> for ColumnFamilyDescriptor {
    fn from(name: String) -> Self {
        ColumnFamilyDescriptor::new(name, ColumnFamilyOptions::default())
    }
}

/// A name and its options, in the form of
/// [`LoadedOptions::families`](crate::options::LoadedOptions).
impl<N: Into<String>> From<(N, ColumnFamilyOptions)> for ColumnFamilyDescriptor {
    fn from((name, options): (N, ColumnFamilyOptions)) -> Self {
        ColumnFamilyDescriptor::new(name, options)
    }
}

/// A clone of the descriptor.
impl From<&ColumnFamilyDescriptor> for ColumnFamilyDescriptor {
    fn from(descriptor: &ColumnFamilyDescriptor) -> Self {
        descriptor.clone()
    }
}

/// Checks a family's options and makes them consistent. Returns the changes, as sentences.
/// # Errors
/// `InvalidArgument` or `NotSupported` naming family and option.
pub(crate) fn make_consistent(
    options: &DbOptions,
    family: &mut ColumnFamilyDescriptor,
) -> Result<Vec<String>> {
    // For `default`, the only family of most databases, the message has only RocksDB's words.
    let named = |e: Error| match family.name.as_str() {
        DEFAULT_COLUMN_FAMILY_NAME => e,
        name => e.at(format_args!("column family '{name}'")),
    };
    family.options.take_paths(options).map_err(named)?;
    family.options.validate().map_err(named)?;
    family.options.validate_target(options).map_err(named)?;
    family.options.validate_in_place(options).map_err(named)?;
    let changes = family.options.sanitize(options);
    if let Some(operator) = &mut family.options.merge_operator {
        *operator = timed_operator(operator, options.statistics.clone(), options.env.clock.clone());
    }
    Ok(changes.into_iter().map(|change| format!("column family '{}': {change}", family.name)).collect())
}

/// The open tables of a family with these directories, among those of the database.
pub(crate) fn family_tables(
    options: &DbOptions,
    paths: FilePaths,
    family: &ColumnFamilyDescriptor,
    open_files: &Arc<OpenFiles>,
) -> Arc<TableCache> {
    let cache_options = TableCacheOptions {
        icmp: InternalKeyComparator::new(family.options.comparator.clone()),
        table_options: Arc::new(family.options.table.clone()),
        prefix_extractor: family.options.prefix_extractor.clone(),
        compression_manager: family.options.compression_manager.clone(),
        merge_operator: family.options.merge_operator.clone(),
        paths,
        open_files: open_files.clone(),
        max_file_size_for_l0_meta_pin: family.options.write_buffer_size as u64 / 2 * 3,
        verify_unique_ids: options.verify_sst_unique_id_in_manifest,
        num_levels: family.options.num_levels as usize,
        default_temperature: family.options.default_temperature as u8,
        family_name: family.name.as_str().into(),
        statistics: options.statistics.clone(),
        clock: options.env.clock.clone(),
        blob_cache: family.options.blob_cache.clone(),
        use_direct_reads: options.use_direct_reads,
        block_protection_bytes_per_key: family.options.block_protection_bytes_per_key as usize,
        uncache_aggressiveness: family.options.uncache_aggressiveness,
    };
    Arc::new(TableCache::new(options.env.fs.clone(), cache_options))
}
