//! Managers over the built-in codecs: one that stops to compress blocks that do not become smaller,
//! and one that spends the most effort.
//!
//! In: the blocks of a table. Out: their stored forms, in the built-in codecs' own form, so that
//! any reader reads the tables. Source: RocksDB `util/auto_tune_compressor.cc`.

use super::manager::{
    BUILT_IN_COMPRESSION, CompressionManager, CompressionManagerRef, CustomCompressor, CustomDecompressor,
};
use super::{CodecOptions, CompressionType, Compressor, Decompressor};
use crate::filter::FilterBuildingContext;
use esker_base::coding::Decoder;
use esker_base::{Error, Result};
use std::sync::Arc;

/// Blocks that are compressed between two estimates.
const WINDOW_BLOCKS: u32 = 10;
/// The share of blocks without a gain, in percent, above which blocks are stored as they are.
const SKIP_ABOVE_PERCENT: u32 = 50;
/// One block of these many is compressed in any case, to see whether blocks have changed.
const EXPLORE_EVERY: u32 = 10;

/// The format version whose blocks the built-in codecs write; later ones have the same.
const FORMAT_VERSION: u32 = 2;

/// A manager that compresses as `wrapped` does, or with the built-in codecs, and skips blocks while
/// most blocks save less than `max_compressed_bytes_per_kb` asks for. RocksDB's
/// `CreateAutoSkipCompressionManager`.
///
/// Each table begins with an estimate of 0. After each 10 compressed blocks the share of blocks
/// that gained nothing is the new estimate; above one half, only each tenth block is compressed.
/// RocksDB draws these blocks at random.
///
/// ```
/// use esker_format::compression::auto_skip::auto_skip_compression_manager;
/// use esker_format::compression::manager::BUILT_IN_COMPRESSION;
///
/// let manager = auto_skip_compression_manager(None);
/// assert_eq!(manager.compatibility_name(), BUILT_IN_COMPRESSION);
/// ```
pub fn auto_skip_compression_manager(wrapped: Option<CompressionManagerRef>) -> CompressionManagerRef {
    Arc::new(AutoSkip { wrapped: wrapped.unwrap_or_else(|| Arc::new(BuiltIn)) })
}

/// A manager that compresses every block with zstd at its highest level, 22, whatever codec and
/// level the options choose. RocksDB's `CreateCostAwareCompressionManager`, which measures the
/// costs of other codecs and levels in no release so far.
pub fn cost_aware_compression_manager() -> CompressionManagerRef {
    Arc::new(CostAware)
}

/// The built-in codecs as a manager.
struct BuiltIn;

struct AutoSkip {
    wrapped: CompressionManagerRef,
}

struct CostAware;

impl CompressionManager for BuiltIn {
    fn name(&self) -> &str {
        BUILT_IN_COMPRESSION
    }

    fn compatibility_name(&self) -> &str {
        BUILT_IN_COMPRESSION
    }

    fn compressor_for_sst(
        &self,
        _: &FilterBuildingContext<'_>,
        options: &CodecOptions,
        preferred: CompressionType,
    ) -> Result<Option<Box<dyn CustomCompressor>>> {
        if preferred == CompressionType::None {
            return Ok(None);
        }
        Ok(Some(Box::new(Compressor::new(preferred, options)?)))
    }

    fn decompressor(&self) -> Arc<dyn CustomDecompressor> {
        Arc::new(Decompressor::new(FORMAT_VERSION))
    }
}

impl CustomCompressor for Compressor {
    fn compress_block(&mut self, contents: &[u8], out: &mut Vec<u8>) -> Result<Option<u8>> {
        Ok(self.compress(contents, out)?.then_some(self.kind() as u8))
    }
}

impl CustomDecompressor for Decompressor {
    /// The size is left before the data: Snappy's own form has it, too.
    fn extract_uncompressed_size<'a>(&self, _: u8, stored: &'a [u8]) -> Result<(u32, &'a [u8])> {
        Ok((Decoder::new(stored).varint32()?, stored))
    }

    fn decompress_block(&self, code: u8, data: &[u8], out: &mut [u8]) -> Result<()> {
        let contents = self.decompress(CompressionType::from_u8(code)?, data)?;
        if contents.len() != out.len() {
            return Err(Error::corruption("a block has another size than it says"));
        }
        out.copy_from_slice(&contents);
        Ok(())
    }
}

impl CompressionManager for AutoSkip {
    /// RocksDB's manager has the name of the one that it wraps.
    fn name(&self) -> &str {
        self.wrapped.name()
    }

    fn compatibility_name(&self) -> &str {
        self.wrapped.compatibility_name()
    }

    fn find_compatible(&self, compatibility_name: &str) -> Option<CompressionManagerRef> {
        self.wrapped.find_compatible(compatibility_name)
    }

    fn compressor_for_sst(
        &self,
        context: &FilterBuildingContext<'_>,
        options: &CodecOptions,
        preferred: CompressionType,
    ) -> Result<Option<Box<dyn CustomCompressor>>> {
        let Some(wrapped) = self.wrapped.compressor_for_sst(context, options, preferred)? else {
            return Ok(None);
        };
        let most_per_kb = u64::from(options.max_compressed_bytes_per_kb.clamp(0, 1023).unsigned_abs());
        let (estimate, window) = (0, Window::default());
        Ok(Some(Box::new(SkippingCompressor { wrapped, most_per_kb, blocks: 0, window, estimate })))
    }

    fn decompressor(&self) -> Arc<dyn CustomDecompressor> {
        self.wrapped.decompressor()
    }
}

impl CompressionManager for CostAware {
    fn name(&self) -> &str {
        BUILT_IN_COMPRESSION
    }

    fn compatibility_name(&self) -> &str {
        BUILT_IN_COMPRESSION
    }

    fn compressor_for_sst(
        &self,
        context: &FilterBuildingContext<'_>,
        options: &CodecOptions,
        _: CompressionType,
    ) -> Result<Option<Box<dyn CustomCompressor>>> {
        let options = CodecOptions { level: 22, ..*options };
        BuiltIn.compressor_for_sst(context, &options, CompressionType::Zstd)
    }

    fn decompressor(&self) -> Arc<dyn CustomDecompressor> {
        BuiltIn.decompressor()
    }
}

/// A compressor that leaves blocks out.
struct SkippingCompressor {
    wrapped: Box<dyn CustomCompressor>,
    /// Most bytes of each 1024 that a compressed block may keep.
    most_per_kb: u64,
    /// Blocks seen, wrapping.
    blocks: u32,
    window: Window,
    /// The share of blocks in the last window that gained nothing, in percent.
    estimate: u32,
}

/// Blocks compressed since the last estimate.
#[derive(Default)]
struct Window {
    tried: u32,
    in_vain: u32,
}

impl CustomCompressor for SkippingCompressor {
    fn id(&self) -> String {
        self.wrapped.id()
    }

    fn compress_block(&mut self, contents: &[u8], out: &mut Vec<u8>) -> Result<Option<u8>> {
        self.blocks = self.blocks.wrapping_add(1);
        if self.estimate > SKIP_ABOVE_PERCENT && !self.blocks.is_multiple_of(EXPLORE_EVERY) {
            return Ok(None);
        }
        let code = self.wrapped.compress_block(contents, out)?;
        let has_gained = (out.len() as u64) <= (contents.len() as u64 * self.most_per_kb) >> 10;
        let code = code.filter(|_| has_gained);
        self.note(code.is_some());
        Ok(code)
    }
}

impl SkippingCompressor {
    fn note(&mut self, has_gained: bool) {
        self.window.tried += 1;
        self.window.in_vain += u32::from(!has_gained);
        if self.window.tried >= WINDOW_BLOCKS {
            self.estimate = self.window.in_vain * 100 / self.window.tried;
            self.window = Window::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::sync::atomic::{AtomicU32, Ordering};

    /// Counts its blocks. Those of zeros become one byte, others stay as large as they are.
    struct Counting(Arc<AtomicU32>);

    impl CustomCompressor for Counting {
        fn compress_block(&mut self, contents: &[u8], out: &mut Vec<u8>) -> Result<Option<u8>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            let is_zero = contents.iter().all(|byte| *byte == 0);
            out.extend_from_slice(if is_zero { &[0] } else { contents });
            Ok(Some(0x80))
        }
    }

    fn skipping(count: &Arc<AtomicU32>) -> SkippingCompressor {
        SkippingCompressor {
            wrapped: Box::new(Counting(Arc::clone(count))),
            most_per_kb: 896,
            blocks: 0,
            window: Window::default(),
            estimate: 0,
        }
    }

    #[test]
    fn blocks_are_stored_as_they_are_while_most_gain_nothing() {
        let count = Arc::new(AtomicU32::new(0));
        let mut compressor = skipping(&count);
        let mut compress = |byte: u8, blocks: u32| {
            let before = count.load(Ordering::Relaxed);
            let mut compressed = 0;
            for _ in 0..blocks {
                let mut out = Vec::new();
                compressed += u32::from(compressor.compress_block(&[byte; 100], &mut out).unwrap().is_some());
            }
            (count.load(Ordering::Relaxed) - before, compressed)
        };
        // Each block is tried until the first window is full, then one of ten.
        assert_eq!(compress(1, 10), (10, 0));
        assert_eq!(compress(1, 100), (10, 0));
        // A window of blocks that gain something ends this.
        assert_eq!(compress(0, 100), (10, 10));
        assert_eq!(compress(0, 100), (100, 100));
        // Half of the blocks may gain nothing.
        for _ in 0..20 {
            assert_eq!([compress(1, 1), compress(0, 1)], [(1, 0), (1, 1)]);
        }
    }

    #[test]
    fn stored_blocks_have_the_form_of_the_built_in_codecs() {
        let contents = b"a block that has many, many, many, many, many repetitions".repeat(20);
        for kind in [CompressionType::Snappy, CompressionType::Lz4, CompressionType::Lz4hc] {
            let (mut out, mut built_in) = (Vec::new(), Vec::new());
            let mut compressor = Compressor::new(kind, &CodecOptions::default()).unwrap();
            let code = compressor.compress_block(&contents, &mut out).unwrap().expect("it becomes smaller");
            compressor.compress(&contents, &mut built_in).unwrap();
            assert_eq!((code, &out), (kind as u8, &built_in));
            assert_eq!(BuiltIn.decompressor().contents_of(code, &out).unwrap()[..], contents[..]);
            let cut = BuiltIn.decompressor().contents_of(code, &out[..out.len() - 1]);
            assert!(cut.unwrap_err().is_corruption());
        }
    }
}
