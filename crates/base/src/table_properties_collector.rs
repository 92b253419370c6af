//! Plug-ins that read each entry of a table while it is written. They add properties to the
//! table, or mark the table for an early compaction. Semantics are RocksDB's
//! `TablePropertiesCollector`.
//!
//! Source: RocksDB `include/rocksdb/table_properties.h`,
//! `utilities/table_properties_collectors/compact_on_deletion_collector.cc`,
//! `compact_for_tiering_collector.cc`.

use crate::error::Result;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::types::{ColumnFamilyId, SequenceNumber, ValueType};
use std::collections::VecDeque;
use std::fmt;

/// Properties that a collector adds to a table: names and values.
pub type UserCollectedProperties = Vec<(Vec<u8>, Vec<u8>)>;

/// Reads the entries of one table.
pub trait TablePropertiesCollector: Send {
    /// Name of the collector, for the property `rocksdb.property.collectors` and for logs.
    fn name(&self) -> &str;
    /// Called for each entry of the table, in key order; range tombstones may come at any time.
    /// `file_size` is the number of bytes of the file so far.
    /// # Errors
    /// Any error ends the flush or compaction that writes the table.
    fn add_user_key(
        &mut self,
        key: &[u8],
        value: &[u8],
        kind: ValueType,
        sequence: SequenceNumber,
        file_size: u64,
    ) -> Result<()>;
    /// Called when a data block ends, after its entries: the block's bytes before compression, and
    /// as a fast and a slow codec compress them. Both are 0 unless `sample_for_compression` drew
    /// the block.
    fn block_add(
        &mut self,
        _block_uncompressed_bytes: u64,
        _block_compressed_bytes_fast: u64,
        _block_compressed_bytes_slow: u64,
    ) {
    }
    /// Called after the last entry.
    /// # Errors
    /// Any error ends the flush or compaction that writes the table.
    fn finish(&mut self) -> Result<UserCollectedProperties> {
        Ok(Vec::new())
    }
    /// The collected properties as text, for the LOG and listeners. Called after `finish`.
    fn readable_properties(&self) -> UserCollectedProperties {
        Vec::new()
    }
    /// Whether the file is to be compacted as soon as possible. Called after `finish`.
    fn need_compact(&self) -> bool {
        false
    }
}

/// Facts about a table for the factory that makes its collector.
#[derive(Clone, Copy, Debug)]
pub struct TablePropertiesCollectorContext {
    /// The family.
    pub column_family_id: ColumnFamilyId,
    /// The level of the table.
    pub level_at_creation: usize,
    /// The number of levels of the family.
    pub num_levels: usize,
    /// Entries with smaller sequence numbers may go into the last level. `SequenceNumber::MAX` for
    /// a flush, and in a family without `preclude_last_level_data_seconds`.
    pub last_level_inclusive_max_seqno_threshold: SequenceNumber,
    /// Bytes of the timestamp at the end of each user key.
    pub timestamp_size: usize,
}

/// Makes one collector for each table that a flush or compaction writes.
pub trait TablePropertiesCollectorFactory: Send + Sync {
    /// Name of the factory, for logs.
    fn name(&self) -> &str;
    /// Name and parameters, which an open writes to the LOG.
    fn description(&self) -> String {
        self.name().to_owned()
    }
    /// A collector for this table, or `None`.
    fn create(&self, context: &TablePropertiesCollectorContext) -> Option<Box<dyn TablePropertiesCollector>>;
}

/// A shared factory.
pub type TablePropertiesCollectorFactoryRef = Arc<dyn TablePropertiesCollectorFactory>;

impl fmt::Debug for dyn TablePropertiesCollectorFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TablePropertiesCollectorFactory({})", self.name())
    }
}

impl fmt::Debug for dyn TablePropertiesCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TablePropertiesCollector({})", self.name())
    }
}

const COMPACT_FOR_TIERING: &str = "CompactForTieringCollector";

/// Property with the number of entries that may go into the last level, if there are any.
const ELIGIBLE_ENTRIES: &str = "rocksdb.eligible.last.level.entries";

/// Marks tables above the last level for compaction if enough of their entries are old enough for
/// the last level. Only for families with `preclude_last_level_data_seconds`.
/// ```
/// use esker_base::table_properties_collector::{
///     CompactForTieringCollectorFactory, TablePropertiesCollectorFactory,
/// };
///
/// let factory = CompactForTieringCollectorFactory::new(0.4);
/// assert_eq!(factory.name(), "CompactForTieringCollector");
/// ```
#[derive(Debug)]
pub struct CompactForTieringCollectorFactory {
    compaction_trigger_ratio: AtomicU64,
}

impl CompactForTieringCollectorFactory {
    /// Marks a table if at least this share of its entries may go down. A ratio above 1 marks none,
    /// and only counts the entries in a property; a ratio of at most 0 makes no collectors.
    /// RocksDB's `NewCompactForTieringCollectorFactory`.
    pub fn new(compaction_trigger_ratio: f64) -> CompactForTieringCollectorFactory {
        CompactForTieringCollectorFactory {
            compaction_trigger_ratio: AtomicU64::new(compaction_trigger_ratio.to_bits()),
        }
    }

    /// Changes the ratio for tables begun later.
    pub fn set_compaction_trigger_ratio(&self, compaction_trigger_ratio: f64) {
        self.compaction_trigger_ratio.store(compaction_trigger_ratio.to_bits(), Ordering::Relaxed);
    }

    /// The ratio in force.
    pub fn compaction_trigger_ratio(&self) -> f64 {
        f64::from_bits(self.compaction_trigger_ratio.load(Ordering::Relaxed))
    }
}

impl TablePropertiesCollectorFactory for CompactForTieringCollectorFactory {
    fn name(&self) -> &str {
        COMPACT_FOR_TIERING
    }

    fn description(&self) -> String {
        format!("{COMPACT_FOR_TIERING}, compaction trigger ratio:{}", self.compaction_trigger_ratio())
    }

    fn create(&self, context: &TablePropertiesCollectorContext) -> Option<Box<dyn TablePropertiesCollector>> {
        let ratio = self.compaction_trigger_ratio();
        let threshold = context.last_level_inclusive_max_seqno_threshold;
        let is_last = context.level_at_creation + 1 == context.num_levels;
        if ratio.is_nan() || ratio <= 0.0 || is_last || threshold == SequenceNumber::MAX {
            return None;
        }
        Some(Box::new(CompactForTieringCollector { ratio, threshold, eligible: 0, entries: 0 }))
    }
}

struct CompactForTieringCollector {
    ratio: f64,
    threshold: SequenceNumber,
    eligible: u64,
    entries: u64,
}

impl TablePropertiesCollector for CompactForTieringCollector {
    fn name(&self) -> &str {
        COMPACT_FOR_TIERING
    }

    fn add_user_key(
        &mut self,
        _key: &[u8],
        value: &[u8],
        kind: ValueType,
        sequence: SequenceNumber,
        _file_size: u64,
    ) -> Result<()> {
        let preferred = || value.last_chunk().map_or(sequence, |n| SequenceNumber(u64::from_le_bytes(*n)));
        let sequence = if kind == ValueType::ValuePreferredSeqno { preferred() } else { sequence };
        self.entries += 1;
        self.eligible += u64::from(sequence < self.threshold);
        Ok(())
    }

    fn finish(&mut self) -> Result<UserCollectedProperties> {
        let property = || (ELIGIBLE_ENTRIES.into(), self.eligible.to_string().into_bytes());
        Ok((self.eligible > 0).then(property).into_iter().collect())
    }

    fn need_compact(&self) -> bool {
        self.eligible as f64 >= self.ratio * self.entries as f64
    }
}

const COMPACT_ON_DELETION: &str = "CompactOnDeletionCollector";

/// Buckets in a window. The number of entries in a window is rounded up to a multiple of this.
const BUCKETS: usize = 128;

/// Marks tables with many deletions for compaction: many close together, or many among all entries.
#[derive(Debug)]
pub struct CompactOnDeletionCollectorFactory {
    sliding_window_size: AtomicU64,
    deletion_trigger: AtomicU64,
    deletion_ratio: AtomicU64,
    min_file_size: AtomicU64,
}

impl CompactOnDeletionCollectorFactory {
    /// Marks tables of at least `min_file_size` bytes in either of two cases. RocksDB's
    /// `NewCompactOnDeletionCollectorFactory`.
    ///
    ///  * A window of `sliding_window_size` successive entries has `deletion_trigger` deletions.
    ///    The window is rounded up to a multiple of 128 entries; 0 turns this case off.
    ///  * Deletions are at least the fraction `deletion_ratio` of all entries. A ratio of at most 0
    ///    or above 1 turns this case off.
    pub fn new(
        sliding_window_size: u64,
        deletion_trigger: u64,
        deletion_ratio: f64,
        min_file_size: u64,
    ) -> CompactOnDeletionCollectorFactory {
        CompactOnDeletionCollectorFactory {
            sliding_window_size: AtomicU64::new(sliding_window_size),
            deletion_trigger: AtomicU64::new(deletion_trigger),
            deletion_ratio: AtomicU64::new(deletion_ratio.to_bits()),
            min_file_size: AtomicU64::new(min_file_size),
        }
    }

    /// Changes the window for tables begun later.
    pub fn set_window_size(&self, sliding_window_size: u64) {
        self.sliding_window_size.store(sliding_window_size, Ordering::Relaxed);
    }

    /// Changes the trigger for tables begun later.
    pub fn set_deletion_trigger(&self, deletion_trigger: u64) {
        self.deletion_trigger.store(deletion_trigger, Ordering::Relaxed);
    }

    /// Changes the ratio for tables begun later.
    pub fn set_deletion_ratio(&self, deletion_ratio: f64) {
        self.deletion_ratio.store(deletion_ratio.to_bits(), Ordering::Relaxed);
    }

    /// Changes the least file size for tables begun later.
    pub fn set_min_file_size(&self, min_file_size: u64) {
        self.min_file_size.store(min_file_size, Ordering::Relaxed);
    }
}

impl TablePropertiesCollectorFactory for CompactOnDeletionCollectorFactory {
    fn name(&self) -> &str {
        COMPACT_ON_DELETION
    }

    fn description(&self) -> String {
        format!(
            "{COMPACT_ON_DELETION} (Sliding window size = {} Deletion trigger = {} Deletion ratio = {})",
            self.sliding_window_size.load(Ordering::Relaxed),
            self.deletion_trigger.load(Ordering::Relaxed),
            f64::from_bits(self.deletion_ratio.load(Ordering::Relaxed)),
        )
    }

    fn create(
        &self,
        _context: &TablePropertiesCollectorContext,
    ) -> Option<Box<dyn TablePropertiesCollector>> {
        let ratio = f64::from_bits(self.deletion_ratio.load(Ordering::Relaxed));
        Some(Box::new(CompactOnDeletionCollector {
            bucket_size: self.sliding_window_size.load(Ordering::Relaxed).div_ceil(BUCKETS as u64),
            trigger: self.deletion_trigger.load(Ordering::Relaxed),
            ratio: (ratio > 0.0 && ratio <= 1.0).then_some(ratio),
            min_file_size: self.min_file_size.load(Ordering::Relaxed),
            window: VecDeque::from([0]),
            in_window: 0,
            in_bucket: 0,
            most_in_window: 0,
            entries: 0,
            deletions: 0,
            file_size: 0,
            need_compact: false,
        }))
    }
}

struct CompactOnDeletionCollector {
    /// Entries of a bucket; 0 if windows are turned off.
    bucket_size: u64,
    trigger: u64,
    ratio: Option<f64>,
    min_file_size: u64,
    /// Deletions of each bucket of the window; the current one is last.
    window: VecDeque<u64>,
    in_window: u64,
    /// Entries of the current bucket.
    in_bucket: u64,
    most_in_window: u64,
    entries: u64,
    deletions: u64,
    file_size: u64,
    need_compact: bool,
}

impl CompactOnDeletionCollector {
    fn slide(&mut self, is_deletion: bool) {
        if self.in_bucket == self.bucket_size {
            if self.window.len() == BUCKETS {
                self.in_window -= self.window.pop_front().unwrap_or(0);
            }
            self.window.push_back(0);
            self.in_bucket = 0;
        }
        self.in_bucket += 1;
        if is_deletion {
            self.in_window += 1;
            if let Some(current) = self.window.back_mut() {
                *current += 1;
            }
            self.most_in_window = self.most_in_window.max(self.in_window);
        }
    }
}

impl TablePropertiesCollector for CompactOnDeletionCollector {
    fn name(&self) -> &str {
        COMPACT_ON_DELETION
    }

    fn add_user_key(
        &mut self,
        _key: &[u8],
        _value: &[u8],
        kind: ValueType,
        _sequence: SequenceNumber,
        file_size: u64,
    ) -> Result<()> {
        if self.need_compact {
            return Ok(());
        }
        self.entries += 1;
        self.deletions += u64::from(kind.is_point_deletion());
        self.file_size = file_size;
        if self.bucket_size > 0 {
            self.slide(kind.is_point_deletion());
            self.need_compact = self.most_in_window >= self.trigger && file_size >= self.min_file_size;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<UserCollectedProperties> {
        let part = self.deletions as f64 / self.entries.max(1) as f64;
        let is_large = self.file_size >= self.min_file_size;
        self.need_compact |= self.entries > 0 && is_large && self.ratio.is_some_and(|ratio| part >= ratio);
        Ok(Vec::new())
    }

    fn need_compact(&self) -> bool {
        self.need_compact
    }
}

#[cfg(test)]
mod tests;
