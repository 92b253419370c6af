//! Bytes and whatever keeps them alive.
//!
//! A value handed to the user is a few bytes inside a cached block or a memtable. `PinnedBytes` is
//! those bytes plus one reference to their owner: no copy, `Send`, valid for as long as it is held.
//!
//! Invariant: `ptr..ptr+len` lies in memory that `owner` keeps in place and unchanged until it is
//! dropped.

use crate::sync::atomic::{AtomicUsize, Ordering};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::sync::Arc;

/// An owner whose bytes stay where they are, unchanged, for as long as it lives.
///
/// # Safety
/// `stable_bytes` returns the same address and length at each call, nothing changes those bytes,
/// and moving the owner does not move them, until the owner is dropped.
pub unsafe trait StableBytes: Send + Sync + 'static {
    /// The bytes it owns.
    fn stable_bytes(&self) -> &[u8];
}

// SAFETY: the heap buffer of a Vec that nobody can reach mutably stays where it is, also when the
// Vec moves.
unsafe impl StableBytes for Vec<u8> {
    fn stable_bytes(&self) -> &[u8] {
        self
    }
}

/// A counted reference, such as an `Arc`, that fits into a pointer.
///
/// # Safety
/// What it leads to stays where it is, unchanged, while any of its clones lives, whether those move
/// or not. `from_raw(into_raw(x))` is `x`, and nothing happens in between.
pub unsafe trait RawOwner: Clone + Deref + Send + Sync + 'static {
    /// The reference as a pointer, which keeps the count.
    fn into_raw(self) -> *const ();

    /// # Safety
    /// `raw` came from `into_raw` of this type and is turned back once.
    unsafe fn from_raw(raw: *const ()) -> Self;
}

// SAFETY: an `Arc` in the way that it is meant to be used.
unsafe impl<T: Send + Sync + 'static> RawOwner for Arc<T> {
    #[inline]
    fn into_raw(self) -> *const () {
        Arc::into_raw(self).cast()
    }

    #[inline]
    unsafe fn from_raw(raw: *const ()) -> Arc<T> {
        // SAFETY: the caller's promise.
        unsafe { Arc::from_raw(raw.cast()) }
    }
}

/// An owner of a type that is no longer known.
struct Owner {
    raw: *const (),
    /// Adds a count.
    add: unsafe fn(*const ()),
    /// Gives one back.
    release: unsafe fn(*const ()),
}

impl Owner {
    #[inline]
    fn new<O: RawOwner>(owner: O) -> Owner {
        unsafe fn add<O: RawOwner>(raw: *const ()) {
            // SAFETY: `raw` is an `O` that is not ours to give back: a look at it.
            let owner = ManuallyDrop::new(unsafe { O::from_raw(raw) });
            std::mem::forget(O::clone(&owner));
        }
        unsafe fn release<O: RawOwner>(raw: *const ()) {
            // SAFETY: the count is the caller's to give back.
            drop(unsafe { O::from_raw(raw) });
        }
        Owner { raw: owner.into_raw(), add: add::<O>, release: release::<O> }
    }
}

impl Clone for Owner {
    #[inline]
    fn clone(&self) -> Owner {
        // SAFETY: `raw` is of the type that `add` is for, and `self` holds a count of it.
        unsafe { (self.add)(self.raw) };
        Owner { raw: self.raw, add: self.add, release: self.release }
    }
}

impl Drop for Owner {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `raw` is of the type that `release` is for, and the count is ours.
        unsafe { (self.release)(self.raw) };
    }
}

/// A buffer that is lent in parts.
struct Shared {
    /// How many parts hold it.
    parts: AtomicUsize,
    bytes: Vec<u8>,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("left", &(self.left - 1)).finish_non_exhaustive()
    }
}

/// A buffer whose parts are handed out one by one, each kept alive by itself. They are counted
/// beforehand, all at once.
pub struct Parts {
    shared: NonNull<Shared>,
    /// Counts that nobody has yet.
    left: usize,
}

impl Parts {
    /// For up to `parts` parts of `bytes`; the counts of those that are not taken are given back.
    pub fn of(bytes: Vec<u8>, parts: usize) -> Parts {
        // One is our own.
        let shared = Box::new(Shared { parts: AtomicUsize::new(parts + 1), bytes });
        Parts { shared: NonNull::from(Box::leak(shared)), left: parts + 1 }
    }

    /// The next part.
    ///
    /// # Panics
    /// If `range` does not lie within the buffer, or as many parts were taken as there are.
    #[inline]
    pub fn take(&mut self, range: Range<usize>) -> PinnedBytes {
        assert!(self.left > 1, "one count for each part");
        // SAFETY: it lives as long as a count of it is held, which this one does, and is only read.
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
        // SAFETY: these counts are ours.
        unsafe { release_parts(self.shared.as_ptr(), self.left) };
    }
}

/// # Safety
/// `raw` leads to a `Shared` of which a count is held.
unsafe fn add_part(raw: *const ()) {
    // SAFETY: the caller's promise.
    let before = unsafe { &*raw.cast::<Shared>() }.parts.fetch_add(1, Ordering::Relaxed);
    // As `Arc` has it: a count that wraps would free what is held.
    if before > isize::MAX as usize {
        std::process::abort();
    }
}

/// # Safety
/// `raw` leads to a `Shared` of which a count is held, which is given back.
unsafe fn release_part(raw: *const ()) {
    // SAFETY: the caller's promise; it was made from a `Box` and is not borrowed.
    unsafe { release_parts(raw.cast::<Shared>().cast_mut(), 1) };
}

/// # Safety
/// `shared` came from `Parts::of`, and `count` counts of it are given back.
unsafe fn release_parts(shared: *mut Shared, count: usize) {
    // SAFETY: the caller's promise: it lives until all counts are given back.
    // All that others did with it comes before its end.
    if unsafe { &*shared }.parts.fetch_sub(count, Ordering::AcqRel) == count {
        // SAFETY: nobody else has a count, so nobody else leads here.
        drop(unsafe { Box::from_raw(shared) });
    }
}

/// Bytes with the owner that keeps them alive. Cloning shares the owner.
#[derive(Clone)]
pub struct PinnedBytes {
    ptr: *const u8,
    len: usize,
    owner: Option<Owner>,
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
        PinnedBytes { ptr, len, owner: Some(Owner::new(owner)) }
    }

    /// What `part` shows of `owner`, which is kept alive.
    #[inline]
    pub fn part_of<O: RawOwner>(
        owner: O,
        part: impl for<'a> FnOnce(&'a O::Target) -> &'a [u8],
    ) -> PinnedBytes {
        let bytes = part(&owner);
        let (ptr, len) = (bytes.as_ptr(), bytes.len());
        // `part` is right for every lifetime, so also for one as long as this count of the owner is
        // held: during that time nobody can move what it leads to or borrow it mutably, so what it
        // lends stays in place and unchanged.
        PinnedBytes { ptr, len, owner: Some(Owner::new(owner)) }
    }

    /// `bytes`, kept alive by `owner`, whatever that is.
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
        // SAFETY: the invariant at the head of this file; an empty one has a dangling, aligned,
        // non-null pointer.
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

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests;
