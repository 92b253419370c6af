//! One zstd frame per block. Contexts are large, so an encoder keeps its own and decoders share a
//! pool.

use super::{CodecOptions, CompressionType, Encode, Output, bad};
use esker_base::sync::fork::StaticMutex;
use esker_base::{Error, Result};
use zstd_safe::{CCtx, CParameter, DCtx, DDict};

const DEFAULT_LEVEL: i32 = 3;

pub(super) struct ZstdEncoder(CCtx<'static>);

impl ZstdEncoder {
    pub(super) fn new(options: &CodecOptions, dictionary: &[u8]) -> Result<ZstdEncoder> {
        let level = if options.level == CodecOptions::DEFAULT_LEVEL { DEFAULT_LEVEL } else { options.level };
        let mut context = CCtx::try_create().ok_or_else(|| Error::aborted("no memory for a zstd context"))?;
        context
            .set_parameter(CParameter::CompressionLevel(level))
            .map_err(|code| Error::invalid_argument(format!("zstd level {level}: {}", message(code))))?;
        if options.checksum {
            context
                .set_parameter(CParameter::ChecksumFlag(true))
                .map_err(|code| Error::aborted(format!("zstd checksum: {}", message(code))))?;
        }
        if !dictionary.is_empty() {
            context
                .load_dictionary(dictionary)
                .map_err(|code| Error::aborted(format!("zstd dictionary: {}", message(code))))?;
        }
        Ok(ZstdEncoder(context))
    }
}

impl Encode for ZstdEncoder {
    fn encode(&mut self, contents: &[u8], _room: usize, out: &mut Vec<u8>) -> Result<bool> {
        let start = out.len();
        out.resize(start + zstd_safe::compress_bound(contents.len()), 0);
        let written = self.0.compress2(out.get_mut(start..).unwrap_or_default(), contents);
        out.truncate(start + written.unwrap_or(0));
        Ok(written.is_ok())
    }
}

/// A dictionary of at most `most` bytes, trained with blocks of these sizes, which lie back to back
/// in `samples`. Empty if zstd cannot train one, for example from too few blocks.
pub(super) fn train(samples: &[u8], sizes: &[usize], most: usize) -> Vec<u8> {
    let mut dictionary = vec![0; most];
    match zstd_safe::train_from_buffer(dictionary.as_mut_slice(), samples, sizes) {
        Ok(length) => dictionary.truncate(length),
        Err(_) => dictionary.clear(),
    }
    dictionary
}

/// A dictionary as zstd likes it: prepared once, used for many blocks.
pub(super) struct Dictionary(DDict<'static>);

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Dictionary(zstd)")
    }
}

impl Dictionary {
    /// Trained dictionaries start with a magic number; anything else is a plain prefix. zstd
    /// distinguishes the two.
    pub(super) fn new(bytes: &[u8]) -> Option<Dictionary> {
        DDict::try_create(bytes).map(Dictionary)
    }
}

/// Idle decoders; as many as ever decompressed at once, and never more than `MOST_IDLE`.
static IDLE: StaticMutex<Vec<DCtx<'static>>> = StaticMutex::new(Vec::new());
const MOST_IDLE: usize = 64;

pub(super) fn decompress<B: Output>(data: &[u8], size: usize, dictionary: Option<&Dictionary>) -> Result<B> {
    let kind = CompressionType::Zstd;
    let idle = IDLE.lock().and_then(|mut idle| idle.pop());
    let Some(mut context) = idle.or_else(DCtx::try_create) else {
        return Err(Error::aborted("no memory for a zstd context"));
    };
    let mut out = B::of(size)?;
    let written = match dictionary {
        Some(d) => context.decompress_using_ddict(&mut *out, data, &d.0),
        None => context.decompress(&mut *out, data),
    };
    if let Some(mut idle) = IDLE.lock()
        && idle.len() < MOST_IDLE
    {
        idle.push(context);
    }
    match written {
        Ok(n) if n == size => Ok(out),
        Ok(n) => Err(bad(kind, format_args!("{n} bytes instead of {size}"))),
        Err(code) => Err(bad(kind, message(code))),
    }
}

fn message(code: usize) -> &'static str {
    zstd_safe::get_error_name(code)
}
