//! Raw Snappy. The size is in Snappy's own header.

use super::{CompressionType, Encode, Output, bad, impossible_size, most_expansion};
use esker_base::Result;

impl Encode for snap::raw::Encoder {
    fn encode(&mut self, contents: &[u8], _room: usize, out: &mut Vec<u8>) -> Result<bool> {
        let start = out.len();
        out.resize(start + snap::raw::max_compress_len(contents.len()), 0);
        let written = self.compress(contents, out.get_mut(start..).unwrap_or_default());
        out.truncate(start + written.as_ref().copied().unwrap_or(0));
        Ok(written.is_ok())
    }
}

pub(super) fn decompress<B: Output>(stored: &[u8]) -> Result<B> {
    let kind = CompressionType::Snappy;
    let size = snap::raw::decompress_len(stored).map_err(|e| bad(kind, e))?;
    if size as u64 > (stored.len() as u64).saturating_mul(most_expansion(kind)) {
        return Err(impossible_size(kind, size as u64, stored.len()));
    }
    let mut out = B::of(size)?;
    let written = snap::raw::Decoder::new().decompress(stored, &mut out).map_err(|e| bad(kind, e))?;
    if written == size { Ok(out) } else { Err(bad(kind, format_args!("{written} bytes instead of {size}"))) }
}
