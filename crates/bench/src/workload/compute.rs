//! Work without files: checksums and codecs.

use super::{While, Worker, WorkloadOutcome, non_negative};
use crate::engine::BenchEngine;
use crate::options::codec;
use crate::report::BenchOpKind;
use esker::internals::base::{crc32c, hash};
use esker::internals::format::compression::{Compressor, Decompressor};
use std::hint::black_box;

/// Bytes that a checksum benchmark reads.
const CHECKSUM_BYTES: u64 = 5000 << 20;
/// Bytes that a compression benchmark reads.
const COMPRESS_BYTES: u64 = 3 << 30;
/// Bytes that a decompression benchmark makes.
const UNCOMPRESS_BYTES: u64 = 20 << 30;

/// A checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Checksum {
    Crc32c,
    XxHash,
    XxHash64,
    Xxh3,
}

impl Checksum {
    fn of(self, data: &[u8]) -> u64 {
        match self {
            Checksum::Crc32c => crc32c::value(data).into(),
            Checksum::XxHash => hash::xxh32(data, 0).into(),
            Checksum::XxHash64 => hash::xxh64(data, 0),
            Checksum::Xxh3 => hash::xxh3_64(data, 0),
        }
    }
}

impl<E: BenchEngine> Worker<'_, E> {
    /// The bytes of a block.
    fn block_size(&self) -> u64 {
        non_negative(self.flags.block_size).max(1)
    }

    /// Computes the checksum of a block of 'x' again and again.
    pub(super) fn checksum(&mut self, kind: Checksum) -> WorkloadOutcome {
        let size = self.block_size();
        let data = vec![b'x'; usize::try_from(size).expect("a block fits into memory")];
        let op = if kind == Checksum::Crc32c { BenchOpKind::Crc } else { BenchOpKind::Hash };
        let mut budget = self.budget(CHECKSUM_BYTES.div_ceil(size));
        while budget.take(1) {
            black_box(kind.of(black_box(&data)));
            self.stats.finished(1, op);
            self.stats.add_bytes(size);
        }
        self.stats.add_message(&format!("({size} per op)"));
        Ok(())
    }

    /// Compresses a block again and again.
    pub(super) fn compress(&mut self) -> WorkloadOutcome {
        let (size, mut produced, mut consumed) = (self.block_size(), 0, 0);
        let input = self.block();
        let mut out = Vec::new();
        let mut compressor = self.compressor()?;
        let mut budget = self.budget(COMPRESS_BYTES.div_ceil(size));
        while budget.take(1) {
            out.clear();
            if !compressor.compress(&input, &mut out).doing("compress")? {
                self.stats.add_message("(compression failure: not smaller than the input)");
                return Ok(());
            }
            produced += out.len() as u64;
            consumed += size;
            self.stats.finished(1, BenchOpKind::Compress);
            self.stats.add_bytes(size);
        }
        self.stats.add_message(&format!("(output: {:.1}%)", produced as f64 * 100.0 / consumed as f64));
        Ok(())
    }

    /// Decompresses a block again and again.
    pub(super) fn uncompress(&mut self) -> WorkloadOutcome {
        let size = self.block_size();
        let mut stored = Vec::new();
        let mut compressor = self.compressor()?;
        if !compressor.compress(&self.block(), &mut stored).doing("compress")? {
            self.stats.add_message("(failed to compress smaller than input)");
            return Ok(());
        }
        let format_version = u32::try_from(self.flags.format_version).unwrap_or(0);
        let decompressor = Decompressor::new(format_version);
        let mut budget = self.budget(UNCOMPRESS_BYTES.div_ceil(size));
        while budget.take(1) {
            black_box(decompressor.decompress(compressor.kind(), &stored).doing("uncompress")?);
            self.stats.finished(1, BenchOpKind::Uncompress);
            self.stats.add_bytes(size);
        }
        Ok(())
    }

    fn compressor(&self) -> WorkloadOutcome<Compressor> {
        let (kind, options) = codec(self.flags).doing("compress")?;
        Compressor::new(kind, &options).doing("compress")
    }

    fn block(&self) -> Vec<u8> {
        self.values().slice(usize::try_from(self.block_size()).expect("a block fits into memory")).to_vec()
    }
}
