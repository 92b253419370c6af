//! Any bytes as internal keys: taking apart and putting together, and an order that is one.

use esker_base::SequenceNumber;
use esker_format::key::{InternalKeyComparator, LookupKey, ParsedInternalKey, seek_key, user_key};

/// One input.
pub fn run(data: &[u8]) {
    let Some((&split, rest)) = data.split_first() else { return };
    let (a, b) = rest.split_at(rest.len() * usize::from(split) / 256);
    let icmp = InternalKeyComparator::default();
    assert_eq!(icmp.compare(a, b), icmp.compare(b, a).reverse());
    assert!(icmp.compare(a, a).is_eq());
    for key in [a, b] {
        let Ok(parsed) = ParsedInternalKey::parse(key) else { continue };
        let mut again = Vec::new();
        parsed.append_to(&mut again);
        assert_eq!(again, key);
        assert_eq!(parsed.user_key, user_key(key));
        let newest = seek_key(parsed.user_key, SequenceNumber::MAX);
        let lookup = LookupKey::new(parsed.user_key, parsed.sequence);
        assert_eq!(lookup.sequence(), parsed.sequence);
        assert!(icmp.compare(&newest, lookup.internal_key()).is_le());
    }
}
