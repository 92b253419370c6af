//! Bytes and whatever keeps them alive.
//!
//! A value handed to the user is a few bytes inside a cached block or a memtable. `PinnedBytes` is those bytes
//! plus one reference to their owner: no copy, `Send`, valid for as long as it is held.
//!
//! Invariant: `ptr..ptr+len` lies in memory that `owner` keeps in place and unchanged until it is dropped.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// An owner whose bytes stay where they are, unchanged, for as long as it lives.
///
/// # Safety
/// `stable_bytes` returns the same address and length at each call, nothing changes those bytes, and moving the
/// owner does not move them, until the owner is dropped.
pub unsafe trait StableBytes: Send + Sync + 'static {
    /// The bytes it owns.
    fn stable_bytes(&self) -> &[u8];
}

// SAFETY: the heap buffer of a Vec that nobody can reach mutably stays where it is, also when the Vec moves.
unsafe impl StableBytes for Vec<u8> {
    fn stable_bytes(&self) -> &[u8] {
        self
    }
}

trait Keep: Send + Sync {}
impl<T: Send + Sync> Keep for T {}

/// Bytes with the owner that keeps them alive. Cloning shares the owner.
#[derive(Clone)]
pub struct PinnedBytes {
    ptr: *const u8,
    len: usize,
    owner: Option<Arc<dyn Keep>>,
}

// SAFETY: the bytes are never written through `ptr` and the owner is `Send + Sync`.
unsafe impl Send for PinnedBytes {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for PinnedBytes {}

impl PinnedBytes {
    /// No bytes, no owner.
    pub const fn empty() -> PinnedBytes {
        PinnedBytes { ptr: std::ptr::NonNull::<u8>::dangling().as_ptr(), len: 0, owner: None }
    }

    /// Takes over a vector, without copying its contents.
    pub fn from_vec(bytes: Vec<u8>) -> PinnedBytes {
        let len = bytes.len();
        PinnedBytes::slice_of(Arc::new(bytes), 0..len)
    }

    /// A copy of these bytes.
    pub fn copy_from(bytes: &[u8]) -> PinnedBytes {
        if bytes.is_empty() { PinnedBytes::empty() } else { PinnedBytes::from_vec(bytes.to_vec()) }
    }

    /// `range` of the bytes of `owner`, which is kept alive.
    ///
    /// # Panics
    /// If `range` does not lie within the owner's bytes.
    pub fn slice_of<T: StableBytes>(owner: Arc<T>, range: Range<usize>) -> PinnedBytes {
        let bytes = &owner.stable_bytes()[range];
        let (ptr, len) = (bytes.as_ptr(), bytes.len());
        PinnedBytes { ptr, len, owner: Some(owner) }
    }

    /// What `part` shows of `owner`, which is kept alive.
    pub fn part_of<T: Send + Sync + 'static>(
        owner: Arc<T>,
        part: impl for<'a> FnOnce(&'a T) -> &'a [u8],
    ) -> PinnedBytes {
        let bytes = part(&owner);
        let (ptr, len) = (bytes.as_ptr(), bytes.len());
        // `part` is right for every lifetime, so also for one as long as this count of the Arc is held: during that
        // time nobody can move the T or borrow it mutably, so what it lends stays in place and unchanged.
        PinnedBytes { ptr, len, owner: Some(owner) }
    }

    /// `bytes`, kept alive by `owner`, whatever that is.
    ///
    /// # Safety
    /// `bytes` stay in place and unchanged until `owner`'s last reference is dropped.
    pub unsafe fn with_owner<T: Send + Sync + 'static>(bytes: &[u8], owner: Arc<T>) -> PinnedBytes {
        PinnedBytes { ptr: bytes.as_ptr(), len: bytes.len(), owner: Some(owner) }
    }

    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the invariant at the head of this file; an empty one has a dangling, aligned, non-null pointer.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }

    /// Part of these bytes, sharing the owner.
    ///
    /// # Panics
    /// If `range` does not lie within the bytes.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> PinnedBytes {
        let part = &self.as_slice()[range];
        PinnedBytes { ptr: part.as_ptr(), len: part.len(), owner: self.owner.clone() }
    }
}

impl Deref for PinnedBytes {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl AsRef<[u8]> for PinnedBytes {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl Default for PinnedBytes {
    fn default() -> PinnedBytes {
        PinnedBytes::empty()
    }
}

impl From<Vec<u8>> for PinnedBytes {
    fn from(bytes: Vec<u8>) -> PinnedBytes {
        PinnedBytes::from_vec(bytes)
    }
}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for PinnedBytes {
    fn eq(&self, other: &T) -> bool {
        self.as_slice() == other.as_ref()
    }
}

impl Eq for PinnedBytes {}

impl fmt::Debug for PinnedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.as_slice().escape_ascii())
    }
}
