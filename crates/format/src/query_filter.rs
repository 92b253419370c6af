//! Query filters: a table's property that tells which ranges of keys the table may have.
//!
//! In: a table's user keys in order, split into segments by an extractor. Out: the property's
//! bytes; for such bytes and a range of keys, whether the table may have a key in the range.
//! Page: `docs/format/query-filter.md`.
//!
//! Invariants
//!  1. A property that is damaged, of another version, or by an unknown extractor means "may have".
//!  2. A filter whose keys are out of order in their segments is left out of the property.
//!  3. A search looks at each byte of the property at most once, and nests at most `MAX_DEPTH`
//!     calls.
//!
//! Source of the semantics: RocksDB `include/rocksdb/experimental.h`, `db/experimental.cc`.

mod build;
mod segments;

pub use build::QueryFilterBuilder;
pub use segments::{
    CappedKeySegmentsExtractor, KeyCategory, KeyCategorySet, KeyKind, KeySegments, KeySegmentsExtractor,
};

use esker_base::coding::Decoder;
use esker_base::{Error, Result};

/// The property's name.
pub const NAME: &[u8] = b"rocksdb.sqfc";

const SCHEMA_VERSION: u8 = 1;
const EXTRACTOR_AND_CATEGORIES: u8 = 0x01;
const CATEGORY_SCOPE: u8 = 0x02;
const BYTEWISE_MIN_MAX: u8 = 0x10;
const REVERSE_BYTEWISE_MIN_MAX: u8 = 0x11;
/// Flag of a filter: keys without these segments were added.
const EMPTY_SEEN: u8 = 1;
/// Most wrappers around a filter. RocksDB writes two.
const MAX_DEPTH: u32 = 8;

/// The part of a key that a filter is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FilterInput {
    /// The user key: RocksDB's `SelectWholeKey`.
    WholeKey,
    /// The segment of this number, from 0: RocksDB's `SelectKeySegment`.
    KeySegment(u16),
    /// Segments from the first number to the second, both included, as one string: RocksDB's
    /// `SelectKeySegmentRange`.
    KeySegmentRange(u8, u8),
}

impl FilterInput {
    /// The byte that stands for it.
    /// # Errors
    /// `InvalidArgument`: no byte stands for segments of these numbers.
    fn encode(self) -> Result<u8> {
        match self {
            FilterInput::WholeKey => Ok(0),
            FilterInput::KeySegment(index @ 0..16) => Ok(0x10 | index.to_le_bytes()[0]),
            FilterInput::KeySegmentRange(from @ 0..6, to @ 0..6) if from < to => {
                Ok(0x20 | ((to - 1) * to / 2 + from))
            }
            FilterInput::KeySegmentRange(0, 6) => Ok(0x2F),
            other => Err(Error::invalid_argument(format!("no query filter can have the input {other:?}"))),
        }
    }

    /// The input that the byte stands for; `None` if it is unknown.
    fn decode(byte: u8) -> Option<FilterInput> {
        match (byte >> 4, byte & 0x0F) {
            (0, 0) => Some(FilterInput::WholeKey),
            (1, index) => Some(FilterInput::KeySegment(u16::from(index))),
            (2, place) => {
                let to = (1..=6).rev().find(|to| (to - 1) * to / 2 <= place)?;
                Some(FilterInput::KeySegmentRange(place - (to - 1) * to / 2, to))
            }
            _ => None,
        }
    }

    /// This part of a key, and the bytes before it. Of a part that is empty or absent, the bytes
    /// before it are the whole key.
    fn select<'k>(self, key: &'k [u8], segments: &KeySegments) -> (&'k [u8], &'k [u8]) {
        let place = match self {
            FilterInput::WholeKey => Some((0, key.len())),
            FilterInput::KeySegment(index) => segments.place(usize::from(index), usize::from(index)),
            FilterInput::KeySegmentRange(from, to) => segments.place(usize::from(from), usize::from(to)),
        };
        match place.and_then(|(start, end)| Some((key.get(start..end)?, key.get(..start)?))) {
            Some((part, before)) if !part.is_empty() => (part, before),
            _ => (&[], key),
        }
    }
}

/// A filter that keeps the smallest and the largest value of a part of the keys, in the order of
/// their bytes. Keys without this part are kept apart.
#[derive(Clone, Debug)]
pub struct SstQueryFilterConfig {
    input: FilterInput,
    categories: KeyCategorySet,
    reverse: bool,
}

impl SstQueryFilterConfig {
    /// A filter for bytewise comparators, over keys of these categories: RocksDB's
    /// `MakeSharedBytewiseMinMaxSQFC`.
    ///
    /// ```
    /// use esker_format::query_filter::{FilterInput, KeyCategorySet, SstQueryFilterConfig};
    ///
    /// let second = FilterInput::KeySegment(1);
    /// SstQueryFilterConfig::bytewise_min_max(second, KeyCategorySet::ALL)?;
    /// let far = FilterInput::KeySegment(16);
    /// assert!(SstQueryFilterConfig::reverse_bytewise_min_max(far, KeyCategorySet::ALL).is_err());
    /// # Ok::<_, esker_base::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: a segment above 15; a range of segments that goes beyond 5 (from 0:
    /// beyond 6), or has only one segment.
    pub fn bytewise_min_max(input: FilterInput, categories: KeyCategorySet) -> Result<SstQueryFilterConfig> {
        input.encode()?;
        Ok(SstQueryFilterConfig { input, categories, reverse: false })
    }

    /// [`bytewise_min_max`](Self::bytewise_min_max) for the reverse bytewise comparator: RocksDB's
    /// `MakeSharedReverseBytewiseMinMaxSQFC`.
    /// # Errors
    /// `InvalidArgument`: a segment above 15; a range of segments that goes beyond 5 (from 0:
    /// beyond 6), or has only one segment.
    pub fn reverse_bytewise_min_max(
        input: FilterInput,
        categories: KeyCategorySet,
    ) -> Result<SstQueryFilterConfig> {
        input.encode()?;
        Ok(SstQueryFilterConfig { input, categories, reverse: true })
    }
}

/// A range of keys for which filters are asked: from `lower`, included, to `upper`, excluded, in
/// the order of the family's comparator.
#[derive(Clone, Copy, Debug)]
pub struct QueryRange<'a> {
    /// The lower bound.
    pub lower: &'a [u8],
    /// The upper bound.
    pub upper: &'a [u8],
}

/// The segments of a range's bounds.
struct Bounds {
    lower: KeySegments,
    upper: KeySegments,
}

impl Bounds {
    /// The category of both bounds; `None` if they have different ones.
    fn category(&self) -> Option<KeyCategory> {
        (self.lower.category == self.upper.category).then_some(self.lower.category)
    }
}

/// A filter's answer: whether the table may have a key, or `None` if the filter does not know.
type Verdict = Option<bool>;

impl QueryRange<'_> {
    /// Whether a table with this property may have a key in the range. `extractor` finds the
    /// extractor of an id.
    pub fn may_match<'e>(
        &self,
        property: &[u8],
        extractor: impl Fn(&[u8]) -> Option<&'e dyn KeySegmentsExtractor>,
    ) -> bool {
        match property.split_first() {
            Some((&SCHEMA_VERSION, filters)) => {
                self.filters(filters, &extractor, None, MAX_DEPTH).unwrap_or(true)
            }
            _ => true,
        }
    }

    /// Whether all filters of a list say that the table may have a key.
    fn filters<'e>(
        &self,
        list: &[u8],
        extractor: &dyn Fn(&[u8]) -> Option<&'e dyn KeySegmentsExtractor>,
        bounds: Option<&Bounds>,
        depth: u32,
    ) -> Verdict {
        let depth = depth.checked_sub(1)?;
        let mut list = Decoder::new(list);
        let count = list.varint64().ok()?;
        for place in 1..=count {
            let filter = if place == count {
                list.rest()
            } else {
                let length = list.varint64().ok().filter(|length| *length > 0)?;
                list.bytes(usize::try_from(length).ok()?).ok()?
            };
            let (kind, body) = filter.split_first()?;
            let may_match = match *kind {
                EXTRACTOR_AND_CATEGORIES => self.by_extractor(body, extractor, depth),
                CATEGORY_SCOPE => self.in_categories(body, extractor, bounds?, depth),
                BYTEWISE_MIN_MAX => self.min_max(body, bounds?, false),
                REVERSE_BYTEWISE_MIN_MAX => self.min_max(body, bounds?, true),
                // A filter of a later release.
                _ => None,
            };
            if may_match == Some(false) {
                return Some(false);
            }
        }
        Some(true)
    }

    /// Filters over the segments of one extractor, and the categories of all keys.
    fn by_extractor<'e>(
        &self,
        body: &[u8],
        extractor: &dyn Fn(&[u8]) -> Option<&'e dyn KeySegmentsExtractor>,
        depth: u32,
    ) -> Verdict {
        // An id, categories and a filter have a byte at least, and so has the id's length.
        let mut body = Decoder::new(Some(body).filter(|body| body.len() >= 4)?);
        let length = usize::try_from(body.varint64().ok()?).ok().filter(|length| *length > 0)?;
        let own = extractor(body.bytes(length).ok()?)?;
        let bounds = Bounds {
            lower: KeySegments::of(own, self.lower, KeyKind::InclusiveLowerBound).ok()?,
            upper: KeySegments::of(own, self.upper, KeyKind::ExclusiveUpperBound).ok()?,
        };
        let categories = KeyCategorySet::from_bits(body.varint64().ok()?);
        // Keys between bounds of one category are in this category.
        if bounds.category().is_some_and(|category| !categories.contains(category)) {
            return Some(false);
        }
        self.filters(body.rest(), extractor, Some(&bounds), depth)
    }

    /// Filters over keys of some categories; keys of others are not in them.
    fn in_categories<'e>(
        &self,
        body: &[u8],
        extractor: &dyn Fn(&[u8]) -> Option<&'e dyn KeySegmentsExtractor>,
        bounds: &Bounds,
        depth: u32,
    ) -> Verdict {
        let category = bounds.category()?;
        let mut body = Decoder::new(body);
        let categories = KeyCategorySet::from_bits(body.varint64().ok()?);
        if !categories.contains(category) {
            return None;
        }
        self.filters(body.rest(), extractor, Some(bounds), depth)
    }

    /// A smallest and a largest part.
    fn min_max(&self, body: &[u8], bounds: &Bounds, reverse: bool) -> Verdict {
        let mut body = Decoder::new(body);
        let has_empty = body.u8().ok()? & EMPTY_SEEN != 0;
        let input = FilterInput::decode(body.u8().ok()?)?;
        let length = usize::try_from(body.varint32().ok()?).ok()?;
        let smallest = body.bytes(length).ok()?;
        let largest = Some(body.rest()).filter(|largest| !largest.is_empty())?;
        let (lower, before_lower) = input.select(self.lower, &bounds.lower);
        let (upper, before_upper) = input.select(self.upper, &bounds.upper);
        if before_lower != before_upper {
            // Keys of the range differ in front of the part, and may have any part.
            return None;
        }
        if has_empty && lower.is_empty() {
            return Some(true);
        }
        Some(if reverse {
            upper <= smallest && lower >= largest
        } else {
            upper >= smallest && lower <= largest
        })
    }
}

#[cfg(test)]
mod tests;
