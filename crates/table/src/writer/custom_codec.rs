//! Compression of a table's blocks by user code.
//!
//! In: the options' compression manager. Out: stored blocks with their codes, and the properties
//! that say which manager and codes a reader needs. Source: RocksDB
//! `table/block_based/block_based_table_builder.cc` (`PrePopulateCompressionProperties`).

use crate::options::TableBuilderOptions;
use esker_base::{Error, Result};
use esker_format::compression::CompressionType;
use esker_format::compression::manager::{
    BUILT_IN_COMPRESSION, CustomCompressor, CustomDecompressor, FIRST_CUSTOM_COMPRESSION,
    LAST_CUSTOM_COMPRESSION, check_compatibility_name,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The compressor of one table.
pub(super) struct CustomCodec {
    compressor: Box<dyn CustomCompressor>,
    manager_name: String,
    compatibility_name: String,
    /// Verifies compressed blocks, if the options request it.
    verifier: Option<Arc<dyn CustomDecompressor>>,
    /// Most bytes of each 1024 that a compressed block may keep.
    most_per_kb: u64,
    codes: BTreeSet<u8>,
}

impl CustomCodec {
    /// The compressor that the options' manager makes. Without a manager, or if it makes none,
    /// `None`. With a manager the table has no dictionary and no built-in codec.
    /// # Errors
    /// `InvalidArgument` if the table's format cannot name the manager · the manager's error.
    pub(super) fn new(options: &mut TableBuilderOptions) -> Result<Option<CustomCodec>> {
        let Some(manager) = options.compression_manager.clone() else { return Ok(None) };
        let table = options.table_options.clone();
        check_compatibility_name(&*manager)?;
        let is_built_in = manager.compatibility_name() == BUILT_IN_COMPRESSION;
        if !is_built_in && table.format_version < 7 {
            return Err(Error::invalid_argument(
                "Using a CompressionManager incompatible with built-in (custom CompatibilityName()) is \
                 not supported for format_version < 7",
            ));
        }
        let preferred = options.compression;
        let context = super::filter::building_context(options);
        let compressor = manager.compressor_for_sst(&context, &options.compression_opts, preferred)?;
        options.compression_opts.max_dict_bytes = 0;
        options.compression = CompressionType::None;
        let Some(compressor) = compressor else { return Ok(None) };
        if table.block_align {
            return Err(Error::invalid_argument("Enable block_align, but compression enabled"));
        }
        let most_per_kb = options.compression_opts.max_compressed_bytes_per_kb.clamp(0, 1023);
        Ok(Some(CustomCodec {
            compressor,
            manager_name: manager.name().to_owned(),
            compatibility_name: manager.compatibility_name().to_owned(),
            verifier: table.verify_compression.then(|| manager.decompressor()),
            most_per_kb: u64::from(most_per_kb.unsigned_abs()),
            codes: BTreeSet::new(),
        }))
    }

    /// Compresses a block into `out`, which is empty. Returns its code; 0: it is to be stored as it
    /// is.
    pub(super) fn compress(&mut self, contents: &[u8], out: &mut Vec<u8>) -> Result<u8> {
        let Some(code) = self.compressor.compress_block(contents, out)? else { return Ok(0) };
        if (out.len() as u64) > (contents.len() as u64 * self.most_per_kb) >> 10 {
            return Ok(0);
        }
        let is_own = (FIRST_CUSTOM_COMPRESSION..=LAST_CUSTOM_COMPRESSION).contains(&code);
        let is_built_in = CompressionType::from_u8(code).is_ok_and(|kind| kind.is_built_in());
        if code == 0 || !(is_built_in || is_own && self.compatibility_name != BUILT_IN_COMPRESSION) {
            let what = format!("{}: compression code {code:#04x} is not one for programs", self.manager_name);
            return Err(Error::invalid_argument(what));
        }
        if let Some(verifier) = &self.verifier
            && verifier.contents_of(code, out)?[..] != *contents
        {
            let what = format!("{} block does not decompress to what was compressed", self.manager_name);
            return Err(Error::corruption(what));
        }
        self.codes.insert(code);
        Ok(code)
    }

    /// The property `rocksdb.compression` of format version 7: the manager's compatibility name,
    /// and the codes used.
    pub(super) fn compression_name(&self) -> String {
        let codes: String = self.codes.iter().map(|code| format!("{code:02X}")).collect();
        format!("{};{codes};", self.compatibility_name)
    }

    /// The end of the property `rocksdb.compression_options`.
    pub(super) fn describe(&self) -> String {
        format!("_compression_manager={}; _compressor={}; ", self.manager_name, self.compressor.id())
    }

    /// The name of the first codec used, for format versions that have no manager's name.
    pub(super) fn legacy_name(&self) -> &'static str {
        let first = self.codes.first().copied().unwrap_or_default();
        CompressionType::from_u8(first).unwrap_or_default().property_name()
    }
}
