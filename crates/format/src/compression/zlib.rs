//! Raw deflate: written with a window of 2^14 bytes, read with any window.

use super::{CodecOptions, CompressionType, Encode, bad, buffer};
use esker_base::Result;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

const WINDOW_BITS: u8 = 14;
/// The largest window, which reads all streams. RocksDB inflates with its deflate window.
const READ_WINDOW_BITS: u8 = 15;

pub(super) struct ZlibEncoder {
    stream: Compress,
    dictionary: Vec<u8>,
}

impl ZlibEncoder {
    pub(super) fn new(options: &CodecOptions, dictionary: &[u8]) -> ZlibEncoder {
        let level = match u32::try_from(options.level) {
            Ok(level) if level <= 9 => Compression::new(level),
            _ => Compression::default(),
        };
        let stream = Compress::new_with_window_bits(level, false, WINDOW_BITS);
        ZlibEncoder { stream, dictionary: dictionary.to_vec() }
    }
}

impl Encode for ZlibEncoder {
    fn encode(&mut self, contents: &[u8], room: usize, out: &mut Vec<u8>) -> Result<bool> {
        self.stream.reset();
        if !self.dictionary.is_empty() {
            self.stream.set_dictionary(&self.dictionary).map_err(|e| bad(CompressionType::Zlib, e))?;
        }
        // compress_vec fills only the present capacity; larger output is not worth storing.
        out.reserve_exact(room);
        let status = self.stream.compress_vec(contents, out, FlushCompress::Finish);
        Ok(matches!(status, Ok(Status::StreamEnd)))
    }
}

pub(super) fn decompress(data: &[u8], size: usize, dictionary: &[u8]) -> Result<Vec<u8>> {
    let mut out = buffer(size)?;
    inflate(data, &mut out, size, dictionary)?;
    if out.len() == size {
        Ok(out)
    } else {
        Err(bad(CompressionType::Zlib, format_args!("{} bytes instead of {size}", out.len())))
    }
}

/// Decompresses for format versions without a stored size. The output grows, at most to deflate's
/// largest expansion.
pub(super) fn decompress_unsized(data: &[u8], dictionary: &[u8]) -> Result<Vec<u8>> {
    let mut out = buffer(data.len().saturating_mul(4))?;
    inflate(data, &mut out, data.len().saturating_mul(1040), dictionary)?;
    Ok(out)
}

/// Inflates all of `data` into `out`, which grows to `most` bytes if need be.
fn inflate(data: &[u8], out: &mut Vec<u8>, most: usize, dictionary: &[u8]) -> Result<()> {
    let kind = CompressionType::Zlib;
    let mut stream = Decompress::new_with_window_bits(false, READ_WINDOW_BITS);
    if !dictionary.is_empty() {
        stream.set_dictionary(dictionary).map_err(|e| bad(kind, e))?;
    }
    loop {
        let (read, wrote) = (stream.total_in(), stream.total_out());
        let rest = usize::try_from(read).ok().and_then(|n| data.get(n..)).unwrap_or_default();
        let status = stream.decompress_vec(rest, out, FlushDecompress::Sync).map_err(|e| bad(kind, e))?;
        if status == Status::StreamEnd {
            return Ok(());
        }
        let stuck = stream.total_in() == read && stream.total_out() == wrote;
        if out.len() < out.capacity() && stuck {
            return Err(bad(kind, "the stream is cut off"));
        }
        if out.len() == out.capacity() {
            if out.len() >= most && stuck {
                return Err(bad(kind, format_args!("more than {most} bytes")));
            }
            // One byte more than allowed, so that a stream that ends exactly there can report its
            // end.
            let more = out.capacity().min((most + 1).saturating_sub(out.len())).max(1);
            out.try_reserve_exact(more).map_err(|e| bad(kind, e))?;
        }
    }
}
