//! Heads: 8 bytes of a key behind the node's common prefix, compared as numbers before any record
//! is read.

use super::MAX_PREFIX;
use crate::record::Record;
use esker_base::comparator::{KeyOrder, head};
use std::ptr::NonNull;

/// The common prefix of two keys, up to the length that a node can store.
pub(super) fn shared_prefix<'a>(a: &'a [u8], b: &[u8]) -> &'a [u8] {
    let len = a.iter().zip(b).take(MAX_PREFIX).take_while(|(a, b)| a == b).count();
    &a[..len]
}

/// The prefix without its last byte, so that keys with another last byte fit as well.
pub(super) fn spare_one(prefix: &[u8]) -> &[u8] {
    prefix.split_last().map_or(&[], |(_, rest)| rest)
}

/// The user key of the record at an address that was read from a slot.
pub(super) fn key_at<'t>(record: *mut u8) -> &'t [u8] {
    let place = NonNull::new(record).expect("a used slot has a record");
    // SAFETY: slots hold addresses of complete records, which stay for as long as the arena.
    unsafe { Record::from_ptr(place) }.user_key()
}

/// 8 bytes of the key behind `prefix`, as a number in the order of the keys. A key without the
/// prefix gets the least or the greatest number, by the side on which it lies. In a custom order
/// all keys get 0.
#[inline]
pub(super) fn head_after(prefix: &[u8], order: KeyOrder, user_key: &[u8]) -> u64 {
    let head = if user_key.starts_with(prefix) {
        head(user_key, prefix.len())
    } else if user_key < prefix {
        0
    } else {
        u64::MAX
    };
    match order {
        KeyOrder::Bytewise => head,
        KeyOrder::ReverseBytewise => !head,
        KeyOrder::Custom => 0,
    }
}

/// [`head_after`] for the first `len` bytes of `prefix`, with a fast path for bytewise order.
#[inline(always)]
pub(super) fn head_in_node(prefix: &[u8; MAX_PREFIX], len: usize, order: KeyOrder, user_key: &[u8]) -> u64 {
    match user_key.first_chunk() {
        Some(start) if order == KeyOrder::Bytewise && begins_with(start, prefix, len) => head(user_key, len),
        _ => head_after(&prefix[..len], order, user_key),
    }
}

/// Whether `start`, the first 16 bytes of a key, begins with the first `len` bytes of `prefix`.
/// False if `len` is above 16. A call to a comparison function would take as long as the search
/// that follows.
#[inline(always)]
fn begins_with(start: &[u8; 16], prefix: &[u8; MAX_PREFIX], len: usize) -> bool {
    let word = |of: &[u8], at: usize| of[at..].first_chunk().map_or(0, |chunk| u64::from_be_bytes(*chunk));
    let behind = |len: usize| u64::MAX.unbounded_shr(8 * len as u32);
    let first = (word(start, 0) ^ word(prefix, 0)) & !behind(len);
    let second = (word(start, 8) ^ word(prefix, 8)) & !behind(len.saturating_sub(8));
    len <= 16 && first | second == 0
}

#[inline]
pub(super) fn prefetch_record(record: *mut u8) {
    // Header, key and the start of the value take about 100 bytes, which mostly lie in three lines.
    prefetch_line(record);
    prefetch_line(record.wrapping_add(64));
    prefetch_line(record.wrapping_add(128));
}

#[inline]
pub(crate) fn prefetch_line(_address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch of any address only affects caches.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(_address.cast());
    }
}
