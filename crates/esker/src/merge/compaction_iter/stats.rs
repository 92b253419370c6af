//! Counts of a compaction's entries.
//!
//! In: outcomes of entries. Out: sums, which a progress file keeps as a list.

use super::CompactionIterator;

/// Counts of entries by outcome. In brackets: RocksDB's `CompactionIterationStats`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct CompactionIteratorStats {
    /// Entries read (`num_input_records`).
    pub records_in: u64,
    /// Point deletions among them (`num_input_deletion_records`).
    pub deletions_in: u64,
    /// Bytes of the entries' internal keys.
    pub key_bytes_in: u64,
    /// Bytes of the entries' values.
    pub value_bytes_in: u64,
    /// Entries that were output.
    pub records_out: u64,
    /// Entries behind a newer one of the same user key.
    pub older_out: u64,
    /// Entries hidden by a newer version (`num_record_drop_hidden`).
    pub dropped_hidden: u64,
    /// Deletions with nothing left to delete (`num_record_drop_obsolete`).
    pub dropped_obsolete: u64,
    /// Entries hidden by a range tombstone (`num_record_drop_range_del`).
    pub dropped_range_del: u64,
    /// Entries removed by the filter (`num_record_drop_user`).
    pub dropped_by_filter: u64,
    /// Entries removed by the filter in a way after which older versions may reappear.
    pub may_reappear: u64,
    /// Deletions dropped above the bottommost level (`num_optimized_del_drop_obsolete`).
    pub optimized_deletions: u64,
    /// Single deletions that met something else than one value (`num_single_del_mismatch`).
    pub single_deletion_mismatches: u64,
    /// Merge operands that were combined into another entry.
    pub operands_merged: u64,
    /// Refusals of the merge operator, after which the operands were kept.
    pub merge_failures: u64,
    /// Nanoseconds of writes, syncs and preparations of the outputs, with `report_bg_io_stats`. Not
    /// among [`counts`](Self::counts).
    pub file_write_nanos: u64,
    pub file_range_sync_nanos: u64,
    pub file_fsync_nanos: u64,
    pub file_prepare_write_nanos: u64,
}

impl CompactionIteratorStats {
    /// All counts of entries, in the order of the fields.
    pub(crate) fn counts(&self) -> [u64; 15] {
        [
            self.records_in,
            self.deletions_in,
            self.key_bytes_in,
            self.value_bytes_in,
            self.records_out,
            self.older_out,
            self.dropped_hidden,
            self.dropped_obsolete,
            self.dropped_range_del,
            self.dropped_by_filter,
            self.may_reappear,
            self.optimized_deletions,
            self.single_deletion_mismatches,
            self.operands_merged,
            self.merge_failures,
        ]
    }

    /// The value with these [`counts`](Self::counts); `None` if their number is another.
    pub(crate) fn from_counts(counts: &[u64]) -> Option<CompactionIteratorStats> {
        let [
            records_in,
            deletions_in,
            key_bytes_in,
            value_bytes_in,
            records_out,
            older_out,
            dropped_hidden,
            dropped_obsolete,
            dropped_range_del,
            dropped_by_filter,
            may_reappear,
            optimized_deletions,
            single_deletion_mismatches,
            operands_merged,
            merge_failures,
        ] = *counts
        else {
            return None;
        };
        Some(CompactionIteratorStats {
            records_in,
            deletions_in,
            key_bytes_in,
            value_bytes_in,
            records_out,
            older_out,
            dropped_hidden,
            dropped_obsolete,
            dropped_range_del,
            dropped_by_filter,
            may_reappear,
            optimized_deletions,
            single_deletion_mismatches,
            operands_merged,
            merge_failures,
            ..CompactionIteratorStats::default()
        })
    }
}

impl std::ops::AddAssign for CompactionIteratorStats {
    fn add_assign(&mut self, other: CompactionIteratorStats) {
        self.records_in += other.records_in;
        self.deletions_in += other.deletions_in;
        self.key_bytes_in += other.key_bytes_in;
        self.value_bytes_in += other.value_bytes_in;
        self.records_out += other.records_out;
        self.older_out += other.older_out;
        self.dropped_hidden += other.dropped_hidden;
        self.dropped_obsolete += other.dropped_obsolete;
        self.dropped_range_del += other.dropped_range_del;
        self.dropped_by_filter += other.dropped_by_filter;
        self.may_reappear += other.may_reappear;
        self.optimized_deletions += other.optimized_deletions;
        self.single_deletion_mismatches += other.single_deletion_mismatches;
        self.operands_merged += other.operands_merged;
        self.merge_failures += other.merge_failures;
        self.file_write_nanos += other.file_write_nanos;
        self.file_range_sync_nanos += other.file_range_sync_nanos;
        self.file_fsync_nanos += other.file_fsync_nanos;
        self.file_prepare_write_nanos += other.file_prepare_write_nanos;
    }
}

impl CompactionIterator {
    /// Range tombstones that [`tombstones_for_output`](Self::tombstones_for_output) left out
    /// because they have nothing left to delete.
    pub(crate) fn range_dels_dropped(&self) -> u64 {
        self.options.range_dels.dropped()
    }
}
