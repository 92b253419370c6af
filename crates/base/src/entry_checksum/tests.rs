use super::EntryChecksum;
use crate::types::{ColumnFamilyId, SequenceNumber, ValueType};

fn all(kind: ValueType, family: u32, sequence: u64, key: &[u8], value: &[u8]) -> EntryChecksum {
    let entry = EntryChecksum::of(kind, key, value);
    entry.with_family(ColumnFamilyId(family)).with_sequence(SequenceNumber(sequence))
}

#[test]
fn every_part_counts_and_its_place() {
    let right = all(ValueType::Value, 1, 2, b"key", b"value");
    assert_eq!(all(ValueType::Value, 1, 2, b"key", b"value"), right);
    for wrong in [
        all(ValueType::Merge, 1, 2, b"key", b"value"),
        all(ValueType::Value, 2, 2, b"key", b"value"),
        all(ValueType::Value, 1, 3, b"key", b"value"),
        all(ValueType::Value, 2, 1, b"key", b"value"),
        all(ValueType::Value, 1, 2, b"kez", b"value"),
        all(ValueType::Value, 1, 2, b"key", b"valud"),
        all(ValueType::Value, 1, 2, b"value", b"key"),
        all(ValueType::Value, 1, 2, b"keyv", b"alue"),
    ] {
        assert_ne!(wrong, right);
        assert_ne!(
            wrong.to_bytes()[0],
            right.to_bytes()[0],
            "with this hash one byte distinguishes them, too"
        );
    }
}

#[test]
fn parts_of_a_checksum_can_be_added_and_removed() {
    let entry = EntryChecksum::of(ValueType::Deletion, b"key", b"");
    let (family, sequence) = (ColumnFamilyId(7), SequenceNumber(9));
    let there = entry.with_family(family).with_sequence(sequence).with_kind(ValueType::Merge);
    assert_eq!(there.with_kind(ValueType::Merge).with_sequence(sequence).with_family(family), entry);
}
