//! Any bytes as a property: a search ends, and bytes that are cut off never exclude a table. The
//! property of any keys: each range that holds one of them finds the table.

use esker_base::sync::Arc;
use esker_format::query_filter::{
    FilterInput, KeyCategory, KeyCategorySet, KeyKind, KeySegments, KeySegmentsExtractor, QueryFilterBuilder,
    QueryRange, SstQueryFilterConfig,
};

/// Segments of at most one, two and two bytes; the class is in the first two bits.
struct Extractor;

impl KeySegmentsExtractor for Extractor {
    fn name(&self) -> &str {
        "Extractor"
    }
    fn extract(&self, key: &[u8], _: KeyKind, segments: &mut KeySegments) {
        let ends = [1, 3, 5].map(|end: usize| end.min(key.len()) as u32);
        segments.segment_ends.extend(ends);
        segments.category = KeyCategory(key.first().map_or(0, |byte| byte >> 6));
    }
}

fn finds(property: &[u8], lower: &[u8], upper: &[u8]) -> bool {
    QueryRange { lower, upper }.may_match(property, |id| match id {
        b"Extractor" => Some(&Extractor as &dyn KeySegmentsExtractor),
        _ => None,
    })
}

fn configs(reverse: bool) -> Vec<SstQueryFilterConfig> {
    let some = KeyCategorySet::of([KeyCategory(1), KeyCategory(2)]);
    let inputs = [
        (FilterInput::WholeKey, KeyCategorySet::ALL),
        (FilterInput::KeySegment(1), KeyCategorySet::ALL),
        (FilterInput::KeySegment(2), some),
        (FilterInput::KeySegmentRange(1, 2), KeyCategorySet::ALL),
    ];
    let config = if reverse {
        SstQueryFilterConfig::reverse_bytewise_min_max
    } else {
        SstQueryFilterConfig::bytewise_min_max
    };
    inputs.into_iter().map(|(input, categories)| config(input, categories).unwrap()).collect()
}

/// Keys of up to seven bytes, in order.
fn keys(data: &[u8], reverse: bool) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    let mut rest = data;
    while let Some((&length, behind)) = rest.split_first() {
        let (key, behind) = behind.split_at(usize::from(length & 7).min(behind.len()));
        keys.push(key.to_vec());
        rest = behind;
    }
    keys.truncate(40);
    keys.sort();
    keys.dedup();
    if reverse {
        keys.reverse();
    }
    keys
}

fn built(data: &[u8], reverse: bool) {
    let keys = keys(data, reverse);
    let (table, bounds): (Vec<_>, Vec<_>) = keys.iter().enumerate().partition(|(i, _)| i % 2 == 0);
    let mut builder = QueryFilterBuilder::new(Some(Arc::new(Extractor)), &configs(reverse));
    table.iter().for_each(|(_, key)| builder.add(key));
    let Some(property) = builder.finish().unwrap() else { return };
    for (lower, from) in &bounds {
        for (upper, to) in &bounds {
            if table.iter().any(|(key, _)| (lower..upper).contains(&key)) {
                assert!(finds(&property, from, to), "{keys:?} from {from:?} to {to:?}");
            }
        }
    }
    for cut in 0..property.len().min(4) {
        assert!(finds(&property[..cut], b"", b""), "a property of {cut} bytes");
    }
}

/// One input.
pub fn run(data: &[u8]) {
    let Some((&kind, bytes)) = data.split_first() else { return };
    match kind & 3 {
        0 => built(bytes, false),
        1 => built(bytes, true),
        _ => {
            let middle = bytes.len() / 2;
            finds(bytes, &bytes[..middle], &bytes[middle..]);
        }
    }
}
