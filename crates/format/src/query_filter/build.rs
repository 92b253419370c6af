//! The property's bytes, from the keys of a table.

use super::segments::hex;
use super::{
    BYTEWISE_MIN_MAX, CATEGORY_SCOPE, EMPTY_SEEN, EXTRACTOR_AND_CATEGORIES, KeyCategorySet, KeyKind,
    KeySegments, KeySegmentsExtractor, REVERSE_BYTEWISE_MIN_MAX, SCHEMA_VERSION, SstQueryFilterConfig,
};
use esker_base::coding::{put_varint32, put_varint64};
use esker_base::sync::Arc;
use esker_base::{Error, Result};

/// Collects the filters of one table.
#[derive(Debug)]
pub struct QueryFilterBuilder {
    extractor: Option<Arc<dyn KeySegmentsExtractor>>,
    filters: Vec<MinMaxBuilder>,
    categories: KeyCategorySet,
    /// The key that came last.
    last: Option<(Vec<u8>, KeySegments)>,
    /// The first key that the extractor refused, or that came out of order.
    failure: Option<Error>,
}

impl QueryFilterBuilder {
    /// A builder of these filters, over the segments that the extractor finds. Without an
    /// extractor keys have no segments.
    pub fn new(
        extractor: Option<Arc<dyn KeySegmentsExtractor>>,
        filters: &[SstQueryFilterConfig],
    ) -> QueryFilterBuilder {
        let filters = filters.iter().cloned().map(MinMaxBuilder::new).collect();
        let categories = KeyCategorySet::default();
        QueryFilterBuilder { extractor, filters, categories, last: None, failure: None }
    }

    /// Adds a user key. Keys come in the order of the table.
    pub fn add(&mut self, key: &[u8]) {
        if self.failure.is_none()
            && let Err(failure) = self.try_add(key)
        {
            self.failure = Some(failure);
        }
    }

    fn try_add(&mut self, key: &[u8]) -> Result<()> {
        let mut segments = KeySegments::default();
        if let Some(extractor) = &self.extractor {
            segments = KeySegments::of(&**extractor, key, KeyKind::FullUserKey)?;
            let is_new = self.categories.add(segments.category);
            if let Some((last, before)) = &self.last
                && before.category != segments.category
                && !is_new
            {
                let why = "Category ordering invariant violated from key";
                return Err(Error::corruption(format!("{why} 0x{} to 0x{}", hex(last), hex(key))));
            }
        }
        let last = self.last.as_ref().map(|(last, before)| (last.as_slice(), before));
        self.filters.iter_mut().for_each(|filter| filter.add(key, &segments, last));
        let mut kept = self.last.take().map_or_else(Vec::new, |(last, _)| last);
        kept.clear();
        kept.extend_from_slice(key);
        self.last = Some((kept, segments));
        Ok(())
    }

    /// The property's bytes; `None` if there is nothing to filter by.
    /// # Errors
    /// `Corruption`: the extractor refused a key, or keys of a category did not lie side by side.
    pub fn finish(&self) -> Result<Option<Vec<u8>>> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let filters = self.filters.iter().filter_map(|filter| filter.encode().transpose());
        let filters: Vec<Vec<u8>> = filters.collect::<Result<_>>()?;
        let Some((last, others)) = filters.split_last() else { return Ok(None) };
        let mut out = vec![SCHEMA_VERSION];
        if let Some(extractor) = &self.extractor {
            let id = extractor.id();
            put_varint64(&mut out, 1);
            out.push(EXTRACTOR_AND_CATEGORIES);
            put_varint64(&mut out, id.len() as u64);
            out.extend_from_slice(id.as_bytes());
            put_varint64(&mut out, self.categories.bits());
        }
        put_varint64(&mut out, filters.len() as u64);
        for filter in others {
            put_varint64(&mut out, filter.len() as u64);
            out.extend_from_slice(filter);
        }
        out.extend_from_slice(last);
        Ok(Some(out))
    }
}

/// Smallest and largest part of the keys.
#[derive(Debug)]
struct MinMaxBuilder {
    config: SstQueryFilterConfig,
    /// Empty until a key has this part, as `largest`.
    smallest: Vec<u8>,
    largest: Vec<u8>,
    has_empty: bool,
    /// Whether each part came behind the one before, among keys that agree in front of it.
    is_ordered: bool,
}

impl MinMaxBuilder {
    fn new(config: SstQueryFilterConfig) -> MinMaxBuilder {
        MinMaxBuilder {
            config,
            smallest: Vec::new(),
            largest: Vec::new(),
            has_empty: false,
            is_ordered: true,
        }
    }

    fn add(&mut self, key: &[u8], segments: &KeySegments, last: Option<(&[u8], &KeySegments)>) {
        let SstQueryFilterConfig { input, categories, reverse } = self.config;
        if !categories.contains(segments.category) {
            return;
        }
        let (part, before) = input.select(key, segments);
        if let Some((last, segments)) = last {
            let (last_part, last_before) = input.select(last, segments);
            let is_wrong = if reverse { last_part < part } else { last_part > part };
            if last_before == before && is_wrong {
                self.is_ordered = false;
                return;
            }
        }
        if part.is_empty() {
            self.has_empty = true;
        } else if self.largest.is_empty() {
            self.smallest = part.to_vec();
            self.largest = part.to_vec();
        } else if part > self.largest.as_slice() {
            part.clone_into(&mut self.largest);
        } else if part < self.smallest.as_slice() {
            part.clone_into(&mut self.smallest);
        }
    }

    /// The filter's bytes; `None` if it would not filter.
    fn encode(&self) -> Result<Option<Vec<u8>>> {
        let SstQueryFilterConfig { input, categories, reverse } = self.config;
        if !self.is_ordered || self.largest.is_empty() {
            return Ok(None);
        }
        let mut out = Vec::new();
        if categories != KeyCategorySet::ALL {
            out.push(CATEGORY_SCOPE);
            put_varint64(&mut out, categories.bits());
            put_varint64(&mut out, 1);
        }
        out.push(if reverse { REVERSE_BYTEWISE_MIN_MAX } else { BYTEWISE_MIN_MAX });
        out.push(if self.has_empty { EMPTY_SEEN } else { 0 });
        out.push(input.encode()?);
        let (first, second) =
            if reverse { (&self.largest, &self.smallest) } else { (&self.smallest, &self.largest) };
        let length = u32::try_from(first.len());
        put_varint32(&mut out, length.map_err(|_| Error::invalid_argument("a key of 4 GiB or more"))?);
        out.extend_from_slice(first);
        out.extend_from_slice(second);
        Ok(Some(out))
    }
}
