use super::*;
use esker_base::sync::Arc;

/// A class for each first byte from `a`, and segments of at most two bytes.
struct ByFirstByte;

impl KeySegmentsExtractor for ByFirstByte {
    fn name(&self) -> &str {
        "ByFirstByte"
    }
    fn extract(&self, key: &[u8], _: KeyKind, segments: &mut KeySegments) {
        let length = key.len() as u32;
        segments.segment_ends = vec![length.min(2), length.min(4)];
        segments.category = match key.first() {
            Some(b'!') => KeyCategory::ERROR_FILTER_SCOPE,
            Some(first @ b'a'..=b'z') => KeyCategory(first - b'a'),
            _ => KeyCategory::RESERVED_LOW,
        };
    }
}

fn capped() -> Arc<dyn KeySegmentsExtractor> {
    Arc::new(CappedKeySegmentsExtractor::new(&[2, 2]).unwrap())
}

fn config(input: FilterInput) -> SstQueryFilterConfig {
    SstQueryFilterConfig::bytewise_min_max(input, KeyCategorySet::ALL).unwrap()
}

fn build(
    extractor: &Arc<dyn KeySegmentsExtractor>,
    configs: &[SstQueryFilterConfig],
    keys: &[&str],
) -> Result<Option<Vec<u8>>> {
    let mut builder = QueryFilterBuilder::new(Some(extractor.clone()), configs);
    keys.iter().for_each(|key| builder.add(key.as_bytes()));
    builder.finish()
}

fn finds(extractor: &Arc<dyn KeySegmentsExtractor>, property: &[u8], lower: &str, upper: &str) -> bool {
    let range = QueryRange { lower: lower.as_bytes(), upper: upper.as_bytes() };
    range.may_match(property, |id| (id == extractor.id().as_bytes()).then_some(&**extractor))
}

#[test]
fn the_property_has_the_bytes_of_the_page() {
    let property = build(&capped(), &[config(FilterInput::KeySegment(1))], &["ab12", "ab34"]);
    let expected =
        [b"\x01\x01\x01\x1eCappedKeySegmentsExtractor2b2b\x01\x01".as_slice(), b"\x10\x00\x11\x021234"];
    assert_eq!(property.unwrap().unwrap(), expected.concat());
}

#[test]
fn lengths_stand_before_all_filters_but_the_last() {
    let filters = [config(FilterInput::WholeKey), config(FilterInput::KeySegmentRange(0, 1))];
    let property = build(&capped(), &filters, &["", "ab1234"]).unwrap().unwrap();
    let behind = &property[35..];
    assert_eq!(behind, b"\x02\x10\x10\x01\x00\x06ab1234ab1234\x10\x01\x20\x04ab12ab12");
}

#[test]
fn ranges_outside_of_a_segments_values_are_left_out() {
    let own = capped();
    let property = build(&own, &[config(FilterInput::KeySegment(1))], &["aa30", "ab40", "ab50"]);
    let property = property.unwrap().unwrap();
    for (lower, upper, expected) in [
        ("ab51", "ab99", false),
        ("zz10", "zz29", false),
        ("zz10", "zz30", true),
        ("aa5", "aa6", true),
        ("aa50", "aa6", true),
        ("ab5", "ac", true),
        ("ab", "ab29", false),
        ("ab", "ab3", false),
    ] {
        assert_eq!(finds(&own, &property, lower, upper), expected, "{lower} to {upper}");
    }
    let other: Arc<dyn KeySegmentsExtractor> = Arc::new(ByFirstByte);
    assert!(finds(&other, &property, "ab51", "ab99"), "the extractor is unknown");
}

#[test]
fn a_key_without_the_segment_is_kept_apart_from_the_smallest_value() {
    let own = capped();
    let property = build(&own, &[config(FilterInput::KeySegment(1))], &["ab", "ab50"]).unwrap().unwrap();
    assert!(finds(&own, &property, "ab", "ab2"));
    assert!(!finds(&own, &property, "ab1", "ab2"));
    assert!(!finds(&own, &property, "ab6", "ab7"));
}

#[test]
fn a_reverse_filter_takes_bounds_and_keys_in_reverse() {
    let own = capped();
    let reverse = SstQueryFilterConfig::reverse_bytewise_min_max(
        FilterInput::KeySegmentRange(0, 1),
        KeyCategorySet::ALL,
    );
    let property = build(&own, &[reverse.unwrap()], &["ab50", "ab30"]).unwrap().unwrap();
    assert_eq!(property[35..], *b"\x01\x11\x00\x20\x04ab50ab30");
    assert!(finds(&own, &property, "ab60", "ab40"));
    assert!(!finds(&own, &property, "ab99", "ab51"));
    assert!(!finds(&own, &property, "ab29", "ab10"));
}

#[test]
fn a_class_without_keys_is_left_out_and_so_is_a_filter_of_other_classes() {
    let own: Arc<dyn KeySegmentsExtractor> = Arc::new(ByFirstByte);
    let of_b = KeyCategorySet::of([KeyCategory(1)]);
    let filter = SstQueryFilterConfig::bytewise_min_max(FilterInput::WholeKey, of_b).unwrap();
    let property = build(&own, &[filter], &["a1", "a9", "b5", "c1"]).unwrap().unwrap();
    let tail = [b"\x07\x01\x02\x02\x01\x10\x00\x00\x02b5b5".as_slice()].concat();
    assert!(property.ends_with(&tail), "{property:x?}");
    for (lower, upper, expected) in
        [("d", "d9", false), ("b6", "b9", false), ("b1", "b9", true), ("a2", "a3", true), ("b6", "c", true)]
    {
        assert_eq!(finds(&own, &property, lower, upper), expected, "{lower} to {upper}");
    }
    assert!(finds(&own, &property, "!", "d9"), "the extractor refuses a bound");
}

#[test]
fn keys_out_of_order_cost_their_filter_or_all_filters() {
    let own = capped();
    let filters = [config(FilterInput::KeySegment(1)), config(FilterInput::KeySegment(0))];
    let property = build(&own, &filters, &["ab50", "ab30"]).unwrap().unwrap();
    assert_eq!(property[35..], *b"\x01\x10\x00\x10\x02abab", "only the second filter is in order");
    assert_eq!(build(&own, &filters[..1], &["ab50", "ab30"]).unwrap(), None);
    assert_eq!(build(&own, &filters, &[]).unwrap(), None);

    let own: Arc<dyn KeySegmentsExtractor> = Arc::new(ByFirstByte);
    let text = |keys: &[&str]| build(&own, &filters, keys).unwrap_err().to_string();
    assert!(
        text(&["a1", "b1", "a2"]).contains("Category ordering invariant violated from key 0x6231 to 0x6132")
    );
    assert!(text(&["a1", "!1"]).contains("Extractor returned error category from key 0x2131"));
}

#[test]
fn every_input_that_has_a_byte_is_read_back() {
    let mut bytes: Vec<u8> = Vec::new();
    let ranges = (0..8).flat_map(|from| (0..8).map(move |to| FilterInput::KeySegmentRange(from, to)));
    for input in (0..20).map(FilterInput::KeySegment).chain(ranges).chain([FilterInput::WholeKey]) {
        let Ok(byte) = input.encode() else { continue };
        assert_eq!(FilterInput::decode(byte), Some(input));
        bytes.push(byte);
    }
    bytes.sort_unstable();
    let expected: Vec<u8> = [0].into_iter().chain(0x10..0x30).collect();
    assert_eq!(bytes, expected);
    assert!((0..=u8::MAX).filter(|byte| FilterInput::decode(*byte).is_some()).eq(expected));
}

/// RocksDB 11 reads the range as segments 0 to 6, and excludes all three.
#[test]
fn a_range_of_segments_is_read_as_it_was_written() {
    let own: Arc<dyn KeySegmentsExtractor> = Arc::new(CappedKeySegmentsExtractor::new(&[1; 4]).unwrap());
    let keys = ["a501", "a509"];
    let property = build(&own, &[config(FilterInput::KeySegmentRange(1, 2))], &keys).unwrap().unwrap();
    assert!(property.ends_with(b"\x10\x00\x22\x025050"));
    assert!(finds(&own, &property, "a40", "a51"));
    assert!(!finds(&own, &property, "a51", "a60"));
    assert!(finds(&own, &property, "a500", "a505"));
}

#[test]
fn damaged_properties_and_deep_ones_may_match() {
    let own = capped();
    let property = build(&own, &[config(FilterInput::KeySegment(1))], &["ab40", "ab50"]).unwrap().unwrap();
    assert!(!finds(&own, &property, "ab1", "ab2"));
    for cut in 0..property.len() - 1 {
        assert!(finds(&own, &property[..cut], "ab1", "ab2"), "{cut} bytes");
    }
    let mut other = property.clone();
    other[0] = 2;
    assert!(finds(&own, &other, "ab1", "ab2"), "another version");
    let mut reserved = property.clone();
    reserved[38] = 1;
    assert!(finds(&own, &reserved, "ab1", "ab2"), "an input of a later release");

    // Scopes inside of scopes.
    let nested = |depth: usize| {
        let scopes = b"\x02\x01\x01".repeat(depth);
        let inner = &property[36..];
        [&property[..36], &scopes, inner].concat()
    };
    assert!(!finds(&own, &nested(6), "ab1", "ab2"));
    assert!(finds(&own, &nested(7), "ab1", "ab2"));
    assert!(finds(&own, &nested(100_000), "ab1", "ab2"));
}

#[test]
fn widths_that_overflow_are_refused() {
    for widths in [vec![1 << 31], vec![(1 << 31) - 1; 3]] {
        assert!(CappedKeySegmentsExtractor::new(&widths).is_err(), "{widths:?}");
    }
    assert_eq!(CappedKeySegmentsExtractor::new(&[]).unwrap().id(), "CappedKeySegmentsExtractor");
    let seven = CappedKeySegmentsExtractor::new(&[1; 7]).unwrap();
    let mut segments = KeySegments::default();
    seven.extract(b"abc", KeyKind::FullUserKey, &mut segments);
    assert_eq!(segments.segment_ends, [1, 2, 3, 3, 3, 3, 3]);
}
