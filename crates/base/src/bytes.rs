//! Bytes together with the owner that keeps them alive.
//!
//! A value returned to the user lies in a cached block or a memtable. [`PinnedBytes`] points to the
//! value and holds one reference to the owner of the memory. It copies nothing, is `Send`, and
//! stays valid until it is dropped.
//!
//! Invariant: `ptr..ptr+len` lies in memory that `owner` keeps in place and unchanged until `owner`
//! is dropped.

use crate::sync::atomic::{AtomicUsize, Ordering};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::sync::Arc;

/// An owner whose bytes stay in place and unchanged for as long as it lives.
///
/// # Safety
/// `stable_bytes` returns the same address and length at each call. Until the owner is dropped,
/// nothing changes those bytes, and a move of the owner does not move them.
pub unsafe trait StableBytes: Send + Sync + 'static {
    /// The owned bytes.
    fn stable_bytes(&self) -> &[u8];
}

// SAFETY: the heap buffer of a Vec stays in place when the Vec moves, and a shared Vec gives no
// mutable access.
unsafe impl StableBytes for Vec<u8> {
    fn stable_bytes(&self) -> &[u8] {
        self
    }
}

/// A counted reference that can be stored as a pointer, such as an `Arc`.
///
/// # Safety
/// The referent stays in place and unchanged while any clone of the reference lives, even when
/// clones move. `from_raw(into_raw(x))` is `x` and has no side effect.
pub unsafe trait RawOwner: Clone + Deref + Send + Sync + 'static {
    /// Turns the reference into a pointer without releasing its count.
    fn into_raw(self) -> *const ();

    /// Turns the pointer of `into_raw` back into the reference.
    /// # Safety
    /// `raw` came from `into_raw` of this type and is converted back once.
    unsafe fn from_raw(raw: *const ()) -> Self;
}

// SAFETY: `Arc::into_raw` and `Arc::from_raw` keep the count, and the value stays in place while
// any `Arc` of it lives.
unsafe impl<T: Send + Sync + 'static> RawOwner for Arc<T> {
    #[inline]
    fn into_raw(self) -> *const () {
        Arc::into_raw(self).cast()
    }

    #[inline]
    unsafe fn from_raw(raw: *const ()) -> Arc<T> {
        // SAFETY: `raw` came from `into_raw` and is converted back once (contract of this
        // function).
        unsafe { Arc::from_raw(raw.cast()) }
    }
}

/// An owner with its type erased.
struct Owner {
    raw: *const (),
    /// Adds a count.
    add: unsafe fn(*const ()),
    /// Releases a count.
    release: unsafe fn(*const ()),
}

impl Owner {
    #[inline]
    fn new<O: RawOwner>(owner: O) -> Owner {
        unsafe fn add<O: RawOwner>(raw: *const ()) {
            // SAFETY: `raw` came from `O::into_raw`. `ManuallyDrop` does not release the count of
            // `raw`.
            let owner = ManuallyDrop::new(unsafe { O::from_raw(raw) });
            std::mem::forget(O::clone(&owner));
        }
        unsafe fn release<O: RawOwner>(raw: *const ()) {
            // SAFETY: `raw` came from `O::into_raw`, and the caller gives up one count.
            drop(unsafe { O::from_raw(raw) });
        }
        Owner { raw: owner.into_raw(), add: add::<O>, release: release::<O> }
    }
}

impl Clone for Owner {
    #[inline]
    fn clone(&self) -> Owner {
        // SAFETY: `add` belongs to the type of `raw`, and `self` holds a count of it.
        unsafe { (self.add)(self.raw) };
        Owner { raw: self.raw, add: self.add, release: self.release }
    }
}

impl Drop for Owner {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `release` belongs to the type of `raw`, and `self` holds a count of it.
        unsafe { (self.release)(self.raw) };
    }
}

/// The buffer of [`Parts`].
struct Shared {
    /// References to the buffer: one for each part, and one for `Parts` itself.
    parts: AtomicUsize,
    bytes: Vec<u8>,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("left", &(self.left - 1)).finish_non_exhaustive()
    }
}

/// A buffer that is handed out in parts. Each part keeps the whole buffer alive. [`Parts::of`]
/// counts all parts in advance, so [`Parts::take`] needs no atomic operation.
pub struct Parts {
    shared: NonNull<Shared>,
    /// Counts that this value still holds: its own, and one for each part not yet taken.
    left: usize,
}

impl Parts {
    /// Makes a buffer of `bytes` that can give up to `parts` parts. A drop of this value releases
    /// the counts of parts that nobody took.
    pub fn of(bytes: Vec<u8>, parts: usize) -> Parts {
        // `Parts` itself holds one count.
        let shared = Box::new(Shared { parts: AtomicUsize::new(parts + 1), bytes });
        Parts { shared: NonNull::from(Box::leak(shared)), left: parts + 1 }
    }

    /// Takes a part: the bytes of `range`.
    ///
    /// # Panics
    /// If `range` does not lie within the buffer, or all parts were taken.
    #[inline]
    pub fn take(&mut self, range: Range<usize>) -> PinnedBytes {
        assert!(self.left > 1, "one count for each part");
        // SAFETY: `self` holds a count, so the buffer lives. All holders only read it.
        let bytes = &unsafe { self.shared.as_ref() }.bytes[range];
        let (ptr, len) = (bytes.as_ptr(), bytes.len());
        self.left -= 1;
        let owner =
            Owner { raw: self.shared.as_ptr().cast_const().cast(), add: add_part, release: release_part };
        PinnedBytes { ptr, len, owner: Some(owner) }
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        // SAFETY: `self` holds `left` counts.
        unsafe { release_parts(self.shared.as_ptr(), self.left) };
    }
}

/// Adds a count.
/// # Safety
/// `raw` points to a `Shared`, and the caller holds a count of it.
unsafe fn add_part(raw: *const ()) {
    // SAFETY: `raw` points to a live `Shared` (contract of this function).
    let before = unsafe { &*raw.cast::<Shared>() }.parts.fetch_add(1, Ordering::Relaxed);
    // A count that wraps around would free bytes in use. `Arc` aborts for the same reason.
    if before > isize::MAX as usize {
        std::process::abort();
    }
}

/// Releases a count.
/// # Safety
/// `raw` points to a `Shared`, and the caller gives up a count of it.
unsafe fn release_part(raw: *const ()) {
    // SAFETY: the caller gives up one count; the `Shared` came from a `Box` and is not borrowed.
    unsafe { release_parts(raw.cast::<Shared>().cast_mut(), 1) };
}

/// Releases several counts at once.
/// # Safety
/// `shared` came from `Parts::of`, and the caller gives up `count` counts of it.
unsafe fn release_parts(shared: *mut Shared, count: usize) {
    // SAFETY: `shared` lives until its last count is released, and the caller still holds `count`.
    // With this ordering, all uses of the buffer by other holders come before its release.
    if unsafe { &*shared }.parts.fetch_sub(count, Ordering::AcqRel) == count {
        // SAFETY: this was the last count, so nothing else refers to the box.
        drop(unsafe { Box::from_raw(shared) });
    }
}

/// Bytes with the owner that keeps them alive. Clones share the owner.
#[derive(Clone)]
pub struct PinnedBytes {
    ptr: *const u8,
    len: usize,
    owner: Option<Owner>,
}

// SAFETY: the bytes are never written through `ptr` and the owner is `Send + Sync`.
unsafe impl Send for PinnedBytes {}
// SAFETY: the bytes are never written through `ptr`, the owner is `Send + Sync`, and shared access
// only reads.
unsafe impl Sync for PinnedBytes {}

impl PinnedBytes {
    /// No bytes and no owner.
    pub const fn empty() -> PinnedBytes {
        PinnedBytes { ptr: std::ptr::NonNull::<u8>::dangling().as_ptr(), len: 0, owner: None }
    }

    /// Takes ownership of a vector without copying its contents.
    pub fn from_vec(bytes: Vec<u8>) -> PinnedBytes {
        let len = bytes.len();
        PinnedBytes::slice_of(Arc::new(bytes), 0..len)
    }

    /// A copy of these bytes.
    pub fn copy_from(bytes: &[u8]) -> PinnedBytes {
        if bytes.is_empty() { PinnedBytes::empty() } else { PinnedBytes::from_vec(bytes.to_vec()) }
    }

    /// The bytes of `owner` in `range`. The result keeps `owner` alive.
    ///
    /// # Panics
    /// If `range` does not lie within the owner's bytes.
    pub fn slice_of<T: StableBytes>(owner: Arc<T>, range: Range<usize>) -> PinnedBytes {
        let bytes = &owner.stable_bytes()[range];
        let (ptr, len) = (bytes.as_ptr(), bytes.len());
        PinnedBytes { ptr, len, owner: Some(Owner::new(owner)) }
    }

    /// The bytes that `part` selects from `owner`. The result keeps `owner` alive.
    #[inline]
    pub fn part_of<O: RawOwner>(
        owner: O,
        part: impl for<'a> FnOnce(&'a O::Target) -> &'a [u8],
    ) -> PinnedBytes {
        let bytes = part(&owner);
        let (ptr, len) = (bytes.as_ptr(), bytes.len());
        // `part` works for a borrow of any lifetime, so `bytes` are valid for as long as the
        // referent stays in place. The result holds the owner: until it is dropped, nothing can
        // move the referent or borrow it mutably.
        PinnedBytes { ptr, len, owner: Some(Owner::new(owner)) }
    }

    /// `bytes`, kept alive by `owner`.
    ///
    /// # Safety
    /// `bytes` stay in place and unchanged until `owner`'s last reference is dropped.
    #[inline]
    pub unsafe fn with_owner<T: Send + Sync + 'static>(bytes: &[u8], owner: Arc<T>) -> PinnedBytes {
        PinnedBytes { ptr: bytes.as_ptr(), len: bytes.len(), owner: Some(Owner::new(owner)) }
    }

    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: by the invariant at the head of this file. The pointer of an empty value dangles,
        // but is aligned and not null.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }

    /// Part of these bytes, with the same owner.
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

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests;
