//! Footers: the last bytes of a table. A reader of the table begins with the footer.
//!
//! Source: RocksDB `table/format.cc`. Page: `docs/format/sst.md`.
//!
//! ```text
//! version 0:     meta index handle | index handle | zeros to 40 | legacy magic u64
//! version 1-5:   checksum type u8 | meta index handle | index handle | zeros to 41 | version u32
//!                | magic u64
//! version >= 6:  checksum type u8 | 3e 00 7a 00 | footer checksum u32 | base context u32
//!                | meta index size u32 | 24 zeros | version u32 | magic u64
//! version >= 8:  the upper 16 bits of `meta index size` are the number of bytes between meta index
//!                and footer
//! ```
//!
//! Invariant of a parsed footer: its handles lie within the file.

use crate::handle::BlockHandle;
use crate::trailer::{BlockGuard, ChecksumType, TRAILER_BYTES};
use esker_base::coding::{Decoder, fixed32};
use esker_base::{Error, Result};

/// Bytes of a footer of version 1 or later.
pub const FOOTER_BYTES: usize = 53;
/// Bytes of a footer of version 0. No table is shorter.
pub const LEGACY_FOOTER_BYTES: usize = 48;

const MAGIC: u64 = 0x88E2_41B7_85F4_CFF7;
const LEGACY_MAGIC: u64 = 0xDB47_7524_8B80_FB57;
const OTHER_MAGICS: [(u64, &str); 3] = [
    (0x8242_2296_63BF_9564, "plain table"),
    (0x4F34_18EB_7A8F_13B8, "legacy plain table"),
    (0x9267_89D0_C5F1_7873, "cuckoo table"),
];
const EXTENDED_MAGIC: [u8; 4] = [0x3e, 0x00, 0x7a, 0x00];
/// The newest format version that Esker reads.
pub const LATEST_FORMAT_VERSION: u32 = 8;

/// A parsed footer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Footer {
    /// Version of the table's format.
    pub format_version: u32,
    /// Checksum type and base context of the table's blocks.
    pub guard: BlockGuard,
    /// The meta index.
    pub meta_index: BlockHandle,
    /// The index. `None` since version 6: the meta index then has its handle.
    pub index: Option<BlockHandle>,
}

impl Footer {
    /// Parses the footer of a file of `file_size` bytes. `tail` holds at least the last 53 bytes of
    /// the file, or the whole file.
    /// # Errors
    /// `Corruption` if the file is no table, or a damaged one · `NotSupported` naming an unknown
    /// kind of table, version or feature. If the footer's checksum is wrong too, the error is
    /// `Corruption`: a flipped bit must not look like a newer RocksDB.
    pub fn parse(tail: &[u8], file_size: u64) -> Result<Footer> {
        let Some((_, magic)) = tail.split_last_chunk::<8>() else { return Err(too_short(file_size)) };
        match u64::from_le_bytes(*magic) {
            MAGIC => Self::parse_modern(tail, file_size),
            LEGACY_MAGIC => Self::parse_legacy(tail, file_size),
            magic => Err(match OTHER_MAGICS.iter().find(|(m, _)| *m == magic) {
                Some((_, kind)) => Error::not_supported(format!("{kind} files")),
                None => Error::corruption(format!(
                    "bad table magic number: expected {MAGIC:#018x}, found {magic:#018x}"
                )),
            }),
        }
    }

    fn parse_legacy(tail: &[u8], file_size: u64) -> Result<Footer> {
        let Some((_, footer)) = tail.split_last_chunk::<LEGACY_FOOTER_BYTES>() else {
            return Err(too_short(file_size));
        };
        let guard = BlockGuard { checksum_type: ChecksumType::Crc32c, base_context: 0 };
        Self::with_handles(0, guard, footer, file_size)
    }

    fn parse_modern(tail: &[u8], file_size: u64) -> Result<Footer> {
        let Some((_, footer)) = tail.split_last_chunk::<FOOTER_BYTES>() else {
            return Err(too_short(file_size));
        };
        let (head, version) = footer.split_at(FOOTER_BYTES - 12);
        let format_version = fixed32(version).unwrap_or(0);
        let (kind, part2) = head.split_at(1);
        let checksum_type = ChecksumType::from_u8(kind.first().copied().unwrap_or(0));
        match format_version {
            0 => Err(Error::corruption("table format_version 0 under the magic number of later versions")),
            1..6 => {
                let guard = BlockGuard { checksum_type: checksum_type?, base_context: 0 };
                Self::with_handles(format_version, guard, part2, file_size)
            }
            6..=LATEST_FORMAT_VERSION => {
                Self::parse_extended(footer, format_version, checksum_type?, part2, file_size)
            }
            unknown => Err(match checksum_type.and_then(|c| Extended::parse(footer, c, part2, file_size)) {
                Ok(_) => Error::not_supported(format!("table format_version {unknown}")),
                Err(e) => Error::corruption(format!(
                    "unknown table format_version {unknown}, or a damaged footer: {e}"
                )),
            }),
        }
    }

    fn with_handles(format_version: u32, guard: BlockGuard, part: &[u8], file_size: u64) -> Result<Footer> {
        let mut input = Decoder::new(part);
        let (meta_index, index) = (BlockHandle::decode(&mut input)?, BlockHandle::decode(&mut input)?);
        meta_index.check_within(file_size)?;
        index.check_within(file_size)?;
        Ok(Footer { format_version, guard, meta_index, index: Some(index) })
    }

    fn parse_extended(
        footer: &[u8; FOOTER_BYTES],
        format_version: u32,
        checksum_type: ChecksumType,
        part2: &[u8],
        file_size: u64,
    ) -> Result<Footer> {
        let extended = Extended::parse(footer, checksum_type, part2, file_size)?;
        if extended.has_unknown_feature {
            return Err(Error::not_supported("a footer with an unknown feature (reserved bytes are set)"));
        }
        let footer_offset = file_size.saturating_sub(FOOTER_BYTES as u64);
        let (size, gap) = match format_version {
            ..8 => (extended.meta_index_size, 0),
            _ => (extended.meta_index_size & 0xFFFF, extended.meta_index_size >> 16),
        };
        let Some(offset) = footer_offset.checked_sub(TRAILER_BYTES as u64 + size + gap) else {
            return Err(Error::corruption("the footer's meta index does not fit into the file"));
        };
        let meta_index = BlockHandle::new(offset, size);
        meta_index.check_within(file_size)?;
        Ok(Footer { format_version, guard: extended.guard, meta_index, index: None })
    }

    /// Encodes a footer that will lie at `footer_offset` in the file.
    ///
    /// `format_version` must be at least 1. Versions 1 to 5 need `index`. In versions 6 and 7 the
    /// meta index must end directly before the footer. Since version 8 a gap of less than 64 KiB
    /// may lie between them.
    pub fn encode(&self, footer_offset: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        out.push(self.guard.checksum_type as u8);
        if self.format_version >= 6 {
            let gap = self.meta_index.end().and_then(|end| footer_offset.checked_sub(end));
            debug_assert!(gap == Some(0) || self.format_version >= 8);
            out.extend_from_slice(&EXTENDED_MAGIC);
            out.extend_from_slice(&[0; 4]);
            out.extend_from_slice(&self.guard.base_context.to_le_bytes());
            let size = u32::try_from(self.meta_index.size).expect("a meta index has a few hundred bytes");
            debug_assert!(size >> 16 == 0 || self.format_version < 8);
            let gap = gap.and_then(|gap| u16::try_from(gap).ok()).unwrap_or(0);
            out.extend_from_slice(&(size | u32::from(gap) << 16).to_le_bytes());
        } else {
            self.meta_index.encode(&mut out);
            self.index.unwrap_or_default().encode(&mut out);
        }
        out.resize(FOOTER_BYTES - 12, 0);
        out.extend_from_slice(&self.format_version.to_le_bytes());
        out.extend_from_slice(&MAGIC.to_le_bytes());
        if let (true, Some(footer)) = (self.format_version >= 6, out.first_chunk::<FOOTER_BYTES>()) {
            let sum = footer_checksum(self.guard, footer, footer_offset);
            if let Some(place) = out.get_mut(5..9) {
                place.copy_from_slice(&sum.to_le_bytes());
            }
        }
        out
    }
}

/// The bytes between checksum type and version, since version 6.
struct Extended {
    guard: BlockGuard,
    meta_index_size: u64,
    has_unknown_feature: bool,
}

impl Extended {
    /// Parses the bytes between checksum type and version, and checks the footer's checksum.
    /// # Errors
    /// `Corruption` if the bytes have another form, or the footer's checksum is wrong.
    fn parse(
        footer: &[u8; FOOTER_BYTES],
        checksum_type: ChecksumType,
        part2: &[u8],
        file_size: u64,
    ) -> Result<Extended> {
        let mut input = Decoder::new(part2);
        if input.bytes(4)? != EXTENDED_MAGIC {
            return Err(Error::corruption("bad extended magic number in the footer"));
        }
        let stored = input.fixed32()?;
        let base_context = input.fixed32()?;
        let meta_index_size = u64::from(input.fixed32()?);
        let reserved = input.bytes(24)?;
        if base_context == 0 {
            return Err(Error::corruption("base context checksum of 0 in the footer"));
        }
        let guard = BlockGuard { checksum_type, base_context };
        let footer_offset = file_size.saturating_sub(FOOTER_BYTES as u64);
        let computed = footer_checksum(guard, footer, footer_offset);
        if stored != computed {
            return Err(Error::corruption(format!(
                "footer checksum mismatch: stored = {stored}, computed = {computed}, at offset {footer_offset}"
            )));
        }
        let has_unknown_feature = reserved.iter().rev().take(8).any(|b| *b != 0);
        Ok(Extended { guard, meta_index_size, has_unknown_feature })
    }
}

/// The checksum of a footer at `offset`. The four bytes of the checksum itself count as zeros.
fn footer_checksum(guard: BlockGuard, footer: &[u8; FOOTER_BYTES], offset: u64) -> u32 {
    let mut bytes = *footer;
    if let Some(place) = bytes.get_mut(5..9) {
        place.fill(0);
    }
    guard.stored_checksum(&bytes, offset)
}

#[cold]
fn too_short(file_size: u64) -> Error {
    Error::corruption(format!("file is too short ({file_size} bytes) to be a table"))
}

#[cfg(test)]
mod tests;
