//! bzip2 streams, one a block.

use super::{CompressionType, Encode, bad, buffer};
use ::bzip2::{Action, Compress, Compression, Decompress, Status};
use esker_base::Result;

/// Work factor of RocksDB's streams; blocks are of 100 kB.
const WORK_FACTOR: u32 = 30;

/// Begins a stream for each block.
pub(super) struct Encoder;

impl Encode for Encoder {
    fn encode(&mut self, contents: &[u8], room: usize, out: &mut Vec<u8>) -> Result<bool> {
        let mut stream = Compress::new(Compression::fast(), WORK_FACTOR);
        // compress_vec stops at the end of the capacity. At worst bzip2 adds a hundredth and 600
        // bytes; a caller that stores the output whatever it saves gives more room than contents.
        out.reserve_exact(if room > contents.len() { room + room / 64 + 600 } else { room });
        Ok(matches!(stream.compress_vec(contents, out, Action::Finish), Ok(Status::StreamEnd)))
    }
}

pub(super) fn decompress(data: &[u8], size: usize) -> Result<Vec<u8>> {
    let out = inflate(data, size)?;
    if out.len() == size {
        Ok(out)
    } else {
        Err(bad(CompressionType::Bzip2, format_args!("{} bytes instead of {size}", out.len())))
    }
}

/// Decompresses blocks of format versions that do not record the size.
pub(super) fn decompress_unsized(data: &[u8]) -> Result<Vec<u8>> {
    inflate(data, u32::MAX as usize)
}

/// Grows the output step by step: the length of a stream hardly limits that of its output.
fn inflate(data: &[u8], most: usize) -> Result<Vec<u8>> {
    let kind = CompressionType::Bzip2;
    let mut stream = Decompress::new(false);
    let mut out = buffer(most.min(data.len().saturating_mul(8)).max(1))?;
    loop {
        let (read, wrote) = (stream.total_in(), stream.total_out());
        let rest = usize::try_from(read).ok().and_then(|n| data.get(n..)).unwrap_or_default();
        let status = stream.decompress_vec(rest, &mut out).map_err(|e| bad(kind, e))?;
        if out.len() > most {
            return Err(bad(kind, format_args!("more than {most} bytes")));
        }
        if status == Status::StreamEnd {
            return Ok(out);
        }
        if out.len() == out.capacity() {
            out.try_reserve_exact(out.len().clamp(4096, 1 << 20)).map_err(|e| bad(kind, e))?;
        } else if stream.total_in() == read && stream.total_out() == wrote {
            return Err(bad(kind, "the stream is cut off"));
        }
    }
}
