//! Options of one read: RocksDB's `ReadOptions`.
//!
//! Source: RocksDB `include/rocksdb/options.h`.

use crate::snapshot::Snapshot;
use esker_base::IoActivity;
use esker_base::sync::Arc;
use esker_env::IoPriority;
use esker_format::properties::TableProperties;
use esker_table::TableReadOptions;
use std::fmt;
use std::time::Duration;

/// The places where a read may look for its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[non_exhaustive]
pub enum ReadTier {
    /// Everything: memtables, cache and files.
    #[default]
    ReadAll,
    /// Memtables and the cache. A read that would read a file or open a table gives `Incomplete`.
    BlockCache,
    /// Only data that survives a crash of the process. After a write without the WAL, memtables are
    /// left out. For gets and batches; iterators are `NotSupported`.
    Persisted,
    /// Only the memtables.
    Memtable,
}

impl ReadTier {
    /// The places where a read of a table may look.
    pub fn table_tier(self) -> esker_table::TableReadTier {
        match self {
            ReadTier::ReadAll | ReadTier::Persisted => esker_table::TableReadTier::ReadAll,
            // A read of `Memtable` never reaches tables.
            ReadTier::BlockCache | ReadTier::Memtable => esker_table::TableReadTier::BlockCache,
        }
    }
}

/// Options of `get`, `multi_get` and iterators.
///
/// ```
/// # let dir = esker_testkit::TempDir::new("doc");
/// # let db = esker::Db::open_default(dir.path())?;
/// use esker::options::ReadTier;
/// use esker::ReadOptions;
///
/// let options = ReadOptions::new()
///     .snapshot(&db.snapshot())
///     .lower_bound("user/")
///     .upper_bound("user0")
///     .verify_checksums(true)
///     .fill_cache(false)
///     .read_tier(ReadTier::ReadAll)
///     .total_order_seek(true)
///     .prefix_same_as_start(false)
///     .auto_refresh_iterator_with_snapshot(true)
///     .readahead_size(1 << 20);
/// let cursor = db.iter_opt(options, &db.default_column_family())?;
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Clone)]
pub struct ReadOptions {
    /// Read as of this snapshot; `None`: as of now. Default `None`.
    pub snapshot: Option<Snapshot>,
    /// Check block checksums on every read from a file. Default true.
    pub verify_checksums: bool,
    /// Put blocks that the read loads from files into the block cache. Turn off for bulk scans.
    /// Default true.
    pub fill_cache: bool,
    /// Places where the read may look. Default `ReadAll`.
    pub read_tier: ReadTier,
    /// First user key that an iterator may show. Default `None`.
    pub iterate_lower_bound: Option<Vec<u8>>,
    /// User key before which an iterator ends. Default `None`.
    pub iterate_upper_bound: Option<Vec<u8>>,
    /// Show keys that range deletions hide. Default false.
    pub ignore_range_deletions: bool,
    /// Bytes that an iterator reads ahead; 0: it adapts to its reads. Default 0.
    pub readahead_size: usize,
    /// Accepted without effect: the read-ahead starts anew in each file. Default false.
    pub adaptive_readahead: bool,
    /// `multi_get` reads the missing blocks of all levels at once instead of level by level: it
    /// waits less, and may read superfluous blocks. Without it, the missing blocks of up to four
    /// keys are read one after the other, as by `get`. It changes nothing for iterators. Default
    /// false.
    pub async_io: bool,
    /// See all keys, whatever the prefix extractor says. Default false: bounds or
    /// `prefix_same_as_start` may let prefix filters skip files, but iterators never miss a key
    /// within the bounds or the prefix. An iterator over memtables of a hash kind needs it: see
    /// [`MemtableFactory`](crate::options::MemtableFactory).
    pub total_order_seek: bool,
    /// Only makes iterators over memtables of a hash kind see all keys, as `total_order_seek` does:
    /// iterators use prefix filters whenever that is safe, with or without this option. Default
    /// false.
    pub auto_prefix_mode: bool,
    /// An iterator ends where the prefix of its seek key ends. Default false.
    pub prefix_same_as_start: bool,
    /// Keys and values of an iterator stay readable as long as it lives. Default false.
    pub pin_data: bool,
    /// Accepted without effect: files are always deleted in the background. Default false.
    pub background_purge_on_iterator_cleanup: bool,
    /// Hidden entries an iterator may step over before it gives `Incomplete`; 0: no limit. Default
    /// 0.
    pub max_skippable_internal_keys: u64,
    /// Accepted without effect: every iterator releases unneeded memtables and files as soon as
    /// there are newer ones, and continues with those at its position. Its entries stay the same.
    /// Exceptions are iterators with `pin_data`, `ignore_range_deletions`, `table_filter`, or
    /// another `read_tier` than `ReadAll`. Default false.
    pub auto_refresh_iterator_with_snapshot: bool,
    /// An iterator shows the newest entries at each move, in both directions. If there are new
    /// writes, a seek or step first moves the iterator to the present. Gets ignore this option.
    /// Iterators over a transaction's own writes refuse it with `NotSupported`. Default false.
    pub tailing: bool,
    /// `multi_get` stops with `Aborted` when its values pass this many bytes. Default: no limit.
    pub value_size_soft_limit: u64,
    /// Point in time (since the Unix epoch, to the microsecond) from which on no file is read. A
    /// read that needs a file then gives `TimedOut`, in a batch for each key. A file read that has
    /// begun is not cut short. Default `None`.
    pub deadline: Option<Duration>,
    /// The timestamp to read at: newer versions are hidden. For families with user-defined
    /// timestamps, and only for those. Default `None`.
    pub timestamp: Option<Vec<u8>>,
    /// In families with user-defined timestamps: iterators show every version from this timestamp
    /// up to `timestamp`, deletions among them, newest first within a key; keys are then internal
    /// keys, which [`ParsedEntryInfo::parse`](crate::ParsedEntryInfo::parse) takes apart. Merge
    /// operands are `NotSupported` there. Default `None`: the newest version at `timestamp`.
    pub iter_start_ts: Option<Vec<u8>>,
    /// Accepted without effect: file operations do not time out. Default `None`.
    pub io_timeout: Option<Duration>,
    /// Accepted without effect: reads of users never wait for a rate limiter. Default `None`.
    pub rate_limiter_priority: Option<IoPriority>,
    /// [`Db::get_with_metadata`](crate::Db::get_with_metadata) says whether it merged more operands
    /// than this. Default `None`: it does not.
    pub merge_operand_count_threshold: Option<usize>,
    /// Accepted without effect: `async_io` alone decides. Default true.
    pub optimize_multiget_for_io: bool,
    /// Accepted without effect: the read-ahead follows the blocks that are read, not the bounds.
    /// Default true.
    pub auto_readahead_size: bool,
    /// Iterators leave values in blob files unread until
    /// [`prepare_value`](crate::DbIterator::prepare_value); before it, value and columns are empty.
    /// Merged values and entities are always loaded, as are the values of a
    /// [`TtlIterator`](crate::TtlIterator), of [`Entries`](crate::Entries) and of a
    /// [`MultiScan`](crate::MultiScan). Gets ignore this option. Default false.
    pub allow_unprepared_value: bool,
    /// Iterators leave out the entries of tables that this filter refuses; range deletions of those
    /// tables still hide entries of others. An iterator calls the filter whenever it opens a table.
    /// Gets do not call it. Default `None`.
    pub table_filter: Option<ScanTableFilter>,
}

/// Whether a scan wants the entries of a table, by the table's properties:
/// [`ReadOptions::table_filter`].
#[derive(Clone)]
pub struct ScanTableFilter(Arc<dyn Fn(&TableProperties) -> bool + Send + Sync>);

impl ScanTableFilter {
    /// A filter that calls `wanted`.
    pub fn new(wanted: impl Fn(&TableProperties) -> bool + Send + Sync + 'static) -> ScanTableFilter {
        ScanTableFilter(Arc::new(wanted))
    }

    /// Whether it accepts a table with these properties.
    pub(crate) fn accepts(&self, properties: &TableProperties) -> bool {
        (self.0)(properties)
    }
}

impl fmt::Debug for ScanTableFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScanTableFilter")
    }
}

esker_base::debug_with_text!(ReadOptions {
    snapshot,
    verify_checksums,
    fill_cache,
    read_tier,
    text iterate_lower_bound,
    text iterate_upper_bound,
    ignore_range_deletions,
    readahead_size,
    adaptive_readahead,
    async_io,
    total_order_seek,
    auto_prefix_mode,
    prefix_same_as_start,
    pin_data,
    background_purge_on_iterator_cleanup,
    max_skippable_internal_keys,
    auto_refresh_iterator_with_snapshot,
    tailing,
    value_size_soft_limit,
    deadline,
    text timestamp,
    text iter_start_ts,
    io_timeout,
    rate_limiter_priority,
    merge_operand_count_threshold,
    optimize_multiget_for_io,
    auto_readahead_size,
    allow_unprepared_value,
    table_filter,
});

/// The options of reads that are given none: nothing to make and nothing to drop.
pub(crate) static PLAIN: ReadOptions = ReadOptions::DEFAULTS;

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions::DEFAULTS
    }
}

impl ReadOptions {
    pub(crate) const DEFAULTS: ReadOptions = ReadOptions {
        snapshot: None,
        verify_checksums: true,
        fill_cache: true,
        read_tier: ReadTier::ReadAll,
        iterate_lower_bound: None,
        iterate_upper_bound: None,
        ignore_range_deletions: false,
        readahead_size: 0,
        adaptive_readahead: false,
        async_io: false,
        total_order_seek: false,
        auto_prefix_mode: false,
        prefix_same_as_start: false,
        pin_data: false,
        background_purge_on_iterator_cleanup: false,
        max_skippable_internal_keys: 0,
        auto_refresh_iterator_with_snapshot: false,
        tailing: false,
        value_size_soft_limit: u64::MAX,
        deadline: None,
        timestamp: None,
        iter_start_ts: None,
        io_timeout: None,
        rate_limiter_priority: None,
        merge_operand_count_threshold: None,
        optimize_multiget_for_io: true,
        auto_readahead_size: true,
        allow_unprepared_value: false,
        table_filter: None,
    };

    /// All defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads as of `snapshot`.
    #[must_use]
    pub fn snapshot(mut self, snapshot: &Snapshot) -> Self {
        self.snapshot = Some(snapshot.clone());
        self
    }

    /// Sets `verify_checksums`.
    #[must_use]
    pub fn verify_checksums(mut self, value: bool) -> Self {
        self.verify_checksums = value;
        self
    }

    /// Sets `fill_cache`.
    #[must_use]
    pub fn fill_cache(mut self, value: bool) -> Self {
        self.fill_cache = value;
        self
    }

    /// Sets `read_tier`.
    #[must_use]
    pub fn read_tier(mut self, value: ReadTier) -> Self {
        self.read_tier = value;
        self
    }

    /// The first key an iterator may show.
    #[must_use]
    pub fn lower_bound(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.iterate_lower_bound = Some(key.into());
        self
    }

    /// The key before which an iterator ends.
    #[must_use]
    pub fn upper_bound(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.iterate_upper_bound = Some(key.into());
        self
    }

    /// Sets `total_order_seek`.
    #[must_use]
    pub fn total_order_seek(mut self, value: bool) -> Self {
        self.total_order_seek = value;
        self
    }

    /// Sets `auto_refresh_iterator_with_snapshot`.
    #[must_use]
    pub fn auto_refresh_iterator_with_snapshot(mut self, value: bool) -> Self {
        self.auto_refresh_iterator_with_snapshot = value;
        self
    }

    /// Sets `prefix_same_as_start`.
    #[must_use]
    pub fn prefix_same_as_start(mut self, value: bool) -> Self {
        self.prefix_same_as_start = value;
        self
    }

    /// Sets `table_filter`: iterators leave out the entries of tables that `wanted` refuses.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// use esker::ReadOptions;
    ///
    /// db.put("esker", "gravel")?;
    /// db.flush()?;
    /// let large = ReadOptions::new().table_filter(|properties| properties.num_entries > 100);
    /// assert_eq!(db.iter_opt(large, &db.default_column_family())?.into_iter().count(), 0);
    /// # Ok::<_, esker::Error>(())
    /// ```
    #[must_use]
    pub fn table_filter(mut self, wanted: impl Fn(&TableProperties) -> bool + Send + Sync + 'static) -> Self {
        self.table_filter = Some(ScanTableFilter::new(wanted));
        self
    }

    /// Sets `readahead_size`, in bytes.
    #[must_use]
    pub fn readahead_size(mut self, bytes: usize) -> Self {
        self.readahead_size = bytes;
        self
    }
}

esker_base::setters! {
    ReadOptions {
        ignore_range_deletions: bool;
        adaptive_readahead: bool;
        async_io: bool;
        auto_prefix_mode: bool;
        pin_data: bool;
        background_purge_on_iterator_cleanup: bool;
        max_skippable_internal_keys: u64;
        tailing: bool;
        value_size_soft_limit: u64;
        optional deadline: Duration;
        optional timestamp: Vec<u8>;
        optional iter_start_ts: Vec<u8>;
        optional io_timeout: Duration;
        optional rate_limiter_priority: IoPriority;
        optional merge_operand_count_threshold: usize;
        optimize_multiget_for_io: bool;
        auto_readahead_size: bool;
        allow_unprepared_value: bool;
    }
}

/// The options for a get's reads of tables.
#[inline]
pub(crate) fn table_read_options(options: &ReadOptions) -> TableReadOptions {
    let read_tier = match options.read_tier {
        ReadTier::BlockCache => esker_table::TableReadTier::BlockCache,
        _ => esker_table::TableReadTier::ReadAll,
    };
    TableReadOptions {
        verify_checksums: options.verify_checksums,
        fill_cache: options.fill_cache,
        read_tier,
        readahead_size: options.readahead_size,
        prefix_filter_on_seek: false,
        async_io: options.async_io,
        deadline_micros: options.deadline.map_or(u64::MAX, micros),
        activity: IoActivity::Get,
    }
}

#[cold]
fn micros(duration: Duration) -> u64 {
    duration.as_micros().try_into().unwrap_or(u64::MAX)
}

/// Options of [`Db::get_updates_since`](crate::Db::get_updates_since).
///
/// ```
/// use esker::WalReadOptions;
///
/// let options = WalReadOptions::new().verify_checksums(true).from_next_available(false);
/// assert_eq!(options, WalReadOptions::default());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct WalReadOptions {
    /// Compare the checksums of records. Default true.
    pub verify_checksums: bool,
    /// If no WAL has the write with the wanted sequence number, begin with the next write that a
    /// WAL has, as RocksDB does. The first batch has its number. Default false: an error.
    pub from_next_available: bool,
}

impl Default for WalReadOptions {
    fn default() -> WalReadOptions {
        WalReadOptions { verify_checksums: true, from_next_available: false }
    }
}

impl WalReadOptions {
    /// All defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `verify_checksums`.
    #[must_use]
    pub fn verify_checksums(mut self, value: bool) -> Self {
        self.verify_checksums = value;
        self
    }

    /// Sets `from_next_available`.
    #[must_use]
    pub fn from_next_available(mut self, value: bool) -> Self {
        self.from_next_available = value;
        self
    }
}
