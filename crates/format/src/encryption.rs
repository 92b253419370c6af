//! Encrypted files: a header with the wrapped key of the file, then pages of sealed frames.
//!
//! In: bytes of a header page or a frame's head. Out: their fields, and back again. Nothing here
//! encrypts. The fields of a frame's head are not trusted until its tag has been checked.
//! Page: `docs/format/encryption.md`.
//!
//! ```text
//! file   := header page*                              a header has the size of a page
//! header := slot at 0, slot at 2048, zeros between
//! page   := frame* padding                            no frame crosses the end of its page
//! frame  := head:16 ciphertext tag:16
//! ```
//!
//! Invariant: a head or slot that was decoded gives the same bytes when it is encoded.

use esker_base::crc32c;
use esker_base::{Error, Result};

#[cfg(test)]
mod tests;

/// Bytes of a header and of a page.
pub const PAGE_BYTES: usize = 4096;
/// Bytes of a frame's head.
pub const HEAD_BYTES: usize = 16;
/// Bytes of a frame's tag.
pub const TAG_BYTES: usize = 16;
/// Bytes that a frame adds to its content.
pub const FRAME_OVERHEAD: usize = HEAD_BYTES + TAG_BYTES;
/// The most content of a frame, which then fills its page.
pub const MOST_CONTENT: usize = PAGE_BYTES - FRAME_OVERHEAD;
/// A page with less room than this has no further frame.
pub const LEAST_ROOM: usize = FRAME_OVERHEAD + 1;
/// The first bytes of a slot.
pub const MAGIC: [u8; 8] = *b"\x89ESKENC\n";
/// Bytes of a slot.
pub const SLOT_BYTES: usize = 96;
/// The places of the two slots in a header.
pub const SLOT_PLACES: [usize; 2] = [0, PAGE_BYTES / 2];
/// The first byte of a frame.
pub const FRAME_MARK: u8 = 0xE5;
/// Bytes of padding have this value, so that no append to a log begins with zeros.
pub const PADDING: u8 = 0x5E;
/// Bytes of a master key's name.
pub const KEY_ID_BYTES: usize = 16;
/// Bytes of a key that is wrapped, with the tag of the wrapping.
pub const WRAPPED_BYTES: usize = 32 + TAG_BYTES;
/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 12;
/// Content beyond this offset has no frame: 128 TiB.
pub const MOST_OFFSET: u64 = (1 << 47) - 1;

const VERSION: u8 = 1;
const AES_256_GCM: u8 = 1;
/// Bytes of a slot that the wrapping of the key authenticates.
const AUTHENTICATED_BYTES: usize = 32;
/// The place of a slot's checksum.
const CHECKSUM_AT: usize = 92;
/// The bit of a nonce's offset that marks a frame without content.
const EMPTY: u64 = MOST_OFFSET + 1;

/// The rule for the end of an encrypted file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum EncryptedKind {
    /// The file ends with a frame that has the end mark; any other end is damage.
    Whole = 0,
    /// The file ends behind its last authentic frame, as a WAL does after a crash. Lost content
    /// with authentic frames behind it reads as bytes 0xFF.
    Log = 1,
    /// The file may end within a frame or with zeros, as a MANIFEST does after a crash. Any other
    /// end is damage.
    StrictLog = 2,
}

/// A slot: the key of the file, wrapped under a master key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeaderSlot {
    /// The rule for the file's end.
    pub kind: EncryptedKind,
    /// The name of the master key.
    pub key_id: [u8; KEY_ID_BYTES],
    /// The nonce of the wrapping.
    pub nonce: [u8; NONCE_BYTES],
    /// The wrapped key and its tag.
    pub wrapped: [u8; WRAPPED_BYTES],
}

/// Whether this begins as an encrypted file does. At least one slot has its magic number.
pub fn is_encrypted(header: &[u8]) -> bool {
    SLOT_PLACES.iter().any(|&place| header.get(place..).is_some_and(|slot| slot.starts_with(&MAGIC)))
}

/// The slots of a header; `None` for a slot that is damaged or missing.
/// # Errors
/// `NotSupported` if an intact slot has a version, cipher or kind of a later release.
pub fn decode_header(header: &[u8]) -> Result<[Option<HeaderSlot>; 2]> {
    let [first, second] = SLOT_PLACES;
    let slot = |place: usize| header.get(place..).map_or(Ok(None), HeaderSlot::decode);
    Ok([slot(first)?, slot(second)?])
}

/// A header with this slot in both places.
pub fn encode_header(slot: &HeaderSlot) -> Vec<u8> {
    let mut header = Vec::with_capacity(PAGE_BYTES);
    let bytes = slot.encode();
    for place in SLOT_PLACES {
        header.resize(place, 0);
        header.extend_from_slice(&bytes);
    }
    header.resize(PAGE_BYTES, 0);
    header
}

impl HeaderSlot {
    /// The bytes that the wrapping authenticates.
    pub fn authenticated(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SLOT_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[VERSION, AES_256_GCM, self.kind as u8, 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(&self.key_id);
        bytes
    }

    /// The slot's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.authenticated();
        debug_assert_eq!(bytes.len(), AUTHENTICATED_BYTES);
        bytes.extend_from_slice(&self.nonce);
        bytes.extend_from_slice(&self.wrapped);
        bytes.extend_from_slice(&crc32c::mask(crc32c::value(&bytes)).to_le_bytes());
        bytes
    }

    /// The slot at the front of `bytes`; `None` if it is damaged or missing.
    /// # Errors
    /// `NotSupported` if it is intact and of a later release.
    pub fn decode(bytes: &[u8]) -> Result<Option<HeaderSlot>> {
        let Some((slot, checksum)) =
            bytes.get(..SLOT_BYTES).and_then(|slot| slot.split_at_checked(CHECKSUM_AT))
        else {
            return Ok(None);
        };
        let is_intact = crc32c::mask(crc32c::value(slot)).to_le_bytes() == checksum;
        let Some(fields) = slot.strip_prefix(&MAGIC).filter(|_| is_intact) else { return Ok(None) };
        let kind = match fields {
            [VERSION, AES_256_GCM, 0, 0, 0, 0, 0, 0, ..] => EncryptedKind::Whole,
            [VERSION, AES_256_GCM, 1, 0, 0, 0, 0, 0, ..] => EncryptedKind::Log,
            [VERSION, AES_256_GCM, 2, 0, 0, 0, 0, 0, ..] => EncryptedKind::StrictLog,
            [version, cipher, kind, ..] => {
                let what = format!("encrypted file of version {version}, cipher {cipher}, kind {kind}");
                return Err(Error::not_supported(what));
            }
            _ => return Ok(None),
        };
        let parts = fields.split_at_checked(8).and_then(|(_, rest)| {
            let (key_id, rest) = rest.split_first_chunk()?;
            let (nonce, rest) = rest.split_first_chunk()?;
            Some(HeaderSlot { kind, key_id: *key_id, nonce: *nonce, wrapped: rest.try_into().ok()? })
        });
        Ok(parts)
    }
}

/// The head of a frame. Bytes 4..16 are its nonce; bytes 0..4 are authenticated beside it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHead {
    /// Whether the file may end behind this frame.
    pub is_end: bool,
    /// Bytes of content, at most [`MOST_CONTENT`].
    pub len: u16,
    /// The offset of the content in the decrypted file, at most [`MOST_OFFSET`].
    pub offset: u64,
    /// Random bytes of the opening that wrote the frame.
    pub salt: [u8; 6],
}

impl FrameHead {
    /// The head's bytes.
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let [len0, len1] = self.len.to_le_bytes();
        let place = if self.len == 0 { self.offset | EMPTY } else { self.offset };
        let [o0, o1, o2, o3, o4, o5, _, _] = place.to_le_bytes();
        let [s0, s1, s2, s3, s4, s5] = self.salt;
        [FRAME_MARK, u8::from(self.is_end), len0, len1, o0, o1, o2, o3, o4, o5, s0, s1, s2, s3, s4, s5]
    }

    /// The head at the front of `bytes`; `None` if no head looks like that.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Option<FrameHead> {
        let [mark, flags, len0, len1, o0, o1, o2, o3, o4, o5, s0, s1, s2, s3, s4, s5] =
            *bytes.first_chunk::<HEAD_BYTES>()?;
        let len = u16::from_le_bytes([len0, len1]);
        let place = u64::from_le_bytes([o0, o1, o2, o3, o4, o5, 0, 0]);
        let is_possible = mark == FRAME_MARK
            && flags <= 1
            && usize::from(len) <= MOST_CONTENT
            && (place & EMPTY != 0) == (len == 0);
        is_possible.then_some(FrameHead {
            is_end: flags == 1,
            len,
            offset: place & MOST_OFFSET,
            salt: [s0, s1, s2, s3, s4, s5],
        })
    }

    /// Bytes of the whole frame.
    #[inline]
    pub fn frame_bytes(&self) -> usize {
        usize::from(self.len) + FRAME_OVERHEAD
    }
}
