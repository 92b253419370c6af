//! Memory in which tables are built, charged to the block cache.

use crate::util::*;
use esker_cache::{Cache, CacheOptions, Role};
use esker_env::FileSystem;
use esker_env::mem::MemFs;
use esker_format::compression::CompressionType;
use esker_format::filter::FilterPolicy;
use esker_table::cache_options::{CacheEntryRoleOptions, Decision};
use esker_table::{BlockBasedTableOptions, BlockCache, TableBuilder, TableBuilderOptions};
use std::path::Path;
use std::sync::Arc;

fn cache(capacity: usize, strict: bool) -> Arc<BlockCache> {
    let options = CacheOptions { strict_capacity_limit: strict, ..CacheOptions::with_capacity(capacity) };
    Arc::new(Cache::new(&options).unwrap())
}

fn with_dictionary(cache: &Arc<BlockCache>, decisions: &[(Role, Decision)]) -> TableBuilderOptions {
    let mut table = BlockBasedTableOptions {
        block_cache: Some(Arc::clone(cache)),
        filter_policy: Some(FilterPolicy::bloom(10.0)),
        ..BlockBasedTableOptions::default()
    };
    let overrides =
        decisions.iter().map(|(role, charged)| (*role, CacheEntryRoleOptions { charged: *charged }));
    table.cache_usage_options.options_overrides = overrides.collect();
    let mut options = builder_options(table);
    options.compression = CompressionType::Zstd;
    options.compression_opts.max_dict_bytes = 4096;
    options
}

/// Builds a table; the most that was charged for the role on the way, and the table.
fn build(options: TableBuilderOptions, cache: &BlockCache, role: Role) -> (u64, Vec<u8>) {
    let fs = MemFs::new();
    let path = Path::new("/out.sst");
    let mut builder = TableBuilder::new(options, fs.new_writable_file(path).unwrap()).unwrap();
    let mut most = 0;
    for (key, value) in sample_entries(&mut Rng::new(1), 20_000, 100) {
        builder.add(&key, &value).unwrap();
        most = most.max(cache.role_stats().bytes(role));
        assert!(cache.usage() <= cache.capacity() || !cache.has_strict_capacity_limit());
    }
    let info = builder.finish().unwrap();
    builder.sync_and_close().unwrap();
    assert_eq!(cache.role_stats().bytes(role), 0, "the charge ends with the building");
    let mut bytes = vec![0; info.file_size as usize];
    fs.new_random_access_file(path).unwrap().read_at(0, &mut bytes).unwrap();
    (most, bytes)
}

#[test]
fn blocks_that_wait_for_a_dictionary_are_charged_unless_that_is_disabled() {
    let role = Role::CompressionDictionaryBuildingBuffer;
    for (decision, is_charged) in
        [(Decision::Fallback, true), (Decision::Enabled, true), (Decision::Disabled, false)]
    {
        let cache = cache(16 << 20, false);
        let (most, bytes) = build(with_dictionary(&cache, &[(role, decision)]), &cache, role);
        assert_eq!(most > 1 << 20, is_charged, "{decision:?}: {most}");
        let table = open_bytes(&bytes, BlockBasedTableOptions::default()).unwrap();
        assert_eq!(scan(&table).unwrap().len(), 20_000);
    }
}

/// Then the dictionary is made of fewer blocks.
#[test]
fn where_a_strict_limit_has_no_room_fewer_blocks_wait() {
    let role = Role::CompressionDictionaryBuildingBuffer;
    let cache = cache(256 << 10, true);
    let (most, bytes) = build(with_dictionary(&cache, &[]), &cache, role);
    assert!((100 << 10..=256 << 10).contains(&most), "{most}");
    let table = open_bytes(&bytes, BlockBasedTableOptions::default()).unwrap();
    assert_eq!(scan(&table).unwrap().len(), 20_000);
}

#[test]
fn the_keys_of_a_filter_are_charged_if_that_is_enabled() {
    let role = Role::FilterConstruction;
    for (decision, is_charged) in
        [(Decision::Fallback, false), (Decision::Enabled, true), (Decision::Disabled, false)]
    {
        let cache = cache(16 << 20, false);
        let mut options = with_dictionary(&cache, &[(role, decision)]);
        options.compression_opts.max_dict_bytes = 0;
        let (most, _) = build(options, &cache, role);
        assert_eq!(most > 50_000, is_charged, "{decision:?}: {most}");
    }
}
