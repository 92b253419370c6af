//! Codecs by user code: a manager, which makes compressors and decompressors of blocks.
//!
//! In: the contents of a table's blocks. Out: stored bytes and a code of the program's choice, and
//! back. The table's property `rocksdb.compression` names the manager and the codes. Source:
//! RocksDB `include/rocksdb/advanced_compression.h`.
//!
//! Invariant: a decompressor gives the contents back that a compressor of the same compatibility
//! name took. Here the program promises it; checksums cover the stored bytes.

use super::{CodecOptions, CompressionType, Output};
use crate::filter::FilterBuildingContext;
use esker_base::coding::Decoder;
use esker_base::{Buffer, Error, Result};
use std::fmt;
use std::sync::Arc;

/// RocksDB's compatibility name of the built-in codecs.
pub const BUILT_IN_COMPRESSION: &str = "BuiltinV2";

/// The first code for codecs of programs.
pub const FIRST_CUSTOM_COMPRESSION: u8 = 0x80;
/// The last code for codecs of programs.
pub const LAST_CUSTOM_COMPRESSION: u8 = 0xFE;

/// Makes compressors and decompressors for tables.
///
/// ```
/// use esker_base::Result;
/// use esker_format::compression::manager::{
///     CompressionManager, CustomCompressor, CustomDecompressor,
/// };
/// use esker_format::compression::{CodecOptions, CompressionType};
/// use esker_format::filter::FilterBuildingContext;
/// use std::sync::Arc;
///
/// /// Inverts the bytes of each block: no compression, but a codec.
/// struct Inverting;
///
/// impl CompressionManager for Inverting {
///     fn name(&self) -> &str {
///         "Inverting"
///     }
///     fn compatibility_name(&self) -> &str {
///         "Inverting"
///     }
///     fn compressor_for_sst(
///         &self,
///         _: &FilterBuildingContext<'_>,
///         _: &CodecOptions,
///         preferred: CompressionType,
///     ) -> Result<Option<Box<dyn CustomCompressor>>> {
///         let is_wanted = preferred != CompressionType::None;
///         Ok(is_wanted.then(|| Box::new(Inverting) as Box<dyn CustomCompressor>))
///     }
///     fn decompressor(&self) -> Arc<dyn CustomDecompressor> {
///         Arc::new(Inverting)
///     }
/// }
///
/// impl CustomCompressor for Inverting {
///     fn compress_block(&mut self, contents: &[u8], out: &mut Vec<u8>) -> Result<Option<u8>> {
///         out.extend(contents.iter().map(|byte| !byte));
///         Ok(Some(0x80))
///     }
/// }
///
/// impl CustomDecompressor for Inverting {
///     fn extract_uncompressed_size<'a>(&self, _: u8, stored: &'a [u8]) -> Result<(u32, &'a [u8])> {
///         Ok((stored.len() as u32, stored))
///     }
///     fn decompress_block(&self, _: u8, data: &[u8], out: &mut [u8]) -> Result<()> {
///         out.iter_mut().zip(data).for_each(|(out, byte)| *out = !byte);
///         Ok(())
///     }
/// }
///
/// let mut stored = Vec::new();
/// Inverting.compress_block(b"abc", &mut stored)?;
/// assert_eq!(Inverting.decompressor().contents_of(0x80, &stored)?[..], *b"abc");
/// # Ok::<_, esker_base::Error>(())
/// ```
pub trait CompressionManager: Send + Sync {
    /// The manager's name, for the property `rocksdb.compression_options` and OPTIONS files.
    fn name(&self) -> &str;
    /// The name of the codes' meaning, in letters, digits and underscores. Tables record it.
    /// Managers of one name read each other's tables. [`BUILT_IN_COMPRESSION`] stands for the
    /// built-in codecs in their own form, and tables with it need no manager.
    fn compatibility_name(&self) -> &str;
    /// A manager that reads tables of another compatibility name than this one's. Default: none.
    fn find_compatible(&self, compatibility_name: &str) -> Option<CompressionManagerRef> {
        let _ = compatibility_name;
        None
    }
    /// A compressor for the blocks of one table. `preferred` is the codec that the family's options
    /// choose for it. `None`: the table's blocks are stored as they are.
    /// # Errors
    /// Any error fails the table.
    fn compressor_for_sst(
        &self,
        context: &FilterBuildingContext<'_>,
        options: &CodecOptions,
        preferred: CompressionType,
    ) -> Result<Option<Box<dyn CustomCompressor>>>;
    /// A decompressor of all codes of this compatibility name.
    fn decompressor(&self) -> Arc<dyn CustomDecompressor>;
}

/// A shared manager.
pub type CompressionManagerRef = Arc<dyn CompressionManager>;

impl fmt::Debug for dyn CompressionManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CompressionManager({})", self.name())
    }
}

/// Compresses the blocks of one table.
pub trait CustomCompressor: Send {
    /// A text for the property `rocksdb.compression_options`. Default: empty.
    fn id(&self) -> String {
        String::new()
    }
    /// Appends the stored form of a block to `out`, which is empty, and returns its code:
    /// [`FIRST_CUSTOM_COMPRESSION`] to [`LAST_CUSTOM_COMPRESSION`], or that of a built-in codec.
    /// The code may differ from block to block. `None`: the block is stored as it is. So is a block
    /// that saves less than `max_compressed_bytes_per_kb` asks for.
    /// # Errors
    /// Any error fails the table.
    fn compress_block(&mut self, contents: &[u8], out: &mut Vec<u8>) -> Result<Option<u8>>;
}

impl fmt::Debug for dyn CustomCompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CustomCompressor({})", self.id())
    }
}

/// Decompresses blocks. Reads call it from many threads at once.
pub trait CustomDecompressor: Send + Sync {
    /// The size of a block's contents, and the bytes for `decompress_block`. Default: a varint32
    /// before those bytes.
    /// # Errors
    /// `Corruption` if the bytes cannot be those of a block.
    fn extract_uncompressed_size<'a>(&self, code: u8, stored: &'a [u8]) -> Result<(u32, &'a [u8])> {
        let _ = code;
        let mut input = Decoder::new(stored);
        let size = input.varint32()?;
        Ok((size, input.rest()))
    }
    /// Fills `out` with a block's contents.
    /// # Errors
    /// `Corruption` if the bytes are not those of a block of that size.
    fn decompress_block(&self, code: u8, data: &[u8], out: &mut [u8]) -> Result<()>;
}

impl fmt::Debug for dyn CustomDecompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CustomDecompressor")
    }
}

impl dyn CustomDecompressor {
    /// The contents of a block.
    /// # Errors
    /// Those of the two steps; `Corruption` if there is no memory for the size.
    pub fn contents_of(&self, code: u8, stored: &[u8]) -> Result<Buffer> {
        let (size, data) = self.extract_uncompressed_size(code, stored)?;
        let mut out = Buffer::of(size as usize)?;
        self.decompress_block(code, data, &mut out)?;
        Ok(out)
    }
}

/// Checks the name that tables store.
/// # Errors
/// `InvalidArgument`: it is empty, or has other bytes than letters, digits and `_`.
pub fn check_compatibility_name(manager: &dyn CompressionManager) -> Result<()> {
    let name = manager.compatibility_name();
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        let what =
            format!("compatibility_name '{name}' of a compression manager: only letters, digits and _");
        return Err(Error::invalid_argument(what));
    }
    Ok(())
}

/// The manager and the codes in the property `rocksdb.compression` of format version 7:
/// `Manager;HexCodes;`, perhaps with more fields.
/// # Errors
/// `Corruption` if the property has another form.
pub fn parse_compression_name(property: &str) -> Result<(&str, Vec<u8>)> {
    let wrong = || Error::corruption(format!("rocksdb.compression is '{property}'"));
    let mut parts = property.split(';');
    let (Some(name), Some(codes), Some(_)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(wrong());
    };
    let digits = codes.as_bytes().chunks(2);
    let code =
        |pair: &[u8]| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let codes = digits.map(|pair| code(pair).filter(|code| pair.len() == 2 && *code != 0 && *code != 0xFF));
    Ok((name, codes.collect::<Option<_>>().ok_or_else(wrong)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_property_has_a_name_and_pairs_of_digits() {
        assert_eq!(parse_compression_name("Mine;80FE;").unwrap(), ("Mine", vec![0x80, 0xFE]));
        assert_eq!(parse_compression_name(";;").unwrap(), ("", vec![]));
        assert_eq!(parse_compression_name("M;07;more").unwrap(), ("M", vec![7]));
        for wrong in ["Mine", "Mine;80", "Mine;8;", "Mine;00;", "Mine;FF;", "Mine;XY;", "Mine;808;"] {
            assert!(parse_compression_name(wrong).unwrap_err().is_corruption(), "{wrong}");
        }
    }
}
