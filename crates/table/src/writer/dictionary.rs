//! Data blocks that wait in memory until they suffice to make a dictionary.
//!
//! Source: RocksDB `table/block_based/block_based_table_builder.cc` (`kBuffered`).

use crate::building_charge::BuildingCharge;
use crate::options::TableBuilderOptions;
use esker_base::Result;
use esker_cache::Role;

/// RocksDB's stride through the blocks: a prime, so that every block is visited once.
const STRIDE: u64 = 545_055_921_143;

/// A data block not yet written.
#[derive(Debug)]
pub(super) struct WaitingBlock {
    /// Uncompressed, without trailer.
    pub(super) contents: Vec<u8>,
    pub(super) first_key: Vec<u8>,
    pub(super) last_key: Vec<u8>,
}

/// The waiting blocks of a table without a dictionary yet.
#[derive(Debug)]
pub(super) struct WaitingBlocks {
    pub(super) blocks: Vec<WaitingBlock>,
    bytes: u64,
    /// 0: no limit.
    most_bytes: u64,
    charge: BuildingCharge,
    /// Whether a strict limit of the block cache had no room for the last block.
    is_refused: bool,
}

impl WaitingBlocks {
    /// No waiting blocks yet; `None` if the table has no dictionary.
    /// # Errors
    /// None: a charge of 0 bytes always fits.
    pub(super) fn new(options: &TableBuilderOptions) -> Result<Option<WaitingBlocks>> {
        let opts = &options.compression_opts;
        let wanted = opts.max_dict_bytes > 0 && options.compression.has_dictionaries();
        let limits = [options.target_file_size, opts.max_dict_buffer_bytes];
        let most_bytes = limits.into_iter().filter(|limit| *limit > 0).min().unwrap_or(0);
        if !wanted {
            return Ok(None);
        }
        let charge = BuildingCharge::new(&options.table_options, Role::CompressionDictionaryBuildingBuffer)?;
        Ok(Some(WaitingBlocks { blocks: Vec::new(), bytes: 0, most_bytes, charge, is_refused: false }))
    }

    pub(super) fn push(&mut self, block: WaitingBlock) {
        self.bytes += block.contents.len() as u64;
        self.blocks.push(block);
        if !self.is_over_limit() {
            self.is_refused = !self.charge.set(usize::try_from(self.bytes).unwrap_or(usize::MAX));
        }
    }

    fn is_over_limit(&self) -> bool {
        self.most_bytes > 0 && self.bytes > self.most_bytes
    }

    /// Whether no more blocks may wait.
    pub(super) fn is_full(&self) -> bool {
        self.is_refused || self.is_over_limit()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Samples from blocks all over the table, in total at most `most` bytes, and their lengths.
    pub(super) fn samples(&self, most: usize) -> (Vec<u8>, Vec<usize>) {
        let count = self.blocks.len();
        let (mut samples, mut sizes) = (Vec::new(), Vec::new());
        if count == 0 {
            return (samples, sizes);
        }
        let stride = usize::try_from(STRIDE % count as u64).unwrap_or(0);
        let mut at = count / 2;
        for _ in 0..count {
            let room = most - samples.len();
            let contents = &self.blocks[at].contents;
            let sample = &contents[..contents.len().min(room)];
            if sample.is_empty() {
                break;
            }
            samples.extend_from_slice(sample);
            sizes.push(sample.len());
            at = (at + stride) % count;
        }
        (samples, sizes)
    }
}
