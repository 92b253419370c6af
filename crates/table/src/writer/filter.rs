//! Collects the filter of a table that is being written: no filter, a full one, or partitions.

use super::index::TableIndex;
use crate::options::TableBuilderOptions;
use esker_base::Result;
use esker_base::prefix::SliceTransformRef;
use esker_format::filter::{FilterBitsBuilder, FilterBuildingContext, PartitionedFilterBuilder};
use esker_format::index_entry::PartitionedIndexBuilder;
use esker_format::properties::IndexType;

/// The table's facts for policies and compression managers.
pub(super) fn building_context(options: &TableBuilderOptions) -> FilterBuildingContext<'_> {
    FilterBuildingContext {
        format_version: options.table_options.format_version,
        level: options.level,
        is_flush: options.is_flush,
        reason: options.reason,
        is_bottommost: options.is_bottommost,
        compaction_style: options.compaction_style,
        num_levels: options.num_levels,
        column_family_name: &options.column_family_name,
    }
}

/// Collects the keys of a filter.
#[derive(Debug)]
pub(super) struct TableFilterBuilder {
    bits: Bits,
    whole_keys: bool,
    prefixes: Option<SliceTransformRef>,
}

#[derive(Debug)]
enum Bits {
    Full(FilterBitsBuilder),
    /// `with_index`: partitions end where the index's partitions end. Otherwise at their own size.
    Partitioned {
        filter: PartitionedFilterBuilder,
        with_index: bool,
    },
}

impl TableFilterBuilder {
    /// `None`: this table has no filter.
    pub(super) fn new(options: &TableBuilderOptions) -> Option<TableFilterBuilder> {
        let table = &options.table_options;
        let context = building_context(options);
        let has_keys = table.whole_key_filtering || options.prefix_extractor.is_some();
        let policy = table.filter_policy.as_ref().filter(|_| has_keys && !options.skip_filters)?;
        let bits = policy
            .builder_with_context(&context)?
            .fill_memory(table.optimize_filters_for_memory)
            .check(table.detect_filter_construct_corruption);
        let prefixes = options.prefix_extractor.clone();
        let is_partitioned = table.partition_filters && table.index_type == IndexType::TwoLevel;
        let bits = if is_partitioned {
            let deviation = u64::from(table.block_size_deviation.min(100));
            let bytes = table.metadata_block_size.saturating_mul(100 - deviation).div_ceil(100).max(1);
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            let whole_keys = table.whole_key_filtering;
            let filter = PartitionedFilterBuilder::new(bits, bytes, whole_keys, prefixes.is_some());
            Bits::Partitioned {
                filter: filter.with_timestamps(options.icmp.min_timestamp()),
                with_index: !table.decouple_partitioned_filters,
            }
        } else {
            Bits::Full(bits)
        };
        Some(TableFilterBuilder { bits, whole_keys: table.whole_key_filtering, prefixes })
    }

    /// Adds a user key without timestamp. All blocks before the key's own are in the index.
    #[inline]
    pub(super) fn add(&mut self, key: &[u8], index: &mut TableIndex) {
        let prefix = self.prefixes.as_ref().and_then(|e| e.transform(key));
        match &mut self.bits {
            Bits::Full(filter) => match (self.whole_keys, prefix) {
                (true, Some(prefix)) => filter.add_key_and_prefix(key, prefix),
                (true, None) => filter.add_key(key),
                (false, Some(prefix)) => filter.add_key(prefix),
                (false, None) => {}
            },
            Bits::Partitioned { filter, with_index } => {
                if *with_index {
                    cut_with_index(filter, prefix, index.partitions());
                } else if filter.is_full() {
                    filter.cut(prefix, None);
                }
                filter.add(key, prefix);
            }
        }
    }

    /// Entries so far.
    pub(super) fn num_entries(&self) -> usize {
        match &self.bits {
            Bits::Full(filter) => filter.num_entries(),
            Bits::Partitioned { filter, .. } => filter.num_entries(),
        }
    }

    /// About how many bytes the filter will have.
    pub(super) fn estimated_bytes(&self) -> usize {
        match &self.bits {
            Bits::Full(filter) => filter.estimated_bytes(),
            Bits::Partitioned { filter, .. } => filter.estimated_bytes(),
        }
    }

    /// Whether all finished filters were found to be right.
    /// # Errors
    /// `Corruption`, with `detect_filter_construct_corruption`: a filter lacks a key.
    pub(super) fn status(&self) -> Result<()> {
        match &self.bits {
            Bits::Full(filter) => filter.status(),
            Bits::Partitioned { filter, .. } => filter.status(),
        }
    }

    /// Finishes the filter. REQUIRES: all keys are in it, and all blocks in the index.
    pub(super) fn finish(&mut self, index: &mut TableIndex) -> FinishedFilter {
        match &mut self.bits {
            Bits::Full(filter) => FinishedFilter::Full(filter.finish()),
            Bits::Partitioned { filter, with_index } => {
                let separator = match (with_index, index.partitions()) {
                    (true, Some(index)) => Some(index.last_separator()),
                    _ => None,
                };
                filter.finish(separator);
                let parts = filter.take_partitions();
                FinishedFilter::Partitioned(parts.into_iter().map(|p| (p.separator, p.contents)).collect())
            }
        }
    }
}

/// A finished filter, to be written.
pub(super) enum FinishedFilter {
    Full(Vec<u8>),
    /// Separators (internal keys) and filters.
    Partitioned(Vec<(Vec<u8>, Vec<u8>)>),
}

/// Makes the index end its partition when the filter's partition is full. When the index cuts, the
/// filter cuts too.
fn cut_with_index(
    filter: &mut PartitionedFilterBuilder,
    next_prefix: Option<&[u8]>,
    index: Option<&mut PartitionedIndexBuilder>,
) {
    let Some(index) = index else { return };
    if filter.is_full() {
        index.request_cut();
    }
    if index.take_cut() {
        filter.cut(next_prefix, Some(index.last_separator()));
    }
}
