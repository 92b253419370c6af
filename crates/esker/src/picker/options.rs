//! The inputs of a picker besides the version. All are values, so a picker's answer depends on
//! nothing else.

use super::{CompactionPri, CompactionStyle, RunningCompactions};
use crate::options::{
    ColumnFamilyOptions, CompactionOptionsFifo, CompactionOptionsUniversal, CompressionType,
};
use esker_base::{FileNumber, SequenceNumber};
use std::collections::BTreeSet;

/// An empty set of suggested files.
pub(crate) static NONE_SUGGESTED: BTreeSet<FileNumber> = BTreeSet::new();

/// The inputs of a pick.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PickContext<'a> {
    /// The family's options.
    pub options: &'a PickerOptions,
    /// The running compactions.
    pub running: &'a RunningCompactions,
    /// Unix seconds, for `ttl` and `periodic_compaction_seconds`.
    pub now_seconds: u64,
    /// Seconds by which `periodic_compaction_seconds` is early: `daily_offpeak_time_utc`.
    pub seconds_ahead: u64,
    /// The oldest live snapshot at the last release of a snapshot, or the last sequence number then
    /// if none was live; `SequenceNumber::ZERO` before the first release. Files of the last level
    /// whose entries are all older can lose versions that only snapshots needed.
    pub oldest_snapshot: SequenceNumber,
    /// The oldest sequence number at which a snapshot or iterator reads, now or later.
    pub oldest_live: SequenceNumber,
    /// Files suggested by the user or due by their reads, besides those marked by their writers.
    pub suggested: &'a BTreeSet<FileNumber>,
}

/// The options of a family that the picker needs, with RocksDB's names and defaults.
#[derive(Clone, Debug)]
pub(crate) struct PickerOptions {
    /// Layout of files in levels.
    pub compaction_style: CompactionStyle,
    /// Options of the universal style.
    pub universal: CompactionOptionsUniversal,
    /// Options of the FIFO style.
    pub fifo: CompactionOptionsFifo,
    /// Bytes of a memtable.
    pub write_buffer_size: u64,
    /// Runs at which writers stop.
    pub level0_stop_writes_trigger: usize,
    /// Chooses the file of a level that is compacted first.
    pub compaction_pri: CompactionPri,
    /// Files in level 0 that make it due; at least 1.
    pub level0_file_num_compaction_trigger: usize,
    /// Bytes that the first level below 0 should have; at least 1.
    pub max_bytes_for_level_base: u64,
    /// Each further level should have this many times as much.
    pub max_bytes_for_level_multiplier: f64,
    /// Further factors by level (static level sizes only); a missing factor is 1.
    pub max_bytes_for_level_multiplier_additional: Vec<i32>,
    /// Whether level sizes follow from the size of the largest level.
    pub level_compaction_dynamic_level_bytes: bool,
    /// Bytes of a file in the first level below 0.
    pub target_file_size_base: u64,
    /// Each further level's files are this many times as large.
    pub target_file_size_multiplier: u64,
    /// Bytes that a compaction should read at most; 0 = 25 times `target_file_size_base`.
    pub max_compaction_bytes: u64,
    /// Age of data, in seconds, at which files are compacted down; 0 = never.
    pub ttl: u64,
    /// Age of a file, in seconds, at which it is rewritten; 0 = never.
    pub periodic_compaction_seconds: u64,
    /// Seconds for which an entry stays above the last level; 0 = it may go there at once.
    pub preclude_last_level_seconds: u64,
    /// Seconds after its writing in which a file of the last level is not rewritten when snapshots
    /// are released.
    pub bottommost_file_compaction_delay: u64,
    /// Compactions that free blob files: the share of blob files that counts as oldest, and the
    /// share of garbage in these that starts a compaction; `None` = never.
    pub forced_blob_gc: Option<(f64, f64)>,
    /// Compression of tables.
    pub compression: CompressionType,
    /// Compression of the last level, if it differs.
    pub bottommost_compression: Option<CompressionType>,
    /// Compression by level, the base level at 1; the last entry is for all deeper levels; empty =
    /// `compression`.
    pub compression_per_level: Vec<CompressionType>,
    /// Whether there is a compaction filter: manual compactions then rewrite all files of their
    /// range.
    pub has_compaction_filter: bool,
    /// Bytes that each of the family's paths should hold; empty for one path.
    pub path_sizes: Vec<u64>,
}

impl From<&ColumnFamilyOptions> for PickerOptions {
    /// Converts options that are consistent. Values that are still to be chosen count as "never".
    fn from(o: &ColumnFamilyOptions) -> PickerOptions {
        let seconds = |v: u64| if v == crate::options::CHOOSE_AT_OPEN { 0 } else { v };
        PickerOptions {
            compaction_style: o.compaction_style,
            universal: o.compaction_options_universal,
            fifo: o.compaction_options_fifo.clone(),
            write_buffer_size: o.write_buffer_size as u64,
            level0_stop_writes_trigger: o.level0_stop(),
            compaction_pri: o.compaction_pri,
            // A negative trigger never fires in RocksDB, whose counts are signed.
            level0_file_num_compaction_trigger: usize::try_from(o.level0_file_num_compaction_trigger)
                .unwrap_or(usize::MAX)
                .max(1),
            max_bytes_for_level_base: o.max_bytes_for_level_base.max(1),
            max_bytes_for_level_multiplier: o.max_bytes_for_level_multiplier,
            max_bytes_for_level_multiplier_additional: o.max_bytes_for_level_multiplier_additional.clone(),
            level_compaction_dynamic_level_bytes: o.level_compaction_dynamic_level_bytes,
            target_file_size_base: o.target_file_size_base.max(1),
            target_file_size_multiplier: u64::try_from(o.target_file_size_multiplier).unwrap_or(1).max(1),
            max_compaction_bytes: o.max_compaction_bytes,
            ttl: seconds(o.ttl),
            periodic_compaction_seconds: seconds(o.periodic_compaction_seconds),
            preclude_last_level_seconds: o.preclude_last_level_data_seconds,
            // An earlier compaction could not set sequence numbers to 0, and the file would be due
            // again.
            bottommost_file_compaction_delay: o.kept_seconds(),
            forced_blob_gc: (o.enable_blob_garbage_collection
                && o.blob_garbage_collection_force_threshold < 1.0)
                .then_some((o.blob_garbage_collection_age_cutoff, o.blob_garbage_collection_force_threshold)),
            compression: o.compression,
            bottommost_compression: o.bottommost_compression,
            compression_per_level: o.compression_per_level.clone(),
            has_compaction_filter: o.compaction_filter.is_some() || o.compaction_filter_factory.is_some(),
            path_sizes: o.cf_paths.iter().map(|path| path.target_size).collect(),
        }
    }
}

impl PickerOptions {
    /// [`PickerOptions::max_compaction_bytes`] with its default filled in.
    pub(crate) fn max_compaction_bytes(&self) -> u64 {
        match self.max_compaction_bytes {
            0 => self.target_file_size_base.saturating_mul(25),
            n => n,
        }
    }

    /// Whether compactions merge runs as a whole. The ends of files then do not matter.
    pub(super) fn merges_whole_runs(&self) -> bool {
        self.compaction_style == CompactionStyle::Universal && !self.universal.incremental
    }

    /// Most bytes of an output together with the grandparents that it overlaps. Source: RocksDB
    /// `UniversalCompactionBuilder::GetMaxOverlappingBytes`.
    pub(super) fn max_grandparent_overlap(&self) -> u64 {
        match self.compaction_style {
            CompactionStyle::Universal => (self.target_file_size_base / 2).saturating_mul(3),
            _ => self.max_compaction_bytes(),
        }
    }

    /// Bytes at which an output of a compaction into `level` should end. Outputs in level 0 are
    /// never cut.
    pub(crate) fn target_file_size(&self, level: usize, base_level: usize) -> u64 {
        if level == 0 {
            return u64::MAX;
        }
        let steps = if self.level_compaction_dynamic_level_bytes && level >= base_level {
            (level - base_level).saturating_sub(1)
        } else {
            level - 1
        };
        let multiplier = self.target_file_size_multiplier;
        (0..steps).fold(self.target_file_size_base, |size, _| size.saturating_mul(multiplier))
    }

    /// The path of a file in `level`: each path takes the levels that fit into it, from level 0 on,
    /// and the last path takes the rest. Level 0 counts as large as level 1. Source: RocksDB
    /// `LevelCompactionBuilder::GetPathId`.
    fn path_of_level(&self, level: usize) -> u32 {
        let Some((&first, others)) = self.path_sizes.split_first() else { return 0 };
        let (mut path, mut room, mut others) = (0, first, others.iter());
        let mut bytes = self.max_bytes_for_level_base;
        for above in 0..=level {
            while path < self.last_path() && bytes > room {
                path += 1;
                room = others.next().copied().unwrap_or(0);
            }
            if path == self.last_path() || above == level {
                return path;
            }
            room -= bytes;
            if above > 0 {
                let more = self.max_bytes_for_level_multiplier_additional.get(above).copied();
                bytes = (bytes as f64 * self.max_bytes_for_level_multiplier * f64::from(more.unwrap_or(1)))
                    as u64;
            }
        }
        path
    }

    /// The path of a sorted run of `bytes` bytes: the first path that has room for it and, together
    /// with the paths before, for the runs that will be written before it is compacted again.
    /// Source: RocksDB `UniversalCompactionBuilder::GetPathId`.
    fn path_of_run(&self, bytes: u64) -> u32 {
        let percent = 100_u64.saturating_sub(u64::from(self.universal.size_ratio));
        let later = u64::try_from(u128::from(bytes) * u128::from(percent) / 100).unwrap_or(u64::MAX);
        let mut before = 0_u64;
        for (path, size) in (0..self.last_path()).zip(&self.path_sizes) {
            if *size > bytes && before.saturating_add(size - bytes) > later {
                return path;
            }
            before = before.saturating_add(*size);
        }
        self.last_path()
    }

    fn last_path(&self) -> u32 {
        u32::try_from(self.path_sizes.len().saturating_sub(1)).unwrap_or(0)
    }

    /// The path of a compaction's output in `level` that comes from `bytes` bytes.
    pub(crate) fn output_path(&self, level: usize, bytes: u64) -> u32 {
        match self.compaction_style {
            _ if self.path_sizes.len() < 2 => 0,
            CompactionStyle::Level | CompactionStyle::None => self.path_of_level(level),
            CompactionStyle::Universal => self.path_of_run(bytes),
            CompactionStyle::Fifo => 0,
        }
    }

    /// Compression of files in `level` of a version with `non_empty_levels` (counted to the deepest
    /// that has files).
    pub(crate) fn compression_of(
        &self,
        level: usize,
        base_level: usize,
        non_empty_levels: usize,
    ) -> CompressionType {
        let is_last = level + 1 >= non_empty_levels;
        if let Some(compression) = self.bottommost_compression
            && is_last
        {
            return compression;
        }
        let index = if level == 0 { 0 } else { (level + 1).saturating_sub(base_level) };
        let per_level = &self.compression_per_level;
        per_level.get(index).or(per_level.last()).copied().unwrap_or(self.compression)
    }
}

impl Default for PickerOptions {
    fn default() -> PickerOptions {
        PickerOptions::from(&ColumnFamilyOptions::default())
    }
}
