//! Any bytes as a filter, any text as a filter policy; and a filter that was built never denies its
//! keys.

use esker_format::filter::{FilterBitsBuilder, FilterKind, FilterPolicy, FilterReader};

/// One input.
pub fn run(data: &[u8]) {
    let filter = FilterReader::parse(data);
    for key in data.chunks(7).take(32) {
        if !filter.is_useful() {
            assert!(filter.may_match(key));
        }
        filter.may_match(key);
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(Some(policy)) = FilterPolicy::parse(text)
    {
        assert!(policy.bits_per_key() >= 0.0);
    }
    let Some((&bits, keys)) = data.split_first() else { return };
    let mut builder = FilterBitsBuilder::new(FilterKind::FastLocalBloom {
        millibits_per_key: u32::from(bits) * 200 + 1000,
    });
    for key in keys.chunks(5).take(64) {
        builder.add_key(key);
    }
    let built = FilterReader::parse(builder.finish());
    assert!(keys.chunks(5).take(64).all(|key| built.may_match(key)));
}
