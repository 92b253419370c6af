//! Internal keys: a user key with the sequence number and type of one write.
//!
//! In: user key, sequence number, type. Out: the bytes of the internal key, and back. Source:
//! RocksDB `db/dbformat.h`.
//!
//! `user key | (sequence << 8 | type) u64 little-endian`
//!
//! Invariants
//!  1. Order: by user key, ascending in the family's comparator. Then by the last 8 bytes, as a
//!     number, descending: the newest write comes first.
//!  2. A parsed key has a known type. Bounds of files in a MANIFEST are not parsed: old bugs of
//!     RocksDB wrote bounds with unknown types.
//!
//! Page: `docs/format/internal-key.md`.

use esker_base::comparator::{ComparatorRef, KeyOrder};
use esker_base::{Error, Result, SequenceNumber, ValueType};
use std::cmp::Ordering;
use std::sync::Arc;

/// Bytes of sequence number and type.
pub const TRAILER_BYTES: usize = 8;

/// The limit on the bytes of a user key and its value together, or of a range deletion's begin and
/// end.
///
/// Write batches check this limit, so no entry above it reaches a WAL. RocksDB computes the length
/// of a memtable entry in 32 bits. Besides key and value, the entry holds two lengths, a trailer
/// and a checksum: at most 64 bytes.
pub const MAX_ENTRY_BYTES: usize = u32::MAX as usize - 64;

/// Whether a key and a value of these lengths fit into one entry.
#[inline]
pub const fn fits_entry(key_bytes: usize, value_bytes: usize) -> bool {
    key_bytes.saturating_add(value_bytes) <= MAX_ENTRY_BYTES
}

/// The error for an entry that is longer than [`MAX_ENTRY_BYTES`].
#[cold]
pub fn entry_too_long(key_bytes: usize, value_bytes: usize) -> Error {
    Error::invalid_argument(format!(
        "a key of {key_bytes} bytes with a value of {value_bytes} bytes is too large: together they may have \
         {MAX_ENTRY_BYTES} bytes"
    ))
}

/// The trailer of a table's largest key if that key is the exclusive end of a range tombstone:
/// `(largest sequence number, RangeDeletion)`.
pub const RANGE_END_SENTINEL: u64 = pack(SequenceNumber::MAX, ValueType::RangeDeletion);

/// Packs sequence number and type into one number, as stored.
#[inline]
pub const fn pack(sequence: SequenceNumber, value_type: ValueType) -> u64 {
    (sequence.0 << 8) | value_type as u64
}

/// A parsed internal key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParsedInternalKey<'a> {
    /// The user key, with its timestamp if the family has timestamps.
    pub user_key: &'a [u8],
    /// The sequence number of the write.
    pub sequence: SequenceNumber,
    /// The type of the write.
    pub value_type: ValueType,
}

impl<'a> ParsedInternalKey<'a> {
    /// Parses an internal key.
    /// # Errors
    /// `Corruption` if it is shorter than 8 bytes or its type is unknown.
    #[inline]
    pub fn parse(key: &'a [u8]) -> Result<ParsedInternalKey<'a>> {
        let Some((user_key, trailer)) = key.split_last_chunk::<TRAILER_BYTES>() else {
            return Err(short_key(key));
        };
        let packed = u64::from_le_bytes(*trailer);
        match ValueType::from_u8((packed & 0xFF) as u8) {
            Some(value_type) => {
                Ok(ParsedInternalKey { user_key, sequence: SequenceNumber(packed >> 8), value_type })
            }
            None => Err(unknown_type(key)),
        }
    }

    /// Appends the encoded key to `out`.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        append_internal_key(out, self.user_key, self.sequence, self.value_type);
    }
}

#[cold]
fn short_key(key: &[u8]) -> Error {
    Error::corruption(format!("internal key of {} bytes is shorter than its 8-byte trailer", key.len()))
}

#[cold]
fn unknown_type(key: &[u8]) -> Error {
    Error::corruption(format!("internal key '{}' has an unknown type", key.escape_ascii()))
}

/// Appends an internal key.
#[inline]
pub fn append_internal_key(
    out: &mut Vec<u8>,
    user_key: &[u8],
    sequence: SequenceNumber,
    value_type: ValueType,
) {
    out.reserve(user_key.len() + TRAILER_BYTES);
    out.extend_from_slice(user_key);
    out.extend_from_slice(&pack(sequence, value_type).to_le_bytes());
}

/// Makes an internal key.
pub fn internal_key(user_key: &[u8], sequence: SequenceNumber, value_type: ValueType) -> Vec<u8> {
    let mut out = Vec::with_capacity(user_key.len() + TRAILER_BYTES);
    append_internal_key(&mut out, user_key, sequence, value_type);
    out
}

/// The target of a seek for the newest version of `user_key` that a reader at `sequence` sees. The
/// seek key sorts directly before that version.
pub fn seek_key(user_key: &[u8], sequence: SequenceNumber) -> Vec<u8> {
    internal_key(user_key, sequence, ValueType::SEEK)
}

/// The user key of an internal key. A key that is too short is returned whole.
#[inline]
pub fn user_key(internal_key: &[u8]) -> &[u8] {
    internal_key.split_last_chunk::<TRAILER_BYTES>().map_or(internal_key, |(user, _)| user)
}

/// The packed sequence and type of an internal key; 0 if it is too short.
#[inline]
pub fn trailer(internal_key: &[u8]) -> u64 {
    internal_key.last_chunk::<TRAILER_BYTES>().map_or(0, |t| u64::from_le_bytes(*t))
}

/// Compares the internal keys of a family.
///
/// Cheap to clone. Built-in orders are compared inline.
#[derive(Clone, Debug)]
pub struct InternalKeyComparator {
    user: ComparatorRef,
    order: KeyOrder,
    timestamp_size: usize,
    timestamps: Option<Arc<Timestamps>>,
}

/// Facts about the timestamps of a comparator's keys.
#[derive(Debug)]
struct Timestamps {
    /// The order of keys without timestamps.
    plain: Option<ComparatorRef>,
    min: Vec<u8>,
    max: Vec<u8>,
}

impl InternalKeyComparator {
    /// Makes the order of a family's internal keys. `user` is the order of its user keys.
    pub fn new(user: ComparatorRef) -> InternalKeyComparator {
        let (order, timestamp_size) = (user.order(), user.timestamp_size());
        let timestamps = (timestamp_size > 0).then(|| {
            let (min, max) = (user.min_timestamp(), user.max_timestamp());
            Arc::new(Timestamps { plain: user.without_timestamp(), min, max })
        });
        InternalKeyComparator { user, order, timestamp_size, timestamps }
    }

    /// Bytes of the timestamp at the end of each user key; 0 if keys have none.
    #[inline]
    pub fn timestamp_size(&self) -> usize {
        self.timestamp_size
    }

    /// The order of keys without their timestamps. If keys have no timestamps, a copy of this
    /// value.
    #[must_use]
    pub fn without_timestamp(&self) -> InternalKeyComparator {
        self.plain().cloned().map_or_else(|| self.clone(), InternalKeyComparator::new)
    }

    #[inline]
    fn plain(&self) -> Option<&ComparatorRef> {
        self.timestamps.as_ref().and_then(|timestamps| timestamps.plain.as_ref())
    }

    /// The oldest possible timestamp; empty if keys have none.
    #[inline]
    pub fn min_timestamp(&self) -> &[u8] {
        self.timestamps.as_ref().map_or(&[], |timestamps| &timestamps.min)
    }

    /// The newest possible timestamp; empty if keys have none.
    #[inline]
    pub fn max_timestamp(&self) -> &[u8] {
        self.timestamps.as_ref().map_or(&[], |timestamps| &timestamps.max)
    }

    /// The user key of the first possible version of `plain_key`: with the newest timestamp.
    /// `plain_key` has no timestamp.
    pub fn first_version(&self, plain_key: &[u8]) -> Vec<u8> {
        [plain_key, self.max_timestamp()].concat()
    }

    /// The user key of the last possible version of `plain_key`: with the oldest timestamp.
    /// `plain_key` has no timestamp.
    pub fn last_version(&self, plain_key: &[u8]) -> Vec<u8> {
        [plain_key, self.min_timestamp()].concat()
    }

    /// Compares timestamps: `Less` if `a` is older. An empty timestamp is an unset bound, and older
    /// than all others.
    #[inline]
    pub fn compare_timestamps(&self, a: &[u8], b: &[u8]) -> Ordering {
        match (a, b) {
            ([], _) | (_, []) => a.len().cmp(&b.len()),
            _ => self.user.compare_timestamp(a, b),
        }
    }

    /// Splits a user key into the key without its timestamp, and the timestamp.
    #[inline]
    pub fn split_timestamp<'a>(&self, user_key: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        let at = user_key.len().saturating_sub(self.timestamp_size);
        user_key.split_at_checked(at).unwrap_or((user_key, &[]))
    }

    /// The comparator of user keys.
    pub fn user_comparator(&self) -> &ComparatorRef {
        &self.user
    }

    /// The built-in order of the user keys, or `Custom`.
    #[inline]
    pub fn order(&self) -> KeyOrder {
        self.order
    }

    /// Compares user keys.
    #[inline]
    pub fn compare_user_keys(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self.order {
            KeyOrder::Bytewise => a.cmp(b),
            KeyOrder::ReverseBytewise => b.cmp(a),
            KeyOrder::Custom => self.user.compare(a, b),
        }
    }

    /// Compares user keys without their timestamps: all versions of a key are equal.
    #[inline]
    pub fn compare_plain_keys(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self.plain() {
            None => self.compare_user_keys(a, b),
            Some(plain) => plain.compare(self.split_timestamp(a).0, self.split_timestamp(b).0),
        }
    }

    /// Whether two user keys are the same.
    #[inline]
    pub fn same_user_key(&self, a: &[u8], b: &[u8]) -> bool {
        match self.order {
            KeyOrder::Custom => self.user.equal(a, b),
            _ => is_same(a, b),
        }
    }

    /// Compares internal keys.
    #[inline]
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.compare_user_keys(user_key(a), user_key(b)).then_with(|| trailer(b).cmp(&trailer(a)))
    }
}

/// Whether the bytes are equal. Made for short keys that an iterator has just copied.
///
/// The processor still holds the copied bytes in its store buffer. The wide loads of `memcmp` then
/// wait until that buffer is empty, which took three quarters of the time of a step. Loads of one
/// byte or one word do not wait. Neighbouring keys mostly differ in the last byte, so this function
/// compares it first.
#[inline]
fn is_same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() || a.last() != b.last() {
        return false;
    }
    let ((words_a, rest_a), (words_b, rest_b)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    words_a.iter().zip(words_b).all(|(a, b)| a[7] == b[7])
        && words_a.iter().zip(words_b).all(|(a, b)| u64::from_le_bytes(*a) == u64::from_le_bytes(*b))
        && rest_a.iter().zip(rest_b).all(|(a, b)| a == b)
}

impl Default for InternalKeyComparator {
    fn default() -> InternalKeyComparator {
        InternalKeyComparator::new(std::sync::Arc::new(esker_base::comparator::BytewiseComparator))
    }
}

/// The target of a point read: a user key, and the sequence number of the reader.
#[derive(Clone, Debug)]
pub struct LookupKey {
    len: usize,
    /// The internal key, if it has at most [`SHORT_LOOKUP_KEY`] bytes.
    short: [u8; SHORT_LOOKUP_KEY],
    /// A longer internal key.
    long: Option<Box<[u8]>>,
}

/// The longest internal key that a `LookupKey` holds without an allocation, in bytes.
const SHORT_LOOKUP_KEY: usize = 96;

impl Default for LookupKey {
    /// An empty key, until [`set`](Self::set) is called.
    #[inline]
    fn default() -> LookupKey {
        LookupKey { len: 0, short: [0; SHORT_LOOKUP_KEY], long: None }
    }
}

impl LookupKey {
    /// Changes key and sequence number. Costs less than [`new`](Self::new) if the key is short.
    #[inline]
    pub fn set(&mut self, user_key: &[u8], sequence: SequenceNumber) {
        let len = user_key.len() + TRAILER_BYTES;
        if let Some((to, trailer)) = self.short.get_mut(..len).and_then(<[u8]>::split_last_chunk_mut) {
            to.copy_from_slice(user_key);
            *trailer = pack(sequence, ValueType::SEEK).to_le_bytes();
            (self.len, self.long) = (len, None);
        } else {
            *self = LookupKey::new(user_key, sequence);
        }
    }

    /// The target of a read that sees versions up to and including `sequence`.
    #[inline]
    pub fn new(user_key: &[u8], sequence: SequenceNumber) -> LookupKey {
        let trailer = pack(sequence, ValueType::SEEK).to_le_bytes();
        let len = user_key.len() + TRAILER_BYTES;
        let mut short = [0; SHORT_LOOKUP_KEY];
        if let Some((to, rest)) = short.split_at_mut_checked(user_key.len())
            && let Some(end) = rest.first_chunk_mut::<TRAILER_BYTES>()
        {
            to.copy_from_slice(user_key);
            *end = trailer;
            return LookupKey { len, short, long: None };
        }
        let long = seek_key(user_key, sequence).into_boxed_slice();
        LookupKey { len, short, long: Some(long) }
    }
    /// The user key.
    #[inline]
    pub fn user_key(&self) -> &[u8] {
        user_key(self.internal_key())
    }
    /// The key to seek to.
    #[inline]
    pub fn internal_key(&self) -> &[u8] {
        match &self.long {
            None => self.short.get(..self.len).unwrap_or_default(),
            Some(long) => long,
        }
    }
    /// The newest sequence number that the read sees.
    #[inline]
    pub fn sequence(&self) -> SequenceNumber {
        SequenceNumber(trailer(self.internal_key()) >> 8)
    }
}
