//! Options for a table's use of the block cache: pinned blocks, blocks of new tables, and charges.
//!
//! Source of names, defaults and meanings: RocksDB `include/rocksdb/table.h`.

use esker_cache::Role;

/// The tables whose index and filter blocks are pinned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PinningTier {
    /// The tables that the older options `pin_l0_filter_and_index_blocks_in_cache` and
    /// `pin_top_level_index_and_filter` select.
    #[default]
    Fallback,
    /// No table.
    None,
    /// Tables of level 0 that are not much larger than a flushed table.
    FlushedAndSimilar,
    /// All tables.
    All,
}

/// Selects index and filter blocks that stay in the cache while their table is open.
///
/// If `cache_index_and_filter_blocks` is off, the reader of a table holds these blocks itself.
/// Partitions are still cached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MetadataCacheOptions {
    /// The top levels of partitioned indexes and filters.
    pub top_level_index_pinning: PinningTier,
    /// Partitions of indexes and filters.
    pub partition_pinning: PinningTier,
    /// Indexes and filters that consist of one block.
    pub unpartitioned_pinning: PinningTier,
}

esker_base::setters! {
    MetadataCacheOptions {
        top_level_index_pinning: PinningTier;
        partition_pinning: PinningTier;
        unpartitioned_pinning: PinningTier;
    }
}

/// Whether the writer of a table puts its blocks into the block cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PrepopulateBlockCache {
    /// The writer puts no blocks into the cache.
    #[default]
    Disable,
    /// A flush puts its blocks into the cache.
    FlushOnly,
    /// Flushes and compactions put their blocks into the cache, compactions with the lowest
    /// priority.
    FlushAndCompaction,
}

/// Whether the block cache is charged for the memory of a role.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Decision {
    /// The cache is charged.
    Enabled,
    /// The cache is not charged.
    Disabled,
    /// The default of the role decides ([`CacheUsageOptions::is_charged`]).
    #[default]
    Fallback,
}

/// The decision for one role: RocksDB's `CacheEntryRoleOptions`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheEntryRoleOptions {
    /// Whether the block cache is charged for the memory.
    pub charged: Decision,
}

/// Selects the memory outside the block cache that is charged to the cache.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CacheUsageOptions {
    /// The decision for roles that are not in `options_overrides`.
    pub options: CacheEntryRoleOptions,
    /// Decisions for single roles.
    pub options_overrides: Vec<(Role, CacheEntryRoleOptions)>,
}

impl CacheUsageOptions {
    /// The roles for whose memory the cache can be charged.
    pub const CHARGEABLE: [Role; 5] = [
        Role::CompressionDictionaryBuildingBuffer,
        Role::FilterConstruction,
        Role::BlockBasedTableReader,
        Role::FileMetadata,
        Role::BlobCache,
    ];

    /// The decision of the options for a role. `Fallback`: the role's default decides.
    pub fn decision(&self, role: Role) -> Decision {
        let own = self.options_overrides.iter().rev().find(|(r, _)| *r == role).map(|(_, options)| *options);
        own.filter(|own| own.charged != Decision::Fallback).unwrap_or(self.options).charged
    }

    /// Whether the cache is charged for memory of this role. The default is yes only for
    /// `CompressionDictionaryBuildingBuffer`.
    pub fn is_charged(&self, role: Role) -> bool {
        match self.decision(role) {
            Decision::Enabled => true,
            Decision::Disabled => false,
            Decision::Fallback => role == Role::CompressionDictionaryBuildingBuffer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_decided_by_its_own_option_then_by_that_of_all_then_by_its_default() {
        let charged = |charged| CacheEntryRoleOptions { charged };
        for (all, own, is_charged) in [
            (Decision::Fallback, Decision::Fallback, [true, false]),
            (Decision::Enabled, Decision::Fallback, [true, true]),
            (Decision::Enabled, Decision::Disabled, [false, false]),
            (Decision::Disabled, Decision::Fallback, [false, false]),
            (Decision::Disabled, Decision::Enabled, [true, true]),
        ] {
            let roles = [Role::CompressionDictionaryBuildingBuffer, Role::FileMetadata];
            let options_overrides = roles.map(|role| (role, charged(own))).to_vec();
            let usage = CacheUsageOptions { options: charged(all), options_overrides };
            assert_eq!(roles.map(|role| usage.is_charged(role)), is_charged, "{all:?}, {own:?}");
        }
    }
}
