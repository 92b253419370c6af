//! Compressed logs: each logical record is a zstd frame of its own, cut into fragments.

use esker_base::{Error, Result};
use std::fmt;

/// Makes the frames of a compressed log. A frame ends with a checksum, as in RocksDB.
///
/// A build without zstd has a substitute that fails.
pub struct RecordCompressor {
    #[cfg(feature = "zstd")]
    context: zstd_safe::CCtx<'static>,
    /// The last frame.
    frame: Vec<u8>,
}

impl RecordCompressor {
    /// Whether this build can compress logs.
    pub const IS_BUILT_IN: bool = cfg!(feature = "zstd");

    /// A compressor with zstd's default level, which RocksDB uses.
    /// # Errors
    /// `NotSupported` in a build without zstd; `IoError` if zstd gets no memory.
    #[cfg(feature = "zstd")]
    pub fn new() -> Result<RecordCompressor> {
        let mut context = zstd_safe::CCtx::try_create()
            .ok_or_else(|| Error::io("no memory for the compression of the WAL").with_retryable(true))?;
        context.set_parameter(zstd_safe::CParameter::ChecksumFlag(true)).map_err(failed)?;
        Ok(RecordCompressor { context, frame: Vec::new() })
    }

    /// Fails: a build without zstd cannot compress.
    /// # Errors
    /// `NotSupported`.
    #[cfg(not(feature = "zstd"))]
    pub fn new() -> Result<RecordCompressor> {
        Err(Error::not_supported("compressed WAL: Esker was built without its feature `zstd`"))
    }

    /// The frame of one logical record, which comes in pieces. Takes one pass over its bytes and
    /// reuses the buffer.
    /// # Errors
    /// `IoError` if zstd fails, for lack of memory.
    #[cfg(feature = "zstd")]
    pub fn compress(&mut self, parts: &[&[u8]]) -> Result<&[u8]> {
        use zstd_safe::zstd_sys::ZSTD_EndDirective::{ZSTD_e_continue, ZSTD_e_end};
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        self.context.reset(zstd_safe::ResetDirective::SessionOnly).map_err(failed)?;
        self.context.set_pledged_src_size(Some(bytes as u64)).map_err(failed)?;
        self.frame.clear();
        self.frame.reserve(zstd_safe::compress_bound(bytes));
        let last = parts.len().saturating_sub(1);
        for (i, part) in parts.iter().copied().chain(parts.is_empty().then_some(&[][..])).enumerate() {
            let directive = if i == last { ZSTD_e_end } else { ZSTD_e_continue };
            let mut input = zstd_safe::InBuffer::around(part);
            loop {
                let filled = self.frame.len();
                let mut output = zstd_safe::OutBuffer::around_pos(&mut self.frame, filled);
                let left = self.context.compress_stream2(&mut output, &mut input, directive);
                let left = left.map_err(failed)?;
                let is_done = if i == last { left == 0 } else { input.pos() == part.len() };
                if is_done {
                    break;
                }
                self.frame.reserve(super::BLOCK_BYTES);
            }
        }
        Ok(&self.frame)
    }

    /// Never called: there is no compressor in a build without zstd.
    /// # Errors
    /// `NotSupported`.
    #[cfg(not(feature = "zstd"))]
    pub fn compress(&mut self, _parts: &[&[u8]]) -> Result<&[u8]> {
        Err(Error::not_supported("compressed WAL: Esker was built without its feature `zstd`"))
    }

    /// Frees the buffer if it has more than `bytes`.
    pub fn keep_at_most(&mut self, bytes: usize) {
        if self.frame.capacity() > bytes {
            self.frame = Vec::new();
        }
    }
}

#[cfg(feature = "zstd")]
fn failed(code: zstd_safe::ErrorCode) -> Error {
    let error = format!("While compressing a WAL record: {}", zstd_safe::get_error_name(code));
    Error::io(error).with_retryable(true)
}

impl fmt::Debug for RecordCompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordCompressor").finish_non_exhaustive()
    }
}

/// Decompresses fragments, frame after frame.
///
/// A build without zstd has a substitute that fails; the reader refuses a compressed log before it
/// uses a record of it.
pub(super) struct RecordDecompressor {
    #[cfg(feature = "zstd")]
    context: zstd_safe::DCtx<'static>,
    /// Whether the fragments so far are whole frames.
    pub(super) at_frame_end: bool,
}

impl RecordDecompressor {
    pub(super) const IS_BUILT_IN: bool = cfg!(feature = "zstd");

    pub(super) fn new() -> RecordDecompressor {
        RecordDecompressor {
            #[cfg(feature = "zstd")]
            context: zstd_safe::DCtx::create(),
            at_frame_end: true,
        }
    }

    /// Discards an unfinished frame.
    pub(super) fn reset(&mut self) {
        #[cfg(feature = "zstd")]
        {
            self.at_frame_end = self.context.reset(zstd_safe::ResetDirective::SessionOnly).is_ok();
        }
    }

    /// Appends the decompressed form of `bytes`. Returns false if `bytes` do not decompress, or if
    /// `out` would grow beyond `max_bytes`.
    #[cfg(feature = "zstd")]
    pub(super) fn append(&mut self, bytes: &[u8], out: &mut Vec<u8>, max_bytes: usize) -> bool {
        let mut input = zstd_safe::InBuffer::around(bytes);
        loop {
            let filled = out.len();
            if filled > max_bytes {
                return false;
            }
            out.reserve(super::BLOCK_BYTES);
            let room = out.capacity();
            let mut output = zstd_safe::OutBuffer::around_pos(out, filled);
            match self.context.decompress_stream(&mut output, &mut input) {
                Ok(hint) => self.at_frame_end = hint == 0,
                Err(_code) => return false,
            }
            // If the buffer is full, the decoder may hold more bytes; but behind the end of a frame
            // it would begin another.
            let may_hold_more = output.pos() == room && !self.at_frame_end;
            if input.pos() == bytes.len() && !may_hold_more {
                return true;
            }
        }
    }

    #[cfg(not(feature = "zstd"))]
    pub(super) fn append(&mut self, _bytes: &[u8], _out: &mut Vec<u8>, _max_bytes: usize) -> bool {
        false
    }
}

impl fmt::Debug for RecordDecompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordDecompressor").field("at_frame_end", &self.at_frame_end).finish_non_exhaustive()
    }
}
