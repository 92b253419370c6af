//! A table's use of its block cache beyond data blocks: pinning, warming, and charges.
//!
//! Source of names, defaults and meanings: RocksDB `include/rocksdb/table.h`.

use esker_cache::Role;

/// The tables of which index and filter blocks are pinned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PinningTier {
    /// Those that the older options name: `pin_l0_filter_and_index_blocks_in_cache`,
    /// `pin_top_level_index_and_filter`.
    #[default]
    Fallback,
    /// No table.
    None,
    /// Tables of level 0 that are about as small as a flush makes them.
    FlushedAndSimilar,
    /// All tables.
    All,
}

/// The index and filter blocks that stay in the cache while their table is open. They are in the
/// cache only with `cache_index_and_filter_blocks`. Without it all but partitions stay with the
/// reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MetadataCacheOptions {
    /// Indexes of partitions.
    pub top_level_index_pinning: PinningTier,
    /// Partitions.
    pub partition_pinning: PinningTier,
    /// Indexes and filters that are one block.
    pub unpartitioned_pinning: PinningTier,
}

esker_base::setters! {
    MetadataCacheOptions {
        top_level_index_pinning: PinningTier;
        partition_pinning: PinningTier;
        unpartitioned_pinning: PinningTier;
    }
}

/// Whether the blocks of a new table are put into the cache as they are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PrepopulateBlockCache {
    /// No blocks.
    #[default]
    Disable,
    /// Blocks that a flush writes.
    FlushOnly,
    /// Blocks of flushes, and blocks of compactions with the lowest cache priority.
    FlushAndCompaction,
}

/// Whether a use of memory is charged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Decision {
    /// Yes.
    Enabled,
    /// No.
    Disabled,
    /// The role's default ([`CacheUsageOptions::is_charged`]).
    #[default]
    Fallback,
}

/// The decision for one role: RocksDB's `CacheEntryRoleOptions`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheEntryRoleOptions {
    /// Whether the memory is charged to the block cache.
    pub charged: Decision,
}

/// The memory beside blocks that is charged to the block cache.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CacheUsageOptions {
    /// The decision for roles that are not in `options_overrides`.
    pub options: CacheEntryRoleOptions,
    /// Decisions for single roles.
    pub options_overrides: Vec<(Role, CacheEntryRoleOptions)>,
}

impl CacheUsageOptions {
    /// The roles that can be charged.
    pub const CHARGEABLE: [Role; 5] = [
        Role::CompressionDictionaryBuildingBuffer,
        Role::FilterConstruction,
        Role::BlockBasedTableReader,
        Role::FileMetadata,
        Role::BlobCache,
    ];

    /// The decision for a role, before its default.
    pub fn decision(&self, role: Role) -> Decision {
        let own = self.options_overrides.iter().rev().find(|(r, _)| *r == role).map(|(_, options)| *options);
        own.filter(|own| own.charged != Decision::Fallback).unwrap_or(self.options).charged
    }

    /// Whether memory of this role is charged. By default only blocks that wait for a dictionary
    /// are.
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
