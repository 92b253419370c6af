//! Segments of keys: parts by which filters know a range of keys.

use esker_base::{Error, Result};
use std::fmt;

/// A class of keys. Keys of a class lie side by side in the order of the family.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct KeyCategory(
    /// 0 to 63, or one of the errors.
    pub u8,
);

impl KeyCategory {
    /// The class of keys that an extractor does not classify.
    pub const DEFAULT: KeyCategory = KeyCategory(0);
    /// A class for keys before the usual ones.
    pub const RESERVED_LOW: KeyCategory = KeyCategory(62);
    /// A class for keys behind the usual ones. The largest class.
    pub const RESERVED_HIGH: KeyCategory = KeyCategory(63);
    /// An unexpected key: its table has no filters.
    pub const ERROR_FILTER_SCOPE: KeyCategory = KeyCategory(253);
    /// An unexpected key; treated as `ERROR_FILTER_SCOPE`, as RocksDB does.
    pub const ERROR_FILE_SCOPE: KeyCategory = KeyCategory(254);
    /// An unexpected key; treated as `ERROR_FILTER_SCOPE`, as RocksDB does.
    pub const ERROR_DB_SCOPE: KeyCategory = KeyCategory(255);
}

/// A set of classes.
///
/// ```
/// use esker_format::query_filter::{KeyCategory, KeyCategorySet};
///
/// let some = KeyCategorySet::of([KeyCategory(1), KeyCategory(5)]);
/// assert!(some.contains(KeyCategory(5)) && !some.contains(KeyCategory::DEFAULT));
/// assert!(KeyCategorySet::ALL.contains(KeyCategory::RESERVED_HIGH));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeyCategorySet(u64);

impl KeyCategorySet {
    /// All classes.
    pub const ALL: KeyCategorySet = KeyCategorySet(u64::MAX);

    /// The set of these classes; errors are not in it.
    pub fn of(categories: impl IntoIterator<Item = KeyCategory>) -> KeyCategorySet {
        categories.into_iter().fold(KeyCategorySet::default(), |mut set, category| {
            set.add(category);
            set
        })
    }

    /// The set whose bit N says whether class N is in it.
    pub(super) fn from_bits(bits: u64) -> KeyCategorySet {
        KeyCategorySet(bits)
    }

    pub(super) fn bits(self) -> u64 {
        self.0
    }

    /// Whether the class is in the set.
    pub fn contains(self, category: KeyCategory) -> bool {
        1u64.checked_shl(u32::from(category.0)).is_some_and(|bit| self.0 & bit != 0)
    }

    /// Adds a class. Tells whether it was missing.
    pub fn add(&mut self, category: KeyCategory) -> bool {
        let bit = 1u64.checked_shl(u32::from(category.0)).unwrap_or(0);
        let is_new = self.0 & bit == 0;
        self.0 |= bit;
        is_new
    }
}

/// The use of a key that an extractor splits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyKind {
    /// A user key of a table.
    FullUserKey,
    /// The lower bound of a search, included.
    InclusiveLowerBound,
    /// The upper bound of a search, excluded.
    ExclusiveUpperBound,
}

/// The segments of a key, and its class. Segment 0 begins at byte 0, each other one where the one
/// before ends. Behind the last segment, empty ones follow without end.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeySegments {
    /// The end of each segment, excluded: ascending, at most the length of the key.
    pub segment_ends: Vec<u32>,
    /// The class.
    pub category: KeyCategory,
}

impl KeySegments {
    /// The segments that an extractor finds.
    /// # Errors
    /// `Corruption`: it reports an error, a class above 63, or segments that are no parts of the
    /// key.
    pub(super) fn of(extractor: &dyn KeySegmentsExtractor, key: &[u8], kind: KeyKind) -> Result<KeySegments> {
        let mut segments = KeySegments::default();
        extractor.extract(key, kind, &mut segments);
        let is_part = |end: &u32| usize::try_from(*end).is_ok_and(|end| end <= key.len());
        if segments.category > KeyCategory::RESERVED_HIGH {
            let why = format!("Extractor returned error category from key 0x{}", hex(key));
            return Err(Error::corruption(why));
        }
        if !segments.segment_ends.is_sorted() || !segments.segment_ends.iter().all(is_part) {
            let why = format!("Extractor returned segments out of bounds of key 0x{}", hex(key));
            return Err(Error::corruption(why));
        }
        Ok(segments)
    }

    /// Begin and end of the segments from number `from` to number `to`; `None` if there are none.
    pub(super) fn place(&self, from: usize, to: usize) -> Option<(usize, usize)> {
        let ends = &self.segment_ends;
        let last = ends.len().checked_sub(1).filter(|last| from <= *last)?;
        let start = if from == 0 { 0 } else { *ends.get(from - 1)? };
        let end = *ends.get(to.min(last))?;
        Some((usize::try_from(start).ok()?, usize::try_from(end).ok()?))
    }
}

/// Splits keys into segments.
///
/// The bytes in front of a byte decide its segment, not the byte itself or later ones. So segments
/// are in order among keys that agree up to them, and filters are right under bytewise comparators
/// of both directions. A segment of at most N bytes, or up to a delimiter and with it, has this
/// property; one of exactly N bytes has not.
///
/// ```
/// use esker_format::query_filter::{KeyKind, KeySegments, KeySegmentsExtractor};
///
/// /// A segment up to the first colon, and another with all that follows.
/// struct Colon;
///
/// impl KeySegmentsExtractor for Colon {
///     fn name(&self) -> &str {
///         "Colon"
///     }
///     fn extract(&self, key: &[u8], _: KeyKind, segments: &mut KeySegments) {
///         let end = key.iter().position(|byte| *byte == b':').map_or(key.len(), |at| at + 1);
///         segments.segment_ends = vec![end as u32, key.len() as u32];
///     }
/// }
/// ```
pub trait KeySegmentsExtractor: Send + Sync {
    /// Name of the class of extractors.
    fn name(&self) -> &str;
    /// Name of this extractor's results. Tables name it, and are read by an extractor with the same
    /// id: another behaviour needs another id.
    fn id(&self) -> String {
        self.name().to_owned()
    }
    /// Sets the segments of a key or bound. `segments` is empty at the call.
    fn extract(&self, key_or_bound: &[u8], kind: KeyKind, segments: &mut KeySegments);
}

impl fmt::Debug for dyn KeySegmentsExtractor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeySegmentsExtractor({})", self.id())
    }
}

/// Segments of at most these numbers of bytes: RocksDB's `MakeSharedCappedKeySegmentsExtractor`. A
/// short key cuts its last segments.
///
/// ```
/// use esker_format::query_filter::{
///     CappedKeySegmentsExtractor, KeyKind, KeySegments, KeySegmentsExtractor,
/// };
///
/// let extractor = CappedKeySegmentsExtractor::new(&[2, 4])?;
/// assert_eq!(extractor.id(), "CappedKeySegmentsExtractor2b4b");
/// let mut segments = KeySegments::default();
/// extractor.extract(b"abcde", KeyKind::FullUserKey, &mut segments);
/// assert_eq!(segments.segment_ends, [2, 5]);
/// # Ok::<_, esker_base::Error>(())
/// ```
#[derive(Debug)]
pub struct CappedKeySegmentsExtractor {
    ends: Vec<u32>,
    id: String,
}

impl CappedKeySegmentsExtractor {
    /// An extractor of segments with at most these numbers of bytes.
    /// # Errors
    /// `InvalidArgument`: a width above 2^31 - 1, or 2^32 or more bytes together.
    pub fn new(byte_widths: &[usize]) -> Result<CappedKeySegmentsExtractor> {
        let mut id = CAPPED.to_owned();
        let mut ends = Vec::with_capacity(byte_widths.len());
        let mut end = 0u32;
        for width in byte_widths {
            let checked = u32::try_from(*width).ok().filter(|width| *width <= u32::MAX / 2);
            end = checked.and_then(|width| end.checked_add(width)).ok_or_else(|| {
                Error::invalid_argument(format!("byte_widths: {width} bytes make a segment too large"))
            })?;
            ends.push(end);
            id.push_str(&format!("{width}b"));
        }
        Ok(CappedKeySegmentsExtractor { ends, id })
    }
}

const CAPPED: &str = "CappedKeySegmentsExtractor";

impl KeySegmentsExtractor for CappedKeySegmentsExtractor {
    fn name(&self) -> &str {
        CAPPED
    }
    fn id(&self) -> String {
        self.id.clone()
    }
    fn extract(&self, key_or_bound: &[u8], _kind: KeyKind, segments: &mut KeySegments) {
        let length = u32::try_from(key_or_bound.len()).unwrap_or(u32::MAX);
        segments.segment_ends.extend(self.ends.iter().map(|end| length.min(*end)));
    }
}

/// Bytes in upper-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}
