//! Cuts: positions between keys, where ranges start and end, and their order.
//!
//! In: endpoints as callers name them ([`Endpoint`]) and a comparator. Out: [`Cut`]s, which lie
//! between keys, and their [`CutOrder`]. Every range is therefore half open (`lo` to `hi`) and can
//! be cut anywhere without a gap or an overlap.
//!
//! Cuts around a key, in ascending order of the comparator:
//!
//! ```text
//! Infimum(p)    before every key that starts with p
//!   Before(k)     just before k            the point k is Before(k)..After(k)
//!   After(k)      just after k
//! Supremum(p)   after every key that starts with p
//! ```
//!
//! A descending comparator needs no special case: infimum and supremum follow the comparator's
//! order, not the order of the bytes. Source: RocksDB `utilities/transaction_db.h` (`Endpoint`).
//!
//! Invariants
//!  1. The order of cuts without `Infimum` and `Supremum` is total for every comparator. With them
//!     it is total if the comparator keeps keys with a common prefix together, as both built-in
//!     comparators do.
//!  2. `a < b` implies `head(a) <= head(b)`.

use crate::key::{KeyBuf, head_of};
use esker_base::comparator::{Comparator, ComparatorRef, KeyOrder};
use std::cmp::Ordering;
use std::fmt;

/// One end of a closed range: the range includes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Endpoint<'a> {
    /// Before every key.
    Min,
    /// A key.
    Key(&'a [u8]),
    /// Before every key that starts with these bytes, in the comparator's order.
    Infimum(&'a [u8]),
    /// After every key that starts with these bytes, in the comparator's order.
    Supremum(&'a [u8]),
    /// After every key.
    Max,
}

impl<'a> Endpoint<'a> {
    /// RocksDB's `Endpoint(slice, inf_suffix)` for an ascending comparator.
    pub const fn from_slice(slice: &'a [u8], inf_suffix: bool) -> Endpoint<'a> {
        if inf_suffix { Endpoint::Supremum(slice) } else { Endpoint::Key(slice) }
    }

    #[inline]
    fn cut(self, place_of_key: CutPosition) -> Cut<'a> {
        match self {
            Endpoint::Min => Cut { key: &[], place: CutPosition::Min },
            Endpoint::Key(key) => Cut { key, place: place_of_key },
            Endpoint::Infimum(key) => Cut { key, place: CutPosition::Infimum },
            Endpoint::Supremum(key) => Cut { key, place: CutPosition::Supremum },
            Endpoint::Max => Cut { key: &[], place: CutPosition::Max },
        }
    }
}

/// An end of a range, owned, as dumps and reports show it.
#[derive(Clone, PartialEq, Eq)]
pub struct EndpointBuf {
    /// The position relative to `key`.
    pub place: CutPosition,
    /// The key bytes of the cut; empty for `Min` and `Max`.
    pub key: Vec<u8>,
}

/// Shows the key as quoted text, because people read dumps.
impl fmt::Debug for EndpointBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{self}'")
    }
}

impl fmt::Display for EndpointBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key.escape_ascii();
        match self.place {
            CutPosition::Min => f.write_str("min"),
            CutPosition::Infimum => write!(f, "infimum({key})"),
            CutPosition::Before | CutPosition::After => write!(f, "{key}"),
            CutPosition::Supremum => write!(f, "supremum({key})"),
            CutPosition::Max => f.write_str("max"),
        }
    }
}

/// A position relative to a key, in ascending order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum CutPosition {
    /// Before everything.
    Min,
    /// Before every key with the prefix.
    Infimum,
    /// Just before the key: as the left end of a range, the key belongs to it.
    Before,
    /// Just after the key: as the right end of a range, the key belongs to it.
    After,
    /// After every key with the prefix.
    Supremum,
    /// After everything.
    Max,
}

impl CutPosition {
    const ALL: [CutPosition; 6] = [
        CutPosition::Min,
        CutPosition::Infimum,
        CutPosition::Before,
        CutPosition::After,
        CutPosition::Supremum,
        CutPosition::Max,
    ];

    /// The position whose `position as u8` is `number`.
    pub(crate) fn from_u8(number: u8) -> Option<CutPosition> {
        CutPosition::ALL.get(usize::from(number)).copied()
    }

    #[inline]
    fn is_beside_key(self) -> bool {
        matches!(self, CutPosition::Before | CutPosition::After)
    }
}

/// A position between keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) place: CutPosition,
}

impl Cut<'_> {
    pub(crate) fn to_buf(self) -> CutBuf {
        CutBuf { key: KeyBuf::new(self.key), place: self.place }
    }

    pub(crate) fn to_endpoint(self) -> EndpointBuf {
        EndpointBuf { place: self.place, key: self.key.to_vec() }
    }
}

/// An owned [`Cut`].
#[derive(Clone, Debug)]
pub(crate) struct CutBuf {
    pub(crate) key: KeyBuf,
    pub(crate) place: CutPosition,
}

impl CutBuf {
    #[inline]
    pub(crate) fn as_cut(&self) -> Cut<'_> {
        Cut { key: self.key.as_slice(), place: self.place }
    }

    pub(crate) const MIN: CutBuf =
        CutBuf { key: KeyBuf::Inline { len: 0, bytes: [0; crate::key::INLINE] }, place: CutPosition::Min };
    pub(crate) const MAX: CutBuf =
        CutBuf { key: KeyBuf::Inline { len: 0, bytes: [0; crate::key::INLINE] }, place: CutPosition::Max };
}

/// From `lo` up to `hi`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeySpan<'a> {
    pub(crate) lo: Cut<'a>,
    pub(crate) hi: Cut<'a>,
}

impl<'a> KeySpan<'a> {
    #[inline]
    pub(crate) fn point(key: &'a [u8]) -> KeySpan<'a> {
        KeySpan { lo: Cut { key, place: CutPosition::Before }, hi: Cut { key, place: CutPosition::After } }
    }

    /// The span from `left` to `right`, both included. Does not check their order.
    pub(crate) fn closed(left: Endpoint<'a>, right: Endpoint<'a>) -> KeySpan<'a> {
        KeySpan { lo: left.cut(CutPosition::Before), hi: right.cut(CutPosition::After) }
    }

    /// Whether the span has the form of a single key.
    #[inline]
    pub(crate) fn is_point(&self) -> bool {
        let is_one_key = || std::ptr::eq(self.lo.key, self.hi.key) || self.lo.key == self.hi.key;
        self.lo.place == CutPosition::Before && self.hi.place == CutPosition::After && is_one_key()
    }

    pub(crate) fn to_buf(self) -> KeySpanBuf {
        KeySpanBuf { lo: self.lo.to_buf(), hi: self.hi.to_buf() }
    }
}

/// An owned [`KeySpan`].
#[derive(Clone, Debug)]
pub(crate) struct KeySpanBuf {
    pub(crate) lo: CutBuf,
    pub(crate) hi: CutBuf,
}

impl KeySpanBuf {
    pub(crate) fn as_span(&self) -> KeySpan<'_> {
        KeySpan { lo: self.lo.as_cut(), hi: self.hi.as_cut() }
    }
}

/// The order of a family's cuts.
#[derive(Clone, Debug)]
pub(crate) enum CutOrder {
    /// Unsigned bytes, ascending. Keys come without timestamps.
    Bytewise,
    /// Unsigned bytes, descending.
    Reverse,
    /// The comparator's order of keys without timestamps.
    Custom(ComparatorRef),
}

impl CutOrder {
    /// The order of keys without timestamps under `comparator`.
    pub(crate) fn of(comparator: &ComparatorRef) -> CutOrder {
        match comparator.order() {
            KeyOrder::Bytewise => CutOrder::Bytewise,
            KeyOrder::ReverseBytewise => CutOrder::Reverse,
            KeyOrder::Custom if comparator.name() == "leveldb.BytewiseComparator.u64ts" => CutOrder::Bytewise,
            KeyOrder::Custom => CutOrder::Custom(comparator.clone()),
        }
    }

    #[inline]
    fn compare_keys(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            CutOrder::Bytewise => compare_bytes(a, b),
            CutOrder::Reverse => compare_bytes(b, a),
            CutOrder::Custom(comparator) => compare_custom(&**comparator, a, b),
        }
    }

    #[inline]
    pub(crate) fn cmp(&self, a: Cut<'_>, b: Cut<'_>) -> Ordering {
        if a.place.is_beside_key() && b.place.is_beside_key() {
            return self.compare_keys(a.key, b.key).then(a.place.cmp(&b.place));
        }
        self.cmp_far(a, b)
    }

    /// [`cmp`](Self::cmp) where at least one cut is not beside a key.
    fn cmp_far(&self, a: Cut<'_>, b: Cut<'_>) -> Ordering {
        let is_end = |place| matches!(place, CutPosition::Min | CutPosition::Max);
        if is_end(a.place) || is_end(b.place) || a.key == b.key {
            return a.place.cmp(&b.place);
        }
        if !a.place.is_beside_key() && b.key.starts_with(a.key) {
            return if a.place == CutPosition::Infimum { Ordering::Less } else { Ordering::Greater };
        }
        if !b.place.is_beside_key() && a.key.starts_with(b.key) {
            return if b.place == CutPosition::Infimum { Ordering::Greater } else { Ordering::Less };
        }
        self.compare_keys(a.key, b.key).then(a.place.cmp(&b.place))
    }

    #[inline]
    pub(crate) fn overlap(&self, a: KeySpan<'_>, b: KeySpan<'_>) -> bool {
        self.cmp(a.lo, b.hi).is_lt() && self.cmp(b.lo, a.hi).is_lt()
    }

    pub(crate) fn covers(&self, outer: KeySpan<'_>, inner: KeySpan<'_>) -> bool {
        self.cmp(outer.lo, inner.lo).is_le() && self.cmp(inner.hi, outer.hi).is_le()
    }

    pub(crate) fn is_empty(&self, span: KeySpan<'_>) -> bool {
        self.cmp(span.lo, span.hi).is_ge()
    }

    pub(crate) fn min<'a>(&self, a: Cut<'a>, b: Cut<'a>) -> Cut<'a> {
        if self.cmp(a, b).is_le() { a } else { b }
    }

    pub(crate) fn max<'a>(&self, a: Cut<'a>, b: Cut<'a>) -> Cut<'a> {
        if self.cmp(a, b).is_ge() { a } else { b }
    }

    /// An integer that decides most comparisons (invariant 2).
    #[inline]
    pub(crate) fn head(&self, cut: Cut<'_>) -> u64 {
        let zeros = head_of(cut.key);
        // The unknown bytes after a prefix, all ones.
        let ones = || if cut.key.len() >= 8 { zeros } else { zeros | (u64::MAX >> (8 * cut.key.len())) };
        match (self, cut.place) {
            (CutOrder::Custom(_), _) | (_, CutPosition::Min) => 0,
            (_, CutPosition::Max) => u64::MAX,
            (CutOrder::Bytewise, CutPosition::Supremum) => ones(),
            (CutOrder::Bytewise, _) => zeros,
            (CutOrder::Reverse, CutPosition::Infimum) => !ones(),
            (CutOrder::Reverse, _) => !zeros,
        }
    }
}

/// `a.cmp(b)`; calls no comparison function if the first eight bytes decide.
#[inline]
fn compare_bytes(a: &[u8], b: &[u8]) -> Ordering {
    head_of(a).cmp(&head_of(b)).then_with(|| a.cmp(b))
}

/// Compares without regard to timestamps: a comparator that expects them gets the same one twice.
fn compare_custom(comparator: &dyn Comparator, a: &[u8], b: &[u8]) -> Ordering {
    match comparator.timestamp_size() {
        0 => comparator.compare(a, b),
        size => {
            let stamped = |key: &[u8]| [key, &vec![0; size]].concat();
            comparator.compare(&stamped(a), &stamped(b))
        }
    }
}

#[cfg(test)]
mod tests;
