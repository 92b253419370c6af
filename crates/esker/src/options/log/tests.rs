use crate::options::{BlockCache, CacheOptions, ColumnFamilyOptions, CompressionType, DbOptions};
use crate::table_properties_collector::CompactOnDeletionCollectorFactory;
use std::sync::Arc;

fn has(lines: &[String], wanted: &str) {
    assert!(lines.iter().any(|line| line.trim_start() == wanted), "no '{wanted}' in\n{}", lines.join("\n"));
}

#[test]
fn lines_are_rocksdbs() {
    let lines = DbOptions::default().log_lines();
    for line in [
        "Options.max_open_files: -1",
        "Options.create_if_missing: 0",
        "Options.paranoid_checks: 1",
        "Options.wal_recovery_mode: 2",
        "Options.wal_compression: 0",
        "Options.WAL_ttl_seconds: 0",
        "Options.db_log_dir: ",
        "Options.enforce_single_del_contracts: true",
        "Options.file_checksum_gen_factory: Unknown",
        "Options.wal_filter: None",
        "Options.statistics: (nil)",
    ] {
        has(&lines, line);
    }
    let mut family = ColumnFamilyOptions::new().max_bytes_for_level_multiplier_additional(vec![1, 3]);
    family.table.index_block_restart_interval = 16;
    let collector = CompactOnDeletionCollectorFactory::new(5, 10, 0.5, 0);
    family.table_properties_collector_factories.push(Arc::new(collector));
    family.table.block_cache =
        Some(Arc::new(BlockCache::new(&CacheOptions::with_capacity(1 << 20)).unwrap()));
    let lines = family.log_lines();
    for line in [
        "Options.comparator: leveldb.BytewiseComparator",
        "Options.merge_operator: None",
        "Options.prefix_extractor: nullptr",
        "Options.compression: LZ4",
        "Options.bottommost_compression: Disabled",
        "Options.compression_opts.level: 32767",
        "Options.compression_opts.enabled: false",
        "Options.max_bytes_for_level_multiplier: 10.000000",
        "Options.max_bytes_for_level_multiplier_addtl[1]: 3",
        "Options.compaction_style: kCompactionStyleLevel",
        "Options.compaction_options_universal.size_ratio: 1",
        "Options.memtable_factory: SkipListFactory",
        "Options.enable_blob_files: false",
        "Options.table_properties_collectors: CompactOnDeletionCollector (Sliding window size = 5 \
         Deletion trigger = 10 Deletion ratio = 0.5); ",
    ] {
        has(&lines, line);
    }
    let table = lines.iter().find(|line| line.contains("table_factory options")).unwrap();
    for line in [
        "  cache_index_and_filter_blocks: 0\n",
        "  data_block_index_type: 0\n",
        "  data_block_hash_table_util_ratio: 0.750000\n",
        "  format_version: 5\n",
        "  index_block_restart_interval: 16\n",
        "  block_cache_options:\n    capacity : 1048576\n",
    ] {
        assert!(table.contains(line), "no '{line}' in\n{table}");
    }
}

#[test]
fn compressions_of_levels_have_a_line_each() {
    let per_level = vec![CompressionType::None, CompressionType::Zstd];
    let lines = ColumnFamilyOptions::default().compression_per_level(per_level).log_lines();
    has(&lines, "Options.compression[0]: NoCompression");
    has(&lines, "Options.compression[1]: ZSTD");
}
