//! Table properties: a table's description of itself.
//!
//! In: the key/value block that the meta index calls `rocksdb.properties`. Out:
//! [`TableProperties`], and back.
//! Source: RocksDB `include/rocksdb/table_properties.h`, `table/meta_blocks.cc`. Page:
//! `docs/format/properties.md`.
//!
//! Invariants
//!  1. Names are sorted and unique; anything else is `Corruption`.
//!  2. A known name with a malformed number is skipped, as RocksDB does; an unknown name is a
//!     user's property.

use crate::block::{Block, BlockBuilder, BlockCursor};
use esker_base::coding::{Decoder, fixed32, fixed64, put_varint64};
use esker_base::{Error, Result};
use std::collections::BTreeMap;

/// Esker's own property of a flushed or compacted table: the number of older versions, in decimal
/// digits. An older version is an entry behind a newer one of the same user key. RocksDB takes it
/// for a user's property.
pub const OLDER_VERSIONS: &str = "esker.older.versions";

/// RocksDB's property of a table with embedded blobs: varint64 of their number, and of their bytes.
/// Readers need its name only.
pub const EMBEDDED_BLOB_STATS: &[u8] = b"rocksdb.embedded.blob.stats";

/// Esker's own property of a table that a repair wrote from the readable part of a damaged one: the
/// file number of that one, in decimal digits.
pub const SALVAGED_FROM: &str = "esker.salvaged.from";

/// `rocksdb.block.based.table.index.type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u32)]
pub enum IndexType {
    /// One block of separators.
    #[default]
    BinarySearch = 0,
    /// As `BinarySearch`, with extra blocks that map prefixes to entries. The extra blocks are
    /// ignored.
    HashSearch = 1,
    /// An index of index blocks.
    TwoLevel = 2,
    /// Each entry also carries the first key of its block.
    BinarySearchWithFirstKey = 3,
}

impl IndexType {
    /// The type with this code.
    /// # Errors
    /// `NotSupported` for codes this version does not know.
    pub fn from_u32(code: u32) -> Result<IndexType> {
        Ok(match code {
            0 => IndexType::BinarySearch,
            1 => IndexType::HashSearch,
            2 => IndexType::TwoLevel,
            3 => IndexType::BinarySearchWithFirstKey,
            _ => return Err(Error::not_supported(format!("index type {code}"))),
        })
    }
}

/// A table's description of itself. Sizes are bytes, times Unix seconds; 0 and empty mean
/// "unknown".
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TableProperties {
    /// Data blocks with their trailers.
    pub data_size: u64,
    /// Index blocks with their trailers.
    pub index_size: u64,
    /// Index partitions, of a two-level index.
    pub index_partitions: u64,
    /// The upper level of a two-level index.
    pub top_level_index_size: u64,
    /// Whether index keys are bare user keys.
    pub index_key_is_user_key: bool,
    /// Whether index values are delta-encoded.
    pub index_value_is_delta_encoded: bool,
    /// Filter blocks.
    pub filter_size: u64,
    /// Internal keys, uncompressed; tombstones included.
    pub raw_key_size: u64,
    /// Values, uncompressed; tombstones included.
    pub raw_value_size: u64,
    /// Data blocks. 0 in some tables of RocksDB 11 that have them.
    pub num_data_blocks: u64,
    /// Data blocks that are stored as they are, because compression would save too little
    /// (RocksDB 11).
    pub num_data_blocks_compression_rejected: u64,
    /// Data blocks that are stored as they are, because the table has no codec (RocksDB 11).
    pub num_data_blocks_compression_bypassed: u64,
    /// Index blocks that are marked as having evenly spread keys (RocksDB 11). Esker marks none.
    pub num_uniform_blocks: u64,
    /// Point entries and range tombstones.
    pub num_entries: u64,
    /// Entries of the filter.
    pub num_filter_entries: u64,
    /// Deletions of all kinds, range tombstones included.
    pub num_deletions: u64,
    /// Merge operands.
    pub num_merge_operands: u64,
    /// Range tombstones.
    pub num_range_deletions: u64,
    /// The version as this property states it. The footer has the true one.
    pub format_version: u64,
    /// 0: keys vary in length.
    pub fixed_key_len: u64,
    /// The id of the table's family; `UNKNOWN_COLUMN_FAMILY` if none.
    pub column_family_id: u64,
    /// Its name.
    pub column_family_name: String,
    /// Time at which the oldest of its data was flushed.
    pub creation_time: u64,
    /// Time at which the oldest key was written.
    pub oldest_key_time: u64,
    /// Time at which the newest key was written.
    pub newest_key_time: u64,
    /// Time at which the file was made.
    pub file_creation_time: u64,
    /// Estimated size of the data with slow compression, if sampling was on.
    pub slow_compression_estimated_data_size: u64,
    /// Estimated size of the data with fast compression, if sampling was on.
    pub fast_compression_estimated_data_size: u64,
    /// The file number at its creation. It is part of the table's identity even after a rename.
    pub orig_file_number: u64,
    /// The database that made it.
    pub db_id: String,
    /// The session (one open of that database) that made it.
    pub db_session_id: String,
    /// The machine that made it.
    pub db_host_id: String,
    /// `bloomfilter`, `ribbonfilter` or empty.
    pub filter_policy_name: String,
    /// The order of its user keys.
    pub comparator_name: String,
    /// The merge operator, or `nullptr`.
    pub merge_operator_name: String,
    /// The prefix extractor, or `nullptr`.
    pub prefix_extractor_name: String,
    /// `[a,b]`.
    pub property_collectors_names: String,
    /// The codec, or (format version 7) manager and codec codes.
    pub compression_name: String,
    /// The codec's options, for people.
    pub compression_options: String,
    /// The current sequence number at points in time, in RocksDB's encoding.
    pub seqno_to_time_mapping: Vec<u8>,
    /// Whether stored keys carry their user-defined timestamps. True if absent.
    pub user_defined_timestamps_persisted: bool,
    /// `None` if absent, which RocksDB 11 refuses.
    pub index_type: Option<u32>,
    /// Whether whole keys are in the filter. True if absent.
    pub whole_key_filtering: bool,
    /// Whether prefixes are in the filter. True if absent.
    pub prefix_filtering: bool,
    /// 2 for files made to be ingested.
    pub external_sst_file_version: Option<u32>,
    /// The sequence number of all its entries, if it was written into the file at ingestion; 0 if
    /// not.
    pub external_sst_file_global_seqno: Option<u64>,
    /// Offset of the value of that property in the properties block.
    pub global_seqno_offset: Option<usize>,
    /// Smallest sequence number (RocksDB 11).
    pub key_smallest_seqno: Option<u64>,
    /// Largest sequence number (RocksDB 11).
    pub key_largest_seqno: Option<u64>,
    /// First byte behind the data blocks (RocksDB 11).
    pub tail_start_offset: u64,
    /// Restart interval of data blocks (RocksDB 11).
    pub data_block_restart_interval: u64,
    /// Restart interval of index blocks (RocksDB 11).
    pub index_block_restart_interval: u64,
    /// Whether values are stored apart from keys in data blocks (RocksDB 11).
    pub separate_key_value_in_data_block: bool,
    /// Bytes of all data blocks before compression; 0: unknown. RocksDB 11.10 and later.
    pub uncompressed_data_size: u64,
    /// Where the file came into being: see [`lsm_info`]; 0: unknown. RocksDB 11.10 and later.
    pub lsm_info_at_creation: u64,
    /// Whether a partitioned filter's parts have separators of their own (RocksDB 11).
    pub decoupled_partitioned_filters: bool,
    /// Whether a user-defined index replaces the normal one (RocksDB 11).
    pub udi_is_primary_index: bool,
    /// All other properties, written by the user's property collectors.
    pub user_collected_properties: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The collectors' properties as text. No file has them: they are known to the LOG and to
    /// listeners when the table is made.
    pub readable_properties: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// `column_family_id` of a table made for no family in particular.
pub const UNKNOWN_COLUMN_FAMILY: u64 = 2_147_483_647;

const EXTERNAL_GLOBAL_SEQNO: &[u8] = b"rocksdb.external_sst_file.global_seqno";

impl TableProperties {
    /// Properties with all fields absent.
    pub fn absent() -> TableProperties {
        TableProperties {
            user_defined_timestamps_persisted: true,
            whole_key_filtering: true,
            prefix_filtering: true,
            column_family_id: UNKNOWN_COLUMN_FAMILY,
            ..TableProperties::default()
        }
    }

    /// Parses the properties block.
    /// # Errors
    /// `Corruption` if the block is malformed or names are not strictly ascending.
    pub fn parse(block: &Block) -> Result<TableProperties> {
        let mut properties = TableProperties::absent();
        let mut cursor = BlockCursor::new();
        let mut last: Option<Vec<u8>> = None;
        cursor.seek_to_first(block)?;
        while cursor.valid() {
            let name = cursor.key();
            if last.as_deref().is_some_and(|l| l >= name) {
                return Err(Error::corruption("properties block: names are not strictly ascending"));
            }
            let value = cursor.value(block);
            if name == EXTERNAL_GLOBAL_SEQNO {
                properties.global_seqno_offset = Some(cursor.value_range().start);
            }
            properties.set(name, value);
            last = Some(name.to_vec());
            cursor.next(block)?;
        }
        Ok(properties)
    }

    fn set(&mut self, name: &[u8], value: &[u8]) {
        let known = name.strip_prefix(b"rocksdb.").is_some_and(|short| self.set_known(short, value));
        if !known {
            self.user_collected_properties.insert(name.to_vec(), value.to_vec());
        }
    }

    /// Sets the property with this name (less `rocksdb.`); false if it is not known.
    fn set_known(&mut self, name: &[u8], value: &[u8]) -> bool {
        let number = Decoder::new(value).varint64().ok();
        let text = || String::from_utf8_lossy(value).into_owned();
        let is_one = value.first() != Some(&b'0');
        let set = |field: &mut u64| *field = number.unwrap_or(*field);
        match name {
            b"data.size" => set(&mut self.data_size),
            b"index.size" => set(&mut self.index_size),
            b"index.partitions" => set(&mut self.index_partitions),
            b"top-level.index.size" => set(&mut self.top_level_index_size),
            b"index.key.is.user.key" => self.index_key_is_user_key = number.unwrap_or(0) != 0,
            b"index.value.is.delta.encoded" => self.index_value_is_delta_encoded = number.unwrap_or(0) != 0,
            b"filter.size" => set(&mut self.filter_size),
            b"raw.key.size" => set(&mut self.raw_key_size),
            b"raw.value.size" => set(&mut self.raw_value_size),
            b"num.data.blocks" => set(&mut self.num_data_blocks),
            b"num.data.blocks.compression.rejected" => set(&mut self.num_data_blocks_compression_rejected),
            b"num.data.blocks.compression.bypassed" => set(&mut self.num_data_blocks_compression_bypassed),
            b"num.uniform.blocks" => set(&mut self.num_uniform_blocks),
            b"num.entries" => set(&mut self.num_entries),
            b"num.filter_entries" => set(&mut self.num_filter_entries),
            b"deleted.keys" => set(&mut self.num_deletions),
            b"merge.operands" => set(&mut self.num_merge_operands),
            b"num.range-deletions" => set(&mut self.num_range_deletions),
            b"format.version" => set(&mut self.format_version),
            b"fixed.key.length" => set(&mut self.fixed_key_len),
            b"column.family.id" => set(&mut self.column_family_id),
            b"column.family.name" => self.column_family_name = text(),
            b"creation.time" => set(&mut self.creation_time),
            b"oldest.key.time" => set(&mut self.oldest_key_time),
            b"newest.key.time" => set(&mut self.newest_key_time),
            b"file.creation.time" => set(&mut self.file_creation_time),
            b"sample_for_compression.slow.data.size" => set(&mut self.slow_compression_estimated_data_size),
            b"sample_for_compression.fast.data.size" => set(&mut self.fast_compression_estimated_data_size),
            b"original.file.number" => set(&mut self.orig_file_number),
            b"creating.db.identity" => self.db_id = text(),
            b"creating.session.identity" => self.db_session_id = text(),
            b"creating.host.identity" => self.db_host_id = text(),
            b"filter.policy" => self.filter_policy_name = text(),
            b"comparator" => self.comparator_name = text(),
            b"merge.operator" => self.merge_operator_name = text(),
            b"prefix.extractor.name" => self.prefix_extractor_name = text(),
            b"property.collectors" => self.property_collectors_names = text(),
            b"compression" => self.compression_name = text(),
            b"compression_options" => self.compression_options = text(),
            b"seqno.time.map" => self.seqno_to_time_mapping = value.to_vec(),
            b"user.defined.timestamps.persisted" => {
                self.user_defined_timestamps_persisted = number.unwrap_or(1) != 0;
            }
            b"block.based.table.index.type" => self.index_type = fixed32(value),
            b"block.based.table.whole.key.filtering" => self.whole_key_filtering = is_one,
            b"block.based.table.prefix.filtering" => self.prefix_filtering = is_one,
            b"external_sst_file.version" => self.external_sst_file_version = fixed32(value),
            b"external_sst_file.global_seqno" => self.external_sst_file_global_seqno = fixed64(value),
            b"key.smallest.seqno" => self.key_smallest_seqno = number,
            b"key.largest.seqno" => self.key_largest_seqno = number,
            b"tail.start.offset" => set(&mut self.tail_start_offset),
            b"data.block.restart.interval" => set(&mut self.data_block_restart_interval),
            b"index.block.restart.interval" => set(&mut self.index_block_restart_interval),
            b"separate.key.value.in.data.block" => {
                self.separate_key_value_in_data_block = number.unwrap_or(0) != 0;
            }
            b"block.based.table.decoupled.partitioned.filters" => {
                self.decoupled_partitioned_filters = value == b"1";
            }
            b"uncompressed.data.size" => set(&mut self.uncompressed_data_size),
            b"lsm.info.at.creation" => set(&mut self.lsm_info_at_creation),
            b"udi.is.primary.index" => self.udi_is_primary_index = number.unwrap_or(0) != 0,
            _ => return false,
        }
        true
    }

    /// Number of older versions, if known. It comes from [`OLDER_VERSIONS`], or is 0 because a
    /// table made for ingestion has one entry per key.
    pub fn older_versions(&self) -> Option<u64> {
        match self.user_collected_properties.get(OLDER_VERSIONS.as_bytes()) {
            Some(count) => std::str::from_utf8(count).ok()?.parse().ok(),
            None => self.external_sst_file_version.map(|_| 0),
        }
    }

    /// Whether the table has values in blob records of its own.
    pub fn has_embedded_blobs(&self) -> bool {
        self.user_collected_properties.contains_key(EMBEDDED_BLOB_STATS)
    }

    /// The properties block with these properties, as RocksDB 7.8 writes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut sorted: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let mut put = |name: &str, value: Vec<u8>| {
            sorted.insert([b"rocksdb.", name.as_bytes()].concat(), value);
        };
        for (name, number) in self.numbers() {
            put(name, varint(number));
        }
        for (name, number) in self.optional_numbers() {
            if number != 0 {
                put(name, varint(number));
            }
        }
        for (name, text) in self.texts() {
            if !text.is_empty() {
                put(name, text.as_bytes().to_vec());
            }
        }
        self.put_specials(&mut put);
        for (name, value) in &self.user_collected_properties {
            sorted.entry(name.clone()).or_insert_with(|| value.clone());
        }
        let mut block = BlockBuilder::new(i32::MAX as usize);
        for (name, value) in &sorted {
            block.add(name, value);
        }
        block.finish();
        block.into_contents()
    }

    /// Numbers that are always written.
    fn numbers(&self) -> [(&'static str, u64); 19] {
        [
            ("data.size", self.data_size),
            ("index.size", self.index_size),
            ("index.key.is.user.key", u64::from(self.index_key_is_user_key)),
            ("index.value.is.delta.encoded", u64::from(self.index_value_is_delta_encoded)),
            ("filter.size", self.filter_size),
            ("raw.key.size", self.raw_key_size),
            ("raw.value.size", self.raw_value_size),
            ("num.data.blocks", self.num_data_blocks),
            ("num.entries", self.num_entries),
            ("num.filter_entries", self.num_filter_entries),
            ("deleted.keys", self.num_deletions),
            ("merge.operands", self.num_merge_operands),
            ("num.range-deletions", self.num_range_deletions),
            ("format.version", self.format_version),
            ("fixed.key.length", self.fixed_key_len),
            ("column.family.id", self.column_family_id),
            ("creation.time", self.creation_time),
            ("oldest.key.time", self.oldest_key_time),
            ("original.file.number", self.orig_file_number),
        ]
    }

    /// Numbers that are written unless they are 0.
    fn optional_numbers(&self) -> [(&'static str, u64); 14] {
        [
            ("newest.key.time", self.newest_key_time),
            ("file.creation.time", self.file_creation_time),
            ("index.partitions", self.index_partitions),
            ("top-level.index.size", self.top_level_index_size),
            ("sample_for_compression.slow.data.size", self.slow_compression_estimated_data_size),
            ("sample_for_compression.fast.data.size", self.fast_compression_estimated_data_size),
            ("num.data.blocks.compression.rejected", self.num_data_blocks_compression_rejected),
            ("num.data.blocks.compression.bypassed", self.num_data_blocks_compression_bypassed),
            ("num.uniform.blocks", self.num_uniform_blocks),
            ("tail.start.offset", self.tail_start_offset),
            ("data.block.restart.interval", self.data_block_restart_interval),
            ("index.block.restart.interval", self.index_block_restart_interval),
            ("uncompressed.data.size", self.uncompressed_data_size),
            ("lsm.info.at.creation", self.lsm_info_at_creation),
        ]
    }

    /// Texts, written unless they are empty.
    fn texts(&self) -> [(&'static str, &str); 11] {
        [
            ("column.family.name", &self.column_family_name),
            ("creating.db.identity", &self.db_id),
            ("creating.session.identity", &self.db_session_id),
            ("creating.host.identity", &self.db_host_id),
            ("filter.policy", &self.filter_policy_name),
            ("comparator", &self.comparator_name),
            ("merge.operator", &self.merge_operator_name),
            ("prefix.extractor.name", &self.prefix_extractor_name),
            ("property.collectors", &self.property_collectors_names),
            ("compression", &self.compression_name),
            ("compression_options", &self.compression_options),
        ]
    }

    /// Properties that are neither varints nor texts, or whose absence means something.
    fn put_specials(&self, put: &mut impl FnMut(&str, Vec<u8>)) {
        let flag = |on: bool| vec![if on { b'1' } else { b'0' }];
        put("block.based.table.index.type", self.index_type.unwrap_or(0).to_le_bytes().to_vec());
        put("block.based.table.whole.key.filtering", flag(self.whole_key_filtering));
        put("block.based.table.prefix.filtering", flag(self.prefix_filtering));
        if self.decoupled_partitioned_filters {
            put("block.based.table.decoupled.partitioned.filters", flag(true));
        }
        if self.separate_key_value_in_data_block {
            put("separate.key.value.in.data.block", varint(1));
        }
        if !self.user_defined_timestamps_persisted {
            put("user.defined.timestamps.persisted", varint(0));
        }
        if !self.seqno_to_time_mapping.is_empty() {
            put("seqno.time.map", self.seqno_to_time_mapping.clone());
        }
        if let Some(version) = self.external_sst_file_version {
            put("external_sst_file.version", version.to_le_bytes().to_vec());
        }
        if let Some(seqno) = self.external_sst_file_global_seqno {
            put("external_sst_file.global_seqno", seqno.to_le_bytes().to_vec());
        }
        if let Some(seqno) = self.key_smallest_seqno {
            put("key.smallest.seqno", varint(seqno));
        }
        if let Some(seqno) = self.key_largest_seqno {
            put("key.largest.seqno", varint(seqno));
        }
    }
}

fn varint(number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint64(&mut out, number);
    out
}

/// The property `rocksdb.lsm.info.at.creation` of a file made for a level. Bits 0 to 7 are the
/// level, or 255; bits 8 and 9 are 1 or, if no older data was deeper, 2.
pub fn lsm_info(level: i32, is_bottommost: bool) -> u64 {
    let level = u8::try_from(level).map_or(255, u64::from);
    level | if is_bottommost { 2 } else { 1 } << 8
}

/// The property `rocksdb.lsm.info.at.creation` of a file made for no level.
pub const NO_LSM_INFO: u64 = 3 << 8;

#[cfg(test)]
mod tests;
