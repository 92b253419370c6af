//! Decisions before the first key: validity of the options, and facts about the table.

use crate::options::{BlockBasedTableOptions, OptimizeKeyCommonPrefix, TableBuilderOptions};
use esker_base::comparator::KeyOrder;
use esker_base::hash::xxh3_64;
use esker_base::{Error, Result};
use esker_format::compression::{CodecOptions, CompressionType};
use esker_format::filter::policy::COMPATIBILITY_NAME;
use esker_format::footer::LATEST_FORMAT_VERSION;
use esker_format::properties::{IndexType, NO_LSM_INFO, TableProperties, lsm_info};

/// RocksDB's name for its own codecs, in tables of format version 7.
const COMPRESSION_MANAGER: &str = "BuiltinV2";

/// Refuses options that cannot be honoured.
pub(super) fn check_options(options: &TableBuilderOptions) -> Result<()> {
    let table = &options.table_options;
    if !(2..=LATEST_FORMAT_VERSION).contains(&table.format_version) {
        return Err(Error::not_supported(format!(
            "writing format_version {} (2 to {LATEST_FORMAT_VERSION} are)",
            table.format_version
        )));
    }
    if options.embeds_blobs && table.format_version < 7 {
        return Err(Error::invalid_argument(
            "Embedded blob SSTs require block-based table format_version >= 7",
        ));
    }
    if table.index_type == IndexType::HashSearch && options.prefix_extractor.is_none() {
        return Err(Error::invalid_argument("index_type kHashSearch needs a prefix_extractor"));
    }
    if table.block_align
        && (options.compression != CompressionType::None || !table.block_size.is_power_of_two())
    {
        return Err(Error::invalid_argument(
            "block_align needs compression none and a block_size that is a power of 2",
        ));
    }
    let alignment = table.super_block_alignment_size;
    if alignment != 0 && !(alignment.is_power_of_two() && u32::try_from(alignment).is_ok()) {
        return Err(Error::invalid_argument("super_block_alignment_size is no power of 2 below 4 GiB"));
    }
    if table.block_size == 0 || table.block_size > u32::MAX as usize {
        return Err(Error::invalid_argument(format!("block_size {}", table.block_size)));
    }
    Ok(())
}

/// Whether data blocks store the common prefix of their user keys once. Keys with timestamps have
/// none: RocksDB may leave the timestamps out of the table.
pub(super) fn stores_key_prefixes(options: &TableBuilderOptions) -> bool {
    let table = &options.table_options;
    let is_wanted = match table.optimize_key_common_prefix {
        OptimizeKeyCommonPrefix::Disabled => false,
        OptimizeKeyCommonPrefix::IfFastSeek => options.icmp.order() != KeyOrder::Custom,
        OptimizeKeyCommonPrefix::Enabled => true,
    };
    let has_timestamps =
        options.icmp.user_comparator().timestamp_size() > 0 || !options.user_defined_timestamps_persisted;
    is_wanted && table.format_version >= 8 && table.use_delta_encoding && !has_timestamps
}

/// Whether index blocks store the common prefix of their keys once. RocksDB's index entries behind
/// padding may not share bytes.
pub(super) fn stores_index_key_prefixes(options: &TableBuilderOptions) -> bool {
    options.table_options.super_block_alignment_size == 0 && stores_key_prefixes(options)
}

/// Whether index entries may leave out offsets. Embedded blobs lie between data blocks.
pub(super) fn has_delta_values(options: &TableBuilderOptions) -> bool {
    let table = &options.table_options;
    table.format_version >= 4 && !table.block_align && !options.embeds_blobs
}

/// The name of a filter's block: `prefix`, and the name of the filter's form.
pub(super) fn filter_block(prefix: &str, options: &TableBuilderOptions) -> String {
    let policy = options.table_options.filter_policy.as_ref();
    let form = policy.map_or(COMPATIBILITY_NAME, |policy| policy.compatibility_name());
    format!("{prefix}{form}")
}

/// The smallest deleted run that is written; 0 writes none. Families with timestamps write none,
/// because a deletion there concerns one timestamp only.
pub(super) fn deleted_run_block_min_entries(options: &TableBuilderOptions) -> u64 {
    if options.icmp.user_comparator().timestamp_size() > 0 {
        0
    } else {
        options.deleted_run_block_min_entries
    }
}

/// A number that differs from file to file, so that a block of another file fails its checksum;
/// never 0.
pub(super) fn base_context(options: &TableBuilderOptions) -> u32 {
    let mut seed = options.db_session_id.as_bytes().to_vec();
    seed.extend_from_slice(&options.orig_file_number.0.to_le_bytes());
    seed.extend_from_slice(&options.file_creation_time.to_le_bytes());
    let hash = xxh3_64(&seed, 0);
    ((hash ^ (hash >> 32)) as u32).max(1)
}

/// The properties that are known before the first key.
pub(super) fn first_properties(options: &TableBuilderOptions) -> TableProperties {
    let table: &BlockBasedTableOptions = &options.table_options;
    let or_null = |name: Option<&str>| name.unwrap_or("nullptr").to_owned();
    let separate = table.separate_key_value_in_data_block;
    TableProperties {
        index_type: Some(table.index_type as u32),
        whole_key_filtering: table.whole_key_filtering,
        prefix_filtering: options.prefix_extractor.is_some(),
        decoupled_partitioned_filters: table.partition_filters && table.decouple_partitioned_filters,
        separate_key_value_in_data_block: separate,
        // Readers of separate values need this property. As in RocksDB 7.8, other tables lack it.
        data_block_restart_interval: if separate { table.block_restart_interval as u64 } else { 0 },
        column_family_id: u64::from(options.column_family_id),
        column_family_name: options.column_family_name.clone(),
        comparator_name: options.icmp.user_comparator().name().to_owned(),
        merge_operator_name: or_null(options.merge_operator_name.as_deref()),
        prefix_extractor_name: or_null(options.prefix_extractor.as_ref().map(|e| e.name())),
        property_collectors_names: "[]".to_owned(),
        filter_policy_name: table.filter_policy.as_ref().map_or("", |p| p.name()).to_owned(),
        compression_name: options.compression.property_name().to_owned(),
        compression_options: describe(&options.compression_opts),
        creation_time: options.creation_time,
        oldest_key_time: options.oldest_key_time,
        file_creation_time: options.file_creation_time,
        orig_file_number: options.orig_file_number.0,
        db_id: options.db_id.clone(),
        db_session_id: options.db_session_id.clone(),
        db_host_id: options.db_host_id.clone(),
        external_sst_file_version: options.is_external_file.then_some(2),
        external_sst_file_global_seqno: options.is_external_file.then_some(0),
        user_defined_timestamps_persisted: options.user_defined_timestamps_persisted,
        lsm_info_at_creation: if table.format_version >= 8 { lsm_info_of(options) } else { 0 },
        user_collected_properties: options.user_collected_properties.iter().cloned().collect(),
        ..TableProperties::absent()
    }
}

/// The place of the table as a property. RocksDB writes it from 11.10 on.
fn lsm_info_of(options: &TableBuilderOptions) -> u64 {
    match options.level {
        _ if options.is_external_file => NO_LSM_INFO,
        Some(level) => lsm_info(level, options.is_bottommost),
        None => 0,
    }
}

/// The property `rocksdb.compression` of format version 7: the compression manager, and the codecs
/// used.
pub(super) fn manager_and_codecs(compression: CompressionType, any_compressed: bool) -> String {
    let manager = if compression == CompressionType::None { "" } else { COMPRESSION_MANAGER };
    let codecs = if any_compressed { format!("{:02X}", compression as u8) } else { String::new() };
    format!("{manager};{codecs};")
}

/// RocksDB's text of `rocksdb.compression_options`.
fn describe(o: &CodecOptions) -> String {
    format!(
        "window_bits={}; level={}; strategy={}; max_dict_bytes={}; zstd_max_train_bytes={}; enabled=0; \
         max_dict_buffer_bytes={}; use_zstd_dict_trainer=1; ",
        o.window_bits, o.level, o.strategy, o.max_dict_bytes, o.zstd_max_train_bytes, o.max_dict_buffer_bytes
    )
}
