//! Raw LZ4 blocks. One encoder serves both codes; files of either are read the same way.

use super::{CompressionType, Encode, Output, bad};
use esker_base::Result;
use lz4_flex::block;

/// Compresses with a table that is kept from block to block, unless there is a dictionary.
pub(super) struct Lz4Encoder {
    table: block::CompressTable,
    dictionary: Vec<u8>,
}

impl Lz4Encoder {
    pub(super) fn new(dictionary: &[u8]) -> Lz4Encoder {
        Lz4Encoder { table: block::CompressTable::small(), dictionary: dictionary.to_vec() }
    }
}

impl Encode for Lz4Encoder {
    fn encode(&mut self, contents: &[u8], _room: usize, out: &mut Vec<u8>) -> Result<bool> {
        let start = out.len();
        out.resize(start + block::get_maximum_output_size(contents.len()), 0);
        let target = out.get_mut(start..).unwrap_or_default();
        let written = if self.dictionary.is_empty() {
            block::compress_into_with_table(contents, target, &mut self.table)
        } else {
            block::compress_into_with_dict(contents, target, &self.dictionary)
        };
        out.truncate(start + written.as_ref().copied().unwrap_or(0));
        Ok(written.is_ok())
    }
}

pub(super) fn decompress<B: Output>(data: &[u8], size: usize, dictionary: &[u8]) -> Result<B> {
    let kind = CompressionType::Lz4;
    let mut out = B::of(size)?;
    let written = if dictionary.is_empty() {
        block::decompress_into(data, &mut out)
    } else {
        block::decompress_into_with_dict(data, &mut out, dictionary)
    };
    match written.map_err(|e| bad(kind, e))? {
        n if n == size => Ok(out),
        n => Err(bad(kind, format_args!("{n} bytes instead of {size}"))),
    }
}
