//! Estimates of a table's size under a fast codec and a slow one, for `sample_for_compression`.
//!
//! In: data blocks before compression, and the number of blocks of which one is sampled. Out: the
//! size that the data blocks would have under each codec. Source: RocksDB
//! `table/block_based/block_based_table_builder.cc`.

use esker_base::Result;
use esker_format::compression::{CodecOptions, CompressionType, Compressor};
use esker_format::properties::TableProperties;
use esker_format::trailer::TRAILER_BYTES;

/// The sizes of a data block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndedBlock {
    /// Bytes before compression.
    pub uncompressed: u64,
    /// Bytes under a fast codec; 0 unless `sample_for_compression` drew the block.
    pub fast: u64,
    /// Bytes under a slow codec; 0 unless `sample_for_compression` drew the block.
    pub slow: u64,
}

/// Compresses samples of a table's data blocks.
pub(super) struct CompressionSampler {
    one_in: u64,
    /// The state of the draw of blocks.
    drawn: u64,
    fast: Option<Compressor>,
    slow: Option<Compressor>,
    scratch: Vec<u8>,
    /// Bytes of the sampled blocks.
    sampled: u64,
    fast_bytes: u64,
    slow_bytes: u64,
}

impl CompressionSampler {
    /// A sampler of one block in `one_in`; `None` for 0. `seed` differs from table to table.
    /// # Errors
    /// Those of [`Compressor::new`].
    pub(super) fn new(one_in: u64, seed: u64) -> Result<Option<CompressionSampler>> {
        if one_in == 0 {
            return Ok(None);
        }
        let of = |kinds: &[CompressionType]| -> Result<Option<Compressor>> {
            let kind = kinds.iter().find(|kind| kind.is_built_in());
            kind.map(|kind| Compressor::new(*kind, &CodecOptions::default())).transpose()
        };
        Ok(Some(CompressionSampler {
            one_in,
            drawn: seed,
            fast: of(&[CompressionType::Lz4, CompressionType::Snappy])?,
            slow: of(&[CompressionType::Zstd, CompressionType::Zlib])?,
            scratch: Vec::new(),
            sampled: 0,
            fast_bytes: 0,
            slow_bytes: 0,
        }))
    }

    /// Takes a data block, and compresses it if it is drawn. Returns the block's bytes under the
    /// fast and the slow codec; 0 if it was not drawn.
    /// # Errors
    /// Those of [`Compressor::compress_whatever_it_saves`].
    pub(super) fn block(&mut self, contents: &[u8]) -> Result<[u64; 2]> {
        self.drawn =
            self.drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if !(self.drawn >> 32).is_multiple_of(self.one_in) {
            return Ok([0, 0]);
        }
        self.sampled += contents.len() as u64;
        let mut sizes = [0, 0];
        for (codec, size) in [&mut self.fast, &mut self.slow].into_iter().zip(&mut sizes) {
            self.scratch.clear();
            let is_compressed = match codec {
                Some(codec) => codec.compress_whatever_it_saves(contents, &mut self.scratch)?,
                None => false,
            };
            // A block that grows would be stored as it is.
            let bytes = if is_compressed { self.scratch.len().min(contents.len()) } else { contents.len() };
            *size = bytes as u64;
        }
        self.fast_bytes += sizes[0];
        self.slow_bytes += sizes[1];
        Ok(sizes)
    }

    /// Sets the estimates for a table with `data` bytes of data blocks before compression. Without
    /// a sampled block they are that size.
    pub(super) fn estimate(&self, data: u64, properties: &mut TableProperties) {
        let trailers = properties.num_data_blocks * TRAILER_BYTES as u64;
        let of = |bytes: u64| match self.sampled {
            0 => data + trailers,
            sampled => (bytes as f64 / sampled as f64 * data as f64 + trailers as f64 + 0.5) as u64,
        };
        properties.slow_compression_estimated_data_size = of(self.slow_bytes);
        properties.fast_compression_estimated_data_size = of(self.fast_bytes);
    }
}

/// Samples a data block that has ended, and notes its sizes if `ended` keeps them.
pub(super) fn block_ended(
    sampler: &mut Option<CompressionSampler>,
    ended: &mut Option<Vec<EndedBlock>>,
    contents: &[u8],
) -> Result<()> {
    let [fast, slow] = match sampler {
        Some(sampler) => sampler.block(contents)?,
        None => [0, 0],
    };
    if let Some(ended) = ended {
        ended.push(EndedBlock { uncompressed: contents.len() as u64, fast, slow });
    }
    Ok(())
}
