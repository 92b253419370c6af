//! Names of options without a field: names that RocksDB 11 ignores, and other spellings.
//!
//! In: a name, and RocksDB's name of its struct. Out: whether the name is ignored; the name that it
//! stands for. Source: RocksDB `options/db_options.cc`, `options/cf_options.cc`,
//! `table/block_based/block_based_table_factory.cc`.

/// Options that RocksDB 11 accepts and ignores.
const IGNORED: &[(&str, &[&str])] = &[
    (
        "DBOptions",
        &[
            "access_hint_on_compaction_start",
            "allow_os_buffer",
            "base_background_compactions",
            "concurrent_prepare",
            "disableDataSync",
            "disable_data_sync",
            "experimental_allow_mempurge",
            "experimental_mempurge_policy",
            "experimental_mempurge_threshold",
            "fail_if_options_file_error",
            "new_table_reader_for_compaction_inputs",
            "preserve_deletes",
            "random_access_max_buffer_size",
            "seq_per_batch",
            "skip_log_error_on_recovery",
            "use_direct_writes",
        ],
    ),
    (
        "ColumnFamilyOptions",
        &[
            "blob_direct_write_partition_strategy",
            "bottommost_temperature",
            "check_flush_compaction_key_order",
            "compaction_measure_io_stats",
            "expanded_compaction_factor",
            "filter_deletes",
            "hard_rate_limit",
            "ignore_max_compaction_bytes_for_input",
            "level_compaction_dynamic_file_size",
            "max_grandparent_overlap_factor",
            "max_mem_compaction_level",
            "max_write_buffer_number_to_maintain",
            "memtable_prefix_bloom_bits",
            "memtable_prefix_bloom_huge_page_tlb_size",
            "memtable_prefix_bloom_probes",
            "min_partial_merge_operands",
            "purge_redundant_kvs_while_flush",
            "rate_limit_delay_max_milliseconds",
            "snap_refresh_nanos",
            "soft_rate_limit",
            "source_compaction_factor",
            "verify_checksums_in_compaction",
        ],
    ),
    (
        "BlockBasedTableOptions",
        &[
            "block_cache_compressed",
            "hash_index_allow_collision",
            "index_per_partition",
            "reserve_table_builder_memory",
            "reserve_table_reader_memory",
            "skip_table_builder_flush",
        ],
    ),
];

/// Other spellings, with the name that each stands for.
const SPELLINGS: &[(&str, &str)] = &[
    ("memtable", "memtable_factory"),
    ("memtable_veirfy_per_key_checksum_on_seek", "memtable_verify_per_key_checksum_on_seek"),
    ("rate_limiter_bytes_per_sec", "rate_limiter"),
];

/// Whether RocksDB ignores `name` in the struct of this name.
pub(super) fn is_ignored(of: &str, name: &str) -> bool {
    IGNORED.iter().any(|(title, names)| *title == of && names.contains(&name))
}

/// The name that `name` stands for; most stand for themselves.
pub(super) fn respelled(name: &str) -> &str {
    SPELLINGS.iter().find(|(other, _)| *other == name).map_or(name, |(_, field)| field)
}
