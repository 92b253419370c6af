//! The file of a table during its writing: appends blocks and their trailers.

use super::custom_codec::CustomCodec;
use crate::counts::{self, Compressed};
use crate::options::BlockBasedTableOptions;
use esker_base::stats::{Histogram, Statistics};
use esker_base::{Error, Result};
use esker_env::{Clock, StopWatch, WritableFile};
use esker_format::compression::{CompressionType, Compressor, Decompressor};
use esker_format::handle::BlockHandle;
use esker_format::trailer::BlockGuard;
use std::sync::Arc;

/// The code of blocks that are stored as they are.
const PLAIN: u8 = CompressionType::None as u8;

/// Appends blocks to a file.
pub(super) struct BlockSink {
    pub(super) file: Box<dyn WritableFile>,
    guard: BlockGuard,
    /// Bytes written.
    pub(super) offset: u64,
    /// No data block crosses a multiple of this number of bytes, if less than `most_padding` bytes
    /// prevent it. 0: blocks may cross.
    super_block: u64,
    most_padding: u64,
    /// The multiple that `block_align` aligns blocks to; 0: no alignment.
    alignment: u64,
    /// Verifies compressed blocks, if the options request it.
    verifier: Option<Decompressor>,
    /// Compresses blocks in place of the built-in codecs.
    pub(super) custom: Option<CustomCodec>,
    scratch: Vec<u8>,
    /// Whether any block is stored compressed.
    pub(super) any_compressed: bool,
    /// Bytes of data blocks before compression.
    pub(super) uncompressed_data: u64,
    /// Data blocks that the codec did not make small enough.
    pub(super) rejected: u64,
    statistics: Option<Arc<Statistics>>,
    clock: Arc<dyn Clock>,
}

impl BlockSink {
    pub(super) fn new(
        file: Box<dyn WritableFile>,
        guard: BlockGuard,
        table: &BlockBasedTableOptions,
        (statistics, clock): (Option<Arc<Statistics>>, Arc<dyn Clock>),
    ) -> BlockSink {
        let super_block = table.super_block_alignment_size;
        BlockSink {
            file,
            guard,
            offset: 0,
            super_block,
            most_padding: super_block
                .checked_div(table.super_block_alignment_space_overhead_ratio)
                .unwrap_or(0),
            alignment: if table.block_align { table.block_size as u64 } else { 0 },
            verifier: table.verify_compression.then(|| Decompressor::new(table.format_version)),
            custom: None,
            scratch: Vec::new(),
            any_compressed: false,
            uncompressed_data: 0,
            rejected: 0,
            statistics,
            clock,
        }
    }

    /// Computes the blocks' checksums.
    pub(super) fn guard(&self) -> BlockGuard {
        self.guard
    }

    /// Sets the dictionary with which compressed data blocks are verified.
    pub(super) fn verify_with_dictionary(&mut self, dictionary: &[u8]) {
        if let Some(verifier) = self.verifier.take() {
            self.verifier = Some(verifier.with_dictionary(dictionary.to_vec()));
        }
    }

    /// Writes a data block, compressed if that is worth it. The flag says whether padding precedes
    /// the block.
    pub(super) fn write_data(
        &mut self,
        compressor: &mut Compressor,
        contents: &mut Vec<u8>,
    ) -> Result<(BlockHandle, bool)> {
        self.uncompressed_data += contents.len() as u64;
        let code = self.compress(compressor, contents)?;
        if code == PLAIN && (compressor.kind() != CompressionType::None || self.custom.is_some()) {
            self.rejected += 1;
        }
        let stored = if code == PLAIN { contents.len() } else { self.scratch.len() };
        let padding = self.padding_before(stored as u64);
        if padding > 0 {
            self.pad(padding)?;
        }
        let handle = self.write_either(code, contents)?;
        if self.alignment > 0 {
            self.pad((self.alignment - self.offset % self.alignment) % self.alignment)?;
        }
        Ok((handle, padding > 0))
    }

    /// Writes another block, compressed if that is worth it.
    pub(super) fn write_compressed(
        &mut self,
        compressor: &mut Compressor,
        contents: &mut Vec<u8>,
    ) -> Result<BlockHandle> {
        let code = self.compress(compressor, contents)?;
        self.write_either(code, contents)
    }

    /// Writes a block as it is.
    pub(super) fn write_plain(&mut self, mut contents: Vec<u8>) -> Result<BlockHandle> {
        self.write_block(&mut contents, PLAIN)
    }

    /// Compresses `contents` into `scratch`. Returns the codec's code, or [`PLAIN`] if `contents`
    /// are to be stored as they are.
    fn compress(&mut self, compressor: &mut Compressor, contents: &[u8]) -> Result<u8> {
        self.scratch.clear();
        if self.custom.is_some() {
            return self.compress_by_user_code(contents);
        }
        let kind = compressor.kind();
        let statistics = self.statistics.as_ref().filter(|_| kind != CompressionType::None);
        let begun = counts::begin_detailed(statistics, &*self.clock);
        let is_compressed = compressor.compress(contents, &mut self.scratch)?;
        counts::end_detailed(begun, Histogram::CompressionTimesNanos);
        let outcome = match kind {
            _ if is_compressed => Compressed::To(self.scratch.len()),
            CompressionType::None => Compressed::NotAsked,
            _ => Compressed::Rejected,
        };
        counts::compressed(self.statistics.as_ref(), contents.len(), outcome);
        if !is_compressed {
            return Ok(PLAIN);
        }
        if let Some(verifier) = &self.verifier
            && verifier.decompress(kind, &self.scratch)? != contents
        {
            return Err(Error::corruption(format!(
                "{} block does not decompress to what was compressed",
                kind.property_name()
            )));
        }
        self.any_compressed = true;
        Ok(kind as u8)
    }

    fn compress_by_user_code(&mut self, contents: &[u8]) -> Result<u8> {
        let Some(custom) = &mut self.custom else { return Ok(PLAIN) };
        let begun = counts::begin_detailed(self.statistics.as_ref(), &*self.clock);
        let code = custom.compress(contents, &mut self.scratch)?;
        counts::end_detailed(begun, Histogram::CompressionTimesNanos);
        let outcome = if code == PLAIN { Compressed::Rejected } else { Compressed::To(self.scratch.len()) };
        counts::compressed(self.statistics.as_ref(), contents.len(), outcome);
        Ok(code)
    }

    fn write_either(&mut self, code: u8, contents: &mut Vec<u8>) -> Result<BlockHandle> {
        if code == PLAIN {
            return self.write_block(contents, code);
        }
        let mut stored = std::mem::take(&mut self.scratch);
        let handle = self.write_block(&mut stored, code);
        self.scratch = stored;
        handle
    }

    /// Appends the trailer to `stored` and writes both.
    fn write_block(&mut self, stored: &mut Vec<u8>, code: u8) -> Result<BlockHandle> {
        let _watch =
            StopWatch::start(self.statistics.as_deref(), &*self.clock, Histogram::WriteRawBlockMicros);
        let handle = BlockHandle::new(self.offset, stored.len() as u64);
        self.guard.append_trailer(stored, 0, code, self.offset);
        self.file.append(stored)?;
        self.offset += stored.len() as u64;
        Ok(handle)
    }

    /// Padding that keeps a block of `size` bytes from crossing into the next super block; 0 if
    /// there is no need, or too much of it.
    fn padding_before(&self, size: u64) -> u64 {
        if self.super_block == 0 || self.most_padding == 0 {
            return 0;
        }
        let crosses = self.offset / self.super_block != (self.offset + size) / self.super_block;
        let padding = self.super_block - self.offset % self.super_block;
        if crosses && padding < self.most_padding { padding } else { 0 }
    }

    fn pad(&mut self, bytes: u64) -> Result<()> {
        self.append(&vec![0; usize::try_from(bytes).unwrap_or(0)])
    }

    /// Writes bytes that are no block.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.append(bytes)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }
}
