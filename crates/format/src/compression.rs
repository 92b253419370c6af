//! Compressed blocks: codecs, and the framing of their output.
//!
//! In: block contents. Out: the stored form and its code, and back. Source: RocksDB
//! `util/compression.h`, `table/format.cc`.
//!
//! ```text
//! format version >= 2:  [decompressed size varint32, not for Snappy] | codec output
//! format version 0, 1:  [decompressed size fixed64, LZ4 only]        | codec output
//! ```
//!
//! Invariants
//!  1. The code is in each block's trailer: any block may be stored uncompressed.
//!  2. No buffer is allocated for a decompressed size that the stored bytes cannot possibly expand
//!     to.
//!  3. Contexts (zstd's are large) live in the [`Compressor`] or in a pool of the process, never
//!     per block.
//!  4. The features `bzip2`, `zlib` and `zstd` bring a codec each; Snappy and LZ4 are always there.
//!     A build without a codec answers `NotSupported` and names the feature; it never takes a block
//!     for damaged.
//!
//! Page: `docs/format/sst.md`.

pub mod auto_skip;
#[cfg(feature = "bzip2")]
mod bzip2;
mod lz4;
pub mod manager;
mod snappy;
#[cfg(feature = "zlib")]
mod zlib;
#[cfg(feature = "zstd")]
mod zstd;

use esker_base::coding::{Decoder, put_varint32};
use esker_base::{Buffer, Error, Result};
use std::ops::DerefMut;

/// Compression of a block. The codes are on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u8)]
pub enum CompressionType {
    /// No compression.
    #[default]
    None = 0x00,
    /// Snappy.
    Snappy = 0x01,
    /// Raw deflate.
    Zlib = 0x02,
    /// bzip2.
    Bzip2 = 0x03,
    /// Raw LZ4 block.
    Lz4 = 0x04,
    /// Raw LZ4 block; the code that RocksDB's slower LZ4 encoder uses.
    Lz4hc = 0x05,
    /// Windows' own; neither read nor written.
    Xpress = 0x06,
    /// One zstd frame.
    Zstd = 0x07,
    /// As `Zstd`; from before its format was final.
    ZstdNotFinal = 0x40,
    /// No codec: the value of an option that means "the same as in other levels". Never stored.
    DisableOption = 0xFF,
}

impl CompressionType {
    /// The type with this code.
    /// # Errors
    /// `NotSupported` if it is none of RocksDB's built-in ones (format version 7 allows custom
    /// codecs).
    #[inline]
    pub fn from_u8(code: u8) -> Result<CompressionType> {
        Ok(match code {
            0x00 => CompressionType::None,
            0x01 => CompressionType::Snappy,
            0x02 => CompressionType::Zlib,
            0x03 => CompressionType::Bzip2,
            0x04 => CompressionType::Lz4,
            0x05 => CompressionType::Lz4hc,
            0x06 => CompressionType::Xpress,
            0x07 => CompressionType::Zstd,
            0x40 => CompressionType::ZstdNotFinal,
            _ => return Err(unknown_code(code)),
        })
    }

    /// The name in the table property `rocksdb.compression` (up to format version 6).
    pub const fn property_name(self) -> &'static str {
        match self {
            CompressionType::None => "NoCompression",
            CompressionType::Snappy => "Snappy",
            CompressionType::Zlib => "Zlib",
            CompressionType::Bzip2 => "BZip2",
            CompressionType::Lz4 => "LZ4",
            CompressionType::Lz4hc => "LZ4HC",
            CompressionType::Xpress => "Xpress",
            CompressionType::Zstd => "ZSTD",
            CompressionType::ZstdNotFinal => "ZSTDNotFinal",
            CompressionType::DisableOption => "DisableOption",
        }
    }

    /// The name in option strings.
    pub const fn option_name(self) -> &'static str {
        match self {
            CompressionType::None => "kNoCompression",
            CompressionType::Snappy => "kSnappyCompression",
            CompressionType::Zlib => "kZlibCompression",
            CompressionType::Bzip2 => "kBZip2Compression",
            CompressionType::Lz4 => "kLZ4Compression",
            CompressionType::Lz4hc => "kLZ4HCCompression",
            CompressionType::Xpress => "kXpressCompression",
            CompressionType::Zstd => "kZSTD",
            CompressionType::ZstdNotFinal => "kZSTDNotFinalCompression",
            CompressionType::DisableOption => "kDisableCompressionOption",
        }
    }

    /// Every type that has a name.
    pub const ALL: [CompressionType; 10] = [
        CompressionType::None,
        CompressionType::Snappy,
        CompressionType::Zlib,
        CompressionType::Bzip2,
        CompressionType::Lz4,
        CompressionType::Lz4hc,
        CompressionType::Xpress,
        CompressionType::Zstd,
        CompressionType::ZstdNotFinal,
        CompressionType::DisableOption,
    ];

    /// The type with this name in option strings.
    pub fn from_option_name(name: &str) -> Option<CompressionType> {
        CompressionType::ALL.into_iter().find(|t| t.option_name() == name)
    }

    /// Whether it can use a dictionary.
    pub const fn has_dictionaries(self) -> bool {
        use CompressionType::{Lz4, Lz4hc, Zlib, Zstd, ZstdNotFinal};
        matches!(self, Zlib | Lz4 | Lz4hc | Zstd | ZstdNotFinal)
    }

    /// Whether this build has the codec: whether it can read and write blocks of this type.
    pub const fn is_built_in(self) -> bool {
        match self {
            CompressionType::None
            | CompressionType::Snappy
            | CompressionType::Lz4
            | CompressionType::Lz4hc => true,
            CompressionType::Zlib => cfg!(feature = "zlib"),
            CompressionType::Bzip2 => cfg!(feature = "bzip2"),
            CompressionType::Zstd | CompressionType::ZstdNotFinal => cfg!(feature = "zstd"),
            CompressionType::Xpress | CompressionType::DisableOption => false,
        }
    }

    /// The Cargo feature that brings the codec, if it needs one.
    pub const fn feature(self) -> Option<&'static str> {
        match self {
            CompressionType::Zlib => Some("zlib"),
            CompressionType::Bzip2 => Some("bzip2"),
            CompressionType::Zstd | CompressionType::ZstdNotFinal => Some("zstd"),
            _ => None,
        }
    }

    /// The error for a codec that this build does not have.
    #[cold]
    fn left_out(self) -> Error {
        let name = self.property_name();
        Error::not_supported(match self.feature() {
            Some(feature) => format!("compression {name}: Esker was built without its feature `{feature}`"),
            None => format!("compression {name}"),
        })
    }
}

#[cold]
fn unknown_code(code: u8) -> Error {
    Error::not_supported(format!("block compressed with the custom codec {code:#04x}"))
}

/// Effort of a codec. RocksDB's names and defaults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CodecOptions {
    /// log2 of zlib's window, negative for raw deflate. Only −14 is written: readers assume it.
    pub window_bits: i32,
    /// The codec's level; `DEFAULT_LEVEL` leaves it to the codec (zlib 6, zstd 3).
    pub level: i32,
    /// zlib's strategy; 0 is the default one.
    pub strategy: i32,
    /// Largest dictionary to store, in bytes; 0 for none.
    pub max_dict_bytes: u32,
    /// Sample bytes that zstd trains a dictionary from; 0: the samples themselves are the
    /// dictionary.
    pub zstd_max_train_bytes: u32,
    /// Bytes of a table that are kept in memory to sample from; 0: up to the size of a file.
    pub max_dict_buffer_bytes: u64,
    /// A block is stored compressed if at most this many of each 1024 bytes remain. Numbers above
    /// 1023 count as 1023; 0 and less store all blocks as they are.
    pub max_compressed_bytes_per_kb: i32,
    /// Whether zstd frames end with a checksum of their contents.
    pub checksum: bool,
}

impl CodecOptions {
    /// Leaves the level to the codec.
    pub const DEFAULT_LEVEL: i32 = 32767;
    /// The default of `max_compressed_bytes_per_kb`: compression saves at least an eighth.
    pub const MAX_COMPRESSED_BYTES_PER_KB: i32 = 896;
}

impl Default for CodecOptions {
    fn default() -> CodecOptions {
        CodecOptions {
            window_bits: -14,
            level: CodecOptions::DEFAULT_LEVEL,
            strategy: 0,
            max_dict_bytes: 0,
            zstd_max_train_bytes: 0,
            max_dict_buffer_bytes: 0,
            max_compressed_bytes_per_kb: CodecOptions::MAX_COMPRESSED_BYTES_PER_KB,
            checksum: false,
        }
    }
}

/// Compresses the blocks of one table, with one context for all of them.
pub struct Compressor {
    /// `None` stores blocks as they are.
    encoder: Option<Box<dyn Encode>>,
    kind: CompressionType,
    /// Most bytes of each 1024 that a compressed block may keep.
    most_per_kb: u64,
}

/// The compressing half of a codec. An encoder keeps its context from block to block.
trait Encode: Send {
    /// Appends the compressed form of `contents`. Returns false if that takes more than `room`
    /// bytes, or fails; the appended bytes are then of no use. Codecs that have no such limit
    /// ignore `room`.
    fn encode(&mut self, contents: &[u8], room: usize, out: &mut Vec<u8>) -> Result<bool>;
}

/// The encoder of a codec, for blocks that share `dictionary` (empty for none).
#[cfg_attr(
    not(any(feature = "zlib", feature = "zstd")),
    expect(unused_variables, reason = "only these codecs have options")
)]
fn encoder(
    kind: CompressionType,
    options: &CodecOptions,
    dictionary: &[u8],
) -> Result<Option<Box<dyn Encode>>> {
    Ok(Some(match kind {
        CompressionType::None => return Ok(None),
        CompressionType::Snappy => Box::new(snap::raw::Encoder::new()),
        #[cfg(feature = "zlib")]
        CompressionType::Zlib => Box::new(zlib::ZlibEncoder::new(options, dictionary)),
        #[cfg(feature = "bzip2")]
        CompressionType::Bzip2 => Box::new(bzip2::Encoder),
        CompressionType::Lz4 | CompressionType::Lz4hc => Box::new(lz4::Lz4Encoder::new(dictionary)),
        #[cfg(feature = "zstd")]
        CompressionType::Zstd | CompressionType::ZstdNotFinal => {
            Box::new(zstd::ZstdEncoder::new(options, dictionary)?)
        }
        _ => return Err(kind.left_out()),
    }))
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Compressor({:?})", self.kind)
    }
}

impl Compressor {
    /// A compressor for this codec and effort.
    /// # Errors
    /// `NotSupported` for a codec that this build does not have; `InvalidArgument` for a level that
    /// zstd does not have.
    pub fn new(kind: CompressionType, options: &CodecOptions) -> Result<Compressor> {
        Compressor::of(kind, options, &[])
    }

    /// A compressor with a dictionary.
    /// # Errors
    /// `NotSupported` if the codec is only read, or has no dictionaries (see
    /// `CompressionType::has_dictionaries`).
    pub fn with_dictionary(
        kind: CompressionType,
        options: &CodecOptions,
        dictionary: &[u8],
    ) -> Result<Compressor> {
        if !kind.has_dictionaries() {
            return Err(Error::not_supported(format!("a dictionary for {}", kind.property_name())));
        }
        Compressor::of(kind, options, dictionary)
    }

    fn of(kind: CompressionType, options: &CodecOptions, dictionary: &[u8]) -> Result<Compressor> {
        // At least one byte must be saved.
        let most_per_kb = u64::from(options.max_compressed_bytes_per_kb.clamp(0, 1023).unsigned_abs());
        Ok(Compressor { encoder: encoder(kind, options, dictionary)?, kind, most_per_kb })
    }

    /// The codec.
    pub fn kind(&self) -> CompressionType {
        self.kind
    }

    /// Appends the stored form (format version 2 and later) of `contents` to `out` and returns
    /// true. If more bytes would remain than `max_compressed_bytes_per_kb` allows, leaves `out` as
    /// it is and returns false.
    /// # Errors
    /// `Corruption` if a codec breaks its own contract; never because of the contents.
    pub fn compress(&mut self, contents: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let start = out.len();
        let largest_worth_storing = ((contents.len() as u64 * self.most_per_kb) >> 10) as usize;
        if largest_worth_storing == 0 {
            return Ok(false);
        }
        let fits = self.encode(contents, contents.len(), out)?;
        let worth_it = fits && out.len() - start <= largest_worth_storing;
        if !worth_it {
            out.truncate(start);
        }
        Ok(worth_it)
    }

    /// Compresses even if it saves nothing, for formats with one codec for many values. Returns
    /// false only for contents of 4 GiB or more, and without a codec.
    /// # Errors
    /// `Corruption` if a codec breaks its own contract; never because of the contents.
    pub fn compress_whatever_it_saves(&mut self, contents: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let start = out.len();
        // Deflate stores incompressible bytes, with 5 more for each 16 KiB.
        let fits = self.encode(contents, contents.len() + contents.len() / 1024 + 64, out)?;
        if !fits {
            out.truncate(start);
        }
        Ok(fits)
    }

    /// Appends size and encoded contents. Returns false without a codec, for 4 GiB and more, and as
    /// `Encode::encode` does; the appended bytes are then of no use.
    fn encode(&mut self, contents: &[u8], room: usize, out: &mut Vec<u8>) -> Result<bool> {
        let Ok(size) = u32::try_from(contents.len()) else { return Ok(false) };
        let Some(encoder) = &mut self.encoder else { return Ok(false) };
        // Snappy has a header of its own for the size.
        if self.kind != CompressionType::Snappy {
            put_varint32(out, size);
        }
        encoder.encode(contents, room, out)
    }
}

/// The dictionary for the blocks behind `samples` (cut by `sizes`). zstd trains it if
/// `zstd_max_train_bytes` is set and the codec is zstd; otherwise it is the samples themselves.
/// Empty if none can be made.
#[cfg_attr(not(feature = "zstd"), expect(unused_variables, reason = "only zstd trains dictionaries"))]
pub fn make_dictionary(
    kind: CompressionType,
    options: &CodecOptions,
    samples: Vec<u8>,
    sizes: &[usize],
) -> Vec<u8> {
    #[cfg(feature = "zstd")]
    if matches!(kind, CompressionType::Zstd | CompressionType::ZstdNotFinal)
        && options.zstd_max_train_bytes > 0
    {
        return zstd::train(&samples, sizes, options.max_dict_bytes as usize);
    }
    samples
}

/// Decompresses the blocks of one table; shared by its readers.
#[derive(Debug, Default)]
pub struct Decompressor {
    /// Since version 2 a size precedes the data.
    sized: bool,
    dictionary: Option<Dictionary>,
}

/// A table's dictionary; for zstd also in prepared form.
#[derive(Debug)]
struct Dictionary {
    bytes: Vec<u8>,
    #[cfg(feature = "zstd")]
    zstd: Option<zstd::Dictionary>,
}

impl Decompressor {
    /// Makes a decompressor for a table of this format version, without a dictionary.
    pub fn new(format_version: u32) -> Decompressor {
        Decompressor { sized: format_version >= 2, dictionary: None }
    }

    /// Adds the dictionary `bytes`, which serves data blocks only.
    #[must_use]
    pub fn with_dictionary(mut self, bytes: Vec<u8>) -> Decompressor {
        self.dictionary = Some(Dictionary {
            #[cfg(feature = "zstd")]
            zstd: zstd::Dictionary::new(&bytes),
            bytes,
        });
        self
    }

    /// Whether a decompressor of format version 2 without a dictionary gives the same contents.
    pub fn is_self_contained(&self) -> bool {
        self.sized && self.dictionary.is_none()
    }

    /// The contents of a block stored as `stored` under `kind`.
    /// # Errors
    /// `Corruption` if the codec cannot have written the bytes, or they do not expand to their
    /// stated size · `NotSupported` for a codec that this build does
    /// not have.
    pub fn decompress(&self, kind: CompressionType, stored: &[u8]) -> Result<Vec<u8>> {
        self.decompress_to(kind, stored)
    }

    /// [`decompress`](Self::decompress) into memory that is kept for blocks.
    /// # Errors
    /// `Corruption` if the codec cannot have written the bytes, or they do not expand to their
    /// stated size · `NotSupported` for Xpress.
    pub fn decompress_block(&self, kind: CompressionType, stored: &[u8]) -> Result<Buffer> {
        self.decompress_to(kind, stored)
    }

    fn decompress_to<B: Output>(&self, kind: CompressionType, stored: &[u8]) -> Result<B> {
        match kind {
            CompressionType::None => Ok(B::from(stored.to_vec())),
            CompressionType::Snappy => snappy::decompress(stored),
            #[cfg(feature = "zlib")]
            CompressionType::Zlib if !self.sized => {
                zlib::decompress_unsized(stored, self.raw_dictionary()).map(B::from)
            }
            #[cfg(feature = "bzip2")]
            CompressionType::Bzip2 if !self.sized => bzip2::decompress_unsized(stored).map(B::from),
            _ if !kind.is_built_in() => Err(kind.left_out()),
            _ => self.decompress_sized(kind, stored),
        }
    }

    /// Decompresses a block that begins with its size.
    fn decompress_sized<B: Output>(&self, kind: CompressionType, stored: &[u8]) -> Result<B> {
        let (size, data) = self.split_size(kind, stored)?;
        match kind {
            #[cfg(feature = "zlib")]
            CompressionType::Zlib => zlib::decompress(data, size, self.raw_dictionary()).map(B::from),
            #[cfg(feature = "bzip2")]
            CompressionType::Bzip2 => bzip2::decompress(data, size).map(B::from),
            CompressionType::Lz4 | CompressionType::Lz4hc => {
                lz4::decompress(data, size, self.raw_dictionary())
            }
            #[cfg(feature = "zstd")]
            CompressionType::Zstd | CompressionType::ZstdNotFinal => {
                zstd::decompress(data, size, self.dictionary.as_ref().and_then(|d| d.zstd.as_ref()))
            }
            _ => Err(kind.left_out()),
        }
    }

    fn raw_dictionary(&self) -> &[u8] {
        self.dictionary.as_ref().map_or(&[], |d| &d.bytes)
    }

    /// Takes the decompressed size off the front.
    fn split_size<'a>(&self, kind: CompressionType, stored: &'a [u8]) -> Result<(usize, &'a [u8])> {
        let mut input = Decoder::new(stored);
        let is_old_lz4 = !self.sized && matches!(kind, CompressionType::Lz4 | CompressionType::Lz4hc);
        let size = if is_old_lz4 { input.fixed64()? } else { u64::from(input.varint32()?) };
        let data = input.rest();
        let most = (data.len() as u64).saturating_mul(most_expansion(kind)).saturating_add(64);
        match usize::try_from(size) {
            Ok(size) if size as u64 <= most => Ok((size, data)),
            _ => Err(impossible_size(kind, size, data.len())),
        }
    }
}

/// Most bytes that one stored byte can become.
const fn most_expansion(kind: CompressionType) -> u64 {
    match kind {
        CompressionType::Snappy => 32,                        // a 3-byte copy gives 64
        CompressionType::Zlib => 1040,                        // 258 bytes from two bits
        CompressionType::Lz4 | CompressionType::Lz4hc => 256, // each length byte adds 255
        CompressionType::Bzip2 => 1 << 17,                    // 900 kB of one byte take a few dozen bytes
        _ => 1 << 16,                                         // zstd: an RLE block of 4 bytes gives 128 KiB
    }
}

/// The output of a codec, of known size.
trait Output: DerefMut<Target = [u8]> + From<Vec<u8>> {
    /// `size` bytes, whatever they are.
    fn of(size: usize) -> Result<Self>;
}

impl Output for Vec<u8> {
    fn of(size: usize) -> Result<Vec<u8>> {
        let mut out = buffer(size)?;
        out.resize(size, 0);
        Ok(out)
    }
}

impl Output for Buffer {
    fn of(size: usize) -> Result<Buffer> {
        if size <= Buffer::LARGE { Ok(Buffer::new(size)) } else { Vec::of(size).map(Buffer::from) }
    }
}

/// An empty vector with room for `size` bytes.
fn buffer(size: usize) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    match out.try_reserve_exact(size) {
        Ok(()) => Ok(out),
        Err(_) => Err(Error::corruption(format!("no memory for a block that claims {size} bytes"))),
    }
}

#[cold]
fn impossible_size(kind: CompressionType, size: u64, stored: usize) -> Error {
    Error::corruption(format!("{} block of {stored} bytes claims to hold {size}", kind.property_name()))
}

#[cold]
fn bad(kind: CompressionType, why: impl std::fmt::Display) -> Error {
    Error::corruption(format!("{} block does not decompress: {why}", kind.property_name()))
}

#[cfg(test)]
mod tests;
