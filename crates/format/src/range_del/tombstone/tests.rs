use super::*;

#[test]
fn stored_form_round_trips() {
    let tombstone = RangeTombstone::new("b", "e", SequenceNumber(0x0102));
    let key = tombstone.internal_key();
    assert_eq!(key, b"b\x0f\x02\x01\0\0\0\0\0");
    assert_eq!(RangeTombstoneRef::parse(&key, b"e").unwrap().to_owned(), tombstone);
}

#[test]
fn other_entries_are_corruption() {
    let value = key::internal_key(b"b", SequenceNumber(1), ValueType::Value);
    assert!(RangeTombstoneRef::parse(&value, b"e").unwrap_err().is_corruption());
    assert!(RangeTombstoneRef::parse(b"short", b"e").unwrap_err().is_corruption());
}

#[test]
fn the_end_is_exclusive() {
    let icmp = InternalKeyComparator::default();
    let tombstone = RangeTombstone::new("b", "e", SequenceNumber(1));
    let covers = |k: &str| tombstone.as_ref().covers(k.as_bytes(), &icmp);
    assert_eq!(["a", "b", "d\x7f", "e"].map(covers), [false, true, true, false]);
    assert!(RangeTombstone::new("e", "e", SequenceNumber(1)).as_ref().is_empty(&icmp));
    assert!(!tombstone.as_ref().is_empty(&icmp));
}
