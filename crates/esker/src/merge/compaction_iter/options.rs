//! The inputs and options of a flush or compaction.

use super::timed::TimedValues;
use crate::compaction_filter::CompactionFilter;
use crate::merge::range_del::RangeDelAggregator;
use crate::snapshot::SectionsForJob;
use esker_base::SequenceNumber;
use esker_base::merge_operator::MergeOperatorRef;
use esker_base::sync::Arc;
use esker_base::sync::atomic::AtomicBool;
use esker_format::key::InternalKeyComparator;
use esker_format::range_del::RangeTombstone;
use esker_table::blob::BlobReader;
use std::fmt;

/// Returns whether no level below the output level can hold a user key. Called in key order.
pub(crate) type KeyNotExistsBeyond = Box<dyn FnMut(&[u8]) -> bool + Send>;

/// The inputs and options of a flush or compaction.
pub(crate) struct CompactionIteratorOptions {
    /// Live snapshots, ascending.
    pub snapshots: Vec<SequenceNumber>,
    /// The sections of `WritePrepared` transactions that the inputs may have; `None`: no sections.
    pub prepared: Option<SectionsForJob>,
    /// The oldest sequence number that a transaction may check for conflicts; `MAX`: none.
    pub earliest_write_conflict_snapshot: SequenceNumber,
    /// Combines merge operands; without it operands are kept unchanged.
    pub merge_operator: Option<MergeOperatorRef>,
    /// Reads blob values for operands and the filter; without it, neither uses such values.
    pub blobs: Option<BlobReader>,
    /// Whether entries may refer to blob files, so that dropped references are counted.
    pub counts_blobs: bool,
    /// Judges values and operands that no snapshot sees.
    pub compaction_filter: Option<Box<dyn CompactionFilter>>,
    /// The level that the filter sees.
    pub filter_level: usize,
    /// Whether the filter also judges newest versions that snapshots see: their reads may change.
    pub filter_ignores_snapshots: bool,
    /// Whether no deeper level has keys of the compaction's range; false for a flush.
    pub bottommost: bool,
    /// Larger sequence numbers stay even if all snapshots see them.
    pub zero_up_to: SequenceNumber,
    /// Whether user keys end in timestamps for reads: versions are independent keys, and
    /// range tombstones pass through unchanged. Needs a `zero_up_to` of 0.
    pub keep_history: bool,
    /// With `keep_history`: the oldest readable timestamp; `None`: no bound.
    pub full_history_ts_low: Option<Vec<u8>>,
    /// With `keep_history`: entries with a newer timestamp are removed, even if a snapshot sees
    /// them.
    pub trim_ts: Option<Arc<[u8]>>,
    /// With `keep_history`: the range tombstones of all inputs, as stored.
    pub stored_tombstones: Vec<RangeTombstone>,
    /// Whether no deeper level can hold a key; always false for a flush.
    pub key_not_exists_beyond_output_level: KeyNotExistsBeyond,
    /// The meaning of the ends of timed values.
    pub timed_values: TimedValues,
    /// Whether entities get all columns in place, including columns from blob files. Needs `blobs`.
    pub whole_entities: bool,
    /// The range tombstones of all inputs, with the same snapshots.
    pub range_dels: RangeDelAggregator,
    /// The first user key of this (sub)compaction.
    pub lower_bound: Option<Vec<u8>>,
    /// The first user key beyond the (sub)compaction.
    pub upper_bound: Option<Vec<u8>>,
    /// Set to stop it: shutdown, or a cancelled manual compaction.
    pub cancelled: Option<Arc<AtomicBool>>,
}

impl CompactionIteratorOptions {
    /// Options of a flush: without knowledge of deeper levels, without a filter, for all keys.
    pub(crate) fn new(icmp: &InternalKeyComparator, snapshots: Vec<SequenceNumber>) -> Self {
        CompactionIteratorOptions {
            range_dels: RangeDelAggregator::new(icmp.clone(), snapshots.clone()),
            snapshots,
            prepared: None,
            earliest_write_conflict_snapshot: SequenceNumber::MAX,
            merge_operator: None,
            blobs: None,
            counts_blobs: false,
            compaction_filter: None,
            filter_level: 0,
            filter_ignores_snapshots: false,
            bottommost: false,
            zero_up_to: SequenceNumber::MAX,
            keep_history: false,
            full_history_ts_low: None,
            trim_ts: None,
            stored_tombstones: Vec::new(),
            timed_values: TimedValues::Preferred,
            whole_entities: false,
            key_not_exists_beyond_output_level: Box::new(|_| false),
            lower_bound: None,
            upper_bound: None,
            cancelled: None,
        }
    }

    /// Keeps entries that transactions with a snapshot need in their conflict checks.
    pub(crate) fn keep_conflicts(&mut self) {
        self.earliest_write_conflict_snapshot =
            self.snapshots.first().copied().unwrap_or(SequenceNumber::MAX);
    }
}

impl fmt::Debug for CompactionIteratorOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompactionIteratorOptions")
            .field("snapshots", &self.snapshots)
            .field("bottommost", &self.bottommost)
            .field("filter", &self.compaction_filter.as_ref().map(|filter| filter.name()))
            .finish_non_exhaustive()
    }
}
