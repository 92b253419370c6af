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
//!  1. The code stands in each block's trailer: any block may be stored uncompressed.
//!  2. No buffer is allocated for a decompressed size that the stored bytes cannot possibly expand
//!     to.
//!  3. Contexts (zstd's are large) live in the [`Compressor`] or in a pool of the process, never
//!     per block.
//!
//! Page: `docs/format/sst.md`.

mod bzip2;
mod lz4;
mod snappy;
mod zlib;
mod zstd;

use esker_base::coding::{Decoder, put_varint32};
use esker_base::{Buffer, Error, Result};
use std::ops::DerefMut;

/// How a block is stored. The codes are on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u8)]
pub enum CompressionType {
    /// As it is.
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
    /// Not a codec: an option that says "as the others". Never stored.
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

    /// Whether tables can be written with it.
    pub const fn can_write(self) -> bool {
        !matches!(self, CompressionType::Xpress | CompressionType::DisableOption)
    }
}

#[cold]
fn unknown_code(code: u8) -> Error {
    Error::not_supported(format!("block compressed with the custom codec {code:#04x}"))
}

/// How hard a codec tries. RocksDB's names and defaults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompressionOptions {
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
}

impl CompressionOptions {
    /// "Whatever the codec thinks best".
    pub const DEFAULT_LEVEL: i32 = 32767;
}

impl Default for CompressionOptions {
    fn default() -> CompressionOptions {
        CompressionOptions {
            window_bits: -14,
            level: CompressionOptions::DEFAULT_LEVEL,
            strategy: 0,
            max_dict_bytes: 0,
            zstd_max_train_bytes: 0,
            max_dict_buffer_bytes: 0,
        }
    }
}

/// Compresses the blocks of one table, with one context for all of them.
pub struct Compressor {
    codec: Codec,
    kind: CompressionType,
}

enum Codec {
    None,
    Snappy(Box<snap::raw::Encoder>),
    Zlib(Box<zlib::Encoder>),
    Bzip2,
    Lz4(Box<lz4::Encoder>),
    Zstd(Box<zstd::Encoder>),
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Compressor({:?})", self.kind)
    }
}

impl Compressor {
    /// A compressor for this codec and effort.
    /// # Errors
    /// `NotSupported` for codecs that are only read.
    pub fn new(kind: CompressionType, options: &CompressionOptions) -> Result<Compressor> {
        let codec = match kind {
            CompressionType::None => Codec::None,
            CompressionType::Snappy => Codec::Snappy(Box::new(snap::raw::Encoder::new())),
            CompressionType::Zlib => Codec::Zlib(Box::new(zlib::Encoder::new(options))),
            CompressionType::Lz4 | CompressionType::Lz4hc => Codec::Lz4(Box::new(lz4::Encoder::new())),
            CompressionType::Zstd | CompressionType::ZstdNotFinal => {
                Codec::Zstd(Box::new(zstd::Encoder::new(options)?))
            }
            CompressionType::Bzip2 => Codec::Bzip2,
            CompressionType::Xpress | CompressionType::DisableOption => {
                return Err(Error::not_supported(format!("writing {} blocks", kind.property_name())));
            }
        };
        Ok(Compressor { codec, kind })
    }

    /// A compressor with a dictionary.
    /// # Errors
    /// `NotSupported` if the codec is only read, or has no dictionaries (see
    /// `CompressionType::has_dictionaries`).
    pub fn with_dictionary(
        kind: CompressionType,
        options: &CompressionOptions,
        dictionary: &[u8],
    ) -> Result<Compressor> {
        let codec = match kind {
            CompressionType::Zlib => {
                Codec::Zlib(Box::new(zlib::Encoder::new(options).with_dictionary(dictionary)))
            }
            CompressionType::Lz4 | CompressionType::Lz4hc => {
                Codec::Lz4(Box::new(lz4::Encoder::new().with_dictionary(dictionary)))
            }
            CompressionType::Zstd | CompressionType::ZstdNotFinal => {
                Codec::Zstd(Box::new(zstd::Encoder::new(options)?.with_dictionary(dictionary)?))
            }
            _ => return Err(Error::not_supported(format!("a dictionary for {}", kind.property_name()))),
        };
        Ok(Compressor { codec, kind })
    }

    /// The codec.
    pub fn kind(&self) -> CompressionType {
        self.kind
    }

    /// Appends the stored form (format version 2 and later) of `contents` to `out` and returns
    /// true. If that would save less than 1/8, leaves `out` as it is and returns false.
    /// # Errors
    /// `Corruption` if a codec breaks its own contract; never because of the contents.
    pub fn compress(&mut self, contents: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let start = out.len();
        let largest_worth_storing = contents.len() - contents.len() / 8;
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

    /// Appends size and encoded contents. False without a codec, or if `room` bytes (for codecs
    /// with a fixed output buffer) are not enough; the appended bytes are then garbage.
    fn encode(&mut self, contents: &[u8], room: usize, out: &mut Vec<u8>) -> Result<bool> {
        let Ok(size) = u32::try_from(contents.len()) else { return Ok(false) };
        if !matches!(self.codec, Codec::None | Codec::Snappy(_)) {
            put_varint32(out, size);
        }
        match &mut self.codec {
            Codec::None => Ok(false),
            Codec::Snappy(encoder) => snappy::compress(encoder, contents, out),
            Codec::Zlib(encoder) => encoder.compress(contents, room, out),
            Codec::Bzip2 => Ok(bzip2::compress(contents, room, out)),
            Codec::Lz4(encoder) => encoder.compress(contents, out),
            Codec::Zstd(encoder) => encoder.compress(contents, out),
        }
    }
}

/// The dictionary for the blocks behind `samples` (cut by `sizes`). zstd trains it if
/// `zstd_max_train_bytes` is set and the codec is zstd; otherwise it is the samples themselves.
/// Empty if none can be made.
pub fn make_dictionary(
    kind: CompressionType,
    options: &CompressionOptions,
    samples: Vec<u8>,
    sizes: &[usize],
) -> Vec<u8> {
    let is_zstd = matches!(kind, CompressionType::Zstd | CompressionType::ZstdNotFinal);
    if is_zstd && options.zstd_max_train_bytes > 0 {
        zstd::train(&samples, sizes, options.max_dict_bytes as usize)
    } else {
        samples
    }
}

/// Decompresses the blocks of one table; shared by its readers.
#[derive(Debug, Default)]
pub struct Decompressor {
    /// Since version 2 a size stands before the data.
    sized: bool,
    dictionary: Option<Dictionary>,
}

/// A table's dictionary; for zstd also in prepared form.
#[derive(Debug)]
struct Dictionary {
    bytes: Vec<u8>,
    zstd: Option<zstd::Dictionary>,
}

impl Decompressor {
    /// For a table of this format version, without dictionary.
    pub fn new(format_version: u32) -> Decompressor {
        Decompressor { sized: format_version >= 2, dictionary: None }
    }

    /// For a table with the dictionary `bytes`, which serves its data blocks only.
    #[must_use]
    pub fn with_dictionary(mut self, bytes: Vec<u8>) -> Decompressor {
        self.dictionary = Some(Dictionary { zstd: zstd::Dictionary::new(&bytes), bytes });
        self
    }

    /// The contents of a block stored as `stored` under `kind`.
    /// # Errors
    /// `Corruption` if the codec cannot have written the bytes, or they do not expand to their
    /// stated size · `NotSupported` for Xpress.
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
        let dictionary = self.dictionary.as_ref();
        let raw = dictionary.map_or(&[][..], |d| &d.bytes);
        match kind {
            CompressionType::None => Ok(B::from(stored.to_vec())),
            CompressionType::Snappy => snappy::decompress(stored),
            CompressionType::Zlib | CompressionType::Bzip2 if !self.sized => match kind {
                CompressionType::Zlib => zlib::decompress_unsized(stored, raw).map(B::from),
                _ => bzip2::decompress_unsized(stored).map(B::from),
            },
            _ => {
                let (size, data) = self.split_size(kind, stored)?;
                match kind {
                    CompressionType::Zlib => zlib::decompress(data, size, raw).map(B::from),
                    CompressionType::Bzip2 => bzip2::decompress(data, size).map(B::from),
                    CompressionType::Lz4 | CompressionType::Lz4hc => lz4::decompress(data, size, raw),
                    CompressionType::Zstd | CompressionType::ZstdNotFinal => {
                        zstd::decompress(data, size, dictionary.and_then(|d| d.zstd.as_ref()))
                    }
                    _ => Err(Error::not_supported("block compressed with Xpress (Windows only)")),
                }
            }
        }
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

/// How many bytes one stored byte can become at the very most.
const fn most_expansion(kind: CompressionType) -> u64 {
    match kind {
        CompressionType::Snappy => 32,                        // a 3-byte copy gives 64
        CompressionType::Zlib => 1040,                        // 258 bytes from two bits
        CompressionType::Lz4 | CompressionType::Lz4hc => 256, // each length byte adds 255
        CompressionType::Bzip2 => 1 << 17,                    // 900 kB of one byte take a few dozen bytes
        _ => 1 << 16,                                         // zstd: an RLE block of 4 bytes gives 128 KiB
    }
}

/// The output of a codec that knows the size beforehand.
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
