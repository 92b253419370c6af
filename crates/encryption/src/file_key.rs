//! The key of one file, which seals and opens the file's frames.
//!
//! The file's header stores the key *wrapped*: encrypted under a master key.

use crate::keys::{Keyring, MasterKey, MasterKeyId};
use esker_base::{Error, Result};
use esker_format::encryption::{
    EncryptedKind, FRAME_OVERHEAD, FrameHead, HEAD_BYTES, HeaderSlot, NONCE_BYTES, TAG_BYTES, decode_header,
    is_encrypted,
};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;
use std::path::Path;

/// Fills `bytes` with random bytes from the system.
/// # Errors
/// `IoError` if the system gives no random bytes.
pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<()> {
    SystemRandom::new().fill(bytes).map_err(|_| Error::io("the system gives no random bytes"))
}

fn cipher(key: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).expect("AES-256 has keys of 32 bytes"))
}

/// The key of a file.
pub(crate) struct FileKey(LessSafeKey);

impl fmt::Debug for FileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileKey")
    }
}

impl FileKey {
    pub(crate) fn new(bytes: &[u8; 32]) -> FileKey {
        FileKey(cipher(bytes))
    }

    /// Encrypts `content` into a frame, and appends the frame to `out`.
    pub(crate) fn seal(&self, head: &FrameHead, content: &[u8], out: &mut Vec<u8>) {
        let head = head.encode();
        out.extend_from_slice(&head);
        let start = out.len();
        out.extend_from_slice(content);
        let (aad, nonce) = parts(&head);
        let tag = self.0.seal_in_place_separate_tag(nonce, Aad::from(aad), &mut out[start..]);
        out.extend_from_slice(tag.expect("a page is shorter than the cipher's limit").as_ref());
    }

    /// Decrypts the frame at the front of `frame` in place, and returns its head. `None` if there
    /// is no authentic frame. The bytes are then undefined.
    pub(crate) fn open(&self, frame: &mut [u8]) -> Option<FrameHead> {
        let head = FrameHead::decode(frame)?;
        let (head_bytes, rest) = frame.get_mut(..head.frame_bytes())?.split_at_mut(HEAD_BYTES);
        let (aad, nonce) = parts(head_bytes.first_chunk()?);
        self.0.open_in_place(nonce, Aad::from(aad), rest).ok().map(|_| head)
    }
}

const _: () = assert!(FRAME_OVERHEAD == HEAD_BYTES + TAG_BYTES && HEAD_BYTES == 4 + NONCE_BYTES);

/// Splits a head into the additional authenticated data (AAD) and the nonce.
fn parts(head: &[u8; HEAD_BYTES]) -> ([u8; 4], Nonce) {
    let (aad, nonce) = (head.first_chunk::<4>(), head.last_chunk::<NONCE_BYTES>());
    (*aad.expect("of 16 bytes"), Nonce::assume_unique_for_key(*nonce.expect("of 16 bytes")))
}

/// Wraps the key of a file under `master`, for a slot of the file's header.
/// # Errors
/// `IoError` if the system gives no random bytes.
pub(crate) fn wrap(master: &MasterKey, kind: EncryptedKind, key: &[u8; 32]) -> Result<HeaderSlot> {
    let mut slot = HeaderSlot { kind, key_id: master.id().0, nonce: [0; NONCE_BYTES], wrapped: [0; 48] };
    fill_random(&mut slot.nonce)?;
    let mut bytes = *key;
    let nonce = Nonce::assume_unique_for_key(slot.nonce);
    let tag = cipher(&master.derive(WRAPPING))
        .seal_in_place_separate_tag(nonce, Aad::from(slot.authenticated()), &mut bytes)
        .expect("a key is shorter than the cipher's limit");
    slot.wrapped[..32].copy_from_slice(&bytes);
    slot.wrapped[32..].copy_from_slice(tag.as_ref());
    Ok(slot)
}

const WRAPPING: &[u8] = b"esker wrapping of file keys";

/// The key of a file from a slot of its header; `None` if it is not authentic under `master`.
pub(crate) fn unwrap_slot(master: &MasterKey, slot: &HeaderSlot) -> Option<[u8; 32]> {
    let mut bytes = slot.wrapped;
    let nonce = Nonce::assume_unique_for_key(slot.nonce);
    let aad = Aad::from(slot.authenticated());
    let key = cipher(&master.derive(WRAPPING)).open_in_place(nonce, aad, &mut bytes).ok()?;
    (*key).try_into().ok()
}

/// The result of a read of a file's header.
#[derive(Debug)]
pub(crate) enum Front {
    /// The file's key, and its kind.
    Key([u8; 32], EncryptedKind),
    /// The file has no header, or one without an intact slot.
    NoHeader {
        /// Whether one of the slots has the magic number.
        has_magic: bool,
    },
}

/// Reads the header of the file at `path`.
/// # Errors
/// `InvalidArgument` if the provider lacks the master key; `Corruption` if the wrapped key is not
/// authentic; `NotSupported` if a later release wrote the file.
pub(crate) fn read_header(header: &[u8], keys: &Keyring, path: &Path) -> Result<Front> {
    let slots = decode_header(header).map_err(|e| e.at(path.display()))?;
    let mut wrong = None;
    for slot in slots.iter().flatten() {
        let id = MasterKeyId(slot.key_id);
        match keys.find(id) {
            Some(master) => match unwrap_slot(&master, slot) {
                Some(key) => return Ok(Front::Key(key, slot.kind)),
                None => wrong = wrong.or(Some(damaged_key(path))),
            },
            None => wrong = Some(unknown_key(path, id, keys)),
        }
    }
    wrong.map_or(Ok(Front::NoHeader { has_magic: is_encrypted(header) }), Err)
}

#[cold]
fn unknown_key(path: &Path, id: MasterKeyId, keys: &Keyring) -> Error {
    let (path, given) = (path.display(), keys.describe());
    Error::invalid_argument(format!("{path}: encrypted under master key {id}, but the {given}"))
}

#[cold]
fn damaged_key(path: &Path) -> Error {
    Error::corruption(format!("{}: the wrapped key in the header is not authentic", path.display()))
}
