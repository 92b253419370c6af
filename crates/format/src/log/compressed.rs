//! Compressed logs: each logical record is a zstd frame of its own, cut into fragments.

use std::fmt;

/// Decompresses fragments, frame after frame.
///
/// A build without zstd has a stand-in that fails; the reader refuses a compressed log before it
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

    /// Forgets a frame that was begun.
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
            // A full output may hide more; but behind the end of a frame the decoder would begin
            // another.
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
