//! Owned keys of locks: short ones inline, long ones on the heap.
//!
//! In: the bytes of a key. Out: the same bytes, in a value of 24 bytes. A key of up to [`INLINE`]
//! bytes needs no allocation.

/// Bytes of the longest key that needs no allocation.
pub(crate) const INLINE: usize = 22;

/// An owned key.
#[derive(Clone, Debug)]
pub(crate) enum KeyBuf {
    Inline { len: u8, bytes: [u8; INLINE] },
    Heap(Box<[u8]>),
}

const _: () = assert!(size_of::<KeyBuf>() == 24);

impl KeyBuf {
    #[inline]
    pub(crate) fn new(key: &[u8]) -> KeyBuf {
        if key.len() > INLINE {
            return KeyBuf::Heap(key.into());
        }
        let mut bytes = [0; INLINE];
        bytes[..key.len()].copy_from_slice(key);
        KeyBuf::Inline { len: key.len() as u8, bytes }
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            KeyBuf::Inline { len, bytes } => &bytes[..usize::from(*len)],
            KeyBuf::Heap(bytes) => bytes,
        }
    }

    /// Bytes on the heap.
    #[inline]
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            KeyBuf::Inline { .. } => 0,
            KeyBuf::Heap(bytes) => bytes.len(),
        }
    }
}

/// The first eight bytes as a big-endian number. Missing bytes count as zeros.
#[inline]
pub(crate) fn head_of(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let mut first = [0; 8];
            first[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(first)
        }
    }
}
