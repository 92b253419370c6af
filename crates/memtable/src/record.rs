//! The bytes of one entry of a memtable, in the arena.
//!
//! In: sequence number, type, user key, value. Out: the internal key and the value, as slices of
//! the record.
//!
//! ```text
//! internal key length varint32 | value length varint32 | user key
//!     | (sequence << 8 | type) u64 LE | value | [checksum]
//! ```
//!
//! The memtable's options give the length of the checksum. It covers key, sequence number, type and
//! value (`base/entry_checksum.rs`).
//!
//! Invariants
//!  1. A writer completes a record before it stores the record's address anywhere. The record never
//!     changes after that.
//!  2. A `Record<'a>` points at a complete record, in memory that stays in place for `'a`.

use esker_base::ValueType;
use esker_base::types::SequenceNumber;
pub(crate) use esker_format::key::TRAILER_BYTES;
use esker_format::key::{InternalKeyComparator, pack};
use std::cmp::Ordering;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Size of a record in bytes, without its checksum.
pub(crate) fn encoded_len(key_len: usize, value_len: usize) -> usize {
    let internal_len = key_len + TRAILER_BYTES;
    varint_len(internal_len) + varint_len(value_len) + internal_len + value_len
}

fn varint_len(n: usize) -> usize {
    ((usize::BITS - (n | 1).leading_zeros()) as usize).div_ceil(7)
}

/// Writes from front to back into memory to which nothing else refers.
struct Pen<'a> {
    rest: &'a mut [MaybeUninit<u8>],
}

impl Pen<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        let (here, rest) = std::mem::take(&mut self.rest).split_at_mut(bytes.len());
        here.write_copy_of_slice(bytes);
        self.rest = rest;
    }

    #[inline]
    fn put_varint(&mut self, mut n: usize) {
        while n >= 0x80 {
            self.put(&[(n as u8) | 0x80]);
            n >>= 7;
        }
        self.put(&[n as u8]);
    }
}

/// A record in the arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Record<'a> {
    ptr: NonNull<u8>,
    arena: PhantomData<&'a [u8]>,
}

impl<'a> Record<'a> {
    /// The record at `ptr`.
    ///
    /// # Safety
    /// `ptr` points at a complete record that stays in place and unchanged for `'a`.
    #[inline]
    pub(crate) unsafe fn from_ptr(ptr: NonNull<u8>) -> Record<'a> {
        Record { ptr, arena: PhantomData }
    }

    /// Writes a record into the `len` bytes at `place`.
    ///
    /// # Safety
    /// Only the caller refers to those bytes. They stay in place for `'a`, and nothing writes to
    /// them after this call. `len` is [`encoded_len`] of the key and value.
    #[inline]
    pub(crate) unsafe fn write(
        place: NonNull<u8>,
        len: usize,
        seq: SequenceNumber,
        kind: ValueType,
        user_key: &[u8],
        value: &[u8],
    ) -> Record<'a> {
        // SAFETY: the caller owns `len` bytes at `place`; they need not be initialised.
        let rest = unsafe { std::slice::from_raw_parts_mut(place.as_ptr().cast::<MaybeUninit<u8>>(), len) };
        let mut pen = Pen { rest };
        pen.put_varint(user_key.len() + TRAILER_BYTES);
        pen.put_varint(value.len());
        pen.put(user_key);
        pen.put(&pack(seq, kind).to_le_bytes());
        pen.put(value);
        debug_assert!(pen.rest.is_empty(), "encoded_len is the number of written bytes");
        Record { ptr: place, arena: PhantomData }
    }

    /// Writes `checksum` behind the value.
    ///
    /// # Safety
    /// The record was just written to a place with at least `checksum.len()` more bytes, to which
    /// only the caller refers.
    pub(crate) unsafe fn write_checksum(self, checksum: &[u8]) {
        // SAFETY: the record has `self.len()` bytes, and the caller owns the bytes behind them
        // (contract of this function).
        let end = unsafe { self.ptr.as_ptr().add(self.len()) };
        // SAFETY: the caller owns `checksum.len()` bytes behind the record, and the source lies
        // elsewhere.
        unsafe { std::ptr::copy_nonoverlapping(checksum.as_ptr(), end, checksum.len()) };
    }

    /// The checksum behind the value: `len` bytes.
    ///
    /// # Safety
    /// The record was written with a checksum of `len` bytes.
    pub(crate) unsafe fn checksum(self, len: usize) -> &'a [u8] {
        self.bytes(self.len(), len)
    }

    /// Length of the record in bytes, without its checksum.
    fn len(self) -> usize {
        let (key_len, at) = self.varint(0);
        let (value_len, at) = self.varint(at);
        at + key_len + value_len
    }

    /// The address of the record.
    #[inline]
    pub(crate) fn as_ptr(self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    #[inline]
    fn byte(self, at: usize) -> u8 {
        // SAFETY: by invariant 2, `at` lies within the record's header: callers stop at the last
        // byte of a varint.
        let ptr = unsafe { self.ptr.as_ptr().add(at) };
        // SAFETY: the byte lies within the record, and nothing writes to a complete record
        // (invariant 1).
        unsafe { ptr.read() }
    }

    #[inline]
    fn varint(self, at: usize) -> (usize, usize) {
        let first = self.byte(at);
        if first < 0x80 { (first as usize, at + 1) } else { self.long_varint(at) }
    }

    fn long_varint(self, mut at: usize) -> (usize, usize) {
        let (mut n, mut shift) = (0usize, 0);
        loop {
            let byte = self.byte(at);
            at += 1;
            n |= ((byte & 0x7F) as usize) << shift;
            shift += 7;
            if byte < 0x80 {
                return (n, at);
            }
        }
    }

    #[inline]
    fn bytes(self, at: usize, len: usize) -> &'a [u8] {
        // SAFETY: `at` comes from the record's header; `len` too, or it is the length of the
        // checksum behind the value. So this range lies within the record (invariant 2).
        let ptr = unsafe { self.ptr.as_ptr().add(at) };
        // SAFETY: the bytes lie within the record, and nothing writes to them (invariant 1).
        unsafe { std::slice::from_raw_parts(ptr, len) }
    }

    /// The internal key: user key and trailer.
    #[inline]
    pub(crate) fn internal_key(self) -> &'a [u8] {
        let (key_len, at) = self.varint(0);
        let (_, at) = self.varint(at);
        self.bytes(at, key_len)
    }

    /// The internal key and the value.
    #[inline]
    pub(crate) fn key_value(self) -> (&'a [u8], &'a [u8]) {
        let (key_len, at) = self.varint(0);
        let (value_len, at) = self.varint(at);
        (self.bytes(at, key_len), self.bytes(at + key_len, value_len))
    }

    /// The user key and the trailer, as [`split`] returns them.
    #[inline]
    pub(crate) fn parts(self) -> (&'a [u8], u64) {
        split(self.internal_key())
    }

    /// The user key.
    #[inline]
    pub(crate) fn user_key(self) -> &'a [u8] {
        self.parts().0
    }
}

/// Splits an internal key into user key and trailer. The trailer packs sequence number and type
/// into one number.
#[inline]
pub(crate) fn split(internal_key: &[u8]) -> (&[u8], u64) {
    match internal_key.split_last_chunk::<TRAILER_BYTES>() {
        Some((user_key, trailer)) => (user_key, u64::from_le_bytes(*trailer)),
        None => (internal_key, 0),
    }
}

/// The target of a search: a position in the order of internal keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) user_key: &'a [u8],
    pub(crate) trailer: u64,
}

impl<'a> Target<'a> {
    /// The position of this internal key.
    #[inline]
    pub(crate) fn new(internal_key: &'a [u8]) -> Target<'a> {
        let (user_key, trailer) = split(internal_key);
        Target { user_key, trailer }
    }

    /// The position of this record.
    #[inline]
    pub(crate) fn of(record: Record<'a>) -> Target<'a> {
        let (user_key, trailer) = record.parts();
        Target { user_key, trailer }
    }

    /// Compares `record` with the target: `Less` if `record` comes before the target.
    #[inline]
    pub(crate) fn cmp_record(&self, icmp: &InternalKeyComparator, record: Record<'_>) -> Ordering {
        let (user_key, trailer) = record.parts();
        icmp.compare_user_keys(user_key, self.user_key).then_with(|| self.trailer.cmp(&trailer))
    }
}

#[cfg(test)]
mod tests;
