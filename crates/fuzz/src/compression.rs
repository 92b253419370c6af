//! Any bytes as a compressed block, under every codec, with and without a dictionary.

use esker_format::compression::{CodecOptions, CompressionType, Compressor, Decompressor};

const WRITTEN: [CompressionType; 4] =
    [CompressionType::Snappy, CompressionType::Zlib, CompressionType::Lz4, CompressionType::Zstd];

/// One input.
pub fn run(data: &[u8]) {
    let Some((&[kind, mode], bytes)) = data.split_first_chunk() else { return };
    let mut decompressor = Decompressor::new(u32::from(mode & 7));
    if mode & 8 != 0 {
        decompressor = decompressor.with_dictionary(bytes.iter().take(100).copied().collect());
    }
    if let Ok(kind) = CompressionType::from_u8(kind) {
        drop(decompressor.decompress(kind, bytes));
    }
    let kind = WRITTEN[usize::from(kind) % WRITTEN.len()];
    let mut compressor = Compressor::new(kind, &CodecOptions::default()).unwrap();
    let mut stored = Vec::new();
    if compressor.compress(bytes, &mut stored).unwrap() {
        assert_eq!(Decompressor::new(5).decompress(kind, &stored).unwrap(), bytes);
    }
}
