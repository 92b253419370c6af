//! Costs of compactions and flushes, by level and by job.
//!
//! In: one `CompactionStats` for each flush, compaction or ingestion. Out: sums for each output
//! level, which `stats_dump` prints. Source of the names: RocksDB `db/internal_stats.h`,
//! `include/rocksdb/compaction_job_stats.h`.

use super::reason::CompactionReason;
use std::ops::AddAssign;

macro_rules! counters {
    (
        $(#[$attr:meta])*
        pub struct $name:ident { $( $(#[$fattr:meta])* $field:ident, )* }
    ) => {
        $(#[$attr])*
        #[derive(Clone, PartialEq, Eq, Debug, Default)]
        pub struct $name { $( $(#[$fattr])* pub $field: u64, )* }

        impl AddAssign<&$name> for $name {
            fn add_assign(&mut self, other: &$name) {
                $( self.$field += other.$field; )*
            }
        }

        impl $name {
            /// The difference to `earlier`. Counters never decrease.
            #[must_use]
            pub fn since(&self, earlier: &$name) -> $name {
                $name { $( $field: self.$field.saturating_sub(earlier.$field), )* }
            }
        }
    };
}

counters! {
    /// Sums over the flushes and compactions that wrote to one level.
    #[non_exhaustive]
    pub struct CompactionStats {
        /// Microseconds of wall time.
        micros,
        /// Microseconds of processor time.
        cpu_micros,
        /// Bytes read from levels above the output level.
        bytes_read_non_output_levels,
        /// Bytes read from the output level.
        bytes_read_output_level,
        /// Bytes written to tables.
        bytes_written,
        /// Bytes written to blob files.
        bytes_written_blob,
        /// Bytes read from blob files in order to rewrite them.
        bytes_read_blob,
        /// Bytes written to tables, before compression.
        bytes_written_pre_comp,
        /// Bytes that changed level without being rewritten.
        bytes_moved,
        /// Files read from levels above the output level.
        num_input_files_in_non_output_levels,
        /// Files read from the output level.
        num_input_files_in_output_level,
        /// Files written.
        num_output_files,
        /// Entries read.
        num_input_records,
        /// Entries read and not written.
        num_dropped_records,
        /// Entries written.
        num_output_records,
        /// Flushes and compactions.
        count,
    }
}

impl CompactionStats {
    /// All bytes read.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read_non_output_levels + self.bytes_read_output_level + self.bytes_read_blob
    }

    /// All bytes written.
    pub fn all_bytes_written(&self) -> u64 {
        self.bytes_written + self.bytes_written_blob
    }
}

counters! {
    /// Counts of one compaction's work, for listeners.
    #[non_exhaustive]
    pub struct CompactionJobStats {
        /// Microseconds of wall time.
        elapsed_micros,
        /// Microseconds of processor time.
        cpu_micros,
        /// Entries read.
        num_input_records,
        /// Values read from blob files and written anew.
        num_blobs_read,
        /// Files read.
        num_input_files,
        /// Files read from the output level.
        num_input_files_at_output_level,
        /// Files that were dropped unread, because range tombstones hide all that they have. Not
        /// among `num_input_files`.
        num_filtered_input_files,
        /// Those of them that lay at the output level.
        num_filtered_input_files_at_output_level,
        /// Bytes of the files that were dropped unread.
        total_skipped_input_bytes,
        /// Files that changed their level without being read.
        num_input_files_trivially_moved,
        /// Entries written.
        num_output_records,
        /// Tables written.
        num_output_files,
        /// Blob files written.
        num_output_files_blob,
        /// Bytes read from tables.
        total_input_bytes,
        /// Bytes read from blob files.
        total_blob_bytes_read,
        /// Bytes written to tables.
        total_output_bytes,
        /// Bytes written to blob files.
        total_output_bytes_blob,
        /// Entries dropped because newer ones hide them.
        num_records_replaced,
        /// Bytes of the keys read.
        total_input_raw_key_bytes,
        /// Bytes of the values read.
        total_input_raw_value_bytes,
        /// Deletions read.
        num_input_deletion_records,
        /// Deletions dropped because nothing is left to delete.
        num_expired_deletion_records,
        /// Keys that could not be parsed.
        num_corrupt_keys,
        /// Nanoseconds in writes, with `report_bg_io_stats`.
        file_write_nanos,
        /// Nanoseconds in syncs of ranges of a file, with `report_bg_io_stats`.
        file_range_sync_nanos,
        /// Nanoseconds in syncs, with `report_bg_io_stats`.
        file_fsync_nanos,
        /// Nanoseconds in preparations of writes, as by `fallocate`, with `report_bg_io_stats`.
        file_prepare_write_nanos,
        /// Single deletions that met nothing to delete.
        num_single_del_fallthru,
        /// Single deletions that met anything but exactly one put.
        num_single_del_mismatch,
    }
}

/// The sums of one family: by output level, and by reason. Kept under the database's mutex.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LevelCompactionStats {
    levels: Vec<CompactionStats>,
    /// Indexed by `WorkPriority`.
    by_priority: [CompactionStats; 4],
    by_reason: Vec<u64>,
}

/// The kind of thread that did the work, in RocksDB's order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkPriority {
    /// Compactions into the last level, if they have their own pool.
    Bottom = 0,
    /// Compactions.
    Low = 1,
    /// Flushes.
    High = 2,
    /// The caller's own thread.
    User = 3,
}

impl WorkPriority {
    /// RocksDB's name for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            WorkPriority::Bottom => "Bottom",
            WorkPriority::Low => "Low",
            WorkPriority::High => "High",
            WorkPriority::User => "User",
        }
    }
}

impl LevelCompactionStats {
    /// Zero for each of `num_levels` levels.
    pub fn new(num_levels: usize) -> Self {
        LevelCompactionStats {
            levels: vec![CompactionStats::default(); num_levels],
            by_priority: Default::default(),
            by_reason: vec![0; CompactionReason::ALL.len()],
        }
    }

    /// Adds a flush, compaction or ingestion into `output_level`.
    pub fn add(
        &mut self,
        output_level: usize,
        priority: WorkPriority,
        reason: CompactionReason,
        stats: &CompactionStats,
    ) {
        if let Some(level) = self.levels.get_mut(output_level) {
            *level += stats;
        }
        self.by_priority[priority as usize] += stats;
        self.by_reason[reason as usize] += 1;
    }

    /// Adds files moved to `output_level` without being rewritten.
    pub fn add_moved(&mut self, output_level: usize, bytes: u64) {
        if let Some(level) = self.levels.get_mut(output_level) {
            level.bytes_moved += bytes;
        }
    }

    /// The sums of each level.
    pub fn levels(&self) -> &[CompactionStats] {
        &self.levels
    }

    /// The sums of each priority, with its name.
    pub fn by_priority(&self) -> impl Iterator<Item = (WorkPriority, &CompactionStats)> {
        let all = [WorkPriority::Bottom, WorkPriority::Low, WorkPriority::High, WorkPriority::User];
        all.into_iter().zip(&self.by_priority)
    }

    /// Number of flushes and compactions that ran for this reason.
    pub fn count(&self, reason: CompactionReason) -> u64 {
        self.by_reason[reason as usize]
    }

    /// The sum over all levels.
    pub fn total(&self) -> CompactionStats {
        let mut sum = CompactionStats::default();
        self.levels.iter().for_each(|level| sum += level);
        sum
    }
}
