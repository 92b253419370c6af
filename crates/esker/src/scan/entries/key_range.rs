//! Ranges of keys, and their form for a cursor.
//!
//! In: Rust's ranges, or a prefix; the order of a family's keys. Out: the bounds of a cursor. In an
//! order without a direct successor of each key, an end also needs a check for each row.

use super::EntryCursor;
use crate::options::ReadOptions;
use esker_base::comparator::KeyOrder;
use esker_base::{Error, Result};
use esker_format::key::InternalKeyComparator;
use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// A range of keys: `..`, `a..`, `..b`, `..=b`, `a..b`, `a..=b`, or a pair of [`Bound`]s.
///
/// An end is any type that gives bytes. The family's comparator gives the order; a range that ends
/// before it begins is empty.
///
/// ```
/// use std::ops::Bound;
/// # let dir = esker_testkit::TempDir::new("doc");
/// # let db = esker::Db::open_default(dir.path())?;
/// # db.put("a", "1")?;
/// # db.put("b", "2")?;
///
/// let behind_a = (Bound::Excluded("a"), Bound::Unbounded);
/// assert_eq!(db.range(behind_a).count(), 1);
/// assert_eq!(db.range(vec![b'a']..=vec![b'b']).count(), 2);
/// # Ok::<_, esker::Error>(())
/// ```
pub trait KeyRange: sealed::Sealed {
    /// Both ends.
    #[doc(hidden)]
    fn ends(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>);
}

mod sealed {
    /// Only ranges of the standard library are ranges of keys.
    pub trait Sealed {}
}

fn bytes(bound: Bound<impl AsRef<[u8]>>) -> Bound<Vec<u8>> {
    bound.map(|key| key.as_ref().to_vec())
}

macro_rules! key_ranges {
    ($( $range:ident $(<$key:ident>)?, $self:ident => $ends:expr; )*) => { $(
        impl $(<$key: AsRef<[u8]>>)? sealed::Sealed for $range $(<$key>)? {}
        impl $(<$key: AsRef<[u8]>>)? KeyRange for $range $(<$key>)? {
            fn ends($self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
                $ends
            }
        }
    )* };
}

key_ranges! {
    RangeFull, self => (Bound::Unbounded, Bound::Unbounded);
    Range<K>, self => (bytes(Bound::Included(self.start)), bytes(Bound::Excluded(self.end)));
    RangeFrom<K>, self => (bytes(Bound::Included(self.start)), Bound::Unbounded);
    RangeTo<K>, self => (Bound::Unbounded, bytes(Bound::Excluded(self.end)));
    RangeToInclusive<K>, self => (Bound::Unbounded, bytes(Bound::Included(self.end)));
    RangeInclusive<K>, self => {
        let (start, end) = self.into_inner();
        (bytes(Bound::Included(start)), bytes(Bound::Included(end)))
    };
}

impl<K: AsRef<[u8]>> sealed::Sealed for (Bound<K>, Bound<K>) {}
impl<K: AsRef<[u8]>> KeyRange for (Bound<K>, Bound<K>) {
    fn ends(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        (bytes(self.0), bytes(self.1))
    }
}

/// A range in the form that a cursor reads.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Span {
    /// The first key of the cursor's bounds.
    lower: Option<Vec<u8>>,
    /// The key before which the cursor's bounds end.
    upper: Option<Vec<u8>>,
    /// The range begins after this key, which does not belong to it.
    after: Option<Vec<u8>>,
    /// The range ends with this key, which belongs to it.
    through: Option<Vec<u8>>,
    is_empty: bool,
}

impl Span {
    /// The keys between two ends, in the order of `icmp` without timestamps.
    pub(crate) fn new(icmp: &InternalKeyComparator, ends: (Bound<Vec<u8>>, Bound<Vec<u8>>)) -> Span {
        // In byte order, the next key is the same key with a zero byte appended.
        let has_next = icmp.user_comparator().order() == KeyOrder::Bytewise;
        let mut span = Span::default();
        match ends.0 {
            Bound::Unbounded => {}
            Bound::Included(key) => span.lower = Some(key),
            Bound::Excluded(key) if has_next => span.lower = Some(next_key(key)),
            Bound::Excluded(key) => {
                span.lower = Some(key.clone());
                span.after = Some(key);
            }
        }
        match ends.1 {
            Bound::Unbounded => {}
            Bound::Excluded(key) => span.upper = Some(key),
            Bound::Included(key) if has_next => span.upper = Some(next_key(key)),
            Bound::Included(key) => span.through = Some(key),
        }
        let ends_at = |end: &Option<Vec<u8>>| match (&span.lower, end) {
            (Some(lower), Some(end)) => Some(icmp.compare_user_keys(lower, end)),
            _ => None,
        };
        span.is_empty = ends_at(&span.upper).is_some_and(|order| order.is_ge())
            || ends_at(&span.through).is_some_and(|order| order.is_gt());
        span
    }

    /// Whether the range ends before it begins.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Replaces the bounds in a cursor's options.
    pub(crate) fn bound(&self, options: &mut ReadOptions) {
        options.iterate_lower_bound.clone_from(&self.lower);
        options.iterate_upper_bound.clone_from(&self.upper);
    }

    /// Moves to the first key of the range, within the cursor's bounds.
    pub(super) fn enter(&self, cursor: &mut impl EntryCursor) {
        cursor.seek_to_first();
        if let Some(after) = &self.after
            && cursor.valid()
            && cursor.compare(cursor.key(), after).is_eq()
        {
            cursor.next();
        }
    }

    /// Moves to the last key of the range, within the cursor's bounds.
    pub(super) fn enter_back(&self, cursor: &mut impl EntryCursor) {
        match &self.through {
            Some(through) => cursor.seek_for_prev(through),
            None => cursor.seek_to_last(),
        }
    }

    /// Whether the range ends at or behind the cursor's key.
    #[inline]
    pub(super) fn ends_behind(&self, cursor: &impl EntryCursor) -> bool {
        self.through.as_ref().is_none_or(|through| cursor.compare(cursor.key(), through).is_le())
    }

    /// Whether the range begins at or before the cursor's key.
    #[inline]
    pub(super) fn begins_before(&self, cursor: &impl EntryCursor) -> bool {
        self.after.as_ref().is_none_or(|after| cursor.compare(cursor.key(), after).is_gt())
    }
}

fn next_key(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

/// The keys that begin with `prefix`.
/// # Errors
/// `InvalidArgument` in an order that does not determine the place of keys with a prefix.
pub(crate) fn prefix_span(icmp: &InternalKeyComparator, prefix: &[u8]) -> Result<Span> {
    let behind = behind_prefix(prefix);
    let ends = match icmp.user_comparator().order() {
        KeyOrder::Bytewise => {
            (Bound::Included(prefix.to_vec()), behind.map_or(Bound::Unbounded, Bound::Excluded))
        }
        // In this order a prefix sorts behind its extensions.
        KeyOrder::ReverseBytewise => {
            (behind.map_or(Bound::Unbounded, Bound::Excluded), Bound::Included(prefix.to_vec()))
        }
        KeyOrder::Custom => {
            return Err(Error::invalid_argument(format!(
                "prefix: the comparator '{}' does not say where keys with a prefix lie; use range",
                icmp.user_comparator().name()
            )));
        }
    };
    Ok(Span::new(icmp, ends))
}

/// The first string of bytes behind all that begin with `prefix`; `None` if there is none.
fn behind_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xFF)?;
    let mut behind = prefix[..=last].to_vec();
    behind[last] += 1;
    Some(behind)
}
