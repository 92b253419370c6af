//! The options of LevelDB, and the options of Esker that mean the same.
//!
//! Source of names, defaults and the conversion: RocksDB
//! `include/rocksdb/utilities/leveldb_options.h`, `utilities/leveldb_options/leveldb_options.cc`.

use super::{BlockCache, CompressionType, Env, FilterPolicy, InfoLog, Options};
use esker_base::comparator::{BytewiseComparator, ComparatorRef};
use std::fmt;
use std::sync::Arc;

/// The options of LevelDB, with LevelDB's defaults: RocksDB's `LevelDBOptions`.
///
/// A program that comes from LevelDB fills in its options as before and converts them with
/// [`convert_options`].
///
/// ```
/// use esker::Db;
/// use esker::options::{LevelDbOptions, convert_options};
/// # let dir = esker_testkit::TempDir::new("doc");
///
/// let leveldb = LevelDbOptions { create_if_missing: true, ..LevelDbOptions::default() };
/// let db = Db::open(&convert_options(&leveldb), dir.path())?;
/// db.put("esker", "gravel")?;
/// assert_eq!(db.options_cf(&db.default_column_family()).write_buffer_size, 4 << 20);
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Clone)]
pub struct LevelDbOptions {
    /// Order of keys. Default: bytewise.
    pub comparator: ComparatorRef,
    /// Create the database if its directory has none. Default false.
    pub create_if_missing: bool,
    /// Fail to open a database that exists. Default false.
    pub error_if_exists: bool,
    /// Check more while opening and stop writes at the first sign of damage. Default false.
    pub paranoid_checks: bool,
    /// Files, clock and threads. Default: the machine's.
    pub env: Env,
    /// Destination of LOG lines; `None`: the file LOG. Default `None`.
    pub info_log: Option<Arc<dyn InfoLog>>,
    /// Bytes that the entries of a memtable use before it is switched. Default 4 MiB.
    pub write_buffer_size: usize,
    /// Table files that stay open. Default 1000.
    pub max_open_files: i32,
    /// Cache of blocks; `None`: the engine makes one of 32 MiB. Default `None`.
    pub block_cache: Option<Arc<BlockCache>>,
    /// Data blocks are cut at about this many uncompressed bytes. Default 4096.
    pub block_size: usize,
    /// Entries between full keys in data blocks. Default 16.
    pub block_restart_interval: usize,
    /// The codec of blocks. Default Snappy.
    pub compression: CompressionType,
    /// The filter of new tables; `None`: none. Default `None`.
    pub filter_policy: Option<FilterPolicy>,
}

impl Default for LevelDbOptions {
    fn default() -> LevelDbOptions {
        LevelDbOptions {
            comparator: Arc::new(BytewiseComparator),
            create_if_missing: false,
            error_if_exists: false,
            paranoid_checks: false,
            env: Env::default(),
            info_log: None,
            write_buffer_size: 4 << 20,
            max_open_files: 1000,
            block_cache: None,
            block_size: 4096,
            block_restart_interval: 16,
            compression: CompressionType::Snappy,
            filter_policy: None,
        }
    }
}

esker_base::setters! {
    LevelDbOptions {
        comparator: ComparatorRef;
        create_if_missing: bool;
        error_if_exists: bool;
        paranoid_checks: bool;
        env: Env;
        optional info_log: Arc<dyn InfoLog>;
        write_buffer_size: usize;
        max_open_files: i32;
        optional block_cache: Arc<BlockCache>;
        block_size: usize;
        block_restart_interval: usize;
        compression: CompressionType;
        optional filter_policy: FilterPolicy;
    }
}

impl fmt::Debug for LevelDbOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LevelDbOptions")
            .field("comparator", &self.comparator.name())
            .field("write_buffer_size", &self.write_buffer_size)
            .field("max_open_files", &self.max_open_files)
            .field("block_size", &self.block_size)
            .field("block_restart_interval", &self.block_restart_interval)
            .field("compression", &self.compression)
            .finish_non_exhaustive()
    }
}

/// The options of Esker that mean the same as these options of LevelDB: RocksDB's `ConvertOptions`.
/// All other options have their defaults.
///
/// The comparator is converted, too. RocksDB's function leaves it out, so that a database with an
/// order of its own does not open there until the program sets the comparator itself.
#[must_use]
pub fn convert_options(leveldb_options: &LevelDbOptions) -> Options {
    let from = leveldb_options.clone();
    let mut options = Options::default();
    options.db.create_if_missing = from.create_if_missing;
    options.db.error_if_exists = from.error_if_exists;
    options.db.paranoid_checks = from.paranoid_checks;
    options.db.env = from.env;
    options.db.info_log = from.info_log;
    options.db.max_open_files = from.max_open_files;
    options.cf.comparator = from.comparator;
    options.cf.write_buffer_size = from.write_buffer_size;
    options.cf.compression = from.compression;
    options.cf.table.block_cache = from.block_cache;
    options.cf.table.block_size = from.block_size;
    options.cf.table.block_restart_interval = from.block_restart_interval;
    options.cf.table.filter_policy = from.filter_policy;
    options
}
